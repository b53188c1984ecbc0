"""What each station of a simulated server lets through, by arithmetic, and the same server with one station relieved.

A class is an operation (`read`, `write`) and a size: `large` in records of 1 MiB one after another, judged in bytes per
second; `small` in records of 4 KiB at random places, judged in operations per second. The operating point is that of a
busy client: one connection with as many operations outstanding as it is granted, 256 at most. In a closed network the
station with the largest demand per operation sets the rate there (Denning and Buzen 1978, section 5), so a ceiling is
the inverse of a demand. Reads are of data beyond the server's cache and writes are sustained: what memory alone answers
is faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LARGE_BYTES, SMALL_BYTES = 1 << 20, 4 << 10
MAX_DEPTH = 256
"""Operations outstanding that a measurement tries."""
SLOW_BYTES = 64 << 20
"""Bytes outstanding at most that hide operations which are held back by chance."""
HOLDS_ALL = 64 << 30
"""A server cache of this size holds all that a measurement writes: no read gets beyond it."""
NS = 1_000_000_000
Class = tuple[str, str]
READ_LARGE, WRITE_LARGE, READ_SMALL, WRITE_SMALL = (
    ("read", "large"), ("write", "large"), ("read", "small"), ("write", "small"),
)  # fmt: skip
CLASSES: tuple[Class, ...] = (READ_LARGE, WRITE_LARGE, READ_SMALL, WRITE_SMALL)
MULTIPLY = ("protocol", "client_cpu", "latency", "unknown")
"""Kinds of which more connections bring more: the next limit has to be further away."""
Options = Mapping[str, Any]
Table = dict[str, float]


def size_of(where: Class) -> int:
    """Bytes of one operation of a class."""
    return LARGE_BYTES if where[1] == "large" else SMALL_BYTES


def same(one: str, other: str) -> bool:
    """Whether two kinds name one station: disks are disks, whether bytes or requests count."""
    return one == other or {one, other} == {"disk", "disk_iops"}


def ceilings(options: Options, where: Class) -> Table:
    """Operations per second that each station allows at most, over one connection.

    options: fields of docs/reference/sim.md. A kind is missing where nothing of it limits.
    """
    op, _ = where
    size = size_of(where)
    found = {**_path(options, size), **_server(options, op, size), **_disk(options, op, size)}
    found.update(_buckets(options, op, size))
    found = {kind: rate for kind, rate in found.items() if rate > 0}
    return _as_met(options, op, found)


def _as_met(options: Options, op: str, found: Table) -> Table:
    """Without what the operations of a class do not meet: disks behind a cache of everything, a cache with misses."""
    if op == "write":
        return found
    cached = options.get("server_cache_bytes", 0)
    if cached >= HOLDS_ALL:
        return without_disks(options, found)
    return {kind: rate for kind, rate in found.items() if kind != "server_cache" or not has_disk(options)}


def without_disks(options: Options, found: Table) -> Table:
    """The same for reads that the server's cache answers."""
    kinds = {"disk", "disk_iops"}
    if all(b["scope"] == "disk" for b in options.get("buckets", ())):
        kinds.add("burst_credit")
    return {kind: rate for kind, rate in found.items() if kind not in kinds}


def has_disk(options: Options) -> bool:
    """Whether any disk takes time for a read."""
    return bool(options.get("disk_read_bytes_per_s") or options.get("disk_iops") or options.get("disk_seek_ns"))


def single_ns(options: Options, size: int) -> float:
    """Time of one operation alone that memory answers."""
    whole = size + options.get("header_bytes", 0)
    rates = [options.get(name, 0) for name in ("connection_bytes_per_s", "server_cache_bytes_per_s")]
    moving = sum(whole * NS / rate for rate in (*rates, link_rate(options)) if rate)
    fixed = sum(options.get(name, 0) for name in ("latency_ns", "op_overhead_ns", "server_op_ns", "file_lock_ns"))
    return float(fixed + moving)


def link_rate(options: Options) -> int:
    """The slower of link and client's interface; 0 without."""
    return min((options[n] for n in ("link_bytes_per_s", "client_nic_bytes_per_s") if options.get(n)), default=0)


def slow_ns(options: Options) -> float:
    """What operations that are held back by chance add to the mean."""
    return float(sum(f["probability"] * f["duration_ns"] for f in options.get("faults", ()) if f["op"] == "read"))


