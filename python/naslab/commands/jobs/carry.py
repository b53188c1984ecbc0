"""Carries jobs out, one after the other, in the run's folder, and keeps each in the store as it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.commands.jobs.crew import Ended, Streams
from naslab.commands.jobs.outcome import RawArchives, before, cell_event, step_of
from naslab.commands.jobs.place import names_on, remove_tree, run_folder, time_resolution_ns
from naslab.commands.jobs.source import REQUEST_BYTES, Source
from naslab.commands.jobs.verify import verify
from naslab.commands.jobs.work import ARCHIVES, JOBS, MAKERS, Context, Job
from naslab.errors import TargetError, UsageError
from naslab.execution.execute import engine_errors
from naslab.results.describe import plain
from naslab.results.parts.job import Archives, JobDocument
from naslab.spec import CellSpec
from naslab.text.messages import say

if TYPE_CHECKING:
    from naslab.commands.jobs.archive import Method
    from naslab.execution.execute import Execution

TIMES_WORDS = "modification times were not preserved: the target does not accept them"
LOST_WORDS = "{} files of the source could not be read and were left out"
CHANGED_WORDS = "{} files of the source changed during the run; they were copied as they were"


@dataclass(frozen=True)
class Planned:
    """A job to be carried out. prepares: only because a later one needs what it makes."""

    job: Job
    repeat: int
    prepares: bool


@dataclass
class Plan:
    """All that a run of jobs does."""

    source: Source
    jobs: list[Planned]
    streams: int
    durability: str
    method: Method
    verify: bool
    to: Path | None = None
    in_flight: int = 1

    @property
    def bytes(self) -> int:
        """Of the source."""
        return sum(item.size_bytes for item in self.source.items)


def planned(names: list[str], repeat: int) -> list[Planned]:
    """Jobs in order, with those before them that make what they need; these are made once."""
    there: set[str] = set()
    jobs: list[Planned] = []
    for again in range(repeat):
        for name in names:
            job = JOBS[name]
            for needed in job.needs:
                if needed not in there:
                    there.add(needed)
                    jobs.append(Planned(JOBS[MAKERS[needed]], 0, True))
            there.add(job.makes)
            jobs.append(Planned(job, again, False))
    return jobs


def cells_of(plan: Plan) -> list[CellSpec]:
    """A cell for each job. Its file is the folder that the job makes; bytes are planned as if nothing compressed."""
    total = max(1, plan.bytes)
    moves = {"zip": 2 * total, "unzip": 2 * total, "find": 1}
    writes = {"write": 1.0, "create": 1.0, "mixed": 0.5}
    return [
        CellSpec(
            one.job.op, total, min(REQUEST_BYTES, total), [one.job.makes or "copy"], id=number, block=one.repeat,
            workers=plan.streams, queue_depth=plan.in_flight,
            stop_bytes=moves.get(one.job.name, total), durability=plan.durability,  # type: ignore[arg-type]
            write_fraction=writes.get(one.job.op, 0.0), verify=plan.verify, interval_ns=100_000_000,
            workload=one.job.name, flush="all" if plan.durability == "end" else "none",
        )
        for number, one in enumerate(plan.jobs)
    ]  # fmt: skip


def placed(plan: Plan, protocol: str) -> tuple[dict[str, str], JobDocument]:
    """Paths of the source's items on the target, and the document's `job` before anything was done.

    Items that cannot be there are noted.
    """
    paths, changed, left_out = names_on(protocol, plan.source.items)
    if left_out:
        plan.source.skipped["names too long for the target"] = len(left_out)
    held = [item for item in plan.source.items if item.path in paths]
    part = JobDocument(
        source=plan.source.label, source_ratio=plan.source.ratio(), files=sum(not item.is_dir for item in held),
        folders=sum(item.is_dir for item in held), bytes=sum(item.size_bytes for item in held), streams=plan.streams,
        method=plan.method, durability=plan.durability, request_bytes=REQUEST_BYTES, in_flight=plan.in_flight,
        skipped=dict(plan.source.skipped), names_changed=changed, changed=0, times_preserved=False,
        time_resolution_ns=None, archives=None, steps=[],
    )  # fmt: skip
    return paths, part


def clear(context: Context, job: Job) -> None:
    """What an earlier repeat of a job left goes first, untimed."""
    if job.makes:
        with context.streams.session() as session:
            remove_tree(session, f"{context.folder}/{job.makes}")


def complete(event: dict[str, Any], context: Context, plan: Plan, job: Job, part: JobDocument) -> None:
    """Adds to a job's cell what can be said once it has ended well: that all was flushed, and what verifying found."""
    if plan.durability == "end" and "flush" in event["kinds"] and "read" not in event["kinds"]:
        event["flush_ns"] = 0  # every file was flushed within the window
    if plan.verify:
        files, bad, first = verify(context, job.name, job.makes, part.time_resolution_ns or None)
        event["verified"] = {"blocks": files, "bad": bad, "first_bad": first}
        if bad:
            event |= {"status": "failed", "stop_reason": "error"}


def archives_in(context: Context) -> RawArchives:
    """The archives that the last zip made."""
    with context.streams.session() as session:
        sizes = [session.stat(context.archive(number))[0] for number in range(context.streams.count)]
    raw = sum(item.size_bytes for item in context.files)
    return RawArchives(len(sizes), sum(sizes), raw)


