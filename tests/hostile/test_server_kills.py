"""Servers that are killed or stopped at random moments: no command hangs, none succeeds, the store is whole.

`NASLAB_HOSTILE_KILLS=N` kills so often; `NASLAB_HOSTILE_STOPS=N` stops each server so often; `NASLAB_HOSTILE_SEED`
at other moments.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import time

import pytest

from cli_tools import Cli
from naslab import lab
from spoken import SPOKEN

KILLS = int(os.environ.get("NASLAB_HOSTILE_KILLS", "3"))
STOPS = int(os.environ.get("NASLAB_HOSTILE_STOPS", "2"))
SEED = int(os.environ.get("NASLAB_HOSTILE_SEED", "21"))
HUNG_S = 300
"""No command takes so long, however busy the machine."""
COMMANDS = (
    ("sweep", "--file-size", "64k,512k", "--record", "4k,64k", "--repeat", "60"),
    ("tree", "--files", "20000", "--depth-of-tree", "2", "--fan-out", "5"),
    ("sustained", "--size", "16m", "--duration", "20s"),
    ("job", "copy-in,find,copy-out", "--corpus", "sources", "--repeat", "40"),
)


def words_of(server: lab.Server, query: str, command: tuple[str, ...]) -> list[object]:
    url = server.url
    if query.partition("=")[0] + "=" not in url:
        url += ("&" if "?" in url else "?") + query
    known = ["--credentials", server.credentials] if server.credentials else []
    return [command[0], url, *command[1:], *known, "--timeout", "1s", "--quiet"]


def begun(cli: Cli, child: subprocess.Popen[str], stored: int, rng: random.Random) -> None:
    """Waits for a moment in a command's life: mostly after its first cell, and however slow the machine is."""
    if rng.random() < 0.7:
        while child.poll() is None and cli.cells_stored() <= stored:
            time.sleep(0.02)
    time.sleep(rng.uniform(0.1, 1.0))


def is_whole(cli: Cli) -> bool:
    if not cli.store.exists():
        return True
    with contextlib.closing(sqlite3.connect(cli.store)) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)])


@pytest.mark.timeout(600 + 60 * KILLS)
def test_servers_killed_at_any_moment(servers: dict[str, lab.Server], cli: Cli) -> None:
    rng = random.Random(SEED)
    for number in range(KILLS):
        spoken = rng.choice(list(SPOKEN))
        server, command = servers[SPOKEN[spoken][0]], COMMANDS[number % len(COMMANDS)]
        stored = cli.cells_stored()
        child = cli.start(*words_of(server, SPOKEN[spoken][1], command))
        begun(cli, child, stored, rng)
        ended_before = child.poll() is not None
        server.kill()
        _, err = child.communicate(timeout=HUNG_S)
        server.restart()
        told = f"kill {number}, seed {SEED}: {command[0]} over {spoken}: exit {child.returncode}\n{err}"
        assert "Traceback" not in err and "panicked" not in err, told
        assert ended_before or (child.returncode in (1, 2) and err.startswith("naslab: ")), told
        assert is_whole(cli), told
        print(told, flush=True)


@pytest.mark.timeout(600 + 300 * STOPS)
@pytest.mark.parametrize("spoken", SPOKEN)
def test_servers_stopped_at_any_moment(spoken: str, servers: dict[str, lab.Server], cli: Cli) -> None:
    """Every other one goes on within its timeout, and then the command does; the others end it."""
    rng = random.Random(f"{SEED} {spoken}")
    system, query = SPOKEN[spoken]
    server = servers[system]
    for number in range(STOPS):
        command = COMMANDS[number // 2 % len(COMMANDS)]
        stored = cli.cells_stored()
        child = cli.start(*words_of(server, query, command))
        begun(cli, child, stored, rng)
        going = child.poll() is None
        server.freeze()
        try:
            if number % 2:
                time.sleep(0.3)
                server.thaw()
                time.sleep(0.3)
                server.freeze()
            _, err = child.communicate(timeout=HUNG_S)
        finally:
            server.thaw()
        told = f"stop {number}, seed {SEED}: {command[0]} over {spoken}: exit {child.returncode}\n{err}"
        assert "Traceback" not in err and "panicked" not in err, told
        assert not going or (child.returncode in (1, 2) and err.startswith("naslab: ")), told
        assert is_whole(cli), told
        print(told, flush=True)
