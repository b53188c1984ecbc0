//! Byte-addressed ways through a region of a file: any start, stride and alignment, hot and cold parts.
//!
//! Records (`Offsets`) divide a file into equal pieces; a walk does not: its operations may overlap, begin at any
//! multiple of the alignment, and never end before the region's length lets them fit whole. Semantics of sequential
//! strides, interlocked workers, separation and hot ranges follow DiskSpd 2.2 (CmdLineParser.cpp,
//! IORequestGenerator.cpp).

use crate::offsets::Permutation;
use crate::rng::Rng;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// How often each part of the region is visited.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// All positions alike.
    Uniform,
    /// Position of rank k with probability proportional to 1/k^theta, 0 < theta < 1 or above 1; ranks are scattered
    /// over the region, so that popular positions are not neighbours.
    Zipf {
        /// The exponent.
        theta: f64,
    },
    /// Ranges, each with its share of operations; within a range uniform.
    Ranges(Vec<HotRange>),
}

/// One range of `Spread::Ranges`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotRange {
    /// Share of operations, 0 to 1.
    pub share: f64,
    /// First byte, from the region's start.
    pub start_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
}

/// How one worker goes through the region.
#[derive(Clone, Debug)]
pub enum Order {
    /// From `start_bytes` in steps of `stride_bytes`, from the region's start again after its end.
    Sequential {
        /// First offset of this worker, from the region's start.
        start_bytes: u64,
        /// Step.
        stride_bytes: u64,
    },
    /// As Sequential, all workers taking turns on one shared position.
    Interlocked {
        /// The shared count of steps taken.
        taken: Arc<AtomicU64>,
        /// Step.
        stride_bytes: u64,
    },
    /// Independent draws.
    Random {
        /// Positions are multiples of this, from the region's start.
        align_bytes: u64,
        /// How often each is drawn.
        spread: Spread,
    },
    /// Each operation is random with a probability, else continues the sequence after the last one.
    Blend {
        /// Probability of a random position.
        random_share: f64,
        /// Alignment of random positions.
        align_bytes: u64,
    },
}

/// Endless offsets of operations of `block_bytes` in a region.
#[derive(Clone, Debug)]
pub struct Walk {
    order: Order,
    base_bytes: u64,
    len_bytes: u64,
    block_bytes: u64,
    next_bytes: u64,
    rng: Rng,
    zipf: Option<Zipf>,
    /// Upper ends of the ranges' shares, as thresholds of random bits.
    thresholds: Vec<u64>,
}

impl Walk {
    /// A walk through `base_bytes .. base_bytes + len_bytes`, which must hold at least one block.
    pub fn new(order: Order, base_bytes: u64, len_bytes: u64, block_bytes: u32, seed: u64) -> Walk {
        let block_bytes = block_bytes.max(1) as u64;
        let len_bytes = len_bytes.max(block_bytes);
        let next_bytes = match order {
            Order::Sequential { start_bytes, .. } => start_bytes,
            _ => 0,
        };
        let zipf = match &order {
            Order::Random { align_bytes, spread: Spread::Zipf { theta } } => {
                Some(Zipf::new(positions(len_bytes, block_bytes, *align_bytes), *theta))
            }
            _ => None,
        };
        let thresholds = match &order {
            Order::Random { spread: Spread::Ranges(ranges), .. } => thresholds(ranges),
            _ => Vec::new(),
        };
        let rng = Rng::new(seed, 0x3A1C);
        Walk { order, base_bytes, len_bytes, block_bytes, next_bytes, rng, zipf, thresholds }
    }

    /// The next operation's offset in the file.
    #[inline]
    pub fn next_bytes(&mut self) -> u64 {
        let last = self.len_bytes - self.block_bytes;
        let at = match &self.order {
            Order::Sequential { stride_bytes, .. } => {
                let at = if self.next_bytes > last { 0 } else { self.next_bytes };
                self.next_bytes = at + stride_bytes;
                at
            }
            Order::Interlocked { taken, stride_bytes } => {
                let steps = last / stride_bytes.max(&1) + 1;
                (taken.fetch_add(1, Ordering::Relaxed) % steps) * stride_bytes
            }
            Order::Random { align_bytes, spread } => {
                let align = (*align_bytes).max(1);
                let count = last / align + 1;
                match (spread, &self.zipf) {
                    (Spread::Zipf { .. }, Some(zipf)) => zipf.draw(&mut self.rng) * align,
                    (Spread::Ranges(ranges), _) => in_range(ranges, &self.thresholds, align, last, &mut self.rng),
                    _ => self.rng.below(count) * align,
                }
            }
            Order::Blend { random_share, align_bytes } => {
                let align = (*align_bytes).max(1);
                let is_random = self.rng.unit() < *random_share;
                let at = match is_random {
                    true => self.rng.below(last / align + 1) * align,
                    false if self.next_bytes > last => 0,
                    false => self.next_bytes,
                };
                self.next_bytes = at + self.block_bytes;
                at
            }
        };
        self.base_bytes + at
    }
}

