//! The io_uring session: many outstanding operations from one thread.
//!
//! `submit` only fills the submission queue; the kernel is entered by `reap`, once for all operations
//! submitted since. Completions of the kernel are matched to the engine's tokens through a table of
//! slots made at the start: nothing is allocated per operation.

pub(crate) use crate::ring::{offered, Notes};

use crate::ring::Ring;
use crate::slab::{not_open, Slab};
use crate::sys;
use crate::transfer::{failure, INVALID, SHORT};
use crate::tree::{tree_methods, Tree};
use io_uring::{opcode, squeue, types};
use naslab_core::{
    Access, Completion, DirEntry, Error, ErrorKind, FileId, FileStat, FileTimes, FlushKind, IoBuf, Lock, Op, OpError,
    OpKind, OpenOptions, Result, Session, Space, Submit, Token, WireCounters,
};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest part of an operation given to the kernel at once, in bytes: it moves no more than
/// 2 GiB - 4 KiB anyway.
const PART_BYTES: usize = 1 << 30;

struct UringFile {
    fd: OwnedFd,
    /// Known to the kernel by its number.
    registered: bool,
}

/// An operation in flight.
#[derive(Clone, Copy)]
struct Slot {
    token: Token,
    kind: OpKind,
    busy: bool,
    file: FileId,
    offset_bytes: u64,
    len_bytes: u32,
    done_bytes: u32,
    ptr: *mut u8,
}

impl Slot {
    const EMPTY: Slot = Slot {
        token: 0,
        kind: OpKind::Flush,
        busy: false,
        file: FileId(0),
        offset_bytes: 0,
        len_bytes: 0,
        done_bytes: 0,
        ptr: std::ptr::null_mut(),
    };
}

/// One worker's io_uring way to the root.
///
/// The ring is made by the thread that first opens a file. It may move to another thread while nothing
/// is in flight. Dropping waits for operations in flight, for the kernel uses their memory.
pub(crate) struct UringSession {
    tree: Tree,
    depth: u32,
    notes: Arc<Notes>,
    ring: Option<Ring>,
    files: Slab<UringFile>,
    memory: Vec<IoBuf>,
    slots: Box<[Slot]>,
    /// Free slots, at first all.
    free: Vec<u32>,
    /// Operations that failed before they reached the kernel.
    failed: Vec<Completion>,
}

// SAFETY: the pointers in slots and memory are the engine's, which keeps them valid and unshared until
// their operations are reaped; the session itself is used by one thread at a time.
unsafe impl Send for UringSession {}

impl UringSession {
    pub(crate) fn new(tree: Tree, depth: u32, notes: Arc<Notes>) -> UringSession {
        UringSession {
            tree,
            depth,
            notes,
            ring: None,
            files: Slab::new(),
            memory: Vec::new(),
            slots: vec![Slot::EMPTY; depth as usize].into_boxed_slice(),
            free: (0..depth).rev().collect(),
            failed: Vec::with_capacity(depth as usize),
        }
    }

    fn in_flight(&self) -> usize {
        self.depth as usize - self.free.len()
    }

    fn has_ring(&mut self) -> Result<&mut Ring> {
        if self.ring.is_none() {
            self.make_ring().map_err(ring_error)?;
        }
        self.ring.as_mut().ok_or_else(|| ring_error(io::Error::from_raw_os_error(libc::EBADF)))
    }

    /// Makes a ring on this thread with all files, memory and unsubmitted operations.
    fn make_ring(&mut self) -> io::Result<()> {
        self.ring = None;
        let mut ring = Ring::new(self.depth, &self.notes)?;
        // SAFETY: whoever registered the memory keeps it valid.
        unsafe { ring.set_buffers(&self.memory, &self.notes)? };
        let numbers: Vec<FileId> = self.files.iter().map(|(id, _)| id).collect();
        for id in numbers {
            if let Some(file) = self.files.get_mut(id) {
                file.registered = ring.add_file(id.0, file.fd.as_raw_fd())?;
            }
        }
        self.ring = Some(ring);
        for index in 0..self.slots.len() {
            if self.slots[index].busy {
                self.push(index);
            }
        }
        Ok(())
    }

    /// After EEXIST, the kernel's word for a call from a foreign thread: makes the ring anew if the
    /// kernel holds none of its operations, else fails.
    #[cold]
    fn follow_thread(&mut self, err: io::Error) -> Result<()> {
        let held = match self.ring.as_mut() {
            Some(ring) => self.depth as usize - self.free.len() - ring.unsubmitted(),
            None => 0,
        };
        if err.raw_os_error() != Some(libc::EEXIST) || held > 0 {
            return Err(ring_error(err).with("in_flight", held));
        }
        self.make_ring().map_err(ring_error)
    }

    fn add_file(&mut self, id: FileId, fd: RawFd) -> Result<bool> {
        match self.has_ring()?.add_file(id.0, fd) {
            Ok(registered) => Ok(registered),
            Err(err) if err.raw_os_error() == Some(libc::EEXIST) => {
                self.follow_thread(err)?;
                Ok(self.files.get(id).is_some_and(|file| file.registered))
            }
            Err(_) => Ok(false),
        }
    }

