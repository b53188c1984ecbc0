"""Figures of the report: pure functions from tests and runs to Plotly's JSON, as plain dicts.

Every number is a measured one: rates in MB/s (10^6 bytes per second) or operations per second, latencies in
milliseconds, sizes in bytes on logarithmic axes. Colours are the light ones of `theme`, which the page
swaps for dark. `meta` of a trace names what a chooser filters by; `filter` of a figure is that chooser.
"""

from __future__ import annotations

import itertools
import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.regimes_words import label
from naslab.render.report import theme
from naslab.render.report.axes import (
    base_layout,
    legend_above,
    log_ticks,
    number,
    numbers,
    plain_axis,
    rate_axis,
    scaled,
    size_axis,
    time_axis,
)  # fmt: skip
from naslab.render.report.labels import count_label, plot_text, tight, time_label, value_label
from naslab.render.report.model import PERCENTILES, Case, Spot, cached_text, percentile_ns, where
from naslab.render.report.rules import rules, uprights
from naslab.render.report.thinning import keep_extremes
from naslab.units import count_text, size_label

Figure = dict[str, Any]
Trace = dict[str, Any]

ALL = "all"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "hexagon", "star")
_RATE_TITLE = {"bytes": "Throughput (MB/s)", "ops": "Operations per second"}
HOVER_COLUMNS = 60
"""Characters of evidence in a line of a hover."""
LABELS_APART = 0.09
"""Texts beside marks on a logarithmic axis are so much of its length apart, at least."""
_UNIT = {"bytes": "MB/s", "ops": "ops/s"}
CACHED = "○"
"""Before a value of the client's cache where no mark can be open."""
FLOOR = 0.12
"""Share of a logarithmic height that its lowest text stands above the floor, where the sizes have theirs."""
STEEP = 30
"""Values that differ by more than this factor are drawn on a logarithmic scale in 3D."""


# --- throughput against a size ---------------------------------------------------------------------------


def throughput(cases: Sequence[tuple[str, Case]], ceilings: Sequence[tuple[str, float]] = ()) -> Figure:
    """Throughput against file size, one line per record size, log axes.

    cases: (run name, test) for each run overlaid. With one run the colour means the record size, with
    several the run, and a chooser picks the record size. ceilings: (text, bytes per second).
    """
    several = len(cases) > 1
    told = sorted({record for _, case in cases for record in case.records})
    records = [record for record in told if record] or told
    colours = theme.ladder(len(records))
    traces: list[Trace] = []
    for index, (name, case) in enumerate(cases):
        for record in case.records:
            rank = records.index(record) if record in records else 0
            look = (theme.run_colour(index), index) if several else (colours[rank], rank)
            size = size_label(record) if record else "record size unknown"
            label = f"{plot_text(name)}, {size}" if several else size
            points = [(file, (file, record)) for file in case.files if (file, record) in case.spots]
            # A record size that a source does not tell is shown beside each that is chosen.
            lines = _line(case, points, label, look, {"record": record} if record else {})
            traces += [{**line, "legendrank": 1000 + index if several else 1000 - rank} for line in lines]
    files = sorted({file for _, case in cases for file in case.files})
    unit = cases[0][1].unit
    figure = _size_figure(traces, "File size", files, unit, ceilings)
    legend = figure["layout"]["legend"]
    legend["title"]["text"] = "Run, record size" if several else "Record size"
    legend["tracegroupgap"] = 0
    if several and len(records) > 1:
        options = [{"value": str(record), "label": size_label(record)} for record in reversed(records) if record]
        figure["filter"] = {
            "by": "record",
            "label": "Record size",
            "options": [*options, {"value": ALL, "label": "All record sizes"}],
        }
    return figure


