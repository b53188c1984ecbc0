"""Where the rate of a run changed: segments of constant mean, with their uncertainty.

Method: least-squares segmentation (kernel change-point detection with the linear kernel: Harchaoui & Cappé
2007; Arlot, Celisse & Harchaoui 2019), solved exactly by optimal partitioning (Jackson et al. 2005).
Neighbouring bins of a throughput series are alike, and the textbook penalty for independent noise then finds
changes that are not there. So the penalty is 3 ln(n) times the long-run variance sigma^2 (1 + rho) / (1 -
rho) of first-order autoregressive noise, estimated on residuals to a running median and again on residuals to
the segments found, until these stay. At rho >= 0.85 bins as long as the shortest segment are searched
instead. Each change must then pass a test on the noise beside it and be at least 10 % of the larger rate; its
place is found again by least squares on the innovations y[t] - rho y[t-1], which see a step in one bin where
the noise itself wanders for many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from naslab._engine import segment_edges
from naslab.analysis.distributions import running_medians, t_quantile
from naslab.analysis.series import NS_PER_S, RateSeries, completions_factor
from naslab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    _Variances = Callable[[Sequence[NDArray[np.float64]]], NDArray[np.float64]]

EFFECT_MIN = 0.10
"""Smallest change reported, as a share of the larger of both rates."""
MIN_SEGMENT_NS = 10 * NS_PER_S
SHARE_OF_RUN = 30
"""Runs below 30 * 10 s are short: their shortest segment is a thirtieth of the run."""
LEAST_SEGMENT_BINS = 5
BINS_IN_SEGMENT = 10
"""Bins in the shortest segment: finer series are merged, so that noise is judged on one scale."""
MAX_BINS = 4000
AGGREGATE_RHO = 0.85
_PENALTY = 3.0
_CLIP_SD = 2.5
_MAX_RHO = 0.97
_LEAST_CV = 1e-3
"""Noise is never taken as less than this share of the mean: a simulated run has none at all."""
_MEDIAN_SEGMENTS = 6
_REGIME_EFFECT = 0.5
_ROUNDS = 4
_PRIOR_BINS = 20
"""A segment's own variance counts against the run's usual one as that of so many bins."""
_PLACE_LIMIT = 7.35
"""95 % point of the likelihood ratio of a threshold's place (Hansen 2000, table 1)."""


@dataclass(frozen=True)
class Noise:
    """sd_bytes_per_s: standard deviation of one bin. rho: correlation of neighbouring bins, 0 to 0.97."""

    sd_bytes_per_s: float
    rho: float

    @property
    def long_run_variance(self) -> float:
        """n times the variance of the mean of many bins, (bytes/s)^2: sigma^2 (1 + rho) / (1 - rho)."""
        return self.sd_bytes_per_s**2 * (1 + self.rho) / (1 - self.rho)


@dataclass(frozen=True)
class Segment:
    """A stretch of one mean rate. ci95_bytes_per_s: by batch means; bins: how many it rests on."""

    start_ns: int
    end_ns: int
    mean_bytes_per_s: float
    ci95_bytes_per_s: tuple[float, float]
    bins: int


@dataclass(frozen=True)
class ChangePoint:
    """at_ns: the edge between two bins; earliest_ns .. latest_ns holds it with 95 %.

    effect: rate after / rate before - 1 (-0.3 is a drop by 30 %), with its 95 % interval.
    """

    at_ns: int
    earliest_ns: int
    latest_ns: int
    before_bytes_per_s: float
    after_bytes_per_s: float
    effect: float
    effect_ci95: tuple[float, float]


@dataclass(frozen=True)
class Changes:
    """All segments in order (at least one) and the changes between them.

    bin_ns: bins the search used. min_segment_ns: shortest segment it looked for. aggregated: whether strong
    autocorrelation made it look at longer bins first. noise: of one bin of bin_ns.
    """

    segments: tuple[Segment, ...]
    points: tuple[ChangePoint, ...]
    noise: Noise
    bin_ns: int
    min_segment_ns: int
    aggregated: bool


