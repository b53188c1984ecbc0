//! Signals that end a run, and descriptors that were opened for this program.

#[cfg_attr(unix, path = "os/unix.rs")]
#[cfg_attr(windows, path = "os/windows.rs")]
mod system;

pub use system::{create_private, listen, opened};
