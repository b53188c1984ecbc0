//! Written bytes held in memory until they are sent on: by the client, or by the server.

use std::collections::VecDeque;

/// Neighbouring writes are sent on together up to this size, in bytes.
const MERGE_BYTES: u64 = 1 << 20;

/// Bytes of one file that wait to be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) file: u32,
    pub(crate) generation: u32,
    pub(crate) session: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Held bytes, in order of arrival, and the operations that wait for room or for a flush.
#[derive(Debug)]
pub(crate) struct WriteBack {
    limit: u64,
    held: u64,
    extents: VecDeque<Extent>,
    waiting: VecDeque<(u32, u64)>,
    /// Flushes that wait until enough of their file is gone.
    pub(crate) flushes: Vec<u32>,
}

impl WriteBack {
    /// Holds up to `limit` bytes; 0 holds none.
    pub(crate) fn new(limit: u64) -> WriteBack {
        WriteBack { limit, held: 0, extents: VecDeque::new(), waiting: VecDeque::new(), flushes: Vec::new() }
    }

    pub(crate) fn on(&self) -> bool {
        self.limit > 0
    }

    /// Bytes held, those under way included.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    fn fits(&self, len: u64) -> bool {
        self.held == 0 || self.held.saturating_add(len) <= self.limit
    }

    /// Whether a write has room now; otherwise `job` is queued for it.
    pub(crate) fn admit(&mut self, job: u32, len: u64) -> bool {
        let now = self.waiting.is_empty() && self.fits(len);
        if !now {
            self.waiting.push_back((job, len));
        }
        now
    }

    /// The next waiting write that has room.
    pub(crate) fn wake(&mut self) -> Option<u32> {
        let (job, len) = *self.waiting.front()?;
        self.fits(len).then(|| {
            self.waiting.pop_front();
            job
        })
    }

    /// Takes an admitted write.
    pub(crate) fn take(&mut self, new: Extent) {
        self.held += new.len;
        if let Some(last) = self.extents.back_mut() {
            let joins = (last.file, last.generation, last.session) == (new.file, new.generation, new.session)
                && last.offset.saturating_add(last.len) == new.offset
                && last.len + new.len <= MERGE_BYTES;
            if joins {
                last.len += new.len;
                return;
            }
        }
        self.extents.push_back(new);
    }

    /// The oldest extent, to be sent on.
    pub(crate) fn next(&mut self) -> Option<Extent> {
        self.extents.pop_front()
    }

    /// An extent of this length is gone.
    pub(crate) fn gone(&mut self, len: u64) {
        self.held = self.held.saturating_sub(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, len: u64) -> Extent {
        Extent { file: 1, generation: 0, session: 0, offset, len }
    }

    #[test]
    fn neighbours_join_up_to_the_limit() {
        let mut wb = WriteBack::new(1 << 30);
        let half = MERGE_BYTES / 2;
        for i in 0..3 {
            wb.take(extent(i * half, half));
        }
        wb.take(extent(10 * half, half));
        let lens: Vec<u64> = std::iter::from_fn(|| wb.next()).map(|e| e.len).collect();
        assert_eq!(lens, [2 * half, half, half]);
    }

    #[test]
    fn waiting_writes_keep_their_order() {
        let mut wb = WriteBack::new(100);
        assert!(wb.admit(1, 80));
        wb.take(extent(0, 80));
        assert!(!wb.admit(2, 50));
        assert!(!wb.admit(3, 10), "a small write does not overtake");
        assert_eq!(wb.wake(), None);
        wb.gone(40);
        assert_eq!(wb.wake(), Some(2));
    }

    #[test]
    fn a_write_above_the_limit_waits_for_an_empty_buffer() {
        let mut wb = WriteBack::new(100);
        assert!(wb.admit(1, 500));
        wb.take(extent(0, 500));
        assert!(!wb.admit(2, 1));
        wb.gone(500);
        assert_eq!(wb.wake(), Some(2));
    }
}
