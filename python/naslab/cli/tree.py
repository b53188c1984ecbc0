"""`naslab tree`: metadata and small files."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from naslab.analysis.metadata import phases
from naslab.cli.common import Common, Load, measure
from naslab.errors import SpaceError, UsageError
from naslab.execute import SPACE_FACTOR, Execution, probe, start
from naslab.plans import tree as trees
from naslab.store import Store
from naslab.units import amount_text, parse_size


@dataclass
class TreeRequest:
    """`naslab tree`'s own options."""

    target: str
    depth: int
    fan_out: int
    files: int
    file_size: str
    sizes: str
    shared: bool
    load: Load

    def options(self, seed: int) -> trees.TreeOptions:
        """Raises UsageError."""
        if self.sizes not in ("fixed", "lognormal"):
            raise UsageError(f"--sizes {self.sizes!r}: use fixed or lognormal")
        data = self.load.options(seed, False).data
        options = trees.TreeOptions(
            self.depth, self.fan_out, self.files, parse_size(self.file_size, "--file-size"),
            self.sizes == "lognormal", self.load.workers, self.shared, self.load.repeat, seed, data,
        )  # fmt: skip
        trees.check(options)
        return options


def run_tree(request: TreeRequest, common: Common) -> int:
    """`naslab tree TARGET`."""
    options = request.options(common.seed)
    spec = common.run_spec()
    target = common.target(request.target)
    probed = probe(target, [])
    with tempfile.TemporaryDirectory(prefix="naslab-tree-") as folder:
        cells = trees.tree_cells(options, Path(folder))
        moved, most = sum(cell.planned_bytes() for cell in cells), common.most_bytes()
        if most is not None and moved > most:
            raise UsageError(f"--max-bytes {common.max_bytes}: the files take {amount_text(moved)}; give fewer --files")
        needed, space = int(max(cell.planned_bytes() for cell in cells) * SPACE_FACTOR), probed.get("space")
        if space is not None and needed > space["free_bytes"]:
            raise SpaceError(
                f"the tree needs {amount_text(needed)} ({SPACE_FACTOR} times its files), the target has "
                f"{amount_text(space['free_bytes'])} free: give fewer --files or a smaller --file-size",
                "no_space", before_run=True,
            )  # fmt: skip
        spec.cells = cells
        execution = start(spec, target, Store(common.store), document_extra=common.document_extra())

        def work(_: object) -> None:
            try:
                execution.stage(cells)
            finally:
                _conclude(execution, options)

        return measure(execution, common, cells, work)


def _conclude(execution: Execution, options: trees.TreeOptions) -> None:
    """Keeps what was measured, however that ended."""
    folders, files = trees.items(options)
    document = {
        "depth": options.depth, "fan_out": options.fan_out, "workers": options.workers, "shared": options.shared,
        "mean_bytes": options.mean_bytes, "lognormal": options.lognormal,
        "folders": folders, "files": files,
        "phases": phases(execution.cells),
    }  # fmt: skip
    execution.document["tree"] = document
    execution.store.update_run(execution.run_id, tree=document)
