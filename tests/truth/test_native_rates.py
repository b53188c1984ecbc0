"""Systems built natively: what was planted is what their disks move.

Rates are measured by fio in real time against a limiter, so they need the machine to themselves: the allowance is 15 %,
and what its host takes from its processors meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, need
from lab_tools import Stolen, inside, need_parts, own_folders
from naslab import lab
from naslab.lab import experiment, systems
from naslab.lab.link import PAYLOAD_SHARE
from naslab.lab.server import Server, start_system

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
MB = 1_000_000
MIB = 1 << 20


def fio(server: Server, path: Path, rw: str, *more: str, size_bytes: int = 128 * MIB) -> dict[str, Any]:
    """fio's findings for one file, past the page cache."""
    words = [
        "fio", "--name=x", f"--filename={path}", f"--rw={rw}", "--bs=256k", f"--size={size_bytes}", "--direct=1",
        "--ioengine=libaio", "--iodepth=4", "--output-format=json", *more,
    ]  # fmt: skip
    done = subprocess.run([*server.inside(), *words], check=True, capture_output=True, text=True, timeout=60)
    return dict(json.loads(done.stdout)["jobs"][0])


def rates(server: Server, path: Path) -> tuple[float, float]:
    """Bytes per second written and read."""
    written = fio(server, path, "write", size_bytes=64 * MIB)["write"]["bw_bytes"]
    return written, fio(server, path, "read", size_bytes=64 * MIB)["read"]["bw_bytes"]


def planted(server: Server) -> dict[str, float]:
    """Limits by name."""
    return {each["name"]: each["value"] for each in server.facts["limits"]}


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("single-xfs", "xfs", {}),
        ("raid1", "ext2/ext3", {"disks.size": "192MiB"}),
        ("raid5", "ext2/ext3", {"disks.size": "128MiB"}),
    ],
)
def test_disks_move_what_was_planted(name: str, kind: str, options: dict[str, str]) -> None:
    need_parts(name)
    size_bytes = 48 * MIB if name == "raid1" else 96 * MIB
    with lab.running(name, **options) as server:
        assert inside(server, f"stat -f -c %T {server.data}").strip() == kind
        limits = planted(server)
        deep = "--iodepth=16"
        with Stolen() as writing:
            written = fio(server, server.data / "f", "write", deep, size_bytes=size_bytes)["write"]["bw_bytes"]
        long = (deep, "--time_based", "--runtime=2")
        with Stolen() as reading:
            read = fio(server, server.data / "f", "read", *long, size_bytes=size_bytes)["read"]["bw_bytes"]
    # A RAID 5 of btrfs writes its parity at some cost; two copies may be read side by side.
    lows = {"raid5": 0.6}
    write_limit = limits.get("volume.write", limits["disks.write"])
    read_limit = limits.get("volume.read", limits["disks.read"])
    assert (lows.get(name, 0.85) - writing.share) * write_limit < written < 1.15 * write_limit
    assert (0.85 - reading.share) * read_limit < read < (2.3 if name == "raid1" else 1.15) * read_limit


def test_a_disk_of_a_pool_moves_what_was_planted() -> None:
    need_parts("pool")
    with lab.running("pool", **{"disks.size": "128MiB", "filesystem.type": "ext3"}) as server:
        with Stolen() as stolen:
            found = rates(server, server.folder / "disk2" / "files" / "f")
        assert all((0.85 - stolen.share) * 67 * MB < each < 1.2 * 67 * MB for each in found)


@contextlib.contextmanager
def of_experiment(name: str, part: str) -> Iterator[Server]:
    """A system of an article's experiment, in its quick size, while the context lasts."""
    found = experiment.load(name, "quick").systems[part]
    assert found.parts is not None
    made = systems.defined(dict(found.parts), f"{name}.toml", part)
    said = systems.said_of(made)
    need(any(each.builds for each in said), "; ".join(each.why_not for each in said))
    server = start_system(part, made)
    try:
        yield server
    finally:
        server.stop()


def test_the_credit_of_the_tiers_network_is_found_by_its_rates_and_its_size(cli: Cli) -> None:
    """Reads of memory spend it: the disk, whose bucket is another, takes no part."""
    with of_experiment("fsx-32", "tier-32-network") as server:
        words = ("--size", "64m", "--block", "1m", "--random", "--depth", "4", "--duration", "7s", "--quiet", "--json")
        with Stolen() as stolen:
            login = ("--credentials", server.credentials)
            run = cli("sustained", server.url, *words, *login, prefix=server.inside(), timeout=90).ok().json()
        limits = planted(server)
    (regime,) = run["sustained"]["regimes"]
    assert regime["kind"] == "read" and [cell["regime"] for cell in run["cells"]][-1] == "baseline"
    rate, base, size = (limits[f"link.burst.{each}"] * PAYLOAD_SHARE for each in ("rate", "base", "size"))
    burst, floor = regime["burst_bytes_per_s"], regime["baseline_bytes_per_s"]
    # A machine that is busy carries less than the link while there is credit; the credit then lasts the longer.
    assert (0.6 - stolen.share) * rate < burst < 1.03 * rate
    assert (0.9 - stolen.share) * base < floor < 1.05 * base
    assert (burst - base) * regime["dropped_ns"] / 1e9 == pytest.approx(size, rel=0.15)


