"""Commands that measure: they plan, execute, save, and say what was found."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.analysis.words import summarise
from naslab.cli.progress import Progress
from naslab.errors import NaslabError, TargetError, UsageError
from naslab.execute import (
    SPACE_FACTOR,
    Execution,
    Hooks,
    check_space,
    needed_bytes,
    probe,
    start,
    termination_as_interrupt,
)
from naslab.plans import survey
from naslab.plans import sweep as sweeps
from naslab.spec import CellSpec, DataSpec, RunSpec
from naslab.store import Store
from naslab.targets import Target, parse_target
from naslab.units import amount_text, duration_text, parse_duration, parse_size, parse_size_list, size_text

if TYPE_CHECKING:
    from naslab.results.run import Run

PLAN_RATES = (("1 GbE", 117e6), ("10 GbE", 1170e6))
"""Rates at which a plan's time is estimated while the target's own is unknown, in bytes per second."""


@dataclass
class Common:
    """Options that every measuring command takes."""

    command: str
    store: Path | None
    as_json: bool
    quiet: bool
    seed: int
    labels: dict[str, str]
    note: str
    timeout: str
    report: Path | None

    def document_extra(self) -> dict[str, Any]:
        """Fields of the run document that come from options."""
        return {"argv": sys.argv[1:], "labels": self.labels, "note": self.note or None}

    def run_spec(self) -> RunSpec:
        """A run in a folder of its own, without cells yet."""
        timeout_ns = parse_duration(self.timeout, "--timeout")
        if timeout_ns <= 0:
            raise UsageError(f"--timeout {self.timeout!r}: give more than 0")
        return RunSpec({}, [], command=self.command, folder="", seed=self.seed, timeout_ns=timeout_ns)


@dataclass
class SweepRequest:
    """`naslab sweep`'s own options, as text where they have units."""

    target: str
    file_size: str
    record: str
    tests: str
    repeat: int
    depth: int
    workers: int
    durability: str
    direct: bool
    cold: bool
    compress: float
    dedupe: float
    verify: bool
    plan: bool
    max_bytes: str
    budget: str

    def parse(self, target: Target, seed: int) -> sweeps.SweepOptions:
        """Checked options. Raises UsageError."""
        if self.durability not in ("none", "end", "each"):
            raise UsageError(f"--durability {self.durability!r}: use none, end or each")
        return sweeps.SweepOptions(
            parse_size_list(self.file_size, "--file-size"),
            parse_size_list(self.record, "--record"),
            sweeps.parse_ops(self.tests),
            repeat=self.repeat,
            workers=self.workers,
            queue_depth=self.depth,
            durability=self.durability,  # type: ignore[arg-type]
            direct=self.direct or target.direct,
            cold=self.cold,
            verify=self.verify,
            seed=seed,
            data=DataSpec("random", self.compress, self.dedupe),
        )


def run_sweep(request: SweepRequest, common: Common) -> int:
    """`naslab sweep TARGET`."""
    if not request.target:
        raise UsageError("sweep: TARGET is missing; give a folder, sim:… or null: (or --resume RUN)")
    target = parse_target(request.target)
    options = request.parse(target, common.seed)
    options.ops, added = sweeps.with_prerequisites(options.ops)
    probed = probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=request.depth)])
    sweeps.check_caps(options.ops, probed["caps"], request.depth)
    cells = sweeps.plan_cells(options, probed["caps"])
    for cell in cells:
        cell.validate()
    moved = sum(cell.planned_bytes() for cell in cells)
    if request.max_bytes and moved > parse_size(request.max_bytes, "--max-bytes"):
        raise UsageError(f"--max-bytes {request.max_bytes}: the plan moves {amount_text(moved)}; narrow it")
    if request.plan:
        return print_plan(cells, probed, common.as_json)
    spec = common.run_spec()
    spec.cells = cells
    _name_cleanup(spec)
    store = Store(common.store)
    execution = start(spec, target, store, document_extra=common.document_extra())
    if added:
        execution.warn("prerequisite", added)
    return _measure(execution, common, cells, request.budget)


