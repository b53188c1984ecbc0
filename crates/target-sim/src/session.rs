//! One client's way to the simulated server.

use crate::faults::Fault;
use crate::fs::fail;
use crate::server::{Job, Kind, Open, State};
use naslab_core::{
    errno, Access, Completion, Create, DirEntry, Error, ErrorKind, FileId, FileStat, FileTimes, FlushKind, IoBuf, Lock,
    Op, OpKind, OpenOptions, Result, Session, Space, Submit, SyncMode, Token, WireCounters,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The state all sessions and the target share.
pub(crate) type Shared = Arc<Mutex<State>>;

/// The state, whatever became of a thread that held it.
pub(crate) fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Space reported when none is configured: 1 EiB.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// A session of a [`crate::SimTarget`].
pub(crate) struct SimSession {
    shared: Shared,
    number: u32,
}

impl SimSession {
    pub(crate) fn new(shared: &Shared) -> SimSession {
        let mut state = lock(shared);
        state.peers.push(crate::server::Peer::default());
        SimSession { shared: Arc::clone(shared), number: (state.peers.len() - 1) as u32 }
    }

    /// One round trip of a metadata call, and then what it does.
    fn call<T>(&self, operation: &'static str, path: &str, act: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = lock(&self.shared);
        let more = match operation {
            "open" => state.config.open_ns,
            _ => state.config.metadata_ns,
        };
        state.stats.metadata_calls += 1;
        let job = Job::new(Kind::Meta(more), self.number);
        let answer = state.block_on(job);
        answer.map_err(|errno| self.lost(operation, errno, path))?;
        let result = act(&mut state);
        state.purge_freed();
        result
    }

    /// A call that changes the file system.
    fn change<T>(&self, operation: &'static str, path: &str, act: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        self.call(operation, path, |state| {
            if state.config.read_only {
                return Err(fail(operation, errno::EROFS, path));
            }
            act(state)
        })
    }

    fn lost(&self, operation: &'static str, errno: i32, path: &str) -> Error {
        if ErrorKind::from_errno(errno) != ErrorKind::Disconnected {
            return fail(operation, errno, path);
        }
        let mut err = Error::new(ErrorKind::Disconnected, operation, "the simulated connection is gone");
        err.status = errno.into();
        err.with("session", self.number)
    }

    fn opened(&self, state: &State, operation: &'static str, file: FileId) -> Result<Open> {
        open_file(state, self.number, file).ok_or_else(|| fail(operation, errno::EBADF, "").with("file", file.0))
    }
}

fn open_file(state: &State, session: u32, file: FileId) -> Option<Open> {
    let files = &state.peers.get(session as usize)?.files;
    files.get(file.0 as usize).copied().flatten()
}

/// Refuses what a simulated file cannot be opened with.
fn check_options(path: &str, options: &OpenOptions) -> Result<()> {
    let refuse = |kind, text: &str| Err(Error::new(kind, "open", text).with("path", path));
    if options.access != Access::Positioned {
        let text = "the simulated server has positioned access only: choose pread and pwrite";
        return refuse(ErrorKind::Unsupported, text);
    }
    if options.delete_on_close {
        return refuse(ErrorKind::Unsupported, "delete on close is SMB's: remove the file instead");
    }
    if options.lock != Lock::None {
        let text = "the simulated server has no locks: open without";
        return refuse(ErrorKind::Unsupported, text);
    }
    if !options.read && !options.write {
        return refuse(ErrorKind::Invalid, "open it for reading, writing or both");
    }
    if options.truncate && !options.write {
        return refuse(ErrorKind::Invalid, "cutting a file needs it open for writing");
    }
    Ok(())
}

/// Finds or makes the file, cuts it as the options say, and counts it as open.
fn open_in(state: &mut State, path: &str, options: &OpenOptions) -> Result<u32> {
    let found = state.tree.find_file("open", path)?;
    let creates = found.is_none() && options.create != Create::Never;
    if state.config.read_only && (options.write || creates) {
        return Err(fail("open", errno::EROFS, path));
    }
    let file = match (found, options.create) {
        (Some(_), Create::New) => return Err(fail("open", errno::EEXIST, path)),
        (None, Create::Never) => return Err(fail("open", errno::ENOENT, path)),
        (Some(file), _) => file,
        (None, _) => state.tree.create("open", path)?,
    };
    if options.truncate {
        cut(state, "open", file, 0)?;
    }
    state.tree.hold(file);
    Ok(file)
}

fn cut(state: &mut State, operation: &'static str, file: u32, len: u64) -> Result<()> {
    state.tree.set_len(operation, file, len)?;
    let (_, first_gone) = state.pages(0, len);
    state.client_cache.remove(file, first_gone, u64::MAX);
    state.server_cache.remove(file, first_gone, u64::MAX);
    Ok(())
}

