"""Where a latency-load curve bends and where it ends: saturation, capacity and knee, with intervals.

Capacity is the highest rate that was carried. The knee is the lowest load at which the p99 of the response
time (from the due time) is twice its value at low load. p99 is made monotone over the load first (isotonic
regression of its logarithm, pool adjacent violators), so that one disturbed step makes no knee, and is
interpolated between steps in the logarithms of load and p99. "Twice the low-load value" is used rather than
Kneedle (Satopaa et al. 2011), whose answer moves with the last load offered: an open loop beyond saturation
has a response time that grows with the length of the test.

Intervals: 95 % percentile bootstrap, of blocks of intervals for the capacity (Kuensch 1989) and of the parts
that each step is measured in for the knee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naslab.results.histogram import Histogram

CARRIED = 0.95
"""A step that carries less than this share of its load is saturated."""
LATE = 0.1
"""... if at least this share of its operations started late: a few random arrivals too few are no shortfall."""
WAITING = 0.01
"""Saturated too: half of the operations wait for longer than this share of a part before they start."""
MOSTLY_LATE = 0.5
KNEE_FACTOR = 2.0
KNEE_METHOD = "lowest load where p99 of the response time is twice its low-load value"
LOW_LOAD = 0.3
"""Steps up to this share of the capacity tell the low-load p99 (always the first one)."""
PLATEAU = 0.97
"""Steps that carried this share of the most that any carried tell the capacity together."""
RESAMPLES = 1000
QUANTILE = 0.99


@dataclass(frozen=True)
class Step:
    """One load. Rates in operations per second. parts: response histogram of each part. rates: (n,) operations
    per second in each interval of the parts. part_rates: (parts,) of each part as a whole.
    """

    offered_per_s: float
    achieved_per_s: float
    saturated: bool
    parts: Sequence[Histogram]
    rates: NDArray[np.float64]
    part_rates: NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def is_saturated(offered: float, achieved: float, late: float, waiting_ns: float, part_ns: int) -> bool:
    """Whether a load was more than the target carries.

    late: share of the operations that started late or never. waiting_ns: median of the response time less the
    median of the service time. part_ns: how long each part of the step lasted.
    """
    short = achieved < CARRIED * offered and late > LATE
    return short or (waiting_ns > WAITING * part_ns and late > MOSTLY_LATE)


def plateau(steps: Sequence[Step]) -> list[Step]:
    """The steps that tell the capacity: those within 3 % of the best, the saturated ones where there are any.

    Saturated steps all carry the same, and the best one alone would be the luckiest. Empty where nothing moved.
    """
    best = max((step.achieved_per_s for step in steps), default=0.0)
    if best <= 0:
        return []
    top = [step for step in steps if step.achieved_per_s >= PLATEAU * best]
    return [step for step in top if step.saturated] or top


def capacity(steps: Sequence[Step], seed: int = 0) -> Estimate | None:
    """The highest rate carried, operations per second: the mean over the steps of the plateau; None without."""
    top = plateau(steps)
    if not top:
        return None
    rates = np.concatenate([step.rates for step in top])
    value = float(np.mean([step.achieved_per_s for step in top]))
    if len(rates) < 2:
        return Estimate(value, value, value)
    means = _block_means(rates, np.random.default_rng(seed))
    # Intervals are of equal length; the steps' own rates divide by the exact window.
    low, high = np.quantile(means, (0.025, 0.975)) * (value / rates.mean() if rates.mean() > 0 else 1.0)
    return Estimate(value, min(float(low), value), max(float(high), value))


def _block_means(values: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Means of RESAMPLES circular block resamples, blocks of about n^(1/3)."""
    length = max(round(len(values) ** (1 / 3)), 1)
    blocks = -(-len(values) // length)
    starts = random.integers(0, len(values), (RESAMPLES, blocks, 1))
    at = (starts + np.arange(length)) % len(values)
    means: NDArray[np.float64] = values[at.reshape(RESAMPLES, -1)].mean(axis=1)
    return means


def low_load(loads: NDArray[np.float64], p99_ns: NDArray[np.float64], most: float) -> float:
    """p99 at low load, nanoseconds: the median over the steps that offer little of the capacity `most`.

    loads: (n,) ascending. p99_ns: (n,).
    """
    few = max(int(np.count_nonzero(loads <= LOW_LOAD * most)), 1)
    return float(np.median(p99_ns[:few]))


def knee_at(loads: NDArray[np.float64], p99_ns: NDArray[np.float64], most: float) -> float | None:
    """The load where p99 is twice its low-load value, at most `most`; None when it never is.

    loads: (n,) ascending. p99_ns: (n,) above 0.
    """
    level = np.log(KNEE_FACTOR * low_load(loads, p99_ns, most))
    smooth, x = isotonic(np.log(p99_ns)), np.log(loads)
    above = np.flatnonzero(smooth >= level)
    if not len(above):
        return None
    at = int(above[0])
    if at == 0:
        return min(float(loads[0]), most)
    share = (level - smooth[at - 1]) / (smooth[at] - smooth[at - 1])
    return min(float(np.exp(x[at - 1] + share * (x[at] - x[at - 1]))), most)


def isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest non-decreasing values by least squares. Source: pool adjacent violators, Barlow et al. 1972."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            size = sizes[-2] + sizes[-1]
            means[-2] = (means[-2] * sizes[-2] + means[-1] * sizes[-1]) / size
            sizes[-2] = size
            del means[-1], sizes[-1]
    return np.repeat(np.array(means, np.float64), sizes)


def knee(steps: Sequence[Step], most: float, seed: int = 0) -> Estimate | None:
    """The knee with its interval, from steps of ascending load; None when p99 never doubles.

    most: the capacity.
    """
    found = knee_draws(steps, most, np.random.default_rng(seed))
    if found is None:
        return None
    value, draws = found
    low, high = np.quantile(draws, (0.025, 0.975))
    return Estimate(value, min(float(low), value), max(float(high), value))


def knee_draws(
    steps: Sequence[Step], most: float, random: np.random.Generator, resamples: int = RESAMPLES
) -> tuple[float, NDArray[np.float64]] | None:
    """The knee and (resamples,) bootstrap draws of it, over the parts of each step; None when p99 never doubles.

    Draws in which it never doubles count as the capacity `most`.
    """
    told = [step for step in steps if sum(part.total for part in step.parts)]
    if len(told) < 2:
        return None
    loads = np.array([step.offered_per_s for step in told])
    tables = [_table(step.parts) for step in told]
    whole = np.array([_p99(values, counts.sum(axis=0)[None])[0] for values, counts in tables])
    value = knee_at(loads, whole, most)
    if value is None:
        return None
    drawn = np.stack([_resampled(values, counts, random, resamples) for values, counts in tables], axis=1)
    return value, np.array([knee_at(loads, row, most) or most for row in drawn])


def _table(parts: Sequence[Histogram]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(bucket values (v,), counts (parts, v)) of histograms of one precision."""
    values = np.unique(np.concatenate([part.values_ns for part in parts]))
    counts = np.zeros((len(parts), len(values)), np.int64)
    for row, part in zip(counts, parts, strict=True):
        row[np.searchsorted(values, part.values_ns)] = part.counts
    return values, counts


def _resampled(
    values: NDArray[np.int64], counts: NDArray[np.int64], random: np.random.Generator, resamples: int
) -> NDArray[np.float64]:
    """p99 of so many draws of as many parts as there are, with replacement."""
    parts = len(counts)
    weights = random.multinomial(parts, [1 / parts] * parts, resamples)
    return _p99(values, weights @ counts)


def _p99(values: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """p99 of each row of counts, as HdrHistogram's value_at_quantile; the largest value where a row is empty."""
    sums = np.cumsum(counts, axis=1)
    rank = np.maximum(np.ceil(QUANTILE * sums[:, -1:]), 1)
    at = np.minimum((sums < rank).sum(axis=1), len(values) - 1)
    found: NDArray[np.float64] = values[at].astype(np.float64)
    return found
