"""`naslab tree` on real servers."""

from __future__ import annotations

import re
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli, need, wait_until
from lab_tools import wait_for
from naslab.analysis.metadata import LOOKS, PHASES
from naslab.client import process
from naslab.lab import systems

SMALL = ("--files", "30", "--fan-out", "3", "--workers", "2", "--sizes", "lognormal", "--json")


@pytest.mark.lab
@pytest.mark.parametrize("target", ["samba", "ganesha"])
def test_a_server(target: str, cli: Cli) -> None:
    """All phases, without an error, in one tree for both workers, and with new connections."""
    needed(target)
    document = cli("tree", f"lab:{target}", *SMALL, "--shared", "--cold").ok().json()
    check(document, "new_connection")
    rows = {row["op"]: row for row in document["tree"]["phases"]}
    assert rows["stat"]["count"] == 30 and rows["mkdir"]["count"] == rows["readdir"]["count"] == 13
    assert rows["rename_dir"]["count"] == 12 and rows["stat_dir"]["count"] == 13
    (told,) = [w["message"] for w in document["warnings"] if w["kind"] == "server_not_cold"]
    assert "runs on this machine, whose cache is not emptied" in told


@pytest.mark.lab
@pytest.mark.parametrize("target", ["samba", "ganesha"])
def test_cold_passes_have_new_connections(target: str, cli: Cli) -> None:
    """Trees of their own, each looked at by the other worker; a command before each cold pass sees the connections."""
    needed(target)
    seen = cli.folder / "seen"
    seen.mkdir()
    command = f"cat /proc/net/tcp > {seen}/$(ls {seen} | wc -l)"
    words = ("--neighbour", "1", "--shuffle", "--cold", "--cold-command", command)
    document = cli("tree", f"lab:{target}", *SMALL, *words).ok().json()
    check(document, "cold")
    port = int(re.findall(r":(\d+)", document["environment"]["lab"]["url"])[0])
    before = [client_connections(seen / str(number), port) for number in range(len(list(seen.iterdir())))]
    assert len(before) == len(LOOKS)
    for earlier, later in pairwise(before):
        assert len(later - earlier) == len(earlier - later) == 2, "both workers left their connections"
    assert command not in str(document) and "***" in document["argv"]


def needed(target: str) -> None:
    missing = systems.missing_packages(systems.system(target))
    need(not missing, f"{target}: {' '.join(missing)}")


def check(document: Any, caches: str) -> None:
    """Every phase, those that only look twice, and nothing failed."""
    found = [(row["op"], row["caches"]) for row in document["tree"]["phases"]]
    assert found == [(op, state) for op in PHASES for state in ("warm", caches)[: 1 + (op in LOOKS)]]
    assert all(row["ops_per_s"] > 0 and row["latency_ns_p50"] > 0 for row in document["tree"]["phases"])
    assert all(cell["errors"] == 0 for cell in document["cells"]), [cell["first_error"] for cell in document["cells"]]


def client_connections(table: Path, port: int) -> set[tuple[str, str]]:
    """Local ports and inodes of connections to a port, as /proc/net/tcp had them: few low ports are used again."""
    fields = [line.split() for line in table.read_text().splitlines()[1:]]
    return {(each[1], each[9]) for each in fields if each[2].endswith(f":{port:04X}") and each[3] == "01"}


def test_what_is_printed(cli: Cli) -> None:
    done = cli("tree", cli.target, *SMALL[:-1], "--cold", "--cold-command", "true").ok()
    assert "open_close" in done.out and "2 workers in a tree each" in done.out and "of warm" in done.out
    report = cli.folder / "report.html"
    cli("report", "last", "-o", report).ok()
    assert "Metadata, phase by phase" in report.read_text()


def test_an_interrupted_command_is_ended(cli: Cli) -> None:
    """With all that it started; what was measured is kept, and the folder is as it was."""
    pids = cli.folder / "pids"
    command = f"sleep 600 & echo $! $$ > {pids}.new; mv {pids}.new {pids}; sleep 600"
    child = cli.start("tree", cli.target, "--files", "10", "--cold", "--cold-command", command)
    wait_until(pids.exists, child, "the command")
    begun = [process.find(int(pid)) for pid in pids.read_text().split()]
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=HANG_S)
    assert child.returncode == 130 and "interrupted" in told and list(cli.target.iterdir()) == []
    # They were killed; that they are gone is seen a moment later. A busy machine gives their numbers to others.
    wait_for(lambda: not any(one and process.find(one.pid) == one for one in begun))
    (run,) = cli.runs()
    assert run["status"] == "partial"
    assert [row["op"] for row in cli("show", "--json").ok().json()["tree"]["phases"]] == list(PHASES[:7])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--files", "0"), "--files"),
        (("--neighbour", "-1"), "--neighbour"),
        (("--cold",), "--cold-command CMD"),
        (("--cold-command", "secret-Xq7"), "give --cold with it"),
        (("--cold", "--cold-command", ""), "is empty"),
    ],
)
def test_refused(words: tuple[str, ...], told: str, cli: Cli) -> None:
    refused = cli("tree", cli.target, *words).sound()
    assert refused.code == 2 and told in refused.err and "Xq7" not in refused.err
    assert len(refused.err.strip().splitlines()) == 1 and list(cli.target.iterdir()) == []
