//! The io_uring session.
use crate::posix::PosixSession;
use crate::tree::Tree;
use std::sync::Arc;

/// Set-up notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {}

impl Notes {
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Whether the kernel offers io_uring.
pub(crate) fn offered() -> std::io::Result<()> {
    Err(std::io::Error::from_raw_os_error(libc::ENOSYS))
}

pub(crate) struct UringSession;
impl UringSession {
    pub(crate) fn new(tree: Tree, _depth: u32, _notes: Arc<Notes>) -> PosixSession {
        PosixSession::new(tree)
    }
}
