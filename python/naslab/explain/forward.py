"""The forward model: what a server with given parameters would have shown in each row of a ladder.

A row of n operations takes (n - 1) times its slowest station, and once the whole way; or n rounds of all that are
outstanding, whichever is longer (asymptotic bounds of a closed network, Denning and Buzen 1978; services are close to
deterministic, and short cells matter, so this fits better than mean value analysis). What was moved before is state:
a write-back still full of the cell before, what is left in the cache, credit that was spent.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naslab.explain.hypotheses import (
    AT,
    HIT_EDGE_BYTES,
    NAMES,
    STATIONS,
    Array,
    Values,
    bucket_scope,
    chill,
    copied,
    link_rate,
    switched_on,
)  # fmt: skip
from naslab.explain.rows import Flags, Rows

CACHE_EDGE = 60.0
"""Exponent of the edge between a set that fits and one that does not."""
PAGE_SLACK = 1.02
"""A set so little larger than the cache still fits: what is in flight."""
MIN_RATE = 1e-9
NEVER = 1e15
"""A rate or a ceiling that nothing sets."""
EACH_WAY = 6
LINKS = 3
"""Scopes below this count what the disks move."""
FULL = 8
"""Exponent by which a queue forms as a link comes to be full."""
DRAIN_BYTES = float(1 << 20)
"""A write-back joins neighbours into requests of so much."""


AT_LEAST_ONE = ("server_lanes", "copy_lanes", "cold")
"""Parameters whose values below 1 count as 1: so much of the prior has it exactly."""
FULLY_USED = 1 + 1e-9
"""Share of a station's time above which two divide it: one alone that takes all of it leaves rounding errors."""
PAIR = 2.0
"""Connections of a reader and a writer beside it."""
Places = NDArray[np.int64]


def values_of(theta: Array) -> dict[str, Array]:
    """Parameters by name, (particles, 1); stations that are switched off have no effect."""
    v = {name: np.exp(theta[:, [at]]) for at, name in enumerate(NAMES)}
    v["lock_s"] = np.where(switched_on(theta, "lock_on")[:, None], v["lock_s"], 0.0)
    v["slow_s"] = np.where(switched_on(theta, "slow_on")[:, None], v["slow_s"], 0.0)
    for name in AT_LEAST_ONE:
        v[name] = np.maximum(v[name], 1.0)
    v["joins"] = switched_on(theta, "joins_on")[:, None].astype(float)
    v["bucket"] = switched_on(theta, "bucket_on")[:, None].astype(float)
    v["kind"] = bucket_scope(theta[:, [AT["scope"]]])
    return v


@dataclass(frozen=True)
class Storage:
    """Seconds at memory and disks by (particles, rows). queued: a write that is answered from memory.

    drain: a write's time at the disks, whether or not it is waited for. missed: share of a row's bytes at the disks.
    once: share of a row's bytes that reach the disks where what is written again before it is there is written once.
    """

    memory: Array
    disk: Array
    drain: Array
    seeks: Array
    queued: Flags
    missed: Array
    once: Array


def storage(v: Values, r: Rows) -> Storage:
    """Where each row's data came from, and what that took."""
    exists = v["cache"] > HIT_EDGE_BYTES
    within = r.size * r.files
    over = np.log(within) - np.log(PAGE_SLACK * v["cache"])
    fits = 1 / (1 + np.exp(CACHE_EDGE * np.minimum(over, 2.0)))
    hit = np.where(exists, np.where(r.random, np.clip(v["cache"] / within, 0, 1), fits), 0.0)
    # A file of its own for each worker makes every stream seek; a writer beside a reader only if both use the disk.
    several = (r.files > 1) & (r.pair < 0)
    first = np.where(r.random | several, 1.0, np.minimum(r.record / r.size, 1.0))
    apart = np.where(r.pair >= 0, first + (1 - first) * (1 - np.where(exists, fits, 0.0)), first)
    seeks = v["seek_s"] * apart
    disk = np.maximum(at_disks(v, r), v["request_s"]) + seeks + np.where(r.durable, v["commit_s"], 0.0)
    queued = ~r.read & ~r.durable & ~r.null & (v["write_back"] > HIT_EDGE_BYTES)
    once = np.where(queued & (v["joins"] > 0), np.minimum(within / np.maximum(r.moved, 1.0), 1.0), 1.0)
    at_disk = np.where(r.null, 0.0, np.where(r.read, (1 - hit) * disk, np.where(queued, 0.0, disk)))
    memory = np.where(r.read, hit * chill(v, r), queued | r.null) * copied(v, r)
    return Storage(memory, at_disk, disk * once, seeks, queued, np.where(r.read, 1 - hit, once), once)


