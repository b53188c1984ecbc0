//! Kerberos logins through the system's GSSAPI library, which is loaded when the first one is wanted.
//!
//! [`Initiator`] is the client's side of one login: tokens out, tokens in, then the session key, or messages that it
//! signs, seals and checks. Tickets come from where the library looks for them: the ticket cache of `kinit` (`KRB5CCNAME`) or a client keytab
//! (`KRB5_CLIENT_KTNAME`). naslab is built without the library and reads no password for it.

mod advice;
mod library;
mod loader;
mod messages;

use advice::{explain, Asked};
use library::{Api, Buffer, BufferSet, Handle, Oid};
use naslab_core::{limit, Error, ErrorKind, Result};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

/// `GSS_C_MUTUAL_FLAG`, `CONF` and `INTEG`: the server proves itself, too.
const FLAGS: u32 = 0x02 | 0x10 | 0x20;
/// `GSS_C_REPLAY_FLAG` and `SEQUENCE`.
const WATCHED_FLAGS: u32 = 0x04 | 0x08;
const CONTINUE_NEEDED: u32 = 1;
const BY_INITIATOR: i32 = 1;
/// How often a wait for the KDC is looked at.
const TICK: Duration = Duration::from_millis(20);

/// 1.2.840.113554.1.2.2, as DER without its header.
const KERBEROS: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// 1.2.840.113554.1.2.1.4 and .1.
const HOSTBASED_SERVICE: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x01, 0x04];
const USER_NAME: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x01, 0x01];
/// 1.2.840.113554.1.2.2.5.5, `GSS_C_INQ_SSPI_SESSION_KEY_OID`.
const SESSION_KEY: [u8; 11] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x05, 0x05];
/// 1.2.840.113554.1.2.2.4, below which the library names kinds of encryption by their number.
const ENCRYPTION_TYPE: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x04];

/// Who watches that messages come once and in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The library.
    Watched,
    /// The protocol, whose messages overtake each other.
    Free,
}

/// The client's side of one login.
pub struct Initiator {
    api: &'static Api,
    asked: Asked,
    order: Order,
    context: Handle,
    target: Handle,
    credential: Handle,
    complete: bool,
}

// SAFETY: the library's handles belong to no thread; each is used by one thread at a time, as this type is not `Sync`.
unsafe impl Send for Initiator {}

