"""p values of many tests at once: so that one of hundred cells is not called different by chance.

Holm keeps the chance of any false call below the level, for the few numbers of one comparison. Benjamini and Hochberg
keep the share of false calls among the calls below it, for the hundreds of cells of a surface.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(ps: Sequence[float]) -> list[float]:
    """p values adjusted over their family, in the order given. Source: Holm 1979."""
    adjusted, worst = [0.0] * len(ps), 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        worst = max(worst, min(ps[at] * (len(ps) - rank), 1.0))
        adjusted[at] = worst
    return adjusted


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """p values adjusted over their family, in the order given. Source: Benjamini & Hochberg 1995.

    Holds for independent tests and for those that positively depend on each other, as cells of one block do.
    """
    adjusted, least = [0.0] * len(ps), 1.0
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    for rank in range(len(order), 0, -1):
        at = order[rank - 1]
        least = min(least, ps[at] * len(ps) / rank)
        adjusted[at] = least
    return adjusted
