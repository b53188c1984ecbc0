"""--remote-shell: where a host's name goes, what crosses, and that nothing begun by it stays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

import pytest

from cli_tools import HANG_S
from naslab.execution.clients import remote_shell
from naslab.execution.clients.connection import connect, run
from naslab.execution.clients.remote_shell import RemoteShell, words_of
from naslab.execution.clients.settings import Host, Ssh


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("srun -w {host}", ["srun", "-w", "a b"]), ("docker exec -i {host}", ["docker", "exec", "-i", "a b"]),
        ("rsh", ["rsh", "a b"]), ("'my shell' --to={host}", ["my shell", "--to=a b"]),
    ],
)  # fmt: skip
def test_the_name_of_the_host_is_one_word_where_it_is_wanted(command: str, words: list[str]) -> None:
    assert words_of(command, "a b") == words


def test_input_output_and_failures_cross() -> None:
    async def carried() -> tuple[str, str]:
        async with await connect(Host("h1"), Ssh(shell="env HOST={host}")) as there:
            said = await run(there, "cat; echo on $HOST", b"given ")
            with pytest.raises(OSError, match=r"^false failed: no disk$"):
                await run(there, "false || { echo no disk >&2; exit 3; }")
            return said, await run(there, "true")

    assert asyncio.run(carried()) == ("given on h1", "")


def living(group: int) -> list[str]:
    """Command lines of a group's processes; one that has ended has none, whether or not somebody asked after it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(path.name)) == group:
                found.append((path / "cmdline").read_text())
    return [*filter(None, found)]


def test_what_does_not_end_with_its_input_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a program that hears no request to end."""
    monkeypatch.setattr(remote_shell, "_END_S", 0.1)

    async def begun() -> list[int | None]:
        async with RemoteShell("env", "HOST=h1") as there:
            for command in ("cat", "exec sleep 600", "trap '' TERM; echo; while :; do sleep 600; done"):
                process = await there.create_process(command)
            assert process.stdout is not None and await process.stdout.readline() == b"\n", "the trap is set"
        until = time.monotonic() + HANG_S
        while any(living(each.pid) for each in there._begun):
            assert time.monotonic() < until, "something is left"
            await asyncio.sleep(0.01)
        return [each.returncode for each in there._begun]

    assert asyncio.run(begun()) == [0, -15, -9]
