"""Runs over each other: rate, operations and latency against file size for each test, tests of one size as bars."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError
from naslab.published.runs import is_published
from naslab.published.runs import load as published_run
from naslab.published.runs import names as published_names
from naslab.render.report import figures, theme
from naslab.render.report.axes import base_layout, numbers, size_axis, time_axis
from naslab.render.report.labels import count_label, op_label, plot_text, time_label, value_label
from naslab.render.report.model import Case, extremes, percentile_ns, place
from naslab.render.report.views import Chart, Shown, shown
from naslab.render.web.frame import Page, of_charts, sections
from naslab.render.web.html import Html, checkbox, join, select, tag
from naslab.render.web.links import Links
from naslab.render.web.listing import MOST_WORDS, Query
from naslab.results.cell_names import NO_RESULTS, category_label
from naslab.results.store.library import Device, Library
from naslab.units import size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

MOST_RUNS = 12
MOST_DEVICES = 100
MOST_TESTS = 12
"""Links to other tests of a device that has none of the one chosen."""
METRICS = {"rate": "Throughput", "ops": "Operations per second", "p50": "Latency, median", "p99": "Latency, p99"}


@dataclass(frozen=True)
class Chosen:
    """runs: in the order asked for. metrics: keys of METRICS."""

    runs: Sequence[Run]
    metrics: Sequence[str]


def overlay_page(library: Library, query: Query, links: Links) -> Page:
    """The overlay of `run` and of the newest run of each `device` with `test`, by `metric`.

    Without `test` it is one that the devices have runs of. Raises UsageError, UnknownRunError.
    """
    metrics = [name for name in METRICS if name in query.get("metric", ())] or ["rate"]
    tests = [name for name, _ in library.facets()["test"] if name not in NO_RESULTS]
    asked = _devices(library, query)
    test = _test(library, query, asked, tests)
    newest = library.newest(asked, test)
    ids = run_ids(library, query, [newest[name] for name in asked if name in newest])
    runs = [loaded(library, run_id) for run_id in ids]
    named = shown(runs)
    drawn = charts(named, metrics, (query.get("test") or [""])[0])
    choices = _choices(library.devices(test, MOST_DEVICES), newest, asked, ids)
    without = [name for name in asked if name not in newest]
    body = join(
        [
            tag("h1", "Overlay"),
            _form(choices, ids, metrics, (test, tests), links),
            _left_out(library, without, test, links),
            listed(named, links),
            _undrawn(named, drawn),
            sections(drawn) if drawn else tag("p", _nothing(runs), class_="lead"),
        ]
    )
    return Page("Overlay", body, of_charts("Overlay", drawn) if drawn else None, here="overlay",
                scripts=[] if drawn else ["library.js"])  # fmt: skip


def _devices(library: Library, query: Query) -> list[str]:
    """The devices asked for, each once. Raises UsageError for one that is not in the library."""
    asked = list(dict.fromkeys(query.get("device", ())))
    if len(asked) > MOST_RUNS:
        raise UsageError(f"{len(asked)} devices are chosen; an overlay shows at most {MOST_RUNS}: choose fewer")
    known = library.newest(asked)
    for name in asked:
        if name not in known:
            raise UsageError(f"device {name[:MOST_WORDS]!r}: the library has no run of it; choose one from the list")
    return asked


def _test(library: Library, query: Query, devices: Sequence[str], tests: Sequence[str]) -> str:
    """The test asked for, else the one most of the devices have, else the one most runs have. Raises UsageError."""
    asked = (query.get("test") or [""])[0]
    if asked and asked not in tests:
        raise UsageError(f"test={asked[:MOST_WORDS]}: no run has it; choose one from the list")
    of_devices = [name for name in library.tests_of_devices(devices) if name not in NO_RESULTS]
    return asked or next(iter([*of_devices, *tests]), "")


def run_ids(library: Library, query: Query, newest: Sequence[str]) -> list[str]:
    """Whole ids of the runs asked for, then `newest` of the devices; each once. Raises UsageError, UnknownRunError."""
    found = list(dict.fromkeys([*(stored(library, name) for name in query.get("run", ())), *newest]))
    if len(found) > MOST_RUNS:
        raise UsageError(f"{len(found)} runs are chosen; an overlay shows at most {MOST_RUNS}: choose fewer")
    return found


def stored(library: Library, name: str) -> str:
    """The whole id of a stored or published run; a file is none. Raises UnknownRunError."""
    return name if is_published(name) else library.store.resolve(name[:MOST_WORDS])


def loaded(library: Library, run_id: str) -> Run:
    """The run with a whole id, of the store or published. Raises UnknownRunError, StoreError."""
    return published_run(run_id) if is_published(run_id) else library.store.load_id(run_id)


def _nothing(runs: Sequence[Run]) -> str:
    if runs:
        return "The chosen runs have nothing to draw for this metric."
    return "Choose devices: the newest run of each is drawn. Choose single runs in the list of runs."


@dataclass(frozen=True)
class Choice:
    """A device in the form. words: beside its box. newest: its run that the box stands for, None without one."""

    name: str
    words: str
    newest: str | None
    ticked: bool


def _choices(
    listing: Sequence[Device], newest: Mapping[str, str], asked: Sequence[str], ids: Sequence[str]
) -> list[Choice]:
    """The devices with a run of the test, and those asked for that are not among them."""
    found = [Choice(one.name, f"{one.name} ({one.runs:,})", one.newest, one.newest in ids) for one in listing]
    names = {one.name for one in found}
    return [*(Choice(name, name, newest.get(name), True) for name in asked if name not in names), *found]


def _left_out(library: Library, devices: Sequence[str], test: str, links: Links) -> Html | None:
    """Which devices have no run of the test, with what they have instead; None where all have one."""
    items = []
    for name in devices:
        has = [tag("a", category_label(one), href=links.page("overlay", device=name, test=one))
               for one in library.tests_of_devices([name])[:MOST_TESTS]]  # fmt: skip
        words = join(["; it has: ", join(has, ", ")]) if has else "; its runs have no results"
        items.append(tag("li", name, words))
    if not items:
        return None
    lead = tag("p", f"Left out, without a run of the test {category_label(test)}:")
    return tag("div", lead, tag("ul", *items, class_="runs"), class_="leftout", role="note")


def _form(
    choices: Sequence[Choice], ids: Sequence[str], metrics: Sequence[str], test: tuple[str, Sequence[str]], links: Links
) -> Html:
    """test: the one that a device's run must have, and what there is."""
    of_form = {one.newest for one in choices} | {f"published:{name}" for name in published_names()}
    kept = [tag("input", type="hidden", name="run", value=run_id) for run_id in ids if run_id not in of_form]
    boxes = [checkbox(one.words, "device", one.name, one.ticked) for one in choices]
    known = [checkbox(name, "run", f"published:{name}", f"published:{name}" in ids) for name in published_names()]
    kinds = [checkbox(words, "metric", name, name in metrics) for name, words in METRICS.items()]
    return tag(
        "form",
        *kept,
        tag("fieldset", tag("legend", "Devices, the newest run of each"), tag("div", *boxes, class_="boxes tall")),
        tag("fieldset", tag("legend", "Published results"), tag("div", *known, class_="boxes tall")) if known else None,
        tag("fieldset", tag("legend", "Metrics"), tag("div", *kinds, class_="boxes")),
        select("Runs with", "test", [(name, category_label(name)) for name in test[1]], test[0]) if test[1] else None,
        tag("button", "Draw", type="submit"),
        method="get", action=links.page("overlay"), class_="choose",
    )  # fmt: skip


