//! A worker's session.

use crate::dialect::{At, Dialect, Opened};
use crate::files::{stable_how, OpenFile};
use crate::options::split_path;
use crate::reclaim;
use crate::services;
use crate::status;
use crate::target::Shared;
use crate::transport::Transport;
use crate::xdr::Handle;
use naslab_core::{
    Access, Claim, Completion, Create, DirEntry, Error, ErrorKind, FileId, FileStat, FileTimes, FlushKind, IoBuf, Lock,
    Op, OpError, OpenOptions, Result, Session, Space, Submit, Token, WireCounters,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Idle time after which a server may have closed connections or begun to forget the client.
const IDLE: Duration = Duration::from_secs(5);
/// How long each call of taking leave may take.
const LEAVE: Duration = Duration::from_millis(500);

/// Connections, protocol state and the root folder of one worker.
pub(crate) struct NfsSession {
    t: Transport,
    dialect: Box<dyn Dialect>,
    root: Handle,
    shared: Arc<Shared>,
    /// What is open at its end is claimed by the session after it.
    lasting: bool,
    /// It follows a session that was lost, and not all of that one's files have been claimed.
    is_claiming: bool,
    /// When work last began with nothing outstanding.
    last_used: Instant,
}

/// A path divided into its folder and its last name.
struct Place {
    folder: String,
    name: String,
}

impl Place {
    fn path(&self) -> String {
        if self.folder.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.folder, self.name)
        }
    }
}

fn place(operation: &'static str, path: &str) -> Result<Place> {
    let mut names = names(operation, path)?;
    match names.pop() {
        Some(name) => Ok(Place { folder: names.join("/"), name }),
        None => Err(Error::new(ErrorKind::Invalid, operation, "this cannot be done to the target's root itself")),
    }
}

fn names(operation: &'static str, path: &str) -> Result<Vec<String>> {
    if path.starts_with('/') {
        let message = "a path must be relative to the target's root";
        return Err(Error::new(ErrorKind::Invalid, operation, message).with("path", path));
    }
    split_path(path).map_err(|e| Error { operation, ..e })
}

/// Whether the error says that a handle means nothing any more.
fn is_stale(error: &Error) -> bool {
    [status::STALE, status::FHEXPIRED, status::BADHANDLE].map(i64::from).contains(&error.status)
}

impl NfsSession {
    /// Over a transport that speaks to the server, with the handle of the root folder. lasting: the identity of the
    /// session that it follows, empty for the first; None of a session whose files end with it.
    pub fn new(
        t: Transport,
        dialect: Box<dyn Dialect>,
        root: Handle,
        shared: Arc<Shared>,
        lasting: Option<&[u8]>,
    ) -> NfsSession {
        let is_claiming = lasting.is_some_and(|lost| !lost.is_empty());
        NfsSession { t, dialect, root, shared, lasting: lasting.is_some(), is_claiming, last_used: Instant::now() }
    }

    /// Called before work begins: after an idle time, opens closed connections again and keeps the lease. Both are
    /// counted. While operations are outstanding nothing is idle.
    #[inline]
    fn wake(&mut self) -> Result<()> {
        if !self.t.is_idle() {
            return Ok(());
        }
        let now = Instant::now();
        let idle = now.duration_since(self.last_used);
        self.last_used = now;
        if idle < IDLE {
            return Ok(());
        }
        self.wake_up(now)
    }

    #[cold]
    fn wake_up(&mut self, now: Instant) -> Result<()> {
        self.t.alive()?;
        for at in 0..self.t.links.len() {
            match self.t.links[at].wire.try_fill(1, Duration::ZERO) {
                Ok(_) => {}
                Err(_) => {
                    let address = Arc::clone(&self.t.links[at].address);
                    let wire =
                        services::connect(&self.shared.settings, &address, self.shared.port(), self.t.version.rpc())?;
                    self.t.replace(at, wire);
                    self.t.events.reconnect += 1;
                }
            }
        }
        self.dialect.keep_lease(&mut self.t, now)
    }