def resume_sweep(reference: str, target_text: str, common: Common) -> int:
    """`naslab sweep --resume RUN`: rows that are not whole are measured again, from their writes on."""
    if target_text:
        raise UsageError("--resume: the stored run knows its target; leave TARGET out")
    store = Store(common.store)
    run_id = store.resolve(reference)
    stored = store.spec(run_id)
    run = store.load(run_id)
    if stored is None or not stored.get("cells"):
        raise UsageError(f"--resume {reference}: this run has no stored plan to go on with; start it anew")
    cells = [CellSpec(**{**cell, "data": DataSpec(**cell["data"]), "pace": None}) for cell in stored["cells"]]
    done = {cell["id"] for cell in run.cells if cell["status"] == "complete"}
    left = sweeps.remaining(cells, done)
    if not left:
        raise UsageError(f"--resume {reference}: all {len(cells)} cells are complete; nothing is left to do")
    target = parse_target(run.document["target"]["url"])
    spec = RunSpec(**{**stored, "cells": left, "folder": f"naslab-{run_id}"})
    store.update_run(run_id, status="running")
    execution = Execution(store, target, dict(run.document), spec)
    return _measure(execution, common, left, "")


def _name_cleanup(spec: RunSpec) -> None:
    spec.cleanup_files = sorted({name for cell in spec.cells for name in cell.files})


def _measure(execution: Execution, common: Common, cells: list[CellSpec], budget: str) -> int:
    with Progress(cells, common.quiet) as progress:
        execution.hooks = progress.hooks
        try:
            if budget:
                _stages_within(execution, cells, parse_duration(budget, "--budget"))
            else:
                execution.stage(cells)
        except KeyboardInterrupt:
            execution.warn("interrupted", "the run was interrupted; what was measured until then is kept")
        except NaslabError as error:
            execution.warn("error", str(error))
            _finish(execution, common)
            raise
    return _finish(execution, common)


def _stages_within(execution: Execution, cells: list[CellSpec], budget_ns: int) -> None:
    """One row after another until the budget is spent."""
    end = time.monotonic() + budget_ns / 1e9
    rows = sweeps.rows_of(cells)
    for done, row in enumerate(rows):
        if time.monotonic() >= end:
            execution.status = "partial"
            message = f"--budget was spent after {done} of {len(rows)} rows; go on with --resume {execution.run_id}"
            execution.warn("budget", message)
            return
        execution.stage(row)


def _finish(execution: Execution, common: Common) -> int:
    execution.document["cells"].sort(key=lambda cell: cell["id"])
    summary = summarise(execution.document)
    run = execution.finish(summary=summary)
    if common.report:
        from naslab.report import write

        write([run], common.report)
    if common.as_json:
        json.dump(run.document, sys.stdout)
        print()
    elif not common.quiet:
        _say(run, summary, common.report)
    return 0 if run.document["status"] == "complete" else 1


def _say(run: Run, summary: list[str], report: Path | None) -> None:
    from naslab.show import show_run

    print(show_run(run))
    print()
    for sentence in summary:
        print(sentence)
    print(f"\nStored as run {run.run_id}. See it again: naslab show {run.run_id}")
    if report:
        print(f"Report: {report.resolve()}")
    else:
        print(f"Charts: naslab report {run.run_id} -o report.html")


def run_survey(target_text: str, common: Common, *, direct: bool) -> int:
    """`naslab run TARGET`: three stages, each planned from what the one before measured."""
    target = parse_target(target_text)
    direct = direct or target.direct
    spec = common.run_spec()
    store = Store(common.store)
    first = survey.probe_cells(common.seed, direct)
    spec.cleanup_files = [survey.PROBE_FILE, sweeps.FILE_NAME, survey.SUSTAINED_FILE]
    spec.cells = first
    execution = start(spec, target, store, document_extra=common.document_extra())
    free = int((execution.document["environment"]["space"] or {}).get("free_bytes", 1 << 40))
    with Progress(first, common.quiet) as progress:
        execution.hooks = progress.hooks
        try:
            _survey_stages(execution, progress, common.seed, direct, free)
        except KeyboardInterrupt:
            execution.warn("interrupted", "the run was interrupted; what was measured until then is kept")
        except NaslabError as error:
            execution.warn("error", str(error))
            _finish(execution, common)
            raise
    return _finish(execution, common)


