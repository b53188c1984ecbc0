"""What a guest is made of, as data: memory, disks, folders it shares with the host, its place in a network."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from naslab.errors import UsageError

HOST = "10.78.0.1"
"""The host's address in a guest's network."""
GUEST = "10.78.0.2"
"""The first guest's address there."""
BRIDGE = "lab0"
"""The interface of the host's address, which all taps of a network are ports of."""
MOST_DISKS = 8
_LEAST_RAM_BYTES = 96 << 20
_SAFE = re.compile(r"[A-Za-z0-9_./+@:-]+")
_UBD_MAJOR = 98


@dataclass(frozen=True)
class Disk:
    """One disk of a guest, with its limits; 0 stands for no limit.

    size_bytes: of a new disk in memory, taken as it fills. path: a file or block device of the host instead, whose
    contents stay; the host caches it, so that limits planted there do not reach the guest. Reads and writes have a
    budget each; the guest's block layer keeps to them, below its cache.
    """

    size_bytes: int = 0
    path: str = ""
    read_bytes_per_s: int = 0
    write_bytes_per_s: int = 0
    read_iops: int = 0
    write_iops: int = 0

    def __post_init__(self) -> None:
        if bool(self.size_bytes) == bool(self.path):
            raise UsageError("guest: a disk has either size_bytes (new, in memory) or path (of the host)")
        if self.path and not _SAFE.fullmatch(self.path):
            raise UsageError(f"guest: disk {self.path!r}: use a path of letters, digits and _./+@:- only")
        if self.size_bytes % 4096:
            raise UsageError(f"guest: size_bytes={self.size_bytes} of a disk; give a multiple of 4096")

    def limits(self) -> dict[str, int]:
        """Files of the guest's control group, and what goes into them."""
        found = {
            "read_bps_device": self.read_bytes_per_s, "write_bps_device": self.write_bytes_per_s,
            "read_iops_device": self.read_iops, "write_iops_device": self.write_iops,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class Spec:
    """A guest.

    ram_bytes: its memory, of which its kernel takes about 40 MiB. shared: folders of the host that it may write to, at
    the same path inside; everything else of the host it sees read-only. net: path of a network namespace to be in
    (another guest's); empty makes one. tap, address, mtu_bytes (largest packet): its own there.
    """

    ram_bytes: int = 512 << 20
    disks: tuple[Disk, ...] = ()
    shared: tuple[str, ...] = ()
    net: str = ""
    tap: str = "tap0"
    address: str = GUEST
    mtu_bytes: int = 1500

    def __post_init__(self) -> None:
        if self.ram_bytes < _LEAST_RAM_BYTES:
            raise UsageError(f"guest: ram_bytes={self.ram_bytes}; it needs {_LEAST_RAM_BYTES} or more to start")
        if len(self.disks) > MOST_DISKS:
            raise UsageError(f"guest: {len(self.disks)} disks; it takes {MOST_DISKS} at most")
        for folder in self.shared:
            check_folder(folder)
        if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", self.address):
            raise UsageError(f"guest: address={self.address!r}; give one like {GUEST}")
        if not re.fullmatch(r"[a-z][a-z0-9]{0,14}", self.tap):
            raise UsageError(f"guest: tap={self.tap!r}; give a letter and up to 14 letters and digits")

    def to_json(self) -> dict[str, Any]:
        """JSON types, for `from_json`."""
        return dataclasses.asdict(self)


def from_json(given: Mapping[str, Any]) -> Spec:
    """The guest that `Spec.to_json` wrote. Raises UsageError."""
    disks = tuple(Disk(**disk) for disk in given["disks"])
    return Spec(**{**given, "disks": disks, "shared": tuple(given["shared"])})


def check_folder(folder: str) -> None:
    """Raises UsageError for a path that a kernel's command line cannot hold."""
    if not folder.startswith("/") or not _SAFE.fullmatch(folder):
        raise UsageError(f"guest: folder {folder!r}; give an absolute path of letters, digits and _./+@:- only")


def device(number: int) -> str:
    """Path in the guest of its disk with this number, from 0."""
    return f"/dev/ubd{'abcdefgh'[number]}"


def device_number(number: int) -> str:
    """The same as `major:minor`."""
    return f"{_UBD_MAJOR}:{number * 16}"
