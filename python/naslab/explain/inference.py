"""The posterior of the model's parameters: tempered sequential Monte Carlo, several runs pooled by their evidence.

Particles are drawn from a guess around what was measured and led to the posterior in steps (Del Moral, Doucet and
Jasra 2006), moved by differential evolution (ter Braak 2006), by exchanging explanations, by fresh draws of
parameters that belong together, and by crossing: of two particles one may be right about the network and the other
about the disks (Liang and Wong 2001). All that is the engine's (`crates/infer`). One run can settle on one of several
explanations, so `RUNS` of them are made; what they found is mixed, led to the posterior, heated up and led back.
Optional stations (a lock, a token bucket) are structures of their own, weighed by evidence and prior.
The seed is that of the data, so one document always gives one answer.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from naslab import _engine
from naslab.explain.coherent import coherent
from naslab.explain.compiled import model_of, packed, predicted, unpacked
from naslab.explain.hypotheses import AT, HIGH, LOW, NONE_BYTES, SWITCHES, Array
from naslab.explain.rivals import exchanged
from naslab.explain.rows import Rows
from naslab.explain.steps import SMALL_BYTES, SMALL_RECORD

MODEL_ERROR = 0.04
"""Standard deviation of the model's own error, of a log rate."""
FREEDOM = 4.0
"""Degrees of freedom of Student's t, as in the engine."""
BELIEVED = 0.5
"""Probability of a token bucket from which on predictions reckon with it; unseen, one may always be there."""
NOISES, NOISE_GAIN = (0.05, 0.1, 0.2, 0.3), 3.0
"""Noise of log rates that is tried, and nats by which it has to make the rows likelier."""
RUNS = 9
PARTICLES = 350
EVIDENCE_ERROR = 3.0
"""Two runs on the same data differ in their log evidence by several: differences count by so much less."""
OCCAM: Mapping[str, float] = {"bucket_on": 8.0, "lock_on": 3.0}
"""Nats that an optional station has to gain in likelihood before it is held to be there: two for each number of it,
about what numbers that come out within a tenth cost. The sampler's evidence misses much of what hard data gain: the
larger of both counts."""
GAIN_ERROR = 1.5
DRAWN = 6
"""So many times as many particles are drawn from the guess."""
BROAD, NEAR = 0.3, 0.08
"""The guess: the prior's share, and the width of its bumps at measured rates and times."""
MISFIT = 4.0
"""A row so many standard deviations off is not explained."""
HISTORY_MISFITS = 0.06
"""Share of such rows from which on rates may depend on what was moved before."""
LEARNED = 1.0
"""Nats by which an explanation has to be better to be taken over from another structure."""
SURPRISED = 0.2
"""Share of the particles that have to stay effective as rows are added."""
STRUCTURES = ("lock_on", "bucket_on")
"""Optional stations that are structures of their own; the other switches are a particle's."""
OFF, ON = np.log(1e-3) + 0.05, -0.05
Draw = np.random.Generator


def log_likelihood(theta: Array, r: Rows) -> Array:
    """By particle: Student's t on log rates, the client's own time per operation, and the priors' shape."""
    return unpacked(model_of(r, MODEL_ERROR).log_likelihood(packed(theta)))


