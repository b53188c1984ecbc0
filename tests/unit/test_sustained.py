"""Plans and words of `naslab sustained` without measuring, and the parts a long run is joined from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from naslab.analysis.buckets import Estimate, fit_bucket
from naslab.analysis.causes import BurstEvidence, decide_cause
from naslab.analysis.changepoints import find_changes
from naslab.analysis.cost import Price
from naslab.analysis.series import RateSeries
from naslab.analysis.sustained import (
    PERCENTILES,
    burst_part,
    cost_part,
    percentile_rows,
    rates_to_pay_for,
    regime,
)
from naslab.cli.progress import SPARKS, Progress, sparkline
from naslab.commands.plans import burst, sustained
from naslab.commands.plans.sustained import LoadOptions, load_cell, parse_distribution, parse_rate
from naslab.errors import UsageError
from naslab.results.parts.sustained import Sustained
from naslab.spec import CellSpec

MB = 1_000_000
GIB = 1 << 30
NS = 1_000_000_000
CAPS = {"alignment_offset_bytes": 4096, "evict": True}


def options(**more: Any) -> LoadOptions:
    return LoadOptions(**{"size_bytes": GIB, "block_bytes": 1 << 20, **more})


def rates(*stretches: tuple[float, int], bin_ns: int = NS // 10, ops: int = 100) -> RateSeries:
    """(MB/s, bins) one after another."""
    moved = np.concatenate([np.full(bins, round(rate * MB * bin_ns / NS), np.int64) for rate, bins in stretches])
    return RateSeries(moved, np.full(len(moved), ops, np.int64), bin_ns)


@pytest.mark.parametrize(
    ("text", "rate"), [("5000iops", 5000.0), ("100MB/s", 100.0), ("1m/s", 1.048576), ("0.5 IOPS", 0.5)]
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text, MB) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["", "5", "fast", "-5iops", "0iops", "x/s", "naniops", "infiops", "1e300iops"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(UsageError, match="--rate"):
        parse_rate(text, 4096)


def test_walks_are_only_used_where_patterns_do_not_do() -> None:
    assert load_cell(options()).walk is None and load_cell(options(random=True)).pattern == "random"
    assert load_cell(options(random=True, align_bytes=1 << 20)).walk is None, "the block is what random means"
    found = load_cell(options(random=True, align_bytes=4096)).walk
    assert found and (found.order, found.align_bytes) == ("random", 4096)
    found = load_cell(options(stride_bytes=4 << 20)).walk
    assert found and (found.order, found.stride_bytes) == ("sequential", 4 << 20)
    cell = load_cell(options(interlocked=True, workers=4))
    assert cell.walk and cell.walk.order == "interlocked" and len(cell.files) == 1 and cell.walk.stride_bytes == 1 << 20


def test_hot_part_is_at_the_head_and_both_cover_the_file() -> None:
    load = options(random=True, block_bytes=4096)
    parse_distribution("hot:80/25", load)
    walk = load_cell(load).walk
    assert walk and walk.ranges == [(0.8, 0, GIB // 4), (pytest.approx(0.2), GIB // 4, GIB - GIB // 4)]
    small = options(size_bytes=8192, block_bytes=4096, random=True)
    parse_distribution("hot:90/10", small)
    with pytest.raises(UsageError, match="--distribution"):
        load_cell(small)
    parse_distribution("zipf", small)
    assert small.spread == "zipf" and small.theta == 0.99


def test_files_are_written_before_they_are_read() -> None:
    workloads = [cell.workload for cell in sustained.sustained_cells(options(repeat=2), rest_ns=5 * NS)]
    assert workloads == ["fill", "idle", "sustained", "idle", "sustained"]
    (cell,) = sustained.sustained_cells(options(write_pct=100))
    assert cell.create == "if_missing" and cell.flush == "all" and cell.interval_ns == NS // 10
    fill, load = sustained.sustained_cells(options(write_pct=50, verify=True, block_bytes=4096))
    assert fill.record_bytes == 4096 and fill.data == load.data and load.create == "never"
    assert sustained.sustained_cells(options())[0].record_bytes == 1 << 20


def test_unbuffered_positions_fit_the_target() -> None:
    sustained.check(options(direct=True, random=True, align_bytes=8192), CAPS)
    with pytest.raises(UsageError, match="--align"):
        sustained.check(options(direct=True, random=True, align_bytes=512), CAPS)


def test_first_run_doubles_and_keeps_to_half_the_budget() -> None:
    for budget_s in (30, 100, 600, 1800, 7200):
        cells = burst.first_run_cells(options(write_pct=100), budget_s * NS)
        lengths = [cell.duration_ns or 0 for cell in cells]
        assert sum(lengths) == budget_s * NS // 2 and lengths[:-1] == sorted(lengths[:-1])
        assert [cell.create for cell in cells] == ["if_missing"] + ["never"] * (len(cells) - 1)
    reads = burst.first_run_cells(options(), 600 * NS, rest_ns=NS)
    assert [cell.workload for cell in reads][:3] == ["fill", "idle", "first run"]


def test_parts_are_joined_with_their_pauses() -> None:
    one, two = rates((100, 50)), rates((100, 20), (10, 80))
    parts = [burst.Part(one, 0, 5 * NS, 10**6), burst.Part(two, 5 * NS + 3 * NS // 10, 15 * NS, 5)]
    series, flush_ns = burst.joined(parts)
    assert len(series) == 50 + 3 + 100 and flush_ns == 5
    assert series.moved_bytes[50:53].tolist() == [0, 0, 0] and series.total_bytes == one.total_bytes + two.total_bytes
    # A long flush emptied something: what came before it is another run.
    series, _ = burst.joined([burst.Part(one, 0, 5 * NS, NS), parts[1]])
    assert len(series) == 100


def test_second_runs_empty_it_idle_and_run_again() -> None:
    fit = fit_bucket(rates((260, 200), (32, 400)))
    assert fit is not None
    cells = burst.retest_cells(options(write_pct=100), fit, NS // 10, fresh=False)
    assert [cell.workload for cell in cells] == ["drain", "idle", "retest", "drain", "idle", "limited retest"]
    assert cells[0].create == "if_missing" and {cell.create for cell in cells[1:]} == {"never"}
    idle, limited = cells[1], cells[-1]
    # Thirty bins of burst, or 0.6 of the size where that is less, at 32 MB/s.
    wanted = min((260 - 32) * MB * 3, 0.6 * 228 * MB * 20)
    assert idle.burst_gap_ns == pytest.approx(wanted / (32 * MB) * NS, rel=0.01)
    assert (
        limited.pace and limited.pace.limit and limited.pace.rate_per_s == pytest.approx(64 * MB / (1 << 20), rel=0.01)
    )
    fresh = burst.retest_cells(options(write_pct=100), fit, NS // 10, fresh=True)
    assert (fresh[0].duration_ns or 0) > 20 * NS > (cells[0].duration_ns or 0)


def test_a_step_of_few_coarse_bins_is_a_step() -> None:
    """A floor of 30 operations a second leaves 35 bins in a minute, one of which holds both sides."""
    series = rates((260, 10), (105, 1), (32, 24), bin_ns=17 * NS // 10)
    wiggle = np.tile([0, 0, 1, 0, -1], 7) * (1 << 20)
    found = find_changes(RateSeries(series.moved_bytes + wiggle, series.ops, series.bin_ns))
    assert len(found.points) == 1 and 10 <= found.points[0].at_ns / series.bin_ns <= 11


def test_regime_of_a_burst() -> None:
    found = regime(rates((260, 200), (32, 400)), 3, "write", {"p50": 1})
    assert found.burst_bytes_per_s == pytest.approx(260 * MB) and found.dropped_ns == 20 * NS
    assert found.baseline_bytes_per_s == pytest.approx(32 * MB) and found.steady.word == "slowdown"
    level = regime(rates((100, 300)), 3, "write", {})
    assert level.burst_bytes_per_s is None and level.changes == [] and level.steady.is_steady
    part = Sustained(regimes=[found], burst=None, cached=None, cost=None)
    assert rates_to_pay_for(part) == (pytest.approx(32 * MB), pytest.approx(260 * MB))
    assert rates_to_pay_for(structs.replace(part, regimes=[level]))[1] is None
    assert rates_to_pay_for(structs.replace(part, regimes=[])) == (0.0, None)


def test_cost_of_a_rate() -> None:
    cost = cost_part(Price(per_month=730), 10 * MB, None)
    assert cost.burst is None and cost.per_hour == 1
    assert cost.sustained.per_mb_per_s_month == 73


def test_overlapping_rates_name_no_cause() -> None:
    noise = np.random.default_rng(1).normal(1, 0.01, 600)
    clear = rates((260, 200), (32, 400))
    clear = RateSeries((clear.moved_bytes * noise).astype(np.int64), clear.ops, clear.bin_ns)
    verdict = decide_cause(BurstEvidence("write", clear))
    assert burst_part(verdict, "write", clear).missing == list(verdict.missing)
    fit = verdict.bucket
    assert fit is not None
    vague = replace(fit, baseline_bytes_per_s=Estimate(32e6, 1e6, 300e6))
    found = burst_part(replace(verdict, word="thermal_or_drift", bucket=vague), "write", clear)
    assert found.cause == "undecided" and "longer first run" in found.missing[0]


def test_percentiles_reach_nine_nines() -> None:
    assert len(PERCENTILES) == 11 and PERCENTILES[-1][1] == pytest.approx(1 - 1e-9, abs=1e-12)
    rows = percentile_rows([regime(rates((100, 300)), 3, "write", {"p50": 1000, "p99": None})])
    assert rows == [("p50", ["1 µs"])], "no rows of nothing but `-`"
    found = ({"p50": 1000}, {"p50": 2000, "p99_9999999": 3000})
    rows = percentile_rows([regime(rates((100, 300)), 3, "write", percentiles) for percentiles in found])
    assert rows == [("p50", ["1 µs", "2 µs"]), ("p99.9999999", ["-", "3 µs"])]


def test_sparkline() -> None:
    assert sparkline([]) == sparkline([0, 0]) == ""
    assert sparkline([0, 5, 10]) == SPARKS[0] + SPARKS[4] + SPARKS[-1]
    assert sparkline([10] * 50 + [1] * 50, columns=4) == SPARKS[-1] * 2 + SPARKS[0] * 2


def test_live_line_shows_the_series() -> None:
    cell = CellSpec("write", 1 << 20, 4096, ["a"], duration_ns=60 * NS)
    progress = Progress([cell])
    assert progress.hooks.progress
    for rate in (200e6, 200e6, 20e6):
        progress.hooks.progress({"cell": 0, "bytes": 1, "elapsed_ns": 30 * NS, "bytes_per_s": rate})
    shown = f"write, 1m file, 4k records: 20 MB/s {SPARKS[-1] * 2}{SPARKS[0]} 30 s of 1 min"
    assert progress.line().endswith(f"; cell 1 of 1: {shown}")
    progress.hooks.progress({"cell": 0, "bytes": 1, "elapsed_ns": 30 * NS, "bytes_per_s": 20e6, "p99_ns": 12_000_000})
    assert "20 MB/s, p99 12 ms " in progress.line()
