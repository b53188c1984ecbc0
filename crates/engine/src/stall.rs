//! Whether this client itself stood still, slept, or had its clock set while a cell was measured.
//!
//! A thread of its own wakes every [`TICK`] and reads the clocks. A wake-up that comes late means that nothing of this
//! process ran: it was stopped (SIGSTOP, a frozen container), its virtual machine was paused, or it got no processor.
//! The clock of durations runs on meanwhile and stands still in suspend; the wall clock may jump at any time.

use crate::result::ClientStall;
use naslab_core::{monotonic_ns, wall_ns};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at the clocks.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// A wake-up counts as late from here on: schedulers under load stay below, a stopped process does not.
pub(crate) const LATE_NS: u64 = 100_000_000;
/// Differences between clocks count from here on (the same as in `naslab.client.clocks`).
const STEP_NS: i64 = 10_000_000;
/// Clocks read further apart than this do not belong together.
const APART_NS: u64 = 1_000_000;
/// Events kept of one cell; later ones only add to the last.
const MAX_EVENTS: usize = 4096;

/// Clocks read together.
#[derive(Clone, Copy, Debug)]
struct Reading {
    monotonic_ns: u64,
    /// Time asleep included, and the wall clock. None where something came in between.
    others: Option<(u64, u64)>,
}

impl Reading {
    fn now() -> Reading {
        for _ in 0..3 {
            let before = monotonic_ns();
            let others = (naslab_core::boot_ns(), wall_ns());
            if monotonic_ns() - before <= APART_NS {
                return Reading { monotonic_ns: before, others: Some(others) };
            }
        }
        Reading { monotonic_ns: monotonic_ns(), others: None }
    }
}

/// Something that happened between two readings; times of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default)]
struct Event {
    from_ns: u64,
    to_ns: u64,
    late: bool,
    asleep_ns: i64,
    step_ns: i64,
}

/// What was seen of one cell so far.
#[derive(Debug)]
struct Ledger {
    last_ns: u64,
    /// The last readings of the other clocks, with the monotonic time that belongs to them.
    others: Option<(u64, u64, u64)>,
    events: Vec<Event>,
}

impl Ledger {
    fn new(first: Reading) -> Ledger {
        let mut ledger = Ledger { last_ns: first.monotonic_ns, others: None, events: Vec::new() };
        ledger.tick(first);
        ledger
    }

    fn tick(&mut self, now: Reading) {
        let due_ns = self.last_ns + TICK.as_nanos() as u64;
        let mut event = Event { from_ns: due_ns, to_ns: now.monotonic_ns.max(due_ns), ..Event::default() };
        event.late = event.to_ns - event.from_ns >= LATE_NS;
        if let Some((boot_ns, wall_ns)) = now.others {
            if let Some((monotonic, boot, wall)) = self.others {
                let passed = since(now.monotonic_ns, monotonic);
                let asleep = since(boot_ns, boot) - passed;
                event.asleep_ns = if asleep > STEP_NS { asleep } else { 0 };
                let step = since(wall_ns, wall) - passed - event.asleep_ns;
                event.step_ns = if step.abs() > STEP_NS { step } else { 0 };
            }
            self.others = Some((now.monotonic_ns, boot_ns, wall_ns));
        }
        self.last_ns = now.monotonic_ns;
        if event.late || event.asleep_ns != 0 || event.step_ns != 0 {
            self.keep(event);
        }
    }

    fn keep(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            return self.events.push(event);
        }
        if let Some(last) = self.events.last_mut() {
            last.to_ns = event.to_ns;
            last.late |= event.late;
            last.asleep_ns += event.asleep_ns;
            last.step_ns = larger(last.step_ns, event.step_ns);
        }
    }
}

fn since(now: u64, then: u64) -> i64 {
    now.wrapping_sub(then) as i64
}

fn larger(a: i64, b: i64) -> i64 {
    if b.abs() > a.abs() {
        b
    } else {
        a
    }
}

/// What was seen over a whole cell, set-up and end included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Vec<Event>);

impl Seen {
    /// The part of it that lies within the timed window, which is all that can make numbers wrong.
    pub fn within(&self, start_ns: u64, end_ns: u64) -> ClientStall {
        let mut found = ClientStall::default();
        for event in &self.0 {
            let (from, to) = (event.from_ns.max(start_ns), event.to_ns.min(end_ns));
            if event.late && to > from {
                found.count += 1;
                found.total_ns += to - from;
                found.longest_ns = found.longest_ns.max(to - from);
            }
            // Seen when the next tick came: what it tells of happened within a tick before.
            let before_ns = event.from_ns.saturating_sub(TICK.as_nanos() as u64);
            if event.to_ns >= start_ns && before_ns <= end_ns {
                found.asleep_ns += event.asleep_ns as u64;
                found.clock_step_ns = larger(found.clock_step_ns, event.step_ns);
            }
        }
        found
    }
}

