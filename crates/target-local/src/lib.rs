//! Local and mounted paths through POSIX calls or io_uring.
//!
//! [`LocalTarget`] tests a folder. Two engines reach it: *posix* carries out one operation at a time in
//! the worker's thread, in every way the C library offers; *uring* (Linux) keeps many operations in
//! flight.
//!
//! Nothing here leaves the root: absolute paths and `..` are refused, and no file is created or cut
//! through a symbolic link as last part of a path. Inside a run's folder no link is followed at all.

mod beneath;
mod cache;
mod direct;
mod flags;
mod local;
mod locks;
mod map;
pub mod mounts;
mod paths;
mod posix;
#[cfg(target_os = "linux")]
mod ring;
mod slab;
mod space;
mod stream;
mod sys;
mod transfer;
mod tree;
#[cfg(target_os = "linux")]
mod uring;

pub use direct::direct_alignment;
pub use local::{Engine, LocalOptions, LocalTarget};
