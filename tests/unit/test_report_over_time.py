"""The page of an experiment: sustained loads over time with the article's numbers as lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from cli_tools import HANG_S
from naslab import load
from naslab.render.report import experiment, experiment_time
from naslab.render.report.sustained import as_told, regimes, words
from naslab.results import Run
from naslab.results.parts.sustained import Bucket, ChangeDocument, EstimateDocument, Regimes, SegmentDocument, Steady

SERVER = """
link_bytes_per_s = 1_000_000_000
latency_ns = 300_000
disk_write_bytes_per_s = 500_000_000
[[buckets]]
scope = "disk"
applies_to = "both"
burst_bytes_per_s = 200_000_000
base_bytes_per_s = 40_000_000
size_bytes = 2_000_000_000
"""


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A minute of a disk whose credit is spent after 12.5 s, in virtual time."""
    folder: Path = tmp_path_factory.mktemp("burst")
    (folder / "server.toml").write_text(SERVER, encoding="utf-8")
    store = str(folder / "s.sqlite")
    words = "--size 64m --block 1m --write 100 --depth 8 --durability each --duration 60s --quiet --store"
    command = [sys.executable, "-m", "naslab", "sustained", f"sim:{folder / 'server.toml'}", *words.split(), store]
    subprocess.run(command, check=True, timeout=HANG_S, stdin=subprocess.DEVNULL)
    return load("last", store)


@pytest.fixture
def result(burst: Run) -> dict[str, Any]:
    (regime,) = burst.document["sustained"]["regimes"]
    points = [
        {"group": "baseline", "values": [regime["baseline_bytes_per_s"] / 1e6]},
        {"group": "other", "values": [1.0]},
    ]
    printed = {"chart": "rates", "unit": "MB/s", "condition": "here"}
    return {
        "tests": [{"name": "load", "words": "naslab sustained TARGET"}, {"name": "sweep", "words": "naslab sweep T"}],
        "measurements": [
            {"condition": "here", "test": "load", "block": 0, "run_id": burst.document["run_id"]},
            {"condition": "here", "test": "load", "block": 1, "run_id": "elsewhere"},
            {"condition": "here", "test": "sweep", "block": 0, "run_id": "swept"},
        ],
        "charts": [{"id": "rates", "unit": "MB/s", "series": [{"condition": "here", "points": points}]}],
        "published": [
            {**printed, "what": "Baseline write", "group": "baseline", "scaled": 32e6},
            {**printed, "what": "Copies", "group": "other", "scaled": 77e6},
        ],
    }


def test_sustained_runs_are_asked_for_and_no_others(result: dict[str, Any], burst: Run) -> None:
    assert experiment.timed_runs(result) == [burst.document["run_id"], "elsewhere"]


def test_the_change_of_rate_is_drawn_with_the_numbers_of_its_test_alone(result: dict[str, Any], burst: Run) -> None:
    chart = experiment_time.over_time(result, {str(burst.document["run_id"]): burst})
    (entry,) = chart.entries
    assert entry["path"] == ["here, load, repeat 1"]
    names = [shape["label"]["text"] for shape in entry["figure"]["layout"]["shapes"] if "label" in shape]
    assert names == ["published: baseline write, 32 MB/s"]
    assert "Lines: published: baseline write" in entry["caption"]
    drawn = next(trace for trace in entry["figure"]["data"] if trace["name"] == "Throughput")
    early = [rate for at, rate in zip(drawn["x"], drawn["y"], strict=True) if 2 < at < 10]
    late = [rate for at, rate in zip(drawn["x"], drawn["y"], strict=True) if 20 < at < 55]
    assert max(late) < 60 and min(early) > 150


def test_runs_without_a_change_and_runs_that_are_not_there_have_no_chart(result: dict[str, Any], burst: Run) -> None:
    steady = {**burst.document, "sustained": {**burst.document["sustained"], "regimes": []}}
    assert not experiment_time.over_time(result, {str(burst.document["run_id"]): Run(steady)}).entries
    assert not experiment_time.over_time(result, {}).entries


def test_the_line_of_a_burst_and_its_caption_are_the_headlines() -> None:
    """Whole seconds say 28.9 s and a floor of 35 MB/s; the fit, which the headline has, 29.6 s and 32 MB/s."""
    sides = [0.0, 0.0]
    regime = Regimes(
        cell=1, kind="read", best_second_bytes_per_s=170e6, mean_bytes_per_s=100e6, dropped_ns=29_600_000_000,
        burst_bytes_per_s=167.2e6, baseline_bytes_per_s=32.0e6, percentiles_ns={},
        segments=[SegmentDocument(0, 28_900_000_000, 167.2e6, sides),
                  SegmentDocument(28_900_000_000, 59_500_000_000, 35.1e6, sides)],
        changes=[ChangeDocument(28_900_000_000, 28_900_000_000, 29_000_000_000, -0.79, sides)],
        steady=Steady("steady", True, "it is", [], 32e6, 0, None, None, None, None, None, None),
    )  # fmt: skip
    bucket = Bucket(
        dropped_ns=29_600_000_000, burst_bytes_per_s=EstimateDocument(166.4e6, sides),
        baseline_bytes_per_s=EstimateDocument(32.04e6, sides), size_bytes=EstimateDocument(4e9, sides),
        burst_bytes=5_000_000_000, precision=None, refill_ns=None,
    )  # fmt: skip
    told = as_told(regime, bucket)
    assert "166 MB/s until 29.6 s, then 32.0 MB/s until 59.5 s. Changes: -81 % at 29.6 s." in words(told)
    figure = regimes(*(np.ones(600),) * 3, told)
    (line,) = (trace for trace in figure["data"] if trace["name"] == "Mean of a stretch")
    assert line["x"][:5] == [0, 29.6, None, 29.6, 59.5] and line["y"][:5] == [166.4, 166.4, None, 32.04, 32.04]
    assert {shape["x0"] for shape in figure["layout"]["shapes"]} == {28.9, 29.6}
    assert figure["layout"]["shapes"][0]["x1"] == 29.6, "the moment lies in the band of what it may be"
    undropped = replace(regime, dropped_ns=None)
    assert as_told(undropped) is undropped
    assert as_told(regime).segments[1].mean_bytes_per_s == 32.0e6, "without a fit of the burst its own"
