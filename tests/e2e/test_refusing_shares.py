"""Shares that refuse: every measuring command says what the server refused, and stores no run of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from cli_tools import Cli
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.explain.steps import MOST_WORKERS
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


@pytest.mark.parametrize(("share", "reason"), [("readonly", ("no write access", "not allow"))])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_reason_is_the_servers(command: str, share: str, reason: tuple[str, ...], server: Server, cli: Cli) -> None:
    target = server.facts["targets"][share]
    words = [target + ("/file" if command == "iozone" and word == "TARGET" else "") if word == "TARGET" else word
             for word in COMMANDS[command]]  # fmt: skip
    refused = cli(*words, "--credentials", server.credentials, prefix=server.inside())
    told = refused.err.strip().splitlines()
    assert refused.code == (1 if command == "iozone" else 2), refused.err
    assert any(part in told[-1].casefold() for part in reason), refused.err
    assert "no run" not in refused.err and "Traceback" not in refused.err
    assert command == "iozone" or cli("runs", "--json").ok().json()["runs"] == []


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


@pytest.mark.parametrize(("limit", "most"), [("max connections", 2), ("max connections", 3), ("max smbd processes", 5)])
def test_a_run_goes_on_with_the_connections_that_the_server_takes(limit: str, most: int, cli: Cli) -> None:
    """The run's own one counts: a server that takes two leaves one to measure with."""
    need_system("samba")
    with lab.running("samba", config={limit: str(most)}) as server:
        asked = ["run", server.url, "--credentials", server.credentials, "--budget", "20s", "--json"]
        done = cli(*asked, prefix=server.inside(), timeout=120).ok()
        left = [path.name for path in server.data.iterdir()]
    document: dict[str, Any] = done.json()
    told = [one["message"] for one in document["warnings"] if one["kind"] == "connections_refused"]
    workers = max(cell["workers"] for cell in document["cells"])
    assert document["status"] == "complete" and document["verdict"]["limits"] and left == []
    assert told and all("the run continued with fewer" in one for one in told)
    assert 1 <= workers < MOST_WORKERS and (limit != "max connections" or workers == most - 1)
