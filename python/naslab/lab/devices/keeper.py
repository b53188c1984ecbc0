"""`python -m naslab.lab.devices.keeper`: holds the disks of a system, and removes them when its standard input ends.

It makes loop devices on memory, has them formatted (at full speed), puts servers of blocks under those that need
one, sets the limits and says so in one line of JSON. From then on it follows the counters of disks with a token
bucket. Its standard input is a pipe that the guardian holds: when that ends, kill -9 included, the limits are lifted so
that nobody waits for them, and the devices are removed once the server's namespaces have let go of them. What it
mounts lies in a mount namespace of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from naslab.errors import NaslabError, TargetError
from naslab.lab import loops, throttle
from naslab.lab.bucket import Credit, Plan
from naslab.lab.devices import blocks, format
from naslab.lab.devices.plan import BuildPlan, DiskPlan, load
from naslab.lab.throttle import Throttle

NAME = "naslab-keeper"
"""The process's name, by which it is told from the server's."""
_RELEASE_S = 4.0
"""How long the server's file systems may write what they hold before the servers of blocks below them are ended."""


def words(plan: BuildPlan) -> list[str]:
    """The command line of a keeper."""
    return [sys.executable, "-m", "naslab.lab.devices.keeper", plan.dump()]


class Keeper:
    """The disks of one system."""

    def __init__(self, plan: BuildPlan) -> None:
        self.plan = plan
        self.limits = {each.minor: throttle.find(loops.name(each.minor), plan.label) for each in _limited(plan)}
        self.held: dict[int, int] = {}
        """Descriptors that keep the devices, by minor."""
        self.children: list[subprocess.Popen[bytes]] = []
        self.buckets: list[tuple[Throttle, int, Credit]] = []
        self.engine: Path | None = None

    def build(self) -> None:
        """Makes and formats the devices, sets their limits. Raises OSError, NaslabError."""
        blocks.own_mounts()
        stores = [self._store(each) for each in self.plan.disks]
        for disk, store in zip(self.plan.disks, stores, strict=True):
            self.held[disk.minor] = loops.bind(disk.minor, store, self.plan.label)
        format.format_disks(self.plan)
        if self.plan.engine_minor is not None:
            format.make_engine(self.plan)
        for disk, store in zip(self.plan.disks, stores, strict=True):
            if disk.is_served:
                self._serve(disk, store)
            else:
                os.close(store)  # the device holds it
            _bound_cache(disk.minor, self.plan.cache_bytes)
        if self.plan.engine_minor is not None:
            self._start_engine(self.plan.engine_minor)
        for disk in self.plan.disks:
            self._limit(disk)
        if any(each.error_rate for each in self.plan.disks):
            (Path(self.plan.folder) / blocks.ARMED).touch()

    def _store(self, disk: DiskPlan) -> int:
        """The disk's memory; with a path, in the keeper's own mounts, where servers of blocks must open it."""
        if not disk.is_served:
            return loops.memory(disk.size_bytes, self.plan.label)
        path = blocks.store_of(disk, Path(self.plan.folder))
        path.parent.mkdir()
        format.run(
            ["mount", "-t", "tmpfs", "-o", f"size={disk.size_bytes + (1 << 20)},mode=700", "none", str(path.parent)]
        )
        return loops.touched(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), disk.size_bytes)

    def _serve(self, disk: DiskPlan, store: int) -> None:
        """Puts servers of blocks between a device and its memory."""
        os.close(self.held.pop(disk.minor))
        if not self._release([disk.minor], _RELEASE_S):
            raise TargetError(f"loop{disk.minor} stays in use", before_run=True)
        folder = Path(self.plan.folder)
        os.close(store)
        self.children += blocks.start(disk, folder)
        file = os.open(blocks.file_of(disk, folder), os.O_RDWR | os.O_CLOEXEC)
        try:
            self.held[disk.minor] = loops.bind(disk.minor, file, self.plan.label, direct=True)
        finally:
            os.close(file)

    def _start_engine(self, minor: int) -> None:
        self.engine = format.mount_engine(self.plan)
        file = os.open(self.engine, os.O_RDWR | os.O_CLOEXEC)
        try:
            self.held[minor] = loops.bind(minor, file, self.plan.label, direct=True)
        finally:
            os.close(file)
        _bound_cache(minor, self.plan.cache_bytes)

    def _limit(self, disk: DiskPlan) -> None:
        if disk.kernel:
            self.limits[disk.minor].plant(disk.kernel)
        if disk.bucket is not None:
            counter = loops.open_counter(disk.minor)
            credit = Credit(Plan(*disk.bucket), time.monotonic_ns(), loops.moved_bytes(counter))
            self.limits[disk.minor].limit(credit.limit_bytes_per_s)
            self.buckets.append((self.limits[disk.minor], counter, credit))

    def keep(self) -> None:
        """Follows the counters until standard input ends. Raises OSError."""
        wait_s: float | None = 0.0 if self.buckets else None
        while not select.select([0], [], [], wait_s)[0]:
            wait_s = min(_step(*each) for each in self.buckets) / 1e9

    def end(self) -> None:
        """Lifts the limits and removes the devices, as far as there are any."""
        for limits in self.limits.values():
            limits.lift()
        while self.held:
            os.close(self.held.popitem()[1])
        if self.plan.engine_minor is not None:
            self._release([self.plan.engine_minor], _RELEASE_S)
            if self.engine is not None:
                with contextlib.suppress(NaslabError):
                    format.run(["umount", "-l", str(self.engine.parent)])
        minors = [each.minor for each in self.plan.disks]
        released = self._release(minors, _RELEASE_S)
        for child in reversed(self.children):
            child.kill()
            child.wait()
        if not released:
            self._release(minors, 2 * _RELEASE_S)

    def _release(self, minors: list[int], seconds: float) -> bool:
        """Removes devices once nobody holds them; whether they are gone."""
        deadline = time.monotonic() + seconds
        while any(loops.is_bound(each) for each in minors) and time.monotonic() < deadline:
            time.sleep(0.005)
        format.forget(self.plan, minors)
        gone = [loops.remove(each, max(deadline - time.monotonic(), 0.1)) for each in minors]
        return all(gone)


