"""Carries a plan out: probe, check room, run, save each cell as it ends, finish.

`execute` does a whole run; `Execution` lets a command add cells in stages that depend on what was
measured before. Every cell is in the store before anything looks at it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from naslab import _engine
from naslab.analysis.validity import cell_regime, run_warnings
from naslab.client.environment import describe_client
from naslab.errors import SpaceError, TargetError, UsageError
from naslab.execution import recycle
from naslab.execution.validity_watch import ValidityWatch, found_at_start
from naslab.execution.waits import termination_as_interrupt
from naslab.execution.workspace import owner_mark, remove
from naslab.results.document import cell_blobs, cell_document, negotiated, new_document, typed_facts
from naslab.results.outages import outage_warnings
from naslab.results.run import Run
from naslab.results.store import new_run_id
from naslab.results.store.store import StoreBlobs
from naslab.results.store.underway import UnderWay
from naslab.spec import CellSpec, RunSpec
from naslab.targets import Target
from naslab.targets.first_contact import first_contact
from naslab.targets.nfs import check_low_ports
from naslab.targets.target import SERVERS
from naslab.text.messages import failure_of, left_words, say, sentence
from naslab.units import amount_text

if TYPE_CHECKING:
    from naslab.execution.clients.run import ClusterRun
    from naslab.results.run import Run
    from naslab.results.store import Store

SPACE_FACTOR = 1.2
"""Room asked for, over the files' sizes (DESIGN.md section 2)."""

_TOLD = ("id", "op", "workload", "file_bytes", "record_bytes", "workers", "queue_depth", "duration_ns", "warmup_ns")
"""Of a cell, to who watches the run."""

OnCell = Callable[[dict[str, Any]], None]
OnBefore = Callable[[int], None]
OnProgress = Callable[[dict[str, Any]], None]
Conclude = Callable[[dict[str, Any]], dict[str, Any]]
Enough = Callable[[int], bool]
"""Asked before each cell, with its id: whether enough is known, so that the stage ends there as complete."""


@dataclass
class Hooks:
    """What a caller wants to hear: before a cell opens its files, as it goes, and its document when it ended.

    on_result: what the engine, or the clients, gave of it.
    """

    before_cell: OnBefore | None = None
    progress: OnProgress | None = None
    on_cell: OnCell | None = None
    on_result: OnCell | None = None


Watcher = Callable[[str, str, Any], None]
"""Called with a run's id, the name of one of its Hooks, and what that gets."""

begun_runs: list[str] = []
"""Ids of the runs that this process began, in order."""
watching: ContextVar[Watcher | None] = ContextVar("watching", default=None)
"""Hears of every run that begins meanwhile, beside the hooks of its own."""


