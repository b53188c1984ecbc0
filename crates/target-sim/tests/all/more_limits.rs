//! The client's interface, windows of connections, locks of files, periodic stops, and the client's CPU time.

use crate::common::*;
use naslab_core::{FileId, OpKind, Target};
use naslab_target_sim::{FaultConfig, FaultKind, FileConfig, SimConfig, SimTarget};

const MB: u64 = 1_000_000;

fn quiet() -> SimConfig {
    let file = |path: &str| FileConfig { path: path.into(), len_bytes: 1 << 30 };
    SimConfig { files: vec![file("f"), file("g")], ..latency_only(100_000) }
}

fn with_file(config: SimConfig) -> (SimTarget, Client, FileId) {
    let target = target(config);
    let mut client = Client::new(&target);
    let file = client.open("f", &read_write());
    (target, client, file)
}

/// Bytes per second of reads or writes of a megabyte, 16 at once.
fn rate(config: SimConfig, kind: OpKind) -> f64 {
    let (_t, mut c, f) = with_file(config);
    let ns = c.time(|c| c.all(16, sequence(kind, f, 500 * MB, MB)));
    500e6 / (ns as f64 / 1e9)
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found} instead of {expected}");
}

#[test]
fn the_slower_of_link_and_interface_counts_both_ways() {
    for (link, nic) in [(0, 100 * MB), (1000 * MB, 100 * MB), (100 * MB, 1000 * MB), (100 * MB, 0)] {
        for kind in [OpKind::Read, OpKind::Write] {
            let config = SimConfig { link_bytes_per_s: link, client_nic_bytes_per_s: nic, ..quiet() };
            near(rate(config, kind), 100e6, 0.001);
        }
    }
}

#[test]
fn the_interface_is_a_fact_and_the_link_is_not() {
    let fact = |config| target(config).facts().into_iter().find(|(name, _)| name == "client_nic_bytes_per_s");
    let config = SimConfig { link_bytes_per_s: 5 * MB, client_nic_bytes_per_s: 125 * MB, ..quiet() };
    assert_eq!(fact(config.clone()), Some(("client_nic_bytes_per_s".to_owned(), "125000000".to_owned())));
    assert_eq!(fact(SimConfig { client_nic_bytes_per_s: 0, ..config }), None);
}

#[test]
fn sessions_multiply_a_window_up_to_the_link() {
    let config = SimConfig { connection_bytes_per_s: 100 * MB, link_bytes_per_s: 250 * MB, ..quiet() };
    near(rate(config.clone(), OpKind::Read), 100e6, 0.01);
    near(rate(config.clone(), OpKind::Write), 100e6, 0.01);
    for (sessions, expected) in [(2u64, 200e6), (4, 250e6)] {
        let t = target(config.clone());
        let mut crew: Vec<Client> = (0..sessions).map(|_| Client::new(&t)).collect();
        let files: Vec<FileId> = crew.iter_mut().map(|c| c.open("f", &read_write())).collect();
        let start = t.clock().now_ns();
        for (c, f) in crew.iter_mut().zip(&files) {
            for op in sequence(OpKind::Read, *f, 200 * MB, MB) {
                c.submit(&op, 0).unwrap();
            }
        }
        let mut left = sessions * 200;
        while left > 0 {
            for c in &mut crew {
                left -= c.session.reap(0, None, &mut Vec::new()).unwrap() as u64;
            }
            if let Some(at) = crew.iter().filter_map(|c| c.session.next_event_ns()).min() {
                t.clock().advance_to(at);
            }
        }
        let ns = t.clock().now_ns() - start;
        near(sessions as f64 * 200e6 / (ns as f64 / 1e9), expected, 0.01);
    }
}

#[test]
fn operations_of_one_file_wait_for_each_other_and_other_files_do_not() {
    let config = SimConfig { file_lock_ns: 50_000, ..quiet() };
    let (_t, mut c, f) = with_file(config);
    let g = c.open("g", &read_write());
    let reads = |file| (0..64).map(move |i| read(file, i * 4096, 4096));
    assert_eq!(c.time(|c| c.all(64, reads(f))), 100_000 + 64 * 50_000);
    let both = reads(f).zip(reads(g)).flat_map(|(a, b)| [a, b]);
    assert_eq!(c.time(|c| c.all(128, both)), 100_000 + 64 * 50_000);
    let mixed = (0..32).flat_map(|i| [read(f, i * 4096, 4096), write(f, i * 4096, 4096)]);
    assert_eq!(c.time(|c| c.all(64, mixed)), 100_000 + 64 * 50_000);
    assert_eq!(c.time(|c| c.session.flush(f, Default::default()).unwrap()), 100_000, "a flush takes no lock");
}

#[test]
fn a_periodic_stop_takes_its_share_of_everything() {
    // A fifth of each 50 ms: what any part does goes at four fifths.
    let stops = SimConfig { stall_every_ns: 50_000_000, stall_ns: 10_000_000, ..quiet() };
    let slow_disk = SimConfig { disk_read_bytes_per_s: 100 * MB, ..stops.clone() };
    near(rate(slow_disk, OpKind::Read), 80e6, 0.01);
    let (_t, mut c, f) = with_file(SimConfig { server_op_ns: 10_000, ..stops.clone() });
    let ns = c.time(|c| c.all(64, sequence(OpKind::Read, f, 50_000 * 4096, 4096)));
    near(ns as f64, 50_000.0 * 10_000.0 / 0.8, 0.02);
    // One at a time: most operations notice nothing, and a few wait for up to the whole stop.
    let (_t, mut c, f) = with_file(stops);
    let seen = c.all(1, sequence(OpKind::Read, f, 5000 * 4096, 4096));
    let longest = seen.iter().map(|s| s.took_ns()).max().unwrap();
    assert!((9_900_000..=10_100_000).contains(&longest), "{longest}");
    assert!(seen.iter().filter(|s| s.took_ns() > 100_000).count() <= 13);
}

#[test]
fn a_stall_by_chance_slows_a_share_and_blocks_nobody() {
    let slow = FaultConfig { kind: FaultKind::Stall, probability: 0.02, duration_ns: 20_000_000, ..Default::default() };
    let (_t, mut c, f) = with_file(SimConfig { faults: vec![slow], ..quiet() });
    let seen = c.all(32, sequence(OpKind::Read, f, 20_000 * 4096, 4096));
    let late = seen.iter().filter(|s| s.took_ns() == 20_100_000).count();
    assert!(seen.iter().all(|s| s.done.error.is_none()));
    assert!((300..=500).contains(&late), "{late}");
    assert_eq!(seen.iter().filter(|s| s.took_ns() == 100_000).count(), 20_000 - late);
}

#[test]
fn the_clients_cpu_time_is_the_overhead_of_what_was_issued() {
    let (_t, mut c, f) = with_file(SimConfig { op_overhead_ns: 3000, ..quiet() });
    let before = c.session.virtual_cpu_ns().unwrap();
    assert_eq!(before, 3000, "the open");
    c.all(8, sequence(OpKind::Read, f, 100 * 4096, 4096));
    assert_eq!(c.session.virtual_cpu_ns(), Some(before + 100 * 3000));
    // What is submitted but not yet issued has taken no time so far.
    for i in 0..10 {
        c.submit(&read(f, i * 4096, 4096), i as u32).unwrap();
    }
    assert_eq!(c.session.virtual_cpu_ns(), Some(before + 100 * 3000));
    c.clock.advance_to(c.now() + 7000);
    assert_eq!(c.session.virtual_cpu_ns(), Some(before + 100 * 3000 + 7000));
}
