//! Tempered sequential Monte Carlo (Del Moral, Doucet and Jasra 2006): particles are led to the posterior in steps.
//!
//! Every particle of every move has a generator of its own, so what comes out depends on nothing but the seed.

use crate::ceilings::Forbidden;
use crate::guess::Guess;
use crate::likelihood::{Model, Scratch};
use crate::math::{exp, ln};
use crate::moves::{anywhere, crossed, propose, shuffle, Near, PARTS};
use crate::params::{Table, Theta};
use naslab_workload::Rng;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// Share of the particles that each step of the tempering leaves effective.
const KEPT: f64 = 0.6;
const MAX_STEPS: usize = 120;
const MOVES: usize = 8;
const LAST_MOVES: usize = 30;
/// Particles are led on from this power: low enough for their parts to be exchanged.
const REHEATED: f64 = 0.2;
const MIXING_MOVES: usize = 16;
/// How often each part is drawn anywhere within its prior, at the end, and exchanges between them.
const SETTLING: usize = 8;
const SETTLING_EXCHANGES: usize = 24;
/// The kind of moves by which two explanations change places.
const EXCHANGE: usize = 1;
/// Moves of a posterior that further rows were added to.
pub const FOLLOW_MOVES: usize = 8;
/// Of four moves the last is a crossing.
const CROSSING: usize = 3;
const LEAST_STEP: f64 = 1e-5;
const BISECTIONS: usize = 25;
/// Draws of a whole move, beside those of its particles.
const WHOLE_MOVE: u64 = (1 << 24) - 1;

/// How likely particles make what was seen.
pub trait Likelihood {
    /// What may go wrong.
    type Error;
    /// Log likelihoods; what is below a particle's cutoff may be told as minus infinity, and where the cutoff is infinite
    /// nobody asks.
    fn of(&mut self, theta: &[Theta], cutoff: &[f64], out: &mut [f64]) -> Result<(), Self::Error>;
    /// No likelihood is above this.
    fn most(&self) -> f64;
}

/// The likelihood of rows that were seen, less what a forbidden limit costs.
pub struct Seen<'a> {
    model: &'a Model,
    forbidden: Option<&'a Forbidden>,
    scratch: Scratch,
}

impl<'a> Seen<'a> {
    /// Of these rows.
    pub fn new(model: &'a Model, forbidden: Option<&'a Forbidden>) -> Seen<'a> {
        Seen { model, forbidden, scratch: Scratch::default() }
    }
}

impl Likelihood for Seen<'_> {
    type Error = Infallible;

    fn of(&mut self, theta: &[Theta], cutoff: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        let asked: Vec<usize> = (0..theta.len()).filter(|at| cutoff[*at] < f64::INFINITY).collect();
        let wanted: Vec<Theta> = asked.iter().map(|at| theta[*at]).collect();
        let cutoff: Vec<f64> = asked.iter().map(|at| cutoff[*at]).collect();
        let mut found = vec![0.0; asked.len()];
        self.model.log_likelihood(&wanted, &cutoff, &mut found, &mut self.scratch);
        out.fill(f64::NEG_INFINITY);
        for (at, like) in asked.into_iter().zip(found) {
            // What is lost already is not asked for more.
            let sought = self.forbidden.filter(|_| like > f64::NEG_INFINITY);
            out[at] = like - sought.map_or(0.0, |forbidden| self.model.cost(&theta[at], forbidden));
        }
        Ok(())
    }

    fn most(&self) -> f64 {
        self.model.most()
    }
}

/// Where a run begins, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From draws of the guess to the posterior.
    Sample,
    /// Particles from anywhere are mixed and led on; what comes out lies closer together than it should.
    Gather,
    /// What several runs found is gathered, heated up by steps, and gathered once more.
    LeadOn,
    /// So many moves of a posterior that is nearly right.
    Follow(usize),
}

