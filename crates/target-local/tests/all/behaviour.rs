//! The same cases over both engines.

use crate::common::*;
use naslab_core::{Create, ErrorKind, FlushKind, OpKind, OpenOptions, Session, SyncMode, Target};
use naslab_target_local::Engine;
use std::path::Path;

#[test]
fn data_comes_back_at_odd_offsets() {
    over_both(|session, _| {
        let file = session.open("f", &read_write()).unwrap();
        for (offset, len) in [(0u64, 1), (1, 4095), (4096, 4097), (10_007, 65_537), (3, 0)] {
            let data = pattern(offset, len);
            write(session, file, offset, &data);
            assert_eq!(read(session, file, offset, len), data);
        }
        session.flush(file, FlushKind::All).unwrap();
        session.flush(file, FlushKind::Data).unwrap();
        let flushed = run(session, OpKind::Flush, file, 0, &mut []);
        assert_eq!((flushed.bytes, flushed.error), (0, None));
        session.close(file).unwrap();
        assert_eq!(session.close(file).unwrap_err().kind, ErrorKind::Invalid);
        let stat = session.stat("f").unwrap();
        assert_eq!((stat.len_bytes, stat.is_dir), (10_007 + 65_537, false));
        assert_eq!(stat.allocated_bytes.unwrap() % 512, 0);
    });
}

#[test]
fn create_modes() {
    over_both(|session, _| {
        let open = |session: &mut dyn Session, create, truncate| {
            let options = OpenOptions { create, truncate, ..read_write() };
            session.open("f", &options)
        };
        let missing = open(session, Create::Never, false).unwrap_err();
        assert_eq!(missing.kind, ErrorKind::NotFound);
        assert!(missing.to_string().contains("path=f"), "{missing}");
        let file = open(session, Create::New, false).unwrap();
        write(session, file, 0, b"abc");
        session.close(file).unwrap();
        let exists = open(session, Create::New, false).unwrap_err();
        assert_eq!(exists.kind, ErrorKind::Exists);
        let file = open(session, Create::IfMissing, false).unwrap();
        assert_eq!(read(session, file, 0, 3), b"abc");
        session.close(file).unwrap();
        let file = open(session, Create::Never, true).unwrap();
        assert_eq!(session.stat("f").unwrap().len_bytes, 0);
        session.close(file).unwrap();
    });
}

#[test]
fn the_end_of_the_file_is_short() {
    over_both(|session, _| {
        let file = session.open("f", &read_write()).unwrap();
        session.set_len(file, 5000).unwrap();
        let mut data = vec![1; 4096];
        let done = run(session, OpKind::Read, file, 4096, &mut data);
        assert_eq!(done.bytes, 904);
        let error = done.error.unwrap();
        assert_eq!((error.kind, error.status), (ErrorKind::Short, 0));
        let done = run(session, OpKind::Read, file, 1 << 40, &mut data);
        assert_eq!((done.bytes, done.error.unwrap().kind), (0, ErrorKind::Short));
        assert_eq!(read(session, file, 0, 5000), vec![0; 5000]);
    });
}

#[test]
fn bad_operations_are_completions_with_errors() {
    over_both(|session, _| {
        let mut data = [0; 8];
        let nowhere = naslab_core::FileId(99);
        let done = run(session, OpKind::Read, nowhere, 0, &mut data);
        assert_eq!(done.error.unwrap().status, libc::EBADF as i64);
        let read_only = OpenOptions { write: false, ..read_write() };
        let file = session.open("f", &read_only).unwrap();
        let done = run(session, OpKind::Write, file, 0, &mut data);
        assert_eq!(done.error.unwrap().status, libc::EBADF as i64);
        let done = run(session, OpKind::Read, file, u64::MAX, &mut data);
        assert_eq!(done.error.unwrap().kind, ErrorKind::Invalid);
        assert!(session.flush(nowhere, FlushKind::All).is_err());
        assert!(session.set_len(nowhere, 1).is_err());
    });
}

#[test]
fn a_small_buffer_is_refused_before_the_call() {
    over_both(|session, _| {
        let file = session.open("f", &read_write()).unwrap();
        let mut data = [0; 8];
        let buf = naslab_core::IoBuf::from_slice(&mut data);
        let op = op(OpKind::Write, file, 0, 9);
        // SAFETY: the operation is refused, and `data` lives to the end.
        let submitted = unsafe { session.submit(&op, buf, 1) }.unwrap();
        assert_eq!(ended(session, submitted).error.unwrap().kind, ErrorKind::Invalid);
    });
}

