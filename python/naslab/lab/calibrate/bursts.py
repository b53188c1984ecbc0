"""A token bucket in a series of moved bytes: the rate with credit, the rate without, the credit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from naslab.errors import TargetError

_LEAST_ROWS = 5
"""On each side of the knee."""


@dataclass(frozen=True)
class Fitted:
    """Per second, and an amount, in the units of the series."""

    rate: float
    base: float
    size: float


def fit_bucket(series: Sequence[tuple[float, float]], skip_s: float = 0.0) -> Fitted:
    """Two straight lines through the sum of what was moved, by least squares over the place of the knee.

    The second line's slope is the base; its height at the start is what was moved above the base. skip_s: left out of
    the first line, where a throttle lets through what it held. Raises TargetError for a series that is too short.
    """
    import numpy as np  # here: a lab: target that is only measured does without

    at, moved = np.array(series, dtype=np.float64).T
    if len(at) < 2 * _LEAST_ROWS + 2:
        raise TargetError(f"{len(at)} intervals are too few for a burst")
    best = (np.inf, 0)
    for knee in range(_LEAST_ROWS, len(at) - _LEAST_ROWS):
        off = 0.0
        for part in (slice(0, knee), slice(knee, None)):
            line = np.polyfit(at[part], moved[part], 1)
            off += float(np.square(np.polyval(line, at[part]) - moved[part]).sum())
        best = min(best, (off, knee))
    knee = best[1]
    base, size = np.polyfit(at[knee:], moved[knee:], 1)
    first = (at[:knee] >= skip_s).nonzero()[0]
    start, end = (int(first[0]), knee - 1) if len(first) > _LEAST_ROWS else (0, knee - 1)
    rate = (moved[end] - moved[start]) / (at[end] - at[start])
    return Fitted(float(rate), float(base), float(size))