def slices(case: Case, ceilings: Sequence[tuple[str, float]] = ()) -> Figure:
    """Throughput against record size at a chosen file size (chooser `file`, largest first)."""
    traces: list[Trace] = []
    options = []
    for file in reversed(case.files):
        points = [(record, (file, record)) for record in case.records if (file, record) in case.spots]
        traces += _line(case, points, f"{size_label(file)} file", (theme.ACCENT, 0), {"file": file})
        values = {record: statistics.median(case.values(at)) for record, at in points}
        cached = cached_text(sum(case.cached(at) for _, at in points), len(points), "open marks")
        options.append(
            {
                "value": str(file),
                "label": size_label(file),
                "caption": tight(_slice_finding(case, file, values) + cached),
            }
        )
    figure = _size_figure(traces, "Record size", case.records, case.unit, ceilings)
    figure["layout"]["showlegend"] = False
    figure["filter"] = {"by": "file", "label": "File size", "options": options}
    return figure


def _slice_finding(case: Case, file: int, values: dict[int, float]) -> str:
    best, worst = max(values, key=values.__getitem__), min(values, key=values.__getitem__)
    head = f"{case.label} of a {size_label(file)} file"
    if best == worst:
        return f"{head}: {value_label(values[best], case.unit)} with {size_label(best)} records."
    return (
        f"{head}: highest {value_label(values[best], case.unit)} with {size_label(best)} records, "
        f"lowest {value_label(values[worst], case.unit)} with {size_label(worst)} records."
    )


def _line(
    case: Case, points: list[tuple[int, Spot]], name: str, look: tuple[str, int], meta: dict[str, int]
) -> list[Trace]:
    """Band from lowest to highest repeat, a dot for each repeat, the median line with its markers.

    look: colour, and index of the marker's shape, a second sign beside the colour.
    """
    colour, shape = look
    unit = case.unit
    medians = [scaled(statistics.median(case.values(at)), unit) for _, at in points]
    shared: Trace = {"type": "scatter", "name": name, "legendgroup": name, "meta": meta}
    traces: list[Trace] = []
    if any(len(case.values(at)) > 1 for _, at in points):
        traces += [_band(case, points, shared, colour), _dots(case, points, shared, colour)]
    traces.append(
        {
            **shared,
            "mode": "lines+markers",
            "x": [size for size, _ in points],
            "y": medians,
            "line": {"color": colour, "width": 2},
            "marker": {"color": colour, "size": 7, "symbol": [symbol(case, at, shape) for _, at in points]},
            "customdata": [[where(case, at), _note(case, at)] for _, at in points],
            "hovertemplate": f"<b>%{{y:,.4~g}} {_UNIT[unit]}</b><br>%{{customdata[0]}}<br>%{{customdata[1]}}"
            "<extra></extra>",
        }
    )
    return traces


def symbol(case: Case, at: Spot, index: int) -> str:
    """The shape of a mark; open where the value was predicted or is of the client's cache."""
    return SYMBOLS[index % len(SYMBOLS)] + ("-open" if case.predicted(at) or case.cached(at) else "")


def _predicted_interval(case: Case, at: Spot) -> str:
    found = [cell["predicted_ci90_bytes_per_s"] for cell in case.spots[at] if cell.get("predicted_ci90_bytes_per_s")]
    if not found or case.unit != "bytes":
        return ""
    return f": {value_label(found[0][0], case.unit)} to {value_label(found[0][1], case.unit)} in nine of ten cases"


def _note(case: Case, at: Spot) -> str:
    if case.predicted(at):
        return "predicted, not measured" + _predicted_interval(case, at)
    values = case.values(at)
    regimes = _regimes(case, at)
    said = f"<br>{regimes}" if regimes else ""
    if len(values) == 1:
        return f"one measurement{said}"
    low, high = value_label(min(values), case.unit), value_label(max(values), case.unit)
    return f"median of {len(values)}: {low} to {high}{said}"


def _regimes(case: Case, at: Spot) -> str:
    """Regimes of the repeats at one spot, with the evidence where they agree; broken into lines for a hover."""
    found = dict.fromkeys(label(cell) for cell in case.spots.get(at, []) if cell.get("regime"))
    words = list(dict.fromkeys(each.split(":")[0] for each in found))
    text = next(iter(found)) if len(words) == 1 else " / ".join(words)
    return "<br>".join(plot_text(line) for line in textwrap.wrap(text, HOVER_COLUMNS))