def shortest_segment_ns(duration_ns: int) -> int:
    """10 s, and a thirtieth of a run shorter than 300 s."""
    return max(1, min(MIN_SEGMENT_NS, duration_ns // SHARE_OF_RUN))


def find_changes(series: RateSeries, *, min_segment_ns: int | None = None, effect_min: float = EFFECT_MIN) -> Changes:
    """Segments and changes of a series; its bins are merged to at least 50 completions first.

    min_segment_ns: shortest segment looked for, never below 5 bins (default `shortest_segment_ns`). With fewer
    than 10 bins there is one segment. Edges move to their best place in the end, so a segment may be down to half
    of it, the first one shorter still. Raises UsageError for an empty series or an effect_min outside 0..1.
    Source: the module's first lines.
    """
    if not len(series):
        raise UsageError("a series without bins has no rate; measure for at least one interval")
    if not 0 <= effect_min < 1:
        raise UsageError(f"effect_min is a share from 0 to below 1, not {effect_min}")
    wanted_ns = shortest_segment_ns(series.duration_ns) if min_segment_ns is None else min_segment_ns
    work = search_bins(series, wanted_ns)
    least = max(LEAST_SEGMENT_BINS, math.ceil(wanted_ns / work.bin_ns))
    rates = work.rates_bytes_per_s
    edges, noise, aggregated = _search_by_regime(rates, least, effect_min)
    edges = _without_slivers(rates, _replace_edges(rates, edges, least), least)
    edges = _prune_locally(rates, edges, effect_min)
    edges = _without_slivers(rates, _replace_edges(rates, edges, least), least)
    noise = _noise_in_segments(rates, edges)
    return _changes(work, edges, noise, least, aggregated)


def search_bins(series: RateSeries, min_segment_ns: int) -> RateSeries:
    """The series with bins as long as the search wants them: 50 completions, 10 a segment, at most 4000."""
    by_scale = min_segment_ns // (BINS_IN_SEGMENT * series.bin_ns)
    by_length = -(-len(series) // MAX_BINS)
    return series.merged(max(1, completions_factor(series, window_ns=min_segment_ns), by_scale, by_length))


def noise_of(residuals: NDArray[np.float64], least_sd: float = 0.0) -> Noise:
    """First-order autoregressive noise of residuals, safe against a few bins that belong to something else.

    residuals: (n,) bytes/s. Beyond 2.5 standard deviations, these from the median absolute deviation, they are
    clipped, and left out of the correlation: short peaks neither widen the noise nor pass for correlation.
    """
    if not len(residuals):
        return Noise(least_sd, 0.0)
    scale = 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))
    limit = _CLIP_SD * (scale or float(np.std(residuals)))
    inside = np.abs(residuals) <= limit
    kept = np.where(inside, residuals, 0.0)
    neighbours = inside[1:] & inside[:-1]
    power = float(np.square(kept[1:][neighbours]).sum() + np.square(kept[:-1][neighbours]).sum()) / 2
    variance = float(np.mean(np.square(np.clip(residuals, -limit, limit))))
    if power <= 0 or variance <= 0:
        return Noise(max(math.sqrt(variance), least_sd), 0.0)
    rho = float(np.dot(kept[1:], kept[:-1])) / power
    return Noise(max(math.sqrt(variance), least_sd), min(max(rho, 0.0), _MAX_RHO))


def batch_mean_ci(values: NDArray[np.float64], noise: Noise, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of the mean of one stretch by batch means (Law & Kelton): Student's t over the batches.

    5 to 20 batches, each long against the correlation of the noise; where the stretch is too short for five,
    the long-run variance of `noise` gives the width instead.
    """
    mean = float(np.mean(values))
    batch = max(1, math.ceil(2 * (1 + noise.rho) / (1 - noise.rho)))
    batches = min(20, len(values) // batch)
    if batches < 5:
        half = t_quantile((1 + confidence) / 2, max(len(values) - 1, 4)) * math.sqrt(
            noise.long_run_variance / len(values)
        )
        return mean - half, mean + half
    means = _batches(values, batches)
    spread = float(np.std(means, ddof=1)) / math.sqrt(batches)
    half = t_quantile((1 + confidence) / 2, batches - 1) * spread
    return mean - half, mean + half


def _batches(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Means of `count` batches of equal length; the first few values are left out where they do not divide."""
    length = len(values) // count
    means: NDArray[np.float64] = values[len(values) - count * length :].reshape(count, length).mean(axis=1)
    return means


def _search_by_regime(rates: NDArray[np.float64], least: int, effect_min: float) -> tuple[list[int], Noise, bool]:
    """As `_search`, but stretches whose rates differ by a factor of two are searched again, each for itself.

    Noise is a share of the rate: with one noise for all, a loud burst beside a quiet floor falls into pieces.
    """
    edges, noise, aggregated = _search(rates, least, effect_min)
    great = _prune(rates, edges, max(_REGIME_EFFECT, effect_min), noise.long_run_variance)
    if not great:
        return edges, noise, aggregated
    found: list[int] = []
    for first, end in pairwise([0, *great, len(rates)]):
        inner, _, inner_aggregated = _search(rates[first:end], least, effect_min)
        aggregated |= inner_aggregated
        found += [first, *(first + edge for edge in inner)]
    return found[1:], _noise_in_segments(rates, found[1:]), aggregated


def _search(rates: NDArray[np.float64], least: int, effect_min: float) -> tuple[list[int], Noise, bool]:
    """Segmentation and noise in turns until the segmentation stays: edges between segments, noise, aggregated."""
    noise = _noise_around_median(rates, least)
    edges: list[int] | None = None
    aggregated = False
    for _ in range(_ROUNDS):
        aggregated = noise.rho >= AGGREGATE_RHO
        factor = least if aggregated and len(rates) >= 4 * least else 1
        whole = len(rates) // factor * factor
        coarse = rates[:whole].reshape(-1, factor).mean(axis=1)
        variance = noise.long_run_variance / factor
        # One aggregated bin is a whole shortest segment; two at least, or a single wild one would do.
        shortest = least if factor == 1 else 2
        found = [edge * factor for edge in _segment(coarse, shortest, variance)]
        found = _prune(rates, found, effect_min, noise.long_run_variance)
        if found == edges:
            break
        edges = found
        noise = _noise_in_segments(rates, edges)
    return edges or [], noise, aggregated


def _segment(values: NDArray[np.float64], shortest: int, variance: float) -> list[int]:
    """Edges of the least-squares segmentation with penalty 3 ln(n) * variance for each change."""
    return segment_edges(values.tobytes(), shortest, _PENALTY * math.log(len(values)) * variance)


def _noise_around_median(rates: NDArray[np.float64], least: int) -> Noise:
    window = max(3, min(_MEDIAN_SEGMENTS * least, len(rates) // 2)) | 1
    return noise_of(rates - running_medians(rates, window), _least_sd(rates))


def _noise_in_segments(rates: NDArray[np.float64], edges: Sequence[int]) -> Noise:
    # About medians: one bin that is half of each rate must not lift a whole noise-free segment off its middle.
    parts = [part - np.median(part) for part in np.split(rates, edges)]
    return noise_of(np.concatenate(parts), _least_sd(rates))


def _least_sd(rates: NDArray[np.float64]) -> float:
    return max(_LEAST_CV * float(np.mean(rates)), 1.0)


def _limit(bins: int) -> float:
    """Standard errors that a change must exceed: the penalty as a limit on one difference of means."""
    return math.sqrt(_PENALTY * math.log(max(bins, 2)))


def _prune(rates: NDArray[np.float64], edges: Sequence[int], effect_min: float, variance: float) -> list[int]:
    """Takes out the weakest change until all are at least effect_min and beyond the noise."""

    def variances(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.array([variance / len(part) for part in parts])

    return _take_out(rates, edges, effect_min, variances)


def _prune_locally(rates: NDArray[np.float64], edges: Sequence[int], effect_min: float) -> list[int]:
    """The same with each segment's own noise: a loud burst must not be judged by a quiet floor's."""
    residuals = [part - np.median(part) for part in np.split(rates, edges)]
    rho = noise_of(np.concatenate([part / max(float(part.std()), 1.0) for part in residuals])).rho

    def variances(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        sizes = np.array([len(part) for part in parts])
        means = np.array([part.mean() for part in parts])
        squares = np.array([np.square(part - part.mean()).sum() for part in parts])
        usual = squares.sum() / max(float((means**2 * sizes).sum()), 1.0)
        own = (squares + _PRIOR_BINS * usual * means**2) / (sizes + _PRIOR_BINS - 1)
        return np.asarray(own * (1 + rho) / (1 - rho) / sizes, dtype=np.float64)

    return _take_out(rates, edges, effect_min, variances)


def _take_out(rates: NDArray[np.float64], edges: Sequence[int], effect_min: float, variances: _Variances) -> list[int]:
    kept = list(edges)
    while kept:
        parts = np.split(rates, kept)
        means = np.array([part.mean() for part in parts])
        steps = np.abs(np.diff(means))
        errors = variances(parts)
        effects = steps / np.maximum(np.maximum(means[1:], means[:-1]), 1.0)
        scores = steps / np.sqrt(errors[1:] + errors[:-1] + 1e-12) / _limit(len(rates))
        if effect_min > 0:
            scores = np.minimum(scores, effects / effect_min)
        weakest = int(np.argmin(scores))
        if scores[weakest] >= 1:
            break
        del kept[weakest]
    return kept


def _place(rates: NDArray[np.float64], left: int, edge: int, right: int, reach: int) -> tuple[int, int, int]:
    """Best place of the change in left..right, and the first and last place that fit nearly as well.

    Gaussian likelihood of innovations, each side with its own mean and noise. A squared innovation counts as
    30 variances at most: one stalled bin must not draw the change to it.
    """
    low, high = max(left + 1, edge - reach), min(right - 1, edge + reach)
    if low >= high:
        return edge, edge, edge
    # About medians, as in _noise_in_segments: a bin that holds both rates must not draw its side's middle to it.
    middles = [float(np.median(part)) for part in (rates[left:edge], rates[edge:right])]
    sides = [rates[left:edge] - middles[0], rates[edge:right] - middles[1]]
    least = [max(_LEAST_CV * middle, 1.0) for middle in middles]
    sd = [noise_of(side, floor).sd_bytes_per_s for side, floor in zip(sides, least, strict=True)]
    # A few bins say nothing about correlation.
    enough = min(edge - left, right - edge) >= BINS_IN_SEGMENT
    rho = noise_of(np.concatenate((sides[0] / sd[0], sides[1] / sd[1]))).rho if enough else 0.0
    y = rates[low - 1 : high + 1]
    as_before, as_after = (y - middles[0]) / sd[0], (y - middles[1]) / sd[1]
    spread = 1 - rho * rho
    stay_before = _capped(as_before[1:] - rho * as_before[:-1], spread) + 2 * math.log(sd[0])
    stay_after = _capped(as_after[1:] - rho * as_after[:-1], spread) + 2 * math.log(sd[1])
    crossing = _capped(as_after[1:] - rho * as_before[:-1], spread) + 2 * math.log(sd[1])
    until = np.concatenate((np.zeros(1), np.cumsum(stay_before)))
    onward = np.concatenate((np.zeros(1), np.cumsum(stay_after)))
    # cost[j]: bins before low + j belong to the left, bin low + j is the first of the right.
    cost = until[:-1] + crossing + (onward[-1] - onward[1:])
    good = np.flatnonzero(cost <= cost.min() + _PLACE_LIMIT)
    return low + int(np.argmin(cost)), low + int(good[0]), low + int(good[-1])


def _capped(innovations: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    return np.minimum(np.square(innovations) / variance, 30.0)


def _replace_edges(rates: NDArray[np.float64], edges: Sequence[int], least: int) -> list[int]:
    """Each edge at its best place between its neighbours; twice, for the means move with the edges."""
    placed = list(edges)
    for _ in range(2):
        for at, edge in enumerate(placed):
            left = placed[at - 1] if at else 0
            right = placed[at + 1] if at + 1 < len(placed) else len(rates)
            placed[at] = _place(rates, left, edge, right, 6 * least)[0]
    return placed


def _without_slivers(rates: NDArray[np.float64], edges: Sequence[int], least: int) -> list[int]:
    """Joins a segment shorter than half the shortest to the neighbour it is nearer to.

    One bin that holds both sides of a step is none of its own. The first segment may be short: a burst of a second
    in a long run is what is looked for.
    """
    kept = list(edges)
    while True:
        short = [at for at in range(1, len(kept)) if 2 * (kept[at] - kept[at - 1]) < least]
        if not short:
            return kept
        at = short[0]
        means = [float(part.mean()) for part in np.split(rates, kept)[at - 1 : at + 2]]
        nearer_left = abs(means[1] - means[0]) <= abs(means[2] - means[1])
        del kept[at - 1 if nearer_left else at]


def _changes(work: RateSeries, edges: Sequence[int], noise: Noise, least: int, aggregated: bool) -> Changes:
    rates, bin_ns = work.rates_bytes_per_s, work.bin_ns
    bounds = [0, *edges, len(work)]

    def at_ns(edge: int) -> int:
        return work.start_ns + edge * bin_ns

    segments = []
    for first, end in pairwise(bounds):
        part = rates[first:end]
        ci = batch_mean_ci(part, noise)
        segments.append(Segment(at_ns(first), at_ns(end), float(part.mean()), ci, end - first))
    points = []
    for at, edge in enumerate(edges):
        _, first, last = _place(rates, bounds[at], edge, bounds[at + 2], 6 * least)
        place = (at_ns(edge), at_ns(min(first, edge)), at_ns(max(last, edge)))
        points.append(_point(place, segments[at], segments[at + 1]))
    return Changes(tuple(segments), tuple(points), noise, bin_ns, least * bin_ns, aggregated)


def _point(place: tuple[int, int, int], before: Segment, after: Segment) -> ChangePoint:
    """The change between two segments; the interval of the ratio by the delta method."""
    base = max(before.mean_bytes_per_s, 1.0)
    ratio = after.mean_bytes_per_s / base
    half_before = (before.ci95_bytes_per_s[1] - before.mean_bytes_per_s) / base
    half_after = (after.ci95_bytes_per_s[1] - after.mean_bytes_per_s) / base
    half = math.hypot(half_after, ratio * half_before)
    return ChangePoint(
        *place, before.mean_bytes_per_s, after.mean_bytes_per_s, ratio - 1, (ratio - 1 - half, ratio - 1 + half)
    )
