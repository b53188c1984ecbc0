"""The network while jobs run: bytes each way over time, a band for each job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naslab.render.report import theme
from naslab.render.report.axes import base_layout, legend_above, number, numbers, plain_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import plot_text
from naslab.render.report.rawdata import COLUMN, Series
from naslab.render.report.thinning import keep_extremes
from naslab.results.parts.job import JobStep
from naslab.units import rate_text

if TYPE_CHECKING:
    from naslab.results.run import Run

Points = tuple[NDArray[np.float64], NDArray[np.float64]]
_POINTS = 2400
LEAST_INTERVALS = 3
"""Jobs shorter than so many intervals have no course to show."""


def over_time(run: Run, index: int, steps: Sequence[JobStep], series: Sequence[Series]) -> tuple[Figure, str] | None:
    """(figure, words) of the jobs of a run, one after the other; None without a series. index: of the run.

    Bytes on the wire where the target counts them in every job, else the files' data.
    """
    own = {one.cell.get("id"): one for one in series if one.run == index and len(one.rows)}
    drawn = [(step, own[step.cell]) for step in steps if step.cell in own]
    if sum(len(one.rows) for _, one in drawn) < LEAST_INTERVALS:
        return None
    wire = [run.wire_series(one.cell) for _, one in drawn]
    counted = all(len(rows) == len(one.rows) and rows.any() for rows, (_, one) in zip(wire, drawn, strict=True))
    origin_ns = min(one.cell["start_ns"] for _, one in drawn)
    parts = []
    for (step, one), rows in zip(drawn, wire, strict=True):
        start_s = (one.cell["start_ns"] - origin_ns) / 1e9
        times, whole = one.whole()
        sent, received = (
            (rows[: len(whole), 0], rows[: len(whole), 1])
            if counted
            else (whole[:, COLUMN["write_bytes"]], whole[:, COLUMN["read_bytes"]])
        )
        parts.append((step, times + start_s, sent / one.interval_s, received / one.interval_s))
    names = ("Sent", "Received") if counted else ("Written", "Read")
    return _figure(parts, names, counted), _words(parts, names, counted)


def _figure(parts: Sequence[tuple[JobStep, Any, Any, Any]], names: tuple[str, str], counted: bool) -> Figure:
    buckets = max(_POINTS // 2 // len(parts), 20)
    traces = [
        _line([(times, rates[at]) for _, times, *rates in parts], name, colour, buckets)
        for at, (name, colour) in enumerate(zip(names, (theme.LATENCY, theme.ACCENT), strict=True))
    ]
    top = max((value for trace in traces for value in trace["y"] if value is not None), default=0.0) or 1.0
    bands = [shape for at, (step, times, *_) in enumerate(parts) for shape in _band(step, times, at)]
    layout = base_layout(
        xaxis=plain_axis("Time since the first job began (s)", rangemode="tozero", tickformat=",.6~g"),
        yaxis=plain_axis(
            "On the wire (MB/s)" if counted else "Data moved (MB/s)", range=[0, number(1.15 * top)], tickformat=",.6~g"
        ),
        hovermode="x", showlegend=True, shapes=bands,
        height=380,
    )  # fmt: skip
    legend_above(layout)
    layout["margin"]["t"] = 36
    return {"data": traces, "layout": layout}


def _line(parts: Sequence[Points], name: str, colour: str, buckets: int) -> Trace:
    """One line with a gap between jobs."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for times, rates in parts:
        keep = keep_extremes(rates, buckets)
        xs += [*numbers(times[keep]), None]
        ys += [*numbers(rates[keep] / 1e6), None]
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": xs[:-1], "y": ys[:-1],
        "line": {"color": colour, "width": 1.5}, "hovertemplate": f"{name.lower()} %{{y:,.4~g}} MB/s<extra></extra>",
    }  # fmt: skip


def _band(step: JobStep, times: NDArray[np.float64], at: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The time of one job behind the lines, every other one shaded; its name, over the grid."""
    again = f" {step.repeat + 1}" if step.repeat else ""
    start, end = float(times[0]), float(times[0]) + step.wall_ns / 1e9
    where = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": number(start), "x1": number(end), "y0": 0, "y1": 1,
        "line": {"width": 0},
    }  # fmt: skip
    font = {"color": theme.MUTED, "size": 11, "shadow": theme.HALO}
    label = {"text": plot_text(step.job + again), "textposition": "top center", "font": font}
    shade = {**where, "layer": "below", "fillcolor": theme.ACCENT_BAND if at % 2 else "rgba(0,0,0,0)"}
    return shade, {**where, "layer": "above", "fillcolor": "rgba(0,0,0,0)", "label": label}


def _words(parts: Sequence[tuple[JobStep, Any, Any, Any]], names: tuple[str, str], counted: bool) -> str:
    told = []
    for step, _, sent, received in parts[:8]:
        rates = [
            f"{name.lower()} at most {rate_text(float(found.max()))}"
            for name, found in zip(names, (sent, received), strict=True)
            if len(found) and found.any()
        ]
        told.append(f"{step.job}: {', '.join(rates) or 'nothing moved'}")
    basis = "" if counted else " Bytes on the wire were not counted: the files' data are shown."
    return "; ".join(told) + "." + basis
