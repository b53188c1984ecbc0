"""Guests of the lab: what runs in one, what a power cut leaves on its disks, and that nothing of it stays."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import guest_plants
from cli_tools import HANG_S, Cli, need
from lab_tools import born_there, left_processes, own_folders, wait_for
from naslab import lab
from naslab.client import process
from naslab.errors import TargetError
from naslab.lab import guest as guests
from naslab.lab.guest import HOST, Disk, Guest, Spec, boot, mounts, servers, volume
from naslab.lab.guest.agent import DATA, TOP
from naslab.lab.guest.volume import Volume
from naslab.lab.server import Server
from naslab.lab.systems import which

pytestmark = pytest.mark.lab
__all__ = ["own_folders"]
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
ROOT = Path(__file__).parents[2]
RAID = Volume("raid5", "ext4", (0, 1, 2))
RATE_BYTES_PER_S = 100_000_000
HOLD = """
import sys, time
from naslab.lab.guest import Disk, Spec, running
print("starting", flush=True)
with running(Spec(disks=(Disk(size_bytes=1 << 26),))) as guest:
    print(guest.attendant.pid, guest.folder, flush=True)
    time.sleep(100)
"""

JUST_BEGUN = """
import os, sys, time
from pathlib import Path
from naslab.lab.guest.boot import Machine
from naslab.lab.guest.spec import Spec
machine = Machine(Spec(ram_bytes=96 << 20), Path(sys.argv[1]))
for at in range(20):
    machine.start()
    time.sleep(at * 0.0003)
    machine.cut()
