"""Simulated file servers drawn from a seed, over every field of the simulator, with what limits each by arithmetic.

Parameters lie where those of real servers lie, log-uniform between bounds: a NAS on Ethernet over hard disks, a RAID,
solid-state disks or PCIe ones, a cloud share, a server far away. Every optional part is there or not by chance.

Four groups (`draw`): `free` systems as they fall; `wanted` ones, drawn until a kind of limit is clear in a class, each
kind in turn; `pair`, whose two lowest ceilings lie within 10 % of each other; `unlisted`, whose limit is on no list.

Combinations left out, because no machine has them or because they have no one truth (`RULES`):

- No link, disk, memory or processor that takes time: nothing would limit.
- A server without disks whose cache is smaller than what is read: misses would be served from nowhere.
- A cache that is slower than the disks whose data it holds, or as fast: nobody would keep it, and data would leave it
  to become faster. (Where everything lies in memory, its rate is free: it is the server's copying.)
- Read-ahead without a disk to read ahead from.
- Two reasons for `unknown` in one system, or one beside credit, a client's cache or few slots: their ceilings add up.
- A share of slow operations behind few slots.
- Credit beside a disk that heats up or has fast cells: each is a reason for the same fall.
- Less than 5 or more than 4 million operations per second in a class: no file server, and a simulation without end.
- A client's cache in front of nothing that is slower than it.

Fields left as they are (`LEFT_OUT`): each with its reason.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from truth.sim_ceilings import (
    CLASSES,
    HOLDS_ALL,
    MULTIPLY,
    READ_LARGE,
    READ_SMALL,
    WRITE_LARGE,
    WRITE_SMALL,
    Class,
    Options,
    ceilings,
    has_disk,
    relieved,
    size_of,
)  # fmt: skip
from truth.sim_truths import CLOSE, Truth, truth

MB, GIB, MIB = 1_000_000, 1 << 30, 1 << 20
US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
TRIES = 20_000
PAIRS, UNLISTED, FREE = 0.12, 0.06, 0.5
"""Shares of all systems; FREE of the others."""
LEFT_OUT: Mapping[str, str] = {
    "store_data": "keeps contents in this machine's memory; times are the same",
    "read_only": "`naslab run` refuses a target that it cannot write to",
    "errno": "a server that fails is told by the run's status, not by a verdict",
    "at_op": "an error at one operation, likewise",
    "capacity_bytes": "always 4 TB: what does not fit is refused before a measurement",
}
System_ = dict[str, Any]


@dataclass(frozen=True)
class System:
    """One drawn server. truths: of every class. wanted: the kind that it was drawn for, or none."""

    name: str
    group: str
    options: Options
    wanted: str = ""
    truths: Mapping[Class, Truth] = field(default_factory=dict)

    def judged(self) -> dict[Class, Truth]:
        """The classes that count."""
        return {where: found for where, found in self.truths.items() if found.judged}


def draw(seed: int, count: int) -> list[System]:
    """So many systems; the same for the same seed and count. The groups are mixed, so that a part holds all."""
    pairs, unlisted = round(PAIRS * count), round(UNLISTED * count)
    free = round(FREE * (count - pairs - unlisted))
    wanted = count - pairs - unlisted - free
    plan: list[tuple[str, Callable[[random.Random, int], tuple[System_, str] | None]]] = [
        *[("free", _free)] * free, *[("wanted", _wanted)] * wanted, *[("pair", _pair)] * pairs,
        *[("unlisted", _unlisted)] * unlisted,
    ]  # fmt: skip
    found: list[System] = []
    nth = dict.fromkeys(("free", "wanted", "pair", "unlisted"), 0)
    for group, make in plan:
        rng = random.Random(f"{seed} {group} {nth[group]}")
        found.append(_drawn(make, rng, nth[group], group))
        nth[group] += 1
    random.Random(f"{seed} order").shuffle(found)
    return [System(f"{at:03d}-{s.group}", s.group, s.options, s.wanted, s.truths) for at, s in enumerate(found)]


def _drawn(
    make: Callable[[random.Random, int], tuple[System_, str] | None], rng: random.Random, at: int, group: str
) -> System:
    for _ in range(TRIES):
        made = make(rng, at)
        if made is not None:
            options, wanted = made
            options = {**options, "seed": rng.randrange(1, 1 << 31)}
            return System("", group, options, wanted, truths_of(options))
    raise AssertionError(f"{make.__name__} {at}: none of {TRIES} draws")


def truths_of(options: Options) -> dict[Class, Truth]:
    """What limits every class."""
    return {where: truth(options, where) for where in CLASSES}


# Groups.


def _free(rng: random.Random, at: int) -> tuple[System_, str] | None:
    options = _server(rng)
    if broken(options):
        return None
    return (options, "") if any(found.judged for found in truths_of(options).values()) else None


def _wanted(rng: random.Random, at: int) -> tuple[System_, str] | None:
    kind = list(OVERLAYS)[at % len(OVERLAYS)]
    return of_kind(rng, kind, _server(rng))


def of_kind(rng: random.Random, kind: str, options: System_) -> tuple[System_, str] | None:
    """The server with a part that makes this kind its limit, where it is the clear one of a class; else None."""
    options = {**options, **OVERLAYS[kind](rng, options)}
    if broken(options):
        return None
    clear = [t for t in truths_of(options).values() if t.judged and t.level == "clear" and t.kind == kind]
    return (options, kind) if clear else None


def _pair(rng: random.Random, at: int) -> tuple[System_, str] | None:
    """Two ceilings within 10 %: one station is made about as fast as the limit of a class."""
    options = _server(rng)
    where = CLASSES[at % len(CLASSES)]
    if broken(options):
        return None
    table = ceilings(options, where)
    first = min(table, key=table.__getitem__)
    others = [kind for kind in table if kind != first and kind not in ("unknown", "latency", "burst_credit")]
    if not others or first in ("unknown", "latency", "burst_credit"):
        return None
    second = rng.choice(others)
    near = rng.uniform(1.02, 1.09) * table[first] / table[second]
    if {first, second} == {"link", "client_nic"}:
        options["link_noise"] = 0.0
    options = relieved(options, second, near)
    found = truth(options, where)
    if broken(options) or not found.judged or found.level != "pair":
        return None
    third = found.ranked[2][1] / found.ranked[0][1] if len(found.ranked) > 2 else float("inf")
    return (options, "") if third >= 1.3 and found.headroom < CLOSE else None


def _unlisted(rng: random.Random, at: int) -> tuple[System_, str] | None:
    options = {**_server(rng), "server_op_ns": rng.randint(1_500, 8_000)}
    options |= (_lock, _stops, _slow_share)[at % 3](rng, options)
    if broken(options):
        return None
    found = truth(options, READ_SMALL)
    return (options, "unknown") if found.judged and found.kind == "unknown" and found.level == "clear" else None


# Parts.


def log(rng: random.Random, low: float, high: float) -> float:
    """Log-uniform between two bounds."""
    return float(low * (high / low) ** rng.random())


def ethernet(rng: random.Random, *gbits: float) -> int:
    """Bytes per second of a link, less what frames cost."""
    return round(rng.choice(gbits or (1, 2.5, 5, 10, 25)) * 125 * MB * rng.uniform(0.92, 0.97))


def disks(rng: random.Random, *kinds: str) -> System_:
    """A hard disk, a RAID of them, solid-state disks on SATA or PCIe, a slow one, a cloud volume."""
    kind = rng.choice(kinds or ("hdd", "raid", "ssd", "nvme", "slow", "cloud"))
    low, high, seek, iops = {
        "hdd": (110, 260, (4 * MS, 10 * MS), None),
        "raid": (350, 1400, (1 * MS, 3 * MS), None),
        "ssd": (300, 560, (0, 0), (30_000, 98_000)),
        "nvme": (1500, 6500, (0, 0), (150_000, 900_000)),
        "slow": (20, 150, (500 * US, 9 * MS), None),
        "cloud": (60, 1000, (0, 0), (500, 16_000)),
    }[kind]
    read = log(rng, low, high) * MB
    found: System_ = {"disk_read_bytes_per_s": round(read), "disk_write_bytes_per_s": round(read * log(rng, 0.5, 1.2))}
    if iops:
        found["disk_iops"] = round(log(rng, *iops))
    elif seek[1] and (kind != "slow" or rng.random() < 0.6):
        found["disk_seek_ns"] = rng.randint(*seek)
    return found


def _server(rng: random.Random) -> System_:
    """Everything by chance, but for what has no listed limit."""
    options = {"capacity_bytes": 4_000 * 10**9, **_client(rng), **_network(rng)}
    if rng.random() < 0.88:
        options |= disks(rng)
    options |= _memory(rng, options)
    options |= _wander(rng, options)
    if has_disk(options):
        options |= _changing(rng)
    if rng.random() < 0.08:
        options["buckets"] = [_bucket(rng, rng.choice(("disk", "link")), rng.choice(("both", "read", "write")))]
    if rng.random() < 0.04:
        options |= _client_cache(rng, options)
    return options


def _client(rng: random.Random) -> System_:
    found: System_ = {"op_overhead_ns": round(log(rng, 600, 80_000 if rng.random() < 0.2 else 6_000))}
    if rng.random() < 0.25:
        found["max_depth"] = rng.choice((1, 2, 4, 8, 16, 32, 64))
    elif rng.random() < 0.5:
        found["max_depth"] = rng.choice((256, 512, 1024))
    return found


def _network(rng: random.Random) -> System_:
    found: System_ = {"latency_ns": round(log(rng, 50 * US, 60 * MS if rng.random() < 0.15 else MS))}
    if rng.random() < 0.75:
        found["jitter"] = round(rng.choice((rng.uniform(0, 0.2), rng.uniform(0, 0.6))), 3)
    if rng.random() < 0.9:
        cloud = rng.random() < 0.25
        found["link_bytes_per_s"] = round(log(rng, 10, 3000) * MB) if cloud else ethernet(rng)
    if rng.random() < 0.25:
        found["client_nic_bytes_per_s"] = round(rng.choice((1, 2.5, 5, 10, 25)) * 125 * MB)
    if rng.random() < 0.12:
        found["connection_bytes_per_s"] = round(log(rng, 30, 2000) * MB)
    if rng.random() < 0.8:
        found["header_bytes"] = rng.randint(60, 300)
    if rng.random() < 0.85:
        found["server_op_ns"] = round(log(rng, 1_500, 300_000 if rng.random() < 0.3 else 20_000))
    if rng.random() < 0.3:
        found |= {"open_ns": round(log(rng, 5 * US, 2 * MS)), "metadata_ns": round(log(rng, 5 * US, 500 * US))}
    return found


def _memory(rng: random.Random, options: Options) -> System_:
    """No cache, one that sets outgrow, or one that holds all; with write-back, without, or with one that lies."""
    read = options.get("disk_read_bytes_per_s", 0)
    pages = rng.choice((4096, 4096, 4096, 4096, 16_384, 65_536))
    size = rng.choice((0, 1, 1, 1, 2)) if read else rng.choice((0, 2))
    cached = min(read * rng.uniform(0.5, 8.0), 4 * GIB) if rng.random() < 0.6 else log(rng, 64, 4096) * MIB
    held = (0, max(round(cached), 64 * MIB), 256 * GIB)[size] // 65_536 * 65_536
    found: System_ = {"server_cache_bytes": held}
    if pages != 4096:
        found["page_bytes"] = pages
    if rng.random() < 0.85:
        rates = (log(rng, 150, 12_000), log(rng, 4_000, 16_000))
        found["server_cache_bytes_per_s"] = round(rng.choice(rates) * MB)
    if read and rng.random() < 0.6:
        found["write_back_bytes"] = round(log(rng, 4, 1024)) * MIB
        found["flush_ignored"] = rng.random() < 0.05
    if held and read and rng.random() < 0.3:
        found["server_read_ahead_bytes"] = min(rng.choice((128, 512, 1024)) * 1024, held // 2)
    elif held and read:
        found |= _early(held, read)
    if rng.random() < 0.1:
        found["files"] = [{"path": "old/data.bin", "len_bytes": round(log(rng, 1, 4096)) * MIB}]
    return found


def _early(held: int, read: int) -> System_:
    """Half of the others read ahead early. Their numbers are no part of the draw, which is that of before."""
    rng = random.Random(f"{held} {read}")
    if rng.random() < 0.5:
        return {}
    ahead = min(rng.choice((128, 512, 2048, 8192)) * 1024, held // 2)
    return {"server_read_ahead_bytes": ahead, "server_reads_ahead_early": True}


def _wander(rng: random.Random, options: Options) -> System_:
    """Rates that wander: little, much, or not at all."""
    if rng.random() < 0.3:
        return {}
    most = rng.choice((0.03, 0.12))
    found: System_ = {"noise_memory": round(rng.uniform(0.0, 0.9), 2)}
    if rng.random() < 0.3:
        found["noise_span_ns"] = round(log(rng, 10 * MS, 500 * MS))
    if options.get("disk_read_bytes_per_s"):
        found["disk_noise"] = round(rng.uniform(0.0, most), 4)
    if options.get("link_bytes_per_s") or options.get("client_nic_bytes_per_s"):
        found["link_noise"] = round(rng.uniform(0.0, most), 4)
    return found


def _changing(rng: random.Random) -> System_:
    """Now and then a disk with fast cells, or one that heats up."""
    chance = rng.random()
    if chance < 0.03:
        return {"slc_bytes": round(log(rng, 0.5, 20) * GIB), "slc_full_bytes_per_s": round(log(rng, 60, 400) * MB),
                "slc_fold_bytes_per_s": rng.choice((0, round(log(rng, 50, 200) * MB)))}  # fmt: skip
    if chance < 0.06:
        return {"heat_busy_ns": round(log(rng, 5, 60) * SECOND), "heat_idle_ns": round(log(rng, 5, 60) * SECOND),
                "heat_floor": round(rng.uniform(0.3, 0.9), 2), "heat_step": rng.choice((0.0, 0.5, 0.8))}  # fmt: skip
    return {}


def _bucket(rng: random.Random, scope: str, applies: str) -> System_:
    burst = round(log(rng, 100, 700) * MB)
    base = round(burst / rng.uniform(2.0, 8.0))
    seconds = rng.uniform(4.0, 30.0) if rng.random() < 0.85 else log(rng, 100, 2000)
    fill = 1.0 if rng.random() < 0.7 else round(rng.uniform(0.2, 1.0), 2)
    return {"scope": scope, "applies_to": applies, "burst_bytes_per_s": burst, "base_bytes_per_s": base,
            "size_bytes": round((burst - base) * seconds), "initial_fill": fill}  # fmt: skip


def _client_cache(rng: random.Random, options: Options) -> System_:
    held = rng.choice((4, 8, 16)) * GIB
    found: System_ = {"client_cache_bytes": held, "client_cache_bytes_per_s": round(log(rng, 2_000, 9_000) * MB)}
    if rng.random() < 0.5:
        found["client_write_back_bytes"] = held // 8
    return found


# Limits that are wanted.


def _slow_link(rng: random.Random, options: Options) -> System_:
    return {**disks(rng, "raid", "ssd", "nvme"), "link_bytes_per_s": ethernet(rng, 1, 1, 2.5, 5, 10)}


def _slow_nic(rng: random.Random, options: Options) -> System_:
    nic = rng.choice((1, 2.5, 5, 10)) * 125 * MB
    return {**disks(rng, "raid", "ssd", "nvme"), "client_nic_bytes_per_s": round(nic),
            "link_bytes_per_s": round(nic * rng.uniform(1.4, 10.0))}  # fmt: skip


def _far_away(rng: random.Random, options: Options) -> System_:
    return {"latency_ns": round(log(rng, 10 * MS, 150 * MS)), "jitter": round(rng.uniform(0.0, 0.2), 3),
            "server_op_ns": rng.randint(1_500, 8_000), "max_depth": rng.choice((256, 512, 1024)),
            **disks(rng, "ssd", "nvme")}  # fmt: skip


def _slow_memory(rng: random.Random, options: Options) -> System_:
    return {"server_cache_bytes": 256 * GIB, "server_cache_bytes_per_s": round(log(rng, 150, 2200) * MB),
            "link_bytes_per_s": ethernet(rng, 5, 10, 25, 40)}  # fmt: skip


def _slow_disk(rng: random.Random, options: Options) -> System_:
    return {**disks(rng, "hdd", "raid", "ssd", "slow", "cloud"), "link_bytes_per_s": ethernet(rng, 1, 2.5, 5, 10, 25)}


def _few_requests(rng: random.Random, options: Options) -> System_:
    return {**disks(rng, "hdd", "raid", "slow", "cloud"), "server_op_ns": rng.randint(1_500, 15_000)}


def _credit(rng: random.Random, options: Options) -> System_:
    bucket = _bucket(rng, rng.choice(("disk", "link")), rng.choice(("both", "both", "read", "write")))
    return {**disks(rng, "nvme"), "link_bytes_per_s": ethernet(rng, 10, 25), "buckets": [bucket],
            "server_cache_bytes": rng.choice((0, round(log(rng, 64, 512)) * MIB))}  # fmt: skip


def _busy_client(rng: random.Random, options: Options) -> System_:
    return {"op_overhead_ns": round(log(rng, 30_000, 150_000)), "server_op_ns": rng.randint(1_500, 5_000),
            **disks(rng, "nvme")}  # fmt: skip


def _busy_server(rng: random.Random, options: Options) -> System_:
    return {"server_op_ns": round(log(rng, 30_000, 400_000)), **disks(rng, "ssd", "nvme")}


def _few_slots(rng: random.Random, options: Options) -> System_:
    found: System_ = {**disks(rng, "ssd", "nvme"), "link_bytes_per_s": ethernet(rng, 10, 25)}
    found["server_op_ns"] = rng.randint(1_500, 6_000)
    if rng.random() < 0.5:
        return {**found, "connection_bytes_per_s": round(found["link_bytes_per_s"] / rng.uniform(3.1, 10.0))}
    return {**found, "max_depth": rng.choice((1, 2, 4, 8, 16)), "latency_ns": round(log(rng, 300 * US, 4 * MS))}


OVERLAYS: Mapping[str, Callable[[random.Random, Options], System_]] = {
    "link": _slow_link, "client_nic": _slow_nic, "latency": _far_away, "server_cache": _slow_memory,
    "disk": _slow_disk, "disk_iops": _few_requests, "burst_credit": _credit, "client_cpu": _busy_client,
    "server_cpu": _busy_server, "client_cache": _client_cache, "protocol": _few_slots,
}  # fmt: skip
"""Parts that make a kind of limit likely."""


# On no list.


def _fast_server(rng: random.Random, options: Options) -> System_:
    return {**disks(rng, "nvme"), "link_bytes_per_s": ethernet(rng, 10, 25), "max_depth": 1024}


def _lock(rng: random.Random, options: Options) -> System_:
    return {**_fast_server(rng, options), "file_lock_ns": round(log(rng, 150 * US, 1200 * US))}


def _stops(rng: random.Random, options: Options) -> System_:
    every = round(log(rng, 1.5, 4.0) * SECOND)
    return {"stall_every_ns": every, "stall_ns": round(every * rng.uniform(0.2, 0.35))}


def _slow_share(rng: random.Random, options: Options) -> System_:
    share, held = rng.uniform(0.03, 0.08), round(log(rng, 0.3, 1.0) * SECOND)
    faults = [{"op": op, "kind": "stall", "probability": round(share, 4), "duration_ns": held}
              for op in ("read", "write")]  # fmt: skip
    return {**_fast_server(rng, options), "faults": faults}


# Rules.


def broken(options: Options) -> str:
    """The rule that leaves these options out; empty where none does."""
    return next((name for name, breaks in RULES if breaks(options)), "")


def _nothing_limits(o: Options) -> bool:
    return any(not table_without_client(o, where) for where in CLASSES)


def table_without_client(options: Options, where: Class) -> dict[str, float]:
    """The ceilings that are not the client's and not a matter of waiting."""
    return {k: v for k, v in ceilings(options, where).items() if k not in ("client_cpu", "latency", "protocol")}


