"""Series and change points: cutting and merging, false alarms and detection on seeded noise, exact optimum."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from naslab.analysis import changepoints
from naslab.analysis.changepoints import Noise, batch_mean_ci, find_changes, noise_of, shortest_segment_ns
from naslab.analysis.series import RateSeries, completions_factor, series_of
from naslab.errors import UsageError
from series_models import MB, NS_PER_S, ar1, series_from

RHOS = (0.0, 0.3, 0.7, 0.9)


def rows(count: int) -> NDArray[np.int64]:
    """An interval series whose every number tells where it stood."""
    return np.arange(count)[:, None] * 100 + np.arange(7)


def test_series_of_a_kind() -> None:
    read = series_of(rows(4), 100, "read", duration_ns=400)
    assert read.ops.tolist() == [0, 100, 200, 300]
    assert read.moved_bytes.tolist() == [1, 101, 201, 301]
    assert series_of(rows(4), 100, "write", duration_ns=400).moved_bytes.tolist() == [3, 103, 203, 303]
    both = series_of(rows(4), 100, duration_ns=400)
    assert both.moved_bytes.tolist() == [4, 204, 404, 604]
    assert both.ops.tolist() == [2, 202, 402, 602]


@pytest.mark.parametrize(("duration_ns", "bins"), [(400, 4), (399, 3), (301, 3), (None, 3), (0, 0), (9999, 4)])
def test_the_last_partial_bin_goes(duration_ns: int | None, bins: int) -> None:
    assert len(series_of(rows(4), 100, duration_ns=duration_ns)) == bins


def test_rates_parts_and_the_best_second() -> None:
    series = RateSeries(np.array([10, 20, 60, 40, 5]), np.array([1, 2, 6, 4, 1]), 500_000_000, start_ns=7)
    assert series.rates_bytes_per_s.tolist() == [20.0, 40.0, 120.0, 80.0, 10.0]
    assert series.best_bytes_per_s() == 100.0
    assert series.best_bytes_per_s(1) == 120.0
    assert series.best_bytes_per_s(60 * NS_PER_S) == series.mean_bytes_per_s() == 54.0
    part = series.part(1, 3)
    assert (part.start_ns, part.total_bytes, part.duration_ns) == (500_000_007, 80, NS_PER_S)
    assert series.merged(2).moved_bytes.tolist() == [30, 100]
    assert series.merged(2).ops.tolist() == [3, 10]


def test_bins_merge_until_the_slowest_stretch_holds_fifty() -> None:
    ops = np.concatenate((np.full(600, 300), np.full(300, 7)))
    series = RateSeries(ops * 1_048_576, ops, NS_PER_S)
    assert completions_factor(series) == 8
    assert series.merged(8).ops[-30:].min() >= 50
    dense = RateSeries(ops * 8, ops * 8, NS_PER_S)
    assert completions_factor(dense) == 1
    stalled = RateSeries(ops * 0, ops * 0, NS_PER_S)
    assert completions_factor(stalled) == 30
    assert len(stalled.merged(30)) == 30


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: series_of(np.zeros((3, 6), np.int64), 100),
        lambda: series_of(rows(3), 100, "flush"),  # type: ignore[arg-type]
        lambda: series_of(rows(3), 0),
        lambda: RateSeries(np.zeros(3, np.int64), np.zeros(2, np.int64), 1),
        lambda: RateSeries(np.zeros(3, np.int64), np.zeros(3, np.int64), 0),
        lambda: RateSeries(np.array([-1]), np.array([0]), 1),
        lambda: series_from(np.ones(4)).part(2, 5),
        lambda: series_from(np.ones(4)).merged(0),
        lambda: find_changes(series_from(np.ones(0))),
        lambda: find_changes(series_from(np.ones(50)), effect_min=1.0),
    ],
)
def test_refusals(wrong: object) -> None:
    with pytest.raises(UsageError):
        wrong()  # type: ignore[operator]


def rate_of_runs(rho: float, drop: float, cv: float = 0.10, runs: int = 100) -> tuple[int, int]:
    """(runs with any change found, runs with one within 8 s of second 150) of `runs` runs of 300 s."""
    alarms = found = 0
    for seed in range(runs):
        rates = 100 * (1 + ar1(np.random.default_rng(seed), 300, rho, cv))
        rates[150:] *= 1 - drop
        points = find_changes(series_from(rates)).points
        alarms += bool(points)
        found += any(abs(point.at_ns - 150 * NS_PER_S) <= 8 * NS_PER_S for point in points)
    return alarms, found


@pytest.mark.parametrize(("rho", "allowed"), [(0.0, 0), (0.3, 0), (0.7, 2), (0.9, 10)])
def test_false_alarms_on_noise_without_a_change(rho: float, allowed: int) -> None:
    """The textbook penalty has 0, 28, 100, 100 of 100; the long-run penalty alone has 44 at 0.9."""
    assert rate_of_runs(rho, 0.0)[0] <= allowed


@pytest.mark.parametrize("rho", RHOS)
def test_a_drop_by_thirty_percent_is_found_within_eight_seconds(rho: float) -> None:
    assert rate_of_runs(rho, 0.3)[1] >= 99


def fsx_like(seed: int) -> tuple[NDArray[np.float64], list[int]]:
    """The article's test as a series: 287.5 MB/s with peaks of 400, then 32, noise 8 %; and its changes."""
    rates = np.full(900, 287.5)
    edges = []
    for start in (60, 180, 300, 420):
        rates[start : start + 20] = 400
        edges += [start, start + 20]
    rates[560:] = 32
    return rates * (1 + ar1(np.random.default_rng(seed), 900, 0.0, 0.08)), [*edges, 560]


