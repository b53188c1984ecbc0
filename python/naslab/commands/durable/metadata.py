"""Metadata under the cut: files made, renamed, made longer and removed, one after the other.

What is promised differs. NFS 3 demands that CREATE, REMOVE and RENAME (and COMMIT) are on stable storage before they
are answered; SETATTR, which sets a length, is not in that list (RFC 1813, section 1.6). NFS 4 as such promises what was
committed, and that needs the file to be there; SMB what was flushed through the file, its length too (MS-SMB2 2.2.17:
all cached file information). POSIX promises contents and length by fsync, but no name without an fsync of the folder,
which sessions of a local path do not make.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from naslab import _engine
from naslab.commands.durable.block import Tagger
from naslab.errors import TargetError
from naslab.results.parts.durable import DurableMetadata

if TYPE_CHECKING:
    from naslab.commands.durable.journal import CutFacts, Journal
    from naslab.commands.durable.plan import Plan

STEPS = ("created", "flushed", "renamed", "extended", "extension_flushed", "removing", "removed")
"""In order. removing: about to be, the only step that is written down before it is done; a file that may be gone proves
nothing by its absence, whatever the end of the journal lost.
"""
KEPT = 32
"""So many files later a file is removed."""
FLUSHED = 16
"""So many files are flushed, then as many are not: a flush may make durable what was done to the files before."""
CONTENT_BYTES, LONG_BYTES = 4096, 65536
MOST_FILES_PER_S = 50
AWAY = ("disconnected", "timeout", "delayed")
"""Errors that say nothing about a file: the server is not there, or not yet."""
_FIRST_FILE = 16
"""Tags of these files begin with this file number; those below are the modes'."""
_NEW = json.dumps({"read": True, "write": True, "create": "new"})
_WRITE = json.dumps({"read": True, "write": True})
_READ = json.dumps({"read": True})

Op = Literal["create", "contents", "rename", "extend", "remove"]
OPS: tuple[Op, ...] = ("create", "contents", "rename", "extend", "remove")
"""Rows of the result: the name is there; its flushed contents; the new name alone; the new length; it is gone."""


def work(session: _engine.Session, plan: Plan, cut: int, journal: Journal, stop: threading.Event) -> None:
    """Goes on until `stop`, a line in the journal for every step acknowledged. Raises TargetError."""
    began = time.monotonic()
    for number in itertools.count():
        for step in steps_of(number):
            file = number - KEPT if step in ("removing", "removed") else number
            if stop.is_set():
                return
            if step != "removing":
                _do(session, plan, cut, step, file)
            journal.write(step=step, file=file, at=time.monotonic_ns())
            if step == "removing":
                journal.settle()
        stop.wait(max(0.0, began + (number + 1) / MOST_FILES_PER_S - time.monotonic()))


def steps_of(number: int) -> list[str]:
    """What is done at a file's turn; the removal is that of an earlier one."""
    left_out = set() if number // FLUSHED % 2 == 0 else {"flushed", "extension_flushed"}
    left_out |= set() if number >= KEPT else {"removing", "removed"}
    return [step for step in STEPS if step not in left_out]


def names(plan: Plan, cut: int, number: int) -> tuple[str, str]:
    """A file's first name and its name after the renaming."""
    return f"{plan.place(cut)}/m{number}.new", f"{plan.place(cut)}/m{number}"


def _do(session: _engine.Session, plan: Plan, cut: int, step: str, number: int) -> None:
    first, second = names(plan, cut, number)
    if step == "created":
        file = session.open(first, _NEW)
        session.write(file, 0, _tagger(plan, cut, number).record(1, 0, CONTENT_BYTES))
    elif step == "flushed":
        file = session.open(first, _WRITE)
        session.flush(file)
    elif step == "renamed":
        return session.rename(first, second)
    elif step == "removed":
        return session.remove(second)
    else:
        file = session.open(second, _WRITE)
        if step == "extended":
            session.set_len(file, LONG_BYTES)
        else:
            session.flush(file)
    session.close(file)
    return None


def _tagger(plan: Plan, cut: int, number: int) -> Tagger:
    return Tagger(plan.tag(cut), _FIRST_FILE + number)


def is_nfs3(protocol: str, dialect: str | None) -> bool:
    """Whether it is NFS 3."""
    return protocol == "nfs" and dialect is not None and dialect.split(".")[0] == "3"


def promises(protocol: str, dialect: str | None) -> dict[str, str | None]:
    """For each row of the result the step whose acknowledgement promises it; None: nothing does."""
    if is_nfs3(protocol, dialect):
        return {"create": "created", "contents": "flushed", "rename": "renamed", "extend": None, "remove": "removed"}
    contents = None if protocol == "local" else "flushed"
    length = None if protocol == "nfs" else "extension_flushed"
    return {"create": contents, "contents": contents, "rename": None, "extend": length, "remove": None}


def judge(
    session: _engine.Session, plan: Plan, facts: CutFacts, promised: Mapping[str, str | None]
) -> list[DurableMetadata]:
    """A row for each of OPS. Raises TargetError.

    Judged are the files that are to be there, and those that were to go last. What may have been under way when the
    server was lost is not: a file may have its next name or length, and one that was being removed may be there or not.
    """
    rows = {op: DurableMetadata(op, 0, 0, 0, 0, 0) for op in OPS}
    reached: dict[int, list[str]] = {}
    for number, step, _ in facts.steps:
        reached.setdefault(number, []).append(step)
    newest = max(reached, default=-1)
    for number, steps in reached.items():
        if number < newest - 2 * KEPT or steps[-1] == "removing":
            continue
        looked = _look(session, plan, facts.number, number)
        for op, survived in _judgements(steps, looked):
            row, is_promised = rows[op], promised[op] in steps
            row.acknowledged += 1
            row.promised += is_promised
            row.survived += survived
            row.lost += not survived
            row.violations += is_promised and not survived
    return list(rows.values())


def _judgements(steps: list[str], looked: tuple[int | None, int | None, bool]) -> Iterator[tuple[Op, bool]]:
    """(row, whether it survived) of a file with these steps acknowledged."""
    first_bytes, second_bytes, sound = looked
    there = first_bytes is not None or second_bytes is not None
    if "removed" in steps:
        yield "remove", not there
        return
    yield "create", there
    if "flushed" in steps:
        yield "contents", there and sound
    if "renamed" in steps:
        yield "rename", second_bytes is not None and first_bytes is None
    if "extended" in steps and there:
        yield "extend", LONG_BYTES in (first_bytes, second_bytes)


def _look(session: _engine.Session, plan: Plan, cut: int, number: int) -> tuple[int | None, int | None, bool]:
    """Lengths under the first and the second name, None where there is none, and whether the contents are whole."""
    paths = names(plan, cut, number)
    lengths = [_length(session, path) for path in paths]
    path = next((path for path, length in zip(paths, lengths, strict=True) if length is not None), None)
    return lengths[0], lengths[1], path is not None and _is_sound(session, path, _tagger(plan, cut, number))


def _is_sound(session: _engine.Session, path: str, tagger: Tagger) -> bool:
    try:
        file = session.open(path, _READ)
        data = session.read(file, 0, CONTENT_BYTES)
        session.close(file)
    except TargetError as error:
        if error.kind in AWAY:
            raise
        return False
    found = tagger.look(data, 0, CONTENT_BYTES)
    return (found.low, found.bad) == (1, 0)


def _length(session: _engine.Session, path: str) -> int | None:
    """None where there is no such file, or nothing that can be looked at."""
    try:
        return session.stat(path)[0]
    except TargetError as error:
        if error.kind in AWAY:
            raise
        return None
