//! Readers beside writers, and credit: rows that say something of each other.

use crate::forward::{lanes, Bucket, Lanes, Servers, Storage, WIDTH};
use crate::math::{larger, smaller};
use crate::rows::Row;

/// The scope of a bucket that counts each way of the link by itself.
const EACH_WAY: u8 = 6;
/// Scopes below this count what the disks move.
const LINKS: u8 = 3;
/// Share of a station's time above which two divide it.
const FULLY_USED: f64 = 1.0 + 1e-9;
/// Share of one connection, of a reader's and a writer's.
const EACH: f64 = 0.5;

/// The rates of a reader and a writer side by side: they share the server's processor, its memory, its disks.
///
/// rows, stored: reader, writer. rates: operations per second of each.
#[inline(always)]
pub(crate) fn beside(s: &Servers, rows: [&Row; 2], stored: &[Storage; 2], rates: &mut [Lanes; 2]) {
    queue(s, rows, rates);
    let alike = [1.0; WIDTH];
    let server = lanes(|i| s.server_s[i] * larger(s.per_lane[i], EACH));
    share(rates, &server, &server, &alike, &Lanes::default());
    let copied = |of: &Storage| lanes(|i| of.memory[i] * larger(s.per_copy_lane[i], EACH));
    share(rates, &copied(&stored[0]), &copied(&stored[1]), &alike, &Lanes::default());
    let queued = &stored[1].queued;
    let room = lanes(|i| queued[i] * s.write_back[i] / (rows[0].record * rows[0].seconds));
    // What a write-back drains is one request at a time, beside all of the readers'.
    let turns = lanes(|i| if queued[i] > 0.5 { rows[0].depth } else { 1.0 });
    share(rates, &stored[0].disk, &stored[1].drain, &turns, &room);
}

/// Requests and answers of one direction wait in the link's queue behind data of the other, where those fill it.
#[inline(always)]
fn queue(s: &Servers, rows: [&Row; 2], rates: &mut [Lanes; 2]) {
    let wait = |at: usize| {
        let (row, per_link, rates) = (rows[at], s.per_link(rows[at]), &rates[at]);
        lanes(|i| {
            let busy = smaller(rates[i] * (row.record + s.header[i]) * per_link[i], 1.0);
            let four = (busy * busy) * (busy * busy);
            s.queue[i] * (four * four) * row.out * row.record * per_link[i]
        })
    };
    let (reads, writes) = (wait(0), wait(1));
    for i in 0..WIDTH {
        rates[0][i] = smaller(rates[0][i], rows[0].out / larger(writes[i], 1e-12));
        rates[1][i] = smaller(rates[1][i], rows[1].out / larger(reads[i], 1e-12));
    }
}

/// Divides a station among a reader (`a` seconds each) and a writer (`b`): `turns` of the former for one of the latter.
#[inline(always)]
fn share(rates: &mut [Lanes; 2], a: &Lanes, b: &Lanes, turns: &Lanes, room: &Lanes) {
    for i in 0..WIDTH {
        let (one, two, a, b) = (rates[0][i], rates[1][i], a[i], b[i]);
        if one * a + two * b <= FULLY_USED || a <= 0.0 || b <= 0.0 {
            continue;
        }
        let fair = 1.0 / larger(turns[i] * a + b, 1e-15);
        let reads = if two < fair { (1.0 - two * b) / larger(a, 1e-15) } else { turns[i] * fair };
        let writes = if one < turns[i] * fair { (1.0 - one * a) / larger(b, 1e-15) } else { fair };
        rates[0][i] = smaller(one, reads);
        rates[1][i] = smaller(two, writes + room[i]);
    }
}

/// What is left of a bucket's credit as the rows go by, in the order of their start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    bucket: Bucket,
    one: f64,
    two: f64,
    last: f64,
    waiting: Waiting,
}

/// Bytes that wait in the write-back for disks whose writes the bucket counts; 0 for other buckets.
///
/// What is answered from memory spends credit when it reaches the disks, and credit that is spent slows only that.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    counts: bool,
    held: f64,
    /// Bytes a second that the disks write while nothing else is asked of them.
    idle: f64,
    fill: f64,
}

/// What of [`Storage`] a bucket asks for, of one particle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) missed: f64,
    pub(crate) seeks: f64,
    pub(crate) queued: f64,
    pub(crate) drain: f64,
    pub(crate) once: f64,
}

