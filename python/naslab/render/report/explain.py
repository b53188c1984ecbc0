"""The pictures of the attribution ladder: depth, connections, working set, reads beside writes; and its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.explain import ladder_table, tell
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, number, numbers, plain_axis, rate_axis, size_axis
from naslab.render.report.figures import SYMBOLS, Figure, Trace
from naslab.render.report.labels import esc, plot_text, text_table, tight
from naslab.results.cell_names import capital
from naslab.results.describe import part_of, typed
from naslab.results.parts.ladder import Ladder, LadderFigure, LadderPoint
from naslab.units import rate_text, size_label

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown

MB = 1e6
_LEVEL = 1.05
_COLOURS = (theme.run_colour(0), theme.run_colour(1), theme.run_colour(2))


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Adds the figures of every run that climbed a ladder."""
    for run in runs:
        ladder = part_of(run.run.document, "ladder", Ladder)
        for name, figure, words in pictures(ladder) if ladder else ():
            chart.add([run.name, name], figure, words)


def pictures(ladder: Ladder) -> Iterator[tuple[str, Figure, str]]:
    """(name, figure, finding) of what the ladder has measured."""
    curves = _by_record(points(ladder, "round_trip", "depth", "small_depth"), "read")
    curves = {record: found for record, found in curves.items() if len({ladder_table.in_flight(p) for p in found}) > 1}
    if curves:
        yield "Queue depth", by_depth(curves), " ".join(map(_depth_words, curves.items()))
    if several := _with_one(ladder):
        yield "Connections", by_connections(several), " ".join(map(_connection_words, several.items()))
    passes = points(ladder, "set")
    if len({p.set_bytes for p in passes if p.op == "read"}) > 1:
        yield "Working set", by_set(passes, ladder.conditions.memory_bytes), _set_words(ladder)
    if found := _beside(ladder):
        yield "Reads beside writes", beside(found), _beside_words(found)


def points(ladder: Ladder, *names: str) -> list[LadderPoint]:
    """Points of steps, in the order measured."""
    return [point for step in ladder.steps if step.name in names for point in step.points]


def _by_record(found: Iterable[LadderPoint], op: str) -> dict[int, list[LadderPoint]]:
    """Points of each record size, the largest record first, by requests in flight."""
    groups: dict[int, list[LadderPoint]] = {}
    for point in found:
        if point.op == op:
            groups.setdefault(point.record_bytes, []).append(point)
    return {record: sorted(groups[record], key=ladder_table.in_flight) for record in sorted(groups, reverse=True)}


def by_depth(curves: Mapping[int, Sequence[LadderPoint]]) -> Figure:
    """Read rate (MB/s) against requests in flight, log axes, a line a record size.

    Dotted: what as many requests would reach if each took as long as one alone.
    """
    traces: list[Trace] = []
    for index, (record, found) in enumerate(curves.items()):
        depths = [ladder_table.in_flight(p) for p in found]
        trace = _line(f"{size_label(record)} reads", index, depths, [p.rate for p in found])
        trace["hovertemplate"] = "<b>%{y:,.4~g} MB/s</b><br>queue depth %{x}<extra></extra>"
        traces.append(trace)
        if depths[0] == 1:
            top = max(p.rate.value for p in found)
            traces.append(_alone(found[0].rate.value, min(depths[-1], top / found[0].rate.value), index))
    xs = sorted({x for trace in traces if trace["mode"] != "lines" for x in trace["x"]})
    layout = base_layout(
        xaxis=_count_axis(xs, "Queue depth, all connections (log)"),
        yaxis=rate_axis(_ys(traces), "Throughput (MB/s, log)"),
        legend=_legend(), showlegend=True,
    )  # fmt: skip
    return {"data": traces, "layout": layout}


def _alone(rate: float, until: float, index: int) -> Trace:
    """From one request up to where the measured ceiling is met."""
    return {
        "type": "scatter", "mode": "lines", "name": "one request, times the depth", "showlegend": index == 0,
        "x": numbers([1, max(until, 1.0)]), "y": numbers([rate / MB, rate * max(until, 1.0) / MB]), "hoverinfo": "skip",
        "line": {"color": theme.MUTED, "width": 1, "dash": "dot"},
    }  # fmt: skip


def _with_one(ladder: Ladder) -> dict[int, list[LadderPoint]]:
    """By record size: the best of one connection, then several; nothing where only one was tried."""
    several = _by_record(points(ladder, "connections"), "read")
    alone = _by_record(points(ladder, "round_trip", "depth", "small_depth"), "read")
    return {
        record: [max(alone[record], key=lambda p: p.rate.value), *sorted(found, key=lambda p: p.workers)]
        for record, found in several.items()
        if record in alone
    }  # fmt: skip


