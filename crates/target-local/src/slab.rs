//! Open files by number: small, dense, reused.

use naslab_core::{Error, ErrorKind, FileId, Result};

/// Values numbered from 0; a number is free again when its value was taken out.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> FileId {
        if let Some(id) = self.free.pop() {
            self.entries[id as usize] = Some(value);
            return FileId(id);
        }
        self.entries.push(Some(value));
        FileId((self.entries.len() - 1) as u32)
    }

    #[inline]
    pub(crate) fn get(&self, id: FileId) -> Option<&T> {
        self.entries.get(id.0 as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: FileId) -> Option<&mut T> {
        self.entries.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn take(&mut self, id: FileId, operation: &'static str) -> Result<T> {
        let slot = self.entries.get_mut(id.0 as usize);
        let value = slot.and_then(Option::take);
        let value = value.ok_or_else(|| not_open(id, operation))?;
        self.free.push(id.0);
        Ok(value)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileId, &T)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(i, value)| Some((FileId(i as u32), value.as_ref()?)))
    }
}

/// The error for a number that names no open file.
pub(crate) fn not_open(id: FileId, operation: &'static str) -> Error {
    Error::new(ErrorKind::Invalid, operation, "no such open file").with("file", id.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_and_wrong_ones_refused() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.take(a, "close").unwrap(), 'a');
        assert!(slab.take(a, "close").is_err());
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b)), (Some(&'c'), Some(&'b')));
        assert_eq!(slab.get(FileId(9)), None);
    }
}
