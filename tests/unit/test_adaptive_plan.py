"""Which cells an adaptive sweep measures: within its bytes, each once, parts that never meet."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from naslab.analysis.adaptive import WORKLOAD
from naslab.commands.plans.adaptive import SHARE, Adaptive
from naslab.commands.plans.sweep import SweepOptions, plan_cells
from naslab.errors import UsageError
from naslab.spec import CellSpec

KIB, MIB = 1 << 10, 1 << 20
CAPS: dict[str, Any] = {"cursor": True, "stdio": True, "evict": True}
OPS = ["write", "rewrite", "read", "reread", "random_read", "random_write"]


def options(largest: int = 64 * MIB, records: int = 9, ops: list[str] | None = None, **more: Any) -> SweepOptions:
    files = [64 * KIB << step for step in range(20) if 64 * KIB << step <= largest]
    return SweepOptions(files, [4 * KIB << step for step in range(records)], ops or OPS, **more)


def all_cells(plan: Adaptive) -> list[CellSpec]:
    cells = [*plan.base(), *plan.largest()]
    while row := plan.further():
        cells += row
    return cells


@pytest.mark.parametrize(("largest", "records", "ops"), [
    (64 * MIB, 9, OPS), (256 * MIB, 13, OPS), (256 * MIB, 9, ["write", "read"]),
    (64 * MIB, 9, ["write", "random_read"]),
])  # fmt: skip
@pytest.mark.parametrize("workers", [1, 3])
def test_the_plan_keeps_to_its_bytes(largest: int, records: int, ops: list[str], workers: int) -> None:
    plan = Adaptive(options(largest, records, ops, workers=workers), CAPS)
    cells = all_cells(plan)
    assert sum(cell.planned_bytes() for cell in cells) == plan.moved_bytes <= SHARE * plan.full_bytes
    assert [cell.id for cell in cells] == list(range(len(cells)))
    for cell in cells:
        cell.validate()
    spots = [(c.op, c.file_bytes, c.record_bytes) for c in cells if c.workload is None]
    grid = {(c.op, c.file_bytes, c.record_bytes) for c in plan_cells(plan.options, CAPS)}
    assert len(spots) == len(set(spots)) and set(spots) < grid
    assert {op for op, size, _ in spots if size == 64 * KIB} == set(ops), "small files see every test"
    assert max(size for _, size, _ in spots) == largest


def test_parts_never_meet_and_every_row_is_written_first() -> None:
    row = Adaptive(options(256 * MIB, 13), CAPS).largest()
    assert row[0].op == "write" and row[0].remove_before
    parts = [cell for cell in row if cell.workload == WORKLOAD]
    for op in ("read", "random_read"):
        own = sorted((c.walk.base_bytes, c.walk.len_bytes or 0) for c in parts if c.op == op and c.walk)
        assert len(own) > 5
        assert all(a + length <= b for (a, length), (b, _) in pairwise(own))
    passed = [c for c in parts if c.op == "read" and c.walk]
    assert sum(c.planned_bytes() for c in passed) >= 0.95 * 256 * MIB, "one pass over nearly all of the file"
    jumping = [c for c in parts if c.op == "random_read" and c.walk]
    assert all(c.walk and c.walk.base_bytes + (c.walk.len_bytes or 0) <= 64 * MIB for c in jumping), "in its head"
    assert row.index(jumping[-1]) < next(at for at, c in enumerate(row) if c.op == "random_read" and not c.workload)


def test_few_bytes_leave_one_test_of_a_kind() -> None:
    lean, full = Adaptive(options(), CAPS), Adaptive(options(256 * MIB, 13), CAPS)
    assert lean.lean() and not full.lean()
    ops = {cell.op for cell in lean.largest()}
    assert ops == {"write", "read", "random_read", "random_write"}


def test_repeats_are_the_same_rows_again() -> None:
    plan = Adaptive(options(repeat=3), CAPS)
    first = all_cells(plan)
    again = [cell for row in plan.repeats() for cell in row]
    assert len(again) == 2 * len(first) and {cell.block for cell in again} == {1, 2}
    assert len({cell.id for cell in [*first, *again]}) == 3 * len(first)
    assert 3 * plan.moved_bytes <= SHARE * plan.full_bytes


def test_no_grid_is_a_plain_error() -> None:
    with pytest.raises(UsageError):
        Adaptive(SweepOptions([4 * KIB], [64 * KIB], OPS), CAPS)
