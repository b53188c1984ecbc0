"""Two curves beside each other: capacity, knee and p99 at equal loads, each with an interval and a verdict.

The unit is the part of a load, a batch: it begins with an empty queue and tells one rate and one p99. All batches
of a curve come from one run. The intervals say how sure the difference between these two runs is; how much a
server differs from one run to the next they cannot say.

Ratio of medians with a percentile bootstrap over the batches of each side (Efron 1979). Neighbours in time are
alike, so deviations of the draws are widened by sqrt((1 + r) / (1 - r)), as the variance of a mean of an AR(1)
series is; r is the lag-1 autocorrelation of batches, averaged over the loads of the curve and corrected for the
short series (Marriott & Pope 1954).

Verdict: the 95 % interval outside the margin is better or worse, inside it is equivalent, else undecided. The p
value is that of the nearest of the three, from the same draws, but never below the least that an exact two-sided
rank test of so few batches has: the bootstrap of a handful cannot know its own tails. Over the loads p values are
adjusted by Holm (1979). Fewer than LEAST_BATCHES on a side: no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from naslab.analysis import knee as knees
from naslab.analysis.distributions import normal_quantile
from naslab.analysis.families import holm

Verdict = Literal["better", "worse", "equivalent", "undecided"]

RATE_MARGIN, LATENCY_MARGIN = 0.05, 0.10
LEAST_BATCHES = 4
LEVEL = 0.05
POWER_Z = 0.8416
"""A minimum detectable effect is called one in 80 of 100 cases."""
RESAMPLES = 4000
SAME_LOAD = 1e-3
LEAST_SHARE = 1e-3
"""A part in which nothing ended counts as this share of the best rate: it needs a logarithm."""
MOST_ALIKE = 0.9
"""No more autocorrelation is believed of a few batches."""


@dataclass(frozen=True)
class Ratio:
    """This over the other. n, other_n: batches. p: adjusted where it belongs to a family. mde: the smallest true
    difference, as a share, that would have been called better or worse in 80 of 100 cases. verdict: None without
    enough batches.
    """

    value: float
    low: float
    high: float
    n: int
    other_n: int
    margin: float
    p: float
    mde: float
    verdict: Verdict | None


@dataclass(frozen=True)
class LoadRatio:
    """p99 of the response time at one load that both were offered and carried. Times in nanoseconds."""

    load_per_s: float
    p99_ns: float
    other_p99_ns: float
    ratio: Ratio


@dataclass(frozen=True)
class Comparison:
    """None: a curve was not saturated (capacity), has no knee. autocorrelation: of p99, this and the other."""

    capacity: Ratio | None
    knee: Ratio | None
    loads: Sequence[LoadRatio]
    autocorrelation: tuple[float, float]


@dataclass(frozen=True)
class _Drawn:
    """One side: a value, draws of it, and how many batches they are of."""

    value: float
    draws: NDArray[np.float64]
    n: int


def compare(mine: Sequence[knees.Step], theirs: Sequence[knees.Step], seed: int = 0) -> Comparison:
    """Compares two curves. mine, theirs: ascending loads, as for `knee.capacity`."""
    random = np.random.default_rng(seed)
    sides = [_Side(steps) for steps in (mine, theirs)]
    capacity = None
    if all(side.saturated for side in sides):
        capacity = _family([_of([side.capacity(random) for side in sides], RATE_MARGIN, 1)], higher=True)[0]
    bends = [side.knee(random) for side in sides]
    found = [bend for bend in bends if bend is not None]
    knee = _family([_of(found, RATE_MARGIN, 1)], higher=True)[0] if len(found) == len(bends) else None
    pairs = _equal_loads(mine, theirs)
    ratios = []
    for pair in pairs:
        drawn = [side.p99(step, random) for side, step in zip(sides, pair, strict=True)]
        ratios.append((drawn, _of(drawn, LATENCY_MARGIN, len(pairs))))
    judged = _family([ratio for _, ratio in ratios], higher=False)
    loads = [
        LoadRatio(pair[0].offered_per_s, drawn[0].value, drawn[1].value, ratio)
        for pair, (drawn, _), ratio in zip(pairs, ratios, judged, strict=True)
    ]
    return Comparison(capacity, knee, loads, (sides[0].alike, sides[1].alike))


def _equal_loads(mine: Sequence[knees.Step], theirs: Sequence[knees.Step]) -> list[tuple[knees.Step, knees.Step]]:
    """Steps of both at equal loads that neither was saturated by and that have a p99."""
    found = []
    for one in mine:
        other = next((s for s in theirs if abs(s.offered_per_s / one.offered_per_s - 1) < SAME_LOAD), None)
        if other and all(not s.saturated and sum(part.total for part in s.parts) for s in (one, other)):
            found.append((one, other))
    return found


class _Side:
    """One curve: draws of its values, and how alike neighbouring batches are."""

    def __init__(self, steps: Sequence[knees.Step]) -> None:
        self.steps = steps
        self.top = knees.plateau(steps)
        self.saturated = bool(self.top) and any(step.saturated for step in steps)
        self.alike = autocorrelation([np.log(_p99s(step)) for step in steps if not step.saturated])

    def capacity(self, random: np.random.Generator) -> _Drawn:
        """Median rate of the batches of all loads that tell the capacity."""
        rates = np.concatenate([step.part_rates for step in self.top])
        alike = autocorrelation([step.part_rates for step in self.top])
        return _medians(np.maximum(rates, LEAST_SHARE * rates.max()), alike, random)

    def p99(self, step: knees.Step, random: np.random.Generator) -> _Drawn:
        """Median p99 of the batches of a load, nanoseconds."""
        return _medians(_p99s(step), self.alike, random)

    def knee(self, random: np.random.Generator) -> _Drawn | None:
        most = knees.capacity(self.steps)
        found = knees.knee_draws(self.steps, most.value, random) if most else None
        if found is None:
            return None
        value, draws = found
        return _Drawn(value, _widened(value, draws, self.alike), min(len(step.parts) for step in self.steps))


def _p99s(step: knees.Step) -> NDArray[np.float64]:
    """p99 of each part that has any operation, in time order, at least 1 nanosecond."""
    return np.array([max(float(part.quantiles((knees.QUANTILE,))[0]), 1.0) for part in step.parts if part.total])


def _medians(values: NDArray[np.float64], alike: float, random: np.random.Generator) -> _Drawn:
    """values: (n,) above 0."""
    at = random.integers(0, len(values), (RESAMPLES, len(values)))
    value = float(np.median(values))
    return _Drawn(value, _widened(value, np.median(values[at], axis=1), alike), len(values))


def _widened(value: float, draws: NDArray[np.float64], alike: float) -> NDArray[np.float64]:
    """Draws with their deviations from the value, as ratios, spread for the autocorrelation of the batches."""
    spread = math.sqrt((1 + alike) / (1 - alike))
    widened: NDArray[np.float64] = value * (draws / value) ** spread
    return widened


def autocorrelation(series: Sequence[NDArray[np.float64]]) -> float:
    """Lag-1 autocorrelation of short series about their own means, 0 to MOST_ALIKE.

    Of n values under an AR(1) coefficient r the estimate has the mean r - (1 + 4 r) / n (Marriott & Pope 1954),
    which is solved for r; the mean over the series. 0 where none has more than 4 values or any spread.
    """
    found = []
    for values in series:
        n = len(values)
        apart = values - values.mean() if n else values
        square = float(apart @ apart)
        if n > LEAST_BATCHES and square > 1e-24 * max(float(values @ values), 1e-300):
            seen = float(apart[1:] @ apart[:-1]) / square
            found.append((seen + 1 / n) / (1 - 4 / n))
    return min(max(float(np.mean(found)), 0.0), MOST_ALIKE) if found else 0.0


def _of(sides: Sequence[_Drawn], margin: float, family: int) -> Ratio:
    """The ratio with its interval and its own p; the verdict is the family's. family: how many it is one of."""
    one, other = sides
    logs = np.log(one.draws) - np.log(other.draws)
    value = one.value / other.value
    low, high = np.exp(np.quantile(logs, (LEVEL / 2, 1 - LEVEL / 2)))
    spread = float(np.std(logs))
    mde = math.expm1(math.log1p(margin) + (normal_quantile(1 - LEVEL / 2 / family) + POWER_Z) * spread)
    p = max(min(2 * min(_tails(logs, margin).values()), 1.0), least_p(one.n, other.n))
    low, high = min(float(low), value), max(float(high), value)
    return Ratio(value, low, high, one.n, other.n, margin, p, mde, None)


