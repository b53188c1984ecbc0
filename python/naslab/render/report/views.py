"""The charts of a report: which figures there are, how they are chosen, and what each shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis import regimes_words
from naslab.render.report import apps as apps_view
from naslab.render.report import clients as clients_view
from naslab.render.report import curve as curve_view
from naslab.render.report import difference, figures, latency_map
from naslab.render.report import durable as durable_view
from naslab.render.report import explain as explain_view
from naslab.render.report import job as job_view
from naslab.render.report import profile as profile_view
from naslab.render.report import security as security_view
from naslab.render.report import sustained as sustained_view
from naslab.render.report import tree as tree_view
from naslab.render.report import workingset as working_set_view
from naslab.render.report.ceilings import link_ceilings
from naslab.render.report.drawing import PLAIN, Drawing
from naslab.render.report.labels import count_label, tight, time_label, value_label
from naslab.render.report.model import Case, Cell, cached_text, cases, cell_label, finding, percentile_ns, run_label
from naslab.render.report.rawdata import COLUMN, Series, histograms
from naslab.render.report.rules import asked, said
from naslab.units import size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

Ceilings = list[tuple[str, float]]

HOVERED = "named under the pointer"
"""How a value of the client's cache shows where no mark can be set."""
MAX_DISTRIBUTIONS = 1_200
FEW_SAMPLES = 8
"""A kind of operation with fewer samples (the one flush of a cell) is told in words, not drawn."""
MAX_SERIES_CHARTS = 300
MAX_LATENCY_MAPS = 40
SERIES_BUCKETS_ALL = 60_000
"""Most min-max buckets over all series charts of a page; one chart has 50 to 1,000."""


@dataclass
class Chart:
    """One place for a figure. levels: names of the choosers. entries: what they choose from, the path first.

    With one option a chooser is not shown. note: what the chart leaves out, if anything.
    """

    id: str
    title: str
    lead: str
    levels: list[str]
    entries: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    _taken: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, path: Sequence[str], figure: figures.Figure, caption: str) -> None:
        """One figure and its finding in words. A path taken already gets a number."""
        names = itertools.chain([path[-1]], (f"{path[-1]} ({n})" for n in itertools.count(2)))
        full = next((*path[:-1], name) for name in names if (*path[:-1], name) not in self._taken)
        self._taken.add(full)
        self.entries.append({"path": list(full), "figure": figure, "caption": tight(caption)})


@dataclass
class Shown:
    """A run prepared for drawing: its name in the report, its tests, its ceilings."""

    index: int
    run: Run
    name: str
    cases: list[Case]
    ceilings: Ceilings


def shown(runs: list[Run]) -> list[Shown]:
    """Every run with its tests. Names are distinct."""
    out: list[Shown] = []
    for index, run in enumerate(runs):
        name = run_label(run, runs)
        if any(other.name == name for other in out):
            name = f"{name} #{index + 1}"
        out.append(Shown(index, run, name, cases(run), link_ceilings(run.document)))
    return out


FIRST = ("sustained", "burst", "cache speed", "cache size", "curve", "replay")
"""Commands whose latency over time comes before their rates."""


def charts(runs: list[Shown], series: Sequence[Series], drawing: Drawing = PLAIN) -> list[Chart]:
    """The charts of the report in order; those without a figure are left out. drawing: lines and limits asked for."""
    swept, maps = _throughput(runs, drawing), _latency_maps(runs)
    first = any(run.run.document.get("command") in FIRST for run in runs)
    every = [
        _ladder(runs), _security(runs), _clients(runs), _server(runs), _durable(runs), _curve(runs), _profile(runs),
        _apps(runs),
        _job(runs, series), _tree(runs),
        _working_set(runs), _regimes(runs, series, drawing), *([maps] if first else []),
        swept, _bars(runs, drawing), _heat(runs), _slices(runs, drawing), _surface(runs), *_differences(runs),
        _percentiles(runs), _percentile_dots(runs), _distributions(runs), *([] if first else [maps]),
        _series(runs, series, drawing),
    ]  # fmt: skip
    return [chart for chart in every if chart.entries]


