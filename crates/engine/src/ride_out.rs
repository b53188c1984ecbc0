//! Sessions that outlast a server which goes away and comes back, and what happened meanwhile.
//!
//! A [`LastingTarget`] wraps another. When one of its sessions loses the server, it connects anew until that works or
//! its time is over, claims the files that the server kept open, opens the others by name, reads back what was
//! acknowledged last, and submits again what was outstanding. Those operations took as long as they took: nothing is
//! left out of latency or throughput. This is the one place where the engine repeats anything, and only in runs that
//! ask for it; each outage is part of the result.

mod repeat;

use crate::result::Outage;
use naslab_core::{
    limit, monotonic_ns, Caps, Claim, Clock, Completion, Create, DirEntry, Error, ErrorKind, FileId, FileStat,
    FileTimes, FlushKind, IoBuf, Op, OpError, OpKind, OpenOptions, Result, Session, Space, Submit, Target, Token,
    WireCounters,
};
use repeat::Change;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one attempt may take: a server that is starting may take connections and not answer.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long the answer to a read of acknowledged data may take.
const READ_BACK: Duration = Duration::from_secs(30);
/// How long a session that ends waits for what is outstanding, and for each of its files to be closed.
const FAREWELL: Duration = Duration::from_secs(2);
/// Acknowledged writes that are remembered, newest first, and read back after an outage.
const MAX_ACKNOWLEDGED: usize = 4096;
/// Most bytes that are read back.
const MAX_READ_BACK_BYTES: u64 = 256 << 20;

/// A target whose sessions outlast outages of at most `ride_out`.
pub(crate) struct LastingTarget {
    inner: Arc<dyn Target>,
    ride_out: Duration,
    outages: Arc<Mutex<Vec<Outage>>>,
    writers: Writers,
}

/// Which workers opened a file to write.
type Writers = Arc<Mutex<HashMap<String, HashSet<u32>>>>;
/// Where an operation begins.
type Place = (FileId, u64);

impl LastingTarget {
    /// Around a target; each outage is added to `outages`.
    pub fn new(inner: Arc<dyn Target>, ride_out: Duration, outages: Arc<Mutex<Vec<Outage>>>) -> LastingTarget {
        LastingTarget { inner, ride_out, outages, writers: Writers::default() }
    }
}

