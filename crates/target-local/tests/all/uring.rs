//! What only the io_uring engine does: many operations in flight.

use crate::common::*;
use naslab_core::{Access, Completion, ErrorKind, FileId, IoBuf, Lock, OpKind, OpenOptions, Session, Submit, Target};
use naslab_target_local::Engine;
use std::time::{Duration, Instant};

const RECORD: usize = 4096;

/// Submits one operation on `record` of `memory`.
fn submit(session: &mut dyn Session, kind: OpKind, file: FileId, offset: u64, record: &mut [u8], token: u32) -> Submit {
    let op = op(kind, file, offset, record.len());
    // SAFETY: every caller keeps the record until the operation was reaped or the session dropped.
    unsafe { session.submit(&op, IoBuf::from_slice(record), token) }.unwrap()
}

/// A stream of numbers that is the same in each run.
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A file of `records` records, each filled with the pattern of its place.
fn prepare(session: &mut dyn Session, records: u64, options: &OpenOptions) -> FileId {
    let file = session.open("f", &read_write()).unwrap();
    let len = records as usize * RECORD;
    write(session, file, 0, &pattern(0, len));
    session.close(file).unwrap();
    session.open("f", options).unwrap()
}

/// Reads at random with `depth` in flight and checks every byte.
fn random_reads(session: &mut dyn Session, file: FileId, depth: usize, records: u64, odd: u64) {
    let mut memory = Pages::new(depth * RECORD);
    let region = IoBuf::from_slice(memory.slice());
    // SAFETY: `memory` outlives all operations; it is replaced by nothing at the end.
    unsafe { session.register_memory(&[region]) }.unwrap();
    let mut offsets = vec![0; depth];
    let (mut state, mut out) = (0x9E37_79B9_7F4A_7C15, Vec::with_capacity(depth));
    let (mut issued, mut seen) = (0, 0);
    let mut ready: Vec<usize> = (0..depth).collect();
    while seen < 5000 {
        while let Some(slot) = ready.pop() {
            offsets[slot] = (random(&mut state) % (records - 1)) * RECORD as u64 + odd;
            let record = &mut memory.slice()[slot * RECORD..][..RECORD];
            record.fill(0);
            let got = submit(session, OpKind::Read, file, offsets[slot], record, slot as u32);
            assert_eq!(got, Submit::Queued);
            issued += 1;
        }
        out.clear();
        assert!(session.reap(1, None, &mut out).unwrap() >= 1);
        for done in &out {
            let slot = done.token as usize;
            assert_eq!((done.bytes, done.error), (RECORD as u32, None));
            let record = &memory.slice()[slot * RECORD..][..RECORD];
            assert_eq!(record, pattern(offsets[slot], RECORD));
            ready.push(slot);
            seen += 1;
        }
    }
    out.clear();
    session.reap(issued - seen, None, &mut out).unwrap();
    assert_eq!(out.len(), issued - seen);
    // SAFETY: no memory at all.
    unsafe { session.register_memory(&[]) }.unwrap();
}

#[test]
fn random_reads_at_depth_64() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 64) else {
        return;
    };
    let file = prepare(&mut *session, 256, &read_write());
    for odd in [0, 77] {
        random_reads(&mut *session, file, 64, 256, odd);
    }
    session.close(file).unwrap();
    let direct = OpenOptions { direct: true, ..read_write() };
    match session.open("f", &direct) {
        Ok(file) => random_reads(&mut *session, file, 64, 256, 0),
        Err(err) => println!("SKIP: {err}"),
    }
}

#[test]
fn registered_and_plain_memory_go_together() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 4) else {
        return;
    };
    let file = session.open("f", &read_write()).unwrap();
    let (mut first, mut second, mut plain) = (Pages::new(8192), Pages::new(4096), vec![3; 100]);
    let regions = [IoBuf::from_slice(first.slice()), IoBuf::from_slice(second.slice())];
    // SAFETY: both live to the end of the test, after the session.
    unsafe { session.register_memory(&regions) }.unwrap();
    first.slice().fill(1);
    second.slice().fill(2);
    for (offset, data) in [(0, &mut first.slice()[100..8000]), (7900, second.slice()), (11_996, &mut plain[..])] {
        let done = run(&mut *session, OpKind::Write, file, offset, data);
        assert_eq!((done.bytes, done.error), (data.len() as u32, None));
    }
    let done = run(&mut *session, OpKind::Read, file, 7900, &mut first.slice()[1..4097]);
    assert_eq!(done.error, None);
    assert!(first.slice()[1..4097].iter().all(|&b| b == 2));
    drop(session);
    let mut expected = vec![1; 7900];
    expected.extend(vec![2; 4096]);
    expected.extend(vec![3; 100]);
    assert_eq!(std::fs::read(folder.path().join("f")).unwrap(), expected);
}

