"""From evidence to limits: what holds each kind of I/O back, how sure that is, and what would settle the rest.

Four kinds are judged: large and small reads and writes. For each the ceiling that a busy client meets is named. The
rules compare measured rates; a rule holds where the whole interval of a ratio lies on one side of its edge, and is open
where the interval holds the edge.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from naslab.explain import words
from naslab.explain.evidence import GROWS, Evidence, best_known, beyond_rate, memory_gap, memory_rate
from naslab.explain.points import Figure, Point, Ratio, pooled, ratio
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD

CROSSED = 0.5
"""Below this share of bytes on the wire (or at the disk) most came from the client's own cache."""
RISING = 1.5
"""A doubling of the depth that still adds this factor: too few requests are in flight."""
MORE = 1.015
"""A gain by more connections that is small but no chance: what they meet next is close."""
BUSY_CORE, BUSY_ALL = 0.85, 0.9
"""Cores that a worker, and all workers, use when the client's processor is what is busy."""
APART = 0.85
"""A rate below this share of another is another ceiling; between it and 1 the two are close."""
PER_OPERATION = 0.5
"""Share of an operation's time that does not depend on its size, from which on operations count and not bytes."""
SERVER_WORK = 0.1
"""64 KiB operations move so much less than large ones: a processor works for each, a memory or a link does not."""
TELLING = 0.1
"""A writer must move this share of the reader's rate, before it says whether both use one thing."""
LEVEL_LOW = 0.95
"""Small reads of a set below this share of those from memory: disks answer some."""
HIDDEN = 0.76
"""As `APART`, for disks seen only in the time of one operation: their rate is then known less well."""
SLOWED = 0.98
"""Durable writes in flight below this share of promised ones: their disks are close behind the way to them."""
A_LITTLE, FAR = 0.985, 64
"""The same for reads of sets so many times as large as the small file."""
CLOSE_STAGE = 0.8
"""Another stage that takes so much of the slowest one's time is close behind it."""
SHARED, APART_SUM = 0.4, 0.7
"""Share of the writer's bytes that come on top of the reader's: below, both use one thing; above, each has its own."""
DISTURBED = -2.0
"""A reader that loses even more, in times of the writer's bytes, is disturbed by something else than a shared rate."""
NIC_LOW, NIC_HIGH = 0.88, 1.01
"""Payload of TCP over an interface's rate, from 1500-byte packets with headers to none."""
DISK_WAIT = 0.7
"""A small read waits this share of its time at the busiest part longer than a call that moves nothing."""
STALLED, LEAST_STALLS = 0.1, 3
"""Stops that take this share of the time, and so many of them, are a limit of their own."""
LOCKED, GAINED = 1.4, 0.25
"""Files of their own give several connections so many times one's rate; one file less than this share of the gain."""
ALIKE = 0.1
"""Lengths of stops that differ by less are one length."""
FEW = 200
"""The hundredth of fewer operations that is slowest may be one of them."""
RATIONED = 3.0
"""Mean over median of one small read at a time, without the stops, from which on a processor's time is rationed."""
QUEUED = 1.5
"""Writes promised so many times as fast as they become durable wait in the server's memory."""
SLOW_SHARE = 1.5
"""Mean over median latency, from which on a share of slow operations takes as much as the others."""
SURE, LIKELY, OPEN, WEAK = 0.95, 0.8, 0.5, 0.3
ON_THE_WAY = ("link", "client_nic", "client_cpu", "protocol", "latency", "server_cpu", "server_cache")
"""What may hold data in memory back."""

__all__ = ["Limit", "Question", "Verdict", "beyond_rate", "judge", "memory_gap", "memory_rate"]

Where = tuple[str, str]
CLASSES: tuple[Where, ...] = (("read", "large"), ("write", "large"), ("read", "small"), ("write", "small"))


@dataclass(frozen=True)
class Limit:
    """What holds one kind of I/O back. value: the ceiling it sets."""

    kind: str
    op: str
    size: str
    confidence: float
    value: Figure
    evidence: str

    def document(self) -> dict[str, Any]:
        """As in a run's verdict."""
        return {
            "kind": self.kind, "applies_to": {"op": self.op, "size": self.size},
            "confidence": round(self.confidence, 2), **self.value.document(), "evidence": self.evidence,
        }  # fmt: skip