/// The job of an operation: refused, faulty, or plain.
fn job_of(state: &mut State, session: u32, op: &Op, buf: IoBuf, token: Token) -> Job {
    let (kind, count) = match op.kind {
        OpKind::Read => (Kind::Read, &mut state.stats.reads),
        OpKind::Write => (Kind::Write, &mut state.stats.writes),
        OpKind::Flush => (Kind::Flush, &mut state.stats.flushes),
    };
    *count += 1;
    let mut job = Job::new(kind, session);
    job.token = token;
    let open = open_file(state, session, op.file);
    let refused = match (open, op.kind) {
        (None, _) => Some(errno::EBADF),
        (Some(o), OpKind::Read) if !o.read => Some(errno::EBADF),
        _ => None,
    };
    let moves = op.kind != OpKind::Flush && state.config.store_data;
    let too_small = moves && buf.len < op.len_bytes as usize;
    if let Some(errno) = refused.or(too_small.then_some(errno::EINVAL)) {
        job.kind = Kind::Refused;
        job.fail(errno);
        return job;
    }
    if let Some(open) = open {
        job.file = open.file;
        job.generation = state.tree.generation(open.file);
        job.bypass = open.bypass;
        job.durable = open.durable;
    }
    if op.kind != OpKind::Flush {
        job.offset = op.offset_bytes;
        job.len = op.len_bytes.into();
        job.buf = buf;
    }
    draw_fault(state, &mut job, op.kind);
    if op.kind == OpKind::Write && open.is_some_and(|open| !open.write) {
        // As servers do: its data come over the link before the server can refuse them.
        (job.bypass, job.fault) = (true, Some(Fault::Error(errno::EBADF)));
    }
    job
}

/// Draws the fault of an operation. A faulty operation always goes to the server.
fn draw_fault(state: &mut State, job: &mut Job, kind: OpKind) {
    let Some(fault) = state.faults.next(kind) else {
        return;
    };
    state.stats.faults += 1;
    job.bypass = true;
    match fault {
        Fault::Short => {
            job.len /= 2;
            job.error = Some(naslab_core::OpError { kind: ErrorKind::Short, status: 0 });
        }
        Fault::Corrupt => job.corrupt = true,
        other => job.fault = Some(other),
    }
}

/// Moves the data of a finished operation between its buffer and the file.
///
/// # Safety
/// The job's buffer is still lent to the session, as the contract of `Session::submit` says.
unsafe fn move_data(state: &mut State, job: &Job) {
    let bytes = job.bytes as usize;
    if bytes == 0 || bytes > job.buf.len || state.file_len(job).is_none() {
        return;
    }
    let Some(file) = state.tree.file_mut(job.file) else {
        return;
    };
    match job.kind {
        Kind::Read => {
            // SAFETY: the caller says that the buffer is lent, and `bytes` is within it; a read's
            // buffer is writable.
            let out = unsafe { std::slice::from_raw_parts_mut(job.buf.ptr, bytes) };
            file.read(job.offset, out);
            if job.corrupt {
                out[bytes / 2] ^= 0xff;
            }
        }
        Kind::Write => {
            // SAFETY: as above; a write's buffer is only read.
            let from = unsafe { std::slice::from_raw_parts(job.buf.ptr, bytes) };
            file.write(job.offset, from);
            if job.corrupt {
                file.corrupt(job.offset + job.bytes / 2);
            }
        }
        _ => {}
    }
}

