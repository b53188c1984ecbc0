"""Clients begun over ssh, and those of a Dask cluster that runs already."""

from __future__ import annotations

import contextlib
import getpass
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ssh_server
from agent_tools import built
from cli_tools import HANG_S, Cli, run_folders
from lab_tools import need
from naslab import __version__

pytestmark = pytest.mark.lab


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


SMALL = ("--file-size", "16m", "--record", "1m", "--tests", "write,read")
REMOTE = "naslab.execution.clients.remote"


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A home whose ssh knows the server, and its port."""
    need(ssh_server.sshd() is not None, "openssh-server")
    home, port = tmp_path_factory.mktemp("ssh"), free_port()
    ssh_server.make_keys(home / ".ssh")
    ssh_server.python_with_this_naslab(home)
    with ssh_server.running(home / ".ssh", "127.0.0.1", port):
        yield home, port


def over(cli: Cli, ssh: tuple[Path, int], *words: str, python: str = "") -> list[str]:
    """The command line with two hosts, which are this machine."""
    home, port = ssh
    cli.env["HOME"] = str(home)
    names = ",".join([f"127.0.0.1:{port}"] * 2)
    key = str(home / ".ssh" / "id")
    return [*words, "--hosts", names, "--ssh-key", key, "--remote-python", python or str(home / "python")]


def remotes() -> list[int]:
    """Processes that were begun over ssh and live; those of other tests have schedulers elsewhere."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            if REMOTE in words and any(each.startswith("tls://127.0.0.1:") for each in words):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_hosts_measure_together(tmp_path: Path, cli: Cli, ssh: tuple[Path, int]) -> None:
    run = cli(*over(cli, ssh, "sweep", str(tmp_path), *SMALL), "--json").ok().json()
    assert [cell["clients"]["count"] for cell in run["cells"]] == [2, 2]
    assert [cell["bytes"] for cell in run["cells"]] == [32 << 20] * 2
    assert run_folders(tmp_path) == [] and remotes() == []


@pytest.mark.parametrize(
    ("python", "words"),
    [("/nowhere/python", "/nowhere/python"), ("sh", "clients could not be started: 127.0.0.1")],
)
def test_a_host_without_naslab_says_so(
    tmp_path: Path, cli: Cli, ssh: tuple[Path, int], python: str, words: str
) -> None:
    done = cli(*over(cli, ssh, "sweep", str(tmp_path), *SMALL, python=python))
    assert done.code == 2 and words in done.err, done.err
    assert run_folders(tmp_path) == [] and cli.runs() == []


def agents() -> list[int]:
    """Processes of naslab-agent that were begun over ssh and live; those of other tests lie elsewhere."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            program, _, rest = path.read_bytes().partition(b"\0")
            if re.fullmatch(rb"/tmp/naslab-agent\.\w+/naslab-agent", program) and rest == b"serve\0":
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("way", ["named", "a folder", "installed"])
def test_hosts_without_naslab_measure_with_its_agent(way: str, tmp_path: Path, cli: Cli, ssh: tuple[Path, int]) -> None:
    """It is copied there, and gone from their disks; what it measures is merged like any client's."""
    program, home = built(), ssh[0]
    name = f"naslab-agent-{__version__}-{platform.machine()}-linux"
    data, folder = (
        tmp_path / "data",
        {"a folder": tmp_path / "agents", "installed": home / ".local/share/naslab"}.get(way),
    )
    data.mkdir()
    if folder is not None:
        folder.mkdir(parents=True)
        shutil.copy(program, folder / name)
    words = {"named": ("--agent", str(program)), "a folder": ("--agent", str(folder)), "installed": ()}[way]
    before = {path.name for path in Path("/tmp").glob("naslab-agent*")}
    try:
        run = cli(*over(cli, ssh, "sweep", str(data), *SMALL, *words, python="/nowhere/python"), "--json").ok().json()
    finally:
        if way == "installed":
            shutil.rmtree(home / ".local")
    assert [cell["clients"]["count"] for cell in run["cells"]] == [2, 2]
    assert [cell["bytes"] for cell in run["cells"]] == [32 << 20] * 2
    assert [each["python"] for each in run["environment"]["clients"]] == [None, None]
    assert all(each["host"] == platform.node() and each["lost"] is None for each in run["environment"]["clients"])
    assert run_folders(data) == [] and agents() == []
    assert {path.name for path in Path("/tmp").glob("naslab-agent*")} == before


