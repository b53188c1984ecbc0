"""Simulated file servers with planted limits, drawn from a seed: one limit, two close ones, or one that is on no list.

All parameters lie where those of real servers lie: a NAS on 1 to 25 Gbit/s Ethernet over hard disks, solid-state
disks or a RAID of them, or a cloud share, with jitter of the round trip and wandering rates. What is drawn is kept
where arithmetic (`planted_ceilings`) says that the planted limit is the limit of the classes it is judged for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from truth.planted_ceilings import (
    LARGE_BYTES,
    MULTIPLY,
    READ_LARGE,
    READ_SMALL,
    SMALL_BYTES,
    WRITE_LARGE,
    WRITE_SMALL,
    Class,
    ceilings,
    lowest,
    single_ns,
)  # fmt: skip

MB, GIB, MIB = 1_000_000, 1 << 30, 1 << 20
US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
APART, FAR_APART = 1.5, 3.0
"""By so much the next ceiling lies above the planted one; further where connections multiply the planted one."""
CLOSE = 1.10
"""Two limits are close within this factor."""
TRIES = 4000
LINK, DISK, KNEE, BUCKET, LATENCY = 0.02, 0.03, 0.10, 0.05, 0.05
"""How far a figure may lie from what was planted."""
Group = Literal["single", "pair", "unlisted"]
Options = dict[str, Any]


@dataclass(frozen=True)
class Planted:
    """A figure that the verdict should have. where: the limit's `value`, or a field of the ladder's model."""

    name: str
    value: float
    within: float


@dataclass(frozen=True)
class System:
    """kinds: what is planted, the lowest first. classes: those in which it is the limit. figures: what to find."""

    name: str
    group: Group
    kinds: tuple[str, ...]
    classes: tuple[Class, ...]
    options: Mapping[str, Any]
    figures: Sequence[Planted] = field(default_factory=tuple)
    what: str = ""


def draw(seed: int) -> list[System]:
    """64 systems with one limit, 12 with two close ones, 8 whose limit is on no list; the same for the same seed."""
    found: list[System] = []
    plans: list[tuple[Group, Sequence[tuple[Callable[..., System | None], int]]]] = [
        ("single", SINGLE), ("pair", PAIRS), ("unlisted", UNLISTED),
    ]  # fmt: skip
    for group, plan in plans:
        for make, count in plan:
            for at in range(count):
                rng = random.Random(f"{seed} {group} {make.__name__} {at}")
                found.append(_drawn(make, rng, at, f"{group}-{len(found):02d}"))
    return found


def _drawn(make: Callable[..., System | None], rng: random.Random, at: int, name: str) -> System:
    for _ in range(TRIES):
        system = make(rng, at)
        if system is not None:
            options = {**system.options, "seed": rng.randrange(1, 1 << 31)}
            return System(name, system.group, system.kinds, system.classes, options, system.figures, system.what)
    raise AssertionError(f"{make.__name__}: no draw of {TRIES} has its limit lowest")


# Parts.


def _ethernet(rng: random.Random, *gbits: float) -> int:
    """Bytes per second of a link, less what frames cost."""
    return round(rng.choice(gbits or (1, 2.5, 5, 10, 25)) * 125 * MB * rng.uniform(0.92, 0.97))


def _log(rng: random.Random, low: float, high: float) -> float:
    return float(low * (high / low) ** rng.random())


def _disk(rng: random.Random, *kinds: str) -> Options:
    """A hard disk, a RAID of them, a solid-state disk on SATA or on PCIe."""
    kind = rng.choice(kinds or ("hdd", "raid", "ssd", "nvme"))
    low, high, seek, iops = {
        "hdd": (110, 260, (4 * MS, 10 * MS), None),
        "raid": (350, 1400, (1 * MS, 3 * MS), None),
        "ssd": (300, 560, (0, 0), (30_000, 98_000)),
        "nvme": (1500, 6500, (0, 0), (150_000, 900_000)),
    }[kind]
    read = _log(rng, low, high) * MB
    found = {"disk_read_bytes_per_s": round(read), "disk_write_bytes_per_s": round(read * rng.uniform(0.7, 1.0))}
    if iops:
        return {**found, "disk_iops": round(_log(rng, *iops))}
    return {**found, "disk_seek_ns": rng.randint(*seek)}


def _base(rng: random.Random, disk: Options, most_cache: int = 4 * GIB) -> Options:
    """A server without its link: client, network's delay, processor, memory."""
    seconds = rng.uniform(0.5, 8.0)
    cache = min(round(disk["disk_read_bytes_per_s"] * seconds), most_cache)
    return {
        "op_overhead_ns": round(_log(rng, 600, 4_000)),
        "latency_ns": round(_log(rng, 80 * US, 700 * US)),
        "jitter": round(rng.uniform(0.0, 0.2), 3),
        "server_op_ns": round(_log(rng, 2_000, 15_000)),
        "header_bytes": rng.randint(100, 220),
        "server_cache_bytes": max(cache, 64 * MIB) // (64 * 1024) * (64 * 1024),
        "server_cache_bytes_per_s": round(_log(rng, 6_000, 16_000) * MB),
        "write_back_bytes": rng.choice((16, 32, 64, 128)) * MIB,
        "capacity_bytes": 4_000 * 10**9,
        "max_depth": rng.choice((256, 512, 1024)),
        "disk_noise": round(rng.uniform(0.0, 0.03), 4),
        "link_noise": round(rng.uniform(0.0, 0.03), 4),
        "noise_memory": round(rng.uniform(0.0, 0.6), 2),
        **disk,
    }


