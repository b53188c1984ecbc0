"""Runs as samples: numbers with a name, labels and a time, as programs that keep metrics take them.

`openmetrics` and `scrape` write them as text, `otlp` sends them.
One sample a cell and metric; what a run does not tell has no sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from naslab.explain.answer import answer
from naslab.results.columns import lookup

if TYPE_CHECKING:
    from naslab.results.run import Run


@dataclass(frozen=True)
class Family:
    """Samples that mean the same. unit: as OpenMetrics names it. kind: gauge, summary or info."""

    name: str
    unit: str
    about: str
    kind: str = "gauge"


class Sample(NamedTuple):
    """value: as the run has it. scale: from there to the unit of the family. wall_ns: its time since 1970, if known."""

    name: str
    labels: dict[str, Any]
    value: float
    scale: float = 1
    wall_ns: int | None = None

    @property
    def text(self) -> str:
        """The value in the family's unit."""
        return repr(self.value) if self.scale == 1 else f"{self.value * self.scale:.9g}"


@dataclass(frozen=True)
class Metric:
    """A gauge. field: where the value is in the cell. scale: from the field's unit to the metric's. failed: also of
    cells that failed."""

    name: str
    unit: str
    about: str
    field: str
    scale: float = 1
    failed: bool = False


METRICS = (
    Metric("naslab_throughput_bytes_per_second", "bytes_per_second", "Bytes divided by the timed window.",
           "throughput_bytes_per_s"),
    Metric("naslab_acknowledged_bytes_per_second", "bytes_per_second", "Bytes divided by the time to the last answer.",
           "acknowledged_bytes_per_s"),
    Metric("naslab_durable_bytes_per_second", "bytes_per_second", "Bytes divided by that time and the flush.",
           "durable_bytes_per_s"),
    Metric("naslab_operations_per_second", "", "Operations divided by the timed window.", "iops"),
    Metric("naslab_offered_operations_per_second", "", "Open loop: operations that fell due.", "offered_per_s"),
    Metric("naslab_moved_bytes", "bytes", "Bytes moved in the timed window.", "bytes"),
    Metric("naslab_operations", "", "Operations that ended in the timed window.", "ops"),
    Metric("naslab_errors", "", "Operations that failed.", "errors", failed=True),
    Metric("naslab_duration_seconds", "seconds", "Timed window less pauses.", "duration_ns", 1e-9),
    Metric("naslab_flush_seconds", "seconds", "Flush after it.", "flush_ns", 1e-9),
    Metric("naslab_wire_bytes", "bytes", "Bytes sent and received on the wire.", "wire_bytes"),
    Metric("naslab_client_cpu_ratio", "ratio", "Processor time of the client divided by the window; 1 is one core.",
           "cpu_fraction"),
    Metric("naslab_latency_mean_seconds", "seconds", "Mean latency.", "latency_ns.mean", 1e-9),
)  # fmt: skip
RUN_INFO = Family("naslab_run_info", "", "What was measured, and how it ended.", "info")
LATENCY = Family(
    "naslab_latency_seconds", "seconds", "Latency of operations; in an open loop from the due time.", "summary"
)
QUANTILES = (("0", "min"), ("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"), ("0.999", "p99_9"), ("1", "max"))
LABELS = (
    "op", "workload", "file_bytes", "record_bytes", "queue_depth", "workers", "block", "durability", "cache_state",
    "regime", "status", "predicted",
)  # fmt: skip
"""Fields of a cell that become labels, after run, cell and target; those without a value are left out."""
ENDED = Family(
    "naslab_last_run_timestamp_seconds", "seconds", "When the newest run of a target ended, including a failed one."
)
PROBABILITY = Family("naslab_limit_probability", "", "Probability that this limits the target for this class of I/O.")
ALLOWED = {
    "bytes_per_s": (
        Family("naslab_limit_bytes_per_second", "bytes_per_second", "Throughput that a limit allows."),
        1.0,
    ),
    "iops": (Family("naslab_limit_operations_per_second", "", "Operations that a limit allows."), 1.0),
    "ns": (Family("naslab_limit_seconds", "seconds", "Latency that a limit causes."), 1e-9),
}
"""What a limit allows, and the factor to its family's unit, by the limit's own unit."""
WARNINGS = Family("naslab_run_warnings", "", "Warnings of the run; 0 means that nothing makes its numbers doubtful.")
WARNINGS_BY_KIND = Family("naslab_warnings", "", "Warnings of the run by kind.")
Found = tuple[Family, Iterator[Sample]]


