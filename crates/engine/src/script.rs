//! A script under way: one worker's stream of steps, its open files, and how far the others are.

use crate::os::read_exact_at;
use naslab_core::{Create, Error, ErrorKind, FileId, OpenOptions, Result, SyncMode};
use naslab_workload::{
    flag, stream_count, ScriptHead, Step, NO_STREAM, SCRIPT_HEAD_BYTES, STARTED, STEP_BYTES, STREAM_BYTES,
};
use serde::Deserialize;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Folder under the run's that holds all files of scripts; clean-up removes it with everything in it.
pub const FILES_FOLDER: &str = "naslab.files";
/// Steps read at once: they and their bytes stay in the first caches.
const CHUNK_STEPS: usize = 512;
/// Longest head with its paths.
const MOST_HEAD_BYTES: u64 = 1 << 30;

/// Which script a cell carries out, and how fast.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptSpec {
    /// The script file on this machine; a worker for each of its streams.
    pub path: String,
    /// Steps start when they are due, and latency counts from then; else each starts as soon as it can.
    #[serde(default)]
    pub recorded_pace: bool,
    /// A step that ends so much after it was due missed its deadline; 0: none is looked at.
    #[serde(default)]
    pub deadline_ns: u64,
    /// For progress; the engine counts what is moved.
    #[serde(default)]
    #[allow(dead_code)]
    pub planned_bytes: u64,
}

/// How far one stream is, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Steps {
    done: AtomicU64,
    started: AtomicU64,
}

/// What all workers of a script share.
#[derive(Debug)]
pub(crate) struct Script {
    pub spec: ScriptSpec,
    pub head: ScriptHead,
    /// Under the target's root.
    paths: Vec<String>,
    steps: Vec<Steps>,
}

impl Script {
    /// Reads head and paths. folder: that the paths lie in. An Invalid error for a file that is no script, Io when
    /// it cannot be read.
    pub fn load(spec: &ScriptSpec, folder: &str) -> Result<Script> {
        let file = open(&spec.path)?;
        let fail = |e| Error::from_io("script", e).with("path", &spec.path);
        let file_bytes = file.metadata().map_err(fail)?.len();
        let mut head = vec![0; SCRIPT_HEAD_BYTES.min(file_bytes as usize)];
        read_exact_at(&file, &mut head, 0).map_err(fail)?;
        let streams = stream_count(&head).map_err(|e| e.with("path", &spec.path))? as usize;
        head.resize((SCRIPT_HEAD_BYTES + streams * STREAM_BYTES).min(file_bytes as usize), 0);
        read_exact_at(&file, &mut head, 0).map_err(fail)?;
        let head = ScriptHead::parse(&head, file_bytes).map_err(|e| e.with("path", &spec.path))?;
        let table_bytes = file_bytes - head.paths_at_bytes;
        if table_bytes > MOST_HEAD_BYTES {
            return Err(Error::new(ErrorKind::Invalid, "script", "more than 1 GiB of paths").with("path", &spec.path));
        }
        let mut table = vec![0; table_bytes as usize];
        read_exact_at(&file, &mut table, head.paths_at_bytes).map_err(fail)?;
        let paths = head.parse_paths(&table).map_err(|e| e.with("path", &spec.path))?;
        let paths =
            paths.into_iter().map(|path| if path.is_empty() { folder.to_string() } else { format!("{folder}/{path}") });
        let steps = head.streams.iter().map(|_| Steps::default()).collect();
        Ok(Script { spec: spec.clone(), paths: paths.collect(), steps, head })
    }

    /// Longest read or write of all streams.
    pub fn most_bytes(&self) -> u32 {
        self.head.streams.iter().map(|s| s.most_bytes).max().unwrap_or(0)
    }
}

fn open(path: &str) -> Result<File> {
    File::open(path).map_err(|e| Error::from_io("script", e).with("path", path))
}

/// Says that a step starts, so that others need not wait for its end.
pub(crate) struct Announcement {
    script: Arc<Script>,
    stream: usize,
    /// How many steps are started with the next one.
    pub step: u64,
}

impl Announcement {
    /// The step starts now.
    #[inline]
    pub fn make(&self) {
        self.script.steps[self.stream].started.store(self.step, Ordering::Release);
    }
}

/// One worker's stream.
pub(crate) struct ScriptRun {
    script: Arc<Script>,
    file: File,
    stream: usize,
    /// Checked steps as they are in the file; those from `at` on are not taken yet. Each is decoded as it is needed:
    /// writing it field by field and copying it at once makes the processor wait for its own stores.
    steps: Vec<[u8; STEP_BYTES]>,
    at: usize,
    /// Steps taken.
    taken: u64,
    handles: Vec<Option<FileId>>,
    /// The session carries operations out within `submit`.
    blocking: bool,
    /// Bytes written so far: what makes each block unlike all others.
    pub written_bytes: u64,
}

