"""What all measuring commands share: their options, the budget, the end of a run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.cli.arguments import CommonArguments, DataArguments, LoadArguments
from naslab.cli.caller import caller, words_typed
from naslab.cli.clients import clients_for, how_many, monitor_of
from naslab.cli.options import parse_labels
from naslab.cli.progress import Progress
from naslab.cli.ride_out import ride_out_ns
from naslab.commands.plans.sweep import SweepOptions, rows_of
from naslab.errors import INTERRUPTED, NaslabError, UsageError
from naslab.execution.execute import Execution
from naslab.execution.waits import termination_as_interrupt
from naslab.lab.opening import open_target
from naslab.render.report import write
from naslab.render.terminal.summary import summarise
from naslab.results.cell_names import long_name
from naslab.results.document import INTERRUPTION
from naslab.spec import CellSpec, DataSpec, RunSpec
from naslab.text.messages import safe_argv
from naslab.text.outputs import HTML, check_output
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.targets import Target


@dataclass
class Common:
    """Options that every measuring command takes. max_bytes, budget, timeout: as written, with units."""

    command: str
    store: Path | None
    as_json: bool
    quiet: bool
    seed: int
    labels: dict[str, str]
    note: str
    timeout: str
    report: Path | None
    max_bytes: str = ""
    budget: str = ""
    credentials: Path | None = None
    details: bool = True

    @classmethod
    def of(cls, command: str, arguments: Any, details: bool = True) -> Common:
        """Of a command's arguments: their group `common`, and their limits, as a group or on their own."""
        given: CommonArguments = arguments.common
        limits = getattr(arguments, "limits", arguments)
        return cls(
            command, given.store, given.as_json, given.quiet, given.seed, parse_labels(given.label), given.note,
            given.timeout, given.report, getattr(limits, "max_bytes", ""), getattr(limits, "budget", ""),
            given.credentials, details,
        )  # fmt: skip

    def __post_init__(self) -> None:
        program = caller()
        self.quiet = self.quiet or (program is not None and program.quiet)

    def target(self, text: str) -> Target:
        """The target, with password, timeout and seed. Raises UsageError."""
        target = open_target(text, self.credentials, timeout_ns=self.timeout_ns(), seed=self.seed)
        return dataclasses.replace(target, clients=clients_for(target), monitor=monitor_of())

    def document_extra(self) -> dict[str, Any]:
        """Fields of the run document that come from options."""
        return {"argv": safe_argv(words_typed()), "labels": self.labels, "note": self.note or None}

    def run_spec(self) -> RunSpec:
        """A run in a folder of its own, without cells yet. Raises UsageError for what these options get wrong."""
        self.check()
        spec = RunSpec({}, [], command=self.command, folder="", seed=self.seed, timeout_ns=self.timeout_ns())
        spec.ride_out_ns = ride_out_ns()
        return spec

    def check(self) -> None:
        """Everything that can be known to be wrong before anything is measured. Raises UsageError."""
        self.timeout_ns()
        self.budget_ns()
        self.most_bytes()
        if self.report is not None:
            check_output(self.report, "-o", HTML)

    def timeout_ns(self) -> int:
        """`--timeout`. Raises UsageError."""
        return _positive(parse_duration(self.timeout, "--timeout"), "--timeout", self.timeout)

    def budget_ns(self) -> int | None:
        """`--budget`, None when not given. Raises UsageError."""
        return _positive(parse_duration(self.budget, "--budget"), "--budget", self.budget) if self.budget else None

    def most_bytes(self) -> int | None:
        """`--max-bytes`, None when not given. Raises UsageError."""
        if not self.max_bytes:
            return None
        # Plans are one client's.
        return _positive(parse_size(self.max_bytes, "--max-bytes"), "--max-bytes", self.max_bytes) // how_many()


def _positive(value: int, option: str, text: str) -> int:
    if value <= 0:
        raise UsageError(f"{option} {text!r}: give more than 0")
    return value


