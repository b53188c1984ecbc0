//! What is timed, and what is not: exact on the virtual clock.

use crate::common::*;
use naslab_target_sim::{FaultConfig, FaultKind, FaultOp, SimConfig};
use serde_json::{json, Value};

/// A recorded latency is at most this much off.
const BOUND: f64 = 0.001;

fn close(got: f64, want: f64, bound: f64) -> bool {
    (got / want - 1.0).abs() <= bound
}

fn assert_latency(summary: &Value, want_ns: u64) {
    for name in ["min", "mean", "p50", "p90", "p99", "p99_9", "p99_99", "max"] {
        let got = summary[name].as_f64().unwrap();
        assert!(close(got, want_ns as f64, BOUND), "{name} is {got}, not {want_ns}");
    }
}

fn files(workers: u32) -> Vec<String> {
    (0..workers).map(|w| format!("naslab.{w}")).collect()
}

/// A server on which each of five workers has a file of 1 MiB.
fn with_files(config: SimConfig) -> SimConfig {
    let mut all: Vec<_> = files(5).iter().map(|f| planted(f, 1 << 20)).collect();
    all.push(planted("naslab.a", 1 << 20));
    SimConfig { files: all, ..config }
}

#[test]
fn inject_200_us_and_record_200_us() {
    for (workers, depth) in [(1, 1), (1, 8), (4, 1), (4, 8)] {
        for write_fraction in [0.0, 1.0] {
            let cell = cell(json!({
                "workers": workers, "queue_depth": depth, "files": files(workers), "file_bytes": 1 << 20,
                "write_fraction": write_fraction,
            }));
            let ran = sim_run(with_files(latency_only(200_000)), vec![cell]);
            let kind = if write_fraction > 0.0 { "write" } else { "read" };
            assert_latency(&latency(ran.cell(0), kind), 200_000);
            // Each slot of the queue carries out one operation after another.
            let turns = 256 / depth as u64;
            assert_eq!(ran.cell(0).duration_ns, turns * 200_000, "{workers} workers, depth {depth}");
            assert_eq!(ran.cell(0).ops, 256 * workers as u64);
        }
    }
}

#[test]
fn several_workers_of_unlike_speed_keep_their_own_times() {
    let slow_writes = FaultConfig {
        op: FaultOp::Write,
        probability: 1.0,
        kind: FaultKind::Stall,
        duration_ns: MS,
        ..FaultConfig::default()
    };
    let config = SimConfig { faults: vec![slow_writes], ..with_files(latency_only(200_000)) };
    let mix = cell(json!({"workers": 2, "files": ["naslab.0", "naslab.1"], "read_workers": 1, "stop_ops": 40}));
    let ran = sim_run(config, vec![mix]);
    let r = ran.cell(0);
    assert_eq!((r.kinds["read"].ops, r.kinds["write"].ops), (20, 20));
    assert_latency(&latency(r, "read"), 200_000);
    assert_latency(&latency(r, "write"), 1_200_000);
    assert_eq!((r.workers[0].duration_ns, r.workers[1].duration_ns), (20 * 200_000, 20 * 1_200_000));
    assert_eq!(r.duration_ns, 20 * 1_200_000);
}

#[test]
fn the_planted_link_rate_is_measured() {
    const RATE: u64 = 125_000_000;
    let file_bytes: u64 = 64 << 20;
    for (write_fraction, workers) in [(0.0, 1), (1.0, 1), (0.0, 2), (1.0, 2)] {
        let names = files(workers);
        let planted = names.iter().map(|f| planted(f, file_bytes)).collect();
        let config = SimConfig { op_overhead_ns: 1, link_bytes_per_s: RATE, files: planted, ..SimConfig::default() };
        let cell = cell(json!({
            "workers": workers, "queue_depth": 8, "files": names, "file_bytes": file_bytes, "record_bytes": 65536,
            "write_fraction": write_fraction,
        }));
        let ran = sim_run(config, vec![cell]);
        let r = ran.cell(0);
        let rate = r.bytes as f64 * 1e9 / r.duration_ns as f64;
        assert!(close(rate, RATE as f64, BOUND), "{rate} bytes/s with {workers} workers");
    }
}

