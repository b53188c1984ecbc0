"""Three hosts in network namespaces, each with an address and an sshd of its own, at a server behind a shaped link.

Rates are asserted: nothing else may work on the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ssh_server
from cli_tools import Cli, need
from naslab import lab
from naslab.lab.link import PAYLOAD_SHARE
from naslab.lab.server import Server

LINK_BITS_PER_S = 200_000_000
OWN_BITS_PER_S = 80_000_000
CAN_CARRY, OWN_CARRIES = (each / 8 * PAYLOAD_SHARE for each in (LINK_BITS_PER_S, OWN_BITS_PER_S))
CLIENTS = ("10.77.0.2", "10.77.0.3", "10.77.0.4")
SYSTEM = f"""
what = "Three clients and a server behind one link"
[server]
kind = "ganesha"
[link]
rate = "{LINK_BITS_PER_S // 1_000_000}Mbit/s"
queue = "600ms"
[clients]
count = 3
rate = "{OWN_BITS_PER_S // 1_000_000}Mbit/s"
"""
SWEEP = ("--file-size", "32m", "--record", "256k", "--depth", "4", "--tests")
READS, WRITES = ("write,read",), ("write",)
LADDER = ("--size", "16m", "--block", "64k", "--depth", "8", "--duration", "1s", "--scale", "1,2,3")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whose ssh knows the hosts; with a Python that has this naslab."""
    need(ssh_server.sshd() is not None, "openssh-server")
    need(os.geteuid() == 0, "root")
    home = tmp_path_factory.mktemp("hosts")
    ssh_server.make_keys(home / ".ssh")
    ssh_server.python_with_this_naslab(home)
    return home


@pytest.fixture(scope="module")
def server(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The lab, with an sshd for each client."""
    file = tmp_path_factory.mktemp("system") / "three.toml"
    file.write_text(SYSTEM)
    with lab.running(str(file)) as server, contextlib.ExitStack() as stack:
        for number, address in enumerate(CLIENTS, 1):
            stack.enter_context(ssh_server.running(home / ".ssh", address, 22, server.inside(number)))
        yield server


@pytest.fixture
def dask(server: Server, tmp_path: Path) -> Iterator[Path]:
    """A scheduler's file, with a worker in each client's namespace."""
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    plan = [(1, ["dask_scheduler", *common, "--host", CLIENTS[0], "--port", "0"])]
    for number, address in enumerate(CLIENTS, 1):
        plan.append((number, ["dask_worker", *common, "--no-nanny", "--nthreads", "1", "--host", address]))
    with contextlib.ExitStack() as stack:
        for number, (program, *words) in plan:
            command = [*server.inside(number), sys.executable, "-m", f"distributed.cli.{program}", *words]
            begun = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(begun.terminate)
        yield file


def sent_bytes(server: Server) -> int:
    """What the shaper before the link let through, as the wire counts it."""
    words = ["tc", "-s", "qdisc", "show", "dev", "eth0"]
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    told = subprocess.run(
        [*server.inside(0), *words], check=True, capture_output=True, text=True, env={**os.environ, "PATH": path}
    ).stdout
    shaped = told[told.index("qdisc tbf") :]
    found = re.search(r"Sent (\d+) bytes", shaped)
    assert found
    return int(found.group(1))


def measure(cli: Cli, server: Server, home: Path, command: str, *words: str) -> tuple[dict[str, Any], int]:
    """The run's document, and what went over the link to the clients meanwhile."""
    cli.env["HOME"] = str(home)
    before = sent_bytes(server)
    line = [*server.inside(1), sys.executable, "-m", "naslab", command, server.url, *words, "--quiet"]
    done = subprocess.run(line, env=cli.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sent = sent_bytes(server) - before
    newest = cli.runs()[0]["run_id"]
    run: dict[str, Any] = cli("show", newest, "--json").ok().json()
    return run, sent


def judge(run: dict[str, Any], can_carry: float = CAN_CARRY) -> None:
    """The link's limit is what is reported, and three readers share it."""
    assert run["status"] == "complete"
    cell = next(each for each in run["cells"] if each["op"] == "read")
    clients = cell["clients"]
    assert clients["count"] == 3
    assert cell["throughput_bytes_per_s"] == pytest.approx(can_carry, rel=0.03)
    # How even three TCP connections share a queue is the network's; what is said of it must be Jain's index.
    rates = [each["bytes_per_s"] for each in clients["each"]]
    assert clients["fairness"] == pytest.approx(sum(rates) ** 2 / (3 * sum(rate**2 for rate in rates)))
    assert min(rates) > 0


def over_ssh(home: Path) -> list[str]:
    key = str(home / ".ssh" / "id")
    return ["--hosts", ",".join(CLIENTS), "--ssh-key", key, "--remote-python", str(home / "python")]


def test_hosts_over_ssh(cli: Cli, server: Server, home: Path) -> None:
    """What writes send back is what a run that only writes sends; the rest went over the link to be read."""
    _, answers = measure(cli, server, home, "sweep", *SWEEP, *WRITES, *over_ssh(home))
    run, sent = measure(cli, server, home, "sweep", *SWEEP, *READS, *over_ssh(home))
    judge(run)
    assert len(run["environment"]["clients"]) == 3
    read = next(each for each in run["cells"] if each["op"] == "read")
    assert read["bytes"] == 3 * 32 << 20
    assert (sent - answers) * PAYLOAD_SHARE == pytest.approx(read["wire_received_bytes"], rel=0.01)


def test_a_cluster_that_runs(cli: Cli, server: Server, home: Path, dask: Path) -> None:
    judge(
        measure(
            cli, server, home, "sweep", *SWEEP, *READS, "--scheduler", str(dask), "--trust-network", "--clients", "3"
        )[0]
    )


def test_processes_of_one_host(cli: Cli, server: Server, home: Path) -> None:
    """All behind the link of their host."""
    load = ("--size", "16m", "--block", "64k", "--depth", "4", "--duration", "4s")
    judge(measure(cli, server, home, "sustained", *load, "--clients", "3")[0], can_carry=OWN_CARRIES)


def test_the_ladder_of_clients_names_the_servers_limit(cli: Cli, server: Server, home: Path) -> None:
    """Clients of 80 Mbit/s each, a server behind 200: two and a half fill it."""
    run, _ = measure(cli, server, home, "sustained", *LADDER, *over_ssh(home))
    scaling = run["scaling"]
    assert [(each["clients"], each["n"]) for each in scaling["rungs"]] == [(1, 4), (2, 4), (3, 4)]
    assert scaling["limited_by"] == "server"
    assert scaling["limit_bytes_per_s"] == pytest.approx(CAN_CARRY, rel=0.05)
    assert scaling["knee_clients"] == pytest.approx(LINK_BITS_PER_S / OWN_BITS_PER_S, rel=0.08)
    assert any("more clients add nothing" in each for each in run["summary"])
