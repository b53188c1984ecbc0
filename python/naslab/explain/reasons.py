"""Evidence of a limit: sentences made from the very numbers that decided.

Each begins with the rate that was measured, then sets against each other the loads that tell the limit from the next
one. Words that judge a number (`times`, `as fast as`, `share one ceiling`) are computed from it, here and nowhere else,
and depend on the measurement alone: whatever limit a sentence is said of, it says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from naslab.explain.evidence import Evidence
from naslab.explain.measured import Measured, acknowledged, record_of
from naslab.explain.points import Point
from naslab.explain.rows import BESIDE
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.explain.tell import BY_MODEL, interval_text, kind_name, value_text
from naslab.units import amount_text, count_text, duration_text, percent_text, rate_text, size_label

ALIKE = 0.03
"""Two rates within this share of each other are called alike."""
APART, TOGETHER = 0.7, 0.4
"""Share of a writer's bytes that come on top of the reader's: each direction has its own ceiling; both share one."""
LEVEL = 0.9
"""Reads at this share of what greater depths reach are level."""
TELLING = 0.1
"""A writer must move this share of the reader's rate, before it tells whether both share one ceiling."""
PER_OPERATION = 0.85
"""Small records that move less than this share of the bytes of large ones are limited by operations."""
BUSY = 0.85
"""Share of a worker's core, or of all, from which on the client is called busy."""
SLOW = 1.5
"""Mean over median time of one request, from which on a share of slow ones is worth a sentence."""
MISFIT = 0.35
"""Share of the rates that the model does not explain, from which on a sentence says so."""
UNSPENT_NOT_SAID = frozenset(("burst_credit", "unknown", "client_cache", "client_cpu"))
"""Limits beside which nothing is said of credit that no load spent."""
Clauses = Sequence[str]


@dataclass(frozen=True)
class Facts:
    """What a reason is made from. rival: the kind to be told from, where another is probable.

    nearest: next limit, and its ceiling over this one.
    stall, misfit: shares of the time in which nothing moved, and of the rates that the model does not explain.
    """

    kind: str
    op: str
    size: str
    value: Measured
    rival: str
    nearest: tuple[str, float] | None
    evidence: Evidence
    stall: float = 0.0
    misfit: float = 0.0


def reason(facts: Facts) -> str:
    """The evidence of one limit."""
    told = [_reach(facts)]
    for kind in (facts.kind, facts.rival):
        told += _CONTRASTS[kind](facts) if kind in _CONTRASTS else ()
    told.append(
        lasted(facts.evidence, facts.op) if facts.size == "large" and facts.kind not in UNSPENT_NOT_SAID else ""
    )
    if facts.nearest:
        told.append(f"the next limit is {kind_name(facts.nearest[0])}, at {factor_text(facts.nearest[1])} times")
    return "; ".join(dict.fromkeys(each for each in told if each))


def factor_text(factor: float) -> str:
    """`0.07`, `1.04`, `1.3`, `12`: two significant digits, three between 0.8 and 1.2."""
    return f"{factor:.2f}" if 0.8 < factor < 1.2 else f"{factor:.2g}" if factor < 100 else f"{factor:,.0f}"


def against(one: float, other: float) -> str:
    """One rate over another: `as fast as`, `0.51 times`, `3.2 times`."""
    if other <= 0:
        return "against"
    return "as fast as" if abs(one / other - 1) < ALIKE else f"{factor_text(one / other)} times"


def lasted(evidence: Evidence, op: str) -> str:
    """How long a large load went on without a fall: credit that lasts longer is not seen."""
    long = max((p for p in evidence.step("long") if p.op == op), key=lambda p: p.end_ns - p.start_ns, default=None)
    if long is None or evidence.credit(op):
        return ""
    length_ns = long.end_ns - long.start_ns
    moved = long.rate.value * length_ns / 1e9
    return f"no credit ran out in {duration_text(length_ns)} of {op}s ({amount_text(moved)})"


