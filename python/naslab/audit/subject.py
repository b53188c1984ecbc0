"""What is audited: a run of any origin, and what its user knows besides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from naslab.analysis.linkrate import Link, known_link
from naslab.results.cell_names import long_name

if TYPE_CHECKING:
    from naslab.results.run import Run

Cell = Mapping[str, Any]
_NOISE_WIDTHS = 4
"""A noisy simulated link stays within so many standard deviations."""
NOT_FIXED = ("apps", "job", "tree", "replay", "durable")
"""Commands whose cells have operations of many sizes or kinds."""


def cell_name(cell: Cell) -> str:
    """What messages call a cell; its number where its document is too strange for a name."""
    try:
        return long_name(cell)
    except (KeyError, TypeError, ValueError):
        return f"cell {cell.get('id')}"


@dataclass
class Subject:
    """run: any. name: what the user called it. link_given: (words, most bytes/s of data one way) of the link on the
    way; client_memory_bytes, server_memory_bytes: of the machines; None where not given. others: (name, run) of the
    further runs of the same audit.
    """

    run: Run
    name: str = ""
    link_given: tuple[str, float] | None = None
    client_memory_bytes: int | None = None
    server_memory_bytes: int | None = None
    others: list[tuple[str, Run]] = field(default_factory=list)

    @property
    def document(self) -> Mapping[str, Any]:
        """The run document."""
        return self.run.document

    @cached_property
    def source(self) -> Mapping[str, Any]:
        """The part `source`; empty for a run that naslab measured."""
        found = self.document.get("source")
        return found if isinstance(found, Mapping) else {}

    @property
    def own(self) -> bool:
        """naslab measured it: its numbers are not rounded."""
        return not self.source

    @property
    def simulated(self) -> bool:
        """Time is virtual: repeats are alike by right, and the wall clock says nothing."""
        return bool(self.document["target"].get("protocol") == "sim")

    @cached_property
    def environment(self) -> Mapping[str, Any]:
        """Client and target as found; empty where nothing was."""
        found = self.document.get("environment")
        return found if isinstance(found, Mapping) else {}

    def part(self, name: str) -> Mapping[str, Any]:
        """A part of the environment, e.g. `client`; empty where it is not told."""
        found = self.environment.get(name)
        return found if isinstance(found, Mapping) else {}

    @cached_property
    def cells(self) -> list[Cell]:
        """Those that were measured: neither predicted nor failed."""
        return [c for c in self.document["cells"] if not c.get("predicted") and c.get("status") != "failed"]

    def names_of(self, cells: Sequence[int], most: int = 4) -> str:
        """Names of cells by their ids: `64 KiB reads, 1 MiB file; 64 KiB writes, 1 MiB file and 3 more`."""
        by_id = {cell.get("id"): cell for cell in self.document["cells"] if isinstance(cell, Mapping)}
        names = list(dict.fromkeys(cell_name(by_id[each]) for each in cells if each in by_id))
        return "; ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

    def fixed(self) -> Iterator[Cell]:
        """Cells whose operations all have the record's size."""
        if self.document["command"] not in NOT_FIXED:
            yield from (cell for cell in self.cells if cell.get("workload") in (None, "ladder", "sustained", "curve"))

    @cached_property
    def link(self) -> Link | None:
        """The link on the way, given or known."""
        if self.link_given is not None:
            return Link(self.link_given[1], self.link_given[0])
        found = known_link(self.document)
        if found is None or not self.simulated:
            return found
        return replace(found, bytes_per_s=found.bytes_per_s * (1 + _NOISE_WIDTHS * self._link_noise()))

    def _link_noise(self) -> float:
        """Of a simulated link, whose rate is drawn around what it is called."""
        try:
            found = json.loads(self.part("target").get("config") or "{}").get("link_noise") or 0.0
        except (ValueError, AttributeError):
            return 0.0
        return float(found) if isinstance(found, int | float) else 0.0

    @cached_property
    def client_memory(self) -> int | None:
        """Memory of the machine that measured, bytes; given or found."""
        found = self.client_memory_bytes or self.part("client").get("memory_bytes")
        return found if isinstance(found, int) else None

    @cached_property
    def server_memory(self) -> int | None:
        """Memory of the machine that was measured, bytes; given, or told by the source."""
        found = self.server_memory_bytes or self.part("target").get("memory_bytes")
        return found if isinstance(found, int) else None
