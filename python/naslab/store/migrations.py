"""The layout of the store, and how an older one becomes the newest: one entry a version.

An entry is never changed once released; a new layout is a new entry at the end.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (  # 1: runs, their cells, warnings and raw data
        """CREATE TABLE runs (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            run_id TEXT NOT NULL UNIQUE,
            start_wall_ns INTEGER NOT NULL,
            command TEXT NOT NULL,
            label TEXT,
            target TEXT NOT NULL,
            status TEXT NOT NULL,
            owner TEXT,      -- JSON: the process that measures, while status is 'running'
            document TEXT NOT NULL,  -- JSON: the run document without cells and warnings
            spec TEXT        -- JSON: the run specification
        )""",
        "CREATE INDEX runs_by_time ON runs (start_wall_ns)",
        """CREATE TABLE cells (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
            cell_id INTEGER NOT NULL,
            document TEXT NOT NULL,  -- JSON
            UNIQUE (run_id, cell_id)
        )""",
        """CREATE TABLE warnings (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            run_id TEXT NOT NULL REFERENCES runs (run_id) ON DELETE CASCADE,
            kind TEXT NOT NULL,
            message TEXT NOT NULL,
            cell_id INTEGER
        )""",
        "CREATE INDEX warnings_by_run ON warnings (run_id)",
        """CREATE TABLE blobs (
            run_id TEXT NOT NULL,
            cell_id INTEGER NOT NULL,
            name TEXT NOT NULL,
            raw_bytes INTEGER NOT NULL,  -- length before zlib
            data BLOB NOT NULL,          -- zlib
            PRIMARY KEY (run_id, cell_id, name),
            FOREIGN KEY (run_id, cell_id) REFERENCES cells (run_id, cell_id) ON DELETE CASCADE
        )""",
    ),
)

NEWEST = len(MIGRATIONS)
"""Schema version this naslab writes (`PRAGMA user_version`)."""