def _survey_stages(execution: Execution, progress: Progress, seed: int, direct: bool, free_bytes: int) -> None:
    execution.stage(execution.spec.cells)
    rate = survey.durable_rate(execution.cells)
    for plan in (survey.sweep_cells, survey.sustained_cells):
        if execution.status != "complete":
            return
        first_id = 1 + max(cell["id"] for cell in execution.cells)
        planned = plan(rate, execution.caps, free_bytes, seed=seed, direct=direct)
        cells = [dataclasses.replace(c, id=first_id + i) for i, c in enumerate(planned)]
        progress.add(cells)
        execution.stage(cells)


def print_plan(cells: list[CellSpec], probed: dict[str, Any], as_json: bool) -> int:
    """`--plan`: cells, bytes, time and space, before anything runs."""
    moved = sum(cell.planned_bytes() for cell in cells)
    room = needed_bytes(cells)
    free = (probed["space"] or {}).get("free_bytes")
    times = {name: moved / rate for name, rate in PLAN_RATES}
    if as_json:
        plan = {
            "schema": 1, "cells": [dataclasses.asdict(cell) for cell in cells], "bytes": moved,
            "space_bytes": room, "space_needed_bytes": int(room * SPACE_FACTOR), "free_bytes": free,
            "seconds_at": times,
        }  # fmt: skip
        json.dump(plan, sys.stdout)
        print()
        return 0
    print(f"{'cell':>5}  {'test':<15} {'file':>8} {'record':>8}  block")
    for cell in cells:
        file, record = size_text(cell.file_bytes), size_text(cell.record_bytes)
        print(f"{cell.id:>5}  {cell.op:<15} {file:>8} {record:>8}  {cell.block}")
    at = ", ".join(f"{duration_text(s * 1e9)} at the rate of {name}" for name, s in times.items())
    print(f"\n{len(cells)} cells move {amount_text(moved)}: {at}.")
    free_text = "unknown" if free is None else amount_text(free)
    print(f"Space: {amount_text(room * SPACE_FACTOR)} needed ({SPACE_FACTOR} times the files), {free_text} free.")
    return 0


def make_file(path: Path, size: str, sparse: bool, seed: int, quiet: bool) -> int:
    """`naslab mkfile`: a new file, of naslab's tagged incompressible blocks or of holes."""
    from naslab import _engine

    size_bytes = parse_size(size, "--size")
    if size_bytes < 1:
        raise UsageError(f"--size {size}: give at least 1 byte")
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists; mkfile makes new files only: choose another name")
    target = parse_target(str(path.parent))
    if sparse:
        _engine.set_len(target.engine_json(), path.name, size_bytes, True)
    else:
        _write_file(target, path.name, size_bytes, seed, quiet)
    if not quiet:
        print(f"{path}: {size_bytes} bytes" + (", holes only" if sparse else ""))
    return 0


def _write_file(target: Target, name: str, size_bytes: int, seed: int, quiet: bool) -> None:
    """Whole records, the last of which is then cut to the size."""
    from naslab import _engine

    record = min(1 << 20, max(size_bytes, 64))
    whole = -(-size_bytes // record) * record
    cell = CellSpec("write", whole, record, [name], write_fraction=1.0, create="new", seed=seed, workload="mkfile")
    check_space([cell], probe(target, [cell]))
    spec = RunSpec(target.engine_spec(), [cell], run_id=f"mkfile-{seed}", command="mkfile", seed=seed)
    with Progress([cell], quiet) as progress, termination_as_interrupt():
        hooks: Hooks = progress.hooks

        def on_event(kind: str, text: str, _blobs: list[bytes]) -> None:
            if kind == "progress" and hooks.progress:
                hooks.progress(json.loads(text))

        end = json.loads(_engine.run(spec.to_json(), "{}", on_event))
    if end["status"] != "complete":
        raise TargetError(f"{name}: could not be written whole: {end['error'] or 'see the free space of the target'}")
    if whole != size_bytes:
        _engine.set_len(target.engine_json(), name, size_bytes, False)
