//! Thin wrappers of the calls that differ between systems, and errno handling.

use crate::paths::Place;
use naslab_core::{Error, FileTimes, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

#[cfg(target_os = "linux")]
pub(crate) const O_DIRECT: libc::c_int = libc::O_DIRECT;
#[cfg(not(target_os = "linux"))]
pub(crate) const O_DIRECT: libc::c_int = 0;

/// On Linux O_RSYNC has the value of O_SYNC; where it is missing O_SYNC stands in.
#[cfg(target_os = "linux")]
pub(crate) const O_RSYNC: libc::c_int = libc::O_RSYNC;
#[cfg(not(target_os = "linux"))]
pub(crate) const O_RSYNC: libc::c_int = libc::O_SYNC;

/// The present errno.
#[inline]
pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Repeats `call` while it is interrupted; -1 becomes the error.
pub(crate) fn retry(mut call: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        let result = call();
        if result != -1 {
            return Ok(result);
        }
        let err = io::Error::last_os_error();
        if err.kind() != io::ErrorKind::Interrupted {
            return Err(err);
        }
    }
}

/// `fsync`, or `fdatasync` when only data counts.
pub(crate) fn sync_fd(fd: RawFd, data_only: bool) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if data_only {
        // SAFETY: the call takes no memory; a wrong descriptor is an error.
        return retry(|| unsafe { libc::fdatasync(fd) }).map(drop);
    }
    let _ = data_only;
    // SAFETY: as above.
    retry(|| unsafe { libc::fsync(fd) }).map(drop)
}

/// `ftruncate`.
pub(crate) fn truncate_fd(fd: RawFd, len_bytes: u64) -> io::Result<()> {
    let len = libc::off_t::try_from(len_bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: the call takes no memory; a wrong descriptor is an error.
    retry(|| unsafe { libc::ftruncate(fd, len) }).map(drop)
}

/// Takes O_NONBLOCK off, with which files are opened so that a pipe cannot hold the call up.
pub(crate) fn set_blocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags.difference(rustix::fs::OFlags::NONBLOCK))?)
}

/// `utimensat`; a link's own times.
pub(crate) fn set_times(at: &Place, times: FileTimes) -> io::Result<()> {
    let both = [times.accessed_ns, times.modified_ns].map(|ns| libc::timespec {
        tv_sec: ns.div_euclid(1_000_000_000) as _,
        tv_nsec: ns.rem_euclid(1_000_000_000) as _,
    });
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    let (folder, name) = (at.folder().as_raw_fd(), at.name.as_ptr());
    // SAFETY: an open folder, a name that ends with zero and two times, as the call takes them.
    retry(|| unsafe { libc::utimensat(folder, name, both.as_ptr(), flags) }).map(drop)
}

/// Closes a descriptor and reports what the close said: on NFS that is where late write errors come
/// up. The descriptor is gone in any case.
pub(crate) fn close_fd(fd: RawFd) -> Result<()> {
    // SAFETY: the caller gives up the descriptor.
    if unsafe { libc::close(fd) } == -1 && errno() != libc::EINTR {
        return Err(Error::last_os("close"));
    }
    Ok(())
}

/// Gives every byte of `0..len_bytes` a place on the disk and makes the file at least that long, so
/// that a store through a memory map cannot run out of space (which would be SIGBUS). File systems
/// without `fallocate` only get the length.
pub(crate) fn reserve(fd: RawFd, len_bytes: u64, present_bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let len = libc::off_t::try_from(len_bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        // SAFETY: the call takes no memory; a wrong descriptor is an error.
        match retry(|| unsafe { libc::fallocate(fd, 0, 0, len) }) {
            Ok(_) => return Ok(()),
            Err(err) if err.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            Err(err) => return Err(err),
        }
    }
    if present_bytes < len_bytes {
        truncate_fd(fd, len_bytes)?;
    }
    Ok(())
}

/// Writes a file back and asks the system to drop its cached pages.
pub(crate) fn drop_cached(file: &File) -> io::Result<()> {
    sync_fd(file.as_raw_fd(), false)?;
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the call takes no memory. It returns the error instead of setting errno.
        let code = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
    }
    Ok(())
}
