"""The jobs: what each stream does, request by request. Each takes a context and returns the streams' meters."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from naslab.jobs.archive import SUFFIXES, TargetReader, members, new_archive
from naslab.jobs.meter import Meter
from naslab.jobs.pipeline import Queue, Stream, Streams
from naslab.jobs.source import REQUEST_BYTES, Item, Source

COPY, ARCHIVES, UNPACKED, CHECKOUT = "copy", "archives", "unpacked", "checkout"
"""Folders in the run's folder of files."""
_WAIT_S = 0.1
Look = Callable[[], None]


@dataclass
class Context:
    """What jobs share. paths: of items on the target, below one of the folders above; ended: files done so far.

    digests: of files read back by `checksum`, by item. unreadable: items whose source failed under way.
    """

    streams: Streams
    source: Source
    folder: str
    paths: dict[str, str]
    method: str = "deflate"
    to: Path | None = None
    look: Look = lambda: None
    digests: dict[str, bytes] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    found: list[int] = field(default_factory=lambda: [0, 0])
    lock: threading.Lock = field(default_factory=threading.Lock)

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

    def archive(self, number: int) -> str:
        """Path of an archive, from 0."""
        return f"{self.folder}/{ARCHIVES}/part{number + 1}.{SUFFIXES[self.method]}"


def _number(context: Context, stream: Stream) -> int:
    return context.streams.all.index(stream)


def _in_folders(context: Context, tree: str | None, work: Callable[[Stream], None]) -> list[Meter]:
    """The first stream makes the folders of a tree; then all do `work`."""
    ready = threading.Event()

    def each(stream: Stream) -> None:
        if _number(context, stream) == 0:
            if tree is not None:
                stream.mkdir(f"{context.folder}/{tree}")
                for item in context.folders:
                    stream.mkdir(context.path(tree, item))
            ready.set()
        else:
            with stream.meter.waiting():
                while not ready.wait(_WAIT_S):
                    stream.check()
        work(stream)

    return context.streams.carry_out(each, context.look)


def copy_in(context: Context) -> list[Meter]:
    """Copies the source to the target."""
    queue = Queue(context.files)

    def work(stream: Stream) -> None:
        for item in queue:
            put(context, stream, item, COPY)

    return _in_folders(context, COPY, work)


def checkout(context: Context) -> list[Meter]:
    """As git checks a tree out: each file is looked for, created, written, closed, and looked at for the index."""
    queue = Queue(context.files)

    def work(stream: Stream) -> None:
        for item in queue:
            stream.is_missing(context.path(CHECKOUT, item))
            if put(context, stream, item, CHECKOUT):
                stream.stat(context.path(CHECKOUT, item))

    return _in_folders(context, CHECKOUT, work)


def put(context: Context, stream: Stream, item: Item, tree: str) -> bool:
    """Copies one file from the source; False, and counted, where the source cannot be read."""
    stream.check()
    path, file, offset = context.path(tree, item), None, 0
    try:
        reader = stream.meter.side("source", context.source.open, item)
        try:
            data = stream.meter.side("source", reader.read, REQUEST_BYTES)
            file = stream.create(path)
            while data:
                stream.write(file, offset, data)
                offset += len(data)
                data = stream.meter.side("source", reader.read, REQUEST_BYTES)
        finally:
            reader.close()
    except OSError:
        if file is not None:
            stream.close(file)
            stream.request("remove", stream.session.remove, path)
        with context.lock:
            context.unreadable.add(item.path)
        return False
    stream.finish(file)
    stream.meter.files += 1
    return True


def each_part(stream: Stream, path: str, take: Callable[[bytes], object]) -> None:
    """Reads a file of the target from its start to its end."""
    file, offset, data = stream.open(path), 0, b"."
    while data:
        data = stream.read(file, offset, REQUEST_BYTES)
        if data:
            take(data)
        offset += len(data)
    stream.close(file)


def copy_out(context: Context) -> list[Meter]:
    """Reads the copy, and writes it to a folder of this machine if one is given."""
    queue = Queue(context.files)
    if context.to is not None:
        for item in context.folders:
            (context.to / item.path).mkdir()

    def work(stream: Stream) -> None:
        for item in queue:
            if context.to is None:
                each_part(stream, context.path(COPY, item), lambda _data: None)
            else:
                _to_local(context, stream, item, context.to / item.path)
            stream.meter.files += 1

    return context.streams.carry_out(work, context.look)


def _to_local(context: Context, stream: Stream, item: Item, path: Path) -> None:
    meter = stream.meter
    out: IO[bytes] = meter.side("local", lambda: open(path, "xb", buffering=0))  # noqa: SIM115 - closed below

    def take(data: bytes) -> None:
        meter.side("local", out.write, data)
        meter.local_bytes += len(data)

    try:
        each_part(stream, context.path(COPY, item), take)
        if stream.durability == "end":
            meter.side("local", os.fsync, out.fileno())
    finally:
        meter.side("local", out.close)


