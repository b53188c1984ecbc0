"""What every processor of the client did while a time span was measured, as DiskSpd's CPU table shows it.

/proc/stat is read again and again, because when the measured time begins (after the warm-up) and ends is known
only afterwards; counters at those two moments are interpolated between the readings around them.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

STAT = Path("/proc/stat")
LEAST_PAUSE_S = 0.1
MOST_READINGS = 4000
"""A long test is read less often, so that readings of many processors stay small."""

Ticks = tuple[int, int, int]
"""User, kernel, idle since start-up, in clock ticks."""


@dataclass(frozen=True)
class Usage:
    """Shares of one processor's time, in per cent. number: the system's."""

    number: int
    user: float
    kernel: float
    idle: float

    @property
    def usage(self) -> float:
        """User and kernel."""
        return self.user + self.kernel


def read_ticks(text: str) -> dict[int, Ticks]:
    """Ticks of each processor that is on, by number, from the text of /proc/stat; empty without any.

    user: user, nice. kernel: system, irq, softirq, and steal, when the hypervisor did not let it run. idle: idle and
    iowait, as DiskSpd counts time without a thread to run. Guests are within user. Source: proc_stat(5).
    """
    found: dict[int, Ticks] = {}
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        if name.startswith("cpu") and name[3:].isdigit() and len(fields) >= 4:
            user, nice, system, idle, iowait, irq, softirq, steal = [*map(int, fields[:8]), 0, 0, 0, 0][:8]
            found[int(name[3:])] = (user + nice, system + irq + softirq + steal, idle + iowait)
    return found


class Watch:
    """Readings from `start` to `stop`; then `usage` gives shares between two moments in between."""

    def __init__(self, span_s: float, stat: Path = STAT) -> None:
        """span_s: about how long it will last."""
        self._stat = stat
        self._pause_s = max(LEAST_PAUSE_S, span_s / MOST_READINGS)
        self._ended = threading.Event()
        self._numbers: list[int] = []
        self._times = array("q")
        self._ticks = array("q")
        self._thread = threading.Thread(target=self._watch, name="naslab-processors", daemon=True)

    def start(self) -> None:
        """The first reading, and a thread for those that follow."""
        self._numbers = sorted(self._now())
        if self._numbers:
            self._read()
            self._thread.start()

    def stop(self) -> None:
        """The last reading."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
            self._read()

    def usage(self, start_ns: int, end_ns: int) -> list[Usage]:
        """Shares between two moments of CLOCK_MONOTONIC; empty when the readings do not enclose them."""
        first, last = self._at(start_ns), self._at(end_ns)
        return shares(self._numbers, first, last) if first and last else []

    def _watch(self) -> None:
        while not self._ended.wait(self._pause_s):
            self._read()

    def _now(self) -> dict[int, Ticks]:
        try:
            return read_ticks(self._stat.read_text())
        except (OSError, ValueError):
            return {}

    def _read(self) -> None:
        """One reading; a processor that was switched off meanwhile makes it worthless."""
        before = time.monotonic_ns()
        found = self._now()
        if all(number in found for number in self._numbers):
            self._times.append((before + time.monotonic_ns()) // 2)
            for number in self._numbers:
                self._ticks.extend(found[number])

    def _at(self, moment_ns: int) -> list[float]:
        """Counters at a moment, three for each processor; empty outside the readings."""
        for at, (before, after) in enumerate(pairwise(self._times)):
            if before <= moment_ns <= after and after > before:
                share = (moment_ns - before) / (after - before)
                low, high = self._row(at), self._row(at + 1)
                return [a + share * (b - a) for a, b in zip(low, high, strict=True)]
        return []

    def _row(self, at: int) -> Sequence[int]:
        width = 3 * len(self._numbers)
        return self._ticks[at * width : (at + 1) * width]


def shares(numbers: Sequence[int], first: Sequence[float], last: Sequence[float]) -> list[Usage]:
    """Shares of time between two sets of counters, three for each processor; empty when one did not count on."""
    found = []
    for at, number in enumerate(numbers):
        # iowait may run backwards (proc_stat(5)).
        user, kernel, idle = (max(last[i] - first[i], 0.0) for i in range(3 * at, 3 * at + 3))
        whole = user + kernel + idle
        if whole <= 0:
            return []
        found.append(Usage(number, 100 * user / whole, 100 * kernel / whole, 100 * idle / whole))
    return found


class Watches:
    """Watches by cell: begun before a cell, ended after it."""

    def __init__(self, spans_s: Mapping[int, float], stat: Path = STAT) -> None:
        """spans_s: about how long each cell that is watched will last, in seconds."""
        self._spans_s, self._stat = spans_s, stat
        self._running: Watch | None = None
        self.found: dict[int, list[Usage]] = {}
        """Shares by cell, once it has ended."""

    def begin(self, cell: int) -> None:
        """The cell is about to begin."""
        self.stop()
        if cell in self._spans_s:
            self._running = Watch(self._spans_s[cell], self._stat)
            self._running.start()

    def end(self, cell: int, start_ns: int, end_ns: int) -> None:
        """The cell has ended, and was measured between these moments of CLOCK_MONOTONIC."""
        watch = self.stop()
        if watch is not None:
            self.found[cell] = watch.usage(start_ns, end_ns)

    def stop(self) -> Watch | None:
        """Ends the watch under way."""
        watch, self._running = self._running, None
        if watch is not None:
            watch.stop()
        return watch
