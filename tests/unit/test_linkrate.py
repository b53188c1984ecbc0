"""What links carry, against the reference's table of link ceilings, and which link a document knows."""

from __future__ import annotations

from typing import Any

import pytest

from naslab.analysis.linkrate import (
    known_link,
    link_ceiling_bytes_per_s,
    payload_bytes_per_s,
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


def document(route: dict[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
    return {"environment": {"route": route, "target": facts}, "target": {"planted": [{"value": 1}]}}


def test_the_known_link_is_the_interface_on_the_way() -> None:
    route = {"interface": "eth0", "speed_bits_per_s": 10**9, "mtu_bytes": 9000}
    assert link_ceiling_bytes_per_s(document(route)) == pytest.approx(123.92e6, rel=1e-4)
    link = known_link(document(route))
    assert link is not None and "eth0" in link.says and "1 Gbit/s" in link.says


@pytest.mark.parametrize("route", [None, {}, {"interface": "lo", "speed_bits_per_s": None, "mtu_bytes": 65536}])
def test_no_link_is_made_up(route: dict[str, Any] | None) -> None:
    assert link_ceiling_bytes_per_s(document(route)) is None
    assert link_ceiling_bytes_per_s({}) is None


def test_a_simulated_client_has_an_interface_too() -> None:
    assert link_ceiling_bytes_per_s(document(client_nic_bytes_per_s=117_000_000)) == 117e6
    assert link_ceiling_bytes_per_s(document(client_nic_bytes_per_s=0)) is None
