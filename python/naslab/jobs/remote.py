"""The jobs of one of many clients: `JobRun` stands in its agent where `_engine.Run` does, and does jobs, no cells.

A client has its own copy of the source: a generated one with its own seed, or a folder of this name on its machine.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab import _engine, workspace
from naslab.errors import NaslabError, TargetError
from naslab.jobs.carry import Plan, part_of, planned
from naslab.jobs.corpus import CorpusSource, corpus
from naslab.jobs.crew import Ended, Streams
from naslab.jobs.outcome import Before, before, cell_event, step_of
from naslab.jobs.place import names_on, remove_tree, time_resolution_ns
from naslab.jobs.source import Source, open_folder
from naslab.jobs.verify import verify
from naslab.jobs.work import ARCHIVES, Context
from naslab.messages import readable
from naslab.workspace import FILES

OnEvent = Callable[[str, str, list[bytes]], Any]
_NOTHING: dict[str, Any] = {
    "errors": 0, "warmup_bytes": 0, "warmup_ops": 0, "generation_cpu_ns": 0, "verify_cpu_ns": 0, "missed_starts": 0,
    "flush_ns": None, "close_ns": 0, "errors_by_status": [], "first_error": None, "storage_read_bytes": None,
    "storage_write_bytes": None, "verified": None, "direct_proof": None, "op_log": None, "step_log": None,
    "wire_series": None,
}  # fmt: skip
"""Of a cell's result, what a job has none of."""


def described(
    plan: Plan, names: list[str], repeat: int, source: Path | None, made: tuple[str, float]
) -> dict[str, Any]:
    """A plan as data, from which each client makes its own. made: the corpus and its scale, where no folder is used."""
    return {
        "names": names, "repeat": repeat, "source": str(source) if source else None, "corpus": made[0],
        "scale": made[1], "streams": plan.streams, "in_flight": plan.in_flight, "durability": plan.durability,
        "method": plan.method, "verify": plan.verify,
    }  # fmt: skip


def plan_of(job: Mapping[str, Any], seed: int) -> Plan:
    """The plan of a client. Raises UsageError where its machine has no such folder."""
    source: Source
    if job["source"]:
        source = open_folder(Path(job["source"]))
    else:
        source = CorpusSource(corpus(job["corpus"]), job["scale"], seed)
    return Plan(
        source, planned(job["names"], job["repeat"]), job["streams"], job["durability"], job["method"], job["verify"],
        None, job["in_flight"],
    )  # fmt: skip


@dataclass(frozen=True)
class _Served:
    """What streams want to know of a target."""

    protocol: str
    text: str

    def engine_json(self) -> str:
        """Of the engine's target."""
        return self.text


