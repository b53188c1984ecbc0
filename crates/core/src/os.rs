//! Clocks of the operating system.

/// A clock that never goes back, in nanoseconds: CLOCK_MONOTONIC.
#[cfg(unix)]
pub fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Wall-clock time in nanoseconds since 1970.
#[cfg(unix)]
pub fn wall_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// As `monotonic_ns`, and it goes on while the machine sleeps: CLOCK_BOOTTIME; elsewhere than on Linux the monotonic
/// clock does so itself.
#[cfg(unix)]
pub fn boot_ns() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    read_clock(CLOCK)
}

#[cfg(unix)]
fn read_clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec and all clock ids exist on every supported system.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// A clock that never goes back, in nanoseconds since this process first asked: the performance counter.
#[cfg(windows)]
pub fn monotonic_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Wall-clock time in nanoseconds since 1970.
#[cfg(windows)]
pub fn wall_ns() -> u64 {
    use std::time::SystemTime;

    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64)
}

/// As `monotonic_ns`: the performance counter goes on while the machine sleeps.
#[cfg(windows)]
pub fn boot_ns() -> u64 {
    monotonic_ns()
}
