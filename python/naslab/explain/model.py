"""The server as a few numbers, fitted from what the ladder measured; `naslab whatif` predicts with them.

A request takes its time at each part on the way (client, link, server's processor, memory, disk). Alone it takes their
sum; many in flight go as fast as the slowest part lets them: the asymptotic bounds of a closed system (Denning & Buzen
1978, operational analysis; Lazowska et al. 1984, chapter 5). A part that was never the slowest is known only from
below: it did at least what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from naslab.explain.conclusion import is_stopped
from naslab.explain.evidence import GROWS, Evidence, beyond_rate, memory_gap
from naslab.explain.points import Figure, Point
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.explain.verdict import CLASSES, WIRE_FRACTION

BUSY_CORE = 0.85
NIC_LOW, NIC_HIGH = 0.88, 1.01
"""Payload of TCP over an interface's rate, from 1500-byte packets with headers to none."""

SPREAD = 1.9
"""A rate is level where depths this factor apart reach it."""
SHORT = 0.6
"""Below this share of what depth alone would bring, a rate is a ceiling, though no second one is as high."""
SAME = 0.93
"""A rate from this share of another on meets the same ceiling."""
BY_BYTES = 0.85
"""Small operations above this share of the large ones' bytes per second are held back by bytes."""
OWN, SHARED = 0.7, 0.4
"""Share of a writer's bytes on top of a reader's: above, each direction has its own ceiling; below, they share one."""
TELLING = 0.1
USUAL_HEADER_BYTES = 150
MOST_HEADER_BYTES = 400
SEEKS = 1.15
"""Random reads of 1 MiB take so many times a sequential one's time at the disk, where it seeks."""
SLOW = 0.7
"""Random reads over a set below this share of what memory answers went to the disk."""
P99_SIGMAS = 2.33
CLOCK = 0.005
"""Least doubt about a mean latency, as a share."""
LEAST_DOUBT, MOST_DOUBT = 0.01, 0.1
MOST_HELD = 0.9
"""Share of such a set that memory may have held."""
SHARPNESSES = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0)


@dataclass(frozen=True)
class Part:
    """What one part of the way does. reached: it was the slowest once; otherwise `value` is the least it does."""

    value: float
    low: float
    high: float
    unit: str
    reached: bool = True

    @classmethod
    def of(cls, figure: Figure, factor: float = 1.0) -> Part:
        """A part that was measured."""
        return cls(figure.value * factor, max(figure.low, 0.0) * factor, figure.high * factor, figure.unit)

    @classmethod
    def least(cls, value: float, unit: str) -> Part:
        """A part that was never the slowest."""
        return cls(value, value, math.inf, unit, reached=False)

    def document(self) -> dict[str, Any]:
        """As it is kept with the run."""
        if not self.reached:
            return {"at_least": self.value, "unit": self.unit}
        return {"value": self.value, "unit": self.unit, "ci95": [self.low, self.high]}


@dataclass(frozen=True)
class RandomRead:
    """Random reads over a set that is larger than the server's memory."""

    record_bytes: int
    set_bytes: int
    in_flight: int
    iops: Figure


