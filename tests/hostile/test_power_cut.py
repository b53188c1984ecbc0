"""The power is cut while runs save their cells: the store opens, is whole and holds every cell that was saved.

Real runs are recorded with strace: each write, flush and name of the store's files. Then the record is replayed, and
cut at flushes and between them; what was not flushed is dropped, torn between sectors or reordered (`power_cuts`).

`NASLAB_HOSTILE_CUTS=N` cuts at so many moments, 0 at every one; `NASLAB_HOSTILE_SEED` at others.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_tools import may_trace, need
from naslab.errors import NaslabError
from naslab.results.store import Store
from power_cuts import STRACE, WAYS, Disk, Event, Way, events

CUTS = int(os.environ.get("NASLAB_HOSTILE_CUTS", "40"))
SEED = int(os.environ.get("NASLAB_HOSTILE_SEED", "21"))
PROGRAM = """
import os, signal, sys
from naslab import cli
from naslab.results.store import Store

told, kill_after = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), int(sys.argv[2])
saved = 0

def telling(name, words):
    real = getattr(Store, name)
    def told_of(self, run_id, *rest, **more):
        global saved
        found = real(self, run_id, *rest, **more)
        os.write(told, f"{name} {found or run_id} {words(*rest)}\\n".encode())
        saved += name == "add_cell"
        if saved == kill_after != 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    setattr(Store, name, told_of)

telling("create_run", lambda *_: "")
telling("add_cell", lambda cell, *_: cell["id"])
telling("finish_run", lambda status: status)
sys.argv = ["naslab", *sys.argv[3:]]
sys.exit(cli.main())
"""
"""A command that says what is in the store, when it is, and may be killed after so many cells."""
SWEEP = ("sweep", "null:", "--file-size", "64k", "--record", "4k,64k", "--quiet")
FEW, MANY = ("--repeat", "2"), ("--repeat", "10")
"""Many: more than SQLite's log holds before it goes into the file."""


MEMORY = "/dev/shm"
SCRIPT = f"""
naslab() {{ "$PYTHON" -c "$PROGRAM" "$@"; }}
naslab "$TOLD" 0 {" ".join((*SWEEP, *FEW))}
naslab "$TOLD" 5 {" ".join((*SWEEP, *FEW))}
naslab "$TOLD" 0 sweep --resume last --quiet
naslab "$TOLD" 0 {" ".join((*SWEEP, *MANY))} &
naslab "$TOLD" 0 {" ".join((*SWEEP, *MANY))}
wait
"""


@dataclass
class Recorded:
    """What runs wrote; below: the folder that was watched, where their store is."""

    events: list[Event]
    below: Path
    store: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Of five runs: a small one, one that is killed and then resumed, two long ones at once."""
    need(may_trace(), "strace")
    folder = tmp_path_factory.mktemp("recorded").resolve()
    below, told, trace = folder / "disk", folder / "told", folder / "trace"
    below.mkdir()
    store = below / "new" / "runs.sqlite"
    known = {"NASLAB_STORE": str(store), "PYTHON": sys.executable, "PROGRAM": PROGRAM, "TOLD": str(told)}
    command = [*STRACE, "-o", str(trace), "sh", "-c", SCRIPT]
    subprocess.run(command, env={**os.environ, **known}, stdin=subprocess.DEVNULL, timeout=300, check=True)
    return Recorded(events(trace, below, told), below, store)


class Saved:
    """What the programs were told is in the store."""

    def __init__(self) -> None:
        self.runs: set[str] = set()
        self.cells: set[tuple[str, int]] = set()
        self.ended: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Words of a program."""
        what, run_id, word = event.data.decode().rstrip("\n").split(" ")
        if what == "create_run":
            self.runs.add(run_id)
        elif what == "add_cell":
            self.cells.add((run_id, int(word)))
            self.ended.pop(run_id, None)  # it was resumed
        else:
            self.ended[run_id] = word

    def missing_in(self, path: Path) -> str:
        """What is wrong with the store after a power cut, nothing if it is sound."""
        try:
            with Store(path) as store:
                runs = {run.run_id: run.status for run in store.list_runs()}
                cells = {(row[0], row[1]) for row in store.rows("SELECT run_id, cell_id FROM cells")}
                wrong = {
                    "damaged": [row[0] for row in store.rows("PRAGMA integrity_check") if row[0] != "ok"],
                    "cells or raw data of no run": store.rows("PRAGMA foreign_key_check"),
                    f"lost, of {len(self.runs)} runs": self.runs - runs.keys(),
                    f"lost, of {len(self.cells)} cells": self.cells - cells,
                    "not as they ended": [run for run, status in self.ended.items() if runs.get(run) != status],
                }
                for run_id in list(runs)[:1]:
                    store.load(run_id)
                with store.write() as db:
                    db.execute("UPDATE runs SET label = label")
        except NaslabError as error:
            return f"refused: {error}"
        return "; ".join(f"{what}: {sorted(found)[:5]}" for what, found in wrong.items() if found)


