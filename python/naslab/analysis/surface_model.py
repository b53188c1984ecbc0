"""A surface of file size x record size x operation from few cells: time per record, by regime.

Time per record is what parts add up to, so a surface is modelled in it. Each operation has a *bank* of curves over the
record size: one of the small files, which were measured whole, and one of each file of which parts were read in
several records. A larger file, read once in one record, lies somewhere between two curves at that record; there it
lies at the other records too, since what was missed is a share of the bytes whatever the record is.
Writes have two curves: until a write is acknowledged, and until it is durable. While memory takes them the first
counts; once it is full the second, less the share that still lies in memory when the last write was acknowledged
(a burst and a rate: max(f / R, (f - W) / D), as of a token bucket).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TypeVar, cast

import numpy as np

SEQUENTIAL_READS = ("read", "reread", "fread", "freread", "pread", "repread")
SEQUENTIAL_WRITES = ("write", "rewrite", "fwrite", "frewrite", "pwrite", "repwrite")
JUMPING_READS = ("random_read", "backward_read", "stride_read")
READS = (*SEQUENTIAL_READS, *JUMPING_READS)
PRIMED = ("read", "reread")
"""Tests that read the first record once before."""
ALIKE = 0.08
"""Files that differ by less, as a logarithm, are in one regime as far as noise goes."""
MOST_NOISE = 0.15
"""More than this are hiccups of cells of a few operations: curves leave them out, and longer cells feel them less."""
SPIKE, FASTER = 0.15, 0.8
"""Off a line between points that are not, as a logarithm: a hiccup. Of the least time seen, what may be predicted."""
HICCUP = 1.2
"""A cell that takes so many times as long as the same of another small file was held up by something."""
MANY = 16
"""Records a file needs until its time is that of a stream."""
NOISE_WIDTH, MIXED_WIDTH, LEAST_WIDTH = 2.1, 0.12, 0.0005
"""Of each doubt, half a 90 % interval: calibrated on simulated servers (docs/concepts/adaptive.md)."""
REAL_WIDTH = 0.02
"""The same of what a real server and its client do differently from one minute to the next, which cells measured within
seconds of each other do not show: as sweeps of the lab's servers repeat themselves."""
APART = 0.03
"""Two times per record that differ by less, as a share, are the same regime."""
About = TypeVar("About", str, int, tuple[str, int])
Found = TypeVar("Found")
Spot = tuple[str, int, int]
"""(operation, file size, record size), sizes in bytes."""


@dataclass(frozen=True)
class Seen:
    """One measured cell, or a part of one. Times in ns; durable_ns: with the flush, None without one.

    part: bytes of a file that were read in this record, of a family of operations; not a cell of the grid.
    """

    op: str
    file_bytes: int
    record_bytes: int
    ops: int
    time_ns: float
    durable_ns: float | None = None
    part: bool = False

    @property
    def spot(self) -> Spot:
        """Where it lies on the surface."""
        return self.op, self.file_bytes, self.record_bytes


@dataclass
class Doubts:
    """Why a prediction may be off. noise: of a measurement, relative; beyond: doublings past the largest record that
    was measured; mixed: logarithm of the distance to the nearest curve; apart: of the two files it lies between, and
    reach: how much of that to the farther one. least: half a 90 % interval where there is no doubt."""

    noise: float
    beyond: float
    mixed: float
    apart: float = 0.0
    reach: float = 0.5
    least: float = LEAST_WIDTH

    @property
    def width(self) -> float:
        """Half the 90 % interval, as a logarithm."""
        parts = (
            NOISE_WIDTH * self.noise * (1 + self.beyond / 4),
            MIXED_WIDTH * self.mixed,
            self.apart * self.reach,
            self.least,
        )
        return math.sqrt(sum(part * part for part in parts))


@dataclass(frozen=True)
class Predicted:
    """Time per record in ns with its 90 % interval."""

    record_ns: float
    low_ns: float
    high_ns: float
    doubts: Doubts


def sibling(op: str, others: Sequence[str]) -> str | None:
    """Of other operations the one that a large file treats alike: another sequential read, another new file or
    rewrite. None where there is none."""
    alike = SEQUENTIAL_READS if op in SEQUENTIAL_READS else SEQUENTIAL_WRITES if op in SEQUENTIAL_WRITES else ()
    return next((other for other in others if other in alike and other != op), None)


