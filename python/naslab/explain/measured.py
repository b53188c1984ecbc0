"""The figures that a verdict publishes: what was measured where a limit decides.

The posterior of a ceiling is blurred by the model's own error; the rates that were measured at the same operating point
are not. So a limit's value is the measured one where there is one, with the interval of that measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from naslab.explain.evidence import Evidence, beyond_rate, memory_gap
from naslab.explain.points import Figure, Point
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD
from naslab.explain.verdict import DISKS

NEAR = 0.25
"""A measured rate whose logarithm is so near to that of a fitted ceiling, or that lies in its interval, is its rate."""
MANY_CLIENTS = {("client_nic", "read", "large"), ("client_cpu", "read", "large")}
"""Limits of each client, where several were measured: of all of them together."""
LEAST_HALF, ONE_HALF = 0.005, 0.1
"""Half of the interval of a rate of durable writes: at least; and where only one was measured."""


@dataclass(frozen=True)
class Measured:
    """A figure of one kind of I/O: bytes per second of large, operations per second of small ones.

    point: the load it is of. durable: it counts until all was durable. missed: without what the server cache answered.
    modelled: it follows from the fitted model alone; beside: then what was measured of the same kind of I/O.
    """

    figure: Figure
    point: Point | None = None
    durable: bool = False
    missed: bool = False
    modelled: bool = False
    beside: Figure | None = None


def record_of(size: str) -> int:
    """Bytes of an operation."""
    return LARGE_RECORD if size == "large" else SMALL_RECORD


def measured(evidence: Evidence, op: str, size: str) -> list[Measured]:
    """Figures of one kind of I/O, that of the operating point which is judged first."""
    if op == "write":
        return _writes(evidence, size)
    return _large_reads(evidence) if size == "large" else _small_reads(evidence)


def published(evidence: Evidence, kind: str, where: tuple[str, str], fitted: Figure) -> Measured:
    """The figure of a limit. fitted: the posterior's median and interval, which counts where nothing was measured.

    A ceiling below what was measured is wrong by that measurement, but for the rate that spent credit will leave.
    """
    found = measured(evidence, *where)
    if kind == "client_cache":
        found = _client_cache(evidence, where[1]) or found
    if (kind, *where) in MANY_CLIENTS and evidence.clients_add:
        last = evidence.by_clients[-1]
        return Measured(last.rate, last)
    if kind == "burst_credit" and (known := evidence.credit(where[0])):
        base = Figure(known["base_bytes_per_s"], *known["base_ci95"])
        found = [Measured(base if where[1] == "large" else base.scaled(1 / SMALL_RECORD, "iops")), *found]
    if kind in ("unknown", "client_cache") and found:
        return found[0]
    if where[0] == "read" and kind in DISKS:
        found = [each for each in found if not _was_held(evidence, each)]
    near = next((each for each in found if _is_near(each.figure.value, fitted)), None)
    if near is not None:
        return near
    judged = next((each for each in found if where[0] == "read" or each.durable), None)
    if judged is not None and judged.figure.value > fitted.value and kind != "burst_credit":
        return judged
    return Measured(fitted, modelled=True, beside=judged.figure if judged else None)


def _was_held(evidence: Evidence, figure: Measured) -> bool:
    """Whether a figure is of a set that the server cache held, while a larger one was judged that it did not hold."""
    gap, point = memory_gap(evidence), figure.point
    return bool(gap and gap[1] and point and not figure.missed and point.set_bytes <= gap[0])


def _is_near(rate: float, ceiling: Figure) -> bool:
    within = ceiling.low <= rate <= ceiling.high
    return within or (rate > 0 and ceiling.value > 0 and abs(math.log(rate / ceiling.value)) < NEAR)


def _client_cache(evidence: Evidence, size: str) -> list[Measured]:
    points = evidence.step("client_cache")[:1]
    if size == "small":
        points = evidence.step("buffered_round_trip")[:1]
    return [Measured(p.rate if size == "large" else p.iops, p) for p in points]


def _large_reads(evidence: Evidence) -> list[Measured]:
    """Of the largest set where the server cache does not hold it; then those of the small file."""
    last = evidence.passes[-1] if evidence.positional and evidence.passes else beyond_rate(evidence)
    return [Measured(p.rate, p) for p in (last, evidence.large) if p]


def _small_reads(evidence: Evidence) -> list[Measured]:
    """Of the largest set, those that the disks answered; then those of the small file."""
    beyond = [p for p in evidence.step("beyond") if p.record_bytes == SMALL_RECORD and p.op == "read" and p.random]
    deepest = max(beyond, key=lambda p: (p.set_bytes, p.depth * p.workers), default=None)
    found = []
    if deepest is not None:
        slow = missed(evidence, deepest)
        found = [Measured(slow, deepest, missed=slow.value < deepest.iops.value)] if slow.value > 0 else []
        found.append(Measured(deepest.iops, deepest))
    return found + [Measured(p.iops, p) for p in (evidence.small,) if p]


def missed(evidence: Evidence, beyond: Point) -> Figure:
    """Operations a second that the disks answered. Over the whole cell: hits and misses come in turns by chance."""
    if not beyond.quick:
        return beyond.iops.scaled(1 - evidence.held_share(beyond))
    value = beyond.reads / beyond.record_bytes * (1 - beyond.quick)
    half = value / max(value * (beyond.end_ns - beyond.start_ns) / 1e9, 1.0) ** 0.5 / 2
    return Figure(value, value - half, value + half, "iops")


def _writes(evidence: Evidence, size: str) -> list[Measured]:
    """Durable ones; then acknowledged ones."""
    record = record_of(size)
    each = evidence.best(p for p in evidence.step("writes", "beyond") if _is_durable(p) and p.record_bytes == record)
    found = []
    if size == "large" and (largest := largest_write(evidence)):
        found.append(Measured(largest, durable=True))
    if each:
        found.append(Measured(each.rate if size == "large" else each.iops, each, durable=True))
    last = [p for p in evidence.step("long", "again") if p.op == "write" and p.record_bytes == record][-1:]
    if quick := acknowledged(evidence, size):
        last.append(quick)
    return found + [Measured(p.rate if size == "large" else p.iops, p) for p in last]


def _is_durable(point: Point) -> bool:
    return point.op == "write" and point.durability == "each"


def acknowledged(evidence: Evidence, size: str) -> Point | None:
    """The fastest writes, durable or not."""
    record = record_of(size)
    there = evidence.step("writes", "duplex", "set")
    return evidence.best(p for p in there if p.op == "write" and p.record_bytes == record)


def largest_write(evidence: Evidence) -> Figure | None:
    """The rate at which the largest write became durable; what two of them differ by says how well it is known."""
    rates = [p.durable for p in sorted(evidence.appends, key=lambda p: p.set_bytes) if p.durable]
    if not rates:
        return None
    half = max(abs(rates[-1] - rates[-2]) / 2 if len(rates) > 1 else ONE_HALF * rates[-1], LEAST_HALF * rates[-1])
    return Figure(rates[-1], rates[-1] - half, rates[-1] + half)


def fitted(size: str, operations: tuple[float, float, float]) -> Figure:
    """A ceiling of the posterior in the unit of its size."""
    figure = Figure(*operations, "iops")
    return figure.scaled(LARGE_RECORD, "bytes_per_s") if size == "large" else figure
