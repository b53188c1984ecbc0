"""The posterior of what cells of any run observed: the model and the sampler of a ladder, begun where cells tell.

A ladder varies the depth, so its rates are those of the slowest station. A sweep mostly has one request outstanding:
its times are sums, a wait and the bytes over a rate. So the sampler also begins with servers in which parts take what
reads and writes have in common, and other parts take what one of the two has on top.
"""

from __future__ import annotations

import numpy as np

from naslab.explain.coherent import coherent
from naslab.explain.hypotheses import AT, HIGH, LOW, NONE_BYTES, Array
from naslab.explain.inference import (
    DRAWN,
    Draw,
    Guess,
    Posterior,
    led,
    log_likelihood,
    seed_of,
)
from naslab.explain.rows import Rows
from naslab.explain.steps import SMALL_BYTES, SMALL_RECORD

PARTICLES = 400
GAIN_ERROR = 2.0
"""Nats by which runs may differ by chance."""
SWAPS = (
    ("link", "memory"),
    ("link", "window"),
    ("memory", "window"),
    ("delay_s", "server_s"),
    ("server_s", "request_s"),
)
ROUNDS = 4
"""Parts that often explain one rate alike, and how often they are tried in each other's place."""
NOISE = 0.03
MIN_EXTRA = 0.05
"""A wait, or a time per byte, that is longer than the common one by more than this share is longer."""


def fit(r: Rows, runs: int = 1, count: int = PARTICLES) -> Posterior:
    """The posterior; several runs are weighed by how well the best server of each explains the rows."""
    rng = np.random.default_rng(seed_of(r))
    made = [_sampled(r, rng, count) for _ in range(runs)]
    best = np.array([float(log_likelihood(theta, r).max()) for theta in made])
    share = np.exp((best - best.max()) / GAIN_ERROR)
    share = share / share.sum()
    weight = np.concatenate([np.full(count, each / count) for each in share])
    return Posterior(np.concatenate(made), weight, np.repeat(np.arange(runs), count), best)


def _sampled(r: Rows, rng: Draw, count: int) -> Array:
    guess = Guess(r)
    theta = guess.draw(DRAWN * count, rng)
    third = len(theta) // 3
    theta[:third] = coherent(theta[:third], r, rng)
    theta[third : 2 * third] = alone(theta[third : 2 * third], r, rng)
    theta = led(r, rng, guess, theta, count)
    return _swapped(theta, r, rng)


def _swapped(theta: Array, r: Rows, rng: Draw) -> Array:
    """The particles after parts that explain the same have changed places as often as the likelihood allows."""
    like = log_likelihood(theta, r)
    for one, two in SWAPS * ROUNDS:
        new = theta.copy()
        new[:, [AT[one], AT[two]]] = theta[:, [AT[two], AT[one]]]
        inside = np.asarray(((new >= LOW) & (new <= HIGH)).all(axis=1), np.bool_)
        tried = log_likelihood(np.where(inside[:, None], new, theta), r)
        take = inside & (np.log(rng.random(len(theta))) < tried - like)
        theta, like = np.where(take[:, None], new, theta), np.where(take, tried, like)
    return theta


def alone(theta: Array, r: Rows, rng: Draw) -> Array:
    """The same particles, made into servers whose parts add up to the times of single requests."""
    lines = {op: line for op in (True, False) if (line := _line(r, op)) is not None}
    if not lines:
        return theta
    made, count = theta.copy(), len(theta)

    def about(value: float) -> Array:
        return np.asarray(np.log(max(value, 1e-15)) + NOISE * rng.standard_normal(count))

    wait, byte = (min(line[at] for line in lines.values()) for at in (0, 1))
    for name in ("memory", "window", "disk_read", "disk_write"):
        made[:, AT[name]] = np.log(20 / max(byte, 1e-12)) + 3 * rng.random(count)
    for name in ("server_s", "request_s", "seek_s", "commit_s"):
        made[:, AT[name]] = np.log(max(wait, 1e-6)) - 1.5 - 4 * rng.random(count)
    made[:, AT["fetch"]] = np.log(SMALL_RECORD)
    for name in ("uplink_ratio", "copy_ratio"):
        made[:, AT[name]] = 0.01 * rng.standard_normal(count)
    made[:, AT["overlap"]] = np.log(3e-3) + 2 * rng.random(count)
    _one_of(made, ("link", "memory", "window"), (0.5, 0.35, 0.15), -about(byte), rng)
    _one_of(made, ("delay_s", "server_s"), (0.7, 0.3), about(wait), rng)
    sets = np.unique(r.size[r.size > SMALL_BYTES])
    ends = np.append(np.log(sets) - 0.2, HIGH[AT["cache"]] - 1.0)
    made[:, AT["cache"]] = rng.choice(ends, count) + 0.2 * rng.standard_normal(count)
    for read, line in lines.items():
        extra = line[1] - byte if line[1] > (1 + MIN_EXTRA) * byte else 0.0
        more = line[0] - wait if line[0] > (1 + MIN_EXTRA) * wait else 0.0
        if not extra and not more:
            continue
        at_disk = rng.random(count) < 0.7
        made[at_disk, AT["cache" if read else "write_back"]] = np.log(NONE_BYTES)
        if extra:
            disk = AT["disk_read" if read else "disk_write"]
            made[at_disk, disk] = -about(extra)[at_disk]
            made[~at_disk, AT["memory"]] = -about(extra)[~at_disk]
        if more:
            made[:, AT["seek_s" if read else "commit_s"]] = about(more)
    return np.clip(made, LOW + 1e-6, HIGH - 1e-6)


def _one_of(made: Array, names: tuple[str, ...], often: tuple[float, ...], value: Array, rng: Draw) -> None:
    """One of these parts has this value."""
    chosen = rng.choice(len(names), len(made), p=often)
    for at, name in enumerate(names):
        made[chosen == at, AT[name]] = value[chosen == at]


def _line(r: Rows, read: bool) -> tuple[float, float] | None:
    """(wait, time per byte) of single requests of the smallest files by least squares; None from one record size."""
    mine = (r.read == read) & ~r.null & (r.depth * r.workers == 1) & (r.count > 1)
    if read:
        mine &= r.size <= max(SMALL_BYTES, r.size[mine].min()) if mine.any() else mine
    else:
        mine &= r.whole if (mine & r.whole).any() else mine
    records, times = r.record[mine], np.exp(-r.seen[mine])
    if len(np.unique(records)) < 2:
        return None
    weight = 1 / times
    table = np.stack([np.ones(len(records)), records], axis=1) * weight[:, None]
    (wait, byte), *_ = np.linalg.lstsq(table, np.ones(len(records)), rcond=None)
    return max(float(wait), 1e-6), max(float(byte), 1e-12)
