//! The hot loop: one worker keeps its session's queue full and records completions.

mod after;
mod flags;
mod scripted;

use crate::conditions::Turn;
use crate::recorder::Recorder;
use crate::script::{Announcement, ScriptRun};
use crate::spare::memory;
use crate::timeline::BUCKETS;
use crate::usage::Cpu;
use crate::verify::Verifier;
pub(crate) use flags::Flags;
use naslab_core::{
    AlignedBuf, Clock, Completion, Error, ErrorKind, FileId, IoBuf, Op, OpError, OpKind, Result, Session, Submit, Told,
    WireCounters,
};
use naslab_workload::{OpStream, Payload};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// Longest wait for a completion before the stop flags are looked at again.
const REAP_SLICE: Duration = Duration::from_millis(50);
/// Waits for a due time shorter than this are spun.
const SPIN: Duration = Duration::from_micros(60);
/// One in so many generated records is timed, to estimate the CPU spent on generation.
const GENERATION_SAMPLE: u64 = 64;
/// A worker gives up after so many failures in a row.
const MAX_FAILURES_IN_A_ROW: u64 = 1000;
/// No payload slot is held.
const NO_SLOT: u32 = u32::MAX;

/// Progress of one worker, read by the coordinator. Padded to its own cache line pair.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub ops: AtomicU64,
    pub bytes: AtomicU64,
    pub errors: AtomicU64,
    /// Whether the worker is between its first and last operation.
    pub timing: AtomicBool,
    /// Operations by latency since the coordinator last took them; only of intervals that ended.
    pub recent: Mutex<Recent>,
}

/// Operations by latency, in buckets of the timeline.
#[derive(Debug)]
pub(crate) struct Recent(pub [u64; BUCKETS]);

impl Default for Recent {
    fn default() -> Recent {
        Recent([0; BUCKETS])
    }
}

/// Why a worker stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    Done,
    Duration,
    Stonewall,
    Interrupted,
    Error,
}

/// How long a worker runs and waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub depth: u32,
    pub duration_ns: Option<u64>,
    pub warmup_ns: u64,
    pub think_ns: u64,
    pub think_counted: bool,
    /// Mean time between this worker's due times, in nanoseconds.
    pub gap_ns: u64,
    /// Due times only limit the rate: latency counts from submission, and nothing is missed.
    pub rate_limit: bool,
    /// Operations between pauses of `burst_gap_ns`; 0: no pauses.
    pub burst_ops: u32,
    /// Pause between bursts.
    pub burst_gap_ns: u64,
}

/// What a pump achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pump {
    /// Something was submitted or reaped.
    Progressed,
    /// Nothing to do before this time of the engine's clock, or before a completion.
    Waiting(Option<u64>),
    /// All operations ended.
    Finished,
}

/// What a session counts beside operations: bytes on the wire and protocol events.
#[derive(Default)]
pub(crate) struct Counted {
    pub wire: Option<WireCounters>,
    pub addresses: BTreeMap<String, WireCounters>,
    pub events: BTreeMap<&'static str, u64>,
}

impl Counted {
    fn of(session: &dyn Session) -> Counted {
        Counted {
            wire: session.wire(),
            addresses: session.wire_by_address(),
            events: session.events().into_iter().collect(),
        }
    }

