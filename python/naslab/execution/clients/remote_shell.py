"""A command that starts programs on hosts instead of ssh: srun in an allocation, kubectl exec, docker exec.

It gets a shell's words as they are, and carries standard input and output; of asyncssh's connection it has what
naslab-agent needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from naslab.errors import UsageError
from naslab.execution.clients.settings import Host, Ssh

HOST = "{host}"
"""Where a host's name goes in the command; at its end where it is not named."""
_LINE_BYTES = 1 << 28
"""Of standard output: a cell's line has its histograms and series."""
_END_S = 15.0
"""Seconds that a program may take to end once its standard input has."""


def words_of(command: str, host: str) -> list[str]:
    """The words before the program's own, for one host. Raises UsageError for what no shell would read."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--remote-shell {command!r}: {error}; write it as for a shell") from error
    if HOST not in command:
        words.append(HOST)
    return [word.replace(HOST, host) for word in words]


def check(ssh: Ssh, hosts: Sequence[Host]) -> None:
    """Raises UsageError where the command does not fit, or a login for ssh stands beside it."""
    command = ssh.shell
    if ssh.user or ssh.port or ssh.key:
        raise UsageError("--ssh-user, --ssh-port and --ssh-key are for ssh: with --remote-shell leave them out")
    program = words_of(command, "")[0]
    if program.rpartition("/")[2] == "ssh":
        raise UsageError(f"--remote-shell {command!r}: --hosts speaks ssh itself; put its options into ~/.ssh/config")
    if shutil.which(program) is None:
        raise UsageError(f"--remote-shell {command!r}: no program {program} on this machine")
    for host in hosts:
        if host.user is not None or host.port is not None:
            raise UsageError(f"--hosts {host.name}: user and port are for ssh; with --remote-shell give names only")


@dataclass
class _Done:
    """What a command left, as asyncssh says it."""

    exit_status: int | None
    stdout: bytes
    stderr: bytes


@dataclass
class RemoteShell:
    """One host. command: as --remote-shell gives it."""

    command: str
    host: str
    _begun: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def run(self, command: str, *, input: bytes | None, **_: Any) -> _Done:
        """A command of the host's shell, to its end. Raises OSError."""
        process = await self._start(command, asyncio.subprocess.PIPE)
        out, err = await process.communicate(b"" if input is None else input)
        return _Done(process.returncode, out, err)

    async def create_process(self, command: str, **_: Any) -> asyncio.subprocess.Process:
        """A command of the host's shell that goes on until its standard input ends. Raises OSError."""
        return await self._start(command, asyncio.subprocess.DEVNULL)

    async def _start(self, command: str, err: int) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *words_of(self.command, self.host), "sh", "-c", command, limit=_LINE_BYTES, start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=err,
        )  # fmt: skip
        self._begun.append(process)
        return process

    async def __aenter__(self) -> RemoteShell:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends what was begun: by closing its standard input, then by force."""
        for process in self._begun:
            if process.returncode is None and process.stdin is not None:
                process.stdin.close()
                await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Waits; a program that stays is asked to end, and killed, with all that it began."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            await asyncio.wait_for(process.wait(), _END_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        else:
            return
    await process.wait()
