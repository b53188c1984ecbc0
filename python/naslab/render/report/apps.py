"""Applications in the report: bars with the published numbers beside them, and the table of the repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from naslab.commands.apps.results import FACTS, fact_rows, header, identical_runs, median_rows, rows, sentences
from naslab.published import naspt
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, number, numbers, plain_axis, rate_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import esc, plot_text, text_table
from naslab.results.describe import part_of
from naslab.results.parts.apps import Apps

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown
    from naslab.results.run import Run


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds one figure with all runs that hold applications, and one of each set of a run that holds several."""
    found = _with_apps([(run.name, run.run) for run in runs])
    if found:
        words = [f"{name}: " * (len(found) > 1) + " ".join(sentences(apps)) for name, apps in found]
        words += [f"{', '.join(group)}: the same rates within 0.001 MB/s." for group in identical_runs(found)]
        chart.add(["Applications"], bars(found), " ".join([*words, _published_words()]))


def _with_apps(runs: Sequence[tuple[str, Run]]) -> list[tuple[str, Apps]]:
    every = [(name, part_of(run.document, "apps", Apps)) for name, run in runs]
    return [(name, apps) for name, apps in every if apps and apps.results]


def _published_words() -> str:
    table = naspt.table()
    return (
        f"Published: {table['source']}; {table['system']}. Its six runs had different conditions and are not averaged; "
        "the first two have identical numbers."
    )


def bars(runs: Sequence[tuple[str, Apps]]) -> Figure:
    """Horizontal bars of the medians (MB/s, logarithmic), a dot for each repeat, a diamond for each published run."""
    names = list(dict.fromkeys(one.name for _, apps in runs for one in apps.results))
    traces: list[Trace] = []
    for index, (run, apps) in enumerate(runs):
        colour = theme.run_colour(index) if len(runs) > 1 else theme.ACCENT
        traces += _run_traces(run if len(runs) > 1 else "This run", apps, colour)
    theirs = [(name, value, at) for name in names for at, value in enumerate(_published(name), 1)]
    if theirs:
        traces.append(_published_trace(theirs))
    layout = base_layout(
        barmode="group",
        bargap=0.35,
        scattermode="group",
        scattergap=0.35,
        height=max(220, 90 + 40 * len(names) * len(runs)),
        xaxis=rate_axis([value for trace in traces for value in trace["x"]], "MB/s, logarithmic"),
        yaxis=plain_axis(
            "", type="category", categoryorder="array", categoryarray=names, autorange="reversed", ticklabelstandoff=6
        ),
        showlegend=True,
    )
    layout["margin"]["l"] = 190
    return {"data": traces, "layout": layout}


def _published(name: str) -> list[float]:
    return list(naspt.table()["mb_per_s"].get(name, []))


def _run_traces(run: str, apps: Apps, colour: str) -> list[Trace]:
    found = [(one, middle) for one in apps.results if (middle := one.median_bytes_per_s)]
    each = [(one.name, rate / 1e6) for one, _ in found for rate in one.bytes_per_s]
    name = plot_text(run)
    return [
        {
            "type": "bar", "orientation": "h", "name": name, "legendgroup": run, "offsetgroup": run,
            "x": numbers(middle / 1e6 for _, middle in found), "y": [one.name for one, _ in found],
            "marker": {"color": colour, "opacity": 0.75},
            "hovertemplate": "<b>%{x:,.4~g} MB/s</b><br>%{y}, median<extra></extra>",
        },
        {
            "type": "scatter", "mode": "markers", "name": f"{name}, each repeat", "legendgroup": run,
            "orientation": "h", "offsetgroup": run,
            "x": [number(rate) for _, rate in each], "y": [label for label, _ in each], "showlegend": False,
            "marker": {"color": colour, "size": 6, "line": {"color": theme.SURFACE, "width": 1}},
            "hovertemplate": "%{x:,.4~g} MB/s<br>%{y}, one repeat<extra></extra>",
        },
    ]  # fmt: skip


def _published_trace(theirs: Sequence[tuple[str, float, int]]) -> Trace:
    conditions = naspt.table()["conditions"]
    return {
        "type": "scatter", "mode": "markers", "name": "Published, each run",
        "orientation": "h", "offsetgroup": "published",
        "x": [number(value) for _, value, _ in theirs], "y": [name for name, _, _ in theirs],
        "marker": {"color": theme.INK, "size": 9, "symbol": "diamond", "line": {"color": theme.SURFACE, "width": 1}},
        "text": [f"run {at}: {plot_text(conditions[at - 1])}" for _, _, at in theirs],
        "hovertemplate": "%{x:,.4~g} MB/s<br>%{y}, published %{text}<extra></extra>",
    }  # fmt: skip


def section(runs: Sequence[tuple[str, Run]]) -> str:
    """The tables of the applications, with the published numbers, as HTML; empty without any. runs: (name, run)."""
    found = _with_apps(runs)
    if not found:
        return ""
    parts = [_side_by_side(found)] if len(found) > 1 else []
    for name, apps in found:
        parts.append((f"<h3>{esc(name)}</h3>" if len(found) > 1 else "") + _app_tables(apps))
    lead = (
        "MB/s; those with NASPT's names are NASPT-class workloads, not NASPT scores. Lowest and highest published "
        "are over runs "
        "under different conditions, which are not averaged. 95 %: interval of the median. ops/s: operations of all "
        "kinds. % seq.: requests that continue the previous one, as planned, as issued and as published."
    )
    body = "".join([*parts, _published_table()])
    return f'<section id="apps-table"><h2>Applications, run by run</h2><p class="lead">{esc(lead)}</p>{body}</section>'


def _side_by_side(runs: Sequence[tuple[str, Apps]]) -> str:
    """Conditions beside one another: medians of each run, nothing averaged over runs."""
    heads = ("application", *(name for name, _ in runs), "published MB/s")
    shown = [(*row, _published_range(row[0])) for row in median_rows(runs)]
    return text_table("Median of each run, MB/s; runs are not averaged", heads, shown)


def _app_tables(apps: Apps) -> str:
    shown = [(*row, _published_range(row[0])) for row in rows(apps)]
    caption = f"Each repeat, MB/s: pace {apps.pace}, scale {apps.scale:g}"
    did = list(fact_rows(apps))
    return text_table(caption, (*header(apps), "published MB/s"), shown) + text_table("Work done", FACTS, did)


def _published_range(name: str) -> str:
    theirs = _published(name)
    return f"{min(theirs):,.4g} to {max(theirs):,.4g}" if theirs else "-"


def _published_table() -> str:
    table = naspt.table()
    heads = ("published", *(f"run {at}" for at in range(1, 1 + len(table["conditions"]))))
    shown = [(name, *(f"{value:,.4g}" for value in values)) for name, values in table["mb_per_s"].items()]
    conditions = "; ".join(f"{at}: {text}" for at, text in enumerate(table["conditions"], 1))
    words = f"Published: {table['source']}: {table['system']}. Runs: {conditions}."
    return f'<p class="lead">{esc(words)}</p>' + text_table("Published, MB/s", heads, shown)
