"""What a side of a comparison measured: each number that can be compared, by repeat.

A side is one run or several of the same target; a repeat is a block of one of them. Cells of two sides are the same
measurement when they ask the same of a target; what may differ and explain a difference (`CONDITIONS`) is part of it
only as long as both sides have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from naslab.results.foreign import is_foreign

Measure = Literal["throughput", "iops", "p50", "p99", "capacity"]
Document = Mapping[str, Any]
Block = tuple[int, int]
"""(number of the run on its side, its block)."""
ASKED = (
    "workload", "op", "file_bytes", "record_bytes", "queue_depth", "workers", "write_fraction", "pattern",
    "offered_per_s",
)  # fmt: skip
CONDITIONS = ("durability", "cache_state", "direct", "sync", "access", "clients")
HIGHER = {"throughput": True, "iops": True, "capacity": True, "p50": False, "p99": False}
UNITS = {"throughput": "bytes_per_s", "iops": "per_s", "capacity": "per_s", "p50": "ns", "p99": "ns"}
LEAST_OPS = {"p50": 20, "p99": 1000}
"""So many operations until a percentile of one repeat says something."""
_INTERNAL = ("probe", "sample")
"""Workloads that a plan measures for itself."""
_PREPARING = ("fill", "prepare", "clean")
"""Workloads that make or remove the files of others: no part of a verdict on a run that has others."""


@dataclass(frozen=True)
class Key:
    """One measurement: what was asked, under which conditions, the how-manieth of a repeat, and the number taken."""

    asked: tuple[Any, ...]
    conditions: tuple[Any, ...]
    occurrence: int
    measure: Measure

    def loose(self) -> Key:
        """The same whatever the conditions were."""
        return Key(self.asked, (), self.occurrence, self.measure)

    def without(self, names: frozenset[str]) -> Key:
        """The same whatever these fields and the conditions were."""
        asked = tuple(None if name in names else value for name, value in zip(ASKED, self.asked, strict=True))
        return Key(asked, (), self.occurrence, self.measure)

    def order(self) -> tuple[Any, ...]:
        """By workload and operation as they come, then by record and file size."""
        fields = self.fields()
        sizes = tuple(fields.get(name) or 0 for name in ("queue_depth", "workers", "record_bytes", "file_bytes"))
        return str(fields.get("workload") or ""), str(fields["op"]), sizes, self.occurrence, self.measure

    def fields(self) -> dict[str, Any]:
        """What was asked, by name, without what says nothing."""
        return {name: value for name, value in zip(ASKED, self.asked, strict=True) if value is not None}


@dataclass
class Side:
    """The runs of one side. values: of each measurement, by block; all above 0. start_ns: when a block's first cell
    began, on the wall clock."""

    documents: Sequence[Document]
    values: dict[Key, dict[Block, float]] = field(default_factory=dict)
    start_ns: dict[Block, int] = field(default_factory=dict)
    left_out: int = 0

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Side:
        """Collects every whole cell. left_out: cells that failed or ended early."""
        side = cls(documents)
        for number, document in enumerate(documents):
            cells = [cell for cell in document["cells"] if cell.get("workload") not in _INTERNAL]
            side._cells(number, [cell for cell in cells if cell.get("workload") not in _PREPARING] or cells)
            side._capacity(number, document)
        return side

    def loose(self, keys: Iterable[Key], untold: frozenset[str] = frozenset()) -> dict[Key, Key]:
        """By the measurement without its conditions (and the fields `untold`) the one with them; those that come twice
        are left out."""
        found: dict[Key, list[Key]] = {}
        for key in keys:
            found.setdefault(key.without(untold) if untold else key.loose(), []).append(key)
        return {loose: same[0] for loose, same in found.items() if len(same) == 1}

    def untold(self) -> frozenset[str]:
        """What was asked that the source of a run on this side does not tell; nothing for naslab's own runs."""
        sources = [document["source"] for document in self.documents if is_foreign(document)]
        return frozenset(name for source in sources for name in source["unknown"] if name in ASKED)

    def _cells(self, number: int, cells: Iterable[Mapping[str, Any]]) -> None:
        seen: dict[tuple[Any, ...], int] = {}
        for cell in cells:
            if cell.get("predicted"):
                continue
            if cell["status"] != "complete" or cell["errors"]:
                self.left_out += 1
                continue
            block = (number, cell["block"])
            asked = tuple(cell.get(name) for name in ASKED)
            conditions = tuple(_condition(cell, name) for name in CONDITIONS)
            same = (block, asked, conditions)
            occurrence = seen[same] = seen.get(same, -1) + 1
            self.start_ns[block] = min(self.start_ns.get(block, cell["start_wall_ns"]), cell["start_wall_ns"])
            for measure, value in _numbers(cell):
                self._add(Key(asked, conditions, occurrence, measure), block, value)

    def _capacity(self, number: int, document: Document) -> None:
        value = (document.get("curve") or {}).get("capacity_per_s")
        if value:
            asked = ("curve", "mixed", *(None for _ in ASKED[2:]))
            self._add(Key(asked, (), 0, "capacity"), (number, 0), float(value))

    def _add(self, key: Key, block: Block, value: float) -> None:
        if value > 0:
            self.values.setdefault(key, {})[block] = value


def _condition(cell: Mapping[str, Any], name: str) -> Any:
    """Of a cell that several clients measured, how many they were."""
    value = cell.get(name)
    return ((value or {}).get("count") or 1) if name == "clients" else value


def _numbers(cell: Mapping[str, Any]) -> Iterable[tuple[Measure, float]]:
    """The numbers of a cell: its rate, and percentiles of enough operations."""
    if cell["bytes"] or (cell["bytes"] is None and cell["throughput_bytes_per_s"]):  # None: not told by its source
        yield "throughput", float(cell["throughput_bytes_per_s"])
    elif cell["ops"] or (cell["ops"] is None and cell["iops"]):
        yield "iops", float(cell["iops"])
    for measure in ("p50", "p99"):
        value = cell["latency_ns"].get(measure)
        if value and (cell["ops"] or 0) >= LEAST_OPS[measure]:
            yield measure, float(value)
