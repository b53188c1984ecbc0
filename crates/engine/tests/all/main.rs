//! Runs of whole cells; one program, which is linked once.

mod common;
mod conditions;
mod counting;
mod determinism;
mod failures;
mod local;
mod stages;
mod timing;
mod verification;
mod walks;
mod workspace;
