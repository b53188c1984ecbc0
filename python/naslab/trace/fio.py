"""fio's I/O logs (`write_iolog`, versions 2 and 3) as traces.

Version 3 has a time in microseconds on each line; version 2 has `wait` lines. Neither has durations, and a log
does not say how many of its requests were in flight together: each log is one stream. Jobs that wrote one after
another into one file become streams of one trace.
"""

from __future__ import annotations

import heapq
import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.errors import TraceError
from naslab.trace.format import MAX_OFFSET, MAX_REQUEST_BYTES, Operation
from naslab.trace.lines import lines_of
from naslab.trace.names import shown
from naslab.trace.strace_files import Root
from naslab.trace.writer import TraceWriter

_HEADER = re.compile(rb"fio version (\d+) iolog\s*\Z")
_FILE_ACTIONS = frozenset((b"add", b"open", b"close"))
_IO_ACTIONS = frozenset((b"read", b"write", b"sync", b"datasync", b"trim", b"wait"))
_MOVES = frozenset((b"read", b"write"))
_WRITES = frozenset((b"write", b"trim"))
_MAX_JOBS = 256
_MAX_FILES = 1 << 18
_MAX_US = 1 << 50
_HINT = "give each job a log of its own (write_iolog=NAME.$jobnum.log): several in one file spoil it"


@dataclass(slots=True)
class _Line:
    number: int
    time_us: int
    name: bytes
    action: bytes
    offset: int = 0
    length: int = 0


@dataclass
class _Plan:
    """What a first reading finds: where each job's part begins, all names, and those written."""

    jobs: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    names: set[bytes] = field(default_factory=set)
    written: set[bytes] = field(default_factory=set)


def convert_fio(path: Path, writer: TraceWriter, root: bytes | None) -> bytes:
    """Writes the log's operations; the root used. root: None takes the folder that all its files share.

    Raises TraceError for what is no log of fio's, naming file and line.
    """
    plan = _survey(path)
    folder = root if root is not None else common_folder(plan.names)
    names = Root(folder)
    handles = iter(range(1 << 40))
    jobs = [_Job(path, writer, names, plan, stream, handles).operations() for stream in range(len(plan.jobs))]
    for operation in heapq.merge(*jobs, key=lambda operation: operation.start_ns):
        writer.write(operation)
        writer.settle(operation.start_ns)
    writer.note("fio's logs have no durations and no queue depth")
    return folder


def common_folder(names: set[bytes]) -> bytes:
    """The deepest folder that holds all these files; relative names count from `/`."""
    folders = [posixpath.dirname(b"/" + name.lstrip(b"/")) for name in names]
    return os.path.commonpath(folders) if folders else b"/"


def _survey(path: Path) -> _Plan:
    plan = _Plan()
    for line in _lines(path, plan):
        plan.names.add(line.name)
        if len(plan.names) > _MAX_FILES:
            raise TraceError(f"{path}, line {line.number}: more than {_MAX_FILES} files in one log")
        if line.action in _WRITES:
            plan.written.add(line.name)
    return plan


def _lines(path: Path, plan: _Plan | None = None, first: int = 1) -> Iterator[_Line]:
    """The lines of all jobs (plan: notes where each begins), or of the one whose header is line `first`."""
    version = 0
    for number, raw in lines_of(path):
        if number < first or not raw.strip():
            continue
        header = _HEADER.match(raw)
        if header is not None:
            if plan is None and number > first:
                return
            version = int(header[1][:3])
            if version not in (2, 3):
                raise TraceError(f"{path}, line {number}: version {version} of fio's log; 2 and 3 are read")
            if plan is not None:
                plan.jobs.append(number)
                if len(plan.jobs) > _MAX_JOBS:
                    raise TraceError(f"{path}, line {number}: more than {_MAX_JOBS} jobs in one file; {_HINT}")
        elif not version:
            raise TraceError(f'{path}, line {number}: a log of fio\'s begins with "fio version 3 iolog"')
        else:
            yield _line(path, number, raw, version)


