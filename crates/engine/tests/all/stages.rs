//! Stages of one run: what lives over them, how one ends early, and that clean-up comes in every case.

use crate::common::fake::{Call, Fake, Fault};
use crate::common::*;
use naslab_core::{Clock, ErrorKind, Target};
use naslab_engine::{CellSpec, Run, MARKER_NAME};
use naslab_target_local::{LocalOptions, LocalTarget};
use naslab_target_sim::{BucketConfig, FaultKind, FaultOp, SimConfig};
use serde_json::{json, Value};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn local(root: &Path) -> Arc<dyn Target> {
    Arc::new(LocalTarget::new(LocalOptions::new(root.to_str().unwrap())).unwrap())
}

fn cells(cells: Vec<Value>) -> Vec<CellSpec> {
    spec(cells, json!({})).cells
}

fn open(target: &Arc<dyn Target>, over: Value) -> Run {
    Run::open(&spec(vec![], over), target, OWNER).unwrap()
}

fn in_folder() -> Value {
    json!({"folder": "naslab-r1", "cleanup_files": ["naslab.a"]})
}

/// One stage; it must start.
fn stage<'a>(run: &mut Run, cells_of: Vec<Value>) -> (&'static str, Collector<'a>) {
    let mut events = Collector::default();
    let end = run.stage(&cells(cells_of), &mut events).unwrap();
    (end.status, events)
}

#[test]
fn files_and_clock_live_over_the_stages_and_end_with_the_run() {
    let target = sim(SimConfig { latency_ns: 1_000_000, store_data: true, ..SimConfig::default() });
    let mut run = open(&dyn_target(&target), in_folder());
    assert_eq!(len_of(&*target, "naslab-r1"), None, "nothing is made before the first stage");
    let (status, first) = stage(&mut run, vec![write_cell(json!({"verify": true}))]);
    assert_eq!(status, "complete");
    assert_eq!(len_of(&*target, "naslab-r1/naslab.a"), Some(65536));
    // Read without a write of its own, and every block is the one of the stage before.
    let (status, second) = stage(&mut run, vec![cell(json!({"verify": true, "id": 1}))]);
    assert_eq!(status, "complete");
    let (first, second) = (&first.cells[0].result, &second.cells[0].result);
    let verified = second.verified.as_ref().unwrap();
    assert_eq!((verified.blocks, verified.bad), (16, 0));
    assert!(second.start_ns >= first.end_ns, "{} is before {}", second.start_ns, first.end_ns);
    assert_eq!(run.finish(&mut Collector::default()), Vec::new());
    assert_eq!(len_of(&*target, "naslab-r1"), None);
    let refused = run.stage(&cells(vec![write_cell(json!({}))]), &mut Collector::default()).unwrap_err();
    assert_eq!((refused.kind, len_of(&*target, "naslab-r1")), (ErrorKind::Invalid, None));
}

#[test]
fn a_cell_may_ask_for_new_sessions() {
    for clock in [Clock::real(), Clock::new_virtual()] {
        let fake = Arc::new(Fake { clock, ..Fake::new(Fault::None) });
        let two = |fresh: bool| write_cell(json!({"files": ["naslab.a"], "workers": 2, "fresh_sessions": fresh}));
        let mut run = open(&dyn_target(&fake), json!({}));
        let so_far = [two(false), two(false), two(true), two(false)].map(|cell| {
            stage(&mut run, vec![cell]);
            (fake.connected(), fake.open_sessions())
        });
        // The run's own session and two of workers; the third cell opens two new ones and ends those before.
        assert_eq!(so_far, [(3, 3), (3, 3), (5, 3), (5, 3)]);
    }
}

#[test]
fn a_simulated_bucket_stays_empty_from_stage_to_stage() {
    let bucket = BucketConfig {
        burst_bytes_per_s: 100 << 20,
        base_bytes_per_s: 10 << 20,
        size_bytes: 30 << 20,
        initial_fill: 1.0,
        ..BucketConfig::default()
    };
    let target =
        sim(SimConfig { buckets: vec![bucket], files: vec![planted("naslab.a", 64 << 20)], ..SimConfig::default() });
    let mut run = open(&dyn_target(&target), json!({}));
    let read = || cell(json!({"file_bytes": 64 << 20, "record_bytes": 1 << 20, "flush": "none"}));
    let took = |events: &Collector<'_>| events.cells[0].result.duration_ns as f64 / SECOND as f64;
    // 33.3 MiB until the tokens are gone, at 100; the rest at 10: 0.33 s and 3.07 s. Then all at 10.
    let (first, second) = (took(&stage(&mut run, vec![read()]).1), took(&stage(&mut run, vec![read()]).1));
    assert!((first - 3.4).abs() < 0.2, "{first}");
    assert!((second - 6.4).abs() < 0.2, "{second}");
}

#[test]
fn a_local_folder_is_marked_first_kept_between_stages_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("naslab-r1");
    let mut run = open(&local(root.path()), in_folder());
    let listed = |what: &str| {
        let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [MARKER_NAME, "naslab.a"], "{what}");
    };
    assert_eq!(stage(&mut run, vec![write_cell(json!({}))]).0, "complete");
    listed("after the first stage");
    assert_eq!(stage(&mut run, vec![cell(json!({}))]).0, "complete");
    listed("after the second");
    assert_eq!(run.finish(&mut Collector::default()), Vec::new());
    assert!(!folder.exists());
    assert_eq!(run.finish(&mut Collector::default()), Vec::new(), "a second time there is nothing to do");
}

