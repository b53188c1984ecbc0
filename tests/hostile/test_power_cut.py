"""The power goes while the store is written: every state that the disk can be left in opens, and holds what was saved.

The writes and flushes of a writer are recorded by strace, and replayed up to each flush: with nothing after a file's
last flush, with all of it, and with parts of it in sectors of 512 bytes, as disks may have them. Names made or removed
are as durable as their file or their folder was flushed.

`NASLAB_HOSTILE_CUTS=N` tries so many random parts at each place; `NASLAB_HOSTILE_SEED` others.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cli_tools import may_trace, need
from naslab.errors import UnknownRunError
from naslab.store import Store

PARTS = int(os.environ.get("NASLAB_HOSTILE_CUTS", "2"))
SEED = int(os.environ.get("NASLAB_HOSTILE_SEED", "21"))
SECTOR_BYTES = 512
RUNS, CELLS = 2, 8
CALLS = "openat,write,pwrite64,fsync,fdatasync,ftruncate,unlink,unlinkat,rename,renameat,renameat2"
WRITER = """
import os, sys
sys.path[:0] = [sys.argv[2]]
from pathlib import Path
from fixtures_run import make_parts
from naslab.store import Store

document, blobs, spec = make_parts(ops=("write", "read"), file_sizes=(1 << 20,), record_sizes=(4096,))
store = Store(Path(sys.argv[1]))
for number in range(%d):
    run_id = f"run-{number}"
    store.create_run({**document, "run_id": run_id, "cells": [], "warnings": [], "status": "running"}, spec)
    os.write(1, f"saved {run_id} 0\\n".encode())
    for at in range(%d):
        store.add_cell(run_id, {**document["cells"][0], "id": at}, {"series": os.urandom(7000)})
        os.write(1, f"saved {run_id} {at + 1}\\n".encode())
    store.finish_run(run_id, "complete")
    os.write(1, f"saved {run_id} %d\\n".encode())
""" % (RUNS, CELLS, CELLS)  # noqa: UP031


@dataclass(frozen=True)
class Event:
    """write, truncate, create, remove or flush of a file (flush of the folder, where name is empty), or `saved`."""

    kind: str
    name: str
    at: int = 0
    data: bytes = b""


@dataclass
class File:
    """What a disk surely has of a file, and what it may have. exists: whether its name is surely there."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)
    exists: bool = False


def recorded(folder: Path) -> list[Event]:
    """The events of a writer's life."""
    log = folder / "trace"
    store = folder / "disk" / "runs.sqlite"
    store.parent.mkdir()
    command = ["strace", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}", "-o", str(log)]
    command += [sys.executable, "-c", WRITER, str(store), str(Path(__file__).parent.parent)]
    subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=100)
    return list(events(log, str(store.parent)))


_LINE = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_HEX = re.compile(r"\\x([0-9a-f]{2})")


def _plain(text: str) -> str:
    return _HEX.sub(lambda found: chr(int(found[1], 16)), text)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def events(log: Path, folder: str) -> Iterator[Event]:
    """Of the files right below a folder, and of what the writer says."""
    for line in log.read_text().splitlines():
        if not (found := _LINE.match(line)) or int(found[3]) < 0:
            continue
        call, words = found[1], found[2]
        texts = [_bytes(text) for text in _TEXT.findall(words)]
        where = re.match(r"\d+<([^>]*)>", words)
        path = _plain(where[1]) if where else ""
        if call == "write" and texts and texts[0].startswith(b"saved "):
            yield Event("saved", texts[0].decode().strip())
        elif call in ("openat", "unlink", "unlinkat") and texts:
            path = texts[0].decode()
            if path.startswith(folder + "/") and (call != "openat" or "O_CREAT" in words):
                yield Event("create" if call == "openat" else "remove", path[len(folder) + 1 :])
        elif (path == folder and call == "fsync") or (path == folder and call == "fdatasync"):
            yield Event("flush", "")
        elif path.startswith(folder + "/") and not path.endswith("-shm"):
            name = path[len(folder) + 1 :]
            numbers = [int(word) for word in re.findall(r", (\d+)", _TEXT.sub("", words))]
            assert call not in ("write", "rename", "renameat", "renameat2"), line[:200]
            if call == "pwrite64":
                yield Event("write", name, numbers[-1], texts[0])
            else:
                yield Event("truncate", name, numbers[-1]) if call == "ftruncate" else Event("flush", name)


