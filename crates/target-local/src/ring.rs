//! The kernel's side of an io_uring session: set-up, registered files and buffers, entering.

use io_uring::{squeue, types, EnterFlags, IoUring};
use naslab_core::IoBuf;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Registered file slots; files numbered beyond are used through their descriptor.
const FILE_SLOTS: u32 = 1024;
/// Largest registered buffer the kernel takes, in bytes.
const BUFFER_BYTES: usize = 1 << 30;
/// A file slot without a file.
const EMPTY: RawFd = -1;

/// What set-up came to, the worst over all sessions of a target: for its facts. Each number is 0 before
/// the first session has set up.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// 1 + index into [`SETUPS`].
    setup: AtomicU32,
    /// [`REGISTERED`], or that + errno of a refusal.
    files: AtomicU32,
    buffers: AtomicU32,
}

/// A registration that succeeded.
const REGISTERED: u32 = 1;

impl Notes {
    /// Names and values for the result's `target` record; complete once all sessions have run.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let setup = match self.setup.load(Ordering::Relaxed) {
            0 => return Vec::new(),
            number => SETUPS.get(number as usize - 1).unwrap_or(&"plain"),
        };
        let fact = |name: &str, value: String| (name.to_string(), value);
        vec![
            fact("uring_setup", setup.to_string()),
            fact("uring_files", registration(&self.files)),
            fact("uring_buffers", registration(&self.buffers)),
        ]
    }
}

/// What is known of a registration, in words.
fn registration(note: &AtomicU32) -> String {
    match note.load(Ordering::Relaxed) {
        0 => "none".to_string(),
        REGISTERED => "registered".to_string(),
        code => {
            let errno = (code - REGISTERED) as i32;
            let advice = match errno {
                libc::ENOMEM => " (raise the limit of locked memory: ulimit -l)",
                _ => "",
            };
            format!("plain: {}{advice}", io::Error::from_raw_os_error(errno))
        }
    }
}

/// Keeps the outcome of a registration.
fn note<T>(place: &AtomicU32, outcome: &io::Result<T>) {
    let code = match outcome {
        Ok(_) => REGISTERED,
        Err(err) => REGISTERED + err.raw_os_error().unwrap_or(libc::EIO).unsigned_abs(),
    };
    place.fetch_max(code, Ordering::Relaxed);
}

/// Set-ups from best to plainest; kernels before 6.1 and 5.19 refuse the first two.
const SETUPS: [&str; 3] = ["single_issuer defer_taskrun", "coop_taskrun", "plain"];

fn build(entries: u32, setup: usize) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    match setup {
        0 => builder.setup_single_issuer().setup_defer_taskrun().setup_submit_all(),
        1 => builder.setup_coop_taskrun().setup_submit_all(),
        _ => &mut builder,
    };
    builder.build(entries)
}

/// Whether the kernel offers what is used here: rings, and waiting with a time limit (Linux 5.11).
pub(crate) fn offered() -> io::Result<()> {
    let ring = IoUring::new(2)?;
    if !ring.params().is_feature_ext_arg() {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    Ok(())
}

/// Memory registered with the kernel under a number.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: usize,
    end: usize,
}

/// A ring with its registrations.
///
/// With `single_issuer` it belongs to the thread that made it; calls from another fail with EEXIST.
pub(crate) struct Ring {
    ring: IoUring,
    file_slots: u32,
    /// Sorted by address; the index is the kernel's buffer number.
    regions: Vec<Region>,
}

impl Ring {
    /// A ring for `depth` operations. `notes` learns what the kernel refused.
    pub(crate) fn new(depth: u32, notes: &Notes) -> io::Result<Ring> {
        let entries = depth.next_power_of_two().max(2);
        let mut last = io::Error::from_raw_os_error(libc::ENOSYS);
        for setup in 0..SETUPS.len() {
            match build(entries, setup) {
                Ok(ring) => {
                    notes.setup.fetch_max(setup as u32 + 1, Ordering::Relaxed);
                    return Ok(Ring::with_files(ring, notes));
                }
                Err(err) => last = err,
            }
        }
        Err(last)
    }

