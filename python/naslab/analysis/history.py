"""Where in a series of runs a target changed: steps between stretches of runs that are alike.

The unit is the run. A step is the place where the means of both sides lie furthest apart for their noise; values are
clipped (CLIP) so that one disturbed run is no step. Its chance is that of shuffled runs: 1,999 permutations of the
stretch, the largest statistic of each. A step that counts is followed on either side (binary segmentation, Scott &
Knott 1974). Apache Otava, made for this, pins one NumPy and
brings cloud clients; see docs/concepts/comparison.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.01
LEAST_STEP = 0.05
"""Smaller steps are not told: log ratio of the medians."""
LEAST_RUNS = 3
"""Runs on either side of a step."""
PERMUTATIONS = 1999
CLIP = 6.0
"""So many standard deviations of the noise, told from neighbouring runs, a value may lie from the median."""
LAST_OFF = 5.0
"""The last run stands out so many median deviations from the stretch it would belong to."""
_LEAST_DEVIATION = 0.005


@dataclass(frozen=True)
class Step:
    """The run, by its place in the series, from which on values are others. ratio: of the medians after over before.
    p: chance of such a step among shuffled runs."""

    at: int
    ratio: float
    p: float


def find_steps(logs: NDArray[np.float64], seed: int = 0) -> list[Step]:
    """Steps in (n,) logarithms in the order of time, ascending; none in fewer than 2 * LEAST_RUNS."""
    random = np.random.default_rng(seed)
    places = sorted(_search(logs, 0, random), key=lambda found: found[0])
    steps = []
    edges = [0, *(at for at, _ in places), len(logs)]
    for (at, p), before, after in zip(places, edges[:-2], edges[2:], strict=True):
        change = float(np.median(logs[at:after]) - np.median(logs[before:at]))
        steps.append(Step(at, float(np.exp(change)), p))
    return steps


def _search(logs: NDArray[np.float64], offset: int, random: np.random.Generator) -> Iterator[tuple[int, float]]:
    if len(logs) < 2 * LEAST_RUNS:
        return
    clipped = _clipped(logs)
    at, found = _largest(clipped[None, :])
    shuffled = random.permuted(np.tile(clipped, (PERMUTATIONS, 1)), axis=1)
    _, chance = _largest(shuffled)
    p = float((np.sum(chance >= found[0]) + 1) / (PERMUTATIONS + 1))
    split = int(at[0])
    change = abs(float(np.median(logs[split:]) - np.median(logs[:split])))
    if p > LEVEL or change < np.log1p(LEAST_STEP):
        return
    yield offset + split, p
    yield from _search(logs[:split], offset, random)
    yield from _search(logs[split:], offset + split, random)


def _clipped(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values about their median, none further from it than CLIP deviations of the noise."""
    noise = 1.4826 * float(np.median(np.abs(np.diff(logs)))) / np.sqrt(2)
    most = CLIP * max(noise, _LEAST_DEVIATION)
    clipped = np.clip(logs - np.median(logs), -most, most)
    centred: NDArray[np.float64] = clipped - clipped.mean()
    return centred


def _largest(values: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """(place of the largest step, its statistic) of (series, n) values about their mean: |sum before| over its
    standard deviation.

    Scaled at each place: unscaled, steps near the ends of a series are hardly ever found.
    """
    n = values.shape[1]
    before = np.arange(LEAST_RUNS, n - LEAST_RUNS + 1)
    sums = np.abs(np.cumsum(values, axis=1)[:, before - 1]) / np.sqrt(before * (n - before) / n)
    best = sums.argmax(axis=1)
    return before[best], sums[np.arange(len(sums)), best]


def last_stands_out(logs: NDArray[np.float64], since: int) -> float | None:
    """Ratio of the last run to the median of those since a step, when it is far off; None when it is not, or when
    fewer than 2 * LEAST_RUNS others tell."""
    others = logs[since:-1]
    if len(others) < 2 * LEAST_RUNS:
        return None
    middle = float(np.median(others))
    deviation = max(1.4826 * float(np.median(np.abs(others - middle))), _LEAST_DEVIATION)
    off = float(logs[-1]) - middle
    return float(np.exp(off)) if abs(off) >= max(LAST_OFF * deviation, np.log1p(LEAST_STEP)) else None
