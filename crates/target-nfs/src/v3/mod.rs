//! NFS 3 (RFC 1813): set-up and metadata calls.

mod codec;

use crate::dialect::{At, Attributes, Dialect, Entry, Found, Limits, Opened, Pages, TYPE_DIRECTORY, TYPE_REGULAR};
use crate::files::OpenFile;
use crate::status;
use crate::transport::{Reply, Transport};
use crate::xdr::{Decoded, Decoder, Handle, Put};
use codec::{put_at, put_attributes, NewAttributes};
use naslab_core::{Create, Error, ErrorKind, FileTimes, OpenOptions, Result, Space};
use std::time::Instant;

mod procedure {
    pub const GETATTR: u32 = 1;
    pub const SETATTR: u32 = 2;
    pub const LOOKUP: u32 = 3;
    pub const ACCESS: u32 = 4;
    pub const CREATE: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const REMOVE: u32 = 12;
    pub const RMDIR: u32 = 13;
    pub const RENAME: u32 = 14;
    pub const READDIR: u32 = 16;
    pub const READDIRPLUS: u32 = 17;
    pub const FSSTAT: u32 = 18;
    pub const FSINFO: u32 = 19;
}

const ACCESS_READ: u32 = 0x1;
const ACCESS_MODIFY: u32 = 0x4;
const ACCESS_EXTEND: u32 = 0x8;
/// Modes of new files and folders.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;
/// Bytes of one answer to READDIR and READDIRPLUS.
const LIST_BYTES: u32 = 64 * 1024;

/// NFS 3 keeps no state beside the connection.
pub(crate) struct V3;

impl V3 {
    /// One call whose results begin with a status. Waits visibly while the server says JUKEBOX.
    fn ask(
        t: &mut Transport,
        operation: &'static str,
        procedure: u32,
        arguments: &dyn Fn(&mut Vec<u8>),
    ) -> Result<Reply> {
        let mut since = None;
        loop {
            let reply = t.call(operation, None, procedure, arguments)?;
            let found = reply.status().map_err(|bad| bad.error(operation))?;
            if found == status::OK {
                return Ok(reply);
            }
            if !t.come_back(found, &mut since) {
                return Err(status::error(operation, false, found));
            }
        }
    }

    /// As `ask`, and decodes what follows the status.
    fn get<T>(
        t: &mut Transport,
        operation: &'static str,
        procedure: u32,
        arguments: &dyn Fn(&mut Vec<u8>),
        take: impl Fn(&mut Decoder<'_>) -> Decoded<T>,
    ) -> Result<T> {
        let reply = V3::ask(t, operation, procedure, arguments)?;
        let mut d = reply.decoder();
        d.u32().and_then(|_| take(&mut d)).map_err(|bad| bad.error(operation))
    }

    fn lookup(&self, t: &mut Transport, at: At<'_>) -> Result<(Handle, Option<Attributes>)> {
        V3::get(t, "lookup", procedure::LOOKUP, &|out| put_at(out, at.folder, at.name), codec::take_lookup)
    }

    fn set_attributes(
        &self,
        t: &mut Transport,
        operation: &'static str,
        of: &Handle,
        new: NewAttributes,
    ) -> Result<()> {
        let arguments = |out: &mut Vec<u8>| {
            out.put_opaque(of.as_slice());
            put_attributes(out, new);
            out.put_bool(false);
        };
        V3::ask(t, operation, procedure::SETATTR, &arguments).map(drop)
    }

    fn create(&self, t: &mut Transport, at: At<'_>, options: &OpenOptions) -> Result<Opened> {
        let guarded = options.create == Create::New;
        let new = NewAttributes {
            mode: Some(FILE_MODE),
            size: (options.truncate && !guarded).then_some(0),
            ..NewAttributes::default()
        };
        let arguments = |out: &mut Vec<u8>| {
            put_at(out, at.folder, at.name);
            out.put_u32(if guarded { codec::GUARDED } else { codec::UNCHECKED });
            put_attributes(out, new);
        };
        let handle = V3::get(t, "open", procedure::CREATE, &arguments, codec::take_created)?;
        let handle = match handle {
            Some(handle) => handle,
            None => self.lookup(t, at)?.0,
        };
        Ok(Opened { handle, state: [0; 16] })
    }

    /// Checks at once what the first read or write would run into.
    fn may(&self, t: &mut Transport, handle: &Handle, options: &OpenOptions) -> Result<()> {
        let mut wanted = 0;
        if options.read {
            wanted |= ACCESS_READ;
        }
        if options.write {
            wanted |= ACCESS_MODIFY | ACCESS_EXTEND;
        }
        let arguments = |out: &mut Vec<u8>| {
            out.put_opaque(handle.as_slice());
            out.put_u32(wanted);
        };
        let granted = V3::get(t, "open", procedure::ACCESS, &arguments, codec::take_access)?;
        let refused = wanted & !granted;
        // Some servers do not tell MODIFY and EXTEND apart.
        if refused & ACCESS_READ != 0 || (options.write && granted & (ACCESS_MODIFY | ACCESS_EXTEND) == 0) {
            return Err(status::error("open", false, status::ACCES));
        }
        Ok(())
    }

    fn list_page(&self, t: &mut Transport, folder: &Handle, from: (u64, [u8; 8]), plus: bool) -> Result<codec::Page> {
        let arguments = |out: &mut Vec<u8>| {
            out.put_opaque(folder.as_slice());
            out.put_u64(from.0);
            out.put_raw(&from.1);
            out.put_u32(LIST_BYTES);
            if plus {
                out.put_u32(LIST_BYTES);
            }
        };
        let procedure = if plus { procedure::READDIRPLUS } else { procedure::READDIR };
        V3::get(t, "readdir", procedure, &arguments, |d| codec::take_page(d, plus))
    }
}

impl Dialect for V3 {
    fn walk(&mut self, t: &mut Transport, from: &Handle, names: &[&str]) -> Result<Found> {
        let mut here = (*from, None);
        for name in names {
            here = self.lookup(t, At { folder: &here.0, name })?;
        }
        let attributes = match here.1 {
            Some(attributes) => attributes,
            None => self.attributes(t, &here.0)?,
        };
        Ok(Found { handle: here.0, attributes })
    }

