"""The generator of simulated servers, its arithmetic held against the simulator, and what probabilities are worth."""

from __future__ import annotations

import dataclasses
import random

import pytest

from truth import calibration, sim_counterfactual, sim_kept, sim_truth
from truth.asking import Answer
from truth.calibration import Claim
from truth.sim_ceilings import CLASSES, READ_LARGE, READ_SMALL, WRITE_LARGE
from truth.sim_systems import LEFT_OUT, OVERLAYS, broken, draw
from truth.sim_truths import Truth, as_spent, truth

COUNT = 60


@pytest.fixture(scope="module", params=[random.SystemRandom().randrange(1 << 30), 7])
def systems(request: pytest.FixtureRequest) -> list[sim_truth.System]:
    """Those of a new seed, and of one that is always the same."""
    return draw(request.param, COUNT)


def test_a_seed_draws_the_same_systems(systems: list[sim_truth.System]) -> None:
    assert draw(7, COUNT) == draw(7, COUNT)
    assert draw(7, COUNT) != draw(8, COUNT)
    assert len(systems) == COUNT
    assert not any(broken(each.options) for each in systems)


def test_every_kind_and_every_field_is_drawn() -> None:
    some = draw(11, 300)
    kinds = {found.kind for each in some for found in each.judged().values()}
    assert kinds >= {*OVERLAYS, "unknown"} - {"disk_iops"}
    drawn = {name for each in some for name in each.options}
    drawn |= {
        name
        for each in some
        for rows in each.options.values()
        if isinstance(rows, list)
        for row in rows
        for name in row
    }
    known = _fields_of_the_simulator() - set(LEFT_OUT)
    assert known - drawn == set(), "a field of the simulator that no system has: draw it, or say why not in LEFT_OUT"


def _fields_of_the_simulator() -> set[str]:
    page = sim_truth.Path(__file__).parents[2] / "docs" / "reference" / "sim.md"
    rows = [line.split("|")[1].strip().strip("`") for line in page.read_text().splitlines() if line.startswith("| `")]
    return {name for name in rows if name.isidentifier()}


def test_wanted_kinds_are_clear(systems: list[sim_truth.System]) -> None:
    for each in systems:
        if each.group in ("wanted", "unlisted"):
            clear = [found.kind for found in each.judged().values() if found.level == "clear"]
            assert each.wanted in clear
        if each.group == "pair":
            assert "pair" in [found.level for found in each.judged().values()]


def test_arithmetic_is_what_the_simulator_does() -> None:
    """Relieved threefold, the limit lets the rate rise to the next ceiling; any other station changes nothing."""
    some = [
        (each, where)
        for each in draw(23, 40)
        for where, found in each.judged().items()
        if found.level == "clear" and found.kind in ("link", "disk", "disk_iops", "server_cpu", "server_cache")
    ][:: len(CLASSES)]
    done = [one for each, where in some[:6] for one in sim_counterfactual.experiments(each, where)[:2]]
    wrong = [str(one) for one in done if not one.agrees]
    assert len(done) >= 10
    assert wrong == []


def test_truths_by_hand() -> None:
    server = {"link_bytes_per_s": 100_000_000, "disk_read_bytes_per_s": 150_000_000,
              "disk_write_bytes_per_s": 50_000_000, "latency_ns": 100_000, "op_overhead_ns": 1000}  # fmt: skip
    assert truth(server, READ_LARGE).kind == "link"
    assert truth(server, READ_LARGE).headroom == pytest.approx(1.5)
    assert truth(server, READ_LARGE).level == "clear"
    assert truth(server, WRITE_LARGE).kind == "disk"
    assert truth({**server, "disk_read_bytes_per_s": 105_000_000}, READ_LARGE).level == "pair"
    cached = {**server, "server_cache_bytes": 256 << 30, "disk_read_bytes_per_s": 20_000_000}
    assert truth(cached, READ_LARGE).kind == "link"
    assert truth({**server, "stall_ns": 10**9, "stall_every_ns": 3 * 10**9}, READ_SMALL).kind == "unknown"


