"""A man in the middle who takes the better dialects out of SMB's negotiation: naslab does not go on."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest

from cli_tools import Cli, need
from faults import relay
from naslab import lab
from naslab.lab import systems

LOWER = {"2.0.2": 0x0202, "2.1": 0x0210, "3.0": 0x0300, "3.0.2": 0x0302}
NEGOTIATE_BODY, DIALECTS = 4 + 64, 4 + 64 + 36
"""Places in the first message: its head of four bytes, SMB2's of 64, and the list of dialects after 36 more."""


@pytest.fixture(scope="module")
def server() -> Iterator[lab.Server]:
    missing = systems.missing_packages(systems.system("samba"))
    need(not missing, " ".join(missing))
    with lab.running("samba") as found:
        yield found


def only(dialect: int) -> Callable[[bytes], bytes]:
    """Leaves one dialect of those that a client offers."""

    def rewrite(data: bytes) -> bytes:
        is_negotiation = data[4:8] == b"\xfeSMB" and struct.unpack_from("<H", data, 16)[0] == 0 and len(data) > DIALECTS
        if not is_negotiation:
            return data
        changed = bytearray(data)
        struct.pack_into("<H", changed, NEGOTIATE_BODY + 2, 1)
        struct.pack_into("<H", changed, DIALECTS, dialect)
        return bytes(changed)

    return rewrite


@pytest.mark.parametrize("dialect", LOWER)
def test_a_lowered_dialect_is_noticed(dialect: str, server: lab.Server, cli: Cli) -> None:
    known = ["--credentials", server.credentials] if server.credentials else []
    with relay(server.port) as way:
        way.rewrite = only(LOWER[dialect])
        url = server.url.replace(f":{server.port}", f":{way.port}", 1)
        done = cli("sweep", url, *known, "--file-size", "64k", "--record", "64k", "--timeout", "5s").sound()
        assert done.code == 2 and "somebody changed the negotiation" in done.err, done.err
        assert list(server.data.iterdir()) == [] and not cli.store.exists()
        # Who names that dialect has nothing taken away.
        url += "&" if "?" in url else "?"
        cli("sweep", f"{url}dialect={dialect}", *known, "--file-size", "64k", "--record", "64k", "--quiet").ok()
