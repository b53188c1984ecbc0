"""What the cells of a run tell together: the least time of an operation, what grows with its size, and the ceilings.

At one in flight the parts of an operation's time add up (a wait that is the same for every size, transfer, disk); with
enough in flight the slowest queue sets the rate (operational bounds, Denning & Buzen 1978). So with one in flight a
part's share of the time tells, and with more its utilisation: what it would carry over what it does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from naslab.analysis.linkrate import known_link, payload_bytes_per_s, speed_text
from naslab.analysis.regimes_cells import View
from naslab.units import rate_text

QUICK_RANK = 0.1
"""The least time of like cells: so many of them may be faster by chance."""
ALIKE = 0.03
"""Reads and writes that end at rates so near to each other meet the same part: the link carries both alike."""
GROWING = 0.3
"""Of an operation's time, what must grow with its size before the growth is taken for a transfer rate."""
QUEUED = 0.75
"""The fastest operation took at most this share of the mean: the others waited in a queue."""
MEMORY_BYTES_PER_S = 500e6
"""No server's memory copies slower; its processor may. Above it, an equal rate of reads and writes is no proof."""
LINKS_BITS_PER_S = (1e8, 1e9, 2.5e9, 5e9, 10e9)
"""Standard links slower than a server's memory; a rate of faster ones may be either's."""
BELOW_NOMINAL, ABOVE_NOMINAL = 0.90, 1.02
"""A rate counts as that of a standard link between these shares of its payload rate."""
AHEAD = 1.25
"""Writes acknowledged so many times as fast as they were durable: memory took most of them."""
LARGE_BYTES = 256 << 10
"""What an operation costs beside its bytes is little of one so large, where many queue."""
SMALL_BYTES = 16 << 20
"""What was just written and is no larger is in any server's memory when it is read."""
OF_CEILING = 0.85
LINE = 1.1
"""How far times of records may lie above a line through those of smaller ones."""
SLOWER = 0.08
"""So much more time than the least of like operations is more than noise, where a run shows no more noise than this."""

Curve = dict[int, float]
"""Least time of an operation, ns, by record size."""

MOST_NOISE, LEAST_RANGES = 0.25, 4
"""What is taken for noise at most, and from how many groups of like cells."""


@dataclass(frozen=True)
class Link:
    """What the link carries one way, bytes per second, and how that is known."""

    rate: float
    says: str


@dataclass
class Model:
    """own: least times by (direction, durable, in flight). common: over all of one number in flight.

    least: of the fastest single operation. wait_ns: of all. transfer: bytes per second by (direction, in flight).
    disk_write, held: by (record, in flight, in any order): the rate until durable, the most bytes a flush found. first:
    the first cell that was as fast as any, by what it did. served: the largest file that was read as fast as any, by
    (record, in flight). knee: over all records, the largest such file and the smallest that was not. small_bytes: the
    smallest file. slower: what is more than noise. nic: what the client's interface carries.
    """

    own: dict[tuple[str, bool, int], Curve] = field(default_factory=dict)
    common: dict[int, Curve] = field(default_factory=dict)
    least: dict[int, Curve] = field(default_factory=dict)
    wait_ns: float = float("inf")
    transfer: dict[tuple[str, int], float] = field(default_factory=dict)
    slower: float = SLOWER
    link: Link | None = None
    nic: float | None = None
    round_trip_ns: float | None = None
    disk_write: dict[tuple[int, int, bool], float] = field(default_factory=dict)
    first: dict[tuple[str, int, int, int, bool, str], int] = field(default_factory=dict)
    held: dict[tuple[int, int, bool], float] = field(default_factory=dict)
    served: dict[tuple[int, int], int] = field(default_factory=dict)
    knee: tuple[float, float] = (0, float("inf"))
    small_bytes: float = float("inf")


def build(views: Sequence[View], document: Mapping[str, Any]) -> Model:
    """What the plain cells of a run tell together. Cells that were answered by this machine are left out before."""
    model = Model(round_trip_ns=_value(((document.get("ladder") or {}).get("model") or {}).get("round_trip_ns")))
    groups: dict[tuple[str, bool, int], dict[int, list[View]]] = defaultdict(lambda: defaultdict(list))
    for view in views:
        groups[view.direction, view.direction == "write" and view.durable, view.in_flight][view.record].append(view)
    model.slower = max(SLOWER, _noise(groups))
    model.small_bytes = min((view.size for view in views), default=float("inf"))
    _least_times(model, groups)
    _transfer_rates(model, groups)
    model.link = _link(model, document)
    _disk_writes(model, groups)
    _find_knee(model, groups)
    for view in sorted(views, key=lambda v: -v.id):
        if view.op_ns <= (1 + model.slower) * model.common[view.in_flight][view.record]:
            model.first[view.same] = view.id
    return model