def residuals(theta: Array, r: Rows) -> Array:
    """How far each row is from what the particles predict, in standard deviations; (particles, rows)."""
    return np.asarray((predicted(theta, r) - r.seen) / np.hypot(r.sigma, MODEL_ERROR))


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
            "fetch": np.log([4e3, 16e3, 32e3, 64e3, 128e3, 256e3, 1e6]),
            "cache": np.append(sizes, np.log(NONE_BYTES)), "write_back": np.log([NONE_BYTES, 1e7, 1e8, 1e9]),
            **dict.fromkeys(("uplink_ratio", "copy_ratio"), _ratios(r)),
            "slots": np.log(np.array([1.0, 2, 4, 8, 16, 32, 64, 2000])),
            **dict.fromkeys(("server_lanes", "copy_lanes", "cold"), np.log([0.5, 0.7])),
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
        bumps: list[tuple[int, list[float]]] = []
        for name, found in near.items():
            at = AT[name]
            rounded = np.unique(np.round(found / NEAR)) * NEAR
            inside = rounded[(rounded >= LOW[at]) & (rounded <= HIGH[at])]
            if len(inside):
                bumps.append((at, inside.tolist()))
        self.engine = _engine.InferGuess(model_of(r), bumps, BROAD, NEAR)

    def draw(self, count: int, rng: Draw) -> Array:
        """Particles of the guess, (count, dims)."""
        return _particles(self.engine.draw(count, _seed(rng)))

    def start(self, count: int, rng: Draw, scout: bool) -> Array:
        """Particles to begin with: of the guess; half of a scout's are whole explanations."""
        theta = self.draw(count, rng)
        if scout:
            theta[: count // 2] = coherent(theta[: count // 2], self.rows, rng)
        return theta

    def log_density(self, theta: Array) -> Array:
        """Log density of each parameter against its log-uniform prior's, (particles, dims)."""
        return _particles(self.engine.log_density(packed(theta)))


def _particles(found: bytearray) -> Array:
    return unpacked(found).reshape(-1, len(LOW))


def _seed(rng: Draw) -> int:
    return int(rng.integers(1 << 63))


def _falls(r: Rows) -> Array:
    """By how much the rate of one load fell or rose again: log ratios of the fastest and the slowest of each kind."""
    kinds = np.stack([r.read, r.random, r.record, r.depth > 1, r.workers, r.durable], axis=1)
    apart = [np.ptp(r.seen[(kinds == kind).all(1)]) for kind in np.unique(kinds, axis=0)]
    return np.array([each for each in apart if each > np.log(1.3)])


def _ratios(r: Rows) -> Array:
    """Log ratios of a part's two rates: none, and that of the fastest writes to the fastest reads."""
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


# The sampler.


Way = Literal["sample", "lead_on", "gather", "follow"]
"""From the guess to the posterior; from what several runs found, heated up; from particles of any kind, mixed; from a
posterior to that of further rows."""
Run = tuple[_engine.InferGuess, list[tuple[int, float]], bytes, int, int, Way]


def sought(r: Rows, rng: Draw, near: Array, count: int, forbidden: _engine.Forbidden) -> Array:
    """Particles of servers without optional stations that another limit explains, (2 count, dims).

    One run begins with whole explanations, one with `near`, particles whose limits were exchanged. What is found counts
    by its likelihood alone, not by how much of it there is: how often each was begun with is no probability.
    forbidden: what limits a kind of I/O may not be this.
    """
    exchanged_run: Run = (Guess(r).engine, _held(r), packed(near), count, _seed(rng), "gather")
    found = _made(r, [_run(r, rng, (), count, scout=True), exchanged_run], forbidden)
    return np.concatenate([theta for theta, _ in found])


def led(r: Rows, rng: Draw, guess: Guess, theta: Array, count: int) -> Array:
    """So many particles of the posterior of a server without optional stations, begun with these."""
    return _made(r, [(guess.engine, _held(r), packed(_without(theta)), count, _seed(rng), "sample")])[0][0]


def _without(theta: Array) -> Array:
    """The same particles without optional stations."""
    without = theta.copy()
    for at, value in _switches(()):
        without[:, at] = value
    return without


def _run(r: Rows, rng: Draw, on: tuple[str, ...], count: int, scout: bool = False) -> Run:
    """One run of a structure, from the guess."""
    guess = Guess(r, "bucket_on" in on)
    return guess.engine, _held(r, on), packed(guess.start(DRAWN * count, rng, scout)), count, _seed(rng), "sample"


def _made(r: Rows, runs: list[Run], forbidden: _engine.Forbidden | None = None) -> list[tuple[Array, float]]:
    """(particles, log evidence) of several runs, made side by side."""
    return [(_particles(theta), evidence) for theta, evidence in model_of(r, MODEL_ERROR).sample(runs, forbidden)]


def mixed(r: Rows, made: list[tuple[Array, float]], rng: Draw, on: tuple[str, ...] = ()) -> tuple[Array, float]:
    """(particles, log evidence) of several runs of one structure: each takes from the others what explains more."""
    if len(made) == 1:
        return made[0]
    return _made(r, [_mixing(r, made, rng, on)])[0][0], max(each for _, each in made)


def _mixing(r: Rows, made: list[tuple[Array, float]], rng: Draw, on: tuple[str, ...]) -> Run:
    """The run that leads on what several found."""
    count = 2 * len(made[0][0])
    picked = rng.choice(len(made), count, p=_shares([each for _, each in made]))
    theta = np.stack([made[at][0][rng.integers(len(made[at][0]))] for at in picked])
    return Guess(r, "bucket_on" in on).engine, _held(r, on), packed(theta), count, _seed(rng), "lead_on"


def _held(r: Rows, on: tuple[str, ...] = ()) -> list[tuple[int, float]]:
    """Parameters that have one value: what the server said of itself, and the switches of a structure."""
    return [*_told(r), *_switches(on)]


def _told(r: Rows) -> list[tuple[int, float]]:
    """As many slots as the server granted, and a little more: one that grants what is asked for sets no limit."""
    return [(AT["slots"], min(math.log(r.slots) + 1e-6, HIGH[AT["slots"]] - 1e-6))] if r.slots else []


def _switches(on: tuple[str, ...]) -> list[tuple[int, float]]:
    return [(AT[name], ON if name in on else OFF) for name in STRUCTURES]


def _shares(evidence: Sequence[float]) -> Array:
    """Weights by log evidence, as far as it is known."""
    share = np.exp((np.array(evidence) - max(evidence)) / EVIDENCE_ERROR)
    return np.asarray(share / share.sum())


@dataclass(frozen=True)
class Posterior:
    """Particles of all structures, with the weight of each; weights sum to 1. run: which structure each is of.

    noise: standard deviation of the log rates beside what was measured and the model's error, see `noisier`. rivals: by
    operation, size and limit the log likelihood of the best server with another limit, where one was sought.
    """

    theta: Array
    weight: Array
    run: NDArray[np.int64]
    evidence: Array
    noise: float = 0.0
    rivals: Mapping[tuple[str, str, str], float] = field(default_factory=dict)

    def share(self, mask: NDArray[Any]) -> float:
        """Probability of what is true of these particles."""
        return float(self.weight[mask].sum())


def seed_of(r: Rows) -> int:
    """One seed for one set of data."""
    return zlib.crc32(np.round(r.seen, 6).tobytes())


def infer(r: Rows, runs: int = RUNS, count: int = PARTICLES) -> Posterior:
    """The pooled posterior of what a ladder measured. runs: of each structure; optional ones take half as many.

    A machine with other work shows other rates each time, by more than one cell's interval tells. Where no server
    explains the rows, and more noise would make them likelier, the posterior is sought anew with that noise.
    """
    found = _inferred(r, runs, count)
    noise = noise_of(found, r)  # credit that was spent explains its rows, and leaves none
    if not noise:
        return found
    return dataclasses.replace(_inferred(noisier(r, noise), runs, count), noise=noise)


def noisier(r: Rows, noise: float) -> Rows:
    """The rows with so much more standard deviation of their log rates."""
    return dataclasses.replace(r, sigma=np.hypot(r.sigma, noise)) if noise else r


def noise_of(posterior: Posterior, r: Rows) -> float:
    """The noise that makes the rows likeliest in the best of these particles; 0 where none gains enough."""
    best = posterior.theta[[int(np.argmax(log_likelihood(posterior.theta, r)))]]
    off = (predicted(best, r) - r.seen)[0]

    def like(noise: float) -> float:
        scale = np.hypot(np.hypot(r.sigma, noise), MODEL_ERROR)
        z = off / scale
        return float(r.weight @ (-(FREEDOM + 1) / 2 * np.log1p(z * z / FREEDOM) - np.log(scale)))

    likes = {noise: like(noise) for noise in NOISES}
    noise = max(likes, key=lambda each: likes[each])
    return noise if likes[noise] > like(0.0) + NOISE_GAIN else 0.0


def _inferred(r: Rows, runs: int, count: int) -> Posterior:
    """The same with the rows' own noise."""
    rng = np.random.default_rng(seed_of(r))
    plain_runs = [_run(r, rng, (), count, scout=at == runs) for at in range(runs + 1)]
    *found, scout = _made(r, plain_runs)
    plain = _with_rivals(r, _learned(r, mixed(r, found, rng), scout[0], rng), rng)
    made, odds = [plain], [0.0]
    for names, structure in _structures(r, plain[0], rng, runs, count):
        made.append(structure)
        made[0] = plain = _learned(r, plain, structure[0], rng)
        best = float(log_likelihood(plain[0], r).max())
        gained = float(log_likelihood(structure[0], r).max()) - best - sum(_occam(r, name) for name in names)
        by_evidence = (structure[1] - plain[1]) / EVIDENCE_ERROR
        odds.append(_log_odds(names) + max(by_evidence, gained / GAIN_ERROR))
    return _pooled(made, odds)


def _with_rivals(r: Rows, plain: tuple[Array, float], rng: Draw) -> tuple[Array, float]:
    """The plain structure's particles, gathered with as many whose limits were exchanged for others."""
    theta = np.concatenate((plain[0], exchanged(plain[0], r, rng)))
    return _made(r, [(Guess(r).engine, _held(r), packed(theta), len(plain[0]), _seed(rng), "gather")])[0][0], plain[1]


def taken_over(r: Rows, posterior: Posterior, theta: Array) -> Posterior:
    """The posterior with particles that explain more than any of its own, `theta`, mixed into its plain structure.

    Optional stations count for less by what the plain structure gained.
    """
    rng, mine = np.random.default_rng(seed_of(r) + len(theta)), posterior.run == 0
    before = posterior.theta[mine]
    plain = mixed(r, [(before, 0.0), (_without(theta), 0.0)], rng)[0]
    gained = float(log_likelihood(plain, r).max() - log_likelihood(before, r).max())
    others = posterior.weight[~mine] * math.exp(-max(gained, 0.0) / GAIN_ERROR)
    weight = np.concatenate((np.full(len(plain), posterior.weight[mine].sum() / len(plain)), others))
    return dataclasses.replace(
        posterior, theta=np.concatenate((plain, posterior.theta[~mine])), weight=weight / weight.sum(),
        run=np.concatenate((np.zeros(len(plain), np.int64), posterior.run[~mine])), rivals={},
    )  # fmt: skip


def _structures(
    r: Rows, theta: Array, rng: Draw, runs: int, count: int
) -> list[tuple[tuple[str, ...], tuple[Array, float]]]:
    """Every optional structure: its stations, and what its runs found and were mixed into."""
    tried = [(names, max(int(runs * often), 1)) for names, often in _optional(r, theta)]
    found = iter(_made(r, [_run(r, rng, names, count) for names, times in tried for _ in range(times)]))
    each = [(names, [next(found) for _ in range(times)]) for names, times in tried]
    several = [(names, made) for names, made in each if len(made) > 1]
    led = iter(_made(r, [_mixing(r, made, rng, names) for names, made in several]))
    return [
        (names, (next(led)[0], max(evidence for _, evidence in made)) if len(made) > 1 else made[0])
        for names, made in each
    ]


def updated(before: Posterior, old: Rows, new: Rows) -> Posterior:
    """The posterior after further rows, from the one before.

    Where these surprise it, its particles and whole explanations of all rows are mixed and led on together.
    """
    old, new = noisier(old, before.noise), noisier(new, before.noise)
    gain = log_likelihood(before.theta, new) - log_likelihood(before.theta, old)
    weight = before.weight * np.exp(gain - gain.max())
    weight = weight / weight.sum()
    count, rng, guess = len(weight), np.random.default_rng(seed_of(new)), Guess(new, True)
    way: Way
    if 1 / (weight**2).sum() >= SURPRISED * count:
        begun, way = _resampled(before.theta, weight, rng), "follow"
    else:
        fresh = guess.start(count, rng, scout=True)
        begun, way = np.concatenate((_resampled(before.theta, before.weight, rng), fresh)), "gather"
    theta = _made(new, [(guess.engine, _told(new), packed(begun), count, _seed(rng), way)])[0][0]
    return Posterior(theta, np.full(count, 1 / count), np.zeros(count, np.int64), before.evidence, before.noise)


def _resampled(theta: Array, weight: Array, rng: Draw) -> Array:
    """As many particles of equal weight."""
    count = len(weight)
    places = (rng.random() + np.arange(count)) / count
    return theta[np.minimum(np.searchsorted(np.cumsum(weight / weight.sum()), places), count - 1)]


def _learned(r: Rows, plain: tuple[Array, float], theta: Array, rng: Draw) -> tuple[Array, float]:
    """The plain structure, once more where other particles explain more without any optional station."""
    without = _without(theta)
    if log_likelihood(without, r).max() < log_likelihood(plain[0], r).max() + LEARNED:
        return plain
    return mixed(r, [plain, (without, plain[1])], rng)


def _occam(r: Rows, name: str) -> float:
    """Nats of an optional station; none of credit whose numbers a fall and a rest gave, which no search chose."""
    return 0.0 if name == "bucket_on" and r.credited else OCCAM[name]


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
    rates = predicted(theta, r)
    order = np.argsort(rates, axis=0)
    at = np.array([np.searchsorted(np.cumsum(weight[order[:, j]]), 0.5) for j in range(len(r))])
    middle = rates[order[np.minimum(at, len(order) - 1), np.arange(len(r))], np.arange(len(r))]
    return {"predicted": middle, "seen": r.seen}
