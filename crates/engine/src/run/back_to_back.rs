//! Cells so short that what a run does between them would decide their rates.
//!
//! A pass over a file of 1 MiB in the client's cache takes 50 to 500 µs. Results made, told and stored before the next pass
//! push its data out of the processor's caches, and a worker that slept wakes up cold: such passes measured 0.7 of what
//! IOzone, which only opens the file again, measures. Here the worker has all of them beforehand.

use super::{lasting, Events, Run};
use crate::assemble::Around;
use crate::drive::{run_back_to_back, Driver, Watch};
use crate::spec::CellSpec;
use crate::stall::StallWatch;
use naslab_core::{monotonic_ns, Result};

/// So many cells at most follow each other at once.
const MAX_CELLS: usize = 32;
/// Bytes of a file at most.
const MAX_BYTES: u64 = 16 << 20;
/// Expected time of all of them at most, in nanoseconds.
const EXPECTED_NS: u64 = 100_000_000;

/// Longer than any cell takes.
const NEVER_NS: u64 = u64::MAX / 2;

/// Whether nothing of the cell needs anybody but its one worker, and it ends by itself.
fn is_plain(cell: &CellSpec) -> bool {
    let paced = cell.pace.is_some() || cell.think_ns > 0 || cell.burst_ops > 0;
    let timed = cell.duration_ns.is_some() || cell.warmup_ns > 0 || cell.cooldown_ns > 0;
    let special =
        cell.script.is_some() || cell.cold || cell.direct || cell.verify || cell.fresh_sessions || cell.locks();
    let plain = cell.workers == 1 && cell.file_bytes <= MAX_BYTES && cell.one_pass() && !cell.record_ops;
    plain && !(paced || timed || special)
}

impl Run {
    /// How many of the cells at the head are to follow each other at once; 1: the first is one like any other.
    pub(super) fn follow_at_once(&self, cells: &[CellSpec]) -> usize {
        let Some((took_ns, bytes)) = self.last_took.filter(|_| self.spec.back_to_back) else { return 1 };
        if self.spec.together || self.spec.ride_out_ns > 0 || !matches!(self.driver, Some(Driver::Threads(_))) {
            return 1;
        }
        let expected = |cell: &CellSpec| took_ns.saturating_mul((cell.file_bytes / bytes.max(1)).max(1));
        let mut left_ns = EXPECTED_NS;
        let fits = |cell: &&CellSpec| {
            let fits = is_plain(cell) && expected(cell) <= left_ns;
            left_ns = left_ns.saturating_sub(expected(cell));
            fits
        };
        cells.iter().take(MAX_CELLS).take_while(fits).count().max(1)
    }

    /// Carries out cells that follow each other at once, and tells them afterwards as if they had been told one by one.
    /// How many were carried out, and whether the stage goes on.
    pub(super) fn back_to_back(
        &mut self,
        cells: &[CellSpec],
        events: &mut dyn Events,
        good: &mut bool,
        interrupted: &mut bool,
    ) -> Result<(usize, bool)> {
        let book = self.book.clone();
        let mut jobs = Vec::with_capacity(cells.len());
        for cell in cells {
            let (job, found) = self.job(cell, true)?;
            self.book.wrote(cell, &job.plans, true); // the next plan counts on it
            jobs.push((job, found));
        }
        self.book = book;
        let (jobs, measured): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let driver = self.driver.get_or_insert_with(|| Driver::new(&lasting(&self.spec, &self.target, &self.outages)));
        let Driver::Threads(threads) = driver else { return Ok((0, true)) };
        let mut watch = Watch {
            events: &mut *events,
            progress_interval_ns: NEVER_NS, // nobody was told of these cells yet
            timeout_ns: self.spec.timeout_ns,
            together: false,
            sampler: &mut self.sampler,
        };
        let begun_ns = monotonic_ns();
        let watched = StallWatch::begin();
        let (ended, outcome) = run_back_to_back(threads, &jobs, &mut watch);
        let stalls = watched.end();
        let many = ended.len();
        self.last_took = Some(((monotonic_ns() - begun_ns) / many.max(1) as u64, cells[0].file_bytes));
        for ((job, (workers, seen)), measured) in jobs.iter().zip(ended).zip(measured) {
            if !events.before_cell(job.spec.id)? {
                return Ok((many, false));
            }
            let around = Around { measured, stalls: stalls.clone(), ..seen };
            let status = self.settle(job, workers, &around, events).map_err(|e| e.with("cell", job.spec.id))?;
            *good &= status == "complete";
            *interrupted |= status == "partial";
        }
        if let (Err(error), Some(cell)) = (outcome, cells.get(many)) {
            events.before_cell(cell.id)?;
            return Err(error.with("cell", cell.id));
        }
        Ok((many, true))
    }
}
