//! How long the calls of this thread may take, and who may end them sooner.
//!
//! A server that answers drop by drop, or never comes to the end of a list, stretches a chain of waits although each
//! of them is bounded. A call on a session therefore opens a [`Scope`]: all that this thread waits for until it is
//! dropped shares one deadline. [`watched`] says who is asked meanwhile whether anybody still wants the answer. Both
//! belong to the thread; protocol clients ask for them with [`check`] in each wait that lasts, and once for each page
//! of a list, but never for an operation whose answer comes at once. Real time only.

use crate::{Error, ErrorKind, Result};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A deadline, and the limit it came from.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    limit: Duration,
}

type Ask = Rc<dyn Fn() -> bool>;

thread_local! {
    static DEADLINE: Cell<Option<Deadline>> = const { Cell::new(None) };
    static TIMED: Cell<bool> = const { Cell::new(false) };
    static CAP: Cell<Option<Duration>> = const { Cell::new(None) };
    static WATCH: RefCell<Option<Ask>> = const { RefCell::new(None) };
}

/// Ends with [`within`]'s deadline when it is dropped. Belongs to its thread.
#[must_use = "the deadline holds until this is dropped"]
pub struct Scope {
    before: Option<Deadline>,
    thread: PhantomData<*const ()>,
}

/// From now on this thread's waits end after `limit`, or with the scope around this one if that ends earlier.
pub fn within(limit: Duration) -> Scope {
    let limit = CAP.get().map_or(limit, |cap| cap.min(limit));
    let before = DEADLINE.get();
    let own = Deadline { at: Instant::now() + limit, limit };
    DEADLINE.set(Some(before.filter(|b| b.at <= own.at).unwrap_or(own)));
    Scope { before, thread: PhantomData }
}

impl Drop for Scope {
    fn drop(&mut self) {
        DEADLINE.set(self.before);
    }
}

/// Time left of the scope this thread is in; `None` outside of one.
pub fn left() -> Option<Duration> {
    DEADLINE.get().map(|deadline| deadline.at.saturating_duration_since(Instant::now()))
}

/// Carries out `work`, each scope within it no longer than `cap`: for a server that has been silent already.
pub fn capped<T>(cap: Duration, work: impl FnOnce() -> T) -> T {
    let before = CAP.replace(Some(cap));
    let done = work();
    CAP.set(before);
    done
}

/// Carries out `work`, whose waits end soon after `ask` answers that nobody wants the outcome any more. `ask` may be
/// called every few milliseconds.
pub fn watched<T>(ask: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    let before = WATCH.replace(Some(Rc::new(ask)));
    let done = work();
    WATCH.set(before);
    done
}

/// Carries out `work`, whose calls are being timed if `timed`: nobody may add a wait of his own, such as the one before a
/// server that is busy is asked again. A refusal is then the call's result.
pub fn timed<T>(timed: bool, work: impl FnOnce() -> T) -> T {
    let before = TIMED.replace(timed);
    let done = work();
    TIMED.set(before);
    done
}

/// Whether the calls of this thread are being timed.
pub fn is_timed() -> bool {
    TIMED.get()
}

/// An `Interrupted` error when nobody wants the outcome any more, a `Timeout` one past the scope's deadline.
pub fn check(operation: &'static str) -> Result<()> {
    let ask = WATCH.with_borrow(Clone::clone);
    if ask.is_some_and(|ask| ask()) {
        return Err(Error::new(ErrorKind::Interrupted, operation, "interrupted while waiting for the server"));
    }
    match DEADLINE.get() {
        Some(Deadline { at, limit }) if Instant::now() >= at => Err(late(operation, limit)),
        _ => Ok(()),
    }
}

fn late(operation: &'static str, limit: Duration) -> Error {
    let message = format!("no complete answer from the server within {} s", limit.as_secs_f64());
    Error::new(ErrorKind::Timeout, operation, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn the_earlier_deadline_holds_and_ends_with_its_scope() {
        assert!(left().is_none() && check("a").is_ok());
        let outer = within(Duration::ZERO);
        let inner = within(LONG);
        assert_eq!(left(), Some(Duration::ZERO));
        let error = check("readdir").unwrap_err();
        assert_eq!((error.kind, error.operation), (ErrorKind::Timeout, "readdir"));
        drop(inner);
        assert!(check("a").is_err());
        drop(outer);
        assert!(left().is_none() && check("a").is_ok());
    }

    #[test]
    fn a_cap_shortens_scopes_within_it() {
        capped(Duration::ZERO, || {
            let _scope = within(LONG);
            assert!(check("a").is_err());
        });
        let _scope = within(LONG);
        assert!(check("a").is_ok());
    }

    #[test]
    fn whoever_watches_ends_the_waits() {
        let over = Rc::new(Cell::new(false));
        let asked = over.clone();
        watched(
            move || asked.get(),
            || {
                assert!(check("a").is_ok());
                over.set(true);
                assert_eq!(check("a").unwrap_err().kind, ErrorKind::Interrupted);
            },
        );
        assert!(check("a").is_ok());
    }
}
