"""A client on another host, begun over ssh.

`python -m naslab.execution.clients.remote SCHEDULER --folder DIR --name N`

It joins the scheduler of the run with the certificate in DIR, and ends with its connection: when standard input closes,
because the run's own process is gone or its machine is, the load stops, what it made is removed, and the process ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable

from naslab.execution.clients import agent
from naslab.execution.clients.agent_host import AgentHost, agent_on
from naslab.execution.clients.settings import CONFIG, security_of, silence

PEM = "naslab.pem"
"""Key and certificate of the run, in DIR; both ends show it."""
READY = "naslab client ready"
LEAVE_S = 15.0
"""Clean-up may take so long once the connection is gone."""


def main() -> int:
    """Until standard input ends."""
    parser = argparse.ArgumentParser(
        prog="naslab.execution.clients.remote", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("scheduler")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--name", required=True)
    options = parser.parse_args()
    try:
        asyncio.run(serve(options.scheduler, os.path.join(options.folder, PEM), options.name, 0, _tell))
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
    return 0


def _tell() -> None:
    print(READY, file=sys.stderr, flush=True)


async def serve(
    scheduler: str, pem: str, name: str, line: int, ready: Callable[[], None], where: AgentHost | None = None
) -> None:
    """A client of the scheduler until the scheduler is gone, or the file descriptor `line` ends.

    pem: key and certificate, or the path of a file with both. ready: called once calls can come. where: the host whose
    naslab-agent it speaks for. Raises OSError where that cannot be begun.
    """
    async with contextlib.AsyncExitStack() as stack:
        if where is not None:
            engine = await stack.enter_async_context(agent_on(where))
            agent.Agent.make_engine = lambda: engine
        await _serve(scheduler, pem, name, line, ready)


async def _serve(scheduler: str, pem: str, name: str, line: int, ready: Callable[[], None]) -> None:
    import dask

    from naslab.execution.clients.nodes import Worker

    silence()
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=_wait_for_the_end, args=(loop, gone, line), daemon=True).start()
    with dask.config.set(CONFIG):
        security = security_of(pem)
        worker = Worker(
            scheduler, host=_towards(scheduler), name=name, nthreads=1, memory_limit=0, dashboard=False,
            security=security, death_timeout=30,
        )  # fmt: skip
        async with worker:
            ready()
            finished = asyncio.ensure_future(worker.finished())
            await asyncio.wait([finished, asyncio.ensure_future(gone.wait())], return_when=asyncio.FIRST_COMPLETED)
            await _leave()


def _towards(scheduler: str) -> str:
    """Where a client listens: on the way to its scheduler, `tls://host:port`, and nowhere else."""
    from naslab.execution.clients.nodes import own_address

    host, _, port = scheduler.partition("://")[2].rpartition(":")
    return own_address(host.strip("[]"), int(port))


async def _leave() -> None:
    """No load goes on, and nothing stays behind."""
    with contextlib.suppress(Exception):
        await asyncio.wait_for(agent.close_all(), LEAVE_S)


def _wait_for_the_end(loop: asyncio.AbstractEventLoop, gone: asyncio.Event, line: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(line, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop has ended before the line
        loop.call_soon_threadsafe(gone.set)
    # Whatever hangs, this process does not outlive its connection for long.
    threading.Timer(2 * LEAVE_S, os._exit, (1,)).start()


if __name__ == "__main__":
    sys.exit(main())
