#!/usr/bin/env python3
"""Measures what many clients cost: start, skew, control messages, merging, and one client beside none.

    .venv/bin/python benches/many_clients.py start cost traffic merge plane calls
    sudo .venv/bin/python benches/many_clients.py skew        # eight hosts of the lab, with an sshd in each

Each prints its figure and its bar. Nothing else may work on the machine but for `merge`, which counts processor time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

NASLAB = [sys.executable, "-m", "naslab"]
MANY, HOSTS, MERGED = 64, 8, 1000
ROUNDS, SKEWS = 11, 240
SHORT_S, LONG_S, TALKING = 5, 25, 8
START_S, SKEW_MS, COST, TRAFFIC, MERGE_S, MERGE_MB = 10.0, 10.0, 1.02, 10_000.0, 2.0, 500.0


def run(*words: str, env: dict[str, str] | None = None, inside: list[str] | None = None) -> dict[str, Any]:
    """The document of the real command."""
    with tempfile.TemporaryDirectory(prefix="naslab-bench-") as folder:
        command = [*(inside or []), *NASLAB, *words, "--json", "--quiet", "--store", f"{folder}/runs.sqlite"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return dict(json.loads(done.stdout))


def told(what: str, value: float, bar: float, unit: str) -> bool:
    """Prints a figure beside its bar; whether it is held."""
    print(f"{'ok  ' if value <= bar else 'MISS'} {what}: {value:.4g} {unit} (at most {bar:g})", flush=True)
    return value <= bar


def start() -> bool:
    """From the command to the first operation of 64 clients of this machine."""
    with tempfile.TemporaryDirectory(prefix="naslab-bench-") as data:
        begun_ns = time.time_ns()
        found = run("sweep", data, "--file-size", "64k", "--record", "64k", "--tests", "write", "--clients", str(MANY))
    (cell,) = found["cells"]
    assert cell["clients"]["count"] == MANY
    return told(f"{MANY} clients of this machine begin within", (cell["start_wall_ns"] - begun_ns) / 1e9, START_S, "s")


def cost() -> bool:
    """Throughput without a cluster over that of one client, in pairs of changing order."""
    words = ["sustained", "null:", "--size", "1g", "--block", "4k", "--depth", "16", "--duration", "2s"]
    ratios = []
    for at in range(ROUNDS):
        rates = {}
        for clients in ((), ("--clients", "1"))[:: 1 if at % 2 else -1]:
            (cell,) = (each for each in run(*words, *clients)["cells"] if each["workload"] == "sustained")
            rates[clients] = cell["ops"] / cell["duration_ns"]
        ratios.append(rates[()] / rates["--clients", "1"])
    print("  ratios:", " ".join(f"{each:.3f}" for each in sorted(ratios)))
    return told("without a cluster over --clients 1, operations a second", statistics.median(ratios), COST, "times")


def loopback_bytes() -> int:
    """What the loopback device has received since it came up."""
    return int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())


def traffic() -> bool:
    """Bytes on the loopback that a longer window adds, by client and second: a local folder has no other traffic."""
    moved = {}
    with tempfile.TemporaryDirectory(prefix="naslab-bench-") as data:
        for seconds in (SHORT_S, LONG_S):
            before = loopback_bytes()
            load = ("--size", "1m", "--block", "64k", "--rate", "5MB/s", "--duration", f"{seconds}s")
            run("sustained", data, *load, "--clients", str(TALKING))
            moved[seconds] = loopback_bytes() - before
    each = (moved[LONG_S] - moved[SHORT_S]) / (LONG_S - SHORT_S) / TALKING
    return told("control messages by client, both directions", each, TRAFFIC, "bytes/s")


def merge() -> bool:
    """Processor time and memory of merging 1,000 clients' cells with full histograms, in a process of its own."""
    code = (
        "import resource, time\n"
        "from unit.test_cluster_merge import measured\nfrom naslab.execution.clients.merge import Part, merge\n"
        f"parts = [Part(at, *measured(at % 7), lambda ns: ns, 1000) for at in range({MERGED})]\n"
        "begun = time.process_time()\nmerge(parts, 0)\n"
        "print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=with_tests())
    seconds, megabytes = map(float, done.stdout.split())
    held = told(f"merging {MERGED:,} clients' cells, processor time", seconds, MERGE_S, "s")
    return told("memory of the whole process", megabytes, MERGE_MB, "MiB") and held


PLANE = """
import dataclasses, json, resource, time
from naslab.execution.clients.launch import LoopThread
from naslab.execution.clients.run import ClusterRun
from unit.test_cluster_merge import measured
from unit.test_cluster_run import CELL, SPEC, Agents, Owner, stage

def used():
    return time.process_time()

for count in COUNTS:
    loop, agents = LoopThread(), Agents(measured(5))
    run = ClusterRun(Owner(agents, count), loop, SPEC, "{}", 1)
    begun = used()
    end, (first,) = stage(run, CELL)
    opened = used()
    _, (cell,) = stage(run, dataclasses.replace(CELL, id=8))
    again = used()
    run.finish()
    size = len(json.dumps(cell))
    print(f"  {count:5d} clients: begin {opened - begun:5.2f} s, a cell {again - opened:5.2f} s, "
          f"end {used() - again:5.2f} s of processor; {len(agents.calls):6,} calls; "
          f"its document {size / 1e6:.2f} MB", flush=True)
    loop.close()
"""


def plane() -> bool:
    """The run's own process with up to 1,000 simulated clients: processor time without Dask and without a network."""
    words = [sys.executable, "-c", PLANE.replace("COUNTS", str((10, 100, MERGED)))]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=with_tests())
    print(done.stdout, end="")
    return True


