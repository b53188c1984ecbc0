//! What the run knows of the files it wrote: tags, generations, contents, and whose they are.

use crate::spec::{CellSpec, Existing, RunSpec};
use crate::verify::Check;
use naslab_core::{
    errno, limit, Clock, Error, ErrorKind, IoBuf, Op, OpError, OpKind, OpenOptions, Result, Session, Submit,
};
use naslab_workload::{tag_unit, DataKind, Tagger, TAG_MAGIC};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Longest time of an untimed operation.
const LONGEST_OP: Duration = Duration::from_secs(30);
/// How often a server that wants to be asked later is asked.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How one worker tags and checks its file in one cell.
#[derive(Clone, Debug)]
pub(crate) struct FilePlan {
    pub path: String,
    pub tagger: Option<Tagger>,
    pub check: Option<Check>,
    /// This worker removes and creates the file; others wait.
    pub owner: bool,
}

/// What is known of a file's contents.
#[derive(Clone, Copy, Debug)]
struct FileState {
    number: u32,
    generation: u32,
    /// Every block has this generation.
    exact: bool,
    /// Bytes from the start that were ever written.
    bytes: u64,
    contents: Option<Contents>,
}

/// What all blocks of a file have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Contents {
    kind: DataKind,
    /// Blocks in which the file was tagged, or in which its pattern repeats.
    unit: Option<u32>,
    checksum: bool,
}

impl Contents {
    fn of(cell: &CellSpec, tagger: Option<&Tagger>) -> Contents {
        let unit = match cell.data_kind() {
            DataKind::Random { .. } => tagger.map(|t| t.unit),
            _ if cell.record_bytes.is_multiple_of(4096) => Some(4096),
            _ => Some(cell.record_bytes),
        };
        Contents { kind: cell.data_kind(), unit, checksum: cell.verify }
    }

    /// Whether records of this size can be checked block by block.
    fn fits(&self, record_bytes: u32) -> bool {
        match (self.kind, self.unit) {
            (DataKind::Fill(_), _) => true,
            (DataKind::Random { .. }, Some(unit)) => record_bytes.is_multiple_of(unit),
            (DataKind::Iozone, Some(4096)) => record_bytes.is_multiple_of(4096),
            (DataKind::Iozone, Some(unit)) => record_bytes == unit,
            (_, None) => false,
        }
    }
}

/// The files of a run.
#[derive(Clone, Debug)]
pub(crate) struct FileBook {
    run: u64,
    folder: Option<String>,
    states: HashMap<String, FileState>,
    numbers: HashMap<String, u32>,
}

impl FileBook {
    /// An empty book for this run.
    pub fn new(spec: &RunSpec) -> FileBook {
        let run =
            spec.run_id.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
        FileBook { run, folder: spec.folder.clone(), states: HashMap::new(), numbers: HashMap::new() }
    }

    /// Path under the target's root.
    pub fn path(&self, name: &str) -> String {
        match &self.folder {
            Some(folder) => format!("{folder}/{name}"),
            None => name.to_string(),
        }
    }

    /// Plans the files of a cell, one entry per worker. Refuses checks that could not be trusted.
    pub fn plan(&mut self, cell: &CellSpec) -> Result<Vec<FilePlan>> {
        let mut seen = BTreeSet::new();
        (0..cell.workers)
            .map(|worker| {
                let path = self.path(cell.file_of(worker));
                let owner = seen.insert(path.clone());
                let writes = cell.write_fraction_of(worker) > 0.0;
                let tagger = if writes { self.tagger(cell, &path) } else { None };
                let reads = cell.write_fraction_of(worker) < 1.0;
                let check = if cell.verify && reads { Some(self.check(cell, &path, writes)?) } else { None };
                Ok(FilePlan { path, tagger, check, owner })
            })
            .collect()
    }

    fn number(&mut self, path: &str) -> u32 {
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry(path.to_string()).or_insert(next)
    }

    fn tagger(&mut self, cell: &CellSpec, path: &str) -> Option<Tagger> {
        let DataKind::Random { dedupe_ratio, .. } = cell.data_kind() else { return None };
        let unit = tag_unit(cell.record_bytes).filter(|u| dedupe_ratio <= 1.0 || *u == 4096)?;
        let number = self.number(path);
        let generation = self.states.get(path).map_or(0, |s| s.generation) + 1;
        Some(Tagger { run: self.run, file: number, generation, unit, checksum: cell.verify })
    }