def of_runs(runs: Sequence[Run]) -> Iterator[Found]:
    """What was measured, and every cell; a family may have no sample."""
    yield RUN_INFO, (_run_info(run) for run in runs)
    for metric in METRICS:
        yield Family(metric.name, metric.unit, metric.about), _of_metric(metric, runs)
    yield LATENCY, _latencies(runs)


def conclusions(run: Run) -> Iterator[Found]:
    """The verdict and the warnings of a run."""
    families: dict[Family, list[Sample]] = {}
    for limit in answer(run.document).limits:
        where, unit = limit.get("applies_to") or {}, limit.get("unit")
        about = {"op": where.get("op") or "", "size": where.get("size") or "", "limit": limit["kind"]}
        values = [(PROBABILITY, limit.get("confidence"), 1.0)]
        if unit in ALLOWED:
            family, scale = ALLOWED[unit]
            values.append((family, limit.get("value"), scale))
        for family, value, scale in values:
            if is_number(value):
                sample = Sample(family.name, {**_of_run(run), **about}, value, scale, _ended_ns(run))
                families.setdefault(family, []).append(sample)
    yield from ((family, iter(found)) for family, found in families.items())
    kinds = Counter(str(warning.get("kind")) for warning in run.document.get("warnings") or [])
    when = _ended_ns(run)
    yield WARNINGS, iter([Sample(WARNINGS.name, _of_run(run), kinds.total(), 1, when)])
    named = (({**_of_run(run), "kind": kind}, count) for kind, count in sorted(kinds.items()))
    yield WARNINGS_BY_KIND, (Sample(WARNINGS_BY_KIND.name, labels, count, 1, when) for labels, count in named)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a run has a place among samples."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def kept(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Labels that have a value. What cannot be UTF-8 (half of a pair, from a file name) is replaced."""
    found = {name: value for name, value in labels.items() if value not in (None, "")}
    texts = {n: v.encode("utf-8", "replace").decode("utf-8") for n, v in found.items() if isinstance(v, str)}
    return {**found, **texts}


def _run_info(run: Run) -> Sample:
    document = run.document
    target = document["target"]
    named = {
        "run": run.run_id, "command": document["command"], "status": document["status"],
        "label": document.get("label"), "naslab_version": document.get("naslab_version"),
        "target": target.get("url"), "protocol": target.get("protocol"), "dialect": target.get("dialect"),
        "signing": target.get("signing"), "encryption": target.get("encryption"),
    }  # fmt: skip
    return Sample(RUN_INFO.name, named, 1, 1, _ended_ns(run))


def _of_metric(metric: Metric, runs: Sequence[Run]) -> Iterator[Sample]:
    for run, cell in _cells(runs):
        value = lookup(cell, metric.field)
        if is_number(value) and (cell["status"] != "failed" or metric.failed):
            yield Sample(metric.name, _of_cell(run, cell), value, metric.scale, _end_ns(cell))


def _latencies(runs: Sequence[Run]) -> Iterator[Sample]:
    """Quantiles of each cell; quantile 0 is the smallest, 1 the largest."""
    for run, cell in _cells(runs):
        latency = cell.get("latency_ns") or {}
        found = [(q, value) for q, name in QUANTILES if is_number(value := latency.get(name))]
        if cell["status"] == "failed" or not found:
            continue
        named, when = _of_cell(run, cell), _end_ns(cell)
        for quantile, value in found:
            yield Sample(LATENCY.name, {**named, "quantile": quantile}, value, 1e-9, when)
        if isinstance(count := cell.get("ops"), int):
            yield Sample(f"{LATENCY.name}_count", named, count, 1, when)


def _cells(runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    return ((run, cell) for run in runs for cell in run.cells)


def _of_run(run: Run) -> dict[str, Any]:
    return {"run": run.run_id, "target": run.document["target"].get("url")}


def _of_cell(run: Run, cell: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: cell.get(name) for name in LABELS}
    return {"run": run.run_id, "cell": cell["id"], "target": run.document["target"].get("url"), **own}


def _ended_ns(run: Run) -> int | None:
    return run.document.get("end_wall_ns")


def _end_ns(cell: Mapping[str, Any]) -> int | None:
    start = cell.get("start_wall_ns")
    return start + ((cell.get("end_ns") or 0) - (cell.get("start_ns") or 0)) if start else None
