"""Running the real `naslab` as a user does, for tests of the command line."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HANG_S = 240.0
"""Seconds after which what did not end counts as hanging. Beside other programs a command of seconds takes a minute and
more: no test bounds the time that it takes."""
PROGRAM = [sys.executable, "-m", "naslab"]
SIM = "sim:?link_bytes_per_s=125MB&latency_ns=200us"
LONG_SIM = "sim:?link_bytes_per_s=125MB&latency_ns=200us&store_data=true"


TOOLS = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
"""PYTHONPATH of a program that uses modules of this folder."""
under_way: list[pytest.Item] = []
"""The test that runs, kept by conftest.py."""


def of_the_lab(what: str) -> None:
    """Fails unless the test that runs is the lab's: what it needs of the machine is not there everywhere."""
    if under_way and under_way[0].get_closest_marker("lab") is None:
        pytest.fail(f"{what}: what needs that is marked lab, so that `make test` runs the same tests everywhere")


def need(available: object, what: str) -> None:
    """Skips with a reason, or fails when the lab is required. What needs something of the machine is the lab's."""
    of_the_lab(what)
    if not available:
        (pytest.fail if os.environ.get("NASLAB_LAB_REQUIRED") == "1" else pytest.skip)(f"{what} is needed")


def may_trace() -> bool:
    """Whether strace is there and works here."""
    command = ["strace", "-o", os.devnull, "true"]
    return shutil.which("strace") is not None and subprocess.run(command, check=False).returncode == 0


@contextmanager
def captured(path: Path, ports: list[int], *more: str) -> Iterator[None]:
    """Captures on the loopback device while the context lasts; until all is in the file."""
    wanted = " or ".join(f"tcp port {port}" for port in ports)
    child = subprocess.Popen(
        ["dumpcap", "-q", "-i", "lo", "-B", "32", "-f", wanted, "-w", str(path), *more],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stderr is not None
    said = ""
    try:
        # It names the file once the device is open; without the right to capture it ends.
        while (line := child.stderr.readline()) and not line.startswith("File:"):
            said += line
        need(child.poll() is None and line, f"the right to capture on the loopback device ({said.strip()[-200:]})")
        yield
        before = -1
        while before != (now := path.stat().st_size):
            before = now
            time.sleep(0.5)
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=HANG_S)


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def ok(self) -> Done:
        """Itself, if it ended well and without a traceback."""
        assert self.code == 0, f"exit {self.code}\n{self.out}\n{self.err}"
        return self.sound()

    def sound(self) -> Done:
        """Itself, if nothing in it looks like a crash."""
        for text in (self.out, self.err):
            assert "Traceback" not in text and "panicked" not in text, text
        return self

    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


