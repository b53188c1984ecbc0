"""`naslab compare --run`: targets measured in turns until the verdict is certain.

A block measures every row of the plan (one file's whole test sequence) on each target, rows in random order, the
targets of a row one right after the other; who is first changes from block to block. After each number of blocks in
`LOOKS` the sides are compared, at a level that leaves 5 % for all looks together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from naslab.analysis.ratios import LOOKS, POCOCK
from naslab.analysis.words import summarise
from naslab.cli.common import Common, Load
from naslab.compare.judgement import Comparison, compare
from naslab.compare.words import sentence
from naslab.errors import NaslabError, UsageError
from naslab.execute import Execution, probe, start, termination_as_interrupt
from naslab.plans import sweep as sweeps
from naslab.spec import CellSpec
from naslab.store import Store, new_run_id
from naslab.units import parse_size_list

if TYPE_CHECKING:
    from naslab.results.run import Run

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
    executions, options = _begin(plan, common)
    ended = "repeats"
    with termination_as_interrupt(), contextlib.ExitStack() as stack:
        for each in executions:
            stack.enter_context(contextlib.closing(each))
        try:
            ended = _until_certain(executions, options, plan, common)
        except KeyboardInterrupt:
            ended = "interrupted"
        except NaslabError as error:
            if not all(each.begun for each in executions):
                for each in executions:
                    each.withdraw(error)
                raise
            ended = str(error)
    return [_end(each, ended) for each in executions]


def _begin(plan: Plan, common: Common) -> tuple[list[Execution], sweeps.SweepOptions]:
    """A run for each target, probed and checked whole before the first is stored."""
    common.check()
    targets = [common.target(text) for text in plan.targets]
    options = plan.load.options(
        common.seed, any(target.direct for target in targets),
        file_sizes=parse_size_list(plan.file_size, "--file-size"), records=parse_size_list(plan.record, "--record"),
        ops=sweeps.parse_ops(plan.tests),
    )  # fmt: skip
    options.repeat = 1
    options.ops, _ = sweeps.with_prerequisites(options.ops)
    one = [CellSpec("read", 1, 1, ["x"], queue_depth=options.queue_depth)]
    caps = [probe(target, one)["caps"] for target in targets]
    for each in caps:
        sweeps.check_caps(options, each)
    shared = new_run_id()
    executions = []
    for position, target in enumerate(targets):
        spec = common.run_spec()
        spec.seed = common.seed + position  # two simulated servers of one seed would have the same noise
        spec.cells = sweeps.plan_cells(options, caps[position])
        mark = {"interleaved": {"id": shared, "position": position, "level": POCOCK}}
        document = {**common.document_extra(), **mark}
        executions.append(start(spec, target, Store(common.store), document_extra=document))
    return executions, options


def _until_certain(executions: list[Execution], options: sweeps.SweepOptions, plan: Plan, common: Common) -> str:
    """Why it ended: certain, budget or repeats."""
    deadline = time.monotonic() + (common.budget_ns() or BUDGET_NS) / 1e9
    shuffled = random.Random(common.seed)
    longest = 0.0
    for block in range(LOOKS[-1]):
        began = time.monotonic()
        if began + longest > deadline:
            return "budget"
        _measure_block(executions, options, block, shuffled)
        longest = max(longest, time.monotonic() - began)
        if block + 1 in LOOKS:
            found = _compared(executions, plan)
            if not common.quiet:
                for each in found:
                    print(f"{block + 1} blocks: {sentence(each)}", file=sys.stderr)
            if all(each.verdict != "undecided" for each in found):
                return "certain"
    return "repeats"


def _measure_block(
    executions: Sequence[Execution], options: sweeps.SweepOptions, block: int, shuffled: random.Random
) -> None:
    rows = [sweeps.rows_of(sweeps.plan_cells(options, each.caps)) for each in executions]
    order = list(range(len(rows[0])))
    shuffled.shuffle(order)
    for row in order:
        turn = (block + row) % len(executions)
        for at in [*range(turn, len(executions)), *range(turn)]:
            cells = rows[at][row]
            first = 1 + max((cell["id"] for cell in executions[at].cells), default=-1)
            numbered = [dataclasses.replace(cell, id=first + i, block=block) for i, cell in enumerate(cells)]
            executions[at].stage(numbered)


def _compared(executions: Sequence[Execution], plan: Plan) -> list[Comparison]:
    """Each target against the first, on what is measured so far."""
    documents = [[each.document] for each in executions]
    pairs = zip(documents[1:], plan.targets[1:], strict=True)
    return [compare(documents[0], other, (plan.targets[0], name), plan.margin) for other, name in pairs]


def _end(execution: Execution, ended: str) -> Run:
    """Stores the end of one target's run."""
    if ended == "interrupted":
        execution.status = "partial"
        execution.warn("interrupted", "the comparison was interrupted; what was measured until then is kept")
    elif ended not in ("certain", "budget", "repeats"):
        execution.status = "failed"
        execution.warn("error", ended)
    execution.document["cells"].sort(key=lambda cell: cell["id"])
    mark = {**execution.document["interleaved"], "ended": ended}
    return execution.finish(summary=summarise(execution.document), interleaved=mark)
