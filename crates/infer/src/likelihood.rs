//! Rows, the likelihood of a particle, and what it predicts.

use crate::ceilings::Forbidden;
use crate::forward::{free_rate, lanes, rooms, storage, written_back, Lanes, Servers, Storage};
use crate::forward::{scope_of, HIT_EDGE_BYTES, LEAST, WIDTH};
use crate::math::{exp, larger, ln};
use crate::params::{Mismatch, Param, Table, Theta};
use crate::rows::{Columns, Conditions, Rows, FREEDOM};
use crate::shared::{beside, Credit, Stored};

/// Density of Student's t with four degrees of freedom at 0.
const PEAK: f64 = 0.375;
const CLIENT_ERROR: f64 = 0.05;
const CLIENT_MOST: f64 = 60.0;
/// Of the processor time that a server on this machine is known to work for an operation, at least; nats at most.
const SERVER_ERROR: f64 = 0.1;
const SERVER_MOST: f64 = 30.0;
/// Times as long as its counted work that a server takes for an operation, and the standard deviation of the logarithm.
const IDLE: [f64; 2] = [1.5, 0.5];
const IDLE_MOST: f64 = 4.0;
/// A link shaped one way costs so many nats; one in forty.
const SHAPED_ONE_WAY: f64 = 8.5;
/// As `hypotheses.log_prior`: bytes a second that a processor copies at least, and of a window that is seldom one.
const COPIED: f64 = 60e6;
const SLOW_COPY: f64 = 2.0;
const AS_COPIED: [f64; 2] = [4e8, 8e9];
const FAST: f64 = 3.5;
const ONE_WAY_BUCKET: f64 = 3.0;
const LINK_ONE_WAY: [u8; 2] = [4, 5];
const COPIES: f64 = 1.0;
const COLD: f64 = 3.0;
const COPIED_ALIKE: f64 = 0.1;
/// Density of the share that waits in a full link's queue, where any share is as likely; of the rest, by the share.
const UNQUEUED: f64 = 0.3;
/// Bytes that nearly every server keeps of what was read, and nats of one that does not.
const LEAST_CACHE: f64 = 1e8;
const UNCACHED: f64 = 1.5;

/// Rows that were seen, with the bounds of what may explain them.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) table: Table,
    rows: Rows,
    /// Bytes of an operation, and the log of the client's counted time for it.
    client: Vec<(f64, f64)>,
    /// Bytes of an operation, and the log of what the server's processor works for it at least.
    server: Vec<(f64, f64)>,
    most: f64,
    slots_edge: f64,
    waits: f64,
    cache_edge: f64,
    hit_edge: f64,
    copied: f64,
    step: f64,
    as_copied: std::ops::Range<f64>,
}

/// Room for the rows of a few particles.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    stored: Vec<Storage>,
    /// Log rates before credit.
    rates: Vec<Lanes>,
    room: Vec<Lanes>,
    has_rooms: bool,
    /// Rows whose rate is known.
    known: Vec<bool>,
    /// What rows that are too slow take.
    slow: Vec<Lanes>,
}

type Credits = [Option<Credit>; WIDTH];

const USUAL_MEMORY: f64 = 500e6;
const USUAL_WINDOW: f64 = 4e9;
const USUAL_SERVER_S: f64 = 3e-5;
const SLOW_SERVER: f64 = 2.0;
const SLOW_MEMORY: f64 = 4.0;
const SLOW_WINDOW: f64 = 3.0;
const ONE_WAY: f64 = 3.0;
const SKEWED_DISKS: f64 = 4.0;
const MOST_SKEWED: f64 = 12.0;
const STANDARD: f64 = 2.3;
const LINKS_BITS_PER_S: [f64; 5] = [1e8, 1e9, 2.5e9, 5e9, 10e9];
const BELOW: f64 = 0.90 * 0.95;
const ABOVE: f64 = 1.02;

