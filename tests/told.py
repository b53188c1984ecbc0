"""What the engine says of an error, from its own line: `mkdir: Permission denied (os error 13), path=naslab-1`."""

from __future__ import annotations

import re

from naslab.text.messages import Failure, failure

_FACT = re.compile(r", ([a-z_]+)=([^=]*)\Z")


def told(line: str, kind: str = "io", status: int = 0) -> Failure:
    """Its parts. kind, status: class and raw status, which no line has."""
    operation, _, cause = line.partition(": ")
    facts: list[tuple[str, str]] = []
    while found := _FACT.search(cause):
        facts.insert(0, (found[1], found[2]))
        cause = cause[: found.start()]
    return failure({"kind": kind, "status": status, "operation": operation, "cause": cause, "facts": facts})
