"""`python -m naslab.lab.guardian`: starts one server, and sees to it that it ends.

It reads a request as JSON on standard input and answers with one line of JSON when the server answers, or why
it does not. From then on it waits: for the end of its controller (the process that asked, by its id and start
time; kill -9 included), or for SIGTERM. Then it kills the server with everything the server started, and
removes its folder. SIGUSR1 starts the server anew on the same ports; SIGUSR2 lets it outlive the controller.

If the guardian itself is killed the kernel kills the server (PR_SET_PDEATHSIG, and a process namespace where one
can be had); the folder is then removed by whoever uses the lab next.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from naslab.client import process
from naslab.errors import NaslabError, TargetError, UsageError
from naslab.lab import place as places
from naslab.lab.place import Place, Service
from naslab.lab.readiness import answers, last_words
from naslab.lab.systems import System, defined, search_path, system

KEEPER_S = 12.0
"""How long a keeper may take to end."""
_ATTEMPTS = 3
"""Starts that are tried, each with other ports: another program may take one in between."""


class Guardian:
    """One server's life."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.system = _system_of(request)
        self.options = self.system.make_options(request["options"])
        self.own_data = Path(request["folder"]) if request["folder"] else None
        self.fast = bool(request["fast"])
        self.name = str(request["name"])
        given = request.get("definition")
        self.described = {} if given is None else {"definition": {**given, "chosen": request["options"]}}
        self.service: Service | None = None
        self.child: subprocess.Popen[bytes] | None = None
        self.keeper: subprocess.Popen[bytes] | None = None
        self.folder: Path | None = None
        self.prefix = _namespaces() if self.system.namespaces else []

    def start(self) -> dict[str, Any]:
        """Starts the server; its facts. Raises NaslabError."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._attempt()
            except TargetError:
                self.end()
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _attempt(self) -> dict[str, Any]:
        me = process.find(os.getpid())
        assert me is not None
        self.folder = places.new_folder(me, self.fast, name=self.name)
        self.service = self.system.prepare(self._place(), self.options)
        if self.service.keeper:
            self._start_keeper(self.service.keeper, self.service.keeper_ready_s)
        self.launch()
        facts = {
            **self.service.facts, "name": self.name, "folder": str(self.folder), "guardian": me,
            "data": str(self.own_data or self.folder / "data"), "log": str(self.service.log), **self.described,
        }  # fmt: skip
        places.mark(self.folder, me, name=self.name, facts=facts)
        return facts

    def _place(self) -> Place:
        assert self.folder is not None
        place = Place(self.folder, self.own_data or self.folder / "data", bool(self.prefix))
        if self.own_data is None:
            place.make("data")
        return place

    def _start_keeper(self, command: list[str], seconds: float) -> None:
        """Starts what the server stands on; waits until it is ready. Raises TargetError."""
        self.keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_environment(),
            start_new_session=True,
        )  # fmt: skip
        assert self.keeper.stdout is not None
        ready, _, _ = select.select([self.keeper.stdout], [], [], seconds)
        line = self.keeper.stdout.readline() if ready else b""
        said = json.loads(line) if line else {"error": "its device manager does not answer"}
        if "error" in said:
            raise TargetError(f"lab: {self.name}: {said['error']}", before_run=True)

    def launch(self) -> None:
        """Starts the prepared server and waits until it answers. Raises TargetError with the end of its log."""
        assert self.service is not None and self.folder is not None
        me = os.getpid()
        with (self.folder / "server.log").open("ab") as log:
            self.child = subprocess.Popen(
                [*self.service.prefix, *self.prefix, "/bin/sh", "-ec", _script(self.service, bool(self.prefix))],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True,  # smbd signals its whole process group when it ends
                env={**os.environ, "PATH": search_path(), **self.service.env},
                preexec_fn=lambda: process.die_with_parent(me),  # noqa: PLW1509 - this process has one thread
            )  # fmt: skip
        deadline = time.monotonic() + self.service.ready_s
        while not answers(self.service.facts):
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise TargetError(f"lab: {self.name} does not answer: {self._why()}", before_run=True)
            time.sleep(0.01)
        if self.child.poll() is not None:  # somebody else answers on that port
            raise TargetError(f"lab: {self.name} ended at once: {self._why()}", before_run=True)

    def _why(self) -> str:
        assert self.service is not None and self.folder is not None and self.child is not None
        words = last_words(self.service.log) or last_words(self.folder / "server.log") or "its log is empty"
        code = self.child.poll()
        return words if code is None else f"it ended with code {code}: {words}"

    def stop_server(self) -> None:
        """Kills the server with all its children; its keeper stays."""
        process.kill_tree(os.getpid(), None if self.keeper is None else self.keeper.pid)
        if self.child is not None:
            self.child.wait()
            if self.child.stdin is not None:
                self.child.stdin.close()
        self.child = None

    def end(self) -> None:
        """Kills the server and removes its folder."""
        if self.keeper is not None and self.keeper.stdin is not None:
            self.keeper.stdin.close()  # first: limits that are lifted hold up nobody's last writes
        self.stop_server()
        if self.keeper is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.keeper.wait(KEEPER_S)
            self.keeper.kill()
            self.keeper.wait()
        self.keeper = None
        if self.folder is not None:
            places.remove(self.folder)
        self.folder = None

    def restart(self) -> None:
        """Starts the server anew on its ports; a server that does not come back leaves its log."""
        self.stop_server()
        with contextlib.suppress(TargetError):
            self.launch()


def _system_of(request: dict[str, Any]) -> System:
    given = request.get("definition")
    return system(request["system"]) if given is None else defined(given["data"], given["file"], request["name"])


def _namespaces() -> list[str]:
    """A command prefix that gives a program mount and process namespaces of its own; empty where none can be had."""
    kinds = ["--mount", "--pid", "--fork", "--kill-child"]
    mine = ["unshare", *kinds]
    if os.geteuid() != 0:
        mine = ["unshare", "--user", "--map-current-user", "--keep-caps", *kinds]
    trial = [*mine, "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/tmp"]
    try:
        done = subprocess.run(trial, check=False, capture_output=True, timeout=10, env=_environment())
    except (OSError, subprocess.TimeoutExpired):
        return []
    return mine if done.returncode == 0 else []


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": search_path()}


def _script(service: Service, in_namespaces: bool) -> str:
    """What the shell does before it becomes the server."""
    lines = [
        f"mount -t tmpfs -o size={size},mode=755,uid={os.geteuid()},gid={os.getegid()} none {shlex.quote(str(path))}"
        for path, size in service.tmpfs_bytes.items()
    ]
    drop = "setpriv --inh-caps=-all --ambient-caps=-all " if in_namespaces and os.geteuid() != 0 else ""
    return "\n".join([*lines, *service.setup, f"exec {drop}{shlex.join(service.command)}"])


def _wait(guardian: Guardian, controller: int, wake_read: int) -> None:
    """Returns when the controller is gone (unless it let go with SIGUSR2), when SIGTERM came, or without a keeper."""
    ends = [controller]
    if guardian.keeper is not None:
        ends.append(os.pidfd_open(guardian.keeper.pid))
    while True:
        ready, _, _ = select.select([wake_read, *ends], [], [])
        with contextlib.suppress(BlockingIOError):
            for number in os.read(wake_read, 64):
                if number == signal.SIGUSR1:
                    guardian.restart()
                elif number == signal.SIGUSR2:
                    ends = [each for each in ends if each != controller]
                elif number == signal.SIGTERM:
                    return
        if set(ready) & set(ends):
            return


def _open_controller(found: list[int]) -> int:
    """Something that becomes readable when the controller ends. Ends this process if that happened already."""
    try:
        handle = os.pidfd_open(found[0])
    except OSError:
        sys.exit(1)
    if not process.is_alive(process.Process(*found)):
        sys.exit(1)
    return handle


def _answer(words: dict[str, Any]) -> None:
    """One line to whoever asked; from then on nobody listens to what this process prints."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(words).encode() + b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)


def _nothing(_number: int, _frame: object) -> None:
    """Signals are taken from the wake-up descriptor."""


class _EndedEarlyError(Exception):
    """SIGTERM before the server was ready."""


def _end_early(_number: int, _frame: object) -> NoReturn:
    raise _EndedEarlyError


def main() -> int:
    """Entry point."""
    request = json.load(sys.stdin)
    controller = _open_controller(request["controller"])
    process.adopt_orphans()
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)  # before the answer, which signals may follow at once
    signal.signal(signal.SIGTERM, _end_early)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _nothing)
    process.hear_of_parents_end(signal.SIGTERM)  # while nothing else watches over the controller
    guardian: Guardian | None = None
    refusal: NaslabError | None = None
    try:
        guardian = Guardian(request)
        facts = guardian.start()
        process.hear_of_parents_end(0)
        signal.signal(signal.SIGTERM, _nothing)
        _answer({"ok": facts})
        _wait(guardian, controller, wake_read)
    except NaslabError as error:
        refusal = error
    except _EndedEarlyError:
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if guardian is not None:
            guardian.end()
    if refusal is not None:  # whoever is told of it finds nothing left
        _answer({"error": str(refusal), "usage": isinstance(refusal, UsageError)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
