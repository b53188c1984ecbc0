"""The verdict on two sides: every measurement they share, all together, and what makes it doubtful.

Repeats are paired where the runs were measured in turns (`interleaved` of the document), block by block; else they are
two samples that time may have moved apart, and the verdict says so. Over the measurements p values are adjusted: by
Holm for few, by Benjamini and Hochberg for a surface. The overall ratio is the geometric mean over the measurements,
each repeat giving one, so its interval knows that the cells of a repeat are alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from naslab.analysis import ratios
from naslab.analysis.intervals import LEVEL
from naslab.analysis.ratios import Control, Judged, Ratio
from naslab.comparison.conditions import differences
from naslab.comparison.doubts import doubts_of
from naslab.comparison.ranges import over_ranges
from naslab.comparison.split import sentences
from naslab.comparison.why import Why
from naslab.comparison.words import sentence
from naslab.results.describe import typed
from naslab.results.measurements import HIGHER, Block, Document, Key, Measure, Side
from naslab.results.parts.split import ClientSplit

MARGINS: dict[Measure, float] = {
    "throughput": ratios.RATE_MARGIN,
    "iops": ratios.RATE_MARGIN,
    "capacity": ratios.RATE_MARGIN,
    "p50": ratios.LATENCY_MARGIN,
    "p99": ratios.LATENCY_MARGIN,
}
RATES: tuple[Measure, ...] = ("throughput", "iops", "capacity")
Keys = tuple[Key, Key]
"""One measurement as each side has it."""
SURFACE_FROM = 20
"""So many measurements are a surface, whose false calls are kept a small share instead of nearly impossible."""


@dataclass(frozen=True)
class Row:
    """One measurement. one, other: medians of the repeats, in the measure's unit. judged: the second side over the
    first, in its family."""

    key: Key
    one: float
    other: float
    judged: Judged


@dataclass(frozen=True)
class Doubt:
    """What a reader must know before believing the verdict. kind: one word for programs."""

    kind: str
    message: str


@dataclass(frozen=True)
class Comparison:
    """overall: of all rates together, None when nothing is shared. by_op: the same for each operation. why: where the
    ladders of both sides part, when that was asked for. says: what is known of just these runs, in sentences."""

    names: tuple[str, str]
    paired: bool
    repeats: tuple[int, int]
    rows: Sequence[Row]
    overall: Judged | None
    by_op: Mapping[str, Judged]
    control: Control
    doubts: Sequence[Doubt] = field(default_factory=tuple)
    why: Why | None = None
    says: Sequence[str] = field(default_factory=tuple)

    @property
    def verdict(self) -> Literal["better", "worse", "equivalent", "undecided"]:
        """Of the second side against the first, over all rates. No verdict is undecided."""
        return (self.overall.verdict if self.overall else None) or "undecided"

    @property
    def ratio(self) -> float | None:
        """Of all rates together, the second side over the first; None when nothing is shared."""
        return self.overall.ratio.value if self.overall else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of 95 %, of the ratio; 0 to infinity where no spread is known."""
        return (self.overall.ratio.low, self.overall.ratio.high) if self.overall else None

    @property
    def sentence(self) -> str:
        """The verdict in words, with its interval and its repeats."""
        return sentence(self)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.says, *(doubt.message for doubt in self.doubts)])


def compare(
    one: Sequence[Document], other: Sequence[Document], names: tuple[str, str], margin: float | None = None
) -> Comparison:
    """The second side against the first, the baseline. margin: of rates, instead of 5 %."""
    one, other = over_ranges(one, other), over_ranges(other, one)
    pair = _Pair(Side.of(one), Side.of(other))
    shared, loose = pair.shared()
    margins = MARGINS if margin is None else {**MARGINS, **dict.fromkeys(RATES, margin)}
    found = [(keys, ratio) for keys in shared if (ratio := pair.ratio(keys, margins[keys[0].measure]))]
    control: Control = "fdr" if len(found) >= SURFACE_FROM else "holm"
    rates = [keys for keys in shared if keys[0].measure in RATES]
    overall = pair.together(rates, margins["throughput"])
    ops = dict.fromkeys(str(keys[0].fields().get("op")) for keys in rates)
    by_op = {
        op: pair.together([k for k in rates if k[0].fields().get("op") == op], margins["throughput"]) for op in ops
    }
    told = {op: ratio for op, ratio in by_op.items() if ratio}
    doubts = (*differences(one, other, loose), *doubts_of(pair.sides, pair.paired, shared))
    return Comparison(
        names,
        pair.paired,
        (pair.repeats(0), pair.repeats(1)),
        _rows(found, pair, control),
        ratios.judge([overall], higher=True)[0] if overall else None,
        dict(zip(told, ratios.judge(list(told.values()), higher=True), strict=True)),
        control,
        [Doubt(*doubt) for doubt in doubts],
        says=_both_ways(one, other),
    )


