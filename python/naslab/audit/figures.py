"""Numbers of documents, known or not, and whether two that should be one are, within the rounding of a source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from naslab.results.columns import lookup

_STEPS = (10**9, 2**30, 10**6, 2**20, 10**3, 2**10, 1)
_UNITS = (
    (1.024, "powers of 1024 taken for powers of 1000 (1.024)"),
    (1.048576, "MiB (2^20) taken for MB (10^6)"),
    (1.073741824, "GiB (2^30) taken for GB (10^9)"),
    (8.0, "bits taken for bytes"),
    (8.192, "bits taken for bytes, and 1024 for 1000"),
    (8.388608, "bits taken for bytes, and MiB for MB"),
    (1000.0, "a prefix is off by 1000"),
    (1024.0, "a prefix is off by 1024"),
    (1e6, "a prefix is off by a million"),
    (float(1 << 20), "a prefix is off by 2^20"),
)
"""Ratios by which two numbers differ when somebody took one unit for another, with words."""
UNIT_MATCH = 0.004
"""A ratio counts as one of the mistakes above within this share: below half of what 1.024 is from 1."""


def number(of: Mapping[str, Any], path: str) -> float | None:
    """The number at `latency_ns.p99`; None where there is none, or it is no finite number."""
    value = lookup(of, path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def rounding(value: float) -> float:
    """Half of the last place that a source can have written of a value: 3 MB/s is 2.5 to 3.5 MB/s.

    The coarsest of the usual units, with up to three decimals, that the value is a whole number of.
    """
    best = 0.0
    for step in _STEPS:
        for decimals in range(4):
            place = step / 10**decimals
            if place <= best or place > abs(value):
                continue
            if abs(value / place - round(value / place)) < 1e-9 * max(value / place, 1):
                best = place
    return best / 2


COARSEST = {"bytes": float(1 << 19), "ops": 0.5, "duration_ns": 5e8, "acknowledged_ns": 5e8}
"""The most that a source rounds counts and times by; a size like 1 GiB is a round number by choice."""


def agree(claimed: float, derived: float, *slack: float, own: bool = False) -> bool:
    """Whether two values are one within the rounding of the numbers told.

    slack: by which share each number that `derived` was computed from may be off, as `share_off` gives it. own: naslab
    rounds nothing.
    """
    if own:
        return math.isclose(claimed, derived, rel_tol=1e-6, abs_tol=1e-3)
    return abs(claimed - derived) <= rounding(claimed) + abs(derived) * (sum(slack) + 0.005)


def share_off(value: float, name: str = "") -> float:
    """By which share a number of this name may be off for its rounding."""
    return min(rounding(value), COARSEST.get(name, math.inf)) / abs(value) if value else 0.0


def unit_mistake(ratio: float) -> str | None:
    """What a ratio of two values that should be equal says, where it is that of a mistaken unit."""
    if ratio <= 0:
        return None
    above = max(ratio, 1 / ratio)
    return next((words for factor, words in _UNITS if abs(above / factor - 1) <= UNIT_MATCH), None)


def digits(value: float) -> int:
    """Significant digits that a source can have written of a value: 267.789 MB/s has 6, 80 MB/s has 1."""
    place = 2 * rounding(value)
    return 0 if not value or not place else len(str(round(abs(value) / place)).rstrip("0")) or 1
