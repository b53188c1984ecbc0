"""The script that makes the files a trace needs before it begins."""

from __future__ import annotations

from collections.abc import Iterable

from naslab import script as steps
from naslab.replay.names import Names
from naslab.script import ScriptWriter
from naslab.trace.fileset import FileFacts

RECORD_BYTES = 1 << 20
MOST_STREAMS = 4
_NEW = steps.FLAG_WRITE | steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE


def write_files(writer: ScriptWriter, files: Iterable[FileFacts], names: Names) -> int:
    """Adds the steps that make folders and files of their lengths; the bytes they write.

    files: folders before what is in them. The first stream makes all folders; then the files go to whichever of four
    streams has the fewest steps.
    """
    found = list(files)
    plain = [fact for fact in found if not fact.folder]
    streams = [writer.stream() for _ in range(max(1, min(MOST_STREAMS, len(plain))))]
    for fact in found:
        if fact.folder:
            streams[0].on_path(steps.MKDIR, _path(fact.path, names))
    if streams[0].steps:
        for other in streams[1:]:
            other.after(streams[0])
            other.pause()
    for fact in plain:
        stream = min(streams, key=lambda one: one.steps)
        handle = stream.open(_path(fact.path, names), _NEW, handle=0)
        for offset in range(0, fact.size_bytes, RECORD_BYTES):
            stream.write(handle, offset, min(RECORD_BYTES, fact.size_bytes - offset))
        stream.close(handle)
    return sum(fact.size_bytes for fact in plain)


def _path(path: str, names: Names) -> str:
    return "/".join(map(names, path.split("/")))
