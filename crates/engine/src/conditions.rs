//! The conditions under which this client measured a cell: what it was allowed, and what kept it from its processors.
//!
//! Control groups are read once before and once after a cell, /proc/stat only in cells long enough for its ticks, and
//! each worker reads its own thread's times outside its window. Linux only; elsewhere fields are `None`.

use crate::cell::WorkerResult;
use crate::cgroup::{affinity_cores, Groups, Throttle};
use crate::os::{thread_ns, ticks_per_s};
use crate::usage::Cpu;
use naslab_core::monotonic_ns;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;

/// Ticks of /proc/stat are 10 ms long: over a shorter time they say too little.
const LEAST_TICKS_NS: u64 = 180_000_000;

/// What a cell says of the client that measured it. Fractions are 0 to 1; `None`: not known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Client {
    pub cpu_limit_cores: Option<f64>,
    pub throttled_fraction: Option<f64>,
    pub throttled_periods_fraction: Option<f64>,
    pub steal_fraction: Option<f64>,
    pub busiest_core_fraction: Option<f64>,
    pub others_cores: Option<f64>,
    pub runnable_wait_fraction: Option<f64>,
    pub busiest_worker_fraction: Option<f64>,
}

/// Looks at this machine while the workers of a cell are under way.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    groups: Groups,
    begun: Option<Begun>,
    found: Client,
}

/// When a cell began, with what control groups and ticks said then.
#[derive(Debug)]
struct Begun {
    at_ns: u64,
    limit_cores: f64,
    throttles: Vec<Option<Throttle>>,
    ticks: Option<(u64, Ticks)>,
}

impl Sampler {
    pub fn new() -> Sampler {
        Sampler { groups: Groups::find(Path::new("/")), ..Sampler::default() }
    }

    /// The workers begin.
    pub fn begin(&mut self) {
        let bounds = self.groups.bounds();
        let limit_cores = bounds.iter().map(|b| b.cores).fold(affinity_cores() as f64, f64::min);
        let throttles = bounds.iter().map(|b| b.throttle()).collect();
        self.begun = Some(Begun { at_ns: monotonic_ns(), limit_cores, throttles, ticks: None });
    }

    /// Now and then while they are at work: short cells, which end before the first call, are spared a look at ticks.
    pub fn look(&mut self) {
        if let Some(begun) = self.begun.as_mut().filter(|b| b.ticks.is_none()) {
            begun.ticks = Ticks::now(Path::new("/")).map(|ticks| (monotonic_ns(), ticks));
        }
    }

    /// All of `workers` came home.
    pub fn end(&mut self, workers: u32) {
        let Some(begun) = self.begun.take() else { return };
        let Begun { at_ns, limit_cores, throttles, ticks } = begun;
        let took_ns = monotonic_ns().saturating_sub(at_ns);
        let bounds = self.groups.bounds();
        // A quota that came or went meanwhile leaves nothing to compare.
        let known = if bounds.len() == throttles.len() { throttles } else { Vec::new() };
        let pairs = bounds.iter().zip(&known).filter_map(|(b, before)| Some(b.throttle()?.since((*before)?)));
        let at_once = (workers as usize).min(affinity_cores()).max(1) as u64;
        let (throttled, periods) = held_back(pairs, took_ns.saturating_mul(at_once));
        self.found = Client {
            cpu_limit_cores: Some(limit_cores),
            throttled_fraction: throttled,
            throttled_periods_fraction: periods,
            ..ticks.and_then(|(at_ns, ticks)| over_ticks(at_ns, &ticks)).unwrap_or_default()
        };
    }

    /// What was found of the cell that ended, with what its workers say; the next one begins with nothing.
    pub fn take(&mut self, workers: &[WorkerResult]) -> Client {
        let found = std::mem::take(&mut self.found);
        let windows: Option<Vec<_>> = workers.iter().map(Window::of).collect();
        let (busiest, waited) = of_windows(&windows.unwrap_or_default());
        Client { busiest_worker_fraction: busiest, runnable_wait_fraction: waited, ..found }
    }
}

