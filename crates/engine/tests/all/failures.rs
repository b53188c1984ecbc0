//! Failed operations, lost sessions, hangs, panics, interruptions.

use crate::common::fake::{Call, Fake, Fault};
use crate::common::*;
use naslab_core::{errno, Clock, Target};
use naslab_target_null::NullTarget;
use naslab_target_sim::{FaultConfig, FaultKind, FaultOp, FaultScope, SimConfig};
use serde_json::{json, Value};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

fn statuses(ran: &Ran, at: usize) -> Vec<(&'static str, i64, u64)> {
    ran.cell(at).errors_by_status.iter().map(|s| (s.kind, s.status, s.count)).collect()
}

#[test]
fn a_failed_operation_is_counted_and_the_run_goes_on() {
    // Read 0 is the look at the planted file.
    let faults = vec![
        fault(FaultOp::Read, 4, FaultKind::Error),
        FaultConfig { errno: errno::EACCES, ..fault(FaultOp::Read, 7, FaultKind::Error) },
        fault(FaultOp::Read, 9, FaultKind::Error),
    ];
    let ran = sim_run(SimConfig { faults, ..latency_only(1000) }, vec![cell(json!({})), cell(json!({}))]);
    let r = ran.cell(0);
    assert_eq!((r.status, r.stop_reason, r.ops, r.errors), ("failed", "done", 13, 3));
    assert_eq!(statuses(&ran, 0), [("io", 5, 2), ("permission", 13, 1)]);
    assert!(r.first_error.as_ref().unwrap().cause.contains("io"), "{:?}", r.first_error);
    assert_sums(&ran.cells[0]);
    assert_eq!((ran.cell(1).status, ran.cell(1).ops), ("complete", 16));
    assert_eq!((ran.end.status, &ran.end.error), ("failed", &None));
}

#[test]
fn short_reads_are_errors_and_their_bytes_are_not_counted() {
    let config = SimConfig { faults: vec![fault(FaultOp::Read, 4, FaultKind::Short)], ..latency_only(1000) };
    let ran = sim_run(config, vec![cell(json!({}))]);
    assert_eq!(statuses(&ran, 0), [("short", 0, 1)]);
    assert_eq!((ran.cell(0).ops, ran.cell(0).bytes), (15, 15 * 4096));
}

#[test]
fn reading_beyond_the_end_is_short_too() {
    let config = SimConfig { files: vec![planted("naslab.a", 10 * 4096 + 100)], ..latency_only(1000) };
    let ran = sim_run(config, vec![cell(json!({}))]);
    assert_eq!(statuses(&ran, 0), [("short", 0, 6)]);
    assert_eq!(ran.cell(0).bytes, 10 * 4096);
}

#[test]
fn a_worker_gives_up_after_a_thousand_failures_in_a_row() {
    let all = FaultConfig { probability: 1.0, op: FaultOp::Write, ..FaultConfig::default() };
    let config = SimConfig { faults: vec![all], ..latency_only(1000) };
    let ran = sim_run(config, vec![write_cell(json!({"stop_ops": 5000}))]);
    assert_eq!((ran.cell(0).errors, ran.cell(0).stop_reason), (1000, "error"));
}

#[test]
fn a_full_server_ends_the_cell_and_not_the_run() {
    // Room for ten records besides the megabyte of the planted file.
    let config = SimConfig { capacity_bytes: (1 << 20) + 10 * 4096, ..latency_only(1000) };
    let cells = vec![write_cell(json!({"files": ["naslab.b"]})), cell(json!({}))];
    let ran = sim_run(config, cells);
    let r = ran.cell(0);
    assert_eq!((r.status, r.stop_reason, r.ops, r.errors), ("failed", "error", 10, 1));
    assert_eq!(statuses(&ran, 0), [("no_space", errno::ENOSPC as i64, 1)]);
    assert_eq!(ran.cell(1).status, "complete");
    assert_eq!(ran.end.status, "failed");
}

#[test]
fn a_read_only_server_is_refused_with_its_errno() {
    let config = SimConfig { read_only: true, ..latency_only(1000) };
    let ran = sim_run(config, vec![write_cell(json!({}))]);
    assert_eq!(
        (ran.end.status, ran.end.error.as_ref().map(|e| e.kind), ran.end.error.as_ref().map(|e| e.status)),
        ("failed", Some("read_only"), Some(30))
    );
}