def family(op: str) -> str:
    """Operations whose misses cost the same: `sequential` or `jumping` reads, `write`."""
    if op in JUMPING_READS:
        return "jumping"
    return "sequential" if op in SEQUENTIAL_READS else "write"


@dataclass
class Curve:
    """Time per record over the record size, ns: between its points linear, beyond them as the line through all."""

    points: dict[int, float]
    line: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        self.line = line_through(self.points)

    def at(self, record_bytes: int) -> float:
        """ns."""
        xs = sorted(self.points)
        if record_bytes in self.points:
            return self.points[record_bytes]
        if xs[0] < record_bytes < xs[-1]:
            return float(np.interp(record_bytes, xs, [self.points[x] for x in xs]))
        end = xs[0] if record_bytes < xs[0] else xs[-1]
        return self.on_line(record_bytes) * self.points[end] / self.on_line(end)

    def on_line(self, record_bytes: int) -> float:
        """Of the line alone, ns."""
        return self.line[0] + self.line[1] * record_bytes

    def smoothed(self, sigma: float) -> Curve:
        """Nearer to its line the less it is off it, against noise of this relative size."""
        if len(self.points) < 4:
            return self
        off = _without_spikes({r: math.log(t / self.on_line(r)) for r, t in self.points.items()})
        spread = sum(o * o for o in off.values()) / (len(off) - 2)
        kept = max(0.0, 1 - sigma * sigma / spread) if spread > 0 else 1.0
        return Curve({r: self.on_line(r) * math.exp(kept * o) for r, o in off.items()})


def _without_spikes(off: Mapping[int, float]) -> dict[int, float]:
    """Distances to a line; one far off between two that are not lies on the line instead."""
    values = list(off.values())
    kept = {}
    for at, (record, value) in enumerate(off.items()):
        near = [abs(other) for other in (*values[max(at - 1, 0) : at], *values[at + 1 : at + 2])]
        kept[record] = 0.0 if abs(value) > SPIKE and max(near) < abs(value) / 3 else value
    return kept


def line_through(points: Mapping[int, float]) -> tuple[float, float]:
    """(time of any record, ns; time of a byte, ns), neither below 0: least squares of relative errors."""
    if len(points) == 1:
        ((record, time_ns),) = points.items()
        return 0.0, time_ns / record
    x, y = np.array(list(points), float), np.array(list(points.values()))
    design, weight = np.stack([1 / y, x / y], axis=1), np.ones(len(y))
    for _ in range(5):  # Huber's weights: a point far off pulls no harder than a near one
        (first, each), *_ = np.linalg.lstsq(design * weight[:, None], weight, rcond=None)
        off = np.abs(design @ (first, each) - 1)
        weight = np.sqrt(np.minimum(1.0, 2 * np.median(off) / np.maximum(off, 1e-12)))
        weight = np.maximum(weight, 0.05)
    if first < 0 or each <= 0:
        one = float((1 / y).sum() / (1 / y**2).sum()), 0.0
        other = 0.0, float((x / y).sum() / ((x / y) ** 2).sum())
        return one if each <= 0 else other
    return float(first), float(each)


