//! A whole run: folder, cells in order, clean-up.

use crate::assemble::{assemble, Around};
use crate::cell::{check_caps, CellJob};
use crate::drive::{Driver, Watch};
use crate::files::{protect_foreign, FileBook};
use crate::result::{CellOutcome, Progress};
use crate::spec::{CellSpec, RunSpec, SPEC_SCHEMA};
use crate::usage::{storage_bytes, Cpu};
use crate::worker::{Counters, Flags};
use crate::workspace::{clean, make, remove_if_there};
use naslab_core::{wall_ns, Error, ErrorKind, Result, Session, Target};
use naslab_workload::{measure, DataKind, DataSpec, Payload, Reducibility, Tagger};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Buffers of one cell may take this much memory.
const MAX_BUFFER_BYTES: u64 = 8 << 30;
/// Payload measured for its reducibility.
const SAMPLE_BYTES: u64 = 4 << 20;

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
    let mut session = target.connect(0)?;
    let clock = target.clock();
    let mut book = FileBook::new(spec);
    let protected = protect_foreign(spec, &book, &mut *session, &clock)?;
    if let Some(folder) = &spec.folder {
        make(&mut *session, &clock, folder, owner_mark)?;
    }
    let mut driver = Driver::new(target);
    let mut run = Run { spec, target, book: &mut book, events, interrupted: false, measured: None };
    let outcome = run.cells(&mut driver);
    let interrupted = run.interrupted;
    drop(driver);
    let left_behind = clean_up(spec, &book, &protected, &mut *session);
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
    let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, "plan", message));
    if spec.schema != SPEC_SCHEMA {
        return invalid(format!("specification version {} is not {SPEC_SCHEMA}: update naslab", spec.schema));
    }
    let caps = target.caps();
    for cell in &spec.cells {
        if cell.record_bytes == 0 || cell.file_bytes < cell.record_bytes as u64 || cell.workers == 0 {
            return invalid(format!("cell {}: record, file and workers must fit one another", cell.id));
        }
        if cell.files.len() != 1 && cell.files.len() != cell.workers as usize || cell.queue_depth == 0 {
            return invalid(format!("cell {}: give one file, or one per worker, and a depth of at least 1", cell.id));
        }
        if cell.pace.is_some_and(|p| !(p.rate_per_s > 0.0 && p.rate_per_s.is_finite())) {
            return invalid(format!("cell {}: the rate must be above 0", cell.id));
        }
        let stride = (cell.record_bytes as u64).next_multiple_of(4096);
        let buffers = stride.saturating_mul(2 * cell.queue_depth as u64 * cell.workers as u64);
        if buffers > MAX_BUFFER_BYTES {
            return invalid(format!(
                "cell {}: {buffers} bytes of buffers are needed: use a smaller record, depth or number of workers",
                cell.id
            ));
        }
        check_caps(cell, &caps, target.protocol())?;
    }
    Ok(())
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
            let (status, fatal) = self.cell(driver, cell)?;
            good &= status == "complete";
            self.interrupted |= status == "partial";
            if fatal {
                return Ok(false);
            }
        }
        Ok(good)
    }

    /// One cell: its status, and whether going on makes no sense.
    fn cell(&mut self, driver: &mut Driver, cell: &CellSpec) -> Result<(&'static str, bool)> {
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
        });
        let mut around = Around { start_wall_ns: wall_ns(), measured, ..Around::default() };
        let before = storage_bytes();
        let mut watch = Watch {
            events: &mut *self.events,
            progress_interval_ns: self.spec.progress_interval_ns,
            timeout_ns: self.spec.timeout_ns,
            cpu: Cpu::default(),
        };
        let workers = driver.run(&job, &mut watch)?;
        around.cpu = watch.cpu;
        around.storage = before.zip(storage_bytes()).map(|(b, a)| (a.0 - b.0, a.1 - b.1));
        let outcome = assemble(&job, workers, &around);
        let status = outcome.result.status;
        let fatal = outcome.result.stop_reason == "error";
        self.book.wrote(cell, &job.plans, status == "complete");
        self.events.cell(outcome)?;
        Ok((status, fatal))
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

/// Removes what the run made; returns what could not be removed.
fn clean_up(spec: &RunSpec, book: &FileBook, protected: &BTreeSet<String>, session: &mut dyn Session) -> Vec<String> {
    let mut left = Vec::new();
    for name in &spec.cleanup_files {
        let path = book.path(name);
        if protected.contains(&path) {
            continue;
        }
        if let Err(error) = remove_if_there(session, &path) {
            left.push(error.to_string());
        }
    }
    if let Some(folder) = &spec.folder {
        match clean(session, folder) {
            Ok(foreign) => left.extend(foreign),
            Err(error) => left.push(error.to_string()),
        }
    }
    left
}
