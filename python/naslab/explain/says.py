"""What each step of the ladder says, in one sentence with its numbers. Pure functions of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from naslab.explain.evidence import LEVEL, Evidence
from naslab.explain.points import Point, ratio
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD
from naslab.units import count_text, duration_text, rate_text, size_label

ADDS = 1.15
"""A rate higher by this factor is told as more."""


def says(step: str, evidence: Evidence) -> str:
    """The sentence of a step; empty where there is nothing to say."""
    points = evidence.step(step)
    rule = _RULES.get(step)
    return rule(points, evidence) if points and rule else ""


def _round_trip(points: Sequence[Point], evidence: Evidence) -> str:
    return f"one read of {size_label(points[0].record_bytes)} takes {duration_text(points[0].mean_ns)}"


def _client_cache(points: Sequence[Point], evidence: Evidence) -> str:
    crossed = points[0].crossed
    if crossed is None:
        return "nobody counts the bytes below the client's cache here"
    where = "came off the disk" if evidence.local_disk else "crossed the wire"
    return f"{100 * min(crossed, 1.0):.0f} % of the bytes {where}"


def _depth(points: Sequence[Point], evidence: Evidence) -> str:
    return _curve(evidence.curve("depth", LARGE_RECORD))


def _small_depth(points: Sequence[Point], evidence: Evidence) -> str:
    return _curve(evidence.curve("small_depth", SMALL_RECORD))


def _curve(curve: Sequence[Point]) -> str:
    if not curve:
        return ""
    first, top = curve[0], max(p.rate.value for p in curve)
    enough = next(p for p in curve if p.rate.value * LEVEL >= top)
    in_flight, last = enough.depth * enough.workers, curve[-1].depth * curve[-1].workers
    alone = f"{rate_text(first.rate.value)} with {first.depth * first.workers} in flight"
    if enough is first:
        return f"{alone}; more add nothing"
    until = "still rising there" if in_flight == last else "level from there on"
    return f"{alone}, {rate_text(enough.rate.value)} with {in_flight}, {until}"


def _connections(points: Sequence[Point], evidence: Evidence) -> str:
    told = []
    for record, one in ((LARGE_RECORD, evidence.large), (SMALL_RECORD, evidence.small)):
        many = evidence.many(record)
        if one and many:
            gain = ratio(many.rate, one.rate).value
            more = f"reach {gain:.1f} times as much" if gain >= ADDS else "add nothing"
            told.append(f"{size_label(record)}: {many.workers} {more}")
    return "; ".join(told)


def _clients(points: Sequence[Point], evidence: Evidence) -> str:
    told = ", ".join(f"{p.clients}: {rate_text(p.rate.value)}" for p in evidence.by_clients)
    more = "still rising" if evidence.clients_rise() >= ADDS else "more clients add nothing"
    return f"by number of clients {told}; {more}"


def _same_file(points: Sequence[Point], evidence: Evidence) -> str:
    return "; ".join(
        f"{size_label(p.record_bytes)}: {p.workers} on one file reach {rate_text(p.rate.value)}" for p in points
    )


def _record(points: Sequence[Point], evidence: Evidence) -> str:
    costs = evidence.time_per_byte()
    reached = f"{size_label(points[-1].record_bytes)} at a time reach {rate_text(points[-1].rate.value)}"
    return (
        f"{reached}; an operation costs {duration_text(costs[0] * 1e9)} beside its bytes"
        if costs and costs[0] > 1e-8
        else reached
    )


def _order(points: Sequence[Point], evidence: Evidence) -> str:
    at_random = evidence.small
    beside = f", {count_text(at_random.iops.value)} at random" if at_random else ""
    return f"{count_text(points[-1].iops.value)} a second in order{beside}"


def _duplex(points: Sequence[Point], evidence: Evidence) -> str:
    beside = [p for p in points if p.op == "mixed"]
    if not beside or not evidence.large:
        return ""
    p = beside[-1]
    return (
        f"together {rate_text(p.reads)} read and {rate_text(p.writes)} written; the reader alone "
        f"{rate_text(evidence.large.rate.value)}"
    )


def _writes(points: Sequence[Point], evidence: Evidence) -> str:
    told = []
    large = [p for p in points if p.record_bytes == LARGE_RECORD]
    promised = max((p.rate.value for p in large if p.durability != "each"), default=0.0)
    if promised:
        told.append(f"promised at {rate_text(promised)}")
    told += [f"each durable at {rate_text(p.rate.value)}" for p in large if p.durability == "each"][-1:]
    small = [p for p in points if p.durability == "each" and p.record_bytes == SMALL_RECORD]
    alone = [p for p in small if p.depth * p.workers == 1]
    told += [f"one durable {size_label(p.record_bytes)} takes {duration_text(p.mean_ns)}" for p in alone[:1]]
    return ", ".join(told)


def _set(points: Sequence[Point], evidence: Evidence) -> str:
    passes = evidence.passes
    if not passes:
        return ""
    last, gap = passes[-1], evidence.memory_bytes
    if not gap or gap[1] is None:
        return f"up to {size_label(last.set_bytes)} read at {rate_text(last.rate.value)}; no larger set was tried"
    inside = [p.rate.value for p in passes if p.set_bytes <= gap[0]]
    return (
        f"up to {size_label(gap[0])} from memory at {rate_text(inside[-1])}; {size_label(gap[1])} and more not; "
        f"{size_label(last.set_bytes)} at {rate_text(last.rate.value)}"
    )


def _beyond(points: Sequence[Point], evidence: Evidence) -> str:
    small = [p for p in points if p.record_bytes == SMALL_RECORD]
    best = [evidence.best(p for p in small if p.op == op) for op in ("read", "write")]
    told = [f"{count_text(p.iops.value)} random {p.op}s" for p in best if p]
    where = f" of {size_label(SMALL_RECORD)} a second over {size_label(small[-1].set_bytes)}" if small else ""
    return f"{' and '.join(told)}{where}"


def _rate(points: Sequence[Point], evidence: Evidence) -> str:
    now = next((p for p in points if p.op == "read"), points[-1])
    large = evidence.curve("depth", LARGE_RECORD)
    first = max((p.rate.value for p in large if p.set_bytes == now.set_bytes), default=0.0)
    return f"{rate_text(now.rate.value)}" + (f", {rate_text(first)} at first" if first else "")


def _long(points: Sequence[Point], evidence: Evidence) -> str:
    p = points[-1]
    return f"{rate_text(p.rate.value)} over {duration_text(p.end_ns - p.start_ns)}"


def _security(points: Sequence[Point], evidence: Evidence) -> str:
    return ", ".join(f"{way} {rate_text(figure.value)}" for way, figure in evidence.by_way().items())


_RULES: dict[str, Callable[[Sequence[Point], Evidence], str]] = {
    "round_trip": _round_trip, "client_cache": _client_cache, "depth": _depth, "small_depth": _small_depth,
    "connections": _connections, "same_file": _same_file, "clients": _clients, "record": _record, "order": _order,
    "duplex": _duplex, "writes": _writes, "set": _set, "beyond": _beyond, "again": _rate, "rest": _long, "long": _long,
    "security": _security,
}  # fmt: skip