    fn since(self, before: &Counted) -> Counted {
        let wire = before.wire.zip(self.wire).map(|(before, after)| after.since(before));
        let addresses = self.addresses.into_iter().map(|(address, after)| {
            let earlier = before.addresses.get(&address).copied().unwrap_or_default();
            (address, after.since(earlier))
        });
        let earlier = |name| before.events.get(name).copied().unwrap_or(0);
        let since = |(name, count): (&'static str, u64)| (name, count.saturating_sub(earlier(name)));
        let addresses = addresses.collect();
        Counted {
            wire,
            addresses,
            events: self.events.into_iter().map(since).filter(|(_, count)| *count > 0).collect(),
        }
    }
}

#[derive(Clone, Copy)]
struct Slot {
    start: u64,
    due: u64,
    offset_bytes: u64,
    len_bytes: u32,
    kind: OpKind,
    payload_slot: u32,
    read_buffer: u32,
}

impl Slot {
    const EMPTY: Slot = Slot {
        start: 0,
        due: 0,
        offset_bytes: 0,
        len_bytes: 0,
        kind: OpKind::Read,
        payload_slot: NO_SLOT,
        read_buffer: NO_SLOT,
    };
}

/// Where a worker is in its script.
#[derive(Default)]
struct Scripted {
    /// Whether it has one.
    active: bool,
    /// Times in a row that a step waited for another stream.
    waits: u32,
    /// To be made just before the next operation is submitted.
    announcement: Option<Announcement>,
    /// Whether the step under way failed when it was recorded.
    may_fail: bool,
    /// Number of the step under way.
    step: i64,
    /// What makes the data of a write unlike all others.
    unique_bytes: u64,
    /// The first call that failed.
    first_error: Option<Told>,
}

/// Everything one worker needs between the common start and its last completion.
pub(crate) struct Worker<'a> {
    pub session: &'a mut dyn Session,
    pub stream: OpStream,
    pub recorder: Recorder,
    pub payload: Option<Payload>,
    pub verifier: Option<Verifier>,
    clock: Clock,
    flags: &'a Flags,
    counters: &'a Counters,
    limits: Limits,
    read_memory: AlignedBuf,
    read_stride: usize,
    read_free: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    completions: Vec<Completion>,
    /// An operation that must wait, valid while `has_pending`.
    pending: Op,
    has_pending: bool,
    /// Start of the window, in ticks of the clock as all points in time below.
    start: u64,
    /// Start of the window on the clock of windows (CLOCK_MONOTONIC or virtual), after warm-up.
    pub window_start_ns: u64,
    warm_until: u64,
    deadline: u64,
    last_end: u64,
    next_think: u64,
    /// Operations left of the present burst.
    burst_left: u32,
    wake: u64,
    gap: u64,
    think: u64,
    pause: u64,
    failures_in_a_row: u64,
    generated: u64,
    pub generation_ns: u64,
    pub missed_starts: u64,
    /// Operations and bytes before the window.
    pub warm_up: (u64, u64),
    /// What the session had counted, and CPU time of the process, when the window began.
    counted_before: Counted,
    /// What had gone over the wire when the last interval ended.
    wire_before: Option<WireCounters>,
    pub cpu_before: Cpu,
    /// The thread's own times then; none on a virtual clock.
    pub turn_before: Option<Turn>,
    pub stop: Option<StopReason>,
    /// Steps to carry out instead of the stream.
    pub script: Option<Box<ScriptRun>>,
    /// Of the script, where there is one.
    scripted: Scripted,
}

