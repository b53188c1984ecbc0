"""Dask carries the messages: `Client.run` on one worker of each host, outside of Dask's task scheduling, so that
nothing is queued, moved to another worker or tried twice."""

from __future__ import annotations

import asyncio
from typing import Any

import distributed

from naslab.execution.clients.agent import dispatch

LOOK_S = 2.0
"""Seconds until a call without an answer asks the scheduler whether the worker is still there: one that died between
two calls is not noticed by the call, which goes on connecting for half a minute."""


class DaskLink:
    """A link over a Dask cluster. client: asynchronous, of the loop that calls."""

    def __init__(self, client: distributed.Client) -> None:
        self.client = client

    async def call(self, address: str, key: str, index: int, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The agent's reply. Raises OSError when its process cannot be reached."""
        asked = asyncio.ensure_future(
            self.client.run(dispatch, key, index, method, arguments, workers=[address], on_error="return")
        )
        try:
            while not (await asyncio.wait({asked}, timeout=LOOK_S))[0]:
                await self._still_there(address)
        finally:
            asked.cancel()
        reply = (await asked).get(address)
        if isinstance(reply, BaseException):
            raise reply if isinstance(reply, OSError) else OSError(f"{type(reply).__name__}: {reply}")
        if reply is None:
            raise OSError("the scheduler has lost it")
        return dict(reply)

    async def _still_there(self, address: str) -> None:
        """Raises OSError where the scheduler has no such worker any more."""
        scheduler: Any = self.client.scheduler
        known = await scheduler.identity(n_workers=-1)
        if address not in known["workers"]:
            raise OSError("the scheduler has lost it")
