"""Reference lines of the throughput charts: what the link can carry, from facts in the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.units import rate_text

_TIMESTAMPS_BYTES = 12
_HEADERS_BYTES = 40
_FRAMING_BYTES = 38
_BIT_KEYS = {
    "nic_bits_per_s": 1.0, "link_bits_per_s": 1.0, "speed_bits_per_s": 1.0, "link_speed_bits_per_s": 1.0,
    "nic_mbit_per_s": 1e6, "link_mbit_per_s": 1e6, "speed_mbit_per_s": 1e6, "nic_speed_mbps": 1e6,
}  # fmt: skip


def tcp_payload_bytes_per_s(bits_per_s: float, mtu: int = 1500) -> float:
    """Most file data a link carries, bytes per second: TCP over IPv4 and Ethernet with timestamps.

    mtu: bytes, above 52. Source: IEEE 802.3 framing (38 bytes a frame), RFC 791, 9293, 7323.
    """
    return bits_per_s / 8 * (mtu - _HEADERS_BYTES - _TIMESTAMPS_BYTES) / (mtu + _FRAMING_BYTES)


def link_text(bits_per_s: float) -> str:
    """`1 Gbit/s`, `2.5 Gbit/s`, `100 Mbit/s`."""
    return f"{bits_per_s / 1e9:.3g} Gbit/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:.3g} Mbit/s"


def link_ceilings(document: Mapping[str, Any]) -> list[tuple[str, float]]:
    """(text, bytes per second) of every ceiling the document knows: slowest interface named, link limit found."""
    facts = dict(_facts({"target": document.get("target"), "environment": document.get("environment")}))
    speeds = [facts[key] * factor for key, factor in _BIT_KEYS.items() if _positive(facts.get(key))]
    mtu = facts.get("mtu")
    ceilings = []
    if speeds and (document.get("target") or {}).get("protocol") not in ("local", "sim", "null"):
        whole = int(mtu) if isinstance(mtu, int | float) and mtu > 100 else 1500
        ceiling = tcp_payload_bytes_per_s(min(speeds), whole)
        ceilings.append((f"{link_text(min(speeds))} link, at most {rate_text(ceiling)}", ceiling))
    for limit in (document.get("verdict") or {}).get("limits") or []:
        value = limit.get("value")
        known = limit.get("kind") == "link" and limit.get("unit") == "bytes_per_s" and _positive(value)
        if known and all(abs(value / other - 1) > 0.03 for _, other in ceilings):
            ceilings.append((f"link limit found, {rate_text(value)}", float(value)))
    return ceilings


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _facts(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(last key, value) of every leaf."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _facts(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _facts(inner, key)
    else:
        yield key, value