impl ScriptRun {
    /// The stream of this number. Opens the file on this thread: worker threads share no descriptors.
    /// blocking: the session carries operations out within `submit`.
    pub fn new(script: &Arc<Script>, stream: u32, blocking: bool) -> Result<ScriptRun> {
        let handles = script.head.streams[stream as usize].handles as usize;
        Ok(ScriptRun {
            file: open(&script.spec.path)?,
            script: script.clone(),
            stream: stream as usize,
            steps: Vec::with_capacity(CHUNK_STEPS),
            at: 0,
            taken: 0,
            handles: vec![None; handles],
            blocking,
            written_bytes: 0,
        })
    }

    /// Makes sure that a step is there, if any is left.
    #[inline]
    pub fn fetch(&mut self) -> Result<()> {
        if self.at == self.steps.len() {
            self.refill()?;
        }
        Ok(())
    }

    /// The next step that was fetched; `None` after the last. It stays the next one until `take`.
    #[inline]
    pub fn next_step(&self) -> Option<Step> {
        self.steps.get(self.at).and_then(Step::decode)
    }

    /// For a session whose calls end with the operation: who says that a step starts, before it does.
    pub fn announcement(&self) -> Option<Announcement> {
        self.blocking.then(|| Announcement { script: self.script.clone(), stream: self.stream, step: 0 })
    }

    /// The step that `next_step` gave was started.
    #[inline]
    pub fn take(&mut self) {
        self.at += 1;
        self.taken += 1;
        self.script.steps[self.stream].started.store(self.taken, Ordering::Release);
    }

    #[cold]
    fn refill(&mut self) -> Result<()> {
        let head = &self.script.head.streams[self.stream];
        let left = (head.steps - self.taken).min(CHUNK_STEPS as u64) as usize;
        let from = head.at_bytes + self.taken * STEP_BYTES as u64;
        self.at = 0;
        self.steps.resize(left, [0; STEP_BYTES]);
        read_exact_at(&self.file, self.steps.as_flattened_mut(), from).map_err(|e| Error::from_io("script", e))?;
        let mut numbered = (self.taken..).zip(&self.steps);
        numbered.try_for_each(|(number, bytes)| self.script.head.check_step(self.stream, number, bytes))
    }

    /// Steps taken so far: the number of the next one.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// All steps taken so far have ended: others may go on.
    #[inline]
    pub fn publish(&self) {
        self.script.steps[self.stream].done.store(self.taken, Ordering::Release);
    }

    /// The worker will do no more: nobody waits for it in vain.
    pub fn give_up(&self) {
        let steps = &self.script.steps[self.stream];
        steps.started.store(u64::MAX, Ordering::Release);
        steps.done.store(u64::MAX, Ordering::Release);
    }

    /// Whether what the step waits for is done.
    #[inline]
    pub fn is_free(&self, step: &Step) -> bool {
        if step.wait_stream == NO_STREAM {
            return true;
        }
        let other = &self.script.steps[step.wait_stream as usize];
        let seen = if step.wait_steps & STARTED == 0 { &other.done } else { &other.started };
        seen.load(Ordering::Acquire) >= u64::from(step.wait_steps & !STARTED)
    }

    /// When the step is due, in nanoseconds from the start; `None` when it may start at once.
    #[inline]
    pub fn due_ns(&self, step: &Step) -> Option<u64> {
        self.script.spec.recorded_pace.then_some(step.due_ns)
    }

    /// A path of the table, under the target's root.
    pub fn path(&self, number: u32) -> &str {
        &self.script.paths[number as usize]
    }

    /// The open file of a handle. An Invalid error when its open failed, or never came.
    #[inline]
    pub fn handle(&self, step: &Step) -> Result<FileId> {
        let missing = || Error::new(ErrorKind::Invalid, "script", "the file of this step is not open");
        self.handles[step.handle as usize].ok_or_else(missing)
    }

    /// Remembers an open file; the one that the handle had before, if any.
    pub fn opened(&mut self, step: &Step, file: FileId) -> Option<FileId> {
        self.handles[step.handle as usize].replace(file)
    }

    /// Forgets an open file.
    pub fn closed(&mut self, step: &Step) {
        self.handles[step.handle as usize] = None;
    }

    /// Files still open; they are forgotten.
    pub fn left_open(&mut self) -> Vec<FileId> {
        self.handles.iter_mut().filter_map(Option::take).collect()
    }
}

/// How an open step opens its file.
pub(crate) fn open_options(step: &Step, record_bytes: u32) -> OpenOptions {
    let has = |bit| step.flags & bit != 0;
    OpenOptions {
        read: has(flag::READ) || !has(flag::WRITE),
        write: has(flag::WRITE),
        create: match (has(flag::CREATE), has(flag::EXCLUSIVE)) {
            (true, true) => Create::New,
            (true, false) => Create::IfMissing,
            _ => Create::Never,
        },
        truncate: has(flag::TRUNCATE) && has(flag::WRITE),
        direct: has(flag::DIRECT),
        sync: if has(flag::SYNC) { SyncMode::All } else { SyncMode::None },
        record_bytes,
        ..OpenOptions::default()
    }
}