Groups = Mapping[tuple[str, bool, int], Mapping[int, Sequence[View]]]


def _noise(groups: Groups) -> float:
    """How far the times of like cells lie apart: median, over file and record sizes, of their range as a share."""
    ranges = []
    for by_record in groups.values():
        for of in by_record.values():
            by_size: dict[tuple[int, bool], list[float]] = defaultdict(list)
            for view in of:
                by_size[view.size, view.scattered].append(view.op_ns)
            ranges += [1 - min(times) / max(times) for times in by_size.values() if len(times) > 1]
    return min(median(ranges), MOST_NOISE) if len(ranges) >= LEAST_RANGES else 0.0


def _least_times(model: Model, groups: Groups) -> None:
    for key, by_record in groups.items():
        model.own[key] = _rising({record: _least([v.op_ns for v in of]) for record, of in by_record.items()})
        for record, of in by_record.items():
            alone = [v.least_ns for v in of if v.least_ns]
            if alone:
                model.wait_ns = min(model.wait_ns, *alone)
                least = model.least.setdefault(key[2], {})
                least[record] = min(_least(alone), least.get(record, float("inf")))
    for (_, _, in_flight), curve in model.own.items():
        common = model.common.setdefault(in_flight, {})
        for record, op_ns in curve.items():
            common[record] = min(op_ns, common.get(record, float("inf")))
    model.common = {in_flight: bounded(curve, in_flight) for in_flight, curve in model.common.items()}


def _transfer_rates(model: Model, groups: Groups) -> None:
    for (direction, durable, in_flight), by_record in groups.items():
        least = model.least.get(in_flight, {})
        quickest = {r: least[r] for r, of in by_record.items() if r in least and not all(map(throttled, of))}
        curve = model.own[direction, durable, in_flight]
        rate = None if durable else transfer_rate(curve, in_flight, quickest)
        if rate:
            model.transfer[direction, in_flight] = rate


def throttled(view: View) -> bool:
    """Writes that memory took no faster than the disks, and whose flush found it full: they waited for the disks."""
    durable = view.flushed_rate
    flush_ns = view.cell.get("flush_ns") or 0
    return durable is not None and view.rate < AHEAD * durable and flush_ns > 5 * view.least_ns


def _least(times: Sequence[float]) -> float:
    return sorted(times)[int(QUICK_RANK * (len(times) - 1))]


def _rising(curve: Curve) -> Curve:
    """A larger record never takes less time: where it does, the smaller one was held up by something else."""
    out, best = {}, float("inf")
    for record in sorted(curve, reverse=True):
        best = min(best, curve[record])
        out[record] = best
    return dict(sorted(out.items()))


def growth(curve: Curve, record: int) -> float | None:
    """Share of the time of an operation of this size that grows with its size, 0 to 1; None from one size alone."""
    others = [other for other in curve if other >= 1.5 * record] or [other for other in curve if other <= record / 1.5]
    if not others or record not in curve:
        return None
    other = min(others, key=lambda size: abs(size - record)) if others[0] < record else min(others)
    slope = (curve[other] - curve[record]) / (other - record)
    return min(max(slope * record / curve[record], 0.0), 1.0)


def transfer_rate(curve: Curve, in_flight: int, least: Curve) -> float | None:
    """Bytes per second at which large operations move, waits that all have left out; None where nothing grows.

    least: of the fastest single operation. With more than one in flight operations must wait for each other, or the
    transfer is not what holds them up; large ones that do wait for bytes, even where one size was measured.
    """
    found = []
    for record in curve:
        share = growth(curve, record)
        queued = in_flight > 1 and least.get(record, 0.0) <= QUEUED * curve[record]
        if share is None and queued and record >= LARGE_BYTES:
            share = 1.0
        if share is not None and share >= GROWING and (queued or in_flight == 1):
            # With one in flight the wait is taken out; with more it is hidden behind the transfer of others.
            busy = share if in_flight == 1 else 1.0
            found.append(in_flight * record * 1e9 / (curve[record] * busy))
    return max(found, default=None) if in_flight > 1 else (found[-1] if found else None)