impl Session for SimSession {
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        check_options(path, options)?;
        let file = self.call("open", path, |state| open_in(state, path, options))?;
        let mut state = lock(&self.shared);
        let durable = options.sync != SyncMode::None;
        let open = Open {
            file,
            read: options.read,
            write: options.write,
            bypass: options.direct || durable || !state.client_cache.on(),
            durable,
        };
        let files = &mut state.peers[self.number as usize].files;
        let at = match files.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                files.push(None);
                files.len() - 1
            }
        };
        files[at] = Some(open);
        Ok(FileId(at as u32))
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        let open = self.opened(&lock(&self.shared), "close", file)?;
        let number = self.number as usize;
        self.call("close", "", |state| {
            state.peers[number].files[file.0 as usize] = None;
            state.tree.release(open.file);
            Ok(())
        })
    }

    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        let mut state = lock(&self.shared);
        let now = state.clock.now_ns();
        state.run_until(now);
        let peer = &state.peers[self.number as usize];
        if peer.gone {
            return Err(self.lost("submit", errno::ECONNRESET, ""));
        }
        if peer.outstanding >= state.config.max_depth {
            return Ok(Submit::Busy);
        }
        let job = job_of(&mut state, self.number, op, buf, token);
        state.peers[self.number as usize].outstanding += 1;
        state.start(job, now);
        Ok(Submit::Queued)
    }

    fn reap(&mut self, _min: usize, _timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        let mut state = lock(&self.shared);
        let now = state.clock.now_ns();
        state.run_until(now);
        let mut reaped = 0;
        while let Some(job) = state.peers[self.number as usize].done.pop_front() {
            if state.config.store_data {
                // SAFETY: the job was submitted with this buffer and is reaped only now.
                unsafe { move_data(&mut state, &job) };
            }
            out.push(State::completion(&job));
            reaped += 1;
        }
        let peer = &mut state.peers[self.number as usize];
        peer.outstanding -= reaped;
        if reaped == 0 && peer.gone {
            return Err(self.lost("reap", errno::ECONNRESET, ""));
        }
        Ok(reaped as usize)
    }

    fn next_event_ns(&self) -> Option<u64> {
        let state = lock(&self.shared);
        let peer = &state.peers[self.number as usize];
        if !peer.done.is_empty() {
            return Some(state.clock.now_ns());
        }
        (peer.outstanding > 0).then(|| state.next_event_ns())?
    }

    fn flush(&mut self, file: FileId, _kind: FlushKind) -> Result<()> {
        let mut state = lock(&self.shared);
        let open = self.opened(&state, "flush", file)?;
        let mut job = Job::new(Kind::Flush, self.number);
        job.file = open.file;
        job.generation = state.tree.generation(open.file);
        state.stats.flushes += 1;
        draw_fault(&mut state, &mut job, OpKind::Flush);
        let answer = state.block_on(job);
        answer.map_err(|errno| self.lost("flush", errno, ""))
    }

    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()> {
        let open = self.opened(&lock(&self.shared), "set_len", file)?;
        if !open.write {
            return Err(fail("set_len", errno::EBADF, ""));
        }
        self.change("set_len", "", |state| cut(state, "set_len", open.file, len_bytes))
    }

    fn evict(&mut self, path: &str) -> Result<()> {
        let mut state = lock(&self.shared);
        let Some(file) = state.tree.find_file("evict", path)? else {
            return Err(fail("evict", errno::ENOENT, path));
        };
        let mut job = Job::new(Kind::WriteOut, self.number);
        job.file = file;
        job.generation = state.tree.generation(file);
        let answer = state.block_on(job);
        answer.map_err(|errno| self.lost("evict", errno, path))?;
        state.client_cache.remove(file, 0, u64::MAX);
        Ok(())
    }

    fn cached_fraction(&mut self, path: &str) -> Result<Option<f64>> {
        let state = lock(&self.shared);
        let Some(file) = state.tree.find_file("cached_fraction", path)? else {
            return Err(fail("cached_fraction", errno::ENOENT, path));
        };
        let len = state.tree.file(file).map_or(0, |f| f.len);
        let (_, pages) = state.pages(0, len);
        let cached = state.client_cache.pages_of(file);
        Ok(Some(cached as f64 / pages.max(1) as f64))
    }

    fn stat(&mut self, path: &str) -> Result<FileStat> {
        self.call("stat", path, |state| state.tree.stat(path))
    }

    fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
        self.change("set_times", path, |state| state.tree.set_times(path, times))
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        self.change("mkdir", path, |state| state.tree.mkdir(path))
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        self.change("rmdir", path, |state| state.tree.rmdir(path))
    }

    fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.call("readdir", path, |state| state.tree.readdir(path))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.change("rename", from, |state| state.tree.rename(from, to))
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        self.change("remove", path, |state| state.tree.remove(path))
    }

    fn space(&mut self) -> Result<Space> {
        self.call("space", "", |state| {
            let total = match state.config.capacity_bytes {
                0 => UNLIMITED_BYTES,
                bytes => bytes,
            };
            Ok(Space { free_bytes: total.saturating_sub(state.tree.used_bytes()), total_bytes: total })
        })
    }

    /// `op_overhead_ns` for each call, as far as the time for it has passed.
    fn virtual_cpu_ns(&self) -> Option<u64> {
        let state = lock(&self.shared);
        let peer = &state.peers[self.number as usize];
        Some(peer.cpu_ns.saturating_sub(peer.cpu.backlog_ns(state.clock.now_ns())))
    }

    fn wire(&self) -> Option<WireCounters> {
        Some(lock(&self.shared).peers[self.number as usize].wire)
    }
}

impl Drop for SimSession {
    fn drop(&mut self) {
        lock(&self.shared).drop_session(self.number);
    }
}
