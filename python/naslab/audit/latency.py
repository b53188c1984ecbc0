"""Latencies against each other, against the load (Little's law) and against the time there was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from naslab.audit.figures import number, rounding
from naslab.audit.finding import Finding
from naslab.audit.subject import Cell, Subject, cell_name
from naslab.units import duration_text

_ORDER = ("min", "p50", "p90", "p99", "p99_9", "max")
_OWN_SLACK, _SOURCE_SLACK = 0.002, 0.04
"""Widths of the buckets that percentiles come from: naslab's are 0.1 %, those of other tools up to 3 %."""
_FEW = 100
"""Percentiles of fewer operations depend on how they are defined."""


def _latencies(part: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any], float | None]]:
    """(where, latency, operations) of every latency in a document or part of it."""
    if isinstance(part, Mapping):
        for name, value in part.items():
            if isinstance(value, Mapping) and {"mean", "p50", "max"} <= value.keys():
                yield f"{path}{name}", value, number(part, "ops")
            else:
                yield from _latencies(value, f"{path}{name}.")
    elif isinstance(part, list):
        for at, value in enumerate(part):
            if isinstance(value, Mapping | list):
                yield from _latencies(value, f"{path}{value.get('id', at) if isinstance(value, Mapping) else at}.")


def order(subject: Subject) -> Iterator[Finding]:
    """min <= p50 <= p90 <= p99 <= p99.9 <= max, and the mean between min and max."""
    slack = _OWN_SLACK if subject.own else _SOURCE_SLACK
    for where, latency, _ in _latencies(subject.document):
        cells = _cell_of(where)
        told = [(name, value) for name in _ORDER if (value := number(latency, name)) is not None]
        pairs = list(pairwise(told))
        mean = number(latency, "mean")
        if mean is not None:
            pairs += [((n, v), ("mean", mean)) for n, v in told if n == "min"]
            pairs += [(("mean", mean), (n, v)) for n, v in told if n == "max"]
        for (low, lower), (high, higher) in pairs:
            told_to = 0.0 if subject.own else rounding(higher) + rounding(lower)
            if lower > higher * (1 + slack) + told_to:
                place = _named(subject, where)
                text = f"{place}: {low} is {duration_text(lower)}, above {high} ({duration_text(higher)})"
                next_step = "columns were swapped, or come from different tests: check the source"
                numbers = {f"{low}_ns": lower, f"{high}_ns": higher}
                excess = lower / higher if higher > 0 else float("inf")
                yield Finding("impossible", text, next_step, numbers, cells, excess, f"{low} {high}")


def _cell_of(where: str) -> tuple[int, ...]:
    parts = where.split(".")
    return (int(parts[1]),) if parts[0] == "cells" and parts[1].isdigit() else ()


_CLOCKS = {"latency_ns": "latency", "response_ns": "response time"}


def _named(subject: Subject, where: str) -> str:
    """A latency in words: `64 KiB reads, 1 GiB file, latency`; its path where it is not of a cell."""
    cells, (*_, kind, clock) = _cell_of(where), ("", *where.split("."))
    if not cells or clock not in _CLOCKS:
        return where
    kinds = where.split(".")[2] == "kinds"
    return f"{subject.names_of(cells) or f'cell {cells[0]}'}, {f'{kind} ' if kinds else ''}{_CLOCKS[clock]}"


def mean_bounds(subject: Subject) -> Iterator[Finding]:
    """The mean that the percentiles allow: each share of the operations lies between two of them."""
    slack = _OWN_SLACK if subject.own else _SOURCE_SLACK
    for where, latency, count in _latencies(subject.document):
        told = {name: number(latency, name) for name in (*_ORDER, "mean")}
        mean, ops = told["mean"], count or 0
        if mean is None or ops < _FEW or told["p50"] is None:
            continue
        low = _least_mean(told, ops) * (1 - slack)
        high = _most_mean(told, ops)
        high = None if high is None else high * (1 + slack)
        if low - rounding(mean) <= mean and (high is None or mean <= high + rounding(mean)):
            continue
        bound, word = (low, "at least") if mean < low else (high or 0.0, "at most")
        text = (
            f"{_named(subject, where)}: the mean is {duration_text(mean)}, but these percentiles allow {word} "
            f"{duration_text(bound)}"
        )
        next_step = "mean and percentiles belong to different operations; use neither until the source explains it"
        numbers = {"mean_ns": mean, "bound_ns": bound, "ops": ops}
        excess = max(mean / bound, bound / mean) if mean > 0 and bound > 0 else 1.0
        yield Finding("impossible", text, next_step, numbers, _cell_of(where), excess, word)


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}


