"""Random operations on a random tree, carried out with system calls and written down as a trace."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

from naslab.trace import Operation, TraceWriter

FOLDERS = ("", "d", "d/e", "n")
NAMES = ("a", "b", "d", "e", "n")
WAYS = (("rw", os.O_RDWR), ("rw", os.O_RDWR), ("rw", os.O_RDWR), ("r", os.O_RDONLY), ("w", os.O_WRONLY))
"""How files are opened: what was opened to be read cannot be written, and the other way round."""


class Actor:
    """Does random things below a folder and writes down what it did, failures included, as done by random streams."""

    def __init__(self, folder: Path, seed: int, writer: TraceWriter, streams: int = 1) -> None:
        self.folder, self.writer = folder, writer
        self.streams, self.chance = streams, random.Random(-seed)
        self.random = random.Random(seed)
        self.open: dict[int, tuple[int, str]] = {}
        self.clock = 0
        self.next_handle = 0

    def path(self) -> str:
        return os.path.join(self.random.choice(FOLDERS), self.random.choice(NAMES))

    def write_down(self, op: str, error: OSError | None, **fields: object) -> None:
        self.clock += 10
        name = None if error is None else errno.errorcode[error.errno or 0]
        stream = self.chance.randrange(self.streams)
        self.writer.write(Operation(start_ns=self.clock, stream=stream, op=op, error=name, **fields))  # type: ignore[arg-type]

    def step(self) -> None:
        """One operation."""
        kinds = ["open", "create", "io", "io", "io", "close", "stat", "readdir", "mkdir", "rmdir", "remove", "rename",
                 "link", "truncate"]  # fmt: skip
        kind = self.random.choice(kinds)
        if kind in ("io", "close"):
            if self.open:
                self.on_handle(kind, self.random.choice(sorted(self.open)))
        elif kind in ("open", "create"):
            self.opens(kind)
        else:
            self.on_name(kind)

    def opens(self, kind: str) -> None:
        path = self.path()
        way, bits = self.random.choice(WAYS)
        flags = way + ("t" if self.random.random() < 0.3 else "")
        flags += "e" if kind == "create" and self.random.random() < 0.3 else ""
        bits |= os.O_CREAT if kind == "create" else 0
        bits |= (os.O_TRUNC if "t" in flags else 0) | (os.O_EXCL if "e" in flags else 0)
        try:
            number = os.open(self.folder / path, bits, 0o600)
        except OSError as error:
            self.write_down(kind, error, path=path, flags=flags)
            return
        self.next_handle += 1
        self.open[self.next_handle] = (number, path)
        self.write_down(kind, None, path=path, flags=flags, handle=self.next_handle)

    def on_handle(self, kind: str, handle: int) -> None:
        number, path = self.open[handle]
        offset, length = self.random.randrange(60), self.random.randrange(1, 40)
        named = {"handle": handle, "path": path}
        if kind == "close":
            os.close(self.open.pop(handle)[0])
            self.write_down("close", None, **named)
        elif self.random.random() < 0.15:
            self.write_down("stat", None, file_bytes=os.fstat(number).st_size, **named)
        elif self.random.random() < 0.15:
            error = self.tried(lambda: os.ftruncate(number, length))
            self.write_down("truncate", error, len_bytes=length, **named)
        elif self.random.random() < 0.5:
            data: list[bytes] = []
            error = self.tried(lambda: data.append(os.pread(number, length, offset)))
            moved = len(b"".join(data))
            asked = length if length != moved else None
            self.write_down("read", error, offset_bytes=offset, len_bytes=moved, asked_bytes=asked, **named)
        else:
            error = self.tried(lambda: os.pwrite(number, bytes(length), offset))
            facts = {"len_bytes": 0, "asked_bytes": length} if error else {"len_bytes": length}
            self.write_down("write", error, offset_bytes=offset, **facts, **named)

    @staticmethod
    def tried(call: Callable[[], object]) -> OSError | None:
        """How a call failed."""
        try:
            call()
        except OSError as error:
            return error
        return None

    def on_name(self, kind: str) -> None:
        path, other = self.path(), self.path()
        at, to = self.folder / path, self.folder / other
        length = self.random.randrange(50)
        facts: dict[str, object] = {}
        error: OSError | None = None
        try:
            if kind == "stat":
                facts = {"flags": "f"} if at.is_dir() else {"file_bytes": at.stat().st_size}
            elif kind == "readdir":
                facts = {"len_bytes": len(os.listdir(at))}
            elif kind == "truncate":
                facts = {"len_bytes": length}
                os.truncate(at, length)
            elif kind in ("rename", "link"):
                facts = {"to_path": other}
                (os.rename if kind == "rename" else os.link)(at, to)
            else:
                {"mkdir": os.mkdir, "rmdir": os.rmdir, "remove": os.unlink}[kind](at)
        except OSError as failed:
            error = failed
            facts = {"to_path": other} if "to_path" in facts else {"len_bytes": 0} if kind == "truncate" else {}
        self.write_down(kind, error, path=path, **facts)


def start(folder: Path, seed: int) -> None:
    """A tree that may have anything at the names that are used."""
    generator = random.Random(seed)
    for part in FOLDERS[1:]:
        if generator.random() < 0.6 and (folder / part).parent.is_dir():
            (folder / part).mkdir(exist_ok=True)
    for part in FOLDERS:
        for name in NAMES:
            place = folder / part / name
            if place.parent.is_dir() and not place.exists() and generator.random() < 0.4:
                place.write_bytes(bytes(generator.randrange(80)))
