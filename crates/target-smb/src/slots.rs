//! Outstanding operations: an operation may travel in several parts and ends when all have ended.

use crate::link::Finished;
use crate::status;
use crate::window::Kind;
use naslab_core::{Completion, ErrorKind, IoBuf, Op, OpError, OpKind, Token};
use std::ops::{Index, IndexMut};

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub token: Token,
    pub kind: OpKind,
    pub file: u32,
    pub offset_bytes: u64,
    pub buf: IoBuf,
    /// Bytes (of a flush: handles) that were asked about, and how many there are.
    pub sent: u32,
    pub end: u32,
    /// Parts without an answer.
    pub outstanding: u32,
    /// It is in the line of those that wait for credits.
    pub waits: bool,
    /// Bytes from the start that were moved without a gap.
    reach: u32,
    error: Option<OpError>,
}

impl Slot {
    pub fn new(op: &Op, buf: IoBuf, token: Token, end: u32) -> Slot {
        Slot {
            token,
            kind: op.kind,
            file: op.file.0,
            offset_bytes: op.offset_bytes,
            buf,
            sent: 0,
            end,
            outstanding: 0,
            waits: false,
            reach: end,
            error: None,
        }
    }

    fn take(&mut self, part: &Finished) {
        self.outstanding -= 1;
        let ended = part.status == status::END_OF_FILE && part.kind == Kind::Read;
        if part.status == status::SUCCESS && part.bytes == part.len {
            return;
        }
        if part.status == status::SUCCESS || ended {
            self.reach = self.reach.min(part.at + part.bytes);
            let short = OpError { kind: ErrorKind::Short, status: i64::from(part.status) };
            self.error.get_or_insert(short);
        } else {
            self.reach = 0;
            let failed = status::op_error(part.status);
            match self.error {
                Some(known) if known.kind != ErrorKind::Short => {}
                _ => self.error = Some(failed),
            }
        }
        // What was not sent yet is not needed any more.
        self.end = self.sent;
    }

    fn completion(&self) -> Completion {
        let bytes = if self.kind == OpKind::Flush { 0 } else { self.reach };
        Completion { token: self.token, bytes, error: self.error }
    }
}

/// All operations in flight.
#[derive(Default)]
pub(crate) struct Slots {
    list: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// How many are in flight.
    #[inline]
    pub fn busy(&self) -> usize {
        self.list.len() - self.free.len()
    }

    #[inline]
    pub fn add(&mut self, slot: Slot) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.list[at as usize] = slot;
                at
            }
            None => {
                self.list.push(slot);
                self.list.len() as u32 - 1
            }
        }
    }

    /// Takes the end of a part; the completion if it was the last.
    #[inline]
    pub fn finish(&mut self, part: &Finished) -> Option<Completion> {
        let slot = &mut self.list[part.slot as usize];
        slot.take(part);
        if slot.outstanding > 0 || slot.waits || slot.sent < slot.end {
            return None;
        }
        let done = slot.completion();
        self.free.push(part.slot);
        Some(done)
    }

    /// Ends an operation that left the line with nothing more to send or to wait for.
    pub fn finish_idle(&mut self, at: u32) -> Option<Completion> {
        let slot = &self.list[at as usize];
        if slot.outstanding > 0 || slot.waits || slot.sent < slot.end {
            return None;
        }
        let done = slot.completion();
        self.free.push(at);
        Some(done)
    }
}

impl Index<u32> for Slots {
    type Output = Slot;
    fn index(&self, at: u32) -> &Slot {
        &self.list[at as usize]
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, at: u32) -> &mut Slot {
        &mut self.list[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use naslab_core::FileId;

    fn slots(len_bytes: u32, parts: u32) -> Slots {
        let op = Op { kind: OpKind::Read, file: FileId(0), offset_bytes: 0, len_bytes, due_ns: None };
        let mut slots = Slots::default();
        let at = slots.add(Slot::new(&op, IoBuf::empty(), 9, len_bytes));
        slots[at].sent = len_bytes;
        slots[at].outstanding = parts;
        slots
    }

    fn part(at: u32, len: u32, status: u32, bytes: u32) -> Finished {
        Finished { slot: 0, kind: Kind::Read, at, len, status, bytes }
    }

    #[test]
    fn an_operation_ends_with_its_last_part() {
        let mut slots = slots(300, 3);
        assert_eq!(slots.finish(&part(200, 100, 0, 100)), None);
        assert_eq!(slots.finish(&part(0, 100, 0, 100)), None);
        let done = slots.finish(&part(100, 100, 0, 100)).unwrap();
        assert_eq!((done.token, done.bytes, done.error, slots.busy()), (9, 300, None, 0));
    }

    #[test]
    fn the_end_of_the_file_is_where_the_first_gap_is() {
        let mut slots = slots(300, 3);
        slots.finish(&part(200, 100, status::END_OF_FILE, 0));
        slots.finish(&part(100, 100, 0, 40));
        let done = slots.finish(&part(0, 100, 0, 100)).unwrap();
        assert_eq!((done.bytes, done.error.unwrap().kind), (140, ErrorKind::Short));
    }

    #[test]
    fn a_failure_outweighs_a_short_part() {
        let mut slots = slots(200, 2);
        slots.finish(&part(100, 100, status::END_OF_FILE, 0));
        let done = slots.finish(&part(0, 100, status::ACCESS_DENIED, 0)).unwrap();
        let error = done.error.unwrap();
        assert_eq!((done.bytes, error.kind, error.status), (0, ErrorKind::Permission, 0xC000_0022));
    }
}
