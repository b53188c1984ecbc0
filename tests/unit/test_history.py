"""Steps in a series of runs, and the courses of targets in a store."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cli_tools import Cli
from fixtures_run import make_parts
from naslab.analysis import history
from naslab.comparison.history import as_document, courses
from naslab.comparison.history_words import text_of
from naslab.render.report import history as page
from naslab.results.store import Store

CASES = 60
Series = NDArray[np.float64]


def series(random: np.random.Generator, n: int, spread: float, disturbed: float = 0.1) -> Series:
    """Logarithms of runs of a target that does not change; some lose up to a quarter to something else."""
    hit = random.random(n) < disturbed
    noise: Series = random.normal(0, spread, n) + np.where(hit, np.log(1 - 0.25 * random.random(n)), 0.0)
    return noise


def found_at(n: int, at: int, step: float, spread: float) -> float:
    """How often a planted step is found, at its run or beside it, and no other."""
    random = np.random.default_rng([n, at])
    good = 0
    for case in range(CASES):
        logs = series(random, n, spread, 0.0)
        logs[at:] += np.log1p(step)
        steps = history.find_steps(logs, case)
        good += len(steps) == 1 and abs(steps[0].at - at) <= 1 and abs(steps[0].ratio / (1 + step) - 1) < 0.06
    return good / CASES


@pytest.mark.parametrize(("n", "spread"), [(8, 0.03), (15, 0.08), (40, 0.05)])
def test_a_target_that_does_not_change_has_no_step(n: int, spread: float) -> None:
    random = np.random.default_rng(n)
    wrong = sum(bool(history.find_steps(series(random, n, spread), case)) for case in range(2 * CASES))
    assert wrong <= 5  # 1 % of 120, with room for chance


@pytest.mark.parametrize(("n", "at", "step"), [(14, 7, -0.1), (20, 17, -0.2), (24, 12, 0.15)])
def test_a_planted_step_is_found_at_its_run(n: int, at: int, step: float) -> None:
    assert found_at(n, at, step, 0.03) >= 0.85


def test_two_steps_are_two() -> None:
    logs = np.random.default_rng(1).normal(0, 0.02, 36)
    logs[12:] -= 0.3
    logs[24:] += 0.2
    steps = history.find_steps(logs)
    assert [step.at for step in steps] == [12, 24]
    assert [step.ratio for step in steps] == pytest.approx([np.exp(-0.3), np.exp(0.2)], rel=0.03)


def test_a_small_step_and_a_single_run_are_none() -> None:
    logs = np.random.default_rng(2).normal(0, 0.002, 30)
    logs[15:] -= 0.03
    assert history.find_steps(logs) == []
    logs = np.random.default_rng(3).normal(0, 0.02, 30)
    logs[14] -= 1.0
    assert history.find_steps(logs) == []
    assert history.find_steps(logs[:5]) == []


def test_a_last_run_far_off_stands_out() -> None:
    logs = np.random.default_rng(4).normal(0, 0.02, 12)
    assert history.last_stands_out(logs, 0) is None
    logs[-1] -= 0.3
    assert history.last_stands_out(logs, 0) == pytest.approx(0.74, rel=0.05)
    assert history.last_stands_out(logs[-5:], 0) is None


def runs(count: int, slower_from: int, **target: Any) -> list[dict[str, Any]]:
    """Runs of one sweep, a day apart; from one on reads are a fifth slower."""
    random = np.random.default_rng(9)
    template: dict[str, Any] = make_parts(ops=("write", "read"), file_sizes=(1 << 20,), record_sizes=(65536,))[0]
    found = []
    for at in range(count):
        one = copy.deepcopy(template)
        one.update(run_id=f"20260101-0000{at:02}-aaaa", start_wall_ns=at * 86_400_000_000_000, status="complete")
        one["started_at"] = f"2026-01-{at + 1:02}T00:00:00Z"
        one["target"] = {**one["target"], **target}
        for cell in one["cells"]:
            slow = 0.8 if cell["op"] == "read" and at >= slower_from else 1.0
            cell.update(status="complete", errors=0)
            cell["throughput_bytes_per_s"] = 1e8 * slow * float(np.exp(random.normal(0, 0.02)))
        found.append(one)
    return found


def test_a_course_names_the_run_and_what_moved() -> None:
    (course,) = courses([*runs(16, 10)][::-1])
    (change,) = course.changes
    assert change.run_id == "20260101-000010-aaaa" and (change.before, change.after) == (10, 6)
    assert [moved.key.fields()["op"] for moved in change.moved] == ["read"]
    assert change.moved[0].ratio.value == pytest.approx(0.8, rel=0.04)
    told = text_of(course)
    assert "slower since run 20260101-000010-aaaa" in told and "<- changed" in told
    document = as_document(course)
    assert json.loads(json.dumps(document)) == document and len(document["runs"]) == 16


def test_unlike_conditions_are_courses_of_their_own() -> None:
    found = courses([*runs(8, 99, signing=None), *runs(7, 99, signing="aes-cmac")])
    assert [len(course.runs) for course in found] == [8, 7]
    assert not any(course.changes for course in found)


def test_the_page_shows_levels_and_marks() -> None:
    (course,) = courses(runs(16, 10))
    figure = page.course_figure(course)
    assert [trace["mode"] for trace in figure["data"]] == ["lines", "lines", "markers"]
    assert len(figure["data"][-1]["x"]) == 16 and "slower since run" in page.render([course])


def test_the_command(cli: Cli, tmp_path: Path) -> None:
    store = Store(cli.store)
    for one in runs(16, 10):
        store.save(one)
    store.close()
    url = runs(1, 1)[0]["target"]["url"]
    assert "slower since run 20260101-000010-aaaa" in cli("compare", "history", url).ok().out
    (course,) = cli("compare", "history", url, "--json", "-o", tmp_path / "h.html").ok().json()["courses"]
    assert [change["run_id"] for change in course["changes"]] == ["20260101-000010-aaaa"]
    assert (tmp_path / "h.html").stat().st_size > 1_000_000
    assert cli("compare", "history", "nosuch").code == 2
