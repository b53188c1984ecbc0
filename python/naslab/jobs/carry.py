"""Carries jobs out, one after the other, in the run's folder, and keeps each in the store as it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab.errors import UsageError
from naslab.execute import engine_errors
from naslab.jobs.outcome import before, cell_event, step_of
from naslab.jobs.pipeline import Streams
from naslab.jobs.place import names_on, remove_tree, run_folder
from naslab.jobs.source import REQUEST_BYTES, Source
from naslab.jobs.verify import verify
from naslab.jobs.work import ARCHIVES, JOBS, MAKERS, Context, Job
from naslab.messages import readable
from naslab.spec import CellSpec

if TYPE_CHECKING:
    from naslab.execute import Execution

TIMES_WORDS = "times of change were not preserved: naslab's sessions do not set them"
_SWITCH_S = 0.0005
"""Python hands the interpreter on after so long: a stream whose request ended should not wait long to time its end."""


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
    method: str
    verify: bool
    to: Path | None = None

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
            workers=plan.streams, stop_bytes=moves.get(one.job.name, total), durability=plan.durability,  # type: ignore[arg-type]
            write_fraction=writes.get(one.job.op, 0.0), verify=plan.verify, interval_ns=100_000_000,
            workload=one.job.name, flush="all" if plan.durability == "end" else "none",
        )
        for number, one in enumerate(plan.jobs)
    ]  # fmt: skip


def part_of(plan: Plan, paths: dict[str, str]) -> dict[str, Any]:
    """The document's `job` part before anything was done."""
    held = [item for item in plan.source.items if item.path in paths]
    return {
        "source": plan.source.label, "source_ratio": plan.source.ratio(), "streams": plan.streams,
        "files": sum(not item.is_dir for item in held), "folders": sum(item.is_dir for item in held),
        "bytes": sum(item.size_bytes for item in held), "method": plan.method, "durability": plan.durability,
        "request_bytes": REQUEST_BYTES, "skipped": dict(plan.source.skipped), "names_changed": 0,
        "times_preserved": False, "archives": None, "steps": [],
    }  # fmt: skip


class Carrier:
    """One run of jobs under way. `part` is the document's."""

    def __init__(self, execution: Execution, plan: Plan, cells: list[CellSpec]) -> None:
        self.execution, self.plan, self.cells = execution, plan, cells
        paths, changed, left_out = names_on(execution.target.protocol, plan.source.items)
        if left_out:
            plan.source.skipped["names too long for the target"] = len(left_out)
        self._paths = paths
        self.part = part_of(plan, paths)
        self.part["names_changed"] = changed
        execution.document["job"] = self.part

    def carry_out(self) -> None:
        """All jobs. Raises TargetError and KeyboardInterrupt, after the folder was removed."""
        switch = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
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
            sys.setswitchinterval(switch)

    def _carry_out(self) -> None:
        self._warn()
        with (
            run_folder(self.execution) as folder,
            Streams(self.execution.target, self.plan.streams, self.plan.durability) as streams,
        ):
            context = Context(streams, self.plan.source, folder, self._paths, self.plan.method, self.plan.to)
            for one, cell in zip(self.plan.jobs, self.cells, strict=True):
                self._one(context, one, cell)
                if self.execution.status != "complete":
                    return

    def _one(self, context: Context, one: Planned, cell: CellSpec) -> None:
        """One job: what an earlier repeat of it left goes first, untimed."""
        if one.job.makes:
            remove_tree(context.streams.all[0].session, f"{context.folder}/{one.job.makes}")
        if self.execution.hooks.before_cell:
            self.execution.hooks.before_cell(cell.id)
        lost = set(context.unreadable)
        context.look = self._looker(context.streams, cell)
        began = before(context.streams)
        meters = one.job.work(context)
        event, blobs = cell_event(cell.id, began, context.streams, meters)
        if self.plan.durability == "end" and set(event["kinds"]) & {"flush"} and "read" not in event["kinds"]:
            event["flush_ns"] = 0  # every file was flushed within the window
        context.look = lambda: None
        if self.plan.verify:
            event["verified"] = self._verified(context, one.job, event)
        self._note_unreadable(context, lost)
        if one.job.makes == ARCHIVES:
            self._note_archives(context)
        self.execution.take_cell(cell, event, blobs)
        step = step_of(one.job.name, one.repeat, self.execution.cells[-1], meters)
        self.part["steps"].append({**step, "prepares": one.prepares})
        self.execution.store.update_run(self.execution.run_id, job=self.part)

    def _verified(self, context: Context, job: Job, event: dict[str, Any]) -> dict[str, Any]:
        files, bad, first = verify(context, job.name, job.makes)
        if bad:
            event["status"] = self.execution.status = "failed"
            event["stop_reason"] = "error"
        return {"blocks": files, "bad": bad, "first_bad": readable(first) if first else None}

    def _note_unreadable(self, context: Context, before_it: set[str]) -> None:
        lost = len(context.unreadable - before_it)
        if lost:
            skipped = self.part["skipped"]
            skipped["unreadable files"] = skipped.get("unreadable files", 0) + lost
            text = f"{lost} files of the source could not be read and were left out"
            self.execution.warn("skipped", text)

    def _note_archives(self, context: Context) -> None:
        streams = context.streams.all
        size = sum(streams[0].session.stat(context.archive(number))[0] for number in range(len(streams)))
        raw = sum(item.size_bytes for item in context.files)
        self.part["archives"] = {"files": len(streams), "bytes": size, "ratio": raw / size if size else 0.0}

    def _warn(self) -> None:
        execution, skipped = self.execution, self.plan.source.skipped
        self.part["skipped"] = dict(skipped)
        if skipped:
            listed = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
            execution.warn("skipped", f"left out of the source: {listed}")
        if self.part["names_changed"]:
            text = f"{self.part['names_changed']} names cannot be on the target; they were written with %XX instead"
            execution.warn("names_changed", text)
        if any(one.job.name in ("copy-in", "copy-out", "unzip") and not one.prepares for one in self.plan.jobs):
            execution.warn("times_not_preserved", TIMES_WORDS)

    def _looker(self, streams: Streams, cell: CellSpec) -> Callable[[], None]:
        """Progress, told while the job's streams are waited for."""
        start = time.perf_counter_ns()

        def look() -> None:
            if self.execution.hooks.progress is None:
                return
            elapsed = max(1, time.perf_counter_ns() - start)
            moved = sum(stream.meter.moved_bytes for stream in streams.all)
            event = {"cell": cell.id, "bytes": moved, "elapsed_ns": elapsed, "bytes_per_s": moved * 1e9 / elapsed}
            self.execution.hooks.progress(event)

        return look


def check_target(protocol: str, url: str) -> None:
    """Raises UsageError for targets that keep no files."""
    if protocol in ("sim", "null"):
        raise UsageError(f"target {url!r} keeps no files: a job does real work; name a folder, smb:// or nfs://")
