"""Systems of an experiment while they stand: built anew for each use, or built once and kept for all repeats.

Starting guests takes longer than a short measurement, so a quick experiment keeps its guests. What differs from one
build to the next is then in none of its intervals.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from naslab.errors import NaslabError
from naslab.lab import backends
from naslab.lab.bench import Bench, BringUp
from naslab.lab.experiment import System

_AT_ONCE = 2
"""So many are built beside each other, before anything is measured."""
_MEMORY_SHARE = 0.7
"""Of the memory that is free, what kept systems may take."""
_GUEST_BYTES = 256 << 20
"""A guest whose memory is left to naslab, about."""


def may_stay(system: System) -> bool:
    """Whether a system is kept: one of guests, which take long to start, or one that is there already.

    Native ones are built in a second or two, and their file systems age: writes to a RAID 5 fell from 180 to 100 MB/s
    over three repeats.
    """
    made = system.checked
    if made is None:
        return True
    native = [each for each in backends.answers(made) if each.backend == "native"]
    return all(each.refusals for each in native)


def memory_bytes(system: System) -> int:
    """What a system takes of this machine's memory while it stands, about: its disks, and its guests."""
    made = system.checked
    if made is None:
        return 0
    guests = made.clients.count if made.clients.access != "direct" else 0
    total = sum(disk.size_bytes for disk in made.disks) + guests * (made.clients.ram_bytes or _GUEST_BYTES)
    return total + (made.server.ram_bytes or _GUEST_BYTES)


def free_bytes() -> int:
    """Memory of this machine that programs can have."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


class Pool:
    """Benches by system. keep: systems stay up from their first use on, as far as they can and memory allows."""

    def __init__(self, bring_up: BringUp, keep: bool) -> None:
        self._bring_up, self._keep = bring_up, keep
        self._kept: dict[str, Bench | NaslabError] = {}
        self._share: float | None = None

    def prepare(self, systems: Sequence[System], seed: int, say: Callable[[str], None]) -> str:
        """Builds the systems that are kept, several at a time; a sentence on what stood how long, or nothing.

        One that cannot be built says so when it is first used.
        """
        wanted = [system for system in systems if self._keep and may_stay(system)]
        needed = sum(map(memory_bytes, wanted))
        if wanted and needed > _MEMORY_SHARE * free_bytes():
            self._keep = False
            return f"systems were rebuilt for each repeat: together they need {needed / 1e9:.1f} GB of memory"
        if not wanted:
            return ""
        say(f"building {', '.join(system.name for system in wanted)}")
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            list(pool.map(lambda system: self._build(system, seed), wanted))
        finally:
            pool.shutdown(cancel_futures=True)
        names = ", ".join(system.name for system in wanted)
        return f"{names} were built once for all repeats: no interval includes the differences between builds"

    def plant(self, share: float, systems: Sequence[System]) -> None:
        """Gives all servers that have a share of a processor this one, now and when they are built."""
        self._share = share
        for system in systems:
            found = self._kept.get(system.name)
            if found is not None and not isinstance(found, NaslabError):
                self._planted(system, found)

    def _planted(self, system: System, bench: Bench) -> Bench:
        if self._share is not None and system.checked is not None and system.checked.server.cpu is not None:
            bench.set_cpu(self._share)
        return bench

    def _build(self, system: System, seed: int) -> None:
        try:
            self._kept[system.name] = self._bring_up(system, seed)
        except NaslabError as error:
            self._kept[system.name] = error

    @contextlib.contextmanager
    def bench(self, system: System, seed: int) -> Iterator[Bench]:
        """A system that stands, for one use. After a failure a kept one is taken down, and built anew the next time.

        Raises NaslabError when it cannot be built.
        """
        found = self._kept.get(system.name)
        if isinstance(found, NaslabError):
            del self._kept[system.name]
            raise found
        kept = self._keep and may_stay(system)
        bench = self._planted(system, self._bring_up(system, seed)) if found is None else found
        bench.seed = seed
        if kept:
            self._kept[system.name] = bench
        try:
            yield bench
        except BaseException:
            self._kept.pop(system.name, None)
            bench.close()
            raise
        if not kept:
            bench.close()

    def close(self) -> None:
        """Takes down what is kept."""
        while self._kept:
            _, found = self._kept.popitem()
            if not isinstance(found, NaslabError):
                found.close()
