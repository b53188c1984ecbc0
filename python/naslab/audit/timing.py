"""Times of a run against its cells, cells against their series and histograms, clocks against each other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

from naslab.audit.figures import number
from naslab.audit.finding import Finding
from naslab.audit.subject import Cell, Subject, cell_name
from naslab.errors import NaslabError
from naslab.units import duration_text

_CLOCKS_NS = 2e9
"""So much may wall and monotonic clock part by themselves in a run (500 ppm of an hour)."""
_RESTART_NS = 3600e9
"""A larger jump is that of a run that went on after the machine was started again."""
_MOST_DECODED = 400
"""Histograms that are decoded; of longer runs those of evenly spaced cells."""


def window(subject: Subject) -> Iterator[Finding]:
    """A cell's own times: window less pauses, its end after its start, processor time within it."""
    cpus = number(subject.part("client"), "cpus") or 0.0
    for cell in subject.cells:
        duration, whole = number(cell, "duration_ns"), number(cell, "window_ns")
        start, end = number(cell, "start_ns"), number(cell, "end_ns")
        if duration is not None and whole is not None and duration > whole * 1.001 + 1:
            yield _times(cell, "its duration", duration, "its window", whole)
        elif whole is not None and start is not None and end is not None and 0 < end - start < whole * 0.999 - 1:
            yield _times(cell, "its window", whole, "the time from its start to its end", end - start)
        used = (number(cell, "cpu_user_ns") or 0.0) + (number(cell, "cpu_system_ns") or 0.0)
        if cpus and whole and not subject.simulated and used > cpus * whole * 1.05 + cpus * 2e7:
            yield _times(cell, "processor time", used, f"the time of {cpus:g} processors", cpus * whole)


def _times(cell: Cell, what: str, longer: float, than: str, shorter: float) -> Finding:
    text = f"{cell_name(cell)}: {what} is {duration_text(longer)}, more than {than} ({duration_text(shorter)})"
    numbers = {"longer_ns": longer, "shorter_ns": shorter}
    return Finding(
        "impossible", text, "a clock is wrong: do not use the rates of this cell", numbers, (cell["id"],),
        longer / shorter if shorter > 0 else float("inf"), what,
    )  # fmt: skip


def whole_run(subject: Subject) -> Iterator[Finding]:
    """No more time in cells than the run took, and none of them before its start."""
    document = subject.document
    start, end = number(document, "start_wall_ns"), number(document, "end_wall_ns")
    if not start or not end:
        return
    if end < start:
        text = f"the run ended {duration_text(start - end)} before it began"
        yield Finding("impossible", text, "the wall clock was set back: no time of this run is valid", {
            "start_wall_ns": start, "end_wall_ns": end})  # fmt: skip
        return
    if subject.simulated or not subject.own:
        return
    spans = sorted((c["start_ns"], c["end_ns"], c["id"]) for c in subject.cells if c["end_ns"] > c["start_ns"])
    spent, reached = 0, 0
    for first, last, _ in spans:
        spent += max(last - max(first, reached), 0)
        reached = max(reached, last)
    if spent > (end - start) * 1.001 + _CLOCKS_NS:
        text = f"its cells took {duration_text(spent)}, but the whole run only {duration_text(end - start)}"
        yield Finding(
            "impossible", text, "cells belong to another run, or a clock was set: do not use its rates",
            {"cells_ns": spent, "run_ns": end - start}, tuple(each[2] for each in spans), spent / (end - start),
        )  # fmt: skip


