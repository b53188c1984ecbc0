"""Devices ranked by what their repeats measured, with no rank between those that chance may have ordered.

The value of a device in a category is the geometric mean over the measurements that all its rivals have too, one
value a repeat; the interval is Student's t over the repeats' logarithms. A device is above another only where their
95 % intervals do not touch, which is stricter than a test of the difference: so a rank is a range, from one more than
those surely above to all but those surely below (a rank as a confidence set: Mogstad, Romano, Shaikh & Wilhelm 2024).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from naslab.analysis.intervals import t_interval
from naslab.analysis.ratios import LEAST_REPEATS

Repeat = Hashable
Values = Mapping[str, Mapping[Hashable, Mapping[Repeat, float]]]
"""By device and measurement the value of each repeat, all above 0."""


@dataclass(frozen=True)
class Standing:
    """One device in a category. low, high: of the 95 % interval, None with fewer than two repeats. first, last: best
    and worst rank it may have, None with fewer than four repeats (no verdict from fewer)."""

    name: str
    value: float
    low: float | None
    high: float | None
    repeats: int
    first: int | None = None
    last: int | None = None

    @property
    def ranked(self) -> bool:
        """Whether there are repeats enough for a rank."""
        return self.repeats >= LEAST_REPEATS and self.low is not None and self.high is not None


@dataclass(frozen=True)
class Category:
    """standings: best first. measurements: how many all of them share. left_out: devices that share none of them."""

    standings: Sequence[Standing]
    measurements: int
    left_out: Sequence[str]


def category(values: Values, *, higher: bool) -> Category:
    """Ranks devices by what they have in common. higher: more is better.

    Where not all have something in common, those stay that have the measurement most of them have.
    """
    counts = Counter(key for by_key in values.values() for key in by_key)
    if not counts:
        return Category((), 0, tuple(values))
    commonest = max(counts, key=lambda key: (counts[key], str(key)))
    kept = {name: by_key for name, by_key in values.items() if commonest in by_key}
    shared = [key for key in counts if all(key in by_key for by_key in kept.values())]
    found = [_standing(name, [by_key[key] for key in shared]) for name, by_key in kept.items()]
    return Category(ranks(found, higher=higher), len(shared), tuple(name for name in values if name not in kept))


def _standing(name: str, series: Sequence[Mapping[Repeat, float]]) -> Standing:
    """The geometric mean over the measurements of each repeat that has them all; of their means where none has."""
    whole = set.intersection(*(set(by_repeat) for by_repeat in series))
    logs = np.array([np.mean([math.log(by_repeat[one]) for by_repeat in series]) for one in sorted(whole, key=str)])
    if len(logs) > 1:
        mean, low, high = t_interval(logs)
        return Standing(name, math.exp(mean), math.exp(low), math.exp(high), len(logs))
    mean = float(np.mean([np.mean([math.log(value) for value in by_repeat.values()]) for by_repeat in series]))
    return Standing(name, math.exp(mean), None, None, len(logs))


def ranks(found: Sequence[Standing], *, higher: bool) -> list[Standing]:
    """The same, best first, each with the ranks it may have."""
    ranked = [one for one in found if one.ranked]
    placed = []
    for one in found:
        if one.ranked:
            above = sum(_surely(other, one, higher) for other in ranked)
            below = sum(_surely(one, other, higher) for other in ranked)
            placed.append(replace(one, first=1 + above, last=len(ranked) - below))
        else:
            placed.append(one)
    return sorted(placed, key=lambda one: (not one.ranked, -one.value if higher else one.value))


def _surely(better: Standing, worse: Standing, higher: bool) -> bool:
    """Whether the first one's whole interval is on the better side of the other's."""
    assert better.low is not None and better.high is not None and worse.low is not None and worse.high is not None
    return better.low > worse.high if higher else better.high < worse.low


def total(categories: Sequence[tuple[Category, bool]]) -> list[Standing]:
    """All categories together, equally: the geometric mean of how far each device is from the category's geometric
    mean, above 1 is better. categories: (ranked, more is better). Only devices that have an interval in each.

    The interval is the mean of the categories' intervals: the widest that errors which go together can make it.
    """
    names = set.intersection(*({one.name for one in each.standings if one.ranked} for each, _ in categories))
    if len(names) < 2:
        return []
    parts: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in names}
    for each, higher in categories:
        chosen = [one for one in each.standings if one.name in names]
        middle = float(np.mean([math.log(one.value) for one in chosen]))
        for one in chosen:
            assert one.low is not None and one.high is not None
            logs = [math.log(one.low) - middle, math.log(one.value) - middle, math.log(one.high) - middle]
            low, value, high = logs if higher else [-log for log in reversed(logs)]
            parts[one.name].append((low, value, high, one.repeats))
    found = []
    for name, rows in parts.items():
        low, value, high = (math.exp(float(np.mean([row[at] for row in rows]))) for at in range(3))
        found.append(Standing(name, value, low, high, min(row[3] for row in rows)))
    return ranks(found, higher=True)
