//! How a client makes itself known: SETCLIENTID in 4.0, EXCHANGE_ID and CREATE_SESSION from 4.1 on; and how it keeps
//! its lease and takes leave.

use super::compound::{Compound, Results};
use super::{op, USUAL_LEASE, V4};
use crate::calls::Slots;
use crate::reclaim::{self, LastSession, Lasting};
use crate::rpc::Credentials;
use crate::status::{self, another_server};
use crate::transport::Transport;
use crate::xdr::{Bad, Decoded, Decoder, Put};
use naslab_core::{Error, ErrorKind, Result};
use naslab_wire::chance;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// "I use no pNFS."
const USE_NON_PNFS: u32 = 0x0001_0000;
/// The server's word that it knows the client.
const CONFIRMED: u32 = 0x8000_0000;
/// Longest data of one request, asked of a session.
const TRANSFER_BYTES: u32 = 4 << 20;
/// What headers take beside the data in a session's largest request and reply.
const OVERHEAD_BYTES: u32 = 1024;
/// Sessions' data sizes are whole pages where there is room for one.
const PAGE_BYTES: u32 = 4096;
/// Operations of one compound, asked of a session.
const MOST_OPERATIONS: u32 = 32;
/// LOOKUPs of one compound where no session limits them.
const MOST_LOOKUPS: usize = 16;
/// Most slots a session may grant, whatever it says.
const MOST_SLOTS: u32 = 4096;
/// Longest opaques of EXCHANGE_ID.
const MOST_OPAQUE_BYTES: usize = 1024;
/// Program number of callbacks, which are never received.
const CALLBACK_PROGRAM: u32 = 0x4000_0000;
const FORE_CHANNEL: u32 = 1;

/// Tells clients of this process apart.
static CLIENTS: AtomicU32 = AtomicU32::new(0);

/// What a client calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    verifier: [u8; 8],
    name: Vec<u8>,
}

impl Identity {
    /// A name that no other session has.
    fn new(who: &Credentials, worker: u32) -> Identity {
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let chance = chance();
        let name = format!("naslab {} {} {worker} {number} {chance:016x}", who.machine, std::process::id());
        Identity { verifier: chance.to_be_bytes(), name: name.into_bytes() }
    }

    pub fn name(&self) -> &[u8] {
        &self.name
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.put_raw(&self.verifier);
        out.put_opaque(&self.name);
        out
    }

    fn take(d: &mut Decoder<'_>) -> Decoded<Identity> {
        Ok(Identity { verifier: d.fixed()?, name: d.opaque(MOST_OPAQUE_BYTES)?.to_vec() })
    }
}

/// What a session's largest request and reply carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionSize {
    request_bytes: u32,
    reply_bytes: u32,
}

impl SessionSize {
    /// Without a session nothing is limited.
    const FREE: SessionSize = SessionSize { request_bytes: u32::MAX, reply_bytes: u32::MAX };

    /// For the result.
    pub fn facts(&self) -> [(String, String); 2] {
        [
            ("session_max_request_bytes".into(), self.request_bytes.to_string()),
            ("session_max_response_bytes".into(), self.reply_bytes.to_string()),
        ]
    }

    /// Largest read.
    pub fn most_read_bytes(&self) -> u32 {
        data_bytes(self.reply_bytes)
    }

    /// Largest write.
    pub fn most_write_bytes(&self) -> u32 {
        data_bytes(self.request_bytes)
    }
}

fn data_bytes(message: u32) -> u32 {
    let data = message.saturating_sub(OVERHEAD_BYTES).max(512);
    if data >= PAGE_BYTES {
        data / PAGE_BYTES * PAGE_BYTES
    } else {
        data
    }
}

/// EXCHANGE_ID4resok.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    client_id: u64,
    sequence: u32,
    /// The server knew this client, which has a session or had one.
    is_known: bool,
    /// What sessions are shared with: the server's owner, in two parts, and scope (RFC 8881, 2.10.5).
    owner: (Vec<u8>, u64),
    scope: Vec<u8>,
    server: Vec<(String, String)>,
}

