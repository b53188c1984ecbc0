//! Durable handles: files that a server keeps open for a client whose connection was lost (MS-SMB2 3.2.4.4, 3.3.5.9.6).
//!
//! A server keeps a file only for a client that it would ask before it lets others in. So each open asks for a lease,
//! too: of reading and handle, which nobody else's open has to wait for; only who renames or removes the file waits
//! until this session takes its next answer. Where a server has no leases only a batch oplock would do, and every other
//! worker's open of the same file would wait for its end: none is asked for.

use crate::codec::{broken, Put, View, CREATE, HEADER_BYTES};
use crate::crypto::random;
use crate::file::{self, Create, Handle};
use crate::link::Part;
use crate::negotiate::{Client, LostSession, Unanswered};
use crate::options::Lease;
use crate::session::{OpenFile, SmbSession};
use crate::status;
use naslab_core::{Claim, Error, ErrorKind, FileId, OpenOptions, Result, SyncMode};
use sha2::{Digest, Sha256};
use std::time::Duration;

type Name = &'static [u8; 4];

const LEASE: Name = b"RqLs";
const REQUEST_1: Name = b"DHnQ";
const REQUEST_2: Name = b"DH2Q";
const RECONNECT_1: Name = b"DHnC";
const RECONNECT_2: Name = b"DH2C";

const LEASE_READ: u32 = 1;
const LEASE_HANDLE: u32 = 2;
const LEASE_WRITE: u32 = 4;
const FLAG_PERSISTENT: u32 = 2;
/// Where a context's name and its data begin, and where the offset and length of the contexts lie in an answer.
const NAME_AT: usize = 16;
const DATA_AT: usize = 24;
const CONTEXTS_AT: usize = HEADER_BYTES + 80;
/// Most contexts of one answer; those that are asked for are two.
const MAX_CONTEXTS: usize = 16;
const CLAIM_BYTES: usize = 53;
/// Of an identity, without what was not answered.
const IDENTITY_BYTES: usize = 40;
/// In an identity: everything was answered.
const NOTHING: Unanswered = Unanswered { create_guid: [0; 16], key: [0; 16], name: [0; 16] };
/// Refusals of a claim that pass, or that are of the session or the share: another attempt may get the file.
const ASK_AGAIN: [u32; 9] = [
    status::DEVICE_NOT_READY,
    status::FILE_NOT_AVAILABLE,
    status::INSUFFICIENT_RESOURCES,
    status::INSUFF_SERVER_RESOURCES,
    status::IO_TIMEOUT,
    status::NETWORK_NAME_DELETED,
    status::NETWORK_SESSION_EXPIRED,
    status::SERVER_UNAVAILABLE,
    status::USER_SESSION_DELETED,
];

/// The lease of an open file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldLease {
    pub key: [u8; 16],
    /// What the file is called now; empty once it was removed.
    pub name: Vec<u8>,
}

impl HeldLease {
    /// Of a file that this session did not open.
    pub fn nameless(key: [u8; 16]) -> HeldLease {
        HeldLease { key, name: Vec::new() }
    }
}

/// How an open file is claimed from a later session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// By its handle alone.
    V1,
    /// By the name that the client gave its open, too, from 3.0 on.
    V2 {
        /// That name.
        create_guid: [u8; 16],
        /// The server keeps it over its own restarts.
        persistent: bool,
    },
}

impl Durable {
    /// The client's name for the open, where it gives one.
    fn create_guid(self) -> Option<[u8; 16]> {
        match self {
            Durable::V1 => None,
            Durable::V2 { create_guid, .. } => Some(create_guid),
        }
    }

    /// The context that asks the server to keep an open.
    fn request(self, keep: Duration) -> (Name, Vec<u8>) {
        let Durable::V2 { create_guid, persistent } = self else { return (REQUEST_1, vec![0; 16]) };
        let mut data = Vec::with_capacity(32);
        data.u32(keep.as_millis().min(u128::from(u32::MAX)) as u32);
        data.u32(if persistent { FLAG_PERSISTENT } else { 0 });
        data.zeros(8);
        data.put(&create_guid);
        (REQUEST_2, data)
    }

    /// The context that claims what was kept.
    fn reconnect(self, handle: &Handle) -> (Name, Vec<u8>) {
        let Durable::V2 { create_guid, persistent } = self else { return (RECONNECT_1, handle.to_vec()) };
        let mut data = handle.to_vec();
        data.put(&create_guid);
        data.u32(if persistent { FLAG_PERSISTENT } else { 0 });
        (RECONNECT_2, data)
    }

