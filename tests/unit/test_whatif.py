"""The fitted model and its predictions, over ladders that follow from arithmetic."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naslab.cli import whatif
from naslab.errors import UsageError
from naslab.explain.evidence import Evidence
from naslab.explain.fitted import Fitted, fit, posterior_of
from naslab.explain.forward import values_of
from naslab.explain.loads import Asked, Load, rows_of_loads
from naslab.explain.points import Figure, Point
from naslab.explain.predict import Change, Prediction, Scale
from naslab.explain.predict import predictions as all_predictions
from naslab.explain.stations import KINDS, split
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.explain.whatif_words import load_text, notes, then_text
from naslab.results.document import new_document
from truth.whatif_truth import Replanted, draw, hold, other_loads, outcome, with_loads

MIB = 1 << 20
SERVER: dict[str, float] = {
    "trip": 200e-6, "client": 2e-6, "op": 10e-6, "link": 250e6, "memory": 5e9, "cache": 300 * MIB, "read": 100e6,
    "write": 80e6, "seek": 2e-3, "slots": 1000, "window": 1e12,
}  # fmt: skip
"""A server in seconds, bytes and bytes per second."""


def ops(
    server: dict[str, float], op: str, record: int, flying: int, set_bytes: int, random: bool, workers: int = 1
) -> float:
    """Operations per second of the server, by the same bounds that a textbook gives."""
    slots = min(flying, int(server["slots"]) * workers)
    times = [server["op"], record / server["memory"], record / server["link"], server["client"] / workers]
    times.append(record / server["window"] / workers)
    disk = 0.0
    if op == "write" or set_bytes > server["cache"]:
        share = 1 - server["cache"] / set_bytes if random and op == "read" else 1.0
        disk = share * (record / server[op] + (server["seek"] if random else 0.0))
    alone = server["trip"] + sum(times[:4])
    return min(slots / (alone + disk), 1 / max(*times, disk))


def point(server: dict[str, float], op: str, record: int, depth: int, **more: Any) -> Point:
    """One measured load."""
    workers, set_bytes = more.pop("workers", 1), more.pop("set_bytes", SMALL_BYTES)
    random, durable = more.pop("random", False), more.pop("durable", False)
    reached = ops(
        server, op if durable or op == "read" else "read", record, depth * workers, set_bytes, random, workers
    )
    rate = Figure(reached * record, reached * record * 0.99, reached * record * 1.01)
    moved = {"reads": rate.value if op == "read" else 0.0, "writes": rate.value if op == "write" else 0.0}
    point_of_it = dict(
        cell=0, op=op, random=random, record_bytes=record, depth=depth, workers=workers, files=workers,
        set_bytes=set_bytes, bypass=False, durability="none", rate=rate, iops=rate.scaled(1 / record, "iops"), **moved,
        durable=None, p50_ns=1e9 * depth * workers / reached, mean_ns=1e9 * depth * workers / reached, p99_ns=0.0,
        cpu=reached * server["client"], crossed=1.0, stalls=None, start_ns=0, end_ns=0,
    )  # fmt: skip
    return Point(**{**point_of_it, **more})


def in_order(found: Evidence) -> Evidence:
    """The points one after another, each as long as a ladder makes it: a second, or the whole file."""
    now_ns = 0
    for name, points in found.points.items():
        for at, p in enumerate(points):
            whole = p.set_bytes / p.rate.value if name == "set" else 1.0
            points[at] = replace(p, start_ns=now_ns, end_ns=now_ns + round(1e9 * whole))
            now_ns += round(1e9 * (whole + (p.set_bytes / p.durable if p.durable else 0.0)))
    return found


def ladder(server: dict[str, float], sets: tuple[int, ...] = (64, 256, 512, 2048), own: bool = True) -> Evidence:
    """What a climb would have measured. own: a writer's bytes come on top of a reader's."""
    deep = [d for d in (1, 2, 4, 8, 16, 64, 256) if d <= server["slots"]]
    found = Evidence(granted_depth=int(server["slots"]) if server["slots"] < 256 else None, simulated=True)
    found.points["round_trip"] = [point(server, "read", SMALL_RECORD, 1, random=True)]
    found.points["depth"] = [point(server, "read", LARGE_RECORD, d) for d in deep]
    found.points["small_depth"] = [point(server, "read", SMALL_RECORD, d, random=True) for d in deep[1:]]
    found.points["connections"] = [
        point(server, "read", record, deep[-1], workers=w, random=record == SMALL_RECORD)
        for record in (LARGE_RECORD, SMALL_RECORD)
        for w in (2, 4, 8)
    ]
    one = found.points["depth"][-1].rate.value
    both = {"reads": one if own else one / 2, "writes": one if own else one / 2}
    beside = point(server, "read", LARGE_RECORD, deep[-1])
    found.points["duplex"] = [Point(**{**vars(beside), "op": "mixed", **both})]
    for size in (s * MIB for s in sets):
        durable = ops(server, "write", LARGE_RECORD, 8, size, False) * LARGE_RECORD
        append = point(server, "write", LARGE_RECORD, 8, set_bytes=size, durable=None, durability="end")
        found.points.setdefault("set", []).append(Point(**{**vars(append), "durable": durable}))
        found.points["set"].append(point(server, "read", LARGE_RECORD, 8, set_bytes=size))
    last = sets[-1] * MIB
    found.points["beyond"] = [
        point(server, "read", r, 32, set_bytes=last, random=True) for r in (SMALL_RECORD, MIDDLE_RECORD)
    ]
    found.points["writes"] = [point(server, "write", SMALL_RECORD, 32, random=True, durable=True, durability="each")]
    return in_order(found)


def predictions(evidence: Evidence, change: Change, asked: Asked) -> tuple[Fitted, list[Prediction]]:
    fitted, found = all_predictions(evidence, change, asked)
    assert fitted is not None
    return fitted, found


def by_load(found: list[Prediction]) -> dict[tuple[str, str, bool], Prediction]:
    return {(p.load.op, p.load.size, p.load.op == "read" and p.load.set_bytes > SMALL_BYTES): p for p in found}


MEMORY, SET, SMALL, SMALL_SET, WRITE, SMALL_WRITE = (
    ("read", "large", False), ("read", "large", True), ("read", "small", False), ("read", "small", True),
    ("write", "large", False), ("write", "small", False),
)  # fmt: skip
CHANGES: list[tuple[Change, dict[str, float]]] = [
    (Change(), {}),
    (Change(link=Scale(0.25)), {"link": 0.25}),
    (Change(disk=Scale(2.0)), {"read": 2, "write": 2, "seek": 0.5}),
    (Change(disk=Scale(0.3)), {"read": 0.3, "write": 0.3, "seek": 1 / 0.3}),
    (Change(cpu=Scale(0.1)), {"op": 10}),
    (Change(ram=Scale(8.0)), {"cache": 8}),
    (Change(latency=Scale(value=5e6)), {"trip": 25}),
    (Change(latency=Scale(value=5e6), disk=Scale(3.0)), {"trip": 25, "read": 3, "write": 3, "seek": 1 / 3}),
]


@pytest.mark.parametrize(("change", "factors"), CHANGES)
def test_a_changed_part_is_predicted(change: Change, factors: dict[str, float]) -> None:
    """Every definite prediction is what the changed server's own arithmetic gives; most are definite."""
    other = {name: value * factors.get(name, 1) for name, value in SERVER.items()}
    _, found = predictions(ladder(SERVER), change, Asked())
    assert set(by_load(found)) == {MEMORY, SET, SMALL, SMALL_SET, WRITE, SMALL_WRITE}
    known = 0
    for p in found:
        load, random = p.load, p.load.random
        was = ops(other, load.op, load.record_bytes, load.depth, load.set_bytes, random, load.connections)
        if load.op == "write" and not random:
            was = min(ops(other, "read", LARGE_RECORD, load.depth, SMALL_BYTES, False), other["write"] / LARGE_RECORD)
        wanted = was * (load.record_bytes if load.size == "large" else 1)
        if p.known:
            known += 1
            assert p.then.value == pytest.approx(wanted, rel=0.08), load_text(load)
            assert p.then.low <= wanted <= p.then.high
        else:
            assert p.then.low <= wanted * 1.02, load_text(load)
    assert known >= 4


