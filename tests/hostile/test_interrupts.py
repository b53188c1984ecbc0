"""Ctrl-C while a server is waited for: heard at once, whatever is asked of whom, however long the timeout is."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cli_tools import Cli, wait_until
from faults import relay
from naslab import lab
from spoken import SPOKEN, words_through

HEARD_S = float(os.environ.get("NASLAB_HOSTILE_HEARD_S", "240"))
"""A busy machine takes its time to end a program; a timeout that is waited for takes ten minutes."""
COMMANDS = {
    "sweep": ("sweep", "--file-size", "1m", "--record", "64k"),
    "tree": ("tree", "--files", "200", "--depth-of-tree", "1"),
    "sustained": ("sustained", "--size", "4m", "--duration", "5s"),
    "curve": ("curve", "--size", "4m", "--budget", "20s"),
    "profile": ("profile", "--size", "128m", "--budget", "20s"),
    "run": ("run", "--budget", "20s"),
    "apps": ("apps", "--budget", "20s"),
    "job": ("job", "copy-in,copy-out", "--corpus", "sources", "--scale", "0.01"),
    "durable": ("durable", "--size", "1m", "--load", "3s", "--cut-command", "true", "--restore-command", "true"),
    "doctor": ("doctor",),
    "clean": ("clean",),
}
JOBS = ("zip,unzip", "checksum", "find", "checkout", "copy-in,copy-out --verify", "copy-in --clients 2")
COMMANDS |= {
    f"job {job}": ("job", *job.split(), "--corpus", "sources", "--scale", "0.01", "--depth", "1") for job in JOBS
}
MATRIX = [(command, "nfs-3", at) for command in COMMANDS for at in (500, 6_000)]
MATRIX += [("durable", "nfs-3", at) for at in (45_000, 400_000, 1_500_000)]
MATRIX += [("sweep", spoken, at) for spoken in SPOKEN for at in (0, 300, 1_500, 20_000) if spoken != "nfs-3"]
MATRIX += [("job", spoken, at) for spoken in SPOKEN for at in (3_000, 15_000, 25_000)]
MATRIX += [(f"job {job}", "nfs-3", at) for job in JOBS for at in (22_000, 45_000)]


@pytest.mark.timeout(500)
@pytest.mark.parametrize(("command", "spoken", "answered_bytes"), MATRIX)
def test_ctrl_c_is_heard(
    command: str, spoken: str, answered_bytes: int, servers: dict[str, lab.Server], cli: Cli
) -> None:
    server, query = servers[SPOKEN[spoken][0]], SPOKEN[spoken][1]
    with relay(server.port) as way:
        way.break_after(answered_bytes, "freeze")
        target, *known = words_through(server, query, way.port)
        name, *words = COMMANDS[command]
        child = cli.start(name, target, *words, *known, "--timeout", "600s")
        wait_until(lambda: way.broken, child, "answer that does not come")
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, err = child.communicate(timeout=300)
        took_s = time.monotonic() - begun
    assert child.returncode == 130 and "interrupted" in err and "Traceback" not in err, f"{child.returncode}: {err}"
    print(f"{command} over {spoken}: {took_s:.2f} s", flush=True)
    assert took_s < HEARD_S, f"{took_s:.1f} s"
