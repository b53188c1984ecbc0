"""`Store`: runs in one SQLite file. Each cell is saved when it was measured, in one short transaction."""

from __future__ import annotations

import ctypes
import difflib
import json
import os
import random
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from naslab.errors import StoreError, UnknownRunError
from naslab.results.document import INTERRUPTION, Document, iso_utc, warning
from naslab.results.run import Run
from naslab.results.store import summaries
from naslab.results.store.database import open_database
from naslab.results.store.process import is_dead, owner

MAX_BLOB_BYTES = 4 << 30
Status = Literal["running", "complete", "partial", "failed"]
Blobs = Mapping[str, bytes]
Found = TypeVar("Found")


_measuring: dict[str, Path] = {}
"""Runs that this process measures, each with its store."""
_UNFINISHED = "the process ended before the run was complete; the cells stored until then are kept"


@dataclass(frozen=True)
class RunSummary:
    """One line of `naslab runs`. status: as it reads now, `partial` for a run its process left. cells: how many."""

    run_id: str
    command: str
    label: str | None
    target: str
    status: str
    start_wall_ns: int
    cells: int

    @property
    def started_at(self) -> str:
        """ISO 8601, UTC."""
        return iso_utc(self.start_wall_ns)


def default_path() -> Path:
    """NASLAB_STORE, or `runs.sqlite` in the user's data folder."""
    if named := os.environ.get("NASLAB_STORE"):
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("naslab", appauthor=False)) / "runs.sqlite"