def _tails(logs: NDArray[np.float64], margin: float) -> dict[str, float]:
    """One-sided p of `more` and `less` than the margin allows and of `within` it, from draws of the log ratio."""
    edge = math.log1p(margin)

    def share(outside: NDArray[np.bool_]) -> float:
        return (int(outside.sum()) + 1) / (len(logs) + 1)

    within = max(share(logs >= edge), share(logs <= -edge))
    return {"more": share(logs <= edge), "less": share(logs >= -edge), "within": within}


def least_p(n: int, other_n: int) -> float:
    """The smallest two-sided p of an exact rank test of n and other_n values (FIELD: n = 3 0.1, n = 5 0.0079)."""
    return min(2 / math.comb(n + other_n, n), 1.0) if n and other_n else 1.0


def _family(ratios: Sequence[Ratio], higher: bool) -> list[Ratio]:
    """The ratios with p adjusted by Holm, and their verdicts. higher: more is better."""
    adjusted = holm([ratio.p for ratio in ratios])
    return [replace(ratio, p=p, verdict=_verdict(ratio, p, higher)) for ratio, p in zip(ratios, adjusted, strict=True)]


def _verdict(ratio: Ratio, p: float, higher: bool) -> Verdict | None:
    if min(ratio.n, ratio.other_n) < LEAST_BATCHES:
        return None
    edge = 1 + ratio.margin
    if p > LEVEL:
        return "undecided"
    if ratio.low > edge:
        return "better" if higher else "worse"
    if ratio.high < 1 / edge:
        return "worse" if higher else "better"
    return "equivalent" if ratio.low > 1 / edge and ratio.high < edge else "undecided"
