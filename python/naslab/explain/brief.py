"""The answer of a run in ten lines, as data: what limits each thing that people do, whether that is normal, what to
change and what that would bring, how far to trust it.

It is kept with the run (`answer`), and made into words by `brief_words.py`: at the end of `naslab run`, by `show`,
`explain` and the report alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from naslab.explain import tell, trust
from naslab.explain.conclusion import step_of
from naslab.explain.evidence import Evidence
from naslab.explain.experiment import experiment
from naslab.explain.fitted import Fitted, fit
from naslab.explain.gains import Gain, gains, ranked
from naslab.explain.inference import RUNS
from naslab.explain.normal import Normal, normal
from naslab.explain.steps import LADDER_SHARE, LARGE_RECORD
from naslab.results.numbers import is_number

Document = Mapping[str, Any]
MIN_MINUTES = 5
"""The least budget that is advised."""
WORTH_CONNECTIONS = 1.15
"""Several connections that reach this many times the rate of one are worth using."""
COSTLY = 0.95
"""Protection that leaves less than this share of the rate is worth a sentence."""
IMPOSSIBLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a model of numbers that nobody can have measured ends in: files of runs can be changed by hand."""


class Named(msgspec.Struct, frozen=True):
    """A limit that may be the bottleneck. probability: after the run's conditions have lowered it."""

    kind: str
    probability: float


class Bottleneck(msgspec.Struct, frozen=True):
    """Of one kind of I/O: what limits it, the first the most probable; several where that is not clear.

    value: as measured; modelled: as the fitted model has it, for nothing was. ceiling: of the first limit by the model,
    where it was not reached.
    """

    op: str
    size: str
    value: float
    unit: str
    ci95: tuple[float, float] | None
    limits: tuple[Named, ...]
    ceiling: float | None = None
    modelled: bool = False

    @property
    def decided(self) -> bool:
        """Whether one limit is probable enough to be named alone."""
        return self.limits[0].probability >= tell.DECIDED


class Measured(msgspec.Struct, frozen=True):
    """A gain in large reads, in bytes/s, that was measured and not predicted. kind: connections, signed, encrypted."""

    kind: str
    now: float
    then: float
    count: int = 0


class Work(msgspec.Struct, frozen=True):
    """An application that was measured: its rate, and what it takes at its own pace, both in bytes/s."""

    name: str
    rate: float
    needs: float | None = None


class Question(msgspec.Struct, frozen=True):
    """Two limits that are not told apart, and arguments of naslab that would tell; TARGET stands for the target."""

    op: str
    size: str
    between: tuple[str, str]
    command: str


class Brief(msgspec.Struct, frozen=True):
    """The answer. place: what the target is called. gains: by the fitted model, those that help first.

    doubts: conditions of the run; trust: `high`, `fair` or `low`. model: what judged. work: of `naslab run --apps`, the
    slowest first.
    """

    place: str
    bottlenecks: tuple[Bottleneck, ...]
    normal: tuple[Normal, ...]
    gains: tuple[Gain, ...]
    measured: tuple[Measured, ...]
    questions: tuple[Question, ...]
    trust: str
    doubts: tuple[str, ...]
    model: str = ""
    work: tuple[Work, ...] = ()


def stored(document: Document) -> Brief | None:
    """The answer that is kept with a run; None where there is none, or where its part is no answer."""
    try:
        return msgspec.convert(document["answer"], Brief)
    except (LookupError, msgspec.ValidationError):
        return None


def brief_of(
    document: Document, limits: Sequence[Mapping[str, Any]], open_: Sequence[Mapping[str, Any]], predict: bool = True
) -> Brief:  # fmt: skip
    """The answer of a run. limits, open_: as in a verdict and a ladder; the run's conditions lower the probabilities.

    predict: asks the fitted model what changes would bring, which takes seconds where it was not fitted yet.
    """
    doubts = trust.doubts(document, limits)
    found = tuple(_bottlenecks(trust.lowered(limits, doubts)))
    evidence = _evidence(document)
    fitted = _fitted(document, evidence) if predict and found else None
    return Brief(
        place(document), found, tuple(_normal(document, found)), _gains(fitted, found),
        tuple(_measured(evidence, found)) if evidence else (), tuple(_questions(document, open_)), trust.level(doubts),
        tuple(doubt.text for doubt in doubts), _model(document), tuple(_work(document)),
    )  # fmt: skip


def place(document: Document) -> str:
    """What a person calls the target."""
    conditions = (document.get("ladder") or {}).get("conditions") or {}
    protocol = str((document.get("target") or {}).get("protocol") or "")
    if conditions.get("local_disk"):
        return "this disk"
    return "this folder" if protocol == "local" else "the null target" if protocol == "null" else "the NAS"


