"""The next experiment: what each would tell of the limits that are still open, by second.

An experiment is a few rows that a ladder could add. What each particle of the posterior predicts for them, and which
limit it names for each kind of I/O, gives the expected information: how much the log probability of the true limit
would rise, in nats, were the outcome known (mutual information between limit and outcome; Cavagnaro, Myung and Pitt
2009). The particle that stands for the truth is left out of its own judgement, and what few others like it say counts
little, so that outcomes which differ in nothing but the noise are not taken for news.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from naslab.explain.ceilings import CLASSES, ceilings
from naslab.explain.compiled import predicted
from naslab.explain.hypotheses import Array
from naslab.explain.inference import MODEL_ERROR, Posterior, seed_of
from naslab.explain.rows import Rows
from naslab.explain.steps import SMALL_BYTES
from naslab.explain.verdict import STRANGE_STALL, WIRE_FRACTION
from naslab.spec import CellSpec

if TYPE_CHECKING:
    from naslab.explain.menu import Experiment

Where = tuple[str, str]
PARTICLES = 160
"""Particles that predict."""
MEASURED = 0.03
"""Half of the interval that a cell's rate usually has."""
MIN_NATS, MIN_WORTH = 0.04, 0.004
"""An experiment that tells less, in all or by second, is not made."""
DRIFT = 0.02
"""Gain that the estimate shows of its own accord."""
OVERHEAD_S = 0.5
"""Of a cell: opening, planning."""
SLACK = 1.0
"""So many particles' worth of what was known before is mixed into every judgement."""
NEAREST = 0.05
"""Least width of what counts as the same outcome, of a log rate."""


@dataclass(frozen=True)
class Planned:
    """One rate that an experiment would measure.

    seconds: how long it is timed at most; moved: bytes after which it ends (0: none). beside: it runs with the one
    before it. pause_s: since what was before.
    """

    op: str
    record: int
    depth: int
    workers: int = 1
    files: int = 1
    size: int = SMALL_BYTES
    random: bool = False
    durability: str = "none"
    seconds: float | None = None
    moved: float = 0.0
    beside: bool = False
    pause_s: float = 0.0


def planned_of(cell: CellSpec) -> list[Planned]:
    """The rates that a cell would measure: one, or those of a reader beside writers."""
    seconds = None if cell.duration_ns is None else cell.duration_ns / 1e9
    beside = cell.op == "mixed"
    made = Planned(
        "write" if cell.writes() and not beside else "read", cell.record_bytes, cell.queue_depth,
        1 if beside else cell.workers, len(cell.files), cell.file_bytes, cell.pattern == "random",
        str(cell.durability), seconds, float(cell.stop_bytes or 0),
    )  # fmt: skip
    return [made, dataclasses.replace(made, op="write", beside=True)] if beside else [made]


@dataclass(frozen=True)
class Outlook:
    """What an experiment is expected to tell. nats: by kind of I/O."""

    seconds: float
    nats: Mapping[Where, float]


def best_of(menu: Sequence[Experiment], posterior: Posterior, r: Rows, left_s: float) -> Experiment | None:
    """The experiment that is expected to tell most by second; None where none is worth its time, or none has it."""
    rng = np.random.default_rng(seed_of(r))
    theta = posterior.theta[rng.choice(len(posterior.theta), PARTICLES, p=posterior.weight / posterior.weight.sum())]
    best, most = None, 0.0
    names = {where: limits_of(theta, r, *where) for where in CLASSES if is_open(r, *where)}
    for each in menu:
        for planned in each.planned:
            seen = outlook(theta, r, planned, rng, names)
            seconds = seen.seconds + each.setup_s
            nats = sum(max(gain - DRIFT, 0.0) for gain in seen.nats.values())
            worth = nats / (seconds + OVERHEAD_S)
            if seconds <= left_s and nats >= MIN_NATS and worth >= MIN_WORTH and worth > most:
                best, most = each, worth
    return best


def is_open(r: Rows, op: str, size: str) -> bool:
    """Whether anything may be learnt of a kind of I/O: what a client's cache answers, and what stops, is known."""
    behind_cache = op == "read" and r.wire_fraction < WIRE_FRACTION
    return not behind_cache and r.stopped(op, size) < STRANGE_STALL


def outlook(
    theta: Array,
    r: Rows,
    planned: Sequence[Planned],
    rng: np.random.Generator,
    names: Mapping[Where, NDArray[np.int64]],
) -> Outlook:
    """Of one experiment, by particles of equal weight (at most some hundred). names: the limit that each names."""
    rows, fresh = extended(r, planned)
    for _ in range(2):
        rates = predicted(theta, rows)[:, fresh]
        rows = _timed(rows, fresh, planned, np.exp(np.median(rates, axis=0)))
    odds = _odds(rates, rng)
    nats = {where: _gain(odds, label) for where, label in names.items()}
    return Outlook(_seconds(rows, fresh, planned), nats)


