"""`naslab cache speed`: warm reads, then more and more other data until a file was pushed out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from naslab.analysis import cached as analysis
from naslab.cli.arguments import CacheSpeedArguments, PatternArguments
from naslab.cli.common import Budget, Common, Load
from naslab.cli.loads import Task, carry_out, load_options, size_of, time_of
from naslab.cli.progress import Progress
from naslab.commands.plans import cached as plans
from naslab.errors import UsageError
from naslab.execution.execute import Execution
from naslab.results.parts.sustained import Sustained
from naslab.spec import CellSpec


def run_speed(arguments: CacheSpeedArguments) -> int:
    """`naslab cache speed TARGET`; the exit code. Raises UsageError, TargetError, SpaceError."""
    if arguments.cache not in ("", "remote"):
        raise UsageError(f"--cache {arguments.cache}: this reads what the server has cached; leave it out")
    load = Load(
        depth=arguments.depth, workers=arguments.workers, compress=arguments.data.compress,
        dedupe=arguments.data.dedupe, verify=arguments.verify,
    )  # fmt: skip
    pattern = PatternArguments(arguments.size, arguments.block, interlocked=arguments.interlocked)
    options = load_options(pattern, load, arguments.cache, str(plans.FILE_BYTES))
    if arguments.duration:
        options.duration_ns = time_of(arguments.duration, "--duration")
    evict_bytes = size_of(arguments.evict_size, "--evict-size") if arguments.evict_size else None
    task = _Speed(Common.of("cache speed", arguments), options, evict_bytes=evict_bytes)
    return carry_out(task, arguments.target)


@dataclass
class _Speed(Task):
    """Reads of what the server has cached. evict_bytes: --evict-size, None: not given."""

    evict_bytes: int | None = None
    room: plans.Room = field(default_factory=lambda: plans.Room(0))

    def cells(self, probed: Mapping[str, Any]) -> list[CellSpec]:
        """All of them; the last are left out once one tells."""
        if not self.own_memory:
            free = (probed.get("space") or {}).get("free_bytes")
            self.room = plans.room(self.options, self.evict_bytes, self.common.most_bytes(), free)
        return plans.cached_cells(self.options, probed["caps"], self.room.evict_bytes)

    def measure(self, execution: Execution, progress: Progress, part: Sustained) -> None:
        """Step after step."""
        budget_ns = self.common.budget_ns() or plans.BUDGET_NS
        measure_cached(execution, progress, budget_ns, self.room.by, self.own_memory, part)


def measure_cached(
    execution: Execution, progress: Progress, budget_ns: int, bound: str, own_memory: bool, part: Sustained
) -> None:
    """Step after step of `execution.spec.cells` until one tells, into `part.cached`, however it ended.

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
        part.cached = analysis.cached_part(execution.cells, own_memory, ended_by)


def _known(execution: Execution) -> bool:
    first = next((c for c in execution.cells if c["workload"] == "first"), None)
    steps = analysis.steps_of(execution.cells)
    return first is not None and any(analysis.pushed_out(step, first["throughput_bytes_per_s"]) for step in steps)
