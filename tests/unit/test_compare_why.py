"""The first step of the ladder at which targets part, from hand-made ladders."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from naslab.comparison.judgement import Comparison
from naslab.comparison.why import Why, document, sentences, why
from naslab.errors import UsageError
from naslab.render.report.compare import verdicts

NAMES = ("A", "B")
MS = 1_000_000


def figure(value: float, half: float, unit: str = "bytes_per_s") -> dict[str, Any]:
    """A value with an interval of so large a share either way."""
    return {"value": value, "unit": unit, "ci95": [value * (1 - half), value * (1 + half)]}


def ladder(
    trip_ns: float = 0.21 * MS, large: float = 118e6, small: float = 60e6, memory: float = 110e6, half: float = 0.01
) -> dict[str, Any]:
    """A run's document with a ladder of five steps, as far as `why` reads it."""
    steps = {
        "round_trip": {
            "random read 4 KiB, depth 1": figure(4096e9 / trip_ns, half),
            "random read 4 KiB, depth 1: time of one": figure(trip_ns, 0.0, "ns"),
        },
        "client_cache": {"read 1 MiB, depth 1": figure(large / 2, half)},
        "depth": {f"read 1 MiB, depth {depth}": figure(large * min(depth, 4) / 4, half) for depth in (1, 2, 4, 8)},
        "connections": {"random read 4 KiB, depth 16, 2 connections": figure(small, half)},
        "set": {f"read 1 MiB, depth 8, set of {size}": figure(large if size == "64 MiB" else memory, half)
                for size in ("64 MiB", "128 MiB")},
        "again": {"read 1 MiB, depth 1": figure(large * 7, half)},
    }  # fmt: skip
    parts = [
        {"name": name, "title": name, "cells": [], "figures": found, "says": "", "points": []}
        for name, found in steps.items()
    ]
    return {"command": "run", "ladder": {"steps": parts}}


def of(found: Why) -> dict[str, str]:
    return {step.name: step.judgement for step in found.steps}


def test_conditions_are_told_in_the_words_of_every_command() -> None:
    from naslab.explain import trust

    cut = {**ladder(), "status": "partial", "warnings": [{"kind": "interrupted", "message": "", "cell": None}]}
    told = sentences(why([cut], [ladder()], NAMES), NAMES)
    assert told[-1] == f"A: {trust.sentence(trust.doubts(cut))}" and "the run was interrupted" in told[-1]


def test_the_first_step_at_which_they_part() -> None:
    found = why([ladder(small=60e6)], [ladder(0.214 * MS, 230e6, small=120e6, memory=220e6)], NAMES)
    assert of(found) == {"round_trip": "agree", "depth": "part", "connections": "part", "set": "part"}
    assert found.parting is not None and found.parting.name == "depth"
    told = sentences(found, NAMES)
    assert told[0].startswith("They first differ at large reads")
    assert "118 MB/s on A, 230 MB/s on B (1.95 times" in told[0]
    assert told[1] == "All earlier steps agree: one small read at a time (210 µs and 214 µs)."
    assert told[2].startswith("This is an indication") and "4 runs of each target" in told[2] and len(told) == 3


def with_model(found: dict[str, Any], **numbers: dict[str, Any]) -> dict[str, Any]:
    """The document with numbers of a fitted model."""
    return {**found, "ladder": {**found["ladder"], "model": {"version": "x", "max_depth": None, **numbers}}}


def test_the_part_of_the_server_that_differs_by_the_fitted_models() -> None:
    bound = {"at_least": 3e9, "unit": "bytes_per_s"}
    one = with_model(ladder(), link_read_bytes_per_s=figure(118e6, 0.03), disk_read_bytes_per_s=figure(60e6, 0.05),
                     server_memory_bytes_per_s=bound, server_ops_per_s=figure(9e4, 0.5, "iops"))  # fmt: skip
    other = with_model(ladder(large=236e6), link_read_bytes_per_s=figure(236e6, 0.03),
                       disk_read_bytes_per_s=figure(62e6, 0.05), server_memory_bytes_per_s=figure(4e9, 0.1),
                       server_ops_per_s=figure(18e4, 0.5, "iops"))  # fmt: skip
    found = why([one], [other], NAMES)
    assert [part.name for part in found.differing] == ["link_read_bytes_per_s"]
    low, value, high = found.differing[0].ratio
    assert (
        value == pytest.approx(2.0) and low == pytest.approx(2 * 0.97 / 1.03) and high == pytest.approx(2 * 1.03 / 0.97)
    )
    told = sentences(found, NAMES)[1]
    assert told == (
        "The fitted models differ in: the network link, reads (118 MB/s and 236 MB/s, 2.00 times, 95 % 1.88 to 2.12)."
    )
    parts = {part["name"]: part["differs"] for part in document(found, NAMES)["parts"]}
    assert parts == {"link_read_bytes_per_s": True, "server_ops_per_s": False, "disk_read_bytes_per_s": False}


