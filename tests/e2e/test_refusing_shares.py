"""Shares that refuse: every measuring command says what the server refused, and stores no run of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cli_tools import Cli
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
