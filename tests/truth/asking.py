"""Asks the command: `naslab run TARGET --json` as anybody does, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUDGET = "5m"
TOGETHER = 2
"""Commands at once."""
TIMEOUT_S = 900


@dataclass(frozen=True)
class Answer:
    """What the command said of one system. document: None where it failed, and then `error` tells."""

    document: Mapping[str, Any] | None
    error: str
    cpu_s: float
    wall_s: float


def run_command(target: str, budget: str, store: Path, more: Sequence[str] = (), package: Path | None = None) -> Answer:
    """`naslab run TARGET --json`, and the processor time that it took. package: of another naslab than this one."""
    words = [sys.executable, "-m", "naslab", "run", target, "--budget", budget, "--json", "--quiet",
             "--store", str(store), *more]  # fmt: skip
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(words, stdout=out, stderr=err, env=_environment(package))
        deadline = begun + TIMEOUT_S
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                child.kill()
            time.sleep(0.02)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text, words_said = out.read(), err.read().strip()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{store}{suffix}").unlink(missing_ok=True)
    wall_s, cpu_s = time.monotonic() - begun, usage.ru_utime + usage.ru_stime
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        return Answer(None, f"exit {child.returncode}: {_last(words_said)}", cpu_s, wall_s)
    return Answer(document, "" if child.returncode == 0 else f"exit {child.returncode}", cpu_s, wall_s)


def _last(said: str) -> str:
    """The last line of what a command said; of a traceback also where it ended."""
    lines = said.splitlines() or ["no document"]
    places = [line.strip() for line in lines if line.lstrip().startswith('File "')]
    return " ".join([lines[-1], *places[-3:]])


def _environment(package: Path | None) -> dict[str, str]:
    found = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    return {**found, "PYTHONPATH": str(package)} if package else found


def toml_of(options: Mapping[str, Any]) -> str:
    """A simulated server's file."""
    plain = [f"{key} = {json.dumps(value)}" for key, value in options.items() if not isinstance(value, list)]
    tables = []
    for key, value in options.items():
        if isinstance(value, list):
            for entry in value:
                tables += [f"[[{key}]]", *(f"{name} = {json.dumps(each)}" for name, each in entry.items())]
    return "\n".join([*plain, *tables, ""])
