"""Many clients as one engine: `ClusterRun` is used where `_engine.Run` is, and gives one merged cell for each cell."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naslab.errors import NaslabError, TargetError, UsageError
from naslab.execution.clients import checks
from naslab.execution.clients import share as parts
from naslab.execution.clients.launch import LoopThread, check_installed, started
from naslab.execution.clients.link import CALL_S, EXCHANGES, Client, MakeRun, of_all, unwrapped
from naslab.execution.clients.merge import Part, merge
from naslab.execution.clients.settings import Wanted
from naslab.execution.clients.share import Share
from naslab.spec import CellSpec, RunSpec
from naslab.text.messages import Told, sentence, told_of, words_of

LEAD_NS = 30_000_000
"""The common start is at least so far ahead, and twice as far as the last message to all clients took."""
LOOK_S, RARE_LOOK_S = 1.0, 5.0
"""A client under load is looked at so often: rarely where there are so many that looks would fill the scheduler."""
LOOKS_PER_S = 200
"""Of all clients together, where they can be had without looking more rarely than that (docs/notes/0005)."""
PREPARE_S = 24 * 3600.0
"""Files may take long to write; a client that does not is told apart by the looks at it."""
END_S = 60.0
OPEN_S = 120.0
"""A client with a job makes, or lists, its source first."""
WORKERS_S = 60.0
"""Workers of a cluster that somebody else began may still be on their way."""
OnEvent = Callable[[str, str, list[bytes]], Any]


@dataclass
class Clients:
    """The clients that a command line asks for; started when first needed, for all runs of the command.

    job: makes what they do instead of the engine's cells, of a client's spec and the mark of its folder.
    """

    wanted: Wanted
    share: Share = "own"
    job: MakeRun | None = None
    _loop: LoopThread | None = field(default=None, init=False, repr=False)
    _stack: contextlib.AsyncExitStack | None = field(default=None, init=False, repr=False)
    _dask: Any = field(default=None, init=False, repr=False)
    _known: list[tuple[str, str]] = field(default_factory=list, init=False, repr=False)

    def open_run(self, spec_json: str, mark: str, depth: int) -> ClusterRun:
        """As `_engine.open_run`. Raises UsageError, TargetError."""
        self._start()
        assert self._loop is not None
        return ClusterRun(self, self._loop, json.loads(spec_json), mark, depth)

    def probe(self, target: dict[str, Any], depth: int) -> dict[str, Any]:
        """What every client sees of the target: that of the first, once all agree on what it is."""
        self._start()
        assert self._loop is not None
        return self._loop.run(self._probe(target, depth))

    async def _probe(self, target: dict[str, Any], depth: int) -> dict[str, Any]:
        clients = self.fresh("probe")
        try:
            return await checks.probe(clients, target, depth, self.share)
        finally:
            await asyncio.gather(*(each.call("close") for each in clients), return_exceptions=True)

    def fresh(self, key: str) -> list[Client]:
        """The clients anew, with agents of their own for `key`."""
        from naslab.execution.clients.dask_link import DaskLink

        link = DaskLink(self._dask)
        return [
            Client(index, address, host, link, f"{key}:{index}") for index, (address, host) in enumerate(self._known)
        ]

    @property
    def count(self) -> int:
        """How many; 0 before they were started where the cluster decides."""
        return len(self._known) or self.wanted.clients or len(self.wanted.hosts)

    def _start(self) -> None:
        if self._loop is None:
            check_installed()
            if self.wanted.scheduler is None:
                from naslab.execution.clients.local import fork_server

                fork_server()
            self._loop = LoopThread()
            self._loop.run(self._begin())

    async def _begin(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._dask = await self._stack.enter_async_context(started(self.wanted))
        if self.wanted.scheduler is not None:
            with contextlib.suppress(TimeoutError):  # too few are told below
                await self._dask.wait_for_workers(self.wanted.clients or 1, timeout=WORKERS_S)
        info = await self._dask.scheduler.identity(n_workers=-1)
        workers = sorted(info["workers"].items(), key=lambda each: _by_number(each[1].get("name")))
        found = [(address, each["host"]) for address, each in workers]
        if self.wanted.scheduler is not None:
            found = one_per_host(found, self.wanted.clients, self.wanted.scheduler)
        names = [each.name for each in self.wanted.hosts] or [host for _, host in found]
        self._known = [(address, name) for (address, _), name in zip(found, names, strict=True)]

    def close(self) -> None:
        """Ends what was started."""
        if self._loop is None:
            return
        if self._stack is not None:
            with contextlib.suppress(Exception):
                self._loop.run(asyncio.wait_for(self._stack.aclose(), END_S))
        self._loop.close()
        self._loop = None


def _by_number(name: Any) -> tuple[int, str]:
    """Workers that were begun for a run are named by their number."""
    return (int(name), "") if str(name).isdigit() else (1 << 32, str(name))


def one_per_host(workers: list[tuple[str, str]], wanted: int | None, scheduler: str) -> list[tuple[str, str]]:
    """(address, host) of the workers to use: one of each host first; all where so many are wanted by number.

    Raises UsageError when there are too few.
    """
    first = {host: (address, host) for address, host in reversed(workers)}
    chosen = [each for each in workers if each in first.values()]
    if wanted is not None:
        chosen = (chosen + [each for each in workers if each not in chosen])[:wanted]
    if not chosen or (wanted is not None and len(chosen) < wanted):
        raise UsageError(
            f"--clients {wanted}: --scheduler {scheduler} has {len(workers)} workers; start more, or give a smaller "
            "--clients"
        )
    return chosen


class ClusterRun:
    """A run of many clients under way; see `_engine.Run`."""

    def __init__(self, owner: Clients, loop: LoopThread, spec: dict[str, Any], mark: str, depth: int) -> None:
        self._loop, self._share, self._mark, self._depth = loop, owner.share, mark, depth
        self._job = owner.job
        self._spec = RunSpec(**{**spec, "cells": []})
        self.clients = owner.fresh(self._spec.run_id)
        self._opened = False
        self._common_folder = False
        self._over = False
        self._keeper: asyncio.Task[None] | None = None

    def stage(self, cells_json: str, on_event: OnEvent) -> str:
        """Carries out cells on all clients; how that ended, as JSON."""
        cells = [CellSpec.from_dict(each) for each in json.loads(cells_json)]
        if self._over:
            raise UsageError("the run has ended: it cannot measure another stage")
        for cell in cells:
            count = len(self.clients[: cell.clients])
            if cell.clients is not None and cell.clients > count:
                raise UsageError(
                    f"--scale {cell.clients}: there are only {count} clients; start more, or scale to fewer"
                )
            for each in range(count):
                parts.cell_spec(cell, self._share, each, count).validate()
        end: dict[str, Any] = {"status": "complete", "error": None}
        if not self._opened:
            self._loop.run(self._open())
            self._opened = True
            on_event("clients", json.dumps(self.about()), [])  # warnings of cells name them
        for cell in cells:
            if on_event("before", json.dumps({"cell": cell.id}), []) is False:
                break
            status = self._carry_out(cell, on_event, end)
            if self._over:
                break
            if status != "complete":
                end["status"] = "failed"
        return json.dumps({**end, "facts": {}, "clients": self.about()})

    def about(self) -> list[dict[str, Any]]:
        """Every client: what it is, how its clock differs, and why it was lost."""
        return [
            {"client": each.index, **each.about, "clock": _clock_words(each), "lost": each.lost}
            for each in self.clients
        ]

    def finish(self) -> str:
        """Removes what the clients made; what is left, and why, as JSON. Agents of lost clients end themselves."""
        self._over = True
        return json.dumps(self._loop.run(self._finish()))

    async def _open(self) -> None:
        for _ in range(EXCHANGES):
            await asyncio.gather(*(each.exchange() for each in self.clients))
        self._keeper = asyncio.ensure_future(_keep(self.clients))
        for each, about in zip(self.clients, await of_all(self.clients, "describe"), strict=True):
            each.about = {**about["client"], **{name: about[name] for name in ("naslab_version", "python", "pid")}}
            each.about["clock_at_start"] = _clock_words(each)
        if self._share != "own":
            await self.clients[0].call(
                "mark", END_S, target=self._spec.target, folder=self._spec.folder, mark=self._mark
            )
            self._common_folder = True
        done = await asyncio.gather(
            *(
                each.call("open", OPEN_S, spec=self._spec_of(each), mark=self._mark, depth=self._depth, job=self._job)
                for each in self.clients
            ),
            return_exceptions=True,
        )
        unwrapped(done)

    def _spec_of(self, client: Client) -> dict[str, Any]:
        return {
            **dataclasses.asdict(parts.run_spec(self._spec, self._share, client.index)), "target": self._spec.target,
        }  # fmt: skip

    def _carry_out(self, cell: CellSpec, on_event: OnEvent, end: dict[str, Any]) -> str:
        """One cell on all clients; its status. What ends the run is written into `end`."""
        work = _Cell(cell, self._share, self.clients[: cell.clients], on_event)
        try:
            try:
                self._loop.run(work.carry_out())
            except KeyboardInterrupt:
                self._over = True
                self._loop.run(work.stop())
                self._give(work, on_event)
                raise
        except NaslabError as error:
            self._over = True
            with contextlib.suppress(NaslabError):
                self._loop.run(work.stop())
            end |= {"status": "failed", "error": told_of(error)}
            if not work.parts and not any(each.lost for each in self.clients) and not isinstance(error, TargetError):
                raise
        return self._give(work, on_event)

    def _give(self, work: _Cell, on_event: OnEvent) -> str:
        if not work.parts:
            return "failed"
        result, blobs = merge(work.parts, work.begin_ns)
        if self._job is not None:
            result["jobs"] = [each.result["job"] for each in work.parts]
        lost = [each for each in self.clients if each.lost]
        if lost:
            result["status"], result["stop_reason"] = "failed", "error"
            result["first_error"] = "; ".join(f"{each.name} {each.lost}" for each in lost)
        on_event("cell", json.dumps(result), blobs)
        return str(result["status"])

    async def _finish(self) -> list[Told]:
        """Clients remove what they made; what a lost one made is removed by another."""
        if self._keeper is not None:
            self._keeper.cancel()
        there = [each for each in self.clients if not each.lost]
        done = await asyncio.gather(*(each.call("finish", END_S) for each in there), return_exceptions=True)
        left = [each for reply in done if not isinstance(reply, BaseException) for each in reply["left"]]
        folders = {parts.folder_of(self._spec, self._share, each.index): each for each in self.clients if each.lost}
        if self._share != "own":
            folders = {str(self._spec.folder): self.clients[0]} if self._common_folder else {}
        for folder, client in folders.items():
            left += await self._remove(folder, client)
        await asyncio.gather(*(each.call("close", END_S) for each in there), return_exceptions=True)
        return left

    async def _remove(self, folder: str, client: Client) -> list[Told]:
        """What is left of a folder after any client that is there removed it."""
        why: object = f"{client.name} {client.lost}"
        for each in self.clients:
            if not each.lost:
                try:
                    return list((await each.call("unmark", END_S, target=self._spec.target, folder=folder))["left"])
                except TargetError as error:
                    if error.kind == "not_found":
                        return []
                    why = words_of(error)
        return [f"{folder}: {why}"]


def look_s(clients: int) -> float:
    """From one look at a client to the next, of so many."""
    return min(max(LOOK_S, clients / LOOKS_PER_S), RARE_LOOK_S)


async def _keep(clients: list[Client]) -> None:
    """Speaks to every client now and then as long as the run lives: agents that hear nothing end themselves, clocks
    drift, and a client that does not answer is lost, which the next call on it says."""
    while True:
        await asyncio.sleep(look_s(len(clients)))
        there = [each for each in clients if not each.lost]
        await asyncio.gather(*(each.exchange() for each in there), return_exceptions=True)


def _clock_words(client: Client) -> dict[str, Any] | None:
    """Offset of its clock now, and its bound."""
    if not client.clock.exchanges:
        return None
    found = client.clock.offset(time.monotonic_ns())
    return {"offset_ns": found.offset_ns, "bound_ns": found.bound_ns, "stepped": found.stepped}


class _Cell:
    """One cell on its way over all clients."""

    def __init__(self, cell: CellSpec, share: Share, clients: list[Client], on_event: OnEvent) -> None:
        self.cell, self._share, self._clients, self._on_event = cell, share, clients, on_event
        self.begin_ns = 0
        self.parts: list[Part] = []
        self._progress: dict[int, dict[str, Any]] = {}

    async def carry_out(self) -> None:
        """From the preparation to the last client's end. Raises ClientLostError and the clients' errors."""
        script = Path(self.cell.script.path).read_bytes() if self.cell.script else None
        await self._all(
            lambda each: each.call(
                "prepare", PREPARE_S, script=script,
                cell=dataclasses.asdict(parts.cell_spec(self.cell, self._share, each.index, len(self._clients))),
            )
        )  # fmt: skip
        asked = time.monotonic_ns()
        await self._all(lambda each: each.call("open_files", PREPARE_S))
        took = time.monotonic_ns() - asked
        self.begin_ns = time.monotonic_ns() + max(LEAD_NS, 2 * took)
        await self._all(lambda each: each.call("begin", at_ns=each.clock.there(self.begin_ns)))
        await self._results()

    async def _all(self, work: Callable[[Client], Any]) -> None:
        """One step of every client, which may take long. Raises the first failure once it is known."""
        steps = [asyncio.ensure_future(work(each)) for each in self._clients]
        try:
            while any(not each.done() for each in steps):
                await asyncio.wait(steps, return_when=asyncio.FIRST_COMPLETED, timeout=LOOK_S)
                for client, each in zip(self._clients, steps, strict=True):
                    if each.done():
                        _refuse_early_end(client, each.result())
                    client.check()
        finally:
            for each in steps:
                each.cancel()

    async def _results(self) -> None:
        done = await asyncio.gather(*(self._result(each) for each in self._clients), return_exceptions=True)
        self.parts.sort(key=lambda each: each.client)
        unwrapped(done)

    async def _result(self, client: Client) -> dict[str, Any]:
        """Waits for one client; a lost one ends the others."""
        hold_s = look_s(len(self._clients))
        try:
            while True:
                reply = await client.call("result", CALL_S + hold_s, hold_s=hold_s)
                if reply.get("ended"):
                    return self._take(client, reply)
                self._tell(client, reply["progress"])
        except NaslabError:
            await self.stop_others(client)
            raise

    def _take(self, client: Client, reply: dict[str, Any]) -> dict[str, Any]:
        if reply["cell"] is not None:
            result, blobs = reply["cell"]
            clock = client.clock
            bound = clock.offset(time.monotonic_ns()).bound_ns
            self.parts.append(Part(client.index, result, blobs, clock.here, bound, client.host))
        end = reply.get("end") or {}
        if end.get("error"):
            raise _of_client(client, end["error"])
        return reply

    def _tell(self, client: Client, progress: dict[str, Any] | None) -> None:
        """Progress of all clients together."""
        if progress is None:
            return
        self._progress[client.index] = progress
        known = list(self._progress.values())
        together = {name: sum(each[name] for each in known) for name in ("bytes", "ops", "errors", "bytes_per_s")}
        slowest = max((each["p99_ns"] for each in known if each["p99_ns"] is not None), default=None)
        elapsed = max(each["elapsed_ns"] for each in known)
        event = {"cell": self.cell.id, **together, "elapsed_ns": elapsed, "p99_ns": slowest}
        self._on_event("progress", json.dumps(event), [])

    async def stop_others(self, but: Client) -> None:
        """No load goes on without one of the clients."""
        others = [each for each in self._clients if each is not but and not each.lost]
        await asyncio.gather(*(each.call("stop") for each in others), return_exceptions=True)

    async def stop(self) -> None:
        """Ends the cell on every client that is there, and takes what they measured."""
        there = [each for each in self._clients if not each.lost]
        await asyncio.gather(*(each.call("stop") for each in there), return_exceptions=True)
        taken = {each.client for each in self.parts}
        waiting = [each for each in there if each.index not in taken]
        await asyncio.gather(*(self._last(each) for each in waiting), return_exceptions=True)
        self.parts.sort(key=lambda each: each.client)

    async def _last(self, client: Client) -> None:
        until = time.monotonic() + END_S
        while time.monotonic() < until:
            reply = await client.call("result", CALL_S + LOOK_S, hold_s=LOOK_S)
            if reply.get("ended"):
                self._take(client, reply)
                return


def _refuse_early_end(client: Client, reply: dict[str, Any]) -> None:
    """An agent whose cell ended in its set-up says why. Raises TargetError."""
    if reply.get("ended"):
        end = reply.get("end") or {}
        if end.get("error"):
            raise _of_client(client, end["error"])
        raise TargetError(f"{client.name}: the cell ended before it began")


def _of_client(client: Client, told: Mapping[str, Any]) -> TargetError:
    """The error that ended a client's cell."""
    return TargetError(f"{client.name}: {sentence(told)}", told["kind"], told["status"])