fn open_loop(over: Value) -> Value {
    let mut base =
        json!({"pace": {"rate_per_s": 1000.0, "arrival": "constant"}, "file_bytes": 1 << 20, "pattern": "random"});
    for (name, value) in over.as_object().unwrap() {
        base[name] = value.clone();
    }
    cell(base)
}

#[test]
fn constant_arrivals_keep_the_rate() {
    for (workers, depth) in [(1, 1), (1, 4), (3, 1)] {
        let names = files(workers);
        let cell = open_loop(json!({"duration_ns": SECOND, "workers": workers, "queue_depth": depth, "files": names}));
        let ran = sim_run(with_files(latency_only(200_000)), vec![cell]);
        let r = ran.cell(0);
        assert_eq!((r.ops, r.missed_starts, r.stop_reason), (1000, 0, "duration"));
        assert_sums(&ran.cells[0]);
        assert_latency(&latency(r, "read"), 200_000);
        assert_latency(&response(r, "read"), 200_000);
        // The window reaches to the deadline, not to the last operation.
        assert_eq!(r.duration_ns, SECOND);
    }
}

#[test]
fn a_stall_counts_once_in_service_and_for_all_who_waited_in_response() {
    let stall = FaultConfig { duration_ns: 100 * MS, ..fault(FaultOp::Read, 501, FaultKind::Stall) };
    let config = SimConfig { faults: vec![stall], ..latency_only(200_000) };
    // Read number 0 is the look at the planted file: the stall hits the operation due at 500 ms.
    let ran = sim_run(config, vec![open_loop(json!({"duration_ns": SECOND, "interval_ns": MS}))]);
    let (r, outcome) = (ran.cell(0), &ran.cells[0]);
    assert_eq!(r.ops, 1000);
    assert_eq!(service_above(outcome, "read", MS), 1);
    // It ends at 600.2 ms. Number 501 + i starts at 600.2 + 0.2 i, due at 501 + i: until i = 122 it starts
    // more than one gap late, and ends more than 1.19 ms after it was due.
    assert_eq!(response_above(outcome, "read", 1_190_000), 124);
    assert_eq!(r.missed_starts, 123);
    let worst = response(r, "read")["max"].as_f64().unwrap();
    assert!(close(worst, 100_200_000.0, BOUND), "{worst}");
    assert_eq!(response_above(outcome, "read", 99_000_000), 2, "the stalled one, and the next: 99.4 ms");
    let slow_rows = series(outcome).iter().filter(|row| row[6] > MS as i64).count();
    assert_eq!(slow_rows, 1, "the series shows service times");
}

#[test]
fn with_room_in_the_queue_a_stall_delays_nobody_else() {
    let stall = FaultConfig { duration_ns: 100 * MS, ..fault(FaultOp::Read, 501, FaultKind::Stall) };
    let config = SimConfig { faults: vec![stall], ..latency_only(200_000) };
    let ran = sim_run(config, vec![open_loop(json!({"duration_ns": SECOND, "queue_depth": 2}))]);
    assert_eq!(service_above(&ran.cells[0], "read", MS), 1);
    assert_eq!(response_above(&ran.cells[0], "read", MS), 1);
    assert_eq!(ran.cell(0).missed_starts, 0);
}

#[test]
fn poisson_arrivals_have_the_rate_and_queue_up() {
    let pace = json!({"rate_per_s": 1000.0, "arrival": "poisson"});
    let ran = sim_run(latency_only(500_000), vec![open_loop(json!({"pace": pace, "duration_ns": 20 * SECOND}))]);
    let r = ran.cell(0);
    let spread = 5.0 * 20_000f64.sqrt();
    assert!((r.ops as f64 - 20_000.0).abs() < spread, "{} operations in 20 s", r.ops);
    assert_latency(&latency(r, "read"), 500_000);
    // M/D/1 at load 0.5: the mean time in the system is 1.5 services (Kleinrock, Queueing Systems I, 5.6).
    let mean = response(r, "read")["mean"].as_f64().unwrap();
    assert!(close(mean, 750_000.0, 0.05), "mean response {mean} ns");
}