def listed(named: Sequence[Shown], links: Links) -> Html | None:
    """The runs with links to their pages; None without one."""
    if not named:
        return None
    items = [tag("li", tag("a", one.name, href=links.run(one.run.run_id)), f", {one.run.document['command']}, "
             f"{str(one.run.document.get('started_at') or '')[:10]}") for one in named]  # fmt: skip
    compare = tag("a", "Compare these", href=links.page("compare", run=[one.run.run_id for one in named]))
    return join([tag("ul", *items, class_="runs"), tag("p", compare) if len(named) > 1 and not links.files else None])


def _undrawn(named: Sequence[Shown], drawn: Sequence[Chart]) -> Html | None:
    """Which of the chosen runs no chart shows; None where each is somewhere."""
    shown_runs = {(trace.get("meta") or {}).get("run")
                  for chart in drawn for entry in chart.entries for trace in entry["figure"]["data"]}  # fmt: skip
    missing = [run.name for run in named if run.name not in shown_runs]
    if not missing or not drawn:
        return None
    words = f"Not in the charts, because this metric has no values for them: {', '.join(missing)}."
    return tag("p", words, class_="leftout", role="note")


def charts(named: Sequence[Shown], metrics: Sequence[str], test: str = "") -> list[Chart]:
    """One chart of lines for each metric, and the bars of tests that have one size. Each with a finding in words, and
    with the runs that it leaves out. test: the one that was chosen, which the charts open on.
    """
    found = []
    for metric in metrics:
        chart = Chart(f"overlay-{metric}", f"{METRICS[metric]} against file size", _LEAD, ["Test"])
        for label in _labels(named, lambda case: len(case.files) > 1):
            _add(chart, metric, label, named)
        found.append(chart)
    found.append(_bars(named))
    for chart in found:
        # A chart opens on its first entry.
        chart.entries.sort(key=lambda entry: not _is_of(entry, test))
    return [chart for chart in found if chart.entries]


