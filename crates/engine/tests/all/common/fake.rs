//! A target that misbehaves where it is told to.

use naslab_core::{
    Caps, Clock, Completion, DirEntry, Error, ErrorKind, FileId, FileStat, FlushKind, IoBuf, Op, OpError, OpenOptions,
    Result, Session, Space, Submit, Target, Token,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Where it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The call never returns.
    HangIn(Call),
    /// The call panics.
    PanicIn(Call),
    /// The operation with this number never ends, but calls return.
    LoseOp(u64),
    /// No operation from this number on ever ends.
    LoseFrom(u64),
    /// The operation with this number takes 0.3 s.
    SlowOp(u64),
    /// The session becomes unusable at the operation with this number.
    FailSubmit(u64),
    /// The server refuses the operation with this number, with a status of its protocol's own.
    Refuse(u64, i64),
}

/// A call of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Connect,
    Open,
    Flush,
    Close,
    Remove,
    /// The operation with this number, from 0, over all sessions.
    Submit(u64),
    Drop,
}

/// Files exist and hold nothing; operations succeed at once, except where the fault says otherwise.
pub struct Fake {
    pub fault: Fault,
    pub clock: Clock,
    /// Which worker's session has the fault; `None`: every one but the run's own, which has number 0 too
    /// and is the first to connect.
    pub worker: Option<u32>,
    pub submitted: Arc<AtomicU64>,
    pub sessions: Arc<AtomicU64>,
    pub connected: AtomicU64,
}

impl Fake {
    pub fn new(fault: Fault) -> Fake {
        Fake {
            fault,
            clock: Clock::real(),
            worker: None,
            submitted: Arc::default(),
            sessions: Arc::default(),
            connected: AtomicU64::new(0),
        }
    }

    /// Sessions that were ever opened.
    pub fn connected(&self) -> u64 {
        self.connected.load(Ordering::SeqCst)
    }

    /// Sessions that are open now.
    pub fn open_sessions(&self) -> u64 {
        self.sessions.load(Ordering::SeqCst)
    }
}

impl Target for Fake {
    fn protocol(&self) -> &'static str {
        "fake"
    }
    fn caps(&self) -> Caps {
        Caps { max_depth: 64, virtual_time: self.clock.is_virtual(), ..Caps::default() }
    }
    fn clock(&self) -> Clock {
        self.clock.clone()
    }
    fn connect(&self, worker: u32) -> Result<Box<dyn Session>> {
        // The run's own session is the first. It misbehaves only in what it alone does: marking and removing.
        self.connected.fetch_add(1, Ordering::SeqCst);
        let own = self.sessions.fetch_add(1, Ordering::SeqCst) == 0;
        let alone = matches!(self.fault, Fault::HangIn(Call::Remove) | Fault::Refuse(..));
        let hit = alone || self.worker.map_or(!own, |w| w == worker && !own);
        let fault = if hit { self.fault } else { Fault::None };
        misbehave(fault, Call::Connect);
        Ok(Box::new(FakeSession {
            fault,
            broken: false,
            done: VecDeque::new(),
            submitted: self.submitted.clone(),
            sessions: self.sessions.clone(),
        }))
    }
}

fn misbehave(fault: Fault, call: Call) {
    if fault == Fault::HangIn(call) {
        loop {
            std::thread::park();
        }
    }
    assert!(fault != Fault::PanicIn(call), "planted panic in {call:?}");
}

struct FakeSession {
    fault: Fault,
    broken: bool,
    done: VecDeque<Completion>,
    submitted: Arc<AtomicU64>,
    sessions: Arc<AtomicU64>,
}

impl Session for FakeSession {
    fn open(&mut self, _path: &str, _options: &OpenOptions) -> Result<FileId> {
        misbehave(self.fault, Call::Open);
        if self.broken {
            return Err(Error::new(ErrorKind::Disconnected, "open", "the session failed before"));
        }
        Ok(FileId(0))
    }
    fn close(&mut self, _file: FileId) -> Result<()> {
        misbehave(self.fault, Call::Close);
        Ok(())
    }
    unsafe fn submit(&mut self, op: &Op, _buf: IoBuf, token: Token) -> Result<Submit> {
        let number = self.submitted.fetch_add(1, Ordering::SeqCst);
        misbehave(self.fault, Call::Submit(number));
        match self.fault {
            Fault::SlowOp(slow) if slow == number => std::thread::sleep(Duration::from_millis(300)),
            Fault::LoseOp(lost) if lost == number => return Ok(Submit::Queued),
            Fault::LoseFrom(first) if first <= number => return Ok(Submit::Queued),
            Fault::FailSubmit(at) if at == number => {
                self.broken = true;
                return Err(Error::new(ErrorKind::Disconnected, "submit", "planted"));
            }
            _ => {}
        }
        let refused = match self.fault {
            Fault::Refuse(at, status) if at == number => Some(OpError { kind: ErrorKind::NoSpace, status }),
            _ => None,
        };
        let bytes = if refused.is_some() { 0 } else { op.len_bytes };
        self.done.push_back(Completion { token, bytes, error: refused });
        Ok(Submit::Queued)
    }
    fn explain(&self, error: &OpError) -> Option<String> {
        (error.status > i64::from(i32::MAX)).then(|| format!("the share is full (STATUS {:#x})", error.status))
    }
    fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        let n = self.done.len();
        out.extend(self.done.drain(..));
        if n < min {
            std::thread::sleep(timeout.unwrap_or(Duration::MAX));
        }
        Ok(n)
    }
    fn flush(&mut self, _file: FileId, _kind: FlushKind) -> Result<()> {
        // The flush before the window is none of its business.
        if self.submitted.load(Ordering::SeqCst) > 0 {
            misbehave(self.fault, Call::Flush);
        }
        Ok(())
    }
    fn set_len(&mut self, _file: FileId, _len_bytes: u64) -> Result<()> {
        Ok(())
    }
    fn stat(&mut self, path: &str) -> Result<FileStat> {
        Err(Error::new(ErrorKind::NotFound, "stat", path))
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
        misbehave(self.fault, Call::Remove);
        Ok(())
    }
    fn space(&mut self) -> Result<Space> {
        Ok(Space { free_bytes: 1 << 40, total_bytes: 1 << 40 })
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        self.sessions.fetch_sub(1, Ordering::SeqCst);
        misbehave(self.fault, Call::Drop);
    }
}