@pytest.mark.lab
def test_what_the_link_hides_is_no_prediction() -> None:
    server = {**SERVER, "op": 1e-6}
    model, found = predictions(ladder(server), Change(link=Scale(10.0)), Asked())
    memory, disk = by_load(found)[MEMORY], by_load(found)[SET]
    assert not memory.known and memory.limit_now == "link"
    assert "at_least" in memory.document()["then"] and memory.document()["limit_then"] is None
    # The server's cache is told by one request alone, which takes the sum of all times; its rate is 5 GB/s.
    assert 500e6 < memory.then.low <= 2500e6
    assert then_text(memory).startswith(("at least ", "between "))
    assert disk.known and disk.then.value == pytest.approx(100e6, rel=0.02) and disk.limit_then == "disk"
    assert not model.parts["server_memory_bytes_per_s"].known
    assert "at_least" in model.document()["server_memory_bytes_per_s"]
    assert "at_least" in model.document()["connection_bytes_per_s"]


@pytest.mark.lab
def test_link_and_memory_are_told_apart_or_left_open() -> None:
    for is_own, kind in ((True, "link"), (False, "server_cache")):
        _, found = predictions(ladder(SERVER, own=is_own), Change(), Asked())
        assert by_load(found)[MEMORY].limit_now == kind
    open_one = ladder(SERVER)
    del open_one.points["duplex"]
    _, found = predictions(open_one, Change(link=Scale(4.0)), Asked())
    assert not by_load(found)[MEMORY].known
    _, found = predictions(open_one, Change(disk=Scale(8.0)), Asked())
    assert by_load(found)[SET].then.value == pytest.approx(250e6, rel=0.05)