def _reach(facts: Facts) -> str:
    """The rate that was measured where the limit decides; that of the model where none was."""
    figure, point = facts.value.figure, facts.value.point
    rate = value_text(figure.value, figure.unit)
    if facts.kind == "burst_credit":
        return _burst(facts)
    if facts.value.durable:
        return f"durable at {rate}"
    if point is None:
        return f"the fitted model has a ceiling of {rate} ({interval_text(figure.document())})"
    by = " by the disks" if facts.value.missed else ""
    return f"{rate}{by}{_load(point)}"


def _load(point: Point) -> str:
    """` at queue depth 8 over 4 connections, working set 1 GiB`."""
    over = f" over {point.workers} connections" if point.workers > 1 else ""
    by = f" by {point.clients} clients" if point.clients > 1 else ""
    of = f", working set {size_label(point.set_bytes)}" if point.set_bytes > SMALL_BYTES else ""
    return f" at queue depth {point.depth}{over}{by}{of}"


# What tells a kind from others.


def duplex(evidence: Evidence) -> str:
    """A reader beside a writer, and the same reader alone. Whose ceiling it is shows only where that one is level."""
    beside, large = [p for p in evidence.step("duplex") if p.op == "mixed"], evidence.large
    alone = _alone(evidence, beside[-1].depth) if beside else 0.0
    if large is None or not alone:
        return ""
    p = beside[-1]
    told = f"beside a writer at {rate_text(p.writes)} reads reach {rate_text(p.reads)}, alone {rate_text(alone)}"
    if p.writes < TELLING * alone or alone < LEVEL * large.rate.value:
        return told
    on_top = (p.reads + p.writes - alone) / p.writes
    if on_top >= APART:
        return f"{told}: each direction has its own ceiling"
    return f"{told}: both directions share one ceiling" if on_top <= TOGETHER else told


def _alone(evidence: Evidence, depth: int) -> float:
    """Large reads at this queue depth, or at the next lower one that was measured; 0 where none was."""
    large, curve = evidence.large, evidence.curve("depth", LARGE_RECORD)
    if large and depth >= large.depth * large.workers:
        return large.rate.value
    lower = [p.rate.value for p in curve if p.depth * p.workers <= depth]
    return lower[-1] if lower else 0.0


def _path(facts: Facts) -> Clauses:
    many = connections(facts.evidence, facts.size) if facts.op == "read" else _refused(facts)
    return _as_reads(facts), duplex(facts.evidence), many


def _as_reads(facts: Facts) -> str:
    """Cached reads beside durable writes."""
    cached = facts.evidence.large if facts.size == "large" else facts.evidence.small
    if facts.op == "read" or cached is None or not facts.value.durable:
        return ""
    figure, reached = facts.value.figure, cached.rate.value if facts.size == "large" else cached.iops.value
    compared = against(reached, figure.value)
    rates = [value_text(each, figure.unit) for each in (reached, figure.value)]
    return f"cached reads reach {rates[0]}, {compared} durable writes ({rates[1]})"


def _memory(facts: Facts) -> Clauses:
    return _served(facts), *_path(facts), _record(facts.evidence.middle)


def _served(facts: Facts) -> str:
    """What a server on this machine works for an operation."""
    record = record_of(facts.size)
    works = next((seconds for size, seconds in facts.evidence.served() if size == record), 0.0)
    return (
        f"other programs here work {duration_text(works * 1e9)} or more for each {size_label(record)}" if works else ""
    )


def _record(middle: Point | None) -> str:
    return f"records of {size_label(middle.record_bytes)} reach {rate_text(middle.rate.value)}" if middle else ""


def _operations(facts: Facts) -> Clauses:
    return _served(facts), _as_reads(facts), operations(facts.evidence), _rationed(facts.evidence)


