"""A server's share of a processor, searched on this machine so that a test comes out at a wanted rate.

Which share limits a server at a rate differs from machine to machine, and an article's limit is a rate. The share is
searched once, before the first repeat, and then planted in all systems of the experiment that have a share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from naslab.analysis.quantities import Quantity, read
from naslab.errors import TargetError
from naslab.units import percent_text

CLOSE = 0.03
"""The search ends within so much of the wanted rate."""
STEPS = 6
LEAST, MOST = 0.01, 1.0


@dataclass(frozen=True)
class Tune:
    """What is searched. system: the one it is done on. of: the number that must come to `wanted`, bytes per second."""

    system: str
    of: Quantity
    wanted: float


@dataclass(frozen=True)
class Tuned:
    """What was found: a share of a processor, and the rate that it gave in bytes per second."""

    share: float
    rate: float
    wanted: float

    def words(self) -> str:
        """For the report."""
        return (
            f"calibrated on this machine: with {percent_text(self.share, 1)} of a processor the server reached "
            f"{self.rate / 1e6:.1f} MB/s, and {self.wanted / 1e6:.1f} were wanted; all systems with a share of a "
            "processor use this one"
        )


def search(first: float, wanted: float, measure: Callable[[float], float]) -> Tuned:
    """The share whose rate comes nearest to the wanted one.

    first: where the search begins. measure: the rate at a share, which rises with it, about in proportion.
    """
    share, best = min(max(first, LEAST), MOST), None
    for _ in range(STEPS):
        rate = measure(share)
        if best is None or abs(rate / wanted - 1) < abs(best.rate / wanted - 1):
            best = Tuned(share, rate, wanted)
        following = min(max(share * wanted / rate, LEAST), MOST)
        if abs(rate / wanted - 1) <= CLOSE or following == share:
            break
        share = following
    assert best is not None
    return best


def rate_of(of: Quantity, document: Mapping[str, Any]) -> float:
    """The number of a run. Raises TargetError where it has none."""
    found = read(of, document)
    if found is None or found <= 0:
        raise TargetError("the calibration's test had no result")
    return found
