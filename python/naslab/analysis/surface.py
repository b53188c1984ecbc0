"""Surfaces of file size x record size: how rough they are, and where they dip.

A surface is an array (repeats, files, records) of rates, NaN where nothing was measured; a file smaller than the
record has no rate. Neighbours of a spot differ by one step of file size or of record size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.intervals import LEVEL, t_interval

DIP = 0.8
"""A dip's interval lies below this share of its neighbours' median."""
LEAST_REPEATS = 3
_NOISE = math.sqrt(6.0) * math.sqrt(2 / math.pi)
"""Mean size of the second difference of independent normal noise of deviation 1."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dip:
    """One spot that lies below its neighbours. share: of their median, geometric mean over the repeats; low, high: its
    95 % interval."""

    file_bytes: int
    record_bytes: int
    share: float
    low: float
    high: float


def roughness(surface: Floats) -> float:
    """How rough one repeat is: 0 for any plane on logarithmic axes, s for independent noise of deviation s.

    surface: (files, records). The mean size of the second differences of the logarithms along both axes, over that
    of noise of deviation 1; NaN without three neighbours in a row.
    """
    logs = np.log(np.where(surface > 0, surface, np.nan))
    bends = np.concatenate([np.diff(logs, 2, axis=axis).ravel() for axis in (0, 1)])
    bends = bends[np.isfinite(bends)]
    return float(np.abs(bends).mean() / _NOISE) if len(bends) else math.nan


def dips(surfaces: Floats, files: Sequence[int], records: Sequence[int]) -> list[Dip]:
    """Spots whose interval lies below DIP of their neighbours' median; spots side by side count once, by the deepest.

    surfaces: (repeats, files, records). A dip lies between two neighbours on at least one axis, below both: the slope
    at the edge of a surface is none. The interval is Student's of the log ratio over the repeats. Empty below
    LEAST_REPEATS.
    """
    if len(surfaces) < LEAST_REPEATS:
        return []
    found = {at: dip for at, dip in _spots(surfaces, files, records) if dip.high < DIP}
    return [min((found[at] for at in group), key=lambda dip: dip.share) for group in _groups(found)]


def _spots(surfaces: Floats, files: Sequence[int], records: Sequence[int]) -> Iterator[tuple[tuple[int, int], Dip]]:
    logs = np.log(np.where(surfaces > 0, surfaces, np.nan))
    for row, file in enumerate(files):
        for column, record in enumerate(records):
            around = [
                _pair(logs, (row - 1, column), (row + 1, column)), _pair(logs, (row, column - 1), (row, column + 1))
            ]  # fmt: skip
            own = logs[:, row, column]
            if not np.isfinite(own).all() or not any(_below(own, pair) for pair in around):
                continue
            beside = np.stack([one for pair in around for one in pair], axis=1)
            apart = own - np.log(np.nanmedian(np.exp(beside), axis=1))
            value, low, high = t_interval(apart, LEVEL)
            yield (row, column), Dip(file, record, math.exp(value), math.exp(low), math.exp(high))


def _pair(logs: Floats, before: tuple[int, int], after: tuple[int, int]) -> list[Floats]:
    """Those of the two neighbours on an axis that were measured in each repeat."""
    _, rows, columns = logs.shape
    inside = [at for at in (before, after) if 0 <= at[0] < rows and 0 <= at[1] < columns]
    return [one for at in inside if np.isfinite(one := logs[:, at[0], at[1]]).all()]


def _below(own: Floats, pair: Sequence[Floats]) -> bool:
    return len(pair) == 2 and all(float(np.median(own)) < float(np.median(one)) for one in pair)


def _groups(found: dict[tuple[int, int], Dip]) -> list[list[tuple[int, int]]]:
    """Spots that touch along an axis, together."""
    left, groups = set(found), []
    for start in sorted(found):
        if start not in left:
            continue
        left.discard(start)
        group, edge = [], [start]
        while edge:
            row, column = edge.pop()
            group.append((row, column))
            for at in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                if at in left:
                    left.discard(at)
                    edge.append(at)
        groups.append(group)
    return groups
