"""Credit or memory: what came fast after a rest is done twice, on servers of the test's own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from made_evidence import MB, MIB, evidence, point
from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.explain import history, steps
from naslab.explain.points import Figure
from naslab.explain.steps import Bounds
from naslab.spec import CellSpec, WalkSpec

SET_BYTES, FAST_BYTES, PAUSE_NS = 512 * MIB, 48 * MIB, 4 * NS_PER_S
FAST, SLOW = 100 * MB, 20 * MB
BIN_NS = 10_000_000
AGAIN = CellSpec(
    "read", SET_BYTES, steps.LARGE_RECORD, ["set"], walk=WalkSpec("sequential", steps.LARGE_RECORD, base_bytes=64 * MIB)
)


@dataclass
class Server:
    """Reads at FAST what memory holds (a range of the set) or credit pays for; all else at SLOW. credit_bytes: what
    is left of it; None for a server without any. It comes back at SLOW while nothing is read."""

    held: tuple[int, int] = (0, 0)
    credit_bytes: float | None = None
    cells: list[CellSpec] = field(default_factory=list)
    found: list[RateSeries] = field(default_factory=list)

    @property
    def climb(self) -> Any:
        """What the step knows of a ladder."""
        bounds = Bounds(NS_PER_S, SET_BYTES, None, 8, False, False, False, lanes=False, refuses=False)
        return SimpleNamespace(bounds=bounds, going=lambda: True, stage=self._stage, series=lambda each: each)

    def _stage(self, name: str, cells: list[CellSpec]) -> list[RateSeries]:
        assert name == "rest"
        self.cells += cells
        return [self._rest(each) if each.burst_gap_ns else self._read(each) for each in cells]

    def _rest(self, cell: CellSpec) -> RateSeries:
        if self.credit_bytes is not None:
            self.credit_bytes += SLOW * cell.burst_gap_ns / NS_PER_S
        return RateSeries(np.zeros(1, np.int64), np.zeros(1, np.int64), BIN_NS)

    def _read(self, cell: CellSpec) -> RateSeries:
        assert cell.walk is not None and cell.stop_bytes is not None
        at, end, bins = cell.walk.base_bytes, cell.walk.base_bytes + cell.stop_bytes, []
        assert end <= SET_BYTES
        while at < end:
            is_fast = self.held[0] <= at < self.held[1] or (self.credit_bytes or 0) > 0
            moved = (FAST if is_fast else SLOW) * BIN_NS // NS_PER_S
            if self.credit_bytes is not None:
                self.credit_bytes += SLOW * BIN_NS / NS_PER_S - moved
            bins.append(moved)
            at += moved
        return RateSeries(np.array(bins, np.int64), np.ones(len(bins), np.int64), BIN_NS)

    def comes_with_rests(self, again: CellSpec = AGAIN) -> bool:
        return history._comes_with_rests(self.climb, again, history._Fast(FAST, FAST_BYTES), PAUSE_NS)


def test_credit_comes_with_rests() -> None:
    server = Server(credit_bytes=0.0)
    assert server.comes_with_rests()
    spent, rest, rested = server.cells
    assert rest.burst_gap_ns == PAUSE_NS
    assert spent.walk is not None and rested.walk is not None and AGAIN.walk is not None
    assert spent.walk.base_bytes == AGAIN.walk.base_bytes + FAST_BYTES, "what was read after the first rest is left out"
    assert spent.stop_bytes == history.SPEND * FAST_BYTES
    assert rested.walk.base_bytes == spent.walk.base_bytes + spent.stop_bytes, "no byte is read twice"


@pytest.mark.parametrize("held", [(0, 0), (0, 128 * MIB), (64 * MIB, SET_BYTES)])
def test_memory_does_not(held: tuple[int, int]) -> None:
    """It gives what it holds with a rest or without: nothing more, what came first, or all that is left."""
    assert not Server(held).comes_with_rests()


def test_nothing_is_proved_by_a_set_too_small_for_three_parts() -> None:
    server = Server(credit_bytes=0.0)
    walk = WalkSpec("sequential", steps.LARGE_RECORD, base_bytes=32 * MIB)
    small = dataclasses.replace(AGAIN, file_bytes=112 * MIB, walk=walk)
    assert not server.comes_with_rests(small) and server.cells == []


@pytest.mark.parametrize(("low", "expected"), [(0, 230 * MB), (75 * MB, 80 * MB)])
def test_a_pass_too_short_to_tell_gives_no_rate_to_fall_to(low: int, expected: int) -> None:
    """What is held against a rest is then the long run of the same reads."""
    passes = [
        point(rate=600 * MB, set_bytes=128 * MIB),
        dataclasses.replace(point(set_bytes=256 * MIB), rate=Figure(80 * MB, low, 85 * MB)),
    ]
    found = evidence(600 * MB, set=passes, long=[point(rate=230 * MB, set_bytes=256 * MIB)])
    slow = history._beyond_for_long(found)
    assert slow is not None and (slow.rate.value, slow.set_bytes) == (expected, 256 * MIB)


def fallen(held: int, long_bytes: int) -> Any:
    """A ladder whose long run of reads over the whole set has just ended. held: bytes a memory may hold at most."""
    long = dataclasses.replace(point(depth=4, set_bytes=SET_BYTES), cell=7)
    known = evidence(set=[dataclasses.replace(point(depth=4, set_bytes=SET_BYTES), cell=3)], long=[long])
    wrapped = SimpleNamespace(step=known.step, memory_most_bytes=held)
    return SimpleNamespace(evidence=wrapped, read_bytes=0, moved_bytes=lambda cell: long_bytes)


@pytest.mark.parametrize(("held", "long_bytes", "part"), [
    (64 * MIB, 400 * MIB, (0, 336 * MIB)),  # more of the head was read long ago than follows
    (0, 400 * MIB, (400 * MIB, 112 * MIB)),  # nobody knows what is held: what follows was as slow as that before it
    (0, 2 * SET_BYTES, (0, SET_BYTES)),  # the end of the set: its head follows
])  # fmt: skip
def test_after_a_rest_is_read_what_no_memory_holds(held: int, long_bytes: int, part: tuple[int, int]) -> None:
    assert history._not_held(fallen(held, long_bytes), SET_BYTES) == part


def test_reads_fall_only_below_the_same_reads() -> None:
    """One at a time may be the fastest where client and server share processors; two at a time never fell."""
    depths = [point(rate=1500 * MB, depth=1), point(rate=800 * MB, depth=2), point(rate=1000 * MB, depth=4)]
    again = point(rate=820 * MB, depth=2)
    assert history.fell(SimpleNamespace(evidence=evidence(depth=depths, again=[again]))) == []  # type: ignore[arg-type]
    slow = dataclasses.replace(again, rate=Figure(400 * MB, 390 * MB, 410 * MB))
    climb = SimpleNamespace(evidence=evidence(depth=depths, again=[slow]))
    assert history.fell(climb) == ["read"]  # type: ignore[arg-type]


@pytest.mark.parametrize(("cached", "scope", "ops"), [
    (1500 * MB, "disk", ["write"]), (80 * MB, "link", ["read", "write"]),
])  # fmt: skip
def test_a_link_carries_no_more_than_its_burst(
    cached: int, scope: str, ops: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes that fell from 72 to 24 MB/s, where others went at 1500: it is the disk that has credit."""
    monkeypatch.setattr(history, "size_bytes", lambda *_: 190 * MB)
    monkeypatch.setattr(history, "fell", lambda _: ["read"])
    found = evidence()
    found.points = {"depth": [point(rate=cached)], "writes": [point("write", rate=cached)]}
    climb = SimpleNamespace(evidence=found)
    history._found(climb, "link", Figure(72 * MB, 70 * MB, 74 * MB), Figure.exactly(24 * MB, ""), "", ["write"])  # type: ignore[arg-type]
    assert found.burst is not None and (found.burst["scope"], found.burst["applies_to"]) == (scope, ops)


