"""Linux's own NFS server, in a guest of the lab: `python knfsd.py FOLDER` serves until it is killed.

That cuts the guest's power. Its disk is a file of FOLDER, which stays; it is in the network of this process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from naslab.lab import guest as guests
from naslab.lab.guest import GUEST, HOST, Disk, Spec, boot, servers, volume
from naslab.lab.guest.spec import BRIDGE
from naslab.lab.guest.volume import Volume
from naslab.lab.systems import which

DISK_BYTES = 1 << 30
"""Of which only what is written takes room."""
GONE_S = 20
_VOLUME = Volume("single", "ext4", (0,))


def missing() -> str:
    """The packages and devices that are not here; empty where all are."""
    wanted = {**boot.programs(), **servers.PROGRAMS["knfsd"], "mkfs.ext4": volume.package("mkfs.ext4")}
    packages = {package for program, package in wanted.items() if which(program) is None}
    return " ".join([*sorted(packages), *([] if Path("/dev/net/tun").exists() else ["/dev/net/tun"])])


def command(folder: Path) -> list[str]:
    """The words that start it."""
    return [sys.executable, __file__, str(folder)]


def main() -> None:
    """Entry point."""
    folder = Path(sys.argv[1])
    home, disk = folder / "guest", folder / "guest.img"
    if _is_there(BRIDGE):
        _await_end("tap0")
    else:
        boot.make_bridge(HOST)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    is_new = not disk.exists()
    with disk.open("ab") as file:
        file.truncate(DISK_BYTES)
    with guests.running(
        Spec(ram_bytes=384 << 20, disks=(Disk(path=str(disk)),), net=f"/proc/{os.getpid()}/ns/net"), home
    ) as guest:
        (volume.make if is_new else volume.reopen)(guest, _VOLUME)
        servers.start(guest, servers.plan_knfsd(GUEST))
        signal.pause()


def _is_there(interface: str) -> bool:
    return subprocess.run(["ip", "link", "show", interface], capture_output=True, check=False).returncode == 0


def _await_end(interface: str) -> None:
    """Waits for the guest before: its interface goes with it."""
    end = time.monotonic() + GONE_S
    while _is_there(interface) and time.monotonic() < end:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
