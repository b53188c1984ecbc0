"""The part of a run that lives with each client: it holds the client's engine and does what the run's own process says.

One `Agent` for each run and client, in that client's process. Its methods are called from an event loop and never
block it; the engine works in a thread of its own. Whoever holds the agent must `touch` it now and then: an agent that
nobody speaks to for SILENCE_S ends its load, removes what it made and goes.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from naslab.errors import NaslabError, SpaceError, TargetError
from naslab.execution.clients.engines import NodeEngine, OwnEngine, Reply
from naslab.execution.waits import until
from naslab.text.messages import told_of

if TYPE_CHECKING:
    from naslab.execution.clients.link import MakeRun, NodeRun

SILENCE_S = 20.0
"""Without a word from the run's own process an agent ends itself after so long."""
LEAVE_S = 10.0
"""At the end of its process a client waits so long for its load to end."""


@dataclass
class Stage:
    """One cell under way in the engine's thread."""

    reached: dict[str, asyncio.Event]
    ended: asyncio.Event
    go: dict[str, threading.Event] = field(
        default_factory=lambda: {"prepared": threading.Event(), "opened": threading.Event()}
    )
    begin_ns: int = 0
    progress: dict[str, Any] | None = None
    cell: tuple[dict[str, Any], list[bytes]] | None = None
    end: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class Agent:
    """A client of one run. spec: the client's `RunSpec` as JSON has it, with the target's password."""

    make_engine: ClassVar[Callable[[], NodeEngine]] = OwnEngine
    """Of this process: what each of its agents leads."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._engine = Agent.make_engine()
        self._run: NodeRun | None = None
        self._stage: Stage | None = None
        self._thread: threading.Thread | None = None
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        self._last_word = time.monotonic()
        self._watch = asyncio.ensure_future(self._watch_over())

    def touch(self) -> None:
        """The run's own process is alive."""
        self._last_word = time.monotonic()

    async def describe(self) -> Reply:
        """Who and where this client is, and what it has: for checks before anything is measured."""
        return await self._guarded(self._engine.describe)

    async def clock(self) -> Reply:
        """Two timestamps of the engine's CLOCK_MONOTONIC, for `Exchange`."""
        return await self._engine.clock()

    async def probe(self, target: dict[str, Any], depth: int) -> Reply:
        """What the target says to this client."""
        return await self._asked(lambda: {"probe": self._engine.probe(target, depth)})

    async def mark(self, target: dict[str, Any], folder: str, mark: str) -> Reply:
        """Makes a marked folder that the other clients shall see."""

        def work() -> Reply:
            self._engine.mark(target, folder, mark)
            return {}

        return await self._asked(work)

    async def sees(self, target: dict[str, Any], folder: str) -> Reply:
        """Whether this client sees it and may make files in it."""
        name = f"naslab.client{self.index}"
        return await self._asked(lambda: {"sees": self._engine.sees(target, folder, name)})

    async def unmark(self, target: dict[str, Any], folder: str, in_doubt: bool = False) -> Reply:
        """Removes such a folder. in_doubt: only on a server that answers at once."""
        return await self._asked(lambda: {"left": self._engine.unmark(target, folder, in_doubt)})

    async def open(self, spec: dict[str, Any], mark: str, depth: int, job: MakeRun | None = None) -> Reply:
        """Begins a run; touches nothing yet. job: makes what is done instead of the engine's cells."""

        def work() -> Reply:
            self._run = self._engine.open(spec, mark, depth, job)
            return {}

        return await self._guarded(work)

    async def prepare(self, cell: dict[str, Any], script: bytes | None) -> Reply:
        """Begins a cell; back when its files are prepared, or when it failed."""
        if self._run is None or (self._stage is not None and not self._stage.ended.is_set()):
            return _failure(TargetError("a client was asked to begin a cell out of order", "protocol"))
        if script is not None:
            cell = {**cell, "script": {**cell["script"], "path": await asyncio.to_thread(self._engine.keep, script)}}
        reached = {"prepared": asyncio.Event(), "opened": asyncio.Event()}
        self._stage = Stage(reached, asyncio.Event())
        self._thread = threading.Thread(
            target=self._carry_out, args=(self._stage, cell), name="naslab-stage", daemon=True
        )
        self._thread.start()
        return await self._reached(self._stage, "prepared")

    async def open_files(self) -> Reply:
        """Every client is prepared; back when the files are open."""
        stage = self._now()
        stage.go["prepared"].set()
        return await self._reached(stage, "opened")

    async def begin(self, at_ns: int) -> Reply:
        """The window begins at this time of this client's clock."""
        stage = self._now()
        stage.begin_ns = at_ns
        stage.go["opened"].set()
        return {}

    async def result(self, hold_s: float) -> Reply:
        """The cell's result; the progress where it has not ended within `hold_s`."""
        stage = self._now()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stage.ended.wait(), hold_s)
        if not stage.ended.is_set():
            return {"progress": stage.progress}
        return {"ended": True, "cell": stage.cell, "end": stage.end, "error": stage.error}

    async def stop(self) -> Reply:
        """Ends the cell under way, if there is one; `result` then tells what was measured."""
        self._stop()
        return {}

    async def finish(self) -> Reply:
        """Removes what this client made; what is left, and why."""
        run, self._run = self._run, None
        if run is None:
            return {"left": []}
        if self._stage is not None:
            await self._stage.ended.wait()
        return await self._guarded(lambda: {"left": json.loads(run.finish())})

    async def close(self) -> Reply:
        """The end of this agent."""
        self._watch.cancel()
        return await self._end()

    def leave(self) -> None:
        """At the end of its process, which has no loop any more: ends the load and removes what this client made."""
        self._stop()
        run, self._run = self._run, None
        if self._thread is not None:
            self._thread.join(LEAVE_S)
        if run is not None:
            with contextlib.suppress(Exception):
                run.finish()
        self._engine.forget()

    async def _end(self) -> Reply:
        self._stop()
        found = await self.finish()
        self._engine.forget()
        return found

    def _now(self) -> Stage:
        if self._stage is None:
            raise RuntimeError("no cell is running")
        return self._stage

    def _stop(self) -> None:
        self._stopped.set()
        if self._run is not None:
            self._run.interrupt()
        if self._stage is not None:
            for each in self._stage.go.values():
                each.set()

    def _carry_out(self, stage: Stage, cell: dict[str, Any]) -> None:
        """In a thread: the engine, from the cell's preparation to its end."""
        try:
            assert self._run is not None
            stage.end = json.loads(self._run.stage(json.dumps([cell]), lambda *event: self._heard(stage, *event)))
        except _Stopped:
            pass
        except BaseException as error:
            stage.error = _failure(error)["error"]
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is gone: so is whoever wanted to know
                self._loop.call_soon_threadsafe(stage.ended.set)

    def _heard(self, stage: Stage, kind: str, text: str, blobs: list[bytes]) -> Any:
        event = json.loads(text)
        if kind == "cell":
            stage.cell = (event, list(blobs))
        elif kind == "progress":
            stage.progress = event
        elif kind == "together":
            self._loop.call_soon_threadsafe(stage.reached[event["point"]].set)
            stage.go[event["point"]].wait()
            if self._stopped.is_set():
                raise _Stopped
            return stage.begin_ns if event["point"] == "opened" else 0
        return None

    async def _reached(self, stage: Stage, point: str) -> Reply:
        waits = [asyncio.ensure_future(each.wait()) for each in (stage.reached[point], stage.ended)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        return {} if stage.reached[point].is_set() else {"ended": True, "error": stage.error, "end": stage.end}

    async def _asked(self, work: Callable[[], Reply]) -> Reply:
        """As `_guarded`, for questions to the target: nobody waits for their answers once this agent ends."""
        return await self._guarded(
            lambda: until(self._stopped.is_set, lambda: TargetError("the client is ending", "interrupted"), work)
        )

    async def _guarded(self, work: Callable[[], Reply]) -> Reply:
        try:
            return await asyncio.to_thread(work)
        except NaslabError as error:
            return _failure(error)

    async def _watch_over(self) -> None:
        """Ends everything when the run's own process is gone."""
        while time.monotonic() - self._last_word < SILENCE_S:
            await asyncio.sleep(1.0)
        await self._end()
        _agents.pop(next((key for key, each in _agents.items() if each is self), ""), None)


class _Stopped(Exception):
    """The cell ends before its window began."""


_agents: dict[str, Agent] = {}
"""Of this process, by run and client."""


async def dispatch(key: str, index: int, method: str, arguments: dict[str, Any]) -> Reply:
    """One call on the agent of a run in this process; the first one makes it. Raises what is no fault of the target."""
    if key not in _agents:
        _agents[key] = Agent(index)
    agent = _agents[key]
    agent.touch()
    called: Callable[..., Awaitable[Reply]] = getattr(agent, method)
    reply = await called(**arguments)
    agent.touch()
    if method == "close":
        _agents.pop(key, None)
    return reply


@atexit.register
def _leave_all() -> None:
    """A worker of somebody's own cluster ends when its scheduler does, and says so to nobody."""
    for agent in list(_agents.values()):
        agent.leave()


async def close_all() -> None:
    """Ends every agent of this process."""
    await asyncio.gather(*(each.close() for each in list(_agents.values())), return_exceptions=True)
    _agents.clear()


def _failure(error: BaseException) -> Reply:
    """An error as data; its class by name."""
    said = error if isinstance(error, NaslabError) else TargetError(f"{type(error).__name__}: {error}")
    return {
        "error": {
            "class": type(said).__name__,
            "message": str(said),
            "kind": getattr(said, "kind", "io"),
            "status": getattr(said, "status", 0),
            "space": isinstance(said, SpaceError),
            "failure": told_of(said),
        }
    }
