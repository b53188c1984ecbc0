//! Whether somebody wants the run to end.

use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Asks for the end; safe within a signal's handler.
pub fn want_end() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Whether the end is wanted.
pub fn end_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}
