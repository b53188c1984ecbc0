//! Every kind of fault, and which operations it hits.

use crate::common::*;
use naslab_core::{errno, Completion, ErrorKind, FileId, IoBuf, OpError, OpKind, Target};
use naslab_target_sim::{FaultConfig, FaultKind, FaultOp, FaultScope, FileConfig, SimConfig, SimTarget};

fn setup(fault: FaultConfig) -> (SimTarget, Client, FileId) {
    setup_with(SimConfig::default(), fault)
}

fn setup_with(config: SimConfig, fault: FaultConfig) -> (SimTarget, Client, FileId) {
    let t = target(SimConfig {
        faults: vec![fault],
        files: vec![FileConfig { path: "f".into(), len_bytes: 1 << 30 }],
        ..config
    });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    (t, c, f)
}

fn at(at_op: u64, kind: FaultKind) -> FaultConfig {
    FaultConfig { at_op: Some(at_op), kind, ..FaultConfig::default() }
}

fn errors(seen: &[Seen]) -> Vec<(u32, OpError)> {
    let failed = seen.iter().filter_map(|s| Some((s.done.token, s.done.error?)));
    failed.collect()
}

#[test]
fn an_error_hits_the_operation_with_its_number_and_no_other() {
    let (t, mut c, f) = setup(FaultConfig { errno: errno::EACCES, op: FaultOp::Read, ..at(3, FaultKind::Error) });
    let ops = (0..10).flat_map(|i| [write(f, i, 1), read(f, i, 1)]);
    let seen = c.try_all(4, ops);
    let expected = OpError::from_errno(errno::EACCES);
    assert_eq!(errors(&seen), [(7, expected)], "the fourth read");
    assert_eq!(expected.kind, ErrorKind::Permission);
    assert_eq!(seen[7].done.bytes, 0);
    assert_eq!(t.stats().faults, 1);
}

#[test]
fn a_failed_write_changes_nothing() {
    for kind in [FaultKind::Error, FaultKind::Enospc] {
        let (t, mut c, _) = setup(at(0, kind));
        let g = c.open("g", &read_write());
        assert!(c.one(&write(g, 0, 4096)).done.error.is_some());
        assert_eq!(c.session.stat("g").unwrap().len_bytes, 0);
        assert_eq!(t.stats().disk_written_bytes, 0);
    }
}

#[test]
fn enospc_reports_no_space() {
    let (_t, mut c, f) = setup(at(0, FaultKind::Enospc));
    let done = c.one(&write(f, 0, 4096)).done;
    assert_eq!(done.error, Some(OpError::from_errno(errno::ENOSPC)));
    assert_eq!(done.error.unwrap().kind, ErrorKind::NoSpace);
}

#[test]
fn a_chance_fires_as_often_as_it_says_and_by_seed() {
    let run = |seed: u64| {
        let config = SimConfig { seed, ..SimConfig::default() };
        let fault = FaultConfig { probability: 0.1, ..FaultConfig::default() };
        let (_t, mut c, f) = setup_with(config, fault);
        errors(&c.try_all(1, (0..10_000).map(|i| read(f, i, 1))))
    };
    let (a, b) = (run(1), run(2));
    // Binomial: standard deviation 30.
    assert!((850..1150).contains(&a.len()), "{}", a.len());
    assert_eq!(a, run(1));
    assert_ne!(a, b);
}

#[test]
fn a_stall_delays_one_operation() {
    let (_t, mut c, f) = setup(FaultConfig { duration_ns: 5_000_000, ..at(2, FaultKind::Stall) });
    let seen = c.all(4, (0..8).map(|i| read(f, i, 1)));
    let slow: Vec<u32> = seen.iter().filter(|s| s.took_ns() > 10_000).map(|s| s.done.token).collect();
    assert_eq!(slow, [2]);
    let stalled = seen.iter().find(|s| s.done.token == 2).unwrap();
    assert_eq!(stalled.took_ns(), 3000 + 5_000_000);
}

#[test]
fn a_freeze_stops_everybody() {
    let (t, mut a, f) =
        setup_with(latency_only(100), FaultConfig { duration_ns: 1_000_000, ..at(0, FaultKind::Freeze) });
    let mut b = Client::new(&t);
    let g = b.open("f", &read_write());
    let start = a.now();
    a.submit(&read(f, 0, 1), 0).unwrap();
    a.clock.advance_to(start + 500_000);
    assert_eq!(b.one(&read(g, 0, 1)).ended_ns - start, 50 + 1_000_000 + 50);
    assert_eq!(a.wait().unwrap().len(), 1);
    assert_eq!(b.one(&read(g, 0, 1)).took_ns(), 100, "and then it goes on");
}

