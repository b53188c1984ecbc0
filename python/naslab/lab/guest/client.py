"""A running guest, as its user sees it: from the process that started it, or from any other by its folder."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.client import process
from naslab.client.process import Process
from naslab.errors import TargetError, UsageError
from naslab.lab import place
from naslab.lab.guest import attendant
from naslab.lab.guest.agent import Lines, encode, to_bytes, to_text
from naslab.lab.guest.spec import HOST, Spec

START_S = attendant.READY_S + 15
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Done:
    """How a command in a guest ended. elapsed_ns: by the guest's clock."""

    code: int
    out: bytes
    err: bytes
    elapsed_ns: int

    @property
    def text(self) -> str:
        """What it printed."""
        return self.out.decode(errors="replace")

    def words(self) -> str:
        """The end of what it said, as one line, to explain a failure."""
        said = (self.err or self.out).decode(errors="replace").strip().splitlines()[-3:]
        return " | ".join(said)[-400:] or f"it ended with code {self.code} and printed nothing"


@dataclass
class Guest:
    """A guest.

    folder: private, with the socket of its attendant and what its kernel says. net: path of its network's namespace,
    where the host is at HOST and the guest at `address`.
    """

    folder: Path
    address: str
    net: str
    attendant: Process
    _holder: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    # commands

    def run(
        self, command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str = "/", given: bytes = b"",
        check: bool = False, timeout_s: float | None = 120.0, on_output: Callable[[str, bytes], None] | None = None,
    ) -> Done:  # fmt: skip
        """Runs a command inside and waits for its end.

        given: its standard input. on_output: gets each piece of output (`out` or `err`, bytes) as it comes; Done then
        holds none. check: a code other than 0 raises. env goes over the guest's own (PATH, HOME, LC_ALL, TMPDIR).
        When this process ends, or after timeout_s, the command is killed with what it started in its session.
        Raises TargetError: no such program, the guest ended, time is up.
        """
        pieces: dict[str, list[bytes]] = {"out": [], "err": []}
        take = on_output or (lambda name, data: pieces[name].append(data))
        request = {"do": "run", "command": list(command), "cwd": cwd, "env": dict(env or {}), "input": to_text(given)}
        end = self._ask(request, timeout_s, take)
        done = Done(end["code"], b"".join(pieces["out"]), b"".join(pieces["err"]), end["elapsed_ns"])
        if check and done.code != 0:
            raise TargetError(f"guest: {' '.join(command)}: {done.words()}", before_run=True)
        return done

    def shell(self, lines: str, *, timeout_s: float | None = 120.0) -> Done:
        """Runs lines of sh, which stop at the first failure. Raises TargetError when they fail."""
        done = self.run(["/bin/sh", "-ec", lines], timeout_s=timeout_s)
        if done.code != 0:
            raise TargetError(f"guest: {lines.splitlines()[0]} ...: {done.words()}", before_run=True)
        return done

    def spawn(self, command: Sequence[str], log: str, *, env: Mapping[str, str] | None = None) -> int:
        """Starts a program that stays, its output into a file of the guest; its process id inside."""
        request = {"do": "run", "command": list(command), "env": dict(env or {}), "log": log}
        return int(self._ask(request, _ANSWER_S)["pid"])

    def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Writes a file inside, with the folders it lies in."""
        self._ask({"do": "write", "path": path, "data": to_text(data), "mode": mode}, _ANSWER_S)

    def read(self, path: str) -> bytes:
        """A small file of the guest's."""
        return to_bytes(self._ask({"do": "read", "path": path}, _ANSWER_S)["data"])

    def answers(self, port: int, host: str = "127.0.0.1", seconds: float = 15.0) -> bool:
        """Waits until something inside takes connections at this port; whether it does."""
        request = {"do": "port", "port": port, "host": host, "seconds": seconds}
        return bool(self._ask(request, seconds + _ANSWER_S)["data"])

    # life

    @property
    def is_up(self) -> bool:
        """Whether the guest runs and answers."""
        try:
            return bool(self._ask({"do": "state"}, _ANSWER_S)["data"]["up"])
        except TargetError:
            return False

    def kill(self) -> None:
        """A power cut: the guest is killed at once, what it had not yet written to its disks is lost."""
        self._ask({"do": "cut"}, _ANSWER_S)

    def boot(self) -> None:
        """Starts the guest again after `kill` or `halt`, on the same disks. Raises TargetError."""
        self._ask({"do": "boot"}, START_S)

    def halt(self) -> None:
        """Ends the guest in good order, disks unmounted; `boot` starts it again."""
        try:
            self._ask({"do": "stop"}, attendant.STOP_S)
        except TargetError:
            if self.is_up:
                self.kill()

    def wait(self, *, hold: bool = False) -> str:
        """Returns when the guest has ended, however; why, as far as it is known.

        hold: its power is cut when this process ends before.
        """
        return str(self._ask({"do": "hold" if hold else "wait"}, None)["data"])

    def stop(self) -> None:
        """Ends the guest with its attendant; nothing of it is left. May be called again."""
        if self._holder is not None and self._holder.stdin is not None:
            with contextlib.suppress(OSError):
                self._holder.stdin.close()
        process.send(self.attendant, signal.SIGTERM)
        if not process.wait_gone(self.attendant, 10):
            process.send(self.attendant, signal.SIGKILL)
            process.wait_gone(self.attendant, 10)
        if self._holder is not None:
            self._holder.wait()
            if self._holder.stdout is not None:
                self._holder.stdout.close()

    def facts(self) -> dict[str, Any]:
        """JSON types, for `from_facts` in another process."""
        return {"folder": str(self.folder), "address": self.address, "net": self.net, "attendant": self.attendant}

    def inside(self) -> list[str]:
        """Words before a command of the host that put it into the guest's network, at HOST."""
        return ["nsenter", f"--net={self.net}", "--"]

    def console(self) -> str:
        """All that its kernel has said."""
        return (self.folder / "console.log").read_text(encoding="utf-8", errors="replace")

    def _ask(
        self, request: dict[str, Any], timeout_s: float | None, take: Callable[[str, bytes], None] | None = None
    ) -> dict[str, Any]:
        """One request; its last answer. Raises TargetError."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            try:
                connection.connect(str(self.folder / attendant.SOCKET))
                connection.sendall(encode({**request, "id": 1}))
                for answer in _answers(connection):
                    for name in ("out", "err"):
                        if take is not None and name in answer:
                            take(name, to_bytes(answer[name]))
                    if "error" in answer:
                        raise TargetError(f"guest: {answer['error']}", before_run=True)
                    if answer.get("end"):
                        return answer
            except TimeoutError:
                raise TargetError(f"guest: no answer within {timeout_s:.0f} s", before_run=True) from None
            except OSError as error:
                raise TargetError(f"guest: its supervisor does not answer: {error.strerror}", before_run=True) from None
        raise TargetError("guest: its supervisor ended", before_run=True)


def _answers(connection: socket.socket) -> Iterator[dict[str, Any]]:
    lines = Lines()
    while data := connection.recv(1 << 18):
        yield from lines.feed(data)


def from_facts(facts: Mapping[str, Any]) -> Guest:
    """The guest that another process started."""
    return Guest(Path(facts["folder"]), facts["address"], facts["net"], Process(*facts["attendant"]))


def find(folder: Path) -> Guest:
    """The guest that lives in this folder. Raises TargetError where none does."""
    try:
        return from_facts(json.loads((folder / attendant.FACTS).read_text(encoding="ascii")))
    except (OSError, ValueError, KeyError, TypeError):
        raise TargetError(f"guest: no guest is running in {folder}", before_run=True) from None


def start(spec: Spec, folder: Path | None = None, *, fast: bool = False) -> Guest:
    """Starts a guest that ends with this process, or at its `stop`; returns when it is ready.

    folder: an empty one to live in, of whoever removes it; without it a private one is made (in memory with `fast`) and
    removed at the end. Raises UsageError, TargetError.
    """
    own = folder is None
    if own:
        place.sweep()
    home = place.new_folder(process.find(os.getpid()), fast, name="guest") if folder is None else folder
    child = subprocess.Popen(
        attendant.words(spec, home, own), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        me = process.find(child.pid)
        if own and me is not None:
            place.mark(home, me, name="guest")
        said = _first_words(child)
        if "error" in said:
            raise (UsageError if said["usage"] else TargetError)(said["error"])
    except BaseException:
        child.kill()
        child.communicate()
        if own:
            place.remove(home)
        raise
    found = from_facts(said["ready"])
    found._holder = child
    return found


def _first_words(child: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], START_S)
    line = child.stdout.readline() if ready else b""
    return dict(json.loads(line)) if line else {"error": "lab: the guest's supervisor does not answer", "usage": False}


@contextlib.contextmanager
def running(spec: Spec, folder: Path | None = None, *, fast: bool = False) -> Iterator[Guest]:
    """A guest for the time of a `with` block. Raises UsageError, TargetError."""
    guest = start(spec, folder, fast=fast)
    try:
        yield guest
    finally:
        guest.stop()


__all__ = ["HOST", "Done", "Guest", "find", "from_facts", "running", "start"]
