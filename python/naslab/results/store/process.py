"""Which process measures a run, and whether it still lives.

A run is left `running` when its process was killed. The owner written with the run (host, machine, boot, process
id, start time) tells a dead process from a live one; where that cannot be known (another host, another machine of
the same name, another process namespace), the run is taken to be alive.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

_MACHINE_ID_DIGITS = 32


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


def _machine_id() -> str | None:
    """This machine's, hashed as machine-id(5) asks for; None where it has none, as in many containers."""
    found = _read("/etc/machine-id") or _read("/var/lib/dbus/machine-id")
    known = found and len(found) == _MACHINE_ID_DIGITS
    return hashlib.sha256(f"naslab {found}".encode()).hexdigest()[:16] if known else None


def owner() -> dict[str, Any]:
    """This process, as `is_dead` reads it."""
    return {
        "host": platform.node(),
        "machine": _machine_id(),
        "boot_id": _boot_id(),
        "pid_namespace": _pid_namespace(),
        "pid": os.getpid(),
        "start_time": _start_time(os.getpid()),
    }


def is_dead(found: dict[str, Any], by_name: bool = False) -> bool:
    """Whether the process has certainly ended.

    by_name: whether the host's name stands for a machine whose id is not known. It may for what lies in a user's home;
    not on a file server that machines of one name share.
    """
    if found.get("host") != platform.node():
        return False
    boot, machine, theirs = _boot_id(), _machine_id(), found.get("machine")
    if boot is not None and found.get("boot_id") not in (None, boot):
        return by_name if machine is None or theirs is None else machine == theirs
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
