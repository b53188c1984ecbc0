"""How the run's own process speaks to its clients: calls on agents, each with a limit of its own.

`Link` is the seam to the cluster engine; `dask_link` is the one that uses Dask. Nothing else knows how messages travel.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from naslab.errors import NaslabError, SpaceError, TargetError, UsageError
from naslab.execution.clients.clock import ClientClock, Exchange
from naslab.text.messages import hand_on, sentence

CALL_S = 10.0
"""A client that does not answer for so long is lost."""
EXCHANGES = 16
"""Timestamps exchanged before the first cell; later each look at a client is one more."""


class NodeRun(Protocol):
    """What a client carries out: the engine's run, or what a command put in its place."""

    def stage(self, cells_json: str, on_event: Callable[[str, str, list[bytes]], Any]) -> str:
        """Carries cells out; how that ended, as JSON."""
        ...

    def interrupt(self) -> None:
        """Ends the cell under way, from any thread."""
        ...

    def finish(self) -> str:
        """Removes what it made; what is left, as JSON."""
        ...


MakeRun = Callable[[Mapping[str, Any], str], NodeRun]
"""Of a client's `RunSpec` as JSON has it and the mark of its folder; pickled, so that clients can call it."""


class Link(Protocol):
    """Calls on agents, by the address of their process."""

    async def call(self, address: str, key: str, index: int, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The agent's reply. Raises OSError when its process cannot be reached."""
        ...


class ClientLostError(TargetError):
    """A client went away, or stands still."""


@dataclass
class Client:
    """One client of a run, as the run's own process sees it. lost: why it is given up."""

    index: int
    address: str
    host: str
    link: Link = field(repr=False)
    key: str = ""
    clock: ClientClock = field(default_factory=ClientClock, repr=False)
    about: dict[str, Any] = field(default_factory=dict, repr=False)
    lost: str | None = None

    @property
    def name(self) -> str:
        """For people."""
        return f"client {self.index} ({self.host})"

    def check(self) -> None:
        """Raises ClientLostError once the client is given up."""
        if self.lost:
            raise ClientLostError(f"{self.name} {self.lost}", "disconnected")

    async def call(self, method: str, wait_s: float = CALL_S, **arguments: Any) -> dict[str, Any]:
        """The agent's reply. Raises ClientLostError, and the agent's own error with the client's name."""
        self.check()
        try:
            reply = await asyncio.wait_for(
                self.link.call(self.address, self.key, self.index, method, arguments), wait_s
            )
        except TimeoutError:
            self.lost = f"did not answer for {wait_s:.0f} s"
        except OSError as error:
            self.lost = f"went away: {_short(error)}"
        self.check()
        if reply.get("error"):
            raise raised(reply["error"], self.name)
        return reply

    async def exchange(self) -> None:
        """One more look at the client's clock."""
        sent = time.monotonic_ns()
        reply = await self.call("clock")
        self.clock.add(Exchange(sent, reply["received_ns"], reply["sent_ns"], time.monotonic_ns()))


def _short(error: OSError) -> str:
    """Without the addresses of Dask's connections."""
    return str(error).rpartition(">: ")[2].rstrip(".").lower()


def raised(error: dict[str, Any], who: str = "") -> NaslabError:
    """An agent's error, with the client's name in front."""
    message = f"{who}: {sentence(error['failure'])}" if who else str(error["message"])
    found: NaslabError
    if error["class"] in ("UsageError", "SpecError"):
        found = UsageError(message)
    else:
        kind = SpaceError if error["space"] else TargetError
        found = kind(message, error["kind"], error["status"])
    if not who:
        hand_on(found, error["failure"])
    return found


async def of_all(clients: list[Client], method: str, wait_s: float = CALL_S, **arguments: Any) -> list[dict[str, Any]]:
    """The replies of all clients, in their order. Raises the first client's error after all have answered."""
    done = await asyncio.gather(*(each.call(method, wait_s, **arguments) for each in clients), return_exceptions=True)
    return unwrapped(done)


def unwrapped(done: list[Any]) -> list[dict[str, Any]]:
    """Replies, unless one of them is an exception, which is raised."""
    failed = [each for each in done if isinstance(each, BaseException)]
    if failed:
        # A client's own trouble says more than what it did to the others.
        raise next((each for each in failed if not isinstance(each, ClientLostError)), failed[0])
    return done