@dataclass
class Load:
    """Options of the commands that do I/O, as parsed by the command line."""

    repeat: int = 1
    depth: int = 1
    workers: int = 1
    durability: str = "end"
    direct: bool = False
    compress: float = 1.0
    dedupe: float = 1.0
    verify: bool = False

    @classmethod
    def of(cls, given: LoadArguments, repeat: int = 1) -> Load:
        """Of a command's group of them."""
        return cls(repeat, **dataclasses.asdict(given))

    def options(self, seed: int, direct: bool, **more: Any) -> SweepOptions:
        """As options of a sweep. direct: the target's name asks for it. Raises UsageError."""
        if self.durability not in ("none", "end", "each"):
            raise UsageError(f"--durability {self.durability!r}: use none, end or each")
        data = data_of(self)
        sizes = {"file_sizes": [], "records": [], "ops": [], **more}
        return SweepOptions(
            repeat=self.repeat, workers=self.workers, queue_depth=self.depth, seed=seed,
            durability=self.durability,  # type: ignore[arg-type]
            direct=self.direct or direct, verify=self.verify, data=data, **sizes,
        )  # fmt: skip


def data_of(given: DataArguments | Load) -> DataSpec:
    """What is written. Raises UsageError for ratios that no data has."""
    for option, ratio in (("--compress", given.compress), ("--dedupe", given.dedupe)):
        if not 1.0 <= ratio <= 1e6:
            raise UsageError(f"{option} {ratio}: give a ratio from 1 to 1000000")
    return DataSpec("random", given.compress, given.dedupe)


REAL_TIMES = 10
"""So many times its budget may a simulated run take in real time."""


