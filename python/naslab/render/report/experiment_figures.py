"""Figures of an experiment: lines, bars, surfaces and their difference, and the claims' ratios with intervals.

Pure functions from the parts of an experiment's document. Lines and bars are medians, dots the repeats, diamonds
what the article prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from naslab.render.report import figures, theme
from naslab.render.report.axes import base_layout, legend_above, number, numbers, plain_axis, rate_axis, size_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import plot_text
from naslab.render.report.model import Case
from naslab.render.report.rules import rules, uprights
from naslab.results.parts.experiment import ExperimentChart, ExperimentClaim, ExperimentSeries
from naslab.units import size_label


@dataclass(frozen=True)
class Shown:
    """A number of the article, in a chart's unit."""

    what: str
    condition: str
    group: str
    size_bytes: int
    shown: float


@dataclass(frozen=True)
class Level:
    """A limit, in a chart's unit."""

    what: str
    value: float


_BARS_PX, _ROW_PX = 15, 26
_COLOURS = 7
"""Conditions beyond so many repeat the colours: their lines are dotted, their bars hatched."""
_FEW_POINTS = 30
"""So many points over time are marked: a line alone shows none between two gaps."""
_WORDS = ("reproduced", "contradicted", "undecided")
MOST_LINEAR = 30.0
"""Bars of values further apart than that are on a logarithmic axis."""
DIVERGING = [[0.0, "#2c6fae"], [0.5, "#f7f7f5"], [1.0, "#c2571a"]]
MOST_RATIO = 4.0
"""Colours of a difference end at a factor of four."""


def lines(chart: ExperimentChart, published: Sequence[Shown], limits: Sequence[Level]) -> Figure:
    """Values against file size, a line for each condition. limits: (what, value in the chart's unit)."""
    traces: list[Trace] = []
    for at, series in enumerate(chart.series):
        traces += _line(series, at, chart.unit)
    ids = [series.condition for series in chart.series]
    for one in published:
        if one.condition in ids and one.size_bytes:
            traces.append(_published_point(one, ids.index(one.condition), chart.unit))
    sizes = sorted({size for trace in traces for size in trace["x"]})
    values = [value for trace in traces for value in trace["y"]]
    levels = _near(limits, values)
    layout = base_layout(
        xaxis=size_axis("File size", sizes), yaxis=rate_axis([*values, *(level for _, level in levels)], chart.unit),
        shapes=rules(levels), height=460,
    )  # fmt: skip
    layout["legend"]["title"]["text"] = "Condition"
    return {"data": traces, "layout": layout, "narrow": {"height": 540}}


def _line(series: ExperimentSeries, at: int, unit: str) -> Iterator[Trace]:
    colour, name = theme.run_colour(at), plot_text(series.condition)
    points = [point for point in series.points if point.values]
    dots = [(point.size_bytes, value) for point in points for value in point.values]
    shared: Trace = {"type": "scatter", "name": name, "legendgroup": name}
    told = [f"{size_label(point.size_bytes)} files, median of {len(point.values)}" for point in points]
    yield {
        **shared, "mode": "lines+markers", "x": [point.size_bytes for point in points],
        "y": numbers(median(point.values) for point in points),
        "line": {"color": colour, "width": 2, "dash": "dot" if at >= _COLOURS else "solid"},
        "marker": {"color": colour, "size": 7, "symbol": figures.SYMBOLS[at % len(figures.SYMBOLS)]},
        "customdata": told, "hovertemplate": f"<b>%{{y:,.4~g}} {unit}</b><br>{name}, %{{customdata}}<extra></extra>",
    }  # fmt: skip
    if len(dots) > len(points):
        yield {
            **shared, "mode": "markers", "x": [size for size, _ in dots], "y": numbers(value for _, value in dots),
            "marker": {"color": colour, "size": 4, "opacity": 0.55}, "showlegend": False,
            "hovertemplate": f"%{{y:,.4~g}} {unit}, one repeat<extra></extra>",
        }  # fmt: skip


def _published_point(one: Shown, at: int, unit: str) -> Trace:
    name = plot_text(one.condition)
    return {
        "type": "scatter", "mode": "markers", "name": f"{name}, published", "legendgroup": name, "showlegend": False,
        "x": [one.size_bytes], "y": [number(one.shown)],
        "marker": {"color": theme.run_colour(at), "size": 12, "symbol": "diamond-open", "line": {"width": 2.5}},
        "hovertemplate": f"<b>%{{y:,.4~g}} {unit}</b> published<br>{plot_text(one.what)}<extra></extra>",
    }  # fmt: skip


