"""A run that is interrupted between two of its steps has an end, and what was measured of it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures_run import make_run
from naslab import cli
from naslab.errors import INTERRUPTED
from naslab.execution.execute import Execution
from naslab.results.store import Store
from naslab.results.store.store import end_interrupted

SWEEP = ("sweep", "null:", "--file-size", "64k", "--record", "64k", "--tests", "read", "--quiet")


def interrupt_after(real: Any) -> Any:
    def interrupted(*words: Any, **more: Any) -> Any:
        real(*words, **more)
        raise KeyboardInterrupt

    return interrupted


def only_run(path: Path) -> Any:
    with Store(path) as store:
        (summary,) = store.list_runs()
        row = store.rows("SELECT status, owner FROM runs")
        assert [tuple(each) for each in row] == [(summary.status, None)]
        return store.load(summary.run_id)


@pytest.mark.parametrize(
    ("owner", "name", "cells"),
    [(Store, "create_run", 0), (Store, "add_cell", 1), (Execution, "close", 2), (Execution, "explain_cells", 2)],
)
def test_a_run_interrupted_between_its_steps_is_ended(
    owner: Any, name: str, cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.sqlite"
    monkeypatch.setenv("NASLAB_STORE", str(path))
    with monkeypatch.context() as changed:
        changed.setattr(owner, name, interrupt_after(getattr(owner, name)))
        assert cli.main(list(SWEEP)) == INTERRUPTED
    run = only_run(path)
    assert (run.document["status"], len(run.cells)) == ("partial", cells)
    assert "interrupted" in [found["kind"] for found in run.document["warnings"]]


@pytest.mark.parametrize(
    "words", [("iozone", "-s", "64k", "-r", "64k", "-i", "0"), ("diskspd", "-d1", "-W0", "-c64K", "-b64K", "t.dat")]
)
def test_front_ends_of_other_tools_too(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NASLAB_STORE", str(tmp_path / "runs.sqlite"))
    monkeypatch.setattr(Store, "create_run", interrupt_after(Store.create_run))
    assert cli.main(list(words)) == INTERRUPTED
    assert only_run(tmp_path / "runs.sqlite").document["status"] == "partial"


def test_a_resumed_run_interrupted_before_it_goes_on_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.sqlite"
    monkeypatch.setenv("NASLAB_STORE", str(path))
    assert cli.main([*SWEEP, "--repeat", "2"]) == 0
    with Store(path) as store:
        run_id = store.load("last").run_id
        store.update_cell(run_id, 1, status="failed")
    with monkeypatch.context() as changed:
        changed.setattr(Store, "reopen_run", interrupt_after(Store.reopen_run))
        assert cli.main(["sweep", "--resume", "last"]) == INTERRUPTED
    assert only_run(path).document["status"] == "partial"
    assert cli.main(["sweep", "--resume", "last", "--quiet"]) == 0
    assert only_run(path).document["status"] == "complete"


def test_runs_of_others_and_stores_that_are_gone_are_left_alone(tmp_path: Path) -> None:
    document = make_run(status="running", ops=("read",), file_sizes=(1 << 20,)).document
    for name in ("gone", "taken"):
        with Store(tmp_path / name) as store:
            store.create_run({**document, "run_id": f"20260101-000000-{name[:4]}"})
    (tmp_path / "gone").unlink()
    with Store(tmp_path / "taken") as store, store.write() as db:
        db.execute("""UPDATE runs SET owner = '{"pid": 1, "host": "elsewhere"}'""")
    end_interrupted()
    assert not (tmp_path / "gone").exists()
    with Store(tmp_path / "taken") as store:
        assert [tuple(row) for row in store.rows("SELECT status FROM runs")] == [("running",)]


def test_an_interruption_inside_the_store_s_own_steps_leaves_it_usable(tmp_path: Path) -> None:
    """Between the begin of a transaction and its first statement there was nobody to take it back."""
    document = make_run(status="running", ops=("read",), file_sizes=(1 << 20,)).document
    with Store(tmp_path / "store") as store:
        store.create_run(document)
        with store.write() as db:
            pass
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM runs")
        assert store.load_id(document["run_id"]).run_id == document["run_id"]
        db.execute("BEGIN IMMEDIATE")
        store.add_warning(document["run_id"], "interrupted", "so it was")
        store.finish_run(document["run_id"], "partial")
        assert store.load("last").document["status"] == "partial"
