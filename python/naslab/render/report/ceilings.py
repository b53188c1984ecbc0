"""Reference lines of the throughput charts: what the link can carry, from facts in the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.analysis.linkrate import known_link, payload_bytes_per_s, speed_text
from naslab.results.numbers import is_positive
from naslab.units import rate_text

_BIT_KEYS = {
    "nic_bits_per_s": 1.0, "link_bits_per_s": 1.0, "speed_bits_per_s": 1.0, "link_speed_bits_per_s": 1.0,
    "nic_mbit_per_s": 1e6, "link_mbit_per_s": 1e6, "speed_mbit_per_s": 1e6, "nic_speed_mbps": 1e6,
}  # fmt: skip


def link_ceilings(document: Mapping[str, Any]) -> list[tuple[str, float]]:
    """(text, bytes per second) of every ceiling the document knows: the link on the way, a link limit found.

    Where the way to the target is not known, the slowest speed that target and environment name counts; interfaces
    that are merely listed do not. Formula: `analysis.linkrate`, without headers of requests and timestamps, so
    nothing passes it.
    """
    ceilings = _on_the_way(document)
    for limit in (document.get("verdict") or {}).get("limits") or []:
        value = limit.get("value")
        found = limit.get("kind") == "link" and limit.get("unit") == "bytes_per_s" and is_positive(value)
        if found and all(abs(value / other - 1) > 0.03 for _, other in ceilings):
            ceilings.append((f"measured link limit, {rate_text(value)}", float(value)))
    return ceilings


def _on_the_way(document: Mapping[str, Any]) -> list[tuple[str, float]]:
    known = known_link(document)
    if known and known.bits_per_s and known.mtu_bytes:
        return [_ceiling(known.bits_per_s, known.mtu_bytes)]
    if known:
        return [(f"{known.says}, {rate_text(known.bytes_per_s)}", known.bytes_per_s)]
    if (document.get("target") or {}).get("protocol") in ("local", "sim", "null"):
        return []
    facts = dict(_facts({"target": document.get("target"), "environment": document.get("environment")}))
    speeds = [facts[key] * factor for key, factor in _BIT_KEYS.items() if is_positive(facts.get(key))]
    mtu = facts.get("mtu")
    return [_ceiling(min(speeds), int(mtu) if is_positive(mtu) and mtu > 100 else 1500)] if speeds else []


def _ceiling(bits_per_s: float, mtu_bytes: int) -> tuple[str, float]:
    rate = payload_bytes_per_s(bits_per_s, mtu_bytes)
    return f"{speed_text(bits_per_s)} link, at most {rate_text(rate)}", rate


def _facts(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(last key, value) of every leaf."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name != "interfaces":
                yield from _facts(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _facts(inner, key)
    else:
        yield key, value
