"""What each part of a simulated server lets through, by arithmetic: which of them is the limit of a class, and how far
the next one lies above it.

A class is an operation (`read`, `write`) and a size: `large` in records of 1 MiB, judged in bytes per second; `small`
in records of 4 KiB at random places, judged in operations per second. Data are not in the server's memory, or were
just made durable: what memory alone answers is faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LARGE_BYTES, SMALL_BYTES = 1 << 20, 4 << 10
MOST_DEPTH = 256
"""Operations in flight that a measurement tries."""
NS = 1_000_000_000
Class = tuple[str, str]
READ_LARGE, WRITE_LARGE, READ_SMALL, WRITE_SMALL = (
    ("read", "large"), ("write", "large"), ("read", "small"), ("write", "small"),
)  # fmt: skip
MULTIPLY = ("protocol", "client_cpu", "latency", "unknown")
"""Kinds of which more connections bring more: the next limit has to be further away."""


def size_of(where: Class) -> int:
    """Bytes of one operation of a class."""
    return LARGE_BYTES if where[1] == "large" else SMALL_BYTES


def ceilings(options: Mapping[str, Any], where: Class) -> dict[str, float]:
    """Operations per second that each part allows at most, over one connection.

    options: fields of docs/reference/sim.md. A kind is missing where nothing of it limits.
    """
    op, _ = where
    size = size_of(where)
    found = {**_way(options, size), **_server(options, op, size), **_disk(options, op, size)}
    found.update(_buckets(options, op, size))
    return {kind: rate for kind, rate in found.items() if rate > 0}


def single_ns(options: Mapping[str, Any], size: int) -> float:
    """Time of one operation alone that memory answers."""
    whole = size + options.get("header_bytes", 0)
    rates = [options.get(name, 0) for name in ("connection_bytes_per_s", "server_cache_bytes_per_s")]
    link = link_rate(options)
    moving = sum(whole * NS / rate for rate in (*rates, link) if rate)
    fixed = sum(options.get(name, 0) for name in ("latency_ns", "op_overhead_ns", "server_op_ns", "file_lock_ns"))
    return float(fixed + moving)


def link_rate(options: Mapping[str, Any]) -> int:
    """The slower of link and client's interface; 0 without."""
    return min((options[n] for n in ("link_bytes_per_s", "client_nic_bytes_per_s") if options.get(n)), default=0)


def _way(options: Mapping[str, Any], size: int) -> dict[str, float]:
    whole = size + options.get("header_bytes", 0)
    depth = min(options.get("max_depth", 1024), MOST_DEPTH)
    trip_ns = single_ns(options, size) + slow_ns(options)
    window = options.get("connection_bytes_per_s", 0) / whole
    slots = depth * NS / trip_ns if depth < MOST_DEPTH else 0.0
    found = {
        "link": options.get("link_bytes_per_s", 0) / whole,
        "client_nic": options.get("client_nic_bytes_per_s", 0) / whole,
        "client_cpu": NS / max(options.get("op_overhead_ns", 1000), 1),
        "protocol": min((rate for rate in (window, slots) if rate), default=0.0),
    }
    if depth == MOST_DEPTH:
        found["unknown" if slow_ns(options) else "latency"] = depth * NS / trip_ns
    return found


def slow_ns(options: Mapping[str, Any]) -> float:
    """What operations that are held back by chance add to the mean."""
    return float(sum(f["probability"] * f["duration_ns"] for f in options.get("faults", ()) if f["kind"] == "stall"))


def _server(options: Mapping[str, Any], op: str, size: int) -> dict[str, float]:
    memory = options.get("server_cache_bytes", 0) if op == "read" else options.get("write_back_bytes", 0)
    moving = 1.0 - options.get("stall_ns", 0) / max(options.get("stall_every_ns", 0), 1)
    lock_ns, op_ns = options.get("file_lock_ns", 0), options.get("server_op_ns", 0)
    found = {
        "server_cpu": NS / op_ns * moving if op_ns else 0.0,
        "server_cache": options.get("server_cache_bytes_per_s", 0) / size * moving if memory else 0.0,
    }
    return {**found, "unknown": NS / lock_ns} if lock_ns else found


def _disk(options: Mapping[str, Any], op: str, size: int) -> dict[str, float]:
    rate = options.get(f"disk_{op}_bytes_per_s", 0)
    per_second = options.get("disk_iops", 0)
    moving_ns = size * NS / rate if rate else 0.0
    if size == LARGE_BYTES:
        least_ns = max(moving_ns, NS / per_second if per_second else 0.0)
        return {"disk": NS / least_ns} if least_ns else {}
    least_ns = max(moving_ns + options.get("disk_seek_ns", 0), NS / per_second if per_second else 0.0)
    return {"disk_iops": NS / least_ns} if least_ns else {}


def _buckets(options: Mapping[str, Any], op: str, size: int) -> dict[str, float]:
    base = [b["base_bytes_per_s"] for b in options.get("buckets", ()) if b["applies_to"] in (op, "both")]
    return {"burst_credit": min(base) / size} if base else {}


def lowest(options: Mapping[str, Any], where: Class) -> tuple[str, float]:
    """The limit of a class, and the factor by which the next one lies above it."""
    found = sorted(ceilings(options, where).items(), key=lambda pair: pair[1])
    if len(found) == 1:
        return found[0][0], float("inf")
    return found[0][0], found[1][1] / found[0][1]
