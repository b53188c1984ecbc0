"""Two sides of runs: what is the same measurement, what the verdict is, and what makes it doubtful."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from fixtures_run import make_parts
from naslab.comparison import document as documents
from naslab.comparison import words
from naslab.comparison.judgement import Comparison, compare
from naslab.render.report import compare as pictures
from naslab.results.measurements import Side

NAMES = ("old", "new")
SIZES = {"file_sizes": (1 << 20, 16 << 20), "record_sizes": (4096, 65536)}


def run(
    seed: int, factor: float = 1.0, repeats: int = 8, spread: float = 0.02, drift: float = 0.0, **more: Any
) -> dict[str, Any]:
    """A run of a sweep whose every cell is `factor` times as fast as the fixture's, with noise of its own."""
    document: dict[str, Any] = copy.deepcopy(make_parts(ops=("write", "read"), **SIZES)[0])
    random = np.random.default_rng(seed)
    template = [cell for cell in document["cells"] if cell["block"] == 0]
    document["cells"] = []
    for block in range(repeats):
        shared = np.exp(drift * block / max(repeats - 1, 1))
        for at, cell in enumerate(template):
            rate = 1e6 * (at + 1) * factor * shared * np.exp(random.normal(0, spread))
            latency = {**cell["latency_ns"], "p50": round(1e12 / rate), "p99": round(3e12 / rate)}
            changed = {"id": len(document["cells"]), "block": block, "throughput_bytes_per_s": rate, "errors": 0}
            moment = (block * len(template) + at) * 1_000_000_000
            document["cells"].append(
                {**cell, **changed, "latency_ns": latency, "ops": 2000, "status": "complete", "start_wall_ns": moment}
            )
    return {**document, **more}


def kinds(found: Comparison) -> list[str]:
    """Of the doubts."""
    return [doubt.kind for doubt in found.doubts]


@pytest.mark.parametrize(("factor", "verdict"), [(0.8, "worse"), (1.25, "better"), (1.0, "equivalent")])
def test_the_verdict_is_the_planted_one(factor: float, verdict: str) -> None:
    found = compare([run(1)], [run(2, factor)], NAMES)
    assert found.verdict == verdict and found.overall and found.overall.ratio.value == pytest.approx(factor, rel=0.02)
    assert set(found.by_op) == {"write", "read"} and all(each.verdict == verdict for each in found.by_op.values())
    rates = [row for row in found.rows if row.key.measure == "throughput"]
    assert len(rates) == 8 and all(row.judged.verdict == verdict for row in rates if verdict != "equivalent")
    slow = [row for row in found.rows if row.key.measure == "p99"]
    assert slow and all(row.judged.verdict == verdict for row in slow if verdict != "equivalent")


def test_several_runs_of_a_target_are_one_side() -> None:
    found = compare([run(seed, repeats=2) for seed in (1, 2, 3)], [run(seed, 0.9, 2) for seed in (4, 5, 6)], NAMES)
    assert found.repeats == (6, 6) and found.verdict == "worse"


def test_runs_that_did_not_measure_the_same_are_judged_by_what_all_have() -> None:
    """Six runs that each left out another cell: no repeat has all, and the other cells still tell."""
    sides = [[run(seed, factor, 1) for seed in seeds] for factor, seeds in ((1.0, range(1, 7)), (0.85, range(7, 13)))]
    for side in sides:
        for at, document in enumerate(side):
            del document["cells"][at % 6]
    found = compare(sides[0], sides[1], NAMES)
    assert found.verdict == "worse" and found.overall and found.overall.ratio.n == 6
    assert found.overall.ratio.value == pytest.approx(0.85, rel=0.02)
    assert "2 measurements, 6 repeats each" in words.sentence(found), "those that every run has"
    for document in (*sides[0], *sides[1]):
        document["cells"] = document["cells"][-2:]
    del sides[0][1]["cells"][0], sides[0][2]["cells"][0], sides[0][3]["cells"][0]
    few = compare(sides[0], sides[1], NAMES)
    assert any("fewer than 4 repeats" in doubt.message and " of " in doubt.message for doubt in few.doubts)
    assert few.verdict == "worse"


