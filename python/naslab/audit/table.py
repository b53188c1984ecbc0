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
    Check("range", "amounts, times and shares lie where they can", arithmetic.below_zero),
    Check("rates", "rates agree with bytes, operations and times; mistaken units are named", arithmetic.rates),
    Check("records", "no more bytes than operations of the record's size carry", arithmetic.records),
    Check("sums", "totals are the sums of kinds, workers and statuses", arithmetic.sums),
    Check("order", "min, percentiles and max ascend; the mean is between min and max", latency.order),
    Check("mean", "the mean is one that the percentiles allow", latency.mean_bounds),
    Check("little", "outstanding operations (rate x latency) are no more than depth x workers", latency.little),
    Check("longest", "no operation takes longer than its cell", latency.longest),
    Check("link", "rates one way are within the link, known or given", limits.link),
    Check("quickest", "no operation is quicker than its bytes on the link", limits.quickest),
    Check("wire", "what is claimed to have crossed the wire was counted there", limits.wire),
    Check("memory", "rates are within what memory copies", limits.memory),
    Check("window", "duration, window, start and end of a cell; processor time within it", timing.window),
    Check("run_time", "cells take no longer than the run", timing.whole_run),
    Check("series", "the interval series adds up to the cell", timing.series),
    Check("histograms", "histograms hold the cell's operations and percentiles", timing.histograms),
    Check("clocks", "wall clock and monotonic clock go alike; nothing is from the future", timing.clocks),
    Check("duplicates", "no two repeats, columns or runs are the very same numbers", likeness.duplicates),
    Check("averages", "averages are those of their parts, and their parts of one condition", likeness.averages),
    Check("ticks", "different cells are not one number again and again: a coarse clock", likeness.ticks),
    Check("round", "values end in all digits alike", likeness.round_values),
    Check("random", "random access is no faster than sequential, at depth 1", likeness.random_faster),
    Check("cached", "files are larger than the memory of client and server", limits.cached),
    Check("reducible", "data are such that a server cannot make them smaller", limits.reducible),
    Check("validity", "what naslab itself doubts while it measures", told.validity),
    Check("few", "enough operations for the reported statistics", told.few),
    Check("told", "the source reports what these checks need", told.untold),
)

_UNREADABLE = (KeyError, TypeError, AttributeError, ValueError, IndexError, ZeroDivisionError)


def audit(subject: Subject) -> list[Finding]:
    """All findings of all checks, gathered; the most certain first. Empty: nothing was found."""
    return gathered(each for check in CHECKS for each in _of(check, subject))


def _of(check: Check, subject: Subject) -> Iterator[Finding]:
    try:
        for each in check.look(subject):
            yield replace(each, check=check.name)
    except _UNREADABLE as error:  # a document of unknown origin may have anything anywhere
        text = f"check {check.name} cannot read this document: {type(error).__name__} {error}"
        yield Finding("missing", text, "compare the file with docs/reference/run-document.md", check=check.name)