impl Exchanged {
    /// Whether both answers are of one server. It may know the client by another number there, as NFS-Ganesha does.
    fn is_same_server(&self, other: &Exchanged) -> bool {
        self.owner.0 == other.owner.0 && self.scope == other.scope
    }
}

pub(super) fn take_exchanged(d: &mut Decoder<'_>) -> Decoded<Exchanged> {
    let (client_id, sequence) = (d.u64()?, d.u32()?);
    let is_known = d.u32()? & CONFIRMED != 0;
    if d.u32()? != 0 {
        return Err(Bad::Wrong("state protection came that was not requested"));
    }
    let minor = d.u64()?;
    let (owner, scope) = (d.opaque(MOST_OPAQUE_BYTES)?.to_vec(), d.opaque(MOST_OPAQUE_BYTES)?.to_vec());
    let mut server = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            server.push((name.to_string(), value));
        }
    };
    add("server_owner", printable(&owner));
    add("server_scope", printable(&scope));
    if d.length(1)? == 1 {
        let domain = d.text(MOST_OPAQUE_BYTES)?;
        let name = d.text(MOST_OPAQUE_BYTES)?;
        d.skip(12)?;
        add("server_implementation", [domain, name].join(" ").trim().to_string());
    }
    Ok(Exchanged { client_id, sequence, is_known, owner: (owner, minor), scope, server })
}

/// Text as it is, other bytes as hexadecimal digits.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().all(|c| !c.is_control() && c != char::REPLACEMENT_CHARACTER) {
        return text.trim().to_string();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// channel_attrs4.
pub(super) struct Channel {
    size: SessionSize,
    operations: u32,
    requests: u32,
}

fn put_channel(out: &mut Vec<u8>, bytes: u32, operations: u32, requests: u32) {
    for word in [0, bytes, bytes, PAGE_BYTES, operations, requests, 0] {
        out.put_u32(word);
    }
}

fn take_channel(d: &mut Decoder<'_>) -> Decoded<Channel> {
    d.u32()?;
    let size = SessionSize { request_bytes: d.u32()?, reply_bytes: d.u32()? };
    d.u32()?;
    let (operations, requests) = (d.u32()?, d.u32()?);
    let rdma = d.length(1)?;
    d.skip(4 * rdma)?;
    Ok(Channel { size, operations, requests })
}

/// CREATE_SESSION4resok: session id and the fore channel.
pub(super) fn take_session(d: &mut Decoder<'_>) -> Decoded<([u8; 16], Channel)> {
    let session = d.fixed()?;
    d.skip(8)?;
    let fore = take_channel(d)?;
    take_channel(d)?;
    if fore.requests == 0 || fore.requests > MOST_SLOTS {
        return Err(Bad::Wrong("a session with no slots, or with too many"));
    }
    Ok((session, fore))
}

impl V4 {
    /// Makes this client known to the server, with a session from 4.1 on. lasting: what is open then may be claimed.
    pub fn begin(
        t: &mut Transport,
        who: &Credentials,
        worker: u32,
        slots: u32,
        lasting: Option<&Lasting<'_>>,
    ) -> Result<V4> {
        let lost = lasting.and_then(|lasting| lasting.client);
        let identity = match lost {
            None => Identity::new(who, worker),
            Some(client) => Identity::take(&mut Decoder::new(client)).map_err(reclaim::foreign)?,
        };
        let mut v4 = V4 {
            minor: t.version.minor().unwrap_or(0),
            identity,
            slots,
            client_id: 0,
            sessions: lasting.map(|lasting| Arc::clone(lasting.sessions)),
            unanswered: None,
            life: lost.map(|_| chance() as u32),
            sequence: Vec::new(),
            most_lookups: MOST_LOOKUPS,
            session: SessionSize::FREE,
            lease: USUAL_LEASE,
            renewed: Instant::now(),
            server: Vec::new(),
        };
        v4.introduce(t, lost.is_some())?;
        Ok(v4)
    }

