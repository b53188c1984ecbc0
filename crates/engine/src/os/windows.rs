//! Windows.

use std::fs::File;
use std::io;
use std::os::windows::fs::FileExt;
use windows_sys::Win32::Foundation::{FILETIME, HANDLE};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetCurrentThread, GetProcessTimes, GetThreadTimes};

/// Of a time of the system's, in nanoseconds.
const UNIT_NS: u64 = 100;
type Times = unsafe extern "system" fn(HANDLE, *mut FILETIME, *mut FILETIME, *mut FILETIME, *mut FILETIME) -> i32;

/// CPU time of this process in nanoseconds: (in programs, in the kernel for them).
pub(crate) fn process_times() -> (u64, u64) {
    // SAFETY: the call has no conditions and cannot fail.
    times(GetProcessTimes, unsafe { GetCurrentProcess() })
}

/// The same of its children that ended: Windows keeps no sum.
pub(crate) fn children_times() -> (u64, u64) {
    (0, 0)
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    // SAFETY: the call has no conditions and cannot fail.
    let (user_ns, system_ns) = times(GetThreadTimes, unsafe { GetCurrentThread() });
    user_ns + system_ns
}

fn times(ask: Times, whose: HANDLE) -> (u64, u64) {
    let mut found = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [created, ended, kernel, user] = &mut found;
    // SAFETY: the handle is a pseudo handle of the caller's, and the four times are writable.
    unsafe { ask(whose, created, ended, kernel, user) };
    let ns = |t: &FILETIME| (u64::from(t.dwHighDateTime) << 32 | u64::from(t.dwLowDateTime)) * UNIT_NS;
    (ns(user), ns(kernel))
}

/// The unit of CPU times in /proc, which is not there.
pub(crate) fn ticks_per_s() -> Option<u64> {
    None
}

/// Reads all of `into` from a place in a file.
pub(crate) fn read_exact_at(file: &File, mut into: &mut [u8], mut offset_bytes: u64) -> io::Result<()> {
    while !into.is_empty() {
        match file.seek_read(into, offset_bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(taken) => {
                into = &mut into[taken..];
                offset_bytes += taken as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