@pytest.mark.lab
def test_sets_beyond_memory() -> None:
    """A pass over more than memory holds gets nothing from it; random reads get its share."""
    evidence = ladder(SERVER, (64, 256, 320, 2048))
    _, found = predictions(evidence, Change(), Asked(set_bytes=200 * MIB))
    assert by_load(found)[SET].then.value == pytest.approx(250e6, rel=0.02)
    _, found = predictions(evidence, Change(), Asked(set_bytes=600 * MIB))
    assert by_load(found)[SET].then.value == pytest.approx(100e6, rel=0.02)
    halved = by_load(found)[SMALL_SET].then.value / by_load(found)[SMALL_SET].now.value
    assert halved == pytest.approx((1 - 300 / 2048) / (1 - 300 / 600), rel=0.12)
    evidence = ladder(SERVER)  # the sets say 256 to 512 MiB, the random reads beyond them more precisely
    cache = fit(evidence).parts["server_cache_bytes"]
    assert cache.low <= 300 * MIB <= cache.high and cache.value == pytest.approx(300 * MIB, rel=0.1)
    del evidence.points["beyond"]
    _, found = predictions(evidence, Change(), Asked(set_bytes=400 * MIB))
    between = by_load(found)[SET]
    assert not between.known and between.why == "wide"
    assert between.then.low < 110e6 and between.then.high > 240e6
    assert between.document()["then"]["at_most"] == between.then.high
    _, found = predictions(ladder(SERVER, (16, 64)), Change(), Asked(set_bytes=1024 * MIB))
    assert all(p.why in ("hidden", "") for p in found) and not by_load(found)[SET].known


