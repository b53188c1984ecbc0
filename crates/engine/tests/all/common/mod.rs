//! Specifications with the defaults of `spec.py`, a collector of events, and shorthands.
#![allow(dead_code)] // each test file uses its own part

pub mod fake;

use naslab_core::{Completion, IoBuf, Op, OpKind, OpenOptions, Result, Session, Target};
use naslab_engine::{run, CellOutcome, CellResult, Events, Progress, RunEnd, RunSpec};
use naslab_target_sim::{FaultConfig, FaultKind, FaultOp, FileConfig, SimConfig, SimTarget};
use serde_json::{json, Value};
use std::sync::Arc;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;
/// Owner mark as the front end writes it.
pub const OWNER: &str = r#"{"naslab_run": "test"}"#;

fn merge(mut base: Value, over: Value) -> Value {
    for (name, value) in over.as_object().expect("an object of fields") {
        assert!(base.get(name).is_some(), "no such field: {name}");
        base[name] = value.clone();
    }
    base
}

/// A cell of 16 records of 4 KiB in the file `naslab.a`, with these fields changed.
pub fn cell(over: Value) -> Value {
    let mut base = json!({
        "op": "read", "file_bytes": 65536, "record_bytes": 4096, "files": ["naslab.a"], "id": 0, "block": 0,
        "workers": 1, "queue_depth": 1, "pattern": "sequential", "stride_records": 17, "write_fraction": 0.0,
        "read_workers": null, "seed": 0, "create": "never", "remove_before": false, "truncate": false,
        "direct": false, "sync": "none", "access": "positioned", "lock": "none", "cold": false, "prime": false,
        "stop_bytes": null, "stop_ops": null, "duration_ns": null, "warmup_ns": 0, "stonewall": false,
        "finish_untimed": false, "flush": "all", "timed_flush": false, "timed_close": false, "think_ns": 0,
        "think_counted": false, "pace": null,
        "data": {"kind": "random", "compress_ratio": 1.0, "dedupe_ratio": 1.0, "fill": 0},
        "verify": false, "interval_ns": 1_000_000_000, "record_ops": false, "durability": "end",
        "cache_state": "unknown", "workload": null,
    });
    base["walk"] = Value::Null;
    base["fresh_sessions"] = json!(false);
    for name in ["burst_ops", "burst_gap_ns", "cooldown_ns"] {
        base[name] = json!(0);
    }
    merge(base, over)
}

/// As `cell`, but writing, and making the file.
pub fn write_cell(over: Value) -> Value {
    merge(cell(json!({"op": "write", "write_fraction": 1.0, "create": "if_missing"})), over)
}

pub fn spec_json(cells: Vec<Value>, over: Value) -> Value {
    let base = json!({
        "target": {}, "cells": [], "run_id": "r1", "command": "run", "folder": null, "cleanup_files": [],
        "existing": "overwrite", "seed": 0, "timeout_ns": 30_000_000_000u64, "goes_on": false, "progress_interval_ns": 200_000_000,
        "back_to_back": false, "schema": 1,
    });
    let mut spec = merge(base, over);
    for (id, mut cell) in cells.into_iter().enumerate() {
        cell["id"] = json!(id);
        spec["cells"].as_array_mut().expect("a list").push(cell);
    }
    spec
}

pub fn spec(cells: Vec<Value>, over: Value) -> RunSpec {
    serde_json::from_value(spec_json(cells, over)).expect("a specification the engine reads")
}

type Hook<'a> = Box<dyn FnMut(u64) + 'a>;

/// Keeps what a run reports. `before` and `after` are called around each cell.
#[derive(Default)]
pub struct Collector<'a> {
    pub cells: Vec<CellOutcome>,
    pub begun: Vec<u64>,
    pub progress: Vec<Progress>,
    pub asked: u64,
    /// From this many questions on, the user wants to stop.
    pub interrupt_after: Option<u64>,
    /// The user wants to stop once there is progress to be seen.
    pub interrupt_on_progress: bool,
    /// The user wants to stop once this says so.
    pub interrupt_if: Option<Box<dyn FnMut() -> bool + 'a>>,
    /// Before this cell enough was measured.
    pub enough_at: Option<u64>,
    pub before: Option<Hook<'a>>,
    pub after: Option<Hook<'a>>,
}

