"""`--ride-out`: a server that is killed in the middle of a load and started again costs time, not the run."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli, run_folders, wait_until
from faults import Relay, relay
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


@contextlib.contextmanager
def _restarted(server: Any) -> Iterator[None]:
    """Kills the server and starts it again at the end of the block."""
    server.kill()
    yield
    server.restart()


@contextlib.contextmanager
def _unreachable(network: Relay, mode: str = "close") -> Iterator[None]:
    """Connections end at the server's next answer; the server itself stays, and knows what was open."""
    network.break_down(mode)
    yield
    network.heal()


@contextlib.contextmanager
def _unreachable_twice(network: Relay) -> Iterator[None]:
    with _unreachable(network):
        time.sleep(AWAY_S)
    time.sleep(2)
    with _unreachable(network):
        yield


@contextlib.contextmanager
def _unreachable_after(network: Relay, act: Callable[[], None]) -> Iterator[None]:
    act()
    with _unreachable(network):
        yield


def _load(cli: Cli, server: Any, url: str, *words: str, duration: str = "12s", outage: Any = None) -> tuple[Any, int]:
    """An outage in the middle of a load: what the command printed, and how long the server was away.

    The time counts from when it has gone: until then it may answer. outage: kills and restarts it by default.
    """
    login = ("--credentials", server.credentials) if server.credentials else ()
    load = ("--write", "100", "--random", "--size", "64m", "--block", "64k", "--depth", "4", "--workers", "2")
    words = ("sustained", url, *load, "--duration", duration, *words, *login, "--json")
    child = cli.start(*words)
    try:
        # Two files that are filled, and then written to.
        wait_until(lambda: cli.cells_stored() >= 1, child, "the end of filling")
        time.sleep(2)
        with outage or _restarted(server):
            gone = time.monotonic_ns()
            time.sleep(AWAY_S)
            away_ns = time.monotonic_ns() - gone
        out, err = child.communicate(timeout=HANG_S)
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
    assert outage.kept_files + outage.reopened_files == 2
    assert all(one["repeated_ops"] >= 1 and one["attempts"] > 1 for one in cell["outages"])
    assert outage.read_back_writes > 100 and outage.lost_writes == 0
    assert cell["latency_ns"]["max"] >= away_ns, "the operations that were outstanding took that long"
    assert [one["kind"] for one in cell["warnings"] if one["kind"] == "outage"] == ["outage"]
    said = " ".join(document["summary"])
    assert "There was no service for" in said and "all had survived" in said
    assert "Outages" in cli("show", document["run_id"]).ok().out


@pytest.mark.parametrize(
    ("query", "config", "kept"),
    [
        ("", {}, 2), ("dialect=2.1", {}, 2), ("encrypt=required", {}, 2), ("connections=2", {}, 2),
        ("connections=2&multichannel=off", {}, 0), ("dialect=2.0.2", {}, 0), ("lease=rwh", {}, 2),
        ("lease=rwh", {"smb2 leases": "no"}, 2), ("", {"durable handles": "no"}, 0),
    ],
)  # fmt: skip
def test_files_that_samba_kept_are_claimed(query: str, config: dict[str, str], kept: int, cli: Cli) -> None:
    """Connections are lost, Samba is not: it has the files still open, where it was asked and is allowed to."""
    need_system("samba")
    with lab.running("samba", fast=True, config=config) as server, relay(server.port) as network:
        url = _url(server, query).replace(f":{server.port}/", f":{network.port}/")
        (code, out, err), _ = _load(cli, server, url, "--ride-out", "60s", duration="8s", outage=_unreachable(network))
        assert code == 0, err
        document = json.loads(out)
        assert run_folders(server.data) == [], "what the run made is removed"
    (outage,) = outages_of(document)
    assert (outage.workers, outage.kept_files, outage.reopened_files) == (2, kept, 2 - kept)
    assert outage.read_back_writes > 100 and outage.lost_writes == 0
    assert f"{kept} of 2 open files were kept by the server" in " ".join(document["summary"])


@pytest.mark.parametrize(("name", "query"), [("samba", ""), ("ganesha", "version=4.0"), ("ganesha", "version=4.1")])
def test_a_file_that_was_claimed_is_claimed_again(name: str, query: str, cli: Cli) -> None:
    """Two outages within one cell."""
    need_system(name)
    with lab.running(name, fast=name == "samba") as server, relay(server.port) as network:
        url = _url(server, query).replace(f":{server.port}/", f":{network.port}/")
        outage = _unreachable_twice(network)
        (code, out, err), _ = _load(cli, server, url, "--ride-out", "60s", duration="12s", outage=outage)
        assert code == 0, err
    first, second = outages_of(json.loads(out))
    assert first.cell == second.cell
    assert [(one.workers, one.kept_files, one.lost_writes) for one in (first, second)] == [(2, 2, 0)] * 2


