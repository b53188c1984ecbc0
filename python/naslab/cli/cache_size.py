"""`naslab cache size`: one working set after another until the knee is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from naslab.analysis import workingset as analysis
from naslab.cli.arguments import CacheSizeArguments, PatternArguments
from naslab.cli.common import Budget, Common, Load
from naslab.cli.loads import DEFAULT_SIZE, Task, carry_out, load_options
from naslab.cli.progress import Progress
from naslab.commands.plans import workingset as plans
from naslab.commands.plans.sustained import LoadOptions, numbered
from naslab.execution.execute import Execution
from naslab.results.parts.sustained import Sustained
from naslab.spec import CellSpec


def run_size(arguments: CacheSizeArguments) -> int:
    """`naslab cache size TARGET`; the exit code. Raises UsageError, TargetError, SpaceError."""
    load = Load(
        depth=arguments.depth, compress=arguments.data.compress, dedupe=arguments.data.dedupe, verify=arguments.verify
    )
    pattern = PatternArguments(arguments.size, arguments.block)
    options = load_options(pattern, load, arguments.cache, DEFAULT_SIZE)
    return carry_out(_Size(Common.of("cache size", arguments), options), arguments.target)


class _Size(Task):
    """Working sets of sizes that close in on the cache's."""

    def cells(self, _probed: Mapping[str, Any]) -> list[CellSpec]:
        """The file; the working sets depend on what is measured."""
        plans.smallest_bytes(self.options)
        return numbered(plans.fill_cells(self.options))

    def measure(self, execution: Execution, progress: Progress, part: Sustained) -> None:
        """One set after another."""
        budget_ns = self.common.budget_ns() or plans.BUDGET_NS
        measure_working_set(execution, progress, self.options, budget_ns, self.own_memory, part)


def measure_working_set(
    execution: Execution, progress: Progress, options: LoadOptions, budget_ns: int, own_memory: bool,
    part: Sustained,
) -> None:  # fmt: skip
    """Fills the file (`execution.spec.cells`), then measures sets, into `part.working_set`, however it ended.

    own_memory: as analysis.finding has it. Sets after the first two are left out once the budget is spent.
    """
    budget = Budget(budget_ns, execution)
    try:
        execution.stage(execution.spec.cells)
        for size in (options.size_bytes, plans.smallest_bytes(options)):
            _measure(execution, progress, options, size)
        while execution.status == "complete" and not budget.spent():
            between = analysis.next_bytes(analysis.steps_of(execution.cells), plans.unit_bytes(options))
            if between is None:
                break
            _measure(execution, progress, options, between)
    finally:
        part.working_set = analysis.finding(execution.cells, own_memory)


def _measure(execution: Execution, progress: Progress, options: LoadOptions, size_bytes: int) -> None:
    """All passes over one set; those after the first that came from memory are left out."""
    if execution.status != "complete":
        return
    first = 1 + max(cell["id"] for cell in execution.cells)
    cells = numbered(plans.set_cells(options, size_bytes), first)
    progress.add(cells)
    last = cells[-1].id
    progress.drop(execution.stage(cells, lambda cell_id: cell_id == last and _fits(execution, size_bytes)))


def _fits(execution: Execution, size_bytes: int) -> bool:
    steps: Sequence[analysis.Step] = analysis.steps_of(execution.cells)
    found = analysis.bracket(steps)
    return found is not None and size_bytes <= found[0]
