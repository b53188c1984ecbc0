//! Rows, the likelihood of a particle, and what it predicts.

use crate::forward::{drained, free_rate, least, rooms, storage, Server, Storage, HIT_EDGE_BYTES};
use crate::math::{exp, ln};
use crate::params::{Mismatch, Param, Table, Theta};
use crate::rows::{Columns, Conditions, Rows};
use crate::shared::{beside, spend};

/// Degrees of freedom of Student's t: a row that nothing explains costs little.
const FREEDOM: f64 = 4.0;
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
        self.all(&server, scratch);
        for (to, from) in out.iter_mut().zip(&scratch.log_rates) {
            *to = from.max(least());
        }
    }

    /// Student's t on log rates, the client's own time, and the priors' shape; minus infinity where that is below
    /// `cutoff`, which ends the sum early.
    pub fn log_likelihood(&self, theta: &Theta, cutoff: f64, scratch: &mut Scratch) -> f64 {
        let mut sum = self.most + self.log_prior(theta) + self.log_client(theta);
        if sum < cutoff {
            return f64::NEG_INFINITY;
        }
        let server = self.server(theta);
        if server.bucket.is_some() {
            self.all(&server, scratch);
            let all: f64 = (0..self.rows()).map(|at| self.misfit(at, scratch.log_rates[at])).sum();
            return sum - all;
        }
        scratch.fit(self.rows());
        let mut has_rooms = false;
        for at in self.rows.alone.iter().copied() {
            let stored = storage(&server, &self.rows.each[at]);
            let rate = self.alone(&server, at, &stored, &mut has_rooms, &mut scratch.room);
            sum -= self.misfit(at, rate);
            if sum < cutoff {
                return f64::NEG_INFINITY;
            }
        }
        for (reader, writer) in self.rows.pairs.iter().copied() {
            let rates = self.pair(&server, [reader, writer], &mut has_rooms, scratch);
            sum -= self.misfit(reader, rates[0]) + self.misfit(writer, rates[1]);
            if sum < cutoff {
                return f64::NEG_INFINITY;
            }
        }
        sum
    }

    fn server(&self, theta: &Theta) -> Server {
        Server::new(theta, &self.table, self.rows.conditions.nic_bytes_per_s)
    }

    /// Log rates of all rows.
    fn all(&self, server: &Server, scratch: &mut Scratch) {
        scratch.fit(self.rows());
        let mut has_rooms = false;
        for at in 0..self.rows() {
            let stored = storage(server, &self.rows.each[at]);
            scratch.stored[at] = stored;
            scratch.log_rates[at] = self.alone(server, at, &stored, &mut has_rooms, &mut scratch.room);
        }
        for (reader, writer) in self.rows.pairs.iter().copied() {
            let rates = self.pair(server, [reader, writer], &mut has_rooms, scratch);
            (scratch.log_rates[reader], scratch.log_rates[writer]) = (rates[0], rates[1]);
        }
        if let Some(bucket) = &server.bucket {
            spend(&self.rows, bucket, &scratch.stored, &mut scratch.log_rates);
        }
    }

    /// Log rate of a row by itself.
    fn alone(&self, server: &Server, at: usize, stored: &Storage, has_rooms: &mut bool, room: &mut [f64]) -> f64 {
        let row = &self.rows.each[at];
        let rate = free_rate(&self.rows, server, row, stored);
        if !stored.queued {
            return rate;
        }
        rate.min(drained(row, stored, || {
            if !std::mem::replace(has_rooms, true) {
                rooms(&self.rows, server, room);
            }
            room[at]
        }))
    }

    /// Log rates of a reader and the writer beside it.
    fn pair(&self, server: &Server, at: [usize; 2], has_rooms: &mut bool, scratch: &mut Scratch) -> [f64; 2] {
        let rows = at.map(|at| &self.rows.each[at]);
        let stored = rows.map(|row| storage(server, row));
        let rate = |k: usize, has_rooms: &mut bool, room: &mut [f64]| {
            exp(self.alone(server, at[k], &stored[k], has_rooms, room))
        };
        let rates = [rate(0, has_rooms, &mut scratch.room), rate(1, has_rooms, &mut scratch.room)];
        beside(server, rows, [&stored[0], &stored[1]], rates).map(|rate| ln(rate.max(exp(least()))))
    }

    /// What a row takes from the log likelihood.
    fn misfit(&self, at: usize, rate: f64) -> f64 {
        let row = &self.rows.each[at];
        if row.weight <= 0.0 {
            return 0.0;
        }
        let z = (rate.max(least()) - row.seen) * row.per_scale;
        (FREEDOM + 1.0) / 2.0 * row.weight * ln(1.0 + z * z / FREEDOM)
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
    fn fit(&mut self, rows: usize) {
        self.stored.resize(rows, Storage::default());
        self.log_rates.resize(rows, 0.0);
        self.room.resize(rows, 0.0);
    }
}