@dataclass
class Budget:
    """Time that may be spent; on a simulated server by its own clock, so that a busy machine gives the same digits.

    So many times the budget in real time end such a run all the same.
    """

    limit_ns: int
    execution: Execution
    _started: float = field(default_factory=time.monotonic)
    _simulated_ns: int = 0
    _seen: set[int] = field(default_factory=set)

    def spent(self, share: float = 1.0) -> bool:
        """Whether `share` of the budget is gone."""
        return self._gone_ns() >= self.limit_ns * share

    def _gone_ns(self) -> int:
        """What is spent."""
        real_ns = int((time.monotonic() - self._started) * 1e9)
        if not self.execution.caps["virtual_time"]:
            return real_ns
        for cell in self.execution.cells:
            if cell["id"] not in self._seen:
                self._seen.add(cell["id"])
                self._simulated_ns += cell["end_ns"] - cell["start_ns"] + (cell["flush_ns"] or 0)
        return max(real_ns // REAL_TIMES, self._simulated_ns)

    def begin(self) -> None:
        """Counts from now: what was spent before belongs to another part."""
        self._seen = {cell["id"] for cell in self.execution.cells}
        self._started, self._simulated_ns = time.monotonic(), 0

    def left_ns(self) -> int:
        """What is left, at least a tenth of the whole."""
        return max(self.limit_ns - self._gone_ns(), self.limit_ns // 10)

    def stage(self, cells: list[CellSpec], share: float = 1.0) -> tuple[int, int]:
        """Measures row after row until `share` of the budget is gone; rows measured, rows planned."""
        rows = rows_of(cells)
        for done, row in enumerate(rows):
            if self.spent(share) or self.execution.status != "complete":
                return done, len(rows)
            self.execution.stage(row)
        return len(rows), len(rows)


def measure(execution: Execution, common: Common, cells: list[CellSpec], work: Callable[[Progress], None]) -> int:
    """Carries `work` out with progress, and ends the run however that went; the exit code."""
    with termination_as_interrupt():
        failure: NaslabError | None = None
        with Progress(cells, common.quiet, common.budget_ns(), planned=bool(cells)) as progress:
            execution.hooks = progress.hooks
            if (program := caller()) is not None:
                program.watch(execution)
            try:
                with contextlib.closing(execution):
                    work(progress)
            except KeyboardInterrupt:
                execution.status = "partial"
                execution.warn(*INTERRUPTION)
            except NaslabError as error:
                if not execution.begun:
                    # What a command wants to keep of a run that was withdrawn fails, too: it is not the cause.
                    raise execution.refused or error from None
                failure = error
        return finish(execution, common, failure)


def finish(execution: Execution, common: Common, failure: NaslabError | None = None) -> int:
    """Saves the end of the run, prints it, and says what went wrong; the exit code."""
    try:
        if failure is not None:
            execution.warn("error", str(failure))
        execution.document["cells"].sort(key=lambda cell: cell["id"])
        execution.explain_cells()
        run = execution.finish(_concluded, summary=summarise(execution.document))
    except NaslabError as error:
        raise failure or error from error
    unwritten = report_of([run], common.report) if common.report and _has_charts(run) else ""
    code, message = _ended(run, failure)
    code = code or int(bool(unwritten))
    if (program := caller()) is not None:
        return program.take(run, code, message or unwritten)
    if unwritten:
        print(f"naslab: {unwritten}", file=sys.stderr)
    say_run(run, common, None if unwritten else common.report)
    if message:
        print(f"naslab: {message}", file=sys.stderr)
    return code


def say_run(run: Run, common: Common, report: Path | None) -> None:
    """Prints a run that has just ended, as --json and --quiet say. report: the page that was written of it."""
    if common.as_json:
        json.dump(run.document, sys.stdout)
        print()
    elif not common.quiet:
        _say(run, common, report)


def report_of(runs: list[Run], path: Path) -> str:
    """Writes the page; why it could not be written, empty if it was. The run is none the worse for it."""
    try:
        write(runs, path)
    except NaslabError as error:
        return f"{error}; the run itself is stored"
    return ""


def _concluded(document: dict[str, Any]) -> dict[str, Any]:
    """What the end of `naslab run` adds: the answer, and the verdict by the conditions of the run."""
    if document["command"] != "run":
        return {}
    from naslab.explain.answer import concluded

    found = concluded(document)
    return {**found, "summary": summarise({**document, **found})}


def _say(run: Run, common: Common, report: Path | None) -> None:
    """The answer alone where there is one and no details are asked for; else all that there is."""
    from naslab.render.terminal.show import answer_text, show_run

    if run.document.get("answer") and not common.details:
        print(answer_text(run.document, report), end="")
        return
    print(show_run(run))
    for sentence in run.document["summary"]:
        print(sentence)
    print(f"\nStored as run {run.run_id}. See it again: naslab show {run.run_id}")
    if report and _has_charts(run):
        print(f"Report: {report.resolve()}")
    elif _has_charts(run):
        print(f"Charts: naslab report {run.run_id} -o report.html")


def _has_charts(run: Run) -> bool:
    return bool(run.cells or run.document.get("durable"))


def _ended(run: Run, failure: NaslabError | None) -> tuple[int, str]:
    """0 for a whole run without a failed cell, and for one that its budget ended; else 130 for one that was interrupted
    and 1 for others, with the reason.
    """
    status, kinds = run.document["status"], {w["kind"] for w in _told_since_resumed(run)}
    spent = status == "partial" and "budget" in kinds and "interrupted" not in kinds
    ended_well = status == "complete" or spent
    forgiven = {w["cell"] for w in run.document["warnings"] if w["kind"] == "connection_lost"}
    failed = [cell for cell in run.cells if cell["status"] == "failed" and cell["id"] not in forgiven]
    if failure is None and ended_well and not failed:
        return 0, ""
    further = f"; continue with: naslab sweep --resume {run.run_id}" if run.document["command"] == "sweep" else ""
    if status == "partial" and not spent:
        return INTERRUPTED, f"interrupted; the results so far are stored as run {run.run_id}{further}"
    return 1, f"the run failed: {_reason(run, failure)}; it is stored as {run.run_id}{further}"


def _told_since_resumed(run: Run) -> list[dict[str, Any]]:
    """Warnings of the part of a run that has just ended: what cut it before says nothing of how it ended now."""
    told: list[dict[str, Any]] = run.document["warnings"]
    begun = max((at for at, found in enumerate(told) if found["kind"] == "resumed"), default=0)
    return told[begun:]


def _reason(run: Run, failure: NaslabError | None) -> str:
    if failure is not None:
        return str(failure)

    for found in _told_since_resumed(run):
        if found["kind"] == "error":
            return str(found["message"])  # the first: what follows is often only that the session is gone
    for cell in run.cells:
        if cell["status"] == "failed":
            telling = [w["message"] for w in cell["warnings"] if w["kind"] in ("corrupt", "errors", "error")]
            told = telling[0] if telling else cell["stop_reason"]
            return f"{long_name(cell)}: {told}"
    return "a cell did not complete"
