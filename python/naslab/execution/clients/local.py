"""Clients on this machine: processes of a fork server, each with a Dask worker that joins the run's own scheduler.

A socket leads to each: it says when it is ready, and ends when the socket does, because the run's own process is gone.
Others on this machine cannot join: both ends show a certificate that was made for this run.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

from distributed.deploy.spec import ProcessInterface

from naslab.execution.clients import remote
from naslab.execution.clients.agent_host import COPY_S, AgentHost
from naslab.execution.clients.settings import spec_cluster

PRELOADED = [
    "distributed",
    "tornado.platform.asyncio",
    "naslab.execution.clients.remote",
    "naslab.execution.clients.run",
    "naslab.client.environment",
    "naslab.execution.clients.warm",
]
"""What the fork server imports once for all clients."""
READY_S = 60.0
END_S = 20.0


def fork_server() -> None:
    """Begins the fork server; to be called in the main thread. Its children do not hear Ctrl-C, which a terminal sends
    to them too: the run's own process tells them to stop."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        forkserver.ensure_running()
        signal.signal(signal.SIGINT, before)
    except ValueError:  # not the main thread: the caller owns the signals
        forkserver.ensure_running()


class LocalClient(ProcessInterface):
    """A client's process on this machine. where: the host whose naslab-agent it speaks for."""

    def __init__(self, scheduler: str, pem: str, name: int, where: AgentHost | None = None, **_: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        context = multiprocessing.get_context("forkserver")
        self._ready_s = READY_S if where is None else READY_S + COPY_S
        self._line, self._theirs = context.Pipe()
        self._process = context.Process(
            target=_be_client, args=(scheduler, pem, name, self._theirs, where), daemon=True
        )

    async def start(self) -> None:
        """Begins the process and waits until it is ready. Raises OSError with what it said."""
        self._process.start()
        self._theirs.close()
        ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._line.fileno(), ready.set)
        try:
            await asyncio.wait_for(ready.wait(), self._ready_s)
            said = self._line.recv_bytes().decode()
        except (TimeoutError, EOFError) as error:
            raise OSError("a client's process did not start") from error
        finally:
            loop.remove_reader(self._line.fileno())
        if said != remote.READY:
            raise OSError(said)
        await super().start()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Closes the socket, upon which the process ends."""
        self._line.close()
        if self._process.pid is not None:
            await asyncio.to_thread(self._process.join, END_S)
            if self._process.is_alive():
                self._process.kill()
        await super().close()  # type: ignore[no-untyped-call]


def _be_client(scheduler: str, pem: str, name: int, line: Connection, where: AgentHost | None) -> None:
    """In the client's process."""
    try:
        asyncio.run(
            remote.serve(
                scheduler, pem, str(name), line.fileno(), lambda: line.send_bytes(remote.READY.encode()), where
            )
        )
    except Exception as error:
        line.send_bytes((str(error) if where is not None else f"{type(error).__name__}: {error}").encode())


def on_this_machine(distributed: Any, clients: int) -> tuple[Any, Any]:
    """The cluster, not yet begun, and the security of its connections."""
    security = distributed.Security.temporary()
    options = {"pem": security.tls_scheduler_key + security.tls_scheduler_cert}
    workers = {index: {"cls": LocalClient, "options": {**options, "name": index}} for index in range(clients)}
    return spec_cluster(distributed, workers, "127.0.0.1", security), security