machine.start()
time.sleep(0.002)
os.kill(os.getpid(), 9)
"""
"""Guests that are killed while their first process is being made; then whoever holds one is."""


def need_guests() -> None:
    """Skips, or fails where the lab is required, when this machine starts no guests."""
    wanted = {**boot.programs(), **volume.PACKAGES, **mounts.PROGRAMS}
    for programs in servers.PROGRAMS.values():
        wanted |= programs
    missing = sorted({package for program, package in wanted.items() if which(program) is None})
    need(not missing, f"a guest: {' '.join(missing)}")
    need(os.geteuid() == 0, "root")
    need(Path("/dev/net/tun").exists(), "/dev/net/tun")


@pytest.fixture(scope="module")
def server() -> Iterator[Guest]:
    """A guest with RAID 5 of three disks, served by its kernel."""
    need_guests()
    disk = Disk(size_bytes=128 << 20, read_bytes_per_s=RATE_BYTES_PER_S, write_bytes_per_s=RATE_BYTES_PER_S)
    with guests.running(Spec(ram_bytes=384 << 20, disks=(disk,) * 3)) as guest:
        volume.make(guest, RAID)
        servers.start(guest, servers.plan_knfsd(guest.address))
        yield guest
    assert not guest.folder.exists() and left_processes(guest.folder) == []


def sweep(guest: Guest, store: Cli, url: str, *words: str) -> None:
    """A small measurement from the host's side of the guest's network."""
    store("sweep", url, "--file-size", "2m", "--record", "1m", *words, prefix=guest.inside()).ok()


def test_commands(server: Guest) -> None:
    said: list[tuple[str, bytes]] = []
    done = server.run(["sh", "-c", "echo out; echo err >&2; cat; exit 7"], given=b"given", env={"A": "b"})
    assert (done.code, done.out, done.err) == (7, b"out\ngiven", b"err\n") and done.elapsed_ns > 0
    data = os.urandom(500_000)  # longer than the line's buffers, both ways
    assert server.run(["sh", "-c", 'cat; printf "$A"'], given=data, env={"A": "b"}).out == data + b"b"
    server.run(["sh", "-c", "echo 1; sleep 0.3; echo 2"], on_output=lambda name, piece: said.append((name, piece)))
    assert said == [("out", b"1\n"), ("out", b"2\n")]
    with pytest.raises(TargetError, match="no-such-program"):
        server.run(["no-such-program"])
    with pytest.raises(TargetError, match="no answer within 1 s"):
        server.run(["sh", "-c", "sleep 77 & sleep 77"], timeout_s=1)
    wait_for(lambda: server.run(["pgrep", "-x", "sleep"]).code == 1)  # with what it started


def test_a_guest_sees_the_host_and_changes_nothing(server: Guest) -> None:
    assert server.read("/etc/os-release") == Path("/etc/os-release").read_bytes()
    assert server.run(["touch", "/etc/naslab-was-here"]).code != 0 and not Path("/etc/naslab-was-here").exists()
    assert server.run(["touch", "/tmp/naslab-was-here"]).code == 0 and not Path("/tmp/naslab-was-here").exists()
    assert server.read("/proc/uptime") != Path("/proc/uptime").read_bytes()
    shown = server.read("/proc/mdstat").decode()
    assert "active raid5 ubdc[2] ubdb[1] ubda[0]" in shown and "[UUU]" in shown
    limits = server.read("/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device").decode().splitlines()
    assert sorted(limits) == [f"98:{number} {RATE_BYTES_PER_S}" for number in (0, 16, 32)]


@pytest.mark.parametrize("version", ["3", "4.0", "4.1", "4.2"])
def test_our_client_measures_the_kernels_server(server: Guest, cli: Cli, version: str) -> None:
    facts = f"nfs://{server.address}/lab/data?version={version}"
    before = server.read("/proc/net/rpc/nfsd").decode()
    sweep(server, cli, facts)
    assert server.read("/proc/net/rpc/nfsd").decode() != before
    assert server.run(["ls", "-A", "/lab/data"]).text.split() == ["lost+found"]


def test_naslab_in_a_guest_on_a_kernel_mount(server: Guest, cli: Cli) -> None:
    shared = cli.folder / "shared"
    shared.mkdir()
    other = Spec(net=server.net, tap="tap1", address="10.78.0.3", shared=(str(shared),))
    with guests.running(other) as client:
        remote = mounts.Remote(server.address, servers.NFS_PORT, "/lab/data", mount_port=servers.MOUNT_PORT)
        for access in ("nfs3", "nfs4.1"):
            mounts.mount(client, access, remote)
            assert f"vers={access[3:]}" in client.read("/proc/mounts").decode()
            if access == "nfs3":
                mounts.unmount(client)
        words = ["sweep", mounts.MOUNT, "--file-size", "64k", "--record", "64k", "--label", "from=inside"]
        done = mounts.naslab(client, words, shared / "store.sqlite")
        assert done.code == 0, done.words()
    cli.env["NASLAB_STORE"] = str(shared / "store.sqlite")
    (run,) = cli.runs()
    assert run["labels"] == {"from": "inside"} and run["status"] == "complete"


def test_what_was_synced_survives_a_power_cut(server: Guest) -> None:
    data = os.urandom(300_000)
    server.write("/lab/data/kept", data)
    server.run(["sync", "/lab/data/kept", "/lab/data"], check=True)
    server.write("/lab/data/lost", data)
    server.kill()
    assert not server.is_up
    with pytest.raises(TargetError, match="the guest is not running"):
        server.run(["true"])
    server.boot()
    volume.reopen(server, RAID)
    assert hashlib.sha256(server.read("/lab/data/kept")).digest() == hashlib.sha256(data).digest()
    assert server.run(["cmp", "/lab/data/kept", "/lab/data/lost"]).code != 0


def test_samba_and_ganesha_in_a_guest(server: Guest, cli: Cli) -> None:
    """After the power cut: a fresh system, so the ports are free again."""
    if server.run(["pgrep", "rpc.mountd"]).code == 0:
        pytest.skip("needs the test before it")
    ganesha, samba = (
        servers.start(server, servers.plan_ganesha(server.address)),
        servers.start(server, servers.plan_samba(server.address, server.folder / "samba")),
    )
    for version in ("3", "4.1"):
        query = f"version={version}" + ("&mountport=20048" if version == "3" else "")
        sweep(server, cli, f"nfs://{server.address}/lab/data?{query}")
    sweep(server, cli, samba["targets"]["secret"], "--credentials", samba["credentials"])
    nfs = mounts.Remote(server.address, ganesha["port"], ganesha["path"])
    password = Path(samba["credentials"]).read_text().split("password=")[1].strip()
    smb = mounts.Remote(server.address, samba["port"], "data", samba["user"], password)
    for access, remote in (("nfs4.2", nfs), ("cifs3.1.1", smb)):
        mounts.mount(server, access, remote)
        server.write(f"{mounts.MOUNT}/{access}", b"through a kernel")
        mounts.unmount(server)
        assert server.read(f"/lab/data/{access}") == b"through a kernel"


@pytest.mark.usefixtures("own_folders")
@pytest.mark.parametrize("moment", ["held", "starting", "attendant"])
def test_kill_9_leaves_nothing(moment: str, tmp_path: Path) -> None:
    need_guests()
    base = tmp_path / "t"
    holder = subprocess.Popen([sys.executable, "-c", HOLD], text=True, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    if moment == "starting":
        wait_for(lambda: any("linux.uml" in words for words in left_processes(base)))
        time.sleep(0.2)
        holder.kill()
    else:
        attendant = process.find(int(holder.stdout.readline().split()[0]))
        assert attendant is not None and any("linux.uml" in words for words in left_processes(base))
        if moment == "attendant":
            process.send(attendant, signal.SIGKILL)
            wait_for(lambda: not any("linux.uml" in words for words in left_processes(base)))
        holder.kill()
    holder.communicate()
    wait_for(lambda: not left_processes(base) and not born_there(base))
    if moment == "attendant":  # its folder goes with the next who uses the lab
        assert list(base.glob("naslab-lab-*"))
        guests.client.place.sweep()
    wait_for(lambda: not list(base.glob("naslab-lab-*")))


@pytest.mark.usefixtures("own_folders")
def test_guests_killed_before_they_have_a_process(tmp_path: Path) -> None:
    """Seen: cut before its namespace had a first process, a guest stayed for good, and who had cut it waited for it."""
    need_guests()
    base = tmp_path / "t"
    done = subprocess.run([sys.executable, "-c", JUST_BEGUN, str(base)], check=False, timeout=HANG_S)
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: not left_processes(base))


@pytest.mark.usefixtures("own_folders")
@pytest.mark.parametrize("wave", range(2))
def test_guests_killed_at_random_moments(wave: int, tmp_path: Path) -> None:
    """Four at a time, each with whoever holds it or its attendant killed while it starts or stands."""
    need_guests()
    seed = time.time_ns() if wave else 0
    chance = random.Random(seed)
    kills = [(chance.uniform(0.2, 7.0), chance.choice(["holder", "attendant"])) for _ in range(4)]
    print(f"seed {seed}: {kills}")
    begun = time.monotonic()
    holders = [subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.DEVNULL) for _ in kills]
    for (moment_s, whom), holder in sorted(zip(kills, holders, strict=True), key=lambda each: each[0]):
        time.sleep(max(0.0, begun + moment_s - time.monotonic()))
        assert holder.poll() is None, "ended before it was killed"
        for each in process.descendants(holder.pid)[:1] if whom == "attendant" else []:
            process.send(each, signal.SIGKILL)
        holder.kill()
        holder.wait()
    base = tmp_path / "t"
    wait_for(lambda: not left_processes(base) and not born_there(base))
    guests.client.place.sweep()
    for folder in base.glob("naslab-lab-*"):  # of one that was killed before it wrote whose it is
        folder.rmdir()


@pytest.mark.usefixtures("own_folders")
def test_what_the_native_backend_plants_with_another_kernel() -> None:
    """Control groups of version 2 and delayed packets: a guest's kernel has them, whatever the host's has."""
    need_guests()
    with guests.running(Spec(ram_bytes=384 << 20, disks=(Disk(size_bytes=128 << 20),))) as guest:
        # As text: a guest has no checkout below /tmp.
        program = Path(guest_plants.__file__).read_text("utf-8")
        done = guest.run([sys.executable, "-c", program], env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.code == 0, done.words()
    found = json.loads(done.text)
    assert found["files"] == {"memory.max": str(guest_plants.RAM_BYTES), "cpu.max": "5000 20000"}
    assert 0.6 * guest_plants.CPU < found["cpu"] < 1.15 * guest_plants.CPU
    # 100 MiB were read through the cache: as many as fit are kept.
    assert 0.5 * guest_plants.RAM_BYTES < found["memory"]["current"] <= guest_plants.RAM_BYTES
    assert found["throttle_version"] == 2 and found["join"]
    rate = guest_plants.DISK_BYTES_PER_S
    assert 0.8 * rate < found["limited"] < 1.15 * rate
    assert 2 * guest_plants.LATENCY_NS <= found["there_and_back_ns"] < 2.8 * guest_plants.LATENCY_NS
    assert min(found["free"], found["lifted"]) > 1.3 * rate, "who is not in the group is not limited, nor is it later"


@pytest.mark.usefixtures("own_folders")
def test_a_guest_that_cannot_start_says_why() -> None:
    need_guests()
    with pytest.raises(TargetError, match="the guest did not start: OSError: illegal IP address"):
        guests.start(Spec(address="10.78.0.999"))


def test_the_host_is_in_the_network(server: Guest) -> None:
    words = [sys.executable, "-c", f"import socket; socket.create_server(('{HOST}', 7)).accept()[0].sendall(b'host')"]
    with subprocess.Popen([*server.inside(), *words]) as listener:
        assert server.answers(7, HOST) is True
        assert listener.wait(5) == 0
    assert server.answers(7, HOST, seconds=0) is False


SYSTEM = """
what = "A kernel's NFS server, and a kernel that mounts it"
backend = "uml"
[[disks]]
count = 2
size = "64MiB"
read = "100MB/s"
write = "100MB/s"
[volume]
level = "raid1"
[filesystem]
type = "ext3"
[server]
kind = "knfsd"
ram = "128MiB"
[link]
rate = "1Gbit/s"
latency = "1ms"
[clients]
access = "nfs4.2"
ram = "160MiB"
"""


def both_clients_at_one_server(server: Server, cli: Cli) -> None:
    """The kernel's client and naslab's own, in turns in one guest; what they measured is in the user's store."""
    words = ["naslab", "run", server.facts["mount"], "--direct", "--budget", "8s", "--quiet"]
    done = subprocess.run([*server.inside(), *words], check=False, capture_output=True, text=True, env=cli.env)
    assert done.returncode == 0, done.stderr
    runs = [cli("show", run["run_id"], "--json").ok().json() for run in cli.runs()]
    kernels, own = sorted(runs, key=lambda run: run["interleaved"]["position"])
    assert (kernels["target"]["protocol"], own["target"]["protocol"]) == ("local", "nfs")
    assert kernels["environment"]["client"]["host"] == own["environment"]["client"]["host"] == "client1"
    assert own["target"]["url"] == f"{server.url.partition('?')[0].replace(':2049', '')}?version=4.2"
    assert own["target"]["dialect"] == "4.2", "as the mount"
    split = kernels["client_split"]
    assert split["own"]["run_id"] == own["run_id"] and split["not_carried"] == [] and split["mount"]["type"] == "nfs4"
    for cell in split["cells"]:
        assert cell["n"] >= 1 and min(cell[side]["bytes_per_s"] for side in ("mount", "own")) > 0
        assert cell["mount"]["machine_cpu_ns_per_gib"] is not None
    assert split["cells"] and all(cell["direct"] and cell["ops"] for cell in kernels["cells"])
    assert not list(Path(server.facts["guests"]["client1"]).glob("store-*")), "nothing is kept twice"


