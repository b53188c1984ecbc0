"""A server that others wrote, tried in a namespace of its own; and the page of what came of all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from interop.inside import TRIED, Outcome
from interop.known import KNOWN
from interop.servers import SERVERS, Foreign, MissingError

INSIDE = Path(__file__).with_name("inside.py")
WHOLE_S = 900
_FAILS = "**fails**"
_HEAD = """# Servers that others wrote

naslab against file servers that share no code with it, each from its package, and against Samba in configurations that
its lab does not have, each in a network of its own. Written by
`tools/interop`; `make test-lab PART=interop` tries them all. *doctor* checks what the server allows; *sweep* reads and
writes with three workers and verifies every byte; *tree*, *job* (copies and archives, verified), *apps* (the twelve
applications at a hundredth of their size) and *replay* are the commands of these names; *restart* kills the server
under a load: the run ends and reports it, and `naslab clean` removes what was left from the new server.
"""


def tried(server: Foreign, folder: Path) -> dict[str, Outcome]:
    """By what was tried. Raises MissingError where the server cannot be had, RuntimeError where it does not start."""
    if os.geteuid() != 0:
        raise MissingError("a network of its own needs root")
    server.command(folder / "data")  # built here: inside there is no network
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable,
             str(INSIDE), server.name, str(folder)]  # fmt: skip
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WHOLE_S, check=False)
    path = folder / "outcome.json"
    if done.returncode or not path.exists():
        raise RuntimeError(f"{server.name}: {done.stderr.strip()[-800:]}")
    return dict(json.loads(path.read_text()))


def wrong(name: str, found: Mapping[str, Outcome]) -> list[str]:
    """What came otherwise than it must: a failure that is no known fault of the server, or a fault not reported."""
    said = []
    for what in TRIED:
        outcome, fault = found[what], KNOWN.get((name, what))
        if fault is None and outcome["code"]:
            said.append(f"{what}: exit {outcome['code']}: {outcome['said']}")
        if fault is not None and not (outcome["code"] in (1, 2) and re.search(fault.said, outcome["said"])):
            said.append(f"{what}: exit {outcome['code']}, {outcome['said']!r}, instead of the fault: {fault.why}")
    most = next(server.room_bytes for server in SERVERS if server.name == name)
    free = found["doctor"].get("free_bytes", 0)
    return [*said, *([f"doctor: {free} bytes are free, where the quota leaves {most}"] if free > most > 0 else [])]


def kept(text: str) -> dict[str, dict[str, Outcome]]:
    """What the page says of each server."""
    rows = {cells[0].strip("| "): cells[1:] for cells in (line.split(" | ") for line in text.splitlines())}
    return {
        server.name: {
            what: {"code": int(_FAILS in cell), "said": ""} for what, cell in zip(TRIED, rows[server.what], strict=True)
        }
        for server in SERVERS
        if server.what in rows
    }


def page(outcomes: Mapping[str, Mapping[str, Outcome]]) -> str:
    """The text of docs/reference/interop.md. outcomes: by server."""
    rows = ["| server | " + " | ".join(TRIED) + " |", "|---" * (len(TRIED) + 1) + "|"]
    notes: dict[str, int] = {}
    for server in SERVERS:
        if server.name not in outcomes:
            continue
        cells = []
        for what in TRIED:
            fault = KNOWN.get((server.name, what))
            mark = f"fault {notes.setdefault(fault.why, len(notes) + 1)}" if fault else "ok"
            cells.append(mark if fault or not outcomes[server.name][what]["code"] else _FAILS)
        rows.append(f"| {server.what} | " + " | ".join(cells) + " |")
    faults = [f"{number}. {why}. naslab reports it." for why, number in notes.items()]
    parts = [_HEAD, *rows, *(["", "Faults and limits of the servers:", "", *faults] if faults else [])]
    return "\n".join(parts) + "\n"
