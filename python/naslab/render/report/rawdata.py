"""Raw data of a run's cells, as the report needs it: histograms and interval series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naslab.errors import NaslabError
from naslab.results.run import SERIES_COLUMNS

if TYPE_CHECKING:
    from naslab.results.run import Run

COLUMN = {name: index for index, name in enumerate(SERIES_COLUMNS)}


@dataclass
class Series:
    """Interval series of one cell. rows: (n, 7) int64, columns `SERIES_COLUMNS`."""

    run: int
    cell: dict[str, Any]
    rows: NDArray[np.int64]

    @property
    def interval_s(self) -> float:
        """Length of an interval in seconds."""
        return float(self.cell.get("interval_ns") or 1_000_000_000) / 1e9

    def whole(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(start in s, rows) without a last interval cut short by the end of the timed window, which counts
        too few operations to give a rate."""
        n = len(self.rows)
        window_s = float(self.cell.get("window_ns") or self.cell.get("duration_ns") or 0) / 1e9
        last_s = window_s - (n - 1) * self.interval_s
        n -= 1 if n > 1 and 0 < last_s < 0.999 * self.interval_s else 0
        return np.arange(n, dtype=np.float64) * self.interval_s, self.rows[:n]


def read_series(run: Run, index: int, cell: dict[str, Any]) -> Series | None:
    """The interval series of a cell; None when it has none or it is damaged."""
    try:
        data = run.blob(cell, "series")
    except NaslabError:
        return None
    width = 8 * len(SERIES_COLUMNS)
    if not data or len(data) % width:
        return None
    return Series(index, cell, np.frombuffer(data, dtype="<i8").reshape(-1, len(SERIES_COLUMNS)))


def histograms(run: Run, cell: dict[str, Any]) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """(kind, values_ns, counts) of each kind of operation of a cell that has samples, reads first."""
    found = []
    for kind in (
        "read",
        "write",
        "flush",
        *(k for k in cell.get("kinds") or {} if k not in ("read", "write", "flush")),
    ):
        if kind not in (cell.get("kinds") or {}):
            continue
        try:
            values, counts = run.histogram(cell, f"latency:{kind}")
        except NaslabError:
            continue
        if len(values) and counts.sum() > 0:
            found.append((kind, values, counts))
    return found
