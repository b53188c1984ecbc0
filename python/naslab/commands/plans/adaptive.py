"""Few cells of a sweep's grid, from which the others can be predicted: which, and in what order.

Large files hold nearly all bytes of a grid. Small ones are therefore measured whole, in all records and operations,
and of a large file one *row*: every operation in one record, which tells what the file's size does. What the record
does where a file is no longer in memory, parts of the largest file tell: the first reading test goes through the file
once, each stretch of it in another record, so that caches see one pass and nothing is read twice; after the jumping
tests a little more is read at scattered places.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from naslab.analysis.adaptive import WORKLOAD
from naslab.analysis.surface_model import JUMPING_READS, SEQUENTIAL_READS, Model, Surface, all_seen, family, sibling
from naslab.commands.plans.sweep import SweepOptions, make_cell, plan_cells
from naslab.spec import CellSpec, WalkSpec

SHARE = 0.1
"""Of the grid's bytes, what may be moved."""
BASE_SHARE = 0.2
"""Of that, what the small files get."""
ANCHOR_BYTES = {"jumping": 256 << 10, "random_write": 64 << 10}
"""The record in which a large file is read or written once: where a seek costs about what the bytes do."""
ANCHOR_ELSE_BYTES = 1 << 20
STRETCH = 32
"""A stretch of the pass in many records is the file divided by this; each of the scattered parts a quarter of it."""
SCATTERED, SCATTERED_PLACES, HEAD = 256, 16, 4
"""Of the file, what each scattered part reads; places it draws from, at least; of the file, where they lie."""
WORTH = 0.05
"""Two files that differ by less, as a logarithm, are the same: what lies between them needs no row."""
LEAST_RECORDS = 4


