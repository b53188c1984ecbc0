"""Clients on other hosts, begun over ssh: a Dask cluster as its SSHCluster makes one, the scheduler in this process.

A certificate is made for each run and placed on every host, readable by its user alone; both ends show it and trust no
other. Remote processes read their standard input and end with it (naslab.execution.clients.remote).
"""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

from distributed.deploy.spec import ProcessInterface

from naslab.errors import UsageError
from naslab.execution.clients import remote
from naslab.execution.clients.agent_host import AgentHost
from naslab.execution.clients.connection import connect, failures, run, why
from naslab.execution.clients.local import LocalClient
from naslab.execution.clients.nodes import own_address
from naslab.execution.clients.remote import PEM, READY
from naslab.execution.clients.settings import Host, Ssh, Wanted, spec_cluster

READY_S = 60.0
"""Seconds that a client's process may take to be ready."""


class NoNaslabError(OSError):
    """The host has no Python with naslab."""


class RemoteClient(ProcessInterface):
    """A client's process on another host."""

    def __init__(self, scheduler: str, host: Host, ssh: Ssh, pem: str, name: int, **_: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scheduler, self.host, self.ssh, self.pem, self.name = scheduler, host, ssh, pem, name
        self._connection: Any = None
        self._process: Any = None

    async def start(self) -> None:
        """Places the certificate and begins the process. Raises OSError naming the host, NoNaslabError."""
        try:
            self._connection = await connect(self.host, self.ssh)
            folder = await run(self._connection, "umask 077; mktemp -d")
            await run(self._connection, f"umask 077; cat > {shlex.quote(folder)}/{PEM}", self.pem.encode())
            words = ["-m", remote.__name__, self.scheduler, "--folder", folder, "--name", str(self.name)]
            command = f"exec {shlex.quote(self.ssh.python)} {shlex.join(words)}"
            self._process = await self._connection.create_process(command)
            await asyncio.wait_for(self._ready(), READY_S)
        except NoNaslabError:
            await run(self._connection, f"rm -rf {shlex.quote(folder)}")  # nothing there does
            raise
        except failures() as error:
            raise OSError(f"{self.host.name}: {why(error)}") from error
        await super().start()  # type: ignore[no-untyped-call]

    async def _ready(self) -> None:
        told: list[str] = []
        while line := await self._process.stderr.readline():
            if READY in line:
                return
            told.append(line.strip())
        text = " ".join(told[-3:])
        if "No module named" in text and "naslab" in text:
            raise NoNaslabError(
                f"{self.ssh.python} there has no naslab; install it ('naslab[cluster]'), or name its Python with "
                "--remote-python"
            )
        if any(words in text for words in ("not found", "No such file")):
            raise NoNaslabError(text)
        raise OSError(text or f"{self.ssh.python} ended without a message")

    async def close(self) -> None:
        """Closes its standard input, upon which it ends, and the connection."""
        if self._process is not None:
            self._process.stdin.write_eof()
            try:
                await asyncio.wait_for(self._process.wait(), READY_S)
            except TimeoutError:
                self._process.kill()
        if self._connection is not None:
            self._connection.close()
        await super().close()  # type: ignore[no-untyped-call]


class HostClient(ProcessInterface):
    """A client on another host: naslab there, or its agent: without naslab, with --agent, and with --remote-shell."""

    def __init__(self, scheduler: str, **given: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._given = {"scheduler": scheduler, **given}
        self._client: Any = None  # whose types Dask leaves out

    async def start(self) -> None:
        """Begins it. Raises OSError naming the host."""
        reason = ""
        if self._given["ssh"].agent is None and not self._given["ssh"].shell:
            self._client = RemoteClient(**self._given)
            try:
                await self._client.start()
            except NoNaslabError as error:
                await self._client.close()
                reason = str(error)
        if self._client is None or reason:
            self._client = LocalClient(**self._given, where=AgentHost(self._given["host"], self._given["ssh"], reason))
            await self._client.start()
        await super().start()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Ends it."""
        if self._client is not None:
            await self._client.close()
        await super().close()  # type: ignore[no-untyped-call]


def over_ssh(distributed: Any, wanted: Wanted) -> tuple[Any, Any]:
    """The cluster, not yet begun, and the security of its connections."""
    security = distributed.Security.temporary()
    pem = security.tls_scheduler_key + security.tls_scheduler_cert
    options = {"ssh": wanted.ssh, "pem": pem}
    workers = {
        index: {"cls": HostClient, "options": {**options, "host": host, "name": index}}
        for index, host in enumerate(wanted.hosts)
    }
    here = "127.0.0.1" if wanted.ssh.shell else _towards(wanted.hosts[0])  # the agents' clients are on this machine
    return spec_cluster(distributed, workers, here, security), security


def _towards(host: Host) -> str:
    """This machine's address on the way to a host: the scheduler listens there."""
    try:
        return own_address(host.name, host.port or 22)
    except UsageError as error:
        raise UsageError(f"--hosts {error}") from error
