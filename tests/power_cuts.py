"""What a disk may hold after its power was cut, from a record of what programs wrote to it.

`Disk` is given every write, flush and name of a folder in order. Only what was flushed is sure to be there: of the rest
any part may be, in any order, torn between sectors. `Disk.image` writes one such outcome into an empty folder.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SECTOR = 512
CALLS = "pwrite64,write,writev,pwritev,fsync,fdatasync,ftruncate,openat,mkdir,unlink,unlinkat,rename"
STRACE = ("strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}")
Way = Literal["all", "none", "prefix", "writes", "sectors", "reordered"]
WAYS: tuple[Way, ...] = ("none", "prefix", "writes", "sectors", "reordered", "all")
"""What becomes of what was not flushed: nothing, what was written first, some whole writes, some sectors, some sectors
in any order, all of it."""


@dataclass(frozen=True)
class Event:
    """One call that ended well. data: of a write. number: its offset, or the size that a file was cut to.

    begun: how many events there were when the call began; a flush is sure of no others.
    """

    kind: Literal["write", "flush", "cut", "make", "folder", "remove", "told"]
    path: str
    begun: int
    data: bytes = b""
    number: int = 0


def events(trace: Path, below: Path, told: Path) -> list[Event]:
    """The calls in strace's output that concern files below a folder. Writes to `told` are words of the program."""
    made: list[Event] = []
    under_way: dict[str, tuple[str, int]] = {}
    for line in trace.read_text("ascii").splitlines():
        pid, _, call = line.partition(" ")
        call, begun = call.strip(), len(made)
        if call.endswith("<unfinished ...>"):
            under_way[pid] = call.removesuffix("<unfinished ...>"), begun
            continue
        if (rest := re.match(r"<\.\.\. \w+ resumed>(.*)", call)) and pid in under_way:
            start, begun = under_way.pop(pid)
            call = start + rest[1]
        made.extend(_event(call, begun, str(below), str(told)))
    return made


def _event(call: str, begun: int, below: str, told: str) -> Iterator[Event]:
    parts = re.fullmatch(r"(\w+)\((.*)\)\s+= (-?\d+).*", call)
    if not parts or int(parts[3]) < 0:
        return
    name, words = parts[1], parts[2]
    texts = [bytes.fromhex(text.replace("\\x", "")) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', words)]
    opened = re.match(r"\d+<((?:\\x[0-9a-f]{2})*)>", words)
    of = bytes.fromhex(opened[1].replace("\\x", "")).decode() if opened else texts[0].decode() if texts else ""
    if not of.startswith((below, told)) and name not in ("openat",):
        return
    if of == told:
        if name == "write":
            yield Event("told", of, begun, texts[0])
    elif name == "pwrite64":
        yield Event("write", of, begun, texts[0], int(words.rsplit(", ", 1)[1]))
    elif name in ("fsync", "fdatasync"):
        yield Event("flush", of, begun)
    elif name == "ftruncate":
        yield Event("cut", of, begun, number=int(words.rsplit(", ", 1)[1]))
    elif name == "openat" and texts[0].decode().startswith(below) and "O_CREAT" in words:
        yield Event("make", texts[0].decode(), begun)
    elif name == "mkdir":
        yield Event("folder", of, begun)
    elif name == "unlink":
        yield Event("remove", of, begun)
    elif name != "openat":
        raise AssertionError(f"{name} of {of} is in no model of a disk yet")


@dataclass
class Inode:
    """A file: what is sure to be there, and what was done since, each with the number of its event. None: a folder."""

    sure: bytearray | None = field(default_factory=bytearray)
    pending: list[tuple[int, int, bytes | None]] = field(default_factory=list)

    def apply(self, into: bytearray, number: int, data: bytes | None) -> None:
        """A write at an offset, or with None a cut to a size."""
        if data is None:
            del into[number:]
            into.extend(bytes(number - len(into)))
        else:
            into.extend(bytes(max(0, number + len(data) - len(into))))
            into[number : number + len(data)] = data

    def flush(self, before: int) -> None:
        """All that was done before this event is sure to be there."""
        assert self.sure is not None
        for _, number, data in (each for each in self.pending if each[0] < before):
            self.apply(self.sure, number, data)
        self.pending = [each for each in self.pending if each[0] >= before]

    def after_cut(self, way: Way, rng: random.Random) -> bytes:
        """What a power cut leaves."""
        assert self.sure is not None
        found, pending = bytearray(self.sure), [(number, data) for _, number, data in self.pending]
        if way == "none":
            pending = []
        elif way == "prefix":
            pending = pending[: rng.randint(0, len(pending))]
        elif way == "writes":
            pending = [each for each in pending if rng.random() < 0.5]
        elif way in ("sectors", "reordered"):
            torn = [(n, d) for number, data in pending for n, d in _sectors(number, data)]
            pending = [each for each in torn if rng.random() < 0.5]
            if way == "reordered":
                rng.shuffle(pending)
        for number, data in pending:
            self.apply(found, number, data)
        return bytes(found)


def _sectors(number: int, data: bytes | None) -> Iterator[tuple[int, bytes | None]]:
    if data is None:
        yield number, None
        return
    at = 0
    while at < len(data):
        length = SECTOR - (number + at) % SECTOR
        yield number + at, data[at : at + length]
        at += length


class Disk:
    """Files below one folder, which is there from the beginning."""

    def __init__(self, below: Path) -> None:
        self.below = str(below)
        self.now: dict[str, Inode] = {}
        """By name, as a program sees them."""
        self.sure: dict[str, Inode] = {}
        """By names that are sure to be there."""
        self.names: list[tuple[int, str, Inode | None]] = []
        """Names made and removed (None) that were not flushed."""

    def take(self, at: int, event: Event) -> None:
        """The next event, and its number."""
        path = event.path
        if event.kind in ("make", "folder"):
            if path not in self.now:
                self._name(at, path, Inode() if event.kind == "make" else Inode(None))
        elif event.kind == "remove":
            self._name(at, path, None)
        elif event.kind == "flush" and (path == self.below or self.now[path].sure is None):
            self._flush_names(path, event.begun)
        elif event.kind == "flush":
            self.now[path].flush(event.begun)
        elif event.kind in ("write", "cut") and path in self.now:  # a file that was removed is nobody's
            self.now[path].pending.append((at, event.number, event.data if event.kind == "write" else None))

    def _name(self, at: int, path: str, inode: Inode | None) -> None:
        self.names.append((at, path, inode))
        _rename(self.now, path, inode)

    def _flush_names(self, folder: str, before: int) -> None:
        left = []
        for at, path, inode in self.names:
            if at < before and path.rpartition("/")[0] == folder:
                _rename(self.sure, path, inode)
            else:
                left.append((at, path, inode))
        self.names = left

    def image(self, into: Path, way: Way, rng: random.Random) -> None:
        """Writes what a power cut now may leave into an empty folder, in the place of the one that was recorded."""
        names = dict(self.sure)
        known = {"none": 0, "all": len(self.names)}.get(way, rng.randint(0, len(self.names)))
        for _, path, inode in self.names[:known]:
            _rename(names, path, inode)
        for path, inode in sorted(names.items()):
            to = into / path.removeprefix(self.below + "/")
            if not to.parent.is_dir():
                continue  # its folder is gone, and it with it
            if inode.sure is None:
                to.mkdir()
            else:
                to.write_bytes(inode.after_cut(way, rng))


def _rename(names: dict[str, Inode], path: str, inode: Inode | None) -> None:
    if inode is None:
        names.pop(path, None)
    else:
        names[path] = inode
