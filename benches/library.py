#!/usr/bin/env python3
"""Measures `naslab serve` over a store of many runs: how long the server takes for each kind of page.

    .venv/bin/python benches/library.py build /var/tmp/library.sqlite --runs 10000
    .venv/bin/python benches/library.py measure /var/tmp/library.sqlite

`build` measures one sweep of a simulated server and saves it under other names, times and speeds; called again it
goes on where it stopped. `measure` starts the real command and asks each page with queries that were not asked
before, so that no kept page answers, then once more. Times are wall time at the client, over the loopback, and
processor time of the server, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import http.client
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from naslab.results.document import iso_utc
from naslab.results.store import Store
from naslab.results.store.library import Library, Wanted

DEVICES = 120
SWEEP = ["sweep", "sim:?link_bytes_per_s=118MB&latency_ns=200us", "--file-size", "1m,16m,64m", "--record", "64k,1m",
         "--tests", "write,read,random_read", "--repeat", "4", "--quiet"]  # fmt: skip
BUDGET_MS = 300
SECONDS_A_DAY = 86_400


def template() -> tuple[dict, dict[int, dict[str, bytes]]]:
    """A measured run and its raw data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.sqlite"
        subprocess.run([sys.executable, "-m", "naslab", *SWEEP, "--store", str(path)], check=True, timeout=120)
        run = Store(path).load("last")
        blobs = {cell["id"]: {name: run.blob(cell, name) for name in run.blob_names(cell)} for cell in run.cells}
        return dict(run.document), blobs


def build(path: Path, runs: int, seconds: float) -> int:
    """Fills the store up to `runs` runs, or for so many seconds; 0 when it holds them."""
    document, blobs = template()
    store = Store(path)
    ends = time.monotonic() + seconds
    held = len(store.list_runs())
    for number in range(held, runs):
        made = renamed(document, number)
        store.save(made, blobs)
        if time.monotonic() > ends:
            break
    held = len(store.list_runs())
    print(f"{path}: {held:,} runs, {path.stat().st_size / 1e6:,.0f} MB")
    return 0 if held >= runs else 1


def renamed(document: dict, number: int) -> dict:
    """The same run of another device, day and speed; the speed differs by repeat, too."""
    rng = random.Random(number)
    made = {**document, "cells": [dict(cell) for cell in document["cells"]]}
    start = document["start_wall_ns"] - number * SECONDS_A_DAY * 10**9 // 20
    device = number % DEVICES
    made.update(
        run_id=f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(start // 10**9))}-{number:04x}", start_wall_ns=start,
        started_at=iso_utc(start), labels={"device": f"NAS {device:03}"},
        label=f"device=NAS {device:03} firmware {number}",
    )  # fmt: skip
    speed = 0.5 + device / DEVICES
    for cell in made["cells"]:
        factor = speed * rng.uniform(0.97, 1.03)
        for name in ("throughput_bytes_per_s", "throughput_mib_per_s", "acknowledged_bytes_per_s", "iops"):
            cell[name] *= factor
    return made


def addresses(path: Path) -> Iterator[tuple[str, str]]:
    """(kind of page, address), each address different."""
    library = Library(Store(path))
    rows, total = library.page(Wanted(), 0, -1)
    rng = random.Random(1)
    names = sorted({row.device for row in rows})
    for number in range(10):
        yield "list", f"/?page={1 + number * (total // 50) // 10}"
        yield "search", f"/?text=firmware+{rng.randrange(total)}"
        yield "filters", f"/?device={quote(rng.choice(names))}&test=read&text=nas"
        some = [rng.choice(rows).run_id for _ in range(8)]
        yield "overlay of 8 runs", "/overlay/?" + "&".join(f"run={run}" for run in some)
        yield (
            "overlay, 4 metrics",
            "/overlay/?metric=rate&metric=ops&metric=p50&metric=p99&" + "&".join(f"run={run}" for run in some[:4]),
        )
        chosen = rng.sample(names, 20)
        yield "ranking of 20", "/rank/?test=read&test=write&" + "&".join(f"device={quote(name)}" for name in chosen)
        yield "ranking of 40, newest", f"/rank/?test=random_read&which=newest&text={number}"
        yield "ranking of 40, all", f"/rank/?test=read&text={number}"
        yield "comparison of 2", f"/compare/?run={some[0]}&run={some[1]}"
        yield "run", f"/run/{some[2]}/"
        yield "JSON", f"/run/{some[3]}/run.json"
        yield "CSV", f"/run/{some[4]}/run.csv"
        yield "xlsx", f"/run/{some[5]}/run.xlsx"


def measure(path: Path) -> int:
    """Prints the times; 1 where a page took longer than BUDGET_MS."""
    wanted = list(addresses(path))
    command = [sys.executable, "-m", "naslab", "serve", "--listen", "127.0.0.1:0", "--store", str(path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        port = int(line.rstrip("/\n").rpartition(":")[2])
        ask(port, "/rank/")  # what the first page of all imports is not measured
        times: dict[str, list[tuple[float, float, float, int]]] = {}
        for kind, address in wanted:
            spent = cpu_ms(server.pid)
            first, size = ask(port, address)
            spent = cpu_ms(server.pid) - spent
            again, _ = ask(port, address)
            times.setdefault(kind, []).append((first, spent, again, size))
    finally:
        server.terminate()
        server.wait(10)
    print(f"{'page':24} {'median ms':>10} {'slowest ms':>11} {'cpu ms':>7} {'again ms':>9} {'kB':>7}")
    for kind, found in times.items():
        firsts, spent, agains, sizes = zip(*found, strict=True)
        print(f"{kind:24} {statistics.median(firsts):10.0f} {max(firsts):11.0f} {statistics.median(spent):7.0f} "
              f"{statistics.median(agains):9.1f} {statistics.median(sizes) / 1e3:7.0f}")  # fmt: skip
    return int(any(one[0] > BUDGET_MS for found in times.values() for one in found))


def cpu_ms(pid: int) -> float:
    """Processor time of a process's threads so far, in milliseconds."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def ask(port: int, address: str) -> tuple[float, int]:
    """(milliseconds until the whole answer was there, its bytes)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    start = time.perf_counter()
    connection.request("GET", address)
    answer = connection.getresponse()
    data = answer.read()
    took = time.perf_counter() - start
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{address}: {answer.status}")
    return took * 1e3, len(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("build")
    making.add_argument("store", type=Path)
    making.add_argument("--runs", type=int, default=10_000)
    making.add_argument("--seconds", type=float, default=1e9, help="stop after so long; call it again to go on")
    commands.add_parser("measure").add_argument("store", type=Path)
    given = parser.parse_args()
    return build(given.store, given.runs, given.seconds) if given.command == "build" else measure(given.store)


if __name__ == "__main__":
    sys.exit(main())
