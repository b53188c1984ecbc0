"""`naslab profile` on a simulated disk with known rates, on folders and on files that exist."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cli_tools import HANG_S, Cli, need, populate, snapshot, wait_until
from naslab.results.schema import json_schema

DISK = "sim:?link_bytes_per_s=500MB&disk_read_bytes_per_s=100MB&disk_seek_ns=8ms&server_cache_bytes=8m"


def profile_of(cli: Cli, *words: object) -> Any:
    document = cli("profile", *words, "--json").ok().json()
    jsonschema.Draft202012Validator(json_schema(strict=True)).validate(document)
    assert document["status"] == "complete" and document["summary"]
    return document["profile"]


def test_planted_disk(cli: Cli) -> None:
    """100 MB/s everywhere, 8 ms to seek, 500 MB/s from the server's cache."""
    found = profile_of(cli, DISK, "--size", "256m", "--zones", "16", "-o", "r.html")
    assert len(found["zones"]) == 16 and not found["existing"]
    for zone in found["zones"]:
        assert zone["bytes_per_s"] == pytest.approx(100e6, rel=0.08) and zone["bytes"] == 16 << 20
    assert found["burst_bytes_per_s"] == pytest.approx(500e6, rel=0.03)
    assert found["access_ns"]["p50"] == pytest.approx(8.05e6, rel=0.03)
    page, shown = (cli.folder / "r.html").read_text(), cli("show", "last").ok().out
    assert "Rate by position" in page and "position" in shown and "Random access" in shown


def test_a_folder_is_left_as_it_was(cli: Cli) -> None:
    before = populate(cli.target)
    found = profile_of(cli, cli.target, "--size", "8m", "--zones", "4", "--sample", "1m")
    assert [zone["offset_bytes"] for zone in found["zones"]] == [zone * (2 << 20) for zone in range(4)]
    assert {zone["bytes"] for zone in found["zones"]} == {1 << 20}
    assert snapshot(cli.target) == before


def test_an_existing_file_is_only_read(cli: Cli) -> None:
    path = cli.target / "film.mkv"
    path.write_bytes(os.urandom((5 << 20) + 77))
    before = snapshot(cli.target)
    found = profile_of(cli, path, "--zones", "5", "--block", "64k")
    assert found["existing"] and found["file_bytes"] == 5 << 20 and len(found["zones"]) == 5
    assert snapshot(cli.target) == before


def test_a_budget_ends_it(cli: Cli) -> None:
    done = cli("profile", DISK, "--size", "256m", "--zones", "64", "--budget", "2s", "--json").sound()
    found = done.json()
    assert done.code == 0 and found["status"] == "partial" and 0 < len(found["profile"]["zones"]) < 64


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--zones", "0"), "--zones"), (("--block", "0"), "--block"), (("--size", "64k"), "--zones"),
        (("--sample", "1k"), "--sample"), (("--max-bytes", "1m"), "--max-bytes"), (("--depth", "0"), "--depth"),
    ],
)  # fmt: skip
def test_bad_options(words: tuple[str, ...], says: str, cli: Cli) -> None:
    before = populate(cli.target)
    done = cli("profile", cli.target, *words).sound()
    assert done.code == 2 and says in done.err and done.out == "" and done.err.count("\n") == 1
    assert snapshot(cli.target) == before and cli.runs() == []


def test_what_is_no_disk_is_refused(cli: Cli) -> None:
    (cli.target / "f").write_bytes(b"x" * 8192)
    os.mkfifo(cli.target / "pipe")
    for words, says in (
        (("/dev/zero",), "block device"), ((cli.target / "pipe",), "block device"),
        ((cli.target / "f", "--size", "1m"), "--size"), ((cli.target / "nothing",), "no such folder"),
    ):  # fmt: skip
        done = cli("profile", *words).sound()
        assert done.code == 2 and says in done.err, done.err
    assert cli.runs() == []


