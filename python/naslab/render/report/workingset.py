"""The picture of `naslab cache size`: rate against the size of the working set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from naslab.analysis.workingset import words
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, number, numbers, plain_axis
from naslab.render.report.figures import Figure
from naslab.render.report.labels import plot_text
from naslab.results.describe import part_of
from naslab.results.parts.cached import WorkingSet
from naslab.results.parts.sustained import Sustained

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown

MB = 1e6


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds one figure with all runs that looked for a working set."""
    found = [(run.name, part_of(run.run.document, "sustained", Sustained)) for run in runs]
    sets = [(name, part.working_set) for name, part in found if part and part.working_set]
    if sets:
        told = [f"{name}: " * (len(sets) > 1) + words(part) for name, part in sets]
        chart.add(["Working set"], by_size(sets), " ".join(told))


def by_size(sets: Sequence[tuple[str, WorkingSet]]) -> Figure:
    """Rate of each set (MB/s) against its size (MB), from zero; a band over the interval of each knee."""
    traces, shapes = [], []
    for index, (name, part) in enumerate(sets):
        colour = theme.run_colour(index) if len(sets) > 1 else theme.ACCENT
        traces.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": plot_text(name),
                "x": numbers(step.bytes / MB for step in part.steps),
                "y": numbers(step.bytes_per_s / MB for step in part.steps),
                "line": {"color": colour, "width": 2}, "marker": {"color": colour, "size": 6},
                "hovertemplate": "<b>%{y:,.4~g} MB/s</b><br>working set %{x:,.4~g} MB<extra></extra>",
            }
        )  # fmt: skip
        if part.interval_bytes:
            low, high = (number((each or 0) / MB) for each in part.interval_bytes)
            shapes.append(
                {
                    "type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0, "y1": 1,
                    "fillcolor": theme.band(colour), "line": {"width": 0}, "layer": "below",
                }
            )  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis("Working set (MB)", rangemode="tozero", tickformat=",.6~g"),
        yaxis=plain_axis("Repeated reads (MB/s)", rangemode="tozero", tickformat=",.6~g"),
        showlegend=len(sets) > 1,
        shapes=shapes,
    )
    return {"data": traces, "layout": layout}
