"""Scripts through the engine: order, waiting, pace, failures, damage, and that nothing is left behind."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from naslab.errors import NaslabError, UsageError
from naslab.execution.execute import execute
from naslab.results import Run
from naslab.results.store import Store
from naslab.spec import CellSpec, RunSpec, ScriptSpec
from naslab.spec import script as steps
from naslab.spec.script import ScriptWriter
from naslab.targets import parse_target

SIM = "sim:?link_bytes_per_s=100MB&latency_ns=1ms"
CarryOut = Callable[..., Run]
NEW = steps.FLAG_READ | steps.FLAG_WRITE | steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE


@pytest.fixture
def writer() -> Iterator[ScriptWriter]:
    with ScriptWriter() as made:
        yield made


@pytest.fixture
def carry_out(tmp_path: Path) -> CarryOut:
    """Carries a script out on a target; the run."""

    def go(made: ScriptWriter | Path, target: str = SIM, streams: int = 1, **options: Any) -> Run:
        path = made if isinstance(made, Path) else tmp_path / "made.script"
        if not isinstance(made, Path):
            made.save(path)
            streams = len(made.streams)
        spec = ScriptSpec(str(path), **options)
        cell = CellSpec("mixed", 1 << 20, 4096, [], workers=streams, script=spec, interval_ns=10**8, record_ops=True)
        parsed = parse_target(target)
        run = RunSpec(parsed.engine_spec(), [cell], folder="")
        return execute(run, target=parsed, store=Store(tmp_path / "store.sqlite"))

    return go


def counts(run: Run) -> dict[str, int]:
    return {kind: found["ops"] for kind, found in run.cells[0]["kinds"].items()}


def make_file(stream: steps.ScriptStream, path: str, blocks: int = 4) -> None:
    handle = stream.open(path, NEW)
    for at in range(blocks):
        stream.write(handle, at * 4096, 4096)
    stream.close(handle)


@pytest.mark.parametrize("target", [SIM, "folder", "folder?engine=uring"])
def test_every_kind_of_step(target: str, carry_out: CarryOut, writer: ScriptWriter, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    one = writer.stream()
    one.on_path(steps.MKDIR, "dir")
    make_file(one, "dir/a")
    handle = one.open("dir/a", steps.FLAG_READ | steps.FLAG_WRITE)
    one.read(handle, 0, 4096)
    one.truncate(handle, 100)
    one.flush(handle)
    one.close(handle)
    one.on_path(steps.STAT, "dir/a")
    one.on_path(steps.READDIR, "dir")
    one.rename("dir/a", "dir/b")
    one.on_path(steps.REMOVE, "dir/b")
    one.on_path(steps.RMDIR, "dir")
    run = carry_out(writer, target if target == SIM else f"{tmp_path}/{target}")
    assert run.cells[0]["status"] == "complete", run.cells[0]["first_error"]
    assert counts(run) == {
        "mkdir": 1, "create": 1, "write": 4, "close": 2, "open": 1, "read": 1, "truncate": 1, "flush": 1, "stat": 1,
        "readdir": 1, "rename": 1, "remove": 1, "rmdir": 1,
    }  # fmt: skip
    assert run.cells[0]["bytes"] == 5 * 4096 and list(folder.iterdir()) == []


def test_what_is_left_open_and_lying_about_is_removed(
    carry_out: CarryOut, writer: ScriptWriter, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    one = writer.stream()
    for name in ("a", "a/b", "a/b/c"):
        one.on_path(steps.MKDIR, name)
        make_file(one, f"{name}/file")
    one.write(one.open("open", NEW), 0, 4096)
    run = carry_out(writer, str(tmp_path / "folder"))
    assert run.cells[0]["status"] == "complete"
    assert "left_behind" not in [found["kind"] for found in run.document["warnings"]]
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_stream_waits_for_another(carry_out: CarryOut, writer: ScriptWriter) -> None:
    one, two = writer.stream(), writer.stream()
    make_file(one, "shared", blocks=50)
    two.after(one)
    handle = two.open("shared")
    two.read(handle, 0, 4096)
    one.after(two)
    one.on_path(steps.REMOVE, "shared")
    run = carry_out(writer)
    assert run.cells[0]["status"] == "complete" and counts(run)["read"] == 1
    # 53 steps, the other's two, and one more, each at least the round trip of 1 ms.
    assert run.cells[0]["window_ns"] >= 55e6
    assert run.cells[0]["duration_ns"] == run.cells[0]["window_ns"], "waiting for another stream is no pause"


def test_order_without_waiting_for_the_end(carry_out: CarryOut, writer: ScriptWriter) -> None:
    one, two = writer.stream(), writer.stream()
    handles = [stream.open(name, NEW) for stream, name in ((one, "a"), (two, "b"))]
    for at in range(50):
        one.after(two, started=True)
        one.write(handles[0], at * 4096, 4096)
        two.after(one, started=True)
        two.write(handles[1], at * 4096, 4096)
    run = carry_out(writer)
    # Both are under way at the same time: 51 round trips, not 102.
    assert run.cells[0]["status"] == "complete" and run.cells[0]["window_ns"] < 70e6
    log = run.step_log(0)
    assert [list(log["step"][log["worker"] == worker]) for worker in (0, 1)] == [list(range(51))] * 2
    order = log[np.lexsort((log["worker"], log["start_ns"]))]
    writes = order[order["step"] > 0]
    assert list(writes["worker"][:6]) == [0, 1, 0, 1, 0, 1] and (log["latency_ns"] > 1_000_000).all()


def test_streams_run_side_by_side(carry_out: CarryOut, writer: ScriptWriter) -> None:
    for number in range(4):
        make_file(writer.stream(), f"file{number}", blocks=100)
    run = carry_out(writer)
    # One alone needs 102 round trips; four share nothing but the link, where 4 KiB take 42 us.
    assert 102e6 < run.cells[0]["window_ns"] < 1.3 * 102e6


def test_recorded_pace_counts_from_the_due_time(carry_out: CarryOut, writer: ScriptWriter) -> None:
    one = writer.stream()
    handle = one.open("film", NEW)
    for at in range(10):
        one.write(handle, at * 4096, 4096, due_ns=(1 + at) * 100_000_000)
    slow = 2_000_000
    one.write(handle, 0, 4096, due_ns=1_000_000_000)
    run = carry_out(writer, recorded_pace=True, deadline_ns=slow)
    (cell,) = run.cells
    assert cell["window_ns"] == pytest.approx(1.002e9, rel=0.01) and cell["latency_clock"] == "response"
    assert cell["missed_starts"] == 0
    quick = carry_out(writer)
    assert quick.cells[0]["window_ns"] < 2e7


def test_missed_deadlines_are_counted(carry_out: CarryOut, writer: ScriptWriter) -> None:
    one = writer.stream()
    handle = one.open("film", NEW)
    for at in range(100):
        one.write(handle, at * (1 << 20), 1 << 20, due_ns=at * 1_000_000)  # needs 11.5 ms each
    run = carry_out(writer, recorded_pace=True, deadline_ns=50_000_000)
    # Number n starts at 11.5 n ms for 1 n ms: late by 50 ms from the fifth on.
    assert run.cells[0]["missed_starts"] == pytest.approx(95, abs=2)


def test_failures_are_counted_and_expected_ones_are_not(carry_out: CarryOut, writer: ScriptWriter) -> None:
    one = writer.stream()
    one.on_path(steps.STAT, "missing", flags=steps.FLAG_FAILS)
    run = carry_out(writer)
    assert run.cells[0]["status"] == "complete" and run.cells[0]["errors"] == 0
    one.on_path(steps.STAT, "missing")
    handle = one.open("missing too")
    one.read(handle, 0, 4096)
    one.on_path(steps.MKDIR, "dir")
    run = carry_out(writer)
    (cell,) = run.cells
    assert cell["status"] == "failed" and cell["errors"] == 3 and counts(run)["mkdir"] == 1
    assert "missing" in cell["first_error"]


@pytest.mark.parametrize("target", [SIM, "folder", "folder?engine=uring"])
def test_reading_to_the_end_is_no_failure(
    target: str, carry_out: CarryOut, writer: ScriptWriter, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    one = writer.stream()
    make_file(one, "file", blocks=3)
    handle = one.open("file")
    for offset, length in ((0, 65536), (3 * 4096, 65536)):
        one.read(handle, offset, length)
    run = carry_out(writer, target if target == SIM else f"{tmp_path}/{target}")
    (cell,) = run.cells
    assert cell["status"] == "complete" and counts(run)["read"] == 2 and cell["kinds"]["read"]["bytes"] == 3 * 4096


@pytest.mark.parametrize("path", ["../up", "/root", "a//b", "a/../b", "nul\0"])
def test_paths_stay_inside(path: str, writer: ScriptWriter) -> None:
    with pytest.raises(UsageError, match="plain relative path"):
        writer.stream().open(path)


def test_a_stream_does_not_wait_for_itself(writer: ScriptWriter) -> None:
    one = writer.stream()
    with pytest.raises(UsageError, match="itself"):
        one.after(one)
    with pytest.raises(UsageError, match="64 MiB"):
        one.read(0, 0, 1 << 30)


def test_damaged_scripts_are_refused(carry_out: CarryOut, writer: ScriptWriter, tmp_path: Path) -> None:
    make_file(writer.stream(), "file")
    path = tmp_path / "good.script"
    writer.save(path)
    good = path.read_bytes()
    bad = tmp_path / "bad.script"

    def refused(data: bytes, words: str) -> None:
        bad.write_bytes(data)
        with pytest.raises(NaslabError, match=words):
            carry_out(bad)

    refused(b"", "not a naslab script")
    refused(good[:40], "ends within its head")
    refused(good[:-3], "ends within path 0")
    refused(good[:8] + struct.pack("<I", 60_000) + good[12:], "ends within its head")
    refused(good[:-4] + b"/../", "plain relative path")
    kind = good[:64] + b"\x63" + good[65:]
    bad.write_bytes(kind)
    run = carry_out(bad)
    assert run.cells[0]["status"] == "failed" and "unknown kind 99" in run.cells[0]["first_error"]
    with pytest.raises(NaslabError, match="has 1 streams for 2 workers"):
        carry_out(path, streams=2)
