//! The run's folder, other people's files, and what is left behind.

use crate::common::*;
use naslab_core::{Create, ErrorKind, OpenOptions, Session, Target};
use naslab_engine::{clean, find_folders, run, MARKER_NAME};
use naslab_target_local::{LocalOptions, LocalTarget};
use naslab_target_sim::{FaultKind, FaultOp, SimConfig};
use serde_json::{json, Value};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn local(root: &Path) -> Arc<dyn Target> {
    Arc::new(LocalTarget::new(LocalOptions::new(root.to_str().unwrap())).unwrap())
}

fn session(target: &Arc<dyn Target>) -> Box<dyn Session> {
    target.connect(0).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_folder_is_made_marked_and_removed() {
    let root = tempfile::tempdir().unwrap();
    let target = local(root.path());
    let folder = root.path().join("naslab-r1");
    let seen = std::cell::RefCell::new((Vec::<String>::new(), String::new()));
    let hook = |_| *seen.borrow_mut() = (names(&folder), fs::read_to_string(folder.join(MARKER_NAME)).unwrap());
    let mut events = Collector { after: Some(Box::new(hook)), ..Collector::default() };
    let spec = spec(vec![write_cell(json!({}))], json!({"folder": "naslab-r1", "existing": "refuse"}));
    let end = go_with(&spec, &target, &mut events);
    drop(events);
    assert_eq!((end.status, end.left_behind.len()), ("complete", 0));
    assert_eq!(seen.into_inner(), (vec![MARKER_NAME.to_string(), "naslab.a".to_string()], OWNER.to_string()));
    assert_eq!(names(root.path()), Vec::<String>::new());
}

#[test]
fn an_existing_folder_is_not_taken() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("naslab-r1")).unwrap();
    let spec = spec(vec![write_cell(json!({}))], json!({"folder": "naslab-r1"}));
    let error = run(&spec, &local(root.path()), OWNER, &mut Collector::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Exists);
    assert_eq!(names(root.path()), ["naslab-r1"]);
}

#[test]
fn a_folder_that_cannot_be_marked_is_not_left() {
    // Room for nothing: not even the mark.
    let target = sim(SimConfig { capacity_bytes: 1, ..SimConfig::default() });
    let spec = spec(vec![write_cell(json!({}))], json!({"folder": "naslab-r1"}));
    let error = run(&spec, &dyn_target(&target), OWNER, &mut Collector::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoSpace);
    assert_eq!(len_of(&*target, "naslab-r1"), None);
}

#[test]
fn foreign_files_survive_clean_up_and_are_reported() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("naslab-r1");
    let hook = |_| {
        fs::write(folder.join("thesis.txt"), "years of work").unwrap();
        fs::write(folder.join("naslab-notes.txt"), "mine too").unwrap();
        fs::create_dir(folder.join("naslab-photos")).unwrap();
    };
    let mut events = Collector { after: Some(Box::new(hook)), ..Collector::default() };
    let spec = spec(vec![write_cell(json!({}))], json!({"folder": "naslab-r1"}));
    let end = go_with(&spec, &local(root.path()), &mut events);
    drop(events);
    let mut left: Vec<String> = end.left_behind.iter().map(ToString::to_string).collect();
    left.sort();
    assert_eq!(left, ["naslab-r1/naslab-notes.txt", "naslab-r1/naslab-photos", "naslab-r1/thesis.txt"]);
    // The mark stays, so that the folder can be found.
    assert_eq!(names(&folder), ["naslab-notes.txt", MARKER_NAME, "naslab-photos", "thesis.txt"]);
    assert_eq!(fs::read_to_string(folder.join("thesis.txt")).unwrap(), "years of work");
}

#[test]
fn left_folders_are_found_and_cleaned() {
    let root = tempfile::tempdir().unwrap();
    let target = local(root.path());
    let make = |name: &str, mark: Option<&str>| {
        let folder = root.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("naslab.a"), "data").unwrap();
        mark.iter().for_each(|mark| fs::write(folder.join(MARKER_NAME), mark).unwrap());
    };
    make("naslab-old", Some(OWNER));
    make("naslab-other", Some("not ours"));
    make("naslab-bare", None);
    make("elsewhere", Some(OWNER));
    fs::write(root.path().join("naslab-file"), "").unwrap();
    let mut session = session(&target);
    let found = find_folders(&mut *session, &target.clock()).unwrap();
    let found: Vec<_> = found.iter().map(|f| (f.folder.as_str(), f.owner.as_str())).collect();
    assert_eq!(found, [("naslab-old", OWNER)]);
    assert_eq!(clean(&mut *session, "naslab-old").unwrap(), Vec::<String>::new());
    let error = clean(&mut *session, "naslab-bare").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Permission);
    assert_eq!(names(root.path()), ["elsewhere", "naslab-bare", "naslab-file", "naslab-other"]);
    assert_eq!(names(&root.path().join("naslab-bare")), ["naslab.a"], "nothing is removed without the mark");
}

