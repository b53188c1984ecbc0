//! The clock an engine runs on: the machine's, or a simulated server's virtual one.

use crate::os::monotonic_ns;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// A source of nanoseconds, monotonic within one run.
///
/// `Real` reads the time-stamp counter through `quanta` (about 10 ns a read, tens of ppm of drift
/// against CLOCK_MONOTONIC): it times single operations. Durations of whole windows come from
/// [`monotonic_ns`]. `Virtual` holds the time of a simulated server and moves only when the engine
/// moves it.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's time-stamp counter, counted from the clock's creation.
    Real {
        /// Scales counter ticks to nanoseconds.
        ticks: quanta::Clock,
        /// Counter value at creation.
        base: u64,
        /// Ticks of the counter per nanosecond.
        ticks_per_ns: f64,
    },
    /// Virtual nanoseconds, shared with the simulated target.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock on the machine's counter, starting near zero.
    pub fn real() -> Clock {
        let ticks = quanta::Clock::new();
        const SPAN_TICKS: u64 = 1 << 40;
        let ticks_per_ns = SPAN_TICKS as f64 / ticks.delta_as_nanos(0, SPAN_TICKS) as f64;
        let base = ticks.raw();
        Clock::Real { ticks, base, ticks_per_ns }
    }

    /// A virtual clock at zero.
    pub fn new_virtual() -> Clock {
        Clock::Virtual(Arc::new(AtomicU64::new(0)))
    }

    /// Nanoseconds since the clock's start.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        match self {
            Clock::Real { ticks, base, .. } => ticks.delta_as_nanos(*base, ticks.raw()),
            Clock::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// The bare counter, for the hot path: compare ticks with ticks and convert spans only.
    #[inline(always)]
    pub fn ticks(&self) -> u64 {
        match self {
            Clock::Real { ticks, .. } => ticks.raw(),
            Clock::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// Nanoseconds between two readings of `ticks`; 0 if `to` lies before `from`.
    #[inline(always)]
    pub fn span_ns(&self, from: u64, to: u64) -> u64 {
        match self {
            Clock::Real { ticks, .. } => ticks.delta_as_nanos(from, to),
            Clock::Virtual(_) => to.saturating_sub(from),
        }
    }

    /// Ticks that a span of nanoseconds takes.
    #[inline]
    pub fn ticks_of(&self, span_ns: u64) -> u64 {
        match self {
            Clock::Real { ticks_per_ns, .. } => (span_ns as f64 * ticks_per_ns) as u64,
            Clock::Virtual(_) => span_ns,
        }
    }

    /// Whether time moves only by [`Clock::advance_to`].
    pub fn is_virtual(&self) -> bool {
        matches!(self, Clock::Virtual(_))
    }

    /// Moves a virtual clock forward to `to_ns`; never backwards. Does nothing on a real clock.
    pub fn advance_to(&self, to_ns: u64) {
        if let Clock::Virtual(now) = self {
            now.fetch_max(to_ns, Ordering::Relaxed);
        }
    }

    /// Nanoseconds for the duration of a window: CLOCK_MONOTONIC, or the virtual time.
    pub fn window_ns(&self) -> u64 {
        match self {
            Clock::Real { .. } => monotonic_ns(),
            Clock::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_moves_only_forward() {
        let clock = Clock::new_virtual();
        clock.advance_to(5);
        clock.advance_to(3);
        assert_eq!(clock.now_ns(), 5);
        assert_eq!(clock.window_ns(), 5);
    }

    #[test]
    fn ticks_and_nanoseconds_agree() {
        let clock = Clock::real();
        let from = clock.ticks();
        let (span, tick) = (clock.span_ns(from, from + clock.ticks_of(1_000_000_000)), clock.span_ns(from, from + 1));
        assert!(span.abs_diff(1_000_000_000) < tick + 10, "{span}"); // a tick of an ARM machine may take 16 ns
        assert_eq!(clock.span_ns(from, from.saturating_sub(5)), 0);
        assert_eq!(Clock::new_virtual().ticks_of(7), 7);
    }

    #[test]
    fn real_time_never_goes_back() {
        let clock = Clock::real();
        let reads: Vec<u64> = (0..1000).map(|_| clock.now_ns()).collect();
        assert!(reads.windows(2).all(|w| w[0] <= w[1]));
    }
}