def at_disks(v: Values, r: Rows) -> Array:
    """Seconds that the disks move one operation's data for. Reads in no order fetch whole records of a file system."""
    fetched = np.where(r.random, np.maximum(v["fetch"], r.record), r.record)
    return np.where(r.read, fetched / v["disk_read"], r.record / v["disk_write"])


def predict(v: Values, r: Rows) -> Array:
    """Log operations per second of each row, (particles, rows)."""
    s = storage(v, r)
    seconds, slowest = demands(v, r, s)
    x = rates(v, r, seconds, slowest)
    x = _written_back(v, r, s, x)
    x = _beside(v, r, s, x)
    x = _bucket(v, r, s, x)
    return np.asarray(np.log(np.maximum(x, MIN_RATE)))


def demands(v: Values, r: Rows, s: Storage) -> tuple[list[Array], Array]:
    """(each station's time of one operation, time between operations at the slowest)."""
    seconds = [station.seconds(v, r) for station in STATIONS if station.kind != "machine"]
    busy = [each / station.lanes(v, r) for each, station in zip(seconds, STATIONS, strict=False)]
    seconds += [s.memory, s.disk]
    busy += [s.memory / np.minimum(v["copy_lanes"], r.workers), s.disk]
    stored = np.where(v["lock_s"] > 0, v["lock_share"] * (s.memory + s.disk), 0.0)
    busy.append((np.where(r.null, 0.0, v["lock_s"]) + stored) / r.files)
    if r.same_machine:
        busy += [station.seconds(v, r) / station.lanes(v, r) for station in STATIONS if station.kind == "machine"]
    return seconds, _longest(busy)


def _longest(times: Iterable[Array | float]) -> Array:
    """The largest of each particle and row."""
    return np.asarray(functools.reduce(np.maximum, times))


def rates(v: Values, r: Rows, seconds: list[Array], slowest: Array) -> Array:
    """Operations per second where nothing but the stations counts."""
    longest = _longest(seconds)
    delay = v["delay_s"] + v["slow_s"] + v["header"] / link_rate(v, r)
    whole = longest + (1 - v["overlap"]) * (sum(seconds) - longest) + delay
    whole = np.maximum(whole, slowest * np.minimum(1.0, r.workers))
    slots = np.maximum(v["slots"] / r.charge, 1.0)
    flying = np.minimum(np.minimum(r.depth, slots) * r.workers, r.count)
    pace = (r.count - 1) * slowest + whole + np.where(r.whole, delay, 0.0)
    rounds = r.count / flying * whole
    low, high = np.minimum(pace, rounds), np.maximum(pace, rounds)
    blunt = np.where(r.depth * r.workers > 1, 1, 0) / v["sharpness"]
    return np.asarray(r.count / (high * (1 + (low / high) ** v["sharpness"]) ** blunt))


def _written_back(v: Values, r: Rows, s: Storage, x: Array) -> Array:
    """Acknowledged writes fill the write-back first, and then go at the disks' pace."""
    drained = 1 / np.maximum(s.drain, 1e-12)
    room = _room(v, r, s) / s.once / r.record / np.maximum(r.seconds, 1e-3)
    return np.where(s.queued, np.minimum(x, np.where(r.whole, drained, drained + room)), x)


