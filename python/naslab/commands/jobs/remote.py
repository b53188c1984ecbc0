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

from naslab.commands.jobs.carry import Plan, archives_in, clear, complete, looker, placed, planned
from naslab.commands.jobs.corpus import CorpusSource, corpus
from naslab.commands.jobs.crew import Ended, Streams
from naslab.commands.jobs.outcome import Before, ClientJob, before, cell_event, step_of
from naslab.commands.jobs.place import time_resolution_ns
from naslab.commands.jobs.source import Source, open_folder
from naslab.commands.jobs.work import ARCHIVES, Context
from naslab.errors import TargetError
from naslab.execution import workspace
from naslab.execution.waits import is_in_doubt, until
from naslab.execution.workspace import FILES
from naslab.results.describe import plain
from naslab.results.document import ENGINE_DEFAULTS
from naslab.text.messages import say, told_of

OnEvent = Callable[[str, str, list[bytes]], Any]
_NOTHING: dict[str, Any] = {
    **ENGINE_DEFAULTS, "close_ns": 0, "direct_proof": None, "op_log": None, "step_log": None, "wire_series": None,
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
        paths, self._part = placed(self._plan, self._target.protocol)
        streams = Streams(self._target, self._plan.streams, self._plan.durability, self._plan.in_flight)
        streams.check = self._check
        self._context = Context(streams, self._plan.source, f"{self._folder}/{FILES}", paths, self._plan.method)
        self._stopped = threading.Event()
        self._in_doubt = False

    def stage(self, cells_json: str, on_event: OnEvent) -> str:
        """Carries the cells' jobs out; how that ended, as JSON."""
        end: dict[str, Any] = {"status": "complete", "error": None, "facts": {}}
        try:
            end |= until(self._stopped.is_set, KeyboardInterrupt, lambda: self._stage(cells_json, on_event))
        except KeyboardInterrupt:
            self._in_doubt, end["status"] = True, "interrupted"
        return json.dumps(end)

    def _stage(self, cells_json: str, on_event: OnEvent) -> dict[str, Any]:
        self._make()
        for cell in json.loads(cells_json):
            try:
                self._one(cell["id"], on_event)
            except TargetError as error:
                self._in_doubt = is_in_doubt(error)
                return {"status": "failed", "error": told_of(error)}
        return {}

    def interrupt(self) -> None:
        """Ends the job under way, from any thread."""
        self._stopped.set()

    def finish(self) -> str:
        """Removes the folder, if it has this run's mark; what is left of it, and why, as JSON."""
        run_id = str(json.loads(self._mark)["naslab_run"])
        left = workspace.remove(self._target.text, self._folder, run_id, in_doubt=self._in_doubt) if self._made else []
        return json.dumps(left)

    def _make(self) -> None:
        """The folder, and what times are worth in it; once."""
        if self._made:
            return
        with self._context.streams.session() as session:
            workspace.mark_folder(session, self._folder, self._mark)
            self._made = True
            session.mkdir(self._context.folder)
            resolution_ns = time_resolution_ns(session, self._context.folder)
        self._context.times = resolution_ns is not None
        self._part.times_preserved, self._part.time_resolution_ns = self._context.times, resolution_ns

    def _one(self, number: int, on_event: OnEvent) -> None:
        """One job, which all clients begin together."""
        one, context = self._plan.jobs[number], self._context
        clear(context, one.job)
        context.look = self._looker(number, on_event)
        context.streams.ready = _Together(number, on_event)
        began = before()
        try:
            ended = one.job.work(context)
        except (KeyboardInterrupt, TargetError) as error:
            if isinstance(error, TargetError):
                say(error)
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
        if error is None:
            complete(event, context, self._plan, one.job, self._part)
        meters, part = [stream.meter for stream in ended], self._part
        about = ClientJob(
            step_of(one.job.name, one.repeat, event, meters, one.prepares), part.names_changed, part.times_preserved,
            part.time_resolution_ns or None, dict(self._plan.source.skipped), len(context.unreadable),
            len(context.changed), archives_in(context) if one.job.makes == ARCHIVES and error is None else None,
        )  # fmt: skip
        on_event("cell", json.dumps({**_NOTHING, **event, "job": plain(about)}), blobs)

    def _check(self) -> None:
        """Raises KeyboardInterrupt once the job shall end."""
        if self._stopped.is_set():
            raise KeyboardInterrupt

    def _looker(self, number: int, on_event: OnEvent) -> Callable[[], None]:
        """Progress while the streams are waited for."""
        unknown = {"ops": 0, "errors": 0, "p99_ns": None}
        streams = self._context.streams
        return looker(streams, number, lambda event: on_event("progress", json.dumps({**unknown, **event}), []))


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
