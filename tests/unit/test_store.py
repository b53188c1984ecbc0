"""The store: what is saved comes back, what is not ours stays untouched, and killed writers lose nothing saved."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import naslab
from cli_tools import HANG_S
from fixtures_run import RUN_ID, make_parts
from naslab.errors import StoreError, UnknownRunError
from naslab.results import new_document
from naslab.results.store import Store, default_path, migrations, new_run_id

PYTHON_FOLDER = str(Path(naslab.__file__).parent.parent)
BLOB_BYTES = 60_000

WRITER = """
import os, sys
from naslab.results import new_document
from naslab.results.store import Store
path, run_id, cells = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = Store(path)
print("ready", flush=True)
store.create_run(new_document(run_id, "sweep", {"url": "/tmp/x", "protocol": "local"}), {"cells": []})
print("created", flush=True)
for cell in range(cells):
    data = os.urandom(60_000)
    store.add_cell(run_id, {"id": cell, "op": "read", "sum": sum(data)}, {"series": data, "latency:read": data[::-1]})
    print(cell, flush=True)
store.finish_run(run_id, "complete")
print("finished", flush=True)
"""


def start_writer(path: Path, run_id: str, cells: int = 10_000) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), run_id, str(cells)]
    environment = {**os.environ, "PYTHONPATH": PYTHON_FOLDER}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def read_until(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"the writer ended before {word!r}")


def assert_sound(path: Path) -> None:
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


def cell(cell_id: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": cell_id, "op": "read", **more}


def begun(run_id: str = "20261120-184000-aaaa", **options: Any) -> dict[str, Any]:
    target = {"url": options.pop("url", "/srv/data"), "protocol": "local"}
    return dict(new_document(run_id, "sweep", target, **options))


# what is saved comes back


def test_a_run_comes_back_whole(store: Store) -> None:
    document, blobs, spec = make_parts(ops=("read", "mixed"), file_sizes=(1 << 20,), op_log=True)
    store.create_run({**document, "status": "running", "cells": [], "warnings": []}, spec)
    for found in document["cells"]:
        store.add_cell(RUN_ID, found, blobs[found["id"]])
    for found in document["warnings"]:
        store.add_warning(RUN_ID, **found)
    assert store.load(RUN_ID).document["status"] == "running"
    ended = {name: document[name] for name in ("end_wall_ns", "finished_at")}
    store.finish_run(RUN_ID, "complete", **ended)
    run = Store(store.path).load(RUN_ID)
    assert run.document == document
    assert all(run.blob(c, name) == data for c in blobs for name, data in blobs[c].items())
    assert all(run.blob_names(c) == sorted(blobs[c]) for c in blobs)
    spec_back = store.spec(RUN_ID)
    assert spec_back is not None
    assert spec_back["cells"][0]["op"] == "read"
    assert naslab.load(RUN_ID, str(store.path)).document == document


def test_save_is_the_same_at_once_and_refuses_a_taken_id(store: Store, parts: Any) -> None:
    document, blobs, spec = parts
    store.save(document, blobs, spec)
    assert store.load().document == document
    with pytest.raises(StoreError, match="already holds"):
        store.save(document, blobs, spec)


def test_a_cell_saved_again_is_replaced(store: Store) -> None:
    store.create_run(begun())
    store.add_cell("20261120-184000-aaaa", cell(0, ops=1), {"series": b"old", "op_log": b"x"})
    store.add_cell("20261120-184000-aaaa", cell(1), {})
    store.add_cell("20261120-184000-aaaa", cell(0, ops=2), {"series": b"new"})
    run = store.load("last")
    assert [c["id"] for c in run.cells] == [0, 1]
    assert run.cells[0]["ops"] == 2
    assert run.blob_names(0) == ["series"]
    assert run.blob(0, "series") == b"new"


def test_a_cell_is_saved_whole_or_not_at_all(store: Store) -> None:
    store.create_run(begun())
    with pytest.raises(TypeError):
        store.add_cell("20261120-184000-aaaa", cell(0), {"series": b"ok", "op_log": object()})  # type: ignore[dict-item]
    with pytest.raises(StoreError, match="JSON"):
        store.add_cell("20261120-184000-aaaa", cell(1, iops=float("nan")), {})
    assert store.load("last").cells == []


def test_updates(store: Store) -> None:
    store.create_run(begun())
    store.add_cell("20261120-184000-aaaa", cell(0))
    store.update_run("20261120-184000-aaaa", verdict={"limits": [1]}, label="after")
    store.update_cell("20261120-184000-aaaa", 0, regime="link")
    store.add_warning("20261120-184000-aaaa", "client_cache", "too fast", 0)
    document = store.load("last").document
    assert document["verdict"] == {"limits": [1]}
    assert document["cells"][0]["regime"] == "link"
    assert document["warnings"] == [{"kind": "client_cache", "message": "too fast", "cell": 0}]
    assert store.list_runs(label="AFTER")[0].label == "after"
    with pytest.raises(StoreError, match="cells"):
        store.update_run("20261120-184000-aaaa", cells=[])
    with pytest.raises(UnknownRunError):
        store.update_cell("20261120-184000-aaaa", 9, regime="link")


def test_delete_takes_cells_and_raw_data(store: Store, parts: Any) -> None:
    store.save(*parts)
    store.delete_run(RUN_ID)
    assert store.list_runs() == []
    with sqlite3.connect(store.path) as db:
        assert [db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("cells", "blobs", "warnings")] == [
            0
        ] * 3
    db.close()
    with pytest.raises(UnknownRunError):
        store.delete_run(RUN_ID)


# naming runs


def test_references(store: Store) -> None:
    ids = ["20261119-100000-aaaa", "20261120-100000-aaaa", "20261120-100001-bbbb"]
    for at, run_id in enumerate(ids):
        store.save({**begun(run_id, start_wall_ns=10**18 + at), "status": "complete"})
    assert store.resolve("last") == ids[2]
    assert store.resolve(ids[0]) == ids[0]
    assert store.resolve("20261119") == ids[0]
    with pytest.raises(UnknownRunError, match=r"2 runs.*bbbb, .*-aaaa"):
        store.resolve("20261120")
    with pytest.raises(UnknownRunError, match=f"near: {ids[2]}"):
        store.resolve("20261120-100001-bbbx")
    for ref in ("", "%", "2026%", "________", "zzz", "\\", "\x00", "a" * 10_000):
        with pytest.raises(UnknownRunError):
            store.load(ref)
    for ref in ("nothing.json", "./nothing", "bad\x00.json"):
        with pytest.raises((UnknownRunError, StoreError)):
            store.load(ref)


def test_a_whole_id_that_begins_another_is_found(store: Store) -> None:
    for run_id in ("abc", "abcd"):
        store.save({**begun(run_id), "status": "complete"})
    assert store.resolve("abc") == "abc"


def test_list_filters(store: Store) -> None:
    for at, (label, url) in enumerate([("Big NAS", "smb://a/x"), (None, "smb://a/y"), ("100%_x", "/srv/x")]):
        store.save({**begun(f"r{at}", label=label, url=url, start_wall_ns=at), "status": "complete"})
    assert [r.run_id for r in store.list_runs()] == ["r2", "r1", "r0"]
    assert [r.run_id for r in store.list_runs(limit=1)] == ["r2"]
    assert [r.run_id for r in store.list_runs(label="big")] == ["r0"]
    assert [r.run_id for r in store.list_runs(label="%")] == ["r2"]
    assert [r.run_id for r in store.list_runs(target="smb://A")] == ["r1", "r0"]


def test_new_ids_sort_by_time() -> None:
    early, late = new_run_id(1_795_200_000 * 10**9), new_run_id(1_795_200_001 * 10**9)
    assert early < late
    assert early.startswith("20261120-184000-")
    assert len({new_run_id(0) for _ in range(100)}) > 90


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NASLAB_STORE", str(tmp_path / "named.sqlite"))
    assert Store().path == tmp_path / "named.sqlite"
    monkeypatch.delenv("NASLAB_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path().name == "runs.sqlite"
    assert default_path().parent.name == "naslab"


def test_reading_makes_no_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "folder" / "runs.sqlite")
    assert store.list_runs() == store.unfinished() == []
    with pytest.raises(UnknownRunError, match="no runs"):
        store.load("last")
    with pytest.raises(UnknownRunError):
        store.spec("x")
    assert list(tmp_path.iterdir()) == []


# files that are not ours


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE precious (x)")
        db.execute("INSERT INTO precious VALUES (1)")
    db.close()


def newer_store(path: Path) -> None:
    with Store(path) as store:
        store.create_run(begun())
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA user_version = 999")
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "text": lambda path: path.write_text("shopping list\n"),
    "zeros": lambda path: path.write_bytes(bytes(5000)),
    "short": lambda path: path.write_bytes(b"SQL"),
    "header only": lambda path: path.write_bytes(b"SQLite format 3\x00" + bytes(84)),
    "other database": other_database,
    "newer store": newer_store,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_not_a_store_is_refused_and_left_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    FOREIGN[name](path)
    before, names = path.read_bytes(), sorted(os.listdir(tmp_path))
    uses: list[Callable[[Store], Any]] = [
        Store.list_runs, lambda s: s.load("last"), lambda s: s.create_run(begun()), lambda s: s.delete_run("x"),
    ]  # fmt: skip
    for use in uses:
        store = Store(path)
        with pytest.raises(StoreError, match="999.*upgrade" if name == "newer store" else "not a naslab store"):
            use(store)
        store.close()
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == names


def test_a_folder_and_an_unwritable_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        Store(tmp_path).create_run(begun())
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        Store(tmp_path / "file" / "runs.sqlite").create_run(begun())


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    Store(tmp_path / "empty").create_run(begun())
    assert len(Store(tmp_path / "empty").list_runs()) == 1


def test_damage_is_told(store: Store, parts: Any) -> None:
    store.save(*parts)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE blobs SET data = zeroblob(50) WHERE name = 'series' AND cell_id = 0")
        db.execute("UPDATE blobs SET raw_bytes = 1 << 60 WHERE name = 'series' AND cell_id = 1")
        db.execute("UPDATE blobs SET raw_bytes = raw_bytes - 1 WHERE name = 'series' AND cell_id = 2")
    run = store.load("last")
    for at in range(3):
        with pytest.raises(StoreError, match="damaged"):
            run.series(at)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE cells SET document = '{' WHERE cell_id = 0")
    db.close()
    with pytest.raises(StoreError, match="damaged"):
        store.load("last")


def test_an_older_layout_is_brought_up_to_date(store: Store, parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(*parts)
    store.close()
    newer = (*migrations.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN extra TEXT DEFAULT 'new'",))
    monkeypatch.setattr("naslab.results.store.database.MIGRATIONS", newer)
    monkeypatch.setattr("naslab.results.store.database.NEWEST", len(newer))
    assert store.load("last").document == parts[0]
    store.add_warning(RUN_ID, "k", "m")
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT extra FROM runs").fetchall() == [("new",)]
        assert db.execute("PRAGMA user_version").fetchone() == (len(newer),)
    db.close()


def test_a_failed_migration_leaves_the_older_layout(store: Store, parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save(*parts)
    store.close()
    broken = (*migrations.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN extra TEXT", "ALTER TABLE nowhere ADD x"))
    with monkeypatch.context() as patch:
        patch.setattr("naslab.results.store.database.MIGRATIONS", broken)
        patch.setattr("naslab.results.store.database.NEWEST", len(broken))
        with pytest.raises(StoreError):
            store.add_warning(RUN_ID, "k", "m")
    assert store.load("last").document == parts[0]


def as_nobody(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python without the right to write what root owns."""
    drop = "import os, sys\nsys.path.insert(0, sys.argv.pop(1))\nimport naslab.results.store, naslab.results, zlib\n"
    drop += "import naslab.exchange.json_file\nos.getuid() == 0 and os.setuid(65534)\n"
    command = [sys.executable, "-c", drop + code, PYTHON_FOLDER, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


READ_ONLY_CODE = """
from naslab.results.store import Store
from naslab.errors import StoreError
store = Store(sys.argv[1])
print(len(store.list_runs()), len(store.load("last").blob(0, "series")) > 0)
try:
    store.add_warning(store.resolve("last"), "k", "m")
except StoreError as error:
    print("refused")
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
@pytest.mark.parametrize("pending_log", [False, True])
def test_a_read_only_store_is_read(tmp_path: Path, parts: Any, pending_log: bool) -> None:
    folder = tmp_path / "ro"
    store = Store(folder / "runs.sqlite")
    store.save(*parts)
    if not pending_log:
        store.close()  # the last connection moves the log into the file
    for parent in (folder, *folder.parents):
        if str(parent).startswith(str(tmp_path.parent.parent)):
            parent.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        ended = as_nobody(READ_ONLY_CODE, str(store.path))
    finally:
        folder.chmod(0o755)
    assert ended.stdout.split() == ["1", "True", "refused"], ended.stderr


# processes: dead, alive, many


def test_the_owner_alive_reads_as_running(store: Store) -> None:
    store.create_run(begun())
    assert store.load("last").document["status"] == "running"
    assert store.unfinished() == []
    store.finish_run("20261120-184000-aaaa", "failed", target={"url": "/other", "protocol": "local"})
    run = store.load("last").document
    assert (run["status"], run["target"]["url"]) == ("failed", "/other")
    assert run["end_wall_ns"] is not None
    assert store.list_runs()[0].target == "/other"


@pytest.mark.parametrize(
    ("change", "dead"),
    [
        ({}, False),
        ({"host": "elsewhere", "boot_id": "other", "pid": 2**22 + 1}, False),
        ({"boot_id": "an earlier boot"}, True),
        ({"boot_id": "an earlier boot", "machine": "another"}, False),
        ({"boot_id": "an earlier boot", "machine": None}, False),
        ({"start_time": "1"}, True),
        ({"pid": 2**22 + 1, "start_time": None}, True),
        ({"pid": 2**22 + 1, "pid_namespace": "another container"}, False),
        ({"pid": "x"}, False),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="boot id and start time are read from /proc")
def test_which_owners_are_dead(change: dict[str, Any], dead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from naslab.results.store import process
    from naslab.results.store.process import is_dead, owner

    monkeypatch.setattr(process, "_machine_id", lambda: "this one")
    assert is_dead({**owner(), **change}) is dead


def test_in_a_home_the_hosts_name_stands_for_a_machine_without_id(monkeypatch: pytest.MonkeyPatch) -> None:
    from naslab.results.store import process
    from naslab.results.store.process import is_dead, owner

    monkeypatch.setattr(process, "_machine_id", lambda: "this one")
    rebooted = {**owner(), "boot_id": "an earlier boot"}
    assert is_dead(rebooted, by_name=True) and is_dead({**rebooted, "machine": None}, by_name=True)
    assert not is_dead({**rebooted, "machine": "another"}, by_name=True)


def test_a_killed_writer_loses_nothing_it_had_saved(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    rng = random.Random(7)
    for attempt in range(12):
        run_id = f"run-{attempt:02}"
        with start_writer(path, run_id) as child:
            read_until(child, "created")
            time.sleep(rng.random() * 0.15)
            child.send_signal(signal.SIGKILL)
            assert child.stdout is not None
            saved = child.stdout.read().split("\n")[:-1]
        run = Store(path).load(run_id)
        assert run.document["status"] == "partial"
        assert [w["kind"] for w in run.document["warnings"]] == ["unfinished"]
        assert [c["id"] for c in run.cells] == list(range(len(run.cells)))
        assert len(saved) <= len(run.cells) <= len(saved) + 1
        for found in run.cells:
            data = run.blob(found, "series")
            assert (len(data), sum(data)) == (BLOB_BYTES, found["sum"])
            assert run.blob(found, "latency:read") == data[::-1]
        assert_sound(path)
    assert len(Store(path).unfinished()) == 12


def test_a_writer_killed_while_the_store_is_made(tmp_path: Path) -> None:
    rng = random.Random(8)
    for attempt in range(12):
        path = tmp_path / f"{attempt}.sqlite"
        with start_writer(path, "killed") as child:
            read_until(child, "ready")
            time.sleep(rng.random() * 0.015)
            child.send_signal(signal.SIGKILL)
        Store(path).create_run(begun("after"))
        assert Store(path).load("after").run_id == "after"
        assert_sound(path)


def test_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    children = [start_writer(path, f"run-{n}", 40) for n in range(3)]
    reader = Store(path)
    while any(child.poll() is None for child in children):
        for run in reader.list_runs():
            found = reader.load(run.run_id)
            assert [c["id"] for c in found.cells] == list(range(len(found.cells)))
        time.sleep(0.01)
    assert [child.communicate()[0].split()[-1] for child in children] == ["finished"] * 3
    assert sorted((r.run_id, r.cells, r.status) for r in reader.list_runs()) == [
        (f"run-{n}", 40, "complete") for n in range(3)
    ]
    assert_sound(path)


def test_threads_share_a_store(store: Store) -> None:
    store.create_run(begun("shared"))

    def add(first: int) -> None:
        for at in range(first, first + 20):
            store.add_cell("shared", cell(at), {"series": bytes(100)})
            store.load("shared")

    threads = [threading.Thread(target=add, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.load("shared").cells) == 60


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("naslab.results.store.database.BUSY_TIMEOUT_S", 0.2)
    yield


@pytest.mark.usefixtures("short_wait")
def test_a_writer_that_never_ends_is_told_not_waited_for(store: Store) -> None:
    store.create_run(begun())
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert len(store.list_runs()) == 1
        with pytest.raises(StoreError, match="locked"):
            Store(store.path).add_warning("20261120-184000-aaaa", "k", "m")
    finally:
        other.close()


def test_a_fork_opens_its_own_connection(store: Store) -> None:
    store.create_run(begun())
    connection = store._connection
    store._pid = -1  # as after a fork
    store.add_warning("20261120-184000-aaaa", "k", "m")
    assert store._connection is not connection
    assert store._pid == os.getpid()
    assert connection.execute("SELECT 1").fetchone() == (1,), "the parent's, which is not closed here"
    assert connection is not None
    connection.close()
