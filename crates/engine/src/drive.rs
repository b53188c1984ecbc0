//! Carries one cell through its steps, on threads or on a virtual clock.

use crate::assemble::Around;
use crate::cell::{self, CellJob, Ready, WorkerResult};
use crate::conditions::Sampler;
use crate::result::Progress;
use crate::run::{Events, Point};
use crate::spare::Spare;
use crate::stall::LATE_NS;
use crate::threads::{common_start, Gate, Message, Signal, Threads};
use crate::timeline::{quantile_ns, BUCKETS};
use crate::usage::{moved_bytes, storage_bytes};
use crate::worker::{Pump, StopReason};
use naslab_core::{monotonic_ns, wall_ns, Error, ErrorKind, Result, Session, Target};
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often flags and signals are looked at.
const SLICE: Duration = Duration::from_millis(20);
/// A virtual run looks at signals once in so many steps.
const VIRTUAL_CHECK_STEPS: u64 = 10_000;
/// A virtual run that makes no step in so many turns never will.
const VIRTUAL_STUCK_STEPS: u32 = 1000;

/// Opening, flushing, closing and cleaning up can be slow without a sign of life: they may take this many
/// times the run's timeout.
const QUIET_TIMEOUTS: u64 = 30;
/// After Ctrl-C: how long operations in flight and calls on the server may go on before nobody waits for them.
pub(crate) const LAST_WAIT: Duration = Duration::from_millis(500);
/// After a hang was found: how long workers have to come home with what they measured.
const GRACE: Duration = Duration::from_secs(2);

/// Results of cells that follow each other at once are held back so long at most, but for the cell under way then.
const HELD_NS: u64 = 200_000_000;

/// What the coordinator watches for during a cell.
pub(crate) struct Watch<'a> {
    pub events: &'a mut dyn Events,
    pub progress_interval_ns: u64,
    pub timeout_ns: u64,
    /// Other clients are waited for.
    pub together: bool,
    /// Looks at this machine while threads measure.
    pub sampler: &'a mut Sampler,
}

impl Watch<'_> {
    /// When to go on from a point of the cell; 0: now.
    fn meet(&mut self, job: &CellJob, point: Point) -> Result<u64> {
        match self.together {
            true => self.events.together(job.spec.id, point),
            false => Ok(0),
        }
    }
}

/// Waits for something that gives no sign of life until it has ended.
pub(crate) struct Patience {
    timeout_ns: u64,
    since_ns: u64,
    interrupted_ns: Option<u64>,
}

impl Patience {
    pub fn new(timeout_ns: u64) -> Patience {
        Patience { timeout_ns, since_ns: monotonic_ns(), interrupted_ns: None }
    }

    /// Takes time out during which this client itself stood still.
    fn forgive(&mut self, away_ns: u64, now: u64) {
        self.since_ns = (self.since_ns + away_ns).min(now);
    }

    /// Whether the user has wanted to stop for [`LAST_WAIT`].
    pub fn is_over(&self) -> bool {
        let since = |at: u64| Duration::from_nanos(monotonic_ns().saturating_sub(at));
        self.interrupted_ns.is_some_and(|at| since(at) >= LAST_WAIT)
    }

    /// Waits no longer than the run's timeout.
    pub fn hurry(&mut self) {
        self.interrupted_ns = Some(monotonic_ns());
    }

    /// A Timeout error when it has taken too long. After Ctrl-C the run's timeout is the limit.
    pub fn check(&mut self, what: &str, events: &mut dyn Events) -> Result<()> {
        let now = monotonic_ns();
        if self.interrupted_ns.is_none() && events.interrupted() {
            self.interrupted_ns = Some(now);
        }
        let (since, limit) = match self.interrupted_ns {
            Some(at) => (at, self.timeout_ns),
            None => (self.since_ns, self.timeout_ns.saturating_mul(QUIET_TIMEOUTS)),
        };
        if now - since <= limit {
            return Ok(());
        }
        let message = format!("{what} did not end within {} s: the target hangs", (now - since) / 1_000_000_000);
        Err(Error::new(ErrorKind::Timeout, "run", message))
    }
}

/// The way workers are run.
pub(crate) enum Driver {
    Threads(Threads),
    Virtual { target: Arc<dyn Target>, sessions: Vec<Box<dyn Session>> },
}