def _single(
    kind: str, options: Options, classes: Sequence[Class], figures: Sequence[Planted], what: str
) -> System | None:
    """The system, where the planted limit is the lowest of every class, far enough below the next."""
    for where in classes:
        found, factor = lowest(options, where)
        if found != kind or factor < (FAR_APART if kind in MULTIPLY else APART):
            return None
    group: Group = "unlisted" if kind == "unknown" else "single"
    return System("", group, (kind,), tuple(classes), options, tuple(figures), what)


def _payload(options: Options, rate: float, size: int) -> float:
    """Of a rate on the wire, what carries data."""
    return rate * size / (size + int(options["header_bytes"]))


# One limit.


def link(rng: random.Random, at: int) -> System | None:
    """A network slower than everything behind it; now and then a client whose interface could do more."""
    options = _base(rng, _disk(rng, "raid", "ssd", "nvme")) | {"link_bytes_per_s": _ethernet(rng)}
    if at % 2:
        options["client_nic_bytes_per_s"] = round(options["link_bytes_per_s"] * rng.uniform(2.0, 10.0))
    value = _payload(options, options["link_bytes_per_s"], LARGE_BYTES)
    classes = (READ_LARGE, WRITE_LARGE)
    return _single("link", options, classes, [Planted("value", value, LINK)], f"link of {_mb(value)}")


def client_nic(rng: random.Random, at: int) -> System | None:
    """The client's own interface in a faster network."""
    options = _base(rng, _disk(rng, "raid", "ssd", "nvme"))
    nic = rng.choice((1, 2.5, 5, 10)) * 125 * MB
    options |= {"client_nic_bytes_per_s": round(nic), "link_noise": round(options["link_noise"] / 10, 5)}
    options["link_bytes_per_s"] = round(nic * rng.uniform(1.6, 10.0))
    value = _payload(options, nic, LARGE_BYTES)
    classes = (READ_LARGE, WRITE_LARGE)
    return _single("client_nic", options, classes, [Planted("value", value, LINK)], f"client's interface, {_mb(nic)}")


def latency(rng: random.Random, at: int) -> System | None:
    """A server far away."""
    options = _base(rng, _disk(rng, "ssd", "nvme")) | {"link_bytes_per_s": _ethernet(rng)}
    options |= {"latency_ns": round(_log(rng, 12 * MS, 150 * MS)), "jitter": round(rng.uniform(0.0, 0.1), 3)}
    options["server_op_ns"] = rng.randint(2_000, 8_000)
    trip = single_ns(options, SMALL_BYTES)
    figures = [Planted("round_trip_ns", trip, LATENCY)]
    return _single("latency", options, (READ_SMALL, WRITE_SMALL), figures, f"round trip of {trip / 1e6:.1f} ms")