impl Model {
    /// `client`: bytes of an operation and the seconds of the client's processor that were counted for it; `server`: of
    /// the server's, at least.
    ///
    /// Column `scale` is the standard deviation of `seen` with the model's own error.
    pub fn new(
        table: Table,
        columns: &Columns,
        conditions: Conditions,
        client: &[(f64, f64)],
        server: &[(f64, f64)],
    ) -> Result<Model, Mismatch> {
        let rows = Rows::new(columns, conditions)?;
        if client.iter().chain(server).any(|(_, seconds)| !seconds.is_finite() || *seconds <= 0.0) {
            return Err(Mismatch("a processor that takes no time".to_owned()));
        }
        let most = rows.weight * ln(PEAK);
        let logs = |times: &[(f64, f64)]| times.iter().map(|(record, seconds)| (*record, ln(*seconds))).collect();
        let (client, server) = (logs(client), logs(server));
        let slots_edge = ln(300.0);
        let (copied, step, as_copied) = (ln(COPIED), ln(4.0), ln(AS_COPIED[0])..ln(AS_COPIED[1]));
        let (cache_edge, hit_edge) = (ln(LEAST_CACHE), ln(HIT_EDGE_BYTES));
        let waits = (1.0 - UNQUEUED) * ln(100.0);
        Ok(Model {
            table,
            rows,
            client,
            server,
            most,
            slots_edge,
            waits,
            cache_edge,
            hit_edge,
            copied,
            step,
            as_copied,
        })
    }

