"""kill -9 at any moment of any measuring command: the store is whole, and `clean` leaves the target as it was.

`NASLAB_HOSTILE_KILLS=N` kills so often; `NASLAB_HOSTILE_SEED` at other moments.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import time

import pytest

from cli_tools import Cli, populate, snapshot

KILLS = int(os.environ.get("NASLAB_HOSTILE_KILLS", "8"))
SEED = int(os.environ.get("NASLAB_HOSTILE_SEED", "21"))
LATEST_S = 3.0
COMMANDS = (
    ("sweep", "--file-size", "64k,512k", "--record", "4k,64k", "--durability", "each", "--repeat", "60"),
    ("tree", "--files", "20000", "--depth-of-tree", "2", "--fan-out", "5"),
    ("sustained", "--size", "64m", "--duration", "20s", "--write", "100"),
    ("curve", "--size", "32m", "--budget", "20s"),
    ("job", "copy-in,find,copy-out", "--corpus", "sources", "--repeat", "20"),
    ("run", "--budget", "20s"),
)


@pytest.mark.timeout(300 + 30 * KILLS)
def test_kills_at_any_moment(cli: Cli) -> None:
    rng = random.Random(SEED)
    before = populate(cli.target)
    for number in range(KILLS):
        name, *words = COMMANDS[number % len(COMMANDS)]
        child = cli.start(name, cli.target, *words, "--quiet")
        time.sleep(rng.uniform(0.1, LATEST_S))
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=60)
        if cli.store.exists():
            with contextlib.closing(sqlite3.connect(cli.store)) as db:
                assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        cleaned = cli("clean", cli.target, "--json", timeout=120).ok().json()
        assert not cleaned["running"] and snapshot(cli.target) == before, f"{name}, kill {number}: {cleaned}"
    assert all(run["status"] in ("partial", "complete") for run in cli.runs())