def _is_of(entry: Mapping[str, Any], test: str) -> bool:
    return bool(test) and str(entry["path"][0]).split(",")[0] in (op_label(test), category_label(test))


def _without(named: Sequence[Shown], cases: Sequence[str], label: str) -> str:
    """A sentence with the runs that have nothing in a chart; empty where all have."""
    missing = [run.name for run in named if run.name not in cases]
    return f" Without a value of {label}: {', '.join(missing)}." if missing else ""


_LEAD = "One colour for each run, the median of its repeats; a run without a test has no line for it."


def _labels(named: Sequence[Shown], fits: Callable[[Case], bool]) -> list[str]:
    return list(dict.fromkeys(case.label for run in named for case in run.cases if fits(case)))


def _add(chart: Chart, metric: str, label: str, named: Sequence[Shown]) -> None:
    chosen = [(run, case) for run in named for case in run.cases if case.label == label and len(case.files) > 1]
    if metric in ("rate", "ops"):
        unit = chosen[0][1].unit if metric == "rate" else "ops"
        alike = [(run, case) for run, case in chosen if metric == "ops" or case.unit == unit]
        cases = [(run.name, replace(case, unit=unit, spots={})) for run, case in alike]
        cases = [(name, case) for name, case in cases if _has(case)]
        ceilings = list(dict.fromkeys(one for run, _ in alike for one in run.ceilings)) if unit == "bytes" else []
        if cases:
            words = " ".join(_peak(*one) + one[1].cached_words() for one in cases)
            words += _without(named, [name for name, _ in cases], label)
            chart.add([label], _marked(figures.throughput(cases, ceilings), cases), words)
    else:
        timed = [(run.name, case) for run, case in chosen if any(percentile_ns(case, at, metric) for at in case.spots)]
        if timed:
            words = " ".join(_quickest(*one, metric) + one[1].cached_words() for one in timed)
            chart.add([label], latency(timed, metric), words + _without(named, [name for name, _ in timed], label))


def _marked(figure: figures.Figure, cases: Sequence[tuple[str, Case]]) -> figures.Figure:
    """The figure with each trace's run named, for the boxes of a page that hide one."""
    if len(cases) == 1:
        by_group = dict.fromkeys((trace["legendgroup"] for trace in figure["data"]), cases[0][0])
    else:
        by_group = {f"{plot_text(name)}, {size_label(record)}": name for name, case in cases for record in case.records}
    for trace in figure["data"]:
        trace["meta"] = {**(trace.get("meta") or {}), "run": by_group.get(trace.get("legendgroup"))}
    return figure