@dataclass
class Execution:
    """One run under way. Made by `start`; `stage` measures cells; `finish` ends it.

    Stages share the folder and its files, and the target: a simulated server goes on where it was. `close`
    removes what was made there; a later stage begins anew. begun: a cell was about to be measured. A run that
    fails before is taken out of the store again: it was refused, it did not run. refused: why, of such a run.
    forgives: so many cells may still end with a lost connection before the run counts as failed. The engine connects
    anew for the next cell. spares: the run goes on without cells that want more connections than the server takes.
    connections: most workers that a cell may have after that; None: no limit was met.
    """

    store: Store
    target: Target
    document: dict[str, Any]
    spec: RunSpec
    hooks: Hooks = field(default_factory=Hooks)
    status: str = "complete"
    caps: dict[str, Any] = field(default_factory=dict)
    begun: bool = False
    forgives: int = 0
    spares: bool = False
    connections: int | None = None
    _forgiven: set[str] = field(default_factory=set, init=False, repr=False)
    refused: BaseException | None = field(default=None, init=False, repr=False)
    # Taken here: the engine's threads, which tell, have no context of their own.
    _watcher: Watcher | None = field(default_factory=watching.get, init=False, repr=False)
    _doubts: ValidityWatch = field(init=False, repr=False)
    _under_way: UnderWay = field(init=False, repr=False)
    _engine_run: _engine.Run | ClusterRun | None = field(default=None, init=False, repr=False)
    _planned: dict[int, CellSpec] = field(default_factory=dict, init=False, repr=False)
    _begun_ns: int = field(default_factory=time.monotonic_ns, init=False, repr=False)

    def __post_init__(self) -> None:
        self._doubts = ValidityWatch(self.document, self.target, self.spec)
        self._under_way = UnderWay(self.store.path, self.run_id)

    @property
    def run_id(self) -> str:
        """Identity of the run."""
        return str(self.document["run_id"])

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Documents of the cells measured so far."""
        return list(self.document["cells"])

    @property
    def planned(self) -> Mapping[int, CellSpec]:
        """The cells of all stages so far, measured or not, by id."""
        return self._planned

    def stage(self, cells: list[CellSpec], enough: Enough | None = None) -> list[CellSpec]:
        """Measures more cells; those that `enough`, a failure or an interruption left out.

        Raises what the engine raises; a refusal before the first cell ends with exit 2.
        """
        by_id = {cell.id: cell for cell in cells}
        self._planned.update(by_id)
        for found in self._doubts.files(cells):
            self.warn(found["kind"], found["message"])
        text = json.dumps([dataclasses.asdict(cell) for cell in cells])
        with termination_as_interrupt():
            try:
                with engine_errors(self.target.url):
                    end = json.loads(self._open(cells).stage(text, self._listener(by_id, enough)))
            except KeyboardInterrupt:
                self.status = "partial"
                self._end_engine_run()
                raise
            except BaseException as error:
                self.status = "failed"
                self._end_engine_run()
                if not self.begun:
                    self.withdraw(error)
                raise
        self._take_end(end)
        measured = {cell["id"] for cell in self.document["cells"]}
        return [cell for cell in cells if cell.id not in measured]

    def _open(self, cells: list[CellSpec]) -> _engine.Run | ClusterRun:
        """The engine's run, begun where there is none."""
        if self._engine_run is None:
            # The password is in what the engine gets and in nothing that is kept.
            spec = dataclasses.replace(self.spec, cells=[], target=self.target.engine_spec())
            depth = max((cell.queue_depth for cell in [*self.spec.cells, *cells]), default=1)
            open_run = _engine.open_run if self.target.clients is None else self.target.clients.open_run
            self._engine_run = open_run(spec.to_json(), owner_mark(self.run_id), depth)
        return self._engine_run

    def close(self) -> None:
        """Removes what the stages made on the target and notes what is left. Raises KeyboardInterrupt."""
        self._under_way.close()
        run, self._engine_run = self._engine_run, None
        if run is None:
            return
        with termination_as_interrupt():
            try:
                for left in json.loads(run.finish()):
                    self.note_left(left_words(left))
            except KeyboardInterrupt:
                self.status = "partial"
                self._note_left_folder()
                raise

    def _end_engine_run(self) -> None:
        """After an exception in a stage: what the engine knows nothing of is looked for, too."""
        opened = self._engine_run is not None
        self.close()
        if opened and not self.begun:
            self._note_left_folder()

    def _note_left_folder(self) -> None:
        """Where the engine's own list of what it left is lost: looks for the folder itself."""
        if self.spec.folder:
            for path in remove(self.target.engine_json(), self.spec.folder, self.run_id, in_doubt=True):
                self.note_left(path)

    def note_left(self, path: str) -> None:
        """Warns of a file or folder of the run that is still on the target."""
        message = f"left on the target: {path}; look at it, then run `naslab clean` on the target"
        self.warn("left_behind", message)

    def withdraw(self, error: BaseException) -> None:
        """Takes a run that was refused before it began out of the store; `error` then ends with exit 2."""
        self.refused = error
        self.store.delete_run(self.run_id)
        if isinstance(error, TargetError):
            error.refuse()

    def finish(self, conclude: Conclude | None = None, **updates: Any) -> Run:
        """Saves the run's status, warnings and `updates` of its document; the run as stored.

        conclude: gives further updates from the document with its warnings, the last of all.
        """
        self.close()
        if self.status == "complete" and self.spec.folder and (kept := recycle.warning(self.target, self.spec.folder)):
            self.warn("recycle_bin", kept)
        self._keep_plan()
        self.explain_cells(**updates)
        doubts, more = self._doubts.finish()
        if self.target.monitor is not None:
            more["monitor"] = self.target.monitor.part(self._begun_ns)
        self.document.update(more)
        known = {(w["kind"], w["message"], w["cell"]) for w in self.store.load(self.run_id).document["warnings"]}
        for found in [*((w["kind"], w["message"], w["cell"]) for w in doubts), *run_warnings(self.document)]:
            if found not in known:
                self.warn(*found)
        if conclude is not None:
            warnings = self.store.load(self.run_id).document["warnings"]
            updates |= conclude({**self.document, **updates, "status": self.status, "warnings": warnings})
        self.store.finish_run(self.run_id, self.status, **{**more, **updates})  # type: ignore[arg-type]
        return self.store.load(self.run_id)

    def facts_of(self, target: Target) -> dict[str, Any]:
        """What another target, or the same with other options, negotiates. Raises UsageError, TargetError."""
        return dict(probe(target, [])["facts"])

    def keep(self, **parts: Any) -> None:
        """Keeps parts of the document with the run. Of a run that was refused nothing is stored: its error counts."""
        self.document.update(parts)
        if self.refused is None:
            self.store.update_run(self.run_id, **parts)

    def explain_cells(self, **updates: Any) -> None:
        """Names the regime of every cell from all that is known by now, `updates` included; saved with its evidence."""
        from naslab.explain.regimes import regimes_of

        document: Any = {**self.document, **updates}
        run = Run(document, StoreBlobs(self.store, self.run_id))
        found = regimes_of(run)
        changed = {
            cell["id"]: {"regime": found[cell["id"]].word, "regime_evidence": found[cell["id"]].evidence}
            for cell in run.cells
            if (cell["regime"], cell.get("regime_evidence")) != (found[cell["id"]].word, found[cell["id"]].evidence)
        }
        if changed:
            self.store.update_cells(self.run_id, changed)
        for cell in self.document["cells"]:
            cell.update(changed.get(cell["id"], {}))

    def _keep_plan(self) -> None:
        """Cells that later stages planned from what earlier ones measured become part of the stored specification."""
        if self._planned.keys() - {cell.id for cell in self.spec.cells}:
            cells = [self._planned[cell] for cell in sorted(self._planned)]
            self.store.set_spec(self.run_id, dataclasses.replace(self.spec, cells=cells))

    def warn(self, kind: str, message: str, cell: int | None = None) -> None:
        """Saves a typed warning with the run."""
        self.store.add_warning(self.run_id, kind, message, cell)

    def _listener(
        self, by_id: Mapping[int, CellSpec], enough: Enough | None
    ) -> Callable[[str, str, list[bytes]], bool | None]:
        def on_event(kind: str, text: str, blobs: list[bytes]) -> bool | None:
            event = json.loads(text)
            if kind == "clients":
                self._know(clients=event)
                return None
            self.begun = True
            if kind == "cell":
                self.take_cell(by_id[event["id"]], event, blobs)
                self._tell("on_result", event)
            elif kind == "before":
                if enough is not None and enough(event["cell"]):
                    return False
                self.tell_before(event["cell"])
                self._doubts.before()
                self.tell_begin(by_id[event["cell"]])
            elif kind == "progress":
                self._doubts.progress(event)
                self.tell_progress(event)
            return None

        return on_event

    def tell_before(self, cell: int) -> None:
        """A cell is about to open its files."""
        self._tell("before_cell", cell)

    def _tell(self, hook: str, value: Any) -> None:
        """To the hook of that name, and to who watches the command."""
        if (call := getattr(self.hooks, hook)) is not None:
            call(value)
        if self._watcher is not None:
            self._watcher(self.run_id, hook, value)

    def tell_begin(self, spec: CellSpec) -> None:
        """Who watches from another process is told which cell begins."""
        about = {name: getattr(spec, name) for name in _TOLD}
        # Simulated time passes in no relation to that of the watcher.
        timed = self.target.protocol not in ("sim", "null")
        planned = len(self._planned) or None
        self._under_way.before({**about, "planned_bytes": spec.planned_bytes(), "timed": timed}, planned)

    def tell_progress(self, event: dict[str, Any]) -> None:
        """How far the cell under way is: `cell`, `elapsed_ns`, `bytes`, `bytes_per_s`."""
        self._under_way.progress(event)
        self._tell("progress", event)

    def take_cell(self, spec: CellSpec, event: dict[str, Any], blobs: list[bytes]) -> None:
        """Keeps a cell that was measured, as the engine gives it (docs/notes/0001-seams.md)."""
        cell: dict[str, Any] = dict(cell_document(dataclasses.asdict(spec), event, blobs))
        if cell["first_error"]:
            cell["first_error"] = sentence(cell["first_error"])
        cell["regime"] = cell_regime(cell, self.document)
        cell["warnings"] = [*self._doubts.cell(cell, spec), *outage_warnings(cell)]
        self.store.add_cell(self.run_id, cell, cell_blobs(event, blobs))
        self._under_way.between()
        self.document["cells"] = [c for c in self.document["cells"] if c["id"] != cell["id"]] + [cell]
        self._tell("on_cell", cell)

    def _take_end(self, end: dict[str, Any]) -> None:
        if end["status"] == "interrupted":
            self.status = "partial"
        elif end["status"] != "complete" and (end["error"] or not self._goes_on(end)):
            self.status = "failed"
            if refused := end.get("refused"):
                self.warn("error", sentence(next(iter(refused.values()))))
        if end["error"]:
            self.warn("error", sentence(end["error"]))
        facts = typed_facts(end["facts"]) or self.document["environment"]["target"]
        self._know(target=facts, **({"clients": end["clients"]} if "clients" in end else {}))

    def _goes_on(self, end: Mapping[str, Any]) -> bool:
        """Whether lost and refused connections are all that failed in a stage, and are forgiven."""
        lost, refused = end.get("lost") or {}, end.get("refused") or {}
        if not (lost or refused) or len(lost) > self.forgives or (refused and not self.spares):
            return False
        failed = {str(cell["id"]) for cell in self.document["cells"] if cell["status"] == "failed"}
        if failed - set(lost) - self._forgiven:
            return False
        self.forgives -= len(lost)
        self._forgiven |= set(lost)
        for cell, why in lost.items():
            self.warn("connection_lost", f"{sentence(why)}; the run continued over a new connection", int(cell))
        for cell, why in refused.items():
            wanted = self._planned[int(cell)].workers
            self.connections = min(self.connections or wanted, wanted - 1)
            self.warn(
                "connections_refused",
                f"a load over {wanted} connections was not measured: {sentence(why)}; the run continued with fewer",
            )
        return True

    def _know(self, **facts: Any) -> None:
        """Keeps facts of the environment."""
        self.document["environment"] = {**self.document["environment"], **facts}
        self.store.update_run(self.run_id, environment=self.document["environment"])


