"""The lab's systems with limits: how they are reached, and that kill -9 at any moment leaves nothing of them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli_tools import Cli
from lab_tools import HOLD, born_there, hold, lab_devices, left_processes, need_system, own_folders, wait_for
from naslab import lab
from naslab.client import process
from naslab.lab import place
from naslab.lab.devices import keeper

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]


def keepers() -> list[process.Process]:
    """Living keepers of disks."""
    found = [process.find(int(path.name)) for path in Path("/proc").glob("[0-9]*")]
    return [each for each in found if each is not None and process.program(each.pid) == keeper.NAME]


def test_a_disk_is_mounted_for_its_server_alone(cli: Cli) -> None:
    need_system("burst-disk")
    up = cli("lab", "up", "burst-disk", "--set", "disk=64m", "--set", "burst=50MB/s", "--json").ok().json()
    try:
        assert up["planted"] == {"burst_bytes_per_s": 50_000_000, "baseline_bytes_per_s": 24_000_000,
                                 "size_bytes": 400_000_000}  # fmt: skip
        assert cli("lab", "exec", "burst-disk", "--", "stat", "-f", "-c", "%T", up["data"]).ok().out == "ext2/ext3\n"
        assert up["data"] not in Path("/proc/mounts").read_text()
        assert not any(process.program(pid) == keeper.NAME for pid in up["pids"])
        assert cli("lab", "exec", "burst-disk", "--", "sh", "-c", "exit 7").code == 7
        assert "no-such-program" in cli("lab", "exec", "burst-disk", "--", "no-such-program").err
        shown = cli("lab", "show", "burst-disk").ok().out
        assert "50 MB/s until 400 MB of credit are spent, then 24 MB/s" in shown
        done = cli("sweep", "lab:burst-disk?size=5MB", "--file-size", "64k", "--record", "64k")
        assert done.code == 2 and "is up with its own size" in done.err
    finally:
        cli("lab", "down").ok()


def test_a_link_touches_no_interface_of_the_host(cli: Cli) -> None:
    need_system("burst-link")
    before = sorted(path.name for path in Path("/sys/class/net").iterdir())
    with lab.running("burst-link") as server:
        assert sorted(path.name for path in Path("/sys/class/net").iterdir()) == before
        words = subprocess.run(
            [*server.inside(), "sh", "-c", "ls /sys/class/net; PATH=$PATH:/sbin:/usr/sbin tc qdisc show dev eth0"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        assert re.search(r"qdisc tbf .* rate 192Mbit .* peakrate 960Mbit", words)
        document = cli.sweep(server.url, "--credentials", server.credentials, prefix=server.inside())
        assert document["status"] == "complete"


def test_a_server_keeps_its_disk_when_it_starts_anew() -> None:
    need_system("burst-disk")
    with lab.running("burst-disk", disk="64m") as server:
        device = Path(server.facts["disk"]["device"]).name
        subprocess.run([*server.inside(), "touch", f"{server.data}/kept"], check=True)
        server.kill()
        server.restart()
        assert device in lab_devices(bound=True)
        subprocess.run([*server.inside(), "test", "-e", f"{server.data}/kept"], check=True)
        server.freeze()
        server.thaw()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("burst-disk", ("burst=fast",), "burst-disk: burst: 'fast' is not a size"),
        ("burst-disk", ("burst=20MB/s",), "burst='20MB/s' is not above base='24MB/s'"),
        ("burst-disk", ("disk=1m",), "disk='1m'; give 64m or more"),
        ("two-links", ("rate=fast",), "two-links: rate: 'fast' is not a size"),
        ("two-links", ("rate=1kB/s",), "rate='1kB/s'; give 100kB/s to 4GB/s"),
        ("burst-disk", ("colour=red",), "burst-disk takes burst, base, size, disk, cache"),
        ("burst-disk", ("base",), "write NAME=VALUE"),
        ("burst-link", ("size=5g",), "the shaper takes less than 4 GiB"),
        ("demo", ("base=1MB/s",), "demo has no limits to set"),
    ],
)
def test_what_cannot_be_planted_is_refused(name: str, options: tuple[str, ...], message: str, cli: Cli) -> None:
    need_system(name)
    done = cli("lab", "up", name, *(word for each in options for word in ("--set", each))).sound()
    assert done.code == 2 and message in done.err and done.out == ""


REFUSED = """
import io, json, os, sys
from naslab.client import process
from naslab.lab import guardian
me = process.find(os.getpid())
request = {"system": "two-links", "options": {"rate": "fast"}, "folder": "", "fast": False, "name": "two-links",
           "controller": [me.pid, me.start_time]}
