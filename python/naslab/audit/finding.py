"""What an audit finds: how sure it is, the numbers it rests on, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Grade = Literal["impossible", "doubtful", "missing"]
GRADES: tuple[Grade, ...] = ("impossible", "doubtful", "missing")
"""impossible: the numbers contradict each other or physics. doubtful: they can be true, and not of what they claim to
be. missing: what a check would need is not told."""


@dataclass(frozen=True)
class Finding:
    """check: name of the check in `table.CHECKS`, filled in there. numbers: what it rests on, by name with its unit.

    next: one sentence about what to do. cells: ids. excess: how far beyond its limit, to choose the worst of many.
    about: findings of one check that say different things have different words here; they are not gathered.
    where: the cells by their names, where there are several; filled in by `table.audit`.
    """

    grade: Grade
    message: str
    next: str
    numbers: dict[str, Any] = field(default_factory=dict)
    cells: tuple[int, ...] = ()
    excess: float = 1.0
    about: str = ""
    check: str = ""
    where: str = ""

    def entry(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        return {
            "grade": self.grade, "check": self.check, "message": self.message, "cells": list(self.cells),
            "numbers": self.numbers, "next": self.next,
        }  # fmt: skip


def gathered(found: Iterable[Finding]) -> list[Finding]:
    """One finding of each kind: that which goes furthest, with the cells of all; the most certain grade first."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for each in found:
        groups.setdefault((each.grade, each.check, each.about), []).append(each)
    told = [_joined(group) for group in groups.values()]
    return sorted(told, key=lambda each: GRADES.index(each.grade))


def _joined(group: list[Finding]) -> Finding:
    worst = max(group, key=lambda each: each.excess)
    cells = tuple(dict.fromkeys(cell for each in group for cell in each.cells))
    more = len({each.cells for each in group}) - 1
    if more <= 0:
        return replace(worst, cells=cells)
    return replace(worst, message=f"{worst.message}; {more} more likewise", cells=cells)