    fn with_files(ring: IoUring, notes: &Notes) -> Ring {
        let submitter = ring.submitter();
        let registered = submitter
            .register_files_sparse(FILE_SLOTS)
            .or_else(|_| submitter.register_files(&[EMPTY; FILE_SLOTS as usize]));
        note(&notes.files, &registered);
        let file_slots = if registered.is_ok() { FILE_SLOTS } else { 0 };
        Ring { ring, file_slots, regions: Vec::new() }
    }

    /// Puts an open file into the kernel's table. True when operations may name it by its number.
    pub(crate) fn add_file(&self, number: u32, fd: RawFd) -> io::Result<bool> {
        if number >= self.file_slots {
            return Ok(false);
        }
        self.ring.submitter().register_files_update(number, &[fd])?;
        Ok(true)
    }

    /// Takes a file out of the kernel's table, which otherwise keeps it open.
    pub(crate) fn remove_file(&self, number: u32) -> io::Result<()> {
        self.add_file(number, EMPTY).map(drop)
    }

    /// Registers memory; what was registered before is let go. A refusal is noted, and operations use
    /// plain memory then. Err only for a call from a foreign thread.
    ///
    /// # Safety
    /// The memory stays valid until the ring is dropped or this is called again.
    pub(crate) unsafe fn set_buffers(&mut self, memory: &[IoBuf], notes: &Notes) -> io::Result<()> {
        if !self.regions.is_empty() {
            self.ring.submitter().unregister_buffers()?;
            self.regions.clear();
        }
        let regions = pieces(memory);
        if regions.is_empty() {
            return Ok(());
        }
        let vectors: Vec<libc::iovec> = regions
            .iter()
            .map(|region| libc::iovec {
                iov_base: region.start as *mut libc::c_void,
                iov_len: region.end - region.start,
            })
            .collect();
        let registered = self.ring.submitter().register_buffers(&vectors);
        if matches!(&registered, Err(err) if err.raw_os_error() == Some(libc::EEXIST)) {
            return registered;
        }
        note(&notes.buffers, &registered);
        if registered.is_ok() {
            self.regions = regions;
        }
        Ok(())
    }

    /// The kernel's number of the registered memory that holds all of `ptr..ptr + len`.
    #[inline]
    pub(crate) fn buffer_number(&self, ptr: *mut u8, len: u32) -> Option<u16> {
        let (start, end) = (ptr as usize, (ptr as usize).checked_add(len as usize)?);
        let number = match self.regions.len() {
            0 => return None,
            1 => 0,
            _ => self.regions.partition_point(|region| region.start <= start).checked_sub(1)?,
        };
        let region = &self.regions[number];
        (region.start <= start && end <= region.end).then_some(number as u16)
    }

    /// Appends an entry to the submission queue without entering the kernel. False: no room.
    ///
    /// # Safety
    /// The entry's memory stays valid until its completion.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        self.ring.submission().push(entry).is_ok()
    }

    /// Entries the kernel has not taken yet.
    #[inline]
    pub(crate) fn unsubmitted(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Completions that can be had without entering.
    #[inline]
    pub(crate) fn completed(&mut self) -> usize {
        self.ring.completion().len()
    }

    /// The next completion: user data and result.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(u64, i32)> {
        let entry = self.ring.completion().next()?;
        Some((entry.user_data(), entry.result()))
    }

    /// Waits for one completion without submitting anything.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: no argument struct is passed.
        let result = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 1, flags, None) };
        go_on(result)
    }

    /// Submits all entries, runs deferred work and waits for `want` completions or until `timeout` has
    /// passed. Returns early when interrupted; looking at the queue tells what came.
    pub(crate) fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        let queued = self.unsubmitted() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        let submitter = self.ring.submitter();
        let result = match timeout.filter(|_| want > 0) {
            None => {
                // SAFETY: no argument struct is passed.
                unsafe { submitter.enter::<libc::sigset_t>(queued, want as u32, flags, None) }
            }
            Some(limit) => {
                let time = types::Timespec::from(limit);
                let args = types::SubmitArgs::new().timespec(&time);
                let flags = flags | EnterFlags::EXT_ARG.bits();
                // SAFETY: `args` and the time it points to live through the call.
                unsafe { submitter.enter(queued, want as u32, flags, Some(&args)) }
            }
        };
        go_on(result)
    }

    /// Asks the kernel to give up all operations it has; those it cannot give up go on.
    pub(crate) fn cancel_all(&self) {
        let everything = types::CancelBuilder::any();
        let at_once = Some(types::Timespec::new());
        let _ = self.ring.submitter().register_sync_cancel(at_once, everything);
    }
}

