//! Queues that serve one request after another at a rate, token buckets that change the rate, fast cells that
//! fill up, and noise on all of it.
//!
//! Inside a busy queue time is kept in ticks of 2^-32 ns and bytes in units of 10^-9 * 2^-32 byte, so
//! that rate x ticks = units holds in integers and a billion requests drift by less than a nanosecond.
//! Whatever leaves a queue does so on a whole nanosecond, rounded up.

use crate::config::{AppliesTo, BucketConfig};
use crate::noise::{RateNoise, FACTOR_BITS};
use crate::stalls::Stalls;

/// Time in ticks of 2^-32 ns.
pub(crate) type Ticks = u128;

const TICK_BITS: u32 = 32;

pub(crate) fn ticks(ns: u64) -> Ticks {
    Ticks::from(ns) << TICK_BITS
}

fn ceil_ns(t: Ticks) -> u64 {
    let ns = (t + (1 << TICK_BITS) - 1) >> TICK_BITS;
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Bytes in the unit of rate x ticks.
fn units(bytes: u64) -> u128 {
    (u128::from(bytes) * 1_000_000_000) << TICK_BITS
}

/// Direction of data, for buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Read,
    Write,
}

/// When tokens come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Earns {
    /// At the base rate, whatever moves: credit.
    Always,
    /// At this rate while nothing moves in either direction: fast cells that are emptied.
    Idle(u128),
}

/// The classic token bucket: it fills at the base rate up to its size; data moves at the burst rate
/// while there are tokens and takes one token a byte, then at the base rate. Fast cells are the same but for
/// when tokens come back.
#[derive(Debug)]
pub(crate) struct Bucket {
    applies_to: AppliesTo,
    earns: Earns,
    burst: u128,
    base: u128,
    size: u128,
    tokens: u128,
    /// Tokens are right at this time; also the end of the last service.
    updated: Ticks,
}

impl Bucket {
    pub(crate) fn new(config: &BucketConfig) -> Bucket {
        let size = units(config.size_bytes);
        let full = (config.size_bytes as f64 * config.initial_fill).round() as u64;
        Bucket {
            applies_to: config.applies_to,
            earns: Earns::Always,
            burst: config.burst_bytes_per_s.into(),
            base: config.base_bytes_per_s.into(),
            size,
            tokens: units(full).min(size),
            updated: 0,
        }
    }

    /// Fast cells for writes: `size` bytes at any rate, then `full` bytes per second; idle, `fold` come free.
    pub(crate) fn fast_cells(size: u64, full: u64, fold: u64) -> Bucket {
        Bucket {
            applies_to: AppliesTo::Write,
            earns: Earns::Idle(fold.into()),
            burst: u128::MAX,
            base: full.into(),
            size: units(size),
            tokens: units(size),
            updated: 0,
        }
    }

    fn applies(&self, flow: Flow) -> bool {
        match self.applies_to {
            AppliesTo::Both => true,
            AppliesTo::Read => flow == Flow::Read,
            AppliesTo::Write => flow == Flow::Write,
        }
    }

    fn rate(&self) -> u128 {
        if self.tokens > 0 {
            self.burst
        } else {
            self.base
        }
    }

    /// Nothing moves until `now`.
    fn rest(&mut self, now: Ticks) {
        let dt = now.saturating_sub(self.updated);
        let rate = match self.earns {
            Earns::Always => self.base,
            Earns::Idle(fold) => fold,
        };
        self.tokens = self.tokens.saturating_add(rate.saturating_mul(dt)).min(self.size);
        self.updated += dt;
    }

    /// Tokens (taken, gained) per tick by data that moves at `rate`; one of them is 0.
    fn cost(&self, rate: u128) -> (u128, u128) {
        match self.earns {
            Earns::Always => (rate.saturating_sub(self.base), self.base.saturating_sub(rate)),
            Earns::Idle(_) => (rate, 0),
        }
    }

    /// Data moves at `rate` for `dt`, where without noise it would be `nominal`. An empty bucket that holds the
    /// data to its base rate gains nothing from noise around it.
    fn pass(&mut self, nominal: u128, rate: u128, dt: Ticks) {
        if self.tokens > 0 || nominal < self.base {
            let (taken, gained) = self.cost(rate);
            self.tokens = self.tokens.saturating_sub(taken.saturating_mul(dt));
            self.tokens = self.tokens.saturating_add(gained.saturating_mul(dt)).min(self.size);
        }
        self.updated += dt;
    }

    /// Ticks until the tokens are gone at this rate.
    fn lasts(&self, rate: u128) -> Option<Ticks> {
        let (taken, _) = self.cost(rate);
        (self.tokens > 0 && taken > 0).then(|| self.tokens.div_ceil(taken))
    }
}

