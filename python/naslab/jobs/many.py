"""Jobs that many clients do at once: each in a folder of its own, all beginning together, one result of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError
from naslab.jobs.carry import TIMES_WORDS, Plan, archives_part, placed
from naslab.jobs.outcome import merged_step
from naslab.spec import CellSpec

if TYPE_CHECKING:
    from naslab.execute import Execution

_TOLD = ("names_changed", "times_preserved", "time_resolution_ns", "skipped")
"""Of the clients' own parts: alike where their sources are."""


def check(plan: Plan) -> None:
    """Raises UsageError for what jobs of several clients cannot do."""
    if plan.to is not None:
        raise UsageError(f"--to {plan.to}: several clients would write there; leave it out, or --clients")


class ManyCarriers:
    """One run of jobs under way on all clients. `part` is the document's: a source is each client's, the rest all's."""

    def __init__(self, execution: Execution, plan: Plan, cells: list[CellSpec]) -> None:
        self.execution, self.plan, self.cells = execution, plan, cells
        self.part = placed(plan, execution.target.protocol)[1]
        execution.document["job"] = self.part

    def carry_out(self) -> None:
        """All jobs, one after the other. Raises TargetError and KeyboardInterrupt."""
        self.execution.hooks.on_result = self._take
        try:
            for one, cell in zip(self.plan.jobs, self.cells, strict=True):
                self.execution.stage([cell])
                if self.execution.status != "complete":
                    return
                if not self.part["times_preserved"] and one.job.dates and not one.prepares:
                    self.execution.warn("times_not_preserved", TIMES_WORDS)
        finally:
            if self.execution.begun:
                self.execution.store.update_run(self.execution.run_id, job=self.part)

    def _take(self, result: Mapping[str, Any]) -> None:
        """Keeps what the clients say of a job, once its cell is in the store."""
        found: Sequence[Mapping[str, Any]] = result["jobs"]
        cell = next(each for each in self.execution.cells if each["id"] == result["id"])
        first = found[0]
        self.part |= {name: first[name] for name in _TOLD}
        self.part["clients"] = result["clients"]["count"]
        self.part["changed"] = sum(each["changed"] for each in found)
        self.part["steps"].append({**merged_step([each["step"] for each in found], cell), "status": result["status"]})
        if archives := [each["archives"] for each in found if each["archives"]]:
            self.part["archives"] = archives_part(archives)
        if lost := sum(each["unreadable"] for each in found):
            self.execution.warn("skipped", f"{lost} files of the sources could not be read and were left out")
        self.execution.store.update_run(self.execution.run_id, job=self.part)
