//! Checking of what was read, apart from the timed path.
//!
//! With one operation in flight (and on a virtual clock) the check runs between operations, where its
//! time is taken out of the window. With more in flight it runs on a thread of its own, so that it delays
//! no completion.

use crate::os::thread_ns;
use naslab_core::{Error, ErrorKind, IoBuf, Result};
use naslab_workload::{check_record, DataKind, Defect, Tagger};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::JoinHandle;

/// How to check one file's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    pub kind: DataKind,
    pub tagger: Option<Tagger>,
    pub exact: bool,
}

/// What checking found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verified {
    pub blocks: u64,
    pub bad: u64,
    pub first_bad: Option<(u64, Defect)>,
    pub cpu_ns: u64,
}

impl Verified {
    fn check(&mut self, check: &Check, record: &[u8], offset_bytes: u64) {
        match check_record(check.kind, check.tagger.as_ref(), check.exact, record, offset_bytes) {
            Ok(blocks) => self.blocks += blocks,
            Err(defect) => {
                self.bad += 1;
                self.first_bad.get_or_insert(defect);
            }
        }
    }

    /// Adds another worker's findings.
    pub fn merge(&mut self, other: &Verified) {
        self.blocks += other.blocks;
        self.bad += other.bad;
        self.cpu_ns += other.cpu_ns;
        if self.first_bad.is_none() {
            self.first_bad = other.first_bad;
        }
    }
}

struct Job {
    buffer: u32,
    data: IoBuf,
    offset_bytes: u64,
}

enum Lane {
    Inline(Verified),
    Thread { jobs: SyncSender<Job>, done: Receiver<u32>, thread: JoinHandle<Verified> },
}

/// The checker of one worker in one cell.
pub(crate) struct Verifier {
    check: Check,
    lane: Lane,
}

impl Verifier {
    /// A checker; on its own thread if `threaded`, with room for `buffers` records in its queue.
    pub fn new(check: Check, threaded: bool, buffers: usize) -> Verifier {
        let lane = if threaded { start_thread(check, buffers) } else { Lane::Inline(Verified::default()) };
        Verifier { check, lane }
    }

    /// Checks the record in `data`; true when the buffer is free again at once.
    ///
    /// # Safety
    /// `data` is valid and unaliased until this returned true or `freed` named the buffer.
    pub unsafe fn submit(&mut self, buffer: u32, data: IoBuf, offset_bytes: u64) -> bool {
        match &mut self.lane {
            Lane::Inline(found) => {
                let start = thread_ns();
                // SAFETY: the caller lends `data` exclusively.
                let record = unsafe { std::slice::from_raw_parts(data.ptr, data.len) };
                found.check(&self.check, record, offset_bytes);
                found.cpu_ns += thread_ns() - start;
                true
            }
            // A closed channel means the thread ended early; `finish` reports that.
            Lane::Thread { jobs, .. } => jobs.send(Job { buffer, data, offset_bytes }).is_err(),
        }
    }

    /// A buffer that was checked, waiting for one if `wait`.
    pub fn freed(&mut self, wait: bool) -> Option<u32> {
        match &self.lane {
            Lane::Inline(_) => None,
            Lane::Thread { done, .. } if wait => done.recv().ok(),
            Lane::Thread { done, .. } => done.try_recv().ok(),
        }
    }

    /// Waits for the checks under way and returns what was found.
    pub fn finish(self) -> Result<Verified> {
        match self.lane {
            Lane::Inline(found) => Ok(found),
            Lane::Thread { jobs, done, thread } => {
                drop(jobs);
                while done.recv().is_ok() {}
                thread.join().map_err(|_| Error::new(ErrorKind::Io, "verify", "the checking thread ended early"))
            }
        }
    }
}

fn start_thread(check: Check, buffers: usize) -> Lane {
    let (jobs, incoming) = sync_channel::<Job>(buffers);
    let (freed, done) = sync_channel::<u32>(buffers);
    let thread = std::thread::spawn(move || {
        let mut found = Verified::default();
        for job in incoming {
            // SAFETY: the worker lends the buffer until `freed` names it.
            let record = unsafe { std::slice::from_raw_parts(job.data.ptr, job.data.len) };
            found.check(&check, record, job.offset_bytes);
            if freed.send(job.buffer).is_err() {
                break;
            }
        }
        found.cpu_ns = thread_ns();
        found
    });
    Lane::Thread { jobs, done, thread }
}