    /// Bounds of the parameters.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows.each.len()
    }

    /// No likelihood is above this.
    pub(crate) fn most(&self) -> f64 {
        self.most
    }

    /// Whether what is forbidden is what limits a server.
    pub fn is_limited_by(&self, theta: &Theta, forbidden: &Forbidden) -> bool {
        forbidden.is_limit(theta, &self.table, &self.rows.conditions)
    }

    /// What a forbidden limit costs a server.
    pub(crate) fn cost(&self, theta: &Theta, forbidden: &Forbidden) -> f64 {
        forbidden.cost(theta, &self.table, &self.rows.conditions)
    }

    /// Log operations per second of each row, (particles, rows).
    pub fn predict(&self, theta: &[Theta]) -> Vec<f64> {
        let (rows, mut scratch) = (self.rows(), Scratch::default());
        let mut out = vec![0.0; theta.len() * rows];
        for (group, out) in theta.chunks(WIDTH).zip(out.chunks_mut((WIDTH * rows).max(1))) {
            let servers = self.servers(group);
            let mut credits = credits(&servers);
            scratch.begin(rows);
            for at in self.rows.order.iter().copied() {
                self.know(&servers, at, &mut scratch);
                let rates = self.spent(at, &mut credits, &scratch);
                for (to, rate) in out.chunks_exact_mut(rows).zip(rates) {
                    to[at] = larger(rate, LEAST);
                }
            }
        }
        out
    }

    /// Student's t on log rates, the client's own time, and the priors' shape; minus infinity where that is below a
    /// particle's cutoff, which may end its sum early.
    pub fn log_likelihood(&self, theta: &[Theta], cutoff: &[f64], out: &mut [f64], scratch: &mut Scratch) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has what the function is compiled for.
            return unsafe { self.log_likelihood_wide(theta, cutoff, out, scratch) };
        }
        self.log_likelihoods(theta, cutoff, out, scratch);
    }

    /// The same operations with four particles in one register, so the same digits; a quarter of a verdict's time less.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn log_likelihood_wide(&self, theta: &[Theta], cutoff: &[f64], out: &mut [f64], scratch: &mut Scratch) {
        self.log_likelihoods(theta, cutoff, out, scratch);
    }

    /// Whoever calls this decides for which registers it is compiled, with all that it calls.
    #[inline(always)]
    fn log_likelihoods(&self, theta: &[Theta], cutoff: &[f64], out: &mut [f64], scratch: &mut Scratch) {
        for ((group, cutoff), out) in theta.chunks(WIDTH).zip(cutoff.chunks(WIDTH)).zip(out.chunks_mut(WIDTH)) {
            let cutoff = lanes(|i| cutoff.get(i).copied().unwrap_or(f64::INFINITY));
            let like = self.of_group(group, &cutoff, scratch);
            for (to, (like, cutoff)) in out.iter_mut().zip(like.iter().zip(cutoff)) {
                *to = if *like < cutoff { f64::NEG_INFINITY } else { *like };
            }
        }
    }

    /// Sums that are right where they reach the cutoff.
    #[inline(always)]
    fn of_group(&self, theta: &[Theta], cutoff: &Lanes, scratch: &mut Scratch) -> Lanes {
        let usual = self.rows.conditions.usual;
        let prior = |each: &Theta| self.log_prior(each) + if usual { log_usual(each) } else { 0.0 };
        let first = |each: &Theta| self.most + prior(each) + self.log_client(each) + self.log_server(each);
        let mut sum = lanes(|i| theta.get(i).map_or(f64::NEG_INFINITY, first));
        if is_lost(&sum, cutoff) {
            return sum;
        }
        let servers = self.servers(theta);
        scratch.begin(self.rows());
        for at in self.rows.telling.iter().copied() {
            self.know(&servers, at, scratch);
            let (row, rates, has_credit) = (&self.rows.each[at], &scratch.rates[at], &servers.has_bucket);
            // Credit only lowers a rate: what is too slow without it stays so.
            let slow = self.misfit(at, rates);
            let slow = lanes(|i| if has_credit[i] > 0.5 && rates[i] > row.seen { 0.0 } else { slow[i] });
            scratch.slow[at] = slow;
            sum = lanes(|i| sum[i] - slow[i]);
            if is_lost(&sum, cutoff) {
                return sum;
            }
        }
        if servers.buckets.iter().all(Option::is_none) {
            return sum;
        }
        self.with_credit(&servers, sum, cutoff, scratch)
    }

    /// The sums with what credit takes away.
    #[inline(always)]
    fn with_credit(&self, servers: &Servers, mut sum: Lanes, cutoff: &Lanes, scratch: &mut Scratch) -> Lanes {
        let mut credits = credits(servers);
        for at in self.rows.order.iter().copied() {
            self.know(servers, at, scratch);
            let rates = self.spent(at, &mut credits, scratch);
            let (misfit, slow) = (self.misfit(at, &rates), &scratch.slow[at]);
            let weighs = self.rows.each[at].weight > 0.0;
            sum = lanes(|i| if weighs && credits[i].is_some() { sum[i] + slow[i] - misfit[i] } else { sum[i] });
            if is_lost(&sum, cutoff) {
                break;
            }
        }
        sum
    }

    /// A group that is not full is filled with its first.
    #[inline(always)]
    fn servers(&self, theta: &[Theta]) -> Servers {
        let group: [Theta; WIDTH] = std::array::from_fn(|i| *theta.get(i).unwrap_or(&theta[0]));
        Servers::new(&group, &self.table, &self.rows.conditions)
    }

    /// Finds the log rates of a row before credit, with the row beside it.
    #[inline(always)]
    fn know(&self, servers: &Servers, at: usize, scratch: &mut Scratch) {
        if std::mem::replace(&mut scratch.known[at], true) {
            return;
        }
        let row = &self.rows.each[at];
        if let Some(other) = row.pair {
            scratch.known[other] = true;
            return self.pair(servers, if row.read { [at, other] } else { [other, at] }, scratch);
        }
        scratch.stored[at] = storage(servers, row);
        scratch.rates[at] = self.alone(servers, at, scratch);
    }

    /// Log rates of a row by itself, whose storage is known.
    #[inline(always)]
    fn alone(&self, servers: &Servers, at: usize, scratch: &mut Scratch) -> Lanes {
        let (row, stored) = (&self.rows.each[at], &scratch.stored[at]);
        let rates = free_rate(&self.rows, servers, row, stored);
        if row.read || row.durable {
            return rates;
        }
        if !std::mem::replace(&mut scratch.has_rooms, true) {
            rooms(&self.rows, servers, &mut scratch.room);
        }
        written_back(row, stored, &scratch.room[at], &rates)
    }

    /// Finds the log rates of a reader and the writer beside it.
    #[inline(always)]
    fn pair(&self, servers: &Servers, at: [usize; 2], scratch: &mut Scratch) {
        let rows = at.map(|at| &self.rows.each[at]);
        let mut rates = [Lanes::default(); 2];
        for k in 0..2 {
            scratch.stored[at[k]] = storage(servers, rows[k]);
            let alone = self.alone(servers, at[k], scratch);
            rates[k] = lanes(|i| exp(alone[i]));
        }
        beside(servers, rows, &at.map(|at| scratch.stored[at]), &mut rates);
        for k in 0..2 {
            scratch.rates[at[k]] = lanes(|i| ln(larger(rates[k][i], 1e-300)));
        }
    }

    /// Log rates of a row after credit; rows have to be asked for in the order of their start.
    #[inline(always)]
    fn spent(&self, at: usize, credits: &mut Credits, scratch: &Scratch) -> Lanes {
        let (row, rates, stored) = (&self.rows.each[at], &scratch.rates[at], &scratch.stored[at]);
        if row.null || credits.iter().all(Option::is_none) {
            return *rates;
        }
        let free = lanes(|i| exp(rates[i]) * row.record);
        let left = lanes(|i| match &mut credits[i] {
            Some(credit) => credit.spend(row, &Stored::of(stored, i), free[i]),
            None => free[i],
        });
        let lowered = lanes(|i| ln(larger(left[i] / row.record, 1e-300)));
        lanes(|i| if left[i] < free[i] { lowered[i] } else { rates[i] })
    }

    /// What a row takes from the log likelihood.
    #[inline(always)]
    fn misfit(&self, at: usize, rates: &Lanes) -> Lanes {
        let row = &self.rows.each[at];
        lanes(|i| {
            let z = (larger(rates[i], LEAST) - row.seen) * row.per_scale;
            row.share * ln(1.0 + z * z / FREEDOM)
        })
    }

    /// The client's processor time is counted directly: thin tails.
    fn log_client(&self, theta: &Theta) -> f64 {
        let (each, byte) = (exp(theta[Param::ClientS as usize]), exp(theta[Param::ClientByteS as usize]));
        let off = |(record, seconds): &(f64, f64)| {
            let z = (ln(each + byte * record) - seconds) / CLIENT_ERROR;
            (z * z / 2.0).min(CLIENT_MOST)
        };
        -self.client.iter().map(off).sum::<f64>()
    }

    /// What a server costs that takes less time for an operation than its processor was seen to work for it, or much
    /// more.
    fn log_server(&self, theta: &Theta) -> f64 {
        let (each, byte) = (exp(theta[Param::ServerS as usize]), exp(-theta[Param::Memory as usize]));
        let off = |(record, seconds): &(f64, f64)| {
            let more = ln(each + byte * record) - seconds;
            let z = (more / SERVER_ERROR).min(0.0);
            let idle = ((more - ln(IDLE[0])) / IDLE[1]).max(0.0);
            let idle = if self.rows.conditions.counted { (idle * idle / 2.0).min(IDLE_MOST) } else { 0.0 };
            (z * z / 2.0).min(SERVER_MOST) + idle
        };
        -self.server.iter().map(off).sum::<f64>()
    }

    /// Log density of the priors that are not log-uniform, as `hypotheses.log_prior`; never above 0.
    fn log_prior(&self, theta: &Theta) -> f64 {
        let value = |at: Param| theta[at as usize];
        let links = [value(Param::Link), value(Param::Link) + value(Param::UplinkRatio)];
        let disks = (value(Param::DiskRead) - value(Param::DiskWrite)) / 0.7;
        let shaped = value(Param::UplinkRatio) / 0.02;
        let mut found = -(disks * disks / 2.0).min(MOST_SKEWED) - ln(1.0 + shaped * shaped).min(SHAPED_ONE_WAY);
        if value(Param::Cache) < self.cache_edge {
            found -= UNCACHED;
        }
        if value(Param::Slots) < self.slots_edge {
            found -= 2.0;
        }
        if value(Param::ServerLanes) > 0.0 {
            found -= 1.0;
        }
        if value(Param::CopyLanes) > 0.0 {
            found -= COPIES + SLOW_COPY * ((self.copied - value(Param::Memory)) / self.step).clamp(0.0, 2.0);
        }
        if self.as_copied.contains(&value(Param::Window)) {
            found -= FAST;
        }
        if self.rows.conditions.here && links.iter().any(|link| self.as_copied.contains(link)) {
            found -= FAST;
        }
        if self.rows.conditions.here {
            let apart = value(Param::CopyRatio) / COPIED_ALIKE;
            found -= ln(1.0 + apart * apart);
            for (disks, store, edge) in
                [(Param::DiskRead, Param::Cache, self.cache_edge), (Param::DiskWrite, Param::WriteBack, self.hit_edge)]
            {
                if self.as_copied.contains(&value(disks)) && value(store) < edge {
                    found -= FAST;
                }
            }
        }
        if self.table.is_on(theta, Param::BucketOn) && LINK_ONE_WAY.contains(&scope_of(theta, &self.table)) {
            found -= ONE_WAY_BUCKET;
        }
        found += ln((UNQUEUED + self.waits * exp(value(Param::Queue))) / (UNQUEUED + self.waits));
        found - COLD * value(Param::Cold).max(0.0)
    }
}

