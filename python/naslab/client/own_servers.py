"""Servers of the lab that this process measures: their load on this machine is no other load."""

from __future__ import annotations

_supervisors: dict[str, int] = {}


def note(name: str, pid: int) -> None:
    """The lab's system `name` is supervised by process `pid`, the root of all its processes."""
    _supervisors[name] = pid


def supervisors(name: str) -> list[int]:
    """Process numbers of the supervisors of the system `name`; none if no target of it was opened here."""
    return [_supervisors[name]] if name in _supervisors else []