    /// As `wake`, for metadata calls, which do not keep a 4.0 lease by themselves.
    fn begin(&mut self) -> Result<()> {
        self.wake()?;
        if self.t.is_idle() {
            self.dialect.keep_lease(&mut self.t, self.last_used)?;
        }
        Ok(())
    }

    /// The handle of a folder, and whether it was remembered.
    fn folder(&mut self, path: &str) -> Result<(Handle, bool)> {
        if path.is_empty() {
            return Ok((self.root, false));
        }
        let (known, changes) = self.shared.folders.find(path);
        if let Some(handle) = known {
            return Ok((handle, true));
        }
        let names: Vec<&str> = path.split('/').collect();
        let found = self.dialect.walk(&mut self.t, &self.root, &names)?;
        if !found.attributes.is_dir() {
            return Err(status::error("lookup", self.t.version.minor().is_some(), status::NOTDIR));
        }
        self.shared.folders.remember(path, found.handle, changes);
        Ok((found.handle, false))
    }

    /// Does something with folders' handles; walks again, once, when a remembered one turns out to be stale.
    fn with_folders<T, const N: usize>(
        &mut self,
        folders: [&str; N],
        mut act: impl FnMut(&mut dyn Dialect, &mut Transport, [Handle; N]) -> Result<T>,
    ) -> Result<T> {
        let mut again = true;
        loop {
            let mut handles = [self.root; N];
            let mut remembered = false;
            for (handle, folder) in handles.iter_mut().zip(folders) {
                let (found, known) = self.folder(folder)?;
                *handle = found;
                remembered |= known;
            }
            match act(&mut *self.dialect, &mut self.t, handles) {
                Err(e) if remembered && again && is_stale(&e) => {
                    again = false;
                    self.t.events.stale_retry += 1;
                    folders.iter().for_each(|folder| self.shared.folders.forget(folder));
                }
                outcome => return outcome,
            }
        }
    }

    fn at<T>(
        &mut self,
        place: &Place,
        mut act: impl FnMut(&mut dyn Dialect, &mut Transport, At<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_folders([place.folder.as_str()], |dialect, t, [folder]| {
            act(dialect, t, At { folder: &folder, name: &place.name })
        })
    }

    /// Remembers a file that was opened under this number.
    fn remember(&mut self, opened: Opened, options: &OpenOptions, number: u32) -> FileId {
        let file = OpenFile {
            handle: opened.handle,
            state: opened.state,
            stable: stable_how(options.sync),
            verifier: None,
            lost: false,
            wrote_durably: false,
        };
        self.t.files.insert(number, file)
    }

    fn copy_files(&mut self, from: &str, to: &str, len_bytes: u64) -> Result<u64> {
        let reading = OpenOptions { read: true, ..OpenOptions::default() };
        let writing = OpenOptions { read: true, write: true, create: Create::New, ..OpenOptions::default() };
        let source = self.open(from, &reading)?;
        let copied = self.open(to, &writing).and_then(|copy| {
            let copied = self.copy_open(source, copy, len_bytes);
            let closed = self.close(copy);
            match copied.and_then(|bytes| closed.map(|()| bytes)) {
                Ok(bytes) => Ok(bytes),
                Err(error) => {
                    // What a failed copy left behind is ours; the copy's own error is the one to tell.
                    drop(self.remove(to));
                    Err(error)
                }
            }
        });
        let closed = self.close(source);
        copied.and_then(|bytes| closed.map(|()| bytes))
    }

    fn copy_open(&mut self, from: FileId, to: FileId, len_bytes: u64) -> Result<u64> {
        let from = self.t.files.open("server_copy", from)?.clone();
        let target = self.t.files.open("server_copy", to)?.clone();
        self.dialect.copy(&mut self.t, &from, &target, len_bytes)
    }
}

fn check_open(options: &OpenOptions) -> Result<()> {
    let refuse = |what: &str| Err(Error::new(ErrorKind::Unsupported, "open", format!("NFS targets {what}")));
    if options.delete_on_close {
        return refuse("have no delete on close: remove the file by name");
    }
    if options.access != Access::Positioned {
        return refuse("reach files by position only: use pread and pwrite");
    }
    if options.lock != Lock::None {
        return refuse("support no locks");
    }
    if (options.truncate || options.create != Create::Never) && !options.write {
        return Err(Error::new(ErrorKind::Invalid, "open", "creating and truncating need write access"));
    }
    Ok(())
}

impl Session for NfsSession {
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        check_open(options)?;
        let place = place("open", path)?;
        self.begin()?;
        let number = self.t.files.next();
        let opened =
            self.at(&place, |dialect, t, at| dialect.open(t, at, options, number)).map_err(|e| e.with("path", path))?;
        Ok(self.remember(opened, options, number))
    }

