"""Many clients at one target: processes on this machine, hosts over ssh, a cluster that runs; and what goes wrong."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_tools import HANG_S, Cli, need, run_folders

SMALL = ("--file-size", "16m", "--record", "1m", "--tests", "write,read,random_read")


def measured(cli: Cli, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = cli(*words, "--json").ok().json()
    return found


@pytest.mark.parametrize("share", ["own", "folder", "file"])
def test_clients_of_this_machine(tmp_path: Path, cli: Cli, share: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    run = measured(cli, "sweep", str(data), "--clients", "3", "--share", share, *SMALL)
    assert run["status"] == "complete"
    for cell in run["cells"]:
        clients = cell["clients"]
        assert clients["count"] == 3 and [each["client"] for each in clients["each"]] == [0, 1, 2]
        assert cell["bytes"] == sum(each["bytes"] for each in clients["each"])
        assert cell["throughput_bytes_per_s"] == clients["common_bytes_per_s"] > 0
        assert 0 < clients["fairness"] < 1.001
        one_file = share == "file" and cell["op"] != "random_read"
        assert cell["bytes"] == (16 if one_file else 48) << 20, "a part each, or all of a file each"
    assert run_folders(data) == [], "nothing is left"
    about = run["environment"]["clients"]
    assert len({each["pid"] for each in about}) == 3 and not any(each["lost"] for each in about)
    for each in about:  # one machine, one clock
        assert abs(each["clock"]["offset_ns"]) <= each["clock"]["bound_ns"]


@pytest.mark.lab
def test_jobs_of_many_clients(tmp_path: Path, cli: Cli) -> None:
    """Each client copies a corpus of its own in and out; bytes add up, and what took the time is told."""
    data = tmp_path / "data"
    data.mkdir()
    words = ("--corpus", "office", "--scale", "0.004", "--streams", "2", "--verify")
    one = measured(cli, "job", str(data), "zip,copy-out", *words)
    run = measured(cli, "job", str(data), "zip,copy-out", *words, "--clients", "3")
    assert run["status"] == "complete" and run["job"]["clients"] == 3 and run_folders(data) == []
    assert [step["job"] for step in run["job"]["steps"]] == [step["job"] for step in one["job"]["steps"]]
    for alone, cell, step in zip(one["cells"], run["cells"], run["job"]["steps"], strict=True):
        assert cell["clients"]["count"] == 3 and cell["verified"]["bad"] == 0
        assert cell["bytes"] == pytest.approx(3 * alone["bytes"], rel=0.05), "data differ, and so do archives"
        assert step["files"] == 3 * one["job"]["files"]
        assert len(step["streams"]) == 6 and sum(step["shares"].values()) == pytest.approx(1)
    assert run["job"]["archives"]["files"] == 6
    assert "2 streams on each of 3 clients" in " ".join(run["summary"])


def test_a_folder_of_files_for_many_clients(tmp_path: Path, cli: Cli) -> None:
    data, source = tmp_path / "data", tmp_path / "source"
    data.mkdir()
    (source / "sub").mkdir(parents=True)
    for at in range(6):
        (source / "sub" / f"{at}.bin").write_bytes(bytes([at]) * 300_000)
    run = measured(cli, "job", str(data), "copy-in,checksum", "--source", str(source), "--clients", "2", "--verify")
    assert [cell["bytes"] for cell in run["cells"]] == [3_600_000] * 2
    assert {step["files"] for step in run["job"]["steps"]} == {12} and run_folders(data) == []


def test_a_trace_by_many_clients(tmp_path: Path, cli: Cli) -> None:
    data, trace = tmp_path / "data", tmp_path / "x.trace"
    data.mkdir()
    lines = "".join(f"9 1699.{at:06d} openat(AT_FDCWD, \"{tmp_path}/f{at}\", O_RDWR|O_CREAT, 0600) = 3 <0.000010>\n"
                    f"9 1699.{at + 1:06d} pwrite64(3, \"\"..., 65536, 0) = 65536 <0.000010>\n"
                    f"9 1699.{at + 2:06d} close(3) = 0 <0.000010>\n" for at in range(0, 90, 3))  # fmt: skip
    (tmp_path / "x.strace").write_text(lines)
    cli("trace", "convert", str(tmp_path / "x.strace"), "--root", str(tmp_path), "-o", str(trace)).ok()
    run = measured(cli, "replay", str(data), str(trace), "--clients", "2")
    assert run["status"] == "complete" and run_folders(data) == []
    (cell,) = [each for each in run["cells"] if each["workload"] != "prepare"]
    assert cell["clients"]["count"] == 2 and cell["bytes"] == 2 * 30 * 65536


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep", "sim:", "--clients", "2"], "--clients: every client would have a simulated server of its own"),
        (["sweep", "{}", "--share", "file"], "--share file: give --clients, --hosts or --scheduler, too"),
        (["sweep", "{}", "--clients", "2", "--share", "all"], "--share 'all': choose one of own, folder, file"),
        (["apps", "{}", "--clients", "2", "--share", "folder"], "apps works in a folder of each client; leave it out"),
        (["job", "{}", "copy-out", "--clients", "2", "--to", "{}/x"], "several clients would write there"),
        (["sweep", "{}", "--clients", "0"], "--clients: give at least 1"),
        (["sweep", "{}", "--hosts", "a", "--scheduler", "tcp://b"], "leave --clients and --scheduler out"),
        (["sweep", "{}", "--hosts", "a b"], "--hosts 'a b': write user@host:port"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, cli: Cli, words: list[str], message: str) -> None:
    done = cli(*(each.format(tmp_path) for each in words))
    assert done.code == 2 and message in done.err
    assert run_folders(tmp_path) == []


@pytest.fixture
def load(tmp_path: Path, cli: Cli) -> Iterator[subprocess.Popen[str]]:
    """Three clients under a load of little effort, with the window begun."""
    words = ["sustained", str(tmp_path), "--clients", "3", "--duration", "60s", "--size", "8m", "--rate", "3MB/s"]
    with subprocess.Popen(
        [sys.executable, "-m", "naslab", *words, "--quiet"], env=cli.env, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        until = time.monotonic() + HANG_S
        while len(workers_of(process.pid)) < 3 or len(run_folders(tmp_path)) < 3:
            assert process.poll() is None and time.monotonic() < until, "the load did not begin"
            time.sleep(0.1)
        while cli.cells_stored() < 1:  # the files are written
            assert process.poll() is None and time.monotonic() < until, "the files were not written"
            time.sleep(0.1)
        time.sleep(2)
        yield process
        if process.poll() is None:
            process.kill()


def workers_of(pid: int) -> list[int]:
    """Processes below `pid` that a fork server began: those with the most parents in between."""
    found, below = [], [pid]
    while below:
        children = [child for each in below for child in _children(each)]
        found, below = children or found, children
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def only_run(cli: Cli) -> dict[str, Any]:
    (run,) = cli.runs()
    found: dict[str, Any] = cli("show", run["run_id"], "--json").ok().json()
    return found


@pytest.mark.lab
@pytest.mark.parametrize(("number", "words"), [(signal.SIGKILL, "went away"), (signal.SIGSTOP, "did not answer for 1")])
def test_a_client_that_is_lost(
    tmp_path: Path, cli: Cli, load: subprocess.Popen[str], number: signal.Signals, words: str
) -> None:
    """Named, the run is invalid, the others' measurement is kept, and nothing is left behind."""
    victim = workers_of(load.pid)[-1]
    os.kill(victim, number)
    _, said = load.communicate(timeout=HANG_S)
    assert load.returncode == 1 and words in said
    run = only_run(cli)
    assert run["status"] == "failed"
    lost = [each for each in run["environment"]["clients"] if each["lost"]]
    assert len(lost) == 1 and words in lost[0]["lost"] and lost[0]["pid"] == victim
    cell = next(each for each in run["cells"] if each["workload"] == "sustained")
    assert cell["status"] == "failed" and words in cell["first_error"]
    kept = [each["client"] for each in cell["clients"]["each"]]
    assert len(kept) == 2 and lost[0]["client"] not in kept and cell["bytes"] > 0
    assert run_folders(tmp_path) == [], "a client that is there removed what the lost one made"
    assert not Path(f"/proc/{victim}").exists() or Path(f"/proc/{victim}/stat").read_text().split()[2] in "ZX"


