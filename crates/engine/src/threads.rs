//! Worker threads: one per worker, kept for the whole run with its session.

use crate::cell::{self, CellJob, WorkerResult};
use crate::prompt::Prompt;
use crate::spare::Spare;
use crate::worker::Pump;
use naslab_core::{limit, monotonic_ns, Error, ErrorKind, Result, Session, Target};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Workers begin together this long after the last one is ready, in nanoseconds.
const COMMON_START_NS: u64 = 300_000;
/// Before a start that is further away they sleep, up to so long before it, in nanoseconds.
const SPIN_NS: u64 = 500_000;

/// What the coordinator tells waiting workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Not yet.
    Wait,
    /// Files are prepared: open them.
    Open,
    /// Begin at this CLOCK_MONOTONIC time.
    Begin(u64),
    /// Some worker failed: go home.
    Abort,
}

/// Holds workers at the common points of a cell.
#[derive(Debug)]
pub(crate) struct Gate {
    signal: Mutex<Signal>,
    changed: Condvar,
    /// A worker took the order up.
    begun: AtomicBool,
}

impl Gate {
    /// A single worker of a single client waits for nobody: it goes from set-up into the window without sleeping,
    /// as caches and clock speed are then as warm as in a single-threaded program.
    fn new(held: bool) -> Gate {
        let signal = if held { Signal::Wait } else { Signal::Begin(0) };
        Gate { signal: Mutex::new(signal), changed: Condvar::new(), begun: AtomicBool::new(false) }
    }

    /// Takes an order back that waits behind another one; false: its worker has begun.
    pub fn cancel(&self) -> bool {
        let mut signal = self.signal.lock().unwrap_or_else(|e| e.into_inner());
        if self.begun.load(Ordering::Relaxed) {
            return false;
        }
        *signal = Signal::Abort;
        true
    }

    /// The worker takes the order up; false: it was taken back.
    fn begin(&self) -> bool {
        let signal = self.signal.lock().unwrap_or_else(|e| e.into_inner());
        self.begun.store(true, Ordering::Relaxed);
        *signal != Signal::Abort
    }

    /// Sets the signal. A poisoned lock only means that a worker panicked; the signal is still plain data.
    pub fn set(&self, signal: Signal) {
        *self.signal.lock().unwrap_or_else(|e| e.into_inner()) = signal;
        self.changed.notify_all();
    }

    fn wait_past(&self, past: Signal) -> Signal {
        let mut signal = self.signal.lock().unwrap_or_else(|e| e.into_inner());
        while *signal == past || *signal == Signal::Wait {
            signal = self.changed.wait(signal).unwrap_or_else(|e| e.into_inner());
        }
        *signal
    }
}

/// What a worker reports.
pub(crate) enum Message {
    /// A step of the set-up ended.
    Step(Result<()>),
    /// The cell ended for this worker; `None` if it never began.
    Done(Option<Box<WorkerResult>>),
    /// The worker's thread panicked: a defect in naslab. It reports nothing else of the cell.
    Panicked(Error),
}

struct Order {
    job: Arc<CellJob>,
    gate: Arc<Gate>,
    index: u32,
}

/// The threads of a run.
pub(crate) struct Threads {
    target: Arc<dyn Target>,
    orders: Vec<Sender<Order>>,
    messages: Receiver<Message>,
    report: Sender<Message>,
}

impl Threads {
    pub fn new(target: Arc<dyn Target>) -> Threads {
        let (report, messages) = channel();
        Threads { target, orders: Vec::new(), messages, report }
    }

    /// Hands a cell to its workers; they wait at the gate if `held`.
    pub fn start(&mut self, job: &Arc<CellJob>, held: bool) -> Result<Arc<Gate>> {
        while self.orders.len() < job.spec.workers as usize {
            self.spawn()?;
        }
        let gate = Arc::new(Gate::new(held));
        for index in 0..job.spec.workers {
            let order = Order { job: job.clone(), gate: gate.clone(), index };
            if self.orders[index as usize].send(order).is_err() {
                gate.set(Signal::Abort);
                return Err(Error::new(ErrorKind::Io, "workers", "a worker thread ended early"));
            }
        }
        Ok(gate)
    }

    /// Where workers report.
    pub fn messages(&self) -> &Receiver<Message> {
        &self.messages
    }

    fn spawn(&mut self) -> Result<()> {
        let (sender, orders) = channel();
        let target = self.target.clone();
        let report = self.report.clone();
        let index = self.orders.len();
        std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || work(&*target, &orders, &report))
            .map_err(|e| Error::from_io("workers", e))?;
        self.orders.push(sender);
        Ok(())
    }
}

