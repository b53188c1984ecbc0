"""Calls over a real cluster of Dask on this machine."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from naslab.execution.clients.dask_link import DaskLink
from naslab.execution.clients.launch import started
from naslab.execution.clients.link import CALL_S, Client, ClientLostError
from naslab.execution.clients.local import fork_server
from naslab.execution.clients.settings import Wanted


def test_a_client_that_died_between_two_calls_went_away() -> None:
    """The call itself would go on connecting, and then be said to have had no answer."""

    async def lost() -> str:
        async with started(Wanted(clients=1)) as client:
            ((address, _),) = (await client.scheduler.identity())["workers"].items()
            link = DaskLink(client)
            one = Client(0, address, "here", link, "key")
            about = await one.call("describe")
            os.kill(about["pid"], signal.SIGKILL)
            while (await client.scheduler.identity())["workers"]:
                await asyncio.sleep(0.05)
            with pytest.raises(ClientLostError):
                await one.call("describe", wait_s=3 * CALL_S)
            return str(one.lost)

    fork_server()
    assert asyncio.run(lost()) == "went away: the scheduler has lost it"
