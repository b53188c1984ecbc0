//! What only the blocking engine does: cursor, streams, maps, locks, options of the target.

use crate::common::*;
use naslab_core::{
    Access, Create, ErrorKind, FileId, FlushKind, IoBuf, Lock, OpKind, OpenOptions, Submit, SyncMode, Target,
};
use naslab_target_local::{Engine, LocalOptions, LocalTarget};
use std::time::Duration;

const ALL: [Access; 4] = [Access::Positioned, Access::Cursor, Access::Stdio, Access::Mmap];

fn options(access: Access, file_bytes: u64) -> OpenOptions {
    OpenOptions { access, record_bytes: 4096, file_bytes, ..read_write() }
}

#[test]
fn every_access_keeps_data_at_odd_offsets() {
    const LEN: u64 = 100_001;
    for access in ALL {
        let folder = work_folder();
        let mut session = posix(folder.path());
        let session = &mut *session;
        let file = session.open("f", &options(access, LEN)).unwrap();
        // Sequential, backward, then the same record again.
        let mut offsets: Vec<u64> = (0..20).map(|i| i * 5000).collect();
        offsets.extend((0..20).rev().map(|i| i * 5000 + 13));
        offsets.extend([7, 7, 7]);
        for &offset in &offsets {
            let len = 4999.min(LEN - offset) as usize;
            write(session, file, offset, &pattern(offset, len));
            assert_eq!(read(session, file, offset, len), pattern(offset, len));
        }
        let last = pattern(LEN - 1, 1);
        write(session, file, LEN - 1, &last);
        session.flush(file, FlushKind::All).unwrap();
        let done = run(session, OpKind::Flush, file, 0, &mut []);
        assert_eq!(done.error, None);
        let stored = std::fs::read(folder.path().join("f")).unwrap();
        assert_eq!(stored.len() as u64, LEN, "{access:?}");
        assert_eq!(stored[7..90_000], pattern(7, 89_993), "{access:?}");
        session.close(file).unwrap();
    }
}

#[test]
fn every_access_ends_short_at_the_end_of_the_file() {
    for access in ALL {
        let folder = work_folder();
        std::fs::write(folder.path().join("f"), pattern(0, 1000)).unwrap();
        let mut session = posix(folder.path());
        let read_only =
            OpenOptions { read: true, access, record_bytes: 512, file_bytes: 4096, ..OpenOptions::default() };
        let file = session.open("f", &read_only).unwrap();
        let mut data = [0; 512];
        let done = run(&mut *session, OpKind::Read, file, 900, &mut data);
        assert_eq!(done.bytes, 100, "{access:?}");
        assert_eq!(done.error.unwrap().kind, ErrorKind::Short, "{access:?}");
        assert_eq!(data[..100], pattern(900, 100), "{access:?}");
        assert_eq!(read(&mut *session, file, 10, 512), pattern(10, 512));
        let done = run(&mut *session, OpKind::Write, file, 0, &mut data);
        assert!(done.error.is_some(), "{access:?}: written though read-only");
    }
}

#[test]
fn a_stream_holds_writes_back_until_flushed() {
    let folder = work_folder();
    let mut session = posix(folder.path());
    let file = session.open("f", &options(Access::Stdio, 0)).unwrap();
    write(&mut *session, file, 0, b"abc");
    assert_eq!(session.stat("f").unwrap().len_bytes, 0);
    session.flush(file, FlushKind::Data).unwrap();
    assert_eq!(session.stat("f").unwrap().len_bytes, 3);
    write(&mut *session, file, 3, b"def");
    session.close(file).unwrap();
    assert_eq!(session.stat("f").unwrap().len_bytes, 6);
}

#[test]
fn a_stream_can_be_unbuffered_by_the_system() {
    let folder = work_folder();
    let mut session = posix(folder.path());
    let direct = OpenOptions { direct: true, ..options(Access::Stdio, 0) };
    let file = match session.open("f", &direct) {
        Ok(file) => file,
        Err(err) => return println!("SKIP: {err}"),
    };
    let mut pages = Pages::new(4096);
    for kind in [OpKind::Write, OpKind::Read] {
        for offset in (0..10).map(|i| i * 4096) {
            pages.slice().copy_from_slice(&pattern(offset, 4096));
            let done = run(&mut *session, kind, file, offset, pages.slice());
            assert_eq!((done.bytes, done.error), (4096, None), "{kind:?} {offset}");
            assert_eq!(pages.slice(), pattern(offset, 4096));
        }
        session.flush(file, FlushKind::All).unwrap();
    }
    session.close(file).unwrap();
    assert!(session.cached_fraction("f").unwrap().unwrap() < 0.02);
}

#[test]
fn streams_dropped_with_the_session_are_closed() {
    let folder = work_folder();
    let mut session = posix(folder.path());
    let file = session.open("f", &options(Access::Stdio, 0)).unwrap();
    write(&mut *session, file, 0, b"abc");
    drop(session);
    assert_eq!(std::fs::read(folder.path().join("f")).unwrap(), b"abc");
}