fn refused(root: &Path, cells: Vec<Value>, over: Value) -> (ErrorKind, String) {
    let error = run(&spec(cells, over), &local(root), OWNER, &mut Collector::default()).unwrap_err();
    (error.kind, error.message)
}

fn precious(root: &Path) -> std::path::PathBuf {
    let path = root.join("naslab.a");
    fs::write(&path, vec![b'x'; 65536]).unwrap();
    path
}

#[test]
fn existing_files_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = precious(root.path());
    let over = json!({"existing": "refuse", "cleanup_files": ["naslab.a"]});
    for cell in [cell(json!({})), write_cell(json!({}))] {
        let (kind, message) = refused(root.path(), vec![cell], over.clone());
        assert_eq!(kind, ErrorKind::Exists);
        assert!(message.contains("--overwrite"), "{message}");
    }
    assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 65536]);
    // An empty file and a folder are somebody's, too.
    fs::write(&path, "").unwrap();
    assert_eq!(refused(root.path(), vec![write_cell(json!({}))], over.clone()).0, ErrorKind::Exists);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(refused(root.path(), vec![write_cell(json!({}))], over).0, ErrorKind::Invalid);
}

#[test]
fn existing_files_may_be_read_and_are_never_written_cut_or_removed() {
    let root = tempfile::tempdir().unwrap();
    let path = precious(root.path());
    let over = json!({"existing": "read", "cleanup_files": ["naslab.a", "./naslab-a", "naslab.b"]});
    for cell in [
        write_cell(json!({})),
        cell(json!({"write_fraction": 0.01})),
        cell(json!({"read_workers": 1, "workers": 2})),
        cell(json!({"remove_before": true})),
    ] {
        assert_eq!(refused(root.path(), vec![cell], over.clone()).0, ErrorKind::Exists);
    }
    let cells = vec![cell(json!({})), cell(json!({"truncate": true})), write_cell(json!({"files": ["naslab.b"]}))];
    let ran = go(&spec(cells, over), &local(root.path()));
    assert_eq!((ran.end.status, ran.end.left_behind.len()), ("complete", 0), "{:?}", ran.end);
    assert_eq!(ran.cell(1).bytes, 65536);
    assert_eq!(names(root.path()), ["naslab.a"]);
    assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 65536]);
}

#[test]
fn files_named_only_for_removal_are_kept_unless_ours() {
    let root = tempfile::tempdir().unwrap();
    precious(root.path());
    let run = json!({"existing": "refuse", "cleanup_files": ["naslab.a", "naslab.b"]});
    let ran = go(&spec(vec![write_cell(json!({"files": ["naslab.b"]}))], run), &local(root.path()));
    assert_eq!(ran.end.status, "complete");
    assert_eq!(names(root.path()), ["naslab.a"]);
}

#[test]
fn overwrite_allows_both() {
    let root = tempfile::tempdir().unwrap();
    precious(root.path());
    let run = json!({"existing": "overwrite", "cleanup_files": ["naslab.a"]});
    let ran = go(&spec(vec![write_cell(json!({})), cell(json!({}))], run), &local(root.path()));
    assert_eq!(ran.end.status, "complete");
    assert_eq!(names(root.path()), Vec::<String>::new());
}

#[test]
fn our_own_files_are_recognised_by_their_tag() {
    let root = tempfile::tempdir().unwrap();
    let keep = json!({"existing": "refuse"});
    let ran = go(&spec(vec![write_cell(json!({}))], keep.clone()), &local(root.path()));
    assert_eq!(ran.end.status, "complete");
    assert_eq!(names(root.path()), ["naslab.a"], "not named for removal: it stays");
    let again = go(&spec(vec![write_cell(json!({})), cell(json!({}))], keep), &local(root.path()));
    assert_eq!(again.end.status, "complete");
}

#[test]
fn files_are_removed_when_a_cell_fails() {
    let faults = vec![fault(FaultOp::Write, 3, FaultKind::Enospc)];
    let target = sim(SimConfig { faults, ..SimConfig::default() });
    let run = json!({"cleanup_files": ["naslab.a"]});
    // The second cell's file does not exist: its set-up fails and ends the run.
    let cells = vec![write_cell(json!({})), cell(json!({"files": ["naslab.x"]}))];
    let ran = go(&spec(cells, run), &dyn_target(&target));
    assert_eq!(
        (ran.end.status, ran.end.error.as_ref().map(|e| e.kind), ran.cells.len()),
        ("failed", Some("not_found"), 1)
    );
    assert!(ran.end.error.unwrap().to_string().contains("cell=1"));
    assert_eq!(len_of(&*target, "naslab.a"), None);
}

