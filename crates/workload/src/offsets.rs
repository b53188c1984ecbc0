//! The order in which records of a file are visited.

use crate::rng::{mix64, Rng};

/// An order of record numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// 0, 1, 2, ...
    Sequential,
    /// Each record once, in an order fixed by the seed; the same for every pass with that seed.
    Permutation,
    /// Independent uniform draws: records repeat.
    Random,
    /// Last record to first.
    Backward,
    /// Jumps of `records`, IOzone's stride read: at the end of the file it restarts one record later,
    /// so some records are never visited (order observed from IOzone 3.489's system calls).
    Stride {
        /// Records per jump.
        records: u64,
    },
    /// Record 0 again and again.
    SameRecord,
}

/// Endless sequence of record numbers below `count`; after `count` of them it starts over
/// (Sequential, Permutation, Backward cover every record exactly once per round).
#[derive(Clone, Debug)]
pub struct Offsets {
    pattern: Pattern,
    count: u64,
    step: u64,
    permutation: Permutation,
    rng: Rng,
    stride_at: u64,
    stride_base: u64,
}

impl Offsets {
    /// Record numbers 0..count in this order. `count` must be at least 1.
    pub fn new(pattern: Pattern, count: u64, seed: u64) -> Offsets {
        Offsets {
            pattern,
            count: count.max(1),
            step: 0,
            permutation: Permutation::new(count.max(1), seed),
            rng: Rng::new(seed, 0x0FF5E7),
            stride_at: 0,
            stride_base: 0,
        }
    }

    /// The next record number.
    #[inline(always)]
    pub fn next_record(&mut self) -> u64 {
        let step = self.step;
        self.step = if step + 1 == self.count { 0 } else { step + 1 };
        match self.pattern {
            Pattern::Sequential => step,
            Pattern::Random => self.rng.below(self.count),
            Pattern::Permutation => self.permutation.at(step),
            Pattern::Backward => self.count - 1 - step,
            Pattern::SameRecord => 0,
            Pattern::Stride { records } => self.next_stride(records),
        }
    }

    fn next_stride(&mut self, records: u64) -> u64 {
        let at = self.stride_at;
        self.stride_at = if at + records + 3 <= self.count {
            at + records
        } else if self.count <= records {
            0
        } else {
            self.stride_base = (self.stride_base + 1) % self.count;
            self.stride_base
        };
        at
    }
}

/// A random permutation of 0..count without a table: a four-round Feistel network over the next even
/// number of bits, walked until it lands inside (Black and Rogaway, "Ciphers with arbitrary finite
/// domains", CT-RSA 2002). At most four steps on average.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    pub(crate) fn new(count: u64, seed: u64) -> Permutation {
        let bits = 64 - (count - 1).max(1).leading_zeros();
        let mut rng = Rng::new(seed, 0xFE15);
        Permutation { count, half_bits: bits.div_ceil(2), keys: std::array::from_fn(|_| rng.bits()) }
    }

    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.round_trip(x);
            if x < self.count {
                return x;
            }
        }
    }

    #[inline]
    fn round_trip(&self, x: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (x >> self.half_bits, x & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix64(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(pattern: Pattern, count: u64, n: usize) -> Vec<u64> {
        let mut offsets = Offsets::new(pattern, count, 7);
        (0..n).map(|_| offsets.next_record()).collect()
    }

    #[test]
    fn stride_follows_iozone() {
        // Observed: iozone -i 5 -r 4k with files of 40, 20, 18 and 8 records.
        let forty = [0, 17, 34, 1, 18, 35, 2, 19, 36, 3, 20, 37, 4, 21, 5, 22, 6, 23, 7, 24, 8, 25];
        assert_eq!(take(Pattern::Stride { records: 17 }, 40, forty.len()), forty);
        assert_eq!(take(Pattern::Stride { records: 17 }, 20, 6), [0, 17, 1, 2, 3, 4]);
        assert_eq!(take(Pattern::Stride { records: 17 }, 18, 19)[..4], [0, 1, 2, 3]);
        assert_eq!(take(Pattern::Stride { records: 17 }, 18, 19)[18], 0);
        assert_eq!(take(Pattern::Stride { records: 17 }, 8, 8), [0; 8]);
    }

    #[test]
    fn backward_and_same_record() {
        assert_eq!(take(Pattern::Backward, 3, 4), [2, 1, 0, 2]);
        assert_eq!(take(Pattern::SameRecord, 3, 4), [0; 4]);
    }

    #[test]
    fn permutation_is_not_the_identity_and_depends_on_the_seed() {
        let a: Vec<u64> = take(Pattern::Permutation, 1000, 1000);
        let mut other = Offsets::new(Pattern::Permutation, 1000, 8);
        let b: Vec<u64> = (0..1000).map(|_| other.next_record()).collect();
        assert_ne!(a, b);
        let in_place = a.iter().enumerate().filter(|(i, x)| *i as u64 == **x).count();
        assert!(in_place < 20, "{in_place} of 1000 records stay in place");
    }

    proptest! {
        #[test]
        fn a_round_covers_every_record_once(count in 1u64..5000, seed: u64, which in 0usize..3) {
            let pattern = [Pattern::Sequential, Pattern::Permutation, Pattern::Backward][which];
            let mut offsets = Offsets::new(pattern, count, seed);
            for _round in 0..2 {
                let mut seen = vec![false; count as usize];
                for _ in 0..count {
                    let record = offsets.next_record() as usize;
                    prop_assert!(!seen[record], "record {} twice", record);
                    seen[record] = true;
                }
            }
        }

        #[test]
        fn every_pattern_stays_inside(count in 1u64..3000, seed: u64, stride in 1u64..40) {
            for pattern in [Pattern::Random, Pattern::Stride { records: stride }, Pattern::SameRecord] {
                let mut offsets = Offsets::new(pattern, count, seed);
                for _ in 0..200 {
                    prop_assert!(offsets.next_record() < count);
                }
            }
        }

        #[test]
        fn same_seed_same_records(count in 1u64..100_000, seed: u64) {
            let mut a = Offsets::new(Pattern::Random, count, seed);
            let mut b = Offsets::new(Pattern::Random, count, seed);
            for _ in 0..50 {
                prop_assert_eq!(a.next_record(), b.next_record());
            }
        }
    }
}
