"""One stream of the script while a trace is converted: what it waits for, which files it has open."""

from __future__ import annotations

from naslab.commands.replay.tally import Tally
from naslab.commands.replay.tree import Marks, Node, each
from naslab.spec import script as steps
from naslab.spec.script import MOST_STEP_BYTES, ScriptStream, ScriptWriter

KIND_NAMES = {
    steps.STAT: "stat", steps.READDIR: "readdir", steps.MKDIR: "mkdir", steps.RMDIR: "rmdir", steps.REMOVE: "remove",
}  # fmt: skip


class OpenFile:
    """A handle of the trace. numbers: the script's handle in each stream that uses it. node: None: not to be used.

    folder: the client opens folders by itself; listed: a listing is under way. flags: for a stream that opens it too.
    """

    __slots__ = ("flags", "folder", "listed", "node", "numbers")

    def __init__(self, node: Node | None, folder: bool = False, flags: int = 0) -> None:
        self.node = node
        self.folder = folder
        self.listed = False
        self.flags = flags
        self.numbers: dict[int, int] = {}


class Lane:
    """Adds steps to a stream of the script and counts them in `tally`. due_ns: of the steps to come."""

    def __init__(self, writer: ScriptWriter, stream: ScriptStream, tally: Tally) -> None:
        self._writer = writer
        self._stream = stream
        self._tally = tally
        self._waits: dict[int, int] = {}
        self._known: dict[int, int] = {}
        self._free: list[int] = []
        self.number = stream.number
        self.due_ns = 0

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self._stream.steps

    def need(self, marks: Marks) -> None:
        """The next step waits for these, where no step before it did."""
        if marks is None:
            return
        for stream, count in each(marks):
            if stream != self.number and count > self._known.get(stream, 0):
                self._known[stream] = count
                self._waits[stream] = count

    def open(self, path: str, flags: int) -> int:
        """Opens a file; the script's handle."""
        number = self._free.pop() if self._free else self._stream.handles
        self._before("create" if flags & steps.FLAG_CREATE else "open")
        return self._stream.open(path, flags, self.due_ns, handle=number)

    def open_fails(self, path: str, flags: int) -> None:
        """An open that fails; nobody uses its handle."""
        self._free.append(self.open(path, flags | steps.FLAG_FAILS))

    def close(self, number: int) -> None:
        """Closes a file."""
        self._before("close")
        self._stream.close(number, self.due_ns)
        self._free.append(number)

    def move(self, kind: str, number: int, offset_bytes: int, len_bytes: int, flags: int = 0) -> int:
        """Reads or writes, in pieces no longer than a step may be; how many."""
        add = self._stream.read if kind == "read" else self._stream.write
        pieces = 0
        while len_bytes:
            length = min(len_bytes, MOST_STEP_BYTES)
            self._before(kind)
            add(number, offset_bytes, length, self.due_ns, flags)
            offset_bytes, len_bytes, pieces = offset_bytes + length, len_bytes - length, pieces + 1
        return pieces

    def flush(self, number: int, flags: int = 0) -> None:
        """Makes a file durable."""
        self._before("flush")
        self._stream.flush(number, self.due_ns, flags)

    def truncate(self, number: int, len_bytes: int, flags: int = 0) -> None:
        """Sets a file's length."""
        self._before("truncate")
        self._stream.truncate(number, len_bytes, self.due_ns, flags)

    def on_path(self, kind: int, path: str, flags: int = 0) -> None:
        """STAT, READDIR, MKDIR, RMDIR or REMOVE."""
        self._before(KIND_NAMES[kind])
        self._stream.on_path(kind, path, self.due_ns, flags)

    def rename(self, path: str, path_to: str, flags: int = 0) -> None:
        """Renames."""
        self._before("rename")
        self._stream.rename(path, path_to, self.due_ns, flags)

    def _before(self, kind: str) -> None:
        """A step waits for one stream: where there are more, pauses wait for the others."""
        self._tally.planned[kind] += 1
        left = len(self._waits)
        for stream, count in self._waits.items():
            self._stream.after(self._writer.streams[stream], steps=count)
            left -= 1
            if left:
                self._stream.pause()
        self._waits.clear()
