//! A least-recently-used set of file pages, made for millions of pages.
//!
//! Pages are kept in chunks of 64 neighbours of one file: one hash lookup and one bitmap word serve 64
//! pages. The order of use is a doubly linked list of page slots by index. Nothing is allocated once
//! the cache has reached its size.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const NONE: u32 = u32::MAX;
const CHUNK: u64 = 64;
/// Up to this many chunks are looked up one by one instead of walking all chunks of a file.
const FEW_CHUNKS: u64 = 4;

/// A quick hash for keys the program itself makes; it is the same in every run.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A hash map with [`KeyHasher`].
pub(crate) type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;

#[derive(Debug)]
struct Slot {
    newer: u32,
    older: u32,
    chunk: u32,
    bit: u32,
}

#[derive(Debug)]
struct Chunk {
    file: u32,
    index: u64,
    present: u64,
    /// Neighbours in the list of the file's chunks.
    next: u32,
    prev: u32,
    slots: [u32; CHUNK as usize],
}

/// Pages of files in the order of their last use.
#[derive(Debug)]
pub(crate) struct PageCache {
    capacity: usize,
    used: usize,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    chunks: Vec<Chunk>,
    free_chunks: Vec<u32>,
    by_key: KeyMap<(u32, u64), u32>,
    by_file: KeyMap<u32, u32>,
    newest: u32,
    oldest: u32,
    evicted: u64,
}

impl PageCache {
    /// A cache of `capacity` pages; 0 keeps nothing.
    pub(crate) fn new(capacity: u64) -> PageCache {
        PageCache {
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            used: 0,
            slots: Vec::new(),
            free_slots: Vec::new(),
            chunks: Vec::new(),
            free_chunks: Vec::new(),
            by_key: KeyMap::default(),
            by_file: KeyMap::default(),
            newest: NONE,
            oldest: NONE,
            evicted: 0,
        }
    }

    /// Whether there is a cache at all.
    pub(crate) fn on(&self) -> bool {
        self.capacity > 0
    }

    /// Pages pushed out for room so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Uses the pages `first..end` of a file; appends the runs that are missing to `missing`.
    pub(crate) fn look_up(&mut self, file: u32, first: u64, end: u64, missing: &mut Vec<(u64, u64)>) {
        let mut page = first;
        while page < end {
            let stop = end.min((page / CHUNK + 1) * CHUNK);
            let chunk = self.by_key.get(&(file, page / CHUNK)).copied();
            for p in page..stop {
                match chunk.and_then(|c| self.slot_of(c, p % CHUNK)) {
                    Some(slot) => self.touch(slot),
                    None => match missing.last_mut() {
                        Some(run) if run.1 == p => run.1 += 1,
                        _ => missing.push((p, p + 1)),
                    },
                }
            }
            page = stop;
        }
    }

    /// Makes the pages `first..end` of a file present and most recently used.
    pub(crate) fn insert(&mut self, file: u32, first: u64, end: u64) {
        if !self.on() {
            return;
        }
        let first = first.max(end.saturating_sub(self.capacity as u64));
        for page in first..end {
            let chunk = self.chunk_for(file, page / CHUNK);
            match self.slot_of(chunk, page % CHUNK) {
                Some(slot) => self.touch(slot),
                None => self.add(chunk, page % CHUNK),
            }
        }
    }

    /// Forgets the pages `first..end` of a file.
    pub(crate) fn remove(&mut self, file: u32, first: u64, end: u64) {
        if end.saturating_sub(first) <= FEW_CHUNKS * CHUNK {
            for index in first / CHUNK..end.div_ceil(CHUNK) {
                if let Some(&chunk) = self.by_key.get(&(file, index)) {
                    self.remove_in(chunk, first, end);
                }
            }
            return;
        }
        let mut chunk = self.by_file.get(&file).copied().unwrap_or(NONE);
        while chunk != NONE {
            let next = self.chunks[chunk as usize].next;
            self.remove_in(chunk, first, end);
            chunk = next;
        }
    }

    fn remove_in(&mut self, chunk: u32, first: u64, end: u64) {
        let c = &self.chunks[chunk as usize];
        let (base, mut bits) = (c.index * CHUNK, c.present);
        while bits != 0 {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            if (first..end).contains(&(base + u64::from(bit))) {
                let slot = self.chunks[chunk as usize].slots[bit as usize];
                self.drop_slot(slot);
            }
        }
    }

    /// Pages of a file that are present.
    pub(crate) fn pages_of(&self, file: u32) -> u64 {
        let mut chunk = self.by_file.get(&file).copied().unwrap_or(NONE);
        let mut pages = 0;
        while chunk != NONE {
            let c = &self.chunks[chunk as usize];
            pages += u64::from(c.present.count_ones());
            chunk = c.next;
        }
        pages
    }

    fn slot_of(&self, chunk: u32, bit: u64) -> Option<u32> {
        let c = &self.chunks[chunk as usize];
        (c.present >> bit & 1 == 1).then(|| c.slots[bit as usize])
    }

