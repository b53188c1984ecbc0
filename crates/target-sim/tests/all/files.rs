//! The file system: metadata, errors, space, contents.

use crate::common::*;
use naslab_core::{errno, Access, Create, DirEntry, ErrorKind, FileId, Lock, OpError, OpKind, OpenOptions, Target};
use naslab_target_sim::{FileConfig, SimConfig};
use proptest::prelude::*;

fn client() -> Client {
    Client::new(&target(SimConfig::default()))
}

fn keeping() -> Client {
    Client::new(&target(SimConfig { store_data: true, ..SimConfig::default() }))
}

fn errno<T>(result: naslab_core::Result<T>) -> (ErrorKind, i64) {
    match result {
        Ok(_) => panic!("should have failed"),
        Err(e) => (e.kind, e.status),
    }
}

fn kind(number: i32) -> (ErrorKind, i64) {
    (ErrorKind::from_errno(number), number.into())
}

#[test]
fn capabilities() {
    let t = target(SimConfig::default());
    let caps = t.caps();
    assert_eq!(t.protocol(), "sim");
    assert!(t.clock().is_virtual() && caps.virtual_time);
    assert!(caps.direct && caps.sync_writes && caps.flush && caps.evict && caps.wire_counters);
    assert!(!caps.stdio && !caps.cursor && !caps.mmap && !caps.locks && !caps.keeps_data);
    assert_eq!(caps.max_depth, 1024);
    assert_eq!((caps.alignment.offset_bytes, caps.alignment.memory_bytes), (1, 1));
}

#[test]
fn opening() {
    let mut c = client();
    let with = |create| OpenOptions { create, ..read_write() };
    assert_eq!(errno(c.session.open("f", &with(Create::Never))), kind(errno::ENOENT));
    c.open("f", &with(Create::New));
    assert_eq!(errno(c.session.open("f", &with(Create::New))), kind(errno::EEXIST));
    c.open("/f", &with(Create::Never));
    c.open("./f", &with(Create::IfMissing));
    c.session.mkdir("d").unwrap();
    assert_eq!(errno(c.session.open("d", &read_write())), kind(errno::EISDIR));
    assert_eq!(errno(c.session.open("", &read_write())), kind(errno::EISDIR));
    assert_eq!(errno(c.session.open("x/f", &read_write())), kind(errno::ENOENT));
    assert_eq!(errno(c.session.open("f/g", &read_write())), kind(errno::ENOTDIR));
    assert_eq!(errno(c.session.open("../f", &read_write())), kind(errno::EINVAL));
    let long = "x".repeat(256);
    assert_eq!(errno(c.session.open(&long, &read_write())), kind(errno::ENAMETOOLONG));
}

#[test]
fn opening_refuses_what_it_cannot_do() {
    let mut c = client();
    let refused = [
        (OpenOptions { access: Access::Mmap, ..read_write() }, ErrorKind::Unsupported),
        (OpenOptions { access: Access::Cursor, ..read_write() }, ErrorKind::Unsupported),
        (OpenOptions { lock: Lock::File, ..read_write() }, ErrorKind::Unsupported),
        (OpenOptions { read: false, write: false, ..read_write() }, ErrorKind::Invalid),
        (OpenOptions { write: false, truncate: true, ..read_write() }, ErrorKind::Invalid),
    ];
    for (options, expected) in refused {
        assert_eq!(errno(c.session.open("f", &options)).0, expected, "{options:?}");
    }
    assert_eq!(errno(c.session.stat("f")), kind(errno::ENOENT), "nothing was made");
}

#[test]
fn truncating() {
    let mut c = keeping();
    let f = c.open("f", &read_write());
    c.one_with(&write(f, 0, 5000), &mut [7; 5000]);
    let cut = OpenOptions { truncate: true, ..read_write() };
    let g = c.open("f", &cut);
    assert_eq!(c.session.stat("f").unwrap().len_bytes, 0);
    c.session.set_len(g, 5000).unwrap();
    let mut back = [1; 5000];
    c.one_with(&read(g, 0, 5000), &mut back);
    assert_eq!(back, [0; 5000], "old contents do not come back");
}

#[test]
fn reading_meets_the_end_of_the_file() {
    for client_cache_bytes in [0, MIB] {
        let mut c = Client::new(&target(SimConfig { client_cache_bytes, ..SimConfig::default() }));
        let f = c.open("f", &read_write());
        assert_eq!(c.one(&write(f, 0, 1000)).done.bytes, 1000);
        let short = Some(OpError { kind: ErrorKind::Short, status: 0 });
        for _ in 0..2 {
            for (offset, bytes, error) in
                [(0, 600, None), (400, 600, None), (700, 300, short), (1000, 0, short), (u64::MAX, 0, short)]
            {
                let done = c.one(&read(f, offset, 600)).done;
                assert_eq!((done.bytes, done.error), (bytes, error), "at {offset}");
            }
        }
        assert_eq!(c.one(&read(f, 1000, 0)).done.error, None, "nothing asked, nothing short");
    }
}

