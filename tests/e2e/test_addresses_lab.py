"""One server at several addresses: two shaped links carry together what they carry each, an address of another server
is refused, and so is one that cannot be reached.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from cli_tools import Cli, Done, run_folders
from faults import relay
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.lab.server import Server
from naslab.lab.two_links import SERVERS

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
A, B = SERVERS
BOTH = f"{A},{B}"
SUM = 1.6
"""So many times the rate of one link is that of both together, at least."""
EVEN = (0.4, 0.6)
"""An address's share of the bytes where both links are alike."""


def _with(target: str, query: str) -> str:
    return target + (("&" if "?" in target else "?") + query if query else "")


def _read(cli: Cli, server: Server, *words: object, query: str = "") -> Any:
    """The document of large reads and writes, four outstanding."""
    login = ("--credentials", server.credentials) if server.credentials else ()
    load = ("--file-size", "64m", "--record", "1m", "--tests", "read", "--depth", "4", "--verify")
    target = _with(server.url, query)
    return cli("sweep", target, *words, *load, *login, "--json", prefix=server.inside()).ok().json()


def _rate(document: Any, op: str) -> float:
    return float(next(cell["throughput_bytes_per_s"] for cell in document["cells"] if cell["op"] == op))


def _check_sum(alone: Any, together: Any) -> None:
    """Both links carry the sum, half each, and every byte is counted at one address."""
    assert together["target"]["addresses"] == [A, B] and "addresses" not in alone["target"]
    for cell in together["cells"]:
        by_address = {each["address"]: each["sent_bytes"] + each["received_bytes"] for each in cell["wire_by_address"]}
        assert sum(by_address.values()) == cell["wire_bytes"] >= cell["bytes"]
        assert EVEN[0] < by_address[A] / cell["wire_bytes"] < EVEN[1], (cell["op"], by_address)
        assert cell["op"] == "write" or cell["verified"]["bad"] == 0
    for op in ("write", "read"):
        assert _rate(together, op) > SUM * _rate(alone, op), (op, _rate(alone, op), _rate(together, op))


def test_smb_uses_two_links_as_one_session(cli: Cli) -> None:
    """Named or listed by the server itself; the run says that it was one session, and `show` how much went where."""
    need_system("two-links")
    with lab.running("two-links", rate="12MB/s") as server:
        alone, named = _read(cli, server), _read(cli, server, "--address", BOTH)
        _check_sum(alone, named)
        assert named["target"]["address_use"] == "multichannel"
        listed = _read(cli, server, "--address", "auto")
        facts = listed["environment"]["target"]
        assert listed["target"]["addresses"] == [A, B] and facts["multichannel"] == "yes", facts
        assert "Gbit/s" in facts["interfaces"]
        shown = cli("show", named["run_id"]).ok().out
        assert "one SMB session over all of them (multichannel)" in " ".join(shown.split()), shown
        assert re.search(rf"{re.escape(A)} [\d.]+ MB \((4|5)\d %\)", shown), shown
        route = named["environment"]["route"]
        assert route["interfaces"] == ["eth0", "eth1"] and route["speed_bits_per_s"] is None


def test_smb_without_multichannel_spreads_sessions_and_says_so(cli: Cli) -> None:
    need_system("two-links")
    with lab.running("two-links", rate="12MB/s", multichannel=False) as server:
        together = _read(cli, server, "--address", BOTH)
        _check_sum(_read(cli, server), together)
        assert together["target"]["address_use"] == "separate_sessions"
        assert together["environment"]["target"]["multichannel"] == "not offered"
        refused = cli("sweep", server.url, "--address", "auto", "--credentials", server.credentials,
                      prefix=server.inside())  # fmt: skip
        assert refused.code == 2 and "the server lists no addresses" in refused.err, refused.err


@pytest.mark.parametrize(
    ("version", "use"),
    [("3", "separate_mounts"), ("4.0", "shared_client"), ("4.1", "session_trunking")],
)
def test_nfs_uses_two_links(version: str, use: str, cli: Cli) -> None:
    need_system("two-links-nfs")
    with lab.running("two-links-nfs", rate="12MB/s") as server:
        query = f"version={version}"
        together = _read(cli, server, "--address", BOTH, query=query)
        _check_sum(_read(cli, server, query=query), together)
        assert together["target"]["address_use"] == use and together["target"]["dialect"] == version


def _refused(done: Done, cli: Cli, server: Server, *words: str) -> None:
    """Exit 2 with a line that says these words; no run is stored, and nothing is on the server."""
    assert done.code == 2 and not done.out, (done.code, done.out, done.err)
    for word in words:
        assert word in done.err, done.err
    assert cli.runs() == [] and run_folders(server.data) == []


@pytest.mark.parametrize("name", ["samba", "ganesha"])
def test_addresses_that_lead_elsewhere_are_refused(name: str, cli: Cli) -> None:
    """An address where nobody listens, and one where another server of the same kind and name answers; one that leads
    to the same server by another way is used.
    """
    need_system(name)
    with lab.running(name) as server, lab.running(name) as other:
        login = ("--credentials", server.credentials) if server.credentials else ()
        small = ("--file-size", "1m", "--record", "64k", "--tests", "read", *login)
        url = _with(server.url, "version=4.1" if name == "ganesha" else "")
        nobody = cli("sweep", url, "--address", "127.0.0.1,127.0.0.2", *small, prefix=server.inside())
        _refused(nobody, cli, server, "127.0.0.2", f"port {server.port}")
        with relay(other.port, ("127.0.0.2", server.port)):
            there = server.targets["public"] if name == "samba" else url  # a guest: the other has another password
            guest = small[: -len(login)] if login else small
            elsewhere = cli("sweep", there, "--address", "127.0.0.1,127.0.0.2", *guest, prefix=server.inside())
            _refused(elsewhere, cli, server, "127.0.0.2 is another server than 127.0.0.1")
        with relay(server.port, ("127.0.0.2", server.port)):
            words = ("--address", "127.0.0.1,127.0.0.2", *small, "--verify", "--json")
            document = cli("sweep", url, *words, prefix=server.inside()).ok().json()
        assert document["target"]["address_use"] == {"samba": "multichannel", "ganesha": "session_trunking"}[name]
        moved = [each["received_bytes"] for each in document["cells"][-1]["wire_by_address"]]
        assert min(moved) > 0.3 * sum(moved)
