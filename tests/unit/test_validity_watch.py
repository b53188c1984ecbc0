"""What makes numbers doubtful: a busy client, rates above the link, data made smaller, holes, drift, duplicates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from naslab.analysis.findings import Finding, cells_words
from naslab.analysis.saturation import floor_ops_per_s
from naslab.analysis.validity import cell_findings, run_findings
from naslab.execution.execute import execute
from naslab.execution.validity_watch import ValidityWatch
from naslab.results import schema
from naslab.results.store import Store
from naslab.spec import CellSpec, DataSpec, PaceSpec, RunSpec
from naslab.targets import parse_target
from naslab.targets.unwritten import data_bytes, written_share

SECOND = 10**9
CEILING = {
    "cpus": 4, "null": [{"record_bytes": 4096, "workers": 1, "ops_per_s": 1e7, "bytes_per_s": 0.0}],
    "memory": {"one": {"copy_bytes_per_s": 1e10}, "all": {"copy_bytes_per_s": 2e10}},
}  # fmt: skip


def cell(**more: Any) -> dict[str, Any]:
    moved = more.get("bytes", 10**8)
    return {
        "id": 0, "op": "read", "workload": None, "file_bytes": 1 << 30, "record_bytes": 65536, "queue_depth": 1,
        "workers": 1, "block": 0, "status": "complete", "bytes": 10**8, "ops": 1526, "iops": 1526.0, "errors": 0,
        "duration_ns": SECOND, "window_ns": SECOND, "start_ns": 5, "end_ns": 5 + SECOND, "warmup_ops": 0,
        "throughput_bytes_per_s": 1e8, "cpu_user_ns": SECOND // 10, "cpu_system_ns": SECOND // 10,
        "generation_cpu_ns": 0, "verify_cpu_ns": 0, "kinds": {"read": {"bytes": moved}}, "regime": None,
        "first_error": None, **more,
    }  # fmt: skip


def document(*cells: dict[str, Any], protocol: str = "smb", command: str = "sweep", **environment: Any) -> Any:
    found = {"client": {"cpus_usable": 4}, "target": {}, **environment}
    return {"command": command, "target": {"protocol": protocol}, "environment": found, "cells": list(cells)}


def kinds(found: dict[str, Any], where: Any = None, spec: CellSpec | None = None) -> list[str]:
    return [each.kind for each in cell_findings(found, where or document(found), spec)]


# The client.

BUSY = {"cpu_user_ns": SECOND // 2, "cpu_system_ns": SECOND // 2}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, False), (BUSY, True), ({**BUSY, "generation_cpu_ns": SECOND // 2}, False),
        ({**BUSY, "verify_cpu_ns": SECOND // 2}, False), ({**BUSY, "workers": 2}, False),
        ({**BUSY, "regime": "client_cache"}, False), ({**BUSY, "duration_ns": SECOND // 100}, False),
        ({**BUSY, "offered_per_s": 10.0}, False),
        ({"workers": 16, "cpu_system_ns": 3 * SECOND}, False),
        ({"workers": 16, "cpu_system_ns": 7 * SECOND // 2}, True),
    ],
)  # fmt: skip
def test_a_client_that_was_busy(more: dict[str, Any], told: bool) -> None:
    assert kinds(cell(**more)) == ["client_saturated"] * told


def test_waiting_for_set_times_is_not_being_busy() -> None:
    spec = CellSpec("read", 1 << 30, 65536, ["f"], pace=PaceSpec(100.0, limit=True))
    assert kinds(cell(**BUSY), spec=spec) == [] and kinds(cell(**BUSY)) == ["client_saturated"]


def test_the_numbers_are_in_the_words_and_in_the_entry() -> None:
    found = cell(**BUSY)
    (told,) = cell_findings(found, document(found))
    assert "1.00 of a processor for 1 worker" in told.message
    assert told.entry() == {
        "kind": "client_saturated", "message": told.message, "cells": [0], "value": 1.0, "unit": "processors",
        "limit": 0.85,
    }  # fmt: skip


def test_rates_near_what_the_client_does_alone() -> None:
    assert floor_ops_per_s(CEILING, 10**6, 1) == pytest.approx(1 / (1e-7 + 1e-4))
    assert floor_ops_per_s(CEILING, 10**6, 4) == pytest.approx(1 / (1e-7 + 5e-5))
    assert floor_ops_per_s({}, 4096, 1) is None
    near, far = cell(record_bytes=10**6, iops=8500.0), cell(record_bytes=10**6, iops=7500.0)
    assert kinds(near, {**document(near), "client_ceiling": CEILING}) == ["client_saturated"]
    assert kinds(far, {**document(far), "client_ceiling": CEILING}) == []
    assert kinds(near) == []


@pytest.mark.parametrize("protocol", ["sim", "null"])
def test_what_has_no_client_of_this_machine_is_not_measured_by_it(protocol: str) -> None:
    near = cell(record_bytes=10**6, iops=1e6)
    assert kinds(near, {**document(near, protocol=protocol), "client_ceiling": CEILING}) == []
    busy = cell(**BUSY)
    assert kinds(busy, document(busy, protocol=protocol)) == ["client_saturated"] * (protocol == "sim")


# The link.

ROUTE = {"interface": "eth0", "speed_bits_per_s": 10**9, "mtu_bytes": 1500}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"bytes": 118_000_000}, False),
        ({"bytes": 120_900_000}, False),
        ({"bytes": 122_000_000}, True),
        ({"kinds": {"read": {"bytes": 110_000_000}, "write": {"bytes": 110_000_000}}}, False),  # full duplex
        ({"bytes": 122_000_000, "warmup_ops": 5, "queue_depth": 256}, False),
    ],
)
def test_rates_above_the_link(more: dict[str, Any], told: bool) -> None:
    found = cell(**more)
    assert kinds(found, document(found, route=ROUTE)) == ["above_link"] * told
    assert kinds(found) == []


# Data, and clocks.


@pytest.mark.parametrize(
    ("measured", "data", "told"),
    [
        ({"compress_ratio_zlib": 1.0, "dedupe_ratio": 1.0}, DataSpec(), []),
        ({"compress_ratio_zlib": 1.1, "dedupe_ratio": 1.0}, DataSpec(), []),
        ({"compress_ratio_zlib": 4.2, "dedupe_ratio": 1.0}, DataSpec(compress_ratio=4), []),
        ({"compress_ratio_zlib": 6.0, "dedupe_ratio": 1.0}, DataSpec(compress_ratio=4), ["compressible"]),
        ({"compress_ratio_zlib": 2.0, "dedupe_ratio": 1.0}, DataSpec(), ["compressible"]),
        ({"compress_ratio_zlib": 1.0, "dedupe_ratio": 3.0}, DataSpec(), ["dedupable"]),
        ({"compress_ratio_zlib": 1.0, "dedupe_ratio": 3.1}, DataSpec(dedupe_ratio=3), []),
        ({"compress_ratio_zlib": 900.0, "dedupe_ratio": 50.0}, DataSpec("fill"), ["compressible", "dedupable"]),
    ],
)
def test_data_that_a_server_can_make_smaller_than_asked(
    measured: dict[str, float], data: DataSpec, told: list[str]
) -> None:
    assert kinds(cell(data_measured=measured), spec=CellSpec("write", 1 << 20, 4096, ["f"], data=data)) == told


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, False), ({"duration_ns": 0}, True), ({"duration_ns": 0, "ops": 0, "bytes": 0}, False),
        ({"window_ns": -5}, True), ({"end_ns": 1}, True), ({"duration_ns": 0, "status": "partial"}, False),
    ],
)  # fmt: skip
def test_times_no_clock_can_have_measured(more: dict[str, Any], told: bool) -> None:
    assert kinds(cell(**more)) == ["clock"] * told


QUIET = {"longest_ns": 0, "total_ns": 0, "count": 0, "asleep_ns": 0, "clock_step_ns": 0}


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (None, []), ({}, []), ({"longest_ns": SECOND // 200, "total_ns": SECOND // 200, "count": 1}, []),
        ({"longest_ns": SECOND // 50, "total_ns": SECOND // 50, "count": 1}, ["client_stall"]),
        ({"asleep_ns": SECOND}, ["client_stall"]), ({"clock_step_ns": -SECOND}, ["clock_step"]),
        ({"clock_step_ns": 3600 * SECOND}, ["clock_step"]),
    ],
)  # fmt: skip
def test_a_client_that_stood_still(seen: dict[str, int] | None, told: list[str]) -> None:
    assert kinds(cell(client_stall=None if seen is None else {**QUIET, **seen})) == told


def test_a_long_stall_is_told_of_a_long_cell_too() -> None:
    """It is no hundredth of the cell, and it is the cell's largest latency."""
    stall = {**QUIET, "longest_ns": 10 * SECOND, "total_ns": 10 * SECOND, "count": 1}
    hours = {"window_ns": 7200 * SECOND, "duration_ns": 7200 * SECOND, "end_ns": 7201 * SECOND}
    (found,) = cell_findings(cell(client_stall=stall, **hours), document(cell()))
    assert found.kind == "client_stall" and "stalled once for 10" in found.message
    assert kinds(cell(client_stall={**stall, "longest_ns": SECOND // 5}, **hours)) == []


# Repeats.


def repeats(*rates: float, ops: tuple[str, ...] = ("read", "write")) -> list[dict[str, Any]]:
    return [
        cell(id=len(ops) * at + i, op=op, block=at, throughput_bytes_per_s=rate * (1 + i), start_ns=at * SECOND)
        for at, rate in enumerate(rates)
        for i, op in enumerate(ops)
    ]


def run_kinds(cells: list[dict[str, Any]], **more: Any) -> list[str]:
    return [each.kind for each in run_findings(document(*cells, **more))]


def test_drift_over_repeats() -> None:
    falling = repeats(100, 98, 95, 93, 91, 88)
    assert run_kinds(falling) == ["drift"]
    assert "fell by 12 %" in run_findings(document(*falling))[0].message
    assert run_kinds(repeats(100, 93, 101, 95, 99, 96)) == []  # noise
    assert run_kinds(repeats(100, 99.8, 99.6, 99.4, 99.2, 99)) == []  # a drift that changes nothing
    assert run_kinds(falling[:8]) == []  # too few to tell
    assert run_kinds(falling, command="profile") == []  # zones of a disk are no repeats


def test_repeats_that_are_exactly_alike() -> None:
    assert run_kinds(repeats(100, 101, 100)) == ["duplicate"]
    assert "repeats 1 and 3" in run_findings(document(*repeats(100, 101, 100)))[0].message
    assert run_kinds(repeats(100, 101, 102)) == []
    assert run_kinds(repeats(100, 100, ops=("read",))) == []  # one number may meet by chance
    assert run_kinds(repeats(100, 100), protocol="sim") == []


# Files that were there before.


def test_holes_are_not_data(tmp_path: Path) -> None:
    whole, half, empty = (tmp_path / name for name in ("whole", "half", "empty"))
    whole.write_bytes(b"x" * (2 << 20))
    for path in (half, empty):
        with open(path, "wb") as file:
            file.truncate(2 << 20)
    with open(half, "r+b") as file:
        file.write(b"x" * (1 << 20))
    if data_bytes(str(empty), 2 << 20):
        pytest.skip("this file system does not tell holes")
    target = parse_target(str(tmp_path))
    shares = [written_share(target, name, 2 << 20) for name in ("whole", "half", "empty", "missing")]
    assert shares == [1.0, 0.5, 0.0, None]
    assert written_share(target, "empty", 4096) is None
    assert written_share(parse_target("/dev"), "zero", 2 << 20) is None
    assert written_share(parse_target("null:"), "empty", 2 << 20) is None
    read, write = (
        CellSpec("read", 2 << 20, 65536, ["half"]),
        CellSpec("write", 2 << 20, 65536, ["empty"], write_fraction=1),
    )
    doubts = ValidityWatch(document(protocol="local"), target, RunSpec({}, [], folder=None))
    assert [each["kind"] for each in doubts.files([write, read])] == ["unwritten"]
    assert doubts.files([read]) == []  # told once
    assert ValidityWatch(document(protocol="local"), target, RunSpec({}, [], folder="own")).files([read]) == []


# In a run.


@pytest.mark.parametrize("url", ["null:", "sim:?link_bytes_per_s=100MB"])
def test_a_run_keeps_what_was_found(url: str, tmp_path: Path) -> None:
    cells = [CellSpec("write", 1 << 20, 65536, ["f"], write_fraction=1.0, create="if_missing", data=DataSpec("fill"))]
    spec = RunSpec({}, cells, folder="")
    run = execute(spec, target=parse_target(url), store=Store(tmp_path / "s.sqlite"))
    found = run.document["validity"]
    assert [each["kind"] for each in found] == ["compressible", "dedupable"] and found[0]["cells"] == [0]
    assert [each["kind"] for each in run.cells[0]["warnings"]] == ["compressible", "dedupable"]
    assert ("during" in run.document["environment"]) is (url == "null:")
    import jsonschema

    jsonschema.Draft202012Validator(schema.json_schema(strict=True)).validate(json.loads(run.to_json()))


def test_cells_are_named_in_few_words() -> None:
    assert cells_words([3]) == "one cell was" and cells_words([4, 3, 3]) == "2 cells were"
    assert Finding("drift", "words").entry()["cells"] == []