    /// What the server promised in its answer to an open that asked for this.
    pub fn granted(self, answer: &[u8]) -> Result<Option<Durable>> {
        let name = if self == Durable::V1 { REQUEST_1 } else { REQUEST_2 };
        let Some(data) = find_context(answer, name)? else { return Ok(None) };
        Ok(Some(match self {
            Durable::V1 => Durable::V1,
            Durable::V2 { create_guid, persistent } => {
                let flags = View(data).u32(4)?;
                Durable::V2 { create_guid, persistent: persistent && flags & FLAG_PERSISTENT != 0 }
            }
        }))
    }

    fn claim(self, handle: &Handle, key: &[u8; 16]) -> Claim {
        let (version, create_guid, persistent) = match self {
            Durable::V1 => (1, [0; 16], false),
            Durable::V2 { create_guid, persistent } => (2, create_guid, persistent),
        };
        let mut out = Vec::with_capacity(CLAIM_BYTES);
        out.put(handle);
        out.u32(version);
        out.put(&create_guid);
        out.put(key);
        out.u8(u8::from(persistent));
        Claim(out)
    }

    /// The handle, what it is claimed with, and the key of its lease.
    fn of_claim(claim: &Claim) -> Result<(Handle, Durable, [u8; 16])> {
        let view = View(&claim.0);
        let persistent = view.array::<1>(CLAIM_BYTES - 1)? != [0];
        let durable = match view.u32(16)? {
            1 => Durable::V1,
            _ => Durable::V2 { create_guid: view.array(20)?, persistent },
        };
        Ok((view.array(0)?, durable, view.array(36)?))
    }
}

