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
    (  # 2: summaries of ended runs, for lists and rankings of thousands; whatever changes a run takes its summary away
        """CREATE TABLE summaries (
            seq INTEGER PRIMARY KEY REFERENCES runs (seq) ON DELETE CASCADE,
            version INTEGER NOT NULL,  -- of what is summarised: naslab.results.store.summaries.VERSION
            run_id TEXT NOT NULL,
            start_wall_ns INTEGER NOT NULL,
            status TEXT NOT NULL,
            command TEXT NOT NULL,
            device TEXT NOT NULL,
            label TEXT,
            target TEXT NOT NULL,
            protocol TEXT NOT NULL,
            origin TEXT NOT NULL,      -- own, imported, published
            cells INTEGER NOT NULL,
            best_bytes_per_s REAL,
            words TEXT NOT NULL        -- lower case, what a search looks in
        )""",
        "CREATE INDEX summaries_by_time ON summaries (start_wall_ns, seq)",
        "CREATE INDEX summaries_by_device ON summaries (device, start_wall_ns)",
        "CREATE INDEX summaries_by_command ON summaries (command)",
        "CREATE INDEX summaries_by_protocol ON summaries (protocol)",
        "CREATE INDEX summaries_by_origin ON summaries (origin)",
        """CREATE TABLE summary_tests (
            test TEXT NOT NULL,  -- the application's name, or the operation's
            seq INTEGER NOT NULL REFERENCES summaries (seq) ON DELETE CASCADE,
            PRIMARY KEY (test, seq)
        ) WITHOUT ROWID""",
        "CREATE INDEX summary_tests_by_run ON summary_tests (seq)",
        """CREATE TABLE measurements (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,  -- JSON: asked, conditions, occurrence, measure; naslab.results.measurements.Key
            test TEXT NOT NULL,
            measure TEXT NOT NULL
        )""",
        "CREATE INDEX measurements_by_test ON measurements (test, measure)",
        """CREATE TABLE points (
            seq INTEGER NOT NULL REFERENCES summaries (seq) ON DELETE CASCADE,
            measurement INTEGER NOT NULL REFERENCES measurements (id),
            block INTEGER NOT NULL,
            value REAL NOT NULL,
            PRIMARY KEY (seq, measurement, block)
        ) WITHOUT ROWID""",
        "CREATE TRIGGER run_changed AFTER UPDATE ON runs BEGIN DELETE FROM summaries WHERE seq = new.seq; END",
        """CREATE TRIGGER cell_added AFTER INSERT ON cells BEGIN
            DELETE FROM summaries WHERE seq = (SELECT seq FROM runs WHERE run_id = new.run_id); END""",
        """CREATE TRIGGER cell_changed AFTER UPDATE ON cells BEGIN
            DELETE FROM summaries WHERE seq = (SELECT seq FROM runs WHERE run_id = new.run_id); END""",
    ),
)

NEWEST = len(MIGRATIONS)
"""Schema version this naslab writes (`PRAGMA user_version`)."""