_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_run_id(now_ns: int | None = None) -> str:
    """A short id that sorts by time, UTC: `20261120-183012-x7k2`. Unique but for 1 in 900,000 a second."""
    when = time.strftime("%Y%m%d-%H%M%S", time.gmtime((time.time_ns() if now_ns is None else now_ns) // 10**9))
    pick = random.SystemRandom()
    return f"{when}-{''.join(pick.choice(_ALPHABET) for _ in range(4))}"


class Store:
    """Runs in one file. Opened at the first use: reading never makes a file. May be shared by threads.

    Every method raises StoreError when the file is not a store, is of a newer naslab, or cannot be read or
    written.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """path: the file; None for NASLAB_STORE or the user's data folder."""
        self.path = Path(path) if path is not None else default_path()
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._writable = False
        self._pid = 0
        self._file: tuple[int, int] | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.close()

    def close(self) -> None:
        """Lets go of the file; the next call opens it again."""
        with self._lock:
            self._leave_if_forked()
            if self._connection is not None and self._is_gone():
                # Closing would remove the log by its name: that of whatever store is there now.
                _keep_open(self._connection)
            elif self._connection is not None:
                self._connection.close()
            self._connection = None

    # writing

    def create_run(self, document: Mapping[str, Any], spec: Any = None) -> str:
        """Saves a run that begins, owned by this process; returns its id.

        document: from `new_document`; its cells and warnings are saved too. spec: `RunSpec` or a dict.
        Raises StoreError when the id is taken.
        """
        _measuring[document["run_id"]] = self.path
        with self._transaction() as db:
            self._insert_run(db, document, spec, {})
        return cast("str", document["run_id"])

    def save(self, document: Mapping[str, Any], blobs: Mapping[int, Blobs] | None = None, spec: Any = None) -> str:
        """Saves a whole run at once (imported, merged), with its raw data {cell id: {name: bytes}}.

        Raises StoreError when the id is taken; nothing is saved then.
        """
        with self._transaction() as db:
            self._insert_run(db, document, spec, blobs or {})
        return cast("str", document["run_id"])

    def add_cell(self, run_id: str, cell: Mapping[str, Any], blobs: Blobs | None = None) -> None:
        """Saves a cell with its raw data, all or nothing; saving the same id again replaces it.

        Raises UnknownRunError when there is no such run.
        """
        with self._transaction() as db:
            self._must_exist(db, run_id)
            _insert_cell(db, run_id, cell, blobs or {})

    def add_warning(self, run_id: str, kind: str, message: str, cell: int | None = None) -> None:
        """Adds a typed warning to the run, or names the cell it is about. Raises UnknownRunError."""
        with self._transaction() as db:
            self._must_exist(db, run_id)
            _insert_warning(db, run_id, warning(kind, message, cell))

    def finish_run(self, run_id: str, status: Status, **updates: Any) -> None:
        """Ends a run: status, end time, and `updates` of the document's top-level fields. Raises UnknownRunError."""
        now = time.time_ns()
        ended = {"end_wall_ns": now, "finished_at": iso_utc(now)}
        self._update(run_id, {**ended, **updates, "status": status})
        _measuring.pop(run_id, None)
        with self._lock, suppress(sqlite3.Error):  # the run is saved; this only moves it out of the log
            self._open(write=True).execute("PRAGMA wal_checkpoint(PASSIVE)")

    def end_running(self, run_id: str) -> None:
        """Makes a run of this process that has no end `partial`, with a warning `interrupted`; nothing of another."""
        with self._transaction() as db:
            found = db.execute("SELECT status, owner FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            ours = found is not None and found[0] == "running" and json.loads(found[1] or "{}") == owner()
        if ours:
            self.add_warning(run_id, *INTERRUPTION)
            self.finish_run(run_id, "partial")

    def reopen_run(self, run_id: str) -> None:
        """Makes this process the owner of an ended or abandoned run, which goes on.

        Raises UnknownRunError, and StoreError when the process that measures it may still live.
        """
        with self._transaction() as db:
            self._must_exist(db, run_id)
            text, status, owned = db.execute(
                "SELECT document, status, owner FROM runs WHERE run_id = ?", (run_id,)
            ).fetchone()
            if status_now(status, owned) == "running":
                raise StoreError(f"run {run_id} is still being measured; wait for it, or stop it first")
            _measuring[run_id] = self.path
            document = {**json.loads(text), "status": "running", "finished_at": None, "end_wall_ns": None}
            db.execute(
                "UPDATE runs SET document = ?, status = 'running', owner = ? WHERE run_id = ?",
                (_dump(document), _dump(owner()), run_id),
            )

    def update_run(self, run_id: str, **updates: Any) -> None:
        """Changes top-level fields of the document, e.g. `verdict`, `label`. Raises UnknownRunError."""
        self._update(run_id, updates)

    def set_spec(self, run_id: str, spec: Any) -> None:
        """Replaces the run's specification: a `RunSpec` or a dict. Raises UnknownRunError."""
        plain = asdict(spec) if is_dataclass(spec) and not isinstance(spec, type) else spec
        with self._transaction() as db:
            self._must_exist(db, run_id)
            db.execute("UPDATE runs SET spec = ? WHERE run_id = ?", (_dump(plain), run_id))

    def update_cell(self, run_id: str, cell_id: int, **updates: Any) -> None:
        """Changes fields of a cell, e.g. `regime`. Raises UnknownRunError when there is no such cell."""
        with self._transaction() as db:
            found = db.execute(
                "SELECT document FROM cells WHERE run_id = ? AND cell_id = ?", (run_id, cell_id)
            ).fetchone()
            if found is None:
                raise UnknownRunError(f"run {run_id} has no cell {cell_id} in {self.path}")
            text = _dump({**json.loads(found[0]), **updates, "id": cell_id})
            db.execute("UPDATE cells SET document = ? WHERE run_id = ? AND cell_id = ?", (text, run_id, cell_id))

    def update_cells(self, run_id: str, updates: Mapping[int, Mapping[str, Any]]) -> None:
        """`update_cell` of many cells, {cell id: fields}, all or nothing. Raises UnknownRunError."""
        with self._transaction() as db:
            self._must_exist(db, run_id)
            rows = db.execute("SELECT cell_id, document FROM cells WHERE run_id = ?", (run_id,)).fetchall()
            changed = [
                (_dump({**json.loads(text), **updates[cell], "id": cell}), run_id, cell)
                for cell, text in rows
                if cell in updates
            ]
            db.executemany("UPDATE cells SET document = ? WHERE run_id = ? AND cell_id = ?", changed)
            _summarise(db, run_id)

    def delete_run(self, run_id: str) -> None:
        """Removes a run (its whole id) and its raw data. Raises UnknownRunError."""
        with self._transaction() as db:
            self._must_exist(db, run_id)
            db.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
        _measuring.pop(run_id, None)

    # reading

    def load(self, ref: str = "last") -> Run:
        """The stored run named by `ref`: an id, a unique prefix or `last`.

        Raises UnknownRunError (listing near matches) when there is none or more than one.
        """
        return self.load_id(self.resolve(ref))

    def given(self, run: Run) -> Run:
        """A run that came from elsewhere, as this store gives its own."""
        return run

    def load_id(self, run_id: str) -> Run:
        """The stored run with this whole id; no file, whatever the id looks like. Raises UnknownRunError."""
        with self._lock:
            db = self._open(write=False)
            _begin(db, "BEGIN")  # one moment of the run, while it may still be written
            try:
                return Run(self._document(db, run_id), StoreBlobs(self, run_id))
            finally:
                db.execute("COMMIT")

    def resolve(self, ref: str) -> str:
        """The whole id of an id, a unique prefix or `last`. Raises UnknownRunError."""
        if ref == "last":
            rows = self.rows("SELECT run_id FROM runs ORDER BY start_wall_ns DESC, seq DESC LIMIT 1")
            if not rows:
                raise UnknownRunError(f"no runs are stored in {self.path} yet; measure one with: naslab run TARGET")
            return cast("str", rows[0][0])
        if self.rows("SELECT 1 FROM runs WHERE run_id = ?", (ref,)):
            return ref  # found by its index, where a prefix has to look at every run
        escaped = ref.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        rows = self.rows(
            "SELECT run_id FROM runs WHERE run_id LIKE ? ESCAPE '\\' ORDER BY start_wall_ns DESC", (escaped + "%",)
        )
        found = [row[0] for row in rows]
        if len(found) == 1 and ref:
            return cast("str", found[0])
        raise UnknownRunError(self._no_match(ref, found if ref else []))

    def spec(self, run_id: str) -> dict[str, Any] | None:
        """The run specification as a dict, None when the run has none (imported). Raises UnknownRunError."""
        rows = self.rows("SELECT spec FROM runs WHERE run_id = ?", (run_id,))
        if not rows:
            raise UnknownRunError(self._no_match(run_id, []))
        return json.loads(rows[0][0]) if rows[0][0] else None

    def list_runs(
        self, limit: int | None = None, label: str | None = None, target: str | None = None
    ) -> list[RunSummary]:
        """Runs, newest first. label, target: only those that contain this text, upper or lower case alike."""
        rows = self.rows(
            """SELECT run_id, command, label, target, status, owner, start_wall_ns,
                      (SELECT count(*) FROM cells WHERE cells.run_id = runs.run_id)
               FROM runs
               WHERE (?1 IS NULL OR instr(lower(coalesce(label, '')), lower(?1)))
                 AND (?2 IS NULL OR instr(lower(target), lower(?2)))
               ORDER BY start_wall_ns DESC, seq DESC LIMIT ?3""",
            (label, target, -1 if limit is None else limit),
        )
        return [RunSummary(r[0], r[1], r[2], r[3], status_now(r[4], r[5]), r[6], r[7]) for r in rows]

    def unfinished(self) -> list[RunSummary]:
        """Runs whose process ended before they did, newest first: their files may still lie on the target."""
        left = self.rows("SELECT run_id FROM runs WHERE status = 'running'")
        ids = {row[0] for row in left}
        return [run for run in self.list_runs() if run.run_id in ids and run.status == "partial"]

    # inside

    def _open(self, write: bool) -> sqlite3.Connection:
        self._leave_if_forked()
        if self._connection is not None and (self._writable or not write):
            return self._connection
        self.close()
        opened = open_database(self.path, write)
        if opened is None:
            raise UnknownRunError(f"there is no store at {self.path} yet; measure something first")
        self._connection, self._writable, self._pid, self._file = opened, write, os.getpid(), _identity(self.path)
        return opened

    def _is_gone(self) -> bool:
        """Whether the file that is open is not the one of that name any more."""
        return self._file is not None and _identity(self.path) != self._file

    def _leave_if_forked(self) -> None:
        """A connection must not cross a fork, and not be closed there either: it is the parent's."""
        if self._connection is not None and self._pid != os.getpid():
            _keep_open(self._connection)
            self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            db = self._open(write=True)
            if self._is_gone():
                raise StoreError(
                    f"store {self.path} was removed or replaced while naslab wrote to it; its contents are lost"
                )
            try:
                try:
                    _begin(db, "BEGIN IMMEDIATE")
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StoreError(f"store {self.path}: {error}") from error

    def write(self) -> AbstractContextManager[sqlite3.Connection]:
        """A transaction, for what is derived from runs (`naslab.results.store.library`). Raises StoreError."""
        return self._transaction()

    def read_with(self, ask: Callable[[sqlite3.Connection], Found]) -> Found | None:
        """What `ask` finds with a connection that only reads; None when there is no file yet. Raises StoreError."""
        with self._lock:
            if self._connection is None and not self.path.exists():
                return None
            try:
                return ask(self._open(write=False))
            except sqlite3.Error as error:
                raise StoreError(f"store {self.path}: {error}") from error

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of a query that reads; none when there is no file yet. Raises StoreError."""
        with self._lock:
            if self._connection is None and not self.path.exists():
                return []
            try:
                db = self._open(write=False)
                return db.execute(sql, values).fetchall()
            except UnknownRunError:
                return []
            except sqlite3.Error as error:
                raise StoreError(f"store {self.path}: {error}") from error

    def _insert_run(
        self, db: sqlite3.Connection, document: Mapping[str, Any], spec: Any, blobs: Mapping[int, Blobs]
    ) -> None:
        run_id, status = document["run_id"], document["status"]
        if db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
            raise StoreError(f"store {self.path} already holds a run {run_id}; delete it first")
        plain = asdict(spec) if is_dataclass(spec) and not isinstance(spec, type) else spec
        db.execute(
            """INSERT INTO runs (run_id, start_wall_ns, command, label, target, status, owner, document, spec)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                run_id, document["start_wall_ns"], document["command"], document.get("label"),
                document["target"].get("url") or "", status, _dump(owner()) if status == "running" else None,
                _dump(_without(document, "cells", "warnings")), None if plain is None else _dump(plain),
            ),
        )  # fmt: skip
        for found in document.get("warnings", []):
            _insert_warning(db, run_id, found)
        for cell in document.get("cells", []):
            _insert_cell(db, run_id, cell, blobs.get(cell["id"], {}))
        _summarise(db, run_id)

    def _update(self, run_id: str, updates: Mapping[str, Any]) -> None:
        if refused := {"run_id", "cells", "warnings", "schema"} & updates.keys():
            raise StoreError(f"these fields of a run are not changed this way: {', '.join(sorted(refused))}")
        with self._transaction() as db:
            self._must_exist(db, run_id)
            text = db.execute("SELECT document FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0]
            document = {**json.loads(text), **updates}
            db.execute(
                """UPDATE runs SET document = ?, status = ?, label = ?, target = ?, start_wall_ns = ?,
                          owner = CASE WHEN ?2 = 'running' THEN owner END WHERE run_id = ?""",
                (
                    _dump(document), document["status"], document.get("label"),
                    document["target"].get("url") or "", document["start_wall_ns"], run_id,
                ),
            )  # fmt: skip
            _summarise(db, run_id)

    def _must_exist(self, db: sqlite3.Connection, run_id: str) -> None:
        if not db.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
            raise UnknownRunError(self._no_match(run_id, []))

    def _document(self, db: sqlite3.Connection, run_id: str) -> Document:
        try:
            found = db.execute("SELECT document, status, owner FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if found is None:
                raise UnknownRunError(f"run {run_id} was deleted from {self.path}")
            cells = db.execute("SELECT document FROM cells WHERE run_id = ? ORDER BY seq", (run_id,)).fetchall()
            told = db.execute(
                "SELECT kind, message, cell_id FROM warnings WHERE run_id = ? ORDER BY seq", (run_id,)
            ).fetchall()
            document: Document = json.loads(found[0])
            document["cells"] = [json.loads(row[0]) for row in cells]
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"store {self.path}: run {run_id} is damaged: {error}") from error
        document["status"] = status_now(found[1], found[2])
        document["warnings"] = [warning(*row) for row in told]
        if document["status"] != found[1]:
            document["warnings"].append(warning("unfinished", _UNFINISHED))
        return document

    def _no_match(self, ref: str, several: list[str]) -> str:
        if several:
            shown = ", ".join(several[:5]) + (f" and {len(several) - 5} more" if len(several) > 5 else "")
            return f"{ref!r} begins the ids of {len(several)} runs in {self.path}: {shown}; give more of the id"
        ids = [run.run_id for run in self.list_runs(limit=1000)]
        if not ids:
            return f"no run {ref!r}: no runs are stored in {self.path} yet"
        near = difflib.get_close_matches(ref, ids, n=3, cutoff=0.5) or [i for i in ids if ref and ref in i][:3]
        hint = f"near: {', '.join(near)}" if near else f"newest: {', '.join(ids[:3])}"
        return f"no run {ref!r} in {self.path} ({hint}); see all with: naslab runs"


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of its name, None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _keep_open(connection: sqlite3.Connection) -> None:
    """Never closes a connection, not even when Python ends; the system lets go of its files."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class StoreBlobs:
    """Raw data of a stored run, read from the store when asked for."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self._run_id = run_id

    def names(self, cell_id: int) -> list[str]:
        """Names of the cell's blobs, sorted."""
        rows = self._store.rows(
            "SELECT name FROM blobs WHERE run_id = ? AND cell_id = ? ORDER BY name", (self._run_id, cell_id)
        )
        return [row[0] for row in rows]

    def get(self, cell_id: int, name: str) -> bytes | None:
        """One blob, or None. Raises StoreError when it is damaged."""
        rows = self._store.rows(
            "SELECT raw_bytes, data FROM blobs WHERE run_id = ? AND cell_id = ? AND name = ?",
            (self._run_id, cell_id, name),
        )
        return _unpack(rows[0][0], rows[0][1], f"{name} of cell {cell_id}, run {self._run_id}") if rows else None


def _insert_cell(db: sqlite3.Connection, run_id: str, cell: Mapping[str, Any], blobs: Blobs) -> None:
    db.execute(
        """INSERT INTO cells (run_id, cell_id, document) VALUES (?, ?, ?)
           ON CONFLICT (run_id, cell_id) DO UPDATE SET document = excluded.document""",
        (run_id, cell["id"], _dump(cell)),
    )
    db.execute("DELETE FROM blobs WHERE run_id = ? AND cell_id = ?", (run_id, cell["id"]))
    db.executemany(
        "INSERT INTO blobs (run_id, cell_id, name, raw_bytes, data) VALUES (?, ?, ?, ?, ?)",
        [(run_id, cell["id"], name, len(data), zlib.compress(data, 1)) for name, data in blobs.items()],
    )


def _summarise(db: sqlite3.Connection, run_id: str) -> None:
    """The summary of a run that has ended; one that is being measured has none."""
    seq, status = db.execute("SELECT seq, status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if status != "running":
        summaries.summarise(db, seq, status)


def _insert_warning(db: sqlite3.Connection, run_id: str, found: Mapping[str, Any]) -> None:
    db.execute(
        "INSERT INTO warnings (run_id, kind, message, cell_id) VALUES (?, ?, ?, ?)",
        (run_id, found["kind"], found["message"], found.get("cell")),
    )


def _unpack(raw_bytes: int, data: bytes, what: str) -> bytes:
    """Inflates to exactly `raw_bytes`, never more."""
    unpacker = zlib.decompressobj()
    try:
        if not 0 <= raw_bytes <= MAX_BLOB_BYTES:
            raise ValueError(f"{raw_bytes} bytes is out of range")
        raw = unpacker.decompress(data, raw_bytes + 1)
    except (zlib.error, ValueError, TypeError) as error:
        raise StoreError(f"{what}: damaged ({error})") from error
    if len(raw) != raw_bytes or not unpacker.eof:
        raise StoreError(f"{what}: damaged (its length is not {raw_bytes} bytes)")
    return raw


def end_interrupted() -> None:
    """Ends the runs that this process began and did not end, as an interruption between two steps leaves them.

    Whatever keeps their store from being written does so silently: such a run reads as one that its process left.
    """
    for run_id, path in list(_measuring.items()):
        with suppress(StoreError, OSError, sqlite3.Error):
            if path.is_file():
                with Store(path) as store:
                    store.end_running(run_id)
        _measuring.pop(run_id, None)


def status_now(status: str, owner_json: str | None) -> str:
    """The status as it reads now: `partial` for a run that its process left."""
    if status != "running":
        return status
    try:
        dead = owner_json is None or is_dead(json.loads(owner_json), by_name=True)
    except (ValueError, AttributeError):
        dead = True
    return "partial" if dead else "running"


def _begin(db: sqlite3.Connection, statement: str) -> None:
    """Begins a transaction, where an interruption may have come before an earlier one could be taken back."""
    if db.in_transaction:
        db.execute("ROLLBACK")
    db.execute(statement)


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise StoreError(f"a result cannot be stored as JSON: {error}") from error


def _without(document: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}
