//! A whole run: folder, stages of cells in order, clean-up.

use crate::assemble::{assemble, Around};
use crate::cell::{check_caps, make_recorder, CellJob, WorkerResult};
use crate::conditions::Sampler;
use crate::drive::{Driver, Watch};
use crate::files::FileBook;
use crate::result::{CellOutcome, Left, Outage, Progress};
use crate::ride_out::LastingTarget;
use crate::script::{Script, FILES_FOLDER};
use crate::spec::{CellSpec, RunSpec, SPEC_SCHEMA};
use crate::stall::StallWatch;
use crate::steward::Steward;
use crate::usage::{moved_bytes, storage_bytes};
use crate::walk::positions;
use crate::worker::{Counters, Flags};
use naslab_core::{monotonic_ns, wall_ns, Error, ErrorKind, Result, Target, Told};
use naslab_workload::{measure, DataKind, DataSpec, Payload, Reducibility, Tagger};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

mod back_to_back;

/// Buffers of one cell may take this much memory.
const MAX_BUFFER_BYTES: u64 = 8 << 30;
/// Payload measured for its reducibility.
const SAMPLE_BYTES: u64 = 4 << 20;
/// A worker's ring of payload takes at least this.
const RING_BYTES: u64 = 1 << 20;

/// Receives what happens during a run. An error from any call ends the run after the present cell.
pub trait Events {
    /// A cell is about to prepare its files. False: enough was measured, the stage ends here as complete.
    fn before_cell(&mut self, id: u64) -> Result<bool>;
    /// Now and then during a cell.
    fn progress(&mut self, progress: &Progress);
    /// A cell ended.
    fn cell(&mut self, outcome: CellOutcome) -> Result<()>;
    /// Every worker reached a point of the cell at which clients wait for one another: the CLOCK_MONOTONIC time at
    /// which to go on, 0 for now. Asked only where [`RunSpec::together`] is set; may block.
    fn together(&mut self, _id: u64, _point: Point) -> Result<u64> {
        Ok(0)
    }
    /// Whether the user wants to stop; asked often.
    fn interrupted(&mut self) -> bool;
}

/// Where the clients of a run wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The files are prepared; next they are opened.
    Prepared,
    /// The files are open; next the window begins.
    Opened,
}

impl Point {
    /// As callers name it.
    pub fn name(self) -> &'static str {
        match self {
            Point::Prepared => "prepared",
            Point::Opened => "opened",
        }
    }
}

/// How a stage ended.
#[derive(Debug, serde::Serialize)]
pub struct StageEnd {
    /// `complete`, `interrupted` or `failed`.
    pub status: &'static str,
    /// What ended the stage, and with it the run, early.
    pub error: Option<Told>,
    /// Cells in which a session broke because its connection ended, or was given up, and why. The next cell connected
    /// anew.
    pub lost: BTreeMap<u64, Told>,
    /// Cells with more workers than any before, for which the server took no further connection, and why. They have no
    /// outcome.
    pub refused: BTreeMap<u64, Told>,
}

/// How a run of one stage ended.
#[derive(Debug, serde::Serialize)]
pub struct RunEnd {
    /// `complete`, `interrupted` or `failed`.
    pub status: &'static str,
    /// Files or folders that could not be removed, and why.
    pub left_behind: Vec<Left>,
    /// What ended the run early.
    pub error: Option<Told>,
}

/// Carries out a run of one stage. `Err` only when nothing was started; later failures are in [`RunEnd`].
pub fn run(spec: &RunSpec, target: &Arc<dyn Target>, owner_mark: &str, events: &mut dyn Events) -> Result<RunEnd> {
    let mut run = Run::open(spec, target, owner_mark)?;
    let StageEnd { status, error, .. } = run.stage(&spec.cells, events)?;
    let left_behind = run.finish(events);
    Ok(RunEnd { status, left_behind, error })
}

