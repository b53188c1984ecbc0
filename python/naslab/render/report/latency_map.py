"""Latency over time as a heat map: for each step of time, which share of the operations took how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naslab.errors import NaslabError
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, legend_above, log_ticks, number, numbers, plain_axis
from naslab.render.report.labels import percent, time_label
from naslab.render.report.model import measured, place, spot
from naslab.results.cell_names import load_name, stage_words, test_name
from naslab.results.run import latency_edges_ns

if TYPE_CHECKING:
    from naslab.results.cell import Cell
    from naslab.results.run import Run

MOST_COLUMNS = 240
FIRST_RUN = "first run"
"""Workload of the parts of one run of `naslab burst`."""
LEAST_INTERVALS = 4
_NS = 1e9


@dataclass(frozen=True)
class LatencyMap:
    """How slow operations were over time.

    starts_s: (n + 1,) edges of the steps of time. edges_ns: (m + 1,) of the latencies. counts: (n, m) operations.
    """

    starts_s: NDArray[np.float64]
    edges_ns: NDArray[np.float64]
    counts: NDArray[np.int64]

    def quantile_ns(self, q: float) -> NDArray[np.float64]:
        """(n,) latency that the share q of a step's operations did not pass, upper end of its bucket; NaN: none."""
        total = self.counts.sum(axis=1)
        ranks = np.cumsum(self.counts, axis=1)
        at = (ranks >= np.ceil(q * total)[:, None]).argmax(axis=1)
        return np.where(total > 0, self.edges_ns[at + 1], np.nan)


