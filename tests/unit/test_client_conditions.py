"""What kept a client from its processors: the limit, what cells say of it, and what is told then."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from naslab import _engine
from naslab.analysis.saturation import cpu_limit
from naslab.analysis.validity import cell_findings
from naslab.client import limit
from naslab.execution.clients.conditions import merge_conditions
from naslab.results.document import cell_document
from naslab.results.parts.cell import CellDocument
from naslab.results.parts.client import CellClient
from naslab.results.shape import fault
from naslab.spec import CellSpec, RunSpec

SECOND = 1_000_000_000
V1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
V2 = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
ONE, TWO = "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/unified"


def v1(quota: str, period: str = "100000", group: str = "box") -> dict[str, str]:
    return {f"{ONE}/{group}/cpu.cfs_quota_us": quota, f"{ONE}/{group}/cpu.cfs_period_us": period}


@pytest.mark.parametrize(
    ("own", "mounts", "files", "wanted"),
    [
        ("1:cpu,cpuacct:/box", V1, v1("15000"), 0.15),
        ("1:cpu,cpuacct:/box", V1, v1("-1"), None),
        ("0::/box", V2, {f"{TWO}/box/cpu.max": "15000 100000\n"}, 0.15),
        ("0::/box", V2, {f"{TWO}/box/cpu.max": "max 100000\n"}, None),
        ("0::/a/b", V2, {f"{TWO}/a/b/cpu.max": "300000 100000", f"{TWO}/a/cpu.max": "50000 100000"}, 0.5),
        ("1:cpu,cpuacct:/box\n0::/box", f"{V1}\n{V2}", {**v1("25000"), f"{TWO}/box/cgroup.procs": ""}, 0.25),
        ("0::/box", V2, {}, None),
        ("", "", {}, None),
    ],
    ids=["v1", "v1 unlimited", "v2", "v2 unlimited", "lower in the parent", "hybrid", "no controller", "no groups"],
)  # fmt: skip
def test_the_quota_of_control_groups(
    tmp_path: Path, own: str, mounts: str, files: dict[str, str], wanted: float | None
) -> None:
    for name, text in {"proc/self/cgroup": own, "proc/self/mountinfo": mounts, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert limit.quota_cores(str(tmp_path)) == wanted


@pytest.mark.parametrize(
    ("quota", "usable", "cores", "threads"), [(None, 4, 4.0, 4), (0.15, 4, 0.15, 1), (2.5, 4, 2.5, 3), (9.0, 4, 4.0, 4)]
)
def test_the_lower_of_affinity_and_quota_is_the_limit(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, usable: int, cores: float, threads: int
) -> None:
    monkeypatch.setattr(limit, "quota_cores", lambda: quota)
    monkeypatch.setattr(limit, "usable_cores", lambda: usable)
    assert (limit.cpu_limit_cores(), limit.processors()) == (cores, threads)


# Cells.

NOTHING = dict.fromkeys(CellClient.__struct_fields__)


def measured(protocol: str) -> dict[str, Any]:
    """A cell of the engine, as it becomes part of a document."""
    cell = CellSpec("random_write", 1 << 20, 4096, ["a", "b"], workers=2, pattern="random", write_fraction=1.0)
    cell.create, cell.duration_ns = "if_missing", 20_000_000
    found: list[dict[str, Any]] = []

    def heard(kind: str, text: str, _blobs: list[bytes]) -> None:
        if kind == "cell":
            found.append(json.loads(text))

    spec = RunSpec({"protocol": protocol, "options": {}}, [], run_id="r", folder="naslab-r")
    run = _engine.open_run(spec.to_json(), "{}", 1)
    try:
        run.stage(json.dumps([dataclasses.asdict(cell)]), heard)
    finally:
        run.finish()
    return dict(cell_document(dataclasses.asdict(cell), found[0]))


def test_a_cell_says_what_its_client_was_allowed_and_how_busy_a_worker_was() -> None:
    cell = measured("null")
    assert fault(cell, CellDocument) is None
    assert cell["client"].keys() == NOTHING.keys()
    assert cell["client"]["cpu_limit_cores"] == limit.cpu_limit_cores()
    assert 0 < cell["client"]["busiest_worker_fraction"] <= 1
    assert cell["client"]["busiest_core_fraction"] is None  # too short for ticks


def test_a_simulated_client_has_no_such_figures_and_an_old_cell_may_do_without() -> None:
    cell = measured("sim")
    assert cell["client"] == NOTHING and fault(cell, CellDocument) is None
    del cell["client"]
    assert fault(cell, CellDocument) is None


# Findings.


def doubted(protocol: str = "smb", **more: Any) -> list[tuple[str, str]]:
    cell = {
        "id": 0, "workers": 4, "queue_depth": 1, "record_bytes": 65536, "ops": 1000, "iops": 1000.0, "bytes": 10**7,
        "errors": 0, "duration_ns": SECOND, "window_ns": SECOND, "warmup_ops": 0, "status": "complete", "kinds": {},
        "cpu_user_ns": SECOND // 10, "cpu_system_ns": 0, "generation_cpu_ns": 0, "verify_cpu_ns": 0, "regime": None,
        "first_error": None, **more, "client": {**NOTHING, **more.get("client", {})},
    }  # fmt: skip
    environment = {"client": {"cpus_usable": 64}, "target": {}}
    document = {"command": "run", "target": {"protocol": protocol}, "environment": environment, "cells": [cell]}
    return [(each.kind, each.message) for each in cell_findings(cell, document)]


def test_the_quota_is_the_limit_not_the_number_of_processors() -> None:
    assert doubted() == []
    ((kind, told),) = doubted(client={"cpu_limit_cores": 0.11})
    assert kind == "client_saturated" and "0.10 of its 0.11 processors" in told


def test_the_environments_limit_stands_where_a_cell_says_nothing() -> None:
    about: dict[str, Any] = {"environment": {"client": {"cpus_usable": 64, "cpu_limit_cores": 1.5}}}
    assert cpu_limit({"client": {"cpu_limit_cores": 0.5}}, about) == 0.5
    assert cpu_limit({}, about) == 1.5
    assert cpu_limit({}, {"environment": {"client": {"cpus_usable": 64}}}) == 64
    assert cpu_limit({}, {"environment": {}}) == 1


@pytest.mark.parametrize("protocol", ["smb", "null"])
def test_a_client_that_was_throttled(protocol: str) -> None:
    assert doubted(protocol, client={"cpu_limit_cores": 4.0, "throttled_fraction": 0.04}) == []
    ((kind, told),) = doubted(protocol, client={"cpu_limit_cores": 4.0, "throttled_fraction": 0.76})
    assert kind == "client_throttled" and "for 76 % of the time" in told and "4 processors" in told


@pytest.mark.parametrize(
    ("more", "told"),
    [({}, True), ({"offered_per_s": 10.0}, False), ({"regime": "client_cache"}, False), ({"duration_ns": 1}, False)],
)
def test_one_busy_thread_is_a_limit_on_any_number_of_processors(more: dict[str, Any], told: bool) -> None:
    busy = {"cpu_limit_cores": 64.0, "busiest_worker_fraction": 0.97}
    found = doubted(client=busy, **more)
    assert [kind for kind, _ in found] == ["client_saturated"] * told
    assert not told or "one thread of the client was always busy" in found[0][1]
    assert doubted(client={**busy, "busiest_worker_fraction": 0.94}) == []


# Many clients.


def part(cpu: int, **client: float) -> dict[str, Any]:
    return {"cpu_user_ns": cpu, "cpu_system_ns": 0, "window_ns": SECOND, "client": {**NOTHING, **client}}


def test_the_worst_share_counts_and_hosts_add_up() -> None:
    here = part(SECOND, cpu_limit_cores=4.0, others_cores=2.5, busiest_worker_fraction=0.5)
    beside = part(2 * SECOND, cpu_limit_cores=4.0, others_cores=1.5, busiest_worker_fraction=0.9)
    away = part(SECOND, cpu_limit_cores=0.5, others_cores=0.25, throttled_fraction=0.3)
    found = merge_conditions([here, beside, away], ["a", "a", "b"])
    # On host a all 3.5 processors in use are those of the two clients but for half a one.
    wanted = {"cpu_limit_cores": 4.5, "others_cores": 0.75, "busiest_worker_fraction": 0.9, "throttled_fraction": 0.3}
    assert found == {**NOTHING, **wanted}


def test_clients_that_say_nothing_leave_nothing() -> None:
    bare = {"cpu_user_ns": 0, "cpu_system_ns": 0, "window_ns": 0}
    assert merge_conditions([bare, bare], ["a", "b"]) is None
    half = merge_conditions([part(0, cpu_limit_cores=2.0, steal_fraction=0.1), bare], ["a", "b"])
    assert half == {**NOTHING, "steal_fraction": 0.1}
