"""Shares of each processor over the measured time, from texts like those of /proc/stat."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from naslab.commands.diskspd.machine import Machine, Processor
from naslab.commands.diskspd.processors import LEAST_PAUSE_S, Usage, Watch, Watches, read_ticks, shares

STAT = "cpu  9 9 9 9\ncpu0 100 10 50 1000 5 3 2 4 7 0\ncpu2 1 0 2 3\nintr 5 cpu9 1\nctxt 77\ncpufreq 1 2 3 4\n"


def test_ticks_of_each_processor() -> None:
    """nice is user; irq, softirq, steal are kernel; iowait is idle; guests, within user, count once."""
    assert read_ticks(STAT) == {0: (110, 59, 1005), 2: (1, 2, 3)}
    assert read_ticks("") == read_ticks("cpu 1 2 3 4\ncpu0 1 2\n") == {}


def test_shares_of_time() -> None:
    found = shares([0, 2], [0, 0, 0, 10, 10, 10], [25.0, 50.0, 25.0, 10, 10, 30])
    assert found == [Usage(0, 25.0, 50.0, 25.0), Usage(2, 0.0, 0.0, 100.0)] and found[0].usage == 75.0
    assert shares([0], [0, 0, 10], [10, 0, 9]) == [Usage(0, 100.0, 0.0, 0.0)], "iowait that runs backwards"
    assert shares([0], [1, 2, 3], [1, 2, 3]) == [], "a system that does not count"


def line(user: int, idle: int) -> str:
    return f"cpu0 {user} 0 0 {idle} 0 0 0 0\n"


def test_counters_are_interpolated_at_the_moments(tmp_path: Path) -> None:
    """Idle before and after, at work between: the edges lie between two readings."""
    stat = tmp_path / "stat"
    stat.write_text(line(0, 0))
    watch = Watch(0.0, stat)
    watch.start()
    at = time.monotonic_ns()
    while len(watch._times) < 2:  # the first of the thread's own
        time.sleep(LEAST_PAUSE_S / 10)
    stat.write_text(line(30, 10))
    watch.stop()
    begun, ended = watch._times[0], watch._times[-1]
    assert begun <= at < ended
    (whole,) = watch.usage(begun, ended)
    assert (whole.user, whole.idle) == (75.0, 25.0)
    halfway = (watch._times[-2] + ended) // 2
    (part,) = watch.usage(halfway, ended)
    assert part.user == pytest.approx(75.0)
    assert watch.usage(begun - 1, ended) == watch.usage(begun, ended + 1) == [], "outside the readings"


def test_watches_by_cell(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(line(0, 0))
    watches = Watches({1: 0.0}, stat)
    watches.begin(0)
    watches.end(0, 0, 1)
    watches.begin(1)
    start = time.monotonic_ns()
    stat.write_text(line(10, 10))
    watches.end(1, start, time.monotonic_ns())
    assert list(watches.found) == [1] and watches.stop() is None
    for missing in (tmp_path / "none", tmp_path):
        nothing = Watches({0: 0.0}, missing)
        nothing.begin(0)
        nothing.end(0, start, start)
        assert nothing.found == {0: []}


def test_a_long_test_is_read_less_often() -> None:
    assert Watch(900.0)._pause_s == 900 / 4000 and Watch(1.0)._pause_s == LEAST_PAUSE_S


def test_where_a_processor_stands() -> None:
    machine = Machine("", "", tuple(Processor(n, n % 2, n // 2, n // 2) for n in range(4)))
    assert [machine.place_of(n) for n in range(4)] == [(0, 0, 0), (0, 0, 1), (1, 1, 2), (1, 1, 3)]
    assert machine.place_of(9) == (0, 0, 9) and not machine.threaded
    assert Machine("", "", (Processor(0, 0, 0, 0), Processor(1, 0, 0, 0))).threaded
