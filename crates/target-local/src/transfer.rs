//! Moving one record through a call that may move less.

use naslab_core::{ErrorKind, OpError};
use rustix::io::Errno;

/// What an operation moved, and why it stopped short.
pub(crate) type Moved = (u32, Option<OpError>);

/// The end of the file came before the end of the record.
pub(crate) const SHORT: OpError = OpError { kind: ErrorKind::Short, status: 0 };

/// A call that broke a rule of the seam: unknown file, or a buffer smaller than the operation.
pub(crate) const INVALID: OpError = OpError { kind: ErrorKind::Invalid, status: libc::EINVAL as i64 };

/// Repeats `call(bytes done so far)` until `len` bytes have moved. A short count is followed by a call
/// for the rest, an interrupted call by itself; zero is the end of the file.
#[inline]
pub(crate) fn whole(len: u32, mut call: impl FnMut(usize) -> Result<usize, Errno>) -> Moved {
    let want = len as usize;
    let mut done = 0;
    while done < want {
        match call(done) {
            Ok(0) => return (done as u32, Some(SHORT)),
            Ok(moved) => done += moved,
            Err(Errno::INTR) => {}
            Err(errno) => return (done as u32, Some(failure(errno.raw_os_error(), done))),
        }
    }
    (len, None)
}

/// The error for errno after `done` bytes. Unbuffered reads end a file of odd length with a short count
/// and then refuse the odd offset where the rest would be: that is the end of the file too.
pub(crate) fn failure(errno: i32, done: usize) -> OpError {
    if errno == libc::EINVAL && done > 0 {
        return SHORT;
    }
    OpError::from_errno(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_counts_are_continued_and_zero_ends() {
        let mut steps = [3, 5, 2].into_iter();
        assert_eq!(whole(10, |_| Ok(steps.next().unwrap())), (10, None));
        let mut steps = [Ok(3), Err(Errno::INTR), Ok(0)].into_iter();
        assert_eq!(whole(10, |_| steps.next().unwrap()), (3, Some(SHORT)));
        assert_eq!(whole(0, |_| unreachable!()), (0, None));
    }
}