#[test]
fn a_rate_above_the_capacity_shows_in_response_and_missed_starts() {
    let pace = json!({"rate_per_s": 5000.0, "arrival": "constant"});
    let ran = sim_run(latency_only(MS), vec![open_loop(json!({"pace": pace, "duration_ns": SECOND}))]);
    let r = ran.cell(0);
    // One at a time, 1 ms each: number k is due at 0.2 k ms and starts at k ms.
    assert_eq!((r.ops, r.stop_reason), (1000, "duration"));
    assert_latency(&latency(r, "read"), MS);
    let worst = response(r, "read")["max"].as_f64().unwrap();
    assert!(close(worst, 1_000_000_000.0 - 199_800_000.0, BOUND), "{worst}");
    // All but the first start late, and 4000 that were due never start.
    assert_eq!(r.missed_starts, 999 + 4000);
}

#[test]
fn the_open_loop_ends_at_the_deadline_with_nothing_in_flight() {
    // The last operation is due long after the deadline.
    let pace = json!({"rate_per_s": 0.5, "arrival": "constant"});
    let ran = sim_run(latency_only(200_000), vec![open_loop(json!({"pace": pace, "duration_ns": SECOND}))]);
    let r = ran.cell(0);
    assert_eq!((r.ops, r.missed_starts, r.window_ns), (1, 0, SECOND));
}

#[test]
fn warm_up_is_not_counted() {
    // A stall in the warm-up must not show.
    let stall = FaultConfig { duration_ns: 3 * MS, ..fault(FaultOp::Read, 4, FaultKind::Stall) };
    let config = SimConfig { faults: vec![stall], ..latency_only(MS) };
    let over = json!({"warmup_ns": 10 * MS, "duration_ns": 20 * MS, "file_bytes": 1 << 20, "interval_ns": MS, "record_ops": true});
    let ran = sim_run(config, vec![cell(over)]);
    let (r, outcome) = (ran.cell(0), &ran.cells[0]);
    assert_sums(outcome);
    assert_eq!((r.ops, r.duration_ns), (20, 20 * MS));
    // Six reads of 1 ms and one of 4 ms.
    assert_eq!((r.warmup_ops, r.warmup_bytes), (7, 7 * 4096));
    assert_eq!(op_log(outcome).len(), 20);
    let rows = series(outcome);
    assert_eq!((rows.len(), rows[0][0], rows[20][0]), (21, 0, 1), "each ends on a boundary");
    assert_latency(&latency(r, "read"), MS);
    assert_eq!(r.wire.as_ref().unwrap().received_bytes, r.bytes, "the warm-up's bytes are not the window's");
}

#[test]
fn a_cell_that_ends_in_its_warm_up_has_no_result() {
    let cells = vec![cell(json!({"warmup_ns": SECOND, "stop_ops": 5})), cell(json!({}))];
    let ran = sim_run(latency_only(MS), cells);
    let r = ran.cell(0);
    assert_eq!((r.status, r.ops, r.bytes, r.duration_ns), ("failed", 0, 0, 0));
    assert_eq!((r.warmup_ops, r.warmup_bytes), (5, 5 * 4096));
    assert!(r.first_error.as_ref().unwrap().cause.contains("warm-up"), "{:?}", r.first_error);
    assert_eq!(ran.cell(1).status, "complete");
}

#[test]
fn warm_up_and_pace_together() {
    let ran = sim_run(latency_only(200_000), vec![open_loop(json!({"warmup_ns": 100 * MS, "duration_ns": SECOND}))]);
    let r = ran.cell(0);
    assert!((999..=1000).contains(&r.ops), "{}", r.ops);
    assert_eq!(r.missed_starts, 0);
    assert_latency(&response(r, "read"), 200_000);
}

