"""`naslab security TARGET`: what every combination of signing and encryption that the server allows costs.

A run is stored for each combination, all of one group; the baseline's carries `security`, the price list.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from naslab.analysis.intervals import LEVEL
from naslab.analysis.ratios import LEAST_REPEATS
from naslab.cli import options as o
from naslab.cli.arguments import CommonArguments, LimitArguments
from naslab.cli.caller import caller
from naslab.cli.common import Common, report_of, say_run
from naslab.cli.groups import with_arguments
from naslab.cli.interleave import end_interleaved, ended_by, exit_of, numbered
from naslab.commands.plans import security as plans
from naslab.comparison import security as prices
from naslab.comparison.security_words import sentences
from naslab.errors import TargetError, UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution, probe, start
from naslab.execution.waits import termination_as_interrupt
from naslab.results.describe import typed
from naslab.results.parts.security import Security
from naslab.results.store import Store, new_run_id
from naslab.spec import CellSpec
from naslab.targets.target import SERVERS

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.targets import Target

OF_ITSELF = ("repeats", "budget")
"""Ends that leave the runs complete."""
_AS_TYPED = {"signing_algorithm": "signing", "cipher": "encrypt"}
"""Options of a target's name that the engine calls otherwise."""


@dataclass(frozen=True)
class _Limits(LimitArguments):
    budget: o.BudgetOpt = "2m"


@dataclass(frozen=True)
class SecurityArguments:
    """Of `naslab security`."""

    target: o.TargetArg
    repeat: o.RepeatOpt = plans.BLOCKS
    limits: _Limits = field(default_factory=_Limits)
    common: CommonArguments = field(default_factory=CommonArguments)


@with_arguments
def security(arguments: SecurityArguments) -> int:
    """Price list of signing and encryption: what each combination that the server allows costs.

    Every combination is measured with the same small load, in rounds of random order, and compared with the unprotected
    one. Those that the server refuses are listed with the reason.
    """
    return run_security(arguments.target, arguments.repeat, Common.of("security", arguments))


def run_security(text: str, repeat: int, common: Common) -> int:
    """The command. Raises UsageError, SpaceError, TargetError before anything is measured."""
    common.check()
    _check_name(text)
    target = common.target(text)
    _check(text, target)
    return _PriceList(target, repeat, common).run()


def _check_name(text: str) -> None:
    """Raises UsageError for a mounted share, with the server behind it; before anything looks at the folder."""
    from naslab.cli.both_ways import mount_behind

    found = mount_behind(text) if "://" not in text else None
    if found is not None and found.url is not None:
        raise UsageError(
            f"{text}: a mount has the security that it was mounted with; name the server: naslab security {found.url}"
        )


def _check(text: str, target: Target) -> None:
    """Raises UsageError for a target that is no server, or whose name chooses what this command tries."""
    if target.protocol not in SERVERS:
        kind = "a simulated target" if target.protocol in ("sim", "null") else "a folder or device of this machine"
        raise UsageError(
            f"{text}: {kind} has no signing and no encryption; name a server: smb://HOST/SHARE or nfs://HOST/EXPORT"
        )
    if names := plans.pinned(target.protocol, target.options):
        given = ", ".join(dict.fromkeys(_AS_TYPED.get(name, name) for name in names))
        raise UsageError(f"{text}: all values of {given} are tried; leave the option out of the target's name")


@dataclass
class _Row:
    """A combination under way. reason: why it was refused. execution: of one that the server allows."""

    combination: plans.Combination
    target: Target
    probed: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    execution: Execution | None = None

    def document(self, loads: list[dict[str, Any]]) -> dict[str, Any]:
        """As `security_combination` of the run document."""
        facts = self.probed.get("facts", {})
        told = ("dialect", "signing", "encryption")
        session = {name: None if facts.get(name) is None else str(facts[name]) for name in told}
        if self.execution is None:
            return _combination(self.combination.name, "refused", self.reason, **session)
        more = {"run_id": self.execution.run_id, "loads": loads, **session}
        return _combination(self.combination.name, "measured", None, **more)


