"""Pictures of many clients: each one's rate, throughput over their number, and what the server did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.analysis import many, scaling
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, legend_above, number, numbers, plain_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import plot_text
from naslab.results.cell_names import op_words
from naslab.results.describe import part_of
from naslab.results.parts.clients import CellClients, MonitorDocument, MonitorSample, Scaling
from naslab.units import duration_text, percent_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.render.report.views import Chart, Shown

MOST_CELLS = 200
MOST_BARS = 64
ROW = 26
BUSY = 0.01
"""Disks and interfaces that never did more than this share of the busiest are left out."""


def fill(chart: Chart, runs: Sequence[Shown]) -> None:
    """Every run's scaling first, then the clients of each cell."""
    for run in runs:
        found = part_of(run.run.document, "scaling", Scaling)
        if found:
            chart.add([run.name, "By number of clients"], by_number(found), " ".join(scaling.sentences(found)))
    for run in runs:
        cells = many.measured(run.run.document)
        if len(cells) > MOST_CELLS:
            chart.note = f"The first {MOST_CELLS} of {len(cells):,} cells of {run.name}."
        for cell, clients in cells[:MOST_CELLS]:
            sizes = f"{size_label(cell['record_bytes'])} of {size_label(cell['file_bytes'])}"
            name = f"{op_words(cell['op'])}, {sizes}"
            chart.add([run.name, name], by_client(clients, run.run.document), _words(clients, run.run.document))


def _words(found: CellClients, document: Mapping[str, Any]) -> str:
    fair = "" if found.fairness is None else f", fairness {found.fairness:.3f} of 1"
    slow = "".join(f" {many.name_of(each, document)} was far slower." for each in found.stragglers)
    return (
        f"{found.count} clients: {rate_text(found.common_bytes_per_s)} together over "
        f"{duration_text(found.common_window_ns)}; they began within {duration_text(found.start_skew_ns)} "
        f"(clocks known to {duration_text(found.clock_bound_ns)}){fair}.{slow}"
    )


def by_client(clients: CellClients, document: Mapping[str, Any]) -> Figure:
    """A bar for each client, MB/s within the common window; a line at an even share."""
    each = clients.each[:MOST_BARS]
    names = [plot_text(many.name_of(one.client, document)) for one in each]
    slow = set(clients.stragglers)
    bars: Trace = {
        "type": "bar",
        "orientation": "h",
        "x": numbers(one.bytes_per_s / 1e6 for one in each),
        "y": names,
        "marker": {"color": [theme.LATENCY if one.client in slow else theme.ACCENT for one in each]},
        "customdata": [[one.start_offset_ns / 1e6, one.errors] for one in each],
        "hovertemplate": "<b>%{x:,.4~g} MB/s</b><br>%{y}<br>began %{customdata[0]:.3f} ms after the first"
        "<br>%{customdata[1]} errors<extra></extra>",
    }
    even = number(sum(one.bytes_per_s for one in clients.each) / clients.count / 1e6)
    layout = base_layout(
        xaxis=plain_axis("Throughput (MB/s)", rangemode="tozero", tickformat=",.6~g"),
        yaxis=plain_axis("", autorange="reversed", type="category"),
        showlegend=False,
        height=110 + ROW * len(each),
        shapes=[
            {"type": "line", "xref": "x", "yref": "paper", "x0": even, "x1": even, "y0": 0, "y1": 1,
             "line": {"color": theme.MUTED, "width": 1.5, "dash": "dash"}}
        ],
    )  # fmt: skip
    return {"data": [bars], "layout": layout}


