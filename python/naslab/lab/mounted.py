"""Systems whose clients are kernels that mount the server, in guests: what is measured there and how it is reported."""

from __future__ import annotations

import shlex

from naslab.lab.server import Server

WHY = "its clients are guests whose kernels mount it, and naslab runs there"


def words(server: Server) -> list[str]:
    """Commands that measure a running system's mount, and the same server by naslab's own client in the same guest."""
    facts = server.facts
    inside = f"naslab lab exec {server.name} -- naslab run"
    login = f" --credentials {facts['mount_credentials']}" if facts.get("mount_credentials") else ""
    return [f"{inside} {facts['mount']}", f"{inside} {shlex.quote(server.url)}{login}"]
