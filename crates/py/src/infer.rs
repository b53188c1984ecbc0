//! The inference for Python: numbers in and out as bytes of float64, the GIL released.

use naslab_infer::{
    side_by_side, BusyLoad, Columns, Conditions, Forbidden, Found, Guess, Mismatch, Model, Run, Scratch, Table, Theta,
    Way, DIMS, FOLLOW_MOVES,
};
use naslab_workload::Rng;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::collections::HashMap;

/// Fingerprint of the model's arithmetic and of its sampler.
#[pyfunction]
pub(crate) fn infer_version() -> u32 {
    naslab_infer::source_version()
}

/// Edges between the segments of a series, float64 as bytes.
#[pyfunction]
pub(crate) fn segment_edges(py: Python<'_>, values: &[u8], shortest: usize, penalty: f64) -> PyResult<Vec<usize>> {
    let values = numbers(values)?;
    Ok(py.detach(|| naslab_infer::segment_edges(&values, shortest, penalty)))
}

/// Rows of a ladder with the table of the model's parameters.
#[pyclass(name = "InferModel", frozen)]
pub(crate) struct PyModel(Model);

#[pymethods]
impl PyModel {
    #[new]
    #[allow(clippy::too_many_arguments)] // one name each in Python
    fn new(
        names: Vec<String>,
        low: Vec<f64>,
        high: Vec<f64>,
        switches: Vec<(String, f64)>,
        columns: HashMap<String, Vec<u8>>,
        conditions: (f64, f64, f64, [bool; 4]),
        client: Vec<(f64, f64)>,
        server: Vec<(f64, f64)>,
    ) -> PyResult<PyModel> {
        let table = Table::new(&names, &low, &high, &switches).map_err(mismatch)?;
        let columns: Columns =
            columns.into_iter().map(|(name, bytes)| Ok((name, numbers(&bytes)?))).collect::<PyResult<_>>()?;
        let (nic_bytes_per_s, cpus, cpu_limit, [same_machine, here, counted, usual]) = conditions;
        let conditions = Conditions { nic_bytes_per_s, cpus, cpu_limit, same_machine, here, counted, usual };
        Ok(PyModel(Model::new(table, &columns, conditions, &client, &server).map_err(mismatch)?))
    }

    /// Log rates, (particles, rows).
    fn predict<'py>(&self, py: Python<'py>, theta: &[u8]) -> PyResult<Bound<'py, PyByteArray>> {
        let theta = particles(theta)?;
        Ok(bytes(py, &py.detach(|| self.0.predict(&theta))))
    }

    /// Log likelihood by particle.
    fn log_likelihood<'py>(&self, py: Python<'py>, theta: &[u8]) -> PyResult<Bound<'py, PyByteArray>> {
        let theta = particles(theta)?;
        let mut found = vec![0.0; theta.len()];
        py.detach(|| {
            let all = vec![f64::NEG_INFINITY; theta.len()];
            self.0.log_likelihood(&theta, &all, &mut found, &mut Scratch::default());
        });
        Ok(bytes(py, &found))
    }

    /// Whether what is forbidden is what limits, by particle.
    fn limited_by<'py>(
        &self,
        py: Python<'py>,
        theta: &[u8],
        forbidden: &PyForbidden,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let theta = particles(theta)?;
        let found: Vec<f64> =
            theta.iter().map(|each| f64::from(u8::from(self.0.is_limited_by(each, &forbidden.0)))).collect();
        Ok(bytes(py, &found))
    }

    /// Several runs, side by side.
    #[pyo3(signature = (runs, forbidden = None))]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        runs: Vec<RunOf<'py>>,
        forbidden: Option<Bound<'py, PyForbidden>>,
    ) -> PyResult<Vec<FoundOf<'py>>> {
        let runs: Vec<Run> = runs.iter().map(|run| self.run(run)).collect::<PyResult<_>>()?;
        let forbidden = forbidden.as_ref().map(|forbidden| forbidden.get().0.clone());
        let found = py.detach(|| side_by_side(&self.0, forbidden.as_ref(), &runs));
        Ok(found.into_iter().map(|found| given(py, found)).collect())
    }
}