def archives_part(found: Sequence[RawArchives]) -> Archives:
    """The document's `archives`, of one client or of several."""
    size = sum(each.bytes for each in found)
    ratio = sum(each.raw for each in found) / size if size else 0.0
    return Archives(sum(each.files for each in found), size, ratio)


def looker(streams: Streams, cell: int, tell: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
    """Progress, told while a job's streams are waited for."""
    start = time.perf_counter_ns()

    def look() -> None:
        elapsed, moved = max(1, time.perf_counter_ns() - start), streams.moved_bytes()
        tell({"cell": cell, "bytes": moved, "elapsed_ns": elapsed, "bytes_per_s": moved * 1e9 / elapsed})

    return look


class Carrier:
    """One run of jobs under way. `part` is the document's."""

    def __init__(self, execution: Execution, plan: Plan, cells: list[CellSpec]) -> None:
        self.execution, self.plan, self.cells = execution, plan, cells
        self._paths, self.part = placed(plan, execution.target.protocol)
        execution.document["job"] = plain(self.part)

    def carry_out(self) -> None:
        """All jobs. Raises TargetError and KeyboardInterrupt, after the folder was removed."""
        try:
            with engine_errors(self.execution.target.url):
                self._carry_out()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.execution.status = "failed"
            if not self.execution.begun:
                self.execution.withdraw(error)
            raise
        finally:
            if self.execution.begun:
                self.execution.keep(job=plain(self.part))

    def _carry_out(self) -> None:
        plan = self.plan
        self._warn()
        streams = Streams(self.execution.target, plan.streams, plan.durability, plan.in_flight)
        with run_folder(self.execution) as folder:
            context = Context(streams, plan.source, folder, self._paths, plan.method, plan.to)
            with streams.session() as session:
                self._note_times(context, time_resolution_ns(session, folder))
            for one, cell in zip(plan.jobs, self.cells, strict=True):
                self._one(context, one, cell)
                if self.execution.status != "complete":
                    return

    def _note_times(self, context: Context, resolution_ns: int | None) -> None:
        """Whether times can be kept on the target at all, and how exactly."""
        context.times = resolution_ns is not None
        self.part.times_preserved, self.part.time_resolution_ns = context.times, resolution_ns
        if not context.times and any(one.job.dates and not one.prepares for one in self.plan.jobs):
            self.execution.warn("times_not_preserved", TIMES_WORDS)

    def _one(self, context: Context, one: Planned, cell: CellSpec) -> None:
        """One job. What a job did that failed is kept, too."""
        clear(context, one.job)
        self.execution.tell_before(cell.id)
        self.execution.tell_begin(cell)
        lost = set(context.unreadable)
        context.look = looker(context.streams, cell.id, self.execution.tell_progress)
        began = before()
        try:
            ended = one.job.work(context)
        except BaseException as error:
            if isinstance(error, TargetError):
                say(error)
            self._keep(one, cell, context.streams.ended, *cell_event(cell.id, began, context.streams.ended, error))
            raise
        event, blobs = cell_event(cell.id, began, ended)
        context.look = lambda: None
        complete(event, context, self.plan, one.job, self.part)
        if event["status"] == "failed":
            self.execution.status = "failed"
        self._note_source(context, lost)
        if one.job.makes == ARCHIVES:
            self.part.archives = archives_part([archives_in(context)])
        self._keep(one, cell, ended, event, blobs)

    def _keep(self, one: Planned, cell: CellSpec, ended: list[Ended], event: Any, blobs: list[bytes]) -> None:
        """Stores a job's cell and step; nothing of one that failed before its streams began."""
        if not any(stream.meter.begun_ns for stream in ended):
            return
        self.execution.take_cell(cell, event, blobs)
        meters = [stream.meter for stream in ended]
        step = step_of(one.job.name, one.repeat, self.execution.cells[-1], meters, one.prepares)
        step.status = event["status"]
        self.part.steps.append(step)
        self.execution.keep(job=plain(self.part))

    def _note_source(self, context: Context, lost_before: set[str]) -> None:
        """Files of the source that could not be read, or were not what they were when the tree was listed."""
        lost, skipped = len(context.unreadable - lost_before), self.part.skipped
        if lost:
            skipped["unreadable files"] = skipped.get("unreadable files", 0) + lost
            self.execution.warn("skipped", LOST_WORDS.format(lost))
        if len(context.changed) > (self.part.changed or 0):
            self.part.changed = len(context.changed)
            self.execution.warn("source_changed", CHANGED_WORDS.format(len(context.changed)))

    def _warn(self) -> None:
        self.part.skipped = dict(self.plan.source.skipped)
        for kind, text in unlike(self.part):
            self.execution.warn(kind, text)


def unlike(part: JobDocument) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of what is not on the target as it is in the source."""
    if part.skipped:
        listed = ", ".join(f"{count} {reason}" for reason, count in part.skipped.items())
        yield "skipped", f"left out of the source: {listed}"
    if part.names_changed:
        text = f"{part.names_changed} names are not possible on the target; they were written with %XX instead"
        yield "names_changed", text


def check_target(protocol: str, url: str) -> None:
    """Raises UsageError for targets that keep no files."""
    if protocol in ("sim", "null"):
        raise UsageError(f"target {url!r} keeps no files: a job does real work; name a folder, smb:// or nfs://")
