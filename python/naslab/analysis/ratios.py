"""One target over another from repeats: the ratio, its 95 % interval, what it proves and what it could have proved.

The unit is the repeat, one whole execution of a cell; values are logarithms, so that a ratio is a difference. Repeats
of one block, measured within minutes of each other, are compared in pairs: what a block shares, a drift of the server
or of the machine, cancels. Few pairs: Student's t, for a rank test of five cannot reach 5 %. From RANKS_FROM on: the
Hodges-Lehmann estimate with the exact signed-rank interval (Hodges & Lehmann 1963, Tukey 1949), which a few disturbed
runs move little. Unpaired repeats: Welch's t (1947), from RANKS_FROM_EACH on each side Hodges and Lehmann's shift with
the exact rank-sum interval. The method depends on the count alone, so choosing it costs nothing.

Three regions of the true ratio are tested: beyond the margin above, beyond it below, and within. They exclude each
other, so each may have the full level (Finner & Strassburger 2002); a one-sided 2.5 % is the 95 % interval's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.distributions import t_below, t_quantile
from naslab.analysis.families import benjamini_hochberg, holm
from naslab.analysis.intervals import LEAST_SPREAD, LEVEL, POWER
from naslab.errors import UsageError

Verdict = Literal["better", "worse", "equivalent", "undecided"]
Method = Literal["paired t", "signed rank", "welch t", "rank sum"]
Control = Literal["holm", "fdr"]
Floats = NDArray[np.float64]
RATE_MARGIN, LATENCY_MARGIN = 0.05, 0.10
LEAST_REPEATS = 4
"""No verdict from fewer: three against three can never reach 5 % (exact rank-sum p 0.1)."""
LOOKS = (5, 8, 12, 18, 27)
"""Numbers of pairs after which a comparison that is still being measured may be judged."""
POCOCK = 0.0158
"""Level of each of five looks when all together have 5 %. Source: Pocock 1977; intervals at it cover at every look at
once with 95 % (repeated confidence intervals, Jennison & Turnbull 1989)."""
RANKS_FROM, RANKS_FROM_EACH = 10, 8
"""By simulation with runs disturbed by up to a quarter (docs/concepts/comparison.md)."""


@dataclass(frozen=True)
class Ratio:
    """The first target over the second.

    low, high: of the 95 % interval. n, other_n: repeats; of pairs both the same. p_different: two-sided, of a true
    ratio of 1. p_more, p_less, p_within: one-sided, of the true ratio above the margin, below it, within. mde: the
    smallest true difference, as a share, that would have been called different in 80 of 100 cases. level: of the
    tests; smaller than 5 % where the data are looked at more than once (`POCOCK`), so that over all looks it is 5 %.
    """

    value: float
    low: float
    high: float
    n: int
    other_n: int
    method: Method
    margin: float
    p_different: float
    p_more: float
    p_less: float
    p_within: float
    mde: float
    level: float = LEVEL


@dataclass(frozen=True)
class Judged:
    """A ratio in its family: p values adjusted. verdict: of the first target; None with too few repeats."""

    ratio: Ratio
    p: float
    p_different: float
    different: bool
    verdict: Verdict | None


def paired(one: Floats, other: Floats, margin: float, level: float = LEVEL) -> Ratio:
    """Of two series of (n,) values above 0, the same blocks in the same order, n of at least 1.

    Raises UsageError for series of unlike length, an empty one, or a value that is not above 0.
    """
    if len(one) != len(other):
        raise UsageError(f"pairs need as many values on either side: {len(one)} and {len(other)}")
    logs = _logs(one) - _logs(other)
    method: Method = "signed rank" if len(logs) >= RANKS_FROM else "paired t"
    if method == "paired t":
        return _by_t(float(logs.mean()), *_error(logs), method, (len(logs), len(logs)), margin, level)
    first, second = np.triu_indices(len(logs))
    walsh = np.sort((logs[first] + logs[second]) / 2)
    slack = LEAST_SPREAD / math.sqrt(len(logs))
    return _by_ranks(walsh, _signed_rank(len(logs)), slack, method, (len(logs), len(logs)), margin, level)


def unpaired(one: Floats, other: Floats, margin: float, level: float = LEVEL) -> Ratio:
    """Of two series of repeats that were not measured in turns; raises as `paired`. A drift between them is in it."""
    first, second = _logs(one), _logs(other)
    counts = (len(first), len(second))
    if min(counts) >= RANKS_FROM_EACH:
        apart = np.sort((first[:, None] - second[None, :]).ravel())
        slack = LEAST_SPREAD * math.sqrt(1 / counts[0] + 1 / counts[1])
        return _by_ranks(apart, _rank_sum(*counts), slack, "rank sum", counts, margin, level)
    (error, freedom), (other_error, other_freedom) = _error(first), _error(second)
    total = math.hypot(error, other_error)
    parts = [e**4 / f for e, f in ((error, freedom), (other_error, other_freedom)) if f]
    both = total**4 / sum(parts) if len(parts) == 2 else 0.0  # one value on a side tells no spread
    return _by_t(float(first.mean() - second.mean()), total, both, "welch t", counts, margin, level)


def judge(ratios: Sequence[Ratio], *, higher: bool, control: Control = "holm") -> list[Judged]:
    """The family's verdicts. higher: more is better. control: `holm` for few numbers, `fdr` for a surface."""
    adjust = holm if control == "holm" else benjamini_hochberg
    told = [at for at, ratio in enumerate(ratios) if min(ratio.n, ratio.other_n) >= LEAST_REPEATS]
    three = adjust([min(ratios[at].p_more, ratios[at].p_less, ratios[at].p_within) for at in told])
    two = adjust([ratios[at].p_different for at in told])
    adjusted = {at: (p, q) for at, p, q in zip(told, three, two, strict=True)}
    judged = []
    for at, ratio in enumerate(ratios):
        p, different = adjusted.get(at, (1.0, 1.0))
        verdict = _verdict(ratio, p, higher) if at in adjusted else None
        judged.append(Judged(ratio, p, different, different <= ratio.level, verdict))
    return judged


