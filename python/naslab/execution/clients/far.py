"""The engine of a host without Python: `naslab-agent serve` there, a line of JSON for each call and answer.

The other end is crates/agent/src/serve.rs. It ends with its standard input, and when it hears nothing for 20 s, so that
it is asked for the time now and then.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import queue
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from naslab.errors import TargetError, UsageError
from naslab.execution.clients.engines import Reply, Target
from naslab.execution.clients.link import MakeRun, raised
from naslab.execution.waits import LAST_CALL_NS

WORD_S = 5.0
"""From one sign of life to the next."""
Event = tuple[str, str, list[bytes]]


class Lines(Protocol):
    """Standard output of the program."""

    async def readline(self) -> bytes:
        """One line; empty at the end."""
        ...


class FarEngine:
    """A `NodeEngine` over standard input and output. send: writes a line to it; all in the loop that makes this."""

    def __init__(self, send: Callable[[bytes], None], lines: Lines) -> None:
        self._send, self._lines = send, lines
        self.loop = asyncio.get_running_loop()
        self.events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._gone = ""
        self._tasks = [asyncio.ensure_future(work()) for work in (self._read, self._keep_awake)]

    async def ask(self, what: str, **given: Any) -> Reply:
        """The answer to a call. Raises NaslabError as the engine of this process does."""
        number = next(self._numbers)
        self._waiting[number] = future = self.loop.create_future()
        try:
            if self._gone:
                raise TargetError(self._gone, "disconnected")
            self._send(_line(number, what, given))
            reply = await future
        finally:
            self._waiting.pop(number, None)
        if "error" in reply:
            raise raised(reply["error"])
        return dict(reply["reply"])

    def call(self, what: str, **given: Any) -> Reply:
        """As `ask`, from any other thread."""
        return asyncio.run_coroutine_threadsafe(self.ask(what, **given), self.loop).result()

    def tell(self, what: str, **given: Any) -> None:
        """As `call`; nobody waits for the answer."""
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it the program
            self.loop.call_soon_threadsafe(lambda: self._send(_line(0, what, given)))

    async def _read(self) -> None:
        why = "the agent ended"
        try:
            while line := await self._lines.readline():
                self._take(json.loads(line))
        except (OSError, ValueError) as error:
            why = f"the agent's answer cannot be read: {error}"
        finally:
            self._gone = why
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(TargetError(why, "disconnected"))

    def _take(self, line: dict[str, Any]) -> None:
        if "event" in line:
            blobs = [base64.b64decode(blob) for blob in line.get("blobs", ())]
            self.events.put((line["event"], json.dumps(line["data"]), blobs))
        else:
            future = self._waiting.get(line["id"])
            if future is not None and not future.done():
                future.set_result(line)

    async def _keep_awake(self) -> None:
        with contextlib.suppress(TargetError):
            while True:
                await asyncio.sleep(WORD_S)
                await self.ask("clock")

    async def close(self) -> None:
        """No more is read or asked. The program ends with its standard input."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def clock(self) -> Reply:
        """See `NodeEngine`; as all below."""
        return await self.ask("clock")

    def describe(self) -> Reply:
        return self.call("describe")

    def probe(self, target: Target, depth: int) -> Reply:
        return dict(self.call("probe", target=target, depth=depth)["probe"])

    def mark(self, target: Target, folder: str, mark: str) -> None:
        self.call("mark", target=target, folder=folder, mark=mark)

    def sees(self, target: Target, folder: str, name: str) -> bool:
        return bool(self.call("sees", target=target, folder=folder, name=name)["sees"])

    def unmark(self, target: Target, folder: str, in_doubt: bool) -> list[str]:
        options = target["options"]
        if in_doubt and "timeout_ns" in options:
            target = {**target, "options": {**options, "timeout_ns": min(LAST_CALL_NS, options["timeout_ns"])}}
        return list(self.call("unmark", target=target, folder=folder)["left"])

    def open(self, spec: dict[str, Any], mark: str, depth: int, job: MakeRun | None) -> FarRun:
        if job is not None:
            raise UsageError("its naslab-agent carries out no jobs: install naslab there, or leave --agent out")
        self.call("open", spec=spec, mark=mark, depth=depth)
        return FarRun(self)

    def keep(self, script: bytes) -> str:
        return str(self.call("script", data=base64.b64encode(script).decode("ascii"))["path"])

    def forget(self) -> None:
        """The program removes it at its end."""


def _line(number: int, what: str, given: Mapping[str, Any]) -> bytes:
    """A request, as it crosses."""
    return json.dumps({"id": number, "ask": what, **given}).encode() + b"\n"


class FarRun:
    """A `NodeRun` there."""

    def __init__(self, engine: FarEngine) -> None:
        self._engine = engine

    def stage(self, cells_json: str, on_event: Callable[[str, str, list[bytes]], Any]) -> str:
        """As `_engine.Run.stage`."""
        engine = self._engine
        events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        engine.events = events
        done = asyncio.run_coroutine_threadsafe(engine.ask("stage", cells=json.loads(cells_json)), engine.loop)
        done.add_done_callback(lambda _: events.put(None))
        stopped: BaseException | None = None
        while (event := events.get()) is not None:
            if stopped is not None and event[0] != "cell":
                continue
            try:
                answer = on_event(*event)
                if event[0] == "together":
                    engine.tell("go", at_ns=answer)
            except BaseException as error:
                stopped = error
                self.interrupt()
        if stopped is not None:
            raise stopped
        return json.dumps(done.result())

    def interrupt(self) -> None:
        """Ends the stage under way."""
        self._engine.tell("interrupt")

    def finish(self) -> str:
        """Removes what the run made; what is left, as JSON."""
        return json.dumps(self._engine.call("finish")["left"])