def _path(options: Options, size: int) -> Table:
    whole = size + options.get("header_bytes", 0)
    depth = min(options.get("max_depth", 1024), MAX_DEPTH)
    trip_ns = single_ns(options, size) + slow_ns(options)
    window = options.get("connection_bytes_per_s", 0) / whole
    slots = depth * NS / trip_ns if depth < MAX_DEPTH else 0.0
    found = {
        "link": options.get("link_bytes_per_s", 0) / whole,
        "client_nic": options.get("client_nic_bytes_per_s", 0) / whole,
        "client_cpu": NS / max(options.get("op_overhead_ns", 1000), 1),
        "protocol": min((rate for rate in (window, slots) if rate), default=0.0),
    }
    if depth == MAX_DEPTH and slow_ns(options):
        found["unknown"] = min(depth, SLOW_BYTES // size) * NS / trip_ns
    elif depth == MAX_DEPTH:
        found["latency"] = depth * NS / trip_ns
    return found


def _server(options: Options, op: str, size: int) -> Table:
    memory = options.get("server_cache_bytes", 0) if op == "read" else options.get("write_back_bytes", 0)
    lock_ns, op_ns = options.get("file_lock_ns", 0), options.get("server_op_ns", 0)
    found = {
        "server_cpu": NS / op_ns if op_ns else 0.0,
        "server_cache": options.get("server_cache_bytes_per_s", 0) / size if memory else 0.0,
    }
    return {**found, "unknown": NS / lock_ns} if lock_ns else found


def disk_ns(options: Options, op: str, size: int, more_bytes: int = 0, seeks: bool | None = None) -> float:
    """Time of one request at the disk; 0 where it takes none. more_bytes: fetched with it.

    A read that misses the cache fetches whole pages. seeks: None: small requests do, large ones follow each other.
    """
    rate, per_second = options.get(f"disk_{op}_bytes_per_s", 0), options.get("disk_iops", 0)
    paged = op == "read" and options.get("server_cache_bytes", 0)
    moved = max(size, options.get("page_bytes", 4096)) if paged else size
    seek_ns = options.get("disk_seek_ns", 0) if (size == SMALL_BYTES if seeks is None else seeks) else 0
    moving_ns = (moved + more_bytes) * NS / rate if rate else 0.0
    return float(max(moving_ns + seek_ns, NS / per_second if per_second else 0.0))


def _disk(options: Options, op: str, size: int) -> Table:
    least_ns = disk_ns(options, op, size)
    return {"disk" if size == LARGE_BYTES else "disk_iops": NS / least_ns} if least_ns else {}


def applying(options: Options, op: str) -> list[Mapping[str, Any]]:
    """The token buckets of an operation."""
    return [b for b in options.get("buckets", ()) if b["applies_to"] in (op, "both")]


def bucket_bytes(options: Options, bucket: Mapping[str, Any], op: str, size: int) -> int:
    """Bytes that one operation takes from a bucket's scope."""
    if bucket["scope"] == "link":
        return int(size + options.get("header_bytes", 0))
    paged = op == "read" and options.get("server_cache_bytes", 0)
    return int(max(size, options.get("page_bytes", 4096)) if paged else size)


def _buckets(options: Options, op: str, size: int) -> Table:
    base = [b["base_bytes_per_s"] / bucket_bytes(options, b, op, size) for b in applying(options, op)]
    return {"burst_credit": min(base)} if base else {}


# The same server with one station relieved.

_SCALED: Mapping[str, tuple[str, ...]] = {
    "link": ("link_bytes_per_s",), "client_nic": ("client_nic_bytes_per_s",),
    "server_cache": ("server_cache_bytes_per_s",),
    "disk": ("disk_read_bytes_per_s", "disk_write_bytes_per_s", "disk_iops"),
    "disk_iops": ("disk_read_bytes_per_s", "disk_write_bytes_per_s", "disk_iops"),
    "protocol": ("connection_bytes_per_s", "max_depth"),
}  # fmt: skip
_SHORTENED: Mapping[str, tuple[str, ...]] = {
    "client_cpu": ("op_overhead_ns",), "server_cpu": ("server_op_ns",), "latency": ("latency_ns",),
    "disk": ("disk_seek_ns",), "disk_iops": ("disk_seek_ns",), "unknown": ("file_lock_ns", "stall_ns"),
}  # fmt: skip


def relieved(options: Options, kind: str, factor: float) -> dict[str, Any]:
    """The same server with the station of a kind `factor` times as fast; below 1: slower."""
    found = dict(options)
    for name in _SCALED.get(kind, ()):
        if found.get(name):
            found[name] = max(round(found[name] * factor), 1)
    for name in _SHORTENED.get(kind, ()):
        if found.get(name):
            found[name] = max(round(found[name] / factor), 1)
    if kind == "protocol" and "max_depth" in found:
        found["max_depth"] = min(found["max_depth"], 1 << 16)
    if kind == "burst_credit":
        scaled = [(b, round(b["base_bytes_per_s"] * factor), round(b["burst_bytes_per_s"] * factor))
                  for b in found.get("buckets", ())]  # fmt: skip
        found["buckets"] = [{**b, "base_bytes_per_s": base, "burst_bytes_per_s": burst} for b, base, burst in scaled]
    if kind == "unknown" and found.get("faults"):
        found["faults"] = [{**f, "probability": f["probability"] / factor} for f in found["faults"]]
    return found