/// The watch over one cell; ends when dropped.
pub(crate) struct StallWatch {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<Seen>>,
}

impl StallWatch {
    /// Begins to watch. Without a thread, where none can be had, nothing is seen.
    pub fn begin() -> StallWatch {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = over.clone();
        let ledger = Ledger::new(Reading::now());
        let thread = std::thread::Builder::new().name("naslab-stall".into()).spawn(move || watch(ledger, &theirs));
        StallWatch { over, thread: thread.ok() }
    }

    /// What was seen until now; None where nobody watched.
    pub fn end(mut self) -> Option<Seen> {
        self.tell();
        self.thread.take()?.join().ok()
    }

    fn tell(&self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_one();
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.tell();
    }
}

fn watch(mut ledger: Ledger, over: &(Mutex<bool>, Condvar)) -> Seen {
    let mut is_over = over.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*is_over {
        is_over = over.1.wait_timeout(is_over, TICK).unwrap_or_else(PoisonError::into_inner).0;
        ledger.tick(Reading::now());
    }
    Seen(ledger.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    fn at(monotonic_ns: u64, boot_ns: u64, wall_ns: u64) -> Reading {
        Reading { monotonic_ns, others: Some((boot_ns, wall_ns)) }
    }

    /// Readings every 20 ms, with what happens after the tenth.
    fn seen(stop_ns: u64, asleep_ns: u64, step_ns: i64) -> Seen {
        let mut ledger = Ledger::new(at(S, S, S));
        for tick in 1..=20 {
            let (late, slept, step) = if tick > 10 { (stop_ns, asleep_ns, step_ns) } else { (0, 0, 0) };
            let now = S + tick * 20 * MS + late;
            ledger.tick(at(now, now + slept, (now + slept).wrapping_add_signed(step)));
        }
        Seen(ledger.events)
    }

    #[test]
    fn an_undisturbed_cell_has_nothing() {
        assert_eq!(seen(0, 0, 0).within(0, 10 * S), ClientStall::default());
        assert_eq!(seen(90 * MS, 0, 0).within(0, 10 * S), ClientStall::default());
    }

    #[test]
    fn a_stop_is_seen_with_its_length() {
        let found = seen(10 * S, 0, 0).within(0, 100 * S);
        assert_eq!(found, ClientStall { longest_ns: 10 * S, total_ns: 10 * S, count: 1, ..ClientStall::default() });
    }

    #[test]
    fn a_stop_counts_as_far_as_it_lies_in_the_window() {
        let all = seen(10 * S, 0, 0);
        let stopped = S + 220 * MS;
        assert_eq!(all.within(0, stopped + 3 * S).total_ns, 3 * S);
        assert_eq!(all.within(stopped + 4 * S, 100 * S).total_ns, 6 * S);
        assert_eq!(all.within(0, S), ClientStall::default());
        assert_eq!(all.within(20 * S, 21 * S), ClientStall::default());
    }

    #[test]
    fn clocks_that_jump_are_seen_either_way() {
        for step_ns in [3_600 * S as i64, -3_600 * S as i64, 50 * MS as i64] {
            let found = seen(0, 0, step_ns).within(0, 10 * S);
            assert_eq!(found, ClientStall { clock_step_ns: step_ns, ..ClientStall::default() });
        }
        assert_eq!(seen(0, 0, 9 * MS as i64).within(0, 10 * S), ClientStall::default());
    }

    #[test]
    fn sleep_is_no_step_of_the_clock() {
        let found = seen(0, 30 * S, 0).within(0, 10 * S);
        assert_eq!(found, ClientStall { asleep_ns: 30 * S, ..ClientStall::default() });
    }

    #[test]
    fn clocks_read_apart_are_not_compared() {
        let mut ledger = Ledger::new(at(S, S, S));
        ledger.tick(Reading { monotonic_ns: S + 20 * MS, others: None });
        ledger.tick(at(S + 40 * MS, S + 40 * MS, 2 * S + 40 * MS));
        assert_eq!(Seen(ledger.events).within(0, 10 * S).clock_step_ns, S as i64);
    }

    #[test]
    fn the_list_of_events_is_bounded() {
        let mut ledger = Ledger::new(at(S, S, S));
        for tick in 1..=2 * MAX_EVENTS as u64 {
            let now = S + tick * S;
            ledger.tick(at(now, now, now));
        }
        assert_eq!(ledger.events.len(), MAX_EVENTS);
        let found = Seen(ledger.events).within(0, u64::MAX);
        assert!(found.total_ns >= MAX_EVENTS as u64 * 980 * MS, "{found:?}");
    }

    #[test]
    fn the_thread_ends_and_brings_what_it_saw() {
        assert!(StallWatch::begin().end().is_some());
        drop(StallWatch::begin());
    }
}
