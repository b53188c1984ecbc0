"""The lab: private servers from this machine's own packages, started and removed as a whole.

with naslab.lab.running("samba") as server:
    print(server.url, server.user, server.password, server.targets["readonly"])
"""

from __future__ import annotations

from naslab.lab.server import Server, running, start
from naslab.lab.systems import SYSTEMS

__all__ = ["SYSTEMS", "Server", "running", "start"]
