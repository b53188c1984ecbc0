"""`naslab job`: real work on real files through the target."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
from naslab.results.store import Store
from naslab.spec import CellSpec
from naslab.units import amount_text, size_text

MOST_STREAMS, MOST_IN_FLIGHT = 256, 64
SERVER_IN_FLIGHT = 4
"""Requests in flight per stream on a server. On a folder it is one: there the kernel reads ahead and writes behind."""


@dataclass
class JobRequest:
    """`naslab job`'s own options. source, corpus, to: empty when not given; scale, in_flight: None when not given."""

    target: str
    jobs: str
    source: Path | None
    corpus: str
    scale: float | None
    streams: int
    in_flight: int | None
    method: str
    to: Path | None
    durability: str
    verify: bool
    repeat: int

    def names(self) -> list[str]:
        """The jobs asked for, in order. Raises UsageError."""
        names = list(JOBS) if self.jobs == "all" else self.jobs.split(",")
        for name in names:
            if name not in JOBS:
                raise UsageError(f"job {name!r}: there are {', '.join(JOBS)}; several with commas, or all")
        return names

    def plan(self, seed: int) -> Plan:
        """All that will be done; the source is read for its list of files only. Raises UsageError."""
        names = self.names()
        if not 1 <= self.streams <= MOST_STREAMS:
            raise UsageError(f"--streams {self.streams}: give 1 to {MOST_STREAMS}")
        if self.in_flight is not None and not 1 <= self.in_flight <= MOST_IN_FLIGHT:
            raise UsageError(f"--depth {self.in_flight}: give 1 to {MOST_IN_FLIGHT}")
        if self.method not in SUFFIXES:
            raise UsageError(f"--method {self.method!r}: use {' or '.join(SUFFIXES)}")
        if self.durability not in ("none", "end", "each"):
            raise UsageError(f"--durability {self.durability!r}: use none, end or each")
        self._check_to(names)
        source = self._source(names, seed)
        return Plan(
            source, planned(names, self.repeat), self.streams, self.durability, self.method, self.verify, self.to
        )

    def _source(self, names: list[str], seed: int) -> Source:
        if self.source is not None:
            for option, given in (("--corpus", self.corpus), ("--scale", self.scale)):
                if given:
                    raise UsageError(
                        f"{option} {given}: --source {self.source} is used as it is; leave one of them out"
                    )
            return open_folder(self.source)
        return CorpusSource(corpus(self.made(names)), 1.0 if self.scale is None else self.scale, seed)

    def made(self, names: list[str]) -> str:
        """The corpus that is used where no folder is."""
        return self.corpus or ("sources" if names == ["checkout"] else "office")

    def _check_to(self, names: list[str]) -> None:
        if self.to is None:
            return
        if "copy-out" not in names or names.count("copy-out") * self.repeat != 1:
            raise UsageError(f"--to {self.to}: needs exactly one copy-out and no --repeat; leave it out")
        if self.to.exists() or self.to.is_symlink():
            raise UsageError(f"--to {self.to}: it exists; name a new folder")
        if not self.to.absolute().parent.is_dir():
            raise UsageError(f"--to {self.to}: there is no folder {self.to.absolute().parent}; create it first")
        if self.source is not None and self.to.resolve().is_relative_to(self.source.resolve()):
            raise UsageError(f"--to {self.to}: it would lie in the source, which is only read; choose another place")


def run_job(request: JobRequest, common: Common) -> int:
    """`naslab job TARGET JOBS`."""
    spec = common.run_spec()
    plan = request.plan(common.seed)
    cells = cells_of(plan)
    _check_bytes(cells, common)
    target = common.target(request.target)
    check_target(target.protocol, target.url)
    _check_space(plan, probe(target, []).get("space"))
    plan.in_flight = request.in_flight or (SERVER_IN_FLIGHT if target.protocol in ("smb", "nfs") else 1)
    for cell in cells:
        cell.queue_depth = plan.in_flight
    spec.cells = cells
    if target.clients is not None:
        many.check(plan)
        made = (request.made(request.names()), 1.0 if request.scale is None else request.scale)
        job = described(plan, request.names(), request.repeat, request.source, made)
        target.clients.job = partial(JobRun, job=job)
    execution = start(spec, target, Store(common.store), document_extra=common.document_extra())
    carrier = (Carrier if target.clients is None else many.ManyCarriers)(execution, plan, cells)

    def work(_progress: Progress) -> None:
        if plan.to is not None:
            plan.to.mkdir()
        try:
            carrier.carry_out()
        finally:
            execution.document["job"] = carrier.part

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