@pytest.mark.usefixtures("own_folders")
def test_a_system_of_guests_that_is_cut_and_comes_back(tmp_path: Path, cli: Cli) -> None:
    need_guests()
    file = tmp_path / "two.toml"
    file.write_text(SYSTEM)
    before = sorted(path.name for path in Path("/sys/class/net").iterdir())
    with lab.running(str(file)) as server:
        assert server.facts["backend"] == "uml" and server.facts["mount"] == mounts.MOUNT
        guest, client = (guests.find(Path(server.facts["guests"][name])) for name in ("server", "client1"))
        assert client.run(["dd", "if=/dev/zero", f"of={mounts.MOUNT}/f", "bs=64k", "count=16", "conv=fsync"]).code == 0
        assert guest.run(["stat", "-c", "%s", f"{DATA}/f"]).text == "1048576\n"
        assert "delay 1ms" in guest.run(["tc", "qdisc", "show", "dev", "vec0"]).text
        words = ["sh", "-c", "hostname -I; exit 7"]
        for number, address in enumerate((guest.address, client.address)):
            done = subprocess.run([*server.inside(number), *words], check=False, capture_output=True, text=True)
            assert (done.returncode, done.stdout.split(), done.stderr) == (7, [address], "")
        both_clients_at_one_server(server, cli)
        net = f"--net={server.facts['inside']['net']}"
        words = ["sh", "-c", "PATH=$PATH:/sbin:/usr/sbin tc qdisc show dev wire"]
        shaped = subprocess.run(["nsenter", net, *words], check=True, capture_output=True, text=True)
        assert "rate 1Gbit" in shaped.stdout
        server.kill()
        wait_for(lambda: not guest.is_up)
        server.restart()
        assert client.run(["stat", "-c", "%s", f"{mounts.MOUNT}/f"]).text == "1048576\n"
        assert sorted(path.name for path in Path("/sys/class/net").iterdir()) == before