def test_runs_measured_in_turns_are_paired_and_share_their_drift() -> None:
    mark = {"interleaved": {"id": "x", "position": 0, "level": 0.0158}}
    one, other = (run(seed, factor, drift=-0.6, **mark) for seed, factor in ((1, 1.0), (2, 0.85)))
    for cell in other["cells"]:
        cell["start_wall_ns"] += 500_000_000
    found = compare([one], [other], NAMES)
    assert found.paired and found.verdict == "worse" and "not_interleaved" not in kinds(found)
    assert found.overall and found.overall.ratio.level == 0.0158
    apart = compare([run(1, drift=-0.6)], [run(2, 0.85, drift=-0.6)], NAMES)
    assert apart.verdict == "undecided" and "drift" in kinds(apart) and "not_interleaved" in kinds(apart)


def test_few_repeats_give_no_verdict() -> None:
    found = compare([run(1, repeats=1)], [run(2, 0.5, repeats=3)], NAMES)
    assert found.overall and found.overall.verdict is None and found.verdict == "undecided"
    assert "few_repeats" in kinds(found) and "No verdict" in words.sentence(found)
    assert all(row.judged.verdict is None and not row.judged.different for row in found.rows)


def test_a_run_counted_twice_is_flagged() -> None:
    assert "duplicate" in kinds(compare([run(1)], [run(1)], NAMES))
    assert "duplicate" not in kinds(compare([run(1)], [run(2)], NAMES))


def test_repeats_that_agree_to_the_last_digit_are_told_in_one_line() -> None:
    """Of a simulated server without noise there are as many as repeats."""
    same = run(1, repeats=5, spread=0.0)
    told = [doubt.message for doubt in compare([same], [run(2)], NAMES).doubts if doubt.kind == "duplicate"]
    assert told == ["repeats 1 to 5 of the first side have exactly the same numbers: is one run counted twice?"]