@dataclass
class Adaptive:
    """The plan of one sweep. moved_bytes: planned so far; cells get ids in the order they are made."""

    options: SweepOptions
    caps: Mapping[str, Any]
    allowed_bytes: int = 0
    full_bytes: int = 0
    rows: list[list[CellSpec]] = field(default_factory=list)
    moved_bytes: int = 0
    visited: list[int] = field(default_factory=list)
    next_id: int = 0

    def __post_init__(self) -> None:
        self.full_bytes = sum(cell.planned_bytes() for cell in plan_cells(self.options, self.caps))
        self.allowed_bytes = int(self.full_bytes * SHARE) // self.options.repeat

    def allow(self, most_bytes: int | None) -> None:
        """No more than this over all repeats."""
        if most_bytes is not None:
            self.allowed_bytes = min(self.allowed_bytes, most_bytes // self.options.repeat)

    def base(self) -> list[CellSpec]:
        """Small files, in all records."""
        cells: list[CellSpec] = []
        for size in sorted(self.options.file_sizes):
            row = [c for r in self.records(size) for c in self._row(size, r)]
            cost = sum(c.planned_bytes() for c in [*cells, *row])
            if cells and cost > BASE_SHARE * self.allowed_bytes:
                break
            cells += row
            self.visited.append(size)
        return self._numbered(cells)

    def records(self, file_bytes: int) -> list[int]:
        """Records that fit into a file."""
        return [r for r in sorted(self.options.records) if r <= file_bytes]

    def anchor(self, op: str, file_bytes: int) -> int:
        """The record of an operation in a large file's row: long enough that bytes count, not calls alone."""
        most = ANCHOR_BYTES.get(op) or ANCHOR_BYTES.get(family(op), ANCHOR_ELSE_BYTES)
        fitting = self.records(min(file_bytes // LEAST_RECORDS, most))
        return fitting[-1] if fitting else self.records(file_bytes)[0]

    def lean(self) -> bool:
        """Whether bytes do not allow every operation on large files: then one of each kind stands for the others."""
        largest, ops = max(self.options.file_sizes), len(self.options.ops)
        return self.allowed_bytes * (1 - BASE_SHARE) < (2 * ops + 0.3) * largest * self.options.workers

    def _anchors(self, file_bytes: int) -> list[CellSpec]:
        ops = self.options.ops
        if self.lean():
            ops = [op for at, op in enumerate(ops) if sibling(op, ops[:at]) is None]
        return [self._cell(op, file_bytes, self.anchor(op, file_bytes)) for op in ops]

    def largest(self) -> list[CellSpec]:
        """The largest file: its row, with parts in all records."""
        size = max(self.options.file_sizes)
        row = self._anchors(size)
        cells: list[CellSpec] = []
        jumps = [c for c in row if c.op in JUMPING_READS]
        sequential = [c for c in row if c.op in SEQUENTIAL_READS]
        for cell in row:
            if sequential and cell is sequential[0]:
                cells += self._stretches(cell)
                continue
            if jumps and cell is jumps[0]:
                cells += self._scattered(cell)
            cells.append(cell)
        self.visited.append(size)
        return self._numbered(cells)

    def further(self, measured: Sequence[Mapping[str, Any]] = ()) -> list[CellSpec]:
        """The next file worth a row, as far as bytes allow; empty when nothing is left.

        measured: documents of the cells so far. First the files whose neighbours differ most, then the largest.
        """
        left = sorted(set(self.options.file_sizes) - set(self.visited), reverse=True)
        model = Model(Surface(all_seen(measured, WORKLOAD)))
        unsure = {size: self._unsure(model, size) for size in left}
        for size in sorted(left, key=lambda each: (unsure[each] > WORTH, unsure[each] * each, each), reverse=True):
            row = self._anchors(size)
            if self.moved_bytes + sum(c.planned_bytes() for c in row) <= self.allowed_bytes:
                self.visited.append(size)
                return self._numbered(row)
        return []

    def _unsure(self, model: Model, file_bytes: int) -> float:
        """How far the two measured files around one differ, mean over operations, as a logarithm."""
        found = [model.predict(op, file_bytes, self.anchor(op, file_bytes)) for op in self.options.ops]
        return sum(each.doubts.apart for each in found if each is not None) / len(found)

    def _row(self, file_bytes: int, record_bytes: int) -> list[CellSpec]:
        return [self._cell(op, file_bytes, record_bytes) for op in self.options.ops]

    def _cell(self, op: str, file_bytes: int, record_bytes: int) -> CellSpec:
        return make_cell(self.options, self.caps, op, file_bytes, record_bytes, 0, 0)

    def _numbered(self, cells: Sequence[CellSpec]) -> list[CellSpec]:
        made = [dataclasses.replace(cell, id=self.next_id + at) for at, cell in enumerate(cells)]
        self.next_id += len(made)
        self.moved_bytes += sum(cell.planned_bytes() for cell in made)
        self.rows.append(made)
        return made

    def repeats(self) -> Iterator[list[CellSpec]]:
        """All that was measured once more for each further block, in random order."""
        rows = list(self.rows)
        for block in range(1, self.options.repeat):
            random.Random(self.options.seed * 1000 + block).shuffle(rows)
            for row in rows:
                yield self._again(row, block)

    def _again(self, row: Sequence[CellSpec], block: int) -> list[CellSpec]:
        made = [dataclasses.replace(cell, id=self.next_id + at, block=block) for at, cell in enumerate(row)]
        self.next_id += len(made)
        return made

    def _sampled(self, file_bytes: int) -> list[int]:
        return [r for r in self.records(file_bytes) if r * LEAST_RECORDS * STRETCH <= file_bytes]

    def _stretches(self, cell: CellSpec) -> list[CellSpec]:
        """One pass, in another record on each stretch, and in the row's own on what is left."""
        cells, at, size = [], 0, cell.file_bytes
        for record in self._sampled(size):
            length = size // STRETCH // record * record
            if record != cell.record_bytes:
                cells.append(self._part(cell, record, at, length, "sequential"))
                at += length
        at = -(-at // cell.record_bytes) * cell.record_bytes
        rest = (size - at) // cell.record_bytes * cell.record_bytes
        if rest:
            cells.append(self._part(cell, cell.record_bytes, at, rest, "sequential"))
        return cells

    def _scattered(self, cell: CellSpec) -> list[CellSpec]:
        """A little of the file's head in each record, at places that do not overlap those of the other records.

        The head: after a pass from start to end it is what a cache that is too small for the file has lost.
        """
        size = cell.file_bytes
        records = [r for r in self.records(size) if r * SCATTERED_PLACES * HEAD * 8 <= size]
        region = size // HEAD // max(len(records), 1)
        cells = []
        for number, record in enumerate(records):
            length = max(size // SCATTERED // record, 2 * LEAST_RECORDS) * record
            cells.append(self._part(cell, record, number * region // record * record, length, "random", region))
        return cells

    def _part(
        self, cell: CellSpec, record: int, at: int, length: int, order: str, region: int | None = None
    ) -> CellSpec:
        walk = WalkSpec(
            order=order, stride_bytes=record, align_bytes=record, base_bytes=at,  # type: ignore[arg-type]
            len_bytes=(region or length) // record * record,
        )  # fmt: skip
        return dataclasses.replace(
            cell, record_bytes=record, walk=walk, stop_bytes=length * cell.workers, pattern="sequential",
            access="positioned", prime=False, workload=WORKLOAD,
        )  # fmt: skip
