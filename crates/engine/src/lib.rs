//! Carries out a run: worker threads, a common start, pacing, recording.
//!
//! [`Run`] takes a [`RunSpec`] and a target, measures stages of cells and reports through [`Events`]; [`run`] is
//! a run of one stage. Results are returned, never printed. Only this crate starts threads. Targets on a virtual
//! clock are driven from one thread, so a simulated run gives the same result every time.

mod assemble;
mod cell;
mod cgroup;
mod conditions;
mod drive;
mod files;
mod hist;
mod machine;
mod os;
#[cfg_attr(not(target_os = "linux"), path = "os/no_prompt.rs")]
mod prompt;
mod recorder;
mod result;
mod ride_out;
mod run;
mod script;
mod spare;
mod spec;
mod stall;
mod steward;
mod threads;
mod timeline;
mod usage;
mod verify;
mod walk;
mod worker;
mod workspace;

pub use cgroup::cpu_quota_cores;
pub use conditions::Client;
pub use hist::{decode as decode_histogram, LATENCY_MAX_NS, LATENCY_SIGNIFICANT_DIGITS};
pub use machine::{memory_latency_ns, memory_rates, MemoryRates};
pub use result::{CellOutcome, CellResult, Left, Progress};
pub use run::{run, Events, Point, Run, RunEnd, StageEnd};
pub use spec::{CellSpec, Existing, RunSpec};
pub use workspace::{clean, discard, find_folders, make as make_folder, LeftFolder, FILE_PREFIX, MARKER_NAME};
