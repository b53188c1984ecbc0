"""The ladder as a table: each step, what was varied in it, its figures, its conclusion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from naslab.explain import trust
from naslab.results.parts.ladder import Ladder, LadderPoint
from naslab.units import duration_text, rate_text, size_label

HEADER = ("step", "result", "rates", "varied")
_STOPPED = {
    "certain": "all limits are decided", "open": "no further step would decide more",
    "budget": "the budget was used up", "failed": "the run failed",
    "interrupted": "the run was interrupted",
    "slow": "the target is too slow for this budget",
}  # fmt: skip


def rows(ladder: Ladder) -> Iterator[tuple[str, str, str, str]]:
    """A row a step, in the columns of HEADER."""
    for step in ladder.steps:
        points = step.points
        rates = _range([p.rate.value for p in points])
        yield step.title, step.says or "", rates, varied(points)


def varied(points: Sequence[LadderPoint]) -> str:
    """What differs between the points of a step: `queue depth 1 to 256`; with one point, what it was."""
    if len(points) == 1:
        only = points[0]
        return f"{only.op}, {size_label(only.record_bytes)}, queue depth {in_flight(only)}"
    told = []
    for name, word in (("op", ""), ("record_bytes", ""), ("in_flight", "queue depth"), ("workers", "connections"),
                       ("clients", "clients"), ("set_bytes", "working set")):  # fmt: skip
        found = list(dict.fromkeys(in_flight(p) if name == "in_flight" else (getattr(p, name) or 1) for p in points))
        if len(found) > 1 and not (name == "in_flight" and len({p.workers for p in points}) > 1):
            told.append(_span(found, name, word))
    return ", ".join(told) or f"{len(points)} times the same"


def in_flight(point: LadderPoint) -> int:
    """Outstanding requests over all connections."""
    return point.depth * point.workers


def _span(found: Sequence[Any], name: str, word: str) -> str:
    if name == "op":
        return ", ".join(map(str, found))
    low, high = min(found), max(found)
    shown = (size_label(low), size_label(high)) if name.endswith("_bytes") else (f"{low}", f"{high}")
    span = f"{shown[0]} to {shown[1]}"
    return f"{word} {span}" if name in ("in_flight", "set_bytes") else f"{span} {word}".strip()


def _range(values: Iterable[float]) -> str:
    found = list(values)
    low, high = rate_text(min(found)), rate_text(max(found))
    return high if low == high else f"{low.removesuffix(' MB/s')} to {high}"


def ended(document: Mapping[str, Any]) -> str:
    """How long a run's ladder took and why it ended. Of a run that did not get to its end nothing else is said."""
    ladder, stopped = document["ladder"], str(document["ladder"]["stopped"])
    if stopped in ("certain", "open") and trust.ended_early(document):
        stopped = "interrupted" if trust.was_interrupted(document) else "failed"
    if stopped == "certain" and ladder.get("open"):
        stopped = "open"
    why = _STOPPED.get(stopped, stopped)
    return f"It took {duration_text(ladder['spent_ns'])} of {duration_text(ladder['budget_ns'])}: {why}."