    fn identity(&self) -> Vec<u8> {
        reclaim::identity(self.t.version, &self.dialect.client())
    }

    fn claim(&self, file: FileId) -> Option<Claim> {
        let open = self.t.files.find(file.0)?;
        Some(Claim(self.dialect.claim(open, file.0)))
    }

    fn reclaim(&mut self, path: &str, options: &OpenOptions, claim: &Claim) -> Result<Option<FileId>> {
        check_open(options)?;
        let number = self.t.files.next();
        let claimed = self.dialect.reclaim(&mut self.t, &claim.0, options, number).map_err(|e| e.with("path", path))?;
        Ok(claimed.map(|opened| self.remember(opened, options, number)))
    }

    fn end_reclaim(&mut self) -> Result<()> {
        self.dialect.end_reclaim(&mut self.t)?;
        self.is_claiming = false;
        Ok(())
    }

    fn repeat(&mut self) {
        self.dialect.repeat();
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        use ErrorKind::{Disconnected, Timeout};
        let Some(open) = self.t.files.remove(file) else {
            return Err(Error::new(ErrorKind::Invalid, "close", "this file is not open"));
        };
        let alive = self.t.alive().and_then(|()| self.wake());
        let closed = alive.and_then(|()| self.dialect.close(&mut self.t, &open, file.0));
        if self.lasting && closed.as_ref().is_err_and(|e| matches!(e.kind, Disconnected | Timeout)) {
            // It is claimed once more, to be closed then.
            self.t.files.insert(file.0, open);
        }
        closed
    }

    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        self.wake()?;
        self.t.submit(op, buf, token)
    }

    fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        self.t.reap(min, timeout, out)
    }

    fn flush(&mut self, file: FileId, _kind: FlushKind) -> Result<()> {
        self.t.files.open("flush", file)?;
        self.wake()?;
        self.t.flush(file)
    }

    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()> {
        let open = self.t.files.open("set_len", file)?.clone();
        self.wake()?;
        self.dialect.set_len(&mut self.t, &open, len_bytes)
    }

    fn stat(&mut self, path: &str) -> Result<FileStat> {
        let all = names("stat", path)?;
        self.begin()?;
        let attributes = if all.is_empty() {
            self.dialect.attributes(&mut self.t, &self.root)
        } else {
            let place = place("stat", path)?;
            self.at(&place, |dialect, t, at| Ok(dialect.walk(t, at.folder, &[at.name])?.attributes))
        };
        let found = attributes.map_err(|e| Error { operation: "stat", ..e }.with("path", path))?;
        Ok(FileStat {
            len_bytes: found.len_bytes,
            allocated_bytes: found.used_bytes,
            is_dir: found.is_dir(),
            modified_ns: found.modified_ns,
        })
    }

    fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
        let place = place("set_times", path)?;
        self.begin()?;
        let set = self.at(&place, |dialect, t, at| {
            let found = dialect.walk(t, at.folder, &[at.name])?;
            dialect.set_times(t, &found.handle, times)
        });
        set.map_err(|e| Error { operation: "set_times", ..e }.with("path", path))
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        let place = place("mkdir", path)?;
        self.begin()?;
        self.at(&place, |dialect, t, at| dialect.mkdir(t, at)).map_err(|e| e.with("path", path))
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        let place = place("rmdir", path)?;
        self.begin()?;
        self.shared.folders.forget(&place.path());
        let removed = self.at(&place, |dialect, t, at| dialect.rmdir(t, at)).map_err(|e| e.with("path", path));
        self.shared.folders.forget(&place.path());
        removed
    }

    fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        let folder = names("readdir", path)?.join("/");
        self.begin()?;
        let entries = self
            .with_folders([folder.as_str()], |dialect, t, [folder]| dialect.list(t, &folder))
            .map_err(|e| e.with("path", path))?;
        Ok(entries.into_iter().map(|e| DirEntry { name: e.name, is_dir: e.is_dir }).collect())
    }

    /// Renames within the export. An existing file of the new name is replaced, as POSIX says; so is an empty folder
    /// by a folder.
    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (source, target) = (place("rename", from)?, place("rename", to)?);
        self.begin()?;
        let renamed = self.with_folders([source.folder.as_str(), target.folder.as_str()], |dialect, t, folders| {
            let from = At { folder: &folders[0], name: &source.name };
            dialect.rename(t, from, At { folder: &folders[1], name: &target.name })
        });
        self.shared.folders.forget(&source.path());
        self.shared.folders.forget(&target.path());
        renamed.map_err(|e| e.with("from", from).with("to", to))
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        let place = place("remove", path)?;
        self.begin()?;
        self.at(&place, |dialect, t, at| dialect.remove(t, at)).map_err(|e| e.with("path", path))
    }

    fn space(&mut self) -> Result<Space> {
        self.begin()?;
        self.dialect.space(&mut self.t, &self.root)
    }

    fn ping(&mut self) -> Result<()> {
        self.wake()?;
        self.t.ping()
    }

    fn server_copy(&mut self, from: &str, to: &str) -> Result<u64> {
        if !self.shared.can_copy() {
            let message = "the server offers no COPY on this connection: it comes with NFS 4.2 servers that have it";
            return Err(Error::new(ErrorKind::Unsupported, "server_copy", message).with("from", from).with("to", to));
        }
        let found = self.stat(from)?;
        self.copy_files(from, to, found.len_bytes)
            .map_err(|e| Error { operation: "server_copy", ..e }.with("from", from).with("to", to))
    }

    fn events(&self) -> Vec<(&'static str, u64)> {
        self.t.events.list()
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        self.shared.explain(error)
    }

    fn wire(&self) -> Option<WireCounters> {
        Some(self.t.wire())
    }

    fn wire_by_address(&self) -> BTreeMap<String, WireCounters> {
        match self.shared.settings.addresses_given {
            true => self.t.wire_by_address(),
            false => BTreeMap::new(),
        }
    }
}

impl Drop for NfsSession {
    fn drop(&mut self) {
        let is_claimed = self.is_claiming || self.lasting && !self.t.files.is_empty();
        if self.t.is_broken() || !self.t.is_idle() || is_claimed {
            return;
        }
        self.t.hurry(LEAVE);
        for (number, file) in self.t.files.take_all() {
            if self.t.is_broken() || self.dialect.close(&mut self.t, &file, number).is_err() {
                break;
            }
        }
        if !self.t.is_broken() {
            self.dialect.leave(&mut self.t);
        }
        if !self.t.is_broken() {
            self.t.log_out();
        }
        self.t.links.iter().filter(|link| services::is_privileged(&link.wire)).for_each(|l| l.wire.free_port_at_end());
    }
}