def test_what_an_agent_cannot_do_is_told(tmp_path: Path, cli: Cli, ssh: tuple[Path, int]) -> None:
    program = str(built())
    data = tmp_path / "data"
    data.mkdir()
    job = cli(*over(cli, ssh, "job", str(data), "zip", "--agent", program))
    assert job.code == 2 and "127.0.0.1): its naslab-agent carries out no jobs" in job.err, job.err
    wrong = cli(*over(cli, ssh, "sweep", str(data), *SMALL, "--agent", "/bin/true"))
    assert wrong.code == 2 and "--agent: that is another program" in wrong.err, wrong.err
    missing = cli(*over(cli, ssh, "sweep", str(data), *SMALL, "--agent", str(tmp_path / "none")))
    assert missing.code == 2 and "none: no such file; tools/agent makes naslab-agent-" in missing.err, missing.err
    alone = cli("sweep", str(data), *SMALL, "--agent", program)
    assert alone.code == 2 and "--agent" in alone.err and "--hosts" in alone.err
    assert list(data.iterdir()) == [] and cli.runs() == [] and agents() == []


@pytest.mark.parametrize("way", ["python", "agent"])
def test_no_load_outlives_the_connection(way: str, tmp_path: Path, cli: Cli, ssh: tuple[Path, int]) -> None:
    """The run's own process is killed: its hosts end the load and remove what they made."""
    load = ["sustained", str(tmp_path), "--duration", "60s", "--size", "8m", "--rate", "3MB/s", "--quiet"]
    living, more = {"python": (remotes, ()), "agent": (agents, ("--agent", str(built())))}[way]
    words = [sys.executable, "-m", "naslab", *over(cli, ssh, *load, *more)]
    with subprocess.Popen(words, env=cli.env) as process:
        until = time.monotonic() + HANG_S
        while len(run_folders(tmp_path)) < 2:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.1)
        assert len(living()) == 2
        time.sleep(1)
        process.kill()
    until = time.monotonic() + HANG_S
    while (living() or run_folders(tmp_path)) and time.monotonic() < until:
        time.sleep(0.2)
    assert living() == [] and run_folders(tmp_path) == []


def test_the_cluster_file_of_iozone(tmp_path: Path, cli: Cli, ssh: tuple[Path, int]) -> None:
    """Two clients, which are this machine, two children on each."""
    home, port = ssh
    cli.env["HOME"] = str(home)
    file, data = tmp_path / "clients", tmp_path / "data"
    data.mkdir()
    lines = [f"{name}127.0.0.1:{port} {data} /opt/iozone" for name in ("", f"{getpass.getuser()}@")]
    file.write_text("# client folder program\n" + "\n".join([*lines, *lines]) + "\n")
    words = ["-+m", str(file), "-t", "4", "-s", "4m", "-r", "1m", "-i", "0", "-i", "1", "-x", "-C", "--json"]
    keys = ["--ssh-key", str(home / ".ssh" / "id"), "--remote-python", str(home / "python")]
    run = cli("iozone", *words, *keys).ok().json()
    assert [(cell["op"], cell["clients"]["count"], cell["bytes"]) for cell in run["cells"]] == [
        (op, 2, 16 << 20) for op in ("write", "rewrite", "read", "reread")
    ]
    assert [worker["worker"] for worker in run["cells"][0]["workers_detail"]] == [0, 1, 2, 3]
    said = cli("iozone", *words[:-1], *keys).ok().out
    assert "Children see throughput for  4 initial writers" in said and "Child[3] xfer count" in said, said
    assert run_folders(data) == [] and remotes() == []


