"""The report of an experiment: verdicts on the article's conclusions, its numbers beside ours, what stood for what.

Everything comes from the experiment's result document (naslab.lab.experiment_result), which is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from naslab.render.report import experiment_figures as draw
from naslab.render.report import figures, page, write_text
from naslab.render.report.experiment_limits import calibrations_table
from naslab.render.report.experiment_time import over_time, timed_runs
from naslab.render.report.labels import esc, tight
from naslab.render.report.model import place
from naslab.render.report.views import Chart
from naslab.results.describe import typed
from naslab.results.parts.experiment import (
    ExperimentChart,
    ExperimentDocument,
    ExperimentPublished,
    ExperimentSeries,
)  # fmt: skip
from naslab.units import percent_text

if TYPE_CHECKING:
    from naslab.results.run import Run

__all__ = ["charts", "render", "section", "timed_runs", "write"]

Result = Mapping[str, Any]
"""An experiment's document as JSON has it."""
_MARKS = {"reproduced": ("✓", "complete"), "contradicted": ("✕", "failed"), "undecided": ("?", "partial"),
          "too few repeats": ("?", "unknown"), "not testable here": ("–", "unknown")}  # fmt: skip
_RATES = ("MB/s", "KiB/s", "Gbit/s")
_FEW_WORDS = 24
"""A chart with more values tells only the lowest and highest of each condition in words."""
_FACTORS = {"MB/s": 1e6, "KiB/s": 1024.0, "Gbit/s": 1e9 / 8, "%": 0.01}


def render(result: Result, runs: Mapping[str, Run] | None = None) -> str:
    """The page of an experiment's result as HTML text. runs: those of `timed_runs`, by id, to be drawn over time.

    Raises UsageError without the plotly package.
    """
    document = typed(result, ExperimentDocument)
    drawn = [*charts(document), *(chart for chart in (over_time(result, runs or {}),) if chart.entries)]
    body = "\n".join([_header(document), _navigation(document, drawn), *_sections(document, drawn)])
    return page.of_parts(f"Experiment: {document.title}", body, drawn, {**result, "run_id": document.name})


def write(result: Result, path: Path, runs: Mapping[str, Run] | None = None) -> Path:
    """Write the page to `path`, whole or not at all, and return the path. runs: as for `render`. Raises UsageError."""
    return write_text(render(result, runs), path)


def section(result: ExperimentDocument) -> str:
    """Claims, published numbers, systems and notes as HTML, without pictures: for a page that has others, too."""
    parts = (
        claims_table(result),
        published_table(result),
        costs_table(result),
        systems_table(result),
        calibrations_table(result.calibrations),
        notes_list(result),
    )
    return "\n".join(part for part in parts if part)


# --- charts ----------------------------------------------------------------------------------------------


def charts(result: ExperimentDocument) -> list[Chart]:
    """The claims' ratios, then the charts that the experiment names; those without data are left out."""
    found = [_claims_chart(result)]
    for one in result.charts:
        if one.series:
            made = {"surface": _surface_chart, "time": _time_chart}.get(one.kind, _chart)
            found.append(made(result, one))
    return [chart for chart in found if chart.entries]


def _claims_chart(result: ExperimentDocument) -> Chart:
    lead = (
        "The measured ratio of each claim with its 95 % interval over repeats; the band is where the ratio "
        "lies if the article is right, the diamond the same ratio from the article's own numbers."
    )
    chart = Chart("claims-chart", "Conclusions as ratios", lead, ["Show"])
    figure = draw.claims(result.claims)
    if figure:
        chart.add(["Claims"], figure, result.summary[0])
    return chart


def _chart(result: ExperimentDocument, one: ExperimentChart) -> Chart:
    unit = one.unit
    published = [_shown(result, each, unit) for each in result.published if each.chart == one.id]
    limits = _limits(result, one)
    what = "Lines" if one.kind == "line" else "Bars"
    lead = f"{what} are medians, dots are repeats" + (
        f", diamonds are the article's numbers{_times(result, unit)}." if published else "."
    )
    chart = Chart(f"chart-{one.id}", one.title, lead, ["Show"])
    made = draw.lines if one.kind == "line" else draw.bars
    chart.add([one.title], made(one, published, limits), " ".join(_told(one, published, limits)))
    return chart