def _has(case: Case) -> bool:
    return all(value > 0 for at in case.spots for value in case.values(at))


def _peak(name: str, case: Case) -> str:
    (at, value), _ = extremes(case)
    return f"{name}: highest {value_label(value, case.unit)} with {place(at)}."


def _quickest(name: str, case: Case, metric: str) -> str:
    known = {at: value for at in case.spots if (value := percentile_ns(case, at, metric))}
    low, high = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    return f"{name}: {metric} from {time_label(known[low])} with {place(low)} to {time_label(known[high])}."


def latency(cases: Sequence[tuple[str, Case]], metric: str) -> figures.Figure:
    """One latency percentile (p50, p99) against file size in ms, a line for each run, a chooser for the record size."""
    records = sorted({record for _, case in cases for record in case.records}, reverse=True)
    traces: list[figures.Trace] = []
    for index, (name, case) in enumerate(cases):
        colour = theme.run_colour(index)
        for record in case.records:
            found = [(file, percentile_ns(case, (file, record), metric)) for file in case.files
                     if (file, record) in case.spots]  # fmt: skip
            points = [(file, value) for file, value in found if value]
            if points:
                line = _latency_line(name, record, points, colour, index, metric)
                line["marker"]["symbol"] = [figures.symbol(case, (file, record), index) for file, _ in points]
                traces.append(line)
    files = sorted({file for _, case in cases for file in case.files})
    axis = time_axis([value for trace in traces for value in trace["y"]], METRICS[metric])
    layout = base_layout(xaxis=size_axis("File size", files), yaxis=axis, showlegend=True)
    figure: figures.Figure = {"data": traces, "layout": layout}
    if len(records) > 1:
        options = [{"value": str(record), "label": size_label(record)} for record in records]
        figure["filter"] = {"by": "record", "label": "Record size",
                            "options": [*options, {"value": figures.ALL, "label": "All record sizes"}]}  # fmt: skip
    return figure


def _latency_line(
    name: str, record: int, points: Sequence[tuple[int, float]], colour: str, index: int, metric: str
) -> figures.Trace:
    return {
        "type": "scatter", "mode": "lines+markers", "name": f"{plot_text(name)}, {size_label(record)}",
        "meta": {"record": record, "run": name},
        "x": [file for file, _ in points], "y": numbers(value / 1e6 for _, value in points),
        "line": {"color": colour, "width": 2},
        "marker": {"color": colour, "size": 7, "symbol": figures.SYMBOLS[index % len(figures.SYMBOLS)]},
        "customdata": [[time_label(value), size_label(file)] for file, value in points],
        "hovertemplate": f"<b>{metric}: %{{customdata[0]}}</b><br>%{{customdata[1]}} file<extra></extra>",
    }  # fmt: skip


def _bars(named: Sequence[Shown]) -> Chart:
    lead = "The bar is the median of the repeats, a dot is one repeat."
    chart = Chart("overlay-tests", "Tests of one size", lead, ["Measure"])
    for unit, words in (("bytes", "Throughput"), ("ops", "Operations per second")):
        chosen = [(run.name, [case for case in run.cases if len(case.spots) == 1 and case.unit == unit])
                  for run in named]  # fmt: skip
        chosen = [(name, cases) for name, cases in chosen if cases]
        if chosen:
            said = [f"{name}: {count_label(len(cases), 'test')}, highest {_best(cases)}." for name, cases in chosen]
            figure = figures.bars(chosen)
            for trace in figure["data"]:
                named_runs = [name for name, _ in chosen if name == trace.get("legendgroup")]
                trace["meta"] = {**(trace.get("meta") or {}), "run": named_runs[0] if named_runs else chosen[0][0]}
            missing = _without(named, [name for name, _ in chosen], "a test of one size")
            chart.add([words], figure, " ".join(said) + missing)
    return chart


def _best(cases: Sequence[Case]) -> str:
    ranked = [(statistics.median(case.values(at)), case) for case in cases for at in case.spots]
    value, case = max(ranked, key=lambda pair: pair[0])
    return f"{case.label} with {value_label(value, case.unit)}"
