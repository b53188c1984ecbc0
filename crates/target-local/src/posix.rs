//! The blocking session: one operation at a time, carried out in `submit`.

use crate::locks;
use crate::map::Map;
use crate::slab::{not_open, Slab};
use crate::stream::Stream;
use crate::sys;
use crate::transfer::{whole, Moved, INVALID};
use crate::tree::{tree_methods, Tree};
use naslab_core::{
    Access, Completion, DirEntry, Error, FileId, FileStat, FileTimes, FlushKind, IoBuf, Lock, Op, OpError, OpKind,
    OpenOptions, Result, Session, Space, Submit, Token, WireCounters,
};
use rustix::fs::SeekFrom;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// How the bytes of an open file are reached. Maps come before the descriptor they belong to, so that
/// they are dropped first.
enum Way {
    Positioned(OwnedFd),
    Cursor { fd: OwnedFd, position: u64 },
    Stream(Stream),
    Map(Map, OwnedFd),
}

struct OpenFile {
    way: Way,
    lock_records: bool,
}

impl OpenFile {
    fn new(fd: OwnedFd, options: &OpenOptions) -> Result<OpenFile> {
        if options.lock == Lock::File {
            let kind = if options.write { locks::Kind::Exclusive } else { locks::Kind::Shared };
            locks::set(fd.as_raw_fd(), kind, 0, 0).map_err(|err| Error::from_io("lock", err))?;
        }
        let way = match options.access {
            Access::Positioned => Way::Positioned(fd),
            Access::Cursor => Way::Cursor { fd, position: 0 },
            Access::Stdio => Way::Stream(Stream::new(fd, options)?),
            Access::Mmap => Way::Map(Map::new(fd.as_raw_fd(), options)?, fd),
        };
        Ok(OpenFile { way, lock_records: options.lock == Lock::Record })
    }

    #[inline]
    fn fd(&self) -> RawFd {
        match &self.way {
            Way::Positioned(fd) | Way::Map(_, fd) => fd.as_raw_fd(),
            Way::Cursor { fd, .. } => fd.as_raw_fd(),
            Way::Stream(stream) => stream.fd(),
        }
    }

    /// # Safety
    /// `ptr` is valid for `op.len_bytes` bytes, writable for reads.
    #[inline]
    unsafe fn run(&mut self, op: &Op, ptr: *mut u8) -> Moved {
        if op.kind == OpKind::Flush {
            let error = self.flush(FlushKind::All).err();
            return (0, error.map(|error| error.op_error()));
        }
        match &mut self.way {
            Way::Positioned(fd) => positioned(fd.as_raw_fd(), op, ptr),
            Way::Cursor { fd, position } => cursor(fd.as_raw_fd(), position, op, ptr),
            Way::Stream(stream) => stream.transfer(op, ptr),
            Way::Map(map, _) => map.transfer(op, ptr),
        }
    }

    /// `run` with the record locked around it.
    ///
    /// # Safety
    /// As for `run`.
    #[cold]
    unsafe fn run_locked(&mut self, op: &Op, ptr: *mut u8) -> Moved {
        let (fd, start, len) = (self.fd(), op.offset_bytes, op.len_bytes as u64);
        let kind = match op.kind {
            OpKind::Write => locks::Kind::Exclusive,
            _ => locks::Kind::Shared,
        };
        let fail = |err: std::io::Error| OpError::from_errno(err.raw_os_error().unwrap_or(0));
        if let Err(err) = locks::set(fd, kind, start, len) {
            return (0, Some(fail(err)));
        }
        let (bytes, error) = self.run(op, ptr);
        let released = locks::set(fd, locks::Kind::Release, start, len);
        (bytes, error.or(released.err().map(fail)))
    }

    fn flush(&mut self, kind: FlushKind) -> Result<()> {
        match &mut self.way {
            Way::Stream(stream) => stream.flush(kind),
            Way::Map(map, _) => map.flush(kind),
            _ => sys::sync_fd(self.fd(), kind == FlushKind::Data).map_err(|err| Error::from_io("flush", err)),
        }
    }

    fn set_len(&mut self, len_bytes: u64) -> Result<()> {
        match &mut self.way {
            Way::Stream(stream) => stream.set_len(len_bytes),
            Way::Map(map, _) => map.set_len(len_bytes),
            _ => sys::truncate_fd(self.fd(), len_bytes).map_err(|err| Error::from_io("set_len", err)),
        }
    }