def by_number(found: Scaling) -> Figure:
    """Throughput against the number of clients with its 95 % intervals, and the fitted line with its knee."""
    rungs = found.rungs
    counts, rates = [each.clients for each in rungs], [each.bytes_per_s / 1e6 for each in rungs]
    ends = [each.ci95_bytes_per_s or [each.bytes_per_s] * 2 for each in rungs]
    points: Trace = {
        "type": "scatter", "mode": "markers", "name": "Measured", "x": counts, "y": numbers(rates),
        "error_y": {
            "type": "data", "symmetric": False, "color": theme.ACCENT,
            "array": numbers(high / 1e6 - rate for (_, high), rate in zip(ends, rates, strict=True)),
            "arrayminus": numbers(rate - low / 1e6 for (low, _), rate in zip(ends, rates, strict=True)),
        },
        "marker": {"color": theme.ACCENT, "size": 9},
        "hovertemplate": "<b>%{y:,.4~g} MB/s</b><br>%{x} clients<extra></extra>",
    }  # fmt: skip
    one, most = found.one_client_bytes_per_s / 1e6, found.limit_bytes_per_s
    knee = (found.knee_clients if most is not None else None) or max(counts)
    bends = [0.0, min(knee, max(counts)), float(max(counts))]
    line: Trace = {
        "type": "scatter", "mode": "lines", "name": "One client's rate, up to the limit", "x": numbers(bends),
        "y": numbers([0.0, one * bends[1], one * bends[1] if most is None else min(one * knee, most / 1e6)]),
        "line": {"color": theme.MUTED, "width": 1.5, "dash": "dash"}, "hoverinfo": "skip",
    }  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis("Clients", rangemode="tozero", tickvals=counts),
        yaxis=plain_axis("Throughput (MB/s)", rangemode="tozero", tickformat=",.6~g"),
        showlegend=True, height=380,
    )  # fmt: skip
    legend_above(layout)
    layout["margin"]["t"] = 36
    return {"data": [line, points], "layout": layout}


def fill_server(chart: Chart, runs: Sequence[Shown]) -> None:
    """What each monitored server did."""
    for run in runs:
        found = part_of(run.run.document, "monitor", MonitorDocument)
        if found and len(found.samples) > 1:
            shares, rates = of_server(found)
            early = " The connection to it ended before the run." if found.ended_early else ""
            busiest = max(each.cpu_fraction for each in found.samples)
            words = f"{found.url}: its processors were at most {percent_text(busiest)} busy.{early}"
            chart.add([run.name, "Processors and disks"], shares, words)
            chart.add([run.name, "Disks and network, MB/s"], rates, words)


def of_server(found: MonitorDocument) -> tuple[Figure, Figure]:
    """(how busy processors and disks were, bytes a second of disks and network), each over time."""
    samples = found.samples
    times = numbers(each.at_ns / 1e9 for each in samples)
    disks = sorted({name for each in samples for name in each.disks})
    busy = [("Processors", [100 * each.cpu_fraction for each in samples])]
    busy += [(f"Disk {name}", [100 * _of(each, "disks", name, "busy_fraction") for each in samples]) for name in disks]
    nets = sorted({name for each in samples for name in each.nets})
    moved = [
        (f"{name} {word}", [_of(each, part, name, key) / 1e6 for each in samples])
        for part, names, pairs in (
            ("disks", disks, (("read", "read_bytes_per_s"), ("written", "write_bytes_per_s"))),
            ("nets", nets, (("received", "received_bytes_per_s"), ("sent", "sent_bytes_per_s"))),
        )
        for name in names
        for word, key in pairs
    ]
    top = max((max(values) for _, values in moved), default=0.0)
    moved = [each for each in moved if max(each[1]) > BUSY * top]
    return _over_time(times, busy, "Busy (%)", "%{y:.3~g} %"), _over_time(times, moved, "MB/s", "%{y:,.4~g} MB/s")


def _of(sample: MonitorSample, part: str, name: str, key: str) -> float:
    return float(getattr(getattr(sample, part).get(name), key, 0.0))


def _over_time(times: list[float], lines: Sequence[tuple[str, Sequence[float]]], title: str, hover: str) -> Figure:
    traces = [
        {
            "type": "scatter", "mode": "lines", "name": plot_text(name), "x": times, "y": numbers(values),
            "line": {"color": theme.run_colour(at), "width": 1.8},
            "hovertemplate": f"{plot_text(name)} {hover}<extra></extra>",
        }
        for at, (name, values) in enumerate(lines)
    ]  # fmt: skip
    layout = base_layout(
        xaxis=plain_axis("Time since the run began (s)", rangemode="tozero", tickformat=",.6~g"),
        yaxis=plain_axis(title, rangemode="tozero", tickformat=",.6~g"),
        hovermode="x", showlegend=True, height=380,
    )  # fmt: skip
    legend_above(layout)
    layout["margin"]["t"] = 36
    return {"data": traces, "layout": layout}