impl Initiator {
    /// A login at `service` (as `cifs`) on `host`, and its first token. `user`: the principal, with `@REALM` or without;
    /// none takes that of the default ticket.
    ///
    /// May ask the realm's KDC for a ticket, no longer than the scope of `limit` allows. Errors: `Unsupported` without
    /// the library, `Permission` without a ticket that the server or the realm would take, `Timeout`.
    pub fn begin(service: &str, host: &str, user: Option<&str>, order: Order) -> Result<(Initiator, Vec<u8>)> {
        let api = Api::get()?;
        let asked = Asked { service: service.into(), host: host.into(), user: user.map(str::to_string) };
        // The library waits for a silent KDC as long as its own configuration says.
        let (report, answer) = channel();
        let work = move || drop(report.send(Initiator::prepare(api, asked, order)));
        let thread = std::thread::Builder::new().name("kerberos".to_string());
        thread.spawn(work).map_err(|e| Error::from_io("connect", e))?;
        loop {
            match answer.recv_timeout(TICK) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) => limit::check("connect").map_err(silent)?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(ErrorKind::Io, "connect", "the Kerberos library ended without an answer"));
                }
            }
        }
    }

    fn prepare(api: &'static Api, asked: Asked, order: Order) -> Result<(Initiator, Vec<u8>)> {
        let (context, target, credential) = (null_mut(), null_mut(), null_mut());
        let mut made = Initiator { api, asked, order, context, target, credential, complete: false };
        let service = format!("{}@{}", made.asked.service, made.asked.host);
        made.target = made.name(&service, &HOSTBASED_SERVICE)?;
        if let Some(user) = made.asked.user.clone() {
            made.credential = made.acquire(&user)?;
        }
        let token = made.step(None)?;
        Ok((made, token))
    }

    fn fail(&self, major: u32, minor: u32) -> Error {
        let text = self.api.text(major, minor);
        explain(&self.asked, major, minor, &text)
    }

    fn name(&self, text: &str, kind: &'static [u8]) -> Result<Handle> {
        let (text, kind) = (Buffer::of(text.as_bytes()), Oid::of(kind));
        let (mut minor, mut name) = (0, null_mut());
        // SAFETY: both descriptions outlive the call, which copies what they describe.
        let major = unsafe { (self.api.import_name)(&mut minor, &text, &kind, &mut name) };
        if major != 0 {
            return Err(self.fail(major, minor));
        }
        Ok(name)
    }

    /// The ticket, or the key of a client keytab, of one principal.
    fn acquire(&self, user: &str) -> Result<Handle> {
        let mut name = self.name(user, &USER_NAME)?;
        let (mut minor, mut ignored, mut credential) = (0, 0, null_mut());
        // SAFETY: `name` is the library's; null stands for its defaults of mechanisms and of what is not wanted.
        let major = unsafe {
            (self.api.acquire_cred)(&mut minor, name, 0, null(), BY_INITIATOR, &mut credential, null_mut(), null_mut())
        };
        // SAFETY: `name` came from `import_name` and is not used again.
        unsafe { (self.api.release_name)(&mut ignored, &mut name) };
        if major != 0 {
            return Err(self.fail(major, minor));
        }
        Ok(credential)
    }

    /// The next token for the server; empty when there is nothing more to send. `token`: the server's answer.
    pub fn step(&mut self, token: Option<&[u8]>) -> Result<Vec<u8>> {
        let input = Buffer::of(token.unwrap_or(&[]));
        let mechanism = Oid::of(&KERBEROS);
        let flags = FLAGS | if self.order == Order::Watched { WATCHED_FLAGS } else { 0 };
        let (mut minor, mut output) = (0, Buffer::EMPTY);
        // SAFETY: the handles are the library's own or null, which it takes for "none yet" and "the default"; the
        // descriptions outlive the call.
        let major = unsafe {
            (self.api.init_sec_context)(
                &mut minor,
                self.credential,
                &mut self.context,
                self.target,
                &mechanism,
                flags,
                0,
                null(),
                &input,
                null_mut(),
                &mut output,
                null_mut(),
                null_mut(),
            )
        };
        let token = self.api.take(&mut output);
        if major & !0xFFFF != 0 {
            return Err(self.fail(major, minor));
        }
        self.complete = major & CONTINUE_NEEDED == 0;
        Ok(token)
    }

    /// Whether both sides have proved who they are.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The key that both sides now share, as long as its kind of encryption makes it (16 or 32 bytes today).
    pub fn session_key(&self) -> Result<Vec<u8>> {
        match self.key_part(0)? {
            key if key.is_empty() => {
                Err(Error::new(ErrorKind::Unsupported, "connect", "the Kerberos library gives no session key"))
            }
            key => Ok(key),
        }
    }

    /// The kind of encryption of that key, as in the Kerberos registry: `aes256-cts-hmac-sha1-96`; `etype N` for one
    /// without a name here, `unknown` where the library does not say.
    pub fn encryption_type(&self) -> Result<String> {
        let oid = self.key_part(1)?;
        let number = match oid.strip_prefix(&ENCRYPTION_TYPE[..]) {
            Some([number]) if *number < 0x80 => *number,
            _ => return Ok("unknown".to_string()),
        };
        Ok(match number {
            17 => "aes128-cts-hmac-sha1-96".to_string(),
            18 => "aes256-cts-hmac-sha1-96".to_string(),
            19 => "aes128-cts-hmac-sha256-128".to_string(),
            20 => "aes256-cts-hmac-sha384-192".to_string(),
            23 => "arcfour-hmac".to_string(),
            25 => "camellia128-cts-cmac".to_string(),
            26 => "camellia256-cts-cmac".to_string(),
            _ => format!("etype {number}"),
        })
    }

    /// What the library says of the key: 0 the key, 1 the OID of its kind of encryption.
    fn key_part(&self, part: usize) -> Result<Vec<u8>> {
        if !self.complete {
            return Err(Error::new(ErrorKind::Protocol, "connect", "the server did not prove who it is"));
        }
        let wanted = Oid::of(&SESSION_KEY);
        let (mut minor, mut ignored, mut set) = (0, 0, null_mut::<BufferSet>());
        // SAFETY: the context is established; the library makes the set.
        let major = unsafe { (self.api.inquire_by_oid)(&mut minor, self.context, &wanted, &mut set) };
        if major != 0 {
            return Err(self.fail(major, minor));
        }
        // SAFETY: on success `set` is null or the library's, valid until it is released below.
        let found = unsafe { set.as_ref() }.and_then(|set| set.get(part)).map(<[u8]>::to_vec).unwrap_or_default();
        // SAFETY: as above; not used again.
        unsafe { (self.api.release_buffer_set)(&mut ignored, &mut set) };
        Ok(found)
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        let mut minor = 0;
        // SAFETY: each handle came from the library and is released once; those that are null never were one.
        unsafe {
            if !self.context.is_null() {
                (self.api.delete_sec_context)(&mut minor, &mut self.context, null_mut());
            }
            if !self.target.is_null() {
                (self.api.release_name)(&mut minor, &mut self.target);
            }
            if !self.credential.is_null() {
                (self.api.release_cred)(&mut minor, &mut self.credential);
            }
        }
    }
}

fn silent(error: Error) -> Error {
    match error.kind {
        ErrorKind::Timeout => Error { message: advice::SILENT_KDC.to_string(), ..error },
        _ => error,
    }
}
