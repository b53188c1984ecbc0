//! Windows.

use crate::signals;
use std::fs::File;
use std::path::Path;
use windows_sys::core::BOOL;
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;

/// "I have dealt with it": the system does not end the program.
const HANDLED: BOOL = 1;

unsafe extern "system" fn note(_event: u32) -> BOOL {
    signals::want_end();
    HANDLED
}

/// From now on Ctrl-C, Ctrl-Break and a closed window only ask for the end.
pub fn listen() {
    // SAFETY: the handler only stores to an atomic.
    unsafe { SetConsoleCtrlHandler(Some(note), HANDLED) };
}

/// A new file; in the user's own folder for temporary files nobody else can read it.
pub fn create_private(path: &Path) -> std::io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Windows hands no descriptors on. The error is a clause.
pub fn opened(_fd: i32) -> Result<File, String> {
    Err("Windows hands no descriptors on; put the password into the variable NASLAB_PASSWORD".to_string())
}
