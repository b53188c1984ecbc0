"""What links carry, against the reference's table of link ceilings, and which link a document knows."""

from __future__ import annotations

from typing import Any

import pytest

from naslab.analysis.linkrate import (
    depth_one_bytes_per_s,
    known_link,
    link_ceiling_bytes_per_s,
    message_bytes,
    payload_bytes_per_s,
    request_bytes_per_s,
)

# MB/s without and with timestamps: computed by hand from the framing's parts.
TABLE = [
    (1e8, 1500, 11.87, 11.77), (1e9, 1500, 118.66, 117.69), (1e9, 4000, 122.59, 122.21), (1e9, 9000, 123.92, 123.76),
    (2.5e9, 1500, 296.65, 294.21), (1e10, 9000, 1239.2, 1237.6), (2.5e10, 1500, 2966.5, 2942.1),
]  # fmt: skip


@pytest.mark.parametrize(("bits", "mtu", "plain", "stamped"), TABLE)
def test_payload_of_links(bits: float, mtu: int, plain: float, stamped: float) -> None:
    assert payload_bytes_per_s(bits, mtu) / 1e6 == pytest.approx(plain, rel=5e-4)
    assert payload_bytes_per_s(bits, mtu, timestamps=True) / 1e6 == pytest.approx(stamped, rel=5e-4)


MESSAGES = [
    ("smb", "3.1.1", "read", False, 99.872, 118.51), ("smb", "3.1.1", "write", False, 99.823, 118.45),
    ("smb", "3.1.1", "read", True, 99.793, 118.41), ("smb", "3.1.1", "write", True, 99.744, 118.36),
    ("nfs", "3", "read", False, 99.799, 118.42), ("nfs", None, "write", False, 99.805, 118.43),
    ("nfs", "4.1", "read", False, 99.836, 118.47), ("nfs", "4.1", "write", False, 99.702, 118.31),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "dialect", "way", "sealed", "percent", "rate"), MESSAGES)
def test_headers_of_requests(
    protocol: str, dialect: str | None, way: Any, sealed: bool, percent: float, rate: float
) -> None:
    header, _ = message_bytes(protocol, dialect, way, sealed)
    ceiling = payload_bytes_per_s(1e9)
    left = request_bytes_per_s(ceiling, 64 << 10, header)
    assert left / ceiling * 100 == pytest.approx(percent, abs=0.001)
    assert left / 1e6 == pytest.approx(rate, abs=0.01)


def test_one_request_in_flight_waits_for_its_round_trip() -> None:
    """67 MB/s of 64 KiB requests on 1 GbE are 425 us idle each, 77 MB/s are 298 us."""
    headers = message_bytes("smb", "3.1.1", "read")
    assert [round(depth_one_bytes_per_s(1e9, ms * 1e6, 64 << 10, headers) / 1e6) for ms in (0.1, 0.2, 0.5)] == [
        100, 87, 62,
    ]  # fmt: skip
    assert depth_one_bytes_per_s(1e9, 425_000, 64 << 10, headers) / 1e6 == pytest.approx(67, rel=0.005)
    assert depth_one_bytes_per_s(1e9, 298_000, 64 << 10, headers) / 1e6 == pytest.approx(77, rel=0.005)


def document(route: dict[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
    return {"environment": {"route": route, "target": facts}, "target": {"planted": [{"value": 1}]}}


def test_the_known_link_is_the_interface_on_the_way() -> None:
    route = {"interface": "eth0", "speed_bits_per_s": 10**9, "mtu_bytes": 9000}
    assert link_ceiling_bytes_per_s(document(route)) == pytest.approx(123.92e6, rel=1e-4)
    link = known_link(document(route))
    assert link is not None and "eth0" in link["says"] and "1 Gbit/s" in link["says"]


@pytest.mark.parametrize("route", [None, {}, {"interface": "lo", "speed_bits_per_s": None, "mtu_bytes": 65536}])
def test_no_link_is_made_up(route: dict[str, Any] | None) -> None:
    assert link_ceiling_bytes_per_s(document(route)) is None
    assert link_ceiling_bytes_per_s({}) is None


def test_a_simulated_client_has_an_interface_too() -> None:
    assert link_ceiling_bytes_per_s(document(client_nic_bytes_per_s=117_000_000)) == 117e6
    assert link_ceiling_bytes_per_s(document(client_nic_bytes_per_s=0)) is None
