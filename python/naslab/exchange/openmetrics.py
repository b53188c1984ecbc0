"""Runs as metrics: OpenMetrics 1.0 text (each value with its time), or Prometheus text 0.0.4 (without times).

Prometheus takes the first by `promtool tsdb create-blocks-from openmetrics`, and the second from a file of
node_exporter's textfile collector, which refuses times. One sample a cell and metric; what a run does not tell has no
sample. Sources: OpenMetrics specification 1.0; Prometheus, "Exposition formats".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.results.columns import lookup

if TYPE_CHECKING:
    from naslab.results.run import Run


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
LATENCY = "naslab_latency_seconds"
QUANTILES = (("0", "min"), ("0.5", "p50"), ("0.9", "p90"), ("0.99", "p99"), ("0.999", "p99_9"), ("1", "max"))
LABELS = (
    "op", "workload", "file_bytes", "record_bytes", "queue_depth", "workers", "block", "durability", "cache_state",
    "regime", "status", "predicted",
)  # fmt: skip
"""Fields of a cell that become labels, after run, cell and target; those without a value are left out."""


def write_metrics(runs: Sequence[Run], path: Path, *, openmetrics: bool) -> None:
    """Writes the text, family after family. openmetrics: with units, times and the end mark. Raises OSError."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines(runs, openmetrics))


def lines(runs: Sequence[Run], openmetrics: bool) -> Iterator[str]:
    """The text's lines. A family without a sample is left out."""
    yield from _runs_info(runs, openmetrics)
    for metric in METRICS:
        yield from _family(metric, runs, openmetrics)
    yield from _latency(runs, openmetrics)
    if openmetrics:
        yield "# EOF"


def _runs_info(runs: Sequence[Run], openmetrics: bool) -> Iterator[str]:
    name = "naslab_run" if openmetrics else "naslab_run_info"
    yield f"# TYPE {name} {'info' if openmetrics else 'gauge'}"
    yield f"# HELP {name} What was measured, and how it ended."
    for run in runs:
        document = run.document
        target = document["target"]
        named = {
            "run": run.run_id, "command": document["command"], "status": document["status"],
            "label": document.get("label"), "naslab_version": document.get("naslab_version"),
            "target": target.get("url"), "protocol": target.get("protocol"), "dialect": target.get("dialect"),
            "signing": target.get("signing"), "encryption": target.get("encryption"),
        }  # fmt: skip
        yield f"naslab_run_info{labels_of(named)} 1{_time(document.get('end_wall_ns'), openmetrics)}"


def _family(metric: Metric, runs: Sequence[Run], openmetrics: bool) -> Iterator[str]:
    head = head_of(metric.name, "gauge", metric.unit, metric.about, openmetrics)
    for run, cell in _cells(runs):
        value = number_of(lookup(cell, metric.field), metric.scale)
        if value is None or (cell["status"] == "failed" and not metric.failed):
            continue
        yield from head
        head = []
        yield f"{metric.name}{labels_of(_cell_labels(run, cell))} {value}{_time(_end_ns(cell), openmetrics)}"


def _latency(runs: Sequence[Run], openmetrics: bool) -> Iterator[str]:
    """A summary: quantiles of each cell; quantile 0 is the smallest, 1 the largest."""
    about = "Latency of operations; in an open loop from the due time."
    head = head_of(LATENCY, "summary", "seconds", about, openmetrics)
    for run, cell in _cells(runs):
        latency = cell.get("latency_ns") or {}
        found = [(q, number_of(latency.get(name), 1e-9)) for q, name in QUANTILES]
        if cell["status"] == "failed" or all(value is None for _, value in found):
            continue
        yield from head
        head = []
        named = _cell_labels(run, cell)
        when = _time(_end_ns(cell), openmetrics)
        for quantile, value in found:
            if value is not None:
                yield f"{LATENCY}{labels_of({**named, 'quantile': quantile})} {value}{when}"
        if isinstance(count := cell.get("ops"), int):
            yield f"{LATENCY}_count{labels_of(named)} {count}{when}"


def head_of(name: str, kind: str, unit: str, about: str, openmetrics: bool) -> list[str]:
    units = [f"# UNIT {name} {unit}"] if unit and openmetrics else []
    return [f"# TYPE {name} {kind}", *units, f"# HELP {name} {about}"]


def _cells(runs: Sequence[Run]) -> Iterator[tuple[Run, dict[str, Any]]]:
    return ((run, cell) for run in runs for cell in run.cells)


def _cell_labels(run: Run, cell: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: cell.get(name) for name in LABELS}
    return {"run": run.run_id, "cell": cell["id"], "target": run.document["target"].get("url"), **own}


def labels_of(values: Mapping[str, Any]) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in values.items() if value not in (None, ""))
    return "{" + ",".join(pairs) + "}"


def _escaped(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # What cannot be UTF-8 (half of a pair, from a file name) has no place in the text.
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")


def number_of(value: Any, scale: float) -> str | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return repr(value) if scale == 1 else f"{value * scale:.9g}"


def _end_ns(cell: Mapping[str, Any]) -> int | None:
    start = cell.get("start_wall_ns")
    return start + ((cell.get("end_ns") or 0) - (cell.get("start_ns") or 0)) if start else None


def _time(wall_ns: int | None, openmetrics: bool) -> str:
    """The time in seconds since 1970, to the millisecond; nothing where it is not known or has no place."""
    return f" {wall_ns // 10**9}.{wall_ns % 10**9 // 10**6:03d}" if openmetrics and wall_ns else ""
