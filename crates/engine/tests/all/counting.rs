//! Every operation and every byte is counted exactly once, whatever the mix.

use crate::common::*;
use naslab_target_null::NullTarget;
use naslab_target_sim::{SimConfig, SimStats};
use proptest::prelude::*;
use serde_json::{json, Value};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What ends the cell.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Pass,
    Ops(u64),
    Bytes(u64),
    Duration(u64),
}

#[derive(Clone, Debug)]
struct Shape {
    workers: u32,
    depth: u32,
    stop: Stop,
    pattern: &'static str,
    write_fraction: f64,
    read_workers: Option<u32>,
    shared: bool,
    records: u64,
    record_bytes: u64,
    seed: u64,
}

const PATTERNS: [&str; 6] = ["sequential", "permutation", "random", "backward", "stride", "same_record"];

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

prop_compose! {
    fn shapes(longest_ns: u64)(
        workers in 1u32..=5, depth in 1u32..=16,
        stop in prop_oneof![
            Just(Stop::Pass), (1u64..400).prop_map(Stop::Ops), (1u64..2_000_000).prop_map(Stop::Bytes),
            (1..longest_ns).prop_map(Stop::Duration),
        ],
        pattern in proptest::sample::select(PATTERNS.to_vec()),
        write_fraction in proptest::sample::select(vec![0.0, 0.3, 1.0]),
        read_workers in proptest::option::weighted(0.2, 0u32..=5),
        shared: bool, records in 1u64..150,
        record_bytes in proptest::sample::select(vec![512u64, 4096, 10_000]), seed: u64,
    ) -> Shape {
        Shape { workers, depth, stop, pattern, write_fraction, read_workers, shared, records, record_bytes, seed }
    }
}

impl Shape {
    fn files(&self) -> Vec<String> {
        let count = if self.shared { 1 } else { self.workers };
        (0..count).map(|i| format!("f{i}")).collect()
    }

    fn cell(&self) -> Value {
        let mut cell = cell(json!({
            "file_bytes": self.records * self.record_bytes, "record_bytes": self.record_bytes, "files": self.files(),
            "workers": self.workers, "queue_depth": self.depth, "pattern": self.pattern,
            "write_fraction": self.write_fraction, "read_workers": self.read_workers, "seed": self.seed,
            "interval_ns": 100_000, "record_ops": true, "stride_records": 5,
        }));
        match self.stop {
            Stop::Pass => {}
            Stop::Ops(n) => cell["stop_ops"] = json!(n),
            Stop::Bytes(n) => cell["stop_bytes"] = json!(n),
            Stop::Duration(ns) => cell["duration_ns"] = json!(ns),
        }
        cell
    }

    fn shares(&self) -> bool {
        self.shared && self.workers > 1
    }

    /// Operations and the reason to stop, where time does not decide.
    fn expected(&self) -> (Option<u64>, &'static str) {
        match self.stop {
            Stop::Pass if self.shares() => (Some(self.records), "done"),
            Stop::Pass => (Some(self.records * self.workers as u64), "done"),
            Stop::Ops(n) => (Some(n), "ops"),
            Stop::Bytes(n) => (Some(n / self.record_bytes), "bytes"),
            Stop::Duration(_) => (None, "duration"),
        }
    }
}

/// What holds for a cell on any target.
fn check(shape: &Shape, outcome: &naslab_engine::CellOutcome) {
    let r = &outcome.result;
    assert_eq!((r.status, r.errors, &r.first_error), ("complete", 0, &None));
    assert_sums(outcome);
    assert_eq!(r.bytes, r.ops * shape.record_bytes);
    let (ops, reason) = shape.expected();
    assert_eq!(r.stop_reason, reason);
    if let Some(ops) = ops {
        assert_eq!(r.ops, ops);
    }
    assert_eq!(r.workers.len(), shape.workers as usize);
    check_log(shape, outcome);
}

/// Every operation lies inside its file, and an ordered pass visits each record once.
fn check_log(shape: &Shape, outcome: &naslab_engine::CellOutcome) {
    let log = op_log(outcome);
    assert_eq!(log.len() as u64, outcome.result.ops);
    let mut visits: BTreeMap<(i64, i64), u64> = BTreeMap::new();
    for [offset, _, len, worker] in log {
        assert_eq!(len as u64, shape.record_bytes);
        assert_eq!(offset as u64 % shape.record_bytes, 0);
        assert!((offset as u64) < shape.records * shape.record_bytes, "{offset} lies beyond the file");
        let file = if shape.shares() { 0 } else { worker };
        *visits.entry((file, offset)).or_default() += 1;
    }
    let ordered = matches!(shape.pattern, "sequential" | "permutation" | "backward");
    if ordered && matches!(shape.stop, Stop::Pass) {
        assert!(visits.values().all(|n| *n == 1), "a record was visited twice");
    }
}

