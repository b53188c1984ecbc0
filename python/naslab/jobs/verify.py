"""--verify: what lies on the target (and what was copied out) against the source, by SHA-256, outside the timing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from naslab.jobs.archive import members
from naslab.jobs.pipeline import Queue, Stream
from naslab.jobs.source import REQUEST_BYTES, Item
from naslab.jobs.work import ARCHIVES, COPY, Context, each_part


def verify(context: Context, job: str, makes: str) -> tuple[int, int, str | None]:
    """Files compared, files that differ, and the first of those. Raises TargetError."""
    bad: list[str] = []
    compared: list[str] = []

    def compare(item: Item, found: bytes) -> None:
        compared.append(item.path)
        if found != source_digest(context, item):
            bad.append(item.path)

    if job == "checksum":
        for item in context.files:
            compare(item, context.digests.get(item.path, b""))
    elif makes == ARCHIVES:
        context.streams.carry_out(lambda stream: _archives(context, stream, compare), context.look)
    elif job == "find":
        return len(context.files), abs(len(context.files) - context.found[1]), None
    else:
        _tree(context, makes or COPY, compare)
        if job == "copy-out" and context.to is not None:
            for item in context.files:
                compare(item, _local_digest(context.to / item.path))
    missing = {item.path for item in context.files} - set(compared)
    bad += sorted(missing)
    return len(compared), len(bad), bad[0] if bad else None


def source_digest(context: Context, item: Item) -> bytes:
    """SHA-256 of a file of the source; nothing where it cannot be read any more."""
    try:
        reader = context.source.open(item)
        try:
            return _digest(lambda: reader.read(REQUEST_BYTES))
        finally:
            reader.close()
    except OSError:
        return b"unreadable"


def _local_digest(path: Path) -> bytes:
    with open(path, "rb") as file:
        return _digest(lambda: file.read(REQUEST_BYTES))


def _digest(read: Callable[[], bytes]) -> bytes:
    digest = hashlib.sha256()
    while part := read():
        digest.update(part)
    return digest.digest()


def _tree(context: Context, tree: str, compare: Callable[[Item, bytes], None]) -> None:
    queue = Queue(context.files)

    def work(stream: Stream) -> None:
        for item in queue:
            digest = hashlib.sha256()
            each_part(stream, context.path(tree, item), digest.update)
            compare(item, digest.digest())

    context.streams.carry_out(work, context.look)


def _archives(context: Context, stream: Stream, compare: Callable[[Item, bytes], None]) -> None:
    items = {context.paths[item.path]: item for item in context.files}
    number = context.streams.all.index(stream)
    for name, data in members(context.method, stream, context.archive(number)):
        compare(items[name], _digest(lambda data=data: data.read(REQUEST_BYTES)))  # type: ignore[misc]
