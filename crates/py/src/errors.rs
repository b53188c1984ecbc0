//! Engine errors as the classes of python/naslab/errors.py.

use naslab_core::{Error, ErrorKind};
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(naslab.errors, SpecError);
import_exception!(naslab.errors, UsageError);
import_exception!(naslab.errors, TargetError);
import_exception!(naslab.errors, SpaceError);

/// An error with what it says in parts, for Python to put into words: `failure` of its class.
fn in_parts(raised: PyErr, error: &Error) -> PyErr {
    let told = error.told();
    let parts = (told.kind, told.status, told.operation, told.cause, told.facts);
    // An attribute that cannot be set leaves the words of the engine.
    let _ = Python::attach(|py| raised.value(py).setattr("failure", parts));
    raised
}

/// Wrong requests become UsageError (exit 2), failures of the target TargetError (exit 1).
pub(crate) fn to_py(error: Error) -> PyErr {
    let args = (error.to_string(), error.kind.name(), error.status);
    let raised = match error.kind {
        kind if kind.is_of_request() => UsageError::new_err(args.0),
        ErrorKind::NoSpace => SpaceError::new_err(args),
        _ => TargetError::new_err(args),
    };
    in_parts(raised, &error)
}

/// As a TargetError whatever its class: the caller acts on `kind`.
pub(crate) fn to_py_raw(error: Error) -> PyErr {
    in_parts(TargetError::new_err((error.to_string(), error.kind.name(), error.status)), &error)
}

/// A value that cannot be written as JSON.
pub(crate) fn json(error: serde_json::Error) -> PyErr {
    TargetError::new_err((error.to_string(), "io", 0))
}
