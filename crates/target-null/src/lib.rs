//! A target that answers at once and touches nothing: the engine's own floor.
//!
//! Every file exists, every operation succeeds, no byte is read or written. What a run on this
//! target costs is what the engine costs.

use naslab_core::{
    Caps, Clock, Completion, DirEntry, FileId, FileStat, FileTimes, FlushKind, IoBuf, Op, OpenOptions, Result, Session,
    Space, Submit, Target, Token,
};
use serde::Deserialize;
use std::time::Duration;

/// Operations one session can have in flight.
const MAX_DEPTH: usize = 4096;
/// Room for completions at first; a deeper queue doubles it, so a shallow one stays in the L1 cache.
const FIRST_ROOM: usize = 64;
/// What an imaginary file system has to offer, in bytes.
const ROOM_BYTES: u64 = 1 << 60;

/// Options of the null target: none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NullOptions {}

/// Answers every operation at once.
#[derive(Debug)]
pub struct NullTarget {
    clock: Clock,
}

impl NullTarget {
    /// A null target on the machine's clock.
    pub fn new() -> NullTarget {
        NullTarget { clock: Clock::real() }
    }
}

impl Default for NullTarget {
    fn default() -> NullTarget {
        NullTarget::new()
    }
}

impl Target for NullTarget {
    fn protocol(&self) -> &'static str {
        "null"
    }

    fn caps(&self) -> Caps {
        Caps {
            max_depth: MAX_DEPTH as u32,
            direct: true,
            sync_writes: true,
            stdio: true,
            cursor: true,
            mmap: true,
            locks: true,
            keeps_data: false,
            evict: true,
            ..Caps::default()
        }
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn connect(&self, _worker: u32) -> Result<Box<dyn Session>> {
        Ok(Box::new(NullSession::new()))
    }
}

/// First in, first out, so that at any depth every operation waits for the same number of others.
struct NullSession {
    done: Box<[(Token, u32)]>,
    head: usize,
    tail: usize,
    file_bytes: u64,
    next_file: u32,
}

impl NullSession {
    fn new() -> NullSession {
        NullSession { done: vec![(0, 0); FIRST_ROOM].into_boxed_slice(), head: 0, tail: 0, file_bytes: 0, next_file: 0 }
    }

    #[inline]
    fn waiting(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    /// Doubles the room, up to the greatest depth. False when that is reached.
    #[cold]
    fn grow(&mut self) -> bool {
        let old = self.done.len();
        if old >= MAX_DEPTH {
            return false;
        }
        let waiting = self.waiting();
        let mut room = vec![(0, 0); old * 2].into_boxed_slice();
        for (i, entry) in room.iter_mut().enumerate().take(waiting) {
            *entry = self.done[self.head.wrapping_add(i) & (old - 1)];
        }
        self.done = room;
        self.head = 0;
        self.tail = waiting;
        true
    }
}

impl Session for NullSession {
    fn open(&mut self, _path: &str, options: &OpenOptions) -> Result<FileId> {
        self.file_bytes = options.file_bytes;
        self.next_file = self.next_file.wrapping_add(1);
        Ok(FileId(self.next_file))
    }

    fn close(&mut self, _file: FileId) -> Result<()> {
        Ok(())
    }

    #[inline]
    unsafe fn submit(&mut self, op: &Op, _buf: IoBuf, token: Token) -> Result<Submit> {
        if self.waiting() == self.done.len() && !self.grow() {
            return Ok(Submit::Busy);
        }
        let mask = self.done.len() - 1;
        self.done[self.tail & mask] = (token, op.len_bytes);
        self.tail = self.tail.wrapping_add(1);
        Ok(Submit::Queued)
    }

    /// Hands over at most `min` (at least one), so that each operation costs its own clock read.
    #[inline]
    fn reap(&mut self, min: usize, _timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        let count = self.waiting().min(min.max(1));
        let mask = self.done.len() - 1;
        for _ in 0..count {
            let (token, bytes) = self.done[self.head & mask];
            self.head = self.head.wrapping_add(1);
            out.push(Completion { token, bytes, error: None });
        }
        Ok(count)
    }

