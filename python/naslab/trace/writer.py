"""Writing traces: ordered by start, handles numbered anew, names hidden if asked, whole or not at all."""

from __future__ import annotations

import heapq
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, cast

import msgspec
import zstandard

from naslab.errors import TraceError
from naslab.text.outputs import TRACE, Output
from naslab.trace.format import (
    MAX_HANDLE,
    MAX_LINE_BYTES,
    MAX_OPEN,
    MAX_STREAMS,
    OPENS,
    End,
    EndLine,
    Header,
    Operation,
    problem,
)
from naslab.trace.names import Anonymiser, too_long

_LEVEL = 6
MAX_WAITING = 100_000
"""Operations kept back for one that began before them and has not ended; then its place is given up."""
LONG_HIDDEN = "its hashed name is too long"
LATE = "began long before it ended; placed where it ended"


class TraceWriter:
    """A context that writes a trace to `path`: compressed, plain where the name ends in .trace.

    The file appears when the context ends well, and not at all otherwise. Operations may come in the order of
    their ends: each is held until `settle` says that nothing can begin before it any more. Handles may be any
    whole numbers; they are numbered from 0 in the order of their opens. anonymise: hides names.
    """

    def __init__(self, path: Path, header: Header, anonymise: Anonymiser | None = None) -> None:
        self.skipped: Counter[str] = Counter(header.skipped)
        self.notes: list[str] = list(header.notes)
        self.operations = 0
        self._path = path
        self._file = Output(path, "-o", TRACE)
        self._anonymise = anonymise
        self._streams: set[int] = set()
        self._handles: dict[int, int] = {}
        self._next_handle = 0
        self._waiting: list[tuple[int, int, Operation]] = []
        self._arrived = 0
        self._written_ns = 0
        self._encode = msgspec.json.Encoder().encode
        if anonymise is not None:
            header = msgspec.structs.replace(header, anonymised=True, command=None, root=None)
        self._header = msgspec.structs.replace(header, skipped={}, notes=[])

    def __enter__(self) -> Self:
        raw = self._file.begin().open("wb")
        self._out: BinaryIO = raw
        if self._path.suffix != ".trace":
            packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
            self._out = cast(BinaryIO, packer.stream_writer(raw, closefd=True))
        self._out.write(self._encode(self._header) + b"\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.settle(None)
                end = End(
                    operations=self.operations, streams=len(self._streams),
                    skipped=dict(sorted(self.skipped.items())), notes=self.notes,
                )  # fmt: skip
                self._out.write(self._encode(EndLine(end)) + b"\n")
            self._out.close()
            if kind is None:
                self._file.commit()
        finally:
            with suppress(OSError):
                self._out.close()
            self._file.drop()

    def write(self, operation: Operation) -> None:
        """Takes one operation. It is a mistake of the caller's if it breaks the format (ValueError)."""
        if self._anonymise is not None and not self._hide(operation, self._anonymise):
            return
        wrong = problem(operation)
        if wrong is not None:
            raise ValueError(f"{wrong}: {operation}")
        heapq.heappush(self._waiting, (operation.start_ns, self._arrived, operation))
        self._arrived += 1
        if len(self._waiting) > MAX_WAITING:
            self._line(heapq.heappop(self._waiting)[2])

    def settle(self, before_ns: int | None) -> None:
        """Writes what began before this moment: nothing that comes later began earlier. None: all."""
        waiting = self._waiting
        while waiting and (before_ns is None or waiting[0][0] < before_ns):
            self._line(heapq.heappop(waiting)[2])

    def skip(self, reason: str, count: int = 1) -> None:
        """Counts what the source has and the trace has not."""
        self.skipped[reason] += count

    def note(self, text: str) -> None:
        """A remark about the whole trace, once."""
        if text not in self.notes:
            self.notes.append(text)

    def _hide(self, operation: Operation, names: Anonymiser) -> bool:
        """Replaces its names; False, counted, where they are too long then."""
        if operation.path is not None:
            operation.path = names.path(operation.path)
        if operation.to_path is not None:
            operation.to_path = names.path(operation.to_path)
        if too_long(operation.path or "") or too_long(operation.to_path or ""):
            self.skip(LONG_HIDDEN)
            return False
        return True

    def _line(self, operation: Operation) -> None:
        if operation.start_ns < self._written_ns:
            operation.start_ns = self._written_ns
            self.skip(LATE)
        self._written_ns = operation.start_ns
        if operation.handle is not None and not self._number(operation):
            return
        line = self._encode(operation)
        if len(line) > MAX_LINE_BYTES:
            raise TraceError(f"{self._path}: an operation needs a line of {len(line)} bytes; at most {MAX_LINE_BYTES}")
        self._out.write(line + b"\n")
        self._streams.add(operation.stream)
        if len(self._streams) > MAX_STREAMS:
            raise TraceError(f"{self._path}: more than {MAX_STREAMS} streams; record a part of it")
        self.operations += 1

    def _number(self, operation: Operation) -> bool:
        """Gives the handle its number in the trace; False for a use of a handle that was closed meanwhile."""
        given: int = operation.handle  # type: ignore[assignment]
        known = self._handles.get(given)
        if known is None or operation.op in OPENS:
            if operation.path is None or operation.op == "close":
                self.skip("use of a closed handle")
                return False
            if self._next_handle > MAX_HANDLE:
                raise TraceError(f"{self._path}: more than {MAX_HANDLE} files were opened")
            known = self._handles[given] = self._next_handle
            self._next_handle += 1
            if len(self._handles) > MAX_OPEN:
                raise TraceError(f"{self._path}: more than {MAX_OPEN} files are open at once; record a part of it")
        else:
            operation.path = None
        operation.handle = known
        if operation.op == "close" and operation.error is None:
            del self._handles[given]
        return True