def _least_mean(told: Mapping[str, float | None], ops: float) -> float:
    """From a percentile on all are at least it; below, at least the one before. One operation either way is open."""
    below, total, before = 0.0, 0.0, told["min"] or 0.0
    for name, share in _SHARES.items():
        value = told[name]
        if value is not None:
            reached = max(share - 1 / ops, below)
            total, below, before = total + (reached - below) * before, reached, value
    total += max(1 - below - 1 / ops, 0.0) * before
    most = told["max"]
    return max(total, 0.0 if most is None else (most + (ops - 1) * (told["min"] or 0.0)) / ops)


def _most_mean(told: Mapping[str, float | None], ops: float) -> float | None:
    """Up to a percentile none is above it; the last ones are at most the largest."""
    if told["max"] is None:
        return None
    total, below = 0.0, 0.0
    for name, share in _SHARES.items():
        value = told[name]
        if value is not None:
            reached = max(share - 1 / ops, below)
            total, below = total + (reached - below) * value, reached
    return total + (1 - below) * told["max"]


def little(subject: Subject) -> Iterator[Finding]:
    """Outstanding operations on average (rate x mean latency) against those that were allowed."""
    slack = 0.005 if subject.own else 0.05
    for cell in subject.fixed():
        allowed, seen = _in_flight(cell)
        if allowed is None or seen is None:
            continue
        duration, most = number(cell, "window_ns") or number(cell, "duration_ns"), number(cell, "latency_ns.max")
        # Operations under way when the window began count with their whole time.
        early = allowed * (most or 0.0) / duration if duration and not (subject.own and not cell["warmup_ops"]) else 0.0
        bound = (allowed + early) * (1 + slack)
        if seen > bound:
            text = (
                f"{cell_name(cell)}: {number(cell, 'iops') or 0:,.0f} operations/s of "
                f"{duration_text(number(cell, 'latency_ns.mean') or 0)} each mean {seen:.4g} outstanding operations on "
                f"average, but at most {allowed:g} were allowed"
            )
            yield Finding(
                "impossible", text, "rate, latency, queue depth or workers come from another test, or have another "
                "unit",
                {"outstanding": seen, "allowed": allowed, "ratio": seen / allowed}, (cell["id"],), seen / bound,
            )  # fmt: skip
        elif seen < allowed / 2 and allowed > 1 and _closed(subject, cell):
            text = (
                f"{cell_name(cell)}: {allowed:g} outstanding operations were requested, but rate x latency gives "
                f"{seen:.3g} on average"
            )
            yield Finding(
                "doubtful", text, "the tool did not keep its queue depth (a synchronous engine, or pauses): report the "
                "depth that it reached", {"outstanding": seen, "allowed": allowed}, (cell["id"],),
                allowed / max(seen, 1e-9), "below",
            )  # fmt: skip


def _in_flight(cell: Cell) -> tuple[float | None, float | None]:
    """(allowed, seen); None where it is not told, or the latency counts from the due time."""
    depth, workers = number(cell, "queue_depth"), number(cell, "workers")
    rate, mean = number(cell, "iops"), number(cell, "latency_ns.mean")
    if depth is None or workers is None or rate is None or mean is None or cell.get("latency_clock") != "service":
        return None, None
    return depth * workers, rate * mean / 1e9


def _closed(subject: Subject, cell: Cell) -> bool:
    """Of others' tools alone: naslab's own pauses are not in its document."""
    return not subject.own and cell.get("offered_per_s") is None and (number(cell, "ops") or 0) >= _FEW


def longest(subject: Subject) -> Iterator[Finding]:
    """No operation takes longer than the cell."""
    for cell in subject.fixed():
        duration, most = number(cell, "window_ns") or number(cell, "duration_ns"), number(cell, "latency_ns.max")
        if not duration or most is None or number(cell, "warmup_ops") or cell.get("latency_clock") != "service":
            continue
        if most > duration * 1.02 + 2 * rounding(duration) + rounding(most):
            sure = number(cell, "warmup_ops") == 0
            text = f"{cell_name(cell)}: took {duration_text(duration)}, its slowest operation {duration_text(most)}"
            yield Finding(
                "impossible" if sure else "doubtful", text, "one of the times has another unit, or belongs to "
                "a warm-up", {"max_ns": most, "duration_ns": duration}, (cell["id"],), most / duration,
            )  # fmt: skip