def calls() -> bool:
    """Calls a second on eight agents through Dask's scheduler, all at once and again: what looks at clients cost."""
    code = (
        "import asyncio, time\n"
        "from naslab.execution.clients.launch import Wanted\nfrom naslab.execution.clients.run import Clients\n"
        f"def main():\n    clients = Clients(Wanted({HOSTS}))\n    clients._start()\n"
        "    each = clients.fresh('bench')\n"
        "    async def work():\n        made = 0\n        until = time.monotonic() + 5\n"
        "        while time.monotonic() < until:\n"
        "            await asyncio.gather(*(one.call('clock') for one in each for _ in range(4)))\n"
        "            made += 4 * len(each)\n        return made / 5\n"
        "    print(clients._loop.run(work()))\n    clients.close()\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    with tempfile.TemporaryDirectory(prefix="naslab-bench-") as folder:
        path = Path(folder) / "calls.py"
        path.write_text(code)
        done = subprocess.run([sys.executable, str(path)], check=True, capture_output=True, text=True)
    print(f"  {float(done.stdout):,.0f} calls a second through the scheduler, {HOSTS} workers on this machine")
    return True


def with_tests() -> dict[str, str]:
    """The environment in which the tests' helpers can be imported."""
    path = os.pathsep.join([str(Path(__file__).parents[1] / "tests"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


@contextlib.contextmanager
def hosts(count: int) -> Iterator[tuple[Any, Path, list[str]]]:
    """(server, home whose ssh knows the hosts, addresses) of a lab with so many clients."""
    import ssh_server
    from naslab import lab

    addresses = [f"10.77.0.{2 + at}" for at in range(count)]
    with tempfile.TemporaryDirectory(prefix="naslab-bench-") as folder, contextlib.ExitStack() as stack:
        home, file = Path(folder), Path(folder) / "hosts.toml"
        ssh_server.make_keys(home / ".ssh")
        ssh_server.python_with_this_naslab(home)
        text = f'[server]\nkind = "ganesha"\n[link]\nrate = "1Gbit/s"\n[clients]\ncount = {count}\n'
        file.write_text(f'what = "clients of one server"\n{text}')
        server = stack.enter_context(lab.running(str(file)))
        for number, address in enumerate(addresses, 1):
            stack.enter_context(ssh_server.running(home / ".ssh", address, 22, server.inside(number)))
        yield server, home, addresses


def skew() -> bool:
    """How far apart the clients of eight hosts begin, over many cells: the 99th percentile."""
    with hosts(HOSTS) as (server, home, addresses):
        keys = ("--ssh-key", str(home / ".ssh" / "id"), "--remote-python", str(home / "python"))
        load = ("--file-size", "64k", "--record", "64k", "--tests", "write,read", "--repeat", str(SKEWS // 2))
        words = ("sweep", server.url, *load, "--hosts", ",".join(addresses), *keys)
        found = run(*words, env={**os.environ, "HOME": str(home)}, inside=list(server.inside(1)))
    skews = sorted(cell["clients"]["start_skew_ns"] / 1e6 for cell in found["cells"])
    at = skews[min(int(0.99 * len(skews)), len(skews) - 1)]
    bounds = sorted(cell["clients"]["clock_bound_ns"] / 1e6 for cell in found["cells"])
    print(f"  {len(skews)} cells of {HOSTS} hosts: median {statistics.median(skews):.3g} ms, "
          f"largest {skews[-1]:.3g} ms; bound of the clocks: median {statistics.median(bounds):.3g} ms")  # fmt: skip
    return told("skew of the starts, 99th percentile", at, SKEW_MS, "ms")


FIGURES: dict[str, Callable[[], bool]] = {
    "start": start, "cost": cost, "traffic": traffic, "merge": merge, "plane": plane,
    "calls": calls, "skew": skew,
}  # fmt: skip


def main() -> int:
    """0 when all bars are held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("figures", nargs="*", choices=[*FIGURES, []], help="all but skew when none is named")
    wanted = parser.parse_args().figures or [name for name in FIGURES if name != "skew"]
    print(f"{os.cpu_count()} processors, {os.uname().sysname} {os.uname().release}, Python {sys.version.split()[0]}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = [FIGURES[name]() for name in wanted]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