def _model(document: Document) -> str:
    return str((((document.get("ladder") or {}).get("model")) or {}).get("version") or "")


def _evidence(document: Document) -> Evidence | None:
    """What the ladder measured; None without one, or where its numbers are impossible."""
    try:
        return Evidence.from_document(document["ladder"])
    except IMPOSSIBLE:
        return None


def _fitted(document: Document, evidence: Evidence | None) -> Fitted | None:
    if evidence is None or evidence.protocol == "null":
        return None
    try:
        return fit(evidence, 1 if trust.ended_early(document) else RUNS)
    except IMPOSSIBLE:
        return None


def _bottlenecks(limits: Sequence[Mapping[str, Any]]) -> Iterator[Bottleneck]:
    """Of each kind of I/O that the verdict tells of."""
    for (op, size), of in tell.by_class(limits).items():
        first = of[0]
        if (op, size) not in tell.CLASSES or not is_number(first.get("value")):
            continue
        several = [*tell.leaders(of), *of[1:]] if float(first.get("confidence") or 0.0) < tell.DECIDED else of[:1]
        named = {str(limit["kind"]): float(limit.get("confidence") or 0.0) for limit in several[:2]}
        value, ends = float(first["value"]), first.get("ci95")
        # Less than the ceiling, or more than credit will leave.
        seen = float(first["measured"]) if is_number(first.get("measured")) else None
        # Of random reads that the cache answers in part, the part that reached the disks is no rate that anybody sees.
        reached = seen is not None and (op, str(first.get("kind"))) != ("read", "disk_iops")
        yield Bottleneck(
            op, size, seen if seen is not None and reached else value, str(first.get("unit") or ""),
            tuple(ends) if ends and not reached else None,
            tuple(Named(kind, share) for kind, share in named.items()),
            value if reached else None, "measured" in first and not reached,
        )  # fmt: skip


def _work(document: Document) -> list[Work]:
    """The applications of the run, the slowest first."""
    found = [
        Work(str(each.get("name")), float(each["median_bytes_per_s"]), each.get("needs_bytes_per_s"))
        for each in (document.get("apps") or {}).get("results") or () if each.get("median_bytes_per_s")
    ]  # fmt: skip
    return sorted(found, key=lambda each: each.rate)


def _normal(document: Document, found: Sequence[Bottleneck]) -> Iterator[Normal]:
    for each in found:
        if each.size == "large":
            yield normal(document, each.op, each.value, each.limits[0].kind, each.decided)


def _gains(fitted: Fitted | None, found: Sequence[Bottleneck]) -> tuple[Gain, ...]:
    if fitted is None:
        return ()
    try:
        helping, others = ranked(gains(fitted, {(each.op, each.size): each.value for each in found}))
    except IMPOSSIBLE:
        return ()
    return (*helping, *others)


def _measured(evidence: Evidence, found: Sequence[Bottleneck]) -> Iterator[Measured]:
    """What several connections, or less protection, brought when it was tried."""
    one, many = evidence.large, evidence.many(LARGE_RECORD)
    reads = next((each for each in found if (each.op, each.size) == ("read", "large")), None)
    beyond = reads is not None and one is not None and reads.value < one.rate.value / WORTH_CONNECTIONS
    if one and many and not beyond and many.rate.low >= WORTH_CONNECTIONS * one.rate.high:
        yield Measured("connections", one.rate.value, many.rate.value, many.workers)
    ways = evidence.by_way()
    for name, less in (("encrypted", "signed"), ("signed", "plain")):
        with_it, without = ways.get(name), ways.get("plain") or ways.get(less)
        if with_it and without and with_it is not without and with_it.high < COSTLY * without.low:
            yield Measured(name, with_it.value, without.value)


def _questions(document: Document, open_: Sequence[Mapping[str, Any]]) -> Iterator[Question]:
    """Open questions, with commands that do not name the target: more time where the ladder had too little."""
    ladder = document.get("ladder") or {}
    longer = ladder.get("stopped") in ("budget", "slow", "interrupted", "failed") or trust.ended_early(document)
    for each in open_:
        where, between = each.get("applies_to") or {}, [str(kind) for kind in each.get("between") or []]
        if len(between) == 2:
            op, size = str(where.get("op") or ""), str(where.get("size") or "")
            other = experiment(step_of(between), size, "TARGET")["command"]
            yield Question(op, size, (between[0], between[1]), _more_time(ladder) if longer else str(other))


def _more_time(ladder: Mapping[str, Any]) -> str:
    """The same run with twice the budget, at least five minutes."""
    budget_ns = ladder.get("budget_ns")
    minutes = 2 * int(budget_ns / LADDER_SHARE) // 60_000_000_000 if is_number(budget_ns) else 0
    return f"naslab run TARGET --budget {max(minutes, MIN_MINUTES)}m"
