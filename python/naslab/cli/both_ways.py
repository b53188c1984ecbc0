"""`naslab run MOUNT --direct`: a kernel's mount and naslab's own client at the server behind it, in turns.

Two runs are stored, the mount's and naslab's own; the mount's carries `client_split`, which says what the kernel's
client costs. Where naslab's own client cannot get in, the mount alone is surveyed, and the run says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.analysis.intervals import LEVEL
from naslab.analysis.ratios import LEAST_REPEATS
from naslab.cli.caller import caller
from naslab.cli.common import Common, Load
from naslab.cli.interleave import end_interleaved, ended_by, exit_of, numbered
from naslab.commands.plans import both_ways as plans
from naslab.commands.plans.sweep import SweepOptions
from naslab.comparison import split
from naslab.comparison.judgement import compare
from naslab.errors import TargetError, UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution, Hooks, probe, start
from naslab.execution.waits import termination_as_interrupt
from naslab.results.describe import plain
from naslab.results.parts.split import ClientSplit
from naslab.results.store import Store, new_run_id
from naslab.spec import CellSpec
from naslab.targets.mounted import Behind, behind

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.targets import Target

BUDGET_NS = 120_000_000_000
OF_ITSELF = ("repeats", "budget")
"""Ends that leave the runs complete."""


def mount_behind(text: str) -> Behind | None:
    """The server behind a target that is a folder; None where it is no folder on a mount of NFS or CIFS."""
    path = text.partition("?")[0] if not os.path.lexists(text) else text
    if not os.path.isdir(os.path.expanduser(path)):
        return None
    real = os.path.realpath(os.path.expanduser(path))
    return behind(_read("/proc/self/mountinfo"), real, _read("/proc/self/net/tcp") + _read("/proc/self/net/tcp6"))


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def run_both_ways(target_text: str, found: Behind, load: Load, common: Common, sweep: bool = True) -> int:
    """`naslab run MOUNT --direct`. sweep: whether one follows where the mount alone is measured.

    Raises UsageError, SpaceError, TargetError before anything is measured.
    """
    common.check()
    mount = _mount(target_text, found, load, common)
    try:
        own = _own_client(found, common)
    except (TargetError, UsageError) as error:
        if common.credentials is not None and isinstance(error, UsageError):
            raise
        return _mount_only(target_text, load, common, str(error), sweep)
    return _Both(mount, own, found, load, common).run()


def _mount(text: str, found: Behind, load: Load, common: Common) -> Target:
    """The mount as a target; that of a share one operation at a time. Raises UsageError.

    A kernel's CIFS client took 280 ms for 1 MiB through io_uring, 9 without (Linux 6.1); why is not known.
    """
    target = dataclasses.replace(common, credentials=None).target(text)
    if found.kind != "smb":
        return target
    if load.depth > 1:
        raise UsageError(
            f"--depth {load.depth}: a CIFS mount is compared with naslab's own client one operation at a time; "
            "leave out --depth, or measure each way by itself: naslab sweep"
        )
    return target.with_options(engine="posix")


def _own_client(found: Behind, common: Common) -> Target:
    """naslab's own client at the server, once it got in. Raises UsageError, TargetError."""
    if found.url is None:
        raise UsageError("; ".join(found.left_out) or "the mount does not show its address")
    target = common.target(found.url)
    probe(target, [CellSpec("read", 1, 1, ["x"])])
    return target


def _mount_only(target_text: str, load: Load, common: Common, why: str, sweep: bool) -> int:
    from naslab.cli.survey import run_survey

    message = f"naslab's own client gets no access, so only the mount is measured: {why}"
    if not common.quiet:
        print(f"naslab: {message}", file=sys.stderr)
    values = {each.name: getattr(common, each.name) for each in dataclasses.fields(common)}
    return run_survey(target_text, load, _Warned(**{**values, "credentials": None}, message=message), sweep)


@dataclass
class _Warned(Common):
    """The same options for a run that must say something."""

    message: str = ""

    def target(self, text: str) -> Target:
        """The target, with the warning."""
        return super().target(text).warned("mount_only", self.message)