@dataclass
class Surface:
    """What was seen, by operation and file."""

    seen: Sequence[Seen]
    cells: dict[Spot, float] = field(default_factory=dict)
    durable: dict[Spot, float] = field(default_factory=dict)
    parts: dict[tuple[str, int], dict[int, tuple[str, float]]] = field(default_factory=dict)
    rows: dict[str, dict[int, dict[int, float]]] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        groups: dict[Spot, list[Seen]] = {}
        for each in self.seen:
            if each.part:
                of_file = self.parts.setdefault((family(each.op), each.file_bytes), {})
                of_file[each.record_bytes] = (each.op, each.time_ns / each.ops)  # the last: on the longest stretch
            else:
                groups.setdefault(each.spot, []).append(each)
        for spot, same in groups.items():
            self.cells[spot] = median(each.time_ns / each.ops for each in same)
            lasting = [each.durable_ns / each.ops for each in same if each.durable_ns is not None]
            if lasting:
                self.durable[spot] = median(lasting)

        for (op, file_bytes, record_bytes), time_ns in sorted(self.cells.items()):
            self.rows.setdefault(op, {}).setdefault(file_bytes, {})[record_bytes] = time_ns
        for op in self.rows:
            alike = [op, *(other for other in self.rows if sibling(op, [other]))]
            whole = {f for other in alike for f in self.rows[other]}
            self.sizes[op] = sorted(whole | {f for kind, f in self.parts if kind == family(op)})

    def records(self, op: str, file_bytes: int) -> dict[int, float]:
        """Times per record of a file by record size, as measured."""
        return self.rows.get(op, {}).get(file_bytes, {})

    def small(self, op: str) -> dict[int, float]:
        """Times per record of small files by record size: of the three largest of them, so that one hiccup of a cell
        of a few operations is not taken for the record's time."""
        base = self.base(op)
        files = [f for f in sorted(self.rows.get(op, {})) if base is not None and f <= base][-3:]
        found: dict[int, list[float]] = {}
        for file in files:
            for record, time_ns in self.rows[op][file].items():
                found.setdefault(record, []).append(time_ns)
        return {record: _typical(times) for record, times in sorted(found.items())}

    def files(self, op: str) -> list[int]:
        """File sizes of which something tells."""
        return self.sizes.get(op, [])

    def base(self, op: str) -> int | None:
        """The file of which most records were measured; the largest of those."""
        return max(self.rows.get(op, {}), key=lambda f: (len(self.rows[op][f]), f), default=None)


