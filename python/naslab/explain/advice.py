"""What to do about a verdict, in plain sentences with the numbers they rest on. Pure functions of what was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from naslab.explain.evidence import LEVEL, Evidence
from naslab.explain.limits import Limit, Verdict
from naslab.explain.points import Point, ratio
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, SMALL_RECORD
from naslab.explain.verdict import WIRE_FRACTION
from naslab.units import amount_text, count_text, duration_text, rate_text, size_label

WORTH_DEPTH = 0.8
"""One outstanding request below this share of what many reach: depth is worth a sentence."""
ACKNOWLEDGED = 1.3
"""Writes acknowledged this much faster than they become durable are worth one."""
GAIN = 1.15
PER_OPERATION = 0.5
"""Share of a large operation's time that does not depend on its size, from which on larger records hardly help."""
LEAST_COST = 0.05
"""Protection that costs less of the rate is not worth turning off."""

_Rule = Callable[[Evidence, Verdict], Iterator[str]]


def advice(evidence: Evidence, verdict: Verdict) -> list[str]:
    """Sentences, the most important first; none twice."""
    rules: tuple[_Rule, ...] = (_client_cache, _by_limit, _security, _one_in_flight, _durable, _memory)
    return list(dict.fromkeys(sentence for rule in rules for sentence in rule(evidence, verdict)))


def _client_cache(evidence: Evidence, verdict: Verdict) -> Iterator[str]:
    found = next(iter(evidence.step("client_cache")), None)
    if evidence.protocol == "null" or found is None or found.crossed is None or found.crossed >= WIRE_FRACTION:
        return
    moved = found.rate.value * (found.end_ns - found.start_ns) / 1e9
    where = "came off the disk" if evidence.local_disk else "crossed the wire"
    went = "all later steps bypassed that cache" if any(p.bypass for p in _all(evidence)) else (
        "to measure the server, name it directly (smb://, nfs://)"
    )  # fmt: skip
    yield (
        f"you measured the client's cache: {amount_text(found.crossed * moved)} of {amount_text(moved)} {where}; {went}"
    )


def _all(evidence: Evidence) -> list[Point]:
    return evidence.step(*evidence.points)


def _by_limit(evidence: Evidence, verdict: Verdict) -> Iterator[str]:
    """A sentence for the first limit of each class."""
    told: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for limit in verdict.limits:
        where = (limit.op, limit.size)
        if where in seen:
            continue
        seen.add(where)
        rule = _OF_KIND.get(limit.kind)
        key = f"{limit.kind} {limit.op}" if limit.kind in ("disk", "disk_iops") else limit.kind
        if rule is not None and key not in told:
            told.add(key)
            yield from rule(evidence, limit)


def _link(evidence: Evidence, limit: Limit) -> Iterator[str]:
    one = evidence.large
    if one:
        yield (
            f"cached reads fill the link at {rate_text(one.rate.value)}: a faster link, or a second one beside it, "
            "makes them faster; nothing inside the server does"
        )


def _nic(evidence: Evidence, limit: Limit) -> Iterator[str]:
    speed = evidence.nic_bytes_per_s
    if speed:
        yield (
            f"this client's own network interface ({speed * 8 / 1e9:g} Gbit/s) is full: measure from a client with a "
            "faster one, or from several, before changing the server"
        )


def _latency(evidence: Evidence, limit: Limit) -> Iterator[str]:
    trip, deepest = evidence.round_trip, evidence.curve("small_depth", SMALL_RECORD)
    if trip and deepest:
        in_flight = deepest[-1].depth * deepest[-1].workers
        yield (
            f"a request takes {duration_text(trip.mean_ns)}, and queue depth {in_flight} does not fill the server: use "
            "more connections or clients, larger records, or a network with a shorter round trip"
        )


def _protocol(evidence: Evidence, limit: Limit) -> Iterator[str]:
    record = LARGE_RECORD if limit.size == "large" else SMALL_RECORD
    one, many = evidence.large if limit.size == "large" else evidence.small, evidence.many(record)
    granted = (
        f"the server grants a connection {evidence.granted_depth} outstanding requests; "
        if evidence.granted_depth
        else ""
    )
    if one and many and many.rate.value >= GAIN * one.rate.value:
        yield (
            f"{granted}{many.workers} connections reach {rate_text(many.rate.value)} where one reaches "
            f"{rate_text(one.rate.value)}: let the client use several (SMB multichannel, NFS nconnect)"
        )
    elif granted:
        yield f"{granted}raise that at the server (credits, slots), or use several connections"


