//! Token buckets: burst rate, time to drain, base rate, refill.

use crate::common::*;
use naslab_core::{FileId, OpKind};
use naslab_target_sim::{AppliesTo, BucketConfig, BucketScope, FileConfig, SimConfig, SimTarget};

const MB: u64 = 1_000_000;

/// 600 MB/s burst, 100 MB/s base, 1000 MB of tokens: they last 2 s, 1200 MB.
fn bucket() -> BucketConfig {
    BucketConfig {
        burst_bytes_per_s: 600 * MB,
        base_bytes_per_s: 100 * MB,
        size_bytes: 1000 * MB,
        ..BucketConfig::default()
    }
}

fn setup(bucket: BucketConfig) -> (SimTarget, Client, FileId) {
    let t = target(SimConfig {
        buckets: vec![bucket],
        files: vec![FileConfig { path: "f".into(), len_bytes: 4000 * MB }],
        ..latency_only(1)
    });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    (t, c, f)
}

/// Time to move this much with 1 MB operations, two in flight.
fn moved(c: &mut Client, kind: OpKind, f: FileId, bytes: u64) -> u64 {
    c.time(|c| c.all(2, sequence(kind, f, bytes, MB)))
}

/// Both ends of the tolerance of a nanosecond of round trip.
fn about(ns: u64) -> std::ops::RangeInclusive<u64> {
    ns..=ns + 3
}

#[test]
fn burst_until_the_tokens_are_gone_then_base() {
    for scope in [BucketScope::Disk, BucketScope::Link] {
        for kind in [OpKind::Read, OpKind::Write] {
            let (_t, mut c, f) = setup(BucketConfig { scope, ..bucket() });
            let ns = moved(&mut c, kind, f, 1200 * MB);
            assert!(about(2 * SECOND).contains(&ns), "{scope:?} {kind:?}: {ns}");
            let ns = moved(&mut c, kind, f, 300 * MB);
            assert!(about(3 * SECOND).contains(&ns), "{scope:?} {kind:?}: {ns}");
        }
    }
}

#[test]
fn the_rate_changes_at_the_operation_that_takes_the_last_token() {
    let (_t, mut c, f) = setup(bucket());
    let seen = c.all(2, sequence(OpKind::Read, f, 1300 * MB, MB));
    let gaps: Vec<u64> = seen.windows(2).map(|w| w[1].ended_ns - w[0].ended_ns).collect();
    let slow = gaps.iter().position(|ns| *ns > 5 * MB).unwrap();
    assert_eq!(slow + 1, 1200, "1200 operations at burst rate");
    assert!(gaps[1200..].iter().all(|ns| (9_999_999..=10_000_001).contains(ns)));
}

#[test]
fn tokens_come_back_at_the_base_rate_while_idle() {
    for (idle_s, regained) in [(1, 100), (3, 300), (5, 500), (30, 1000)] {
        let (_t, mut c, f) = setup(bucket());
        moved(&mut c, OpKind::Read, f, 1500 * MB);
        c.clock.advance_to(c.now() + idle_s * SECOND);
        // Tokens drain at 500 MB/s: `regained` MB last regained / 500 s, and carry 6/5 of themselves.
        let ns = moved(&mut c, OpKind::Read, f, regained * 6 / 5 * MB);
        let expected = regained * SECOND / 500;
        // Up to a microsecond: the round trips of the driver let a few tokens in.
        assert!(ns.abs_diff(expected) < 1000, "{idle_s} s idle: {ns} for {expected}");
        let ns = moved(&mut c, OpKind::Read, f, 100 * MB);
        assert!(ns.abs_diff(SECOND) < 1000, "and then base again: {ns}");
    }
}

#[test]
fn a_bucket_that_starts_part_full_lasts_that_part() {
    for (fill, seconds) in [(0.5, 1.0), (0.0, 0.0)] {
        let (_t, mut c, f) = setup(BucketConfig { initial_fill: fill, ..bucket() });
        // The open took its nanosecond; a bucket that is not full gained 0.1 token in it.
        let bytes = (seconds * 600.0) as u64 * MB + 100 * MB;
        let ns = moved(&mut c, OpKind::Read, f, bytes);
        let expected = (seconds * 1e9) as u64 + SECOND;
        assert!(ns.abs_diff(expected) < 10, "{fill}: {ns} for {expected}");
    }
}

#[test]
fn a_bucket_of_one_direction_leaves_the_other_alone() {
    for (applies_to, limited, free) in
        [(AppliesTo::Read, OpKind::Read, OpKind::Write), (AppliesTo::Write, OpKind::Write, OpKind::Read)]
    {
        for scope in [BucketScope::Disk, BucketScope::Link] {
            let (_t, mut c, f) = setup(BucketConfig { applies_to, scope, ..bucket() });
            assert_eq!(moved(&mut c, free, f, 2000 * MB), 1000, "one nanosecond per pair");
            let ns = moved(&mut c, limited, f, 1200 * MB);
            assert!(about(2 * SECOND).contains(&ns), "{applies_to:?} {scope:?}: {ns}");
        }
    }
}

#[test]
fn one_bucket_for_both_is_shared() {
    for scope in [BucketScope::Disk, BucketScope::Link] {
        let (_t, mut c, f) = setup(BucketConfig { scope, ..bucket() });
        let reads = sequence(OpKind::Read, f, 600 * MB, MB);
        let writes = sequence(OpKind::Write, f, 600 * MB, MB);
        let ns = c.time(|c| c.all(4, reads.zip(writes).flat_map(|(r, w)| [r, w])));
        assert!(about(2 * SECOND).contains(&ns), "{scope:?}: {ns}");
        let ns = moved(&mut c, OpKind::Write, f, 100 * MB);
        assert!(about(SECOND).contains(&ns), "{scope:?}: {ns}");
    }
}

#[test]
fn cache_hits_take_no_disk_tokens() {
    let t = target(SimConfig { buckets: vec![bucket()], server_cache_bytes: 16 * MIB, ..latency_only(1) });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    c.all(1, sequence(OpKind::Write, f, 8 * MB, MB));
    for _ in 0..1000 {
        assert_eq!(moved(&mut c, OpKind::Read, f, 8 * MB), 4);
    }
}

#[test]
fn the_drain_of_written_data_takes_disk_tokens() {
    let t = target(SimConfig { buckets: vec![bucket()], write_back_bytes: 2000 * MB, ..latency_only(1) });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    let ns = c.time(|c| {
        c.all(2, sequence(OpKind::Write, f, 1300 * MB, MB));
        c.session.flush(f, Default::default())
    });
    assert!(ns.abs_diff(3 * SECOND) < 10, "{ns}");
}