#[test]
fn think_time_counts_only_where_asked() {
    for write_fraction in [0.0, 1.0] {
        for (counted, duration_ns, pause_ns) in [(false, 10 * 200_000, 9 * MS), (true, 10 * 200_000 + 9 * MS, 0)] {
            let over = json!({
                "think_ns": MS, "think_counted": counted, "stop_ops": 10, "write_fraction": write_fraction,
            });
            let ran = sim_run(latency_only(200_000), vec![cell(over)]);
            let r = ran.cell(0);
            assert_eq!(
                (r.duration_ns, r.pause_ns, r.window_ns),
                (duration_ns, pause_ns, 11 * MS),
                "counted: {counted}"
            );
            assert_eq!(r.workers[0].duration_ns, duration_ns);
        }
    }
}

/// Three writers of own files; the third is held back and cut off by the stonewall.
fn stonewalled(finish: bool, verify: bool) -> (std::sync::Arc<naslab_target_sim::SimTarget>, Ran) {
    let stall = FaultConfig { duration_ns: 5 * MS, ..fault(FaultOp::Write, 5, FaultKind::Stall) };
    let target = sim(SimConfig {
        store_data: true,
        faults: vec![stall],
        op_overhead_ns: 0,
        latency_ns: 100_000,
        ..SimConfig::default()
    });
    let over = json!({
        "workers": 3, "files": files(3), "stonewall": true, "finish_untimed": finish, "verify": verify, "interval_ns": MS,
    });
    let mut cells = vec![write_cell(over)];
    if verify {
        cells.push(cell(json!({"workers": 3, "files": files(3), "verify": true})));
    }
    let ran = go(&spec(cells, json!({})), &dyn_target(&target));
    (target, ran)
}

#[test]
fn the_stonewall_ends_all_and_the_rest_is_written_unrecorded() {
    for finish in [false, true] {
        let (target, ran) = stonewalled(finish, false);
        let r = ran.cell(0);
        assert_eq!((r.status, r.stop_reason), ("complete", "stonewall"));
        assert_sums(&ran.cells[0]);
        // Two whole files in 16 round trips. The third worker's stalled write ends after the others.
        assert_eq!(r.ops, 16 + 16 + 2, "finish: {finish}");
        assert_eq!(r.workers.iter().map(|w| w.ops).min(), Some(2));
        assert_eq!((r.window_ns, r.pause_ns), (100_000 + 5 * MS + 100_000, 0));
        assert_eq!(r.duration_ns, r.window_ns);
        let lens: Vec<_> = files(3).iter().filter_map(|f| len_of(&*target, f)).collect();
        let left = if finish { 65536 } else { 2 * 4096 };
        assert_eq!(lens, [65536, 65536, left]);
        assert_eq!(target.stats().writes, if finish { 48 } else { 34 });
    }
}

#[test]
fn a_file_finished_after_the_stonewall_is_whole() {
    let (_target, ran) = stonewalled(true, true);
    let v = ran.cell(1).verified.as_ref().unwrap();
    assert_eq!((v.blocks, v.bad), (48, 0), "{:?}", v.first_bad);
}

#[test]
fn the_rest_is_written_without_think_time_or_warm_up() {
    let stall = FaultConfig { duration_ns: 500 * MS, ..fault(FaultOp::Write, 5, FaultKind::Stall) };
    let target = sim(SimConfig { faults: vec![stall], ..latency_only(100_000) });
    let over = json!({"workers": 3, "files": files(3), "stonewall": true, "finish_untimed": true, "think_ns": MS});
    let ran = go(&spec(vec![write_cell(over)], json!({})), &dyn_target(&target));
    assert_eq!(ran.cell(0).stop_reason, "stonewall");
    assert_eq!(target.stats().writes, 48);
}

