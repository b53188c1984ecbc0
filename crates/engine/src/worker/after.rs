//! What a worker does after its window, unrecorded.

use super::{Worker, REAP_SLICE};
use crate::recorder::{Interval, KindSet, Recorder};
use naslab_core::{Error, ErrorKind, Op, OpError, Result};
use std::sync::atomic::Ordering;

impl Worker<'_> {
    /// Writes what a stonewalled pass left out, so that later passes find a whole file.
    pub fn finish_untimed(&mut self) -> Result<()> {
        self.unrecorded(Self::finish_rest)
    }

    /// Goes on as in the window for this long, so that workers that end later are measured under full load. In virtual
    /// time all workers end together and nothing is done.
    pub fn cool_down(&mut self, for_ns: u64) -> Result<()> {
        if self.clock.is_virtual() {
            return Ok(());
        }
        self.unrecorded(|worker| {
            worker.deadline = worker.clock.ticks().saturating_add(worker.clock.ticks_of(for_ns));
            worker.warm_until = u64::MAX;
            worker.stop = None;
            while worker.stop.is_none() || worker.outstanding() > 0 {
                worker.pump(true)?;
            }
            Ok(())
        })
    }

    /// Does `work` with a recorder of its own; the window's counts stay as they are.
    fn unrecorded(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let kept = std::mem::replace(
            &mut self.recorder,
            Recorder::new(KindSet::default(), false, Interval { ticks: u64::MAX, ns: 0 }, None),
        );
        let (pause, missed, generation_ns) = (self.pause, self.missed_starts, self.generation_ns);
        let reason = self.stop;
        let outcome = work(self);
        self.stop = reason;
        (self.pause, self.missed_starts, self.generation_ns) = (pause, missed, generation_ns);
        let failed = std::mem::replace(&mut self.recorder, kept).errors;
        match failed.first() {
            Some((error, _)) if outcome.is_ok() => Err(not_finished(error)),
            _ => outcome,
        }
    }

    fn finish_rest(&mut self) -> Result<()> {
        self.deadline = u64::MAX;
        self.warm_until = u64::MAX;
        self.think = 0;
        self.next_think = 0;
        while !self.flags.interrupt.load(Ordering::Relaxed) {
            self.stop = None;
            let Some(op) = self.next_op() else { break };
            if !self.start_op(&Op { due_ns: None, ..op })? {
                return Err(Error::new(
                    ErrorKind::Io,
                    "submit",
                    "no buffer is free although no operation is outstanding",
                ));
            }
            self.drain(REAP_SLICE * 200)?;
            if self.stop.is_some() {
                break;
            }
        }
        Ok(())
    }
}

fn not_finished(error: &OpError) -> Error {
    let message = format!("an operation after the window failed: {}", error.kind.name());
    Error { status: error.status, ..Error::new(error.kind, "write", message) }
}