/// Lets pass what only says that less came than was waited for: out of time, interrupted, or the
/// kernel wants its completions read first.
fn go_on(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(err) => match err.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(()),
            _ => Err(err),
        },
    }
}

/// The memory in order, neighbours joined, cut to what the kernel takes as one buffer.
fn pieces(memory: &[IoBuf]) -> Vec<Region> {
    let mut spans: Vec<(usize, usize)> =
        memory.iter().filter(|buf| buf.len > 0).map(|buf| (buf.ptr as usize, buf.ptr as usize + buf.len)).collect();
    spans.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    let mut regions = Vec::new();
    for (first, end) in joined {
        let mut start = first;
        while start < end {
            let stop = end.min(start.saturating_add(BUFFER_BYTES));
            regions.push(Region { start, end: stop });
            start = stop;
        }
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buf(start: usize, len: usize) -> IoBuf {
        IoBuf { ptr: start as *mut u8, len }
    }

    fn spans(memory: &[IoBuf]) -> Vec<(usize, usize)> {
        pieces(memory).iter().map(|r| (r.start, r.end)).collect()
    }

    #[test]
    fn neighbours_are_joined_and_giants_cut() {
        assert_eq!(spans(&[]), []);
        assert_eq!(spans(&[buf(8192, 4096), buf(4096, 4096)]), [(4096, 12288)]);
        assert_eq!(spans(&[buf(100, 10), buf(0, 10), buf(50, 0)]), [(0, 10), (100, 110)]);
        let giant = spans(&[buf(0, BUFFER_BYTES + 1)]);
        assert_eq!(giant, [(0, BUFFER_BYTES), (BUFFER_BYTES, BUFFER_BYTES + 1)]);
    }

    #[test]
    fn refused_memory_is_noted_and_not_used() {
        let notes = Notes::default();
        assert!(notes.facts().is_empty());
        let mut ring = match Ring::new(4, &notes) {
            Ok(ring) => ring,
            Err(err) => return println!("SKIP: no io_uring: {err}"),
        };
        let buffers = |notes: &Notes| notes.facts().remove(2).1;
        assert_eq!(buffers(&notes), "none");
        // SAFETY: the kernel refuses an address where nothing is mapped.
        unsafe { ring.set_buffers(&[buf(4096, 4096)], &notes) }.unwrap();
        assert!(buffers(&notes).starts_with("plain: Bad address"));
        assert_eq!(ring.buffer_number(4096 as *mut u8, 1), None);
        let memory = vec![0u8; 8192];
        // SAFETY: the memory lives until the ring is gone.
        unsafe { ring.set_buffers(&[buf(memory.as_ptr() as usize, 8192)], &notes) }.unwrap();
        let first = memory.as_ptr().cast_mut();
        assert_eq!(ring.buffer_number(first, 8192), Some(0));
        assert_eq!(ring.buffer_number(first, 8193), None);
        assert_eq!(ring.buffer_number(first.wrapping_sub(1), 2), None);
        drop(ring);
    }
}
