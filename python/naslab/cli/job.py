"""`naslab job`: real work on real files through the target."""

from __future__ import annotations

import shutil
from functools import partial

from naslab.cli.arguments import JobArguments
from naslab.cli.common import Common, measure
from naslab.cli.progress import Progress
from naslab.commands.jobs import many
from naslab.commands.jobs.archive import SUFFIXES
from naslab.commands.jobs.carry import Carrier, Plan, cells_of, check_target, planned
from naslab.commands.jobs.corpus import CorpusSource, corpus
from naslab.commands.jobs.remote import JobRun, described
from naslab.commands.jobs.source import Source, open_folder
from naslab.commands.jobs.work import JOBS
from naslab.errors import SpaceError, UsageError
from naslab.execution.execute import SPACE_FACTOR, probe, start
from naslab.results.describe import plain
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.units import amount_text, size_text

MOST_STREAMS, MOST_IN_FLIGHT = 256, 64
SERVER_IN_FLIGHT = 4
"""Requests in flight per stream on a server. On a folder it is one: there the kernel reads ahead and writes behind."""


def _names(arguments: JobArguments) -> list[str]:
    """The jobs asked for, in order. Raises UsageError."""
    names = list(JOBS) if arguments.jobs == "all" else arguments.jobs.split(",")
    for name in names:
        if name not in JOBS:
            raise UsageError(f"job {name!r}: there are {', '.join(JOBS)}; several with commas, or all")
    return names


def _plan(arguments: JobArguments, seed: int) -> Plan:
    """All that will be done; the source is read for its list of files only. Raises UsageError."""
    names = _names(arguments)
    if not 1 <= arguments.streams <= MOST_STREAMS:
        raise UsageError(f"--streams {arguments.streams}: give 1 to {MOST_STREAMS}")
    if arguments.in_flight is not None and not 1 <= arguments.in_flight <= MOST_IN_FLIGHT:
        raise UsageError(f"--depth {arguments.in_flight}: give 1 to {MOST_IN_FLIGHT}")
    method = next((each for each in SUFFIXES if each == arguments.method), None)
    if method is None:
        raise UsageError(f"--method {arguments.method!r}: use {' or '.join(SUFFIXES)}")
    if arguments.durability not in ("none", "end", "each"):
        raise UsageError(f"--durability {arguments.durability!r}: use none, end or each")
    _check_to(arguments, names)
    source = _source(arguments, names, seed)
    return Plan(
        source,
        planned(names, arguments.repeat),
        arguments.streams,
        arguments.durability,
        method,
        arguments.verify,
        arguments.to,
    )


def _source(arguments: JobArguments, names: list[str], seed: int) -> Source:
    if arguments.source is not None:
        for option, given in (("--corpus", arguments.corpus), ("--scale", arguments.scale)):
            if given:
                raise UsageError(
                    f"{option} {given}: --source {arguments.source} is used as it is; leave one of them out"
                )
        return open_folder(arguments.source)
    return CorpusSource(corpus(_made(arguments, names)), 1.0 if arguments.scale is None else arguments.scale, seed)


def _made(arguments: JobArguments, names: list[str]) -> str:
    """The corpus that is used where no folder is."""
    return arguments.corpus or ("sources" if names == ["checkout"] else "office")


def _check_to(arguments: JobArguments, names: list[str]) -> None:
    if arguments.to is None:
        return
    if "copy-out" not in names or names.count("copy-out") * arguments.repeat != 1:
        raise UsageError(f"--to {arguments.to}: needs exactly one copy-out and no --repeat; leave it out")
    if arguments.to.exists() or arguments.to.is_symlink():
        raise UsageError(f"--to {arguments.to}: it exists; name a new folder")
    if not arguments.to.absolute().parent.is_dir():
        raise UsageError(f"--to {arguments.to}: there is no folder {arguments.to.absolute().parent}; create it first")
    if arguments.source is not None and arguments.to.resolve().is_relative_to(arguments.source.resolve()):
        raise UsageError(f"--to {arguments.to}: it would lie in the source, which is only read; choose another place")


def run_job(arguments: JobArguments) -> int:
    """`naslab job TARGET JOBS`."""
    common = Common.of("job", arguments)
    spec = common.run_spec()
    plan = _plan(arguments, common.seed)
    cells = cells_of(plan)
    _check_bytes(cells, common)
    target = common.target(arguments.target)
    check_target(target.protocol, target.url)
    _check_space(plan, probe(target, []).get("space"))
    plan.in_flight = arguments.in_flight or (SERVER_IN_FLIGHT if target.protocol in ("smb", "nfs") else 1)
    for cell in cells:
        cell.queue_depth = plan.in_flight
    spec.cells = cells
    if target.clients is not None:
        many.check(plan)
        made = (_made(arguments, _names(arguments)), 1.0 if arguments.scale is None else arguments.scale)
        job = described(plan, _names(arguments), arguments.repeat, arguments.source, made)
        target.clients.job = partial(JobRun, job=job)
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
    carrier = (Carrier if target.clients is None else many.ManyCarriers)(execution, plan, cells)

    def work(_progress: Progress) -> None:
        if plan.to is not None:
            plan.to.mkdir()
        try:
            carrier.carry_out()
        finally:
            execution.document["job"] = plain(carrier.part)

    return measure(execution, common, cells, work)


def _check_bytes(cells: list[CellSpec], common: Common) -> None:
    most, moved = common.most_bytes(), sum(cell.planned_bytes() for cell in cells)
    if most is not None and moved > most:
        raise UsageError(
            f"--max-bytes {common.max_bytes}: the jobs move up to {size_text(moved)} bytes; give a smaller --scale"
        )


def _check_space(plan: Plan, space: dict[str, int] | None) -> None:
    """Raises SpaceError where what the jobs make does not fit, on the target or below --to."""
    trees = {one.job.makes for one in plan.jobs if one.job.makes}
    places = [("the target", len(trees), space["free_bytes"])] if space else []
    if plan.to is not None:
        places.append((f"--to {plan.to}", 1, shutil.disk_usage(plan.to.absolute().parent).free))
    for name, copies, free in places:
        needed = int(plan.bytes * copies * SPACE_FACTOR)
        if needed > free:
            raise SpaceError(
                f"{name} has {amount_text(free)} free, the jobs need {amount_text(needed)} ({SPACE_FACTOR} times what "
                "they make): give a smaller --scale or --source, or free some space",
                "no_space",
                before_run=True,
            )
