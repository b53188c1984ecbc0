//! Rates that change without credit: fast cells, heat, noise; and a flush that is a lie.

use crate::common::*;
use naslab_core::{FileId, OpKind};
use naslab_target_sim::{FileConfig, SimConfig};

const MB: u64 = 1_000_000;

/// 100 MB/s in both directions.
fn disk() -> SimConfig {
    SimConfig {
        disk_read_bytes_per_s: 100 * MB,
        disk_write_bytes_per_s: 100 * MB,
        files: vec![FileConfig { path: "f".into(), len_bytes: 4000 * MB }],
        ..latency_only(1)
    }
}

fn client(config: SimConfig) -> (Client, FileId) {
    let t = target(config);
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    (c, f)
}

/// Seconds to move this much with 1 MB operations, two in flight.
fn seconds(c: &mut Client, kind: OpKind, f: FileId, bytes: u64) -> f64 {
    c.time(|c| c.all(2, sequence(kind, f, bytes, MB))) as f64 / 1e9
}

fn idle(c: &Client, seconds: u64) {
    c.clock.advance_to(c.now() + seconds * SECOND);
}

#[track_caller]
fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} for {expected}");
}

#[test]
fn fast_cells_take_a_number_of_bytes_and_fold_while_idle() {
    let (mut c, f) = client(SimConfig {
        slc_bytes: 500 * MB,
        slc_full_bytes_per_s: 20 * MB,
        slc_fold_bytes_per_s: 10 * MB,
        ..disk()
    });
    near(seconds(&mut c, OpKind::Write, f, 500 * MB), 5.0, 1e-3);
    near(seconds(&mut c, OpKind::Write, f, 100 * MB), 5.0, 1e-3);
    near(seconds(&mut c, OpKind::Read, f, 300 * MB), 3.0, 1e-3);
    near(seconds(&mut c, OpKind::Write, f, 20 * MB), 1.0, 1e-3);
    idle(&c, 10);
    // 100 MB folded: so many bytes at full speed, not so many above the slow rate.
    near(seconds(&mut c, OpKind::Write, f, 100 * MB), 1.0, 1e-3);
    near(seconds(&mut c, OpKind::Write, f, 20 * MB), 1.0, 1e-3);
    idle(&c, 1000);
    near(seconds(&mut c, OpKind::Write, f, 500 * MB), 5.0, 1e-3);
    near(seconds(&mut c, OpKind::Write, f, 20 * MB), 1.0, 1e-3);
}

#[test]
fn a_rate_drifts_down_as_the_disk_warms_and_comes_back_exponentially() {
    let heat = SimConfig { heat_busy_ns: 10 * SECOND, heat_idle_ns: 20 * SECOND, heat_floor: 0.25, ..disk() };
    let (mut c, f) = client(heat);
    let rate = |c: &mut Client, kind| 10.0 / seconds(c, kind, f, 10 * MB);
    near(rate(&mut c, OpKind::Write), 100.0, 0.01);
    let mut before = 101.0;
    while c.now() < 10 * SECOND {
        let now = rate(&mut c, OpKind::Write);
        assert!(now < before, "{now} after {before}");
        before = now;
    }
    // After one time constant the heat is 1 - 1/e: 100 * (1 - 0.75 * 0.632).
    near(before, 52.6, 0.02);
    seconds(&mut c, OpKind::Write, f, 2000 * MB);
    near(rate(&mut c, OpKind::Read), 25.0, 0.01);
    idle(&c, 20);
    near(rate(&mut c, OpKind::Read), 100.0 * (1.0 - 0.75 / std::f64::consts::E), 0.01);
    idle(&c, 400);
    near(rate(&mut c, OpKind::Write), 100.0, 0.01);
}

#[test]
fn a_throttle_falls_in_one_step_and_is_back_below_its_heat() {
    let step = 1.0 - (-1.0f64).exp();
    let throttle =
        SimConfig { heat_busy_ns: 5 * SECOND, heat_idle_ns: 5 * SECOND, heat_floor: 0.1, heat_step: step, ..disk() };
    let (mut c, f) = client(throttle);
    // At the step after one time constant: 500 MB at full speed, then a tenth.
    near(seconds(&mut c, OpKind::Write, f, 500 * MB), 5.0, 2e-3);
    near(seconds(&mut c, OpKind::Write, f, 300 * MB), 30.0, 5e-3);
    // Nearly all of the heat is there; 0.2 s of cooling are too little, 10 s are not.
    c.clock.advance_to(c.now() + SECOND / 5);
    near(seconds(&mut c, OpKind::Write, f, 10 * MB), 1.0, 1e-2);
    idle(&c, 10);
    near(seconds(&mut c, OpKind::Write, f, 100 * MB), 1.0, 1e-2);
}

#[test]
fn a_noisy_rate_has_the_mean_and_deviation_asked_for_and_repeats() {
    let noisy = |seed| SimConfig { seed, disk_noise: 0.1, noise_memory: 0.5, noise_span_ns: SECOND / 10, ..disk() };
    let ended = |config: SimConfig| -> Vec<u64> {
        let (mut c, f) = client(config);
        c.all(2, sequence(OpKind::Write, f, 4000 * MB, MB / 10)).iter().map(|s| s.ended_ns).collect()
    };
    let once = ended(noisy(3));
    assert_eq!(once, ended(noisy(3)));
    assert_ne!(once, ended(noisy(4)));
    // Bytes in each span of 100 ms; 400 spans: about 0.9 % of standard error on the mean, 4 % on the deviation.
    let mut bins = vec![0.0f64; 380];
    for at in &once {
        if let Some(bin) = bins.get_mut((at / (SECOND / 10)) as usize) {
            *bin += 0.01;
        }
    }
    let mean = bins.iter().sum::<f64>() / bins.len() as f64;
    let var = bins.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / bins.len() as f64;
    near(mean, 1.0, 0.04);
    near(var.sqrt(), 0.1, 0.2);
    near(ended(SimConfig { disk_noise: 0.0, ..noisy(3) }).last().copied().unwrap() as f64, 4e10, 1e-6);
}

#[test]
fn a_noisy_link_varies_each_direction() {
    let link = SimConfig {
        link_bytes_per_s: 100 * MB,
        link_noise: 0.1,
        disk_read_bytes_per_s: 0,
        disk_write_bytes_per_s: 0,
        ..disk()
    };
    for kind in [OpKind::Read, OpKind::Write] {
        let (mut c, f) = client(link.clone());
        let times: Vec<f64> = (0..200).map(|_| seconds(&mut c, kind, f, 10 * MB)).collect();
        let mean = times.iter().sum::<f64>() / 200.0;
        let var = times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / 200.0;
        near(mean, 0.1, 0.04);
        assert!((0.005..0.02).contains(&var.sqrt()), "{kind:?}: {}", var.sqrt());
    }
}

#[test]
fn a_flush_that_is_ignored_leaves_the_bytes_in_memory() {
    let lies = SimConfig { write_back_bytes: 1000 * MB, flush_ignored: true, ..disk() };
    let t = target(lies);
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    c.all(2, sequence(OpKind::Write, f, 500 * MB, MB));
    assert_eq!(c.time(|c| c.session.flush(f, Default::default()).unwrap()), 1);
    assert!(t.stats().server_dirty_bytes > 490 * MB);
    idle(&c, 3);
    c.one(&read(f, 0, 4096));
    let left = t.stats().server_dirty_bytes;
    assert!((190 * MB..200 * MB).contains(&left), "the disk goes on writing: {left}");
}
