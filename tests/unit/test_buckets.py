"""Token buckets: rate and size against simulated servers, a slow oracle, envelopes."""

from __future__ import annotations

import functools
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from naslab.analysis.buckets import BucketFit, fit_bucket
from naslab.analysis.series import RateSeries
from naslab.errors import UsageError
from series_models import MB, NS_PER_S, Capacity, TokenServer, ar1, series_from, token_run


def joined(runs: list[RateSeries]) -> RateSeries:
    return RateSeries(
        np.concatenate([r.moved_bytes for r in runs]), np.concatenate([r.ops for r in runs]), runs[0].bin_ns
    )


@functools.cache
def measured(seed: int, noise: str) -> tuple[BucketFit | None, float, float, float]:
    """A drawn bucket, measured until the fit is precise as a plan would: fit, true size, refill, burst (bytes).

    Ratio 2 to 20, burst of 10 bins to 30 minutes, noise to 10 % on the way, autocorrelated to 0.7; noise `way`:
    the floor is as even as a bucket makes it; `floor`: as noisy as the way; `all`: the burst once more too.
    """
    rng = np.random.default_rng(seed)
    ratio = float(np.exp(rng.uniform(np.log(2), np.log(20))))
    bin_s = float(rng.choice([0.1, 1.0]))
    burst_bins = int(np.exp(rng.uniform(np.log(10), np.log(1800))))
    refill = float(np.exp(rng.uniform(np.log(5), np.log(200))))
    size = (ratio - 1) * refill * burst_bins * bin_s
    cv, rho = float(rng.uniform(0, 0.1)), float(rng.choice([0.0, 0.3, 0.7]))
    server, way = TokenServer(size, refill), Capacity(rng, ratio * refill, cv, rho)
    step = max(60, burst_bins // 2)
    runs = [token_run(server, way, step, bin_s, 0.0 if noise == "way" else cv, noise == "all")]
    fit = None
    while len(runs) < 24:
        runs.append(token_run(server, way, step, bin_s, 0.0 if noise == "way" else cv, noise == "all"))
        fit = fit_bucket(joined(runs))
        if fit is not None and fit.precision <= 0.03:
            break
    return fit, size * MB, refill * MB, ratio * refill * MB


@pytest.mark.parametrize("noise", ["way", "floor", "all"])
def test_rates_and_size_within_five_percent(noise: str) -> None:
    good = burst_good = 0
    for seed in range(100):
        fit, size, refill, burst = measured(seed, noise)
        if fit is not None:
            pairs = ((fit.size_bytes, size), (fit.baseline_bytes_per_s, refill))
            good += all(abs(found.value / true - 1) <= 0.05 for found, true in pairs)
            # A burst of ten bins with noise of 10 % has another mean than its model, whoever measures it.
            burst_good += abs(fit.burst_bytes_per_s.value / burst - 1) <= 0.05
    assert good >= 95
    assert burst_good >= 92


def test_intervals_hold_the_truth() -> None:
    fits = [measured(seed, "floor") for seed in range(100)]
    size = sum(fit is not None and fit.size_bytes.low <= true <= fit.size_bytes.high for fit, true, _, _ in fits)
    rate = sum(
        fit is not None and fit.baseline_bytes_per_s.low <= true <= fit.baseline_bytes_per_s.high
        for fit, _, true, _ in fits
    )
    assert size >= 82
    assert rate >= 86


def fsx_like(seed: int) -> tuple[RateSeries, float]:
    """The article's run and the bytes above 32 MB/s until its drop, in MB, as they were."""
    rates = np.full(900, 287.5)
    for start in (60, 180, 300, 420):
        rates[start : start + 20] = 400
    rates[560:] = 32
    rates *= 1 + ar1(np.random.default_rng(seed), 900, 0.0, 0.08)
    return series_from(rates), float((rates[:560] - 32).sum())


# --- the oracle: the envelope E(w), the most bytes moved in any window w, gives the same numbers in another way


@dataclass(frozen=True)
class EnvelopeFit:
    """Two legs under the envelope: min(burst * w, size + baseline * w). error: root mean square / mean."""

    burst_bytes_per_s: float
    baseline_bytes_per_s: float
    size_bytes: float
    error: float


def envelope(series: RateSeries, bins: NDArray[np.int64] | None = None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(window_ns, bytes): the most bytes moved in any window of each length.

    bins: lengths of windows in bins, 1 .. n; 60 spaced by ratio when None. E(w) = max over t of X(t + w) - X(t),
    X the bytes moved until t. Raises UsageError for an empty series.
    Source: minimal arrival curve (Le Boudec & Thiran 2001, theorem 1.2.2).
    """
    if not len(series):
        raise UsageError("a series without bins has no envelope")
    if bins is None:
        bins = np.unique(np.rint(np.geomspace(1, len(series), 60)).astype(np.int64))
    total = series.cumulative_bytes
    most = np.array([int((total[w:] - total[:-w]).max()) for w in bins], dtype=np.int64)
    return bins * series.bin_ns, most


def fit_envelope(series: RateSeries) -> EnvelopeFit:
    """Two legs under the envelope, by least squares over every place of the knee.

    Windows are evenly spaced: short ones see the noise's best moments. Good only when the bucket was full at the
    start and was emptied in the run; without a knee both legs lie on one line and the size is near 0. Raises
    UsageError below 20 bins.
    """
    if len(series) < 20:
        raise UsageError(f"an envelope of two legs needs at least 20 bins, not {len(series)}")
    bins = np.unique(np.linspace(max(1, len(series) // 100), len(series), 100).astype(np.int64))
    window_ns, moved = envelope(series, bins)
    seconds, most = window_ns / NS_PER_S, moved.astype(np.float64)
    fits = []
    for knee in range(2, len(seconds) - 2):
        steep = float(np.dot(seconds[:knee], most[:knee]) / np.dot(seconds[:knee], seconds[:knee]))
        rate, size = (float(x) for x in np.polyfit(seconds[knee:], most[knee:], 1))
        fitted = np.concatenate((steep * seconds[:knee], size + rate * seconds[knee:]))
        error = float(np.sqrt(np.mean(np.square(fitted - most)))) / max(float(most.mean()), 1.0)
        fits.append(EnvelopeFit(steep, rate, size, error))
    return min(fits, key=lambda fit: fit.error)


@pytest.mark.parametrize("seed", range(5))
def test_the_fsx_like_series(seed: int) -> None:
    series, size = fsx_like(seed)
    fit = fit_bucket(series)
    assert fit is not None
    assert fit.dropped_ns == 560 * NS_PER_S
    assert fit.size_bytes.value / MB == pytest.approx(size, rel=0.01)
    assert fit.baseline_bytes_per_s.value / MB == pytest.approx(32, rel=0.02)
    assert fit.plateau_bytes_per_s / MB == pytest.approx(287.5, rel=0.015)
    assert fit.best_second_bytes_per_s == series.rates_bytes_per_s.max() > 400 * MB
    assert fit.burst_bytes == int(series.moved_bytes[:561].sum())
    two_legs = fit_envelope(series)
    assert two_legs.size_bytes / MB == pytest.approx(size, rel=0.01)
    assert two_legs.baseline_bytes_per_s / MB == pytest.approx(32, rel=0.05)
    assert two_legs.error < 0.02


def slow_envelope(moved: list[int], window: int) -> int:
    """From the definition: every window of this length, added up."""
    return max(sum(moved[at : at + window]) for at in range(len(moved) - window + 1))


def test_the_envelope_is_its_definition() -> None:
    series = series_from(100 * np.random.default_rng(4).random(120))
    window_ns, most = envelope(series)
    assert window_ns[0] == NS_PER_S
    assert window_ns[-1] == 120 * NS_PER_S
    for length_ns, found in zip(window_ns.tolist(), most.tolist(), strict=True):
        assert found == slow_envelope(series.moved_bytes.tolist(), length_ns // NS_PER_S)


def simulated(size: float, refill: float, demand: float, bins: int) -> NDArray[np.float64]:
    """Cumulative MB of a bucket under constant demand, a hundredth of a bin at a time."""
    credit, moved, out = size, 0.0, [0.0]
    for _ in range(bins):
        for _ in range(100):
            credit = min(size, credit + refill / 100)
            now = min(demand / 100, credit)
            credit -= now
            moved += now
        out.append(moved)
    return np.array(out)


def slow_oracle(rates: NDArray[np.float64], burst_bins: int) -> tuple[float, float]:
    """(size, refill) whose simulation lies nearest to the bytes moved: coarse grid, then ever finer ones."""
    truth = np.concatenate((np.zeros(1), np.cumsum(rates)))
    demand = float(rates[:burst_bins].mean())
    size, refill, span = demand * burst_bins / 2, float(rates[-len(rates) // 3 :].mean()), 0.9
    for _ in range(7):
        grid = [
            (float(np.square(simulated(s, r, demand, len(rates)) - truth).sum()), s, r)
            for s in size * np.linspace(1 - span, 1 + span, 7)
            for r in refill * np.linspace(1 - min(span, 0.2), 1 + min(span, 0.2), 5)
        ]
        _, size, refill = min(grid)
        span /= 2
    return size, refill


@pytest.mark.parametrize(("seed", "ratio", "burst_bins"), [(1, 3.0, 15), (2, 8.0, 12), (3, 2.0, 20)])
def test_fit_and_oracle_agree(seed: int, ratio: float, burst_bins: int) -> None:
    rng = np.random.default_rng(seed)
    server = TokenServer((ratio - 1) * 50 * burst_bins, 50)
    series = token_run(server, Capacity(rng, ratio * 50, 0.04, 0.0), 4 * burst_bins, 1.0, 0.03)
    fit = fit_bucket(series)
    size, refill = slow_oracle(series.rates_bytes_per_s / MB, burst_bins - 1)
    assert fit is not None
    assert fit.size_bytes.value / MB == pytest.approx(size, rel=0.05)
    assert fit.baseline_bytes_per_s.value / MB == pytest.approx(refill, rel=0.03)


def test_credit_that_a_full_bucket_cannot_hold_is_not_counted() -> None:
    """A client that is slow to start: its first seconds earn nothing."""
    rates = np.concatenate((np.full(30, 2.0), np.full(100, 200.0), np.full(300, 20.0)))
    fit = fit_bucket(series_from(rates))
    assert fit is not None
    assert fit.size_bytes.value / MB == pytest.approx(180 * 100, rel=0.005)


def test_a_bin_that_is_half_burst_counts_with_the_burst() -> None:
    rates = np.concatenate((np.full(10, 200.0), [110.0], np.full(90, 20.0)))
    fit = fit_bucket(series_from(rates, 100_000_000))
    assert fit is not None
    assert fit.size_bytes.value / MB == pytest.approx((180 * 10 + 90) / 10, rel=0.005)
    for partial in (30.0, 60.0, 180.0):
        rates[10] = partial
        fit = fit_bucket(series_from(rates, 100_000_000))
        assert fit is not None
        assert fit.size_bytes.value / MB == pytest.approx((180 * 10 + partial - 20) / 10, rel=0.005)


def test_no_drop_no_bucket() -> None:
    rng = np.random.default_rng(1)
    assert fit_bucket(series_from(100 * (1 + ar1(rng, 300, 0.3, 0.1)))) is None
    assert fit_bucket(series_from(np.concatenate((np.full(100, 20.0), np.full(200, 100.0))))) is None
    assert fit_bucket(series_from(np.concatenate((np.full(150, 100.0), np.full(150, 85.0))))) is None
    with pytest.raises(UsageError):
        fit_bucket(series_from(np.ones(0)))
    with pytest.raises(UsageError):
        envelope(series_from(np.ones(0)))
    with pytest.raises(UsageError):
        fit_envelope(series_from(np.ones(19)))


def test_a_recovery_is_seen() -> None:
    down = np.concatenate((np.full(100, 200.0), np.full(200, 50.0)))
    steady = fit_bucket(series_from(down))
    assert steady is not None
    assert not steady.recovers
    back = fit_bucket(series_from(np.concatenate((down, np.full(40, 150.0), np.full(60, 50.0)))))
    assert back is not None
    assert back.recovers


def test_intervals_of_a_run_of_hours_take_little_memory() -> None:
    """Twelve hours in bins of 100 ms: resampling each bin would take gigabytes."""
    rng = np.random.default_rng(1)
    noise = 1 + 0.05 * rng.standard_normal(432_000)
    series = series_from(np.where(np.arange(432_000) < 18_000, 200.0, 20.0) * noise, NS_PER_S // 10, 100)
    tracemalloc.start()
    try:
        fit = fit_bucket(series)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert fit is not None and most < 200 * MB
    assert fit.size_bytes.value / MB == pytest.approx(180 * 1800, rel=0.01)
    assert fit.baseline_bytes_per_s.low < 20 * MB < fit.baseline_bytes_per_s.high
    assert fit.baseline_bytes_per_s.relative_half_width < 0.002


def test_the_same_seed_gives_the_same_intervals() -> None:
    series, _ = fsx_like(0)
    assert fit_bucket(series, seed=7) == fit_bucket(series, seed=7)