#[test]
fn busy_at_depth_and_free_again_after_reaping() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 5) else {
        return;
    };
    let file = prepare(&mut *session, 8, &read_write());
    let mut memory = vec![0; 6 * RECORD];
    let mut records = memory.chunks_mut(RECORD);
    let mut next = |session: &mut dyn Session, file, token| {
        let record = records.next().unwrap();
        submit(session, OpKind::Read, file, 0, record, token)
    };
    for token in 0..4 {
        assert_eq!(next(&mut *session, file, token), Submit::Queued);
    }
    // A refused operation takes room too until it is reaped.
    assert_eq!(next(&mut *session, FileId(9), 4), Submit::Queued);
    assert_eq!(next(&mut *session, file, 5), Submit::Busy);
    assert_eq!(session.close(file).unwrap_err().kind, ErrorKind::Invalid);
    let mut out = Vec::new();
    assert_eq!(session.reap(99, None, &mut out).unwrap(), 5);
    let mut tokens: Vec<u32> = out.iter().map(|done| done.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2, 3, 4]);
    let failed: Vec<&Completion> = out.iter().filter(|done| done.error.is_some()).collect();
    assert_eq!((failed.len(), failed[0].token), (1, 4));
    session.close(file).unwrap();
}

#[test]
fn polling_submits_and_collects() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 2) else {
        return;
    };
    let file = prepare(&mut *session, 8, &read_write());
    let mut record = vec![0; RECORD];
    submit(&mut *session, OpKind::Read, file, 0, &mut record, 1);
    let mut out = Vec::new();
    let end = Instant::now() + Duration::from_secs(10);
    while session.reap(0, None, &mut out).unwrap() == 0 {
        assert!(Instant::now() < end, "never came");
    }
    assert_eq!(record, pattern(0, RECORD));
}

/// A file whose reads do not end, and where to write what they get: a terminal nobody types at.
fn endless(session: &mut dyn Session, root: &std::path::Path) -> (FileId, std::fs::File) {
    use std::os::fd::FromRawFd;
    let (mut master, mut slave) = (0, 0);
    let mut name = [0 as libc::c_char; 128];
    // SAFETY: termios is plain integers; zero is valid, and the calls fill it, two numbers and a short name in.
    let terminal = unsafe {
        let mut raw: libc::termios = std::mem::zeroed();
        libc::cfmakeraw(&mut raw);
        raw.c_cc[libc::VMIN] = 1;
        assert_eq!(libc::openpty(&mut master, &mut slave, name.as_mut_ptr(), &raw, std::ptr::null()), 0);
        let name = std::ffi::CStr::from_ptr(name.as_ptr()).to_str().unwrap().to_string();
        libc::close(slave);
        name
    };
    std::os::unix::fs::symlink(terminal, root.join("terminal")).unwrap();
    let file = session.open("terminal", &OpenOptions { read: true, ..OpenOptions::default() }).unwrap();
    // SAFETY: the descriptor was just made and nobody else has it.
    (file, unsafe { std::fs::File::from_raw_fd(master) })
}

#[test]
fn waiting_ends_with_the_time_limit() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 2) else {
        return;
    };
    let (file, _terminal) = endless(&mut *session, folder.path());
    let mut record = vec![0; RECORD];
    submit(&mut *session, OpKind::Read, file, 0, &mut record, 1);
    let mut out = Vec::new();
    let start = Instant::now();
    let limit = Duration::from_millis(50);
    assert_eq!(session.reap(1, Some(limit), &mut out).unwrap(), 0);
    let waited = start.elapsed();
    assert!(waited >= limit && waited < 20 * limit, "{waited:?}");
    let start = Instant::now();
    assert_eq!(session.reap(1, Some(Duration::ZERO), &mut out).unwrap(), 0);
    assert!(start.elapsed() < limit);
    drop(session);
}

