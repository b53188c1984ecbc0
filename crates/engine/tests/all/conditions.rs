//! What a cell says of the client that measured it.

use crate::common::*;
use naslab_engine::Client;
use naslab_target_null::NullTarget;
use serde_json::json;
use std::sync::Arc;

/// A cell of the null target for so long, which costs nothing but the client's processor.
fn on_null(workers: usize, duration_ns: u64) -> Client {
    let target: Arc<dyn naslab_core::Target> = Arc::new(NullTarget::new());
    let files: Vec<_> = (0..workers).map(|w| format!("naslab.{w}")).collect();
    let over = json!({"files": files, "workers": workers, "pattern": "random", "duration_ns": duration_ns,
        "create": "if_missing", "flush": "none"});
    go(&spec(vec![cell(over)], json!({})), &target).cell(0).client
}

fn is_share(found: Option<f64>) -> bool {
    found.is_some_and(|share| (0.0..=1.0).contains(&share))
}

#[test]
fn every_worker_tells_of_its_own_thread() {
    // Windows counts a thread's time in ticks of 16 ms.
    let duration_ns = if cfg!(windows) { 500_000_000 } else { 30_000_000 };
    for workers in [1, 3] {
        let found = on_null(workers, duration_ns);
        assert!(found.cpu_limit_cores.unwrap() > 0.0);
        assert!(is_share(found.busiest_worker_fraction) && found.busiest_worker_fraction > Some(0.0), "{found:?}");
        assert!(found.runnable_wait_fraction.is_none() || is_share(found.runnable_wait_fraction), "{found:?}");
        assert_eq!(found.throttled_fraction.is_some(), naslab_engine::cpu_quota_cores("/".as_ref()).is_some());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn ticks_are_looked_at_in_long_cells_only() {
    let (short, long) = (on_null(1, 15_000_000), on_null(1, 300_000_000));
    assert_eq!((short.busiest_core_fraction, short.others_cores, short.steal_fraction), (None, None, None));
    assert!(is_share(long.busiest_core_fraction) && is_share(long.steal_fraction), "{long:?}");
    assert!(long.others_cores.is_none_or(|cores| cores >= 0.0), "{long:?}");
}

#[test]
fn a_simulated_client_has_no_conditions() {
    let ran = sim_run(latency_only(1000), vec![write_cell(json!({"duration_ns": 400_000_000}))]);
    assert_eq!(ran.cell(0).client, Client::default());
}
