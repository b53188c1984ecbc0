"""Whether a server with another limit explains the rows as well: the limits of a posterior, challenged.

How much of the sampler's particles lie in each of several explanations is left to chance; how well the best of each
explains the rows is not. So for each limit that would be called nearly sure, servers are sought in which it is well
above the lowest. How near the best of them comes bounds what is said (`verdict`); one that explains more than all
particles shows that the sampler missed it, and is taken over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from naslab import _engine
from naslab.explain.ceilings import BUSY_DEPTH, CLASSES, REACH_BYTES, ceilings, charge_of
from naslab.explain.compiled import limited_by
from naslab.explain.hypotheses import Array, one_way, switched_on, uncached
from naslab.explain.inference import (
    LEARNED,
    PARTICLES,
    RUNS,
    Posterior,
    infer,
    log_likelihood,
    noisier,
    seed_of,
    sought,
    taken_over,
)
from naslab.explain.rivals import exchanged
from naslab.explain.rows import Rows
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD

CLOSE = 1.1
"""Ceilings within this factor are both named."""
CHALLENGED = 0.85
"""Share of the particles from which on a limit is challenged: below it, it is not called certain."""
ROUNDS = 2
"""Times that a posterior is challenged anew after it took something over."""
RIVALS, RIVAL_EXCLUDED, FORBIDDEN = 160, 4.0, 60.0
"""Particles of a search for other explanations; nats of the likelihood by which the best of them is excluded; nats that
the one which is doubted costs in it."""


def thorough(r: Rows, runs: int = RUNS, count: int = PARTICLES) -> Posterior:
    """`infer`, and where that takes all its runs, what challenging its limits finds."""
    posterior = infer(r, runs, count)
    return challenged(r, posterior) if runs >= RUNS else posterior


def challenged(r: Rows, posterior: Posterior) -> Posterior:
    """The posterior with the best that other limits can explain (`Posterior.rivals`), taken over where it is better."""
    r = noisier(r, posterior.noise)
    for _ in range(ROUNDS):
        found = {(op, size, first): rivals(r, posterior, first, op, size) for op, size, first in _sure(r, posterior)}
        best = log_likelihood(posterior.theta, r).max()
        better = [
            theta for theta, _ in found.values() if len(theta) and log_likelihood(theta, r).max() > best + LEARNED
        ]
        if not better:
            likes = {where: like for where, (_, like) in found.items()}
            return dataclasses.replace(posterior, rivals=likes)
        posterior = taken_over(r, posterior, np.concatenate(better))
    return posterior


def _sure(r: Rows, posterior: Posterior) -> Iterator[tuple[str, str, str]]:
    """Kinds of I/O with a limit that most of the particles have: (operation, size, limit)."""
    for op, size in CLASSES:
        if not r.tells(op):
            continue
        table = ceilings(posterior.theta, r, op, size)
        lowest = np.array(list(table.values())).argmin(0)
        for at, name in enumerate(table):
            if name != "unknown" and posterior.share(lowest == at) >= CHALLENGED:
                yield op, size, name


def rivals(r: Rows, posterior: Posterior, first: str, op: str, size: str) -> tuple[Array, float]:
    """(what a search found, log likelihood of the best server that is not limited by `first`).

    Nothing is searched where a particle of the posterior explains the rows so nearly as well that `first` is in doubt.
    Credit that was not spent explains everything, and is left to its prior.
    """
    forbidden = forbidden_of(r, first, op, size)

    def masked(theta: Array, likes: Array) -> Array:
        near = limited_by(theta, r, forbidden)
        return np.asarray(likes - FORBIDDEN * (near | switched_on(theta, "bucket_on")))

    likes = fairly(posterior.theta, r)
    best = float(masked(posterior.theta, likes).max())
    if float(likes.max()) - best < RIVAL_EXCLUDED:
        return posterior.theta[:0], best
    rng = np.random.default_rng(seed_of(r) + CLASSES.index((op, size)))
    plain = posterior.theta[posterior.run == 0]
    found = sought(r, rng, exchanged(plain, r, rng), RIVALS, forbidden)
    likes = masked(found, fairly(found, r))
    return found[likes > likes.max() - FORBIDDEN / 2], max(best, float(likes.max()))


def fairly(theta: Array, r: Rows) -> Array:
    """The likelihood, where a server without a cache and a link shaped one way count as much as others: only data
    exclude them."""
    return np.asarray(log_likelihood(theta, r) + uncached(theta) + one_way(theta))


def forbidden_of(r: Rows, kind: str, op: str, size: str) -> _engine.Forbidden:
    """That a kind of limit is at most `CLOSE` above the lowest ceiling of servers without a bucket; see `ceilings`."""
    record = float(LARGE_RECORD if size == "large" else SMALL_RECORD)
    return _engine.Forbidden(
        kind, CLOSE, FORBIDDEN, op == "read", size == "large", record, charge_of(r, record),
        max(r.max_set_bytes, REACH_BYTES), float(r.granted_depth), float(BUSY_DEPTH),
    )  # fmt: skip
