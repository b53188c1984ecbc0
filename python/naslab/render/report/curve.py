"""The picture of `naslab curve`: response time and achieved rate against the load offered, and as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from naslab.render.report import theme
from naslab.render.report.axes import base_layout, numbers, rate_axis, time_axis
from naslab.render.report.figures import SYMBOLS, Figure, Trace
from naslab.render.report.labels import plot_text
from naslab.results.describe import part_of
from naslab.results.parts.curve import CurveComparison, CurveDocument
from naslab.units import duration_text

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown

_PERCENTILES = (("p50", "p50"), ("p99", "p99"), ("p99_9", "p99.9"))
_VERDICTS = {
    "better": theme.run_colour(2), "worse": theme.RULE, "equivalent": theme.ACCENT, "undecided": theme.MUTED,
    None: theme.MUTED,
}  # fmt: skip


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds the figures of all runs that hold a curve."""
    from naslab.analysis.loadcurve import compared_sentences, sentences

    curves = [(run.name, part_of(run.run.document, "curve", CurveDocument)) for run in runs]
    found = [(name, curve) for name, curve in curves if curve and curve.steps]
    if not found:
        return

    def words(about: Callable[[CurveDocument], list[str]], some: Sequence[tuple[str, CurveDocument]]) -> str:
        return " ".join(f"{name}: " * (len(found) > 1) + " ".join(about(curve)) for name, curve in some)

    chart.add(["Response time"], response(found), words(sentences, found))
    chart.add(["Carried rate"], carried(found), words(sentences, found))
    for name, one in found:
        if one.compared and one.compared.p99:
            chart.add(
                ["p99 compared with the other run"], beside(one.compared), words(compared_sentences, [(name, one)])
            )


def response(curves: Sequence[tuple[str, CurveDocument]]) -> Figure:
    """Percentiles of the response time (from the due time) against the load offered, log axes.

    curves: (run name, curve). With several runs the colour means the run and the marker the percentile. Dashed:
    knee and capacity of a single run.
    """
    traces: list[Trace] = []
    colours = theme.ladder(len(_PERCENTILES))
    for index, (name, curve) in enumerate(curves):
        for rank, (field, label) in enumerate(_PERCENTILES):
            steps = [(step.offered_per_s, ns) for step in curve.steps if (ns := getattr(step.response_ns, field))]
            colour = theme.run_colour(index) if len(curves) > 1 else colours[rank]
            traces.append(
                {
                    **_points(f"{name}, {label}" if len(curves) > 1 else label, colour, rank),
                    "x": numbers(load for load, _ in steps),
                    "y": numbers(ns / 1e6 for _, ns in steps),
                    "customdata": [duration_text(ns) for _, ns in steps],
                    "hovertemplate": f"<b>%{{customdata}}</b> {label}<br>%{{x:,.4~g}}/s offered<extra></extra>",
                }
            )
    layout = base_layout(
        xaxis=rate_axis(_xs(traces), "Offered load (operations per second)"),
        yaxis=time_axis([y for trace in traces for y in trace["y"]], "Response time from the due time"),
        shapes=[], annotations=[],
    )  # fmt: skip
    if len(curves) == 1:
        layout["margin"] = {**layout["margin"], "t": 34}
        _mark(layout, curves[0][1].knee_per_s, "knee ", "right")
        _mark(layout, curves[0][1].capacity_per_s, " capacity", "left")
    return {"data": traces, "layout": layout}


def carried(curves: Sequence[tuple[str, CurveDocument]]) -> Figure:
    """Rate achieved against the load offered, log axes; the thin line is where all of it is carried."""
    traces: list[Trace] = []
    for index, (name, curve) in enumerate(curves):
        colour = theme.run_colour(index) if len(curves) > 1 else theme.ACCENT
        traces.append(
            {
                **_points(name, colour, index),
                "x": numbers(step.offered_per_s for step in curve.steps),
                "y": numbers(step.achieved_per_s for step in curve.steps),
                "hovertemplate": "<b>%{y:,.4~g}/s</b> carried<br>%{x:,.4~g}/s offered<extra></extra>",
            }
        )
    low, high = min(_xs(traces)), max(_xs(traces))
    whole: Trace = {
        "type": "scatter", "mode": "lines", "name": "the offered load", "x": [low, high], "y": [low, high],
        "line": {"color": theme.MUTED, "width": 1, "dash": "dot"}, "hoverinfo": "skip",
    }  # fmt: skip
    layout = base_layout(
        xaxis=rate_axis([low, high], "Offered load (operations per second)"),
        yaxis=rate_axis([y for trace in traces for y in trace["y"]], "Reached (operations per second)"),
    )
    return {"data": [whole, *traces], "layout": layout}


