"""`python -m naslab.lab.guest.attendant`: holds one guest, and lets others talk to it through a socket.

It starts the guest that its argument describes, says so in one line of JSON, and then carries requests from a socket in
the private folder to the guest's agent and answers back, until its standard input ends (the pipe of whoever
started it, kill -9 included) or it gets SIGTERM. Then it kills the guest, and removes the private folder where that is
its own. Killed itself, it takes the guest with it; the folder is then removed by whoever uses the lab next.

It answers by itself: `cut` (power cut), `boot` (start again on the same disks), `state`, and once the guest has ended
`stop`, `wait` and `hold` (a power cut, too, when whoever asked is gone before).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.client import process
from naslab.errors import NaslabError
from naslab.lab import place
from naslab.lab.devices import keeper
from naslab.lab.guest import spec as specs
from naslab.lab.guest.agent import Lines, encode
from naslab.lab.guest.boot import Machine

READY_S = 60.0
"""How long a guest may take to start."""
STOP_S = 15.0
"""How long it may take to end in good order."""
SOCKET = "agent.sock"
FACTS = "guest.json"
_LONG_BYTES = 400
_ENDS = ("stop", "wait", "hold")
"""Requests that the guest's end answers."""


def words(spec: specs.Spec, folder: Path, own: bool) -> list[str]:
    """The command line of an attendant. own: the folder is removed at the end."""
    return [
        sys.executable, "-m", "naslab.lab.guest.attendant",
        json.dumps({"spec": spec.to_json(), "folder": str(folder), "own": own}),
    ]  # fmt: skip


@dataclass
class Wire:
    """One end of a two-way line: what came in parts, and what waits to go out."""

    read: int
    write: int
    lines: Lines = field(default_factory=Lines)
    waiting: bytearray = field(default_factory=bytearray)

    def send(self, **said: Any) -> None:
        """Queues one line."""
        self.waiting += encode(said)

    def flush(self) -> None:
        """Writes as much as goes. Raises OSError when nobody reads."""
        with contextlib.suppress(BlockingIOError):
            while self.waiting:
                del self.waiting[: os.write(self.write, self.waiting[:65536])]


@dataclass
class Task:
    """A request on its way: who asked, and the number it gave."""

    client: Wire
    number: Any
    what: str


