"""`naslab run --apps NAMES`: applications after the verdict, with files of such a size that they fit what is left."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from naslab.cli.apps import conclude
from naslab.cli.common import Budget
from naslab.cli.progress import Progress
from naslab.commands.apps.cells import cells_of, room_bytes
from naslab.commands.apps.generate import PREPARE_REQUEST_BYTES, Plan, plan
from naslab.commands.apps.model import Definition, chosen
from naslab.commands.plans.survey import Limits, Speed
from naslab.errors import UsageError
from naslab.execution.execute import Execution
from naslab.spec import CellSpec, DataSpec
from naslab.targets import Target

PLANNED_SHARE = 0.6
"""Of the time that is left: what the applications may take by the rates of the probe, which are rough."""
TRIED_SCALE, MIN_SCALE = 1 / 64, 1e-3
"""What is planned first: all sizes, and so the time, follow the scale."""
NAMES_PER_FILE = 6
"""Calls that a file costs beside its data: it is looked up, made or opened, flushed, closed, removed."""


@dataclass
class Applications:
    """What a person does with a NAS, measured in the run that finds what limits it."""

    definitions: list[Definition]
    data: DataSpec
    seed: int

    @classmethod
    def named(cls, only: str, data: DataSpec, seed: int, target: Target) -> Applications:
        """Those of `--apps`. Raises UsageError."""
        try:
            found = chosen(only)
        except UsageError as error:
            raise UsageError(str(error).replace("--only", "--apps", 1)) from None
        if target.clients is not None:
            raise UsageError("--apps: not with several clients; measure them alone: naslab apps TARGET --clients N")
        return cls(found, data, seed)

    def carry_out(
        self, execution: Execution, progress: Progress, limits: Limits, seen: Speed,
        further: Callable[[list[CellSpec]], list[CellSpec]],
    ) -> None:  # fmt: skip
        """Prepares, runs and cleans up one after the other. limits: what is left. further: numbers cells."""
        plans = self.fitting(limits, seen)
        budget = Budget(limits.budget_ns, execution)
        budget.begin()
        if len(plans) < len(self.definitions):
            left = [one.name for one in self.definitions if one.name not in {made.definition.name for made in plans}]
            execution.warn("budget", f"{', '.join(left)}: left out: they need more space, bytes or time than is left")
        try:
            for at, made in enumerate(plans):
                if execution.status != "complete" or (at and budget.spent()):
                    break
                self._one(execution, progress, made, further)
            done = {cell["workload"] for cell in execution.cells}
            missed = [made.definition.name for made in plans if made.definition.name not in done]
            if missed and execution.status == "complete":
                execution.warn("budget", f"{', '.join(missed)}: left out to keep to the time; --budget allows more")
        finally:
            if plans:
                conclude(execution, plans, recorded=False)

    def _one(
        self, execution: Execution, progress: Progress, made: Plan,
        further: Callable[[list[CellSpec]], list[CellSpec]],
    ) -> None:  # fmt: skip
        progress.step(f"the application {made.definition.name}")
        with tempfile.TemporaryDirectory(prefix="naslab-apps-") as folder:
            row = further(cells_of(made, Path(folder), False, self.data))
            progress.drop(execution.stage(row))

    def fitting(self, limits: Limits, seen: Speed) -> list[Plan]:
        """The plans of one scale that fits the time and the bytes; without those whose files have no room."""
        tried = [plan(one, self.seed, TRIED_SCALE) for one in self.definitions]
        scale = scale_of(tried, limits, seen)
        plans = [plan(one, self.seed, scale) for one in self.definitions]
        plans = [made for made in plans if room_bytes(made) <= limits.room_bytes]
        allowed = limits.share(1.0)
        while plans and sum(map(moved_bytes, plans)) > allowed:
            plans.remove(max(plans, key=moved_bytes))
        return plans


def moved_bytes(made: Plan) -> int:
    """All that preparing and running an application moves."""
    return made.prepared_bytes() + made.moved_bytes("read") + made.moved_bytes("write")


def seconds_of(made: Plan, seen: Speed) -> float:
    """Time of an application, roughly: its bytes at the rate seen, its requests and files one at a time, its pauses."""
    facts = made.facts()
    files = facts["files_prepared"] + facts["files_made"]
    requests = facts["requests"] / max(facts["streams"], 1) + made.prepared_bytes() / PREPARE_REQUEST_BYTES
    waits = (requests + NAMES_PER_FILE * files) * seen.latency_ns / 1e9
    return float(moved_bytes(made) / seen.rate_bytes_per_s + waits + (made.think_ns or 0) / 1e9)


def scale_of(tried: Sequence[Plan], limits: Limits, seen: Speed) -> float:
    """The scale that takes PLANNED_SHARE of the time and fits room and bytes: at most the applications' own size."""
    seconds = sum(seconds_of(made, seen) for made in tried)
    ratios = [
        PLANNED_SHARE * limits.budget_ns / 1e9 / max(seconds, 1e-9),
        limits.room_bytes / max(1, *map(room_bytes, tried)),
        limits.share(1.0) / max(1, sum(map(moved_bytes, tried))),
    ]
    return max(MIN_SCALE, min(1.0, _two_digits(TRIED_SCALE * min(ratios))))


def _two_digits(value: float) -> float:
    """Rounded down, to be read."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.floor(value / unit) * unit, 9)
