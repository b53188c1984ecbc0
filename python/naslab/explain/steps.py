"""Cells of the ladder, and what a step may spend."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.analysis.series import NS_PER_S
from naslab.spec import CellSpec, DataSpec, ScriptSpec, WalkSpec
from naslab.spec.script import FLAG_CREATE, FLAG_FAILS, FLAG_READ, FLAG_WRITE, STAT, ScriptWriter
from naslab.units import size_label

WORKLOAD = "ladder"
LADDER_SHARE = 0.6
"""Of a run's budget: what its ladder may take. What it leaves goes to the sweep and the sustained cells."""
SMALL_FILE, SET_FILE = "naslab.ladder", "naslab.ladder-set"
SMALL_BYTES = 4 << 20
"""A file that any server keeps in memory."""
MOST_WORKERS = 8
MOST_DEPTH = 256
SMALL_RECORD, MIDDLE_RECORD, LARGE_RECORD = 4 << 10, 64 << 10, 1 << 20
FIRST_SET_BYTES = 16 << 20
LEAST_ROOM_BYTES, LEAST_MOVED_BYTES = 64 << 20, 2 << 30
"""Without so much room, and leave to move so much, there is no ladder."""
MOVED_PARTS = 128
"""Of the bytes that may be moved, a timed cell moves one part at most, and sets hold a few of them."""
NULL_CALLS, NULL_NS, MOST_NULL_CALLS = 100, 4 * NS_PER_S // 10, 5000
"""Calls without data: so many say how long one takes. A processor whose time is rationed does a hundred quick ones in
one of its turns, so as many more follow as fill several turns of a tenth of a second."""
NULL_FILE = "null"
"""The empty file that calls without data look at."""
REFUSED_NS, LEAST_REFUSED, MOST_REFUSED = 3 * NS_PER_S // 2, 4, 128
"""Refused writes: as many as take so long at the rate of durable ones."""
SHORTEST_CELL_NS, USUAL_CELL_NS = NS_PER_S // 10, 6 * NS_PER_S // 10
"""A timed cell by its share of the budget, and where there is time."""
BINS = 40
"""Bins of a cell's series."""
SHORTEST_BIN_NS = 1_000_000
LONGEST_BIN_NS = NS_PER_S // 10
PROTECTED = "security"
"""The step that makes the same reads with every protection that the server allows."""
STEP_NAMES = {
    "null": "a call without data",
    "refused": "writes that the server refuses",
    "round_trip": "one small read at a time",
    "client_cache": "do bytes cross the wire?",
    "depth": "queue depth of large reads",
    "small_depth": "queue depth of small reads",
    "connections": "more connections",
    "same_file": "connections on one file",
    "clients": "more clients",
    "record": "record size",
    "order": "small reads in sequence",
    "duplex": "reads beside writes",
    "writes": "writes, acknowledged and durable",
    "set": "working set",
    "beyond": "small and random reads beyond the server cache",
    "again": "the first reads, repeated",
    "rest": "after a rest",
    "long": "a long run",
    "watch": "small reads for longer, for stops",
    PROTECTED: "signing and encryption",
}
"""Steps in their order, in words."""


def title_of(step: str, cells: Sequence[CellSpec]) -> str:
    """A step under way in words: `working set of 2 GiB`."""
    if step in ("set", "beyond"):
        noun = STEP_NAMES["set"] if step == "set" else "small and random reads"
        return f"{noun} of {size_label(max(cell.file_bytes for cell in cells))}"
    return STEP_NAMES.get(step, "writing the test files")


@dataclass(frozen=True)
class Bounds:
    """What the ladder may use.

    cell_ns: usual length of a cell. room_bytes: for all its files at once. most_bytes: moved by one timed cell; None:
    as many as it can. most_depth: requests in flight that the target takes; granted: it is the target that takes no
    more. lanes: the target takes one request per worker, so that workers count as depth. refuses: its server takes a
    write to a file that is open for reading alone, and refuses it.
    """

    cell_ns: int
    room_bytes: int
    most_bytes: int | None
    most_depth: int
    granted: bool
    can_bypass: bool
    can_evict: bool
    lanes: bool
    refuses: bool
    data: DataSpec = field(default_factory=DataSpec)
    seed: int = 0


def small_files() -> list[str]:
    """All small files."""
    return [f"{SMALL_FILE}-{at}" for at in range(MOST_WORKERS)]


def cleanup_files() -> list[str]:
    """Every file that a ladder may make."""
    return [*small_files(), SET_FILE]


