//! Events of a run as calls of one Python function, and Ctrl-C.

use naslab_core::{Error, ErrorKind, Result};
use naslab_engine::{CellOutcome, Events, Point, Progress};
use naslab_targets::seam;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyList};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Calls `on_event(kind, json, blobs)`, if there is one. The first exception ends the run and is raised from the
/// call that carries the events.
pub(crate) struct PyEvents {
    on_event: Option<Py<PyAny>>,
    error: Option<PyErr>,
    /// Set by [`crate::run::PyRun::interrupt`].
    stop: Arc<AtomicBool>,
}

impl PyEvents {
    pub fn new(on_event: Option<Py<PyAny>>, stop: Arc<AtomicBool>) -> PyEvents {
        PyEvents { on_event, error: None, stop }
    }

    /// What the callback or a signal raised. Interruption by a signal is the run's status, not an error.
    pub fn into_error(self) -> Option<PyErr> {
        self.error
    }

    /// Whether to go on: what is answered other than False says so.
    fn call(&mut self, kind: &str, json: String, blobs: &[Vec<u8>]) -> Result<bool> {
        let Some(on_event) = &self.on_event else { return Ok(true) };
        let outcome = Python::attach(|py| {
            let blobs = PyList::new(py, blobs.iter().map(|b| PyBytes::new(py, b)))?;
            let answer = on_event.call1(py, (kind, json, blobs))?;
            Ok(!answer.bind(py).is(PyBool::new(py, false)))
        });
        outcome.map_err(|error| {
            self.error.get_or_insert(error);
            Error::new(ErrorKind::Invalid, "event", "the caller stopped the run")
        })
    }
}

impl Events for PyEvents {
    fn before_cell(&mut self, id: u64) -> Result<bool> {
        self.call("before", seam::before(id), &[])
    }

    fn progress(&mut self, progress: &Progress) {
        if let Ok(json) = seam::progress(progress) {
            // A failing progress display ends the run through `interrupted`.
            let _ = self.call("progress", json, &[]);
        }
    }

    fn cell(&mut self, outcome: CellOutcome) -> Result<()> {
        self.call("cell", seam::cell(&outcome)?, &outcome.blobs).map(drop)
    }

    fn together(&mut self, id: u64, point: Point) -> Result<u64> {
        let Some(on_event) = &self.on_event else { return Ok(0) };
        let outcome = Python::attach(|py| -> PyResult<u64> {
            on_event.call1(py, ("together", seam::together(id, point), PyList::empty(py)))?.extract(py)
        });
        outcome.map_err(|error| {
            self.error.get_or_insert(error);
            Error::new(ErrorKind::Invalid, "event", "the caller stopped the run")
        })
    }

    fn interrupted(&mut self) -> bool {
        if self.error.is_some() || self.stop.load(Ordering::Relaxed) {
            return true;
        }
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(error) => {
                self.error = Some(error);
                true
            }
        }
    }
}
