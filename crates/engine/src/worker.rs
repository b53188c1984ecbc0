//! The hot loop: one worker keeps its session's queue full and records completions.

use crate::recorder::Recorder;
use crate::verify::Verifier;
use naslab_core::{
    AlignedBuf, Clock, Completion, Error, ErrorKind, IoBuf, Op, OpError, OpKind, Result, Session, Submit,
};
use naslab_workload::{OpStream, Payload};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Longest wait for a completion before the stop flags are looked at again.
const REAP_SLICE: Duration = Duration::from_millis(50);
/// Waits for a due time shorter than this are spun, in nanoseconds.
const SPIN_NS: u64 = 60_000;
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
}

/// Flags shared by the workers of a cell.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// Ctrl-C or a fatal error: stop, keep what was measured.
    pub interrupt: AtomicBool,
    /// Some worker finished and the cell stops with the first.
    pub stonewall: AtomicBool,
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

#[derive(Clone, Copy)]
struct Slot {
    start_ns: u64,
    due_ns: u64,
    offset_bytes: u64,
    len_bytes: u32,
    kind: OpKind,
    payload_slot: u32,
    read_buffer: u32,
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
    pending: Option<Op>,
    start_ns: u64,
    /// Start of the window on the clock of windows (CLOCK_MONOTONIC or virtual), after warm-up.
    pub window_start_ns: u64,
    warm_until_ns: u64,
    deadline_ns: u64,
    last_end_ns: u64,
    next_think_ns: u64,
    wake_ns: u64,
    failures_in_a_row: u64,
    generated: u64,
    /// Time taken out of the window: generation, checking and think time while nothing was in flight.
    pub pause_ns: u64,
    pub generation_ns: u64,
    pub missed_starts: u64,
    pub stop: Option<StopReason>,
}