#[test]
fn a_failure_after_the_stonewall_is_the_cell_s() {
    let stall = FaultConfig { duration_ns: 5 * MS, ..fault(FaultOp::Write, 5, FaultKind::Stall) };
    let late = fault(FaultOp::Write, 40, FaultKind::Error);
    let config =
        SimConfig { faults: vec![stall, late], op_overhead_ns: 0, latency_ns: 100_000, ..SimConfig::default() };
    let over = json!({"workers": 3, "files": files(3), "stonewall": true, "finish_untimed": true});
    let ran = sim_run(config, vec![write_cell(over)]);
    let r = ran.cell(0);
    assert_eq!((r.status, r.errors), ("failed", 0));
    assert!(r.first_error.as_ref().unwrap().cause.contains("after the window"), "{:?}", r.first_error);
}

/// A server that takes 1 MiB into its memory at once and needs 10 ms to put it onto its disk; closing takes
/// 7 ms.
fn slow_disk() -> SimConfig {
    SimConfig {
        op_overhead_ns: 0,
        write_back_bytes: 1 << 30,
        disk_write_bytes_per_s: (1 << 20) * 100,
        latency_ns: 1000,
        metadata_ns: 7 * MS,
        ..SimConfig::default()
    }
}

fn written(over: Value) -> naslab_engine::CellResult {
    let mut cell = write_cell(json!({"file_bytes": 1 << 20, "record_bytes": 65536}));
    for (name, value) in over.as_object().unwrap() {
        cell[name] = value.clone();
    }
    let mut ran = sim_run(slow_disk(), vec![cell]);
    assert_eq!(ran.end.status, "complete", "{:?}", ran.end);
    ran.cells.remove(0).result
}

#[test]
fn flush_and_close_are_timed_only_where_asked() {
    let acknowledged = 16 * 1000;
    let disk = 10 * MS;
    let close = 7 * MS + 1000;
    let plain = written(json!({"flush": "none"}));
    assert_eq!((plain.duration_ns, plain.flush_ns, plain.close_ns), (acknowledged, None, close));
    let apart = written(json!({}));
    let flush_ns = apart.flush_ns.unwrap();
    assert_eq!((apart.duration_ns, apart.acknowledged_ns), (acknowledged, acknowledged));
    assert!(close_to(acknowledged + flush_ns, disk, 2000), "durable after {}", acknowledged + flush_ns);
    let timed = written(json!({"timed_flush": true}));
    assert_eq!((timed.flush_ns, timed.acknowledged_ns), (Some(flush_ns), acknowledged));
    assert_eq!(timed.duration_ns, acknowledged + flush_ns);
    let closed = written(json!({"timed_close": true, "flush": "none"}));
    assert_eq!((closed.duration_ns, closed.acknowledged_ns), (acknowledged + close, acknowledged));
    // An untimed flush before the close stays untimed.
    let closed = written(json!({"timed_close": true}));
    assert_eq!((closed.duration_ns, closed.flush_ns), (acknowledged + close, Some(flush_ns)));
    let both = written(json!({"timed_close": true, "timed_flush": true}));
    assert_eq!(both.duration_ns, acknowledged + flush_ns + close);
}

fn close_to(got: u64, want: u64, by: u64) -> bool {
    got.abs_diff(want) <= by
}

#[test]
fn priming_is_not_counted() {
    let target = sim(latency_only(200_000));
    let ran = go(&spec(vec![cell(json!({"prime": true}))], json!({})), &dyn_target(&target));
    let r = ran.cell(0);
    assert_eq!((r.ops, r.duration_ns), (16, 16 * 200_000));
    assert_eq!(r.wire.as_ref().unwrap().received_bytes, r.bytes);
    // One look at the planted file, one priming read.
    assert_eq!(target.stats().reads, 16 + 2);
}

#[test]
fn intervals_add_up_and_hold_what_ended_in_them() {
    let over = json!({"stop_ops": 100, "interval_ns": 10 * MS, "file_bytes": 1 << 20, "write_fraction": 0.5, "pattern": "random"});
    let ran = sim_run(latency_only(MS), vec![cell(over)]);
    assert_sums(&ran.cells[0]);
    let rows = series(&ran.cells[0]);
    // Operation k ends at k ms: 9 in the first interval, 10 in the others, the last on the boundary.
    let ops: Vec<i64> = rows.iter().map(|r| r[0] + r[2]).collect();
    assert_eq!(ops, [9, 10, 10, 10, 10, 10, 10, 10, 10, 10, 1]);
    assert!(rows.iter().all(|r| r[6] == MS as i64));
}

