//! Page-aligned memory for I/O buffers.

use crate::{Error, ErrorKind, IoBuf, Result};
use std::alloc::{alloc, dealloc, Layout};
use std::ptr::NonNull;

const PAGE_BYTES: usize = 4096;

/// Owned memory aligned to 4096 bytes, every page touched so that no fault happens while timing.
#[derive(Debug)]
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: AlignedBuf owns its memory exclusively, like a Vec<u8>.
unsafe impl Send for AlignedBuf {}

impl AlignedBuf {
    /// `len` zero bytes. An `Invalid` error when the machine will not give that much.
    pub fn new(len: usize) -> Result<AlignedBuf> {
        let layout = Self::layout(len)?;
        // SAFETY: the layout has a non-zero size.
        let ptr = unsafe { alloc(layout) };
        let ptr = NonNull::new(ptr).ok_or_else(|| too_much(len))?;
        // SAFETY: the allocation is `layout.size()` bytes long. Writing all of it also makes it resident.
        unsafe { ptr.as_ptr().write_bytes(0, layout.size()) };
        Ok(AlignedBuf { ptr, len })
    }

    fn layout(len: usize) -> Result<Layout> {
        let size = len.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or_else(|| too_much(len))?;
        Layout::from_size_align(size, PAGE_BYTES).map_err(|_| too_much(len))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: ptr is valid for len initialised bytes, owned by self.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, to change.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in as_slice, and self is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// The address range `at .. at + len`, to lend to a session. Panics if it lies outside.
    pub fn lend(&self, at: usize, len: usize) -> IoBuf {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "lend outside the buffer");
        // SAFETY: at lies within the allocation.
        IoBuf { ptr: unsafe { self.ptr.as_ptr().add(at) }, len }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout(self.len) {
            // SAFETY: allocated in `new` with the same layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) };
        }
    }
}

fn too_much(len: usize) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "buffers",
        format!("cannot allocate {len} bytes of buffers: use a smaller --record, --depth or --workers"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_zeroed_and_bounded() {
        let buf = AlignedBuf::new(10_000).unwrap();
        assert_eq!(buf.as_slice().as_ptr() as usize % PAGE_BYTES, 0);
        assert!(buf.as_slice().iter().all(|b| *b == 0));
        assert_eq!(buf.lend(4096, 100).len, 100);
        assert_eq!(AlignedBuf::new(usize::MAX - 10).unwrap_err().kind, ErrorKind::Invalid);
    }
}