def _band(case: Case, points: list[tuple[int, Spot]], shared: Trace, colour: str) -> Trace:
    sizes = [size for size, _ in points]
    low = [scaled(min(case.values(at)), case.unit) for _, at in points]
    high = [scaled(max(case.values(at)), case.unit) for _, at in points]
    return {
        **shared,
        "mode": "lines",
        "x": sizes + sizes[::-1],
        "y": high + low[::-1],
        "fill": "toself",
        "fillcolor": theme.band(colour),
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _dots(case: Case, points: list[tuple[int, Spot]], shared: Trace, colour: str) -> Trace:
    pairs = [(size, scaled(value, case.unit)) for size, at in points for value in case.values(at)]
    return {
        **shared,
        "mode": "markers",
        "x": [size for size, _ in pairs],
        "y": [value for _, value in pairs],
        "marker": {"color": colour, "size": 4, "opacity": 0.55},
        "hovertemplate": f"%{{y:,.4~g}} {_UNIT[case.unit]}, one repeat<extra></extra>",
        "showlegend": False,
    }


def _size_figure(
    traces: list[Trace], title: str, sizes: Sequence[int], unit: str, ceilings: Sequence[tuple[str, float]]
) -> Figure:
    """Rates against a size. `scales` holds the rates' axis both ways, the first one drawn."""
    drawn = [value for trace in traces for value in trace["y"]]
    levels = []
    for text, ceiling in ceilings if unit == "bytes" else ():
        level = scaled(ceiling, unit)
        if drawn and min(drawn) / 4 <= level <= 4 * max(drawn):
            levels.append((text, level))
    reached = [*drawn, *(level for _, level in levels)]
    steep = rate_axis(reached, _RATE_TITLE[unit])
    even = plain_axis(_RATE_TITLE[unit], range=[0, number(1.08 * max(reached, default=1.0))], tickformat=",.6~g")
    layout = base_layout(xaxis=size_axis(title, sizes), yaxis=steep, shapes=rules(levels), annotations=[])
    scales = [{"label": "Logarithmic", "yaxis": dict(steep)}, {"label": "Linear", "yaxis": even}]
    return {"data": traces, "layout": layout, "scales": scales}


# --- tests of one size: bars -----------------------------------------------------------------------------


def bars(runs: Sequence[tuple[str, Sequence[Case]]], ceilings: Sequence[tuple[str, float]] = ()) -> Figure:
    """Tests with one size each, as horizontal bars of the median with a dot for each repeat.

    All tests have one unit. Linear axis from zero.
    """
    labels = list(dict.fromkeys(case.label for _, cases in runs for case in cases))
    unit = runs[0][1][0].unit
    traces: list[Trace] = []
    for index, (name, cases) in enumerate(runs):
        colour = theme.run_colour(index) if len(runs) > 1 else theme.ACCENT
        traces += _bar_traces(name, cases, colour)
    longest = max(len(label) for label in labels)
    layout = base_layout(
        barmode="group",
        bargap=0.35,
        height=max(180, 90 + 46 * len(labels) * len(runs)),
        xaxis=plain_axis(_RATE_TITLE[unit], rangemode="tozero"),
        yaxis=plain_axis(
            "",
            type="category",
            categoryorder="array",
            categoryarray=[plot_text(x) for x in labels[::-1]],
            ticklabelstandoff=6,
        ),
        showlegend=len(runs) > 1,
        shapes=[],
        annotations=[],
    )
    layout["margin"]["l"] = min(60 + 5 * longest, 200)
    top = max(value for trace in traces for value in trace["x"])
    levels = [(text, scaled(ceiling, unit)) for text, ceiling in ceilings if unit == "bytes"]
    near = [(text, level) for text, level in levels if level <= 2 * top]
    figure = {"data": traces, "layout": layout}
    if near:
        uprights(figure, near, 1.05 * max([top, *(level for _, level in near)]))
    return figure


def _bar_traces(name: str, cases: Sequence[Case], colour: str) -> list[Trace]:
    spots = [next(iter(case.spots)) for case in cases]
    medians = [statistics.median(case.values(at)) for case, at in zip(cases, spots, strict=True)]
    labels = [plot_text(case.label) for case in cases]
    shared: Trace = {"orientation": "h", "name": plot_text(name), "legendgroup": name}
    bar: Trace = {
        **shared,
        "type": "bar",
        "x": [scaled(value, case.unit) for value, case in zip(medians, cases, strict=True)],
        "y": labels,
        "marker": {"color": colour, **_hatched(cases, spots)},
        "text": [
            (f"{CACHED} " if case.cached(at) else "") + value_label(value, case.unit)
            for value, case, at in zip(medians, cases, spots, strict=True)
        ],
        "textposition": "auto",
        "insidetextanchor": "start",
        "insidetextfont": {"color": theme.SURFACE},
        "customdata": [[where(case, at), _note(case, at)] for case, at in zip(cases, spots, strict=True)],
        "hovertemplate": "<b>%{text}</b><br>%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        "offsetgroup": name,
    }
    if max(case.repeats() for case in cases) == 1:
        return [bar]
    dots = [(label, value) for label, case, at in zip(labels, cases, spots, strict=True) for value in case.values(at)]
    return [
        bar,
        {
            **shared,
            "type": "scatter",
            "mode": "markers",
            "x": [scaled(value, cases[0].unit) for _, value in dots],
            "y": [label for label, _ in dots],
            "marker": {"color": theme.SURFACE, "size": 6, "line": {"color": theme.INK, "width": 1}},
            "hovertemplate": f"%{{x:,.4~g}} {_UNIT[cases[0].unit]}, one repeat<extra></extra>",
            "showlegend": False,
            "offsetgroup": name,
            "scattermode": "group",
        },
    ]


def _hatched(cases: Sequence[Case], spots: Sequence[Spot]) -> dict[str, Any]:
    """Bars of the client's cache are hatched: a second sign, as a colour means the run."""
    shapes = ["/" if case.cached(at) else "" for case, at in zip(cases, spots, strict=True)]
    return {"pattern": {"shape": shapes, "fillmode": "replace", "solidity": 0.5}} if any(shapes) else {}


# --- record size x file size -----------------------------------------------------------------------------


def _matrix(case: Case) -> list[list[float | None]]:
    """Medians, rows = record sizes, columns = file sizes, None where nothing was measured."""
    medians = case.medians()
    return [
        [scaled(medians[file, record], case.unit) if (file, record) in medians else None for file in case.files]
        for record in case.records
    ]


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return count_text(value)


def _levels(rows: list[list[float | None]]) -> tuple[list[list[float | None]], list[float]]:
    """(log10 of every cell, ticks for its colour bar)."""
    known = [cell for row in rows for cell in row if cell]
    logs = [[number(math.log10(cell)) if cell else None for cell in row] for row in rows]
    return logs, [tick for tick in log_ticks(min(known), max(known)) if min(known) <= tick <= max(known)]


def _colour_bar(ticks: list[float], unit: str) -> dict[str, Any]:
    return {
        "title": {"text": _UNIT[unit], "side": "top"},
        "tickvals": [number(math.log10(tick)) for tick in ticks],
        "ticktext": [f"{tick:,.10g}" for tick in ticks],
        "thickness": 12,
        "outlinewidth": 0,
        "len": 0.9,
    }


def heat(case: Case) -> Figure:
    """Heat map of record size against file size; colour on a log scale, the value in every cell.

    `customdata` holds the values (MB/s or ops/s), `z` their log10. Predicted cells read `~`, those of the client's
    cache CACHED.
    """
    rows = _matrix(case)
    logs, ticks = _levels(rows)
    text = [
        ["" if cell is None else _sign(case, (file, record)) + _short(cell)
         for file, cell in zip(case.files, row, strict=True)]
        for record, row in zip(case.records, rows, strict=True)
    ]  # fmt: skip
    files, records = [size_label(file) for file in case.files], [size_label(record) for record in case.records]
    trace: Trace = {
        "type": "heatmap",
        "x": files,
        "y": records,
        "z": logs,
        "customdata": rows,
        "text": text,
        "colorscale": theme.CIVIDIS,
        "colorbar": _colour_bar(ticks, case.unit),
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "hovertext": [[_regimes(case, (file, record)) for file in case.files] for record in case.records],
        "hovertemplate": f"<b>%{{customdata:,.4~g}} {_UNIT[case.unit]}</b><br>"
        "%{x} file, %{y} records<br>%{hovertext}<extra></extra>",
    }
    layout = base_layout(
        xaxis=plain_axis("File size", type="category", showgrid=False),
        yaxis=plain_axis("Record size", type="category", showgrid=False),
        height=max(260, 130 + 34 * len(case.records)),
        showlegend=False,
    )
    return {"data": [trace, _cell_text(files, records, text, logs)], "layout": layout}


def _sign(case: Case, at: Spot) -> str:
    """What stands before a value that no server was measured to give."""
    return "~" if case.predicted(at) else CACHED if case.cached(at) else ""


def _cell_text(files: list[str], records: list[str], text: list[list[str]], logs: list[list[float | None]]) -> Trace:
    """The values as text, black or white by the colour beneath, which a heat map's own text cannot do."""
    known = [level for row in logs for level in row if level is not None]
    low, width = min(known), (max(known) - min(known)) or 1.0
    cells = [
        (files[column], records[row], text[row][column], theme.text_on(theme.CIVIDIS, (level - low) / width))
        for row, levels in enumerate(logs)
        for column, level in enumerate(levels)
        if level is not None
    ]
    return {
        "type": "scatter",
        "mode": "text",
        "x": [cell[0] for cell in cells],
        "y": [cell[1] for cell in cells],
        "text": [cell[2] for cell in cells],
        "textfont": {"size": 12, "color": [cell[3] for cell in cells]},
        "hoverinfo": "skip",
        "cliponaxis": False,
    }


CAMERAS = (
    {"eye": {"x": -1.36, "y": -1.46, "z": 0.78}, "center": {"x": 0, "y": 0, "z": -0.24}},
    {"eye": {"x": 1.46, "y": -1.36, "z": 0.73}, "center": {"x": 0, "y": 0, "z": -0.24}},
)
"""The fixed viewpoints: small sizes in front, then large files in front."""


def surface(case: Case) -> Figure:
    """3D surface of throughput over record size and file size; `cameras` holds the two viewpoints.

    x, y: log2 of the sizes. z: the values, or their log10 where they span more than a factor of STEEP: Plotly puts the
    ticks of a logarithmic axis of a scene all on its floor. Texts hold the values either way.
    """
    rows = _matrix(case)
    logs, ticks = _levels(rows)
    known = [cell for row in rows for cell in row if cell]
    steep = max(known) > STEEP * min(known)
    trace: Trace = {
        "type": "surface",
        "x": [number(math.log2(file)) for file in case.files],
        "y": [number(math.log2(record)) for record in case.records],
        "z": logs if steep else rows,
        "surfacecolor": logs,
        "colorscale": theme.VIRIDIS,
        "colorbar": {**_colour_bar(ticks, case.unit), "len": 0.7},
        "connectgaps": False,
        "contours": {"x": mesh(case.files), "y": mesh(case.records)},
        "text": [
            [
                "" if value is None else f"<b>{_short(value)} {_UNIT[case.unit]}</b><br>{spot}{_cached_note(case, at)}"
                for value, spot, at in zip(row, named, [(file, record) for file in case.files], strict=True)
            ]
            for record, row, named in zip(case.records, rows, spots(case.files, case.records), strict=True)
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "lighting": {"ambient": 0.75, "diffuse": 0.5, "specular": 0.05, "roughness": 0.9},
    }
    return relief(trace, case.files, case.records, _scene_rates(known, case.unit, steep))


def _cached_note(case: Case, at: Spot) -> str:
    return "<br>from the client's cache" if case.cached(at) else ""


def relief(trace: Trace, files: Sequence[int], records: Sequence[int], height: Mapping[str, Any]) -> Figure:
    """A 3D figure of one surface over record size and file size. height: the z axis."""
    scene = {
        "xaxis": _scene_axis("File size", files),
        "yaxis": _scene_axis("Record size", records),
        "zaxis": height,
        "camera": CAMERAS[0],
        "aspectmode": "manual",
        "aspectratio": {"x": 1.25, "y": 1.25, "z": 0.75},
        "bgcolor": theme.SURFACE,
    }
    layout = base_layout(scene=scene, height=520)
    layout["margin"] = {"l": 0, "r": 0, "t": 0, "b": 0}
    return {"data": [trace], "layout": layout, "cameras": list(CAMERAS)}


def spots(files: Sequence[int], records: Sequence[int]) -> list[list[str]]:
    """What each spot of a surface is, in words."""
    return [[f"{size_label(file)} file, {size_label(record)} records" for file in files] for record in records]


def mesh(sizes: Sequence[int]) -> dict[str, Any]:
    """Lines on the surface at every size, when the sizes are evenly spaced; else where Plotly puts them."""
    logs = [math.log2(size) for size in sizes]
    mesh: dict[str, Any] = {"show": True, "color": theme.GRID, "width": 1}
    steps = {number(b - a) for a, b in itertools.pairwise(logs)}
    return {**mesh, "start": logs[0], "end": logs[-1], "size": steps.pop()} if len(steps) == 1 else mesh


def _scene_axis(title: str, sizes: Sequence[int]) -> dict[str, Any]:
    ticks = sizes[:: -(-len(sizes) // 6)]
    return {
        "title": {"text": title},
        "tickvals": [number(math.log2(size)) for size in ticks],
        "ticktext": [size_label(size) for size in ticks],
        "gridcolor": theme.GRID,
        "color": theme.MUTED,
        "showbackground": False,
    }


def _scene_rates(known: list[float], unit: str, steep: bool) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": _UNIT[unit]}, "gridcolor": theme.GRID, "color": theme.MUTED, "showbackground": False,
    }  # fmt: skip
    if not steep:
        top = max(known)
        ticks = _even_ticks(top)
        return {**axis, "range": [0, number(max(1.05 * top, ticks[-1]))], "tickvals": ticks, "ticktext": _told(ticks)}
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    ticks = [10.0**decade for decade in range(low, high + 1)]
    return {
        **axis, "range": [number(low - FLOOR * (high - low)), high],
        "tickvals": [number(math.log10(tick)) for tick in ticks], "ticktext": _told(ticks),
    }  # fmt: skip


def _even_ticks(top: float) -> list[float]:
    """At most six round values up to the top. None at 0, the floor, where the sizes have their texts."""
    steps = (digit * 10.0**power for power in range(-9, 13) for digit in (1, 2, 5))
    step = next(step for step in steps if top / step < 7)
    return [number(step * at) for at in range(1, int(top / step) + 1)] or [number(step)]


def _told(ticks: Sequence[float]) -> list[str]:
    return [f"{tick:,.10g}" for tick in ticks]


# --- latency ---------------------------------------------------------------------------------------------


def percentiles(case: Case) -> Figure:
    """Latency percentiles against file size, one line each; a chooser picks the record size (largest first)."""
    colours = theme.ladder(len(PERCENTILES))
    traces: list[Trace] = []
    options = []
    for record in reversed(case.records):
        spots = [(file, record) for file in case.files if (file, record) in case.spots]
        for (key, name), colour in zip(PERCENTILES, colours, strict=True):
            found = [(at[0], percentile_ns(case, at, key)) for at in spots]
            points = [(file, value) for file, value in found if value]
            if points:
                traces.append(_percentile_line(points, name, colour, record))
        drawn = [value for trace in traces if trace["meta"]["record"] == record for value in trace["y"]]
        options.append(
            {
                "value": str(record),
                "label": size_label(record),
                "caption": tight(_latency_finding(case, spots, record)),
                "yaxis": time_axis(drawn, "Latency"),
            }
        )
    layout = base_layout(xaxis=size_axis("File size", case.files), yaxis=options[0]["yaxis"])
    layout["legend"]["title"]["text"] = "Percentile"
    layout["legend"]["traceorder"] = "reversed"
    return {
        "data": traces,
        "layout": layout,
        "filter": {"by": "record", "label": "Record size", "options": options},
    }


def _percentile_line(points: list[tuple[int, float]], name: str, colour: str, record: int) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "meta": {"record": record},
        "x": [file for file, _ in points],
        "y": numbers(value / 1e6 for _, value in points),
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": 6},
        "customdata": [[time_label(value), size_label(file)] for file, value in points],
        "hovertemplate": f"<b>{name}: %{{customdata[0]}}</b><br>%{{customdata[1]}} file<extra></extra>",
    }


def _latency_finding(case: Case, spots: list[Spot], record: int) -> str:
    worst = {at: percentile_ns(case, at, "p99") for at in spots}
    known = {at: value for at, value in worst.items() if value}
    if not known:
        return f"{case.label} with {size_label(record)} records: no latencies were recorded."
    high, low = max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    head = f"{case.label} with {size_label(record)} records: 99 % of the operations took at most"
    if high == low:
        return f"{head} {time_label(known[high])}."
    return (
        f"{head} {time_label(known[low])} in the best cell ({size_label(low[0])} file) and "
        f"{time_label(known[high])} in the worst ({size_label(high[0])} file)."
    )


def percentile_dots(cases: Sequence[Case]) -> Figure:
    """Latency percentiles of tests with one size each: a column of marks per test."""
    colours = theme.ladder(len(PERCENTILES))
    symbols = ("circle", "diamond", "square", "triangle-up", "line-ew-open")
    spots = [next(iter(case.spots)) for case in cases]
    known = [[(case.label, percentile_ns(case, at, key)) for case, at in zip(cases, spots, strict=True)]
             for key, _ in PERCENTILES]  # fmt: skip
    every = [value for points in known for _, value in points if value]
    apart = LABELS_APART * math.log(max(every) / min(every)) if every else 0.0
    last: dict[tuple[str, str], float] = {}
    traces: list[Trace] = []
    sides = ("top center", "bottom center") * 3
    for found, (_, name), colour, symbol, side in zip(known, PERCENTILES, colours, symbols, sides, strict=False):
        points = [(label, value) for label, value in found if value]
        texts = [_free(last, (label, side), value, apart) for label, value in points]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text" if len(cases) <= 4 else "markers",
                "name": name,
                "y": [plot_text(label) for label, _ in points],
                "x": numbers(value / 1e6 for _, value in points),
                "marker": {"color": colour, "size": 11, "symbol": symbol, "line": {"color": colour, "width": 2}},
                "text": texts,
                "customdata": [time_label(value) for _, value in points],
                "textposition": side,
                "textfont": {"size": 11},
                "cliponaxis": False,
                "hovertemplate": f"<b>{name}: %{{customdata}}</b><br>%{{y}}<extra></extra>",
            }
        )
    drawn = [value for trace in traces for value in trace["x"]]
    order = [plot_text(case.label) for case in cases][::-1]
    layout = base_layout(
        xaxis=time_axis(drawn, "Latency"),
        yaxis=plain_axis(
            "",
            type="category",
            categoryorder="array",
            categoryarray=order,
            ticklabelstandoff=6,
            range=[-0.6, len(cases) - 0.4],
        ),
        height=max(220, 130 + 60 * len(cases)),
    )
    legend_above(layout)
    layout["margin"]["t"] = 40
    return {"data": traces, "layout": layout}


