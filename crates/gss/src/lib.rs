//! Kerberos logins through the system's GSSAPI library, which is loaded when the first one is wanted.
//!
//! [`Initiator`] is the client's side of one login: tokens out, tokens in, then the session key. Tickets come from
//! where the library looks for them: the ticket cache of `kinit` (`KRB5CCNAME`) or a client keytab
//! (`KRB5_CLIENT_KTNAME`). naslab is built without the library and reads no password for it.

mod advice;
mod library;

use advice::{explain, Asked};
use library::{Api, Buffer, BufferSet, Handle, Oid};
use naslab_core::{limit, Error, ErrorKind, Result};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

/// `GSS_C_MUTUAL_FLAG`, `REPLAY`, `SEQUENCE`, `CONF` and `INTEG`: the server proves itself, too.
const FLAGS: u32 = 0x02 | 0x04 | 0x08 | 0x10 | 0x20;
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

/// The client's side of one login.
pub struct Initiator {
    api: &'static Api,
    asked: Asked,
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
    pub fn begin(service: &str, host: &str, user: Option<&str>) -> Result<(Initiator, Vec<u8>)> {
        let api = Api::get()?;
        let asked = Asked { service: service.into(), host: host.into(), user: user.map(str::to_string) };
        // The library waits for a silent KDC as long as its own configuration says.
        let (report, answer) = channel();
        let work = move || drop(report.send(Initiator::prepare(api, asked)));
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

    fn prepare(api: &'static Api, asked: Asked) -> Result<(Initiator, Vec<u8>)> {
        let mut made =
            Initiator { api, asked, context: null_mut(), target: null_mut(), credential: null_mut(), complete: false };
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
                FLAGS,
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
        let key = unsafe { set.as_ref() }.and_then(BufferSet::first).map(<[u8]>::to_vec).unwrap_or_default();
        // SAFETY: as above; not used again.
        unsafe { (self.api.release_buffer_set)(&mut ignored, &mut set) };
        if key.is_empty() {
            return Err(Error::new(ErrorKind::Unsupported, "connect", "the Kerberos library gives no session key"));
        }
        Ok(key)
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
