"""A few planted limits with every change; `make truth` asks all of them. And the judge itself, on made-up answers."""

from __future__ import annotations

from typing import Any

import pytest

from naslab.lab import definition
from truth import comparison_truth, truth_docs, verdict_truth
from truth.asking import Answer
from truth.lab_truth import SYSTEMS
from truth.planted_ceilings import READ_LARGE, READ_SMALL, ceilings, lowest, single_ns
from truth.planted_systems import CLOSE, Planted, System, draw
from truth.verdict_truth import judge

KINDS = ("link", "disk", "client_cpu", "server_cpu")


def limit(
    kind: str, where: tuple[str, str] = READ_LARGE, confidence: float = 0.95, value: float = 100.0
) -> dict[str, Any]:
    """One limit of a verdict."""
    return {"kind": kind, "applies_to": {"op": where[0], "size": where[1]}, "confidence": confidence, "value": value,
            "ci95": [value, value]}  # fmt: skip


def answer(
    *limits: dict[str, Any], asked: tuple[str, str] | None = None, model: dict[str, Any] | None = None
) -> Answer:
    """An answer with these limits; asked: the class of an open question."""
    questions = [{"applies_to": {"op": asked[0], "size": asked[1]}}] if asked else []
    document = {"verdict": {"limits": list(limits)}, "ladder": {"open": questions, "model": model or {}}}
    return Answer(document, "", 1.0, 1.0)


def system(*kinds: str, group: Any = "single", classes: Any = (READ_LARGE,), figures: Any = ()) -> System:
    """A system without options."""
    return System("x", group, kinds, classes, {}, figures)


def test_the_first_limit_of_every_class_counts() -> None:
    two = system("link", classes=(READ_LARGE, READ_SMALL))
    assert judge(two, answer(limit("link"), limit("link", READ_SMALL))).outcome == "right"
    assert judge(two, answer(limit("disk"), limit("link"), limit("link", READ_SMALL))).outcome == "wrong"
    assert judge(two, answer(limit("link"))).named[READ_SMALL] == verdict_truth.NOTHING
    assert judge(two, answer(limit("link"))).outcome == "wrong"
    assert judge(two, Answer(None, "exit 1", 1.0, 1.0)).outcome == "failed"
    assert judge(two, answer()).outcome == "no verdict"


def test_of_two_close_limits_one_alone_must_not_be_certain() -> None:
    pair = system("link", "disk", group="pair")
    assert judge(pair, answer(limit("disk"), limit("link", confidence=0.3))).outcome == "both"
    assert judge(pair, answer(limit("link"))).outcome == "one of two"
    assert judge(pair, answer(limit("link", confidence=0.5))).outcome == "undecided"
    assert judge(pair, answer(limit("link"), asked=READ_LARGE)).outcome == "undecided"
    assert judge(pair, answer(limit("link"), asked=READ_SMALL)).outcome == "one of two"
    assert judge(pair, answer(limit("server_cpu"))).outcome == "wrong"


def test_figures_are_looked_up_and_held_to_their_bars() -> None:
    planted = [Planted("value", 100.0, 0.02), Planted("size_bytes", 10.0, 0.05), Planted("round_trip_ns", 5.0, 0.05)]
    model = {"burst": {"size_bytes": {"value": 10.4}}}
    judged = judge(system("link", figures=planted), answer(limit("link", value=103.0), model=model))
    assert [(p.name, found) for p, found in judged.figures] == [
        ("value", 103.0), ("size_bytes", 10.4), ("round_trip_ns", None),
    ]  # fmt: skip
    assert [verdict_truth.holds(p, found) for p, found in judged.figures] == [False, True, False]


def test_demands_count_misses() -> None:
    right = judge(system("link"), answer(limit("link")))
    wrong = judge(system("disk"), answer(limit("link")))
    open_pair = judge(system("link", "disk", group="pair"), answer(limit("link", confidence=0.5)))
    met = {name: ok for name, ok, _ in verdict_truth.demands([right] * 19 + [wrong, open_pair])}
    assert met == {"single": True, "pair": True, "unlisted": True, "undecided": True, "figures": True}
    met = {name: ok for name, ok, _ in verdict_truth.demands([right] * 18 + [wrong] * 2 + [open_pair] * 8)}
    assert not met["single"] and not met["undecided"] and met["pair"]
    assert verdict_truth.matrix([right, wrong]) == {"link": {"link": 1}, "disk": {"link": 1}}
    assert truth_docs.matrix({"disk": {"link": 1}})[2] == "| disk | 1 |"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_drawn_systems_have_the_limits_they_say(seed: int) -> None:
    systems = draw(seed)
    groups = [each.group for each in systems]
    assert [groups.count(group) for group in ("single", "pair", "unlisted")] == [64, 12, 8]
    assert len({kind for each in systems for kind in each.kinds}) == 12
    for each in systems:
        if each.kinds[0] == "client_cache" or each.options.get("stall_ns"):
            continue  # they are not in the way of an operation that reaches the server
        for where in each.classes:
            kind, factor = lowest(each.options, where)
            assert kind in each.kinds
            assert factor <= CLOSE if each.group == "pair" else factor >= 1.5
    assert [each.options for each in systems] == [each.options for each in draw(seed)]
    assert systems[0].options != draw(seed + 1)[0].options


def test_ceilings_by_hand() -> None:
    options = {"link_bytes_per_s": 100_000_000, "header_bytes": 4096, "server_op_ns": 10_000, "latency_ns": 1_000_000,
               "op_overhead_ns": 2_000, "max_depth": 4}  # fmt: skip
    assert single_ns(options, 4096) == 1_012_000 + 81_920
    found = ceilings(options, READ_SMALL)
    assert found["link"] == 100_000_000 / 8192
    assert (found["server_cpu"], found["client_cpu"]) == (100_000, 500_000)
    assert found["protocol"] == pytest.approx(4e9 / 1_093_920)
    assert "disk_iops" not in found


def test_systems_of_the_lab_are_definitions() -> None:
    assert len(SYSTEMS) == 24
    for each in SYSTEMS:
        definition.parse(f'what = "x"\n{each.text}', "x.toml", "x")


@pytest.mark.timeout(300)
def test_planted_limits_are_named() -> None:
    drawn = draw(0)
    systems = [next(each for each in drawn if each.kinds[0] == kind) for kind in KINDS]
    systems.append(next(each for each in drawn if each.what.startswith("link's credit")))  # beside a disk's
    judged = verdict_truth.measure(systems)
    assert [(j.outcome, j.named, j.answer.error) for j in judged if j.outcome != "right"] == []


def test_two_servers_alike_are_told_apart_as_often_as_by_chance() -> None:
    alike = comparison_truth.shares(comparison_truth.Case(0.05, True, 10, 54, seed=3))
    lesser = comparison_truth.shares(comparison_truth.Case(0.03, False, 10, 54, effect=-0.1, seed=3))
    assert all(each.different <= 0.2 for each in alike)
    assert all(each.worse >= 0.7 for each in lesser)
    assert all(0.02 < each.spread < 0.08 for each in (*alike, *lesser))