/// (share of the time, share of periods) of the group that was held back most. The kernel adds up the time over the
/// processors on which the group was held back: of_ns is the cell's time on as many as its workers can keep busy.
fn held_back(throttles: impl Iterator<Item = Throttle>, of_ns: u64) -> (Option<f64>, Option<f64>) {
    let worst = throttles.max_by_key(|t| t.throttled_ns);
    let time = worst.map(|t| share(t.throttled_ns as f64, of_ns as f64));
    (time, worst.filter(|t| t.periods > 0).map(|t| share(t.throttled_periods as f64, t.periods as f64)))
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Figures from ticks, where enough of them went by.
fn over_ticks(at_ns: u64, before: &Ticks) -> Option<Client> {
    let took_ns = monotonic_ns().saturating_sub(at_ns);
    (took_ns >= LEAST_TICKS_NS).then(|| Ticks::now(Path::new("/")).map(|after| after.since(before, took_ns)))?
}

/// Processor time by /proc/stat, and what of it was this process's and its children's.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ticks {
    all: Row,
    each: BTreeMap<String, Row>,
    /// None where this system does not say who descends from whom.
    own_ns: Option<u64>,
}

/// One line of /proc/stat, in ticks. at_work: in programs, and in the kernel for them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    at_work: u64,
    interrupts: u64,
    steal: u64,
    total: u64,
}

impl Row {
    fn parse(fields: &str) -> Option<Row> {
        let found: Vec<u64> = fields.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
        let &[user, nice, system, _idle, _wait, hard, soft, steal] = found.as_slice() else { return None };
        let (at_work, total) = (user + nice + system, found.iter().sum());
        Some(Row { at_work, interrupts: hard + soft, steal, total })
    }

    fn since(self, before: Row) -> Row {
        Row {
            at_work: self.at_work.saturating_sub(before.at_work),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            steal: self.steal.saturating_sub(before.steal),
            total: self.total.saturating_sub(before.total),
        }
    }
}

impl Ticks {
    /// root: `/`, but in tests.
    fn now(root: &Path) -> Option<Ticks> {
        let own_ns = own_cpu_ns(root);
        Ticks::parse(&read_to_string(root.join("proc/stat")).ok()?, own_ns)
    }

    fn parse(text: &str, own_ns: Option<u64>) -> Option<Ticks> {
        let rows = text.lines().map_while(|line| line.strip_prefix("cpu")?.split_once(' '));
        let mut each: BTreeMap<_, _> = rows.filter_map(|(of, row)| Some((of.to_string(), Row::parse(row)?))).collect();
        Some(Ticks { all: each.remove("")?, each, own_ns })
    }

    fn since(&self, before: &Ticks, took_ns: u64) -> Client {
        let all = self.all.since(before.all);
        let busy = |(name, row): (&String, &Row)| {
            let gone = row.since(*before.each.get(name)?);
            (gone.total > 0).then(|| share((gone.at_work + gone.interrupts) as f64, gone.total as f64))
        };
        let own = self.own_ns.zip(before.own_ns).map(|(now, then)| now.saturating_sub(then) as f64 / took_ns as f64);
        // Processors of which all time was counted: no length of a tick is needed.
        let used = share(all.at_work as f64, all.total as f64) * self.each.len() as f64;
        Client {
            steal_fraction: (all.total > 0).then(|| share(all.steal as f64, all.total as f64)),
            busiest_core_fraction: self.each.iter().filter_map(busy).reduce(f64::max),
            others_cores: own.map(|own| (used - own).max(0.0)),
            ..Client::default()
        }
    }
}

/// Processor time of this process, of children that ended and of those that run, with all below them.
fn own_cpu_ns(root: &Path) -> Option<u64> {
    let proc = root.join("proc");
    if !proc.join("thread-self/children").exists() {
        return None;
    }
    let mut own_ns = Cpu::now().total_ns() + Cpu::of_ended_children().total_ns();
    let mut left = children(&proc.join("self"));
    while let Some(pid) = left.pop() {
        let folder = proc.join(pid);
        own_ns += tree_cpu_ns(&folder).unwrap_or(0);
        left.extend(children(&folder));
    }
    Some(own_ns)
}

