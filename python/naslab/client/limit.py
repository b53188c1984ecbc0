"""How many processors this process may use: not those of the machine, but what affinity and control groups leave."""

from __future__ import annotations

import math
import os

from naslab import _engine


def usable_cores() -> int:
    """Processors that this process's affinity allows; at least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota_cores(root: str = "/") -> float | None:
    """Processors that control groups (version 1 or 2) allow this process; None where none has a quota.

    The least of its own group's quota and of those above it. root: where proc and the mounts are looked for, in tests.
    """
    return _engine.cpu_quota_cores(root)


def cpu_limit_cores() -> float:
    """Processors that this process may use, as a number that may be below 1."""
    quota = quota_cores()
    return float(usable_cores()) if quota is None else min(quota, float(usable_cores()))


def processors() -> int:
    """The same as a number of threads that are busy at once: rounded up, at least 1."""
    return max(1, math.ceil(cpu_limit_cores()))
