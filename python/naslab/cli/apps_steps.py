"""`naslab apps --step`: preparing, running and cleaning up as commands of their own."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.cli.common import Common, measure
from naslab.commands.apps.cells import blocks_of, cells_of, removal_cell
from naslab.commands.apps.generate import Plan, plan
from naslab.commands.apps.prepared import (
    BEGUN,
    READY,
    USED,
    How,
    Place,
    State,
    check_ready,
    check_same,
    digest,
    inner_target,
    restores_files,
)
from naslab.errors import SpaceError, UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution, probe, start
from naslab.results.store import Store
from naslab.spec import CellSpec, DataSpec
from naslab.units import amount_text

if TYPE_CHECKING:
    from naslab.cli.progress import Progress
    from naslab.targets import Target

STEPS = ("prepare", "run", "clean")
Conclude = Callable[[Execution], None]


@dataclasses.dataclass
class Steps:
    """One step of some applications. conclude: keeps the results of a run in its document."""

    target: Target
    plans: Sequence[Plan]
    scale: float
    recorded: bool
    repeat: int
    data: DataSpec
    common: Common
    conclude: Conclude

    def prepare(self) -> int:
        """Prepares those that are not ready yet."""
        how = self._how()
        with Place(self.target) as place:
            state = place.state() if place.exists() else None
            if state is not None and state.apps:
                check_same(state, how)
            state = State(how, state.apps if state is not None else {})
            todo = [made for made in self.plans if state.apps.get(made.definition.name) != (READY, digest(made))]
            if not todo:
                print("naslab: all of them are prepared already", file=sys.stderr)
                return 0
            self._check_room(todo)
            fresh = not place.exists()
            if fresh:
                place.make()
            place.save(state)
            return self._carry_out(place, state, self._preparing(todo, fresh))

    def _preparing(self, todo: Sequence[Plan], fresh: bool) -> Iterator[_Row]:
        """fresh: the folder was just made, so nothing of an earlier attempt can lie in it."""
        with _folder() as folder:
            for made in todo:
                first = cells_of(made, folder, self.recorded, self.data)[0]
                path = folder / f"{made.definition.name}.again.script"
                yield _Row(made, [first] if fresh else [removal_cell(made, path, ever=True), first], BEGUN, READY)

    def run(self) -> int:
        """Runs applications that are prepared, and removes what they made."""
        how = self._how()
        with Place(self.target) as place:
            state = place.state() if place.exists() else None
            if state is None:
                raise UsageError(
                    f"nothing is prepared on {self.target.url}: naslab apps TARGET --step prepare, then --step run"
                )
            check_same(state, how)
            check_ready(state, self.plans)
            for made in self.plans:
                place.check_files(made)
            return self._carry_out(place, state, self._running())

    def _running(self) -> Iterator[_Row]:
        with _folder() as folder:
            rows = []
            for made in self.plans:
                tidy = removal_cell(made, folder / f"{made.definition.name}.tidy.script", keep_prepared=True)
                rows.append([cells_of(made, folder, self.recorded, self.data)[1], tidy])
            plans = {made.definition.name: made for made in self.plans}
            for row in blocks_of(rows, self.repeat, self.common.seed):
                made = plans[str(row[0].workload)]
                yield _Row(made, row, USED, READY if restores_files(made) else USED)

    def clean(self, everything: bool) -> int:
        """Removes what was prepared, and the folder once nothing is left in it. everything: no `--only` was given."""
        with Place(self.target) as place:
            if not place.exists():
                print(f"naslab: nothing is prepared on {self.target.url}", file=sys.stderr)
                return 0
            state = place.state() or State(self._how())
            again = [plan(made.definition, state.how.seed, state.how.scale) for made in self.plans]
            there = [made for made in again if made.definition.name in state.apps]
            code = self._carry_out(place, state, self._cleaning(there)) if there else 0
            if code or state.apps:
                rest = ", ".join(state.apps)
                if everything and rest and not code:
                    print(f"naslab: still prepared: {rest}; name the files of --app that define them", file=sys.stderr)
                    return 1
                return code
            left = place.remove()
            for path in left:
                print(f"naslab: kept {path}: naslab did not make it; move it away and clean again", file=sys.stderr)
            return 1 if left else 0

    def _cleaning(self, there: Sequence[Plan]) -> Iterator[_Row]:
        with _folder() as folder:
            for made in there:
                cell = removal_cell(made, folder / f"{made.definition.name}.script", ever=True)
                yield _Row(made, [cell], USED, "")

    def _how(self) -> How:
        return How(self.scale, self.common.seed, self.data.compress_ratio, self.data.dedupe_ratio)

    def _check_room(self, todo: Sequence[Plan]) -> None:
        """They all lie there at once, and the largest writes beside them. Raises SpaceError."""
        space = probe(self.target, []).get("space")
        needed = sum(made.prepared_bytes() for made in todo) + max(made.moved_bytes("write") for made in self.plans)
        if space is not None and needed * SPACE_FACTOR > space["free_bytes"]:
            raise SpaceError(
                f"--step prepare needs {amount_text(round(needed * SPACE_FACTOR))}, the target has "
                f"{amount_text(space['free_bytes'])} free: use a smaller --scale or --only",
                "no_space",
                before_run=True,
            )

    def _carry_out(self, place: Place, state: State, rows: Iterator[_Row]) -> int:
        """Measures row after row; the state is kept before and after each."""
        every = _numbered(rows)
        first = next(every)
        spec = dataclasses.replace(self.common.run_spec(), folder=None, cells=first.cells)
        execution = start(
            spec, inner_target(self.target), Store(self.common.store), document_extra=self.common.document_extra()
        )

        def work(progress: Progress) -> None:
            try:
                row: _Row | None = first
                while row is not None and execution.status == "complete":
                    _one(execution, place, state, row)
                    row = next(every, None)
                    if row is not None:
                        progress.add(row.cells)
            finally:
                self.conclude(execution)

        return measure(execution, self.common, first.cells, work)


@dataclasses.dataclass
class _Row:
    """Cells of one application, and its state while they are measured and after."""

    made: Plan
    cells: list[CellSpec]
    during: str
    after: str


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="naslab-apps-") as folder:
        yield Path(folder)


def _numbered(rows: Iterator[_Row]) -> Iterator[_Row]:
    number = 0
    for row in rows:
        row.cells = [dataclasses.replace(cell, id=number + at) for at, cell in enumerate(row.cells)]
        number += len(row.cells)
        yield row


def _one(execution: Execution, place: Place, state: State, row: _Row) -> None:
    name = row.made.definition.name
    state.apps[name] = (row.during, digest(row.made))
    place.save(state)
    left: list[Any] = execution.stage(row.cells)
    wanted = {cell.id for cell in row.cells}
    done = [cell for cell in execution.cells if cell["id"] in wanted]
    whole = not left and all(cell["status"] == "complete" and not cell["errors"] for cell in done)
    if whole and row.after:
        state.apps[name] = (row.after, digest(row.made))
    elif whole:
        del state.apps[name]
    place.save(state)
