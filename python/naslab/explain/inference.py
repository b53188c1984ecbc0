"""The posterior of the model's parameters: tempered sequential Monte Carlo, several runs pooled by their evidence.

Particles are drawn from a guess around what was measured and led to the posterior in steps (Del Moral, Doucet and
Jasra 2006), moved by differential evolution (ter Braak 2006), by exchanging explanations, by fresh draws of
parameters that belong together, and by crossing: of two particles one may be right about the network and the other
about the disks (Liang and Wong 2001). One run can settle on one of several explanations, so `RUNS` of them are made;
what they found is mixed, heated up and led to the posterior once more. Optional stations (a lock, a token bucket) are
structures of their own, weighed by evidence and prior.
The seed is that of the data, so one document always gives one answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from naslab.explain.coherent import coherent
from naslab.explain.forward import predict, values_of
from naslab.explain.hypotheses import AT, HIGH, LOW, NONE_BYTES, SWITCHES, Array, Values, log_prior, log_usual
from naslab.explain.rows import Rows
from naslab.explain.steps import SMALL_BYTES, SMALL_RECORD

MODEL_ERROR = 0.04
"""Standard deviation of the model's own error, of a log rate."""
FREEDOM = 4.0
"""Degrees of freedom of Student's t: a row that nothing explains costs little."""
CLIENT_ERROR = 0.05
RUNS = 4
PARTICLES = 350
EVIDENCE_ERROR = 3.0
"""Two runs on the same data differ in their log evidence by several: differences count by so much less."""
OCCAM: Mapping[str, float] = {"bucket_on": 8.0, "lock_on": 3.0}
"""Nats that an optional station has to gain in likelihood before it is held to be there: two for each number of it,
about what numbers that come out within a tenth cost. The sampler's evidence misses much of what hard data gain: the
larger of both counts."""
GAIN_ERROR = 1.5
REHEATED = 0.2
"""What the runs found is led on from this power of the likelihood: low enough for their parts to be exchanged."""
MIXING_MOVES = 16
DRAWN = 6
"""So many times as many particles are drawn from the guess."""
KEPT = 0.6
"""Share of the particles that each step of the tempering leaves effective."""
MAX_STEPS, MOVES, LAST_MOVES = 120, 8, 30
BROAD, NEAR = 0.3, 0.08
"""The guess: the prior's share, and the width of its bumps at measured rates and times."""
GRID = 4000
"""Cells of the table of the guess's density, by parameter: the widest range is 17 in logarithms."""
MISFIT = 4.0
"""A row so many standard deviations off is not explained."""
HISTORY_MISFITS = 0.06
"""Share of such rows from which on rates may depend on what was moved before."""
LEARNED = 1.0
"""Nats by which an explanation has to be better to be taken over from another structure."""
SURPRISED, UPDATE_MOVES = 0.2, 8
"""Share of the particles that have to stay effective as rows are added; moves of each then."""
STRUCTURES = ("lock_on", "bucket_on")
"""Optional stations that are structures of their own; the other switches are a particle's."""
OFF, ON = np.log(1e-3) + 0.05, -0.05
Draw = np.random.Generator


def log_likelihood(theta: Array, r: Rows) -> Array:
    """By particle: Student's t on log rates, the client's own time per operation, and the priors' shape."""
    v = values_of(theta)
    z = (predict(v, r) - r.seen) / np.hypot(r.sigma, MODEL_ERROR)
    found = np.log1p(z * z / FREEDOM) @ (-(FREEDOM + 1) / 2 * r.weight) + _T * r.weight.sum()
    usual = log_usual(theta) if r.usual else 0.0
    return np.asarray(found + _client(v, r) + log_prior(theta) + usual)


_T = float(gammaln((FREEDOM + 1) / 2) - gammaln(FREEDOM / 2) - 0.5 * np.log(FREEDOM * np.pi))


