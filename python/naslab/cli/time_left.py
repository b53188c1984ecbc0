"""How long a run will still take: an upper bound that is never taken back, as plain arithmetic without a clock.

People plan by the figure that they read first. So no figure is more than a tenth above any that was shown before, none
is 0 while work remains, and where the work lasts longer than was said, no figure is shown rather than a wrong one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from naslab.units import duration_text

GROWS = 1.1
"""A figure may be so many times the smallest that was shown."""
EARLY_SHARE = 0.02
"""Of the work: before so much is done nobody knows how long the rest takes."""
CAREFUL = 1.25
"""The rest may be so many times as slow as what was done."""
SECONDS_BELOW = 60
"""Figures are in whole seconds below this, above it in steps of five."""
TAIL_SHARE, TAIL_S = 0.05, 10.0
"""Of the budget, and seconds: what a run takes beyond it at most, for the step under way and for the fitted model."""
LAST_S = 5
"""The last figure while work remains: `less than 5 s left`."""
MOST_SHARE = 0.99
"""Of the work that is shown as done while some remains."""


@dataclass
class TimeLeft:
    """Of one run. budget_s: what it may take; None where nothing bounds it. planned: all its work is known from the
    start, so that what was done tells how long the rest takes.
    """

    budget_s: float | None = None
    planned: bool = True
    _least: int | None = field(default=None, init=False)

    def left_s(self, elapsed_s: float, share: float) -> int | None:
        """Seconds at most; None where there is no bound that holds. share: of the work, 0 to 1, that is done."""
        bound = self._bound(elapsed_s, share)
        if bound is None:
            return None
        shown = math.ceil(bound) if bound < SECONDS_BELOW else math.ceil(bound / 5) * 5
        shown = max(shown, LAST_S)
        if self._least is not None and shown > GROWS * self._least:
            return None
        self._least = shown if self._least is None else min(self._least, shown)
        return shown

    def _bound(self, elapsed_s: float, share: float) -> float | None:
        by_work = CAREFUL * elapsed_s * (1 - share) / share if self.planned and EARLY_SHARE < share <= 1 else None
        if self.budget_s is None:
            return by_work
        by_budget = self.budget_s * (1 + TAIL_SHARE) + TAIL_S - elapsed_s
        if by_budget <= 0:
            return None
        return by_budget if by_work is None else min(by_budget, by_work)

    def text(self, elapsed_s: float, share: float) -> str:
        """`at most 4 min 10 s left`, `less than 5 s left`, `longer than planned`; empty where nothing is known."""
        left = self.left_s(elapsed_s, share)
        if left is None:
            return "" if self.budget_s is None or elapsed_s < self.budget_s else "longer than planned"
        if left <= LAST_S:
            return f"less than {LAST_S} s left"
        return f"{'about' if self.budget_s is None else 'at most'} {duration_text(left * 1e9)} left"

    def share(self, elapsed_s: float, share: float) -> float:
        """Of the whole that is done, for a bar: of the budget where not all work is planned. Never 1."""
        part = share if self.planned or not self.budget_s else elapsed_s / self.budget_s
        return min(max(part, 0.0), MOST_SHARE)
