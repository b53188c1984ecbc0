//! Seeded random numbers: latency jitter and faults by chance, each from a stream of its own.

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
    fn normal(&mut self) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

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
