"""What a link can carry at most, by formula, and which link is known to lie between client and target.

Sources: IEEE 802.3 framing (38 bytes a frame: preamble and start 8, header 14, checksum 4, gap 12), RFC 791 and
9293 (40 bytes of headers), RFC 7323 (12 bytes of timestamps).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from naslab.results.foreign import is_foreign
from naslab.results.numbers import is_positive

_HEADERS_BYTES = 40
_TIMESTAMPS_BYTES = 12
_FRAMING_BYTES = 38
ABOVE_LINK = 1.02
"""A rate counts as above its link from so many times the ceiling: clocks of interfaces and of hosts differ a little."""


@dataclass(frozen=True)
class Link:
    """bytes_per_s: the most data it carries one way. bits_per_s, mtu_bytes: None where they are not known."""

    bytes_per_s: float
    says: str
    bits_per_s: float | None = None
    mtu_bytes: int | None = None


def payload_bytes_per_s(bits_per_s: float, mtu_bytes: int = 1500, timestamps: bool = False) -> float:
    """Most data that TCP over IPv4 and Ethernet carries one way, bytes per second.

    bits_per_s: speed of the link. mtu_bytes: largest packet, above 52. timestamps: RFC 7323's are in every segment;
    without them the figure is the bound that nothing on this link passes.
    """
    inside = mtu_bytes - _HEADERS_BYTES - (_TIMESTAMPS_BYTES if timestamps else 0)
    return bits_per_s / 8 * inside / (mtu_bytes + _FRAMING_BYTES)


def known_link(document: Mapping[str, Any]) -> Link | None:
    """The link that is known to lie on the way, or None.

    Known are the client's own network interface on the way to the target (`environment.route`) and, of a simulated
    target, its fact `client_nic_bytes_per_s`. What was planted in a system of the lab is not looked at.
    """
    environment = document.get("environment") or {}
    simulated = (environment.get("target") or {}).get("client_nic_bytes_per_s")
    if is_positive(simulated):
        return Link(float(simulated), "the simulated client's network interface")
    route = environment.get("route") or {}
    speed, mtu = route.get("speed_bits_per_s"), route.get("mtu_bytes") or 1500
    if not is_positive(speed) or mtu <= _HEADERS_BYTES:
        return None
    whose = "the" if is_foreign(document) else "this"
    names = " and ".join(route.get("interfaces") or [str(route.get("interface"))])
    return Link(payload_bytes_per_s(speed, mtu), f"{names} of {whose} client, {speed_text(speed)}", speed, mtu)


def link_ceiling_bytes_per_s(document: Mapping[str, Any]) -> float | None:
    """The most file data that the known link can carry one way, bytes per second; None where none is known.

    An upper bound: without TCP timestamps and headers of requests. Reads and writes at once have it each way.
    """
    link = known_link(document)
    return None if link is None else link.bytes_per_s


def speed_text(bits_per_s: float) -> str:
    """`1 Gbit/s`, `2.5 Gbit/s`, `100 Mbit/s`."""
    return f"{bits_per_s / 1e9:.3g} Gbit/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:.3g} Mbit/s"
