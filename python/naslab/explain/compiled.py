"""The model in the engine: rows and parameters handed over, numbers back. What it computes is told in `forward.py`."""

from __future__ import annotations

import numpy as np

from naslab import _engine
from naslab.explain.hypotheses import HIGH, LOW, NAMES, SWITCHES, Array
from naslab.explain.rows import Flags, Rows
from naslab.explain.steps import SMALL_RECORD

COLUMNS = (
    "read", "durable", "random", "null", "whole", "late", "record", "depth", "workers", "files", "size", "start",
    "seconds", "pair", "moved", "count", "weight", "seen", "order", "charge",
)  # fmt: skip
"""Of the rows: what the engine is handed."""


def model_of(r: Rows, error: float = 0.0) -> _engine.InferModel:
    """The engine's model of these rows. error: standard deviation of the model's own error, of a log rate."""
    columns = {name: packed(getattr(r, name)) for name in COLUMNS}
    columns["scale"] = packed(np.hypot(r.sigma, error))
    conditions = (r.nic_bytes_per_s, r.cpus, r.cpu_limit, [r.same_machine, r.here, r.counted, r.usual])
    return _engine.InferModel(
        NAMES,
        LOW.tolist(),
        HIGH.tolist(),
        list(SWITCHES.items()),
        columns,
        conditions,
        client_times(r),
        list(r.server_times),
    )


def client_times(r: Rows) -> list[tuple[float, float]]:
    """Medians of small and of large operations whose client's time was counted: (bytes, seconds)."""
    told = np.isfinite(r.client_s) & (r.client_s > 0)
    kinds: tuple[Flags, Flags] = (told & (r.record <= SMALL_RECORD), told & (r.record > SMALL_RECORD))
    return [(float(np.median(r.record[mine])), float(np.median(r.client_s[mine]))) for mine in kinds if mine.any()]


def predicted(theta: Array, r: Rows) -> Array:
    """Log operations per second of each row, (particles, rows): `forward.predict` of these particles."""
    return unpacked(model_of(r).predict(packed(theta))).reshape(len(theta), len(r))


def limited_by(theta: Array, r: Rows, forbidden: _engine.Forbidden) -> Flags:
    """Particles that are limited by what is forbidden, or nearly so."""
    return unpacked(model_of(r).limited_by(packed(theta), forbidden)) > 0


def packed(numbers: object) -> bytes:
    """Numbers as the engine takes them."""
    return np.asarray(numbers, dtype=np.float64).tobytes()


def unpacked(found: bytearray) -> Array:
    """Numbers as the engine gives them."""
    return np.frombuffer(found, dtype=np.float64)
