"""`naslab apps`: application workloads, each prepared, run and cleaned up in steps of their own."""

from __future__ import annotations

import dataclasses
import json
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naslab.apps import results
from naslab.apps.generate import PREPARE_REQUEST_BYTES, Plan, plan, write_clean, write_prepare, write_run
from naslab.apps.model import Definition, Value, chosen
from naslab.cli.common import Budget, Common, Load, check_output, measure
from naslab.errors import SpaceError, UsageError
from naslab.execute import SPACE_FACTOR, Execution, probe, start
from naslab.spec import CellSpec, DataSpec, ScriptSpec
from naslab.store import Store
from naslab.units import amount_text

if TYPE_CHECKING:
    from naslab.cli.progress import Progress

PACES = ("fast", "recorded")


@dataclass
class AppsRequest:
    """`naslab apps`'s own options."""

    target: str
    only: str
    scale: float
    pace: str
    csv: Path | None
    load: Load

    def check(self) -> list[Definition]:
        """The applications asked for. Raises UsageError."""
        if self.pace not in PACES:
            raise UsageError(f"--pace {self.pace!r}: use fast or recorded")
        if not 0.0001 <= self.scale <= 100:
            raise UsageError(f"--scale {self.scale:g}: give 0.0001 to 100")
        if self.csv is not None:
            check_output(self.csv, "--csv")
        return chosen(self.only)


def run_apps(request: AppsRequest, common: Common) -> int:
    """`naslab apps TARGET`."""
    definitions = request.check()
    spec = common.run_spec()
    target = common.target(request.target)
    data = request.load.options(common.seed, False).data
    plans = [plan(definition, common.seed, request.scale) for definition in definitions]
    with tempfile.TemporaryDirectory(prefix="naslab-apps-") as folder:
        recorded = request.pace == "recorded"
        rows = [_scripts(made, Path(folder), recorded, data) for made in plans]
        blocks = _blocks(rows, request.load.repeat, common.seed)
        cells = [cell for row in blocks for cell in row]
        for cell in cells:
            cell.validate()
        _check_bytes(cells, common)
        _check_space(plans, probe(target, cells).get("space"))
        spec.cells = cells
        execution = start(spec, target, Store(common.store), document_extra=common.document_extra())

        def work(progress: Progress) -> None:
            try:
                _measure(execution, common, blocks, progress)
            finally:
                _conclude(execution, plans, recorded, request.csv)

        return measure(execution, common, cells, work)


def _scripts(made: Plan, folder: Path, recorded: bool, data: DataSpec) -> list[CellSpec]:
    """The three cells of an application, their scripts written to the folder."""
    name = made.definition.name
    facts = made.facts()
    paths = [folder / f"{name}.{step}.script" for step in (results.PREPARE, "run", results.CLEAN)]
    streams = [write_prepare(made, paths[0]), write_run(made, paths[1], recorded), 1]
    write_clean(made, paths[2])
    moved = facts["read_bytes"] + facts["written_bytes"]
    paced = recorded and made.duration_ns is not None
    op = "mixed" if 0 < facts["write_fraction"] < 1 else ("write" if facts["write_fraction"] else "read")
    scripts = [
        ScriptSpec(str(paths[0]), planned_bytes=facts["prepared_bytes"]),
        ScriptSpec(str(paths[1]), paced, made.buffer_ns or 0 if paced else 0, moved),
        ScriptSpec(str(paths[2])),
    ]
    size = max(facts["prepared_bytes"] + facts["written_bytes"], PREPARE_REQUEST_BYTES, facts["largest_request_bytes"])
    records = (PREPARE_REQUEST_BYTES, facts["largest_request_bytes"], 1)
    ops, workloads = ("write", op, "remove"), (results.PREPARE, name, results.CLEAN)
    return [
        CellSpec(
            ops[at], size, records[at], [], workers=streams[at], script=scripts[at], data=data,
            write_fraction=(1.0, facts["write_fraction"], 0.0)[at], workload=workloads[at],
            cache_state="warm" if at == 1 else "unknown", durability="none" if at == 1 else "end",
            flush="none", record_ops=at == 1 and made.definition.sequential is not None, interval_ns=100_000_000,
        )
        for at in range(3)
    ]  # fmt: skip


def _blocks(rows: Sequence[Sequence[CellSpec]], repeat: int, seed: int) -> list[list[CellSpec]]:
    """The cells of each application in each repeat, numbered; with several repeats in an order of its own each."""
    rng = random.Random(seed)
    blocks, number = [], 0
    for block in range(repeat):
        for row in rng.sample(rows, len(rows)) if repeat > 1 else rows:
            blocks.append([dataclasses.replace(cell, id=number + at, block=block) for at, cell in enumerate(row)])
            number += len(row)
    return blocks


def _check_bytes(cells: Sequence[CellSpec], common: Common) -> None:
    most, planned = common.most_bytes(), sum(cell.planned_bytes() for cell in cells)
    if most is not None and planned > most:
        raise UsageError(
            f"--max-bytes {common.max_bytes}: preparing and running moves {amount_text(planned)}; choose a smaller "
            "--scale"
        )


def _check_space(plans: Sequence[Plan], space: dict[str, int] | None) -> None:
    """Applications clean up after themselves, so the largest must fit. Raises SpaceError."""
    largest = max(plans, key=_room_bytes)
    needed = round(_room_bytes(largest) * SPACE_FACTOR)
    if space is not None and needed > space["free_bytes"]:
        raise SpaceError(
            f"{largest.definition.name} needs {amount_text(needed)} ({SPACE_FACTOR} times its files), the target has "
            f"{amount_text(space['free_bytes'])} free: use a smaller --scale or --only",
            "no_space",
            before_run=True,
        )


def _room_bytes(made: Plan) -> int:
    return made.prepared_bytes() + made.moved_bytes("write")


def _measure(execution: Execution, common: Common, blocks: Sequence[list[CellSpec]], progress: Progress) -> None:
    limit = common.budget_ns()
    budget = Budget(limit, execution) if limit is not None else None
    for number, row in enumerate(blocks):
        if execution.status != "complete":
            return
        if budget is not None and number and budget.spent():
            execution.status = "partial"
            progress.drop([cell for left in blocks[number:] for cell in left])
            execution.warn("budget", "--budget was spent before all was measured; a larger one measures the rest")
            return
        progress.drop(execution.stage(row))


def _conclude(execution: Execution, plans: Sequence[Plan], recorded: bool, csv: Path | None) -> None:
    """Keeps what the applications did, however that ended."""
    run = execution.store.load(execution.run_id)
    found = results.apps_document(run, plans, recorded)
    if not found["results"]:
        return
    execution.document["apps"] = found
    execution.store.update_run(execution.run_id, apps=found)
    for group in found["identical_repeats"]:
        execution.warn("identical_repeats", results.identical_text(group))
    if csv is not None:
        csv.write_text(results.csv_text(found), encoding="utf-8")


def list_apps(only: str, as_json: bool) -> int:
    """`naslab apps --list`: the definitions, each number with its source."""
    definitions = chosen(only or "all")
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