def _ladder(runs: list[Shown]) -> Chart:
    lead = (
        "The measurements behind the verdict, one thing varied at a time. Lines at the points are 95 % intervals "
        "within the run: "
        "they may name a limit, but not a difference between targets."
    )
    chart = Chart("ladder", "Evidence", lead, ["Run", "Show"])
    explain_view.fill(chart, runs)
    return chart


def _security(runs: list[Shown]) -> Chart:
    lead = "Every combination that the server allows, measured alternately; lines on the bars are 95 % intervals."
    chart = Chart("security", "Price of signing and encryption", lead, ["Run", "Load", "Show"])
    security_view.fill(chart, runs)
    return chart


def _clients(runs: list[Shown]) -> Chart:
    lead = "Rate of every client while all of them were under load; the dashed line is an even share."
    chart = Chart("clients", "Many clients", lead, ["Run", "Show"])
    clients_view.fill(chart, runs)
    return chart


def _server(runs: list[Shown]) -> Chart:
    chart = Chart("server", "The server during the run", "Sampled on the server once a second.", ["Run", "Show"])
    clients_view.fill_server(chart, runs)
    return chart


def _curve(runs: list[Shown]) -> Chart:
    lead = "Response time counts from the time an operation was due, even if it starts late."
    chart = Chart("curve", "Latency against offered load", lead, ["Show"])
    curve_view.fill(chart, runs)
    return chart


def _regimes(runs: list[Shown], series: Sequence[Series], drawing: Drawing) -> Chart:
    chart = Chart(
        "regimes",
        "Regimes over time",
        "Throughput of each interval, the mean of each stretch between two changes, a band where a change may lie "
        "(95 %), and the slowest operation of each interval.",
        ["Run", "Series"],
    )
    for run in runs:
        for path, figure, words in sustained_view.regime_figures(run.run, run.index, series):
            chart.add([run.name, *path], asked(figure, drawing), words + said(figure, drawing))
    return chart


def _latency_maps(runs: list[Shown]) -> Chart:
    chart = Chart(
        "latency-map",
        "Latency over time",
        "Each step of time shows the distribution of its latencies (buckets of a quarter of a power of two), "
        "colour on a logarithmic scale; in an open loop latency counts from the due time.",
        ["Run", "Load"],
    )
    every = [(run, name, cells, kind) for run in runs for name, cells, kind in latency_map.loads(run.run)]
    for run, name, cells, kind in every[:MAX_LATENCY_MAPS]:
        found = latency_map.latency_map(run.run, cells, kind)
        if found is not None:
            chart.add([run.name, name], latency_map.figure(found), latency_map.words(found))
    if len(every) > MAX_LATENCY_MAPS:
        chart.note = f"The first {MAX_LATENCY_MAPS} of {len(every):,} timed loads."
    return chart


def _durable(runs: list[Shown]) -> Chart:
    lead = (
        "Acknowledged writes by their state after the power cut; all cuts together. Writes that later ones "
        "overwrote are left out, because their fate is unknown."
    )
    chart = Chart("durable", "Durability", lead, ["Run", "Show"])
    durable_view.fill(chart, runs)
    return chart


def _profile(runs: list[Shown]) -> Chart:
    chart = Chart("profile", "Rate by position", "Sequential reads of each zone, from head to tail.", ["Show"])
    profile_view.fill(chart, runs)
    return chart


def _working_set(runs: list[Shown]) -> Chart:
    lead = "Repeated reads of the head of a file; a band is where working sets begin to wait for the disks."
    chart = Chart("working-set", "Working set and server cache", lead, ["Show"])
    working_set_view.fill(chart, runs)
    return chart


def _apps(runs: list[Shown]) -> Chart:
    lead = "Median over the repeats, a dot for each; the published numbers are of another system and other conditions."
    chart = Chart("apps", "Applications", lead, ["Show"])
    apps_view.fill(chart, runs)
    return chart


def _job(runs: list[Shown], series: Sequence[Series]) -> Chart:
    lead = (
        "The time of all streams together: the side that takes half of it is the limit, unless the client's CPU "
        "was busy. Bars of rates are medians of the repeats, a dot is one repeat."
    )
    chart = Chart("job", "Jobs", lead, ["Run", "Show"])
    job_view.fill(chart, runs, series)
    return chart


