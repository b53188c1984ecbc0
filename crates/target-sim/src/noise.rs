//! Seeded random numbers: latency jitter, rates that wander, faults by chance, each from a stream of its own.

use crate::resource::{ticks, Ticks};

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A seeded stream of random numbers.
#[derive(Debug)]
pub(crate) struct Noise {
    rng: Xoshiro256PlusPlus,
    spare: Option<f64>,
}

impl Noise {
    /// Stream number `stream` of this seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Noise {
        let mixed = seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Noise { rng: Xoshiro256PlusPlus::seed_from_u64(mixed), spare: None }
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Marsaglia's polar method.
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(z) = self.spare.take() {
            return z;
        }
        loop {
            let u = 2.0 * self.uniform() - 1.0;
            let v = 2.0 * self.uniform() - 1.0;
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                // libm, not the system's: the same last bit on every machine.
                let scale = (-2.0 * libm::log(s) / s).sqrt();
                self.spare = Some(v * scale);
                return u * scale;
            }
        }
    }

    /// Lognormal with this mean and a standard deviation of `relative` times the mean.
    pub(crate) fn lognormal_ns(&mut self, mean_ns: u64, relative: f64) -> u64 {
        if relative == 0.0 || mean_ns == 0 {
            return mean_ns;
        }
        let variance = libm::log(1.0 + relative * relative);
        let x = libm::exp(variance.sqrt() * self.normal() - variance / 2.0);
        (mean_ns as f64 * x).round() as u64
    }
}

/// Bits behind the point of a factor of `RateNoise`.
pub(crate) const FACTOR_BITS: u32 = 20;
/// A rate never falls below this share of its mean.
const LEAST_FACTOR: f64 = 0.02;

/// A factor on a rate that changes from span to span: normal around 1, each span like the one before in part
/// (first-order autoregressive).
#[derive(Debug)]
pub(crate) struct RateNoise {
    noise: Noise,
    deviation: f64,
    memory: f64,
    span: Ticks,
    /// Standard normal over the long run.
    level: f64,
    factor: u128,
    /// The factor holds until here.
    until: Ticks,
}

impl RateNoise {
    /// None without a deviation.
    pub(crate) fn new(noise: Noise, deviation: f64, memory: f64, span_ns: u64) -> Option<RateNoise> {
        let quiet = RateNoise { noise, deviation, memory, span: ticks(span_ns), level: 0.0, factor: 0, until: 0 };
        (deviation > 0.0).then_some(quiet)
    }

    /// The factor now, in 2^-FACTOR_BITS, and the later time until which it holds.
    pub(crate) fn at(&mut self, now: Ticks) -> (u128, Ticks) {
        if now >= self.until {
            let spans = (now - self.until) / self.span + 1;
            let kept = if self.until == 0 { 0.0 } else { libm::pow(self.memory, spans as f64) };
            self.level = kept * self.level + (1.0 - kept * kept).sqrt() * self.noise.normal();
            let factor = (1.0 + self.deviation * self.level).max(LEAST_FACTOR);
            self.factor = (factor * f64::from(1u32 << FACTOR_BITS)).round() as u128;
            self.until += spans * self.span;
        }
        (self.factor, self.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors of the first `n` spans of 100 ms, asked for every `every` spans.
    fn factors(deviation: f64, memory: f64, n: usize, every: u64) -> Vec<f64> {
        let mut noise = RateNoise::new(Noise::new(7, 5), deviation, memory, 100_000_000).unwrap();
        let at = |i: usize| ticks(i as u64 * every * 100_000_000 + 1);
        (0..n).map(|i| noise.at(at(i)).0 as f64 / f64::from(1u32 << FACTOR_BITS)).collect()
    }

    /// Mean, standard deviation, and correlation of neighbours.
    fn moments(xs: &[f64]) -> (f64, f64, f64) {
        let n = xs.len() as f64;
        let mean = xs.iter().sum::<f64>() / n;
        let var = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let pairs = xs.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / n;
        (mean, var.sqrt(), pairs / var)
    }

    #[test]
    fn a_rate_wanders_as_much_and_as_slowly_as_asked_for() {
        // Standard errors at 200,000 spans: below 0.0008 on the mean (memory 0.7), 0.002 on the correlation.
        for (memory, every, expected) in [(0.0, 1, 0.0), (0.7, 1, 0.7), (0.7, 3, 0.343)] {
            let (mean, sd, rho) = moments(&factors(0.1, memory, 200_000, every));
            assert!((mean - 1.0).abs() < 0.003, "{memory}: mean {mean}");
            assert!((sd - 0.1).abs() < 0.001, "{memory}: sd {sd}");
            assert!((rho - expected).abs() < 0.01, "{memory} every {every}: rho {rho}");
        }
    }

    #[test]
    fn a_factor_holds_for_its_span() {
        let mut noise = RateNoise::new(Noise::new(7, 5), 0.1, 0.5, 1000).unwrap();
        let first = noise.at(0);
        assert_eq!(first.1, ticks(1000));
        assert_eq!(noise.at(ticks(1000) - 1), first);
        let second = noise.at(ticks(1000));
        assert_ne!(second.0, first.0);
        assert_eq!(second.1, ticks(2000));
        assert_eq!(noise.at(ticks(5500)).1, ticks(6000), "spans without load count");
        assert!(RateNoise::new(Noise::new(7, 5), 0.0, 0.5, 1000).is_none());
    }

    #[test]
    fn jitter_has_the_mean_and_deviation_asked_for() {
        let mut noise = Noise::new(7, 1);
        let n = 200_000;
        let xs: Vec<f64> = (0..n).map(|_| noise.lognormal_ns(100_000, 0.3) as f64).collect();
        let mean = xs.iter().sum::<f64>() / n as f64;
        let var = xs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        // Standard errors: 67 ns on the mean, about 80 ns on the deviation; five of them allowed.
        assert!((mean - 100_000.0).abs() < 340.0, "mean {mean}");
        assert!((var.sqrt() - 30_000.0).abs() < 500.0, "sd {}", var.sqrt());
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Noise::new(1, 1).uniform(), Noise::new(1, 2).uniform());
    }

    #[test]
    fn no_jitter_draws_nothing() {
        assert_eq!(Noise::new(1, 1).lognormal_ns(200_000, 0.0), 200_000);
    }
}
