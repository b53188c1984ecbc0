"""Shares that refuse: every measuring command says what the server refused, and stores no run of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.lab.server import Server

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
COMMANDS = {
    "run": ["run", "TARGET", "--budget", "20s"],
    "sweep": ["sweep", "TARGET", "--file-size", "1m", "--record", "64k"],
    "sustained": ["sustained", "TARGET", "--size", "8m", "--duration", "1s"],
    "curve": ["curve", "TARGET", "--step-duration", "1s", "--size", "8m"],
    "tree": ["tree", "TARGET", "--files", "10"],
    "apps": ["apps", "TARGET", "--only", "DirectoryCopyToNAS", "--scale", "0.01"],
    "job": ["job", "TARGET", "copy-in", "--corpus", "office", "--scale", "0.01"],
    "iozone": ["iozone", "-f", "TARGET", "-s", "1m", "-i", "0"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    need_system("samba")
    with lab.running("samba") as running:
        yield running


@pytest.mark.parametrize(
    ("share", "reason"),
    [("readonly", ("no write access", "not allow")), ("noaccess", ("does not let this user use the share noaccess",))],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_reason_is_the_servers(command: str, share: str, reason: tuple[str, ...], server: Server, cli: Cli) -> None:
    target = server.facts["targets"][share]
    words = [target + ("/file" if command == "iozone" and word == "TARGET" else "") if word == "TARGET" else word
             for word in COMMANDS[command]]  # fmt: skip
    refused = cli(*words, "--credentials", server.credentials, prefix=server.inside())
    told = refused.err.strip().splitlines()
    assert refused.code == (1 if command == "iozone" and share == "readonly" else 2), refused.err
    assert any(part in told[-1].casefold() for part in reason), refused.err
    assert "no run" not in refused.err and "Traceback" not in refused.err
    assert command == "iozone" or cli("runs", "--json").ok().json()["runs"] == []


TOO_MUCH = {
    "sweep": ["--file-size", "8m", "--record", "1m"], "sustained": [], "curve": [],
    "tree": ["--files", "2000"], "apps": ["--scale", "0.5"], "job": ["--scale", "1"], "iozone": ["-s", "8m"],
}  # fmt: skip
"""Options with which the commands need more than the 4 MiB of the share."""


@pytest.mark.parametrize("command", TOO_MUCH)
def test_a_share_without_room_is_told_as_such(command: str, server: Server, cli: Cli) -> None:
    words = [server.facts["targets"]["tiny"] + ("/file" if command == "iozone" else "") if word == "TARGET" else word
             for word in COMMANDS[command]]  # fmt: skip
    refused = cli(*words, *TOO_MUCH[command], "--credentials", server.credentials, prefix=server.inside())
    assert refused.code in (1, 2), refused.err
    assert "free" in refused.err or "no space" in refused.err.casefold(), refused.err
    assert "no run" not in refused.err and "Traceback" not in refused.err


def refused(cli: Cli, server: Server, share: str = "data") -> tuple[str, str]:
    """What `sweep` says of a share that it cannot measure, and what `doctor` says to do about it."""
    target, known = server.facts["targets"][share], ("--credentials", server.credentials)
    swept = cli("sweep", target, "--file-size", "1m", "--record", "64k", *known, prefix=server.inside()).sound()
    assert swept.code == 2 and cli("runs", "--json").ok().json()["runs"] == []
    looked = cli("doctor", target, *known, "--json", prefix=server.inside()).sound()
    assert looked.code == 1
    return swept.err.strip(), next(one["message"] for one in looked.json()["advice"] if one["severity"] == "error")


def test_a_name_that_the_server_vetoes(cli: Cli) -> None:
    need_system("samba")
    with lab.running("samba", config={"veto files": "/naslab*/"}) as server:
        swept, advice = refused(cli, server)
    assert "accepts no folder of the name naslab-" in swept and "veto files" in swept
    assert "accepts no folder of the name naslab-" in advice


def test_a_share_whose_folder_is_gone(cli: Cli) -> None:
    need_system("samba")
    with lab.running("samba") as server:
        shutil.rmtree(server.data.parent / "public")
        swept, advice = refused(cli, server, "public")
    assert "has no share public, or not the folder behind it" in swept
    assert advice == "the server lists the share public and cannot open it: check there that its folder exists"


def test_a_server_that_takes_no_further_process_speaks_smb_nevertheless(cli: Cli) -> None:
    """Its limit is one process, which is its own first: every connection is ended at once."""
    need_system("samba")
    with lab.running("samba", config={"max smbd processes": "1"}) as server:
        swept, advice = refused(cli, server)
    for told in (swept, advice):
        assert "more connections" in told and "SMB1" not in told, told


STAGES = """
import json, sys
from pathlib import Path
from naslab.lab.opening import open_target
from naslab.execution.execute import start
from naslab.spec import CellSpec, RunSpec
from naslab.results.store import Store

