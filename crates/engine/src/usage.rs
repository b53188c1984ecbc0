//! CPU time and storage traffic of this process and thread.

use crate::os::{children_times, process_times};
use naslab_core::Session;

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl Cpu {
    /// Of the whole process; on a virtual clock of what the session stands for, with none of it the system's.
    pub fn of(session: &dyn Session) -> Cpu {
        session.virtual_cpu_ns().map_or_else(Cpu::now, |user_ns| Cpu { user_ns, system_ns: 0 })
    }

    /// Of the whole process.
    pub fn now() -> Cpu {
        Cpu::of_times(process_times())
    }

    /// Of its children that ended and were waited for, with theirs.
    pub fn of_ended_children() -> Cpu {
        Cpu::of_times(children_times())
    }

    /// In programs and in the kernel for them.
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    fn of_times((user_ns, system_ns): (u64, u64)) -> Cpu {
        Cpu { user_ns, system_ns }
    }

    /// Since `earlier`.
    pub fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// Bytes this process caused to be read from and written to storage (/proc/self/io), if the system says.
pub(crate) fn storage_bytes() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": ")?.trim().parse().ok());
    Some((field("read_bytes")?, field("write_bytes")?))
}

/// Bytes read and written between two such readings.
pub(crate) fn moved_bytes(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Option<(u64, u64)> {
    before.zip(after).map(|(b, a)| (a.0.saturating_sub(b.0), a.1.saturating_sub(b.1)))
}
