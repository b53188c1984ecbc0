"""What a kernel's client costs: the split from hand-made cells, the plan, and ways that do not lead in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from naslab.cli import both_ways
from naslab.cli.common import Common, Load
from naslab.commands.plans import both_ways as plans
from naslab.comparison.judgement import compare
from naslab.comparison.split import GIB, sentences, split
from naslab.errors import TargetError, UsageError
from naslab.results.describe import plain
from naslab.results.parts.split import ClientSplit
from naslab.targets import Target
from naslab.targets.mounted import behind

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.008, 0.992)


def cells(rate: float, op: str = "read", depth: int = 8, record: int = 1 << 20, **more: Any) -> list[dict[str, Any]]:
    """Cells of eight blocks, each of 1 GiB with 0.2 s of processor time."""
    return [
        {
            "id": block, "workload": plans.WORKLOAD, "op": op, "record_bytes": record, "queue_depth": depth,
            "block": block, "status": "complete", "errors": 0, "bytes": GIB, "warmup_bytes": 0,
            "throughput_bytes_per_s": rate * noise, "latency_ns": {"mean": int(depth * record / rate * 1e9)},
            "cpu_user_ns": 50_000_000, "cpu_system_ns": 150_000_000, **more,
        }
        for block, noise in enumerate(NOISE)
    ]  # fmt: skip


def test_the_kernels_share_of_large_reads() -> None:
    """100 against 114 MB/s: the kernel's client costs 12 %, and its threads 0.8 s of each GiB."""
    busy = (dict.fromkeys(range(8), 1_000_000_000), dict.fromkeys(range(8), 400_000_000))
    (found,) = split(cells(100e6), cells(100e6 / 0.88), busy)
    assert found.ratio == pytest.approx(0.88) and found.verdict == "worse" and found.different
    assert found.ci95[0] <= 0.88 <= found.ci95[1] and found.n == 8
    assert [side.process_cpu_ns_per_gib for side in (found.mount, found.own)] == [200_000_000] * 2
    assert [side.machine_cpu_ns_per_gib for side in (found.mount, found.own)] == [1_000_000_000, 400_000_000]
    (said,) = sentences([found])
    assert said.startswith("The kernel's client costs 12.0 % of large reads (1 MiB, 8 at a time)")
    assert "the rest is the server and the link" in said and "100 MB/s through the mount" in said


@pytest.mark.parametrize(
    ("mount", "own", "said"),
    [
        (100e6, 100.5e6, "equal within 5 %"),
        (110e6, 100e6, "has no cost for small writes (4 KiB, one at a time): it is 10.0 %"),
    ],
)
def test_words_where_nothing_is_lost(mount: float, own: float, said: str) -> None:
    found = split(cells(mount, "random_write", 1, 4096), cells(own, "random_write", 1, 4096), ({}, {}))
    assert said in sentences(found)[0] and found[0].mount.machine_cpu_ns_per_gib is None


def test_time_of_one_small_operation() -> None:
    found = split(cells(10e6, "random_read", 1, 4096), cells(20e6, "random_read", 1, 4096), ({}, {}))
    assert sentences(found)[1] == "One at a time, 205 µs of 410 µs of small reads is spent in the kernel's client."


def test_noise_and_few_blocks_give_no_certainty() -> None:
    wild = cells(100e6)
    for cell, factor in zip(wild, (0.5, 1.6, 0.7, 1.3, 0.6, 1.5, 0.8, 1.2), strict=True):
        cell["throughput_bytes_per_s"] *= factor
    (found,) = split(wild, cells(105e6), ({}, {}))
    assert found.verdict == "undecided" and "may cost up to" in sentences([found])[0]
    (few,) = split(cells(50e6)[:2], cells(100e6), ({}, {}))
    assert few.verdict is None and few.n == 2 and "too few repeats" in sentences([few])[0]


def test_what_failed_or_belongs_to_the_plan_is_left_out() -> None:
    assert split(cells(1e6, errors=1), cells(1e6), ({}, {})) == []
    assert split(cells(1e6, workload="probe"), cells(1e6), ({}, {})) == []
    assert split(cells(1e6, "read"), cells(1e6, "write"), ({}, {})) == []


