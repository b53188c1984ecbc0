"""From the posterior to a verdict: for each kind of I/O its limits with probability, value, evidence, and what is open.

The probabilities are those of `verdict.py`. Here a target without a server (a disk of this machine, the null target)
gets the names of its own parts, the values come from what was measured (`measured.py`), the sentences from the numbers
that decided (`reasons.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from naslab.explain import reasons
from naslab.explain.ceilings import ceilings
from naslab.explain.evidence import Evidence
from naslab.explain.fitted import posterior_of
from naslab.explain.hypotheses import STATIONS, Array
from naslab.explain.inference import RUNS, Posterior
from naslab.explain.limits import CLASSES, Limit, Question, Verdict
from naslab.explain.measured import Measured, measured, published
from naslab.explain.measured import fitted as fitted_figure
from naslab.explain.rows import Rows, rows_of
from naslab.explain.steps import LARGE_RECORD
from naslab.explain.verdict import (
    CLOSE_SHARE,
    MISSPECIFIED,
    STRANGE_STALL,
    Ceiling,
    ClassVerdict,
    judge,
    quantile,
)

DECIDED = 0.7
"""Below this probability of the first limit its class is open."""
MIN_SHOWN = 0.05
"""Limits are listed from this probability on; behind the client's cache, of what lies behind it."""
ONE_RUN = 0.8
"""Highest probability where fewer runs of the sampler than usual were made: one may settle on the wrong explanation."""
MAX_HEADROOM = 50.0
"""A ceiling that is further above is no next limit."""
BUSY = 0.85
"""Share of a client's processors in use from which on they are what is busy."""
SEPARATED_BY = {
    "burst_credit": "long", "disk": "set", "disk_iops": "set", "client_cache": "client_cache",
    "shared_machine": "connections", "server_cache": "duplex", "latency": "depth",
    **{station.kind: station.by for station in STATIONS if station.kind not in ("lock", "machine")},
    "unknown": "long", "client_nic": "clients",
}  # fmt: skip
"""The step that, measured longer, tells a kind from others; of two kinds, that of the first in this order."""
OWN = frozenset(("client_cpu", "client_cache", "burst_credit", "latency", "unknown"))
"""Kinds that a disk of this machine has, too: there is no server, and no link to it."""
SHARED = frozenset(("link", "client_nic", "server_cpu", "server_cache", "shared_machine"))
"""Kinds that clients share: no limit where each further client brings its own share."""
Naming = Callable[[str], str]


@dataclass
class _Class:
    """One kind of I/O. shares: probability by kind, the first first. nearest: next limit and factor, by kind."""

    op: str
    size: str
    shares: Mapping[str, Ceiling]
    close: Mapping[tuple[str, str], float] = field(default_factory=dict)
    nearest: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    misfit: float = 0.0
    stall: float = 0.0


def conclude(
    evidence: Evidence, runs: int = RUNS, fitted: tuple[Rows, Posterior] | None = None, most: float = 1.0
) -> Verdict:  # fmt: skip
    """The verdict on what there is. runs: of the sampler; one takes a second or less. fitted: rows and their posterior,
    where there is one. most: highest probability of a limit."""
    rows = fitted[0] if fitted else rows_of(evidence)
    if rows is None:
        return Verdict()
    if evidence.protocol == "null":
        return _verdict(evidence, _without_a_server(evidence))
    posterior = fitted[1] if fitted else posterior_of(rows, runs)
    most = most if fitted or runs >= RUNS else min(most, ONE_RUN)
    return _verdict(evidence, (_named(evidence, rows, posterior, each, most) for each in judge(rows, posterior)))


def is_stopped(evidence: Evidence) -> bool:
    """Whether the server stands still for so much of the time that a comparison is one of chance."""
    rows = rows_of(evidence)
    return rows is not None and any(share > STRANGE_STALL for share in rows.stall.values())


def _verdict(evidence: Evidence, classes: Iterable[_Class]) -> Verdict:
    found = Verdict()
    for each in classes:
        found.limits += _limits(evidence, each)
        question = _question(evidence, each)
        found.open += [question] if question else []
    return found


def _without_a_server(evidence: Evidence) -> Iterable[_Class]:
    """The null target answers at once: all that is measured is the client."""
    for op, size in CLASSES:
        if figures := measured(evidence, op, size):
            value = max(each.figure.value for each in figures) / (1 if size == "small" else LARGE_RECORD)
            yield _Class(op, size, {"client_cpu": Ceiling("client_cpu", 1 - MISSPECIFIED, (value,) * 3)})


