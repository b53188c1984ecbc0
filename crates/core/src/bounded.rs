//! A session whose calls each end in time.

use crate::{
    limit, Claim, Completion, DirEntry, FileId, FileStat, FileTimes, FlushKind, IoBuf, Op, OpError, OpenOptions,
    Result, Session, Space, Submit, Token, WireCounters,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Gives each metadata call of a session, of however many messages, one deadline; see [`limit::within`]. Operations
/// pass: their replies have deadlines of their own. So do server-side copies, whose length is the caller's choice.
pub struct Bounded<S> {
    inner: S,
    limit: Duration,
}

impl<S> Bounded<S> {
    /// Around a session. limit: longest time of one call.
    pub fn new(inner: S, limit: Duration) -> Bounded<S> {
        Bounded { inner, limit }
    }

    fn bound<T>(&mut self, call: impl FnOnce(&mut S) -> Result<T>) -> Result<T> {
        let _scope = limit::within(self.limit);
        call(&mut self.inner)
    }
}

impl<S: Session> Session for Bounded<S> {
    fn open(&mut self, path: &str, options: &OpenOptions) -> Result<FileId> {
        self.bound(|s| s.open(path, options))
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        self.bound(|s| s.close(file))
    }

    fn identity(&self) -> Vec<u8> {
        self.inner.identity()
    }

    fn claim(&self, file: FileId) -> Option<Claim> {
        self.inner.claim(file)
    }

    fn reclaim(&mut self, path: &str, options: &OpenOptions, claim: &Claim) -> Result<Option<FileId>> {
        self.bound(|s| s.reclaim(path, options, claim))
    }

    fn end_reclaim(&mut self) -> Result<()> {
        self.bound(Session::end_reclaim)
    }

    fn repeat(&mut self) {
        self.inner.repeat();
    }

    unsafe fn register_memory(&mut self, regions: &[IoBuf]) -> Result<()> {
        self.inner.register_memory(regions)
    }

    #[inline]
    unsafe fn submit(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        self.inner.submit(op, buf, token)
    }

    #[inline]
    fn reap(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        self.inner.reap(min, timeout, out)
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.inner.next_event_ns()
    }

    fn flush(&mut self, file: FileId, kind: FlushKind) -> Result<()> {
        self.bound(|s| s.flush(file, kind))
    }

    fn set_len(&mut self, file: FileId, len_bytes: u64) -> Result<()> {
        self.bound(|s| s.set_len(file, len_bytes))
    }

    fn evict(&mut self, path: &str) -> Result<()> {
        self.bound(|s| s.evict(path))
    }

    fn cached_fraction(&mut self, path: &str) -> Result<Option<f64>> {
        self.bound(|s| s.cached_fraction(path))
    }

    fn stat(&mut self, path: &str) -> Result<FileStat> {
        self.bound(|s| s.stat(path))
    }

    fn set_times(&mut self, path: &str, times: FileTimes) -> Result<()> {
        self.bound(|s| s.set_times(path, times))
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        self.bound(|s| s.mkdir(path))
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        self.bound(|s| s.rmdir(path))
    }

    fn readdir(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.bound(|s| s.readdir(path))
    }

    fn readdir_within(&mut self, path: &str) -> Result<Vec<DirEntry>> {
        self.bound(|s| s.readdir_within(path))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.bound(|s| s.rename(from, to))
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        self.bound(|s| s.remove(path))
    }

    fn discard(&mut self, path: &str, mark: Option<&str>) -> Result<()> {
        self.bound(|s| s.discard(path, mark))
    }

    fn space(&mut self) -> Result<Space> {
        self.bound(|s| s.space())
    }

    fn ping(&mut self) -> Result<()> {
        self.bound(|s| s.ping())
    }

    fn server_copy(&mut self, from: &str, to: &str) -> Result<u64> {
        self.inner.server_copy(from, to)
    }

    fn events(&self) -> Vec<(&'static str, u64)> {
        self.inner.events()
    }

    fn virtual_cpu_ns(&self) -> Option<u64> {
        self.inner.virtual_cpu_ns()
    }

    fn explain(&self, error: &OpError) -> Option<String> {
        self.inner.explain(error)
    }

    fn wire(&self) -> Option<WireCounters> {
        self.inner.wire()
    }

    fn wire_by_address(&self) -> BTreeMap<String, WireCounters> {
        self.inner.wire_by_address()
    }
}