impl Driver {
    pub fn new(target: &Arc<dyn Target>) -> Driver {
        match target.caps().virtual_time {
            true => Driver::Virtual { target: target.clone(), sessions: Vec::new() },
            false => Driver::Threads(Threads::new(target.clone())),
        }
    }

    /// Carries out one cell.
    pub fn run(&mut self, job: &Arc<CellJob>, watch: &mut Watch<'_>) -> Result<Vec<WorkerResult>> {
        match self {
            Driver::Threads(threads) => run_threads(threads, job, watch),
            Driver::Virtual { target, sessions } => {
                if job.spec.fresh_sessions {
                    sessions.clear();
                }
                while sessions.len() < job.spec.workers as usize {
                    sessions.push(target.connect(sessions.len() as u32)?);
                }
                let results = run_virtual(sessions, job, watch);
                if !results.as_ref().is_ok_and(|all| all.iter().all(WorkerResult::session_is_good)) {
                    // The next cell connects anew.
                    sessions.clear();
                }
                results
            }
        }
    }
}

fn run_threads(threads: &mut Threads, job: &Arc<CellJob>, watch: &mut Watch<'_>) -> Result<Vec<WorkerResult>> {
    let held = job.spec.workers > 1 || watch.together;
    let gate = threads.start(job, held)?;
    Crew::new(threads, job, gate).carry_out(held, watch)
}

/// A cell that ended, and the readings around it.
pub(crate) type Ended = (Vec<WorkerResult>, Around);

/// Carries out cells of one worker, which has all of them beforehand and goes from one to the next without sleeping. Of
/// cells behind one that took long or was not whole, those are left out that were not begun by then. An error ends the
/// run; the cells before it ended well.
pub(crate) fn run_back_to_back(
    threads: &mut Threads,
    jobs: &[Arc<CellJob>],
    watch: &mut Watch<'_>,
) -> (Vec<Ended>, Result<()>) {
    let mut ended = Vec::with_capacity(jobs.len());
    let gates: Result<Vec<_>> = jobs.iter().map(|job| threads.start(job, false)).collect();
    let outcome = gates.and_then(|gates| {
        let done = follow(threads, jobs, &gates, watch, &mut ended);
        if done.is_err() {
            // Their worker takes up none of them, or ends it at once, before its thread ends.
            for (job, gate) in jobs.iter().zip(&gates) {
                job.flags.interrupt.store(true, Ordering::Relaxed);
                gate.cancel();
            }
        }
        done
    });
    (ended, outcome)
}

fn follow(
    threads: &Threads,
    jobs: &[Arc<CellJob>],
    gates: &[Arc<Gate>],
    watch: &mut Watch<'_>,
    ended: &mut Vec<Ended>,
) -> Result<()> {
    let until_ns = monotonic_ns() + HELD_NS;
    let mut goes_on = true;
    let mut before = storage_bytes();
    for (job, gate) in jobs.iter().zip(gates) {
        let mut crew = Crew::new(threads, job, Arc::clone(gate));
        if !goes_on && gate.cancel() {
            crew.send_home(watch)?;
            continue;
        }
        let start_wall_ns = wall_ns();
        let workers = crew.carry_out(false, watch)?;
        let after = storage_bytes();
        let storage = moved_bytes(before, after);
        before = after;
        let client = watch.sampler.take(&workers);
        let whole = workers.iter().all(|w| w.session_is_good() && w.stop != StopReason::Interrupted);
        goes_on &= whole && monotonic_ns() < until_ns;
        ended.push((workers, Around { start_wall_ns, storage, client, ..Around::default() }));
    }
    Ok(())
}

/// The coordinator's view of the workers of one cell.
struct Crew<'t> {
    threads: &'t Threads,
    job: &'t Arc<CellJob>,
    gate: Arc<Gate>,
    done: Vec<WorkerResult>,
    home: u32,
    panicked: Option<Error>,
    /// The target was found to hang, and the workers came home nevertheless.
    hang: Option<Error>,
    /// When the user wanted to stop.
    interrupted: Option<Instant>,
}

