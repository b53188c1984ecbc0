"""How far the cell under way is, for who watches from another process: one small file beside the store.

It is not in the store: a row written each second would wait for other writers' locks in the middle of a cell, fill
the log until SQLite syncs it, and tell every reader that the store changed. A file needs one `pwrite` of a few
kilobytes without a sync. The thread that waits for the measuring threads writes it, at most once a second within a
cell; the file goes when the run ends, and one that a killed process left goes at the next run.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from naslab.results.store.process import is_dead, owner

EVERY_NS = 1_000_000_000
MOST_SAMPLES = 120
"""Of a cell; where there are more, every second one goes and the next are taken half as often."""
MOST_FILE_BYTES = 64 << 10


def path_of(store: Path, run_id: str) -> Path:
    """The file of a run. The id is digested, for ids come from imported files."""
    digest = hashlib.sha256(run_id.encode("utf-8", "replace")).hexdigest()[:16]
    return store.with_name(f"{store.name}-now-{digest}")


class UnderWay:
    """Writes the file. Nothing here raises for a disk that is full or may not be written: it only informs.

    clock_ns, wall_ns: of this process and of the day.
    """

    def __init__(
        self, store: Path, run_id: str, clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        self._path = path_of(store, run_id)
        self._about = {"run_id": run_id, "owner": owner()}
        self._clock_ns, self._wall_ns = clock_ns, wall_ns
        self._file: int | None = None
        self._failed = False
        self._cell: dict[str, Any] | None = None
        self._samples: list[tuple[int, int, int]] = []
        self._last = (0, 0, 0)
        self._step = 1
        self._seen = 0
        self._due_ns = 0

    def before(self, cell: Mapping[str, Any], planned: int | None) -> None:
        """A cell is about to begin. cell: what describes it. planned: cells known of by now, measured ones
        included; None where that is not known."""
        self._cell = {**cell, "cells_planned": planned, "began_wall_ns": self._wall_ns()}
        self._samples, self._step, self._seen = [], 1, 0
        self._last = (0, 0, 0)
        self._write({})
        self._due_ns = 0  # the first event says that the preparation is over

    def progress(self, event: Mapping[str, Any]) -> None:
        """The engine's event of a cell under way, about five a second."""
        now = self._clock_ns()
        if self._cell is None or now < self._due_ns:
            return
        here = int(event["elapsed_ns"]), int(event["bytes"]), int(event.get("ops") or 0)
        self._sample(here)
        recent = [b - a for a, b in zip(self._last, here, strict=True)]
        self._last = here
        told = {name: event.get(name) for name in ("elapsed_ns", "bytes", "ops", "errors", "p99_ns")}
        self._write({**told, "recent": recent})

    def between(self) -> None:
        """A cell ended."""
        if self._cell is not None:
            self._cell = None
            self._write({})

    def close(self) -> None:
        """The run ended, or lets go of its target: the file goes."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _sample(self, sample: tuple[int, int, int]) -> None:
        self._seen += 1
        if self._seen % self._step:
            return
        self._samples.append(sample)
        if len(self._samples) > MOST_SAMPLES:
            del self._samples[::2]
            self._step *= 2

    def _write(self, told: Mapping[str, Any]) -> None:
        self._due_ns = self._clock_ns() + EVERY_NS
        if self._failed:
            return
        state = {
            **self._about, "cell": self._cell, "told": told, "samples": self._samples,
            "written_wall_ns": self._wall_ns(),
        }  # fmt: skip
        try:
            if self._file is None:
                self._file = self._open()
            os.pwrite(self._file, json.dumps(state, separators=(",", ":")).encode() + b"\n", 0)
        except (OSError, ValueError, TypeError):
            self._failed = True

    def _open(self) -> int:
        for left in glob.glob(glob.escape(str(self._path.parent / self._path.name.rpartition("-")[0])) + "-*"):
            found = _read(Path(left))
            if found is not None and is_dead(found.get("owner") or {}, by_name=True):
                with contextlib.suppress(OSError):
                    os.unlink(left)
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)


def read_under_way(store: Path, run_id: str) -> dict[str, Any] | None:
    """What the process that measures wrote last; None where there is nothing, or it was just being written.

    `cell`: the one under way with `began_wall_ns` and `cells_planned`, None between two. `told`: the engine's last
    event, with `recent`: [ns, bytes, ops] since the one told before; empty before the first. `samples`:
    [[elapsed_ns, bytes, ops], ...] so far. `written_wall_ns`.
    """
    found = _read(path_of(store, run_id))
    return found if found is not None and found.get("run_id") == run_id else None


def _read(path: Path) -> dict[str, Any] | None:
    """The first line of the file: what an earlier, longer text left stands behind it."""
    try:
        with path.open("rb") as file:
            line = file.read(MOST_FILE_BYTES).partition(b"\n")[0]
        found = json.loads(line)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
