"""Processes of the lab: who lives, who descends from whom, and how to end exactly them.

A process is named by its id and its start time, so that an id the system gave to another process since is
never stopped or killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """One process for good: its id, and its start in clock ticks since boot."""

    pid: int
    start_time: int


def find(pid: int) -> Process | None:
    """The process with this id as it runs now; None when there is none, or only a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in ("Z", "X") else Process(pid, int(fields[19]))


def is_alive(process: Process) -> bool:
    """Whether this very process still runs."""
    return find(process.pid) == process


def descendants(pid: int) -> list[Process]:
    """All living processes below `pid`, parents before children."""
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) and fields[0] not in ("Z", "X"):
            children.setdefault(int(fields[1]), []).append(Process(int(entry.name), int(fields[19])))
    found, at = list(children.get(pid, [])), 0
    while at < len(found):
        found += children.get(found[at].pid, [])
        at += 1
    return found


def program(pid: int) -> str:
    """Name of the program that a process runs; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def send(process: Process, number: int) -> bool:
    """Signals this very process; whether it was there."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            if is_alive(process):
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


def wait_gone(process: Process, seconds: float) -> bool:
    """Waits until the process is gone; whether it is."""
    deadline = time.monotonic() + seconds
    while is_alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def wait_stopped(process: Process, seconds: float) -> bool:
    """Waits until a process that was sent SIGSTOP stands, or is gone; whether it does."""
    deadline = time.monotonic() + seconds
    while is_alive(process) and (fields := _stat(process.pid)) and fields[0] not in ("T", "t"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def kill_tree(pid: int, spared: int | None = None) -> None:
    """Kills everything below `pid`, until nothing new appears; but not the process `spared` and what is below it."""
    while found := set(descendants(pid)) - _tree(spared):
        for process in found:
            send(process, signal.SIGKILL)
        time.sleep(0.005)
        _reap()


def _tree(pid: int | None) -> set[Process]:
    top = None if pid is None else find(pid)
    return set() if top is None else {top, *descendants(top.pid)}


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent's thread ends. Ends it at once if that happened before."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def hear_of_parents_end(number: int) -> None:
    """Has the kernel send this process that signal when its parent's thread ends; 0: no more."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Grandchildren whose parent ends become children of this process instead of the system's first one."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().decode("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return None