#[test]
fn a_cold_cell_reads_nothing_from_the_client_s_cache() {
    let config = SimConfig { client_cache_bytes: 1 << 30, latency_ns: 1000, ..SimConfig::default() };
    let cells = vec![write_cell(json!({})), cell(json!({})), cell(json!({"cold": true}))];
    let ran = sim_run(config, cells);
    let received = |at| ran.cell(at).wire.as_ref().unwrap().received_bytes;
    assert_eq!((received(1), received(2)), (0, 65536));
}

#[test]
fn a_rate_limit_holds_the_rate_and_times_from_submission() {
    // 100 us an operation at 1,000 a second: one ends long before the next begins.
    let pace = json!({"rate_per_s": 1000.0, "arrival": "constant", "limit": true});
    let limited = cell(json!({"stop_ops": 16, "pace": pace}));
    let ran = sim_run(latency_only(100_000), vec![limited]);
    assert_eq!(ran.cell(0).window_ns, 15 * MS + 100_000);
    assert_eq!(latency(ran.cell(0), "read")["max"], json!(100_000));
    assert!(ran.cell(0).kinds["read"].response_ns.is_none());
    assert_eq!(ran.cell(0).missed_starts, 0);
    // Ten times slower than asked for: as fast as the server goes, and nothing counts as missed.
    let pace = json!({"rate_per_s": 100_000.0, "arrival": "constant", "limit": true});
    let ran = sim_run(latency_only(100_000), vec![cell(json!({"stop_ops": 16, "pace": pace}))]);
    assert_eq!((ran.cell(0).window_ns, ran.cell(0).missed_starts), (16 * 100_000, 0));
}

#[test]
fn bursts_are_followed_by_their_pause_within_the_window() {
    let bursts = cell(json!({"stop_ops": 12, "burst_ops": 4, "burst_gap_ns": 10 * MS}));
    let ran = sim_run(latency_only(100_000), vec![bursts]);
    // The pause counts from the start of a burst's last operation.
    assert_eq!(ran.cell(0).duration_ns, 2 * (3 * 100_000 + 10 * MS) + 4 * 100_000);
    assert_eq!(ran.cell(0).pause_ns, 0);
}

#[test]
fn each_worker_has_its_own_figures() {
    let ran = sim_run(latency_only(100_000), vec![cell(json!({"workers": 2}))]);
    let workers = serde_json::to_value(&ran.cell(0).workers).unwrap();
    for worker in workers.as_array().unwrap() {
        assert_eq!(worker["kinds"]["read"]["ops"], json!(8));
        let mean = worker["kinds"]["read"]["latency_mean_ns"].as_f64().unwrap();
        assert!((mean - 100_000.0).abs() <= 100.0, "{mean}");
        assert_eq!(worker["kinds"]["read"]["latency_stddev_ns"], json!(0.0));
    }
}

#[test]
fn client_cpu_time_is_virtual_and_adds_up_over_workers() {
    // 256 calls of 20 µs each and worker, at depth 8 behind a round trip of 100 µs: the processors are all there is.
    for workers in [1u32, 4] {
        let cell = cell(json!({
            "workers": workers, "queue_depth": 8, "files": files(workers), "file_bytes": 1 << 20, "write_fraction": 0.0,
        }));
        let config = SimConfig { op_overhead_ns: 20_000, ..latency_only(100_000) };
        let ran = sim_run(with_files(config), vec![cell]);
        let result = &ran.cell(0);
        assert_eq!(result.ops, 256 * u64::from(workers));
        assert_eq!(result.cpu_user_ns, u64::from(workers) * 256 * 20_000);
        assert_eq!(result.cpu_system_ns, 0);
        let busy = result.cpu_user_ns as f64 / result.window_ns as f64;
        assert!(close(busy, f64::from(workers), 0.03), "{busy} processors of {workers}");
    }
}
