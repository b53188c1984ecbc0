"""A server on the client's own machine, and credit of one operation that is none of the other."""

from __future__ import annotations

import dataclasses
from statistics import fmean

import numpy as np
import pytest

from made_evidence import KIB, MB, MIB, SECOND, Server, evidence, ladder, point
from naslab.explain import verdict
from naslab.explain.evidence import Evidence
from naslab.explain.measured import Measured
from naslab.explain.menu import _stood_still
from naslab.explain.neighbour import server_times
from naslab.explain.points import Figure, Point, Stalls
from naslab.explain.reasons import Facts, reason
from naslab.explain.rows import rows_of
from naslab.explain.verdict import judge
from naslab.units import duration_text

OPERATION_S, BYTE_S = 20e-6, 0.5e-9
"""What a server works for an operation, and for a byte."""


def served(found: Evidence, base: float = 0.0, noise: float = 0.0, cost: float = 1.0) -> Evidence:
    """The same ladder beside a server whose work is counted. base: what others use anyway; noise: cores."""
    rng = np.random.default_rng(5)

    def one(p: Point) -> Point:
        work = cost * (OPERATION_S * p.iops.value + BYTE_S * p.rate.value)
        return dataclasses.replace(p, others=max(base + work + noise * rng.normal(), 0.0))

    return dataclasses.replace(found, points={step: [*map(one, points)] for step, points in found.points.items()})


def points_of(found: Evidence) -> list[Point]:
    """All of them."""
    return found.step(*found.points)


@pytest.mark.parametrize("base", [0.0, 0.9])
def test_what_others_work_for_the_load_is_the_servers(base: float) -> None:
    """A quarter of a core at the least: 20 us an operation and half a nanosecond a byte, beside a busy loop or not."""
    busy = served(ladder(Server(link=1000 * MB, server_s=OPERATION_S)), base, 0.01)
    small, large = server_times(points_of(busy))
    assert small[0] == 4 * KIB and small[1] == pytest.approx(OPERATION_S + 4 * KIB * BYTE_S, rel=0.25)
    assert large[0] == MIB and large[1] == pytest.approx(OPERATION_S + MIB * BYTE_S, rel=0.15)
    assert small[1] < OPERATION_S + 4 * KIB * BYTE_S, "a lower bound"