/// One run of the sampler. `held`: places of parameters that do not move, with their values; `count`: particles wanted.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Bounds of the parameters.
    pub table: &'a Table,
    /// Where particles may lie.
    pub guess: &'a Guess,
    /// Parameters that keep a value.
    pub held: Vec<(usize, f64)>,
    /// Particles to begin with.
    pub start: Vec<Theta>,
    /// Particles wanted.
    pub count: usize,
    /// Of the generators.
    pub seed: u64,
    /// From where to where.
    pub way: Way,
}

/// Particles of the posterior, and the log evidence that was gained on the way.
pub type Found = (Vec<Theta>, f64);

impl Run<'_> {
    /// Carries the run out.
    pub fn go<L: Likelihood>(&self, likelihood: &mut L) -> Result<Found, L::Error> {
        let mut cloud = Cloud::new(self, likelihood)?;
        match self.way {
            Way::Sample => cloud.lead(0.0, likelihood),
            Way::Gather => self.settled(cloud.gather(likelihood)?, likelihood),
            Way::LeadOn => {
                let (theta, _) = cloud.gather(likelihood)?;
                let again = Run { start: theta, ..self.clone() };
                let mut cloud = Cloud::new(&again, likelihood)?;
                cloud.heat(likelihood)?;
                self.settled(cloud.gather(likelihood)?, likelihood)
            }
            Way::Follow(moves) => {
                for turn in 0..moves {
                    cloud.step(turn, 1.0, likelihood)?;
                }
                Ok((cloud.theta, 0.0))
            }
        }
    }
}

/// Runs on the same rows side by side, on as many threads as there are processors; each by itself gives the same.
pub fn side_by_side(model: &Model, forbidden: Option<&Forbidden>, runs: &[Run<'_>]) -> Vec<Found> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![Found::default(); runs.len()]));
    std::thread::scope(|scope| {
        let work = || {
            while let Some((at, run)) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, runs.get(at)?)))
            {
                let Ok(made) = run.go(&mut Seen::new(model, forbidden));
                found.lock().unwrap_or_else(|broken| broken.into_inner())[at] = made;
            }
        };
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    found.into_inner().unwrap_or_else(|broken| broken.into_inner())
}

/// Particles with their log likelihood and their log density under the guess.
struct Cloud<'a> {
    run: &'a Run<'a>,
    theta: Vec<Theta>,
    like: Vec<f64>,
    drawn: Vec<f64>,
    /// Moves that were made.
    turn: u64,
}