@dataclass(frozen=True)
class ServerModel:
    """The fitted numbers. parts: by name, see `NAMES`; a name is missing where nothing was seen of it.

    sharpness: how abruptly a rate levels off with depth: the exponent of the smooth minimum of both bounds. seeks:
    random reads cost the disk more than their bytes; None: not seen. unfit: why the model does not hold, by class
    (`read large`).
    """

    parts: Mapping[str, Part]
    random_reads: tuple[RandomRead, ...] = ()
    max_depth: int | None = None
    client_cpus: int = 1
    nic_bytes_per_s: int | None = None
    simulated: bool = False
    local_disk: bool = False
    header_bytes: int = USUAL_HEADER_BYTES
    sharpness: float = 12.0
    seeks: bool | None = None
    burst: Mapping[str, Any] | None = None
    unfit: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As it is kept with the run: every name, None where it was not seen."""
        found: dict[str, Any] = dict.fromkeys(NAMES)
        found.update({name: part.document() for name, part in self.parts.items()})
        return {
            **found,
            "max_depth": self.max_depth,
            "sharpness": self.sharpness,
            "burst": self.burst,
            "unfit": dict(self.unfit),
        }


NAMES = (
    "round_trip_ns", "byte_ns", "client_op_ns", "client_large_op_ns", "connection_bytes_per_s", "connection_ops_per_s",
    "link_read_bytes_per_s", "link_write_bytes_per_s", "path_bytes_per_s", "server_ops_per_s",
    "server_memory_bytes_per_s", "server_cache_bytes", "disk_read_bytes_per_s", "disk_write_bytes_per_s",
    "disk_read_iops", "disk_write_iops", "write_back_bytes",
)  # fmt: skip
"""Parts. byte_ns: what a byte more adds to the time of one request alone. path: link or memory, not known which."""


def fit(evidence: Evidence) -> ServerModel:
    """The model of a ladder. Works with whatever steps there are."""
    parts: dict[str, Part] = {}
    parts.update(_alone(evidence))
    parts.update(_client(evidence))
    small, large = _Ceiling(evidence, SMALL_RECORD), _Ceiling(evidence, LARGE_RECORD)
    parts.update(_connections(small, large))
    parts.update(_bytes(evidence, large))
    header = USUAL_HEADER_BYTES
    if small.best and large.best:
        operations, header = _operations(small, large)
        parts["server_ops_per_s"] = operations
    parts.update(_memory_size(evidence))
    parts.update(_disk_reads(evidence, parts))
    parts.update(_disk_writes(evidence, large))
    parts.update(_small_writes(evidence, parts, small))
    random_reads = tuple(_random_reads(evidence))
    return ServerModel(
        parts, random_reads, evidence.granted_depth, evidence.client_cpus, evidence.nic_bytes_per_s,
        evidence.simulated, evidence.local_disk, header, _sharpness(evidence, small, large),
        _seeks(random_reads, parts), evidence.burst, _unfit(evidence),
    )  # fmt: skip


def _unfit(evidence: Evidence) -> dict[str, str]:
    """Why no prediction holds, by class: stops, locks, or reads that never reached the server."""
    strange = "what limits this is of no known kind (stops)"
    found = {f"{op} {size}": strange for op, size in CLASSES} if is_stopped(evidence) else {}
    if any(p.crossed is not None and p.crossed < WIRE_FRACTION for p in evidence.step("depth")):
        found.update(dict.fromkeys(("read large", "read small"), "the reads came from the client's own cache"))
    return found


def in_flight(point: Point) -> int:
    """Requests of a point in flight."""
    return point.depth * point.workers


class _Ceiling:
    """What reads of one record size from the server's memory reach at most, over one connection and over many."""

    def __init__(self, evidence: Evidence, record: int) -> None:
        one = evidence.curve("depth" if record == LARGE_RECORD else "small_depth", record)
        many = [p for p in evidence.step("connections") if p.record_bytes == record and p.op == "read"]
        self.record, self.curve, self.many = record, one, many
        self.one = evidence.large if record == LARGE_RECORD else evidence.small
        best_many = max(many, key=lambda p: p.rate.value, default=None)
        self.multiplied = bool(self.one and best_many and best_many.rate.value >= GROWS * self.one.rate.value)
        self.best = best_many if self.multiplied else self.one

    @property
    def reached(self) -> bool:
        """Whether the best rate is a ceiling: it did not grow with depth, nor with connections."""
        if self.best is None:
            return False
        level = self._level((*self.curve, *self.many), self.best)
        wide = _wide([in_flight(p) for p in level]) or (not self.multiplied and self._falls_short(self.best))
        return wide and (not self.multiplied or _wide([p.workers for p in level]))

    @property
    def connection(self) -> Figure | None:
        """The ceiling of one connection, where several together reach more."""
        if self.one is None or not self.multiplied:
            return None
        wide = _wide([in_flight(p) for p in self._level(self.curve, self.one)])
        return self.one.rate if wide or self._falls_short(self.one) else None

    @staticmethod
    def _level(points: Sequence[Point], best: Point) -> list[Point]:
        return [p for p in points if p.rate.value * GROWS >= best.rate.value]

    def _falls_short(self, best: Point) -> bool:
        """Whether it is far below what its requests in flight would bring, if only their number counted."""
        first = self.curve[0]
        rising = first.rate.value * in_flight(best) / in_flight(first)
        return best.rate.value < SHORT * rising