def test_credit_that_no_load_spent_limits_by_its_high_rate() -> None:
    bucket = {"scope": "disk", "applies_to": "read", "burst_bytes_per_s": 80_000_000, "base_bytes_per_s": 20_000_000,
              "size_bytes": 300_000_000, "initial_fill": 1.0}  # fmt: skip
    server = {"link_bytes_per_s": 100_000_000, "disk_read_bytes_per_s": 150_000_000, "latency_ns": 100_000,
              "op_overhead_ns": 1000, "disk_write_bytes_per_s": 150_000_000, "buckets": [bucket]}  # fmt: skip

    def seen(rate: float) -> str:
        load = {"op": "read", "record_bytes": 1 << 20, "depth": 8, "rate": {"value": rate}}
        document = {"ladder": {"conditions": {"burst": None}, "steps": [{"points": [load]}]}}
        return as_spent(truth(server, READ_LARGE), READ_LARGE, server, document).kind

    assert truth(server, READ_LARGE).kind == "burst_credit"
    assert (seen(79e6), seen(21e6)) == ("disk", "burst_credit")


def test_a_truth_survives_being_kept() -> None:
    for each in draw(3, 12):
        made = sim_kept.kept(each, 3, Answer(None, "exit 1", 1.0, 2.0))
        assert {w: t.document() for w, t in sim_kept.truths(made).items()} == {
            where: each.truths[where].document() for where in CLASSES
        }


def test_calibration_by_hand() -> None:
    claims = [Claim(0.95, True)] * 19 + [Claim(0.95, False)] + [Claim(0.5, True), Claim(0.5, False)]
    assert calibration.certain(claims) == (1, 20)
    assert calibration.calibration_error(claims) == pytest.approx(0.0)
    assert calibration.brier([Claim(1.0, True), Claim(0.5, False)]) == pytest.approx(0.125)
    over = [Claim(0.9, False)] * 10
    assert calibration.calibration_error(over) == pytest.approx(0.9)
    assert calibration.reliability(over)[0].count == 10
    assert calibration.reliability([Claim(1.0, True)])[0].high == 1.0
    assert calibration.calibration_error([]) == calibration.brier([]) == 0.0


def test_statements_are_held_against_the_truth() -> None:
    (system, *_) = (each for each in draw(5, 40) if each.group == "wanted")
    where, found = next((w, t) for w, t in system.judged().items() if t.level == "clear")

    def said(kind: str, probability: float) -> sim_truth.Statement:
        limit = {"kind": kind, "applies_to": {"op": where[0], "size": where[1]}, "confidence": probability}
        answer = Answer({"verdict": {"limits": [limit]}}, "", 1.0, 1.0)
        return next(s for s in sim_truth.statements(system, answer) if s.where == where)

    assert said(found.kind, 0.95).right
    wrong = "link" if found.kind != "link" else "disk"
    assert not said(wrong, 0.95).right
    pair = dataclasses.replace(system, truths={where: Truth(((found.kind, 1.0), (wrong, 1.05)))})
    limit = {"kind": found.kind, "applies_to": {"op": where[0], "size": where[1]}, "confidence": 0.95}
    (alone,) = sim_truth.statements(pair, Answer({"verdict": {"limits": [limit]}}, "", 1.0, 1.0))
    (open_,) = sim_truth.statements(pair, Answer({"verdict": {"limits": [{**limit, "confidence": 0.6}]}}, "", 1.0, 1.0))
    assert not alone.right and open_.right


def test_a_certain_and_wrong_statement_is_a_miss() -> None:
    (system, *_) = (each for each in draw(5, 40) if each.group == "wanted")
    document = {"verdict": {"limits": []}, "ladder": {"spent_ns": 10**9}}
    limits = [
        {"kind": t.kind, "applies_to": {"op": w[0], "size": w[1]}, "confidence": 0.95}
        for w, t in system.judged().items()
    ]
    good = Answer({**document, "verdict": {"limits": limits}}, "", 1.0, 1.0)
    bad = Answer({**document, "verdict": {"limits": [{**x, "kind": "client_cache"} for x in limits]}}, "", 1.0, 1.0)
    assert "certain and wrong: 0" in "\n".join(sim_truth.summed(1, [(system, good)])["summary"])
    assert not sim_truth.summed(1, [(system, bad)])["ok"]
    assert not sim_truth.summed(1, [(system, Answer(None, "exit 1", 1.0, 1.0))])["ok"]
