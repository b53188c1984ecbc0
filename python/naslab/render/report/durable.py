"""`naslab durable` in the report: what became of the writes of each mode, survival by age, and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from naslab.commands.durable.words import HEADER, METADATA_HEADER, metadata_rows, rows
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, legend_above, numbers, plain_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import count_label, esc, percent, text_table
from naslab.results.describe import typed
from naslab.results.parts.durable import Durable, DurableMode
from naslab.units import duration_text

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown
    from naslab.results.run import Run

_MODES = {"none": "none: never flushed", "end": "end: flushed in groups", "each": "each: durable writes"}
_GONE = ("lost", "torn", "damaged")
_CLASSES = (
    ("Survived", theme.run_colour(2)), ("Lost without a guarantee", theme.run_colour(4)),
    ("Lost despite a guarantee", theme.RULE),
)  # fmt: skip


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds the figures of each run of cuts."""
    for run in runs:
        document = run.run.document.get("durable")
        if not document or not document["modes"]:
            continue
        part = typed(document, Durable)
        chart.add([run.name, "Survival of the writes"], fates(part), _fates_words(part))
        if any(row.ages for row in part.modes):
            chart.add([run.name, "Survival by age"], ages(part), _ages_words(part))


def _counts(row: DurableMode) -> tuple[int, int, int]:
    """Of the writes that were not overwritten, in the order of _CLASSES."""
    broken = sum(row.violations_by_kind[name] for name in _GONE)
    return row.survived, row.lost + row.torn + row.damaged - broken, broken


def fates(part: Durable) -> Figure:
    """Stacked horizontal bars: percent of the writes not overwritten in each class, a bar for each mode."""
    modes = [row for row in part.modes if sum(_counts(row))]
    labels = [_MODES[row.mode] for row in modes]
    traces: list[Trace] = [
        {
            "type": "bar", "orientation": "h", "name": name, "marker": {"color": colour},
            "x": numbers(100 * _counts(row)[at] / sum(_counts(row)) for row in modes), "y": labels,
            "customdata": [f"{_counts(row)[at]:,}" for row in modes],
            "hovertemplate": f"<b>%{{customdata}} writes</b>, %{{x:.3~g}} %<br>%{{y}}: {name}<extra></extra>",
        }
        for at, (name, colour) in enumerate(_CLASSES)
        if any(_counts(row)[at] for row in modes)
    ]  # fmt: skip
    axis = plain_axis("Acknowledged writes, not overwritten later (%)", range=[0, 100])
    return {"data": traces, "layout": _layout(labels, axis, "stack")}


def ages(part: Durable) -> Figure:
    """Percent of the writes without a promise that survived, by their age at the last acknowledgement."""
    bins = sorted({(age.from_ns, age.to_ns) for row in part.modes for age in row.ages}, key=lambda one: one[0])
    labels = [_age(*one) for one in bins]
    traces: list[Trace] = []
    for at, row in enumerate(row for row in part.modes if row.ages):
        known = {_age(age.from_ns, age.to_ns): age for age in row.ages}
        here = [label for label in labels if label in known]
        traces.append({
            "type": "bar", "orientation": "h", "name": _MODES[row.mode], "marker": {"color": theme.run_colour(at)},
            "x": numbers(100 * known[label].survived / known[label].judged for label in here), "y": here,
            "customdata": [f"{known[label].survived:,} of {known[label].judged:,}" for label in here],
            "hovertemplate": "<b>%{customdata} writes</b>, %{x:.3~g} %<br>%{y}<extra></extra>",
        })  # fmt: skip
    axis = plain_axis("Survived, of writes without a guarantee (%)", range=[0, 100])
    return {"data": traces, "layout": _layout(labels, axis, "group")}


def _age(from_ns: int, to_ns: int | None) -> str:
    if to_ns is None:
        return f"older than {duration_text(from_ns)}"
    return f"{duration_text(from_ns)} to {duration_text(to_ns)}" if from_ns else f"up to {duration_text(to_ns)}"


def _layout(labels: Sequence[str], xaxis: dict[str, Any], mode: str) -> dict[str, Any]:
    axis = plain_axis("", type="category", categoryorder="array", categoryarray=labels[::-1], ticklabelstandoff=6)
    layout = base_layout(
        barmode=mode, bargap=0.35, height=max(240, 140 + 50 * len(labels)), showlegend=True, xaxis=xaxis, yaxis=axis
    )
    layout["margin"] = {**layout["margin"], "l": 60, "t": 56}
    legend_above(layout, y=1, traceorder="normal")
    return layout


def _fates_words(part: Durable) -> str:
    told = []
    for row in part.modes:
        survived, allowed, broken = _counts(row)
        gone = f", {allowed:,} lost without a guarantee" if allowed else ""
        gone += f", {broken:,} lost despite a guarantee" if broken else ""
        told.append(f"{row.mode}: {survived:,} of {count_label(sum(_counts(row)), 'write')} survived{gone}")
    return "; ".join(told) + "."


def _ages_words(part: Durable) -> str:
    told = []
    for row in part.modes:
        bins = [f"{_age(age.from_ns, age.to_ns)} {percent(age.survived / age.judged)}" for age in row.ages]
        if bins:
            told.append(f"{row.mode}: {', '.join(bins)}")
    return "Age at the last acknowledgement, and the share that survived. " + "; ".join(told) + "."


def section(runs: Sequence[tuple[str, Run]]) -> str:
    """The tables as HTML; empty without any run of cuts. runs: (name, run)."""
    parts = []
    for name, run in runs:
        document = run.document.get("durable")
        if document and document["modes"]:
            part = typed(document, Durable)
            head = f"<h3>{esc(name)}</h3>" if len(runs) > 1 else ""
            parts.append(
                head + text_table("Acknowledged writes by durability mode", HEADER, list(rows(part)))
                + text_table("Acknowledged changes of metadata", METADATA_HEADER, list(metadata_rows(part)))
            )  # fmt: skip
    if not parts:
        return ""
    lead = (
        "Overwritten writes were replaced by later ones, so they show nothing. Durable writes are guaranteed, "
        "and so are writes before an acknowledged flush; only a loss of these is a violation."
    )
    return (
        f'<section id="durable-table"><h2>Writes and metadata, counted</h2><p class="lead">{esc(lead)}</p>'
        f"{''.join(parts)}</section>"
    )