/// A limit that is not to be.
#[pyclass(name = "Forbidden", frozen)]
pub(crate) struct PyForbidden(Forbidden);

#[pymethods]
impl PyForbidden {
    #[new]
    #[allow(clippy::too_many_arguments)] // one name each in Python
    fn new(
        kind: &str,
        close: f64,
        nats: f64,
        read: bool,
        large: bool,
        record: f64,
        charge: f64,
        reach: f64,
        granted: f64,
        busy: f64,
    ) -> PyResult<PyForbidden> {
        let load = BusyLoad { read, large, record, charge, reach, granted, busy };
        Ok(PyForbidden(Forbidden::new(kind, close, nats, load).map_err(mismatch)?))
    }
}

/// (guess, places that are held with their values, particles to begin with, how many are wanted, seed, way).
type RunOf<'py> = (Bound<'py, PyGuess>, Vec<(usize, f64)>, Vec<u8>, usize, u64, String);
/// (particles, log evidence).
type FoundOf<'py> = (Bound<'py, PyByteArray>, f64);

impl PyModel {
    fn run<'a>(&'a self, (guess, held, start, count, seed, way): &'a RunOf<'_>) -> PyResult<Run<'a>> {
        let (start, count, seed) = (particles(start)?, *count, *seed);
        if start.is_empty() || count == 0 || held.iter().any(|(at, _)| *at >= DIMS) {
            return Err(PyValueError::new_err("a run without particles, or one that holds no parameter"));
        }
        let way = match way.as_str() {
            "sample" => Way::Sample,
            "lead_on" => Way::LeadOn,
            "gather" => Way::Gather,
            "follow" => Way::Follow(FOLLOW_MOVES),
            other => return Err(PyValueError::new_err(format!("no way of the sampler: {other}"))),
        };
        Ok(Run { table: self.0.table(), guess: &guess.get().0, held: held.clone(), start, count, seed, way })
    }
}

/// Where parameters may lie by what was measured.
#[pyclass(name = "InferGuess", frozen)]
pub(crate) struct PyGuess(Guess);

#[pymethods]
impl PyGuess {
    #[new]
    fn new(model: &PyModel, bumps: Vec<(usize, Vec<f64>)>, broad: f64, near: f64) -> PyResult<PyGuess> {
        Ok(PyGuess(Guess::new(model.0.table(), &bumps, broad, near).map_err(mismatch)?))
    }

    /// So many particles.
    fn draw<'py>(&self, py: Python<'py>, count: u64, seed: u64) -> Bound<'py, PyByteArray> {
        let found: Vec<Theta> = (0..count).map(|at| self.0.draw(&mut Rng::new(seed, at))).collect();
        bytes(py, found.as_flattened())
    }

    /// Log density by particle and parameter.
    fn log_density<'py>(&self, py: Python<'py>, theta: &[u8]) -> PyResult<Bound<'py, PyByteArray>> {
        let of = |each: &Theta| std::array::from_fn(|at| self.0.log_density(at, each[at]));
        let found: Vec<Theta> = particles(theta)?.iter().map(of).collect();
        Ok(bytes(py, found.as_flattened()))
    }
}

fn given(py: Python<'_>, (theta, evidence): Found) -> FoundOf<'_> {
    (bytes(py, theta.as_flattened()), evidence)
}

fn mismatch(error: Mismatch) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn numbers(bytes: &[u8]) -> PyResult<Vec<f64>> {
    let (each, rest) = bytes.as_chunks::<8>();
    match rest.is_empty() {
        true => Ok(each.iter().map(|word| f64::from_ne_bytes(*word)).collect()),
        false => Err(PyValueError::new_err(format!("{} bytes are no float64", bytes.len()))),
    }
}

fn particles(bytes: &[u8]) -> PyResult<Vec<Theta>> {
    let found = numbers(bytes)?;
    let (each, rest) = found.as_chunks::<DIMS>();
    match rest.is_empty() {
        true => Ok(each.to_vec()),
        false => Err(PyValueError::new_err(format!("{} numbers are no particles of {DIMS}", found.len()))),
    }
}

fn bytes<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyByteArray> {
    let found: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    PyByteArray::new(py, &found)
}