    /// Puts the rest of a slot's operation into the submission queue. There is always room: the queue
    /// has at least `depth` entries and a slot has at most one.
    fn push(&mut self, index: usize) {
        let slot = self.slots[index];
        let entry = match (self.ring.as_ref(), self.files.get(slot.file)) {
            (Some(ring), Some(file)) => build(&slot, ring, file),
            _ => return self.fail(index, OpError::from_errno(libc::EBADF)),
        };
        let pushed = match self.ring.as_mut() {
            // SAFETY: `submit` demands that the memory stays valid until the operation was reaped, and
            // dropping the session waits for the kernel.
            Some(ring) => unsafe { ring.push(&entry.user_data(index as u64)) },
            None => false,
        };
        if !pushed {
            self.fail(index, OpError::from_errno(libc::EBUSY));
        }
    }

    /// Ends a slot's operation outside the kernel.
    #[cold]
    fn fail(&mut self, index: usize, error: OpError) {
        let completion = self.finish(index, Some(error));
        self.failed.push(completion);
    }

    #[inline]
    fn finish(&mut self, index: usize, error: Option<OpError>) -> Completion {
        let slot = &mut self.slots[index];
        slot.busy = false;
        self.free.push(index as u32);
        Completion { token: slot.token, bytes: slot.done_bytes, error }
    }

    /// Takes in one result of the kernel; `None` when the operation goes on with its rest.
    #[inline]
    fn settle(&mut self, index: usize, result: i32) -> Option<Completion> {
        let slot = self.slots.get_mut(index).filter(|slot| slot.busy)?;
        if result < 0 {
            if result == -libc::EINTR {
                self.push(index);
                return None;
            }
            let error = failure(-result, slot.done_bytes as usize);
            return Some(self.finish(index, Some(error)));
        }
        slot.done_bytes += result as u32;
        if slot.done_bytes >= slot.len_bytes {
            return Some(self.finish(index, None));
        }
        if result == 0 {
            return Some(self.finish(index, Some(SHORT)));
        }
        self.push(index);
        None
    }

    /// Moves all completions at hand to `out`.
    #[inline]
    fn drain(&mut self, out: &mut Vec<Completion>) -> usize {
        let before = out.len();
        out.append(&mut self.failed);
        while let Some((data, result)) = self.ring.as_mut().and_then(Ring::pop) {
            if let Some(completion) = self.settle(data as usize, result) {
                out.push(completion);
            }
        }
        out.len() - before
    }
}

/// The entry for the rest of a slot's operation.
#[inline]
fn build(slot: &Slot, ring: &Ring, file: &UringFile) -> squeue::Entry {
    let (fd, flags) = if file.registered {
        (types::Fd(slot.file.0 as i32), squeue::Flags::FIXED_FILE)
    } else {
        (types::Fd(file.fd.as_raw_fd()), squeue::Flags::empty())
    };
    let done = slot.done_bytes as usize;
    let len = (slot.len_bytes as usize - done).min(PART_BYTES) as u32;
    let offset = slot.offset_bytes.wrapping_add(done as u64);
    // The buffer is at least `len_bytes` long, so the sum stays inside it.
    let ptr = slot.ptr.wrapping_add(done);
    let entry = match (slot.kind, ring.buffer_number(ptr, len)) {
        (OpKind::Read, Some(number)) => opcode::ReadFixed::new(fd, ptr, len, number).offset(offset).build(),
        (OpKind::Read, None) => opcode::Read::new(fd, ptr, len).offset(offset).build(),
        (OpKind::Write, Some(number)) => opcode::WriteFixed::new(fd, ptr, len, number).offset(offset).build(),
        (OpKind::Write, None) => opcode::Write::new(fd, ptr, len).offset(offset).build(),
        (OpKind::Flush, _) => opcode::Fsync::new(fd).build(),
    };
    entry.flags(flags)
}

fn ring_error(err: io::Error) -> Error {
    let mut error = Error::from_io("io_uring", err);
    if error.status == libc::EEXIST as i64 {
        error.kind = ErrorKind::Invalid;
        error.message = "the session moved to another thread with outstanding operations".to_string();
    }
    error
}

/// Refuses what only blocking calls can do.
fn check(options: &OpenOptions) -> Result<()> {
    let what = match (options.access, options.lock) {
        (Access::Positioned, Lock::None) => return Ok(()),
        (Access::Positioned, _) => "locks",
        (Access::Cursor, _) => "the file cursor",
        (Access::Stdio, _) => "streams",
        (Access::Mmap, _) => "memory maps",
    };
    let message = format!("io_uring cannot be used with {what}: use engine=posix at depth 1");
    Err(Error::new(ErrorKind::Unsupported, "open", message))
}

