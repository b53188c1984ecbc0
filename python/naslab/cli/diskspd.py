"""`naslab diskspd ARGS...`: DiskSpd's command line: targets, sizes, plan, run, output."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab import _engine
from naslab.cli.options import parse_labels
from naslab.cli.progress import Progress
from naslab.commands.diskspd import results_xml, text
from naslab.commands.diskspd.affinity import bound_to, chosen, shared, usable
from naslab.commands.diskspd.args import Request, parse
from naslab.commands.diskspd.figures import Figures, figures_of
from naslab.commands.diskspd.machine import Machine, machine_of
from naslab.commands.diskspd.options import help_text
from naslab.commands.diskspd.places import check_kind, one_root
from naslab.commands.diskspd.plan import CREATING, Plan, Setting, depth, make_plan, refuse
from naslab.commands.diskspd.processors import Watches
from naslab.commands.diskspd.profile import Profile, TargetSpec, TimeSpan
from naslab.commands.diskspd.profile_xml import profile_text
from naslab.errors import INTERRUPTED, NaslabError, SpaceError, TargetError, UsageError
from naslab.execution.execute import engine_errors, execute, probe
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.text.messages import without_secrets
from naslab.units import parse_duration

if TYPE_CHECKING:
    from naslab._engine import Session
    from naslab.results.run import Run
    from naslab.targets import Target


def main(argv: Sequence[str]) -> int:
    """Carries a DiskSpd command line out (without the program's name); the exit code: 0, 1, 2 or 130."""
    try:
        request = parse(argv)
        if request.help:
            sys.stdout.write(help_text())
            return 0
        return run(request)
    except NaslabError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def run(request: Request) -> int:
    """Plans, measures and prints; the exit code. Raises NaslabError for what is wrong before anything was written."""
    profile = request.profile
    if profile.only:
        sys.stdout.write(profile_text(profile) if profile.xml_output else text.profile_text(profile))
        return 0
    refuse(profile)
    return _Session(request).carry_out()


def look(target: Target, profile: Profile, names: Mapping[str, str]) -> Setting:
    """What the plan must know: sizes of the files that are there, and what the target can do."""
    sizes: dict[str, int] = {}
    root = Path(target.options["root"]) if target.protocol == "local" else None
    if root is not None:
        for path, name in names.items():
            check_kind(root / name, without_secrets(path))
    with engine_errors(target.url, before_run=True):
        for path, name in names.items():
            found = _engine.stat(target.engine_json(), name)
            if found is not None and found[1]:
                raise UsageError(f"target {without_secrets(path)!r}: this is a folder; name a file in it")
            if found is not None:
                sizes[name] = found[0]
    # A local path has one engine for depth 1 and another for more.
    most = max(depth(of, span.outstanding) for span in profile.spans for of in span.targets)
    caps = probe(target, [CellSpec("read", 1, 1, ["-"], queue_depth=most)])["caps"]
    return Setting(target.protocol, names, sizes, caps, root)


class _Session:
    """One run on its way."""

    def __init__(self, request: Request) -> None:
        from naslab.lab.opening import open_target

        self.request, self.profile, self.own = request, request.profile, request.own
        timeout_ns = parse_duration(self.own.timeout, "--timeout")
        if timeout_ns <= 0:
            raise UsageError(f"--timeout {self.own.timeout}: give more than 0")
        labels = parse_labels(self.own.labels)
        self.affinity = chosen(self.profile, usable())
        paths = list(dict.fromkeys(target.path for target in self._targets()))
        root, names = one_root(paths)
        credentials = None if self.own.credentials is None else Path(self.own.credentials)
        seed = self.profile.spans[0].seed
        self.target = open_target(root, credentials, timeout_ns=timeout_ns, seed=seed)
        self.plan = make_plan(self.profile, look(self.target, self.profile, names))
        # Nothing is there that could be overwritten on null:.
        self.spec = self.plan.run_spec(self.own.overwrite or self.target.protocol == "null", timeout_ns)
        self.notes = list(dict.fromkeys([*request.notes, *self.plan.notes, *shared(self.affinity)]))
        self.unfinished: set[str] = set()
        self.processors = Watches({planned.cell: _lasts_s(planned.span) for planned in self.plan.spans})
        self.extra = {
            "argv": self.profile.command_line.split(" ")[1:],
            "labels": labels,
            "note": self.own.remark or None,
            "warnings": [{"kind": "diskspd", "message": note, "cell": None} for note in self.notes],
        }

    def _targets(self) -> list[TargetSpec]:
        return [target for span in self.profile.spans for target in span.targets]

    def carry_out(self) -> int:
        """Runs the plan and prints the results."""
        self.spec.validate()
        if not self.own.quiet:
            for note in self.notes:
                say(f"note: {note}")
        run: Run | None = None
        failure: NaslabError | None = None
        try:
            try:
                run = self._execute()
            finally:
                self._remove_unfinished()
        except UsageError as error:
            raise _in_our_words(error) from None
        except SpaceError as error:
            error.args = (str(error).replace("choose smaller files", "give a smaller -c"),)
            raise
        except TargetError as error:
            if error.before_run:
                raise
            failure = error
        return self._finish(run, failure)

    def _execute(self) -> Run:

        dots = _Dots(self.profile.progress)
        with Progress(self.plan.cells, quiet=self.own.quiet or bool(self.profile.progress)) as shown:
            hooks = shown.hooks
            try:
                with bound_to(self.affinity):
                    return execute(
                        self.spec, target=self.target, store=Store(self.own.store), document_extra=self.extra,
                        on_cell=self._after(hooks.on_cell), before_cell=self._before(hooks.before_cell),
                        progress=dots.show if self.profile.progress else hooks.progress,
                    )  # fmt: skip
            finally:
                self.processors.stop()

    def _after(self, then: Any) -> Any:
        """What processors did, once a cell has ended; a file of -c is whole when the last cell that writes it is."""

        def after(cell: Mapping[str, Any]) -> None:
            if cell["status"] == "complete" and not any(more.workload == CREATING for more in self._next(cell["id"])):
                self.unfinished.difference_update(self.plan.cells[cell["id"]].files)
            self.processors.end(cell["id"], cell["start_ns"], cell["start_ns"] + cell["window_ns"])
            if then is not None:
                then(cell)

        return after

    def _before(self, then: Any) -> Any:
        """-v tells what begins."""

        def before(cell_id: int) -> None:
            cell = self.plan.cells[cell_id]
            if cell.workload == CREATING:
                self.unfinished.update(cell.files)
            if self.profile.verbose and cell.workload == CREATING:
                for name in cell.files:
                    say(f"creating file {name!r} of size {cell.file_bytes}")
            elif self.profile.verbose:
                say(f"starting timespan {next(n for n, s in enumerate(self.plan.spans, 1) if s.cell == cell_id)}")
            if then is not None:
                then(cell_id)
            self.processors.begin(cell_id)

        return before

    def _next(self, cell_id: int) -> list[CellSpec]:
        """The cell that writes the rest of the same files, if there is one."""
        return [cell for cell in self.plan.cells[cell_id + 1 : cell_id + 2] if not cell.remove_before]

    def _remove_unfinished(self) -> None:
        """Files that this run began to create and did not write whole would pass for whole ones the next time."""
        if not self.unfinished or self.target.protocol in ("sim", "null"):
            return
        with contextlib.suppress(NaslabError):
            session = _engine.Session(self.target.engine_json())
            for name in sorted(self.unfinished):
                if self._remove(session, name):
                    self.unfinished.discard(name)
            session.end()
        for name in sorted(self.unfinished):
            say(f"{name!r} was not written completely and could not be removed: remove it, or create it again with -c")

    @staticmethod
    def _remove(session: Session, name: str) -> bool:
        """Whether the file is gone now."""
        try:
            session.discard(name)
        except TargetError as error:
            return error.kind == "not_found"
        say(f"{name!r} was not written completely and is removed")
        return True

    def _finish(self, run: Run | None, failure: NaslabError | None) -> int:
        """Output, and the exit code with its reason."""
        if run is not None and self.own.json:
            print(run.to_json())
        elif run is not None:
            machine = machine_of(run.document)
            figures = self._figures(run, machine)
            sys.stdout.write(output(self.plan, machine, figures, [*self.notes, *self._on_processors(figures)]))
        if failure is not None:
            say(f"error: {failure}")
            return failure.exit_code
        assert run is not None
        if run.document["status"] == "complete":
            return 0
        if run.document["status"] == "partial":
            say(f"interrupted; the results so far are stored as run {run.run_id}")
            return INTERRUPTED
        say(f"error: {_reason(run)}; the run is stored as {run.run_id}")
        return 1

    def _figures(self, run: Run, machine: Machine) -> list[Figures]:
        found = self.processors.found
        return [
            figures_of(run, planned, len(machine.processors), found.get(planned.cell, ()))
            for planned in self.plan.spans
        ]

    def _on_processors(self, results: list[Figures]) -> list[str]:
        """What the CPU table lacks where processors could not be watched."""
        if not any(figures.seconds > 0 and not figures.processors for figures in results):
            return []
        virtual = self.target.protocol == "sim"
        why = "a simulated run takes no real time" if virtual else "/proc/stat does not list single processors"
        return [f"the CPU table has naslab's own use only: {why}"]


def _lasts_s(span: TimeSpan) -> float:
    return span.warmup_s + span.duration_s + span.cooldown_s


def output(plan: Plan, machine: Machine, results: list[Figures], notes: list[str]) -> str:
    """What is printed of a run."""
    if plan.profile.xml_output:
        return results_xml.results_xml(plan.profile, machine, results, notes)
    return text.results_text(plan.profile, machine, results, notes)


def say(message: str) -> None:
    """One line on standard error."""
    print(f"naslab diskspd: {message}", file=sys.stderr)


def _in_our_words(error: UsageError) -> UsageError:
    """The engine's error about a file that naslab did not write, without the option that only IOzone's line has."""
    start, found, _ = str(error).partition("naslab did not write it, and the plan would write to it")
    if not found:
        return error
    return UsageError(
        f"{start}naslab did not write it, and this line writes to it: give --overwrite to overwrite its contents, "
        "destroyed, or another name"
    )


def _reason(run: Run) -> str:
    for cell in run.cells:
        if cell["status"] != "complete" or cell["errors"]:
            kinds = ", ".join(f"{e['count']} x {e['kind']}" for e in cell["errors_by_status"])
            return f"{cell['op']}: {cell['first_error'] or kinds or cell['stop_reason']}"
    said = [one["message"] for one in run.document["warnings"] if one["kind"] == "error"]
    return said[0] if said else "not all time spans were measured"


class _Dots:
    """-P: a dot on standard error for each so many operations of a time span."""

    def __init__(self, every: int) -> None:
        self._every = max(every, 1)
        self._cell = -1
        self._shown = 0

    def show(self, event: Mapping[str, Any]) -> None:
        """The dots that became due since the last event."""
        if event["cell"] != self._cell:
            self._cell, self._shown = event["cell"], 0
        due = event["ops"] // self._every
        if due > self._shown:
            print("." * min(due - self._shown, 1000), end="", file=sys.stderr, flush=True)
            self._shown = due