    /// is_claiming: opens of sessions before are claimed next.
    fn introduce(&mut self, t: &mut Transport, is_claiming: bool) -> Result<()> {
        self.sequence.clear();
        let began = Instant::now();
        if self.minor == 0 {
            self.set_client_id(t)?;
            self.check_client(t)?;
        } else {
            let exchanged = self.exchange_id(t, 0)?;
            self.client_id = exchanged.client_id;
            self.begin_session(t, &exchanged)?;
            self.check_addresses(t, &exchanged)?;
            self.server = exchanged.server;
            self.join_connections(t)?;
            if !is_claiming {
                self.reclaim_complete(t)?;
            }
        }
        self.renewed = began;
        Ok(())
    }

    /// A session of a client that is new to the server, or in the place of the one that was lost.
    fn begin_session(&mut self, t: &mut Transport, exchanged: &Exchanged) -> Result<()> {
        let Some(sessions) = self.sessions.clone() else { return self.create_session(t, exchanged.sequence) };
        let client_id = exchanged.client_id;
        // What the server says of the number counts for clients that it did not know (RFC 8881, 18.35.3).
        let last = sessions.find(&self.identity.name).filter(|last| exchanged.is_known && last.client_id == client_id);
        let last = last.unwrap_or(LastSession { client_id, session: None, next: exchanged.sequence });
        sessions.remember(&self.identity.name, last);
        let mut number = last.next;
        match self.create_session(t, number) {
            Err(e) if e.status == i64::from(status::SEQ_MISORDERED) => {
                number = exchanged.sequence;
                self.create_session(t, number)?;
            }
            made => made?,
        }
        let session = Some(t.slots.session);
        sessions.remember(&self.identity.name, LastSession { client_id, session, next: number.wrapping_add(1) });
        let over = last.session.filter(|lost| *lost != t.slots.session);
        match over.filter(|lost| !sessions.is_owing(&self.identity.name, lost)) {
            Some(lost) => self.end_session(t, &lost),
            None => Ok(()),
        }
    }

    /// Ends a session that was lost. Where that fails it ends with the client at the latest.
    pub(super) fn end_session(&mut self, t: &mut Transport, lost: &[u8; 16]) -> Result<()> {
        let mut c = Compound::new("connect");
        c.op(op::DESTROY_SESSION).put_raw(lost);
        self.run_bare(t, &c, Some(0)).map(drop)
    }

    /// As `run_bare` over connection `at`, waiting visibly while the server says DELAY or GRACE.
    fn run_bare_patiently(&mut self, t: &mut Transport, c: &Compound, at: usize) -> Result<Results> {
        let mut since = None;
        loop {
            let results = self.run_bare(t, c, Some(at))?;
            match results.status {
                status::MINOR_VERS_MISMATCH => {
                    let message = format!("the server does not speak NFS 4.{}", self.minor);
                    let error = Error::new(ErrorKind::Unsupported, "connect", message);
                    return Err(Error { status: results.status.into(), ..error });
                }
                found if t.come_back(found, &mut since) => {}
                _ => return Ok(results),
            }
        }
    }

    fn set_client_id(&mut self, t: &mut Transport) -> Result<()> {
        let mut c = Compound::new("connect");
        let out = c.op(op::SETCLIENTID);
        out.put_raw(&self.identity.verifier);
        out.put_opaque(&self.identity.name);
        out.put_u32(CALLBACK_PROGRAM);
        out.put_opaque(b"tcp");
        // Nobody listens there: the server cannot call back and therefore grants no delegations.
        out.put_opaque(b"0.0.0.0.0.0");
        out.put_u32(1);
        let mut results = self.run_bare_patiently(t, &c, 0)?;
        let (client_id, confirm) = results.take(op::SETCLIENTID, |d| Ok((d.u64()?, d.fixed::<8>()?)))?;
        let mut c = Compound::new("connect");
        let out = c.op(op::SETCLIENTID_CONFIRM);
        out.put_u64(client_id);
        out.put_raw(&confirm);
        self.client_id = client_id;
        self.run_bare_patiently(t, &c, 0)?.ok()
    }