def residuals(theta: Array, r: Rows) -> Array:
    """How far each row is from what the particles predict, in standard deviations; (particles, rows)."""
    return np.asarray((predict(values_of(theta), r) - r.seen) / np.hypot(r.sigma, MODEL_ERROR))


def _client(v: Values, r: Rows) -> Array:
    """The client's processor time is counted directly: thin tails."""
    told = np.isfinite(r.client_s) & (r.client_s > 0)
    found = np.zeros(len(v["client_s"]))
    for small in (True, False):
        mine = told & ((r.record <= SMALL_RECORD) == small)
        if not mine.any():
            continue
        seconds = v["client_s"] + v["client_byte_s"] * np.median(r.record[mine])
        z = (np.log(seconds[:, 0]) - np.log(np.median(r.client_s[mine]))) / CLIENT_ERROR
        found = found - np.minimum(z * z / 2, 60.0)
    return found


# The guess.


class Guess:
    """Where parameters may lie by what was measured: the prior, and bumps at measured rates and times."""

    def __init__(self, r: Rows, bucket: bool = False) -> None:
        self.rows = r
        rates, times = r.seen + np.log(r.record), -r.seen
        sizes = np.log(np.unique(r.size[r.size > SMALL_BYTES])) - 0.2
        near = {
            **dict.fromkeys(("link", "window", "memory", "disk_read", "disk_write", "base"), rates),
            **dict.fromkeys(("server_s", "request_s", "seek_s", "commit_s", "lock_s", "delay_s"), times),
            "cache": np.append(sizes, np.log(NONE_BYTES)), "write_back": np.log([NONE_BYTES, 1e7, 1e8, 1e9]),
            "uplink_ratio": _uplinks(r), "slots": np.log(np.array([1.0, 2, 4, 8, 16, 32, 64, 2000])),
            "server_lanes": np.full(1, 0.01),
        }  # fmt: skip
        near |= _client_guess(r)
        if r.usual:
            near |= {"memory": np.log([1e9, 3e9, 1e10, 3e10]), "window": np.log([1e10, 1e11, 1e12])}
        if bucket:
            near["burst"] = _falls(r)
        if r.burst and bucket:  # what the ladder's own look at fallen rates suggests
            base, burst, size = r.burst
            near |= {"base": np.log([base]), "burst": np.log([max(burst / base, 1.3)]),
                     "lasts_s": np.log([max(size / max(burst - base, 1.0), 1.0)])}  # fmt: skip
        self.bumps: dict[int, Array] = {}
        for name, found in near.items():
            at = AT[name]
            rounded = np.unique(np.round(found / NEAR)) * NEAR
            inside = rounded[(rounded >= LOW[at]) & (rounded <= HIGH[at])]
            if len(inside):
                self.bumps[at] = inside
        self._table = np.zeros((len(LOW), GRID + 1))
        for at, bumps in self.bumps.items():
            grid = np.linspace(LOW[at], HIGH[at], GRID + 1)[:, None]
            bell = np.exp(-0.5 * ((grid - bumps) / NEAR) ** 2).mean(1) / (NEAR * np.sqrt(2 * np.pi))
            # What a bump would draw beyond an end is drawn from the prior instead.
            beyond = 1 - (ndtr((HIGH[at] - bumps) / NEAR) - ndtr((LOW[at] - bumps) / NEAR)).mean()
            self._table[at] = np.log(BROAD + (1 - BROAD) * (beyond + bell * (HIGH - LOW)[at]))

    def draw(self, count: int, rng: Draw) -> Array:
        """Particles of the guess, (count, dims)."""
        theta = LOW + (HIGH - LOW) * rng.random((count, len(LOW)))
        for at, bumps in self.bumps.items():
            near = bumps[rng.integers(0, len(bumps), count)] + NEAR * rng.standard_normal(count)
            use = (rng.random(count) > BROAD) & (near > LOW[at]) & (near < HIGH[at])
            theta[use, at] = near[use]
        return np.asarray(theta)

    def start(self, count: int, rng: Draw, scout: bool) -> Array:
        """Particles to begin with: of the guess; half of a scout's are whole explanations."""
        theta = self.draw(count, rng)
        if scout:
            theta[: count // 2] = coherent(theta[: count // 2], self.rows, rng)
        return theta

    def log_density(self, theta: Array) -> Array:
        """Log density of each parameter against its log-uniform prior's, (particles, dims)."""
        place = np.clip((theta - LOW) * (GRID / (HIGH - LOW)) + 0.5, 0, GRID).astype(np.int64)
        return np.asarray(self._table[np.arange(len(LOW)), place])


def _falls(r: Rows) -> Array:
    """By how much the rate of one load fell or rose again: log ratios of the fastest and the slowest of each kind."""
    kinds = np.stack([r.read, r.random, r.record, r.depth > 1, r.workers, r.durable], axis=1)
    apart = [np.ptp(r.seen[(kinds == kind).all(1)]) for kind in np.unique(kinds, axis=0)]
    return np.array([each for each in apart if each > np.log(1.3)])


def _uplinks(r: Rows) -> Array:
    """Ratios of the link's two rates: one, and those of the fastest writes and reads to each other."""
    moved = r.seen + np.log(r.record)
    reads, writes = moved[r.read & ~r.null], moved[~r.read]
    return np.append(0.0, [writes.max() - reads.max()] if len(reads) and len(writes) else [])


def _client_guess(r: Rows) -> dict[str, Array]:
    told = np.isfinite(r.client_s) & (r.client_s > 0)
    small, large = told & (r.record <= SMALL_RECORD), told & (r.record > SMALL_RECORD)
    found = {}
    if small.any():
        found["client_s"] = np.log([np.median(r.client_s[small])])
    if large.any():
        each = np.median(r.client_s[large]) / np.median(r.record[large])
        found["client_byte_s"] = np.log([each, each / 3])
    return found


# The moves.

_RATES = [AT[n] for n in ("link", "window", "memory", "disk_read", "disk_write", "base")]
_EXCHANGES = (
    _RATES, _RATES, [AT[n] for n in ("server_s", "request_s", "seek_s", "commit_s", "lock_s")],
    [AT[n] for n in ("delay_s", "slow_s", "lock_s")],
)  # fmt: skip
_TOGETHER = tuple(
    [AT[n] for n in names.split()]
    for names in (
        "cache disk_read", "cache memory disk_read", "write_back disk_write", "write_back memory disk_write",
        "joins_on disk_write write_back",
        "window link", "link memory", "link uplink_ratio", "link uplink_ratio cache disk_read disk_write",
        "uplink_ratio disk_write write_back queue", "link uplink_ratio cache disk_read queue",
        "bucket_on base burst lasts_s scope",
        "bucket_on base burst lasts_s scope disk_read", "lock_on lock_s", "slow_on slow_s delay_s",
        "server_s request_s", "request_s seek_s disk_read", "commit_s seek_s disk_write", "server_s client_s",
        "cache disk_read seek_s request_s", "server_s server_lanes", "slots delay_s", "client_byte_s memory",
        "overlap sharpness", "memory uplink_ratio link",
    )
)  # fmt: skip


CYCLES = 0.4
"""Share of the exchanges that are of three."""
UNCACHED = 0.25
"""Share of the exchanges that are of a cache for none."""
_MEMORY_OR_DISK = ((AT["server_s"], AT["request_s"]), (AT["memory"], AT["disk_read"]))


def _propose(theta: Array, move: int, guess: Guess, rng: Draw) -> tuple[Array, Array]:
    """Particles to try, and the log ratio of the proposal's densities."""
    return (_evolved, _exchanged, _redrawn)[move % 3](theta, guess, rng)


def _evolved(theta: Array, guess: Guess, rng: Draw) -> tuple[Array, Array]:
    """Along the difference of two other particles."""
    del guess
    count, dims = theta.shape
    mask = rng.random((count, dims)) < rng.choice([0.08, 0.25, 0.6])
    mask[np.arange(count), rng.integers(0, dims, count)] = True
    scale = 2.38 / np.sqrt(2 * mask.sum(1, keepdims=True)) * rng.choice([0.3, 1.0, 1.0])
    apart = theta[rng.permutation(count)] - theta[rng.permutation(count)]
    return theta + mask * (scale * apart + 0.01 * rng.standard_normal((count, dims))), np.zeros(count)


def _exchanged(theta: Array, guess: Guess, rng: Draw) -> tuple[Array, Array]:
    """Two explanations of one rate change places, or three of two rates: link and window become memory and link."""
    if rng.random() < UNCACHED:
        return _uncached(theta, guess, rng)
    new, count = theta.copy(), len(theta)
    group = _EXCHANGES[rng.integers(len(_EXCHANGES))]
    places = rng.choice(group, 3 if rng.random() < CYCLES else 2, replace=False)
    new[:, places] = theta[:, np.roll(places, 1)]
    for name, often in (("cache", 0.5), ("write_back", 0.3), ("uplink_ratio", 0.2)):
        if rng.random() < often:
            at = AT[name]
            new[:, at] = LOW[at] + (HIGH - LOW)[at] * rng.random(count)
    return new, np.zeros(count)


def _uncached(theta: Array, guess: Guess, rng: Draw) -> tuple[Array, Array]:
    """What the server's memory and processor seemed to do, its disks do, or the other way round; sizes are drawn anew.

    A server without a cache differs from one with it in all of these at once, and no smaller move leads there.
    """
    new, count = theta.copy(), len(theta)
    for one, two in _MEMORY_OR_DISK:
        turn = rng.random(count) < 0.6
        new[turn, one], new[turn, two] = theta[turn, two], theta[turn, one]
    both = rng.random(count) < 0.3
    new[both, AT["disk_write"]] += new[both, AT["disk_read"]] - theta[both, AT["disk_read"]]
    mask = np.zeros(theta.shape, bool)
    mask[:, AT["cache"]] = rng.random(count) < 0.8
    mask[:, AT["write_back"]] = rng.random(count) < 0.3
    new = np.where(mask, guess.draw(count, rng), new)
    return new, ((guess.log_density(theta) - guess.log_density(new)) * mask).sum(1)


def _redrawn(theta: Array, guess: Guess, rng: Draw) -> tuple[Array, Array]:
    """One parameter, or a few that belong together, drawn anew from the guess."""
    count, dims = theta.shape
    mask = np.zeros((count, dims), bool)
    if rng.random() < 0.4:
        mask[np.arange(count), rng.integers(0, dims, count)] = True
    else:
        chosen = rng.integers(0, len(_TOGETHER), count)
        for at, group in enumerate(_TOGETHER):
            mask[np.ix_(chosen == at, group)] = True
    new = np.where(mask, guess.draw(count, rng), theta)
    return new, ((guess.log_density(theta) - guess.log_density(new)) * mask).sum(1)


_BLOCKS = tuple(
    [AT[n] for n in names.split()]
    for names in (
        "link uplink_ratio header window slots delay_s", "disk_read disk_write request_s seek_s commit_s cache",
        "disk_read disk_write request_s seek_s commit_s cache write_back overlap sharpness",
        "server_s server_lanes memory", "server_s request_s seek_s cache", "cache memory disk_read request_s seek_s",
        "write_back disk_write commit_s memory", "client_s client_byte_s", "link window uplink_ratio",
    )
)  # fmt: skip
"""What is said of one part of a server: two particles may be right about different parts."""


def _crossing(theta: Array, rng: Draw) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """Particles in pairs that have exchanged what they say of one part (Liang and Wong 2001): (all, the pairs)."""
    count, dims = theta.shape
    half = count // 2
    order = rng.permutation(count)
    one, two = order[:half], order[half : 2 * half]
    mask = rng.random((half, dims)) < rng.choice([0.1, 0.3, 0.5], (half, 1))
    chosen = rng.integers(0, 2 * len(_BLOCKS), half)
    for at, block in enumerate(_BLOCKS):
        mask[chosen == at] = False
        mask[np.ix_(chosen == at, block)] = True
    new = theta.copy()
    new[one], new[two] = np.where(mask, theta[two], theta[one]), np.where(mask, theta[one], theta[two])
    return new, one, two


# The sampler.


@dataclass
class _Cloud:
    """Particles with their log likelihood and their log density under the guess."""

    theta: Array
    like: Array
    drawn: Array

    def taken(self, at: NDArray[np.int64]) -> _Cloud:
        """These particles."""
        return _Cloud(self.theta[at], self.like[at], self.drawn[at])


def sample(
    r: Rows, rng: Draw, on: tuple[str, ...] = (), count: int = PARTICLES,
    likelihood: Callable[[Array, Rows], Array] = log_likelihood, scout: bool = False,
) -> tuple[Array, float]:  # fmt: skip
    """(particles of the posterior, log evidence) of a server with the optional stations `on` and no other.

    scout: it begins with whole explanations. What it finds counts by its likelihood alone, not by how much of it there
    is: how often each was begun with is no probability.
    """
    guess = Guess(r, "bucket_on" in on)
    held = _held(on)
    theta = guess.start(DRAWN * count, rng, scout)
    for at, value in held.items():
        theta[:, at] = value
    cloud = _Cloud(theta, likelihood(theta, r), guess.log_density(theta).sum(1))
    return _led(cloud, 0.0, count, _Walk(r, guess, held, rng, likelihood))


@dataclass(frozen=True)
class _Walk:
    """What every move of a run needs."""

    r: Rows
    guess: Guess
    held: dict[int, float]
    rng: Draw
    likelihood: Callable[[Array, Rows], Array]


def _led(cloud: _Cloud, power: float, count: int, walk: _Walk) -> tuple[Array, float]:
    """(so many particles of the posterior, log evidence gained) from a cloud at a power of the likelihood."""
    evidence = 0.0
    for _ in range(MAX_STEPS):
        step, gained, chosen = _temper(cloud, power, count, walk.rng)
        power, evidence, cloud = min(power + step, 1.0), evidence + gained, cloud.taken(chosen)
        for move in range(MOVES if power < 1 else LAST_MOVES):
            _move(cloud, move, power, walk)
        if power >= 1.0:
            break
    return cloud.theta, evidence


def mixed(r: Rows, made: list[tuple[Array, float]], rng: Draw, on: tuple[str, ...] = ()) -> tuple[Array, float]:
    """(particles, log evidence) of several runs of one structure: each takes from the others what explains more."""
    if len(made) == 1:
        return made[0]
    count = 2 * len(made[0][0])
    share = _shares([each for _, each in made])
    picked = rng.choice(len(made), count, p=share)
    theta = np.stack([made[at][0][rng.integers(len(made[at][0]))] for at in picked])
    walk = _Walk(r, Guess(r, "bucket_on" in on), _held(on), rng, log_likelihood)
    cloud = _Cloud(theta, log_likelihood(theta, r), walk.guess.log_density(theta).sum(1))
    for move in range(MIXING_MOVES):
        _move(cloud, move if move % 2 else CROSSING, REHEATED, walk)
    return _led(cloud, REHEATED, count, walk)[0], max(each for _, each in made)


def _held(on: tuple[str, ...]) -> dict[int, float]:
    """The switches of a structure."""
    return {AT[name]: ON if name in on else OFF for name in STRUCTURES}


def _shares(evidence: Sequence[float]) -> Array:
    """Weights by log evidence, as far as it is known."""
    share = np.exp((np.array(evidence) - max(evidence)) / EVIDENCE_ERROR)
    return np.asarray(share / share.sum())


def _temper(cloud: _Cloud, power: float, count: int, rng: Draw) -> tuple[float, float, NDArray[np.int64]]:
    """(step of the tempering, its share of the log evidence, particles taken for it)."""
    gain = cloud.like - cloud.drawn
    gain = gain - gain.max()

    def effective(step: float) -> float:
        w = np.exp(step * gain)
        return float(w.sum() ** 2 / (w**2).sum() / len(w))

    low, high = 0.0, 1.0 - power
    if effective(high) > KEPT:
        low = high
    for _ in range(25):
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle) > KEPT else (low, middle)
    step = max(low, 1e-5)
    w = np.exp(step * gain)
    gained = float(np.log(w.mean()) + step * (cloud.like - cloud.drawn).max())
    places = (rng.random() + np.arange(count)) / count
    return step, gained, np.minimum(np.searchsorted(np.cumsum(w / w.sum()), places), len(w) - 1)


