"""Systems built natively: what was planted is what their disks move.

Rates are measured by fio in real time against a limiter, so they need the machine to themselves: the allowance is 15 %,
and what its host takes from its processors meanwhile.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli_tools import Cli, need
from lab_tools import Stolen, inside, need_parts, own_folders
from naslab import lab
from naslab.lab import systems
from naslab.lab.server import Server

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