/// A run under way. Its folder, the connected target (a simulated server with its clock) and what is known of
/// its files live from the first stage to [`Run::finish`]; dropping it cleans up too.
pub struct Run {
    spec: Arc<RunSpec>,
    target: Arc<dyn Target>,
    owner_mark: String,
    book: FileBook,
    /// Made with the folder, by the first stage that is not refused.
    steward: Option<Steward>,
    driver: Option<Driver>,
    measured: Option<(DataKind, Reducibility)>,
    /// What the sessions of the cell under way waited out.
    outages: Arc<Mutex<Vec<Outage>>>,
    sampler: Sampler,
    /// See [`StageEnd::lost`], of the stage under way.
    lost: BTreeMap<u64, Told>,
    /// See [`StageEnd::refused`], of the stage under way.
    refused: BTreeMap<u64, Told>,
    /// Most workers that a cell had.
    served: u32,
    /// Nanoseconds from beginning to end of the last cell that was carried out, and the size of its file.
    last_took: Option<(u64, u64)>,
    /// An error or an interruption ended the run: no further stage.
    over: bool,
    /// Clean-up gets no more than the run's timeout.
    hurry: bool,
    /// The target did not answer: clean-up gets a second for each call.
    silent: bool,
    /// The user ended the run.
    unwanted: bool,
}

impl Run {
    /// Nothing is touched before the first stage; the specification's own cells are not looked at.
    pub fn open(spec: &RunSpec, target: &Arc<dyn Target>, owner_mark: &str) -> Result<Run> {
        if spec.schema != SPEC_SCHEMA {
            return invalid(format!("specification version {} is not {SPEC_SCHEMA}: update naslab", spec.schema));
        }
        if spec.timeout_ns == 0 {
            return invalid("timeout_ns must be above 0".to_string());
        }
        Ok(Run {
            spec: Arc::new(RunSpec { cells: Vec::new(), ..spec.clone() }),
            target: target.clone(),
            owner_mark: owner_mark.to_string(),
            book: FileBook::new(spec),
            steward: None,
            driver: None,
            measured: None,
            outages: Arc::default(),
            sampler: Sampler::new(),
            lost: BTreeMap::new(),
            refused: BTreeMap::new(),
            served: 0,
            last_took: None,
            over: false,
            hurry: false,
            silent: false,
            unwanted: false,
        })
    }

    /// Carries out cells, in order. `Err` only when none of them was begun; later failures are in [`StageEnd`].
    pub fn stage(&mut self, cells: &[CellSpec], events: &mut dyn Events) -> Result<StageEnd> {
        if self.over {
            return invalid("the run has ended: it cannot measure another stage".to_string());
        }
        let caps = self.target.caps();
        for cell in cells {
            check_cell(cell)?;
            check_caps(cell, &caps, self.target.protocol())?;
            if let Some(script) = &cell.script {
                check_script(cell, &Script::load(script, "")?)?;
            }
        }
        self.admit(cells, events).inspect_err(|error| self.note_end(error, events))?;
        let mut interrupted = false;
        let outcome = self.cells(cells, events, &mut interrupted);
        let outcome = match outcome {
            Err(error) => {
                self.note_end(&error, events);
                interrupted |= error.kind == ErrorKind::Interrupted;
                if error.kind == ErrorKind::Interrupted {
                    Ok(true)
                } else {
                    Err(error)
                }
            }
            Ok(good) => {
                self.hurry |= interrupted && events.interrupted();
                Ok(good)
            }
        };
        self.over |= interrupted || outcome.is_err();
        self.unwanted |= events.interrupted();
        let (lost, refused) = (std::mem::take(&mut self.lost), std::mem::take(&mut self.refused));
        Ok(StageEnd { lost, refused, ..stage_end(outcome, interrupted) })
    }

    /// What an error means for the clean-up.
    fn note_end(&mut self, error: &Error, events: &mut dyn Events) {
        let hangs = matches!(error.kind, ErrorKind::Timeout | ErrorKind::Interrupted);
        self.over |= hangs;
        self.silent |= hangs;
        self.hurry |= hangs || events.interrupted();
    }

    /// Makes the folder before the first stage; refuses cells that would touch files of others.
    fn admit(&mut self, cells: &[CellSpec], events: &mut dyn Events) -> Result<()> {
        match &mut self.steward {
            Some(steward) => steward.admit(cells, events),
            None => {
                let made = Steward::prepare(&self.spec, cells, &self.target, &self.owner_mark, events)?;
                self.steward = Some(made);
                Ok(())
            }
        }
    }

