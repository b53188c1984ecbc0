"""`naslab curve`: rising open loops until the target is saturated, then more where the curve bends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from naslab.analysis import loadcurve
from naslab.cli.arguments import CurveArguments
from naslab.cli.common import Budget, Common, Load, measure
from naslab.cli.progress import Progress
from naslab.commands.plans import curve as curves
from naslab.errors import UsageError
from naslab.exchange.references import load
from naslab.execution.execute import Execution, check_space, probe, start
from naslab.results.describe import plain
from naslab.results.parts.curve import CurveDocument, StopReason
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from naslab.results.run import Run
    from naslab.targets import Target

DEFAULT_BUDGET_NS = 300 * 10**9
MAX_REFINEMENTS = 2


def _parse(arguments: CurveArguments, target: Target, seed: int) -> curves.CurveOptions:
    """Checked options. Raises UsageError."""
    load = Load(
        1, arguments.depth, arguments.workers, arguments.durability, arguments.direct, arguments.data.compress,
        arguments.data.dedupe,
    )  # fmt: skip
    checked = load.options(seed, target.direct)
    options = curves.CurveOptions(
        parse_size(arguments.size, "--size"), parse_size(arguments.block, "--block"),
        arguments.arrivals,  # type: ignore[arg-type]
        arguments.write, arguments.random, checked.queue_depth, checked.workers,
        parse_duration(arguments.step_duration, "--step-duration"), curves.parse_rate(arguments.start, "--start"),
        arguments.factor, curves.parse_rate(arguments.max_rate, "--max-rate"), checked.durability, checked.direct,
        seed, checked.data,
    )  # fmt: skip
    curves.check(options)
    return options


def run_curve(arguments: CurveArguments) -> int:
    """`naslab curve TARGET`."""
    common = Common.of("curve", arguments)
    spec = common.run_spec()
    target = common.target(arguments.target)
    options = _parse(arguments, target, common.seed)
    store = Store(common.store)
    other = _other(store, arguments.compare)
    if other is not None:
        options.rates_per_s = list(loadcurve.load_cells(other))
    cells = curves.numbered(curves.probe_cells(options), 0)
    for cell in cells:
        cell.validate()
    _check_bytes(options, common)
    check_space(cells, probe(target, cells))
    spec.cells = cells
    spec.cleanup_files = options.files
    execution = start(spec, target, store, document_extra=common.document_extra())
    work = _Work(execution, options, Budget(common.budget_ns() or DEFAULT_BUDGET_NS, execution), common.most_bytes())

    def measured(progress: Progress) -> None:
        try:
            work.measure(progress)
        finally:
            work.conclude(other)

    return measure(execution, common, cells, measured)


def _other(store: Store, reference: str) -> Run | None:
    """The run to compare with. Raises UsageError, UnknownRunError before anything is measured."""
    if not reference:
        return None
    run = load(store, reference)
    document = run.document
    if not document.get("curve"):
        raise UsageError(
            f"--compare {reference}: {document['run_id']} is a run of `naslab {document['command']}` and holds no "
            "curve; name a run of `naslab curve`"
        )
    return run


def _check_bytes(options: curves.CurveOptions, common: Common) -> None:
    needed = options.size_bytes * options.workers
    most = common.most_bytes()
    if most is not None and needed > most / 2:
        raise UsageError(f"--max-bytes {common.max_bytes}: the files alone have {needed} bytes; give a smaller --size")


@dataclass
class _Work:
    """The stages of one curve. enough: why no further load is offered."""

    execution: Execution
    options: curves.CurveOptions
    budget: Budget
    most_bytes: int | None
    enough: StopReason | None = None
    seen: dict[float, curves.Seen] = field(default_factory=dict)

    def measure(self, progress: Progress) -> None:
        """Probe, ladder, refinement. Raises what the engine raises."""
        self.execution.stage(self.execution.spec.cells)
        full = [cell for cell in self.execution.cells if cell["workload"] == "probe"][-1:]
        if self.execution.status != "complete" or not full or not full[0]["ops"]:
            self.enough = "failed"
            return
        reached = full[0]["iops"]
        self._rise(progress, reached)
        for _ in range(MAX_REFINEMENTS):
            if self.enough or not self.seen:
                break
            rates = curves.between(list(self.seen.values()), self._curve().knee_per_s)
            if not rates:
                break
            self._stage(progress, rates, stop_when_saturated=False)
        if not self.enough:
            self.enough = "saturated" if self._saturated() else self._end_of_ladder()

    def _rise(self, progress: Progress, reached: float) -> None:
        """Up until saturated; down where the first load was too much."""
        while not self._saturated() and not self.enough:
            rates = curves.ladder(self.options, reached, list(self.seen.values()))
            if not rates:
                return
            self._stage(progress, rates, stop_when_saturated=True)
        if self.seen and all(one.saturated for one in self.seen.values()) and not self.enough:
            self._stage(progress, curves.lower(self.options, list(self.seen.values())), stop_when_saturated=True)

    def _end_of_ladder(self) -> StopReason:
        most = self.options.most_per_s
        return "max_rate" if most is not None and max(self.seen, default=0.0) >= most * 0.999 else "max_steps"

    def _saturated(self) -> bool:
        return any(one.saturated for one in self.seen.values())

    def _stage(self, progress: Progress, rates: list[float], stop_when_saturated: bool) -> None:
        if self._spent():
            return
        first = 1 + max(cell["id"] for cell in self.execution.cells)
        cells = curves.numbered(curves.step_cells(self.options, rates, len(self.seen)), first)
        progress.add(cells)
        first_parts = {cell.id for cell in cells if cell.block == 0}

        def enough(cell_id: int) -> bool:
            """Before a load: whether the one before showed what the stage was for, or all is spent."""
            if cell_id not in first_parts or cell_id == first:
                return False
            seen = self._take(cells[cell_id - 1 - first])
            return self._spent() or (stop_when_saturated and seen.saturated)

        progress.drop(self.execution.stage(cells, enough))
        if self.execution.status != "complete":
            self.enough = "failed"
            return
        measured = {cell["id"]: cell for cell in self.execution.cells}
        self._take(next(cell for cell in reversed(cells) if cell.id in measured))
        self._spent()

    def _spent(self) -> bool:
        if self.budget.spent():
            self.enough = self.enough or "budget"
        moved = sum(cell["bytes"] + cell["warmup_bytes"] for cell in self.execution.cells)
        if self.most_bytes is not None and moved >= self.most_bytes:
            self.enough = self.enough or "max_bytes"
        return bool(self.enough)

    def _take(self, last_part: CellSpec) -> curves.Seen:
        """What the load that this cell was the last part of has shown."""
        offered = last_part.pace.rate_per_s if last_part.pace else 0.0
        run = self.execution.store.load(self.execution.run_id)
        _, step = loadcurve.step_of(run, loadcurve.load_cells(run)[offered])
        self.seen[offered] = curves.Seen(offered, step.achieved_per_s, step.saturated, step.response_ns.p99)
        return self.seen[offered]

    def _curve(self) -> CurveDocument:
        options = self.options
        settings = {
            "arrivals": options.arrivals, "block_bytes": options.block_bytes,
            "write_fraction": options.write_pct / 100, "random": options.random, "file_bytes": options.size_bytes,
            "workers": options.workers, "queue_depth": options.depth, "step_ns": options.step_ns,
            "factor": options.factor,
        }  # fmt: skip
        run = self.execution.store.load(self.execution.run_id)
        return loadcurve.curve_of(run, settings, self.enough or "interrupted")

    def conclude(self, other: Run | None) -> None:
        """Keeps the curve of what was measured, however that ended."""
        if not any(cell["workload"] == "curve" for cell in self.execution.cells):
            return
        curve = self._curve()
        if other is not None:
            run = self.execution.store.load(self.execution.run_id)
            curve.compared = loadcurve.compare(run, curve, other)
        self.execution.keep(curve=plain(curve))