def beside(compared: CurveComparison) -> Figure:
    """Ratio of p99 at equal loads, this run over the other, with 95 % intervals; by verdict. The band is the margin."""
    traces: list[Trace] = []
    for rank, (verdict, colour) in enumerate(_VERDICTS.items()):
        loads = [one for one in compared.p99 if one.verdict == verdict]
        if not loads:
            continue
        lows, highs = (numbers(one.ci95[end] for one in loads) for end in (0, 1))
        ratios = numbers(one.ratio for one in loads)
        traces.append(
            {
                **_points(verdict or "no verdict", colour, rank), "mode": "markers",
                "x": numbers(one.load_per_s for one in loads), "y": ratios,
                "error_y": {
                    "type": "data", "symmetric": False, "color": colour, "thickness": 1.5,
                    "array": [high - ratio for high, ratio in zip(highs, ratios, strict=True)],
                    "arrayminus": [ratio - low for low, ratio in zip(lows, ratios, strict=True)],
                },
                "customdata": [
                    [duration_text(one.p99_ns), duration_text(one.other_p99_ns), low, high]
                    for one, low, high in zip(loads, lows, highs, strict=True)
                ],
                "hovertemplate": "<b>%{y:.3g} times</b> (%{customdata[2]:.3g} to %{customdata[3]:.3g})<br>"
                "%{customdata[0]}, the other %{customdata[1]}<br>%{x:,.4~g}/s offered<extra></extra>",
            }
        )  # fmt: skip
    edge = 1 + compared.p99[0].margin
    ends = [end for one in compared.p99 for end in one.ci95]
    layout = base_layout(
        xaxis=rate_axis(_xs(traces), "Offered load (operations per second)"),
        yaxis=rate_axis([*ends, edge, 1 / edge], "p99, this run / the other"),
        shapes=[_band(1 / edge, edge), _band(1, 1)], showlegend=True,
    )  # fmt: skip
    return {"data": traces, "layout": layout}


def _band(low: float, high: float) -> dict[str, Any]:
    """A lying band over the whole width; a line where it has no height."""
    return {
        "type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": low, "y1": high, "layer": "below",
        "fillcolor": theme.ACCENT_BAND, "line": {"color": theme.MUTED, "width": 1 if low == high else 0},
    }  # fmt: skip


def _points(name: str, colour: str, symbol: int) -> Trace:
    return {
        "type": "scatter", "mode": "lines+markers", "name": plot_text(name), "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": 7, "symbol": SYMBOLS[symbol % len(SYMBOLS)]},
    }  # fmt: skip


def _xs(traces: Sequence[Trace]) -> list[float]:
    return [x for trace in traces for x in trace["x"]]


def _mark(layout: Figure, load: float | None, text: str, end: str) -> None:
    """A dashed upright at a load, named above the picture; `end` of the name is at the line."""
    if not load:
        return
    layout["shapes"].append(
        {
            "type": "line",
            "xref": "x",
            "x0": load,
            "x1": load,
            "yref": "paper",
            "y0": 0,
            "y1": 1.05,
            "line": {"color": theme.RULE, "width": 1.5, "dash": "dash"},
            "layer": "below",
        }
    )
    layout["annotations"].append(
        {
            "xref": "x",
            "x": math.log10(load),
            "xanchor": end,
            "yref": "paper",
            "y": 1.0,
            "yanchor": "bottom",
            "text": text,
            "showarrow": False,
            "font": {"color": theme.RULE, "size": 12},
        }
    )
