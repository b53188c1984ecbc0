//! The same seed gives the same result, to the byte.

use crate::common::*;
use naslab_target_sim::{FaultConfig, FaultKind, FaultOp, SimConfig};
use serde_json::{json, Value};

fn config() -> SimConfig {
    let slow = FaultConfig { probability: 0.02, kind: FaultKind::Stall, duration_ns: MS, ..FaultConfig::default() };
    let bad = FaultConfig { probability: 0.01, op: FaultOp::Write, ..FaultConfig::default() };
    SimConfig {
        jitter: 0.3,
        latency_ns: 100_000,
        link_bytes_per_s: 1_000_000_000,
        disk_seek_ns: 20_000,
        faults: vec![slow, bad],
        ..SimConfig::default()
    }
}

fn plan(seed: u64) -> Vec<Value> {
    let files = json!(["naslab.0", "naslab.1", "naslab.2", "naslab.3"]);
    let shape =
        json!({"workers": 4, "queue_depth": 3, "files": files, "seed": seed, "record_ops": true, "interval_ns": MS});
    let mut cells = vec![write_cell(shape.clone()), cell(shape.clone()), cell(shape)];
    cells[1]["pattern"] = json!("permutation");
    cells[2]["pattern"] = json!("random");
    cells[2]["write_fraction"] = json!(0.3);
    cells[2]["duration_ns"] = json!(20 * MS);
    cells[2]["warmup_ns"] = json!(2 * MS);
    cells[2]["pace"] = json!({"rate_per_s": 20_000.0, "arrival": "poisson"});
    cells
}

/// All that is not wall time, checking or this process's storage traffic: client CPU time is virtual too.
fn essence(ran: &Ran) -> Vec<(Value, &[Vec<u8>])> {
    let of = |outcome: &naslab_engine::CellOutcome| {
        let mut value = serde_json::to_value(&outcome.result).unwrap();
        for name in ["start_wall_ns", "verify_cpu_ns", "storage_read_bytes", "storage_write_bytes"] {
            value.as_object_mut().unwrap().remove(name).expect(name);
        }
        value
    };
    ran.cells.iter().map(|c| (of(c), &c.blobs[..])).collect()
}

#[test]
fn same_seed_same_result() {
    let runs: Vec<Ran> = (0..3).map(|_| sim_run(config(), plan(5))).collect();
    assert_eq!(runs[0].cells.len(), 3);
    assert!(runs[0].cells.iter().all(|c| c.result.ops > 0));
    for other in &runs[1..] {
        assert_eq!(essence(&runs[0]), essence(other));
    }
}

#[test]
fn another_seed_another_order() {
    let (a, b) = (sim_run(config(), plan(5)), sim_run(config(), plan(6)));
    assert_ne!(essence(&a)[1].1, essence(&b)[1].1);
}

#[test]
fn workers_of_one_file_do_not_move_in_step() {
    let shape = json!({"workers": 2, "pattern": "random", "stop_ops": 200, "file_bytes": 1 << 20, "record_ops": true});
    let ran = sim_run(latency_only(1000), vec![cell(shape)]);
    let log = op_log(&ran.cells[0]);
    let of = |worker: i64| log.iter().filter(|r| r[3] == worker).map(|r| r[0] % (1 << 19)).collect::<Vec<_>>();
    assert_ne!(of(0), of(1), "the same records of either half");
}