def _wide(numbers: Sequence[int]) -> bool:
    return bool(numbers) and max(numbers) >= SPREAD * min(numbers)


def _alone(evidence: Evidence) -> dict[str, Part]:
    """Time of one request alone, and of each byte more."""
    trip = evidence.round_trip
    if trip is None or trip.mean_ns <= 0:
        return {}
    count = max(trip.iops.value * (trip.end_ns - trip.start_ns) / 1e9, 1.0)
    spread = 2 * max(trip.p99_ns - trip.p50_ns, 0.0) / P99_SIGMAS / trip.mean_ns / math.sqrt(count) + CLOCK
    found = {"round_trip_ns": Part(trip.mean_ns, trip.mean_ns * (1 - spread), trip.mean_ns * (1 + spread), "ns")}
    large = [p for p in evidence.step("depth", "client_cache") if in_flight(p) == 1 and p.record_bytes == LARGE_RECORD]
    large = [p for p in large if p.bypass == trip.bypass] or large
    if large:
        each = max(float(np.mean([p.mean_ns for p in large])) - trip.mean_ns, 0.0) / (LARGE_RECORD - trip.record_bytes)
        found["byte_ns"] = Part(each, each, each, "ns")
    return found


def _client(evidence: Evidence) -> dict[str, Part]:
    """The client's processor time for one small and one large read."""
    found = {}
    for name, point in (("client_op_ns", evidence.small), ("client_large_op_ns", evidence.large)):
        if point and point.cpu > 0 and point.iops.value > 0:
            each = point.cpu * 1e9 / point.iops.value
            found[name] = Part(each, each, each, "ns")
    return found


def _connections(small: _Ceiling, large: _Ceiling) -> dict[str, Part]:
    """What one connection carries, where more of them carry more. Its bytes explain its small operations, too."""
    found = {}
    if large.connection:
        found["connection_bytes_per_s"] = Part.of(large.connection)
    if small.connection:
        by_bytes = large.connection and small.connection.value >= BY_BYTES * large.connection.value
        busy = small.one is not None and small.one.cpu >= BUSY_CORE
        if not by_bytes and not busy:
            found["connection_ops_per_s"] = Part.of(small.connection.scaled(1 / SMALL_RECORD, "iops"))
    return found


def _bytes(evidence: Evidence, large: _Ceiling) -> dict[str, Part]:
    """The ceiling in bytes: the link's, the memory's, or of one of them."""
    if large.best is None:
        return {}
    rate, unit = large.best.rate, "bytes_per_s"
    beside = [p for p in evidence.step("duplex") if p.op == "mixed"]
    both = max([rate.value, *(p.reads + p.writes for p in beside)])
    hidden = {
        "link_read_bytes_per_s": Part.least(rate.value, unit), "link_write_bytes_per_s": Part.least(rate.value, unit),
        "server_memory_bytes_per_s": Part.least(both, unit),
    }  # fmt: skip
    if evidence.burst and evidence.burst["scope"] == "link":
        rate = Figure(evidence.burst["base_bytes_per_s"], *evidence.burst["base_ci95"])
    elif not large.reached or _client_is_busy(evidence, large):
        return hidden
    if evidence.local_disk:
        return {**hidden, "server_memory_bytes_per_s": Part.of(rate)}
    own = _on_top(beside, rate)
    nic = evidence.nic_bytes_per_s
    if (nic and NIC_LOW * nic <= rate.value <= NIC_HIGH * nic) or (own is not None and own >= OWN) or evidence.burst:
        return {**hidden, "link_read_bytes_per_s": Part.of(rate), "link_write_bytes_per_s": _write_link(evidence, rate)}
    if own is not None and own <= SHARED:
        return {**hidden, "server_memory_bytes_per_s": Part.of(rate)}
    return {**hidden, "path_bytes_per_s": Part.of(rate)}


