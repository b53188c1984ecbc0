"""The columns of the cells table: what `Run.table()`, .csv, .xlsx and .parquet hold, one row per cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

LATENCY_NAMES = ("min", "mean", "p50", "p90", "p99", "p99_9", "max")
"""What a cell's `latency_ns` holds."""


@dataclass(frozen=True)
class Column:
    """name: with its unit last. path: where the value is in the cell (`run.` = in the run document)."""

    name: str
    kind: Literal["int", "float", "str", "bool"]
    path: str
    nullable: bool = False


def _same(kind: Literal["int", "float", "str", "bool"], *names: str, nullable: bool = False) -> list[Column]:
    return [Column(name, kind, name, nullable) for name in names]


CELL_COLUMNS: tuple[Column, ...] = (
    Column("run_id", "str", "run.run_id"),
    Column("label", "str", "run.label", True),
    Column("command", "str", "run.command"),
    Column("target", "str", "run.target.url", True),
    Column("protocol", "str", "run.target.protocol", True),
    Column("cell", "int", "id"),
    Column("op", "str", "op"),
    Column("workload", "str", "workload", True),
    *_same("int", "file_bytes", "record_bytes", "queue_depth", "workers", "block"),
    *_same("str", "durability", "cache_state", "pattern", "access", "sync"),
    *_same("bool", "direct"),
    *_same("float", "write_fraction"),
    *_same("str", "status", "stop_reason"),
    *_same("int", "bytes", "ops", "errors", "duration_ns", "window_ns", "acknowledged_ns"),
    *_same("int", "flush_ns", nullable=True),
    *_same("float", "throughput_bytes_per_s", "acknowledged_bytes_per_s"),
    *_same("float", "durable_bytes_per_s", nullable=True),
    *_same("float", "throughput_mib_per_s", "iops"),
    *_same("float", "offered_per_s", nullable=True),
    *_same("float", "cpu_fraction"),
    *(
        Column(f"latency_ns_{name}", "int", f"latency_ns.{name}", True)
        for name in ("min", "mean", "p50", "p90", "p99", "p99_9", "max")
    ),
    *_same("str", "latency_clock"),
    *_same("int", "wire_bytes", "storage_read_bytes", "storage_write_bytes", nullable=True),
    *_same("str", "regime", nullable=True),
    *_same("bool", "predicted"),
    *_same("int", "start_wall_ns"),
    *_same("str", "regime_evidence", nullable=True),
)
"""In the order they are written. New columns go at the end; a column keeps its name and unit."""


def lookup(cell: Mapping[str, Any], path: str) -> Any:
    """The value at `latency_ns.p99`; None where a part is missing."""
    return _value(cell, path.split("."))


def _value(cell: Mapping[str, Any], parts: Sequence[str]) -> Any:
    value: Any = cell
    for part in parts:
        if not isinstance(value, dict | Mapping):  # a dict is asked after first: that is quick
            return None
        value = value.get(part)
    return value


_PLACES = [(path.startswith("run."), path.removeprefix("run.").split(".")) for path in (c.path for c in CELL_COLUMNS)]
"""Of each column: whether it is the run's, and the way to it."""


def cell_row(document: Mapping[str, Any], cell: Mapping[str, Any]) -> list[Any]:
    """The cell's values in the order of CELL_COLUMNS; None where there is none."""
    return [_value(document if of_run else cell, parts) for of_run, parts in _PLACES]
