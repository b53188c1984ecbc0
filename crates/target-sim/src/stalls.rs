//! Periodic stops of the whole server: for a part of every period nothing in it moves.

use crate::config::SimConfig;
use crate::noise::Noise;
use crate::resource::{ticks, Ticks};

/// When the server stops: at `first`, and every `every` from then on, for `length`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stalls {
    first: Ticks,
    every: Ticks,
    length: Ticks,
}

impl Stalls {
    /// None without stops. The seed sets when the first one begins, within the first period.
    pub(crate) fn new(config: &SimConfig) -> Option<Stalls> {
        if config.stall_every_ns == 0 {
            return None;
        }
        let phase_ns = (Noise::new(config.seed, 6).uniform() * config.stall_every_ns as f64) as u64;
        let (every, length) = (ticks(config.stall_every_ns), ticks(config.stall_ns));
        Some(Stalls { first: ticks(phase_ns), every, length })
    }

    /// When something can start that would start at `at`.
    pub(crate) fn start(&self, at: Ticks) -> Ticks {
        if at < self.first {
            return at;
        }
        let begun = self.first + (at - self.first) / self.every * self.every;
        at.max(begun + self.length)
    }

    /// When something ends that starts at `start`, outside a stop, and would end at `end` without stops.
    pub(crate) fn end(&self, start: Ticks, end: Ticks) -> Ticks {
        let begun = start.saturating_sub(self.first).div_ceil(self.every) * self.every;
        let stop = self.first + begun;
        if end <= stop {
            return end;
        }
        // What is left is done in the moving parts of whole periods.
        let (left, moving) = (end - stop, self.every - self.length);
        let periods = (left - 1) / moving;
        stop + periods * self.every + self.length + (left - periods * moving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STALLS: Stalls = Stalls { first: 7, every: 10, length: 3 };

    /// The definition: time goes on tick by tick, and work is done in the ticks that are in no stop.
    fn slow_end(start: Ticks, end: Ticks) -> Ticks {
        let stopped = |t: Ticks| t >= 7 && (t - 7) % 10 < 3;
        let (mut now, mut left) = (start, end - start);
        while left > 0 {
            left -= Ticks::from(!stopped(now));
            now += 1;
        }
        now
    }

    proptest! {
        #[test]
        fn same_as_the_definition(at in 0u128..200, takes in 0u128..200) {
            let start = STALLS.start(at);
            prop_assert_eq!(start, (at..).find(|t| *t < 7 || (t - 7) % 10 >= 3).unwrap());
            prop_assert_eq!(STALLS.end(start, start + takes), slow_end(start, start + takes));
        }
    }

    #[test]
    fn the_seed_sets_the_first_stop() {
        let config = |seed| SimConfig { seed, stall_every_ns: 1_000_000, stall_ns: 1000, ..SimConfig::default() };
        let first = |seed| Stalls::new(&config(seed)).unwrap().first;
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        assert!((1..100).all(|seed| first(seed) < ticks(1_000_000)));
        assert!(Stalls::new(&SimConfig::default()).is_none());
    }
}
