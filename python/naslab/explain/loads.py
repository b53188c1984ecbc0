"""Loads that are asked about: those that stand for the classes of a ladder, others, and the model's rows of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from naslab.explain.evidence import Evidence
from naslab.explain.points import Figure, Point
from naslab.explain.rows import Array, Rows
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD

MIN_DOUBT, MAX_DOUBT = 0.01, 0.1
"""Relative uncertainty of the rate at which large writes became durable: one rate a write has no spread of its own."""
STEADY_OPERATIONS, STEADY_SECONDS = 1e6, 1e9
"""A load that lasts: its first and last operations do not count, and credit is spent."""


@dataclass(frozen=True)
class Load:
    """What is asked of the server. set_bytes: the working set. Writes count when they are durable.

    depth: queue depth of each connection.
    """

    op: str
    record_bytes: int
    depth: int
    connections: int
    set_bytes: int
    random: bool
    size: str

    @property
    def name(self) -> str:
        """`large reads`."""
        return f"{self.size} {self.op}s"

    @property
    def unit(self) -> str:
        """Large I/O counts in bytes, small I/O in operations."""
        return "bytes_per_s" if self.size == "large" else "iops"

    @property
    def scale(self) -> int:
        """Operations per second times this are in `unit`."""
        return self.record_bytes if self.size == "large" else 1


@dataclass(frozen=True)
class Asked:
    """What a user asks for; None: as measured."""

    depth: int | None = None
    connections: int | None = None
    record_bytes: int | None = None
    set_bytes: int | None = None

    def of(self, load: Load) -> Load:
        """The load, changed. A working set of its own is only for reads beyond the small files."""
        beyond = load.op == "read" and load.set_bytes > SMALL_BYTES
        return dataclasses.replace(
            load, record_bytes=load.record_bytes if self.record_bytes is None else self.record_bytes,
            depth=self.depth or load.depth, connections=self.connections or load.connections,
            set_bytes=self.set_bytes if self.set_bytes is not None and beyond else load.set_bytes,
        )  # fmt: skip


def load_of(point: Point) -> Load:
    """The load that a point was measured with."""
    size = "large" if point.record_bytes > SMALL_RECORD else "small"
    op = "write" if point.op == "write" else "read"
    return Load(op, point.record_bytes, point.depth, point.workers, point.set_bytes, point.random, size)


def measured_loads(evidence: Evidence) -> list[tuple[Load, Figure]]:
    """The loads that stand for the verdict's classes: reads from the cache and of the working set, durable writes."""
    found: list[tuple[Load, Figure]] = []
    passes = evidence.passes
    beyond = [p for p in evidence.step("beyond") if p.op == "read" and p.record_bytes == SMALL_RECORD]
    for point in (evidence.large, passes[-1] if passes else None, evidence.small, beyond[-1] if beyond else None):
        if point is not None:
            found.append((load_of(point), point.rate if point.record_bytes > SMALL_RECORD else point.iops))
    large, small = durable_large(evidence), durable_small(evidence)
    if large:
        found.append((load_of(large[0]), large[1]))
    if small:
        found.append((load_of(small), small.iops))
    return found


def durable_small(evidence: Evidence) -> Point | None:
    """The busiest small writes, each durable."""
    found = [p for p in evidence.step("writes", "beyond") if p.durability == "each" and p.record_bytes == SMALL_RECORD]
    return max(found, key=lambda p: p.iops.value, default=None)


def durable_large(evidence: Evidence) -> tuple[Point, Figure] | None:
    """The largest write, and the rate at which it became durable, the first request's and the flush's time left out.

    That writes were taken ever more slowly is no doubt about bytes over time. How far the write before was from it is.
    """
    appends = sorted((p for p in evidence.appends if p.durable and p.rate.value > 0), key=lambda p: p.set_bytes)
    if not appends:
        return None
    outside = _ends_s(evidence)
    rates = []
    for before, append in zip([None, *appends], appends, strict=False):
        length = append.set_bytes - (before.set_bytes if before else 0)
        seconds = length / (append.durable or 1.0)
        most = max(append.durable or 0.0, evidence.large.rate.value if evidence.large else 0.0)
        rates.append(min(length / max(seconds - outside, 0.1 * seconds), most))
    off = min(max(abs(rates[-2:][0] / rates[-1] - 1), MIN_DOUBT), MAX_DOUBT)
    return appends[-1], Figure(rates[-1], rates[-1] * (1 - off), rates[-1] * (1 + off))


def _ends_s(evidence: Evidence) -> float:
    """Seconds of a large request alone and of a small one: the first write's, and the flush's."""
    trip = evidence.round_trip
    alone = [p.mean_ns for p in evidence.step("depth") if p.depth * p.workers == 1 and p.record_bytes == LARGE_RECORD]
    small = trip.mean_ns if trip else 0.0
    return (max(float(np.mean(alone)), small) + small if alone else 2 * small) / 1e9


def rows_of_loads(loads: Sequence[Load], like: Rows) -> Rows:
    """The model's rows of loads that last, on the client and with the connections of a ladder's rows."""
    count = len(loads)

    def column(values: Sequence[float]) -> Array:
        return np.array(values, np.float64)

    small = np.array([load.size == "small" for load in loads], bool)
    read = np.array([load.op == "read" for load in loads], bool)
    sets, files = column([load.set_bytes for load in loads]), column([load.connections for load in loads])
    # Each connection has its own file: of its own size where it is a small one, of its share of a larger working set.
    size = np.where(sets > SMALL_BYTES, sets / files, sets)
    granted = like.granted_depth
    no = np.zeros(count, bool)
    return dataclasses.replace(
        like, read=read, durable=~read & small, random=np.array([load.random for load in loads], bool), null=no,
        whole=~read & ~small, late=no, record=column([load.record_bytes for load in loads]),
        depth=column([min(load.depth, granted or load.depth) for load in loads]), workers=files, files=files, size=size,
        start=column([10 * STEADY_SECONDS * at for at in range(count)]), seconds=np.full(count, STEADY_SECONDS),
        pair=np.full(count, -1), moved=size * files, count=np.full(count, STEADY_OPERATIONS), weight=np.ones(count),
        seen=np.zeros(count), sigma=np.zeros(count), client_s=np.full(count, np.nan),
        step=[load.name for load in loads], cell=np.full(count, -1), order=np.arange(count),
    )  # fmt: skip
