"""Whole commands through a relay that breaks answers at random moments in random ways: no hang, no traceback.

Half of the sessions go through one that breaks the connection, half through one that knows messages and changes up to
three of them. `NASLAB_HOSTILE_SESSIONS=N` makes so many sessions; `NASLAB_HOSTILE_SEED` others.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cli_tools import Cli, Done
from faults import MODES, relay
from frames import Mutations, frames
from naslab import lab
from spoken import words_through

SESSIONS = int(os.environ.get("NASLAB_HOSTILE_SESSIONS", "14"))
SEED = int(os.environ.get("NASLAB_HOSTILE_SEED", "21"))
HUNG_S = 300
"""No command takes so long, however busy the machine: each waits a second for an answer, and tries a few things."""
COMMANDS = (
    ("tree", "--files", "100", "--depth-of-tree", "1", "--fan-out", "2"),
    ("sweep", "--file-size", "1m", "--record", "4k,64k"),
    ("sustained", "--size", "4m", "--duration", "2s"),
    ("job", "copy-in,copy-out", "--corpus", "sources", "--scale", "0.01"),
    ("doctor",),
    ("clean",),
)
QUERIES = {
    "samba": ("dialect=2.1", "dialect=3.0&sign=off", "dialect=3.1.1"),
    "demo": ("version=3",),
    "ganesha": ("version=4.0", "version=4.1"),
}


@contextmanager
def broken(server: lab.Server, protocol: str, rng: random.Random) -> Iterator[tuple[Any, str]]:
    """A relay that will break something, and what."""
    if rng.random() < 0.5:
        mutations = Mutations(rng)
        with frames(server.port, protocol, mutations) as found:
            yield found, "mutated answers"
        return
    mode = rng.choice(MODES)
    with relay(server.port) as way:
        way.break_after(rng.choice((0, 300, 1_000, 5_000, 20_000, 100_000)) + rng.randrange(300), mode)
        yield way, mode


@pytest.mark.timeout(600 + 60 * SESSIONS)
def test_sessions_through_a_relay(servers: dict[str, lab.Server], cli: Cli) -> None:
    failures: list[str] = []
    for number in range(SESSIONS):
        rng = random.Random(f"{SEED} {number}")
        system = rng.choice(list(QUERIES))
        server, query, (name, *words) = servers[system], rng.choice(QUERIES[system]), COMMANDS[number % len(COMMANDS)]
        with broken(server, "smb" if system == "samba" else "nfs", rng) as (way, how):
            target, *known = words_through(server, query, way.port)
            loud = [] if name in ("doctor", "clean") else ["--quiet"]
            told = f"session {number}, seed {SEED}: {name} over {system}, {query}, {how}"
            try:
                done = cli(name, target, *words, *known, *loud, "--timeout", "1s", timeout=HUNG_S)
            except subprocess.TimeoutExpired:
                failures.append(f"{told} goes on for ever")
                continue
        print(f"{told}: exit {done.code}", flush=True)
        if wrong := wrong_with(done, name, cli):
            failures.append(f"{told}: exit {done.code}: {wrong}\n{done.out}\n{done.err}")
            print(failures[-1], flush=True)
    assert not failures, f"{len(failures)} of {SESSIONS}:\n" + "\n".join(failures)


def wrong_with(done: Done, name: str, cli: Cli) -> str:
    """Single bits of data may change unseen, as on any wire without signatures; all else is a failure that is told."""
    if any(sign in text for sign in ("Traceback", "panicked") for text in (done.out, done.err)):
        return "a crash"
    if done.code not in (0, 1, 2):
        return "no exit code of naslab"
    if done.code == 0 and name not in ("doctor", "clean") and cli.runs()[0]["status"] != "complete":
        return "success without a whole run"
    # `clean` reports on standard output what it could not remove, folder by folder.
    reported = done.err.startswith("naslab: ") or (name == "clean" and "kept naslab-" in done.out)
    return "" if done.code == 0 or name == "doctor" or reported else "nothing says why"
