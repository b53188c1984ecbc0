"""What is built for one system, as data: devices with their limits, what they are formatted as, how they are mounted.

The keeper (naslab.lab.devices.keeper) makes the devices and formats them, in namespaces of its own and at full speed.
The server's script then mounts what it serves, within the server's control groups.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naslab.lab.definition import Definition, Disk

MIRRORED = ("raid0", "raid1", "raid5")
"""Levels that btrfs provides."""
FILES = "files"
"""The folder on a disk that a pool shows."""
DEFAULT_DELAY_NS = 2_000_000_000
_WRITE_CACHE_BYTES = 64 << 20
_RAM_SHARE = 5


@dataclass(frozen=True)
class DiskPlan:
    """One device.

    kernel: limits that the block layer keeps, by the names of `Throttle.plant`. shared_bytes_per_s and the like in
    `served`: limits of a server of blocks (qemu-nbd), by the names of its throttle group. bucket: burst rate, base
    rate, size, which the keeper follows. latency_ns, error_rate: added by a filter of a server of blocks (nbdkit).
    """

    minor: int
    size_bytes: int
    kernel: dict[str, int]
    served: dict[str, int]
    bucket: tuple[int, int, int] | None = None
    latency_ns: int = 0
    error_rate: float = 0.0

    @property
    def is_served(self) -> bool:
        """Whether the device stands on a server of blocks, and not on memory directly."""
        return bool(self.served or self.latency_ns or self.error_rate)


@dataclass(frozen=True)
class BuildPlan:
    """All devices of a system.

    label: name of the private folder. engine_minor: of the device on a file on the disks' btrfs, where another file
    system lies on a RAID of btrfs; None without. uuid: of that btrfs, or of the one that is served. cache_bytes:
    unwritten data that the system may hold back, about; 0 leaves it to the system. group: of version 2, that the
    kernel's limits hold for; None where they hold for everybody.
    """

    label: str
    folder: str
    disks: tuple[DiskPlan, ...]
    level: str
    filesystem: str
    uuid: str
    cache_bytes: int
    engine_minor: int | None = None

    def dump(self) -> str:
        """As one line of JSON."""
        return json.dumps(dataclasses.asdict(self))

    @property
    def devices(self) -> list[int]:
        """Minors of those that carry the file systems that are served, in order."""
        return [each.minor for each in self.disks] if self.engine_minor is None else [self.engine_minor]

    @property
    def minors(self) -> list[int]:
        """All of them, each after those that it stands on."""
        return [each.minor for each in self.disks] + ([] if self.engine_minor is None else [self.engine_minor])


def load(words: str) -> BuildPlan:
    """What `dump` wrote."""
    data: dict[str, Any] = json.loads(words)
    disks = tuple(
        DiskPlan(**{**each, "bucket": tuple(each["bucket"]) if each["bucket"] else None}) for each in data.pop("disks")
    )
    return BuildPlan(disks=disks, **data)


def needs_engine(definition: Definition) -> bool:
    """Whether another file system lies on a RAID of btrfs."""
    return definition.volume.level in MIRRORED and definition.filesystem.type != "btrfs"


def cache_bytes(definition: Definition) -> int:
    """How much may wait to be written: a fifth of the server's memory, which is what Linux does, or what is said."""
    server = definition.server
    return server.write_cache_bytes or (server.ram_bytes // _RAM_SHARE if server.ram_bytes else _WRITE_CACHE_BYTES)


def is_escaped(definition: Definition, version: int) -> bool:
    """Whether the kernel's limits would miss what the volume's own threads read and write.

    Limits of version 2 hold for the processes of a group; a RAID's transfers come from threads of the kernel.
    """
    return version == 2 and (needs_engine(definition) or definition.filesystem.type == "btrfs")


def disk_plan(disk: Disk, minor: int, escaped: bool) -> DiskPlan:
    """Who keeps which limit of a disk."""
    separate = {"rbps": disk.read_bytes_per_s, "wbps": disk.write_bytes_per_s, "riops": disk.iops, "wiops": disk.iops}
    kernel = {name: value for name, value in separate.items() if value}
    served = {} if disk.rate_bytes_per_s is None else {"x-bps-total": disk.rate_bytes_per_s}
    if escaped:
        names = {"rbps": "x-bps-read", "wbps": "x-bps-write", "riops": "x-iops-read", "wiops": "x-iops-write"}
        served |= {names[name]: value for name, value in kernel.items()}
        kernel = {}
    bucket = None
    if disk.burst is not None:
        bucket = (disk.burst.rate_bytes_per_s, disk.burst.base_bytes_per_s, disk.burst.size_bytes)
    return DiskPlan(minor, disk.size_bytes, kernel, served, bucket, disk.latency_ns, disk.error_rate)


def build_plan(definition: Definition, folder: Path, minors: list[int], version: int, uuid: str) -> BuildPlan:
    """The devices of a system. minors: one for each disk, and a last one where an engine is needed."""
    escaped = is_escaped(definition, version)
    disks = tuple(disk_plan(disk, minor, escaped) for disk, minor in zip(definition.disks, minors, strict=False))
    engine = minors[len(disks)] if needs_engine(definition) else None
    kind = definition.filesystem.type
    return BuildPlan(
        folder.name, str(folder), disks, definition.volume.level, kind, uuid, cache_bytes(definition), engine
    )  # fmt: skip


def disk_folders(plan: BuildPlan, folder: Path, data: Path) -> list[Path]:
    """Where each of `plan.devices` is mounted; one that all share, where btrfs makes one volume of them."""
    if plan.level == "jbod":
        return [data, *(folder / f"disk{at}" for at in range(2, len(plan.devices) + 1))]
    if plan.level in ("pool", "duplicated"):
        return [folder / f"disk{at}" for at in range(1, len(plan.devices) + 1)]
    return [data]


def mount_lines(plan: BuildPlan, folder: Path, data: Path) -> list[str]:
    """Shell lines that mount the disks; a pool over them is not theirs."""
    places = disk_folders(plan, folder, data)
    devices = [f"/dev/loop{minor}" for minor in plan.devices]
    lines = []
    if plan.filesystem == "btrfs" and len(places) == 1:
        parts = ",".join(f"device={each}" for each in devices)
        lines.append(f"mount -t btrfs -o noatime,nodiscard,{parts} {devices[0]} {_quoted(places[0])}")
        lines += _bound_lines(plan)
    else:
        lines += [_mount_line(plan.filesystem, device, at) for device, at in zip(devices, places, strict=True)]
    return [*lines, *(f"chmod 755 {_quoted(at)}" for at in places)]


def _mount_line(filesystem: str, device: str, at: Path) -> str:
    if filesystem == "ntfs":
        return f"ntfs-3g -o big_writes,noatime {device} {_quoted(at)}"
    discard = "" if filesystem in ("xfs", "ext2") else ",nodiscard"
    return f"mount -t {filesystem} -o noatime{discard} {device} {_quoted(at)}"


def _bound_lines(plan: BuildPlan) -> list[str]:
    """btrfs has a bound on unwritten data of its own, for all of its disks."""
    knobs = f"/sys/fs/btrfs/{plan.uuid}/bdi"
    bound = f"echo 1 > {knobs}/strict_limit; echo {plan.cache_bytes} > {knobs}/max_bytes"
    return [f"[ ! -e {knobs}/max_bytes ] || {{ {bound}; }}"]


def pool_lines(plan: BuildPlan, definition: Definition, folder: Path, data: Path) -> list[str]:
    """Shell lines that make one folder of the mounted disks of a pool."""
    volume = definition.volume
    places = disk_folders(plan, folder, data)
    parts = [each / FILES for each in places]
    made = f"mkdir -p {' '.join(map(_quoted, parts))}"
    if volume.mode == "synchronous":
        volfile, log = folder / "pool.vol", folder / "pool.log"
        return [
            made,
            f"glusterfs -f {_quoted(volfile)} -l {_quoted(log)} -p {_quoted(folder / 'pool.pid')} {_quoted(data)}",
            f"for i in $(seq 200); do mountpoint -q {_quoted(data)} && break; sleep 0.05; done",
            f"mountpoint -q {_quoted(data)}",
        ]
    search = ",category.search=newest" if volume.mode == "background" else ""
    options = (
        f"threads=8,minfreespace=1M,category.create=mfs{search},cache.files=off,moveonenospc=true,allow_other,use_ino"
    )
    lines = [made, f"mergerfs -o {options} {_quoted(':'.join(map(str, parts)))} {_quoted(data)}"]
    if volume.mode == "background":
        delay_ns = DEFAULT_DELAY_NS if volume.delay_ns is None else volume.delay_ns
        words = [sys.executable, "-m", "naslab.lab.native.mover", str(delay_ns), *map(str, places)]
        lines.append(f"{shlex.join(words)} >> {_quoted(folder / 'mover.log')} 2>&1 &")
    return lines


def replica_text(places: list[Path]) -> str:
    """A volume of Gluster's that writes everything to both folders before it answers, in one process."""
    parts = []
    for at, place in enumerate(places, 1):
        parts += [
            _volume(f"disk{at}", "storage/posix", f"option directory {place / FILES}"),
            _volume(f"locks{at}", "features/locks", f"subvolumes disk{at}"),
            _volume(f"threads{at}", "performance/io-threads", "option thread-count 16", f"subvolumes locks{at}"),
        ]  # fmt: skip
    names = [f"threads{at}" for at in range(1, len(places) + 1)]
    parts.append(_volume("pair", "cluster/replicate", f"option afr-pending-xattr {','.join(names)}",
                         f"subvolumes {' '.join(names)}"))  # fmt: skip
    return "".join(parts)


def _volume(name: str, kind: str, *lines: str) -> str:
    return "\n".join((f"volume {name}", f"    type {kind}", *(f"    {each}" for each in lines), "end-volume", "", ""))


def _quoted(path: Path | str) -> str:
    return shlex.quote(str(path))
