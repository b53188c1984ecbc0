//! Calls about files and folders: one round trip each where the protocol can, as compounds.

use crate::codec::{CLOSE, CREATE, ECHO, HEADER_BYTES, IOCTL, QUERY_DIRECTORY, QUERY_INFO, RELATED_FILE, SET_INFO};
use crate::durable::Asked;
use crate::file::{self, Create, Handle};
use crate::ioctl;
use crate::link::{call, Part, Proof};
use crate::names::wire_path;
use crate::session::{OpenFile, SmbSession};
use crate::status;
use crate::window::CREDIT_BYTES;
use naslab_core::listing::Listing;
use naslab_core::{
    limit, Access, Claim, Completion, Create as Mode, DirEntry, Error, ErrorKind, FileId, FileStat, FileTimes,
    FlushKind, IoBuf, Lock, Op, OpError, OpenOptions, Result, Session, Space, Submit, SyncMode, Token, WireCounters,
};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Where the oplock that an open got lies in its answer.
const OPLOCK_AT: usize = HEADER_BYTES + 2;
/// Most bytes of a folder asked for at once.
const LISTING_BYTES: u32 = 1 << 20;

impl SmbSession {
    /// Sends a compound on connection `i` and waits; an error of the first request that failed.
    pub(crate) fn compound(&mut self, i: usize, operation: &'static str, parts: &[Part]) -> Result<()> {
        self.alive()?;
        let outcome = call(&mut self.links, i, parts, Proof::AsSession, None);
        self.guard(outcome)?;
        let replies = &self.links[i].replies;
        let bad = |code: &u32| !matches!(*code, status::SUCCESS | status::BUFFER_OVERFLOW);
        match (0..parts.len()).map(|n| replies.get(n).0).find(bad) {
            Some(code) => Err(status::error(operation, code)),
            None => Ok(()),
        }
    }

    /// The answer to request `n` of the last compound on connection `i`.
    pub(crate) fn reply(&self, i: usize, n: usize) -> &[u8] {
        self.links[i].replies.get(n).1
    }

    pub(crate) fn path(&self, path: &str) -> Result<Vec<u8>> {
        wire_path(&self.plan.options.root, path)
    }

    /// Opens a name, does one thing with it, and closes it, in one round trip.
    fn with_open(&mut self, operation: &'static str, create: &Create, between: Option<(u16, &[u8])>) -> Result<()> {
        self.with_open_on(0, operation, create, between)
    }

    fn with_open_on(
        &mut self,
        i: usize,
        operation: &'static str,
        create: &Create,
        between: Option<(u16, &[u8])>,
    ) -> Result<()> {
        let (create, close) = (create.encode(), file::close(&RELATED_FILE));
        let first = Part { command: CREATE, charge: 1, body: &create };
        let last = Part { command: CLOSE, charge: 1, body: &close };
        match between {
            None => self.compound(i, operation, &[first, last]),
            Some((command, body)) => {
                let middle = Part { command, charge: 1, body };
                self.compound(i, operation, &[first, middle, last])
            }
        }
    }

    fn create_on(&mut self, i: usize, operation: &'static str, create: &Create) -> Result<Handle> {
        let body = create.encode();
        self.compound(i, operation, &[Part { command: CREATE, charge: 1, body: &body }])?;
        let created = file::parse_create(self.reply(i, 0));
        self.guard(created).map(|c| c.handle)
    }

    pub(crate) fn close_on(&mut self, i: usize, handle: &Handle) -> Result<()> {
        let body = file::close(handle);
        self.compound(i, "close", &[Part { command: CLOSE, charge: 1, body: &body }])
    }

