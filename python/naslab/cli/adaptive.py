"""`naslab sweep --adaptive`: row after row until the bytes are spent, then the rest of the grid is predicted."""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass
from typing import Any

from naslab.analysis import adaptive as analysis
from naslab.cli.common import Budget, Common, measure
from naslab.cli.progress import Progress
from naslab.commands.plans.adaptive import Adaptive
from naslab.commands.plans.sweep import SweepOptions, plan_cells, rows_of
from naslab.errors import UsageError
from naslab.execution.execute import Execution, start
from naslab.results.describe import plain
from naslab.results.store import Store
from naslab.spec import CellSpec, RunSpec
from naslab.targets import Target
from naslab.units import amount_text, percent_text

TOO_MUCH = 0.5
"""Of the grid's bytes: a plan that needs more saves too little."""


@dataclass
class AdaptiveSweep:
    """One under way. plan: what was and will be measured; first: small files and the largest one."""

    plan: Adaptive
    first: list[list[CellSpec]]

    @classmethod
    def of(cls, options: SweepOptions, caps: dict[str, Any], common: Common) -> AdaptiveSweep:
        """The plan's beginning. Raises UsageError where the grid is too small, or --max-bytes."""
        if options.verify:
            raise UsageError("--adaptive with --verify: parts of files cannot be checked; leave one of them out")
        plan = Adaptive(options, caps)
        first = [plan.base(), plan.largest()]
        needed, most = plan.moved_bytes * options.repeat, common.most_bytes()
        if needed > TOO_MUCH * plan.full_bytes:
            raise UsageError(
                f"--adaptive: this grid is so small that {percent_text(needed / plan.full_bytes)} of its bytes would "
                "have to be moved; leave out --adaptive, or widen --file-size or --record"
            )
        if most is not None and needed > most:
            raise UsageError(
                f"--max-bytes {common.max_bytes}: the small files and one row of the largest move "
                f"{amount_text(needed)}; allow as much, or narrow --file-size or --tests"
            )
        plan.allow(most)
        return cls(plan, first)

    def run(self, spec: RunSpec, target: Target, common: Common, added: str | None) -> int:
        """Measures, predicts, ends the run; the exit code."""
        spec.cells = [cell for row in self.first for cell in row]
        spec.cleanup_files = sorted({name for cell in spec.cells for name in cell.files})
        execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
        if added:
            execution.warn("prerequisite", added)
        return measure(execution, common, spec.cells, lambda progress: self._work(execution, common, progress))

    def _work(self, execution: Execution, common: Common, progress: Progress) -> None:
        limit = common.budget_ns()
        budget = None if limit is None else Budget(limit, execution)
        try:
            ended = self._measure(execution, progress, budget)
            if ended:
                execution.status = "partial"
                execution.warn(
                    "budget", "the budget was used up before all rows were measured; more cells were predicted instead"
                )
        finally:
            self._predict(execution)

    def _measure(self, execution: Execution, progress: Progress, budget: Budget | None) -> bool:
        """Whether the budget ended it."""
        for row in self.first:
            if not self._stage(execution, row, budget):
                return execution.status == "complete"
        while row := self.plan.further(execution.cells):
            progress.add(row)
            if not self._stage(execution, row, budget):
                return execution.status == "complete"
        for row in self.plan.repeats():
            progress.add(row)
            if not self._stage(execution, row, budget):
                return execution.status == "complete"
        return False

    @staticmethod
    def _stage(execution: Execution, cells: list[CellSpec], budget: Budget | None) -> bool:
        """Whether all of it was measured. The parts of a file stay with its row."""
        rows = [cells] if any(cell.workload for cell in cells) else rows_of(cells)
        for row in rows:
            if execution.status != "complete" or (budget is not None and budget.spent()):
                return False
            execution.stage(row)
        return execution.status == "complete"

    def _predict(self, execution: Execution) -> None:
        """Adds the cells that were not measured, and what was saved."""
        grid = plan_cells(dataclasses.replace(self.plan.options, repeat=1), self.plan.caps)
        real = not execution.caps["virtual_time"]
        predicted = analysis.predicted_cells(grid, execution.cells, self.plan.next_id, real)
        for cell in predicted:
            execution.store.add_cell(execution.run_id, cell, {})
        execution.document["cells"] = [*execution.document["cells"], *predicted]
        found = analysis.finding(execution.document["cells"], grid, self.plan.full_bytes)
        execution.keep(adaptive=plain(found))
        left = found.unknown_cells
        if left:
            message = f"{left} cells were neither measured nor could be predicted: no file as large was measured"
            execution.warn("unpredicted", message)


def print_adaptive_plan(sweep: AdaptiveSweep, as_json: bool) -> int:
    """`--plan`: what is certain, and how much more may follow."""
    plan = sweep.plan
    cells = [cell for row in sweep.first for cell in row]
    if as_json:
        made = {"cells": [dataclasses.asdict(cell) for cell in cells], "bytes": plan.moved_bytes}
        json.dump(
            {"schema": 1, **made, "most_bytes": plan.allowed_bytes, "full_grid_bytes": plan.full_bytes}, sys.stdout
        )
        print()
        return 0
    grid = len(plan_cells(plan.options, plan.caps))
    print(
        f"Of a grid of {grid} cells that moves {amount_text(plan.full_bytes)}: the small files whole and parts of the "
        f"largest, {len(cells)} cells that move {amount_text(plan.moved_bytes)}."
    )
    print(f"Then rows of files between, chosen by what was seen, up to {amount_text(plan.allowed_bytes)} in all.")
    return 0