impl<'a> Worker<'a> {
    /// A worker with memory for `limits.depth` operations of `record_bytes`.
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
    ) -> Result<Worker<'a>> {
        let depth = limits.depth as usize;
        let spare = if verifier.is_some() { depth.clamp(2, 64) } else { 0 };
        let read_buffers = if reads { depth + spare } else { 0 };
        let read_stride = (record_bytes as usize).next_multiple_of(4096);
        let empty = Slot {
            start_ns: 0,
            due_ns: 0,
            offset_bytes: 0,
            len_bytes: 0,
            kind: OpKind::Read,
            payload_slot: NO_SLOT,
            read_buffer: NO_SLOT,
        };
        Ok(Worker {
            session,
            stream,
            recorder,
            payload,
            verifier,
            clock,
            flags,
            counters,
            limits,
            read_memory: AlignedBuf::new((read_buffers * read_stride).max(1))?,
            read_stride,
            read_free: (0..read_buffers as u32).rev().collect(),
            slots: vec![empty; depth],
            free: (0..limits.depth).rev().collect(),
            completions: Vec::with_capacity(depth),
            pending: None,
            start_ns: 0,
            window_start_ns: 0,
            warm_until_ns: u64::MAX,
            deadline_ns: u64::MAX,
            last_end_ns: 0,
            next_think_ns: 0,
            wake_ns: 0,
            failures_in_a_row: 0,
            generated: 0,
            pause_ns: 0,
            generation_ns: 0,
            missed_starts: 0,
            stop: None,
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

    /// Starts the window.
    pub fn begin(&mut self) {
        self.window_start_ns = self.clock.window_ns();
        let now = self.clock.now_ns();
        self.start_ns = now;
        self.last_end_ns = now;
        self.recorder.arm(now);
        if self.limits.warmup_ns > 0 {
            self.warm_until_ns = now + self.limits.warmup_ns;
        }
        if let Some(duration) = self.limits.duration_ns {
            self.deadline_ns = now + self.limits.warmup_ns + duration;
        }
    }

    fn outstanding(&self) -> usize {
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
        let timeout = if self.wake_ns > 0 {
            Duration::from_nanos(self.wake_ns.saturating_sub(self.clock.now_ns())).min(REAP_SLICE)
        } else {
            REAP_SLICE
        };
        let reaped = self.session.reap(usize::from(wait), Some(timeout), &mut self.completions)?;
        if reaped > 0 {
            self.complete_all()?;
        }
        Ok(match submitted || reaped > 0 {
            true => Pump::Progressed,
            false => Pump::Waiting((self.wake_ns > 0).then_some(self.wake_ns)),
        })
    }

    fn idle(&mut self, wait: bool, submitted: bool) -> Pump {
        if submitted {
            return Pump::Progressed;
        }
        if wait && self.wake_ns > 0 {
            let now = self.clock.now_ns();
            if self.wake_ns > now + SPIN_NS {
                std::thread::sleep(Duration::from_nanos(self.wake_ns - now - SPIN_NS).min(REAP_SLICE));
            } else {
                std::hint::spin_loop();
            }
        }
        Pump::Waiting((self.wake_ns > 0).then_some(self.wake_ns))
    }

    /// Fills the queue; true if anything was submitted.
    #[inline]
    fn fill(&mut self) -> Result<bool> {
        let mut submitted = false;
        self.wake_ns = 0;
        while self.stop.is_none() && !self.free.is_empty() {
            self.check_flags();
            if self.stop.is_some() {
                break;
            }
            let Some(op) = self.pending.take().or_else(|| self.stream.next_op()) else {
                self.stop = Some(StopReason::Done);
                break;
            };
            if !self.start_op(op)? {
                break;
            }
            submitted = true;
        }
        Ok(submitted)
    }

    #[inline]
    fn check_flags(&mut self) {
        if self.flags.interrupt.load(Ordering::Relaxed) {
            self.stop = Some(StopReason::Interrupted);
        } else if self.flags.stonewall.load(Ordering::Relaxed) {
            self.stop = Some(StopReason::Stonewall);
        }
    }

    /// When an operation may start at the earliest, if that lies in the future.
    #[inline]
    fn not_before(&self, op: &Op) -> Option<u64> {
        if op.due_ns.is_none() && self.next_think_ns == 0 {
            return None;
        }
        let due = op.due_ns.map_or(0, |due| self.start_ns + due).max(self.next_think_ns);
        (due > self.clock.now_ns()).then_some(due)
    }

    /// Starts one operation; false when it must wait (it is kept) or the time is up.
    #[inline]
    fn start_op(&mut self, op: Op) -> Result<bool> {
        if let Some(due) = self.not_before(&op) {
            self.pending = Some(op);
            self.wake_ns = due.min(self.deadline_ns);
            if due >= self.deadline_ns && self.clock.now_ns() >= self.deadline_ns {
                self.stop = Some(StopReason::Duration);
            }
            return Ok(false);
        }
        let token = self.free[self.free.len() - 1];
        let Some((buf, payload_slot, read_buffer)) = self.buffer_for(&op) else {
            self.pending = Some(op);
            return Ok(false);
        };
        let now = self.clock.now_ns();
        if now >= self.deadline_ns {
            self.give_back(payload_slot, read_buffer);
            self.stop = Some(StopReason::Duration);
            return Ok(false);
        }
        self.account_gap(&op, now);
        let due_ns = op.due_ns.map_or(now, |due| self.start_ns + due);
        self.slots[token as usize] = Slot {
            start_ns: now,
            due_ns,
            offset_bytes: op.offset_bytes,
            len_bytes: op.len_bytes,
            kind: op.kind,
            payload_slot,
            read_buffer,
        };
        // SAFETY: the buffer belongs to this token until its completion is processed.
        match unsafe { self.session.submit(&op, buf, token)? } {
            Submit::Queued => {
                self.free.pop();
                self.missed_starts += u64::from(now > due_ns + self.limits.gap_ns);
                Ok(true)
            }
            Submit::Busy => {
                self.give_back(payload_slot, read_buffer);
                self.pending = Some(op);
                if self.outstanding() == 0 {
                    return Err(Error::new(ErrorKind::Io, "submit", "the target is busy with nothing in flight"));
                }
                Ok(false)
            }
        }
    }

    /// The client's own work between operations does not count while nothing is in flight.
    #[inline]
    fn account_gap(&mut self, op: &Op, now: u64) {
        let own_work = op.kind == OpKind::Write || self.verifier.is_some();
        let thinking = self.limits.think_ns > 0 && !self.limits.think_counted;
        if (own_work || thinking) && op.due_ns.is_none() && self.outstanding() == 0 {
            self.pause_ns += now - self.last_end_ns;
        }
    }

    #[inline]
    fn buffer_for(&mut self, op: &Op) -> Option<(IoBuf, u32, u32)> {
        match op.kind {
            OpKind::Flush => Some((IoBuf::empty(), NO_SLOT, NO_SLOT)),
            OpKind::Write => {
                let (slot, buf) = self.generate(op.offset_bytes)?;
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
            while let Some(buffer) = verifier.freed(self.read_free.is_empty()) {
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
        let start = self.clock.now_ns();
        let taken = payload.take(offset_bytes);
        self.generation_ns += (self.clock.now_ns() - start) * GENERATION_SAMPLE;
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

    #[inline]
    fn complete_all(&mut self) -> Result<()> {
        let now = self.clock.now_ns();
        for i in 0..self.completions.len() {
            let completion = self.completions[i];
            self.complete(completion, now);
        }
        self.completions.clear();
        self.last_end_ns = now;
        if self.limits.think_ns > 0 {
            self.next_think_ns = now + self.limits.think_ns;
        }
        if now >= self.warm_until_ns {
            self.end_warm_up(now);
        }
        Ok(())
    }

    #[cold]
    fn end_warm_up(&mut self, now: u64) {
        self.warm_until_ns = u64::MAX;
        self.pause_ns = 0;
        self.missed_starts = 0;
        self.recorder.reset();
        self.recorder.arm(now);
        self.window_start_ns = self.clock.window_ns();
    }

    #[inline]
    fn complete(&mut self, completion: Completion, now: u64) {
        let slot = self.slots[completion.token as usize];
        self.free.push(completion.token);
        match completion.error {
            None => {
                self.succeed(&slot, completion.bytes, now);
                self.failures_in_a_row = 0;
            }
            Some(error) => self.fail(error, now),
        }
        if slot.payload_slot != NO_SLOT {
            self.payload.iter_mut().for_each(|p| p.release(slot.payload_slot));
        }
        if slot.read_buffer != NO_SLOT && self.verified(&slot, completion.error.is_none()) {
            self.read_free.push(slot.read_buffer);
        }
    }

    #[inline]
    fn succeed(&mut self, slot: &Slot, bytes: u32, now: u64) {
        let service = now.saturating_sub(slot.start_ns);
        self.recorder.success(slot.kind, bytes, now, service, now.saturating_sub(slot.due_ns));
        // Only this worker writes its counters, so plain load and store count exactly.
        let add = |c: &AtomicU64, n: u64| c.store(c.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.counters.ops, 1);
        add(&self.counters.bytes, bytes as u64);
        if let Some(log) = &mut self.recorder.op_log {
            log.push([slot.offset_bytes as i64, service as i64, bytes as i64, 0]);
        }
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
            if self.session.reap(1, Some(limit), &mut self.completions)? == 0 {
                return Err(Error::new(ErrorKind::Timeout, "reap", "operations in flight did not end"));
            }
            self.complete_all()?;
        }
        Ok(())
    }

    /// Writes what a stonewalled pass left out, unrecorded, so that later passes find a whole file.
    pub fn finish_untimed(&mut self) -> Result<()> {
        let kept = std::mem::replace(&mut self.recorder, Recorder::new(&[], false, u64::MAX / 2, None));
        let outcome = self.finish_rest();
        self.recorder = kept;
        outcome
    }

    fn finish_rest(&mut self) -> Result<()> {
        self.deadline_ns = u64::MAX;
        let reason = self.stop;
        loop {
            self.stop = None;
            let Some(op) = self.pending.take().or_else(|| self.stream.next_op()) else { break };
            self.start_op(Op { due_ns: None, ..op })?;
            self.drain(REAP_SLICE * 200)?;
            if self.stop.is_some() || self.flags.interrupt.load(Ordering::Relaxed) {
                break;
            }
        }
        self.stop = reason;
        Ok(())
    }
}
