"""Control groups of a server: memory, CPU time and, with version 2, the disks' limits.

With version 1 each controller has a group of its own; with version 2 one group has them all. The groups are made
before the server and recorded in its private folder; the server enters them before it mounts anything, so that what it
caches counts, and what made and formatted the disks does not.
"""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass
from pathlib import Path

from naslab.errors import UsageError

PERIOD_US = 20_000
"""CPU time is handed out once in this time: short, so that a small share does not stutter."""
_LEAST_QUOTA_US = 1_000
"""The kernel hands out no less at once; a smaller share waits longer for it."""
_LONGEST_PERIOD_US = 1_000_000


@dataclass(frozen=True)
class Group:
    """One control group: its folder, and what goes into its files. optional: files that not every kernel has."""

    folder: Path
    settings: tuple[tuple[str, str], ...]
    optional: tuple[tuple[str, str], ...] = ()

    @property
    def join(self) -> Path:
        """Takes the ids of processes."""
        return self.folder / "cgroup.procs"


def find(
    name: str, ram_bytes: int | None, cpu: float | None, disks: bool, mounts: Path = Path("/proc/mounts")
) -> list[Group]:
    """The groups that a server of this name needs; disks: also one that limits of version 2 can hold for.

    Raises UsageError naming the controller that this machine does not give.
    """
    controllers, unified = _hierarchies(mounts)
    found = []
    wanted = [(each, value) for each, value in (("memory", ram_bytes), ("cpu", cpu)) if value is not None]
    rest = []
    for each, _ in wanted:
        if each in controllers:
            files = _memory_v1(ram_bytes) if each == "memory" else _cpu_v1(cpu)
            found.append(Group(controllers[each] / name, files))
        else:
            rest.append(each)
    with_disks = disks and "blkio" not in controllers
    if rest or with_disks:
        needed = [*rest, *(["io"] if with_disks else [])]
        has = _handed_on(unified)
        if unified is None or (lacking := [each for each in needed if each not in has]):
            lacking = needed if unified is None else lacking
            raise UsageError(
                f"lab: no control group here has the {lacking[0]} controller; enable it (cgroup v2: write "
                f"+{lacking[0]} to cgroup.subtree_control of the root group), or leave that limit out"
            )
        settings = [*(_memory_v2(ram_bytes) if "memory" in rest else ()), *(_cpu_v2(cpu) if "cpu" in rest else ())]
        optional = (("memory.swap.max", "0"),) if "memory" in rest else ()
        found.append(Group(unified / name, tuple(settings), optional))
    return found


def make(groups: list[Group]) -> None:
    """Makes the groups, empty. Raises UsageError where that is not allowed."""
    for group in groups:
        try:
            group.folder.mkdir()
            for file, value in group.settings:
                (group.folder / file).write_text(value, encoding="ascii")
        except OSError as error:
            raise UsageError(f"lab: {group.folder}: {error.strerror}; limits of a server need a group there") from None
        for file, value in group.optional:
            with contextlib.suppress(OSError):
                (group.folder / file).write_text(value, encoding="ascii")


def join_lines(groups: list[Group]) -> list[str]:
    """Shell lines by which the shell, and what it starts from then on, enters the groups."""
    return [f"echo 0 > {shlex.quote(str(each.join))}" for each in groups]


def _hierarchies(mounts: Path) -> tuple[dict[str, Path], Path | None]:
    """Folders of version 1 by controller, and the one of version 2."""
    controllers: dict[str, Path] = {}
    unified = None
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _, place, kind, options, *_ = line.split(" ")
        if kind == "cgroup":
            for each in options.split(","):
                controllers.setdefault(each, Path(place))
        elif kind == "cgroup2" and unified is None:
            unified = Path(place)
    return controllers, unified


def _handed_on(unified: Path | None) -> list[str]:
    if unified is None:
        return []
    with contextlib.suppress(OSError):
        return (unified / "cgroup.subtree_control").read_text(encoding="ascii").split()
    return []


def _memory_v1(ram_bytes: int | None) -> tuple[tuple[str, str], ...]:
    return (("memory.limit_in_bytes", str(ram_bytes)),)


def _memory_v2(ram_bytes: int | None) -> tuple[tuple[str, str], ...]:
    return (("memory.max", str(ram_bytes)),)


def _cpu_v1(cpu: float | None) -> tuple[tuple[str, str], ...]:
    quota_us, period_us = quota(cpu or 0.0)
    return (("cpu.cfs_period_us", str(period_us)), ("cpu.cfs_quota_us", str(quota_us)))


def _cpu_v2(cpu: float | None) -> tuple[tuple[str, str], ...]:
    quota_us, period_us = quota(cpu or 0.0)
    return (("cpu.max", f"{quota_us} {period_us}"),)


def quota(cpu: float) -> tuple[int, int]:
    """CPU time, and how often it is handed out, in microseconds, for a share of one CPU."""
    if cpu * PERIOD_US >= _LEAST_QUOTA_US:
        return round(cpu * PERIOD_US), PERIOD_US
    return _LEAST_QUOTA_US, min(round(_LEAST_QUOTA_US / cpu), _LONGEST_PERIOD_US)
