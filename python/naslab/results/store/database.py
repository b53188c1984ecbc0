"""Opening the store's file: made, migrated, refused or read, never harmed.

The file is SQLite in WAL mode. `application_id` marks it as ours, `user_version` is its layout. With
`synchronous=FULL` neither a kill nor a power cut loses a finished transaction. That is one flush of the log per cell,
between two cells: 4 to 8 ms on a virtual disk. `NORMAL` took 0.1 ms and lost every cell since the last checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

from naslab.errors import BadStoreError, StoreError
from naslab.results.store.migrations import MIGRATIONS, NEWEST

APPLICATION_ID = 0x6E61736C
"""`nasl`, at offset 68 of the file."""
BUSY_TIMEOUT_S = 30.0
_MAGIC = b"SQLite format 3\x00"
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def open_database(path: Path, write: bool) -> sqlite3.Connection | None:
    """A connection in autocommit mode; None when there is no file and nothing is to be written.

    write: make the file (and its folder) when missing, and bring an older layout up to date. Without it,
    or where the file may not be written, the connection only reads.
    Raises StoreError for a file that is not a store (which is left untouched), for a newer layout, and
    when the file cannot be opened.
    """
    exists = _check_header(path)
    if not write and not exists:
        return None
    try:
        if write:
            _make_folder(path.parent)
            if not exists:
                # Hosts, shares and file names of others are in it. SQLite gives its log the same permissions.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            return _open_writable(path)
        return _open_readable(path)
    except (sqlite3.Error, OSError) as error:
        raise BadStoreError(f"store {path}: {error}; name another with --store") from error


def _check_header(path: Path) -> bool:
    """Whether the file exists and holds anything. Reads 100 bytes; raises StoreError for what is not a store."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BadStoreError(f"store {path}: {error}; name another with --store") from error
    if not header:
        return False
    if header[:16] == _MAGIC and int.from_bytes(header[68:72], "big") == APPLICATION_ID:
        return True
    if not any(header) and _was_being_made(path):
        return True
    raise _not_a_store(path)


def _was_being_made(path: Path) -> bool:
    """Whether the power was cut before the first sector was on the disk; SQLite undoes what there is by its journal."""
    try:
        with path.with_name(path.name + "-journal").open("rb") as journal:
            return journal.read(8) == _JOURNAL_MAGIC
    except OSError:
        return False


def _not_a_store(path: Path) -> BadStoreError:
    return BadStoreError(f"{path} is not a naslab store; it was left untouched; name another with --store")


def _make_folder(folder: Path) -> None:
    """Makes a folder and what is missing above it, so that a power cut takes none of them away."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        with contextlib.suppress(OSError):  # where folders cannot be flushed, nothing more can be done
            above = os.open(each.parent, os.O_RDONLY)
            try:
                os.fsync(above)
            finally:
                os.close(above)


def _connect(path: Path, query: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{query}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )  # fmt: skip
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def _open_writable(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "mode=rwc")
    try:
        _migrate(connection, path)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _open_readable(path: Path) -> sqlite3.Connection | None:
    """Reads beside a writer; on a read-only disk or folder, reads the file as it is if no log is pending.

    None for a store that was being made when the power was cut: SQLite has undone what there was of it.
    """
    queries = ["mode=rw"] if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else []
    queries.append("mode=ro")
    log = path.with_name(path.name + "-wal")
    if not (log.exists() and log.stat().st_size):
        queries.append("immutable=1")
    last: sqlite3.Error | None = None
    for query in queries:
        connection = None
        try:
            connection = _connect(path, query)
            if _check_version(connection, path) == 0 and _is_empty(connection):
                connection.close()
                return None
            connection.execute("PRAGMA query_only = ON")
            return connection
        except (sqlite3.Error, StoreError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, StoreError):
                raise
            last = error
    raise BadStoreError(f"store {path} cannot be read here ({last}); copy it, with its -wal file, to a writable folder")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    if connection.execute("PRAGMA application_id").fetchone()[0] not in (0, APPLICATION_ID):
        raise _not_a_store(path)
    version = _version(connection)
    if version > NEWEST:
        raise BadStoreError(
            f"store {path} has layout {version} and this naslab knows {NEWEST}: "
            "upgrade naslab, or name another store with --store"
        )
    return version


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Brings the layout up to date in one transaction; two processes doing so at once is fine."""
    if _check_version(connection, path) == NEWEST:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _check_version(connection, path)  # again: another process may have been first
        if version == 0 and not _is_empty(connection):
            raise _not_a_store(path)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {NEWEST}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # an interruption may come just after the commit
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection) -> None:
    """WAL where the filesystem can; the change needs the file alone for a moment, and SQLite does not wait for it."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
