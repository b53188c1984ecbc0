"""The jobs: what each stream does, request by request. Each takes a context and returns what the streams brought home.

Streams are processes: what they find out is told with `Stream.note` and taken by `_brought`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from naslab.commands.jobs.archive import SUFFIXES, Method, TargetReader, members, new_archive
from naslab.commands.jobs.crew import Ended, Phase, Streams
from naslab.commands.jobs.pipeline import Queue, Stream
from naslab.commands.jobs.source import REQUEST_BYTES, Item, Source
from naslab.errors import UsageError

COPY, ARCHIVES, UNPACKED, CHECKOUT = "copy", "archives", "unpacked", "checkout"
"""Folders in the run's folder of files."""
Look = Callable[[], None]


@dataclass
class Context:
    """What jobs share. paths: of items on the target, below one of the folders above.

    times: whether copies get the times of the source. digests: of files read back by `checksum`, by item. unreadable:
    items whose source failed under way. changed: items of the source that were no longer as listed; lengths: of their
    copies, in bytes. found: folders and files that `find` met.
    """

    streams: Streams
    source: Source
    folder: str
    paths: dict[str, str]
    method: Method = "deflate"
    to: Path | None = None
    times: bool = True
    look: Look = lambda: None
    digests: dict[str, bytes] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    lengths: dict[str, int] = field(default_factory=dict)
    found: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def folders(self) -> list[Item]:
        """Folders that are on the target, parents first."""
        return [item for item in self.source.items if item.is_dir and item.path in self.paths]

    @property
    def files(self) -> list[Item]:
        """Files that are on the target."""
        known = self.paths.keys() - self.unreadable
        return [item for item in self.source.items if not item.is_dir and item.path in known]

    def path(self, tree: str, item: Item) -> str:
        """Where an item lies in one of the folders."""
        return f"{self.folder}/{tree}/{self.paths[item.path]}"

    def size(self, item: Item) -> int:
        """Bytes of a file's copy."""
        return self.lengths.get(item.path, item.size_bytes)

    def archive(self, number: int) -> str:
        """Path of an archive, from 0."""
        return f"{self.folder}/{ARCHIVES}/part{number + 1}.{SUFFIXES[self.method]}"

    def carry_out(self, *phases: Phase, **more: Any) -> list[Ended]:
        """Has the streams do it and takes what they tell, also when they fail."""
        try:
            return self.streams.carry_out(*phases, look=self.look, **more)
        finally:
            for ended in self.streams.ended:
                for kind, what in ended.notes:
                    self._take(kind, what)

    def _take(self, kind: str, what: Any) -> None:
        if kind == "unreadable":
            self.unreadable.add(what)
        elif kind == "changed":
            self.changed.add(what[0])
            self.lengths[what[0]] = what[1]
        elif kind == "digest":
            self.digests[what[0]] = what[1]
        elif kind == "found":
            self.found = [self.found[0] + what[0], self.found[1] + what[1]]


def _folders_made(context: Context, tree: str) -> Phase:
    """The first stream makes the folders of a tree."""

    def work(stream: Stream) -> None:
        stream.mkdir(f"{context.folder}/{tree}")
        for item in context.folders:
            stream.mkdir(context.path(tree, item))

    return Phase(work, alone=True)


def copy_in(context: Context) -> list[Ended]:
    """Copies the source to the target; folders get their times when all is in them."""
    files, folders = Queue(context.files), Queue(context.folders if context.times else [])

    def copy(stream: Stream) -> None:
        for item in files:
            if put(context, stream, item, COPY) and context.times:
                stream.set_times(context.path(COPY, item), item.accessed_ns, item.modified_ns)

    def date(stream: Stream) -> None:
        for item in folders:
            stream.set_times(context.path(COPY, item), item.accessed_ns, item.modified_ns)

    return context.carry_out(_folders_made(context, COPY), Phase(copy), Phase(date))


def checkout(context: Context) -> list[Ended]:
    """As git checks a tree out: each file is looked for, created, written, closed, and looked at for the index."""
    queue = Queue(context.files)

    def work(stream: Stream) -> None:
        for item in queue:
            stream.is_missing(context.path(CHECKOUT, item))
            if put(context, stream, item, CHECKOUT):
                stream.stat(context.path(CHECKOUT, item))

    return context.carry_out(_folders_made(context, CHECKOUT), Phase(work))


