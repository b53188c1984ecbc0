//! A thread that shall begin at a given time although others want its processor.

/// The shortest slice that Linux grants, in nanoseconds.
const SHORTEST_NS: u64 = 100_000;

/// While it lives, this thread is let on a processor before others that became ready with it.
///
/// A thread with a short slice has an early deadline (EEVDF), and preempts one in the middle of a long slice. Linux 6.12
/// and later grant one to anybody (sched_setattr(2), `sched_runtime` of an ordinary thread); earlier ones ignore it, and
/// where a sandbox forbids the call nothing changes.
pub(crate) struct Prompt {
    before_ns: Option<u64>,
}

impl Prompt {
    /// Of the calling thread, which must also drop it.
    pub fn new() -> Prompt {
        Prompt { before_ns: exchange_slice(SHORTEST_NS) }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some(before_ns) = self.before_ns {
            exchange_slice(before_ns);
        }
    }
}

/// Sets the calling thread's slice; what it was. None for a thread that real-time rules schedule, or when refused.
fn exchange_slice(slice_ns: u64) -> Option<u64> {
    let mut attr = attributes()?;
    if attr.sched_policy != libc::SCHED_OTHER as u32 {
        return None;
    }
    let before_ns = std::mem::replace(&mut attr.sched_runtime, slice_ns);
    // SAFETY: the kernel reads `size` bytes of `attr`, which is that large.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attr, 0) };
    (done == 0).then_some(before_ns)
}

fn attributes() -> Option<libc::sched_attr> {
    let size = std::mem::size_of::<libc::sched_attr>() as u32;
    // SAFETY: `sched_attr` is plain data, and the kernel writes at most `size` bytes of it.
    unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        let done = libc::syscall(libc::SYS_sched_getattr, 0, &mut attr, size, 0);
        attr.size = size;
        (done == 0).then_some(attr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slice_is_what_it_was_before() {
        let slice_ns = || attributes().map(|attr| attr.sched_runtime);
        let before_ns = slice_ns();
        let prompt = Prompt::new();
        let granted = prompt.before_ns.is_some() && before_ns != Some(0);
        if granted {
            assert_eq!(slice_ns(), Some(SHORTEST_NS));
        }
        drop(prompt);
        assert_eq!(slice_ns(), before_ns);
    }
}