def _limited(plan: BuildPlan) -> list[DiskPlan]:
    return [each for each in plan.disks if each.kernel or each.bucket]


def _step(limits: Throttle, counter: int, credit: Credit) -> int:
    before = credit.limit_bytes_per_s
    wait_ns = credit.step(time.monotonic_ns(), loops.moved_bytes(counter))
    if credit.limit_bytes_per_s != before:
        limits.limit(credit.limit_bytes_per_s)
    return wait_ns


def _bound_cache(minor: int, cache_bytes: int) -> None:
    """At most about so many bytes that the system has not written to the device yet; 0: no bound of its own.

    Without it a server's memory is a write-back cache of gigabytes in front of the disk. Kernels before 6.2
    cannot bound it for one device: theirs stays as it is.
    """
    folder = Path(f"/sys/class/bdi/{loops.name(minor)}")
    if cache_bytes and (folder / "max_bytes").exists():
        (folder / "strict_limit").write_text("1", encoding="ascii")
        (folder / "max_bytes").write_text(str(cache_bytes), encoding="ascii")


def main() -> int:
    """Entry point."""
    Path("/proc/self/comm").write_text(NAME, encoding="ascii")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    keeper: Keeper | None = None
    try:
        keeper = Keeper(load(sys.argv[1]))
        keeper.build()
        _say({"ready": True})
        keeper.keep()
    except (OSError, NaslabError) as error:
        _say({"error": str(error)})
        return 1
    finally:
        if keeper is not None:
            keeper.end()
    return 0


def _say(words: dict[str, object]) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    sys.exit(main())
