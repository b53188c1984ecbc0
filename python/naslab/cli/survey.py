"""`naslab run`: stages, each planned from what the ones before measured."""

from __future__ import annotations

import dataclasses

from naslab.cli.common import Budget, Common, Load, measure
from naslab.cli.progress import Progress
from naslab.execute import SPACE_FACTOR, Execution, probe, start
from naslab.plans import survey
from naslab.plans import sweep as sweeps
from naslab.spec import CellSpec, RunSpec
from naslab.store import Store

ENOUGH = 0.6
"""Share of the budget after which no further row of the sweep begins: the sustained cells need the rest."""


def run_survey(target_text: str, load: Load, common: Common) -> int:
    """`naslab run TARGET`."""
    spec = common.run_spec()
    target = common.target(target_text)
    options = load.options(common.seed, target.direct)
    probed = probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=load.depth)])
    free_bytes = int((probed["space"] or {}).get("free_bytes", 1 << 40))
    room = int(free_bytes / SPACE_FACTOR)
    limits = survey.Limits(room, common.budget_ns() or survey.Limits.budget_ns, common.most_bytes())
    survey.check_limits(limits, options.workers, free_bytes)
    spec.cells = survey.probe_cells(options, limits)
    _name_cleanup(spec, options.workers)
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
    return measure(execution, common, spec.cells, lambda shown: _stages(execution, shown, options, limits))


def _name_cleanup(spec: RunSpec, workers: int) -> None:
    names = (survey.PROBE_FILE, sweeps.FILE_NAME, survey.SUSTAINED_FILE)
    spec.cleanup_files = [file for name in names for file in sweeps.worker_files(name, workers)]


def _stages(execution: Execution, progress: Progress, options: sweeps.SweepOptions, limits: survey.Limits) -> None:
    budget = Budget(limits.budget_ns, execution)
    execution.stage(execution.spec.cells)

    def further(planned: list[CellSpec]) -> list[CellSpec]:
        first = 1 + max((cell["id"] for cell in execution.cells), default=-1)
        cells = [dataclasses.replace(cell, id=first + i) for i, cell in enumerate(planned)]
        progress.add(cells)
        return cells

    large = further(survey.large_probe_cells(options, limits, survey.speed_of(execution.cells)))
    if large and execution.status == "complete":
        execution.stage(large)
    if execution.status != "complete":
        return
    execution.close()  # its files go: each part was planned for the whole room
    seen = survey.speed_of(execution.cells)
    cells = further(survey.sweep_cells(options, limits, seen, execution.caps))
    done, rows = budget.stage(cells, ENOUGH)
    if execution.status != "complete":
        return
    if done < rows:
        progress.drop(cells)
        message = f"{rows - done} of {rows} rows of the sweep were left out to keep to the time; --budget allows more"
        execution.warn("budget", message)
    execution.close()
    execution.stage(further(survey.sustained_cells(options, limits, seen, execution.caps)))
