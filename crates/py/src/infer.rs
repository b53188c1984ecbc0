//! The inference for Python: numbers in and out as bytes of float64, the GIL released.

use naslab_infer::{Columns, Conditions, Mismatch, Model, Scratch, Table, Theta, DIMS};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::collections::HashMap;

/// Rows of a ladder with the table of the model's parameters.
#[pyclass(name = "InferModel", frozen)]
pub(crate) struct PyModel(Model);

#[pymethods]
impl PyModel {
    #[new]
    fn new(
        names: Vec<String>,
        low: Vec<f64>,
        high: Vec<f64>,
        switches: Vec<(String, f64)>,
        columns: HashMap<String, Vec<u8>>,
        conditions: (f64, f64, f64, bool),
        client: Vec<(f64, f64)>,
    ) -> PyResult<PyModel> {
        let table = Table::new(&names, &low, &high, &switches).map_err(mismatch)?;
        let columns: Columns =
            columns.into_iter().map(|(name, bytes)| Ok((name, numbers(&bytes)?))).collect::<PyResult<_>>()?;
        let (nic_bytes_per_s, cpus, cpu_limit, same_machine) = conditions;
        let conditions = Conditions { nic_bytes_per_s, cpus, cpu_limit, same_machine };
        Ok(PyModel(Model::new(table, &columns, conditions, &client).map_err(mismatch)?))
    }

    /// Log rates, (particles, rows).
    fn predict<'py>(&self, py: Python<'py>, theta: &[u8]) -> PyResult<Bound<'py, PyByteArray>> {
        let theta = particles(theta)?;
        let found = py.detach(|| {
            let (rows, mut scratch) = (self.0.rows(), Scratch::default());
            let mut out = vec![0.0; theta.len() * rows];
            for (each, to) in theta.iter().zip(out.chunks_exact_mut(rows.max(1))) {
                self.0.predict(each, &mut scratch, to);
            }
            out
        });
        Ok(bytes(py, &found))
    }

    /// Log likelihood by particle.
    fn log_likelihood<'py>(&self, py: Python<'py>, theta: &[u8]) -> PyResult<Bound<'py, PyByteArray>> {
        let theta = particles(theta)?;
        let found: Vec<f64> = py.detach(|| {
            let mut scratch = Scratch::default();
            theta.iter().map(|each| self.0.log_likelihood(each, f64::NEG_INFINITY, &mut scratch)).collect()
        });
        Ok(bytes(py, &found))
    }
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
