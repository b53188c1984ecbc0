"""The stage of `naslab sustained --cached`: warm reads, then more and more other data until a file was pushed out."""

from __future__ import annotations

from typing import Any

from naslab.analysis import cached as analysis
from naslab.cli.common import Budget
from naslab.cli.progress import Progress
from naslab.execute import Execution, Hooks


class _EnoughError(Exception):
    """Ends the stage early: what is left of it is not needed."""


def measure_cached(
    execution: Execution, progress: Progress, budget_ns: int, bound: str, own_memory: bool, part: dict[str, Any]
) -> None:
    """Step after step of `execution.spec.cells` until one tells, into `part["cached"]`, however it ended.

    bound: what set the size of the last step. own_memory: as analysis.cached_part has it.
    """
    cells = execution.spec.cells
    steps = {cell.id for cell in cells if cell.workload == "evict"}
    budget, shown, ended_by = Budget(budget_ns, execution), execution.hooks, bound

    def before_cell(cell_id: int) -> None:
        nonlocal ended_by
        if cell_id in steps:
            if _known(execution):
                raise _EnoughError
            if budget.spent():
                ended_by = "--budget"
                raise _EnoughError
        if shown.before_cell:
            shown.before_cell(cell_id)

    execution.hooks = Hooks(before_cell, shown.progress, shown.on_cell)
    try:
        execution.stage(cells)
    except _EnoughError:
        execution.status = "complete"
        progress.drop(cells)
    finally:
        execution.hooks = shown
        ended_by = ended_by if execution.status == "complete" else "interrupted"
        part["cached"] = analysis.cached_part(execution.cells, own_memory, ended_by)


def _known(execution: Execution) -> bool:
    first = next((c for c in execution.cells if c["workload"] == "first"), None)
    steps = analysis.steps_of(execution.cells)
    return first is not None and any(analysis.pushed_out(step, first["throughput_bytes_per_s"]) for step in steps)