DISKS = """
what = "A disk, and one that fails"
backend = "uml"
[[disks]]
size = "64MiB"
[[disks]]
size = "64MiB"
errors = "1%"
[volume]
level = "jbod"
[filesystem]
type = "ext2"
[server]
kind = "samba"
"""


@pytest.mark.usefixtures("own_folders")
def test_a_guests_disk_fails(tmp_path: Path) -> None:
    need_guests()
    need(which("fio"), "fio")
    file = tmp_path / "disks.toml"
    file.write_text(DISKS)
    with lab.running(str(file)) as server:
        guest = guests.find(Path(server.facts["guests"]["server"]))

        def fio(file: str, *words: str) -> dict[str, Any]:
            fixed = ["--name=x", f"--filename={file}", "--direct=1", "--output-format=json", *words]
            text = guest.run(["fio", *fixed]).text
            return dict(json.loads(text[text.index("{") :])["jobs"][0])

        found = fio("/dev/md101", "--rw=randread", "--bs=4k", "--size=8m", "--readonly", "--continue_on_error=io")
        assert found["read"]["total_ios"] == 2048 and 15 <= found["total_err"] <= 26
        assert f"/dev/md101 {TOP}/disk2 ext2" in guest.read("/proc/mounts").decode()


HOLD_SYSTEM = """
import subprocess, sys, naslab.lab
from naslab.lab import link
with naslab.lab.running(sys.argv[1]) as server:
    there = [*server.inside(0), "sh", "-c", "id -u; stat -f -c %T /lab/data"]
    print(server.facts["backend"], subprocess.run(there, capture_output=True, text=True).stdout, flush=True)
    link.leave(link.enter(server.facts["inside"]["net"]))
"""