def by_connections(curves: Mapping[int, Sequence[LadderPoint]]) -> Figure:
    """Read rate (MB/s) against connections, log axes, a line a record size."""
    traces: list[Trace] = []
    for index, (record, found) in enumerate(curves.items()):
        trace = _line(f"{size_label(record)} reads", index, [p.workers for p in found], [p.rate for p in found])
        trace["hovertemplate"] = "<b>%{y:,.4~g} MB/s</b><br>%{x} connections<extra></extra>"
        traces.append(trace)
    xs = sorted({x for trace in traces for x in trace["x"]})
    layout = base_layout(
        xaxis=_count_axis(xs, "Connections (log)"), yaxis=rate_axis(_ys(traces), "Throughput (MB/s, log)"),
        legend=_legend(), showlegend=True,
    )  # fmt: skip
    return {"data": traces, "layout": layout}


def by_set(passes: Sequence[LadderPoint], memory: Sequence[int | None] | None) -> Figure:
    """Rates (MB/s) against the size of the set, log axes: reads, writes until durable. A band where memory ends."""
    traces: list[Trace] = []
    for index, (op, name) in enumerate((("read", "Read"), ("write", "Written, including the flush"))):
        found = sorted((p for p in passes if p.op == op), key=lambda p: (p.set_bytes, p.cell))
        rates = [p.rate if op == "read" else _durable(p) for p in found]
        trace = _line(name, index, [p.set_bytes for p in found], rates)
        trace["customdata"] = [size_label(p.set_bytes) for p in found]
        trace["hovertemplate"] = "<b>%{y:,.4~g} MB/s</b><br>working set %{customdata}<extra></extra>"
        traces += [trace] if found else []
    sizes = sorted({p.set_bytes for p in passes})
    layout = base_layout(
        xaxis=size_axis("Working set (log)", sizes), yaxis=rate_axis(_ys(traces), "Throughput (MB/s, log)"),
        legend=_legend(), showlegend=True, shapes=_band(memory),
    )  # fmt: skip
    return {"data": traces, "layout": layout}


def _durable(point: LadderPoint) -> LadderFigure:
    """The rate until all was durable: counted over the whole cell, so that it has no interval of its own."""
    rate = point.durable or point.rate.value
    return LadderFigure(rate, point.rate.unit, [rate, rate])


def _band(memory: Sequence[int | None] | None) -> list[dict[str, Any]]:
    """From the largest set in memory to the smallest beyond."""
    if not memory or memory[0] is None or memory[1] is None:
        return []
    return [
        {
            "type": "rect", "xref": "x", "yref": "paper", "x0": number(memory[0]), "x1": number(memory[1]), "y0": 0,
            "y1": 1, "fillcolor": theme.ACCENT_BAND, "line": {"width": 0}, "layer": "below",
        }
    ]  # fmt: skip


def _beside(ladder: Ladder) -> dict[str, tuple[float, float, Sequence[float]]]:
    """(reads, writes, interval of both) in bytes/s: reads alone, writes alone, together."""
    together = [p for p in points(ladder, "duplex") if p.op == "mixed"]
    writes = [p for p in points(ladder, "duplex") if p.op == "write"]
    reads = _by_record(points(ladder, "depth"), "read")
    if not together or not reads:
        return {}
    best = max(next(iter(reads.values())), key=lambda p: p.rate.value)
    found = {"Reads alone": (best.rate.value, 0.0, best.rate.ci95)}
    if writes:
        found["Writes alone"] = (0.0, writes[-1].rate.value, writes[-1].rate.ci95)
    last = together[-1]
    return {**found, "Together": (last.reads, last.writes, last.rate.ci95)}


def beside(found: Mapping[str, tuple[float, float, Sequence[float]]]) -> Figure:
    """Bars (MB/s): reads alone, writes alone, both at once, stacked; the line is the interval of the sum."""
    names = list(found)
    bars: list[Trace] = []
    parts = (
        ("Read", [reads for reads, _, _ in found.values()]),
        ("Written", [writes for _, writes, _ in found.values()]),
    )
    for index, (name, rates) in enumerate(parts):
        bars.append(
            {
                "type": "bar", "name": name, "x": names, "y": numbers(rate / MB for rate in rates),
                "marker": {"color": _COLOURS[index]},
                "hovertemplate": "<b>%{y:,.4~g} MB/s</b> " + name.lower() + "<br>%{x}<extra></extra>",
            }
        )  # fmt: skip
    sums = [reads + writes for reads, writes, _ in found.values()]
    ends = [ci for *_, ci in found.values()]
    bars[1]["error_y"] = {
        **_error_style(), "array": numbers(max(ci[1] - total, 0.0) / MB for total, ci in zip(sums, ends, strict=True)),
        "arrayminus": numbers(max(total - ci[0], 0.0) / MB for total, ci in zip(sums, ends, strict=True)),
    }  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis(""), yaxis=plain_axis("Throughput (MB/s)", rangemode="tozero", tickformat=",.6~g"),
        barmode="stack", legend=_legend(), showlegend=True,
    )  # fmt: skip
    return {"data": bars, "layout": layout}


