"""What signing and encryption cost here: the same reads with each that the server agrees to.

Only for SMB: the flavours of NFS need a ticket, which `naslab security` asks for. Each way of protection needs sessions
of its own, so the step comes last, on a new folder; two rounds in opposite order keep drift out of the ratio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from naslab.errors import NaslabError
from naslab.explain.points import Point
from naslab.explain.steps import LARGE_RECORD, PROTECTED, Load, load_cell, small_cell, small_files

if TYPE_CHECKING:
    from naslab.execution.execute import Execution
    from naslab.explain.climb import Climb
    from naslab.targets import Target

WAYS = (("plain", "off", "off"), ("signed", "on", "off"), ("encrypted", "auto", "required"))
"""Name, signing, encryption: as options of a target."""
ROUNDS = 2


def ways_of(execution: Execution) -> list[tuple[str, Target]]:
    """The ways a server agrees to, by what it negotiates when asked; those that come to the same are left out."""
    found: dict[str, Target] = {}
    for _, sign, encrypt in WAYS:
        asked = execution.target.with_options(sign=sign, encrypt=encrypt, signing_algorithm=None, cipher=None)
        try:
            facts = execution.facts_of(asked)
        except NaslabError:
            continue
        found.setdefault(way(facts), asked)
    return list(found.items())


def way(facts: dict[str, object]) -> str:
    """How a session is protected, in a word."""
    if facts.get("encryption") not in (None, "none"):
        return "encrypted"
    return "signed" if facts.get("signing") not in (None, "none") else "plain"


def compare_ways(climb: Climb) -> None:
    """Measures each way; `evidence.ways` gets the points by way. Nothing where there are fewer than two."""
    execution = climb.execution
    if execution.target.protocol != "smb" or not climb.going():
        return
    usual, ways = execution.target, ways_of(execution)
    if len(ways) < 2:
        return
    try:
        for turn in range(ROUNDS):
            for name, target in ways if turn % 2 == 0 else reversed(ways):
                if not climb.going():
                    return
                execution.close()
                execution.target = target
                _measure(climb, name)
    finally:
        execution.close()
        execution.target = usual


def _measure(climb: Climb, name: str) -> None:
    """One round of one way."""
    depth = climb.busy_depth(LARGE_RECORD)
    load = Load(LARGE_RECORD, depth, duration_ns=climb.bounds.cell_ns)
    climb.stage(PROTECTED, [small_cell(climb.bounds, small_files()[:1])])
    climb.evidence.points[PROTECTED] = [p for p in _kept(climb) if p.op == "read"]
    for point in climb.stage(PROTECTED, [load_cell(load, climb.bounds)]):
        climb.evidence.ways[str(point.cell)] = name


def _kept(climb: Climb) -> list[Point]:
    return climb.evidence.points[PROTECTED]
