"""What each client of a run does: its own part of a cell, its own seed, its own folder or a common one."""

from __future__ import annotations

import dataclasses
from typing import Literal

from naslab.errors import UsageError
from naslab.spec import CellSpec, RunSpec, WalkSpec

Share = Literal["own", "folder", "file"]
"""own: a folder for each client. folder: files of all in one folder. file: all clients on the same files."""
SHARES: tuple[Share, ...] = ("own", "folder", "file")
_SEED_STEP = 0x9E3779B97F4A7C15
_SEED_MASK = (1 << 63) - 1


def folder_of(spec: RunSpec, share: Share, client: int) -> str:
    """Name of the folder of a client."""
    return f"{spec.folder}-c{client}" if share == "own" else str(spec.folder)


def run_spec(spec: RunSpec, share: Share, client: int) -> RunSpec:
    """The run as one client's engine gets it, without cells.

    Seed and identity differ from client to client, as data must: blocks that two clients write alike are stored once
    by a server that deduplicates, and offsets drawn alike are read from its cache.
    """
    return dataclasses.replace(
        spec, cells=[], seed=_seed(spec.seed, client), run_id=f"{spec.run_id}.{client}",
        folder=folder_of(spec, share, client), together=True, join_folder=share != "own",
    )  # fmt: skip


def cell_spec(cell: CellSpec, share: Share, client: int, clients: int) -> CellSpec:
    """A client's part of a cell. A rate is of all clients together, as it is of all workers; what else the cell says
    each client does for itself, so that files are written as far as later cells read them. Raises UsageError for what
    cannot be divided."""
    part = dataclasses.replace(cell, seed=_seed(cell.seed, client))
    if cell.pace is not None:
        part.pace = dataclasses.replace(cell.pace, rate_per_s=cell.pace.rate_per_s / clients)
    if share == "folder":
        part.files = [f"{name}.c{client}" for name in cell.files]
    if share == "file":
        _of_shared_file(part, cell, client, clients)
    return part


def _of_shared_file(part: CellSpec, cell: CellSpec, client: int, clients: int) -> None:
    """The first client removes what was there; each goes through a part of its own, random offsets are of all."""
    if client > 0:
        part.remove_before, part.truncate = False, False
        part.create = "never" if cell.create == "never" else "if_missing"
    if cell.walk is not None or cell.script is not None or cell.pattern in ("stride", "same_record", "permutation"):
        return
    if cell.pattern == "random":
        return
    if cell.pattern == "backward":
        raise UsageError("--share file: backward reads of one file cannot be divided among clients; use --share own")
    first, after = (cell.records() * each // clients for each in (client, client + 1))
    if cell.records() < clients:
        raise UsageError(
            f"--share file: a file of {cell.file_bytes} bytes has fewer records of {cell.record_bytes} bytes than "
            f"there are clients ({clients}); use a larger --file-size"
        )
    base_bytes, own_bytes = first * cell.record_bytes, (after - first) * cell.record_bytes
    part.walk = WalkSpec("sequential", stride_bytes=cell.record_bytes, base_bytes=base_bytes, len_bytes=own_bytes)
    if part.stop_bytes is None and part.stop_ops is None and part.duration_ns is None:
        part.stop_bytes = own_bytes * cell.workers


def _seed(seed: int, client: int) -> int:
    """The same for the first client, so that one client does what a run without clients does."""
    return (seed + client * _SEED_STEP) & _SEED_MASK if client else seed