def _typical(times: Sequence[float]) -> float:
    """The middle one; of two the last, of the larger file, unless it is so much slower that something held it up."""
    if len(times) == 2:
        return times[0] if times[1] > times[0] * HICCUP else times[1]
    return sorted(times)[len(times) // 2]


def cached(method: Callable[[Model, About], Found]) -> Callable[[Model, About], Found]:
    """What a method of the model found for an argument, kept: the surface does not change."""

    def found(self: Model, about: About) -> Found:
        key = (method.__name__, about)
        if key not in self.known:
            self.known[key] = method(self, about)
        return cast("Found", self.known[key])

    return found


@dataclass
class Model:
    """Predicts cells from a surface. Raises nothing: where nothing can be said, `predict` is None."""

    surface: Surface
    least_width: float = LEAST_WIDTH
    known: dict[tuple[str, object], object] = field(default_factory=dict)

    def predict(self, op: str, file_bytes: int, record_bytes: int) -> Predicted | None:
        """The cell; None where no file as large was measured with the operation, or none at all."""
        base, files = self.surface.base(op), self.surface.files(op)
        if base is None or file_bytes > files[-1]:
            return None
        right = min(f for f in files if f >= file_bytes)
        left = max((f for f in files if f <= file_bytes), default=right)
        one, other = self._through(op, left, record_bytes), self._through(op, right, record_bytes)
        found, share = one, 0.5
        if left != right:
            share = math.log(file_bytes / left) / math.log(right / left)
        if left != right and op in READS:
            found = one ** (1 - share) * other**share
        elif left != right:  # a burst in front of a rate: linear in the time of the whole file
            found = (one * left + (other * right - one * left) * (file_bytes - left) / (right - left)) / file_bytes
        found = max(found, self._least(op, record_bytes))
        doubts = self._doubts(op, record_bytes, found)
        doubts.apart = abs(math.log(other / one)) + (0.0 if files[0] <= file_bytes else 0.1)
        doubts.reach = max(share, 1 - share)
        return Predicted(found, found * math.exp(-doubts.width), found * math.exp(doubts.width), doubts)

    def _least(self, op: str, record_bytes: int) -> float:
        """Nothing is much faster than the fastest that was measured: by the byte, and by the record."""
        cells = [(r, t) for of_file in self.surface.rows.get(op, {}).values() for r, t in of_file.items()]
        by_byte = min(t / r for r, t in cells) * record_bytes
        shorter = [t for r, t in cells if r <= record_bytes]
        return FASTER * max(by_byte, min(shorter, default=0.0))

    def _doubts(self, op: str, record_bytes: int, found: float) -> Doubts:
        curves = self.bank(op) if op in READS else [self.write_curves(op)[0]]
        pure = min(abs(math.log(found / curve.at(record_bytes))) for curve in curves)
        base = self.surface.base(op) or record_bytes
        beyond = max(0.0, math.log2(record_bytes / max(self.surface.records(op, base), default=record_bytes)))
        noise = self.noise_at((family(op), record_bytes))
        if abs(math.log(found / curves[0].at(record_bytes))) > self.tolerance(op):
            noise = max(noise, self.noise_beyond(family(op)))
        return Doubts(min(noise, MOST_NOISE), beyond, pure, least=self.least_width)

    def _through(self, op: str, file_bytes: int, record_bytes: int) -> float:
        """Time per record of a file of which a cell was measured."""
        known = self.surface.records(op, file_bytes)
        if record_bytes in known:
            return known[record_bytes]
        if not known and (family(op), file_bytes) not in self.surface.parts:
            return self._like(op, file_bytes, record_bytes)
        if not known:
            first, found = self.bank(op)[0].at(record_bytes), self.part_curve(op, file_bytes).at(record_bytes)
            return first + (found - first) * max(0.0, 1 - (record_bytes / file_bytes if op in PRIMED else 0))
        told = [(anchor, self._from_anchor(op, file_bytes, anchor, record_bytes)) for anchor in sorted(known)]
        xs, ys = [math.log(anchor) for anchor, _ in told], [math.log(time_ns) for _, time_ns in told]
        return math.exp(float(np.interp(math.log(record_bytes), xs, ys)))

    def _like(self, op: str, file_bytes: int, record_bytes: int) -> float:
        """From another operation on the file, as much above its own time with small files as that one is."""
        ops = dict.fromkeys(o for o, f, _ in self.surface.cells if f == file_bytes)
        other = sibling(op, list(ops))
        assert other is not None
        there = self._through(other, file_bytes, record_bytes)
        own, its = ((self.bank(o)[0] if o in READS else self.write_curves(o)[0]).at(record_bytes) for o in (op, other))
        if op in READS:
            return max(own + there - its, own / 2)
        return own * there / its if there <= its * (1 + self.tolerance(other)) else max(own, there)

    def _from_anchor(self, op: str, file_bytes: int, anchor: int, record_bytes: int) -> float:
        there = self.surface.cells[(op, file_bytes, anchor)]
        if op in READS:
            return self._read(op, file_bytes, anchor, there, record_bytes)
        first, last = self.write_curves(op)
        unhindered = first.at(anchor)
        level = there / unhindered
        if level <= 1 + self.tolerance(op):
            waits = last.at(record_bytes) * (1 - min(self.burst(file_bytes) / file_bytes, 1.0))
            found = shifted(first.at(record_bytes), there - unhindered, record_bytes / anchor)
            return max(found, waits, self._straight(op, file_bytes, record_bytes))
        return max(first.at(record_bytes), there * last.at(record_bytes) / last.at(anchor))

    def _straight(self, op: str, file_bytes: int, record_bytes: int) -> float:
        """What the file takes when it is written from start to end, once memory is full: jumping is no faster."""
        other = next((o for o, f, _ in self.surface.cells if o in SEQUENTIAL_WRITES and f == file_bytes), None)
        if op != "random_write" or other is None:
            return 0.0
        found = self._through(other, file_bytes, record_bytes)
        return found if found > self.write_curves(other)[0].at(record_bytes) * (1 + self.tolerance(other)) else 0.0

    def tolerance(self, op: str) -> float:
        """Two times per record that differ by less are the same regime, as a share."""
        return max(APART, 3 * self.noise(op))

    @cached
    def noise(self, op: str) -> float:
        """Relative spread of the same cells in two small files."""
        apart = np.array(list(self._apart(op).values()))
        return float(1.05 * np.median(np.abs(apart - np.median(apart)))) if len(apart) > 3 else 0.02

    def _apart(self, op: str) -> dict[int, float]:
        """By record size: how far the times of two small files differ, as a logarithm."""
        sizes = sorted(f for f in self.surface.files(op) if len(self.surface.records(op, f)) > 3)
        if len(sizes) < 2:
            return {}
        one, other = (self.surface.records(op, f) for f in sizes[-2:])
        return {record: math.log(one[record] / other[record]) for record in one.keys() & other.keys()}

    @cached
    def noise_at(self, about: tuple[str, int]) -> float:
        """The same over a family of operations, of records about as long: long ones feel the link and the disk."""
        kind, record_bytes = about
        found = [self._apart(op) for op in self.surface.rows if family(op) == kind]
        records = sorted({record for each in found for record in each})
        if not records:
            return 0.02
        nearest = min(record_bytes, records[-1])
        near = [abs(a) for each in found for r, a in each.items() if nearest / 4 <= r <= nearest * 4]
        return 1.05 * median(near) if near else 0.02

    @cached
    def noise_beyond(self, kind: str) -> float:
        """Of a family of operations on files that memory does not hold: neighbours, and parts about their line."""
        apart = []
        for op in [each for each in self.surface.rows if family(each) == kind]:
            large = [f for f in sorted(self.surface.rows[op]) if f > (self.surface.base(op) or 0)]
            for one, other in pairwise(large):
                rows = self.surface.records(op, one), self.surface.records(op, other)
                apart += [abs(math.log(rows[0][r] / rows[1][r])) for r in rows[0].keys() & rows[1].keys()]
        for (each, _), parts in self.surface.parts.items():
            if each == kind and len(parts) > 3:
                line = Curve({record: time_ns for record, (_, time_ns) in parts.items()})
                apart += [abs(math.log(time_ns / line.on_line(record))) for record, time_ns in line.points.items()]
        near = [each for each in apart if each < ALIKE]
        return 1.5 * median(near) if near else 0.01

    @cached
    def write_curves(self, op: str) -> tuple[Curve, Curve]:
        """Time per record until it is acknowledged while memory takes it, and until it is durable."""
        base = self.surface.base(op)
        assert base is not None
        first = Curve(self.surface.small(op)).smoothed(self.noise(op))
        lasting = self.surface.durable
        points = {}
        for record in self.surface.records(op, base):
            whole, half = lasting.get((op, base, record)), lasting.get((op, base // 2, record))
            if whole is not None and record * MANY <= base:
                points[record] = max(2 * whole - half, whole / 2) if half is not None else whole
        if op != "random_write" or not points:  # neighbours are joined: only bytes count
            return first, Curve({1: 1.0})
        last, each_ns = max(points), self._durable_byte_ns()
        for record in [r for r in sorted({r for o, _, r in lasting if o == op} | {MANY * last}) if r > last]:
            points[record] = points[last] + (record - last) * max(each_ns, line_through(points)[1])
        return first, Curve(points).smoothed(max(self.noise(op), 0.02))

    def _durable_byte_ns(self) -> float:
        """Of the largest file written from start to end: time of a byte until it is durable; 0 where none was."""
        found = {f: t / r for (op, f, r), t in self.surface.durable.items() if op in SEQUENTIAL_WRITES}
        return found[max(found)] if found else 0.0

    @cached
    def burst(self, file_bytes: int) -> float:
        """Bytes that memory takes before writes wait, as far as operations saw it; inf where none did."""
        found = math.inf
        for (op, size, record), there in self.surface.cells.items():
            lasting = self.surface.durable.get((op, size, record))
            if op == "record_rewrite" or op in READS or lasting is None or size <= (self.surface.base(op) or 0):
                continue
            if there > self.write_curves(op)[0].at(record) * (1 + 2 * self.tolerance(op)):
                found = min(found, size * (1 - there / max(lasting, there)))
        return found

    def _read(self, op: str, file_bytes: int, anchor: int, there: float, record_bytes: int) -> float:
        """The first record of some tests is read just before: it costs what the first curve says."""
        bank = self.bank(op)
        if op not in PRIMED:
            return _along(bank, anchor, there, record_bytes, self.tolerance(op))
        known, wanted = bank[0].at(anchor), bank[0].at(record_bytes)
        rest = 1 - anchor / file_bytes
        pure = max(known + (there - known) / rest, there / 2) if rest > 0 else there
        found = _along(bank, anchor, pure, record_bytes, self.tolerance(op))
        return wanted + (found - wanted) * max(0.0, 1 - record_bytes / file_bytes)

    @cached
    def bank(self, op: str) -> list[Curve]:
        """Curves of a reading operation: of the small files, then of each file of which parts were read."""
        base = self.surface.base(op)
        assert base is not None
        first = Curve(self.surface.small(op)).smoothed(self.noise(op))
        return [first, *(self.part_curve(op, f) for kind, f in sorted(self.surface.parts) if kind == family(op))]

    def part_curve(self, op: str, file_bytes: int) -> Curve:
        """Of a file of which parts were read, by another operation of the family perhaps."""
        base = self.surface.base(op)
        assert base is not None
        first = Curve(self.surface.small(op)).smoothed(self.noise(op))
        points = {}
        for record, (as_op, time_ns) in self.surface.parts[(family(op), file_bytes)].items():
            other = self.surface.base(as_op)
            own = Curve(self.surface.small(as_op)).smoothed(self.noise(as_op)).at(record) if other else first.at(record)
            points[record] = max(first.at(record) + time_ns - own, 1e-9)
        along = self.surface.parts.get(("sequential", file_bytes))
        if family(op) == "jumping" and along:  # a byte costs the same, wherever it is
            straight = Curve({record: time_ns for record, (_, time_ns) in along.items()})
            last = max(points)
            for record in [r for r in along if r > last]:
                points[record] = points[last] + max(straight.at(record) - straight.at(last), 0.0)
        return Curve(points).smoothed(self.noise(op))


def shifted(time_ns: float, off_ns: float, share: float) -> float:
    """A time, and what an anchor is off its curve: that is the link's or the disk's, so it is of the bytes."""
    return max(time_ns + off_ns * share, time_ns / 2)


def _along(bank: Sequence[Curve], anchor: int, there: float, record_bytes: int, tolerance: float) -> float:
    """Where a file lies between two curves at the anchor's record, at another record."""
    bank = sorted(bank, key=lambda curve: curve.at(anchor))
    at_anchor, wanted = [c.at(anchor) for c in bank], [c.at(record_bytes) for c in bank]
    nearest = min(range(len(bank)), key=lambda at: abs(math.log(there / at_anchor[at])))
    level = there / at_anchor[nearest]
    if abs(math.log(level)) <= tolerance or at_anchor[-1] <= at_anchor[0] * (1 + tolerance):
        return shifted(wanted[nearest], there - at_anchor[nearest], record_bytes / anchor)
    if len(bank) == 1:
        return max(wanted[0] + (there - at_anchor[0]) * record_bytes / anchor, wanted[0] * 0.1)
    right = min(max(int(np.searchsorted(at_anchor, there)), 1), len(bank) - 1)
    while at_anchor[right] <= at_anchor[right - 1] * (1 + APART) and right > 1:
        right -= 1
    weight = (there - at_anchor[right - 1]) / (at_anchor[right] - at_anchor[right - 1])
    return max(wanted[right - 1] + weight * (wanted[right] - wanted[right - 1]), min(wanted) * 0.1)


def seen_of(cell: Mapping[str, object], workload: str) -> Seen | None:
    """A cell of the document as it counts for the model; None for one that failed or was predicted."""
    if cell["status"] != "complete" or cell["errors"] or cell.get("predicted") or not cell["ops"]:
        return None
    flush, acknowledged = cell["flush_ns"], cell["acknowledged_ns"]
    durable = None if flush is None else float(acknowledged) + float(flush)  # type: ignore[arg-type]
    return Seen(
        str(cell["op"]), int(cell["file_bytes"]), int(cell["record_bytes"]), int(cell["ops"]),  # type: ignore[call-overload]
        float(cell["duration_ns"]), durable, part=cell.get("workload") == workload,  # type: ignore[arg-type]
    )  # fmt: skip


def all_seen(cells: Iterable[Mapping[str, object]], workload: str) -> list[Seen]:
    """Those of a document's cells that count."""
    return [found for found in (seen_of(cell, workload) for cell in cells) if found is not None]
