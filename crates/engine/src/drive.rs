//! Carries one cell through its steps, on threads or on a virtual clock.

use crate::cell::{self, CellJob, Ready, WorkerResult};
use crate::result::Progress;
use crate::run::Events;
use crate::threads::{common_start, Gate, Message, Signal, Threads};
use crate::usage::Cpu;
use crate::worker::{Pump, StopReason};
use naslab_core::{monotonic_ns, Error, ErrorKind, Result, Session, Target};
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::Arc;
use std::time::Duration;

/// How often flags and signals are looked at.
const SLICE: Duration = Duration::from_millis(20);
/// A virtual run looks at signals once in so many steps.
const VIRTUAL_CHECK_STEPS: u64 = 10_000;

/// What the coordinator watches for during a cell.
pub(crate) struct Watch<'a> {
    pub events: &'a mut dyn Events,
    pub progress_interval_ns: u64,
    pub timeout_ns: u64,
    /// CPU used in the window, once it began.
    pub cpu: Cpu,
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
                while sessions.len() < job.spec.workers as usize {
                    sessions.push(target.connect(sessions.len() as u32)?);
                }
                run_virtual(sessions, job, watch)
            }
        }
    }
}

fn run_threads(threads: &mut Threads, job: &Arc<CellJob>, watch: &mut Watch<'_>) -> Result<Vec<WorkerResult>> {
    let gate = threads.start(job)?;
    let mut crew = Crew { threads, job, gate, done: Vec::new(), home: 0 };
    let workers = job.spec.workers;
    crew.step(watch)?;
    crew.gate.set(Signal::Open);
    crew.step(watch)?;
    let before = Cpu::now();
    crew.gate.set(Signal::Begin(common_start(workers)));
    crew.wait_done(watch)?;
    watch.cpu = Cpu::now().since(before);
    crew.done.sort_by_key(|r| r.worker);
    Ok(crew.done)
}

/// The coordinator's view of the workers of one cell.
struct Crew<'t> {
    threads: &'t Threads,
    job: &'t Arc<CellJob>,
    gate: Arc<Gate>,
    done: Vec<WorkerResult>,
    home: u32,
}

impl Crew<'_> {
    /// Waits until every worker ended a step of the set-up; sends all home if one failed.
    fn step(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        let mut failed = None;
        let mut stepped = 0;
        while stepped < self.job.spec.workers {
            match self.threads.messages().recv_timeout(SLICE) {
                Ok(Message::Step(result)) => {
                    stepped += 1;
                    failed = failed.or(result.err());
                }
                Ok(Message::Done(_)) => self.home += 1,
                Err(RecvTimeoutError::Timeout) => self.look(watch),
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
        match failed {
            None => Ok(()),
            Some(error) => {
                self.send_home()?;
                Err(error)
            }
        }
    }

    fn look(&self, watch: &mut Watch<'_>) {
        if watch.events.interrupted() {
            self.job.flags.interrupt.store(true, Ordering::Relaxed);
        }
    }

    /// After a failed set-up: the rest goes home too.
    fn send_home(&mut self) -> Result<()> {
        self.gate.set(Signal::Abort);
        while self.home < self.job.spec.workers {
            match self.threads.messages().recv_timeout(Duration::from_secs(30)) {
                Ok(Message::Done(_)) => self.home += 1,
                Ok(Message::Step(_)) => {}
                Err(_) => return Err(lost()),
            }
        }
        Ok(())
    }

    fn wait_done(&mut self, watch: &mut Watch<'_>) -> Result<()> {
        let mut pace = Pace::new(watch.progress_interval_ns, watch.timeout_ns);
        while self.home < self.job.spec.workers {
            match self.threads.messages().recv_timeout(SLICE) {
                Ok(Message::Done(result)) => {
                    self.home += 1;
                    self.done.extend(result.map(|r| *r));
                }
                Ok(Message::Step(_)) => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.look(watch);
                    pace.tick(self.job, watch)?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
        if self.done.len() == self.job.spec.workers as usize {
            Ok(())
        } else {
            Err(lost())
        }
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Io, "workers", "a worker thread ended without a result")
}

/// Progress events and the watch over stalls.
struct Pace {
    interval_ns: u64,
    timeout_ns: u64,
    started_ns: u64,
    next_ns: u64,
    last: (u64, u64, u64),
    moved_ns: u64,
}

impl Pace {
    fn new(interval_ns: u64, timeout_ns: u64) -> Pace {
        let now = monotonic_ns();
        Pace { interval_ns, timeout_ns, started_ns: now, next_ns: now + interval_ns, last: (0, 0, now), moved_ns: now }
    }

    fn tick(&mut self, job: &CellJob, watch: &mut Watch<'_>) -> Result<()> {
        let now = monotonic_ns();
        let sum = |f: fn(&crate::worker::Counters) -> u64| job.counters.iter().map(f).sum::<u64>();
        let ops = sum(|c| c.ops.load(Ordering::Relaxed));
        let errors = sum(|c| c.errors.load(Ordering::Relaxed));
        let timing = job.counters.iter().any(|c| c.timing.load(Ordering::Relaxed));
        if ops + errors != self.last.0 || !timing {
            self.moved_ns = now;
            self.last.0 = ops + errors;
        } else if now - self.moved_ns > self.timeout_ns {
            job.flags.interrupt.store(true, Ordering::Relaxed);
            let message = format!("no operation ended for {} s: the target hangs", self.timeout_ns / 1_000_000_000);
            return Err(Error::new(ErrorKind::Timeout, "run", message));
        }
        if now >= self.next_ns {
            let bytes = sum(|c| c.bytes.load(Ordering::Relaxed));
            self.report(job, watch, now, (ops, bytes, errors));
        }
        Ok(())
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
        });
    }
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
    let mut ready = Vec::with_capacity(crew.len());
    for (index, session) in crew.iter_mut().enumerate() {
        ready.push(cell::open(&mut **session, job, index as u32)?);
    }
    let before = Cpu::now();
    ready.iter_mut().for_each(Ready::begin);
    pump_all(&mut ready, job, watch)?;
    watch.cpu = Cpu::now().since(before);
    Ok(ready.into_iter().map(Ready::finish).collect())
}

/// Steps all workers through virtual time until each has ended.
fn pump_all(ready: &mut [Ready<'_>], job: &CellJob, watch: &mut Watch<'_>) -> Result<()> {
    let mut running: Vec<bool> = vec![true; ready.len()];
    let mut pace = Pace::new(watch.progress_interval_ns, u64::MAX);
    for step in 0u64.. {
        if step % VIRTUAL_CHECK_STEPS == 0 {
            if watch.events.interrupted() {
                job.flags.interrupt.store(true, Ordering::Relaxed);
            }
            pace.tick(job, watch)?;
        }
        match step_all(ready, &mut running) {
            Step::Ended => break,
            Step::Progressed => {}
            Step::WaitUntil(at) => job.clock.advance_to(at),
        }
    }
    Ok(())
}

enum Step {
    Ended,
    Progressed,
    WaitUntil(u64),
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
                one.acknowledged(None);
                *running = false;
            }
            Err(error) => {
                one.worker.stop = Some(StopReason::Error);
                one.acknowledged(Some(error));
                *running = false;
            }
        }
    }
    match (running.iter().any(|r| *r), progressed, next) {
        (false, _, _) => Step::Ended,
        (true, false, Some(at)) => Step::WaitUntil(at),
        (true, false, None) => {
            // Nothing is due and nothing is in flight: only a stopped worker may be left.
            Step::Progressed
        }
        (true, true, _) => Step::Progressed,
    }
}
