//! One worker's session: its connections, open files and outstanding operations.

use crate::durable::{Durable, HeldLease};
use crate::link::{flush, late, Link};
use crate::negotiate::Client;
use crate::options::{Plan, MAX_DEPTH};
use crate::slots::{Slot, Slots};
use crate::window::{Kind, CREDIT_BYTES};
use naslab_core::{Completion, Error, ErrorKind, FileId, IoBuf, Op, OpKind, Result, Submit, Token, WireCounters};
use naslab_wire::ready;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::codec::{FLUSH, READ, WRITE};
use crate::file::{self, Handle};
use crate::link::Data;

/// Most credits asked for.
pub(crate) const MAX_CREDITS: u32 = 8192;
/// Reads from this size on go past the receive buffer.
const LARGE_BYTES: u32 = 16 * 1024;

/// What the server allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub max_read: u32,
    pub max_write: u32,
    pub max_transact: u32,
    pub leases: bool,
    /// Leases and durable handles of version 2.
    pub leases_2: bool,
    /// A single write may ask to be durable.
    pub write_through: bool,
    /// What is open outlasts failovers.
    pub persistent: bool,
}

/// Counts of what happened beside the operations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events {
    pub credit_wait: u64,
    pub split: u64,
    pub short_write: u64,
}

/// An open file: one handle per connection, or one for all where they share a session.
pub(crate) struct OpenFile {
    pub handles: Vec<Handle>,
    /// How it is claimed from the next session, where the server keeps it.
    pub durable: Option<Durable>,
    /// What goes with it.
    pub lease: Option<HeldLease>,
    /// Each write says that it is to be durable, as the open may not say so any more.
    pub write_through: bool,
}

/// See the module.
pub(crate) struct SmbSession {
    pub plan: Arc<Plan>,
    pub links: Vec<Link>,
    pub limits: Limits,
    /// The connections share one session and its handles.
    pub shared: bool,
    pub client: Client,
    /// The next call was made in the session before.
    pub repeats: bool,
    /// Leases of opens whose answer was lost: a server may hold them until its time is over.
    pub orphans: Vec<HeldLease>,
    /// The server's name for itself.
    pub server: [u8; 16],
    pub files: Vec<Option<OpenFile>>,
    pub events: Events,
    slots: Slots,
    /// Operations with parts that wait for credits.
    unsent: VecDeque<u32>,
    /// Ended while they waited: an earlier part failed.
    idle_done: Vec<Completion>,
    next_link: usize,
    /// The last mark that was asked about, and when it was created.
    pub mark_created: Option<(String, u64)>,
    /// Why the session is of no more use.
    lost: Option<String>,
    quiet_since: Option<Instant>,
}

impl SmbSession {
    pub fn new(plan: Arc<Plan>, links: Vec<Link>, limits: Limits, shared: bool, client: Client) -> SmbSession {
        SmbSession {
            plan,
            links,
            limits,
            shared,
            client,
            repeats: false,
            orphans: Vec::new(),
            server: [0; 16],
            files: Vec::new(),
            events: Events::default(),
            slots: Slots::default(),
            unsent: VecDeque::new(),
            idle_done: Vec::new(),
            next_link: 0,
            mark_created: None,
            lost: None,
            quiet_since: None,
        }
    }

    /// Whether the session can still be used.
    pub fn alive(&self) -> Result<()> {
        match &self.lost {
            None => Ok(()),
            Some(why) => {
                Err(Error::new(ErrorKind::Disconnected, "session", format!("this session ended before: {why}")))
            }
        }
    }

