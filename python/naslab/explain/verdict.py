"""The verdict: for each kind of I/O the probability that a station sets its ceiling, with the next one and the value.

Four kinds are judged: large (1 MiB) and small (4 KiB) reads and writes, of one busy connection. Reads are judged for
the largest working set that was measured: of disks behind a memory that held it nothing is known. Writes count when
they are durable, small ones each by itself. A probability is the posterior mass of the particles in which a station's
ceiling is the lowest, softened by what the model is known to get wrong (`MISSPECIFIED`). `unknown` takes what the model
does not explain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from naslab.explain.ceilings import CLASSES, ceilings
from naslab.explain.challenge import CLOSE, RIVAL_EXCLUDED, fairly, rivals, thorough
from naslab.explain.hypotheses import (
    AS_COPIED,
    AT,
    HIGH,
    LOW,
    NONE_BYTES,
    Array,
    switched_on,
)  # fmt: skip
from naslab.explain.inference import MISFIT, Posterior, noisier, residuals
from naslab.explain.rows import Rows
from naslab.explain.steps import LARGE_RECORD, SMALL_RECORD

CLOSE_SHARE = 0.3
"""Probability of a close second from which on no single one is named with certainty."""
BESIDE, EXCLUDED = 1.05, 2.0
"""A station so many times as fast as the limit, whose presence would cost less than so many nats of the likelihood, may
be there: parts of a server are chosen for each other, and in about an eighth of servers two are equally fast. Of
statements with more nats 74 of 74 were right on the seeds 300388130 and 1338381285, with one or two nats 35 of 36."""
CERTAIN, DOUBTED = 0.9, 0.89
"""What is called certain, and the most that is said where the data do not exclude another limit. Of statements so
bounded 95 in 100 were right on the development seeds 1001 and 2002; that is not enough to be called certain."""
TRIED = 80
"""Particles in which that is tried."""
FITS = 0.05
"""Share of rows that may be unexplained by chance; where it is more, as much certainty is missing."""
DISKS = ("disk", "disk_iops")
ANSWERED = 10_000.0
"""Small operations a second that a processor answers easily."""
FAR, DECIDING = 8.0, 3
"""A row so many standard deviations off is another rate; so many rows show whether rates differ."""
IN_TURNS = frozenset(("disk", "disk_iops", "server_cache", "link"))
"""What a processor whose time is rationed looks like."""
TURNS_ELSE = 0.1
"""How often something else than the server's processor limits where calls without data come in short turns, and single
requests of the same kind, too. A processor whose time is rationed does all of it, copying included."""
PROCESSORS = frozenset(("client_cpu", "server_cpu", "server_cache", "shared_machine", "client_cache"))
CROWDED_ELSE = 0.1
"""Limits that keep processors busy; how often another one limits where client, server and others use all there are."""
REST_SHOWN = 0.1
"""How often a large load falls as bytes are moved, and is as fast as before after a rest, where no credit limits it."""
SLOW_UNSEEN = 0.01
"""How often single requests take like times where a share of them is slow."""
LOCK_UNSEEN = 0.01
"""How often connections on one file are as fast as no lock of it allows."""
LIMIT_SHOWN = 0.05
"""How often a client is stopped for all the processor time that it may use where something else limits."""
FASTEST_DISKS = {
    **dict.fromkeys(("disk_read", "disk_write"), np.inf), **dict.fromkeys(("request_s", "seek_s", "commit_s"), -np.inf)
}  # fmt: skip
"""Logarithms, before they are clipped to the ends of the priors."""
OTHER = {"read": "write", "write": "read"}
MISSPECIFIED = 0.02
"""Probability that the truth is none of what the model holds."""
CALIBRATION, ANCHOR = (2.4, 0.71), 2.0
"""Offset and slope of the logit of what is true over that of what was stated, less the anchor: a logistic regression
(Platt 1999) of 1,326 statements on real and simulated systems, by `tests/truth/fit_calibration.py`. By the map of four
folders of them the fifth has a calibration error of 0.02 to 0.05, before 0.03 to 0.08: of statements at 0.6 to 0.7
about 80 in 100 were right."""
STRANGE_STALL, STALL_WIDTH = 0.1, 0.02
STRANGE_MISFIT, MISFIT_WIDTH = 0.35, 0.05
"""Share of the time that stops take, and of rows not explained, from which on a limit is unknown; with their widths."""
WIRE_FRACTION = 0.5


@dataclass(frozen=True)
class Ceiling:
    """A station's ceiling: (median, low, high) of operations per second, over the particles in which it is lowest."""

    kind: str
    probability: float
    operations: tuple[float, float, float]


