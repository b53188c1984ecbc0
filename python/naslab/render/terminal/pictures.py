"""Small pictures of a run for `naslab show`: heat maps of a sweep, sparklines of rate over time and of a curve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.results.cell import loaded_ns
from naslab.results.cell_names import load_name, stage_words
from naslab.text import screen as terminal
from naslab.units import count_text, duration_text, size_label, size_text

if TYPE_CHECKING:
    from rich.text import Text

    from naslab.results.parts.curve import CurveDocument
    from naslab.results.run import Run

LEAST_SIZES = 3
"""File sizes and record sizes that a map needs; fewer are seen from the numbers."""
MOST_ROWS = 16
LEAST_INTERVALS = 8
MOST_LINES = 8
MOST_MARKS = 100


def heat_maps(run: Run, ops: Sequence[str], width: int) -> list[Text | str]:
    """A map an operation, file size down and record size across, all on one scale from 0; [] without sweeps."""
    import numpy as np

    grids = {op: run.grid(op) for op in ops}
    grids = {
        op: (files, records, matrix / 1e6) for op, (files, records, matrix) in grids.items()
        if len(files) >= LEAST_SIZES and len(records) >= LEAST_SIZES and np.isfinite(matrix).any()
    }  # fmt: skip
    if not grids:
        return []
    known = np.concatenate([matrix[np.isfinite(matrix)] for _, _, matrix in grids.values()])
    low, high = float(known.min()), float(known.max())
    maps = [_map(op, *grid, high, width) for op, grid in grids.items()]
    most = max(len(files) for files, _, _ in grids.values())
    left_out = f", {MOST_ROWS} of {most} file sizes" if most > MOST_ROWS else ""
    blank = f", {terminal.NOTHING} not measured" if any(np.isnan(m).any() for _, _, m in grids.values()) else ""
    return [
        _text("Heat map: file size down, record size across", "bold"),
        *map(_text, terminal.side_by_side(maps, width)),
        _text(f"{terminal.BLOCKS} 0 to {_rate(high)} MB/s; lowest {_rate(low)}{blank}{left_out}"), "",
    ]  # fmt: skip


def _map(op: str, files: Any, records: Any, matrix: Any, high: float, width: int) -> list[str]:
    """One map: two blocks a record size, one where two do not fit, and some record sizes where that does not."""
    rows = _some(len(files), MOST_ROWS)
    names = [size_text(int(files[row])) for row in rows]
    room = width - max(map(len, names)) - 1
    wide = 2 if 2 * len(records) <= room else 1
    columns = _some(len(records), room // wide)
    values = [[float(matrix[row, column]) for column in columns] for row in rows]
    return terminal.heat_map(op, names, [size_text(int(records[at])) for at in columns], values, high, wide)


def _some(count: int, most: int) -> list[int]:
    """Numbers below `count`: all, or `most` of them spread evenly, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(at * (count - 1) / (most - 1)) for at in range(most)]


def _text(text: str, style: str = "") -> Text:
    """A line; one that is too long folds between words."""
    from rich.text import Text

    return Text(text, style=style)


def _rate(value: float) -> str:
    return count_text(value) if value >= 0.01 else f"{value:.2g}"


def sparklines(run: Run, swept: Sequence[str], width: int) -> list[Text | str]:
    """Rate over time of the loads that lasted, and p99 against load of a curve; [] where there is neither."""
    if document := run.document.get("curve"):
        from naslab.results.describe import typed
        from naslab.results.parts.curve import CurveDocument

        return list(_curve(typed(document, CurveDocument), width))
    found = [(cell, values) for cell in run.cells if cell["op"] not in swept and len(values := _rates(run, cell))]
    found = [(cell, values) for cell, values in found if len(values) >= LEAST_INTERVALS]
    if not found or run.document.get("profile"):
        return []
    shown = sorted(found, key=lambda one: -len(one[1]))[:MOST_LINES]
    rest = f", the longest {len(shown)} of {len(found)}" if len(found) > len(shown) else ""
    lines: list[Text | str] = [_text(f"Rate over time, MB/s from 0{rest}", "bold")]
    for cell, values in [one for one in found if any(one[0] is cell for cell, _ in shown)]:
        lines += _series(cell, values, width)
    return [*lines, ""]


def _rates(run: Run, cell: Mapping[str, Any]) -> list[float]:
    """MB/s of each whole interval of the load."""
    rows = run.series(cell)
    interval_s = (cell.get("interval_ns") or 0) / 1e9
    if not len(rows) or not interval_s or not cell.get("window_ns"):
        return []
    whole = rows[: int(loaded_ns(cell) / 1e9 / interval_s + 1e-9)]
    found: list[float] = ((whole["read_bytes"] + whole["write_bytes"]) / interval_s / 1e6).tolist()
    return found


def _series(cell: Mapping[str, Any], values: Sequence[float], width: int) -> Iterator[Text]:
    """The load's name and range; then the picture between its first and its last value."""
    stage = stage_words(cell.get("workload"))
    about = [stage] if stage and stage != cell.get("workload") else []
    about += [f"{size_label(cell['file_bytes'])} file"] if cell.get("file_bytes") else []
    name = load_name(cell) + (f" ({', '.join(about)})" if about else "")
    lasted = duration_text(len(values) * cell["interval_ns"])
    least, most = min(values), max(values)
    yield _text(f"{name}: {_rate(least)} to {_rate(most)} in {lasted}")
    yield _text(_framed(values, 0.0, most, _rate(values[0]), _rate(values[-1]), width))


def _framed(values: Sequence[float], low: float, high: float, first: str, last: str, width: int) -> str:
    marks = min(MOST_MARKS, width - len(first) - len(last) - 4)
    return f"  {first} {terminal.spark(values, low, high, marks)} {last}"


def _curve(curve: CurveDocument, width: int) -> Iterator[Text | str]:
    """p99 of the response time at each load, on a log scale: it climbs over decades."""
    steps = [(step.offered_per_s, p99) for step in curve.steps if (p99 := step.response_ns.p99)]
    if len(steps) < LEAST_SIZES:
        return
    times = [p99 for _, p99 in steps]
    logs = [math.log10(value) for value in times]
    loads = f"{count_text(steps[0][0])}/s to {count_text(steps[-1][0])}/s"
    yield _text("p99 of the response time, one mark per load, log scale", "bold")
    yield _text(_framed(logs, min(logs), max(logs), duration_text(times[0]), duration_text(times[-1]), width))
    yield _text(f"  offered {loads}")
    yield ""
