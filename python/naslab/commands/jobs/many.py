"""Jobs that many clients do at once: each in a folder of its own, all beginning together, one result of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.commands.jobs.carry import CHANGED_WORDS, LOST_WORDS, TIMES_WORDS, Plan, archives_part, placed, unlike
from naslab.commands.jobs.outcome import ClientJob, merged_step
from naslab.errors import UsageError
from naslab.results.describe import plain, typed
from naslab.spec import CellSpec

if TYPE_CHECKING:
    from naslab.execution.execute import Execution


def check(plan: Plan) -> None:
    """Raises UsageError for what jobs of several clients cannot do."""
    if plan.to is not None:
        raise UsageError(f"--to {plan.to}: several clients would write there; leave it out, or --clients")


class ManyCarriers:
    """One run of jobs under way on all clients. `part` is the document's: a source is each client's, the rest all's."""

    def __init__(self, execution: Execution, plan: Plan, cells: list[CellSpec]) -> None:
        self.execution, self.plan, self.cells = execution, plan, cells
        self.part = placed(plan, execution.target.protocol)[1]
        self._lost = 0
        execution.document["job"] = plain(self.part)

    def carry_out(self) -> None:
        """All jobs, one after the other. Raises TargetError and KeyboardInterrupt."""
        self.execution.hooks.on_result = self._take
        try:
            for one, cell in zip(self.plan.jobs, self.cells, strict=True):
                self.execution.stage([cell])
                if self.execution.status != "complete":
                    return
                if not self.part.times_preserved and one.job.dates and not one.prepares:
                    self.execution.warn("times_not_preserved", TIMES_WORDS)
        finally:
            if self.execution.begun:
                self.execution.keep(job=plain(self.part))

    def _take(self, result: Mapping[str, Any]) -> None:
        """Keeps what the clients say of a job, once its cell is in the store."""
        found, part = [typed(each, ClientJob) for each in result["jobs"]], self.part
        cell = next(each for each in self.execution.cells if each["id"] == result["id"])
        first = found[0]  # names and times are alike where the sources are
        part.names_changed, part.times_preserved = first.names_changed, first.times_preserved
        part.time_resolution_ns, part.clients = first.time_resolution_ns, result["clients"]["count"]
        self._warn(found)
        step = merged_step([each.step for each in found], cell)
        step.status = result["status"]
        part.steps.append(step)
        if archives := [each.archives for each in found if each.archives]:
            part.archives = archives_part(archives)
        self.execution.keep(job=plain(self.part))

    def _warn(self, found: Sequence[ClientJob]) -> None:
        """What is not on the target as it is in the sources: of all clients, each file once."""
        warn, first = self.execution.warn, not self.part.steps
        skipped = sum((Counter(each.skipped) for each in found), Counter())
        lost, changed = sum(each.unreadable for each in found), sum(each.changed for each in found)
        self.part.skipped = dict(skipped)
        for kind, text in unlike(self.part) if first else ():
            warn(kind, text)
        if lost > self._lost:
            warn("skipped", LOST_WORDS.format(lost - self._lost))
        if changed > (self.part.changed or 0):
            warn("source_changed", CHANGED_WORDS.format(changed))
        self._lost, self.part.changed = lost, changed
        if lost:
            self.part.skipped["unreadable files"] = lost
