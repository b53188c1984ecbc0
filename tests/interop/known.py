"""What a server that others wrote does wrong: (server, what was tried) to why, and what naslab must report then."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """why: for people. said: a regular expression that naslab's last line has."""

    why: str
    said: str


_FORGETS = "FSAL MEM stores no data: reads return other bytes than were written"
KNOWN: dict[tuple[str, str], Fault] = {
    ("ganesha-mem", "doctor"): Fault(_FORGETS, "the data read back differ from the data written"),
    ("ganesha-mem", "sweep"): Fault(_FORGETS, r"\d+ records differ from the written data"),
    ("ganesha-mem", "job"): Fault(_FORGETS, r"\d+ records differ from the written data"),
}