def _near(limits: Sequence[Level], values: Sequence[float]) -> list[tuple[str, float]]:
    """(words, level) of the limits within a factor of four of what is drawn."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    return [(limit.what, number(limit.value)) for limit in limits if low / 4 <= limit.value <= high * 4]


def over_time(chart: ExperimentChart, published: Sequence[Shown], limits: Sequence[Level]) -> Figure:
    """Rates against seconds, a line for each condition; limits and the article's numbers are dashed lines."""
    traces = [_course(series, at, chart.unit) for at, series in enumerate(chart.series)]
    levels = [(limit.what, number(limit.value)) for limit in limits]
    levels += [(f"published: {one.what[:1].lower()}{one.what[1:]}", number(one.shown)) for one in published]
    values = [value for trace in traces for value in trace["y"] if value is not None]
    top = max([*values, *(level for _, level in levels)], default=0.0) or 1.0
    layout = base_layout(
        xaxis=plain_axis("Time since the start (s)", rangemode="tozero", tickformat=",.6~g"),
        yaxis=plain_axis(f"Throughput ({chart.unit})", range=[0, number(1.1 * top)], tickformat=",.6~g"),
        shapes=rules(levels), hovermode="x", showlegend=len(traces) > 1, height=420,
    )  # fmt: skip
    legend_above(layout)
    layout["margin"]["t"] = 36
    return {"data": traces, "layout": layout}


def _course(series: ExperimentSeries, at: int, unit: str) -> Trace:
    name = plot_text(series.condition)
    mode = "lines" if len(series.values) > _FEW_POINTS else "lines+markers"
    return {
        "type": "scatter", "mode": mode, "name": name, "connectgaps": False,
        "x": numbers(time_ns / 1e9 for time_ns in series.times_ns), "y": list(series.values),
        "line": {"color": theme.run_colour(at), "width": 1.5, "dash": "dot" if at >= _COLOURS else "solid"},
        "hovertemplate": f"%{{x:,.4~g}} s: <b>%{{y:,.4~g}} {unit}</b>, {name}<extra></extra>",
    }  # fmt: skip


def bars(chart: ExperimentChart, published: Sequence[Shown], limits: Sequence[Level]) -> Figure:
    """Horizontal bars of medians, a group for each label and a colour for each condition.

    From zero where the values are within a factor of 30, else logarithmic.
    """
    groups = list(dict.fromkeys(point.group for series in chart.series for point in series.points))
    traces: list[Trace] = []
    ids = [series.condition for series in chart.series]
    for at, series in enumerate(chart.series):
        traces += _bar(series, at, chart.unit, [one for one in published if one.condition == series.condition])
    others = [one for one in published if one.condition not in ids]
    if others:
        traces.append(_diamonds(others, "published", theme.INK, chart.unit))
    values = [value for trace in traces for value in trace["x"]]
    levels = _near(limits, values)
    labels = [plot_text(group) for group in groups]
    height = 110 + len(groups) * (_ROW_PX + _BARS_PX * (len(ids) + bool(others)))
    layout = base_layout(
        barmode="group", scattermode="group", bargap=0.25, scattergap=0.25, height=max(240, height), shapes=[],
        annotations=[], showlegend=len(traces) > 1, xaxis=_bar_axis([*values, *(level for _, level in levels)], chart),
        yaxis=plain_axis("", type="category", categoryorder="array", categoryarray=labels, autorange="reversed",
                         ticklabelstandoff=6, showticklabels=labels != [""]),
    )  # fmt: skip
    figure = {"data": traces, "layout": layout}
    uprights(figure, levels)
    return figure


def _bar_axis(values: Sequence[float], chart: ExperimentChart) -> dict[str, Any]:
    low, high = min(values, default=1.0), max(values, default=1.0)
    if low > 0 and high > MOST_LINEAR * low:
        return rate_axis(values, f"{chart.unit}, logarithmic")
    return plain_axis(chart.unit, range=[0, number(1.05 * high)])