def server_cache(rng: random.Random, at: int) -> System | None:
    """Slow memory, or a slow way through the server to it, in front of fast disks; nothing falls out of it."""
    options = _base(rng, _disk(rng, "nvme")) | {"link_bytes_per_s": _ethernet(rng, 10, 25, 40)}
    rate = round(_log(rng, 400, 2200) * MB)
    options |= {"server_cache_bytes_per_s": rate, "server_cache_bytes": 256 * GIB}
    classes = (READ_LARGE, WRITE_LARGE)
    return _single("server_cache", options, classes, [Planted("value", rate, DISK)], f"server's memory, {_mb(rate)}")


def disk(rng: random.Random, at: int) -> System | None:
    """Disks slower than the network."""
    options = _base(rng, _disk(rng, "hdd", "raid", "ssd")) | {"link_bytes_per_s": _ethernet(rng, 2.5, 5, 10, 25)}
    read, write = options["disk_read_bytes_per_s"], options["disk_write_bytes_per_s"]
    figures = [Planted("value", read, DISK), Planted("disk_write_bytes_per_s", write, DISK)]
    figures.append(Planted("server_cache_bytes", options["server_cache_bytes"], KNEE))
    return _single("disk", options, (READ_LARGE, WRITE_LARGE), figures, f"disk of {_mb(read)} and {_mb(write)}")


def disk_iops(rng: random.Random, at: int) -> System | None:
    """Disks that seek, or that are sold by requests per second."""
    options = _base(rng, _disk(rng, "hdd", "raid", "hdd", "ssd")) | {"link_bytes_per_s": _ethernet(rng)}
    if not options.get("disk_seek_ns"):
        options["disk_iops"] = round(_log(rng, 1_000, 16_000))  # a cloud volume
    value = ceilings(options, READ_SMALL).get("disk_iops", 0.0)
    figures = [Planted("value", value, DISK)]
    return _single("disk_iops", options, (READ_SMALL, WRITE_SMALL), figures, f"{value:.0f} requests per second")


