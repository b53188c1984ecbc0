//! One worker's part of one cell: untimed set-up, the window, untimed end.

use crate::conditions::Turn;
use crate::files::{one_op, FilePlan};
use crate::recorder::{Interval, KindSet, Recorder};
use crate::script::{Script, ScriptRun};
use crate::spare::Spare;
use crate::spec::CellSpec;
use crate::usage::Cpu;
use crate::verify::{Verified, Verifier};
use crate::walk::Positions;
use crate::worker::{Counted, Counters, Flags, Limits, StopReason, Worker};
use crate::workspace::remove_if_there;
use naslab_core::{limit, Caps, Clock, Error, ErrorKind, FileId, Op, OpKind, OpenOptions, Result, Session, Told};
use naslab_workload::{Arrival, DataKind, DataSpec, Mix, OpStream, Payload, StepKind, Tagger};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Operations logged per worker at most.
const OP_LOG_MAX: u64 = 1 << 22;
/// After a session failed: longest wait for a completion of what it had in flight.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// A cell made ready for its workers.
pub(crate) struct CellJob {
    pub spec: CellSpec,
    pub plans: Vec<FilePlan>,
    pub caps: Caps,
    pub clock: Clock,
    pub seed: u64,
    pub flags: Flags,
    pub counters: Vec<Counters>,
    pub positions: Positions,
    pub script: Option<Arc<Script>>,
    /// Where a script's files lie.
    pub files_folder: String,
    /// Of a cell that follows another at once: what its one worker records in, every page touched beforehand.
    pub ahead: Option<Mutex<Option<Recorder>>>,
}

impl CellJob {
    /// Longest time for which the cell itself may start nothing: think time and gaps between due times
    /// (exponential gaps exceed 32 times their mean once in 10^14).
    pub fn longest_wait_ns(&self) -> u64 {
        let gap_ns = self.spec.pace.map_or(0.0, |p| 32e9 * self.spec.workers as f64 / p.rate_per_s);
        self.spec.think_ns.max(self.spec.burst_gap_ns).saturating_add(gap_ns as u64)
    }
}

/// What one worker brings home.
pub(crate) struct WorkerResult {
    pub worker: u32,
    pub recorder: Recorder,
    pub start_ns: u64,
    pub ack_ns: u64,
    pub end_ns: u64,
    pub pause_ns: u64,
    pub flush_ns: Option<u64>,
    pub close_ns: u64,
    pub generation_ns: u64,
    pub missed_starts: u64,
    /// Operations and bytes before the window.
    pub warm_up: (u64, u64),
    pub verified: Option<Verified>,
    pub stop: StopReason,
    pub error: Option<Error>,
    /// The first call of a script that failed.
    pub first_call_error: Option<Told>,
    pub counted: Counted,
    pub cpu_before: Cpu,
    pub cpu_after: Cpu,
    /// The thread's own times as its window began, and as the last operation ended.
    pub turn_before: Option<Turn>,
    pub turn_after: Option<Turn>,
    pub cached_fraction: Option<f64>,
}

impl WorkerResult {
    /// Whether the session can be used again.
    pub fn session_is_good(&self) -> bool {
        self.error.is_none() && self.stop != StopReason::Error
    }

    /// Whether it ended with an error that is not the user's wish to stop.
    pub fn broke(&self) -> bool {
        self.error.as_ref().is_some_and(|e| e.kind != ErrorKind::Interrupted)
    }
}

/// A worker between its set-up and its end.
pub(crate) struct Ready<'a> {
    pub worker: Worker<'a>,
    job: &'a CellJob,
    index: u32,
    /// None while a script opens files itself.
    file: Option<FileId>,
    /// CPU time of the process when the window ended.
    cpu_after: Cpu,
    turn_after: Option<Turn>,
    /// End of the last completion on the clock of windows.
    pub ack_ns: u64,
    pub error: Option<Error>,
}