    fn check(&mut self, cell: &CellSpec, path: &str, writes: bool) -> Result<Check> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::Invalid, "verify", message).with("file", path));
        if writes && (cell.queue_depth > 1 || cell.shared_file()) || cell.shared_file() && cell.writes() {
            return refuse("reads and writes of one file overlap here: use --depth 1 and a file per worker");
        }
        let Some(state) = self.states.get(path).copied() else {
            return refuse("this run has not written the file: put a write test before the read");
        };
        let Some(contents) = state.contents else {
            return refuse("parts of the file were written in different ways: write it whole before the read");
        };
        if writes && contents != Contents::of(cell, self.tagger(cell, path).as_ref()) {
            return refuse("the file was written with other data or another record size: use the same for the mix");
        }
        if !contents.fits(cell.record_bytes) {
            return refuse("the record size does not fit the size in which the file was tagged");
        }
        if !matches!(contents.kind, DataKind::Random { .. }) {
            return Ok(Check { kind: contents.kind, tagger: None, exact: true });
        }
        if !contents.checksum {
            return refuse("the file was written without --verify");
        }
        let tagger = Tagger {
            run: self.run,
            file: state.number,
            generation: state.generation + u32::from(writes),
            unit: contents.unit.unwrap_or(0),
            checksum: true,
        };
        Ok(Check { kind: contents.kind, tagger: Some(tagger), exact: state.exact && !writes })
    }

    /// Notes what a cell wrote. `whole`: every planned write succeeded.
    pub fn wrote(&mut self, cell: &CellSpec, plans: &[FilePlan], whole: bool) {
        let afresh = cell.remove_before || cell.truncate;
        for (worker, plan) in plans.iter().enumerate() {
            if cell.write_fraction_of(worker as u32) <= 0.0 {
                continue;
            }
            let number = self.number(&plan.path);
            let before = self.states.get(&plan.path).copied();
            let old_bytes = before.filter(|_| !afresh).map_or(0, |b| b.bytes);
            let new_bytes = cell.records() * cell.record_bytes as u64;
            let exact = whole && cell.covers_file() && new_bytes >= old_bytes;
            let bytes = new_bytes.max(old_bytes);
            let now = Contents::of(cell, plan.tagger.as_ref());
            // Where old blocks remain, they must be like the new ones, or nothing can be said of all.
            let contents = match before.filter(|_| !exact && !afresh) {
                Some(old) => old.contents.filter(|c| *c == now),
                None => Some(now),
            };
            let generation = plan.tagger.map_or(before.map_or(0, |b| b.generation), |t| t.generation);
            self.states.insert(plan.path.clone(), FileState { number, generation, exact, bytes, contents });
        }
    }
}