# disks


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A loop device of 32 MiB of random data, and the file behind it."""
    need(os.geteuid() == 0 and os.path.exists("/dev/loop-control") and shutil.which("losetup"), "loop devices, as root")
    image = tmp_path / "disk.img"
    image.write_bytes(os.urandom(32 << 20))
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    need(made.returncode == 0, f"a loop device ({made.stderr.strip()})")
    device = Path(made.stdout.strip())
    yield device, image
    subprocess.run(["losetup", "--detach", device], check=True)


def contents(device: Path) -> str:
    with device.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sectors(device: Path) -> tuple[int, int]:
    """Sectors read from and written to it since it was made, as the kernel counts them."""
    fields = Path(f"/sys/block/{device.name}/stat").read_text().split()
    return int(fields[2]), int(fields[6])


@pytest.mark.lab
def test_a_disk_is_only_read(cli: Cli, disk: tuple[Path, Path]) -> None:
    """All of it, in order, past the cache; not a sector is written, and it stays what it was."""
    device, image = disk
    before, (read, written) = contents(device), sectors(device)
    found = profile_of(cli, device, "--zones", "16", "--block", "256k", "-o", "r.html")
    assert found["existing"] and found["direct"] and found["file_bytes"] == 32 << 20
    assert [zone["offset_bytes"] for zone in found["zones"]] == [zone * (2 << 20) for zone in range(16)]
    assert {zone["bytes"] for zone in found["zones"]} == {2 << 20} and found["access_ns"]["p50"] > 0
    now = sectors(device)
    assert now[1] == written and (now[0] - read) * 512 >= 32 << 20
    assert stat.S_ISBLK(device.stat().st_mode) and contents(device) == before
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    document = cli("show", "last", "--json").ok().json()
    assert document["target"]["url"] == str(device) and document["environment"]["space"] is None
    assert document["environment"]["target"]["filesystem"] == "block device"
    assert f"Rate by position on {device}" in (cli.folder / "r.html").read_text()


@pytest.mark.lab
def test_what_writes_refuses_a_disk(cli: Cli, disk: tuple[Path, Path]) -> None:
    device, _ = disk
    before = contents(device)
    for words in (
        ("profile", device, "--size", "1m"), ("run", device), ("sweep", device), ("sustained", device),
        ("curve", device), ("diskspd", "-d1", "-w100", "--overwrite", device),
        ("diskspd", "-d1", "-c1M", "--overwrite", device), ("mkfile", device, "--size", "1m"),
    ):  # fmt: skip
        done = cli(*words).sound()
        assert done.code == 2 and done.out == "" and str(device) in done.err, (words, done.out, done.err)
    assert stat.S_ISBLK(device.stat().st_mode) and contents(device) == before and cli.runs() == []


LIMITS = Path("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device")
SLOW_BYTES_PER_S = 20_000_000


@pytest.mark.lab
def test_a_slow_half_is_where_it_is(cli: Cli, disk: tuple[Path, Path]) -> None:
    """20 MB/s until half the zones are read, no limit from then on: the head is slow, the tail is not.

    Blocks are of 64 KiB, which no disk splits: Linux (6.18) counts a block of io_uring's that it splits twice, and
    gives it half of the limit, and fio with it (256 KiB on a loop device of 128 KiB: 10.1 MB/s; psync: 20.7 MB/s).
    """
    if not LIMITS.exists():
        pytest.skip("limits of control groups of version 1 are needed")
    device, _ = disk
    number = Path(f"/sys/block/{device.name}/dev").read_text().strip()
    LIMITS.write_text(f"{number} {SLOW_BYTES_PER_S}")
    try:
        child = cli.start("profile", device, "--zones", "8", "--block", "64k", "--json")
        wait_until(lambda: cli.cells_stored() >= 4, child, "half of the zones")
    finally:
        LIMITS.write_text(f"{number} 0")
    out, err = child.communicate(timeout=HANG_S)
    assert child.returncode == 0, err
    found = json.loads(out)["profile"]
    slow, fast = ([zone["bytes_per_s"] for zone in part] for part in (found["zones"][:4], found["zones"][6:]))
    # The throttle hands out its budget in steps of 0.1 s, so one zone may have a step more than its due.
    assert statistics.median(slow) == pytest.approx(SLOW_BYTES_PER_S, rel=0.15), slow
    assert min(fast) > 2 * SLOW_BYTES_PER_S, found["zones"]
    assert found["tail_bytes_per_s"] > 2 * found["head_bytes_per_s"]
