"""`--ride-out`: the answer to one call about a name is lost, after the server carried the call out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli_tools import Cli, run_folders
from faults import Relay, relay
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.results.outages import outages_of

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]


def _is_nfs_3(procedure: int) -> Callable[[bytes], bool]:
    return lambda sent: sent[16:28] == b"".join(n.to_bytes(4, "big") for n in (100003, 3, procedure))


CALLS: dict[str, Callable[[bytes], bool]] = {
    "nfs 3 create": _is_nfs_3(8),
    "nfs 3 remove": _is_nfs_3(12),
    # OPEN to read and write, without a delegation; REMOVE.
    "nfs 4.1 create": lambda sent: b"\0\0\0\x12\0\0\0\0\0\0\x04\x03" in sent,
    "nfs 4.1 remove": lambda sent: b"\0\0\0\x1c\0\0\0\x0cnaslab.sweep" in sent,
    # An open that is to be kept; SET_INFO that has the file deleted.
    "smb create": lambda sent: b"DH2Q" in sent,
    "smb remove": lambda sent: b"\x21\0\x01\x0d" in sent,
}
"""How one of them looks on the wire."""


def _swept(cli: Cli, server: Any, network: Relay, query: str, is_call: Callable[[bytes], bool], nth: int) -> Any:
    """A sweep of three files, one after the other, whose nth such call the client gets no answer to."""
    seen = 0

    def watch(sent: bytes) -> bytes:
        nonlocal seen
        if is_call(sent):
            seen += 1
            if seen == nth:
                network.close_every(0, 1)
        return sent

    network.rewrite = watch
    url = f"{server.url}{'&' if '?' in server.url else '?'}{query}".replace(f":{server.port}/", f":{network.port}/")
    login = ("--credentials", server.credentials) if server.credentials else ()
    sizes = ("--file-size", "64k,128k,256k", "--record", "64k", "--tests", "write,read", "--verify")
    done = cli("sweep", url, *sizes, "--ride-out", "60s", "--json", *login)
    assert done.code == 0, done.err
    assert seen >= nth, "the call was made"
    return json.loads(done.out)


@pytest.mark.parametrize(
    ("name", "call", "query", "replayed"),
    [
        ("ganesha", "nfs 3 create", "version=3", 0), ("ganesha", "nfs 3 remove", "version=3", 0),
        ("ganesha", "nfs 4.1 create", "version=4.1", 1), ("ganesha", "nfs 4.1 remove", "version=4.1", 1),
        ("samba", "smb create", "", 0), ("samba", "smb remove", "", 0),
    ],
)  # fmt: skip
def test_a_call_whose_answer_was_lost_is_no_failure(name: str, call: str, query: str, replayed: int, cli: Cli) -> None:
    need_system(name)
    with lab.running(name, fast=name == "samba") as server, relay(server.port) as network:
        document = _swept(cli, server, network, query, CALLS[call], 2)
        assert run_folders(server.data) == [], "what the run made is removed"
    assert all(cell["status"] == "complete" and cell["errors"] == 0 for cell in document["cells"])
    (outage,) = outages_of(document)
    assert outage.repeated_calls == 1
    # What is created may exist already; what is removed may not be there.
    done_before = int(call.endswith("remove") and not replayed)
    assert outage.calls_done_before == done_before
    assert outage.answers_replayed == replayed
    assert "made again after the outage: 1" in " ".join(document["summary"])
