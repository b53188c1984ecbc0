"""Charts of an experiment over time: the median repeat's intervals, taken from the store, and their picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from claim_truth import cell
from naslab import load
from naslab.analysis.quantities import Sample
from naslab.lab import experiment
from naslab.lab.bench import bring_up_addresses
from naslab.lab.experiment_result import Measurements, result_of
from naslab.lab.run_experiment import run_experiment
from naslab.render.report.experiment import charts, render
from naslab.render.report.experiment_series import add_series, shown_runs
from naslab.results.describe import typed
from naslab.results.parts.experiment import ExperimentDocument
from naslab.results.run import Run

TEXT = """
title = "Over time"
about = "A link of 16 MB/s, and one twice as fast."
repeats = 3
speed = 2

[systems.slow]
what = "16 MB/s"
target = "sim:?link_bytes_per_s=16MB"

[systems.fast]
what = "32 MB/s"
target = "sim:?link_bytes_per_s=32MB"

[limits]
link = { what = "link", value = "16MB/s" }

[tests.load]
what = "Writes"
command = "sustained"
options = "--size 8m --write 100 --duration 12s"

[[condition]]
id = "slow"
what = "slow"
system = "slow"

[[condition]]
id = "fast"
what = "fast"
system = "fast"

[[published]]
id = "rate"
what = "Rate of <b>writes</b>"
value = 7.5
unit = "MB/s"
place = "made up"

[[claim]]
id = "faster"
words = "The faster link is faster."
of = { condition = "fast" }
to = { condition = "slow" }
expect = "more"

[[chart]]
id = "course"
title = "Writes over time"
kind = "time"
of = { test = "load", value = "VALUE" }
limits = ["link"]
published = ["rate"]
"""
Drawn = Callable[[str], dict[str, Any]]


def parsed(value: str = "write") -> experiment.Experiment:
    return experiment.parse(TEXT.replace("VALUE", value), "over.toml", "over")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Run]]:
    """A result before its series were added, and the runs that it shows."""
    store = tmp_path_factory.mktemp("series") / "store.sqlite"
    result = run_experiment(parsed(), bring_up_addresses(store), seed=3)
    return result, {run_id: load(run_id, str(store)) for run_id in shown_runs(result)}


def copy(result: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(result)))


@pytest.mark.lab
def test_intervals_have_the_planted_rates(measured: tuple[dict[str, Any], dict[str, Run]]) -> None:
    result, runs = copy(measured[0]), measured[1]
    add_series(parsed(), result, runs)
    slow, fast = result["charts"][0]["series"]
    assert (slow["condition"], fast["condition"]) == ("slow", "fast")
    for one, rate in ((slow, 16), (fast, 32)):
        middle = one["values"][1:-1]
        assert sum(middle) / len(middle) == pytest.approx(rate, rel=0.02)
        assert one["times_ns"] == sorted(set(one["times_ns"])) and one["times_ns"][0] == 0
        assert 10e9 < one["times_ns"][-1] < 12e9 and one["repeats"] == 3
    read = copy(measured[0])
    add_series(parsed("read"), read, runs)
    assert set(read["charts"][0]["series"][0]["values"]) == {0}, "nothing was read"


@pytest.mark.lab
def test_the_picture_has_a_line_for_each_condition_and_the_limits(
    measured: tuple[dict[str, Any], dict[str, Run]],
) -> None:
    result = copy(measured[0])
    assert [chart.id for chart in charts(typed(result, ExperimentDocument))] == ["claims-chart"], "nothing to draw yet"
    add_series(parsed(), result, measured[1])
    chart = charts(typed(result, ExperimentDocument))[1]
    entry = chart.entries[0]
    figure = entry["figure"]
    assert [trace["name"] for trace in figure["data"]] == ["slow", "fast"]
    assert figure["data"][0]["x"][0] == 0 and figure["data"][0]["x"][-1] == pytest.approx(11.9, abs=0.2)
    levels = {shape["label"]["text"]: shape["y0"] for shape in figure["layout"]["shapes"] if "label" in shape}
    assert levels == {"published: rate of &lt;b&gt;writes&lt;/b&gt;": 15, "link": 16}, "twice as fast as the article's"
    assert figure["layout"]["yaxis"]["range"][1] > 32
    assert "repeat with the median rate" in chart.lead and "times 2" in chart.lead
    assert "of 3" in entry["caption"].replace("\u00a0", " ") and "Limits: link: 16 MB/s" in entry["caption"].replace(
        "\u00a0", " "
    )
    assert "<b>writes" not in render(result)


def test_the_repeat_with_the_median_rate_is_shown() -> None:
    def sample(block: int, rate: float) -> Sample:
        return Sample("slow", "load", block, "host", {"run_id": f"run-{block}", "cells": [cell(rate)]})

    samples = [sample(block, rate) for block, rate in enumerate((5e6, 30e6, 7e6, 20e6))]
    for count, block in ((1, 0), (2, 0), (3, 2), (4, 2)):
        found = result_of(parsed(), Measurements(samples[:count]))
        series = found["charts"][0]["series"]
        assert [(one["block"], one["run_id"], one["repeats"]) for one in series] == [(block, f"run-{block}", count)]
        assert shown_runs(found) == [f"run-{block}"]


@pytest.mark.lab
def test_a_condition_without_stored_intervals_is_left_out_and_told(
    measured: tuple[dict[str, Any], dict[str, Run]],
) -> None:
    result = copy(measured[0])
    lost = result["charts"][0]["series"][0]["run_id"]
    add_series(parsed(), result, {run_id: run for run_id, run in measured[1].items() if run_id != lost})
    assert [one["condition"] for one in result["charts"][0]["series"]] == ["fast"]
    assert "Writes over time: no intervals are stored of slow" in result["notes"]


@pytest.mark.lab
def test_a_line_ends_between_two_cells(tmp_path: Path) -> None:
    """Cells of one run are one course on one clock; nothing was measured between them."""
    text = TEXT.replace('command = "sustained"', 'command = "sweep"').replace("VALUE", "throughput")
    text = text.replace("--size 8m --write 100 --duration 12s", "--file-size 64m,128m --record 1m --tests write")
    text = text.replace("repeats = 3", "repeats = 1")
    found = experiment.parse(text, "over.toml", "over")
    result = run_experiment(found, bring_up_addresses(tmp_path / "s.sqlite"), seed=3)
    add_series(found, result, {name: load(name, str(tmp_path / "s.sqlite")) for name in shown_runs(result)})
    series = result["charts"][0]["series"][0]
    assert series["values"].count(None) == 1
    gap = series["values"].index(None)
    assert 0 < gap < len(series["values"]) - 1 and series["times_ns"] == sorted(series["times_ns"])
    assert "repeat with the median rate" not in charts(typed(result, ExperimentDocument))[-1].lead
