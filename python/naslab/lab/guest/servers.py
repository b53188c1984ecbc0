"""Servers inside a guest: the kernel's NFS server, NFS-Ganesha and Samba, all of the volume at DATA.

Each answers with facts of the same shape as the lab's other servers (url, targets, user, credentials, host, port ...).
Their address is one of the guest's network, and answers only there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab.errors import TargetError, UsageError
from naslab.lab import ganesha, samba
from naslab.lab.guest.agent import DATA, TOP
from naslab.lab.guest.client import Guest
from naslab.lab.place import Place

VERSIONS = ("3", "4.0", "4.1", "4.2")
NFS_PORT, MOUNT_PORT = 2049, 20048
PROGRAMS = {
    "knfsd": {"rpc.nfsd": "nfs-kernel-server", "exportfs": "nfs-kernel-server", "rpc.mountd": "nfs-kernel-server",
              "rpcbind": "rpcbind"},
    "ganesha": ganesha.PROGRAMS,
    "samba": samba.PROGRAMS,
}  # fmt: skip
"""Programs of each server and the Debian packages that hold them."""
SERVED = {"data": DATA}
"""What is served where nothing else is said."""
_LOG = "/var/log"


@dataclass(frozen=True)
class KernelNfsOptions:
    """What can be chosen of the kernel's NFS server.

    versions: those of VERSIONS that it speaks. write: `sync` (stable when it says so) or `async` (it says so before).
    transfer_bytes: largest READ and WRITE. threads: of the server. lease_s: of NFS 4, 10 or more.
    """

    versions: tuple[str, ...] = VERSIONS
    write: str = "sync"
    transfer_bytes: int = 1 << 20
    threads: int = 8
    lease_s: int = 10

    def __post_init__(self) -> None:
        if not self.versions or set(self.versions) - set(VERSIONS):
            raise UsageError(f"knfsd: versions {self.versions!r}; use some of {', '.join(VERSIONS)}")
        if self.write not in ("sync", "async"):
            raise UsageError(f"knfsd: write={self.write!r}; use sync or async")
        if not 10 <= self.lease_s <= 3600:
            raise UsageError(f"knfsd: lease_s={self.lease_s}; the kernel takes 10 to 3600")

    def lines(self, folders: Iterable[str] = (DATA,)) -> list[str]:
        """Lines of sh that start it, exporting these folders."""
        off = [f"-N {each}" for each in ("3", "4.0", "4.1", "4.2") if each not in self.versions]
        if not any(each.startswith("4") for each in self.versions):
            off = ["-N 4"]
        export = f"rw,{self.write},no_root_squash,insecure,no_subtree_check"
        return [
            "ulimit -n 1024",  # daemons close all descriptors that there could be
            "modprobe nfsd",
            "mount -t nfsd nfsd /proc/fs/nfsd",
            "mkdir -p /run/rpcbind /run/sendsigs.omit.d /var/lib/nfs/sm /var/lib/nfs/v4recovery",
            "touch /var/lib/nfs/etab /var/lib/nfs/rmtab",
            f"echo {self.transfer_bytes} > /proc/fs/nfsd/max_block_size",
            f"echo {self.lease_s} > /proc/fs/nfsd/nfsv4leasetime",
            f"echo {self.lease_s} > /proc/fs/nfsd/nfsv4gracetime",
            "rpcbind -w",
            *(f"exportfs -i -o {export},fsid={number} '*:{path}'" for number, path in enumerate(folders, 7)),
            " ".join(["rpc.nfsd", *off, str(self.threads)]),
            "echo Y > /proc/fs/nfsd/v4_end_grace",  # nobody has anything to reclaim
            f"rpc.mountd -p {MOUNT_PORT}",
        ]


@dataclass(frozen=True)
class Served:
    """A server ready to be started in a guest.

    facts: what its users are told. lines: of sh, before it. files: texts by path, written before that. command: its
    program, which stays, with the file for what it says; empty where `lines` start it. ports: answer when it is
    ready, at the guest's `host`.
    """

    name: str
    facts: dict[str, Any]
    lines: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()
    log: str = ""
    ports: tuple[int, ...] = ()
    host: str = "127.0.0.1"

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Served:
        """What `dataclasses.asdict` made, after a way through JSON."""
        pairs = tuple((path, text) for path, text in given["files"])
        lists = {name: tuple(given[name]) for name in ("lines", "command", "ports")}
        return cls(**{**given, **lists, "files": pairs})


def plan_knfsd(address: str, options: KernelNfsOptions | None = None, folders: Mapping[str, str] = SERVED) -> Served:
    """The kernel's NFS server. folders: what is exported, under its own path, by name."""
    chosen = options or KernelNfsOptions()
    facts = _nfs_facts(address, chosen.versions, folders)
    return Served("knfsd", facts, tuple(chosen.lines(folders.values())), ports=_nfs_ports(chosen.versions))


