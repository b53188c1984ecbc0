"""Warnings of many cells: each said once, with how many cells and from what to what."""

from __future__ import annotations

from typing import Any

from naslab.render.terminal.telling import Told, told_once


def warning(kind: str, message: str, cell: int | None = None) -> dict[str, Any]:
    return {"kind": kind, "message": message, "cell": cell}


def test_rates_above_a_limit_are_one_line_from_lowest_to_highest() -> None:
    rates = ("1,100 MB/s", "733 MB/s", "650.5 MB/s")
    words = [f"write A at {rate}, above 600 MB/s" for rate in rates]
    cells = [{"id": at, "warnings": [warning("above_limit", text, at)]} for at, text in enumerate(words)]
    other = {"id": 9, "warnings": [warning("above_limit", "read B at 700 MB/s, above 600 MB/s", 9)]}
    assert told_once([], [*cells, other]) == [
        Told("above_limit", "write A at 650.5 to 1,100 MB/s, above 600 MB/s", 3),
        Told("above_limit", "read B at 700 MB/s, above 600 MB/s", 1),
    ]


def test_a_warning_that_run_and_cell_both_hold_counts_once() -> None:
    both = warning("above_link", "Write at 652 MB/s, above 119 MB/s", 4)
    assert told_once([both, "a remark"], [{"id": 4, "warnings": [both]}]) == [
        Told("above_link", both["message"], 1),
        Told("", "a remark", 0),
    ]


def test_other_numbers_are_left_alone() -> None:
    repeats = [warning("duplicate", f"repeats {a} and {a + 1} are the same") for a in (1, 3)]
    assert [told.message for told in told_once(repeats, [])] == [one["message"] for one in repeats]
    busy = [{"id": at, "warnings": [warning("client_saturated", f"{9 + at} of 10 busy", at)]} for at in range(3)]
    assert told_once([], busy) == [Told("client_saturated", "9 of 10 busy", 3)]
    assert told_once([], [{"id": 0}, {"id": 1, "warnings": None}]) == []
