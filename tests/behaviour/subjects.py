"""Everything the behaviour suite runs against: each target in each way of speaking to it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli_tools import need, of_the_lab
from kerberos_lab import kerberos_ganesha
from naslab import lab
from naslab.errors import UsageError
from naslab.lab.server import Server
from naslab.targets import Target, parse_target

TIMEOUT_NS = 20_000_000_000
KERBEROS = "ganesha in a realm"
"""A server that the lab does not have by itself: its realm belongs to the tests."""


@dataclass(frozen=True)
class Subject:
    """A target and how to speak to it.

    name: as pytest shows it. system: the lab's server behind it, "" for none. query: of the target's name.
    expect: facts that must have been negotiated. share: of an SMB server. depth: operations in flight to ask for.
    """

    name: str
    system: str = ""
    query: str = ""
    expect: tuple[tuple[str, str], ...] = ()
    share: str = "data"
    depth: int = 32

    @property
    def is_server(self) -> bool:
        """Whether a program of the distribution is behind it."""
        return self.system not in {"", "demo"}


def _smb() -> Iterator[Subject]:
    signings = {"2.0.2": ["hmac-sha256"], "2.1": ["hmac-sha256"], "3.0": ["aes-cmac"], "3.0.2": ["aes-cmac"]}
    signings["3.1.1"] = ["hmac-sha256", "aes-cmac", "aes-gmac"]
    ciphers = {"3.0": ["aes-128-ccm"], "3.0.2": ["aes-128-ccm"]}
    ciphers["3.1.1"] = ["aes-128-ccm", "aes-128-gcm", "aes-256-ccm", "aes-256-gcm"]
    for dialect, signed in signings.items():
        says = ("dialect", dialect)
        yield Subject(
            f"smb-{dialect}",
            "samba",
            f"dialect={dialect}&sign=off",
            (says, ("signing", "none"), ("encryption", "none")),
        )
        for algorithm in signed:
            pin = f"&signing={algorithm}" if dialect == "3.1.1" else ""
            yield Subject(
                f"smb-{dialect}-{algorithm}", "samba", f"dialect={dialect}&sign=on{pin}", (says, ("signing", algorithm))
            )
        for cipher in ciphers.get(dialect, []):
            query = f"dialect={dialect}&encrypt={cipher.replace('-', '')}"
            yield Subject(f"smb-{dialect}-{cipher}", "samba", query, (says, ("encryption", cipher)))
    yield Subject("smb-demanding-signing", "samba-signed", "")
    yield Subject("smb-demanding-encryption", "samba-encrypted", "")
    yield Subject("smb-secret-share", "samba", "", (("encryption", "aes-128-gcm"),), share="secret")
    yield Subject("smb-multichannel", "samba", "connections=3", (("multichannel", "yes"), ("connections", "3")))
    yield Subject("smb-connections", "samba", "connections=3&multichannel=off", (("connections", "3"),))
    yield Subject("smb-2.1-connections", "samba", "dialect=2.1&connections=2", (("dialect", "2.1"),))
    yield Subject("smb-lease", "samba", "lease=rwh")


def _nfs() -> Iterator[Subject]:
    for version in ("3", "4.0", "4.1", "4.2"):
        yield Subject(f"nfs-{version}", "ganesha", f"version={version}", (("dialect", version),))
        says = (("dialect", version), ("connections", "3"))
        yield Subject(f"nfs-{version}-connections", "ganesha", f"version={version}&connections=3", says)
    for version, sec, connections in (("3", "krb5i", 1), ("4.0", "krb5p", 1), ("4.1", "krb5", 1), ("4.2", "krb5p", 3)):
        query = f"version={version}&sec={sec}&connections={connections}"
        yield Subject(f"nfs-{version}-{sec}", KERBEROS, query, (("dialect", version), ("sec", sec)))


SUBJECTS: tuple[Subject, ...] = (
    Subject("local-posix", query="engine=posix", depth=1),
    Subject("local-uring", query="engine=uring"),
    Subject("sim", query="sim:?store_data=true"),
    Subject("demo", "demo", "", (("dialect", "3"),)),
    *_smb(),
    *_nfs(),
)


class Servers:
    """The lab's servers, each started when first asked for."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._running: dict[str, Server] = {}
        self._why_not: dict[str, str] = {}

    def get(self, name: str) -> Server:
        """A running server. Skips, or fails where the lab is required, when this machine cannot run it.

        A test that needs one is the lab's also where it is there: else it would fail on a machine without it alone.
        """
        if name != "demo":
            of_the_lab(name)
        if name not in self._running and name not in self._why_not:
            try:
                self._running[name] = self._in_realm() if name == KERBEROS else self._start(lab.running(name))
            except UsageError as error:
                self._why_not[name] = str(error)
        if name not in self._running:
            need(False, self._why_not[name])
        return self._running[name]

    def _start(self, server: contextlib.AbstractContextManager[Server]) -> Server:
        return self._stack.enter_context(server)

    def _in_realm(self) -> Server:
        """Ganesha with Kerberos, and a ticket for this process."""
        made, server = self._stack.enter_context(kerberos_ganesha(self.folder()))
        made.kinit("cache")
        return server

    def folder(self) -> Path:
        """A folder of this machine for the local targets."""
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="naslab-behaviour-")))

    def close(self) -> None:
        """Ends all of them."""
        self._stack.close()


def share_target(server: Server, share: str, query: str = "", **options: Any) -> Target:
    """A share or export of a server of the lab, with the options of `query`."""
    # A ticket is for a name.
    url = server.targets[share].replace("127.0.0.1", "localhost" if "sec=krb5" in query else "127.0.0.1")
    target = parse_target(url + (("&" if "?" in url else "?") + query if query else ""))
    return server.logged_in(target).with_options(timeout_ns=TIMEOUT_NS, **options)


def subject_target(subject: Subject, servers: Servers) -> Target:
    """The target of a subject, its server started."""
    if subject.system:
        return share_target(servers.get(subject.system), subject.share, subject.query)
    if subject.query.startswith("sim:"):
        return parse_target(subject.query)
    return parse_target(f"{servers.folder()}?{subject.query}")
