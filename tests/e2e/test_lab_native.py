"""Systems built natively: what they consist of, and kill -9 at any moment leaves nothing of them.

What their disks move is measured in tests/truth/test_native_rates.py, with the machine to itself.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli_tools import HANG_S, Cli
from lab_tools import HOLD, born_there, inside, left_over, left_processes, need_parts, own_folders, wait_for
from naslab import lab
from naslab.client import process
from naslab.lab import backends, place, systems
from naslab.lab.devices import keeper

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("own_folders")]
__all__ = ["own_folders"]
MIB = 1 << 20


def test_a_pool_is_one_folder_of_its_disks() -> None:
    need_parts("pool")
    with lab.running("pool", **{"disks.size": "128MiB", "filesystem.type": "ext3"}) as server:
        inside(server, f"mkdir {server.data}/d; for i in 1 2 3 4; do head -c 5M /dev/zero > {server.data}/d/$i; done")
        on = [inside(server, f"ls {server.folder}/disk{at}/files/d").split() for at in (1, 2)]
        assert sorted([*on[0], *on[1]]) == ["1", "2", "3", "4"] and all(on), "each on one, and not all on the same"
        assert inside(server, f"ls {server.data}").split() == ["d"]


def test_files_of_a_pool_get_their_second_copy_later() -> None:
    need_parts("pool-background")
    options = {"disks.size": "64MiB", "volume.delay": "500ms", "filesystem.type": "ext2", "link.rate": "1Gbit/s"}
    with lab.running("pool-background", **options) as server:
        both = [server.folder / f"disk{at}" / "files" / "d" / "f" for at in (1, 2)]

        def copies() -> list[str]:
            return inside(server, f"cat {both[0]} {both[1]} 2>/dev/null || true").split()

        inside(server, f"mkdir -m 700 {server.data}/d; echo one > {server.data}/d/f")
        wait_for(lambda: copies() == ["one", "one"])
        inside(server, f"echo two > {server.data}/d/f")
        assert inside(server, f"cat {server.data}/d/f") == "two\n", "the newest copy is shown"
        wait_for(lambda: copies() == ["two", "two"])
        assert {inside(server, f"stat -c %a {each.parent}").strip() for each in both} == {"700"}
        inside(server, f"rm -r {server.data}/d")
        time.sleep(1)
        assert copies() == [], "what was removed does not come back"


def test_a_pool_that_writes_twice_at_once() -> None:
    need_parts("pool-synchronous")
    with lab.running("pool-synchronous", **{"disks.size": "64MiB"}) as server:
        inside(server, f"head -c 1000000 /dev/urandom > {server.data}/f; sync {server.data}/f")
        sums = inside(
            server, f"md5sum < {server.data}/f; for i in 1 2; do md5sum < {server.folder}/disk$i/files/f; done"
        )
        assert len(set(sums.splitlines())) == 1


def test_several_clients_reach_one_server_in_its_groups() -> None:
    need_parts("clients")
    with lab.running("clients", **{"server.cpu": "50%", "server.ram": "128MiB", "link.mtu": "4000"}) as server:
        addresses = []
        for client in range(4):
            script = "PATH=$PATH:/sbin:/usr/sbin; ip -o -4 addr show dev eth0; ip link"
            words = subprocess.run(
                [*server.inside(client), "sh", "-c", script],
                check=True, capture_output=True, text=True,
            ).stdout  # fmt: skip
            assert "mtu 4000" in words
            addresses.append(words.split("inet ")[1].split("/")[0])
            ping = f"exec 3<>/dev/tcp/10.77.0.1/{server.port}"
            subprocess.run([*server.inside(client), "bash", "-c", ping], check=True, timeout=HANG_S)
        assert addresses == [f"10.77.0.{at}" for at in (1, 2, 3, 4)]
        (smbd,) = [pid for pid in server.pids if process.program(pid) == "smbd"][:1]
        groups = Path(f"/proc/{smbd}/cgroup").read_text()
        assert groups.count(server.folder.name) >= 1
        limits = [path.read_text().split()[0] for path in Path("/sys/fs/cgroup").rglob(f"{server.folder.name}/memory*")
                  if path.name in ("memory.limit_in_bytes", "memory.max")]  # fmt: skip
        assert limits == [str(128 * MIB)]


def test_what_cannot_be_built_is_told(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text('what = "x"\nbackend = "native"\n[[disks]]\nseek = "8ms"\n[server]\nkind = "knfsd"\n')
    done = cli("lab", "up", file).sound()
    assert done.code == 2 and "disks.seek: no packaged program delays only seeks" in done.err
    assert "server.kind = 'knfsd': the kernel's server belongs to the whole machine" in done.err
    shown = cli("lab", "show", file).ok().out
    assert "seek 8 ms" in shown and "cannot be built here" in shown
    assert cli("lab", "up", "raid5", "--set", "disks.size=64MiB", "--set", "volume.level=raid9").code == 2
    assert "rename the file" in cli("lab", "up", _copied(tmp_path, "samba.toml", file)).err


def _copied(folder: Path, name: str, file: Path) -> Path:
    path = folder / name
    path.write_text(file.read_text())
    return path


def test_a_system_from_a_file_comes_and_goes(cli: Cli, tmp_path: Path) -> None:
    need_parts("nfs-xfs")
    file = tmp_path / "mine.toml"
    file.write_text('what = "mine"\n[[disks]]\nsize = "64MiB"\n[server]\nkind = "ganesha"\nversion = "4.1"\n')
    up = cli("lab", "up", file, "--set", "filesystem.type=ext3", "--json").ok().json()
    try:
        assert up["backend"] == "native" and up["url"].startswith("nfs://127.0.0.1:")
        assert "is up already" in cli("lab", "up", file).err
        shown = cli("lab", "show", "mine").ok().out
        assert "ext3" in shown and "NFS 4.1" in shown and up["url"] in shown
        assert cli("lab", "show", "mine", "--json").ok().json()["definition"]["filesystem"]["type"] == "ext3"
        assert up["url"] in cli("lab", "status").ok().out and up["url"] in cli("lab", "list").ok().out
        assert cli("lab", "exec", "mine", "--client", "3", "--", "true").code == 2
        document = cli.sweep("lab:mine?version=4.1")
        assert document["status"] == "complete"
    finally:
        cli("lab", "down").ok()
    assert "nothing is up" in cli("lab", "status").ok().out


# that nothing is left: see the fixture own_folders


SMALL = {
    "raid5": ("disks.size=128MiB",), "raid1": ("disks.size=128MiB",), "single-xfs": ("disks.size=320MiB",),
    "pool-background": ("disks.size=64MiB",), "served": ("disks.size=64MiB",), "burst": ("disks.size=320MiB",),
}  # fmt: skip
WHOM = ("controller", "guardian", "keeper", "both")
SERVED = """
what = "a disk on servers of blocks"
[[disks]]
rate = "67MB/s"
latency = "2ms"
[server]
kind = "samba"
ram = "128MiB"
"""


@pytest.mark.parametrize("wave", range(10))
def test_fifty_kills_at_random_moments(wave: int, tmp_path: Path) -> None:
    """Five systems at a time, of each a process that holds it killed while it starts or stands.

    Five are up after 3 to 5 s on two cores.
    """
    seed = int(time.time_ns()) if wave else 0
    chance = random.Random(seed)
    (tmp_path / "served.toml").write_text(SERVED)
    kills = [(chance.choice([*SMALL]), chance.choice(WHOM), chance.uniform(0.1, 4.5)) for _ in range(5)]
    for name in {each[0] for each in kills} - {"served"}:
        need_parts(name)
    print(f"seed {seed}: {kills}")
    before = left_over()
    with ThreadPoolExecutor(len(kills)) as pool:
        for ended in [pool.submit(killed, tmp_path, *each) for each in kills]:
            ended.result()
    left_nothing(tmp_path / "t", before)


def killed(home: Path, name: str, whom: str, moment_s: float) -> None:
    """Starts a system and kills what holds it at that moment."""
    what = str(home / f"{name}.toml") if name == "served" else name
    with subprocess.Popen([sys.executable, "-c", HOLD, what, *SMALL[name]], stdout=subprocess.DEVNULL) as holder:
        time.sleep(moment_s)
        assert holder.poll() is None, f"{name} ended before it was killed"
        for each in process.descendants(holder.pid) if whom != "controller" else []:
            is_keeper = process.program(each.pid) == keeper.NAME
            words = Path(f"/proc/{each.pid}/cmdline").read_bytes() if process.is_alive(each) else b""
            is_guardian = b"naslab.lab.guardian" in words
            if (is_keeper and whom in ("keeper", "both")) or (is_guardian and whom in ("guardian", "both")):
                process.send(each, signal.SIGKILL)
        holder.kill()


def left_nothing(base: Path, before: set[str]) -> None:
    """Waits until no process, folder, device or control group of killed systems is left; before: what was there."""
    wait_for(lambda: not born_there(base) and not left_processes(base))
    # Of a server whose guardian was killed: whoever uses the lab next removes its folder.
    wait_for(lambda: place.sweep() == [] and not list(base.glob(f"{place.PREFIX}*")))
    wait_for(lambda: left_over() <= before)


def test_backends_are_asked_in_order() -> None:
    found = backends.answers(systems.system("single-xfs").make_options({}))
    assert [each.backend for each in found] == ["native", "uml"]