impl Events for Collector<'_> {
    fn before_cell(&mut self, id: u64) -> Result<bool> {
        if self.enough_at == Some(id) {
            return Ok(false);
        }
        self.begun.push(id);
        self.before.iter_mut().for_each(|hook| hook(id));
        Ok(true)
    }
    fn progress(&mut self, progress: &Progress) {
        self.progress.push(*progress);
    }
    fn cell(&mut self, outcome: CellOutcome) -> Result<()> {
        self.after.iter_mut().for_each(|hook| hook(outcome.result.id));
        self.cells.push(outcome);
        Ok(())
    }
    fn interrupted(&mut self) -> bool {
        self.asked += 1;
        let seen = self.progress.iter().any(|p| p.ops > 0);
        let wanted = self.interrupt_if.as_mut().is_some_and(|wanted| wanted());
        self.interrupt_after.is_some_and(|n| self.asked > n) || self.interrupt_on_progress && seen || wanted
    }
}

/// A finished run.
pub struct Ran {
    pub end: RunEnd,
    pub cells: Vec<CellOutcome>,
}

impl Ran {
    /// The result of the cell with this place in the plan.
    pub fn cell(&self, at: usize) -> &CellResult {
        &self.cells[at].result
    }
}

pub fn dyn_target<T: Target + 'static>(target: &Arc<T>) -> Arc<dyn Target> {
    target.clone()
}

pub fn go_with(spec: &RunSpec, target: &Arc<dyn Target>, events: &mut Collector<'_>) -> RunEnd {
    run(spec, target, OWNER, events).expect("the run starts")
}

pub fn go(spec: &RunSpec, target: &Arc<dyn Target>) -> Ran {
    let mut events = Collector::default();
    let end = go_with(spec, target, &mut events);
    Ran { end, cells: events.cells }
}

/// Runs cells on a new simulated server.
pub fn sim_run(config: SimConfig, cells: Vec<Value>) -> Ran {
    let target = sim(config);
    go(&spec(cells, json!({})), &dyn_target(&target))
}

pub fn sim(config: SimConfig) -> Arc<SimTarget> {
    Arc::new(SimTarget::new(config).expect("a valid configuration"))
}

/// A server without any cost but the round trip, on which `naslab.a` is 1 MiB long.
pub fn latency_only(latency_ns: u64) -> SimConfig {
    SimConfig { op_overhead_ns: 0, latency_ns, files: vec![planted("naslab.a", 1 << 20)], ..SimConfig::default() }
}

pub fn planted(path: &str, len_bytes: u64) -> FileConfig {
    FileConfig { path: path.into(), len_bytes }
}

/// A fault at one operation.
pub fn fault(op: FaultOp, at_op: u64, kind: FaultKind) -> FaultConfig {
    FaultConfig { op, at_op: Some(at_op), kind, ..FaultConfig::default() }
}

/// Rows of the interval series.
pub fn series(outcome: &CellOutcome) -> Vec<[i64; 7]> {
    let blob = &outcome.blobs[outcome.result.series.expect("a series")];
    rows(blob)
}

/// Rows of the operation log: offset, latency, length, worker.
pub fn op_log(outcome: &CellOutcome) -> Vec<[i64; 4]> {
    rows(&outcome.blobs[outcome.result.op_log.expect("an operation log")])
}

fn rows<const N: usize>(blob: &[u8]) -> Vec<[i64; N]> {
    let values: Vec<i64> = blob.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(values.len() % N, 0);
    values.chunks_exact(N).map(|row| row.try_into().unwrap()).collect()
}

/// How many recorded service times of a kind lie above this.
pub fn service_above(outcome: &CellOutcome, kind: &str, ns: u64) -> u64 {
    let blob = outcome.result.kinds[kind].histogram;
    above(&outcome.blobs[blob], ns)
}

