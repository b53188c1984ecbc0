"""Volumes and file systems inside a guest: md for RAID and spans, mkfs of the host's packages.

A volume is mounted at DATA; of single disks (`jbod`) each has a file system of its own, the first at DATA and the
others beside it. New disks are zeros, so mirrors and parity are true from the start and nothing has to be rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass

from naslab.errors import UsageError
from naslab.lab.guest.agent import DATA, TOP
from naslab.lab.guest.client import Guest
from naslab.lab.guest.spec import device

LEVELS = {"single": 1, "span": 2, "jbod": 2, "raid0": 2, "raid1": 2, "raid5": 3}
"""Kinds of volumes, and the fewest disks of each."""
_MD = {"span": "linear", "raid0": "0", "raid1": "1", "raid5": "5"}
_MODULE = {"span": "linear", "raid0": "raid0", "raid1": "raid1", "raid5": "raid456"}
_FIRST_FAULTY = 100
_EXT = ("-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0")
MKFS: dict[str, tuple[str, ...]] = {
    "ext2": ("mkfs.ext2", *_EXT),
    "ext3": ("mkfs.ext3", *_EXT[:-1], _EXT[-1] + ",lazy_journal_init=0"),
    "ext4": ("mkfs.ext4", *_EXT[:-1], _EXT[-1] + ",lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K", "-m", "single"),
    "fat": ("mkfs.fat", "-I", "-F", "32"),
}
"""Each file system's command; nothing is left to be written later, which would spend the disks' time."""
PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.fat": "dosfstools",
            "mdadm": "mdadm"}  # fmt: skip
"""Programs and the Debian packages that hold them; they run inside, from the host's files."""


def package(program: str) -> str:
    """The Debian package of a program that makes volumes."""
    return "e2fsprogs" if program.startswith("mkfs.ext") else PACKAGES[program]


@dataclass(frozen=True)
class Volume:
    """A volume of a guest's disks.

    level: a key of LEVELS. filesystem: a key of MKFS. disks: numbers from 0. chunk_bytes: of RAID 0 and 5, how much
    lies on a disk before the next one's turn. faults: of each disk, of how many reads, and writes, one fails once the
    volume is made; 0: none. Empty: no disk fails.
    """

    level: str
    filesystem: str
    disks: tuple[int, ...]
    chunk_bytes: int = 64 << 10
    faults: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError(f"guest: level={self.level!r} of a volume; use one of {', '.join(LEVELS)}")
        if self.filesystem not in MKFS:
            raise UsageError(f"guest: filesystem={self.filesystem!r}; use one of {', '.join(MKFS)}")
        fewest = LEVELS[self.level]
        if len(self.disks) < fewest or (self.level == "single" and len(self.disks) > 1):
            words = "one disk" if self.level == "single" else f"{fewest} disks or more"
            raise UsageError(f"guest: {self.level} of {len(self.disks)} disks; it takes {words}")
        if self.chunk_bytes < 4096 or self.chunk_bytes & (self.chunk_bytes - 1):
            raise UsageError(f"guest: chunk_bytes={self.chunk_bytes}; give a power of two from 4096 on")

    def devices(self) -> list[str]:
        """Its disks' paths inside; of one that fails, that of the device above it that makes it fail."""
        return [_faulty(number) if self._period(number) else device(number) for number in self.disks]

    def _period(self, number: int) -> int:
        return self.faults[number] if number < len(self.faults) else 0

    def _failing(self) -> list[int]:
        return [number for number in self.disks if self._period(number)]

    def folders(self) -> dict[str, str]:
        """What there is to be served, by name: DATA and, of single disks, those after the first."""
        if self.level != "jbod":
            return {"data": DATA}
        names = [f"disk{number}" for number in range(2, len(self.disks) + 1)]
        return {"data": DATA, **{name: f"{TOP}/{name}" for name in names}}

    def places(self) -> list[tuple[str, str]]:
        """What is mounted where."""
        if self.level == "jbod":
            return list(zip(self.devices(), self.folders().values(), strict=True))
        return [(self.devices()[0] if self.level == "single" else "/dev/md0", DATA)]

    def programs(self) -> list[str]:
        """What it needs on the host."""
        return [MKFS[self.filesystem][0], *(["mdadm"] if self.level in _MD or self._failing() else [])]

    def make_lines(self) -> list[str]:
        """Lines of sh that make it of empty disks and mount it."""
        lines = self._fault_lines()
        if self.level in _MD:
            chunk = [] if self.level == "raid1" else [f"--chunk={self.chunk_bytes >> 10}"]
            true = ["--assume-clean"] if self.level in ("raid1", "raid5") else []
            lines += [self._modules(), " ".join([
                "mdadm --create /dev/md0 --quiet --run --metadata=1.2", f"--level={_MD[self.level]}",
                f"--raid-devices={len(self.disks)}", *chunk, *true,
                *(["--bitmap=none"] if true else []), *self.devices(), "</dev/null",
            ])]  # fmt: skip
        lines += [" ".join([*MKFS[self.filesystem], source, ">/dev/null"]) for source, _ in self.places()]
        return [*lines, *self._mounts(), *self._arm_lines()]

    def open_lines(self) -> list[str]:
        """Lines of sh that mount it again after the guest was started anew; a crash's log is replayed."""
        lines = self._fault_lines()
        if self.level in _MD:
            lines += [self._modules(), " ".join(["mdadm --assemble /dev/md0 --quiet --run", *self.devices()])]
        return [*lines, *self._mounts(), *self._arm_lines()]

    def _fault_lines(self) -> list[str]:
        """Devices that can fail, above the disks; they do not yet. Source: md(4), FAULTY."""
        words = (
            "mdadm --build {0} --quiet --run --level=faulty --layout=none --raid-devices=1 {1} </dev/null 2>/dev/null"
        )
        made = [words.format(_faulty(number), device(number)) for number in self._failing()]
        return ["modprobe -a md-mod faulty", *made] if made else []

    def _arm_lines(self) -> list[str]:
        """From now on every so many reads one fails, and every so many writes; asked again the request succeeds."""
        words = "mdadm --grow {0} --level=faulty --layout={1}{2} >/dev/null"
        return [
            words.format(_faulty(number), mode, self._period(number))
            for number in self._failing()
            for mode in ("read-transient", "write-transient")
        ]

    def _modules(self) -> str:
        return f"modprobe -a md-mod {_MODULE[self.level]}"

    def _mounts(self) -> list[str]:
        kind = "vfat" if self.filesystem == "fat" else self.filesystem
        lines = []
        for source, target in self.places():
            lines += [f"mkdir -p {target}", f"mount -t {kind} -o noatime {source} {target}"]
        return lines


def _faulty(number: int) -> str:
    return f"/dev/md{_FIRST_FAULTY + number}"


def make(guest: Guest, volume: Volume) -> None:
    """Makes the volume and mounts it. Raises TargetError."""
    guest.shell("\n".join(volume.make_lines()))


def reopen(guest: Guest, volume: Volume) -> None:
    """Mounts it in a guest that was started anew. Raises TargetError."""
    guest.shell("\n".join(volume.open_lines()))


def drop_caches(guest: Guest) -> None:
    """Writes back what is held, and forgets what was read."""
    guest.shell("sync; echo 3 > /proc/sys/vm/drop_caches")
