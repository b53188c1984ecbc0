"""What the cells of any run observed, as points of a ladder's steps, so that the same model explains them.

Each cell that the model can express is one point: one size of operation, reads or writes, as fast as it goes, answered
by the server. What it is called (a depth, a connection, a working set) follows from its load. Cells alike are one
point, with their spread as its interval.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from naslab.analysis.linkrate import known_link
from naslab.analysis.regimes_cells import View
from naslab.analysis.series import NS_PER_S
from naslab.analysis.validity import cell_regime, is_local_disk
from naslab.explain.evidence import Evidence, slots_of
from naslab.explain.points import Figure, Point, conditions_of
from naslab.explain.steps import LARGE_RECORD, MIDDLE_RECORD, SMALL_BYTES, SMALL_RECORD
from naslab.results.foreign import is_foreign

Document = Mapping[str, Any]
MAX_POINTS = 48
"""Points that a fit takes at most: its time grows with them, and like loads say the same."""
MIN_LOADS = 3
"""Of fewer different loads a model says nothing that one of them does not say by itself."""
MIN_HALF = 0.01
"""Half of a rate's interval, as a share of it: at least; where a load was measured once."""
HELD_BACK = 0.05
"""Writes that were acknowledged so much faster than they became durable are two rates."""
ENOUGH = 2
"""Times the queue depth: of so many operations the fastest was alone."""
CACHED_BYTES = 16 << 20
"""What was just written and is no larger is in any server's memory when it is read."""
PREPARING = ("probe", "idle", "drain", "evict", "prepare", "clean")
"""Workloads that ask nothing of the server, or are there to change its state."""
FASTEST = "fastest"
"""The step of operations that met no queue."""
Load = tuple[str, bool, str, int, int, int, int]


def evidence_of(document: Document, views: Iterable[View] | None = None) -> Evidence:
    """All that the cells of a run observed, one point each; writes that filled a memory are two. No points of runs
    that naslab did not measure, nor of several clients: what each of them has for itself is not in the model."""
    views = [View(cell) for cell in document["cells"]] if views is None else views
    found = Evidence(**conditions(document))
    if is_foreign(document):
        return found
    telling = [view for view in views if is_telling(view, document)]
    points = [point for view in telling for point in _points(view)]
    for point in points:
        found.points.setdefault(_step(point, points), []).append(point)
    fastest = [_fastest(view) for view in telling if _has_fastest(view)]
    return dataclasses.replace(found, points={**found.points, **({FASTEST: fastest} if fastest else {})})


def conditions(document: Document) -> dict[str, Any]:
    """What is known of target and client, as a ladder keeps it."""
    environment = document.get("environment") or {}
    protocol, facts = str(document["target"]["protocol"]), environment.get("target") or {}
    client, route, link = environment.get("client") or {}, environment.get("route") or {}, known_link(document)
    return {
        "client_cpus": int(client.get("cpus_usable") or client.get("cpus") or 1), "protocol": protocol,
        "nic_bytes_per_s": int(link.bytes_per_s) if link else None, "simulated": protocol == "sim",
        "local_disk": is_local_disk(protocol, facts), "same_machine": route.get("interface") == "lo",
        "slots": slots_of(protocol, facts, None),
    }  # fmt: skip


def is_telling(view: View, document: Document) -> bool:
    """Whether the model can express a cell, and the server answered it."""
    cell = view.cell
    if not view.plain or cell.get("workload") in PREPARING or cell["status"] == "failed":
        return False
    if min(view.record, view.size, view.rate, int(cell["acknowledged_ns"] or 0)) <= 0:
        return False
    clients = cell.get("clients") or {}
    return clients.get("count", 1) == 1 and cell_regime(cell, document) in (None, "disk")


def _points(view: View) -> Iterator[Point]:
    """The points of one cell."""
    cell, rate = view.cell, view.rate
    durable = view.flushed_rate
    ended = durable is not None and not view.durable
    if view.direction == "write" and not (ended and durable and durable > (1 - HELD_BACK) * rate):
        yield _point(view, rate, int(cell["start_ns"]), int(cell["start_ns"]) + int(cell["acknowledged_ns"]))
    if view.direction == "read":
        yield _point(view, rate, int(cell["start_ns"]), int(cell["end_ns"]))
    elif ended and durable:
        yield _point(view, rate, int(cell["start_ns"]), int(cell["start_ns"]) + int(cell["acknowledged_ns"]), durable)


def _has_fastest(view: View) -> bool:
    """Whether the fastest operation is one like all others: a file beyond a cache has hits among its reads."""
    many = view.in_flight > 1 and view.least_ns > 0 and int(view.cell["ops"]) >= ENOUGH * view.in_flight
    return many and (view.direction == "write" or int(view.cell["file_bytes"]) <= CACHED_BYTES)


def _fastest(view: View) -> Point:
    """The fastest operation met no other in a queue: as good as one measured alone."""
    start = int(view.cell["start_ns"])
    found = _point(view, view.record * NS_PER_S / view.least_ns, start, start + int(view.least_ns))
    return dataclasses.replace(found, depth=1, workers=1, files=1)