def begin_cluster(folder: Path, *tls: str) -> tuple[Path, list[subprocess.Popen[bytes]]]:
    """The file of a Dask scheduler, and its process and those of two workers, as a batch system begins them."""
    file = folder / "scheduler.json"
    head = ["dask_scheduler", "--host", "tls://127.0.0.1" if tls else "127.0.0.1", "--port", "0", "--no-dashboard"]
    worker = ["dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard", "--name"]
    begun = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(file), *words, *tls],
            stderr=subprocess.DEVNULL,
        )
        for program, *words in (head, [*worker, "a"], [*worker, "b"])
    ]
    return file, begun


def end_cluster(begun: list[subprocess.Popen[bytes]]) -> None:
    for each in reversed(begun):
        each.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            each.wait(10)
        each.kill()
        each.wait(10)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Path]:
    """The file of a cluster that runs."""
    file, begun = begin_cluster(tmp_path)
    yield file
    end_cluster(begun)


def test_a_cluster_that_runs_measures(tmp_path: Path, cli: Cli, scheduler: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    words = ["sweep", str(data), *SMALL, "--scheduler", str(scheduler), "--clients", "2"]
    for _ in range(2):  # it stays as it was, and can be used again
        run = cli(*words, "--json").ok().json()
        assert [cell["clients"]["count"] for cell in run["cells"]] == [2, 2]
        assert run_folders(data) == []


def test_a_cluster_with_tls_of_its_own(tmp_path: Path, cli: Cli) -> None:
    """Both ends show a certificate, which Dask's own settings name; without it nobody gets in."""
    data, pem = tmp_path / "data", tmp_path / "own.pem"
    data.mkdir()
    make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=naslab-test"
    subprocess.run(
        ["openssl", *make.split(), "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
        check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pem.write_text((tmp_path / "key").read_text() + (tmp_path / "cert").read_text())
    tls = [word for name in ("ca-file", "cert", "key") for word in (f"--tls-{name}", str(pem))]
    file, begun = begin_cluster(tmp_path, *tls)
    try:
        words = ["sweep", str(data), *SMALL, "--scheduler", str(file), "--clients", "2", "--json"]
        strange = cli(*words)
        assert strange.code == 2 and "no client certificate: name its files in DASK_" in strange.err, strange.err
        for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY"):
            cli.env[f"DASK_DISTRIBUTED__COMM__TLS__{name}"] = str(pem)
        run = cli(*words).ok().json()
        assert [cell["clients"]["count"] for cell in run["cells"]] == [2, 2]
        assert run_folders(data) == []
    finally:
        end_cluster(begun)


def test_a_scheduler_that_dies_ends_the_run(tmp_path: Path, cli: Cli) -> None:
    """The run is told, what was measured is kept, and the clients end their load and remove what they made."""
    data = tmp_path / "data"
    data.mkdir()
    file, begun = begin_cluster(tmp_path)
    try:
        load = ["sweep", str(data), "--file-size", "8m", "--record", "1m", "--tests", "write,read,reread"]
        words = [*load, "--repeat", "1000", "--scheduler", str(file), "--clients", "2", "--quiet"]
        with subprocess.Popen(
            [sys.executable, "-m", "naslab", *words], env=cli.env, stderr=subprocess.PIPE, text=True
        ) as process:
            until = time.monotonic() + HANG_S
            while not cli.cells_stored():
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.2)
            begun[0].kill()
            _, said = process.communicate(timeout=HANG_S)
        assert process.returncode == 1 and "client" in said and "Traceback" not in said, said
        (run,) = cli.runs()
        assert run["status"] == "failed"
        until = time.monotonic() + HANG_S
        while run_folders(data) and time.monotonic() < until:
            time.sleep(0.2)
        assert run_folders(data) == []
    finally:
        end_cluster(begun)
