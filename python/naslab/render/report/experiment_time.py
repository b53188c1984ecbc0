"""What an experiment's sustained loads did over time, beside the article's numbers for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from naslab.render.report.drawing import Drawing
from naslab.render.report.rawdata import read_series
from naslab.render.report.rules import asked, said
from naslab.render.report.sustained import regime_figures
from naslab.render.report.views import Chart
from naslab.results.describe import part_of
from naslab.results.parts.sustained import Regimes, Sustained
from naslab.units import rate_text

if TYPE_CHECKING:
    from naslab.results.run import Run

Result = Mapping[str, Any]
_TOLD = ("baseline_bytes_per_s", "burst_bytes_per_s", "best_second_bytes_per_s")
"""Rates of a regime that charts of an experiment show."""


def timed_runs(result: Result) -> list[str]:
    """Ids of the runs whose pictures over time belong on the page."""
    sustained = {test["name"] for test in result["tests"] if " sustained " in f" {test['words']} "}
    return [one["run_id"] for one in result["measurements"] if one["test"] in sustained and one["run_id"]]


def over_time(result: Result, runs: Mapping[str, Run]) -> Chart:
    """A chart with each of `runs` (by id) whose rate changed; the article's numbers are lines."""
    lead = (
        "Throughput of each interval, the mean of each stretch between two changes, and the slowest operation of each "
        "interval; dashed lines are the article's numbers for this test."
    )
    chart = Chart("over-time", "Over time", lead, ["Measurement"])
    for one in result["measurements"]:
        run = runs.get(one["run_id"])
        if run is None or not any(len(regime.segments) > 1 for regime in _regimes(run)):
            continue
        series = [found for cell in run.cells if (found := read_series(run, 0, cell))]
        lines = Drawing(tuple(_lines(result, run)))
        for _, figure, words in regime_figures(run, 0, series):
            name = f"{one['condition']}, {one['test']}, repeat {one['block'] + 1}"
            chart.add([name], asked(figure, lines), words + said(figure, lines))
    return chart


def _regimes(run: Run) -> list[Regimes]:
    part = part_of(run.document, "sustained", Sustained)
    return part.regimes if part else []


def _lines(result: Result, run: Run) -> Iterator[tuple[str, float]]:
    """(text, bytes per second): what the article prints for values that this run has."""
    for chart in result["charts"]:
        groups = set(_groups(chart, run))
        if not groups:
            continue
        for printed in result["published"]:
            if printed["chart"] == chart["id"] and printed["group"] in groups:
                yield f"published: {printed['what'].lower()}, {rate_text(printed['scaled'])}", printed["scaled"]


def _groups(chart: Mapping[str, Any], run: Run) -> Iterator[str]:
    """Groups of a chart of rates that hold a value of this run."""
    values = [rate / 1e6 for regime in _regimes(run) for name in _TOLD if (rate := getattr(regime, name))]
    for series in chart["series"] if chart["unit"] == "MB/s" else ():
        for point in series.get("points", ()):
            if any(abs(value - own) <= 1e-6 * own for value in point.get("values", ()) for own in values):
                yield point["group"]
