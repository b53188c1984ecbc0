//! Calls without a reply yet, the operations they belong to, and the slots of a session.

use crate::security::Stamp;
use naslab_core::{OpError, OpKind, Token};

/// Mark of a call that uses no slot.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The entry is free.
    Free,
    /// Part of an operation.
    Data(OpKind),
    /// A set-up or metadata call, whose caller waits.
    Control,
}

/// One part of an operation: what fits in one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub kind: OpKind,
    pub op: u32,
    pub file: u32,
    pub offset_bytes: u64,
    pub ptr: *mut u8,
    pub len: u32,
}

// SAFETY: the pointer is only an address here; who follows it answers for it, as for `IoBuf`.
unsafe impl Send for Piece {}

/// A call on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub purpose: Purpose,
    pub xid: u32,
    pub link: u32,
    pub slot: u32,
    /// Its number in a context, where one carries it.
    pub stamp: Stamp,
    /// Position in the link's outgoing bytes after it.
    pub end: u64,
    pub piece: Piece,
}

const NO_PIECE: Piece =
    Piece { kind: OpKind::Flush, op: 0, file: 0, offset_bytes: 0, ptr: std::ptr::null_mut(), len: 0 };
const FREE: Call =
    Call { purpose: Purpose::Free, xid: 0, link: 0, slot: NO_SLOT, stamp: Stamp::NONE, end: 0, piece: NO_PIECE };

/// Outstanding calls by xid. An xid's low bits are its place, so that finding one costs nothing.
pub(crate) struct Calls {
    table: Vec<Call>,
    next_xid: u32,
    outstanding: usize,
}

impl Calls {
    /// Room for so many calls and some more; xids begin at `first_xid`.
    pub fn new(most: usize, first_xid: u32) -> Calls {
        let size = (2 * (most + 8)).next_power_of_two();
        Calls { table: vec![FREE; size], next_xid: first_xid, outstanding: 0 }
    }

    fn place(&self, xid: u32) -> usize {
        xid as usize & (self.table.len() - 1)
    }

    /// Calls without a reply.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The xid of the next call: the next number whose place is free.
    #[inline]
    pub fn take_xid(&mut self) -> u32 {
        loop {
            let xid = self.next_xid;
            self.next_xid = self.next_xid.wrapping_add(1);
            if self.table[self.place(xid)].purpose == Purpose::Free {
                return xid;
            }
        }
    }

    /// Remembers a call under the xid it got.
    #[inline]
    pub fn insert(&mut self, call: Call) {
        let at = self.place(call.xid);
        self.table[at] = call;
        self.outstanding += 1;
    }

    /// Remembers a call that moves no data.
    pub fn insert_control(&mut self, xid: u32, link: u32, end: u64, stamp: Stamp) {
        self.insert(Call { purpose: Purpose::Control, xid, link, end, stamp, ..FREE });
    }

    /// The call that a reply on this link is for.
    #[inline]
    pub fn find(&self, xid: u32, link: u32) -> Option<Call> {
        let call = self.table[self.place(xid)];
        (call.purpose != Purpose::Free && call.xid == xid && call.link == link).then_some(call)
    }

    /// Forgets a call whose reply came.
    #[inline]
    pub fn remove(&mut self, xid: u32) {
        let at = self.place(xid);
        self.table[at].purpose = Purpose::Free;
        self.outstanding -= 1;
    }
}

/// An operation that was submitted and not completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub token: Token,
    /// The session's own flush: not for the engine.
    pub internal: bool,
    pub done: u32,
    pub pieces: u32,
    pub error: Option<OpError>,
}

/// Operations by index, reused.
#[derive(Default)]
pub(crate) struct RunningOps {
    table: Vec<Running>,
    free: Vec<u32>,
}

impl RunningOps {
    /// Room for so many without an allocation.
    pub fn with_room(most: usize) -> RunningOps {
        RunningOps { table: Vec::with_capacity(most), free: Vec::with_capacity(most) }
    }

    /// Adds one.
    #[inline]
    pub fn insert(&mut self, op: Running) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.table[at as usize] = op;
                at
            }
            None => {
                self.table.push(op);
                self.table.len() as u32 - 1
            }
        }
    }

    /// One of them.
    #[inline]
    pub fn get(&mut self, at: u32) -> &mut Running {
        &mut self.table[at as usize]
    }

    /// Gives its place back.
    #[inline]
    pub fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    /// Operations that were submitted and not completed.
    pub fn len(&self) -> usize {
        self.table.len() - self.free.len()
    }
}

