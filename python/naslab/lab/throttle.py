"""Limits on the bytes and requests per second of one block device, by control groups of version 1 or 2.

Version 1 limits a device for everybody, in the root group. Version 2 has no limits there: they hold for a group made
for this purpose, and only for what runs in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from naslab.errors import UsageError

_V1_FILES = {
    "rbps": "blkio.throttle.read_bps_device", "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device", "wiops": "blkio.throttle.write_iops_device",
}  # fmt: skip
"""Files of version 1, by what version 2 calls the same limit."""
NO_GROUP = (
    "lab: this machine cannot limit a disk: it has neither a blkio controller (cgroup v1) nor an io controller that "
    "the root "
    "group hands on (cgroup v2); enable one, or use burst-link"
)


@dataclass(frozen=True)
class Throttle:
    """Where a device's limits are written.

    device: `major:minor`. folder: of the control group. version: 1 or 2, of its kind. Reads and writes are
    limited separately, each to the full rate.
    """

    device: str
    folder: Path
    version: int

    @property
    def join(self) -> Path | None:
        """The file that takes the ids of processes to be limited; None where everybody is."""
        return self.folder / "cgroup.procs" if self.version == 2 else None

    def limit(self, bytes_per_s: int) -> None:
        """Limits reads and writes. Raises OSError."""
        self.plant({"rbps": bytes_per_s, "wbps": bytes_per_s})

    def plant(self, limits: Mapping[str, int]) -> None:
        """Sets limits: `rbps`, `wbps` (bytes per second), `riops`, `wiops` (requests per second). Raises OSError."""
        if self.version == 2:
            self._write("io.max", " ".join(f"{name}={value}" for name, value in limits.items()))
        else:
            for name, value in limits.items():
                self._write(_V1_FILES[name], str(value))

    def lift(self) -> None:
        """Removes the limits, as far as they are still there."""
        if self.version == 2:
            with contextlib.suppress(OSError):
                self._write("io.max", " ".join(f"{name}=max" for name in _V1_FILES))
        else:
            for name in _V1_FILES.values():
                with contextlib.suppress(OSError):
                    if (self.folder / name).exists():
                        self._write(name, "0")

    def _write(self, name: str, value: str) -> None:
        (self.folder / name).write_text(f"{self.device} {value}", encoding="ascii")


def find(device: str, group: str, mounts: Path = Path("/proc/mounts")) -> Throttle:
    """How this machine can limit the device; group: name of the one to be made where one is needed.

    Raises UsageError where it cannot.
    """
    unified = None
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup" and "blkio" in options.split(",") and (Path(place) / _V1_FILES["rbps"]).exists():
            return Throttle(device, Path(place), 1)
        if kind == "cgroup2" and unified is None:
            unified = Path(place)
    if unified is not None and "io" in _words(unified / "cgroup.subtree_control"):
        return Throttle(device, unified / group, 2)
    raise UsageError(NO_GROUP)


def make_group(throttle: Throttle) -> None:
    """Makes the group of version 2. Raises UsageError where that is not allowed."""
    if throttle.version == 2:
        try:
            throttle.folder.mkdir()
        except OSError as error:
            raise UsageError(f"lab: {throttle.folder}: {error.strerror}; a disk's limits need a group there") from None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
