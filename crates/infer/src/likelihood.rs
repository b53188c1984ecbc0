//! Rows, the likelihood of a particle, and what it predicts.

use crate::forward::{drained, free_rate, rooms, storage, Server, Storage, HIT_EDGE_BYTES, LEAST};
use crate::math::{exp, larger, ln, smaller};
use crate::params::{Mismatch, Param, Table, Theta};
use crate::rows::{Columns, Conditions, Rows, FREEDOM};
use crate::shared::{beside, Credit};

/// Density of Student's t with four degrees of freedom at 0.
const PEAK: f64 = 0.375;
const CLIENT_ERROR: f64 = 0.05;
const CLIENT_MOST: f64 = 60.0;
/// A link shaped one way costs so many nats; one in twenty.
const SHAPED_ONE_WAY: f64 = 7.8;

/// Rows that were seen, with the bounds of what may explain them.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) table: Table,
    rows: Rows,
    /// Bytes of an operation, and the log of the client's counted time for it.
    client: Vec<(f64, f64)>,
    most: f64,
    write_back_edge: f64,
    slots_edge: f64,
    lanes_edge: f64,
}

/// Room for one particle's rows.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    stored: Vec<Storage>,
    log_rates: Vec<f64>,
    room: Vec<f64>,
    has_rooms: bool,
    /// Rows whose rate is known, before credit.
    known: Vec<bool>,
    /// What rows that are too slow take.
    slow: Vec<f64>,
    /// Rows of weight in the order in which they tell most.
    order: Vec<usize>,
}