def plan_ganesha(
    address: str, options: ganesha.GaneshaOptions | None = None, folders: Mapping[str, str] = SERVED
) -> Served:
    """NFS-Ganesha on the same ports, with exports of the same paths."""
    chosen = options or ganesha.GaneshaOptions()
    place = Place(Path(TOP), Path(DATA), can_mount=True)
    exports = {path.strip("/"): Path(path) for path in folders.values()}
    config = ganesha.config_text(place, chosen, NFS_PORT, MOUNT_PORT, exports, "0.0.0.0")
    path, log = f"{TOP}/ganesha.conf", f"{_LOG}/ganesha.log"
    register = ("ulimit -n 1024", "rpcbind -w") if "3" in chosen.versions else ()
    return Served(
        "ganesha", _nfs_facts(address, chosen.versions, folders),
        (f"mkdir -p /run/rpcbind /run/ganesha {TOP}/recovery", *register), ((path, config),),
        ("ganesha.nfsd", "-F", "-L", log, "-f", path, "-p", "/run/ganesha.pid"), log, _nfs_ports(chosen.versions),
    )  # fmt: skip


def plan_samba(
    address: str, folder: Path, options: samba.SambaOptions | None = None, folders: Mapping[str, str] = SERVED
) -> Served:
    """Samba. folder: one that the guest shares with the host; keeps its configuration and its user's password.

    Raises UsageError, TargetError.
    """
    chosen = options or samba.SambaOptions()
    folder.mkdir(exist_ok=True)
    state = {"lock directory": "/run/samba/lock", "state directory": "/run/samba/state",
             "cache directory": "/run/samba/cache", "pid directory": "/run/samba"}  # fmt: skip
    inside = samba.SambaOptions(**{**vars(chosen), "config": {**state, **chosen.config}})
    more = {name: Path(path) for name, path in folders.items() if name != "data"}
    service = samba.prepare(Place(folder, Path(folders["data"]), can_mount=False), inside, address, more)
    facts = dict(service.facts)
    facts["targets"] = {name: url for name, url in facts["targets"].items() if name in (*folders, "secret")}
    return Served(
        "samba", facts, ("mkdir -p /run/samba/lock /run/samba/state /run/samba/cache",),
        command=("smbd", *service.command[1:]), log=f"{_LOG}/smbd.log", ports=(service.port,), host=address,
    )  # fmt: skip


def start(guest: Guest, served: Served, group: str = "") -> dict[str, Any]:
    """Starts a server; its facts. group: a control group of the guest's for its program. Raises TargetError."""
    for path, text in served.files:
        guest.write(path, text.encode(), 0o600)
    if served.lines:
        guest.shell("\n".join(served.lines))
    if served.command:
        join = ["/bin/sh", "-c", f'echo 0 > {group}/cgroup.procs; exec "$@"', "sh"] if group else []
        guest.spawn([*join, *served.command], served.log)
    for port in served.ports:
        if not guest.answers(port, served.host):
            said = guest.run(["tail", "-n", "4", served.log]).words() if served.log else "see the guest's console"
            raise TargetError(f"guest: {served.name} does not answer at port {port}: {said}", before_run=True)
    return served.facts


def _nfs_ports(versions: tuple[str, ...]) -> tuple[int, ...]:
    return (NFS_PORT, MOUNT_PORT) if "3" in versions else (NFS_PORT,)


def _nfs_facts(address: str, versions: tuple[str, ...], folders: Mapping[str, str]) -> dict[str, Any]:
    query = f"?mountport={MOUNT_PORT}" if "3" in versions else f"?version={versions[-1]}"
    targets = {name: f"nfs://{address}:{NFS_PORT}{path}{query}" for name, path in folders.items()}
    return {
        "url": targets["data"], "targets": targets, "user": "", "host": address, "port": NFS_PORT,
        "mount_port": MOUNT_PORT, "protocol": "nfs", "versions": list(versions), "path": folders["data"],
    }  # fmt: skip
