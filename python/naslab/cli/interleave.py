"""`naslab compare --run`: targets measured in turns until the verdict is certain.

A block measures every row of the plan (one file's whole test sequence) on each target, rows in random order, the
targets of a row one right after the other; who is first changes from block to block. After each number of blocks in
`LOOKS` the sides are compared, at a level that leaves 5 % for all looks together. Systems of the lab stand beside each
other, each in a network of its own; where they do not fit, each is started for its part of a block.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from naslab.analysis.ratios import LOOKS, POCOCK
from naslab.cli.common import Common, Load
from naslab.commands.plans import sweep as sweeps
from naslab.comparison.judgement import Comparison, compare
from naslab.comparison.words import sentence
from naslab.errors import INTERRUPTED, NaslabError, UsageError
from naslab.execution.execute import Execution, probe, start
from naslab.execution.waits import termination_as_interrupt
from naslab.lab import session as lab
from naslab.render.terminal.summary import summarise
from naslab.results.store import Store, new_run_id
from naslab.spec import CellSpec
from naslab.units import parse_size_list

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.targets import Target

BUDGET_NS = 600_000_000_000
"""Without --budget: ten minutes."""


@dataclass(frozen=True)
class Plan:
    """What to measure on each target. Sizes as written. margin: of rates, a share."""

    targets: Sequence[str]
    file_size: str
    record: str
    tests: str
    load: Load
    margin: float


def run_interleaved(plan: Plan, common: Common) -> list[Run]:
    """Measures, and stores a run for each target, the baseline first; whatever ends it, all of it is kept.

    Raises UsageError, TargetError or SpaceError before anything is measured.
    """
    if len(plan.targets) < 2:
        raise UsageError("compare --run: give at least two targets, the baseline first")
    with termination_as_interrupt(), lab.apart(), contextlib.ExitStack() as stack:
        turns = _begin(plan, common)
        for each in turns.sides:
            stack.callback(turns.close, each)
        ended = ended_by(turns.sides, lambda: _until_certain(turns, plan, common))
        for each in turns.sides:
            turns.close(each)
    of_itself = ("certain", "budget", "repeats")
    return [end_interleaved(each, ended, of_itself, "comparison") for each in turns.sides]


@dataclass
class _Turns:
    """The runs under way. shifts: the targets' systems cannot be up together (the memory of two labs, say), so that
    each is started for its part of a block and ended after it."""

    plan: Plan
    common: Common
    options: sweeps.SweepOptions
    sides: list[Execution] = field(default_factory=list)
    shifts: bool = False

    def block(self, number: int, shuffled: random.Random) -> None:
        """One block: all rows on all targets."""
        rows = [sweeps.rows_of(sweeps.plan_cells(self.options, each.caps)) for each in self.sides]
        order = list(range(len(rows[0])))
        shuffled.shuffle(order)
        if self.shifts:
            for at in self._from(number):
                self.reopen(at)
                for row in order:
                    self._stage(at, rows[at][row], number)
                self.close(self.sides[at])
            return
        for row in order:
            for at in self._from(number + row):
                self._stage(at, rows[at][row], number)

    def _from(self, turn: int) -> list[int]:
        count = len(self.sides)
        return [(turn + at) % count for at in range(count)]

    def _stage(self, at: int, cells: Sequence[CellSpec], block: int) -> None:
        side = self.sides[at]
        with lab.inside(side.target):
            side.stage(numbered(side, cells, block))

    def reopen(self, at: int) -> None:
        """The system of one target, started anew, with no other beside it."""
        lab.close()
        side = self.sides[at]
        target = self.common.target(self.plan.targets[at])
        side.target = target.seeded(side.spec.seed).with_timeout(side.spec.timeout_ns)

    @staticmethod
    def close(side: Execution) -> None:
        """Removes what the run made on its target."""
        with lab.inside(side.target):
            side.close()


def _begin(plan: Plan, common: Common) -> _Turns:
    """A run for each target, probed and checked whole before the first is stored."""
    common.check()
    shifts = False
    try:
        targets = [common.target(text) for text in plan.targets]
    except NaslabError:
        if sum(text.startswith(lab.SCHEME) for text in plan.targets) < 2:
            raise
        shifts, targets = True, []
    # One after the other: what stands in the way of one alone is an error.
    caps = []
    for at, text in enumerate(plan.targets):
        if shifts:
            lab.close()
            targets.append(common.target(text))
        with lab.inside(targets[at]):
            caps.append(probe(targets[at], [CellSpec("read", 1, 1, ["x"], queue_depth=plan.load.depth)])["caps"])
    turns = _Turns(plan, common, _options(plan, common, targets), shifts=shifts)
    for each in caps:
        sweeps.check_caps(turns.options, each)
    shared = new_run_id()
    for position, text in enumerate(plan.targets):
        if shifts:
            lab.close()
            targets[position] = common.target(text)
        turns.sides.append(_start(turns, targets[position], caps[position], {"id": shared, "position": position}))
    if shifts and not common.quiet:
        print(
            "naslab: the systems do not fit in memory together: each is started only for its part of a block",
            file=sys.stderr,
        )
    return turns


def _options(plan: Plan, common: Common, targets: Sequence[Target]) -> sweeps.SweepOptions:
    options = plan.load.options(
        common.seed, any(target.direct for target in targets),
        file_sizes=parse_size_list(plan.file_size, "--file-size"), records=parse_size_list(plan.record, "--record"),
        ops=sweeps.parse_ops(plan.tests),
    )  # fmt: skip
    options.repeat = 1
    options.ops, _ = sweeps.with_prerequisites(options.ops)
    return options


def _start(turns: _Turns, target: Target, caps: Mapping[str, Any], mark: Mapping[str, Any]) -> Execution:
    common = turns.common
    spec = common.run_spec()
    spec.seed = common.seed + mark["position"]  # two simulated servers of one seed would have the same noise
    spec.cells = sweeps.plan_cells(turns.options, caps)
    document = {**common.document_extra(), "interleaved": {**mark, "level": POCOCK}}
    with lab.inside(target):
        return start(spec, target, Store(common.store), document_extra=document)


def _until_certain(turns: _Turns, plan: Plan, common: Common) -> str:
    """Why it ended: certain, budget or repeats."""
    deadline = time.monotonic() + (common.budget_ns() or BUDGET_NS) / 1e9
    shuffled = random.Random(common.seed)
    longest = 0.0
    for block in range(LOOKS[-1]):
        began = time.monotonic()
        if began + longest > deadline:
            return "budget"
        turns.block(block, shuffled)
        longest = max(longest, time.monotonic() - began)
        if block + 1 in LOOKS:
            found = _compared(turns.sides, plan)
            if not common.quiet:
                for each in found:
                    print(f"{block + 1} blocks: {sentence(each)}", file=sys.stderr)
            if all(each.verdict != "undecided" for each in found):
                return "certain"
    return "repeats"


def _compared(executions: Sequence[Execution], plan: Plan) -> list[Comparison]:
    """Each target against the first, on what is measured so far."""
    documents = [[each.document] for each in executions]
    pairs = zip(documents[1:], plan.targets[1:], strict=True)
    return [compare(documents[0], other, (plan.targets[0], name), plan.margin) for other, name in pairs]


def numbered(side: Execution, cells: Sequence[CellSpec], block: int) -> list[CellSpec]:
    """Cells of a block, with ids that follow those measured before."""
    first = 1 + max((cell["id"] for cell in side.cells), default=-1)
    return [dataclasses.replace(cell, id=first + at, block=block) for at, cell in enumerate(cells)]


def ended_by(sides: Sequence[Execution], measure: Callable[[], str]) -> str:
    """What `measure` says ended it, `interrupted`, or what went wrong.

    Raises NaslabError where not all of the runs had begun, which are then withdrawn.
    """
    try:
        return measure()
    except KeyboardInterrupt:
        return "interrupted"
    except NaslabError as error:
        if not all(each.begun for each in sides):
            for each in sides:
                each.withdraw(error)
            raise
        return str(error)


def exit_of(ended: str, of_itself: Collection[str]) -> tuple[int, str]:
    """The exit code, and what to say of it."""
    if ended in of_itself:
        return 0, ""
    return (INTERRUPTED, "interrupted; the results so far are stored") if ended == "interrupted" else (1, ended)


def end_interleaved(
    execution: Execution, ended: str, of_itself: Collection[str], what: str, says: Sequence[str] = (), **more: Any
) -> Run:
    """Stores the end of one of the runs that took turns.

    ended: why; of_itself: reasons that leave it complete. what: was interrupted, for people. says: its summary, the
    usual one where it is empty. more: fields of its document.
    """
    if ended == "interrupted":
        execution.status = "partial"
        execution.warn("interrupted", f"the {what} was interrupted; the results so far are kept")
    elif ended not in of_itself:
        execution.status = "failed"
        execution.warn("error", ended)
    execution.document["cells"].sort(key=lambda cell: cell["id"])
    execution.explain_cells()
    mark = {**execution.document["interleaved"], "ended": ended}
    return execution.finish(summary=[*says] or summarise(execution.document), interleaved=mark, **more)
