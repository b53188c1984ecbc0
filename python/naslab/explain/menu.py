"""What the ladder may measure next: one entry for each experiment, with the cells that say what it would cost.

`menu` lists what may tell the limits apart; `confirmations` what has to be seen before a verdict that nothing else
would change: credit that is not spent yet looks like any other rate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from naslab.analysis.series import NS_PER_S
from naslab.explain import history, steps
from naslab.explain.ceilings import REACH_BYTES
from naslab.explain.conclusion import SEPARATED_BY
from naslab.explain.evidence import beyond_rate
from naslab.explain.plan import Planned, planned_of
from naslab.explain.rows import MIN_STALLS, was_held
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, SMALL_RECORD, Load

if TYPE_CHECKING:
    from naslab.explain.climb import Climb
    from naslab.explain.points import Point

DOUBLINGS = 9
"""A set is worth growing for what it would tell after so many doublings."""
LOOK_S, LOOK_SHARE = 6.0, 0.05
"""A rate beyond memory is read for so long, or this share of the budget: a disk whose rate is held gives its bytes in
slices of a tenth of a second."""
GROWTH_SHARE = 0.05
"""Of the budget, what a doubling of the set may take that nothing but caution asks for."""
WATCH_NS, WATCH_SHARE = 6 * NS_PER_S, 0.08
"""Small reads are watched for stops for so long, or this share of the budget: three of a server that stops every two
seconds. Many end in each moment, so that a gap is none of chance."""
WATCH_BIN_NS, WATCHES = 20_000_000, 3
"""So often at most, as long as they show fewer stops than tell of a server that stops again and again."""
SETTLED = 0.03
"""Half of the interval of a rate beyond memory that is known well enough, as a share of it."""


@dataclass(frozen=True)
class Experiment:
    """key: names it once and for all. planned: the ways it may come out, each the rows that it would add."""

    key: str
    planned: tuple[tuple[Planned, ...], ...]
    run: Callable[[], None]
    setup_s: float = 0.0


def menu(climb: Climb) -> list[Experiment]:
    """All that was not measured yet."""
    found = [*_connections(climb), *_timed(climb), *_growth(climb)]
    return [each for each in found if each.key not in climb.done]


def _experiment(climb: Climb, step: str, *loads: Load, files: int = 1) -> Experiment:
    """Timed loads one after another."""

    def run() -> None:
        if files > 1 and not climb.has_files(files):
            return
        for load in loads:
            if climb.going():
                climb.load(step, load)

    cells = [climb.cell_of(load) for load in loads]
    return Experiment(f"{step} {loads}", (tuple(row for cell in cells for row in planned_of(cell)),), run)


def _connections(climb: Climb) -> Iterator[Experiment]:
    """More connections, with large and with small reads."""
    if climb.bounds.lanes:
        return
    for record in (LARGE_RECORD, SMALL_RECORD):
        load = Load(record, climb.busy_depth(record), 4, random=record == SMALL_RECORD)
        rows = tuple(planned_of(climb.cell_of(load)))
        setup = climb.write_s(steps.MOST_WORKERS * steps.SMALL_BYTES)

        def run(record: int = record) -> None:
            climb.connections(record)

        yield Experiment(f"connections {record}", (rows,), run, setup)


def _timed(climb: Climb) -> Iterator[Experiment]:
    """Record sizes, order, reads beside writes, durable writes, and the same on the working set."""
    deep, small, most = climb.busy_depth(LARGE_RECORD), climb.busy_depth(SMALL_RECORD), climb.bounds.most_depth
    middle = min(max(4 * climb.busy_depth(MIDDLE_RECORD), small), most)
    yield _experiment(climb, "record", Load(MIDDLE_RECORD, middle, random=True))
    yield _experiment(climb, "order", Load(SMALL_RECORD, small))
    for again in ("duplex", "duplex again"):
        pair = (Load(LARGE_RECORD, deep, write_share=1.0), Load(LARGE_RECORD, deep, write_share=0.5, beside=True))
        made = _experiment(climb, "duplex", *pair, files=2)
        yield Experiment(again, made.planned, made.run)
    for record, depth, durability in (
        (LARGE_RECORD, 1, "none"), (LARGE_RECORD, 1, "each"), (MIDDLE_RECORD, 1, "none"), (MIDDLE_RECORD, 1, "each"),
        (LARGE_RECORD, deep, "each"), (SMALL_RECORD, 1, "each"), (SMALL_RECORD, small, "end"),
    ):  # fmt: skip
        # Of the middle size only the time of one is wanted: credit is not spent on it.
        bound = 4 * steps.SMALL_BYTES if record == MIDDLE_RECORD else None
        yield _experiment(climb, "writes", Load(
            record, depth, write_share=1.0, random=record == SMALL_RECORD, durability=durability,
            flush=durability == "end", most_bytes=bound,
        ))  # fmt: skip
    if size := climb.set_bytes:
        yield _experiment(climb, "beyond", _random_small(climb, size))
        for record, depth, share, random in (
            (LARGE_RECORD, 1, 0.0, False), (SMALL_RECORD, 1, 0.0, True),
            (MIDDLE_RECORD, min(small, 32), 0.0, True), (LARGE_RECORD, deep, 0.0, True),
            (SMALL_RECORD, min(small, 32), 1.0, True),
        ):  # fmt: skip
            yield _experiment(climb, "beyond", Load(
                record, depth, set_bytes=size, random=random, write_share=share, durability="each" if share else "none",
            ))  # fmt: skip


def _growth(climb: Climb) -> Iterator[Experiment]:
    """A larger working set: one step, worth what it or a later one would tell."""
    following = climb.next_set_bytes()
    if following is None:
        return
    sizes = [following << at for at in range(DOUBLINGS) if following << at <= REACH_BYTES]
    ways = []
    for size in (size for size in sizes if size <= climb.most_set_bytes()):
        rows = tuple(row for cell in climb.growth_cells(size) for row in planned_of(cell))
        ways += [rows, (*rows, *planned_of(climb.cell_of(_random_small(climb, size))))]

    def run() -> None:
        climb.grow(following)

    yield Experiment(f"set {following}", tuple(ways), run)


def confirmations(climb: Climb, kinds: Collection[str]) -> list[Experiment]:
    """What is measured before the last word, in this order, where it was not yet. kinds: what is about to be said."""
    found = [
        *_separating(climb, kinds), *_watching(climb), *_outgrowing(climb, kinds), *_known_beyond(climb),
        *_credit(climb),
    ]  # fmt: skip
    return [each for each in found if each.key not in climb.done]


def _separating(climb: Climb, kinds: Collection[str]) -> Iterator[Experiment]:
    """Of each limit that is about to be named the experiment that tells it from others, where none like it was made.

    One run of the sampler may not know of what it would have told apart.
    """
    for step in {SEPARATED_BY[kind] for kind in kinds if kind in SEPARATED_BY}:
        if not climb.evidence.step(step):
            yield from (each for each in menu(climb) if each.key.split()[0] == step)


def _watching(climb: Climb) -> Iterator[Experiment]:
    """Small reads for some seconds, where a load stood still once or single requests waited: whether that comes again.

    Most loads are shorter than the time between two stops, and large records on a slow link are too few to show one.
    """
    evidence = climb.evidence
    if not any(map(_stood_still, evidence.step(*evidence.points))):
        return
    deepest = max((p.depth for p in evidence.curve("small_depth", SMALL_RECORD)), default=1)
    load = Load(SMALL_RECORD, deepest, random=True)

    def run() -> None:
        length_ns = min(WATCH_NS, int(WATCH_SHARE * climb.budget.limit_ns))
        cell = climb.cell_of(load, longer=max(length_ns // climb.length_ns(load), 1))
        for _ in range(WATCHES):
            found = climb.stage("watch", [dataclasses.replace(cell, interval_ns=WATCH_BIN_NS)])
            count = sum(p.stalls.count for p in evidence.step("watch") if p.stalls)
            if not found or not 0 < count < MIN_STALLS or not climb.going():
                return

    yield Experiment("watch", (), run)


def _stood_still(p: Point) -> bool:
    """Whether nothing moved for a while in a cell, or few of its single requests took much longer than the others."""
    return was_held(p) or bool(p.stalls and p.stalls.count)


def _outgrowing(climb: Climb, kinds: Collection[str]) -> Iterator[Experiment]:
    """Reads are judged for working sets that no small file stands for: the set grows as long as that is cheap."""

    def run() -> None:
        while climb.going() and beyond_rate(climb.evidence) is None:
            following = climb.next_set_bytes()
            if following is None or following > REACH_BYTES:
                return
            if climb.write_s(following - climb.set_bytes) > GROWTH_SHARE * climb.budget.limit_ns / 1e9:
                return
            climb.grow(following)

    if not {"disk", "client_cache"} & set(kinds):
        yield Experiment("outgrow", (), run)


def _known_beyond(climb: Climb) -> Iterator[Experiment]:
    """The rate beyond memory, long enough to be known; small reads there."""
    beyond, size = beyond_rate(climb.evidence), climb.set_bytes
    if beyond is None or not size:
        return
    seconds = min(LOOK_S, LOOK_SHARE * climb.budget.limit_ns / 1e9)
    if (size - climb.read_bytes) / beyond.rate.value > seconds / 2:
        yield Experiment(f"look {size}", (), lambda: climb.look(size, seconds))
    yield _experiment(climb, "beyond", _random_small(climb, size))


def _random_small(climb: Climb, set_bytes: int) -> Load:
    """Small reads anywhere in the working set."""
    return Load(SMALL_RECORD, min(climb.busy_depth(SMALL_RECORD), 32), set_bytes=set_bytes, random=True)


def _credit(climb: Climb) -> Iterator[Experiment]:
    """The first loads again, a long run, and a rest: credit would have been spent, and would come back."""
    deep = climb.busy_depth(LARGE_RECORD)
    yield _experiment(climb, "again", Load(LARGE_RECORD, deep), Load(LARGE_RECORD, deep, write_share=1.0))
    if climb.is_strange():
        return
    yield Experiment("long", (), lambda: history.long_run(climb))
    yield Experiment("rest", (), lambda: history.after_a_rest(climb))
