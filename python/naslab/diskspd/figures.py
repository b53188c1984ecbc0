"""The figures of one time span, taken from the run document and its raw data: what text and XML both print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from naslab.diskspd.plan import PlannedSpan

if TYPE_CHECKING:
    from naslab.results.histogram import Histogram
    from naslab.results.run import Run

Section = Literal["total", "read", "write"]
KINDS = ("read", "write")


@dataclass(frozen=True)
class Part:
    """Operations of one kind, or of several together. Latency in nanoseconds, population deviation."""

    ops: int = 0
    bytes: int = 0
    mean_ns: float = 0.0
    stddev_ns: float = 0.0


def together(parts: Iterable[Part]) -> Part:
    """All operations of the parts: pooled mean and standard deviation."""
    known = [part for part in parts if part.ops]
    ops = sum(part.ops for part in known)
    if not ops:
        return Part()
    mean = sum(part.ops * part.mean_ns for part in known) / ops
    squares = sum(part.ops * (part.stddev_ns**2 + (part.mean_ns - mean) ** 2) for part in known)
    return Part(ops, sum(part.bytes for part in known), mean, math.sqrt(squares / ops))


@dataclass(frozen=True)
class Row:
    """One thread on one target."""

    thread: int
    path: str
    file_bytes: int
    kinds: Mapping[str, Part]

    def part(self, section: Section) -> Part:
        """Figures of this row in a table."""
        return together(_of(self.kinds, section))


def _of(kinds: Mapping[str, Part], section: Section) -> list[Part]:
    return [part for kind, part in kinds.items() if section in ("total", kind)]


@dataclass(frozen=True)
class Latencies:
    """Latencies of some operations. lowest_ns, highest_ns: exact."""

    histogram: Histogram
    lowest_ns: int
    highest_ns: int

    def at(self, share: float) -> float:
        """Latency at a share of operations, 0 to 1, in nanoseconds."""
        if share in (0.0, 1.0):
            return float(self.highest_ns if share else self.lowest_ns)
        found = float(self.histogram.quantiles((share,))[0])
        return min(max(found, float(self.lowest_ns)), float(self.highest_ns))


@dataclass(frozen=True)
class Cpu:
    """Share of all processors that naslab itself used, in per cent."""

    user: float
    kernel: float

    @property
    def usage(self) -> float:
        """User and kernel."""
        return self.user + self.kernel

    @property
    def idle(self) -> float:
        """The rest: other programs may have used it."""
        return max(0.0, 100.0 - self.usage)


@dataclass(frozen=True)
class Figures:
    """One time span. seconds: measured time, 0 when it was interrupted before.

    latencies: by kind and `total`, those that have operations. counts: {kind: operations in each whole interval}.
    slowest_ns: longest latency of each interval, when all operations are of one kind.
    """

    planned: PlannedSpan
    seconds: float
    rows: list[Row]
    latencies: Mapping[str, Latencies]
    cpu: Cpu
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    slowest_ns: Sequence[int] = ()

    @property
    def threads(self) -> int:
        """Threads as DiskSpd counts them."""
        return self.planned.span.threads or len(self.rows)

    def total(self, section: Section) -> Part:
        """All rows of a table."""
        return together(row.part(section) for row in self.rows)

    def iops_stddev(self, section: Section) -> float | None:
        """Standard deviation of operations per second over the intervals; None without one."""
        columns = [counts for kind, counts in self.counts.items() if section in ("total", kind)]
        sums = [sum(each) for each in zip(*columns, strict=True)] if columns else []
        if not sums:
            return None
        mean = sum(sums) / len(sums)
        deviation = math.sqrt(sum((each - mean) ** 2 for each in sums) / len(sums))
        return deviation / (self.planned.span.bucket_ms / 1000)


def figures_of(run: Run, planned: PlannedSpan, cpus: int) -> Figures:
    """The figures of a time span; those of an interrupted one when its cell was not measured."""
    cell = next((cell for cell in run.cells if cell["id"] == planned.cell), None)
    if cell is None or cell["duration_ns"] <= 0:
        return Figures(planned, 0.0, [], {}, Cpu(0.0, 0.0))
    series = run.series(cell)
    counts: dict[str, list[int]] = {}
    slowest: list[int] = []
    if planned.span.iops and len(series):
        whole = min(len(series), max(cell["duration_ns"] // cell["interval_ns"], 0))
        counts = {
            kind: [int(n) for n in series[f"{kind}_ops"][:whole]]
            for kind in KINDS if cell["kinds"].get(kind, {}).get("ops")
        }  # fmt: skip
        slowest = [int(ns) for ns in series["max_latency_ns"][:whole]] if len(counts) == 1 else []
    rows = _rows(cell, planned)
    return Figures(
        planned, cell["duration_ns"] / 1e9, rows, _latencies(run, cell), _cpu(cell, cpus), counts, slowest
    )  # fmt: skip


def _rows(cell: Mapping[str, Any], planned: PlannedSpan) -> list[Row]:
    rows = []
    for found in cell["workers_detail"]:
        at = found["worker"]
        thread, target = planned.workers[at]
        rows.append(Row(thread, target.shown, planned.sizes[at], _parts(found["kinds"])))
    return rows


def _parts(kinds: Mapping[str, Mapping[str, Any]]) -> dict[str, Part]:
    return {
        kind: Part(one["ops"], one["bytes"], one["latency_mean_ns"], one["latency_stddev_ns"])
        for kind, one in kinds.items() if kind in KINDS
    }  # fmt: skip


def _latencies(run: Run, cell: Mapping[str, Any]) -> dict[str, Latencies]:
    from naslab.results.histogram import merge

    found: dict[str, Latencies] = {}
    for kind in KINDS:
        if cell["kinds"].get(kind, {}).get("ops"):
            exact = cell["kinds"][kind]["latency_ns"]
            found[kind] = Latencies(run.histogram_of(cell, f"latency:{kind}"), exact["min"], exact["max"])
    if found:
        found["total"] = Latencies(
            merge(each.histogram for each in found.values()),
            min(each.lowest_ns for each in found.values()),
            max(each.highest_ns for each in found.values()),
        )
    return found


def _cpu(cell: Mapping[str, Any], cpus: int) -> Cpu:
    """Of the window, which holds the pauses too."""
    whole = cell["window_ns"] * max(cpus, 1)
    if whole <= 0:
        return Cpu(0.0, 0.0)
    return Cpu(100.0 * cell["cpu_user_ns"] / whole, 100.0 * cell["cpu_system_ns"] / whole)
