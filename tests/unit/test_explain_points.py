"""Numbers of a ladder's cell: rates with intervals, stops, shares answered nearer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from naslab.analysis.series import RateSeries
from naslab.explain.points import (
    Figure,
    Stalls,
    conditions_of,
    pooled,
    rate_of,
    ratio,
    stalls_of,
    usual_rate,
)

MB = 1_000_000


def series(moved: list[float] | np.ndarray, bin_ns: int = 25_000_000, each: int = MB) -> RateSeries:
    moved_bytes = np.asarray(moved, np.int64)
    return RateSeries(moved_bytes, moved_bytes // each, bin_ns)


def cell(moved: RateSeries) -> dict[str, float]:
    return {"throughput_bytes_per_s": moved.mean_bytes_per_s(), "ops": int(moved.ops.sum())}


def test_an_interval_holds_the_rate_of_noisy_bins() -> None:
    missed = 0
    for seed in range(200):
        found = series(np.random.default_rng(seed).normal(100 * MB, 10 * MB, 80), each=MB // 10)
        rate = rate_of(found, cell(found))
        missed += not rate.low <= 4000 * MB <= rate.high
    assert missed <= 24  # 5 % wanted; 12 % is far outside of chance for 95 % intervals


def test_counting_whole_operations_is_no_noise() -> None:
    """3.3 operations of 1 MiB a bin come as 3 or 4; the rate is known far better than these jumps say."""
    edges = np.floor(np.arange(41) * 3.3)
    rate = rate_of(series(np.diff(edges) * MB), cell(series(np.diff(edges) * MB)))
    assert rate.value == pytest.approx(3.3 * MB * 40, rel=0.02)
    assert (rate.high - rate.low) / 2 < 0.03 * rate.value


def test_too_few_operations_are_said_to_be_unsure() -> None:
    rate = rate_of(series([MB, 0, MB]), {"throughput_bytes_per_s": 26.7 * MB, "ops": 2})
    assert rate.low == pytest.approx(0.0, abs=0.01)
    assert rate.high == pytest.approx(2 * 26.7 * MB)


def test_hits_among_misses_count_for_the_time_they_take() -> None:
    hits = np.where(np.arange(110) % 25 == 7, 40 * MB, 0)  # 10 of 32 MB come from memory in four of 110 bins
    missed = 0
    for seed in range(100):
        disk = np.random.default_rng(seed).normal(3 * MB, 0.2 * MB, 110)
        found = usual_rate(series(disk + hits, each=MB // 10))
        assert found is not None and found.value == pytest.approx(120 * MB, rel=0.03)
        missed += not found.low <= 120 * MB <= found.high
    assert missed <= 12  # 5 % wanted
    assert usual_rate(series([3 * MB] * 20)) is None
    assert usual_rate(series(([0] * 30 + [900 * MB]) * 6)) is None  # most of the time nothing moved


def test_a_rate_handed_out_in_slices_is_no_hit() -> None:
    """Three disks of 30 MB/s, each of which gives its bytes every 100 ms at a moment of its own, read for 2.5 s."""
    at_ms = np.arange(2500)
    moved = sum(np.where(at_ms % 100 == moment, 3.0 * MB, 0.0) for moment in (7, 12, 60))
    found = usual_rate(series(moved, each=MB // 10, bin_ns=1_000_000))
    assert found is not None and found.value == pytest.approx(90 * MB, rel=0.01)
    assert found.low < 90 * MB < found.high


def test_how_many_slices_lie_in_a_series_makes_no_difference() -> None:
    """A disk of 50 MB/s gives its bytes every 100 ms; series of 2.6 s begin and end anywhere between two of them."""
    for first, more in itertools.product(range(0, 100, 9), range(0, 100, 9)):
        at_ms = np.arange(first, first + 2600 + more)
        moved = np.where(at_ms % 100 == 99, 5.0 * MB, 0.0)
        found = usual_rate(series(moved, each=MB // 10, bin_ns=1_000_000))
        assert found is not None and found.value == pytest.approx(50 * MB, rel=0.003), (first, more)


def test_stops_are_counted_with_length_and_time_between() -> None:
    busy, stop = [100 * MB] * 30, [0] * 10
    found = stalls_of(series((busy + stop) * 3 + busy))
    assert found == Stalls(30 / 150, 3, 250_000_000, 1_000_000_000)


def test_slow_requests_that_end_one_by_one_are_no_stop() -> None:
    """Half of a set from memory, half from a disk whose requests take 0.25 s: most bins are empty, the disk works."""
    quick, slow = [100 * MB] * 30, [0, 0, 0, 0, 0, 0, 0, 0, 0, 4 * MB] * 4
    assert stalls_of(series((quick + slow) * 3 + quick)) == Stalls(0.0, 0, 0, 0)
    trickle = [10 * MB, *[0] * 10, 20 * MB]
    found = stalls_of(series(([100 * MB] * 30 + trickle) * 3 + quick))
    assert found is not None and found.count == 3, "its ends hold some of the rest"


def latencies(slow: int, ns: float = 3e8) -> tuple[np.ndarray, np.ndarray]:
    """3000 operations of a millisecond, and so many that are slow."""
    return np.array([1e6, ns]), np.array([3000.0, slow])


def test_waiting_for_the_last_slow_request_is_no_stop() -> None:
    """At a load's end nothing is sent any more: one slow request of 64 keeps everything waiting."""
    busy = [100 * MB] * 30
    assert stalls_of(series([*busy, *[0] * 12]), 64, latencies(1)) == Stalls(0.0, 0, 0, 0)
    found = stalls_of(series([*busy, *[0] * 10, *busy, *[0] * 12]), 64, latencies(1))
    assert found is not None and (found.count, found.lost) == (1, 10 / 70)


