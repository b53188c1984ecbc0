"""Student's t on a handful of repeats: intervals and one-sided p values of a mean of logarithms.

Source: Student 1908; log ratios of paired repeats are differences, so what both sides of a pair share cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.distributions import t_below, t_quantile

LEVEL = 0.05
LEAST_SPREAD = 0.001
"""No deviation below 0.1 % is believed: clocks and record counts are no finer, and repeats that agree entirely would
otherwise prove anything."""
POWER = 0.8


def standard_error(values: NDArray[np.float64]) -> float:
    """Of the mean of (n,) logarithms, n of at least 2."""
    return max(float(np.std(values, ddof=1)), LEAST_SPREAD) / math.sqrt(len(values))


def t_interval(values: NDArray[np.float64], level: float = LEVEL) -> tuple[float, float, float]:
    """(mean, low, high) of (n,) values, n of at least 2; the interval covers with 1 - level."""
    mean = float(np.mean(values))
    half = t_quantile(1 - level / 2, len(values) - 1) * standard_error(values)
    return mean, mean - half, mean + half


def p_above(values: NDArray[np.float64], edge: float) -> float:
    """One-sided p of `the mean is above edge`: how likely values so high are when it is not. edge may be infinite."""
    if math.isinf(edge):
        return 0.0 if edge < 0 else 1.0
    return t_below(-(float(np.mean(values)) - edge) / standard_error(values), len(values) - 1)


def p_below(values: NDArray[np.float64], edge: float) -> float:
    """The same of `the mean is below edge`."""
    return p_above(-values, -edge)


def detectable(values: NDArray[np.float64], level: float = LEVEL) -> float:
    """Distance of a true mean from an edge that would be seen in 80 of 100 cases, one-sided at this level."""
    freedom = len(values) - 1
    return (t_quantile(1 - level, freedom) + t_quantile(POWER, freedom)) * standard_error(values)


def p_binomial(successes: int, of: int) -> float:
    """P(at least so many of so many tosses of a fair coin): the exact sign test, one-sided."""
    return float(sum(math.comb(of, k) for k in range(successes, of + 1)) / 2**of)


def median_interval(values: Sequence[float]) -> tuple[list[float] | None, float | None]:
    """Interval of the median from order statistics, with its coverage; None where too few values give 95 %.

    The narrowest [k-th lowest, k-th highest] that covers the median of any continuous distribution with at least
    95 %: six values give lowest to highest, 96.9 %. Source: Conover, Practical Nonparametric Statistics, 3.2.
    """
    ranked, count = sorted(values), len(values)
    for k in range(count // 2, 0, -1):
        covered = 1 - 2 * sum(math.comb(count, i) for i in range(k)) / 2**count
        if covered >= 1 - LEVEL:
            return [ranked[k - 1], ranked[count - k]], covered
    return None, None
