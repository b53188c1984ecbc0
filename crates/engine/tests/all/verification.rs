//! Checking of what was read: damage is found, sound data is not blamed, and what cannot be checked is
//! refused.

use crate::common::*;
use naslab_core::OpKind;
use naslab_engine::run;
use naslab_target_sim::{FaultKind, FaultOp, SimConfig};
use serde_json::{json, Value};
use std::cell::RefCell;

fn keeping() -> SimConfig {
    SimConfig { store_data: true, op_overhead_ns: 0, latency_ns: 10_000, ..SimConfig::default() }
}

fn write(over: Value) -> Value {
    with(write_cell(json!({"verify": true})), over)
}

fn read(over: Value) -> Value {
    with(cell(json!({"verify": true})), over)
}

fn with(mut cell: Value, over: Value) -> Value {
    for (name, value) in over.as_object().unwrap() {
        cell[name] = value.clone();
    }
    cell
}

/// Blocks, bad records and the first defect of a cell.
fn verified(ran: &Ran, at: usize) -> (u64, u64, String) {
    let v = ran.cell(at).verified.as_ref().expect("the cell was checked");
    (v.blocks, v.bad, v.first_bad.clone().unwrap_or_default())
}

#[test]
fn sound_data_passes_in_every_order_and_size() {
    for (records, depth, workers) in [(4096, 1, 1), (16384, 1, 2), (512, 8, 1), (4096, 16, 3)] {
        let files: Vec<String> = (0..workers).map(|w| format!("naslab.{w}")).collect();
        let shape = json!({"workers": workers, "files": files, "record_bytes": records, "queue_depth": depth});
        let cells = vec![
            write(shape.clone()),
            read(shape.clone()),
            with(read(shape.clone()), json!({"pattern": "permutation"})),
            with(write(shape.clone()), json!({"pattern": "backward"})),
            with(read(shape.clone()), json!({"pattern": "random"})),
            with(read(shape), json!({"record_bytes": 65536, "queue_depth": 1})),
        ];
        let ran = sim_run(keeping(), cells);
        assert_eq!(ran.end.status, "complete", "{:?}", ran.end);
        let unit = if records % 4096 == 0 { 4096 } else { 512 };
        for at in [1, 2, 4, 5] {
            assert_eq!(verified(&ran, at), (65536 / unit * workers, 0, String::new()), "cell {at}");
        }
        assert!(ran.cell(0).verified.is_none(), "nothing was read");
    }
}

#[test]
fn one_shared_file_is_checked_across_workers() {
    let shape = json!({"workers": 3, "queue_depth": 2, "file_bytes": 17 * 4096});
    let ran = sim_run(keeping(), vec![write(shape.clone()), read(shape)]);
    assert_eq!(verified(&ran, 1), (17, 0, String::new()));
}

#[test]
fn damage_on_the_way_back_is_found() {
    let config = SimConfig { faults: vec![fault(FaultOp::Read, 3, FaultKind::Corrupt)], ..keeping() };
    let ran = sim_run(config, vec![write(json!({})), read(json!({})), read(json!({}))]);
    assert_eq!(verified(&ran, 1), (15, 1, "at byte 12288: Damaged".to_string()));
    assert_eq!((ran.cell(1).status, ran.cell(1).errors, ran.cell(1).ops), ("failed", 0, 16));
    assert_eq!(verified(&ran, 2).1, 0, "the file itself is sound");
}

#[test]
fn damage_on_the_way_in_is_found_by_every_later_read() {
    let config = SimConfig { faults: vec![fault(FaultOp::Write, 5, FaultKind::Corrupt)], ..keeping() };
    let ran = sim_run(config, vec![write(json!({})), read(json!({})), read(json!({"queue_depth": 4}))]);
    for at in [1, 2] {
        assert_eq!(verified(&ran, at), (15, 1, "at byte 20480: Damaged".to_string()));
    }
}

/// Writes twice and reads; `between` may change the file, with cell numbers 1 (before the second write) and
/// 2 (before the read).
fn tampered(mut between: impl FnMut(&naslab_target_sim::SimTarget, u64)) -> Ran {
    let target = sim(keeping());
    let mut events = Collector { before: Some(Box::new(|id| between(&target, id))), ..Collector::default() };
    let cells = vec![write(json!({})), write(json!({})), read(json!({}))];
    let end = go_with(&spec(cells, json!({})), &dyn_target(&target), &mut events);
    Ran { end, cells: std::mem::take(&mut events.cells) }
}

