"""Which working sets are said to come from memory, and which size is tried next."""

from __future__ import annotations

from typing import Any

import pytest

from naslab.analysis import workingset as ws

MB = 1_000_000


def steps(*pairs: tuple[int, float]) -> list[ws.Step]:
    return [ws.Step(size * MB, rate * MB, from_memory=False) for size, rate in pairs]


def cells(size: int, *rates: float, status: str = "complete") -> list[dict[str, Any]]:
    return [
        {"workload": ws.WORKLOAD, "status": status, "bytes": size * MB, "throughput_bytes_per_s": rate * MB}
        for rate in rates
    ]


def test_a_set_counts_by_its_fastest_pass_after_it_settled() -> None:
    found = ws.steps_of([*cells(64, 900, 40, 110, 100), *cells(16, 30, 31), *cells(8, 1, 1, 1, status="partial")])
    assert found == steps((64, 110))


@pytest.mark.parametrize(
    ("rate", "served"),
    [(1000, True), (920, True), (650, True), (550, False), (100, False), (0, False)],
)
def test_a_tenth_may_come_from_the_disks(rate: float, served: bool) -> None:
    """At 1,000 MB/s from memory and 100 behind it, a tenth missed is 1 / 1.9 ns a byte: 526 MB/s without noise."""
    assert ws.is_served(rate * MB, 1000 * MB, 120 * MB) is served


def test_noise_is_no_miss_where_memory_is_hardly_faster() -> None:
    assert ws.is_served(110 * MB, 118 * MB, 80 * MB)
    assert not ws.is_served(105 * MB, 118 * MB, 80 * MB)


def test_the_bracket_and_what_is_tried_next() -> None:
    known = steps((16, 1000), (100, 1010), (120, 300), (400, 100))
    assert ws.bracket(known) == (100 * MB, 120 * MB)
    assert ws.next_bytes(known, MB) == 110 * MB
    assert ws.next_bytes(steps((16, 1000), (100, 1010), (104, 300), (400, 100)), MB) is None, "known well enough"
    assert ws.next_bytes(known, 50 * MB) is None, "no whole unit lies between"


def test_equal_rates_tell_nothing() -> None:
    for known in (steps((16, 100)), steps((16, 100), (400, 90)), steps((16, 100), (400, 0)), []):
        assert ws.bracket(known) is None
    found = ws.finding(cells(16, 100, 100, 100) + cells(400, 100, 100, 95), own_memory=True)
    assert found is not None and found.knee_bytes is None and "--size" in found.reason
    assert "this machine's memory" in ws.words(found)
    assert ws.finding([], own_memory=False) is None