    /// The chunk with this index of the file, made if it is missing.
    fn chunk_for(&mut self, file: u32, index: u64) -> u32 {
        if let Some(&chunk) = self.by_key.get(&(file, index)) {
            return chunk;
        }
        let head = self.by_file.get(&file).copied().unwrap_or(NONE);
        let fresh = Chunk { file, index, present: 0, next: head, prev: NONE, slots: [NONE; CHUNK as usize] };
        let id = match self.free_chunks.pop() {
            Some(id) => {
                self.chunks[id as usize] = fresh;
                id
            }
            None => {
                self.chunks.push(fresh);
                (self.chunks.len() - 1) as u32
            }
        };
        if head != NONE {
            self.chunks[head as usize].prev = id;
        }
        self.by_file.insert(file, id);
        self.by_key.insert((file, index), id);
        id
    }

    fn add(&mut self, chunk: u32, bit: u64) {
        // The page is marked first, so that evicting a neighbour cannot free its chunk.
        self.chunks[chunk as usize].present |= 1 << bit;
        if self.used == self.capacity {
            self.drop_slot(self.oldest);
            self.evicted += 1;
        }
        let slot = Slot { newer: NONE, older: NONE, chunk, bit: bit as u32 };
        let id = match self.free_slots.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.chunks[chunk as usize].slots[bit as usize] = id;
        self.used += 1;
        self.link_newest(id);
    }

    fn drop_slot(&mut self, slot: u32) {
        self.unlink(slot);
        let Slot { chunk, bit, .. } = self.slots[slot as usize];
        self.free_slots.push(slot);
        self.used -= 1;
        let c = &mut self.chunks[chunk as usize];
        c.present &= !(1 << bit);
        if c.present == 0 {
            self.free_chunk(chunk);
        }
    }

    fn free_chunk(&mut self, chunk: u32) {
        let Chunk { file, index, next, prev, .. } = self.chunks[chunk as usize];
        self.by_key.remove(&(file, index));
        if next != NONE {
            self.chunks[next as usize].prev = prev;
        }
        if prev != NONE {
            self.chunks[prev as usize].next = next;
        } else if next != NONE {
            self.by_file.insert(file, next);
        } else {
            self.by_file.remove(&file);
        }
        self.free_chunks.push(chunk);
    }

    fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link_newest(slot);
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let s = &mut self.slots[slot as usize];
        s.newer = NONE;
        s.older = self.newest;
        match self.newest {
            NONE => self.oldest = slot,
            n => self.slots[n as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            n => self.slots[n as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            o => self.slots[o as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: a list with the newest page last.
    #[derive(Default)]
    struct Slow {
        capacity: usize,
        pages: Vec<(u32, u64)>,
    }

    impl Slow {
        fn use_page(&mut self, key: (u32, u64)) -> bool {
            match self.pages.iter().position(|k| *k == key) {
                Some(at) => {
                    let k = self.pages.remove(at);
                    self.pages.push(k);
                    true
                }
                None => false,
            }
        }

        fn insert(&mut self, key: (u32, u64)) {
            if !self.use_page(key) {
                if self.pages.len() == self.capacity {
                    self.pages.remove(0);
                }
                self.pages.push(key);
            }
        }
    }

    fn order(cache: &PageCache) -> Vec<(u32, u64)> {
        let mut keys = Vec::new();
        let mut slot = cache.oldest;
        while slot != NONE {
            let s = &cache.slots[slot as usize];
            let c = &cache.chunks[s.chunk as usize];
            keys.push((c.file, c.index * CHUNK + u64::from(s.bit)));
            slot = s.newer;
        }
        keys
    }

    fn missing_pages(runs: &[(u64, u64)]) -> Vec<u64> {
        runs.iter().flat_map(|r| r.0..r.1).collect()
    }

    proptest! {
        #[test]
        fn same_as_the_definition(
            capacity in 1usize..200,
            steps in prop::collection::vec((0u8..8, 0u32..3, 0u64..300, 1u64..400), 1..120),
        ) {
            let mut fast = PageCache::new(capacity as u64);
            let mut slow = Slow { capacity, pages: Vec::new() };
            for (what, file, first, count) in steps {
                let end = first + count;
                match what {
                    0..=2 => {
                        let mut runs = Vec::new();
                        fast.look_up(file, first, end, &mut runs);
                        let missing: Vec<u64> =
                            (first..end).filter(|p| !slow.use_page((file, *p))).collect();
                        prop_assert_eq!(missing_pages(&runs), missing);
                        prop_assert!(runs.windows(2).all(|w| w[0].1 < w[1].0), "runs are maximal");
                    }
                    3..=6 => {
                        fast.insert(file, first, end);
                        (first..end).for_each(|p| slow.insert((file, p)));
                    }
                    _ => {
                        fast.remove(file, first, end);
                        slow.pages.retain(|k| k.0 != file || !(first..end).contains(&k.1));
                    }
                }
                prop_assert_eq!(order(&fast), slow.pages.clone());
                for f in 0..3 {
                    let n = slow.pages.iter().filter(|k| k.0 == f).count() as u64;
                    prop_assert_eq!(fast.pages_of(f), n);
                }
            }
        }
    }

    #[test]
    fn memory_stays_put_when_full() {
        let mut cache = PageCache::new(1000);
        for round in 0..20u64 {
            cache.insert(1, round * 5000, round * 5000 + 2000);
        }
        assert!(cache.slots.len() <= 1000 && cache.chunks.len() <= 1000 / 64 + 4);
        assert_eq!(cache.evicted(), 19 * 1000);
    }

    #[test]
    fn no_capacity_keeps_nothing() {
        let mut cache = PageCache::new(0);
        cache.insert(1, 0, 10);
        assert_eq!(cache.pages_of(1), 0);
        assert!(!cache.on());
    }
}
