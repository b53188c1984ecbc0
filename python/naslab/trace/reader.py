"""Reading traces: line by line, checked, with every file named and every handle opened."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator
from pathlib import Path

import msgspec

from naslab.errors import TraceError
from naslab.trace.format import (
    DATA,
    MAX_HANDLE,
    MAX_OPEN,
    MAX_STREAMS,
    OPENS,
    VERSION,
    End,
    EndLine,
    Header,
    Operation,
    problem,
)
from naslab.trace.lines import lines_of
from naslab.trace.names import shown

MAX_INFERRED_HANDLES = 512
"""Files without handles that are held open at once; the one used longest ago is closed for the next."""


class Trace:
    """A trace on disk. `header` is there at once; iterating gives its operations; `end` is there after the last.

    Each iteration reads the file anew. It yields every operation of the file in order, and before and between
    them those that the file leaves out: an `open` with flag `i` before the first use of a handle that was never
    opened, or of a file that is read and written without handles (NFS 3), and the `close` of the latter. So every
    read, write, flush and close has a handle that an operation before it opened, and a path.

    Raises TraceError, naming file and line, for everything that docs/reference/trace.md does not allow.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.end: End | None = None
        lines = lines_of(path)
        try:
            first = next(lines, None)
        finally:
            lines.close()  # type: ignore[attr-defined]
        if first is None:
            raise TraceError(f"{path}: is empty, or cut off before its first line ended; this is not a trace")
        self.header = _header(path, first[1])

    def __iter__(self) -> Iterator[Operation]:
        decode = msgspec.json.Decoder(Operation).decode
        handles = _Handles()
        streams: set[int] = set()
        last_ns, number = 0, 1
        lines = lines_of(self.path)
        next(lines, None)
        for number, line in lines:
            try:
                operation = decode(line)
            except ValueError as error:
                self.end = self._end(line, number, number - 2, len(streams), error)
                break
            wrong = problem(operation)
            if operation.start_ns < last_ns:
                wrong = f'"t" {operation.start_ns} is before that of the line above ({last_ns}); lines go by start'
            if wrong is None:
                wrong = yield from handles.passed(operation)
            streams.add(operation.stream)
            if len(streams) > MAX_STREAMS or len(handles.open) > MAX_OPEN:
                wrong = f"more than {MAX_STREAMS} streams, or more than {MAX_OPEN} handles open at once"
            if wrong is not None:
                raise TraceError(f"{self.path}, line {number}: {wrong}")
            last_ns = operation.start_ns
        else:
            raise TraceError(
                f"{self.path}: cut off after line {number}: the end line is missing; record or convert it again"
            )
        for number, line in lines:
            if line.strip():
                raise TraceError(f"{self.path}, line {number}: there is more after the end line")

    def _end(self, line: bytes, number: int, count: int, streams: int, error: ValueError) -> End:
        where = f"{self.path}, line {number}"
        if not line.strip():
            raise TraceError(f"{where}: empty; every line holds one operation")
        if b'"end"' not in line[:64]:
            raise TraceError(f"{where}: {_reason(error)}") from error
        try:
            end = msgspec.json.decode(line, type=EndLine).end
        except ValueError as wrong:
            raise TraceError(f"{where}: {_reason(wrong)}") from wrong
        if (end.operations, end.streams) != (count, streams):
            raise TraceError(
                f"{where}: it reports {end.operations} operations of {end.streams} streams, but {count} of {streams} "
                "are above; lines were lost or added"
            )
        return end


def read_trace(path: Path) -> tuple[Header, Iterator[Operation]]:
    """Header and operations of a trace; `Trace` tells more. Raises TraceError."""
    trace = Trace(path)
    return trace.header, iter(trace)


def _header(path: Path, line: bytes) -> Header:
    try:
        return msgspec.json.decode(line, type=Header)
    except ValueError as error:
        try:
            found = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or "naslab_trace" not in found:
            raise TraceError(
                f"{path}, line 1: not a trace header; use naslab trace convert for texts of other tools"
            ) from error
        if found["naslab_trace"] != VERSION:
            version = shown(str(found["naslab_trace"]))
            raise TraceError(f"{path}, line 1: version {version} of the format; this naslab reads {VERSION}") from error
        raise TraceError(f"{path}, line 1: {_reason(error)}") from error


def _reason(error: ValueError) -> str:
    """What the JSON decoder says, with our words for a place: `$.x` is the field "x"."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    reason, at, place = str(error)[:300].replace("`", '"').rpartition(' - at "$')
    if not at:
        reason, place = place, ""
    field = place.rstrip('"').lstrip(".")
    return (f'"{field}": ' if field else "") + reason[:1].lower() + reason[1:]


class _Handles:
    """Which handles are open, and on what; handles for what is used without."""

    def __init__(self) -> None:
        self.open: dict[int, str] = {}
        self._last = -1
        self._inferred: OrderedDict[str, int] = OrderedDict()
        self._next_inferred = MAX_HANDLE + 1

    def passed(self, operation: Operation) -> Generator[Operation, None, str | None]:
        """Yields the operation with what it needs before it; returns what is wrong with it, or None."""
        kind, handle = operation.op, operation.handle
        if handle is not None and handle > MAX_HANDLE:
            return f'"h" {handle} is above {MAX_HANDLE}'
        if kind in OPENS:
            if operation.error is None:
                if handle <= self._last:  # type: ignore[operator]
                    return f'"h" {handle} was used before; each open has a higher number than all before it'
                self._last = handle  # type: ignore[assignment]
                self.open[handle] = operation.path  # type: ignore[index,assignment]
        elif handle is not None:
            path = self.open.get(handle)
            if path is None:
                if handle <= self._last:
                    return f"{kind} of handle {handle}, which is closed"
                if operation.path is None or kind == "close":
                    return f"{kind} of handle {handle}, which was never opened"
                self._last = handle
                path = self.open[handle] = operation.path
                yield _inferred_open(operation, path, handle)
            operation.path = path
            if kind == "close" and operation.error is None:
                del self.open[handle]
        elif kind in DATA or kind == "flush":
            yield from self._without_handle(operation)
        elif self._inferred and kind in ("remove", "rename", "rmdir"):
            yield from self._forget(operation)
        yield operation
        return None

    def _without_handle(self, operation: Operation) -> Iterator[Operation]:
        path: str = operation.path  # type: ignore[assignment]
        handle = self._inferred.get(path)
        if handle is None:
            if len(self._inferred) >= MAX_INFERRED_HANDLES:
                yield self._close(operation, next(iter(self._inferred)))
            handle, self._next_inferred = self._next_inferred, self._next_inferred + 1
            self._inferred[path] = handle
            yield _inferred_open(operation, path, handle)
        else:
            self._inferred.move_to_end(path)
        operation.handle = handle

    def _forget(self, operation: Operation) -> Iterator[Operation]:
        """Closes what goes away or gets another name: the file itself, and all in a folder that is renamed."""
        for path in (operation.path, operation.to_path):
            if path is not None:
                for name in [n for n in self._inferred if n == path or n.startswith(path + "/")]:
                    yield self._close(operation, name)

    def _close(self, operation: Operation, path: str) -> Operation:
        handle = self._inferred.pop(path)
        return Operation(start_ns=operation.start_ns, stream=operation.stream, op="close", handle=handle, path=path)


def _inferred_open(operation: Operation, path: str, handle: int) -> Operation:
    return Operation(
        start_ns=operation.start_ns, stream=operation.stream, op="open", path=path, handle=handle, flags="rwi"
    )
