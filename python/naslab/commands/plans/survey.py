"""The main job, first form: a look at speed, a small sweep fitted to it, a few seconds sustained.

Sizes follow from what the first stage saw of rate and latency, from the free space and from the limits the
user set, so that a fast and a slow server both take about the same time. The first stage itself is bounded:
it writes 4 MiB, and 64 MiB only where that takes less than three seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from naslab.commands.plans.sweep import DEFAULT_OPS, SweepOptions, plan_cells, worker_files
from naslab.errors import SpaceError, UsageError
from naslab.spec import CellSpec
from naslab.units import amount_text, size_text

PROBE_FILE, SUSTAINED_FILE = "naslab.probe", "naslab.sustained"
SECOND_NS = 1_000_000_000
PROBE_BYTES, LARGE_PROBE_BYTES = 4 << 20, 64 << 20
PROBE_SECONDS = 3
MAX_SUSTAINED_BYTES = 1 << 30
RECORDS = (4 << 10, 64 << 10, 1 << 20)
MIN_FILE_BYTES, MAX_FILE_BYTES = 64 << 10, 256 << 20
MIN_MAX_BYTES = 8 << 20
SWEEP_SHARE, SUSTAINED_SHARE = 1 / 4, 1 / 30
"""Parts of the budget: of the whole sweep, and of each of the three sustained cells."""


@dataclass(frozen=True)
class Limits:
    """What the survey may take. room_bytes: for all files at once. max_bytes: moved in all; None for no limit."""

    room_bytes: int
    budget_ns: int = 300 * SECOND_NS
    max_bytes: int | None = None

    def share(self, part: float) -> float:
        """`part` of the bytes that may be moved."""
        return float("inf") if self.max_bytes is None else self.max_bytes * part


@dataclass(frozen=True)
class Speed:
    """What the first stage saw. rate: bytes per second, flush counted. latency: of a 4 KiB operation."""

    rate_bytes_per_s: float
    latency_ns: float

    def seconds(self, file_bytes: int, record_bytes: int) -> float:
        """Time of one pass over a file, roughly."""
        return file_bytes / self.rate_bytes_per_s + file_bytes / record_bytes * self.latency_ns / 1e9


def check_limits(limits: Limits, workers: int, free_bytes: int) -> None:
    """Raises SpaceError or UsageError, saying what is needed, when even the smallest survey does not fit."""
    least = MIN_FILE_BYTES * workers
    if limits.room_bytes < least:
        raise SpaceError(
            f"run needs at least {amount_text(least * 1.2)} free, the target has {amount_text(free_bytes)}: "
            "free some space or choose another folder",
            "no_space",
            before_run=True,
        )
    if limits.max_bytes is not None and limits.max_bytes < MIN_MAX_BYTES * workers:
        raise UsageError(
            f"--max-bytes {limits.max_bytes}: run needs at least {size_text(MIN_MAX_BYTES * workers)}; "
            "use sweep with a few small sizes instead"
        )


def probe_cells(options: SweepOptions, limits: Limits) -> list[CellSpec]:
    """Stage 1: how fast are writes of 1 MiB, flush included, and how long does a 4 KiB operation take?"""
    file_bytes = _file_size(min(PROBE_BYTES, limits.room_bytes / options.workers, limits.share(1 / 16)))
    small = {"stop_ops": 64 * options.workers, "duration_ns": SECOND_NS}
    cells = [
        _write_cell(options, PROBE_FILE, "probe", file_bytes, duration_ns=PROBE_SECONDS * SECOND_NS),
        _random_cell(options, "random_write", PROBE_FILE, "probe", file_bytes, **small),
        _random_cell(options, "random_read", PROBE_FILE, "probe", file_bytes, **small),
    ]
    return [dataclasses.replace(cell, id=i) for i, cell in enumerate(cells)]


def large_probe_cells(options: SweepOptions, limits: Limits, seen: Speed) -> list[CellSpec]:
    """Stage 2: the same over 64 MiB, which a short burst does not hide; empty where that takes too long."""
    fits = min(limits.room_bytes / options.workers, limits.share(1 / 16)) >= LARGE_PROBE_BYTES
    if not fits or seen.seconds(LARGE_PROBE_BYTES, 1 << 20) > PROBE_SECONDS:
        return []
    duration_ns = PROBE_SECONDS * SECOND_NS
    return [_write_cell(options, PROBE_FILE, "probe", LARGE_PROBE_BYTES, duration_ns=duration_ns)]


def speed_of(cells: Sequence[Mapping[str, Any]]) -> Speed:
    """What the probes measured; the slowest counts. Never faster than 100 GB/s or slower than 10 kB/s."""
    probes = [c for c in cells if c["workload"] == "probe" and c["bytes"]]
    rates = [c["durable_bytes_per_s"] or c["throughput_bytes_per_s"] for c in probes if c["op"] == "write"]
    latencies = [c["latency_ns"]["mean"] or 0 for c in probes if c["op"] != "write"]
    return Speed(min(max(rates[-1] if rates else 1e6, 1e4), 1e11), max(latencies, default=0))


def sweep_cells(options: SweepOptions, limits: Limits, seen: Speed, caps: Mapping[str, Any]) -> list[CellSpec]:
    """Stage 3: up to three file sizes, a factor of 16 apart, as large as a quarter of the budget allows."""
    largest = MIN_FILE_BYTES
    while largest < MAX_FILE_BYTES and _fits(2 * largest, options, limits, seen):
        largest *= 2
    sizes = _sizes(largest)
    records = [r for r in RECORDS if r <= largest]
    return plan_cells(dataclasses.replace(options, file_sizes=sizes, records=records, ops=list(DEFAULT_OPS)), caps)


def _sizes(largest: int) -> list[int]:
    return sorted({max(largest >> shift, MIN_FILE_BYTES) for shift in (8, 4, 0)})


def _fits(largest: int, options: SweepOptions, limits: Limits, seen: Speed) -> bool:
    pairs = [(f, r) for f in _sizes(largest) for r in RECORDS if r <= f]
    tests = len(DEFAULT_OPS) * options.repeat * options.workers
    seconds = tests * sum(seen.seconds(f, r) for f, r in pairs)
    return (
        seconds <= limits.budget_ns / SECOND_NS * SWEEP_SHARE
        and tests * sum(f for f, _ in pairs) <= limits.share(1 / 2)
        and largest * options.workers <= limits.room_bytes
    )


def sustained_cells(options: SweepOptions, limits: Limits, seen: Speed, caps: Mapping[str, Any]) -> list[CellSpec]:
    """Stage 4: sequential write, sequential read and 4 KiB random read, each for some seconds."""
    duration_ns = max(int(limits.budget_ns * SUSTAINED_SHARE), SECOND_NS // 10)
    fitting = seen.rate_bytes_per_s * duration_ns / SECOND_NS
    each = min(fitting, MAX_SUSTAINED_BYTES, limits.room_bytes) / options.workers
    file_bytes = _file_size(min(each, limits.share(1 / 8) / options.workers))
    cold = bool(caps["evict"])
    timed: dict[str, Any] = {
        "duration_ns": duration_ns,
        "stop_bytes": None if limits.max_bytes is None else int(limits.share(1 / 8)),
        "cold": cold,
        "cache_state": "cold" if cold else "unknown",
    }
    return [
        _write_cell(options, SUSTAINED_FILE, "sustained", file_bytes),
        _cell(options, "read", SUSTAINED_FILE, "sustained", file_bytes, min(1 << 20, file_bytes), **timed),
        _random_cell(options, "random_read", SUSTAINED_FILE, "sustained", file_bytes, **timed),
    ]


def _file_size(most: float) -> int:
    """Whole MiB, or whole 64 KiB below that."""
    unit = 1 << 20 if most >= 1 << 20 else MIN_FILE_BYTES
    return max(int(most) // unit, 1) * unit


def _cell(
    options: SweepOptions, op: str, file: str, workload: str, file_bytes: int, record_bytes: int, **more: Any
) -> CellSpec:
    cell: dict[str, Any] = {
        "workers": options.workers, "queue_depth": options.queue_depth, "seed": options.seed,
        "direct": options.direct, "data": options.data, "verify": options.verify, "durability": options.durability,
        "flush": "none" if options.durability == "none" else "all", "interval_ns": SECOND_NS // 10,
        "files": worker_files(file, options.workers), "workload": workload, **more,
    }  # fmt: skip
    return CellSpec(op=op, file_bytes=file_bytes, record_bytes=record_bytes, **cell)


def _write_cell(options: SweepOptions, file: str, workload: str, file_bytes: int, **more: Any) -> CellSpec:
    """Writes the file once, anew."""
    if more:
        more["stop_bytes"] = file_bytes * options.workers
    return _cell(
        options, "write", file, workload, file_bytes, min(1 << 20, file_bytes), write_fraction=1.0,
        create="if_missing", remove_before=True, sync="all" if options.durability == "each" else "none",
        cache_state="warm", **more,
    )  # fmt: skip


def _random_cell(options: SweepOptions, op: str, file: str, workload: str, file_bytes: int, **more: Any) -> CellSpec:
    writes = op == "random_write"
    return _cell(
        options, op, file, workload, file_bytes, 4096, pattern="random", write_fraction=float(writes),
        sync="all" if writes and options.durability == "each" else "none", **{"cache_state": "warm", **more},
    )  # fmt: skip