def as_apps(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """Its cells as applications of these names, and what prepares and removes their files ten times as slow."""
    cells: list[dict[str, Any]] = []
    for cell in document["cells"]:
        if cell["op"] != "read" or cell["file_bytes"] != 1 << 20 or cell["record_bytes"] != 4096:
            continue
        made = [{**cell, "workload": name} for name in names]
        slow = cell["throughput_bytes_per_s"] / (10 if "zip" in names else 1)
        made += [{**cell, "workload": name, "throughput_bytes_per_s": slow} for name in ("prepare", "clean")]
        cells += [{**one, "id": len(cells) + at} for at, one in enumerate(made)]
    return {**document, "cells": cells}


def test_what_only_prepares_is_no_part_of_the_verdict_and_what_one_side_lacks_is_named() -> None:
    found = compare([as_apps(run(1), "Photo", "Film", "Copy")], [as_apps(run(2), "Photo", "zip")], NAMES)
    assert {row.key.fields()["workload"] for row in found.rows} == {"Photo"} and found.verdict == "equivalent"
    told = [doubt.message for doubt in found.doubts if doubt.kind == "not_shared"]
    assert told == ["not compared: Film and Copy, only on the first side; zip, only on the second side"]
    alike = compare([as_apps(run(1), "Photo")], [as_apps(run(2), "Photo")], NAMES)
    assert "not_shared" not in kinds(alike)


def test_sizes_of_one_side_alone_are_counted() -> None:
    other = run(2)
    other["cells"] = [cell for cell in other["cells"] if cell["file_bytes"] == 1 << 20]
    told = [doubt.message for doubt in compare([run(1)], [other], NAMES).doubts if doubt.kind == "not_shared"]
    assert told == ["not compared: 4 measurements, only on the first side"]


def test_unlike_conditions_are_named_and_compared_all_the_same() -> None:
    other = run(2)
    other["target"] = {**other["target"], "protocol": "smb", "signing": "aes-gmac", "dialect": "3.1.1"}
    other["environment"] = {"client": {"host": "elsewhere", "cpus_usable": 64}}
    one = run(1)
    one["target"] = {**other["target"], "signing": None}
    one["environment"] = {"client": {"host": "here", "cpus_usable": 2}}
    for cell in other["cells"]:
        cell["durability"] = "each"
    found = compare([one], [other], NAMES)
    told = [doubt.message for doubt in found.doubts]
    assert len(found.rows) >= 8
    for part in (
        "signing differs",
        "the client differs: here against elsewhere",
        "durability differs: end against each",
    ):
        assert any(part in message for message in told), (part, told)


def test_order_within_a_block_is_found_where_it_matters() -> None:
    mark = {"interleaved": {"id": "x", "position": 0, "level": 0.0158}}
    one, other = run(1, repeats=12, **mark), run(2, repeats=12, **mark)
    for cell in other["cells"]:
        cell["start_wall_ns"] += 500_000_000 * (1 if cell["block"] % 2 else -1)
        cell["throughput_bytes_per_s"] *= 0.85 if cell["block"] % 2 else 1.15
    assert "order" in kinds(compare([one], [other], NAMES))


def test_nothing_in_common_is_said() -> None:
    other = run(2)
    for cell in other["cells"]:
        cell["record_bytes"] *= 2
        cell["file_bytes"] *= 3
    found = compare([run(1)], [other], NAMES)
    assert not found.rows and found.verdict == "undecided" and kinds(found)[-1] == "nothing_shared"
    assert "no measurement in common" in words.sentence(found)


def test_failed_and_predicted_cells_are_left_out() -> None:
    other = run(2)
    other["cells"][0]["status"] = "failed"
    other["cells"][1]["predicted"] = True
    found = compare([run(1)], [other], NAMES)
    assert "left_out" in kinds(found)
    assert sum(map(len, Side.of([other]).values.values())) == sum(map(len, Side.of([run(2)]).values.values())) - 2 * 3


def test_a_margin_of_ones_own() -> None:
    assert compare([run(1)], [run(2, 0.93)], NAMES, 0.2).verdict == "equivalent"
    assert compare([run(1)], [run(2, 0.93)], NAMES, 0.02).verdict == "worse"


def test_undecided_says_what_would_have_been_seen() -> None:
    found = compare([run(1, repeats=5, spread=0.3)], [run(2, repeats=5, spread=0.3)], NAMES)
    assert found.verdict == "undecided"
    sentence = words.sentence(found)
    assert "in 80 of 100 cases" in sentence and "repeats would detect 5 %" in sentence


def test_the_document_is_plain_and_whole() -> None:
    told = documents.of(compare([run(1, repeats=1)], [run(2, repeats=1)], NAMES))
    assert json.loads(json.dumps(told)) == told
    assert told["overall"]["ci95"] == [0.0, None] and told["verdict"] == "undecided"
    assert {"op", "file_bytes", "record_bytes", "measure", "unit", "ratio", "ci95", "n", "verdict"} <= set(
        told["measurements"][0]
    )


def test_pictures_of_ratios_and_surfaces() -> None:
    found = compare([run(1)], [run(2, 0.8)], NAMES)
    ratios, flat, relief = pictures.charts([found])
    assert next(entry["path"] for entry in ratios.entries) == ["new", "Rates"]
    assert {entry["path"][1] for entry in flat.entries} == {"Write", "Read"} == {e["path"][1] for e in relief.entries}
    surface = relief.entries[0]["figure"]["data"][0]
    assert np.array(surface["z"]).shape == (2, 2) and surface["z"][0][0] == pytest.approx(0.8, rel=0.1)
    assert "worse" in pictures.verdicts([found]) and pictures.tables([found]).count("<tr>") == len(found.rows) + 1
