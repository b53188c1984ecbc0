"""Seeded throughput series with a known cause: the truth that the analysis of series is tested against.

Servers are simulated tick by tick (tokens, dirty bytes, free fast cells are counters that are filled and
emptied), never by the closed forms that the analysis uses.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.series import RateSeries

NS_PER_S = 1_000_000_000
MB = 1_000_000


def ar1(rng: np.random.Generator, count: int, rho: float, cv: float) -> NDArray[np.float64]:
    """Stationary first-order autoregressive noise of standard deviation cv."""
    start = rng.standard_normal()
    steps = rng.standard_normal(count) * math.sqrt(1 - rho * rho)
    out = np.empty(count)
    level = float(start)
    for at in range(count):
        level = rho * level + float(steps[at])
        out[at] = level
    return cv * out


def series_from(mb_per_s: NDArray[np.float64], bin_ns: int = NS_PER_S, ops_per_bin: int = 1000) -> RateSeries:
    """A series of these rates, megabytes (10^6) a second."""
    moved = np.rint(np.maximum(mb_per_s, 0.0) * MB * (bin_ns / NS_PER_S)).astype(np.int64)
    return RateSeries(moved, np.full(len(moved), ops_per_bin, np.int64), bin_ns)