def _tree(runs: list[Shown]) -> Chart:
    lead = (
        "Rate of each phase, all workers together: the bar is the median of the repeats, a dot one repeat, a line the "
        "95 % interval. Beside it the latency of one call: dot p50, diamond p99."
    )
    chart = Chart("tree", "Metadata and small files", lead, ["Show"])
    tree_view.fill(chart, runs)
    return chart


def _single(case: Case) -> bool:
    return len(case.spots) == 1


def _each(runs: list[Shown]) -> Iterator[tuple[Shown, Case]]:
    return ((run, case) for run in runs for case in run.cases)


def _swept(runs: list[Shown]) -> list[str]:
    """Tests that some run carried out on several file sizes: those of the others stand beside its line."""
    return list(dict.fromkeys(case.label for _, case in _each(runs) if len(case.files) > 1))


def _throughput(runs: list[Shown], drawing: Drawing) -> Chart:
    chart = Chart(
        "throughput",
        "Throughput against file size",
        "One line per record size: median of the repeats, a dot for each repeat, a band from lowest to highest.",
        ["Test"],
    )
    for label in _swept(runs):
        overlaid = [(run, case) for run, case in _each(runs) if case.label == label]
        overlaid = [(run, case) for run, case in overlaid if case.unit == overlaid[0][1].unit]
        ceilings = _common_ceilings([run for run, _ in overlaid], drawing)
        words = [
            _named(run, runs, finding(case)) + _above(case, run.ceilings) + case.cached_words()
            for run, case in overlaid
        ]
        figure = figures.throughput([(run.name, case) for run, case in overlaid], ceilings)
        _add(chart, [label], figure, " ".join(words), drawing, overlaid[0][1].unit)
    return chart


def _named(run: Shown, runs: list[Shown], text: str) -> str:
    return f"{run.name}, {text}" if len(runs) > 1 else text


def _add(
    chart: Chart, path: list[str], figure: figures.Figure, words: str, drawing: Drawing, unit: str, axis: str = "yaxis"
) -> None:
    """Adds a figure with the lines asked for, where its axis `axis` holds rates of data."""
    if unit == "bytes":
        figure, words = asked(figure, drawing, axis), words + said(figure, drawing, axis)
    chart.add(path, figure, words)


def _common_ceilings(runs: list[Shown], drawing: Drawing) -> Ceilings:
    """The ceilings of all runs, each once; not those that were asked for."""
    known = dict.fromkeys(ceiling for run in runs for ceiling in run.ceilings)
    return [each for each in known if all(abs(each[1] / rate - 1) > 0.005 for _, rate in drawing.lines)]


def _above(case: Case, ceilings: Ceilings) -> str:
    """How many cells beat the lowest ceiling, which means the link did not carry them."""
    if not ceilings or case.unit != "bytes":
        return ""
    lowest = min(value for _, value in ceilings)
    count = sum(value > lowest * 1.02 for value in case.medians().values())
    if not count:
        return ""
    are = "is" if count == 1 else "are"
    return f" {count} of {len(case.spots)} cells {are} above the link ceiling: not all of the data crossed the link."


def _bars(runs: list[Shown], drawing: Drawing) -> Chart:
    chart = Chart(
        "tests", "Throughput by test", "The bar is the median of the repeats, a dot is one repeat.", ["Measure"]
    )
    swept = _swept(runs)
    for unit, name in (("bytes", "Throughput"), ("ops", "Operations per second")):
        chosen = [
            (run, [case for case in run.cases if _single(case) and case.unit == unit and case.label not in swept])
            for run in runs
        ]
        chosen = [(run, found) for run, found in chosen if found]
        if chosen:
            words = [_named(run, runs, _bars_finding(found)) + _bars_cached(found) for run, found in chosen]
            ceilings = _common_ceilings([run for run, _ in chosen], drawing)
            figure = figures.bars([(run.name, found) for run, found in chosen], ceilings)
            _add(chart, [name], figure, " ".join(words), drawing, unit, "xaxis")
    return chart


def _bars_cached(found: list[Case]) -> str:
    count = sum(case.cached(next(iter(case.spots))) for case in found)
    return cached_text(count, len(found), f"hatched, marked {figures.CACHED}")


