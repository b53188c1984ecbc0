//! Byte-addressed walks as the engine issues them: what the operation log holds.

use crate::common::*;
use serde_json::{json, Value};

fn walk(over: Value) -> Value {
    let mut base = json!({
        "order": "sequential", "stride_bytes": 4096, "align_bytes": 1, "base_bytes": 0, "len_bytes": null,
        "separation_bytes": 0, "random_share": 0.0, "spread": "uniform", "theta": 0.99, "ranges": [],
    });
    for (name, value) in over.as_object().expect("fields") {
        assert!(base.get(name).is_some(), "no such field: {name}");
        base[name] = value.clone();
    }
    base
}

/// Offsets in the order of their completion, and the worker of each.
fn offsets(workers: u32, files: Vec<&str>, ops: u64, walk: Value) -> Vec<(i64, i64)> {
    let cells = vec![cell(json!({
        "workers": workers, "files": files, "walk": walk, "stop_ops": ops, "record_ops": true,
    }))];
    let ran = sim_run(
        naslab_target_sim::SimConfig {
            files: ["naslab.a", "naslab.b"].map(|name| planted(name, 65536)).to_vec(),
            ..latency_only(1000)
        },
        cells,
    );
    assert_eq!(ran.cell(0).errors, 0, "{:?}", ran.cell(0).first_error);
    op_log(&ran.cells[0]).iter().map(|row| (row[0], row[3])).collect()
}

#[test]
fn a_sequence_wraps_inside_its_region() {
    let region = json!({"base_bytes": 4096, "len_bytes": 12288});
    let seen: Vec<i64> = offsets(1, vec!["naslab.a"], 5, walk(region)).iter().map(|o| o.0).collect();
    assert_eq!(seen, [4096, 8192, 12288, 4096, 8192]);
}

#[test]
fn workers_of_one_file_begin_apart() {
    let seen = offsets(2, vec!["naslab.a"], 4, walk(json!({"separation_bytes": 32768})));
    let of = |worker| seen.iter().filter(|o| o.1 == worker).map(|o| o.0).collect::<Vec<_>>();
    assert_eq!((of(0), of(1)), (vec![0, 4096], vec![32768, 36864]));
}

#[test]
fn interlocked_workers_visit_each_place_once_per_round() {
    let mut seen: Vec<i64> =
        offsets(4, vec!["naslab.a"], 16, walk(json!({"order": "interlocked"}))).iter().map(|o| o.0).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..16).map(|i| i * 4096).collect::<Vec<_>>());
}

#[test]
fn unaligned_random_reads_stay_in_the_file() {
    let seen = offsets(1, vec!["naslab.a"], 300, walk(json!({"order": "random", "align_bytes": 100})));
    assert!(seen.iter().all(|o| o.0 % 100 == 0 && o.0 + 4096 <= 65536));
    assert!(seen.iter().any(|o| o.0 % 4096 != 0));
}

#[test]
fn walks_that_leave_the_file_are_refused() {
    for bad in [
        json!({"base_bytes": 65536}),
        json!({"base_bytes": 4096, "len_bytes": 65536}),
        json!({"len_bytes": 100}),
        json!({"stride_bytes": 0}),
        json!({"order": "random", "align_bytes": 0}),
        json!({"order": "random", "spread": "ranges"}),
        json!({"order": "random", "spread": "ranges", "ranges": [[1.0, 65000, 1000]]}),
        json!({"order": "random", "spread": "zipf", "theta": 0.0}),
        json!({"order": "blend", "random_share": 1.5}),
    ] {
        let spec = spec(vec![cell(json!({"walk": walk(bad.clone())}))], json!({}));
        let target = dyn_target(&sim(latency_only(1000)));
        assert!(naslab_engine::run(&spec, &target, OWNER, &mut Collector::default()).is_err(), "{bad}");
    }
}