impl<'a> Cloud<'a> {
    fn new<L: Likelihood>(run: &'a Run<'a>, likelihood: &mut L) -> Result<Cloud<'a>, L::Error> {
        let mut theta = run.start.clone();
        theta.iter_mut().for_each(|each| run.hold(each));
        let mut like = vec![0.0; theta.len()];
        likelihood.of(&theta, &vec![f64::NEG_INFINITY; theta.len()], &mut like)?;
        let drawn = theta.iter().map(|each| run.guess.log_densities(each)).collect();
        Ok(Cloud { run, theta, like, drawn, turn: 0 })
    }

    /// To the posterior, from a power of the likelihood.
    fn lead<L: Likelihood>(mut self, mut power: f64, likelihood: &mut L) -> Result<Found, L::Error> {
        let mut evidence = 0.0;
        for _ in 0..MAX_STEPS {
            let (step, gained) = self.temper(1.0 - power);
            power = (power + step).min(1.0);
            evidence += gained;
            for turn in 0..if power < 1.0 { MOVES } else { LAST_MOVES } {
                self.step(turn, power, likelihood)?;
            }
            if power >= 1.0 {
                break;
            }
        }
        Ok((self.theta, evidence))
    }

    /// Mixes particles from anywhere and leads them to the posterior.
    fn gather<L: Likelihood>(mut self, likelihood: &mut L) -> Result<Found, L::Error> {
        for turn in 0..MIXING_MOVES {
            self.step(if turn % 2 == 0 { CROSSING } else { turn }, REHEATED, likelihood)?;
        }
        self.lead(REHEATED, likelihood)
    }

    /// From the posterior to the reheated power: particles that lie too close together for it would be led back to a
    /// posterior that is too narrow.
    fn heat<L: Likelihood>(&mut self, likelihood: &mut L) -> Result<(), L::Error> {
        let mut power = 1.0;
        for _ in 0..MAX_STEPS {
            power = (power + self.temper(REHEATED - power).0).max(REHEATED);
            for turn in 0..MOVES {
                self.step(turn, power, likelihood)?;
            }
            if power <= REHEATED {
                break;
            }
        }
        Ok(())
    }

    /// Takes particles for the next power, `left` or less from here, down where that is below nothing: how far it is,
    /// and its share of the log evidence.
    fn temper(&mut self, left: f64) -> (f64, f64) {
        let way = left.signum();
        let gains: Vec<f64> = self.like.iter().zip(&self.drawn).map(|(like, drawn)| way * (like - drawn)).collect();
        let top = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights = |step: f64| gains.iter().map(move |gain| exp(step * (gain - top)));
        let effective = |step: f64| {
            let (sum, squares) = weights(step).fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
            sum * sum / squares / gains.len() as f64
        };
        let (mut low, mut high) = (0.0, left.abs());
        if effective(high) > KEPT {
            low = high;
        }
        for _ in 0..if low < high { BISECTIONS } else { 0 } {
            let middle = (low + high) / 2.0;
            (low, high) = if effective(middle) > KEPT { (middle, high) } else { (low, middle) };
        }
        let step = low.max(LEAST_STEP);
        let weights: Vec<f64> = weights(step).collect();
        let sum: f64 = weights.iter().sum();
        let offset = self.generator(WHOLE_MOVE).unit();
        self.turn += 1;
        self.take(&taken(&weights, sum, offset, self.run.count));
        (way * step, ln(sum / weights.len() as f64) + step * top)
    }

    fn take(&mut self, places: &[usize]) {
        self.theta = places.iter().map(|at| self.theta[*at]).collect();
        self.like = places.iter().map(|at| self.like[*at]).collect();
        self.drawn = places.iter().map(|at| self.drawn[*at]).collect();
    }

    fn generator(&self, particle: u64) -> Rng {
        Rng::new(self.run.seed, self.turn << 24 | particle)
    }

    /// One Metropolis-Hastings move of every particle, at the tempered density.
    fn step<L: Likelihood>(&mut self, turn: usize, power: f64, likelihood: &mut L) -> Result<(), L::Error> {
        if turn % 4 == CROSSING {
            self.cross(power, likelihood)?;
        } else {
            self.try_others(turn % 3, power, likelihood)?;
        }
        self.turn += 1;
        Ok(())
    }

    fn try_others<L: Likelihood>(&mut self, kind: usize, power: f64, likelihood: &mut L) -> Result<(), L::Error> {
        self.attempt(power, likelihood, |cloud, at, rng| {
            let near = Near { cloud: &cloud.theta, guess: cloud.run.guess, table: cloud.run.table };
            propose(&near, kind, at, rng)
        })
    }

    /// Every particle takes what is proposed for it, or does not. proposed: with the log ratio of its densities.
    fn attempt<L: Likelihood>(
        &mut self,
        power: f64,
        likelihood: &mut L,
        proposed: impl Fn(&Self, usize, &mut Rng) -> (Theta, f64),
    ) -> Result<(), L::Error> {
        let run = self.run;
        let count = self.theta.len();
        let (mut tried, mut cutoff) = (self.theta.clone(), vec![f64::INFINITY; count]);
        let mut gained = vec![0.0; count];
        for at in 0..count {
            let mut rng = self.generator(at as u64);
            let (mut new, ratio) = proposed(self, at, &mut rng);
            run.hold(&mut new);
            if run.table.holds(&new) {
                gained[at] = run.guess.change(&self.theta[at], &new);
                let lacking = log_unit(&mut rng) - ratio - (1.0 - power) * gained[at];
                cutoff[at] = self.like[at] + lacking / power;
                tried[at] = new;
            }
        }
        let mut like = vec![0.0; count];
        likelihood.of(&tried, &cutoff, &mut like)?;
        for at in (0..count).filter(|at| like[*at] > cutoff[*at]) {
            (self.theta[at], self.like[at]) = (tried[at], like[at]);
            self.drawn[at] += gained[at];
        }
        Ok(())
    }

    /// Both of a pair take what they exchanged, or neither does; the guess's density of the two together is the same.
    fn cross<L: Likelihood>(&mut self, power: f64, likelihood: &mut L) -> Result<(), L::Error> {
        let half = self.theta.len() / 2;
        let mut order: Vec<usize> = (0..self.theta.len()).collect();
        shuffle(&mut order, &mut self.generator(WHOLE_MOVE));
        let (one, two) = (&order[..half], &order[half..2 * half]);
        let (mut first, mut second, mut needed) = (Vec::new(), Vec::new(), Vec::new());
        for (pair, (one, two)) in one.iter().zip(two).enumerate() {
            let mut rng = self.generator(pair as u64);
            let (new, other) = crossed(&self.theta[*one], &self.theta[*two], &mut rng);
            first.push(new);
            second.push(other);
            needed.push(self.like[*one] + self.like[*two] + log_unit(&mut rng) / power);
        }
        let (mut likes, mut others) = (vec![0.0; half], vec![0.0; half]);
        let most = likelihood.most();
        let cutoff: Vec<f64> = needed.iter().map(|needed| needed - most).collect();
        likelihood.of(&first, &cutoff, &mut likes)?;
        let cutoff: Vec<f64> = needed.iter().zip(&likes).map(|(needed, like)| needed - like).collect();
        likelihood.of(&second, &cutoff, &mut others)?;
        for pair in (0..half).filter(|at| likes[*at] + others[*at] > needed[*at]) {
            for (at, new, like) in [(one[pair], &first, &likes), (two[pair], &second, &others)] {
                self.drawn[at] += self.run.guess.change(&self.theta[at], &new[pair]);
                (self.theta[at], self.like[at]) = (new[pair], like[pair]);
            }
        }
        Ok(())
    }
}