/// Gives the thread a descriptor table of its own, without the descriptors of the process.
///
/// The kernel takes a reference (and, for calls at the file cursor, a lock) on each descriptor of a shared
/// table in every call: about 100 ns of a 4 KiB `lseek` and `read`. Where the kernel refuses, the table
/// stays shared.
fn own_descriptors() {
    #[cfg(target_os = "linux")]
    // SAFETY: no argument points to memory; descriptors opened before belong to the other table, where
    // they stay open, and this thread has not used any.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_UNSHARE);
    }
}

/// A worker thread's life: cells until the run drops its channel.
fn work(target: &dyn Target, orders: &Receiver<Order>, report: &Sender<Message>) {
    own_descriptors();
    let mut session: Option<Box<dyn Session>> = None;
    let mut spare = Spare::default();
    for order in orders {
        // What a panic leaves half done is not used again: the session goes, and the run ends.
        let job = order.job.clone();
        let over = move || job.flags.over().is_some();
        let mut spared = false;
        let outcome = limit::watched(over, || {
            guarded(|| carry_out(target, &mut session, &order, report, &mut spared, &mut spare))
        });
        let usable = spared || matches!(&outcome, Ok(Some(done)) if done.session_is_good());
        let message = match outcome {
            Ok(done) => Message::Done(done.map(Box::new)),
            Err(error) => Message::Panicked(error),
        };
        if !usable {
            // Closes what was open and ends what was in flight; the next cell connects anew.
            let _ = guarded(|| session = None);
        }
        if report.send(message).is_err() {
            return;
        }
    }
}

/// Runs `work`; a panic in it becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        let message = format!("a thread of naslab panicked, which is a defect: {}", text.unwrap_or("no message"));
        Error::new(ErrorKind::Io, "workers", message)
    })
}

/// `spared`: set where others' set-up failed and this session, of an earlier cell, is as good as before. A server that takes
/// no further connections might not take it again.
fn carry_out(
    target: &dyn Target,
    session: &mut Option<Box<dyn Session>>,
    order: &Order,
    report: &Sender<Message>,
    spared: &mut bool,
    spare: &mut Spare,
) -> Option<WorkerResult> {
    let Order { job, gate, index } = order;
    if !gate.begin() {
        *spared = true;
        return None;
    }
    // The coordinator listens until every worker reported Done, so sending cannot fail before that.
    let step = |result: Result<()>| drop(report.send(Message::Step(result)));
    if job.spec.fresh_sessions {
        *session = None;
    }
    let is_earlier = session.is_some();
    let session = match connected(target, session, *index) {
        Ok(session) => session,
        Err(error) => {
            step(Err(error));
            return None;
        }
    };
    let prepared = cell::prepare_file(session, job, *index);
    let failed = prepared.is_err();
    step(prepared);
    if failed {
        return None;
    }
    if gate.wait_past(Signal::Wait) == Signal::Abort {
        *spared = is_earlier;
        return None;
    }
    let mut ready = match cell::open(session, job, *index, spare) {
        Ok(ready) => ready,
        Err(error) => {
            step(Err(error));
            return None;
        }
    };
    step(Ok(()));
    let Signal::Begin(at_ns) = gate.wait_past(Signal::Open) else {
        return None;
    };
    let prompt = wait_until(at_ns);
    measure(&mut ready, prompt);
    Some(ready.finish(spare))
}

/// Sleeps until shortly before, and spins from there: a sleep alone ends late, the more so where other clients wake on the
/// same processors. After a sleep the thread still goes before others, until it drops what this returns.
fn wait_until(at_ns: u64) -> Option<Prompt> {
    let far = at_ns.saturating_sub(SPIN_NS).saturating_sub(monotonic_ns());
    let prompt = (far > 0).then(Prompt::new);
    if far > 0 {
        std::thread::sleep(Duration::from_nanos(far));
    }
    while monotonic_ns() < at_ns {
        std::hint::spin_loop();
    }
    prompt
}

fn connected<'s>(
    target: &dyn Target,
    session: &'s mut Option<Box<dyn Session>>,
    index: u32,
) -> Result<&'s mut dyn Session> {
    if session.is_none() {
        *session = Some(target.connect(index)?);
    }
    match session {
        Some(session) => Ok(&mut **session),
        None => Err(Error::new(ErrorKind::Io, "connect", "no session")),
    }
}

/// The window. prompt: kept until the first operations are on their way.
fn measure(ready: &mut cell::Ready<'_>, mut prompt: Option<Prompt>) {
    ready.begin();
    loop {
        let pumped = ready.worker.pump(true);
        drop(prompt.take());
        match pumped {
            Ok(Pump::Finished) => return ready.acknowledged(),
            Ok(_) => {}
            Err(error) => return ready.failed(error),
        }
    }
}

/// When workers that are ready now shall begin.
pub(crate) fn common_start() -> u64 {
    monotonic_ns() + COMMON_START_NS
}
