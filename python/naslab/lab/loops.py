"""Loop devices of the lab: block devices on memory, with numbers of their own, that leave nothing behind.

The memory is a file without a folder, so that it goes with the last one who holds it; the device lets go of it at its
last close or unmount. What the kernel keeps beyond that is the device's number and the limits set on it: both
go with the number (LOOP_CTL_REMOVE). Numbers lie far above those that `losetup -f` hands out, and the private
folder of a server names its own before they are made, so that whoever comes later can remove them: a device bears the
folder's name as its label.

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
from collections.abc import Sequence
from pathlib import Path

from naslab.errors import UsageError

MINORS = range(1000, 100_000)
"""Numbers that the lab's devices take."""
RECORD = "device.json"
_CONTROL = "/dev/loop-control"
_ORPHAN_S = 60.0
"""From then on a number of the lab's with nothing behind it was left: a keeper has one so for some milliseconds."""
_CTL_ADD, _CTL_REMOVE = 0x4C80, 0x4C81
_CONFIGURE, _GET_STATUS = 0x4C0A, 0x4C05
_AUTOCLEAR, _DIRECT = 4, 16
_INFO = "<5Q4I64s64s32s2Q"
"""struct loop_info64"""
_MAJOR = 7


def check() -> None:
    """Raises UsageError where no loop device can be made."""
    if os.geteuid() != 0:
        raise UsageError("lab: a disk with limits is a loop device, which only root can make: run as root")
    if not os.access(_CONTROL, os.R_OK | os.W_OK):
        raise UsageError(f"lab: {_CONTROL} is not there: this machine (a container?) has no loop devices")


def reserve(folder: Path, count: int = 1, groups: Sequence[str] = ()) -> list[int]:
    """Numbers that no device has, written down in the private folder with the control groups that go with them."""
    free: list[int] = []
    for _ in range(200 * count):
        if len(free) == count:
            break
        minor = secrets.choice(MINORS)
        if minor not in free and not Path(f"/sys/dev/block/{_MAJOR}:{minor}").exists():
            free.append(minor)
    if len(free) < count:
        raise UsageError("lab: no free number for a loop device; restart the system")
    (folder / RECORD).write_text(json.dumps({"minors": free, "groups": [*groups]}), encoding="ascii")
    return free


def name(minor: int) -> str:
    """`major:minor`, as the kernel's files take it."""
    return f"{_MAJOR}:{minor}"


def create(minor: int, size_bytes: int, label: str) -> int:
    """Makes the device on so much memory; an open descriptor that keeps it. Raises OSError."""
    store = memory(size_bytes, label)
    try:
        return bind(minor, store, label)
    finally:
        os.close(store)


def memory(size_bytes: int, label: str) -> int:
    """A file without a folder, in memory, all of it touched: the first write to each page would be slower.

    label: its name, which `losetup -a` shows. Raises OSError.
    """
    return touched(os.memfd_create(label), size_bytes)


def touched(store: int, size_bytes: int) -> int:
    """The same open file, as large as that, each page of it there; closed where that fails. Raises OSError."""
    try:
        os.posix_fallocate(store, 0, size_bytes)
    except OSError:
        os.close(store)
        raise
    return store


def bind(minor: int, store: int, label: str, direct: bool = False) -> int:
    """Makes the device on an open file; a descriptor that keeps it. Raises OSError.

    direct: past the page cache of the file. The file is held by the device until its last close or unmount.
    """
    _control(_CTL_ADD, minor, existing=True)
    device = os.open(f"/dev/loop{minor}", os.O_RDWR | os.O_CLOEXEC)
    # struct loop_config: descriptor, block size, struct loop_info64 (flags in its tenth field), 64 spare bytes
    flags = _AUTOCLEAR | (_DIRECT if direct else 0)
    info = struct.pack(_INFO, 0, 0, 0, 0, 0, 0, 0, 0, flags, label.encode("ascii")[:63], b"", b"", 0, 0)
    try:
        fcntl.ioctl(device, _CONFIGURE, struct.pack("<II", store, 4096) + info + bytes(64))
    except OSError:
        os.close(device)
        raise
    return device


def open_counter(minor: int) -> int:
    """A descriptor for `moved_bytes`. Raises OSError without such a device."""
    return os.open(f"/sys/dev/block/{_MAJOR}:{minor}/stat", os.O_RDONLY | os.O_CLOEXEC)


def moved_bytes(counter: int) -> int:
    """Bytes that the device has read and written since it was made, completed ones only."""
    fields = os.pread(counter, 512, 0).split()
    return 512 * (int(fields[2]) + int(fields[6]))


def is_bound(minor: int) -> bool:
    """Whether the device stands on something, held by somebody."""
    return Path(f"/sys/block/loop{minor}/loop/backing_file").exists()


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
    """Removes the devices, and the control groups, that a private folder names; whether nothing is left of them.

    A device with another label than the folder's name is somebody else's and stays.
    """
    try:
        record = json.loads((folder / RECORD).read_text(encoding="ascii"))
        minors = [int(each) for each in record["minors"]]
        groups = [Path(each) for each in record["groups"]]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    # From the last: a device may stand on those before it.
    mine = [each for each in reversed(minors) if each in MINORS and _is_ours(each, folder.name)]
    removed = [remove(each, seconds) for each in mine]
    left = [each for each in groups if each.name == folder.name and all(removed)]
    return all(removed) and all(_remove_group(each, seconds) for each in left)


def remove_orphans(devices: Path = Path("/dev")) -> list[int]:
    """Removes numbers of the lab's that have stood on nothing for a minute or more; those removed.

    A server whose processes and folder were both removed with force leaves them, and nobody knows whose they
    were: they hold no data, and the kernel keeps one that somebody has open.
    """
    removed = []
    for node in devices.glob("loop*"):
        minor = int(node.name[4:]) if node.name[4:].isdigit() else 0
        with contextlib.suppress(OSError):
            if minor in MINORS and not is_bound(minor) and time.time() - node.stat().st_ctime > _ORPHAN_S:
                _control(_CTL_REMOVE, minor)
                removed.append(minor)
    return removed


def _remove_group(group: Path, seconds: float) -> bool:
    """Removes a control group once the last process has left it; whether it is gone."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        else:
            return True


def _is_ours(minor: int, label: str) -> bool:
    """Whether the device bears this label, or is bound to nothing."""
    try:
        device = os.open(f"/dev/loop{minor}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        info = fcntl.ioctl(device, _GET_STATUS, bytes(struct.calcsize(_INFO)))
    except OSError:
        return True
    finally:
        os.close(device)
    return bool(struct.unpack(_INFO, info)[9].rstrip(b"\0") == label.encode("ascii")[:63])


def _control(request: int, minor: int, existing: bool = False) -> None:
    """One call of /dev/loop-control; existing: a number that is there already is no error. Raises OSError."""
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(control, request, minor)
    except OSError as error:
        if not (existing and error.errno == errno.EEXIST):
            raise
    finally:
        os.close(control)
