"""The loads that `naslab curve` offers, and what it makes of them, without a target."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from naslab.analysis import loadcurve
from naslab.commands.plans import curve as curves
from naslab.commands.plans.curve import CurveOptions, Seen
from naslab.errors import UsageError
from naslab.render.report import curve as picture
from naslab.render.terminal import tables
from naslab.results.describe import typed
from naslab.results.parts.curve import CurveComparison, CurveDocument

OPTIONS = CurveOptions(64 << 20, 4096, random=True)


def seen(offered: float, capacity: float = 1000.0) -> Seen:
    return Seen(offered, min(offered, capacity), offered > capacity, 1e6)


def test_a_ladder_rises_past_what_the_closed_loop_reached() -> None:
    rates = curves.ladder(OPTIONS, 16_000, [])
    assert rates[0] == 1000 and 64_000 / 1.4 < rates[-1] <= 64_000
    assert all(b / a == pytest.approx(1.4) for a, b in itertools.pairwise(rates))
    further = curves.ladder(OPTIONS, 16_000, [seen(rate, 1e9) for rate in rates])
    assert further[0] == pytest.approx(rates[-1] * 1.4)


def test_a_ladder_ends_at_max_rate() -> None:
    limited = dataclasses.replace(OPTIONS, start_per_s=100, most_per_s=250, factor=2.0)
    assert curves.ladder(limited, 16_000, []) == [100, 200, 250]
    assert curves.ladder(limited, 16_000, [seen(250)]) == []
    assert len(curves.ladder(dataclasses.replace(limited, most_per_s=1e8, factor=1.05), 1, [])) == curves.MAX_STEPS


def test_the_first_load_has_operations_to_count() -> None:
    assert curves.first_rate(OPTIONS, 160_000) == 10_000
    assert curves.first_rate(OPTIONS, 100) == 32
    assert curves.first_rate(OPTIONS, 20) == 10


def test_loads_between_narrow_the_gaps() -> None:
    points = [seen(rate) for rate in (250, 500, 900, 1400)]
    rates = curves.between(points, knee_per_s=600)
    assert all(500 < rate < 1020 for rate in rates) and rates == sorted(rates)
    around_knee = sorted([500, 900, *[rate for rate in rates if rate < 900]])
    assert max(b / a for a, b in itertools.pairwise(around_knee)) < 1.14
    assert any(900 < rate < 1020 for rate in rates)
    assert curves.between([seen(980), seen(1010)], None) == []
    assert curves.between([seen(100), seen(200)], None) == []


def test_when_the_first_load_is_too_much() -> None:
    rates = curves.lower(OPTIONS, [seen(5000)])
    assert rates == sorted(rates) and rates[-1] == pytest.approx(5000 / 1.4) and rates[0] < 400


def test_cells_of_a_load() -> None:
    cells = curves.step_cells(dataclasses.replace(OPTIONS, workers=2, write_pct=30), [100, 200], 3)
    assert len(cells) == 2 * curves.PARTS and {cell.workload for cell in cells} == {"curve"}
    assert len({cell.seed for cell in cells}) == 2 * curves.PARTS
    assert sum(cell.duration_ns or 0 for cell in cells[: curves.PARTS]) == OPTIONS.step_ns
    for cell in curves.numbered(cells, 0):
        cell.validate()
        assert cell.op in ("write", "mixed") and len(cell.files) == 2
    assert curves.step_cells(OPTIONS, [], 0) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"block_bytes": 0}, "--block 0"),
        ({"size_bytes": 512}, "--size 512"),
        ({"arrivals": "even"}, "--arrivals 'even'"),
        ({"step_ns": 10**8}, "--step-duration"),
        ({"start_per_s": 10.0, "most_per_s": 5.0}, "--start 10"),
    ],
)
def test_wrong_options_are_named(more: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        curves.check(dataclasses.replace(OPTIONS, **more))  # type: ignore[arg-type]


def test_rates_as_people_write_them() -> None:
    assert [curves.parse_rate(t, "--start") for t in ("", "500", "2k", "1.5M", "2kiops", "7/s")] == [
        None, 500, 2000, 1.5e6, 2000, 7,
    ]  # fmt: skip
    for text in ("0", "-1", "x", "nan", "inf", "1e12", "k"):
        with pytest.raises(UsageError, match="--max-rate"):
            curves.parse_rate(text, "--max-rate")


TIMES = dict.fromkeys(("min", "mean", "p50", "p90", "p99", "p99_9", "max"))


def made_curve(scale: float = 1.0, **more: object) -> CurveDocument:
    """A curve whose p99 doubles near 600; times `scale` in load."""
    steps = [
        {
            "offered_per_s": load * scale, "achieved_per_s": min(load, 1000) * scale, "saturated": load > 1000,
            "achieved_bytes_per_s": min(load, 1000) * scale * 4096, "ops": 1, "missed_starts": 0, "errors": 0,
            "response_ns": {**TIMES, "p50": 5 * 10**5, "p99": p99, "p99_9": 2 * p99}, "service_ns": TIMES, "cells": [],
        }
        for load, p99 in ((100, 10**6), (400, 10**6), (600, 2 * 10**6), (900, 4 * 10**6), (1400, 10**9))
    ]  # fmt: skip
    document = {
        "arrivals": "poisson", "block_bytes": 4096, "write_fraction": 0.0, "random": True, "file_bytes": 1,
        "workers": 1, "queue_depth": 32, "step_ns": 1, "steps": steps, "saturated": True,
        "capacity_per_s": 1000 * scale, "capacity_ci95_per_s": [990 * scale, 1010 * scale],
        "capacity_bytes_per_s": 4096e3 * scale,
        "knee_per_s": 600 * scale, "knee_ci95_per_s": [550 * scale, 650 * scale], "low_load_p99_ns": 10**6,
        "depth_limited": False, "stop_reason": "saturated", "compared": None, "factor": 1.5, "probe_alone": None,
        "probe_full": None, "knee_method": "", **more,
    }  # fmt: skip
    return typed(document, CurveDocument)


def ratio(verdict: str | None, value: float = 1.0, **more: object) -> dict[str, object]:
    """A comparison with a 95 % interval of 2 % to both sides."""
    return {
        "ratio": value, "ci95": [value * 0.98, value * 1.02], "batches": 8, "other_batches": 8, "margin": 0.1,
        "p_value": 0.01, "minimum_detectable": 0.14, "verdict": verdict, **more,
    }  # fmt: skip


def made_comparison(**more: object) -> dict[str, object]:
    """Half the capacity, the same knee, and p99 at three loads."""
    loads = [
        {"load_per_s": load, "p99_ns": 10**6, "other_p99_ns": 10**6, **ratio(verdict, value)}
        for load, verdict, value in ((100.0, "equivalent", 1.0), (400.0, "undecided", 1.1), (600.0, "worse", 1.5))
    ]
    return {
        "run_id": "other", "unit": "batch", "differs": [], "autocorrelation": 0.0, "other_autocorrelation": 0.0,
        "capacity": ratio("worse", 0.5), "knee": ratio("equivalent", margin=0.05), "p99": loads, **more,
    }  # fmt: skip


def test_a_comparison_in_words() -> None:
    text = " ".join(loadcurve.compared_sentences(made_curve(compared=made_comparison())))
    assert "Capacity: 0.5 times that of run other, 95 % interval 0.49 to 0.51: worse." in text
    assert "Knee: 1 times that of run other, 95 % interval 0.98 to 1.02: equivalent within 5 %; only a diff" in text
    assert "p99 at 3 equal loads (100/s to 600/s, Holm over them): worse at 1 (1.5 times as long)" in text
    assert "undecided at 1 (1.1 times as long; in the median only a difference of 14 % or more would have" in text
    assert "they do not cover how much runs differ from one another" in text
    wide = ratio("undecided", minimum_detectable=5.0)
    bare = made_comparison(differs=["queue_depth"], capacity=None, knee=ratio(None), p99=[])
    text = " ".join(loadcurve.compared_sentences(made_curve(compared=bare)))
    assert "Capacity: not compared with run other, as one of the curves was not saturated." in text
    assert "no verdict, because there are fewer than 4 parts" in text and "p99 is not compared" in text
    assert "different settings: depth" in text
    text = " ".join(loadcurve.compared_sentences(made_curve(compared=made_comparison(knee=wide))))
    assert "a factor of 6 or more would have been detected" in text
    assert loadcurve.compared_sentences(made_curve()) == []


def test_a_comparison_in_a_picture() -> None:
    figure = picture.beside(typed(made_comparison(), CurveComparison))
    assert {trace["name"]: trace["y"] for trace in figure["data"]} == {
        "equivalent": [1.0], "undecided": [1.1], "worse": [1.5],
    }  # fmt: skip
    assert figure["data"][1]["error_y"]["array"] == pytest.approx([0.02])
    band = figure["layout"]["shapes"][0]
    assert (band["y0"], band["y1"]) == (pytest.approx(1 / 1.1), 1.1)


def test_a_compared_curve_is_offered_the_loads_of_the_other() -> None:
    given = dataclasses.replace(OPTIONS, rates_per_s=[100, 150, 220, 300])
    assert curves.ladder(given, 16_000, []) == [100, 150, 220, 300]
    assert curves.ladder(given, 16_000, [seen(300)])[0] == pytest.approx(420)
    assert curves.ladder(dataclasses.replace(given, start_per_s=120, most_per_s=220), 16_000, []) == [150, 220]
    assert curves.ladder(dataclasses.replace(given, start_per_s=400), 16_000, [])[0] == 400


def test_a_curve_in_words() -> None:
    text = " ".join(loadcurve.sentences(made_curve()))
    assert "Capacity: 1,000/s" in text and "Knee: 600/s, 60 % of the capacity" in text
    assert "No knee below the capacity" in " ".join(
        loadcurve.sentences(made_curve(knee_per_s=1000, knee_ci95_per_s=[1000, 1000]))
    )
    text = " ".join(loadcurve.sentences(made_curve(saturated=False, knee_per_s=None, stop_reason="budget")))
    assert "Not saturated" in text and "No knee" in text and "--budget" in text
    assert "--depth" in " ".join(loadcurve.sentences(made_curve(depth_limited=True)))
    assert (
        "uncertain" in " ".join(loadcurve.sentences(made_curve(knee_ci95_per_s=[200, 700]))) and "uncertain" not in text
    )
    assert loadcurve.sentences(made_curve(capacity_per_s=None)) != []


def test_the_picture_holds_the_numbers() -> None:
    figure = picture.response([("one", made_curve())])
    assert [trace["name"] for trace in figure["data"]] == ["p50", "p99", "p99.9"]
    assert figure["data"][1]["x"] == [100, 400, 600, 900, 1400] and figure["data"][1]["y"][2] == 2.0
    assert [note["text"].strip() for note in figure["layout"]["annotations"]] == ["knee", "capacity"]
    both = picture.carried([("one", made_curve()), ("two", made_curve(2.0))])
    assert [trace["name"] for trace in both["data"]] == ["the offered load", "one", "two"]
    assert both["data"][2]["y"][-1] == 2000
    assert len(next(iter(tables.curve_rows(made_curve())))) == len(tables.CURVE_HEADER)