#[test]
fn a_write_to_a_file_that_is_open_for_reading_crosses_the_link_before_it_is_refused() {
    let mut c = Client::new(&target(SimConfig { link_bytes_per_s: 100_000_000, ..SimConfig::default() }));
    let f = c.open("f", &read_write());
    let r = c.open("f", &OpenOptions { write: false, ..read_write() });
    let badf = Some(OpError::from_errno(errno::EBADF));
    let took = |c: &mut Client, file, len| {
        let done = c.one(&write(file, 0, len));
        (done.took_ns(), done.done.error)
    };
    let (small, large) = (took(&mut c, r, 1), took(&mut c, r, 1 << 20));
    assert_eq!((small.1, large.1), (badf, badf));
    let accepted = took(&mut c, f, 1 << 20).0;
    assert!(small.0 * 10 < large.0 && large.0 <= accepted, "{small:?} {large:?} {accepted}");
}

#[test]
fn bad_operations_are_refused_and_nothing_breaks() {
    let mut c = client();
    let f = c.open("f", &read_write());
    let r = c.open("f", &OpenOptions { write: false, ..read_write() });
    let w = c.open("f", &OpenOptions { read: false, ..read_write() });
    let error = |c: &mut Client, op| c.one(&op).done.error;
    let badf = Some(OpError::from_errno(errno::EBADF));
    assert_eq!(error(&mut c, read(FileId(99), 0, 1)), badf);
    assert_eq!(error(&mut c, write(r, 0, 1)), badf);
    assert_eq!(error(&mut c, read(w, 0, 1)), badf);
    let efbig = Some(OpError::from_errno(errno::EFBIG));
    assert_eq!(error(&mut c, write(f, u64::MAX, 1)), efbig);
    assert_eq!(error(&mut c, write(f, i64::MAX as u64, 1)), efbig);
    assert_eq!(errno(c.session.set_len(f, u64::MAX)), kind(errno::EFBIG));
    assert_eq!(errno(c.session.set_len(r, 1)), kind(errno::EBADF));
    assert_eq!(errno(c.session.close(FileId(99))), kind(errno::EBADF));
    c.session.close(f).unwrap();
    assert_eq!(errno(c.session.close(f)), kind(errno::EBADF));
    assert_eq!(errno(c.session.flush(f, Default::default())), kind(errno::EBADF));
    let mut c = keeping();
    let f = c.open("f", &read_write());
    let small = c.one_with(&write(f, 0, 10), &mut [0; 5]).done.error;
    assert_eq!(small, Some(OpError::from_errno(errno::EINVAL)), "the buffer is too small");
}

#[test]
fn file_ids_are_used_again() {
    let mut c = client();
    let a = c.open("a", &read_write());
    let b = c.open("b", &read_write());
    assert_ne!(a, b);
    c.session.close(a).unwrap();
    assert_eq!(c.open("c", &read_write()), a);
}

#[test]
fn folders() {
    let mut c = client();
    c.session.mkdir("d").unwrap();
    c.session.mkdir("d/e").unwrap();
    c.open("d/f", &read_write());
    assert_eq!(errno(c.session.mkdir("d")), kind(errno::EEXIST));
    assert_eq!(errno(c.session.mkdir("")), kind(errno::EEXIST));
    assert_eq!(errno(c.session.mkdir("x/y")), kind(errno::ENOENT));
    assert_eq!(errno(c.session.mkdir("d/f/y")), kind(errno::ENOTDIR));
    assert_eq!(errno(c.session.rmdir("d")), kind(errno::ENOTEMPTY));
    assert_eq!(errno(c.session.rmdir("d/f")), kind(errno::ENOTDIR));
    assert_eq!(errno(c.session.rmdir("")), kind(errno::EBUSY));
    assert_eq!(errno(c.session.remove("d/e")), kind(errno::EISDIR));
    assert_eq!(errno(c.session.remove("d/x")), kind(errno::ENOENT));
    assert_eq!(errno(c.session.readdir("d/f")), kind(errno::ENOTDIR));
    let entry = |name: &str, is_dir| DirEntry { name: name.into(), is_dir };
    assert_eq!(c.session.readdir("d").unwrap(), [entry("e", true), entry("f", false)]);
    assert_eq!(c.session.readdir("").unwrap(), [entry("d", true)]);
    assert!(c.session.stat("d").unwrap().is_dir && c.session.stat("").unwrap().is_dir);
    c.session.remove("d/f").unwrap();
    c.session.rmdir("d/e").unwrap();
    c.session.rmdir("d").unwrap();
    assert_eq!(c.session.readdir("").unwrap(), []);
}