def start(
    spec: RunSpec,
    target: Target,
    store: Store,
    *,
    document_extra: Mapping[str, Any] | None = None,
    hooks: Hooks | None = None,
) -> Execution:
    """Probes the target, checks the room for the plan, and saves a run that begins.

    spec.cells: those of the first stage. document_extra: `argv`, `labels`, `note` of the document.
    Raises UsageError, SpaceError, TargetError, StoreError before anything was written to the target.
    """
    target = target.seeded(spec.seed).with_timeout(spec.timeout_ns)
    if target.monitor is not None:
        target.monitor.start()
    spec.run_id = spec.run_id or new_run_id()
    begun_runs.append(spec.run_id)
    spec.target = target.stored_spec()
    if spec.folder == "":
        spec.folder = f"naslab-{spec.run_id}"
    spec.validate()
    _check_ride_out(spec, target)
    if target.protocol == "nfs":
        check_low_ports(target, max((cell.workers for cell in spec.cells), default=1))
    probed = probe(target, spec.cells)
    check_space(spec.cells, probed, lambda names: _present_bytes(target, spec, names))
    extra = dict(document_extra or {})
    client = found_at_start(target, probed["facts"], store.path)
    if (ceiling := client.pop("client_ceiling", None)) is not None:
        extra.setdefault("client_ceiling", ceiling)
    environment = {"client": describe_client(), "target": probed["facts"], "space": probed["space"], **client}
    if target.lab:
        environment["lab"] = {each: target.lab[each] for each in ("name", "url")}
    document: dict[str, Any] = dict(
        new_document(
            spec.run_id,
            spec.command,
            _record(target, probed["facts"]),
            environment=environment,
            seed=spec.seed,
            argv=extra.pop("argv", None),
            labels=extra.pop("labels", None),
            note=extra.pop("note", None),
        )
    )
    document.update(extra)
    store.create_run(document, dataclasses.asdict(spec))
    execution = Execution(store, target, document, spec, hooks or Hooks(), caps=probed["caps"])
    for kind, message in target.warnings:
        execution.warn(kind, message)
    return execution


