//! Files behind C library streams: what IOzone's fwrite and fread tests measure.

use crate::sys;
use crate::transfer::{Moved, SHORT};
use naslab_core::{Error, FlushKind, Op, OpError, OpKind, OpenOptions, Result};
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// Alignment of the stream's buffer: also right for O_DIRECT.
const BUFFER_ALIGNMENT: usize = 4096;

/// Streams of one thread need no lock; in a process with several threads the plain calls take one each time,
/// which the single-threaded IOzone does not pay.
#[cfg(target_os = "linux")]
mod unlocked {
    extern "C" {
        #[link_name = "fwrite_unlocked"]
        pub(super) fn fwrite(from: *const libc::c_void, size: usize, n: usize, file: *mut libc::FILE) -> usize;
        #[link_name = "fread_unlocked"]
        pub(super) fn fread(into: *mut libc::c_void, size: usize, n: usize, file: *mut libc::FILE) -> usize;
    }
}
#[cfg(not(target_os = "linux"))]
use libc as unlocked;

/// An open stream with a buffer of one record.
pub(crate) struct Stream {
    file: NonNull<libc::FILE>,
    fd: RawFd,
    /// The stream's buffer: only freed here, after the stream was closed.
    buffer: Option<(NonNull<u8>, Layout)>,
    /// Where the stream stands, and the kind of the last operation, if any. C demands `fseek` between
    /// reading and writing. `None` after a failure.
    place: Option<(Option<OpKind>, u64)>,
}

// SAFETY: the stream and its buffer belong to this value alone.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream on `fd`, as `fopen` with `r` or `r+` would make it. (`w+` differs only in the flags the
    /// descriptor was opened with.)
    pub(crate) fn new(fd: OwnedFd, options: &OpenOptions) -> Result<Stream> {
        let mode = if options.write { c"r+" } else { c"r" };
        let fd = fd.into_raw_fd();
        // SAFETY: `fd` is open and owned, `mode` is terminated.
        let Some(file) = NonNull::new(unsafe { libc::fdopen(fd, mode.as_ptr()) }) else {
            let error = Error::last_os("fdopen");
            let _ = sys::close_fd(fd);
            return Err(error);
        };
        let mut stream = Stream { file, fd, buffer: None, place: Some((None, 0)) };
        stream.set_buffer(options.record_bytes as usize)?;
        Ok(stream)
    }

    /// Full buffering with `len` bytes; 0 leaves the library's own choice.
    fn set_buffer(&mut self, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let no_memory = || Error::from_io("setvbuf", std::io::ErrorKind::OutOfMemory.into());
        let layout = Layout::from_size_align(len, BUFFER_ALIGNMENT).map_err(|_| no_memory())?;
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(no_memory)?;
        self.buffer = Some((memory, layout));
        let (file, start) = (self.file.as_ptr(), memory.as_ptr().cast());
        // SAFETY: nothing was done on the stream yet, and the buffer outlives it.
        if unsafe { libc::setvbuf(file, start, libc::_IOFBF, len) } != 0 {
            return Err(Error::last_os("setvbuf"));
        }
        Ok(())
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    /// Whether the operation goes on where the stream stands.
    fn continues(&self, op: &Op) -> bool {
        self.place.is_some_and(|(kind, offset)| offset == op.offset_bytes && kind.unwrap_or(op.kind) == op.kind)
    }

    /// One record through the stream.
    ///
    /// # Safety
    /// `ptr` is valid for `op.len_bytes` bytes, writable for reads.
    pub(crate) unsafe fn transfer(&mut self, op: &Op, ptr: *mut u8) -> Moved {
        if !self.continues(op) {
            let offset = op.offset_bytes as libc::off_t;
            if libc::fseeko(self.file.as_ptr(), offset, libc::SEEK_SET) != 0 {
                return (0, Some(OpError::from_errno(sys::errno())));
            }
        }
        let (file, len) = (self.file.as_ptr(), op.len_bytes as usize);
        let done = match op.kind {
            OpKind::Write => unlocked::fwrite(ptr.cast(), 1, len, file),
            _ => unlocked::fread(ptr.cast(), 1, len, file),
        };
        if done == len {
            self.place = Some((Some(op.kind), op.offset_bytes + len as u64));
            return (op.len_bytes, None);
        }
        let error = match libc::ferror(file) {
            0 => SHORT,
            _ => OpError::from_errno(sys::errno()),
        };
        libc::clearerr(file);
        self.place = None;
        (done as u32, Some(error))
    }

    /// Hands the buffer to the system.
    pub(crate) fn push_out(&mut self) -> Result<()> {
        // SAFETY: the stream is open.
        if unsafe { libc::fflush(self.file.as_ptr()) } != 0 {
            return Err(Error::last_os("fflush"));
        }
        Ok(())
    }

    /// `fflush` and `fsync`.
    pub(crate) fn flush(&mut self, kind: FlushKind) -> Result<()> {
        self.push_out()?;
        sys::sync_fd(self.fd, kind == FlushKind::Data).map_err(|err| Error::from_io("flush", err))
    }

    pub(crate) fn set_len(&mut self, len_bytes: u64) -> Result<()> {
        self.push_out()?;
        self.place = None;
        sys::truncate_fd(self.fd, len_bytes).map_err(|err| Error::from_io("set_len", err))
    }

    /// `fclose`, whose error is that of the last buffered bytes.
    pub(crate) fn close(mut self) -> Result<()> {
        let code = self.finish();
        std::mem::forget(self);
        if code != 0 {
            return Err(Error::last_os("fclose"));
        }
        Ok(())
    }

    /// Closes the stream and frees its buffer; to be called once.
    fn finish(&mut self) -> libc::c_int {
        // SAFETY: the stream is open and nobody uses it afterwards.
        let code = unsafe { libc::fclose(self.file.as_ptr()) };
        let errno = sys::errno();
        if let Some((memory, layout)) = self.buffer.take() {
            // SAFETY: allocated with this layout, and the stream that used it is gone.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
        #[cfg(target_os = "linux")]
        // SAFETY: errno is this thread's; freeing may have changed it.
        unsafe {
            *libc::__errno_location() = errno
        };
        let _ = errno;
        code
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.finish();
    }
}
