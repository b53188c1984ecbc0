"""The interval series of runs as one table: a row an interval, joined to the cells by run_id and cell."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.exchange.files import safe_text
from naslab.results.run import SERIES_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from naslab.results.run import Run

HEADER = ("run_id", "cell", "t_s", "bytes_per_s", *SERIES_COLUMNS)
"""Columns. t_s: start of the interval from the cell's start. bytes_per_s: read and written in it, by its length."""
TIME_COLUMN, RATE_COLUMN = 3, 4
"""Their places in a sheet, from 1."""


def rows(runs: Sequence[Run]) -> Iterator[tuple[Any, ...]]:
    """All intervals in the columns of HEADER."""
    for run in runs:
        for cell in run.cells:
            series = run.series(cell)
            if len(series):
                rates = rates_of(cell, series)
                for row, rate in zip(series.tolist(), rates, strict=True):
                    yield (run.run_id, cell["id"], row[0], rate, *row[1:])


def rates_of(cell: Mapping[str, Any], series: NDArray[Any]) -> list[float | None]:
    """Bytes/s of each interval. The end of the cell cuts the last one short: its rate is by the time it lasted, and
    None below half an interval, where chance rules."""
    interval_s = cell["interval_ns"] / 1e9
    moved = series["read_bytes"] + series["write_bytes"]
    lasted_s = min(interval_s, (cell.get("window_ns") or 0) / 1e9 - float(series["t_s"][-1]))
    enough = lasted_s >= interval_s / 2 or (len(series) == 1 and lasted_s > 0)
    return [*(moved[:-1] / interval_s).tolist(), float(moved[-1]) / lasted_s if enough else None]


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """Writes the table; a rate that is not known is empty. Raises OSError, StoreError."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows((safe_text(run_id), *values) for run_id, *values in rows(runs))


def columns(runs: Sequence[Run]) -> dict[str, Any]:
    """The table by column: lists of run_id, arrays of the rest; a rate that is not known is NaN.

    A million rows need about 100 MB.
    """
    import numpy as np

    found = [(run, cell, series) for run in runs for cell in run.cells if len(series := run.series(cell))]
    cells = [np.full(len(series), cell["id"], np.int64) for _, cell, series in found]
    rates = [np.array(rates_of(cell, series), np.float64) for _, cell, series in found]
    made: dict[str, Any] = {
        "run_id": [run.run_id for run, _, series in found for _ in range(len(series))],
        "cell": np.concatenate([np.empty(0, np.int64), *cells]),
    }
    made["t_s"] = np.concatenate([np.empty(0), *(series["t_s"] for _, _, series in found)])
    made["bytes_per_s"] = np.concatenate([np.empty(0), *rates])
    for name in SERIES_COLUMNS:
        made[name] = np.concatenate([np.empty(0, np.int64), *(series[name] for _, _, series in found)])
    return made