def _write_link(evidence: Evidence, rate: Figure) -> Part:
    """The way up: as the way down, unless writes were promised at another rate."""
    promised = [p.rate for p in evidence.step("duplex", "writes") if p.op == "write" and p.record_bytes == LARGE_RECORD]
    fastest = max(promised, key=lambda f: f.value, default=rate)
    return Part.of(fastest) if fastest.value > GROWS * rate.value else Part.of(rate)


def _client_is_busy(evidence: Evidence, ceiling: _Ceiling) -> bool:
    """Whether the client's processor set the ceiling."""
    best = ceiling.best
    return best is not None and best.cpu >= BUSY_CORE * min(best.workers, evidence.client_cpus)


def _on_top(beside: Sequence[Point], rate: Figure) -> float | None:
    """Share of a writer's bytes that came on top of what readers reach alone."""
    if not beside or beside[-1].writes < TELLING * rate.value:
        return None
    return (beside[-1].reads + beside[-1].writes - rate.value) / beside[-1].writes


def _operations(small: _Ceiling, large: _Ceiling) -> tuple[Part, int]:
    """The server's operations per second, and bytes around a request."""
    assert small.best is not None and large.best is not None
    share = small.best.rate.value / large.best.rate.value
    busy = small.best.cpu >= BUSY_CORE * small.best.workers
    if small.reached and not busy and share < BY_BYTES and small.connection is None:
        return Part.of(small.best.iops), USUAL_HEADER_BYTES
    header = USUAL_HEADER_BYTES
    if small.reached and large.reached and share >= BY_BYTES:
        header = int(min(max(SMALL_RECORD * (1 / share - 1), 0), MOST_HEADER_BYTES))
    return Part.least(small.best.iops.value, "iops"), header


def memory_bounds(evidence: Evidence) -> tuple[float, float | None] | None:
    """(set that memory holds, set that it does not hold; None: it was never seen to be too small).

    Where a disk is as fast as the link, passes do not tell; random reads of a disk that seeks do.
    """
    gap = memory_gap(evidence)
    if gap is None or gap[1] is not None:
        return gap
    seen = [p for p in evidence.step("beyond") if p.op == "read" and p.record_bytes == SMALL_RECORD]
    trip, memory = evidence.round_trip, evidence.small
    if not seen or trip is None or memory is None or trip.mean_ns <= 0:
        return gap
    reach = min(memory.iops.value, in_flight(seen[-1]) * 1e9 / trip.mean_ns)
    if seen[-1].iops.value < SLOW * reach:
        return float(SMALL_BYTES), MOST_HELD * seen[-1].set_bytes
    return gap


def _memory_size(evidence: Evidence) -> dict[str, Part]:
    """How much the server's memory holds: between two sets, and where random reads tell it better, as they tell."""
    gap = memory_bounds(evidence)
    if gap is None:
        return {}
    low, high = gap
    if high is None:
        return {"server_cache_bytes": Part.least(low, "bytes")}
    told = _told_by_random_reads(evidence)
    if told and max(low, told[0]) <= min(high, told[1]):
        low, high = max(low, told[0]), min(high, told[1])
    return {"server_cache_bytes": Part(math.sqrt(low * high), low, high, "bytes")}


def _told_by_random_reads(evidence: Evidence) -> tuple[float, float] | None:
    """The memory's size by the share of random reads that the disk did not have to serve.

    The disk's time for a request follows from those of two record sizes: its bytes, and what it takes besides (added to
    them by seeks, beside them by a number of requests per second). What is faster came from memory.
    """
    beyond, memory = beyond_rate(evidence), evidence.small
    seen = {r.record_bytes: r for r in _random_reads(evidence)}
    small, middle = seen.get(SMALL_RECORD), seen.get(MIDDLE_RECORD)
    if beyond is None or memory is None or small is None or middle is None or small.set_bytes != middle.set_bytes:
        return None
    rate = beyond.rate.value
    busy = max(
        small.iops.value / memory.iops.value, middle.iops.value * MIDDLE_RECORD / (evidence.large or beyond).rate.value
    )
    slower = small.iops.value / middle.iops.value
    if busy > SAME or slower <= 1.2:
        return None
    besides = max((MIDDLE_RECORD - slower * SMALL_RECORD) / rate / (slower - 1), 0.0)
    found = []
    for seconds in (MIDDLE_RECORD / rate, besides + MIDDLE_RECORD / rate):
        for each in (middle.iops.low, middle.iops.high):
            missed = min(1 / max(each * seconds, 1e-9), 1.0)
            found += [small.set_bytes * (1 - missed * off) for off in (0.97, 1.03)]
    return max(min(found), 0.0), max(found)