    fn flush(&mut self, _file: FileId, _kind: FlushKind) -> Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _file: FileId, len_bytes: u64) -> Result<()> {
        self.file_bytes = len_bytes;
        Ok(())
    }

    fn evict(&mut self, _path: &str) -> Result<()> {
        Ok(())
    }

    /// Any path is a file as long as the last one opened; the root is a folder.
    fn stat(&mut self, path: &str) -> Result<FileStat> {
        let is_dir = path.is_empty() || path == ".";
        let len_bytes = if is_dir { 0 } else { self.file_bytes };
        Ok(FileStat { len_bytes, allocated_bytes: None, is_dir, modified_ns: None })
    }

    fn set_times(&mut self, _path: &str, _times: FileTimes) -> Result<()> {
        Ok(())
    }

    fn mkdir(&mut self, _path: &str) -> Result<()> {
        Ok(())
    }

    fn rmdir(&mut self, _path: &str) -> Result<()> {
        Ok(())
    }

    fn readdir(&mut self, _path: &str) -> Result<Vec<DirEntry>> {
        Ok(Vec::new())
    }

    fn rename(&mut self, _from: &str, _to: &str) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _path: &str) -> Result<()> {
        Ok(())
    }

    fn space(&mut self) -> Result<Space> {
        Ok(Space { free_bytes: ROOM_BYTES, total_bytes: ROOM_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use naslab_core::OpKind;

    fn submit(session: &mut dyn Session, token: Token) -> Submit {
        let op = Op { kind: OpKind::Read, file: FileId(1), offset_bytes: 0, len_bytes: token + 1, due_ns: None };
        // SAFETY: the null target never touches the buffer.
        unsafe { session.submit(&op, IoBuf::empty(), token) }.unwrap()
    }

    #[test]
    fn every_operation_comes_back_once_and_in_order() {
        let mut session = NullTarget::new().connect(0).unwrap();
        let mut out = Vec::new();
        let mut next = 0;
        for depth in [1u32, 3, 64, 65, 1000, MAX_DEPTH as u32] {
            for _ in 0..depth {
                assert_eq!(submit(&mut *session, next), Submit::Queued);
                next += 1;
            }
            while session.reap(1, None, &mut out).unwrap() > 0 {}
        }
        assert_eq!(out.len(), next as usize);
        for (i, done) in out.iter().enumerate() {
            assert_eq!((done.token, done.bytes), (i as u32, i as u32 + 1));
            assert_eq!(done.error, None);
        }
    }

    #[test]
    fn hands_over_at_most_min_and_at_least_one() {
        let mut session = NullTarget::new().connect(0).unwrap();
        let mut out = Vec::new();
        assert_eq!(session.reap(1, None, &mut out).unwrap(), 0);
        for token in 0..10 {
            submit(&mut *session, token);
        }
        assert_eq!(session.reap(0, None, &mut out).unwrap(), 1);
        assert_eq!(session.reap(4, None, &mut out).unwrap(), 4);
        assert_eq!(session.reap(99, None, &mut out).unwrap(), 5);
    }

    #[test]
    fn busy_at_the_greatest_depth() {
        let target = NullTarget::new();
        let mut session = target.connect(0).unwrap();
        for token in 0..target.caps().max_depth {
            assert_eq!(submit(&mut *session, token), Submit::Queued);
        }
        assert_eq!(submit(&mut *session, 0), Submit::Busy);
    }

    #[test]
    fn files_are_as_long_as_said() {
        let mut session = NullTarget::new().connect(0).unwrap();
        let options = OpenOptions { read: true, file_bytes: 123, ..OpenOptions::default() };
        let file = session.open("any/where", &options).unwrap();
        assert_eq!(session.stat("any/where").unwrap().len_bytes, 123);
        session.set_len(file, 7).unwrap();
        assert_eq!(session.stat("any/where").unwrap().len_bytes, 7);
        assert!(session.stat("").unwrap().is_dir);
    }
}
