"""`naslab tree`: metadata and small files."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.analysis.metadata import phases
from naslab.cli.arguments import TreeArguments
from naslab.cli.cold import ColdCommand, cold_note, parse_cold
from naslab.cli.common import Common, data_of, measure
from naslab.commands.plans import tree as trees
from naslab.errors import SpaceError, UsageError
from naslab.execution.execute import SPACE_FACTOR, Execution, probe, start
from naslab.results.describe import plain
from naslab.results.parts.tree import TreeDocument
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.units import amount_text, parse_size

if TYPE_CHECKING:
    from naslab.targets import Target


def _options(arguments: TreeArguments, seed: int, target: Target) -> trees.TreeOptions:
    """Raises UsageError."""
    if arguments.sizes not in ("fixed", "lognormal"):
        raise UsageError(f"--sizes {arguments.sizes!r}: use fixed or lognormal")
    data = data_of(arguments.data)
    options = trees.TreeOptions(
        arguments.depth_of_tree, arguments.fan_out, arguments.files, parse_size(arguments.file_size, "--file-size"),
        arguments.sizes == "lognormal", arguments.workers, arguments.shared, arguments.repeat, seed, data,
        parse_cold(arguments.cold, arguments.cold_command, target), arguments.neighbour, arguments.shuffle,
    )  # fmt: skip
    trees.check(options)
    return options


def run_tree(arguments: TreeArguments) -> int:
    """`naslab tree TARGET`."""
    common = Common.of("tree", arguments)
    spec = common.run_spec()
    target = common.target(arguments.target)
    options = _options(arguments, common.seed, target)
    probed = probe(target, [])
    command = ColdCommand(arguments.cold_command or "", target, common.timeout_ns() / 1e9)
    with tempfile.TemporaryDirectory(prefix="naslab-tree-") as folder:
        cells = trees.tree_cells(options, Path(folder))
        _check_room(cells, probed, common)
        spec.cells = cells
        execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
        note = cold_note(options.cold, target)
        if options.cold == "new_connection":
            execution.warn("server_not_cold", note)
        cold = {cell.id for cell in cells if cell.fresh_sessions and options.cold == "command"}

        def work(_: object) -> None:
            _before_cells(execution, cold, command)
            try:
                execution.stage(cells)
            finally:
                _conclude(execution, options, note)

        code = measure(execution, common, cells, work)
    command.tell()
    return code


def _check_room(cells: list[CellSpec], probed: Mapping[str, Any], common: Common) -> None:
    """Raises before anything is written: UsageError for --max-bytes, SpaceError."""
    moved, most = sum(cell.planned_bytes() for cell in cells), common.most_bytes()
    if most is not None and moved > most:
        raise UsageError(f"--max-bytes {common.max_bytes}: {amount_text(moved)} would be moved; give fewer --files")
    needed, space = int(max(cell.planned_bytes() for cell in cells) * SPACE_FACTOR), probed.get("space")
    if space is not None and needed > space["free_bytes"]:
        raise SpaceError(
            f"the tree needs {amount_text(needed)} ({SPACE_FACTOR} times its files), the target has "
            f"{amount_text(space['free_bytes'])} free: give fewer --files or a smaller --file-size",
            "no_space", before_run=True,
        )  # fmt: skip


def _before_cells(execution: Execution, cold: set[int], command: ColdCommand) -> None:
    """Has the command run before each cell in `cold`, after all that is told before a cell anyway."""
    tell = execution.hooks.before_cell

    def before(cell: int) -> None:
        if tell:
            tell(cell)
        if cell in cold:
            command.run()

    execution.hooks = dataclasses.replace(execution.hooks, before_cell=before)


def _conclude(execution: Execution, options: trees.TreeOptions, note: str) -> None:
    """Keeps what was measured, however that ended."""
    folders, files = trees.items(options)
    document = TreeDocument(
        depth=options.depth, fan_out=options.fan_out, workers=options.workers, shared=options.shared,
        mean_bytes=options.mean_bytes, lognormal=options.lognormal, neighbour=options.neighbour,
        shuffled=options.shuffled, cold=options.cold, cold_note=note, folders=folders, files=files,
        phases=phases(execution.cells),
    )  # fmt: skip
    execution.keep(tree=plain(document))
