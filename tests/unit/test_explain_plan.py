"""The next experiment: what it is expected to tell, what it takes, and when none is worth its time."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from made_evidence import GIB, KIB, MB, MIB, evidence, level, point, theta_of
from naslab.explain import menu
from naslab.explain.ceilings import CLASSES
from naslab.explain.climb import Climb
from naslab.explain.hypotheses import AT, Array
from naslab.explain.inference import Posterior
from naslab.explain.menu import Experiment
from naslab.explain.plan import Outlook, Planned, best_of, extended, limits_of, outlook, planned_of
from naslab.explain.points import Stalls
from naslab.explain.rows import Rows, rows_of
from naslab.explain.steps import Bounds, Load, load_cell
from naslab.spec import CellSpec, DataSpec

READ_LARGE, READ_SMALL = ("read", "large"), ("read", "small")
MORE = (Planned("read", MIB, 8, workers=4, files=4, seconds=0.5),)
SAME = (Planned("read", MIB, 8, seconds=0.5),)
BOUNDS = Bounds(10**9, 1 << 40, None, 256, False, False, False, False, False, DataSpec())


def loads() -> Rows:
    """One connection reads 118 MB/s from the server cache; more of them were never tried."""
    found = rows_of(evidence(depth=level(118 * MB), set=[], duplex=[]))
    assert found is not None
    return found


def link_or_window(count: int = 80) -> Array:
    """Servers whose cached reads a link limits, and as many of which one connection's window does."""
    rng = np.random.default_rng(1)
    theta = np.concatenate([
        theta_of(count, link=118e6, window=3e12, cache=1e12),
        theta_of(count, link=1.5e9, window=118e6, cache=1e12),
    ])  # fmt: skip
    theta[:, AT["header"]] += 0.1 * rng.standard_normal(2 * count)
    return theta


def seen(planned: tuple[Planned, ...], theta: Array | None = None) -> Outlook:
    """What an experiment is expected to tell of these servers."""
    found = link_or_window() if theta is None else theta
    names = {where: limits_of(found, loads(), *where) for where in CLASSES}
    return outlook(found, loads(), planned, np.random.default_rng(2), names)


def test_what_tells_two_limits_apart_is_worth_its_entropy_and_a_repetition_nothing() -> None:
    assert seen(MORE).nats[READ_LARGE] == pytest.approx(np.log(2), abs=0.08)
    assert abs(seen(SAME).nats[READ_LARGE]) < 0.08


def test_outcomes_that_differ_without_another_limit_are_no_news() -> None:
    """Servers of one limit whose link is known to a third: the rate will tell the link, and no limit."""
    theta = theta_of(160, cache=1e12)
    theta[:, AT["link"]] += 0.3 * np.random.default_rng(3).standard_normal(160)
    assert abs(seen(SAME, theta).nats[READ_LARGE]) < 0.01


