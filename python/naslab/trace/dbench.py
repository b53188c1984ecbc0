r"""dbench's load files (client.txt and its kin) as traces: what one client does, once.

A line is `[SECONDS] OPERATION ARGUMENTS [STATUS]`, names in quotes or without (dbench 2), `\` or `/` between
components. dbench replaces `client1` by the number of each client; a trace keeps it. Sources: dbench's own load
files and the arguments its readers take (child.c, fileio.c, nfsio.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from naslab.errors import TraceError
from naslab.trace.format import MAX_HANDLE, MAX_OFFSET, Operation, problem
from naslab.trace.lines import lines_of
from naslab.trace.names import name_text, shown
from naslab.trace.writer import TraceWriter

MAX_LINE_BYTES = 1 << 16
_TOKEN = re.compile(rb'"([^"]*)"|(\S+)')
_STATUS = re.compile(r"NT_STATUS_[A-Z0-9_]{1,50}\Z|0x[0-9A-Fa-f]{8}\Z|SUCCESS\Z|ERROR\Z|\*\Z")
_OPENS, _CREATES, _OPENS_OR_CREATES, _OVERWRITES, _OVERWRITES_OR_CREATES = 1, 2, 3, 4, 5
_SUPERSEDES = 0
_FOLDER_OPTION = 1
_OPEN_CREATES = 0x08
_OPEN_BITS = ((0x05, "r"), (0x06, "w"), (0x20, "t"), (0x10, "e"), (0x40, "a"))
_MAX_REPEAT = 1_000_000


class Loadfile:
    """Reads a load file and writes operations; `skip`s what has no counterpart.

    Raises TraceError, naming file and line, for lines that dbench would not take and handles it did not open.
    """

    def __init__(self, path: Path, writer: TraceWriter) -> None:
        self._path = path
        self._writer = writer
        self._number = 0
        self._now_ns = 0
        self._timed = False
        self._open: dict[int | str, tuple[int, str, bool]] = {}
        """By the number that the load file uses; by path after OPEN, which gives none."""
        self._links: set[str] = set()
        self._handles = 0
        self._args: list[str] = []
        self._error: str | None = None

    def convert(self) -> None:
        """All lines."""
        for words in self._repeated():
            self._carry_out(words)
        if not self._timed:
            self._writer.note("the source has no times: order only, no recorded pace, concurrency or think time")

    def _repeated(self) -> Iterator[list[str]]:
        times = 1
        for number, raw in lines_of(self._path, MAX_LINE_BYTES):
            self._number = number
            if not raw.strip() or raw.lstrip().startswith(b"#"):
                continue
            words = [self._text(found) for found in _TOKEN.finditer(raw)]
            if words[0].upper() == "REPEAT":
                times = _whole(words[1]) if len(words) == 2 else -1
                if not 0 <= times <= _MAX_REPEAT:
                    raise self._wrong(f"REPEAT takes one number up to {_MAX_REPEAT}")
                continue
            for _ in range(times):
                yield list(words)
            times = 1

    def _text(self, found: re.Match[bytes]) -> str:
        raw = found[1] if found[1] is not None else found[2]
        return name_text(raw.replace(b"\\", b"/"))

    def _carry_out(self, words: list[str]) -> None:
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", words[0]) and len(words) > 1:
            whole, _, fraction = words.pop(0).partition(".")
            self._now_ns = max(self._now_ns, int(whole) * 10**9 + int(fraction.ljust(9, "0") or 0))
            self._timed = True
        name, self._args, self._error = words[0].upper(), words[1:], None
        if self._args and _STATUS.match(self._args[-1]):
            self._error = _error(self._args.pop())
        if name in _COUNTED:
            self._writer.skip(name)
            return
        handler = _HANDLERS.get(name)
        if handler is None:
            raise self._wrong(f"{shown(words[0])} is not an operation of dbench")
        handler(self)
        self._writer.settle(self._now_ns)

    # What handlers use

    def _wrong(self, what: str) -> TraceError:
        return TraceError(f"{self._path}, line {self._number}: {what}")

    def _argument(self, index: int) -> str:
        if index >= len(self._args):
            raise self._wrong(f"{len(self._args)} arguments where at least {index + 1} are needed")
        return self._args[index]

    def number(self, index: int, limit: int = MAX_OFFSET) -> int:
        """A whole number, decimal or 0x. Raises TraceError."""
        text = self._argument(index)
        value = _whole(text)
        if not 0 <= value <= limit:
            raise self._wrong(f"{shown(text)} is not a whole number from 0 to {limit}")
        return value

    def path(self, index: int) -> str:
        """A name, without the slashes at its ends. Raises TraceError for one that leaves the root."""
        return "/".join(part for part in self._argument(index).split("/") if part) or "."

    def emit(self, op: Any, **fields: Any) -> None:
        """One operation, failed if the line says so."""
        operation = Operation(start_ns=self._now_ns, stream=0, op=op, error=self._error, **fields)
        wrong = problem(operation)
        if wrong is not None:
            raise self._wrong(wrong.replace('"f" ', ""))
        self._writer.write(operation)

    def opened(self, op: Any, path: str, flags: str, given: int | str | None, folder: bool = False) -> int | None:
        """An open; its handle under the number that the load file uses, None if it failed."""
        if self._error is not None:
            self.emit(op, path=path, flags=flags)
            return None
        self._handles += 1
        self.emit(op, path=path, flags=flags, handle=self._handles)
        if given is not None:
            self._open[given] = (self._handles, path, folder)
        return self._handles

    def handle(self) -> tuple[int, str, bool]:
        """The open file that the first argument names. Raises TraceError."""
        given = self.number(0, MAX_HANDLE)
        if given not in self._open:
            raise self._wrong(f"handle {given} was never opened, or is closed")
        return self._open[given]

    def ntcreate(self) -> None:
        """NTCreateX NAME OPTIONS DISPOSITION HANDLE"""
        path, options, disposition = self.path(0), self.number(1), self.number(2)
        if self._argument(3) == "-1":  # dbench 2's way to say that it fails
            self._error, given = self._error or "ENOENT", None
        else:
            given = self.number(3, MAX_HANDLE)
        folder = bool(options & _FOLDER_OPTION)
        if disposition > _OVERWRITES_OR_CREATES:
            raise self._wrong(f"disposition {disposition}; SMB has 0 to 5")
        if given is not None and self._error is None and given in self._open:
            raise self._wrong(f"handle {given} is open already")
        if folder:
            if disposition in (_CREATES, _OPENS_OR_CREATES) and path != ".":
                self.emit("mkdir", path=path)
            if self._error is None or disposition == _OPENS:
                self.opened("open", path, "rf", given, folder=True)
            return
        flags = "rw" + ("t" if disposition in (_SUPERSEDES, _OVERWRITES, _OVERWRITES_OR_CREATES) else "")
        flags += "e" if disposition == _CREATES else ""
        self.opened("open" if disposition in (_OPENS, _OVERWRITES) else "create", path, flags, given)

    def data(self, op: str) -> None:
        """ReadX, WriteX HANDLE OFFSET SIZE MOVED"""
        handle, path, _ = self.handle()
        asked = self.number(2)
        moved = self.number(3) if len(self._args) > 3 else asked
        moved = 0 if self._error is not None else moved
        self.emit(
            op, handle=handle, path=path, offset_bytes=self.number(1), len_bytes=moved,
            asked_bytes=asked if asked != moved else None,
        )  # fmt: skip

    def data_by_name(self, op: str) -> None:
        """READ3, WRITE3, READ, WRITE NAME OFFSET SIZE"""
        if self._argument(1).startswith("*"):
            self._writer.skip("random offset")
            return
        size = 0 if self._error is not None else self.number(2)
        path = self.path(0)
        named = {"handle": self._open[path][0]} if path in self._open else {}
        self.emit(op, path=path, offset_bytes=self.number(1), len_bytes=size, **named)

    def open(self) -> None:
        """OPEN NAME FLAGS: dbench's own bits; the name stands for the handle"""
        path, given = self.path(0), self.number(1)
        if path in self._open and self._error is None:
            raise self._wrong(f"{shown(path)} is open already")
        flags = "".join(letter for bit, letter in _OPEN_BITS if given & bit)
        self.opened("create" if given & _OPEN_CREATES else "open", path, flags, path)

    def close(self) -> None:
        """Close HANDLE; CLOSE NAME after OPEN"""
        by_name = self._argument(0).startswith("/")
        key: int | str = self.path(0) if by_name else self.number(0, MAX_HANDLE)
        if by_name and key not in self._open:
            if self._error is None:
                raise self._wrong(f"{shown(str(key))} was never opened, or is closed")
            return
        handle, path, _ = self._open[key] if by_name else self.handle()
        self.emit("close", handle=handle, path=path)
        if self._error is None:
            del self._open[key]

    def symlink(self) -> None:
        """SYMLINK3 NEW OLD: traces have no symbolic links"""
        self._writer.skip("SYMLINK3")
        self._links.add(self.path(0))

    def remove(self) -> None:
        """Unlink, REMOVE3 NAME"""
        path = self.path(0)
        if path in self._links:
            self._links.discard(path)
            self._writer.skip("removed symbolic link")
        else:
            self.emit("remove", path=path)

    def on_handle(self, op: str) -> None:
        """Flush, QUERY_FILE_INFORMATION HANDLE"""
        handle, path, folder = self.handle()
        self.emit(op, handle=handle, path=path, **({"flags": "f"} if folder and op == "stat" else {}))

    def create_by_name(self) -> None:
        """CREATE3 NAME: NFS 3 makes a file and opens nothing"""
        handle = self.opened("create", self.path(0), "rw", None)
        if handle is not None:
            self.emit("close", handle=handle, path=self.path(0))

    def find(self) -> None:
        """FIND_FIRST MASK LEVEL MOST COUNT: the entries of the folder that the mask lies in"""
        folder = self.path(0).rpartition("/")[0] or "."
        count = self.number(3) if len(self._args) > 3 else None
        self.emit("readdir", path=folder, **({"len_bytes": count} if count is not None and not self._error else {}))

    def two_names(self, op: str, first: int) -> None:
        """Rename OLD NEW; LINK3 NEW OLD"""
        self.emit(op, path=self.path(first), to_path=self.path(1 - first))

    def sleep(self) -> None:
        """Sleep MICROSECONDS"""
        self._now_ns += self.number(0, 10**12) * 1000
        self._timed = True


