//! Calls on a target from Python: the GIL released, Ctrl-C heard while a server is waited for.

use naslab_core::{limit, Error, Result};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    /// What is asked, besides signals, while calls of this thread wait.
    static ASK: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

/// Calls `work`, and returns what it does. `ask` is called now and then while a call on a target waits within it, and
/// what it raises ends the wait: for threads, which hear no signals, and for processes that others end.
#[pyfunction]
pub(crate) fn watched(ask: Py<PyAny>, work: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let before = ASK.replace(Some(ask));
    let done = work.call0();
    ASK.set(before);
    done.map(Bound::unbind)
}

/// Does `work` without the GIL. What a signal's handler raises meanwhile ends its waits and is raised here; only Python's
/// main thread hears of signals, and any within [`watched`] of what that asks.
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
        *raised = Python::attach(asked).err();
    }
    raised.is_some()
}

fn asked(py: Python<'_>) -> PyResult<()> {
    py.check_signals()?;
    let ask = ASK.with_borrow(|ask| ask.as_ref().map(|ask| ask.clone_ref(py)));
    ask.map_or(Ok(()), |ask| ask.call0(py).map(drop))
}
