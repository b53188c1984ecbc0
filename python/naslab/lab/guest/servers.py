"""Servers inside a guest: the kernel's NFS server, NFS-Ganesha and Samba, all of the volume at DATA.

Each answers with facts of the same shape as the lab's other servers (url, targets, user, credentials, host, port ...).
Their address is one of the guest's network, and answers only there.
"""

from __future__ import annotations

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

    def lines(self) -> list[str]:
        """Lines of sh that start it, serving DATA."""
        off = [f"-N {each}" for each in ("3", "4.0", "4.1", "4.2") if each not in self.versions]
        if not any(each.startswith("4") for each in self.versions):
            off = ["-N 4"]
        export = f"rw,{self.write},no_root_squash,insecure,no_subtree_check,crossmnt,fsid=7"
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
            f"exportfs -i -o {export} '*:{DATA}'",
            " ".join(["rpc.nfsd", *off, str(self.threads)]),
            "echo Y > /proc/fs/nfsd/v4_end_grace",  # nobody has anything to reclaim
            f"rpc.mountd -p {MOUNT_PORT}",
        ]


def knfsd(guest: Guest, options: KernelNfsOptions | None = None) -> dict[str, Any]:
    """Starts the kernel's NFS server; its facts. Raises TargetError."""
    chosen = options or KernelNfsOptions()
    guest.shell("\n".join(chosen.lines()))
    _wait(guest, "knfsd", NFS_PORT, *([MOUNT_PORT] if "3" in chosen.versions else []))
    return _nfs_facts(guest, chosen.versions, DATA, NFS_PORT, MOUNT_PORT)


def nfs_ganesha(guest: Guest, options: ganesha.GaneshaOptions | None = None) -> dict[str, Any]:
    """Starts NFS-Ganesha on the same port; its facts. Raises TargetError."""
    chosen = options or ganesha.GaneshaOptions()
    place = Place(Path(TOP), Path(DATA), can_mount=True)
    config = ganesha.config_text(place, chosen, NFS_PORT, MOUNT_PORT, {"data": Path(DATA)}, "0.0.0.0")
    guest.write(f"{TOP}/ganesha.conf", config.encode())
    register = "ulimit -n 1024; rpcbind -w\n" if "3" in chosen.versions else ""
    guest.shell(f"mkdir -p /run/rpcbind /run/ganesha {TOP}/recovery\n{register}")
    log = f"{_LOG}/ganesha.log"
    guest.spawn(["ganesha.nfsd", "-F", "-L", log, "-f", f"{TOP}/ganesha.conf", "-p", "/run/ganesha.pid"], log)
    _wait(guest, "ganesha", NFS_PORT, *([MOUNT_PORT] if "3" in chosen.versions else []), log=log)
    return _nfs_facts(guest, chosen.versions, "/data", NFS_PORT, MOUNT_PORT)


def smbd(guest: Guest, options: samba.SambaOptions | None = None) -> dict[str, Any]:
    """Starts Samba; its facts. Its user's password lies in the guest's private folder. Raises TargetError."""
    chosen = options or samba.SambaOptions()
    folder = guest.folder / "samba"
    folder.mkdir(exist_ok=True)
    state = {"lock directory": "/run/samba/lock", "state directory": "/run/samba/state",
             "cache directory": "/run/samba/cache", "pid directory": "/run/samba"}  # fmt: skip
    options_here = samba.SambaOptions(**{**vars(chosen), "config": {**state, **chosen.config}})
    service = samba.prepare(Place(folder, Path(DATA), can_mount=False), options_here, guest.address)
    guest.shell("mkdir -p /run/samba/lock /run/samba/state /run/samba/cache")
    guest.spawn(["smbd", *service.command[1:]], f"{_LOG}/smbd.log")
    _wait(guest, "samba", service.port, host=guest.address, log=f"{_LOG}/smbd.log")
    facts = dict(service.facts)
    facts["targets"] = {name: url for name, url in facts["targets"].items() if name in ("data", "secret")}
    return facts


def _wait(guest: Guest, name: str, *ports: int, host: str = "127.0.0.1", log: str = "") -> None:
    """Until the server answers at all of its ports. Raises TargetError with the end of its log."""
    for port in ports:
        if not guest.answers(port, host):
            said = guest.run(["tail", "-n", "4", log]).words() if log else "see the guest's console"
            raise TargetError(f"guest: {name} does not answer at port {port}: {said}", before_run=True)


def _nfs_facts(guest: Guest, versions: tuple[str, ...], path: str, port: int, mount_port: int) -> dict[str, Any]:
    query = f"?mountport={mount_port}" if "3" in versions else f"?version={versions[-1]}"
    url = f"nfs://{guest.address}:{port}{path}{query}"
    return {
        "url": url, "targets": {"data": url}, "user": "", "host": guest.address, "port": port, "path": path,
        "mount_port": mount_port, "protocol": "nfs", "versions": list(versions),
    }  # fmt: skip