CROSSING = 3
"""Of four moves the last is a crossing."""


def _move(cloud: _Cloud, move: int, power: float, walk: _Walk) -> None:
    """One Metropolis-Hastings move of every particle, at the tempered density."""
    if move % 4 == CROSSING:
        _cross(cloud, power, walk)
        return
    guess, rng = walk.guess, walk.rng
    new, ratio = _propose(cloud.theta, move, guess, rng)
    for at, value in walk.held.items():
        new[:, at] = value
    inside = np.asarray(((new >= LOW) & (new <= HIGH)).all(1), dtype=np.bool_)
    new = np.where(inside[:, None], new, cloud.theta)
    like, drawn = walk.likelihood(new, walk.r), guess.log_density(new).sum(1)
    better = power * (like - cloud.like) + (1 - power) * (drawn - cloud.drawn) + ratio
    take = inside & (np.log(rng.random(len(new))) < better)
    cloud.theta[take], cloud.like[take], cloud.drawn[take] = new[take], like[take], drawn[take]


def _cross(cloud: _Cloud, power: float, walk: _Walk) -> None:
    """Both of a pair take what they exchanged, or neither does; the guess's density of the two together is the same."""
    new, one, two = _crossing(cloud.theta, walk.rng)
    like, drawn = walk.likelihood(new, walk.r), walk.guess.log_density(new).sum(1)
    better = power * (like[one] + like[two] - cloud.like[one] - cloud.like[two])
    take = np.log(walk.rng.random(len(one))) < better
    for at in (one[take], two[take]):
        cloud.theta[at], cloud.like[at], cloud.drawn[at] = new[at], like[at], drawn[at]