fn on_the_simulator(shape: &Shape, config: SimConfig) {
    let files = shape.files().iter().map(|f| planted(f, shape.records * shape.record_bytes)).collect();
    let target = sim(SimConfig { files, ..config });
    let seen: RefCell<Vec<SimStats>> = RefCell::default();
    let mut events = Collector {
        before: Some(Box::new(|_| seen.borrow_mut().push(target.stats()))),
        after: Some(Box::new(|_| seen.borrow_mut().push(target.stats()))),
        ..Collector::default()
    };
    let end = go_with(&spec(vec![shape.cell()], json!({})), &dyn_target(&target), &mut events);
    assert_eq!((end.status, &end.error), ("complete", &None));
    let outcome = events.cells.remove(0);
    drop(events);
    check(shape, &outcome);
    let r = &outcome.result;
    let [before, after] = seen.into_inner()[..] else { panic!("two looks at the server") };
    let of = |kind: &str| r.kinds.get(kind).map_or((0, 0), |k| (k.ops, k.bytes));
    assert_eq!(of("read"), (after.reads - before.reads, after.downlink_bytes - before.downlink_bytes));
    assert_eq!(of("write"), (after.writes - before.writes, after.uplink_bytes - before.uplink_bytes));
    let wire = r.wire.as_ref().expect("the simulator counts");
    assert_eq!((wire.sent_bytes, wire.received_bytes), (of("write").1, of("read").1));
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn every_operation_is_counted_once_on_the_simulator(
        shape in shapes(5_000_000),
        latency_ns in proptest::sample::select(vec![0u64, 20_000, 150_000]),
        op_overhead_ns in proptest::sample::select(vec![0u64, 1000]),
        link_bytes_per_s in proptest::sample::select(vec![0u64, 500_000_000]),
        jitter in proptest::sample::select(vec![0.0, 0.5]),
    ) {
        // Without any cost a virtual second would hold 10^9 operations.
        let op_overhead_ns = if latency_ns == 0 { op_overhead_ns.max(1000) } else { op_overhead_ns };
        let jitter = if latency_ns == 0 { 0.0 } else { jitter };
        let config = SimConfig { latency_ns, op_overhead_ns, link_bytes_per_s, jitter, ..SimConfig::default() };
        on_the_simulator(&shape, config);
    }

    #[test]
    fn faults_lose_no_operation(
        shape in shapes(5_000_000), probability in 0.0f64..0.2, seed: u64,
        kind in proptest::sample::select(vec!["error", "short", "stall"]),
    ) {
        let fault = json!({"probability": probability, "kind": kind, "duration_ns": if kind == "stall" { 30_000 } else { 0 }});
        let files: Vec<Value> = shape.files().iter()
            .map(|f| json!({"path": f, "len_bytes": shape.records * shape.record_bytes})).collect();
        let config = json!({"seed": seed >> 1, "latency_ns": 20_000, "faults": [fault], "files": files});
        let target = sim(serde_json::from_value(config).unwrap());
        let mut cell = shape.cell();
        cell["flush"] = json!("none");
        // Planted files of another hand: checking them reads, and may meet a fault.
        let spec = spec(vec![cell], json!({}));
        let mut events = Collector::default();
        if let Ok(end) = naslab_engine::run(&spec, &dyn_target(&target), OWNER, &mut events) {
            if let Some(outcome) = events.cells.first() {
                let r = &outcome.result;
                assert_sums(outcome);
                if let (Some(ops), _) = shape.expected() {
                    prop_assert_eq!(r.ops + r.errors, ops);
                }
                prop_assert_eq!(end.status == "complete", r.errors == 0);
                prop_assert_eq!(r.status == "complete", r.errors == 0);
            } else {
                prop_assert!(end.error.is_some(), "no cell and no error");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn every_operation_is_counted_once_on_threads(shape in shapes(3_000_000)) {
        let target: Arc<dyn naslab_core::Target> = Arc::new(NullTarget::new());
        let mut cell = shape.cell();
        if matches!(shape.stop, Stop::Duration(_)) {
            // The null target makes more operations in no time than the log has room for.
            cell["record_ops"] = json!(false);
        }
        let ran = go(&spec(vec![cell], json!({})), &target);
        prop_assert_eq!(ran.end.status, "complete");
        match shape.stop {
            Stop::Duration(_) => assert_sums(&ran.cells[0]),
            _ => check(&shape, &ran.cells[0]),
        }
    }
}

#[test]
fn workers_without_a_part_of_a_shared_file_stay_inside_it() {
    for (stop, ops) in [(Stop::Pass, 2), (Stop::Ops(50), 50), (Stop::Duration(1_000_000), 500)] {
        let shape = Shape {
            workers: 5,
            depth: 1,
            stop,
            pattern: "sequential",
            write_fraction: 1.0,
            read_workers: None,
            shared: true,
            records: 2,
            record_bytes: 4096,
            seed: 1,
        };
        let config = SimConfig { op_overhead_ns: 0, latency_ns: 10_000, ..SimConfig::default() };
        on_the_simulator(&shape, config.clone());
        let ran = sim_run(SimConfig { files: vec![planted("f0", 8192)], ..config }, vec![shape.cell()]);
        assert_eq!(ran.cell(0).ops, ops, "{stop:?}");
    }
}
