//! Due times of an open loop.

use crate::Rng;

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalKind {
    /// Evenly.
    Constant,
    /// Independent exponential gaps.
    Poisson,
}

/// Due times of one worker's operations, in nanoseconds from the cell's start.
///
/// Over `workers` workers the rates add up to the cell's rate; constant arrivals of different workers
/// interleave evenly.
#[derive(Clone, Debug)]
pub struct Arrival {
    kind: ArrivalKind,
    gap_ns: f64,
    next_ns: f64,
    rng: Rng,
}

impl Arrival {
    /// Arrivals for worker `worker` of `workers` at `rate_per_s` operations per second in total.
    pub fn new(kind: ArrivalKind, rate_per_s: f64, worker: u32, workers: u32, seed: u64) -> Arrival {
        let gap_ns = 1e9 * workers as f64 / rate_per_s;
        let mut rng = Rng::new(seed, 0xA881 ^ (worker as u64) << 16);
        let next_ns = match kind {
            ArrivalKind::Constant => gap_ns * worker as f64 / workers as f64,
            ArrivalKind::Poisson => gap_ns * rng.exponential(),
        };
        Arrival { kind, gap_ns, next_ns, rng }
    }

    /// The next due time.
    #[inline]
    pub fn next_due_ns(&mut self) -> u64 {
        let due = self.next_ns;
        self.next_ns += match self.kind {
            ArrivalKind::Constant => self.gap_ns,
            ArrivalKind::Poisson => self.gap_ns * self.rng.exponential(),
        };
        due as u64
    }

    /// Mean time between this worker's operations, in nanoseconds.
    pub fn gap_ns(&self) -> u64 {
        self.gap_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_arrivals_interleave_over_workers() {
        let mut due: Vec<u64> = Vec::new();
        for worker in 0..4 {
            let mut arrival = Arrival::new(ArrivalKind::Constant, 1000.0, worker, 4, 1);
            due.extend((0..3).map(|_| arrival.next_due_ns()));
        }
        due.sort_unstable();
        let expected: Vec<u64> = (0..12).map(|i| i * 1_000_000).collect();
        assert_eq!(due, expected);
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread() {
        let mut arrival = Arrival::new(ArrivalKind::Poisson, 1e6, 0, 1, 3);
        let due: Vec<u64> = (0..100_000).map(|_| arrival.next_due_ns()).collect();
        let mean = due[99_999] as f64 / 100_000.0;
        assert!((mean - 1000.0).abs() < 15.0, "mean gap {mean} ns");
        let long = due.windows(2).filter(|w| w[1] - w[0] > 2000).count() as f64 / 1e5;
        assert!((long - (-2.0f64).exp()).abs() < 0.01, "share of gaps above two means: {long}");
    }
}