#[test]
fn lengths_can_be_set_under_every_access() {
    for access in ALL {
        let folder = work_folder();
        let mut session = posix(folder.path());
        let file = session.open("f", &options(access, 8192)).unwrap();
        write(&mut *session, file, 0, &pattern(0, 8192));
        session.set_len(file, 100).unwrap();
        assert_eq!(session.stat("f").unwrap().len_bytes, 100, "{access:?}");
        let mut data = [0; 200];
        let done = run(&mut *session, OpKind::Read, file, 0, &mut data);
        assert_eq!(done.bytes, 100, "{access:?}");
        session.set_len(file, 0).unwrap();
        assert_eq!(session.stat("f").unwrap().len_bytes, 0, "{access:?}");
        session.close(file).unwrap();
    }
}

#[test]
fn maps_know_their_bounds() {
    let folder = work_folder();
    let mut session = posix(folder.path());
    let no_size = session.open("f", &options(Access::Mmap, 0)).unwrap_err();
    assert_eq!(no_size.kind, ErrorKind::Invalid);
    let durable = OpenOptions { sync: SyncMode::All, ..options(Access::Mmap, 10_000) };
    let file = session.open("f", &durable).unwrap();
    write(&mut *session, file, 5000, &pattern(0, 5000));
    write(&mut *session, file, u64::MAX, &[]);
    for offset in [5001, 20_000, u64::MAX] {
        let mut data = [0; 5000];
        let done = run(&mut *session, OpKind::Write, file, offset, &mut data);
        assert_eq!(done.error.unwrap().kind, ErrorKind::Invalid);
    }
    let direct = OpenOptions { direct: true, ..durable };
    let refused = session.open("f", &direct).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
}

fn locked(lock: Lock) -> OpenOptions {
    OpenOptions { lock, ..read_write() }
}

#[test]
fn a_file_lock_excludes_another_session() {
    let folder = work_folder();
    let target = target(folder.path(), Engine::Posix, 1);
    let mut first = target.connect(0).unwrap();
    let held = first.open("f", &locked(Lock::File)).unwrap();
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let target = &target;
        scope.spawn(move || {
            let mut second = target.connect(1).unwrap();
            let file = second.open("f", &locked(Lock::File)).unwrap();
            sender.send(()).unwrap();
            second.close(file).unwrap();
        });
        let blocked = receiver.recv_timeout(Duration::from_millis(100));
        assert!(blocked.is_err(), "two sessions hold the lock");
        first.close(held).unwrap();
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn record_locks_are_released_after_each_record() {
    let folder = work_folder();
    let target = target(folder.path(), Engine::Posix, 1);
    let mut sessions = [target.connect(0).unwrap(), target.connect(1).unwrap()];
    for access in ALL {
        let options = OpenOptions { lock: Lock::Record, ..options(access, 4096) };
        for session in &mut sessions {
            let file = session.open("f", &options).unwrap();
            write(&mut **session, file, 0, b"record");
            session.flush(file, FlushKind::All).unwrap();
            assert_eq!(read(&mut **session, file, 0, 6), b"record");
        }
    }
}

#[test]
fn operations_end_within_the_call_and_leave_nothing_to_reap() {
    let folder = work_folder();
    let mut session = posix(folder.path());
    let mut data = [0; 8];
    let read = op(OpKind::Read, FileId(0), 0, 8);
    for token in [5, 6] {
        let buf = IoBuf::from_slice(&mut data);
        // SAFETY: `data` lives to the end of the test.
        let got = unsafe { session.submit(&read, buf, token) }.unwrap();
        assert!(matches!(got, Submit::Completed(done) if done.token == token && done.error.is_some()));
        assert_eq!(session.reap(1, None, &mut Vec::new()).unwrap(), 0);
    }
}

#[test]
fn options_are_read_strictly() {
    let parse = |text: &str| serde_json::from_str::<LocalOptions>(text);
    let options = parse(r#"{"root": "/", "engine": "posix"}"#).unwrap();
    assert_eq!((options.engine, options.depth), (Engine::Posix, 1));
    assert!(parse(r#"{"root": "/", "dept": 3}"#).is_err());
    assert!(parse(r#"{"root": "/", "engine": "aio"}"#).is_err());
}

#[test]
fn the_engine_follows_the_depth() {
    let make = |engine, depth| LocalTarget::new(LocalOptions { engine, depth, ..LocalOptions::new("/") });
    let one = make(Engine::Auto, 1).unwrap();
    assert_eq!((one.protocol(), one.caps().max_depth), ("local", 1));
    assert!(one.facts().contains(&("engine".into(), "posix".into())));
    let refused = make(Engine::Posix, 2).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
    assert!(refused.message.contains("workers"), "{refused}");
    for depth in [0, 4097] {
        let refused = make(Engine::Auto, depth).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
    }
    match make(Engine::Auto, 64) {
        Ok(deep) => {
            assert_eq!(deep.caps().max_depth, 64);
            assert!(deep.facts().contains(&("engine".into(), "uring".into())));
        }
        Err(err) => assert!(err.message.contains("workers"), "{err}"),
    }
}

#[test]
fn contradictions_are_refused() {
    let folder = work_folder();
    let mut session = posix(folder.path());
    let nothing = OpenOptions { create: Create::New, ..OpenOptions::default() };
    let cut_read_only = OpenOptions { read: true, truncate: true, ..OpenOptions::default() };
    for options in [nothing, cut_read_only] {
        let refused = session.open("f", &options).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid);
    }
}
