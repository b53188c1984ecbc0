"""Comparisons of curves whose difference is known: how often a verdict is wrong, and what is not said."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from naslab.analysis import curvecompare as beside
from naslab.analysis import knee
from naslab.results.histogram import from_values

LOADS = np.geomspace(50, 900, 10)
PARTS = 8


def noise(random: np.random.Generator, spread: float, alike: float, count: int = PARTS) -> NDArray[np.float64]:
    """An AR(1) series of this spread and coefficient."""
    values = random.normal(0, spread, count)
    for at in range(1, count):
        values[at] = alike * values[at - 1] + math.sqrt(1 - alike**2) * values[at]
    return values


def steps(
    seed: int, slower: float = 1.0, spread: float = 0.03, alike: float = 0.0, parts: int = PARTS
) -> list[knee.Step]:
    """A server of 1000/s over `slower` whose p99 is 1 ms / (1 - load / capacity) times `slower`."""
    random = np.random.default_rng(seed)
    capacity = 1000 / slower
    found = []
    for load in [*LOADS, 1300.0, 1500.0]:
        full = load > capacity
        p99 = 1e9 if full else 1e6 * slower / (1 - load / capacity)
        told = [from_values([int(p99 * math.exp(x))] * 100) for x in noise(random, spread, alike, parts)]
        rates = min(load, capacity) * np.exp(noise(random, spread / 3, alike, parts))
        found.append(knee.Step(load, float(rates.mean()), full, told, np.repeat(rates, 10), rates))
    return found


def verdicts(found: beside.Comparison) -> list[str | None]:
    ratios = [found.capacity, found.knee, *(load.ratio for load in found.loads)]
    return [ratio.verdict for ratio in ratios if ratio is not None]


@pytest.mark.lab
@pytest.mark.parametrize(("spread", "alike"), [(0.03, 0.0), (0.15, 0.0), (0.15, 0.5)])
def test_equal_servers_are_seldom_called_different(spread: float, alike: float) -> None:
    """At most 5 of 100 comparisons have any false verdict among loads, capacity and knee; here 2 of 40."""
    wrong = 0
    for seed in range(40):
        found = beside.compare(steps(2 * seed, 1, spread, alike), steps(2 * seed + 1, 1, spread, alike), seed)
        wrong += any(verdict in ("better", "worse") for verdict in verdicts(found))
    assert wrong <= 2


def test_equal_servers_are_called_equivalent_where_parts_vary_little() -> None:
    said = [
        verdicts(beside.compare(steps(2 * seed, 1, 0.02), steps(2 * seed + 1, 1, 0.02), seed)) for seed in range(12)
    ]
    flat = list(itertools.chain.from_iterable(said))
    assert flat.count("equivalent") >= 0.9 * len(flat)


@pytest.mark.lab
@pytest.mark.parametrize("alike", [0.0, 0.5])
def test_a_server_that_is_a_fifth_slower_is_worse(alike: float) -> None:
    """And the fast one is better, from the other side; at least 95 of 100 verdicts."""
    for slow, fast, word in ((1.2, 1.0, "worse"), (1.0, 1.2, "better")):
        said: list[str | None] = []
        for seed in range(8):
            found = beside.compare(steps(2 * seed, slow, 0.02, alike), steps(2 * seed + 1, fast, 0.02, alike), seed)
            said += verdicts(found)
            assert found.capacity and found.capacity.value == pytest.approx(fast / slow, rel=0.03)
            assert found.capacity.low < fast / slow * 1.02 and found.capacity.high > fast / slow * 0.98
        assert said.count(word) >= 0.95 * len(said), said


def test_what_few_parts_cannot_tell() -> None:
    """No verdict below four parts; at four and five, a family of ten finds nothing significant."""
    for parts, expected in ((3, {None}), (5, {"undecided"})):
        found = beside.compare(steps(1, 2.0, 0.01, parts=parts), steps(2, 1.0, 0.01, parts=parts))
        assert {load.ratio.verdict for load in found.loads} == expected
    assert [round(beside.least_p(n, n), 4) for n in (3, 4, 5, 6)] == [0.1, 0.0286, 0.0079, 0.0022]


@pytest.mark.lab
def test_the_least_difference_that_would_be_seen_is_seen() -> None:
    """A true difference of the printed size is called one in 65 to 95 of 100 cases (80 by design)."""
    mde = float(np.median([one_ratio(seed, 1.0).mde for seed in range(50)]))
    seen = sum(one_ratio(seed, 1 + mde).verdict == "worse" for seed in range(200))
    assert 130 <= seen <= 190 and mde > beside.LATENCY_MARGIN


def one_ratio(seed: int, slower: float) -> beside.Ratio:
    """p99 at a single load, 8 parts each, 5 % spread."""
    random = np.random.default_rng(seed)
    sides = []
    for scale in (slower, 1.0):
        parts = [from_values([int(1e6 * scale * math.exp(x))] * 100) for x in random.normal(0, 0.05, PARTS)]
        sides.append([knee.Step(100.0, 100.0, False, parts, np.full(80, 100.0), np.full(PARTS, 100.0))])
    return beside.compare(sides[0], sides[1], seed).loads[0].ratio


def test_only_equal_loads_that_both_carry_are_compared() -> None:
    mine, theirs = steps(1, 1.2), steps(2, 1.0)
    found = beside.compare(mine, theirs[1:])
    carried = [load for load in LOADS[1:] if load < 1000 / 1.2]
    assert [load.load_per_s for load in found.loads] == pytest.approx(carried)
    unsaturated = beside.compare(mine[:8], theirs)
    assert unsaturated.capacity is None and len(unsaturated.loads) == 8
    assert beside.compare(mine[:2], theirs).knee is None
    assert beside.compare([], theirs).loads == []


def test_constant_values_need_no_draws() -> None:
    """A simulated server without noise: the interval is a point, and the p value still that of eight parts."""
    found = beside.compare(steps(1, 1.0, 0.0), steps(2, 1.0, 0.0))
    assert set(verdicts(found)) == {"equivalent"} and found.autocorrelation == (0.0, 0.0)
    assert found.capacity and found.capacity.p >= beside.least_p(PARTS, PARTS)
    assert found.capacity.mde == pytest.approx(beside.RATE_MARGIN)


def test_parts_in_which_nothing_ended() -> None:
    """A target that stood still for a part, or all the time, is compared without a warning or an infinity."""
    mine, theirs = steps(1), steps(2)
    stopped = dataclasses.replace(mine[-1], part_rates=np.array([0.0] * 5 + [1000.0] * 3), rates=np.zeros(80))
    found = beside.compare([*mine[:-2], stopped], theirs)
    assert found.capacity and found.capacity.value < 0.01 and found.capacity.verdict == "undecided"
    assert math.isfinite(found.capacity.high) and math.isfinite(found.capacity.mde)
    nothing = knee.Step(100.0, 0.0, True, [], np.zeros(80), np.zeros(PARTS))
    assert beside.compare([nothing], theirs) == beside.Comparison(
        None, None, [], (0.0, beside.compare([], theirs).autocorrelation[1])
    )
    short = knee.Step(float(LOADS[0]), 50.0, False, [from_values([0, 0])] * PARTS, np.full(80, 50.0), np.full(8, 50.0))
    assert beside.compare([short], theirs).loads[0].ratio.verdict == "better"


@pytest.mark.parametrize("alike", [0.0, 0.3, 0.6])
def test_autocorrelation_of_short_series(alike: float) -> None:
    random = np.random.default_rng(7)
    found = [beside.autocorrelation([noise(random, 1, alike) for _ in range(20)]) for _ in range(40)]
    assert float(np.mean(found)) == pytest.approx(alike, abs=0.12)
    assert beside.autocorrelation([]) == 0 and beside.autocorrelation([np.full(8, 3.0)]) == 0