#[test]
fn a_freeze_holds_metadata_calls_and_the_drain_too() {
    let config = SimConfig { write_back_bytes: 100 * MIB, disk_write_bytes_per_s: MIB, ..latency_only(100) };
    let fault = FaultConfig { duration_ns: 20 * SECOND, op: FaultOp::Read, ..at(0, FaultKind::Freeze) };
    let (t, mut c, f) = setup_with(config, fault);
    c.all(1, sequence(OpKind::Write, f, 10 * MIB, MIB));
    let start = c.now();
    c.submit(&read(f, 0, 1), 0).unwrap();
    c.clock.advance_to(start + 10 * SECOND);
    let written = t.stats().disk_written_bytes;
    c.session.stat("f").unwrap();
    assert_eq!(c.now() - start, 50 + 20 * SECOND + 50);
    assert_eq!(written, 2 * MIB, "one request under way, one waiting");
    assert_eq!(t.stats().disk_written_bytes, written);
}

fn lost(token: u32) -> Completion {
    Completion { token, bytes: 0, error: Some(OpError::from_errno(errno::ECONNRESET)) }
}

#[test]
fn a_disconnect_fails_all_that_is_outstanding_and_all_that_follows() {
    let (t, mut c, f) = setup_with(latency_only(1000), at(1, FaultKind::Disconnect));
    for i in 0..3 {
        c.submit(&read(f, 0, 1), i).unwrap();
    }
    let mut done = c.wait().unwrap();
    done.sort_by_key(|d| d.token);
    assert_eq!(lost(0).error.unwrap().kind, ErrorKind::Disconnected);
    // Operation 0 was served before operation 1 cut the line, but its answer was under way.
    assert_eq!(done, [lost(0), lost(1), lost(2)]);
    let kinds = [
        c.submit(&read(f, 0, 1), 9).map(|_| ()),
        c.session.reap(0, None, &mut Vec::new()).map(|_| ()),
        c.session.flush(f, Default::default()),
        c.session.stat("f").map(|_| ()),
        c.session.open("f", &read_write()).map(|_| ()),
        c.session.close(f),
    ];
    for (i, result) in kinds.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().kind, ErrorKind::Disconnected, "call {i}");
    }
    assert_eq!(c.session.next_event_ns(), None);
    let mut other = Client::new(&t);
    let g = other.open("f", &read_write());
    assert_eq!(other.one(&read(g, 0, 1)).done.error, None, "others go on");
}

#[test]
fn a_disconnect_of_all_cuts_every_session() {
    let (t, mut a, f) =
        setup_with(latency_only(1000), FaultConfig { scope: FaultScope::All, ..at(1, FaultKind::Disconnect) });
    let mut b = Client::new(&t);
    let g = b.open("f", &read_write());
    b.submit(&read(g, 0, 1), 5).unwrap();
    a.submit(&read(f, 0, 1), 6).unwrap();
    assert_eq!(a.wait().unwrap(), [lost(6)]);
    assert_eq!(b.wait().unwrap(), [lost(5)]);
    assert!(b.submit(&read(g, 0, 1), 7).is_err());
}

#[test]
fn a_session_cut_off_inside_a_call_returns_from_it() {
    let (t, mut a, f) =
        setup_with(latency_only(1000), FaultConfig { scope: FaultScope::All, ..at(0, FaultKind::Disconnect) });
    let mut b = Client::new(&t);
    a.submit(&read(f, 0, 1), 0).unwrap();
    assert_eq!(b.session.stat("f").unwrap_err().kind, ErrorKind::Disconnected);
    assert_eq!(a.wait().unwrap(), [lost(0)]);
    let err = b.session.reap(0, None, &mut Vec::new()).unwrap_err();
    assert_eq!(err.kind, ErrorKind::Disconnected, "the call is no operation to reap");
}

#[test]
fn a_submission_after_the_cut_fails_even_before_a_reap() {
    let (_t, mut c, f) = setup(at(0, FaultKind::Disconnect));
    c.submit(&read(f, 0, 1), 0).unwrap();
    c.clock.advance_to(c.now() + SECOND);
    assert!(c.submit(&read(f, 0, 1), 1).is_err());
    assert_eq!(c.wait().unwrap(), [lost(0)]);
}

#[test]
fn every_rule_counts_every_operation() {
    let t =
        target(SimConfig { faults: vec![at(0, FaultKind::Error), at(1, FaultKind::Enospc)], ..SimConfig::default() });
    let mut c = Client::new(&t);
    let f = c.open("f", &read_write());
    let seen = c.try_all(1, (0..4).map(|i| write(f, i, 1)));
    let expected = [(0, OpError::from_errno(errno::EIO)), (1, OpError::from_errno(errno::ENOSPC))];
    assert_eq!(errors(&seen), expected);
}

