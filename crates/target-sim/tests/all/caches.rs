//! Client cache, server cache, read-ahead: what hits, what it costs, and where the knees are.

use crate::common::*;
use naslab_core::{FileId, OpKind};
use naslab_target_sim::{FileConfig, SimConfig, SimTarget};

const GB: u64 = 1_000_000_000;

fn setup(config: SimConfig) -> (SimTarget, Client, FileId) {
    let config = SimConfig { files: vec![FileConfig { path: "f".into(), len_bytes: 1 << 30 }], ..config };
    let target = target(config);
    let mut client = Client::new(&target);
    let file = client.open("f", &read_write());
    (target, client, file)
}

fn server_cached() -> SimConfig {
    SimConfig {
        server_cache_bytes: 16 * MIB,
        server_cache_bytes_per_s: GB,
        disk_read_bytes_per_s: GB / 10,
        disk_iops: 1000,
        ..latency_only(1)
    }
}

#[test]
fn a_working_set_that_fits_is_read_once_from_the_disk() {
    let (t, mut c, f) = setup(server_cached());
    c.all(1, sequence(OpKind::Read, f, 16 * MIB, 65536));
    assert_eq!(t.stats().disk_read_bytes, 16 * MIB);
    let ns = c.time(|c| c.all(1, sequence(OpKind::Read, f, 16 * MIB, 65536)));
    assert_eq!(ns, 256 * (65536 + 1), "at the rate of the memory");
    assert_eq!(t.stats().disk_read_bytes, 16 * MIB);
    assert_eq!(t.stats().server_cache_read_bytes, 16 * MIB);
}

#[test]
fn the_knee_is_at_the_cache_size() {
    // Random reads hit with the share of the working set that fits.
    for (mib, share) in [(8, 1.0), (16, 1.0), (32, 0.5), (64, 0.25)] {
        let (t, mut c, f) = setup(server_cached());
        c.all(4, sequence(OpKind::Read, f, mib * MIB, 65536));
        c.all(4, scattered(OpKind::Read, f, mib * MIB, 4096, 20_000));
        let before = t.stats();
        c.all(4, scattered(OpKind::Read, f, mib * MIB, 4096, 20_000).skip(10_000));
        let hits = t.stats().server_cache_read_bytes - before.server_cache_read_bytes;
        let found = hits as f64 / (10_000.0 * 4096.0);
        // The binomial standard error is at most 0.005.
        assert!((found - share).abs() < 0.025, "{mib} MiB: {found}");
    }
}

#[test]
fn a_loop_just_above_the_cache_never_hits() {
    let (t, mut c, f) = setup(server_cached());
    for _ in 0..3 {
        c.all(1, sequence(OpKind::Read, f, 16 * MIB + 65536, 65536));
    }
    assert_eq!(t.stats().server_cache_read_bytes, 0);
    assert_eq!(t.stats().disk_read_bytes, 3 * (16 * MIB + 65536));
}

#[test]
fn only_the_missing_pages_are_read() {
    let (t, mut c, f) = setup(server_cached());
    c.one(&read(f, 4096, 4096));
    c.one(&read(f, 3 * 4096, 4096));
    let before = t.stats();
    let seen = c.one(&read(f, 0, 5 * 4096));
    let after = t.stats();
    assert_eq!(after.disk_requests - before.disk_requests, 3);
    assert_eq!(after.disk_read_bytes - before.disk_read_bytes, 3 * 4096);
    assert_eq!(after.server_cache_read_bytes - before.server_cache_read_bytes, 2 * 4096);
    assert_eq!(seen.took_ns(), 3_000_000 + 1, "three requests of 1 ms each");
}

#[test]
fn a_part_hit_waits_for_both_memory_and_disk() {
    let (_t, mut c, f) = setup(SimConfig { server_cache_bytes_per_s: 1_000_000, disk_iops: 0, ..server_cached() });
    c.one(&read(f, 0, 4096));
    assert_eq!(c.one(&read(f, 0, 8192)).took_ns(), 4_096_000 + 1);
}