#[test]
fn nothing_outside_the_root_can_be_named() {
    over_both(|session, _| {
        for path in ["../f", "a/../../f", "/etc/passwd", ".."] {
            let kinds = [
                session.open(path, &read_write()).unwrap_err().kind,
                session.stat(path).unwrap_err().kind,
                session.mkdir(path).unwrap_err().kind,
                session.rmdir(path).unwrap_err().kind,
                session.remove(path).unwrap_err().kind,
                session.rename("x", path).unwrap_err().kind,
                session.rename(path, "x").unwrap_err().kind,
                session.readdir(path).unwrap_err().kind,
                session.evict(path).unwrap_err().kind,
                session.cached_fraction(path).unwrap_err().kind,
            ];
            assert_eq!(kinds, [ErrorKind::Invalid; 10], "{path}");
        }
        assert_eq!(session.rmdir("").unwrap_err().kind, ErrorKind::Invalid);
    });
}

#[test]
fn nothing_is_created_or_cut_through_a_link() {
    over_both(|session, root| {
        std::fs::write(root.join("real"), b"kept").unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        std::os::unix::fs::symlink("missing", root.join("dangling")).unwrap();
        for path in ["link", "dangling"] {
            let error = session.open(path, &read_write()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
            assert!(error.message.contains("symbolic link"), "{error}");
        }
        let cut = OpenOptions { write: true, truncate: true, ..OpenOptions::default() };
        assert!(session.open("link", &cut).is_err());
        assert!(!root.join("missing").exists());
        assert_eq!(std::fs::read(root.join("real")).unwrap(), b"kept");
        let links = session.readdir("").unwrap();
        assert!(links.iter().all(|entry| !entry.is_dir));
    });
}

#[test]
fn devices_are_neither_written_nor_removed() {
    over_both(|session, root| {
        let node = root.join("node");
        let name = std::ffi::CString::new(node.to_str().unwrap()).unwrap();
        // A character device where we may make one (null: a write to it would do no harm), else a socket.
        // SAFETY: the name is a terminated string.
        if unsafe { libc::mknod(name.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 3)) } != 0 {
            std::os::unix::net::UnixListener::bind(&node).unwrap();
        }
        assert!(session.open("node", &read_write()).is_err());
        let refused = session.remove("node").unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Permission, "{refused}");
        assert!(refused.to_string().contains("a device, a pipe or a socket"), "{refused}");
        assert!(node.symlink_metadata().is_ok());
    });
}

#[test]
fn names_and_folders() {
    over_both(|session, _| {
        session.mkdir("d").unwrap();
        assert_eq!(session.mkdir("d").unwrap_err().kind, ErrorKind::Exists);
        let file = session.open("d/f", &read_write()).unwrap();
        session.close(file).unwrap();
        assert_eq!(session.rmdir("d").unwrap_err().kind, ErrorKind::Exists);
        session.rename("d/f", "d/g").unwrap();
        let entries = session.readdir("d").unwrap();
        assert_eq!((entries.len(), entries[0].name.as_str()), (1, "g"));
        assert!(session.readdir("").unwrap()[0].is_dir);
        assert!(session.stat("d").unwrap().is_dir);
        session.remove("d/g").unwrap();
        assert_eq!(session.remove("d/g").unwrap_err().kind, ErrorKind::NotFound);
        session.rmdir("d").unwrap();
        let space = session.space().unwrap();
        assert!(space.free_bytes <= space.total_bytes);
        assert!(session.wire().unwrap_or_default().sent_bytes == 0);
    });
}

/// Flags of the one descriptor this process has on `path`.
fn flags_of(path: &Path) -> libc::c_int {
    let path = path.canonicalize().unwrap();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        if std::fs::read_link(entry.path()).is_ok_and(|link| link == path) {
            let fd: i32 = entry.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: F_GETFL takes no memory.
            return unsafe { libc::fcntl(fd, libc::F_GETFL) };
        }
    }
    panic!("{path:?} is not open");
}

#[test]
fn sync_flags_reach_the_descriptor() {
    over_both(|session, root| {
        for (sync, flags) in [
            (SyncMode::None, 0),
            (SyncMode::Data, libc::O_DSYNC),
            (SyncMode::All, libc::O_SYNC),
            (SyncMode::ReadsToo, libc::O_SYNC | libc::O_RSYNC),
        ] {
            let options = OpenOptions { sync, ..read_write() };
            let file = session.open("f", &options).unwrap();
            assert_eq!(flags_of(&root.join("f")) & libc::O_SYNC, flags, "{sync:?}");
            write(session, file, 0, b"durable");
            session.close(file).unwrap();
        }
    });
}

/// Writes 1 MiB through `options`, after dropping what was cached.
fn write_megabyte(session: &mut dyn Session, options: &OpenOptions) -> naslab_core::Result<f64> {
    let mut pages = Pages::new(1 << 20);
    pages.slice().copy_from_slice(&pattern(0, 1 << 20));
    let file = session.open("f", options)?;
    let done = run(session, OpKind::Write, file, 0, pages.slice());
    assert_eq!((done.bytes, done.error), (1 << 20, None));
    let done = run(session, OpKind::Read, file, 0, pages.slice());
    assert_eq!((done.bytes, done.error), (1 << 20, None));
    assert_eq!(pages.slice(), pattern(0, 1 << 20));
    session.flush(file, FlushKind::All)?;
    session.close(file)?;
    Ok(session.cached_fraction("f")?.unwrap())
}

