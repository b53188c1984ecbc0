"""Which process measures a run, and whether it still lives.

A run is left `running` when its process was killed. The owner written with the run (host, boot, process
id, start time) tells a dead process from a live one; where that cannot be known (another host, another
process namespace), the run is taken to be alive.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _start_time(pid: int) -> str | None:
    """Start of the process in clock ticks since boot (field 22 of /proc/PID/stat), None where there is none."""
    return _stat_field(pid, 19)


def _state(pid: int) -> str | None:
    return _stat_field(pid, 0)


def _stat_field(pid: int, index: int) -> str | None:
    """Field of /proc/PID/stat, counted from the one after the program's name (field 3)."""
    stat = _read(f"/proc/{pid}/stat")
    return stat.rpartition(")")[2].split()[index] if stat else None


def _boot_id() -> str | None:
    return _read("/proc/sys/kernel/random/boot_id")


def owner() -> dict[str, Any]:
    """This process, as `is_dead` reads it."""
    return {
        "host": platform.node(),
        "boot_id": _boot_id(),
        "pid_namespace": _pid_namespace(),
        "pid": os.getpid(),
        "start_time": _start_time(os.getpid()),
    }


def is_dead(found: dict[str, Any]) -> bool:
    """Whether the process has certainly ended."""
    if found.get("host") != platform.node():
        return False
    boot = _boot_id()
    if boot is not None and found.get("boot_id") not in (None, boot):
        return True
    pid = found.get("pid")
    if found.get("pid_namespace") != _pid_namespace() or not isinstance(pid, int) or pid <= 0:
        return False
    if found.get("start_time") is not None and Path("/proc/self/stat").exists():
        return _start_time(pid) != found["start_time"] or _state(pid) in ("Z", "X")
    return not _answers(pid)


def _answers(pid: int) -> bool:
    if os.name != "posix":
        return True  # os.kill would end it there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