def cells(first, workers):
    names = [f"file-{at}" for at in range(workers)]
    more = dict(workers=workers, write_fraction=1.0, create="if_missing")
    return [CellSpec("write", 1 << 20, 65536, names, id=first, **more)]

target = open_target(sys.argv[1], Path(sys.argv[2]))
names = [f"file-{at}" for at in range(4)]
spec = RunSpec({}, cells(0, 1), folder="", cleanup_files=names)
execution = start(spec, target, Store(Path(sys.argv[3])))
execution.spares = sys.argv[4] == "spares"
stages = []
for at, workers in enumerate((1, 4, 1)):
    if execution.status == "complete":
        execution.stage(cells(at, workers))
    stages.append(execution.status)
run = execution.finish()
print(json.dumps({
    "stages": stages, "connections": execution.connections, "warnings": run.document["warnings"],
    "cells": [[cell["id"], cell["workers"], cell["status"]] for cell in run.cells],
}))
"""
"""A load over one connection, over four, and over one again."""


@pytest.mark.parametrize("limit", ["max connections", "max smbd processes"])
@pytest.mark.parametrize("spares", [True, False])
def test_a_load_over_more_connections_than_the_server_takes(spares: bool, limit: str, tmp_path: Path) -> None:
    """It is left out where a run can do without; elsewhere it ends the run, and is told. The run's own one counts."""
    need_system("samba")
    with lab.running("samba", config={limit: "3" if limit == "max connections" else "5"}) as server:
        words = [*server.inside(), sys.executable, "-c", STAGES, server.url, server.credentials, tmp_path / "store"]
        done = subprocess.run(
            [*words, "spares" if spares else "ends"], capture_output=True, text=True, check=False, timeout=HANG_S
        )
        left = [path.name for path in server.data.iterdir()]
    assert done.returncode == 0 and left == [], done.stderr
    found = json.loads(done.stdout)
    kinds = [one["kind"] for one in found["warnings"] if one["kind"] in ("connections_refused", "error")]
    if spares:
        assert found["stages"] == ["complete"] * 3 and found["connections"] == 3
        assert kinds == ["connections_refused"] and found["cells"] == [[0, 1, "complete"], [2, 1, "complete"]]
    else:
        assert found["stages"] == ["complete", "failed", "failed"]
        assert kinds == ["error"] and found["cells"] == [[0, 1, "complete"]]


@pytest.mark.parametrize("most", [2, 3])
def test_a_run_goes_on_with_the_connections_that_the_server_takes(most: int, cli: Cli) -> None:
    """Whatever the ladder tries, it has a verdict."""
    need_system("samba")
    with lab.running("samba", config={"max connections": str(most)}) as server:
        asked = ["run", server.url, "--credentials", server.credentials, "--budget", "20s", "--json"]
        done = cli(*asked, prefix=server.inside()).ok()
        left = [path.name for path in server.data.iterdir()]
    document: dict[str, Any] = done.json()
    told = [one["message"] for one in document["warnings"] if one["kind"] == "connections_refused"]
    assert document["status"] == "complete" and document["verdict"]["limits"] and left == []
    assert all("the run continued with fewer" in one for one in told)
    assert max(cell["workers"] for cell in document["cells"]) <= most - 1
