"""What `naslab cache size` measures: the head of one file read again and again, in sizes that close in on the cache's.

The file is written whole. All of it is read first: it is the set that does not fit. Then a small head of it, which
does, and then heads in between. Sets grow out of one file, so that nothing is written between them.
"""

from __future__ import annotations

import dataclasses

from naslab.analysis.workingset import SETTLING, WORKLOAD
from naslab.commands.plans.sustained import LoadOptions, fill_cell, load_cell
from naslab.errors import UsageError
from naslab.spec import CellSpec
from naslab.units import size_label

BUDGET_NS = 10 * 60 * 1_000_000_000
LEAST_BYTES = 16 << 20
"""The smallest set is so large, or a sixteenth of the file: smaller ones tell more of a processor's caches."""
SMALLEST_SHARE = 16
COMPARED = 2
"""Passes over a set that are compared, after those in which the cache takes it in."""


def unit_bytes(options: LoadOptions) -> int:
    """Sets are multiples of this: whole blocks, and a hundredth of the smallest set."""
    return max(smallest_bytes(options) // 100 // options.block_bytes, 1) * options.block_bytes


def smallest_bytes(options: LoadOptions) -> int:
    """The first set that shall fit. Raises UsageError where the file is too small for a search."""
    found = min(LEAST_BYTES, options.size_bytes // SMALLEST_SHARE) // options.block_bytes * options.block_bytes
    if found < 4 * options.block_bytes:
        least = size_label(4 * SMALLEST_SHARE * options.block_bytes)
        raise UsageError(
            f"--size {size_label(options.size_bytes)}: naslab cache size needs {least} or more with this --block"
        )
    return found


def fill_cells(options: LoadOptions) -> list[CellSpec]:
    """The file."""
    return [fill_cell(_reads(options))]


def set_cells(options: LoadOptions, size_bytes: int) -> list[CellSpec]:
    """Passes over one set. size_bytes: of it; of the whole file, whose passes are long and alike, one less."""
    cell = load_cell(
        _reads(options), WORKLOAD, file_bytes=size_bytes, stop_bytes=size_bytes, duration_ns=None, cache_state="unknown"
    )
    return [cell] * (SETTLING + COMPARED - (size_bytes == options.size_bytes))


def _reads(options: LoadOptions) -> LoadOptions:
    return dataclasses.replace(options, write_pct=0, random=False, stop_bytes=None, warmup_ns=0, cooldown_ns=0)
