//! Files of this machine through both engines; one program, which is linked once.

mod behaviour;
mod common;
mod posix;
#[cfg(target_os = "linux")]
mod uring;