    /// Opens `name` on every connection that has handles of its own; only the first creates, cuts or deletes.
    /// repeated: the client's name for the open, which was asked for before.
    pub(crate) fn open_all(
        &mut self,
        name: &[u8],
        access: u32,
        disposition: u32,
        options: u32,
        repeated: Option<[u8; 16]>,
    ) -> Result<OpenFile> {
        let count = if self.shared { 1 } else { self.links.len() };
        let asked = self.asked_for(name, count == 1, options & file::OPTION_WRITE_THROUGH != 0, repeated)?;
        let mut durable = None;
        let mut handles: Vec<Handle> = Vec::with_capacity(count);
        for i in 0..count {
            let (disposition, options) = match i {
                0 => (disposition, options),
                _ => (file::OPEN, options & !file::OPTION_DELETE_ON_CLOSE),
            };
            let Asked { oplock, contexts, .. } = &asked;
            let create = Create { name, access, disposition, options, oplock: *oplock, contexts };
            self.links[i].replays = i == 0 && repeated.is_some() && asked.durable.is_some();
            match self.create_on(i, "open", &create) {
                Ok(handle) => {
                    handles.push(handle);
                    let granted = asked.durable.map_or(Ok(None), |asked| asked.granted(self.reply(i, 0)));
                    durable = self.guard(granted)?;
                    if asked.oplock != file::OPLOCK_NONE {
                        let granted = self.reply(i, 0).get(OPLOCK_AT).is_some_and(|b| *b != file::OPLOCK_NONE);
                        self.plan.leases.count(granted);
                    }
                }
                Err(error) => {
                    // The first error is the one to tell; the handles go with the session if this fails too.
                    handles.iter().enumerate().for_each(|(i, h)| drop(self.close_on(i, h)));
                    self.note_unanswered(&asked);
                    return Err(error);
                }
            }
        }
        Ok(OpenFile { handles, durable, lease: asked.lease, write_through: false })
    }

    /// Remembers a file that was opened.
    pub(crate) fn remember(&mut self, open: OpenFile) -> FileId {
        let at = match self.files.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                self.files.push(None);
                self.files.len() - 1
            }
        };
        self.files[at] = Some(open);
        FileId(at as u32)
    }

    fn close_all(&mut self, open: &OpenFile) -> Result<()> {
        // The first handle last: it may be the one that deletes the file.
        let mut outcome = Ok(());
        for (i, handle) in open.handles.iter().enumerate().rev() {
            let closed = self.close_on(i, handle);
            outcome = outcome.and(closed);
        }
        outcome
    }

    /// The largest answer to ask for in one call, and its charge.
    fn listing_size(&self) -> (u32, u16) {
        let bytes = self.limits.max_transact.min(LISTING_BYTES);
        (bytes, bytes.div_ceil(CREDIT_BYTES).max(1) as u16)
    }

    /// Lists a folder. ids: asks for the server's numbers of what is listed, too.
    fn list(&mut self, path: &str, ids: Option<&mut file::Ids>) -> Result<Vec<DirEntry>> {
        let name = self.path(path)?;
        // The target's root may be a link, a mount point say; what lies in it may not.
        let options = file::OPTION_DIRECTORY | if path.is_empty() { 0 } else { file::OPTION_REPARSE_POINT };
        let create = plain(&name, file::ACCESS_LIST, file::OPEN, options);
        let handle = self.create_on(0, "readdir", &create).map_err(|e| e.with("path", path))?;
        if !path.is_empty() && file::parse_create(self.reply(0, 0))?.is_link {
            self.close_on(0, &handle)?;
            return Err(leads_elsewhere(path));
        }
        let mut entries = Vec::new();
        let listed = self.list_from(&handle, &mut entries, ids);
        let over = [status::NO_MORE_FILES, status::NO_SUCH_FILE].map(i64::from);
        match listed {
            Err(error) if over.contains(&error.status) => {}
            Err(error) => {
                if self.alive().is_ok() {
                    self.close_on(0, &handle)?;
                }
                return Err(error.with("path", path));
            }
            Ok(()) => {}
        }
        self.close_on(0, &handle)?;
        Ok(entries)
    }

    /// The server's number of a folder; 0 for none.
    fn id_of(&mut self, path: &str) -> Result<u64> {
        self.id_on(0, path)
    }

    /// The same as asked over connection `i`.
    pub(crate) fn id_on(&mut self, i: usize, path: &str) -> Result<u64> {
        let name = self.path(path)?;
        let query = file::query_id();
        let create = plain(&name, file::ACCESS_STAT, file::OPEN, file::OPTION_DIRECTORY);
        self.with_open_on(i, "stat", &create, Some((QUERY_INFO, &query))).map_err(|e| e.with("path", path))?;
        optional("stat", file::output(self.reply(i, 1)).and_then(file::parse_id))
    }

    fn list_from(
        &mut self,
        handle: &Handle,
        entries: &mut Vec<DirEntry>,
        mut ids: Option<&mut file::Ids>,
    ) -> Result<()> {
        let (bytes, charge) = self.listing_size();
        let body = file::query_directory(handle, bytes, ids.is_some());
        let mut listing = Listing::default();
        loop {
            self.compound(0, "readdir", &[Part { command: QUERY_DIRECTORY, charge, body: &body }])?;
            let output = file::output(self.reply(0, 0));
            let parsed = output.and_then(|o| file::parse_entries(o, &mut listing, entries, ids.as_deref_mut()));
            let parsed = parsed.and_then(|()| listing.page());
            self.guard(parsed)?;
        }
    }

    fn control(&mut self, code: u32, handle: &Handle, input: &[u8], output: u32) -> Result<Vec<u8>> {
        let _scope = limit::within(self.plan.timeout);
        let body = ioctl::request(code, handle, input, output);
        self.compound(0, "server_copy", &[Part { command: IOCTL, charge: 1, body: &body }])?;
        let output = ioctl::output(self.reply(0, 0)).map(<[u8]>::to_vec);
        self.guard(output)
    }
}

