//! What servers with given parameters would have shown in each row of a ladder.
//!
//! `python/naslab/explain/forward.py` tells of the model and its sources; this is the same arithmetic for a few particles
//! side by side, without what a row does not need: what differs by particle is chosen without a branch, so that their
//! long chains of operations overlap. A test holds the two against each other.

use crate::math::{exp, larger, ln, smaller};
use crate::params::{Param, Table, Theta};
use crate::rows::{Conditions, Row, Rows};

/// Particles side by side.
pub(crate) const WIDTH: usize = 8;
/// One number of each.
pub(crate) type Lanes = [f64; WIDTH];

/// A cache or a write-back below this does not exist.
pub(crate) const HIT_EDGE_BYTES: f64 = 262_144.0;
/// No rate is told of that is lower than this, 1e-9.
pub(crate) const LEAST: f64 = -20.723_265_836_946_41;
const CACHE_EDGE: f64 = 60.0;
const PAGE_SLACK: f64 = 1.02;
const BUCKET_SCOPES: f64 = 7.0;
const DRAIN_BYTES: f64 = 1_048_576.0;
/// From this exponent on `1 / (1 + e^x)` is nothing.
const NOTHING_FITS: f64 = 45.0;

/// A token bucket. `kind`: what it counts; `size`: bytes of credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) base: f64,
    pub(crate) burst: f64,
    pub(crate) size: f64,
    pub(crate) kind: u8,
}

/// The numbers of a few particles; `per_`: inverse; `has_`, `joins`: 1 or 0.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    client_s: Lanes,
    client_byte_s: Lanes,
    /// The delay of every operation, and what slow ones add.
    wait_s: Lanes,
    per_slots: Lanes,
    per_window: Lanes,
    /// Inverse rates of the link, reads and writes.
    per_link: [Lanes; 2],
    pub(crate) queue: Lanes,
    pub(crate) header: Lanes,
    pub(crate) server_s: Lanes,
    pub(crate) per_lane: Lanes,
    /// Seconds of copying one byte that is read, written.
    per_memory: [Lanes; 2],
    /// Inverse of the connections whose data are copied side by side.
    pub(crate) per_copy_lane: Lanes,
    /// Logs of how much longer data take that the processor's caches do not hold.
    ln_cold: Lanes,
    cache: Lanes,
    ln_cache: Lanes,
    has_cache: Lanes,
    per_disk: [Lanes; 2],
    /// Bytes that a read in no order fetches at least.
    fetch: Lanes,
    request_s: Lanes,
    seek_s: Lanes,
    commit_s: Lanes,
    pub(crate) write_back: Lanes,
    has_write_back: Lanes,
    joins: Lanes,
    apart: Lanes,
    sharpness: Lanes,
    blunt: Lanes,
    lock_s: Lanes,
    /// Share of the time at memory and disks for which a file is held, too; 0 without a lock.
    lock_share: Lanes,
    pub(crate) has_bucket: Lanes,
    pub(crate) buckets: [Option<Bucket>; WIDTH],
}

/// A number of each particle.
#[inline(always)]
pub(crate) fn lanes(of: impl FnMut(usize) -> f64) -> Lanes {
    std::array::from_fn(of)
}

