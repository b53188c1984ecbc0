"""An audit as text and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from naslab.audit.finding import GRADES, Finding
from naslab.audit.table import CHECKS


def as_json(name: str, run_id: str, found: Sequence[Finding]) -> dict[str, Any]:
    """{name, run_id, impossible, doubtful, missing (counts), findings}."""
    counts: dict[str, Any] = {grade: sum(each.grade == grade for each in found) for grade in GRADES}
    return {"name": name, "run_id": run_id, **counts, "findings": [each.entry() for each in found]}


def as_text(name: str, cells: int, found: Sequence[Finding], width: int = 100) -> str:
    """The audit for people. cells: how many were looked at."""
    lines = [f"{name}: {_verdict(found)} ({len(CHECKS)} checks, {cells} cell{'s' * (cells != 1)})"]
    for each in found:
        lines += ["", *_wrapped(f"{each.grade}  {each.message}", width, "  ")]
        lines += _wrapped(f"-> {each.next}{f' [{each.where}]' if each.where else ''}", width, "    ")
    return "\n".join(lines) + "\n"


def _verdict(found: Sequence[Finding]) -> str:
    counts = [(sum(each.grade == grade for each in found), grade) for grade in GRADES]
    told = [f"{count} {grade}" for count, grade in counts if count]
    return ", ".join(told) if told else "no findings"


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(text, max(width, 40), initial_indent=indent, subsequent_indent=indent + "    ")
