"""A client that is stopped in the middle of a cell says so: the numbers are not the server's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

STOPPED_S = 0.6
STOPS_ITSELF = """
import os, signal, sys
from naslab.execution import validity_watch
from naslab.cli import main

real, stopped = validity_watch.ValidityWatch.progress, []

def progress(self, event):
    if "--stop" in sys.argv and event["bytes"] and not stopped:
        stopped.append(event)
        os.kill(os.getpid(), signal.SIGSTOP)
    return real(self, event)

validity_watch.ValidityWatch.progress = progress
sys.exit(main([word for word in sys.argv[1:] if word != "--stop"]))
"""


def sustained(tmp_path: Path, target: str, *, stopped: bool) -> Any:
    """The document of a small load whose process stops itself once while it is measured."""
    words = ["sustained", target, "--size", "16m", "--block", "64k", "--duration", "1500ms", "--json", "--quiet"]
    environment = {**os.environ, "NASLAB_STORE": str(tmp_path / "runs.sqlite")}
    child = subprocess.Popen(
        [sys.executable, "-c", STOPS_ITSELF, *words, *(["--stop"] if stopped else [])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if stopped:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), child.communicate()
        time.sleep(STOPPED_S)
        os.kill(child.pid, signal.SIGCONT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    return json.loads(out)


def test_a_stopped_client_makes_its_cell_doubtful(tmp_path: Path) -> None:
    document = sustained(tmp_path, str(tmp_path), stopped=True)
    cells = {cell["id"]: cell for cell in document["cells"]}
    stalled = [cell for cell in cells.values() if cell["client_stall"]["longest_ns"] >= STOPPED_S * 0.8e9]
    assert len(stalled) == 1, [cell["client_stall"] for cell in cells.values()]
    (cell,) = stalled
    assert "client_stall" in [found["kind"] for found in cell["warnings"]]
    assert cell["client_stall"]["total_ns"] <= cell["window_ns"]
    entries = [each for each in document["validity"] if each["kind"] == "client_stall"]
    assert [cell["id"]] in [each["cells"] for each in entries]


@pytest.mark.parametrize("target", ["sim:?link_bytes_per_s=125MB&latency_ns=200us"])
def test_a_simulated_client_cannot_stand_still(tmp_path: Path, target: str) -> None:
    document = sustained(tmp_path, target, stopped=False)
    assert {cell["client_stall"] for cell in document["cells"]} == {None}