/// When `bytes` that start at `start` are through, with every bucket of this flow taking its part.
fn finish(
    start: Ticks,
    bytes: u64,
    rate: u64,
    flow: Flow,
    buckets: &mut [Bucket],
    noise: &mut Option<RateNoise>,
) -> Ticks {
    for b in buckets.iter_mut().filter(|b| b.applies(flow) || b.earns != Earns::Always) {
        b.rest(start);
    }
    let limit = if rate == 0 { u128::MAX } else { rate.into() };
    let mut left = units(bytes);
    let mut now = start;
    while left > 0 {
        let active = || buckets.iter().filter(|b| b.applies(flow));
        let nominal = active().map(Bucket::rate).fold(limit, u128::min);
        if nominal == u128::MAX {
            break;
        }
        let (rate, span) = match noise {
            None => (nominal, Ticks::MAX),
            Some(noise) => {
                let (factor, until) = noise.at(now);
                (((nominal * factor) >> FACTOR_BITS).max(1), until - now)
            }
        };
        let needed = left / rate;
        let dt = active().filter_map(|b| b.lasts(rate)).fold(needed, u128::min).min(span);
        left = if dt == needed { 0 } else { left - rate * dt };
        now += dt;
        for b in buckets.iter_mut().filter(|b| b.applies(flow)) {
            b.pass(nominal, rate, dt);
        }
    }
    for b in buckets.iter_mut().filter(|b| !b.applies(flow) && b.earns != Earns::Always) {
        b.updated = now; // The other direction moved: no time to fold.
    }
    now
}

/// A queue in front of something that serves one request at a time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    free: Ticks,
    noise: Option<RateNoise>,
    /// When it stops for a while.
    stalls: Option<Stalls>,
}

impl Queue {
    /// A queue whose rate wanders.
    pub(crate) fn noisy(noise: Option<RateNoise>) -> Queue {
        Queue { noise, ..Queue::default() }
    }

    /// The same, and it stops now and then.
    pub(crate) fn with(self, stalls: Option<Stalls>) -> Queue {
        Queue { stalls, ..self }
    }

    /// Work taken in at `now_ns` or before that is still to be done, in nanoseconds rounded up.
    pub(crate) fn backlog_ns(&self, now_ns: u64) -> u64 {
        ceil_ns(self.free.saturating_sub(ticks(now_ns)))
    }

    /// When a request that arrives at `now_ns` starts.
    fn next_start(&self, now_ns: u64) -> Ticks {
        let start = self.free.max(ticks(now_ns));
        self.stalls.as_ref().map_or(start, |s| s.start(start))
    }

    /// Takes a request that runs from `start` to `end` but for stops; returns when it is done.
    fn take(&mut self, start: Ticks, end: Ticks) -> u64 {
        self.free = self.stalls.as_ref().map_or(end, |s| s.end(start, end));
        ceil_ns(self.free)
    }

    /// Serves a request that arrives at `now_ns` and takes `duration_ns`; returns when it is done.
    pub(crate) fn hold(&mut self, now_ns: u64, duration_ns: u64) -> u64 {
        let start = self.next_start(now_ns);
        self.take(start, start + ticks(duration_ns))
    }

    /// Serves nothing before `until_ns`.
    pub(crate) fn block(&mut self, until_ns: u64) {
        self.free = self.free.max(ticks(until_ns));
    }

    /// Moves `bytes` that arrive at `now_ns` at `rate` (0: unlimited).
    pub(crate) fn send(&mut self, now_ns: u64, bytes: u64, rate: u64) -> u64 {
        self.serve(now_ns, &Work::new(bytes, rate, Flow::Read), &mut [])
    }

    /// Serves `work` that arrives at `now_ns`, together with the buckets of its flow.
    pub(crate) fn serve(&mut self, now_ns: u64, work: &Work, buckets: &mut [Bucket]) -> u64 {
        let mut start = self.next_start(now_ns);
        for b in buckets.iter().filter(|b| b.applies(work.flow)) {
            start = start.max(b.updated);
        }
        let moving = start + ticks(work.lead_ns);
        let moved = finish(moving, work.bytes, work.rate, work.flow, buckets, &mut self.noise);
        let least =
            if work.per_second == 0 { moving } else { moving + ticks(1_000_000_000).div_ceil(work.per_second.into()) };
        self.take(start, moved.max(least))
    }
}

/// One request to a queue.
#[derive(Debug)]
pub(crate) struct Work {
    /// Time before the data moves.
    pub(crate) lead_ns: u64,
    pub(crate) bytes: u64,
    /// Bytes per second; 0 is unlimited.
    pub(crate) rate: u64,
    /// Requests per second; 0 is unlimited.
    pub(crate) per_second: u64,
    pub(crate) flow: Flow,
}

