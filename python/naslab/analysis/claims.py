"""An article's conclusions tested by what was measured: reproduced, contradicted, undecided, or not testable here.

The unit is the repeat: a claim compares numbers of the same block, in which every condition was measured once, so the
values are logarithms of paired ratios and what a block shares cancels. Each claim names a region that the true ratio
lies in when the article is right (`more`: above 1 + margin, `less`: below 1 / (1 + margin), `same`: between the two,
or a range of its own). Two one-sided t tests decide: all of the evidence inside the region is reproduced, outside is
contradicted. Exactly one of the two null hypotheses is true, so each may be tested at the full level (Finner &
Strassburger 2002, the partitioning principle). Over the claims of one experiment p values are adjusted by Holm (1979).
Repeats that are judged again and again until the answer is clear have the p values of `sequential.py` (`Looks`).

A job's rate that something else than the target limited is a lower bound of the target's: it shows that a rate is
reached, never that it is missed.

Nothing is decided with fewer than LEAST_REPEATS repeats, nor between samples from two sides of a guest's boundary:
the guest's processor is slower, so the difference would be the guest's.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from naslab.analysis import surface
from naslab.analysis.distributions import t_quantile
from naslab.analysis.families import holm
from naslab.analysis.intervals import LEVEL, detectable, p_above, p_below, p_binomial, t_interval
from naslab.analysis.quantities import Quantity, Sample, bounds_of, of_blocks, surfaces_of
from naslab.analysis.sequential import LOOKS, nominal_level, overall_p, repeats_needed
from naslab.units import size_label

Verdict = Literal["reproduced", "contradicted", "undecided", "too few repeats", "not testable here"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "contradicted", "undecided", "too few repeats", "not testable here")
KINDS = ("ratio", "order", "limit", "counts", "dips")
MARGIN = 0.05
LEAST_REPEATS = 3
MORE_REPEATS = f"at least {LEAST_REPEATS} are needed: use --until decided, or --repeat"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """One conclusion of an article, in our own words, and what would show it.

    kind: ratio (the first of `sides` over the second), order (each side over the one before), limit (the side over the
    limit's value), counts (the ratio of 1 + count, as a count may be 0), dips (how many the first has, against the
    second). region: (low, high) of the true ratio when the article is right; of dips only whether it lies above 1 or
    below counts. published: the same ratio in the article. not_testable: why it cannot be tested here at all.
    """

    id: str
    words: str
    place: str = ""
    kind: str = "ratio"
    sides: tuple[Quantity, ...] = ()
    region: tuple[float, float] = (1 + MARGIN, math.inf)
    limit: str = ""
    published: float | None = None
    not_testable: str = ""
    stand_in: str = ""


@dataclass(frozen=True)
class Contrast:
    """One ratio with its 95 % interval over n repeats. detectable: by what factor a true ratio must be away from the
    region's edge to be told from it in 80 of 100 cases; None where it was not computed."""

    words: str
    value: float
    low: float
    high: float
    n: int
    detectable: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a claim. why: one sentence. p: of the verdict, adjusted over the experiment; None without one.

    repeats_needed: of an undecided claim, in all, if its ratios stay as they are; infinite at the edge of its region;
    None where that is not known. bound: why rates were only bounds, in words; empty where they were not.
    """

    claim: Claim
    verdict: Verdict
    why: str
    p: float | None = None
    contrasts: tuple[Contrast, ...] = ()
    repeats_needed: float | None = None
    bound: str = ""

    @property
    def outlook(self) -> str:
        """`; about 16 repeats would decide it`, or why none would; empty where nothing is known."""
        endless = self.bound and self.repeats_needed == math.inf
        return f"; {self.bound}" if endless else needed_words(self.repeats_needed)


@dataclass
class Looks:
    """Earlier looks at repeats of one experiment that goes on until its claims are decided.

    planned: after which numbers of repeats the claims are judged, fixed before the first. smallest: by claim, the
    smallest p values of the looks so far: that its region holds, and that it does not.
    """

    planned: tuple[int, ...] = LOOKS
    smallest: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, claim: str, p_in: float, p_out: float) -> None:
        """Another look at a claim."""
        before = self.smallest.get(claim, (1.0, 1.0))
        self.smallest[claim] = min(before[0], p_in), min(before[1], p_out)

    def overall(self, claim: str) -> tuple[float, float]:
        """p values that count all planned looks."""
        p_in, p_out = self.smallest[claim]
        return overall_p(p_in, self.planned), overall_p(p_out, self.planned)


@dataclass(frozen=True)
class _Bound:
    """Rates of a ratio that are only bounds. above, below: whether the true ratio may lie there; why: in words."""

    above: bool = False
    below: bool = False
    why: str = ""


_KNOWN = _Bound()


@dataclass(frozen=True)
class _Evidence:
    """p_in: of `the region holds`; p_out: of `it does not`; reason: why nothing was decided; bound: of its ratios."""

    p_in: float = 1.0
    p_out: float = 1.0
    contrasts: tuple[Contrast, ...] = ()
    reason: str = ""
    verdict: Verdict = "undecided"
    bound: _Bound = _KNOWN


@dataclass(frozen=True)
class Measured:
    """What claims are judged by. limits: by name in bytes per second or bytes, of a condition where it is known for
    one alone (`condition/name`). missing: why a condition was not measured, by its id.
    """

    samples: Sequence[Sample]
    limits: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    def limit(self, name: str, condition: str) -> float | None:
        """The limit that a condition has."""
        return self.limits.get(f"{condition}/{name}", self.limits.get(name))


def judge(
    claims: Sequence[Claim], measured: Measured, looks: Looks | None = None, look: bool = False
) -> list[Outcome]:  # fmt: skip
    """All claims of one experiment, in order, p values adjusted over those that were tested.

    looks: of repeats that are judged more than once; only what a planned look showed counts. look: this is one.
    """
    evidence = [_evidence(claim, measured) for claim in claims]
    if looks is not None:
        evidence = [_of_looks(claim, found, looks, look) for claim, found in zip(claims, evidence, strict=True)]
    tested = [at for at, found in enumerate(evidence) if not found.reason]
    adjusted = dict(zip(tested, holm([min(evidence[at].p_in, evidence[at].p_out) for at in tested]), strict=True))
    open_ = sum(p > LEVEL for p in adjusted.values())
    return [_outcome(claim, evidence[at], adjusted.get(at), looks, open_) for at, claim in enumerate(claims)]


def _of_looks(claim: Claim, found: _Evidence, looks: Looks, look: bool) -> _Evidence:
    """The evidence with p values over all looks so far."""
    if found.reason:
        return found
    if look:
        looks.add(claim.id, found.p_in, found.p_out)
    if claim.id not in looks.smallest:
        return dataclasses.replace(
            found,
            verdict="too few repeats",
            reason=f"the run ended before the first look, at {looks.planned[0]} repeats",
        )
    p_in, p_out = looks.overall(claim.id)
    return dataclasses.replace(found, p_in=p_in, p_out=p_out)


def _evidence(claim: Claim, measured: Measured) -> _Evidence:
    if claim.not_testable:
        return _Evidence(reason=claim.not_testable, verdict="not testable here")
    names = list(dict.fromkeys(side.condition for side in claim.sides))
    for name in names:
        if name in measured.missing:
            return _Evidence(reason=f"{name} was not measured: {measured.missing[name]}", verdict="not testable here")
    places = {sample.place for sample in measured.samples if sample.condition in names}
    if len(places) > 1:
        reason = f"{' and '.join(names)} were measured on two sides of a guest's boundary ({', '.join(sorted(places))})"
        return _Evidence(reason=reason, verdict="not testable here")
    found = {"ratio": _ratio, "order": _order, "limit": _limit, "counts": _counts, "dips": _dips}[claim.kind](
        claim, measured
    )
    if found.verdict != "too few repeats":
        return found
    blocks = [{sample.block for sample in measured.samples if sample.condition == name} for name in names]
    if min(map(len, blocks)) >= LEAST_REPEATS:  # there are repeats, without what the claim is about
        return dataclasses.replace(found, verdict="undecided")
    return dataclasses.replace(found, reason=f"{found.reason}; {MORE_REPEATS}")


def _paired(one: Mapping[int, float], other: Mapping[int, float]) -> Floats:
    """Log ratios of the blocks that both have."""
    return np.array([math.log(one[block] / other[block]) for block in sorted(one.keys() & other.keys())])


def _too_few(logs: Floats, words: str) -> _Evidence | None:
    if len(logs) >= LEAST_REPEATS:
        return None
    count = f"{len(logs)} {'repeat' if len(logs) == 1 else 'repeats'}"
    values: tuple[Contrast, ...] = ()
    if len(logs):
        value = math.exp(float(np.mean(logs)))
        values = (Contrast(words, value, math.nan, math.nan, len(logs)),)
    return _Evidence(contrasts=values, reason=f"{count} with all its numbers", verdict="too few repeats")


def _ratio(claim: Claim, measured: Measured) -> _Evidence:
    one, other = (of_blocks(side, measured.samples) for side in claim.sides)
    return _tested(claim, _paired(one, other), _between(*claim.sides), _bound(claim.sides, measured.samples))


def _bound(sides: Sequence[Quantity], samples: Sequence[Sample]) -> _Bound:
    """What is known of rates that something else than the target limited, in any repeat. sides: of, and to if any."""
    found = [bounds_of(side, samples) for side in sides]
    told = []
    for side, blocks in zip(sides, found, strict=True):
        if blocks:
            count = len(of_blocks(side, samples))
            where = f" ({len(blocks)} of {count} repeats)" if len(blocks) < count else ""
            told.append(blocks[min(blocks)] + where)
    return _Bound(bool(found[0]), any(map(bool, found[1:])), "; ".join(dict.fromkeys(told)))


def _counts(claim: Claim, measured: Measured) -> _Evidence:
    """Counts of events; the unit is the repeat, however many events it has, since those of one repeat belong together.

    Where no event came on either side, none may come the next time either, or some: that decides nothing.
    """
    one, other = (
        {block: 1 + count for block, count in of_blocks(side, measured.samples, 0).items()} for side in claim.sides
    )
    found = _tested(claim, _paired(one, other), f"1 + count of {_between(*claim.sides)}")
    if max((*one.values(), *other.values()), default=1) > 1:
        return found
    return dataclasses.replace(found, p_in=1.0, p_out=1.0)


def _limit(claim: Claim, measured: Measured) -> _Evidence:
    side = claim.sides[0]
    limit = measured.limit(claim.limit, side.condition)
    if limit is None:
        return _Evidence(reason=f"the limit {claim.limit!r} is not known", verdict="not testable here")
    logs = np.array([math.log(value / limit) for value in of_blocks(side, measured.samples).values()])
    return _tested(claim, logs, f"{side.condition} / {claim.limit}", _bound(claim.sides, measured.samples))


def _between(one: Quantity, other: Quantity) -> str:
    """What a ratio is of, in a few words: what differs between its sides."""
    if one.condition != other.condition:
        return f"{one.condition} / {other.condition}"
    paths = [" ".join(side.value.split(".")[-2:]) for side in (one, other)]
    names = [
        [side.test, path, side.take, *map(_said, side.where.items())]
        for side, path in zip((one, other), paths, strict=True)
    ]
    words = [" ".join(word for word in mine if word not in theirs) for mine, theirs in (names, names[::-1])]
    return f"{one.condition}: {words[0] or 'the same'} / {words[1] or 'the same'}"


def _said(where: tuple[str, Any]) -> str:
    """`16 MiB files`, `4 KiB records or less`, `write`."""
    key, wanted = where
    if not isinstance(wanted, tuple):
        return str(wanted)
    low, high = (size_label(end) if key in ("file", "record") else str(end) for end in wanted)
    open_ends = wanted[0] <= 0, wanted[1] >= (1 << 62)
    told = low if wanted[0] == wanted[1] else f"{low} to {high}"
    if any(open_ends):
        told = f"{high} or less" if open_ends[0] else f"{low} or more"
    return f"{told} {key}s" if key in ("file", "record") else f"{key} {told}"


def _tested(claim: Claim, logs: Floats, words: str, bound: _Bound = _KNOWN) -> _Evidence:
    few = _too_few(logs, words)
    if few:
        return few
    p_in, p_out = _p_values(logs, claim.region, bound)
    return _Evidence(p_in, p_out, (_contrast(logs, words),), bound=bound)


def _contrast(logs: Floats, words: str) -> Contrast:
    value, low, high = (math.exp(one) for one in t_interval(logs))
    return Contrast(words, value, low, high, len(logs), math.exp(detectable(logs)))


def _p_values(logs: Floats, region: tuple[float, float], bound: _Bound) -> tuple[float, float]:
    """(p_in, p_out) of a region of ratios; an end of 0 or infinity is open.

    A ratio that may truly be higher is no evidence of being below an end, one that may be lower none of being above.
    """
    low, high = (math.log(end) if end > 0 else -math.inf for end in region)
    above = [1.0 if bound.below and math.isfinite(end) else p_above(logs, end) for end in (low, high)]
    below = [1.0 if bound.above and math.isfinite(end) else p_below(logs, end) for end in (low, high)]
    outside = [below[0]] * math.isfinite(low) + [above[1]] * math.isfinite(high)
    return max(above[0], below[1]), min(len(outside) * min(outside), 1.0)


def _order(claim: Claim, measured: Measured) -> _Evidence:
    """Every neighbour is tested: all must hold (intersection-union, no adjustment), one that does not is enough."""
    values = [of_blocks(side, measured.samples) for side in claim.sides]
    p_in, p_out, contrasts, bounds = [], [], [], []
    for at in range(1, len(values)):
        words = _between(claim.sides[at], claim.sides[at - 1])
        logs = _paired(values[at], values[at - 1])
        few = _too_few(logs, words)
        if few:
            return few
        bounds.append(_bound((claim.sides[at], claim.sides[at - 1]), measured.samples))
        inside, outside = _p_values(logs, claim.region, bounds[-1])
        p_in.append(inside)
        p_out.append(outside)
        contrasts.append(_contrast(logs, words))
    why = "; ".join(dict.fromkeys(each.why for each in bounds if each.why))
    whole = _Bound(any(each.above for each in bounds), any(each.below for each in bounds), why)
    return _Evidence(max(p_in), min(min(p_out) * len(p_out), 1.0), tuple(contrasts), bound=whole)


def _dips(claim: Claim, measured: Measured) -> _Evidence:
    """Dips of the first against those of the second: the exact sign test, dips that do not touch as independent."""
    counts, repeats = [], []
    for side in claim.sides:
        found = surfaces_of(side, measured.samples)
        repeats.append(len(found[2]) if found else 0)
        counts.append(len(surface.dips(found[2], found[0], found[1])) if found else 0)
    if min(repeats) < LEAST_REPEATS:
        return _Evidence(reason=f"{min(repeats)} repeats of it; a dip needs {LEAST_REPEATS}", verdict="too few repeats")
    one, other = counts if claim.region[0] >= 1 else counts[::-1]
    words = f"dips: {claim.sides[0].condition} {counts[0]}, {claim.sides[1].condition} {counts[1]}"
    share = counts[0] / counts[1] if counts[1] else math.inf if counts[0] else 1.0
    contrast = Contrast(words, share, math.nan, math.nan, min(repeats))
    return _Evidence(p_binomial(one, one + other), p_binomial(other, one + other), (contrast,))


def _outcome(
    claim: Claim, found: _Evidence, adjusted: float | None, looks: Looks | None = None, open_: int = 1
) -> Outcome:  # fmt: skip
    if adjusted is None:
        return Outcome(claim, found.verdict, found.reason, None, found.contrasts)
    verdict: Verdict = "undecided"
    if adjusted <= LEVEL:
        verdict = "reproduced" if found.p_in < found.p_out else "contradicted"
    needed = _needed(claim, found, looks, open_) if verdict == "undecided" else None
    why = _why(claim, verdict, found, adjusted, needed)
    return Outcome(claim, verdict, why, adjusted, found.contrasts, needed, found.bound.why)


def _needed(claim: Claim, found: _Evidence, looks: Looks | None, open_: int) -> float | None:
    """Repeats that would decide a claim in 80 of 100 cases, with the ratios and spreads of the repeats so far.

    All ratios inside the region: the slowest of them; else the one outside that is told first. Infinite where only a
    bound of the ratio is known, on the other side of an end.
    """
    level = LEVEL / max(open_, 1)
    level = level if looks is None else nominal_level(level, looks.planned)
    low, high = (math.log(end) if end > 0 else -math.inf for end in claim.region)
    inside: list[float] = []
    outside: list[float] = []
    for each in found.contrasts:
        if each.n < LEAST_REPEATS or math.isnan(each.low):
            return None
        middle = math.log(each.value)
        if found.bound.above and (middle < low or middle < high < math.inf):
            return math.inf
        if found.bound.below and (middle > high or middle > low > -math.inf):
            return math.inf
        error = math.log(each.high / each.low) / 2 / t_quantile(1 - LEVEL / 2, each.n - 1)
        spread = error * math.sqrt(each.n)
        distance, both = min(middle - low, high - middle), math.isfinite(low) and math.isfinite(high)
        count = repeats_needed(abs(distance), spread, level, both=both and distance > 0)
        (inside if distance > 0 else outside).append(max(count, each.n + 1))
    return min(outside) if outside else max(inside, default=None)


def _why(claim: Claim, verdict: Verdict, found: _Evidence, p: float, needed: float | None = None) -> str:
    told = "; ".join(_told(contrast) for contrast in found.contrasts)
    said = f" (published {claim.published:.3g})" if claim.published is not None else ""
    chance = "p below 0.0001" if p < 0.0001 else f"p {p:.2g}"
    expected = f"expected {region_words(claim)}{said}"
    if verdict != "undecided":
        return f"{told}; {expected}; {chance}, adjusted over the experiment"
    if found.bound.why and needed == math.inf:
        ways = " or ".join(word for word, may in (("higher", found.bound.above), ("lower", found.bound.below)) if may)
        return f"{found.bound.why}; {told}; {expected}. The target's own ratio may be {ways}, so this decides nothing"
    reach = max((contrast.detectable or 1.0 for contrast in found.contrasts), default=1.0)
    if reach <= 1.0:
        return f"{told}; {expected}; {chance}: too few for a verdict"
    return (
        f"{told}; {expected}; {chance}. With these repeats a true ratio is separated from the edge if it is "
        f"{reach:.2f} times or more away from it{needed_words(needed)}"
    )


MOST_REPEATS = 1000
"""More are not worth a number."""


def needed_words(needed: float | None) -> str:
    """`; about 16 repeats would decide it`, from `Outcome.repeats_needed`; empty where nothing is known."""
    if needed is None:
        return ""
    if needed > MOST_REPEATS:
        return "; the ratio is too close to the edge for any number of repeats"
    return f"; about {math.ceil(needed)} repeats would decide it"


def _told(contrast: Contrast) -> str:
    if math.isnan(contrast.low):
        return contrast.words
    return (
        f"{contrast.words} = {contrast.value:.3g} (95 %: {contrast.low:.3g} to {contrast.high:.3g}, n = {contrast.n})"
    )


def region_words(claim: Claim) -> str:
    """The region in words: `above 1.05`, `0.95 to 1.05`."""
    low, high = claim.region
    if claim.kind == "dips":
        return "more dips" if low >= 1 else "fewer dips"
    if math.isinf(high):
        return f"above {low:.3g}"
    return f"below {high:.3g}" if low <= 0 else f"{low:.3g} to {high:.3g}"


def identical(samples: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """Pairs of samples of one test whose throughputs are the same, number for number, in two cells or more: a copy."""
    seen: dict[tuple[str, tuple[float, ...]], Sample] = {}
    pairs = []
    for sample in samples:
        rates = tuple(float(cell.get("throughput_bytes_per_s") or 0) for cell in sample.document.get("cells", ()))
        if sum(rate > 0 for rate in rates) < 2:
            continue
        first = seen.setdefault((sample.test, rates), sample)
        if first is not sample:
            pairs.append((first, sample))
    return pairs
