"""`naslab run 192.168.1.5`: what a machine offers, and so what to type. A host alone is no target."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from naslab import _engine
from naslab.errors import NaslabError, UsageError
from naslab.targets import parse_target
from naslab.targets.nfs import DEFAULT_PORT as NFS_PORT
from naslab.targets.nfs import PORTMAP_PORT
from naslab.targets.smb import DEFAULT_PORT as SMB_PORT

CONNECT_S, LIST_S = 2.0, 4.0
"""How long a port, and then a list of shares or exports, is waited for. Both servers are asked at once."""
MAX_SHOWN = 8
_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)


@dataclass
class Offer:
    """What one protocol offers. open: a port took a connection. names: shares or exports, None if hidden."""

    scheme: str
    open: bool = False
    names: list[str] | None = None


@dataclass
class Nearby:
    """A machine by its name or address. known: the name has an address."""

    host: str
    known: bool = True
    offers: list[Offer] = field(default_factory=list)


Connect = Callable[[str, int], bool]
List = Callable[[str], list[str] | None]


def host_of(text: str) -> str | None:
    """The machine that a target's text names alone, as an URL has it; None for all else, also for paths that exist.

    A word without a dot is a machine only where its name is known: it may as well be a folder that is not there.
    """
    if not text or os.path.lexists(text) or text.startswith((".", "~", "/")):
        return None
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        pass
    else:
        return f"[{address}]" if address.version == 6 else str(address)
    if not _HOST.fullmatch(text) or re.fullmatch(r"[0-9.]+", text):
        return None
    known = "." in text and text.rpartition(".")[2].lower() not in (
        "toml",
        "json",
        "html",
        "csv",
        "trace",
        "zst",
        "xml",
    )
    return text if known or _is_known(text) else None


def _is_known(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return False


def _takes(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host.strip("[]"), port), timeout=CONNECT_S):
            return True
    except (OSError, UnicodeError):
        return False


def listed(url: str) -> list[str] | None:
    """Shares or exports that a server lists to a guest; None where it does not."""
    try:
        target = parse_target(url, whole_server=True).with_timeout(int(LIST_S * 1e9))
        found: list[dict[str, Any]] = json.loads(_engine.list_exports(target.engine_json()))
    except NaslabError:
        return None
    return [str(each["name"]) for each in found if each.get("kind", "disk") not in ("ipc", "printer")
            and not str(each["name"]).upper().endswith("IPC$")]  # fmt: skip


def look(host: str, takes: Connect = _takes, names: List = listed) -> Nearby:
    """Asks the ports of SMB and NFS, at once, and those that are open for their lists. It ends within seconds."""
    nearby = Nearby(host, _is_known(host), [Offer("smb"), Offer("nfs")])
    if not nearby.known:
        return nearby
    smb, nfs = nearby.offers

    def ask_smb() -> None:
        smb.open = takes(host, SMB_PORT)
        if smb.open:
            smb.names = names(f"smb://{host}?auth=guest")

    def ask_nfs() -> None:
        nfs.open = takes(host, NFS_PORT) or takes(host, PORTMAP_PORT)
        if nfs.open:
            nfs.names = names(f"nfs://{host}")

    asking = [threading.Thread(target=each, daemon=True) for each in (ask_smb, ask_nfs)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(2 * CONNECT_S + LIST_S)
    return nearby


def advice(nearby: Nearby, command: str) -> str:
    """What to type, a line each. command: as it is typed before a target, e.g. `naslab run`."""
    host = nearby.host
    if not nearby.known:
        return f"{host}: this host name cannot be resolved: check its spelling, or give the server's IP address"
    offers = [offer for offer in nearby.offers if offer.open]
    if not offers:
        return (
            f"{host} answers neither SMB (port {SMB_PORT}) nor NFS (ports {NFS_PORT}, {PORTMAP_PORT}): "
            f"enable one of them there, or give its port: smb://{host}:PORT/SHARE"
        )
    lines = [f"{host} is a server; name what to measure on it:"]
    for offer in offers:
        lines += to_type(offer, host, command)
    return "\n".join(lines)


def to_type(offer: Offer, host: str, command: str) -> list[str]:
    """Command lines for what a machine offers by one protocol, or why it lists nothing."""
    server = f"{offer.scheme}://{host}"
    if offer.names:
        shown = [f"  {command} {server}/{name.strip('/')}" for name in offer.names[:MAX_SHOWN]]
        more = len(offer.names) - MAX_SHOWN
        return [*shown, *([f"  and {more} more: naslab doctor {server}"] if more > 0 else [])]
    if offer.scheme == "smb":
        return [
            f"  {command} {server}/SHARE",
            f"  it lists its shares for users only: naslab doctor smb://USER@{host}",
        ]
    return [f"  {command} {server}/EXPORT", f"  it lists no exports: naslab doctor {server}"]


def refuse_host(text: str, command: str) -> None:
    """Raises UsageError with the lines to type, where a target's text is a machine alone."""
    if host := host_of(text):
        raise UsageError(advice(look(host), command))
