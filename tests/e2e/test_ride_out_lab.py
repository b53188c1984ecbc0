"""`--ride-out`: a server that is killed in the middle of a load and started again costs time, not the run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, run_folders, wait_until
from lab_tools import need_system, own_folders
from naslab import lab
from naslab.results.outages import outages_of

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
AWAY_S = 2.0
"""How long the server stays away, at least."""


@pytest.fixture
def cli() -> Iterator[Cli]:
    """The program with its store in memory: on a busy disk a cell was in the store seconds after its end, and the
    server that should have gone in the middle of the load went after it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="naslab-test-") as folder:
        yield Cli(Path(folder))


def _load(cli: Cli, server: Any, url: str, *words: str, duration: str = "12s") -> tuple[Any, int]:
    """Kills and restarts the server in the middle of a load: what the command printed, and how long it was away.

    The time counts from when it has gone: until then it may answer.
    """
    login = ("--credentials", server.credentials) if server.credentials else ()
    load = ("--write", "100", "--random", "--size", "64m", "--block", "64k", "--depth", "4", "--workers", "2")
    words = ("sustained", url, *load, "--duration", duration, *words, *login, "--json")
    child = cli.start(*words)
    try:
        # Two files that are filled, and then written to.
        wait_until(lambda: cli.cells_stored() >= 1, child, "the end of filling")
        time.sleep(2)
        server.kill()
        killed = time.monotonic_ns()
        time.sleep(AWAY_S)
        away_ns = time.monotonic_ns() - killed
        server.restart()
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
    assert "Traceback" not in err and "panicked" not in err, err
    return (child.returncode, out, err), away_ns


def _url(server: Any, query: str) -> str:
    return str(server.url) + (("&" if "?" in server.url else "?") + query if query else "")


@pytest.mark.parametrize(
    ("name", "query"), [("samba", ""), ("samba", "connections=2"), ("ganesha", "version=3"), ("ganesha", "version=4.1")]
)
def test_a_server_that_comes_back_is_gone_on_with(name: str, query: str, cli: Cli) -> None:
    """The run is whole; the time without service, and that acknowledged writes survived, are part of it."""
    import json

    need_system(name)
    with lab.running(name, fast=name == "samba") as server:
        (code, out, err), away_ns = _load(cli, server, _url(server, query), "--ride-out", "60s")
        assert code == 0, err
        document = json.loads(out)
        assert run_folders(server.data) == [], "what the run made is removed"
    (outage,) = outages_of(document)
    cell = next(cell for cell in document["cells"] if cell["id"] == outage.cell)
    assert cell["status"] == "complete" and cell["errors"] == 0
    assert outage.workers == 2 and outage.no_service_ns >= away_ns
    assert all(one["repeated_ops"] >= 1 and one["attempts"] > 1 for one in cell["outages"])
    assert outage.read_back_writes > 100 and outage.lost_writes == 0
    assert cell["latency_ns"]["max"] >= away_ns, "the operations that were outstanding took that long"
    assert [one["kind"] for one in cell["warnings"] if one["kind"] == "outage"] == ["outage"]
    said = " ".join(document["summary"])
    assert "There was no service for" in said and "all had survived" in said
    assert "Outages" in cli("show", document["run_id"]).ok().out


def test_without_the_option_a_lost_server_ends_the_load(cli: Cli) -> None:
    import json

    need_system("samba")
    with lab.running("samba", fast=True) as server:
        (code, out, err), _ = _load(cli, server, server.url, duration="2m")
    assert code == 1 and "the run failed" in err, out[-2000:] + err
    assert outages_of(json.loads(out)) == []


def test_a_server_that_stays_away_ends_the_load(cli: Cli) -> None:
    need_system("samba")
    with lab.running("samba", fast=True) as server:
        login = ("--credentials", server.credentials)
        load = (
            "--write",
            "100",
            "--random",
            "--size",
            "16m",
            "--duration",
            "60s",
            "--ride-out",
            "2s",
            "--timeout",
            "5s",
        )
        child = cli.start("sustained", server.url, *load, *login)
        try:
            wait_until(lambda: cli.cells_stored() >= 1, child, "the end of filling")
            server.kill()
            _, err = child.communicate(timeout=120)
        finally:
            child.kill()
    assert child.returncode == 1 and "did not come back within 2" in err, err
