//! Sessions that outlast a server which goes away and comes back, and what happened meanwhile.
//!
//! A [`Lasting`] target wraps another. When one of its sessions loses the server, it connects anew until that works or
//! its time is over, opens the same files, reads back what was acknowledged last, and submits again what was
//! outstanding. Those operations took as long as they took: nothing is left out of latency or throughput. This is the
//! one place where the engine repeats anything, and only in runs that ask for it; each outage is part of the result.

use crate::result::Outage;
use naslab_core::{
    limit, monotonic_ns, Caps, Clock, Completion, Create, DirEntry, Error, ErrorKind, FileId, FileStat, FileTimes,
    FlushKind, IoBuf, Op, OpError, OpKind, OpenOptions, Result, Session, Space, Submit, Target, Token, WireCounters,
};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one attempt may take: a server that is starting may take connections and not answer.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long the answer to a read of acknowledged data may take.
const READ_BACK: Duration = Duration::from_secs(30);
/// Acknowledged writes that are remembered, newest first, and read back after an outage.
const MAX_ACKNOWLEDGED: usize = 4096;
/// Most bytes that are read back.
const MAX_READ_BACK_BYTES: u64 = 256 << 20;

/// A target whose sessions outlast outages of at most `ride_out`.
pub(crate) struct Lasting {
    inner: Arc<dyn Target>,
    ride_out: Duration,
    outages: Arc<Mutex<Vec<Outage>>>,
    writers: Writers,
}

/// Which workers opened a file to write.
type Writers = Arc<Mutex<HashMap<String, HashSet<u32>>>>;
/// Where an operation begins.
type Place = (FileId, u64);

impl Lasting {
    /// Around a target; each outage is added to `outages`.
    pub fn new(inner: Arc<dyn Target>, ride_out: Duration, outages: Arc<Mutex<Vec<Outage>>>) -> Lasting {
        Lasting { inner, ride_out, outages, writers: Writers::default() }
    }
}

impl Target for Lasting {
    fn protocol(&self) -> &'static str {
        self.inner.protocol()
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn connect(&self, worker: u32) -> Result<Box<dyn Session>> {
        Ok(Box::new(LastingSession {
            target: Arc::clone(&self.inner),
            worker,
            ride_out: self.ride_out,
            outages: Arc::clone(&self.outages),
            writers: Arc::clone(&self.writers),
            inner: Some(self.inner.connect(worker)?),
            files: Vec::new(),
            regions: Vec::new(),
            outstanding: HashMap::new(),
            writing: HashMap::new(),
            acknowledged: VecDeque::new(),
            answered_ns: monotonic_ns(),
            past: Past::default(),
        }))
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.inner.facts()
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        self.inner.explain(error)
    }
}

/// An open file, and how it was opened.
struct Opened {
    path: String,
    options: OpenOptions,
    inner: FileId,
}

/// A write that the server acknowledged.
struct Acknowledged {
    file: FileId,
    offset_bytes: u64,
    len_bytes: u32,
    /// None where another write to the same place was outstanding meanwhile: the server may have carried out either last.
    crc: Option<u32>,
}

/// Counts of sessions that ended.
#[derive(Default)]
struct Past {
    wire: WireCounters,
    by_address: BTreeMap<String, WireCounters>,
    events: BTreeMap<&'static str, u64>,
}

struct LastingSession {
    target: Arc<dyn Target>,
    worker: u32,
    ride_out: Duration,
    outages: Arc<Mutex<Vec<Outage>>>,
    writers: Writers,
    /// None while the server is away.
    inner: Option<Box<dyn Session>>,
    files: Vec<Option<Opened>>,
    regions: Vec<IoBuf>,
    outstanding: HashMap<Token, (Op, IoBuf)>,
    /// Outstanding writes by their places: how many, and whether there was more than one.
    writing: HashMap<Place, (u32, bool)>,
    /// Oldest first.
    acknowledged: VecDeque<Acknowledged>,
    /// When the server last answered an operation.
    answered_ns: u64,
    past: Past,
}

/// What reading back found.
#[derive(Default)]
struct ReadBack {
    writes: u64,
    bytes: u64,
    lost: u64,
    first_lost: Option<String>,
}