def called(
    words: Iterable[object], cwd: Path, env: dict[str, str], timeout: float = HANG_S, coarse: bool = False, **more: Any
) -> Done:
    """The program to its end. more: a `prefix` of other words, and what `subprocess.run` takes.

    coarse: no verdict is read, so that its sampler need not look for long; not in the lab.

    The lab's tests start it as users do; the others take it from a process that has imported everything, where that
    can make no difference: starting Python took most of their time.
    """
    said = [str(word) for word in words]
    lab = not under_way or under_way[0].get_closest_marker("lab") is not None
    if not lab and not more and (warm := _warm_for(env)):
        ended: Done = warm.start(cwd, env, *said, coarse=coarse).wait(timeout)
        return ended
    done = subprocess.run(
        [*more.pop("prefix", []), *PROGRAM, *said], check=False, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, cwd=cwd, env=env, timeout=timeout, **more,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


class Started(subprocess.Popen[str]):
    """The program under way. One that does not end when it shall says where it is."""

    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        try:
            return super().communicate(input, timeout)
        except subprocess.TimeoutExpired:
            self.send_signal(signal.SIGABRT)
            out, err = super().communicate(timeout=HANG_S)
            raise AssertionError(f"not ended after {timeout} s; it was here:\n{err}\n{out}") from None


class Cli:
    """Calls with a store of its own in `folder`; `target` is an empty folder there to measure."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store.sqlite"
        self.target = folder / "target"
        self.target.mkdir()
        self.env = {**os.environ, "NASLAB_STORE": str(self.store), "COLUMNS": "100"}

    def __call__(self, *words: object, **more: Any) -> Done:
        return called(words, **{"cwd": self.folder, "env": self.env, **more})

    def start(self, *words: object) -> Started:
        """The same without waiting."""
        return Started(
            [*PROGRAM, *map(str, words)], cwd=self.folder, env={**self.env, "PYTHONFAULTHANDLER": "1"}, text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default_signals,
        )  # fmt: skip

    def sweep(self, target: object, *words: object, **more: Any) -> Any:
        """The document of a small sweep that ended well."""
        small = ("--file-size", "64k,128k", "--record", "4k,64k")
        return self("sweep", target, *small, *words, "--json", **more).ok().json()

    def runs(self) -> list[Any]:
        """Documents of all stored runs, newest first, as `naslab runs --json` prints them; read in this process."""
        from naslab.results.store import Store

        with Store(self.env["NASLAB_STORE"]) as store:
            return [store.load(run.run_id).document for run in store.list_runs()]

    def cells_stored(self) -> int:
        """Cells in the store, read beside whoever writes."""
        try:
            with sqlite3.connect(f"file:{self.store}?mode=ro", uri=True) as db:
                found = db.execute("SELECT count(*) FROM cells").fetchone()[0]
            db.close()
        except sqlite3.Error:
            return 0
        return int(found)


_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "MALLOC", "OPENBLAS", "OMP")
"""Beginnings of the names of variables that are read when a program starts."""


def _warm_for(environment: dict[str, str]) -> Any:
    """The process that commands are forked from; None where one would not be as one started anew."""
    changed = any(name.startswith(_AT_START) for name, _ in environment.items() ^ os.environ.items())
    alone = threading.current_thread() is threading.main_thread()
    return _warm(os.getpid()) if alone and not changed else None


@functools.cache
def _warm(pid: int) -> Any:
    """That of this process."""
    from warm import Warm

    folder = Path(tempfile.mkdtemp(prefix="naslab-warm."))
    warm = Warm(folder)

    def cool() -> None:
        if os.getpid() == pid:
            warm.close()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(cool)
    return warm


def default_signals() -> None:
    """A shell starts what runs in its background with Ctrl-C ignored, and children inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def wait_until(condition: Callable[[], object], child: subprocess.Popen[str], what: str) -> None:
    """Waits for a moment in the life of `child`. Fails when it ended before, or after `HANG_S`."""
    deadline = time.monotonic() + HANG_S
    while not condition():
        if child.poll() is not None:
            raise AssertionError(f"ended before {what}: {child.communicate()}")
        if time.monotonic() > deadline:
            child.kill()
            raise AssertionError(f"no {what} within a minute: {child.communicate()}")
        time.sleep(0.01)


def snapshot(folder: Path) -> dict[str, Any]:
    """All that lies below a folder: kind, mode, contents or link, and time of change of files."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = entry(path)
    return found


def entry(path: Path) -> tuple[Any, ...]:
    """What lies at a path: kind, mode, contents or link, and time of change of a file."""
    status = path.lstat()
    if path.is_symlink():
        return "link", os.readlink(path)
    if path.is_dir():
        return "folder", status.st_mode
    return "file", status.st_mode, status.st_mtime_ns, path.read_bytes()


def populate(folder: Path) -> dict[str, Any]:
    """Things of the user that naslab must not touch; their snapshot."""
    (folder / "photos").mkdir()
    (folder / "photos" / "one.jpg").write_bytes(os.urandom(5000))
    (folder / "naslab.sweep").write_bytes(b"a file of the user with a name of ours")
    (folder / "naslab-xyz").mkdir()
    (folder / "naslab-xyz" / "naslab.sweep").write_bytes(b"a folder without a mark")
    (folder / "naslab-empty").mkdir()
    (folder / "naslab-file").write_text("not a folder")
    (folder / "link").symlink_to("photos")
    (folder / "naslab-link").symlink_to("photos")
    return snapshot(folder)


def run_folders(path: Path) -> list[str]:
    """Names of the folders that runs made below `path` and did not remove."""
    return sorted(each.name for each in path.iterdir() if each.name.startswith("naslab-"))