def own_seconds(ops: float, flying: int, alone: float) -> float:
    """Time of a request at the disk, from the rate of those that go there: the bounds of a closed system, turned round.

    flying: requests in flight. alone: seconds of one that memory answers. Where there are enough in flight the disk is
    all that is seen; with few, each waits for the rest of the way, too.
    """
    if flying >= ops * alone + 1:
        return 1 / ops
    return max(flying / ops - alone, 0.0)


def _alone_s(parts: Mapping[str, Part], record: int) -> float:
    """Seconds of one request that memory answers; 0 where it was not measured."""
    trip, each = parts.get("round_trip_ns"), parts.get("byte_ns")
    return ((trip.value if trip else 0.0) + (each.value if each else 0.0) * (record - SMALL_RECORD)) / 1e9


def _spent_rate(evidence: Evidence) -> Figure | None:
    """What reads get of a disk whose credit is spent; None without such a credit."""
    burst = evidence.burst
    if not burst or burst["scope"] != "disk" or not burst["proved"] or "read" not in burst["applies_to"]:
        return None
    return Figure(burst["base_bytes_per_s"], *burst["base_ci95"])


def _disk_reads(evidence: Evidence, parts: Mapping[str, Part]) -> dict[str, Part]:
    """What the disk gives to passes over more than memory holds; nothing without one."""
    beyond = beyond_rate(evidence)
    if beyond:
        rate = _spent_rate(evidence) or beyond.rate
        alone, record = _alone_s(parts, beyond.record_bytes), beyond.record_bytes
        rates = [max(each, 1.0) / record for each in (rate.low, rate.value, rate.high)]
        times = [own_seconds(each, in_flight(beyond), alone) for each in rates]
        if min(times) > 0:
            low, value, high = (record / seconds for seconds in times)
            return {"disk_read_bytes_per_s": Part(value, low, high, "bytes_per_s")}
    bounds = memory_bounds(evidence)
    if bounds and bounds[1] is not None:
        return {"disk_read_bytes_per_s": Part.least(evidence.passes[-1].rate.value, "bytes_per_s")}
    return {}


def _random_reads(evidence: Evidence) -> list[RandomRead]:
    """Random reads over the largest set, where that is larger than memory."""
    gap = memory_bounds(evidence)
    if gap is None or gap[1] is None:
        return []
    seen = [p for p in evidence.step("beyond") if p.op == "read" and p.set_bytes > gap[0]]
    return [RandomRead(p.record_bytes, p.set_bytes, in_flight(p), p.iops) for p in seen]


def _seeks(seen: Sequence[RandomRead], parts: Mapping[str, Part]) -> bool | None:
    """Whether random reads of 64 KiB or more cost the disk more than their bytes."""
    disk, cache = parts.get("disk_read_bytes_per_s"), parts.get("server_cache_bytes")
    found = [r for r in seen if SMALL_RECORD < r.record_bytes < LARGE_RECORD]
    if not found or disk is None or cache is None:
        return None
    share = 1 - min(cache.value / found[-1].set_bytes, 1.0)
    return found[-1].iops.value * found[-1].record_bytes * share * SEEKS < disk.value


def durable_small(evidence: Evidence) -> Point | None:
    """The busiest small writes, each durable."""
    found = [p for p in evidence.step("writes", "beyond") if p.durability == "each" and p.record_bytes == SMALL_RECORD]
    return max(found, key=lambda p: p.iops.value, default=None)


