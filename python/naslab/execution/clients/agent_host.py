"""naslab-agent on a host: copied there over ssh or what replaces it, begun, and gone from its disk at once.

Its connection is held by a client's process on this machine, which speaks for it to the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab import __version__
from naslab.errors import UsageError
from naslab.execution.clients.connection import connect, failures, run, why
from naslab.execution.clients.far import FarEngine
from naslab.execution.clients.settings import Host, Ssh

COPY_S = 120.0
"""Seconds that copying and starting it may take."""
_NAME = "naslab-agent"
_FOLDERS = (Path(sys.prefix, "lib", "naslab"), Path("/usr/lib/naslab"), Path("~/.local/share/naslab"))
"""Where agents for other machines lie, where --agent names none."""
_PLACE = """umask 077
for base in "${TMPDIR:-/tmp}" "$HOME" /var/tmp /dev/shm; do
  folder=$(mktemp -d "$base/naslab-agent.XXXXXX" 2>/dev/null) || continue
  echo '#!/bin/sh' > "$folder/try" && chmod 700 "$folder/try" && "$folder/try" 2>/dev/null && echo "$folder" && exit 0
  rm -rf "$folder"
done
echo 'no folder where programs may be started' >&2
exit 1"""
"""A private folder on a file system that allows programs, which /tmp often does not."""


@dataclass(frozen=True)
class AgentHost:
    """Where the agent is to run. why: what keeps naslab itself from it."""

    host: Host
    ssh: Ssh
    why: str = ""


def agent_file(given: Path | None, system: str, machine: str) -> Path:
    """The agent for such a host, as `uname` names it: `given`, or the one for it in the folder `given`, or one that was
    installed with naslab. Raises UsageError."""
    if system != "Linux":
        raise UsageError(f"there is no naslab-agent for {system} hosts: install naslab there")
    name = f"{_NAME}-{__version__}-{machine}-linux"
    if given is not None:
        found = given / name if given.is_dir() else given
        if not found.is_file():
            raise UsageError(f"--agent {found}: no such file; tools/agent makes {name}")
        return found
    for folder in _FOLDERS:
        if (found := folder.expanduser() / name).is_file():
            return found
    own = shutil.which(_NAME) if (system, machine) == (platform.system(), platform.machine()) else None
    if own is None:
        raise UsageError(f"{name} is not on this machine: name it with --agent FILE (tools/agent makes it)")
    return Path(own)


@contextlib.asynccontextmanager
async def agent_on(where: AgentHost) -> Any:
    """The engine there, for as long as the context lasts. Raises OSError naming the host, UsageError."""
    name = where.host.name
    try:
        connection = await connect(where.host, where.ssh)
    except failures() as error:
        raise OSError(f"{name}: {why(error)}") from error
    async with connection:
        try:
            engine = await asyncio.wait_for(_begin(connection, where.ssh), COPY_S)
        except failures(UsageError) as error:
            raise OSError(f"{name}: {where.why}; {why(error)}" if where.why else f"{name}: {why(error)}") from error
        try:
            yield engine
        finally:
            await engine.close()


async def _begin(connection: Any, ssh: Ssh) -> FarEngine:
    system, machine = (await run(connection, "uname -sm")).split(maxsplit=1)
    program = agent_file(ssh.agent, system, machine).read_bytes()
    folder = shlex.quote(await run(connection, _PLACE))
    try:
        await run(connection, f"cat > {folder}/{_NAME} && chmod 700 {folder}/{_NAME}", program)
        said = await run(connection, f"{folder}/{_NAME} --version")
        if said != f"{_NAME} {__version__}":
            other = said if said.startswith(_NAME) and "\n" not in said else "another program"
            raise UsageError(f"--agent: that is {other}, not {_NAME} {__version__}; tools/agent makes it")
        process = await connection.create_process(f"exec {folder}/{_NAME} serve", encoding=None)
        engine = FarEngine(process.stdin.write, process.stdout)
        await engine.ask("clock")
        return engine
    finally:
        await run(connection, f"rm -rf {folder}")