    fn claim(&self, file: &OpenFile, _number: u32) -> Vec<u8> {
        file.handle.as_slice().to_vec()
    }

    /// This version knows no opens: a handle that still means something is all there is to keep.
    fn reclaim(
        &mut self,
        t: &mut Transport,
        claim: &[u8],
        _options: &OpenOptions,
        _number: u32,
    ) -> Result<Option<Opened>> {
        let handle = Handle::new(claim).map_err(|bad| bad.error("open"))?;
        match self.attributes(t, &handle) {
            Ok(found) if !found.is_dir() => Ok(Some(Opened { handle, state: [0; 16] })),
            // Asked again in the next attempt, as where the session is lost.
            Err(error) if t.is_broken() || error.status == 0 || error.kind == ErrorKind::Delayed => Err(error),
            _ => Ok(None),
        }
    }

    fn attributes(&mut self, t: &mut Transport, of: &Handle) -> Result<Attributes> {
        V3::get(t, "stat", procedure::GETATTR, &|out| out.put_opaque(of.as_slice()), codec::take_attributes)
    }

    fn limits(&mut self, t: &mut Transport, root: &Handle) -> Result<Limits> {
        V3::get(t, "connect", procedure::FSINFO, &|out| out.put_opaque(root.as_slice()), codec::take_limits)
    }

    fn open(&mut self, t: &mut Transport, at: At<'_>, options: &OpenOptions, _number: u32) -> Result<Opened> {
        if options.create != Create::Never {
            return self.create(t, at, options);
        }
        let found = self.walk(t, at.folder, &[at.name])?;
        match found.attributes.kind {
            TYPE_REGULAR => {}
            TYPE_DIRECTORY => return Err(status::error("open", false, status::ISDIR)),
            _ => return Err(Error::new(ErrorKind::Invalid, "open", "it is neither a file nor a folder")),
        }
        self.may(t, &found.handle, options)?;
        if options.truncate {
            let new = NewAttributes { size: Some(0), ..NewAttributes::default() };
            self.set_attributes(t, "open", &found.handle, new)?;
        }
        Ok(Opened { handle: found.handle, state: [0; 16] })
    }

    fn close(&mut self, _t: &mut Transport, _file: &OpenFile, _number: u32) -> Result<()> {
        Ok(())
    }

