//! Where parameters may lie by what was measured: the prior, and bumps at measured rates and times.

use crate::math::{exp, ln};
use crate::params::{Mismatch, Table, Theta, DIMS};
use naslab_workload::Rng;

/// Cells of the table of a density: the widest range is 17 in logarithms.
const GRID: usize = 4000;
/// A bump ends so many widths away.
const REACH: f64 = 9.0;

/// A density to draw particles from, by parameter.
#[derive(Clone, Debug)]
pub struct Guess {
    low: Theta,
    high: Theta,
    /// Cells of a table by unit of the parameter.
    cells: Theta,
    /// The prior's share.
    broad: f64,
    /// Width of a bump, a normal distribution's.
    near: f64,
    bumps: Vec<Vec<f64>>,
    /// Log densities against the prior's; of parameters without bumps none.
    tables: Vec<Vec<f64>>,
}

impl Guess {
    /// `bumps`: places by parameter, each between the parameter's ends.
    pub fn new(table: &Table, bumps: &[(usize, Vec<f64>)], broad: f64, near: f64) -> Result<Guess, Mismatch> {
        let (low, high) = (table.low, table.high);
        let cells = std::array::from_fn(|at| GRID as f64 / (high[at] - low[at]));
        let mut found = Guess { low, high, cells, broad, near, bumps: vec![Vec::new(); DIMS], tables: Vec::new() };
        for (at, places) in bumps {
            let ends = found.low.get(*at).zip(found.high.get(*at));
            let ends = ends.ok_or_else(|| Mismatch(format!("bumps of parameter {at} of {DIMS}")))?;
            if places.iter().any(|place| place < ends.0 || place > ends.1) {
                return Err(Mismatch(format!("a bump of parameter {at} beyond its ends")));
            }
            found.bumps[*at].clone_from(places);
        }
        found.tables = (0..DIMS).map(|at| found.table(at)).collect();
        Ok(found)
    }

    fn table(&self, at: usize) -> Vec<f64> {
        let (bumps, cell) = (&self.bumps[at], (self.high[at] - self.low[at]) / GRID as f64);
        if bumps.is_empty() {
            return Vec::new();
        }
        let mut bell = vec![0.0; GRID + 1];
        let top = 1.0 / (self.near * std::f64::consts::TAU.sqrt() * bumps.len() as f64);
        for bump in bumps {
            let place = |value: f64| ((value - self.low[at]) / cell).clamp(0.0, GRID as f64) as usize;
            let (first, last) = (place(bump - REACH * self.near), place(bump + REACH * self.near));
            for (step, to) in bell.iter_mut().enumerate().take(last + 1).skip(first) {
                let off = (self.low[at] + step as f64 * cell - bump) / self.near;
                *to += top * exp(-0.5 * off * off);
            }
        }
        // What a bump would draw beyond an end is drawn from the prior instead.
        let inside = (bell.iter().sum::<f64>() - 0.5 * (bell[0] + bell[GRID])) * cell;
        let beyond = (1.0 - inside).max(0.0);
        let width = self.high[at] - self.low[at];
        bell.iter().map(|bell| ln(self.broad + (1.0 - self.broad) * (beyond + bell * width))).collect()
    }

    /// One particle.
    pub fn draw(&self, rng: &mut Rng) -> Theta {
        std::array::from_fn(|at| self.draw_one(at, rng))
    }

    /// One parameter of a particle.
    pub(crate) fn draw_one(&self, at: usize, rng: &mut Rng) -> f64 {
        let bumps = &self.bumps[at];
        if !bumps.is_empty() && rng.unit() > self.broad {
            let near = bumps[rng.below(bumps.len() as u64) as usize] + self.near * normal(rng);
            if self.low[at] < near && near < self.high[at] {
                return near;
            }
        }
        self.low[at] + (self.high[at] - self.low[at]) * rng.unit()
    }

    /// Log density of one parameter against its log-uniform prior's.
    pub fn log_density(&self, at: usize, value: f64) -> f64 {
        let table = &self.tables[at];
        if table.is_empty() {
            return 0.0;
        }
        let place = (value - self.low[at]) * self.cells[at] + 0.5;
        table[place.clamp(0.0, GRID as f64) as usize]
    }

    /// Of all parameters together.
    pub(crate) fn log_densities(&self, theta: &Theta) -> f64 {
        theta.iter().enumerate().map(|(at, value)| self.log_density(at, *value)).sum()
    }

    /// By how much that changes from one particle to another.
    pub(crate) fn change(&self, from: &Theta, to: &Theta) -> f64 {
        let changed = (0..DIMS).filter(|at| from[*at] != to[*at]);
        changed.map(|at| self.log_density(at, to[at]) - self.log_density(at, from[at])).sum()
    }
}

/// A number of the normal distribution (Marsaglia's polar method).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.unit() - 1.0, 2.0 * rng.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Param;
    use crate::testing::unit_table;

    #[test]
    fn a_guess_is_a_density_and_draws_from_it() {
        let at = Param::Link as usize;
        let guess = Guess::new(&unit_table(), &[(at, vec![0.0, 0.3, 0.7])], 0.3, 0.05).unwrap();
        let steps = 100_000;
        let mass: f64 = (0..steps).map(|k| guess.log_density(at, (k as f64 + 0.5) / steps as f64).exp()).sum();
        assert!((mass / steps as f64 - 1.0).abs() < 1e-3, "{mass}");
        let mut rng = Rng::new(1, 0);
        let drawn: Vec<f64> = (0..steps).map(|_| guess.draw(&mut rng)[at]).collect();
        let within = drawn.iter().filter(|value| (0.25..0.35).contains(*value)).count() as f64 / steps as f64;
        let wanted: f64 = (0..1000).map(|k| guess.log_density(at, 0.25 + 1e-4 * k as f64).exp() * 1e-4).sum();
        assert!((within - wanted).abs() < 0.01, "{within} {wanted}");
        assert_eq!(guess.log_density(Param::Memory as usize, 0.5), 0.0);
        assert!(Guess::new(&unit_table(), &[(at, vec![2.0])], 0.3, 0.05).is_err());
        assert!(Guess::new(&unit_table(), &[(DIMS, vec![])], 0.3, 0.05).is_err());
    }

    #[test]
    fn normal_numbers_have_mean_nought_and_variance_one() {
        let mut rng = Rng::new(2, 0);
        let drawn: Vec<f64> = (0..100_000).map(|_| normal(&mut rng)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| x * x).sum::<f64>() / drawn.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
