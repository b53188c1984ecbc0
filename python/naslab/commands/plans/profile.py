"""Cells of `naslab profile`: zone after zone of the file, then random reads, then a small zone again and again.

The zones come first: what the others leave in caches would be seen in them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from naslab.analysis.position import BURST, RANDOM, ZONE
from naslab.errors import UsageError
from naslab.spec import CellSpec, WalkSpec
from naslab.units import size_text

SECOND_NS = 1_000_000_000
FILE_NAME = "naslab.profile"
FILL_RECORD_BYTES, FILL_DEPTH = 1 << 20, 8
BURST_BYTES = 1 << 20
BURST_NS, RANDOM_NS = 2 * SECOND_NS, 3 * SECOND_NS
RANDOM_BYTES, RANDOM_OPS = 4096, 1000
ALIGN_BYTES = 4096
"""Positions of zones are multiples of this, as unbuffered reads need it."""
MAX_ZONES = 10_000


@dataclass
class ProfileOptions:
    """What to read. Sizes in bytes.

    file: its name, in the run's folder when fill is set, else as it lies under the target's root. sample_bytes:
    how much of each zone is read. cold: the client's cached pages are dropped before a zone.
    """

    size_bytes: int
    block_bytes: int
    zones: int
    sample_bytes: int
    file: str = FILE_NAME
    fill: bool = True
    depth: int = 8
    direct: bool = False
    cold: bool = False
    seed: int = 0

    @property
    def zone_bytes(self) -> int:
        """Length of one zone; what is left at the end of the file belongs to none."""
        return self.size_bytes // self.zones // ALIGN_BYTES * ALIGN_BYTES


def check(options: ProfileOptions) -> None:
    """Raises UsageError naming the option, the value and the next step."""
    block = options.block_bytes
    if block < 1:
        raise UsageError("--block 0: an operation reads at least 1 byte, e.g. --block 1m")
    if options.direct and block % ALIGN_BYTES:
        raise UsageError(f"--block {block}: unbuffered reads need a multiple of 4k")
    if not 1 <= options.zones <= MAX_ZONES:
        raise UsageError(f"--zones {options.zones}: give 1 to {MAX_ZONES}")
    if options.sample_bytes < block:
        raise UsageError(f"--sample {options.sample_bytes}: smaller than --block {block}; give a larger one")
    if options.zone_bytes < max(block, ALIGN_BYTES):
        raise UsageError(
            f"--zones {options.zones}: {size_text(options.size_bytes)} has no {options.zones} zones of at least one "
            f"--block of {size_text(block)}; give fewer zones, a smaller block or a larger file"
        )


def profile_cells(options: ProfileOptions) -> list[CellSpec]:
    """All cells, in the order of their ids."""
    length = options.zone_bytes
    read = min(options.sample_bytes, length) // options.block_bytes * options.block_bytes
    cells = [_fill_cell(options)] if options.fill else []
    small = max(min(BURST_BYTES, length) // options.block_bytes, 1) * options.block_bytes
    for zone in range(options.zones):
        cells.append(_read_cell(options, ZONE, zone * length, read, stop_bytes=read, block=zone, cold=options.cold))
    cells.append(_random_cell(options))
    cells.append(_read_cell(options, BURST, 0, small, duration_ns=BURST_NS, warmup_ns=SECOND_NS // 2))
    return [dataclasses.replace(cell, id=i) for i, cell in enumerate(cells)]


def _fill_cell(options: ProfileOptions) -> CellSpec:
    record = min(FILL_RECORD_BYTES, options.size_bytes)
    return _cell(
        options, "write", "fill", record, write_fraction=1.0, create="if_missing", remove_before=True,
        queue_depth=FILL_DEPTH, flush="all", cache_state="warm",
    )  # fmt: skip


def _read_cell(options: ProfileOptions, workload: str, base: int, length: int, **more: Any) -> CellSpec:
    block = options.block_bytes
    walk = WalkSpec("sequential", stride_bytes=block, base_bytes=base, len_bytes=length)
    state = "warm" if workload == BURST else "cold" if options.cold or options.direct else "unknown"
    return _cell(options, "read", workload, block, walk=walk, cache_state=state, **more)


def _random_cell(options: ProfileOptions) -> CellSpec:
    record = min(RANDOM_BYTES, options.size_bytes)
    walk = WalkSpec("random", align_bytes=ALIGN_BYTES, len_bytes=options.size_bytes // record * record)
    return _cell(
        options, "random_read", RANDOM, record, walk=walk, queue_depth=1, stop_ops=RANDOM_OPS, duration_ns=RANDOM_NS,
        cold=options.cold, cache_state="cold" if options.cold or options.direct else "unknown",
    )  # fmt: skip


def _cell(options: ProfileOptions, op: str, workload: str, record_bytes: int, **more: Any) -> CellSpec:
    cell: dict[str, Any] = {
        "queue_depth": options.depth, "seed": options.seed, "direct": options.direct, "durability": "end",
        "flush": "none", "interval_ns": SECOND_NS // 10, "files": [options.file], "workload": workload, **more,
    }  # fmt: skip
    return CellSpec(op=op, file_bytes=options.size_bytes, record_bytes=record_bytes, **cell)