class JobRun:
    """Jobs of one client. spec: the client's `RunSpec` as JSON has it. mark: of its folder. job: see `described`."""

    def __init__(self, spec: Mapping[str, Any], mark: str, job: Mapping[str, Any]) -> None:
        self._target = _Served(spec["target"]["protocol"], json.dumps(spec["target"]))
        self._folder, self._mark, self._made = str(spec["folder"]), mark, False
        self._plan = plan_of(job, int(spec["seed"]))
        paths, changed, left_out = names_on(self._target.protocol, self._plan.source.items)
        if left_out:
            self._plan.source.skipped["names too long for the target"] = len(left_out)
        self._part = {**part_of(self._plan, paths), "names_changed": changed}
        streams = Streams(self._target, self._plan.streams, self._plan.durability, self._plan.in_flight)
        self._context = Context(streams, self._plan.source, f"{self._folder}/{FILES}", paths, self._plan.method)
        self._stopped = threading.Event()

    def stage(self, cells_json: str, on_event: OnEvent) -> str:
        """Carries the cells' jobs out; how that ended, as JSON."""
        end: dict[str, Any] = {"status": "complete", "error": None, "error_kind": None, "error_status": 0, "facts": {}}
        self._make()
        for cell in json.loads(cells_json):
            try:
                self._one(cell["id"], on_event)
            except KeyboardInterrupt:
                return json.dumps({**end, "status": "interrupted"})
            except TargetError as error:
                said = {"error": str(error), "error_kind": error.kind, "error_status": error.status}
                return json.dumps({**end, "status": "failed", **said})
        return json.dumps(end)

    def interrupt(self) -> None:
        """Ends the job under way, from any thread."""
        self._stopped.set()

    def finish(self) -> list[str]:
        """Removes the folder, if it has this run's mark; what is left of it, and why."""
        try:
            found = {left["folder"]: left["owner"] for left in json.loads(_engine.find_folders(self._target.text))}
            if not self._made or found.get(self._folder) != self._mark:
                return []
            return _engine.clean(self._target.text, self._folder)
        except NaslabError as error:
            return [f"{self._folder} ({error})"]

    def _make(self) -> None:
        """The folder, and what times are worth in it; once."""
        if self._made:
            return
        session = self._context.streams.connect()
        try:
            workspace.mark_folder(session, self._folder, self._mark)
            self._made = True
            session.mkdir(self._context.folder)
            resolution_ns = time_resolution_ns(session, self._context.folder)
        finally:
            session.end()
        self._context.times = resolution_ns is not None
        self._part |= {"times_preserved": self._context.times, "time_resolution_ns": resolution_ns}

    def _one(self, number: int, on_event: OnEvent) -> None:
        """One job: what an earlier repeat left goes first, then all clients begin together."""
        one, context = self._plan.jobs[number], self._context
        if one.job.makes:
            session = context.streams.connect()
            try:
                remove_tree(session, f"{context.folder}/{one.job.makes}")
            finally:
                session.end()
        context.look = self._looker(number, on_event)
        context.streams.ready = _Together(number, on_event)
        began = before()
        try:
            ended = one.job.work(context)
        except (KeyboardInterrupt, TargetError) as error:
            if isinstance(error, TargetError):
                error.args = (readable(str(error), error.kind),)
            self._tell(number, began, context.streams.ended, on_event, error)
            raise
        self._tell(number, began, ended, on_event)

    def _tell(
        self, number: int, began: Before, ended: list[Ended], on_event: OnEvent, error: BaseException | None = None
    ) -> None:
        """The cell's result, with what `Carrier` would note of the job; nothing of one whose streams did not begin."""
        if not any(stream.meter.begun_ns for stream in ended):
            return
        one, context = self._plan.jobs[number], self._context
        event, blobs = cell_event(number, began, ended, error)
        if error is None and self._plan.durability == "end" and "flush" in event["kinds"]:
            event["flush_ns"] = None if "read" in event["kinds"] else 0
        if error is None and self._plan.verify:
            files, bad, first = verify(context, one.job.name, one.job.makes, self._part["time_resolution_ns"])
            event["verified"] = {"blocks": files, "bad": bad, "first_bad": readable(first) if first else None}
            if bad:
                event |= {"status": "failed", "stop_reason": "error"}
        step = step_of(one.job.name, one.repeat, event, [stream.meter for stream in ended])
        about = {
            **self._part, "step": {**step, "prepares": one.prepares}, "unreadable": len(context.unreadable),
            "changed": len(context.changed), "skipped": dict(self._plan.source.skipped),
            "archives": self._archives() if one.job.makes == ARCHIVES and error is None else None,
        }  # fmt: skip
        on_event("cell", json.dumps({**_NOTHING, **event, "job": about}), blobs)

    def _archives(self) -> dict[str, int]:
        session = self._context.streams.connect()
        try:
            count = self._context.streams.count
            sizes = [session.stat(self._context.archive(number))[0] for number in range(count)]
        finally:
            session.end()
        return {"files": count, "bytes": sum(sizes), "raw": sum(item.size_bytes for item in self._context.files)}

    def _looker(self, number: int, on_event: OnEvent) -> Callable[[], None]:
        """Progress while the streams are waited for; KeyboardInterrupt once the job shall end."""
        begun = time.monotonic_ns()

        def look() -> None:
            if self._stopped.is_set():
                raise KeyboardInterrupt
            elapsed, moved = max(1, time.monotonic_ns() - begun), self._context.streams.moved_bytes()
            event = {"bytes": moved, "ops": 0, "errors": 0, "p99_ns": None, "elapsed_ns": elapsed}
            on_event("progress", json.dumps({"cell": number, **event, "bytes_per_s": moved * 1e9 / elapsed}), [])

        return look


class _Together:
    """Called when a job's streams are connected: they begin when all clients' do. A job's later streams do not wait."""

    def __init__(self, cell: int, on_event: OnEvent) -> None:
        self._cell, self._on_event, self._done = cell, on_event, False

    def __call__(self) -> None:
        if self._done:
            return
        self._done = True
        at_ns = 0
        for point in ("prepared", "opened"):
            at_ns = int(self._on_event("together", json.dumps({"cell": self._cell, "point": point}), []))
        with contextlib.suppress(ValueError):  # it has passed
            time.sleep((at_ns - time.monotonic_ns()) / 1e9)