def _bar(series: ExperimentSeries, at: int, unit: str, published: Sequence[Shown]) -> Iterator[Trace]:
    name, colour = plot_text(series.condition), theme.run_colour(at)
    points = [point for point in series.points if point.values]
    shared: Trace = {"orientation": "h", "legendgroup": name, "offsetgroup": name}
    yield {
        **shared, "type": "bar", "name": name, "x": numbers(median(point.values) for point in points),
        "y": [plot_text(point.group) for point in points],
        "marker": {"color": colour, "opacity": 0.8, "pattern": {"shape": "/" if at >= _COLOURS else ""}},
        "customdata": [len(point.values) for point in points],
        "hovertemplate": f"<b>%{{x:,.4~g}} {unit}</b><br>{name}, %{{y}}, median of %{{customdata}}<extra></extra>",
    }  # fmt: skip
    dots = [(point.group, value) for point in points for value in point.values]
    if len(dots) > len(points):
        yield {
            **shared, "type": "scatter", "mode": "markers", "name": f"{name}, each repeat", "showlegend": False,
            "x": numbers(value for _, value in dots), "y": [plot_text(group) for group, _ in dots],
            "marker": {"color": colour, "size": 5, "line": {"color": theme.SURFACE, "width": 1}},
            "hovertemplate": f"%{{x:,.4~g}} {unit}, one repeat<extra></extra>",
        }  # fmt: skip
    if published:
        yield _diamonds(published, name, colour, unit)


def _diamonds(published: Sequence[Shown], name: str, colour: str, unit: str) -> Trace:
    return {
        "type": "scatter", "mode": "markers", "orientation": "h", "offsetgroup": name, "legendgroup": name,
        "name": "published" if name == "published" else f"{name}, published", "showlegend": name == "published",
        "x": [number(one.shown) for one in published], "y": [plot_text(one.group) for one in published],
        "marker": {"color": colour, "size": 10, "symbol": "diamond", "line": {"color": theme.INK, "width": 1.2}},
        "customdata": [plot_text(one.what) for one in published],
        "hovertemplate": f"<b>%{{x:,.4~g}} {unit}</b> published<br>%{{customdata}}<extra></extra>",
    }  # fmt: skip


def case_of(series: ExperimentSeries, title: str) -> Case:
    """A surface as the report's own pictures take it; rates in MB/s."""
    cells = [
        {"file_bytes": file, "record_bytes": record, "throughput_bytes_per_s": rate * 1e6, "iops": 0.0}
        for file, row in zip(series.files, series.rates, strict=True)
        for record, rate in zip(series.records, row, strict=True)
        if rate
    ]
    return Case(title, "read", "bytes", cells)


def _change(ratio: float) -> str:
    percent = round((ratio - 1) * 100)
    return f"{percent:+d} %" if percent else "0 %"


def difference(one: ExperimentSeries, other: ExperimentSeries) -> Figure:
    """The first surface over the second, spot by spot: colour by the logarithm, the difference in percent as text."""
    files = [size for size in one.files if size in other.files]
    records = [size for size in one.records if size in other.records]

    def rate(series: ExperimentSeries, file: int, record: int) -> float | None:
        found: float | None = series.rates[series.files.index(file)][series.records.index(record)]
        return found

    ratios: list[list[float | None]] = []
    for record in records:
        pairs = [(rate(one, file, record), rate(other, file, record)) for file in files]
        ratios.append([mine / theirs if mine and theirs else None for mine, theirs in pairs])
    text = [["" if ratio is None else _change(ratio) for ratio in row] for row in ratios]
    edge = math.log2(MOST_RATIO)
    names = plot_text(one.condition), plot_text(other.condition)
    trace: Trace = {
        "type": "heatmap", "x": [size_label(file) for file in files], "y": [size_label(each) for each in records],
        "z": [[None if ratio is None else number(math.log2(ratio)) for ratio in row] for row in ratios],
        "zmin": -edge, "zmax": edge, "colorscale": DIVERGING, "xgap": 2, "ygap": 2, "hoverongaps": False,
        "text": text,
        "colorbar": {"title": {"text": f"{names[0]}<br>over {names[1]}"}, "tickvals": [-2, -1, 0, 1, 2],
                     "ticktext": ["1/4", "1/2", "1", "2", "4"]},
        "hovertemplate": "<b>%{text}</b><br>%{x} file, %{y} records<extra></extra>",
    }  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis("File size", type="category", showgrid=False),
        yaxis=plain_axis("Record size", type="category", showgrid=False),
        height=max(260, 130 + 34 * len(records)), showlegend=False,
    )  # fmt: skip
    spots = [(column, row) for row, line in enumerate(text) for column, told in enumerate(line) if told]
    words: Trace = {
        "type": "scatter", "mode": "text", "x": [trace["x"][column] for column, _ in spots],
        "y": [trace["y"][row] for _, row in spots], "text": [text[row][column] for column, row in spots],
        "textfont": {"size": 12, "color": [theme.ON_LIGHT] * len(spots)}, "hoverinfo": "skip", "cliponaxis": False,
    }  # fmt: skip
    return {"data": [trace, words], "layout": layout}


