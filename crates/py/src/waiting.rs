//! Calls on a target from Python: the GIL released, Ctrl-C heard while a server is waited for.

use naslab_core::{limit, Error, Result};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Does `work` without the GIL. What a signal's handler raises meanwhile ends its waits and is raised here; only Python's
/// main thread hears of signals.
pub(crate) fn waiting<T: Send>(
    py: Python<'_>,
    to_py: fn(Error) -> PyErr,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let (done, raised) = py.detach(|| {
        let raised: Rc<RefCell<Option<PyErr>>> = Rc::default();
        let seen = raised.clone();
        let done = limit::watched(move || is_unwanted(&seen), work);
        (done, raised.take())
    });
    match raised {
        Some(error) => Err(error),
        None => done.map_err(to_py),
    }
}

fn is_unwanted(raised: &RefCell<Option<PyErr>>) -> bool {
    let mut raised = raised.borrow_mut();
    if raised.is_none() {
        *raised = Python::attach(|py| py.check_signals()).err();
    }
    raised.is_some()
}
