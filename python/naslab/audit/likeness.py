"""Numbers that are too much alike, too round, or the wrong way round; averages of what does not belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import comb
from statistics import median
from typing import Any

from naslab.analysis.repeats import COMMANDS
from naslab.analysis.stated import derived_findings
from naslab.audit.figures import digits, number, rounding
from naslab.audit.finding import Finding, Grade
from naslab.audit.subject import Cell, Subject
from naslab.results.cell_names import op_words
from naslab.units import percent_text, rate_text, size_label

_SURE_DIGITS = 9
"""So many digits beyond the first two of each number are alike by chance once in 10^9."""
_LEAST_SAME, _LEAST_DIGITS = 3, 4
_LEAST_VALUES = 12
_SCARCE = 1e-6
_FASTER = 1.5
"""Random access counts as faster from so many times the sequential rate; repeats of a run part by less."""
_CONDITIONS = ("op", "workload", "file_bytes", "record_bytes", "queue_depth", "workers")
Rates = dict[tuple[Any, ...], float]


def duplicates(subject: Subject) -> Iterator[Finding]:
    """Repeats of one run, and runs of one audit, that are the same number for number."""
    if subject.simulated or subject.document["target"].get("protocol") == "null":
        return  # in virtual time repeats are the same by right
    if subject.document["command"] in COMMANDS or not subject.own:
        blocks: dict[Any, list[Cell]] = {}
        for cell in subject.cells:
            blocks.setdefault(cell.get("block"), []).append(cell)
        named = {f"repeat {at}": _rates(cells) for at, cells in enumerate(blocks.values(), 1)}
        yield from _same(named.items(), "a repeat is counted twice: drop one before averaging")
    mine = subject.name or subject.run.run_id
    for name, run in subject.others:
        if run.run_id != subject.run.run_id and run.document["target"].get("protocol") not in ("sim", "null"):
            pair = [(name, _rates(run.document["cells"])), (mine, _rates(subject.cells))]
            yield from _same(pair, "they are one measurement under two names: do not compare them")


def _rates(cells: Sequence[Mapping[str, Any]]) -> Rates:
    return {
        tuple(cell.get(name) for name in _CONDITIONS): rate
        for cell in cells
        if (rate := number(cell, "throughput_bytes_per_s"))
    }


def _same(named: Iterable[tuple[str, Rates]], next_step: str) -> Iterator[Finding]:
    seen: list[tuple[str, Rates]] = []
    for name, rates in named:
        for other, before in seen:
            shared = [key for key in rates if key in before]
            if len(shared) > 1 and all(rates[key] == before[key] for key in shared):
                told = sum(max(digits(rates[key]) - 2, 0) for key in shared)
                text = f"{other} and {name} are the same in all {len(shared)} numbers they share"
                first = ", ".join(rate_text(rates[key]) for key in shared[:3])
                grade: Grade = "impossible" if told >= _SURE_DIGITS else "doubtful"
                numbers = {"numbers": len(shared), "digits_alike_by_chance_once_in_10_to": told}
                yield Finding(
                    grade, f"{text} ({first}{' ...' if len(shared) > 3 else ''})", next_step, numbers, about=text
                )
                break
        seen.append((name, rates))


def averages(subject: Subject) -> Iterator[Finding]:
    """Means and differences that the source itself prints (part `stated`), computed again."""
    if not subject.document.get("stated"):
        return

    for found in derived_findings(subject.document):
        grade: Grade = "doubtful" if found.kind == "mixed_mean" else "impossible"
        step = {
            "mixed_mean": "use the single columns, each compared under its own condition",
            "duplicate": "drop one of them and recompute the mean",
        }.get(found.kind, "recompute it from its parts")
        numbers = {"value": found.value, "unit": found.unit, "limit": found.limit}
        yield Finding(grade, found.message, step, numbers, found.cells, about=found.message)


def ticks(subject: Subject) -> Iterator[Finding]:
    """One number in several different cells: the rate that one tick of a coarse clock gives."""
    if subject.own:
        return
    groups: dict[float, list[Cell]] = {}
    for cell in subject.cells:
        rate = number(cell, "throughput_bytes_per_s")
        if rate and digits(rate) >= _LEAST_DIGITS:
            groups.setdefault(rate, []).append(cell)
    for rate, cells in groups.items():
        different = {(cell.get("op"), cell.get("file_bytes"), cell.get("record_bytes")) for cell in cells}
        if len(different) >= _LEAST_SAME and len({cell.get("block") for cell in cells}) < len(cells):
            text = f"{len(different)} different cells have exactly the same rate, {rate:,.0f} bytes/s"
            yield Finding(
                "doubtful", text, "the clock was too coarse for such a short test, or a cell was copied: drop these "
                "cells", {"bytes_per_s": rate, "cells": len(different)}, tuple(c["id"] for c in cells), len(different),
            )  # fmt: skip


def round_values(subject: Subject) -> Iterator[Finding]:
    """Last digits of the rates, which are all as likely; and rates of one or two digits."""
    rates = [rate for c in subject.cells if (rate := number(c, "throughput_bytes_per_s"))]
    if subject.own or not rates:
        return
    place = 2 * min(map(rounding, rates))
    if len(rates) >= _LEAST_VALUES:
        digit, count = Counter(round(rate / place) % 10 for rate in rates).most_common(1)[0]
        if 10 * _tail(count, len(rates), 0.1) < _SCARCE:
            text = f"{count} of {len(rates)} rates end in the digit {digit}; one in ten is expected"
            numbers = {"digit": digit, "ending_so": count, "rates": len(rates)}
            step = "ask for the source of the numbers: last digits of measurements are evenly distributed"
            yield Finding("doubtful", text, step, numbers)
    coarse = max(rounding(rate) / rate for rate in rates)
    if coarse > 0.02:
        most, least = percent_text(coarse), percent_text(2 * coarse)
        text = f"rates are rounded to {most} at worst: differences below {least} mean nothing"
        step = "look for a table of the source with more digits"
        yield Finding("missing", text, step, {"rounding_fraction": coarse}, about="coarse")


def _tail(least: int, of: int, share: float) -> float:
    """Probability of at least so many of `of` independent events of probability `share`."""
    return sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(least, of + 1))


def random_faster(subject: Subject) -> Iterator[Finding]:
    """Random access faster than sequential, one operation at a time: the sequential pass filled a cache."""
    groups: dict[tuple[Any, ...], dict[str, list[Cell]]] = {}
    for cell in subject.fixed():
        if cell.get("queue_depth") == 1 and cell.get("workers") == 1 and cell.get("file_bytes"):
            key = (cell.get("workload"), cell["file_bytes"], cell.get("record_bytes"))
            groups.setdefault(key, {}).setdefault(str(cell.get("op")), []).append(cell)
    for (_, size, record), ops in groups.items():
        for plain, scattered in (("read", "random_read"), ("write", "random_write")):
            low = [number(c, "throughput_bytes_per_s") or 0.0 for c in ops.get(plain, [])]
            high = [number(c, "throughput_bytes_per_s") or 0.0 for c in ops.get(scattered, [])]
            if not low or not high or not 0 < _FASTER * max(low) < min(high):
                continue
            of = f"{size_label(record)} of {size_label(size)}" if record else size_label(size)
            text = (
                f"{op_words(scattered)} of {of} at {rate_text(median(high))} is faster than sequential access at "
                f"{rate_text(median(low))}"
            )
            yield Finding(
                "doubtful", text, "the previous test filled a cache: measure it alone, with caches dropped",
                {"random_bytes_per_s": median(high), "sequential_bytes_per_s": median(low)},
                tuple(c["id"] for op in (plain, scattered) for c in ops[op]), median(high) / median(low), scattered,
            )  # fmt: skip