#[test]
fn small_reads_bring_whole_pages() {
    let (t, mut c, f) = setup(SimConfig { page_bytes: 65536, ..server_cached() });
    c.all(1, sequence(OpKind::Read, f, 131_072, 512));
    assert_eq!(t.stats().disk_read_bytes, 131_072);
    assert_eq!(t.stats().disk_requests, 2);
    assert_eq!(t.stats().server_cache_read_bytes, 131_072 - 2 * 512);
}

#[test]
fn written_data_is_in_the_server_cache() {
    let (t, mut c, f) = setup(server_cached());
    c.one(&write(f, 0, 65536));
    c.one(&read(f, 0, 65536));
    assert_eq!(t.stats().disk_read_bytes, 0);
    assert_eq!(t.stats().server_cache_read_bytes, 65536);
}

#[test]
fn sequential_misses_read_ahead_and_random_ones_do_not() {
    let (t, mut c, f) = setup(SimConfig { server_read_ahead_bytes: 28 * 4096, ..server_cached() });
    c.one(&read(f, 512 << 20, 4096));
    assert_eq!(t.stats().disk_read_bytes, 4096, "a jump");
    c.all(1, (1..59).map(|i| read(f, (512 << 20) + i * 4096, 4096)));
    assert_eq!(t.stats().disk_requests, 3, "58 pages in two requests of 29");
    assert_eq!(t.stats().disk_read_bytes, 59 * 4096);
}

#[test]
fn read_ahead_stops_at_the_end_of_the_file() {
    let (t, mut c, f) = setup(SimConfig { server_read_ahead_bytes: MIB, ..server_cached() });
    c.session.set_len(f, 10_000).unwrap();
    c.one(&read(f, 0, 4096));
    assert_eq!(t.stats().disk_read_bytes, 10_000);
}

/// 64 KiB take 0.66 ms at the disk; a reader that comes back 0.5 ms after each answer.
fn read_ahead_early(server_read_ahead_bytes: u64) -> SimConfig {
    SimConfig {
        server_read_ahead_bytes,
        server_reads_ahead_early: server_read_ahead_bytes > 0,
        disk_iops: 0,
        op_overhead_ns: 500_000,
        ..server_cached()
    }
}

#[test]
fn what_is_read_ahead_early_arrives_while_the_reader_is_away() {
    let paced = |bytes| {
        let (t, mut c, f) = setup(read_ahead_early(bytes));
        let ns = c.time(|c| c.all(1, sequence(OpKind::Read, f, 64 * MIB, 65536)));
        assert!(t.stats().disk_read_bytes - 64 * MIB <= bytes, "nothing is fetched twice");
        ns as f64 / 1024.0
    };
    let disk = 65536.0 / 0.1;
    assert!((paced(0) / (disk + 500_000.0) - 1.0).abs() < 0.01, "one after the other");
    assert!((paced(512 << 10) / disk - 1.0).abs() < 0.01, "the disk is never idle");
}

#[test]
fn readers_that_overtake_each_other_are_read_ahead_for_all_the_same() {
    let (t, mut c, f) = setup(SimConfig { disk_seek_ns: 5_000_000, ..read_ahead_early(512 << 10) });
    let order = (0..512_u64).map(|i| (i ^ 1) * 65536);
    c.all(1, order.map(|offset| read(f, offset, 65536)));
    assert!(t.stats().disk_seeks <= 3, "only where it begins");
    assert!(t.stats().disk_read_bytes - 32 * MIB <= 512 << 10, "nothing is fetched twice");
}

#[test]
fn early_read_ahead_helps_neither_a_jump_nor_data_in_the_cache() {
    let (t, mut c, f) = setup(read_ahead_early(MIB));
    c.one(&read(f, 512 << 20, 4096));
    assert_eq!(t.stats().disk_read_bytes, 4096, "a jump");
    c.one(&read(f, (512 << 20) + 4096, 4096));
    assert_eq!(t.stats().disk_read_bytes, 8192 + MIB);
    c.one(&read(f, 0, 4096));
    c.one(&read(f, 512 << 20, 8192));
    assert_eq!(t.stats().disk_read_bytes, 12288 + MIB, "these are kept");
}

