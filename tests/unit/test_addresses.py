"""Several addresses of one server: how `--address` names them, and what documents and lines say of them."""

import pytest

from naslab.analysis.linkrate import known_link
from naslab.client import route
from naslab.errors import UsageError
from naslab.exchange.redact import redact
from naslab.execution.clients.merge import _by_address
from naslab.render.report import testbed
from naslab.results.addresses import address_line, bytes_by_address
from naslab.results.document import cell_document
from naslab.results.run import MemoryBlobs, Run
from naslab.targets import parse_target
from naslab.targets.forms import with_addresses

A, B = "10.0.0.1", "10.0.0.2"
TARGET = {
    "url": f"smb://nas/data?address={A},{B}",
    "protocol": "smb",
    "addresses": [A, B],
    "address_use": "multichannel",
}


def _cells(*moved: tuple[int, int]) -> list[dict[str, object]]:
    return [
        {"wire_by_address": [{"address": address, "sent_bytes": bytes_, "received_bytes": 0}
                             for address, bytes_ in zip((A, B), each, strict=True)]}
        for each in moved
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("smb://nas/data", "smb://nas/data?address=a,b"),
        ("nfs://nas/data?version=4.1", "nfs://nas/data?version=4.1&address=a,b"),
        ("lab:two-links", "lab:two-links?address=a,b"),
        (r"\\nas\data", r"\\nas\data?address=a,b"),
        ("smb://nas/data?", "smb://nas/data?address=a,b"),
    ],
)
def test_the_option_becomes_part_of_the_targets_name(text: str, named: str) -> None:
    assert with_addresses(text, "a,b") == named
    if not named.startswith("lab:"):
        assert parse_target(named).options["addresses"] == ["a", "b"]


@pytest.mark.parametrize("text", ["sim:", "null:", "/mnt/nas", "nas", "nas:/export", "file:///x"])
def test_targets_without_a_network_address_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--address a,b: .*only smb:// and nfs:// targets"):
        with_addresses(text, "a,b")


def test_addresses_are_given_once_and_no_password_is_told() -> None:
    with pytest.raises(UsageError, match="give one of them"):
        with_addresses("smb://nas/data?address=c", "a,b")
    with pytest.raises(UsageError) as caught:
        with_addresses("ftp://ann:secret@nas/data", "a,b")
    assert "secret" not in str(caught.value)


def test_what_the_engine_counts_becomes_a_list_by_address() -> None:
    spec = {"op": "read", "file_bytes": 1, "record_bytes": 1}
    counted = {A: {"sent_bytes": 1, "received_bytes": 2}, B: {"sent_bytes": 3, "received_bytes": 4}}
    cell = cell_document(spec, {"wire_by_address": counted})
    assert cell["wire_by_address"] == [{"address": A, **counted[A]}, {"address": B, **counted[B]}]
    assert "wire_by_address" not in cell_document(spec, {})
    merged = _by_address([{"wire_by_address": counted}, {"wire_by_address": {B: counted[B]}}, {}])
    assert merged == {"wire_by_address": {A: counted[A], B: {"sent_bytes": 6, "received_bytes": 8}}}
    assert _by_address([{}]) == {}


def test_a_line_says_how_much_went_where_and_over_how_many_sessions() -> None:
    document = {"target": TARGET, "cells": _cells((600, 200), (150, 50))}
    assert bytes_by_address(document) == {A: 750, B: 250}
    line = address_line(document)
    assert line == f"{A} 750 B (75 %), {B} 250 B (25 %); one SMB session over all of them (multichannel)"
    assert address_line({"target": TARGET, "cells": []}).startswith(f"{A}, {B}; one SMB session")
    assert bytes_by_address({"target": TARGET, "cells": _cells((5, 0))})[B] == 0, "one that nothing used is told"
    assert address_line({"target": {"url": "sim:"}, "cells": []}) == ""


def test_the_report_has_the_line_and_all_interfaces() -> None:
    route_ = {"interface": "eth0", "interfaces": ["eth0", "eth1"], "speed_bits_per_s": 2 * 10**9, "mtu_bytes": 1500}
    document = {"target": TARGET, "cells": _cells((600, 400)), "environment": {"route": route_}}
    shown = testbed.section([("one", document)]).replace("\N{NO-BREAK SPACE}", " ")
    assert f"{A} 600 B (60 %), {B} 400 B (40 %)" in shown and "eth0 and eth1, 2 Gbit/s" in shown
    link = known_link(document)
    assert link is not None and link.says == "eth0 and eth1 of this client, 2 Gbit/s"


def _route(name: str, speed: int | None) -> route.Route:
    return {"address": A, "interface": name, "loopback": False, "mtu_bytes": 1500, "speed_bits_per_s": speed,
            "says": name}  # fmt: skip


@pytest.mark.parametrize(
    ("ways", "speed", "interfaces"),
    [
        ({A: _route("eth0", 10**9), B: _route("eth1", 25 * 10**8)}, 35 * 10**8, ["eth0", "eth1"]),
        ({A: _route("eth0", 10**9), B: _route("eth0", 10**9)}, 10**9, None),
        ({A: _route("eth0", 10**9), B: _route("tun0", None)}, None, ["eth0", "tun0"]),
    ],
)
def test_the_links_ceiling_is_that_of_all_interfaces(
    ways: dict[str, route.Route], speed: int | None, interfaces: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two addresses behind one interface have its speed once; one that is not known leaves the sum unknown."""
    monkeypatch.setattr(route, "route_to", ways.get)
    found = route.route_to_all([A, B])
    assert found is not None and found["speed_bits_per_s"] == speed and found.get("interfaces") == interfaces
    one = route.nic_bytes_per_s([A])
    both = route.nic_bytes_per_s([A, B])
    assert one is not None and (both is None) == (speed is None)
    assert both is None or both == pytest.approx(one * speed / 10**9, rel=1e-6)  # type: ignore[operator]
    assert route.route_to_all([A, "not-known"]) is None


def test_redacted_documents_name_no_address() -> None:
    document = {
        "run_id": "x", "target": TARGET, "cells": _cells((5, 6)),
        "argv": ["naslab", "run", "smb://nas/data", "--address", A],
        "environment": {"route": {"interface": "enx001122", "interfaces": ["enx001122", "enx334455"]}},
        "warnings": [{"kind": "other_load", "message": f"the server at {B} answers", "cell": None}],
    }  # fmt: skip
    text = str(redact(Run(document, MemoryBlobs({}))).document)  # type: ignore[arg-type]
    assert A not in text and B not in text and "334455" not in text
    assert "host-" in text and "multichannel" in text