def _whole(text: str) -> int:
    """-1 for what is no number."""
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}|\d{1,19}", text) is None:
        return -1
    return int(text, 16 if text.startswith("0x") else 10)


def _error(status: str) -> str | None:
    """The name of an error; None for success and for `*`, which takes either."""
    if status in ("NT_STATUS_OK", "SUCCESS", "*", "0x00000000"):
        return None
    return "EIO" if status == "ERROR" else f"NT_STATUS_{status.upper()}" if status.startswith("0x") else status


def _named(op: str) -> Callable[[Loadfile], None]:
    return lambda load: load.emit(op, path=load.path(0))


_COUNTED = frozenset((
    "DELTREE", "QUERY_FS_INFORMATION", "SET_FILE_INFORMATION", "SET_PATH_INFORMATION", "LOCKX", "UNLOCKX", "LOCK4",
    "UNLOCK4", "TEST4", "SETATTR3", "READLINK3", "PATHCONF3", "FSSTAT3", "FSINFO3",
))  # fmt: skip
"""What changes no data and has no counterpart in a trace; Deltree only clears the ground for a run."""
_HANDLERS: dict[str, Callable[[Loadfile], None]] = {
    "NTCREATEX": Loadfile.ntcreate, "CLOSE": Loadfile.close, "SLEEP": Loadfile.sleep, "FIND_FIRST": Loadfile.find,
    "READX": lambda load: load.data("read"), "WRITEX": lambda load: load.data("write"),
    "FLUSH": lambda load: load.on_handle("flush"), "QUERY_FILE_INFORMATION": lambda load: load.on_handle("stat"),
    "QUERY_PATH_INFORMATION": _named("stat"), "UNLINK": Loadfile.remove,
    "SYMLINK3": Loadfile.symlink, "OPEN": Loadfile.open,
    "READ": lambda load: load.data_by_name("read"), "WRITE": lambda load: load.data_by_name("write"),
    "READDIR": _named("readdir"), "MKDIR": _named("mkdir"),
    "RMDIR": _named("rmdir"), "RENAME": lambda load: load.two_names("rename", 0),
    "READ3": lambda load: load.data_by_name("read"), "WRITE3": lambda load: load.data_by_name("write"),
    "COMMIT3": _named("flush"), "CREATE3": Loadfile.create_by_name, "GETATTR3": _named("stat"),
    "LOOKUP3": _named("stat"), "ACCESS3": _named("stat"), "REMOVE3": Loadfile.remove, "MKDIR3": _named("mkdir"),
    "RMDIR3": _named("rmdir"), "READDIRPLUS3": _named("readdir"), "LINK3": lambda load: load.two_names("link", 1),
}  # fmt: skip


def convert_dbench(path: Path, writer: TraceWriter) -> None:
    """Writes the operations of a load file. Raises TraceError."""
    Loadfile(path, writer).convert()
    writer.note("a load file is one pass of one client; dbench repeats it and runs several in parallel")