def _point(view: View, rate: float, start_ns: int, end_ns: int, durable: float | None = None) -> Point:
    """durable: rate until all was, where the point is about that."""
    cell, latency = view.cell, view.cell["latency_ns"]
    more: dict[str, Any] = conditions_of(cell)
    many = view.in_flight > 1
    half = rate * min((1.0 / max(int(cell["ops"]), 1) if many else 0.0) + MIN_HALF, 1.0)
    figure = Figure(rate, max(rate - half, 0.0), rate + half)
    writes, workers = view.direction == "write", int(cell["workers"])
    durability = "end" if durable is not None else "each" if writes and view.durable else "none"
    return Point(
        cell=view.id, op="write" if writes else "read", random=view.scattered, record_bytes=view.record,
        depth=max(view.in_flight // workers, 1), workers=workers, files=workers, set_bytes=int(cell["file_bytes"]),
        bypass=bool(cell["direct"]), durability=durability, rate=figure,
        iops=figure.scaled(1 / view.record, "iops"), reads=0.0 if writes else rate, writes=rate if writes else 0.0,
        durable=durable, p50_ns=float(latency["p50"] or 0), mean_ns=float(latency["mean"] or 0),
        p99_ns=float(latency["p99"] or 0), cpu=float(cell["cpu_fraction"] or 0), crossed=None, stalls=None,
        start_ns=start_ns, end_ns=end_ns, **more,
    )  # fmt: skip


def _step(point: Point, points: Sequence[Point]) -> str:
    """The step of a ladder that a load would belong to. Loads that no step has keep to themselves."""
    if point.workers > 1:
        return "connections"
    small, record = point.set_bytes <= SMALL_BYTES, point.record_bytes
    if point.op == "write":
        return "set" if not small and point.durable and record == LARGE_RECORD and not point.random else "writes"
    if record == LARGE_RECORD and not point.random:
        return "depth" if small else "set" if point.depth == _usual_depth(points) else "beyond"
    if record == SMALL_RECORD:
        return ("small_depth" if point.random else "order") if small else "beyond" if point.random else "others"
    return "record" if record == MIDDLE_RECORD and small else "others"


def _usual_depth(points: Sequence[Point]) -> int:
    """The greatest queue depth of large reads: working sets are compared at one."""
    return max((p.depth for p in points if p.op == "read" and p.record_bytes == LARGE_RECORD), default=1)


def merged(evidence: Evidence, most: int = MAX_POINTS) -> Evidence:
    """The same with cells alike as one point, and of so many loads as lie farthest apart."""
    alike: dict[tuple[str, Load], list[Point]] = defaultdict(list)
    for step, points in evidence.points.items():
        for point in points:
            alike[step, _load(point)].append(point)
    noise = _noise(alike.values())
    kept = _spread_out(list(alike), most)
    found: dict[str, list[Point]] = {}
    for step, load in sorted(kept, key=lambda key: alike[key][0].start_ns):
        found.setdefault(step, []).append(_as_one(alike[step, load], noise))
    return dataclasses.replace(evidence, points=found)


def _load(p: Point) -> Load:
    return p.op, p.random, p.durability, p.record_bytes, p.set_bytes, p.depth, p.workers


def _noise(groups: Iterable[Sequence[Point]]) -> float:
    """Standard deviation of the logarithm of rates of one load: the usual one of those that were measured again."""
    found = [float(np.std(np.log([_rate(p) for p in group]), ddof=1)) for group in groups if len(group) > 1]
    return median(found) if found else 0.0


def _rate(p: Point) -> float:
    return p.durable if p.durable else p.rate.value


def _as_one(points: Sequence[Point], noise: float) -> Point:
    """The one with the median rate; its interval holds the spread of all."""
    middle = sorted(points, key=_rate)[(len(points) - 1) // 2]
    own = float(np.std(np.log([_rate(p) for p in points]), ddof=1)) if len(points) > 1 else noise
    value = middle.rate.value
    half = min(float(np.hypot((middle.rate.high - value) / value, 1.96 * max(own, noise))), 1.0) * value
    rate = Figure(value, max(value - half, 0.0), value + half)
    return dataclasses.replace(middle, rate=rate, iops=rate.scaled(1 / middle.record_bytes, "iops"))


def _spread_out(loads: Sequence[tuple[str, Load]], most: int) -> list[tuple[str, Load]]:
    """So many loads that lie farthest apart in record, working set, depth and connections; half of them reads."""
    kinds: dict[str, dict[tuple[bool, str, bool], list[tuple[str, Load]]]] = defaultdict(lambda: defaultdict(list))
    for step, load in loads:
        kinds[load[0]][load[1], load[2], step == FASTEST].append((step, load))
    shares = [(group, most // len(kinds) // len(by_kind)) for by_kind in kinds.values() for group in by_kind.values()]
    return [each for group, share in shares for each in _farthest(group, max(share, 2))]


def _farthest(group: Sequence[tuple[str, Load]], most: int) -> list[tuple[str, Load]]:
    """Begins with the smallest load; then always the one that is farthest from those taken."""
    places = np.log2([load[3:] for _, load in group])
    taken = [int(np.argmin(places.sum(axis=1)))]
    far = np.linalg.norm(places - places[taken[0]], axis=1)
    while len(taken) < min(most, len(group)):
        taken.append(int(np.argmax(far)))
        far = np.minimum(far, np.linalg.norm(places - places[taken[-1]], axis=1))
    return [group[at] for at in sorted(taken)]


def loads(evidence: Evidence) -> int:
    """How many different loads there are: until when writes count is no other load."""
    return len({(p.op, *_load(p)[3:]) for step, points in evidence.points.items() if step != FASTEST for p in points})