#[test]
fn early_read_ahead_stops_at_the_end_of_the_file() {
    let (t, mut c, f) = setup(read_ahead_early(MIB));
    c.session.set_len(f, 10_000).unwrap();
    c.all(1, sequence(OpKind::Read, f, 10_000, 4096));
    assert_eq!(t.stats().disk_read_bytes, 10_000);
}

#[test]
fn a_removed_file_leaves_the_cache() {
    let (t, mut c, _) = setup(server_cached());
    let g = c.open("g", &read_write());
    c.all(1, sequence(OpKind::Write, g, 8 * MIB, MIB));
    c.session.close(g).unwrap();
    c.session.remove("g").unwrap();
    let h = c.open("h", &read_write());
    c.session.set_len(h, 8 * MIB).unwrap();
    let before = t.stats().disk_read_bytes;
    c.all(1, sequence(OpKind::Read, h, 8 * MIB, MIB));
    assert_eq!(t.stats().disk_read_bytes - before, 8 * MIB, "no page of the old file is hit");
}

#[test]
fn what_was_cut_off_leaves_the_caches() {
    for client_cache_bytes in [0, 16 * MIB] {
        let (t, mut c, f) = setup(SimConfig { client_cache_bytes, client_cache_bytes_per_s: GB, ..server_cached() });
        c.one(&read(f, 0, 65536));
        c.session.set_len(f, 4096).unwrap();
        c.session.set_len(f, 65536).unwrap();
        let before = t.stats();
        c.one(&read(f, 0, 65536));
        let after = t.stats();
        assert_eq!(after.disk_read_bytes - before.disk_read_bytes, 15 * 4096);
    }
}

#[test]
fn a_removed_file_leaves_the_client_cache() {
    let (_t, mut c, _) = setup(client_cached());
    let g = c.open("g", &read_write());
    c.one(&write(g, 0, 65536));
    c.session.close(g).unwrap();
    c.session.remove("g").unwrap();
    c.open("h", &read_write());
    assert_eq!(c.session.cached_fraction("h").unwrap(), Some(0.0));
}

fn client_cached() -> SimConfig {
    SimConfig { client_cache_bytes: 8 * MIB, client_cache_bytes_per_s: GB, ..latency_only(100_000) }
}

#[test]
fn a_hit_in_the_client_cache_puts_nothing_on_the_wire() {
    let (t, mut c, f) = setup(client_cached());
    assert_eq!(c.one(&read(f, 0, 65536)).took_ns(), 100_000);
    let wire = c.session.wire();
    assert_eq!(c.one(&read(f, 0, 65536)).took_ns(), 65536, "1 GB/s");
    assert_eq!(c.session.wire(), wire);
    assert_eq!(t.stats().client_cache_read_bytes, 65536);
    assert_eq!(t.stats().disk_read_bytes, 65536);
}

#[test]
fn the_client_asks_for_missing_pages_only() {
    let (t, mut c, f) = setup(client_cached());
    c.one(&read(f, 0, 8192));
    let before = c.session.wire().unwrap().received_bytes;
    let seen = c.one(&read(f, 4096, 8192));
    assert_eq!(seen.done.bytes, 8192);
    assert_eq!(c.session.wire().unwrap().received_bytes - before, 4096);
    assert_eq!(t.stats().client_cache_read_bytes, 4096);
}

#[test]
fn direct_and_synchronous_files_go_around_the_client_cache() {
    for options in [direct(), synced()] {
        let (t, mut c, f) = setup(client_cached());
        let g = c.open("f", &options);
        for _ in 0..2 {
            assert_eq!(c.one(&read(g, 0, 4096)).took_ns(), 100_000);
        }
        assert_eq!(t.stats().client_cache_read_bytes, 0);
        c.one(&read(f, 0, 4096));
        c.one(&write(g, 0, 4096));
        assert_eq!(c.one(&read(f, 0, 4096)).took_ns(), 100_000, "the old page is gone");
    }
}

