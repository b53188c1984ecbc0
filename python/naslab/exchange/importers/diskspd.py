"""What DiskSpd's text and XML say of a time span, and the cell made of it.

Source: github.com/microsoft/diskspd 2.0.21a and 2.2 (ResultParser.cpp, XmlResultParser.cpp); MiB/s is of 2^20 bytes,
latencies are milliseconds. Both forms are also what `naslab diskspd` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from naslab.exchange.importers.base import Cell
from naslab.results.columns import LATENCY_NAMES
from naslab.results.foreign import foreign_cell
from naslab.spec import operation_name

KINDS = ("read", "write", "total")
NAMES = {"50": "p50", "90": "p90", "99": "p99", "99.9": "p99_9", "0": "min", "100": "max"}
"""Of the percentiles, ours."""


@dataclass
class Setting:
    """What was asked of one target. None: not told."""

    path: str = ""
    block_bytes: int | None = None
    write_percent: float | None = None
    random: bool | None = None
    depth: int | None = None
    direct: bool | None = None
    through: bool | None = None


@dataclass
class Part:
    """Reads, writes or both of a time span. rate: bytes per s as the text has it, from a time with more digits than it
    prints; None where that is not told, or so low that its own two decimals are fewer."""

    bytes: int = 0
    ops: int = 0
    mean_ms: float | None = None
    rate: float | None = None


@dataclass
class Span:
    """A time span. latency_ms: of each kind, by our names. series: intervals of (milliseconds of its end, reads per s,
    writes per s). columns: of the text's tables, by heading. rounded: sizes of files are. linux: told by DiskSpd for
    Linux."""

    settings: list[Setting] = field(default_factory=list)
    seconds: float = 0.0
    threads: int | None = None
    cpu_percent: float | None = None
    parts: dict[str, Part] = field(default_factory=dict)
    latency_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    file_bytes: list[int] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)
    series: list[tuple[int, float, float]] = field(default_factory=list)
    depth: int | None = None
    columns: dict[str, int] = field(default_factory=dict)
    rounded: bool = False
    linux: bool = False


def span_cell(number: int, span: Span) -> tuple[Cell, dict[str, bytes]] | None:
    """(cell, raw data) of a time span; None for one without measured time or operations."""
    total = span.parts.get("total")
    if total is None or span.seconds <= 0:
        return None
    one = span.settings[0] if span.settings else Setting()
    duration = round(span.seconds * 1e9)
    told: dict[str, Any] = {
        "bytes": total.bytes, "ops": total.ops, "duration_ns": duration, "window_ns": duration, "pause_ns": 0,
        "iops": total.ops / span.seconds, "workers": span.threads, "file_bytes": _same(span.file_bytes),
        "record_bytes": _same([s.block_bytes for s in span.settings]), "workers_detail": span.workers,
        "queue_depth": span.depth or _same([s.depth for s in span.settings]), "direct": one.direct,
        "access": "positioned", "latency_ns": _latency(span, "total"), "block": 0,
        "kinds": {kind: _kind(span, kind) for kind in ("read", "write") if _ops(span, kind)},
    }  # fmt: skip
    share = one.write_percent
    if share is None:
        share = 100 * _ops(span, "write") / total.ops if total.ops else 0
    told |= {"write_fraction": share / 100, "pattern": "random" if one.random else "sequential"}
    told |= {"durability": None if one.through is None else "each" if one.through and share else "none"}
    told |= {"sync": None if one.through is None else "data" if one.through else "none"}
    rate = total.bytes / span.seconds if total.rate is None else total.rate
    cell = foreign_cell(number, operation_name(share, bool(one.random)), rate, **told)
    blob = _series(span, cell["record_bytes"])
    if blob is None:
        return cell, {}
    cell["interval_ns"], cell["start_ns"] = blob[0], 0
    return cell, {"series": blob[1]}


def _same(values: list[Any]) -> Any:
    """The value that all have; None where they differ or there are none."""
    return values[0] if values and len(set(values)) == 1 else None


def _ops(span: Span, kind: str) -> int:
    return span.parts[kind].ops if kind in span.parts else 0


def _latency(span: Span, kind: str) -> dict[str, int]:
    found = dict(span.latency_ms.get(kind, {}))
    part = span.parts.get(kind)
    if part and part.mean_ms is not None and part.ops:
        found["mean"] = part.mean_ms
    return {name: round(value * 1e6) for name, value in found.items()}


def _kind(span: Span, kind: str) -> dict[str, Any]:

    part = span.parts[kind]
    latency = {**dict.fromkeys(LATENCY_NAMES), **_latency(span, kind)}
    return {"ops": part.ops, "bytes": part.bytes, "latency_ns": latency, "response_ns": None}


def _series(span: Span, block: int | None) -> tuple[int, bytes] | None:
    """(interval, blob) of the buckets of IOPS; None where there are none of one length, or blocks' size is unknown."""
    import numpy as np

    ends = [end for end, _, _ in span.series]
    step_ms = ends[0] if ends else 0
    if not step_ms or not block or any(end != step_ms * (at + 1) for at, end in enumerate(ends)):
        return None
    rows = np.zeros((len(ends), 7), "<i8")
    rows[:, 0] = [round(read * step_ms / 1000) for _, read, _ in span.series]
    rows[:, 2] = [round(write * step_ms / 1000) for _, _, write in span.series]
    rows[:, 1], rows[:, 3] = rows[:, 0] * block, rows[:, 2] * block
    return step_ms * 10**6, rows.tobytes()


def environment(name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What the system section tells of the client."""
    client = {"host": name or None, **facts}
    return {"client": {key: value for key, value in client.items() if value is not None}}
