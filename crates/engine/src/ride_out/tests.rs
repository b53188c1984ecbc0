//! Sessions that lose their server, over one file in memory.

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
    keeps: Keeps,
    claims: AtomicU32,
    closed: AtomicU32,
    /// Operations of the first session.
    ops: AtomicU32,
    /// Names under which files were opened by name or claimed.
    names: Mutex<Vec<String>>,
}

/// What becomes of open files when their session ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    Nothing,
    /// All, and the first so many claims are answered with an error that passes.
    AllAfter(u32),
    /// Claims are refused.
    Forgets,
    /// All, and each claim takes so many milliseconds.
    Slowly(u64),
}

fn fragile(lives: u32, down: u32, forgets: Option<u64>, keeps: Keeps) -> Arc<Fragile> {
    Arc::new(Fragile {
        file: Mutex::new(vec![0; 8 * RECORD]),
        lives,
        down: AtomicU32::new(down),
        forgets,
        connected: AtomicU32::new(0),
        keeps,
        claims: AtomicU32::new(0),
        closed: AtomicU32::new(0),
        ops: AtomicU32::new(0),
        names: Mutex::default(),
    })
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
    fn connect_lasting(&self, worker: u32, keep: Duration, lost: &[u8]) -> Result<Box<dyn Session>> {
        let is_first = self.0.connected.load(Ordering::Relaxed) == 0;
        assert!(!keep.is_zero() && (lost.is_empty() || !is_first && lost == [1]));
        self.connect(worker)
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
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        self.0.names.lock().unwrap().push(path.into());
        if options.truncate {
            self.0.file.lock().unwrap().fill(0);
        }
        Ok(FileId(7))
    }
    fn close(&mut self, file: FileId) -> Result<()> {
        assert_eq!(file, FileId(7));
        assert!(self.2.is_empty(), "nothing is outstanding");
        self.0.closed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn end_reclaim(&mut self) -> Result<()> {
        let _scope = limit::within(Duration::from_secs(3600));
        assert!(limit::left().unwrap() <= ATTEMPT, "it is part of an attempt");
        Ok(())
    }
    fn identity(&self) -> Vec<u8> {
        vec![1]
    }
    fn claim(&self, file: FileId) -> Option<Claim> {
        // What a file is claimed with changes with each operation.
        (self.0.keeps != Keeps::Nothing).then(|| Claim(vec![file.0 as u8, self.1 as u8]))
    }
    fn reclaim(&mut self, path: &str, options: &OpenOptions, claim: &Claim) -> Result<Option<FileId>> {
        assert_eq!((options.read, options.write, claim.0[0]), (true, true, 7));
        assert_eq!(u32::from(claim.0[1]), self.0.ops.load(Ordering::Relaxed), "as it was at the end");
        self.0.names.lock().unwrap().push(path.into());
        let before = self.0.claims.fetch_add(1, Ordering::Relaxed);
        match self.0.keeps {
            Keeps::AllAfter(errors) if before < errors => {
                Err(Error::new(ErrorKind::Disconnected, "open", "the file is not available just now"))
            }
            Keeps::AllAfter(_) => Ok(Some(FileId(7))),
            Keeps::Slowly(ms) => {
                std::thread::sleep(Duration::from_millis(ms));
                Ok(Some(FileId(7)))
            }
            _ => Ok(None),
        }
    }
    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        self.1 += 1;
        if self.0.connected.load(Ordering::Relaxed) == 1 {
            self.0.ops.store(self.1, Ordering::Relaxed);
            if self.1 > self.0.lives {
                return Err(self.gone());
            }
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
fn write_all(lives: u32, down: u32, forgets: Option<u64>, ride_out: Duration) -> Result<(Vec<u8>, Vec<Outage>, u64)> {
    write_to(&fragile(lives, down, forgets, Keeps::Nothing), ride_out)
}

fn write_to(fragile: &Arc<Fragile>, ride_out: Duration) -> Result<(Vec<u8>, Vec<Outage>, u64)> {
    let outages = Arc::new(Mutex::new(Vec::new()));
    let target = LastingTarget::new(Arc::new(FragileTarget(Arc::clone(fragile))), ride_out, Arc::clone(&outages));
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
    let fragile = fragile(3, 0, Some(0), Keeps::Nothing);
    for (writers, offsets, judged) in [(1, [0, 0], 0), (1, [0, RECORD], 2), (2, [0, RECORD], 0)] {
        fragile.connected.store(0, Ordering::Relaxed);
        let outages = Arc::new(Mutex::new(Vec::new()));
        let target =
            LastingTarget::new(Arc::new(FragileTarget(Arc::clone(&fragile))), Duration::from_secs(20), outages.clone());
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

#[test]
fn files_that_the_server_kept_are_claimed_and_the_others_are_opened_by_name() {
    for (keeps, claims, attempts, kept) in [
        (Keeps::Nothing, 0, 1, 0),
        (Keeps::AllAfter(0), 1, 1, 1),
        (Keeps::AllAfter(2), 3, 3, 1),
        (Keeps::Forgets, 1, 1, 0),
    ] {
        let fragile = fragile(4, 0, None, keeps);
        let (file, outages, _) = write_to(&fragile, Duration::from_secs(20)).unwrap();
        let [outage] = &outages[..] else { panic!("{} outages", outages.len()) };
        assert_eq!((file, fragile.claims.load(Ordering::Relaxed)), (whole(), claims));
        assert_eq!((outage.attempts, outage.kept_files, outage.reopened_files), (attempts, kept, 1 - kept));
        assert_eq!((outage.read_back_writes, outage.lost_writes), (4, 0));
    }
}

/// A session with a file open to write, on a server that goes away with its second operation.
fn opened(fragile: &Arc<Fragile>, ride_out: Duration) -> (Box<dyn Session>, FileId) {
    let target = LastingTarget::new(Arc::new(FragileTarget(Arc::clone(fragile))), ride_out, Arc::default());
    let mut session = target.connect(0).unwrap();
    let file = session.open("d/file", &OpenOptions { write: true, ..OpenOptions::default() }).unwrap();
    (session, file)
}

fn write(session: &mut dyn Session, file: FileId, record: &mut [u8]) -> Result<Submit> {
    let op = Op { kind: OpKind::Write, file, offset_bytes: 0, len_bytes: RECORD as u32, due_ns: None };
    // SAFETY: the records of these tests outlive their sessions.
    unsafe { session.submit(&op, IoBuf::from_slice(record), 1) }
}

#[test]
fn a_session_that_ends_for_good_closes_its_files() {
    let mut record = vec![9; RECORD];
    let fragile = fragile(9, 0, None, Keeps::AllAfter(0));
    let (mut session, file) = opened(&fragile, Duration::from_secs(20));
    write(&mut *session, file, &mut record).unwrap();
    drop(session);
    assert_eq!(fragile.closed.load(Ordering::Relaxed), 1, "after the operation that was outstanding");
    // Of a server that is away nothing can be closed.
    fragile.down.store(u32::MAX, Ordering::Relaxed);
    fragile.connected.store(0, Ordering::Relaxed);
    let (mut session, file) = opened(&fragile, Duration::from_millis(50));
    for _ in 0..10 {
        drop(write(&mut *session, file, &mut record));
        drop(session.reap(0, None, &mut Vec::new()));
    }
    drop(session);
    assert_eq!(fragile.closed.load(Ordering::Relaxed), 1);
}

#[test]
fn files_go_by_the_names_that_they_were_given_since() {
    for keeps in [Keeps::Nothing, Keeps::AllAfter(0)] {
        let mut record = vec![9; RECORD];
        let fragile = fragile(0, 0, None, keeps);
        let (mut session, file) = opened(&fragile, Duration::from_secs(20));
        session.rename("d/file", "d/other").unwrap();
        session.rename("d", "e").unwrap();
        write(&mut *session, file, &mut record).unwrap();
        assert_eq!(*fragile.names.lock().unwrap(), ["d/file", "e/other"]);
    }
}

#[test]
fn no_file_is_claimed_when_the_time_is_over() {
    let mut record = vec![9; RECORD];
    let fragile = fragile(0, 0, None, Keeps::Slowly(80));
    let (mut session, file) = opened(&fragile, Duration::from_millis(200));
    for _ in 0..20 {
        session.open("more", &OpenOptions { write: true, ..OpenOptions::default() }).unwrap();
    }
    let error = write(&mut *session, file, &mut record).unwrap_err();
    assert!(error.message.contains("did not come back"), "{error}");
    assert!(fragile.claims.load(Ordering::Relaxed) < 10);
}