impl Servers {
    #[inline(always)]
    pub(crate) fn new(theta: &[Theta; WIDTH], table: &Table, conditions: &Conditions) -> Servers {
        let value = |at: Param| lanes(|i| exp(theta[i][at as usize]));
        let inverse = |at: Param| lanes(|i| exp(-theta[i][at as usize]));
        let fewer = |at: Param| lanes(|i| smaller(exp(-theta[i][at as usize]), 1.0));
        let exists = |switch: Param| lanes(|i| flag(table.is_on(&theta[i], switch)));
        let nic = if conditions.nic_bytes_per_s > 0.0 { 1.0 / conditions.nic_bytes_per_s } else { 0.0 };
        let (down, ratio) = (inverse(Param::Link), inverse(Param::UplinkRatio));
        let copies = inverse(Param::Memory);
        let taken = if conditions.here { inverse(Param::CopyRatio) } else { [1.0; WIDTH] };
        let (delay_s, slow_s, slow) = (value(Param::DelayS), value(Param::SlowS), exists(Param::SlowOn));
        let (lock_s, lock) = (value(Param::LockS), exists(Param::LockOn));
        let lock_share = value(Param::LockShare);
        let (cache, write_back, overlap) = (value(Param::Cache), value(Param::WriteBack), value(Param::Overlap));
        Servers {
            client_s: value(Param::ClientS),
            client_byte_s: value(Param::ClientByteS),
            wait_s: lanes(|i| delay_s[i] + slow[i] * slow_s[i]),
            per_slots: inverse(Param::Slots),
            per_window: inverse(Param::Window),
            per_link: [lanes(|i| larger(down[i], nic)), lanes(|i| larger(down[i] * ratio[i], nic))],
            queue: value(Param::Queue),
            header: value(Param::Header),
            server_s: value(Param::ServerS),
            per_lane: fewer(Param::ServerLanes),
            per_memory: [copies, lanes(|i| copies[i] * taken[i])],
            per_copy_lane: fewer(Param::CopyLanes),
            ln_cold: lanes(|i| larger(theta[i][Param::Cold as usize], 0.0)),
            ln_cache: lanes(|i| theta[i][Param::Cache as usize] + ln(PAGE_SLACK)),
            has_cache: lanes(|i| flag(cache[i] > HIT_EDGE_BYTES)),
            cache,
            per_disk: [inverse(Param::DiskRead), inverse(Param::DiskWrite)],
            fetch: value(Param::Fetch),
            request_s: value(Param::RequestS),
            seek_s: value(Param::SeekS),
            commit_s: value(Param::CommitS),
            has_write_back: lanes(|i| flag(write_back[i] > HIT_EDGE_BYTES)),
            write_back,
            joins: exists(Param::JoinsOn),
            apart: lanes(|i| 1.0 - overlap[i]),
            sharpness: value(Param::Sharpness),
            blunt: inverse(Param::Sharpness),
            lock_s: lanes(|i| lock[i] * lock_s[i]),
            lock_share: lanes(|i| lock[i] * lock_share[i]),
            has_bucket: exists(Param::BucketOn),
            buckets: std::array::from_fn(|i| table.is_on(&theta[i], Param::BucketOn).then(|| bucket(&theta[i], table))),
        }
    }

    /// Bytes a second that the disks of a particle write while nothing else is asked of them.
    pub(crate) fn idle(&self, i: usize) -> f64 {
        smaller(1.0 / self.per_disk[1][i], DRAIN_BYTES / self.request_s[i])
    }

    /// Seconds that the server copies one byte of a row's direction for.
    pub(crate) fn per_memory(&self, row: &Row) -> &Lanes {
        &self.per_memory[usize::from(!row.read)]
    }

    /// Seconds that the link takes for one byte of a row's direction.
    pub(crate) fn per_link(&self, row: &Row) -> &Lanes {
        &self.per_link[usize::from(!row.read)]
    }
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// What a bucket counts, as `forward.values_of` has it.
pub(crate) fn scope_of(theta: &Theta, table: &Table) -> u8 {
    let at = Param::Scope as usize;
    (theta[at] / table.low[at] * BUCKET_SCOPES).clamp(0.0, BUCKET_SCOPES - 1.0) as u8
}

fn bucket(theta: &Theta, table: &Table) -> Bucket {
    let (base, times) = (exp(theta[Param::Base as usize]), exp(theta[Param::Burst as usize]));
    Bucket {
        base,
        burst: base * times,
        size: base * (times - 1.0) * exp(theta[Param::LastsS as usize]),
        kind: scope_of(theta, table),
    }
}

/// Seconds at memory and disks, as `forward.Storage`; `queued`: 1 or 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storage {
    pub(crate) memory: Lanes,
    pub(crate) disk: Lanes,
    pub(crate) drain: Lanes,
    pub(crate) seeks: Lanes,
    pub(crate) queued: Lanes,
    pub(crate) missed: Lanes,
    pub(crate) once: Lanes,
}