/// Whether an error says that the server is away.
fn is_away(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Disconnected | ErrorKind::Timeout)
}

impl LastingSession {
    fn inner(&mut self) -> Result<&mut (dyn Session + 'static)> {
        let gone = || Error::new(ErrorKind::Disconnected, "session", "the server did not come back");
        self.inner.as_deref_mut().ok_or_else(gone)
    }

    fn mapped(&self, file: FileId) -> Result<FileId> {
        let opened = self.files.get(file.0 as usize).and_then(Option::as_ref);
        opened.map(|opened| opened.inner).ok_or_else(|| Error::new(ErrorKind::Invalid, "file", "this file is not open"))
    }

    /// Carries out a call that may be repeated; once more after an outage.
    fn lasting<T>(&mut self, mut call: impl FnMut(&mut LastingSession) -> Result<T>) -> Result<T> {
        match call(self) {
            Err(error) if is_away(error.kind) => {
                self.ride(error)?;
                call(self)
            }
            outcome => outcome,
        }
    }

    /// Takes the completions from `from` on: an operation that failed because the server went away has not ended.
    fn take(&mut self, from: usize, out: &mut Vec<Completion>) -> Option<Error> {
        let mut away = None;
        let mut at = from;
        while at < out.len() {
            let done = out[at];
            if done.error.is_some_and(|error| is_away(error.kind)) {
                out.swap_remove(at);
                let status = done.error.map_or(0, |error| error.status);
                let error = Error::new(ErrorKind::Disconnected, "session", "the server no longer knows this session");
                away = Some(Error { status, ..error });
                continue;
            }
            self.answered_ns = monotonic_ns();
            if let Some((op, buf)) = self.outstanding.remove(&done.token) {
                self.remember(&op, buf, &done);
            }
            at += 1;
        }
        away
    }

    /// An operation is on its way.
    fn begin(&mut self, token: Token, op: &Op, buf: IoBuf) {
        self.outstanding.insert(token, (*op, buf));
        if op.kind == OpKind::Write {
            let (count, contested) = self.writing.entry((op.file, op.offset_bytes)).or_default();
            *contested |= *count > 0;
            *count += 1;
        }
    }

    /// A write ended: whether it was the only one to its place while it was outstanding.
    fn end_write(&mut self, place: Place) -> bool {
        let Some((count, contested)) = self.writing.get_mut(&place) else { return true };
        let alone = !*contested;
        *count -= 1;
        if *count == 0 {
            self.writing.remove(&place);
        }
        alone
    }

    /// Keeps what a write that was acknowledged has put where.
    fn remember(&mut self, op: &Op, buf: IoBuf, done: &Completion) {
        if op.kind != OpKind::Write {
            return;
        }
        let whole = done.error.is_none() && done.bytes == op.len_bytes;
        let known = self.end_write((op.file, op.offset_bytes)) && whole;
        if self.acknowledged.len() == MAX_ACKNOWLEDGED {
            self.acknowledged.pop_front();
        }
        // SAFETY: the operation's memory is the session's until its completion is handed on.
        let data = unsafe { std::slice::from_raw_parts(buf.ptr, op.len_bytes as usize) };
        self.acknowledged.push_back(Acknowledged {
            file: op.file,
            offset_bytes: op.offset_bytes,
            len_bytes: op.len_bytes,
            crc: known.then(|| crc32c::crc32c(data)),
        });
    }