def test_guests_of_an_ordinary_user(tmp_path: Path) -> None:
    """As nobody, in a user namespace, with the system's Python: a whole system of a guest."""
    need_guests()
    python = [*NOBODY, "unshare", "--user", "--map-root-user", "/usr/bin/python3", "-c"]
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="naslab-nobody-") as folder:
        base = Path(folder)
        base.chmod(0o777)
        file = base / "mine.toml"
        file.write_text(SYSTEM.replace('access = "nfs4.2"\nram = "160MiB"', 'access = "direct"'))
        packages = sysconfig.get_path("purelib")  # naslab's own, which the system's Python does not have
        more = {"PYTHONPATH": f"{ROOT / 'python'}:{packages}", "PYTHONDONTWRITEBYTECODE": "1", "HOME": folder,
                "TMPDIR": folder}  # fmt: skip
        env = {**os.environ, **more}
        if subprocess.run(
            [*python, "import naslab.lab, naslab.results.store"], check=False, capture_output=True, env=env, cwd="/"
        ).returncode:
            pytest.skip(
                "nobody cannot read this project, may make no user namespace, or the system's Python is another version"
            )
        done = subprocess.run(
            [*python, HOLD_SYSTEM, str(file)],
            check=False,
            capture_output=True,
            text=True,
            env=env,
            cwd="/",
            timeout=HANG_S,
        )
        assert (done.stdout.split(), done.stderr) == (["uml", "0", "ext2/ext3"], "")
        wait_for(lambda: not left_processes(base))
        assert list(base.glob("naslab-lab-*")) == []