impl<'t> Crew<'t> {
    fn new(threads: &'t Threads, job: &'t Arc<CellJob>, gate: Arc<Gate>) -> Crew<'t> {
        Crew { threads, job, gate, done: Vec::new(), home: 0, panicked: None, hang: None, interrupted: None }
    }

    /// The whole cell. held: its workers wait for each other, or for other clients.
    fn carry_out(mut self, held: bool, watch: &mut Watch<'_>) -> Result<Vec<WorkerResult>> {
        self.step("preparing the files", watch)?;
        if held {
            self.meet(Point::Prepared, watch)?;
            self.gate.set(Signal::Open);
        }
        self.step("opening the files", watch)?;
        if held {
            let at_ns = self.meet(Point::Opened, watch)?;
            self.gate.set(Signal::Begin(common_start().max(at_ns)));
        }
        watch.sampler.begin();
        self.wait_done(watch)?;
        watch.sampler.end(self.job.spec.workers);
        self.tell_hang();
        self.done.sort_by_key(|r| r.worker);
        Ok(self.done)
    }

    /// Waits until every worker ended a step of the set-up; sends all home if one failed.
    fn step(&mut self, what: &str, watch: &mut Watch<'_>) -> Result<()> {
        let mut patience = Patience::new(watch.timeout_ns);
        let mut failed = None;
        let mut stepped = 0;
        while stepped < self.job.spec.workers {
            match self.threads.messages().recv_timeout(SLICE) {
                Ok(Message::Step(result)) => {
                    stepped += 1;
                    failed = failed.or(result.err());
                }
                Ok(message) => {
                    stepped += u32::from(matches!(message, Message::Panicked(_)));
                    self.welcome(message);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look(watch);
                    patience.check(what, watch.events).inspect_err(|_| self.gate.set(Signal::Abort))?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
        match failed.or(self.panicked.take()) {
            None => Ok(()),
            Some(error) => {
                self.send_home(watch)?;
                Err(error)
            }
        }
    }

    /// Waits for the other clients, if there are any; sends all home if they are not coming.
    fn meet(&mut self, point: Point, watch: &mut Watch<'_>) -> Result<u64> {
        match watch.meet(self.job, point) {
            Ok(at_ns) => Ok(at_ns),
            Err(error) => {
                self.send_home(watch)?;
                Err(error)
            }
        }
    }

    /// A worker came home.
    fn welcome(&mut self, message: Message) {
        match message {
            Message::Step(_) => return,
            Message::Done(result) => self.done.extend(result.map(|r| *r)),
            Message::Panicked(error) => {
                self.panicked.get_or_insert(error);
                self.job.flags.interrupt.store(true, Ordering::Relaxed);
            }
        }
        self.home += 1;
    }

    fn look(&mut self, watch: &mut Watch<'_>) {
        if watch.events.interrupted() {
            self.job.flags.interrupt.store(true, Ordering::Relaxed);
            let since = self.interrupted.get_or_insert_with(Instant::now);
            if since.elapsed() >= LAST_WAIT {
                self.job.flags.cut.store(true, Ordering::Relaxed);
            }
        }
    }

    /// A hang is a failure of the cell, whatever its workers made of being called home.
    fn tell_hang(&mut self) {
        let broke = self.done.iter().any(WorkerResult::broke);
        if let (Some(hang), false, Some(first)) = (self.hang.take(), broke, self.done.first_mut()) {
            first.error = Some(hang);
        }
    }

    /// After a failed set-up: the rest goes home too.
    fn send_home(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        self.gate.set(Signal::Abort);
        let mut patience = Patience::new(watch.timeout_ns);
        while self.home < self.job.spec.workers {
            match self.threads.messages().recv_timeout(SLICE) {
                Ok(message) => self.welcome(message),
                Err(RecvTimeoutError::Timeout) => {
                    self.look(watch);
                    patience.check("closing the files", watch.events)?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
        Ok(())
    }

    fn wait_done(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        let mut pace = Pace::new(self.job, watch);
        while self.home < self.job.spec.workers {
            match self.threads.messages().recv_timeout(SLICE) {
                Ok(message) => self.welcome(message),
                Err(RecvTimeoutError::Timeout) => {
                    self.look(watch);
                    watch.sampler.look();
                    if let Err(hang) = pace.tick(self.job, watch) {
                        self.recall(hang)?;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
        match self.panicked.take() {
            Some(error) => Err(error),
            None if self.done.len() == self.job.spec.workers as usize => Ok(()),
            None => Err(lost()),
        }
    }

    /// The target hangs: workers that wait for completions come home; whoever sits inside a call cannot,
    /// and then `hang` is all there is.
    fn recall(&mut self, hang: Error) -> Result<()> {
        self.job.flags.give_up.store(true, Ordering::Relaxed);
        self.job.flags.interrupt.store(true, Ordering::Relaxed);
        let until = Instant::now() + GRACE;
        while self.home < self.job.spec.workers {
            let left = until.saturating_duration_since(Instant::now());
            match self.threads.messages().recv_timeout(left) {
                Ok(message) => self.welcome(message),
                Err(_) => return Err(hang),
            }
        }
        self.hang = Some(hang);
        Ok(())
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Io, "workers", "a worker thread ended without a result")
}

/// Progress events and the watch over stalls.
struct Pace {
    interval_ns: u64,
    /// Longest time without a completion: waiting that the cell itself asks for does not count.
    timeout_ns: u64,
    started_ns: u64,
    next_ns: u64,
    last: (u64, u64, u64),
    moved_ns: u64,
    looked_ns: u64,
    quiet: Patience,
}

impl Pace {
    fn new(job: &CellJob, watch: &Watch<'_>) -> Pace {
        let now = monotonic_ns();
        let timeout_ns = watch.timeout_ns.saturating_add(job.longest_wait_ns());
        let next_ns = now + watch.progress_interval_ns;
        let quiet = Patience::new(watch.timeout_ns);
        let interval_ns = watch.progress_interval_ns;
        Pace {
            interval_ns,
            timeout_ns,
            started_ns: now,
            next_ns,
            last: (0, 0, now),
            moved_ns: now,
            looked_ns: now,
            quiet,
        }
    }

    fn tick(&mut self, job: &CellJob, watch: &mut Watch<'_>) -> Result<()> {
        let now = monotonic_ns();
        self.forgive(now);
        let sum = |f: fn(&crate::worker::Counters) -> u64| job.counters.iter().map(f).sum::<u64>();
        let ops = sum(|c| c.ops.load(Ordering::Relaxed));
        let errors = sum(|c| c.errors.load(Ordering::Relaxed));
        let timing = job.counters.iter().any(|c| c.timing.load(Ordering::Relaxed));
        if ops + errors != self.last.0 {
            self.moved_ns = now;
            self.last.0 = ops + errors;
            self.quiet = Patience::new(watch.timeout_ns);
        } else if !job.clock.is_virtual() {
            self.check(timing, now, watch)?;
        }
        if now >= self.next_ns {
            let bytes = sum(|c| c.bytes.load(Ordering::Relaxed));
            self.report(job, watch, now, (ops, bytes, errors));
        }
        self.looked_ns = monotonic_ns();
        Ok(())
    }

    /// A client that stood still itself tells nothing of the target: that time is no sign of a hang.
    fn forgive(&mut self, now: u64) {
        let away_ns = now - self.looked_ns;
        if away_ns >= LATE_NS + SLICE.as_nanos() as u64 {
            self.moved_ns = (self.moved_ns + away_ns).min(now);
            self.quiet.forgive(away_ns, now);
        }
    }

    /// An error when nothing has ended for too long.
    fn check(&mut self, timing: bool, now: u64, watch: &mut Watch<'_>) -> Result<()> {
        if !timing {
            self.moved_ns = now;
            return self.quiet.check("flushing and closing the files", watch.events);
        }
        if now - self.moved_ns <= self.timeout_ns {
            return Ok(());
        }
        let message = format!("no operation ended for {} s: the target hangs", (now - self.moved_ns) / 1_000_000_000);
        Err(Error::new(ErrorKind::Timeout, "run", message))
    }

    fn report(&mut self, job: &CellJob, watch: &mut Watch<'_>, now: u64, (ops, bytes, errors): (u64, u64, u64)) {
        let (_, last_bytes, last_ns) = self.last;
        let bytes_per_s = (bytes - last_bytes) as f64 * 1e9 / (now - last_ns).max(1) as f64;
        self.last.1 = bytes;
        self.last.2 = now;
        self.next_ns = now + self.interval_ns;
        watch.events.progress(&Progress {
            cell: job.spec.id,
            bytes,
            ops,
            errors,
            elapsed_ns: now - self.started_ns,
            bytes_per_s,
            p99_ns: recent_quantile(job, 0.99),
        });
    }
}

/// Latency of the intervals that ended since the last call, over all workers; those counts are taken.
fn recent_quantile(job: &CellJob, q: f64) -> Option<u64> {
    let mut all = [0u64; BUCKETS];
    for counters in &job.counters {
        let recent = std::mem::take(&mut *counters.recent.lock().unwrap_or_else(|e| e.into_inner()));
        all.iter_mut().zip(recent.0).for_each(|(sum, count)| *sum += count);
    }
    quantile_ns(&all, q)
}

fn run_virtual(
    sessions: &mut [Box<dyn Session>],
    job: &Arc<CellJob>,
    watch: &mut Watch<'_>,
) -> Result<Vec<WorkerResult>> {
    let crew = &mut sessions[..job.spec.workers as usize];
    for (index, session) in crew.iter_mut().enumerate() {
        cell::prepare_file(&mut **session, job, index as u32)?;
    }
    watch.meet(job, Point::Prepared)?;
    let mut ready = Vec::with_capacity(crew.len());
    for (index, session) in crew.iter_mut().enumerate() {
        ready.push(cell::open(&mut **session, job, index as u32, &mut Spare::default())?);
    }
    watch.meet(job, Point::Opened)?;
    ready.iter_mut().for_each(Ready::begin);
    pump_all(&mut ready, job, watch)?;
    Ok(ready.into_iter().map(|ready| ready.finish(&mut Spare::default())).collect())
}

/// Steps all workers through virtual time until each has ended.
fn pump_all(ready: &mut [Ready<'_>], job: &CellJob, watch: &mut Watch<'_>) -> Result<()> {
    let mut running: Vec<bool> = vec![true; ready.len()];
    let mut pace = Pace::new(job, watch);
    let mut stuck = 0u32;
    for step in 0u64.. {
        if step % VIRTUAL_CHECK_STEPS == 0 {
            if watch.events.interrupted() {
                job.flags.interrupt.store(true, Ordering::Relaxed);
            }
            pace.tick(job, watch)?;
        }
        match step_all(ready, &mut running) {
            Step::Ended => break,
            Step::Progressed => stuck = 0,
            Step::WaitUntil(at) if at > job.clock.now_ns() => {
                job.clock.advance_to(at);
                stuck = 0;
            }
            Step::WaitUntil(_) | Step::Stuck => stuck += 1,
        }
        if stuck > VIRTUAL_STUCK_STEPS {
            ready.iter_mut().for_each(|r| r.worker.abandon_memory());
            return Err(stuck_error(ready, &running, job));
        }
    }
    Ok(())
}

/// Virtual time stands still: a defect of the target or of the engine, named rather than waited for.
fn stuck_error(ready: &[Ready<'_>], running: &[bool], job: &CellJob) -> Error {
    let left = running.iter().filter(|r| **r).count();
    let in_flight: usize = ready.iter().map(|r| r.worker.outstanding()).sum();
    let message = "virtual time stands still: workers wait, and the target names no time to wait for";
    Error::new(ErrorKind::Timeout, "run", message)
        .with("workers", left)
        .with("in_flight", in_flight)
        .with("clock_ns", job.clock.now_ns())
}

enum Step {
    Ended,
    Progressed,
    WaitUntil(u64),
    /// Nothing moved, and nobody knows when anything will.
    Stuck,
}

fn step_all(ready: &mut [Ready<'_>], running: &mut [bool]) -> Step {
    let mut progressed = false;
    let mut next: Option<u64> = None;
    let mut sooner = |at: Option<u64>| next = [next, at].into_iter().flatten().min();
    for (one, running) in ready.iter_mut().zip(running.iter_mut()).filter(|(_, r)| **r) {
        match one.worker.pump(false) {
            Ok(Pump::Progressed) => progressed = true,
            Ok(Pump::Waiting(wake)) => {
                sooner(wake);
                sooner(one.worker.session.next_event_ns());
            }
            Ok(Pump::Finished) => {
                one.acknowledged();
                *running = false;
            }
            Err(error) => {
                one.failed(error);
                *running = false;
            }
        }
    }
    match (running.iter().any(|r| *r), progressed, next) {
        (false, _, _) => Step::Ended,
        (true, true, _) => Step::Progressed,
        (true, false, Some(at)) => Step::WaitUntil(at),
        (true, false, None) => Step::Stuck,
    }
}
