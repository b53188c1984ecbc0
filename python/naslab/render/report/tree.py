"""The picture of `naslab tree`: rate of each phase, warm and cold, with the latency of its calls beside; the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from naslab.analysis.metadata import CACHES, caches_of, header, percent_text, rows, sentences
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, legend_above, numbers, plain_axis, rate_axis, time_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import esc, op_label, plot_text, text_table, time_label
from naslab.results.describe import part_of
from naslab.results.parts.tree import TreeDocument, TreePhase
from naslab.units import count_text

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown
    from naslab.results.run import Run

_COLOURS = {"warm": theme.run_colour(1), "new_connection": theme.run_colour(3), "cold": theme.run_colour(0)}
assert set(_COLOURS) == set(CACHES.values())
_BAR_PX, _PHASE_PX, _AROUND_PX = 13, 20, 130


@dataclass
class Series:
    """Bars of one colour: the phases of a run with the same caches before them."""

    name: str
    colour: str
    rows: Sequence[TreePhase]


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds one figure for each run of `naslab tree`; before them, of several runs, one for each state of the caches."""
    found = _with_phases([(run.name, run.run) for run in runs])
    if len(found) > 1:
        for caches in _COLOURS:
            every = [(name, [row for row in tree.phases if caches_of(row) == caches]) for name, tree in found]
            series = [Series(name, theme.run_colour(at), some) for at, (name, some) in enumerate(every) if some]
            if len(series) > 1:
                label = f"All runs, {_words(caches)}"
                chart.add([label], figure(series), f"{label}. " + " ".join(map(_range, series)))
    for name, tree in found:
        series = [
            Series(_words(caches), colour, some)
            for caches, colour in _COLOURS.items()
            if (some := [row for row in tree.phases if caches_of(row) == caches])
        ]
        chart.add([name], figure(series), " ".join(sentences(tree)))


def _with_phases(runs: Sequence[tuple[str, Run]]) -> list[tuple[str, TreeDocument]]:
    every = [(name, part_of(run.document, "tree", TreeDocument)) for name, run in runs]
    return [(name, tree) for name, tree in every if tree and tree.phases]


def _words(caches: str) -> str:
    return caches.replace("_", " ")


def _range(series: Series) -> str:
    slow, fast = (choose(series.rows, key=lambda row: row.ops_per_s) for choose in (min, max))
    ends = (f"{row.op} {count_text(row.ops_per_s)}/s" for row in (slow, fast))
    return f"{series.name}: {' (slowest) to '.join(ends)} (fastest)."


def figure(series: Sequence[Series]) -> Figure:
    """Two panels over the same phases: bars of the rate, and p50 to p99 of a call, both logarithmic.

    Where it is narrow, the second stands below the first.
    """
    names = list(dict.fromkeys(op_label(row.op) for one in series for row in one.rows))
    # Plotly stacks the bars of a phase upwards: the first series goes last, to be on top, and first in the legend.
    traces = [trace for at, one in reversed([*enumerate(series)]) for trace in (*_rate(one, at), *_latency(one, at))]
    rates = [rate for one in series for row in one.rows for rate in _rates(row)]
    times = [ns / 1e6 for one in series for row in one.rows for ns in (row.latency_ns_p50, row.latency_ns_p99)]
    category = {"type": "category", "categoryorder": "array", "categoryarray": names[::-1], "ticklabelstandoff": 6}
    high = _AROUND_PX + len(names) * (_PHASE_PX + _BAR_PX * len(series))

    def axes(x: Sequence[float], x2: Sequence[float], y: Sequence[float], y2: Sequence[float], named: bool) -> Figure:
        return {
            "xaxis": {**rate_axis(rates, "Operations per second"), "domain": x, "anchor": "y"},
            "xaxis2": {**time_axis(times, "Latency of a call"), "domain": x2, "anchor": "y2"},
            "yaxis": plain_axis("", **category, domain=y),
            "yaxis2": plain_axis("", **category, domain=y2, showticklabels=named, anchor="x2" if named else "free",
                                 position=x2[0], matches=None if named else "y"),
        }  # fmt: skip

    layout = base_layout(
        **axes([0, 0.56], [0.62, 1], [0, 1], [0, 1], False), barmode="group", scattermode="group", bargap=0.3,
        scattergap=0.3, height=max(300, high), showlegend=True, hovermode="closest",
    )  # fmt: skip
    layout["margin"] = {**layout["margin"], "l": 110, "t": 40}
    legend_above(layout, y=1, traceorder="reversed")
    narrow = {**axes([0, 1], [0, 1], [0.54, 1], [0, 0.44], True), "height": max(560, 2 * high)}
    return {"data": traces, "layout": layout, "narrow": narrow}