def _shown(result: ExperimentDocument, published: ExperimentPublished, unit: str) -> draw.Shown:
    """A published number in a chart's unit; a rate as fast as the systems here are."""
    value = published.scaled / _FACTORS.get(unit, 1.0) * _speed(result, unit)
    return draw.Shown(published.what, published.condition, published.group, published.size_bytes, value)


def _speed(result: ExperimentDocument, unit: str) -> float:
    """So many times the article's rates are what is measured here; of other numbers 1."""
    return result.speed if unit in _RATES else 1.0


def _times(result: ExperimentDocument, unit: str) -> str:
    speed = _speed(result, unit)
    return "" if speed == 1 else f" times {speed:.3g}, as these systems are {speed:.3g} times as fast"


def _limits(result: ExperimentDocument, one: ExperimentChart) -> list[draw.Level]:
    """Limits of a chart: measured where they were, else as planted."""
    if one.unit not in _RATES:
        return []
    factor = _FACTORS[one.unit]
    return [
        draw.Level(limit.what, (limit.measured or limit.value) / factor)
        for limit in result.limits
        if limit.name in one.limits and limit.line
    ]


def _told(one: ExperimentChart, published: Sequence[draw.Shown], limits: Sequence[draw.Level]) -> Iterator[str]:
    """A chart in words: what each condition came to."""
    unit = one.unit
    for series in one.series:
        values = {point.group: median(point.values) for point in series.points if point.values}
        if one.kind == "line":
            known = [median(point.values) for point in series.points if point.values]
            ends = f"{max(known):,.4g} {unit} at most, {known[-1]:,.4g} {unit} at the largest size"
            yield f"{series.condition}: {ends}."
        else:
            told = _range(values) if len(values) * len(one.series) > _FEW_WORDS else ", ".join(
                f"{name} {value:,.4g}".strip() for name, value in values.items()
            )  # fmt: skip
            yield f"{series.condition}: {told} {unit}."
    yield from _lines_told(published, limits, unit)


def _lines_told(published: Sequence[draw.Shown], limits: Sequence[draw.Level], unit: str) -> Iterator[str]:
    """The article's numbers and the limits of a chart in words."""
    if published:
        told = ", ".join(f"{each.what}: {each.shown:,.4g}" for each in published[:8])
        yield f"Published: {told} {unit}{', and more' if len(published) > 8 else ''}."
    if limits:
        told = ", ".join(f"{each.what}: {each.value:,.4g}" for each in limits)
        yield f"Limits: {told} {unit}."


def _range(values: Mapping[str, float]) -> str:
    """From the lowest to the highest, with their names."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return f"{low} {values[low]:,.4g} to {high} {values[high]:,.4g}"


def _time_chart(result: ExperimentDocument, one: ExperimentChart) -> Chart:
    """Rates over time of each condition's median repeat; empty before `add_series` has added them."""
    unit, series = one.unit, [each for each in one.series if each.values]
    published = [_shown(result, each, unit) for each in result.published if each.id in one.published]
    limits = _limits(result, one)
    which = ", of the repeat with the median rate" if any(each.repeats > 1 for each in series) else ""
    lines = ["the limits"] * bool(limits) + [f"the article's numbers{_times(result, unit)}"] * bool(published)
    lead = f"The rate of each interval{which}{'; dashed lines are ' if lines else ''}{' and '.join(lines)}."
    chart = Chart(f"chart-{one.id}", one.title, lead, ["Show"])
    told = [*(_course(each, unit) for each in series), *_lines_told(published, limits, unit)]
    if series:
        chart.add([one.title], draw.over_time(replace(one, series=series), published, limits), " ".join(told))
    return chart


def _course(series: ExperimentSeries, unit: str) -> str:
    """A rate over time in words."""
    values = [value for value in series.values if value is not None]
    seconds = f"{series.times_ns[-1] / 1e9:,.4g} s"
    ends = f"{min(values):,.4g} to {max(values):,.4g} {unit}, median {median(values):,.4g} {unit}"
    return f"{series.condition}, repeat {series.block + 1} of {series.repeats}: {ends} over {seconds}."


