//! A small closed-loop driver over virtual time, and shorthands.
#![allow(dead_code)]

use naslab_core::{
    Clock, Completion, Create, FileId, IoBuf, Op, OpKind, OpenOptions, Session, Submit, SyncMode, Target,
};
use naslab_target_sim::{SimConfig, SimTarget};

pub const MIB: u64 = 1 << 20;
pub const SECOND: u64 = 1_000_000_000;

/// A configuration without any cost but the latency, which must be set.
pub fn latency_only(latency_ns: u64) -> SimConfig {
    SimConfig { op_overhead_ns: 0, latency_ns, ..SimConfig::default() }
}

pub fn target(config: SimConfig) -> SimTarget {
    SimTarget::new(config).expect("a valid configuration")
}

pub fn read_write() -> OpenOptions {
    OpenOptions { read: true, write: true, create: Create::IfMissing, ..OpenOptions::default() }
}

pub fn direct() -> OpenOptions {
    OpenOptions { direct: true, ..read_write() }
}

pub fn synced() -> OpenOptions {
    OpenOptions { sync: SyncMode::All, ..read_write() }
}

pub fn op(kind: OpKind, file: FileId, offset_bytes: u64, len_bytes: u32) -> Op {
    Op { kind, file, offset_bytes, len_bytes, due_ns: None }
}

pub fn read(file: FileId, offset: u64, len: u32) -> Op {
    op(OpKind::Read, file, offset, len)
}

pub fn write(file: FileId, offset: u64, len: u32) -> Op {
    op(OpKind::Write, file, offset, len)
}

/// One session with its clock.
pub struct Client {
    pub session: Box<dyn Session>,
    pub clock: Clock,
}

/// One finished operation: its completion, and when it was started and reaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub done: Completion,
    pub started_ns: u64,
    pub ended_ns: u64,
}

impl Seen {
    pub fn took_ns(&self) -> u64 {
        self.ended_ns - self.started_ns
    }
}

impl Client {
    pub fn new(target: &SimTarget) -> Client {
        Client { session: target.connect(0).expect("connects"), clock: target.clock() }
    }

    pub fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    pub fn open(&mut self, path: &str, options: &OpenOptions) -> FileId {
        self.session.open(path, options).expect("opens")
    }

    /// Submits without a buffer; only for servers that keep no data.
    pub fn submit(&mut self, op: &Op, token: u32) -> naslab_core::Result<Submit> {
        // SAFETY: the server keeps no data, so it never touches the buffer.
        unsafe { self.session.submit(op, IoBuf::empty(), token) }
    }

    /// Advances until something finishes; empty when nothing is outstanding.
    pub fn wait(&mut self) -> naslab_core::Result<Vec<Completion>> {
        let mut out = Vec::new();
        while self.session.reap(0, None, &mut out)? == 0 {
            match self.session.next_event_ns() {
                Some(at) => self.clock.advance_to(at),
                None => break,
            }
        }
        Ok(out)
    }

    /// Carries one operation out, with this buffer, and returns how it ended.
    pub fn one_with(&mut self, op: &Op, buf: &mut [u8]) -> Seen {
        let started_ns = self.now();
        // SAFETY: `buf` outlives the operation, which is reaped below.
        let taken = unsafe { self.session.submit(op, IoBuf::from_slice(buf), 7) };
        assert_eq!(taken.expect("submits"), Submit::Queued);
        let done = self.wait().expect("reaps");
        assert_eq!(done.len(), 1, "one operation, one completion");
        assert_eq!(done[0].token, 7);
        Seen { done: done[0], started_ns, ended_ns: self.now() }
    }

    /// Carries one operation out without a buffer.
    pub fn one(&mut self, op: &Op) -> Seen {
        self.one_with(op, &mut [])
    }

    /// Carries the operations out with `depth` of them in flight; all must succeed.
    pub fn all(&mut self, depth: usize, ops: impl IntoIterator<Item = Op>) -> Vec<Seen> {
        let seen = self.try_all(depth, ops);
        for s in &seen {
            assert_eq!(s.done.error, None, "{s:?}");
        }
        seen
    }

    /// Carries the operations out with `depth` of them in flight.
    pub fn try_all(&mut self, depth: usize, ops: impl IntoIterator<Item = Op>) -> Vec<Seen> {
        let mut ops = ops.into_iter();
        let (mut started, mut seen, mut flying) = (Vec::new(), Vec::new(), 0);
        loop {
            while flying < depth {
                let Some(op) = ops.next() else { break };
                let token = started.len() as u32;
                assert_eq!(self.submit(&op, token).expect("submits"), Submit::Queued);
                started.push(self.now());
                flying += 1;
            }
            let done = self.wait().expect("reaps");
            if done.is_empty() {
                return seen;
            }
            flying -= done.len();
            let ended_ns = self.now();
            seen.extend(done.into_iter().map(|done| Seen { done, started_ns: started[done.token as usize], ended_ns }));
        }
    }

    /// Nanoseconds that `work` takes.
    pub fn time<R>(&mut self, work: impl FnOnce(&mut Client) -> R) -> u64 {
        let start = self.now();
        work(self);
        self.now() - start
    }
}

/// Sequential operations of one size over the first `total` bytes.
pub fn sequence(kind: OpKind, file: FileId, total: u64, len: u64) -> impl Iterator<Item = Op> {
    (0..total / len).map(move |i| op(kind, file, i * len, len as u32))
}

/// Operations at pseudo-random records of the first `total` bytes.
pub fn scattered(kind: OpKind, file: FileId, total: u64, len: u64, count: u64) -> impl Iterator<Item = Op> {
    let mut x = 0x2545_f491_4f6c_dd1d_u64;
    (0..count).map(move |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        op(kind, file, x % (total / len) * len, len as u32)
    })
}
