//! Latency, link, CPU and disk: exact in virtual time.

use crate::common::*;
use naslab_core::{OpKind, Session, Target};
use naslab_target_sim::{FileConfig, SimConfig, SimTarget};

fn with_file(config: SimConfig) -> (SimTarget, Client, naslab_core::FileId) {
    let config = SimConfig { files: vec![FileConfig { path: "f".into(), len_bytes: 1 << 30 }], ..config };
    let target = target(config);
    let mut client = Client::new(&target);
    let file = client.open("f", &read_write());
    (target, client, file)
}

#[test]
fn the_default_server_answers_after_the_overhead() {
    let (_t, mut c, f) = with_file(SimConfig::default());
    for op in [read(f, 0, 4096), write(f, 0, 4096), op(OpKind::Flush, f, 0, 0)] {
        assert_eq!(c.one(&op).took_ns(), 1000, "{op:?}");
    }
}

#[test]
fn the_overhead_is_spent_on_one_operation_after_another() {
    let (_t, mut c, f) = with_file(SimConfig::default());
    let ns = c.time(|c| c.all(8, sequence(OpKind::Read, f, 100 * 4096, 4096)));
    assert_eq!(ns, 100 * 1000);
}

#[test]
fn inject_200_us_and_get_200_us() {
    let (_t, mut c, f) = with_file(latency_only(200_000));
    for op in [read(f, 0, 4096), write(f, 0, 4096), op(OpKind::Flush, f, 0, 0)] {
        assert_eq!(c.one(&op).took_ns(), 200_000, "{op:?}");
    }
    // The round trip is no queue: eight at once take as long as one.
    let seen = c.all(8, sequence(OpKind::Read, f, 80 * 4096, 4096));
    assert!(seen.iter().all(|s| s.took_ns() == 200_000));
    assert_eq!(seen[79].ended_ns - seen[0].started_ns, 10 * 200_000);
}

#[test]
fn an_odd_round_trip_is_not_rounded() {
    let (_t, mut c, f) = with_file(latency_only(333_333));
    assert_eq!(c.one(&read(f, 0, 1)).took_ns(), 333_333);
}

