//! Files behind a shared memory map.
//!
//! When writing, all blocks are reserved before the map is made, so that a full disk is an error of
//! `open`. If somebody else cuts the file while it is mapped, the system kills the process with SIGBUS:
//! that is in the nature of maps.

use crate::sys;
use crate::transfer::{Moved, INVALID, SHORT};
use naslab_core::{Error, ErrorKind, FlushKind, Op, OpError, OpKind, OpenOptions, Result, SyncMode};
use std::os::fd::RawFd;
use std::ptr::NonNull;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Map {
    fd: RawFd,
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    /// Each write is followed by `msync`: O_SYNC has no effect on a map.
    sync_each: bool,
    page: usize,
}

// SAFETY: the mapped range belongs to this value alone within the process.
unsafe impl Send for Map {}

impl Map {
    /// Maps `options.file_bytes` of the file; a file that is only read is mapped as far as it reaches.
    pub(crate) fn new(fd: RawFd, options: &OpenOptions) -> Result<Map> {
        // SAFETY: sysconf takes no memory.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let mut map = Map {
            fd,
            start: NonNull::dangling(),
            len: 0,
            writable: options.write,
            sync_each: options.sync != SyncMode::None,
            page: usize::try_from(page).unwrap_or(4096).max(1),
        };
        if options.write && options.file_bytes == 0 {
            let message = "a memory map to write needs the file size beforehand";
            return Err(Error::new(ErrorKind::Invalid, "mmap", message));
        }
        map.map(options.file_bytes)?;
        Ok(map)
    }

    fn map(&mut self, file_bytes: u64) -> Result<()> {
        let fail = |err| Error::from_io("mmap", err).with("file_bytes", file_bytes);
        let present = file_len(self.fd).map_err(fail)?;
        let wanted = if self.writable {
            sys::reserve(self.fd, file_bytes, present).map_err(fail)?;
            file_bytes
        } else {
            file_bytes.min(present)
        };
        let len = usize::try_from(wanted).map_err(|_| fail(std::io::Error::from_raw_os_error(libc::ENOMEM)))?;
        if len == 0 {
            return Ok(());
        }
        let access = if self.writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a new shared map at an address of the system's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, self.fd, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(place) if start != libc::MAP_FAILED => {
                (self.start, self.len) = (place, len);
                Ok(())
            }
            _ => Err(Error::last_os("mmap").with("file_bytes", file_bytes)),
        }
    }

    fn unmap(&mut self) {
        if self.len > 0 {
            // SAFETY: exactly what `map` mapped; no pointer into it is kept anywhere.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
            self.len = 0;
        }
    }

    /// Copies one record from or to the map.
    ///
    /// # Safety
    /// `ptr` is valid for `op.len_bytes` bytes, writable for reads.
    pub(crate) unsafe fn transfer(&mut self, op: &Op, ptr: *mut u8) -> Moved {
        if op.len_bytes == 0 {
            return (0, None);
        }
        let left = (self.len as u64).saturating_sub(op.offset_bytes);
        let fits = left.min(op.len_bytes as u64) as usize;
        if op.kind == OpKind::Write {
            if !self.writable || fits < op.len_bytes as usize {
                return (0, Some(INVALID));
            }
            let place = self.start.as_ptr().add(op.offset_bytes as usize);
            std::ptr::copy_nonoverlapping(ptr, place, fits);
            if self.sync_each {
                if let Err(errno) = self.sync_range(op.offset_bytes as usize, fits) {
                    return (0, Some(OpError::from_errno(errno)));
                }
            }
            return (op.len_bytes, None);
        }
        if fits > 0 {
            let place = self.start.as_ptr().add(op.offset_bytes as usize);
            std::ptr::copy_nonoverlapping(place, ptr, fits);
        }
        (fits as u32, (fits < op.len_bytes as usize).then_some(SHORT))
    }

    /// `msync` of the pages that hold the range.
    fn sync_range(&self, offset: usize, len: usize) -> std::result::Result<(), i32> {
        if len == 0 {
            return Ok(());
        }
        let first = offset - offset % self.page;
        // SAFETY: the range lies within the map.
        let code = unsafe {
            let place = self.start.as_ptr().add(first);
            libc::msync(place.cast(), offset - first + len, libc::MS_SYNC)
        };
        if code == 0 {
            Ok(())
        } else {
            Err(sys::errno())
        }
    }

    /// `msync` of the whole map; with metadata also `fsync`.
    pub(crate) fn flush(&mut self, kind: FlushKind) -> Result<()> {
        let fail = |err| Error::from_io("msync", err);
        self.sync_range(0, self.len).map_err(|errno| fail(std::io::Error::from_raw_os_error(errno)))?;
        if kind == FlushKind::All {
            sys::sync_fd(self.fd, false).map_err(fail)?;
        }
        Ok(())
    }

    /// Sets the length and maps the file anew: touching a map beyond its file is fatal.
    pub(crate) fn set_len(&mut self, len_bytes: u64) -> Result<()> {
        self.unmap();
        sys::truncate_fd(self.fd, len_bytes).map_err(|err| Error::from_io("set_len", err))?;
        if len_bytes == 0 {
            return Ok(());
        }
        self.map(len_bytes)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        self.unmap();
    }
}

fn file_len(fd: RawFd) -> std::io::Result<u64> {
    // SAFETY: stat is plain integers; zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the struct lives through the call.
    sys::retry(|| unsafe { libc::fstat(fd, &mut stat) })?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}
