"""The embedded NFS 3 server as a system of the lab: in a process of its own, so that CPU figures stay true."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from naslab.lab.place import Place, Service, free_port


@dataclass(frozen=True)
class EmbeddedOptions:
    """The embedded server has no options."""


def prepare(place: Place, _options: EmbeddedOptions) -> Service:
    """The server to start."""
    port = free_port()
    url = f"nfs://127.0.0.1:{port}/data?version=3&mountport={port}"
    facts = {
        "url": url, "targets": {"data": url}, "user": "", "port": port, "mount_port": port, "protocol": "nfs",
        "versions": ["3"],
    }  # fmt: skip
    command = [sys.executable, "-m", "naslab.lab.demo_server", str(place.data), "--port", str(port)]
    return Service(command, port, facts, place.folder / "server.log")
