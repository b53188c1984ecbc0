//! Numbers that no other session draws, in this process or in another.

use std::hash::{BuildHasher, Hasher};

/// A number that differs from run to run, from session to session, and between processes forked from one.
///
/// A server that has seen the same transaction number from the same address and port takes a call for a repeated one,
/// and drops it or answers it from its cache (RFC 1813, section 4.3.2): the sessions of workers that were forked from
/// one process must not begin with the same number.
pub fn chance() -> u64 {
    let mut out = [0; 8];
    match getrandom::fill(&mut out) {
        Ok(()) => u64::from_ne_bytes(out),
        Err(_) => {
            // No generator of the system's: the keys of the hash survive a fork, the process number does not.
            let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
            hasher.write_u32(std::process::id());
            hasher.finish()
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::chance;

    #[test]
    fn a_forked_process_draws_other_numbers() {
        let before = chance();
        let mut ends = [0; 2];
        // SAFETY: the array has room for both descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the child only draws a number, writes it and ends; it touches no lock of another thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let drawn = chance().to_ne_bytes();
            // SAFETY: eight bytes that live as long as the call; the process ends at once.
            unsafe {
                libc::write(ends[1], drawn.as_ptr().cast(), drawn.len());
                libc::_exit(0);
            }
        }
        let mine = chance();
        let mut theirs = [0; 8];
        // SAFETY: room for eight bytes; the child is ours and is waited for.
        unsafe {
            assert_eq!(libc::read(ends[0], theirs.as_mut_ptr().cast(), theirs.len()), 8);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
        let theirs = u64::from_ne_bytes(theirs);
        assert!(theirs != mine && theirs != before && mine != before);
    }
}
