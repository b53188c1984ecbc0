//! A simulated file server on a virtual clock: seeded, deterministic to the nanosecond.
//!
//! It has the parts whose limits a measurement meets: client CPU and cache, a link, server CPU, cache and
//! write-back, a disk, token buckets, and faults. Each is off or unlimited until configured, so what a
//! run should find is known exactly. `docs/reference/sim.md` describes every field.
//!
//! Absent on purpose: wall clocks, threads, printing, retries.
//!
//! A call runs the events that are due by the clock's present time; calls that block move the clock.
//! [`Session::next_event_ns`](naslab_core::Session::next_event_ns) tells when anything happens inside the
//! server, which is at the latest when the earliest operation finishes: a driver advances the clock to it
//! and looks again.

mod cache;
mod client;
mod config;
mod disk;
mod faults;
mod fs;
mod noise;
mod read_ahead;
mod resource;
mod serve;
mod server;
mod session;
mod stalls;
mod stats;
mod target;
mod writeback;

pub use config::{
    AppliesTo, BucketConfig, BucketScope, FaultConfig, FaultKind, FaultOp, FaultScope, FileConfig, SimConfig,
};
pub use stats::SimStats;
pub use target::SimTarget;