def test_what_a_memory_of_unknown_size_may_give_is_no_proof_of_credit() -> None:
    slow = point(depth=4, set_bytes=SET_BYTES)
    climb = SimpleNamespace(evidence=SimpleNamespace(memory_most_bytes=0))
    assert history._may_be_held(climb, slow, history._Fast(FAST, FAST_BYTES))  # type: ignore[arg-type]


@pytest.mark.parametrize(("simulated", "rate", "expected_s"), [(False, 1e12, 20), (True, 1e9, 20), (True, 1e12, None)])
def test_a_simulated_long_run_takes_no_more_requests_than_a_processor_can(
    simulated: bool, rate: float, expected_s: int | None
) -> None:
    """A server without any limit would take it for minutes, to show that nothing limits it."""
    cells: list[CellSpec] = []
    known = dataclasses.replace(evidence(rate, set=[]), simulated=simulated)
    climb = SimpleNamespace(
        evidence=known, budget=SimpleNamespace(limit_ns=300 * NS_PER_S), spent_ns=lambda: 0, bypass=False,
        bounds=Bounds(NS_PER_S // 2, SET_BYTES, None, 8, False, False, False, lanes=False, refuses=False),
        stage=lambda _, planned: cells.extend(planned),
    )  # fmt: skip
    assert history._long(climb, "read") is None  # type: ignore[arg-type]
    assert [round(cell.duration_ns / NS_PER_S) for cell in cells] == ([expected_s] if expected_s else [])