def latency_map(run: Run, cells: Sequence[dict[str, Any]], kind: str = "all") -> LatencyMap | None:
    """Cells that ran one after the other, on one clock; None when they have less than four intervals, or no data.

    kind: `read`, `write` or `all`. Intervals are merged to at most 240 steps of equal length.
    """
    found = [(cell, *part) for cell in cells if (part := _read(run, cell, kind)) is not None]
    interval_s = {cell["interval_ns"] / _NS for cell, _, _ in found}
    if len(interval_s) != 1 or sum(len(counts) for _, _, counts in found) < LEAST_INTERVALS:
        return None
    step_s = interval_s.pop()
    origin_ns = found[0][0]["start_ns"]
    low = min(edges[0] for _, edges, _ in found)
    high = max(edges[-1] for _, edges, _ in found)
    edges = _ladder(low, high)
    at = [round((cell["start_ns"] - origin_ns) / _NS / step_s) for cell, _, _ in found]
    length = max(start + len(counts) for start, (_, _, counts) in zip(at, found, strict=True))
    merge = -(-length // MOST_COLUMNS)
    steps = -(-length // merge)
    total = np.zeros((steps, len(edges) - 1), np.int64)
    for start, (_, own, counts) in zip(at, found, strict=True):
        first = int(np.argmin(np.abs(edges - own[0])))
        rows = (start + np.arange(len(counts))) // merge
        np.add.at(total[:, first : first + counts.shape[1]], rows, counts)
    return LatencyMap(np.arange(steps + 1) * merge * step_s, edges, total)


def loads(run: Run) -> list[tuple[str, list[Cell], str]]:
    """(name, cells, kind) of each load with latencies over time; parts of one first run are one load."""
    timed = [cell for cell in run.cells if measured(cell) and _has_map(run, cell)]
    first = [cell for cell in timed if cell.get("workload") == FIRST_RUN]
    several = len({spot(cell) for cell in timed}) > 1
    out = []
    for cell in timed:
        if cell in first:
            if cell is not first[0]:
                continue
            cells, name = first, f"{load_name(cell)}, from the start"
        else:
            cells, name = [cell], f"{test_name(cell)}, {place(spot(cell))}" if several else _alone(cell)
        kinds = [kind for kind in ("read", "write") if (cell["kinds"].get(kind) or {}).get("ops")]
        out += [(f"{name}, {kind}s" if len(kinds) > 1 else name, cells, kind) for kind in kinds]
    return out


def _alone(cell: dict[str, Any]) -> str:
    name, stage = load_name(cell), stage_words(cell.get("workload"))
    return f"{name} ({stage})" if stage and stage != name else name


def _has_map(run: Run, cell: dict[str, Any]) -> bool:
    return any(name.startswith("latency_series:") for name in run.blob_names(cell))


def _read(run: Run, cell: dict[str, Any], kind: str) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    try:
        edges, counts = run.latency_series(cell, kind)
    except NaslabError:
        return None
    return (edges, counts) if len(counts) else None


def _ladder(low: float, high: float) -> NDArray[np.float64]:
    """Edges of quarter octaves from one edge to another."""
    edges = latency_edges_ns(4 * int(np.log2(low)), 4 * int(np.log2(high)) + 3)
    return np.asarray(edges[(edges >= low * 0.999) & (edges <= high * 1.001)])


def figure(found: LatencyMap) -> dict[str, Any]:
    """Colour is the share of a step's operations, on a log scale; lines: half and 99 % of them were faster."""
    total = found.counts.sum(axis=1, keepdims=True)
    share = np.divide(found.counts * 100.0, total, out=np.zeros(found.counts.shape), where=total > 0)
    logs = np.log10(np.maximum(share, 1e-3))
    rows = [
        [number(level) if there else None for level, there in zip(levels, filled, strict=True)]
        for levels, filled in zip(logs.T.tolist(), (found.counts > 0).T.tolist(), strict=True)
    ]
    low = float(logs[found.counts > 0].min(initial=0.0))
    ticks = [tick for tick in (0.001, 0.01, 0.1, 1, 10, 100) if np.log10(tick) >= low - 1e-9] or [100]
    heat: dict[str, Any] = {
        "type": "heatmap",
        "x": numbers(found.starts_s),
        "y": numbers(found.edges_ns / 1e6),
        "z": rows,
        "zmin": low,
        "zmax": 2,
        "colorscale": theme.CIVIDIS,
        "colorbar": {
            "title": {"text": "%", "side": "top"}, "tickvals": numbers(np.log10(ticks)),
            "ticktext": [f"{tick:g}" for tick in ticks], "thickness": 12, "outlinewidth": 0, "len": 0.9,
        },
        "hoverongaps": False,
        "hoverinfo": "skip",
        "name": "Share of operations",
    }  # fmt: skip
    values = (found.edges_ns / 1e6).tolist()
    shown = log_ticks(values[0], values[-1])
    axis = plain_axis(
        "Latency", type="log", tickvals=shown, ticktext=[time_label(round(tick * 1e6)) for tick in shown],
        range=[number(np.log10(values[0] / 1.1)), number(np.log10(values[-1] * 1.1))], showgrid=False,
    )  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis("Time since the start (s)", showgrid=False), yaxis=axis, height=380, showlegend=True,
        hovermode="x",
    )  # fmt: skip
    legend_above(layout)
    layout["margin"]["t"] = 36
    lines = [_line(found, 0.5, "Half", theme.ACCENT), _line(found, 0.99, "99 %", theme.LATENCY)]
    return {"data": [heat, *lines], "layout": layout}


def _line(found: LatencyMap, q: float, name: str, colour: str) -> dict[str, Any]:
    values = found.quantile_ns(q) / 1e6
    middle = (found.starts_s[:-1] + found.starts_s[1:]) / 2
    known = ~np.isnan(values)
    return {
        "type": "scatter", "mode": "lines", "name": f"{name} of the operations within", "x": numbers(middle[known]),
        "y": numbers(values[known]), "line": {"color": colour, "width": 1.5, "shape": "hvh"},
        "hovertemplate": f"{name} within %{{y:,.3~g}} ms<extra></extra>",
    }  # fmt: skip


def words(found: LatencyMap) -> str:
    """Where the slow operations were."""
    half, most = found.quantile_ns(0.5), found.quantile_ns(0.99)
    known = np.flatnonzero(~np.isnan(most))
    worst, best = known[np.argmax(most[known])], known[np.argmin(most[known])]
    share = float(np.mean(most[known] >= 2 * np.median(most[known])))
    text = (
        f"Half of the operations within {_span(half[known])}, 99 % within {_span(most[known])}, by step of "
        f"{time_label((found.starts_s[1] - found.starts_s[0]) * _NS)}"
    )
    if most[worst] < 1.5 * most[best]:
        return f"{text}: almost constant over time."
    slow = f"; {percent(share)} of the steps had a p99 of twice the usual or more" if share else ""
    return f"{text}; slowest at {found.starts_s[worst]:,.4g} s{slow}."


def _span(values: NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    return time_label(high) if high <= 1.01 * low else f"{time_label(low)} to {time_label(high)}"