def moments(found: list[Event], rng: random.Random) -> set[int]:
    """Where to cut: before and after flushes, and anywhere."""
    if CUTS == 0:
        return set(range(len(found)))
    near = [at + side for at, event in enumerate(found) if event.kind == "flush" for side in (-1, 0)]
    # The beginning of a store is short, and all of it matters.
    kinds = (range(min(100, len(found))), near, range(len(found)))
    return {at for each in kinds for at in rng.sample(each, min(len(each), CUTS // len(kinds)))}


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """Where a disk is laid out, in memory where that can be: each is opened, written to and flushed."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path) as folder:
        yield Path(folder) / "image"


@pytest.mark.timeout(300 + 30 * CUTS if CUTS else 0)
def test_a_power_cut_loses_the_cell_under_way_at_most(recorded: Recorded, image: Path) -> None:
    rng = random.Random(SEED)
    disk, saved, wrong = Disk(recorded.below), Saved(), list[str]()
    chosen, images = moments(recorded.events, rng), 0
    for at, event in enumerate(recorded.events):
        if event.kind == "told":
            saved.take(event)
        else:
            disk.take(at, event)
        for way in (WAYS if CUTS == 0 else rng.sample(WAYS, 3)) if at in chosen else ():
            found = after_cut(disk, way, rng, saved, image, recorded)
            images += 1
            if found:
                wrong.append(f"after event {at} of {len(recorded.events)} ({event.kind} {event.path}), {way}: {found}")
    assert len(saved.cells) > 200 and any(event.kind == "remove" for event in recorded.events)
    assert not wrong, f"{len(wrong)} of {images} disks, seed {SEED}:\n" + "\n".join(wrong[:40])


def after_cut(disk: Disk, way: Way, rng: random.Random, saved: Saved, image: Path, recorded: Recorded) -> str:
    """What is wrong with the store on one disk that a power cut may leave."""
    image.mkdir()
    try:
        disk.image(image, way, rng)
        store = image / recorded.store.relative_to(recorded.below)
        shared = store.with_name(store.name + "-shm")
        if shared.exists():  # written through memory, which no trace shows: anything
            shared.write_bytes(rng.randbytes(32768))
        return saved.missing_in(store)
    finally:
        shutil.rmtree(image)


def test_the_replay_would_notice(tmp_path: Path) -> None:
    """A disk that is flushed by nobody loses what was written; one that is flushed does not."""
    rng = random.Random(SEED)
    disk, file = Disk(tmp_path), str(tmp_path / "a")
    disk.take(0, Event("make", file, 0))
    disk.take(1, Event("write", file, 1, b"x" * 1500, 100))
    lengths = set()
    for number in range(40):
        image = tmp_path / str(number)
        image.mkdir()
        disk.image(image, WAYS[number % len(WAYS)], rng)
        lengths.add((image / "a").stat().st_size if (image / "a").exists() else None)
    assert lengths >= {None, 0, 1600} and len(lengths) > 3
    disk.take(2, Event("flush", file, 2))
    disk.take(3, Event("flush", str(tmp_path), 3))
    (tmp_path / "last").mkdir()
    disk.image(tmp_path / "last", "none", rng)
    assert (tmp_path / "last" / "a").read_bytes() == bytes(100) + b"x" * 1500
