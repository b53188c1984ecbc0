"""`naslab apps --find-streams`: how many streams of a film the target holds at its own rate."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.cli.common import Budget, Common
from naslab.commands.apps.capacity import Search, can_multiply, is_held, late_ns, multiplied, step_of, streams_of
from naslab.commands.apps.cells import cells_of, room_bytes
from naslab.commands.apps.generate import Plan, plan
from naslab.errors import UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution
from naslab.results.parts.apps import StreamsHeld, StreamsTried
from naslab.spec import DataSpec

if TYPE_CHECKING:
    from naslab.cli.progress import Progress


def check_find(plans: Sequence[Plan], pace: str) -> None:
    """Raises UsageError where nothing could be found."""
    if pace != "recorded":
        raise UsageError("--find-streams: streams have a rate of their own only with --pace recorded")
    if not any(can_multiply(made.definition) for made in plans):
        raise UsageError("--find-streams: none of the applications only plays and records; name one with --only")


@dataclass
class Finder:
    """Looks for the number of streams of one application after the other. found: what goes into the document."""

    execution: Execution
    common: Common
    scale: float
    data: DataSpec
    progress: Progress
    free_bytes: int | None
    found: list[StreamsHeld] = field(default_factory=list)
    _budget: Budget | None = None

    def find(self, made: Plan) -> None:
        """Tries the application's own number of streams and more."""
        own = made.definition
        if not can_multiply(own) or self.execution.status != "complete":
            return
        limit = self.common.budget_ns()
        self._budget = Budget(limit, self.execution) if limit is not None else None
        search = Search(streams_of(own), step_of(own))
        tries: list[StreamsTried] = []
        stopped: list[str] = []
        search.run(lambda streams: self._attempt(own, streams, tries, stopped))
        each = made.prepared_bytes() + made.moved_bytes("write")
        assert made.duration_ns is not None
        rate = each * 1e9 / made.duration_ns / streams_of(own)
        why = stopped[0] if stopped else None
        self.found.append(StreamsHeld(own.name, search.held, search.failed, rate, tries, why))

    def _attempt(self, own: Any, streams: int, tries: list[StreamsTried], stopped: list[str]) -> bool | None:
        """Whether so many are held; one that failed on a real server is tried once more, for a hiccup of the client."""
        made = plan(multiplied(own, streams), self.common.seed, self.scale)
        for last in (self.execution.target.protocol == "sim", True):
            reason = self._cannot(made)
            if reason is not None:
                stopped.append(reason)
                return None
            tries.append(self._measure(made, streams))
            if tries[-1].held or last:
                break
        return tries[-1].held

    def _cannot(self, made: Plan) -> str | None:
        if self.execution.status != "complete":
            return "the run ended"
        if self._budget is not None and self._budget.spent():
            return "the budget was used up"
        needed = round(room_bytes(made) * SPACE_FACTOR)
        if self.free_bytes is not None and needed > self.free_bytes:
            return "no space for more films"
        most = self.common.most_bytes()
        moved = sum(cell["bytes"] for cell in self.execution.cells)
        if (
            most is not None
            and moved + made.prepared_bytes() + made.moved_bytes("read") + made.moved_bytes("write") > most
        ):
            return "--max-bytes was reached"
        return None

    def _measure(self, made: Plan, streams: int) -> StreamsTried:
        first = max((cell["id"] for cell in self.execution.cells), default=-1) + 1
        with tempfile.TemporaryDirectory(prefix="naslab-apps-") as folder:
            row = cells_of(made, Path(folder), True, self.data)
            row = [dataclasses.replace(cell, id=first + at) for at, cell in enumerate(row)]
            self.progress.add(row)
            self.progress.drop(self.execution.stage(row))
        cell = next((c for c in self.execution.cells if c["id"] == first + 1), None)
        if cell is None:
            return StreamsTried(streams, held=False, missed_starts=None, late_ns=None, cell=None)
        return StreamsTried(streams, is_held(made, cell), cell["missed_starts"], late_ns(made, cell), cell["id"])
