"""`naslab profile`: rate by position, burst rate and random access time, of a file of its own or one that exists."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.analysis.position import ZONE, profile_of
from naslab.cli.arguments import ProfileArguments
from naslab.cli.common import Budget, Common, measure
from naslab.cli.progress import Progress
from naslab.commands.plans import profile as profiles
from naslab.errors import UsageError
from naslab.execution.execute import Execution, check_space, probe, start
from naslab.results.describe import plain
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.targets import folder_target
from naslab.units import parse_size, size_text

if TYPE_CHECKING:
    from naslab.targets import Target

DEFAULT_SIZE = "1g"


def _options(arguments: ProfileArguments, **more: Any) -> profiles.ProfileOptions:
    """Without what depends on the target. Raises UsageError."""
    found = profiles.ProfileOptions(
        0, parse_size(arguments.block, "--block"), arguments.zones, parse_size(arguments.sample, "--sample"),
        depth=arguments.depth,
    )  # fmt: skip
    for name, value in more.items():
        setattr(found, name, value)
    profiles.check(found)
    return found


def run_profile(arguments: ProfileArguments) -> int:
    """`naslab profile TARGET`."""
    common = Common.of("profile", arguments)
    spec = common.run_spec()
    there = _existing(arguments.target)
    if there is None:
        target = common.target(arguments.target)
        size = parse_size(arguments.size or DEFAULT_SIZE, "--size")
        caps = probe(target, [])["caps"]
        more: dict[str, Any] = {"direct": arguments.direct or target.direct, "cold": bool(caps["evict"])}
        options = _options(arguments, size_bytes=size, seed=common.seed, **more)
        spec.cleanup_files = [options.file]
    else:
        target, options = _of_existing(there, arguments, common)
        spec.folder, spec.existing = None, "read"
    cells = profiles.profile_cells(options)
    for cell in cells:
        cell.validate()
    _check_bytes(cells, common)
    check_space(cells, probe(target, cells))
    spec.cells = cells
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())

    def work(progress: Progress) -> None:
        try:
            _work(execution, common, options, cells, progress)
        finally:
            if there is not None and there.is_block_device():
                _forget_folder(execution)

    return measure(execution, common, cells, work)


def _existing(text: str) -> Path | None:
    """The file or block device that the target names; None for anything else. Raises UsageError for other devices."""
    path = Path(text).expanduser()
    try:
        if not path.exists() or path.is_dir():
            return None
        path = path.resolve(strict=True)
        mode = path.stat().st_mode
    except (OSError, ValueError, RuntimeError):
        return None
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise UsageError(f"target {text!r} is neither a file nor a disk: name a folder, a file or a block device")
    return path


def _of_existing(path: Path, arguments: ProfileArguments, common: Common) -> tuple[Target, profiles.ProfileOptions]:
    """Target and options of a file or device that is only read. Raises UsageError."""
    if arguments.size:
        raise UsageError(f"--size {arguments.size}: {path} exists and is read as it is; leave out --size")
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            size = os.lseek(handle, 0, os.SEEK_END)
        finally:
            os.close(handle)
    except OSError as error:
        raise UsageError(f"target {str(path)!r} cannot be read: {error.strerror}; a disk needs root") from error
    if size < profiles.ALIGN_BYTES:
        raise UsageError(f"target {str(path)!r} has {size} bytes; name a file of at least 4k")
    target = dataclasses.replace(folder_target(path.parent), url=str(path))
    direct = arguments.direct or _takes_direct(path, parse_size(arguments.block, "--block"))
    options = _options(arguments,
        size_bytes=size // profiles.ALIGN_BYTES * profiles.ALIGN_BYTES, file=path.name, fill=False, direct=direct,
        cold=not direct and bool(probe(target, [])["caps"]["evict"]), seed=common.seed,
    )  # fmt: skip
    return target, options


def _forget_folder(execution: Execution) -> None:
    """What was found out about the folder of a disk's name (devtmpfs, its space) is nothing of the disk."""
    known = execution.document["environment"]
    facts = {name: value for name, value in known["target"].items() if not name.startswith("mount")}
    environment = {**known, "target": {**facts, "filesystem": "block device"}, "space": None}
    execution.keep(environment=environment)


def _takes_direct(path: Path, block_bytes: int) -> bool:
    """Whether the file opens with O_DIRECT and the block suits it."""
    flag = getattr(os, "O_DIRECT", 0)
    if not flag or block_bytes % profiles.ALIGN_BYTES:
        return False
    try:
        os.close(os.open(path, os.O_RDONLY | flag))
    except OSError:
        return False
    return True


def _check_bytes(cells: list[CellSpec], common: Common) -> None:
    most = common.most_bytes()
    planned = sum(cell.planned_bytes() for cell in cells if cell.workload in ("fill", ZONE))
    if most is not None and planned > most:
        raise UsageError(
            f"--max-bytes {common.max_bytes}: writing and reading the zones moves {size_text(planned)}; give a smaller "
            "--size or --sample"
        )


def _work(
    execution: Execution, common: Common, options: profiles.ProfileOptions, cells: list[CellSpec], progress: Progress
) -> None:
    limit = common.budget_ns()
    budget = Budget(limit, execution) if limit is not None else None

    def enough(cell_id: int) -> bool:
        return budget is not None and cell_id != cells[0].id and budget.spent()

    try:
        left_out = execution.stage(cells, enough)
        if left_out and execution.status == "complete":
            execution.status = "partial"
            progress.drop(left_out)
            execution.warn(
                "budget", "the budget was used up before everything was measured; a larger --budget measures the rest"
            )
    finally:
        _conclude(execution, options)


def _conclude(execution: Execution, options: profiles.ProfileOptions) -> None:
    """Keeps the profile of what was measured, however that ended."""
    zones = [cell for cell in execution.cells if cell["workload"] == ZONE]
    if zones:
        execution.keep(profile=plain(profile_of(execution.cells, options)))
