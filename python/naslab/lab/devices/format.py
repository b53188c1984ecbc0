"""File systems on the devices of a plan. Nothing is left to be written later, which would spend a disk's credit."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from naslab.client import process
from naslab.errors import TargetError
from naslab.lab import loops
from naslab.lab.devices.plan import BuildPlan

PROGRAMS = {
    "ext2": {"mkfs.ext2": "e2fsprogs"}, "ext3": {"mkfs.ext3": "e2fsprogs"}, "ext4": {"mkfs.ext4": "e2fsprogs"},
    "xfs": {"mkfs.xfs": "xfsprogs"}, "btrfs": {"mkfs.btrfs": "btrfs-progs"},
    "ntfs": {"mkfs.ntfs": "ntfs-3g", "ntfs-3g": "ntfs-3g"},
}  # fmt: skip
"""Programs that a file system needs, and their Debian packages."""
_EXT = ["-q", "-F", "-b", "4096", "-m", "0", "-i", "65536"]
_RESERVE_SHARE = 16
"""A sixteenth of a RAID stays free below the file on it: room for what btrfs itself writes."""
_NODATACOW = "+C"


def mkfs_words(kind: str, devices: list[str], level: str, uuid: str) -> list[str]:
    """The command that makes a file system; several devices are one btrfs."""
    if kind == "btrfs":
        data = level if len(devices) > 1 and level != "span" else "single"
        mirrored = ["-m", "raid1"] if len(devices) > 1 else ["-m", "single"]
        return ["mkfs.btrfs", "-q", "-f", "-K", "-d", data, *mirrored, "-U", uuid, *devices]
    fixed = {
        "ext2": ["mkfs.ext2", *_EXT, "-E", "nodiscard,lazy_itable_init=0"],
        "ext3": ["mkfs.ext3", *_EXT, "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
        "ext4": ["mkfs.ext4", *_EXT, "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
        "xfs": ["mkfs.xfs", "-q", "-f", "-K"],
        "ntfs": ["mkfs.ntfs", "-q", "-Q", "-F"],
    }
    return [*fixed[kind], *devices]


def format_disks(plan: BuildPlan) -> None:
    """Makes the file systems that lie on the disks themselves: those served, or the btrfs below an engine.

    Raises TargetError.
    """
    devices = [f"/dev/loop{each.minor}" for each in plan.disks]
    one = plan.filesystem == "btrfs" and plan.level not in ("jbod", "pool", "duplicated")
    if one or plan.engine_minor is not None:
        run(mkfs_words("btrfs", devices, plan.level, plan.uuid))
    else:
        for at, device in enumerate(devices):
            run(mkfs_words(plan.filesystem, [device], "single", nth(plan.uuid, at)))


def make_engine(plan: BuildPlan) -> None:
    """The file on a RAID of btrfs, as large as can be, and the file system in it. Raises TargetError, OSError."""
    assert plan.engine_minor is not None
    with mounted_engine(plan) as file:
        file.touch()
        run(["chattr", _NODATACOW, str(file)])
        status = os.statvfs(file)
        room = status.f_bavail * status.f_frsize
        size_bytes = (room - room // _RESERVE_SHARE) >> 20 << 20
        store = os.open(file, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(store, 0, size_bytes)
            device = loops.bind(plan.engine_minor, store, plan.label, direct=True)
        finally:
            os.close(store)
        try:
            run(mkfs_words(plan.filesystem, [f"/dev/loop{plan.engine_minor}"], "single", plan.uuid))
        finally:
            os.close(device)
            loops.remove(plan.engine_minor)


@contextlib.contextmanager
def mounted_engine(plan: BuildPlan) -> Iterator[Path]:
    """The btrfs below an engine, mounted in this process's namespace for a while: its file's path."""
    file = mount_engine(plan)
    try:
        yield file
    finally:
        run(["umount", str(file.parent)])


def mount_engine(plan: BuildPlan) -> Path:
    """Mounts the btrfs below an engine in this process's namespace; its file's path. Raises TargetError."""
    folder = Path(plan.folder) / "engine"
    folder.mkdir(exist_ok=True)
    devices = [f"/dev/loop{each.minor}" for each in plan.disks]
    options = ",".join(["noatime", "nodiscard", *(f"device={each}" for each in devices)])
    run(["mount", "-t", "btrfs", "-o", options, devices[0], str(folder)])
    return folder / "volume"


def forget(plan: BuildPlan, minors: list[int]) -> None:
    """Has the kernel forget that it saw parts of a btrfs on these devices, which nobody holds any more."""
    if plan.engine_minor is not None or plan.filesystem == "btrfs":
        for minor in minors:
            with contextlib.suppress(TargetError):
                run(["btrfs", "device", "scan", "--forget", f"/dev/loop{minor}"])


def run(words: list[str]) -> None:
    """A program that ends with this process. Raises TargetError with the end of what it said."""
    me = os.getpid()
    try:
        done = subprocess.run(
            words, check=False, stdin=subprocess.DEVNULL, capture_output=True,
            preexec_fn=lambda: process.die_with_parent(me),
        )  # fmt: skip
    except OSError as error:
        raise TargetError(f"{words[0]}: {error.strerror}", before_run=True) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-2:]
        raise TargetError(f"{words[0]}: {' '.join(said) or f'ended with code {done.returncode}'}", before_run=True)


def nth(uuid: str, at: int) -> str:
    """Another identity for each disk."""
    return uuid[:-2] + f"{(int(uuid[-2:], 16) + at) % 256:02x}"
