//! One session of a target for Python: checks, tests and tools that do single operations. Measuring goes through
//! `run`.

use crate::errors;
use crate::waiting::waiting;
use naslab_core::{
    errno, limit, Access, Completion, Create, Error, ErrorKind, FileId, FileTimes, FlushKind, IoBuf, Op, OpError,
    OpKind, OpenOptions, Session, Submit, SyncMode, Target,
};
use naslab_targets as targets;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long one reap waits before the session is asked again; the session's own timeout ends the waiting.
const REAP_SLICE: Duration = Duration::from_millis(50);

/// `OpenOptions` as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OpenJson {
    read: bool,
    write: bool,
    create: CreateJson,
    truncate: bool,
    direct: bool,
    sync: SyncJson,
    delete_on_close: bool,
}

impl Default for OpenJson {
    fn default() -> OpenJson {
        OpenJson {
            read: true,
            write: false,
            create: CreateJson::Never,
            truncate: false,
            direct: false,
            sync: SyncJson::None,
            delete_on_close: false,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CreateJson {
    Never,
    IfMissing,
    New,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SyncJson {
    None,
    Data,
    All,
}

impl From<OpenJson> for OpenOptions {
    fn from(json: OpenJson) -> OpenOptions {
        OpenOptions {
            read: json.read,
            write: json.write,
            create: match json.create {
                CreateJson::Never => Create::Never,
                CreateJson::IfMissing => Create::IfMissing,
                CreateJson::New => Create::New,
            },
            truncate: json.truncate,
            direct: json.direct,
            sync: match json.sync {
                SyncJson::None => SyncMode::None,
                SyncJson::Data => SyncMode::Data,
                SyncJson::All => SyncMode::All,
            },
            access: Access::Positioned,
            delete_on_close: json.delete_on_close,
            ..OpenOptions::default()
        }
    }
}

/// One operation to do: kind, offset, and the bytes to write or room for those to read.
struct Job {
    op: Op,
    data: Vec<u8>,
    done: Option<Completion>,
}

/// Bytes moved, data read, class and raw status of a failure.
type Outcome = (u32, Option<Py<PyBytes>>, Option<&'static str>, i64);

#[pyclass(name = "Session", module = "naslab._engine", frozen)]
pub(crate) struct PySession {
    target: Arc<dyn Target>,
    session: Mutex<Option<Box<dyn Session>>>,
}

impl PySession {
    /// Does `work` with the session, without the GIL. A session whose answer nobody waited for is of no more use.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn Session) -> naslab_core::Result<T> + Send,
    ) -> PyResult<T> {
        waiting(py, errors::to_py_raw, || {
            let mut held = self.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let done = work(&mut **held.as_mut().ok_or_else(closed)?);
            if done.as_ref().is_err_and(|error| error.kind == ErrorKind::Interrupted) {
                *held = None;
            }
            done
        })
    }

    /// Carries jobs out at a depth. A session that broke is dropped before the memory it may still use.
    fn carry_out(&self, py: Python<'_>, mut jobs: Vec<Job>, depth: usize) -> PyResult<Vec<Job>> {
        waiting(py, errors::to_py_raw, || {
            let mut held = self.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let session = held.as_mut().ok_or_else(closed)?;
            match pump(&mut **session, &self.target, &mut jobs, depth) {
                Ok(()) => Ok(jobs),
                Err(error) => {
                    *held = None;
                    Err(error)
                }
            }
        })
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Disconnected, "session", "the session is closed")
}

/// Keeps up to `depth` jobs in flight until all are done.
fn pump(
    session: &mut dyn Session,
    target: &Arc<dyn Target>,
    jobs: &mut [Job],
    depth: usize,
) -> naslab_core::Result<()> {
    let (mut next, mut in_flight, mut done) = (0, 0, Vec::new());
    while next < jobs.len() || in_flight > 0 {
        let mut busy = false;
        while next < jobs.len() && in_flight < depth && !busy {
            let job = &mut jobs[next];
            let buf = IoBuf::from_slice(&mut job.data);
            // SAFETY: the job's memory lives until the operation was reaped or, after an error, the session dropped.
            match unsafe { session.submit(&job.op, buf, next as u32) }? {
                Submit::Queued => in_flight += 1,
                Submit::Completed(completion) => job.done = Some(completion),
                Submit::Busy => busy = true,
            }
            next += usize::from(!busy);
        }
        if in_flight == 0 {
            continue;
        }
        if session.reap(1, Some(REAP_SLICE), &mut done)? == 0 {
            if let (true, Some(at)) = (target.clock().is_virtual(), session.next_event_ns()) {
                target.clock().advance_to(at);
            } else {
                limit::check("reap")?;
            }
        }
        for completion in done.drain(..) {
            in_flight -= 1;
            jobs[completion.token as usize].done = Some(completion);
        }
    }
    Ok(())
}

#[pymethods]
impl PySession {
    #[new]
    #[pyo3(signature = (target_json, depth = 1))]
    fn new(py: Python<'_>, target_json: &str, depth: u32) -> PyResult<PySession> {
        waiting(py, errors::to_py_raw, || {
            let target = targets::parse(target_json, depth)?;
            let session = Mutex::new(Some(target.connect(0)?));
            Ok(PySession { target, session })
        })
    }

    /// One more session of the same target, as another worker has.
    fn another(&self, py: Python<'_>) -> PyResult<PySession> {
        waiting(py, errors::to_py_raw, || {
            let session = Mutex::new(Some(self.target.connect(1)?));
            Ok(PySession { target: self.target.clone(), session })
        })
    }

    fn open(&self, py: Python<'_>, path: &str, options_json: &str) -> PyResult<u32> {
        let options: OpenJson = serde_json::from_str(options_json).map_err(|e| PyValueError::new_err(e.to_string()))?;
        self.with(py, |s| s.open(path, &options.into())).map(|file| file.0)
    }

    fn close(&self, py: Python<'_>, file: u32) -> PyResult<()> {
        self.with(py, |s| s.close(FileId(file)))
    }

    /// Up to `length` bytes; fewer at the end of the file.
    fn read(&self, py: Python<'_>, file: u32, offset: u64, length: u32) -> PyResult<Py<PyBytes>> {
        let job = Job::new(OpKind::Read, file, offset, vec![0; length as usize]);
        let job = self.carry_out(py, vec![job], 1)?.remove(0);
        let (moved, data, failure, status) = job.outcome(py);
        match (failure, data) {
            (None | Some("short"), Some(data)) => Ok(data),
            (kind, _) => {
                let kind = kind.unwrap_or("io");
                Err(failed("read", &self.explain(kind, status), moved, (kind, status)))
            }
        }
    }

    fn write(&self, py: Python<'_>, file: u32, offset: u64, data: Vec<u8>) -> PyResult<u32> {
        let job = self.carry_out(py, vec![Job::new(OpKind::Write, file, offset, data)], 1)?.remove(0);
        match job.outcome(py) {
            (moved, _, None, _) => Ok(moved),
            (moved, _, Some(kind), status) => Err(failed("write", &self.explain(kind, status), moved, (kind, status))),
        }
    }

    /// Many operations at a depth; outcomes in the order of `ops`, each (kind, offset, length or data).
    fn run_ops(
        &self,
        py: Python<'_>,
        file: u32,
        ops: Vec<(String, u64, Bound<'_, PyAny>)>,
        depth: usize,
    ) -> PyResult<Vec<Outcome>> {
        let jobs: Vec<Job> = ops.iter().map(|(k, at, what)| Job::parse(k, file, *at, what)).collect::<PyResult<_>>()?;
        let jobs = self.carry_out(py, jobs, depth.max(1))?;
        Ok(jobs.into_iter().map(|job| job.outcome(py)).collect())
    }

    /// What class and raw status of a failed operation mean: in the protocol's own words where it is no errno.
    fn explain(&self, kind: &str, status: i64) -> String {
        let error = OpError { kind: ErrorKind::Io, status };
        self.target.explain(&error).unwrap_or_else(|| match status {
            0 => kind.replace('_', " "),
            number => errno::text(number as i32),
        })
    }

    fn flush(&self, py: Python<'_>, file: u32) -> PyResult<()> {
        self.with(py, |s| s.flush(FileId(file), FlushKind::All))
    }

    fn set_len(&self, py: Python<'_>, file: u32, len_bytes: u64) -> PyResult<()> {
        self.with(py, |s| s.set_len(FileId(file), len_bytes))
    }

    fn stat(&self, py: Python<'_>, path: &str) -> PyResult<(u64, bool)> {
        self.with(py, |s| s.stat(path)).map(|found| (found.len_bytes, found.is_dir))
    }

    /// When a path's contents last changed, in nanoseconds since 1970, or None.
    fn modified_ns(&self, py: Python<'_>, path: &str) -> PyResult<Option<i64>> {
        self.with(py, |s| s.stat(path)).map(|found| found.modified_ns)
    }

    fn set_times(&self, py: Python<'_>, path: &str, accessed_ns: i64, modified_ns: i64) -> PyResult<()> {
        self.with(py, |s| s.set_times(path, FileTimes { accessed_ns, modified_ns }))
    }

    fn mkdir(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.with(py, |s| s.mkdir(path))
    }

    fn rmdir(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.with(py, |s| s.rmdir(path))
    }

    fn readdir(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, bool)>> {
        let entries = self.with(py, |s| s.readdir(path))?;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.is_dir)).collect())
    }

    /// As `readdir`, of a folder whose entries are to be removed: links to folders count as files.
    fn readdir_within(&self, py: Python<'_>, path: &str) -> PyResult<Vec<(String, bool)>> {
        let entries = self.with(py, |s| s.readdir_within(path))?;
        Ok(entries.into_iter().map(|entry| (entry.name, entry.is_dir)).collect())
    }

    fn rename(&self, py: Python<'_>, from: &str, to: &str) -> PyResult<()> {
        self.with(py, |s| s.rename(from, to))
    }

    fn remove(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.with(py, |s| s.remove(path))
    }

    /// As `remove`, of a file that nobody is to get back: emptied first where the server may keep it in a recycle bin.
    fn discard(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        self.with(py, |s| naslab_engine::discard(s, path))
    }

    /// Free and total bytes.
    fn space(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.with(py, |s| s.space()).map(|space| (space.free_bytes, space.total_bytes))
    }

    fn ping(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |s| s.ping())
    }

    fn server_copy(&self, py: Python<'_>, from: &str, to: &str) -> PyResult<u64> {
        self.with(py, |s| s.server_copy(from, to))
    }

    fn events(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, u64>> {
        self.with(py, |s| Ok(s.events().into_iter().collect()))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.target.facts().into_iter().collect()
    }

    /// Bytes sent and received, or None.
    fn wire(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        self.with(py, |s| Ok(s.wire().map(|w| (w.sent_bytes, w.received_bytes))))
    }

    /// Abilities of the target, as JSON.
    fn caps(&self) -> String {
        targets::caps_json(&self.target.caps()).to_string()
    }

    /// Ends the session; what is open is closed by the server.
    fn end(&self, py: Python<'_>) {
        py.detach(|| *self.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None);
    }
}

impl Job {
    fn new(kind: OpKind, file: u32, offset_bytes: u64, data: Vec<u8>) -> Job {
        let op = Op { kind, file: FileId(file), offset_bytes, len_bytes: data.len() as u32, due_ns: None };
        Job { op, data, done: None }
    }

    fn parse(kind: &str, file: u32, offset_bytes: u64, what: &Bound<'_, PyAny>) -> PyResult<Job> {
        match kind {
            "read" => Ok(Job::new(OpKind::Read, file, offset_bytes, vec![0; what.extract::<u32>()? as usize])),
            "write" => Ok(Job::new(OpKind::Write, file, offset_bytes, what.extract::<Vec<u8>>()?)),
            "flush" => Ok(Job::new(OpKind::Flush, file, 0, Vec::new())),
            other => Err(PyValueError::new_err(format!("operation {other:?}: use read, write or flush"))),
        }
    }

    fn outcome(self, py: Python<'_>) -> Outcome {
        let lost = Completion { token: 0, bytes: 0, error: Some(closed().op_error()) };
        let Completion { bytes, error, .. } = self.done.unwrap_or(lost);
        let data = (self.op.kind == OpKind::Read).then(|| {
            let moved = (bytes as usize).min(self.data.len());
            PyBytes::new(py, &self.data[..moved]).unbind()
        });
        (bytes, data, error.map(|e| e.kind.name()), error.map_or(0, |e| e.status))
    }
}

/// The error of one operation. why: in words.
fn failed(operation: &str, why: &str, moved: u32, (kind, status): (&'static str, i64)) -> PyErr {
    errors::TargetError::new_err((format!("{operation}: {why} after {moved} bytes"), kind, status))
}