fn disconnected(scope: FaultScope, folder: Option<&str>) -> (Arc<naslab_target_sim::SimTarget>, Ran) {
    let gone = FaultConfig { scope, ..fault(FaultOp::Write, 20, FaultKind::Disconnect) };
    let target = sim(SimConfig { faults: vec![gone], op_overhead_ns: 0, latency_ns: 100_000, ..SimConfig::default() });
    let files = json!(["naslab.a", "naslab.b"]);
    let over = json!({"workers": 2, "queue_depth": 4, "files": files, "file_bytes": 1 << 20});
    let again = json!({"workers": 2, "queue_depth": 4, "files": files});
    let cells = vec![write_cell(over), write_cell(again)];
    let ran = go(&spec(cells, json!({"folder": folder, "cleanup_files": files})), &dyn_target(&target));
    (target, ran)
}

#[test]
fn a_lost_connection_ends_its_worker_and_the_next_cell_connects_anew() {
    let (target, ran) = disconnected(FaultScope::Session, None);
    let r = ran.cell(0);
    assert_eq!((r.status, r.stop_reason), ("failed", "error"));
    assert_sums(&ran.cells[0]);
    assert_eq!(statuses(&ran, 0), [("disconnected", errno::ECONNRESET as i64, 4)]);
    let whole = r.workers.iter().filter(|w| w.ops == 256).count();
    assert_eq!(whole, 1, "the other worker goes on");
    assert_eq!((ran.cell(1).status, ran.cell(1).ops), ("complete", 32));
    assert_eq!((ran.end.status, ran.end.left_behind.len()), ("failed", 0));
    assert_eq!(len_of(&*target, "naslab.a"), None);
}

#[test]
fn when_all_connections_are_lost_clean_up_connects_anew() {
    let (target, ran) = disconnected(FaultScope::All, Some("naslab-r1"));
    // Both queues of four fail.
    assert_eq!((ran.cell(0).errors, statuses(&ran, 0).len()), (8, 1));
    assert_eq!(ran.cell(1).status, "complete");
    assert_eq!(ran.end.left_behind, Vec::new());
    assert_eq!(len_of(&*target, "naslab-r1"), None);
}

/// Runs on a thread; fails if it does not return in time. All hangs here are planted after 0.1 s.
fn within_a_minute(spec: Value, target: Arc<Fake>, interrupt_after: Option<u64>) -> naslab_core::Result<Ran> {
    let (report, answer) = channel();
    std::thread::spawn(move || {
        let spec = serde_json::from_value(spec).unwrap();
        let mut events = Collector { interrupt_after, ..Collector::default() };
        let end = naslab_engine::run(&spec, &dyn_target(&target), OWNER, &mut events);
        report.send(end.map(|end| Ran { end, cells: events.cells })).unwrap();
    });
    answer.recv_timeout(Duration::from_secs(60)).expect("run returns")
}

/// Two workers on a misbehaving target.
fn misbehaving(fault: Fault, timeout_ms: u64, over: Value) -> naslab_core::Result<Ran> {
    let files = json!(["naslab.a", "naslab.b"]);
    let mut cell = write_cell(json!({"workers": 2, "files": files, "stop_ops": 1000, "queue_depth": 4}));
    for (name, value) in over.as_object().unwrap() {
        cell[name] = value.clone();
    }
    let run = json!({"timeout_ns": timeout_ms * MS, "folder": "naslab-r1", "cleanup_files": files});
    within_a_minute(spec_json(vec![cell.clone(), cell], run), Arc::new(Fake::new(fault)), None)
}

/// The mark of the run is the first that is written, and what a full server says of it is all that a user learns.
#[test]
fn what_a_server_says_of_untimed_operations_is_told_in_its_words() {
    let system = errno::text(errno::ENOSPC);
    for (status, words) in [
        (0xC000_007F_i64, "the share is full (STATUS 0xc000007f)"),
        (0, "no space"),
        (i64::from(errno::ENOSPC), system.as_str()),
    ] {
        let spec = spec_json(vec![write_cell(json!({}))], json!({"folder": "naslab-r1"}));
        let ran = within_a_minute(spec, Arc::new(Fake::new(Fault::Refuse(0, status))), None);
        let told =
            ran.map_or_else(|error| error.to_string(), |ran| ran.end.error.map_or_else(String::new, |e| e.to_string()));
        assert!(told.contains(words), "{status:#x}: {told:?}");
    }
}

#[test]
fn a_run_that_goes_on_gives_up_the_session_and_not_the_run() {
    let files = json!(["naslab.a", "naslab.b"]);
    let load =
        |id: u64| write_cell(json!({"id": id, "workers": 2, "files": files, "stop_ops": 1000, "queue_depth": 4}));
    let run = json!({"timeout_ns": 500 * MS, "goes_on": true, "folder": "naslab-r1", "cleanup_files": files});
    let spec = spec_json(vec![load(0), load(1)], run);
    let ran = within_a_minute(spec, Arc::new(Fake::new(Fault::LoseOp(100))), None).unwrap();
    assert_eq!((ran.end.status, &ran.end.error, ran.cells.len()), ("failed", &None, 2));
    assert_eq!((ran.cell(0).status, ran.cell(0).errors), ("failed", 1));
    assert_eq!(statuses(&ran, 0), [("timeout", 0, 1)]);
}

