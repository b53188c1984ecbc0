"""Evidence in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.units import amount_text, duration_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.explain.evidence import Evidence
    from naslab.explain.points import Figure, Point, Ratio

TURNS = 50
"""The slowest percent of operations over the usual one, where work and long pauses take turns."""
WIDE = 2.0
"""An interval whose ends are so many times apart is told by its ends."""


def client_cache(found: Point, evidence: Evidence) -> str:
    """Too few bytes crossed."""
    seconds = (found.end_ns - found.start_ns) / 1e9
    moved = found.rate.value * seconds
    where = "came off the disk" if evidence.local_disk else "crossed the wire"
    return (
        f"plain reads come from the client's own cache: {amount_text((found.crossed or 0.0) * moved)} of "
        f"{amount_text(moved)} {where}, at {rate_text(found.rate.value)}"
    )


def stalls(points: Sequence[Point]) -> str:
    """Stops."""
    worst = max((p.stalls for p in points if p.stalls), key=lambda s: (s.count, s.lost))
    every = f" about every {duration_text(worst.every_ns)}" if worst.every_ns else ""
    return (
        f"the server stands still for {duration_text(worst.length_ns)}{every}: {worst.lost:.0%} of the time is lost to "
        "it, and no ceiling explains that"
    )


def slow_share(trip: Point) -> str:
    """A tail that takes most of the time."""
    return (
        f"most reads of {size_label(trip.record_bytes)} take {duration_text(int(trip.p50_ns))}, but some take so long "
        f"(99 % point {duration_text(int(trip.p99_ns))}) that the mean is {duration_text(int(trip.mean_ns))}: "
        "something holds a share of the operations back"
    )


def lock(same: Point, own: Point, one: Point) -> str:
    """A lock on a file."""
    return (
        f"{same.workers} connections on one file reach {rate_text(same.rate.value)}, no more than one connection's "
        f"{rate_text(one.rate.value)}; on files of their own {rate_text(own.rate.value)}: something is held per file"
    )


def burst(found: Mapping[str, Any]) -> str:
    """Credit."""
    size = f" after {amount_text(found['size_bytes'])} above that" if found.get("size_bytes") else ""
    return (
        f"the rate fell from {rate_text(found['burst_bytes_per_s'])} to {rate_text(found['base_bytes_per_s'])}{size}, "
        f"for data that was served faster before: {found['shown_by']}"
    )


def fell_late(before: float, durable: Figure) -> str:
    """Writes that became slow after many that were level."""
    return (
        f"writes became durable at {rate_text(before)}, set after set, and the last at {rate_text(durable.value)}: "
        "credit or a disk's fast cells may be spent, and no time was left for a rest that would tell"
    )


def disk(beyond: Point, memory: Point, evidence: Evidence) -> str:
    """Sets beyond memory."""
    where = "the disk" if evidence.local_disk else "the server's memory"
    return (
        f"a set of {size_label(beyond.set_bytes)} is read at {rate_text(beyond.rate.value)}, one of "
        f"{size_label(memory.set_bytes)} at {rate_text(memory.rate.value)}: beyond {where} the disks deliver no more"
    )


def disk_iops(beyond: Point, memory: Point) -> str:
    """Small reads beyond memory."""
    return (
        f"random reads of {size_label(beyond.record_bytes)} over {size_label(beyond.set_bytes)}: "
        f"{beyond.iops.value:,.0f} a second at depth {beyond.depth}, {memory.iops.value:,.0f} from memory"
    )


def positional(evidence: Evidence) -> str:
    """No memory holds even a small file."""
    ordered, small = evidence.best(evidence.step("order")), evidence.small
    assert ordered and small
    return (
        f"small reads in order reach {ordered.iops.value:,.0f} a second, at random {small.iops.value:,.0f}, in a file "
        f"of {size_label(small.set_bytes)}: no memory answers them, and the disks pay for each move"
    )


def in_flight(one: Point, kind: str, evidence: Evidence) -> str:
    """More requests in flight would help."""
    depth = one.depth * one.workers
    who = f"all that the server grants a connection ({depth})" if kind == "protocol" else f"at {depth} in flight"
    return (
        f"the rate still grows with the requests in flight, {who}: {duration_text(int(one.mean_ns))} a request of "
        f"{size_label(one.record_bytes)} makes {rate_text(one.rate.value)}"
    )


def connections(one: Point, many: Point, kind: str) -> str:
    """More connections help."""
    busy = f"the one used {one.cpu:.2f} of a processor" if kind == "client_cpu" else "the client's processor was idle"
    return (
        f"one connection reaches {rate_text(one.rate.value)}, {many.workers} reach {rate_text(many.rate.value)}; {busy}"
    )


def client_busy(one: Point, cpus: int) -> str:
    """The client has no processor left."""
    return f"the client's {cpus} processors were busy ({one.cpu:.2f} used) at {rate_text(one.rate.value)}"


def waits(trip: Point, null: Mapping[str, int], one: Point) -> str:
    """Reads wait where other calls do not."""
    return (
        f"{one.iops.value:,.0f} operations a second; a call that moves nothing takes {duration_text(null['mean'])}, "
        f"a read of {size_label(trip.record_bytes)} {duration_text(int(trip.mean_ns))}: no processor, but the disks"
    )


def client_alone(one: Point) -> str:
    """The null target."""
    return f"the target answers at once: {one.iops.value:,.0f} operations a second are what this client itself does"


def server_operations(one: Point, trip: Point | None) -> str:
    """Operations, not bytes. trip: one at a time; works and pauses in turns where the processor's time is rationed."""
    turns = f"; {_turns(trip)}" if trip and trip.p99_ns > TURNS * trip.p50_ns > 0 else ""
    return (
        f"{one.iops.value:,.0f} operations of {size_label(one.record_bytes)} a second, {rate_text(one.rate.value)}, "
        f"whatever the depth, the connections and the size: the server's work for each operation is the limit{turns}"
    )