#[test]
fn direct_writes_leave_nothing_in_the_page_cache() {
    over_both(|session, _| {
        let direct = OpenOptions { direct: true, ..read_write() };
        let cached = match write_megabyte(session, &direct) {
            Ok(cached) => cached,
            Err(err) if err.kind == ErrorKind::Unsupported => return println!("SKIP: {err}"),
            Err(err) => panic!("{err}"),
        };
        assert!(cached < 0.02, "{cached} cached after direct writes");
        let cached = write_megabyte(session, &read_write()).unwrap();
        assert!(cached > 0.98, "{cached} cached after buffered writes");
        session.evict("f").unwrap();
        let cached = session.cached_fraction("f").unwrap().unwrap();
        assert!(cached < 0.02, "{cached} cached after evict");
    });
}

#[test]
fn misaligned_direct_operations_are_invalid() {
    over_both(|session, _| {
        let direct = OpenOptions { direct: true, ..read_write() };
        let file = match session.open("f", &direct) {
            Ok(file) => file,
            Err(err) => return println!("SKIP: {err}"),
        };
        let mut pages = Pages::new(8192);
        for (offset, range) in [(1, 0..4096), (0, 0..100), (0, 1..4097)] {
            let done = run(session, OpKind::Write, file, offset, &mut pages.slice()[range]);
            assert_eq!(done.error.unwrap().kind, ErrorKind::Invalid);
        }
        session.set_len(file, 5000).unwrap();
        let done = run(session, OpKind::Read, file, 0, pages.slice());
        assert_eq!((done.bytes, done.error.unwrap().kind), (5000, ErrorKind::Short));
    });
}

#[test]
fn tmpfs_takes_direct_but_shows_as_cached() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return println!("SKIP: no /dev/shm");
    };
    let direct = OpenOptions { direct: true, ..read_write() };
    let mut session = posix(folder.path());
    match write_megabyte(&mut *session, &direct) {
        Ok(cached) => assert!(cached > 0.98, "{cached}"),
        Err(err) => {
            assert_eq!(err.kind, ErrorKind::Unsupported, "{err}");
            assert!(err.message.contains("tmpfs"), "{err}");
            assert!(!folder.path().join("f").exists());
        }
    }
    let refused = session.evict("f").unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
    assert!(!target(folder.path(), Engine::Posix, 1).caps().evict);
}

/// Runs `case` in a thread of its own with a tmpfs of 64 KiB mounted for it alone. False when this
/// needs rights the test does not have.
fn with_small_disk(case: impl FnOnce(&Path) + Send) -> bool {
    let folder = work_folder();
    let point = std::ffi::CString::new(folder.path().to_str().unwrap()).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: plain system calls with terminated strings.
            let mounted = unsafe {
                let null = std::ptr::null();
                libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) == 0
                    && libc::mount(null, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast()) == 0
                    && libc::mount(c"none".as_ptr(), point.as_ptr(), c"tmpfs".as_ptr(), 0, c"size=64k".as_ptr().cast())
                        == 0
            };
            if mounted {
                case(folder.path());
            }
            mounted
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_full_disk_is_no_space() {
    let mounted = with_small_disk(|root| {
        let check = |session: &mut dyn Session| {
            let file = session.open("f", &read_write()).unwrap();
            let mut data = vec![1; 1 << 20];
            let done = run(session, OpKind::Write, file, 0, &mut data);
            assert!(done.bytes < 1 << 20);
            let error = done.error.unwrap();
            assert_eq!((error.kind, error.status), (ErrorKind::NoSpace, libc::ENOSPC as i64));
            assert!(session.space().unwrap().total_bytes <= 65_536);
            session.close(file).unwrap();
            session.remove("f").unwrap();
        };
        check(&mut *posix(root));
        if let Some(mut session) = uring(root, 4) {
            check(&mut *session);
        }
        let map = OpenOptions { access: naslab_core::Access::Mmap, file_bytes: 1 << 20, ..read_write() };
        let full = posix(root).open("m", &map).unwrap_err();
        assert_eq!(full.kind, ErrorKind::NoSpace, "{full}");
        let facts = target(root, Engine::Posix, 1).facts();
        assert!(facts.contains(&("filesystem".to_string(), "tmpfs".to_string())));
    });
    if !mounted {
        println!("SKIP: mounting a small tmpfs needs root");
    }
}

#[test]
fn reap_without_operations_returns_at_once() {
    over_both(|session, _| {
        let mut out = Vec::new();
        assert_eq!(session.reap(1, None, &mut out).unwrap(), 0);
        assert_eq!(session.reap(0, None, &mut out).unwrap(), 0);
    });
}