#[test]
fn renaming() {
    let mut c = client();
    c.session.mkdir("d").unwrap();
    c.session.mkdir("e").unwrap();
    let f = c.open("f", &read_write());
    c.one(&write(f, 0, 10));
    c.open("g", &read_write());
    c.session.rename("f", "d/h").unwrap();
    assert_eq!(c.session.stat("d/h").unwrap().len_bytes, 10);
    assert_eq!(errno(c.session.stat("f")), kind(errno::ENOENT));
    c.session.rename("g", "d/h").unwrap();
    assert_eq!(c.session.stat("d/h").unwrap().len_bytes, 0, "replaced");
    c.session.rename("d/h", "d/h").unwrap();
    assert_eq!(errno(c.session.rename("x", "y")), kind(errno::ENOENT));
    assert_eq!(errno(c.session.rename("d", "d/sub")), kind(errno::EINVAL));
    assert_eq!(errno(c.session.rename("d/h", "e")), kind(errno::EISDIR));
    assert_eq!(errno(c.session.rename("e", "d/h")), kind(errno::ENOTDIR));
    assert_eq!(errno(c.session.rename("e", "d")), kind(errno::ENOTEMPTY));
    c.session.rename("d", "e").unwrap();
    assert_eq!(c.session.stat("e/h").unwrap().len_bytes, 0);
}

#[test]
fn a_removed_open_file_lives_until_it_is_closed() {
    let mut c = Client::new(&target(SimConfig { capacity_bytes: 1000, ..SimConfig::default() }));
    let f = c.open("f", &read_write());
    c.one(&write(f, 0, 600));
    c.session.remove("f").unwrap();
    assert_eq!(errno(c.session.stat("f")), kind(errno::ENOENT));
    assert_eq!(c.one(&read(f, 0, 600)).done.error, None);
    assert_eq!(c.session.space().unwrap().free_bytes, 400);
    c.session.close(f).unwrap();
    assert_eq!(c.session.space().unwrap().free_bytes, 1000);
}

#[test]
fn a_dropped_session_closes_its_files() {
    let t = target(SimConfig { capacity_bytes: 1000, ..SimConfig::default() });
    let (mut a, mut b) = (Client::new(&t), Client::new(&t));
    let f = a.open("f", &read_write());
    a.one(&write(f, 0, 600));
    b.session.remove("f").unwrap();
    assert_eq!(b.session.space().unwrap().free_bytes, 400);
    drop(a);
    assert_eq!(b.session.space().unwrap().free_bytes, 1000);
}

#[test]
fn space_runs_out_exactly() {
    for client_write_back_bytes in [0, MIB] {
        let mut c = Client::new(&target(SimConfig {
            capacity_bytes: 1000,
            client_cache_bytes: MIB,
            client_write_back_bytes,
            ..SimConfig::default()
        }));
        let f = c.open("f", &read_write());
        assert_eq!(c.one(&write(f, 0, 600)).done.error, None);
        let full = Some(OpError::from_errno(errno::ENOSPC));
        let done = c.one(&write(f, 600, 401)).done;
        assert_eq!((done.bytes, done.error), (0, full));
        assert_eq!(c.one(&write(f, 600, 400)).done.error, None);
        assert_eq!(c.one(&write(f, 0, 1000)).done.error, None, "rewriting needs no space");
        assert_eq!(errno(c.session.set_len(f, 1001)), kind(errno::ENOSPC));
        c.session.set_len(f, 100).unwrap();
        let space = c.session.space().unwrap();
        assert_eq!((space.free_bytes, space.total_bytes), (900, 1000));
    }
}

#[test]
fn a_read_only_server_serves_what_it_has() {
    let mut c = Client::new(&target(SimConfig {
        read_only: true,
        files: vec![FileConfig { path: "a/b/f".into(), len_bytes: 100 }],
        ..SimConfig::default()
    }));
    let options = OpenOptions { read: true, ..OpenOptions::default() };
    let f = c.open("a/b/f", &options);
    assert_eq!(c.one(&read(f, 0, 100)).done.error, None);
    let rofs = kind(errno::EROFS);
    assert_eq!(errno(c.session.open("a/b/f", &read_write())), rofs);
    assert_eq!(errno(c.session.open("g", &read_write())), rofs);
    assert_eq!(errno(c.session.mkdir("d")), rofs);
    assert_eq!(errno(c.session.rmdir("a")), rofs);
    assert_eq!(errno(c.session.rename("a", "d")), rofs);
    assert_eq!(errno(c.session.remove("a/b/f")), rofs);
}

