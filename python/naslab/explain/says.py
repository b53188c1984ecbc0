"""What each step of the ladder says, in one sentence with its numbers. Pure functions of what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from naslab.explain.evidence import LEVEL, Evidence
from naslab.explain.points import Point
from naslab.explain.reasons import clients, connections, duplex
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD
from naslab.units import count_text, duration_text, rate_text, size_label


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
        return "the bytes below the client's cache are not counted here"
    where = "came off the disk" if evidence.local_disk else "crossed the wire"
    return f"{100 * min(crossed, 1.0):.0f} % of the bytes {where}"


def _depth(points: Sequence[Point], evidence: Evidence) -> str:
    return _curve(evidence.curve("depth", LARGE_RECORD))


def _small_depth(points: Sequence[Point], evidence: Evidence) -> str:
    return _curve(evidence.curve("small_depth", SMALL_RECORD))


def _curve(curve: Sequence[Point]) -> str:
    """The rate of one outstanding request, and the queue depth from which on the rate is within 5 % of the highest."""
    if not curve:
        return ""
    first, top = curve[0], max(p.rate.value for p in curve)
    enough = next(p for p in curve if p.rate.value * LEVEL >= top)
    depth, last = enough.depth * enough.workers, curve[-1].depth * curve[-1].workers
    alone = f"{rate_text(first.rate.value)} at queue depth {first.depth * first.workers}"
    if enough is first:
        return f"{alone}; {rate_text(top)} at most, up to {last}"
    until = "still rising there" if depth == last else "level from there on"
    return f"{alone}, {rate_text(enough.rate.value)} at {depth}, {until}"


def _connections(points: Sequence[Point], evidence: Evidence) -> str:
    told = []
    for record, size in ((LARGE_RECORD, "large"), (SMALL_RECORD, "small")):
        if text := connections(evidence, size):
            told.append(f"{size_label(record)}: {text}")
    return "; ".join(told)


def _clients(points: Sequence[Point], evidence: Evidence) -> str:
    return clients(evidence)


def _same_file(points: Sequence[Point], evidence: Evidence) -> str:
    return "; ".join(
        f"{size_label(p.record_bytes)}: {p.workers} on one file reach {rate_text(p.rate.value)}" for p in points
    )


def _record(points: Sequence[Point], evidence: Evidence) -> str:
    costs = evidence.time_per_byte()
    reached = f"{size_label(points[-1].record_bytes)} at a time reach {rate_text(points[-1].rate.value)}"
    return (
        f"{reached}; an operation costs {duration_text(costs[0] * 1e9)} besides its bytes"
        if costs and costs[0] > 1e-8
        else reached
    )


def _order(points: Sequence[Point], evidence: Evidence) -> str:
    at_random = evidence.small
    beside = f", {count_text(at_random.iops.value)} at random" if at_random else ""
    return f"{count_text(points[-1].iops.value)} a second in order{beside}"


def _duplex(points: Sequence[Point], evidence: Evidence) -> str:
    return duplex(evidence)


def _writes(points: Sequence[Point], evidence: Evidence) -> str:
    told = []
    large = [p for p in points if p.record_bytes == LARGE_RECORD]
    quick = max((p.rate.value for p in large if p.durability != "each"), default=0.0)
    if quick:
        told.append(f"acknowledged at {rate_text(quick)}")
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
    rate = f"{size_label(last.set_bytes)} read at {rate_text(last.rate.value)}"
    if not gap or gap[1] is None:
        return f"{rate}; no larger working set was read"
    inside = max(p.rate.value for p in passes if p.set_bytes <= gap[0])
    if last.rate.value >= inside:
        # Rates that go up and down with the size show no end of a cache.
        return f"{rate}; working sets up to {size_label(gap[0])} at up to {rate_text(inside)}"
    cached = f"up to {size_label(gap[0])} from the server cache, at up to {rate_text(inside)}"
    return f"{cached}; {size_label(gap[1])} not; {rate}"


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


def _watch(points: Sequence[Point], evidence: Evidence) -> str:
    p = points[-1]
    stalls = p.stalls
    seen = "no stop" if not stalls or not stalls.count else f"{stalls.count} stops of {duration_text(stalls.length_ns)}"
    return f"{seen} in {duration_text(p.end_ns - p.start_ns)} of small reads"


def _security(points: Sequence[Point], evidence: Evidence) -> str:
    return ", ".join(f"{way} {rate_text(figure.value)}" for way, figure in evidence.by_way().items())


_RULES: dict[str, Callable[[Sequence[Point], Evidence], str]] = {
    "round_trip": _round_trip, "client_cache": _client_cache, "depth": _depth, "small_depth": _small_depth,
    "connections": _connections, "same_file": _same_file, "clients": _clients, "record": _record, "order": _order,
    "duplex": _duplex, "writes": _writes, "set": _set, "beyond": _beyond, "again": _rate, "rest": _long, "long": _long,
    "watch": _watch, "security": _security,
}  # fmt: skip
