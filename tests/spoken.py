"""Protocols as servers of the lab speak them, for tests that try all of them."""

from __future__ import annotations

from naslab import lab
from naslab.lab import systems

SPOKEN = {
    "smb-2.1": ("samba", "dialect=2.1"), "smb-3.1.1": ("samba", "dialect=3.1.1"), "nfs-3": ("demo", "version=3"),
    "nfs-4.0": ("ganesha", "version=4.0"), "nfs-4.1": ("ganesha", "version=4.1"),
}  # fmt: skip
"""The lab's system that speaks it, and how its URL asks for it."""
SYSTEMS = sorted({system for system, _ in SPOKEN.values()})


def missing_packages() -> str:
    """What has to be installed for all of them."""
    return " ".join(sorted({package for name in SYSTEMS for package in systems.missing_packages(systems.system(name))}))


def words_through(server: lab.Server, query: str, port: int) -> list[str]:
    """Target and credentials of a command whose connections go through a relay at `port`."""
    base = server.url.partition("?")[0].replace(f":{server.port}", f":{port}", 1)
    mount = f"&mountport={port}" if server.name == "demo" else ""
    return [f"{base}?{query}{mount}", *(["--credentials", server.credentials] if server.credentials else [])]
