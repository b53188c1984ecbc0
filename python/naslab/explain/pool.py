"""Two judges, one probability: the rules' verdict and the fitted model's, pooled.

The rules (`judge.py`) know real servers and are certain too often; the model (`verdict.py`) weighs every rate and has
one idea of a server. They are wrong about different servers, so a limit is certain only where both speak for it: a
logarithmic opinion pool (Genest and Zidek 1986). What its probabilities are worth: docs/concepts/calibration.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from naslab.explain.evidence import Evidence
from naslab.explain.fitted import posterior_of
from naslab.explain.inference import RUNS
from naslab.explain.judge import Limit, Question, Verdict
from naslab.explain.points import Figure
from naslab.explain.rows import rows_of
from naslab.explain.steps import LARGE_RECORD
from naslab.explain.verdict import CLASSES, Ceiling, ClassVerdict, judge

MODEL_SHARE = 0.7
"""Weight of the model; the rules have the rest."""
FLOOR = 0.03
"""Probability that either judge leaves to what it does not name."""
DECIDED = 0.7
"""Below this probability of the first limit its class is open."""
MIN_SHOWN = 0.05
"""Limits that only the model names are listed from this probability on."""
SEPARATED_BY = {
    "link": "duplex", "server_cache": "duplex", "server_cpu": "small_depth", "client_cpu": "small_depth",
    "protocol": "connections", "latency": "depth", "disk": "set", "disk_iops": "set", "burst_credit": "long",
    "shared_machine": "connections",
}  # fmt: skip
"""The step that, measured longer, tells a kind from others."""


def pooled(evidence: Evidence, rules: Verdict, runs: int = RUNS) -> Verdict:
    """The verdict of both. A disk of this machine and the null target are the rules' alone: no server is there.

    runs: of the sampler; one takes a second or less, for who interrupted a run.
    """
    rows = None if evidence.local_disk or evidence.protocol == "null" else rows_of(evidence)
    if rows is None:
        return rules
    model = {(each.op, each.size): each for each in judge(rows, posterior_of(rows, runs))}
    found = Verdict(open=list(rules.open))
    for op, size in CLASSES:
        mine = [limit for limit in rules.limits if (limit.op, limit.size) == (op, size)]
        limits = _class(mine, shares_of(mine), model.get((op, size)))
        found.limits += limits
        question = _question(op, size, limits, rules.open)
        found.open += [question] if question else []
    return found


def _class(rules: Sequence[Limit], shares_of_rules: Mapping[str, float], model: ClassVerdict | None) -> list[Limit]:
    """The limits of one kind of I/O, the most probable first."""
    if model is None:
        return [dataclasses.replace(limit, confidence=(1 - MODEL_SHARE) * limit.confidence) for limit in rules]
    if not rules:
        return [_of_model(each, model, MODEL_SHARE * each.probability) for each in model.ceilings if _is_shown(each)]
    of_model = {each.kind: each for each in model.ceilings}
    shares = pool({kind: each.probability for kind, each in of_model.items()}, shares_of_rules)
    known = {limit.kind: limit for limit in rules}
    made = []
    for kind, share in shares.items():
        if kind in known:
            made.append(dataclasses.replace(known[kind], confidence=share))
        elif share >= MIN_SHOWN and kind in of_model:
            made.append(_of_model(of_model[kind], model, share))
    return sorted(made, key=lambda limit: -limit.confidence)


def pool(model: Mapping[str, float], rules: Mapping[str, float]) -> dict[str, float]:
    """The logarithmic pool of two distributions over kinds; sums to 1."""
    kinds = sorted({*model, *rules})
    raw = {
        kind: (model.get(kind, 0.0) + FLOOR) ** MODEL_SHARE * (rules.get(kind, 0.0) + FLOOR) ** (1 - MODEL_SHARE)
        for kind in kinds
    }
    whole = sum(raw.values())
    return {kind: each / whole for kind, each in raw.items()}


def _is_shown(ceiling: Ceiling) -> bool:
    return MODEL_SHARE * ceiling.probability >= MIN_SHOWN


def shares_of(rules: Sequence[Limit]) -> dict[str, float]:
    """Confidences of rules as probabilities: the first one's as it is, what is left divided among the others."""
    if not rules:
        return {}
    first, *others = sorted(rules, key=lambda limit: -limit.confidence)
    rest = sum(limit.confidence for limit in others)
    left = 1 - first.confidence
    return {first.kind: first.confidence, **{o.kind: left * o.confidence / rest for o in others if rest}}


def _of_model(ceiling: Ceiling, verdict: ClassVerdict, share: float) -> Limit:
    """A limit that only the model names."""
    value, low, high = ceiling.operations
    figure = Figure(value, low, high, "iops")
    if verdict.size == "large":
        figure = figure.scaled(LARGE_RECORD, "bytes_per_s")
    text = "a model of the server, fitted to all rates that were measured, has its lowest ceiling here"
    return Limit(ceiling.kind, verdict.op, verdict.size, share, figure, text)


def _question(op: str, size: str, limits: Sequence[Limit], asked: Sequence[Question]) -> Question | None:
    """What is open where no limit is probable enough; None where one is, or where the rules ask already."""
    if len(limits) < 2 or limits[0].confidence >= DECIDED or any((q.op, q.size) == (op, size) for q in asked):
        return None
    one, two = limits[0].kind, limits[1].kind
    step = SEPARATED_BY.get(two) or SEPARATED_BY.get(one) or "set"
    return Question(op, size, (one, two), step, "rules and the fitted model do not agree on one of them")