def test_what_comes_later_names_later_steps() -> None:
    found = why([ladder()], [ladder(memory=60e6)], NAMES)
    assert found.parting is not None and found.parting.name == "set"
    assert [figure.judgement for figure in found.parting.figures] == ["agree", "part"]
    assert "working set 128 MiB" in found.parting.telling.what and found.parting.telling.ratio == pytest.approx(
        60 / 110
    )
    slower = why([ladder()], [ladder(0.5 * MS)], NAMES).parting
    assert slower is not None and slower.name == "round_trip" and slower.telling.unit == "ns"


def test_equal_targets_and_intervals_that_are_too_wide() -> None:
    same = why([ladder()], [ladder(large=119e6)], NAMES)
    assert same.parting is None and set(of(same).values()) == {"agree"}
    assert sentences(same, NAMES)[0] == "They differ at no step of the ladder."
    wide = why([ladder(half=0.2)], [ladder(large=140e6, half=0.2)], NAMES)
    assert wide.parting is None and of(wide)["depth"] == "open"
    assert any(
        said.startswith("Undecided, because their intervals are too wide: one small read")
        for said in sentences(wide, NAMES)
    )


def test_repeated_runs_are_judged_between_them() -> None:
    """Runs that differ by 15 % among themselves hide 8 %, whatever their own intervals say; 4 calm ones show it."""
    noisy = np.random.default_rng(5).normal(1, 0.15, 8)
    spread = [ladder(large=118e6 * each, half=0.001) for each in noisy.tolist()]
    found = why(spread[:4], spread[4:], NAMES)
    assert of(found)["depth"] != "part" and found.runs == (4, 4)
    calm = [1.0, 1.004, 0.997, 1.002]
    sides = [[ladder(large=large * each) for each in calm] for large in (118e6, 130e6)]
    found = why(sides[0], sides[1], NAMES)
    assert found.parting is not None and found.parting.name == "depth" and found.parting.telling.between
    assert document(found, NAMES)["certain"] is True
    assert not any("indication" in said for said in sentences(found, NAMES))
    # Three runs are no statistics: the widest of their own intervals count, twice the margin, and it is an indication.
    few = why(sides[0][:3], sides[1][:3], NAMES)
    assert few.parting is None and of(few)["depth"] == "open" and document(few, NAMES)["certain"] is False
    far = why(sides[0][:3], [ladder(large=150e6 * each) for each in calm[:3]], NAMES)
    assert far.parting is not None and far.parting.name == "depth" and document(far, NAMES)["certain"] is False


def test_depths_and_sets_may_differ_and_missing_steps_are_passed_over() -> None:
    one, other = ladder(), ladder()
    steps = {step["name"]: step for step in other["ladder"]["steps"]}
    steps["connections"]["figures"] = {"random read 4 KiB, depth 64, 2 connections": figure(60e6, 0.01)}
    steps["set"]["figures"] = {"read 1 MiB, depth 8, set of 1 GiB": figure(10e6, 0.01)}
    other["ladder"]["steps"].remove(steps["depth"])
    found = why([one], [other], NAMES)
    assert of(found) == {"round_trip": "agree", "connections": "agree"}
    other["ladder"]["steps"] = [steps["client_cache"]]
    assert sentences(why([one], [other], NAMES), NAMES) == [
        "The two runs have no step of the ladder in common: repeat both with a larger --budget."
    ]


def test_runs_without_a_ladder_are_refused_with_what_to_do() -> None:
    sweep = {"command": "sweep"}
    with pytest.raises(UsageError, match=r"--why: B \(sweep\) has no ladder.*naslab run TARGET"):
        why([ladder()], [sweep], NAMES)
    assert why([ladder(), sweep], [ladder()], NAMES).runs == (1, 1)


def test_json_and_report() -> None:
    found = why([ladder()], [ladder(large=230e6)], ("A<1>", "B"))
    told = json.loads(json.dumps(document(found, NAMES), allow_nan=False))
    assert told["step"] == "depth" and next(each["name"] for each in told["steps"]) == "round_trip"
    assert told["steps"][1]["figures"][0]["judgement"] == "part"
    page = verdicts([Comparison(("A<1>", "B"), False, (1, 1), [], None, {}, "holm", (), found)])
    assert "<strong>Why:</strong> They first differ at large reads" in page and "A&lt;1&gt;" in page