/// Removes and creates what this worker owns.
pub(crate) fn prepare_file(session: &mut dyn Session, job: &CellJob, index: u32) -> Result<()> {
    if job.script.is_some() {
        return if index == 0 { make_files_folder(session, job) } else { Ok(()) };
    }
    let plan = &job.plans[index as usize];
    if !plan.owner {
        return Ok(());
    }
    if job.spec.remove_before {
        remove_if_there(session, &plan.path, plan.path.contains('/'))?;
    }
    if job.caps.evict && (job.spec.cold || job.spec.direct) && session.stat(&plan.path).is_ok() {
        session.evict(&plan.path)?;
    }
    if job.spec.shared_file() && job.spec.writes() {
        let file = session.open(&plan.path, &creating(&job.spec))?;
        session.close(file)?;
    }
    Ok(())
}

/// The folder of a script's files, unless an earlier cell made it.
fn make_files_folder(session: &mut dyn Session, job: &CellJob) -> Result<()> {
    match session.stat(&job.files_folder) {
        Err(e) if e.kind == ErrorKind::NotFound => session.mkdir(&job.files_folder),
        other => other.map(drop),
    }
}

fn creating(spec: &CellSpec) -> OpenOptions {
    let writer = (0..spec.workers).find(|w| spec.write_fraction_of(*w) > 0.0).unwrap_or(0);
    OpenOptions { access: Default::default(), ..spec.open_options(writer) }
}

/// Opens the file, allocates and registers memory, primes: all untimed.
pub(crate) fn open<'a>(
    session: &'a mut dyn Session,
    job: &'a CellJob,
    index: u32,
    spare: &mut Spare,
) -> Result<Ready<'a>> {
    let spec = &job.spec;
    if let Some(script) = &job.script {
        return open_script(session, job, script, index);
    }
    let plan = &job.plans[index as usize];
    let options = open_options(spec, index);
    let file = session.open(&plan.path, &options)?;
    if job.caps.flush {
        let flushed = session.flush(file, Default::default());
        // Some servers flush only what is open for writing.
        flushed.or_else(|e| if options.write { Err(e) } else { Ok(()) })?;
    }
    let mut worker = make_worker(session, job, index, spare)?;
    worker.stream.set_file(file);
    worker.register()?;
    if spec.prime {
        prime(&mut worker, job, file)?;
    }
    worker.count();
    Ok(Ready {
        worker,
        job,
        index,
        file: Some(file),
        cpu_after: Cpu::default(),
        turn_after: None,
        ack_ns: 0,
        error: None,
    })
}

/// A worker that carries out a stream of a script, which opens its files itself.
fn open_script<'a>(
    session: &'a mut dyn Session,
    job: &'a CellJob,
    script: &Arc<Script>,
    index: u32,
) -> Result<Ready<'a>> {
    let spec = &job.spec;
    let head = &script.head.streams[index as usize];
    let interval = Interval { ticks: job.clock.ticks_of(spec.interval_ns), ns: spec.interval_ns };
    let log = spec.record_ops.then(|| head.steps.min(OP_LOG_MAX) as usize);
    let recorder = Recorder::new(KindSet::of_stream(head), script.spec.recorded_pace, interval, log);
    let record_bytes = head.most_bytes.max(4096);
    let payload = match head.has(StepKind::Write) {
        true => {
            let data = DataSpec { kind: spec.data_kind(), seed: job.seed };
            let tagger = matches!(spec.data_kind(), DataKind::Random { .. }).then_some(Tagger {
                run: job.seed,
                file: index,
                generation: spec.id as u32,
                unit: 4096,
                checksum: false,
            });
            Some(Payload::new(&data, record_bytes.next_multiple_of(4096), 1, index, tagger)?)
        }
        false => None,
    };
    let stream = OpStream::new(spec.pattern(), 0, 1, record_bytes, 0, Mix { write_fraction: 0.0 }, 0);
    let limits = Limits { gap_ns: script.spec.deadline_ns, ..limits(spec, 1) };
    let counters = &job.counters[index as usize];
    let reads = head.has(StepKind::Read);
    let run = ScriptRun::new(script, index, job.caps.max_depth == 1)?;
    let (clock, flags) = (job.clock.clone(), &job.flags);
    let worker = Worker::new(
        session,
        stream,
        recorder,
        payload,
        None,
        clock,
        flags,
        counters,
        limits,
        record_bytes,
        reads,
        None,
    )?;
    let mut worker = worker.with_script(run);
    worker.register()?;
    worker.count();
    Ok(Ready { worker, job, index, file: None, cpu_after: Cpu::default(), turn_after: None, ack_ns: 0, error: None })
}

