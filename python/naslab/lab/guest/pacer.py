"""`python -m naslab.lab.guest.pacer MAJOR:MINOR NAME BURST BASE SIZE ...`: token buckets of a guest's disks.

It runs inside, follows the disks' counters and rewrites their limits in the guest's root control group, as the native
backend's keeper does for its own (naslab.lab.keeper). Five words for each disk: bytes per second and bytes.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from naslab.lab.bucket import Credit, Plan
from naslab.lab.guest.agent import THROTTLES

READY = "/run/pacer"
"""A file that is there as soon as the limits are."""
_SECTOR_BYTES = 512
_READ, _WRITTEN = 2, 6
"""Sectors in /sys/block/NAME/stat (Documentation/block/stat.rst of Linux)."""


@dataclass(frozen=True)
class Bucket:
    """One disk's. device: `major:minor`. name: in /sys/block."""

    device: str
    name: str
    plan: Plan

    def words(self) -> list[str]:
        """Its words on the command line."""
        plan = self.plan
        return [self.device, self.name, *map(str, (plan.burst_bytes_per_s, plan.base_bytes_per_s, plan.size_bytes))]


def parse(words: list[str]) -> list[Bucket]:
    """What `words` gave. Raises ValueError."""
    rows = [words[at : at + 5] for at in range(0, len(words), 5)]
    return [Bucket(device, name, Plan(*map(int, numbers))) for device, name, *numbers in rows]


def moved_bytes(counter: int) -> int:
    """What a disk has read and written since it is there. counter: its open `stat`."""
    fields = os.pread(counter, 512, 0).split()
    return _SECTOR_BYTES * (int(fields[_READ]) + int(fields[_WRITTEN]))


class _Followed:
    """A disk, its open counter and its credit."""

    def __init__(self, bucket: Bucket, throttles: Path) -> None:
        self.bucket = bucket
        self.counter = os.open(f"/sys/block/{bucket.name}/stat", os.O_RDONLY)
        self.files = [throttles / f"blkio.throttle.{way}_bps_device" for way in ("read", "write")]
        self.credit = Credit(bucket.plan, time.monotonic_ns(), moved_bytes(self.counter))
        self._limit()

    def _limit(self) -> None:
        for file in self.files:
            file.write_text(f"{self.bucket.device} {self.credit.limit_bytes_per_s}", encoding="ascii")

    def step(self) -> int:
        """Sets the limit that holds now; nanoseconds until the next look."""
        before = self.credit.limit_bytes_per_s
        wait_ns = self.credit.step(time.monotonic_ns(), moved_bytes(self.counter))
        if self.credit.limit_bytes_per_s != before:
            self._limit()
        return wait_ns


def main() -> int:
    """Entry point."""
    followed = [_Followed(each, Path(THROTTLES)) for each in parse(sys.argv[1:])]
    Path(READY).touch()
    while True:
        time.sleep(min(each.step() for each in followed) / 1e9)


if __name__ == "__main__":
    sys.exit(main())
