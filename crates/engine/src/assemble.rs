//! Merges the workers' results of a cell into one.

use crate::cell::{CellJob, WorkerResult};
use crate::conditions::Client;
use crate::hist::{encode, LatencySummary};
use crate::recorder::{Interval, KindSet, Recorder, SeriesRow, KIND_NAMES};
use crate::result::*;
use crate::spec::CellSpec;
use crate::stall::Seen;
use crate::usage::Cpu;
use crate::verify::Verified;
use crate::worker::StopReason;
use naslab_core::{Error, OpError, OpKind, Target, Told, WireCounters};
use naslab_workload::Reducibility;
use std::collections::BTreeMap;

/// A file whose pages are cached beyond this share was not read or written directly.
const DIRECT_CACHED_MAX: f64 = 0.01;

/// Readings taken around the cell by the coordinator.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub start_wall_ns: u64,
    pub storage: Option<(u64, u64)>,
    pub measured: Option<Reducibility>,
    pub outages: Vec<Outage>,
    pub client: Client,
    /// None on a virtual clock.
    pub stalls: Option<Seen>,
}

/// The cell's result. `workers` is not empty.
pub(crate) fn assemble(job: &CellJob, workers: &[WorkerResult], around: &Around, target: &dyn Target) -> CellOutcome {
    let mut blobs = Vec::new();
    let interval = Interval { ticks: 1, ns: job.spec.interval_ns };
    let mut merged =
        Recorder::new(KindSet::default(), job.spec.open_loop(), interval, job.spec.record_ops.then_some(0));
    workers.iter().for_each(|w| merged.merge(&w.recorder));
    let (ops, bytes) = merged.totals();
    let times = Times::of(workers);
    let stop = stop_reason(&job.spec, workers);
    let cpu = cpu(workers, job.clock.is_virtual());
    let verified = merge_verified(workers);
    let bad = verified.as_ref().map_or(0, |v| v.bad);
    let failed = stop == "error" || merged.error_count > 0 || bad > 0 || workers.iter().any(WorkerResult::broke);
    let storage = around.storage;
    let log = push_log(job, &mut merged, workers, &mut blobs);
    let (op_log, step_log) = if job.script.is_some() { (None, log) } else { (log, None) };
    let result = CellResult {
        id: job.spec.id,
        op: job.spec.op.clone(),
        status: status(stop, failed),
        stop_reason: stop,
        start_ns: times.start_ns,
        end_ns: times.end_ns,
        start_wall_ns: around.start_wall_ns,
        window_ns: times.end_ns - times.start_ns,
        pause_ns: times.pause_ns,
        duration_ns: (times.end_ns - times.start_ns).saturating_sub(times.pause_ns),
        acknowledged_ns: (times.ack_ns - times.start_ns).saturating_sub(times.pause_ns),
        flush_ns: workers.iter().filter_map(|w| w.flush_ns).max(),
        close_ns: workers.iter().map(|w| w.close_ns).max().unwrap_or(0),
        warmup_bytes: workers.iter().map(|w| w.warm_up.1).sum(),
        warmup_ops: workers.iter().map(|w| w.warm_up.0).sum(),
        bytes,
        ops,
        errors: merged.error_count,
        errors_by_status: statuses(&merged),
        first_error: first_error(workers, target),
        kinds: kinds(&merged, &mut blobs),
        workers: workers.iter().map(|w| summary(w, &job.spec)).collect(),
        cpu_user_ns: cpu.user_ns,
        cpu_system_ns: cpu.system_ns,
        generation_cpu_ns: workers.iter().map(|w| w.generation_ns).sum(),
        verify_cpu_ns: verified.as_ref().map_or(0, |v| v.cpu_ns),
        wire: wire(workers),
        wire_by_address: wire_by_address(workers),
        outages: around.outages.clone(),
        protocol_events: events(workers),
        storage_read_bytes: storage.map(|s| s.0),
        storage_write_bytes: storage.map(|s| s.1),
        interval_ns: job.spec.interval_ns,
        series: push(&mut blobs, rows(&merged.series)),
        wire_series: wire_series(&merged, workers, &mut blobs),
        op_log,
        step_log,
        missed_starts: workers.iter().map(|w| w.missed_starts).sum(),
        verified: verified.map(verified_summary),
        direct_proof: direct_proof(job, workers, bytes, storage),
        data_measured: around.measured,
        client: around.client,
        client_stall: around.stalls.as_ref().map(|seen| seen.within(times.start_ns, times.end_ns)),
    };
    CellOutcome { result, blobs }
}

fn status(stop: &str, failed: bool) -> &'static str {
    match (stop, failed) {
        ("interrupted", _) => "partial",
        (_, true) => "failed",
        _ => "complete",
    }
}

/// What was done in order, if that was asked for.
fn push_log(job: &CellJob, merged: &mut Recorder, workers: &[WorkerResult], blobs: &mut Vec<Vec<u8>>) -> Option<usize> {
    if job.script.is_some() {
        from_the_windows_start(merged, workers);
    }
    merged.op_log.as_ref().and_then(|log| push(blobs, rows(log)))
}

