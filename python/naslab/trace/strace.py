"""From strace's text to operations: every call on a file under the root, with its file and offset resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from naslab.errors import TraceError
from naslab.trace.format import Kind, Operation
from naslab.trace.lines import lines_of
from naslab.trace.strace_calls import HANDLERS, OUTSIDE
from naslab.trace.strace_files import Links, OpenFile, Root, Sizes, Task
from naslab.trace.strace_tasks import FORKS, MAX_TASKS, Event, Tasks
from naslab.trace.strace_text import Begun, Call, Ended, Lexer, descriptor, quoted
from naslab.trace.writer import TraceWriter

UNREADABLE = "unreadable line of strace"
MAX_LINE_BYTES = 1 << 18
_SETTLE_EVERY = 256
_NEVER = frozenset(("fcntl", "flock", "io_submit", "mmap"))
"""Calls that may take long and become no operation."""
_NOTES = {
    "mmap": "files were mapped into memory: reads and writes through mappings are not in the trace",
    "io_uring": "io_uring was used: strace does not see its operations, so they are not in the trace",
    "aio": "Linux asynchronous I/O (io_submit) was used: its operations are not in the trace",
    "server-side copy": "copy_file_range and splice are in the trace as a read and a write",
    "offset unknown": "files opened before the trace began, or by another process, are assumed to be at their "
    "beginning",
}


class Converter:
    """Feeds on the lines of one strace text and writes operations.

    root: only files below it are traced, all others are counted. alias: another name of the root. folder: where the
    command ran, for relative names; None if unknown (then -y output still tells).
    """

    def __init__(self, writer: TraceWriter, root: bytes, folder: bytes | None, alias: bytes | None = None) -> None:
        self._writer = writer
        self.root = Root(root, alias)
        self.tasks = Tasks(folder, self._released)
        self._lexer = Lexer(frozenset(HANDLERS) | FORKS)
        self.sizes = Sizes()
        self.links = Links()
        self._holds: dict[int, int] = {}
        self._next_handle = 0
        self._next_stream = 0
        self.lines = 0
        self.calls = 0
        self.bad_lines = 0

    @property
    def has_times(self) -> bool:
        """Whether the text tells when each call began."""
        return self._lexer.has_times

    @property
    def started_at_ns(self) -> int | None:
        """When the first line was written, since 1970; None where the text does not tell."""
        return self._lexer.started_at_ns

    def line(self, line: bytes) -> None:
        """Takes one line; what cannot be read is counted."""
        self.lines += 1
        try:
            event = self._lexer.event(line)
        except ValueError:
            self.bad_lines += 1
            self._writer.skip(UNREADABLE)
            return
        if event is not None:
            self._take(event)
        if self.lines % _SETTLE_EVERY == 0:
            self._settle()

    def finish(self) -> None:
        """The text is at its end."""
        for event in self.tasks.give_up_waiting():
            self._take(event)
        if self._lexer.half:
            self._writer.skip("call that did not end", len(self._lexer.half))
        if self.tasks.unknown_parents:
            self._writer.skip("process of unknown parent", self.tasks.unknown_parents)
        if not self.has_times:
            self._writer.note("the source has no times: order only, no recorded pace, concurrency or think time")
        for reason, note in _NOTES.items():
            if self._writer.skipped.get(reason):
                self._writer.note(note)

    def _settle(self) -> None:
        """No later line tells of anything that began before this one, but for calls in two halves."""
        waiting = self.tasks.oldest_waiting_ns()
        now_ns = self._lexer.now_ns if waiting is None else min(self._lexer.now_ns, waiting)
        self._writer.settle(min([now_ns, *self._holds.values()]))

    def _take(self, event: Event) -> None:
        if self.tasks.waits(event):
            for kept in self.tasks.stranded():
                self._take(kept)
            return
        if isinstance(event, Begun):
            if self._may_matter(event):
                self._holds[event.pid] = event.start_ns
            return
        self._holds.pop(event.pid, None)
        if isinstance(event, Ended):
            self.tasks.ended(event)
            return
        self.calls += 1
        if event.name in FORKS:
            for kept in self.tasks.born(event):
                self._take(kept)
            return
        try:
            HANDLERS[event.name](self, event)
        except (IndexError, ValueError):
            self.bad_lines += 1
            self._writer.skip(UNREADABLE)

    def _may_matter(self, begun: Begun) -> bool:
        """Whether a call that is under way may become an operation, so that later ones must wait for it."""
        if begun.name in _NEVER:
            return False
        if begun.name not in ("read", "write", "readv", "writev", "close"):
            return True
        number, path, _ = descriptor(begun.text[len(begun.name) + 1 :].split(",", 1)[0].strip())
        known = number is not None and number in self.tasks.task(begun.pid).table.files
        return known or (path is not None and self.root.relative(path) is not None)

    # What handlers use

    def emit(self, call: Call, op: Kind, **fields: Any) -> None:
        """One operation of a call, failed if the call failed."""
        fields.setdefault("duration_ns", call.duration_ns)
        if call.error is not None:
            fields["error"] = call.error
            if call.error == "ENOENT" and op in ("open", "create", "stat"):
                self.sizes.set(fields["path"], 0)  # whoever makes it makes it empty
        self._write(self.tasks.task(call.pid), call.start_ns, op, fields)

    def _write(self, task: Task, start_ns: int, op: Kind, fields: dict[str, Any]) -> None:
        if task.stream is None:
            task.stream = self._next_stream
            self._next_stream += 1
        self._writer.write(Operation(start_ns=start_ns, stream=task.stream, op=op, **fields))

    def _released(self, task: Task, now_ns: int, file: OpenFile) -> None:
        if file.visible:
            self._write(task, now_ns, "close", {"handle": file.handle, "path": file.path})

    def skip(self, reason: str) -> None:
        """Counts what does not become an operation."""
        self._writer.skip(reason)

    def new_file(self, path: str, absolute: bytes, **facts: Any) -> OpenFile:
        """An open file with a handle of its own."""
        self._next_handle += 1
        return OpenFile(self._next_handle, path, absolute, **facts)

    def file(self, call: Call, index: int) -> OpenFile | None:
        """The open file of a descriptor argument; None (and counted) for files outside, sockets and the like.

        A descriptor of unknown origin whose path strace shows (-y) is taken in: opened before the trace began,
        or handed over by another process.
        """
        number, path, deleted = descriptor(call.args[index])
        if number is None:
            return None
        table = self.tasks.task(call.pid).table
        found = table.files.get(number)
        if found is not None:
            return found
        if path is None:
            self.skip("descriptor of an unknown file")
        elif path.startswith(b"/") and not path.startswith((b"/dev/", b"/proc/", b"/sys/")):
            relative = self.root.relative(path)
            if relative is None or deleted:
                self.skip("deleted file" if relative is not None else OUTSIDE)
                return None
            self.skip("offset unknown")
            found = self.new_file(relative, path)
            table.put(number, found)
        return found

    def path(self, call: Call, index: int, at: int | None = None) -> tuple[str, bytes] | None:
        """(path in the trace, absolute path) of a name argument, relative to the descriptor argument `at`.

        None, and counted, for a name outside the root, one cut short, and one relative to an unknown folder.
        """
        name = quoted(call.args[index])
        if name is None:
            self.skip("name not readable")
            return None
        outright = name.startswith(b"/")
        absolute = self.tasks.task(call.pid).folder.absolute(name) if outright else self._below(call, at, name)
        if absolute is None:
            self.skip("name relative to an unknown folder")
            return None
        relative = self.root.relative(absolute)
        if relative is None:
            self.skip(OUTSIDE)
            return None
        return relative, absolute

    def _below(self, call: Call, at: int | None, name: bytes) -> bytes | None:
        task = self.tasks.task(call.pid)
        folder = task.folder.path
        if at is not None:
            number, shown, _ = descriptor(call.args[at])
            if number is not None:
                known = task.table.files.get(number)
                folder = shown or (known.absolute if known else None)
            elif shown is not None:
                folder = task.folder.path = shown
        if folder is None:
            return None
        return folder + b"/" + name if name else folder


def convert_strace(
    path: Path, writer: TraceWriter, root: bytes, folder: bytes | None, alias: bytes | None = None
) -> Converter:
    """Converts a whole file. Raises TraceError for a file that is no strace output at all."""
    converter = Converter(writer, root, folder, alias)
    for number, line in lines_of(path, MAX_LINE_BYTES):
        converter.line(line)
        if len(converter.tasks) > MAX_TASKS:
            raise TraceError(f"{path}, line {number}: more than {MAX_TASKS} processes and threads at once")
    converter.finish()
    if converter.bad_lines and converter.bad_lines * 2 > converter.lines:
        raise TraceError(
            f"{path}: {converter.bad_lines} of its {converter.lines} lines are not from strace; give the file that "
            "strace -f -ttt -T -y -o FILE wrote"
        )
    return converter