def put(context: Context, stream: Stream, item: Item, tree: str) -> bool:
    """Copies one file from the source; False, and noted, where the source cannot be read.

    As much is read from the source as may be in flight to the target, then written.
    """
    stream.check()
    meter, path, file, offset = stream.meter, context.path(tree, item), None, 0
    try:
        reader = meter.side("source", context.source.open, item)
        try:
            parts = _gathered(stream, reader)
            file = stream.create(path)
            while parts:
                offset += stream.write(file, offset, parts)
                parts = _gathered(stream, reader) if len(parts) == stream.in_flight else []
        finally:
            meter.side("source", reader.close)
    except OSError:
        if file is not None:
            stream.close(file)
            stream.request("remove", stream.session.remove, path)
        stream.note("unreadable", item.path)
        return False
    stream.finish(file)
    if offset != item.size_bytes:
        stream.note("changed", (item.path, offset))
    meter.files += 1
    return True


def _gathered(stream: Stream, reader: Any) -> list[bytes]:
    """The next parts of a source file, as many as may be in flight; it ends with a read that brings nothing."""
    parts: list[bytes] = []
    while len(parts) < stream.in_flight:
        part = stream.meter.side("source", reader.read, REQUEST_BYTES)
        if not part:
            break
        parts.append(part)
    return parts


def each_part(stream: Stream, path: str, size_bytes: int, take: Callable[[bytes], object]) -> None:
    """Reads a file of the target from its start to its end, more at once the further it is.

    size_bytes: what it should hold; a client of a file server knows that when it has opened a file. Nothing is asked
    for beyond it, and a read that brings less ends the file.
    """
    file, offset, ahead = stream.open(path), 0, 1
    while offset < size_bytes:
        wanted = min(ahead * REQUEST_BYTES, size_bytes - offset)
        parts = stream.read(file, offset, wanted)
        for part in parts:
            take(part)
        moved = sum(map(len, parts))
        if moved < wanted:
            break
        offset += moved
        ahead = min(stream.in_flight, 2 * ahead)
    stream.close(file)


def copy_out(context: Context) -> list[Ended]:
    """Reads the copy, and writes it to a folder of this machine if one is given, with the times of the target."""
    files, folders = Queue(context.files), Queue(context.folders)

    def read(stream: Stream) -> None:
        for item in files:
            each_part(stream, context.path(COPY, item), context.size(item), lambda _data: None)
            stream.meter.files += 1

    if context.to is None:
        return context.carry_out(Phase(read))
    to = context.to

    def make(stream: Stream) -> None:
        for item in context.folders:
            stream.meter.side("local", os.mkdir, to / item.path)

    def write(stream: Stream) -> None:
        for item in files:
            _to_local(context, stream, item, to / item.path)
            _date_local(context, stream, item, to / item.path)
            stream.meter.files += 1

    def date(stream: Stream) -> None:
        for item in folders:
            _date_local(context, stream, item, to / item.path)

    return context.carry_out(Phase(make, alone=True), Phase(write), Phase(date))


def _date_local(context: Context, stream: Stream, item: Item, path: Path) -> None:
    modified = stream.modified_ns(context.path(COPY, item)) if context.times else None
    if modified is not None:
        stream.meter.side("local", lambda: os.utime(path, ns=(modified, modified)))


def _to_local(context: Context, stream: Stream, item: Item, path: Path) -> None:
    meter = stream.meter
    try:
        out: IO[bytes] = meter.side("local", lambda: open(path, "xb", buffering=0))  # noqa: SIM115 - closed below

        def take(data: bytes) -> None:
            left = memoryview(data)
            while left:
                left = left[meter.side("local", out.write, left) :]
            meter.local_bytes += len(data)

        try:
            each_part(stream, context.path(COPY, item), context.size(item), take)
            if stream.durability == "end":
                meter.side("local", os.fsync, out.fileno())
        finally:
            meter.side("local", out.close)
    except OSError as error:
        raise UsageError(f"--to {context.to}: cannot write {path}: {error.strerror or error}") from None


def checksum(context: Context) -> list[Ended]:
    """Reads the copy and computes the SHA-256 of every file."""
    queue = Queue(context.files)

    def work(stream: Stream) -> None:
        for item in queue:
            digest = hashlib.sha256()
            each_part(stream, context.path(COPY, item), context.size(item), digest.update)
            stream.note("digest", (item.path, digest.digest()))
            stream.meter.files += 1

    return context.carry_out(Phase(work))


class Folders:
    """Folders still to be listed, handed to streams that ask; None when none is left and none is being listed."""

    def __init__(self, root: str) -> None:
        self._left, self._open = [root], 1
        self._asking: list[int] = []

    def __call__(self, number: int, found: list[str] | None) -> list[tuple[int, str | None]]:
        """A stream wants a folder; found: in the one it listed, None if it listed none yet. Answers to streams."""
        if found is not None:
            self._left += found
            self._open += len(found) - 1
        self._asking.append(number)
        given: list[tuple[int, str | None]] = []
        while self._asking and self._left:
            given.append((self._asking.pop(0), self._left.pop()))
        if not self._open:
            given += [(asking, None) for asking in self._asking]
            self._asking = []
        return given