def test_the_fsx_like_series_is_located() -> None:
    """The end of the burst to the second, always. A peak's edge is 4.9 standard deviations of one bin: a bin
    in a hundred lies beyond its middle, and then nobody can tell to which side it belongs."""
    exact = near = 0
    for seed in range(40):
        rates, truth = fsx_like(seed)
        changes = find_changes(series_from(rates))
        places = [point.at_ns // NS_PER_S for point in changes.points]
        assert places[-1] == 560
        assert len(places) == len(truth)
        exact += places == truth
        near += all(abs(found - true) <= 1 for found, true in zip(places, truth, strict=True))
        last = changes.points[-1]
        assert last.earliest_ns <= 560 * NS_PER_S <= last.latest_ns
        assert changes.segments[-1].mean_bytes_per_s == pytest.approx(32 * MB, rel=0.02)
    assert exact >= 20
    assert near >= 36


@pytest.mark.parametrize(("bin_ms", "seconds"), [(100, 300), (100, 30), (100, 10), (10, 3)])
def test_short_and_finely_cut_runs(bin_ms: int, seconds: int) -> None:
    """Everything scales with the run: a tenth of the bins' length, the same answer."""
    bins = seconds * 1000 // bin_ms
    alarms = found = 0
    for seed in range(40):
        rates = 100 * (1 + ar1(np.random.default_rng(seed), bins, 0.3, 0.10))
        alarms += bool(find_changes(series_from(rates, bin_ms * 1_000_000)).points)
        rates[bins // 3 :] *= 0.5
        points = find_changes(series_from(rates, bin_ms * 1_000_000)).points
        found += len(points) == 1 and abs(points[0].at_ns / NS_PER_S - seconds / 3) <= seconds / 30
    assert alarms <= 1
    assert found >= 38


def test_a_loud_burst_is_not_cut_by_a_quiet_floor() -> None:
    """Noise is a share of the rate: a burst of twenty times the floor is loud, and still one segment."""
    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rates = np.concatenate((np.full(100, 2000.0), np.full(900, 100.0))) * (1 + ar1(rng, 1000, 0.6, 0.10))
        points = find_changes(series_from(rates)).points
        wrong += [point.at_ns // NS_PER_S for point in points] != [100]
    assert wrong <= 2


def test_stalls_do_not_move_a_change() -> None:
    rates = 100 * (1 + ar1(np.random.default_rng(5), 300, 0.5, 0.05))
    rates[200:] *= 0.7
    rates[[40, 120, 190, 260]] = 0.0
    assert [point.at_ns // NS_PER_S for point in find_changes(series_from(rates)).points] == [200]


def test_noise_free_and_tiny_series() -> None:
    flat = find_changes(series_from(np.full(400, 50.0)))
    assert flat.points == ()
    assert flat.segments[0].mean_bytes_per_s == 50 * MB
    step = find_changes(series_from(np.concatenate((np.full(200, 50.0), np.full(200, 10.0)))))
    assert [point.at_ns for point in step.points] == [200 * NS_PER_S]
    assert step.points[0].effect == pytest.approx(-0.8)
    assert step.segments[1].ci95_bytes_per_s == (pytest.approx(10 * MB), pytest.approx(10 * MB))
    assert find_changes(series_from(np.zeros(100))).points == ()
    assert len(find_changes(series_from(np.array([3.0, 9.0, 1.0]))).segments) == 1
    assert len(find_changes(series_from(np.array([3.0]))).segments) == 1


def test_a_bin_that_holds_both_sides_of_a_step_is_no_segment() -> None:
    for between in (40.0, 60.0, 80.0):
        rates = np.concatenate((np.full(150, 100.0), [between], np.full(150, 20.0)))
        assert [point.at_ns // NS_PER_S for point in find_changes(series_from(rates)).points] in ([150], [151])


def test_a_short_burst_at_the_start_of_a_long_run() -> None:
    rates = np.concatenate((np.full(3, 400.0), np.full(597, 100.0)))
    assert [point.at_ns // NS_PER_S for point in find_changes(series_from(rates)).points] == [3]


def test_small_effects_are_gated_and_the_gate_moves() -> None:
    rates = np.concatenate((np.full(200, 100.0), np.full(200, 93.0))) + np.tile((0.5, -0.5), 200)
    assert find_changes(series_from(rates)).points == ()
    assert len(find_changes(series_from(rates), effect_min=0.05).points) == 1
    assert len(find_changes(series_from(rates), effect_min=0.0).points) == 1


def test_the_shortest_segment_scales_with_short_runs() -> None:
    assert shortest_segment_ns(3600 * NS_PER_S) == 10 * NS_PER_S
    assert shortest_segment_ns(300 * NS_PER_S) == 10 * NS_PER_S
    assert shortest_segment_ns(30 * NS_PER_S) == NS_PER_S
    spike = 100 * (1 + ar1(np.random.default_rng(8), 900, 0.0, 0.03))
    spike[400:403] += 25.0
    assert find_changes(series_from(spike)).points == ()
    assert len(find_changes(series_from(spike), min_segment_ns=3 * NS_PER_S).points) == 2


@pytest.mark.parametrize("rho", RHOS)
def test_segment_intervals_cover_the_mean(rho: float) -> None:
    covered = 0
    for seed in range(150):
        rates = 100 * (1 + ar1(np.random.default_rng(seed), 300, rho, 0.05))
        changes = find_changes(series_from(rates))
        low, high = changes.segments[0].ci95_bytes_per_s
        covered += low <= 100 * MB <= high
    assert covered / 150 >= 0.87


def test_effects_carry_their_interval() -> None:
    covered = 0
    for seed in range(100):
        rates = 100 * (1 + ar1(np.random.default_rng(seed), 300, 0.3, 0.10))
        rates[150:] *= 0.6
        point = find_changes(series_from(rates)).points[0]
        assert point.effect_ci95[0] < point.effect < point.effect_ci95[1]
        covered += point.effect_ci95[0] <= -0.4 <= point.effect_ci95[1]
    assert covered >= 88


@pytest.mark.parametrize("rho", RHOS)
def test_noise_is_read_off_the_residuals(rho: float) -> None:
    found = [noise_of(ar1(np.random.default_rng(seed), 3000, rho, 10.0)) for seed in range(20)]
    assert np.mean([noise.rho for noise in found]) == pytest.approx(rho, abs=0.04)
    assert np.mean([noise.sd_bytes_per_s for noise in found]) == pytest.approx(10.0, rel=0.04)
    spiked = ar1(np.random.default_rng(1), 3000, 0.0, 10.0)
    spiked[::300] += 1000.0
    assert noise_of(spiked).sd_bytes_per_s == pytest.approx(10.0, rel=0.06)


def test_batch_means_widen_with_autocorrelation() -> None:
    values = np.random.default_rng(2).standard_normal(400)
    low, high = batch_mean_ci(values, Noise(1.0, 0.0))
    assert (high - low) / 2 == pytest.approx(2.09 / math.sqrt(400), rel=0.4)
    few = batch_mean_ci(values[:8], Noise(1.0, 0.9))
    assert few[1] - few[0] > batch_mean_ci(values[:8], Noise(1.0, 0.0))[1] * 2


def slow_segmentation(values: list[float], shortest: int, penalty: float) -> list[int]:
    """The penalised least-squares optimum by trying every last segment, from the definition."""

    def cost(first: int, end: int) -> float:
        part = values[first:end]
        mean = sum(part) / len(part)
        return sum((value - mean) ** 2 for value in part)

    @functools.cache
    def best(end: int) -> tuple[float, tuple[int, ...]]:
        if end == 0:
            return -penalty, ()
        options = []
        for first in (0, *range(shortest, end - shortest + 1)):
            if end - first >= shortest and (first == 0 or first >= shortest):
                before, edges = best(first)
                options.append((before + penalty + cost(first, end), (*edges, first)))
        return min(options)

    return [edge for edge in best(len(values))[1] if edge]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(3, 12), st.integers(0, 100)), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
)
def test_the_segmentation_is_the_optimum(steps: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([np.full(length, float(level)) for length, level in steps])
    values = values + rng.standard_normal(len(values))
    variance, shortest = 1.7, 3
    penalty = 3.0 * math.log(len(values)) * variance
    fast = changepoints._segment(values, shortest, variance)
    slow = slow_segmentation(values.tolist(), shortest, penalty)

    def total(edges: list[int]) -> float:
        return sum(float(np.square(p - p.mean()).sum()) for p in np.split(values, edges)) + penalty * len(edges)

    assert total(fast) == pytest.approx(total(slow), rel=1e-9, abs=1e-6)