def _line(path: Path, number: int, raw: bytes, version: int) -> _Line:
    where = f"{path}, line {number}"
    time_us = 0
    if version == 3:
        stamp, _, raw = raw.lstrip().partition(b" ")
        time_us = _number(where, stamp, _MAX_US)
    words = raw.rsplit(None, 3)
    if len(words) == 4 and words[1] in _IO_ACTIONS:
        if words[1] == b"wait" and version == 3:
            raise TraceError(f'{where}: "wait" has no place in version 3')
        offset, length = _number(where, words[2], MAX_OFFSET), _number(where, words[3], MAX_OFFSET)
        if offset + length > MAX_OFFSET:
            raise TraceError(f"{where}: {offset} + {length} is beyond the largest file there can be")
        if words[1] in _MOVES and length > MAX_REQUEST_BYTES:
            raise TraceError(f"{where}: a request of {length} bytes; none is longer than {MAX_REQUEST_BYTES}")
        return _Line(number, time_us, words[0], words[1], offset, length)
    words = raw.rsplit(None, 1)
    if len(words) == 2 and words[1] in _FILE_ACTIONS:
        return _Line(number, time_us, words[0], words[1])
    text = shown(raw.decode("utf-8", "backslashreplace"))
    raise TraceError(f"{where}: {text} is not a line of fio's log; {_HINT}")


def _number(where: str, word: bytes, limit: int) -> int:
    if not word.isdigit() or len(word) > 19 or int(word) > limit:
        raise TraceError(f"{where}: {shown(word.decode('latin-1'))} is not a whole number from 0 to {limit}; {_HINT}")
    return int(word)


class _Job:
    """One part of the log, from its header to the next."""

    def __init__(
        self, path: Path, writer: TraceWriter, names: Root, plan: _Plan, stream: int, handles: Iterator[int]
    ) -> None:
        self._path, self._writer, self._names, self._plan = path, writer, names, plan
        self._stream = stream
        self._handles = handles
        self._open: dict[bytes, int] = {}
        self._added: set[bytes] = set()
        self._now_us = 0

    def operations(self) -> Iterator[Operation]:
        """Its operations in order. Raises TraceError for uses of files that were not added or opened."""
        for line in _lines(self._path, first=self._plan.jobs[self._stream]):
            self._now_us = max(self._now_us, line.time_us)
            if line.action == b"wait":
                self._now_us += line.offset
                if self._now_us > _MAX_US:
                    raise self._wrong(line, "the wait is too long")
            elif line.action == b"add":
                self._added.add(line.name)
            else:
                yield from self._operation(line)

    def _operation(self, line: _Line) -> Iterator[Operation]:
        if line.name not in self._added:
            raise self._wrong(line, "a file that was not added")
        absolute = line.name if line.name.startswith(b"/") else b"/" + line.name
        path = self._names.relative(absolute)
        if path is None or path == ".":
            self._writer.skip("outside the root")
            return
        if line.action == b"open":
            if line.name in self._open:
                raise self._wrong(line, "a file that is open already")
            handle = self._open[line.name] = next(self._handles)
            written = line.name in self._plan.written
            yield self._made("create" if written else "open", path, handle, flags="rw" if written else "r")
            return
        known = self._open.get(line.name)
        if known is None:
            raise self._wrong(line, "a file that is not open")
        if line.action == b"close":
            del self._open[line.name]
            yield self._made("close", path, known)
        elif line.action == b"trim":
            self._writer.skip("trim")
        elif line.action in (b"sync", b"datasync"):
            yield self._made("flush", path, known)
        else:
            op = line.action.decode()
            yield self._made(op, path, known, offset_bytes=line.offset, len_bytes=line.length)

    def _made(self, op: Any, path: str, handle: int, **more: Any) -> Operation:
        return Operation(start_ns=self._now_us * 1000, stream=self._stream, op=op, path=path, handle=handle, **more)

    def _wrong(self, line: _Line, what: str) -> TraceError:
        name = shown(line.name.decode("utf-8", "backslashreplace"))
        return TraceError(f"{self._path}, line {line.number}: {line.action.decode()} of {what}: {name}; {_HINT}")
