"""NFS 3, 4.0, 4.1 and 4.2 over TLS to a real Ganesha, behind a front of OpenSSL's; several addresses, and an outage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from certificates import Authority
from cli_tools import Cli
from faults import relay
from kerberos_lab import all_verified
from lab_tools import need_system
from naslab.lab import running
from naslab.lab.ganesha import VERSIONS
from naslab.results.outages import outages_of
from tls_front import Front, front

pytestmark = pytest.mark.lab
SMALL = ("--file-size", "4m", "--record", "4k,1m", "--depth", "8", "--verify", "--json")
MOUNT = 100_005


@dataclass
class Place:
    """Fronts before the ports of NFS and of the mount service."""

    nfs: Front
    mount: Front
    authority: Path

    def url(self, query: str, port: int = 0) -> str:
        options = f"mountport={self.mount.port}&xprtsec=tls&tlscacert={self.authority}&{query}"
        return f"nfs://localhost:{port or self.nfs.port}/data?{options}"

    def nothing_was_in_the_clear(self) -> None:
        """Fails where it was."""
        for each in (self.nfs, self.mount):
            assert each.in_the_clear == [] and each.not_records == []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_system("ganesha")
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    context = authority.sign("server").context()
    with ExitStack() as stack:
        server = stack.enter_context(running("ganesha"))
        nfs, mount = (stack.enter_context(front(port, context)) for port in (server.port, server.mount_port))
        yield Place(nfs, mount, authority.certificate)


def sealed(document: Any, version: str) -> None:
    """Fails unless it was measured over TLS."""
    told = document["target"]
    assert (told["dialect"], told["xprtsec"], told["tls_version"]) == (version, "tls", "1.3")
    assert told["encryption"] == "aes-256-gcm"
    all_verified(document)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_verified_sweep(place: Place, cli: Cli, version: str) -> None:
    sealed(cli("sweep", place.url(f"version={version}&connections=2"), *SMALL).ok().json(), version)
    place.nothing_was_in_the_clear()


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_two_addresses(place: Place, cli: Cli, version: str) -> None:
    """The certificate is for the name in the target, whatever the addresses."""
    url = place.url(f"version={version}&address=127.0.0.1,localhost")
    document = cli("sweep", url, *SMALL).ok().json()
    sealed(document, version)
    assert document["target"]["addresses"] == ["127.0.0.1", "localhost"]
    place.nothing_was_in_the_clear()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_outage_is_waited_out(place: Place, cli: Cli, version: str) -> None:
    with relay(place.nfs.port) as way:
        way.close_every(1_000_000, 2)
        load = ("--size", "16m", "--block", "64k", "--depth", "8", "--duration", "3s", "--ride-out", "60s", "--json")
        document = cli("sustained", place.url(f"version={version}", way.port), *load).ok().json()
        assert way.closings_left == 0
    assert len(outages_of(document)) == 2
    place.nothing_was_in_the_clear()


def test_a_server_of_its_own_offers_none(cli: Cli) -> None:
    need_system("ganesha")
    with running("ganesha") as server:
        found = cli("doctor", server.url, "--json").ok().json()
        assert found["offers_tls"] is False and found["usable"]
        separator = "&" if "?" in server.url else "?"
        done = cli("run", f"{server.url}{separator}xprtsec=tls&tlsverify=off", "--budget", "10s", "--quiet").sound()
        assert done.code == 2 and "the server does not offer TLS (RFC 9289" in done.err