#[test]
fn a_run_that_is_dropped_cleans_up() {
    let root = tempfile::tempdir().unwrap();
    let mut run = open(&local(root.path()), in_folder());
    stage(&mut run, vec![write_cell(json!({}))]);
    assert!(root.path().join("naslab-r1").exists());
    drop(run);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_run_that_is_dropped_does_not_wait_for_a_target_that_hangs() {
    let target = Arc::new(Fake::new(Fault::HangIn(Call::Remove)));
    let mut run = open(&dyn_target(&target), json!({"timeout_ns": 50 * MS, "cleanup_files": ["naslab.a"]}));
    stage(&mut run, vec![write_cell(json!({}))]);
    drop(run);
}

#[test]
fn enough_ends_the_stage_as_complete_and_not_the_run() {
    let target = sim(latency_only(1000));
    let mut run = open(&dyn_target(&target), json!({}));
    let three = cells((0..3).map(|_| cell(json!({}))).collect());
    let mut events = Collector { enough_at: Some(1), ..Collector::default() };
    assert_eq!(run.stage(&three, &mut events).unwrap().status, "complete");
    assert_eq!((events.cells.len(), events.begun), (1, vec![0]));
    let (status, after) = stage(&mut run, vec![cell(json!({}))]);
    assert_eq!((status, after.cells.len()), ("complete", 1));
}

#[test]
fn a_failed_cell_leaves_the_run_open_and_a_failed_set_up_ends_it() {
    let target = sim(SimConfig { faults: vec![fault(FaultOp::Write, 3, FaultKind::Error)], ..SimConfig::default() });
    let mut run = open(&dyn_target(&target), in_folder());
    assert_eq!(stage(&mut run, vec![write_cell(json!({}))]).0, "failed");
    assert_eq!(stage(&mut run, vec![cell(json!({}))]).0, "complete");
    let (status, missing) = stage(&mut run, vec![cell(json!({"files": ["naslab.none"]})), cell(json!({}))]);
    assert_eq!((status, missing.cells.len()), ("failed", 0));
    assert!(run.stage(&cells(vec![cell(json!({}))]), &mut Collector::default()).is_err());
    assert_eq!(run.finish(&mut Collector::default()), Vec::new());
    assert_eq!(len_of(&*target, "naslab-r1"), None);
}

#[test]
fn an_interruption_ends_the_run() {
    let target = sim(latency_only(1000));
    let mut run = open(&dyn_target(&target), in_folder());
    let mut events = Collector { interrupt_after: Some(0), ..Collector::default() };
    let end = run.stage(&cells(vec![write_cell(json!({}))]), &mut events).unwrap();
    assert_eq!((end.status, events.cells.len()), ("interrupted", 0));
    assert!(run.stage(&cells(vec![write_cell(json!({}))]), &mut Collector::default()).is_err());
    run.finish(&mut Collector::default());
    assert_eq!(len_of(&*target, "naslab-r1"), None);
}

#[test]
fn a_refused_stage_touches_nothing_and_the_next_may_be_better() {
    let target = sim(SimConfig::default());
    let mut run = open(&dyn_target(&target), in_folder());
    let bad = cells(vec![write_cell(json!({})), write_cell(json!({"record_bytes": 0}))]);
    assert!(run.stage(&bad, &mut Collector::default()).is_err());
    assert_eq!(len_of(&*target, "naslab-r1"), None);
    assert_eq!(stage(&mut run, vec![write_cell(json!({}))]).0, "complete");
}

#[test]
fn later_stages_do_not_run_over_files_of_others() {
    let root = tempfile::tempdir().unwrap();
    let theirs = root.path().join("naslab.b");
    fs::write(&theirs, vec![b'x'; 65536]).unwrap();
    let over = json!({"existing": "read", "cleanup_files": ["naslab.a", "naslab.b", "naslab.c"]});
    let mut run = open(&local(root.path()), over);
    // What IOzone's data looks like bears no mark: the run itself must know that the file is its own.
    let own = json!({"data": {"kind": "iozone", "compress_ratio": 1.0, "dedupe_ratio": 1.0, "fill": 0}});
    assert_eq!(stage(&mut run, vec![write_cell(own.clone())]).0, "complete");
    assert_eq!(stage(&mut run, vec![write_cell(own)]).0, "complete");
    assert_eq!(stage(&mut run, vec![cell(json!({"files": ["naslab.b"]}))]).0, "complete");
    for later in [json!({"files": ["naslab.b"]}), json!({"files": ["naslab.d"]})] {
        fs::write(root.path().join("naslab.d"), "theirs, too, and made meanwhile").unwrap();
        let refused = run.stage(&cells(vec![write_cell(later)]), &mut Collector::default()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Exists);
    }
    assert_eq!(run.finish(&mut Collector::default()), Vec::new());
    assert_eq!(fs::read(&theirs).unwrap(), vec![b'x'; 65536]);
    assert!(!root.path().join("naslab.a").exists());
    assert!(root.path().join("naslab.d").exists());
}
