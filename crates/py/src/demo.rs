//! The demo server for Python.

use crate::errors;
use naslab_core::{Error, ErrorKind};
use naslab_demo_server::Server;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Serves a folder with NFS 3 until the process ends; calls `on_ready` with the port first.
#[pyfunction]
pub(crate) fn serve_demo(py: Python<'_>, folder: PathBuf, port: u16, on_ready: &Bound<'_, PyAny>) -> PyResult<()> {
    let failed = |error: std::io::Error| {
        errors::to_py(Error::new(ErrorKind::Invalid, "demo server", format!("{}: {error}", folder.display())))
    };
    let server = Server::bind(&folder, port).map_err(failed)?;
    on_ready.call1((server.port().map_err(failed)?,))?;
    py.detach(|| server.serve());
    Ok(())
}
