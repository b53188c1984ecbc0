//! What a server with given parameters would have shown in each row of a ladder.
//!
//! `python/naslab/explain/forward.py` tells of the model and its sources; this is the same arithmetic for one particle
//! at a time, without what it does not need. A test holds the two against each other.

use crate::math::{exp, larger, ln, smaller};
use crate::params::{Param, Table, Theta};
use crate::rows::{Row, Rows};

/// A cache or a write-back below this does not exist.
pub(crate) const HIT_EDGE_BYTES: f64 = 262_144.0;
const CACHE_EDGE: f64 = 60.0;
const PAGE_SLACK: f64 = 1.02;
/// No rate is told of that is lower than this, 1e-9.
pub(crate) const LEAST: f64 = -20.723_265_836_946_41;
const BUCKET_SCOPES: f64 = 7.0;
const DRAIN_BYTES: f64 = 1_048_576.0;
/// From this exponent on `1 / (1 + e^x)` is nothing; below the other it is 1.
const NOTHING_FITS: f64 = 45.0;
const ALL_FITS: f64 = -36.736_800_569_677_1;
/// Of a soft edge, what adds less than so many e-folds is left out.
const BLUNT_FOLDS: f64 = 23.0;

/// A token bucket. `kind`: what it counts; `size`: bytes of credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) base: f64,
    pub(crate) burst: f64,
    pub(crate) size: f64,
    pub(crate) kind: u8,
}

/// One particle's numbers; `per_`: inverse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) client_s: f64,
    pub(crate) client_byte_s: f64,
    /// The delay of every operation, and what slow ones add.
    wait_s: f64,
    per_slots: f64,
    per_window: f64,
    /// Inverse rates of the link, reads and writes.
    per_link: [f64; 2],
    pub(crate) queue: f64,
    pub(crate) header: f64,
    pub(crate) server_s: f64,
    per_lane: f64,
    per_memory: f64,
    cache: f64,
    ln_cache: f64,
    has_cache: bool,
    per_disk: [f64; 2],
    request_s: f64,
    seek_s: f64,
    commit_s: f64,
    pub(crate) write_back: f64,
    has_write_back: bool,
    joins: bool,
    apart: f64,
    sharpness: f64,
    blunt: f64,
    /// Ratio below which the edge is sharp.
    sharp_below: f64,
    lock_s: f64,
    pub(crate) bucket: Option<Bucket>,
}

impl Server {
    pub(crate) fn new(theta: &Theta, table: &Table, nic_bytes_per_s: f64) -> Server {
        let value = |at: Param| exp(theta[at as usize]);
        let inverse = |at: Param| exp(-theta[at as usize]);
        let existing = |switch: Param, at: Param| if table.is_on(theta, switch) { value(at) } else { 0.0 };
        let nic = if nic_bytes_per_s > 0.0 { 1.0 / nic_bytes_per_s } else { 0.0 };
        let down = inverse(Param::Link);
        let sharpness = value(Param::Sharpness);
        let (cache, write_back) = (value(Param::Cache), value(Param::WriteBack));
        Server {
            client_s: value(Param::ClientS),
            client_byte_s: value(Param::ClientByteS),
            wait_s: value(Param::DelayS) + existing(Param::SlowOn, Param::SlowS),
            per_slots: inverse(Param::Slots),
            per_window: inverse(Param::Window),
            per_link: [down.max(nic), (down * inverse(Param::UplinkRatio)).max(nic)],
            queue: value(Param::Queue),
            header: value(Param::Header),
            server_s: value(Param::ServerS),
            per_lane: inverse(Param::ServerLanes),
            per_memory: inverse(Param::Memory),
            cache,
            ln_cache: theta[Param::Cache as usize] + ln(PAGE_SLACK),
            has_cache: cache > HIT_EDGE_BYTES,
            per_disk: [inverse(Param::DiskRead), inverse(Param::DiskWrite)],
            request_s: value(Param::RequestS),
            seek_s: value(Param::SeekS),
            commit_s: value(Param::CommitS),
            write_back,
            has_write_back: write_back > HIT_EDGE_BYTES,
            joins: table.is_on(theta, Param::JoinsOn),
            apart: 1.0 - value(Param::Overlap),
            sharpness,
            blunt: 1.0 / sharpness,
            sharp_below: exp(-BLUNT_FOLDS / sharpness),
            lock_s: existing(Param::LockOn, Param::LockS),
            bucket: table.is_on(theta, Param::BucketOn).then(|| bucket(theta, table)),
        }
    }

    /// Seconds that the link takes for one byte of a row's direction.
    pub(crate) fn per_link(&self, row: &Row) -> f64 {
        self.per_link[usize::from(!row.read)]
    }
}

fn bucket(theta: &Theta, table: &Table) -> Bucket {
    let at = Param::Scope as usize;
    let scope = theta[at] / table.low[at] * BUCKET_SCOPES;
    let (base, times) = (exp(theta[Param::Base as usize]), exp(theta[Param::Burst as usize]));
    Bucket {
        base,
        burst: base * times,
        size: base * (times - 1.0) * exp(theta[Param::LastsS as usize]),
        kind: scope.clamp(0.0, BUCKET_SCOPES - 1.0) as u8,
    }
}

