//! Linux, and what else has POSIX's calls.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// CPU time of this process in nanoseconds: (in programs, in the kernel for them).
pub(crate) fn process_times() -> (u64, u64) {
    times(libc::RUSAGE_SELF)
}

/// The same of its children that ended and were waited for, with theirs.
pub(crate) fn children_times() -> (u64, u64) {
    times(libc::RUSAGE_CHILDREN)
}

fn times(whose: libc::c_int) -> (u64, u64) {
    // SAFETY: rusage is plain data and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whose, &mut usage);
        usage
    };
    (timeval_ns(usage.ru_utime), timeval_ns(usage.ru_stime))
}

fn timeval_ns(t: libc::timeval) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The unit of CPU times in /proc.
pub(crate) fn ticks_per_s() -> Option<u64> {
    // SAFETY: asks for a number.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(per_s).ok().filter(|per_s| *per_s > 0)
}

/// Reads all of `into` from a place in a file.
pub(crate) fn read_exact_at(file: &File, into: &mut [u8], offset_bytes: u64) -> io::Result<()> {
    file.read_exact_at(into, offset_bytes)
}
