//! Readers beside writers, and credit: rows that say something of each other.

use crate::forward::{Bucket, Server, Storage};
use crate::math::{exp, ln};
use crate::rows::{Row, Rows};

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

/// Lowers log rates to what a bucket allows each row, by what was moved before.
pub(crate) fn spend(rows: &Rows, bucket: &Bucket, stored: &[Storage], log_rates: &mut [f64]) {
    let (base, size) = (bucket.base, bucket.size);
    let (mut one, mut two, mut last) = (size, size, 0.0);
    for at in rows.order.iter().copied() {
        let row = &rows.each[at];
        if row.null {
            continue;
        }
        let counts = if !is_counted(bucket.kind, row.read) {
            0.0
        } else if bucket.kind < LINKS {
            stored[at].missed
        } else {
            1.0
        };
        let rested = base * (row.start - last).max(0.0);
        (one, two) = ((one + rested).min(size), (two + rested).min(size));
        let other = bucket.kind == EACH_WAY && !row.read;
        let mut level = if other { two } else { one };
        let cap = allowed(bucket, row, &stored[at], level);
        // A pair earns once.
        let earned = if row.pair.is_none() || row.read { base * row.seconds } else { 0.0 };
        let spent = if counts > 0.0 { counts * (exp(log_rates[at]) * row.record).min(cap) * row.seconds } else { 0.0 };
        level = (level + earned - spent).clamp(0.0, size);
        // The other direction has its own credit, and earns meanwhile.
        let idle = (if other { one } else { two } + earned).min(size);
        (one, two) = if other { (idle, level) } else { (level, idle) };
        last = row.start + row.seconds;
        log_rates[at] = log_rates[at].min(ln(if counts > 0.5 { cap } else { NEVER } / row.record));
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
