"""--verify: what lies on the target (and what was copied out) against the source, outside the timing.

Contents are compared by SHA-256, times of change as exactly as target and archive keep them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from naslab.commands.jobs.archive import TIME_RESOLUTION_NS, members
from naslab.commands.jobs.crew import Ended, Phase
from naslab.commands.jobs.pipeline import Queue, Stream
from naslab.commands.jobs.source import REQUEST_BYTES, Item
from naslab.commands.jobs.work import ARCHIVES, CHECKOUT, COPY, UNPACKED, Context, each_part


def verify(context: Context, job: str, makes: str, resolution_ns: int | None) -> tuple[int, int, str | None]:
    """Files compared, files and folders that differ, and the first of those. resolution_ns: of times on the target.

    A file of the source that is no longer as it was listed is noted as changed instead. Raises TargetError.
    """
    if job == "find":
        return len(context.files), abs(len(context.files) - context.found[1]), None
    if job == "checksum":
        found = dict(context.digests)
    elif makes == ARCHIVES:
        found = _told(context.streams.carry_out(Phase(lambda stream: _archives(context, stream)), look=context.look))
    else:
        found = _told(context.streams.carry_out(Phase(_tree(context, makes or COPY)), look=context.look))
    sums = [(item, found.get(item.path)) for item in context.files]
    if job == "copy-out" and context.to is not None:
        sums += [(item, _local_digest(context.to / item.path)) for item in context.files]
    bad = _differing(context, sums)
    if context.times and makes != CHECKOUT and job != "checksum":
        bad += _misdated(context, job, makes, resolution_ns or 1)
    return len(found), len(bad), bad[0] if bad else None


def _differing(context: Context, sums: Iterable[tuple[Item, bytes | None]]) -> list[str]:
    """Items whose digest is not that of the source, or that were not found."""
    bad = []
    for item, digest in sums:
        if digest != source_digest(context, item):
            if context.source.changed(item):
                context.changed.add(item.path)
            else:
                bad.append(item.path)
    return bad


def _misdated(context: Context, job: str, makes: str, resolution_ns: int) -> list[str]:
    """Items whose time of change, where it was copied to, is not the source's."""
    if makes == UNPACKED:
        resolution_ns = max(resolution_ns, TIME_RESOLUTION_NS)
    bad, session = [], context.streams.connect()
    try:
        for item in [*context.folders, *context.files]:
            if makes == ARCHIVES:
                break  # seen when unpacked
            found = session.modified_ns(context.path(makes or COPY, item))
            there = (context.to / item.path).stat().st_mtime_ns if job == "copy-out" and context.to else found
            kept = all(at is not None and abs(at - item.modified_ns) < resolution_ns for at in (found, there))
            if not kept and (item.is_dir or not context.source.changed(item)):
                bad.append(f"{item.path} (its time)")
    finally:
        session.end()
    return bad


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


def _told(ended: list[Ended]) -> dict[str, bytes]:
    return {what[0]: what[1] for one in ended for kind, what in one.notes if kind == "digest"}


def _tree(context: Context, tree: str) -> Callable[[Stream], None]:
    queue = Queue(context.files)

    def work(stream: Stream) -> None:
        for item in queue:
            digest = hashlib.sha256()
            each_part(stream, context.path(tree, item), context.size(item) + 1, digest.update)  # a longer one differs
            stream.note("digest", (item.path, digest.digest()))

    return work


def _archives(context: Context, stream: Stream) -> None:
    items = {context.paths[item.path]: item for item in context.files}
    for member in members(context.method, stream, context.archive(stream.number)):
        if member.data is not None:
            digest = _digest(lambda data=member.data: data.read(REQUEST_BYTES))  # type: ignore[misc]
            stream.note("digest", (items[member.name].path, digest))
