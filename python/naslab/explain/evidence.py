"""Everything the ladder has measured, and the questions asked of it more than once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from naslab.explain.neighbour import server_times
from naslab.explain.points import Figure, Point, pooled, ratio
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, PROTECTED, SMALL_BYTES, SMALL_RECORD

GROWS = 1.15
"""A rate that is higher by this factor grew; what is below may be the noise of two short cells."""
FALLEN = 0.8
"""A rate below this share of an earlier one, of the same kind, has fallen."""
POSITIONAL = 0.5
RISING = 1.5
"""A doubling of the clients that still adds this factor: each brings its own share."""
LEVEL = 1.05
"""Two neighbouring depths within this factor are level."""
SAME_BASE = 1.5
"""What an operation fell to is the rate without credit of another one where both are within this factor."""


@dataclass
class Evidence:
    """Points by step, in the order measured.

    granted_depth: requests in flight that the server takes at most, where that is fewer than the ladder would try.
    client_cpus: processors of the client. nic_bytes_per_s: its interface's rate, None where not known.
    facts: of the target. history_bytes: see burst.py.
    """

    points: dict[str, list[Point]] = field(default_factory=dict)
    aside: list[Point] = field(default_factory=list)
    """Loads that no step compares: files that were written, first tries. They filled caches and spent credit."""
    granted_depth: int | None = None
    slots: int | None = None
    """What the server lets a connection have outstanding, SMB in credits of 64 KiB; None: nobody said."""
    most_depth: int = 256
    client_cpus: int = 1
    nic_bytes_per_s: int | None = None
    simulated: bool = False
    protocol: str = ""
    local_disk: bool = False
    burst: dict[str, Any] | None = None
    null_ns: dict[str, int] | None = None
    """Time of a call that moves no data (a look at a file): p50, p99, mean."""
    refused_bytes_per_s: float | None = None
    """Rate of large writes, one at a time, that crossed the network and that the server refused; None: not tried."""
    before_cores: float | None = None
    """Processors of the client that other programs used before the first load; None where nobody looked."""
    ways: dict[str, str] = field(default_factory=dict)
    """How the reads of the step `security` were protected, by the id of the cell."""
    same_machine: bool = False
    """Whether the server runs on this machine, and uses the same processors."""
    memory_bytes: tuple[int, int | None] | None = None
    """Server's cache: the largest set served from it, and the smallest that was not (None: none was seen)."""

    def step(self, *names: str) -> list[Point]:
        """Points of steps."""
        return [point for name in names for point in self.points.get(name, [])]

    def document(self) -> dict[str, Any]:
        """As it is kept with the run."""
        return {
            "granted_depth": self.granted_depth, "slots": self.slots, "most_depth": self.most_depth,
            "client_cpus": self.client_cpus,
            "nic_bytes_per_s": self.nic_bytes_per_s, "simulated": self.simulated, "protocol": self.protocol,
            "local_disk": self.local_disk, "same_machine": self.same_machine, "burst": self.burst,
            "null_ns": self.null_ns, "refused_bytes_per_s": self.refused_bytes_per_s, "ways": self.ways,
            "before_cores": self.before_cores,
            "memory_bytes": list(self.memory_bytes) if self.memory_bytes else None,
        }  # fmt: skip

    @classmethod
    def from_document(cls, ladder: Mapping[str, Any]) -> Evidence:
        """What a stored `ladder` part holds. Documents of other versions may have more fields, and fewer."""
        known = {each.name for each in dataclasses.fields(cls)}
        kept = {name: value for name, value in ladder["conditions"].items() if name in known}
        memory = kept.pop("memory_bytes", None)
        points = {s["name"]: [Point.from_document(p) for p in s["points"]] for s in ladder["steps"]}
        aside = [Point.from_document(p) for p in ladder.get("aside") or ()]
        return cls(points, aside, memory_bytes=tuple(memory) if memory else None, **kept)

    # What is asked more than once.

    def credit(self, op: str) -> dict[str, Any] | None:
        """The token bucket that slowed large loads of an operation; None where none is known.

        One operation spent it, and showed its rates. Another that became slower, too, spent the same only if it fell to
        the same rate: what writes fall to may be that of disks behind a full memory, whatever happened to reads.
        """
        known = self.burst
        if known is None or op not in known["applies_to"]:
            return None
        rates = [rate for rate in self._large_rates(op) if rate > 0]
        share = min(rates, default=0.0) / max(known["base_bytes_per_s"], 1.0)
        return known if known.get("spent_by", op) == op or 1 / SAME_BASE <= share <= SAME_BASE else None

    def served(self) -> tuple[tuple[float, float], ...]:
        """(bytes of an operation, seconds that a server on this machine works for it at least); empty elsewhere.

        Threads of the system that write to a mount for the client work on this machine, too, and are no server.
        """
        if self.simulated or self.local_disk or self.protocol == "local":
            return ()
        return server_times(self.as_it_is(), self.before_cores)

    def as_it_is(self) -> list[Point]:
        """All points but those of other ways to protect the same reads: they take processor time that no load took."""
        return self.step(*(name for name in self.points if name != PROTECTED))

    def _large_rates(self, op: str) -> list[float]:
        """Rates of large loads of an operation that may have followed the spending of credit."""
        points = [p for p in self.step("set", "again", "rest", "long") if p.op == op]
        return [p.durable or p.rate.value for p in points]

    @property
    def round_trip(self) -> Point | None:
        """One 4 KiB read at a time."""
        found = self.step("round_trip")
        return found[0] if found else None

    def curve(self, step: str, record: int, op: str = "read") -> list[Point]:
        """Points of one record size by depth, one worker or lane each, deepest last; small ones with the round trip."""
        there = self.step("round_trip", step) if step == "small_depth" else self.step(step)
        found = [p for p in there if p.record_bytes == record and p.op == op]
        return sorted(found, key=lambda p: p.depth * p.workers)

    def best(self, points: Iterable[Point], value: Callable[[Point], float] | None = None) -> Point | None:
        """The point with the highest rate."""
        found = list(points)
        return max(found, key=value or (lambda p: p.rate.value)) if found else None

    def ceiling(self, curve: Iterable[Point], more: Iterable[Point] = ()) -> Point | None:
        """The best point of a curve, its rate the mean over all that are as deep as the first level one.

        The highest of many noisy rates is too high, and so is the mean of those close to it. A cell counts for as long
        as it took: short ones lose what is in flight at their ends. more: the same load measured at other times.
        """
        found = list(curve)
        best = self.best(found)
        if best is None:
            return None
        first = next(p for p in found if p.rate.value * LEVEL >= best.rate.value)
        deep = [p for p in (*found, *more) if p.depth * p.workers >= first.depth * first.workers]
        level = [p for p in deep if p.rate.value * GROWS >= best.rate.value]
        rate = pooled([p.rate for p in level], [float(p.end_ns - p.start_ns) for p in level])
        return dataclasses.replace(best, rate=rate, iops=rate.scaled(1 / best.record_bytes, "iops"))

    @property
    def large(self) -> Point | None:
        """The best large read of one connection from the server's memory."""
        later = [p for p in self.step("again", "long") if p.op == "read" and p.set_bytes <= SMALL_BYTES]
        return self.ceiling(self.curve("depth", LARGE_RECORD), () if self.burst else later)

    @property
    def small(self) -> Point | None:
        """The best small read of one connection from the server's memory."""
        return self.ceiling(self.curve("small_depth", SMALL_RECORD))

    @property
    def middle(self) -> Point | None:
        """64 KiB reads."""
        return self.best(self.step("record"))

    def many(self, record: int) -> Point | None:
        """The best read of several connections."""
        return self.best(p for p in self.step("connections") if p.record_bytes == record)

    @property
    def by_clients(self) -> list[Point]:
        """The same large reads by more and more clients; empty where there is one."""
        return sorted(self.step("clients"), key=lambda p: p.clients)

    def clients_rise(self) -> float:
        """Factor that the last doubling of the clients still brought; 1 where their number was not varied."""
        if len(self.by_clients) < 2:
            return 1.0
        before, last = self.by_clients[-2:]
        doublings = np.log2(last.clients / before.clients)
        return float(ratio(last.rate, before.rate).low ** (1 / max(doublings, 0.5)))

    @property
    def clients_add(self) -> bool:
        """Whether each further client brings its share: what limits is each one's own."""
        return self.clients_rise() >= RISING

    def durable_writes(self, record: int) -> list[Point]:
        """Writes of a size, each durable before it was promised, in the order measured."""
        return [p for p in self.step("writes") if p.durability == "each" and p.record_bytes == record]

    @property
    def memory_most_bytes(self) -> int:
        """What the server's memory may hold of a set at most; 0 where no end of it was found."""
        gap = memory_gap(self)
        return (gap[1] or 0) if gap else 0

    def held_share(self, point: Point) -> float:
        """Share of a random load's operations that the server's memory answers, where its size was found."""
        low, high = self._held_ends(point)
        return float((low * high) ** 0.5)

    def _held_ends(self, point: Point) -> tuple[float, float]:
        """The least and the most that share can be: the memory holds one set, and not the next."""
        gap = memory_gap(self)
        if not point.random or gap is None or gap[1] is None:
            return 0.0, 0.0
        return min(gap[0] / point.set_bytes, 1.0), min(gap[1] / point.set_bytes, 1.0)

    @property
    def positional(self) -> bool:
        """Whether small reads in order are much faster than the same at random, in a file that any memory would hold.

        Then none does: what answers has positions, a disk.
        """
        ordered = self.best(self.step("order"))
        return bool(ordered and self.small and ratio(self.small.rate, ordered.rate).high < POSITIONAL)

    @property
    def passes(self) -> list[Point]:
        """Passes over the working set, by size."""
        return sorted((p for p in self.step("set") if p.op == "read"), key=lambda p: (p.set_bytes, p.cell))

    @property
    def appends(self) -> list[Point]:
        """Writes that made the working set larger."""
        return [p for p in self.step("set") if p.op == "write"]

    def by_way(self) -> dict[str, Figure]:
        """Rates of large reads by protection: plain, signed, encrypted."""
        found: dict[str, list[Figure]] = {}
        for point in self.step(PROTECTED):
            found.setdefault(self.ways[str(point.cell)], []).append(point.rate)
        return {way: pooled(figures) for way, figures in found.items()}

    def time_per_byte(self) -> tuple[float, float] | None:
        """(per operation, per byte) in seconds: a + b * record, of the busiest loads on data in memory.

        None where records were not varied. Through the points of 4 KiB and 1 MiB, with 64 KiB as a witness that is
        never allowed to make a negative.
        """
        there = {SMALL_RECORD: self.small, MIDDLE_RECORD: self.middle, LARGE_RECORD: self.large}
        times = {record: 1 / p.iops.value for record, p in there.items() if p and p.iops.value > 0}
        if len(times) < 2 or LARGE_RECORD not in times:
            return None
        low = min(times)
        slope = max((times[LARGE_RECORD] - times[low]) / (LARGE_RECORD - low), 0.0)
        return max(times[low] - slope * low, 0.0), slope


