"""The tools that measure: only targets named when the server was started, within its limits, one at a time.

A measurement is a process of its own, `naslab COMMAND TARGET`: what it prints cannot reach the protocol's stream, it
ends by Ctrl-C when the request is cancelled, and passwords reach it as they reach the command line, never as arguments.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from naslab.api.arguments import command_line
from naslab.errors import UsageError
from naslab.units import parse_duration, parse_size

if TYPE_CHECKING:
    from anyio.abc import Process

    from naslab.mcp.reading import Reading

GRACE_S = 60.0
"""Beyond the budget, which starts no further part, before the one under way is ended, too."""
END_S = 120.0
"""From Ctrl-C to the end of a measurement that removes its files; then it is killed."""
Report = Callable[[float, str], Any]


@dataclass(frozen=True)
class Limits:
    """What may be measured. targets: as on the command line, without passwords. budget, max_bytes: of one measurement,
    as written. count: measurements until the server ends."""

    targets: tuple[str, ...]
    budget: str = "5m"
    max_bytes: str = "20g"
    count: int = 10
    credentials: Path | None = None

    def checked(self) -> Limits:
        """Itself. Raises UsageError for a target or a limit that cannot be."""
        from naslab.targets import parse_target

        for name in self.targets:
            if name[:4].lower() != "lab:" and parse_target(name).password is not None:
                raise UsageError(
                    "--target: the name contains a password, which every client would see; use NASLAB_PASSWORD, the "
                    "keyring or --credentials FILE"
                )
        for option, value in (("--budget", self.budget), ("--max-bytes", self.max_bytes)):
            if self._amount(option, value) <= 0:
                raise UsageError(f"{option} {value}: give more than 0")
        return self

    def within(self, budget: str, max_bytes: str) -> tuple[str, str]:
        """What a measurement may take: as asked for, or the limit where nothing was. Raises UsageError beyond it."""
        for option, asked, limit in (("--budget", budget, self.budget), ("--max-bytes", max_bytes, self.max_bytes)):
            if asked and not 0 < self._amount(option, asked) <= self._amount(option, limit):
                name = option.removeprefix("--").replace("-", "_")
                raise UsageError(
                    f"{name}={asked}: this server allows up to {limit}; ask its owner for a larger {option}"
                )
        return budget or self.budget, max_bytes or self.max_bytes

    def budget_s(self, text: str) -> float:
        """Seconds of a budget."""
        return parse_duration(text, "--budget") / 1e9

    def _amount(self, option: str, text: str) -> int:
        return parse_duration(text, option) if option == "--budget" else parse_size(text, option)


@dataclass
class Measuring:
    """The tools, and how many measurements they have made. reading: of the store that results go to."""

    limits: Limits
    reading: Reading
    made: int = 0
    _busy: anyio.Lock = field(default_factory=anyio.Lock)

    async def measure(self, kind: str, target: str, options: Mapping[str, Any], report: Report) -> dict[str, Any]:
        """Carries a command out; its verdict. Raises UsageError for what is not allowed, and for what failed."""
        if target not in self.limits.targets:
            raise UsageError(f"target {target!r}: this server may measure {', '.join(self.limits.targets)}")
        budget, max_bytes = self.limits.within(options.get("budget") or "", options.get("max_bytes") or "")
        given = {**options, "budget": budget, "max_bytes": max_bytes, "credentials": self.limits.credentials,
                 "store": self.reading.path}  # fmt: skip
        words = command_line(kind, target, {name: value for name, value in given.items() if value not in (None, "")})
        if self._busy.locked():
            raise UsageError("a measurement is under way, and two at once would disturb each other; try again later")
        async with self._busy:
            if self.made >= self.limits.count:
                raise UsageError(
                    f"this server has made its {self.limits.count} measurements; its owner may start it again, or with "
                    "a larger --measurements"
                )
            self.made += 1
            run_id, code = await _carried_out(words, self.limits.budget_s(budget) + GRACE_S, report)
        found = await anyio.to_thread.run_sync(self.reading.explain_run, run_id)
        return {**found, "exit_code": code, "measurements_left": self.limits.count - self.made}


async def _carried_out(words: list[str], most_s: float, report: Report) -> tuple[str, int]:
    """(id of the run, exit code) of a command line. Raises UsageError where it made no run, with its own message."""
    reader, writer = os.pipe()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        command = [sys.executable, "-m", "naslab", *words, "--quiet", "--live", f"/dev/fd/{writer}"]
        try:
            process = await anyio.open_process(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(writer,),
                start_new_session=True,
            )
        finally:
            os.close(writer)
        try:
            run_id = ""
            with anyio.move_on_after(most_s):
                async for event in _events(reader):
                    run_id = event.get("run_id") or run_id
                    if told := _told(event):
                        await report(*told)
                await process.wait()
        finally:
            os.close(reader)
            with anyio.CancelScope(shield=True):
                code = await _ended(process)
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if not run_id:
        raise UsageError(
            (said[-1] if said else f"naslab {words[0]} ended with exit code {code}").removeprefix("naslab: ")
        )
    return run_id, code


async def _events(reader: int) -> AsyncIterator[Mapping[str, Any]]:
    """The events of `--live` as they come, until the process ends."""
    left = b""
    while True:
        await anyio.wait_readable(reader)
        if not (data := os.read(reader, 65536)):
            return
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def _told(event: Mapping[str, Any]) -> tuple[float, str] | None:
    """(cells so far, words) of an event worth telling."""
    if event.get("event") == "cell_ended":
        return float(event["cell"]) + 1, f"{event.get('op')}: {event.get('status')}"
    return None


async def _ended(process: Process) -> int:
    """The exit code of a process that has ended, or is told to: by Ctrl-C, which removes its files, and in time."""
    for number, wait_s in ((signal.SIGINT, END_S), (signal.SIGKILL, END_S)):
        if process.returncode is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with anyio.move_on_after(wait_s):
            await process.wait()
    return -1 if process.returncode is None else process.returncode