    fn close(self) -> Result<()> {
        match self.way {
            Way::Positioned(fd) | Way::Cursor { fd, .. } => sys::close_fd(fd.into_raw_fd()),
            Way::Stream(stream) => stream.close(),
            Way::Map(map, fd) => {
                drop(map);
                sys::close_fd(fd.into_raw_fd())
            }
        }
    }
}

/// `pread` or `pwrite`, as bare system calls: the C library's wrappers of a threaded process also look for
/// cancellation, 2 to 3 % of a cached 4 KiB read.
///
/// # Safety
/// `ptr` is valid for `op.len_bytes` bytes, writable for reads.
#[inline]
unsafe fn positioned(fd: RawFd, op: &Op, ptr: *mut u8) -> Moved {
    let fd = BorrowedFd::borrow_raw(fd);
    let buf = std::slice::from_raw_parts_mut(ptr, op.len_bytes as usize);
    let at = |done: usize| op.offset_bytes.wrapping_add(done as u64);
    if op.kind == OpKind::Write {
        whole(op.len_bytes, |done| rustix::io::pwrite(fd, &buf[done..], at(done)))
    } else {
        whole(op.len_bytes, |done| rustix::io::pread(fd, &mut buf[done..], at(done)))
    }
}

/// `read` or `write` at the cursor; `lseek` before an operation that does not continue the last one.
/// IOzone seeks before each random, backward and strided record and never within a sequential pass:
/// this comes to the same calls.
///
/// # Safety
/// `ptr` is valid for `op.len_bytes` bytes, writable for reads.
#[inline]
unsafe fn cursor(fd: RawFd, position: &mut u64, op: &Op, ptr: *mut u8) -> Moved {
    let fd = BorrowedFd::borrow_raw(fd);
    if op.offset_bytes != *position {
        if let Err(errno) = rustix::fs::seek(fd, SeekFrom::Start(op.offset_bytes)) {
            return (0, Some(OpError::from_errno(errno.raw_os_error())));
        }
        *position = op.offset_bytes;
    }
    let buf = std::slice::from_raw_parts_mut(ptr, op.len_bytes as usize);
    let moved = if op.kind == OpKind::Write {
        whole(op.len_bytes, |done| rustix::io::write(fd, &buf[done..]))
    } else {
        whole(op.len_bytes, |done| rustix::io::read(fd, &mut buf[done..]))
    };
    *position += moved.0 as u64;
    moved
}

/// One worker's blocking way to the root.
pub(crate) struct PosixSession {
    tree: Tree,
    files: Slab<OpenFile>,
}

impl PosixSession {
    pub(crate) fn new(tree: Tree) -> PosixSession {
        PosixSession { tree, files: Slab::new() }
    }

    fn file(&mut self, id: FileId, operation: &'static str) -> Result<&mut OpenFile> {
        self.files.get_mut(id).ok_or_else(|| not_open(id, operation))
    }
}

impl Session for PosixSession {
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        let fd = self.tree.open(path, options)?;
        let file = OpenFile::new(fd, options).map_err(|err| err.with("path", path))?;
        Ok(self.files.insert(file))
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        self.files.take(file, "close")?.close()
    }

    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        let moves_data = op.kind != OpKind::Flush;
        let (bytes, error) = match self.files.get_mut(op.file) {
            Some(_) if moves_data && buf.len < op.len_bytes as usize => (0, Some(INVALID)),
            Some(file) if file.lock_records && moves_data => file.run_locked(op, buf.ptr),
            Some(file) => file.run(op, buf.ptr),
            None => (0, Some(OpError::from_errno(libc::EBADF))),
        };
        Ok(Submit::Completed(Completion { token, bytes, error }))
    }

    /// Nothing is ever in flight between calls.
    fn reap(&mut self, _min: usize, _timeout: Option<Duration>, _out: &mut Vec<Completion>) -> Result<usize> {
        Ok(0)
    }

    fn flush(&mut self, file: FileId, kind: FlushKind) -> Result<()> {
        self.file(file, "flush")?.flush(kind)
    }

    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()> {
        self.file(file, "set_len")?.set_len(len_bytes)
    }

    tree_methods!();
}
