"""A doubt about numbers, with what it rests on: the words are a warning, the numbers part `validity`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from naslab.results.document import RunWarning, warning


@dataclass(frozen=True)
class Finding:
    """kind, message, cell: as in a warning. value, unit: what was found, where it is a number; limit: from where on it
    counts. cells: those it is about, where there are several.
    """

    kind: str
    message: str
    cell: int | None = None
    value: float | None = None
    unit: str | None = None
    limit: float | None = None
    cells: tuple[int, ...] = ()

    def warning(self) -> RunWarning:
        """The words alone."""
        return warning(self.kind, self.message, self.cell)

    def entry(self) -> dict[str, Any]:
        """An entry of the document's part `validity`."""
        cells = list(self.cells) if self.cells else [] if self.cell is None else [self.cell]
        return {
            "kind": self.kind, "message": self.message, "cells": cells, "value": self.value, "unit": self.unit,
            "limit": self.limit,
        }  # fmt: skip


def cells_words(cells: Sequence[int], most: int = 4) -> str:
    """`cell 3 was`, `cells 3, 4 were`, `cells 3, 4, 5, 6 and 20 more were`."""
    listed = sorted(set(cells))
    if len(listed) == 1:
        return f"cell {listed[0]} was"
    named = ", ".join(str(cell) for cell in listed[:most])
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return f"cells {named}{more} were"
