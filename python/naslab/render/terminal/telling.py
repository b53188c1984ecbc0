"""Warnings of many cells that differ only in their numbers, as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

FIRST_SPEAKS = ("client_saturated",)
"""Kinds whose numbers are several of one cell: those of the first cell stand for all."""
RANGED = ("above_limit", "above_link")
"""Kinds whose numbers are one rate and limits: the rate is told from lowest to highest."""
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Told(NamedTuple):
    """kind: of the warning. message: one for all. cells: how many it is about; 0: the run as a whole."""

    kind: str
    message: str
    cells: int


def told_once(run: Iterable[Any], cells: Iterable[Mapping[str, Any]]) -> list[Told]:
    """The warnings of a run, in their order, then those of its cells, each once with its count.

    run: warnings, as mappings with kind, message and cell, or as text. cells: with theirs in `warnings`.
    """
    groups: dict[tuple[str, str], dict[Any, str]] = {}
    whole = [(warning, _of(warning, "cell")) for warning in run]
    of_cells = [(warning, cell.get("id")) for cell in cells for warning in cell.get("warnings") or []]
    for warning, about in [*whole, *of_cells]:
        kind, message = _of(warning, "kind") or "", _message(warning)
        same = _NUMBER.sub("#", message) if kind in (*RANGED, *FIRST_SPEAKS) else message
        groups.setdefault((kind, same), {}).setdefault(about, message)
    return [
        Told(
            kind,
            _ranged(list(found.values())) if kind in RANGED else next(iter(found.values())),
            len(set(found) - {None}),
        )
        for (kind, _), found in groups.items()
    ]


def _of(warning: Any, name: str) -> Any:
    return warning.get(name) if isinstance(warning, Mapping) else None


def _message(warning: Any) -> str:
    return str(_of(warning, "message") or _of(warning, "kind") or ("" if isinstance(warning, Mapping) else warning))


def _ranged(messages: Sequence[str]) -> str:
    """Messages that differ in numbers alone as one, each number that differs as `lowest to highest`."""
    columns = list(zip(*(_NUMBER.findall(message) for message in messages), strict=True))
    spans = [sorted(set(column), key=lambda text: float(text.replace(",", ""))) for column in columns]
    texts = iter([span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans])
    return _NUMBER.sub(lambda _: next(texts), messages[0])