def test_random_reads_that_may_have_been_none() -> None:
    """How many of a few random reads met memory is chance: what holds 0 in its interval foretells nothing."""
    evidence = ladder(SERVER)

    def unsure(point: Point, low: float) -> Point:
        seen = point.iops
        return replace(point, iops=Figure(seen.value, low * seen.value, 1.1 * seen.value, seen.unit))

    for low, known in ((0.95, True), (0.6, False), (0.0, False)):
        evidence.points["beyond"] = [unsure(point, low) for point in evidence.points["beyond"]]
        _, found = predictions(evidence, Change(disk=Scale(2.0)), Asked())
        few = by_load(found)[SMALL_SET]
        assert few.known is known and few.why == ("" if known else "wide"), low
        assert few.then.low == pytest.approx(low * few.then.value, rel=0.04), low
        assert few.then.high < 1.2 * few.then.value, low


@pytest.mark.lab
def test_few_slots_and_small_windows() -> None:
    slots = {**SERVER, "slots": 2, "link": 5e9, "op": 1e-6}
    model, found = predictions(ladder(slots), Change(), Asked(connections=4))
    small = by_load(found)[SMALL]
    assert small.limit_now == "protocol" and model.document()["max_depth"] == 2
    assert small.then.value == pytest.approx(4 * by_load(found)[SMALL].now.value, rel=0.05)
    window = {**SERVER, "window": 50e6}
    model, found = predictions(ladder(window), Change(), Asked(connections=3))
    assert model.parts["connection_bytes_per_s"].value == pytest.approx(50e6, rel=0.02)
    assert by_load(found)[MEMORY].then.value == pytest.approx(150e6, rel=0.05)
    _, found = predictions(ladder(window), Change(), Asked(connections=8))
    assert by_load(found)[MEMORY].then.value == pytest.approx(250e6, rel=0.05)


@pytest.mark.lab
def test_depth_and_record() -> None:
    _, found = predictions(ladder(SERVER), Change(), Asked(depth=2))
    alone = 1 / ops(SERVER, "read", SMALL_RECORD, 1, SMALL_BYTES, True)
    assert by_load(found)[SMALL].then.value == pytest.approx(2 / alone, rel=0.02)
    _, found = predictions(ladder(SERVER), Change(), Asked(record_bytes=MIDDLE_RECORD, depth=1))
    wanted = ops(SERVER, "read", MIDDLE_RECORD, 1, SMALL_BYTES, True)
    assert by_load(found)[SMALL].then.value == pytest.approx(wanted, rel=0.02)


def test_what_is_of_no_known_kind_is_not_predicted() -> None:
    evidence = ladder(SERVER)
    evidence.points["depth"] = [Point(**{**vars(p), "crossed": 0.0}) for p in evidence.points["depth"]]
    model, found = predictions(evidence, Change(disk=Scale(2.0)), Asked())
    assert set(model.unfit) == {"read large", "read small"}
    assert all(p.known == (p.load.op == "write") for p in found)
    assert "client's own cache" in then_text(found[0])


def test_a_ladder_that_ended_early_still_fits() -> None:
    evidence = ladder(SERVER)
    for step in ("set", "beyond", "writes", "connections", "duplex"):
        del evidence.points[step]
    model, found = predictions(evidence, Change(disk=Scale(2.0)), Asked())
    assert model.document()["disk_read_bytes_per_s"] is None
    assert {(p.load.op, p.load.size) for p in found} == {("read", "large"), ("read", "small")}
    assert fit(Evidence()) is None and all_predictions(Evidence(), Change(), Asked()) == (None, [])


def test_one_fit_serves_all_that_ask() -> None:
    """The same data are fitted once in a process, and give the same particles whoever asks."""
    one, other = fit(ladder(SERVER)), fit(ladder(SERVER))
    assert one is not None and other is not None
    assert posterior_of(one.rows) is posterior_of(other.rows)
    assert np.array_equal(one.theta, other.theta) and np.array_equal(one.weight, other.weight)
    changed = fit(ladder({**SERVER, "read": 50e6}))
    assert changed is not None and changed.posterior is not one.posterior


