//! What one worker records: histograms, interval series, counts, errors.

use crate::hist;
use crate::timeline::Timeline;
use hdrhistogram::Histogram;
use naslab_core::{OpError, OpKind};
use naslab_workload::{StepKind, StreamHead};

/// Columns of one interval: read ops, read bytes, write ops, write bytes, flush ops, errors, worst latency.
pub(crate) const SERIES_COLUMNS: usize = 7;
/// One interval of the series.
pub(crate) type SeriesRow = [i64; SERIES_COLUMNS];

/// What operations are told apart by. The first three are those of [`OpKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum RecordKind {
    Read,
    Write,
    Flush,
    Open,
    Create,
    Close,
    Stat,
    Readdir,
    Mkdir,
    Rmdir,
    Remove,
    Rename,
    Truncate,
}

/// Names of the kinds in results, in order.
pub(crate) const KIND_NAMES: [&str; 13] = [
    "read", "write", "flush", "open", "create", "close", "stat", "readdir", "mkdir", "rmdir", "remove", "rename",
    "truncate",
];

/// A set of kinds, one bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KindSet(u16);

impl KindSet {
    /// Of operations that move data.
    pub fn of_ops(kinds: &[OpKind]) -> KindSet {
        KindSet(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u16))
    }

    /// Of all that a script's stream does.
    pub fn of_stream(head: &StreamHead) -> KindSet {
        let kinds = [
            (StepKind::Read, RecordKind::Read),
            (StepKind::Write, RecordKind::Write),
            (StepKind::Flush, RecordKind::Flush),
            (StepKind::Open, RecordKind::Open),
            (StepKind::Open, RecordKind::Create),
            (StepKind::Close, RecordKind::Close),
            (StepKind::Stat, RecordKind::Stat),
            (StepKind::Readdir, RecordKind::Readdir),
            (StepKind::Mkdir, RecordKind::Mkdir),
            (StepKind::Rmdir, RecordKind::Rmdir),
            (StepKind::Remove, RecordKind::Remove),
            (StepKind::Rename, RecordKind::Rename),
            (StepKind::Truncate, RecordKind::Truncate),
        ];
        let there = kinds.iter().filter(|(step, _)| head.has(*step));
        KindSet(there.fold(0, |set, (_, kind)| set | 1 << *kind as u16))
    }

    fn has(self, kind: usize) -> bool {
        self.0 & (1 << kind) != 0
    }
}

impl RecordKind {
    /// Of an operation.
    pub fn of_op(kind: OpKind) -> RecordKind {
        match kind {
            OpKind::Read => RecordKind::Read,
            OpKind::Write => RecordKind::Write,
            OpKind::Flush => RecordKind::Flush,
        }
    }
}

/// Length of an interval, on the engine's clock and in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub ticks: u64,
    pub ns: u64,
}

/// Counts and latencies of one operation kind.
#[derive(Debug)]
pub(crate) struct KindRecord {
    pub ops: u64,
    pub bytes: u64,
    pub service: Histogram<u64>,
    pub response: Option<Histogram<u64>>,
    /// Exact least and greatest service time, in nanoseconds.
    pub service_range: (u64, u64),
    /// Exact least and greatest response time, in nanoseconds.
    pub response_range: (u64, u64),
    /// Latencies of each interval: from the due time in an open loop.
    pub timeline: Timeline,
}

/// The range of no value at all.
const EMPTY_RANGE: (u64, u64) = (u64::MAX, 0);

#[inline(always)]
fn widen(range: &mut (u64, u64), low: u64, high: u64) {
    range.0 = range.0.min(low);
    range.1 = range.1.max(high);
}

/// All that one worker records in one cell.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub kinds: [Option<KindRecord>; KIND_NAMES.len()],
    pub series: Vec<SeriesRow>,
    row: SeriesRow,
    interval: Interval,
    boundary: u64,
    /// Whether an interval ended since the worker last looked.
    pub rolled: bool,
    /// Bytes sent and received on the wire in each interval.
    pub wire: Vec<[i64; 2]>,
    pub errors: Vec<(OpError, u64)>,
    pub error_count: u64,
    open_loop: bool,
    pub op_log: Option<Vec<[i64; 4]>>,
}

impl Recorder {
    /// A recorder for these kinds of operation.
    pub fn new(kinds: KindSet, open_loop: bool, interval: Interval, log_ops: Option<usize>) -> Recorder {
        let record = |kind: usize| kinds.has(kind).then(|| KindRecord::new(open_loop, interval));
        let mut recorder = Recorder {
            kinds: std::array::from_fn(record),
            series: Vec::with_capacity(1024),
            row: [0; SERIES_COLUMNS],
            interval: Interval { ticks: interval.ticks.max(1), ..interval },
            boundary: u64::MAX,
            rolled: false,
            wire: Vec::new(),
            errors: Vec::new(),
            error_count: 0,
            open_loop,
            op_log: log_ops.map(Vec::with_capacity),
        };
        recorder.reset();
        recorder
    }

