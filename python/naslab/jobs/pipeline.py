"""Parallel streams of a job: each a thread with a session of its own, metered, and ended together."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from naslab import _engine
from naslab.errors import TargetError
from naslab.jobs.meter import Meter

if TYPE_CHECKING:
    from naslab.targets import Target

T = TypeVar("T")
_LOOK_S = 0.2
"""How often the waiting thread looks for progress and for Ctrl-C."""


class StoppedError(Exception):
    """Another stream failed, or the run was interrupted: this one ends, too."""


class Stream:
    """One stream: a session whose requests are metered. Used by one thread at a time. doing: the path last named."""

    def __init__(self, session: _engine.Session, stop: threading.Event, durability: str = "none") -> None:
        self.session, self.meter, self._stop = session, Meter(), stop
        self.durability = durability
        self.doing = ""

    def request(self, kind: str, call: Callable[..., T], *args: Any) -> T:
        """One request to the target. Raises TargetError, StoppedError."""
        self.check()
        return self.meter.target(kind, call, *args)  # type: ignore[no-any-return]

    def check(self) -> None:
        """Raises StoppedError when all streams are to end."""
        if self._stop.is_set():
            raise StoppedError

    def create(self, path: str) -> int:
        """A new file to write, write-through with durability `each`."""
        self.doing = path
        sync = "all" if self.durability == "each" else "none"
        options = json.dumps({"read": False, "write": True, "create": "new", "sync": sync})
        return self.request("create", self.session.open, path, options)

    def open(self, path: str) -> int:
        """An existing file to read."""
        self.doing = path
        return self.request("open", self.session.open, path, json.dumps({"read": True}))

    def read(self, file: int, offset_bytes: int, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        return self.request("read", self.session.read, file, offset_bytes, size)

    def write(self, file: int, offset_bytes: int, data: bytes) -> None:
        """Writes all of `data`."""
        self.request("write", self.session.write, file, offset_bytes, data)

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

    def is_missing(self, path: str) -> bool:
        """Whether there is nothing of this name yet; that answer is a request like others."""

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


class Queue(Generic[T]):
    """Work handed to streams in order, one piece at a time."""

    def __init__(self, work: Iterable[T]) -> None:
        self._work, self._lock = iter(work), threading.Lock()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._lock:
            return next(self._work)


class Streams:
    """So many streams on a target. Use as a context manager: the sessions end with it."""

    def __init__(self, target: Target, count: int, durability: str) -> None:
        self._stop = threading.Event()
        sessions = [_engine.Session(target.engine_json(), 1)]
        try:
            for _ in range(count - 1):
                sessions.append(sessions[0].another())
        except BaseException:
            for session in sessions:
                session.end()
            raise
        self.all = [Stream(session, self._stop, durability) for session in sessions]

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self.all:
            stream.session.end()

    def carry_out(self, work: Callable[[Stream], None], look: Callable[[], None] = lambda: None) -> list[Meter]:
        """Does `work` with every stream at once; what each spent. look: called while waiting.

        Raises the first error of a stream, and what a signal handler raises, after all streams have ended.
        """
        for stream in self.all:
            stream.meter = Meter()
        self._stop.clear()
        failed: list[BaseException] = []
        threads = [threading.Thread(target=self._one, args=(stream, work, failed), daemon=True) for stream in self.all]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                next(t for t in (*threads, threads[0]) if t.is_alive() or t is threads[0]).join(_LOOK_S)
                look()
        finally:
            self._stop.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if failed:
            raise failed[0]
        return [stream.meter for stream in self.all]

    def _one(self, stream: Stream, work: Callable[[Stream], None], failed: list[BaseException]) -> None:
        stream.meter.begin()
        try:
            work(stream)
        except StoppedError:
            pass
        except BaseException as error:
            if isinstance(error, TargetError):
                error.args = (f"{error}, at {stream.doing}",)
            failed.append(error)
            self._stop.set()
        finally:
            stream.meter.end()
