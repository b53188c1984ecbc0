"""How far a measurement is, for whoever watches `naslab.measure`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """A moment of a measurement.

    cell: number of the cell under way. what: the cell in words. cells_done: cells that ended. cells_planned: as far as
    known by now; `run` plans as it goes. elapsed_s: since the measurement began. bytes_per_s: of the cell under way,
    None before its first interval.
    """

    cell: int
    what: str
    cells_done: int
    cells_planned: int
    elapsed_s: float
    bytes_per_s: float | None = None

    def __str__(self) -> str:
        from naslab.units import rate_text

        rate = f": {rate_text(self.bytes_per_s)}" if self.bytes_per_s else ""
        return f"{self.cells_done} of {self.cells_planned} cells, {self.elapsed_s:.0f} s: {self.what}{rate}"
