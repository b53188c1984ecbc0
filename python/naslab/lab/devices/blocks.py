"""Servers of blocks under a disk: for limits that the kernel's block layer does not keep, latency and errors.

memory -> nbdkit with its delay and error filters -> qemu-nbd with a throttle group -> nbdfuse, which makes a file of
it -> loop device. What is not asked for is left out. Each is a child of the keeper and dies with it; the mount of
nbdfuse lies in the keeper's own mount namespace. (qemu-storage-daemon's own FUSE export is no way to do this: under a
direct loop device version 7.2 corrupted data.)
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from pathlib import Path

from naslab.client import process
from naslab.errors import TargetError
from naslab.lab.devices.plan import DiskPlan

READY_S = 20.0
ARMED = "armed"
"""A file in the private folder: errors begin when it is there."""
_CLONE_NEWNS, _MS_REC, _MS_SLAVE = 0x20000, 0x4000, 0x80000


def programs(latency_or_errors: bool, limits: bool) -> dict[str, str]:
    """Programs that a served disk needs, and their Debian packages."""
    found = {"nbdfuse": "libnbd-bin", "fusermount3": "fuse3"}
    if latency_or_errors:
        found["nbdkit"] = "nbdkit"
    if limits:
        found["qemu-nbd"] = "qemu-utils"
    return found


def own_mounts() -> None:
    """Gives this process a mount namespace: what it mounts is seen by nobody else and ends with it. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNS) != 0 or library.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount namespace: {os.strerror(ctypes.get_errno())}")


def stages(disk: DiskPlan, folder: Path) -> list[list[str]]:
    """Command lines of a disk's servers, from the memory on; the last one makes the file `file_of`.

    folder: the private one.
    """
    found = []
    store = str(store_of(disk, folder))
    at = f"{disk.minor}"
    source = ["file.driver=file", f"file.filename={store}", "file.locking=off"]
    socket = ""
    if disk.latency_ns or disk.error_rate:
        socket = str(folder / f"filter{at}")
        delays = [f"{way}delay={disk.latency_ns // 10**6}ms" for way in "rw"] if disk.latency_ns else []
        errors = [f"error-rate={disk.error_rate * 100:g}%", f"error-file={folder / ARMED}"] if disk.error_rate else []
        filters = [f"--filter={name}" for name, given in (("delay", delays), ("error", errors)) if given]
        found.append(["nbdkit", "-f", "-U", socket, "-t", "16", *filters, "file", store, *delays, *errors])
        source = ["file.driver=nbd", "file.server.type=unix", f"file.server.path={socket}"]
    if disk.served:
        socket = str(folder / f"limit{at}")
        group = ",".join(["throttle-group", "id=limits", *(f"{name}={value}" for name, value in disk.served.items())])
        image = ",".join(["driver=throttle", "throttle-group=limits", *source])
        found.append(["qemu-nbd", "--object", group, "--image-opts", image, "-k", socket, "-t", "-e", "8"])
    found.append(["nbdfuse", "-C", "4", str(file_of(disk, folder).parent), f"nbd+unix:///?socket={socket}"])
    return found


def store_of(disk: DiskPlan, folder: Path) -> Path:
    """The disk's memory as a file, in the keeper's mounts."""
    return folder / f"memory{disk.minor}" / "disk"


def file_of(disk: DiskPlan, folder: Path) -> Path:
    """The file that the last server makes."""
    return folder / f"blocks{disk.minor}" / "nbd"


def start(disk: DiskPlan, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Starts a disk's servers; they stay until they are killed.

    Raises TargetError with the end of what they said when one does not come up.
    """
    file = file_of(disk, folder)
    file.parent.mkdir()
    children = []
    log = folder / f"blocks{disk.minor}.log"
    me = os.getpid()
    for words in stages(disk, folder):
        with log.open("ab") as said:
            child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                preexec_fn=lambda: process.die_with_parent(me),  # noqa: PLW1509 - this process has one thread
            )  # fmt: skip
        children.append(child)
        made = {"nbdkit": folder / f"filter{disk.minor}", "qemu-nbd": folder / f"limit{disk.minor}"}
        _wait_for(made.get(words[0], file), child, words[0], log)
    return children


def _wait_for(path: Path, child: subprocess.Popen[bytes], name: str, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not path.exists():
        if child.poll() is not None or time.monotonic() > deadline:
            words = " ".join(log.read_text(encoding="utf-8", errors="replace").split())[-300:]
            raise TargetError(f"{name} does not serve a disk: {words or 'it printed nothing'}", before_run=True)
        time.sleep(0.005)