def test_what_sets_a_rate_is_what_is_slowest() -> None:
    """Of a server whose numbers are certain every load is named by its slowest station, or by too small a depth."""
    fitted = fit(ladder(SERVER))
    assert fitted is not None
    loads = [
        Load("read", LARGE_RECORD, 16, 1, SMALL_BYTES, False, "large"),
        Load("read", LARGE_RECORD, 16, 1, 2048 * MIB, False, "large"),
        Load("read", SMALL_RECORD, 1, 1, SMALL_BYTES, True, "small"),
        Load("read", SMALL_RECORD, 32, 1, 2048 * MIB, True, "small"),
        Load("write", LARGE_RECORD, 16, 1, 2048 * MIB, False, "large"),
    ]
    found = split(values_of(fitted.theta), rows_of_loads(loads, fitted.rows))
    named = [KINDS[np.bincount(found.kind[:, at], weights=fitted.weight).argmax()] for at in range(len(loads))]
    assert named == ["link", "disk", "latency", "disk_iops", "disk"]


# The command.


def run_file(folder: Path, **conditions: Any) -> str:
    """A stored run with such a ladder, as an exported file."""
    evidence = ladder(SERVER)
    steps = [
        {"name": name, "title": name, "cells": [], "figures": {}, "points": [p.document() for p in points]}
        for name, points in evidence.points.items()
    ]
    document: dict[str, Any] = {**new_document("r1", "run", {"url": "sim:x", "protocol": "sim"}), "status": "complete"}
    if conditions.pop("ladder", True):
        document["ladder"] = {
            "steps": steps, "conditions": {**evidence.document(), **conditions}, "open": [], "spent_ns": 1,
            "budget_ns": 1, "stopped": "certain",
        }  # fmt: skip
    path = folder / "run.json"
    path.write_text(json.dumps(document))
    return str(path)


def run_command(run: str, **options: Any) -> int:
    """`naslab whatif RUN` with options by name; the exit code."""
    return whatif.run(whatif.WhatifArguments(run, **options))


