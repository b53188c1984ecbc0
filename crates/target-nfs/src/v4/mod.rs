//! NFS 4.0, 4.1 and 4.2 (RFC 7530, 8881, 7862): set-up and metadata calls.

mod attributes;
mod client;
mod compound;
mod copy;
pub(crate) mod op;
mod open;
mod reclaim;
mod replay;

use crate::dialect::{At, Attributes, Dialect, Entry, Found, Limits, Opened, Pages, TYPE_DIRECTORY};
use crate::files::OpenFile;
use crate::reclaim::{Sessions, Unanswered};
use crate::rpc::RPCSEC_GSS;
use crate::security::Sec;
use crate::status;
use crate::transport::Transport;
use crate::xdr::{Bad, Decoded, Decoder, Handle, Put};
use attributes::{bit, put_mask, put_new, put_type, NewAttributes, Values};
use client::Identity;
use compound::{Compound, Results};
use naslab_core::{Error, ErrorKind, FileTimes, OpenOptions, Result, Space};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use client::SessionSize;

/// Bytes of one answer to READDIR.
const LIST_BYTES: u32 = 64 * 1024;
/// Longest name in a listing.
const MOST_NAME_BYTES: usize = 4096;
/// Most entries of one answer: each takes at least 24 bytes of it.
const MOST_PAGE_ENTRIES: usize = 1 << 16;
/// Flavours that SECINFO tells, and the longest name of a mechanism; that of Kerberos, with or without its DER header.
const MOST_FLAVOURS: usize = 64;
const MOST_OID_BYTES: usize = 64;
const KERBEROS: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
/// Modes of new files and folders.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;
/// Reads and writes where the server does not say what it takes.
const USUAL_TRANSFER_BYTES: u64 = 1 << 20;
/// Lease where the server does not tell it.
const USUAL_LEASE: Duration = Duration::from_secs(60);

/// A client of one server, in one minor version.
pub(crate) struct V4 {
    minor: u32,
    identity: Identity,
    /// Slots asked for of a session.
    slots: u32,
    client_id: u64,
    /// Where its sessions are remembered, of a client that outlasts them.
    sessions: Option<Arc<Sessions>>,
    /// The call that an earlier session was not answered, once it is to be repeated.
    unanswered: Option<Unanswered>,
    /// Tells open-owners of this session from those of the sessions that it follows; None of a client's first.
    life: Option<u32>,
    /// Number of the next call of each open-owner (4.0); owners are named by file numbers.
    sequence: Vec<u32>,
    /// LOOKUPs that fit in one compound.
    most_lookups: usize,
    session: SessionSize,
    lease: Duration,
    /// When the lease was renewed for certain.
    renewed: Instant,
    server: Vec<(String, String)>,
}

/// READDIR4resok.
struct Page {
    verifier: [u8; 8],
    entries: Vec<(u64, Entry)>,
    eof: bool,
}

fn take_page(d: &mut Decoder<'_>) -> Decoded<Page> {
    let verifier = d.fixed()?;
    let mut entries = Vec::new();
    while d.bool()? {
        if entries.len() == MOST_PAGE_ENTRIES {
            return Err(Bad::Wrong("a listing has too many entries"));
        }
        let cookie = d.u64()?;
        let name = d.text(MOST_NAME_BYTES)?;
        let values = Values::take(d)?;
        let is_dir = values.kind == Some(TYPE_DIRECTORY);
        entries.push((cookie, Entry { name, is_dir, fsid: values.fsid }));
    }
    Ok(Page { verifier, entries, eof: d.bool()? })
}

/// What `bit::STAT` asks for.
fn stat_of(values: &Values) -> Decoded<Attributes> {
    Ok(Attributes {
        kind: values.kind.ok_or(Bad::Wrong("a file's type is missing"))?,
        len_bytes: values.size.ok_or(Bad::Wrong("a file's size is missing"))?,
        used_bytes: values.space_used,
        fsid: values.fsid.unwrap_or_default(),
        modified_ns: values.modified_ns,
    })
}

fn take_found(d: &mut Results) -> Result<Found> {
    let handle = d.take(op::GETFH, |d| Handle::take(d, Handle::MOST))?;
    let attributes = d.take(op::GETATTR, |d| stat_of(&Values::take(d)?))?;
    Ok(Found { handle, attributes })
}