/// How many recorded response times of a kind lie above this.
pub fn response_above(outcome: &CellOutcome, kind: &str, ns: u64) -> u64 {
    let blob = outcome.result.kinds[kind].response_histogram.expect("an open loop");
    above(&outcome.blobs[blob], ns)
}

/// How many values a histogram holds: zeros, too, which a coarse clock gives to what costs next to nothing.
fn recorded(blob: &[u8]) -> u64 {
    naslab_engine::decode_histogram(blob).expect("a histogram").len()
}

fn above(blob: &[u8], ns: u64) -> u64 {
    let h = naslab_engine::decode_histogram(blob).expect("a histogram");
    h.iter_recorded().filter(|v| v.value_iterated_to() > ns).map(|v| v.count_at_value()).sum()
}

/// Latency summary of a kind as JSON.
pub fn latency(result: &CellResult, kind: &str) -> Value {
    serde_json::to_value(result.kinds[kind].latency_ns).unwrap()
}

pub fn response(result: &CellResult, kind: &str) -> Value {
    serde_json::to_value(result.kinds[kind].response_ns.expect("an open loop")).unwrap()
}

/// Asserts that all ways of counting operations and bytes agree with one another.
pub fn assert_sums(outcome: &CellOutcome) {
    let r = &outcome.result;
    let total = |f: fn(&naslab_engine::CellResult) -> Vec<u64>| f(r).iter().sum::<u64>();
    assert_eq!(total(|r| r.kinds.values().map(|k| k.ops).collect()), r.ops, "kinds, ops");
    assert_eq!(total(|r| r.kinds.values().map(|k| k.bytes).collect()), r.bytes, "kinds, bytes");
    assert_eq!(total(|r| r.workers.iter().map(|w| w.ops).collect()), r.ops, "workers, ops");
    assert_eq!(total(|r| r.workers.iter().map(|w| w.bytes).collect()), r.bytes, "workers, bytes");
    assert_eq!(total(|r| r.errors_by_status.iter().map(|s| s.count).collect()), r.errors, "errors by status");
    for (name, kind) in &r.kinds {
        assert_eq!(recorded(&outcome.blobs[kind.histogram]), kind.ops, "histogram of {name}");
        if let Some(blob) = kind.response_histogram {
            assert_eq!(recorded(&outcome.blobs[blob]), kind.ops, "response histogram of {name}");
        }
    }
    let sum = |column: usize| series(outcome).iter().map(|row| row[column] as u64).sum::<u64>();
    assert_eq!(sum(0) + sum(2) + sum(4), r.ops, "series, ops");
    assert_eq!(sum(1) + sum(3), r.bytes, "series, bytes");
    assert_eq!(sum(5), r.errors, "series, errors");
}

/// One operation through a session of a simulated server.
pub fn one(target: &dyn Target, session: &mut dyn Session, op: &Op, data: &mut [u8]) -> Completion {
    let mut out = Vec::new();
    // SAFETY: `data` lives until the operation was reaped below.
    if let naslab_core::Submit::Completed(done) = unsafe { session.submit(op, IoBuf::from_slice(data), 0) }.unwrap() {
        return done;
    }
    while session.reap(1, None, &mut out).unwrap() == 0 {
        target.clock().advance_to(session.next_event_ns().unwrap());
    }
    out[0]
}

/// Reads or writes a block of a file behind the run's back.
pub fn poke(target: &dyn Target, path: &str, kind: OpKind, offset_bytes: u64, data: &mut [u8]) {
    let mut session = target.connect(99).unwrap();
    let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
    let file = session.open(path, &options).unwrap();
    let op = Op { kind, file, offset_bytes, len_bytes: data.len() as u32, due_ns: None };
    let done = one(target, &mut *session, &op, data);
    assert_eq!((done.bytes as usize, done.error), (data.len(), None));
    session.close(file).unwrap();
}

/// Length of a file, if it is there.
pub fn len_of(target: &dyn Target, path: &str) -> Option<u64> {
    target.connect(99).unwrap().stat(path).ok().map(|s| s.len_bytes)
}
