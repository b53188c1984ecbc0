"""Whether the clocks of this machine can be trusted over a run: steps, sleep, a rate that was bent.

Source: clock_gettime(2). The monotonic clock is slewed by time daemons but never set, and stands still in suspend.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

STEP_NS = 10_000_000
"""A wall clock that was set by less changes nothing that is told."""
RATE_OFF, RATE_OFF_NS = 1e-3, 5_000_000
"""The clock of durations counts as bent from so much against the hardware's; ordinary correction is below 0.0005."""


@dataclass(frozen=True)
class Moment:
    """Clocks read together, nanoseconds. boot, raw: None where this system has no such clock."""

    monotonic_ns: int
    wall_ns: int
    boot_ns: int | None
    raw_ns: int | None


def now() -> Moment:
    """All clocks, read again while something came in between."""
    best: tuple[int, Moment] | None = None
    for _ in range(5):
        before = time.monotonic_ns()
        wall, boot, raw = time.time_ns(), _read("CLOCK_BOOTTIME"), _read("CLOCK_MONOTONIC_RAW")
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, Moment((before + after) // 2, wall, boot, raw))
        if after - before < 100_000:
            break
    assert best is not None
    return best[1]


def _read(name: str) -> int | None:
    number = getattr(time, name, None)
    return None if number is None else time.clock_gettime_ns(number)


@dataclass(frozen=True)
class Trouble:
    """What happened between moments, nanoseconds: the wall clock set forward (or back), time asleep.

    rate_off: how much faster (or slower) than the hardware's the clock of durations went, as a share.
    """

    step_ns: int = 0
    asleep_ns: int = 0
    rate_off: float = 0.0


def trouble(moments: list[Moment]) -> Trouble:
    """The largest step, all time asleep, and the rate from first to last; zeros where nothing is wrong."""
    step = asleep = 0
    for one, other in pairwise(moments):
        passed = other.monotonic_ns - one.monotonic_ns
        slept = 0
        if one.boot_ns is not None and other.boot_ns is not None:
            slept = other.boot_ns - one.boot_ns - passed
            asleep += slept if slept > STEP_NS else 0
        jumped = other.wall_ns - one.wall_ns - passed - slept
        step = max(step, jumped, key=abs)
    return Trouble(step if abs(step) > STEP_NS else 0, asleep, _rate_off(moments))


def _rate_off(moments: list[Moment]) -> float:
    if len(moments) < 2 or moments[0].raw_ns is None or moments[-1].raw_ns is None:
        return 0.0
    hardware = moments[-1].raw_ns - moments[0].raw_ns
    off = moments[-1].monotonic_ns - moments[0].monotonic_ns - hardware
    return off / hardware if hardware > 0 and abs(off) > max(RATE_OFF_NS, RATE_OFF * hardware) else 0.0
