"""What a real system is built of, from the kernel's own means: namespaces, tbf and htb, loop devices under blkio,
control groups of version 1, and the configurations of Samba and Ganesha. Nothing of naslab.lab.

All of it is called within the process that `real_world` runs, whose namespaces take processes, mounts and interfaces
with them when it dies. What outlives it, empty control groups and the numbers of loop devices, `sweep` removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "memory")
PREFIX = "naslab-real-"
MINORS = range(500, 900)
"""Loop devices of these numbers; the lab's begin elsewhere."""
CLIENT, SERVER = "10.91.0.1", "10.91.0.2"
PORT, MOUNT_PORT, RELAY_PORT, RELAY_MOUNT_PORT = 4450, 4451, 4460, 4461
PASSWORD = "planted"
MTU_SHARE = 1448 / 1514
"""Of the bytes that tbf counts, those of a TCP stream."""


def run(*words: str, inside: int | None = None) -> str:
    """A command that has to work; inside: in the network of this process. Raises CalledProcessError."""
    whole = ["nsenter", "-t", str(inside), "-n", *words] if inside else list(words)
    return subprocess.run(whole, check=True, capture_output=True, text=True, timeout=60).stdout


# Control groups.


def sweep() -> None:
    """Removes what systems left that died: empty groups, devices that nobody holds, folders. Only under `alone`."""
    for controller in CONTROLLERS:
        for folder in (CGROUPS / controller).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                folder.rmdir()
    for minor in MINORS:
        block = Path(f"/sys/block/loop{minor}")
        if block.exists() and not (block / "loop" / "backing_file").exists():  # else another session's, and alive
            unlimit(minor)
            remove_loop(minor)
    for folder in Path("/tmp").glob(f"{PREFIX}*"):
        if not (CGROUPS / "cpu" / f"{folder.name}-server").exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One session at a time on a machine. Raises SystemExit where another one runs."""
    with Path("/tmp/.naslab-real.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit("other real systems are being measured on this machine: wait for them") from None
        yield


def group(name: str) -> dict[str, Path]:
    """Makes a group of each controller."""
    made = {}
    for controller in CONTROLLERS:
        made[controller] = CGROUPS / controller / f"{PREFIX}{name}"
        made[controller].mkdir(exist_ok=True)
    return made


def set_quota(groups: Mapping[str, Path], cores: float, period_us: int) -> None:
    """At most so many processors; the kernel takes no quota below a millisecond, so that the period may be longer."""
    period = max(period_us, round(1000 / cores) + 1)
    (groups["cpu"] / "cpu.cfs_period_us").write_text(str(min(period, 1_000_000)))
    (groups["cpu"] / "cpu.cfs_quota_us").write_text(str(round(cores * min(period, 1_000_000))))


def set_memory(groups: Mapping[str, Path], size: int) -> None:
    """At most so much memory."""
    (groups["memory"] / "memory.limit_in_bytes").write_text(str(size))


def joining(groups: Mapping[str, Path]) -> Callable[[], None]:
    """For a new process, before it runs its program."""

    def join() -> None:
        for folder in groups.values():
            (folder / "cgroup.procs").write_text("0")

    return join


def members(groups: Mapping[str, Path]) -> list[int]:
    """Ids of its processes, as this process sees them."""
    return [int(each) for each in (groups["cpu"] / "cgroup.procs").read_text().split()]


def used_s(groups: Mapping[str, Path]) -> float:
    """Processor time of a group so far."""
    return int((groups["cpuacct"] / "cpuacct.usage").read_text()) / 1e9


def throttled(groups: Mapping[str, Path]) -> dict[str, int]:
    """cpu.stat: periods, those in which it was held back, and for how long."""
    lines = (groups["cpu"] / "cpu.stat").read_text().split("\n")
    return {name: int(value) for name, _, value in (line.partition(" ") for line in lines) if value}


# Network.


def build_network(server: int, switch: int, link: Mapping[str, Any]) -> None:
    """Client (here), switch and server, a cable between each two, with what `link` plants at their ends."""
    run("ip", "link", "set", "lo", "up")
    for pid in (server, switch):
        run("ip", "link", "set", "lo", "up", inside=pid)
    run("ip", "link", "add", "c0", "type", "veth", "peer", "name", "p0", "netns", str(switch))
    run("ip", "link", "add", "s0", "netns", str(server), "type", "veth", "peer", "name", "p1", "netns", str(switch))
    run("ip", "link", "add", "bridge0", "type", "bridge", inside=switch)
    for port in ("p0", "p1"):
        run("ip", "link", "set", port, "master", "bridge0", "up", inside=switch)
    run("ip", "link", "set", "bridge0", "up", inside=switch)
    run("ip", "address", "add", f"{CLIENT}/24", "dev", "c0")
    run("ip", "link", "set", "c0", "up")
    run("ip", "address", "add", f"{SERVER}/24", "dev", "s0", inside=server)
    run("ip", "link", "set", "s0", "up", inside=server)
    for name, device, where in (
        ("down", "s0", server), ("up", "p1", switch), ("client_down", "p0", switch), ("client_up", "c0", None),
    ):  # fmt: skip
        if link.get(name):
            _shape(device, int(link[name]), link, where)


def _shape(device: str, rate: int, link: Mapping[str, Any], where: int | None) -> None:
    queue = max(round(rate / 8 * 0.02), 64 << 10)
    burst = max(rate // 8 // 250, 32 << 10)
    if link.get("burst_bytes"):
        words = ["tbf", "rate", f"{rate}bit", "burst", str(link["burst_bytes"]), "limit", str(queue * 4)]
        words += ["peakrate", f"{link['peak']}bit", "mtu", "128kb"]
    elif link.get("discipline") == "htb":
        run("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1", inside=where)
        run("tc", "class", "add", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate", f"{rate}bit",
            "burst", str(burst), "cburst", str(burst), inside=where)  # fmt: skip
        run("tc", "qdisc", "add", "dev", device, "parent", "1:1", "bfifo", "limit", str(queue), inside=where)
        return
    else:
        words = ["tbf", "rate", f"{rate}bit", "burst", str(burst), "limit", str(queue)]
    run("tc", "qdisc", "add", "dev", device, "root", *words, inside=where)


# Disks.


def build_disk(part: Mapping[str, Any], folder: Path, mount: Path) -> int:
    """A file system on a loop device with limits, mounted; its number. Raises OSError, CalledProcessError."""
    size = int(part["size_bytes"])
    run("mount", "-t", "tmpfs", "-o", f"size={size + (64 << 20)}", "none", str(folder))
    store = folder / "disk"
    with store.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, size)
    minor = _free_minor()
    device = f"/dev/loop{minor}"
    run("losetup", device, str(store))
    make = {"ext4": ("-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"), "xfs": ("-q",)}[part["filesystem"]]
    run(f"mkfs.{part['filesystem']}", *make, device)
    run("mount", device, str(mount))
    run("losetup", "-d", device)  # when it is unmounted
    _bound_dirty(minor, int(part["dirty_bytes"]))
    limits = {name: part[name] for name in ("read", "write", "riops", "wiops") if part.get(name)}
    if part.get("credit"):
        limits = dict.fromkeys(("read", "write"), part["credit"]["peak"])
    limit(minor, limits)
    return minor


def _free_minor() -> int:
    for minor in MINORS:
        if not Path(f"/sys/block/loop{minor}").exists():
            with contextlib.suppress(OSError):
                _loop_control(0x4C80, minor)  # LOOP_CTL_ADD; fails where another session was quicker
                return minor
    raise OSError("no loop device is free")


def _loop_control(request: int, minor: int) -> None:
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(control, request, minor)
    finally:
        os.close(control)


def remove_loop(minor: int) -> None:
    """The device's number, if nobody holds it."""
    with contextlib.suppress(OSError):
        _loop_control(0x4C81, minor)  # LOOP_CTL_REMOVE


