//! A whole run: folder, cells in order, clean-up.

use crate::assemble::{assemble, Around};
use crate::cell::{check_caps, CellJob};
use crate::drive::{Driver, Watch};
use crate::files::FileBook;
use crate::result::{CellOutcome, Progress};
use crate::spec::{CellSpec, RunSpec, SPEC_SCHEMA};
use crate::steward::Steward;
use crate::usage::storage_bytes;
use crate::walk::positions;
use crate::worker::{Counters, Flags};
use naslab_core::{wall_ns, Error, ErrorKind, Result, Target};
use naslab_workload::{measure, DataKind, DataSpec, Payload, Reducibility, Tagger};
use std::sync::Arc;

/// Buffers of one cell may take this much memory.
const MAX_BUFFER_BYTES: u64 = 8 << 30;
/// Payload measured for its reducibility.
const SAMPLE_BYTES: u64 = 4 << 20;
/// A worker's ring of payload takes at least this.
const RING_BYTES: u64 = 1 << 20;

/// Receives what happens during a run. An error from any call ends the run after the present cell.
pub trait Events {
    /// A cell is about to prepare its files.
    fn before_cell(&mut self, id: u64) -> Result<()>;
    /// Now and then during a cell.
    fn progress(&mut self, progress: &Progress);
    /// A cell ended.
    fn cell(&mut self, outcome: CellOutcome) -> Result<()>;
    /// Whether the user wants to stop; asked often.
    fn interrupted(&mut self) -> bool;
}

/// How a run ended.
#[derive(Debug, serde::Serialize)]
pub struct RunEnd {
    /// `complete`, `interrupted` or `failed`.
    pub status: &'static str,
    /// Files or folders that could not be removed, and why.
    pub left_behind: Vec<String>,
    /// What ended the run early.
    pub error: Option<String>,
    /// Class of that error.
    pub error_kind: Option<&'static str>,
    /// Its raw status.
    pub error_status: i64,
}

/// Carries out a run. `Err` only when nothing was started; later failures are in [`RunEnd`].
pub fn run(spec: &RunSpec, target: &Arc<dyn Target>, owner_mark: &str, events: &mut dyn Events) -> Result<RunEnd> {
    check(spec, &**target)?;
    let steward = Steward::prepare(spec, target, owner_mark, events)?;
    let mut book = FileBook::new(spec);
    let mut driver = Driver::new(target);
    let mut run = Run { spec, target, book: &mut book, events, interrupted: false, measured: None };
    let outcome = run.cells(&mut driver);
    let interrupted = run.interrupted;
    drop(driver);
    let hangs = matches!(&outcome, Err(e) if e.kind == ErrorKind::Timeout);
    let left_behind = steward.clean_up(hangs, events);
    Ok(end(outcome, interrupted, left_behind))
}

fn end(outcome: Result<bool>, interrupted: bool, left_behind: Vec<String>) -> RunEnd {
    let (status, error) = match outcome {
        Ok(_) if interrupted => ("interrupted", None),
        Ok(true) => ("complete", None),
        Ok(false) => ("failed", None),
        Err(error) => ("failed", Some(error)),
    };
    RunEnd {
        status,
        left_behind,
        error_kind: error.as_ref().map(|e| e.kind.name()),
        error_status: error.as_ref().map_or(0, |e| e.status),
        error: error.map(|e| e.to_string()),
    }
}

fn check(spec: &RunSpec, target: &dyn Target) -> Result<()> {
    if spec.schema != SPEC_SCHEMA {
        return invalid(format!("specification version {} is not {SPEC_SCHEMA}: update naslab", spec.schema));
    }
    if spec.timeout_ns == 0 {
        return invalid("timeout_ns must be above 0".to_string());
    }
    let caps = target.caps();
    for cell in &spec.cells {
        check_cell(cell)?;
        check_caps(cell, &caps, target.protocol())?;
    }
    Ok(())
}

fn check_cell(cell: &CellSpec) -> Result<()> {
    let id = cell.id;
    if cell.record_bytes == 0 || cell.file_bytes < cell.record_bytes as u64 || cell.workers == 0 {
        return invalid(format!("cell {id}: record, file and workers must fit one another"));
    }
    if cell.files.len() != 1 && cell.files.len() != cell.workers as usize || cell.queue_depth == 0 {
        return invalid(format!("cell {id}: give one file, or one per worker, and a depth of at least 1"));
    }
    if !(0.0..=1.0).contains(&cell.write_fraction) || cell.interval_ns == 0 {
        return invalid(format!("cell {id}: give a write fraction from 0 to 1 and an interval above 0"));
    }
    if cell.pace.is_some_and(|p| !(p.rate_per_s > 0.0 && p.rate_per_s.is_finite())) {
        return invalid(format!("cell {id}: the rate must be above 0"));
    }
    if cell.verify && matches!(cell.data_kind(), DataKind::Random { dedupe_ratio, .. } if dedupe_ratio > 1.0) {
        return invalid(format!("cell {id}: --verify makes every block unique: leave out --dedupe"));
    }
    if cell.locks_itself_out() {
        return invalid(format!("cell {id}: one lock on a file that several workers write: give each its own file"));
    }
    cell.walk.as_ref().map_or(Ok(()), |walk| walk.check(cell))?;
    let stride = (cell.record_bytes as u64).next_multiple_of(4096);
    let ring = stride.saturating_mul(cell.queue_depth as u64).max(RING_BYTES);
    let buffers = ring.saturating_mul(2 * cell.workers as u64);
    if buffers > MAX_BUFFER_BYTES {
        return invalid(format!(
            "cell {id}: {buffers} bytes of buffers are needed: use a smaller record, depth or number of workers"
        ));
    }
    Ok(())
}