impl V4 {
    /// The top of everything the server offers.
    pub fn top(&mut self, t: &mut Transport) -> Result<Handle> {
        let mut c = Compound::new("connect");
        c.op(op::PUTROOTFH);
        c.op(op::GETFH);
        let mut results = self.run(t, &c)?;
        results.take(op::PUTROOTFH, |_| Ok(()))?;
        results.take(op::GETFH, |d| Handle::take(d, Handle::MOST))
    }

    fn walk_some(&mut self, t: &mut Transport, from: &Handle, names: &[&str]) -> Result<Found> {
        let mut c = Compound::at("lookup", from);
        for name in names {
            c.op(op::LOOKUP).put_opaque(name.as_bytes());
        }
        c.op(op::GETFH);
        put_mask(c.op(op::GETATTR), bit::STAT);
        let mut results = self.run(t, &c)?;
        results.placed()?;
        for _ in names {
            results.take(op::LOOKUP, |_| Ok(()))?;
        }
        take_found(&mut results)
    }

    fn get(&mut self, t: &mut Transport, operation: &'static str, of: &Handle, mask: [u32; 2]) -> Result<Values> {
        let mut c = Compound::at(operation, of);
        put_mask(c.op(op::GETATTR), mask);
        let mut results = self.run(t, &c)?;
        results.placed()?;
        results.take(op::GETATTR, Values::take)
    }

    /// Removes a name of the right kind: REMOVE itself would take a file and an empty folder alike.
    fn remove_kind(&mut self, t: &mut Transport, operation: &'static str, at: At<'_>, folder: bool) -> Result<()> {
        let mut c = Compound::changing(operation, at.folder, &[at.name.as_bytes()]);
        c.op(op::LOOKUP).put_opaque(at.name.as_bytes());
        put_type(c.op(if folder { op::VERIFY } else { op::NVERIFY }), TYPE_DIRECTORY);
        c.place(at.folder);
        c.op(op::REMOVE).put_opaque(at.name.as_bytes());
        let results = self.run(t, &c)?;
        match results.status {
            status::SAME => Err(status::error(operation, true, status::ISDIR)),
            status::NOT_SAME => Err(status::error(operation, true, status::NOTDIR)),
            _ => results.ok(),
        }
    }

    fn list_page(&mut self, t: &mut Transport, folder: &Handle, from: (u64, [u8; 8])) -> Result<Page> {
        let mut c = Compound::at("readdir", folder);
        let out = c.op(op::READDIR);
        out.put_u64(from.0);
        out.put_raw(&from.1);
        out.put_u32(LIST_BYTES);
        out.put_u32(LIST_BYTES);
        put_mask(out, bit::LIST);
        let mut results = self.run(t, &c)?;
        results.placed()?;
        results.take(op::READDIR, take_page)
    }

    /// Name of the open-owner of a file number. The client id makes it unique on the server, and `life` among the
    /// sessions of a client that lost some.
    fn owner(&self, number: u32) -> Vec<u8> {
        let mut name = b"naslab".to_vec();
        name.put_u32(number);
        if let Some(life) = self.life {
            name.put_u32(life);
        }
        name
    }
}

/// SECINFO4resok: Kerberos' services as the flavours that the mount protocol knows.
fn take_flavours(d: &mut Decoder<'_>) -> Decoded<Vec<u32>> {
    let count = d.length(MOST_FLAVOURS)?;
    let mut flavours = Vec::new();
    for _ in 0..count {
        let flavour = d.u32()?;
        if flavour != RPCSEC_GSS {
            flavours.push(flavour);
            continue;
        }
        let mechanism = d.opaque(MOST_OID_BYTES)?;
        d.u32()?;
        let service = d.u32()?;
        let known = Sec::ALL.iter().find(|sec| sec.service() == service && mechanism.ends_with(&KERBEROS));
        flavours.push(known.map_or(flavour, |sec| sec.flavour()));
    }
    Ok(flavours)
}

