//! What limits one busy connection of a server: the ceilings of `python/naslab/explain/verdict.py`, of servers without a
//! token bucket. Explanations with another limit than one that is doubted are sought by forbidding that.

use crate::forward::HIT_EDGE_BYTES;
use crate::math::exp;
use crate::params::{Mismatch, Param, Table, Theta};
use crate::rows::Conditions;

/// A memory holds a set so much larger than itself.
const PAGE_SLACK: f64 = 1.02;
/// A ceiling that nothing sets.
const NEVER: f64 = 1e15;
/// A window or a round trip that keeps the slowest part busy for this share of the time holds up nothing.
const KEPT_BUSY: f64 = 0.98;
/// In the order of their ceilings; small operations call the disks `disk_iops`.
const KINDS: [&str; 11] = [
    "client_cpu",
    "server_cpu",
    "server_cache",
    "link",
    "client_nic",
    "protocol",
    "disk",
    "latency",
    "unknown",
    "shared_machine",
    "burst_credit",
];

/// One kind of I/O of one busy connection.
#[derive(Clone, Debug)]
pub struct BusyLoad {
    /// Whether it reads.
    pub read: bool,
    /// Whether operations are large ones.
    pub large: bool,
    /// Bytes of an operation.
    pub record: f64,
    /// Slots of the connection that one takes.
    pub charge: f64,
    /// Bytes of the set that is read.
    pub reach: f64,
    /// Slots that the server granted; 0: it said nothing.
    pub granted: f64,
    /// Requests outstanding.
    pub busy: f64,
}

/// That one kind of limit is the lowest, or nearly so.
#[derive(Clone, Debug)]
pub struct Forbidden {
    kind: usize,
    close: f64,
    nats: f64,
    load: BusyLoad,
}

impl Forbidden {
    /// `close`: so many times the lowest ceiling is as good as it. `nats`: what that costs.
    pub fn new(kind: &str, close: f64, nats: f64, load: BusyLoad) -> Result<Forbidden, Mismatch> {
        let wanted = if kind == "disk_iops" && !load.large { "disk" } else { kind };
        let kind = KINDS.iter().position(|each| *each == wanted);
        let kind = kind.ok_or_else(|| Mismatch(format!("no limit to forbid: {wanted}")))?;
        Ok(Forbidden { kind, close, nats, load })
    }

    /// What it costs a particle.
    pub(crate) fn cost(&self, theta: &Theta, table: &Table, conditions: &Conditions) -> f64 {
        if self.is_limit(theta, table, conditions) {
            self.nats
        } else {
            0.0
        }
    }

    pub(crate) fn is_limit(&self, theta: &Theta, table: &Table, conditions: &Conditions) -> bool {
        let found = ceilings(theta, table, conditions, &self.load);
        found[self.kind] < self.close * found.iter().copied().fold(NEVER, f64::min)
    }
}

/// Operations per second by kind.
fn ceilings(theta: &Theta, table: &Table, conditions: &Conditions, load: &BusyLoad) -> [f64; KINDS.len()] {
    let value = |at: Param| exp(theta[at as usize]);
    let existing = |switch: Param, at: Param| if table.is_on(theta, switch) { value(at) } else { 0.0 };
    let per = |seconds: f64| if seconds > 0.0 { 1.0 / seconds } else { NEVER };
    let record = load.record;
    let wire = record + value(Param::Header);
    let link = value(Param::Link) * if load.read { 1.0 } else { value(Param::UplinkRatio) };
    let cached = load.read && PAGE_SLACK * value(Param::Cache) >= load.reach;
    let queued = !load.read && load.large && value(Param::WriteBack) > HIT_EDGE_BYTES;
    let disk = if cached { 0.0 } else { at_disk(theta, load) };
    let cold = if load.read { value(Param::Cold).max(1.0) } else { 1.0 };
    let copied =
        record / (value(Param::Memory) * if load.read || !conditions.here { 1.0 } else { value(Param::CopyRatio) });
    let memory = if cached || queued { copied * cold } else { 0.0 };
    let client = value(Param::ClientS) + value(Param::ClientByteS) * record;
    let limit = if conditions.cpu_limit > 0.0 { conditions.cpu_limit.min(1.0) } else { 1.0 };
    let (server, lock) = (value(Param::ServerS) * cold, existing(Param::LockOn, Param::LockS));
    let (delay, slow) = (value(Param::DelayS), existing(Param::SlowOn, Param::SlowS));
    let held = lock + existing(Param::LockOn, Param::LockShare) * (memory + disk);
    let undisked = [client, server, lock, memory, wire / link];
    let (longest, sum) = (undisked.iter().copied().fold(0.0, f64::max), undisked.iter().sum::<f64>());
    let alone = longest + (1.0 - value(Param::Overlap)) * (sum - longest);
    let slots = value(Param::Slots) / load.charge;
    let most = if load.granted > 0.0 { load.granted } else { load.busy };
    let waits = slots.max(1.0).min(most) / (delay + slow + alone);
    let waits = if waits * longest < KEPT_BUSY { waits } else { NEVER };
    let (few, slowed) = (slots < load.busy || load.granted > 0.0, slow > delay);
    let nic = if conditions.nic_bytes_per_s > 0.0 { conditions.nic_bytes_per_s / wire } else { NEVER };
    let machine = if conditions.same_machine { client + server + copied } else { 0.0 };
    let found = [
        limit / client,
        1.0 / server,
        per(memory),
        link / wire,
        nic,
        (value(Param::Window) / wire).min(if few && !slowed { waits } else { NEVER }),
        per(disk),
        if few || slowed { NEVER } else { waits },
        per(held).min(if slowed { waits } else { NEVER }),
        per(machine / conditions.cpus.max(1.0)),
        NEVER,
    ];
    found.map(|ceiling| ceiling.min(NEVER))
}

/// Seconds that the disks take for an operation that reaches them.
fn at_disk(theta: &Theta, load: &BusyLoad) -> f64 {
    let value = |at: Param| exp(theta[at as usize]);
    let rate = value(if load.read { Param::DiskRead } else { Param::DiskWrite });
    let moved = if load.read && !load.large { load.record.max(value(Param::Fetch)) } else { load.record };
    let mut disk = (moved / rate).max(value(Param::RequestS));
    if !load.large {
        disk += value(Param::SeekS) + if load.read { 0.0 } else { value(Param::CommitS) };
    }
    disk
}