def _bars_finding(found: list[Case]) -> str:
    ranked = sorted(found, key=lambda case: next(iter(case.medians().values())))
    low, high = (
        f"{case.label} with {value_label(next(iter(case.medians().values())), case.unit)}"
        for case in (ranked[0], ranked[-1])
    )
    return f"{high}." if len(found) == 1 else f"Highest: {high}. Lowest: {low}."


def _square(case: Case) -> bool:
    return len(case.files) > 1 and len(case.records) > 1


def _heat(runs: list[Shown]) -> Chart:
    chart = Chart(
        "heat",
        "Record size and file size",
        "Median of every cell, colour on a logarithmic scale. Blank: not measured, or record larger than file.",
        ["Run", "Test"],
    )
    for run, case in _each(runs):
        if _square(case):
            chart.add([run.name, case.label], figures.heat(case), finding(case) + _predicted(case) + _cached(case))
    return chart


def _cached(case: Case) -> str:
    return case.cached_words(f"marked {figures.CACHED}")


def _predicted(case: Case) -> str:
    count = sum(case.predicted(at) for at in case.spots)
    return f" {count_label(count, 'cell')} marked ~ predicted, not measured." if count else ""


def _slices(runs: list[Shown], drawing: Drawing) -> Chart:
    chart = Chart("slices", "Throughput against record size", "One file size at a time.", ["Run", "Test"])
    for run, case in _each(runs):
        if len(case.records) > 1:
            figure = figures.slices(case, _common_ceilings([run], drawing))
            for option in figure["filter"]["options"]:
                option["caption"] += said(figure, drawing) if case.unit == "bytes" else ""
            _add(chart, [run.name, case.label], figure, finding(case) + case.cached_words(), drawing, case.unit)
    return chart


def _surface(runs: list[Shown]) -> Chart:
    chart = Chart("surface", "Surface", "The same cells in three dimensions.", ["Run", "Test"])
    for run, case in _each(runs):
        if _square(case):
            chart.add([run.name, case.label], figures.surface(case), finding(case) + case.cached_words(HOVERED))
    return chart


def _differences(runs: list[Shown]) -> tuple[Chart, Chart]:
    lead = "Each run divided by the first one, at each file and record size."
    flat = Chart("difference", "Where they differ", lead, ["Run", "Test"])
    relief = Chart("difference-3d", "Where they differ, as a surface", "Above 1 the run is faster.", ["Run", "Test"])
    difference.fill(flat, relief, runs)
    return flat, relief


def _has_latency(case: Case) -> bool:
    return any(percentile_ns(case, at, "p50") for at in case.spots)


def _percentiles(runs: list[Shown]) -> Chart:
    chart = Chart(
        "latency",
        "Latency percentiles",
        "How long an operation took: half of them at most p50, 99 of 100 at most p99. Median over the repeats.",
        ["Run", "Test"],
    )
    for run, case in _each(runs):
        if not _single(case) and _has_latency(case):
            figure = figures.percentiles(case)
            chart.add([run.name, case.label], figure, figure["filter"]["options"][0]["caption"])
    return chart


def _percentile_dots(runs: list[Shown]) -> Chart:
    chart = Chart(
        "latency-tests",
        "Latency percentiles by test",
        "How long an operation took: half of them at most p50, 99 of 100 at most p99. Median over the repeats.",
        ["Run"],
    )
    for run in runs:
        found = [case for case in run.cases if _single(case) and _has_latency(case)]
        if found:
            words = [_tail(case) for case in found[:6]]
            chart.add([run.name], figures.percentile_dots(found), " ".join(words))
    return chart


def _tail(case: Case) -> str:
    at = next(iter(case.spots))
    half, most, worst = (percentile_ns(case, at, name) or 0 for name in ("p50", "p99", "max"))
    return f"{case.label}: half within {time_label(half)}, 99 % within {time_label(most)}, slowest {time_label(worst)}."