@dataclass(frozen=True)
class ClassVerdict:
    """Of one kind of I/O. ceilings: by falling probability. headroom: next ceiling over the lowest (median, quartiles).

    misfit: share of the rows of this operation that the model does not explain.
    """

    op: str
    size: str
    ceilings: tuple[Ceiling, ...]
    headroom: tuple[float, float, float]
    close: Mapping[tuple[str, str], float] = field(default_factory=dict)
    misfit: float = 0.0

    @property
    def first(self) -> Ceiling:
        """The most probable one."""
        return self.ceilings[0]


def judge(r: Rows, posterior: Posterior | None = None) -> list[ClassVerdict]:
    """The verdict on every kind of I/O that the rows tell of."""
    posterior = posterior or thorough(r)
    r = noisier(r, posterior.noise)
    z = residuals(posterior.theta, r)
    posterior = _plausible(r, posterior, z)
    off = _weighted_median(np.abs(z), posterior.weight)
    return [_class(r, posterior, off, op, size) for op, size in CLASSES if r.tells(op)]


def _plausible(r: Rows, posterior: Posterior, z: Array) -> Posterior:
    """The posterior with what excludes the optional stations counted in: the times of single requests show whether some
    operations are slow, connections that share a file show whether they wait for a lock. z: residuals of the rows."""
    slow = switched_on(posterior.theta, "slow_on") & (np.exp(posterior.theta[:, AT["slow_s"]]) > r.slow_most_s)
    weight = posterior.weight * np.where(slow, SLOW_UNSEEN, 1.0)
    shared = [at for at, step in enumerate(r.step) if step == "same_file"]
    if shared:
        locked = switched_on(posterior.theta, "lock_on") & (z[:, shared].min(axis=1) < -MISFIT)
        weight = weight * np.where(locked, LOCK_UNSEEN, 1.0)
    return dataclasses.replace(posterior, weight=weight / weight.sum())


def _class(r: Rows, posterior: Posterior, off: Array, op: str, size: str) -> ClassVerdict:
    found = ceilings(posterior.theta, r, op, size)
    names, table = list(found), np.array(list(found.values()))
    lowest = table.argmin(0)
    order = np.sort(table, axis=0)
    rows = (r.read == (op == "read")) & ~r.null
    misfit = float(np.mean(off[rows] > MISFIT))
    stopped = _edge(r.stopped(op, size), STRANGE_STALL, STALL_WIDTH)
    strange = max(stopped, _edge(misfit, STRANGE_MISFIT, MISFIT_WIDTH))
    strange = 1 - (1 - strange) * (1 - MISSPECIFIED)
    shares = {name: posterior.share(lowest == at) * (1 - strange) for at, name in enumerate(names)}
    shares["unknown"] = shares.get("unknown", 0.0) + max(strange - MISSPECIFIED, 0.0)
    if r.wire_fraction < WIRE_FRACTION and op == "read":
        shares = {"client_cache": 0.97, **{name: 0.03 * each for name, each in shares.items()}}
    if (op, size) in r.turns:
        shares = {**shares, "server_cpu": shares["server_cpu"] + shares["server_cache"], "server_cache": 0.0}
        shares = {
            kind: TURNS_ELSE * share + (1 - TURNS_ELSE) * (kind == "server_cpu") for kind, share in shares.items()
        }
    if (op, size) in r.crowded:
        shares = _crowded(shares)
    if (op, size) in r.own_limit:
        shares = _weighed(shares, {kind: LIMIT_SHOWN for kind in shares if kind != "client_cpu"})
    if op in r.credited and size == "large":
        shares = _weighed(shares, {kind: REST_SHOWN for kind in shares if kind != "burst_credit"})
    near = order[1] / order[0]
    close = _close(names, table, posterior)
    first = names[int(np.argmax([shares[name] for name in names]))]
    # No row tells of the rest that brought a fast rate back, and no other station explains it.
    proved = first == "burst_credit" and op in r.credited and size == "large"
    hidden = 1.0 if proved else _hidden(r, posterior, first, table, names, op, size)
    fits = 1.0 if misfit <= FITS else 1 - misfit
    shares = _calibrated(shares, first, min(shares[first], _cap(first, close), fits))
    if not proved and min(hidden, shares[first]) >= CERTAIN and first != "unknown":
        hidden = min(hidden, _rivalled(r, posterior, first, (op, size)))
    ranked = sorted((name for name in shares if shares[name] > 0), key=lambda name: -shares[name])
    apart = _unexplained(r, off, op, size)
    doubted = r.busy or (op, size) in r.turns | r.crowded or _as_processors(r, posterior, first, found, size)
    most = min(hidden, DOUBTED if doubted else 1.0)
    made = tuple(
        Ceiling(
            name,
            min(shares[name], _sure(name, close), _most(name, min(most, 1 - apart * (name in DISKS)), r, op, size)),
            _value(table, names, lowest, posterior, name),
        )
        for name in ranked
    )
    quartiles = tuple(quantile(near, posterior.weight, q) for q in (0.5, 0.25, 0.75))
    return ClassVerdict(op, size, made, quartiles, close, misfit)  # type: ignore[arg-type]


