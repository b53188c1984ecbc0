"""Servers that explain what was measured as a whole: starts for the sampler.

A start that draws each parameter by itself explains the reads by one part and contradicts it by another. Here each of
the four kinds of I/O gets one part that is as slow as the highest rate that was measured, and every other part is
faster than that: no cache and a disk, or a cache and a link, and so on, each as likely as the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from naslab.explain.hypotheses import AT, HIGH, LOW, NONE_BYTES, Array
from naslab.explain.rows import Rows
from naslab.explain.steps import LARGE_RECORD, SMALL_BYTES, SMALL_RECORD

NOISE = 0.03
"""Standard deviation of a part's rate about the one that was measured, in logarithms."""
ABOVE = (0.1, 3.5)
"""How far other parts lie above that, in logarithms."""
LARGE = ("link", "window", "memory", "disk")
SMALL = ("server_s", "disk", "client_s", "delay_s")
LANES, LANES_OFTEN = np.log((0.5, 2.0, 4.0, 8.0)), (0.7, 0.1, 0.1, 0.1)
"""Connections whose data are copied in parallel, in logarithms, and how often each is tried."""
NONE_SHARE = 0.4
"""Of servers whose reads the disks limit: those that have no cache."""
Draw = np.random.Generator


def coherent(theta: Array, r: Rows, rng: Draw) -> Array:
    """The same particles, made into such servers. theta: (particles, dims)."""
    made, count = theta.copy(), len(theta)
    large = {op: _best(r, op == "read", LARGE_RECORD) for op in ("read", "write")}
    small = {op: _best(r, op == "read", SMALL_RECORD) for op in ("read", "write")}
    by = {op: rng.integers(0, len(LARGE), count) for op in large}
    few = {op: rng.integers(0, len(SMALL), count) for op in small}
    top = max((rate for rate in large.values() if rate is not None), default=None)
    if top is not None:
        _large(made, {op: top if rate is None else rate for op, rate in large.items()}, by, top, rng, r.here)
    quick = max((rate for rate in small.values() if rate is not None), default=None)
    if quick is not None:
        _small(made, {op: quick if rate is None else rate for op, rate in small.items()}, few, quick, rng)
    disks = (by["read"] == LARGE.index("disk")) | (few["read"] == SMALL.index("disk"))
    _caches(made, r, disks, by["write"] == LARGE.index("disk"), rng)
    return np.clip(made, LOW + 1e-6, HIGH - 1e-6)


def _best(r: Rows, read: bool, record: int) -> float | None:
    """Log rate of the busiest loads of a kind: bytes a second of large ones, operations of small ones.

    Reads of small files, and writes that are durable at the end or each by itself.
    """
    kind = (r.read == read) & ~r.null & (r.record == record) & (r.pair < 0)
    mine = kind & ((r.size <= SMALL_BYTES) if read else (r.whole | r.durable))
    if not mine.any():
        return None
    return float(r.seen[mine].max() + (np.log(record) if record == LARGE_RECORD else 0.0))


def _about(rate: Array | float, count: int, rng: Draw) -> Array:
    return np.asarray(rate + NOISE * rng.standard_normal(count))


def _above(rate: Array | float, count: int, rng: Draw) -> Array:
    return np.asarray(rate + ABOVE[0] + (ABOVE[1] - ABOVE[0]) * rng.random(count))


def _large(
    made: Array, rates: dict[str, float], by: dict[str, NDArray[np.int64]], top: float, rng: Draw, here: bool
) -> None:
    """Bytes: one part of each direction is what was measured."""
    count = len(made)
    for name in ("link", "window", "memory", "disk_read", "disk_write"):
        made[:, AT[name]] = _above(top, count, rng)
    for name in ("uplink_ratio", "copy_ratio"):
        made[:, AT[name]] = 0.01 * rng.standard_normal(count)
    made[:, AT["copy_lanes"]] = rng.choice(LANES, count, p=LANES_OFTEN) + 0.01 * rng.standard_normal(count)
    for op, disk in (("read", "disk_read"), ("write", "disk_write")):
        for at, name in enumerate(LARGE):
            mine = by[op] == at
            places = AT[disk if name == "disk" else name]
            rate = _about(rates[op], int(mine.sum()), rng)
            if name == "link" and op == "write":
                made[mine, AT["uplink_ratio"]] = rate - made[mine, AT["link"]]
            else:
                made[mine, places] = np.minimum(made[mine, places], rate) if name != "disk" else rate
    both = here & (by["read"] == LARGE.index("memory")) & (by["write"] == LARGE.index("memory"))
    made[both, AT["memory"]] = _about(rates["read"], int(both.sum()), rng)
    made[both, AT["copy_ratio"]] += rates["write"] - rates["read"]


def _small(made: Array, rates: dict[str, float], by: dict[str, NDArray[np.int64]], quick: float, rng: Draw) -> None:
    """Operations: one part of each kind takes the time that was measured, the others less."""
    count = len(made)
    for name in ("server_s", "request_s", "seek_s", "commit_s"):
        made[:, AT[name]] = -_above(quick, count, rng)
    made[:, AT["fetch"]] = np.log(SMALL_RECORD)
    for op, disk in (("read", ("fetch", "request_s", "seek_s")), ("write", ("request_s", "seek_s", "commit_s"))):
        for at, name in enumerate(SMALL):
            mine = by[op] == at
            if name == "delay_s" or (name == "client_s" and op == "write"):
                continue  # that of the guess: counted, or the round trip
            part = rng.choice(disk) if name == "disk" else name
            place, time = AT[part], -_about(rates[op], int(mine.sum()), rng)
            if part == "fetch":
                time = time + made[mine, AT["disk_read"]]
            made[mine, place] = np.maximum(made[mine, place], time)


def _caches(made: Array, r: Rows, reads: NDArray[np.bool_], writes: NDArray[np.bool_], rng: Draw) -> None:
    """Where the disks limit reads of a small file there is no cache; else one that held the sets that were fast."""
    count = len(made)
    sets = np.unique(r.size[r.size > SMALL_BYTES])
    ends = np.append(np.log(sets) - 0.2, HIGH[AT["cache"]] - 1.0) if len(sets) else np.array([HIGH[AT["cache"]] - 1.0])
    made[:, AT["cache"]] = rng.choice(ends, count) + 0.2 * rng.standard_normal(count)
    made[reads, AT["cache"]] = np.log(NONE_BYTES)
    held = ~writes | (rng.random(count) > NONE_SHARE)
    made[~held, AT["write_back"]] = np.log(NONE_BYTES) - 0.5