    /// Sets the start of the first interval, in ticks of the engine's clock.
    pub fn arm(&mut self, now: u64) {
        self.boundary = now.saturating_add(self.interval.ticks);
    }

    /// Forgets everything recorded (and touches all memory, so that no page fault happens later).
    pub fn reset(&mut self) {
        for kind in self.kinds.iter_mut().flatten() {
            kind.ops = 0;
            kind.bytes = 0;
            kind.service.reset();
            kind.service_range = EMPTY_RANGE;
            kind.response_range = EMPTY_RANGE;
            kind.response.iter_mut().for_each(Histogram::reset);
            kind.timeline.reset();
        }
        self.wire.clear();
        self.rolled = false;
        self.series.clear();
        self.row = [0; SERIES_COLUMNS];
        self.errors.clear();
        self.error_count = 0;
        self.op_log.iter_mut().for_each(Vec::clear);
    }

    /// Records an operation that ended at tick `now`. `response_ns` counts from the due time in an open loop.
    #[inline(always)]
    pub fn success(&mut self, kind: OpKind, bytes: u32, now: u64, service_ns: u64, response_ns: u64) {
        self.roll_to(now);
        let index = kind as usize;
        self.row[2 * index] += 1;
        if index < 2 {
            self.row[2 * index + 1] += bytes as i64;
        }
        self.count(index, bytes, service_ns, response_ns);
    }

    /// Records a call that moves no data, as `success`.
    pub fn call(&mut self, kind: RecordKind, now: u64, service_ns: u64, response_ns: u64) {
        self.roll_to(now);
        if kind == RecordKind::Flush {
            self.row[4] += 1;
        }
        self.count(kind as usize, 0, service_ns, response_ns);
    }

    #[inline(always)]
    fn count(&mut self, index: usize, bytes: u32, service_ns: u64, response_ns: u64) {
        self.row[6] = self.row[6].max(service_ns as i64);
        if let Some(record) = &mut self.kinds[index] {
            record.ops += 1;
            record.bytes += bytes as u64;
            record.service.saturating_record(service_ns);
            widen(&mut record.service_range, service_ns, service_ns);
            record.timeline.count(if self.open_loop { response_ns } else { service_ns });
            if self.open_loop {
                widen(&mut record.response_range, response_ns, response_ns);
                record.response.iter_mut().for_each(|h| h.saturating_record(response_ns));
            }
        }
    }

    /// Records a failed operation.
    #[cold]
    pub fn failure(&mut self, error: OpError, now: u64) {
        self.roll_to(now);
        self.row[5] += 1;
        self.error_count += 1;
        match self.errors.iter_mut().find(|(e, _)| *e == error) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((error, 1)),
        }
    }

    #[inline]
    fn roll_to(&mut self, now: u64) {
        if now >= self.boundary {
            self.roll(now);
        }
    }

    #[cold]
    fn roll(&mut self, now: u64) {
        self.close_timelines();
        while now >= self.boundary {
            self.series.push(std::mem::take(&mut self.row));
            self.boundary += self.interval.ticks;
        }
        self.rolled = true;
    }

    /// (bucket, operations) of intervals that ended since the last call.
    pub fn news(&mut self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.kinds.iter_mut().flatten().flat_map(|kind| kind.timeline.news())
    }

    fn close_timelines(&mut self) {
        let interval = self.series.len();
        self.kinds.iter_mut().flatten().for_each(|kind| kind.timeline.close(interval));
    }

    /// Bytes sent and received on the wire since the last call; they belong to the interval that ended first since.
    pub fn count_wire(&mut self, moved: [i64; 2]) {
        self.rolled = false;
        if moved != [0, 0] && self.wire.len() <= self.series.len() {
            self.wire.push(moved);
        }
        self.wire.resize(self.series.len().max(self.wire.len()), [0; 2]);
    }

    /// Closes the last, partial interval.
    pub fn finish(&mut self) {
        self.close_timelines();
        if self.row.iter().any(|v| *v != 0) {
            self.series.push(std::mem::take(&mut self.row));
        }
    }

    /// Operations and bytes so far, over all kinds.
    pub fn totals(&self) -> (u64, u64) {
        self.kinds.iter().flatten().fold((0, 0), |(o, b), k| (o + k.ops, b + k.bytes))
    }

    /// Adds another worker's record of the same cell.
    pub fn merge(&mut self, other: &Recorder) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_with(|| KindRecord::new(theirs.response.is_some(), self.interval)).add(theirs);
            }
        }
        for (i, row) in other.series.iter().enumerate() {
            match self.series.get_mut(i) {
                Some(mine) => add_rows(mine, row),
                None => self.series.push(*row),
            }
        }
        self.wire.resize(self.wire.len().max(other.wire.len()), [0; 2]);
        for (mine, theirs) in self.wire.iter_mut().zip(&other.wire) {
            *mine = [mine[0] + theirs[0], mine[1] + theirs[1]];
        }
        self.error_count += other.error_count;
        for (error, count) in &other.errors {
            match self.errors.iter_mut().find(|(e, _)| e == error) {
                Some((_, mine)) => *mine += count,
                None => self.errors.push((*error, *count)),
            }
        }
        if let (Some(mine), Some(theirs)) = (&mut self.op_log, &other.op_log) {
            mine.extend_from_slice(theirs);
        }
    }
}

