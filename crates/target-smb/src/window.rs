//! Credits, message ids, and which request an answer belongs to.

use naslab_core::IoBuf;

/// Bytes that one credit pays for.
pub(crate) const CREDIT_BYTES: u32 = 65_536;
/// Most credits asked for in one request.
const MAX_ASK: u32 = 1024;
/// Smallest and largest table of outstanding ids.
const TABLE: std::ops::RangeInclusive<usize> = 1024..=65_536;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    /// A piece of the call under way.
    Call(u8),
    /// An acknowledgement that nobody waits for.
    Ignore,
}

/// One request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub id: u64,
    pub kind: Kind,
    /// Credits it took.
    pub charge: u16,
    /// Its answer must be signed.
    pub signed: bool,
    /// The operation it is part of, and where in it.
    pub slot: u32,
    pub at: u32,
    /// Where a read's bytes go; how many bytes a read or write is about.
    pub buf: IoBuf,
}

/// One connection's window.
pub(crate) struct Window {
    next_id: u64,
    /// Credits in hand.
    credits: u32,
    /// Credits of requests on their way.
    charged: u32,
    /// Credits wanted in all.
    target: u32,
    /// Most credits ever held in all.
    pub most: u32,
    /// Slab index plus one, by the low bits of the id.
    table: Box<[u32]>,
    slab: Vec<Pending>,
    free: Vec<u32>,
}

impl Window {
    /// A new connection: one credit, the first id zero.
    pub fn new(target: u32) -> Window {
        let size = (2 * target as usize).next_power_of_two().clamp(*TABLE.start(), *TABLE.end());
        Window {
            next_id: 0,
            credits: 1,
            charged: 0,
            target,
            most: 1,
            table: vec![0; size].into_boxed_slice(),
            slab: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Changes how many credits are wanted in all.
    pub fn set_target(&mut self, target: u32) {
        self.target = target;
    }

    /// Requests on their way.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    /// Credits in hand and on their way.
    pub fn total(&self) -> u32 {
        self.credits + self.charged
    }

    /// Whether a request of this charge may be sent now.
    #[inline]
    pub fn has_room(&self, charge: u16) -> bool {
        self.credits >= u32::from(charge) && self.table[self.index(self.next_id)] == 0
    }

    /// Whether a call of so many requests and credits in all may be sent now.
    pub fn has_room_for(&self, charge: u32, requests: usize) -> bool {
        let free = |n: u64| self.table[self.index(self.next_id + n)] == 0;
        self.credits >= charge && (0..u64::from(charge).max(requests as u64)).all(free)
    }

    fn index(&self, id: u64) -> usize {
        id as usize & (self.table.len() - 1)
    }

    /// Takes the next id and its credits; also how many credits to ask for. Call only after `has_room`.
    #[inline]
    pub fn take(&mut self, charge: u16) -> (u64, u16) {
        let cost = u32::from(charge);
        let id = self.next_id;
        self.next_id += u64::from(charge);
        self.credits -= cost;
        self.charged += cost;
        let missing = self.target.saturating_sub(self.total());
        (id, (cost + missing.min(MAX_ASK)) as u16)
    }

    /// Remembers the request of the id that `take` gave.
    #[inline]
    pub fn expect(&mut self, pending: Pending) {
        let at = match self.free.pop() {
            Some(at) => {
                self.slab[at as usize] = pending;
                at
            }
            None => {
                self.slab.push(pending);
                self.slab.len() as u32 - 1
            }
        };
        let index = self.index(pending.id);
        self.table[index] = at + 1;
    }

    /// The request that an answer's id belongs to.
    #[inline]
    pub fn find(&self, id: u64) -> Option<Pending> {
        let at = self.table[self.index(id)].checked_sub(1)?;
        Some(self.slab[at as usize]).filter(|p| p.id == id)
    }

    /// Forgets an answered request.
    #[inline]
    pub fn remove(&mut self, pending: &Pending) {
        let index = self.index(pending.id);
        if let Some(at) = self.table[index].checked_sub(1) {
            self.table[index] = 0;
            self.free.push(at);
            self.charged -= u32::from(pending.charge);
        }
    }

    /// Takes the credits an answer grants.
    #[inline]
    pub fn grant(&mut self, credits: u16) {
        // No server can give more than the window of ids it must then accept.
        self.credits = (self.credits + u32::from(credits)).min(1 << 20);
        self.most = self.most.max(self.total());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pending(id: u64, charge: u16) -> Pending {
        Pending { id, kind: Kind::Write, charge, signed: false, slot: 0, at: 0, buf: IoBuf::empty() }
    }

    #[test]
    fn ids_follow_the_charges_and_credits_are_obeyed() {
        let mut window = Window::new(64);
        assert!(window.has_room(1) && !window.has_room(2));
        let (id, ask) = window.take(1);
        assert_eq!((id, ask), (0, 64));
        window.expect(pending(0, 1));
        assert!(!window.has_room(1));
        let found = window.find(0).unwrap();
        window.remove(&found);
        window.grant(40);
        assert_eq!((window.total(), window.find(0).is_none()), (40, true));
        let (id, ask) = window.take(16);
        assert_eq!((id, ask), (1, 40));
        assert_eq!(window.take(1).0, 17);
    }

    proptest! {
        #[test]
        fn every_answer_finds_its_request(order in proptest::collection::vec((1u16..20, any::<u16>(), any::<bool>()), 1..300)) {
            let mut window = Window::new(8192);
            window.grant(8000);
            let mut open = Vec::new();
            for (charge, pick, answer) in order {
                if answer && !open.is_empty() {
                    let (id, charge) = open.swap_remove(usize::from(pick) % open.len());
                    let found = window.find(id).unwrap();
                    prop_assert_eq!((found.id, found.charge), (id, charge));
                    window.remove(&found);
                    window.grant(charge);
                    prop_assert!(window.find(id).is_none());
                } else if window.has_room(charge) {
                    let (id, _) = window.take(charge);
                    window.expect(pending(id, charge));
                    open.push((id, charge));
                }
                prop_assert_eq!(window.outstanding(), open.len());
                prop_assert_eq!(window.total(), 8001);
            }
        }
    }
}