def _free(last: dict[tuple[str, str], float], place: tuple[str, str], value: float, apart: float) -> str:
    """The text of a mark; none where the one before it, on the same side of the same row, is too near."""
    before = last.get(place)
    if before is not None and abs(math.log(value / before)) <= apart:
        return ""
    last[place] = value
    return time_label(value)


def log_bins(values: NDArray[Any], counts: NDArray[Any], most: int = 64) -> tuple[list[float], list[float]]:
    """(edges in ns, share of the samples in percent) of a histogram on equal steps of log latency.

    values: (n,) ns, ascending. counts: (n,). 24 steps or 40 a decade, at most `most`. No sample is lost.
    """
    total = float(counts.sum())
    low, high = float(max(values[0], 1)), float(max(values[-1], 1))
    bins = int(min(most, max(24, math.ceil(40 * math.log10(high / low))))) if high > low else 1
    edges = np.geomspace(low * 0.999, high * 1.001, bins + 1)
    share, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges, weights=counts)
    return numbers(edges), numbers(share / total * 100)


def distribution(found: Sequence[tuple[str, NDArray[Any], NDArray[Any]]]) -> Figure:
    """Distribution of latency as filled steps of the share of operations: (kind, values_ns, counts) of each."""
    colours = {"read": theme.ACCENT, "write": theme.LATENCY, "flush": theme.run_colour(2)}
    others = itertools.cycle(theme.run_colour(index) for index in (3, 4, 5, 6))
    traces: list[Trace] = []
    for kind, values, counts in found:
        edges, share = log_bins(values, counts)
        colour = colours.get(kind) or next(others)
        middle = [time_label(math.sqrt(a * b)) for a, b in itertools.pairwise(edges)]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": op_name(kind, int(counts.sum())),
                "x": numbers(edge / 1e6 for edge in [edges[0], *edges]),
                "y": [0.0, *share, 0.0],
                "line": {"shape": "hv", "color": colour, "width": 1.5},
                "fill": "tozeroy",
                "fillcolor": theme.band(colour),
                "text": ["", *middle, ""],
                "hovertemplate": "%{y:.3~g} % of operations around %{text}<extra></extra>",
            }
        )
    drawn = [value for trace in traces for value in trace["x"]]
    layout = base_layout(
        xaxis=time_axis(drawn, "Latency"),
        yaxis=plain_axis("Share of operations (%)", rangemode="tozero"),
        showlegend=True,
        height=340,
    )
    legend_above(layout)
    layout["margin"]["t"] = 36
    return {"data": traces, "layout": layout}


