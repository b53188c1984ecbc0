"""A running server of the lab, as its controller sees it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab.client import process
from naslab.client.process import Process
from naslab.errors import TargetError, UsageError
from naslab.lab import backends, link, place
from naslab.lab.readiness import answers, last_words
from naslab.lab.systems import DefinedSystem, System, from_file, missing_packages, system
from naslab.targets import Secret, Target

_KEEPER = "naslab-keeper"
_WATCHERS = ("unshare", _KEEPER)
_RESTART_S = 60.0
_START_S = 300.0
"""Longer than the guardian takes for all its attempts."""


@dataclass
class Server:
    """A private server.

    url: its main share or export. targets: all of them, by name. user: empty where none is needed.
    credentials: a file in mount.cifs form, None where none is needed. data: the folder that `url` serves.
    """

    name: str
    url: str
    targets: dict[str, str]
    user: str
    credentials: Path | None
    folder: Path
    data: Path
    port: int
    mount_port: int | None
    facts: dict[str, Any]
    guardian: Process

    @property
    def password(self) -> str:
        """The user's password, from the credentials file; empty where none is needed."""
        if self.credentials is None:
            return ""
        lines = self.credentials.read_text(encoding="utf-8").splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("password="))

    def logged_in(self, target: Target) -> Target:
        """A target of this server with the user's password, where its name has a user."""
        if not target.options.get("user"):
            return target
        return dataclasses.replace(target, password=Secret(self.password))

    @property
    def processes(self) -> list[Process]:
        """Processes of the server that live, without those that only watch over it."""
        below = process.descendants(self.guardian.pid)
        programs = {found: process.program(found.pid) for found in below}
        kept = {each for found, name in programs.items() if name == _KEEPER for each in process.descendants(found.pid)}
        return [found for found in below if programs[found] not in _WATCHERS and found not in kept]

    @property
    def pids(self) -> list[int]:
        """Their ids."""
        return [found.pid for found in self.processes]

    def inside(self, client: int = 1) -> list[str]:
        """Words before a command that put it where the server's disk is mounted, and at a client's end of its link.

        client: which of several, from 1; 0 is the server's end. Where that is a guest, they run a command in it. Empty
        where there is nothing that cannot be reached from anywhere. Raises UsageError without such a client,
        TargetError without a server.
        """
        where = self.facts.get("inside", {})
        nets = [where.get("server_net"), *where.get("nets", [where.get("net")])]
        if not 0 <= client < len(nets):
            raise UsageError(f"lab: {self.name} has no client {client}; it has {len(nets) - 1}")
        if guest := self.facts.get("guests", {}).get(f"client{client}" if client else "server"):
            return [sys.executable, "-m", "naslab.lab.guest.run", guest, "--"]
        found = [f"--net={nets[client]}"] if nets[client] else []
        if where.get("mount"):
            if not (pids := self.pids):
                raise TargetError(f"lab: {self.name}: its server ended: {self.log()}", before_run=True)
            found.append(f"--mount=/proc/{pids[0]}/ns/mnt")
        joined = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', where["join"]] if where.get("join") else []
        return [*joined, *(["nsenter", *found, "--"] if found else [])]

    @property
    def is_up(self) -> bool:
        """Whether the guardian and the server live."""
        return process.is_alive(self.guardian) and bool(self.processes)

    def stop(self) -> None:
        """Ends the server; nothing of it is left. May be called again."""
        process.send(self.guardian, signal.SIGCONT)
        process.send(self.guardian, signal.SIGTERM)
        if not process.wait_gone(self.guardian, 10):
            process.send(self.guardian, signal.SIGKILL)
            process.wait_gone(self.guardian, 10)
        place.remove(self.folder)

    def release(self) -> None:
        """Lets the server outlive this process; from then on only `stop` ends it."""
        process.send(self.guardian, signal.SIGUSR2)

    def kill(self) -> None:
        """Kills the server's processes as a crash would; folder and ports stay. Returns when they are gone."""
        while found := self.processes:
            for each in found:
                process.send(each, signal.SIGKILL)
            for each in found:
                process.wait_gone(each, 5)

    def restart(self) -> None:
        """Starts the server anew on the same ports, killing it if it still runs. Raises TargetError."""
        self.kill()
        process.send(self.guardian, signal.SIGUSR1)
        deadline = time.monotonic() + _RESTART_S
        while not (self.processes and self._answers()):
            if time.monotonic() > deadline or not process.is_alive(self.guardian):
                raise TargetError(f"lab: {self.name} did not come back: {self.log()}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        """Whether it answers where its clients are."""
        net = self.facts.get("inside", {}).get("net")
        if not net:
            return answers(self.facts)
        before = link.enter(net)
        try:
            return answers(self.facts)
        finally:
            link.leave(before)

    def freeze(self) -> None:
        """Stops all its processes (SIGSTOP): connections stay open, nothing is answered. Returns when they stand."""
        frozen: set[Process] = set()
        while new := set(self.processes) - frozen:
            for each in new:
                process.send(each, signal.SIGSTOP)
            for each in new:
                process.wait_stopped(each, 5)
            frozen |= new

    def thaw(self) -> None:
        """Lets a frozen server go on."""
        for each in self.processes:
            process.send(each, signal.SIGCONT)

    def log(self) -> str:
        """The end of its log."""
        return last_words(Path(self.facts["log"]))

    def public(self) -> dict[str, Any]:
        """What may be shown to anybody, as JSON types: no password."""
        return {
            "name": self.name, "url": self.url, "targets": self.targets, "user": self.user or None,
            "password_file": None if self.credentials is None else str(self.credentials),
            "pids": self.pids, "folder": str(self.folder), "data": str(self.data),
            **{key: self.facts[key] for key in ("planted", "limits", "backend") if key in self.facts},
        }  # fmt: skip


def from_facts(facts: dict[str, Any]) -> Server:
    """The server that a guardian described."""
    credentials = facts.get("credentials")
    return Server(
        facts["name"], facts["url"], facts["targets"], facts["user"], Path(credentials) if credentials else None,
        Path(facts["folder"]), Path(facts["data"]), facts["port"], facts.get("mount_port"), facts,
        Process(*facts["guardian"]),
    )  # fmt: skip


@contextlib.contextmanager
def running(name: str, folder: Path | str | None = None, *, fast: bool = False, **options: Any) -> Iterator[Server]:
    """A private server for the time of a `with` block; it also ends when this process does, however that ends.

    folder: what its main share serves (it is kept); a private one without it. fast: that private one lies in
    memory. options: fields of the system's class of options. Raises UsageError, TargetError.
    """
    server = start(name, folder, fast=fast, **options)
    try:
        yield server
    finally:
        server.stop()


def start(name: str, folder: Path | str | None = None, *, fast: bool = False, **options: Any) -> Server:
    """Starts a private server that ends with this process, or at its `stop`. Raises UsageError, TargetError.

    name: of a system, or the file that describes one (`FILE.toml`), which is then called as the file.
    """
    return start_system(name, from_file(Path(name)) if name.endswith(".toml") else system(name), folder, fast, options)


def start_system(
    name: str,
    found: System,
    folder: Path | str | None = None,
    fast: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Server:
    """The same for a system from anywhere; `naslab.lab.systems.defined` makes one from data."""
    chosen = dict(options or {})
    made = found.make_options(chosen)
    request: dict[str, Any] = {"system": name, "name": name, "fast": fast, "options": chosen}
    if isinstance(found, DefinedSystem):
        backends.choose(made)
        request |= {"name": found.name, "definition": {"data": dict(found.data), "file": found.file}}
    elif missing := missing_packages(found):
        raise UsageError(f"lab: {name} needs {', '.join(missing)}; Debian/Ubuntu: apt install {' '.join(missing)}")
    data = None if folder is None else Path(folder).absolute()
    if data is not None and not data.is_dir():
        raise UsageError(f"lab: {folder} is not a folder; give one for the server's main share, or none")
    place.sweep()
    request |= {"folder": None if data is None else str(data), "controller": process.find(os.getpid())}
    answer = _ask(request)
    if "error" in answer:
        if answer["usage"]:
            raise UsageError(answer["error"])
        raise TargetError(answer["error"], before_run=True)
    return from_facts(answer["ok"])


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """Starts a guardian and returns its answer; the guardian stays. Raises TargetError when there is none."""
    guardian = subprocess.Popen(
        [sys.executable, "-m", "naslab.lab.guardian"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert guardian.stdin and guardian.stdout and guardian.stderr
    try:
        guardian.stdin.write(json.dumps(request).encode())
        guardian.stdin.close()
        if not select.select([guardian.stdout], [], [], _START_S)[0]:
            raise TargetError("lab: the server's supervisor does not answer; try again", before_run=True)
        line = guardian.stdout.readline()
        if not line:
            words = guardian.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
            raise TargetError(f"lab: the server's supervisor failed: {' '.join(words)}", before_run=True)
        return dict(json.loads(line))
    except BaseException:
        guardian.terminate()
        raise
    finally:
        guardian.stdout.close()
        guardian.stderr.close()
        _forget(guardian)


def _forget(guardian: subprocess.Popen[bytes]) -> None:
    """The guardian is waited for by a thread, so that it never stays as a zombie of this process."""
    threading.Thread(target=guardian.wait, daemon=True, name="naslab-lab-wait").start()
