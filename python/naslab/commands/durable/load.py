"""The load that runs when the power goes: a file for each durability mode and a stream of metadata, all at once.

Each has a thread and a session of its own. Whatever ends a thread's work is taken for the cut; what the thread had
asked for and was not answered stays unacknowledged.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from naslab import _engine
from naslab.commands.durable import metadata
from naslab.commands.durable.block import Tagger
from naslab.commands.durable.plan import FILL, FIRST, METADATA, MODES, Plan
from naslab.errors import NaslabError, TargetError
from naslab.execution.waits import until

if TYPE_CHECKING:
    from naslab.commands.durable.journal import Journal

MOST_WRITES_PER_S = 1000
"""Of each mode: more would flood a server's caches with writes that prove nothing further."""
_FATAL = ("no_space", "permission", "read_only", "unsupported")
"""Errors that no cut makes."""
_FILL_RECORDS = 64
WRITE_NEW = json.dumps({"read": True, "write": True, "create": "new"})
WRITE = json.dumps({"read": False, "write": True})
WRITE_EACH = json.dumps({"read": False, "write": True, "sync": "all"})


def fill(session: _engine.Session, plan: Plan, cut: int) -> None:
    """Makes the files of a cut, writes all of them and flushes. Raises TargetError."""
    session.mkdir(plan.place(cut))
    for mode in plan.modes:
        tagger, length = Tagger(plan.tag(cut), MODES.index(mode)), plan.record_bytes
        file = session.open(plan.path(cut, mode), WRITE_NEW)
        for first in range(0, plan.records, _FILL_RECORDS):
            offsets = [record * length for record in range(first, min(first + _FILL_RECORDS, plan.records))]
            ops = [("write", offset, tagger.record(FILL, offset, length)) for offset in offsets]
            failed = _failures(session.run_ops(file, list(ops), plan.queue_depth))
            if failed:
                raise _as_error(session, failed[0])
        session.flush(file)
        session.close(file)


class Load:
    """Threads at work on a cut's files. lost: set when the server was gone. failure: what else went wrong."""

    def __init__(self, session: _engine.Session, plan: Plan, cut: int, journal: Journal) -> None:
        self.plan, self.cut, self.journal = plan, cut, journal
        self.lost = threading.Event()
        self.lost_ns: int | None = None
        self.failure: NaslabError | None = None
        self._stop = threading.Event()
        self._sessions = [session.another() for _ in plan.loads]
        work = [self._work(mine, load) for mine, load in zip(self._sessions, plan.loads, strict=True)]
        self._threads = [
            threading.Thread(target=self._guarded, args=(one,), daemon=True, name="naslab-durable") for one in work
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends it and waits; what a server owes is not waited for."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for session in self._sessions:
            session.end()

    def join(self) -> None:
        """Waits until every thread has met the cut."""
        for thread in self._threads:
            thread.join()
        self.stop()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            until(self._stop.is_set, lambda: TargetError("the load was ended", "interrupted"), work)
        except TargetError as error:
            if error.kind in _FATAL:
                self.failure = self.failure or error
            if self.lost_ns is None:
                self.lost_ns = time.monotonic_ns()
        except NaslabError as error:
            self.failure = self.failure or error
        except OSError as error:
            self.failure = self.failure or TargetError(f"the journal cannot be written: {error}", "journal")
        else:
            return
        self.lost.set()

    def _work(self, session: _engine.Session, mode: str) -> Callable[[], None]:
        if mode == METADATA:
            return lambda: metadata.work(session, self.plan, self.cut, self.journal, self._stop)

        def work() -> None:
            plan = self.plan
            file = session.open(plan.path(self.cut, mode), WRITE_EACH if mode == "each" else WRITE)
            tagger = Tagger(plan.tag(self.cut), MODES.index(mode))
            began = time.monotonic()
            for batch, records in enumerate(plan.batches(self.cut, mode)):
                if self._stop.is_set():
                    return
                self._write(session, file, tagger, (mode, batch, records))
                if mode == "end" and (batch + 1) % plan.flush_batches == 0:
                    session.flush(file)
                    self.journal.write(mode=mode, flushed=batch, at=time.monotonic_ns())
                due = began + (batch + 1) * plan.queue_depth / MOST_WRITES_PER_S
                self._stop.wait(max(0.0, due - time.monotonic()))

        return work

    def _write(self, session: _engine.Session, file: int, tagger: Tagger, what: tuple[str, int, list[int]]) -> None:
        """One batch; what of it was acknowledged goes to the journal. Raises TargetError where some failed."""
        (mode, batch, records), plan = what, self.plan
        first, length = FIRST + batch * plan.queue_depth, plan.record_bytes
        ops: list[tuple[str, int, int | bytes]] = [
            ("write", record * length, tagger.record(first + at, record * length, length))
            for at, record in enumerate(records)
        ]
        outcomes = session.run_ops(file, ops, plan.queue_depth)
        failed = _failures(outcomes)
        only = {"only": [at for at, one in enumerate(outcomes) if one[2] is None]} if failed else {}
        self.journal.write(mode=mode, batch=batch, at=time.monotonic_ns(), **only)
        if failed:
            raise _as_error(session, failed[0])


Outcome = tuple[int, bytes | None, str | None, int]


def _failures(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [one for one in outcomes if one[2] is not None]


def _as_error(session: _engine.Session, outcome: Outcome) -> TargetError:
    kind, status = outcome[2] or "io", outcome[3]
    return TargetError(f"write: {session.explain(kind, status)}", kind, status)


def end_quietly(session: _engine.Session) -> None:
    """Ends a session whose server may be gone."""
    with contextlib.suppress(NaslabError):
        session.end()
