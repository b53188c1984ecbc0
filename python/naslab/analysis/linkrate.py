"""What a link can carry at most, by formula, and which link is known to lie between client and target.

Sources: IEEE 802.3 framing (38 bytes a frame: preamble and start 8, header 14, checksum 4, gap 12), RFC 791 and
9293 (40 bytes of headers), RFC 7323 (12 bytes of timestamps); message headers from MS-SMB2 and RFC 1813, 5531, 8881.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from naslab.results.foreign import is_foreign
from naslab.results.numbers import is_positive

_HEADERS_BYTES = 40
_TIMESTAMPS_BYTES = 12
_FRAMING_BYTES = 38
ABOVE_LINK = 1.02
"""A rate counts as above its link from so many times the ceiling: clocks of interfaces and of hosts differ a little."""

Direction = Literal["read", "write"]

_MESSAGE_BYTES: dict[str, dict[str, tuple[int, int]]] = {
    "smb": {"read": (84, 117), "write": (116, 84)},
    "nfs3": {"read": (132, 120), "write": (128, 164)},
    "nfs4": {"read": (108, 192), "write": (196, 116)},
}
"""Bytes around the data of one request: (in the data's direction, in the other)."""
_ENCRYPTED_BYTES = 52


def payload_bytes_per_s(bits_per_s: float, mtu_bytes: int = 1500, timestamps: bool = False) -> float:
    """Most data that TCP over IPv4 and Ethernet carries one way, bytes per second.

    bits_per_s: speed of the link. mtu_bytes: largest packet, above 52. timestamps: RFC 7323's are in every segment;
    without them the figure is the bound that nothing on this link passes.
    """
    inside = mtu_bytes - _HEADERS_BYTES - (_TIMESTAMPS_BYTES if timestamps else 0)
    return bits_per_s / 8 * inside / (mtu_bytes + _FRAMING_BYTES)


def message_bytes(protocol: str, dialect: str | None, direction: Direction, encrypted: bool = False) -> tuple[int, int]:
    """Bytes that a protocol puts around the data of one request: (in the data's direction, in the other).

    protocol: `smb` or `nfs`; others have none. dialect: as in the target record; NFS without one counts as version 3.
    """
    kind = (
        protocol if protocol != "nfs" else "nfs4" if str(dialect or "").removeprefix("nfs").startswith("4") else "nfs3"
    )
    there, back = _MESSAGE_BYTES.get(kind, {}).get(direction, (0, 0))
    more = _ENCRYPTED_BYTES if encrypted and there else 0
    return there + more, back + more


def request_bytes_per_s(ceiling_bytes_per_s: float, record_bytes: int, header_bytes: int) -> float:
    """What is left of a link's ceiling for file data when each request of record_bytes carries a header."""
    return ceiling_bytes_per_s * record_bytes / (record_bytes + header_bytes)


def depth_one_bytes_per_s(
    bits_per_s: float,
    round_trip_ns: float,
    record_bytes: int,
    headers: tuple[int, int],
    mtu_bytes: int = 1500,
    timestamps: bool = False,
) -> float:
    """Rate of one request in flight: request and reply one after the other on the wire, and a round trip.

    headers: as `message_bytes` gives them. round_trip_ns: of an empty request.
    """
    around = _FRAMING_BYTES + _HEADERS_BYTES + (_TIMESTAMPS_BYTES if timestamps else 0)
    segment = mtu_bytes + _FRAMING_BYTES - around

    def wire_s(size: int) -> float:
        return 8 * (size + math.ceil(size / segment) * around) / bits_per_s

    return record_bytes / (wire_s(record_bytes + headers[0]) + wire_s(headers[1]) + round_trip_ns / 1e9)


def known_link(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The link that is known to lie on the way: `{"bytes_per_s", "bits_per_s", "mtu_bytes", "says"}`, or None.

    bytes_per_s: the most data it carries one way. Known are the client's own network interface on the way to the
    target (`environment.route`) and, of a simulated target, its fact `client_nic_bytes_per_s` (then bits_per_s and
    mtu_bytes are None). What was planted in a system of the lab is not looked at.
    """
    environment = document.get("environment") or {}
    simulated = (environment.get("target") or {}).get("client_nic_bytes_per_s")
    if is_positive(simulated):
        says = "the simulated client's network interface"
        return {"bytes_per_s": float(simulated), "bits_per_s": None, "mtu_bytes": None, "says": says}
    route = environment.get("route") or {}
    speed, mtu = route.get("speed_bits_per_s"), route.get("mtu_bytes") or 1500
    if not is_positive(speed) or mtu <= _HEADERS_BYTES:
        return None
    whose = "the" if is_foreign(document) else "this"
    names = " and ".join(route.get("interfaces") or [str(route.get("interface"))])
    says = f"{names} of {whose} client, {speed_text(speed)}"
    rate = payload_bytes_per_s(speed, mtu)
    return {"bytes_per_s": rate, "bits_per_s": speed, "mtu_bytes": mtu, "says": says}


def link_ceiling_bytes_per_s(document: Mapping[str, Any]) -> float | None:
    """The most file data that the known link can carry one way, bytes per second; None where none is known.

    An upper bound: without TCP timestamps and headers of requests. Reads and writes at once have it each way.
    """
    link = known_link(document)
    return None if link is None else link["bytes_per_s"]


def speed_text(bits_per_s: float) -> str:
    """`1 Gbit/s`, `2.5 Gbit/s`, `100 Mbit/s`."""
    return f"{bits_per_s / 1e9:.3g} Gbit/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:.3g} Mbit/s"
