"""What a cell's rate over time says of its regime: burst, baseline, or a write-back cache that filled up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from naslab.analysis.buckets import LEAST_RATIO
from naslab.analysis.changepoints import find_changes
from naslab.analysis.regimes_cells import View
from naslab.analysis.series import NS_PER_S, RateSeries
from naslab.errors import NaslabError
from naslab.results.describe import part_of
from naslab.results.parts.sustained import Sustained
from naslab.units import amount_text, duration_text, rate_text

if TYPE_CHECKING:
    from naslab.results.run import Run

LEAST_BINS = 12
"""Intervals a series needs before parts of it are compared."""
LOOKED_AT = 300
"""Series searched for changes; beyond, a run is one of so many short cells that no part of one tells."""
CHUNKS = 12
MOSTLY = 0.6
"""Share of the time that names a cell which crosses a change."""
HELD_BACK = 0.5
"""Bytes that a flush brought to the disks, over those moved above the later rate: a write-back cache from here."""
SAME_RATE = 0.08


@dataclass(frozen=True)
class Drop:
    """A series at one level and then at a lower one. high_ns, low_ns: how long each lasted."""

    high: float
    low: float
    high_ns: int
    low_ns: int

    @property
    def above_bytes(self) -> float:
        """Moved above the later rate."""
        return (self.high - self.low) * self.high_ns / NS_PER_S

    @property
    def longest(self) -> str:
        """`high`, `low`, or `both` where neither lasted most of the time."""
        share = self.high_ns / (self.high_ns + self.low_ns)
        return "high" if share >= MOSTLY else "low" if share <= 1 - MOSTLY else "both"

    def words(self) -> str:
        """Both levels and how long they lasted."""
        return (
            f"{rate_text(self.high)} for {duration_text(self.high_ns)}, then {rate_text(self.low)} "
            f"for {duration_text(self.low_ns)}"
        )


def drops_of(run: Run, document: Mapping[str, Any], views: Sequence[View]) -> dict[int, Drop]:
    """The drop of each cell whose series has one, by cell id. Rises, and rates that go up and down, are none."""
    known = _known(document)
    wanted = [v for v in views if v.cell["window_ns"] >= LEAST_BINS * v.cell["interval_ns"] and not v.paced]
    found: dict[int, Drop] = {}
    for view in sorted(wanted, key=lambda v: -int(v.cell["window_ns"]))[:LOOKED_AT]:
        drop = _drop(known[view.id]) if view.id in known else _drop(_segments(run, view))
        if drop is not None:
            found[view.id] = drop
    return found


def _known(document: Mapping[str, Any]) -> dict[int, list[tuple[int, float]]]:
    """(duration, mean rate) of the segments that the run's own part holds, by cell."""
    kinds: dict[int, list[tuple[int, float]]] = {}
    part = part_of(document, "sustained", Sustained)
    for each in part.regimes if part else ():
        if each.cell not in kinds or each.kind == "all":
            kinds[each.cell] = [(s.end_ns - s.start_ns, s.mean_bytes_per_s) for s in each.segments]
    return kinds


def _segments(run: Run, view: View) -> list[tuple[int, float]]:
    from naslab.analysis.sustained import series_of_cell

    try:
        series = series_of_cell(run, view.cell)
    except NaslabError:
        return []
    if len(series) < LEAST_BINS or not _uneven(series):
        return []
    return [(s.end_ns - s.start_ns, s.mean_bytes_per_s) for s in find_changes(series).segments]


def _uneven(series: RateSeries) -> bool:
    """Whether stretches of it differ enough for a change to be worth a search."""
    means = np.array([part.mean() for part in np.array_split(series.rates_bytes_per_s, CHUNKS)])
    least = float(means.min())
    return bool(means.max() >= LEAST_RATIO * least or least <= 0)


def _drop(segments: Sequence[tuple[int, float]]) -> Drop | None:
    """Two levels, the higher one first. Segments are told apart at the geometric mean of the extremes."""
    rates = [rate for _, rate in segments]
    if len(rates) < 2 or min(rates) <= 0 or max(rates) < LEAST_RATIO * min(rates):
        return None
    edge = (max(rates) * min(rates)) ** 0.5
    levels = [rate >= edge for rate in rates]
    first_low = levels.index(False)
    if first_low == 0 or any(levels[first_low:]):
        return None
    high, low = segments[:first_low], segments[first_low:]
    high_ns, low_ns = (sum(length for length, _ in part) for part in (high, low))
    return Drop(_mean(high), _mean(low), high_ns, low_ns)


def _mean(part: Sequence[tuple[int, float]]) -> float:
    return sum(length * rate for length, rate in part) / sum(length for length, _ in part)


def is_write_back(view: View, drop: Drop) -> bool | None:
    """Whether what the writes moved above the later rate was still in memory at their end; None: no flush tells."""
    flush_ns = view.cell.get("flush_ns")
    if view.direction != "write" or flush_ns is None:
        return None
    return bool(flush_ns / NS_PER_S * drop.low >= HELD_BACK * drop.above_bytes)


def held_words(view: View, drop: Drop) -> str:
    """What the flush says of the bytes moved above the later rate."""
    kept = (view.cell.get("flush_ns") or 0) / NS_PER_S * drop.low
    return (
        f"{amount_text(drop.above_bytes)} above the later rate, of which {amount_text(kept)} were still in memory at "
        "the flush"
    )