/// Where a row's data came from, and what that took.
#[inline(always)]
pub(crate) fn storage(s: &Servers, row: &Row) -> Storage {
    let is_pair = row.pair.is_some();
    let fits = if is_pair || (row.read && !row.random) { fits(s, row) } else { Lanes::default() };
    let seeks = match is_pair {
        true => lanes(|i| s.seek_s[i] * (row.apart + (1.0 - row.apart) * (1.0 - fits[i]))),
        false => lanes(|i| s.seek_s[i] * row.apart),
    };
    let (per_disk, durable) = (&s.per_disk[usize::from(!row.read)], flag(row.durable));
    let moved = match row.read && row.random {
        true => lanes(|i| larger(row.record, s.fetch[i]) * per_disk[i]),
        false => lanes(|i| row.record * per_disk[i]),
    };
    let disk = lanes(|i| larger(moved[i], s.request_s[i]) + seeks[i] + durable * s.commit_s[i]);
    let moves = flag(!row.null);
    let per_memory = s.per_memory(row);
    if row.read {
        let hit = match row.random {
            true => lanes(|i| s.has_cache[i] * smaller(s.cache[i] * row.per_within, 1.0)),
            false => fits,
        };
        return Storage {
            memory: match row.cold > 0.0 {
                true => lanes(|i| hit[i] * row.record * per_memory[i] * exp(s.ln_cold[i] * row.cold)),
                false => lanes(|i| hit[i] * row.record * per_memory[i]),
            },
            disk: lanes(|i| moves * (1.0 - hit[i]) * disk[i]),
            drain: disk,
            seeks,
            queued: Lanes::default(),
            missed: lanes(|i| 1.0 - hit[i]),
            once: [1.0; WIDTH],
        };
    }
    let refused = flag(row.null);
    let queued = if row.durable || row.null { Lanes::default() } else { s.has_write_back };
    let once = lanes(|i| if queued[i] * s.joins[i] > 0.5 { row.once } else { 1.0 });
    Storage {
        memory: lanes(|i| larger(queued[i], refused) * row.record * per_memory[i]),
        disk: lanes(|i| moves * (1.0 - queued[i]) * disk[i]),
        drain: lanes(|i| disk[i] * once[i]),
        seeks,
        queued,
        missed: once,
        once,
    }
}

/// How much of a sequential set fits into the cache: an edge that is nearly sharp.
#[inline(always)]
fn fits(s: &Servers, row: &Row) -> Lanes {
    lanes(|i| {
        let over = CACHE_EDGE * (row.ln_within - s.ln_cache[i]);
        s.has_cache[i] / (1.0 + exp(smaller(over, NOTHING_FITS)))
    })
}

/// Logs of the operations per second where nothing but the stations counts.
#[inline(always)]
pub(crate) fn free_rate(rows: &Rows, s: &Servers, row: &Row, stored: &Storage) -> Lanes {
    let (pace, rounds) = times(rows, s, row, stored);
    let high = lanes(|i| ln(larger(pace[i], rounds[i])));
    if row.out <= 1.0 {
        return lanes(|i| row.ln_count - high[i]);
    }
    let low = lanes(|i| ln(smaller(pace[i], rounds[i])));
    lanes(|i| row.ln_count - high[i] - s.blunt[i] * ln(1.0 + exp(s.sharpness[i] * (low[i] - high[i]))))
}

