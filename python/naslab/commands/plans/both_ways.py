"""The same cells through a kernel's mount and through naslab's own client (`naslab run MOUNT --direct`).

Large and small, read and written, one at a time and several: each in a file that stays, so that the server answers
from where it answers best and the clients are what differs. Cells are short and repeated in turns.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from naslab.commands.plans.sweep import SweepOptions, worker_files
from naslab.spec import CellSpec

WORKLOAD = "both_ways"
FILE_NAME = "naslab.both"
LARGE_BYTES, SMALL_BYTES = 1 << 20, 4 << 10
OPS: tuple[tuple[str, int], ...] = (
    ("write", LARGE_BYTES), ("read", LARGE_BYTES), ("random_write", SMALL_BYTES), ("random_read", SMALL_BYTES),
)  # fmt: skip
SECOND_NS = 1_000_000_000
MOST_CELL_NS, LEAST_CELL_NS = SECOND_NS, SECOND_NS // 20
CELL_SHARE = 0.7
"""Of the budget, what timed windows may take; opening, writing the files and cleaning up take the rest."""
BLOCKS, DEPTH = 8, 8
"""Without --repeat and --depth."""
LEAST_FILE_BYTES, MOST_FILE_BYTES = 8 << 20, 256 << 20


@dataclass(frozen=True)
class Plan:
    """What is repeated. duration_ns: of each cell. stop_bytes: most that a cell may move; None for no bound."""

    depths: tuple[int, ...]
    blocks: int
    duration_ns: int
    stop_bytes: int | None = None

    @classmethod
    def of(cls, repeat: int, depths: tuple[int, ...], budget_ns: int, most_bytes: int | None) -> Plan:
        """Fitted to a budget. repeat: 1 for the usual number."""
        blocks = repeat if repeat > 1 else BLOCKS
        cells = 2 * blocks * len(OPS) * len(depths)
        duration_ns = min(max(int(budget_ns * CELL_SHARE / cells), LEAST_CELL_NS), MOST_CELL_NS)
        return cls(depths, blocks, duration_ns, None if most_bytes is None else max(most_bytes // cells, LARGE_BYTES))


def file_bytes(room_bytes: int, rate_bytes_per_s: float, plan: Plan, workers: int) -> int:
    """Size of each worker's file: what a cell moves, in whole MiB within bounds and within a quarter of the room."""
    wanted = rate_bytes_per_s * plan.duration_ns / SECOND_NS / workers
    most = min(MOST_FILE_BYTES, room_bytes / 4 / workers, plan.stop_bytes or MOST_FILE_BYTES)
    return max(int(min(max(wanted, LEAST_FILE_BYTES), most)) >> 20, 1) << 20


def written(options: SweepOptions, plan: Plan, size_bytes: int) -> CellSpec:
    """Writes the files once, anew; says nothing by itself. As deep as it gets: a run is opened for a depth."""
    cell = _cell(options, "write", LARGE_BYTES, size_bytes, workload="probe")
    return dataclasses.replace(cell, create="if_missing", remove_before=True, queue_depth=plan.depths[-1])


def timed(options: SweepOptions, plan: Plan, size_bytes: int) -> list[CellSpec]:
    """The cells of a block, to be numbered and put in order; for the mount."""
    return [
        dataclasses.replace(
            _cell(options, op, record, size_bytes), queue_depth=depth, duration_ns=plan.duration_ns,
            stop_bytes=plan.stop_bytes,
        )
        for op, record in OPS
        for depth in plan.depths
    ]  # fmt: skip


def _cell(options: SweepOptions, op: str, record: int, size_bytes: int, workload: str = WORKLOAD) -> CellSpec:
    writes, small = op.endswith("write"), record == SMALL_BYTES
    more: dict[str, Any] = {"pattern": "random"} if small else {}
    return CellSpec(
        op=op, file_bytes=size_bytes, record_bytes=record, files=worker_files(FILE_NAME, options.workers),
        workers=options.workers, write_fraction=float(writes), seed=options.seed, direct=True,
        sync="all" if writes and options.durability == "each" else "none",
        flush="none" if options.durability == "none" else "all", durability=options.durability,
        data=options.data, verify=options.verify, cache_state="warm", workload=workload, **more,
    )  # fmt: skip


def for_own_client(cell: CellSpec, kind: str) -> CellSpec:
    """The same for naslab's own client, which has no cache to go past. Over SMB a kernel's unbuffered open asks the
    server to go past its own (FILE_NO_INTERMEDIATE_BUFFERING), and so does this; NFS has no such word."""
    return dataclasses.replace(cell, direct=kind == "smb")