impl<'a> Worker<'a> {
    /// A worker with memory for `limits.depth` operations of `record_bytes`: with what is kept, if it is of that size.
    #[allow(clippy::too_many_arguments)] // a constructor of independent parts, called once
    pub fn new(
        session: &'a mut dyn Session,
        stream: OpStream,
        recorder: Recorder,
        payload: Option<Payload>,
        verifier: Option<Verifier>,
        clock: Clock,
        flags: &'a Flags,
        counters: &'a Counters,
        limits: Limits,
        record_bytes: u32,
        reads: bool,
        kept: Option<AlignedBuf>,
    ) -> Result<Worker<'a>> {
        let depth = limits.depth as usize;
        let spare = if verifier.is_some() { depth.clamp(2, 64) } else { 0 };
        let read_buffers = if reads { depth + spare } else { 0 };
        let read_stride = (record_bytes as usize).next_multiple_of(4096);
        Ok(Worker {
            session,
            stream,
            recorder,
            payload,
            verifier,
            flags,
            counters,
            limits,
            read_memory: memory(kept, (read_buffers * read_stride).max(1))?,
            read_stride,
            read_free: (0..read_buffers as u32).rev().collect(),
            slots: vec![Slot::EMPTY; depth],
            free: (0..limits.depth).rev().collect(),
            completions: Vec::with_capacity(depth),
            pending: Op { kind: OpKind::Read, file: FileId(0), offset_bytes: 0, len_bytes: 0, due_ns: None },
            has_pending: false,
            start: 0,
            window_start_ns: 0,
            warm_until: u64::MAX,
            deadline: u64::MAX,
            last_end: 0,
            next_think: 0,
            burst_left: limits.burst_ops,
            wake: 0,
            gap: clock.ticks_of(limits.gap_ns),
            think: clock.ticks_of(limits.think_ns),
            pause: 0,
            failures_in_a_row: 0,
            generated: 0,
            generation_ns: 0,
            missed_starts: 0,
            warm_up: (0, 0),
            counted_before: Counted::default(),
            wire_before: None,
            cpu_before: Cpu::default(),
            turn_before: None,
            stop: None,
            script: None,
            scripted: Scripted::default(),
            clock,
        })
    }

    /// Registers the worker's memory with its session.
    pub fn register(&mut self) -> Result<()> {
        let mut regions = vec![self.read_memory.lend(0, self.read_memory.len())];
        regions.extend(self.payload.as_ref().map(Payload::region));
        // SAFETY: both regions live as long as the worker, which outlives all its operations, and the
        // cell registers anew or closes its files before the worker is dropped.
        unsafe { self.session.register_memory(&regions) }
    }

    /// A buffer of one record for untimed reads before the start.
    pub fn scratch(&self) -> IoBuf {
        self.read_memory.lend(0, self.read_stride.min(self.read_memory.len()))
    }

    /// Carries out the steps of a script.
    pub fn with_script(mut self, script: ScriptRun) -> Worker<'a> {
        self.scripted.announcement = script.announcement();
        self.script = Some(Box::new(script));
        self.scripted.active = true;
        self
    }

    /// The first call of a script that failed.
    pub fn first_call_error(&mut self) -> Option<Told> {
        self.scripted.first_error.take()
    }

    /// Starts the window.
    pub fn begin(&mut self) {
        self.turn_before = Turn::now(self.clock.is_virtual());
        self.cpu_before = Cpu::of(&*self.session);
        self.window_start_ns = self.clock.window_ns();
        let now = self.clock.ticks();
        self.start = now;
        self.last_end = now;
        self.recorder.arm(now);
        if self.limits.warmup_ns > 0 {
            self.warm_until = now.saturating_add(self.clock.ticks_of(self.limits.warmup_ns));
        }
        if let Some(duration) = self.limits.duration_ns {
            let span_ns = self.limits.warmup_ns.saturating_add(duration);
            self.deadline = now.saturating_add(self.clock.ticks_of(span_ns));
        }
    }

    /// Time taken out of the window: the client's own work and think time while nothing was in flight.
    pub fn pause_ns(&self) -> u64 {
        self.clock.span_ns(0, self.pause)
    }

    /// Time until a point in ticks; zero if it has passed.
    fn until(&self, at: u64) -> Duration {
        Duration::from_nanos(self.clock.span_ns(self.clock.ticks(), at))
    }

    /// Whether the window has not begun yet.
    pub fn is_warming_up(&self) -> bool {
        self.limits.warmup_ns > 0 && self.warm_until != u64::MAX
    }

    /// Takes the time since the last completion out of the window: its record was being checked.
    pub fn pause_since_last(&mut self) {
        self.pause += self.clock.ticks().saturating_sub(self.last_end);
    }

    /// Operations whose completion has not been seen.
    pub fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Submits what may start now and reaps what has ended; waits for a completion or a due time if
    /// `wait` and nothing else can be done.
    pub fn pump(&mut self, wait: bool) -> Result<Pump> {
        let submitted = self.fill()?;
        if self.outstanding() == 0 {
            if self.stop.is_some() {
                return Ok(Pump::Finished);
            }
            return Ok(self.idle(wait, submitted));
        }
        let timeout = if self.wake > 0 { self.until(self.wake).min(REAP_SLICE) } else { REAP_SLICE };
        let reaped = self.session.reap(usize::from(wait), Some(timeout), &mut self.completions)?;
        if reaped > 0 {
            self.complete_all();
        } else if let Some(error) = self.flags.over() {
            return Err(error);
        }
        Ok(match submitted || reaped > 0 {
            true => Pump::Progressed,
            false => Pump::Waiting((self.wake > 0).then_some(self.wake)),
        })
    }

    fn idle(&mut self, wait: bool, submitted: bool) -> Pump {
        if submitted {
            return Pump::Progressed;
        }
        if wait && self.wake > 0 {
            match self.until(self.wake).checked_sub(SPIN) {
                Some(rest) if !rest.is_zero() => std::thread::sleep(rest.min(REAP_SLICE)),
                _ => std::hint::spin_loop(),
            }
        }
        Pump::Waiting((self.wake > 0).then_some(self.wake))
    }

    /// Fills the queue; true if anything was submitted.
    #[inline]
    fn fill(&mut self) -> Result<bool> {
        if let Some(mut script) = self.script.take() {
            let started = self.fill_scripted(&mut script);
            self.script = Some(script);
            return started;
        }
        let mut submitted = false;
        self.wake = 0;
        while self.stop.is_none() && !self.free.is_empty() {
            self.check_flags();
            if self.stop.is_some() {
                break;
            }
            let Some(op) = self.next_op() else {
                self.stop = Some(StopReason::Done);
                break;
            };
            if !self.start_op(&op)? {
                self.keep(op);
                break;
            }
            submitted = true;
        }
        Ok(submitted)
    }

    #[inline(always)]
    fn next_op(&mut self) -> Option<Op> {
        if self.has_pending {
            self.has_pending = false;
            return Some(self.pending);
        }
        self.stream.next_op()
    }

    #[cold]
    fn keep(&mut self, op: Op) {
        self.has_pending = true;
        self.pending = op;
    }

    #[inline]
    fn check_flags(&mut self) {
        if self.flags.interrupt.load(Ordering::Relaxed) {
            self.stop = Some(StopReason::Interrupted);
        } else if self.flags.stonewall.load(Ordering::Relaxed) {
            self.stop = Some(StopReason::Stonewall);
        }
    }

    /// Whether an operation must wait; then `wake` says until when.
    #[inline(always)]
    fn must_wait(&mut self, op: &Op) -> bool {
        if op.due_ns.is_none() && self.think == 0 && self.limits.burst_ops == 0 {
            return false;
        }
        let due = op.due_ns.map_or(0, |due| self.start + self.clock.ticks_of(due)).max(self.next_think);
        let now = self.clock.ticks();
        if due <= now {
            return false;
        }
        self.wake = due.min(self.deadline);
        if now >= self.deadline {
            self.stop = Some(StopReason::Duration);
        }
        true
    }

    /// Starts one operation; false when it must wait (the caller keeps it) or the time is up.
    #[inline(always)]
    fn start_op(&mut self, op: &Op) -> Result<bool> {
        if self.must_wait(op) {
            return Ok(false);
        }
        let token = self.free[self.free.len() - 1];
        let Some((buf, payload_slot, read_buffer)) = self.buffer_for(op) else {
            return Ok(false);
        };
        let now = self.clock.ticks();
        if now >= self.deadline {
            self.give_back(payload_slot, read_buffer);
            self.time_is_up(op);
            return Ok(false);
        }
        self.account_gap(op, now);
        let due = match op.due_ns {
            Some(due) if !self.limits.rate_limit => self.start + self.clock.ticks_of(due),
            _ => now,
        };
        if self.limits.burst_ops > 0 {
            self.count_burst(now);
        }
        self.slots[token as usize] = Slot {
            start: now,
            due,
            offset_bytes: op.offset_bytes,
            len_bytes: op.len_bytes,
            kind: op.kind,
            payload_slot,
            read_buffer,
        };
        if let Some(announcement) = &self.scripted.announcement {
            announcement.make();
        }
        // SAFETY: the buffer belongs to this token until its completion is processed.
        match unsafe { self.session.submit(op, buf, token)? } {
            Submit::Queued => {
                self.free.pop();
                self.missed_starts += u64::from(now > due + self.gap);
                Ok(true)
            }
            Submit::Completed(completion) => {
                self.free.pop();
                self.missed_starts += u64::from(now > due + self.gap);
                self.complete_at_once(completion);
                Ok(true)
            }
            Submit::Busy => self.refused(payload_slot, read_buffer),
        }
    }

    /// After the last operation of a burst the next one waits.
    #[cold]
    fn count_burst(&mut self, now: u64) {
        self.burst_left = self.burst_left.saturating_sub(1);
        if self.burst_left == 0 {
            self.burst_left = self.limits.burst_ops;
            self.next_think = now.saturating_add(self.clock.ticks_of(self.limits.burst_gap_ns));
        }
    }

    /// The window is over. In an open loop, what was due in it and never started was missed.
    #[cold]
    fn time_is_up(&mut self, op: &Op) {
        self.stop = Some(StopReason::Duration);
        if let Some(due_ns) = op.due_ns.filter(|_| !self.limits.rate_limit) {
            let due = self.start + self.clock.ticks_of(due_ns);
            if due < self.deadline {
                self.missed_starts += 1 + (self.deadline - 1 - due) / self.gap.max(1);
            }
        }
    }

    /// The session has no room: legal only while something is in flight.
    #[cold]
    fn refused(&mut self, payload_slot: u32, read_buffer: u32) -> Result<bool> {
        self.give_back(payload_slot, read_buffer);
        if self.outstanding() == 0 {
            return Err(Error::new(ErrorKind::Io, "submit", "the target is busy although no operation is outstanding"));
        }
        Ok(false)
    }

    /// The client's own work between operations (choosing, stamping, checking, thinking) does not count while
    /// nothing is in flight: the server waits for us then, and we do not wait for it. A stream of a script may have
    /// waited for another one, whose operations the server did meanwhile.
    #[inline(always)]
    fn account_gap(&mut self, op: &Op, now: u64) {
        if op.due_ns.is_none() && self.outstanding() == 0 && !self.scripted.active {
            let from = if self.limits.think_counted { self.last_end.max(self.next_think) } else { self.last_end };
            self.pause += now.saturating_sub(from);
        }
    }

    #[inline]
    fn buffer_for(&mut self, op: &Op) -> Option<(IoBuf, u32, u32)> {
        match op.kind {
            OpKind::Flush => Some((IoBuf::empty(), NO_SLOT, NO_SLOT)),
            OpKind::Write => {
                let (slot, buf) = match self.scripted.active {
                    false => self.generate(op.offset_bytes)?,
                    true => self.payload.as_mut()?.take_part(self.scripted.unique_bytes, op.len_bytes as usize)?,
                };
                Some((buf, slot, NO_SLOT))
            }
            OpKind::Read => {
                let buffer = self.read_buffer()?;
                let at = buffer as usize * self.read_stride;
                Some((self.read_memory.lend(at, op.len_bytes as usize), NO_SLOT, buffer))
            }
        }
    }

    #[inline]
    fn read_buffer(&mut self) -> Option<u32> {
        if let Some(verifier) = &mut self.verifier {
            // While operations are in flight, their completions must not wait for the checker.
            let idle = self.slots.len() == self.free.len();
            while let Some(buffer) = verifier.freed(idle && self.read_free.is_empty()) {
                self.read_free.push(buffer);
            }
        }
        self.read_free.pop()
    }

    #[inline]
    fn generate(&mut self, offset_bytes: u64) -> Option<(u32, IoBuf)> {
        let payload = self.payload.as_mut()?;
        self.generated += 1;
        if self.generated % GENERATION_SAMPLE != 1 {
            return payload.take(offset_bytes);
        }
        let start = self.clock.ticks();
        let taken = payload.take(offset_bytes);
        self.generation_ns += self.clock.span_ns(start, self.clock.ticks()) * GENERATION_SAMPLE;
        taken
    }

    #[inline]
    fn give_back(&mut self, payload_slot: u32, read_buffer: u32) {
        if payload_slot != NO_SLOT {
            self.payload.iter_mut().for_each(|p| p.release(payload_slot));
        }
        if read_buffer != NO_SLOT {
            self.read_free.push(read_buffer);
        }
    }

    #[inline(always)]
    fn complete_all(&mut self) {
        let now = self.clock.ticks();
        for i in 0..self.completions.len() {
            self.complete(self.completions[i], now);
        }
        self.completions.clear();
        self.after_completions(now);
    }

    /// A synchronous target's completion. Apart from the loop over reaped ones, which stays small.
    #[inline(never)]
    fn complete_at_once(&mut self, completion: Completion) {
        let now = self.clock.ticks();
        self.complete(completion, now);
        self.after_completions(now);
    }

    #[inline(always)]
    fn after_completions(&mut self, now: u64) {
        self.last_end = now;
        if self.think > 0 {
            self.next_think = now + self.think;
        }
        if self.recorder.rolled {
            self.interval_ended();
        }
        if now >= self.warm_until {
            self.end_warm_up();
        }
    }

    /// An interval, or the window, ended: notes what went over the wire, and tells the coordinator how slow
    /// operations were.
    #[cold]
    pub fn interval_ended(&mut self) {
        let now = self.session.wire();
        let moved = now.zip(self.wire_before).map_or([0, 0], |(now, before)| {
            [now.sent_bytes.saturating_sub(before.sent_bytes), now.received_bytes.saturating_sub(before.received_bytes)]
        });
        self.wire_before = now;
        self.recorder.count_wire(moved.map(|bytes| bytes as i64));
        // A poisoned lock only means that the coordinator panicked; counts are plain data.
        let mut recent = self.counters.recent.lock().unwrap_or_else(|e| e.into_inner());
        for (bucket, count) in self.recorder.news() {
            recent.0[bucket] += count;
        }
    }

    #[cold]
    fn end_warm_up(&mut self) {
        self.warm_until = u64::MAX;
        self.pause = 0;
        self.missed_starts = 0;
        self.generation_ns = 0;
        self.warm_up = self.recorder.totals();
        self.recorder.reset();
        self.count();
        self.turn_before = Turn::now(self.clock.is_virtual());
        self.cpu_before = Cpu::of(&*self.session);
        let now = self.clock.ticks();
        self.recorder.arm(now);
        self.last_end = now;
        self.window_start_ns = self.clock.window_ns();
    }

    #[inline(always)]
    fn complete(&mut self, completion: Completion, now: u64) {
        let Completion { token, bytes, error } = completion;
        let slot = self.slots[token as usize];
        self.free.push(token);
        match error {
            None => self.succeed(&slot, bytes, now),
            Some(error) if self.is_forgiven(error) => self.succeed(&slot, bytes, now),
            Some(error) => self.fail(error, now),
        }
        if slot.payload_slot != NO_SLOT {
            self.payload.iter_mut().for_each(|p| p.release(slot.payload_slot));
        }
        if slot.read_buffer != NO_SLOT && self.verified(&slot, error.is_none()) {
            self.read_free.push(slot.read_buffer);
        }
    }

    #[inline(always)]
    fn succeed(&mut self, slot: &Slot, bytes: u32, now: u64) {
        let service_ns = self.clock.span_ns(slot.start, now);
        let response_ns = if slot.due == slot.start { service_ns } else { self.clock.span_ns(slot.due, now) };
        self.recorder.success(slot.kind, bytes, now, service_ns, response_ns);
        self.succeeded(bytes);
        if let Some(log) = self.recorder.op_log.as_mut().filter(|log| log.len() < log.capacity()) {
            let row = match self.scripted.active {
                false => [slot.offset_bytes as i64, service_ns as i64, bytes as i64, 0],
                true => [self.scripted.step, self.clock.span_ns(self.start, slot.start) as i64, service_ns as i64, 0],
            };
            log.push(row);
        }
    }

    /// A script reads up to the end of a file, as programs do, and may do again what failed when it was recorded.
    #[cold]
    fn is_forgiven(&self, error: OpError) -> bool {
        let may_fail = self.scripted.may_fail && !error.kind.loses_session();
        self.scripted.active && (error.kind == ErrorKind::Short || may_fail)
    }

    #[inline(always)]
    fn succeeded(&mut self, bytes: u32) {
        self.failures_in_a_row = 0;
        // Only this worker writes its counters, so plain load and store count exactly.
        let add = |c: &AtomicU64, n: u64| c.store(c.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.counters.ops, 1);
        add(&self.counters.bytes, bytes as u64);
    }

    #[cold]
    fn fail(&mut self, error: OpError, now: u64) {
        self.recorder.failure(error, now);
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
        self.failures_in_a_row += 1;
        if error.kind.ends_worker() || self.failures_in_a_row >= MAX_FAILURES_IN_A_ROW {
            self.stop = Some(StopReason::Error);
        }
    }

    /// Hands a record to the checker; true when its buffer is free at once.
    #[inline]
    fn verified(&mut self, slot: &Slot, good: bool) -> bool {
        match &mut self.verifier {
            Some(verifier) if good => {
                let at = slot.read_buffer as usize * self.read_stride;
                let data = self.read_memory.lend(at, slot.len_bytes as usize);
                // SAFETY: the buffer is not reused before the checker gives it back.
                unsafe { verifier.submit(slot.read_buffer, data, slot.offset_bytes) }
            }
            _ => true,
        }
    }

    /// Reaps everything in flight, giving up after `limit` without a completion.
    pub fn drain(&mut self, limit: Duration) -> Result<()> {
        while self.outstanding() > 0 {
            if self.session.reap(1, Some(limit), &mut self.completions)? > 0 {
                self.complete_all();
                continue;
            }
            match self.session.next_event_ns() {
                Some(at) if self.clock.is_virtual() => self.clock.advance_to(at),
                _ => return Err(Error::new(ErrorKind::Timeout, "reap", "outstanding operations did not end")),
            }
        }
        Ok(())
    }

    /// Gives memory away that a session may still use, because its operations never ended.
    pub fn abandon_memory(&mut self) {
        if let Ok(empty) = AlignedBuf::new(1) {
            std::mem::forget(std::mem::replace(&mut self.read_memory, empty));
        }
        std::mem::forget(self.payload.take());
    }

    /// The memory of a worker that has ended, for another one.
    pub fn take_memory(&mut self) -> (Option<AlignedBuf>, Option<Payload>) {
        let read = AlignedBuf::new(1).ok().map(|empty| std::mem::replace(&mut self.read_memory, empty));
        (read, self.payload.take())
    }

    /// Remembers what the session counted so far: the window's counts begin here.
    pub fn count(&mut self) {
        self.counted_before = Counted::of(self.session);
        self.wire_before = self.counted_before.wire;
    }

    /// What the session counted since `count`.
    pub fn counted(&self) -> Counted {
        Counted::of(self.session).since(&self.counted_before)
    }
}
