"""What limits each class of a simulated server: the station with the largest demand, the next one, and how clear it is.

Conventions, so that a class has one truth:

- Large reads are judged for data beyond the server's cache where there is a disk, a set of 4 GiB is larger than the
  cache and the budget suffices to get beyond (`REACH_S`); where nothing gets beyond it (`HOLDS_ALL`), for data in the
  cache. Small reads the same.
- Writes are sustained: what a write-back takes in a burst is no limit. Credit and fast cells are spent.
- Disks are `disk` for large and `disk_iops` for small operations; either name counts for both.
- Reads through a client's cache are limited by `client_cache`, whatever lies behind; where the client also holds
  writes, writes are not judged.
- A server that stops now and then is `unknown` in every class, whatever limits it while it moves, and so is a lock per
  file and a share of slow operations where its ceiling is the lowest. A ceiling of 0 marks a limit by convention.
- Credit is judged on large I/O alone: whether small operations meet it depends on what went before them. Where no load
  of the run spent it, the class is judged by what limited these loads, too (`as_spent`): from outside there is no more
  to be seen, and the verdict says how long its loads lasted. Both counts are printed.

A class is not judged where arithmetic does not tell: what it calls a variant (credit that outlasts the budget, a cache
that no set outgrows, read-ahead that is fetched twice, seeks of requests that overtake each other, a disk that heats
up, fast cells) would name another limit. Such classes are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from truth.sim_ceilings import (
    HOLDS_ALL,
    LARGE_BYTES,
    MULTIPLY,
    NS,
    READ_LARGE,
    WRITE_LARGE,
    Class,
    Options,
    Table,
    applying,
    bucket_bytes,
    ceilings,
    disk_ns,
    has_disk,
    same,
    size_of,
    without_disks,
)  # fmt: skip

CLOSE, APART, FAR_APART = 1.1, 1.3, 3.0
"""Two limits are a pair below this headroom; one is clear from APART on, from FAR_APART on where connections multiply
it. Between them is between."""
FAR = 1e6
"""A headroom that is larger counts as this one."""
REACH_S = 150.0
"""Simulated seconds that may go into a set of twice the server's cache, written and read once (half of the budget)."""
CREDIT_S = 30.0
"""Simulated seconds of load that may go into spending credit: what lasts longer is `naslab sustained`'s to find."""
SET_BYTES = int(0.95 * (4 << 30))
"""A verdict is about working sets of 4 GiB: a cache that holds nearly all of one is not outgrown."""
SPENT = 1.2
"""A load below so many times the rate without credit has spent it."""
OVERTAKE = 0.05
"""Requests overtake each other where the round trip varies by more than this share of the time between them."""


@dataclass(frozen=True)
class Truth:
    """ranked: (kind, ceiling in operations per second), the lowest first. why: not judged because; else empty.

    steady: whether the first ceiling is one figure, to which a value can be held. tightest, widest: the smallest and
    the largest headroom over all variants.
    """

    ranked: tuple[tuple[str, float], ...]
    why: str = ""
    steady: bool = True
    tightest: float = float("inf")
    widest: float = 0.0

    @property
    def judged(self) -> bool:
        """Whether the class counts."""
        return not self.why

    @property
    def kind(self) -> str:
        """The limit."""
        return self.ranked[0][0]

    @property
    def headroom(self) -> float:
        """How far the next ceiling lies above the first, as a factor."""
        return min(_headroom(self.ranked), self.tightest)

    @property
    def level(self) -> str:
        """`clear`, `between` or `pair`."""
        if self.headroom < CLOSE:
            return "pair" if max(_headroom(self.ranked), self.widest) < CLOSE else "between"
        return "clear" if self.headroom >= (FAR_APART if self.kind in MULTIPLY else APART) else "between"

    def accepts(self, kind: str) -> bool:
        """Whether naming this kind first is right: of a pair either."""
        close = sum(rate < CLOSE * self.ranked[0][1] for _, rate in self.ranked)
        count = max(close, 2) if self.level == "pair" else 1
        return any(same(kind, true) for true, _ in self.ranked[:count])

    def document(self) -> dict[str, Any]:
        """As it is kept."""
        return {"ranked": [list(pair) for pair in self.ranked], "judged": self.judged, "why": self.why,
                "level": self.level, "steady": self.steady, "widest": self.widest,
                "headroom": None if self.headroom == float("inf") else self.headroom}  # fmt: skip

    @classmethod
    def from_document(cls, kept: Mapping[str, Any]) -> Truth:
        """As `document` gives it."""
        ranked = tuple((kind, rate) for kind, rate in kept["ranked"])
        return cls(ranked, kept["why"], kept["steady"], kept["headroom"] or float("inf"), kept.get("widest", 0.0))


def truth(options: Options, where: Class) -> Truth:
    """What limits a class of a server. options: fields of docs/reference/sim.md."""
    table = ceilings(options, where)
    ranked = _ranked(table)
    said = _by_convention(options, where, ranked)
    if said:
        return said
    steady, tightest, widest = True, float("inf"), 0.0
    for name, other in _variants(options, where, table):
        first, rate = _ranked(other)[0]
        if not same(first, ranked[0][0]) or _slows(name, first):
            return Truth(ranked, name)
        steady &= abs(rate / ranked[0][1] - 1) < 0.005
        tightest = min(tightest, _headroom(_ranked(other)))
        widest = max(widest, min(_headroom(_ranked(other)), FAR))
    return Truth(ranked, steady=steady, tightest=tightest, widest=widest)


