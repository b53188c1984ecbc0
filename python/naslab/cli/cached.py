"""The stage of `naslab sustained --cached`: warm reads, then more and more other data until a file was pushed out."""

from __future__ import annotations

from typing import Any

from naslab.analysis import cached as analysis
from naslab.cli.common import Budget
from naslab.cli.progress import Progress
from naslab.execution.execute import Execution


def measure_cached(
    execution: Execution, progress: Progress, budget_ns: int, bound: str, own_memory: bool, part: dict[str, Any]
) -> None:
    """Step after step of `execution.spec.cells` until one tells, into `part["cached"]`, however it ended.

    bound: what set the size of the last step. own_memory: as analysis.cached_part has it.
    """
    cells = execution.spec.cells
    steps = {cell.id for cell in cells if cell.workload == "evict"}
    budget, ended_by = Budget(budget_ns, execution), bound

    def enough(cell_id: int) -> bool:
        nonlocal ended_by
        if cell_id not in steps:
            return False
        if _known(execution):
            return True
        if budget.spent():
            ended_by = "--budget"
            return True
        return False

    try:
        progress.drop(execution.stage(cells, enough))
    finally:
        part["cached"] = analysis.cached_part(execution.cells, own_memory, ended_by)


def _known(execution: Execution) -> bool:
    first = next((c for c in execution.cells if c["workload"] == "first"), None)
    steps = analysis.steps_of(execution.cells)
    return first is not None and any(analysis.pushed_out(step, first["throughput_bytes_per_s"]) for step in steps)
