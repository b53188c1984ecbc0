//! The run specification, as `python/naslab/spec.py` writes it. Unknown names are refused.

use crate::script::ScriptSpec;
use crate::walk::WalkSpec;
use naslab_core::{Access, Create, FlushKind, Lock, OpenOptions, SyncMode};
use naslab_workload::{ArrivalKind, DataKind, Pattern};
use serde::Deserialize;

/// Version of the specification this engine reads.
pub const SPEC_SCHEMA: u32 = 1;

/// A whole run. Times in nanoseconds, sizes in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Version of this form.
    pub schema: u32,
    /// Identity of the run; goes into block tags and the folder's mark.
    pub run_id: String,
    /// The command that planned it (kept with the result).
    pub command: String,
    /// Target options, read by whoever makes the target.
    pub target: serde_json::Value,
    /// Folder made for the run under the target's root; `None`: files lie in the root, as named.
    pub folder: Option<String>,
    /// Cells, in order.
    pub cells: Vec<CellSpec>,
    /// Files removed at the end, however the run ends.
    pub cleanup_files: Vec<String>,
    /// What to do about files named by cells that exist and that naslab did not write.
    #[serde(default)]
    pub existing: Existing,
    /// Seed of everything random.
    pub seed: u64,
    /// Longest time without any completion before the run is given up.
    pub timeout_ns: u64,
    /// How long a server that goes away during a cell is waited for; 0: its session ends at once.
    #[serde(default)]
    pub ride_out_ns: u64,
    /// A session without an answer in time ends its cell alone, as one whose connection was lost, and not the run.
    #[serde(default)]
    pub goes_on: bool,
    /// Time between progress events.
    pub progress_interval_ns: u64,
    /// Other clients carry the same cells out: [`crate::Events::together`] says when to go on.
    #[serde(default)]
    pub together: bool,
    /// The folder is another client's: it is neither made nor removed.
    #[serde(default)]
    pub join_folder: bool,
    /// Short cells of one worker follow each other at once, and are reported after the last of them: nothing that is done
    /// between them pushes their data out of the processor's caches.
    #[serde(default)]
    pub back_to_back: bool,
}

/// Treatment of files that naslab did not write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Existing {
    /// Refuse to touch them.
    #[default]
    Refuse,
    /// They may be read, not written.
    Read,
    /// They may be overwritten and removed.
    Overwrite,
}

/// One set of parameters, carried out once. Fields as documented in `spec.py`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct CellSpec {
    pub op: String,
    pub file_bytes: u64,
    pub record_bytes: u32,
    pub files: Vec<String>,
    pub id: u64,
    #[serde(default)]
    pub block: u64,
    pub workers: u32,
    pub queue_depth: u32,
    pattern: PatternName,
    stride_records: u64,
    #[serde(default)]
    pub walk: Option<WalkSpec>,
    #[serde(default)]
    pub script: Option<ScriptSpec>,
    pub write_fraction: f64,
    pub read_workers: Option<u32>,
    pub seed: u64,
    create: CreateName,
    pub remove_before: bool,
    pub truncate: bool,
    pub direct: bool,
    sync: SyncName,
    access: AccessName,
    lock: LockName,
    pub cold: bool,
    #[serde(default)]
    pub fresh_sessions: bool,
    pub prime: bool,
    pub stop_bytes: Option<u64>,
    pub stop_ops: Option<u64>,
    pub duration_ns: Option<u64>,
    pub warmup_ns: u64,
    pub stonewall: bool,
    #[serde(default)]
    pub finish_untimed: bool,
    flush: FlushName,
    pub timed_flush: bool,
    pub timed_close: bool,
    pub think_ns: u64,
    #[serde(default)]
    pub think_counted: bool,
    pub pace: Option<PaceSpec>,
    #[serde(default)]
    pub burst_ops: u32,
    #[serde(default)]
    pub burst_gap_ns: u64,
    #[serde(default)]
    pub cooldown_ns: u64,
    data: DataSpecJson,
    pub verify: bool,
    pub interval_ns: u64,
    pub record_ops: bool,
    #[serde(default)]
    pub durability: serde_json::Value,
    #[serde(default)]
    pub cache_state: serde_json::Value,
    #[serde(default)]
    pub workload: serde_json::Value,
    #[serde(default)]
    pub clients: serde_json::Value,
}

/// Open loop.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaceSpec {
    /// Operations per second over all workers.
    pub rate_per_s: f64,
    arrival: ArrivalName,
    /// Only limit the rate: latency counts from submission.
    #[serde(default)]
    pub limit: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataSpecJson {
    kind: DataName,
    compress_ratio: f64,
    dedupe_ratio: f64,
    fill: u8,
}

macro_rules! names {
    ($name:ident: $($variant:ident),+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum $name { $($variant),+ }
    };
}
names!(PatternName: Sequential, Permutation, Random, Backward, Stride, SameRecord);
names!(CreateName: Never, IfMissing, New);
names!(SyncName: None, Data, All, ReadsToo);
names!(AccessName: Positioned, Cursor, Stdio, Mmap);
names!(LockName: None, File, Record);
names!(FlushName: None, Data, All);
names!(ArrivalName: Constant, Poisson);
names!(DataName: Random, Iozone, Fill);

impl RunSpec {
    /// Path under the target's root of a file named by a cell.
    pub fn path(&self, name: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_string(),
        }
    }
}

