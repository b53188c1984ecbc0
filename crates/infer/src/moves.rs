//! Ways to another explanation: along the difference of two particles (ter Braak 2006), by exchanging two explanations,
//! by fresh draws of what belongs together, by crossing (Liang and Wong 2001).

use crate::guess::Guess;
use crate::params::{Param, Param::*, Table, Theta, DIMS};
use naslab_workload::Rng;

const RATES: &[Param] = &[Link, Window, Memory, DiskRead, DiskWrite, Base];
/// Parameters that may stand for each other.
const EXCHANGES: &[&[Param]] = &[RATES, RATES, &[ServerS, RequestS, SeekS, CommitS, LockS], &[DelayS, SlowS, LockS]];
/// Parameters that are drawn anew together.
const TOGETHER: &[&[Param]] = &[
    &[Cache, DiskRead],
    &[Cache, Memory, DiskRead],
    &[WriteBack, DiskWrite],
    &[WriteBack, Memory, DiskWrite],
    &[JoinsOn, DiskWrite, WriteBack],
    &[Window, Link],
    &[Link, Memory],
    &[Link, UplinkRatio],
    &[Link, UplinkRatio, Cache, DiskRead, DiskWrite],
    &[UplinkRatio, DiskWrite, WriteBack, Queue],
    &[Link, UplinkRatio, Cache, DiskRead, Queue],
    &[BucketOn, Base, Burst, LastsS, Scope],
    &[BucketOn, Base, Burst, LastsS, Scope, DiskRead],
    &[LockOn, LockS],
    &[LockOn, LockS, LockShare],
    &[SlowOn, SlowS, DelayS],
    &[ServerS, RequestS],
    &[RequestS, SeekS, DiskRead],
    &[Fetch, Cache],
    &[Fetch, RequestS, SeekS, Cache],
    &[CommitS, SeekS, DiskWrite],
    &[ServerS, ClientS],
    &[Cache, DiskRead, SeekS, RequestS],
    &[ServerS, ServerLanes],
    &[Memory, CopyLanes],
    &[Memory, CopyLanes, Window],
    &[Memory, Cold],
    &[ServerS, Cold, Cache, RequestS, SeekS],
    &[ServerS, Cold, Cache, Fetch],
    &[Memory, Cold, Cache, DiskRead],
    &[Slots, DelayS],
    &[ClientByteS, Memory],
    &[Overlap, Sharpness],
    &[Memory, UplinkRatio, Link],
    &[Memory, CopyRatio],
    &[CopyRatio, DiskWrite, WriteBack],
];
/// What is said of one part of a server: two particles may be right about different parts.
const BLOCKS: &[&[Param]] = &[
    &[Link, UplinkRatio, Header, Window, Slots, DelayS],
    &[DiskRead, DiskWrite, Fetch, RequestS, SeekS, CommitS, Cache],
    &[DiskRead, DiskWrite, Fetch, RequestS, SeekS, CommitS, Cache, WriteBack, Overlap, Sharpness],
    &[ServerS, ServerLanes, Memory, CopyRatio, CopyLanes, Cold],
    &[ServerS, Fetch, RequestS, SeekS, Cache],
    &[Cache, Memory, Cold, DiskRead, Fetch, RequestS, SeekS],
    &[WriteBack, DiskWrite, CommitS, Memory],
    &[ClientS, ClientByteS],
    &[Link, Window, UplinkRatio],
];
/// Share of the exchanges that are of three.
const CYCLES: f64 = 0.4;
/// Share of the exchanges that are of a cache for none.
const UNCACHED: f64 = 0.25;
/// Share of the fresh draws that are of one parameter.
const SINGLE: f64 = 0.4;
/// Standard deviation of what is added to each difference.
const JITTER: f64 = 0.01;

/// What a proposal is made from.
pub(crate) struct Near<'a> {
    pub(crate) cloud: &'a [Theta],
    pub(crate) guess: &'a Guess,
    pub(crate) table: &'a Table,
}