def test_a_set_that_outgrows_a_cache_tells_whether_there_is_one_and_takes_its_time() -> None:
    """Half of these servers have a cache of 1 GiB before a disk of 20 MB/s, the others one that holds everything."""
    theta = np.concatenate([theta_of(80, cache=GIB, disk_read=20e6), theta_of(80, cache=1e12, disk_read=20e6)])
    within, beyond = (
        (Planned("write", MIB, 8, size=size, durability="end", moved=float(size)),
         Planned("read", MIB, 8, size=size, seconds=1.0))
        for size in (GIB // 2, 2 * GIB)
    )  # fmt: skip
    assert abs(seen(within, theta).nats[READ_LARGE]) < 0.05
    found = seen(beyond, theta)
    assert found.nats[READ_LARGE] > 0.5
    assert found.seconds == pytest.approx(2 * GIB / 50e6 + 1, rel=0.1)  # disks that write 50 MB/s


def test_a_reader_beside_a_writer_is_two_rows_of_one_time() -> None:
    cell = load_cell(Load(MIB, 4, write_share=0.5, beside=True), BOUNDS)
    read, write = planned_of(cell)
    assert (read.op, write.op, read.beside, write.beside, read.workers) == ("read", "write", False, True, 1)
    rows, fresh = extended(loads(), (read, write))
    assert list(rows.pair[fresh]) == [fresh[1], fresh[0]]
    assert seen((read, write)).seconds == pytest.approx(1.0)


def experiment(key: str, *planned: tuple[Planned, ...], setup_s: float = 0.0) -> Experiment:
    """One that is never made."""
    return Experiment(key, planned, lambda: None, setup_s)


def posterior(theta: Array) -> Posterior:
    """Particles of equal weight."""
    return Posterior(theta, np.full(len(theta), 1 / len(theta)), np.zeros(len(theta), np.int64), np.zeros(1))


def test_the_most_telling_by_second_is_chosen_and_none_that_does_not_fit() -> None:
    slow = tuple(dataclasses.replace(row, seconds=60.0) for row in MORE)
    menu = [experiment("slow", slow), experiment("same", SAME), experiment("more", MORE)]
    held, rows = posterior(link_or_window()), loads()
    chosen = best_of(menu, held, rows, left_s=100.0)
    assert chosen is not None and chosen.key == "more"
    alone = best_of(menu[:2], held, rows, left_s=100.0)
    assert alone is not None and alone.key == "slow"
    assert best_of(menu[:2], held, rows, left_s=30.0) is None  # what tells takes too long, the other tells nothing
    prepared = [experiment("more", MORE, setup_s=90.0)]
    assert best_of(prepared, held, rows, left_s=60.0) is None


def test_small_reads_count_as_well_as_large_ones() -> None:
    """Disks of few operations behind caches of 1 GiB and of everything: large reads are the link's either way."""
    theta = np.concatenate([
        theta_of(80, cache=size, disk_read=1e9, seek_s=5e-3, memory=6e9) for size in (float(GIB), 1e12)
    ])  # fmt: skip
    look = (
        Planned("write", MIB, 8, size=8 * GIB, durability="end", moved=8.0 * GIB),
        Planned("read", 4 * KIB, 32, size=8 * GIB, random=True, seconds=1.0),
    )
    found = seen(look, theta)
    assert found.nats[READ_SMALL] > 0.5 > found.nats[READ_LARGE]


def test_what_a_client_cache_answers_or_what_stops_is_asked_no_further() -> None:
    menu, held, rows = [experiment("more", MORE)], posterior(link_or_window()), loads()
    assert best_of(menu, held, dataclasses.replace(rows, wire_fraction=0.0), left_s=100.0) is None
    assert best_of(menu, held, dataclasses.replace(rows, stall={"large": 0.3, "small": 0.3}), left_s=100.0) is None


@pytest.mark.parametrize(
    ("rates", "depths"),
    [
        ([10_000, 18_000, 24_000, 25_000], [2, 8, 32, 128]),
        ([10_000, 10_500], [2, 8]),
        ([10_000, 30_000, 50_000, 80_000, 99_000], [2, 8, 32, 128, 256]),
        ([5], [2]),
    ],
)
def test_small_writes_go_deeper_as_long_as_that_is_quick_and_brings_more(rates: list[int], depths: list[int]) -> None:
    """What limits reads need not limit writes: they begin at the depth of reads. Slow ones are measured once."""
    tried: list[int] = []

    def load(step: str, wanted: Load) -> Any:
        if wanted.durability == "end":
            return point("write")
        assert (step, wanted.durability, wanted.record_bytes) == ("writes", "each", 4 * KIB)
        tried.append(wanted.depth)
        rate = rates[len(tried) - 1]
        return point("write", record=4 * KIB, rate=rate * 4 * KIB, depth=wanted.depth, end_ns=4000 * 10**9 // rate)

    climb = SimpleNamespace(
        busy_depth=lambda _: 2, going=lambda: True, load=load, bounds=SimpleNamespace(most_depth=256),
        budget=SimpleNamespace(limit_ns=60 * 10**9),
    )  # fmt: skip
    Climb.first_writes(climb)  # type: ignore[arg-type]
    assert tried == depths


@pytest.mark.parametrize(("mean_us", "counts"), [(60, [100, 5000]), (200, [100, 2000]), (5000, [100])])
def test_calls_without_data_fill_several_turns_of_a_rationed_processor(mean_us: int, counts: list[int]) -> None:
    """A hundred quick ones fit into one turn and say nothing of the pause after it; slow ones are enough."""

    def stage(_: str, cells: list[CellSpec]) -> None:
        latency = {"p50": mean_us * 1000, "p99": mean_us * 1000, "mean": mean_us * 1000}
        climb.execution.cells.append({"op": "stat", "kinds": {"stat": {"latency_ns": latency}}})

    climb = SimpleNamespace(
        evidence=dataclasses.replace(evidence(), simulated=True), going=lambda: True, stage=stage,
        execution=SimpleNamespace(cells=[], target=SimpleNamespace(clients=None)),
        bounds=BOUNDS,
    )  # fmt: skip
    asked: list[int] = []

    def null_calls(count: int) -> None:
        asked.append(count)
        Climb._null_calls(climb, count)  # type: ignore[arg-type]

    climb._null_calls = null_calls
    Climb.null_call(climb)  # type: ignore[arg-type]
    assert asked == counts and climb.evidence.null_ns["mean"] == mean_us * 1000


@pytest.mark.parametrize(("stops", "watches"), [([2, 1], 2), ([1, 0, 1], 3), ([0], 1), ([3], 1), ([1, 1, 0, 9], 3)])
def test_the_watch_for_stops_goes_on_while_it_shows_too_few(stops: list[int], watches: int) -> None:
    known = evidence(depth=[dataclasses.replace(point(), p50_ns=5e7, p99_ns=1e9)])
    left = iter(stops)

    def stage(step: str, cells: list[CellSpec]) -> list[Any]:
        found = point(record=4 * KIB, stalls=Stalls(0.3, next(left), 10**9, 0))
        known.points.setdefault(step, []).append(found)
        return [found]

    climb = SimpleNamespace(
        evidence=known, stage=stage, going=lambda: True, budget=SimpleNamespace(limit_ns=100 * 10**9),
        length_ns=lambda _: 10**9, cell_of=lambda load, longer: load_cell(load, BOUNDS),
    )  # fmt: skip
    (each,) = menu._watching(climb)  # type: ignore[arg-type]
    each.run()
    assert len(known.points["watch"]) == watches


@pytest.mark.parametrize(
    ("durable", "left_s", "wanted"),
    [(100 * MB, 100, 512), (1 * MB, 200, 256 + 152), (1 * MB, 60, None), (1e-9, 100, None)],
)
def test_a_set_doubles_or_grows_as_far_as_there_is_time(durable: float, left_s: int, wanted: int | None) -> None:
    """MiB. Hardly larger is not worth its time."""
    climb = SimpleNamespace(
        set_bytes=256 << 20, most_set_bytes=lambda: 64 << 30, spent_ns=lambda: 0, _durable=durable,
        budget=SimpleNamespace(limit_ns=left_s * 10**9),
    )  # fmt: skip
    climb.affordable_bytes = lambda: Climb.affordable_bytes(climb)  # type: ignore[arg-type]
    found = Climb.next_set_bytes(climb)  # type: ignore[arg-type]
    assert (found and found >> 20) == wanted


@pytest.mark.parametrize(
    ("read", "first", "length"), [(100, 100, 57), (480, 480, 57), (520, 520, 57), (1000, 1000, 12)]
)
def test_a_look_at_a_larger_set_reads_what_was_never_read(read: int, first: int, length: int) -> None:
    """Where more than half of it was read already, one record was all that was read: 40 MB/s of disks that do 60."""
    climb = SimpleNamespace(
        evidence=evidence(set=[point(rate=60 * MB, set_bytes=512 * MIB)], depth=level(60 * MB)), read_bytes=read * MIB,
        bounds=dataclasses.replace(BOUNDS, cell_ns=5 * 10**8), set_depth=lambda: 4, bypass=False,
    )  # fmt: skip
    cell = Climb.look_cell(climb, 1024 * MIB)  # type: ignore[arg-type]
    assert cell.walk is not None and cell.walk.base_bytes == first * MIB
    assert cell.stop_bytes == pytest.approx(length * MIB, abs=4 * MIB)


@pytest.mark.parametrize(
    ("read", "reread", "first", "then"),
    [(100, 0, 100, 150), (449, 0, 449, 0), (460, 0, 0, 50), (600, 0, 0, 50), (600, 200, 200, 250)],
)
def test_one_read_at_a_time_goes_over_what_nobody_touched_for_longest(
    read: int, reread: int, first: int, then: int
) -> None:
    """The newer half of a set was just written, and may lie in the cache; the look before went to its middle."""
    climb = SimpleNamespace(
        evidence=evidence(set=[point(rate=60 * MB, set_bytes=512 * MIB)], depth=level(60 * MB)),
        read_bytes=read * MIB, reread_bytes=reread * MIB,
    )  # fmt: skip
    for wanted in (first, then):
        found = Climb._untouched_bytes(climb, 1024 * MIB, 10**9)  # type: ignore[arg-type]
        assert found == wanted * MIB
        Climb._went_on(climb, found, 50 * MIB)  # type: ignore[arg-type]