fn limits(spec: &CellSpec, depth: u32) -> Limits {
    Limits {
        depth,
        duration_ns: spec.duration_ns,
        warmup_ns: spec.warmup_ns,
        think_ns: spec.think_ns,
        think_counted: spec.think_counted || spec.burst_ops > 0,
        gap_ns: spec.pace.map_or(0, |p| (1e9 * spec.workers as f64 / p.rate_per_s) as u64),
        rate_limit: spec.pace.is_some_and(|p| p.limit),
        burst_ops: spec.burst_ops,
        burst_gap_ns: spec.burst_gap_ns,
    }
}

/// How a worker opens its file: the owner of a shared file has created and cut it by now.
fn open_options(spec: &CellSpec, index: u32) -> OpenOptions {
    let mut options = spec.open_options(index);
    if spec.shared_file() && spec.writes() {
        options.create = naslab_core::Create::Never;
        options.truncate = false;
    }
    options.truncate &= options.write;
    options
}

/// What a worker records in, but for a script's.
pub(crate) fn make_recorder(spec: &CellSpec, clock: &Clock, index: u32, log: Option<usize>) -> Recorder {
    let fraction = spec.write_fraction_of(index);
    let mut kinds = Vec::new();
    if fraction < 1.0 {
        kinds.push(OpKind::Read);
    }
    if fraction > 0.0 {
        kinds.push(OpKind::Write);
    }
    let interval = Interval { ticks: clock.ticks_of(spec.interval_ns), ns: spec.interval_ns };
    Recorder::new(KindSet::of_ops(&kinds), spec.open_loop(), interval, log)
}

fn make_worker<'a>(
    session: &'a mut dyn Session,
    job: &'a CellJob,
    index: u32,
    spare: &mut Spare,
) -> Result<Worker<'a>> {
    let spec = &job.spec;
    let plan = &job.plans[index as usize];
    let fraction = spec.write_fraction_of(index);
    let stream = make_stream(job, index);
    let log = spec.record_ops.then(|| stream.ops_left().min(OP_LOG_MAX) as usize);
    let ahead = job.ahead.as_ref().and_then(|ahead| ahead.lock().unwrap_or_else(|e| e.into_inner()).take());
    let recorder = ahead.unwrap_or_else(|| make_recorder(spec, &job.clock, index, log));
    let payload = match fraction > 0.0 {
        true => {
            let data = DataSpec { kind: spec.data_kind(), seed: job.seed };
            Some(spare.payload(&data, spec.record_bytes, spec.queue_depth, index, plan.tagger)?)
        }
        false => None,
    };
    let threaded = spec.queue_depth > 1 && !job.caps.virtual_time;
    let verifier = plan.check.map(|check| Verifier::new(check, threaded, spec.queue_depth as usize + 64));
    let limits = limits(spec, spec.queue_depth);
    let counters = &job.counters[index as usize];
    let needs_reads = fraction < 1.0 || spec.prime;
    Worker::new(
        session,
        stream,
        recorder,
        payload,
        verifier,
        job.clock.clone(),
        &job.flags,
        counters,
        limits,
        spec.record_bytes,
        needs_reads,
        spare.read.take(),
    )
}

