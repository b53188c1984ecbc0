"""Scripts and cells of `naslab tree`: one kind of metadata operation after the other over a tree of folders and files.

The questions are those of mdtest: https://github.com/hpc/ior/blob/main/doc/mdtest.1 (its own files and folders, or all
workers in one tree). Each phase is a cell of its own; all share one folder.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from naslab import script as steps
from naslab.errors import UsageError
from naslab.script import ScriptStream, ScriptWriter
from naslab.spec import CellSpec, DataSpec, ScriptSpec

PHASES = ("mkdir", "create", "stat", "open_close", "readdir", "rename", "remove", "rmdir")
MAIN_KIND = {"open_close": "open"}
"""Whose latency stands for a phase, where it is not the kind of the same name."""
SIGMA = 1.5
"""Of the logarithm of file sizes; chosen. That sizes are lognormal: A. Downey, The structural cause of file size
distributions, MASCOTS 2001."""
MAX_FILE_BYTES = 64 << 20
MAX_ITEMS = 2_000_000
"""Folders and files: the plan holds them all."""
_NEW = steps.FLAG_WRITE | steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE


@dataclass
class TreeOptions:
    """The tree. depth: levels of folders below the top; fan_out: folders in each but the last level's; files: in all.

    mean_bytes: of a file; 0: empty files. lognormal: sizes vary around it. shared: one tree for all workers instead of
    one each (then files are of each worker's tree).
    """

    depth: int
    fan_out: int
    files: int
    mean_bytes: int
    lognormal: bool = False
    workers: int = 1
    shared: bool = False
    repeat: int = 1
    seed: int = 0
    data: DataSpec | None = None


@dataclass
class Share:
    """What one worker makes and visits: folders, parents first, and (path, bytes) of files."""

    folders: list[str]
    files: list[tuple[str, int]]


def items(options: TreeOptions) -> tuple[int, int]:
    """Folders and files of all trees."""
    trees = 1 if options.shared else options.workers
    return trees * sum(options.fan_out**level for level in range(options.depth + 1)), trees * options.files


def check(options: TreeOptions) -> None:
    """Raises UsageError naming the option, the value and the next step."""
    if sum(items(options)) > MAX_ITEMS:
        raise UsageError(
            f"--depth-of-tree {options.depth} --fan-out {options.fan_out} --files {options.files}: more than "
            f"{MAX_ITEMS:,} folders and files; give less of one"
        )
    if options.mean_bytes > MAX_FILE_BYTES:
        raise UsageError(f"--file-size {options.mean_bytes}: give at most 64m; larger files are for naslab sweep")
    if options.lognormal and not options.mean_bytes:
        raise UsageError("--sizes lognormal: needs a --file-size above 0, the mean")


def shares(options: TreeOptions, top: str) -> list[Share]:
    """Each worker's part. A folder and what is below it belong to one worker, files go around all folders."""
    found = [Share([], []) for _ in range(options.workers)]
    sizes = random.Random(options.seed)
    for tree in range(1 if options.shared else options.workers):
        root = top if options.shared else f"{top}/w{tree}"
        level, all_folders = [(root, tree)], [(root, tree)]
        for depth in range(options.depth):
            level = [
                (f"{path}/d{at}", at % options.workers if options.shared and not depth else owner)
                for path, owner in level
                for at in range(options.fan_out)
            ]
            all_folders += level
        for path, owner in all_folders:
            found[owner].folders.append(path)
        for at in range(options.files):
            owner = at % options.workers if options.shared else tree
            path = all_folders[at % len(all_folders)][0]
            found[owner].files.append((f"{path}/f{at}", _size(options, sizes)))
    return found


def _size(options: TreeOptions, chance: random.Random) -> int:
    if not options.lognormal:
        return options.mean_bytes
    mu = math.log(options.mean_bytes) - SIGMA**2 / 2
    return min(MAX_FILE_BYTES, round(math.exp(chance.gauss(mu, SIGMA))))


def tree_cells(options: TreeOptions, folder: Path) -> list[CellSpec]:
    """All cells, their scripts in `folder`, in the order of their ids: the phases, `repeat` times."""
    cells: list[CellSpec] = []
    for block in range(options.repeat):
        parts = shares(options, f"r{block}")
        moved = sum(size for part in parts for _, size in part.files)
        for op in PHASES:
            path = folder / f"{block}-{op}"
            with ScriptWriter(folder) as writer:
                streams = [writer.stream() for _ in parts]
                _WRITE[op](streams, parts, f"r{block}", options.shared)
                writer.save(path)
                record = max(writer.most_bytes, 1)
            script = ScriptSpec(str(path), planned_bytes=moved if op == "create" else 0)
            cells.append(CellSpec(
                op, max(moved, record), record, [], id=len(cells), block=block, workers=options.workers, script=script,
                write_fraction=1.0 if op == "create" else 0.0, workload="tree", data=options.data or DataSpec(),
                flush="none", durability="none", interval_ns=100_000_000, cache_state="warm", seed=options.seed,
            ))  # fmt: skip
    return cells


def _mkdir(streams: list[ScriptStream], parts: list[Share], top: str, shared: bool) -> None:
    if not shared:
        streams[0].on_path(steps.MKDIR, top)
    for number, (stream, part) in enumerate(zip(streams, parts, strict=True)):
        for path in part.folders:
            # The first step of the others waits for the top, which the first stream makes.
            if number and path == part.folders[0]:
                stream.after(streams[0], steps=1)
            stream.on_path(steps.MKDIR, path)


def _create(streams: list[ScriptStream], parts: list[Share], _top: str, _shared: bool) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, size in part.files:
            handle = stream.open(path, _NEW, handle=0)
            for offset in range(0, size, 1 << 20):
                stream.write(handle, offset, min(1 << 20, size - offset))
            stream.close(handle)


def _open_close(streams: list[ScriptStream], parts: list[Share], _top: str, _shared: bool) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, _ in part.files:
            stream.close(stream.open(path, handle=0))


def _rename(streams: list[ScriptStream], parts: list[Share], _top: str, _shared: bool) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, _ in part.files:
            stream.rename(path, f"{path}.renamed")


def _rmdir(streams: list[ScriptStream], parts: list[Share], top: str, shared: bool) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path in reversed(part.folders):
            if path != top:
                stream.on_path(steps.RMDIR, path)
    for other in streams[1:]:
        streams[0].after(other)
        streams[0].pause()
    streams[0].on_path(steps.RMDIR, top)


Write = Callable[[list[ScriptStream], list[Share], str, bool], None]


def _visit(kind: int, suffix: str = "", folders: bool = False) -> Write:
    """Writes one step for each file or folder."""

    def write(streams: list[ScriptStream], parts: list[Share], _top: str, _shared: bool) -> None:
        for stream, part in zip(streams, parts, strict=True):
            for path in part.folders if folders else [path for path, _ in part.files]:
                stream.on_path(kind, path + suffix)

    return write


_WRITE: dict[str, Write] = {
    "mkdir": _mkdir, "create": _create, "stat": _visit(steps.STAT), "open_close": _open_close,
    "readdir": _visit(steps.READDIR, folders=True), "rename": _rename, "remove": _visit(steps.REMOVE, ".renamed"),
    "rmdir": _rmdir,
}  # fmt: skip