def _nowhere(o: Options) -> bool:
    return not has_disk(o) and 0 < o.get("server_cache_bytes", 0) < HOLDS_ALL


def _slow_cache(o: Options) -> bool:
    rate, cached = o.get("server_cache_bytes_per_s", 0), o.get("server_cache_bytes", 0)
    return bool(rate and 0 < cached < HOLDS_ALL and rate <= 1.1 * o.get("disk_read_bytes_per_s", 0))


def _reasons(o: Options) -> int:
    return sum(bool(o.get(name)) for name in ("file_lock_ns", "stall_ns", "faults"))


def _mixed_unknown(o: Options) -> bool:
    return _reasons(o) > 1 or bool(_reasons(o) and (o.get("buckets") or o.get("client_cache_bytes")))


def _slow_slots(o: Options) -> bool:
    return bool(_reasons(o) and o.get("max_depth", 1024) < 256)


def _two_falls(o: Options) -> bool:
    return bool(o.get("buckets") and (o.get("slc_bytes") or o.get("heat_busy_ns")))


def _absurd(o: Options) -> bool:
    lowest = [min(ceilings(o, where).values()) for where in CLASSES]
    return min(lowest) < 5 or max(lowest) > 4e6


def _pointless_cache(o: Options) -> bool:
    rate = o.get("client_cache_bytes_per_s", 0)
    return bool(rate and min(ceilings(o, READ_LARGE).values()) * size_of(READ_LARGE) > rate)


RULES: Sequence[tuple[str, Callable[[Options], bool]]] = (
    ("nothing limits", _nothing_limits),
    ("a small cache in front of no disk", _nowhere),
    ("a cache slower than its disk", _slow_cache),
    ("read-ahead without a disk", lambda o: bool(o.get("server_read_ahead_bytes")) and not has_disk(o)),
    ("read-ahead beyond half of the cache",
     lambda o: o.get("server_read_ahead_bytes", 0) > o.get("server_cache_bytes", 0) // 2),
    ("two reasons for unknown", _mixed_unknown),
    ("unknown behind few slots", _slow_slots),
    ("two reasons to fall", _two_falls),
    ("no file server", _absurd),
    ("a client's cache in front of something faster", _pointless_cache),
)  # fmt: skip
__all__ = ["MULTIPLY", "READ_LARGE", "READ_SMALL", "WRITE_LARGE", "WRITE_SMALL", "System", "draw"]