fn make_stream(job: &CellJob, index: u32) -> OpStream {
    let spec = &job.spec;
    let (first, records) = share(spec, index);
    let ops = ops_of(spec, index, records);
    let mix = Mix { write_fraction: spec.write_fraction_of(index) };
    let seed = spec.seed ^ (index as u64) << 32;
    let mut stream = OpStream::new(spec.pattern(), first, records, spec.record_bytes, ops, mix, seed);
    if let Some(walk) = &spec.walk {
        stream = stream.with_walk(walk.of_worker(spec, index, &job.positions, seed));
    }
    match spec.pace {
        Some(pace) => {
            stream.with_arrival(Arrival::new(pace.arrival(), pace.rate_per_s, index, spec.workers, spec.seed))
        }
        None => stream,
    }
}

/// The records a worker visits: its part of a shared file, or all of its own. With fewer records than
/// workers, those without a part double up, unless each record is to be visited just once.
fn share(spec: &CellSpec, index: u32) -> (u64, u64) {
    if !spec.shared_file() {
        return (0, spec.records());
    }
    match part(spec.records(), index, spec.workers) {
        (_, 0) if !spec.one_pass() => (index as u64 % spec.records(), 1),
        own => own,
    }
}

/// Part `index` of `of` when `total` things are divided as evenly as whole numbers allow: first, count.
pub(crate) fn part(total: u64, index: u32, of: u32) -> (u64, u64) {
    let (index, of) = (index as u64, of as u64);
    let (each, rest) = (total / of, total % of);
    (index * each + index.min(rest), each + u64::from(index < rest))
}

fn ops_of(spec: &CellSpec, index: u32, records: u64) -> u64 {
    let by_bytes = spec.stop_bytes.map(|b| b / spec.record_bytes as u64);
    let total = match (spec.stop_ops, by_bytes) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    match total {
        Some(total) => part(total, index, spec.workers).1,
        None if spec.duration_ns.is_some() => u64::MAX,
        None => records,
    }
}

/// One untimed read of record 0, as IOzone does before its read tests.
fn prime(worker: &mut Worker<'_>, job: &CellJob, file: FileId) -> Result<()> {
    let buf = worker.scratch();
    let len_bytes = job.spec.record_bytes;
    let op = Op { kind: OpKind::Read, file, offset_bytes: 0, len_bytes, due_ns: None };
    let read = one_op(worker.session, &job.clock, &op, naslab_core::IoBuf { len: len_bytes as usize, ..buf });
    if read.is_err() {
        // It may still be under way.
        worker.abandon_memory();
    }
    read.map(drop)
}

/// What came after the last operation.
struct End {
    end_ns: u64,
    flush_ns: Option<u64>,
    close_ns: u64,
    cached_fraction: Option<f64>,
}