def _room(v: Values, r: Rows, s: Storage) -> Array:
    """Bytes that the write-back still takes when a row begins."""
    held = v["write_back"][:, 0]
    idle = np.minimum(v["disk_write"][:, 0], DRAIN_BYTES / v["request_s"][:, 0])
    fill, last, room = np.zeros(len(held)), 0.0, np.zeros(s.drain.shape)
    for at in r.order:
        if r.read[at]:  # it drains meanwhile
            continue
        fill = np.maximum(fill - idle * max(r.start[at] - last, 0.0), 0.0)
        room[:, at] = held - fill
        taken = 0.0 if r.durable[at] else r.moved[at] * s.once[:, at]
        drained = s.once[:, at] * r.record[at] / s.drain[:, at] * r.seconds[at]
        fill = np.clip(fill + taken - drained, 0.0, held)
        if r.whole[at]:
            fill = np.zeros_like(fill)
        last = r.start[at] + r.seconds[at]
    return room


def _beside(v: Values, r: Rows, s: Storage, x: Array) -> Array:
    """Readers beside writers share what has one queue for both: the server's processor, its memory, its disks."""
    pairs = np.flatnonzero((r.pair >= 0) & r.read)
    if not len(pairs):
        return x
    x = x.copy()
    others = r.pair[pairs]
    _queue(v, r, x, pairs, others)
    server = np.broadcast_to(v["server_s"] / np.minimum(v["server_lanes"], PAIR), (len(x), len(pairs)))
    _share(x, pairs, others, server, server, 1.0)
    copies = np.minimum(v["copy_lanes"], PAIR)
    _share(x, pairs, others, s.memory[:, pairs] / copies, s.memory[:, others] / copies, 1.0)
    queued = s.queued[:, others]
    room = np.where(queued, v["write_back"] / r.record[pairs] / r.seconds[pairs], 0.0)
    # What a write-back drains is one request at a time, beside all of the readers'.
    _share(x, pairs, others, s.disk[:, pairs], s.drain[:, others], np.where(queued, r.depth[pairs], 1.0), room)
    return x


def _queue(v: Values, r: Rows, x: Array, readers: Places, writers: Places) -> None:
    """Requests and answers of one direction wait in the link's queue behind data of the other, where those fill it."""
    link = np.broadcast_to(link_rate(v, r), x.shape)
    waits = {}
    for name, full in (("read", readers), ("write", writers)):
        busy = np.minimum(x[:, full] * (r.record[full] + v["header"]) / link[:, full], 1.0) ** FULL
        waits[name] = v["queue"] * busy * r.depth[full] * r.workers[full] * r.record[full] / link[:, full]
    for name, mine in (("write", readers), ("read", writers)):
        x[:, mine] = np.minimum(x[:, mine], r.depth[mine] * r.workers[mine] / np.maximum(waits[name], 1e-12))


def _share(
    x: Array, readers: Places, writers: Places, a: Array, b: Array, turns: Array | float, room: Array | float = 0.0
) -> None:
    """Divides one station among readers (a seconds each) and writers (b): turns of the former for one of the latter."""
    one, two = x[:, readers], x[:, writers]
    full = (one * a + two * b > FULLY_USED) & (a > 0) & (b > 0)
    if not full.any():
        return
    fair = 1 / np.maximum(turns * a + b, 1e-15)
    reads = np.where(two < fair, (1 - two * b) / np.maximum(a, 1e-15), turns * fair)
    writes = np.where(one < turns * fair, (1 - one * a) / np.maximum(b, 1e-15), fair) + room
    x[:, readers] = np.where(full, np.minimum(one, reads), one)
    x[:, writers] = np.where(full, np.minimum(two, writes), two)


def _bucket(v: Values, r: Rows, s: Storage, x: Array) -> Array:
    """Rates under a token bucket, for the particles that have one."""
    on = np.flatnonzero(v["bucket"][:, 0])
    if not len(on):
        return x
    x = x.copy()
    mine = {name: each[on] for name, each in v.items()}
    stored = Storage(*(np.broadcast_to(each, x.shape)[on] for each in vars(s).values()))
    allowed = _tokens(mine, r, stored, x[on] * r.record)
    x[on] = np.minimum(x[on], allowed / r.record)
    return x