@dataclass(frozen=True)
class Posterior:
    """Particles of all structures, with the weight of each; weights sum to 1. run: which structure each is of."""

    theta: Array
    weight: Array
    run: NDArray[np.int64]
    evidence: Array

    def share(self, mask: NDArray[Any]) -> float:
        """Probability of what is true of these particles."""
        return float(self.weight[mask].sum())


def seed_of(r: Rows) -> int:
    """One seed for one set of data."""
    return zlib.crc32(np.round(r.seen, 6).tobytes())


def infer(r: Rows, runs: int = RUNS, count: int = PARTICLES) -> Posterior:
    """The pooled posterior of what a ladder measured. runs: of each structure; optional ones take half as many."""
    rng = np.random.default_rng(seed_of(r))
    plain = mixed(r, [sample(r, rng, count=count) for _ in range(runs)], rng)
    plain = _learned(r, plain, sample(r, rng, count=count, scout=True)[0], rng)
    made, odds, best = [plain], [0.0], float(log_likelihood(plain[0], r).max())
    for names, often in _optional(r, plain[0]):
        found = [sample(r, rng, names, count) for _ in range(max(int(runs * often), 1))]
        made.append(mixed(r, found, rng, names))
        made[0] = plain = _learned(r, plain, made[-1][0], rng)
        best = float(log_likelihood(plain[0], r).max())
        gained = float(log_likelihood(made[-1][0], r).max()) - best - sum(OCCAM[name] for name in names)
        by_evidence = (made[-1][1] - plain[1]) / EVIDENCE_ERROR
        odds.append(_log_odds(names) + max(by_evidence, gained / GAIN_ERROR))
    return _pooled(made, odds)


