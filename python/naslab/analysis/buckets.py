"""Token buckets in a throughput series: burst rate, baseline, size, with intervals.

A server that hands out credit moves at most B + r * w bytes in any window of w seconds (network calculus:
arrival curves, Le Boudec & Thiran 2001, chapter 1): credit up to B saved while idle, r a second earned always.
Under constant demand from a full bucket the rate is high until the credit is spent and r from then on. So the
baseline after the drop is the refill rate, and the bytes moved above it until the drop are the size; those are
counted, not fitted, and an error in the instant of the drop hardly matters: at the drop nothing is above.
That a series looks like this does not make it a bucket: see naslab.analysis.causes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from naslab.analysis.changepoints import Changes, find_changes, noise_of
from naslab.analysis.series import NS_PER_S, RateSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 400
MOST_BLOCKS = 2000
LEAST_FLOOR_BINS = 30
LEAST_RATIO = 1.25
"""A burst is at least this many times the baseline, or there is none."""
RECOVERY_SHARE = 0.3
"""A rise after the drop by more than this share of it: the floor is no floor."""
_LEAST_BASELINE_BINS = 5
_LEAST_HALF = 0.001


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half the interval as a share of the value; infinite for a value of 0."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else math.inf


@dataclass(frozen=True)
class BucketFit:
    """The bucket behind a series that dropped from a burst to a baseline.

    dropped_ns: when, on the series' clock. best_second_bytes_per_s: peak. plateau_bytes_per_s: the rate of most of
    the burst, which peaks do not move. burst_bytes_per_s: its mean. baseline_bytes_per_s: after the drop, and the
    refill rate. size_bytes: moved above the baseline until the drop; these bytes were counted, so its interval
    holds what is unsure about the baseline, not the noise of the burst. burst_bytes: all bytes moved until the
    drop. floor_bins: bins that the baseline rests on. floor_cv: standard deviation of the baseline's bins of at
    least 50 completions, as a share of it.
    recovers: the rate rose again later, under load, which no bucket's does.
    """

    dropped_ns: int
    best_second_bytes_per_s: float
    plateau_bytes_per_s: float
    burst_bytes_per_s: Estimate
    baseline_bytes_per_s: Estimate
    size_bytes: Estimate
    burst_bytes: int
    floor_bins: int
    floor_cv: float
    recovers: bool
    changes: Changes

    @property
    def precision(self) -> float:
        """The wider of both relative half-widths, baseline's and size's: a plan measures until this is small.

        Infinite before the floor has 30 bins: an interval from fewer is not to be trusted.
        """
        if self.floor_bins < LEAST_FLOOR_BINS:
            return math.inf
        return max(self.baseline_bytes_per_s.relative_half_width, self.size_bytes.relative_half_width)


def fit_bucket(series: RateSeries, changes: Changes | None = None, *, seed: int = 0) -> BucketFit | None:
    """Burst, baseline and size of a series, or None when it does not drop to a lower rate.

    series: from a full bucket, under constant demand. changes: saves searching again. seed: of the bootstrap.
    Raises UsageError for an empty series.
    Source: the module's first lines; intervals by the circular block bootstrap (Politis & Romano 1992), blocks as
    long as first-order autocorrelation asks (Carlstein 1986).
    """
    found = changes or find_changes(series)
    if not found.points:
        return None
    drop = _drop_bin(series, found)
    if drop is None:
        return None
    # Bin `drop` may hold both: the last of the credit and the first of the baseline. It counts with the
    # credit, where a bin of mere baseline adds nothing, and is kept out of the baseline's mean.
    burst, floor = series.part(0, drop + 1), series.part(drop + 1, len(series))
    rng = np.random.default_rng(seed)
    base_value, base_all = _bootstrap(floor.rates_bytes_per_s, rng)
    burst_value, burst_all = _bootstrap(series.part(0, drop).rates_bytes_per_s, rng)
    credit, seconds = _credit_bytes(burst, base_value)
    # The end is found in noise: a stretch of like bins more or less on either side.
    noise = noise_of(floor.moved_bytes - floor.moved_bytes.mean())
    jitter = noise.sd_bytes_per_s * math.sqrt(2 * (1 + noise.rho) / (1 - noise.rho))
    sizes = credit - (base_all - base_value) * seconds + jitter * rng.standard_normal(len(base_all))
    return BucketFit(
        series.start_ns + drop * series.bin_ns,
        burst.best_bytes_per_s(),
        _plateau(found, series.start_ns + drop * series.bin_ns),
        _estimate(burst_value, burst_all),
        _estimate(base_value, base_all),
        _estimate(credit, sizes),
        burst.total_bytes,
        len(floor),
        _floor_cv(floor, found.bin_ns),
        _recovers(found, series.start_ns + drop * series.bin_ns),
        found,
    )


def _drop_bin(series: RateSeries, changes: Changes) -> int | None:
    """The first bin of the floor (or the one in which the credit ends); None when the rate did not drop.

    The two-level fit over the change points says which of them is the drop; then the bin is where the sum of
    the differences to the middle rate is largest.
    """
    rates = series.rates_bytes_per_s
    total = np.concatenate((np.zeros(1), np.cumsum(rates)))
    count = len(rates)
    edges = [(point.at_ns - series.start_ns) // series.bin_ns for point in changes.points]
    edges = [edge for edge in edges if 0 < edge <= count - _LEAST_BASELINE_BINS]
    gains = {}
    for edge in edges:
        before, after = total[edge] / edge, (total[-1] - total[edge]) / (count - edge)
        if before > LEAST_RATIO * after:
            gains[edge] = edge * (count - edge) * (before - after) ** 2
    if not gains:
        return None
    edge = max(gains, key=lambda at: gains[at])
    before, after = total[edge] / edge, (total[-1] - total[edge]) / (count - edge)
    middle = (before + after) / 2
    above = total - middle * np.arange(count + 1)
    # Not past the next change: what comes later (a recovery, say) is not this burst.
    later = [at for at in edges if at > edge]
    last = later[0] if later else count - _LEAST_BASELINE_BINS
    return max(1, int(np.argmax(above[: last + 1])))


def _plateau(changes: Changes, dropped_ns: int) -> float:
    """The median of the segments' means before the drop, by their duration."""
    parts = [(s.mean_bytes_per_s, min(s.end_ns, dropped_ns) - s.start_ns) for s in changes.segments]
    parts = sorted((mean, length) for mean, length in parts if length > 0)
    half = sum(length for _, length in parts) / 2
    for mean, length in parts:
        half -= length
        if half <= 0:
            return mean
    return changes.segments[0].mean_bytes_per_s


