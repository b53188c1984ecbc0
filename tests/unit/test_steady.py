"""Steady state: SNIA's rule against its known acceptance, ours against the same servers, warm-up, words."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy.typing import NDArray

from naslab.analysis.series import RateSeries
from naslab.analysis.steady import SteadyVerdict, judge, mser5, slope_of, snia_rule
from naslab.errors import UsageError
from series_models import MB, NS_PER_S, ar1, series_from

BINS_PER_ROUND = 360


def server(seed: int, drift_per_round: float, cv: float = 0.10, rho: float = 0.0, rounds: int = 5) -> RateSeries:
    """One-second bins of noise cv around a mean that moves by drift_per_round in six minutes."""
    count = rounds * BINS_PER_ROUND
    trend = 1 + drift_per_round * np.arange(count) / BINS_PER_ROUND
    return series_from(100 * np.maximum(trend, 0.05) * (1 + ar1(np.random.default_rng(seed), count, rho, cv)))


@functools.cache
def verdicts(drift_per_round: float, runs: int = 20, rho: float = 0.0) -> list[SteadyVerdict]:
    return [judge(server(seed, drift_per_round, rho=rho)) for seed in range(runs)]


@pytest.mark.parametrize(
    ("drift", "cv", "accepted"),
    [
        (0.00, 0.02, 1.00), (0.00, 0.05, 0.87), (0.00, 0.10, 0.30),
        (0.02, 0.02, 0.75), (0.02, 0.05, 0.60), (0.02, 0.10, 0.24),
        (0.03, 0.02, 0.13), (0.03, 0.05, 0.32), (0.03, 0.10, 0.20),
        (0.05, 0.02, 0.00), (0.05, 0.05, 0.02), (0.05, 0.10, 0.09),
    ],
)  # fmt: skip
def test_how_often_snias_rule_accepts(drift: float, cv: float, accepted: float) -> None:
    rng = np.random.default_rng(1)
    rounds = 100 * (1 - drift * np.arange(5)) * (1 + cv * rng.standard_normal((2000, 5)))
    share = np.mean([snia_rule(row).steady for row in rounds])
    assert share == pytest.approx(accepted, abs=0.035)


def test_snias_rule_at_its_limits() -> None:
    flat = snia_rule([90.0, 110.0, 100.0, 90.0, 110.0])
    assert flat.range_share == pytest.approx(0.20)
    assert flat.excursion_share == pytest.approx(0.08)
    assert flat.steady
    line = snia_rule([106.0, 103.0, 100.0, 97.0, 94.0])
    assert line.excursion_share == pytest.approx(0.12)
    assert not line.steady
    assert not snia_rule([89.0, 111.0, 100.0, 100.0, 100.0]).steady
    for wrong in ([1.0] * 4, [0.0] * 5):
        with pytest.raises(UsageError):
            snia_rule(wrong)


def test_a_steady_noisy_server_is_accepted_and_a_drift_of_two_percent_is_not() -> None:
    """SNIA's rule on rounds of this noise accepts 30 of 100 steady and 24 of 100 drifting servers."""
    steady = verdicts(0.0)
    assert sum(found.word == "steady" and found.is_steady for found in steady) >= 19
    for drift in (-0.02, 0.02):
        drifting = verdicts(drift)
        assert sum(found.is_steady for found in drifting) == 0
        assert sum(found.word == "drifting" for found in drifting) >= 19
        assert sum(found.snia is not None and found.snia.steady for found in drifting) >= 18


@pytest.mark.parametrize("rho", [0.3, 0.7, 0.9])
def test_autocorrelation_asks_for_more_time_and_never_accepts_a_drift(rho: float) -> None:
    for found in verdicts(-0.02, rho=rho):
        assert not found.is_steady
    flat = verdicts(0.0, rho=rho)
    assert sum(found.word == "drifting" for found in flat) <= 1
    undecided = [found for found in flat if not found.is_steady]
    assert all(found.needed_ns and found.needed_ns > 5 * BINS_PER_ROUND * NS_PER_S for found in undecided)


@pytest.mark.parametrize("drift", [-0.05, -0.10, -0.19, 0.05, 0.3])
def test_strong_drifts_cut_into_segments_are_not_called_steady(drift: float) -> None:
    assert sum(found.is_steady for found in verdicts(drift)) <= 1


def stepped(first: float, then: float, seed: int = 3) -> RateSeries:
    rng = np.random.default_rng(seed)
    rates = np.concatenate((np.full(120, first), np.full(1200, then)))
    return series_from(rates * (1 + ar1(rng, len(rates), 0.0, 0.05)))