/// Times of a script's steps count from the start of the cell's window instead of each worker's.
fn from_the_windows_start(merged: &mut Recorder, workers: &[WorkerResult]) {
    let start_ns = Times::of(workers).start_ns;
    let mut later = vec![0; workers.len()];
    for w in workers {
        if let Some(own) = later.get_mut(w.worker as usize) {
            *own = w.start_ns.saturating_sub(start_ns) as i64;
        }
    }
    for row in merged.op_log.iter_mut().flatten() {
        row[1] += later.get(row[3] as usize).copied().unwrap_or(0);
    }
}

struct Times {
    start_ns: u64,
    ack_ns: u64,
    end_ns: u64,
    pause_ns: u64,
}

impl Times {
    fn of(workers: &[WorkerResult]) -> Times {
        let start_ns = workers.iter().map(|w| w.start_ns).min().unwrap_or(0);
        let last = |f: fn(&WorkerResult) -> u64| workers.iter().map(f).max().unwrap_or(start_ns).max(start_ns);
        Times {
            start_ns,
            ack_ns: last(|w| w.ack_ns),
            end_ns: last(|w| w.end_ns),
            pause_ns: workers.iter().map(|w| w.pause_ns).sum::<u64>() / workers.len().max(1) as u64,
        }
    }
}

/// CPU time of the process from the first worker's start to the last one's end. On a virtual clock each session
/// has its own, and they add up.
fn cpu(workers: &[WorkerResult], is_virtual: bool) -> Cpu {
    if is_virtual {
        let user_ns = workers.iter().map(|w| w.cpu_after.since(w.cpu_before).user_ns).sum();
        return Cpu { user_ns, system_ns: 0 };
    }
    let first = |f: fn(Cpu) -> u64| workers.iter().map(|w| f(w.cpu_before)).min().unwrap_or(0);
    let last = |f: fn(Cpu) -> u64| workers.iter().map(|w| f(w.cpu_after)).max().unwrap_or(0);
    let after = Cpu { user_ns: last(|c| c.user_ns), system_ns: last(|c| c.system_ns) };
    after.since(Cpu { user_ns: first(|c| c.user_ns), system_ns: first(|c| c.system_ns) })
}

/// What went wrong first: a failed session before a failed operation.
fn first_error(workers: &[WorkerResult], target: &dyn Target) -> Option<Told> {
    let session = workers.iter().filter(|w| w.broke()).find_map(|w| w.error.as_ref()).map(Error::told);
    let session = session.or_else(|| workers.iter().find_map(|w| w.first_call_error.clone()));
    let operation = || workers.iter().find_map(|w| w.recorder.errors.first());
    let told = |e: &OpError| match target.explain(e) {
        Some(words) => words,
        None if e.status == 0 => e.kind.name().to_string(),
        None => format!("{}, status={}", e.kind.name(), e.status),
    };
    session.or_else(|| operation().map(|(e, _)| Told::plain(*e, format!("an operation failed: {}", told(e)))))
}

fn stop_reason(spec: &CellSpec, workers: &[WorkerResult]) -> &'static str {
    let any = |reason| workers.iter().any(|w| w.stop == reason);
    if any(StopReason::Error) || workers.iter().any(WorkerResult::broke) {
        "error"
    } else if any(StopReason::Interrupted) || workers.iter().any(|w| w.error.is_some()) {
        "interrupted"
    } else if any(StopReason::Stonewall) {
        "stonewall"
    } else if any(StopReason::Duration) {
        "duration"
    } else {
        spec.bound()
    }
}

fn merge_verified(workers: &[WorkerResult]) -> Option<Verified> {
    let mut all: Option<Verified> = None;
    for found in workers.iter().filter_map(|w| w.verified.as_ref()) {
        all.get_or_insert_with(Verified::default).merge(found);
    }
    all
}

fn verified_summary(v: Verified) -> VerifiedSummary {
    VerifiedSummary {
        blocks: v.blocks,
        bad: v.bad,
        first_bad: v.first_bad.map(|(at, defect)| format!("at byte {at}: {defect:?}")),
    }
}

fn statuses(merged: &Recorder) -> Vec<StatusCount> {
    let count =
        |(e, count): &(naslab_core::OpError, u64)| StatusCount { kind: e.kind.name(), status: e.status, count: *count };
    merged.errors.iter().map(count).collect()
}

fn kinds(merged: &Recorder, blobs: &mut Vec<Vec<u8>>) -> BTreeMap<&'static str, KindResult> {
    let mut out = BTreeMap::new();
    let several = merged.series.len() > 1;
    for (name, record) in KIND_NAMES.into_iter().zip(&merged.kinds) {
        let Some(record) = record.as_ref().filter(|r| r.ops > 0) else { continue };
        let histogram = blobs.len();
        blobs.push(encode(&record.service));
        let response_histogram = record.response.as_ref().map(|h| {
            blobs.push(encode(h));
            blobs.len() - 1
        });
        let latencies = &record.timeline.rows;
        let latency_series = (several && !latencies.is_empty()).then(|| {
            blobs.push(latencies.iter().flatten().flat_map(|v| v.to_le_bytes()).collect());
            blobs.len() - 1
        });
        out.insert(
            name,
            KindResult {
                ops: record.ops,
                bytes: record.bytes,
                latency_ns: LatencySummary::of(&record.service, record.service_range.0, record.service_range.1),
                histogram,
                latency_series,
                response_ns: record
                    .response
                    .as_ref()
                    .map(|h| LatencySummary::of(h, record.response_range.0, record.response_range.1)),
                response_histogram,
            },
        );
    }
    out
}