#[test]
fn a_lost_write_shows_as_a_stale_generation() {
    let old = RefCell::new(vec![0u8; 4096]);
    let ran = tampered(|target, id| match id {
        1 => poke(target, "naslab.a", OpKind::Read, 8192, &mut old.borrow_mut()),
        2 => poke(target, "naslab.a", OpKind::Write, 8192, &mut old.borrow_mut()),
        _ => {}
    });
    assert_eq!(verified(&ran, 2), (15, 1, "at byte 8192: Stale { generation: 1 }".to_string()));
}

#[test]
fn a_misplaced_write_names_where_it_belongs() {
    let ran = tampered(|target, id| {
        if id == 2 {
            let mut block = vec![0u8; 4096];
            poke(target, "naslab.a", OpKind::Read, 4096, &mut block);
            poke(target, "naslab.a", OpKind::Write, 40960, &mut block);
        }
    });
    assert_eq!(verified(&ran, 2), (15, 1, "at byte 40960: Misplaced { tagged_offset_bytes: 4096 }".to_string()));
}

#[test]
fn blocks_of_another_hand_are_no_tags() {
    let ran = tampered(|target, id| {
        if id == 2 {
            poke(target, "naslab.a", OpKind::Write, 0, &mut vec![7u8; 4096]);
        }
    });
    assert_eq!(verified(&ran, 2), (15, 1, "at byte 0: NoTag".to_string()));
}

#[test]
fn another_file_s_blocks_are_misplaced() {
    let target = sim(keeping());
    let hook = |id| {
        if id == 1 {
            let mut block = vec![0u8; 4096];
            poke(&*target, "naslab.1", OpKind::Read, 4096, &mut block);
            poke(&*target, "naslab.0", OpKind::Write, 4096, &mut block);
        }
    };
    let shape = json!({"workers": 2, "files": ["naslab.0", "naslab.1"]});
    let mut events = Collector { before: Some(Box::new(hook)), ..Collector::default() };
    go_with(&spec(vec![write(shape.clone()), read(shape)], json!({})), &dyn_target(&target), &mut events);
    let v = events.cells[1].result.verified.as_ref().unwrap();
    assert_eq!((v.blocks, v.bad), (31, 1));
}

#[test]
fn a_pass_in_part_leaves_older_blocks_unblamed() {
    let part = json!({"stop_ops": 5, "pattern": "permutation"});
    let ran = sim_run(keeping(), vec![write(json!({})), write(part), read(json!({}))]);
    assert_eq!(verified(&ran, 2), (16, 0, String::new()));
}

#[test]
fn a_stonewalled_pass_leaves_older_blocks_unblamed() {
    let stall = naslab_target_sim::FaultConfig { duration_ns: MS, ..fault(FaultOp::Write, 32 + 4, FaultKind::Stall) };
    let shape = json!({"workers": 2, "files": ["naslab.0", "naslab.1"]});
    let cut = with(write(shape.clone()), json!({"stonewall": true}));
    let config = SimConfig { faults: vec![stall], ..keeping() };
    let ran = sim_run(config, vec![write(shape.clone()), cut, read(shape)]);
    assert_eq!(ran.cell(1).stop_reason, "stonewall");
    assert!(ran.cell(1).ops < 32);
    assert_eq!(verified(&ran, 2), (32, 0, String::new()));
}

#[test]
fn a_mix_checks_its_own_writes() {
    for workers in [1, 2] {
        let files: Vec<String> = (0..workers).map(|w| format!("naslab.{w}")).collect();
        let shape = json!({"workers": workers, "files": files});
        let mix = with(read(shape.clone()), json!({"write_fraction": 0.5, "pattern": "random", "stop_ops": 400}));
        let ran = sim_run(keeping(), vec![write(shape.clone()), mix, read(shape)]);
        assert_eq!(ran.end.status, "complete", "{:?}", ran.end);
        let reads = ran.cell(1).kinds["read"].ops;
        assert_eq!(verified(&ran, 1), (reads, 0, String::new()));
        assert_eq!(verified(&ran, 2).1, 0);
    }
}