def extended(r: Rows, planned: Sequence[Planned]) -> tuple[Rows, NDArray[np.int64]]:
    """A ladder's rows with those of an experiment behind them, and where these are."""
    first = len(r)
    at = np.arange(first, first + len(planned))
    pair = np.full(len(planned), -1)
    for k, each in enumerate(planned):
        if each.beside:
            pair[k - 1], pair[k] = at[k], at[k - 1]
    column = {
        "read": [p.op == "read" for p in planned], "durable": [p.durability == "each" for p in planned],
        "random": [p.random for p in planned], "null": [False] * len(planned),
        "whole": [p.durability == "end" for p in planned], "late": [False] * len(planned),
        "record": [float(p.record) for p in planned], "depth": [float(p.depth) for p in planned],
        "workers": [float(p.workers) for p in planned], "files": [float(p.files) for p in planned],
        "size": [float(p.size) for p in planned], "start": [0.0] * len(planned),
        "seconds": [p.seconds or 1.0 for p in planned], "pair": pair, "moved": [p.moved for p in planned],
        "count": [100.0] * len(planned), "weight": [1.0] * len(planned), "seen": [0.0] * len(planned),
        "sigma": [MEASURED] * len(planned), "client_s": [np.nan] * len(planned), "cell": [-1] * len(planned),
    }  # fmt: skip
    joined: dict[str, Any] = {
        name: np.concatenate((getattr(r, name), np.asarray(value, getattr(r, name).dtype)))
        for name, value in column.items()
    }
    rows = dataclasses.replace(
        r, **joined, step=[*r.step, *["planned"] * len(planned)], order=np.append(r.order, at),
    )  # fmt: skip
    return rows, at


def _timed(rows: Rows, fresh: NDArray[np.int64], planned: Sequence[Planned], rates: Array) -> Rows:
    """The rows with times and bytes by their expected rates, in operations per second."""
    old = len(rows) - len(planned)
    clock = float((rows.start + rows.seconds)[:old].max(initial=0.0))
    start, seconds, moved, count = (getattr(rows, n).copy() for n in ("start", "seconds", "moved", "count"))
    for at, each, rate in zip(fresh, planned, rates, strict=True):
        if each.beside:
            seconds[at], start[at] = seconds[at - 1], start[at - 1]
        else:
            whole = each.moved / each.record / rate if each.moved else np.inf
            seconds[at] = min(each.seconds or np.inf, whole)
            start[at] = clock + each.pause_s
        clock = start[at] + seconds[at]
        moved[at] = rate * each.record * seconds[at]
        count[at] = max(rate * seconds[at], 1.0)
    return dataclasses.replace(rows, start=start, seconds=seconds, moved=moved, count=count)


def _seconds(rows: Rows, fresh: NDArray[np.int64], planned: Sequence[Planned]) -> float:
    timed = zip(fresh, planned, strict=True)
    return float(sum(rows.seconds[at] + each.pause_s for at, each in timed if not each.beside))


def likeliest(posterior: Posterior, r: Rows) -> list[str]:
    """The likeliest limit of each kind of I/O."""
    found = []
    for where in CLASSES:
        kinds = list(ceilings(posterior.theta, r, *where))
        share = np.bincount(limits_of(posterior.theta, r, *where), posterior.weight, len(kinds))
        found.append(kinds[int(share.argmax())])
    return found


def limits_of(theta: Array, r: Rows, op: str, size: str) -> NDArray[np.int64]:
    """The limit that each particle names."""
    return np.asarray(np.array(list(ceilings(theta, r, op, size).values())).argmin(0))


def _odds(rates: Array, rng: np.random.Generator) -> Array:
    """(truth, particle): how much each particle counts once the outcome of another one was measured; 0 for itself."""
    count, rows = rates.shape
    noise = np.hypot(MODEL_ERROR, MEASURED)
    spread = np.minimum(rates.std(0), 0.5)
    width = np.hypot(noise, np.maximum(NEAREST, spread * count ** (-1 / (rows + 4))))
    seen = rates + noise * rng.standard_normal(rates.shape)
    off = ((seen[:, None, :] - rates[None, :, :]) / width) ** 2
    log = -0.5 * off.sum(2)
    np.fill_diagonal(log, -np.inf)
    odds = np.exp(log - log.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


def _gain(odds: Array, label: NDArray[np.int64]) -> float:
    """Expected gain of the log probability of the true limit, in nats."""
    same = label[:, None] == label[None, :]
    before = (same.sum(1) - 1 + 0.5) / (len(label) - 1 + 1.0)
    others = 1 / (odds**2).sum(1)
    after = ((odds * same).sum(1) * others + SLACK * before) / (others + SLACK)
    return float(np.mean(np.log(after / before)))
