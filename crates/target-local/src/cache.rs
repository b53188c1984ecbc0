//! How much of a file the page cache holds. This is the proof that unbuffered I/O was unbuffered:
//! tmpfs accepts O_DIRECT since Linux 6.6 and caches all the same.

use naslab_core::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `cachestat(2)`, Linux 6.5; one number on all architectures but those below.
#[cfg(all(target_os = "linux", not(any(target_arch = "mips", target_arch = "mips64"))))]
const SYS_CACHESTAT: libc::c_long = 451;

/// What `cachestat` fills in: pages by state.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Bytes looked at in one `mincore` call.
const WINDOW_BYTES: u64 = 1 << 30;

/// Share of the file's pages in the page cache, 0 to 1; `None` when the system does not tell this
/// identity (it does so for files the identity could write).
pub(crate) fn cached_fraction(file: &File) -> Result<Option<f64>> {
    let fail = |err| Error::from_io("cached_fraction", err);
    let len_bytes = file.metadata().map_err(fail)?.len();
    if len_bytes == 0 {
        return Ok(Some(0.0));
    }
    let pages = len_bytes.div_ceil(page_bytes());
    let cached = match cachestat(file) {
        Ok(cached) => cached,
        Err(err) => match err.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => return Ok(None),
            _ => mincore(file, len_bytes).map_err(fail)?,
        },
    };
    Ok(Some((cached as f64 / pages as f64).min(1.0)))
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf takes no memory.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096).max(1)
}

/// Cached pages of the whole file, without mapping it.
fn cachestat(file: &File) -> io::Result<u64> {
    #[cfg(all(target_os = "linux", not(any(target_arch = "mips", target_arch = "mips64"))))]
    {
        let range = [0u64; 2]; // offset and length; length 0 means to the end
        let mut stat = CacheStat::default();
        // SAFETY: both structs have the kernel's layout and live through the call.
        let code = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &range, &mut stat as *mut CacheStat, 0) };
        if code == 0 {
            return Ok(stat.cached);
        }
        Err(io::Error::last_os_error())
    }
    #[cfg(not(all(target_os = "linux", not(any(target_arch = "mips", target_arch = "mips64")))))]
    {
        let _ = (file, CacheStat::default());
        Err(io::Error::from_raw_os_error(libc::ENOSYS))
    }
}

/// Cached pages by mapping the file, window after window, without touching it.
fn mincore(file: &File, len_bytes: u64) -> io::Result<u64> {
    let page = page_bytes();
    let mut present = vec![0u8; (len_bytes.min(WINDOW_BYTES).div_ceil(page)) as usize];
    let mut cached = 0;
    let mut offset = 0;
    while offset < len_bytes {
        let window = (len_bytes - offset).min(WINDOW_BYTES);
        let pages = window.div_ceil(page) as usize;
        mincore_window(file, offset, window as usize, &mut present[..pages])?;
        cached += present[..pages].iter().filter(|&&p| p & 1 == 1).count() as u64;
        offset += window;
    }
    Ok(cached)
}

/// Fills one byte per page of the window.
fn mincore_window(file: &File, offset: u64, len: usize, present: &mut [u8]) -> io::Result<()> {
    // SAFETY: a new shared read-only map that nobody dereferences; `present` has a byte per page.
    unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset as libc::off_t,
        );
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let code = libc::mincore(map, len, present.as_mut_ptr().cast());
        let err = io::Error::last_os_error();
        libc::munmap(map, len);
        if code == 0 {
            Ok(())
        } else {
            Err(err)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn both_ways_see_a_fresh_file_as_cached() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(cached_fraction(&file).unwrap(), Some(0.0));
        file.write_all(&vec![7; 10 * page_bytes() as usize + 1]).unwrap();
        assert_eq!(cached_fraction(&file).unwrap(), Some(1.0));
        let len_bytes = file.metadata().unwrap().len();
        assert_eq!(mincore(&file, len_bytes).unwrap(), 11);
    }
}