impl Dialect for V4 {
    fn flavours(&mut self, t: &mut Transport, at: At<'_>) -> Result<Vec<u32>> {
        let mut c = Compound::at("connect", at.folder);
        c.op(op::SECINFO).put_opaque(at.name.as_bytes());
        let mut results = self.run(t, &c)?;
        results.placed()?;
        results.take(op::SECINFO, take_flavours)
    }

    fn walk(&mut self, t: &mut Transport, from: &Handle, names: &[&str]) -> Result<Found> {
        let mut here = *from;
        let mut parts = names.chunks(self.most_lookups).peekable();
        while let Some(part) = parts.next() {
            let found = self.walk_some(t, &here, part)?;
            if parts.peek().is_none() {
                return Ok(found);
            }
            here = found.handle;
        }
        Ok(Found { handle: here, attributes: self.attributes(t, &here)? })
    }

    fn attributes(&mut self, t: &mut Transport, of: &Handle) -> Result<Attributes> {
        let values = self.get(t, "stat", of, bit::STAT)?;
        stat_of(&values).map_err(|bad| bad.error("stat"))
    }

    fn limits(&mut self, t: &mut Transport, root: &Handle) -> Result<Limits> {
        let values = self.get(t, "connect", root, bit::LIMITS)?;
        if let Some(seconds) = values.lease_seconds.filter(|seconds| *seconds > 0) {
            self.lease = Duration::from_secs(seconds.into());
        }
        let fits = |told: Option<u64>, session: u32| {
            let told = told.filter(|bytes| *bytes > 0).unwrap_or(USUAL_TRANSFER_BYTES);
            told.min(session.into()) as u32
        };
        Ok(Limits {
            max_read_bytes: fits(values.max_read, self.session.most_read_bytes()),
            max_write_bytes: fits(values.max_write, self.session.most_write_bytes()),
            max_file_bytes: values.max_file,
            lease_seconds: values.lease_seconds,
            ..Limits::default()
        })
    }

    fn open(&mut self, t: &mut Transport, at: At<'_>, options: &OpenOptions, number: u32) -> Result<Opened> {
        self.open_file(t, at, options, number)
    }

    fn close(&mut self, t: &mut Transport, file: &OpenFile, number: u32) -> Result<()> {
        self.close_file(t, file, number)
    }

    fn client(&self) -> Vec<u8> {
        self.identity.encode()
    }

    fn claim(&self, file: &OpenFile, number: u32) -> Vec<u8> {
        self.claim_of(file, number)
    }

    fn reclaim(
        &mut self,
        t: &mut Transport,
        claim: &[u8],
        options: &OpenOptions,
        number: u32,
    ) -> Result<Option<Opened>> {
        self.reclaim_file(t, claim, options, number)
    }

    fn end_reclaim(&mut self, t: &mut Transport) -> Result<()> {
        match self.minor {
            0 => Ok(()),
            _ => self.reclaim_complete(t),
        }
    }

    fn repeat(&mut self) {
        let client = self.identity.name();
        self.unanswered = self.sessions.as_ref().and_then(|sessions| sessions.take_unanswered(client));
    }

    fn set_len(&mut self, t: &mut Transport, file: &OpenFile, len_bytes: u64) -> Result<()> {
        let mut c = Compound::at("set_len", &file.handle);
        let out = c.op(op::SETATTR);
        out.put_raw(&file.state);
        put_new(out, NewAttributes { size: Some(len_bytes), ..NewAttributes::default() });
        self.run(t, &c)?.ok()
    }

    fn set_times(&mut self, t: &mut Transport, of: &Handle, times: FileTimes) -> Result<()> {
        let mut c = Compound::at("set_times", of);
        let out = c.op(op::SETATTR);
        // The anonymous state: times need no open file.
        out.put_raw(&[0; 16]);
        put_new(out, NewAttributes { times: Some(times), ..NewAttributes::default() });
        self.run(t, &c)?.ok()
    }

    fn mkdir(&mut self, t: &mut Transport, at: At<'_>) -> Result<()> {
        let mut c = Compound::changing("mkdir", at.folder, &[at.name.as_bytes()]);
        let out = c.op(op::CREATE);
        out.put_u32(TYPE_DIRECTORY);
        out.put_opaque(at.name.as_bytes());
        put_new(out, NewAttributes { mode: Some(FOLDER_MODE), ..NewAttributes::default() });
        self.run(t, &c)?.ok()
    }

