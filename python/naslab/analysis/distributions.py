"""Student's t and running medians by their definitions, so that nothing larger than NumPy has to be installed.

Sources: the continued fraction of the incomplete beta function is DLMF 8.17.22, by the method of Lentz (DLMF 3.10);
P(T <= t) of Student's t is Abramowitz and Stegun 26.7.1. Tests hold all of it against SciPy's.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_TINY, _EXACT = 1e-300, 1e-15
_MAX_TERMS = 10_000
_LARGE = 40.0
"""From here the series is exact to 1e-15, its next term being 17 / (14336 z**7)."""


def t_below(t: float, freedom: float) -> float:
    """P(T <= t) of Student's t. t may be infinite; freedom above 0."""
    if math.isnan(t):
        return math.nan
    square = t * t
    if square <= freedom:
        # Near the middle the tail is close to 1, and what counts is its distance from that.
        half = 0.5 * _beta_share(0.5, freedom / 2, square / (freedom + square), freedom / (freedom + square))
        return 0.5 + math.copysign(half, t)
    inside = 0.0 if math.isinf(square) else freedom / (freedom + square)
    tail = 0.5 * _beta_share(freedom / 2, 0.5, inside, 1.0 if math.isinf(square) else square / (freedom + square))
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(share: float, freedom: float) -> float:
    """The t with P(T <= t) = share; 0 < share < 1, freedom above 0."""
    if not 0 < share < 1:
        return math.nan if math.isnan(share) else math.copysign(math.inf, share - 0.5)
    if share > 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = -1.0, 0.0
    while t_below(low, freedom) > share:
        low, high = low * 2, low
    while (middle := (low + high) / 2) not in (low, high):
        if t_below(middle, freedom) > share:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def normal_below(z: float) -> float:
    """P(Z <= z) of the standard normal distribution."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(share: float) -> float:
    """The z with P(Z <= z) = share; infinite at 0 and 1."""
    return NormalDist().inv_cdf(share) if 0 < share < 1 else math.copysign(math.inf, share - 0.5)


def running_medians(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Median of the `window` values around each; beyond either end its last value goes on.

    values: (n,), n of at least 1. window: odd.
    """
    half = window // 2
    padded = np.pad(values, half, mode="edge").tolist()
    ordered = sorted(padded[:window])
    found = [ordered[half]]
    for gone, come in zip(padded, padded[window:], strict=False):
        del ordered[bisect_left(ordered, gone)]
        insort(ordered, come)
        found.append(ordered[half])
    return np.array(found)


def _beta_share(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function I_x(a, b), where a or b is a half; rest is 1 - x."""
    if x <= 0 or rest <= 0:
        return float(rest <= 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(b, a, rest, x)
    scale = _log_half_step(a if b == 0.5 else b) - math.log(math.pi) / 2 + a * _log(x, rest) + b * _log(rest, x)
    return math.exp(scale) / a / _fraction(a, b, x)


def _log(x: float, rest: float) -> float:
    """log(x), by its distance from 1 where that is small."""
    return math.log1p(-rest) if rest < 0.5 else math.log(x)


def _log_half_step(z: float) -> float:
    """log(gamma(z + 1/2) / gamma(z)): the difference of two large logarithms would lose digits (DLMF 5.11.13)."""
    if z < _LARGE:
        return math.lgamma(z + 0.5) - math.lgamma(z)
    return math.log(z) / 2 - 1 / (8 * z) + 1 / (192 * z**3) - 1 / (640 * z**5)


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1 / (1 + d2 / (1 + ...)) of DLMF 8.17.22."""
    upper, lower, whole = 1.0, 0.0, 1.0
    for k in range(1, _MAX_TERMS):
        m = k // 2
        if k % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        lower = 1 / ((1 + d * lower) or _TINY)
        upper = (1 + d / upper) or _TINY
        whole *= upper * lower
        if abs(upper * lower - 1) < _EXACT:
            break
    return whole