/// What usually holds, as `hypotheses.log_usual`; with `log_prior` never above 0.
fn log_usual(theta: &Theta) -> f64 {
    let value = |at: Param| theta[at as usize];
    let (step, disks) = (ln(4.0), (value(Param::DiskRead) - value(Param::DiskWrite)) / 0.7);
    let skewed = disks * disks / 2.0;
    let link = exp(value(Param::Link));
    let standard = LINKS_BITS_PER_S.iter().map(|bits| link * 8.0 / bits).any(|share| share > BELOW && share < ABOVE);
    skewed.min(MOST_SKEWED)
        - skewed.min(SKEWED_DISKS)
        - SLOW_MEMORY * ((ln(USUAL_MEMORY) - value(Param::Memory)) / step).clamp(0.0, 2.0)
        - SLOW_WINDOW * ((ln(USUAL_WINDOW) - value(Param::Window)) / step).clamp(0.0, 3.0)
        - SLOW_SERVER * ((value(Param::ServerS) - ln(USUAL_SERVER_S)) / step).clamp(0.0, 2.0)
        - ONE_WAY * (value(Param::UplinkRatio).abs() / ln(1.5)).min(1.0)
        - if standard { 0.0 } else { STANDARD }
}

impl Scratch {
    /// Forgets the particles before.
    fn begin(&mut self, rows: usize) {
        if self.known.len() != rows {
            self.stored.resize(rows, Storage::default());
            self.rates.resize(rows, Lanes::default());
            self.room.resize(rows, Lanes::default());
            self.slow.resize(rows, Lanes::default());
        }
        self.known.clear();
        self.known.resize(rows, false);
        self.has_rooms = false;
    }
}