/// How servers say that they do not list numbers.
const NO_IDS: [u32; 3] = [status::INVALID_INFO_CLASS, status::NOT_SUPPORTED, status::INVALID_PARAMETER];

/// An answer that nobody depends on: one that is too short says that the server cannot tell, and ends nothing.
fn optional<T>(operation: &'static str, answer: Result<T>) -> Result<T> {
    answer.map_err(|e| {
        Error::new(ErrorKind::Unsupported, operation, format!("the server cannot report this: {}", e.message))
    })
}

fn leads_elsewhere(path: &str) -> Error {
    let message = "the folder is a link to another place, which is not followed";
    Error::new(ErrorKind::Invalid, "readdir", message).with("path", path)
}

pub(crate) fn options_of(options: &OpenOptions) -> Result<(u32, u32, u32)> {
    let unsupported =
        |what: &str| Err(Error::new(ErrorKind::Unsupported, "open", format!("SMB targets have no {what}")));
    if options.access != Access::Positioned {
        return unsupported("file cursor, stdio or memory map: use positioned access");
    }
    if options.lock != Lock::None {
        return unsupported("locks yet: leave them out");
    }
    let mut access = 0;
    access |= if options.read { file::ACCESS_READ } else { 0 };
    access |= if options.write { file::ACCESS_WRITE } else { 0 };
    access |= if options.delete_on_close { file::ACCESS_DELETE } else { 0 };
    let disposition = match (options.create, options.truncate) {
        (Mode::Never, false) => file::OPEN,
        (Mode::Never, true) => file::OVERWRITE,
        (Mode::IfMissing, false) => file::OPEN_OR_CREATE,
        (Mode::IfMissing, true) => file::OVERWRITE_OR_CREATE,
        (Mode::New, _) => file::CREATE_NEW,
    };
    let mut wanted = file::OPTION_NOT_DIRECTORY;
    wanted |= if options.direct { file::OPTION_NO_BUFFERING } else { 0 };
    wanted |= if options.sync != SyncMode::None { file::OPTION_WRITE_THROUGH } else { 0 };
    wanted |= if options.delete_on_close { file::OPTION_DELETE_ON_CLOSE } else { 0 };
    Ok((access | file::ACCESS_STAT, disposition, wanted))
}