_FILES = {"read": "read_bps", "write": "write_bps", "riops": "read_iops", "wiops": "write_iops"}


def limit(minor: int, limits: Mapping[str, int]) -> None:
    """Bytes and operations per second of a device, for everybody."""
    for name, value in limits.items():
        (CGROUPS / "blkio" / f"blkio.throttle.{_FILES[name]}_device").write_text(f"7:{minor} {value}")


def unlimit(minor: int) -> None:
    """No limits any more."""
    with contextlib.suppress(OSError):
        limit(minor, dict.fromkeys(_FILES, 0))


def _bound_dirty(minor: int, size: int) -> None:
    folder = Path(f"/sys/class/bdi/7:{minor}")
    with contextlib.suppress(OSError):
        (folder / "strict_limit").write_text("1")
        (folder / "max_bytes").write_text(str(size))


def disk_moved(minor: int) -> tuple[int, int]:
    """(read, written) bytes of a device."""
    fields = Path(f"/sys/dev/block/7:{minor}/stat").read_text().split()
    return 512 * int(fields[2]), 512 * int(fields[6])


# Servers.


def samba(folder: Path, data: Path, host: str, spec: Mapping[str, Any]) -> list[str]:
    """Writes the configuration and the user; the command."""
    places = {name: folder / name for name in ("private", "lock", "state", "cache", "run", "ncalrpc", "log")}
    for place in places.values():
        place.mkdir()
    credits = f"smb2 max credits = {spec['slots']}\n" if spec.get("slots") and spec["slots"] < 1024 else ""
    config = folder / "smb.conf"
    config.write_text(
        f"""[global]
server role = standalone server
smb ports = {PORT}
interfaces = {host}
bind interfaces only = yes
disable netbios = yes
private dir = {places["private"]}
lock directory = {places["lock"]}
state directory = {places["state"]}
cache directory = {places["cache"]}
pid directory = {places["run"]}
ncalrpc dir = {places["ncalrpc"]}
passdb backend = tdbsam:{places["private"]}/users.tdb
log file = {places["log"]}/%m
load printers = no
disable spoolss = yes
server min protocol = SMB2_10
server signing = {"mandatory" if spec.get("signing") else "default"}
{credits}[data]
path = {data}
read only = no
"""
    )
    words = ["smbpasswd", "-c", str(config), "-s", "-a", "root"]
    text = f"{PASSWORD}\n{PASSWORD}\n"
    subprocess.run(words, check=True, input=text, text=True, capture_output=True, timeout=60)
    return ["smbd", "-F", "--no-process-group", "-s", str(config), "-l", str(places["log"])]