impl KindRecord {
    fn new(open_loop: bool, interval: Interval) -> KindRecord {
        KindRecord {
            ops: 0,
            bytes: 0,
            service: hist::empty(),
            response: open_loop.then(hist::empty),
            service_range: EMPTY_RANGE,
            response_range: EMPTY_RANGE,
            timeline: Timeline::new(interval.ns),
        }
    }

    fn add(&mut self, other: &KindRecord) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        widen(&mut self.service_range, other.service_range.0, other.service_range.1);
        widen(&mut self.response_range, other.response_range.0, other.response_range.1);
        // Both histograms have the same constant bounds, so adding cannot fail.
        let _ = self.service.add(&other.service);
        self.timeline.merge(&other.timeline);
        if let (Some(mine), Some(theirs)) = (&mut self.response, &other.response) {
            let _ = mine.add(theirs);
        }
    }
}

fn add_rows(mine: &mut SeriesRow, other: &SeriesRow) {
    for column in 0..SERIES_COLUMNS - 1 {
        mine[column] += other[column];
    }
    mine[6] = mine[6].max(other[6]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder() -> Recorder {
        let mut r = Recorder::new(
            KindSet::of_ops(&[OpKind::Read, OpKind::Write]),
            false,
            Interval { ticks: 100, ns: 100_000_000 },
            None,
        );
        r.arm(0);
        r
    }

    #[test]
    fn intervals_hold_what_ended_in_them() {
        let mut r = recorder();
        r.success(OpKind::Read, 10, 50, 5, 5);
        r.success(OpKind::Write, 20, 250, 9, 9);
        r.finish();
        assert_eq!(r.series, [[1, 10, 0, 0, 0, 0, 5], [0; 7], [0, 0, 1, 20, 0, 0, 9]]);
    }

    #[test]
    fn latencies_and_wire_bytes_lie_in_their_intervals() {
        let mut r = recorder();
        r.success(OpKind::Read, 10, 50, 5, 5);
        r.success(OpKind::Read, 10, 250, 9, 9);
        assert!(r.rolled);
        r.count_wire([7, 70]);
        r.success(OpKind::Read, 10, 260, 9, 9);
        r.count_wire([1, 10]);
        r.finish();
        assert_eq!(r.wire, [[7, 70], [0, 0], [1, 10]]);
        let rows = &r.kinds[0].as_ref().unwrap().timeline.rows;
        let at = |ns| crate::timeline::bucket_of(ns) as u32;
        assert_eq!(*rows, [[0, at(5), 1], [2, at(9), 2]]);
    }

    #[test]
    fn merging_commutes() {
        let mut a = recorder();
        let mut b = recorder();
        a.success(OpKind::Read, 10, 50, 5, 5);
        b.success(OpKind::Read, 10, 150, 7, 7);
        b.failure(OpError::from_errno(5), 160);
        a.finish();
        b.finish();
        let (mut ab, mut ba) = (recorder(), recorder());
        ab.merge(&a);
        ab.merge(&b);
        ba.merge(&b);
        ba.merge(&a);
        assert_eq!(ab.series, ba.series);
        assert_eq!(ab.totals(), (2, 20));
        assert_eq!(ab.error_count, ba.error_count);
        let hist = |r: &Recorder| r.kinds[0].as_ref().map(|k| k.service.clone());
        assert_eq!(hist(&ab), hist(&ba));
    }

    #[test]
    fn starting_again_forgets_the_warm_up() {
        let mut r = recorder();
        r.success(OpKind::Read, 10, 50, 5, 5);
        r.reset();
        r.arm(1000);
        assert_eq!(r.totals(), (0, 0));
        r.success(OpKind::Read, 10, 1050, 5, 5);
        r.finish();
        assert_eq!(r.series.len(), 1);
    }
}
