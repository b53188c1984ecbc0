"""Scripts and cells of `naslab tree`: one kind of metadata operation after the other over a tree of folders and files.

The questions are those of mdtest: https://github.com/hpc/ior/blob/main/doc/mdtest.1 (its own files and folders, or all
workers in one tree). Each phase is a cell of its own; all share one folder. The phases that only look may be done a
second time, with cold caches.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from naslab.analysis.metadata import CACHE_STATES, LOOKS, PHASES, WARM_UP, Cold
from naslab.errors import UsageError
from naslab.spec import CellSpec, DataSpec, ScriptSpec
from naslab.spec import script as steps
from naslab.spec.script import ScriptStream, ScriptWriter

SIGMA = 1.5
"""Of the logarithm of file sizes; chosen. That sizes are lognormal: A. Downey, The structural cause of file size
distributions, MASCOTS 2001."""
MAX_FILE_BYTES = 64 << 20
MAX_ITEMS = 2_000_000
"""Folders and files: the plan holds them all."""
REQUEST_BYTES = 1 << 20
"""Longest read or write."""
_NEW = steps.FLAG_WRITE | steps.FLAG_CREATE | steps.FLAG_EXCLUSIVE
_RENAMED = ".renamed"


@dataclass
class TreeOptions:
    """The tree. depth: levels of folders below the top; fan_out: folders in each but the last level's; files: in all.

    mean_bytes: of a file; 0: empty files. lognormal: sizes vary around it. shared: one tree for all workers instead of
    one each (then files are of each worker's tree). cold: how the phases that only look are done a second time.
    neighbour: after `create`, each worker uses the files of the worker this many after it; 0: its own. shuffled: the
    phases that only look go through folders and files in random order.
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
    cold: Cold = "none"
    neighbour: int = 0
    shuffled: bool = False


@dataclass
class Share:
    """What one worker makes or visits: folders, parents first, and (path, bytes) of files."""

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
    if options.neighbour and options.neighbour % options.workers == 0:
        step = "give more --workers" if options.workers == 1 else f"give 1 to {options.workers - 1}"
        raise UsageError(
            f"--neighbour {options.neighbour}: with --workers {options.workers} each worker would take its own; {step}"
        )


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
    """All cells, their scripts in `folder`, in the order of their ids: the phases, `repeat` times.

    The cold passes come after the warm ones of all phases that only look, so that those stay warm; where a command
    empties caches for them, all is looked at once more afterwards, so that the phases that follow are warm, too. A
    phase that has nothing to do is left out: there is no `read` of empty files.
    """
    cells: list[CellSpec] = []
    for block in range(options.repeat):
        parts = shares(options, f"r{block}")
        cold: list[CellSpec] = []
        for op in PHASES:
            if op == "rename" and options.cold == "command":
                cold += filter(None, [_cell(options, WARM_UP, block, parts, folder)])
            if op == "rename":
                cells += cold
            cell = _cell(options, op, block, taken(options, parts, op), folder)
            if cell is None:
                continue
            cells.append(cell)
            if op in LOOKS and options.cold != "none":
                cold.append(dataclasses.replace(cell, fresh_sessions=True, cache_state=CACHE_STATES[options.cold]))
    return [dataclasses.replace(cell, id=number) for number, cell in enumerate(cells)]


def taken(options: TreeOptions, parts: list[Share], op: str) -> list[Share]:
    """What each worker takes in a phase. parts: what each made.

    The neighbour is further away from phase to phase, so that nobody meets what it has just looked at. As mdtest's
    -N, but never back to what a worker made itself.
    """
    turn = PHASES.index(op) - PHASES.index(LOOKS[0])
    if options.neighbour and turn >= 0:
        shifts = [times * options.neighbour % options.workers for times in range(1, options.workers + 1)]
        others = [shift for shift in shifts if shift]
        shift = others[turn % len(others)]
        parts = parts[shift:] + parts[:shift]
    if options.shuffled and op in LOOKS:
        chance = random.Random(f"{options.seed} {op}")
        parts = [Share(list(part.folders), list(part.files)) for part in parts]
        for part in parts:
            chance.shuffle(part.folders)
            chance.shuffle(part.files)
    return parts


def _cell(options: TreeOptions, phase: str, block: int, parts: list[Share], folder: Path) -> CellSpec | None:
    """One phase, warm, or the warm-up, its script written; None where nothing is to be done."""
    op, workload = ("stat", WARM_UP) if phase == WARM_UP else (phase, "tree")
    top, path = f"r{block}", folder / f"{block}-{phase}"
    with ScriptWriter(folder) as writer:
        _WRITE[phase]([writer.stream() for _ in parts], parts, top)
        if not writer.steps or (op == "read" and not writer.most_bytes):
            return None
        writer.save(path)
        record = max(writer.most_bytes, 1)
    moved = sum(size for part in parts for _, size in part.files)
    script = ScriptSpec(str(path), planned_bytes=moved if op in ("create", "read") else 0)
    return CellSpec(
        op, max(moved, record), record, [], block=block, workers=options.workers, script=script,
        write_fraction=1.0 if op == "create" else 0.0, workload=workload, data=options.data or DataSpec(),
        flush="none", durability="none", interval_ns=100_000_000, cache_state="warm", seed=options.seed,
    )  # fmt: skip


Streams = list[ScriptStream]


def _mkdir(streams: Streams, parts: list[Share], top: str) -> None:
    if parts[0].folders[0] != top:
        streams[0].on_path(steps.MKDIR, top)
    for number, (stream, part) in enumerate(zip(streams, parts, strict=True)):
        for path in part.folders:
            # The first step of the others waits for the top, which the first stream makes.
            if number and path == part.folders[0]:
                stream.after(streams[0], steps=1)
            stream.on_path(steps.MKDIR, path)


def _create(streams: Streams, parts: list[Share], _top: str) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, size in part.files:
            handle = stream.open(path, _NEW, handle=0)
            for offset in range(0, size, REQUEST_BYTES):
                stream.write(handle, offset, min(REQUEST_BYTES, size - offset))
            stream.close(handle)


def _open_close(streams: Streams, parts: list[Share], _top: str) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, _ in part.files:
            stream.close(stream.open(path, handle=0))


def _read(streams: Streams, parts: list[Share], _top: str) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, size in part.files:
            handle = stream.open(path, handle=0)
            for offset in range(0, size, REQUEST_BYTES):
                stream.read(handle, offset, min(REQUEST_BYTES, size - offset))
            stream.close(handle)


def _look_at_all(streams: Streams, parts: list[Share], _top: str) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path in part.folders:
            stream.on_path(steps.READDIR, path)
        for path, _ in part.files:
            stream.on_path(steps.STAT, path)


def _rename(streams: Streams, parts: list[Share], _top: str) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, _ in part.files:
            stream.rename(path, path + _RENAMED)


def _rename_dir(streams: Streams, parts: list[Share], top: str) -> None:
    """The deepest first: the folders above a folder still have their old names then."""
    for stream, part in zip(streams, parts, strict=True):
        for path in reversed(part.folders):
            if path != top:
                stream.rename(path, path + _RENAMED)


def renamed(path: str, top: str) -> str:
    """Where a file or folder is when all below the top were renamed."""
    below = path.removeprefix(top).strip("/")
    return "/".join([top, *(name + _RENAMED for name in below.split("/") if name)])


def _remove(streams: Streams, parts: list[Share], top: str) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path, _ in part.files:
            stream.on_path(steps.REMOVE, renamed(path, top))


def _rmdir(streams: Streams, parts: list[Share], top: str) -> None:
    for stream, part in zip(streams, parts, strict=True):
        for path in reversed(part.folders):
            if path != top:
                stream.on_path(steps.RMDIR, renamed(path, top))
    for other in streams[1:]:
        streams[0].after(other)
        streams[0].pause()
    streams[0].on_path(steps.RMDIR, top)


Write = Callable[[Streams, list[Share], str], None]


def _visit(kind: int, folders: bool = False) -> Write:
    """Writes one step for each file or folder."""

    def write(streams: Streams, parts: list[Share], _top: str) -> None:
        for stream, part in zip(streams, parts, strict=True):
            for path in part.folders if folders else [path for path, _ in part.files]:
                stream.on_path(kind, path)

    return write


_WRITE: dict[str, Write] = {
    "mkdir": _mkdir, "create": _create, "stat": _visit(steps.STAT), "stat_dir": _visit(steps.STAT, folders=True),
    "open_close": _open_close, "read": _read, "readdir": _visit(steps.READDIR, folders=True), "rename": _rename,
    "rename_dir": _rename_dir, "remove": _remove, "rmdir": _rmdir, WARM_UP: _look_at_all,
}  # fmt: skip