def slots_of(protocol: str, facts: Mapping[str, Any], depth: int | None) -> int | None:
    """`Evidence.slots` of a server. facts: what it said when naslab logged in; depth: requests that it takes at most,
    None where that is not known any more.

    SMB servers grant credits (MS-SMB2 3.3.1.1), NFS 4.1 servers the slots of a session (RFC 8881, section 2.10.6). NFS
    3 and 4.0 know no such limit. What a mount of this machine may have outstanding is its own business.
    """
    if protocol == "smb":
        credits = facts.get("credits_granted")
        return int(credits) * int(facts.get("connections") or 1) if credits else None
    if protocol == "nfs" and depth is None:
        return int(facts["slots"]) if facts.get("slots") else None
    return depth if protocol in ("nfs", "sim") else None


def memory_rate(evidence: Evidence) -> float | None:
    """What reads of 1 MiB from the server's memory reach over one connection."""
    best = evidence.large
    return best.rate.value if best else None


def memory_gap(evidence: Evidence) -> tuple[int, int | None] | None:
    """(largest set served from memory, smallest that was not); None where no set was read.

    Rates over sets are split in two, at the size that leaves the least variance of their logarithms.
    """
    passes = evidence.passes
    if not passes:
        return None
    if beyond_rate(evidence) is None:
        return max(p.set_bytes for p in passes), None
    rates = np.log([p.rate.value for p in passes])
    # One step down, where it leaves the least variance on either side.
    left = [float(np.var(rates[:at]) * at + np.var(rates[at:]) * (len(rates) - at)) for at in range(1, len(rates))]
    at = 1 + int(np.argmin(left))
    return passes[at - 1].set_bytes, passes[at].set_bytes


def beyond_rate(evidence: Evidence) -> Point | None:
    """The pass over the largest set, where it was clearly slower than those over small sets."""
    passes = evidence.passes
    if len(passes) < 2:
        return None
    top, last = max(passes, key=lambda p: p.rate.value), passes[-1]
    return last if ratio(last.rate, top.rate).high < 0.97 and last.rate.value < 0.95 * top.rate.value else None