def op_name(kind: str, count: int) -> str:
    """`Read (12,000 operations)`."""
    return f"{kind.capitalize()} ({count_label(count, 'operation')})"


# --- interval series -------------------------------------------------------------------------------------


def series(times_s: NDArray[Any], lines: dict[str, NDArray[Any]], worst_ns: NDArray[Any], buckets: int) -> Figure:
    """Throughput over time above, worst latency of each interval below, thinned to the extremes of `buckets`.

    times_s: (n,) start of each interval. lines: name -> (n,) bytes per second. worst_ns: (n,).
    """
    colours = {"Read": theme.ACCENT, "Write": theme.LATENCY}
    traces: list[Trace] = []
    for name, rates in lines.items():
        keep = keep_extremes(rates, buckets)
        traces.append(
            _series_line(
                (times_s[keep], rates[keep] / 1e6), name, colours.get(name, theme.ACCENT), "y", "%{y:,.4~g} MB/s"
            )
        )
    keep = keep_extremes(worst_ns, buckets)
    worst = _series_line(
        (times_s[keep], worst_ns[keep] / 1e6), "Worst latency", theme.MUTED, "y2", "worst latency %{y:,.4~g} ms"
    )
    worst["line"]["width"] = 1
    traces.append(worst)
    layout = base_layout(
        xaxis=plain_axis("Time since the start (s)", anchor="y2"),
        yaxis=plain_axis("Throughput (MB/s)", domain=[0.4, 1], range=[0, 1.08 * _top(traces[:-1])]),
        yaxis2=plain_axis("Worst latency (ms)", domain=[0, 0.3], range=[0, 1.08 * _top([worst])]),
        height=460,
        hovermode="x",
        showlegend=len(lines) > 1,
    )
    legend_above(layout)
    layout["margin"]["t"] = 36 if len(lines) > 1 else 16
    return {"data": traces, "layout": layout}


def _top(traces: list[Trace]) -> float:
    return max((value for trace in traces for value in trace["y"]), default=0.0) or 1.0


def _series_line(points: tuple[NDArray[Any], NDArray[Any]], name: str, colour: str, axis: str, hover: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": numbers(points[0]),
        "y": numbers(points[1]),
        "yaxis": axis,
        "line": {"color": colour, "width": 1.5},
        "hovertemplate": f"{hover}<extra></extra>",
    }
