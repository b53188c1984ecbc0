//! Latencies of each interval, as counts in buckets of a quarter of an octave: what a heat map over time shows.

/// Buckets: four to each power of two of nanoseconds, up to 73 minutes.
pub(crate) const BUCKETS: usize = 4 * 42;
/// Intervals shorter than this hold too few operations for a picture, and would cost more than they tell.
const LEAST_INTERVAL_NS: u64 = 10_000_000;

/// Columns: interval, bucket, operations.
pub(crate) type LatencyRow = [u32; 3];

/// The bucket of a latency: it begins at `floor_ns(bucket)` and is a quarter of its power of two wide.
#[inline(always)]
pub(crate) fn bucket_of(latency_ns: u64) -> usize {
    // Longer than any bucket, and short enough to be shifted.
    let latency_ns = latency_ns.min(1 << 60);
    let octave = 63 - (latency_ns | 1).leading_zeros();
    let quarter = (latency_ns << 2) >> octave & 3;
    (4 * octave as usize + quarter as usize).min(BUCKETS - 1)
}

/// Least latency of a bucket, in nanoseconds (rounded down below 4 ns).
pub(crate) fn floor_ns(bucket: usize) -> u64 {
    ((4 + bucket as u64 % 4) << (bucket / 4)) >> 2
}

/// Counts of one kind of operation.
#[derive(Debug)]
pub(crate) struct Timeline {
    recent: Box<[u32; BUCKETS]>,
    /// Intervals that ended, in order.
    pub rows: Vec<LatencyRow>,
    /// Rows that `news` gave already.
    told: usize,
    enabled: bool,
}

impl Timeline {
    /// For intervals of this length; too short ones record nothing.
    pub fn new(interval_ns: u64) -> Timeline {
        let enabled = interval_ns >= LEAST_INTERVAL_NS;
        Timeline { recent: Box::new([0; BUCKETS]), rows: Vec::with_capacity(256), told: 0, enabled }
    }

    /// One operation of the interval under way.
    #[inline(always)]
    pub fn count(&mut self, latency_ns: u64) {
        self.recent[bucket_of(latency_ns)] += 1;
    }

    /// The interval under way ends as number `interval`.
    pub fn close(&mut self, interval: usize) {
        if !self.enabled {
            return;
        }
        for (bucket, count) in self.recent.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            self.rows.push([interval as u32, bucket as u32, std::mem::take(count)]);
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.recent.fill(0);
        self.rows.clear();
        self.told = 0;
    }

    /// (bucket, operations) of intervals that ended since the last call.
    pub fn news(&mut self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let from = std::mem::replace(&mut self.told, self.rows.len());
        self.rows[from..].iter().map(|[_, bucket, count]| (*bucket as usize, u64::from(*count)))
    }

    /// Adds another worker's counts of the same intervals.
    pub fn merge(&mut self, other: &Timeline) {
        self.rows.extend_from_slice(&other.rows);
        self.rows.sort_unstable();
        self.rows.dedup_by(|later, earlier| {
            let same = later[..2] == earlier[..2];
            earlier[2] += if same { later[2] } else { 0 };
            same
        });
    }
}

/// The latency that a share `q` of the counted operations does not pass: upper end of its bucket. `None` of none.
pub(crate) fn quantile_ns(counts: &[u64; BUCKETS], q: f64) -> Option<u64> {
    let total: u64 = counts.iter().sum();
    let wanted = (total as f64 * q).ceil().max(1.0) as u64;
    let mut seen = 0;
    let found = counts.iter().position(|count| {
        seen += count;
        seen >= wanted
    });
    found.filter(|_| total > 0).map(|bucket| floor_ns(bucket + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_holds_its_latencies(ns in 4u64..4_000_000_000_000) {
            let bucket = bucket_of(ns);
            prop_assert!(floor_ns(bucket) <= ns && ns < floor_ns(bucket + 1));
            prop_assert!(floor_ns(bucket + 1) as f64 <= 1.26 * floor_ns(bucket) as f64);
        }
    }

    #[test]
    fn extremes_have_a_bucket() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn intervals_are_told_apart_and_merged() {
        let mut a = Timeline::new(100_000_000);
        let mut b = Timeline::new(100_000_000);
        for (timeline, latencies) in [(&mut a, [1000, 1000]), (&mut b, [1000, 5000])] {
            latencies.iter().for_each(|ns| timeline.count(*ns));
            timeline.close(0);
            timeline.count(7000);
            timeline.close(3);
        }
        a.merge(&b);
        let at = |ns| bucket_of(ns) as u32;
        assert_eq!(a.rows, [[0, at(1000), 3], [0, at(5000), 1], [3, at(7000), 2]]);
    }

    #[test]
    fn very_short_intervals_record_nothing() {
        let mut short = Timeline::new(1_000_000);
        short.count(5);
        short.close(0);
        assert!(short.rows.is_empty());
    }

    #[test]
    fn quantiles_are_upper_ends() {
        let mut counts = [0u64; BUCKETS];
        assert_eq!(quantile_ns(&counts, 0.99), None);
        counts[bucket_of(1000)] = 98;
        counts[bucket_of(1_000_000)] = 2;
        assert_eq!(quantile_ns(&counts, 0.5), Some(1024));
        assert_eq!(quantile_ns(&counts, 0.99), Some(floor_ns(bucket_of(1_000_000) + 1)));
    }
}
