"""A Samba whose share lies on a disk with a token bucket: `burst-disk`.

The disk is a loop device on memory with ext4, limited by the block layer and followed by a keeper
(naslab.lab.devices.keeper). It is mounted in the server's own namespace; `naslab lab exec` runs a command there,
for measuring the disk itself. The disk's contents live as long as the server's guardian.
"""

from __future__ import annotations

import shlex
import uuid
from dataclasses import dataclass

from naslab.errors import UsageError
from naslab.lab import loops, samba, throttle
from naslab.lab.bucket import Plan
from naslab.lab.devices import keeper
from naslab.lab.devices.plan import BuildPlan, DiskPlan
from naslab.lab.place import Place, Service
from naslab.units import parse_size

PROGRAMS = {**samba.PROGRAMS, "mkfs.ext4": "e2fsprogs", "nsenter": "util-linux"}
_LEAST_DISK_BYTES, _MOST_DISK_BYTES = 64 << 20, 1 << 40


@dataclass(frozen=True)
class DiskOptions:
    """What can be chosen of the disk, in words as on the command line.

    burst, base: bytes per second with and without credit, reads and writes together. size: credit when it is
    full. disk: how large it is, in memory. cache: how much the server's system may hold back unwritten, about; 0 leaves
    it to the system.
    """

    burst: str = "120MB/s"
    base: str = "24MB/s"
    size: str = "400MB"
    disk: str = "1g"
    cache: str = "64m"

    def plan(self) -> Plan:
        """The bucket. Raises UsageError."""
        return Plan.parse("burst-disk", self.burst, self.base, self.size)

    def disk_bytes(self) -> int:
        """Raises UsageError."""
        found = parse_size(self.disk, "burst-disk: disk")
        if not _LEAST_DISK_BYTES <= found <= _MOST_DISK_BYTES:
            raise UsageError(f"burst-disk: disk={self.disk!r}; give 64m or more, as far as memory permits")
        return found // (1 << 20) * (1 << 20)


def prepare(place: Place, options: DiskOptions) -> Service:
    """The server to start, and the keeper of its disk. Raises UsageError, TargetError."""
    plan, size_bytes = options.plan(), options.disk_bytes()
    cache_bytes = parse_size(options.cache, "burst-disk: cache")
    loops.check()
    if not place.can_mount:
        raise UsageError(
            "burst-disk: naslab cannot create a mount namespace on this machine: run it outside a container"
        )
    if place.folder not in place.data.parents:
        raise UsageError("burst-disk: its share is a disk of its own; leave out --folder")
    limits = throttle.find("", place.folder.name)
    (minor,) = loops.reserve(place.folder, groups=[] if limits.join is None else [str(limits.folder)])
    throttle.make_group(limits)
    service = samba.prepare(place, samba.SambaOptions())
    data = shlex.quote(str(place.data))
    service.setup += [f"mount -t ext4 -o noatime,nodiscard /dev/loop{minor} {data}", f"chmod 755 {data}"]
    if limits.join is not None:
        service.setup.append(f"echo 0 > {shlex.quote(str(limits.join))}")
    bucket = (plan.burst_bytes_per_s, plan.base_bytes_per_s, plan.size_bytes)
    disks = (DiskPlan(minor, size_bytes, {}, {}, bucket),)
    service.keeper = keeper.words(
        BuildPlan(place.folder.name, str(place.folder), disks, "single", "ext4", str(uuid.uuid4()), cache_bytes)
    )
    service.facts["planted"] = plan.facts()
    service.facts["disk"] = {"device": f"/dev/loop{minor}", "number": loops.name(minor), "bytes": size_bytes}
    service.facts["inside"] = {"mount": True, "join": None if limits.join is None else str(limits.join)}
    return service
