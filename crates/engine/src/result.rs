//! What a cell brings back, in the form of docs/notes/0001-seams.md.

use crate::conditions::Client;
use crate::hist::LatencySummary;
use naslab_core::{Error, Told, WireCounters};
use naslab_workload::Reducibility;
use serde::Serialize;
use std::collections::BTreeMap;

/// Progress of the cell under way.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Progress {
    pub cell: u64,
    pub bytes: u64,
    pub ops: u64,
    pub errors: u64,
    pub elapsed_ns: u64,
    pub bytes_per_s: f64,
    /// 99 % of the operations that ended lately took no longer; about a tenth exact.
    pub p99_ns: Option<u64>,
}

/// A cell result and the blobs it refers to by index.
#[derive(Debug)]
pub struct CellOutcome {
    /// The result.
    pub result: CellResult,
    /// Histograms, series, operation log.
    pub blobs: Vec<Vec<u8>>,
}

/// Result of one cell. Names as documented in docs/notes/0001-seams.md.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct CellResult {
    pub id: u64,
    pub op: String,
    pub status: &'static str,
    pub stop_reason: &'static str,
    pub start_ns: u64,
    pub end_ns: u64,
    pub start_wall_ns: u64,
    pub window_ns: u64,
    pub pause_ns: u64,
    pub duration_ns: u64,
    pub acknowledged_ns: u64,
    pub flush_ns: Option<u64>,
    pub close_ns: u64,
    pub warmup_bytes: u64,
    pub warmup_ops: u64,
    pub bytes: u64,
    pub ops: u64,
    pub errors: u64,
    pub errors_by_status: Vec<StatusCount>,
    pub first_error: Option<Told>,
    pub kinds: BTreeMap<&'static str, KindResult>,
    pub workers: Vec<WorkerSummary>,
    pub cpu_user_ns: u64,
    pub cpu_system_ns: u64,
    pub generation_cpu_ns: u64,
    pub verify_cpu_ns: u64,
    pub wire: Option<Wire>,
    /// By the server's address, of a target that was given several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub wire_by_address: BTreeMap<String, Wire>,
    pub protocol_events: BTreeMap<&'static str, u64>,
    /// Times without the server that were waited out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    pub storage_read_bytes: Option<u64>,
    pub storage_write_bytes: Option<u64>,
    pub interval_ns: u64,
    pub series: Option<usize>,
    pub wire_series: Option<usize>,
    pub op_log: Option<usize>,
    pub step_log: Option<usize>,
    pub missed_starts: u64,
    pub verified: Option<VerifiedSummary>,
    pub direct_proof: Option<DirectProof>,
    pub data_measured: Option<Reducibility>,
    pub client: Client,
    pub client_stall: Option<ClientStall>,
}

/// How long this client itself stood still within the timed window, and what its clocks did; all 0 where nothing was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ClientStall {
    pub longest_ns: u64,
    pub total_ns: u64,
    pub count: u64,
    /// The machine was suspended; no part of the durations.
    pub asleep_ns: u64,
    /// The largest step of the wall clock; below 0: back.
    pub clock_step_ns: i64,
}

/// Failures of one class and raw status.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct StatusCount {
    pub kind: &'static str,
    pub status: i64,
    pub count: u64,
}

/// One operation kind: counts, latency, indices of its histograms.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct KindResult {
    pub ops: u64,
    pub bytes: u64,
    pub latency_ns: LatencySummary,
    pub histogram: usize,
    pub response_ns: Option<LatencySummary>,
    pub response_histogram: Option<usize>,
    pub latency_series: Option<usize>,
}

/// One worker's share.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct WorkerSummary {
    pub worker: u32,
    pub bytes: u64,
    pub ops: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub duration_ns: u64,
    pub kinds: BTreeMap<&'static str, WorkerKind>,
}

/// One worker's operations of one kind.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct WorkerKind {
    pub ops: u64,
    pub bytes: u64,
    pub latency_mean_ns: f64,
    pub latency_stddev_ns: f64,
    pub iops_stddev: f64,
}

/// Bytes on the wire.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct Wire {
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

impl From<WireCounters> for Wire {
    fn from(counted: WireCounters) -> Wire {
        Wire { sent_bytes: counted.sent_bytes, received_bytes: counted.received_bytes }
    }
}

/// A time without the server that a worker waited out. Times on the monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outage {
    /// Whose session was lost.
    pub worker: u32,
    /// The server's last answer to an operation before.
    pub start_ns: u64,
    /// The files were open again.
    pub end_ns: u64,
    /// Attempts to connect, the last of which succeeded.
    pub attempts: u64,
    /// Open files that the server had kept, and that were claimed.
    pub kept_files: u64,
    /// Open files that it had not, and that were opened by name.
    pub reopened_files: u64,
    /// Operations that were outstanding and were submitted again.
    pub repeated_ops: u64,
    /// Calls about files and folders that had no answer and were made again.
    pub repeated_calls: u64,
    /// Of these, those that the server answered in the session in which they were made first: as it had then, or then.
    pub answers_replayed: u64,
    /// Of these, those that the server had carried out, as it answered that a name is taken or gone.
    pub calls_done_before: u64,
    /// Acknowledged writes that were read back, and their size.
    pub read_back_writes: u64,
    /// Their size in bytes.
    pub read_back_bytes: u64,
    /// Of these, those whose contents the server no longer had.
    pub lost_writes: u64,
    /// The newest of them.
    pub first_lost: Option<String>,
}

/// What checking found.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct VerifiedSummary {
    pub blocks: u64,
    pub bad: u64,
    pub first_bad: Option<String>,
}

/// Whether unbuffered I/O was seen to be unbuffered.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct DirectProof {
    pub o_direct: bool,
    pub cached_fraction: Option<f64>,
    pub proven: bool,
}

/// Something of a run that is still on the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The file or folder; empty where the error names it.
    pub path: String,
    /// Why it could not be removed; none of what somebody else put there.
    pub why: Option<Told>,
}

impl Left {
    /// What somebody else put into the run's folder.
    pub fn foreign(path: String) -> Left {
        Left { path, why: None }
    }

    /// What the error names.
    pub fn failed(error: &Error) -> Left {
        Left { path: String::new(), why: Some(error.told()) }
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.why {
            None => f.write_str(&self.path),
            Some(why) if self.path.is_empty() => write!(f, "{why}"),
            Some(why) => write!(f, "{}: {why}", self.path),
        }
    }
}
