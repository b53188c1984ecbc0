"""The price list of signing and encryption as bars with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from naslab.comparison import security_words
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, number, numbers, plain_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import plot_text
from naslab.results.describe import typed
from naslab.results.parts.security import Security, SecurityFigure, SecurityLoad

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown

ROW = 34
_AXES: tuple[tuple[Callable[[SecurityLoad], SecurityFigure], str, str, float], ...] = (
    (lambda load: load.throughput, "Throughput", "MB/s", 1e6),
    (lambda load: load.latency, "Latency, mean", "ms", 1e6),
    (lambda load: load.cpu, "Client CPU for each GiB", "s", 1e9),
)
"""Figures of a load, each with its name, its unit and what a unit is in the document's."""


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """A figure for each load and what was measured of it; what the server refused is in the words below."""
    for run in runs:
        document = run.run.document.get("security")
        if not document:
            continue
        found = typed(document, Security)
        rows = security_words.measured(found)
        words = _words(found)
        for load in rows[0].loads if rows else ():
            sides = [(row.name, security_words.same_load(row, load)) for row in rows]
            for figure_of, title, unit, scale in _AXES:
                shown = [(label, figure_of(side)) for label, side in sides if side]
                shown = [(label, figure) for label, figure in shown if figure.value is not None]
                if shown:
                    path = [run.name, security_words.load_name(load).capitalize(), title]
                    chart.add(path, bars(shown, f"{title} ({unit})", unit, scale), words)


def _words(found: Security) -> str:
    """What it costs, and why the server refuses the others."""
    refused = [each for each in found.combinations if each.state == "refused"]
    reasons = [f"{each.name}: {each.reason}." for each in refused]
    return " ".join([*security_words.sentences(found), *reasons])


def bars(shown: Sequence[tuple[str, SecurityFigure]], title: str, unit: str, scale: float) -> Figure:
    """A bar for each combination, the baseline first; its ratio to the baseline under the pointer."""
    values = [(figure.value or 0.0) / scale for _, figure in shown]
    intervals = [figure.ci95 for _, figure in shown]
    ends = [
        [end / scale for end in ci95] if ci95 else [value] * 2 for ci95, value in zip(intervals, values, strict=True)
    ]
    trace: Trace = {
        "type": "bar", "orientation": "h", "x": numbers(values), "y": [plot_text(name) for name, _ in shown],
        "marker": {"color": [theme.ACCENT if figure.ratio is None else theme.MUTED for _, figure in shown]},
        "error_x": {
            "type": "data", "symmetric": False, "color": theme.INK,
            "array": numbers(max(high - value, 0) for (_, high), value in zip(ends, values, strict=True)),
            "arrayminus": numbers(max(value - low, 0) for (low, _), value in zip(ends, values, strict=True)),
        },
        "customdata": [[number(low), number(high), _ratio(figure)] for (low, high), (_, figure) in
                       zip(ends, shown, strict=True)],
        "hovertemplate": f"<b>%{{x:,.4~g}} {unit}</b>, 95 %% %{{customdata[0]:,.4~g}} to %{{customdata[1]:,.4~g}}"
        "<br>%{y}<br>%{customdata[2]}<extra></extra>".replace("%%", "%"),
    }  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis(title, rangemode="tozero", tickformat=",.6~g"),
        yaxis={**plain_axis("", autorange="reversed", type="category"), "automargin": True},
        showlegend=False, height=110 + ROW * len(shown),
    )  # fmt: skip
    return {"data": [trace], "layout": layout}


def _ratio(figure: SecurityFigure) -> str:
    return "the baseline" if figure.ratio is None else f"{figure.ratio:.3f} of the baseline"
