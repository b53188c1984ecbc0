//! The server's write-back: memory until the limit, then the disk; and what durable means.

use crate::common::*;
use naslab_core::OpKind;
use naslab_target_sim::SimConfig;

/// 1 GB/s into memory, 100 MB/s onto the disk, 90 MB held.
fn config() -> SimConfig {
    SimConfig {
        server_cache_bytes_per_s: 1_000_000_000,
        disk_write_bytes_per_s: 100_000_000,
        write_back_bytes: 90_000_000,
        ..latency_only(1)
    }
}

#[test]
fn a_plateau_at_memory_rate_and_then_the_disk_rate() {
    let t = target(config());
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    let seen = c.all(4, sequence(OpKind::Write, f, 400_000_000, 100_000));
    // In at 1 GB/s and out at 0.1 GB/s: full after 90 MB / 0.9 GB/s = 100 ms, 100 MB written.
    let rate = |from: usize, to: usize| {
        let bytes = ((to - from) * 100_000) as f64;
        bytes / ((seen[to].ended_ns - seen[from].ended_ns) as f64 / 1e9)
    };
    assert!((rate(0, 950) / 1e9 - 1.0).abs() < 0.001, "{}", rate(0, 950));
    assert!((rate(1100, 3900) / 1e8 - 1.0).abs() < 0.01, "{}", rate(1100, 3900));
    let slow = seen.windows(2).position(|w| w[1].ended_ns - w[0].ended_ns > 300_000);
    let plateau = slow.unwrap() as u64 * 100_000;
    assert!((98_000_000..=101_000_000).contains(&plateau), "{plateau}");
    let stats = t.stats();
    assert!((89_000_000..=90_000_000).contains(&stats.server_dirty_bytes_max));
}

#[test]
fn a_flush_waits_until_all_is_on_the_disk() {
    for blocking in [true, false] {
        let t = target(config());
        let mut c = Client::new(&t);
        let f = c.open("f", &read_write());
        let start = c.now();
        c.all(1, sequence(OpKind::Write, f, 50_000_000, 100_000));
        assert!(c.now() - start < 51_000_000);
        match blocking {
            true => c.session.flush(f, Default::default()).unwrap(),
            false => assert_eq!(c.one(&op(OpKind::Flush, f, 0, 0)).done.error, None),
        }
        // Half a round trip before the first write gets there, half a round trip back.
        assert!((500_000_000..500_000_005).contains(&(c.now() - start)), "{}", c.now() - start);
        assert_eq!(t.stats().disk_written_bytes, 50_000_000);
        assert_eq!(t.stats().server_dirty_bytes, 0);
    }
}

#[test]
fn a_flush_of_a_clean_file_does_not_wait_for_later_writes_of_others() {
    let t = target(config());
    let mut c = Client::new(&t);
    let (f, g) = (c.open("f", &read_write()), c.open("g", &read_write()));
    c.all(1, sequence(OpKind::Write, g, 50_000_000, 100_000));
    assert_eq!(c.time(|c| c.session.flush(f, Default::default())), 1);
}

#[test]
fn the_disk_drains_while_the_clients_are_idle() {
    let t = target(config());
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    c.all(1, sequence(OpKind::Write, f, 50_000_000, 100_000));
    c.clock.advance_to(c.now() + SECOND);
    assert_eq!(t.stats().server_dirty_bytes, 0);
    assert_eq!(c.time(|c| c.session.flush(f, Default::default())), 1);
}

#[test]
fn synchronous_writes_wait_for_the_disk() {
    let t = target(config());
    let mut c = Client::new(&t);
    let f = c.open("f", &synced());
    assert_eq!(c.one(&write(f, 0, 1_000_000)).took_ns(), 10_000_000 + 1);
    assert_eq!(t.stats().disk_written_bytes, 1_000_000);
    let g = c.open("g", &direct());
    assert_eq!(c.one(&write(g, 0, 1_000_000)).took_ns(), 1_000_000 + 1, "direct is not durable");
}

#[test]
fn without_write_back_every_write_waits_for_the_disk() {
    let t = target(SimConfig { write_back_bytes: 0, ..config() });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    assert_eq!(c.one(&write(f, 0, 1_000_000)).took_ns(), 10_000_000 + 1);
}

#[test]
fn neighbouring_writes_are_drained_together_and_scattered_ones_seek() {
    let seeks = |scatter: bool| {
        let t = target(SimConfig { disk_seek_ns: 1_000_000, ..config() });
        let mut c = Client::new(&t);
        let f = c.open("f", &read_write());
        let place = |i: u64| if scatter { (i * 37 % 100) * 65536 } else { i * 65536 };
        c.all(1, (0..100).map(|i| write(f, place(i), 65536)));
        c.session.flush(f, Default::default()).unwrap();
        t.stats().disk_seeks
    };
    assert_eq!(seeks(false), 1);
    assert!(seeks(true) > 90);
}

#[test]
fn a_removed_file_is_not_written() {
    let t = target(config());
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    c.all(1, sequence(OpKind::Write, f, 50_000_000, 100_000));
    c.session.close(f).unwrap();
    c.session.remove("f").unwrap();
    c.clock.advance_to(c.now() + SECOND);
    let stats = t.stats();
    assert_eq!(stats.server_dirty_bytes, 0);
    assert!(stats.disk_written_bytes < 10_000_000, "{}", stats.disk_written_bytes);
}

#[test]
fn reads_share_the_disk_with_the_drain() {
    let t = target(SimConfig { disk_read_bytes_per_s: 100_000_000, ..config() });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    c.all(1, sequence(OpKind::Write, f, 50_000_000, 1_000_000));
    let took = c.one(&read(f, 0, 1_000_000)).took_ns();
    // Its own 10 ms, after what is left of one drain request of 10 ms.
    assert!((10_000_001..=20_000_001).contains(&took), "{took}");
}