def bounded(curve: Curve, in_flight: int) -> Curve:
    """No record takes longer than smaller ones promise: beyond, something else than its size held it up.

    With one in flight the time is a wait and a transfer, a line; with more, larger records never lower the rate.
    """
    out: Curve = {}
    for record in sorted(curve):
        op_ns, known = curve[record], sorted(out)
        if in_flight == 1 and len(known) >= 2:
            last, before = known[-1], known[-2]
            op_ns = min(op_ns, out[last] + (out[last] - out[before]) / (last - before) * (record - last) * LINE)
        elif in_flight > 1 and known:
            op_ns = min(op_ns, out[known[-1]] * record / known[-1])
        out[record] = op_ns
    return out


def _link(model: Model, document: Mapping[str, Any]) -> Link | None:
    """What is known to carry the rate of large operations, or must be: a finding, an interface, a plateau."""
    found = _from_ladder(document)
    if found is not None:
        return found
    best = {
        direction: max((rate for (of, _), rate in model.transfer.items() if of == direction), default=0.0)
        for direction in ("read", "write")
    }
    top = max(best.values())
    fact = known_link(document)
    if fact is not None:
        model.nic = fact["bytes_per_s"]
        if not top or top >= OF_CEILING * model.nic:
            return Link(fact["bytes_per_s"], f"{fact['says']} carries {rate_text(fact['bytes_per_s'])}")
    standard = next((bits for bits in LINKS_BITS_PER_S if _matches(top, bits)), None)
    if standard is not None:
        return Link(top, f"{rate_text(top)} is what a link of {speed_text(standard)} carries")
    alike = min(best.values()) >= (1 - ALIKE) * top
    # Of large files alone, a disk that reads as fast as it writes would look the same.
    if alike and 0 < top < MEMORY_BYTES_PER_S and model.small_bytes <= SMALL_BYTES:
        return Link(top, f"reads and writes end at the same {rate_text(top)}, whatever the file size")
    return None


def _matches(rate: float, bits: float) -> bool:
    return BELOW_NOMINAL <= rate / payload_bytes_per_s(bits, 9000) <= ABOVE_NOMINAL


def _from_ladder(document: Mapping[str, Any]) -> Link | None:
    """The link as the ladder found it."""
    fitted = (document.get("ladder") or {}).get("model") or {}
    values = [_value(fitted.get(name)) for name in ("link_read_bytes_per_s", "link_write_bytes_per_s")]
    values += [
        each.get("value")
        for each in (document.get("verdict") or {}).get("limits") or []
        if each.get("kind") == "link" and each.get("unit") == "bytes_per_s"
    ]
    rates = [float(value) for value in values if value]
    return Link(max(rates), f"the ladder found a link of {rate_text(max(rates))}") if rates else None


def _value(found: Any) -> float | None:
    return found.get("value") if isinstance(found, Mapping) else None


def _disk_writes(model: Model, groups: Groups) -> None:
    """The rate until all was durable of the largest files, where the disks' share is largest, and what memory held.

    For writes in a row and in any order apart; a disk may do the one much faster.
    """
    for (direction, durable, in_flight), by_record in groups.items():
        if direction != "write" or durable:
            continue
        for record, of in by_record.items():
            for scattered in (False, True):
                flushed = [view for view in of if view.scattered == scattered and view.flushed_rate]
                largest = max((view.size for view in flushed), default=0)
                among = sorted(view.flushed_rate or 0.0 for view in flushed if view.size == largest)
                if among:
                    key = record, in_flight, scattered
                    model.disk_write[key] = among[len(among) // 2]
                    model.held[key] = max(model.disk_write[key] * view.cell["flush_ns"] / 1e9 for view in flushed)


def _find_knee(model: Model, groups: Groups) -> None:
    """Sizes up to which files were read as fast as any, and from which they were not, at like records and depths."""
    for (direction, _, in_flight), by_record in groups.items():
        if direction != "read":
            continue
        for record, of in by_record.items():
            least = (1 + model.slower) * model.common[in_flight][record]
            quick = [view.size for view in of if view.op_ns <= least]
            slow = [view.size for view in of if view.op_ns > least and view.size > max(quick, default=0)]
            model.served[record, in_flight] = max(quick, default=0)
            if quick and slow:
                model.knee = (max(model.knee[0], *quick), min(model.knee[1], *slow))