    /// The server went away: waits until it is back, or until the time is over; then `error` is what remains.
    #[cold]
    fn ride(&mut self, error: Error) -> Result<()> {
        let (start_ns, until) = (self.answered_ns, monotonic_ns() + self.ride_out.as_nanos() as u64);
        let mut attempts = 0;
        loop {
            limit::check("ride_out")?;
            attempts += 1;
            match self.come_back() {
                Ok((end_ns, read_back)) => {
                    let outage = Outage {
                        worker: self.worker,
                        start_ns,
                        end_ns,
                        attempts,
                        repeated_ops: self.outstanding.len() as u64,
                        read_back_writes: read_back.writes,
                        read_back_bytes: read_back.bytes,
                        lost_writes: read_back.lost,
                        first_lost: read_back.first_lost,
                    };
                    self.outages.lock().unwrap_or_else(PoisonError::into_inner).push(outage);
                    return Ok(());
                }
                Err(failed) if failed.kind == ErrorKind::Interrupted => return Err(failed),
                Err(_) if monotonic_ns() >= until => {
                    self.end_inner();
                    let waited = self.ride_out.as_secs_f64();
                    let message = format!("{}; the server did not come back within {waited} s", error.message);
                    return Err(Error { message, ..error });
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// One attempt: connects, opens the files, reads back and submits again. When the files were open, and what was
    /// read back.
    fn come_back(&mut self) -> Result<(u64, ReadBack)> {
        self.end_inner();
        let worker = self.worker;
        let mut session = limit::capped(ATTEMPT, || self.target.connect(worker))?;
        // SAFETY: the caller of `register_memory` keeps the regions as they are.
        unsafe { session.register_memory(&self.regions)? };
        for opened in self.files.iter_mut().flatten() {
            let options = OpenOptions { create: Create::Never, truncate: false, ..opened.options.clone() };
            opened.inner = limit::capped(ATTEMPT, || session.open(&opened.path, &options))?;
        }
        let end_ns = monotonic_ns();
        let read_back = self.read_back(&mut *session)?;
        self.inner = Some(session);
        self.submit_again()?;
        self.answered_ns = monotonic_ns();
        Ok((end_ns, read_back))
    }

    fn end_inner(&mut self) {
        let Some(ended) = self.inner.take() else { return };
        self.past.wire += ended.wire().unwrap_or_default();
        for (address, counted) in ended.wire_by_address() {
            *self.past.by_address.entry(address).or_default() += counted;
        }
        for (name, count) in ended.events() {
            *self.past.events.entry(name).or_default() += count;
        }
    }

    /// Reads what was acknowledged last, but not where a newer write is outstanding, which may have come to pass.
    fn read_back(&self, session: &mut dyn Session) -> Result<ReadBack> {
        let mut found = ReadBack::default();
        let writes = self.outstanding.values().map(|(op, _)| op).filter(|op| op.kind == OpKind::Write);
        let mut seen: HashSet<Place> = writes.map(|op| (op.file, op.offset_bytes)).collect();
        let mut handles: HashMap<FileId, FileId> = HashMap::new();
        for write in self.acknowledged.iter().rev() {
            if found.bytes >= MAX_READ_BACK_BYTES || !seen.insert((write.file, write.offset_bytes)) {
                continue;
            }
            let Some(opened) = self.files.get(write.file.0 as usize).and_then(Option::as_ref) else { continue };
            let Some(crc) = write.crc.filter(|_| self.writes_alone(&opened.path)) else { continue };
            let handle = match handles.get(&write.file) {
                Some(handle) => *handle,
                None => {
                    let options = OpenOptions { read: true, ..OpenOptions::default() };
                    *handles.entry(write.file).or_insert(session.open(&opened.path, &options)?)
                }
            };
            found.writes += 1;
            found.bytes += u64::from(write.len_bytes);
            if read_crc(session, handle, write)? != Some(crc) {
                found.lost += 1;
                found.first_lost.get_or_insert_with(|| format!("{} at {}", opened.path, write.offset_bytes));
            }
        }
        handles.into_values().try_for_each(|handle| session.close(handle))?;
        Ok(found)
    }

    /// Whether no other worker may have written to the file.
    fn writes_alone(&self, path: &str) -> bool {
        let writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.get(path).is_none_or(|workers| workers.iter().all(|worker| *worker == self.worker))
    }

    fn submit_again(&mut self) -> Result<()> {
        let again: Vec<(Token, Op, IoBuf)> =
            self.outstanding.iter().map(|(token, (op, buf))| (*token, *op, *buf)).collect();
        for (token, op, buf) in again {
            let file = self.mapped(op.file)?;
            // SAFETY: the memory is lent until the completion is handed on, and the session that had it has ended.
            let taken = unsafe { self.inner()?.submit(&Op { file, ..op }, buf, token)? };
            if taken != Submit::Queued {
                let message = "the server takes fewer operations at once than before";
                return Err(Error::new(ErrorKind::Disconnected, "submit", message));
            }
        }
        Ok(())
    }
}

/// The checksum of a record as the server has it now; None where the file ends before.
fn read_crc(session: &mut dyn Session, file: FileId, write: &Acknowledged) -> Result<Option<u32>> {
    let mut data = vec![0; write.len_bytes as usize];
    let op =
        Op { kind: OpKind::Read, file, offset_bytes: write.offset_bytes, len_bytes: write.len_bytes, due_ns: None };
    let mut done = Vec::with_capacity(1);
    // SAFETY: the memory outlives the operation: it is waited for, and given away where it does not end.
    let sent = unsafe { session.submit(&op, IoBuf::from_slice(&mut data), 0) };
    if let Ok(Submit::Completed(at_once)) = sent {
        done.push(at_once);
    }
    let outcome = sent.and_then(|_| match done.is_empty() {
        true => session.reap(1, Some(READ_BACK), &mut done).map(drop),
        false => Ok(()),
    });
    let Some(done) = done.first().filter(|_| outcome.is_ok()) else {
        std::mem::forget(data);
        outcome?;
        return Err(Error::new(ErrorKind::Timeout, "read", "no answer while acknowledged data was read back"));
    };
    match done.error {
        Some(error) if is_away(error.kind) => Err(Error::new(error.kind, "read", "the server went away again")),
        None if done.bytes == write.len_bytes => Ok(Some(crc32c::crc32c(&data))),
        _ => Ok(None),
    }
}

impl Session for LastingSession {
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        let inner = match options.create == Create::Never && !options.truncate {
            true => self.lasting(|s| s.inner()?.open(path, options))?,
            false => self.inner()?.open(path, options)?,
        };
        if options.write {
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            writers.entry(path.to_string()).or_default().insert(self.worker);
        }
        let opened = Some(Opened { path: path.to_string(), options: options.clone(), inner });
        let at = match self.files.iter().position(Option::is_none) {
            Some(at) => at,
            None => {
                self.files.push(None);
                self.files.len() - 1
            }
        };
        self.files[at] = opened;
        self.answered_ns = monotonic_ns();
        Ok(FileId(at as u32))
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        let closed = self.lasting(|s| {
            let inner = s.mapped(file)?;
            s.inner()?.close(inner)
        });
        self.files[file.0 as usize] = None;
        self.acknowledged.retain(|write| write.file != file);
        closed
    }

    unsafe fn register_memory(&mut self, regions: &[IoBuf]) -> Result<()> {
        self.regions = regions.to_vec();
        match &mut self.inner {
            // SAFETY: as the caller promises.
            Some(inner) => unsafe { inner.register_memory(regions) },
            None => Ok(()),
        }
    }

    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        let file = self.mapped(op.file)?;
        if self.outstanding.is_empty() {
            self.answered_ns = monotonic_ns();
        }
        // SAFETY: as the caller promises.
        match unsafe { self.inner()?.submit(&Op { file, ..*op }, buf, token) } {
            Ok(Submit::Queued) => {
                self.begin(token, op, buf);
                Ok(Submit::Queued)
            }
            Ok(Submit::Completed(done)) if done.error.is_none_or(|error| !is_away(error.kind)) => {
                self.remember(op, buf, &done);
                self.answered_ns = monotonic_ns();
                Ok(Submit::Completed(done))
            }
            Ok(Submit::Busy) => Ok(Submit::Busy),
            Ok(Submit::Completed(_)) => {
                self.begin(token, op, buf);
                self.ride(Error::new(ErrorKind::Disconnected, "session", "the server no longer knows this session"))?;
                Ok(Submit::Queued)
            }
            Err(error) if is_away(error.kind) => {
                self.begin(token, op, buf);
                self.ride(error)?;
                Ok(Submit::Queued)
            }
            Err(error) => Err(error),
        }
    }

    fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        let from = out.len();
        let reaped = self.inner()?.reap(min, timeout, out);
        let away = self.take(from, out);
        match (reaped, away) {
            (Err(error), _) if !is_away(error.kind) => return Err(error),
            (Err(error), _) | (Ok(_), Some(error)) => self.ride(error)?,
            (Ok(_), None) => {}
        }
        Ok(out.len() - from)
    }

    fn flush(&mut self, file: FileId, kind: FlushKind) -> Result<()> {
        self.lasting(|s| {
            let inner = s.mapped(file)?;
            s.inner()?.flush(inner, kind)
        })
    }

    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()> {
        self.lasting(|s| {
            let inner = s.mapped(file)?;
            s.inner()?.set_len(inner, len_bytes)
        })
    }

    fn evict(&mut self, path: &str) -> Result<()> {
        self.inner()?.evict(path)
    }

    fn cached_fraction(&mut self, path: &str) -> Result<Option<f64>> {
        self.inner()?.cached_fraction(path)
    }

    fn stat(&mut self, path: &str) -> Result<FileStat> {
        self.lasting(|s| s.inner()?.stat(path))
    }

    fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
        self.lasting(|s| s.inner()?.set_times(path, times))
    }

