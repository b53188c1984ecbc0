"""The lab: private servers from this machine's own packages, started and removed as a whole.

with naslab.lab.running("samba") as server:
    print(server.url, server.user, server.password, server.targets["readonly"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from naslab.lab.server import Server, running, start
    from naslab.lab.systems import SYSTEMS

__all__ = ["SYSTEMS", "Server", "running", "start"]


def __getattr__(name: str) -> object:
    """What the room offers, loaded when it is asked for: other targets' commands only look whether theirs is one."""
    if name not in __all__:
        raise AttributeError(f"module 'naslab.lab' has no attribute {name!r}")
    from naslab.lab import server, systems

    return getattr(systems if name == "SYSTEMS" else server, name)