def updated(before: Posterior, old: Rows, new: Rows) -> Posterior | None:
    """The posterior after further rows, from the one before; None where they surprise it: it has to be sought anew."""
    gain = log_likelihood(before.theta, new) - log_likelihood(before.theta, old)
    weight = before.weight * np.exp(gain - gain.max())
    weight = weight / weight.sum()
    count, rng = len(weight), np.random.default_rng(seed_of(new))
    if 1 / (weight**2).sum() < SURPRISED * count:
        return None
    places = (rng.random() + np.arange(count)) / count
    theta = before.theta[np.minimum(np.searchsorted(np.cumsum(weight), places), count - 1)]
    walk = _Walk(new, Guess(new, True), {}, rng, log_likelihood)
    cloud = _Cloud(theta, log_likelihood(theta, new), walk.guess.log_density(theta).sum(1))
    for move in range(UPDATE_MOVES):
        _move(cloud, move, 1.0, walk)
    return Posterior(cloud.theta, np.full(count, 1 / count), np.zeros(count, np.int64), before.evidence)


def _learned(r: Rows, plain: tuple[Array, float], theta: Array, rng: Draw) -> tuple[Array, float]:
    """The plain structure, once more where other particles explain more without any optional station."""
    without = theta.copy()
    for at, value in _held(()).items():
        without[:, at] = value
    if log_likelihood(without, r).max() < log_likelihood(plain[0], r).max() + LEARNED:
        return plain
    return mixed(r, [plain, (without, plain[1])], rng)


