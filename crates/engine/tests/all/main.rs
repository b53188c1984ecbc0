//! Runs of whole cells; one program, which is linked once.

#[cfg(target_os = "linux")]
mod back_to_back;
mod common;
mod conditions;
mod counting;
mod determinism;
mod failures;
#[cfg(target_os = "linux")]
mod local;
#[cfg(target_os = "linux")]
mod stages;
mod timing;
mod verification;
mod walks;
#[cfg(target_os = "linux")]
mod workspace;