def _turns(trip: Point) -> str:
    """Work and pauses."""
    return (
        f"one small read at a time, half of them take {duration_text(int(trip.p50_ns))} and 1 % more than "
        f"{duration_text(int(trip.p99_ns))}, as on a processor whose time is rationed"
    )


def rationed(one: Point, trip: Point) -> str:
    """A processor that is let work for a share of the time."""
    return f"reads level off at {rate_text(one.rate.value)}, and {_turns(trip)}"


def nic(one: Point, nic_bytes_per_s: int) -> str:
    """The client's interface."""
    return (
        f"{rate_text(one.rate.value)} is what the client's network interface carries "
        f"({nic_bytes_per_s * 8 / 1e9:g} Gbit/s less headers)"
    )


def beyond_nic(one: Point) -> str:
    """A link behind the interface."""
    return f"nothing went faster than {rate_text(one.rate.value)}: the way behind the interface may be no faster"


def other_stage(stages: float) -> str:
    """A second stage in the time of one operation."""
    return (
        f"one large read alone takes {1 + stages:.1f} times as long as its slowest stage: another stage is about as "
        "slow"
    )


def behind(figure: Figure, reached: float) -> str:
    """Disks behind a way that reaches so much, with what its end holds in memory."""
    low, value, high = (
        rate_text(each) if figure.unit == "bytes_per_s" else f"{each:,.0f} a second"
        for each in (figure.low, figure.value, figure.high)
    )
    rate = f"about {value}" if figure.high < WIDE * figure.low else f"between {low} and {high}"
    than = "hardly more" if figure.value >= reached else "less, and the server's memory serves the rest"
    return f"one operation takes so much longer when the disks serve it that they carry {rate}: {than}"


def slowed(each: Point, promised: Point) -> str:
    """Disks close behind."""
    return (
        f"{each.depth} writes in flight, each durable, reach {rate_text(each.rate.value)}, promised ones "
        f"{rate_text(promised.rate.value)}: the disks are hardly faster than the way to them"
    )


def slower_writes(durable: Figure, promised: Point) -> str:
    """Disks close behind, seen over large amounts."""
    return (
        f"large amounts become durable at {rate_text(durable.value)} and are promised at up to "
        f"{rate_text(promised.rate.value)}: the disks are hardly slower than the way to them"
    )


def link(one: Point, extra: Ratio) -> str:
    """Full duplex."""
    return (
        f"reads level off at {rate_text(one.rate.value)} whatever the depth, the connections and the record size, and "
        f"{min(extra.value, 1.0):.0%} of a writer's bytes come on top: each direction has a ceiling of its own"
    )


def shared(one: Point, server: str) -> str:
    """One thing for both directions."""
    thing = "processor" if server == "server_cpu" else "memory"
    return (
        f"reads level off at {rate_text(one.rate.value)}, and what a writer moves is taken from the reader: both "
        f"share the server's {thing}, and the link has room in each direction"
    )


def either(one: Point, server: str) -> str:
    """Open."""
    return (
        f"reads level off at {rate_text(one.rate.value)}; writes beside them, slow or uneven, do not tell whether it "
        f"is the link or the server's {'processor' if server == 'server_cpu' else 'memory'}"
    )


def own_disk(one: Point) -> str:
    """A local path."""
    way = "past this machine's cache" if one.bypass else "through this machine's cache"
    return (
        f"reads of {size_label(one.record_bytes)} {way} level off at {rate_text(one.rate.value)} "
        f"({one.iops.value:,.0f} a second): this machine's disk"
    )


def durable(found: Figure, promised: Point, reached: Figure | None, unit: str) -> str:
    """Durable writes are slower than the way."""

    def text(figure: Figure) -> str:
        return rate_text(figure.value) if unit == "bytes_per_s" else f"{figure.value:,.0f} a second"

    way = f", while the same way carries {text(reached)} for reads from memory" if reached else ""
    fast = promised.rate if unit == "bytes_per_s" else promised.iops
    return f"writes become durable at {text(found)} (promised at up to {text(fast)}){way}: the disks take no more"


def no_queue(found: Figure, promised: Point) -> str:
    """The server's processor, for writes."""
    return (
        f"writes are promised no faster ({rate_text(promised.rate.value)}) than they become durable "
        f"({rate_text(found.value)}), so none wait for a disk: the processor that holds reads back does writes, too"
    )


def same_way(evidence: str) -> str:
    """As for reads."""
    return f"durable writes are as fast as reads from memory, so both meet one ceiling: {evidence}"


def too_few_clients(known: Sequence[Point]) -> str:
    """Of reads by more and more clients: each brings its share."""
    one, most = known[0], known[-1]
    return (
        f"{one.clients} client{'s' if one.clients > 1 else ''} read {rate_text(one.rate.value)} and {most.clients} "
        f"{rate_text(most.rate.value)}, still rising: these clients do not reach what the server gives; use more"
    )