def test_words_for_runs_with_a_change() -> None:
    slow = judge(stepped(300, 100))
    assert (slow.word, slow.is_steady) == ("slowdown", True)
    assert slow.window_ns[0] >= 120 * NS_PER_S
    assert slow.window_ns[1] == 1320 * NS_PER_S
    assert slow.mean_bytes_per_s == pytest.approx(100 * MB, rel=0.02)
    assert judge(stepped(50, 100)).word == "warm-up"
    rng = np.random.default_rng(1)
    dip = np.concatenate((np.full(300, 100.0), np.full(60, 50.0), np.full(900, 100.0)))
    assert judge(series_from(dip * (1 + ar1(rng, len(dip), 0.0, 0.03)))).word == "steady"


def test_too_short_says_what_is_missing() -> None:
    few = judge(series_from(np.full(12, 100.0)))
    assert (few.word, few.needed_ns) == ("too short", 20 * NS_PER_S)
    assert judge(series_from(np.zeros(100))).word == "too short"
    noisy = judge(server(4, 0.0, cv=0.4, rounds=1))
    assert noisy.word == "too short"
    assert noisy.needed_ns is not None
    assert noisy.needed_ns > 360 * NS_PER_S
    assert "90 %" in noisy.reason


def test_the_window_must_exceed_the_servers_memory() -> None:
    series = series_from(np.full(400, 100.0))
    assert judge(series).word == "steady"
    verdict = judge(series, server_ram_bytes=32_000 * MB)
    assert (verdict.word, verdict.is_steady) == ("too short", False)
    assert verdict.needed_ns == 640 * NS_PER_S
    assert "memory" in verdict.reason
    assert judge(series, server_ram_bytes=20_000 * MB).word == "steady"


def test_the_slopes_interval_holds_the_truth() -> None:
    covered = 0
    for seed in range(200):
        values = (1 - 0.1 * np.arange(300) / 300) * (1 + ar1(np.random.default_rng(seed), 300, 0.3, 0.05))
        slope = slope_of(values, 0.3)
        # The mean over the window is 0.95: the drift is a share of it.
        covered += slope.drift_ci90[0] <= -0.1 / 0.95 <= slope.drift_ci90[1]
        assert 10 <= slope.batches <= 30
    assert 168 <= covered <= 194
    with pytest.raises(UsageError):
        slope_of(np.ones(9))
    with pytest.raises(UsageError):
        judge(series_from(np.ones(50)), margin=0.0)


def slow_mser5(values: NDArray[np.float64]) -> int:
    """From the definition, one cut after the other."""
    means = [float(np.mean(values[at : at + 5])) for at in range(0, len(values) - len(values) % 5, 5)]
    scores = []
    for cut in range(len(means) // 2 + 1):
        rest = means[cut:]
        mean = sum(rest) / len(rest)
        scores.append(sum((value - mean) ** 2 for value in rest) / len(rest) ** 2)
    return 5 * scores.index(min(scores))


@pytest.mark.parametrize("seed", range(8))
def test_mser_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = 100 + rng.standard_normal(203) - 60 * np.exp(-np.arange(203) / (3 + 4 * seed))
    assert mser5(values) == slow_mser5(values)
    assert mser5(values) > 0
    assert mser5(values[:19]) == 0


def test_a_ramp_at_the_start_is_cut() -> None:
    rates = np.full(600, 100.0)
    rates[:4] = (40, 60, 70, 80)
    verdict = judge(series_from(rates + ar1(np.random.default_rng(2), 600, 0.0, 3.0)))
    assert verdict.word == "steady"
    assert 3 * NS_PER_S <= verdict.warmup_ns == verdict.window_ns[0] <= 10 * NS_PER_S
    rates[:20] = np.linspace(10, 90, 20)
    longer = judge(series_from(rates + ar1(np.random.default_rng(2), 600, 0.0, 3.0)))
    assert (longer.word, longer.is_steady) == ("warm-up", True)


def test_no_warm_up_is_cut_from_a_few_operations_that_end_together() -> None:
    """Eight of 256 KiB in flight on a slow link: bins hold eight or none, and their means are no rate."""
    ops = np.zeros(40, np.int64)
    ops[[2, 12, 22, 27, 32, 37]] = 8
    verdict = judge(RateSeries(ops << 18, ops, NS_PER_S // 10))
    assert verdict.window_ns == (0, 4 * NS_PER_S)
    assert verdict.mean_bytes_per_s == pytest.approx(48 * (1 << 18) / 4)
    many = judge(RateSeries(ops << 18, ops * 100, NS_PER_S // 10))
    assert many.window_ns[0] > 0, "of many it is cut"