#[test]
fn an_operation_that_never_ends_is_a_timeout_and_the_rest_is_kept() {
    let ran = misbehaving(Fault::LoseOp(100), 500, json!({})).unwrap();
    assert_eq!((ran.end.status, ran.end.error.as_ref().map(|e| e.kind)), ("failed", Some("timeout")));
    // The workers could come home: what they measured is there, and the lost operation is a failure.
    assert_eq!(ran.cells.len(), 1, "no later cell");
    let r = ran.cell(0);
    assert_eq!((r.status, r.stop_reason, r.errors), ("failed", "error", 1));
    assert_eq!(statuses(&ran, 0), [("timeout", 0, 1)]);
    assert!(r.ops >= 500, "the other worker's operations count: {}", r.ops);
    assert_sums(&ran.cells[0]);
}

#[test]
fn every_operation_lost_in_flight_is_a_failure() {
    let ran = misbehaving(Fault::LoseFrom(100), 300, json!({})).unwrap();
    let r = ran.cell(0);
    // Operation 0 wrote the owner mark. Both queues of four are full of what never ends.
    assert_eq!((r.ops, r.errors, statuses(&ran, 0)), (99, 8, vec![("timeout", 0, 8)]));
    assert_sums(&ran.cells[0]);
}

#[test]
fn a_call_that_never_returns_is_a_timeout() {
    for call in [Call::Submit(100), Call::Open, Call::Flush, Call::Close, Call::Connect] {
        let ran = misbehaving(Fault::HangIn(call), 50, json!({})).unwrap();
        assert_eq!((ran.end.status, ran.end.error.as_ref().map(|e| e.kind)), ("failed", Some("timeout")), "{call:?}");
        assert!(ran.cells.is_empty(), "{call:?}");
    }
}

#[test]
fn clean_up_that_hangs_is_reported_as_left_behind() {
    let ran = misbehaving(Fault::HangIn(Call::Remove), 50, json!({})).unwrap();
    assert_eq!(ran.cells.len(), 2);
    assert_eq!(ran.end.left_behind.len(), 1);
    assert!(ran.end.left_behind[0].to_string().contains("naslab-r1"), "{:?}", ran.end.left_behind);
}

#[test]
fn a_slow_pace_or_long_think_time_is_no_hang() {
    let slow = json!({"pace": {"rate_per_s": 4.0, "arrival": "constant"}, "stop_ops": 4});
    assert_eq!(misbehaving(Fault::None, 300, slow).unwrap().end.status, "complete");
    let thinking = json!({"think_ns": 500 * MS, "stop_ops": 4, "queue_depth": 1});
    assert_eq!(misbehaving(Fault::None, 300, thinking).unwrap().end.status, "complete");
}

#[test]
fn a_panic_in_a_worker_is_an_error_that_names_it() {
    let endless = json!({"duration_ns": 3600 * SECOND, "stop_ops": null});
    for (call, over) in [
        (Call::Connect, &endless),
        (Call::Open, &endless),
        (Call::Submit(100), &endless),
        (Call::Flush, &json!({})),
        (Call::Close, &json!({})),
    ] {
        let ran = misbehaving(Fault::PanicIn(call), 20_000, over.clone()).unwrap();
        let error = ran.end.error.unwrap();
        assert_eq!((ran.end.status, ran.cells.len()), ("failed", 0));
        assert!(error.cause.contains("planted panic"), "{call:?}: {error}");
    }
}

#[test]
fn a_session_that_fails_counts_its_operation() {
    let ran = misbehaving(Fault::FailSubmit(100), 20_000, json!({})).unwrap();
    assert_eq!(statuses(&ran, 0), [("disconnected", 0, 1)]);
    assert_eq!(ran.cell(0).status, "failed");
    assert!(ran.cell(0).first_error.as_ref().unwrap().cause.contains("planted"));
    assert_sums(&ran.cells[0]);
    assert_eq!(ran.cell(1).status, "complete", "the next cell connects anew");
}

#[test]
fn virtual_time_that_stands_still_is_an_error() {
    // The fake never names a next event.
    let target = Fake { clock: Clock::new_virtual(), ..Fake::new(Fault::LoseOp(5)) };
    let spec = spec_json(vec![cell(json!({"queue_depth": 3}))], json!({"folder": "naslab-r1"}));
    let ran = within_a_minute(spec, Arc::new(target), None).unwrap();
    assert_eq!((ran.end.status, ran.end.error.as_ref().map(|e| e.kind)), ("failed", Some("timeout")));
    assert!(ran.end.error.unwrap().to_string().contains("virtual time stands still"));
}