    /// Removes what the run made; returns what is left, and why. Later stages are refused.
    pub fn finish(&mut self, events: &mut dyn Events) -> Vec<Left> {
        self.over = true;
        // Workers' sessions end first: some servers remove no file that is open.
        self.driver = None;
        let Some(steward) = self.steward.take() else { return Vec::new() };
        steward.clean_up(self.hurry, self.silent, self.unwanted, events)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Nobody is left to tell, or to ask for an end: the run's timeout has to do.
        self.hurry = true;
        self.finish(&mut Nobody);
    }
}

/// Listens for a run whose owner has gone.
struct Nobody;

impl Events for Nobody {
    fn before_cell(&mut self, _id: u64) -> Result<bool> {
        Ok(false)
    }
    fn progress(&mut self, _progress: &Progress) {}
    fn cell(&mut self, _outcome: CellOutcome) -> Result<()> {
        Ok(())
    }
    fn interrupted(&mut self) -> bool {
        false
    }
}

fn stage_end(outcome: Result<bool>, interrupted: bool) -> StageEnd {
    let (status, error) = match outcome {
        Ok(_) if interrupted => ("interrupted", None),
        Ok(true) => ("complete", None),
        Ok(false) => ("failed", None),
        Err(error) => ("failed", Some(error)),
    };
    StageEnd { status, error: error.map(|e| e.told()), lost: BTreeMap::new(), refused: BTreeMap::new() }
}

/// Why workers' sessions broke, where none did for another reason than a connection that ended, or was given up.
fn lost_connection(workers: &[WorkerResult], goes_on: bool) -> Option<Told> {
    let broken: Vec<&Error> = workers.iter().filter(|w| w.broke()).filter_map(|w| w.error.as_ref()).collect();
    let lost = broken.iter().all(|e| e.kind == ErrorKind::Disconnected || goes_on && e.kind == ErrorKind::Timeout);
    broken.first().filter(|_| lost).map(|e| e.told())
}

fn check_cell(cell: &CellSpec) -> Result<()> {
    let id = cell.id;
    if cell.record_bytes == 0 || cell.file_bytes < cell.record_bytes as u64 || cell.workers == 0 {
        return invalid(format!("cell {id}: record, file and workers must fit together"));
    }
    if cell.script.is_none() && cell.files.len() != 1 && cell.files.len() != cell.workers as usize
        || cell.queue_depth == 0
    {
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

/// Refuses a script that does not fit its cell.
fn check_script(cell: &CellSpec, script: &Script) -> Result<()> {
    let (id, streams) = (cell.id, script.head.streams.len());
    if streams != cell.workers as usize {
        return invalid(format!("cell {id}: the script has {streams} streams for {} workers", cell.workers));
    }
    let bytes = u64::from(script.most_bytes()).max(RING_BYTES).saturating_mul(2 * streams as u64);
    if bytes > MAX_BUFFER_BYTES {
        return invalid(format!(
            "cell {id}: {bytes} bytes of buffers are needed: use fewer streams or smaller requests"
        ));
    }
    Ok(())
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Invalid, "plan", message))
}

impl Run {
    /// Carries out the cells; false if one of them failed.
    fn cells(&mut self, mut cells: &[CellSpec], events: &mut dyn Events, interrupted: &mut bool) -> Result<bool> {
        let mut good = true;
        while let Some(cell) = cells.first() {
            *interrupted |= events.interrupted();
            if *interrupted {
                break;
            }
            let many = self.follow_at_once(cells);
            let (measured, goes_on) = if many > 1 {
                self.back_to_back(&cells[..many], events, &mut good, interrupted)?
            } else if events.before_cell(cell.id)? {
                let status = self.cell(cell, events).map_err(|e| e.with("cell", cell.id))?;
                good &= status == "complete";
                *interrupted |= status == "partial";
                (1, true)
            } else {
                (0, false)
            };
            if !goes_on {
                break;
            }
            cells = &cells[measured..];
        }
        Ok(good)
    }

