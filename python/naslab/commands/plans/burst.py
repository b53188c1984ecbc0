"""What `naslab burst` measures: a first run until the floor is known, then idle times and second runs.

The first run is made of parts, each twice as long as the one before, so that it can end when enough is known.
Writes are flushed after each part: a short flush leaves the server as it was and the parts are one run; a long
one emptied a cache, and the next part begins anew.

Where writes were flushed at once, files that no cache should hold are read: right after a second run, and again
after a rest. Reads spend the credit of a shared bucket, so none are done before the first run, and the target
is emptied again after them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from naslab.analysis.buckets import BucketFit
from naslab.analysis.causes import (
    DURABLE_SHARE,
    READ_DEPTH,
    retest_duration_ns,
    retest_idle_ns,
    retest_rate_bytes_per_s,
)
from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.commands.plans.sustained import FILL_RECORD_BYTES, LoadOptions, fill_cell, idle_cell, load_cell
from naslab.spec import CellSpec, PaceSpec, WalkSpec

BUDGET_NS = 30 * 60 * NS_PER_S
FIRST_SHARE = 0.5
"""Part of the budget that the first run may take."""
LEAST_PART_NS, USUAL_PART_NS = 5 * NS_PER_S, 60 * NS_PER_S
PRECISION = 0.03
LONG_FLUSH = 0.05
"""A flush longer than this share of the first part emptied something: later parts are longer, a cache is not."""
LEAST_OPS = 10
"""Operations that a bin of the floor must hold in a second run."""
READ_FILES = ("naslab.reads-after", "naslab.reads-rested")
LEAST_READ_BYTES, MOST_READ_BYTES = 4 << 20, 1 << 30
READ_NS = 2 * NS_PER_S
"""A file of reads holds what the burst moves in this time."""
TAIL, MOST_TAIL_BYTES = 8, 16 << 20
"""The last part in so many of a file is read again, and no more than a small memory keeps."""
REST_FACTOR = 1.1
"""A whole rest, over size / floor."""


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
    first, long_ns = 0, LONG_FLUSH * (parts[0].end_ns - parts[0].start_ns)
    for at, part in enumerate(parts[:-1]):
        if part.flush_ns is not None and part.flush_ns > long_ns:
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


@dataclass(frozen=True)
class ReadPlan:
    """How the reads of a write test are done.

    file_bytes: of each of the two files. rest_ns: before the rested reads; whole: as long as a refill takes.
    cold: the target can take a file out of this machine's memory.
    """

    file_bytes: int
    record_bytes: int
    depth: int
    rest_ns: int
    whole: bool
    cold: bool

    def planned_ns(self, fit: BucketFit) -> int:
        """Time that it takes at most: both files written and one read at the floor, one read at the burst."""
        slow_s = 3 * self.file_bytes / fit.baseline_bytes_per_s.value
        return self.rest_ns + round((slow_s + self.file_bytes / fit.burst_bytes_per_s.value) * NS_PER_S)


def read_plans(fit: BucketFit, bin_ns: int, flush_ns: int | None, caps: Mapping[str, Any]) -> list[ReadPlan]:
    """Plans of the reads, the best first; none where a long flush has said all or nothing was flushed.

    The second plan rests for a second run's idle time only: it tells a shared bucket, but not a cache that lies
    about its flush.
    """
    floor, size = fit.baseline_bytes_per_s.value, fit.size_bytes.value
    if flush_ns is None or flush_ns / NS_PER_S * floor > DURABLE_SHARE * size:
        return []
    wanted = min(max(int(fit.burst_bytes_per_s.value * READ_NS / NS_PER_S), LEAST_READ_BYTES), MOST_READ_BYTES)
    record = min(FILL_RECORD_BYTES, 1 << (wanted // (2 * TAIL)).bit_length() - 1)
    file_bytes = wanted // (TAIL * record) * TAIL * record
    short, whole = retest_idle_ns(fit, bin_ns), math.ceil(REST_FACTOR * size / floor * NS_PER_S)
    depth, rests = min(READ_DEPTH, int(caps["max_depth"])), sorted({whole, min(short, whole)}, reverse=True)
    return [ReadPlan(file_bytes, record, depth, rest, rest >= whole, bool(caps["evict"])) for rest in rests]


def retest_cells(
    options: LoadOptions, fit: BucketFit, bin_ns: int, fresh: bool, reads: ReadPlan | None = None
) -> list[CellSpec]:
    """Empty it, idle, run again, read; the same once more at a limited rate, rest and read.

    fresh: the server begins rested (a simulated one does with each stage), so that emptying it takes as long
    as in the first run. reads: None for none. Raises UsageError for a floor of 0.
    """
    idle_ns = retest_idle_ns(fit, bin_ns)
    drop_ns = max(fit.dropped_ns, 0)
    again_ns = drop_ns // 4 + 30 * bin_ns
    drain_ns = int(1.2 * drop_ns) + 30 * bin_ns if fresh or options.fills else again_ns
    cells = _start(options, 0) + ([_read_fill(options, reads)] if reads else [])
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
        if reads and not limited:
            cells += [_read(options, reads, "reads after"), _read(options, reads, "reads again")]
    if reads:
        cells += [idle_cell(options, reads.rest_ns), _read(options, reads, "reads rested")]
    return cells


def _read_fill(options: LoadOptions, reads: ReadPlan) -> CellSpec:
    return fill_cell(
        options, "fill", files=list(READ_FILES), workers=len(READ_FILES), file_bytes=reads.file_bytes,
        record_bytes=reads.record_bytes, verify=False,
    )  # fmt: skip


def _read(options: LoadOptions, reads: ReadPlan, workload: str) -> CellSpec:
    """One of the files from its start to its end, or the tail of the first one again."""
    plain = LoadOptions(
        reads.file_bytes, reads.record_bytes, depth=reads.depth, duration_ns=None, direct=options.direct,
        seed=options.seed, data=options.data,
    )  # fmt: skip
    more: dict[str, Any] = {"files": [READ_FILES[workload == "reads rested"]], "cold": reads.cold}
    if workload == "reads again":
        tail = min(reads.file_bytes // TAIL, MOST_TAIL_BYTES)
        walk = WalkSpec("sequential", reads.record_bytes, base_bytes=reads.file_bytes - tail, len_bytes=tail)
        more = {**more, "cold": False, "walk": walk, "stop_bytes": tail}
    return load_cell(plain, workload, **more)


def planned_ns(cells: Sequence[CellSpec]) -> int:
    """Time of loads and idle times; fills not counted."""
    return sum((cell.duration_ns or 0) + (cell.burst_gap_ns if cell.workload == "idle" else 0) for cell in cells)
