"""Data inside the page: JSON and binary, deflated and in base64, which no label can break out of."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.render.report.rawdata import COLUMN, Series
from naslab.results.run import SERIES_COLUMNS

_BYTES_OF = {"read_bytes": "read_ops", "write_bytes": "write_ops"}


def pack(data: bytes) -> str:
    """Deflated (zlib) bytes in base64."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def pack_json(value: Any) -> str:
    """JSON, deflated, in base64. Numbers that JSON cannot hold become null."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    return pack(text.encode("utf-8", errors="replace"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def pack_series(found: Sequence[Series], budget: int) -> tuple[dict[str, Any], str]:
    """(description for the page's script, base64) of all interval series.

    Columns are stored as planes of one byte: every lowest byte, then every second one, planes of zeros left
    out, which deflates to about half of interleaved integers. Bytes are stored as what differs from
    operations times record size. Negative numbers are ZigZag. Above `budget` deflated bytes the series are
    made coarser.
    """
    factor = 1
    while True:
        parts = [coarser(one.rows, factor) for one in found]
        columns, data = _planes(parts, [int(one.cell.get("record_bytes") or 0) for one in found])
        packed = zlib.compress(data, 6)
        if len(packed) <= budget or max((len(part) for part in parts), default=0) <= 1:
            break
        factor = max(factor + 1, math.ceil(factor * len(packed) / budget))
    cells = [
        [one.run, one.cell.get("id"), len(part), one.interval_s * factor, int(one.cell.get("record_bytes") or 0)]
        for one, part in zip(found, parts, strict=True)
    ]
    about = {"factor": factor, "rows": sum(map(len, parts)), "cells": cells, "columns": columns}
    return about, base64.b64encode(packed).decode("ascii")


def coarser(rows: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    """Series rows summed over `factor` neighbours; the worst latency is the largest."""
    if factor == 1 or len(rows) == 0:
        return rows
    starts = np.arange(0, len(rows), factor)
    out = np.add.reduceat(rows, starts, axis=0)
    worst = COLUMN["max_latency_ns"]
    out[:, worst] = np.maximum.reduceat(rows[:, worst], starts)
    return out


def _planes(parts: list[NDArray[np.int64]], record_bytes: list[int]) -> tuple[list[dict[str, Any]], bytes]:
    if not parts:
        return [], b""
    rows = np.concatenate(parts)
    record = np.repeat(np.array(record_bytes, np.int64), [len(part) for part in parts])
    columns: list[dict[str, Any]] = []
    planes: list[bytes] = []
    for name in SERIES_COLUMNS:
        values = rows[:, COLUMN[name]]
        ops = _BYTES_OF.get(name)
        if ops:
            values = values - rows[:, COLUMN[ops]] * record
        zigzag = np.ascontiguousarray((values << 1) ^ (values >> 63)).view(np.uint8).reshape(-1, 8)
        kept = [byte for byte in range(8) if zigzag[:, byte].any()]
        columns.append({"name": name, "planes": kept, "ops": ops})
        planes += [zigzag[:, byte].tobytes() for byte in kept]
    return columns, b"".join(planes)