/// A particle to try in place of one, and the log ratio of the proposal's densities; `kind`: 0, 1 or 2.
pub(crate) fn propose(near: &Near, kind: usize, at: usize, rng: &mut Rng) -> (Theta, f64) {
    let old = &near.cloud[at];
    match kind {
        0 => (evolved(near, old, rng), 0.0),
        1 if chance(rng, UNCACHED) => uncached(near, old, rng),
        1 => (exchanged(near.table, old, rng), 0.0),
        _ => redrawn(near, old, rng),
    }
}

/// Along the difference of two other particles.
fn evolved(near: &Near, old: &Theta, rng: &mut Rng) -> Theta {
    let often = pick(&[0.08, 0.25, 0.6], rng);
    let always = rng.below(DIMS as u64) as usize;
    let mut mask = [false; DIMS];
    for (at, moves) in mask.iter_mut().enumerate() {
        *moves = chance(rng, often) || at == always;
    }
    let count = mask.iter().filter(|moves| **moves).count() as f64;
    let scale = 2.38 / (2.0 * count).sqrt() * pick(&[0.3, 1.0, 1.0], rng);
    let [one, two] = [pick(near.cloud, rng), pick(near.cloud, rng)];
    let mut new = *old;
    for at in (0..DIMS).filter(|at| mask[*at]) {
        new[at] += scale * (one[at] - two[at]) + JITTER * 12.0_f64.sqrt() * (rng.unit() - 0.5);
    }
    new
}

/// Two explanations of one rate change places, or three of two rates: link and window become memory and link.
fn exchanged(table: &Table, old: &Theta, rng: &mut Rng) -> Theta {
    let mut new = *old;
    let group = pick(EXCHANGES, rng);
    let mut places: Vec<usize> = group.iter().map(|param| *param as usize).collect();
    shuffle(&mut places, rng);
    places.truncate(if chance(rng, CYCLES) { 3 } else { 2 });
    for (k, to) in places.iter().enumerate() {
        new[*to] = old[places[(k + places.len() - 1) % places.len()]];
    }
    for (param, often) in [(Cache, 0.5), (WriteBack, 0.3), (UplinkRatio, 0.2)] {
        if chance(rng, often) {
            let at = param as usize;
            new[at] = table.low[at] + (table.high[at] - table.low[at]) * rng.unit();
        }
    }
    new
}

/// What the server's memory and processor seemed to do, its disks do, or the other way round; sizes are drawn anew.
///
/// A server without a cache differs from one with it in all of these at once, and no smaller move leads there.
fn uncached(near: &Near, old: &Theta, rng: &mut Rng) -> (Theta, f64) {
    let mut new = *old;
    for (one, two) in [(ServerS, RequestS), (Memory, DiskRead)] {
        if chance(rng, 0.6) {
            new.swap(one as usize, two as usize);
        }
    }
    if chance(rng, 0.3) {
        new[DiskWrite as usize] += new[DiskRead as usize] - old[DiskRead as usize];
    }
    let mut ratio = 0.0;
    for (param, often) in [(Cache, 0.8), (WriteBack, 0.3)] {
        if chance(rng, often) {
            let at = param as usize;
            new[at] = near.guess.draw_one(at, rng);
            ratio += near.guess.log_density(at, old[at]) - near.guess.log_density(at, new[at]);
        }
    }
    (new, ratio)
}

/// Parts of a server that are drawn anew by themselves, or together where one does instead of the other.
pub(crate) const PARTS: &[&[Param]] = &[
    &[Window],
    &[Memory],
    &[Link],
    &[Link, UplinkRatio],
    &[UplinkRatio],
    &[CopyRatio],
    &[DiskRead],
    &[DiskWrite],
    &[ServerS],
    &[Fetch],
    &[RequestS],
    &[SeekS],
    &[CommitS],
    &[Cache],
    &[WriteBack],
    &[Cold],
    &[CopyLanes],
    &[ServerLanes],
    &[DelayS],
    &[Window, LockShare],
    &[Memory, LockShare],
];

