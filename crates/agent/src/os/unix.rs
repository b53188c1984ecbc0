//! Linux, and what else has POSIX's calls.

use crate::signals;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

extern "C" fn note(_signal: libc::c_int) {
    signals::want_end();
}

/// From now on Ctrl-C, SIGTERM and SIGHUP only ask for the end.
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

/// A new file that only this user can read.
pub fn create_private(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// A descriptor that whoever started this program opened for it. The error is a clause.
pub fn opened(fd: i32) -> Result<File, String> {
    // SAFETY: the call takes no memory; a descriptor that is not open is an error.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err("that descriptor is not open; write for example 3< FILE behind it".to_string());
    }
    // SAFETY: it is open, the user gave it to this program for this, and nothing else here uses it.
    Ok(unsafe { File::from_raw_fd(fd) })
}