#[test]
fn without_stored_data_buffers_are_left_alone() {
    let mut c = client();
    let f = c.open("f", &read_write());
    c.one_with(&write(f, 0, 100), &mut [7; 100]);
    let mut buf = [3; 100];
    assert_eq!(c.one_with(&read(f, 0, 100), &mut buf).done.bytes, 100);
    assert_eq!(buf, [3; 100]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random operations through every cache against a plain vector; each operation ends once.
    #[test]
    fn contents_are_those_of_a_plain_file(
        caches in any::<(bool, bool, bool)>(),
        steps in prop::collection::vec((0u8..8, 0u64..20_000, 1u32..9_000, any::<u8>()), 1..60),
    ) {
        let t = target(SimConfig {
            store_data: true,
            client_cache_bytes: if caches.0 { 16_384 } else { 0 },
            client_write_back_bytes: if caches.0 && caches.1 { 8_192 } else { 0 },
            server_cache_bytes: if caches.1 { 16_384 } else { 0 },
            write_back_bytes: if caches.2 { 10_000 } else { 0 },
            disk_write_bytes_per_s: 1_000_000,
            link_bytes_per_s: 10_000_000,
            latency_ns: 1000,
            ..SimConfig::default()
        });
        let mut c = Client::new(&t);
        let f = c.open("f", &read_write());
        let mut model: Vec<u8> = Vec::new();
        for (what, offset, len, byte) in steps {
            let (at, end) = (offset as usize, offset as usize + len as usize);
            match what {
                0..=2 => {
                    let mut data: Vec<u8> = (0..len).map(|i| byte.wrapping_add(i as u8)).collect();
                    let done = c.one_with(&write(f, offset, len), &mut data).done;
                    prop_assert_eq!((done.bytes, done.error), (len, None));
                    model.resize(model.len().max(end), 0);
                    model[at..end].copy_from_slice(&data);
                }
                3..=5 => {
                    let mut data = vec![0xee; len as usize];
                    let done = c.one_with(&read(f, offset, len), &mut data).done;
                    let there = model.get(at.min(model.len())..end.min(model.len())).unwrap();
                    prop_assert_eq!(done.bytes as usize, there.len());
                    prop_assert_eq!(&data[..there.len()], there);
                    prop_assert_eq!(done.error.is_some(), there.len() < data.len());
                }
                6 => {
                    c.session.set_len(f, offset).unwrap();
                    model.resize(at, 0);
                }
                _ => {
                    c.session.flush(f, Default::default()).unwrap();
                    prop_assert_eq!(t.stats().server_dirty_bytes, 0);
                    prop_assert_eq!(t.stats().client_dirty_bytes, 0);
                }
            }
            prop_assert_eq!(c.session.stat("f").unwrap().len_bytes, model.len() as u64);
        }
    }

    /// Whatever the server is made of, every operation ends exactly once and time moves on.
    #[test]
    fn every_operation_ends_once(
        seed in any::<u64>(),
        limits in any::<[bool; 8]>(),
        depth in 1usize..40,
    ) {
        let on = |i: usize, value: u64| if limits[i] { value } else { 0 };
        let t = target(SimConfig {
            seed,
            latency_ns: on(0, 100_000),
            jitter: if limits[0] { 0.5 } else { 0.0 },
            link_bytes_per_s: on(1, 100_000_000),
            server_cache_bytes: on(2, 65_536),
            disk_read_bytes_per_s: on(3, 50_000_000),
            disk_write_bytes_per_s: on(3, 20_000_000),
            disk_seek_ns: on(4, 1_000_000),
            write_back_bytes: on(5, 100_000),
            client_cache_bytes: on(6, 131_072),
            client_write_back_bytes: on(6, 65_536),
            server_op_ns: on(7, 3_000),
            ..SimConfig::default()
        });
        let mut c = Client::new(&t);
        let f = c.open("f", &read_write());
        c.session.set_len(f, 1 << 20).unwrap();
        let kinds = [OpKind::Read, OpKind::Write, OpKind::Read, OpKind::Write, OpKind::Flush];
        let ops = (0..300u64).map(|i| {
            let kind = kinds[(i % 5) as usize];
            let len = if kind == OpKind::Flush { 0 } else { 4096 + (i % 3) as u32 * 5000 };
            op(kind, f, i * 7919 % (1 << 19), len)
        });
        let seen = c.all(depth, ops);
        let mut tokens: Vec<u32> = seen.iter().map(|s| s.done.token).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, (0..300).collect::<Vec<u32>>());
        prop_assert!(seen.iter().all(|s| s.ended_ns > s.started_ns));
    }
}
