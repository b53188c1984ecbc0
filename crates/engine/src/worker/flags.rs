//! What the workers of a cell tell one another.

use naslab_core::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Flags shared by the workers of a cell.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// Ctrl-C or a fatal error: stop, keep what was measured.
    pub interrupt: AtomicBool,
    /// Some worker finished and the cell stops with the first.
    pub stonewall: AtomicBool,
    /// The target hangs: come home without what is in flight.
    pub give_up: AtomicBool,
    /// Ctrl-C was a while ago: come home without what is in flight, which is no failure.
    pub cut: AtomicBool,
}

impl Flags {
    /// Why nobody waits for what is in flight, if so.
    pub fn over(&self) -> Option<Error> {
        if self.cut.load(Ordering::Relaxed) {
            let message = "interrupted while operations were outstanding";
            return Some(Error::new(ErrorKind::Interrupted, "reap", message));
        }
        let hangs = self.give_up.load(Ordering::Relaxed);
        hangs.then(|| Error::new(ErrorKind::Timeout, "reap", "outstanding operations did not end"))
    }
}
