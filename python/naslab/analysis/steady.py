"""Is a run steady? The slope's equivalence to zero, SNIA's rule beside it, and where the warm-up ends.

Verdict: no change point in the window, and the two one-sided tests on the slope (TOST: Schuirmann 1987; the
90 % interval lies inside the margin). "Not significantly sloped" would not do: a short noisy run always is.
SNIA's five-round rule (Solid State Storage Performance Test Specification 2.0.2) is shown for readers who
expect it; it rejects a steady noisy server and passes one that loses 2 % a round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from naslab.analysis.changepoints import Changes, Segment, find_changes
from naslab.analysis.distributions import t_quantile
from naslab.analysis.series import LEAST_COMPLETIONS, NS_PER_S, RateSeries
from naslab.errors import UsageError
from naslab.units import percent_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Word = Literal["steady", "drifting", "warm-up", "slowdown", "too short"]
MARGIN = 0.05
"""Drift over the window that counts as none, as a share of the mean."""
LEAST_BATCHES = 10
MOST_BATCHES = 30
SNIA_ROUNDS = 5
SNIA_RANGE = 0.20
SNIA_EXCURSION = 0.10
RAM_FACTOR = 2
"""A window must move this many times the server's memory, when it is known, before it speaks for the disks."""
_MSER_BATCH = 5


@dataclass(frozen=True)
class SniaVerdict:
    """range_share: (largest - smallest round) / mean. excursion_share: rise of the best line over the window / mean."""

    range_share: float
    excursion_share: float
    steady: bool


@dataclass(frozen=True)
class Slope:
    """drift: rise of the fitted line over the whole window / mean (-0.1: 10 % lower at the end), its 90 % interval."""

    drift: float
    drift_ci90: tuple[float, float]
    batches: int


@dataclass(frozen=True)
class SteadyVerdict:
    """What kind of run this was, and the evidence.

    word: of the whole run. `steady`: flat from the first change-free bin on; `warm-up` and `slowdown`: it
    became steady, above or below where it began; `drifting`: the window has a slope beyond the margin;
    `too short`: nothing can be said yet, `reason` says why. window_ns: (start, end) of the stretch after the
    last change, less its warm-up; is_steady: that stretch passes. mean_bytes_per_s: over it.
    warmup_ns: cut by MSER-5 at the head of that stretch, with a start shorter than the shortest segment.
    needed_ns: how long the window should be to tell, None when it is long enough. slope, snia: None when the
    window is too short for them.
    """

    word: Word
    is_steady: bool
    reason: str
    window_ns: tuple[int, int]
    mean_bytes_per_s: float
    warmup_ns: int
    needed_ns: int | None
    slope: Slope | None
    snia: SniaVerdict | None