/// Seconds of a row at the pace of its slowest station, and in rounds of what is under way.
#[inline(always)]
fn times(rows: &Rows, s: &Servers, row: &Row, stored: &Storage) -> (Lanes, Lanes) {
    let (per_link, per_memory) = (s.per_link(row), s.per_memory(row));
    let (locks, ends, few) = (flag(!row.null), flag(row.whole), smaller(row.workers, 1.0));
    let shared = flag(rows.conditions.same_machine) / larger(rows.conditions.cpus, 1.0);
    let (mut pace, mut rounds) = (Lanes::default(), Lanes::default());
    let served = match row.cold > 0.0 {
        true => lanes(|i| s.server_s[i] * exp(s.ln_cold[i] * row.cold)),
        false => s.server_s,
    };
    for i in 0..WIDTH {
        let client = s.client_s[i] + s.client_byte_s[i] * row.record;
        let wire = row.record + s.header[i];
        let (window, link) = (wire * s.per_window[i], wire * per_link[i]);
        let (lock, server_s) = (locks * s.lock_s[i], served[i]);
        let stores = larger(stored.memory[i], stored.disk[i]);
        let held = lock + s.lock_share[i] * (stored.memory[i] + stored.disk[i]);
        let copies = stored.memory[i] * larger(s.per_copy_lane[i], row.per_worker);
        let server = server_s * larger(s.per_lane[i], row.per_worker);
        let machine = (client + server_s + row.record * per_memory[i]) * shared;
        let slowest = larger(
            larger(larger(client * row.client_lanes, window * row.per_worker), larger(link, server)),
            larger(larger(held * row.per_file, larger(copies, stored.disk[i])), machine),
        );
        let longest = larger(larger(larger(client, window), larger(link, server_s)), larger(lock, stores));
        let sum = ((client + window) + (link + server_s)) + (lock + (stored.memory[i] + stored.disk[i]));
        let delay = s.wait_s[i] + s.header[i] * per_link[i];
        let whole = larger(longest + s.apart[i] * (sum - longest) + delay, slowest * few);
        let per_slot = smaller(s.per_slots[i] * row.charge, 1.0);
        pace[i] = (row.count - 1.0) * slowest + whole + ends * delay;
        rounds[i] = whole * larger(larger(row.per_depth, per_slot) * row.count_per_worker, 1.0);
    }
    (pace, rounds)
}

/// Bytes that the write-back still takes when each write begins; other rows are left as they are.
#[inline(always)]
pub(crate) fn rooms(rows: &Rows, s: &Servers, room: &mut [Lanes]) {
    let held = &s.write_back;
    let idle = lanes(|i| s.idle(i));
    let (mut fill, mut last) = (Lanes::default(), 0.0);
    for at in rows.writes.iter().copied() {
        let row = &rows.each[at];
        let stored = storage(s, row);
        let (rested, taken) = (larger(row.start - last, 0.0), if row.durable { 0.0 } else { row.moved });
        let kept = flag(!row.whole);
        for i in 0..WIDTH {
            fill[i] = larger(fill[i] - idle[i] * rested, 0.0);
            room[at][i] = held[i] - fill[i];
            let drained = stored.once[i] * row.record / stored.drain[i] * row.seconds;
            fill[i] = kept * larger(smaller(fill[i] + taken * stored.once[i] - drained, held[i]), 0.0);
        }
        last = row.start + row.seconds;
    }
}

/// Log rates of acknowledged writes: they fill the write-back first, and then go at the disks' pace.
#[inline(always)]
pub(crate) fn written_back(row: &Row, stored: &Storage, room: &Lanes, rates: &Lanes) -> Lanes {
    let more = 1.0 / (row.record * larger(row.seconds, 1e-3));
    let some = flag(!row.whole);
    lanes(|i| {
        let drained = 1.0 / larger(stored.drain[i], 1e-12) + some * room[i] / stored.once[i] * more;
        let most = ln(drained);
        if stored.queued[i] > 0.5 {
            smaller(rates[i], most)
        } else {
            rates[i]
        }
    })
}
