"""The script that makes the files a trace needs before it begins."""

from __future__ import annotations

from naslab.commands.replay.tree import Tree
from naslab.spec import script as steps
from naslab.spec.script import ScriptWriter

RECORD_BYTES = 1 << 20
MOST_STREAMS = 4
_NEW = steps.FLAG_WRITE | steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE


def write_files(writer: ScriptWriter, tree: Tree) -> None:
    """Adds the steps that make the folders and files of a tree, of their lengths.

    The first stream makes all folders; then the files go to whichever of four streams has the fewest steps.
    """
    streams = [writer.stream() for _ in range(max(1, min(MOST_STREAMS, tree.prepared_files)))]
    for path, node in tree.there():
        if node.folder:
            streams[0].on_path(steps.MKDIR, path)
    if streams[0].steps:
        for other in streams[1:]:
            other.after(streams[0])
            other.pause()
    for path, node in tree.there():
        if not node.folder:
            stream = min(streams, key=lambda one: one.steps)
            handle = stream.open(path, _NEW, handle=0)
            for offset in range(0, node.length_bytes, RECORD_BYTES):
                stream.write(handle, offset, min(RECORD_BYTES, node.length_bytes - offset))
            stream.close(handle)
