"""`naslab durable` as a user runs it: on servers of the lab that are killed under load, resumed, and refused."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cli_tools import HANG_S, Cli, need, populate, snapshot, wait_until
from naslab.cli import main
from naslab.commands.durable import journal
from naslab.lab import systems
from naslab.lab.server import Server, running
from naslab.results.schema import json_schema

SMALL = ("--size", "1m", "--load", "700ms", "--timeout", "5s")


@pytest.fixture(scope="module")
def samba() -> Iterator[Server]:
    need(not systems.missing_packages(systems.system("samba")), "samba")
    with running("samba") as server:
        yield server


def login(server: Server) -> tuple[str, ...]:
    return ("--credentials", str(server.credentials)) if server.credentials else ()


def check_part(part: Any, kind: str) -> None:
    """Nothing promised is gone, every write is in one class, and the load was no empty one."""
    assert part["violations"] == 0 and part["kind"] == kind and len(part["cuts"]) == 1
    assert [row["mode"] for row in part["modes"]] == ["none", "end", "each"]
    for row in part["modes"]:
        classes = ("survived", "overwritten", "lost", "torn", "damaged")
        assert row["acknowledged"] == sum(row[name] for name in classes) > 0
        assert row["acknowledged"] >= row["promised"] >= row["at_risk"]
    none, end, each = part["modes"]
    assert none["promised"] == 0 < end["promised"] and each["promised"] == each["acknowledged"]
    assert sum(row["acknowledged"] for row in part["metadata"]) > 0


# The page cache outlives the server program: unstable writes are there again, and told as what they are.
@pytest.mark.lab
@pytest.mark.parametrize(("target", "package"), [("lab:samba", "samba"), ("lab:ganesha?version=3", "ganesha")])
def test_a_killed_server_program(cli: Cli, target: str, package: str) -> None:
    need(not systems.missing_packages(systems.system(package)), package)
    need(package == "samba" or os.geteuid() == 0, "root")
    # Ganesha's verifier is the second of its start: two starts within one would look the same.
    words = ("--load", "1500ms") if package == "ganesha" else ()
    done = cli("durable", target, *SMALL, *words, "--json").ok()
    document = done.json()
    assert document["status"] == "complete" and document["cells"] == []
    assert {w["kind"] for w in document["warnings"]} <= {"client_busy", "other_load"}
    part = document["durable"]
    check_part(part, "process")
    assert part["modes"][0]["survived"] + part["modes"][0]["overwritten"] == part["modes"][0]["acknowledged"]
    said = " ".join(document["summary"])
    assert "This does not prove durability" in said and "not a power cut" in said
    if package == "ganesha":
        assert part["cuts"][0]["verifier_changed"] is True and part["cuts"][0]["to_send_again"] > 0
        assert {row["op"] for row in part["metadata"] if row["promised"]} == {"create", "contents", "rename", "remove"}
    shown = cli("show", "last").ok().out
    assert "overwritten" in shown and "files renamed" in shown and "No cell was measured" not in shown
    assert not list(cli.folder.glob("*.journal"))


@pytest.mark.lab
def test_commands_cut_and_restore(cli: Cli, samba: Server) -> None:
    """What the commands say is kept nowhere; they stand for a plug that can be switched."""
    off, back = cli.folder / "off", cli.folder / "back"

    def plug() -> None:
        for order, act in ((off, samba.kill), (back, samba.restart)):
            while not order.exists():
                time.sleep(0.01)
            act()
            order.with_suffix(".done").touch()

    thread = threading.Thread(target=plug, daemon=True)
    thread.start()
    secret = "PLUG-SECRET-77"
    wait = f": {secret}; touch {{0}}; while [ ! -e {{0}}.done ]; do sleep 0.05; done"
    orders = [wait.format(shlex.quote(str(order))) for order in (off, back)]
    words = ("--cut-command", orders[0], "--restore-command", orders[1])
    done = cli("durable", samba.url, *login(samba), *SMALL, *words, "--json").ok()
    thread.join(10)
    document = done.json()
    check_part(document["durable"], "power")
    assert document["durable"]["cuts"][0]["how"] == "command"
    assert secret not in done.out + done.err and secret.encode() not in cli.store.read_bytes()
    assert not [path for path in samba.data.iterdir() if path.name.startswith("naslab-")]
    failed = cli("durable", samba.url, *login(samba), *SMALL, "--cut-command", f"echo {secret}; exit 3", "--json")
    assert failed.code == 1 and "--cut-command: exit status 3" in failed.err
    assert failed.json()["status"] == "failed" and secret.encode() not in cli.store.read_bytes()
    assert not list(samba.data.iterdir()) and not list(cli.folder.glob("*.journal"))


def begin(cli: Cli, server: Server, log: Path) -> subprocess.Popen[str]:
    """A run that waits for the cut by hand, with all kinds of acknowledgements in its journal."""
    child = cli.start(
        "durable", server.url, *login(server), *SMALL, "--cut", "ask", "--wait", "30s", "--journal", log, "--json"
    )
    wait_until(lambda: is_loaded(log), child, "flushed writes")
    return child


def is_loaded(log: Path) -> bool:
    """Whether a journal holds acknowledgements of all modes, and of flushes."""
    cuts = journal.read(log).cuts if log.exists() and b"\n" in log.read_bytes() else []
    modes = cuts[-1].modes if cuts else {}
    return bool(modes and modes["end"].flushes and all(len(one.batches) > 9 for one in modes.values()))


@pytest.mark.lab
def test_cut_by_hand_without_a_terminal(cli: Cli, samba: Server) -> None:
    """The loss of the server is the cut; nobody says what it was."""
    child = begin(cli, samba, cli.folder / "log")
    samba.kill()
    wait_until(lambda: journal.read(cli.folder / "log").cuts[-1].lost_ns, child, "loss of the server")
    samba.restart()
    out, err = child.communicate(timeout=HANG_S)
    assert child.returncode == 0, err
    assert "Now cut the server's power" in err and "switch it on again" in err
    document = cli("show", "last", "--json").ok().json()
    check_part(document["durable"], "unknown")
    assert "was not confirmed" in out
    assert journal.read(cli.folder / "log").cuts[-1].result is not None


@pytest.mark.lab
def test_killed_naslab_is_checked_later(cli: Cli, samba: Server) -> None:
    """kill -9 of naslab in the middle of the cut; the journal and the target are enough."""
    log = cli.folder / "log"
    child = begin(cli, samba, log)
    running_check = cli("durable", samba.url, *login(samba), "--check", log)
    assert running_check.code == 2 and "still running" in running_check.err
    samba.kill()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    samba.restart()
    document = cli("durable", samba.url, *login(samba), "--check", log, "--json").ok().json()
    part = document["durable"]
    check_part(part, "unknown")
    assert part["checked_run"] and part["checked_run"] != document["run_id"] and part["cuts"][0]["how"] == "later"
    assert not list(samba.data.iterdir())
    again = cli("durable", samba.url, *login(samba), "--check", log)
    assert again.code == 2 and "checked already" in again.err


@pytest.mark.lab
def test_interrupted_load_leaves_nothing(cli: Cli, samba: Server) -> None:
    child = begin(cli, samba, cli.folder / "log")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=HANG_S)
    assert child.returncode == 130 and "interrupted" in err, out + err
    assert not list(samba.data.iterdir())


@pytest.mark.lab
def test_a_server_that_does_not_return(cli: Cli, samba: Server) -> None:
    """Folder and journal stay, and the command says how to go on. Harm done to promised records meanwhile is a
    violation: exit code 1.
    """
    done = cli(
        "durable",
        samba.url,
        *login(samba),
        *SMALL,
        "--wait",
        "1s",
        "--cut-command",
        f"kill -9 {kill_words(samba)}; true",
    )
    assert done.code == 1 and "--check" in done.err and "--wait: the server does not answer" in done.err
    (log,) = cli.folder.glob("*.journal")
    (file,) = samba.data.glob("naslab-*/naslab.files/cut0/each")
    with file.open("r+b") as each:
        for offset in range(0, 1 << 20, 4096):
            each.seek(offset + 1024)
            each.write(bytes(512))
    samba.restart()
    checked = cli("durable", samba.url, *login(samba), "--check", log, "--json").sound()
    document = checked.json()
    part = document["durable"]
    assert checked.code == 1 and "guarantees were broken" in checked.err
    assert part["violations"] == part["modes"][2]["violations"] >= part["modes"][2]["violations_by_kind"]["torn"] > 0
    assert document["summary"][0].startswith("VIOLATION")
    assert "acknowledges_before_durable" in {warning["kind"] for warning in document["warnings"]}
    assert not list(samba.data.iterdir())


def kill_words(server: Server) -> str:
    """All its processes as they are."""
    return " ".join(map(str, server.pids))


@pytest.mark.lab
def test_power_cuts_of_a_guest(cli: Cli) -> None:
    """Truth: a kernel's NFS server whose machine loses its power. Exported `sync` it keeps every promise and loses what
    was never flushed; exported `async` it acknowledges before it is durable, and that is found.
    """
    need(os.geteuid() == 0 and Path("/dev/net/tun").exists(), "root and /dev/net/tun")
    need(not systems.missing_packages(systems.system("knfs-ext4")), "a guest")
    words = ("--size", "1m", "--load", "1500ms", "--timeout", "6s", "--json")
    children = [
        cli.start("durable", f"lab:knfs-ext4?version=3{more}", *words) for more in ("", "&server.sync=never")
    ]  # fmt: skip
    (honest, said), (lying, _) = [child.communicate(timeout=HANG_S) for child in children]
    assert [child.returncode for child in children] == [0, 1], said
    document = json.loads(honest)
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    part = document["durable"]
    check_part(part, "power")
    assert part["modes"][0]["lost"] > 0 and part["modes"][0]["reach_ns"] > 0
    assert part["cuts"][0]["verifier_changed"] is True
    assert all(row["lost"] == 0 for row in part["metadata"])
    broken = json.loads(lying)["durable"]
    assert broken["kind"] == "power" and broken["loss_bound95"] is None
    for row in broken["modes"][1:]:
        assert row["violations_by_kind"]["lost"] > 0 and row["promised"] > 0


@pytest.mark.lab
def test_a_folder_goes_down_with_this_machine(cli: Cli) -> None:
    """A local path: the journal must lie elsewhere; the check comes in another process."""
    mine = populate(cli.target)
    refused = cli("durable", cli.target, *SMALL, "--cut", "ask", "--journal", cli.folder / "log")
    assert refused.code == 2 and "is on the disk under test" in refused.err
    assert snapshot(cli.target) == mine
    shm = Path("/dev/shm")
    need(shm.is_dir() and shm.stat().st_dev != cli.target.stat().st_dev, "a second file system")
    log = shm / f"naslab-test-{os.getpid()}.journal"
    try:
        none_came = cli("durable", cli.target, *SMALL, "--cut", "ask", "--journal", log, "--wait", "300ms")
        assert none_came.code == 1 and "no cut within" in none_came.err
        assert snapshot(cli.target) == mine
        log.unlink()
        child = cli.start("durable", cli.target, *SMALL, "--cut", "ask", "--journal", log)
        wait_until(lambda: is_loaded(log), child, "flushed writes")
        child.kill()
        child.communicate()
        part = cli("durable", cli.target, "--check", log, "--json").ok().json()["durable"]
        check_part(part, "unknown")
        assert snapshot(cli.target) == mine
    finally:
        log.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("null:",), "makes no sense"),
        (("sim:?latency_ns=1ms",), "makes no sense"),
        (("null:", "--cut", "never"), "--cut 'never'"),
        (("null:", "--block", "1000"), "--block 1000"),
        (("null:", "--block", "2m"), "--block 2m"),
        (("null:", "--size", "10k", "--block", "4k"), "--size 10k"),
        (("null:", "--size", "8k"), "--depth 8"),
        (("null:", "--group", "65"), "--group 65"),
        (("null:", "--modes", "each,all"), "--modes 'all'"),
        (("null:", "--load", "0s"), "--load"),
        (("null:", "--wait", "soon"), "--wait"),
        (("null:", "--restore-command", "true"), "--cut-command"),
        (("null:", "--cut-command", " "), "is empty"),
        (("null:", "--cut", "ask", "--cut-command", "true"), "--cut ask"),
        (("null:", "--check", "nowhere"), "nowhere"),
        (("null:", "--check", "x", "--repeat", "3"), "--repeat"),
        (("null:", "--check", "x", "--cut", "ask"), "--cut"),
        (("smb://127.0.0.1:9/x", "--cut", "lab"), "--cut lab"),
        (("TARGET", "--cut-command", "true"), "--cut-command"),
    ],
)
def test_bad_input(
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One clear line, exit code 2, nothing made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target").mkdir()
    given = [str(tmp_path / "target") if word == "TARGET" else word for word in words]
    assert main(["durable", *given, "--store", str(tmp_path / "store")]) == 2
    told = capsys.readouterr()
    assert told.out == "" and said in told.err and len(told.err.strip().splitlines()) == 1, told.err
    assert [path.name for path in tmp_path.rglob("*")] == ["target"]