def _surface_chart(_result: ExperimentDocument, one: ExperimentChart) -> Chart:
    lead = "Medians over the repeats. A dip is below 80 % of its neighbours' median, including its interval."
    chart = Chart(f"chart-{one.id}", one.title, lead, ["Show", "Of"])
    series = one.series
    words = [_surface_words(each) for each in series]
    for each, told in zip(series, words, strict=True):
        chart.add(["Heat map", each.condition], figures.heat(draw.case_of(each, one.title)), told)
    for other in series[1:]:
        name = f"{other.condition} over {series[0].condition}"
        if set(other.files) & set(series[0].files) and set(other.records) & set(series[0].records):
            told = f"{name}: the difference of the medians in percent, without a significance test of each point."
            chart.add(["Difference", name], draw.difference(other, series[0]), told)
    for each, told in zip(series, words, strict=True):
        chart.add(["3D", each.condition], figures.surface(draw.case_of(each, one.title)), told)
    return chart


def _surface_words(series: ExperimentSeries) -> str:
    rates = [rate for row in series.rates for rate in row if rate]
    rough = [each for each in series.roughness if each is not None]
    dips = series.dips
    told = f"{series.condition}: {min(rates):,.4g} to {max(rates):,.4g} MB/s"
    if rough:
        told += f"; as rough as noise of {median(rough) * 100:.2g} %"
    where = ", ".join(f"{place((dip.file_bytes, dip.record_bytes))} ({percent_text(dip.share)})" for dip in dips[:5])
    return told + (f"; {len(dips)} {'dip' if len(dips) == 1 else 'dips'}: {where}." if dips else "; no dip.")


# --- words and tables ------------------------------------------------------------------------------------


def _header(result: ExperimentDocument) -> str:
    source = result.source
    article = ", ".join(str(source[key]) for key in ("title", "author", "site", "date") if source.get(key))
    facts = " · ".join(
        esc(text) for text in (f"scale: {result.scale}", f"seed {result.seed}", result.started_at) if text
    )
    words = "".join(f"<p>{esc(tight(text))}</p>" for text in result.summary)
    return (
        f'<header><h1>{esc(result.title)}</h1><p class="facts">{facts}</p><p class="label">{esc(article)}</p>'
        f'<section class="summary" aria-label="Summary">{words}</section>'
        f'<p class="lead">{esc(result.about)}</p></header>'
    )


def _navigation(result: ExperimentDocument, drawn: Sequence[Chart]) -> str:
    limits = [("calibrations", "Limits")] if result.calibrations else []
    cost = [("cost", "Cost")] if result.costs else []
    tables = [("published", "Published numbers"), *cost, ("systems", "Systems"), *limits, ("data", "Data")]
    links = [("claims", "Conclusions"), *((chart.id, chart.title) for chart in drawn), *tables]
    items = "".join(f'<li><a href="#{name}">{esc(text)}</a></li>' for name, text in links)
    return f'<nav aria-label="On this page"><ul>{items}</ul></nav>'


def _sections(result: ExperimentDocument, drawn: Sequence[Chart]) -> Iterator[str]:
    yield claims_table(result)
    yield from (page.chart_section(chart) for chart in drawn)
    yield published_table(result)
    yield costs_table(result)
    yield systems_table(result)
    yield calibrations_table(result.calibrations)
    yield notes_list(result)
    told = "Every number of this page. The runs themselves are in the store: naslab show RUN."
    yield page.download_section(told, "Result of the experiment (JSON)")


def claims_table(result: ExperimentDocument) -> str:
    """Each conclusion in our words, its verdict, and why."""
    rows = []
    for claim in result.claims:
        mark, kind = _MARKS[claim.verdict]
        verdict = f'<span class="status {kind}"><span aria-hidden="true">{mark}</span> {esc(claim.verdict)}</span>'
        told = f'<span id="claim-{esc(claim.id)}">{esc(tight(claim.words))}</span>'
        told += "".join(_aside(text) for text in (claim.id, claim.place) if text)
        told += _aside(f"Stand-in: {claim.stand_in}.") if claim.stand_in else ""
        rows.append([verdict, told, esc(tight(claim.why))])
    lead = (
        "Conclusions are the article's, in our words. The repeat is the unit; ratios are paired within a repeat; p "
        "values are adjusted over all claims (Holm). Undecided does not mean refuted."
    )
    table = page._table("Conclusions of the article", ["Verdict", "Conclusion", "Why"], rows)
    table = table.replace("<table>", '<table style="min-width: 40rem">', 1)
    return f'<section id="claims"><h2>Conclusions of the article</h2><p class="lead">{esc(lead)}</p>{table}</section>'