    fn set_len(&mut self, t: &mut Transport, file: &OpenFile, len_bytes: u64) -> Result<()> {
        let new = NewAttributes { size: Some(len_bytes), ..NewAttributes::default() };
        self.set_attributes(t, "set_len", &file.handle, new)
    }

    fn set_times(&mut self, t: &mut Transport, of: &Handle, times: FileTimes) -> Result<()> {
        let new = NewAttributes { times: Some(times), ..NewAttributes::default() };
        self.set_attributes(t, "set_times", of, new)
    }

    fn mkdir(&mut self, t: &mut Transport, at: At<'_>) -> Result<()> {
        let arguments = |out: &mut Vec<u8>| {
            put_at(out, at.folder, at.name);
            put_attributes(out, NewAttributes { mode: Some(FOLDER_MODE), ..NewAttributes::default() });
        };
        V3::ask(t, "mkdir", procedure::MKDIR, &arguments).map(drop)
    }

    fn rmdir(&mut self, t: &mut Transport, at: At<'_>) -> Result<()> {
        V3::ask(t, "rmdir", procedure::RMDIR, &|out| put_at(out, at.folder, at.name)).map(drop)
    }

    fn remove(&mut self, t: &mut Transport, at: At<'_>) -> Result<()> {
        V3::ask(t, "remove", procedure::REMOVE, &|out| put_at(out, at.folder, at.name)).map(drop)
    }

    fn rename(&mut self, t: &mut Transport, from: At<'_>, to: At<'_>) -> Result<()> {
        let arguments = |out: &mut Vec<u8>| {
            put_at(out, from.folder, from.name);
            put_at(out, to.folder, to.name);
        };
        V3::ask(t, "rename", procedure::RENAME, &arguments).map(drop)
    }

    fn list(&mut self, t: &mut Transport, folder: &Handle) -> Result<Vec<Entry>> {
        let (mut entries, mut pages) = (Vec::new(), Pages::default());
        let mut plus = true;
        let mut from = (0, [0; 8]);
        loop {
            let page = match self.list_page(t, folder, from, plus) {
                Err(e) if plus && e.kind == ErrorKind::Unsupported => {
                    plus = false;
                    continue;
                }
                other => other?,
            };
            let last = page.entries.last().map(|entry| entry.cookie);
            for entry in page.entries {
                if !pages.take(&entry.name)? {
                    continue;
                }
                let is_dir = match entry.is_dir {
                    Some(is_dir) => is_dir,
                    None => self.walk(t, folder, &[&entry.name])?.attributes.is_dir(),
                };
                entries.push(Entry { name: entry.name, is_dir, fsid: None });
            }
            match pages.next(page.eof, last)? {
                Some(cookie) => from = (cookie, page.verifier),
                None => return Ok(entries),
            }
        }
    }

    fn space(&mut self, t: &mut Transport, root: &Handle) -> Result<Space> {
        V3::get(t, "space", procedure::FSSTAT, &|out| out.put_opaque(root.as_slice()), codec::take_space)
    }

    fn copy(&mut self, _t: &mut Transport, _from: &OpenFile, _to: &OpenFile, _len_bytes: u64) -> Result<u64> {
        Err(Error::new(ErrorKind::Unsupported, "server_copy", "NFS 3 has no server-side copy: use version=4.2"))
    }

    fn keep_lease(&mut self, _t: &mut Transport, _now: Instant) -> Result<()> {
        Ok(())
    }

    fn leave(&mut self, _t: &mut Transport) {}

    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Every decoder of this version, for the fuzz test.
#[cfg(test)]
pub(crate) fn decode_all(bytes: &[u8]) -> usize {
    let d = || Decoder::new(bytes);
    [
        codec::take_attributes(&mut d()).is_ok(),
        codec::take_lookup(&mut d()).is_ok(),
        codec::take_created(&mut d()).is_ok(),
        codec::take_access(&mut d()).is_ok(),
        codec::take_limits(&mut d()).is_ok(),
        codec::take_space(&mut d()).is_ok(),
        codec::take_page(&mut d(), true).is_ok(),
        codec::take_page(&mut d(), false).is_ok(),
    ]
    .into_iter()
    .filter(|taken| *taken)
    .count()
}