def _tokens(v: Mapping[str, Array], r: Rows, s: Storage, free: Array) -> Array:
    """Bytes per second that a bucket allows each row, by what was moved before. free: what all else would allow."""
    base, kind = v["base"][:, 0], v["kind"][:, 0]
    burst, size = base * v["burst"][:, 0], base * (v["burst"][:, 0] - 1) * v["lasts_s"][:, 0]
    one, two, last = size.copy(), size.copy(), 0.0
    waiting = _Waiting(v)
    allowed = np.full(free.shape, NEVER)
    for at in r.order:
        if r.null[at]:
            continue
        mine = np.isin(kind % LINKS, (0, 1 if r.read[at] else 2))
        counts = np.where(kind < LINKS, s.missed[:, at], 1.0) * mine
        gap = max(r.start[at] - last, 0.0)
        rested = base * gap
        one = one - waiting.drain(np.minimum(burst * gap, rested + one), gap)
        one, two = np.minimum(one + rested, size), np.minimum(two + rested, size)
        other = (kind == EACH_WAY) & (not r.read[at])
        level = np.where(other, two, one)
        cap = np.minimum(burst, base + level / max(r.seconds[at], 1e-3))
        if r.late[at]:
            cap = np.where(level > r.moved[at], burst, base)
        # A disk's credit is on what it moves; seeks come on top.
        cap = np.where(kind < LINKS, r.record[at] / (r.record[at] / cap + s.seeks[:, at]), cap)
        earned = base * r.seconds[at] if r.pair[at] < 0 or r.read[at] else 0.0  # a pair earns once
        spent = counts * np.minimum(free[:, at], cap) * r.seconds[at]
        allowed[:, at] = np.where(counts > 0.5, cap, NEVER)
        if r.read[at]:
            spent = spent + waiting.drain(cap * r.seconds[at], r.seconds[at])
        else:
            queued = s.queued[:, at] & waiting.counts
            through, drained = waiting.write(r, s, at, cap, free[:, at])
            allowed[:, at], spent = np.where(queued, through, allowed[:, at]), np.where(queued, drained, spent)
        level = np.clip(level + earned - spent, 0.0, size)
        # The other direction has its own credit, and earns meanwhile.
        idle = np.minimum(np.where(other, one, two) + earned, size)
        one, two = np.where(other, idle, level), np.where(other, level, idle)
        last = r.start[at] + r.seconds[at]
    return allowed


class _Waiting:
    """Bytes that wait in the write-back for disks whose writes a bucket counts, by particle; 0 for other buckets.

    What is answered from memory spends credit when it reaches the disks, and credit that is spent slows only that.
    """

    def __init__(self, v: Mapping[str, Array]) -> None:
        kind = v["kind"][:, 0]
        self.counts = (kind < LINKS) & np.isin(kind, (0, 2))
        self.held = v["write_back"][:, 0]
        self.idle = np.minimum(v["disk_write"][:, 0], DRAIN_BYTES / v["request_s"][:, 0])
        self.fill = np.zeros(len(kind))

    def drain(self, most: Array, seconds: float) -> Array:
        """Bytes that reach the disks while nothing is written. most: that credit allows."""
        out = np.minimum(self.fill, np.minimum(most, self.idle * seconds))
        self.fill = self.fill - out
        return np.asarray(out)

    def write(self, r: Rows, s: Storage, at: int, cap: Array, free: Array) -> tuple[Array, Array]:
        """(bytes a second that a row of writes is answered at, bytes that reach the disks). cap: that credit allows."""
        seconds, once = max(r.seconds[at], 1e-3), s.once[:, at]
        pace = np.minimum(cap, r.record[at] * once / np.maximum(s.drain[:, at], 1e-12))
        room = 0.0 if r.whole[at] else np.maximum(self.held - self.fill, 0.0)
        through = (pace + room / seconds) / once
        queued = s.queued[:, at] & self.counts
        waiting = self.fill + queued * np.minimum(free, through) * r.seconds[at] * once
        drained = waiting if r.whole[at] else np.minimum(waiting, pace * r.seconds[at])
        self.fill = np.where(self.counts, np.minimum(waiting - drained, self.held), 0.0)
        return through, drained
