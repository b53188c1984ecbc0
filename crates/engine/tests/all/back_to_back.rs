//! Short cells that follow each other at once bring what they bring one by one.

use crate::common::fake::{Fake, Fault};
use crate::common::*;
use naslab_core::{ErrorKind, Target};
use naslab_engine::Run;
use naslab_target_local::{LocalOptions, LocalTarget};
use serde_json::{json, Value};
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Operations of one cell.
const OPS: u64 = 16;

fn local(root: &Path) -> Arc<dyn Target> {
    Arc::new(LocalTarget::new(LocalOptions::new(root.to_str().unwrap())).unwrap())
}

/// A write, which is measured alone since nothing is known of the target, and what follows it.
fn plan(rest: Vec<Value>) -> Vec<Value> {
    [vec![write_cell(json!({}))], rest].concat()
}

fn passes() -> Vec<Value> {
    let random = json!({"pattern": "permutation"});
    plan(vec![write_cell(json!({})), cell(json!({"prime": true})), cell(random.clone()), write_cell(random)])
}

/// What a stage told: status, cells in order, and of each outcome id, status, operations and bytes.
type Told = (&'static str, Option<String>, Vec<u64>, Vec<(u64, &'static str, u64, u64)>);

fn told(target: &Arc<dyn Target>, at_once: bool, cells: Vec<Value>, over: Value, events: &mut Collector<'_>) -> Told {
    let mut spec = spec(cells, over);
    spec.back_to_back = at_once;
    let mut run = Run::open(&spec, target, OWNER).unwrap();
    let end = run.stage(&spec.cells, events).unwrap();
    run.finish(&mut Collector::default());
    let outcomes = events.cells.iter().map(|c| &c.result);
    let outcomes = outcomes.map(|r| (r.id, r.status, r.ops, r.bytes)).collect();
    (end.status, end.error.map(|e| format!("{} {:?}", e.kind, e.facts)), events.begun.clone(), outcomes)
}

/// What the cells told, and the file after them.
fn on_disk(at_once: bool, cells: Vec<Value>, enough_at: Option<u64>) -> (Told, Vec<u8>) {
    let root = tempfile::tempdir().unwrap();
    let mut events = Collector { enough_at, ..Collector::default() };
    let told = told(&local(root.path()), at_once, cells, json!({}), &mut events);
    (told, fs::read(root.path().join("naslab.a")).unwrap())
}

#[test]
fn they_tell_the_same_and_write_the_same() {
    for seed in 0..3 {
        let mut cells = passes();
        cells.iter_mut().for_each(|cell| cell["seed"] = json!(seed));
        assert_eq!(on_disk(true, cells.clone(), None), on_disk(false, cells, None));
    }
}

#[test]
fn larger_records_are_written_from_the_same_memory_again() {
    let large = json!({"record_bytes": 131_072, "file_bytes": 1_048_576});
    let cells = || (0..4).map(|_| write_cell(large.clone())).collect();
    assert_eq!(on_disk(true, cells(), None), on_disk(false, cells(), None));
}

#[test]
fn a_set_up_that_fails_ends_the_run_behind_the_cells_before_it() {
    let missing = || plan(vec![cell(json!({})), cell(json!({"files": ["naslab.none"]})), cell(json!({}))]);
    let (found, _) = on_disk(true, missing(), None);
    assert_eq!(found, on_disk(false, missing(), None).0);
    assert_eq!((found.0, found.3.len()), ("failed", 2));
}

#[test]
fn enough_is_enough_among_them() {
    let (found, _) = on_disk(true, passes(), Some(3));
    assert_eq!(found.0, "complete");
    assert_eq!((found.2, found.3.len()), (vec![0, 1, 2], 3));
}

/// Number of an operation in the fourth cell.
const FOURTH: u64 = 3 * OPS + 2;

fn on_fake(at_once: bool, fault: Fault, timeout_ns: u64) -> Told {
    on_this_fake(&Arc::new(Fake::new(fault)), at_once, timeout_ns, Collector::default())
}

fn on_this_fake(target: &Arc<Fake>, at_once: bool, timeout_ns: u64, mut events: Collector<'_>) -> Told {
    let cells = plan((0..6).map(|_| cell(json!({}))).collect());
    told(&dyn_target(target), at_once, cells, json!({"timeout_ns": timeout_ns}), &mut events)
}

/// Operations that were submitted before the second cell was told of.
fn submitted_before_the_second(at_once: bool) -> u64 {
    let target = Arc::new(Fake::new(Fault::None));
    let seen = RefCell::new(Vec::new());
    let look = |_| seen.borrow_mut().push(target.submitted.load(Ordering::SeqCst));
    on_this_fake(&target, at_once, 30 * SECOND, Collector { before: Some(Box::new(look)), ..Collector::default() });
    seen.into_inner()[1]
}

#[test]
fn nothing_is_told_before_the_last_of_them_has_ended() {
    assert_eq!(submitted_before_the_second(false), OPS);
    // Where a busy machine held up the first cell, none follow it at once.
    assert!((0..1000).any(|_| submitted_before_the_second(true) == 7 * OPS));
}

#[test]
fn a_slow_cell_among_them_loses_and_repeats_none() {
    let found = on_fake(true, Fault::SlowOp(FOURTH), 30 * SECOND);
    assert_eq!(found, on_fake(false, Fault::None, 30 * SECOND));
    assert_eq!(found.3.len(), 7);
}

#[test]
fn a_session_that_fails_among_them_ends_its_cell_alone() {
    let found = on_fake(true, Fault::FailSubmit(FOURTH), 30 * SECOND);
    assert_eq!(found, on_fake(false, Fault::FailSubmit(FOURTH), 30 * SECOND));
    let statuses: Vec<_> = found.3.iter().map(|(_, status, ..)| *status).collect();
    assert_eq!(statuses[..4], ["complete", "complete", "complete", "failed"]);
}

#[test]
fn an_operation_that_never_ends_keeps_the_cells_before_it() {
    let found = on_fake(true, Fault::LoseOp(FOURTH), 50 * MS);
    assert_eq!(found, on_fake(false, Fault::LoseOp(FOURTH), 50 * MS));
    assert_eq!(found.0, "failed");
    assert!(found.1.as_deref().is_some_and(|error| error.contains(ErrorKind::Timeout.name())), "{:?}", found.1);
}

#[test]
fn ctrl_c_among_them_keeps_the_cells_before_it() {
    let target = Arc::new(Fake::new(Fault::LoseOp(FOURTH)));
    let is_lost = || target.submitted.load(Ordering::SeqCst) > FOURTH;
    let events = Collector { interrupt_if: Some(Box::new(is_lost)), ..Collector::default() };
    let found = on_this_fake(&target, true, 30 * SECOND, events);
    assert_eq!(found.0, "interrupted");
    let statuses: Vec<_> = found.3.iter().map(|(id, status, ..)| (*id, *status)).collect();
    assert_eq!(statuses, [(0, "complete"), (1, "complete"), (2, "complete"), (3, "partial")]);
}