def operations(evidence: Evidence) -> str:
    """Records of two sizes: do operations or bytes count?"""
    small, large = evidence.small, evidence.large
    if small is None or large is None:
        return ""
    told = (
        f"{count_text(small.iops.value)} reads of {size_label(SMALL_RECORD)} a second move "
        f"{rate_text(small.rate.value)}, reads of {size_label(LARGE_RECORD)} {rate_text(large.rate.value)}"
    )  # fmt: skip
    costs = evidence.time_per_byte()
    if small.rate.value < PER_OPERATION * large.rate.value and costs and costs[0] > 0:
        told += f": an operation takes {duration_text(costs[0] * 1e9)} besides its bytes"
    return told


def _rationed(evidence: Evidence) -> str:
    """Work and pauses in turns, where single requests show them."""
    trip = evidence.round_trip
    if trip is None or trip.p50_ns <= 0 or trip.mean_ns < SLOW * trip.p50_ns:
        return ""
    return (
        f"half of single {size_label(trip.record_bytes)} reads take up to {duration_text(trip.p50_ns)}, the mean is "
        f"{duration_text(trip.mean_ns)}"
    )


def _disk(facts: Facts) -> Clauses:
    return _disk_writes(facts) if facts.op == "write" else (sets(facts.evidence),)


def _disk_writes(facts: Facts) -> Clauses:
    quick, told = acknowledged(facts.evidence, facts.size), ""
    rate = (quick.rate if facts.size == "large" else quick.iops) if quick else None
    if rate and facts.value.durable and rate.value > facts.value.figure.value:
        told = f"acknowledged at up to {value_text(rate.value, rate.unit)}"
    return told, _as_reads(facts), _refused(facts)


def _refused(facts: Facts) -> str:
    """Writes that reached the server and no disk, beside large ones that had to be durable."""
    reached, figure = facts.evidence.refused_bytes_per_s, facts.value.figure
    if not reached or facts.op == "read" or facts.size == "small" or not facts.value.durable:
        return ""
    compared = against(reached, figure.value)
    return f"writes that the server refused reached it at {rate_text(reached)}, {compared} durable ones"


def sets(evidence: Evidence) -> str:
    """A large working set beside a small one."""
    large, passes = evidence.large, evidence.passes
    if evidence.positional:
        return _order(evidence)
    if large is None or not passes:
        return ""
    last = passes[-1]
    compared = against(last.rate.value, large.rate.value)
    other = f"{size_label(large.set_bytes)} ({rate_text(large.rate.value)})"
    rate = rate_text(last.rate.value)
    return f"a working set of {size_label(last.set_bytes)} reads at {rate}, {compared} one of {other}"


def _order(evidence: Evidence) -> str:
    ordered, small = evidence.best(evidence.step("order")), evidence.small
    if ordered is None or small is None:
        return ""
    return (
        f"{size_label(SMALL_RECORD)} reads in order reach {count_text(ordered.iops.value)} a second, at random "
        f"{count_text(small.iops.value)}, in a file of {size_label(small.set_bytes)}"
    )


def _disk_iops(facts: Facts) -> Clauses:
    return _disk_writes(facts) if facts.op == "write" else (random_reads(facts.evidence), _waits(facts.evidence))


def random_reads(evidence: Evidence) -> str:
    """Small reads of a large set beside those of a small one."""
    if evidence.positional:
        return _order(evidence)
    beyond = [p for p in evidence.step("beyond") if p.record_bytes == SMALL_RECORD and p.op == "read" and p.random]
    deepest = max(beyond, key=lambda p: p.depth * p.workers, default=None)
    cached = evidence.small
    if deepest is None or cached is None:
        return ""
    return (
        f"random {size_label(SMALL_RECORD)} reads over {size_label(deepest.set_bytes)} reach "
        f"{count_text(deepest.iops.value)} a second, over {size_label(cached.set_bytes)} "
        f"{count_text(cached.iops.value)}"
    )


def _waits(evidence: Evidence) -> str:
    """A read beside a call that moves nothing."""
    trip, null = evidence.round_trip, evidence.null_ns
    if trip is None or not null:
        return ""
    return (
        f"a call without data takes {duration_text(null['mean'])}, a read of {size_label(trip.record_bytes)} "
        f"{duration_text(trip.mean_ns)}"
    )