@dataclass
class _Both:
    """Both ways, in turns. mount is the first of each pair."""

    mount: Target
    own: Target
    found: Behind
    load: Load
    common: Common
    executions: list[Execution] = field(default_factory=list)
    meters: list[_Meter] = field(default_factory=list)

    def run(self) -> int:
        """Measures, stores both runs and says what the kernel's client costs; the exit code."""
        options, plan = self._options(), self._plan()
        with termination_as_interrupt(), contextlib.ExitStack() as stack:
            self._begin(options, plan)
            for each in self.executions:
                stack.enter_context(contextlib.closing(each))
            ended = ended_by(self.executions, lambda: self._measure(options, plan))
        return self._tell(ended)

    def _options(self) -> SweepOptions:
        options = self.load.options(self.common.seed, True)
        if self.found.kind == "nfs" and options.durability == "end":
            # A kernel's unbuffered write over NFS is durable when it returns (FLUSH_COND_STABLE, fs/nfs/direct.c).
            options.durability = "each"
        return options

    def _plan(self) -> plans.Plan:
        deep = self.load.depth if self.load.depth > 1 else plans.DEPTH
        most = min(self._most_depth(target, deep) for target in (self.mount, self.own))
        budget_ns = self.common.budget_ns() or BUDGET_NS
        return plans.Plan.of(self.load.repeat, tuple(sorted({1, most})), budget_ns, self.common.most_bytes())

    @staticmethod
    def _most_depth(target: Target, wanted: int) -> int:
        """As deep as it goes; 1 where asking for more is refused."""
        try:
            return min(
                wanted, int(probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=wanted)])["caps"]["max_depth"])
            )
        except UsageError:
            return 1

    def _begin(self, options: SweepOptions, plan: plans.Plan) -> None:
        shared = new_run_id()
        for position, target in enumerate((self.mount, self.own)):
            spec = self.common.run_spec()
            spec.cells = self._for(position, [plans.written(options, plan, plans.LEAST_FILE_BYTES)])
            mark = {"interleaved": {"id": shared, "position": position, "level": LEVEL}}
            extra = {**self.common.document_extra(), **mark}
            execution = start(spec, target, Store(self.common.store), document_extra=extra)
            for words in self.found.left_out:
                execution.warn("not_carried", f"the mount uses features that naslab's own client lacks: {words}")
            meter = _Meter()
            execution.hooks = Hooks(before_cell=meter.before, on_cell=meter.after)
            self.executions.append(execution)
            self.meters.append(meter)

    def _measure(self, options: SweepOptions, plan: plans.Plan) -> str:
        """Why it ended: repeats or budget."""
        budget_s = (self.common.budget_ns() or BUDGET_NS) / 1e9
        deadline = time.monotonic() + budget_s
        for each in self.executions:
            each.stage(each.spec.cells)  # for the rate, which the files' size follows from
        size_bytes = self._file_bytes(options, plan)
        cells = plans.timed(options, plan, size_bytes)
        for side in (0, 1):
            self._stage(side, [plans.written(options, plan, size_bytes)], 0)
        order = random.Random(self.common.seed)
        for block in range(plan.blocks):
            if not self.common.quiet:
                print(f"naslab: block {block + 1} of {plan.blocks}", file=sys.stderr)
            order.shuffle(cells)
            for at, cell in enumerate(cells):
                # Fewer blocks than give a verdict are ended only when the budget is gone twice over; one pair is
                # always measured, else nothing would be said at all.
                least = deadline if block >= LEAST_REPEATS else deadline + budget_s
                if block + at > 0 and time.monotonic() > least:
                    return "budget"
                turn = (block + at) % 2
                for side in (turn, 1 - turn):
                    self._stage(side, [cell], block)
        return "repeats"

    def _file_bytes(self, options: SweepOptions, plan: plans.Plan) -> int:
        """From the faster of the two ways, and from the room that the mount says there is."""
        rates = [each.cells[-1]["throughput_bytes_per_s"] for each in self.executions]
        space = self.executions[0].document["environment"].get("space") or {}
        room = int(space.get("free_bytes", 1 << 40) / SPACE_FACTOR)
        return plans.file_bytes(room, max(rates), plan, options.workers)

    def _for(self, side: int, cells: Sequence[CellSpec]) -> list[CellSpec]:
        return [plans.for_own_client(cell, self.found.kind) if side else cell for cell in cells]

    def _stage(self, side: int, cells: Sequence[CellSpec], block: int) -> None:
        execution = self.executions[side]
        execution.stage(self._for(side, numbered(execution, cells, block)))

    def _tell(self, ended: str) -> int:
        mount, own = self.executions
        busy = [meter.busy_ns for meter in self.meters]
        cells = split.split(mount.cells, own.cells, busy)
        result = ClientSplit(
            mount={"type": self.found.mount.type, "source": self.found.mount.source, "options": self.found.options},
            own={"url": self.own.url, "run_id": own.run_id},
            not_carried=list(self.found.left_out),
            ended=ended,
            cells=cells,
        )
        stored = end_interleaved(own, ended, OF_ITSELF, "run")
        both = end_interleaved(mount, ended, OF_ITSELF, "run", split.sentences(cells), client_split=plain(result))
        return self._say(both, stored, ended)

    def _say(self, mount: Run, own: Run, ended: str) -> int:
        if self.common.report is not None:
            _report(mount, own, self.common.report)
        code, message = exit_of(ended, OF_ITSELF)
        if (program := caller()) is not None:
            return program.take(mount, code, message)
        if self.common.as_json:
            json.dump(mount.document, sys.stdout)
            print()
        elif not self.common.quiet:
            from naslab.render.terminal.show import show_run

            print(show_run(mount), "\n".join(mount.document["summary"]), sep="\n")
            print(f"\nStored as run {mount.run_id}, and naslab's own client as {own.run_id}.")
        if message:
            print(f"naslab: {message}", file=sys.stderr)
        return code


def _report(mount: Run, own: Run, path: Path) -> None:
    """The page of a comparison: naslab's own client is the baseline."""
    from naslab.render.report import write_comparison

    compared = compare([own.document], [mount.document], ("naslab's own client", "the mount"))
    print(f"Report: {write_comparison([[own], [mount]], [compared], path).resolve()}", file=sys.stderr)


@dataclass
class _Meter:
    """Time that the machine's processors were busy over each cell: a kernel's client works in threads of its own,
    whose time is no process's. busy_ns: by the cell's id; in ticks of the kernel, mostly of 10 ms."""

    busy_ns: dict[int, int] = field(default_factory=dict)
    _began: tuple[int, int] = (-1, 0)

    def before(self, cell: int) -> None:
        """A cell is about to open its files."""
        self._began = (cell, _busy_ns())

    def after(self, cell: dict[str, Any]) -> None:
        """It ended."""
        if self._began[0] == cell["id"]:
            self.busy_ns[cell["id"]] = _busy_ns() - self._began[1]


def _busy_ns() -> int:
    """User, nice, system, interrupts of all processors since the start (proc_stat(5)); 0 where nothing is told."""
    fields = _read("/proc/stat").partition("\n")[0].split()[1:]
    if len(fields) < 7:
        return 0
    ticks = sum(int(fields[at]) for at in (0, 1, 2, 5, 6))
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
