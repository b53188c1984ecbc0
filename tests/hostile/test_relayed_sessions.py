"""Whole commands through a relay that breaks answers at random moments in random ways: no hang, no traceback.

Half of the sessions go through one that breaks the connection, half through one that knows messages and changes up to
three of them. `NASLAB_HOSTILE_SESSIONS=N` makes so many sessions; `NASLAB_HOSTILE_SEED` others.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from cli_tools import Cli, Done, need
from faults import MODES, relay
from frames import Mutations, frames
from naslab import lab
from naslab.lab import systems

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


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, lab.Server]]:
    missing = {package for name in QUERIES for package in systems.missing_packages(systems.system(name))}
    need(not missing, " ".join(sorted(missing)))
    with ExitStack() as stack:
        yield {name: stack.enter_context(lab.running(name)) for name in QUERIES}


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
    for number in range(SESSIONS):
        rng = random.Random(f"{SEED} {number}")
        system = rng.choice(list(QUERIES))
        server, query, (name, *words) = servers[system], rng.choice(QUERIES[system]), COMMANDS[number % len(COMMANDS)]
        with broken(server, "smb" if system == "samba" else "nfs", rng) as (way, how):
            base = server.url.partition("?")[0].replace(f":{server.port}", f":{way.port}", 1)
            mount = f"&mountport={way.port}" if system == "demo" else ""
            known = ["--credentials", server.credentials] if server.credentials else []
            loud = [] if name in ("doctor", "clean") else ["--quiet"]
            told = f"session {number}, seed {SEED}: {name} over {system}, {query}, {how}"
            try:
                done = cli(
                    name, f"{base}?{query}{mount}", *words, *known, *loud, "--timeout", "1s", timeout=HUNG_S
                ).sound()
            except subprocess.TimeoutExpired:
                pytest.fail(f"{told} goes on for ever")
        print(f"{told}: exit {done.code}", flush=True)
        check(done, name, cli, told)


def check(done: Done, name: str, cli: Cli, told: str) -> None:
    """Single bits of data may change unseen, as on any wire without signatures; all else is a failure that is told."""
    told = f"{told}: exit {done.code}\n{done.err}"
    assert done.code in (0, 1, 2), told
    if done.code == 0 and name not in ("doctor", "clean"):
        assert cli.runs()[0]["status"] == "complete", told
    elif done.code and name != "doctor":
        assert done.err.startswith("naslab: "), told