def _as_processors(r: Rows, posterior: Posterior, first: str, found: Mapping[str, Array], size: str) -> bool:
    """Whether the limit is disks, of a server on the client's machine, that are as fast as processors copy and answer.

    Processors take in what is written faster or more slowly than they give out what is read, and a file's first writes
    more slowly than others: disks may explain what is theirs.
    """
    if not r.here or first not in DISKS:
        return False
    rate = quantile(found[first], posterior.weight, 0.5)
    return rate * LARGE_RECORD > AS_COPIED[0] if size == "large" else rate > ANSWERED


def _unexplained(r: Rows, off: Array, op: str, size: str) -> float:
    """Share of the loads that decide a kind of I/O which the model does not explain: reads of the largest set.

    Where a set is read at several rates, one of them was taken for the disks', and perhaps the wrong one.
    """
    record = LARGE_RECORD if size == "large" else SMALL_RECORD
    mine = (r.read == (op == "read")) & ~r.null & (r.record == record) & (r.size >= r.max_set_bytes) & (r.weight > 0)
    return float(np.mean(off[mine] > FAR)) if op == "read" and mine.sum() >= DECIDING else 0.0


def _weighed(shares: Mapping[str, float], shown: Mapping[str, float]) -> dict[str, float]:
    """The shares after something was seen that shows so often where each kind limits; of others always."""
    seen = {kind: share * shown.get(kind, 1.0) for kind, share in shares.items()}
    return {kind: share / sum(seen.values()) for kind, share in seen.items()}


def mapped(stated: float, fitted: tuple[float, float]) -> float:
    """How often what is stated with a probability is true, by the offset and slope of a map."""
    stated = min(max(stated, MISSPECIFIED), 1 - MISSPECIFIED)
    logit = fitted[0] + fitted[1] * (np.log(stated / (1 - stated)) - ANCHOR)
    return float(1 / (1 + np.exp(-logit)))


def _calibrated(shares: Mapping[str, float], first: str, stated: float) -> dict[str, float]:
    """The shares with the first one as often as those so stated were right; the others share what is left.

    Reads that never reached the server were counted: nothing is to be calibrated.
    """
    if shares[first] < max(shares.values()):
        return dict(shares)
    true = mapped(stated, CALIBRATION)
    left = (1 - true) / max(1 - shares[first], 1 - true)
    return {kind: true if kind == first else share * left for kind, share in shares.items()}


def _crowded(shares: Mapping[str, float]) -> dict[str, float]:
    """The shares where no processor is idle: what leaves them idle is the machine's own limit by another name."""
    seen = {kind: share * (1.0 if kind in PROCESSORS else CROWDED_ELSE) for kind, share in shares.items()}
    seen["shared_machine"] = seen.get("shared_machine", 0.0) + 1 - sum(seen.values())
    return seen


def _close(names: Sequence[str], table: Array, posterior: Posterior) -> dict[tuple[str, str], float]:
    """Pairs of kinds whose ceilings are the two lowest and within `CLOSE` of each other, with their probability."""
    order = np.argsort(table, axis=0)
    at = np.arange(table.shape[1])
    near = table[order[1], at] < CLOSE * table[order[0], at]
    found: dict[tuple[str, str], float] = {}
    for one, two, weight in zip(order[0][near], order[1][near], posterior.weight[near], strict=True):
        pair = min((names[one], names[two]), (names[two], names[one]))
        found[pair] = found.get(pair, 0.0) + float(weight)
    return found


def _most(name: str, most: float, r: Rows, op: str, size: str) -> float:
    """Highest probability of a kind. most: of kinds of the model.

    What it does not explain is sure of stops only, and of those where reads and writes stop alike: writes alone also
    end in bunches where they are made durable together. Credit is sure where a rest brought a fast rate back.
    """
    if name == "client_cache":
        return 1.0
    if name == "burst_credit" and op not in r.credited:
        return min(most, DOUBTED)
    if name == "unknown":
        return 1.0 if all(r.stopped(each, size) > STRANGE_STALL for each in (op, OTHER[op])) else DOUBTED
    return min(most, DOUBTED) if r.rationed and name in IN_TURNS else most