impl Run<'_> {
    fn hold(&self, theta: &mut Theta) {
        for (at, value) in &self.held {
            theta[*at] = *value;
        }
    }

    /// The same after every part was drawn anew by itself, and changed places with others: what happens to be as slow as
    /// the limit, without need, and explanations that need more to be as it is, are rarer than they were begun with.
    fn settled<L: Likelihood>(&self, found: Found, likelihood: &mut L) -> Result<Found, L::Error> {
        let again = Run { start: found.0, seed: !self.seed, ..self.clone() };
        let mut cloud = Cloud::new(&again, likelihood)?;
        for _ in 0..SETTLING {
            for part in PARTS {
                cloud.attempt(1.0, likelihood, |cloud, at, rng| {
                    (anywhere(cloud.run.table, &cloud.theta[at], part, rng), 0.0)
                })?;
                cloud.turn += 1;
            }
            for _ in 0..SETTLING_EXCHANGES {
                cloud.try_others(EXCHANGE, 1.0, likelihood)?;
                cloud.turn += 1;
            }
        }
        Ok((cloud.theta, found.1))
    }
}

/// Logarithm of a number drawn from 0 to 1.
fn log_unit(rng: &mut Rng) -> f64 {
    ln(rng.unit().max(1e-300))
}

/// Places of `count` particles by their weight, evenly spread (systematic resampling).
fn taken(weights: &[f64], sum: f64, offset: f64, count: usize) -> Vec<usize> {
    let (mut at, mut below) = (0, weights[0]);
    let mut places = Vec::with_capacity(count);
    for k in 0..count {
        let wanted = (offset + k as f64) / count as f64 * sum;
        while below < wanted && at + 1 < weights.len() {
            at += 1;
            below += weights[at];
        }
        places.push(at);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::Param;
    use crate::testing::unit_table;

    const SPREAD: f64 = 0.02;

    /// A normal distribution of three parameters, two of them correlated; flat in all others.
    struct Bell(usize);

    impl Likelihood for Bell {
        type Error = Infallible;

        fn of(&mut self, theta: &[Theta], _cutoff: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
            self.0 += theta.len();
            for (to, each) in out.iter_mut().zip(theta) {
                let off = |at: Param, middle: f64| (each[at as usize] - middle) / SPREAD;
                let (x, y, z) = (off(Param::Link, 0.3), off(Param::Memory, 0.6), off(Param::Cache, 0.5));
                *to = -0.5 * (x * x + (x - y) * (x - y) + z * z);
            }
            Ok(())
        }

        fn most(&self) -> f64 {
            0.0
        }
    }

    fn moments(theta: &[Theta], at: Param) -> (f64, f64) {
        let values: Vec<f64> = theta.iter().map(|each| each[at as usize]).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, (values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / values.len() as f64).sqrt())
    }

    fn run_of<'a>(table: &'a Table, guess: &'a Guess, seed: u64, count: usize) -> Run<'a> {
        let start = (0..6 * count as u64).map(|at| guess.draw(&mut Rng::new(seed, at))).collect();
        Run { table, guess, held: vec![(Param::LockOn as usize, 0.25)], start, count, seed, way: Way::Sample }
    }

    #[test]
    fn a_known_posterior_and_its_evidence_come_out() {
        let table = unit_table();
        let guess = Guess::new(&table, &[(Param::Link as usize, vec![0.32, 0.7])], 0.3, 0.05).unwrap();
        let (theta, evidence) = run_of(&table, &guess, 7, 1500).go(&mut Bell(0)).unwrap();
        // Of the prior's mass 1: the integral of three unit bells (the pair's determinant is 1).
        let wanted = 1.5 * std::f64::consts::TAU.ln() + 3.0 * SPREAD.ln();
        assert!((evidence - wanted).abs() < 0.3, "{evidence} {wanted}");
        for (at, middle, spread) in [
            (Param::Link, 0.3, SPREAD),
            (Param::Memory, 0.6, 2.0_f64.sqrt() * SPREAD),
            (Param::Cache, 0.5, SPREAD),
            (Param::Window, 0.5, 1.0 / 12.0_f64.sqrt()),
        ] {
            let (mean, deviation) = moments(&theta, at);
            assert!((mean - middle).abs() < 0.2 * spread, "{at:?}: {mean}");
            assert!((deviation / spread - 1.0).abs() < 0.15, "{at:?}: {deviation} {spread}");
        }
        assert!(theta.iter().all(|each| each[Param::LockOn as usize] == 0.25 && table.holds(each)));
    }

    #[test]
    fn what_was_found_is_led_on_to_the_same() {
        let table = unit_table();
        let guess = Guess::new(&table, &[], 0.3, 0.05).unwrap();
        let (found, _) = run_of(&table, &guess, 8, 800).go(&mut Bell(0)).unwrap();
        let (_, before) = moments(&found, Param::Link);
        for way in [Way::LeadOn, Way::Follow(8)] {
            let again = Run { start: found.clone(), way, ..run_of(&table, &guess, 9, 800) };
            let (theta, _) = again.go(&mut Bell(0)).unwrap();
            let (mean, deviation) = moments(&theta, Param::Link);
            // Mixed and led on without the heating by steps, it came out at 0.71 of the width.
            assert!((mean - 0.3).abs() < 0.3 * SPREAD, "{mean}");
            assert!((deviation / before - 1.0).abs() < 0.25, "{way:?}: {deviation} {before}");
        }
    }

    #[test]
    fn one_seed_gives_one_answer() {
        let table = unit_table();
        let guess = Guess::new(&table, &[], 0.3, 0.05).unwrap();
        let [one, two, other] = [1, 1, 2].map(|seed| run_of(&table, &guess, seed, 60).go(&mut Bell(0)).unwrap());
        assert_eq!(one, two);
        assert_ne!(one, other);
    }

    #[test]
    fn particles_are_taken_by_their_weight() {
        let found = taken(&[1.0, 0.0, 3.0], 4.0, 0.5, 8);
        assert_eq!(found, [0, 0, 2, 2, 2, 2, 2, 2]);
        assert_eq!(taken(&[0.0, 1.0], 1.0, 0.0, 2).len(), 2);
    }
}
