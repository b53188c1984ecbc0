"""Repeats judged until the answer is clear: the error rate over all looks, what is measured, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jsonschema
import numpy as np
import pytest

from claim_truth import cell, ratio, repeats
from fake_bench import Fake
from naslab.analysis.claims import Looks, Measured, Outcome, judge
from naslab.analysis.intervals import LEVEL, POWER, p_above
from naslab.analysis.sequential import LOOKS, nominal_level, overall_p, repeats_needed
from naslab.lab import experiment
from naslab.lab.bench import Document
from naslab.lab.run_experiment import run_experiment
from naslab.results import schema_experiment

MORE, SAME = (1.05, math.inf), (1 / 1.05, 1.05)
STRICT = jsonschema.Draft202012Validator(schema_experiment.json_schema(strict=True))
SEEDS = 400
SLACK = 0.033
"""Three deviations of a share of 5 % counted over SEEDS."""


@pytest.mark.parametrize(("looks", "constant"), [(2, 0.0294), (3, 0.0221), (4, 0.0182), (5, 0.0158)])
def test_nominal_levels_are_pococks(looks: int, constant: float) -> None:
    """Two-sided levels of equally spaced looks at 5 %. Source: Pocock 1977, table 1."""
    assert 2 * nominal_level(0.025, tuple(range(1, looks + 1))) == pytest.approx(constant, abs=0.00006)


def test_an_overall_p_value_is_no_smaller_and_rises() -> None:
    ps = [1e-300, 1e-20, 1e-13, 1e-12, 1e-9, 1e-6, 0.001, 0.01, 0.05, 0.2, 0.9]
    overall = [overall_p(p) for p in ps]
    assert all(one >= p for one, p in zip(overall, ps, strict=True)) and overall == sorted(overall)
    assert overall_p(0.01, (5,)) == pytest.approx(0.01, rel=1e-4), "one look costs nothing"
    assert (overall_p(0.0), overall_p(1.0)) == (0.0, 1.0)


def until_decided(rng: np.random.Generator, truth: float, region: tuple[float, float], planned: Sequence[int]) -> str:
    """The verdict of one claim that is looked at until it has one."""
    samples = repeats(rng, {"a": truth, "b": 1.0}, planned[-1], 0.03)
    looks, claim = Looks(tuple(planned)), ratio("c", "a", "b", region)
    for count in planned:
        (found,) = judge([claim], Measured([one for one in samples if one.block < count]), looks, look=True)
        if found.verdict != "undecided":
            break
    return found.verdict


@pytest.mark.lab
@pytest.mark.parametrize(("truth", "region"), [(1.05, MORE), (1.05, SAME), (1 / 1.05, SAME)])
def test_looking_often_does_not_decide_wrongly_more_often(truth: float, region: tuple[float, float]) -> None:
    """At the edge of the region both verdicts are wrong; each may come in 5 of 100 cases."""
    rng = np.random.default_rng(17)
    found = [until_decided(rng, truth, region, LOOKS[:5]) for _ in range(SEEDS)]
    assert max(found.count("reproduced"), found.count("contradicted")) / SEEDS <= LEVEL + SLACK


def test_without_the_correction_it_would() -> None:
    """The test above can fail: the plain test at each look is wrong far more often."""
    rng, wrong = np.random.default_rng(17), 0
    for _ in range(SEEDS):
        samples = repeats(rng, {"a": 1.05, "b": 1.0}, LOOKS[4], 0.03)
        looked = [Measured([one for one in samples if one.block < count]) for count in LOOKS[:5]]
        wrong += any(judge([ratio("c", "a", "b", MORE)], each)[0].verdict == "reproduced" for each in looked)
    assert wrong / SEEDS > LEVEL + 2 * SLACK


def test_clear_claims_are_decided_at_the_first_looks() -> None:
    rng = np.random.default_rng(3)
    assert [until_decided(rng, 1.5, MORE, LOOKS[:2]) for _ in range(10)] == ["reproduced"] * 10
    assert [until_decided(rng, 0.7, MORE, LOOKS[:2]) for _ in range(10)] == ["contradicted"] * 10


@pytest.mark.parametrize(("truth", "verdict"), [(8.0, "reproduced"), (0.1, "contradicted")])
def test_what_is_beyond_all_doubt_stays_what_it_is(truth: float, verdict: str) -> None:
    """p values below what 1 - p can tell from 1; they once came out as the opposite verdict."""
    samples = repeats(np.random.default_rng(6), {"a": truth, "b": 1.0}, 27, 0.01)
    looks, claim = Looks(), ratio("c", "a", "b", MORE)
    for count in LOOKS[:6]:
        (found,) = judge([claim], Measured([one for one in samples if one.block < count]), looks, look=True)
        assert found.verdict == verdict and found.p is not None and found.p < 0.05
    assert found.p < 1e-12


@pytest.mark.parametrize(("distance", "both"), [(0.05, False), (0.05, True), (0.1, False)])
def test_so_many_repeats_decide_in_four_of_five_cases(distance: float, both: bool) -> None:
    rng, spread = np.random.default_rng(8), 0.08
    count = math.ceil(repeats_needed(distance, spread, LEVEL, POWER, both))
    told = 0
    for _ in range(1000):
        logs = spread * rng.standard_normal(count)
        ends = (p_above(logs, -distance), p_above(-logs, -distance))
        told += (max(ends) if both else ends[0]) <= LEVEL
    assert told / 1000 == pytest.approx(POWER, abs=0.05)
    assert repeats_needed(0.0, spread, LEVEL) == math.inf


def outcome(truth: float, count: int, cv: float = 0.05) -> Outcome:
    samples = repeats(np.random.default_rng(5), {"a": truth, "b": 1.0}, count, cv)
    return judge([ratio("c", "a", "b", MORE)], Measured(samples), Looks(), look=True)[0]


def test_an_open_claim_says_how_many_repeats_it_needs() -> None:
    near, far = outcome(1.1, 5), outcome(1.2, 3)
    assert near.verdict == "undecided" and near.repeats_needed is not None and far.repeats_needed is not None
    assert near.repeats_needed > far.repeats_needed > 3
    assert f"about {math.ceil(near.repeats_needed)} repeats would decide it" in near.why
    assert outcome(2.0, 5).repeats_needed is None, "it is decided"


def test_only_planned_looks_count() -> None:
    """What was measured after the last look is shown, and decides nothing."""
    samples = repeats(np.random.default_rng(2), {"a": 1.3, "b": 1.0}, 4, 0.03)
    looks, claims = Looks((3, 5)), [ratio("c", "a", "b", MORE)]
    early = judge(claims, Measured(samples[:4]), looks)[0]
    assert early.verdict == "too few repeats"
    first = judge(claims, Measured(samples[:6]), looks, look=True)[0]
    after = judge(claims, Measured(samples), looks)[0]
    assert after.p == first.p and after.contrasts[0].n == 4


# --- whole runs --------------------------------------------------------------------------------------------


CLAIMED = """
title = "Three"
about = "Three conditions."
[systems.s]
target = "sim:"
[tests.t]
what = "t"
command = "sweep"
options = "--tests write"
[[condition]]
id = "slow"
what = "c"
system = "s"
options = "--label rate=100"
[[condition]]
id = "fast"
what = "c"
system = "s"
options = "--label rate=200"
[[condition]]
id = "near"
what = "c"
system = "s"
options = "--label rate=107"
repeats = 1
[[claim]]
id = "far"
words = "faster"
of = { condition = "fast", op = "write" }
to = { condition = "slow", op = "write" }
expect = "more"
[[claim]]
id = "close"
words = "a little faster"
of = { condition = "near", op = "write" }
to = { condition = "slow", op = "write" }
expect = "more"
"""


class Rates(Fake):
    """A bench whose rate is that of the label, with noise of its own."""

    def __init__(self, log: list[str], rng: np.random.Generator, spread: float) -> None:
        super().__init__(log)
        self.rng, self.spread = rng, spread

    def measure(self, words: Sequence[str], client: str = "") -> Document:
        rate = float(words[-1].partition("=")[2])
        self.log.append(f"{rate:.0f}")
        moved = 1e6 * rate * math.exp(self.spread * self.rng.standard_normal())
        return {"command": words[0], "cells": [cell(moved, 32 << 20)], "run_id": "r", "status": "complete"}


def measured(spread: float, seed: int = 4, repeats: int | None = None) -> tuple[Document, list[str], list[str]]:
    """(result, rates in the order measured, what was said)."""
    log: list[str] = []
    said: list[str] = []
    rng = np.random.default_rng(seed)
    found = experiment.parse(CLAIMED, "f", "n")
    result = run_experiment(
        found, lambda system, seed: Rates(log, rng, spread), until=True, repeats=repeats, say=said.append
    )
    return result, [line for line in log if line != "close"], said


def test_only_conditions_of_open_claims_are_measured_again() -> None:
    result, rates, said = measured(0.02)
    verdicts = {claim["id"]: claim["verdict"] for claim in result["claims"]}
    assert verdicts["far"] == "reproduced"
    assert rates.count("200") < rates.count("107") == rates.count("100") in LOOKS, "those that the far claim needs end"
    assert "3 repeats: 1 of 2 claims decided" in said
    assert any(line.startswith("open: a little faster; about ") for line in said)
    assert result["sequential"] == {"looks": list(LOOKS), "level": LEVEL}


def test_it_ends_when_all_is_decided() -> None:
    result, rates, _ = measured(0.001)
    assert {claim["verdict"] for claim in result["claims"]} == {"reproduced"}
    STRICT.validate(result)
    assert len(rates) == 3 * LOOKS[0], "a condition with one repeat of its own has as many as its claim needs"


def test_repeats_bound_it() -> None:
    result, rates, _ = measured(1.0, repeats=4)
    assert rates.count("107") == 4 and result["sequential"]["looks"] == [3, 4]
    assert {claim["verdict"] for claim in result["claims"]} == {"undecided"}


class Jobs(Rates):
    """A bench whose jobs are limited by the client's processor."""

    def measure(self, words: Sequence[str], client: str = "") -> Document:
        rate = super().measure(words, client)["cells"][0]["throughput_bytes_per_s"]
        step = {"job": "zip", "read_bytes_per_s": rate, "limit": "client_cpu", "shares": {"target": 0.1}}
        step["cpu_fraction"] = 1.9
        return {"command": "job", "cells": [], "job": {"steps": [step]}, "run_id": "r", "status": "complete"}


def test_nothing_is_repeated_for_what_the_client_limits() -> None:
    """No number of repeats shows that a target is slow whose client was the limit."""
    text = CLAIMED.replace('op = "write" }', 'value = "job.steps.zip.read_bytes_per_s" }').replace(
        'expect = "more"', 'expect = "less"'
    )
    log: list[str] = []
    said: list[str] = []
    rng = np.random.default_rng(1)
    found = experiment.parse(text, "f", "n")
    result = run_experiment(found, lambda system, seed: Jobs(log, rng, 0.01), until=True, say=said.append)
    assert {claim["verdict"] for claim in result["claims"]} == {"undecided"}
    assert {claim["repeats_needed"] for claim in result["claims"]} == {None}
    STRICT.validate(result)
    assert len([line for line in log if line != "close"]) == 3 * LOOKS[0], "it ends at the first look"
    assert any(line.startswith("open: faster; limited by the client's processor here: ") for line in said), said
