"""What a sustained run adds to the report: its regimes drawn, and what its rates cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from naslab.analysis.sustained import STEADY_WORDS, percentile_rows, regime_name
from naslab.render.report import theme
from naslab.render.report.axes import base_layout, legend_above, number, numbers, plain_axis
from naslab.render.report.labels import count_label, esc, percent, text_table, time_label, value_label
from naslab.render.report.latency_map import FIRST_RUN
from naslab.render.report.rawdata import COLUMN, Series
from naslab.render.report.thinning import keep_extremes
from naslab.results.describe import part_of
from naslab.results.parts.sustained import Bucket, ChangeDocument, Regimes, Sustained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from naslab.results.run import Run

_COLUMNS = {"read": ("read_bytes",), "write": ("write_bytes",), "all": ("read_bytes", "write_bytes")}
_BUCKETS = 600
WIRE_DIFFERS = 0.1
"""Bytes on the wire are drawn where those of a second differ from those claimed by this share of the highest rate."""
_NS = 1e9


def regime_figures(run: Run, index: int, series: Sequence[Series]) -> list[tuple[list[str], dict[str, Any], str]]:
    """(path, figure, words) for each series that was cut into regimes. index: of the run among those shown."""
    part = part_of(run.document, "sustained", Sustained)
    found = []
    for each in part.regimes if part else ():
        own = _own(each, [one for one in series if one.run == index])
        regime = as_told(each, part.burst.bucket if part and part.burst else None)
        if own:
            lines, wire = _lines(regime, own), _wire(run, own)
            found.append(([regime_name(run, regime)], regimes(*lines, regime, wire), words(regime)))
    return found


def as_told(regime: Regimes, bucket: Bucket | None = None) -> Regimes:
    """The regime with one fall as its headline has it: the fitted moment and rates, not those of the whole seconds in
    which the fall was looked for, of which the one with the fall in it belongs to both.

    bucket: the fit of the run's burst, which is the headline of the series that fell at the same moment.
    """
    dropped_ns, segments, changes = regime.dropped_ns, regime.segments, regime.changes
    high, low = regime.burst_bytes_per_s, regime.baseline_bytes_per_s
    if not dropped_ns or len(segments) != 2 or len(changes) != 1 or not high or not low:
        return regime
    if bucket and bucket.dropped_ns == dropped_ns:
        high, low = bucket.burst_bytes_per_s.value, bucket.baseline_bytes_per_s.value
    earliest_ns, latest_ns = min(changes[0].earliest_ns, dropped_ns), max(changes[0].latest_ns, dropped_ns)
    fell = replace(changes[0], at_ns=dropped_ns, earliest_ns=earliest_ns, latest_ns=latest_ns, effect=low / high - 1)
    first = replace(segments[0], end_ns=dropped_ns, mean_bytes_per_s=high)
    second = replace(segments[1], start_ns=dropped_ns, mean_bytes_per_s=low)
    return replace(regime, changes=[fell], segments=[first, second])


def _own(regime: Regimes, series: Sequence[Series]) -> list[Series]:
    """The series that a regime was found in: one, or the parts of a first run."""
    own = [one for one in series if one.cell.get("id") == regime.cell]
    if not own or own[0].cell.get("workload") != FIRST_RUN:
        return own
    own = [one for one in series if one.cell.get("workload") == FIRST_RUN]
    # A long flush began the series anew: what came before it is longer than the series' segments.
    length_ns = regime.segments[-1].end_ns
    end_ns = max(one.cell["start_ns"] + one.cell["window_ns"] for one in own)
    return [one for one in own if one.cell["start_ns"] >= end_ns - 1.05 * length_ns]


def _starts(own: Sequence[Series]) -> list[NDArray[Any]]:
    """Start of each interval in s, on the clock of the first series."""
    origin_ns = own[0].cell["start_ns"]
    return [one.whole()[0] + (one.cell["start_ns"] - origin_ns) / _NS for one in own]


def _lines(regime: Regimes, own: Sequence[Series]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(start of each interval in s, bytes/s, worst latency in ns)."""
    rates, worst = [], []
    for one in own:
        _, rows = one.whole()
        rates.append(sum(rows[:, COLUMN[name]] for name in _COLUMNS[regime.kind]) / one.interval_s)
        worst.append(rows[:, COLUMN["max_latency_ns"]].astype(np.float64))
    return np.concatenate(_starts(own)), np.concatenate(rates), np.concatenate(worst)


