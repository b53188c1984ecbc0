//! The engine's own floor: null target, 4 KiB random reads, depth 32, two seconds, full recording.
use naslab_engine::{run, CellOutcome, Events, Progress, RunSpec};
use std::sync::Arc;

struct Print;

impl Events for Print {
    fn before_cell(&mut self, _id: u64) -> naslab_core::Result<bool> {
        Ok(true)
    }
    fn progress(&mut self, _progress: &Progress) {}
    fn cell(&mut self, outcome: CellOutcome) -> naslab_core::Result<()> {
        let r = outcome.result;
        println!(
            "{:.2} M ops/s, {:.1} ns per operation",
            r.ops as f64 * 1e3 / r.duration_ns as f64,
            r.duration_ns as f64 / r.ops as f64
        );
        Ok(())
    }
    fn interrupted(&mut self) -> bool {
        false
    }
}

fn main() {
    let cell = r#"{"id":0,"op":"random_read","file_bytes":1073741824,"record_bytes":4096,"files":["a"],"block":0,
        "workers":1,"queue_depth":32,"pattern":"random","stride_records":17,"write_fraction":0.0,"read_workers":null,
        "seed":1,"create":"never","remove_before":false,"truncate":false,"direct":false,"sync":"none",
        "access":"positioned","lock":"none","cold":false,"prime":false,"stop_bytes":null,"stop_ops":null,
        "duration_ns":2000000000,"warmup_ns":0,"stonewall":false,"flush":"none","timed_flush":false,
        "timed_close":false,"think_ns":0,"pace":null,
        "data":{"kind":"random","compress_ratio":1.0,"dedupe_ratio":1.0,"fill":0},
        "verify":false,"interval_ns":100000000,"record_ops":false}"#;
    let spec = format!(
        r#"{{"schema":1,"run_id":"floor","command":"floor","target":{{}},"folder":null,"cells":[{cell}],
        "cleanup_files":[],"existing":"read","seed":1,"timeout_ns":30000000000,"progress_interval_ns":1000000000}}"#
    );
    let spec: RunSpec = serde_json::from_str(&spec).expect("the example's specification is valid");
    let target: Arc<dyn naslab_core::Target> = Arc::new(naslab_target_null::NullTarget::new());
    for _ in 0..3 {
        run(&spec, &target, "{}", &mut Print).expect("the null target never fails");
    }
}