def burst_credit(rng: random.Random, at: int) -> System | None:
    """A cloud share whose disk, or whose network, is fast for a while."""
    scope = "link" if at % 2 else "disk"
    applies = ("both", "read", "both", "write")[at // 2 % 4]
    options = _base(rng, _disk(rng, "nvme"), 256 * MIB) | {"link_bytes_per_s": _ethernet(rng, 10, 25)}
    burst = round(_log(rng, 150, 700) * MB)
    base = round(burst / rng.uniform(2.0, 8.0))
    size = round((burst - base) * rng.uniform(5.0, 25.0))
    options["buckets"] = [
        {"scope": scope, "applies_to": applies, "burst_bytes_per_s": burst, "base_bytes_per_s": base,
         "size_bytes": size},
    ]  # fmt: skip
    value = base if scope == "disk" else _payload(options, base, LARGE_BYTES)
    figures = [Planted("value", value, BUCKET), Planted("size_bytes", size, BUCKET)]
    classes = {"both": (READ_LARGE, WRITE_LARGE), "read": (READ_LARGE,), "write": (WRITE_LARGE,)}[applies]
    whose = {"both": "reads and writes", "read": "reads", "write": "writes"}[applies]
    what = f"{scope}'s credit for {whose}, {_mb(burst)} to {_mb(base)}"
    return _single("burst_credit", options, classes, figures, what)


def client_cpu(rng: random.Random, at: int) -> System | None:
    """A client that needs long for each call."""
    options = _base(rng, _disk(rng, "nvme")) | {"link_bytes_per_s": _ethernet(rng, 5, 10, 25)}
    options |= {"op_overhead_ns": round(_log(rng, 30_000, 150_000)), "server_op_ns": rng.randint(1_500, 5_000)}
    value = 1e9 / options["op_overhead_ns"]
    figures = [Planted("value", value, LATENCY)]
    return _single("client_cpu", options, (READ_SMALL, WRITE_SMALL), figures, f"client, {value:.0f} calls per second")


def server_cpu(rng: random.Random, at: int) -> System | None:
    """A small processor in the server."""
    options = _base(rng, _disk(rng, "ssd", "nvme")) | {"link_bytes_per_s": _ethernet(rng)}
    options["server_op_ns"] = round(_log(rng, 30_000, 400_000))
    value = 1e9 / options["server_op_ns"]
    figures = [Planted("value", value, LATENCY)]
    return _single("server_cpu", options, (READ_SMALL, WRITE_SMALL), figures, f"server, {value:.0f} calls per second")


def client_cache(rng: random.Random, at: int) -> System | None:
    """A mount whose client keeps what it has read: what is measured unless one goes around it."""
    options = _base(rng, _disk(rng)) | {"link_bytes_per_s": _ethernet(rng)}
    options["client_cache_bytes"] = rng.choice((4, 8, 16)) * GIB
    options["client_cache_bytes_per_s"] = round(_log(rng, 2_000, 9_000) * MB)
    if at % 2:
        options["client_write_back_bytes"] = options["client_cache_bytes"] // 8
    return System("", "single", ("client_cache",), (READ_LARGE, READ_SMALL), options, (), "client's cache")


def protocol(rng: random.Random, at: int) -> System | None:
    """Few slots, or a small window, for each connection."""
    options = _base(rng, _disk(rng, "ssd", "nvme")) | {"link_bytes_per_s": _ethernet(rng, 10, 25)}
    options["server_op_ns"] = rng.randint(1_500, 6_000)
    if at % 2:
        window = round(options["link_bytes_per_s"] / rng.uniform(3.2, 8.0))
        options["connection_bytes_per_s"] = window
        value, what = _payload(options, window, LARGE_BYTES), f"window, {_mb(window)} a connection"
        return _single("protocol", options, (READ_LARGE,), [Planted("value", value, LINK)], what)
    options |= {"max_depth": rng.choice((1, 2, 4, 8, 16)), "latency_ns": round(_log(rng, 300 * US, 4 * MS))}
    value = ceilings(options, READ_SMALL)["protocol"]
    what = f"{options['max_depth']} in flight, {value:.0f} calls per second"
    return _single("protocol", options, (READ_SMALL, WRITE_SMALL), [Planted("value", value, LATENCY)], what)


# Two close ones.


def _pair(kinds: tuple[str, str], options: Options, classes: Sequence[Class], what: str) -> System | None:
    """The system, where these two are the lowest of every class, close to each other and far from the third."""
    for where in classes:
        found = sorted(ceilings(options, where).items(), key=lambda pair: pair[1])
        if {kind for kind, _ in found[:2]} != set(kinds) or found[1][1] > CLOSE * found[0][1]:
            return None
        if len(found) > 2 and found[2][1] < APART * found[1][1]:
            return None
    first = tuple(sorted(kinds, key=lambda kind: ceilings(options, classes[0])[kind]))
    return System("", "pair", first, tuple(classes), options, (), what)


def _near(rng: random.Random) -> float:
    """A factor within 10 % of 1, and not the same."""
    return rng.choice((rng.uniform(0.92, 0.98), rng.uniform(1.02, 1.09)))


def link_disk_read(rng: random.Random, at: int) -> System | None:
    """A disk that reads about as fast as the network carries."""
    options = _base(rng, _disk(rng, "raid", "ssd", "nvme")) | {"link_bytes_per_s": _ethernet(rng)}
    rate = round(options["link_bytes_per_s"] * _near(rng))
    options |= {"disk_read_bytes_per_s": rate, "server_cache_bytes": 512 * MIB}
    return _pair(("link", "disk"), options, (READ_LARGE,), f"link and disk's reads at {_mb(rate)}")


def link_disk_write(rng: random.Random, at: int) -> System | None:
    """A disk that writes about as fast as the network carries."""
    options = _base(rng, _disk(rng, "raid", "ssd", "nvme")) | {"link_bytes_per_s": _ethernet(rng)}
    rate = round(options["link_bytes_per_s"] * _near(rng))
    options |= {"disk_write_bytes_per_s": rate, "disk_read_bytes_per_s": 2 * rate}
    return _pair(("link", "disk"), options, (WRITE_LARGE,), f"link and disk's writes at {_mb(rate)}")


def link_memory(rng: random.Random, at: int) -> System | None:
    """A server's memory about as fast as the network."""
    options = _base(rng, _disk(rng, "nvme")) | {"link_bytes_per_s": _ethernet(rng, 5, 10)}
    rate = round(options["link_bytes_per_s"] * _near(rng))
    options |= {"server_cache_bytes_per_s": rate, "server_cache_bytes": 256 * GIB}
    return _pair(("link", "server_cache"), options, (READ_LARGE,), f"link and server's memory at {_mb(rate)}")


def server_and_disk_requests(rng: random.Random, at: int) -> System | None:
    """A server's processor that takes about as many requests as its disk."""
    options = _base(rng, _disk(rng, "ssd")) | {"link_bytes_per_s": _ethernet(rng, 5, 10)}
    iops = round(_log(rng, 3_000, 25_000))
    options |= {"disk_iops": iops, "server_op_ns": round(1e9 / iops / _near(rng))}
    kinds = ("server_cpu", "disk_iops")
    return _pair(kinds, options, (READ_SMALL,), f"server and disk, {iops} requests per second")


def link_interface(rng: random.Random, at: int) -> System | None:
    """A client's interface about as fast as the network behind it."""
    options = _base(rng, _disk(rng, "nvme"))
    nic = rng.choice((1, 2.5, 10)) * 125 * MB
    options |= {"client_nic_bytes_per_s": round(nic), "link_bytes_per_s": round(nic * _near(rng)), "link_noise": 0.0}
    return _pair(("link", "client_nic"), options, (READ_LARGE,), f"link and client's interface at {_mb(nic)}")


def link_window(rng: random.Random, at: int) -> System | None:
    """A connection's window about as large as the network's rate."""
    options = _base(rng, _disk(rng, "nvme")) | {"link_bytes_per_s": _ethernet(rng, 1, 2.5, 5)}
    options["connection_bytes_per_s"] = round(options["link_bytes_per_s"] * _near(rng))
    kinds = ("link", "protocol")
    return _pair(kinds, options, (READ_LARGE,), f"link and window at {_mb(options['link_bytes_per_s'])}")


# On no list.


def file_lock(rng: random.Random, at: int) -> System | None:
    """Operations of one file wait for each other."""
    options = _base(rng, _disk(rng, "nvme")) | {"link_bytes_per_s": _ethernet(rng, 10, 25)}
    lock = round(_log(rng, 150 * US, 1200 * US))
    options |= {"file_lock_ns": lock, "server_op_ns": rng.randint(1_500, 8_000)}
    return _single("unknown", options, (READ_SMALL,), (), f"lock of a file, {lock / 1e3:.0f} us")


def periodic_stop(rng: random.Random, at: int) -> System | None:
    """The whole server stops now and then."""
    options = _base(rng, _disk(rng, "raid", "ssd", "nvme")) | {"link_bytes_per_s": _ethernet(rng, 1, 2.5, 5, 10)}
    every = round(_log(rng, 1.5, 4.0) * SECOND)
    stop = round(every * rng.uniform(0.2, 0.35))
    options |= {"stall_every_ns": every, "stall_ns": stop}
    what = f"stop of {stop / 1e9:.2f} s every {every / 1e9:.1f} s"
    return System("", "unlisted", ("unknown",), (READ_LARGE,), options, (), what)


def slow_share(rng: random.Random, at: int) -> System | None:
    """Some operations take very long."""
    options = _base(rng, _disk(rng, "nvme")) | {"link_bytes_per_s": _ethernet(rng, 10, 25)}
    share, held = rng.uniform(0.03, 0.08), round(_log(rng, 0.3, 1.0) * SECOND)
    options["faults"] = [{"op": op, "kind": "stall", "probability": round(share, 4), "duration_ns": held}
                         for op in ("read", "write")]  # fmt: skip
    options["server_op_ns"] = rng.randint(1_500, 8_000)
    what = f"{100 * share:.0f} % of the operations held back for {held / 1e9:.2f} s"
    return _single("unknown", options, (READ_SMALL,), (), what)


def _mb(rate: float) -> str:
    return f"{rate / 1e6:.0f} MB/s"


SINGLE: Sequence[tuple[Callable[..., System | None], int]] = (
    (link, 7), (client_nic, 5), (latency, 5), (server_cache, 5), (disk, 8), (disk_iops, 6), (burst_credit, 8),
    (client_cpu, 5), (server_cpu, 5), (client_cache, 4), (protocol, 6),
)  # fmt: skip
PAIRS: Sequence[tuple[Callable[..., System | None], int]] = (
    (link_disk_read, 3), (link_disk_write, 2), (link_memory, 2), (server_and_disk_requests, 2), (link_interface, 2),
    (link_window, 1),
)  # fmt: skip
UNLISTED: Sequence[tuple[Callable[..., System | None], int]] = ((file_lock, 3), (periodic_stop, 3), (slow_share, 2))