def mser5(values: NDArray[np.float64]) -> int:
    """How many values at the head to leave out as warm-up: a multiple of 5, at most half of them.

    values: (n,), in order. The cut that makes the standard error of the rest's mean smallest, on means of
    five values. Source: MSER-5 (White 1997; White, Cobb & Spratt 2000).
    """
    batches = len(values) // _MSER_BATCH
    if batches < 4:
        return 0
    means = values[: batches * _MSER_BATCH].reshape(batches, _MSER_BATCH).mean(axis=1)
    means = means - means.mean()
    left = np.arange(batches, 0, -1)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(np.square(means)[::-1])[::-1]
    error = (squares - sums**2 / left) / left**2
    return int(np.argmin(error[: batches // 2 + 1])) * _MSER_BATCH


def snia_rule(rounds: Sequence[float] | NDArray[np.float64]) -> SniaVerdict:
    """SNIA's rule on five rounds: range at most 20 % of their mean, the best line's rise at most 10 %.

    Raises UsageError for another number of rounds, or a mean of 0.
    Source: SNIA SSS PTS 2.0.2, steady state: Max(y) - Min(y) <= 20 % of Ave(y) and
    Max(x * slope) - Min(x * slope) <= 10 % of Ave(y) over the measurement window.
    """
    values = np.asarray(rounds, dtype=np.float64)
    if values.shape != (SNIA_ROUNDS,):
        raise UsageError(f"SNIA's rule looks at {SNIA_ROUNDS} rounds, not {values.size}")
    mean = float(values.mean())
    if mean <= 0:
        raise UsageError("SNIA's rule needs rounds in which something was moved")
    spread = float(values.max() - values.min()) / mean
    excursion = abs(_fitted_slope(values)) * (SNIA_ROUNDS - 1) / mean
    return SniaVerdict(spread, excursion, spread <= SNIA_RANGE and excursion <= SNIA_EXCURSION)


def slope_of(values: NDArray[np.float64], rho: float = 0.0) -> Slope:
    """Drift over a window and its 90 % interval, from 10 to 30 means of equal batches.

    values: (n,) rates in order, n >= 10. rho: correlation of neighbouring values; fewer, longer batches are
    taken where it is high, so that batches are nearly independent. Raises UsageError below 10 values.
    Source: batch means (Law & Kelton), ordinary least squares with Student's t at n - 2.
    """
    if len(values) < LEAST_BATCHES:
        raise UsageError(f"a slope needs at least {LEAST_BATCHES} values, not {len(values)}")
    independent = int(len(values) * (1 - rho) / (2 * (1 + rho)))
    batches = min(max(independent, LEAST_BATCHES), MOST_BATCHES, len(values))
    length = len(values) // batches
    means = values[len(values) - batches * length :].reshape(batches, length).mean(axis=1)
    mean = max(float(means.mean()), 1e-9)
    slope = _fitted_slope(means)
    at = np.arange(batches) - (batches - 1) / 2
    residuals = means - means.mean() - slope * at
    error = math.sqrt(float(np.square(residuals).sum()) / (batches - 2) / float(np.square(at).sum()))
    half = t_quantile(0.95, batches - 2) * error * batches / mean
    drift = slope * batches / mean
    return Slope(drift, (drift - half, drift + half), batches)


def _fitted_slope(values: NDArray[np.float64]) -> float:
    at = np.arange(len(values)) - (len(values) - 1) / 2
    return float(np.dot(at, values) / np.dot(at, at))


def judge(
    series: RateSeries, changes: Changes | None = None, *, margin: float = MARGIN, server_ram_bytes: int | None = None
) -> SteadyVerdict:
    """The verdict over a run; `changes` saves searching for change points twice.

    margin: drift over the window that counts as none. server_ram_bytes: the window must move twice as much.
    Raises UsageError for an empty series or a margin not above 0.
    Source: words after Barrett et al. 2017 (Virtual machine warmup blows hot and cold); slope by TOST.
    """
    if margin <= 0:
        raise UsageError(f"the margin is a share above 0, not {margin}")
    found = changes or find_changes(series)
    # The bins of the search: long enough that a bin is a rate and not a count of a few operations.
    work = series.merged(max(1, found.bin_ns // series.bin_ns))
    first = (found.segments[-1].start_ns - series.start_ns) // work.bin_ns
    tail = work.part(first, len(work))
    # A mean of a few operations says nothing of a warm-up: those in flight often end together.
    counted = completions(tail) >= LEAST_COMPLETIONS
    cut = mser5(tail.rates_bytes_per_s) if counted else 0
    window = tail.part(cut, len(tail))
    regimes = _regimes(found)
    head_ns = tail.start_ns - series.start_ns if len(regimes) == 1 else 0
    mean, warmup_ns = window.mean_bytes_per_s(), head_ns + cut * work.bin_ns
    window_ns = (window.start_ns, window.start_ns + window.duration_ns)

    def verdict(
        word: Word, is_steady: bool, reason: str, needed_ns: int | None = None, slope: Slope | None = None
    ) -> SteadyVerdict:
        snia = _snia_of(window)
        return SteadyVerdict(word, is_steady, reason, window_ns, mean, warmup_ns, needed_ns, slope, snia)

    if len(window) < 2 * LEAST_BATCHES or mean <= 0:
        needed = 2 * LEAST_BATCHES * work.bin_ns
        reason = f"{len(window)} intervals since the last change; at least {2 * LEAST_BATCHES} are needed"
        return verdict("too short", False, reason, needed)
    slope = slope_of(window.rates_bytes_per_s, found.noise.rho)
    low, high = slope.drift_ci90
    low_text, high_text = (percent_text(end, 1, signed=True) for end in slope.drift_ci90)
    change = f"{percent_text(slope.drift, 1, signed=True)} in {window.duration_ns / NS_PER_S:.0f} s"
    drift, most = f"change of {change} (90 % interval {low_text} to {high_text})", percent_text(margin)
    if low > margin or high < -margin:
        return verdict("drifting", False, f"{drift}, more than {most}", slope=slope)
    if low < -margin or high > margin:
        needed = _needed_ns(window.duration_ns, slope, margin)
        return verdict("too short", False, f"{drift}, which may be more than {most}", needed, slope)
    missing = RAM_FACTOR * (server_ram_bytes or 0) - window.total_bytes
    if missing > 0:
        needed = window.duration_ns + math.ceil(missing / mean * NS_PER_S)
        reason = f"{drift}, but fewer bytes were moved than {RAM_FACTOR} times the server's memory"
        return verdict("too short", False, reason, needed, slope)
    return verdict(_word(regimes, margin), True, f"{drift}, within {most}", slope=slope)


def completions(series: RateSeries) -> float:
    """How many operations one of the means has that `mser5` compares."""
    return float(series.ops.sum()) / max(len(series), 1) * _MSER_BATCH


def _regimes(changes: Changes) -> tuple[Segment, ...]:
    """The segments without a first one too short to be a regime: that is a start, not a state."""
    first = changes.segments[0]
    short = len(changes.segments) > 1 and first.end_ns - first.start_ns < changes.min_segment_ns
    return changes.segments[1:] if short else changes.segments


def _word(regimes: Sequence[Segment], margin: float) -> Word:
    """How a run that became steady got there: compared is the first regime with the last."""
    if len(regimes) == 1:
        return "steady"
    first, last = regimes[0].mean_bytes_per_s, regimes[-1].mean_bytes_per_s
    if abs(last - first) <= margin * max(first, last):
        return "steady"
    return "warm-up" if last > first else "slowdown"


def _needed_ns(duration_ns: int, slope: Slope, margin: float) -> int:
    """A window in which the interval would end before the margin: its width shrinks with the root of the time.

    A drift close to the margin would need for ever; a quarter of the margin is the finest asked for.
    """
    half = (slope.drift_ci90[1] - slope.drift_ci90[0]) / 2
    gap = max(abs(abs(slope.drift) - margin), margin / 4)
    return math.ceil(duration_ns * max(1.2, (half / gap) ** 2))


def _snia_of(window: RateSeries) -> SniaVerdict | None:
    """SNIA's rule with the window cut into five equal rounds."""
    length = len(window) // SNIA_ROUNDS
    if not length:
        return None
    rounds = window.rates_bytes_per_s[len(window) - SNIA_ROUNDS * length :].reshape(SNIA_ROUNDS, length).mean(axis=1)
    return snia_rule(rounds) if float(rounds.mean()) > 0 else None