def _client_cpu(evidence: Evidence, limit: Limit) -> Iterator[str]:
    record = LARGE_RECORD if limit.size == "large" else SMALL_RECORD
    one, many = evidence.large if limit.size == "large" else evidence.small, evidence.many(record)
    if one and many and many.rate.value >= GAIN * one.rate.value:
        yield (
            f"one connection keeps {one.cpu:.1f} of this client's processors busy at {rate_text(one.rate.value)}; "
            f"{many.workers} reach {rate_text(many.rate.value)}: spread the work, or turn signing and encryption off "
            "where that is allowed"
        )
    elif one:
        yield (
            f"this client's processors are busy at {rate_text(one.rate.value)}: a faster client shows more of the "
            "server"
        )


def _server_cpu(evidence: Evidence, limit: Limit) -> Iterator[str]:
    costs, one = evidence.time_per_byte(), evidence.small
    if costs and costs[0] > 0:
        large = costs[0] / (costs[0] + costs[1] * LARGE_RECORD)
        more = "" if large >= PER_OPERATION else f", only {100 * large:.0f} % of one of 1 MiB: larger records help"
        yield f"each operation costs the server {duration_text(costs[0] * 1e9)} whatever its size{more}"
    elif one:
        yield f"the server does {count_text(one.iops.value)} small operations/s: larger records need fewer of them"


def _server_cache(evidence: Evidence, limit: Limit) -> Iterator[str]:
    one = evidence.large
    if one and not evidence.local_disk:
        yield (
            f"cached reads reach {rate_text(one.rate.value)}: the limit is the server's memory or the processor that "
            "copies data, not the link or the disks"
        )


def _disk(evidence: Evidence, limit: Limit) -> Iterator[str]:
    if limit.op == "write":
        yield (
            f"writes reach the disks at {_amount(limit)}: more or faster disks, or a write cache that survives a power "
            "cut"
        )


def _disk_iops(evidence: Evidence, limit: Limit) -> Iterator[str]:
    what = "small durable writes" if limit.op == "write" else "small random reads beyond the server cache"
    better = "an SSD for the log, or fewer flushes" if limit.op == "write" else "SSDs, or memory for the data in use"
    yield f"{what} reach {_amount(limit)}: {better}"


def _burst(evidence: Evidence, limit: Limit) -> Iterator[str]:
    found = evidence.credit(limit.op)
    if not found:
        return
    size = found.get("size_bytes")
    lasts = f" for {amount_text(size)} above it" if size else ""
    yield (
        f"{rate_text(found['burst_bytes_per_s'])} is burst credit and lasts{lasts}; plan with "
        f"{rate_text(found['base_bytes_per_s'])}, or buy a higher baseline"
    )


def _shared_machine(evidence: Evidence, limit: Limit) -> Iterator[str]:
    yield (
        "client and server run on one machine and share its processors: measure from another machine to see what the "
        "server can do"
    )


def _unknown(evidence: Evidence, limit: Limit) -> Iterator[str]:
    yield (
        "none of the usual limits explains these rates: look at the server's own log and tasks at the time of the run "
        "before buying anything"
    )


def _amount(limit: Limit) -> str:
    unit = limit.value.unit
    return rate_text(limit.value.value) if unit == "bytes_per_s" else f"{count_text(limit.value.value)} a second"


_OF_KIND: dict[str, Callable[[Evidence, Limit], Iterator[str]]] = {
    "link": _link, "client_nic": _nic, "latency": _latency, "protocol": _protocol, "client_cpu": _client_cpu,
    "server_cpu": _server_cpu, "server_cache": _server_cache, "disk": _disk, "disk_iops": _disk_iops,
    "burst_credit": _burst, "shared_machine": _shared_machine, "unknown": _unknown,
}  # fmt: skip