def _protocol(facts: Facts) -> Clauses:
    return _as_reads(facts), _granted(facts.evidence), connections(facts.evidence, facts.size)


def _granted(evidence: Evidence) -> str:
    """Slots that the server grants."""
    if not evidence.granted_depth:
        return ""
    return f"the server grants a connection {evidence.granted_depth} outstanding requests"


def connections(evidence: Evidence, size: str) -> str:
    """One connection beside several."""
    one = evidence.large if size == "large" else evidence.small
    many = evidence.many(record_of(size))
    if one is None or many is None or one.rate.value <= 0:
        return ""
    compared = against(many.rate.value, one.rate.value)
    return (
        f"{many.workers} connections reach {rate_text(many.rate.value)}, {compared} one connection "
        f"({rate_text(one.rate.value)})"
    )


def _latency(facts: Facts) -> Clauses:
    """How the rate follows the queue depth, and the time of one request."""
    evidence, record = facts.evidence, record_of(facts.size)
    curve = evidence.curve("depth" if facts.size == "large" else "small_depth", record)
    trip = evidence.round_trip
    told = f"one {size_label(trip.record_bytes)} read takes {duration_text(trip.mean_ns)}" if trip else ""
    if len(curve) < 2:
        return (told,)
    before, last = curve[-2], curve[-1]
    deep = (
        f"{size_label(record)} reads reach {rate_text(before.rate.value)} at queue depth "
        f"{before.depth * before.workers} and {rate_text(last.rate.value)} at {last.depth * last.workers}"
    )
    return told, deep


def _client_cpu(facts: Facts) -> Clauses:
    """Processors that the client used, of those that it may use."""
    evidence = facts.evidence
    if evidence.protocol == "null":
        return ("the target answers immediately, so this is the client's own rate",)
    one = facts.value.point or (evidence.large if facts.size == "large" else evidence.small)
    if one is None:
        return ()
    limit = min((p.cpu_limit for p in evidence.step(*evidence.points) if p.cpu_limit > 0), default=0.0)
    most = limit or float(evidence.client_cpus)
    told = f"the client uses {one.cpu:.2f} of {most:.3g} {'core' if most == 1 else 'cores'} there"
    return told, connections(evidence, facts.size), clients(evidence)


def _client_nic(facts: Facts) -> Clauses:
    return _as_reads(facts), _interface(facts.evidence), clients(facts.evidence)


def _interface(evidence: Evidence) -> str:
    speed = evidence.nic_bytes_per_s
    if not speed:
        return ""
    return f"the client's interface carries {speed * 8 / 1e9:.3g} Gbit/s ({rate_text(speed)} with headers)"


def clients(evidence: Evidence) -> str:
    """Clients beside each other."""
    known = evidence.by_clients
    if len(known) < 2:
        return ""
    rates = ", ".join(f"{p.clients}: {rate_text(p.rate.value)}" for p in known)
    more = "; still rising, so measure with more clients" if evidence.clients_add else ""
    return f"by number of clients {rates}{more}"


def _burst(facts: Facts) -> str:
    """Spent credit."""
    figure, known = facts.value.figure, facts.evidence.credit(facts.op)
    base = value_text(figure.value, figure.unit)
    if not known:
        return f"the fitted model has a rate without credit of {base}"
    size = f", {amount_text(known['size_bytes'])} above that" if known.get("size_bytes") else ""
    shown = f": {known['shown_by']}" if known.get("shown_by") else ""
    return (
        f"the rate was {rate_text(known['burst_bytes_per_s'])} with credit{size} and is "
        f"{rate_text(known['base_bytes_per_s'])} without{shown}"
    )


def _credit(facts: Facts) -> Clauses:
    return (falls(facts),)