/// Contexts of a CREATE, one behind the other.
fn contexts(list: &[(Name, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    for (n, (name, data)) in list.iter().enumerate() {
        let len = DATA_AT + data.len();
        out.u32(if n + 1 < list.len() { len.next_multiple_of(8) as u32 } else { 0 });
        out.u16(NAME_AT as u16);
        out.u16(4);
        out.u16(0);
        out.u16(DATA_AT as u16);
        out.u32(data.len() as u32);
        out.put(*name);
        out.zeros(4);
        out.put(data);
        if n + 1 < list.len() {
            out.align8();
        }
    }
    out
}

/// The data of a context in an answer to CREATE; None where it is not there.
fn find_context(answer: &[u8], wanted: Name) -> Result<Option<&[u8]>> {
    let view = View(answer);
    let (at, len) = (view.u32(CONTEXTS_AT)? as usize, view.u32(CONTEXTS_AT + 4)? as usize);
    let mut rest = view.piece(at, len)?;
    for _ in 0..MAX_CONTEXTS {
        if rest.is_empty() {
            return Ok(None);
        }
        let view = View(rest);
        let name = view.bytes(usize::from(view.u16(4)?), usize::from(view.u16(6)?))?;
        let data = view.piece(usize::from(view.u16(10)?), view.u32(12)? as usize)?;
        if name == wanted {
            return Ok(Some(data));
        }
        rest = match view.u32(0)? as usize {
            0 => &[],
            next => rest.get(next..).ok_or_else(|| broken("the contexts of an open do not follow one another"))?,
        };
    }
    Err(broken("an open is answered with more contexts than were asked for"))
}

/// The data of the context that asks for a lease; version 2 for dialects from 3.0 on.
fn lease(key: &[u8; 16], state: u32, version_2: bool) -> Vec<u8> {
    let len = if version_2 { 52 } else { 32 };
    let mut out = Vec::with_capacity(len);
    out.put(key);
    out.u32(state);
    out.zeros(len - 20);
    out
}

/// What an open asks for beside the file.
pub(crate) struct Asked {
    pub oplock: u8,
    pub contexts: Vec<u8>,
    pub durable: Option<Durable>,
    pub lease: Option<HeldLease>,
}

impl SmbSession {
    /// What to ask for: a lease, an oplock, to keep the file, or nothing. alone: it has one handle. With handles on
    /// several connections, which count as clients of their own, one would break the lease of the other.
    /// write_through: each write is to be durable, which a file that is claimed must be able to say. repeated: the
    /// client's name for an open that was asked for before.
    pub(crate) fn asked_for(
        &self,
        name: &[u8],
        alone: bool,
        write_through: bool,
        repeated: Option<[u8; 16]>,
    ) -> Result<Asked> {
        let has_lease = self.limits.leases || self.plan.options.lease != Lease::None;
        let is_sound = alone && has_lease && (self.limits.write_through || !write_through);
        let durable = match self.client.keep.filter(|_| is_sound) {
            None => None,
            Some(_) if !self.limits.leases_2 => Some(Durable::V1),
            Some(_) => {
                let create_guid = repeated.map_or_else(random, Ok)?;
                Some(Durable::V2 { create_guid, persistent: self.limits.persistent })
            }
        };
        let mut list = Vec::new();
        if let (Some(durable), Some(keep)) = (durable, self.client.keep) {
            list.push(durable.request(keep));
        }
        let (oplock, key) = self.put_lease(|| self.lease_key(name), durable.is_some(), &mut list);
        let lease = key.filter(|_| self.client.keep.is_some()).map(|key| HeldLease { key, name: name.to_vec() });
        Ok(Asked { oplock, contexts: contexts(&list), durable, lease })
    }

    /// Opens a file. What was asked for is remembered where the session is lost before the answer: the next one asks
    /// by the same name, and says that it does so again (MS-SMB2 3.3.5.9.10). A server that still has that open
    /// answers with it; to others it is an open like any other, and the first one stays with them until its time is
    /// over, with its lease.
    pub(crate) fn open_named(&mut self, name: &[u8], access: u32, disposition: u32, options: u32) -> Result<OpenFile> {
        let lost = match std::mem::take(&mut self.repeats) {
            true => self.client.unanswered.take(),
            false => None,
        };
        let is_same = |lost: &Unanswered| lost.name == digest(&self.client.guid, name);
        let repeated = lost.filter(is_same).map(|lost| lost.create_guid);
        self.orphans.extend(lost.map(|lost| match repeated {
            Some(_) => HeldLease { key: lost.key, name: name.to_vec() },
            None => HeldLease::nameless(lost.key),
        }));
        let opened = self.open_all(name, access, disposition, options, repeated);
        match opened {
            // The open is there, and is not to be had by its name.
            Err(error) if repeated.is_some() && error.status == i64::from(status::DUPLICATE_OBJECTID) => {
                self.open_all(name, access, disposition, options, None)
            }
            opened => opened,
        }
    }

    /// Remembers what a session that was lost was not answered.
    pub(crate) fn note_unanswered(&mut self, asked: &Asked) {
        if self.alive().is_err() {
            let (create_guid, lease) = (asked.durable.and_then(Durable::create_guid), asked.lease.as_ref());
            self.client.unanswered = create_guid.zip(lease).map(|(create_guid, lease)| {
                let name = digest(&self.client.guid, &lease.name);
                Unanswered { create_guid, key: lease.key, name }
            });
        }
    }

    /// Adds the context of a lease, where there is to be one: the level of oplock that goes with it, and its key.
    fn put_lease(
        &self,
        key: impl FnOnce() -> [u8; 16],
        durable: bool,
        list: &mut Vec<(Name, Vec<u8>)>,
    ) -> (u8, Option<[u8; 16]>) {
        let state = match self.plan.options.lease {
            Lease::Rwh => LEASE_READ | LEASE_HANDLE | LEASE_WRITE,
            Lease::None if durable => LEASE_READ | LEASE_HANDLE,
            Lease::None => return (file::OPLOCK_NONE, None),
        };
        if !self.limits.leases {
            return (file::OPLOCK_BATCH, None);
        }
        let key = key();
        list.push((LEASE, lease(&key, state, self.limits.leases_2)));
        (file::OPLOCK_LEASE, Some(key))
    }

    /// One key for each file of this client, so that its own handles do not break each other's leases. A name may be
    /// given to another file while the one that had it is open: a server refuses one key for two files (MS-SMB2
    /// 3.3.5.9.8).
    fn lease_key(&self, name: &[u8]) -> [u8; 16] {
        let open = || self.files.iter().flatten().filter_map(|open| open.lease.as_ref());
        let held = || open().chain(&self.orphans);
        if let Some(same) = held().find(|lease| lease.name == name) {
            return same.key;
        }
        let mut key = key_of(&self.client.guid, name, 0);
        for round in 1u32.. {
            if held().all(|lease| lease.key != key) {
                break;
            }
            key = key_of(&self.client.guid, name, round);
        }
        key
    }

    /// What was called `from`, or lies in a folder that was, is now called `to`; nothing of what was removed.
    pub(crate) fn moved(&mut self, from: &[u8], to: &[u8]) {
        let open = self.files.iter_mut().flatten().filter_map(|open| open.lease.as_mut());
        for lease in open.chain(&mut self.orphans) {
            match lease.name.strip_prefix(from) {
                Some([]) => lease.name = to.to_vec(),
                Some(below @ [b'\\', 0, ..]) => lease.name = [to, below].concat(),
                _ => {}
            }
        }
    }

    /// Who this is, for the session after it.
    pub(crate) fn identity_of(&self) -> Vec<u8> {
        let mut out = self.client.guid.to_vec();
        out.u64(self.links[0].session_id);
        out.put(&self.server);
        let Unanswered { create_guid, key, name } = self.client.unanswered.unwrap_or(NOTHING);
        let orphans = self.orphans.iter().map(|lease| lease.key);
        let more: Vec<[u8; 16]> = [create_guid, key, name].into_iter().chain(orphans).collect();
        if self.client.unanswered.is_some() || more.len() > 3 {
            more.iter().for_each(|each| out.put(each));
        }
        out
    }

    /// Reads `identity_of`: the client with its session and what that one was not answered, and keys of leases that
    /// may be those of opens that nobody has.
    pub(crate) fn parse_identity(identity: &[u8]) -> Result<(Client, Vec<[u8; 16]>)> {
        let view = View(identity);
        let lost = LostSession { id: view.u64(16)?, server: view.array(24)? };
        let client = Client { guid: view.array(0)?, lost: Some(lost), keep: None, unanswered: None };
        if identity.len() == IDENTITY_BYTES {
            return Ok((client, Vec::new()));
        }
        let at = |nth: usize| view.array(IDENTITY_BYTES + 16 * nth);
        let found = Unanswered { create_guid: at(0)?, key: at(1)?, name: at(2)? };
        let orphans =
            identity[IDENTITY_BYTES + 48..].chunks(16).map(|key| View(key).array(0)).collect::<Result<_>>()?;
        Ok((Client { unanswered: Some(found).filter(|found| *found != NOTHING), ..client }, orphans))
    }

    pub(crate) fn claim_of(&self, file: FileId) -> Option<Claim> {
        let open = self.file(file).ok()?;
        let key = open.lease.as_ref().map_or([0; 16], |lease| lease.key);
        open.durable.map(|durable| durable.claim(&open.handles[0], &key))
    }

    /// Claims a file of the session before. A refusal of the file says that it is not kept.
    pub(crate) fn reclaim_file(&mut self, path: &str, options: &OpenOptions, claim: &Claim) -> Result<Option<FileId>> {
        let (access, _, wanted) = crate::calls::options_of(options)?;
        let name = self.path(path)?;
        let (handle, durable, key) = Durable::of_claim(claim)?;
        let mut list = vec![durable.reconnect(&handle)];
        let (oplock, key) = self.put_lease(|| key, true, &mut list);
        let contexts = contexts(&list);
        let create =
            Create { name: &name, access, disposition: file::OPEN, options: wanted, oplock, contexts: &contexts };
        let body = create.encode();
        let claimed = self.compound(0, "open", &[Part { command: CREATE, charge: 1, body: &body }]);
        match claimed {
            Ok(()) => {}
            Err(error) if self.alive().is_err() || ASK_AGAIN.map(i64::from).contains(&error.status) => {
                return Err(error.with("path", path))
            }
            Err(_) => return Ok(None),
        }
        let created = file::parse_create(self.reply(0, 0));
        let handle = self.guard(created)?.handle;
        if !self.shared && self.links.len() > 1 {
            // Each connection is to have a handle of its own: the file is opened anew, and what was kept must not stay.
            self.close_on(0, &handle)?;
            return Ok(None);
        }
        // Samba opens what it kept without O_SYNC, whatever the open had asked for.
        let write_through = options.sync != SyncMode::None;
        let lease = key.map(|key| HeldLease { key, name });
        Ok(Some(self.remember(OpenFile { handles: vec![handle], durable: Some(durable), lease, write_through })))
    }
}

/// The key of a client's lease on the file of this name; round: among the files that have had it.
fn key_of(client: &[u8; 16], name: &[u8], round: u32) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(client);
    hash.update(name);
    if round > 0 {
        hash.update(round.to_le_bytes());
    }
    let mut key = [0; 16];
    key.copy_from_slice(&hash.finalize()[..16]);
    key
}

/// By what a client's file is known in an identity.
fn digest(client: &[u8; 16], name: &[u8]) -> [u8; 16] {
    key_of(client, name, u32::MAX)
}

/// The error of an identity that no session gave.
pub(crate) fn foreign(error: Error) -> Error {
    Error { kind: ErrorKind::Invalid, operation: "connect", ..error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer to CREATE with these contexts.
    fn answer(contexts: &[u8]) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES + 88];
        out[HEADER_BYTES] = 89;
        let at = out.len() as u32;
        out[CONTEXTS_AT..CONTEXTS_AT + 4].copy_from_slice(&at.to_le_bytes());
        out[CONTEXTS_AT + 4..CONTEXTS_AT + 8].copy_from_slice(&(contexts.len() as u32).to_le_bytes());
        out.put(contexts);
        out
    }

    const V2: Durable = Durable::V2 { create_guid: [5; 16], persistent: true };

    #[test]
    fn contexts_are_laid_out_as_the_protocol_says() {
        let (name, data) = V2.request(Duration::from_secs(60));
        assert_eq!((name, &data[..8], &data[16..]), (b"DH2Q", &[0x60, 0xEA, 0, 0, 2, 0, 0, 0][..], &[5; 16][..]));
        assert_eq!(Durable::V1.request(Duration::ZERO), (b"DHnQ", vec![0; 16]));
        assert_eq!(Durable::V1.reconnect(&[9; 16]), (b"DHnC", vec![9; 16]));
        let (name, data) = V2.reconnect(&[9; 16]);
        assert_eq!((name, data.len(), &data[32..]), (b"DH2C", 36, &[2, 0, 0, 0][..]));
        for (version_2, bytes) in [(false, 32), (true, 52)] {
            let data = lease(&[3; 16], 7, version_2);
            assert_eq!((data.len(), &data[16..20]), (bytes, &[7, 0, 0, 0][..]));
        }
        let two = contexts(&[(RECONNECT_2, vec![1; 36]), (LEASE, vec![2; 52])]);
        assert_eq!((two.len(), &two[..4], &two[64 + 16..64 + 20]), (64 + 76, &[64, 0, 0, 0][..], &b"RqLs"[..]));
        assert_eq!(contexts(&[]), Vec::<u8>::new());
    }

    #[test]
    fn what_a_server_promised_is_found_and_nothing_else() {
        let lease_only = answer(&contexts(&[(LEASE, vec![0; 52])]));
        assert_eq!((V2.granted(&lease_only).unwrap(), Durable::V1.granted(&answer(&[])).unwrap()), (None, None));
        let kept = |flags| answer(&contexts(&[(LEASE, vec![0; 52]), (REQUEST_2, vec![0, 0, 0, 0, flags, 0, 0, 0])]));
        assert_eq!(V2.granted(&kept(2)).unwrap(), Some(V2));
        let weaker = Durable::V2 { create_guid: [5; 16], persistent: false };
        assert_eq!(V2.granted(&kept(0)).unwrap(), Some(weaker));
        assert_eq!(weaker.granted(&kept(2)).unwrap(), Some(weaker), "more than was asked for is not counted on");
        let first = answer(&contexts(&[(REQUEST_1, vec![0; 8])]));
        assert_eq!(Durable::V1.granted(&first).unwrap(), Some(Durable::V1));
        let many: Vec<(Name, Vec<u8>)> = (0..=MAX_CONTEXTS).map(|_| (LEASE, Vec::new())).collect();
        assert!(V2.granted(&answer(&contexts(&many))).is_err());
    }

    #[test]
    fn claims_come_back() {
        for durable in [Durable::V1, V2, Durable::V2 { create_guid: [1; 16], persistent: false }] {
            let claim = durable.claim(&[8; 16], &[7; 16]);
            assert_eq!(Durable::of_claim(&claim).unwrap(), ([8; 16], durable, [7; 16]));
            assert!(Durable::of_claim(&Claim(claim.0[..CLAIM_BYTES - 1].to_vec())).is_err());
        }
    }

    proptest! {
        #[test]
        fn hostile_contexts_never_panic(
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..8),
            cut in any::<usize>(),
        ) {
            let mut bytes = answer(&contexts(&[(LEASE, vec![0; 52]), (REQUEST_2, vec![0; 8])]));
            let len = bytes.len();
            changes.iter().for_each(|(at, value)| bytes[HEADER_BYTES + at % (len - HEADER_BYTES)] = *value);
            bytes.truncate(cut % (len + 1));
            let _ = V2.granted(&bytes);
            let _ = Durable::V1.granted(&bytes);
        }
    }
}