#[test]
fn short_counts_are_continued_within_the_operation() {
    use std::io::Write;
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 2) else {
        return;
    };
    let (file, mut terminal) = endless(&mut *session, folder.path());
    let mut record = vec![0; 300];
    submit(&mut *session, OpKind::Read, file, 0, &mut record, 1);
    let mut out = Vec::new();
    for part in pattern(0, 300).chunks(100) {
        assert!(out.is_empty());
        terminal.write_all(part).unwrap();
        let limit = Duration::from_millis(20);
        session.reap(1, Some(limit), &mut out).unwrap();
    }
    assert_eq!((out[0].bytes, out[0].error), (300, None));
    assert_eq!(record, pattern(0, 300));
}

#[test]
fn dropping_with_operations_in_flight_ends_them() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 64) else {
        return;
    };
    let direct = OpenOptions { direct: true, ..read_write() };
    let file = prepare(&mut *session, 64, &read_write());
    let file = session.open("f", &direct).unwrap_or(file);
    let (silent, _terminal) = endless(&mut *session, folder.path());
    let mut memory = Pages::new(64 * RECORD);
    for (i, record) in memory.slice().chunks_mut(RECORD).enumerate() {
        let from = if i == 0 { silent } else { file };
        let offset = (i * RECORD) as u64;
        submit(&mut *session, OpKind::Read, from, offset, record, i as u32);
        if i == 40 {
            let mut out = Vec::new();
            session.reap(0, None, &mut out).unwrap();
        }
    }
    drop(session);
    memory.slice().fill(0xAA);
    std::thread::sleep(Duration::from_millis(20));
    assert!(memory.slice().iter().all(|&b| b == 0xAA));
}

#[test]
fn a_session_may_move_between_threads_when_idle() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 8) else {
        return;
    };
    let file = prepare(&mut *session, 8, &read_write());
    let session = std::thread::spawn(move || {
        assert_eq!(read(&mut *session, file, 0, RECORD), pattern(0, RECORD));
        let other = session.open("g", &read_write()).unwrap();
        write(&mut *session, other, 0, b"abc");
        session
    });
    let mut session = session.join().unwrap();
    session.close(file).unwrap();
    let mut pages = Pages::new(RECORD);
    // SAFETY: `pages` outlives the session.
    unsafe { session.register_memory(&[IoBuf::from_slice(pages.slice())]) }.unwrap();
    let file = session.open("f", &read_write()).unwrap();
    let done = run(&mut *session, OpKind::Read, file, 0, pages.slice());
    assert_eq!(done.error, None);
    assert_eq!(pages.slice(), pattern(0, RECORD));
    drop(session);
}

#[test]
fn more_files_than_registered_slots() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 2) else {
        return;
    };
    let open = |session: &mut dyn Session, i: u32| {
        let file = session.open(&format!("f{i}"), &read_write());
        file.map(|file| write(session, file, 0, &i.to_le_bytes()))
    };
    for i in 0..1100 {
        match open(&mut *session, i) {
            Ok(()) => {}
            Err(err) if err.status == libc::EMFILE as i64 => return println!("SKIP: {err}"),
            Err(err) => panic!("{err}"),
        }
    }
    for i in [0u32, 1023, 1024, 1099] {
        assert_eq!(read(&mut *session, FileId(i), 0, 4), i.to_le_bytes());
    }
}

#[test]
fn blocking_ways_are_refused() {
    let folder = work_folder();
    let Some(mut session) = uring(folder.path(), 2) else {
        return;
    };
    let mut refused = vec![OpenOptions { lock: Lock::File, ..read_write() }];
    for access in [Access::Cursor, Access::Stdio, Access::Mmap] {
        refused.push(OpenOptions { access, ..read_write() });
    }
    for options in refused {
        let error = session.open("f", &options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains("engine=posix"), "{error}");
    }
    assert!(!folder.path().join("f").exists());
}

#[test]
fn facts_tell_how_the_ring_was_made() {
    let folder = work_folder();
    if uring(folder.path(), 2).is_none() {
        return;
    }
    let target = target(folder.path(), Engine::Auto, 2);
    let mut session = target.connect(0).unwrap();
    let mut pages = Pages::new(RECORD);
    // SAFETY: `pages` outlives the session.
    unsafe { session.register_memory(&[IoBuf::from_slice(pages.slice())]) }.unwrap();
    session.open("f", &read_write()).unwrap();
    let facts = target.facts();
    for name in ["uring_setup", "uring_files", "uring_buffers", "filesystem"] {
        assert!(facts.iter().any(|(key, _)| key == name), "{name} in {facts:?}");
    }
    drop(session);
}