@dataclass(frozen=True)
class Load:
    """One timed load on the small files, or on the set.

    write_share: of the operations; with `beside`, one worker reads and as many write. same_file: all workers use one
    file. set_bytes: on the first so many bytes of the set's file instead. clients: so many of several carry it out;
    None: all. most_bytes: it ends when it has moved so many.
    """

    record_bytes: int = LARGE_RECORD
    depth: int = 1
    workers: int = 1
    random: bool = False
    write_share: float = 0.0
    beside: bool = False
    same_file: bool = False
    set_bytes: int | None = None
    bypass: bool = False
    durability: str = "none"
    duration_ns: int = NS_PER_S
    flush: bool = False
    clients: int | None = None
    most_bytes: int | None = None


def load_cell(load: Load, bounds: Bounds) -> CellSpec:
    """The cell of a load."""
    workers = 2 if load.beside else load.workers
    depth = load.depth
    if bounds.lanes and not load.beside:
        workers, depth = max(workers, depth), 1
    on_set = load.set_bytes is not None
    own = not (on_set or load.same_file) and workers <= MOST_WORKERS and not (bounds.lanes and load.workers == 1)
    names = [SET_FILE] if on_set else small_files()[: workers if own else 1]
    more: dict[str, Any] = {"read_workers": 1} if load.beside else {}
    if load.same_file or (len(names) == 1 and workers > 1 and not load.random):
        more["walk"] = _apart(load, load.set_bytes or SMALL_BYTES, workers)
    size = load.set_bytes or SMALL_BYTES
    bin_ns = min(max(load.duration_ns // BINS, SHORTEST_BIN_NS), LONGEST_BIN_NS)
    return CellSpec(
        op=_op(load), file_bytes=size, record_bytes=min(load.record_bytes, size), files=names, workers=workers,
        queue_depth=depth, pattern="random" if load.random else "sequential",
        write_fraction=load.write_share, duration_ns=load.duration_ns,
        stop_bytes=min(filter(None, (bounds.most_bytes, load.most_bytes)), default=None),
        direct=load.bypass, flush="all" if load.flush else "none", interval_ns=bin_ns,
        sync="all" if load.durability == "each" else "none", durability=load.durability,  # type: ignore[arg-type]
        clients=load.clients, workload=WORKLOAD, data=bounds.data, seed=bounds.seed,
        cache_state="warm" if not on_set else "unknown", **more,
    )  # fmt: skip


def _op(load: Load) -> str:
    if load.beside or 0 < load.write_share < 1:
        return "mixed"
    if load.write_share:
        return "random_write" if load.random else "rewrite"
    return "random_read" if load.random else "read"


def _apart(load: Load, size: int, workers: int) -> WalkSpec:
    """Workers on one file begin apart, so that they do not ask for the same record at once."""
    record = min(load.record_bytes, size)
    return WalkSpec("sequential", record, separation_bytes=max(size // workers // record, 1) * record)


def null_cell(folder: Path, bounds: Bounds, calls: int = NULL_CALLS) -> CellSpec:
    """Looks at one empty file again and again: what a call takes that moves nothing. folder: for its script."""
    path = folder / NULL_FILE
    with ScriptWriter(folder) as writer:
        stream = writer.stream()
        stream.close(stream.open(NULL_FILE, FLAG_READ | FLAG_WRITE | FLAG_CREATE, handle=0))
        for _ in range(calls):
            stream.on_path(STAT, NULL_FILE)
        writer.save(path)
    return _scripted("stat", 1, path, bounds)


def refused_cell(folder: Path, bounds: Bounds, durable_bytes_per_s: float) -> CellSpec:
    """Writes to an empty file that is open for reading alone, one at a time: their data cross the network, and the
    server refuses them before they could reach a disk. folder: for its script."""
    count = min(max(durable_bytes_per_s * REFUSED_NS / NS_PER_S / LARGE_RECORD, LEAST_REFUSED), MOST_REFUSED)
    if bounds.most_bytes is not None:
        count = min(count, max(bounds.most_bytes // LARGE_RECORD, 1))
    path = folder / "refused"
    with ScriptWriter(folder) as writer:
        stream = writer.stream()
        handle = stream.open(NULL_FILE, FLAG_READ)
        for _ in range(int(count)):
            stream.write(handle, 0, LARGE_RECORD, flags=FLAG_FAILS)
        stream.close(handle)
        writer.save(path)
    return _scripted("write", LARGE_RECORD, path, bounds)


def _scripted(op: str, record_bytes: int, path: Path, bounds: Bounds) -> CellSpec:
    return CellSpec(
        op, record_bytes, record_bytes, [], script=ScriptSpec(str(path)), workload=WORKLOAD, flush="none",
        durability="none", data=bounds.data, seed=bounds.seed, interval_ns=NS_PER_S // 10,
    )  # fmt: skip


def first_cells(bounds: Bounds) -> list[CellSpec]:
    """The first small file, in steps of four times as much, from 64 KiB on: how fast do writes become durable?"""
    small = small_cell(bounds, small_files()[:1])
    sizes = [SMALL_BYTES]
    while sizes[0] > MIDDLE_RECORD:
        sizes.insert(0, sizes[0] // 4)
    return [dataclasses.replace(small, file_bytes=size, record_bytes=min(size, LARGE_RECORD)) for size in sizes]


def small_cell(bounds: Bounds, names: list[str]) -> CellSpec:
    """Writes small files, each by a worker of its own."""
    return CellSpec(
        op="write", file_bytes=SMALL_BYTES, record_bytes=LARGE_RECORD, files=names, workers=len(names),
        queue_depth=1, write_fraction=1.0, create="if_missing", flush="all", durability="end", workload=WORKLOAD,
        data=bounds.data, seed=bounds.seed, interval_ns=NS_PER_S // 10,
    )  # fmt: skip


def append_cell(from_bytes: int, to_bytes: int, depth: int, bounds: Bounds, rate: float) -> CellSpec:
    """Writes the set's file on from one size to another. rate: expected, in bytes per second."""
    length = to_bytes - from_bytes
    walk = WalkSpec("sequential", LARGE_RECORD, base_bytes=from_bytes, len_bytes=length)
    return CellSpec(
        op="write", file_bytes=to_bytes, record_bytes=LARGE_RECORD, files=[SET_FILE], queue_depth=1 if bounds.lanes
        else depth, write_fraction=1.0, create="if_missing", walk=walk, stop_bytes=length, flush="all",
        durability="end", workload=WORKLOAD, data=bounds.data, seed=bounds.seed, interval_ns=_bin_ns(length, rate),
    )  # fmt: skip


def pass_cell(
    set_bytes: int, depth: int, bypass: bool, bounds: Bounds, rate: float, part: tuple[int, int] | None = None
) -> CellSpec:
    """Reads the set's file once, or a part of it (first byte, length). rate: expected, in bytes per second."""
    base, length = part or (0, set_bytes)
    workers, per = (depth, 1) if bounds.lanes else (1, depth)
    share = max(length // workers // LARGE_RECORD * LARGE_RECORD, LARGE_RECORD) if workers > 1 else 0
    return CellSpec(
        op="read", file_bytes=set_bytes, record_bytes=LARGE_RECORD, files=[SET_FILE], workers=workers, queue_depth=per,
        stop_bytes=length, direct=bypass, cold=bounds.can_evict and not bypass, flush="none", workload=WORKLOAD,
        walk=WalkSpec("sequential", LARGE_RECORD, base_bytes=base, len_bytes=length, separation_bytes=share),
        seed=bounds.seed, interval_ns=_bin_ns(length, rate),
    )  # fmt: skip


def idle_cell(pause_ns: int, bounds: Bounds) -> CellSpec:
    """One small read, then nothing for a while."""
    return dataclasses.replace(
        load_cell(Load(SMALL_RECORD, random=True), bounds), stop_ops=2, burst_ops=1, burst_gap_ns=pause_ns,
        duration_ns=None, stop_bytes=None,
    )  # fmt: skip


def _bin_ns(moved_bytes: int, rate: float) -> int:
    expected = moved_bytes / max(rate, 1.0) * NS_PER_S
    return int(min(max(expected / BINS, SHORTEST_BIN_NS), LONGEST_BIN_NS))


def bounds_of(
    caps: Mapping[str, Any], budget_ns: int, room_bytes: int, most_bytes: int | None, data: DataSpec, seed: int,
    protocol: str, facts: Mapping[str, Any],
) -> Bounds:  # fmt: skip
    """What a ladder may use of a target. most_bytes: what it may move in all; None for no limit. facts: what the server
    said at login."""
    depth = int(caps["max_depth"])
    lanes = depth == 1 and protocol == "local"
    cell_ns = min(max(budget_ns // 300, SHORTEST_CELL_NS), USUAL_CELL_NS)
    most = None if most_bytes is None else max(most_bytes // MOVED_PARTS, 1 << 20)
    return Bounds(
        cell_ns=cell_ns, room_bytes=room_bytes, most_bytes=most,
        most_depth=min(depth, MOST_DEPTH) if not lanes else 64, granted=depth < MOST_DEPTH and not lanes,
        can_bypass=bool(caps["direct"]), can_evict=bool(caps["evict"]), lanes=lanes,
        refuses=protocol in ("smb", "sim") or (protocol == "nfs" and "lease_seconds" in facts), data=data, seed=seed,
    )  # fmt: skip
