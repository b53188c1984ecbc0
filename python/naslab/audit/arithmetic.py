"""Numbers of one cell that must agree: rates, bytes, operations and times; parts and their sum; units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.audit.figures import agree, number, share_off, unit_mistake
from naslab.audit.finding import Finding
from naslab.audit.subject import Cell, Subject, cell_name

_COUNTS = ("bytes", "ops", "errors", "duration_ns", "window_ns", "file_bytes", "record_bytes", "throughput_bytes_per_s")
_DATA = ("read", "write")
_QUOTIENTS = (
    ("throughput_bytes_per_s", "bytes", "duration_ns", 1e9),
    ("acknowledged_bytes_per_s", "bytes", "acknowledged_ns", 1e9),
    ("iops", "ops", "duration_ns", 1e9),
    ("throughput_mib_per_s", "throughput_bytes_per_s", None, 1 / (1 << 20)),
)
"""(field, what it is of, what it is divided by, factor)."""


def rates(subject: Subject) -> Iterator[Finding]:
    """Throughput and operations per second against the bytes, operations and times of the same cell."""
    for cell in subject.cells:
        for name, over, under, factor in _QUOTIENTS:
            claimed, amount = number(cell, name), number(cell, over)
            time = 1.0 if under is None else number(cell, under)
            if claimed is None or amount is None or not time or time < 0:
                continue
            derived = amount / time * factor
            slack = share_off(amount, over) + (0.0 if under is None else share_off(time, under))
            if not agree(claimed, derived, slack, own=subject.own):
                yield _disagree(cell, name, claimed, derived, over if under is None else f"{over} / {under}")


def _exact(value: float) -> str:
    """Digits enough to look a number up in its source."""
    return f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def _disagree(cell: Cell, name: str, claimed: float, derived: float, how: str) -> Finding:
    ratio = claimed / derived if derived else float("inf")
    mistake = unit_mistake(ratio) if derived else None
    text = f"{cell_name(cell)}: {name} is {_exact(claimed)}, but {how} gives {_exact(derived)}"
    times = f"{ratio:.6g}" if derived else "infinitely many"
    more = f": {times} times as much" + (f" ({mistake})" if mistake else "")
    return Finding(
        "impossible", text + more, "check both numbers in the source and correct the wrong one",
        {name: claimed, "derived": derived, "ratio": ratio if derived else None}, (cell["id"],),
        max(ratio, 1 / ratio) if ratio > 0 else float("inf"), f"{name} {mistake}",
    )  # fmt: skip


def records(subject: Subject) -> Iterator[Finding]:
    """No more bytes than operations of the record's size carry."""
    for cell in subject.fixed():
        record = number(cell, "record_bytes")
        for over, under, unit in (("bytes", "ops", "bytes"), ("throughput_bytes_per_s", "iops", "bytes_per_s")):
            moved, count = number(cell, over), number(cell, under)
            if not record or moved is None or not count:
                continue
            most = count * record
            if moved <= most or agree(moved, most, share_off(count, under), own=subject.own):
                continue
            mistake = unit_mistake(moved / most)
            text = (
                f"{cell_name(cell)}: {under} {_exact(count)} of {record:,.0f} bytes each carry at most {_exact(most)}, "
                f"but {over} is {_exact(moved)}, {moved / most:.6g} times as much"
                + (f" ({mistake})" if mistake else "")
            )
            yield Finding(
                "impossible", text, "check the record size and both numbers in the source",
                {over: moved, under: count, "record_bytes": record, f"most_{unit}": most}, (cell["id"],), moved / most,
                f"{over} {mistake}",
            )  # fmt: skip


def sums(subject: Subject) -> Iterator[Finding]:
    """Bytes, operations and errors of a cell against the sums of its parts."""
    for cell in subject.cells:
        for name, total, parts in _totals(cell):
            claimed = number(cell, total)
            if claimed is None or not parts:
                continue
            found = float(sum(parts))
            if claimed == found or (not subject.own and agree(claimed, found)):
                continue
            text = f"{cell_name(cell)}: {total} is {claimed:,.0f}, but its {name} add up to {found:,.0f}"
            yield Finding(
                "impossible", text, "a part is missing or counted twice; do not use this total",
                {total: claimed, "sum": found, "parts": len(parts)}, (cell["id"],), abs(claimed - found),
                f"{total} {name}",
            )  # fmt: skip


def _totals(cell: Cell) -> Iterator[tuple[str, str, list[float]]]:
    kinds = [kind for kind in (cell.get("kinds") or {}).values() if isinstance(kind, Mapping)]
    yield "kinds of operation", "bytes", _all(kinds, "bytes")
    data = {name: kind for name, kind in (cell.get("kinds") or {}).items() if name in _DATA}
    if data and set(cell["kinds"]) <= {*_DATA, "flush"}:
        yield "kinds of operation", "ops", _all(list(data.values()), "ops")
    workers = cell.get("workers_detail") or []
    yield "workers", "bytes", _all(workers, "bytes")
    yield "workers", "ops", _all(workers, "ops")
    yield "statuses", "errors", _all(cell.get("errors_by_status") or [], "count")


def _all(parts: list[Any], name: str) -> list[float]:
    """The numbers of all parts; none at all where one of them does not tell it."""
    found = [number(part, name) for part in parts]
    return [] if None in found else [each for each in found if each is not None]


def below_zero(subject: Subject) -> Iterator[Finding]:
    """Amounts and times below zero; a share of processor time, reads or writes that cannot be."""
    for cell in subject.cells:
        for name in _COUNTS:
            found = number(cell, name)
            if found is not None and found < 0:
                yield _out_of_range(cell, name, found, "at least 0")
        share = number(cell, "write_fraction")
        if share is not None and not 0 <= share <= 1:
            yield _out_of_range(cell, "write_fraction", share, "from 0 to 1")


def _out_of_range(cell: Cell, name: str, found: float, wanted: str) -> Finding:
    text = f"{cell_name(cell)}: {name} is {found:,.6g}, but must be {wanted}"
    next_step = "a counter overflowed, or the wrong column was read: check the source"
    return Finding("impossible", text, next_step, {name: found}, (cell["id"],), abs(found), name)
