//! Handles of folders, remembered so that a call on a file needs no walk from the root.
//!
//! All sessions of a target share one memory, and renames and removals of folders by any of them clear what they
//! touch. What others do on the server shows as a stale handle: the session then forgets it and walks again.

use crate::xdr::Handle;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Folders remembered at most; beyond that all are forgotten.
const MOST_FOLDERS: usize = 4096;

#[derive(Default)]
struct Memory {
    known: HashMap<String, Handle>,
    /// Grows with each change, so that a walk begun before it is not remembered after it.
    changes: u64,
}

/// The memory.
#[derive(Default)]
pub(crate) struct Folders {
    memory: Mutex<Memory>,
}

impl Folders {
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A folder's handle, and the state of the memory for `remember`.
    pub fn find(&self, path: &str) -> (Option<Handle>, u64) {
        let memory = self.lock();
        (memory.known.get(path).copied(), memory.changes)
    }

    /// Remembers a handle that was found since `find`, unless something changed in between.
    pub fn remember(&self, path: &str, handle: Handle, changes: u64) {
        let mut memory = self.lock();
        if memory.changes != changes {
            return;
        }
        if memory.known.len() >= MOST_FOLDERS {
            memory.known.clear();
        }
        memory.known.insert(path.to_string(), handle);
    }

    /// Forgets a path and everything below it.
    pub fn forget(&self, path: &str) {
        let mut memory = self.lock();
        memory.changes += 1;
        memory.known.retain(|known, _| {
            !known.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('/'))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_a_folder_and_what_is_below_but_no_namesakes() {
        let folders = Folders::default();
        let handle = Handle::new(&[1]).unwrap();
        for path in ["a", "a/b", "a/b/c", "ab"] {
            let (found, changes) = folders.find(path);
            assert_eq!(found, None);
            folders.remember(path, handle, changes);
        }
        folders.forget("a");
        assert_eq!(folders.find("ab").0, Some(handle));
        for path in ["a", "a/b", "a/b/c"] {
            assert_eq!(folders.find(path).0, None, "{path}");
        }
        let (_, before) = folders.find("x");
        folders.forget("x");
        folders.remember("x", handle, before);
        assert_eq!(folders.find("x").0, None, "renamed while it was looked up");
        folders.forget("");
        assert_eq!(folders.find("ab").0, None);
    }
}