/// Which of these paths another hand wrote.
pub(crate) fn find_foreign(
    session: &mut dyn Session,
    clock: &Clock,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, bool>> {
    names.iter().map(|name| Ok((name.clone(), is_foreign(session, clock, name)?))).collect()
}

/// Refuses cells that would run over files that are not ours. foreign: paths looked at before the run touched
/// them, and whether another hand wrote them.
pub(crate) fn refuse_foreign(existing: Existing, cells: &[CellSpec], foreign: &BTreeMap<String, bool>) -> Result<()> {
    for (name, _) in foreign.iter().filter(|(_, foreign)| **foreign) {
        let mut users = cells.iter().filter(|c| c.files.contains(name)).peekable();
        if users.peek().is_some() {
            allow(existing, users.all(CellSpec::only_reads), name)?;
        }
    }
    Ok(())
}

fn allow(existing: Existing, reads_only: bool, path: &str) -> Result<()> {
    let message = match existing {
        Existing::Overwrite => return Ok(()),
        Existing::Read if reads_only => return Ok(()),
        Existing::Read => {
            "the file exists, naslab did not write it, and the plan would write to it: \
                           --read-existing allows reading only; give --overwrite to let it be overwritten and removed"
        }
        Existing::Refuse => {
            "the file exists and naslab did not write it: choose another name, \
                             or give --read-existing to read it, or --overwrite to let it be overwritten and removed"
        }
    };
    Err(Error::new(ErrorKind::Exists, "open", message).with("file", path))
}

/// Whether a path exists and does not start with one of our tags.
fn is_foreign(session: &mut dyn Session, clock: &Clock, path: &str) -> Result<bool> {
    let stat = match session.stat(path) {
        Ok(stat) => stat,
        Err(e) if e.kind == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    if stat.is_dir {
        let message = "the path is a folder, a file name is needed: add one";
        return Err(Error::new(ErrorKind::Invalid, "open", message).with("file", path));
    }
    if stat.len_bytes < TAG_MAGIC.len() as u64 {
        return Ok(true);
    }
    let head = read_small(session, clock, path, TAG_MAGIC.len() as u32)?;
    Ok(head != TAG_MAGIC)
}

/// The first `len` bytes of a file (fewer if it is shorter).
pub(crate) fn read_small(session: &mut dyn Session, clock: &Clock, path: &str, len: u32) -> Result<Vec<u8>> {
    let file = session.open(path, &OpenOptions { read: true, ..OpenOptions::default() })?;
    let mut data = vec![0u8; len as usize];
    let op = Op { kind: OpKind::Read, file, offset_bytes: 0, len_bytes: len, due_ns: None };
    let done = one_op(session, clock, &op, IoBuf::from_slice(&mut data)).inspect_err(|_| abandon(&mut data));
    session.close(file)?;
    data.truncate(done? as usize);
    Ok(data)
}

/// Writes a small file that must not exist yet, durably.
pub(crate) fn write_small(session: &mut dyn Session, clock: &Clock, path: &str, mut data: Vec<u8>) -> Result<()> {
    let options = OpenOptions { read: true, write: true, create: naslab_core::Create::New, ..OpenOptions::default() };
    let file = session.open(path, &options)?;
    let op = Op { kind: OpKind::Write, file, offset_bytes: 0, len_bytes: data.len() as u32, due_ns: None };
    let done = one_op(session, clock, &op, IoBuf::from_slice(&mut data)).inspect_err(|_| abandon(&mut data));
    let done = done.and_then(|_| session.flush(file, Default::default()));
    session.close(file)?;
    done
}

/// Gives memory away that an operation which did not end may still use.
fn abandon(data: &mut Vec<u8>) {
    std::mem::forget(std::mem::take(data));
}

/// Carries out one untimed operation and waits for it; bytes moved. A read that meets the end of file is fine. A server
/// that asks to come back later is asked again, as by the untimed calls of its protocol.
/// After an error the operation may still be under way: the caller keeps `buf` alive for good.
pub(crate) fn one_op(session: &mut dyn Session, clock: &Clock, op: &Op, buf: IoBuf) -> Result<u32> {
    let _scope = (!clock.is_virtual()).then(|| limit::within(LONGEST_OP));
    loop {
        match one_try(session, clock, op, buf) {
            Err(e) if e.kind == ErrorKind::Delayed && !clock.is_virtual() => {
                std::thread::sleep(ASK_AGAIN);
                limit::check(op.kind.name()).map_err(|_| e)?;
            }
            outcome => return outcome,
        }
    }
}

/// What an operation's error means: in the protocol's own words where its status is no errno.
fn told(session: &dyn Session, error: &OpError) -> String {
    session.explain(error).unwrap_or_else(|| match error.status {
        0 => error.kind.name().replace('_', " "),
        number => errno::text(number as i32),
    })
}

fn one_try(session: &mut dyn Session, clock: &Clock, op: &Op, buf: IoBuf) -> Result<u32> {
    let mut out = Vec::with_capacity(1);
    // SAFETY: `buf` outlives the operation, as the caller promises.
    match unsafe { session.submit(op, buf, 0)? } {
        Submit::Completed(done) => out.push(done),
        Submit::Queued | Submit::Busy => {}
    }
    while out.is_empty() {
        if session.reap(1, Some(LONGEST_OP), &mut out)? > 0 {
            break;
        }
        match session.next_event_ns() {
            Some(at) if clock.is_virtual() => clock.advance_to(at),
            _ => return Err(Error::new(ErrorKind::Timeout, op.kind.name(), "no answer within 30 s")),
        }
    }
    match out[0].error {
        Some(e) if e.kind != ErrorKind::Short => {
            let mut error = Error::new(e.kind, op.kind.name(), told(session, &e));
            error.status = e.status;
            Err(error)
        }
        _ => Ok(out[0].bytes),
    }
}
