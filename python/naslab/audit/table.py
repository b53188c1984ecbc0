"""The table of checks. A check is a function of a `Subject` that yields findings; add it here, with what it is about.

The order is that of certainty: checks that prove something come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from naslab.audit import arithmetic, latency, likeness, limits, timing, told
from naslab.audit.finding import Finding, gathered
from naslab.audit.subject import Subject


@dataclass(frozen=True)
class Check:
    """name: for programs and the guide. about: what is held against what, in one line."""

    name: str
    about: str
    look: Callable[[Subject], Iterable[Finding]]


CHECKS: tuple[Check, ...] = (
    Check("range", "amounts, times and shares are within their possible range", arithmetic.below_zero),
    Check("rates", "rates agree with bytes, operations and times; mistaken units are identified", arithmetic.rates),
    Check("records", "the bytes are no more than the operations can carry at this record size", arithmetic.records),
    Check("sums", "totals are the sums of kinds, workers and statuses", arithmetic.sums),
    Check("order", "min, percentiles and max ascend; the mean is between min and max", latency.order),
    Check("mean", "the mean is possible with these percentiles", latency.mean_bounds),
    Check("little", "outstanding operations (rate x latency) are no more than depth x workers", latency.little),
    Check("longest", "no operation takes longer than its cell", latency.longest),
    Check("link", "rates in each direction are within the link, measured or given", limits.link),
    Check("quickest", "no operation is faster than its bytes can cross the link", limits.quickest),
    Check("wire", "bytes that are claimed to have crossed the wire were counted there", limits.wire),
    Check("memory", "rates are no higher than memory can copy", limits.memory),
    Check("window", "duration, window, start and end of a cell agree; processor time fits in them", timing.window),
    Check("run_time", "cells take no longer than the run", timing.whole_run),
    Check("series", "the interval series adds up to the cell", timing.series),
    Check("histograms", "histograms agree with the cell's operations and percentiles", timing.histograms),
    Check("clocks", "wall clock and monotonic clock agree; no time is in the future", timing.clocks),
    Check("duplicates", "no two repeats, columns or runs have identical numbers", likeness.duplicates),
    Check("averages", "averages match their parts, and the parts share one condition", likeness.averages),
    Check("ticks", "different cells do not repeat one number: a sign of a coarse clock", likeness.ticks),
    Check("round", "last digits of the values are evenly distributed", likeness.round_values),
    Check("random", "random access is no faster than sequential, at depth 1", likeness.random_faster),
    Check("cached", "files are larger than the memory of client and server", limits.cached),
    Check("reducible", "a server cannot compress or deduplicate the data", limits.reducible),
    Check("validity", "naslab's own validity warnings", told.validity),
    Check("few", "enough operations for the reported statistics", told.few),
    Check("told", "the source contains what these checks need", told.untold),
)

_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError, IndexError, ZeroDivisionError)


def audit(subject: Subject) -> list[Finding]:
    """All findings of all checks, gathered; the most certain first. Empty: no findings."""
    found = gathered(each for check in CHECKS for each in _of(check, subject))
    return [replace(each, where=subject.names_of(each.cells)) if len(each.cells) > 1 else each for each in found]


def _of(check: Check, subject: Subject) -> Iterator[Finding]:
    try:
        for each in check.look(subject):
            yield replace(each, check=check.name)
    except _UNREADABLE as error:  # a document of unknown origin may have anything anywhere
        text = f"check {check.name} cannot read this document: {type(error).__name__} {error}"
        yield Finding("missing", text, "compare the file with docs/reference/run-document.md", check=check.name)