def _distributions(runs: list[Shown]) -> Chart:
    chart = Chart(
        "distribution",
        "Distribution of latency in one cell",
        "Share of the operations in each step of a logarithmic scale.",
        ["Run", "Test", "Cell"],
    )
    every = [(run, case, cell) for run, case in _each(runs) for cell in case.cells if not cell.get("predicted")]
    for run, case, cell in _first_repeats(every, MAX_DISTRIBUTIONS):
        found = histograms(run.run, cell)
        if found:
            words = [_spread(kind, values, counts) for kind, values, counts in found]
            drawn = [one for one in found if one[2].sum() >= FEW_SAMPLES] or found[:1]
            chart.add([run.name, case.label, cell_label(cell, case)], figures.distribution(drawn), " ".join(words))
    if len(every) > MAX_DISTRIBUTIONS:
        chart.note = f"The first {MAX_DISTRIBUTIONS:,} of {len(every):,} cells, first repeats first."
    return chart


def _first_repeats(every: list[tuple[Shown, Case, Cell]], most: int) -> list[tuple[Shown, Case, Cell]]:
    """At most `most` cells, lower repeats before higher ones, in their own order."""
    if len(every) <= most:
        return every
    ranked = sorted(range(len(every)), key=lambda i: (int(every[i][2].get("block") or 0), i))
    return [every[i] for i in sorted(ranked[:most])]


def _spread(kind: str, values: NDArray[Any], counts: NDArray[Any]) -> str:
    ranks = np.cumsum(counts) / counts.sum()
    half, most = (int(values[np.searchsorted(ranks, q)]) for q in (0.5, 0.99))
    head = f"{kind.capitalize()}, {count_label(int(counts.sum()), 'operation')}"
    if counts.sum() == 1:
        return f"{head}: {time_label(half)}."
    worst = time_label(int(values[-1]))
    return f"{head}: half within {time_label(half)}, 99 % within {time_label(most)}, slowest {worst}."


def _series(runs: list[Shown], found: Sequence[Series], drawing: Drawing) -> Chart:
    chart = Chart(
        "series", "Over time", "Throughput of each interval, and the slowest operation in it.", ["Run", "Test", "Cell"]
    )
    by_cell = {(one.run, id(one.cell)): one for one in found if len(one.rows) >= 4}
    every = [(run, case, cell) for run, case in _each(runs) for cell in case.cells if (run.index, id(cell)) in by_cell]
    chosen = _first_repeats(every, MAX_SERIES_CHARTS)
    buckets = int(np.clip(SERIES_BUCKETS_ALL // max(len(chosen), 1), 50, 1000))
    for run, case, cell in chosen:
        figure, words = series_figure(by_cell[run.index, id(cell)], case, buckets)
        _add(chart, [run.name, case.label, cell_label(cell, case)], figure, words, drawing, "bytes")
    if len(every) > len(chosen):
        chart.note = f"The first {len(chosen):,} of {len(every):,} timed cells; the download has them all."
    return chart


def series_figure(one: Series, case: Case, buckets: int) -> tuple[figures.Figure, str]:
    """Figure and finding of one interval series."""
    times, rows = one.whole()
    read, write = (rows[:, COLUMN[f"{kind}_bytes"]] / one.interval_s for kind in ("read", "write"))
    lines = {name: rates for name, rates in (("Read", read), ("Write", write)) if rates.any()} or {"Read": read}
    worst = rows[:, COLUMN["max_latency_ns"]]
    total = read + write
    words = (
        f"{case.label}, {size_label(one.cell.get('file_bytes') or 0)} file: {_rates_finding(times, total)}; "
        f"slowest operation {time_label(int(worst.max()))} at {times[int(np.argmax(worst))]:,.4g} s. "
        f"{count_label(len(rows), 'interval')} of {time_label(one.interval_s * 1e9)}"
    )
    drawn = "; the chart shows the highest and lowest of each step." if len(rows) > 2 * buckets + 2 else "."
    regime = regimes_words.label(one.cell)
    said = f" Regime {regime}." if regime else ""
    return figures.series(times, lines, worst.astype(np.float64), buckets), words + drawn + said


def _rates_finding(times: NDArray[Any], rates: NDArray[Any]) -> str:
    low, high = int(np.argmin(rates)), int(np.argmax(rates))
    median = value_label(float(np.median(rates)), "bytes")
    if rates[high] <= 1.01 * rates[low]:
        return f"steady at {median}"
    return (
        f"median {median}, highest {value_label(float(rates[high]), 'bytes')} at {times[high]:,.4g} s, "
        f"lowest {value_label(float(rates[low]), 'bytes')} at {times[low]:,.4g} s"
    )
