"""Loop devices of the lab: block devices on memory, with numbers of their own, that leave nothing behind.

The memory is a file without a name, so that it goes with the last one who holds it; the device lets go of it at its
last close or unmount. What the kernel keeps beyond that is the device's number and the limits set on it: both
go with the number (LOOP_CTL_REMOVE). Numbers lie far above those that `losetup -f` hands out, and the private
folder of a server names its own before it is made, so that whoever comes later can remove it.

Source: <linux/loop.h>, loop(4).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import struct
import time
from pathlib import Path
from typing import Any

from naslab.errors import UsageError

MINORS = range(1000, 100_000)
"""Numbers that the lab's devices take."""
RECORD = "device.json"
_CONTROL = "/dev/loop-control"
_CTL_ADD, _CTL_REMOVE = 0x4C80, 0x4C81
_CONFIGURE, _CLR_FD = 0x4C0A, 0x4C01
_AUTOCLEAR = 4
_MAJOR = 7


def check() -> None:
    """Raises UsageError where no loop device can be made."""
    if os.geteuid() != 0:
        raise UsageError("lab: a disk with limits is a loop device, which only root can make: run as root")
    if not os.access(_CONTROL, os.R_OK | os.W_OK):
        raise UsageError(f"lab: {_CONTROL} is not there: this machine (a container?) gives no loop devices")


def reserve(folder: Path, **more: Any) -> int:
    """A number that no device has, written down in the private folder with `more`."""
    for _ in range(200):
        minor = secrets.choice(MINORS)
        if not Path(f"/sys/dev/block/{_MAJOR}:{minor}").exists():
            (folder / RECORD).write_text(json.dumps({"minor": minor, **more}), encoding="ascii")
            return minor
    raise UsageError("lab: no free number for a loop device; restart the system")


def name(minor: int) -> str:
    """`major:minor`, as the kernel's files take it."""
    return f"{_MAJOR}:{minor}"


def create(minor: int, size_bytes: int, label: str) -> int:
    """Makes the device on so much memory, all of it touched; an open descriptor that keeps it. Raises OSError.

    label: its memory's name, which `losetup -a` shows.
    """
    _control(_CTL_ADD, minor)
    memory = os.memfd_create(label)
    try:
        os.posix_fallocate(memory, 0, size_bytes)  # or the first write to each page would be slower
        device = os.open(f"/dev/loop{minor}", os.O_RDWR | os.O_CLOEXEC)
        # struct loop_config: descriptor, block size, struct loop_info64 (flags in its tenth field), 64 spare bytes
        info = struct.pack("<5Q4I64s64s32s2Q", 0, 0, 0, 0, 0, 0, 0, 0, _AUTOCLEAR, b"", b"", b"", 0, 0)
        try:
            fcntl.ioctl(device, _CONFIGURE, struct.pack("<II", memory, 4096) + info + bytes(64))
        except OSError:
            os.close(device)
            raise
        return device
    finally:
        os.close(memory)


def open_counter(minor: int) -> int:
    """A descriptor for `moved_bytes`. Raises OSError without such a device."""
    return os.open(f"/sys/dev/block/{_MAJOR}:{minor}/stat", os.O_RDONLY | os.O_CLOEXEC)


def moved_bytes(counter: int) -> int:
    """Bytes that the device has read and written since it was made, completed ones only."""
    fields = os.pread(counter, 512, 0).split()
    return 512 * (int(fields[2]) + int(fields[6]))


def remove(minor: int, seconds: float = 10.0) -> bool:
    """Removes the device once nobody holds it; whether it is gone. Its limits go with it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            _control(_CTL_REMOVE, minor)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return True
            if error.errno != errno.EBUSY:
                return False
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)


def release_recorded(folder: Path, seconds: float = 10.0) -> bool:
    """Removes the device, and the control group, that a private folder names; whether nothing is left of them.

    A device on anything but memory of that folder's is somebody else's and stays.
    """
    try:
        record = json.loads((folder / RECORD).read_text(encoding="ascii"))
        minor = int(record["minor"])
    except (OSError, ValueError, KeyError, TypeError):
        return True
    gone = minor not in MINORS or not _is_ours(minor, folder.name) or remove(minor, seconds)
    group = record.get("group")
    if gone and isinstance(group, str) and Path(group).name == folder.name:
        with contextlib.suppress(OSError):
            Path(group).rmdir()
    return gone


def _is_ours(minor: int, label: str) -> bool:
    """Whether the device is bound to memory with this label, or to nothing."""
    try:
        backing = Path(f"/sys/dev/block/{_MAJOR}:{minor}/loop/backing_file").read_text(encoding="utf-8")
    except OSError:
        return True
    return backing.startswith(f"/memfd:{label} ")


def _control(request: int, minor: int) -> None:
    """One call of /dev/loop-control. Raises OSError."""
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(control, request, minor)
    finally:
        os.close(control)