impl Ready<'_> {
    /// Starts the window.
    pub fn begin(&mut self) {
        self.job.counters[self.index as usize].timing.store(true, Ordering::Relaxed);
        self.worker.begin();
    }

    /// The last operation ended.
    pub fn acknowledged(&mut self) {
        let stop = self.worker.stop;
        if self.worker.verifier.is_some() && stop == Some(StopReason::Done) {
            self.worker.pause_since_last();
        }
        self.ack_ns = self.job.clock.window_ns();
        self.cpu_after = Cpu::of(&*self.worker.session);
        self.turn_after = Turn::now(self.job.clock.is_virtual());
        self.worker.interval_ended();
        let counters = &self.job.counters[self.index as usize];
        counters.timing.store(false, Ordering::Relaxed);
        let worked = counters.ops.load(Ordering::Relaxed) > 0;
        if self.job.spec.stonewall && stop == Some(StopReason::Done) && worked {
            self.job.flags.stonewall.store(true, Ordering::Relaxed);
        }
        if self.worker.is_warming_up() {
            self.forget_warm_up(worked);
        }
    }

    /// Nothing of a cell that ended before its window began is a result.
    fn forget_warm_up(&mut self, worked: bool) {
        self.worker.warm_up = self.worker.recorder.totals();
        self.worker.recorder.reset();
        self.worker.window_start_ns = self.ack_ns;
        let cut_short = matches!(self.worker.stop, Some(StopReason::Interrupted | StopReason::Error));
        if worked && !cut_short {
            let message = "the cell ended within its warm-up: give a shorter warm-up or more to do";
            self.error.get_or_insert(Error::new(ErrorKind::Invalid, "run", message));
        }
    }

    /// The session failed. What was in flight is waited for and, if it never ends, counted as failed.
    pub fn failed(&mut self, error: Error) {
        let over = self.job.flags.over().is_some();
        // Of two errors the first is the cause.
        let _ = self.worker.drain(if over { Duration::ZERO } else { DRAIN_LIMIT });
        let cut = error.kind == ErrorKind::Interrupted;
        self.worker.stop = Some(if cut { StopReason::Interrupted } else { StopReason::Error });
        self.acknowledged();
        if cut {
            self.error = Some(error);
            return;
        }
        for _ in 0..self.worker.outstanding().max(1) {
            self.worker.recorder.failure(error.op_error(), self.job.clock.ticks());
        }
        self.error = Some(error);
    }

    /// Flush and close, timed or not, and everything that must not be timed.
    /// spare: keeps the memory of a cell that another one follows at once.
    pub fn finish(mut self, spare: &mut Spare) -> WorkerResult {
        let stop = self.worker.stop.unwrap_or(StopReason::Error);
        let mut end = End { end_ns: self.ack_ns, flush_ns: None, close_ns: 0, cached_fraction: None };
        if self.worker.outstanding() > 0 {
            self.worker.abandon_memory();
            return self.result(stop, end, spare);
        }
        let spec = &self.job.spec;
        if spec.timed_flush {
            end.flush_ns = self.flush();
            end.end_ns = self.job.clock.window_ns();
            self.cpu_after = Cpu::of(&*self.worker.session);
        }
        if stop == StopReason::Stonewall && spec.finish_untimed && self.error.is_none() {
            self.error = self.worker.finish_untimed().err();
        }
        if spec.cooldown_ns > 0 && stop == StopReason::Duration && self.error.is_none() {
            self.error = self.worker.cool_down(spec.cooldown_ns).err();
        }
        if !spec.timed_flush && stop != StopReason::Interrupted {
            end.flush_ns = self.flush();
        }
        end.cached_fraction = self.cached_fraction();
        end.close_ns = self.close();
        if spec.timed_close {
            end.end_ns += end.close_ns;
            self.cpu_after = Cpu::of(&*self.worker.session);
        }
        self.result(stop, end, spare)
    }

    /// Time from the call to durability, in nanoseconds.
    fn flush(&mut self) -> Option<u64> {
        let spec = &self.job.spec;
        let writes = spec.write_fraction_of(self.index) > 0.0;
        let wanted = self.job.caps.flush && (writes || spec.timed_flush);
        let kind = spec.flush_kind().filter(|_| wanted)?;
        let file = self.file?;
        if self.error.is_some() || self.worker.stop == Some(StopReason::Error) {
            return None;
        }
        let start = self.job.clock.window_ns();
        match limit::timed(spec.timed_flush, || self.worker.session.flush(file, kind)) {
            Ok(()) => Some(self.job.clock.window_ns() - start),
            Err(error) => {
                // Some servers flush only what is open for writing.
                self.error = Some(error).filter(|_| writes);
                None
            }
        }
    }

    fn cached_fraction(&mut self) -> Option<f64> {
        if !self.job.spec.direct || self.file.is_none() {
            return None;
        }
        self.worker.session.cached_fraction(&self.job.plans[self.index as usize].path).ok().flatten()
    }

    /// Time to close, in nanoseconds.
    fn close(&mut self) -> u64 {
        let start = self.job.clock.window_ns();
        let mut open: Vec<FileId> = self.worker.script.iter_mut().flat_map(|script| script.left_open()).collect();
        open.extend(self.file);
        let mut closed = Ok(());
        for file in open {
            let one = limit::timed(self.job.spec.timed_close, || self.worker.session.close(file));
            closed = closed.and(one);
        }
        let close_ns = self.job.clock.window_ns() - start;
        // SAFETY: no region is lent any more.
        let forgotten = unsafe { self.worker.session.register_memory(&[]) };
        // A script's call that broke the session is the cause, and told as such.
        if let Some(error) = closed.and(forgotten).err().filter(|_| self.worker.stop != Some(StopReason::Error)) {
            self.error.get_or_insert(error);
        }
        close_ns
    }

    fn result(self, stop: StopReason, end: End, spare: &mut Spare) -> WorkerResult {
        let Ready { mut worker, mut error, .. } = self;
        if self.job.ahead.is_some() {
            (spare.read, spare.payload) = worker.take_memory();
        }
        worker.recorder.finish();
        if let Some(log) = &mut worker.recorder.op_log {
            log.iter_mut().for_each(|row| row[3] = self.index as i64);
        }
        let counted = worker.counted();
        let first_call_error = worker.first_call_error();
        let verified = match worker.verifier.take().map(Verifier::finish).transpose() {
            Ok(found) => found,
            Err(lost) => {
                error.get_or_insert(lost);
                None
            }
        };
        WorkerResult {
            worker: self.index,
            start_ns: worker.window_start_ns,
            ack_ns: self.ack_ns,
            end_ns: end.end_ns,
            pause_ns: worker.pause_ns(),
            flush_ns: end.flush_ns,
            close_ns: end.close_ns,
            generation_ns: worker.generation_ns,
            missed_starts: worker.missed_starts,
            warm_up: worker.warm_up,
            verified,
            stop,
            error,
            first_call_error,
            counted,
            cpu_before: worker.cpu_before,
            cpu_after: self.cpu_after,
            turn_before: worker.turn_before,
            turn_after: self.turn_after,
            cached_fraction: end.cached_fraction,
            recorder: worker.recorder,
        }
    }
}

