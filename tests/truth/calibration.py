"""Are probabilities kept? Of statements made at 0.8, eight of ten have to be true.

Brier, G. W. (1950), Verification of forecasts expressed in terms of probability; the reliability table after Murphy and
Winkler (1977); the expected calibration error after Naeini, Cooper and Hauskrecht (2015): the mean over all statements
of how far the share of true ones in a bin lies from the mean probability that was stated there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

CERTAIN = 0.9
"""A statement of this probability or more that is wrong is the worst that can happen."""
BINS = 10


@dataclass(frozen=True)
class Claim:
    """A limit that was named first: with what probability, and whether it is one."""

    probability: float
    right: bool


@dataclass(frozen=True)
class Bin:
    """Statements of about one probability. stated: their mean; true: the share that is."""

    low: float
    high: float
    count: int
    stated: float
    true: float


def reliability(claims: Sequence[Claim], bins: int = BINS) -> list[Bin]:
    """The bins that hold statements."""
    table = []
    for at in range(bins):
        inside = [c for c in claims if min(int(c.probability * bins), bins - 1) == at]
        if inside:
            stated = sum(c.probability for c in inside) / len(inside)
            true = sum(c.right for c in inside) / len(inside)
            table.append(Bin(at / bins, (at + 1) / bins, len(inside), stated, true))
    return table


def calibration_error(claims: Sequence[Claim]) -> float:
    """0 where every share of true statements is what was stated; 0 of none."""
    off = sum(each.count * abs(each.stated - each.true) for each in reliability(claims))
    return off / len(claims) if claims else 0.0


def brier(claims: Sequence[Claim]) -> float:
    """Mean square of what was stated less what is: 0 is perfect, 0.25 a coin."""
    return sum((c.probability - c.right) ** 2 for c in claims) / len(claims) if claims else 0.0


def certain(claims: Sequence[Claim]) -> tuple[int, int]:
    """(wrong, all) of the statements made with certainty."""
    sure = [c for c in claims if c.probability >= CERTAIN]
    return sum(not c.right for c in sure), len(sure)


EDGE = 0.02
"""Probabilities are fitted no nearer to 0 and 1."""
TURNS, SHRINK = 50, 0.5
"""Newton's steps, and the weight of a penalty that keeps a fit to few claims finite."""


def _logit(probability: float, anchor: float) -> float:
    inside = min(max(probability, EDGE), 1 - EDGE)
    return math.log(inside / (1 - inside)) - anchor


def logistic(claims: Sequence[Claim], anchor: float) -> tuple[float, float]:
    """Logits of what is true as offset + slope * (logit of what was stated - anchor), by maximum likelihood."""
    x = np.array([[1.0, _logit(claim.probability, anchor)] for claim in claims])
    y = np.array([float(claim.right) for claim in claims])
    fitted = np.zeros(2)
    for _ in range(TURNS):
        p = 1 / (1 + np.exp(-x @ fitted))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + SHRINK * np.eye(2)
        fitted += np.linalg.solve(curvature, x.T @ (y - p) - SHRINK * fitted)
    return float(fitted[0]), float(fitted[1])


def matrix(said: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """The confusion matrix of (planted, named first): by planted kind how often each was named."""
    table: dict[str, dict[str, int]] = {}
    for planted, named in said:
        row = table.setdefault(planted, {})
        row[named] = row.get(named, 0) + 1
    return table


def text(claims: Sequence[Claim]) -> list[str]:
    """The reliability table in words."""
    return [
        f"stated {each.low:.1f} to {each.high:.1f}: {each.count}, on average {each.stated:.2f}, true {each.true:.2f}"
        for each in reliability(claims)
    ]