def _log_odds(names: Sequence[str]) -> float:
    """Log prior odds of optional stations against none."""
    return float(sum(np.log(SWITCHES[name] / (1 - SWITCHES[name])) for name in names))


def _optional(r: Rows, theta: Array) -> list[tuple[tuple[str, ...], float]]:
    """Structures to try, and how many runs as a share of the plain one's.

    A token bucket may always be there, unspent; where something speaks for it, it is looked for as hard.
    """
    z = np.abs(np.median(residuals(theta, r), axis=0))
    hinted = r.burst or np.average(z > MISFIT, weights=r.weight) > HISTORY_MISFITS
    found: list[tuple[tuple[str, ...], float]] = [(("bucket_on",), 1.0 if hinted else 0.25)]
    # Before connections share a file, a lock is a guess that says what to measure next.
    found.append((("lock_on",), 0.5 if "same_file" in r.step else 0.25))
    return found


def _pooled(made: Sequence[tuple[Array, float]], odds: Sequence[float]) -> Posterior:
    """All structures together. odds: log posterior odds of each against the plain one."""
    share = np.exp(np.array(odds) - max(odds))
    share = share / share.sum()
    weight = np.concatenate([np.full(len(theta), s / len(theta)) for s, (theta, _) in zip(share, made, strict=True)])
    run = np.repeat(np.arange(len(made)), [len(theta) for theta, _ in made])
    return Posterior(np.concatenate([theta for theta, _ in made]), weight, run, np.array([each for _, each in made]))


def explained(theta: Array, r: Rows, weight: Array) -> dict[str, Array]:
    """For tables: predicted and measured log rates of each row, at the posterior's median."""
    predicted = predict(values_of(theta), r)
    order = np.argsort(predicted, axis=0)
    at = np.array([np.searchsorted(np.cumsum(weight[order[:, j]]), 0.5) for j in range(len(r))])
    middle = predicted[order[np.minimum(at, len(order) - 1), np.arange(len(r))], np.arange(len(r))]
    return {"predicted": middle, "seen": r.seen}