fn credits(servers: &Servers) -> Credits {
    std::array::from_fn(|i| servers.buckets[i].map(|bucket| Credit::new(bucket, servers, i)))
}

/// Whether no particle reaches its cutoff any more.
#[inline(always)]
fn is_lost(sum: &Lanes, cutoff: &Lanes) -> bool {
    sum.iter().zip(cutoff).all(|(sum, cutoff)| sum < cutoff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{DIMS, NAMES};
    use naslab_workload::Rng;

    const FLAGS: [&str; 6] = ["read", "durable", "whole", "late", "null", "random"];
    const NUMBERS: [&str; 13] = [
        "record", "depth", "workers", "files", "size", "moved", "count", "weight", "start", "seconds", "charge",
        "seen", "scale",
    ];

    /// Rows of any kind, every third with the next beside it.
    fn columns(count: usize, rng: &mut Rng) -> Columns {
        let mut found = Columns::new();
        for name in FLAGS {
            found.insert(name.to_owned(), (0..count).map(|_| rng.below(2) as f64).collect());
        }
        for name in NUMBERS {
            found.insert(name.to_owned(), (0..count).map(|_| 0.5 + 9.0 * rng.unit()).collect());
        }
        let pair = |at: usize| match at % 3 {
            0 if at + 1 < count => at as f64 + 1.0,
            1 => at as f64 - 1.0,
            _ => -1.0,
        };
        found.insert("pair".to_owned(), (0..count).map(pair).collect());
        found.insert("order".to_owned(), (0..count).map(|at| at as f64).collect());
        found
    }

    #[test]
    fn wide_registers_find_the_same_digits() {
        let mut rng = Rng::new(17, 0);
        let names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        let table = Table::new(&names, &[-4.0; DIMS], &[4.0; DIMS], &[]).unwrap();
        let rows = columns(20, &mut rng);
        let model = Model::new(table, &rows, Conditions::default(), &[(4.0, 0.1)], &[(4.0, 0.2)]).unwrap();
        let theta: Vec<Theta> = (0..203).map(|_| std::array::from_fn(|_| 8.0 * rng.unit() - 4.0)).collect();
        let cutoff: Vec<f64> = theta.iter().map(|_| -3000.0 * rng.unit()).collect();
        for cutoff in [vec![f64::NEG_INFINITY; theta.len()], cutoff] {
            let (mut wide, mut narrow) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
            model.log_likelihood(&theta, &cutoff, &mut wide, &mut Scratch::default());
            model.log_likelihoods(&theta, &cutoff, &mut narrow, &mut Scratch::default());
            assert_eq!(wide, narrow);
            assert!(narrow.iter().any(|like| like.is_finite()), "{narrow:?}");
        }
    }
}
