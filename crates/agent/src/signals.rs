//! Signals that end a run: Ctrl-C, SIGTERM, and the end of the session it was started from.

use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    WANTED.store(true, Ordering::Relaxed);
}

/// From now on these signals only ask for the end.
pub fn listen() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: an action of zeros is one with no flags and an empty mask; the handler only stores to an atomic, and
        // the old action is not wanted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether the end is wanted.
pub fn end_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}