def falls(facts: Facts) -> str:
    """The first reads beside the same ones later; sets that were written one after another."""
    evidence = facts.evidence
    again = next((p for p in evidence.step("again") if p.op == facts.op), None)
    if facts.op == "write":
        rates = [p.durable for p in sorted(evidence.appends, key=lambda p: p.set_bytes) if p.durable]
        if len(rates) < 2:
            return ""
        earlier = ", ".join(map(rate_text, rates[:-1]))
        return f"working sets became durable at {earlier}, the last at {rate_text(rates[-1])}"
    first = evidence.best(evidence.curve("depth", LARGE_RECORD))
    if again is None or first is None:
        return ""
    return f"the first large reads reached {rate_text(first.rate.value)}, the same later {rate_text(again.rate.value)}"


def _unknown(facts: Facts) -> Clauses:
    """Stops, slow operations, a lock; what is left."""
    evidence = facts.evidence
    told = [_stalls(facts), _lock(facts), _rationed(evidence)]
    if facts.misfit > MISFIT:
        told.append(f"the model does not explain {percent_text(facts.misfit)} of the rates of {facts.op}s")
    return told


def _stalls(facts: Facts) -> str:
    if facts.stall <= 0:
        return ""
    worst = max(
        (p.stalls for p in facts.evidence.step(*facts.evidence.points) if p.stalls and p.stalls.count),
        key=lambda s: (s.count, s.lost), default=None,
    )  # fmt: skip
    if worst is None:
        return ""
    every = f" about every {duration_text(worst.every_ns)}" if worst.every_ns else ""
    return f"nothing moves for {percent_text(facts.stall)} of the time, for {duration_text(worst.length_ns)}{every}"


def _lock(facts: Facts) -> str:
    record = record_of(facts.size)
    same = facts.evidence.best(p for p in facts.evidence.step("same_file") if p.record_bytes == record)
    own = facts.evidence.many(record)
    if same is None or own is None:
        return ""
    return (
        f"{same.workers} connections reach {rate_text(same.rate.value)} on one file and {rate_text(own.rate.value)} on "
        "files of their own"
    )


def _shared_machine(facts: Facts) -> Clauses:
    one = facts.value.point or facts.evidence.large
    used = f", of which the client uses {one.cpu:.2f}" if one else ""
    return f"client and server share {facts.evidence.client_cpus} cores{used}", _beside(facts, one), _served(facts)


def _beside(facts: Facts, one: Point | None) -> str:
    """What others used before the first load, where that was much, and during this one."""
    before = facts.evidence.before_cores
    if one is None or before is None or before < BESIDE or one.others < before:
        return ""
    return f"other programs use {one.others:.1f} of them, {before:.1f} before the first load"


def _client_cache(facts: Facts) -> Clauses:
    """Bytes that never reached the server."""
    found = next(iter(facts.evidence.step("client_cache")), None)
    if found is None or found.crossed is None:
        return ()
    moved = found.rate.value * (found.end_ns - found.start_ns) / 1e9
    where = "came off the disk" if facts.evidence.local_disk else "crossed the wire"
    return (f"{amount_text(found.crossed * moved)} of {amount_text(moved)} {where}",)


_CONTRASTS: dict[str, Callable[[Facts], Clauses]] = {
    "link": _path, "server_cache": _memory, "server_cpu": _operations, "disk": _disk, "disk_iops": _disk_iops,
    "protocol": _protocol, "latency": _latency, "client_cpu": _client_cpu, "client_nic": _client_nic,
    "burst_credit": _credit, "unknown": _unknown, "shared_machine": _shared_machine, "client_cache": _client_cache,
}  # fmt: skip


# Why a class is open.


def undecided(between: Sequence[tuple[str, float, Measured]]) -> str:
    """Two kinds that explain the measured rates. between: of each its kind, its probability and its figure."""
    told = [
        f"{kind_name(kind)} at {value_text(found.figure.value, found.figure.unit)}{BY_MODEL if found.modelled else ''} "
        f"(probability {share:.2f})"
        for kind, share, found in between
    ]  # fmt: skip
    return f"the measured rates fit {told[0]} and {told[1]}"


def too_close(one: str, two: str, share: float) -> str:
    """Two ceilings of one height."""
    return f"{kind_name(one)} and {kind_name(two)} lie within 10 % of each other with probability {share:.2f}"
