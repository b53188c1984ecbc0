"""Audit: every check finds what was planted for it, and nothing in numbers that are as they should be."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures_run import make_parts
from naslab.audit import CHECKS, Subject, audit
from naslab.audit.figures import agree, digits, rounding, unit_mistake
from naslab.audit.words import as_json, as_text
from naslab.exchange.importers.build import read_file
from naslab.results.foreign import foreign_cell, foreign_document
from naslab.results.run import MemoryBlobs, Run

Golden = Callable[[str, str], None]
SOURCE = {"kind": "imported", "tool": "fio", "format": "fio-json", "file": "a.json"}
PARTS = make_parts(ops=("read", "reread", "random_read"), file_sizes=(64 << 20,), record_sizes=(65536,))


def own(change: Callable[[dict[str, Any]], object] | None = None, **given_: Any) -> Subject:
    """A run of naslab's own, on a server that is not simulated; change: of its document."""
    document = copy.deepcopy(PARTS[0])
    if change:
        change(document)
    return Subject(Run(document, MemoryBlobs(PARTS[1])), "run", **given_)  # type: ignore[arg-type]


def foreign(*cells: dict[str, Any], source: dict[str, Any] | None = None, **given_: Any) -> Subject:
    """A run of another tool; cells: what `foreign_cell` takes beside the number."""
    made = []
    for at, told in enumerate(cells):
        rest = dict(told)
        made.append(foreign_cell(at, rest.pop("op", "read"), rest.pop("rate", None), **rest))
    document = foreign_document("20261120-184000-abcd", {**SOURCE, **(source or {})}, made, protocol="smb")
    return Subject(Run(document), "file", **given_)


def found(subject: Subject, *grades: str) -> set[tuple[str, str]]:
    """(grade, check) of what an audit finds; grades: only these, all but missing where none is named."""
    return {(each.grade, each.check) for each in audit(subject) if each.grade in (grades or ("impossible", "doubtful"))}