impl UringSession {
    /// Enters the kernel for what is queued and for `missing` completions.
    #[inline]
    fn enter(&mut self, missing: usize, limit: Option<Duration>) -> Result<()> {
        match self.has_ring()?.enter(missing, limit) {
            Ok(()) => Ok(()),
            Err(err) => self.follow_thread(err),
        }
    }

    /// Whether a busy slot belongs to this file.
    fn is_used(&self, file: FileId) -> bool {
        self.slots.iter().any(|slot| slot.busy && slot.file == file)
    }

    fn fd(&self, file: FileId, operation: &'static str) -> Result<RawFd> {
        let found = self.files.get(file).map(|file| file.fd.as_raw_fd());
        found.ok_or_else(|| not_open(file, operation))
    }
}

impl Session for UringSession {
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        check(options).map_err(|err| err.with("path", path))?;
        let fd = self.tree.open(path, options)?;
        let raw = fd.as_raw_fd();
        let id = self.files.insert(UringFile { fd, registered: false });
        match self.add_file(id, raw) {
            Ok(registered) => {
                if let Some(file) = self.files.get_mut(id) {
                    file.registered = registered;
                }
                Ok(id)
            }
            Err(err) => {
                self.files.take(id, "open")?;
                Err(err.with("path", path))
            }
        }
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        if self.is_used(file) {
            let message = "operations on the file are still outstanding";
            return Err(Error::new(ErrorKind::Invalid, "close", message).with("file", file.0));
        }
        let open = self.files.take(file, "close")?;
        if open.registered {
            let removed = self.has_ring()?.remove_file(file.0);
            if let Err(err) = removed {
                self.follow_thread(err)?;
            }
        }
        sys::close_fd(open.fd.into_raw_fd())
    }

    unsafe fn register_memory(&mut self, regions: &[IoBuf]) -> Result<()> {
        self.memory = regions.to_vec();
        let Some(ring) = self.ring.as_mut() else {
            return Ok(()); // the ring registers it when it is made
        };
        match ring.set_buffers(&self.memory, &self.notes) {
            Ok(()) => Ok(()),
            Err(err) => self.follow_thread(err),
        }
    }

    #[inline]
    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        if self.free.len() <= self.failed.len() {
            return Ok(Submit::Busy);
        }
        let Some(index) = self.free.pop() else {
            return Ok(Submit::Busy);
        };
        let index = index as usize;
        let moves_data = op.kind != OpKind::Flush;
        self.slots[index] = Slot {
            token,
            kind: op.kind,
            busy: true,
            file: op.file,
            offset_bytes: op.offset_bytes,
            len_bytes: if moves_data { op.len_bytes } else { 0 },
            done_bytes: 0,
            ptr: buf.ptr,
        };
        // To the kernel the offset -1 is the file's cursor: offsets it cannot have stop here.
        let fits = buf.len >= op.len_bytes as usize && op.offset_bytes <= i64::MAX as u64;
        if moves_data && !fits {
            self.fail(index, INVALID);
        } else {
            self.push(index);
        }
        Ok(Submit::Queued)
    }

    fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        let want = min.min(self.in_flight() + self.failed.len());
        let deadline = timeout.filter(|_| want > 0).and_then(|limit| Instant::now().checked_add(limit));
        let mut got = 0;
        let mut poll = min == 0 && self.in_flight() > 0;
        loop {
            let (queued, ready) = match self.ring.as_mut() {
                Some(ring) => (ring.unsubmitted(), ring.completed()),
                None => (0, 0),
            };
            let missing = want.saturating_sub(got + ready + self.failed.len());
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let expired = left == Some(Duration::ZERO);
            if queued > 0 || missing > 0 || poll {
                self.enter(if expired { 0 } else { missing }, left)?;
                poll = false;
            }
            got += self.drain(out);
            if got >= want || expired {
                return Ok(got);
            }
        }
    }

    fn flush(&mut self, file: FileId, kind: FlushKind) -> Result<()> {
        let fd = self.fd(file, "flush")?;
        sys::sync_fd(fd, kind == FlushKind::Data).map_err(|err| Error::from_io("flush", err))
    }

    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()> {
        let fd = self.fd(file, "set_len")?;
        sys::truncate_fd(fd, len_bytes).map_err(|err| Error::from_io("set_len", err))
    }

    tree_methods!();
}

impl Drop for UringSession {
    /// Operations the kernel never saw are forgotten; those it has are cancelled or waited for. A
    /// foreign thread cannot wait: it may drop the session only after the session's thread has ended,
    /// for then the kernel itself has waited.
    fn drop(&mut self) {
        let in_flight = self.in_flight();
        let Some(ring) = self.ring.as_mut() else {
            return;
        };
        let mut held = in_flight.saturating_sub(ring.unsubmitted());
        if held > 0 {
            ring.cancel_all();
        }
        while held > 0 {
            while ring.pop().is_some() {
                held = held.saturating_sub(1);
            }
            if held > 0 && ring.wait().is_err() {
                return;
            }
        }
    }
}