impl PaceSpec {
    /// Spacing of arrivals.
    pub fn arrival(&self) -> ArrivalKind {
        match self.arrival {
            ArrivalName::Constant => ArrivalKind::Constant,
            ArrivalName::Poisson => ArrivalKind::Poisson,
        }
    }
}

impl CellSpec {
    /// Order of records.
    pub fn pattern(&self) -> Pattern {
        match self.pattern {
            PatternName::Sequential => Pattern::Sequential,
            PatternName::Permutation => Pattern::Permutation,
            PatternName::Random => Pattern::Random,
            PatternName::Backward => Pattern::Backward,
            PatternName::Stride => Pattern::Stride { records: self.stride_records },
            PatternName::SameRecord => Pattern::SameRecord,
        }
    }

    /// Whether latency counts from due times.
    pub fn open_loop(&self) -> bool {
        self.pace.is_some_and(|pace| !pace.limit)
    }

    /// Whether one pass writes every record exactly once.
    pub fn covers_file(&self) -> bool {
        if self.script.is_some() {
            return false;
        }
        let ordered =
            matches!(self.pattern, PatternName::Sequential | PatternName::Permutation | PatternName::Backward);
        ordered && self.walk.is_none() && self.write_fraction >= 1.0 && self.read_workers.is_none() && self.one_pass()
    }

    /// Whether the cell is bounded by the file alone.
    pub fn one_pass(&self) -> bool {
        self.stop_bytes.is_none() && self.stop_ops.is_none() && self.duration_ns.is_none()
    }

    /// What ends the cell if neither time nor an error does: `ops`, `bytes`, or `done` for the file's end.
    pub fn bound(&self) -> &'static str {
        let by_bytes = self.stop_bytes.map(|b| b / self.record_bytes.max(1) as u64);
        match (self.stop_ops, by_bytes) {
            (Some(ops), Some(by_bytes)) if by_bytes < ops => "bytes",
            (Some(_), _) => "ops",
            (None, Some(_)) => "bytes",
            (None, None) => "done",
        }
    }

    /// Whole records in the file.
    pub fn records(&self) -> u64 {
        self.file_bytes / self.record_bytes.max(1) as u64
    }

    /// Share of writes of one worker.
    pub fn write_fraction_of(&self, worker: u32) -> f64 {
        match self.read_workers {
            Some(readers) if worker < readers => 0.0,
            Some(_) => 1.0,
            None => self.write_fraction,
        }
    }

    /// Whether any worker writes.
    pub fn writes(&self) -> bool {
        (0..self.workers).any(|w| self.write_fraction_of(w) > 0.0)
    }

    /// Whether the cell leaves its files as they are.
    pub fn only_reads(&self) -> bool {
        !self.writes() && !self.remove_before
    }

    /// Whether any worker reads.
    pub fn reads(&self) -> bool {
        (0..self.workers).any(|w| self.write_fraction_of(w) < 1.0)
    }

    /// The file of a worker.
    pub fn file_of(&self, worker: u32) -> &str {
        let i = if self.files.len() == 1 { 0 } else { worker as usize };
        &self.files[i]
    }

    /// Whether several workers share one file.
    pub fn shared_file(&self) -> bool {
        self.files.len() == 1 && self.workers > 1
    }

    /// Contents of written blocks.
    pub fn data_kind(&self) -> DataKind {
        match self.data.kind {
            DataName::Random => {
                DataKind::Random { compress_ratio: self.data.compress_ratio, dedupe_ratio: self.data.dedupe_ratio }
            }
            DataName::Iozone => DataKind::Iozone,
            DataName::Fill => DataKind::Fill(self.data.fill),
        }
    }

    /// What the last flush must reach, if there is one.
    pub fn flush_kind(&self) -> Option<FlushKind> {
        match self.flush {
            FlushName::None => None,
            FlushName::Data => Some(FlushKind::Data),
            FlushName::All => Some(FlushKind::All),
        }
    }

    /// How a worker opens its file.
    pub fn open_options(&self, worker: u32) -> OpenOptions {
        let writes = self.write_fraction_of(worker) > 0.0;
        OpenOptions {
            read: true,
            write: writes,
            create: match self.create {
                CreateName::Never => Create::Never,
                CreateName::IfMissing => Create::IfMissing,
                CreateName::New => Create::New,
            },
            truncate: self.truncate,
            direct: self.direct,
            sync: match self.sync {
                SyncName::None => SyncMode::None,
                SyncName::Data => SyncMode::Data,
                SyncName::All => SyncMode::All,
                SyncName::ReadsToo => SyncMode::ReadsToo,
            },
            access: self.access(),
            lock: match self.lock {
                LockName::None => Lock::None,
                LockName::File => Lock::File,
                LockName::Record => Lock::Record,
            },
            record_bytes: self.record_bytes,
            file_bytes: self.file_bytes,
            ..OpenOptions::default()
        }
    }

    /// How bytes are reached.
    pub fn access(&self) -> Access {
        match self.access {
            AccessName::Positioned => Access::Positioned,
            AccessName::Cursor => Access::Cursor,
            AccessName::Stdio => Access::Stdio,
            AccessName::Mmap => Access::Mmap,
        }
    }

    /// Whether locks are asked for.
    pub fn locks(&self) -> bool {
        self.lock != LockName::None
    }

    /// Whether workers would wait for one another to close the file before any of them could begin.
    pub fn locks_itself_out(&self) -> bool {
        self.lock == LockName::File && self.shared_file() && self.writes()
    }

    /// Whether each write must be durable.
    pub fn syncs(&self) -> bool {
        self.sync != SyncName::None
    }
}