/// Some parts anywhere within their priors. A link whose other direction keeps its rate has another ratio.
pub(crate) fn anywhere(table: &Table, old: &Theta, parts: &[Param], rng: &mut Rng) -> Theta {
    let mut new = *old;
    for part in parts {
        let at = *part as usize;
        new[at] = table.low[at] + (table.high[at] - table.low[at]) * rng.unit();
    }
    if parts == [Link, UplinkRatio] {
        new[UplinkRatio as usize] = old[UplinkRatio as usize] + old[Link as usize] - new[Link as usize];
    }
    new
}

/// One parameter, or a few that belong together, drawn anew from the guess.
fn redrawn(near: &Near, old: &Theta, rng: &mut Rng) -> (Theta, f64) {
    let mut new = *old;
    if chance(rng, SINGLE) {
        let at = rng.below(DIMS as u64) as usize;
        new[at] = near.guess.draw_one(at, rng);
    } else {
        for param in pick(TOGETHER, rng).iter() {
            new[*param as usize] = near.guess.draw_one(*param as usize, rng);
        }
    }
    (new, -near.guess.change(old, &new))
}

/// Two particles that have exchanged what they say of one part.
pub(crate) fn crossed(one: &Theta, two: &Theta, rng: &mut Rng) -> (Theta, Theta) {
    let (mut new, mut other) = (*one, *two);
    let often = pick(&[0.1, 0.3, 0.5], rng);
    let mut swap = |at: usize| std::mem::swap(&mut new[at], &mut other[at]);
    match BLOCKS.get(rng.below(2 * BLOCKS.len() as u64) as usize) {
        Some(block) => block.iter().for_each(|param| swap(*param as usize)),
        None => (0..DIMS).filter(|_| chance(rng, often)).for_each(swap),
    }
    (new, other)
}

/// Whether something of this probability happens.
fn chance(rng: &mut Rng, often: f64) -> bool {
    rng.unit() < often
}

fn pick<T: Copy>(from: &[T], rng: &mut Rng) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// Another order, each as likely as the next.
pub(crate) fn shuffle(places: &mut [usize], rng: &mut Rng) {
    for at in (1..places.len()).rev() {
        places.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unit_table;

    fn numbered() -> Theta {
        std::array::from_fn(|at| (at as f64 + 0.5) / DIMS as f64)
    }

    #[test]
    fn explanations_of_two_rates_change_places() {
        // A link and a window of two rates are as likely as a memory and a link: no run keeps to where it began.
        let (table, old, mut rng) = (unit_table(), numbered(), Rng::new(11, 0));
        let turned = (0..3000)
            .map(|_| exchanged(&table, &old, &mut rng))
            .filter(|new| new[Memory as usize] == old[Link as usize] && new[Link as usize] == old[Window as usize]);
        assert!(turned.count() > 0);
    }

    #[test]
    fn crossing_keeps_what_there_is() {
        let (one, two) = (numbered(), numbered().map(|value| 1.0 - value / 2.0));
        let mut rng = Rng::new(3, 0);
        for _ in 0..200 {
            let (new, other) = crossed(&one, &two, &mut rng);
            for at in 0..DIMS {
                assert!([new[at], other[at]] == [one[at], two[at]] || [new[at], other[at]] == [two[at], one[at]]);
            }
        }
    }

    #[test]
    fn a_cache_becomes_none_and_memory_the_disks() {
        let (table, old, mut rng) = (unit_table(), numbered(), Rng::new(5, 0));
        let guess = Guess::new(&table, &[(Cache as usize, vec![0.1])], 0.3, 0.02).unwrap();
        let near = Near { cloud: &[old], guess: &guess, table: &table };
        let found: Vec<(Theta, f64)> = (0..200).map(|_| uncached(&near, &old, &mut rng)).collect();
        assert!(found.iter().any(|(new, _)| new[DiskRead as usize] == old[Memory as usize]));
        assert!(found.iter().any(|(new, ratio)| (new[Cache as usize] - 0.1).abs() < 0.03 && *ratio < 0.0));
    }
}