def as_spent(found: Truth, where: Class, options: Options, document: Mapping[str, Any] | None) -> Truth:
    """The truth of what a run measured: credit that none of its large loads spent limits by its rate with credit.

    Such a verdict says how long a load went on without a fall, and no more.
    """
    ladder = (document or {}).get("ladder") or {}
    if found.kind != "burst_credit" or where[1] != "large" or (ladder.get("conditions") or {}).get("burst"):
        return found
    base = found.ranked[0][1] * LARGE_BYTES
    loads = [
        point for step in ladder.get("steps", ()) for point in step["points"]
        if point["op"] == where[0] and point["record_bytes"] == LARGE_BYTES and point["depth"] > 1
    ]  # fmt: skip
    if not loads or any(point["rate"]["value"] < SPENT * base for point in loads):
        return found
    fast = [
        (bucket["scope"], bucket["burst_bytes_per_s"] / bucket_bytes(options, bucket, where[0], LARGE_BYTES))
        for bucket in applying(options, where[0])
    ]
    return Truth(tuple(sorted((*found.ranked[1:], *fast), key=lambda pair: pair[1])), found.why, found.steady)


def _by_convention(options: Options, where: Class, ranked: tuple[tuple[str, float], ...]) -> Truth | None:
    """What the module's conventions settle without arithmetic; None for the rest."""
    op, _ = where
    if op == "read" and options.get("client_cache_bytes"):
        return Truth((("client_cache", 0.0), *ranked))
    if options.get("stall_ns"):
        return Truth((("unknown", 0.0), *ranked))
    if not ranked:
        return Truth((("unknown", 0.0),), "nothing limits it")
    if op == "write" and options.get("client_write_back_bytes"):
        return Truth(ranked, "the client holds writes")
    if ranked[0][0] == "burst_credit" and where not in (READ_LARGE, WRITE_LARGE):
        return Truth(ranked, "credit is judged on large I/O")
    return None


def _headroom(ranked: tuple[tuple[str, float], ...]) -> float:
    return ranked[1][1] / ranked[0][1] if len(ranked) > 1 and ranked[0][1] else float("inf")


def _ranked(table: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(table.items(), key=lambda pair: pair[1]))


HEAT, CELLS = "a disk that slows down and recovers is a limit by two names", "fast cells"


def _slows(name: str, first: str) -> bool:
    """Whether a variant leaves open what the limit is called: a disk that recovers acts like one with credit."""
    return name in (HEAT, CELLS) and first in ("disk", "disk_iops")


def _variants(options: Options, where: Class, table: Table) -> Iterator[tuple[str, Table]]:
    """The same class where what arithmetic cannot settle lies at its other end: (what it is, ceilings)."""
    op, size = where[0], size_of(where)
    kind = "disk" if size == LARGE_BYTES else "disk_iops"
    rate = min(table.values())
    if op == "read" and not _outgrown(options):
        yield "a cache that no set outgrows", _in_memory(options, size, table)
    if _lasting(options, op, size, table):
        yield "credit that lasts", {k: v for k, v in table.items() if k != "burst_credit"}
    if kind not in table:
        return
    ahead = options.get("server_read_ahead_bytes", 0) if where == READ_LARGE else 0
    mixed = options.get("disk_seek_ns", 0) and size == LARGE_BYTES and _overtake(options, rate)
    if ahead:
        yield "read-ahead", {**table, kind: NS / disk_ns(options, op, size, ahead, seeks=True)}
    if mixed:
        yield "requests that overtake each other", {**table, kind: NS / disk_ns(options, op, size, seeks=True)}
    if options.get("heat_busy_ns"):
        yield HEAT, {**table, kind: table[kind] * options.get("heat_floor", 0.5)}
    if op == "write" and options.get("slc_bytes"):
        yield CELLS, {**table, kind: min(table[kind], options["slc_full_bytes_per_s"] / size)}


def _in_memory(options: Options, size: int, table: Table) -> Table:
    memory = options.get("server_cache_bytes_per_s", 0) / size
    found = without_disks(options, table)
    return {**found, "server_cache": memory} if memory else found


def _outgrown(options: Options) -> bool:
    """Whether the budget suffices to get beyond the server's cache, where there is a disk behind it."""
    cached = options.get("server_cache_bytes", 0)
    if not cached or cached >= HOLDS_ALL or not has_disk(options):
        return True
    if cached > SET_BYTES:
        return False
    slowest = [min(ceilings(options, where).values()) * LARGE_BYTES for where in (WRITE_LARGE, READ_LARGE)]
    return sum(2 * cached / rate for rate in slowest) <= REACH_S


def _lasting(options: Options, op: str, size: int, table: Table) -> bool:
    """Whether a bucket that would limit in the end is not spent within the budget."""
    others = min((rate for kind, rate in table.items() if kind != "burst_credit"), default=float("inf"))
    for bucket in applying(options, op):
        each = bucket_bytes(options, bucket, op, size)
        spent = min(others * each, bucket["burst_bytes_per_s"]) - bucket["base_bytes_per_s"]
        if spent > 0 and bucket["size_bytes"] > CREDIT_S * spent:
            return True
    return False


def _overtake(options: Options, rate: float) -> bool:
    """Whether requests of one order reach the disk in another: they are `1/rate` apart."""
    varies_ns = options.get("latency_ns", 0) * options.get("jitter", 0.0)
    slow = any(f["kind"] == "stall" for f in options.get("faults", ()))
    return slow or varies_ns > OVERTAKE * NS / rate