impl Model {
    /// `client`: bytes of an operation and the seconds of the client's processor that were counted for it.
    ///
    /// Column `scale` is the standard deviation of `seen` with the model's own error.
    pub fn new(
        table: Table,
        columns: &Columns,
        conditions: Conditions,
        client: &[(f64, f64)],
    ) -> Result<Model, Mismatch> {
        let rows = Rows::new(columns, conditions)?;
        if client.iter().any(|(_, seconds)| !seconds.is_finite() || *seconds <= 0.0) {
            return Err(Mismatch("a client that takes no time".to_owned()));
        }
        let most = rows.weight * ln(PEAK);
        let client = client.iter().map(|(record, seconds)| (*record, ln(*seconds))).collect();
        let (write_back_edge, slots_edge, lanes_edge) = (ln(HIT_EDGE_BYTES), ln(300.0), ln(1.15));
        Ok(Model { table, rows, client, most, write_back_edge, slots_edge, lanes_edge })
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

    /// Log operations per second of each row.
    pub fn predict(&self, theta: &Theta, scratch: &mut Scratch, out: &mut [f64]) {
        let server = self.server(theta);
        scratch.begin(self.rows());
        let mut credit = server.bucket.as_ref().map(Credit::new);
        for at in self.rows.order.iter().copied() {
            out[at] = larger(self.rate(&server, at, &mut credit, scratch), LEAST);
        }
    }

    /// Student's t on log rates, the client's own time, and the priors' shape; minus infinity where that is below
    /// `cutoff`, which ends the sum early.
    pub fn log_likelihood(&self, theta: &Theta, cutoff: f64, scratch: &mut Scratch) -> f64 {
        let sum = self.most + self.log_prior(theta) + self.log_client(theta);
        if sum < cutoff {
            return f64::NEG_INFINITY;
        }
        let server = self.server(theta);
        scratch.begin(self.rows());
        if scratch.order.len() != self.rows.telling.len() {
            scratch.order.clone_from(&self.rows.telling);
        }
        match &server.bucket {
            None => self.without_credit(&server, sum, cutoff, scratch),
            Some(bucket) => self.with_credit(&server, Credit::new(bucket), sum, cutoff, scratch),
        }
    }

    /// What is left of a sum after all rows.
    fn without_credit(&self, server: &Server, mut sum: f64, cutoff: f64, scratch: &mut Scratch) -> f64 {
        let mut worst = (0.0, 0);
        for place in 0..scratch.order.len() {
            let at = scratch.order[place];
            let rate = self.rate(server, at, &mut None, scratch);
            let misfit = self.misfit(at, rate);
            sum -= misfit;
            if misfit > worst.0 {
                worst = (misfit, place);
            }
            if sum < cutoff {
                // What told most is asked sooner the next time.
                scratch.order.swap(worst.1, worst.1 / 2);
                return f64::NEG_INFINITY;
            }
        }
        sum
    }

    /// The same where credit may lower what the stations allow: rows that are too slow already stay so.
    fn with_credit(&self, server: &Server, credit: Credit, mut sum: f64, cutoff: f64, scratch: &mut Scratch) -> f64 {
        for place in 0..scratch.order.len() {
            let at = scratch.order[place];
            let rate = self.rate(server, at, &mut None, scratch);
            scratch.slow[at] = if rate < self.rows.each[at].seen { self.misfit(at, rate) } else { 0.0 };
            sum -= scratch.slow[at];
            if sum < cutoff {
                scratch.order.swap(place, place / 2);
                return f64::NEG_INFINITY;
            }
        }
        let mut credit = Some(credit);
        for at in self.rows.order.iter().copied() {
            let rate = self.rate(server, at, &mut credit, scratch);
            sum += scratch.slow[at] - self.misfit(at, rate);
            if sum < cutoff {
                return f64::NEG_INFINITY;
            }
        }
        sum
    }

    fn server(&self, theta: &Theta) -> Server {
        Server::new(theta, &self.table, self.rows.conditions.nic_bytes_per_s)
    }

    /// Log rate of a row. Where there is credit, rows have to be asked for in the order of their start.
    #[inline]
    fn rate(&self, server: &Server, at: usize, credit: &mut Option<Credit>, scratch: &mut Scratch) -> f64 {
        let row = &self.rows.each[at];
        if !scratch.known[at] {
            match row.pair {
                None => {
                    let stored = storage(server, row);
                    let rate = self.alone(server, at, &stored, scratch);
                    (scratch.log_rates[at], scratch.stored[at], scratch.known[at]) = (rate, stored, true);
                }
                Some(other) => self.pair(server, if row.read { [at, other] } else { [other, at] }, scratch),
            }
        }
        let rate = scratch.log_rates[at];
        credit.as_mut().map_or(rate, |credit| credit.spend(row, &scratch.stored[at], rate))
    }

    /// Log rate of a row by itself.
    #[inline]
    fn alone(&self, server: &Server, at: usize, stored: &Storage, scratch: &mut Scratch) -> f64 {
        let row = &self.rows.each[at];
        let rate = free_rate(&self.rows, server, row, stored);
        if !stored.queued {
            return rate;
        }
        smaller(
            rate,
            drained(row, stored, || {
                if !std::mem::replace(&mut scratch.has_rooms, true) {
                    rooms(&self.rows, server, &mut scratch.room);
                }
                scratch.room[at]
            }),
        )
    }

    /// Finds the log rates of a reader and the writer beside it.
    fn pair(&self, server: &Server, at: [usize; 2], scratch: &mut Scratch) {
        let rows = at.map(|at| &self.rows.each[at]);
        let stored = rows.map(|row| storage(server, row));
        let mut rates = [0.0; 2];
        for k in 0..2 {
            rates[k] = exp(self.alone(server, at[k], &stored[k], scratch));
        }
        rates = beside(server, rows, [&stored[0], &stored[1]], rates);
        for k in 0..2 {
            scratch.log_rates[at[k]] = ln(larger(rates[k], 1e-300));
            (scratch.stored[at[k]], scratch.known[at[k]]) = (stored[k], true);
        }
    }

    /// What a row takes from the log likelihood.
    #[inline]
    fn misfit(&self, at: usize, rate: f64) -> f64 {
        let row = &self.rows.each[at];
        let z = (larger(rate, LEAST) - row.seen) * row.per_scale;
        row.share * ln(1.0 + z * z / FREEDOM)
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

    /// Log density of the priors that are not log-uniform, as `hypotheses.log_prior`; never above 0.
    fn log_prior(&self, theta: &Theta) -> f64 {
        let value = |at: Param| theta[at as usize];
        let disks = (value(Param::DiskRead) - value(Param::DiskWrite)) / 0.7;
        let shaped = value(Param::UplinkRatio) / 0.02;
        let mut found = -(disks * disks / 2.0).min(8.0) - ln(1.0 + shaped * shaped).min(SHAPED_ONE_WAY);
        if value(Param::WriteBack) < self.write_back_edge {
            found -= 1.2;
        }
        if value(Param::Slots) < self.slots_edge {
            found -= 2.0;
        }
        if value(Param::ServerLanes) > self.lanes_edge {
            found -= 1.0;
        }
        found
    }
}

impl Scratch {
    /// Forgets the particle before.
    fn begin(&mut self, rows: usize) {
        if self.known.len() != rows {
            self.stored.resize(rows, Storage::default());
            self.log_rates.resize(rows, 0.0);
            self.room.resize(rows, 0.0);
            self.slow.resize(rows, 0.0);
        }
        self.known.clear();
        self.known.resize(rows, false);
        self.has_rooms = false;
    }
}