def test_a_stop_at_the_end_keeps_all_requests_waiting() -> None:
    found = stalls_of(series([*[100 * MB] * 30, *[0] * 12]), 64, latencies(64))
    assert found is not None and (found.count, found.lost) == (1, 12 / 42)


def test_a_stop_may_take_most_of_a_load() -> None:
    found = stalls_of(series([*[100 * MB] * 12, *[0] * 46]), 16, latencies(16, 1.2e9))
    assert found is not None and (found.count, found.lost) == (1, 46 / 58)


def test_short_stops_are_a_shaper_at_work() -> None:
    """A processor share is handed out every 100 ms: 75 ms without anything is how it limits."""
    found = stalls_of(series(([100 * MB] + [0] * 3) * 30))
    assert found is None or found.count == 0


def test_long_bins_show_no_stops() -> None:
    assert stalls_of(series([100 * MB] * 40, bin_ns=500_000_000)) is None


def test_ratios_hold_both_intervals() -> None:
    found = ratio(Figure(10, 9, 11), Figure(5, 4, 6))
    assert (found.value, found.low, found.high) == (2.0, 1.5, 2.75)
    assert ratio(Figure(1, 1, 1), Figure(0, 0, 0)).value == float("inf")
    unsure = ratio(Figure(10, 9, 11), Figure(5, 0, 10))
    assert (unsure.value, unsure.low, unsure.high) == (2.0, 0.9, float("inf"))


def test_the_mean_of_several_is_known_better() -> None:
    found = pooled([Figure(9, 8, 10), Figure(11, 10, 12)])
    assert found.value == 10
    assert found.high - found.low == pytest.approx(2 / 2**0.5)


def test_a_point_knows_what_kept_its_client_from_its_processors() -> None:
    client = {
        "cpu_limit_cores": 0.15, "throttled_fraction": 0.76, "steal_fraction": None, "busiest_worker_fraction": 0.14,
        "others_cores": 1.5, "runnable_wait_fraction": 0.8,
    }  # fmt: skip
    assert conditions_of({"client": client}) == {
        "cpu_limit": 0.15, "throttled": 0.76, "steal": 0.0, "busiest_worker": 0.14, "others": 1.5, "waiting": 0.8,
    }  # fmt: skip
    assert set(conditions_of({}).values()) == {0.0}  # an older cell