    /// Remembers that the session is lost when a call on its connections failed.
    pub fn guard<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let (Err(error), None) = (&outcome, &self.lost) {
            self.lost = Some(error.message.clone());
        }
        outcome
    }

    /// The handles of an open file.
    pub fn file(&self, file: FileId) -> Result<&OpenFile> {
        let found = self.files.get(file.0 as usize).and_then(Option::as_ref);
        found.ok_or_else(|| Error::new(ErrorKind::Invalid, "file", format!("file {} is not open", file.0)))
    }

    fn outstanding(&self) -> usize {
        self.slots.busy()
    }

    /// Bytes on all connections.
    pub fn wire_counters(&self) -> WireCounters {
        self.links.iter().fold(WireCounters::default(), |sum, link| sum + link.wire.counters())
    }

    /// The same by address, where several were given.
    pub fn counters_by_address(&self) -> BTreeMap<String, WireCounters> {
        let mut all = BTreeMap::new();
        if !self.plan.options.addresses.is_empty() {
            for link in &self.links {
                *all.entry(link.address.to_string()).or_default() += link.wire.counters();
            }
        }
        all
    }

    /// Starts an operation, as `Session::submit` says.
    ///
    /// # Safety
    /// As for `Session::submit`.
    #[inline]
    pub unsafe fn start(&mut self, op: &Op, buf: IoBuf, token: Token) -> Result<Submit> {
        self.alive()?;
        let handles = self.file(op.file)?.handles.len() as u32;
        if op.kind != OpKind::Flush && buf.len < op.len_bytes as usize {
            return Err(Error::new(ErrorKind::Invalid, "submit", "the buffer is shorter than the operation"));
        }
        let outcome = self.start_checked(op, buf, token, handles);
        self.guard(outcome)
    }

    fn start_checked(&mut self, op: &Op, buf: IoBuf, token: Token, handles: u32) -> Result<Submit> {
        if self.outstanding() == 0 {
            self.quiet_since = None;
        }
        if self.slots.busy() >= MAX_DEPTH as usize || !self.unsent.is_empty() || !self.any_room() {
            self.take_buffered()?;
            self.send_unsent()?;
            if self.slots.busy() >= MAX_DEPTH as usize || !self.unsent.is_empty() || !self.any_room() {
                return self.refuse();
            }
        }
        // A flush moves nothing: it has one part for each handle instead.
        let end = if op.kind == OpKind::Flush { handles } else { op.len_bytes };
        let slot = Slot::new(op, buf, token, end);
        let at = self.slots.add(slot);
        self.send_parts(at)?;
        self.events.credit_wait += u64::from(self.slots[at].waits);
        Ok(Submit::Queued)
    }

    #[cold]
    fn refuse(&mut self) -> Result<Submit> {
        if self.outstanding() == 0 {
            return Err(Error::new(ErrorKind::Protocol, "submit", "the server grants no credits: nothing can be sent"));
        }
        self.events.credit_wait += 1;
        Ok(Submit::Busy)
    }

    /// Whether some connection has a credit.
    fn any_room(&self) -> bool {
        self.links.iter().any(|l| l.window.has_room(1))
    }

    /// Sends the parts of an operation that the credits allow; the rest waits in line.
    fn send_parts(&mut self, at: u32) -> Result<()> {
        loop {
            let slot = &self.slots[at];
            if slot.sent >= slot.end && (slot.sent > 0 || slot.outstanding > 0) {
                return Ok(());
            }
            let sent = match slot.kind {
                OpKind::Flush => self.send_flush(at)?,
                _ => self.send_data(at)?,
            };
            if !sent {
                self.slots[at].waits = true;
                self.unsent.push_back(at);
                return Ok(());
            }
            if self.slots[at].end == 0 {
                return Ok(());
            }
        }
    }

    /// The connection with the fewest requests on their way, of those with credits for some of `len` bytes, and in turn
    /// among equals: its index, the bytes, and their charge. A slow one of several so gets less of the work.
    #[inline]
    fn choose_link(&mut self, len: u32, most: u32) -> Option<(usize, u32, u16)> {
        let count = self.links.len();
        let mut fewest = usize::MAX;
        let mut best = None;
        for step in 0..count {
            let i = (self.next_link + step) % count;
            let window = &self.links[i].window;
            // A server that never grants enough for the largest part gets smaller ones.
            let part = len.min(most).min(window.total().max(1).saturating_mul(CREDIT_BYTES));
            let charge = part.div_ceil(CREDIT_BYTES).max(1) as u16;
            if window.outstanding() < fewest && window.has_room(charge) {
                fewest = window.outstanding();
                best = Some((i, part, charge));
            }
        }
        if let Some((i, ..)) = best {
            self.next_link = (i + 1) % count;
        }
        best
    }

    #[inline]
    fn send_data(&mut self, at: u32) -> Result<bool> {
        let Slot { kind, file, offset_bytes, buf, sent, end, .. } = self.slots[at];
        let reads = kind == OpKind::Read;
        let most = if reads { self.limits.max_read } else { self.limits.max_write };
        let Some((i, len, charge)) = self.choose_link(end - sent, most) else {
            return Ok(false);
        };
        let slot = &mut self.slots[at];
        slot.sent += len;
        slot.outstanding += 1;
        if len < end {
            self.events.split += 1;
        }
        let open = self.files[file as usize].as_ref().expect("checked by submit");
        let handle = open.handles[i % open.handles.len()];
        let offset = offset_bytes + u64::from(sent);
        // SAFETY: `sent + len` lies within the operation, whose memory `submit` vouched for.
        let piece = IoBuf { ptr: unsafe { buf.ptr.add(sent as usize) }, len: len as usize };
        let link = &mut self.links[i];
        if reads {
            link.expect_large(len >= LARGE_BYTES);
            let body = file::read(&handle, offset, len);
            let data = Data { command: READ, charge, kind: Kind::Read, slot: at, at: sent, buf: piece, body: &body };
            link.push(&data, &[], false);
            if link.is_batch_full() {
                flush(&mut self.links, i, &[])?;
            }
            return Ok(true);
        }
        link.expect_large(false);
        // SAFETY: as above; the caller does not change a write's memory before its completion.
        let payload: &[u8] = unsafe { std::slice::from_raw_parts(piece.ptr, piece.len) };
        let body = file::write(&handle, offset, len, open.write_through);
        let data = Data { command: WRITE, charge, kind: Kind::Write, slot: at, at: sent, buf: piece, body: &body };
        let apart = link.goes_apart(payload.len());
        link.push(&data, payload, apart);
        if apart || link.is_batch_full() {
            flush(&mut self.links, i, if apart { payload } else { &[] })?;
        }
        Ok(true)
    }

    fn send_flush(&mut self, at: u32) -> Result<bool> {
        let Slot { file, sent, .. } = self.slots[at];
        let open = self.files[file as usize].as_ref().expect("checked by submit");
        let i = sent as usize % self.links.len();
        let body = file::flush(&open.handles[sent as usize]);
        let link = &mut self.links[i];
        if !link.window.has_room(1) {
            return Ok(false);
        }
        let buf = IoBuf::empty();
        link.push(
            &Data { command: FLUSH, charge: 1, kind: Kind::Flush, slot: at, at: sent, buf, body: &body },
            &[],
            false,
        );
        let slot = &mut self.slots[at];
        slot.sent += 1;
        slot.outstanding += 1;
        Ok(true)
    }

    /// Sends parts that waited for credits, in the order of their operations.
    fn send_unsent(&mut self) -> Result<()> {
        for _ in 0..self.unsent.len() {
            let Some(at) = self.unsent.pop_front() else { break };
            self.slots[at].waits = false;
            if let Some(done) = self.slots.finish_idle(at) {
                self.idle_done.push(done);
                continue;
            }
            self.send_parts(at)?;
            if self.slots[at].waits {
                // Back at the front: it was the oldest.
                self.unsent.rotate_right(1);
                break;
            }
        }
        Ok(())
    }

    fn flush_all(&mut self) -> Result<()> {
        for i in 0..self.links.len() {
            if self.links[i].has_unsent() {
                flush(&mut self.links, i, &[])?;
            }
        }
        Ok(())
    }

    /// Takes whole answers that are already here, without any system call.
    fn take_buffered(&mut self) -> Result<()> {
        for link in &mut self.links {
            while link.has_whole_frame() {
                link.receive(Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// Waits for an answer on any connection; false when none came.
    fn wait(&mut self, wait: Duration) -> Result<bool> {
        if let [link] = &mut self.links[..] {
            return link.receive(wait);
        }
        let seen = ready(&self.links, None, wait)?;
        let mut any = false;
        for (i, link) in self.links.iter_mut().enumerate() {
            if seen.readable & (1 << i) != 0 {
                any |= link.receive(Duration::ZERO)?;
            }
        }
        Ok(any)
    }

    /// As `Session::reap` says.
    pub fn collect(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<usize> {
        self.alive()?;
        let before = out.len();
        let outcome = self.collect_checked(min, timeout, out);
        self.guard(outcome)?;
        Ok(out.len() - before)
    }

    fn collect_checked(&mut self, min: usize, timeout: Option<Duration>, out: &mut Vec<Completion>) -> Result<()> {
        let goal = out.len() + min;
        let mut began: Option<Instant> = None;
        let mut polled = false;
        loop {
            self.flush_all()?;
            self.take_buffered()?;
            self.settle(out);
            if !self.unsent.is_empty() {
                self.send_unsent()?;
                self.flush_all()?;
                self.settle(out);
            }
            if self.outstanding() == 0 {
                self.quiet_since = None;
                return Ok(());
            }
            if (out.len() >= goal && min > 0) || polled {
                return Ok(());
            }
            let wait = match timeout {
                None => self.plan.timeout,
                // The clock is read only from the second wait on.
                Some(limit) => match began {
                    None => limit,
                    Some(began) => limit.saturating_sub(began.elapsed()),
                },
            };
            polled = min == 0 || wait.is_zero();
            let wait = if min == 0 { Duration::ZERO } else { wait };
            if began.is_none() && !wait.is_zero() {
                began = Some(Instant::now());
            }
            let came = self.wait(wait)?;
            if self.links.iter().any(|l| !l.finished.is_empty()) {
                self.quiet_since = None;
            } else {
                // Word that the server still works on it is no progress.
                self.note_quiet(if came { Duration::ZERO } else { wait })?;
                polled |= !came && timeout.is_some();
            }
        }
    }

    /// No operation progressed for `waited`: an error when that has lasted for the whole timeout.
    fn note_quiet(&mut self, waited: Duration) -> Result<()> {
        let now = Instant::now();
        let since = *self.quiet_since.get_or_insert(now - waited);
        if now - since >= self.plan.timeout {
            return Err(late(self.plan.timeout));
        }
        Ok(())
    }

    /// Turns answered parts into completions.
    fn settle(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.idle_done);
        for link in &mut self.links {
            for part in &link.finished {
                self.events.short_write +=
                    u64::from(part.kind == Kind::Write && part.status == 0 && part.bytes < part.len);
                if let Some(done) = self.slots.finish(part) {
                    out.push(done);
                }
            }
            link.finished.clear();
        }
    }

    /// The events so far, by name.
    pub fn event_counts(&self) -> Vec<(&'static str, u64)> {
        let sum = |f: fn(&Link) -> u64| self.links.iter().map(f).sum();
        vec![
            ("credit_wait", self.events.credit_wait),
            ("split", self.events.split),
            ("short_write", self.events.short_write),
            ("pending", sum(|l| l.events.pending)),
            ("lease_break", sum(|l| l.events.lease_break)),
            ("oplock_break", sum(|l| l.events.oplock_break)),
        ]
    }
}
