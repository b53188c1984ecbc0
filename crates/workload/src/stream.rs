//! The sequence of operations one worker carries out.

use crate::{Arrival, Offsets, Pattern, Rng, Walk};
use naslab_core::{FileId, Op, OpKind};

/// Which operations are writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Share of operations that write, 0 to 1.
    pub write_fraction: f64,
}

/// Operations of one worker on one file: seeded, bounded by `ops`, with due times in an open loop.
#[derive(Clone, Debug)]
pub struct OpStream {
    offsets: Offsets,
    first_record: u64,
    record_bytes: u32,
    write_below: u64,
    rng: Rng,
    arrival: Option<Arrival>,
    walk: Option<Walk>,
    ops_left: u64,
    file: FileId,
}

impl OpStream {
    /// Operations on records `first_record .. first_record + records` of `record_bytes` each.
    ///
    /// `ops` bounds the number of operations (u64::MAX: endless).
    pub fn new(
        pattern: Pattern,
        first_record: u64,
        records: u64,
        record_bytes: u32,
        ops: u64,
        mix: Mix,
        seed: u64,
    ) -> OpStream {
        let write_below =
            if mix.write_fraction >= 1.0 { u64::MAX } else { (mix.write_fraction.max(0.0) * u64::MAX as f64) as u64 };
        OpStream {
            offsets: Offsets::new(pattern, records, seed),
            first_record,
            record_bytes,
            write_below,
            rng: Rng::new(seed, 0x3137),
            arrival: None,
            walk: None,
            ops_left: ops,
            file: FileId(0),
        }
    }

    /// Adds due times.
    pub fn with_arrival(mut self, arrival: Arrival) -> OpStream {
        self.arrival = Some(arrival);
        self
    }

    /// Lets a walk choose the offsets instead of the pattern of records.
    pub fn with_walk(mut self, walk: Walk) -> OpStream {
        self.walk = Some(walk);
        self
    }

    /// Sets the open file the operations name.
    pub fn set_file(&mut self, file: FileId) {
        self.file = file;
    }

    /// Operations still to come.
    pub fn ops_left(&self) -> u64 {
        self.ops_left
    }

    /// The next operation, or `None` after the last. Due times count from the cell's start.
    #[inline(always)]
    pub fn next_op(&mut self) -> Option<Op> {
        if self.ops_left == 0 {
            return None;
        }
        self.ops_left -= 1;
        let offset_bytes = match &mut self.walk {
            None => (self.first_record + self.offsets.next_record()) * self.record_bytes as u64,
            Some(walk) => walk.next_bytes(),
        };
        Some(Op {
            kind: self.next_kind(),
            file: self.file,
            offset_bytes,
            len_bytes: self.record_bytes,
            due_ns: self.arrival.as_mut().map(Arrival::next_due_ns),
        })
    }

    #[inline(always)]
    fn next_kind(&mut self) -> OpKind {
        match self.write_below {
            0 => OpKind::Read,
            u64::MAX => OpKind::Write,
            below if self.rng.bits() < below => OpKind::Write,
            _ => OpKind::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_holds_its_share() {
        let mut stream = OpStream::new(Pattern::Random, 0, 100, 4096, 100_000, Mix { write_fraction: 0.3 }, 5);
        let mut writes = 0;
        while let Some(op) = stream.next_op() {
            writes += (op.kind == OpKind::Write) as u32;
        }
        assert!((29_000..31_000).contains(&writes), "{writes} writes of 100000");
    }

    #[test]
    fn a_slice_of_the_file_stays_in_the_slice() {
        let mut stream = OpStream::new(Pattern::Permutation, 10, 5, 512, 5, Mix { write_fraction: 0.0 }, 5);
        let mut offsets: Vec<u64> = std::iter::from_fn(|| stream.next_op()).map(|op| op.offset_bytes).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, [5120, 5632, 6144, 6656, 7168]);
    }
}