impl Session for SmbSession {
    /// Durable writes are the open's write-through option, which covers every write in all dialects (the flag of a
    /// single write is unknown to 2.0.2, and Samba, which opens with O_SYNC, would sync twice for both). Only of files
    /// that were reclaimed each write says so: Samba opens these without O_SYNC.
    ///
    /// With several connections that are no channels of one session the file is opened on each. A lease that is broken
    /// is acknowledged in the call under way or in the next one of this session: until then the server lets nobody
    /// rename or remove the file.
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        let (access, disposition, wanted) = options_of(options)?;
        let name = self.path(path)?;
        let open = self.open_named(&name, access, disposition, wanted).map_err(|e| e.with("path", path))?;
        Ok(self.remember(open))
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        self.file(file)?;
        match self.files[file.0 as usize].take() {
            Some(open) => self.close_all(&open),
            None => Ok(()),
        }
    }

    fn identity(&self) -> Vec<u8> {
        self.identity_of()
    }

    fn claim(&self, file: FileId) -> Option<Claim> {
        self.claim_of(file)
    }

    fn reclaim(&mut self, path: &str, options: &OpenOptions, claim: &Claim) -> Result<Option<FileId>> {
        self.reclaim_file(path, options, claim)
    }

    fn repeat(&mut self) {
        self.repeats = true;
    }

    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        self.start(op, buf, token)
    }

    fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        self.collect(min, timeout, out)
    }

    /// FLUSH on every handle; SMB knows no flush of data alone.
    fn flush(&mut self, file: FileId, _kind: FlushKind) -> Result<()> {
        for i in 0..self.file(file)?.handles.len() {
            let body = file::flush(&self.file(file)?.handles[i]);
            self.compound(i, "flush", &[Part { command: crate::codec::FLUSH, charge: 1, body: &body }])?;
        }
        Ok(())
    }

    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()> {
        let body = file::set_end_of_file(&self.file(file)?.handles[0], len_bytes);
        self.compound(0, "set_len", &[Part { command: SET_INFO, charge: 1, body: &body }])
    }

    fn stat(&mut self, path: &str) -> Result<FileStat> {
        let name = self.path(path)?;
        self.with_open("stat", &plain(&name, file::ACCESS_STAT, file::OPEN, 0), None)
            .map_err(|e| e.with("path", path))?;
        let created = file::parse_create(self.reply(0, 0));
        self.guard(created).map(|c| c.stat)
    }

    fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
        let name = self.path(path)?;
        let create = plain(&name, file::ACCESS_SET_TIMES, file::OPEN, 0);
        let times = file::set_times(times);
        self.with_open("set_times", &create, Some((SET_INFO, &times))).map_err(|e| e.with("path", path))
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        let name = self.path(path)?;
        let create = plain(&name, file::ACCESS_STAT, file::CREATE_NEW, file::OPTION_DIRECTORY);
        self.with_open("mkdir", &create, None).map_err(|e| e.with("path", path))
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        let name = self.path(path)?;
        let options = file::OPTION_DIRECTORY | file::OPTION_REPARSE_POINT;
        let create = plain(&name, file::ACCESS_DELETE, file::OPEN, options);
        let delete = file::set_delete(&RELATED_FILE);
        self.with_open("rmdir", &create, Some((SET_INFO, &delete))).map_err(|e| e.with("path", path))
    }

    fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.list(path, None)
    }

    /// A server may follow links itself and show what they lead to as if it lay there; Samba does. It gives them away
    /// by its numbers: `..` of a folder that was reached by a link is not the folder above it, and a link beside the
    /// folder it leads to has that one's number. Servers without numbers show nothing, and are taken at their word.
    fn readdir_within(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        let mut ids = file::Ids::default();
        let mut entries = match self.list(path, Some(&mut ids)) {
            Err(error) if NO_IDS.map(i64::from).contains(&error.status) => return self.list(path, None),
            listed => listed?,
        };
        let above = match path.rsplit_once('/').map_or("", |(above, _)| above) {
            _ if path.is_empty() => 0,
            above => match self.id_of(above) {
                Err(error) if error.kind == ErrorKind::Unsupported => 0,
                found => found?,
            },
        };
        if above != 0 && ids.above != 0 && above != ids.above {
            return Err(leads_elsewhere(path));
        }
        let mut counts = HashMap::new();
        ids.entries.iter().for_each(|id| *counts.entry(*id).or_insert(0u32) += 1);
        for (entry, id) in entries.iter_mut().zip(&ids.entries) {
            entry.is_dir &= *id == 0 || (counts[id] == 1 && *id != ids.own && *id != ids.above);
        }
        Ok(entries)
    }

    /// Replaces a file of the new name, as POSIX does, unless somebody has it open (`Permission`). Whether an empty
    /// folder is replaced too is the server's choice: Samba does, Windows does not.
    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (name, new) = (self.path(from)?, self.path(to)?);
        let create = plain(&name, file::ACCESS_DELETE, file::OPEN, file::OPTION_REPARSE_POINT);
        let rename = file::set_name(&new);
        let renamed = self.with_open("rename", &create, Some((SET_INFO, &rename)));
        renamed.map_err(|e| e.with("from", from).with("to", to))?;
        self.moved(&new, &[]);
        self.moved(&name, &new);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        let name = self.path(path)?;
        let options = file::OPTION_NOT_DIRECTORY | file::OPTION_DELETE_ON_CLOSE | file::OPTION_REPARSE_POINT;
        let create = plain(&name, file::ACCESS_DELETE, file::OPEN, options);
        self.with_open("remove", &create, None).map_err(|e| e.with("path", path))?;
        self.moved(&name, &[]);
        Ok(())
    }

    /// Where the share has a recycle bin, what is removed is moved there with all its bytes. So a file of the run's is
    /// emptied first, which costs one round trip more.
    fn discard(&mut self, path: &str, mark: Option<&str>) -> Result<()> {
        let since = match mark.map_or(Ok(0), |mark| self.created_steps(mark)) {
            Err(error) if self.alive().is_err() => return Err(error.with("path", path)),
            Err(_) => return self.remove(path),
            Ok(since) => since,
        };
        match self.empty_and_remove(path, since) {
            Err(error) if self.alive().is_ok() && error.kind != ErrorKind::NotFound => match self.remove(path) {
                // It was there a moment ago: a server that refuses the close of a deleted file has removed it.
                Err(gone) if gone.kind == ErrorKind::NotFound => Ok(()),
                outcome => outcome,
            },
            outcome => outcome.map_err(|e| e.with("path", path)),
        }
    }

    fn space(&mut self) -> Result<Space> {
        let name = self.path("")?;
        let query = file::query_space();
        let create = plain(&name, file::ACCESS_STAT, file::OPEN, file::OPTION_DIRECTORY);
        self.with_open("space", &create, Some((QUERY_INFO, &query)))?;
        optional("space", file::output(self.reply(0, 1)).and_then(file::parse_space))
    }

    fn ping(&mut self) -> Result<()> {
        self.compound(0, "ping", &[Part { command: ECHO, charge: 1, body: &[4, 0, 0, 0] }])
    }

    fn server_copy(&mut self, from: &str, to: &str) -> Result<u64> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        let about = |e: Error| e.with("from", from).with("to", to);
        let create = plain(&source, file::ACCESS_READ, file::OPEN, file::OPTION_NOT_DIRECTORY);
        let source = self.create_on(0, "server_copy", &create).map_err(about)?;
        let len_bytes = file::parse_create(self.reply(0, 0))?.stat.len_bytes;
        let access = file::ACCESS_READ | file::ACCESS_WRITE;
        let create = plain(&target, access, file::CREATE_NEW, file::OPTION_NOT_DIRECTORY);
        let target = match self.create_on(0, "server_copy", &create) {
            Ok(target) => target,
            Err(error) => {
                self.close_on(0, &source)?;
                return Err(about(error));
            }
        };
        let copied = self.copy_chunks(&source, &target, len_bytes);
        if self.alive().is_ok() {
            self.close_on(0, &source)?;
            self.close_on(0, &target)?;
        }
        copied.map_err(about)
    }

    fn events(&self) -> Vec<(&'static str, u64)> {
        self.event_counts()
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        status::explain(error)
    }

    fn wire(&self) -> Option<WireCounters> {
        Some(self.wire_counters())
    }

    fn wire_by_address(&self) -> BTreeMap<String, WireCounters> {
        self.counters_by_address()
    }
}