fn summary(w: &WorkerResult, spec: &CellSpec) -> WorkerSummary {
    let (ops, bytes) = w.recorder.totals();
    WorkerSummary {
        worker: w.worker,
        bytes,
        ops,
        start_ns: w.start_ns,
        end_ns: w.end_ns,
        duration_ns: w.end_ns.saturating_sub(w.start_ns).saturating_sub(w.pause_ns),
        kinds: worker_kinds(w, spec),
    }
}

fn worker_kinds(w: &WorkerResult, spec: &CellSpec) -> BTreeMap<&'static str, WorkerKind> {
    // What was outstanding when the time was up is answered alone: that is no rate.
    let limit_ns = spec.duration_ns.filter(|_| w.stop == StopReason::Duration).unwrap_or(u64::MAX);
    let interval_ns = spec.interval_ns;
    let whole = (w.ack_ns.saturating_sub(w.start_ns).min(limit_ns) / interval_ns.max(1)) as usize;
    let of = |(kind, name): (usize, &'static str)| {
        let record = w.recorder.kinds[kind].as_ref()?;
        let found = WorkerKind {
            ops: record.ops,
            bytes: record.bytes,
            latency_mean_ns: record.service.mean(),
            latency_stddev_ns: record.service.stdev(),
            iops_stddev: if kind <= OpKind::Write as usize {
                iops_stddev(&w.recorder.series, kind, whole, interval_ns)
            } else {
                0.0
            },
        };
        Some((name, found))
    };
    KIND_NAMES.into_iter().enumerate().filter_map(of).collect()
}

/// Standard deviation of the operations per second of the first `whole` intervals (as of a population).
fn iops_stddev(series: &[SeriesRow], kind: usize, whole: usize, interval_ns: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    let ops = |i: usize| series.get(i).map_or(0.0, |row| row[2 * kind] as f64);
    let mean = (0..whole).map(ops).sum::<f64>() / whole as f64;
    let squares = (0..whole).map(|i| (ops(i) - mean).powi(2)).sum::<f64>();
    (squares / whole as f64).sqrt() * 1e9 / interval_ns as f64
}

/// Bytes on the wire by interval; none where the target does not count them or there is one interval only.
fn wire_series(merged: &Recorder, workers: &[WorkerResult], blobs: &mut Vec<Vec<u8>>) -> Option<usize> {
    let counted = workers.iter().any(|w| w.counted.wire.is_some()) && merged.series.len() > 1;
    counted.then(|| push(blobs, rows(&merged.wire))).flatten()
}

fn wire(workers: &[WorkerResult]) -> Option<Wire> {
    workers.iter().filter_map(|w| w.counted.wire).reduce(|sum, one| sum + one).map(Wire::from)
}

fn wire_by_address(workers: &[WorkerResult]) -> BTreeMap<String, Wire> {
    let mut all: BTreeMap<&String, WireCounters> = BTreeMap::new();
    for (address, counted) in workers.iter().flat_map(|w| &w.counted.addresses) {
        *all.entry(address).or_default() += *counted;
    }
    all.into_iter().map(|(address, counted)| (address.clone(), counted.into())).collect()
}

fn events(workers: &[WorkerResult]) -> BTreeMap<&'static str, u64> {
    let mut all = BTreeMap::new();
    for (name, count) in workers.iter().flat_map(|w| &w.counted.events) {
        *all.entry(*name).or_default() += count;
    }
    all
}

fn rows<const N: usize>(rows: &[[i64; N]]) -> Vec<u8> {
    rows.iter().flatten().flat_map(|v| v.to_le_bytes()).collect()
}

fn push(blobs: &mut Vec<Vec<u8>>, blob: Vec<u8>) -> Option<usize> {
    blobs.push(blob);
    Some(blobs.len() - 1)
}

/// Direct I/O leaves no pages behind and moves its bytes to or from storage.
fn direct_proof(
    job: &CellJob,
    workers: &[WorkerResult],
    bytes: u64,
    storage: Option<(u64, u64)>,
) -> Option<DirectProof> {
    if !job.spec.direct {
        return None;
    }
    let cached = workers
        .iter()
        .filter_map(|w| w.cached_fraction)
        .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
    let moved = storage.is_some_and(|(r, w)| (r + w) as f64 >= 0.95 * bytes as f64);
    let proven = match cached {
        Some(fraction) => fraction <= DIRECT_CACHED_MAX,
        None => moved || job.caps.virtual_time,
    };
    Some(DirectProof { o_direct: true, cached_fraction: cached, proven })
}

/// Column count of the series blob, for readers.
const _: () = assert!(std::mem::size_of::<SeriesRow>() == 56);
