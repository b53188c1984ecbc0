"""The part of a report that compares: the verdict, the ratio of each measurement, where on the surface they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from naslab.comparison import why, words
from naslab.comparison.judgement import Comparison, Row
from naslab.comparison.names import short
from naslab.render.report import difference, experiment_figures, figures, theme
from naslab.render.report.axes import base_layout, legend_above, number, numbers, plain_axis, rate_axis
from naslab.render.report.figures import Figure, Trace
from naslab.render.report.labels import count_label, esc, op_label, plot_text, text_table, tight
from naslab.render.report.views import Chart
from naslab.results.parts.experiment import ExperimentSeries
from naslab.units import percent_text

if TYPE_CHECKING:
    pass

_MARKS = {"better": ("✓", "complete"), "worse": ("✕", "failed"), "equivalent": ("=", "unknown"),
          "undecided": ("?", "partial")}  # fmt: skip
_VERDICTS = ("better", "worse", "equivalent", "undecided")
_LEVELS = ("Compared", "Measure")
MOST_RATIOS = 60
"""So many measurements fit a picture of ratios; the table has them all."""
_KINDS = {"throughput": "Rates", "iops": "Rates", "capacity": "Rates", "p50": "Latency, median", "p99": "Latency, p99"}


def charts(comparisons: Sequence[Comparison]) -> list[Chart]:
    """Ratios with intervals; ratio over file and record size, flat and as a surface."""
    ratios = Chart("ratios", "How far apart", "Each measurement's ratio to the baseline with its 95 % interval; the "
                   "band is the margin within which targets count as equal.", list(_LEVELS))  # fmt: skip
    flat = Chart("difference", "Where they differ", "Ratio to the baseline at each file and record size.",
                 ["Compared", "Test"])  # fmt: skip
    relief = Chart("difference-3d", "Where they differ, as a surface", "The same in 3D: above 1 the compared target "
                   "is faster.", ["Compared", "Test"])  # fmt: skip
    for each in comparisons:
        found = {_KINDS[row.key.measure] for row in each.rows}
        for kind in (kind for kind in dict.fromkeys(_KINDS.values()) if kind in found):
            every = [row for row in each.rows if _KINDS[row.key.measure] == kind]
            figure = ratio_figure(words.telling(every, MOST_RATIOS))
            ratios.add((short(each.names[1]), kind), figure, _ratio_words(each, every, kind))
        for op, rows in _surfaces(each):
            name = (short(each.names[1]), op_label(op))
            one, other = (_series(each.names[at], rows, at) for at in (0, 1))
            flat.add(name, experiment_figures.difference(other, one), _surface_words(each, op, rows))
            relief.add(name, surface_figure(rows), _surface_words(each, op, rows))
    return [chart for chart in (ratios, flat, relief) if chart.entries]


def verdicts(comparisons: Sequence[Comparison]) -> str:
    """The verdicts in words, each with what makes it doubtful."""
    parts = []
    for each in comparisons:
        mark, kind = _MARKS[each.verdict]
        verdict = f'<span class="status {kind}"><span aria-hidden="true">{mark}</span> {esc(each.verdict)}</span>'
        doubts = "".join(f"<li>{esc(tight(doubt.message))}</li>" for doubt in each.doubts)
        parts.append(
            f'<section class="verdict"><h2>{esc(short(each.names[1]))} against {esc(short(each.names[0]))}</h2>'
            f"<p>{verdict} {esc(tight(words.sentence(each)))}</p>{_why(each)}{_says(each)}"
            f"{f'<ul>{doubts}</ul>' if doubts else ''}</section>"
        )
    return "\n".join(parts)


def _why(each: Comparison) -> str:
    """Where the ladders part, as a paragraph; empty when that was not asked."""
    if each.why is None:
        return ""
    return f"<p><strong>Why:</strong> {esc(tight(' '.join(why.sentences(each.why, each.names))))}</p>"


def _says(each: Comparison) -> str:
    return "".join(f"<p>{esc(tight(said))}</p>" for said in each.says)


def tables(comparisons: Sequence[Comparison]) -> str:
    """A table of every measurement for each comparison."""
    parts = []
    heads = ["Measurement", "Baseline", "Compared", "Ratio", "95 %", "Verdict", "Detectable difference"]
    for at, each in enumerate(comparisons):
        name = short(each.names[1])
        caption = f"{name} against {short(each.names[0])}, every measurement"
        table = text_table(caption, heads, [_cells(row) for row in each.rows])
        if len(each.rows) > MOST_RATIOS:
            table = f"<details><summary>{count_label(len(each.rows), 'measurement')}</summary>{table}</details>"
        parts.append(f'<section id="compared-{at}"><h2>Every measurement: {esc(name)}</h2>{table}</section>')
    return "\n".join(parts)


def _cells(row: Row) -> list[str]:
    ratio = row.judged.ratio
    high = "no end" if math.isinf(ratio.high) else f"{ratio.high:.3f}"
    interval = f"{ratio.low:.3f} to {high}" if _has_interval(row) else "none"
    mde = "" if math.isinf(ratio.mde) else f"{percent_text(ratio.mde, 1)}"
    one, other = words.amount(row, row.one), words.amount(row, row.other)
    return [words.what(row), one, other, f"{ratio.value:.3f}", interval, words.verdict(row), mde]


def _has_interval(row: Row) -> bool:
    """Whether the repeats tell anything about chance: an interval from nothing to no end is none."""
    return row.judged.ratio.low > 0 or math.isfinite(row.judged.ratio.high)


def ratio_figure(rows: Sequence[Row]) -> Figure:
    """A dot with its interval for each measurement, the margin as a band."""
    colours = dict(zip(_VERDICTS, (theme.run_colour(2), theme.run_colour(1), theme.MUTED, theme.run_colour(0)),
                       strict=True))  # fmt: skip
    names = [plot_text(words.what(row)) for row in rows]
    traces = []
    for verdict in _VERDICTS:
        found = [
            (name, row) for name, row in zip(names, rows, strict=True) if (row.judged.verdict or "undecided") == verdict
        ]
        if found:
            traces.append(_dots(found, verdict, colours[verdict]))
    judged = [row.judged.ratio for row in rows]
    shown = (end for ratio in judged for end in (ratio.low, ratio.value, ratio.high))
    ends = [1.0, *(end for end in shown if 0 < end < math.inf)]
    margin = max((row.judged.ratio.margin for row in rows), default=0.05)
    band = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": number(1 / (1 + margin)), "x1": number(1 + margin), "y0": 0,
        "y1": 1, "layer": "below", "fillcolor": theme.ACCENT_BAND, "line": {"width": 0},
    }  # fmt: skip
    layout = base_layout(
        xaxis=rate_axis(ends, "Ratio to the baseline, logarithmic"), shapes=[band], height=140 + 26 * len(rows),
        showlegend=True,
        yaxis=plain_axis("", type="category", categoryorder="array", categoryarray=names, autorange="reversed",
                         ticklabelstandoff=6),
    )  # fmt: skip
    legend_above(layout, y=1)
    layout["margin"] = {**layout["margin"], "t": 40}
    # On a phone each name stands above its dot: beside it, the names would take half of the picture.
    above = {**layout["yaxis"], "tickfont": {"size": 10}, "ticklabelposition": "inside top", "ticklabelstandoff": 0}
    narrow = {"yaxis": above, "margin": {**layout["margin"], "l": 16}, "height": 160 + 36 * len(rows)}
    return {"data": traces, "layout": layout, "narrow": narrow}


def _dots(found: Sequence[tuple[str, Row]], verdict: str, colour: str) -> Trace:
    ratios = [row.judged.ratio for _, row in found]
    highs = [ratio.high if math.isfinite(ratio.high) else ratio.value for ratio in ratios]
    lows = [ratio.low if _has_interval(row) else ratio.value for (_, row), ratio in zip(found, ratios, strict=True)]
    return {
        "type": "scatter", "mode": "markers", "name": verdict, "x": numbers(ratio.value for ratio in ratios),
        "y": [name for name, _ in found],
        "error_x": {
            "type": "data", "symmetric": False, "color": colour, "thickness": 2, "width": 4,
            "array": numbers(high - ratio.value for ratio, high in zip(ratios, highs, strict=True)),
            "arrayminus": numbers(ratio.value - low for ratio, low in zip(ratios, lows, strict=True)),
        },
        "marker": {"color": colour, "size": 9, "symbol": figures.SYMBOLS[_VERDICTS.index(verdict)]},
        "hovertemplate": f"<b>%{{x:,.3~g}}</b>, {verdict}<br>%{{y}}<extra></extra>",
    }  # fmt: skip


def surface_figure(rows: Sequence[Row]) -> Figure:
    """3D surface of the ratio, spots whose difference is not significant in the middle colour."""
    files, records = _sizes(rows)
    at = {(row.key.fields()["file_bytes"], row.key.fields()["record_bytes"]): row for row in rows}
    grid = [[at.get((file, record)) for file in files] for record in records]
    ratios = [[None if row is None else number(row.judged.ratio.value) for row in line] for line in grid]
    shade = [
        [None if row is None else number(math.log2(row.judged.ratio.value)) if row.judged.different else 0.0
         for row in line]
        for line in grid
    ]  # fmt: skip
    return difference.ratio_surface(files, records, ratios, shade)


def _surfaces(each: Comparison) -> Iterator[tuple[str, list[Row]]]:
    """The rates of each test over at least two file and two record sizes."""
    tests: dict[str, list[Row]] = {}
    for row in each.rows:
        fields = row.key.fields()
        sized = fields.get("file_bytes") and fields.get("record_bytes")  # not told by every source
        if sized and row.key.measure == "throughput" and not fields.get("workload") and row.key.occurrence == 0:
            tests.setdefault(str(fields["op"]), []).append(row)
    for op, rows in tests.items():
        if all(len(sizes) > 1 for sizes in _sizes(rows)):
            yield op, rows


def _sizes(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    files = sorted({row.key.fields()["file_bytes"] for row in rows})
    return files, sorted({row.key.fields()["record_bytes"] for row in rows})


def _series(name: str, rows: Sequence[Row], at: int) -> ExperimentSeries:
    """One side's medians as a surface, in MB/s."""
    files, records = _sizes(rows)
    rates: list[list[float | None]] = [[0.0] * len(records) for _ in files]
    for row in rows:
        fields = row.key.fields()
        rates[files.index(fields["file_bytes"])][records.index(fields["record_bytes"])] = (row.one, row.other)[at] / 1e6
    return ExperimentSeries(condition=name, files=files, records=records, rates=rates)


def _ratio_words(each: Comparison, rows: Sequence[Row], kind: str) -> str:
    counts = [(word, sum((row.judged.verdict or "undecided") == word for row in rows)) for word in _VERDICTS]
    told = ", ".join(f"{count} {word}" for word, count in counts if count)
    drawn = f" The {MOST_RATIOS} most significant ones are drawn." if len(rows) > MOST_RATIOS else ""
    return (
        f"{kind} of {short(each.names[1])} against {short(each.names[0])}: of {len(rows)} measurements {told}.{drawn}"
    )


def _surface_words(each: Comparison, op: str, rows: Sequence[Row]) -> str:
    most = max(rows, key=lambda row: abs(math.log(row.judged.ratio.value)))
    apart = sum(row.judged.different for row in rows)
    return (
        f"{op_label(op)}: {apart} of {len(rows)} points differ beyond chance; most at {words.what(most)}, where "
        f"{short(each.names[1])} has {most.judged.ratio.value:.2f} of the baseline."
    )