def _verdict(ratio: Ratio, p: float, higher: bool) -> Verdict:
    if p > ratio.level / 2:
        return "undecided"
    if ratio.p_within <= min(ratio.p_more, ratio.p_less):
        return "equivalent"
    return "better" if (ratio.p_more < ratio.p_less) == higher else "worse"


def _logs(values: Floats) -> Floats:
    if not len(values):
        raise UsageError("a ratio needs at least one repeat on either side")
    if not (values > 0).all():
        raise UsageError("a ratio needs values above 0")
    logs: Floats = np.log(values)
    return logs


def _error(logs: Floats) -> tuple[float, int]:
    """(standard error of the mean, degrees of freedom); one value has none."""
    if len(logs) < 2:
        return math.inf, 0
    return max(float(logs.std(ddof=1)), LEAST_SPREAD) / math.sqrt(len(logs)), len(logs) - 1


def _by_t(
    mean: float,
    error: float,
    freedom: float,
    method: Method,
    counts: tuple[int, int],
    margin: float,
    level: float,
) -> Ratio:
    if freedom <= 0:
        return Ratio(math.exp(mean), 0.0, math.inf, *counts, method, margin, 1.0, 1.0, 1.0, 1.0, math.inf, level)

    def above(edge: float) -> float:
        return t_below(-(mean - edge) / error, freedom)

    def below(edge: float) -> float:
        return t_below((mean - edge) / error, freedom)

    half = t_quantile(1 - level / 2, freedom) * error
    mde = math.expm1((t_quantile(1 - level / 2, freedom) + t_quantile(POWER, freedom)) * error)
    return _ratio((mean, mean - half, mean + half), above, below, method, counts, margin, mde, level)


def _by_ranks(
    ordered: Floats, tail: Floats, slack: float, method: Method, counts: tuple[int, int], margin: float, level: float
) -> Ratio:
    """ordered: averages or differences that the statistic counts. tail: P(statistic <= w) under the null hypothesis.

    slack: what clocks and counts cannot resolve; repeats that agree entirely would otherwise prove anything.
    """

    def above(edge: float) -> float:
        beyond = int(np.searchsorted(ordered, edge + slack, side="right"))
        return float(tail[beyond])  # as few at or below the edge, or fewer

    def below(edge: float) -> float:
        beyond = len(ordered) - int(np.searchsorted(ordered, edge - slack, side="left"))
        return float(tail[beyond])

    outside = int(np.searchsorted(tail, level / 2, side="right"))  # so many are left out at either end
    low, high = float(ordered[outside - 1]) - slack, float(ordered[len(ordered) - outside]) + slack
    freedom = sum(counts) / (2 if method == "signed rank" else 1) - (1 if method == "signed rank" else 2)
    wide = 1 + t_quantile(POWER, freedom) / t_quantile(1 - level / 2, freedom)
    mde = math.expm1((high - low) / 2 * wide)
    return _ratio((float(np.median(ordered)), low, high), above, below, method, counts, margin, mde, level)


def _ratio(
    logs: tuple[float, float, float],
    above: Callable[[float], float],
    below: Callable[[float], float],
    method: Method,
    counts: tuple[int, int],
    margin: float,
    mde: float,
    level: float,
) -> Ratio:
    edge = math.log1p(margin)
    different = min(1.0, 2 * min(above(0.0), below(0.0)))
    within = max(above(-edge), below(edge))
    value, low, high = (math.exp(log) for log in logs)
    return Ratio(value, low, high, *counts, method, margin, different, above(edge), below(-edge), within, mde, level)


@lru_cache(maxsize=64)
def _signed_rank(n: int) -> Floats:
    """P(sum of positive ranks <= w) of n values symmetric about 0, w from 0 to n (n + 1) / 2."""
    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
        ways /= 2.0
    tail: Floats = np.minimum(np.cumsum(ways), 1.0)
    return tail


@lru_cache(maxsize=64)
def _rank_sum(n: int, m: int) -> Floats:
    """P(Mann-Whitney's U <= u) of n and m values of one distribution, u from 0 to n m."""
    rows = [np.ones(1) for _ in range(m + 1)]
    for i in range(1, n + 1):
        row = [np.ones(1)]
        for j in range(1, m + 1):
            # The largest of i + j values is one of the first, and beats j others, or it is one of the second.
            ways = np.zeros(i * j + 1)
            ways[j:] += rows[j] * (i / (i + j))
            ways[: i * (j - 1) + 1] += row[j - 1] * (j / (i + j))
            row.append(ways)
        rows = row
    tail: Floats = np.minimum(np.cumsum(rows[m]), 1.0)
    return tail
