"""A server on the client's own machine, known by the processor time that others use as bytes and operations move.

What a server's processor works for an operation is a lower bound of how long the operation keeps it, whatever rations
that processor. Interrupts are not in this time, so that a network adapter's work counts for nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.series import NS_PER_S
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD

if TYPE_CHECKING:
    from naslab.explain.points import Point

Array = NDArray[np.float64]
LEAST_NS = 150_000_000
"""Processor time is counted in ticks of 10 ms: shorter loads show too few."""
LEAST_LOADS = 6
LEAST_CORES = 0.25
"""Processors that the busiest load costs others at least where a server is among them."""
NOISE = 0.5
"""Share of that from which on what the fit leaves unexplained is too much."""
QUIET, KNOWN_LOADS, AS_WELL = 0.5, 20.0, 1.25
"""A machine was idle before the loads where others used less than so many processors. That it was is worth so many
loads of a second, and is what others use anyway if the fit then leaves at most so much more unexplained: programs that
begin to work with the first load, and are no server, are rarer than that."""
ERRORS = 2.0
"""Standard errors by which a cost is told smaller than it was fitted: it is a lower bound."""


def server_times(points: Sequence[Point], before_cores: float | None = None) -> tuple[tuple[float, float], ...]:
    """(bytes of an operation, seconds of others' processors that it costs) of small and large operations.

    Empty where others' time does not follow the load: the server is somewhere else. By least squares with no negative
    cost: others = base + operations * a + bytes * b. What others use anyway is the base: what they used before the
    first load (before_cores), unless that leaves much more unexplained than a base of any size.
    """
    timed = [p for p in points if p.end_ns - p.start_ns >= LEAST_NS and p.clients == 1 and p.rate.value > 0]
    if len(timed) < LEAST_LOADS or not any(p.others > 0 for p in timed):
        return ()
    rates = np.array([[1.0, p.rate.value / p.record_bytes, p.rate.value] for p in timed])
    others = np.array([p.others for p in timed])
    weight = np.sqrt([min((p.end_ns - p.start_ns) / NS_PER_S, 1.0) for p in timed])
    costs, variance, left = _fitted(rates, others, weight, before_cores)
    made = rates[:, 1:] @ costs[1:]
    if made.max() < LEAST_CORES or left > NOISE * made.max():
        return ()
    found = []
    for size in (SMALL_RECORD, LARGE_RECORD):
        of = np.array([0.0, 1.0, size])
        seconds = float(of @ costs - ERRORS * np.sqrt(of @ variance @ of))
        found += [(float(size), seconds)] if seconds > 0 else []
    return tuple(found)


def _fitted(rates: Array, others: Array, weight: Array, before_cores: float | None) -> tuple[Array, Array, float]:
    """(costs with the base first, their variance matrix, what is left unexplained)."""
    costs, variance = _least_squares(rates, others, weight)
    left = _unexplained(rates @ costs, others, weight)
    if before_cores is None or before_cores >= QUIET:
        return costs, variance, left
    idle = np.array([[1.0, 0.0, 0.0]]), np.array([before_cores]), np.array([np.sqrt(KNOWN_LOADS)])
    with_idle = [np.concatenate(each) for each in zip((rates, others, weight), idle, strict=True)]
    known, its_variance = _least_squares(*with_idle)
    its_left = _unexplained(rates @ known, others, weight)
    return (known, its_variance, its_left) if its_left <= AS_WELL * left else (costs, variance, left)


def _unexplained(made: Array, others: Array, weight: Array) -> float:
    """Processors that a fit is off by, on average."""
    return float(np.sqrt(np.average((others - made) ** 2, weights=weight**2)))


def _least_squares(columns: Array, wanted: Array, weight: Array) -> tuple[Array, Array]:
    """(coefficients that are not negative, their variance matrix): the best of all subsets of the columns."""
    best, found, variance = np.inf, np.zeros(columns.shape[1]), np.zeros((columns.shape[1],) * 2)
    scale = columns.max(0)
    scaled, target = columns / scale * weight[:, None], wanted * weight
    places = range(columns.shape[1])
    for some in itertools.chain.from_iterable(itertools.combinations(places, n) for n in range(1, len(scale) + 1)):
        fit: Any = np.linalg.lstsq(scaled[:, some], target, rcond=None)[0]
        error = float(np.sum((scaled[:, some] @ fit - target) ** 2))
        if (fit >= 0).all() and error < best:
            best, found, variance = error, np.zeros(len(scale)), np.zeros_like(variance)
            found[list(some)] = fit
            spread = error / max(len(wanted) - len(some), 1)
            variance[np.ix_(some, some)] = spread * np.linalg.pinv(scaled[:, some].T @ scaled[:, some])
    return found / scale, variance / np.outer(scale, scale)