def apply(contents: bytearray, event: Event) -> None:
    if event.kind == "truncate":
        del contents[event.at :]
        contents.extend(bytes(event.at - len(contents)))
    elif event.kind == "write":
        contents.extend(bytes(max(0, event.at - len(contents))))
        contents[event.at : event.at + len(event.data)] = event.data


class Disk:
    """What a disk may hold after each event."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.saved: dict[str, int] = {}

    def take(self, event: Event) -> None:
        if event.kind == "saved":
            _, run_id, cells = event.name.split()
            self.saved[run_id] = int(cells)
        elif event.kind == "flush":
            for name in [event.name] if event.name else list(self.files):
                self._flush(name, contents=bool(event.name))
        elif (
            event.kind == "create" and self.files.get(event.name, File(exists=True)).exists and event.name in self.files
        ):
            pass  # it is opened again
        else:
            self.files.setdefault(event.name, File()).pending.append(event)

    def _flush(self, name: str, contents: bool) -> None:
        """A file's flush takes its name along; a folder's only names."""
        file = self.files[name]
        names = [each for each in file.pending if each.kind in ("create", "remove")]
        if names:
            file.exists = names[-1].kind == "create"
            if not file.exists:
                del self.files[name]
                return
        if contents:
            for event in file.pending:
                apply(file.durable, event)
        file.pending = [] if contents else [each for each in file.pending if each not in names]

    def image(self, chosen: str, rng: random.Random, folder: Path) -> None:
        """Writes what is there after a cut. chosen: none, all, or some of what was not flushed."""
        for name, file in self.files.items():
            contents, exists = bytearray(file.durable), file.exists
            for event in file.pending:
                if chosen == "none" or (chosen == "some" and rng.random() < 0.4):
                    continue
                if event.kind == "create":
                    exists = True
                elif event.kind == "remove":
                    exists, contents = False, bytearray()
                else:
                    for part in _sectors(event) if chosen == "some" else [event]:
                        if chosen == "all" or rng.random() < 0.8:
                            apply(contents, part)
            if exists:
                (folder / name).write_bytes(contents)


def _sectors(event: Event) -> list[Event]:
    if event.kind != "write":
        return [event]
    return [
        Event("write", event.name, event.at + at, event.data[at : at + SECTOR_BYTES])
        for at in range(0, len(event.data), SECTOR_BYTES)
    ]


def check(folder: Path, saved: dict[str, int]) -> None:
    """The store opens, is whole, has what was saved and nothing half, and takes more."""
    store = Store(folder / "runs.sqlite")
    found = {run.run_id: run.cells for run in store.list_runs()}
    for run_id, cells in saved.items():
        assert found.get(run_id, -1) >= cells, f"{cells} cells of {run_id} were saved; {found}"
    for run_id in found:
        run = store.load(run_id)
        assert [cell["id"] for cell in run.cells] == list(range(len(run.cells)))
        assert all(len(run.blob(cell, "series")) == 7000 for cell in run.cells)
    with contextlib.suppress(UnknownRunError):
        store.add_warning("run-0", "after", "the cut")
    if store.path.exists():
        with contextlib.closing(sqlite3.connect(store.path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store.close()


@pytest.mark.timeout(200 + 60 * PARTS)
def test_a_cut_at_every_flush_loses_nothing_that_was_saved(tmp_path: Path) -> None:
    need(may_trace(), "strace")
    rng, disk, cuts = random.Random(SEED), Disk(), 0
    happened = recorded(tmp_path)
    assert sum(event.kind == "flush" for event in happened) > RUNS, "the trace was not understood"
    for number, event in enumerate([*happened, Event("flush", "")]):
        if event.kind in ("flush", "saved"):
            for chosen in ("none", "all", *(["some"] * PARTS)):
                folder = tmp_path / f"{number}-{chosen}-{cuts}"
                folder.mkdir()
                disk.image(chosen, rng, folder)
                try:
                    check(folder, disk.saved)
                except Exception as error:
                    pytest.fail(f"cut before event {number} ({event.kind} {event.name}), {chosen} of what was not "
                                f"flushed, seed {SEED}: {type(error).__name__}: {error}")  # fmt: skip
                for path in folder.iterdir():
                    path.unlink()
                cuts += 1
        disk.take(event)
    assert disk.saved == {f"run-{number}": CELLS for number in range(RUNS)} and cuts > 40
    print(f"{cuts} cuts of {len(happened)} events")