    /// One cell: its status. Failed operations and sessions are its result, and the next cell connects anew;
    /// an error is what no later cell could get past: a set-up that fails, a target that hangs.
    fn cell(&mut self, cell: &CellSpec, events: &mut dyn Events) -> Result<&'static str> {
        let (job, measured) = self.job(cell, false)?;
        let begun_ns = monotonic_ns();
        let mut around = Around { start_wall_ns: wall_ns(), measured, ..Around::default() };
        let before = storage_bytes();
        let mut watch = Watch {
            events: &mut *events,
            progress_interval_ns: self.spec.progress_interval_ns,
            timeout_ns: self.spec.timeout_ns.saturating_add(self.spec.ride_out_ns),
            together: self.spec.together,
            sampler: &mut self.sampler,
        };
        let driver = self.driver.get_or_insert_with(|| Driver::new(&lasting(&self.spec, &self.target, &self.outages)));
        let stalls = (!job.clock.is_virtual()).then(StallWatch::begin);
        let workers = match driver.run(&job, &mut watch) {
            Err(error) if self.is_one_too_many(cell, &error) => {
                self.book.wrote(cell, &job.plans, false);
                self.refused.insert(cell.id, error.told());
                return Ok("failed");
            }
            outcome => outcome?,
        };
        self.served = self.served.max(cell.workers);
        self.last_took = Some((monotonic_ns() - begun_ns, cell.file_bytes));
        around.stalls = stalls.and_then(StallWatch::end);
        around.storage = moved_bytes(before, storage_bytes());
        around.client = self.sampler.take(&workers);
        around.outages = std::mem::take(&mut *self.outages.lock().unwrap_or_else(PoisonError::into_inner));
        self.settle(&job, workers, &around, events)
    }

    /// A cell ready for its workers, and what its data are. ahead: it follows another one at once, or is followed.
    fn job(&mut self, cell: &CellSpec, ahead: bool) -> Result<(Arc<CellJob>, Option<Reducibility>)> {
        let plans = if cell.script.is_some() { Vec::new() } else { self.book.plan(cell)? };
        let files_folder = self.spec.path(FILES_FOLDER);
        let script = cell.script.as_ref().map(|script| Script::load(script, &files_folder)).transpose()?;
        let script = script.map(Arc::new);
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
            script,
            files_folder,
            ahead: ahead.then(|| Mutex::new(Some(make_recorder(cell, &self.target.clock(), 0, None)))),
        });
        Ok((job, measured))
    }

    /// Tells what a cell brought: its status.
    fn settle(
        &mut self,
        job: &CellJob,
        mut workers: Vec<WorkerResult>,
        around: &Around,
        events: &mut dyn Events,
    ) -> Result<&'static str> {
        let cell = &job.spec;
        let outcome = assemble(job, &workers, around, &*self.target);
        let (status, stop) = (outcome.result.status, outcome.result.stop_reason);
        let whole = status == "complete" && (stop != "stonewall" || cell.finish_untimed);
        if cell.script.is_none() {
            self.book.wrote(cell, &job.plans, whole);
        }
        events.cell(outcome)?;
        let goes_on = self.spec.goes_on;
        if let Some(why) = lost_connection(&workers, goes_on) {
            self.lost.insert(cell.id, why);
        }
        let hangs = |e: &mut Error| e.kind == ErrorKind::Interrupted || e.kind == ErrorKind::Timeout && !goes_on;
        let hang = workers.iter_mut().find_map(|w| w.error.take_if(hangs));
        hang.map_or(Ok(status), Err)
    }

    /// Whether the server took fewer connections than a cell wanted, and as many as the cells before wanted.
    fn is_one_too_many(&self, cell: &CellSpec, error: &Error) -> bool {
        let hangs = matches!(error.kind, ErrorKind::Timeout | ErrorKind::Interrupted);
        let connects = error.operation == "connect" || error.kind == ErrorKind::Disconnected;
        connects && !hangs && 0 < self.served && self.served < cell.workers && cell.script.is_none()
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

/// The target that workers connect to: one whose sessions wait for the server where the run asks for that.
fn lasting(spec: &RunSpec, target: &Arc<dyn Target>, outages: &Arc<Mutex<Vec<Outage>>>) -> Arc<dyn Target> {
    match spec.ride_out_ns {
        0 => Arc::clone(target),
        time => Arc::new(LastingTarget::new(Arc::clone(target), Duration::from_nanos(time), Arc::clone(outages))),
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
