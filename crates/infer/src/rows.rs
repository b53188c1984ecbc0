//! What a ladder observed, as `python/naslab/explain/rows.py` hands it over, with all that no particle changes.

use crate::math::ln;
use crate::params::Mismatch;
use std::collections::HashMap;

/// Degrees of freedom of Student's t: a row that nothing explains costs little.
pub(crate) const FREEDOM: f64 = 4.0;

/// A processor's caches hold sets of up to so much, and nothing of those from `COLD_BYTES` on.
const WARM_BYTES: f64 = 4_194_304.0;
const COLD_BYTES: f64 = 67_108_864.0;

/// Columns of numbers by name; flags are 0 or 1. Names and units are those of `Rows`.
pub type Columns = HashMap<String, Vec<f64>>;

/// What a whole ladder has in common.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// The client's interface; 0 where nothing is known of it.
    pub nic_bytes_per_s: f64,
    /// Processors of the client.
    pub cpus: f64,
    /// Processors that the client may use at most; 0: all.
    pub cpu_limit: f64,
    /// Whether client and server share one machine.
    pub same_machine: bool,
    /// Whether the server was seen to be on the client's machine: no link between the two has a rate of its own.
    pub here: bool,
    /// Whether all that the server's processors do was counted, and nothing rations them.
    pub counted: bool,
    /// Whether no ladder chose the rows: what was not varied is as it usually is.
    pub usual: bool,
}

/// One row. `out`: requests under way; `within`: bytes that the load walks over; `null`: no operation reaches a disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) read: bool,
    pub(crate) durable: bool,
    pub(crate) random: bool,
    pub(crate) null: bool,
    pub(crate) whole: bool,
    pub(crate) late: bool,
    pub(crate) pair: Option<usize>,
    pub(crate) record: f64,
    pub(crate) depth: f64,
    pub(crate) workers: f64,
    pub(crate) out: f64,
    pub(crate) per_file: f64,
    pub(crate) per_worker: f64,
    pub(crate) client_lanes: f64,
    pub(crate) per_within: f64,
    pub(crate) ln_within: f64,
    /// How far the set lies beyond what a processor's caches hold, 0 to 1.
    pub(crate) cold: f64,
    /// Share of the requests that do not follow the one before.
    pub(crate) apart: f64,
    /// Share of the bytes that reach the disks where what is written again is written once.
    pub(crate) once: f64,
    pub(crate) start: f64,
    pub(crate) seconds: f64,
    pub(crate) moved: f64,
    pub(crate) count: f64,
    pub(crate) charge: f64,
    pub(crate) per_depth: f64,
    pub(crate) ln_count: f64,
    pub(crate) count_per_worker: f64,
    /// What one nat of Student's t takes from the likelihood.
    pub(crate) share: f64,
    pub(crate) weight: f64,
    pub(crate) seen: f64,
    pub(crate) per_scale: f64,
}

/// All rows, and orders to look at them in.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) each: Vec<Row>,
    pub(crate) conditions: Conditions,
    /// By their start.
    pub(crate) order: Vec<usize>,
    /// Writes by their start.
    pub(crate) writes: Vec<usize>,
    /// Rows of weight, what tells most first.
    pub(crate) telling: Vec<usize>,
    pub(crate) weight: f64,
}

impl Rows {
    pub(crate) fn new(columns: &Columns, conditions: Conditions) -> Result<Rows, Mismatch> {
        let count = column(columns, "record")?.len();
        let order = places(column(columns, "order")?, count)?;
        let each = (0..count).map(|at| row(columns, conditions, at, count)).collect::<Result<Vec<Row>, Mismatch>>()?;
        let mut telling: Vec<usize> = (0..count).filter(|at| each[*at].weight > 0.0).collect();
        telling.sort_by(|one, two| each[*two].weight.total_cmp(&each[*one].weight));
        let writes = order.iter().copied().filter(|at| !each[*at].read).collect();
        let weight = each.iter().map(|row| row.weight).sum();
        Ok(Rows { each, conditions, order, writes, telling, weight })
    }
}

fn column<'a>(columns: &'a Columns, name: &str) -> Result<&'a [f64], Mismatch> {
    columns.get(name).map(Vec::as_slice).ok_or_else(|| Mismatch(format!("rows without {name}")))
}

fn places(found: &[f64], count: usize) -> Result<Vec<usize>, Mismatch> {
    let made: Vec<usize> = found.iter().map(|at| *at as usize).collect();
    let mut sorted = made.clone();
    sorted.sort_unstable();
    match sorted.iter().copied().eq(0..count) {
        true => Ok(made),
        false => Err(Mismatch("the order of the rows leaves some out".to_owned())),
    }
}

fn row(columns: &Columns, conditions: Conditions, at: usize, count: usize) -> Result<Row, Mismatch> {
    let number = |name: &str| {
        let found = column(columns, name)?.get(at).copied();
        found.ok_or_else(|| Mismatch(format!("rows whose {name} ends at {at}")))
    };
    let flag = |name: &str| Ok::<bool, Mismatch>(number(name)? != 0.0);
    let pair = number("pair")?;
    if pair >= count as f64 {
        return Err(Mismatch(format!("row {at} beside one that is not there")));
    }
    let (record, depth, workers, files) = (number("record")?, number("depth")?, number("workers")?, number("files")?);
    let (size, moved) = (number("size")?, number("moved")?);
    let (operations, weight) = (number("count")?, number("weight")?);
    let (null, random, read) = (flag("null")?, flag("random")?, flag("read")?);
    let cold = (ln(size * files / WARM_BYTES) / ln(COLD_BYTES / WARM_BYTES)).clamp(0.0, 1.0);
    let limit = conditions.cpu_limit;
    Ok(Row {
        read,
        durable: flag("durable")?,
        whole: flag("whole")?,
        late: flag("late")?,
        pair: (pair >= 0.0).then_some(pair as usize),
        out: depth * workers,
        per_file: 1.0 / files,
        per_worker: 1.0 / workers,
        client_lanes: 1.0 / if limit > 0.0 { workers.min(limit) } else { workers },
        per_within: 1.0 / (size * files),
        ln_within: ln(size * files),
        cold: if read && !null { cold } else { 0.0 },
        apart: if random || (files > 1.0 && pair < 0.0) { 1.0 } else { (record / size).min(1.0) },
        once: (size * files / moved.max(1.0)).min(1.0),
        start: number("start")?,
        seconds: number("seconds")?,
        per_depth: 1.0 / depth,
        ln_count: ln(operations),
        count_per_worker: operations / workers,
        count: operations,
        charge: number("charge")?,
        share: (FREEDOM + 1.0) / 2.0 * weight,
        weight,
        seen: number("seen")?,
        per_scale: 1.0 / number("scale")?,
        null,
        random,
        record,
        depth,
        workers,
        moved,
    })
}