@dataclass
class _PriceList:
    """All combinations of one target. rows: those that the server refuses, too, in the order of the table."""

    target: Target
    repeat: int
    common: Common
    rows: list[_Row] = field(default_factory=list)

    def run(self) -> int:
        """Tries, measures, stores and says; the exit code."""
        self._try_all()
        plan = self._plan()
        with termination_as_interrupt(), contextlib.ExitStack() as stack:
            executions = self._begin(plan)
            for each in executions:
                stack.enter_context(contextlib.closing(each))
            ended = ended_by(executions, lambda: self._measure(plan, executions))
        return self._tell(ended, executions)

    def _allowed(self) -> list[_Row]:
        return [row for row in self.rows if not row.reason]

    def _try_all(self) -> None:
        """Logs in as the target is named, then with each combination. Raises TargetError.

        A wrong password or a missing share ends the command at the first login: eight would lock the user out.
        """
        usual = self._usual()
        for combination in plans.combinations(self.target.protocol):
            row = _Row(combination, self.target.with_options(**plans.tried(combination, self.target.options)))
            self.rows.append(row)
            try:
                row.probed = _probe(row.target)
            except (TargetError, UsageError) as error:
                row.reason = plans.demanded(combination, usual) or str(error)
            else:
                row.reason = _differs(combination, row.probed["facts"])
        if not self._allowed():
            reasons = "; ".join(f"{row.combination.name}: {row.reason}" for row in self.rows)
            none = TargetError(f"{self.target.url} allows no combination that naslab speaks: {reasons}")
            none.refuse()
            raise none

    def _usual(self) -> dict[str, Any]:
        """Facts of a session as the target is named, but without TLS. Raises TargetError.

        None of an export that refuses user numbers: it is asked with Kerberos, whose tickets lock nobody out.
        """
        try:
            usual = plans.usual(self.target.protocol, self.target.options)
            return dict(_probe(self.target.with_options(**usual))["facts"])
        except TargetError as error:
            if self.target.protocol != "nfs" or error.kind != "permission":
                raise
            return {}

    def _plan(self) -> plans.Plan:
        return plans.Plan.of(self.repeat, len(self._allowed()), self._budget_ns(), self.common.most_bytes())

    def _budget_ns(self) -> int:
        return self.common.budget_ns() or plans.BUDGET_NS

    def _begin(self, plan: plans.Plan) -> list[Execution]:
        shared, executions = new_run_id(), []
        size_bytes = self._file_bytes(plan)
        for position, row in enumerate(self._allowed()):
            spec = self.common.run_spec()
            spec.cells = [plans.written(size_bytes, self.common.seed)]
            extra = self.common.document_extra()
            extra["labels"] = {**extra["labels"], "security": row.combination.name}
            extra["interleaved"] = {"id": shared, "position": position, "level": LEVEL}
            row.execution = start(spec, row.target, Store(self.common.store), document_extra=extra)
            executions.append(row.execution)
        return executions

    def _file_bytes(self, plan: plans.Plan) -> int:
        allowed = self._allowed()
        room = (allowed[0].probed["space"] or {}).get("free_bytes", 1 << 40)
        return plans.file_bytes(int(room / SPACE_FACTOR), len(allowed), plan)

    def _measure(self, plan: plans.Plan, executions: Sequence[Execution]) -> str:
        """Why it ended: repeats or budget."""
        budget_s = self._budget_ns() / 1e9
        deadline = time.monotonic() + budget_s
        for each in executions:
            each.stage(each.spec.cells)
        cells = plans.timed(plan, executions[0].spec.cells[0].file_bytes, self.common.seed)
        order = random.Random(self.common.seed)
        for block in range(plan.blocks):
            # Fewer rounds than give a verdict are ended only when the budget is gone twice over, and never the first.
            if block and time.monotonic() > (deadline if block >= LEAST_REPEATS else deadline + budget_s):
                return "budget"
            if not self.common.quiet:
                print(f"naslab: round {block + 1} of {plan.blocks}", file=sys.stderr)
            for cell in order.sample(cells, len(cells)):
                for execution in order.sample(executions, len(executions)):
                    execution.stage(numbered(execution, [cell], block))
        return "repeats"

    def _tell(self, ended: str, executions: Sequence[Execution]) -> int:
        found, what = self._found(ended), "price list"
        told = sentences(typed(found, Security))
        others = [end_interleaved(each, ended, OF_ITSELF, what) for each in executions[1:]]
        first = end_interleaved(executions[0], ended, OF_ITSELF, what, told, security=found)
        return _say([first, *others], self.common, ended)

    def _found(self, ended: str) -> dict[str, Any]:
        """The `security` part of the document."""
        measured = {row.combination.name: row.execution.cells for row in self.rows if row.execution}
        loads, contrasts = prices.price_list(measured)
        combinations = [row.document(loads.get(row.combination.name, [])) for row in self.rows]
        combinations += [
            _combination(name, "not_spoken", reason)
            for protocol, name, reason in plans.NOT_SPOKEN
            if protocol == self.target.protocol
        ]
        baseline = self._allowed()[0].combination.name
        return {"baseline": baseline, "ended": ended, "combinations": combinations, "contrasts": contrasts}


def _probe(target: Target) -> dict[str, Any]:
    return probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=plans.DEPTH)])


def _differs(combination: plans.Combination, facts: dict[str, Any]) -> str:
    """How a session differs from what was asked for; empty when it does not."""
    for name, wanted in combination.facts.items():
        if (got := facts.get(name) or "none") != wanted:
            return f"the server answered with {name} {got} instead of {wanted}"
    return ""


def _combination(name: str, state: str, reason: str | None, **more: Any) -> dict[str, Any]:
    none: dict[str, Any] = {"run_id": None, "dialect": None, "signing": None, "encryption": None, "loads": []}
    return {"name": name, "state": state, "reason": reason, **none, **more}


def _say(runs: list[Run], common: Common, ended: str) -> int:
    """Report, text or JSON; the exit code."""
    unwritten = report_of(runs, common.report) if common.report else ""
    code, message = exit_of(ended, OF_ITSELF)
    code, message = code or int(bool(unwritten)), message or unwritten
    if (program := caller()) is not None:
        return program.take(runs[0], code, message)
    say_run(runs[0], common, None if unwritten else common.report)
    if message:
        print(f"naslab: {message}", file=sys.stderr)
    return code