def _credit_bytes(burst: RateSeries, baseline_bytes_per_s: float) -> tuple[float, float]:
    """(bytes above the baseline until the end, seconds they took), from where the bucket was last full.

    A slow start earns credit that a full bucket cannot hold: the largest sum over all starts is what was spent.
    """
    excess = burst.moved_bytes - baseline_bytes_per_s * burst.bin_ns / NS_PER_S
    from_here = np.cumsum(excess[::-1])[::-1]
    first = int(np.argmax(from_here))
    return float(from_here[first]), (len(burst) - first) * burst.bin_ns / NS_PER_S


def _bootstrap(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, NDArray[np.float64]]:
    """(mean, (RESAMPLES,) means of resampled blocks). Widened for the few blocks that a short stretch holds."""
    count = len(values)
    mean = float(values.mean())
    rho = noise_of(values - mean).rho
    # Removing the mean hides correlation in short stretches: the usual correction of its bias.
    rho = min(max((rho * count + 1) / max(count - 3, 1), 0.0) if rho > 0 else 0.0, 0.95)
    length = math.ceil((2 * rho / (1 - rho * rho)) ** (2 / 3) * count ** (1 / 3)) if rho else 1
    # Longer blocks cost nothing but room: hours of bins would ask for gigabytes of resamples.
    length = min(max(length, 1, count // MOST_BLOCKS), max(1, count // 4))
    blocks = math.ceil(count / length)
    around = np.concatenate((np.zeros(1), np.cumsum(np.concatenate((values, values[:length])))))
    sums = around[length:] - around[:-length]
    starts = rng.integers(0, count, (RESAMPLES, blocks))
    means = sums[starts].sum(axis=1) / (blocks * length)
    widen = math.sqrt(blocks / max(blocks - 1, 1))
    return mean, mean + (means - means.mean()) * widen


def _estimate(value: float, resampled: NDArray[np.float64]) -> Estimate:
    """Normal interval from the resamples' standard deviation: 400 of them give it better than far quantiles.

    Never narrower than 0.1 %: bins and ticks are not finer.
    """
    half = max(1.96 * float(resampled.std(ddof=1)), _LEAST_HALF * abs(value))
    return Estimate(value, value - half, value + half)


def _floor_cv(floor: RateSeries, bin_ns: int) -> float:
    """Relative standard deviation of the floor's bins, merged to those of the search: fifty completions each."""
    work = floor.merged(max(1, bin_ns // floor.bin_ns))
    rates = work.rates_bytes_per_s
    mean = float(rates.mean()) if len(rates) else 0.0
    return float(rates.std(ddof=1)) / mean if len(rates) > 1 and mean > 0 else 0.0


def _recovers(changes: Changes, dropped_ns: int) -> bool:
    """Whether a later segment rose by more than 30 % of the drop above the lowest one after it."""
    before = [s.mean_bytes_per_s for s in changes.segments if s.start_ns < dropped_ns]
    after = [s.mean_bytes_per_s for s in changes.segments if s.start_ns >= dropped_ns - changes.bin_ns]
    if not before or len(after) < 2:
        return False
    lowest = after[0]
    for mean in after:
        lowest = min(lowest, mean)
        if mean - lowest > RECOVERY_SHARE * (max(before) - lowest):
            return True
    return False