#[test]
fn no_session_stays_open_after_a_failed_set_up() {
    let target = Arc::new(Fake { worker: Some(1), ..Fake::new(Fault::PanicIn(Call::Open)) });
    let cell = cell(json!({"workers": 3, "files": ["naslab.a", "naslab.b", "naslab.c"]}));
    let ran = within_a_minute(spec_json(vec![cell], json!({"folder": "naslab-r1"})), target.clone(), None).unwrap();
    assert_eq!(ran.end.status, "failed");
    assert_eq!(target.open_sessions(), 0);
}

fn interrupted(target: &Arc<dyn Target>, over: Value) -> Ran {
    let files = json!(["naslab.a", "naslab.b"]);
    let mut cells =
        vec![cell(json!({"workers": 2, "files": files, "queue_depth": 2, "duration_ns": 1_000_000 * SECOND}))];
    for (name, value) in over.as_object().unwrap() {
        cells[0][name] = value.clone();
    }
    cells.push(cell(json!({})));
    let run = json!({"folder": "naslab-r1", "cleanup_files": files, "progress_interval_ns": 1});
    let spec = spec(cells, run);
    let mut events = Collector { interrupt_on_progress: true, ..Collector::default() };
    let end = go_with(&spec, target, &mut events);
    Ran { end, cells: events.cells }
}

fn assert_partial(ran: &Ran) {
    assert_eq!((ran.end.status, &ran.end.error), ("interrupted", &None));
    assert_eq!(ran.end.left_behind, Vec::new());
    assert_eq!(ran.cells.len(), 1, "no later cell");
    let r = ran.cell(0);
    assert_eq!((r.status, r.stop_reason), ("partial", "interrupted"));
    assert!(r.ops > 0);
    assert_sums(&ran.cells[0]);
}

#[test]
fn ctrl_c_keeps_the_partial_cell_on_threads() {
    let target: Arc<dyn Target> = Arc::new(NullTarget::new());
    assert_partial(&interrupted(&target, json!({})));
    // While waiting for a due time or thinking, too.
    assert_partial(&interrupted(&target, json!({"think_ns": 3 * MS})));
    assert_partial(&interrupted(&target, json!({"pace": {"rate_per_s": 400.0, "arrival": "poisson"}})));
}

#[test]
fn ctrl_c_keeps_the_partial_cell_in_virtual_time() {
    let target = sim(SimConfig { latency_ns: 100_000, ..SimConfig::default() });
    let write = json!({"write_fraction": 1.0, "create": "if_missing"});
    let ran = interrupted(&dyn_target(&target), write);
    assert_partial(&ran);
    assert_eq!(len_of(&*target, "naslab-r1"), None, "the folder is gone");
}

#[test]
fn ctrl_c_before_the_first_cell_measures_nothing() {
    let target: Arc<dyn Target> = Arc::new(NullTarget::new());
    let mut events = Collector { interrupt_after: Some(0), ..Collector::default() };
    let end = go_with(&spec(vec![cell(json!({}))], json!({"folder": "naslab-r1"})), &target, &mut events);
    assert_eq!((end.status, events.begun.len()), ("interrupted", 0));
}

#[test]
fn ctrl_c_ends_waiting_for_a_set_up_that_hangs() {
    let target = Arc::new(Fake::new(Fault::HangIn(Call::Open)));
    // Thirty timeouts would be half an hour.
    let run = json!({"timeout_ns": 60 * SECOND / 30, "folder": "naslab-r1"});
    let ran = within_a_minute(spec_json(vec![cell(json!({}))], run), target, Some(10)).unwrap();
    assert_eq!(ran.end.status, "failed");
    assert_eq!(ran.end.error.as_ref().map(|e| e.kind), Some("timeout"));
}

#[test]
fn progress_counts_up_and_is_never_above_the_result() {
    let target: Arc<dyn Target> = Arc::new(NullTarget::new());
    let spec =
        spec(vec![cell(json!({"duration_ns": 300 * MS}))], json!({"folder": "naslab-r1", "progress_interval_ns": 1}));
    let mut events = Collector::default();
    go_with(&spec, &target, &mut events);
    let r = &events.cells[0].result;
    assert!(!events.progress.is_empty());
    assert!(events.progress.windows(2).all(|w| w[0].ops <= w[1].ops && w[0].bytes <= w[1].bytes));
    let last = events.progress.last().unwrap();
    assert!(last.ops <= r.ops && last.bytes <= r.bytes);
}