#[test]
fn evict_drops_the_clients_pages() {
    let (_t, mut c, f) = setup(client_cached());
    c.session.set_len(f, 4 * MIB).unwrap();
    c.all(1, sequence(OpKind::Read, f, MIB, 65536));
    assert_eq!(c.session.cached_fraction("f").unwrap(), Some(0.25));
    c.session.evict("f").unwrap();
    assert_eq!(c.session.cached_fraction("f").unwrap(), Some(0.0));
    assert_eq!(c.one(&read(f, 0, 4096)).took_ns(), 100_000);
}

#[test]
fn sessions_share_the_client_cache() {
    let (t, mut a, f) = setup(client_cached());
    a.one(&read(f, 0, 4096));
    let mut b = Client::new(&t);
    let g = b.open("f", &read_write());
    assert_eq!(b.one(&read(g, 0, 4096)).took_ns(), 4096);
}

fn holding_client() -> SimConfig {
    SimConfig { client_write_back_bytes: 4 * MIB, link_bytes_per_s: GB / 10, ..client_cached() }
}

#[test]
fn buffered_writes_are_fast_until_the_dirty_limit_then_as_the_link() {
    let (t, mut c, f) = setup(holding_client());
    let seen = c.all(1, sequence(OpKind::Write, f, 32 * MIB, 65536));
    assert_eq!(seen[0].took_ns(), 65536, "the rate of the client's memory");
    // Memory 1 GB/s in, link 0.1 GB/s out: full after 4 MiB x 10 / 9; a message holds up to 1 MiB.
    let fast = seen.iter().take_while(|s| s.took_ns() == 65536).count() as u64;
    assert!((3 * MIB..=5 * MIB).contains(&(fast * 65536)), "{fast}");
    let (a, b) = (seen[200].ended_ns, seen[500].ended_ns);
    let rate = (300 * 65536) as f64 / ((b - a) as f64 / 1e9);
    assert!((rate / 1e8 - 1.0).abs() < 0.06, "{rate}");
    assert!(t.stats().client_dirty_bytes > 3 * MIB);
}

#[test]
fn a_flush_sends_everything_first() {
    for blocking in [true, false] {
        let (t, mut c, f) = setup(holding_client());
        let start = c.now();
        c.all(1, sequence(OpKind::Write, f, 2 * MIB, 65536));
        assert!(t.stats().client_dirty_bytes > MIB);
        match blocking {
            true => c.session.flush(f, Default::default()).unwrap(),
            false => assert_eq!(c.one(&op(OpKind::Flush, f, 0, 0)).done.error, None),
        }
        assert_eq!(c.session.wire().unwrap().sent_bytes, 2 * MIB);
        assert_eq!(t.stats().disk_written_bytes, 2 * MIB);
        assert_eq!(t.stats().client_dirty_bytes, 0);
        let least = 2 * MIB * 10 + 200_000;
        assert_eq!(c.now() - start, least);
    }
}

#[test]
fn evict_writes_back_first() {
    let (t, mut c, f) = setup(holding_client());
    c.all(1, sequence(OpKind::Write, f, MIB, 65536));
    c.session.evict("f").unwrap();
    assert_eq!(t.stats().client_dirty_bytes, 0);
    assert_eq!(c.session.wire().unwrap().sent_bytes, MIB);
    assert_eq!(c.session.cached_fraction("f").unwrap(), Some(0.0));
}

#[test]
fn what_the_client_wrote_it_reads_without_the_wire() {
    let (_t, mut c, f) = setup(holding_client());
    c.one(&write(f, 0, 65536));
    assert_eq!(c.one(&read(f, 0, 65536)).took_ns(), 65536);
    assert_eq!(c.session.wire().unwrap().received_bytes, 0);
}