sys.stdin = io.StringIO(json.dumps(request))
guardian._answer = lambda words: print(words["error"], os.listdir(sys.argv[1]))
sys.exit(guardian.main())
"""


def test_a_refusal_is_told_when_nothing_is_left(tmp_path: Path) -> None:
    need_system("two-links")
    words = [sys.executable, "-c", REFUSED, str(tmp_path / "t")]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("two-links: rate: 'fast' is not a size"), done.stderr
    assert done.stdout.endswith(" []\n") and done.stdout.count("\n") == 1


def test_a_folder_of_the_user_is_no_disk(cli: Cli, tmp_path: Path) -> None:
    need_system("burst-disk")
    (tmp_path / "mine").mkdir()
    for name in ("burst-disk", "burst-link", "two-links", "two-links-nfs"):
        done = cli("lab", "up", name, "--folder", tmp_path / "mine").sound()
        assert done.code == 2 and "leave out --folder" in done.err


# that nothing is left: see the fixture own_folders


def test_a_killed_keeper_ends_the_whole() -> None:
    need_system("burst-disk")
    holder, guardian, folder, servers = hold("burst-disk")
    with holder:
        (mine,) = [each for each in keepers() if each in process.descendants(guardian.pid)]
        assert process.send(mine, signal.SIGKILL)
        for each in (*servers, guardian):
            assert process.wait_gone(each, 20)
        assert not folder.exists()
        holder.kill()


def test_what_a_killed_guardian_and_keeper_left_is_swept() -> None:
    need_system("burst-disk")
    holder, guardian, folder, servers = hold("burst-disk")
    with holder:
        (mine,) = [each for each in keepers() if each in process.descendants(guardian.pid)]
        assert process.send(mine, signal.SIGSTOP) and process.wait_stopped(mine, 5)
        assert process.send(guardian, signal.SIGKILL) and process.send(mine, signal.SIGKILL)
        for each in (*servers, guardian, mine):
            assert process.wait_gone(each, 20)
        wait_for(lambda: lab_devices() or not folder.exists())
        wait_for(lambda: folder in place.sweep())
        assert not folder.exists()
        holder.kill()


@pytest.mark.parametrize("name", ["burst-disk", "burst-link", "two-links"])
@pytest.mark.parametrize("moment_ms", [150, 300, 450, 600, 900])
@pytest.mark.parametrize("whom", ["controller", "guardian"])
def test_killed_while_it_starts(name: str, moment_ms: int, whom: str, tmp_path: Path) -> None:
    need_system(name)
    base = tmp_path / "t"
    with subprocess.Popen([sys.executable, "-c", HOLD, name], stdout=subprocess.DEVNULL) as holder:
        time.sleep(moment_ms / 1000)
        if whom == "guardian":
            for each in process.descendants(holder.pid):
                words = Path(f"/proc/{each.pid}/cmdline").read_bytes() if process.is_alive(each) else b""
                if b"naslab.lab.guardian" in words:
                    process.send(each, signal.SIGKILL)
        holder.kill()
    wait_for(lambda: not born_there(base) and not left_processes(base))
    if whom == "guardian":  # its device may be in use for a moment
        wait_for(lambda: place.sweep() == [] and not list(base.glob(f"{place.PREFIX}*")))
    wait_for(lambda: not list(base.glob(f"{place.PREFIX}*")))
