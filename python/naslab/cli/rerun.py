"""`naslab compare rerun`: the cells of a stored run again, on the same or another target, and compared."""

from __future__ import annotations

import dataclasses

from naslab.cli.common import Common, measure
from naslab.cli.compare import Request, code_of, labels_of, tell_all
from naslab.errors import UsageError
from naslab.exchange.references import load
from naslab.execution.execute import Execution, start
from naslab.explain.steps import WORKLOAD
from naslab.results.store import Store
from naslab.spec import CellSpec, RunSpec


def run_rerun(reference: str, target_text: str, request: Request, common: Common) -> int:
    """Measures, stores the run, and compares it with the first. Raises UsageError, UnknownRunError."""
    store = Store(common.store)
    run = load(store, reference)
    spec = _again(store, run.run_id, reference, common)
    target = common.target(target_text)
    extra = {**common.document_extra(), "rerun_of": run.run_id}
    execution = start(spec, target, store, document_extra=extra)
    silent = dataclasses.replace(common, as_json=False, report=None)
    if common.as_json:
        silent.quiet = True
    code = measure(execution, silent, spec.cells, lambda _: _all(execution, spec.cells))
    sides = [[run], [store.load(execution.run_id)]]
    return code or code_of(tell_all(sides, labels_of(sides), request))


def _all(execution: Execution, cells: list[CellSpec]) -> None:
    execution.stage(cells)


def _again(store: Store, run_id: str, reference: str, common: Common) -> RunSpec:
    """The stored specification for another target. Raises UsageError for one that cannot be carried out again."""
    stored = store.spec(run_id)
    if stored is None or not stored["cells"]:
        raise UsageError(f"compare rerun {reference}: {run_id} has no stored plan (it was imported); measure it again")
    if stored["folder"] is None:
        raise UsageError(
            f"compare rerun {reference}: {run_id} used files that its command line names; give that line again"
        )
    cells = [CellSpec.from_dict(cell) for cell in stored["cells"]]
    # The ladder's calls that move nothing, or are refused, are scripts of that run's folder; the rest is plain cells.
    cells = [cell for cell in cells if cell.script is None or cell.workload != WORKLOAD]
    if any(cell.script is not None for cell in cells):
        raise UsageError(
            f"compare rerun {reference}: {run_id} carried out scripts; give its command line again (naslab apps ...)"
        )
    spec = common.run_spec()
    # The same offsets and data, unless --seed says otherwise.
    spec.seed = common.seed or stored["seed"]
    spec.cells, spec.command, spec.cleanup_files = cells, stored["command"], stored["cleanup_files"]
    return spec