def _both_ways(one: Sequence[Document], other: Sequence[Document]) -> Sequence[str]:
    """What a mount against naslab's own client at its server says of the kernel's client; nothing for other runs."""
    if len(one) != 1 or len(other) != 1:
        return ()
    found = other[0].get("client_split") or {}
    is_its_own = "own" in found and found["own"]["run_id"] == one[0]["run_id"]
    return tuple(sentences(typed(found, ClientSplit).cells)) if is_its_own else ()


class _Pair:
    """Two sides. paired: they are one run each, measured in turns; level: of the looks that were taken at them."""

    def __init__(self, one: Side, other: Side) -> None:
        self.sides = (one, other)
        marks = [document.get("interleaved") or {} for side in self.sides for document in side.documents]
        self.paired = len(marks) == 2 and "id" in marks[0] and marks[0]["id"] == marks[1].get("id")
        self.level = float(marks[0]["level"]) if self.paired else LEVEL

    def shared(self) -> tuple[list[Keys], list[Keys]]:
        """(measurements of both sides, those of them whose conditions differ), in the first side's order."""
        one, other = self.sides
        same = [(key, key) for key in one.values if key in other.values]
        rest = one.loose(key for key in one.values if key not in other.values)
        others = other.loose(key for key in other.values if key not in one.values)
        loose = [(key, others[bare]) for bare, key in rest.items() if bare in others]
        return same + loose + self._untold(same + loose), loose

    def _untold(self, taken: Sequence[Keys]) -> list[Keys]:
        """Further measurements that are alike but for what the source of a foreign run does not tell."""
        one, other = self.sides
        untold = one.untold() | other.untold()
        if not untold:
            return []
        gone = {key for keys in taken for key in keys}
        mine, theirs = (side.loose((key for key in side.values if key not in gone), untold) for side in self.sides)
        return [(key, theirs[bare]) for bare, key in mine.items() if bare in theirs]

    def repeats(self, at: int) -> int:
        """Most repeats that a measurement of this side has."""
        return max((len(blocks) for blocks in self.sides[at].values.values()), default=0)

    def medians(self, keys: Keys) -> tuple[float, float]:
        """Of the repeats of each side."""
        one, other = (float(np.median(list(values.values()))) for values in self._of(keys))
        return one, other

    def ratio(self, keys: Keys, margin: float) -> Ratio | None:
        """The second side over the first; None when they have no repeat in common."""
        return self._compare(*self._of(keys), margin)

    def together(self, pairs: Sequence[Keys], margin: float) -> Ratio | None:
        """The geometric mean over measurements, of the repeats that have all of them.

        Runs that plan as they go (`naslab run`) do not all measure the same: where too few repeats have every
        measurement, those count that every repeat has.
        """
        if not pairs:
            return None
        one, other = zip(*map(self._of, pairs), strict=True)
        if min(len(_shared_blocks(one)), len(_shared_blocks(other))) < ratios.LEAST_REPEATS:
            whole = [frozenset().union(*side) for side in (one, other)]
            kept = [keys for keys in pairs if tuple(map(frozenset, self._of(keys))) == tuple(whole)]
            one, other = zip(*map(self._of, kept or pairs), strict=True)
        return self._compare(_mean_by_block(one), _mean_by_block(other), margin)

    def _of(self, keys: Keys) -> tuple[Mapping[Block, float], Mapping[Block, float]]:
        return self.sides[0].values[keys[0]], self.sides[1].values[keys[1]]

    def _compare(self, one: Mapping[Block, float], other: Mapping[Block, float], margin: float) -> Ratio | None:
        if self.paired:
            blocks = sorted(one.keys() & other.keys())
            one, other = ({block: side[block] for block in blocks} for side in (one, other))
        if not one or not other:
            return None
        way = ratios.paired if self.paired else ratios.unpaired
        return way(np.array(list(other.values())), np.array(list(one.values())), margin, self.level)


def _rows(found: Sequence[tuple[Keys, Ratio]], pair: _Pair, control: Control) -> list[Row]:
    judged: dict[int, Judged] = {}
    for higher in (True, False):
        at = [i for i, (keys, _) in enumerate(found) if HIGHER[keys[0].measure] == higher]
        family = ratios.judge([found[i][1] for i in at], higher=higher, control=control)
        judged.update(zip(at, family, strict=True))
    rows = [Row(keys[0], *pair.medians(keys), judged[i]) for i, (keys, _) in enumerate(found)]
    return sorted(rows, key=lambda row: row.key.order())


def _mean_by_block(values: Sequence[Mapping[Block, float]]) -> dict[Block, float]:
    """The geometric mean of each repeat that all measurements have."""
    blocks = sorted(_shared_blocks(values))
    return {block: math.exp(sum(math.log(by[block]) for by in values) / len(values)) for block in blocks}


def _shared_blocks(values: Sequence[Mapping[Block, float]]) -> set[Block]:
    return set.intersection(*(set(by_block) for by_block in values))