impl SmbSession {
    /// Removes a file, and empties it before if it is certain that naslab made it.
    ///
    /// Samba follows symbolic links by itself and shows what they lead to, so a file is only emptied if it was created
    /// after the mark of the run's folder in which it lies, and has no second name. A file without mark is one that the
    /// run wrote under this name. (The folder's own time of creation would not do: without extended attributes Samba
    /// makes one up from times that change.)
    fn empty_and_remove(&mut self, path: &str, since: u64) -> Result<()> {
        let name = self.path(path)?;
        let options = file::OPTION_NOT_DIRECTORY | file::OPTION_REPARSE_POINT;
        let create = plain(&name, file::ACCESS_EMPTY, file::OPEN, options).encode();
        let query = file::query_standard();
        let first = Part { command: CREATE, charge: 1, body: &create };
        let asked = self.compound(0, "remove", &[first, Part { command: QUERY_INFO, charge: 1, body: &query }]);
        let asked = match asked {
            Err(error) if error.kind == ErrorKind::NotFound => return Err(error),
            asked => asked,
        };
        self.alive()?;
        let created = file::parse_create(self.reply(0, 0))?;
        let links = asked.and_then(|()| file::output(self.reply(0, 1)).and_then(file::parse_links)).unwrap_or(0);
        let is_ours = !created.is_link && created.created_steps > since && links == 1;
        let empty = file::set_end_of_file(&created.handle, 0);
        let (delete_it, close_it) = (file::set_delete(&created.handle), file::close(&created.handle));
        let (delete, close) = (file::set_delete(&RELATED_FILE), file::close(&RELATED_FILE));
        let set = |body| Part { command: SET_INFO, charge: 1, body };
        let last = Part { command: CLOSE, charge: 1, body: &close };
        let removed = match is_ours && created.stat.len_bytes > 0 {
            true => self.compound(0, "remove", &[set(&empty), set(&delete), last]),
            false => self.compound(0, "remove", &[set(&delete_it), last]),
        };
        if removed.is_err() && self.alive().is_ok() {
            // A server may leave the handle open when a call before the last one fails.
            drop(self.compound(0, "close", &[Part { command: CLOSE, charge: 1, body: &close_it }]));
        }
        removed?;
        self.moved(&name, &[]);
        Ok(())
    }