def test_a_comparison_of_the_two_runs_says_it() -> None:
    """Only of the mount against the very run of naslab's own client that was measured in turns with it."""
    found = split(cells(100e6), cells(100e6 / 0.88), ({}, {}))

    def run(run_id: str, **more: Any) -> dict[str, Any]:
        return {"run_id": run_id, "cells": [], "target": {}, "environment": {}, **more}

    document = plain(ClientSplit(mount={}, own={"run_id": "o"}, not_carried=[], ended="repeats", cells=found))
    mount = run("m", client_split=document)
    assert compare([run("o")], [mount], ("own", "mount")).says == tuple(sentences(found))
    assert compare([run("other")], [mount], ("own", "mount")).says == ()
    assert compare([mount], [run("o")], ("mount", "own")).says == ()


@pytest.mark.parametrize(("budget_ns", "most"), [(120_000_000_000, None), (1, 8 << 20)])
def test_the_plan_fits_budget_bytes_and_room(budget_ns: int, most: int | None) -> None:
    plan = plans.Plan.of(1, (1, 8), budget_ns, most)
    planned = plans.timed(Load().options(0, True), plan, 8 << 20)
    total_ns = 2 * plan.blocks * sum(cell.duration_ns or 0 for cell in planned)
    assert plan.duration_ns == plans.LEAST_CELL_NS or total_ns <= budget_ns
    assert {(cell.op, cell.queue_depth) for cell in planned} == {(op, d) for op, _ in plans.OPS for d in (1, 8)}
    assert all(cell.direct and cell.stop_bytes == plan.stop_bytes for cell in planned)
    assert plans.file_bytes(64 << 20, 1e12, plan, 1) <= 16 << 20 and plans.file_bytes(1 << 40, 1e3, plan, 2) >= 1 << 20
    assert [plans.for_own_client(planned[0], kind).direct for kind in ("nfs", "smb")] == [False, True]


def test_folders_of_this_machine_are_no_mounts(tmp_path: Path) -> None:
    assert [both_ways.mount_behind(str(each)) for each in (tmp_path, tmp_path / "none", "sim:", "null:")] == [None] * 4


class _Options(Common):
    """Common options whose servers answer as told."""

    answer: Exception | None = None

    def target(self, text: str) -> Target:
        if "://" in text and self.answer:
            raise self.answer
        return Target("null:", "null")


LINE = "60 22 0:44 / /mnt/nas rw - nfs4 nas:/export rw,vers=4.2,sec=sys,addr=192.0.2.7\n"


def test_a_server_that_does_not_let_in_leaves_the_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The survey of the mount alone gets the reason; a wrong --credentials is a mistake and ends the command."""
    surveyed: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        "naslab.cli.survey.run_survey",
        lambda text, _load, common, _sweep: surveyed.extend(common.target(text).warnings) or 0,
    )
    found = behind(LINE, "/mnt/nas")
    assert found is not None
    common = _Options("run", None, False, True, 0, {}, "", "30s", None)
    common.answer = TargetError("connect: refused", "connection")
    assert both_ways.run_both_ways(str(tmp_path), found, Load(direct=True), common) == 0
    ((kind, message),) = surveyed
    assert kind == "mount_only" and "connect: refused" in message
    common.credentials, common.answer = Path("x"), UsageError("--credentials x: only smb:// targets log in")
    with pytest.raises(UsageError, match="--credentials x"):
        both_ways.run_both_ways(str(tmp_path), found, Load(direct=True), common)


def test_a_share_is_compared_one_operation_at_a_time(tmp_path: Path) -> None:
    line = "60 22 0:44 / /mnt/nas rw - cifs //nas/data rw,vers=3.1.1,sec=ntlmssp,username=ann,addr=192.0.2.9\n"
    found = behind(line, "/mnt/nas")
    assert found is not None
    common = Common("run", None, False, True, 0, {}, "", "30s", None)
    mount = both_ways._mount(str(tmp_path), found, Load(direct=True), common)
    assert mount.options["engine"] == "posix" and both_ways._Both._most_depth(mount, 8) == 1
    with pytest.raises(UsageError, match="--depth 4: a CIFS mount"):
        both_ways._mount(str(tmp_path), found, Load(depth=4, direct=True), common)


def test_the_meter_counts_the_machines_time() -> None:
    meter = both_ways._Meter()
    meter.before(3)
    before = both_ways._busy_ns()
    while both_ways._busy_ns() < before + 50_000_000:
        pass
    meter.after({"id": 4})
    meter.after({"id": 3})
    assert list(meter.busy_ns) == [3] and meter.busy_ns[3] >= 40_000_000