    /// Without sessions: whether each address knows the client that was made known at the first.
    fn check_client(&mut self, t: &mut Transport) -> Result<()> {
        for at in t.elsewhere() {
            let mut c = Compound::new("connect");
            c.op(op::RENEW).put_u64(self.client_id);
            if self.run_bare_patiently(t, &c, at)?.status != status::OK {
                return Err(another_server(&t.links[0].address, &t.links[at].address));
            }
        }
        Ok(())
    }

    /// Whether each address leads to the server of the first, and to one that shares its sessions there.
    fn check_addresses(&mut self, t: &mut Transport, first: &Exchanged) -> Result<()> {
        for at in t.elsewhere() {
            let other = self.exchange_id(t, at)?;
            let (one, address) = (Arc::clone(&t.links[0].address), Arc::clone(&t.links[at].address));
            if !first.is_same_server(&other) {
                return Err(another_server(&one, &address));
            }
            if first.owner != other.owner {
                let message = format!(
                    "{address} and {one} are one server to clients, but share no sessions: measure each by itself, \
                     or use version=3 over both"
                );
                return Err(Error::new(ErrorKind::Unsupported, "connect", message));
            }
            self.bind_connection(t, at).map_err(|e| match e.status {
                status if status == i64::from(status::BADSESSION) => another_server(&one, &address),
                _ => e.with("host", &address),
            })?;
        }
        Ok(())
    }

    fn exchange_id(&mut self, t: &mut Transport, at: usize) -> Result<Exchanged> {
        let mut c = Compound::new("connect");
        let out = c.op(op::EXCHANGE_ID);
        out.put_raw(&self.identity.verifier);
        out.put_opaque(&self.identity.name);
        out.put_u32(USE_NON_PNFS);
        out.put_u32(0);
        out.put_u32(0);
        self.run_bare_patiently(t, &c, at)?.take(op::EXCHANGE_ID, take_exchanged)
    }

    fn create_session(&mut self, t: &mut Transport, sequence: u32) -> Result<()> {
        let mut c = Compound::new("connect");
        let out = c.op(op::CREATE_SESSION);
        out.put_u64(self.client_id);
        out.put_u32(sequence);
        out.put_u32(0);
        put_channel(out, TRANSFER_BYTES + PAGE_BYTES, MOST_OPERATIONS, self.slots);
        put_channel(out, PAGE_BYTES, 2, 1);
        out.put_u32(CALLBACK_PROGRAM);
        // One way to authenticate callbacks: not at all.
        out.put_u32(1);
        out.put_u32(0);
        let (session, fore) = self.run_bare_patiently(t, &c, 0)?.take(op::CREATE_SESSION, take_session)?;
        t.slots = Slots::new(session, fore.requests.min(self.slots));
        self.session = fore.size;
        self.most_lookups = (fore.operations.saturating_sub(5) as usize).clamp(1, MOST_LOOKUPS);
        Ok(())
    }

    /// A call on each further connection makes it one of the session's.
    fn join_connections(&mut self, t: &mut Transport) -> Result<()> {
        for at in 1..t.links.len() {
            let results = self.run_once(t, &Compound::new("connect"), Some(at))?;
            if results.status == status::CONN_NOT_BOUND_TO_SESSION {
                self.bind_connection(t, at)?;
            } else {
                results.ok()?;
            }
        }
        Ok(())
    }

    fn bind_connection(&mut self, t: &mut Transport, at: usize) -> Result<()> {
        let session = t.slots.session;
        self.bind(t, at, &session)?.ok()
    }

    /// Makes a connection one of a session's.
    pub(super) fn bind(&mut self, t: &mut Transport, at: usize, session: &[u8; 16]) -> Result<Results> {
        let mut c = Compound::new("connect");
        let out = c.op(op::BIND_CONN_TO_SESSION);
        out.put_raw(session);
        out.put_u32(FORE_CHANNEL);
        out.put_bool(false);
        self.run_bare(t, &c, Some(at))
    }

