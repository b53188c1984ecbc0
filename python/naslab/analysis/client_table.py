"""What a client can do at most, as rows of a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from naslab.analysis.linkrate import payload_bytes_per_s
from naslab.results.parts.client import ClientCeiling
from naslab.units import duration_text, rate_text, size_label


def rows(found: ClientCeiling, route: Mapping[str, Any] | None = None) -> list[tuple[str, str, str]]:
    """(what, how much, under which conditions) of every figure; the article's own figures first."""
    memory, packed, tcp = found.memory, found.zlib, found.loopback
    every = f"one thread; {{}} with {found.cpus}"
    told = [
        (
            f"memory {name}", rate_text(getattr(memory.one, f"{name}_bytes_per_s")),
            every.format(rate_text(getattr(memory.all, f"{name}_bytes_per_s"))) if found.cpus > 1 else "one thread",
        )
        for name in ("copy", "read", "write")
    ]  # fmt: skip
    told.append(("memory latency", f"{memory.latency_ns:.1f} ns", f"random in {size_label(memory.buf_bytes)}"))
    told.append(("zlib packing", rate_text(packed.deflate_bytes_per_s), f"text, {packed.ratio:.1f} to 1"))
    told.append(("zlib unpacking", rate_text(packed.inflate_bytes_per_s), "bytes of clear text"))
    for each in found.aes:
        more = f"decrypting {rate_text(each.decrypt_bytes_per_s)}, messages of {size_label(each.message_bytes)}"
        told.append((f"{each.cipher} encrypting", rate_text(each.encrypt_bytes_per_s), more))
    told.append(("TCP to itself, sending", rate_text(tcp.send_bytes_per_s), "both ends on these processors"))
    told.append(("TCP to itself, receiving", rate_text(tcp.receive_bytes_per_s), ""))
    told.append(("TCP to itself, both at once", rate_text(tcp.both_bytes_per_s), "added up"))
    told.append(("TCP to itself, round trip", duration_text(tcp.round_trip_ns), "median"))
    for null in found.null:
        workers = "1 worker" if null.workers == 1 else f"{null.workers} workers"
        name = f"no server, {size_label(null.record_bytes)}, {workers}"
        told.append((name, f"{null.ops_per_s / 1e6:.3g} M ops/s", "no byte is touched"))
    if route is not None:
        speed = route["speed_bits_per_s"]
        rate = rate_text(payload_bytes_per_s(speed, route["mtu_bytes"] or 1500)) if speed else "not known"
        told.append((f"way to {route['address']}", rate, f"by {route['says']}"))
    return told