def execute(
    spec: RunSpec,
    *,
    target: Target,
    store: Store,
    document_extra: Mapping[str, Any] | None = None,
    on_cell: OnCell | None = None,
    before_cell: OnBefore | None = None,
    progress: OnProgress | None = None,
) -> Run:
    """Carries out a whole run and returns it as stored.

    An interruption (Ctrl-C, SIGTERM) keeps what was measured: the run is stored as `partial` and returned.
    Raises UsageError, SpaceError or TargetError; if cells were measured by then, they are stored.
    """
    spec.validate()
    execution = start(spec, target, store, document_extra=document_extra, hooks=Hooks(before_cell, progress, on_cell))
    with termination_as_interrupt():
        try:
            execution.stage(spec.cells)
            execution.close()
        except KeyboardInterrupt:
            execution.warn("interrupted", "the run was interrupted; the cells measured so far are kept")
        except BaseException as error:
            if execution.begun:
                execution.warn("error", str(error))
                execution.finish()
            raise
    return execution.finish()


def probe(target: Target, cells: list[CellSpec]) -> dict[str, Any]:
    """Protocol, facts, abilities and space of a target. Raises UsageError, TargetError."""
    depth = max((cell.queue_depth for cell in cells), default=1)
    with engine_errors(target.url, before_run=True):
        if target.clients is not None:
            probed = target.clients.probe(target.engine_spec(), depth)
        else:
            probed = dict(json.loads(_engine.probe(target.engine_json(), depth)))
    return {**probed, "facts": typed_facts(probed["facts"])}