#[test]
fn every_blocking_call_takes_a_round_trip() {
    let target = target(SimConfig { open_ns: 30, metadata_ns: 7, server_op_ns: 100, ..latency_only(200_000) });
    let mut c = Client::new(&target);
    assert_eq!(c.time(|c| c.open("f", &read_write())), 200_130);
    let f = c.open("g", &read_write());
    type Call = (&'static str, u64, fn(&mut dyn Session, naslab_core::FileId));
    let calls: [Call; 10] = [
        ("flush", 200_100, |s, f| s.flush(f, Default::default()).unwrap()),
        ("stat", 200_107, |s, _| assert!(s.stat("f").is_ok())),
        ("set_len", 200_107, |s, f| s.set_len(f, 10).unwrap()),
        ("mkdir", 200_107, |s, _| s.mkdir("d").unwrap()),
        ("readdir", 200_107, |s, _| assert!(s.readdir("d").is_ok())),
        ("rename", 200_107, |s, _| s.rename("f", "h").unwrap()),
        ("remove", 200_107, |s, _| s.remove("h").unwrap()),
        ("rmdir", 200_107, |s, _| s.rmdir("d").unwrap()),
        ("space", 200_107, |s, _| assert!(s.space().is_ok())),
        ("close", 200_107, |s, f| s.close(f).unwrap()),
    ];
    for (name, ns, call) in calls {
        assert_eq!(c.time(|c| call(&mut *c.session, f)), ns, "{name}");
    }
}

#[test]
fn jitter_spreads_around_the_latency() {
    let config = SimConfig { jitter: 0.2, ..latency_only(200_000) };
    let (_t, mut c, f) = with_file(config);
    let seen = c.all(1, sequence(OpKind::Read, f, 20_000 * 4096, 4096));
    let took: Vec<f64> = seen.iter().map(|s| s.took_ns() as f64).collect();
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    let sd = (took.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / took.len() as f64).sqrt();
    // Standard error of the mean: 283 ns.
    assert!((mean - 200_000.0).abs() < 1_200.0, "mean {mean}");
    assert!((sd - 40_000.0).abs() < 1_500.0, "sd {sd}");
}

#[test]
fn the_link_moves_its_rate_in_each_direction() {
    let config = SimConfig { link_bytes_per_s: 117_000_000, ..latency_only(1) };
    let (_t, mut c, f) = with_file(config);
    // 1170 x 100 000 B at 117 MB/s: exactly one second, whatever the depth.
    for kind in [OpKind::Read, OpKind::Write] {
        let ns = c.time(|c| c.all(16, sequence(kind, f, 117_000_000, 100_000)));
        assert_eq!(ns, SECOND + 1, "{kind:?}");
    }
    // Both at once use both directions.
    let both = sequence(OpKind::Read, f, 117_000_000, 100_000)
        .zip(sequence(OpKind::Write, f, 117_000_000, 100_000))
        .flat_map(|(r, w)| [r, w]);
    let ns = c.time(|c| c.all(64, both));
    assert!((SECOND..SECOND + SECOND / 100).contains(&ns), "{ns}");
}

#[test]
fn headers_and_data_are_counted_and_take_time() {
    let config = SimConfig { link_bytes_per_s: 1_000_000, header_bytes: 100, ..latency_only(50) };
    let (t, mut c, f) = with_file(config);
    let before = c.session.wire().unwrap();
    assert_eq!(before.sent_bytes, 100, "the open");
    assert_eq!(c.one(&read(f, 0, 900)).took_ns(), 50 + 100_000 + 1_000_000);
    assert_eq!(c.one(&write(f, 0, 400)).took_ns(), 50 + 500_000 + 100_000);
    let wire = c.session.wire().unwrap();
    assert_eq!(wire.sent_bytes - before.sent_bytes, 100 + 500);
    assert_eq!(wire.received_bytes - before.received_bytes, 1000 + 100);
    let stats = t.stats();
    assert_eq!(stats.uplink_bytes, wire.sent_bytes);
    assert_eq!(stats.downlink_bytes, wire.received_bytes);
}

#[test]
fn the_server_cpu_is_one_queue_for_all_sessions() {
    let config = SimConfig { server_op_ns: 10_000, ..latency_only(100) };
    let (t, mut a, f) = with_file(config);
    let mut b = Client::new(&t);
    let g = b.open("f", &read_write());
    let start = a.now();
    for i in 0..50 {
        a.submit(&read(f, 0, 1), i).unwrap();
        b.submit(&read(g, 0, 1), i).unwrap();
    }
    let mut left = 100;
    while left > 0 {
        let mut out = Vec::new();
        a.session.reap(0, None, &mut out).unwrap();
        b.session.reap(0, None, &mut out).unwrap();
        left -= out.len();
        let next = a.session.next_event_ns().into_iter().chain(b.session.next_event_ns());
        if let (true, Some(at)) = (out.is_empty(), next.min()) {
            a.clock.advance_to(at);
        }
    }
    assert_eq!(a.now() - start, 100 * 10_000 + 100);
}

#[test]
fn the_disk_moves_its_rates() {
    let config =
        SimConfig { disk_read_bytes_per_s: 200_000_000, disk_write_bytes_per_s: 50_000_000, ..latency_only(1) };
    let (t, mut c, f) = with_file(config);
    let ns = c.time(|c| c.all(4, sequence(OpKind::Read, f, 200_000_000, 1_000_000)));
    assert_eq!(ns, SECOND + 1);
    let ns = c.time(|c| c.all(4, sequence(OpKind::Write, f, 50_000_000, 1_000_000)));
    assert_eq!(ns, SECOND + 1);
    assert_eq!(t.stats().disk_read_bytes, 200_000_000);
    assert_eq!(t.stats().disk_written_bytes, 50_000_000);
}

#[test]
fn the_disk_serves_its_requests_per_second() {
    let config = SimConfig { disk_iops: 250, disk_read_bytes_per_s: 100_000_000, ..latency_only(1) };
    let (t, mut c, f) = with_file(config);
    // 4 KiB need 41 us, less than the 4 ms of a request; 1 MB needs 10 ms, more than that.
    let ns = c.time(|c| c.all(8, scattered(OpKind::Read, f, 1 << 30, 4096, 500)));
    assert_eq!(ns, 2 * SECOND + 1);
    let ns = c.time(|c| c.all(8, sequence(OpKind::Read, f, 100_000_000, 1_000_000)));
    assert_eq!(ns, SECOND + 1);
    assert_eq!(t.stats().disk_requests, 600);
}

#[test]
fn a_request_that_does_not_continue_seeks() {
    let config = SimConfig { disk_seek_ns: 8_000_000, disk_read_bytes_per_s: 100_000_000, ..latency_only(1) };
    let (t, mut c, f) = with_file(config);
    let each = 100_000 * 10; // 100 kB at 100 MB/s
    let ns = c.time(|c| c.all(1, sequence(OpKind::Read, f, 1_000_000, 100_000)));
    assert_eq!(ns, 8_000_000 + 10 * (each + 1), "one seek, to the start");
    let back = (0..10).rev().map(|i| read(f, i * 100_000, 100_000));
    let ns = c.time(|c| c.all(1, back));
    assert_eq!(ns, 10 * (8_000_000 + each + 1), "backwards seeks every time");
    assert_eq!(t.stats().disk_seeks, 11);
}

#[test]
fn link_and_disk_overlap_with_depth_and_add_up_without() {
    let config = SimConfig { link_bytes_per_s: 100_000_000, disk_read_bytes_per_s: 100_000_000, ..latency_only(1) };
    let (_t, mut c, f) = with_file(config);
    let ops = || sequence(OpKind::Read, f, 100_000_000, 1_000_000);
    assert_eq!(c.time(|c| c.all(1, ops())), 2 * SECOND + 100);
    let ns = c.time(|c| c.all(3, ops()));
    assert_eq!(ns, SECOND + 10_000_000 + 1, "the last one's way over the link is left");
}

#[test]
fn a_hit_does_not_wait_behind_a_miss() {
    let config = SimConfig {
        server_cache_bytes: MIB,
        disk_seek_ns: 10_000_000,
        link_bytes_per_s: 1_000_000_000,
        ..latency_only(1000)
    };
    let (_t, mut c, f) = with_file(config);
    c.one(&read(f, 0, 4096));
    c.submit(&read(f, 500 << 20, 4096), 1).unwrap();
    c.submit(&read(f, 0, 4096), 2).unwrap();
    let start = c.now();
    let first = c.wait().unwrap();
    assert_eq!(first[0].token, 2);
    assert_eq!(c.now() - start, 1000 + 4096);
}

#[test]
fn a_session_is_busy_at_its_depth() {
    let (t, mut c, f) = with_file(SimConfig { max_depth: 2, ..SimConfig::default() });
    assert_eq!(t.caps().max_depth, 2);
    use naslab_core::Submit::{Busy, Queued};
    let answers: Vec<_> = (0..3).map(|i| c.submit(&read(f, 0, 1), i).unwrap()).collect();
    assert_eq!(answers, [Queued, Queued, Busy]);
    assert_eq!(c.wait().unwrap().len(), 1);
    assert_eq!(c.submit(&read(f, 0, 1), 3).unwrap(), Queued);
}

#[test]
fn the_same_offset_of_another_file_is_a_seek() {
    let (t, mut c, f) = with_file(latency_only(1));
    let g = c.open("g", &read_write());
    c.session.set_len(g, MIB).unwrap();
    c.one(&read(f, 0, 4096));
    c.one(&read(g, 4096, 4096));
    assert_eq!(t.stats().disk_seeks, 2);
}

#[test]
fn no_operation_takes_no_time() {
    let config = SimConfig { jitter: 5.0, ..latency_only(1) };
    let (_t, mut c, f) = with_file(config);
    let seen = c.all(1, sequence(OpKind::Read, f, 4_096_000, 4096));
    assert!(seen.iter().all(|s| s.took_ns() >= 1));
    assert!(seen.iter().any(|s| s.took_ns() > 5));
}

fn trace(seed: u64, jitter: f64) -> Vec<Seen> {
    let config = SimConfig {
        seed,
        jitter,
        server_cache_bytes: 4 * MIB,
        disk_read_bytes_per_s: 300_000_000,
        disk_seek_ns: 70_000,
        link_bytes_per_s: 117_000_000,
        write_back_bytes: MIB,
        ..latency_only(200_000)
    };
    let (_t, mut c, f) = with_file(config);
    let reads = scattered(OpKind::Read, f, 64 << 20, 16384, 2000);
    let writes = scattered(OpKind::Write, f, 64 << 20, 8192, 2000);
    c.all(16, reads.zip(writes).flat_map(|(r, w)| [r, w]))
}

#[test]
fn the_same_seed_gives_the_same_nanoseconds() {
    assert_eq!(trace(1, 0.3), trace(1, 0.3));
    assert_ne!(trace(1, 0.3), trace(2, 0.3));
    assert_eq!(trace(1, 0.0), trace(2, 0.0), "without jitter the seed has no say");
}

#[test]
fn the_next_event_is_never_after_the_first_completion() {
    // A driver that looks at every nanosecond boundary it is told of reaps at the exact end.
    let (_t, mut c, f) = with_file(SimConfig { disk_seek_ns: 12_345, server_op_ns: 777, ..latency_only(1001) });
    assert_eq!(c.session.next_event_ns(), None, "nothing is outstanding");
    let start = c.now();
    c.submit(&read(f, 0, 1), 0).unwrap();
    c.wait().unwrap();
    assert_eq!(c.now() - start, 12_345 + 777 + 1001);
}