impl Work {
    pub(crate) fn new(bytes: u64, rate: u64, flow: Flow) -> Work {
        Work { lead_ns: 0, bytes, rate, per_second: 0, flow }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(burst: u64, base: u64, size: u64, fill: f64) -> Bucket {
        Bucket::new(&BucketConfig {
            burst_bytes_per_s: burst,
            base_bytes_per_s: base,
            size_bytes: size,
            initial_fill: fill,
            ..BucketConfig::default()
        })
    }

    #[test]
    fn a_busy_queue_does_not_drift() {
        // 409.6 ns each: rounding up every time would be off by 0.1 %.
        let mut q = Queue::default();
        let mut end = 0;
        for _ in 0..1000 {
            end = q.send(0, 4096, 10_000_000_000);
        }
        assert_eq!(end, 409_600);
    }

    #[test]
    fn an_idle_queue_starts_at_once() {
        let mut q = Queue::default();
        assert_eq!(q.hold(100, 50), 150);
        assert_eq!(q.hold(120, 50), 200);
        assert_eq!(q.hold(1000, 50), 1050);
    }

    #[test]
    fn one_transfer_across_the_end_of_the_tokens() {
        // Drains 200 - 100 B/s: 1000 tokens last 10 s, 2000 B; the other 500 B take 5 s.
        let mut buckets = [bucket(200, 100, 1000, 1.0)];
        let end = Queue::default().serve(0, &Work::new(2500, 0, Flow::Read), &mut buckets);
        assert_eq!(end, 15_000_000_000);
    }

    #[test]
    fn two_buckets_the_tighter_one_counts() {
        // First runs dry after 10 s at 200 B/s; then 100 B/s lets the second (base 50) drain at 50 B/s.
        let mut buckets = [bucket(200, 100, 1000, 1.0), bucket(400, 50, 2000, 1.0)];
        let end = Queue::default().serve(0, &Work::new(4000, 0, Flow::Read), &mut buckets);
        // 0-10 s: 2000 B, second loses 1500 and has 500 left: 10 s more at 100 B/s (1000 B), then 50 B/s.
        assert_eq!(end, 10_000_000_000 + 10_000_000_000 + 20_000_000_000);
    }

    #[test]
    fn an_idle_bucket_fills_at_the_base_rate_and_no_further() {
        let mut b = bucket(200, 100, 1000, 0.0);
        b.rest(ticks(3_000_000_000));
        assert_eq!(b.tokens, units(300));
        b.rest(ticks(60_000_000_000));
        assert_eq!(b.tokens, units(1000));
    }

    #[test]
    fn fast_cells_fill_and_fold_only_while_nothing_moves() {
        let cells = || [Bucket::fast_cells(1000, 50, 10)];
        let (mut q, mut b) = (Queue::default(), cells());
        // 1000 B at the disk's 200 B/s, then 50 B/s: 5 s + 5 s.
        assert_eq!(q.serve(0, &Work::new(1250, 200, Flow::Write), &mut b), 10_000_000_000);
        // Ten idle seconds fold 100 B.
        assert_eq!(q.serve(20_000_000_000, &Work::new(100, 200, Flow::Write), &mut b), 20_500_000_000);
        assert_eq!(b[0].tokens, 0);
        // Reads are not held back, and leave no time to fold.
        assert_eq!(q.serve(20_500_000_000, &Work::new(2000, 200, Flow::Read), &mut b), 30_500_000_000);
        assert_eq!(q.serve(30_500_000_000, &Work::new(50, 200, Flow::Write), &mut b), 31_500_000_000);
        // A slow writer fills them all the same: 500 B in 10 s.
        let (mut q, mut b) = (Queue::default(), cells());
        assert_eq!(q.serve(0, &Work::new(500, 50, Flow::Write), &mut b), 10_000_000_000);
        assert_eq!(b[0].tokens, units(500));
    }

    #[test]
    fn noise_around_the_base_rate_is_no_credit() {
        let noise = || RateNoise::new(crate::noise::Noise::new(3, 5), 0.1, 0.7, 100_000_000);
        let mut buckets = [bucket(200_000, 100_000, 1_000_000, 0.0)];
        let mut q = Queue::noisy(noise());
        let mut end = 0;
        for _ in 0..100_000 {
            end = q.serve(end, &Work::new(1000, 0, Flow::Read), &mut buckets);
            assert_eq!(buckets[0].tokens, 0);
        }
        // 1000 s, 10,000 spans: 0.24 % of standard error.
        assert!(end.abs_diff(1_000_000_000_000) < 10_000_000_000, "{end}");
        // And what a full one holds is moved above the base, however the rate wandered meanwhile.
        let mut buckets = [bucket(200_000, 100_000, 1_000_000, 1.0)];
        let (mut q, mut end, mut moved) = (Queue::noisy(noise()), 0, 0);
        while buckets[0].tokens > 0 {
            end = q.serve(end, &Work::new(100, 0, Flow::Read), &mut buckets);
            moved += 100;
        }
        let above = moved as f64 - 100_000.0 * end as f64 / 1e9;
        assert!((above - 1_000_000.0).abs() < 200.0, "{above}");
    }

    #[test]
    fn a_slower_limit_lets_the_bucket_fill() {
        let mut buckets = [bucket(200, 100, 1000, 0.0)];
        let end = Queue::default().serve(0, &Work::new(500, 50, Flow::Read), &mut buckets);
        assert_eq!(end, 10_000_000_000);
        assert_eq!(buckets[0].tokens, units(500));
    }
}
