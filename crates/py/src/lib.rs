//! The only crate that knows Python: JSON in, JSON and bytes out.
#![allow(missing_docs)] // the public names are documented in python/naslab/_engine.pyi

mod demo;
mod errors;
mod events;
mod infer;
mod machine;
mod net;
mod run;
mod session;
mod waiting;

use naslab_core::{Clock, Create, ErrorKind, FileStat, OpenOptions, Session};
use naslab_targets as targets;
use pyo3::prelude::*;
use waiting::waiting;

/// What a target is and can do, and the room on it, as JSON.
#[pyfunction]
fn probe(py: Python<'_>, target_json: &str, depth: u32) -> PyResult<String> {
    waiting(py, errors::to_py, || {
        let target = targets::parse(target_json, depth)?;
        Ok(naslab_targets::seam::probe(&*target)?.to_string())
    })
}

/// Shares or exports of a server, as a JSON list.
#[pyfunction]
fn list_exports(py: Python<'_>, target_json: &str) -> PyResult<String> {
    Ok(waiting(py, errors::to_py_raw, || targets::list_exports(target_json))?.to_string())
}

/// Whether an NFS server offers TLS (RFC 9289).
#[pyfunction]
fn offers_tls(py: Python<'_>, target_json: &str) -> PyResult<bool> {
    waiting(py, errors::to_py_raw, || targets::offers_tls(target_json))
}

/// Folders that runs left behind under the target's root, as a JSON list.
#[pyfunction]
fn find_folders(py: Python<'_>, target_json: &str) -> PyResult<String> {
    let found = waiting(py, errors::to_py, || with_session(target_json, naslab_engine::find_folders))?;
    serde_json::to_string(&found).map_err(errors::json)
}

/// Removes a folder that a run left behind; returns what in it naslab did not make.
#[pyfunction]
fn clean(py: Python<'_>, target_json: &str, folder: &str) -> PyResult<Vec<String>> {
    waiting(py, errors::to_py, || with_session(target_json, |session, _| naslab_engine::clean(session, folder)))
}

/// Length and folder flag of a path, or None.
#[pyfunction]
fn stat(py: Python<'_>, target_json: &str, path: &str) -> PyResult<Option<(u64, bool)>> {
    let found = stat_of(py, target_json, path)?;
    Ok(found.map(|stat| (stat.len_bytes, stat.is_dir)))
}

/// What a file takes up on the target, in bytes; None where it is missing or the target does not say.
#[pyfunction]
fn allocated(py: Python<'_>, target_json: &str, path: &str) -> PyResult<Option<u64>> {
    Ok(stat_of(py, target_json, path)?.and_then(|stat| stat.allocated_bytes))
}

fn stat_of(py: Python<'_>, target_json: &str, path: &str) -> PyResult<Option<FileStat>> {
    waiting(py, errors::to_py, || match with_session(target_json, |session, _| session.stat(path)) {
        Err(e) if e.kind == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    })
}

/// Sets a file's length; with `create` the file is made and must not exist yet.
#[pyfunction]
fn set_len(py: Python<'_>, target_json: &str, path: &str, size_bytes: u64, create: bool) -> PyResult<()> {
    let create = if create { Create::New } else { Create::Never };
    waiting(py, errors::to_py, || {
        with_session(target_json, |session, _| {
            let options = OpenOptions { read: true, write: true, create, ..OpenOptions::default() };
            let file = session.open(path, &options)?;
            let resized = session.set_len(file, size_bytes);
            session.close(file)?;
            resized
        })
    })
}

fn with_session<T>(
    target_json: &str,
    work: impl FnOnce(&mut dyn Session, &Clock) -> naslab_core::Result<T>,
) -> naslab_core::Result<T> {
    let target = targets::parse(target_json, 1)?;
    let mut session = target.connect(0)?;
    work(&mut *session, &target.clock())
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::PySession>()?;
    module.add_class::<infer::PyModel>()?;
    module.add_class::<infer::PyGuess>()?;
    module.add_class::<infer::PyForbidden>()?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::open_run, module)?)?;
    module.add_class::<run::PyRun>()?;
    module.add_function(wrap_pyfunction!(waiting::watched, module)?)?;
    module.add_function(wrap_pyfunction!(list_exports, module)?)?;
    module.add_function(wrap_pyfunction!(offers_tls, module)?)?;
    module.add_function(wrap_pyfunction!(probe, module)?)?;
    module.add_function(wrap_pyfunction!(net::net_measure, module)?)?;
    module.add_function(wrap_pyfunction!(net::net_listen, module)?)?;
    module.add_function(wrap_pyfunction!(infer::infer_version, module)?)?;
    module.add_function(wrap_pyfunction!(infer::segment_edges, module)?)?;
    module.add_function(wrap_pyfunction!(machine::memory_rates, module)?)?;
    module.add_function(wrap_pyfunction!(machine::memory_latency_ns, module)?)?;
    module.add_function(wrap_pyfunction!(machine::cipher_speed, module)?)?;
    module.add_function(wrap_pyfunction!(machine::cpu_quota_cores, module)?)?;
    module.add_function(wrap_pyfunction!(allocated, module)?)?;
    module.add_function(wrap_pyfunction!(demo::serve_demo, module)?)?;
    module.add_function(wrap_pyfunction!(find_folders, module)?)?;
    module.add_function(wrap_pyfunction!(clean, module)?)?;
    module.add_function(wrap_pyfunction!(stat, module)?)?;
    module.add_function(wrap_pyfunction!(set_len, module)?)
}
