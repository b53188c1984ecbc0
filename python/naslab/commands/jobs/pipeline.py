"""One stream of a job: its requests to the target, metered; and the work that streams share."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from naslab import _engine
from naslab.commands.jobs.meter import Meter
from naslab.commands.jobs.source import REQUEST_BYTES
from naslab.errors import TargetError

T = TypeVar("T")
_TICKET_BYTES = array("I").itemsize


class StoppedError(Exception):
    """Another stream failed, or the run was interrupted: this one ends, too."""


class Board:
    """Numbers that all streams see, over an array they share: whether to stop, and bytes moved so far by each."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = numbers

    @property
    def stopped(self) -> bool:
        """Whether all are to end."""
        return bool(self._numbers[0])

    def stop(self, stopped: bool = True) -> None:
        """Asks all to end."""
        self._numbers[0] = int(stopped)

    def tell(self, number: int, moved_bytes: int) -> None:
        """How far a stream is."""
        self._numbers[1 + number] = moved_bytes

    @property
    def moved_bytes(self) -> int:
        """By all streams."""
        return sum(self._numbers[1:])


class Stream:
    """One stream: a session whose requests are metered. doing: the path last named; notes: what it has to tell."""

    def __init__(
        self, session: _engine.Session, board: Board, number: int = 0, durability: str = "none", in_flight: int = 1
    ) -> None:
        self.session, self.meter, self.number = session, Meter(), number
        self.durability, self.in_flight = durability, in_flight
        self.doing = ""
        self.notes: list[tuple[str, Any]] = []
        self.ask: Callable[[Any], Any] = lambda _question: None
        self._board = board

    def request(self, kind: str, call: Callable[..., T], *args: Any) -> T:
        """One request to the target. Raises TargetError, StoppedError."""
        self.check()
        result: T = self.meter.target(kind, call, *args)
        self._board.tell(self.number, self.meter.moved_bytes)
        return result

    def check(self) -> None:
        """Raises StoppedError when all streams are to end."""
        if self._board.stopped:
            raise StoppedError

    def note(self, kind: str, what: Any) -> None:
        """Something for whoever carries the job out, told when the stream ends."""
        self.notes.append((kind, what))

    def create(self, path: str) -> int:
        """A new file to write, write-through with durability `each`."""
        self.doing = path
        return self.request(
            "create", self.session.open, path, _CREATE_DURABLE if self.durability == "each" else _CREATE
        )

    def open(self, path: str) -> int:
        """An existing file to read."""
        self.doing = path
        return self.request("open", self.session.open, path, _READ)

    def read(self, file: int, offset_bytes: int, size: int) -> list[bytes]:
        """Up to `size` bytes, a part for each request, all in flight together; fewer bytes only at the end."""
        if size <= REQUEST_BYTES:
            return [self.request("read", self.session.read, file, offset_bytes, size)]
        ops: list[tuple[str, int, int | bytes]] = [
            ("read", offset_bytes + at, min(REQUEST_BYTES, size - at)) for at in range(0, size, REQUEST_BYTES)
        ]
        parts = []
        for (_, _, asked), part in zip(ops, self._batch("read", file, ops), strict=True):
            parts.append(part)
            if len(part) < int(asked):
                break
        return parts

    def write(self, file: int, offset_bytes: int, parts: Sequence[bytes]) -> int:
        """Writes parts of at most REQUEST_BYTES one after the other, all in flight together; bytes written."""
        if len(parts) == 1:
            self.request("write", self.session.write, file, offset_bytes, parts[0])
            return len(parts[0])
        ops: list[tuple[str, int, int | bytes]] = []
        at = offset_bytes
        for part in parts:
            ops.append(("write", at, part))
            at += len(part)
        if ops:
            self._batch("write", file, ops)
        return at - offset_bytes

    def _batch(self, kind: str, file: int, ops: list[tuple[str, int, int | bytes]]) -> list[bytes]:
        """Requests of one kind, all in flight together; the data read. Raises TargetError of the first that failed."""
        self.check()

        def go() -> Any:
            return self.session.run_ops(file, ops, self.in_flight)

        done = self.meter.target_batch(kind, go, lambda outcomes: [one[0] for one in outcomes])
        self._board.tell(self.number, self.meter.moved_bytes)
        for moved, _, error, status in done:
            if error is not None and not (kind == "read" and error == "short"):
                why = self.session.explain(error, status)
                raise TargetError(f"{kind}: {why} after {moved} bytes", error, status)
        return [data or b"" for _, data, _, _ in done]

    def finish(self, file: int) -> None:
        """Ends a file that was written: flushed with durability `end`, closed."""
        if self.durability == "end":
            self.request("flush", self.session.flush, file)
        self.close(file)

    def close(self, file: int) -> None:
        """Closes a file."""
        self.request("close", self.session.close, file)

    def stat(self, path: str) -> tuple[int, bool]:
        """Length and whether it is a folder."""
        self.doing = path
        return self.request("stat", self.session.stat, path)

    def modified_ns(self, path: str) -> int | None:
        """When the contents last changed, in ns since 1970; None where the target does not say."""
        self.doing = path
        return self.request("stat", self.session.modified_ns, path)

    def set_times(self, path: str, accessed_ns: int, modified_ns: int) -> None:
        """Sets both times of a file or folder, in ns since 1970."""
        self.doing = path
        self.request("set_times", self.session.set_times, path, accessed_ns, modified_ns)

    def is_missing(self, path: str) -> bool:
        """Whether nothing has this name yet; that answer is a request like others."""

        def look(path: str) -> bool:
            try:
                self.session.stat(path)
            except TargetError as error:
                if error.kind != "not_found":
                    raise
                return True
            return False

        return self.request("stat", look, path)

    def mkdir(self, path: str) -> None:
        """Makes a folder."""
        self.doing = path
        self.request("mkdir", self.session.mkdir, path)

    def readdir(self, path: str) -> list[tuple[str, bool]]:
        """Names in a folder, and whether they are folders."""
        self.doing = path
        return self.request("readdir", self.session.readdir, path)


_READ = json.dumps({"read": True})
_CREATE, _CREATE_DURABLE = (
    json.dumps({"read": False, "write": True, "create": "new", "sync": sync}) for sync in ("none", "all")
)


class Queue(Generic[T]):
    """Work handed to streams in order, one piece at a time: who comes first gets the next.

    The tickets are a file whose position all processes share; the system hands each of its parts out once.
    """

    def __init__(self, work: Sequence[T]) -> None:
        self._work = work
        with tempfile.TemporaryFile(buffering=0) as tickets:
            array("I", range(len(work))).tofile(tickets)
            tickets.seek(0)
            self._tickets = os.dup(tickets.fileno())
        weakref.finalize(self, os.close, self._tickets)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        ticket = os.read(self._tickets, _TICKET_BYTES)
        if not ticket:
            raise StopIteration
        return self._work[int.from_bytes(ticket, sys.byteorder)]