def _rates(row: TreePhase) -> Iterator[float]:
    yield row.ops_per_s
    yield from row.ops_per_s_each or ()
    yield from row.ops_per_s_ci95 or ()


def _rate(one: Series, at: int) -> Iterator[Trace]:
    labels = [op_label(row.op) for row in one.rows]
    name, group = plot_text(one.name), {"legendgroup": one.name, "offsetgroup": str(at)}
    ends = [row.ops_per_s_ci95 or [row.ops_per_s] * 2 for row in one.rows]
    bars: Trace = {
        "type": "bar", "orientation": "h", "name": name, **group, "y": labels,
        "x": numbers(row.ops_per_s for row in one.rows), "marker": {"color": one.colour, "opacity": 0.75},
        "customdata": [_told(row) for row in one.rows],
        "hovertemplate": f"<b>%{{x:,.4~g}}/s</b><br>%{{y}}, {name}%{{customdata}}<extra></extra>",
    }  # fmt: skip
    if any(row.ops_per_s_ci95 for row in one.rows):
        bars["error_x"] = {
            "type": "data", "symmetric": False, "color": theme.INK, "thickness": 1.2, "width": 3,
            "array": numbers(end[1] - row.ops_per_s for end, row in zip(ends, one.rows, strict=True)),
            "arrayminus": numbers(row.ops_per_s - end[0] for end, row in zip(ends, one.rows, strict=True)),
        }  # fmt: skip
    yield bars
    each = [(op_label(row.op), rate) for row in one.rows for rate in row.ops_per_s_each or ()]
    if len(each) > len(labels):
        yield {
            "type": "scatter", "mode": "markers", "name": f"{name}, each repeat", **group, "showlegend": False,
            "orientation": "h", "x": numbers(rate for _, rate in each), "y": [label for label, _ in each],
            "marker": {"color": one.colour, "size": 5, "line": {"color": theme.SURFACE, "width": 1}},
            "hovertemplate": f"%{{x:,.4~g}}/s<br>%{{y}}, {name}, one repeat<extra></extra>",
        }  # fmt: skip


def _told(row: TreePhase) -> str:
    """What is known of a bar beside its length."""
    parts = [f"{row.count:,} operations" + (f", median of {row.repeats}" if row.repeats > 1 else "")]
    if row.ops_per_s_ci95:
        low, high = row.ops_per_s_ci95
        parts.append(f"95 % interval {low:,.4g} to {high:,.4g}/s")
    if row.of_warm:
        parts.append(f"{percent_text(row.of_warm)} of the warm rate")
    return "".join(f"<br>{part}" for part in parts)


def _latency(one: Series, at: int) -> Iterator[Trace]:
    labels = [op_label(row.op) for row in one.rows]
    name = plot_text(one.name)
    for quantile, symbol in (("p50", "circle"), ("p99", "diamond-open")):
        times = [row.latency_ns_p50 if quantile == "p50" else row.latency_ns_p99 for row in one.rows]
        trace: Trace = {
            "type": "scatter", "mode": "markers", "name": f"{name}, {quantile}", "legendgroup": one.name,
            "offsetgroup": str(at), "showlegend": False, "orientation": "h", "xaxis": "x2", "yaxis": "y2",
            "x": numbers(time / 1e6 for time in times), "y": labels,
            "marker": {"color": one.colour, "size": 7, "symbol": symbol},
            "customdata": [time_label(time) for time in times],
            "hovertemplate": f"<b>%{{customdata}}</b> {quantile}<br>%{{y}}, {name}<extra></extra>",
        }  # fmt: skip
        if quantile == "p50":
            trace["error_x"] = {
                "type": "data", "symmetric": False, "color": one.colour, "thickness": 1.2, "width": 0,
                "array": numbers((row.latency_ns_p99 - row.latency_ns_p50) / 1e6 for row in one.rows),
                "arrayminus": [0.0] * len(one.rows),
            }  # fmt: skip
        yield trace


def section(runs: Sequence[tuple[str, Run]]) -> str:
    """The table of the phases, warm and cold side by side, as HTML; empty without any. runs: (name, run)."""
    parts = []
    for name, tree in _with_phases(runs):
        head = f"<h3>{esc(name)}</h3>" if len(runs) > 1 else ""
        shown = [(op_label(op), *rest) for op, *rest in rows(tree)]
        parts.append(head + text_table(next(iter(sentences(tree))), header(tree), shown))
    if not parts:
        return ""
    lead = "Medians over the repeats; intervals of the median need six. Latency is that of one call."
    return (
        f'<section id="tree-table"><h2>Metadata, phase by phase</h2><p class="lead">{esc(lead)}</p>'
        f"{''.join(parts)}</section>"
    )