def test_the_command_prints_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_file(tmp_path)
    assert run_command(run, link="2.5g", ram="2x", as_json=False) == 0
    text = capsys.readouterr().out
    assert "What if: link 312 MB/s, server cache 2x" in text
    (large,) = re.findall(r"250 MB/s +([\d,]+) MB/s \(", text)
    assert float(large.replace(",", "")) == pytest.approx(310, rel=0.01)
    assert "The new link is assumed to carry 312 MB/s of data each way." in text
    assert run_command(run, disk="200MB/s", depth=8, data="4g", as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["change"] == {"disk": {"value": 200e6}} and told["asked"] == {"depth": 8, "set_bytes": 4 << 30}
    passed = next(p for p in told["predictions"] if p["set_bytes"] == 4 << 30 and p["record_bytes"] == 1 << 20)
    assert passed["depth"] == 8 and passed["then"]["value"] == pytest.approx(200e6, rel=0.02)
    assert passed["limit_now"] == passed["limit_then"] == "disk" and passed["known"] is True
    assert run_command(run, cpu="2x", latency="1ms", disk_iops="500", record="8k", connections=2) == 0
    assert "requests of 8 KiB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "no change is given"),
        ({"link": "10y"}, "--link: '10y' is not a rate"),
        ({"cpu": "3"}, "--cpu: '3' is not a factor"),
        ({"disk": "0x"}, "--disk: '0x' leaves nothing"),
        ({"disk_iops": "fast"}, "--disk-iops: 'fast' is not a number of requests"),
        ({"ram": "much"}, "--ram: 'much' is not a size"),
        ({"latency": "soon"}, "--latency: 'soon' is not a duration"),
        ({"record": "1g"}, "--record: '1g' is not a size"),
        ({"data": "0"}, "--set: '0' is not a size"),
    ],
)
def test_bad_words_are_refused(tmp_path: Path, words: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        run_command(run_file(tmp_path), **words)
    assert said in str(refused.value)


def test_runs_that_say_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no ladder"):
        run_command(run_file(tmp_path, ladder=False), disk="2x")
    with pytest.raises(UsageError, match="has no link"):
        run_command(run_file(tmp_path, local_disk=True), link="10g")


def test_what_is_taken_for_granted_is_said() -> None:
    evidence = ladder(SERVER)
    evidence.nic_bytes_per_s = 1_250_000_000
    fitted = fit(evidence)
    assert fitted is not None
    said = notes(fitted, Change(link=Scale(10.0), ram=Scale(2.0), cpu=Scale(2.0), disk=Scale(value=1e8)))
    assert len(said) == 5 and said[0] == "The client's own interface of 1,250 MB/s stays as it is."
    _, found = predictions(evidence, Change(link=Scale(100.0)), Asked())
    assert by_load(found)[MEMORY].then.low <= 1_250_000_000


# What holds the predictions against servers that were changed.


def replanted(change: Change) -> Replanted:
    return Replanted("a", "disk", {}, {}, change, "disk 2x")


def test_the_truth_tells_right_from_wrong() -> None:
    doubled = {**SERVER, "read": 200e6, "write": 160e6, "seek": 1e-3}
    right = hold(replanted(Change(disk=Scale(2.0))), ladder(SERVER), ladder(doubled))
    assert len(right) == 6 and all(each.right for each in right) and any(each.moved for each in right)
    assert outcome(right, 1)["ok"] and outcome(right, 1)["summary"][0].startswith("ok ")
    wrong = hold(replanted(Change(disk=Scale(3.0))), ladder(SERVER), ladder(doubled))
    assert not outcome(wrong, 1)["ok"] and not all(each.right for each in wrong)
    assert not outcome(right, 2)["ok"] and not outcome([], 1)["ok"]  # a system of which nothing was said


def test_the_truth_covers_all_loads_of_a_ladder() -> None:
    loads = other_loads(ladder(SERVER))
    assert len(loads) == 7 + 6 + 6 and with_loads({"ok": True, "summary": []}, loads)["ok"]
    told, was = loads[0]
    off = [(told, Figure(was.value * 2, was.low, was.high))] * len(loads)
    assert not with_loads({"ok": True, "summary": []}, off)["ok"]


def test_drawn_systems_are_the_same_for_the_same_seed() -> None:
    systems = draw(5, 9)
    assert systems == draw(5, 9) and systems != draw(6, 9)
    assert all(each.before != each.after and each.change != Change() for each in systems)
    assert {each.kind for each in systems} >= {"link", "disk", "server_cpu", "latency"}


@pytest.mark.parametrize(("change", "factors"), CHANGES)
def test_a_part_that_is_no_bottleneck_is_said_to_change_nothing(change: Change, factors: dict[str, float]) -> None:
    """Every load gets a rate, its ends, or that it stays; `not known` is none of them."""
    _, found = predictions(ladder(SERVER), change, Asked())
    for p in found:
        text = then_text(p)
        assert "not known" not in text and "no prediction" not in text
        assert p.known or text.startswith(("at least ", "between ", "stays at ")), text
        if text.startswith("stays at "):
            assert p.stays and p.factor[0] > 0.95 and p.factor[2] < 1.05
        if not factors:
            assert p.stays


@pytest.mark.lab
def test_a_measurement_that_is_known_badly_still_stays() -> None:
    """The interval of a rate says nothing against a link that is no bottleneck of it."""
    evidence = ladder(SERVER)
    evidence.points["set"] = [
        replace(p, rate=Figure(p.rate.value, 0.7 * p.rate.value, 1.3 * p.rate.value)) for p in evidence.points["set"]
    ]
    _, found = predictions(evidence, Change(link=Scale(10.0)), Asked())
    slow = by_load(found)[SET]
    assert slow.why == "wide" and then_text(slow) == "stays at 100 MB/s"