#[test]
fn what_cannot_be_removed_is_reported_and_the_rest_removed() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("naslab.b")).unwrap();
    let target = local(root.path());
    let hook = |_| {
        // A folder now stands where a file was planned.
        fs::create_dir(root.path().join("naslab.c")).unwrap();
    };
    let mut events = Collector { after: Some(Box::new(hook)), ..Collector::default() };
    let run = json!({"existing": "refuse", "cleanup_files": ["naslab.c", "naslab.a"]});
    let end = go_with(&spec(vec![write_cell(json!({}))], run), &target, &mut events);
    drop(events);
    assert_eq!(end.left_behind.len(), 1);
    assert!(end.left_behind[0].to_string().contains("naslab.c"), "{:?}", end.left_behind);
    assert_eq!(names(root.path()), ["naslab.b", "naslab.c"]);
}

#[test]
fn a_mix_by_worker_on_new_files_opens_for_all() {
    // Readers of a mix must not try to make, or cut, what its writers make.
    let target = sim(SimConfig::default());
    let shared = write_cell(json!({"workers": 2, "read_workers": 1, "create": "new", "truncate": true, "stop_ops": 8}));
    let ran = go(&spec(vec![shared], json!({"folder": "naslab-r1"})), &dyn_target(&target));
    assert_eq!(ran.cell(0).kinds["write"].ops, 4, "{:?}", ran.end);
}

#[test]
fn bad_plans_are_refused_before_anything_is_made() {
    let root = tempfile::tempdir().unwrap();
    let bad = [
        json!({"record_bytes": 0}),
        json!({"file_bytes": 100}),
        json!({"workers": 0}),
        json!({"workers": 3, "files": ["a", "b"]}),
        json!({"queue_depth": 0}),
        json!({"queue_depth": 2}),
        json!({"interval_ns": 0}),
        json!({"write_fraction": 1.5}),
        json!({"lock": "file", "workers": 2, "write_fraction": 1.0}),
        json!({"pace": {"rate_per_s": 0.0, "arrival": "constant"}}),
        json!({"record_bytes": 1u64 << 30, "file_bytes": 1u64 << 30, "workers": 9, "files": ["a"]}),
        json!({"workers": 4096, "queue_depth": 1, "file_bytes": 1u64 << 40, "record_bytes": 1 << 21}),
    ];
    for over in bad {
        let (kind, message) = refused(root.path(), vec![cell(over.clone())], json!({"folder": "naslab-r1"}));
        assert!(matches!(kind, ErrorKind::Invalid | ErrorKind::Unsupported), "{over}: {message}");
    }
    assert_eq!(refused(root.path(), vec![cell(json!({}))], json!({"schema": 2})).0, ErrorKind::Invalid);
    assert_eq!(refused(root.path(), vec![cell(json!({}))], json!({"timeout_ns": 0})).0, ErrorKind::Invalid);
    assert_eq!(names(root.path()), Vec::<String>::new());
}

#[test]
fn what_a_target_cannot_do_is_refused_before_anything_happens() {
    let target = std::sync::Arc::new(crate::common::fake::Fake::new(crate::common::fake::Fault::None));
    for over in [
        json!({"cold": true}),
        json!({"direct": true}),
        json!({"sync": "all"}),
        json!({"lock": "record"}),
        json!({"access": "mmap"}),
        json!({"access": "stdio"}),
        json!({"access": "cursor"}),
        json!({"queue_depth": 65}),
    ] {
        let plan = spec(vec![cell(over.clone())], json!({"folder": "naslab-r1"}));
        let error = run(&plan, &dyn_target(&target), OWNER, &mut Collector::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported, "{over}: {error}");
    }
    assert_eq!(target.open_sessions(), 0);
}

#[test]
fn unknown_names_in_a_specification_are_refused() {
    let mut spec = spec_json(vec![cell(json!({}))], json!({}));
    spec["cells"][0]["colour"] = json!("blue");
    let error = serde_json::from_value::<naslab_engine::RunSpec>(spec).unwrap_err();
    assert!(error.to_string().contains("colour"), "{error}");
}

/// The local target keeps to its root, whatever the plan says.
#[test]
fn nothing_outside_the_root_is_touched() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    fs::write(&outside, "mine").unwrap();
    let inner = root.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let run_over = json!({"existing": "overwrite", "cleanup_files": ["../outside"]});
    let outcome = run(&spec(vec![write_cell(json!({}))], run_over), &local(&inner), OWNER, &mut Collector::default());
    assert!(outcome.map_or(true, |end| !end.left_behind.is_empty()));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
    let mut session = session(&local(&inner));
    let options = OpenOptions { read: true, write: true, create: Create::IfMissing, ..OpenOptions::default() };
    assert!(session.open("../outside", &options).is_err());
}
