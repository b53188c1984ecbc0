"""Looking at repeats more than once without deciding more often by chance: group-sequential tests.

Repeats are judged after each number in `LOOKS` and measured until the answer is clear. Each look has the same nominal
level (Pocock 1977), taken so that the chance of a wrong decision at any look is the level that was asked for. The
smallest p value of the looks so far becomes a sequential p value: the smallest overall level at which a look would have
decided (Posch, Wassmer & Brannath 2008). Like any p values these may be adjusted over a family of claims by Holm's
method (group-sequential Holm procedure: Ye, Li, Liu & Yao 2013).

The statistics of the looks are taken as a Brownian motion seen after so many repeats, which t statistics approach:
their p values are compared and not their values (the significance level approach, Jennison & Turnbull 2000, 3.3).
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.distributions import normal_below, normal_quantile

LOOKS = (3, 5, 8, 12, 18, 27, 40)
"""Numbers of repeats after which claims are judged."""
_GRID = 161
_WIDTH = 8.5
_TINY = 1e-12
"""Points of the numerical integration, and how many standard deviations they reach."""


def overall_p(p: float, looks: tuple[int, ...] = LOOKS) -> float:
    """How likely one of all these looks shows a one-sided p value of `p` or less while the null hypothesis is true.

    looks: numbers of repeats, rising. By recursive integration over the looks (Armitage, McPherson & Rowe 1969).
    """
    if p < _TINY or p >= 1.0:  # so far out the looks are as good as independent
        return min(len(looks) * max(p, 0.0), 1.0)
    return min(max(_crossing(p, looks), p), 1.0, len(looks) * p)


def nominal_level(level: float, looks: tuple[int, ...] = LOOKS) -> float:
    """The one-sided p value at each look that makes the chance of any wrong decision this level (Pocock's constant)."""
    low, high = level / len(looks), level
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if overall_p(middle, looks) < level else (low, middle)
    return low


def repeats_needed(distance: float, spread: float, level: float, power: float = 0.8, both: bool = False) -> float:
    """Repeats after which a mean this far from an edge is told from it with this power, at a one-sided level.

    distance, spread: of log ratios, the mean's distance from the edge and their standard deviation. both: two edges at
    the same distance have to be told (an equivalence). Infinite at the edge itself. By the normal approximation with
    the correction of Guenther (1981) for the t test.
    """
    if distance <= 0.0:
        return math.inf
    one, other = -normal_quantile(level), normal_quantile(1 - (1 - power) / 2 if both else power)
    return (one + other) ** 2 * (spread / distance) ** 2 + one**2 / 2


@lru_cache(maxsize=4096)
def _crossing(p: float, looks: tuple[int, ...]) -> float:
    """Of a Brownian motion seen at times `looks`: P(any of its standardised values is at or above p's quantile)."""
    edge = -normal_quantile(p)
    sums, weights = _grid(edge * math.sqrt(looks[0]), looks[0])
    density = np.exp(-(sums**2) / (2 * looks[0])) / math.sqrt(2 * math.pi * looks[0]) * weights
    crossed = normal_below(-edge)
    for before, now in itertools.pairwise(looks):
        step, bound = math.sqrt(now - before), edge * math.sqrt(now)
        crossed += float(density @ np.array([normal_below(z) for z in ((sums - bound) / step).tolist()]))
        after, weights = _grid(bound, now)
        moved = np.exp(-((after[:, None] - sums[None, :]) ** 2) / (2 * step**2)) / (math.sqrt(2 * math.pi) * step)
        sums, density = after, (moved @ density) * weights
    return crossed


def _grid(bound: float, time: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points below the bound, and their weights by Simpson's rule."""
    points = np.linspace(-_WIDTH * math.sqrt(time), bound, _GRID)
    weights = np.full(_GRID, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return points, weights * (points[1] - points[0]) / 3
