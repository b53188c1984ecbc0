//! Readers beside writers, and credit: rows that say something of each other.

use crate::forward::{Bucket, Server, Storage};
use crate::math::{exp, ln};
use crate::rows::Row;

const NEVER: f64 = 1e15;
/// The scope of a bucket that counts each way of the link by itself.
const EACH_WAY: u8 = 6;
/// Scopes below this count what the disks move.
const LINKS: u8 = 3;

/// The rates of a reader and a writer side by side: they share the server's processor, its memory, its disks.
///
/// rows, stored: reader, writer. rates: operations per second of each.
pub(crate) fn beside(s: &Server, rows: [&Row; 2], stored: [&Storage; 2], rates: [f64; 2]) -> [f64; 2] {
    let mut found = queue(s, rows, rates);
    found = share(found, s.server_s, s.server_s, 1.0, 0.0);
    found = share(found, stored[0].memory, stored[1].memory, 1.0, 0.0);
    let queued = stored[1].queued;
    let room = if queued { s.write_back / rows[0].record / rows[0].seconds } else { 0.0 };
    // What a write-back drains is one request at a time, beside all of the readers'.
    share(found, stored[0].disk, stored[1].drain, if queued { rows[0].depth } else { 1.0 }, room)
}

/// Requests and answers of one direction wait in the link's queue behind data of the other, where those fill it.
fn queue(s: &Server, rows: [&Row; 2], rates: [f64; 2]) -> [f64; 2] {
    let wait = |at: usize| {
        let (row, per_link) = (rows[at], s.per_link(rows[at]));
        let busy = (rates[at] * (row.record + s.header) * per_link).min(1.0);
        let four = (busy * busy) * (busy * busy);
        s.queue * (four * four) * row.out * row.record * per_link
    };
    let (reads, writes) = (wait(0), wait(1));
    [rates[0].min(rows[0].out / writes.max(1e-12)), rates[1].min(rows[1].out / reads.max(1e-12))]
}

/// Divides a station among a reader (`a` seconds each) and a writer (`b`): `turns` of the former for one of the latter.
fn share(rates: [f64; 2], a: f64, b: f64, turns: f64, room: f64) -> [f64; 2] {
    let [one, two] = rates;
    if one * a + two * b <= 1.0 || a <= 0.0 || b <= 0.0 {
        return rates;
    }
    let fair = 1.0 / (turns * a + b).max(1e-15);
    let reads = if two < fair { (1.0 - two * b) / a.max(1e-15) } else { turns * fair };
    let writes = if one < turns * fair { (1.0 - one * a) / b.max(1e-15) } else { fair } + room;
    [one.min(reads), two.min(writes)]
}

/// What is left of a bucket's credit as the rows go by, in the order of their start.
pub(crate) struct Credit<'a> {
    bucket: &'a Bucket,
    one: f64,
    two: f64,
    last: f64,
}

impl<'a> Credit<'a> {
    pub(crate) fn new(bucket: &'a Bucket) -> Credit<'a> {
        Credit { bucket, one: bucket.size, two: bucket.size, last: 0.0 }
    }

    /// The log rate that is left to a row, and its credit is spent. free: what all else would allow.
    pub(crate) fn spend(&mut self, row: &Row, stored: &Storage, free: f64) -> f64 {
        if row.null {
            return free;
        }
        let (base, size, kind) = (self.bucket.base, self.bucket.size, self.bucket.kind);
        let counts = match (is_counted(kind, row.read), kind < LINKS) {
            (false, _) => 0.0,
            (true, true) => stored.missed,
            (true, false) => 1.0,
        };
        let rested = base * (row.start - self.last).max(0.0);
        let (one, two) = ((self.one + rested).min(size), (self.two + rested).min(size));
        let other = kind == EACH_WAY && !row.read;
        let (level, idle) = if other { (two, one) } else { (one, two) };
        let cap = allowed(self.bucket, row, stored, level);
        // A pair earns once.
        let earned = if row.pair.is_none() || row.read { base * row.seconds } else { 0.0 };
        let spent = if counts > 0.0 { counts * (exp(free) * row.record).min(cap) * row.seconds } else { 0.0 };
        let level = (level + earned - spent).clamp(0.0, size);
        // The other direction has its own credit, and earns meanwhile.
        let idle = (idle + earned).min(size);
        (self.one, self.two) = if other { (idle, level) } else { (level, idle) };
        self.last = row.start + row.seconds;
        free.min(ln(if counts > 0.5 { cap } else { NEVER } / row.record))
    }
}

fn is_counted(kind: u8, read: bool) -> bool {
    let scope = kind % LINKS;
    scope == 0 || scope == if read { 1 } else { 2 }
}

/// Bytes per second that credit of this level allows a row.
fn allowed(bucket: &Bucket, row: &Row, stored: &Storage, level: f64) -> f64 {
    let cap = match (row.late, level > row.moved) {
        (true, true) => bucket.burst,
        (true, false) => bucket.base,
        (false, _) => bucket.burst.min(bucket.base + level / row.seconds.max(1e-3)),
    };
    // A disk's credit is on what it moves; seeks come on top.
    if bucket.kind < LINKS {
        row.record / (row.record / cap + stored.seeks)
    } else {
        cap
    }
}