def ganesha(folder: Path, data: Path, host: str, spec: Mapping[str, Any]) -> list[str]:
    """Writes the configuration; the command. /run is the world's own."""
    version = str(spec["protocol"]).removeprefix("nfs")
    protocols, minor = ("3", "0") if version == "3" else ("4", version[2:])
    plugins = next(Path("/usr/lib").glob("*/ganesha/libfsalvfs.so")).parent
    slots = f"Slot_Table_Size = {spec['slots']};" if spec.get("slots") and version in ("4.1", "4.2") else ""
    (folder / "recovery").mkdir()
    config = folder / "ganesha.conf"
    config.write_text(
        f"""NFS_CORE_PARAM {{ Protocols = {protocols}; NFS_Port = {PORT}; MNT_Port = {MOUNT_PORT}; Bind_addr = {host};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; Plugins_Dir = {plugins}; }}
NFSv4 {{ Minor_Versions = {minor}; Graceless = true; Lease_Lifetime = 60; Only_Numeric_Owners = true;
  RecoveryRoot = {folder}/recovery; {slots} }}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{ Export_Id = 9; Path = {data}; Pseudo = /data; Protocols = {protocols}; Transports = TCP; Access_Type = RW;
  Squash = No_Root_Squash; SecType = sys, none; MaxRead = 1048576; MaxWrite = 1048576; PrefRead = 1048576;
  PrefWrite = 1048576; Filesystem_Id = 9.9; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
"""
    )
    return ["ganesha.nfsd", "-F", "-L", str(folder / "log"), "-f", str(config), "-p", str(folder / "pid")]


def url(spec: Mapping[str, Any], host: str) -> str:
    """What the client is given."""
    relay = bool(spec.get("relay"))
    port, mount_port = (RELAY_PORT, RELAY_MOUNT_PORT) if relay else (PORT, MOUNT_PORT)
    if spec["protocol"] == "smb":
        return f"smb://root@{host}:{port}/data"
    return f"nfs://{host}:{port}/data" + (f"?mountport={mount_port}" if spec["protocol"] == "nfs3" else "")


def rpcbind(inside: int) -> Iterator[list[str]]:
    """Commands that Ganesha needs for version 3: a portmapper in the server's network and in a /run of its own."""
    Path("/run/rpcbind").mkdir(exist_ok=True)
    program = shutil.which("rpcbind", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or "rpcbind"
    yield ["nsenter", "-t", str(inside), "-n", program, "-f", "-w"]


def wait_for(check: Callable[[], bool], seconds: float, what: str) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.05)


def answers(host: str, ports: Sequence[int], inside: int | None) -> bool:
    """Whether somebody listens on all ports, by the kernel's table."""
    table = run("ss", "-Hltn", inside=inside)
    return all(f":{port} " in table for port in ports)