#[test]
fn short_moves_half() {
    for kind in [OpKind::Read, OpKind::Write] {
        let (t, mut c, f) = setup(at(0, FaultKind::Short));
        let done = c.one(&op(kind, f, 0, 1000)).done;
        assert_eq!(done.bytes, 500);
        let error = done.error.unwrap();
        assert_eq!((error.kind, error.status), (ErrorKind::Short, 0));
        assert_eq!(t.stats().disk_read_bytes + t.stats().disk_written_bytes, 500);
    }
}

fn keeping() -> SimConfig {
    SimConfig { store_data: true, ..SimConfig::default() }
}

fn differing(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).filter(|(x, y)| x != y).count()
}

#[test]
fn a_corrupt_read_flips_one_byte_once() {
    let fault = FaultConfig { op: FaultOp::Read, ..at(0, FaultKind::Corrupt) };
    let (_t, mut c, f) = setup_with(keeping(), fault);
    let mut data = [7u8; 1000];
    assert_eq!(c.one_with(&write(f, 0, 1000), &mut data).done.error, None);
    let mut back = [0u8; 1000];
    assert_eq!(c.one_with(&read(f, 0, 1000), &mut back).done.error, None);
    assert_eq!(differing(&data, &back), 1);
    c.one_with(&read(f, 0, 1000), &mut back);
    assert_eq!(differing(&data, &back), 0);
}

#[test]
fn a_corrupt_write_stays_corrupt() {
    let (_t, mut c, f) = setup_with(keeping(), at(0, FaultKind::Corrupt));
    let mut data = [7u8; 1000];
    assert_eq!(c.one_with(&write(f, 50, 1000), &mut data).done.error, None);
    assert_eq!(data, [7u8; 1000], "the caller's buffer is left alone");
    for _ in 0..2 {
        let mut back = [0u8; 1000];
        c.one_with(&read(f, 50, 1000), &mut back);
        assert_eq!(differing(&data, &back), 1);
    }
}

#[test]
fn a_flush_can_fail_both_ways() {
    let rule = |n| FaultConfig { op: FaultOp::Flush, ..at(n, FaultKind::Error) };
    let (_t, mut c, f) = setup(rule(1));
    c.session.flush(f, Default::default()).unwrap();
    let err = c.session.flush(f, Default::default()).unwrap_err();
    assert_eq!((err.kind, err.status), (ErrorKind::Io, errno::EIO.into()));
    let (_t, mut c, f) = setup(rule(0));
    let done = c.one(&op(OpKind::Flush, f, 0, 0)).done;
    assert_eq!(done.error, Some(OpError::from_errno(errno::EIO)));
}

#[test]
fn a_faulty_operation_goes_around_the_client_cache() {
    let config = SimConfig { client_cache_bytes: MIB, ..SimConfig::default() };
    let (_t, mut c, f) = setup_with(config, at(1, FaultKind::Error));
    assert_eq!(c.one(&read(f, 0, 4096)).done.error, None);
    assert!(c.one(&read(f, 0, 4096)).done.error.is_some());
}

#[test]
fn a_dropped_session_touches_no_buffer() {
    let (t, mut a, f) = setup_with(keeping(), at(100, FaultKind::Error));
    let mut b = Client::new(&t);
    let g = b.open("f", &read_write());
    let mut data = vec![7u8; 4096];
    b.one_with(&write(g, 0, 4096), &mut data);
    let mut lent = vec![1u8; 4096];
    // SAFETY: `lent` outlives the session.
    unsafe { a.session.submit(&read(f, 0, 4096), IoBuf::from_slice(&mut lent), 0) }.unwrap();
    drop(a);
    b.one_with(&read(g, 0, 4096), &mut data);
    assert_eq!(lent, vec![1u8; 4096]);
    assert_eq!(data, vec![7u8; 4096]);
}

#[test]
fn facts_tell_what_was_simulated_and_what_happened() {
    let (t, mut c, f) = setup(at(0, FaultKind::Error));
    c.one(&read(f, 0, 1));
    let facts = t.facts();
    let get = |name: &str| {
        let found = facts.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str()).unwrap_or("missing")
    };
    assert_eq!(get("simulated"), "true");
    assert_eq!(get("seed"), "1");
    assert_eq!(get("faults"), "1");
    assert_eq!(get("reads"), "1");
    let config: SimConfig = serde_json::from_str(get("config")).unwrap();
    assert_eq!(config.faults[0].kind, FaultKind::Error);
}