@contextlib.contextmanager
def engine_errors(url: str, before_run: bool = False) -> Iterator[None]:
    """Errors of the engine, said for people; with the target's name where the error is about its options."""
    try:
        yield
    except TargetError as error:
        say(error, first_contact(url, failure_of(error), before_run))
        error.refuse(before_run)
        raise
    except UsageError as error:
        found, options = failure_of(error), "options of the target: "
        if found and found.operation == "target" and found.cause.startswith(options):
            say(error, f"target {url!r}: {found.cause.removeprefix(options)}{_reference(url)}")
        else:
            say(error, first_contact(url, found, True))
        raise


def _reference(url: str) -> str:
    return "; docs/reference/sim.md explains the fields" if url.startswith("sim:") else ""


def _check_ride_out(spec: RunSpec, target: Target) -> None:
    """Raises UsageError where nothing can come back, or nobody would put the outages of many clients together."""
    if spec.ride_out_ns and target.protocol not in SERVERS:
        raise UsageError(
            f"--ride-out: {target.url} has no server that naslab connects to; give an smb:// or nfs:// target"
        )
    if spec.ride_out_ns and target.clients is not None:
        raise UsageError("--ride-out with several clients is not supported: measure from one, or leave it out")


def _record(target: Target, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The target's part of the run document. facts: what was probed."""
    about = {"url": target.url, "protocol": target.protocol}
    return {**about, **negotiated(facts), **_addresses(facts), **_planted(target)}


def _addresses(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The server's addresses that are used together and how, for the target record; nothing where it has one."""
    return {
        name: str(facts[name]).split() if name == "addresses" else facts[name]
        for name in ("addresses", "address_use") if name in facts
    }  # fmt: skip


def _planted(target: Target) -> dict[str, Any]:
    """What was planted in a system of the lab, for the target record."""
    return {} if target.lab is None else {each: target.lab[each] for each in ("planted", "calibrated_at")}


def needed_bytes(cells: list[CellSpec], present_bytes: Mapping[str, int] | None = None) -> int:
    """Room that the cells' files take together, each at its largest, less what they take up by now."""
    largest: dict[str, int] = {}
    for cell in cells:
        for name in cell.files:
            largest[name] = max(largest.get(name, 0), cell.file_bytes)
    present = present_bytes or {}
    return sum(max(size - present.get(name, 0), 0) for name, size in largest.items())


def check_space(
    cells: list[CellSpec],
    probed: Mapping[str, Any],
    present: Callable[[list[str]], Mapping[str, int]] | None = None,
) -> None:
    """Raises SpaceError when the target has less than 1.2 times the room that the written files grow by.

    present: bytes that these files take up on the target by now; asked only when the room would not do for new ones.
    """
    writing = [cell for cell in cells if cell.writes()]
    needed, files = int(needed_bytes(writing) * SPACE_FACTOR), "its files"
    space = probed.get("space")
    if space is None or needed <= space["free_bytes"]:
        return
    there = present(sorted({name for cell in writing for name in cell.files})) if present else {}
    if any(there.values()):
        needed, files = int(needed_bytes(writing, there) * SPACE_FACTOR), "the growth of its files"
    if needed > space["free_bytes"]:
        raise SpaceError(
            f"the plan needs {amount_text(needed)} ({SPACE_FACTOR} times {files}), the target has "
            f"{amount_text(space['free_bytes'])} free: choose smaller files or free some space",
            "no_space",
            before_run=True,
        )


def _present_bytes(target: Target, spec: RunSpec, names: list[str]) -> dict[str, int]:
    """What the files take up by now. A run's own folder is new; holes in a local file are still to be filled."""
    found: dict[str, int] = {}
    if spec.folder is not None:
        return found
    with engine_errors(target.url, before_run=True):
        for name in names:
            size = _engine.stat(target.engine_json(), name)
            if size is not None and not size[1]:
                found[name] = size[0]
    if target.protocol == "local":
        for name, size_bytes in found.items():
            with contextlib.suppress(OSError, AttributeError):
                blocks = os.stat(os.path.join(target.options["root"], name)).st_blocks
                found[name] = min(size_bytes, blocks * 512)
    return found
