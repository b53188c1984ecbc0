"""One connection to a client's host: ssh, or a command that replaces it."""

from __future__ import annotations

import asyncio
from typing import Any

from naslab.execution.clients.remote_shell import RemoteShell
from naslab.execution.clients.settings import Host, Ssh

CONNECT_S = 20.0
"""Seconds that a host may take to answer."""


def failures(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """What calls on a connection raise, and more, for `why`."""
    import asyncssh  # an extra, and only with --hosts

    return OSError, TimeoutError, asyncssh.Error, *more


async def connect(host: Host, ssh: Ssh) -> Any:
    """A connection of asyncssh, or what stands for it. Raises OSError, TimeoutError, asyncssh.Error."""
    if ssh.shell:
        return RemoteShell(ssh.shell, host.name)
    import asyncssh

    found = {
        "username": host.user or ssh.user,
        "port": host.port or ssh.port,
        "client_keys": [str(ssh.key)] if ssh.key else None,
    }
    given = {name: value for name, value in found.items() if value is not None}  # the rest is ssh's own business
    return await asyncio.wait_for(asyncssh.connect(host.name, **given), CONNECT_S)


async def run(connection: Any, command: str, data: bytes | None = None) -> str:
    """What a command on the host prints. Raises OSError with what it complained of."""
    done = await connection.run(command, input=data, check=False, encoding=None)
    if done.exit_status != 0:
        said = bytes(done.stderr or b"").decode(errors="replace").strip()
        raise OSError(f"{command.split(maxsplit=1)[0]} failed: {said}")
    return bytes(done.stdout or b"").decode(errors="replace").strip()


def why(error: BaseException) -> str:
    """In a sentence that names the host."""
    return "no answer" if isinstance(error, TimeoutError) else str(error)