def find(context: Context) -> list[Ended]:
    """Lists every folder of the copy and looks at everything in it. context.found: folders and files found."""
    context.found = [0, 0]

    def ask(stream: Stream, found: list[str] | None) -> str | None:
        with stream.meter.waiting():
            return stream.ask(found)  # type: ignore[no-any-return]

    def work(stream: Stream) -> None:
        folder, folders = ask(stream, None), 0
        while folder is not None:
            within = []
            for name, is_dir in stream.readdir(folder):
                stream.stat(f"{folder}/{name}")
                if is_dir:
                    within.append(f"{folder}/{name}")
                else:
                    stream.meter.files += 1
            folders += len(within)
            folder = ask(stream, within)
        stream.note("found", (folders, stream.meter.files))

    return context.carry_out(Phase(work), answer=Folders(f"{context.folder}/{COPY}"))


def shares_of(items: list[Item], count: int) -> list[list[Item]]:
    """Files divided among so many archives, each to the one that is smallest so far, in tree order."""
    shares: list[list[Item]] = [[] for _ in range(count)]
    sizes = [0] * count
    for item in items:
        at = sizes.index(min(sizes))
        shares[at].append(item)
        sizes[at] += item.size_bytes + 1
    return shares


def pack(context: Context) -> list[Ended]:
    """Packs the copy into as many archives as there are streams, all at once; the first holds the folders, too."""
    shares = shares_of(context.files, context.streams.count)

    def make(stream: Stream) -> None:
        stream.mkdir(f"{context.folder}/{ARCHIVES}")

    def work(stream: Stream) -> None:
        archive = new_archive(context.method, stream, context.archive(stream.number))
        for item in context.folders if stream.number == 0 else []:
            modified = stream.modified_ns(context.path(COPY, item))
            archive.add_folder(context.paths[item.path], modified or 0)
        for item in shares[stream.number]:
            path = context.path(COPY, item)
            modified = stream.modified_ns(path)
            reader = TargetReader(stream, path)
            archive.add(context.paths[item.path], reader.size, reader, modified or 0)
            reader.finish()
            stream.meter.files += 1
        archive.finish()

    return context.carry_out(Phase(make, alone=True), Phase(work))


def unpack(context: Context) -> list[Ended]:
    """Unpacks all archives at once, each by one stream; folders get their times when all is in them."""
    folders: dict[str, int] = {}  # of the first archive, in the process that unpacks it

    def work(stream: Stream) -> None:
        for member in members(context.method, stream, context.archive(stream.number)):
            if member.data is None:
                folders[member.name] = member.modified_ns
            else:
                _unpack_one(context, stream, member.name, member.data, member.modified_ns)

    def date(stream: Stream) -> None:
        for name, modified_ns in folders.items():
            stream.set_times(f"{context.folder}/{UNPACKED}/{name}", modified_ns, modified_ns)

    dated = [Phase(date, alone=True)] if context.times else []
    return context.carry_out(_folders_made(context, UNPACKED), Phase(work), *dated)


def _unpack_one(context: Context, stream: Stream, name: str, data: Any, modified_ns: int) -> None:
    path = f"{context.folder}/{UNPACKED}/{name}"
    file, offset = stream.create(path), 0
    while parts := _unpacked(stream, data):
        offset += stream.write(file, offset, parts)
    stream.finish(file)
    if context.times:
        stream.set_times(path, modified_ns, modified_ns)
    stream.meter.files += 1


def _unpacked(stream: Stream, data: Any) -> list[bytes]:
    """The next parts of an archive's file, as many as may be in flight."""
    parts: list[bytes] = []
    while len(parts) < stream.in_flight and (part := data.read(REQUEST_BYTES)):
        parts.append(part)
    return parts


@dataclass(frozen=True)
class Job:
    """A job: its operation in results, folders it needs, the one it makes, and the work. dates: it sets times."""

    name: str
    op: str
    about: str
    work: Callable[[Context], list[Ended]]
    needs: tuple[str, ...] = ()
    makes: str = ""
    dates: bool = False


JOBS = {
    job.name: job
    for job in (
        Job("copy-in", "write", "copies the source to the target", copy_in, (), COPY, dates=True),
        Job("copy-out", "read", "reads the copy back", copy_out, (COPY,), dates=True),
        Job("zip", "mixed", "packs the copy into archives on the target", pack, (COPY,), ARCHIVES),
        Job("unzip", "mixed", "unpacks them into a new folder", unpack, (COPY, ARCHIVES), UNPACKED, dates=True),
        Job("checksum", "read", "reads the copy and computes SHA-256", checksum, (COPY,)),
        Job("find", "stat", "lists all folders and reads every file's attributes", find, (COPY,)),
        Job("checkout", "create", "creates the source's files as git does", checkout, (), CHECKOUT),
    )
}
MAKERS = {job.makes: job.name for job in JOBS.values() if job.makes}
