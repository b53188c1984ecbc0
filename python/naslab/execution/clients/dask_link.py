"""Dask carries the messages: `Client.run` on one worker of each host, outside of Dask's task scheduling, so that
nothing is queued, moved to another worker or tried twice."""

from __future__ import annotations

from typing import Any

import distributed

from naslab.execution.clients.agent import dispatch


class DaskLink:
    """A link over a Dask cluster. client: asynchronous, of the loop that calls."""

    def __init__(self, client: distributed.Client) -> None:
        self.client = client

    async def call(self, address: str, key: str, index: int, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The agent's reply. Raises OSError when its process cannot be reached."""
        replies = await self.client.run(dispatch, key, index, method, arguments, workers=[address], on_error="return")
        reply = replies.get(address)
        if isinstance(reply, BaseException):
            raise reply if isinstance(reply, OSError) else OSError(f"{type(reply).__name__}: {reply}")
        if reply is None:
            raise OSError("the scheduler has lost it")
        return dict(reply)