def claims(found: Sequence[ExperimentClaim]) -> Figure | None:
    """The ratio of each claim with its interval, its region as a band, a diamond for the article's own ratio.

    Claims with one ratio and an interval alone; None without any.
    """
    shown = [judged for claim in found if (judged := _judged(claim)) is not None]
    if not shown:
        return None
    colours = dict(zip(_WORDS, (theme.run_colour(2), theme.run_colour(1), theme.MUTED), strict=True))
    traces = [
        _ratios([one for one in shown if one.verdict == word], word, colours[word])
        for word in _WORDS
        if any(one.verdict == word for one in shown)
    ]
    told = {one.id: one.published for one in shown if one.published}
    if told:
        traces.append(_published_ratios(told))
    ends = [*(end for one in shown for end in (one.low, one.high, 1.0)), *told.values()]
    axis = rate_axis(ends, "Ratio, logarithmic")
    names = [one.id for one in shown]
    low, high = (10**end for end in axis["range"])
    bands = [
        {
            "type": "rect", "xref": "x", "yref": "y", "x0": number(one.region[0] or low),
            "x1": number(one.region[1] or high), "y0": at - 0.38, "y1": at + 0.38, "layer": "below",
            "fillcolor": theme.ACCENT_BAND, "line": {"width": 0},
        }
        for at, one in enumerate(shown)
    ]  # fmt: skip
    layout = base_layout(
        xaxis=axis, shapes=bands, height=120 + 34 * len(shown), showlegend=True,
        yaxis=plain_axis("", type="category", categoryorder="array", categoryarray=names, autorange="reversed",
                         ticklabelstandoff=6),
    )  # fmt: skip
    legend_above(layout, y=1)
    layout["margin"] = {**layout["margin"], "t": 40}
    narrow = {"yaxis": {**layout["yaxis"], "tickfont": {"size": 10}}}
    return {"data": traces, "layout": layout, "narrow": narrow}


@dataclass(frozen=True)
class _Judged:
    """A claim with one ratio, and the interval of that."""

    id: str
    verdict: str
    words: str
    value: float
    low: float
    high: float
    region: Sequence[float | None]
    published: float | None


def _judged(claim: ExperimentClaim) -> _Judged | None:
    """None for a claim with several ratios, or without an interval."""
    if len(claim.contrasts) != 1:
        return None
    (one,) = claim.contrasts
    if one.value is None or one.low is None or one.high is None or not one.low:
        return None
    region = claim.region or (None, None)
    return _Judged(claim.id, claim.verdict, one.words, one.value, one.low, one.high, region, claim.published)


def _ratios(ratios: Sequence[_Judged], word: str, colour: str) -> Trace:
    return {
        "type": "scatter", "mode": "markers", "name": word, "x": numbers(one.value for one in ratios),
        "y": [one.id for one in ratios],
        "error_x": {
            "type": "data", "symmetric": False, "color": colour, "thickness": 2, "width": 4,
            "array": numbers(one.high - one.value for one in ratios),
            "arrayminus": numbers(one.value - one.low for one in ratios),
        },
        "marker": {"color": colour, "size": 9, "symbol": figures.SYMBOLS[_WORDS.index(word)]},
        "customdata": [plot_text(one.words) for one in ratios],
        "hovertemplate": f"<b>%{{x:,.3~g}}</b>, {word}<br>%{{customdata}}<extra></extra>",
    }  # fmt: skip


def _published_ratios(told: Mapping[str, float]) -> Trace:
    return {
        "type": "scatter", "mode": "markers", "name": "published", "x": numbers(told.values()),
        "y": list(told),
        "marker": {"color": theme.INK, "size": 11, "symbol": "diamond-open", "line": {"width": 2}},
        "hovertemplate": "<b>%{x:,.3~g}</b> published<br>%{y}<extra></extra>",
    }  # fmt: skip