def _security(evidence: Evidence, verdict: Verdict) -> Iterator[str]:
    """What each way of protection costs, where more than the noise of two rounds."""
    ways = evidence.by_way()
    plain = ways.get("plain")
    for name, noun in (("signed", "signing"), ("encrypted", "encryption")):
        one, base = ways.get(name), plain or ways.get("signed")
        if one is None or base is None or one is base:
            continue
        beside = "unprotected" if plain else "signed"
        if ratio(one, base).high < 1 - LEAST_COST:
            yield (
                f"{noun} costs {100 * (1 - one.value / base.value):.0f} % here: {rate_text(one.value)} against "
                f"{rate_text(base.value)} {beside}"
            )
        elif ratio(one, base).low > 1 - LEAST_COST:
            yield f"{noun} costs almost nothing here ({rate_text(one.value)} against {rate_text(base.value)} {beside})"


def _one_in_flight(evidence: Evidence, verdict: Verdict) -> Iterator[str]:
    """What one 64 KiB request at a time can reach, and the depth that fills the way."""
    trip, large = evidence.round_trip, evidence.large
    if trip is None or large is None or large.rate.value <= 0:
        return
    time_ns = trip.mean_ns + (MIDDLE_RECORD - SMALL_RECORD) / large.rate.value * 1e9
    capped = MIDDLE_RECORD / time_ns * 1e9
    if time_ns <= 0 or capped >= WORTH_DEPTH * large.rate.value:
        return
    depth = math.ceil(large.rate.value / capped)
    yield (
        f"one {size_label(MIDDLE_RECORD)} request at a time reaches at most {rate_text(capped)} "
        f"({duration_text(time_ns)} each): keep about {depth} outstanding to reach {rate_text(large.rate.value)}"
        f"{_small_depth(evidence)}"
    )


def _small_depth(evidence: Evidence) -> str:
    """`; 4 KiB needs 16`, from the measured curve."""
    curve = evidence.curve("small_depth", SMALL_RECORD)
    if len(curve) < 2:
        return ""
    top = max(p.rate.value for p in curve)
    enough = next(p for p in curve if p.rate.value * LEVEL >= top)
    depth = enough.depth * enough.workers
    return f"; {size_label(SMALL_RECORD)} needed {depth}" if depth > 1 else ""


def _durable(evidence: Evidence, verdict: Verdict) -> Iterator[str]:
    """How much faster writes are acknowledged than durable, and what one durable small write takes."""
    large = [p for p in evidence.step("writes") if p.record_bytes == LARGE_RECORD and p.op == "write"]
    quick = max((p.rate.value for p in large if p.durability != "each"), default=0.0)
    kept = [p.durable for p in evidence.appends if p.durable][-1:] or [
        p.rate.value for p in large if p.durability == "each"
    ]
    if kept and quick >= ACKNOWLEDGED * kept[-1] > 0:
        yield (
            f"writes are acknowledged {quick / kept[-1]:.1f} times as fast as they become durable "
            f"({rate_text(quick)} against {rate_text(kept[-1])}): a power cut loses what is only acknowledged"
        )
    each = [p for p in evidence.step("writes") if p.durability == "each" and p.record_bytes == SMALL_RECORD]
    alone = [p for p in each if p.depth * p.workers == 1]
    if alone and evidence.round_trip and alone[0].mean_ns >= 5 * evidence.round_trip.mean_ns:
        yield (
            f"a durable write of {size_label(alone[0].record_bytes)} takes {duration_text(alone[0].mean_ns)}, a read "
            f"{duration_text(evidence.round_trip.mean_ns)}: let programs write larger pieces between flushes"
        )


def _memory(evidence: Evidence, verdict: Verdict) -> Iterator[str]:
    """Where the server cache ends, and the rate beyond."""
    gap, passes, large = evidence.memory_bytes, evidence.passes, evidence.large
    if not gap or gap[1] is None or not passes or large is None or evidence.local_disk:
        return
    slow = passes[-1].rate.value
    if slow < large.rate.value / GAIN:
        yield (
            f"beyond {size_label(gap[0])} reads fall from {rate_text(large.rate.value)} to {rate_text(slow)}: more "
            "memory in the server helps working sets up to its size"
        )