impl Target for LastingTarget {
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
        let inner = self.inner.connect_lasting(worker, self.ride_out, &[])?;
        let identity = inner.identity();
        Ok(Box::new(LastingSession {
            target: Arc::clone(&self.inner),
            worker,
            ride_out: self.ride_out,
            outages: Arc::clone(&self.outages),
            writers: Arc::clone(&self.writers),
            inner: Some(inner),
            identity,
            files: Vec::new(),
            regions: Vec::new(),
            outstanding: HashMap::new(),
            writing: HashMap::new(),
            acknowledged: VecDeque::new(),
            answered_ns: monotonic_ns(),
            past: Past::default(),
            outage: 0,
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
    /// What it is claimed with from the next session, where the server keeps it.
    claim: Option<Claim>,
    /// It was opened by name in the outage that is being waited out.
    is_anew: bool,
}

impl Opened {
    /// Claims the file from a session that follows the one that was lost. Whether the server had kept it.
    fn reclaim(&mut self, session: &mut dyn Session) -> Result<bool> {
        let Some(claim) = self.claim.take() else { return Ok(false) };
        let claimed = limit::capped(ATTEMPT, || session.reclaim(&self.path, &self.options, &claim));
        match claimed {
            Ok(None) => Ok(false),
            Ok(Some(inner)) => {
                self.take(inner, session);
                Ok(true)
            }
            Err(error) => {
                // The next attempt may still get it.
                self.claim = Some(claim);
                Err(error)
            }
        }
    }

    /// Opens the file by name in a session that follows the one that was lost.
    fn open_anew(&mut self, session: &mut dyn Session) -> Result<()> {
        let options = OpenOptions { create: Create::Never, truncate: false, ..self.options.clone() };
        let inner = limit::capped(ATTEMPT, || session.open(&self.path, &options))?;
        self.is_anew = true;
        self.take(inner, session);
        Ok(())
    }

    fn take(&mut self, inner: FileId, session: &dyn Session) {
        self.inner = inner;
        self.claim = session.claim(inner);
    }
}

/// A write that the server acknowledged.
struct Acknowledged {
    file: FileId,
    offset_bytes: u64,
    len_bytes: u32,
    /// None where another write to the same place was outstanding meanwhile: the server may have carried out either
    /// last.
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
    /// By what the server knew the last session.
    identity: Vec<u8>,
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
    /// Which of the run's outages this session waited out last.
    outage: usize,
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

    /// Carries out a call that does the same if it is carried out twice; once more after an outage.
    fn lasting<T>(&mut self, mut call: impl FnMut(&mut LastingSession) -> Result<T>) -> Result<T> {
        match call(self) {
            Err(error) if is_away(error.kind) => self.ride_and_repeat(error, call),
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
        self.files.iter_mut().flatten().for_each(|opened| opened.is_anew = false);
        loop {
            limit::check("ride_out")?;
            attempts += 1;
            match self.come_back(until) {
                Ok((end_ns, read_back)) => {
                    let is_anew = self.files.iter().flatten().map(|opened| opened.is_anew);
                    let reopened_files = is_anew.clone().filter(|anew| *anew).count() as u64;
                    let outage = Outage {
                        worker: self.worker,
                        start_ns,
                        end_ns,
                        attempts,
                        kept_files: is_anew.count() as u64 - reopened_files,
                        reopened_files,
                        repeated_ops: self.outstanding.len() as u64,
                        repeated_calls: 0,
                        answers_replayed: 0,
                        calls_done_before: 0,
                        read_back_writes: read_back.writes,
                        read_back_bytes: read_back.bytes,
                        lost_writes: read_back.lost,
                        first_lost: read_back.first_lost,
                    };
                    let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
                    self.outage = outages.len();
                    outages.push(outage);
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

    /// One attempt: connects, claims the files or opens them by name, reads back and submits again. When the files were
    /// open, and what was read back. until: no file is asked for after that.
    fn come_back(&mut self, until: u64) -> Result<(u64, ReadBack)> {
        let in_time = || match monotonic_ns() < until {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Timeout, "open", "the time to wait for the server is over")),
        };
        self.end_inner();
        let (worker, keep) = (self.worker, self.ride_out);
        let mut session = limit::capped(ATTEMPT, || self.target.connect_lasting(worker, keep, &self.identity))?;
        self.identity = session.identity();
        // SAFETY: the caller of `register_memory` keeps the regions as they are.
        unsafe { session.register_memory(&self.regions)? };
        let mut anew = Vec::new();
        for opened in self.files.iter_mut().flatten() {
            in_time()?;
            if !opened.reclaim(&mut *session)? {
                anew.push(opened);
            }
        }
        limit::capped(ATTEMPT, || session.end_reclaim())?;
        anew.into_iter().try_for_each(|opened| in_time().and_then(|()| opened.open_anew(&mut *session)))?;
        let end_ns = monotonic_ns();
        let read_back = self.read_back(&mut *session)?;
        self.inner = Some(session);
        self.submit_again()?;
        self.answered_ns = monotonic_ns();
        Ok((end_ns, read_back))
    }

    fn end_inner(&mut self) {
        let Some(ended) = self.inner.take() else { return };
        self.identity = ended.identity();
        self.past.wire += ended.wire().unwrap_or_default();
        for (address, counted) in ended.wire_by_address() {
            *self.past.by_address.entry(address).or_default() += counted;
        }
        for (name, count) in ended.events() {
            *self.past.events.entry(name).or_default() += count;
        }
        // As they are now: a call since the open may have changed what the server expects.
        for opened in self.files.iter_mut().flatten() {
            opened.claim = ended.claim(opened.inner).or(opened.claim.take());
        }
    }

    /// Closes what is open, once nothing is outstanding any more: a server keeps the files of a session that vanishes.
    fn take_leave(&mut self, inner: &mut dyn Session) -> Result<()> {
        let until = Instant::now() + FAREWELL;
        let mut done = Vec::new();
        while !self.outstanding.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(ErrorKind::Timeout, "close", "operations are outstanding"));
            }
            inner.reap(1, Some(left), &mut done)?;
            for done in done.drain(..) {
                self.outstanding.remove(&done.token);
            }
        }
        let mut files = self.files.drain(..).flatten();
        files.try_for_each(|opened| limit::capped(FAREWELL, || inner.close(opened.inner)))
    }

    /// Reads what was acknowledged last, but not where a newer write is outstanding, which may have come to pass.
    fn read_back(&self, session: &mut dyn Session) -> Result<ReadBack> {
        let mut found = ReadBack::default();
        let writes = self.outstanding.values().map(|(op, _)| op).filter(|op| op.kind == OpKind::Write);
        let mut seen: HashSet<Place> = writes.map(|op| (op.file, op.offset_bytes)).collect();
        for write in self.acknowledged.iter().rev() {
            if found.bytes >= MAX_READ_BACK_BYTES || !seen.insert((write.file, write.offset_bytes)) {
                continue;
            }
            let Some(opened) = self.files.get(write.file.0 as usize).and_then(Option::as_ref) else { continue };
            let Some(crc) = write.crc.filter(|_| self.writes_alone(&opened.path)) else { continue };
            found.writes += 1;
            found.bytes += u64::from(write.len_bytes);
            if read_crc(session, opened.inner, write)? != Some(crc) {
                found.lost += 1;
                found.first_lost.get_or_insert_with(|| format!("{} at {}", opened.path, write.offset_bytes));
            }
        }
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
        // What was written is read back after an outage.
        let options = &OpenOptions { read: true, ..options.clone() };
        let inner = match options.create {
            Create::New => self.open_new(path, options)?,
            // Nobody has written to it between the two: that it is emptied once more changes nothing.
            _ => self.lasting(|s| s.inner()?.open(path, options))?,
        };
        let claim = self.inner()?.claim(inner);
        if options.write {
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            writers.entry(path.to_string()).or_default().insert(self.worker);
        }
        let opened = Some(Opened { path: path.to_string(), options: options.clone(), inner, claim, is_anew: false });
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
        self.change(Change::Mkdir(path))
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        self.change(Change::Rmdir(path))
    }

    fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.lasting(|s| s.inner()?.readdir(path))
    }

    fn readdir_within(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.lasting(|s| s.inner()?.readdir_within(path))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.change(Change::Rename(from, to))?;
        for opened in self.files.iter_mut().flatten() {
            match opened.path.strip_prefix(from) {
                Some(below) if below.is_empty() || below.starts_with('/') => opened.path = format!("{to}{below}"),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        self.change(Change::Remove(path))
    }

    fn discard(&mut self, path: &str, mark: Option<&str>) -> Result<()> {
        self.change(Change::Discard(path, mark))
    }

    fn space(&mut self) -> Result<Space> {
        self.lasting(|s| s.inner()?.space())
    }

    fn ping(&mut self) -> Result<()> {
        self.lasting(|s| s.inner()?.ping())
    }

    /// Not repeated: half of a copy may be there, which cannot be told from what somebody else put there.
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

impl Drop for LastingSession {
    fn drop(&mut self) {
        let Some(mut inner) = self.inner.take() else { return };
        if self.files.iter().any(Option::is_some) {
            // What fails here is the server's to end, when it has waited long enough.
            drop(self.take_leave(&mut *inner));
        }
    }
}

#[cfg(test)]
mod tests;