impl Stored {
    pub(crate) fn of(stored: &Storage, i: usize) -> Stored {
        Stored {
            missed: stored.missed[i],
            seeks: stored.seeks[i],
            queued: stored.queued[i],
            drain: stored.drain[i],
            once: stored.once[i],
        }
    }
}

impl Waiting {
    /// Bytes that reach the disks while nothing is written. most: that credit allows.
    fn drain(&mut self, most: f64, seconds: f64) -> f64 {
        let out = smaller(self.fill, smaller(most, self.idle * seconds));
        self.fill -= out;
        out
    }

    /// (bytes a second that a row of writes is answered at, bytes that reach the disks). cap: that credit allows.
    fn write(&mut self, row: &Row, stored: &Stored, cap: f64, free: f64) -> (f64, f64) {
        let pace = smaller(cap, row.record * stored.once / larger(stored.drain, 1e-12));
        let room = if row.whole { 0.0 } else { larger(self.held - self.fill, 0.0) };
        let through = (pace + room / larger(row.seconds, 1e-3)) / stored.once;
        let taken = stored.queued * smaller(free, through) * row.seconds * stored.once;
        let waiting = self.fill + taken;
        let drained = if row.whole { waiting } else { smaller(waiting, pace * row.seconds) };
        self.fill = smaller(waiting - drained, self.held);
        (through, drained)
    }
}

impl Credit {
    /// Full. of: the particle of `servers` whose bucket it is.
    pub(crate) fn new(bucket: Bucket, servers: &Servers, of: usize) -> Credit {
        let waiting = Waiting {
            counts: bucket.kind < LINKS && is_counted(bucket.kind, false),
            held: servers.write_back[of],
            idle: servers.idle(of),
            fill: 0.0,
        };
        Credit { bucket, one: bucket.size, two: bucket.size, last: 0.0, waiting }
    }

    /// Bytes a second that are left to a row, and its credit is spent. free: what all else would allow.
    pub(crate) fn spend(&mut self, row: &Row, stored: &Stored, free: f64) -> f64 {
        if row.null {
            return free;
        }
        let (base, size, kind) = (self.bucket.base, self.bucket.size, self.bucket.kind);
        let counts = match (is_counted(kind, row.read), kind < LINKS) {
            (false, _) => 0.0,
            (true, true) => stored.missed,
            (true, false) => 1.0,
        };
        let gap = larger(row.start - self.last, 0.0);
        let rested = base * gap;
        self.one -= self.waiting.drain(smaller(self.bucket.burst * gap, rested + self.one), gap);
        let (one, two) = (smaller(self.one + rested, size), smaller(self.two + rested, size));
        let other = kind == EACH_WAY && !row.read;
        let (level, idle) = if other { (two, one) } else { (one, two) };
        let cap = allowed(&self.bucket, row, stored.seeks, level);
        // A pair earns once.
        let earned = if row.pair.is_none() || row.read { base * row.seconds } else { 0.0 };
        let (mut most, mut spent) =
            (if counts > 0.5 { cap } else { f64::INFINITY }, counts * smaller(free, cap) * row.seconds);
        if row.read {
            spent += self.waiting.drain(cap * row.seconds, row.seconds);
        } else if self.waiting.counts {
            let (through, drained) = self.waiting.write(row, stored, cap, free);
            (most, spent) = if stored.queued > 0.5 { (through, drained) } else { (most, spent) };
        }
        let level = larger(smaller(level + earned - spent, size), 0.0);
        // The other direction has its own credit, and earns meanwhile.
        let idle = smaller(idle + earned, size);
        (self.one, self.two) = if other { (idle, level) } else { (level, idle) };
        self.last = row.start + row.seconds;
        smaller(free, most)
    }
}

fn is_counted(kind: u8, read: bool) -> bool {
    let scope = kind % LINKS;
    scope == 0 || scope == if read { 1 } else { 2 }
}

/// Bytes per second that credit of this level allows a row.
fn allowed(bucket: &Bucket, row: &Row, seeks: f64, level: f64) -> f64 {
    let cap = match (row.late, level > row.moved) {
        (true, true) => bucket.burst,
        (true, false) => bucket.base,
        (false, _) => smaller(bucket.burst, bucket.base + level / larger(row.seconds, 1e-3)),
    };
    // A disk's credit is on what it moves; seeks come on top.
    if bucket.kind < LINKS {
        row.record / (row.record / cap + seeks)
    } else {
        cap
    }
}
