"""`naslab run`: the ladder, then a sweep and sustained cells, or applications, in what is left of the time."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass

from naslab.cli.common import Budget, Common, Load, measure
from naslab.cli.explain import climb_ladder
from naslab.cli.progress import Progress
from naslab.cli.survey_apps import Applications
from naslab.client.kept import ceiling_for, recent
from naslab.commands.plans import survey
from naslab.commands.plans import sweep as sweeps
from naslab.execution.execute import SPACE_FACTOR, Execution, probe, start
from naslab.explain import steps
from naslab.results.describe import plain
from naslab.results.store import Store
from naslab.spec import CellSpec, RunSpec
from naslab.units import amount_text

MAX_LOST = 3
"""Cells that may end with a lost connection; more of them are no accident, and the run counts as failed."""
CEILING_SHARE, CEILING_SECONDS, LEAST_CEILING_SECONDS = 0.02, 5.0, 1.0
"""Of the budget, and at most: what measuring the client itself may take."""
ENOUGH = 0.6
"""Share of the survey's budget after which no further row of the sweep begins: the sustained cells need the rest."""


@dataclass
class Survey:
    """One `naslab run` under way. budget: of all of it. sweep: whether one follows the verdict."""

    execution: Execution
    progress: Progress
    options: sweeps.SweepOptions
    limits: survey.Limits
    budget: Budget
    quiet: bool = False
    sweep: bool = True
    applications: Applications | None = None

    def carry_out(self) -> None:
        """Ladder, then sweep and sustained cells, or applications."""
        limits, execution = self.limits, self.execution
        most = None if limits.max_bytes is None else limits.max_bytes // 2
        if limits.room_bytes < steps.LEAST_ROOM_BYTES or (most is not None and most < steps.LEAST_MOVED_BYTES):
            execution.warn("ladder", self._left_out())
        else:
            shared = self.sweep or self.applications is not None
            budget_ns = int(limits.budget_ns * (steps.LADDER_SHARE if shared else 1.0))
            climb_ladder(execution, self.progress, self.options, budget_ns, limits.room_bytes, most)
        if execution.status != "complete":
            return
        execution.close()  # its files go: each part is planned for the whole room
        execution.spec.cells = []
        keep_client(execution, self.limits.budget_ns, self.quiet)  # the target has taken what was asked of it
        if self.sweep or self.applications is not None:
            self._survey()

    def _left_out(self) -> str:
        room, moved = amount_text(steps.LEAST_ROOM_BYTES), amount_text(2 * steps.LEAST_MOVED_BYTES)
        return f"the search for the bottleneck was skipped: it needs {room} of space and --max-bytes of {moved} or more"

    def _survey(self) -> None:
        most = None if self.limits.max_bytes is None else self.limits.max_bytes // 2
        left = dataclasses.replace(self.limits, budget_ns=self.budget.left_ns(), max_bytes=most)
        execution, own = self.execution, Budget(left.budget_ns, self.execution)
        own.begin()
        self.progress.step("a sweep over file sizes" if self.applications is None else "how fast are files written?")
        execution.stage(self._further(survey.probe_cells(self.options, left)))
        large = self._further(survey.large_probe_cells(self.options, left, survey.speed_of(execution.cells)))
        if large and execution.status == "complete":
            execution.stage(large)
        if execution.status != "complete":
            return
        execution.close()
        seen = survey.speed_of(execution.cells)
        if self.applications is not None:
            rest = dataclasses.replace(left, budget_ns=own.left_ns())
            self.applications.carry_out(execution, self.progress, rest, seen, self._further)
            return
        self._sweep(own, left, seen)

    def _sweep(self, own: Budget, left: survey.Limits, seen: survey.Speed) -> None:
        execution = self.execution
        cells = self._further(survey.sweep_cells(self.options, left, seen, execution.caps))
        done, rows = own.stage(cells, ENOUGH)
        if execution.status != "complete":
            return
        if done < rows:
            self.progress.drop(cells)
            message = (
                f"{rows - done} of {rows} rows of the sweep were left out to keep within the time; --budget allows more"
            )
            execution.warn("budget", message)
        execution.close()
        self.progress.step("one large file", last=True)
        execution.stage(self._further(survey.sustained_cells(self.options, left, seen, execution.caps)))

    def _further(self, planned: list[CellSpec]) -> list[CellSpec]:
        first = 1 + max((cell["id"] for cell in self.execution.cells), default=-1)
        cells = [dataclasses.replace(cell, id=first + i) for i, cell in enumerate(planned)]
        self.progress.add(cells)
        return cells


def keep_client(execution: Execution, budget_ns: int, quiet: bool) -> None:
    """Keeps with the run what this client can do at most (`client_ceiling`); not for a simulated server.

    Measured where nothing recent is kept, for a fiftieth of the budget at most; not at all where that is no time.
    """
    seconds = min(budget_ns * CEILING_SHARE / 1e9, CEILING_SECONDS)
    fresh = recent(execution.store.path) is not None
    if execution.target.protocol in ("sim", "null") or fresh or seconds < LEAST_CEILING_SECONDS:
        return
    say = None if quiet else lambda text: print(text, file=sys.stderr)
    found, _ = ceiling_for(execution.store.path, seconds, say)
    execution.keep(client_ceiling=plain(found))


def run_survey(target_text: str, load: Load, common: Common, sweep: bool = True, apps: str = "") -> int:
    """`naslab run TARGET`. sweep: whether one follows the verdict. apps: applications that follow it instead."""
    spec = common.run_spec()
    target = common.target(target_text)
    options = load.options(common.seed, target.direct)
    applications = Applications.named(apps, options.data, common.seed, target) if apps else None
    probed = probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=load.depth)])
    free_bytes = int((probed["space"] or {}).get("free_bytes", 1 << 40))
    room = int(free_bytes / SPACE_FACTOR)
    limits = survey.Limits(room, common.budget_ns() or survey.Limits.budget_ns, common.most_bytes())
    survey.check_limits(limits, options.workers, free_bytes)
    # The first stage names the greatest depth: the target is opened for it.
    spec.cells = [CellSpec("read", 1, 1, ["x"], queue_depth=steps.MOST_DEPTH)]
    _name_cleanup(spec, options.workers)
    spec.goes_on = True
    store = Store(common.store)
    execution = start(spec, target, store, document_extra=common.document_extra())
    execution.forgives, execution.spares = MAX_LOST, True

    def work(progress: Progress) -> None:
        Survey(
            execution, progress, options, limits, Budget(limits.budget_ns, execution), common.quiet, sweep, applications
        ).carry_out()

    return measure(execution, common, [], work)


def _name_cleanup(spec: RunSpec, workers: int) -> None:
    names = (survey.PROBE_FILE, sweeps.FILE_NAME, survey.SUSTAINED_FILE)
    files = [file for name in names for file in sweeps.worker_files(name, workers)]
    spec.cleanup_files = [*steps.cleanup_files(), *files]