def clocks(subject: Subject) -> Iterator[Finding]:
    """Wall clock against monotonic clock over the cells; a run from the future."""
    start = number(subject.document, "start_wall_ns") or 0.0
    if start > time.time_ns() + 86400e9:
        text = f"the run begins in the future ({subject.document.get('started_at')})"
        yield Finding("doubtful", text, "the wall clock of that machine or of this one is wrong", {
            "start_wall_ns": start}, about="future")  # fmt: skip
    if subject.simulated or not subject.own:
        return
    apart = [(c["start_wall_ns"] - c["start_ns"], c) for c in subject.cells if c["start_ns"] and c["ops"]]
    for (before, _), (after, cell) in pairwise(apart):
        if _CLOCKS_NS < abs(after - before) < _RESTART_NS:
            text = f"the wall clock jumped by {duration_text(abs(after - before))} before {cell_name(cell)}"
            yield Finding(
                "doubtful", text, "the clock was set during the run: compare its times with other logs by hand; "
                "rates do not depend on it", {"jump_ns": after - before}, (cell["id"],), abs(after - before),
            )  # fmt: skip


def series(subject: Subject) -> Iterator[Finding]:
    """The interval series of a cell adds up to the cell; of other tools but for an interval.

    They leave out what ended after the time that was asked for, and round each interval's rate.
    Source: IoBucketizer.cpp and XmlResultParser.cpp of DiskSpd.
    """
    for cell in subject.cells:
        if "series" not in subject.run.blob_names(cell):
            continue
        try:
            rows = subject.run.series(cell)
        except NaslabError as error:
            yield _damaged(cell, error)
            continue
        for kind in ("read", "write"):
            part = (cell.get("kinds") or {}).get(kind) or {}
            for name in ("ops", "bytes"):
                told, moved = number(part, name), rows[f"{kind}_{name}"]
                found = int(moved.sum())
                less = 0 if subject.own or not len(moved) else int(moved.max())
                whole = set(cell["kinds"]) <= {"read", "write", "flush"}
                if told is not None and whole and abs(told - found) > less:
                    text = f"{cell_name(cell)}: {kind} {name} are {told:,.0f}, but the series adds up to {found:,}"
                    yield Finding(
                        "impossible", text, "series and cell come from different measurements: use neither",
                        {f"{kind}_{name}": told, "series_sum": found}, (cell["id"],), abs(told - found),
                        f"{kind} {name}",
                    )  # fmt: skip


def histograms(subject: Subject) -> Iterator[Finding]:
    """The latency histograms of a cell hold as many operations as the cell, and the percentiles it tells."""
    cells = subject.cells[:: max(1, -(-len(subject.cells) // _MOST_DECODED))]
    for cell in cells:
        for kind, part in (cell.get("kinds") or {}).items():
            name = f"latency:{kind}"
            if name not in subject.run.blob_names(cell):
                continue
            try:
                found = subject.run.histogram_of(cell, name)
            except NaslabError as error:
                yield _damaged(cell, error)
                continue
            count, told = int(found.counts.sum()), number(part, "ops")
            if told is not None and count != told:
                text = f"{cell_name(cell)}: {told:,.0f} operations ({kind}), but the histogram holds {count:,}"
                yield _other_numbers(cell, text, {"ops": told, "histogram_ops": count}, kind)
                continue
            yield from _percentiles(cell, kind, part, dict(found.summary()))


def _percentiles(cell: Cell, kind: str, part: object, found: dict[str, object]) -> Iterator[Finding]:
    for name in ("p50", "p99"):
        told, there = number(part, f"latency_ns.{name}"), found.get(name)  # type: ignore[arg-type]
        if told and isinstance(there, int | float) and there and abs(told / there - 1) > 0.003:
            text = (
                f"{cell_name(cell)}: {name} ({kind}) is {duration_text(told)}, but the histogram gives "
                f"{duration_text(there)}"
            )
            yield _other_numbers(cell, text, {f"{name}_ns": told, "histogram_ns": there}, f"{kind} {name}")


def _other_numbers(cell: Cell, text: str, numbers: dict[str, object], about: str) -> Finding:
    step = "histogram and cell come from different measurements: use neither"
    return Finding("impossible", text, step, numbers, (cell["id"],), 1.0, about)


def _damaged(cell: Cell, error: Exception) -> Finding:
    return Finding(
        "doubtful", f"{cell_name(cell)}: {error}", "the raw data cannot be checked: export the run again from its "
        "store", {}, (cell["id"],), 1.0, "damaged",
    )  # fmt: skip