fn invalid(message: String) -> Result<()> {
    Err(Error::new(ErrorKind::Invalid, "plan", message))
}

struct Run<'a> {
    spec: &'a RunSpec,
    target: &'a Arc<dyn Target>,
    book: &'a mut FileBook,
    events: &'a mut dyn Events,
    interrupted: bool,
    measured: Option<(DataKind, Reducibility)>,
}

impl Run<'_> {
    /// Carries out the cells; false if one of them failed.
    fn cells(&mut self, driver: &mut Driver) -> Result<bool> {
        let mut good = true;
        for cell in &self.spec.cells {
            if self.events.interrupted() {
                self.interrupted = true;
            }
            if self.interrupted {
                break;
            }
            self.events.before_cell(cell.id)?;
            let status = self.cell(driver, cell).map_err(|e| e.with("cell", cell.id))?;
            good &= status == "complete";
            self.interrupted |= status == "partial";
        }
        Ok(good)
    }

    /// One cell: its status. Failed operations and sessions are its result, and the next cell connects anew;
    /// an error is what no later cell could get past: a set-up that fails, a target that hangs.
    fn cell(&mut self, driver: &mut Driver, cell: &CellSpec) -> Result<&'static str> {
        let plans = self.book.plan(cell)?;
        let measured = self.measured(cell)?;
        let job = Arc::new(CellJob {
            spec: cell.clone(),
            plans,
            caps: self.target.caps(),
            clock: self.target.clock(),
            seed: self.spec.seed,
            flags: Flags::default(),
            counters: (0..cell.workers).map(|_| Counters::default()).collect(),
            positions: positions(cell),
        });
        let mut around = Around { start_wall_ns: wall_ns(), measured, ..Around::default() };
        let before = storage_bytes();
        let mut watch = Watch {
            events: &mut *self.events,
            progress_interval_ns: self.spec.progress_interval_ns,
            timeout_ns: self.spec.timeout_ns,
        };
        let mut workers = driver.run(&job, &mut watch)?;
        around.storage = before.zip(storage_bytes()).map(|(b, a)| (a.0.saturating_sub(b.0), a.1.saturating_sub(b.1)));
        let outcome = assemble(&job, &workers, &around);
        let (status, stop) = (outcome.result.status, outcome.result.stop_reason);
        let whole = status == "complete" && (stop != "stonewall" || cell.finish_untimed);
        self.book.wrote(cell, &job.plans, whole);
        self.events.cell(outcome)?;
        let hang = workers.iter_mut().find_map(|w| w.error.take_if(|e| e.kind == ErrorKind::Timeout));
        hang.map_or(Ok(status), Err)
    }

    /// Reducibility of what the cell writes, measured on its own payload; once per kind of data.
    fn measured(&mut self, cell: &CellSpec) -> Result<Option<Reducibility>> {
        if !cell.writes() {
            return Ok(None);
        }
        let kind = cell.data_kind();
        if let Some((known, measured)) = self.measured {
            if known == kind {
                return Ok(Some(measured));
            }
        }
        let measured = sample(kind, self.spec.seed)?;
        self.measured = Some((kind, measured));
        Ok(Some(measured))
    }
}

fn sample(kind: DataKind, seed: u64) -> Result<Reducibility> {
    const RECORD: u32 = 65536;
    let tagger = matches!(kind, DataKind::Random { .. }).then_some(Tagger {
        run: seed,
        file: 0,
        generation: 1,
        unit: 4096,
        checksum: false,
    });
    let mut payload = Payload::new(&DataSpec { kind, seed }, RECORD, 1, 0, tagger)?;
    let mut data = Vec::with_capacity(SAMPLE_BYTES as usize);
    while (data.len() as u64) < SAMPLE_BYTES {
        let Some((slot, buf)) = payload.take(data.len() as u64) else { break };
        // SAFETY: the slot was just taken; nobody else uses it until it is released below.
        data.extend_from_slice(unsafe { std::slice::from_raw_parts(buf.ptr, buf.len) });
        payload.release(slot);
    }
    Ok(measure(&data))
}