    /// When a mark was created, in the server's own count; looked up once.
    fn created_steps(&mut self, mark: &str) -> Result<u64> {
        match &self.mark_created {
            Some((known, steps)) if known == mark => return Ok(*steps),
            _ => {}
        }
        let name = self.path(mark)?;
        self.with_open("stat", &plain(&name, file::ACCESS_STAT, file::OPEN, file::OPTION_NOT_DIRECTORY), None)?;
        let created = file::parse_create(self.reply(0, 0));
        let steps = self.guard(created)?.created_steps;
        self.mark_created = Some((mark.to_string(), steps));
        Ok(steps)
    }

    fn copy_chunks(&mut self, source: &Handle, target: &Handle, len_bytes: u64) -> Result<u64> {
        let key = self.control(ioctl::REQUEST_RESUME_KEY, source, &[], 32)?;
        let short = || crate::codec::broken("the key of a server-side copy is too short");
        let key = key.get(..24).ok_or_else(short);
        let key = self.guard(key.map(<[u8]>::to_vec))?;
        let mut limits = ioctl::CopyLimits::default();
        let mut done = 0;
        while done < len_bytes {
            let wanted = limit::check("server_copy");
            self.guard(wanted)?;
            let input = ioctl::copy_request(&key, done, len_bytes - done, &limits);
            match self.control(ioctl::COPY_CHUNKS, target, &input, 12) {
                Ok(output) => {
                    let copied = ioctl::copied_bytes(&output);
                    let copied = self.guard(copied)?;
                    if copied == 0 || copied > len_bytes - done {
                        let message = format!("the server stopped copying after {done} of {len_bytes} bytes");
                        return Err(Error::new(ErrorKind::Short, "server_copy", message));
                    }
                    done += copied;
                }
                Err(error) if error.status == i64::from(status::INVALID_PARAMETER) => {
                    // The answer says what the server takes at once; ask within that, but only if that is less.
                    let told = ioctl::output(self.reply(0, 0)).and_then(ioctl::CopyLimits::parse);
                    match told {
                        Ok(told) if told.is_less_than(&limits) => limits = told,
                        _ => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

fn plain(name: &[u8], access: u32, disposition: u32, options: u32) -> Create<'_> {
    Create { name, access, disposition, options, oplock: file::OPLOCK_NONE, contexts: &[] }
}