def test_others_whose_time_does_not_follow_the_load_are_no_server() -> None:
    elsewhere = ladder(Server(link=1000 * MB))
    assert server_times(points_of(elsewhere)) == ()
    assert server_times(points_of(served(elsewhere, base=1.5, cost=0.0, noise=0.3))) == ()
    assert server_times(points_of(served(ladder(Server(link=20 * MB)), base=1.0))) == (), "next to nothing is moved"
    short = [dataclasses.replace(p, end_ns=p.start_ns + SECOND // 10) for p in points_of(served(elsewhere))]
    assert server_times(short) == ()


def test_a_machine_that_was_idle_before_has_no_base_of_its_own() -> None:
    """A fast server that takes about a core at every depth of its large loads: a base explains much of that, too."""

    def level(p: Point) -> Point:
        cores = 55e-6 * p.iops.value if p.record_bytes == 4 * KIB else 0.9 + 0.3 * (p.depth > 1)
        return dataclasses.replace(p, others=cores)

    plain = ladder(Server(link=1000 * MB, server_s=55e-6))
    points = [level(p) for p in points_of(plain)]
    guessed, known = dict(server_times(points)), dict(server_times(points, 0.02))
    assert guessed.get(4 * KIB, 0.0) < 20e-6 and 35e-6 < known[4 * KIB] <= 57e-6 and known[MIB] > 4e-4
    assert dict(server_times(points, 0.9)) == guessed, "other work was there before"
    leveled = {step: [*map(level, some)] for step, some in plain.points.items()}
    assert dict(dataclasses.replace(plain, points=leveled, before_cores=0.02).served()) == known
    steady = points_of(served(plain, base=1.0, cost=0.0, noise=0.03))
    assert server_times(steady, 0.02) == (), "a program that began with the loads, and does the same beside each"


def test_what_works_on_a_mount_for_its_client_is_no_server() -> None:
    """The system's own threads write to the server of a mount, as bytes and operations move."""
    shown = served(ladder(Server(link=1000 * MB, server_s=OPERATION_S)))
    assert shown.served()
    assert dataclasses.replace(shown, protocol="local").served() == ()


@pytest.mark.lab
def test_a_server_that_works_that_long_is_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 GB/s of a link or of copying look alike: a processor that was seen to work for 0.9 of it is what limits."""
    plain = ladder(Server(link=1000 * MB, cpus=2))
    rows = rows_of(plain)
    assert rows is not None and not rows.server_times
    first = {each.op: each.first for each in judge(rows) if each.size == "large"}
    assert first["read"].kind == "link" and first["read"].probability > 0.8
    # What is said, and what the model itself gives, over six draws of the sampler: each settles on one of the two.
    draws = [rows_of(served(ladder(Server(link=(1000 + 0.4 * k) * MB, cpus=2)), cost=1.85)) for k in range(6)]
    processors = ("shared_machine", "server_cache", "server_cpu")
    for calibration, least, most in ((verdict.CALIBRATION, 0.15, 0.85), ((verdict.ANCHOR, 1.0), 0.2, 0.8)):
        monkeypatch.setattr(verdict, "CALIBRATION", calibration)
        shares: list[dict[str, float]] = []
        for known in draws:
            assert known is not None and known.server_times and known.same_machine
            seen = next(each for each in judge(known) if (each.op, each.size) == ("read", "large"))
            shares.append({c.kind: c.probability for c in seen.ceilings})
        assert fmean(sum(each.get(kind, 0.0) for kind in processors) for each in shares) > least, shares
        assert fmean(each.get("link", 0.0) for each in shares) < most, shares


def test_what_a_server_here_works_is_told() -> None:
    known = served(ladder(Server(link=1000 * MB, cpus=2)), cost=1.85)
    works = dict(known.served())[float(MIB)]
    told = reason(Facts("shared_machine", "read", "large", Measured(Figure(1e9, 9e8, 1.1e9)), "", None, known))
    assert f"other programs here work {duration_text(works * 1e9)} or more for each 1 MiB" in told


def fallen(op: str, to: float, base: float) -> Evidence:
    """A ladder whose reads were proved to spend credit, to `base`; sets of writes fell from 1000 MB/s to `to`."""
    rates = (1000 * MB, 900 * MB, to)
    writes = [point("write", rate=each, durable=each, durability="end", set_bytes=16 * MIB << at) for at, each in
              enumerate(rates)]  # fmt: skip
    found = evidence(top=2000 * MB, set=writes, long=[point(rate=base, depth=8, end_ns=20 * SECOND)])
    found.burst = {
        "scope": "link", "applies_to": ["read", "write"], "spent_by": op, "burst_bytes_per_s": 2000 * MB,
        "burst_ci95": [1990 * MB, 2010 * MB], "base_bytes_per_s": base, "base_ci95": [0.99 * base, 1.01 * base],
        "size_bytes": 8 << 30, "shown_by": "a rest", "proved": True,
    }  # fmt: skip
    return found


@pytest.mark.parametrize(("to", "base", "shared"), [
    (262 * MB, 700 * MB, False), (650 * MB, 700 * MB, True), (850 * MB, 500 * MB, False),
])  # fmt: skip
def test_credit_of_reads_is_none_of_writes_that_fell_to_another_rate(to: float, base: float, shared: bool) -> None:
    """Reads of 2,630 MB/s fell to 1,720 and came back after a rest: writes at 262 MB/s were called credit, 0.99."""
    found = fallen("read", to, base)
    rows = rows_of(found)
    assert rows is not None and found.credit("read") == found.burst
    assert (found.credit("write") is not None) == shared
    assert rows.credited == ({"read", "write"} if shared else {"read"})


def test_a_busy_processor_counts_by_all_steps_and_not_by_the_last() -> None:
    plain = ladder(Server(link=50 * MB, cpus=2))
    *most, last = plain.points
    points = {step: [dataclasses.replace(p, others=1.9 if step == last else 0.01) for p in plain.points[step]]
              for step in (*most, last)}  # fmt: skip
    rows = rows_of(dataclasses.replace(plain, points=points))
    assert rows is not None and not rows.busy


def test_what_stands_still_once_is_watched() -> None:
    """The slowest percent of single large requests on a slow link took as long as a stop; small ones never did."""
    assert _stood_still(point(p50_ns=60e6, p99_ns=342e6)) and not _stood_still(point(p50_ns=240e6, p99_ns=480e6))
    assert not _stood_still(point(depth=4, p50_ns=60e6, p99_ns=342e6)), "it waits for others, too"
    assert _stood_still(point(depth=4, stalls=Stalls(0.3, 1, SECOND // 3, 0)))


def test_stops_that_only_small_reads_show_are_those_of_large_ones_too() -> None:
    """A few large requests a second are too few to show stops: six seconds of small ones do."""
    stalls = Stalls(0.25, 4, 300_000_000, SECOND)
    watched = [point(record=4 * KIB, rate=8 * MB, depth=64, stalls=stalls, end_ns=6 * SECOND)]
    plain = ladder(Server(link=15 * MB))

    def short(p: Point) -> Point:
        return dataclasses.replace(
            p, stalls=p.stalls if p.record_bytes == 4 * KIB else None, end_ns=p.start_ns + SECOND // 5
        )

    coarse = {step: [*map(short, points)] for step, points in plain.points.items()}
    rows = rows_of(dataclasses.replace(plain, points={**coarse, "watch": watched}))
    assert rows is not None
    assert rows.stopped("read", "large") > 0.2 and rows.stopped("read", "small") > 0.2
    turns = {"p50": 80_000, "p99": 90_000_000, "mean": 1_500_000}
    rationed = rows_of(dataclasses.replace(plain, points={**coarse, "watch": watched}, null_ns=turns))
    assert rationed is not None and not rationed.stall, "a processor whose turns are short is no server that stops"


def test_small_reads_that_were_watched_decide_whether_a_server_stops() -> None:
    """Disks that hand out bytes in slices stand still, too (seen: called unknown, 0.89); stops hold up every load."""
    slices = Stalls(0.4, 4, 300_000_000, SECOND)
    still = [point(rate=12 * MB, depth=4, set_bytes=256 * MIB, stalls=slices, end_ns=4 * SECOND)]
    busy = {"set": still, "watch": [point(record=4 * KIB, rate=90 * MB, depth=64, end_ns=6 * SECOND)]}
    rows = rows_of(evidence(**busy))
    assert rows is not None and not rows.stall
    unwatched = rows_of(evidence(set=still))
    assert unwatched is not None and unwatched.stopped("read", "large") > 0.1
    stops = [dataclasses.replace(busy["watch"][0], stalls=Stalls(0.22, 4, 350_000_000, SECOND))]
    stopped = rows_of(evidence(**{**busy, "watch": stops}))
    assert stopped is not None and all(stopped.stopped(op, "large") >= 0.22 for op in ("read", "write"))


def crowded(found: Evidence, before: float | None, client: float = 0.4, others: float = 1.4) -> Evidence:
    """The same ladder on two processors that are nearly all in use, `before` of them before the first load."""
    busy = {
        step: [dataclasses.replace(p, cpu=client, others=others) for p in points]
        for step, points in found.points.items()
    }
    return dataclasses.replace(found, points=busy, client_cpus=2, before_cores=before)


@pytest.mark.lab
def test_processors_that_all_share_limit_what_leaves_none_idle() -> None:
    """A server and a busy loop on the client's two processors: called the protocol's window at 0.85, four times."""
    window = ladder(Server(link=10_000 * MB, window=800 * MB, cpus=2))
    known = rows_of(crowded(window, before=1.0))
    assert known is not None and ("read", "large") in known.crowded
    reads = next(each for each in judge(known) if (each.op, each.size) == ("read", "large"))
    assert reads.first.kind == "shared_machine" and reads.first.probability < 0.9, reads.first


@pytest.mark.parametrize(("before", "client", "others"), [
    (None, 0.4, 1.4), (0.1, 0.4, 1.4), (1.4, 0.4, 1.4), (1.0, 0.05, 1.8), (1.0, 0.2, 1.2),
])  # fmt: skip
def test_a_busy_machine_alone_is_no_limit(before: float | None, client: float, others: float) -> None:
    """Nobody looked; nothing ran before; no server is here; the client hardly works; a fifth of it is idle."""
    rows = rows_of(crowded(ladder(Server(link=100 * MB, cpus=2)), before, client, others))
    assert rows is not None and not rows.crowded


def test_what_others_use_before_and_beside_the_load_is_told() -> None:
    found = crowded(ladder(Server(link=1000 * MB, cpus=2)), before=1.0)
    told = reason(Facts("shared_machine", "read", "large", Measured(Figure(1e9, 9e8, 1.1e9)), "", None, found))
    assert "other programs use 1.4 of them, 1.0 before the first load" in told
    calm = dataclasses.replace(found, before_cores=0.1)
    told = reason(Facts("shared_machine", "read", "large", Measured(Figure(1e9, 9e8, 1.1e9)), "", None, calm))
    assert "before the first load" not in told


@pytest.mark.parametrize(("length_ms", "throttled", "stops"), [(240, 0.0, True), (240, 0.9, False), (100, 0.0, False)])
def test_short_stops_of_small_reads_that_were_watched_are_stops(length_ms: int, throttled: float, stops: bool) -> None:
    """A stop of a quarter of a second shows as one of 0.24 s; a client's own quota is none, nor a slice of a turn."""
    stalls = Stalls(0.2, 5, length_ms * 1_000_000, SECOND)
    own = {"throttled": throttled, "cpu": 0.2, "cpu_limit": 0.2}
    watched = [point(record=4 * KIB, rate=8 * MB, depth=64, stalls=stalls, end_ns=6 * SECOND, **own)]
    rows = rows_of(evidence(watch=watched))
    assert rows is not None
    assert (rows.stopped("read", "large") > 0.1) == (rows.stopped("write", "small") > 0.1) == stops


@pytest.mark.lab
def test_a_lock_that_holds_a_file_for_long_is_a_lock() -> None:
    """6.6 ms an operation: a prior that ended at 5 ms called it the server's processor, 0.89."""
    rows = rows_of(ladder(Server(link=1000 * MB, lock_s=6.6e-3)))
    assert rows is not None
    small = {each.op: each.first for each in judge(rows) if each.size == "small"}
    assert {each.kind for each in small.values()} == {"unknown"}, small