def checksum(context: Context) -> list[Meter]:
    """Reads the copy and computes the SHA-256 of every file."""
    queue = Queue(context.files)

    def work(stream: Stream) -> None:
        for item in queue:
            digest = hashlib.sha256()
            each_part(stream, context.path(COPY, item), digest.update)
            context.digests[item.path] = digest.digest()
            stream.meter.files += 1

    return context.streams.carry_out(work, context.look)


class _Folders:
    """Folders still to be listed, shared by streams; ends when none is left and none is being listed."""

    def __init__(self, root: str) -> None:
        self._left, self._open = [root], 1
        self._change = threading.Condition()

    def take(self, stream: Stream) -> str | None:
        """The next folder; None at the end."""
        with stream.meter.waiting(), self._change:
            while not self._left and self._open:
                self._change.wait(_WAIT_S)
                stream.check()
            return self._left.pop() if self._left else None

    def done(self, found: list[str]) -> None:
        """A folder was listed and holds these folders."""
        with self._change:
            self._left += found
            self._open += len(found) - 1
            self._change.notify_all()


def find(context: Context) -> list[Meter]:
    """Lists every folder of the copy and looks at everything in it. context.found: folders and files found."""
    folders = _Folders(f"{context.folder}/{COPY}")
    context.found = [0, 0]

    def work(stream: Stream) -> None:
        while (folder := folders.take(stream)) is not None:
            within = []
            files = 0
            for name, is_dir in stream.readdir(folder):
                stream.stat(f"{folder}/{name}")
                if is_dir:
                    within.append(f"{folder}/{name}")
                else:
                    files += 1
            stream.meter.files += files
            with context.lock:
                context.found = [context.found[0] + len(within), context.found[1] + files]
            folders.done(within)

    return context.streams.carry_out(work, context.look)


def shares_of(items: list[Item], count: int) -> list[list[Item]]:
    """Files divided among so many archives, each to the one that is smallest so far, in tree order."""
    shares: list[list[Item]] = [[] for _ in range(count)]
    sizes = [0] * count
    for item in items:
        at = sizes.index(min(sizes))
        shares[at].append(item)
        sizes[at] += item.size_bytes + 1
    return shares


def pack(context: Context) -> list[Meter]:
    """Packs the copy into as many archives as there are streams, all at once."""
    shares = shares_of(context.files, len(context.streams.all))

    def work(stream: Stream) -> None:
        number = _number(context, stream)
        if number == 0:
            stream.mkdir(f"{context.folder}/{ARCHIVES}")
            made.set()
        with stream.meter.waiting():
            while not made.wait(_WAIT_S):
                stream.check()
        archive = new_archive(context.method, stream, context.archive(number))
        for item in shares[number]:
            reader = TargetReader(stream, context.path(COPY, item))
            archive.add(context.paths[item.path], reader.size, reader)
            reader.finish()
            stream.meter.files += 1
        archive.finish()

    made = threading.Event()
    return context.streams.carry_out(work, context.look)


def unpack(context: Context) -> list[Meter]:
    """Unpacks all archives at once, each by one stream."""

    def work(stream: Stream) -> None:
        for name, data in members(context.method, stream, context.archive(_number(context, stream))):
            file, offset = stream.create(f"{context.folder}/{UNPACKED}/{name}"), 0
            while part := data.read(REQUEST_BYTES):
                stream.write(file, offset, part)
                offset += len(part)
            stream.finish(file)
            stream.meter.files += 1

    return _in_folders(context, UNPACKED, work)


@dataclass(frozen=True)
class Job:
    """A job: its operation in results, folders it needs, the one it makes, and the work."""

    name: str
    op: str
    about: str
    work: Callable[[Context], list[Meter]]
    needs: tuple[str, ...] = ()
    makes: str = ""


JOBS = {
    job.name: job
    for job in (
        Job("copy-in", "write", "copies the source to the target", copy_in, (), COPY),
        Job("copy-out", "read", "reads the copy back", copy_out, (COPY,)),
        Job("zip", "mixed", "packs the copy into archives on the target", pack, (COPY,), ARCHIVES),
        Job("unzip", "mixed", "unpacks them into a new folder", unpack, (COPY, ARCHIVES), UNPACKED),
        Job("checksum", "read", "reads the copy and computes SHA-256", checksum, (COPY,)),
        Job("find", "stat", "lists all folders and looks at every file", find, (COPY,)),
        Job("checkout", "create", "creates the source's files as git does", checkout, (), CHECKOUT),
    )
}
MAKERS = {job.makes: job.name for job in JOBS.values() if job.makes}
