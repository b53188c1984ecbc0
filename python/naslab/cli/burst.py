"""`naslab burst`: a first run until the bucket is known, then its retests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.cli.arguments import BurstArguments
from naslab.cli.common import Common, Load
from naslab.cli.loads import DEFAULT_SIZE, Task, carry_out, load_options, price_of, rest_of
from naslab.cli.progress import Progress
from naslab.commands.plans.sustained import LoadOptions, numbered
from naslab.errors import UsageError
from naslab.execution.execute import Execution
from naslab.results.parts.sustained import Sustained
from naslab.spec import CellSpec
from naslab.units import duration_text

if TYPE_CHECKING:
    from naslab.analysis.buckets import BucketFit
    from naslab.analysis.causes import Reads, Retest
    from naslab.commands.plans.burst import Part, ReadPlan

LEAST_READ_BINS = 3
"""Reads of fewer intervals are one rate and no series."""


def run_burst(arguments: BurstArguments) -> int:
    """`naslab burst TARGET`; the exit code. Raises UsageError, TargetError, SpaceError."""
    if arguments.load.durability == "none" and arguments.pattern.write:
        raise UsageError("--durability none: the flush is part of the evidence; leave it out")
    load = Load.of(arguments.load)
    options = load_options(arguments.pattern, load, arguments.cache, DEFAULT_SIZE)
    common = Common.of("burst", arguments)
    task = _Burst(common, options, price_of(arguments.price), rest_of(arguments.rest, options))
    return carry_out(task, arguments.target)


@dataclasses.dataclass
class _Burst(Task):
    """A load at full speed until its burst is known. rest_ns: idle time between filling and load."""

    rest_ns: int = 0

    def cells(self, _probed: Mapping[str, Any]) -> list[CellSpec]:
        """The first run."""
        from naslab.commands.plans import burst

        budget_ns = self.common.budget_ns() or burst.BUDGET_NS
        return numbered(burst.first_run_cells(self.options, budget_ns, self.rest_ns))

    def measure(self, execution: Execution, progress: Progress, part: Sustained) -> None:
        """The first run, then what tells why the burst ended."""
        find_burst(execution, progress, self.options, self.common.budget_ns(), part)


def find_burst(
    execution: Execution, progress: Progress, options: LoadOptions, budget_ns: int | None, part: Sustained
) -> None:
    """First run, retests, verdict, into `part`; nothing when not even a part of the first run was measured.

    The first stage is `execution.spec.cells` (of `burst.first_run_cells`). budget_ns: None for the default.
    part: `burst` is set and the run's regime appended to `regimes`.
    """
    from naslab.analysis import sustained as analysis
    from naslab.analysis.causes import BurstEvidence, Retest, decide_cause
    from naslab.commands.plans import burst

    retests, reads = list[Retest](), None
    op: Literal["read", "write"] = "write" if options.writes else "read"
    try:
        _stage_until_known(execution, progress)
        parts = _parts(execution)
        if parts and execution.status == "complete":
            retests, reads = _retests(execution, progress, options, parts, budget_ns or burst.BUDGET_NS)
    finally:
        parts = _parts(execution) if execution.begun else []  # a refused run is not in the store
        if parts:
            before, flush_ns = burst.joined(parts)
            verdict = decide_cause(BurstEvidence(op, before, tuple(retests), flush_ns, reads=reads))
            part.burst = analysis.burst_part(verdict, op, before)
            run = execution.store.load(execution.run_id)
            cells = [cell for cell in run.cells if cell["workload"] == "first run"]
            kind = "all" if options.op == "mixed" else op
            latency = analysis.percentiles(run, cells, kind)
            part.regimes.append(analysis.regime(before, cells[-1]["id"], kind, latency))


def _stage_until_known(execution: Execution, progress: Progress) -> None:
    """Part after part until the fit is precise; the rest of the stage is then left out."""
    cells = execution.spec.cells
    first = {cell.id for cell in cells if cell.workload == "first run"}
    progress.drop(execution.stage(cells, lambda cell_id: cell_id in first and _known(execution)))


def _known(execution: Execution) -> bool:
    from naslab.analysis.buckets import fit_bucket
    from naslab.commands.plans import burst

    parts = _parts(execution)
    if not parts:
        return False
    fit = fit_bucket(burst.joined(parts)[0])
    return fit is not None and fit.precision <= burst.PRECISION


def _parts(execution: Execution) -> list[Part]:
    """The first run so far, from the store."""
    from naslab.analysis.sustained import series_of_cell
    from naslab.commands.plans.burst import Part

    run = execution.store.load(execution.run_id)
    return [
        Part(series_of_cell(run, cell), cell["start_ns"], cell["start_ns"] + cell["window_ns"], cell["flush_ns"])
        for cell in run.cells
        if cell["workload"] == "first run" and cell["bytes"] and cell["window_ns"] >= cell["interval_ns"]
    ]


def _retests(
    execution: Execution, progress: Progress, options: LoadOptions, parts: list[Part], budget_ns: int
) -> tuple[list[Retest], Reads | None]:
    """Second runs after idle times, and reads; none without a drop, or when they do not fit the budget."""
    from naslab.analysis.buckets import fit_bucket
    from naslab.commands.plans import burst

    before, flush_ns = burst.joined(parts)
    fit = fit_bucket(before)
    if fit is None or fit.baseline_bytes_per_s.value <= 0:
        return [], None
    factor = burst.bin_factor(before, fit, options.block_bytes)
    bin_ns = factor * before.bin_ns
    cells = burst.retest_cells(options, fit, bin_ns, bool(execution.caps["virtual_time"]))
    left_ns = budget_ns - before.duration_ns
    reads = None
    if burst.planned_ns(cells) > left_ns:
        # The first of the two runs tells most.
        cells = cells[: 1 + next(at for at, cell in enumerate(cells) if cell.workload == "retest")]
        cells = cells if burst.planned_ns(cells) <= left_ns else []
        what = "the limited second run" if cells else "the second runs"
        execution.warn("budget", f"the budget left no time for {what}; the cause may stay undecided")
    elif options.writes:
        reads = _read_plan(execution, fit, bin_ns, flush_ns, left_ns - burst.planned_ns(cells))
        cells = burst.retest_cells(options, fit, bin_ns, bool(execution.caps["virtual_time"]), reads)
    if not cells:
        return [], None
    first = 1 + max(cell["id"] for cell in execution.cells)
    cells = numbered(cells, first)
    execution.spec.cleanup_files = sorted({*execution.spec.cleanup_files, *(f for cell in cells for f in cell.files)})
    progress.add(cells)
    execution.close()  # reads may go deeper than the first stage; and a simulated server begins rested, as planned
    execution.stage(cells)
    return _retests_of(execution, factor), _reads_of(execution, reads)


def _read_plan(
    execution: Execution, fit: BucketFit, bin_ns: int, flush_ns: int | None, left_ns: int
) -> ReadPlan | None:
    """The best plan of reads that fits what is left of the budget and of the target's room; says what does not."""
    from naslab.commands.plans import burst

    plans = burst.read_plans(fit, bin_ns, flush_ns, execution.caps)
    space = execution.document["environment"]["space"]
    if plans and space is not None and 2 * len(burst.READ_FILES) * plans[0].file_bytes > space["free_bytes"]:
        execution.warn("reads", "no space for the files to read; whether reads share the burst is unknown")
        return None
    for plan in plans:
        if plan.planned_ns(fit) <= left_ns:
            return plan
        what = f"a rest of {duration_text(plan.rest_ns)}, and reads after it"
        execution.warn("budget", f"the budget left no time for {what}; the cause may stay undecided")
    return None