/// Of a process and of those children of it that ended: fields 14 to 17 of /proc/PID/stat, in ticks.
fn tree_cpu_ns(folder: &Path) -> Option<u64> {
    let text = read_to_string(folder.join("stat")).ok()?;
    let fields = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks * 1_000_000_000 / ticks_per_s()?)
}

fn children(folder: &Path) -> Vec<String> {
    let tasks = std::fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_string).collect::<Vec<_>>()).collect()
}

/// A thread's own times at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    at_ns: u64,
    cpu_ns: u64,
    waited_ns: Option<Waited>,
}

/// Time on a processor and time ready to run without one, as the kernel counts them for a thread; on one that has
/// just begun both may still be 0.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    ran_ns: u64,
    waited_ns: u64,
}

impl Turn {
    /// Of the calling thread; nothing on a virtual clock, where all workers share one.
    pub fn now(is_virtual: bool) -> Option<Turn> {
        (!is_virtual).then(|| Turn { waited_ns: Waited::now(), cpu_ns: thread_ns(), at_ns: monotonic_ns() })
    }

    /// Waiting since `before`. A kernel that does not count says 0 of a thread that ran.
    fn waited_since(&self, before: &Turn) -> Option<u64> {
        let now = self.waited_ns.filter(|now| now.ran_ns > 0)?;
        Some(now.waited_ns.saturating_sub(before.waited_ns?.waited_ns))
    }
}

impl Waited {
    /// Of the calling thread; the process's own file tells of its first thread only.
    fn now() -> Option<Waited> {
        let text = read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut fields = text.split_whitespace().map(str::parse);
        Some(Waited { ran_ns: fields.next()?.ok()?, waited_ns: fields.next()?.ok()? })
    }
}

/// One worker's window: its thread's times at both ends, and the time in which it made data with nothing in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    before: Turn,
    after: Turn,
    making_ns: u64,
}

impl Window {
    fn of(worker: &WorkerResult) -> Option<Window> {
        let making_ns = worker.generation_ns.min(worker.pause_ns);
        Some(Window { before: worker.turn_before?, after: worker.turn_after?, making_ns })
    }
}

