"""What `naslab cache speed` measures: how fast a file is read that the server has cached, and whether it has.

Files of the same size are written and flushed first, then other data, more and more of it. After each step two
files that nobody has read yet are read, and read again at once: when the first time is slow and the second is
fast, the other data had pushed them out of a cache and the second time came from it. Each file is read for the
first time only once, for a server may keep what was read twice longer than what was written or read once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from naslab.commands.plans.sustained import FILE_NAME, LoadOptions, fill_cell, load_cell, numbered
from naslab.commands.plans.sweep import worker_files
from naslab.errors import UsageError
from naslab.spec import CellSpec
from naslab.units import size_label

FILE_BYTES = 64 << 20
"""Size of the file when none is given: below the memory of any server that is still in use."""
EVICT_BYTES = 16 << 30
FIRST_BYTES, FIRST_FACTOR = 1 << 30, 16
"""The first step writes this much, or so many times the files; each further one as much as all before."""
PROBES, AGAIN = 2, 3
"""Files of a step; how often each is read again."""
BUDGET_NS = 10 * 60 * 1_000_000_000
EVICT_FILE = "naslab.evict"
SPACE_SHARE, SPACE_DEFAULT = 1 / 1.2, 0.5
"""Parts of the free space that may be used: when --evict-size was given, and when it was not."""

Bound = Literal["--evict-size", "--max-bytes", "space"]


@dataclass(frozen=True)
class Room:
    """How much may be written to push a file out. by: what set it. 0 bytes: nothing shall be."""

    evict_bytes: int
    by: Bound = "--evict-size"


def room(options: LoadOptions, asked_bytes: int | None, most_bytes: int | None, free_bytes: int | None) -> Room:
    """What --evict-size (None: not given), --max-bytes and the free space leave.

    Raises UsageError when that is less than twice the files, which pushes nothing out.
    """
    files = options.size_bytes * len(options.files)
    found = Room(asked_bytes or max(EVICT_BYTES, FIRST_FACTOR * files))
    if found.evict_bytes < 2 * files:
        raise UsageError(f"--evict-size {size_label(found.evict_bytes)}: give at least twice --size for each worker")
    if free_bytes is not None:
        usable = int(free_bytes * (SPACE_SHARE if asked_bytes else SPACE_DEFAULT))
        found = _within(found, files, usable, "space")
    if most_bytes is not None:
        found = _within(found, files, most_bytes, "--max-bytes")
    if found.evict_bytes < 2 * files:
        what = "the free space" if found.by == "space" else found.by
        raise UsageError(f"cache speed: {what} leaves no space to evict a file from the cache; give a smaller --size")
    return found


def _within(found: Room, files_bytes: int, bound_bytes: int, by: Bound) -> Room:
    """The same, or what a bound leaves beside the files of all steps and, of bytes moved, their passes."""

    def left(evict_bytes: int) -> int:
        probes = PROBES * len(steps(files_bytes, evict_bytes))
        # Written once, read as probes; a first and one more pass are left for the load itself.
        copies = 1 + probes if by == "space" else 3 + probes * (2 + AGAIN)
        return bound_bytes - files_bytes * copies

    if left(found.evict_bytes) >= found.evict_bytes:
        return found
    least = left(found.evict_bytes)
    # Less data may be fewer steps with fewer files, which leaves more.
    more = left(least) if least > 0 else least
    fits = more > 0 and len(steps(files_bytes, more)) == len(steps(files_bytes, least))
    return Room(more if fits else least, by)


def steps(files_bytes: int, evict_bytes: int) -> list[int]:
    """How much other data has been written after each step, up to evict_bytes."""
    found, total = [], max(FIRST_BYTES, FIRST_FACTOR * files_bytes)
    while total < evict_bytes:
        found.append(total)
        total *= 2
    if found and evict_bytes < 1.25 * found[-1]:
        found.pop()
    return [*found, evict_bytes]


def cached_cells(options: LoadOptions, caps: Mapping[str, Any], evict_bytes: int) -> list[CellSpec]:
    """The files, the first and the warm reads of one of them, then a step of other data and probes after another.

    evict_bytes: other data written at most; 0: no steps. All cells belong to one stage.
    """
    reads = dataclasses.replace(options, write_pct=0, random=False, stop_bytes=None, warmup_ns=0)
    totals = steps(options.size_bytes * len(options.files), evict_bytes) if evict_bytes else []
    probes = [[_files(options, f"{FILE_NAME}.{at}{letter}") for letter in "ab"[:PROBES]] for at in range(len(totals))]
    cells = [fill_cell(reads, files=files) for of_step in probes for files in of_step]
    cells += [fill_cell(reads), _first(reads, caps, "first", options.files)]
    cells.append(load_cell(reads, "warm", cache_state="warm"))
    before = 0
    for at, total in enumerate(totals):
        cells.append(_evict(reads, at, total - before))
        before = total
        for files in probes[at]:
            cells.append(_first(reads, caps, "cold", files))
            cells += [_pass(reads, "again", files)] * AGAIN
    return numbered(cells)


def _files(options: LoadOptions, name: str) -> list[str]:
    return [name] if options.interlocked else worker_files(name, options.workers)


def _pass(options: LoadOptions, workload: str, files: list[str]) -> CellSpec:
    """Each file once, from the start to the end."""
    cell = load_cell(options, workload, files=files, duration_ns=None, cooldown_ns=0, cache_state="warm")
    return dataclasses.replace(cell, stop_bytes=options.size_bytes * len(files)) if cell.walk else cell


def _first(options: LoadOptions, caps: Mapping[str, Any], workload: str, files: list[str]) -> CellSpec:
    """The first pass, after this machine's own copy was dropped."""
    cold = bool(caps["evict"])
    cell = _pass(options, workload, files)
    return dataclasses.replace(cell, cold=cold, cache_state="cold" if cold else "unknown")


def _evict(options: LoadOptions, at: int, size_bytes: int) -> CellSpec:
    cell = fill_cell(options, "evict", files=_files(options, f"{EVICT_FILE}.{at}"))
    each = math.ceil(size_bytes / len(cell.files) / cell.record_bytes) * cell.record_bytes
    return dataclasses.replace(cell, file_bytes=each)
