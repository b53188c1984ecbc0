"""Processor time of this machine, of process trees and of the kernel's own threads. Linux only; else None.

Source: proc(5): /proc/stat, /proc/PID/stat, /proc/PID/task/TID/children, /proc/net/dev.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_FOLLOWS = PROC / "thread-self" / "children"
_KERNEL = 2
"""Process id of the parent of the kernel's threads, where it can be seen."""


@dataclass(frozen=True)
class Ticks:
    """Processor time in ticks since boot: programs (user), the kernel for them (system), stolen, and all there was."""

    user: int
    system: int
    steal: int
    total: int


def machine_ticks() -> Ticks | None:
    """Of all processors together."""
    try:
        with open(PROC / "stat", encoding="ascii") as stat:
            row = [int(field) for field in stat.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _idle, _wait, _irq, _softirq, steal = [*row, 0, 0, 0, 0, 0, 0, 0, 0][:8]
    return Ticks(user + nice, system, steal, sum(row))


def tree_ticks(roots: Iterable[int]) -> tuple[int, int]:
    """(user, system) of processes and all below them, those that ended among them included."""
    user = system = 0
    seen: set[int] = set()
    left = list(roots)
    while left:
        pid = left.pop()
        if pid in seen:
            continue
        seen.add(pid)
        own = _times(pid)
        if own is not None:
            user, system = user + own[0], system + own[1]
            left += _children(pid)
    return user, system


def kernel_ticks() -> int | None:
    """System time of the kernel's threads; None where they cannot be seen, as in most containers."""
    try:
        if (PROC / str(_KERNEL) / "comm").read_text() != "kthreadd\n":
            return None
    except OSError:
        return None
    return tree_ticks([_KERNEL])[1]


@dataclass(frozen=True)
class Foreign:
    """A moment: what programs that are not ours used by then, what a hypervisor took, and all ticks there were."""

    used: int
    steal: int
    total: int


def foreign_ticks(ours: Iterable[int] = ()) -> Foreign | None:
    """Processor time that is not this process's, its children's or that of the trees below `ours`.

    Interrupts are left out: they are mostly our own traffic's. So are the kernel's threads, which write back what we
    wrote; where they cannot be told apart, only time in programs counts, not the kernel's work for them.
    None where this system does not say, or not who descends from whom.
    """
    if not _FOLLOWS.exists():
        return None
    kernel = kernel_ticks()
    user, system = tree_ticks([os.getpid(), *ours])
    machine = machine_ticks()  # last: what ends meanwhile then counts as foreign by a tick at most
    if machine is None:
        return None
    used = machine.user - user + (0 if kernel is None else machine.system - system - kernel)
    return Foreign(used, machine.steal, machine.total)


def foreign_share(before: Foreign | None, after: Foreign | None) -> float | None:
    """Share of all processors that others used between two moments, 0 to 1."""
    if before is None or after is None or after.total <= before.total:
        return None
    return min(max(after.used - before.used, 0) / (after.total - before.total), 1.0)


def others_cores(seconds: float) -> float | None:
    """Processors that others use while this process waits for so long; None where this system does not say.

    Counted as the engine does beside a load: the kernel's own threads are among the others, interrupts are not.
    """
    before, own_before = machine_ticks(), sum(tree_ticks([os.getpid()]))
    time.sleep(seconds)
    own, after = sum(tree_ticks([os.getpid()])) - own_before, machine_ticks()
    if before is None or after is None or after.total <= before.total or not _FOLLOWS.exists():
        return None
    used = after.user + after.system - before.user - before.system - own
    return max(used, 0) / (after.total - before.total) * (os.cpu_count() or 1)


def interface_bytes(name: str) -> tuple[int, int] | None:
    """(sent, received) by an interface of this process's network namespace since it came up."""
    try:
        rows = (PROC / "net" / "dev").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for row in rows[2:]:
        found, _, rest = row.partition(":")
        if found.strip() == name:
            fields = rest.split()
            return int(fields[8]), int(fields[0])
    return None


def _times(pid: int) -> tuple[int, int] | None:
    """(user, system) of one process and of those children of it that ended and were waited for."""
    try:
        with open(PROC / str(pid) / "stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[13]), int(fields[12]) + int(fields[14])


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        tasks = os.listdir(PROC / str(pid) / "task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(PROC / str(pid) / "task" / task / "children", "rb") as children:
                found += [int(child) for child in children.read().split()]
        except OSError:
            continue
    return found
