//! A thread that shall begin at a given time although others want its processor.

/// The shortest slice that Linux grants, in nanoseconds.
const SHORTEST_NS: u64 = 100_000;

/// While it lives, this thread is let on a processor before others that became ready with it.
///
/// Where the process may (root, CAP_SYS_NICE, RLIMIT_RTPRIO), it goes before all ordinary threads (SCHED_FIFO, at the
/// lowest priority). Elsewhere it gets a short slice: such a thread has an early deadline (EEVDF), and preempts one in
/// the middle of a long slice. Linux 6.12 and later grant that to anybody (sched_setattr(2), `sched_runtime` of an
/// ordinary thread); earlier ones ignore it, and where a sandbox forbids the call nothing changes.
pub(crate) struct Prompt {
    before: Option<libc::sched_attr>,
}

impl Prompt {
    /// Of the calling thread, which must also drop it. A thread that other rules schedule already keeps them.
    pub fn new() -> Prompt {
        let ordinary = attributes().filter(|attr| attr.sched_policy == libc::SCHED_OTHER as u32);
        let granted = ordinary.filter(|attr| set(&first(*attr)) || set(&short(*attr)));
        Prompt { before: granted }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set(before);
        }
    }
}

fn first(mut attr: libc::sched_attr) -> libc::sched_attr {
    attr.sched_policy = libc::SCHED_FIFO as u32;
    attr.sched_priority = 1;
    attr
}

fn short(mut attr: libc::sched_attr) -> libc::sched_attr {
    attr.sched_runtime = SHORTEST_NS;
    attr
}

/// Whether the calling thread is scheduled so from now on.
fn set(attr: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads `size` bytes of `attr`, which is that large.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, attr, 0) == 0 }
}

/// How the calling thread is scheduled.
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

    fn told() -> Option<(u32, i32, u32, u64)> {
        attributes().map(|attr| (attr.sched_policy, attr.sched_nice, attr.sched_priority, attr.sched_runtime))
    }

    #[test]
    fn the_thread_is_scheduled_afterwards_as_before() {
        let before = told();
        let prompt = Prompt::new();
        let granted = prompt.before.is_some();
        let within = told();
        drop(prompt);
        assert_eq!(told(), before);
        if granted {
            let (policy, _, priority, slice_ns) = within.expect("it was told before");
            let first = policy == libc::SCHED_FIFO as u32 && priority == 1;
            assert!(first || slice_ns == SHORTEST_NS || before.is_some_and(|told| told.3 == 0), "{within:?}");
        }
    }

    #[test]
    fn a_short_slice_is_asked_for_and_given_back() {
        let Some(attr) = attributes() else { return };
        if attr.sched_runtime > 0 && set(&short(attr)) {
            assert_eq!(told().map(|told| told.3), Some(SHORTEST_NS));
            assert!(set(&attr));
            assert_eq!(told().map(|told| told.3), Some(attr.sched_runtime));
        }
    }
}