    /// Nothing more of an earlier life is claimed. Servers may want to hear that before they let files be opened.
    pub(super) fn reclaim_complete(&mut self, t: &mut Transport) -> Result<()> {
        let mut c = Compound::new("connect");
        c.op(op::RECLAIM_COMPLETE).put_bool(false);
        const COMPLETE_ALREADY: u32 = 10054;
        let results = self.run(t, &c)?;
        match results.status {
            COMPLETE_ALREADY | status::NOTSUPP => Ok(()),
            _ => results.ok(),
        }
    }

    /// Renews the lease once half of it has passed. A server that has forgotten the client meanwhile gets a new one,
    /// visibly, unless open files were lost with it.
    pub(super) fn renew_lease(&mut self, t: &mut Transport, now: Instant) -> Result<()> {
        if now.duration_since(self.renewed) <= self.lease / 2 {
            if self.minor > 0 {
                // The call that follows carries SEQUENCE, which renews.
                self.renewed = now;
            }
            return Ok(());
        }
        t.events.lease_renewal += 1;
        let mut c = Compound::new("renew");
        if self.minor == 0 {
            c.op(op::RENEW).put_u64(self.client_id);
        }
        let results = self.run(t, &c)?;
        if results.status == status::OK {
            self.renewed = now;
            return Ok(());
        }
        if !t.files.is_empty() {
            return results.ok();
        }
        t.events.client_renewal += 1;
        self.introduce(t, false)
    }

    /// Ends session and client, so that the server need not wait for the lease to end.
    pub(super) fn forget_client(&mut self, t: &mut Transport) {
        if self.minor == 0 {
            return;
        }
        // A client that has sessions left is not destroyed.
        let owing = self.sessions.as_ref().and_then(|sessions| sessions.take_unanswered(&self.identity.name));
        if owing.or(self.unanswered.take()).is_some_and(|call| self.end_session(t, &call.session).is_err()) {
            return;
        }
        let mut c = Compound::new("leave");
        c.op(op::DESTROY_SESSION).put_raw(&t.slots.session);
        if self.run_bare(t, &c, Some(0)).is_ok() {
            let mut c = Compound::new("leave");
            c.op(op::DESTROY_CLIENTID).put_u64(self.client_id);
            drop(self.run_bare(t, &c, Some(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_sizes_leave_room_for_headers() {
        let who = Credentials { machine: "m".into(), ..Credentials::default() };
        let (a, b) = (Identity::new(&who, 0), Identity::new(&who, 0));
        assert_ne!(a.name, b.name);
        assert_eq!(data_bytes((1 << 20) + 4096), 1 << 20);
        assert_eq!(data_bytes(1 << 20), (1 << 20) - 4096);
        assert_eq!(data_bytes(100), 512);
        assert!(SessionSize::FREE.most_read_bytes() > 1 << 30);
    }

    #[test]
    fn exchange_id_as_on_the_wire() {
        let mut out = Vec::new();
        out.put_u64(77);
        out.put_u32(3);
        out.put_u32(0x0001_0000);
        out.put_u32(0);
        out.put_u64(0);
        out.put_opaque(b"owner");
        out.put_opaque(&[1, 2]);
        out.put_u32(1);
        out.put_opaque(b"example.org");
        out.put_opaque(b"server 9");
        out.extend([0; 12]);
        let found = take_exchanged(&mut Decoder::new(&out)).unwrap();
        assert_eq!((found.client_id, found.sequence), (77, 3));
        let facts: Vec<&str> = found.server.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(facts, ["owner", "0102", "example.org server 9"]);
        for cut in 0..out.len() {
            assert!(take_exchanged(&mut Decoder::new(&out[..cut])).is_err());
        }
    }

    #[test]
    fn sessions_without_slots_are_refused() {
        let session = |slots: u32| {
            let mut out = vec![5; 16];
            out.extend([0; 8]);
            put_channel(&mut out, 1 << 20, 16, slots);
            put_channel(&mut out, 4096, 2, 1);
            take_session(&mut Decoder::new(&out)).map(|(_, fore)| fore.requests)
        };
        assert_eq!(session(64), Ok(64));
        assert!(session(0).is_err() && session(u32::MAX).is_err());
    }
}