/// Seconds at memory and disks, as `forward.Storage`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storage {
    pub(crate) memory: f64,
    pub(crate) disk: f64,
    pub(crate) drain: f64,
    pub(crate) seeks: f64,
    pub(crate) queued: bool,
    pub(crate) missed: f64,
    pub(crate) once: f64,
}

/// Where a row's data came from, and what that took.
#[inline]
pub(crate) fn storage(s: &Server, row: &Row) -> Storage {
    let fits = if s.has_cache && (row.pair.is_some() || (row.read && !row.random)) { fits(s, row) } else { 0.0 };
    let apart = if row.pair.is_some() { row.apart + (1.0 - row.apart) * (1.0 - fits) } else { row.apart };
    let seeks = s.seek_s * apart;
    let mut disk = larger(row.data * s.per_disk[usize::from(!row.read)], s.request_s) + seeks;
    if row.durable {
        disk += s.commit_s;
    }
    let memory = row.data * s.per_memory;
    if row.read {
        let hit = match (s.has_cache, row.random) {
            (false, _) => 0.0,
            (true, true) => smaller(s.cache / row.within, 1.0),
            (true, false) => fits,
        };
        let at_disk = if row.null { 0.0 } else { (1.0 - hit) * disk };
        return Storage {
            memory: hit * memory,
            disk: at_disk,
            drain: disk,
            seeks,
            queued: false,
            missed: 1.0 - hit,
            once: 1.0,
        };
    }
    let queued = !row.durable && s.has_write_back;
    let once = if queued && s.joins { row.once } else { 1.0 };
    let (memory, at_disk) = if queued { (memory, 0.0) } else { (0.0, disk) };
    let at_disk = if row.null { 0.0 } else { at_disk };
    Storage { memory, disk: at_disk, drain: disk * once, seeks, queued, missed: once, once }
}

/// How much of a sequential set fits into the cache: an edge that is nearly sharp.
fn fits(s: &Server, row: &Row) -> f64 {
    let over = CACHE_EDGE * (row.ln_within - s.ln_cache);
    if over <= ALL_FITS {
        1.0
    } else {
        1.0 / (1.0 + exp(smaller(over, NOTHING_FITS)))
    }
}

/// Log of the operations per second where nothing but the stations counts.
#[inline]
pub(crate) fn free_rate(rows: &Rows, s: &Server, row: &Row, stored: &Storage) -> f64 {
    let per_link = s.per_link(row);
    let client = s.client_s + s.client_byte_s * row.data;
    let wire = row.data + s.header;
    let (window, link) = (wire * s.per_window, wire * per_link);
    let lock = if row.null { 0.0 } else { s.lock_s };
    let storage = larger(stored.memory, stored.disk);
    let server = s.server_s * larger(s.per_lane, row.per_worker);
    let mut slowest = larger(larger(client * row.client_lanes, window * row.per_worker), larger(link, server));
    slowest = larger(slowest, larger(lock * row.per_file, storage));
    if rows.conditions.same_machine {
        let machine = (client + s.server_s + row.data * s.per_memory) / larger(rows.conditions.cpus, 1.0);
        slowest = larger(slowest, machine);
    }
    let longest = larger(larger(larger(client, window), larger(link, s.server_s)), larger(lock, storage));
    let sum = ((client + window) + (link + s.server_s)) + (lock + (stored.memory + stored.disk));
    let delay = s.wait_s + s.header * per_link;
    let whole = longest + s.apart * (sum - longest) + delay;
    let whole = larger(whole, slowest * smaller(row.workers, 1.0));
    let per_slot = smaller(s.per_slots * row.charge, 1.0);
    let pace = (row.count - 1.0) * slowest + whole + if row.whole { delay } else { 0.0 };
    let rounds = whole * larger(larger(row.per_depth, per_slot) * row.count_per_worker, 1.0);
    let (low, high) = (smaller(pace, rounds), larger(pace, rounds));
    let ln_high = ln(high);
    if row.out <= 1.0 || low <= high * s.sharp_below {
        return row.ln_count - ln_high;
    }
    row.ln_count - ln_high - s.blunt * ln(1.0 + exp(s.sharpness * (ln(low) - ln_high)))
}

/// Bytes that the write-back still takes when each write begins; other rows are left as they are.
pub(crate) fn rooms(rows: &Rows, s: &Server, room: &mut [f64]) {
    let held = s.write_back;
    let idle = (1.0 / s.per_disk[1]).min(DRAIN_BYTES / s.request_s);
    let (mut fill, mut last) = (0.0_f64, 0.0);
    for at in rows.writes.iter().copied() {
        let row = &rows.each[at];
        let stored = storage(s, row);
        fill = (fill - idle * (row.start - last).max(0.0)).max(0.0);
        room[at] = held - fill;
        let taken = if row.durable { 0.0 } else { row.moved * stored.once };
        let drained = stored.once * row.record / stored.drain * row.seconds;
        fill = if row.whole { 0.0 } else { (fill + taken - drained).clamp(0.0, held) };
        last = row.start + row.seconds;
    }
}

/// Log of the rate at which acknowledged writes go on once the write-back is full. `room`: bytes left in it.
pub(crate) fn drained(row: &Row, stored: &Storage, room: impl FnOnce() -> f64) -> f64 {
    let rate = 1.0 / larger(stored.drain, 1e-12);
    if row.whole {
        return ln(rate);
    }
    ln(rate + room() / (stored.once * row.record * larger(row.seconds, 1e-3)))
}
