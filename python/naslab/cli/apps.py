"""`naslab apps`: application workloads, each prepared, run and cleaned up in steps of their own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.cli.apps_steps import STEPS, Steps
from naslab.cli.apps_streams import Finder, check_find
from naslab.cli.arguments import AppsArguments
from naslab.cli.common import Budget, Common, data_of, measure
from naslab.commands.apps import results
from naslab.commands.apps.cells import blocks_of, cells_of, room_bytes
from naslab.commands.apps.generate import Plan, plan
from naslab.commands.apps.model import Definition, Value, chosen
from naslab.commands.apps.prepared import inner_target
from naslab.errors import SpaceError, UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution, probe, start
from naslab.results.describe import plain
from naslab.results.parts.apps import StreamsHeld
from naslab.results.store import Store
from naslab.spec import CellSpec, DataSpec
from naslab.text.outputs import APPS_CSV, check_output, write_output
from naslab.units import amount_text

if TYPE_CHECKING:
    from naslab.cli.progress import Progress
    from naslab.targets import Target

PACES = ("fast", "recorded")


def _check(arguments: AppsArguments) -> list[Definition]:
    """The applications asked for. Raises UsageError."""
    if arguments.pace not in PACES:
        raise UsageError(f"--pace {arguments.pace!r}: use fast or recorded")
    if not 0.0001 <= arguments.scale <= 100:
        raise UsageError(f"--scale {arguments.scale:g}: give 0.0001 to 100")
    if arguments.csv is not None:
        check_output(arguments.csv, "--csv", APPS_CSV)
    if arguments.step and arguments.step not in STEPS:
        raise UsageError(f"--step {arguments.step!r}: use {', '.join(STEPS)}; without it, all three are done")
    everything = "all" if arguments.step == "clean" else ""
    return chosen(arguments.only or everything, arguments.app_ or ())


def run_apps(arguments: AppsArguments) -> int:
    """`naslab apps TARGET`."""
    common = Common.of("apps", arguments)
    definitions = _check(arguments)
    spec = common.run_spec()
    target = common.target(arguments.target)
    data = data_of(arguments.data)
    plans = [plan(definition, common.seed, arguments.scale) for definition in definitions]
    if arguments.find_streams:
        check_find(plans, arguments.pace)
    if arguments.step:
        return _one_step(arguments, common, target, plans, data)
    with tempfile.TemporaryDirectory(prefix="naslab-apps-") as folder:
        recorded = arguments.pace == "recorded"
        rows = [cells_of(made, Path(folder), recorded, data) for made in plans]
        blocks = blocks_of(rows, arguments.repeat, common.seed)
        cells = [cell for row in blocks for cell in row]
        for cell in cells:
            cell.validate()
        _check_bytes(cells, common)
        space = probe(target, cells).get("space")
        _check_space(plans, space)
        spec.cells = cells
        execution = start(spec, target, Store(common.store), document_extra=common.document_extra())

        def work(progress: Progress) -> None:
            free = space["free_bytes"] if space else None
            finder = Finder(execution, common, arguments.scale, data, progress, free)
            try:
                _measure(execution, common, blocks, progress)
                for made in plans if arguments.find_streams else ():
                    finder.find(made)
            finally:
                conclude(execution, plans, recorded, arguments.csv, finder.found)

        return measure(execution, common, cells, work)


def _one_step(arguments: AppsArguments, common: Common, target: Target, plans: Sequence[Plan], data: DataSpec) -> int:
    """`--step`: one of the three as a command of its own."""
    recorded, step = arguments.pace == "recorded", arguments.step
    unfit = {
        "--budget": bool(common.budget), "--max-bytes": bool(common.max_bytes),
        "--find-streams": arguments.find_streams, "--repeat": step != "run" and arguments.repeat > 1,
        "--csv": step != "run" and arguments.csv is not None, "--pace": step != "run" and recorded,
    }  # fmt: skip
    for option, given in unfit.items():
        if given:
            raise UsageError(f"{option}: not with --step {step}; leave one of them out")

    inner_target(target)  # refuses targets that nothing stays on

    def concluded(execution: Execution) -> None:
        if step == "run":
            conclude(execution, plans, recorded, arguments.csv)

    steps = Steps(target, plans, arguments.scale, recorded, arguments.repeat, data, common, concluded)
    if step == "clean":
        return steps.clean(everything=not arguments.only)
    return steps.prepare() if step == "prepare" else steps.run()


def _check_bytes(cells: Sequence[CellSpec], common: Common) -> None:
    most, planned = common.most_bytes(), sum(cell.planned_bytes() for cell in cells)
    if most is not None and planned > most:
        raise UsageError(
            f"--max-bytes {common.max_bytes}: preparing and running moves {amount_text(planned)}; choose a smaller "
            "--scale"
        )


def _check_space(plans: Sequence[Plan], space: dict[str, int] | None) -> None:
    """Applications clean up after themselves, so the largest must fit. Raises SpaceError."""
    largest = max(plans, key=room_bytes)
    needed = round(room_bytes(largest) * SPACE_FACTOR)
    if space is not None and needed > space["free_bytes"]:
        raise SpaceError(
            f"{largest.definition.name} needs {amount_text(needed)} ({SPACE_FACTOR} times its files), the target has "
            f"{amount_text(space['free_bytes'])} free: use a smaller --scale or --only",
            "no_space",
            before_run=True,
        )


def _measure(execution: Execution, common: Common, blocks: Sequence[list[CellSpec]], progress: Progress) -> None:
    limit = common.budget_ns()
    budget = Budget(limit, execution) if limit is not None else None
    for number, row in enumerate(blocks):
        if execution.status != "complete":
            return
        if budget is not None and number and budget.spent():
            execution.status = "partial"
            progress.drop([cell for left in blocks[number:] for cell in left])
            execution.warn(
                "budget", "the budget was used up before everything was measured; a larger --budget measures the rest"
            )
            return
        progress.drop(execution.stage(row))


def conclude(
    execution: Execution, plans: Sequence[Plan], recorded: bool, csv: Path | None = None,
    held: Sequence[StreamsHeld] = (),
) -> None:  # fmt: skip
    """Keeps what the applications did, however that ended."""
    run = execution.store.load(execution.run_id)
    found = results.apps_document(run, plans, recorded)
    if not found.results:
        return
    found.streams_held = list(held)
    execution.keep(apps=plain(found))
    for group in found.identical_repeats:
        execution.warn("identical_repeats", results.identical_text(group))
    if csv is not None:
        write_output(results.csv_text(found), csv, "--csv", APPS_CSV)


def list_apps(only: str, as_json: bool, own: Sequence[Path] = ()) -> int:
    """`naslab apps --list`: the definitions, each number with its source."""
    definitions = chosen(only or ("" if own else "all"), own)
    if as_json:
        print(json.dumps({"schema": 1, "apps": [_as_json(one) for one in definitions]}, ensure_ascii=False))
        return 0
    for one in definitions:
        print(f"{one.name} ({one.set}): {one.about}")
        if one.rationale:
            print(f"  {one.rationale.strip()}")
        for where, values in [("whole", one.whole), *((part.does, part.values) for part in one.parts)]:
            for key, value in values.items():
                reason = f": {value.why}" if value.why else ""
                print(f"  {where}.{key} = {value.text} ({value.source}{reason})")
        for key, source in one.sources.items():
            print(f"  [{key}] {source}")
        print()
    return 0


def _as_json(one: Definition) -> dict[str, object]:
    def table(values: dict[str, Value]) -> dict[str, object]:
        return {
            key: {"is": value.is_, "from": value.source, "why": value.why, "scales": value.scales}
            for key, value in values.items()
        }

    return {
        "name": one.name, "set": one.set, "about": one.about, "rationale": one.rationale.strip(),
        "sources": dict(one.sources), "whole": table(dict(one.whole)),
        "parts": [{"does": part.does, **table(dict(part.values))} for part in one.parts],
    }  # fmt: skip
