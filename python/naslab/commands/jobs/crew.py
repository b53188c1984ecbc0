"""Parallel streams of a job: each a process with a session of its own, ended together.

Threads of one Python would wait for each other between requests, and that wait would look like the target's. Processes
also give each stream a processor, as programs that copy have.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Protocol

from naslab import _engine
from naslab.client.process import die_with_parent
from naslab.commands.jobs.meter import Meter
from naslab.commands.jobs.pipeline import Board, StoppedError, Stream
from naslab.errors import NaslabError, TargetError
from naslab.execution.waits import until

Work = Callable[[Stream], None]
Answer = Callable[[int, Any], list[tuple[int, Any]]]
"""A stream's number and its question; answers that can be given by now: stream, answer."""
_LOOK_S = 0.2
"""How often the waiting process looks for progress and for Ctrl-C."""
_GRACE_S = 5.0
"""How long streams may take to end when they are told to; then they are killed. None of them waits for its server."""
_ASK_S = 0.1
_KEPT_BYTES = 1 << 30
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class Served(Protocol):
    """A target, as streams see it."""

    @property
    def protocol(self) -> str:
        """`local`, `smb` or `nfs`."""

    def engine_json(self) -> str:
        """For the engine; with the password."""


@dataclass(frozen=True)
class Phase:
    """Work of all streams, or of the first alone; all are done with it before the next begins."""

    work: Work
    alone: bool = False


@dataclass
class Ended:
    """What a stream brings home: its meter, its notes, bytes on the wire and protocol events of its session.

    waiter_ns: user and system time that the waiting process used while all worked; at the first stream only.
    """

    number: int
    meter: Meter
    notes: list[tuple[str, Any]]
    wire: tuple[int, int] | None = None
    events: dict[str, int] = field(default_factory=dict)
    waiter_ns: tuple[int, int] = (0, 0)


class Streams:
    """So many streams on a target. ended: of the last work, also of one that failed. ready: called when all streams of
    a piece of work are connected, before they begin. check: called while they are waited for; what it raises ends them.
    """

    def __init__(self, target: Served, count: int, durability: str, in_flight: int = 1) -> None:
        self.target, self.count, self.durability, self.in_flight = target, count, durability, in_flight
        self.ended: list[Ended] = []
        self.ready: Callable[[], None] = lambda: None
        self.check: Callable[[], None] = lambda: None

    def connect(self) -> _engine.Session:
        """A session for what is not metered."""
        return _engine.Session(self.target.engine_json(), 1)

    @contextlib.contextmanager
    def session(self) -> Iterator[_engine.Session]:
        """The same, ended when it was used."""
        session = self.connect()
        try:
            yield session
        finally:
            session.end()

    def carry_out(
        self, *phases: Phase, look: Callable[[], None] = lambda: None, answer: Answer = lambda _number, _question: []
    ) -> list[Ended]:
        """Does the phases one after the other; what each stream brings home. look: called while waiting.

        Streams begin when all are connected. Raises the first error of a stream, and what a signal handler raises,
        after all streams have ended.
        """
        crew = _Crew(self, phases, answer)
        try:
            crew.begin()
            self.ready()
            crew.work(look)
        finally:
            crew.end()
            self.ended = sorted(crew.ended, key=lambda one: one.number)
            for first in self.ended[:1]:
                first.waiter_ns = crew.used_ns
        if crew.failed is not None:
            raise crew.failed
        return self.ended

    def moved_bytes(self) -> int:
        """By the streams at work."""
        return self.board.moved_bytes

    board = Board([0])


