"""Adds to an experiment's result the intervals that its charts over time show.

They are taken from the runs in the store once, so that the report is made from the result alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from naslab.analysis.quantities import matching
from naslab.lab.experiment_parts import OVER_TIME
from naslab.lab.experiment_result import quantity
from naslab.render.report.axes import number
from naslab.render.report.rawdata import COLUMN, Series, read_series
from naslab.render.report.thinning import keep_extremes
from naslab.toml.tables import UNITS

if TYPE_CHECKING:
    from naslab.lab.experiment import Chart, Experiment
    from naslab.results.run import Run

_BUCKETS = 300
"""Of a longer series the highest and the lowest of so many equal parts are kept."""


def shown_runs(result: Mapping[str, Any]) -> list[str]:
    """Ids of the runs that charts over time show."""
    series = (one for chart in result["charts"] if chart["kind"] == "time" for one in chart["series"])
    return list(dict.fromkeys(one["run_id"] for one in series if one["run_id"]))


def add_series(experiment: Experiment, result: dict[str, Any], runs: Mapping[str, Run]) -> None:
    """Fills the series of charts over time. runs: those of `shown_runs` that are in the store, by id.

    A condition without intervals is left out of the chart, and a note says so.
    """
    for chart, told in zip(experiment.charts, result["charts"], strict=True):
        if chart.kind != "time":
            continue
        for one in told["series"]:
            run = runs.get(one["run_id"] or "")
            points = [] if run is None else list(_points(chart, experiment, one["condition"], run))
            one["times_ns"], one["values"] = [at for at, _ in points], [value for _, value in points]
        lost = [one["condition"] for one in told["series"] if not one["values"]]
        told["series"] = [one for one in told["series"] if one["values"]]
        if lost:
            result["notes"] = [*result["notes"], f"{chart.title}: no intervals are stored of {', '.join(lost)}"]


def _points(chart: Chart, experiment: Experiment, condition: str, run: Run) -> Iterator[tuple[int, float | None]]:
    """(start since the first cell's, ns; rate in the chart's unit); without a rate between two cells."""
    cells = matching(quantity(chart, experiment, condition).where, run.document)
    found = [series for cell in cells if (series := read_series(run, 0, dict(cell))) is not None]
    columns = [COLUMN[name] for name in OVER_TIME[str(chart.of.get("value", "throughput"))]]
    for at, series in enumerate(found):
        since = int(series.cell["start_ns"]) - int(found[0].cell["start_ns"])
        if at:
            yield since, None
        yield from _of_cell(series, columns, since, UNITS[chart.unit], max(_BUCKETS // len(found), 1))


def _of_cell(
    series: Series, columns: list[int], since_ns: int, factor: float, buckets: int
) -> Iterator[tuple[int, float]]:
    times, rows = series.whole()
    rates = rows[:, columns].sum(axis=1) / series.interval_s / factor
    keep = keep_extremes(rates, buckets)
    starts = since_ns + np.rint(times[keep] * 1e9).astype(np.int64)
    yield from zip(starts.tolist(), (number(rate) for rate in rates[keep].tolist()), strict=True)
