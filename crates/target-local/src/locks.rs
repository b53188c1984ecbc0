//! File and record locks through `fcntl`.
//!
//! Open-file-description locks where the system has them: they belong to the open file, so that two
//! sessions of one process exclude each other and closing another descriptor does not release them.

use crate::sys;
use std::io;
use std::os::fd::RawFd;

/// Which lock, or its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Shared,
    Exclusive,
    Release,
}

/// Takes or releases the lock of `len_bytes` from `start_bytes` on (0: to the end of any file).
/// Blocks until it is granted.
pub(crate) fn set(fd: RawFd, kind: Kind, start_bytes: u64, len_bytes: u64) -> io::Result<()> {
    let code = match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
        Kind::Release => libc::F_UNLCK,
    };
    // SAFETY: flock is plain integers; zero is valid, and l_pid must be zero for these locks.
    let mut region: libc::flock = unsafe { std::mem::zeroed() };
    region.l_type = code as _;
    region.l_whence = libc::SEEK_SET as _;
    region.l_start = start_bytes as libc::off_t;
    region.l_len = len_bytes as libc::off_t;
    #[cfg(target_os = "linux")]
    {
        // SAFETY: `region` is a valid flock for the whole call.
        match sys::retry(|| unsafe { libc::fcntl(fd, libc::F_OFD_SETLKW, &region) }) {
            Err(err) if err.raw_os_error() == Some(libc::EINVAL) => {}
            other => return other.map(drop),
        }
    }
    // SAFETY: as above.
    sys::retry(|| unsafe { libc::fcntl(fd, libc::F_SETLKW, &region) }).map(drop)
}
