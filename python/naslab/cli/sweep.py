"""`naslab sweep`: plan, measure, resume."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from naslab.cli.arguments import SweepArguments
from naslab.cli.common import Budget, Common, Load, measure
from naslab.cli.progress import Progress
from naslab.commands.plans import sweep as sweeps
from naslab.errors import UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution, check_space, needed_bytes, probe, start
from naslab.results.store import Store
from naslab.spec import CellSpec, RunSpec
from naslab.targets import Target, parse_target
from naslab.targets.credentials import log_in
from naslab.units import amount_text, duration_text, parse_size_list, size_text

PLAN_RATES = (("1 GbE", 117e6), ("10 GbE", 1170e6))
"""Rates at which a plan's time is estimated while the target's own is unknown, in bytes per second."""
MAX_CELLS = 1_000_000


def _parse(arguments: SweepArguments, target: Target, seed: int) -> sweeps.SweepOptions:
    """Checked options. Raises UsageError."""
    load = Load.of(arguments.load, arguments.repeat)
    return load.options(
        seed, target.direct, cold=arguments.cold,
        file_sizes=parse_size_list(arguments.file_size, "--file-size"),
        records=parse_size_list(arguments.record, "--record"),
        ops=sweeps.parse_ops(arguments.tests),
    )  # fmt: skip


def run_sweep(arguments: SweepArguments) -> int:
    """`naslab sweep TARGET`."""
    common = Common.of("sweep", arguments)
    if not arguments.target:
        raise UsageError("sweep: TARGET is missing; give a folder, sim:… or null: (or --resume RUN)")
    spec = common.run_spec()
    target = common.target(arguments.target)
    options = _parse(arguments, target, common.seed)
    options.ops, added = sweeps.with_prerequisites(options.ops)
    _check_size(options)
    probed = probe(target, [CellSpec("read", 1, 1, ["x"], queue_depth=options.queue_depth)])
    sweeps.check_caps(options, probed["caps"])
    if arguments.adaptive:
        return _adaptive(arguments, options, probed, (spec, target, common, added))
    cells = sweeps.plan_cells(options, probed["caps"])
    for cell in cells:
        cell.validate()
    _check_bytes(cells, common)
    if arguments.plan:
        return print_plan(cells, probed, common.as_json)
    spec.cells = cells
    _name_cleanup(spec)
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
    if added:
        execution.warn("prerequisite", added)
    return measure(execution, common, cells, lambda progress: _work(execution, common, cells, progress))


def _adaptive(
    arguments: SweepArguments,
    options: sweeps.SweepOptions,
    probed: dict[str, Any],
    rest: tuple[RunSpec, Target, Common, str | None],
) -> int:
    from naslab.cli.adaptive import AdaptiveSweep, print_adaptive_plan

    sweep = AdaptiveSweep.of(options, probed["caps"], rest[2])
    return print_adaptive_plan(sweep, rest[2].as_json) if arguments.plan else sweep.run(*rest)


def _check_size(options: sweeps.SweepOptions) -> None:
    cells = len(options.file_sizes) * len(options.records) * len(options.ops) * options.repeat
    if cells > MAX_CELLS:
        raise UsageError(f"--repeat {options.repeat}: the plan has {cells} cells, at most {MAX_CELLS} fit; narrow it")


def _check_bytes(cells: list[CellSpec], common: Common) -> None:
    moved, most = sum(cell.planned_bytes() for cell in cells), common.most_bytes()
    if most is not None and moved > most:
        raise UsageError(
            f"--max-bytes {common.max_bytes}: the plan moves {amount_text(moved)}; "
            "narrow --file-size, --record, --tests or --repeat"
        )


def _work(execution: Execution, common: Common, cells: list[CellSpec], _progress: Progress) -> None:
    if not cells:
        return  # a run that was killed after its last cell
    limit = common.budget_ns()
    if limit is None:
        execution.stage(cells)
        return
    done, rows = Budget(limit, execution).stage(cells)
    if done < rows and execution.status == "complete":
        execution.status = "partial"
        message = f"the budget was used up after {done} of {rows} rows; continue with --resume {execution.run_id}"
        execution.warn("budget", message)


def resume_sweep(reference: str, target_text: str, common: Common, plan: bool) -> int:
    """`naslab sweep --resume RUN`: rows that are not whole are measured again, from their writes on."""
    if target_text:
        raise UsageError(f"--resume {reference}: the stored run knows its target; leave {target_text} out")
    common.check()
    store = Store(common.store)
    run_id = store.resolve(reference)
    run, stored = store.load(run_id), store.spec(run_id)
    if run.document["command"] != "sweep" or stored is None or not stored.get("cells"):
        raise UsageError(f"--resume {reference}: {run_id} is not a sweep with a stored plan; start it again")
    if run.document["status"] == "running":
        raise UsageError(f"--resume {reference}: {run_id} is still being measured; wait for it, or stop it first")
    if run.document.get("adaptive"):
        raise UsageError(
            f"--resume {reference}: {run_id} is adaptive, each step planned from those before; start again"
        )
    cells = [CellSpec.from_dict(cell) for cell in stored["cells"]]
    left = sweeps.remaining(cells, {cell["id"] for cell in run.cells if cell["status"] == "complete"})
    if not left and run.document["status"] == "complete":
        raise UsageError(f"--resume {reference}: all {len(cells)} cells are complete; nothing is left to do")
    _check_bytes(left, common)
    target = _stored_target(stored, run.document["target"]["url"], common)
    probed = probe(target, left)
    if plan:
        return print_plan(left, probed, common.as_json)
    check_space(left, probed)
    _remove_left_folder(target, f"naslab-{run_id}")
    spec = RunSpec(**{**stored, "cells": left, "folder": f"naslab-{run_id}", "timeout_ns": common.timeout_ns()})
    store.reopen_run(run_id)
    execution = Execution(store, target, dict(run.document), spec, caps=probed["caps"], begun=True)
    if left:
        message = f"{len(left)} of {len(cells)} cells were measured later than the others, after a break"
        execution.warn("resumed", message)
    return measure(execution, common, left, lambda progress: _work(execution, common, left, progress))


def _stored_target(stored: dict[str, Any], url: str, common: Common) -> Target:
    """The target as it was understood then; a password is found anew. Raises UsageError."""
    if url.startswith("lab:"):
        return common.target(url)  # the server ended with its run: a new one, where the rows left are measured whole
    protocol, options = stored["target"]["protocol"], stored["target"]["options"]
    if protocol == "local":
        parse_target(options["root"])
    return log_in(Target(url, protocol, options), common.credentials).with_timeout(common.timeout_ns())


def _remove_left_folder(target: Target, folder: str) -> None:
    """What the killed run left. Raises UsageError when something in it is not naslab's."""
    from naslab.cli.clean import clean_folders

    cleaned = clean_folders(target, force=False, only=folder)
    failed = [f"{each['folder']} ({each['why']})" for each in cleaned.failed]
    if cleaned.running or cleaned.foreign or failed:
        kept = ", ".join(cleaned.running + cleaned.foreign + failed)
        raise UsageError(f"--resume: the folder of the run cannot be removed because of {kept}; see naslab clean")


def _name_cleanup(spec: RunSpec) -> None:
    spec.cleanup_files = sorted({name for cell in spec.cells for name in cell.files})


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
