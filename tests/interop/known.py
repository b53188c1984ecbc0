"""What a server that others wrote does wrong or cannot: (server, what was tried) to why, and what naslab must say."""

from __future__ import annotations

from typing import NamedTuple

_EVERY = ("doctor", "sweep", "tree", "job", "apps", "replay", "restart")


class Fault(NamedTuple):
    """why: for people. said: a regular expression that naslab's last line has."""

    why: str
    said: str


_USED_UP = "No quota is left, and Samba reports it: there is no room for the files of a run"
_USED_UP_HIDDEN = "No quota is left, and Samba reports the room of the whole disk: it refuses the first folder"
_FORGETS = "FSAL MEM stores no data: reads return other bytes than were written"
KNOWN: dict[tuple[str, str], Fault] = {
    ("ganesha-mem", "doctor"): Fault(_FORGETS, "the data read back differ from the data written"),
    ("ganesha-mem", "sweep"): Fault(_FORGETS, r"\d+ records differ from the written data"),
    ("ganesha-mem", "job"): Fault(_FORGETS, r"\d+ records differ from the written data"),
    **{
        ("samba-quota-full", what): Fault(_USED_UP, r"no space or quota is left|has [\d.]+ [kM]?B free")
        for what in _EVERY
    },
    **{("samba-quota-hidden-full", what): Fault(_USED_UP_HIDDEN, "quota") for what in _EVERY},
}