class _Crew:
    """The processes of one piece of work, seen from the one that waits for them."""

    def __init__(self, streams: Streams, phases: Sequence[Phase], answer: Answer) -> None:
        self._streams, self._phases, self._answer = streams, phases, answer
        shared = memoryview(mmap.mmap(-1, 8 * (1 + streams.count))).cast("q")
        self._board = streams.board = Board(shared)
        self._links: dict[int, Connection] = {}
        self._pids: dict[int, int] = {}
        self._busy: set[int] = set()
        self._broken: set[int] = set()
        self.ended: list[Ended] = []
        self.failed: BaseException | None = None
        self.used_ns = 0, 0

    def begin(self) -> None:
        """Starts the processes and waits until all are connected."""
        for number in range(self._streams.count):
            self._start(number)
        while self._busy and self.failed is None:
            self._listen()

    def _start(self, number: int) -> None:
        ours, theirs = Pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            # Other threads are of libraries and of the progress line; a stream uses nothing that they hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _be_stream(self._streams, number, theirs, self._board, self._phases, parent)
        theirs.close()
        self._pids[number], self._links[number] = pid, ours
        self._busy.add(number)

    def work(self, look: Callable[[], None]) -> None:
        """All phases, until one fails."""
        then = _used_ns()
        try:
            self._work(look)
        finally:
            now = _used_ns()
            self.used_ns = now[0] - then[0], now[1] - then[1]

    def _work(self, look: Callable[[], None]) -> None:
        for at, phase in enumerate(self._phases):
            if self.failed is not None:
                return
            for number in [0] if phase.alone else list(self._links):
                self._busy.add(number)
                self._links[number].send(("go", at))
            while self._busy and self.failed is None:
                self._listen()
                look()

    def _listen(self) -> None:
        """Takes what streams have to say, or waits a little while."""
        numbers = {link: number for number, link in self._links.items() if number not in self._broken}
        for link in wait(list(numbers), _LOOK_S):
            self._hear(numbers[link])  # type: ignore[index]
        if not self._board.stopped:
            self._streams.check()

    def _hear(self, number: int) -> None:
        try:
            kind, what = self._links[number].recv()
        except (EOFError, OSError):
            kind, what = "lost", None
        except BaseException:  # a signal's in the midst of it: what else comes there cannot be understood
            self._broken.add(number)
            raise
        if kind == "ask":
            for to, answer in self._answer(number, what):
                self._links[to].send(("answer", answer))
            return
        self._busy.discard(number)
        if kind == "ended":
            self.ended.append(what)
        if kind in ("ended", "lost"):
            self._links.pop(number).close()
        if kind == "failed":
            self.failed = self.failed or what
        elif kind == "lost" and not self._board.stopped:
            self.failed = self.failed or NaslabError(f"stream {number + 1} of the job was killed")

    def end(self) -> None:
        """Tells all streams to end, takes what they bring, and waits for them; kills those that do not."""
        self._board.stop()
        deadline = time.monotonic() + _GRACE_S
        told: set[int] = set()
        try:
            while self._links.keys() - self._broken and time.monotonic() < deadline:
                for number in self._links.keys() - self._busy - told - self._broken:
                    told.add(number)
                    with contextlib.suppress(OSError):
                        self._links[number].send(("end", None))
                self._listen()
        finally:
            for number, pid in self._pids.items():
                if number in self._links:
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            for link in self._links.values():
                link.close()


def _used_ns() -> tuple[int, int]:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round(used.ru_utime * 1e9), round(used.ru_stime * 1e9)


def _be_stream(
    streams: Streams, number: int, link: Connection, board: Board, phases: Sequence[Phase], parent: int
) -> None:
    """The life of a stream's process; does not return."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the first process tells us
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with_parent(parent)
        _keep_memory()
        life = until(lambda: board.stopped, StoppedError, lambda: _live(streams, number, link, board, phases))
        link.send(("ended", life))
        code = 0
    finally:
        os._exit(code)


def _live(streams: Streams, number: int, link: Connection, board: Board, phases: Sequence[Phase]) -> Ended:
    try:
        session = _engine.Session(streams.target.engine_json(), streams.in_flight)
    except Exception as error:
        link.send(("done", None) if isinstance(error, StoppedError) else ("failed", error))
        while link.recv()[0] != "end":
            pass
        return Ended(number, Meter(), [])
    stream = Stream(session, board, number, streams.durability, streams.in_flight)
    stream.meter.remote = streams.target.protocol in ("smb", "nfs")
    wire, events = session.wire(), session.events()
    stream.meter.count_wire(session.wire)
    stream.ask = lambda question: _ask(stream, link, question)
    link.send(("ready", None))
    while (said := link.recv())[0] != "end":
        if said[0] == "go":
            link.send(_phase(stream, phases[said[1]].work))
    ended = Ended(number, stream.meter, stream.notes)
    with contextlib.suppress(NaslabError):  # of a session that broke
        ended.wire = _since(session.wire(), wire)
        ended.events = {name: count - events.get(name, 0) for name, count in session.events().items()}
    session.end()
    return ended


def _since(now: tuple[int, int] | None, then: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if now is None or then is None else (now[0] - then[0], now[1] - then[1])


def _phase(stream: Stream, work: Work) -> tuple[str, Any]:
    """Does the work; what to say of it."""
    stream.meter.begin()
    try:
        work(stream)
    except StoppedError:
        pass
    except Exception as error:
        if isinstance(error, TargetError):
            error.args = (f"{error}, at {stream.doing}",)
        else:
            error.add_note(traceback.format_exc())
        return "failed", error
    finally:
        stream.meter.end()
    return "done", None


def _ask(stream: Stream, link: Connection, question: Any) -> Any:
    """A question to the process that waits for the streams, and its answer."""
    link.send(("ask", question))
    while not link.poll(_ASK_S):
        stream.check()
    return link.recv()[1]


def _keep_memory() -> None:
    """Has freed memory kept, so that each request of a megabyte does not fault its pages in anew.

    Without that a read of 1 MiB from a cached file took 1.0 ms instead of 0.1 ms, which looked like the target's.
    """
    gc.freeze()
    with contextlib.suppress(AttributeError, OSError):  # a C library without mallopt
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