def durable_large(evidence: Evidence) -> tuple[Point, Figure] | None:
    """The largest write, and the rate at which it became durable, the first request's and the flush's way left out.

    That writes were taken ever more slowly is no doubt about bytes over time. How far the write before was from it is.
    """
    appends = sorted((p for p in evidence.appends if p.durable and p.rate.value > 0), key=lambda p: p.set_bytes)
    if not appends:
        return None
    alone = _alone(evidence)
    ways = _alone_s(alone, LARGE_RECORD) + _alone_s(alone, SMALL_RECORD)
    rates = []
    for before, append in zip([None, *appends], appends, strict=False):
        length = append.set_bytes - (before.set_bytes if before else 0)
        seconds = length / (append.durable or 1.0)
        most = max(append.durable or 0.0, evidence.large.rate.value if evidence.large else 0.0)
        rates.append(min(length / max(seconds - ways, 0.1 * seconds), most))
    off = min(max(abs(rates[-2:][0] / rates[-1] - 1), LEAST_DOUBT), MOST_DOUBT)
    return appends[-1], Figure(rates[-1], rates[-1] * (1 - off), rates[-1] * (1 + off))


def _disk_writes(evidence: Evidence, large: _Ceiling) -> dict[str, Part]:
    """What becomes durable of large writes, and what the server holds back meanwhile."""
    found = durable_large(evidence)
    if found is None:
        return {}
    rate = found[1]
    if large.one is None or rate.value >= SAME * large.one.rate.value:
        return {"disk_write_bytes_per_s": Part.least(rate.value, "bytes_per_s")}
    held = _held_bytes(found[0], rate.value, evidence)
    return {"disk_write_bytes_per_s": Part.of(rate), **({"write_back_bytes": held} if held else {})}


def _small_writes(evidence: Evidence, parts: Mapping[str, Part], small: _Ceiling) -> dict[str, Part]:
    """Small writes per second that the disk makes durable."""
    each = durable_small(evidence)
    if each is None:
        return {}
    alone, flying = _alone_s(parts, SMALL_RECORD), in_flight(each)
    way = min(small.one.iops.value if small.one else math.inf, flying / alone if alone else math.inf)
    rates = [max(rate, 1e-9) for rate in (each.iops.low, each.iops.value, each.iops.high)]
    times = [own_seconds(rate, flying, alone) for rate in rates]
    if each.iops.value < SAME * way and min(times) > 0:
        low, value, high = (1 / seconds for seconds in times)
        return {"disk_write_iops": Part(value, low, high, "iops")}
    most = max(own_seconds(rates[1] * 0.97, flying, alone), 1e-9)
    return {"disk_write_iops": Part.least(1 / most, "iops")}


def _held_bytes(append: Point, durable: float, evidence: Evidence) -> Part | None:
    """Bytes that were promised and not yet durable when the largest write had been taken: W = length (1 - D / rate)."""
    before = max((p.set_bytes for p in evidence.appends if p.set_bytes < append.set_bytes), default=0)
    length = append.set_bytes - before
    held = length * (1 - durable / append.writes) if append.writes > durable > 0 else 0.0
    if held < 1 << 20:
        return None
    slack = max(0.1 * held, 0.005 * length)
    return Part(held, max(held - slack, 0.0), held + slack, "bytes")


def _sharpness(evidence: Evidence, small: _Ceiling, large: _Ceiling) -> float:
    """The exponent of the smooth minimum that fits the depth curves best."""
    costs = dict.fromkeys(SHARPNESSES, 0.0)
    for ceiling in (small, large):
        if ceiling.one is None or len(ceiling.curve) < 3:
            continue
        first, top = ceiling.curve[0], ceiling.one.rate.value
        for p in ceiling.curve:
            rising = first.rate.value * in_flight(p) / in_flight(first)
            for sharp in SHARPNESSES:
                costs[sharp] += math.log(max(smooth_least(rising, top, sharp), 1.0) / max(p.rate.value, 1.0)) ** 2
    best = min(costs.values())
    return max(sharp for sharp, cost in costs.items() if cost <= best + 1e-4)


def smooth_least(one: float, other: float, sharpness: float) -> float:
    """A minimum without a corner: (a^-p + b^-p)^(-1/p)."""
    low, high = min(one, other), max(one, other)
    if low <= 0 or math.isinf(high):
        return low
    return float(low * (1 + (low / high) ** sharpness) ** (-1 / sharpness))
