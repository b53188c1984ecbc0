"""The figures of one time span, taken from the run document and its raw data: what text and XML both print."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from naslab.commands.diskspd.plan import PlannedSpan
from naslab.commands.diskspd.processors import Usage
from naslab.results.cell import loaded_ns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    """One thread on one target. iops_stddev: by kind, of its operations per second over the intervals."""

    thread: int
    path: str
    file_bytes: int
    kinds: Mapping[str, Part]
    iops_stddev: Mapping[str, float] = field(default_factory=dict)

    def part(self, section: Section) -> Part:
        """Figures of this row in a table."""
        return together(_of(self.kinds, section))

    def deviation(self, section: Section) -> float | None:
        """Of `iops_stddev`, what a table shows; None when it is not known, as of reads and writes together."""
        if section != "total":
            return self.iops_stddev.get(section)
        return next(iter(self.iops_stddev.values())) if len(self.iops_stddev) == 1 else None


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
class Interval:
    """Latencies of the operations of one kind that ended in an interval of -D, in nanoseconds; all 0 without any.

    From counts in buckets a quarter of a power of two wide: within 25 %, but never beyond the whole test's extremes.
    """

    lowest_ns: float = 0.0
    highest_ns: float = 0.0
    mean_ns: float = 0.0
    stddev_ns: float = 0.0


@dataclass(frozen=True)
class Cpu:
    """Share of all processors' time, in per cent: of what all programs used, or of what naslab itself did."""

    user: float
    kernel: float

    @property
    def usage(self) -> float:
        """User and kernel."""
        return self.user + self.kernel

    @property
    def idle(self) -> float:
        """The rest."""
        return max(0.0, 100.0 - self.usage)


@dataclass(frozen=True)
class Figures:
    """One time span. seconds: measured time, 0 when it was interrupted before.

    latencies: by kind and `total`, those that have operations. cpu: the mean of `processors`, or, without those, of
    naslab itself. counts: {kind: operations in each whole interval}. intervals: {kind: latencies in each}, where
    they were recorded.
    """

    planned: PlannedSpan
    seconds: float
    rows: list[Row]
    latencies: Mapping[str, Latencies]
    cpu: Cpu
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    intervals: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    processors: Sequence[Usage] = ()

    @property
    def threads(self) -> int:
        """Threads as DiskSpd counts them."""
        return self.planned.span.threads or len(self.rows)

    def total(self, section: Section) -> Part:
        """All rows of a table."""
        return together(row.part(section) for row in self.rows)

    def row_iops_stddev(self, row: Row, section: Section) -> float | None:
        """The same of one row."""
        return self.iops_stddev(section) if len(self.rows) == 1 else row.deviation(section)

    def iops_stddev(self, section: Section) -> float | None:
        """Standard deviation of operations per second over the intervals; None without one."""
        columns = [counts for kind, counts in self.counts.items() if section in ("total", kind)]
        sums = [sum(each) for each in zip(*columns, strict=True)] if columns else []
        if not sums:
            return None
        mean = sum(sums) / len(sums)
        deviation = math.sqrt(sum((each - mean) ** 2 for each in sums) / len(sums))
        return deviation / (self.planned.span.bucket_ms / 1000)


def figures_of(run: Run, planned: PlannedSpan, cpus: int, processors: Sequence[Usage] = ()) -> Figures:
    """The figures of a time span; those of an interrupted one when its cell was not measured.

    cpus: how many the client has. processors: what each did in the measured time, where that is known.
    """
    cell = next((cell for cell in run.cells if cell["id"] == planned.cell), None)
    if cell is None or cell["duration_ns"] <= 0:
        return Figures(planned, 0.0, [], {}, Cpu(0.0, 0.0))
    counts = _counts(run, cell) if planned.span.iops else {}
    return Figures(
        planned, cell["duration_ns"] / 1e9, _rows(cell, planned), _latencies(run, cell), _cpu(cell, cpus, processors),
        counts, {kind: _intervals(run, cell, kind, len(each)) for kind, each in counts.items()}, processors,
    )  # fmt: skip


def _counts(run: Run, cell: Mapping[str, Any]) -> dict[str, list[int]]:
    """Operations of each kind that occurred in each whole interval in which some were started.

    The last one counts when it lacks less than 1 %: pauses, which are no measured time, end a test of 3 s at 2.998 s.
    """
    series, each_ns = run.series(cell), cell["interval_ns"]
    whole = min(len(series), (min(cell["duration_ns"], loaded_ns(cell)) + each_ns // 100) // each_ns)
    known = [kind for kind in KINDS if whole and cell["kinds"].get(kind, {}).get("ops")]
    return {kind: [int(n) for n in series[f"{kind}_ops"][:whole]] for kind in known}


def _intervals(run: Run, cell: Mapping[str, Any], kind: str, whole: int) -> list[Interval]:
    """Latencies of a kind in each of so many intervals; none when they were not recorded."""
    edges, counts = run.latency_series(cell, kind)
    exact = cell["kinds"][kind]["latency_ns"]
    found = [_interval(edges, row, exact["min"], exact["max"]) for row in counts[:whole]]
    if all(cell["kinds"].get(each, {}).get("ops") for each in KINDS):
        return found
    slowest = run.series(cell)["max_latency_ns"]  # of all kinds together, exact
    return [dataclasses.replace(each, highest_ns=float(slowest[at])) for at, each in enumerate(found)]


def _interval(edges: NDArray[np.float64], counts: NDArray[np.int64], lowest_ns: int, highest_ns: int) -> Interval:
    import numpy as np

    used = np.flatnonzero(counts)
    if not len(used):
        return Interval()
    held = np.clip(edges, lowest_ns, highest_ns)
    middles = (held[:-1] + held[1:]) / 2
    mean = float(np.average(middles, weights=counts))
    deviation = math.sqrt(float(np.average((middles - mean) ** 2, weights=counts)))
    return Interval(float(held[used[0]]), float(held[used[-1] + 1]), mean, deviation)


def _rows(cell: Mapping[str, Any], planned: PlannedSpan) -> list[Row]:
    rows = []
    for found in cell["workers_detail"]:
        at = found["worker"]
        thread, target = planned.workers[at]
        deviations = {k: one["iops_stddev"] for k, one in found["kinds"].items() if k in KINDS and one["ops"]}
        rows.append(Row(thread, target.shown, planned.sizes[at], _parts(found["kinds"]), deviations))
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


def _cpu(cell: Mapping[str, Any], cpus: int, processors: Sequence[Usage]) -> Cpu:
    """Of the window, which holds the pauses too."""
    if processors:
        return Cpu(
            sum(one.user for one in processors) / len(processors),
            sum(one.kernel for one in processors) / len(processors),
        )
    whole = cell["window_ns"] * max(cpus, 1)
    if whole <= 0:
        return Cpu(0.0, 0.0)
    return Cpu(100.0 * cell["cpu_user_ns"] / whole, 100.0 * cell["cpu_system_ns"] / whole)