/// Positions at which a block fits.
fn positions(len_bytes: u64, block_bytes: u64, align_bytes: u64) -> u64 {
    (len_bytes - block_bytes) / align_bytes.max(1) + 1
}

fn thresholds(ranges: &[HotRange]) -> Vec<u64> {
    let total: f64 = ranges.iter().map(|r| r.share).sum();
    let mut sum = 0.0;
    let upto = |range: &HotRange| {
        sum += range.share / total;
        (sum * u64::MAX as f64) as u64
    };
    ranges.iter().map(upto).collect()
}

/// A position in the range that the draw falls into.
fn in_range(ranges: &[HotRange], thresholds: &[u64], align: u64, last: u64, rng: &mut Rng) -> u64 {
    let bits = rng.bits();
    let which = thresholds.iter().position(|upto| bits <= *upto).unwrap_or(ranges.len() - 1);
    let HotRange { start_bytes, len_bytes, .. } = ranges[which];
    let first = start_bytes.div_ceil(align);
    let end = (start_bytes + len_bytes.max(1)).saturating_sub(1).min(last) / align;
    let at = if end <= first { first } else { first + rng.below(end - first + 1) };
    (at * align).min(last / align * align)
}

/// Zipf ranks by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 1996): no table, any count.
#[derive(Clone, Debug)]
struct Zipf {
    count: u64,
    theta: f64,
    h_first: f64,
    h_last: f64,
    shift: f64,
    scatter: Permutation,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Zipf {
        let mut zipf =
            Zipf { count, theta, h_first: 0.0, h_last: 0.0, shift: 0.0, scatter: Permutation::new(count, 0x21BF) };
        zipf.h_first = zipf.h(1.5) - 1.0;
        zipf.h_last = zipf.h(count as f64 + 0.5);
        zipf.shift = 2.0 - zipf.h_inverse(zipf.h(2.5) - 2f64.powf(-theta));
        zipf
    }

    /// Integral of x^-theta.
    fn h(&self, x: f64) -> f64 {
        if (self.theta - 1.0).abs() < 1e-9 {
            x.ln()
        } else {
            x.powf(1.0 - self.theta) / (1.0 - self.theta)
        }
    }

    fn h_inverse(&self, y: f64) -> f64 {
        if (self.theta - 1.0).abs() < 1e-9 {
            y.exp()
        } else {
            (y * (1.0 - self.theta)).powf(1.0 / (1.0 - self.theta))
        }
    }