def published_table(result: ExperimentDocument) -> str:
    """Every published number, where it is in the article, and ours where it was measured at the same size."""
    rows = []
    for one in result.published:
        value, speed = f"{one.value:,.6g} {one.unit}", _speed(result, one.unit)
        value += "" if speed == 1 else f"; times {speed:.3g}: {one.value * speed:,.4g}"
        rows.append([esc(tight(text)) for text in (one.what, value, ours(result, one), one.place)])
    if not rows:
        return ""
    heads = ["Number", "Published", "Measured here", "Where in the article"]
    table = page._table("Published numbers", heads, rows)
    lead = (
        "Ours is the median under the condition that represents the article's, at the same file size; - if there is "
        "none."
    )
    return f'<section id="published"><h2>Published numbers</h2><p class="lead">{esc(lead)}</p>{table}</section>'


_COSTS = {
    "per_hour": "An hour", "per_month": "A month (730 h)", "sustained_per_tib": "A TiB moved at the sustained rate",
    "burst_per_tib": "A TiB moved at the burst rate",
}  # fmt: skip


def costs_table(result: ExperimentDocument) -> str:
    """What the servers cost, ours beside the article's; empty where no test was given a price."""
    found = result.costs
    several = len({(one.condition, one.test) for one in found}) > 1
    rows = []
    for one in found:
        name = f"{_COSTS[one.name]}{', ' + one.condition + ', ' + one.test if several else ''}"
        low, high = min(one.values), max(one.values)
        spread = f" ({low:,.4g} to {high:,.4g} in {len(one.values)} repeats)" if high > low * 1.001 else ""
        article = "-" if one.published is None else f"{one.published:,.5g}"
        rows.append([esc(tight(text)) for text in (name, article, f"{median(one.values):,.5g}{spread}")])
    if not rows:
        return ""
    table = page._table("Cost", ["Cost of", "Article", "Measured here"], rows)
    lead = (
        "Ours from the price that the test was given and the rates measured here, the median; the article's from its "
        "own price and rates. In the currency of the prices."
    )
    return f'<section id="cost"><h2>Cost</h2><p class="lead">{esc(lead)}</p>{table}</section>'


def ours(result: ExperimentDocument, one: ExperimentPublished) -> str:
    """The number that stands beside a published one; `-` where there is none."""
    chart = next((each for each in result.charts if each.id == one.chart), None)
    series = next((each for each in chart.series if each.condition == one.condition), None) if chart else None
    for point in series.points if series else ():
        same = point.size_bytes == one.size_bytes if one.size_bytes else point.group == one.group
        if same and point.values and chart:
            value = median(point.values) * _FACTORS.get(chart.unit, 1.0) / _FACTORS.get(one.unit, 1.0)
            return f"{value:,.4g} {one.unit}"
    return "-"


def systems_table(result: ExperimentDocument) -> str:
    """What was measured, on what, and which machine of the article it stands for."""
    rows = []
    for one in result.conditions:
        beside = _aside(f"Other load: {'; '.join(one.beside)}") if one.beside else ""
        why = _aside(f"Not measured: {one.missing}") if one.missing else ""
        rows.append([esc(one.id), esc(one.what) + beside + why, esc(tight(one.built)), esc(one.stands_for),
                     esc(one.place)])  # fmt: skip
    code = '<code style="overflow-wrap: anywhere">'
    tests = "".join(f"<li>{esc(test.what)}: {code}{esc(test.words)}</code></li>" for test in result.tests)
    heads = ["Condition", "What it is", "Built as", "Represents", "Where"]
    table = page._table("Conditions and systems", heads, rows)
    return f'<section id="systems"><h2>Conditions and systems</h2>{table}<h3>Tests</h3><ul>{tests}</ul></section>'


def notes_list(result: ExperimentDocument) -> str:
    """What else must be known; empty without notes."""
    items = "".join(f"<li>{esc(tight(note))}</li>" for note in result.notes)
    if not items:
        return ""
    head = "<h2>Before you use these numbers</h2>"
    return f'<section class="validity" id="notes">{head}<ul>{items}</ul></section>'


def _aside(text: str) -> str:
    """A remark under a cell's text."""
    return f'<span class="where">{esc(tight(text))}</span>'
