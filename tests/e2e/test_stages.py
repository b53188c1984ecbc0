"""Stages of one run: files and target live over them, one may end early, and the folder goes in every case."""

from __future__ import annotations

import gc
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import shares
from cli_tools import HANG_S, SIM, Cli, populate, snapshot, wait_until
from naslab import _engine
from naslab.errors import SpecError, UsageError
from naslab.execution import workspace
from naslab.execution.execute import Execution, Hooks, start
from naslab.results.store import Store
from naslab.results.store.process import owner
from naslab.spec import CellSpec, RunSpec
from naslab.targets import parse_target

SIZE, RECORD = 1 << 20, 4096
CURVE = ("--size", "4m", "--block", "64k", "--max-rate", "60", "--start", "30", "--step-duration", "1s")


def write(cell_id: int) -> CellSpec:
    return CellSpec(
        "write", SIZE, RECORD, ["naslab.a"], id=cell_id, write_fraction=1.0, create="if_missing", verify=True,
    )  # fmt: skip


def read(cell_id: int, **more: Any) -> CellSpec:
    return CellSpec("read", SIZE, RECORD, ["naslab.a"], id=cell_id, verify=True, **more)


def begun(folder: Path, target: str, hooks: Hooks | None = None) -> Execution:
    spec = RunSpec({}, [write(0)], command="sweep", folder="", cleanup_files=["naslab.a"])
    return start(spec, parse_target(target), Store(folder / "store.sqlite"), hooks=hooks)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_files_live_over_the_stages(tmp_path: Path, target: Path) -> None:
    execution = begun(tmp_path, str(target))
    assert execution.stage([write(0)]) == []
    folder = target / f"naslab-{execution.run_id}"
    assert sorted(p.name for p in folder.iterdir()) == ["naslab-owner.json", "naslab.a"]
    execution.stage([read(1)])
    assert execution.cells[-1]["verified"] == {"blocks": SIZE // RECORD, "bad": 0, "first_bad": None}
    run = execution.finish()
    assert run.document["status"] == "complete" and list(target.iterdir()) == []


def test_a_simulated_server_goes_on_where_it_was(tmp_path: Path) -> None:
    """The clock and what was written stay; after `close` the server is new."""
    execution = begun(tmp_path, f"{SIM}&store_data=true")
    for cell in (write(0), read(1)):
        execution.stage([cell])
    first, second = execution.cells
    assert second["start_ns"] >= first["end_ns"] > 0
    execution.close()
    execution.stage([write(2)])
    assert execution.cells[-1]["start_ns"] == first["start_ns"]
    assert execution.finish().document["status"] == "complete"


def test_enough_ends_a_stage_and_names_what_was_left_out(tmp_path: Path, target: Path) -> None:
    execution = begun(tmp_path, str(target))
    cells = [write(0), read(1), read(2)]
    assert execution.stage(cells, enough=lambda cell_id: cell_id == 1) == cells[1:]
    assert execution.status == "complete" and [cell["id"] for cell in execution.cells] == [0]
    assert execution.stage([read(3)]) == [] and execution.finish().document["status"] == "complete"
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("stage", [1, 2])
def test_what_a_listener_raises_ends_the_run_and_its_folder(stage: int, tmp_path: Path, target: Path) -> None:
    class Odd(Exception):
        """A defect of the caller."""

    def on_cell(cell: dict[str, Any]) -> None:
        if cell["id"] == stage:
            raise Odd

    execution = begun(tmp_path, str(target), Hooks(on_cell=on_cell))
    execution.stage([write(0)])
    with pytest.raises(Odd):
        for cell_id in (1, 2):
            execution.stage([read(cell_id)])
    assert execution.status == "failed" and list(target.iterdir()) == []
    assert [cell["id"] for cell in execution.cells] == list(range(stage + 1))


def test_a_refused_later_stage_keeps_what_was_measured(tmp_path: Path, target: Path) -> None:
    execution = begun(tmp_path, str(target))
    execution.stage([write(0)])
    with pytest.raises(UsageError, match="one lock"):
        execution.stage([read(1, workers=2, write_fraction=0.5, lock="file")])
    assert [cell["id"] for cell in execution.finish().cells] == [0] and list(target.iterdir()) == []


def opened(target: Path, depth: int = 1) -> _engine.Run:
    engine_spec = parse_target(str(target)).engine_spec()
    spec = RunSpec(engine_spec, [], run_id="r1", command="sweep", folder="naslab-r1")
    return _engine.open_run(spec.to_json(), '{"naslab_run": "r1"}', depth)


def cells_json(cell: CellSpec) -> str:
    return json.dumps(json.loads(RunSpec({}, [cell]).to_json())["cells"])


def test_a_run_that_nobody_holds_cleans_up(target: Path) -> None:
    run = opened(target)
    run.stage(cells_json(write(0)), lambda *_: None)
    assert [path.name for path in target.iterdir()] == ["naslab-r1"]
    del run
    gc.collect()
    assert list(target.iterdir()) == []


def test_misuse_is_refused(target: Path) -> None:
    run = opened(target)
    with pytest.raises(SpecError, match="depth 2, the run was opened for 1"):
        run.stage(cells_json(read(0, queue_depth=2)), lambda *_: None)
    with pytest.raises(SpecError, match="under way"):
        run.stage(cells_json(write(0)), lambda *_: run.finish())
    assert run.finish() == run.finish() == "[]"
    with pytest.raises(UsageError, match="the run has ended"):
        run.stage(cells_json(write(0)), lambda *_: None)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("number", shares.first(1, [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], pytest.mark.lab))
def test_signals_in_a_later_stage(number: int, cli: Cli) -> None:
    """The curve's second stage: an interruption keeps the loads measured, kill -9 leaves what `clean` removes."""
    before = populate(cli.target)
    child = cli.start("curve", cli.target, *CURVE)
    wait_until(lambda: cli.cells_stored() >= 5, child, "two loads")
    child.send_signal(number)
    out, err = child.communicate(timeout=HANG_S)
    run = cli.runs()[0]
    if number == signal.SIGKILL:
        assert snapshot(cli.target) != before
        cleaned = cli("clean", cli.target, "--json").ok().json()
        assert cleaned["removed"] == [f"naslab-{run['run_id']}"]
    else:
        assert child.returncode == 130 and "Traceback" not in out + err
        assert "interrupted" in {w["kind"] for w in run["warnings"]} and run["curve"]["steps"]
    assert snapshot(cli.target) == before and run["status"] == "partial"


def test_the_mark_of_a_folder_is_as_long_for_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write of it takes a simulated server 8 ns a byte: the same seed gave other digits from process 10000 on."""
    found = owner()
    marks = []
    for pid, start_time in ((7, "1"), (9999, "99999"), (10000, "100000"), (4194304, "12345678901234"), (5, None)):
        monkeypatch.setattr(
            workspace, "owner", lambda own=(pid, start_time): {**found, "pid": own[0], "start_time": own[1]}
        )
        marks.append(workspace.owner_mark("r1"))
        assert json.loads(marks[-1])["pid"] == pid
    assert len({len(mark) for mark in marks[:4]}) == 1
