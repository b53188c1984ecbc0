//! What the operating system says of this process and its threads.

#[cfg_attr(unix, path = "os/unix.rs")]
#[cfg_attr(windows, path = "os/windows.rs")]
mod system;

pub(crate) use system::{children_times, process_times, read_exact_at, thread_ns, ticks_per_s};