@pytest.mark.lab
def test_a_client_that_is_late(tmp_path: Path, cli: Cli) -> None:
    """One that stands still again and again begins some cells late: these say so, and name it; no others do."""
    words = ["sweep", str(tmp_path), "--file-size", "256k", "--record", "64k", "--tests", "write,read"]
    with subprocess.Popen(
        [sys.executable, "-m", "naslab", *words, "--repeat", "60", "--clients", "3"], env=cli.env,
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        until = time.monotonic() + HANG_S
        while cli.cells_stored() < 2:
            assert process.poll() is None and time.monotonic() < until, "the load did not begin"
            time.sleep(0.05)
        victim = workers_of(process.pid)[-1]
        # Only a stop between two cells begins one late, and that is chance: so there are many, as long as the run goes.
        for _ in range(80):
            if process.poll() is not None:
                break
            with contextlib.suppress(ProcessLookupError):  # the run is done
                os.kill(victim, signal.SIGSTOP)
                time.sleep(0.15)
                os.kill(victim, signal.SIGCONT)
            time.sleep(0.1)
        assert process.wait(60) == 0
    run = only_run(cli)
    (late,) = [each["client"] for each in run["environment"]["clients"] if each["pid"] == victim]
    said = [each for cell in run["cells"] for each in cell["warnings"] if each["kind"] == "start_skew"]
    told = {each["cell"]: each["message"] for each in said}
    apart = {cell["id"] for cell in run["cells"] if _apart_ns(cell) > 50e6}
    assert told.keys() == apart and len(apart) >= 2
    assert sum(f"client {late} (" in message for message in told.values()) >= 2


def _apart_ns(cell: Any) -> int:
    return int(cell["clients"]["start_skew_ns"] + cell["clients"]["clock_bound_ns"])


def test_ctrl_c_ends_all_and_keeps_what_was_measured(tmp_path: Path, cli: Cli, load: subprocess.Popen[str]) -> None:
    """As a terminal sends it: to every process of the group."""
    workers = workers_of(load.pid)
    os.killpg(load.pid, signal.SIGINT)
    _, said = load.communicate(timeout=HANG_S)
    assert load.returncode == 130 and "Traceback" not in said
    run = only_run(cli)
    assert run["status"] == "partial"
    cell = next(each for each in run["cells"] if each["workload"] == "sustained")
    assert cell["clients"]["count"] == 3 and cell["bytes"] > 0
    assert run_folders(tmp_path) == [] and not any(Path(f"/proc/{each}").exists() for each in workers)


def test_no_load_outlives_its_run(tmp_path: Path, cli: Cli, load: subprocess.Popen[str]) -> None:
    workers = workers_of(load.pid)
    load.kill()
    load.wait(10)
    until = time.monotonic() + HANG_S
    while any(Path(f"/proc/{each}").exists() for each in workers) and time.monotonic() < until:
        time.sleep(0.2)
    assert not any(Path(f"/proc/{each}").exists() for each in workers)
    assert run_folders(tmp_path) == [], "clients remove what they made before they go"


@pytest.mark.lab
@pytest.mark.parametrize("seed", range(4))
def test_any_process_killed_at_any_moment(tmp_path: Path, cli: Cli, seed: int) -> None:
    """No load goes on, what was stored can be read, and no folder stays that `clean` does not know."""
    chance = random.Random(seed)
    words = ["sustained", str(tmp_path), "--clients", "3", "--duration", "5s", "--size", "8m", "--rate", "3MB/s"]
    with subprocess.Popen(
        [sys.executable, "-m", "naslab", *words, "--quiet"], env=cli.env, text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        time.sleep(chance.uniform(0.5, 9))
        victims = session_of(process.pid)
        if victims:
            with contextlib.suppress(ProcessLookupError):  # the run ended by itself
                os.kill(chance.choice(victims), signal.SIGKILL)
        _, said = process.communicate(timeout=HANG_S)
        assert "Traceback" not in said, said
        until = time.monotonic() + HANG_S
        while session_of(process.pid) and time.monotonic() < until:
            time.sleep(0.2)
        assert session_of(process.pid) == []
    for run in cli.runs():
        cli("show", run["run_id"]).ok()
    if run_folders(tmp_path):
        cli("clean", str(tmp_path)).ok()
    assert run_folders(tmp_path) == []


def session_of(pid: int) -> list[int]:
    """Processes of the session that `pid` leads, itself included; none that only wait to be collected."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rpartition(") ")[2].split()[:4]
            if int(session) == pid and state not in "ZX":
                found.append(int(path.parent.name))
    return sorted(found)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 48 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=48m", "none", str(folder)]
    need(subprocess.run(words, capture_output=True, check=False).returncode == 0, "a mount of tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.lab
def test_no_room_for_all_is_told_before(cli: Cli, small: Path) -> None:
    """One client's file would fit."""
    words = ("sweep", str(small), "--file-size", "24m", "--record", "1m", "--tests", "write")
    done = cli(*words, "--clients", "3")
    assert done.code == 2 and "choose smaller files" in done.err and os.listdir(small) == []
    cli(*words).ok()


@pytest.mark.lab
def test_room_that_ends_on_the_way(cli: Cli, small: Path) -> None:
    """Somebody else fills the disk: it is said so, what was measured before is kept, and what was made is removed."""
    words = ["sweep", str(small), "--file-size", "4m", "--record", "64k", "--tests", "write", "--repeat", "300"]
    with subprocess.Popen(
        [sys.executable, "-m", "naslab", *words, "--clients", "3", "--quiet"], env=cli.env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        until = time.monotonic() + HANG_S
        while cli.cells_stored() < 3:
            assert process.poll() is None and time.monotonic() < until, "nothing was measured"
            time.sleep(0.05)
        with Path(small, "filler").open("wb", buffering=0) as filler:
            while process.poll() is None and time.monotonic() < until:  # also what a truncated file gives back
                try:
                    filler.write(bytes(64 << 10))
                except OSError:
                    time.sleep(0.0005)
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 1 and "No space left" in said and "Traceback" not in said
    run = only_run(cli)
    assert sum(each["errors"] for each in run["cells"][-1]["clients"]["each"]) > 0, "each client's own errors"
    assert run["status"] == "failed"
    assert [each["status"] for each in run["cells"]][:3] == ["complete"] * 3
    assert os.listdir(small) == ["filler"]
