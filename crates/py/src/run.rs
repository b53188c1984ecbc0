//! Runs: of one stage in one call, or of several in an object that Python holds.

use crate::errors::{self, SpecError};
use crate::events::PyEvents;
use naslab_core::Target;
use naslab_engine::{CellSpec, Run, RunSpec};
use naslab_targets::{make, seam};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Carries out a run of one stage; see docs/notes/0001-seams.md. Returns how it ended, as JSON.
#[pyfunction]
pub(crate) fn run(py: Python<'_>, spec_json: &str, owner_mark: &str, on_event: Py<PyAny>) -> PyResult<String> {
    let spec: RunSpec = parse(spec_json)?;
    let target = make(&spec.target, seam::depth(&spec.cells)).map_err(errors::to_py)?;
    let mut events = PyEvents::new(Some(on_event), Arc::default());
    let end = py.detach(|| naslab_engine::run(&spec, &target, owner_mark, &mut events));
    if let Some(error) = events.into_error() {
        return Err(error);
    }
    with_facts(&end.map_err(errors::to_py)?, &*target)
}

/// Begins a run of several stages, none of them with more than `depth` operations in flight per worker.
#[pyfunction]
pub(crate) fn open_run(spec_json: &str, owner_mark: &str, depth: u32) -> PyResult<PyRun> {
    let spec: RunSpec = parse(spec_json)?;
    let target = make(&spec.target, depth).map_err(errors::to_py)?;
    let run = Run::open(&spec, &target, owner_mark).map_err(errors::to_py)?;
    Ok(PyRun { run: Mutex::new(run), target, depth, stop: Arc::default() })
}

/// A run under way. One that is dropped cleans up.
#[pyclass(name = "Run", module = "naslab._engine", frozen)]
pub(crate) struct PyRun {
    run: Mutex<Run>,
    target: Arc<dyn Target>,
    depth: u32,
    stop: Arc<AtomicBool>,
}

#[pymethods]
impl PyRun {
    /// Carries out cells; returns how that ended, as JSON.
    fn stage(&self, py: Python<'_>, cells_json: &str, on_event: Py<PyAny>) -> PyResult<String> {
        let cells: Vec<CellSpec> = parse(cells_json)?;
        if let Some(cell) = cells.iter().find(|cell| cell.queue_depth > self.depth) {
            let (id, depth) = (cell.id, cell.queue_depth);
            return Err(SpecError::new_err(format!("cell {id}: depth {depth}, the run was opened for {}", self.depth)));
        }
        let mut events = PyEvents::new(Some(on_event), self.stop.clone());
        let end = py.detach(|| self.lock().map(|mut run| run.stage(&cells, &mut events)))?;
        if let Some(error) = events.into_error() {
            return Err(error);
        }
        with_facts(&end.map_err(errors::to_py)?, &*self.target)
    }

    /// Ends the stage under way, from any thread, as Ctrl-C would; what is measured comes as a partial cell.
    fn interrupt(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Removes what the run made; returns what is left, and why, as JSON.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        let mut events = PyEvents::new(None, self.stop.clone());
        let left = py.detach(|| self.lock().map(|mut run| run.finish(&mut events)))?;
        match events.into_error() {
            Some(error) => Err(error),
            None => serde_json::to_string(&left).map_err(errors::json),
        }
    }
}

impl PyRun {
    /// The run, unless a stage of it is under way: its own listener would wait for itself.
    fn lock(&self) -> PyResult<MutexGuard<'_, Run>> {
        match self.run.try_lock() {
            Ok(run) => Ok(run),
            Err(TryLockError::Poisoned(run)) => Ok(run.into_inner()), // after a panic there is still a folder to remove
            Err(TryLockError::WouldBlock) => Err(SpecError::new_err("a stage of this run is under way")),
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> PyResult<T> {
    seam::read(text).map_err(SpecError::new_err)
}

fn with_facts(end: &impl serde::Serialize, target: &dyn Target) -> PyResult<String> {
    seam::end(end, target).map(|end| end.to_string()).map_err(errors::to_py)
}