def _retests_of(execution: Execution, factor: int) -> list[Retest]:
    """The retests, each with the time without load before it: from the end of the drain to its start."""
    from naslab.analysis.causes import Retest
    from naslab.analysis.sustained import series_of_cell

    run = execution.store.load(execution.run_id)
    found, ended_ns = [], 0
    for cell in sorted(run.cells, key=lambda cell: int(cell["id"])):
        if cell["workload"] == "drain":
            ended_ns = cell["start_ns"] + cell["window_ns"]
        elif cell["workload"] in ("retest", "limited retest") and cell["status"] == "complete":
            series = series_of_cell(run, cell).merged(factor)
            found.append(Retest(cell["start_ns"] - ended_ns, series, cell["workload"] == "limited retest"))
    return found


def _reads_of(execution: Execution, plan: ReadPlan | None) -> Reads | None:
    """The reads as evidence; None when there were none, or one of them failed."""
    from naslab.analysis.causes import READ_DEPTH, Reads
    from naslab.analysis.sustained import series_of_cell

    run = execution.store.load(execution.run_id)
    cells = {cell["workload"]: cell for cell in run.cells if cell["status"] == "complete" and cell["window_ns"]}
    if plan is None or not {"reads after", "reads again", "reads rested"} <= cells.keys():
        return None
    after, again = (
        cells[name]["bytes"] * NS_PER_S / cells[name]["window_ns"] for name in ("reads after", "reads again")
    )
    cell = cells["reads rested"]
    rested = series_of_cell(run, cell)
    if len(rested) < LEAST_READ_BINS:
        rested = RateSeries(np.array([cell["bytes"]]), np.array([cell["ops"]]), cell["window_ns"])
    return Reads(after, again, rested, plan.whole, plan.depth >= READ_DEPTH)