def _named(evidence: Evidence, rows: Rows, posterior: Posterior, of: ClassVerdict, most: float) -> _Class:
    """A class with the names that its limits have at this target. most: highest probability of one."""
    naming = naming_of(evidence, of.op, of.size)
    shares: dict[str, Ceiling] = {}
    for each in of.ceilings:
        kind = naming(each.kind)
        first = shares.get(kind)
        share = each.probability + (first.probability if first else 0.0)
        shares[kind] = Ceiling(kind, min(share, most), (first or each).operations)
    ranked = dict(sorted(shares.items(), key=lambda item: (item[0] != "client_cache", -item[1].probability)))
    close: dict[tuple[str, str], float] = {}
    for (one, two), share in of.close.items():
        pair = (naming(one), naming(two))
        if pair[0] != pair[1]:
            close[pair] = close.get(pair, 0.0) + share
    nearest = _nearest(ceilings(posterior.theta, rows, of.op, of.size), posterior.weight, naming)
    return _Class(of.op, of.size, ranked, close, nearest, of.misfit, rows.stopped(of.op, of.size))


def naming_of(evidence: Evidence, op: str, size: str) -> Naming:
    """What a kind of the model is called at this target."""
    if evidence.local_disk:
        disk = "disk" if size == "large" else "disk_iops"
        return lambda kind: kind if kind in OWN else disk
    if (op, size) == ("read", "large") and evidence.clients_add:
        busy = evidence.by_clients[-1].cpu >= BUSY * evidence.client_cpus
        own = "client_cpu" if busy else "client_nic"
        return lambda kind: own if kind in SHARED else kind
    return lambda kind: kind


def _nearest(table: Mapping[str, Array], weight: Array, naming: Naming) -> dict[str, tuple[str, float]]:
    """By kind: the next limit, and how many times as high its ceiling is, in the particles where the kind is lowest."""
    merged: dict[str, Array] = {}
    for kind, each in table.items():
        name = naming(kind)
        merged[name] = np.minimum(merged[name], each) if name in merged else each
    names, values = list(merged), np.array(list(merged.values()))
    lowest = values.argmin(0)
    found: dict[str, tuple[str, float]] = {}
    for at, name in enumerate(names):
        mine = lowest == at
        if not weight[mine].sum() > 0 or len(names) < 2:
            continue
        over = [
            (quantile(values[other, mine] / values[at, mine], weight[mine], 0.5), other)
            for other in range(len(names)) if other != at and names[other] != "unknown"
        ]  # fmt: skip
        factor, other = min(over)
        if factor <= MAX_HEADROOM:
            found[name] = (names[other], factor)
    return found


def _limits(evidence: Evidence, of: _Class) -> list[Limit]:
    """The limits of a class that are listed; of each the reason tells it from the most probable other one."""
    behind = 1 - (of.shares["client_cache"].probability if "client_cache" in of.shares else 0.0)
    listed = [
        each for at, each in enumerate(of.shares.values()) if at == 0 or each.probability >= MIN_SHOWN * behind
    ]  # fmt: skip
    found = []
    for each in listed:
        value = _figure(evidence, of, each)
        rival = next((other.kind for other in listed if other is not each and other.kind != "client_cache"), "")
        facts = reasons.Facts(
            each.kind, of.op, of.size, value, rival, of.nearest.get(each.kind), evidence, of.stall, of.misfit
        )
        found.append(
            Limit(
                each.kind, of.op, of.size, min(each.probability, 1.0), value.figure, reasons.reason(facts),
                value.modelled, value.beside,
            )
        )  # fmt: skip
    return found


def _figure(evidence: Evidence, of: _Class, ceiling: Ceiling) -> Measured:
    """What is published of a limit."""
    return published(evidence, ceiling.kind, (of.op, of.size), fitted_figure(of.size, ceiling.operations))


def _question(evidence: Evidence, of: _Class) -> Question | None:
    """What is open: between which two, and the step that tells them apart; None where the class is decided."""
    first, *others = of.shares.values()
    if not others or (first.kind == "client_cache" and first.probability >= DECIDED):
        return None
    if first.probability < DECIDED:
        other = others[0].kind
        why = reasons.undecided(
            [(each.kind, each.probability, _figure(evidence, of, each)) for each in (first, others[0])]
        )
    else:
        near = {pair: share for pair, share in of.close.items() if first.kind in pair}
        pair, share = max(near.items(), key=lambda item: item[1], default=((first.kind, first.kind), 0.0))
        if share <= CLOSE_SHARE:
            return None
        other = pair[0] if pair[1] == first.kind else pair[1]
        why = reasons.too_close(first.kind, other, share)
    return Question(of.op, of.size, (first.kind, other), step_of((first.kind, other)), why)


def step_of(between: Sequence[str]) -> str:
    """The step of the ladder that tells two kinds apart."""
    return next((step for kind, step in SEPARATED_BY.items() if kind in between), "set")
