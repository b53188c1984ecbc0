"""What --find-burst measures: a first run until the floor is known, then idle times and second runs.

The first run is made of parts, each twice as long as the one before, so that it can end when enough is known.
Writes are flushed after each part: a short flush leaves the server as it was and the parts are one run; a long
one emptied a cache, and the next part begins anew.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from naslab.analysis.buckets import BucketFit
from naslab.analysis.causes import retest_duration_ns, retest_idle_ns, retest_rate_bytes_per_s
from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.plans.sustained import LoadOptions, fill_cell, idle_cell, load_cell
from naslab.spec import CellSpec, PaceSpec

BUDGET_NS = 30 * 60 * NS_PER_S
FIRST_SHARE = 0.5
"""Part of the budget that the first run may take."""
LEAST_PART_NS, USUAL_PART_NS = 5 * NS_PER_S, 60 * NS_PER_S
PRECISION = 0.03
LONG_FLUSH = 0.05
"""A flush longer than this share of the part before it emptied something."""
LEAST_OPS = 10
"""Operations that a bin of the floor must hold in a second run."""
WORKLOADS = ("first run", "retest", "limited retest", "drain", "idle")


@dataclass(frozen=True)
class Part:
    """A part of the first run. start_ns: on the cells' clock. flush_ns: after it; None without."""

    series: RateSeries
    start_ns: int
    end_ns: int
    flush_ns: int | None


def first_run_cells(options: LoadOptions, budget_ns: int, rest_ns: int = 0) -> list[CellSpec]:
    """Fill and rest where needed, then the parts; together at most half of the budget (at least one part)."""
    left = int(budget_ns * FIRST_SHARE)
    length = min(max(budget_ns // 20, LEAST_PART_NS), USUAL_PART_NS)
    cells = _start(options, rest_ns)
    while left > 0:
        length = min(length, left) if left - length >= length // 2 else left
        cells.append(_part(options, length, first=not cells or cells[-1].workload != "first run"))
        left -= length
        length *= 2
    return cells


def _start(options: LoadOptions, rest_ns: int) -> list[CellSpec]:
    cells = [fill_cell(options)] if options.fills else []
    return cells + ([idle_cell(options, rest_ns)] if cells and rest_ns else [])


def _part(options: LoadOptions, duration_ns: int, workload: str = "first run", first: bool = False) -> CellSpec:
    plain = dataclasses.replace(options, stop_bytes=None, warmup_ns=0, cooldown_ns=0, repeat=1)
    flush = "all" if options.writes else "none"
    cell = load_cell(plain, workload, duration_ns=duration_ns, flush=flush, pace=None)
    return cell if first else dataclasses.replace(cell, create="never", remove_before=False)


def joined(parts: Sequence[Part]) -> tuple[RateSeries, int | None]:
    """The parts as one series, and the time of the flush at its end.

    Begins after the last long flush; pauses between parts are bins in which nothing moved. Raises IndexError
    without a part.
    """
    first = 0
    for at, part in enumerate(parts[:-1]):
        if part.flush_ns is not None and part.flush_ns > LONG_FLUSH * (part.end_ns - part.start_ns):
            first = at + 1
    kept = parts[first:]
    bin_ns = kept[0].series.bin_ns
    moved, ops = [], []
    for at, part in enumerate(kept):
        pause_ns = part.start_ns - kept[at - 1].end_ns if at else 0
        pause = np.zeros(max(0, round(pause_ns / bin_ns)), np.int64)
        moved += [pause, part.series.moved_bytes]
        ops += [pause, part.series.ops]
    return RateSeries(np.concatenate(moved), np.concatenate(ops), bin_ns), parts[-1].flush_ns


def bin_factor(series: RateSeries, fit: BucketFit, block_bytes: int) -> int:
    """How many bins to merge so that a bin of the floor holds enough operations."""
    each = fit.baseline_bytes_per_s.value * series.bin_ns / NS_PER_S / block_bytes
    return max(1, math.ceil(LEAST_OPS / max(each, 1e-3)))


def retest_cells(options: LoadOptions, fit: BucketFit, bin_ns: int, fresh: bool) -> list[CellSpec]:
    """Empty it, idle, run again; the same once more at a limited rate.

    fresh: the server begins rested (a simulated one does with each stage), so that emptying it takes as long
    as in the first run. Raises UsageError for a floor of 0.
    """
    idle_ns = retest_idle_ns(fit, bin_ns)
    drop_ns = max(fit.dropped_ns, 0)
    again_ns = drop_ns // 4 + 30 * bin_ns
    drain_ns = int(1.2 * drop_ns) + 30 * bin_ns if fresh or options.fills else again_ns
    cells = _start(options, 0)
    for limited in (False, True):
        cells.append(
            _part(options, again_ns if limited else drain_ns, "drain", first=not options.fills and not limited)
        )
        cells.append(idle_cell(options, idle_ns))
        length = retest_duration_ns(fit, idle_ns, bin_ns, limited)
        retest = _part(options, length, "limited retest" if limited else "retest")
        if limited:
            rate = retest_rate_bytes_per_s(fit) / options.block_bytes
            retest = dataclasses.replace(retest, pace=PaceSpec(rate, limit=True))
        cells.append(retest)
    return cells


def planned_ns(cells: Sequence[CellSpec]) -> int:
    """Time of loads and idle times; fills not counted."""
    return sum((cell.duration_ns or 0) + (cell.burst_gap_ns if cell.workload == "idle" else 0) for cell in cells)
