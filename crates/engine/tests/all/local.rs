//! End to end on this machine's file systems.

use crate::common::*;
use naslab_core::Target;
use naslab_target_local::{Engine, LocalOptions, LocalTarget};
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A target with this engine, or `None`, said aloud, where the system has none.
fn local(root: &Path, engine: Engine, depth: u32) -> Option<Arc<dyn Target>> {
    let options = LocalOptions { engine, depth, ..LocalOptions::new(root.to_str().unwrap()) };
    match LocalTarget::new(options) {
        Ok(target) => Some(Arc::new(target)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

const ENGINES: [(Engine, u32); 2] = [(Engine::Posix, 1), (Engine::Uring, 16)];

fn shape(depth: u32, workers: u32) -> Value {
    let files: Vec<String> = (0..workers).map(|w| format!("naslab.{w}")).collect();
    json!({"queue_depth": depth, "workers": workers, "files": files, "file_bytes": 1 << 20, "verify": true})
}

fn with(mut cell: Value, over: &Value) -> Value {
    for (name, value) in over.as_object().unwrap() {
        cell[name] = value.clone();
    }
    cell
}

#[test]
fn written_checked_and_counted_with_both_engines() {
    for (engine, depth) in ENGINES {
        let root = tempfile::tempdir().unwrap();
        let Some(target) = local(root.path(), engine, depth) else { continue };
        let shape = shape(depth, 2);
        let mut cells = vec![write_cell(json!({})), cell(json!({})), cell(json!({"pattern": "random"}))];
        cells = cells.into_iter().map(|c| with(c, &shape)).collect();
        let ran = go(&spec(cells, json!({"folder": "naslab-r1", "existing": "refuse"})), &target);
        assert_eq!((ran.end.status, ran.end.left_behind.len()), ("complete", 0), "{:?}", ran.end);
        for (at, outcome) in ran.cells.iter().enumerate() {
            let r = &outcome.result;
            assert_eq!((r.ops, r.bytes, r.errors), (512, 2 << 20, 0));
            assert_sums(outcome);
            if at > 0 {
                let v = r.verified.as_ref().unwrap();
                assert_eq!((v.blocks, v.bad), (512, 0), "{:?}", v.first_bad);
            }
            assert!(r.duration_ns > 0 && r.duration_ns + r.pause_ns <= r.window_ns + 1);
        }
        assert!(ran.cell(0).flush_ns.is_some());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}

#[test]
fn damage_on_the_disk_is_found_at_any_depth() {
    for (engine, depth) in ENGINES {
        let root = tempfile::tempdir().unwrap();
        let Some(target) = local(root.path(), engine, depth) else { continue };
        let shape = shape(depth, 1);
        let path = root.path().join("naslab.0");
        let hook = |id| {
            if id == 1 {
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all_at(&[1, 2, 3], 5 * 4096 + 1000).unwrap();
                file.write_all_at(&[0; 4096], 9 * 4096).unwrap();
            }
        };
        let mut events = Collector { before: Some(Box::new(hook)), ..Collector::default() };
        let cells = vec![with(write_cell(json!({})), &shape), with(cell(json!({})), &shape)];
        let end = go_with(&spec(cells, json!({"existing": "refuse"})), &target, &mut events);
        assert_eq!(end.status, "failed");
        let v = events.cells[1].result.verified.as_ref().unwrap();
        assert_eq!((v.blocks, v.bad), (254, 2));
        assert_eq!(v.first_bad.as_deref(), Some("at byte 20480: Damaged"));
    }
}

#[test]
fn each_record_is_what_and_where_it_should_be() {
    let root = tempfile::tempdir().unwrap();
    let target = local(root.path(), Engine::Posix, 1).unwrap();
    let data = json!({"kind": "fill", "compress_ratio": 1.0, "dedupe_ratio": 1.0, "fill": 90});
    let shared = write_cell(json!({"workers": 3, "file_bytes": 10 * 1000 + 7, "record_bytes": 1000, "data": data}));
    go(&spec(vec![shared], json!({"existing": "refuse"})), &target);
    assert_eq!(fs::read(root.path().join("naslab.a")).unwrap(), vec![90; 10_000], "whole records only");
}

#[test]
fn truncate_and_remove_before_start_afresh() {
    for over in [json!({"truncate": true}), json!({"remove_before": true})] {
        for workers in [1, 2] {
            let root = tempfile::tempdir().unwrap();
            let target = local(root.path(), Engine::Posix, 1).unwrap();
            let long = write_cell(json!({"file_bytes": 1 << 20}));
            let short = with(write_cell(json!({"workers": workers})), &over);
            let ran = go(&spec(vec![long, short], json!({"existing": "refuse"})), &target);
            assert_eq!(ran.end.status, "complete");
            assert_eq!(fs::metadata(root.path().join("naslab.a")).unwrap().len(), 65536, "{over}, {workers}");
        }
    }
}

#[test]
fn every_access_gives_the_same_file() {
    let root = tempfile::tempdir().unwrap();
    let target = local(root.path(), Engine::Posix, 1).unwrap();
    for access in ["positioned", "cursor", "stdio", "mmap"] {
        let over = json!({"access": access, "verify": true, "prime": true});
        let cells = vec![with(write_cell(json!({"remove_before": true})), &over), with(cell(json!({})), &over)];
        let ran = go(&spec(cells, json!({"existing": "refuse"})), &target);
        assert_eq!(ran.end.status, "complete", "{access}: {:?} {:?}", ran.end, ran.cells.last().map(|c| &c.result));
        assert_eq!(ran.cell(1).verified.as_ref().unwrap().blocks, 16, "{access}");
        assert_eq!((ran.cell(0).ops, ran.cell(1).ops), (16, 16), "{access}");
    }
}

/// A folder of this machine's memory, where there is one.
fn memory_folder() -> Option<PathBuf> {
    let path = PathBuf::from("/dev/shm");
    path.is_dir().then_some(path)
}

fn direct_cells(depth: u32) -> Vec<Value> {
    let over = json!({"direct": true, "queue_depth": depth, "file_bytes": 4 << 20, "record_bytes": 65536});
    vec![with(write_cell(json!({})), &over), with(cell(json!({})), &over)]
}

#[test]
fn direct_is_proven_on_a_disk() {
    for (engine, depth) in ENGINES {
        // The target folder of the build lies on a disk more often than the system's temporary one.
        let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(target) = local(root.path(), engine, depth) else { continue };
        if !target.caps().direct {
            println!("skipped: no unbuffered I/O in {}", root.path().display());
            continue;
        }
        let ran = go(&spec(direct_cells(depth), json!({"folder": "naslab-r1"})), &target);
        assert_eq!(ran.end.status, "complete", "{:?}", ran.end);
        for at in [0, 1] {
            let proof = ran.cell(at).direct_proof.as_ref().unwrap();
            if proof.cached_fraction.is_none() {
                println!("skipped: the system does not tell what it caches");
                continue;
            }
            assert!(proof.o_direct && proof.proven, "cell {at}: {proof:?}");
        }
    }
}

#[test]
fn direct_is_not_believed_in_memory() {
    let Some(folder) = memory_folder() else {
        println!("skipped: no file system in memory");
        return;
    };
    let root = tempfile::tempdir_in(folder).unwrap();
    let target = local(root.path(), Engine::Posix, 1).unwrap();
    if !target.caps().direct {
        println!("skipped: this tmpfs refuses O_DIRECT");
        return;
    }
    let ran = go(&spec(direct_cells(1), json!({"folder": "naslab-r1"})), &target);
    assert_eq!(ran.end.status, "complete", "{:?}", ran.end);
    for at in [0, 1] {
        let proof = ran.cell(at).direct_proof.as_ref().unwrap();
        assert!(!proof.proven, "cell {at}: {proof:?}");
        assert_eq!(proof.cached_fraction, Some(1.0));
    }
}

#[test]
fn a_cell_without_direct_has_no_proof() {
    let root = tempfile::tempdir().unwrap();
    let target = local(root.path(), Engine::Posix, 1).unwrap();
    let ran = go(&spec(vec![write_cell(json!({}))], json!({"folder": "naslab-r1"})), &target);
    assert!(ran.cell(0).direct_proof.is_none());
}

#[test]
fn cells_of_different_width_and_depth_follow_one_another() {
    let root = tempfile::tempdir().unwrap();
    let Some(target) = local(root.path(), Engine::Uring, 16) else { return };
    let cells =
        [(4, 1), (1, 16), (3, 7), (2, 2)].map(|(workers, depth)| with(write_cell(json!({})), &shape(depth, workers)));
    let ran = go(&spec(cells.to_vec(), json!({"folder": "naslab-r1"})), &target);
    assert_eq!(ran.end.status, "complete", "{:?}", ran.end);
    assert_eq!(ran.cells.iter().map(|c| c.result.ops).collect::<Vec<_>>(), [1024, 256, 768, 512]);
}

#[test]
fn sweeping_open_loop_and_warm_up_on_the_real_clock_keep_their_sums() {
    let root = tempfile::tempdir().unwrap();
    let target = local(root.path(), Engine::Posix, 1).unwrap();
    let over = json!({
        "pace": {"rate_per_s": 2000.0, "arrival": "poisson"}, "duration_ns": 200 * MS, "warmup_ns": 50 * MS,
        "interval_ns": 10 * MS, "workers": 2, "write_fraction": 0.5, "pattern": "random",
    });
    let cells = vec![write_cell(json!({})), with(write_cell(json!({})), &over)];
    let ran = go(&spec(cells, json!({"folder": "naslab-r1"})), &target);
    assert_eq!((ran.end.status, ran.cell(1).stop_reason), ("complete", "duration"));
    assert!(ran.cell(1).ops > 0);
    assert_sums(&ran.cells[1]);
}

#[test]
fn locks_let_every_worker_through() {
    for lock in ["file", "record"] {
        let root = tempfile::tempdir().unwrap();
        let target = local(root.path(), Engine::Posix, 1).unwrap();
        let own = json!({"workers": 2, "files": ["naslab.0", "naslab.1"], "lock": lock});
        let mut cells = vec![with(write_cell(json!({})), &own), with(cell(json!({})), &own)];
        cells.push(write_cell(json!({})));
        cells.push(cell(json!({"workers": 3, "lock": lock})));
        let ran = go(&spec(cells, json!({"folder": "naslab-r1"})), &target);
        assert_eq!(ran.end.status, "complete", "{lock}: {:?}", ran.end);
    }
}

#[test]
fn a_cool_down_goes_on_unrecorded() {
    let folder = tempfile::tempdir().unwrap();
    let target = local(folder.path(), Engine::Posix, 1).unwrap();
    // Appending to the walk's end shows how far the worker went: the file grows past what was recorded.
    let walk = json!({
        "order": "sequential", "stride_bytes": 4096, "align_bytes": 1, "base_bytes": 0, "len_bytes": null,
        "separation_bytes": 0, "random_share": 0.0, "spread": "uniform", "theta": 0.99, "ranges": [],
    });
    let pace = json!({"rate_per_s": 1000.0, "arrival": "constant", "limit": true});
    let cells = vec![write_cell(json!({
        "file_bytes": 1u64 << 30, "walk": walk, "pace": pace, "duration_ns": 100 * MS, "cooldown_ns": 100 * MS,
    }))];
    let ran = go(&spec(cells, json!({})), &target);
    let recorded = ran.cell(0).bytes;
    let written = std::fs::metadata(folder.path().join("naslab.a")).unwrap().len();
    assert!(recorded <= 101 * 4096, "{recorded}");
    assert!(written > recorded, "{written} written, {recorded} recorded");
    assert_eq!(ran.cell(0).status, "complete");
}
