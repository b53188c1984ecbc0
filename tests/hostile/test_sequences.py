"""Random sequences of commands, kills, faults and resumes against a simple model of store, folder and processes.

Commands are real processes on one store and one folder that also holds files of others. After every step the store is
sound and holds each cell that it ever took, files of others are as they were, folders of runs are those of runs that
live or were killed, each command ended as the manual says, and none with a traceback. A failure is shrunk and printed
as a script.

`NASLAB_HOSTILE_SEQUENCES=N` tries so many; `NASLAB_HOSTILE_SEED` others.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from cli_tools import Done, entry, need, populate
from naslab.errors import INTERRUPTED
from naslab.results.store import Store
from warm import TOLD, Command, Warm

SEQUENCES = int(os.environ.get("NASLAB_HOSTILE_SEQUENCES", "6"))
SEED = int(os.environ.get("NASLAB_HOSTILE_SEED", "21"))
MOST_STEPS = 10
RUN_FOLDER = re.compile(r"naslab-(\d{8}-\d{6}-[a-z2-9]{4})")
FOLDER = "target"
SHORT = (
    "sweep target --file-size 64k --record 4k,64k", "sweep null: --file-size 64k --record 64k --repeat 2",
    "sweep sim:?latency_ns=200us --file-size 64k --record 64k", "tree target --files 20 --depth-of-tree 1 --fan-out 2",
    "sustained target --size 1m --duration 100ms --write 50",
)  # fmt: skip
"""End well in less than a second."""
LONG = (
    "sweep target --file-size 64k,512k --record 4k,64k --durability each --repeat 60",
    "sweep target --file-size 64k --record 64k --repeat 1000",
    "tree target --files 20000 --depth-of-tree 2 --fan-out 5",
    "sustained target --size 16m --duration 30s --write 100", "run target --budget 30s",
)  # fmt: skip
"""Are cut short."""
READS = (
    "runs", "runs --json", "show {run}", "show {run} --json", "explain {run}", "explain {run} --json", "audit {run}",
    "export {run} -o {new}.json", "export {run} -o {new}.csv", "report {run} -o {new}.html",
)  # fmt: skip
REFUSED = (
    "show 20200101-000000-none", "sweep --resume 20200101-000000-none", "sweep target --record 0", "clean nowhere",
    "sweep target/photos/one.jpg", "export {run} -o nowhere/x.csv", "show --jsno",
)  # fmt: skip
ON_DISKS = (
    "sweep {disk} --file-size 64k --record 64k", "tree {disk} --files 20 --depth-of-tree 1 --fan-out 2",
    "sustained {disk} --size 1m --duration 100ms --write 100",
    "sweep null: --file-size 64k --record 64k --store {disk}/s",
    "sweep {disk} --file-size 64k --record 64k --adaptive", "export {run} -o {disk}/x.json", "clean {disk}",
)  # fmt: skip
CUT = (*SHORT, *LONG, *READS, f"clean {FOLDER}", "sweep --resume {run}")
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


@dataclass
class Known:
    """A run that the store took. ended: the status that the store was given last; cells: those that are in it."""

    pid: int
    ended: str = ""
    cells: set[int] = field(default_factory=set)


@dataclass
class Live:
    """A command under way. orphan: its store was removed."""

    process: Command
    number: int
    orphan: bool = False


class World:
    """One store and one folder, and what is known of them; `warm` begins the commands."""

    def __init__(self, warm: Warm, folder: Path) -> None:
        self.warm, self.folder, self.target, self.store = warm, folder, folder / FOLDER, folder / "runs.sqlite"
        self.target.mkdir()
        self.foreign = populate(self.target)
        self.runs: dict[str, Known] = {}
        self.live: list[Live] = []
        self.script: list[str] = []
        self.names = itertools.count()
        self._told = 0
        self.orphans: dict[str, int] = {}
        """Runs whose store was removed, and their processes."""
        self._orphaned: set[int] = set()

    def start(self, line: str) -> Command:
        """Begins a command line."""
        environment = {**os.environ, "NASLAB_STORE": str(self.store), TOLD: str(self.folder / "told"), "COLUMNS": "100"}
        return self.warm.start(self.folder, environment, *line.split())

    def run(self, line: str) -> Done:
        """A command line to its end."""
        self.script.append(f"naslab {line}")
        return self.ended(self.start(line))

    def ended(self, process: Command) -> Done:
        """How a command ended: in no way with a traceback, and with one of the exit codes of the manual."""
        done = process.wait()
        for text in (done.out, done.err):
            if "Traceback" in text or "panicked" in text:
                self.fail(f"{process.words}: {text}")
        if done.code not in (0, 1, 2, INTERRUPTED, -signal.SIGKILL, -signal.SIGTERM):
            self.fail(f"{process.words}: exit {done.code}: {done.err}")
        if done.code in (1, 2, INTERRUPTED) and not done.err and process.words[0] not in ("clean", "audit"):
            self.fail(f"{process.words}: exit {done.code}, and nobody knows why")
        if done.code == 0 and "--json" in process.words:
            try:
                json.loads(done.out)
            except ValueError as error:
                self.fail(f"{process.words}: {error}: {done.out}")
        self.hear()
        return done

    def hear(self) -> None:
        """What commands told of the store since."""
        path = self.folder / "told"
        text = path.read_text("utf-8") if path.exists() else ""
        whole = text.rpartition("\n")[0]
        for line in whole[self._told :].strip("\n").splitlines():
            pid, what, run_id, *word = line.split()
            if int(pid) in self._orphaned:
                self.orphans[run_id] = int(pid)
                continue
            if what == "delete_run":
                self.runs.pop(run_id, None)
                continue
            # A process may be killed when the store has its run, and before it says so.
            run = self.runs.setdefault(run_id, Known(int(pid)))
            if what == "add_cell":
                run.cells.add(int(word[0]))
            else:
                run.pid, run.ended = int(pid), word[0] if what == "finish_run" else ""
        self._told = len(whole)

    def ask_store(self, process: Command) -> None:
        """What a command that was cut short did and could not tell any more."""
        with Store(self.store) as store:
            found = store.rows("SELECT run_id, status, owner FROM runs")
        for run_id, status, owner in found:
            known = self.runs.get(run_id)
            # Runs that ended have no owner any more.
            pid = json.loads(owner)["pid"] if owner else known.pid if known else process.pid
            if pid == process.pid:
                self.runs.setdefault(run_id, Known(pid)).ended = "" if status == "running" else status

    def run_of(self, process: Command) -> str | None:
        """The id of the run that a command measures."""
        return next((run_id for run_id, run in self.runs.items() if run.pid == process.pid), None)

    def forget_store(self) -> None:
        """The store was removed, under those that live."""
        self.hear()
        self.orphans.update({run_id: run.pid for run_id, run in self.runs.items()})
        self.runs.clear()
        for each in self.live:
            each.orphan = True
            self._orphaned.add(each.process.pid)

    def folders(self) -> set[str]:
        """Ids of the runs whose folders are in the target."""
        return {found[1] for each in self.target.iterdir() if (found := RUN_FOLDER.fullmatch(each.name))}

    def check(self) -> None:
        """All that is always so."""
        self.hear()
        found = self._of_others()
        if found != self.foreign:
            changed = {name for name in {*found, *self.foreign} if found.get(name) != self.foreign.get(name)}
            self.fail(f"files of others changed, vanished or appeared: {sorted(changed)}")
        if self.runs:
            self._check_store()

    def _of_others(self) -> dict[str, Any]:
        """All in the target but what runs make in their folders, which changes while it is looked at."""
        found: dict[str, Any] = {}
        for path in walk(self.target):
            name = str(path.relative_to(self.target))
            if RUN_FOLDER.fullmatch(name.partition("/")[0]) and name not in self.foreign:
                continue
            found[name] = entry(path)
        return found

    def _check_store(self) -> None:
        try:
            self._check_cells()
        except sqlite3.Error as error:
            self.fail(f"the store cannot be read: {error}, {sorted(os.listdir(self.folder))}")
        with Store(self.store) as store:
            status = {run.run_id: run.status for run in store.list_runs()}
        if lost := self.runs.keys() - status.keys():
            self.fail(f"runs are lost: {lost}")
        living = {each.process.pid for each in self.live}
        for run_id, run in self.runs.items():
            if (run.ended and status[run_id] != run.ended) or (status[run_id] == "running" and run.pid not in living):
                self.fail(f"run {run_id} is {run.ended or 'gone'} and reads as {status[run_id]}")

    def _check_cells(self) -> None:
        with contextlib.closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as db:
            if (said := db.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
                self.fail(f"the store is damaged: {said}")
            cells = set(db.execute("SELECT run_id, cell_id FROM cells").fetchall())
        if lost := {(run_id, cell) for run_id, run in self.runs.items() for cell in run.cells} - cells:
            self.fail(f"{len(lost)} cells are lost: {sorted(lost)[:5]}")

    def check_folders(self, allowed: set[str]) -> None:
        """No folders of runs but these."""
        kept = {found[1] for name in self.foreign if (found := RUN_FOLDER.match(name.partition("/")[0]))}
        if left := self.folders() - allowed - kept:
            self.fail(f"folders of runs that ended: {left}")

    def fail(self, why: str) -> NoReturn:
        """Fails with the script until here."""
        raise AssertionError("\n".join([why, "", *self.script]))


def walk(folder: Path) -> Iterator[Path]:
    """All below a folder; what is deep in the folder of a run may vanish meanwhile, and is left out."""
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from sorted(path.iterdir()) if RUN_FOLDER.fullmatch(path.name) else walk(path)


class Sequence:
    """The commands, and what goes wrong around them. Each step may follow each other."""

    def __init__(self, warm: Warm) -> None:
        self.warm = warm
        self.place = Path(tempfile.mkdtemp(prefix="naslab-sequence."))
        self.world = World(warm, self.place)
        self.killed: set[str] = set()
        """Ids of runs whose folders may lie there: their process was killed, or something of others is in them."""

    # commands that end

    def measure(self, line: str, how: str) -> None:
        self._whole([self.world.run(line + how)], how)

    def measure_two_at_once(self, lines: tuple[str, str]) -> None:
        self.world.script.append(" & ".join(f"naslab {line} --quiet" for line in lines) + "; wait")
        begun = [self.world.start(f"{line} --quiet") for line in lines]
        self._whole([self.world.ended(each) for each in begun], " --quiet")

    def _whole(self, ended: list[Done], how: str) -> None:
        for done in ended:
            if done.code != 0 or (how == " --quiet" and done.out + done.err):
                self.world.fail(f"exit {done.code}: {done.out}{done.err}")
            if how == " --json":
                found = json.loads(done.out)
                run = self.world.runs[found["run_id"]]
                if found["status"] != "complete" or {cell["id"] for cell in found["cells"]} != run.cells:
                    self.world.fail(f"{found['status']}, cells {[cell['id'] for cell in found['cells']]}")

    def read(self, line: str, pick: int) -> None:
        run_id, run = self._picked(pick)
        done = self.world.run(line.format(run=run_id, new=f"new{next(self.world.names)}"))
        whole = run is not None and run.ended == "complete"
        if (line.startswith("runs") or whole) and done.code != 0 and not line.startswith("audit"):
            self.world.fail(f"exit {done.code}: {done.err}")
        # One that was begun before its store was removed, and had not opened it yet, makes a new one.
        late = any(each.orphan for each in self.world.live)
        if run is None and not late and not line.startswith("runs") and done.code != 2:
            self.world.fail(f"exit {done.code} without any run: {done.out}")

    def _picked(self, pick: int) -> tuple[str, Known | None]:
        if not self.world.runs:
            return "last", None
        run_id = sorted(self.world.runs)[pick % len(self.world.runs)]
        return run_id, self.world.runs[run_id]

    def refused(self, line: str) -> None:
        before = set(self.world.runs)
        done = self.world.run(line.format(run="last"))
        if done.code != 2 or done.out or set(self.world.runs) != before:
            self.world.fail(f"exit {done.code}, not refused: {done.out}{done.err}")

    def on_a_disk_that_takes_nothing(self, line: str, disk: str) -> None:
        if not self.warm.mounted:
            return
        place = DISKS[0] / disk
        inside = self.warm.inside / str(place).lstrip("/")
        done = self.world.run(line.format(disk=place, run="last"))
        ends_well = line.startswith("clean") or (disk == "full" and done.code == 0)
        if (done.code == 0) != ends_well or "no run '" in done.err.replace("no run 'last'", ""):
            self.world.fail(f"exit {done.code} on a {disk} disk: {done.err}")
        left = {each.name for each in inside.iterdir()}
        if any(RUN_FOLDER.fullmatch(name) for name in left) or not (inside / "precious").read_text():
            self.world.fail(f"left on the {disk} disk: {left}")
        for name in left - {"precious"}:
            os.unlink(inside / name)

    def clean(self, how: str) -> None:
        done = self.world.run(f"clean {FOLDER}{how}")
        kept = {found[1] for name in self.world.foreign if (found := RUN_FOLDER.match(name.partition("/")[0]))}
        living = self._living()
        self.world.check_folders(living)
        if done.code != (1 if kept - living else 0):
            self.world.fail(f"exit {done.code}: {done.out}{done.err}")
        self.killed = set()

    def resume(self, pick: int, budget: str) -> None:
        run_id, run = self._picked(pick)
        before = None if run is None else (run.ended, run.pid)
        done = self.world.run(f"sweep --resume {run_id} --budget {budget} --quiet")
        living = {each.process.pid for each in self.world.live}
        late = any(each.orphan for each in self.world.live)
        if (
            (run is None and not late) or (before and (before[0] == "complete" or before[1] in living))
        ) and done.code != 2:
            self.world.fail(f"exit {done.code}, not refused")
        if done.code == 1:
            self.world.fail(f"exit 1: {done.err}")

    # processes that are cut short

    def begin(self, line: str, cells: int) -> None:
        if len(self.world.live) == 2:
            return
        number = next(self.world.names)
        self.world.script.append(f"naslab {line} --quiet & # {number}, until it has {cells} cells")
        live = Live(self.world.start(f"{line} --quiet"), number)
        self.world.live.append(live)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            self.world.hear()
            run_id = self.world.run_of(live.process)
            if run_id and len(self.world.runs[run_id].cells) >= cells:
                break
            time.sleep(0.01)

    def end(self, pick: int, number: signal.Signals, after_ms: int) -> None:
        if not self.world.live:
            return
        live = self.world.live.pop(pick % len(self.world.live))
        self.world.script.append(f"sleep {after_ms / 1000}; kill -{number.name[3:]} {live.number}; wait")
        time.sleep(after_ms / 1000)
        self._end(live, number)

    def cut(self, line: str, number: signal.Signals, after_ms: int) -> None:
        named = next(self.world.names)
        line = line.format(run="last", new=f"new{named}")
        self.world.script.append(f"naslab {line} & sleep {after_ms / 1000}; kill -{number.name[3:]} $!; wait")
        process = self.world.start(line)
        time.sleep(after_ms / 1000)
        self._end(Live(process, named), number)

    def _end(self, live: Live, number: signal.Signals) -> None:
        os.kill(live.process.pid, number)
        done = self.world.ended(live.process)
        if not live.orphan:
            self.world.ask_store(live.process)
        run_id = self.world.run_of(live.process)
        if number == signal.SIGKILL:
            self.killed |= self.world.folders() - self._living()
        elif done.code not in (0, 1, 2, INTERRUPTED, -signal.SIGTERM) or (live.orphan and done.code == 0):
            self.world.fail(f"exit {done.code} after {number.name}: {done.err}")
        elif run_id and not live.orphan and not self.world.runs[run_id].ended:
            self.world.fail(f"{number.name}, and the run was left as it was: exit {done.code}, {done.err}")

    # what others do

    def put_a_file(self, pick: int, inside: bool) -> None:
        folders = sorted(self.world.folders())
        name = f"naslab-{folders[pick % len(folders)]}/thesis" if inside and folders else f"naslab.data{pick}"
        self._put(name)

    def put_a_folder_of_another_machine(self, mark: bool) -> None:
        folder = self.world.target / "naslab-photos-of-2020"
        if not folder.exists():
            folder.mkdir()
            self.world.foreign["naslab-photos-of-2020"] = ("folder", folder.lstat().st_mode)
        self._put("naslab-photos-of-2020/naslab-owner.json" if mark else "naslab-photos-of-2020/naslab.data")

    def _put(self, name: str) -> None:
        path = self.world.target / name
        with contextlib.suppress(FileNotFoundError):
            path.write_text('{"naslab_run": "20200101-000000-aaaa", "host": "elsewhere"}')
            self.world.script.append(f"echo … > {FOLDER}/{name}")
            status = path.lstat()
            self.world.foreign[name] = ("file", status.st_mode, status.st_mtime_ns, path.read_bytes())

    def remove_the_store(self) -> None:
        self.world.script.append(f"rm -f {self.world.store.name}*")
        for path in self.place.glob(f"{self.world.store.name}*"):
            path.unlink(missing_ok=True)
        self.world.forget_store()

    # what is always so

    def _living(self) -> set[str]:
        """Ids of runs whose process is under way."""
        self.world.hear()
        pids = {each.process.pid for each in self.world.live}
        known = {run_id: run.pid for run_id, run in self.world.runs.items()} | self.world.orphans
        return {run_id for run_id, pid in known.items() if pid in pids}

    def all_is_well(self) -> None:
        for each in list(self.world.live):
            if (done := self._gone(each)) is not None:
                self.world.live.remove(each)
                self.world.hear()
                run_id = self.world.run_of(each.process)
                # On an idle machine one may be through.
                if done.code != 0 or run_id is None or self.world.runs[run_id].ended != "complete":
                    self.world.fail(f"{each.process.words} ended by itself: exit {done.code}: {done.err}")
        self.world.check()
        self.world.check_folders(self.killed | self._living())

    def _gone(self, live: Live) -> Done | None:
        stat = Path(f"/proc/{live.process.pid}/stat").read_text()
        return live.process.wait() if stat.rpartition(")")[2].split()[0] == "Z" and not live.orphan else None

    def close(self) -> None:
        try:
            while self.world.live:
                live = self.world.live.pop()
                if live.process.done is None:
                    live.process.send(signal.SIGKILL)
        finally:
            shutil.rmtree(self.place)


DISKS: list[Path] = []
"""Where the disks that take nothing are."""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    folder = tmp_path_factory.mktemp("warm")
    found = Warm(folder, watched=True)
    DISKS[:] = [folder]
    yield found
    found.close()


STEPS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "measure": lambda rng: {"line": rng.choice(SHORT), "how": rng.choice(("", " --json", " --quiet"))},
    "measure_two_at_once": lambda rng: {"lines": (rng.choice(SHORT), rng.choice(SHORT))},
    "read": lambda rng: {"line": rng.choice(READS), "pick": rng.randrange(6)},
    "refused": lambda rng: {"line": rng.choice(REFUSED)},
    "on_a_disk_that_takes_nothing": lambda rng: {
        "line": rng.choice(ON_DISKS), "disk": rng.choice(("full", "readonly"))
    },
    "clean": lambda rng: {"how": rng.choice(("", " --json"))},
    "resume": lambda rng: {"pick": rng.randrange(6), "budget": rng.choice(("100ms", "500ms"))},
    "begin": lambda rng: {"line": rng.choice(LONG), "cells": rng.randrange(5)},
    "end": lambda rng: {"pick": rng.randrange(2), "number": rng.choice(SIGNALS), "after_ms": rng.randrange(400)},
    "cut": lambda rng: {"line": rng.choice(CUT), "number": rng.choice(SIGNALS), "after_ms": rng.randrange(400)},
    "put_a_file": lambda rng: {"pick": rng.randrange(4), "inside": rng.random() < 0.5},
    "put_a_folder_of_another_machine": lambda rng: {"mark": rng.random() < 0.5},
    "remove_the_store": lambda _: {},
}  # fmt: skip
"""Names of the methods that are steps, and what each is given."""
OFTEN = ("begin", "begin", "end", "end", "cut", "clean", "resume")
Steps = list[tuple[str, dict[str, Any]]]


def drawn(number: int) -> Steps:
    """The steps of a sequence."""
    rng = random.Random(f"{SEED} {number}")
    names = (*STEPS, *OFTEN)
    return [(name, STEPS[name](rng)) for name in rng.choices(names, k=rng.randint(2, MOST_STEPS))]


def failure(warm: Warm, steps: Steps) -> str:
    """What is wrong with a sequence, nothing where all is well."""
    sequence = Sequence(warm)
    try:
        for name, given in steps:
            getattr(sequence, name)(**given)
            sequence.all_is_well()
    except AssertionError as error:
        return str(error)
    finally:
        sequence.close()
    return ""


def shrunk(warm: Warm, steps: Steps, why: str) -> tuple[Steps, str]:
    """Fewer steps that fail, too. Each try is made twice, for not every moment of a kill is a bad one."""
    at = len(steps)
    while (at := at - 1) >= 0:
        fewer = steps[:at] + steps[at + 1 :]
        if found := failure(warm, fewer) or failure(warm, fewer):
            steps, why = fewer, found
    return steps, why


@pytest.mark.timeout(600 + 30 * SEQUENCES)
def test_sequences(warm: Warm) -> None:
    wrong: list[str] = []
    for number in range(SEQUENCES):
        steps = drawn(number)
        if why := failure(warm, steps):
            fewer, why = shrunk(warm, steps, why)
            wrong.append(f"sequence {number} of seed {SEED}, {len(fewer)} of {len(steps)} steps: {why}")
            print(wrong[-1], flush=True)
        if number % 25 == 24:
            print(f"{number + 1} of {SEQUENCES} sequences of seed {SEED}, {len(wrong)} failed", flush=True)
    assert not wrong, f"{len(wrong)} of {SEQUENCES} sequences fail:\n\n" + "\n\n".join(wrong)


@pytest.mark.parametrize("loss", ["cells", "foreign", "folder"])
def test_a_broken_promise_would_be_noticed(loss: str, warm: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a wrong program would do is done here: the model sees it, and nothing else is left in the script."""

    def spoil(self: Sequence) -> None:
        if loss == "cells" and self.world.runs:
            with contextlib.closing(sqlite3.connect(self.world.store)) as db, db:
                db.execute("DELETE FROM cells")
        elif loss == "foreign":
            (self.world.target / "photos" / "one.jpg").write_bytes(b"")
        elif loss == "folder":
            (self.world.target / "naslab-20200101-000000-aaaa").mkdir()

    measure = ("measure", {"line": SHORT[0], "how": " --quiet"})
    monkeypatch.setattr(Sequence, "spoil", spoil, raising=False)
    steps: Steps = [("refused", {"line": REFUSED[0]}), measure, ("clean", {"how": ""}), ("spoil", {})]
    why = failure(warm, steps)
    assert why
    fewer, why = shrunk(warm, steps, why)
    assert [name for name, _ in fewer] == (["measure", "spoil"] if loss == "cells" else ["spoil"]), why


WRITING = (
    "sweep {} --file-size 64k --record 64k", "sweep {} --adaptive", "tree {} --files 20", "run {} --budget 50ms",
    "sustained {} --size 1m --duration 100ms", "curve {} --size 1m --budget 1s", "profile {} --size 128m --budget 5s",
    "apps {} --budget 5s", "job {} copy-in,copy-out --corpus sources --scale 0.01",
)  # fmt: skip


@pytest.mark.parametrize("line", WRITING)
def test_the_cause_is_told_where_a_folder_may_not_be_written(line: str, warm: Warm, tmp_path: Path) -> None:
    need(warm.mounted, "the right to mount")
    environment = {"NASLAB_STORE": str(tmp_path / "s"), TOLD: str(tmp_path / "told")}
    done = warm.start(tmp_path, environment, *line.format(DISKS[0] / "readonly").split(), "--quiet").wait().sound()
    assert done.code == 2 and "it is read-only" in done.err, done