    fn rmdir(&mut self, t: &mut Transport, at: At<'_>) -> Result<()> {
        self.remove_kind(t, "rmdir", at, true)
    }

    fn remove(&mut self, t: &mut Transport, at: At<'_>) -> Result<()> {
        self.remove_kind(t, "remove", at, false)
    }

    fn rename(&mut self, t: &mut Transport, from: At<'_>, to: At<'_>) -> Result<()> {
        let names = [from.name.as_bytes(), to.folder.as_slice(), to.name.as_bytes()];
        let mut c = Compound::changing("rename", from.folder, &names);
        c.op(op::SAVEFH);
        c.place(to.folder);
        let out = c.op(op::RENAME);
        out.put_opaque(from.name.as_bytes());
        out.put_opaque(to.name.as_bytes());
        self.run(t, &c)?.ok()
    }

    fn list(&mut self, t: &mut Transport, folder: &Handle) -> Result<Vec<Entry>> {
        let (mut entries, mut pages) = (Vec::new(), Pages::default());
        let mut from = (0, [0; 8]);
        loop {
            let page = self.list_page(t, folder, from)?;
            let last = page.entries.last().map(|(cookie, _)| *cookie);
            for (_, entry) in page.entries {
                if pages.take(&entry.name)? {
                    entries.push(entry);
                }
            }
            match pages.next(page.eof, last)? {
                Some(cookie) => from = (cookie, page.verifier),
                None => return Ok(entries),
            }
        }
    }

    fn space(&mut self, t: &mut Transport, root: &Handle) -> Result<Space> {
        let values = self.get(t, "space", root, bit::SPACE)?;
        match (values.space_available, values.space_total) {
            (Some(free_bytes), Some(total_bytes)) => Ok(Space { free_bytes, total_bytes }),
            _ => Err(Error::new(ErrorKind::Unsupported, "space", "the server does not report its free space")),
        }
    }

    fn copy(&mut self, t: &mut Transport, from: &OpenFile, to: &OpenFile, len_bytes: u64) -> Result<u64> {
        self.copy_all(t, from, to, len_bytes)
    }

    fn keep_lease(&mut self, t: &mut Transport, now: Instant) -> Result<()> {
        self.renew_lease(t, now)
    }

    fn leave(&mut self, t: &mut Transport) {
        self.forget_client(t);
    }

    fn facts(&self) -> Vec<(String, String)> {
        let mut facts = self.server.clone();
        if self.minor > 0 {
            facts.extend(self.session.facts());
        }
        facts.push(("delegations".into(), "none asked".into()));
        facts
    }
}

/// Every decoder of this version, for the fuzz test.
#[cfg(test)]
pub(crate) fn decode_all(bytes: &[u8]) -> usize {
    let d = || Decoder::new(bytes);
    [
        take_page(&mut d()).is_ok(),
        take_flavours(&mut d()).is_ok(),
        Values::take(&mut d()).is_ok(),
        open::take_open(&mut d()).is_ok(),
        client::take_exchanged(&mut d()).is_ok(),
        client::take_session(&mut d()).is_ok(),
        copy::take_copied(&mut d()).is_ok(),
        reclaim::take_tested(&mut d()).is_ok(),
        compound::take_head(&mut d(), true).is_ok(),
        compound::take_head(&mut d(), false).is_ok(),
    ]
    .into_iter()
    .filter(|taken| *taken)
    .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flavours_of_secinfo() {
        let mut out = Vec::new();
        out.put_u32(3);
        for service in [1, 3] {
            out.put_u32(RPCSEC_GSS);
            out.put_opaque(&[&[6, 9][..], &KERBEROS].concat());
            out.put_u32(0);
            out.put_u32(service);
        }
        out.put_u32(1);
        assert_eq!(take_flavours(&mut Decoder::new(&out)), Ok(vec![390_003, 390_005, 1]));
        for cut in 0..out.len() {
            assert!(take_flavours(&mut Decoder::new(&out[..cut])).is_err());
        }
        assert!(take_flavours(&mut Decoder::new(&[0xff; 64])).is_err());
    }
}