@dataclass(frozen=True)
class Question:
    """Two explanations that the evidence does not tell apart. step: of the ladder, that would, measured longer."""

    op: str
    size: str
    between: tuple[str, str]
    step: str
    why: str


@dataclass
class Verdict:
    """Limits by class, strongest first, and what is open."""

    limits: list[Limit] = field(default_factory=list)
    open: list[Question] = field(default_factory=list)


def judge(evidence: Evidence) -> Verdict:
    """The verdict on what there is."""
    verdict = Verdict()
    for op, size in CLASSES:
        found, questions = _Judge(evidence, op, size).limits()
        verdict.limits += found
        verdict.open += questions
    return verdict


class _Judge:
    """One class of I/O."""

    def __init__(self, evidence: Evidence, op: str, size: str) -> None:
        self.e, self.op, self.size = evidence, op, size
        self.record = LARGE_RECORD if size == "large" else SMALL_RECORD
        self.unit = "bytes_per_s" if size == "large" else "iops"
        self.found: list[Limit] = []
        self.questions: list[Question] = []

    def limits(self) -> tuple[list[Limit], list[Question]]:
        """Ranked limits and open questions."""
        for rule in (self.client_cache, self.strange, self.burst):
            rule()
        (self.reads if self.op == "read" else self.writes)()
        self.too_few_clients()
        # What is behind the client's cache is known as well as ever, but plain reads never meet it.
        self.found.sort(key=lambda found: (found.kind != "client_cache", -found.confidence))
        return self.found, self.questions

    # Adding.

    def name(self, kind: str, confidence: float, point: Point | Figure | None, evidence: str) -> None:
        """One more limit, unless the kind is there already. A ceiling below a sure one is never ranked above it."""
        if point is None or any(found.kind == kind for found in self.found):
            return
        figure = point if isinstance(point, Figure) else self.value(point)
        hiding = [found for found in self.found if found.kind not in ("client_cache", kind)]
        if any(found.confidence >= SURE for found in hiding):
            confidence = min(confidence, WEAK)
        self.found.append(Limit(kind, self.op, self.size, confidence, figure, evidence))

    def ask(self, between: tuple[str, str], step: str, why: str) -> None:
        """One more open question."""
        self.questions.append(Question(self.op, self.size, between, step, why))

    def value(self, point: Point) -> Figure:
        """The number of a point that counts for this class."""
        return point.rate if self.size == "large" else point.iops

    # Rules for all classes.

    def client_cache(self) -> None:
        """Did the bytes come from the client's own memory?"""
        found = next(iter(self.e.step("client_cache")), None)
        if self.op == "write" or self.e.protocol == "null":
            return
        if found is None or found.crossed is None or found.crossed >= CROSSED:
            return
        point = (self.e.step("buffered_round_trip") or [found])[0] if self.size == "small" else found
        self.name("client_cache", SURE, point, words.client_cache(found, self.e))

    def strange(self) -> None:
        """Stops, slow operations and locks: nothing on the list does that."""
        every = self.e.step("depth", "set", "again", "duplex", "writes", "small_depth", "connections", "beyond")
        curve = [p for p in every if p.op in (self.op, "mixed") and not self.fills_a_queue(p)]
        stalled = [p for p in curve if p.stalls and p.stalls.count]
        whole = sum(p.end_ns - p.start_ns for p in curve if p.stalls)
        lost = sum(p.stalls.lost * (p.end_ns - p.start_ns) for p in stalled if p.stalls)
        if lost >= STALLED * whole > 0 and self.often(stalled) and not self.rationed(lost / whole):
            self.name("unknown", SURE, self.ceiling(), words.stalls(stalled))
            return
        trip = self.e.round_trip
        if trip and trip.p50_ns and trip.mean_ns >= SLOW_SHARE * trip.p50_ns and self.rises():
            self.name("unknown", SURE, self.ceiling(), words.slow_share(trip))
            return

    def often(self, stalled: Sequence[Point]) -> bool:
        """Whether these stops are enough to tell; two of one length are, with others of that length while the server
        did the opposite."""
        own = [p.stalls for p in stalled if p.stalls]
        count = sum(s.count for s in own)
        every = [p.stalls for step in self.e.points.values() for p in step if p.stalls and p.stalls.count]
        usual = median(s.length_ns for s in every)
        alike = all(abs(s.length_ns / usual - 1) < ALIKE for s in every)
        return count >= LEAST_STALLS or (count > 1 and alike and sum(s.count for s in every) >= LEAST_STALLS)

    def rationed(self, lost: float) -> bool:
        """Whether even one small read at a time waits far longer than stops of that share of the time explain.

        And more in flight do not help: a processor whose time is rationed does so much work, then pauses, many times
        a second. A single long stop makes the mean as long, but not that without the slowest operation, nor, where
        there are many, the hundredth of them that is slowest.
        """
        trip = self.e.round_trip
        if trip is None:
            return False
        count = trip.reads * (trip.end_ns - trip.start_ns) / 1e9 / SMALL_RECORD
        others_ns = (trip.mean_ns * count - trip.p99_ns) / (count - 1) if 1 < count < FEW else trip.mean_ns
        if min(trip.mean_ns * (1 - lost), trip.p99_ns, others_ns) < RATIONED * trip.p50_ns:
            return False
        return not _Judge(self.e, "read", "small").rises()

    def fills_a_queue(self, point: Point) -> bool:
        """Whether these are writes that a server promises faster than its disks write: it stops them now and then."""
        durable, promised = self.durable(), self.ceiling()
        if point.op != "write" or point.durability == "each" or self.op != "write" or not durable or not promised:
            return False
        return self.value(promised).value > QUEUED * durable.value

    def locked(self, one: Point, own: Point) -> Point | None:
        """Several connections on one file, where they gained next to nothing of what files of their own give."""
        same = self.e.best(p for p in self.e.step("same_file") if p.record_bytes == self.record)
        if same is None or one.cpu >= BUSY_CORE * one.workers or ratio(own.rate, one.rate).low < LOCKED:
            return None
        return same if same.rate.value - one.rate.value < GAINED * (own.rate.value - one.rate.value) else None

    def burst(self) -> None:
        """Credit that was spent."""
        found = self.e.burst
        if not found or self.size != "large" or self.op not in found["applies_to"]:
            return
        base = found["base_bytes_per_s"]
        self.name(
            "burst_credit", SURE if found["proved"] else LIKELY, Figure(base, *found["base_ci95"]), words.burst(found)
        )

    # Reads.

    def reads(self) -> None:
        """Beyond memory first: the ceiling of data nobody holds; then that of data in memory."""
        if self.size == "large":
            self.large_reads()
        else:
            self.small_reads()

    def large_reads(self) -> None:
        """A set that memory does not hold, or else the way to memory."""
        beyond, memory = beyond_rate(self.e), self.e.large
        if self.e.positional and not self.is_credit():
            last = self.e.passes[-1] if self.e.passes else memory
            self.name("disk", SURE, last, words.positional(self.e))
            return
        if beyond and self.shares_credit(beyond.rate):
            self.name("burst_credit", LIKELY, beyond, words.burst(self.e.burst or {}))
            return
        if beyond and memory and not self.is_credit():
            near = ratio(beyond.rate, memory.rate).value
            if near < APART:
                self.name("disk", SURE, beyond, words.disk(beyond, memory, self.e))
                return
            self.name("disk", OPEN + 0.1, beyond, words.disk(beyond, memory, self.e))
            self.way(OPEN)
            return
        self.way(SURE)
        self.disk_behind(memory)

    def disk_behind(self, way: Point | Figure | None) -> None:
        """Disks hardly faster than the way to them: the next ceiling, close above."""
        hidden = self.e.hidden(self.op, self.record)
        reached = way if isinstance(way, Figure) or way is None else self.value(way)
        if reached is None or self.is_credit():
            return
        close: tuple[Point | Figure, str] | None = None
        if self.size == "large":
            close = (self.slowed() or self.slower_writes()) if self.op == "write" else self.slower_set()
        if close:
            self.soften()
            self.name("disk", OPEN, *close)
        if hidden is None:
            return
        rate = hidden.scaled(self.record, self.unit) if self.size == "large" else hidden
        if reached.value / rate.value >= HIDDEN:
            self.soften()
            figure = Figure(
                rate.value, min(rate.low, HIDDEN * rate.value), max(rate.high, rate.value / HIDDEN), self.unit
            )
            kind = "disk" if self.size == "large" else "disk_iops"
            self.name(kind, OPEN, figure, words.behind(figure, reached.value))

    def slowed(self) -> tuple[Point, str] | None:
        """Large writes in flight that go a little slower when each has to be durable; None where they do not.

        Two stages in a row of one pace cost a pipe of a few requests some of its rate, one slow and one fast none.
        """
        deep = [p for p in self.e.step("writes") if p.record_bytes == LARGE_RECORD and p.depth * p.workers > 1]
        each = self.e.best(p for p in deep if p.durability == "each")
        promised = self.e.best(p for p in deep if p.durability != "each")
        if each is None or promised is None:
            return None
        lost = ratio(each.rate, promised.rate)
        return (each, words.slowed(each, promised)) if lost.value >= HIDDEN and lost.high < SLOWED else None

    def slower_writes(self) -> tuple[Figure, str] | None:
        """The largest writes, where they become durable a little slower than reads from memory go, and were promised
        as fast as those; None where not."""
        memory, durable = self.e.large, self.durable()
        large = [p for p in self.e.appends if p.durable and memory and p.set_bytes >= FAR * memory.set_bytes]
        if memory is None or durable is None or len(large) < 2 or ratio(durable, memory.rate).high >= A_LITTLE:
            return None
        promised = max(large, key=lambda p: p.rate.value)
        if ratio(promised.rate, memory.rate).value < A_LITTLE or ratio(durable, promised.rate).value < APART:
            return None
        return durable, words.slower_writes(durable, promised)

    def slower_set(self) -> tuple[Point, str] | None:
        """The largest set, where it and the one before were read a little slower than memory, and both together for
        sure; None where not."""
        passes, memory = self.e.passes[-2:], self.e.large
        if memory is None or len(passes) < 2 or passes[0].set_bytes < FAR * memory.set_bytes:
            return None
        lost = [ratio(p.rate, memory.rate).value for p in passes]
        together = ratio(pooled([p.rate for p in passes]), memory.rate)
        if together.high >= A_LITTLE or not all(APART <= each < A_LITTLE for each in lost):
            return None
        return passes[-1], words.disk(passes[-1], memory, self.e)

    def too_few_clients(self) -> None:
        """Each further client still brought its share: what limits large reads on their way is each client's own."""
        known = self.e.by_clients
        if self.size != "large" or self.op != "read" or not known or self.e.clients_rise() < RISING:
            return
        if not self.found or self.found[0].kind not in ON_THE_WAY:
            return
        self.soften()
        kind = "client_cpu" if known[-1].cpu >= BUSY_CORE * self.e.client_cpus else "client_nic"
        self.found = [found for found in self.found if found.kind != kind]
        self.name(kind, LIKELY, known[-1], words.too_few_clients(known))

    def is_doubtful(self) -> bool:
        """Whether two ceilings are named already."""
        return sum(f.confidence >= OPEN for f in self.found) > 1

    def soften(self) -> None:
        """What was sure is one of two."""
        self.found = [
            dataclasses.replace(f, confidence=min(f.confidence, OPEN + 0.1)) if f.kind != "client_cache" else f
            for f in self.found
        ]

    def small_reads(self) -> None:
        """Random reads beyond memory, or else the way to memory."""
        tried = [p for p in self.e.step("beyond") if p.record_bytes == SMALL_RECORD and p.op == "read"]
        beyond = max(tried, key=lambda p: p.depth * p.workers, default=None)
        memory = self.e.small
        if self.e.positional:
            self.name("disk_iops", SURE, memory, words.positional(self.e))
            return
        if beyond is None or memory is None:
            self.way(SURE)
            return
        reference = self.e.small_at(beyond.depth * beyond.workers) or memory.iops
        if ratio(beyond.iops, reference).high < LEVEL_LOW:
            # They are slower, so disks answer some; what memory answers of them is not the disks'.
            disks = self.disks_of(beyond)
            kind, known = "disk_iops", best_known(self.e)
            if known and ratio(disks.scaled(SMALL_RECORD), known.rate).value > APART:
                kind = "burst_credit" if self.is_spent(beyond.rate) else "disk"
            near = ratio(disks, reference).value
            self.name(kind, SURE if near < APART else OPEN + 0.1, disks, words.disk_iops(beyond, memory))
            if near >= APART:
                self.way(OPEN)
            return
        self.way(SURE)
        self.disk_behind(memory)

    def disks_of(self, beyond: Point) -> Figure:
        """Operations a second that the disks answered. Over the whole cell: hits and misses come in turns by chance."""
        if not beyond.quick:
            return beyond.iops.scaled(1 - self.e.held_share(beyond))
        value = beyond.reads / beyond.record_bytes * (1 - beyond.quick)
        half = value / max(value * (beyond.end_ns - beyond.start_ns) / 1e9, 1.0) ** 0.5 / 2
        return Figure(value, value - half, value + half, "iops")

    def ceiling(self) -> Point | None:
        """The best of one connection, for this class, from memory."""
        if self.op == "write":
            return self.e.best(
                p for p in self.e.step("writes", "duplex") if p.op == "write" and p.record_bytes == self.record
            )
        return self.e.large if self.size == "large" else self.e.small

    def rises(self) -> bool:
        """Whether more requests in flight would still help at the greatest depth."""
        step = "depth" if self.size == "large" else "small_depth"
        curve = self.e.curve(step, self.record)
        deepest = curve and curve[-1].depth * curve[-1].workers >= min(
            self.e.most_depth, self.e.granted_depth or self.e.most_depth
        )
        if not deepest:
            return False
        if len(curve) < 2:
            return self.e.granted_depth == 1
        first, before, last = curve[0], curve[-2], curve[-1]
        deeper = last.depth * last.workers / (first.depth * first.workers)
        # Rates of a few slow operations have wide intervals, but a rate that followed the depth is no noise.
        grew = ratio(last.rate, before.rate).low > 1 or last.rate.value > first.rate.value * deeper**0.5
        return grew and self.e.deepest_gain(step, self.record) >= RISING

    def shares_credit(self, rate: Figure) -> bool:
        """Whether credit that the other direction spent explains this rate: it is the one without credit."""
        known = self.e.burst
        if known is None or self.is_credit():
            return False
        return bool(abs(rate.value / known["base_bytes_per_s"] - 1) < 1 - APART)

    def is_spent(self, rate: Figure) -> bool:
        """Whether a rate is the one that a spent, or a full, bucket allows."""
        known = self.e.burst
        levels = [known["base_bytes_per_s"], known["burst_bytes_per_s"]] if known else []
        return any(abs(rate.value / level - 1) < 1 - APART for level in levels if level)

    def is_credit(self) -> bool:
        """Whether what looks like a disk was spent credit."""
        return any(found.kind == "burst_credit" for found in self.found)

    def way(self, sure: float) -> None:
        """What limits data in memory on its way: few requests, one connection, client, server, link."""
        one = self.e.large if self.size == "large" else self.e.small
        if one is None:
            return
        many = self.e.many(self.record)
        if self.rises():
            kind = "protocol" if self.e.granted_depth else "latency"
            self.name(kind, sure, one, words.in_flight(one, kind, self.e))
            return
        more = ratio(many.rate, one.rate) if many else None
        if many and more and more.low >= MORE and more.value < GROWS and one.cpu < BUSY_CORE * one.workers:
            self.name("protocol", OPEN + 0.1, one, words.connections(one, many, "protocol"))
            self.server_or_link(OPEN, many)
            return
        if many and more and more.low >= GROWS:
            kind = "client_cpu" if one.cpu >= BUSY_CORE * one.workers else "protocol"
            if same := self.locked(one, many):
                self.name("unknown", min(sure, OPEN + 0.1), one, words.lock(same, many, one))
                sure = OPEN
            self.name(kind, sure, one, words.connections(one, many, kind))
            return
        if not self.e.simulated and max(one.cpu, many.cpu if many else 0.0) >= BUSY_ALL * self.e.client_cpus:
            self.name("client_cpu", sure, one, words.client_busy(one, self.e.client_cpus))
            return
        self.server_or_link(sure, one)

    def own_machine(self, sure: float, one: Point) -> None:
        """A target without a server: this machine's disk, or its processor."""
        if self.e.protocol == "null" or one.cpu >= BUSY_CORE * one.workers:
            told = words.client_alone(one) if self.e.protocol == "null" else words.client_busy(one, self.e.client_cpus)
            self.name("client_cpu", sure, one, told)
            return
        kind = "disk" if self.size == "large" else "disk_iops"
        self.name(kind, sure if one.bypass else OPEN, one, words.own_disk(one))

    def server_or_link(self, sure: float, one: Point) -> None:
        """Bytes or operations, and if bytes, whose."""
        if self.e.local_disk or self.e.protocol == "null":
            self.own_machine(sure, one)
            return
        trip = self.e.round_trip
        if trip and self.size == "large" and self.rationed(0.0):
            self.name("server_cpu", min(sure, LIKELY), one, words.rationed(one, trip))
            return
        costs = self.e.time_per_byte()
        if self.size == "small":
            large = self.e.large
            if large and ratio(one.rate, large.rate).value >= APART:
                self.bytes_per_second(sure, large, one)
                return
            self.operations(sure, one)
            return
        if costs and costs[0] >= PER_OPERATION * (costs[0] + costs[1] * LARGE_RECORD):
            self.operations(sure, one)
            return
        self.bytes_per_second(sure, one, one)

    def operations(self, sure: float, one: Point) -> None:
        """Operations a second: the server's processor, or disks, where calls that move nothing do not wait for it.

        No disks where a memory was seen, for it holds the small files, nor where pauses explain the wait.
        """
        trip, null = self.e.round_trip, self.e.null_ns
        each_ns, held = 1e9 / one.iops.value, beyond_rate(self.e) is not None or self.rationed(0.0)
        if trip and null and self.size == "small" and not held and trip.mean_ns - null["mean"] > DISK_WAIT * each_ns:
            self.name("disk_iops", min(sure, LIKELY), one, words.waits(trip, null, one))
            return
        self.name("server_cpu", sure, one, words.server_operations(one, trip))

    def bytes_per_second(self, sure: float, one: Point, shown: Point) -> None:
        """The link, the client's interface, or the server's memory or processor."""
        if self.e.burst and self.e.burst["scope"] == "link" and self.is_spent(one.rate):
            self.name("burst_credit", sure, shown, words.burst(self.e.burst))
            return
        nic = self.e.nic_bytes_per_s
        if nic and NIC_LOW * nic <= one.rate.value <= NIC_HIGH * nic:
            self.name("client_nic", min(sure, OPEN + 0.2), shown, words.nic(one, nic))
            self.name("link", OPEN - 0.1, shown, words.beyond_nic(one))
            return
        server = self.servers()
        extra, stages = self.extra_share(), self.e.stages()
        close = stages is not None and stages >= CLOSE_STAGE and self.size == "large" and sure >= SURE
        firm = min(sure, OPEN + 0.1) if close else sure
        if extra is not None and extra.value >= APART_SUM and extra.low > SHARED:
            self.name("link", firm, shown, words.link(one, extra))
            other = server
        elif extra is not None and extra.value <= SHARED and extra.high < APART_SUM:
            self.name(server, firm, shown, words.shared(one, server))
            other = "link"
        else:
            self.name("link", min(OPEN + 0.05, sure), shown, words.either(one, server))
            self.name(server, min(OPEN, sure), shown, words.either(one, server))
            self.ask(("link", server), "duplex", words.either(one, server))
            return
        if close and stages is not None:
            self.name(other, min(OPEN, sure), shown, words.other_stage(stages))

    def servers(self) -> str:
        """Which part of the server it would be: its memory, or the processor that works for each operation."""
        middle, large = self.e.middle, self.e.large
        works = bool(middle and large and ratio(middle.rate, large.rate).high < 1 - SERVER_WORK)
        return "server_cpu" if works else "server_cache"

    def extra_share(self) -> Ratio | None:
        """Share of a writer's bytes that came on top of the reader's ceiling; None where it says nothing."""
        beside = [p for p in self.e.step("duplex") if p.op == "mixed"]
        one = self.e.large
        if not beside or one is None:
            return None
        p = beside[-1]
        if p.writes < TELLING * one.rate.value or p.writes <= 0:
            return None
        slack = (one.rate.high - one.rate.low) / 2 + (p.rate.high - p.rate.low) / 2
        extra = p.reads + p.writes - one.rate.value
        if extra < DISTURBED * p.writes:
            return None
        each = [(q.reads + q.writes - one.rate.value) / q.writes for q in beside if q.writes > 0]
        if min(each) <= SHARED < max(each):  # asked twice, two answers
            return Ratio(extra / p.writes, min(each), max(*each, APART_SUM))
        return Ratio(extra / p.writes, (extra - slack) / p.writes, (extra + slack) / p.writes)

    # Writes.

    def writes(self) -> None:
        """Durable writes: a disk, or the way that reads have too."""
        durable, promised = self.durable(), self.ceiling()
        if self.e.protocol == "null":
            self.name("client_cpu", SURE, promised, words.client_alone(promised) if promised else "")
            return
        if durable is None or promised is None:
            return
        way = self.e.large if self.size == "large" else self.e.small
        reached = self.value(way) if way and not self.e.positional else None
        if reached is not None and self.is_same_way(durable, reached):
            self.way_of_writes(durable, SURE)
            if not self.is_doubtful():
                self.disk_behind(durable)
            return
        kind = "disk" if self.size == "large" else "disk_iops"
        if self.is_credit():
            return
        if self.shares_credit(durable if self.size == "large" else durable.scaled(SMALL_RECORD)):
            self.name("burst_credit", LIKELY, durable, words.burst(self.e.burst or {}))
            return
        near = ratio(durable, reached).value if reached else 0.0
        told = words.durable(durable, promised, reached, self.unit)
        if self.server_works(durable, promised):
            self.name("server_cpu", OPEN + 0.1, durable, words.no_queue(durable, promised))
            self.name(kind, OPEN, durable, told)
            return
        before = self.e.level_before_a_fall() if self.size == "large" else None
        if before:
            fell = words.fell_late(before, durable)
            self.name("burst_credit", OPEN + 0.1, durable, fell)
            self.ask(("burst_credit", kind), "long", fell)
        self.name(kind, OPEN if before else LIKELY if near < APART else OPEN + 0.1, durable, told)
        if near >= APART:
            self.way_of_writes(durable, OPEN)

    def server_works(self, durable: Figure, promised: Point) -> bool:
        """Whether a processor that holds reads back explains these writes too: nothing waits for disks in a queue."""
        if self.size != "large" or ratio(promised.rate, durable).low >= 1 / APART:
            return False
        return any(found.kind == "server_cpu" and found.confidence >= LIKELY for found in self.reads_way(SURE).found)

    def durable(self) -> Figure | None:
        """The rate at which this class becomes durable: of the largest write, of the busiest small ones."""
        if self.size == "large":
            appends = [p for p in self.e.appends if p.durable]
            rates = [p.durable for p in sorted(appends, key=lambda p: p.set_bytes) if p.durable]
            if not rates:
                return None
            # One rate a write: what two of them differ by says how well the last is known.
            half = max(abs(rates[-1] - rates[-2]) / 2 if len(rates) > 1 else 0.1 * rates[-1], 0.005 * rates[-1])
            return Figure(rates[-1], rates[-1] - half, rates[-1] + half)
        each = [p for p in self.e.step("writes", "beyond") if p.durability == "each" and p.record_bytes == SMALL_RECORD]
        found = self.e.best(each)
        return found.iops if found else None

    def is_same_way(self, durable: Figure, reached: Figure) -> bool:
        """Whether durable writes go as fast as reads from memory: then both meet the same ceiling."""
        return 0.93 <= ratio(durable, reached).value <= 1.1

    def reads_way(self, sure: float) -> _Judge:
        """What limits reads of this size from memory."""
        reads = _Judge(self.e, "read", self.size)
        reads.way(sure)
        return reads

    def way_of_writes(self, durable: Figure, sure: float) -> None:
        """Names what the reads' way named, for writes."""
        reads = self.reads_way(sure)
        for found in reads.found:
            self.name(found.kind, found.confidence, durable, words.same_way(found.evidence))
        for question in reads.questions:
            self.ask(question.between, question.step, question.why)