    fn hold_folder(&mut self, folder: &str) -> Result<()> {
        self.inner()?.hold_folder(folder)
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        self.inner()?.mkdir(path)
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        self.inner()?.rmdir(path)
    }

    fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.lasting(|s| s.inner()?.readdir(path))
    }

    fn readdir_within(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.lasting(|s| s.inner()?.readdir_within(path))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.inner()?.rename(from, to)
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        self.inner()?.remove(path)
    }

    fn discard(&mut self, path: &str, mark: Option<&str>) -> Result<()> {
        self.inner()?.discard(path, mark)
    }

    fn space(&mut self) -> Result<Space> {
        self.lasting(|s| s.inner()?.space())
    }

    fn ping(&mut self) -> Result<()> {
        self.lasting(|s| s.inner()?.ping())
    }

    fn server_copy(&mut self, from: &str, to: &str) -> Result<u64> {
        self.inner()?.server_copy(from, to)
    }

    fn events(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.past.events.clone();
        for (name, count) in self.inner.iter().flat_map(|inner| inner.events()) {
            *all.entry(name).or_default() += count;
        }
        all.into_iter().collect()
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        self.inner.as_ref().and_then(|inner| inner.explain(error))
    }

    fn wire(&self) -> Option<WireCounters> {
        let now = self.inner.as_ref().map_or(Some(WireCounters::default()), |inner| inner.wire());
        now.map(|counted| counted + self.past.wire)
    }

    fn wire_by_address(&self) -> BTreeMap<String, WireCounters> {
        let mut all = self.past.by_address.clone();
        for (address, counted) in self.inner.iter().flat_map(|inner| inner.wire_by_address()) {
            *all.entry(address).or_default() += counted;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const RECORD: usize = 4096;

    /// One file in memory; every session ends after so many operations, and connecting fails so many times.
    struct Fragile {
        file: Mutex<Vec<u8>>,
        lives: u32,
        down: AtomicU32,
        /// Where an acknowledged write gets lost with the server.
        forgets: Option<u64>,
        connected: AtomicU32,
    }

    struct FragileSession(Arc<Fragile>, u32, Vec<Completion>);

    struct FragileTarget(Arc<Fragile>);

    impl Target for FragileTarget {
        fn protocol(&self) -> &'static str {
            "fragile"
        }
        fn caps(&self) -> Caps {
            Caps::default()
        }
        fn clock(&self) -> Clock {
            Clock::real()
        }
        fn connect(&self, _worker: u32) -> Result<Box<dyn Session>> {
            if self.0.connected.fetch_add(1, Ordering::Relaxed) > 0 && self.0.down.load(Ordering::Relaxed) > 0 {
                self.0.down.fetch_sub(1, Ordering::Relaxed);
                return Err(Error::new(ErrorKind::Disconnected, "connect", "nobody listens"));
            }
            Ok(Box::new(FragileSession(Arc::clone(&self.0), 0, Vec::new())))
        }
    }

    impl FragileSession {
        fn gone(&self) -> Error {
            if let Some(at) = self.0.forgets {
                self.0.file.lock().unwrap()[at as usize..at as usize + RECORD].fill(0);
            }
            Error::new(ErrorKind::Disconnected, "receive", "the server closed the connection")
        }
    }

    impl Session for FragileSession {
        fn open(&mut self, _path: &str, options: &OpenOptions) -> Result<FileId> {
            if options.truncate {
                self.0.file.lock().unwrap().fill(0);
            }
            Ok(FileId(7))
        }
        fn close(&mut self, file: FileId) -> Result<()> {
            assert_eq!(file, FileId(7));
            Ok(())
        }
        unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
            self.1 += 1;
            if self.1 > self.0.lives && self.0.connected.load(Ordering::Relaxed) == 1 {
                return Err(self.gone());
            }
            let mut file = self.0.file.lock().unwrap();
            let there = &mut file[op.offset_bytes as usize..op.offset_bytes as usize + op.len_bytes as usize];
            // SAFETY: as the caller promises.
            let memory = unsafe { std::slice::from_raw_parts_mut(buf.ptr, op.len_bytes as usize) };
            match op.kind {
                OpKind::Write => there.copy_from_slice(memory),
                _ => memory.copy_from_slice(there),
            }
            self.2.push(Completion { token, bytes: op.len_bytes, error: None });
            Ok(Submit::Queued)
        }
        fn reap(&mut self, min: usize, _timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
            let count = self.2.len();
            if count == 0 && min > 0 && self.0.connected.load(Ordering::Relaxed) == 1 {
                return Err(self.gone());
            }
            out.append(&mut self.2);
            Ok(count)
        }
        fn flush(&mut self, _file: FileId, _kind: FlushKind) -> Result<()> {
            Ok(())
        }
        fn set_len(&mut self, _file: FileId, _len_bytes: u64) -> Result<()> {
            Ok(())
        }
        fn stat(&mut self, _path: &str) -> Result<FileStat> {
            Ok(FileStat { len_bytes: 0, allocated_bytes: None, is_dir: false, modified_ns: None })
        }
        fn mkdir(&mut self, _path: &str) -> Result<()> {
            Ok(())
        }
        fn rmdir(&mut self, _path: &str) -> Result<()> {
            Ok(())
        }
        fn readdir(&mut self, _path: &str) -> Result<Vec<DirEntry>> {
            Ok(Vec::new())
        }
        fn rename(&mut self, _from: &str, _to: &str) -> Result<()> {
            Ok(())
        }
        fn remove(&mut self, _path: &str) -> Result<()> {
            Ok(())
        }
        fn space(&mut self) -> Result<Space> {
            Ok(Space { free_bytes: 0, total_bytes: 0 })
        }
        fn wire(&self) -> Option<WireCounters> {
            Some(WireCounters { sent_bytes: u64::from(self.1), received_bytes: 0 })
        }
    }

    /// Writes eight records through a server that goes away after `lives` of them: the file, the outages, the wire.
    fn write_all(
        lives: u32,
        down: u32,
        forgets: Option<u64>,
        ride_out: Duration,
    ) -> Result<(Vec<u8>, Vec<Outage>, u64)> {
        let fragile = Arc::new(Fragile {
            file: Mutex::new(vec![0; 8 * RECORD]),
            lives,
            down: AtomicU32::new(down),
            forgets,
            connected: AtomicU32::new(0),
        });
        let outages = Arc::new(Mutex::new(Vec::new()));
        let target = Lasting::new(Arc::new(FragileTarget(Arc::clone(&fragile))), ride_out, Arc::clone(&outages));
        let mut session = target.connect(3)?;
        let options = OpenOptions { write: true, truncate: true, create: Create::IfMissing, ..OpenOptions::default() };
        let file = session.open("file", &options)?;
        let mut records: Vec<Vec<u8>> = (1..=8u8).map(|n| vec![n; RECORD]).collect();
        let mut done = Vec::new();
        for (at, record) in records.iter_mut().enumerate() {
            let offset_bytes = (at * RECORD) as u64;
            let op = Op { kind: OpKind::Write, file, offset_bytes, len_bytes: RECORD as u32, due_ns: None };
            // SAFETY: the records outlive the session.
            unsafe { session.submit(&op, IoBuf::from_slice(record), at as u32)? };
            // Two are outstanding at a time.
            if at % 2 == 1 {
                while done.len() <= at {
                    session.reap(1, None, &mut done)?;
                }
            }
        }
        session.flush(file, FlushKind::All)?;
        session.close(file)?;
        let mut tokens: Vec<u32> = done.iter().map(|done| done.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..8).collect::<Vec<_>>(), "each operation ends once");
        let sent = session.wire().unwrap().sent_bytes;
        let file = fragile.file.lock().unwrap().clone();
        let outages = std::mem::take(&mut *outages.lock().unwrap());
        Ok((file, outages, sent))
    }

    fn whole() -> Vec<u8> {
        (1..=8u8).flat_map(|n| vec![n; RECORD]).collect()
    }

    #[test]
    fn operations_end_once_and_what_was_acknowledged_is_read_back() {
        for lives in 1..8 {
            let (file, outages, sent) = write_all(lives, 2, None, Duration::from_secs(20)).unwrap();
            assert_eq!(file, whole(), "{lives}");
            let [outage] = &outages[..] else { panic!("{} outages", outages.len()) };
            assert_eq!((outage.worker, outage.attempts, outage.lost_writes), (3, 3, 0));
            assert!(outage.end_ns > outage.start_ns && outage.repeated_ops >= 1);
            assert_eq!(outage.read_back_writes, u64::from(lives / 2 * 2), "those of whole pairs were acknowledged");
            assert!(sent >= 8, "what went before counts too");
        }
    }

    #[test]
    fn writes_that_met_at_one_place_and_files_of_several_workers_are_not_judged() {
        let fragile = Arc::new(Fragile {
            file: Mutex::new(vec![0; 8 * RECORD]),
            lives: 3,
            down: AtomicU32::new(0),
            forgets: Some(0),
            connected: AtomicU32::new(0),
        });
        for (writers, offsets, judged) in [(1, [0, 0], 0), (1, [0, RECORD], 2), (2, [0, RECORD], 0)] {
            fragile.connected.store(0, Ordering::Relaxed);
            let outages = Arc::new(Mutex::new(Vec::new()));
            let target =
                Lasting::new(Arc::new(FragileTarget(Arc::clone(&fragile))), Duration::from_secs(20), outages.clone());
            let options = OpenOptions { write: true, ..OpenOptions::default() };
            let mut session = target.connect(0).unwrap();
            let file = session.open("file", &options).unwrap();
            if writers == 2 {
                target.connect(1).unwrap().open("file", &options).unwrap();
                fragile.connected.store(1, Ordering::Relaxed);
            }
            let (mut records, mut done) = (vec![vec![9u8; RECORD]; 4], Vec::new());
            let places = [offsets[0], offsets[1], 4 * RECORD, 5 * RECORD];
            for (at, record) in records.iter_mut().enumerate() {
                let offset_bytes = places[at] as u64;
                let op = Op { kind: OpKind::Write, file, offset_bytes, len_bytes: RECORD as u32, due_ns: None };
                // SAFETY: the records outlive the session's use of them: all is reaped below.
                unsafe { session.submit(&op, IoBuf::from_slice(record), at as u32).unwrap() };
                if at == 1 {
                    session.reap(2, None, &mut done).unwrap();
                }
            }
            while done.len() < 4 {
                session.reap(1, None, &mut done).unwrap();
            }
            let outage = outages.lock().unwrap().pop().unwrap();
            assert_eq!((outage.read_back_writes, outage.lost_writes), (judged, judged / 2), "{offsets:?}");
        }
    }

    #[test]
    fn a_write_that_did_not_survive_is_counted() {
        let (_, outages, _) = write_all(4, 0, Some(RECORD as u64), Duration::from_secs(20)).unwrap();
        assert_eq!((outages[0].read_back_writes, outages[0].lost_writes), (4, 1));
        assert_eq!(outages[0].first_lost.as_deref(), Some("file at 4096"));
    }

    #[test]
    fn a_server_that_stays_away_ends_the_session() {
        let error = write_all(4, u32::MAX, None, Duration::from_millis(250)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Disconnected);
        assert!(error.message.contains("did not come back within 0.25 s"), "{error}");
    }

    #[test]
    fn a_server_that_stays_is_not_read_back() {
        let (file, outages, sent) = write_all(u32::MAX, 0, None, Duration::from_secs(20)).unwrap();
        assert_eq!((file, outages.len(), sent), (whole(), 0, 8));
    }
}