/// (share of the time from the first start to the last acknowledgement in which the busiest worker used a processor,
/// share of their time in which workers waited for one). Making data is taken out of both where the rate does not
/// count it either. A worker that ended early was not busy all the time.
fn of_windows(windows: &[Window]) -> (Option<f64>, Option<f64>) {
    let begun = windows.iter().map(|w| w.before.at_ns).min().unwrap_or(0);
    let ended = windows.iter().map(|w| w.after.at_ns).max().unwrap_or(0);
    let busy = windows.iter().map(|w| {
        let used = w.after.cpu_ns.saturating_sub(w.before.cpu_ns).saturating_sub(w.making_ns);
        share(used as f64, ended.saturating_sub(begun).saturating_sub(w.making_ns) as f64)
    });
    let waited: Option<u64> = windows.iter().map(|w| w.after.waited_since(&w.before)).sum();
    let whole: u64 = windows.iter().map(|w| w.after.at_ns.saturating_sub(w.before.at_ns)).sum();
    (busy.reduce(f64::max), waited.filter(|_| whole > 0).map(|waited| share(waited as f64, whole as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 10 50 1000 5 1 2 3 0 0\ncpu0 50 5 25 500 2 0 1 1 0 0\n\
                          cpu1 50 5 25 500 3 1 1 2 0 0\nintr 5 0 0\nctxt 7\n";
    const AFTER: &str = "cpu  190 10 60 1078 5 1 6 23 0 0\ncpu0 140 5 30 502 2 0 3 1 0 0\n\
                         cpu1 50 5 30 576 3 1 3 22 0 0\nintr 9 0 0\nctxt 9\n";

    #[test]
    fn ticks_tell_of_the_busiest_processor_the_others_and_the_host() {
        let before = Ticks::parse(BEFORE, Some(5_000_000_000)).unwrap();
        let after = Ticks::parse(AFTER, Some(5_400_000_000)).unwrap();
        let found = after.since(&before, 1_000_000_000);
        let near = |found: Option<f64>, wanted: f64| assert!((found.unwrap() - wanted).abs() < 0.005, "{found:?}");
        near(found.steal_fraction, 20.0 / 202.0);
        near(found.busiest_core_fraction, 97.0 / 99.0);
        near(found.others_cores, 2.0 * 100.0 / 202.0 - 0.4);
    }

    #[test]
    fn what_is_missing_is_not_made_up() {
        assert_eq!(Ticks::parse("", None), None);
        assert_eq!(Ticks::parse("cpu 1 2 x\n", None), None);
        let (before, after) = (Ticks::parse(BEFORE, None).unwrap(), Ticks::parse(AFTER, None).unwrap());
        assert_eq!(after.since(&before, 1).others_cores, None);
        let stood_still = after.since(&after, 1);
        assert_eq!((stood_still.steal_fraction, stood_still.busiest_core_fraction), (None, None));
    }

    #[test]
    fn the_group_that_was_held_back_most_tells() {
        let of = |periods, throttled_periods, throttled_ns| Throttle { periods, throttled_periods, throttled_ns };
        assert_eq!(held_back([].into_iter(), 1000), (None, None));
        assert_eq!(held_back([of(0, 0, 0)].into_iter(), 1000), (Some(0.0), None));
        let nested = [of(10, 1, 100), of(20, 15, 600)].into_iter();
        assert_eq!(held_back(nested, 1000), (Some(0.6), Some(0.75)));
        assert_eq!(held_back([of(1, 1, 5000)].into_iter(), 1000).0, Some(1.0));
    }

    #[test]
    fn a_cell_too_short_for_ticks_tells_its_limit_only() {
        let mut sampler = Sampler::new();
        sampler.begin();
        sampler.look();
        sampler.end(1);
        let found = sampler.take(&[]);
        assert!(found.cpu_limit_cores.unwrap() > 0.0);
        assert_eq!((found.busiest_core_fraction, found.others_cores, found.steal_fraction), (None, None, None));
        assert_eq!(sampler.take(&[]), Client::default());
    }

    fn turn(at_ns: u64, cpu_ns: u64, waited_ns: u64) -> Turn {
        Turn { at_ns, cpu_ns, waited_ns: Some(Waited { ran_ns: cpu_ns, waited_ns }) }
    }

    #[test]
    fn the_busiest_worker_counts_over_the_whole_window() {
        let idle = Window { before: turn(0, 5, 0), after: turn(1000, 105, 300), making_ns: 0 };
        let busy = Window { before: turn(100, 0, 50), after: turn(1000, 900, 50), making_ns: 0 };
        assert_eq!(of_windows(&[idle, busy]), (Some(0.9), Some(300.0 / 1900.0)));
        // A short stretch of work in a long window is no busy thread, however busy it was itself.
        let early = Window { before: turn(0, 0, 0), after: turn(100, 100, 0), making_ns: 0 };
        assert_eq!(of_windows(&[idle, early]).0, Some(0.1));
    }

    #[test]
    fn making_data_while_the_server_waits_is_not_the_cells_work() {
        let making = Window { before: turn(0, 0, 0), after: turn(1000, 900, 0), making_ns: 800 };
        assert_eq!(of_windows(&[making]).0, Some(0.5));
    }

    #[test]
    fn waiting_is_unknown_where_one_thread_does_not_say() {
        let known = Window { before: turn(0, 0, 0), after: turn(1000, 900, 100), making_ns: 0 };
        let silent = Window { after: turn(1000, 0, 0), ..known };
        assert_eq!(of_windows(&[known, silent]).1, None);
        let absent = Window { after: Turn { waited_ns: None, ..known.after }, ..known };
        assert_eq!(of_windows(&[absent]).1, None);
        assert_eq!(of_windows(&[]), (None, None));
    }

    #[test]
    fn a_thread_knows_its_own_times() {
        let before = Turn::now(false).unwrap();
        while thread_ns() < before.cpu_ns + 2_000_000 {
            std::hint::spin_loop();
        }
        let window = Window { before, after: Turn::now(false).unwrap(), making_ns: 0 };
        let (busiest, waited) = of_windows(&[window]);
        assert!(window.after.cpu_ns >= before.cpu_ns + 2_000_000);
        assert!(busiest.unwrap() > 0.0 && waited.is_none_or(|share| (0.0..=1.0).contains(&share)));
        assert!(Turn::now(true).is_none());
    }
}
