"""A doubt about numbers, with its evidence: the message is a warning, the numbers are part of `validity`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from naslab.results.document import warning


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

    def warning(self) -> dict[str, Any]:
        """The words alone."""
        return warning(self.kind, self.message, self.cell)

    def entry(self) -> dict[str, Any]:
        """An entry of the document's part `validity`."""
        cells = list(self.cells) if self.cells else [] if self.cell is None else [self.cell]
        return {
            "kind": self.kind, "message": self.message, "cells": cells, "value": self.value, "unit": self.unit,
            "limit": self.limit,
        }  # fmt: skip


def cells_words(cells: Sequence[int]) -> str:
    """`one cell was`, `5 cells were`: which ones they are stands beside the words, in `cells`."""
    count = len(set(cells))
    return "one cell was" if count == 1 else f"{count} cells were"