@pytest.mark.parametrize("name", ["samba", "ganesha"])
def test_an_interrupted_load_leaves_nothing_open_or_behind(name: str, cli: Cli) -> None:
    """With many operations outstanding."""
    need_system(name)
    with lab.running(name, fast=name == "samba") as server:
        login = ("--credentials", server.credentials) if server.credentials else ()
        load = ("--write", "100", "--random", "--size", "64m", "--depth", "32", "--duration", "60s", "--workers", "2")
        child = cli.start("sustained", server.url, *load, "--ride-out", "5m", *login)
        try:
            wait_until(lambda: cli.cells_stored() >= 1, child, "the end of filling")
            time.sleep(2)
            began = time.monotonic()
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=HANG_S)
        finally:
            child.kill()
        assert time.monotonic() - began < 15, err
        assert run_folders(server.data) == [], err


@pytest.mark.parametrize("name", ["samba", "ganesha"])
def test_files_are_claimed_of_a_server_that_noticed_nothing(name: str, cli: Cli) -> None:
    """A network that drops everything: for the server the connections that were lost are still there."""
    need_system(name)
    with lab.running(name, fast=name == "samba") as server, relay(server.port) as network:
        network.tells_the_server = False
        url = _url(server, "" if name == "samba" else "version=4.1").replace(f":{server.port}/", f":{network.port}/")
        outage = _unreachable(network, "freeze")
        (code, out, err), _ = _load(cli, server, url, "--ride-out", "60s", "--timeout", "2s", outage=outage)
        assert code == 0, err
    (outage,) = outages_of(json.loads(out))
    assert (outage.workers, outage.kept_files, outage.reopened_files) == (2, 2, 0)
    assert outage.lost_writes == 0


def test_a_file_that_another_client_wrote_to_is_opened_by_name(cli: Cli) -> None:
    """Its write ends the lease and waits for nobody; with the lease goes the durable handle."""
    need_system("samba")
    with lab.running("samba", fast=True) as server, relay(server.port) as network:

        def write() -> None:
            (file, *_) = sorted(path for path in server.data.rglob("*") if path.stat().st_size == 64 << 20)
            longer = cli.store.parent / "longer"
            with longer.open("wb") as sparse:
                sparse.truncate((64 << 20) + 100)
            words = f"reput {longer} {file.relative_to(server.data)}"  # sends 100 bytes
            began = time.monotonic()
            done = subprocess.run(
                ["smbclient", "//127.0.0.1/data", "-p", str(server.port), "-A", server.credentials, "-c", words],
                check=False, capture_output=True, text=True, timeout=HANG_S,
            )  # fmt: skip
            assert done.returncode == 0 and "putting file" in done.stderr, done.stdout + done.stderr
            assert time.monotonic() - began < 5

        url = server.url.replace(f":{server.port}/", f":{network.port}/")
        outage = _unreachable_after(network, write)
        (code, out, err), _ = _load(cli, server, url, "--ride-out", "60s", outage=outage)
        assert code == 0, err
    document = json.loads(out)
    (outage,) = outages_of(document)
    assert (outage.workers, outage.kept_files, outage.reopened_files) == (2, 1, 1)
    assert sum(cell["protocol_events"].get("lease_break", 0) for cell in document["cells"]) == 1


@pytest.mark.parametrize("version", ["3", "4.0", "4.1", "4.2"])
def test_files_that_ganesha_kept_are_claimed(version: str, cli: Cli) -> None:
    """Connections are lost, Ganesha is not: the client that comes back has its opens still."""
    need_system("ganesha")
    with lab.running("ganesha") as server, relay(server.port) as network:
        url = _url(server, f"version={version}").replace(f":{server.port}/", f":{network.port}/")
        (code, out, err), _ = _load(cli, server, url, "--ride-out", "60s", duration="8s", outage=_unreachable(network))
        assert code == 0, err
        assert run_folders(server.data) == [], "what the run made is removed"
    (outage,) = outages_of(json.loads(out))
    assert (outage.workers, outage.kept_files, outage.reopened_files) == (2, 2, 0)
    assert outage.read_back_writes > 100 and outage.lost_writes == 0


@pytest.mark.parametrize(("version", "grace"), [("4.0", True), ("4.1", True), ("4.2", False)])
def test_files_are_reclaimed_from_a_ganesha_that_was_restarted(version: str, grace: bool, cli: Cli) -> None:
    """In its grace period; one without it has forgotten what was open."""
    need_system("ganesha")
    with lab.running("ganesha", grace=grace, lease_s=8) as server:
        url = _url(server, f"version={version}")
        (code, out, err), away_ns = _load(cli, server, url, "--ride-out", "60s", duration="20s")
        assert code == 0, err
    (outage,) = outages_of(json.loads(out))
    kept = 2 if grace else 0
    assert (outage.workers, outage.kept_files, outage.reopened_files) == (2, kept, 2 - kept)
    assert outage.read_back_writes > 100 and outage.lost_writes == 0 and outage.no_service_ns >= away_ns


def test_without_the_option_a_lost_server_ends_the_load(cli: Cli) -> None:
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
            _, err = child.communicate(timeout=HANG_S)
        finally:
            child.kill()
    assert child.returncode == 1 and "did not come back within 2" in err, err