def _wire(run: Run, own: Sequence[Series]) -> NDArray[Any] | None:
    """Bytes/s on the wire, both ways, where they differ from all bytes moved by a tenth; else None."""
    wire, moved = [], []
    for one in own:
        _, rows = one.whole()
        counted = run.wire_series(one.cell)[: len(rows)]
        if len(counted) != len(rows):
            return None
        wire.append(counted.sum(axis=1) / one.interval_s)
        moved.append((rows[:, COLUMN["read_bytes"]] + rows[:, COLUMN["write_bytes"]]) / one.interval_s)
    seen, claimed = np.concatenate(wire), np.concatenate(moved)
    # Bytes of one operation cross the wire before it ends: in short intervals the two differ by that alone.
    width = max(1, round(1 / own[0].interval_s))
    apart = np.abs(_means(seen, width) - _means(claimed, width)).max(initial=0.0)
    return seen if apart > WIRE_DIFFERS * claimed.max(initial=0.0) else None


def _means(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Means of each `width` neighbours, the rest at the end left out; of fewer values the values."""
    whole = len(values) // width * width
    return values[:whole].reshape(-1, width).mean(axis=1) if whole else values


def regimes(
    times_s: NDArray[Any],
    rates: NDArray[Any],
    worst_ns: NDArray[Any],
    regime: Regimes,
    wire: NDArray[Any] | None = None,
) -> dict[str, Any]:
    """The series, the mean of each stretch over it, and a line with its interval at each change; latency below.

    times_s: (n,) start of each interval. rates: (n,) bytes per second. worst_ns: (n,) slowest operation of each.
    wire: (n,) bytes per second on the wire, to be shown beneath.
    """
    top = 1.08 * max(float(rates.max(initial=0.0)) / 1e6, 1e-6)
    slow = 1.08 * max(float(worst_ns.max(initial=0.0)) / 1e6, 1e-6)
    traces = [
        _line(times_s, rates / 1e6, "Throughput", theme.ACCENT, "y", "%{y:,.4~g} MB/s"),
        _plateaus(regime),
        _line(times_s, worst_ns / 1e6, "Slowest operation", theme.MUTED, "y2", "slowest %{y:,.4~g} ms"),
    ]
    if wire is not None:
        top = max(top, 1.08 * float(wire.max(initial=0.0)) / 1e6)
        shown = _line(times_s, wire / 1e6, "On the wire", theme.run_colour(2), "y", "on the wire %{y:,.4~g} MB/s")
        traces.insert(0, shown)
    layout = base_layout(
        xaxis=plain_axis("Time since the start (s)", anchor="y2"),
        yaxis=plain_axis("Throughput (MB/s)", domain=[0.4, 1], range=[0, top]),
        yaxis2=plain_axis("Slowest operation (ms)", domain=[0, 0.3], range=[0, slow]),
        height=460,
        hovermode="x",
        showlegend=True,
        shapes=[shape for change in regime.changes for shape in _mark(change)],
    )
    legend_above(layout)
    layout["margin"]["t"] = 36
    return {"data": traces, "layout": layout}


def _line(
    times_s: NDArray[Any], values: NDArray[Any], name: str, colour: str, axis: str, hover: str
) -> dict[str, Any]:  # fmt: skip
    keep = keep_extremes(values, _BUCKETS)
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": numbers(times_s[keep]), "y": numbers(values[keep]),
        "yaxis": axis, "line": {"color": colour, "width": 1}, "hovertemplate": f"{hover}<extra></extra>",
    }  # fmt: skip


def _plateaus(regime: Regimes) -> dict[str, Any]:
    """A flat line over each stretch."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for segment in regime.segments:
        level = number(segment.mean_bytes_per_s / 1e6)
        xs += [number(segment.start_ns / _NS), number(segment.end_ns / _NS), None]
        ys += [level, level, None]
    return {
        "type": "scatter", "mode": "lines", "name": "Mean of a stretch", "x": xs, "y": ys, "yaxis": "y",
        "line": {"color": theme.LATENCY, "width": 3}, "hovertemplate": "mean %{y:,.4~g} MB/s<extra></extra>",
    }  # fmt: skip


def _mark(change: ChangeDocument) -> list[dict[str, Any]]:
    """The change, and a band over its 95 % interval."""
    at, low, high = (number(ns / _NS) for ns in (change.at_ns, change.earliest_ns, change.latest_ns))
    band = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": low, "x1": high, "y0": 0.4, "y1": 1,
        "fillcolor": theme.band(theme.LATENCY), "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
    rule = {
        "type": "line", "xref": "x", "yref": "paper", "x0": at, "x1": at, "y0": 0.4, "y1": 1,
        "line": {"color": theme.MUTED, "width": 1, "dash": "dot"},
    }  # fmt: skip
    return [band, rule]


def words(regime: Regimes) -> str:
    """The finding of one series in words."""
    steady = regime.steady
    best = value_label(regime.best_second_bytes_per_s, "bytes")
    stretches = ", then ".join(
        f"{value_label(s.mean_bytes_per_s, 'bytes')} until {s.end_ns / _NS:,.4g} s"
        for s in regime.segments[:6]
    )  # fmt: skip
    more = len(regime.segments) - 6
    stretches += f" and {count_label(more, 'further stretch', 'further stretches')}" if more > 0 else ""
    snia = {None: "", True: " SNIA's criterion: steady.", False: " SNIA's criterion: not steady."}[steady.snia_steady]
    changes = ", ".join(
        f"{percent(c.effect)} at {c.at_ns / _NS:,.4g} s" for c in regime.changes[:6]
    )  # fmt: skip
    tail = f" Changes: {changes}." if changes else " No change of rate was detected."
    latency = regime.percentiles_ns.get("p99")
    slow = f" 99 % of the operations within {time_label(latency)}." if latency else ""
    state = f" {STEADY_WORDS.get(steady.word, steady.word)}: {steady.reason}."
    return f"Best second {best}; {stretches}.{tail}{state}{snia}{slow}"


def section(runs: Sequence[tuple[str, Run]]) -> str:
    """Tables of percentiles and cost, as HTML; empty without a sustained run. runs: (name, run)."""
    parts = []
    for name, run in runs:
        part = part_of(run.document, "sustained", Sustained)
        if part:
            head = f"<h3>{esc(name)}</h3>" if len(runs) > 1 else ""
            tables = _percentile_table(run, part) + _cost_table(part)
            parts.append(head + tables if tables else "")
    body = "".join(parts)
    return f'<section id="sustained"><h2>Percentiles and cost</h2>{body}</section>' if body else ""


def _percentile_table(run: Run, part: Sustained) -> str:
    shown = part.regimes[:6]
    if not shown:
        return ""
    heads = ["Latency", *(regime_name(run, regime) for regime in shown)]
    rows = [[label, *texts] for label, texts in percentile_rows(shown)]
    return text_table("Latency percentiles, as far as there were enough operations", heads, rows)


def _cost_table(part: Sustained) -> str:
    cost = part.cost
    if not cost:
        return ""
    heads = ["Rate", "MB/s", "A month's cost per MB/s", "Cost per TiB moved"]
    rows = [
        [name, f"{found.bytes_per_s / 1e6:,.4g}", f"{found.per_mb_per_s_month:,.4g}",
         f"{found.per_tib_moved:,.4g}"]
        for name, found in (("Sustained", cost.sustained), ("Burst", cost.burst)) if found
    ]  # fmt: skip
    return text_table(f"Cost at {cost.per_hour:,.4g} an hour, {cost.per_month:,.6g} a month", heads, rows)
