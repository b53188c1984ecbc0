"""A folder with a quota: btrfs on a loop device, in the namespace of `inside.py` alone, with which both end."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

QUOTA_BYTES = 1 << 30
DISK_BYTES = 3 << 30
"""Of which only what is written takes room."""
_PIECE = bytes(1 << 20)
PROGRAMS = {"mkfs.btrfs": "btrfs-progs", "btrfs": "btrfs-progs", "mount": "mount"}


def missing(path: str) -> str:
    """The packages that are not here; empty where all are. path: where programs are looked for."""
    if "\tbtrfs\n" not in Path("/proc/filesystems").read_text() and shutil.which("modprobe", path=path) is None:
        return "btrfs in the kernel"
    return " ".join(sorted({package for name, package in PROGRAMS.items() if shutil.which(name, path=path) is None}))


def command(data: Path) -> Path:
    """A program that tells Samba the quota (`get quota command`), for it knows none of btrfs; written anew."""
    program = data.parent / "quota.sh"
    limit = QUOTA_BYTES >> 10
    program.write_text(f"#!/bin/sh\nset -- $(du -sk {data})\necho 2 $1 {limit} {limit} 0 0 0 1024\n")
    program.chmod(0o755)
    return program


def mount(data: Path) -> dict[str, str]:
    """Puts it over `data`."""
    disk = data.parent / "disk.img"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    for words in (
        ["mkfs.btrfs", "-q", str(disk)], ["mount", "-o", "loop", str(disk), str(data)],
        ["btrfs", "quota", "enable", str(data)], ["btrfs", "qgroup", "limit", str(QUOTA_BYTES), str(data)],
        ["sync", "-f", str(data)],
    ):  # fmt: skip
        subprocess.run(words, check=True, capture_output=True, timeout=60)
    return {}


def mount_full(data: Path) -> dict[str, str]:
    """The same with nothing left of the quota."""
    mount(data)
    with (data / "owners.bin").open("wb", buffering=0) as file:
        try:
            for _ in range(DISK_BYTES // len(_PIECE)):
                file.write(_PIECE)
        except OSError as error:
            if error.errno != errno.EDQUOT:
                raise
    return {}