#[test]
fn iozone_and_fill_patterns_are_checked() {
    for kind in ["iozone", "fill"] {
        let data = json!({"data": {"kind": kind, "compress_ratio": 1.0, "dedupe_ratio": 1.0, "fill": 165}});
        let config = SimConfig { faults: vec![fault(FaultOp::Read, 16, FaultKind::Corrupt)], ..keeping() };
        let ran = sim_run(
            config,
            vec![write(data.clone()), read(data.clone()), read(with(data, json!({"record_bytes": 1024})))],
        );
        assert_eq!(verified(&ran, 1), (16, 0, String::new()), "{kind}");
        match kind {
            // Fill has no place: any size can be checked. The damaged byte lies in the middle of record 0.
            "fill" => assert_eq!(verified(&ran, 2), (63, 1, "at byte 512: Pattern".to_string())),
            _ => assert_eq!(
                ran.end.error.as_ref().map(|e| e.kind),
                Some("invalid"),
                "the pattern lies at the head of 4 KiB pages"
            ),
        }
    }
}

/// The message with which a plan is refused at its last cell.
fn refusal(cells: Vec<Value>) -> String {
    let count = cells.len();
    let ran = sim_run(keeping(), cells);
    assert_eq!((ran.end.status, ran.end.error.as_ref().map(|e| e.kind)), ("failed", Some("invalid")), "{:?}", ran.end);
    assert_eq!(ran.cells.len(), count - 1, "the cells before it stand");
    ran.end.error.unwrap().to_string()
}

#[test]
fn what_cannot_be_checked_is_refused() {
    assert!(refusal(vec![read(json!({}))]).contains("has not written"));
    assert!(refusal(vec![write(json!({"verify": false})), read(json!({}))]).contains("without --verify"));
    let mix = json!({"write_fraction": 0.5, "queue_depth": 2});
    assert!(refusal(vec![write(json!({})), read(mix)]).contains("--depth 1"));
    let shared = json!({"write_fraction": 0.5, "workers": 2});
    assert!(refusal(vec![write(json!({})), read(shared)]).contains("a file per worker"));
    let readers = json!({"read_workers": 1, "workers": 2});
    assert!(refusal(vec![write(json!({})), read(readers)]).contains("a file per worker"));
    assert!(refusal(vec![write(json!({})), read(json!({"record_bytes": 512}))]).contains("record size"));
    // Blocks of 512 bytes over blocks of 4096: neither size fits all.
    let smaller = json!({"record_bytes": 512, "stop_ops": 3});
    for record_bytes in [512, 4096] {
        let reading = read(json!({"record_bytes": record_bytes}));
        assert!(refusal(vec![write(json!({})), write(smaller.clone()), reading]).contains("different ways"));
    }
    let mixed_size = json!({"write_fraction": 0.5, "record_bytes": 4096});
    assert!(refusal(vec![write(json!({"record_bytes": 512})), read(mixed_size)]).contains("same for the mix"));
}

#[test]
fn a_file_written_anew_whole_can_be_checked_again() {
    let smaller = json!({"record_bytes": 512, "stop_ops": 3});
    let ran = sim_run(keeping(), vec![write(json!({})), write(smaller), write(json!({})), read(json!({}))]);
    assert_eq!(verified(&ran, 3), (16, 0, String::new()));
    // A shorter pass over a longer file is not the whole file.
    let short = json!({"file_bytes": 32768});
    let ran = sim_run(keeping(), vec![write(json!({})), write(short), read(json!({}))]);
    assert_eq!(verified(&ran, 2), (16, 0, String::new()));
}

#[test]
fn verify_with_dedupe_or_without_memory_is_refused_before_anything_happens() {
    let target = dyn_target(&sim(keeping()));
    let dedupe = json!({"data": {"kind": "random", "compress_ratio": 1.0, "dedupe_ratio": 2.0, "fill": 0}});
    let error = run(&spec(vec![write(dedupe)], json!({})), &target, OWNER, &mut Collector::default()).unwrap_err();
    assert!(error.message.contains("--dedupe"), "{error}");
    let forgetful = dyn_target(&sim(latency_only(1000)));
    let error =
        run(&spec(vec![write(json!({}))], json!({})), &forgetful, OWNER, &mut Collector::default()).unwrap_err();
    assert!(error.message.contains("store_data"), "{error}");
}