def test_a_pool_of_four_keeps_two_copies_and_reads_as_one_disk() -> None:
    with of_experiment("fast-nas", "home-server-four") as server:
        rate, file = planted(server)["disks.rate"], server.data / "f"
        copies = f"find {server.folder}/disk*/files -type f -size 64M"
        inside(server, f"head -c 64M /dev/zero > {file}; sync {file}")
        for _ in range(60):  # a file rests for two seconds before its second copy is made
            if len(found := inside(server, copies).split()) == 2:
                break
            time.sleep(0.25)
        forget = "oflag=nocache conv=notrunc,fdatasync count=0 status=none"
        inside(server, "\n".join(f"dd of={each} {forget}" for each in found))
        with Stolen() as stolen:
            begin = time.monotonic()
            inside(server, f"dd if={file} of=/dev/null bs=1M status=none")
            read = 64 * MIB / (time.monotonic() - begin)
    assert len({Path(each).relative_to(server.folder).parts[0] for each in found}) == len(found) == 2
    assert (0.8 - stolen.share) * rate < read < 1.2 * rate, "one of four disks, whose copies are not read by turns"


def test_clients_of_different_rates_read_beside_each_other(cli: Cli) -> None:
    """Each is limited by its own link, and the quick one is left what the slow one cannot take."""
    need_parts("clients")
    quick, slow = (each / 8 * PAYLOAD_SHARE for each in (400_000_000, 80_000_000))
    options = {"link.rate": "400Mbit/s", "clients.count": "2", "clients.rates": "400Mbit/s,80Mbit/s"}
    load = ("--size", "16m", "--block", "256k", "--depth", "4", "--duration", "4s", "--quiet", "--json")

    def read(server: Server, client: int) -> float:
        words = (*load, "--credentials", server.credentials, "--store", cli.folder / f"{client}.sqlite")
        run = cli("sustained", server.url, *words, prefix=server.inside(client), timeout=60).ok().json()
        return float(run["cells"][-1]["throughput_bytes_per_s"])

    with lab.running("clients", **options) as server, ThreadPoolExecutor(2) as pool, Stolen() as stolen:
        alone = read(server, 2)
        both = [*pool.map(lambda client: read(server, client), (1, 2))]
    share = 0.85 - stolen.share
    assert share * slow < alone < 1.03 * slow
    # The slow one starts a moment later or ends earlier, as its file takes longer to be written.
    assert share * (quick - slow) < both[0] < 1.03 * quick
    assert 0.5 * slow < both[1] < 1.03 * slow and sum(both) < 1.1 * quick


def test_a_shared_budget_latency_and_one_link(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "served.toml"
    file.write_text("""
        what = "one budget, slow answers, 100 Mbit/s"
        [[disks]]
        size = "64MiB"
        rate = "40MB/s"
        latency = "10ms"
        [server]
        kind = "samba"
        [link]
        rate = "100Mbit/s"
    """)
    need(any(each.builds for each in systems.said_of(systems.from_file(file))), "nbdkit, qemu-nbd, nbdfuse")
    with lab.running(str(file)) as server:
        assert server.name == "served" and server.facts["backend"] == "native"
        # Alternating requests in one job: both ways together stay within the budget.
        done = fio(server, server.data / "f", "rw", "--iodepth=16", size_bytes=32 * MIB)
        both = done["read"]["bw_bytes"] + done["write"]["bw_bytes"]
        assert 0.8 * 40 * MB < both < 1.2 * 40 * MB
        one = fio(server, server.data / "f", "randread", "--bs=4k", "--iodepth=1", "--io_size=256k", size_bytes=MIB)
        assert 10 * MB < one["read"]["clat_ns"]["percentile"]["50.000000"] < 14 * MB
        words = ("--credentials", server.credentials, "--file-size", "4m", "--record", "1m")
        document = cli.sweep(server.url, *words, prefix=server.inside())
        reads = [cell["throughput_bytes_per_s"] for cell in document["cells"] if cell["op"] == "reread"]
        assert 0.8 * 12 * MB < max(reads) < 12.5 * MB, "no faster than the wire"