/// Refuses what the target cannot do, before anything is written.
pub(crate) fn check_caps(spec: &CellSpec, caps: &Caps, protocol: &str) -> Result<()> {
    use naslab_core::Access;
    let refuse = |what: &str, next: &str| {
        let message = format!("cell {} ({}): the {protocol} target has no {what}: {next}", spec.id, spec.op);
        Err(Error::new(ErrorKind::Unsupported, "plan", message))
    };
    if spec.queue_depth > caps.max_depth {
        return refuse("such queue depth", "lower --depth, or use --workers (local paths: ?engine=uring)");
    }
    if spec.direct && !caps.direct {
        return refuse("unbuffered I/O", "leave out --direct");
    }
    if spec.syncs() && !caps.sync_writes {
        return refuse("durable single writes", "use --durability end");
    }
    if spec.timed_flush && !caps.flush {
        return refuse("flush", "use --durability none");
    }
    if spec.verify && !caps.keeps_data {
        return refuse("stored file contents", "leave out --verify (simulator: ?store_data=true)");
    }
    if spec.cold && !caps.evict {
        return refuse("way to drop cached data", "leave out --cold");
    }
    if spec.locks() && !caps.locks {
        return refuse("locks", "leave out the lock option");
    }
    match spec.access() {
        Access::Mmap if !caps.mmap => refuse("memory mapping", "leave out the mmap option"),
        Access::Stdio if !caps.stdio => refuse("stdio streams", "choose tests without fwrite and fread"),
        Access::Cursor if !caps.cursor => refuse("file cursor", "use positioned access"),
        _ if spec.direct && !spec.record_bytes.is_multiple_of(caps.alignment.offset_bytes.max(1)) => {
            refuse(&format!("unbuffered record of {} bytes", spec.record_bytes), "use a multiple of its block size")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::part;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_everything_once(total in 0u64..10_000, of in 1u32..64) {
            let mut next = 0;
            for index in 0..of {
                let (first, count) = part(total, index, of);
                prop_assert_eq!(first, next);
                next = first + count;
            }
            prop_assert_eq!(next, total);
        }
    }
}