    /// A rank from 1 to count.
    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.h_last + rng.unit() * (self.h_first - self.h_last);
            let x = self.h_inverse(u);
            let k = x.round().clamp(1.0, self.count as f64);
            if k - x <= self.shift || u >= self.h(k + 0.5) - k.powf(-self.theta) {
                return k as u64;
            }
        }
    }

    /// A position from 0 to count - 1; popular ones are scattered.
    fn draw(&self, rng: &mut Rng) -> u64 {
        self.scatter.at(self.rank(rng) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    fn take(order: Order, len: u64, block: u32, n: usize) -> Vec<u64> {
        let mut walk = Walk::new(order, 0, len, block, 7);
        (0..n).map(|_| walk.next_bytes()).collect()
    }

    #[test]
    fn sequential_wraps_and_strides() {
        let order = |start, stride| Order::Sequential { start_bytes: start, stride_bytes: stride };
        assert_eq!(take(order(0, 4), 10, 4, 4), [0, 4, 0, 4]);
        assert_eq!(take(order(0, 3), 10, 4, 5), [0, 3, 6, 0, 3]);
        assert_eq!(take(order(8, 4), 16, 4, 5), [8, 12, 0, 4, 8]);
        assert_eq!(take(order(0, 100), 10, 4, 3), [0, 0, 0]);
    }

    #[test]
    fn interlocked_workers_share_one_sequence() {
        let taken = Arc::new(AtomicU64::new(0));
        let order = || Order::Interlocked { taken: taken.clone(), stride_bytes: 4 };
        let (mut a, mut b) = (Walk::new(order(), 100, 16, 4, 1), Walk::new(order(), 100, 16, 4, 2));
        let seen: Vec<u64> = (0..3).flat_map(|_| [a.next_bytes(), b.next_bytes()]).collect();
        assert_eq!(seen, [100, 104, 108, 112, 100, 104]);
    }

    #[test]
    fn the_articles_random_read_has_its_positions() {
        // 1 MiB reads at multiples of 100 bytes in 2,000,000,000: 19,989,515 positions.
        assert_eq!(positions(2_000_000_000, 1 << 20, 100), 19_989_515);
        let order = Order::Random { align_bytes: 100, spread: Spread::Uniform };
        let seen = take(order, 2_000_000_000, 1 << 20, 2000);
        assert!(seen.iter().all(|at| at % 100 == 0 && at + (1 << 20) <= 2_000_000_000));
        assert!(seen.iter().any(|at| at % 4096 != 0));
    }

    #[test]
    fn hot_ranges_get_their_share() {
        let ranges = vec![
            HotRange { share: 0.9, start_bytes: 0, len_bytes: 1000 },
            HotRange { share: 0.1, start_bytes: 1000, len_bytes: 9000 },
        ];
        let order = Order::Random { align_bytes: 10, spread: Spread::Ranges(ranges) };
        let seen = take(order, 10_000, 10, 50_000);
        let hot = seen.iter().filter(|at| **at < 1000).count() as f64 / 50_000.0;
        assert!((hot - 0.9).abs() < 0.01, "{hot}");
        assert!(seen.iter().all(|at| *at <= 9990));
    }

    #[test]
    fn zipf_ranks_follow_the_law() {
        for theta in [0.6, 0.99, 1.2] {
            let zipf = Zipf::new(1000, theta);
            let mut rng = Rng::new(3, 3);
            let mut counts = vec![0u32; 1001];
            (0..200_000).for_each(|_| counts[zipf.rank(&mut rng) as usize] += 1);
            let norm: f64 = (1..=1000).map(|k| (k as f64).powf(-theta)).sum();
            for k in [1usize, 2, 10, 100] {
                let expected = 200_000.0 * (k as f64).powf(-theta) / norm;
                let got = counts[k] as f64;
                assert!((got - expected).abs() < 5.0 * expected.sqrt() + 1.0, "theta {theta}, {k}: {got} {expected}");
            }
        }
    }

    #[test]
    fn a_blend_has_its_share_of_jumps() {
        let seen = take(Order::Blend { random_share: 0.25, align_bytes: 4 }, 1 << 20, 4, 40_000);
        let jumps = seen.windows(2).filter(|w| w[1] != w[0] + 4).count() as f64 / 40_000.0;
        assert!((jumps - 0.25).abs() < 0.01, "{jumps}");
    }

    proptest! {
        #[test]
        fn every_walk_stays_inside(base in 0u64..1 << 40, len in 1u64..1 << 30, block in 1u32..1 << 20, align in 1u64..9000, seed: u64) {
            let len = len.max(block as u64);
            let half = HotRange { share: 0.5, start_bytes: len / 2, len_bytes: len - len / 2 };
            let spreads = [
                Spread::Uniform,
                Spread::Zipf { theta: 0.9 },
                Spread::Ranges(vec![HotRange { share: 0.5, start_bytes: 0, len_bytes: len / 2 }, half]),
            ];
            let mut orders: Vec<Order> =
                spreads.map(|spread| Order::Random { align_bytes: align, spread }).into_iter().collect();
            orders.push(Order::Sequential { start_bytes: align, stride_bytes: align });
            orders.push(Order::Blend { random_share: 0.5, align_bytes: align });
            orders.push(Order::Interlocked { taken: Arc::default(), stride_bytes: align });
            for order in orders {
                let mut walk = Walk::new(order.clone(), base, len, block, seed);
                for _ in 0..100 {
                    let at = walk.next_bytes();
                    prop_assert!(at >= base && at + block as u64 <= base + len, "{:?}: {}", order, at);
                }
            }
        }
    }
}