def _line(name: str, index: int, xs: Sequence[int], rates: Sequence[LadderFigure]) -> Trace:
    """Rates (bytes/s, drawn in MB/s) with their within-run intervals."""
    colour = _COLOURS[index % len(_COLOURS)]
    values = [rate.value for rate in rates]
    return {
        "type": "scatter", "mode": "lines+markers", "name": plot_text(name), "x": list(xs),
        "y": numbers(value / MB for value in values), "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": 7, "symbol": SYMBOLS[index % len(SYMBOLS)]},
        "error_y": {
            **_error_style(), "color": colour,
            "array": numbers(max(rate.ci95[1] - rate.value, 0.0) / MB for rate in rates),
            "arrayminus": numbers(max(rate.value - rate.ci95[0], 0.0) / MB for rate in rates),
        },
    }  # fmt: skip


def _error_style() -> dict[str, Any]:
    return {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": theme.INK}


def _legend() -> dict[str, Any]:
    """Above the picture: beside it, it would take half of a phone."""
    return {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "font": {"size": 12}}


def _count_axis(values: Sequence[float], title: str) -> dict[str, Any]:
    axis = rate_axis([float(value) for value in values], title)
    whole = [value for value in values if value == int(value)]
    return {**axis, "tickvals": whole, "ticktext": [f"{int(value)}" for value in whole]}


def _ys(traces: Iterable[Trace]) -> list[float]:
    return [y for trace in traces for y in trace["y"]]


# --- in words --------------------------------------------------------------------------------------------


def _depth_words(curve: tuple[int, Sequence[LadderPoint]]) -> str:
    record, found = curve
    first, top = found[0], max(p.rate.value for p in found)
    enough = next(p for p in found if p.rate.value * _LEVEL >= top)
    alone, in_flight = rate_text(first.rate.value), ladder_table.in_flight(first)
    head = f"{size_label(record)} reads: {alone} at queue depth {in_flight}"
    if enough is first:
        return f"{head}, and no more at {ladder_table.in_flight(found[-1])}."
    return f"{head}, {rate_text(enough.rate.value)} at {ladder_table.in_flight(enough)}."


def _connection_words(curve: tuple[int, Sequence[LadderPoint]]) -> str:
    record, found = curve
    last = found[-1]
    return (
        f"{size_label(record)} reads: {rate_text(found[0].rate.value)} over one connection, "
        f"{rate_text(last.rate.value)} over {last.workers}."
    )


def _set_words(ladder: Ladder) -> str:
    passes = sorted((p for p in points(ladder, "set") if p.op == "read"), key=lambda p: p.set_bytes)
    first, last, memory = passes[0], passes[-1], ladder.conditions.memory_bytes
    text = (
        f"Read at {rate_text(first.rate.value)} from a working set of {size_label(first.set_bytes)}, at "
        f"{rate_text(last.rate.value)} from one of {size_label(last.set_bytes)}."
    )
    if memory and memory[0] and memory[1]:
        text += f" The server cache holds between {size_label(memory[0])} and {size_label(memory[1])} (the band)."
    return text


def _beside_words(found: Mapping[str, tuple[float, float, Sequence[float]]]) -> str:
    reads, writes, _ = found["Together"]
    alone = found["Reads alone"][0]
    share = "each has its own ceiling" if reads + writes >= 1.3 * alone else "both share one ceiling"
    return f"{rate_text(alone)} read alone; together {rate_text(reads)} read and {rate_text(writes)} written: {share}."


# --- verdict and table -----------------------------------------------------------------------------------


def advice(document: Mapping[str, Any]) -> str:
    """What is open and what to do, beneath the verdict; empty without a ladder."""
    ladder = document.get("ladder")
    if not ladder:
        return ""
    found = list(ladder.get("advice") or [])
    parts = []
    if ladder["open"]:
        parts.append(f"<h3>Still open</h3><ul>{''.join(map(_question, ladder['open']))}</ul>")
    if found:
        parts.append(
            f"<h3>What to do</h3><ul>{''.join(f'<li>{esc(tight(capital(text)))}</li>' for text in found)}</ul>"
        )
    return "".join(parts)


def _question(found: Mapping[str, Any]) -> str:
    head = f"{tell.class_name(found)}: {' or '.join(map(tell.kind_name, found['between']))}; {found['why']}"
    command = f" <code>{esc(found['command'])}</code>" if found.get("command") else ""
    return f"<li>{esc(tight(head))}. Next: {esc(found['experiment'])}.{command}</li>"


def section(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """The ladders, step by step. runs: (name, document)."""
    parts: list[str] = []
    told = [(name, document) for name, document in runs if document.get("ladder")]
    for name, document in told:
        rows = list(ladder_table.rows(typed(document["ladder"], Ladder)))
        caption = f"Steps of {name}" if len(told) > 1 else "Each step"
        parts.append(text_table(caption, [head.capitalize() for head in ladder_table.HEADER], rows))
        parts.append(f'<p class="note">{esc(tight(ladder_table.ended(document)))}</p>')
    return f'<section id="ladder-steps"><h2>The ladder, step by step</h2>{"".join(parts)}</section>' if parts else ""
