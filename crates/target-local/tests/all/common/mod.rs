//! What the test files share: targets in a temporary folder, one blocking operation, test data.
#![allow(dead_code, missing_docs)]

use naslab_core::{Completion, Create, FileId, IoBuf, Op, OpKind, OpenOptions, Session, Submit, Target};
use naslab_target_local::{Engine, LocalOptions, LocalTarget};
use std::path::Path;
use tempfile::TempDir;

/// A folder on the file system the code is built on.
pub fn work_folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub fn target(root: &Path, engine: Engine, depth: u32) -> LocalTarget {
    LocalTarget::new(LocalOptions { engine, depth, ..LocalOptions::new(root.to_str().unwrap()) }).unwrap()
}

pub fn posix(root: &Path) -> Box<dyn Session> {
    target(root, Engine::Posix, 1).connect(0).unwrap()
}

/// A session at this depth, or `None` with a printed reason where the kernel has no io_uring.
pub fn uring(root: &Path, depth: u32) -> Option<Box<dyn Session>> {
    let options = LocalOptions { engine: Engine::Uring, depth, ..LocalOptions::new(root.to_str().unwrap()) };
    match LocalTarget::new(options) {
        Ok(target) => Some(target.connect(0).unwrap()),
        Err(err) => {
            println!("SKIP: {err}");
            None
        }
    }
}

/// Runs a case over both engines, each in its own folder.
pub fn over_both(case: impl Fn(&mut dyn Session, &Path)) {
    let folder = work_folder();
    case(&mut *posix(folder.path()), folder.path());
    let folder = work_folder();
    if let Some(mut session) = uring(folder.path(), 8) {
        case(&mut *session, folder.path());
    }
}

/// Read, write, create if missing.
pub fn read_write() -> OpenOptions {
    OpenOptions { read: true, write: true, create: Create::IfMissing, ..OpenOptions::default() }
}

pub fn op(kind: OpKind, file: FileId, offset_bytes: u64, len: usize) -> Op {
    Op { kind, file, offset_bytes, len_bytes: len as u32, due_ns: None }
}

/// One operation, waited for.
pub fn run(session: &mut dyn Session, kind: OpKind, file: FileId, offset: u64, data: &mut [u8]) -> Completion {
    let op = op(kind, file, offset, data.len());
    // SAFETY: `data` lives and is untouched until the operation is reaped below.
    let submitted = unsafe { session.submit(&op, IoBuf::from_slice(data), 7) };
    let done = ended(session, submitted.unwrap());
    assert_eq!(done.token, 7);
    done
}

/// The completion of the one operation that was submitted.
pub fn ended(session: &mut dyn Session, submitted: Submit) -> Completion {
    match submitted {
        Submit::Completed(done) => done,
        Submit::Queued => {
            let mut out = Vec::new();
            assert_eq!(session.reap(1, None, &mut out).unwrap(), 1);
            out[0]
        }
        Submit::Busy => panic!("busy with nothing in flight"),
    }
}

/// Writes all of `data`, which must succeed.
pub fn write(session: &mut dyn Session, file: FileId, offset: u64, data: &[u8]) {
    let done = run(session, OpKind::Write, file, offset, &mut data.to_vec()[..]);
    assert_eq!((done.bytes, done.error), (data.len() as u32, None));
}

/// Reads `len` bytes, which must succeed.
pub fn read(session: &mut dyn Session, file: FileId, offset: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0xEE; len];
    let done = run(session, OpKind::Read, file, offset, &mut data);
    assert_eq!((done.bytes, done.error), (len as u32, None));
    data
}

/// Bytes that differ from offset to offset.
pub fn pattern(offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|i| (i ^ (i >> 8) ^ (i >> 16)).wrapping_mul(31) as u8).collect()
}

/// Memory on a page boundary.
pub struct Pages {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    pub fn new(len: usize) -> Pages {
        let memory = vec![0; len + 4096];
        let start = memory.as_ptr().align_offset(4096);
        Pages { memory, start, len }
    }

    pub fn slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