def _hidden(
    r: Rows, posterior: Posterior, first: str, table: Array, names: Sequence[str], op: str, size: str
) -> float:  # fmt: skip
    """Highest probability of a limit: less than one where the data do not exclude another station right behind it.

    In the likeliest particles one other station at a time is made hardly faster than the limit. Where the likelihood
    falls by little, or such a server is among the likely ones anyway, it would have shown the same.
    """
    if first not in names or first == "unknown":
        return 1.0
    mine = np.flatnonzero(table.argmin(0) == names.index(first))
    if not len(mine):
        return 1.0
    likes = fairly(posterior.theta[mine], r)
    best = mine[np.argsort(-likes)[:TRIED]]
    theta, rate = posterior.theta[best], table[names.index(first)][best] * BESIDE
    record = float(LARGE_RECORD if size == "large" else SMALL_RECORD)
    for kind, changed in _beside(theta, rate, record, op, size, r.here):
        if kind == first:
            continue
        near = table[names.index(kind)][mine] < BESIDE * table[names.index(first)][mine]
        closest = max(float(fairly(changed, r).max()), float(likes[near].max()) if near.any() else -np.inf)
        if likes.max() - closest < EXCLUDED:
            return DOUBTED
    return 1.0


def _rivalled(r: Rows, posterior: Posterior, first: str, where: tuple[str, str]) -> float:
    """Highest probability of a limit: less than one where a server with another limit explains the rows as well."""
    best = posterior.rivals.get((*where, first))
    if best is None:
        best = rivals(r, posterior, first, *where)[1]
    return 1.0 if fairly(posterior.theta, r).max() - best >= RIVAL_EXCLUDED else DOUBTED


def _beside(theta: Array, rate: Array, record: float, op: str, size: str, here: bool) -> Iterator[tuple[str, Array]]:
    """The same servers with one station at a time that does `rate` operations a second: (kind, parameters).

    The disks twice: as they are, and without anything in front of them, no slower than that in any other way.
    """
    data, wire = np.log(rate * record), np.log(rate * (record + np.exp(theta[:, AT["header"]])))
    read = op == "read"
    disk = ("disk", {"disk_read" if read else "disk_write": data}) if size == "large" else (
        "disk_iops", {"request_s": -np.log(rate)})  # fmt: skip
    cold = np.maximum(theta[:, AT["cold"]], 0.0) if read else 0.0
    up = {"link": wire} if read else {"uplink_ratio": wire - theta[:, AT["link"]]}
    copying = data - theta[:, AT["copy_ratio"]] if here and not read else data
    bare = {name: np.full(len(theta), np.log(NONE_BYTES)) for name in ("cache", "write_back")} | FASTEST_DISKS
    tried = (
        disk, (disk[0], {**bare, **disk[1]}), ("link", up), ("server_cpu", {"server_s": -np.log(rate) - cold}),
        ("server_cache", {"memory": copying}),
    )  # fmt: skip
    for kind, values in tried:
        changed = theta.copy()
        for name, value in values.items():
            changed[:, AT[name]] = np.clip(value, LOW[AT[name]], HIGH[AT[name]])
        yield kind, changed


def _beside_it(name: str, close: Mapping[tuple[str, str], float]) -> float:
    """Probability that the two lowest ceilings are close, and this kind is one of them."""
    return max((share for pair, share in close.items() if name in pair), default=0.0)


def _cap(name: str, close: Mapping[tuple[str, str], float]) -> float:
    """Highest share of a kind alone: less where another is close."""
    near = _beside_it(name, close)
    return 1.0 if near <= CLOSE_SHARE else max(1.0 - near / 2, 0.5)


def _sure(name: str, close: Mapping[tuple[str, str], float]) -> float:
    """No kind is certain alone where another is close."""
    return 1.0 if _beside_it(name, close) <= CLOSE_SHARE else DOUBTED


def _value(
    table: Array, names: Sequence[str], lowest: NDArray[np.int64], posterior: Posterior, name: str
) -> tuple[float, float, float]:
    """Median and 95 % interval of a kind's ceiling where it is the lowest; of the lowest one where it never is."""
    mine = lowest == names.index(name) if name in names else np.zeros(len(lowest), bool)
    values = table[names.index(name)] if mine.any() else table.min(0)
    weight = posterior.weight * mine if mine.any() else posterior.weight
    return quantile(values, weight, 0.5), quantile(values, weight, 0.025), quantile(values, weight, 0.975)


def _edge(value: float, at: float, width: float) -> float:
    return float(1 / (1 + np.exp(-(value - at) / width))) if value else 0.0


def quantile(values: Array, weight: Array, q: float) -> float:
    """Quantile of weighted values."""
    order = np.argsort(values)
    sums = np.cumsum(weight[order])
    return float(values[order[min(int(np.searchsorted(sums, q * sums[-1])), len(order) - 1)]])


def _weighted_median(table: Array, weight: Array) -> Array:
    """Of each column."""
    return np.array([quantile(table[:, at], weight, 0.5) for at in range(table.shape[1])])