class Attendant:
    """One guest and its callers."""

    def __init__(self, machine: Machine, listener: socket.socket) -> None:
        self.machine, self.listener = machine, listener
        self.guest: Wire | None = None
        self.ready: dict[str, Any] | None = None
        self.failure = ""
        self.starts = 0
        self.clients: dict[int, tuple[socket.socket, Wire]] = {}
        self.tasks: dict[int, Task] = {}
        self.boots: list[Task] = []
        self._next = 0
        self._deadline_s = 0.0

    def boot(self) -> None:
        """Starts the guest; `ready` holds what its agent says, once it does."""
        self.machine.start()
        os.set_blocking(self.machine.line_in, False)
        os.set_blocking(self.machine.line_out, False)
        self.guest = Wire(self.machine.line_in, self.machine.line_out)
        self.ready, self.failure = None, ""
        self.starts += 1
        self._deadline_s = time.monotonic() + READY_S

    def why(self) -> str:
        """Why the guest is no more, as far as it said."""
        return self.failure or self.machine.why()

    def turn(self, ends: list[int]) -> bool:
        """Waits for something and does it; False when one of `ends` was readable."""
        with selectors.DefaultSelector() as selector:
            for number in (*ends, self.listener.fileno()):
                selector.register(number, selectors.EVENT_READ)
            for wire in self._wires():
                selector.register(wire.read, selectors.EVENT_READ)
                if wire.waiting and wire.write == wire.read:
                    selector.modify(wire.read, selectors.EVENT_READ | selectors.EVENT_WRITE)
                elif wire.waiting:
                    selector.register(wire.write, selectors.EVENT_WRITE)
            booting = self.guest is not None and self.ready is None
            found = {key.fd for key, _ in selector.select(1.0 if booting else None)}
        if found & set(ends):
            return False
        if self.listener.fileno() in found:
            self._accept()
        if self.guest is not None and self.guest.read in found:
            self._hear_guest()
        for number in found & set(self.clients):
            self._hear_client(number)
        if self.guest is not None and self.ready is None and time.monotonic() > self._deadline_s:
            self.machine.cut()
            self._lost(f"the guest did not start within {READY_S:.0f} s: {self.why()}")
        self._flush()
        return True

    def _wires(self) -> list[Wire]:
        guest = [] if self.guest is None else [self.guest]
        return guest + [wire for _, wire in self.clients.values()]

    def _flush(self) -> None:
        for number, (_, wire) in list(self.clients.items()):
            try:
                wire.flush()
            except OSError:
                self._forget(number)
        if self.guest is not None:
            with contextlib.suppress(OSError):  # its end is seen at the other pipe
                self.guest.flush()

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.setblocking(False)
        number = connection.fileno()
        self.clients[number] = connection, Wire(number, number)

    def _forget(self, number: int) -> None:
        """A caller is gone: what it started in the guest is killed."""
        connection, wire = self.clients.pop(number)
        if any(task.client is wire and task.what == "hold" for task in self.tasks.values()):
            self.machine.cut()
            self._lost("its controller ended")
        for own, task in list(self.tasks.items()):
            if task.client is wire:
                del self.tasks[own]
                if self.guest is not None and task.what == "run":
                    self.guest.send(id=0, do="signal", of=own, number=int(signal.SIGKILL))
        self.boots = [task for task in self.boots if task.client is not wire]
        connection.close()

    def _hear_client(self, number: int) -> None:
        if number not in self.clients:
            return
        _, wire = self.clients[number]
        try:
            data = os.read(wire.read, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._forget(number)
            return
        for request in wire.lines.feed(data):
            self._carry_out(Task(wire, request.get("id"), str(request.get("do"))), request)

    def _carry_out(self, task: Task, request: dict[str, Any]) -> None:
        if task.what == "state":
            self._answer(task, data={"up": self.ready is not None, "starts": self.starts, "ready": self.ready})
        elif task.what == "cut":
            self.machine.cut()
            self._lost("its power was cut")
            self._answer(task)
        elif task.what in ("wait", "hold") and self.guest is not None:
            self._next += 1
            self.tasks[self._next] = task
        elif task.what == "boot" and self.guest is None:
            self.boots.append(task)
            self.boot()
        elif task.what == "boot" or self.guest is None or self.ready is None:
            self._answer(
                task, error="the guest is already running" if task.what == "boot" else "the guest is not running"
            )
        else:
            self._next += 1
            self.tasks[self._next] = task
            self.guest.send(**self._short({**request, "id": self._next}))

    def _short(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request, or where it lies: the guest's serial line stalls when more than 4 KiB wait to be read."""
        if len(encode(request)) <= _LONG_BYTES:
            return request
        path = self.machine.folder / f"request-{request['id']}"
        path.write_bytes(encode(request))
        return {"id": request["id"], "file": str(path)}

    def _answer(self, task: Task, **said: Any) -> None:
        task.client.send(id=task.number, end=True, **said)

    def _hear_guest(self) -> None:
        assert self.guest is not None
        try:
            data = os.read(self.guest.read, 1 << 20)
        except BlockingIOError:
            return
        for answer in self.guest.lines.feed(data):
            if "failed" in answer:
                self.failure = str(answer["failed"])
            elif "ready" in answer:
                self.ready = answer["ready"]
                for task in self.boots:
                    self._answer(task, data=self.ready)
                self.boots = []
            elif answer.get("id") in self.tasks:
                self._pass_back(answer)
        if not data:
            code = self.machine.ended()
            self._lost(f"the guest ended (code {code}): {self.why()}")

    def _pass_back(self, answer: dict[str, Any]) -> None:
        task = self.tasks[answer["id"]]
        if not (task.what == "stop" and "error" not in answer):  # that one is answered when the guest has ended
            task.client.send(**{**answer, "id": task.number})
            if answer.get("end"):
                del self.tasks[answer["id"]]

    def _lost(self, why: str) -> None:
        """The guest ended: so has all that it was asked."""
        self.guest, self.ready = None, None
        for task in [*self.tasks.values(), *self.boots]:
            self._answer(task, **({"data": why} if task.what in _ENDS else {"error": why}))
        self.tasks, self.boots = {}, []


def _listen(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / SOCKET))
    (folder / SOCKET).chmod(0o600)
    listener.listen(32)
    return listener


def _start(attendant: Attendant, ends: list[int]) -> None:
    """Starts the guest and waits for it. Raises _EndedError, NaslabError."""
    attendant.boot()
    while attendant.ready is None:
        if not attendant.turn(ends):
            raise _EndedError
        if attendant.guest is None:
            raise _FailedError(f"lab: the guest did not start: {attendant.why()}")


class _EndedError(Exception):
    """Whoever wanted the guest is gone."""


class _FailedError(Exception):
    """The guest did not start."""


def _say(said: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(said).encode() + b"\n")


def _signals() -> int:
    """A descriptor that becomes readable at SIGTERM."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return wake_read


def main() -> int:
    """Entry point."""
    Path("/proc/self/comm").write_text(keeper.NAME, encoding="ascii")
    given = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    ends = [0, _signals()]
    machine: Machine | None = None
    try:
        machine = Machine(specs.from_json(given["spec"]), folder)
        attendant = Attendant(machine, _listen(folder))
        _start(attendant, ends)
        facts = {
            "folder": str(folder), "address": machine.spec.address, "net": f"/proc/{os.getpid()}/ns/net",
            "attendant": process.find(os.getpid()),
        }  # fmt: skip
        (folder / FACTS).write_text(json.dumps(facts), encoding="ascii")
        _say({"ready": facts})
        while attendant.turn(ends):
            pass
    except (OSError, NaslabError, _FailedError) as error:
        _say({"error": str(error), "usage": getattr(error, "exit_code", 1) == 2})
        return 1
    except _EndedError:
        return 1
    finally:
        if machine is not None:
            machine.end()
        if given["own"]:
            place.remove(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
