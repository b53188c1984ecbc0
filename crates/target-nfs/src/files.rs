//! Open files of a session.

use crate::xdr::Handle;
use naslab_core::{Error, ErrorKind, FileId, Result, SyncMode};

/// How durable a write must be before it is acknowledged (stable_how). More is a larger number.
pub(crate) mod stable {
    pub const UNSTABLE: u32 = 0;
    pub const DATA_SYNC: u32 = 1;
    pub const FILE_SYNC: u32 = 2;
}

/// A write's stable_how for a durability.
pub(crate) fn stable_how(sync: SyncMode) -> u32 {
    match sync {
        SyncMode::None => stable::UNSTABLE,
        SyncMode::Data => stable::DATA_SYNC,
        SyncMode::All | SyncMode::ReadsToo => stable::FILE_SYNC,
    }
}

/// Number and owner-given part of an open's state, as on the wire. Zeroes in NFS 3, which knows no opens.
pub(crate) type StateId = [u8; 16];

/// One open file.
#[derive(Clone, Debug)]
pub(crate) struct OpenFile {
    pub handle: Handle,
    pub state: StateId,
    /// What writes ask for.
    pub stable: u32,
    /// Verifier of the uncommitted writes.
    pub verifier: Option<[u8; 8]>,
    /// The verifier changed while writes were uncommitted.
    pub lost: bool,
    /// Some writes were acknowledged as durable already.
    pub wrote_durably: bool,
}

impl OpenFile {
    /// Whether there were writes, and none of them awaits a commit.
    pub fn is_durable(&self) -> bool {
        self.wrote_durably && self.verifier.is_none() && !self.lost
    }

    /// Notes an uncommitted write's verifier; true when it shows that the server restarted.
    #[inline]
    pub fn wrote(&mut self, verifier: [u8; 8]) -> bool {
        match self.verifier {
            None => self.verifier = Some(verifier),
            Some(known) if known == verifier => {}
            Some(_) => {
                self.verifier = Some(verifier);
                return !std::mem::replace(&mut self.lost, true);
            }
        }
        false
    }

    /// Notes a commit's verifier: whether all that was written until then is durable, and whether the change is new.
    pub fn committed(&mut self, verifier: [u8; 8]) -> (bool, bool) {
        let differs = self.verifier.take().is_some_and(|known| known != verifier);
        let known = std::mem::replace(&mut self.lost, false);
        (!(differs || known), differs && !known)
    }
}

/// Open files by number, reused.
#[derive(Default)]
pub(crate) struct Files {
    table: Vec<Option<OpenFile>>,
}

impl Files {
    /// The number that the next file will get.
    pub fn next(&self) -> u32 {
        self.table.iter().position(Option::is_none).unwrap_or(self.table.len()) as u32
    }

    /// Adds a file under the number that `next` gave.
    pub fn insert(&mut self, at: u32, file: OpenFile) -> FileId {
        if at as usize == self.table.len() {
            self.table.push(None);
        }
        self.table[at as usize] = Some(file);
        FileId(at)
    }

    /// A file, if it is open.
    #[inline]
    pub fn get(&mut self, at: u32) -> Option<&mut OpenFile> {
        self.table.get_mut(at as usize)?.as_mut()
    }

    /// The same without changing it.
    pub fn find(&self, at: u32) -> Option<&OpenFile> {
        self.table.get(at as usize)?.as_ref()
    }

    /// A file that must be open.
    pub fn open(&mut self, operation: &'static str, file: FileId) -> Result<&mut OpenFile> {
        self.get(file.0).ok_or_else(|| Error::new(ErrorKind::Invalid, operation, "this file is not open"))
    }

    /// Takes one out.
    pub fn remove(&mut self, file: FileId) -> Option<OpenFile> {
        self.table.get_mut(file.0 as usize)?.take()
    }

    /// Takes all out, with their numbers.
    pub fn take_all(&mut self) -> Vec<(u32, OpenFile)> {
        let all = std::mem::take(&mut self.table);
        all.into_iter().enumerate().filter_map(|(at, file)| Some((at as u32, file?))).collect()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.table.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OpenFile {
        OpenFile {
            handle: Handle::new(&[1]).unwrap(),
            state: [0; 16],
            stable: stable::UNSTABLE,
            verifier: None,
            lost: false,
            wrote_durably: false,
        }
    }

    #[test]
    fn a_changed_verifier_is_noticed_once_and_fails_the_commit() {
        let mut steady = file();
        assert!(!steady.wrote([1; 8]) && !steady.wrote([1; 8]));
        assert_eq!(steady.committed([1; 8]), (true, false));
        assert_eq!(steady.committed([2; 8]), (true, false), "nothing was uncommitted");

        let mut between_writes = file();
        assert!(!between_writes.wrote([1; 8]));
        assert!(between_writes.wrote([2; 8]));
        assert!(!between_writes.wrote([3; 8]), "counted once until the commit");
        assert_eq!(between_writes.committed([3; 8]), (false, false));
        assert_eq!(between_writes.committed([3; 8]), (true, false), "the next round begins clean");

        let mut before_commit = file();
        before_commit.wrote([1; 8]);
        assert_eq!(before_commit.committed([2; 8]), (false, true));
    }

    #[test]
    fn numbers_are_reused() {
        let mut files = Files::default();
        let (a, b) = (files.next(), 1);
        let first = files.insert(a, file());
        files.insert(b, file());
        assert!(files.remove(first).is_some() && files.remove(first).is_none());
        assert_eq!(files.next(), 0);
        assert!(files.open("close", FileId(0)).is_err() && files.open("close", FileId(9)).is_err());
        assert!(!files.is_empty());
    }
}
