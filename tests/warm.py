"""naslab's commands as real processes that begin at once: forked from one that has imported everything.

Run as a program it is that process: requests come as lines of JSON, answers go the same way.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli_tools import HANG_S, TOOLS, Done

EXTRA = (
    "openpyxl", "rich.live", "rich.progress", "rich.table", "typer._adapters",
)  # fmt: skip
"""What commands import at their first use, beside naslab's own modules."""
TOLD = "NASLAB_TESTS_TOLD"
"""Names the file that gets a line for whatever is in the store: `add_cell RUN CELL`, `create_run RUN`, …"""
COARSE = 100
"""Particles of a posterior that nobody reads."""
ENDING = (signal.SIGINT, signal.SIGTERM)


class Warm:
    """The process that forks. Used by one thread."""

    def __init__(self, folder: Path, *, watched: bool = False) -> None:
        """folder: for what it and its commands write. watched: the store tells, and some disks take nothing."""
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import warm; warm.serve({watched})"], cwd=folder, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": TOOLS, "COLUMNS": "100"},
        )  # fmt: skip
        self.mounted = bool(self._answer()["mounted"])
        """Whether the folders `full` and `readonly` are what their names say, for the commands."""

    @property
    def inside(self) -> Path:
        """The file tree as commands see it."""
        return Path(f"/proc/{self._process.pid}/root")

    def start(self, folder: Path, environment: dict[str, str], *words: str, coarse: bool = False) -> Command:
        """Begins a command, which has this environment and no other. coarse: see `look_coarsely`."""
        asked = {"words": words, "folder": str(folder), "environment": environment, "said": str(self._folder),
                 "coarse": coarse}  # fmt: skip
        pid = self._ask(asked)["pid"]
        return Command(self, pid, self._folder / f"out-{pid}", self._folder / f"err-{pid}", words)

    def wait(self, pid: int, hang_s: float = HANG_S) -> int | None:
        """The exit code of a command; None, and its end, where it hangs. Negative: the signal it died of."""
        print(json.dumps({"wait": pid}), file=self._process.stdin, flush=True)
        if not select.select([self._process.stdout], [], [], hang_s)[0]:
            os.kill(pid, signal.SIGKILL)
            self._answer()
            return None
        return int(self._answer()["code"])

    def close(self) -> None:
        """Ends it."""
        self._process.communicate(timeout=HANG_S)

    def _ask(self, request: dict[str, Any]) -> Any:
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@dataclass
class Command:
    """A command under way, or ended."""

    server: Warm
    pid: int
    out: Path
    err: Path
    words: tuple[str, ...]
    done: Done | None = field(default=None)

    def wait(self, hang_s: float = HANG_S) -> Done:
        """How it ended. One that hangs is killed, and fails the test."""
        if self.done is None:
            code = self.server.wait(self.pid, hang_s)
            assert code is not None, f"{self.words} hangs"
            self.done = Done(code, _taken(self.out), _taken(self.err))
        return self.done

    def send(self, number: int) -> Done:
        """Sends a signal, and waits for the end."""
        os.kill(self.pid, number)  # it is not reaped before `wait`
        return self.wait()


def _taken(path: Path) -> str:
    """What a command said; one that was killed at once made no files."""
    text = path.read_text("utf-8") if path.exists() else ""
    path.unlink(missing_ok=True)
    return text


def serve(watched: bool) -> None:
    """Answers requests until there are none."""
    for number in (*ENDING, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _import_all()
    _cache_parsers()
    if watched:
        _tell_of_the_store()
    _say(mounted=watched and _mount())
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            _say(code=os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]))
            continue
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # before a program has begun there is nothing to interrupt
        if pid := os.fork():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            _say(pid=pid)
        else:
            _become(request)


def _say(**answer: object) -> None:
    print(json.dumps(answer), flush=True)


def _import_all() -> None:
    """Imports what commands import; none of it begins a thread of Python."""
    import naslab

    # Dask reads its settings from the environment when it is imported, and a command may have others.
    apart = ("naslab.__main__", "naslab.execution.clients.")
    found = pkgutil.walk_packages(naslab.__path__, "naslab.")
    names = [each.name for each in found if not each.name.startswith(apart)]
    for name in (*names, *EXTRA):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert threading.active_count() == 1, threading.enumerate()


def _cache_parsers() -> None:
    """Typer makes each command's parser from what never changes."""
    from naslab.cli.build import all_parsers

    all_parsers()


def _tell_of_the_store() -> None:
    """Whatever the store has taken is told by a line."""
    from naslab.results.store import Store

    for name in ("create_run", "add_cell", "finish_run", "reopen_run", "delete_run"):
        setattr(Store, name, _telling(name, getattr(Store, name)))


def _telling(name: str, real: Any) -> Any:
    def told_of(self: Any, run: Any, *rest: Any, **more: Any) -> Any:
        found = real(self, run, *rest, **more)
        if str(self.path) != os.environ["NASLAB_STORE"]:
            return found
        word = rest[0]["id"] if name == "add_cell" else rest[0] if rest and name == "finish_run" else ""
        file = os.open(os.environ[TOLD], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{os.getpid()} {name} {found or run} {word}\n".encode())
        os.close(file)
        return found

    return told_of


def _mount() -> bool:
    """Makes `full` (256 KiB) and `readonly`, which only this process and its children see, and which end with them."""
    for name in ("full", "readonly"):
        Path(name).mkdir()
    Path("readonly/precious").write_text("on a disk that may not be written")
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(0x20000) != 0:
        return False
    here = os.getcwd()
    commands = (
        ("mount", "--make-rprivate", "/"), ("mount", "-t", "tmpfs", "-o", "size=256k", "none", f"{here}/full"),
        ("mount", "--bind", f"{here}/readonly", f"{here}/readonly"),
        ("mount", "-o", "remount,bind,ro", f"{here}/readonly"),
    )  # fmt: skip
    if any(subprocess.run(words, check=False, capture_output=True).returncode for words in commands):
        return False
    Path("full/precious").write_text("on a disk that is nearly full")
    return True


def _become(request: dict[str, Any]) -> None:
    """Is the command from now on."""
    code = 1
    try:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        said = Path(request["said"])
        _redirect(said / f"out-{os.getpid()}", said / f"err-{os.getpid()}")
        sys.stdin = os.fdopen(0)
        sys.argv = ["naslab", *request["words"]]
        from naslab import cli

        if request["coarse"]:
            look_coarsely()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        cli.entry()
    except KeyboardInterrupt:  # before the first line of naslab's own
        code = 130
        print("naslab: interrupted", file=sys.stderr)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def look_coarsely() -> None:
    """Posteriors by one short run of the sampler: seconds less for each command whose verdict nobody reads."""
    from naslab.explain import any_run, inference

    whole = inference._inferred
    inference._inferred = lambda rows, runs, count: whole(rows, 1, COARSE)
    any_run.RUNS, any_run.PARTICLES = 1, COARSE


def _redirect(out: Path, err: Path) -> None:
    for number, path in ((0, Path(os.devnull)), (1, out), (2, err)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