def cell(**more: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["cells"][0].update(more)


def latency(**more: int) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        for part in (document["cells"][0], document["cells"][0]["kinds"]["read"]):
            part["latency_ns"] = {**part["latency_ns"], **more}

    return change


def test_a_clean_run_has_nothing() -> None:
    assert found(own()) == set()


def _copy_block(document: dict[str, Any]) -> None:
    for one in document["cells"]:
        if one["block"] == 1:
            twin = next(c for c in document["cells"] if c["block"] == 0 and c["op"] == one["op"])
            one |= {name: twin[name] for name in ("throughput_bytes_per_s", "duration_ns", "bytes")}


SIZE = 64 << 20
PLANTED: dict[str, tuple[str, str, Callable[[dict[str, Any]], object]]] = {
    "bytes below zero": ("impossible", "range", cell(bytes=-5)),
    "more writes than all": ("impossible", "range", cell(write_fraction=1.5)),
    "a rate twice as high": ("impossible", "rates", lambda d: d["cells"][0].update(
        throughput_bytes_per_s=d["cells"][0]["throughput_bytes_per_s"] * 2)),
    "MiB for MB": ("impossible", "rates", lambda d: d["cells"][0].update(
        throughput_mib_per_s=d["cells"][0]["throughput_bytes_per_s"] / 1e6)),
    "operations a second of another cell": ("impossible", "rates", cell(iops=17.0)),
    "more bytes than records": ("impossible", "records", cell(record_bytes=4096)),
    "a kind that is missing": ("impossible", "sums", lambda d: d["cells"][0]["kinds"]["read"].update(bytes=SIZE // 2)),
    "errors nobody told": ("impossible", "sums", lambda d: d["cells"][0].update(
        errors=5, errors_by_status=[{"kind": "io", "status": 5, "count": 2}])),
    "percentiles out of order": ("impossible", "order", latency(p90=9_000_000_000, p99=1_000)),
    "mean above max": ("impossible", "order", latency(mean=10**12)),
    "a mean the percentiles forbid": ("impossible", "mean", lambda d: latency(
        mean=d["cells"][0]["latency_ns"]["p50"] // 4, min=1)(d)),
    "more in flight than allowed": ("impossible", "little", lambda d: d["cells"][0]["latency_ns"].update(
        mean=d["cells"][0]["latency_ns"]["mean"] * 2)),
    "an operation longer than the cell": ("impossible", "longest", latency(max=10**13)),
    "less on the wire": ("impossible", "wire", cell(wire_received_bytes=1000)),
    "less on the wire, as it says": ("doubtful", "wire", cell(wire_received_bytes=1000, regime="client_cache")),
    "a duration beyond the window": ("impossible", "window", lambda d: d["cells"][0].update(
        window_ns=d["cells"][0]["duration_ns"] // 2)),
    "processors that are not there": ("impossible", "window", cell(cpu_user_ns=10**15)),
    "cells longer than the run": ("impossible", "run_time", lambda d: d.update(
        end_wall_ns=d["start_wall_ns"] + 10**6)),
    "an end before the start": ("impossible", "run_time", lambda d: d.update(end_wall_ns=d["start_wall_ns"] - 10**6)),
    "a series of another cell": ("impossible", "series", lambda d: d["cells"][0]["kinds"]["read"].update(ops=3)),
    "a histogram of another cell": ("impossible", "histograms", latency(p99=1_234)),
    "from the future": ("doubtful", "clocks", lambda d: d.update(
        start_wall_ns=2**62, end_wall_ns=2**62 + 10**12)),
    "a clock that was set": ("doubtful", "clocks", lambda d: d["cells"][1].update(
        start_wall_ns=d["cells"][1]["start_wall_ns"] + 60 * 10**9)),
    "repeats that are one": ("impossible", "duplicates", _copy_block),
    "a rate no memory has": ("impossible", "memory", cell(throughput_bytes_per_s=1e12)),
    "data that shrink": ("doubtful", "validity", cell(data_measured={"compress_ratio_zlib": 9.0, "dedupe_ratio": 1.0})),
    "no time at all": ("impossible", "validity", cell(duration_ns=0)),
    "what was doubted then": ("doubtful", "validity", lambda d: d.update(validity=[
        {"kind": "drift", "message": "rates fell by 9 %", "cells": [], "value": -0.09, "unit": "fraction",
         "limit": 0.03}])),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_what_was_planted_is_found(what: str) -> None:
    grade, check, change = PLANTED[what]
    assert (grade, check) in found(own(change))


def test_every_check_has_a_case_that_it_finds() -> None:
    tested_here = {check for _, check, _ in PLANTED.values()}
    tested_below = {"link", "quickest", "averages", "ticks", "round", "random", "cached", "reducible", "few", "told"}
    assert {check.name for check in CHECKS} == tested_here | tested_below
    assert len({check.name for check in CHECKS}) == len(CHECKS)


GIGABIT = ("the 1 Gbit/s link given", 118_660_598.0)


def test_rates_above_a_link() -> None:
    told = {"rate": 130e6, "record_bytes": 65536, "file_bytes": 1 << 30}
    assert ("impossible", "link") in found(foreign(told, link_given=GIGABIT))
    assert ("impossible", "link") not in found(foreign({**told, "rate": 117e6}, link_given=GIGABIT))
    mixed = {**told, "op": "mixed", "rate": 200e6}
    assert ("impossible", "link") not in found(foreign(mixed, link_given=GIGABIT)), "half of it went each way"
    assert ("missing", "told") in found(foreign(told), "missing")


def test_operations_quicker_than_their_bytes_on_the_link() -> None:
    told = {"rate": 100e6, "bytes": 100 << 20, "ops": 100, "record_bytes": 1 << 20, "latency_ns": {"min": 1_000_123}}
    assert ("doubtful", "quickest") in found(foreign(told, link_given=GIGABIT))
    slow = {**told, "latency_ns": {"min": 9_000_123}}
    assert ("doubtful", "quickest") not in found(foreign(slow, link_given=GIGABIT))


def test_a_depth_that_was_not_kept() -> None:
    told = {"rate": 40.96e6, "iops": 10_000.0, "ops": 100_000, "record_bytes": 4096, "queue_depth": 32, "workers": 1,
            "latency_ns": {"mean": 100_000}}  # fmt: skip
    assert ("doubtful", "little") in found(foreign(told))
    assert ("doubtful", "little") not in found(foreign({**told, "latency_ns": {"mean": 3_190_000}}))


def test_averages_that_are_none() -> None:
    subject = foreign({"rate": 1e6})
    of = [{"what": "run 1", "bytes_per_s": 10e6, "labels": {"cache": "cold"}},
          {"what": "run 2", "bytes_per_s": 30e6, "labels": {"cache": "warm"}}]  # fmt: skip
    part = {"what": "mean", "how": "mean", "bytes_per_s": 25e6, "printed_to_bytes_per_s": 1e5, "of": of}
    subject.run.document["stated"] = {"limits": [], "derived": [part]}  # type: ignore[typeddict-unknown-key]
    assert {("impossible", "averages"), ("doubtful", "averages")} <= found(subject)


def test_one_number_again_and_again() -> None:
    rates = [{"rate": 6_575_129_600.0, "file_bytes": size, "record_bytes": 4096} for size in (65536, 131072, 262144)]
    assert ("doubtful", "ticks") in found(foreign(*rates))
    assert ("doubtful", "ticks") not in found(foreign(*rates[:2]))


def test_last_digits() -> None:
    made_up = [{"rate": (100_000 + 1000 * n + 7) * 1e3, "file_bytes": 1 << 20, "workload": f"w{n}"} for n in range(30)]
    measured = [{**each, "rate": (100_000 + 997 * n) * 1e3} for n, each in enumerate(made_up)]
    assert ("doubtful", "round") in found(foreign(*made_up))
    assert ("doubtful", "round") not in found(foreign(*measured))
    assert ("missing", "round") in found(foreign({"rate": 3e6}), "missing")


def test_random_faster_than_in_order() -> None:
    told = {"rate": 20e6, "file_bytes": 1 << 30, "record_bytes": 4096, "queue_depth": 1, "workers": 1}
    scattered = {**told, "op": "random_read", "rate": 90e6}
    assert ("doubtful", "random") in found(foreign(told, scattered))
    assert ("doubtful", "random") not in found(foreign({**told, "queue_depth": 8}, {**scattered, "queue_depth": 8}))


def test_files_that_memory_holds() -> None:
    told = {"rate": 100_123_000.0, "file_bytes": 1 << 30, "record_bytes": 65536}
    assert ("doubtful", "cached") in found(foreign(told, server_memory_bytes=2 << 30))
    assert ("doubtful", "cached") in found(foreign(told, client_memory_bytes=2 << 30))
    assert ("doubtful", "cached") not in found(
        foreign(told, client_memory_bytes=512 << 20, server_memory_bytes=1 << 20)
    )
    assert ("doubtful", "cached") not in found(own(client_memory_bytes=2 << 30)), "its own client has no cache"
    assert ("doubtful", "cached") in found(own(cell(regime="client_cache")))


def test_data_that_tools_write() -> None:
    line = {"tool": "iozone", "command_line": "iozone -a"}
    told = {"op": "write", "rate": 100_123_000.0}
    assert ("doubtful", "reducible") in found(foreign(told, source=line))
    assert ("doubtful", "reducible") not in found(foreign(told, source={**line, "command_line": "iozone -a -+w 1"}))
    assert ("doubtful", "reducible") not in found(foreign(told))


def test_few_operations() -> None:
    assert ("missing", "few") in found(foreign({"rate": 1e6, "ops": 3, "record_bytes": 1 << 20}), "missing")
    told = {"rate": 1e6, "ops": 50, "record_bytes": 1 << 20, "latency_ns": {"p99": 5}}
    assert ("doubtful", "few") in found(foreign(told))


def test_the_same_run_under_two_names() -> None:
    first = own()
    other = Run({**PARTS[0], "run_id": "20261120-184001-abcd"}, MemoryBlobs(PARTS[1]))  # type: ignore[arg-type]
    assert ("impossible", "duplicates") in found(own(others=[("other", other)]))
    assert ("impossible", "duplicates") not in found(own(others=[("itself", first.run)]))


def test_a_third_run_is_not_told_of_two_others_that_are_alike() -> None:
    document = copy.deepcopy(PARTS[0])
    for cell in document["cells"]:
        cell["throughput_bytes_per_s"] *= 1.01
    alike = [("a", own().run), ("b", Run({**PARTS[0], "run_id": "20261120-184001-abcd"}, MemoryBlobs(PARTS[1])))]  # type: ignore[arg-type]
    third = Run({**document, "run_id": "20261120-184002-abcd"}, MemoryBlobs(PARTS[1]))
    assert not {found.check for found in audit(Subject(third, "c", others=alike))} & {"duplicates"}


SAMPLES = Path(__file__).parent.parent / "samples"
REAL = sorted(path.name for path in SAMPLES.iterdir() if path.name.startswith(("iozone_", "fio")))


@pytest.mark.parametrize("name", [name for name in REAL if name != "fio_normal.txt"])
def test_nothing_is_impossible_in_what_real_tools_wrote(name: str) -> None:
    for run in read_file(SAMPLES / name):
        assert [each.message for each in audit(Subject(run, name)) if each.grade == "impossible"] == []


@pytest.mark.parametrize("name", ["mix.xml", "write.xml", "mix.txt", "read_2_0_21.txt"])
def test_nothing_is_impossible_in_the_layouts_of_diskspd(name: str) -> None:
    """An interval at the end may be missing from its series, and each is rounded."""
    (run,) = read_file(SAMPLES.parent / "golden" / "diskspd" / name)
    assert [each.message for each in audit(Subject(run, name)) if each.grade == "impossible"] == []
    if name == "mix.xml":
        run.document["cells"][0]["kinds"]["read"]["ops"] += 1600
        assert "series" in {each.check for each in audit(Subject(run, name)) if each.grade == "impossible"}


@pytest.mark.parametrize("broken", [{"kinds": 3}, {"id": 0, "op": None}, {"latency_ns": "x"}, {"workers_detail": [1]}])
def test_a_document_of_any_shape_is_no_crash(broken: dict[str, Any]) -> None:
    audit(own(cell(**broken)))
    audit(own(lambda d: d.update(environment=None, validity=[{}])))


@settings(max_examples=60)
@given(
    moved=st.integers(1 << 20, 1 << 40), took=st.integers(10**8, 10**12),
    unit=st.sampled_from((1e3, 2.0**10, 1e6, 2.0**20)), places=st.integers(0, 3),
)  # fmt: skip
def test_rounding_of_a_source_is_no_contradiction(moved: int, took: int, unit: float, places: int) -> None:
    """A rate printed in any unit with any number of places, and times in ms, agree with the bytes."""
    exact = moved * 1e9 / took
    told = round(exact / unit, places) * unit
    took_told = round(took / 1e6) * 10**6
    if told <= 0 or took_told <= 0:
        return
    subject = foreign({"rate": told, "bytes": moved, "duration_ns": took_told})
    assert ("impossible", "rates") not in found(subject)


@settings(max_examples=60)
@given(moved=st.integers(1 << 24, 1 << 40), factor=st.sampled_from((1.048576, 8.0, 1024.0, 1 / 1.048576, 0.5, 1.3)))
def test_a_wrong_unit_is_a_contradiction(moved: int, factor: float) -> None:
    took = 12_345_678_901
    rate = moved * 1e9 / took * factor * (1 + 1e-7)
    if rounding(rate) > rate * 1e-6:
        return
    subject = foreign({"rate": rate, "bytes": moved, "duration_ns": took})
    told = [each for each in audit(subject) if each.check == "rates" and "MiB/s" not in each.message]
    assert told and told[0].grade == "impossible"
    assert (unit_mistake(factor) or "times as much") in told[0].message


@settings(max_examples=60)
@given(st.lists(st.integers(1_000, 10**9), min_size=100, max_size=400), st.booleans())
def test_latencies_of_any_load_are_possible(values: list[int], rounded: bool) -> None:
    """Percentiles and mean of real samples, by two definitions, are never called impossible."""
    data = np.array(values)
    quantiles = [0.5, 0.9, 0.99, 0.999]
    of = np.quantile(data, quantiles, method="inverted_cdf" if rounded else "linear")
    names = ("p50", "p90", "p99", "p99_9")
    told = {"min": int(data.min()), "mean": round(float(data.mean())), "max": int(data.max())}
    told |= {name: round(float(value)) for name, value in zip(names, of, strict=True)}
    kinds = {"read": {"ops": len(values), "bytes": 0, "latency_ns": told, "response_ns": None}}
    subject = foreign({"rate": 1_234_567.0, "latency_ns": told, "ops": len(values), "kinds": kinds, "bytes": 0})
    assert not {check for _, check in found(subject)} & {"order", "mean"}


@pytest.mark.parametrize(
    ("value", "half"), [(3e6, 5e5), (267.789e6, 500.0), (100.0 * 2**20, 0.5 * 2**20), (1234.5678, 0.0)]
)
def test_rounding_that_a_number_shows(value: float, half: float) -> None:
    assert rounding(value) == pytest.approx(half, abs=1.0)


def test_figures() -> None:
    assert digits(267.789e6) == 6 and digits(3e6) == 1
    assert agree(117e6, 117.4e6) and not agree(117e6, 112e6) and agree(117e6, 112e6, 0.05)
    assert unit_mistake(1.0) is None and "MiB" in str(unit_mistake(1.0486)) and "bits" in str(unit_mistake(0.125))


def test_as_people_and_programs_read_it(golden: Golden) -> None:
    def change(document: dict[str, Any]) -> None:
        PLANTED["MiB for MB"][2](document)
        PLANTED["more in flight than allowed"][2](document)
        PLANTED["data that shrink"][2](document)
        document["environment"]["route"] = {"interface": "eth0", "speed_bits_per_s": 10**8, "mtu_bytes": 1500}

    subject = own(change)
    told = audit(subject)
    golden("audit.txt", as_text("last", len(subject.cells), told, 100))
    document = json.loads(json.dumps(as_json("last", subject.run.run_id, told)))
    assert document["impossible"] == sum(each["grade"] == "impossible" for each in document["findings"]) > 2
    assert all(each["next"] and each["message"] and each["check"] for each in document["findings"])


def test_the_guide_names_every_check() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "audit.md").read_text("utf-8")
    assert all(f"| `{check.name}` | {check.about} |" in page for check in CHECKS)
