"""An audit as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from naslab.audit.finding import GRADES, Finding
from naslab.audit.table import CHECKS

_MOST_CELLS = 8


def as_json(name: str, run_id: str, found: Sequence[Finding]) -> dict[str, Any]:
    """{name, run_id, impossible, doubtful, missing (counts), findings}."""
    counts: dict[str, Any] = {grade: sum(each.grade == grade for each in found) for grade in GRADES}
    return {"name": name, "run_id": run_id, **counts, "findings": [each.entry() for each in found]}


def as_text(name: str, cells: int, found: Sequence[Finding], width: int = 100) -> str:
    """The audit for people. cells: how many were looked at."""
    lines = [f"{name}: {_verdict(found)} ({len(CHECKS)} checks, {cells} cell{'s' * (cells != 1)})"]
    for each in found:
        lines += ["", *_wrapped(f"{each.grade}  {each.message}", width, "  ")]
        where = _cells(each.cells)
        lines += _wrapped(f"-> {each.next}{f' [{where}]' if where else ''}", width, "    ")
    return "\n".join(lines) + "\n"


def _verdict(found: Sequence[Finding]) -> str:
    counts = [(sum(each.grade == grade for each in found), grade) for grade in GRADES]
    told = [f"{count} {grade}" for count, grade in counts if count]
    return ", ".join(told) if told else "nothing found"


def _cells(cells: Sequence[int]) -> str:
    if len(cells) < 2:
        return ""  # the message names it
    shown = ", ".join(map(str, cells[:_MOST_CELLS]))
    return f"cells {shown}" + (f" and {len(cells) - _MOST_CELLS} more" if len(cells) > _MOST_CELLS else "")


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, max(width, 40), initial_indent=indent, subsequent_indent=indent + "    ")