/// The slot table of a 4.1 session: each slot carries one call at a time, numbered, so that the server carries each
/// out exactly once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    pub session: [u8; 16],
    /// Number of the next call of each slot.
    next: Vec<u32>,
    free: Vec<u32>,
    /// Slots that skipped a number and had no call accepted since.
    skipped: Vec<bool>,
    /// Slots below this may be used: the server lowers and raises it.
    limit: u32,
    highest_used: u32,
    /// The server said last that it has revoked state of this client.
    pub tells_of_revoked: bool,
}

impl Slots {
    /// Those of a new session.
    pub fn new(session: [u8; 16], granted: u32) -> Slots {
        Slots {
            session,
            next: vec![1; granted as usize],
            skipped: vec![false; granted as usize],
            free: (0..granted).rev().collect(),
            limit: granted,
            highest_used: 0,
            tells_of_revoked: false,
        }
    }

    /// Slots granted.
    pub fn granted(&self) -> u32 {
        self.next.len() as u32
    }

    /// Whether a slot can be taken.
    #[inline]
    pub fn has_free(&self) -> bool {
        self.free.last().is_some_and(|slot| *slot < self.limit) || self.free.iter().any(|slot| *slot < self.limit)
    }

    /// Takes a slot: its index and the number of the call.
    #[inline]
    pub fn take(&mut self) -> Option<(u32, u32)> {
        let slot = match self.free.last() {
            Some(slot) if *slot < self.limit => self.free.pop()?,
            _ => {
                let at = self.free.iter().rposition(|slot| *slot < self.limit)?;
                self.free.remove(at)
            }
        };
        self.highest_used = self.highest_used.max(slot);
        Some((slot, self.next[slot as usize]))
    }

    /// Gives a slot back. `counted`: the server accepted the number, so the next call gets the next one.
    #[inline]
    pub fn give_back(&mut self, slot: u32, counted: bool) {
        if counted {
            let next = &mut self.next[slot as usize];
            *next = next.wrapping_add(1);
            self.skipped[slot as usize] = false;
        }
        self.free.push(slot);
    }

    /// Skips a number of a slot that the server has seen already; true unless the slot's last call did the same.
    #[cold]
    pub fn skip(&mut self, slot: u32) -> bool {
        let next = &mut self.next[slot as usize];
        *next = next.wrapping_add(1);
        !std::mem::replace(&mut self.skipped[slot as usize], true)
    }

    /// Highest slot in use so far, which every call tells the server.
    #[inline]
    pub fn highest_used(&self) -> u32 {
        self.highest_used
    }

    /// The server names the highest slot it wants to see used.
    #[inline]
    pub fn obey(&mut self, target_highest: u32) {
        self.limit = target_highest.saturating_add(1).min(self.granted());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_find_their_calls_and_skip_taken_places() {
        let mut calls = Calls::new(8, u32::MAX - 3);
        let stuck = calls.take_xid();
        calls.insert_control(stuck, 1, 0, Stamp::NONE);
        for _ in 0..1000 {
            let xid = calls.take_xid();
            assert_ne!(xid & 31, stuck & 31);
            calls.insert_control(xid, 0, 0, Stamp::NONE);
            assert!(calls.find(xid, 0).is_some());
            assert!(calls.find(xid, 1).is_none(), "a reply on another connection");
            calls.remove(xid);
            assert!(calls.find(xid, 0).is_none());
        }
        assert!(calls.find(stuck.wrapping_add(32), 1).is_none());
        assert_eq!(calls.outstanding(), 1);
    }

    #[test]
    fn slots_count_only_accepted_calls_and_obey_the_server() {
        let mut slots = Slots::new([7; 16], 3);
        assert_eq!(slots.take(), Some((0, 1)));
        slots.give_back(0, false);
        assert_eq!(slots.take(), Some((0, 1)), "refused by SEQUENCE: the number is used again");
        slots.give_back(0, true);
        assert_eq!(slots.take(), Some((0, 2)));
        slots.give_back(0, false);
        assert!(slots.skip(0) && !slots.skip(0), "once in a row");
        assert_eq!(slots.take(), Some((0, 4)));
        slots.give_back(0, true);
        assert!(slots.skip(0));
        assert_eq!(slots.take(), Some((0, 6)));
        slots.obey(0);
        assert!(!slots.has_free());
        assert_eq!(slots.take(), None);
        slots.obey(u32::MAX);
        assert_eq!(slots.take(), Some((1, 1)));
        assert_eq!(slots.take(), Some((2, 1)));
        assert_eq!(slots.take(), None);
        slots.give_back(1, true);
        slots.obey(1);
        slots.give_back(2, true);
        assert_eq!(slots.take(), Some((1, 2)), "slot 2 is above what the server wants");
        assert_eq!(slots.highest_used(), 2);
    }
}
