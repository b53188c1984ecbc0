"""Why a comparison may be wrong although its numbers are right: few repeats, time, order, runs counted twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.intervals import t_below
from naslab.analysis.ratios import LEAST_REPEATS
from naslab.compare.collect import Block, Key, Side

WARN_BELOW = 5
LEAST_DRIFT, DRIFT_P = 0.03, 0.01
"""A course over the repeats counts from so much between first and last, and only when it is hardly chance."""
LEAST_FOR_COURSE = 6


def doubts_of(sides: tuple[Side, Side], paired: bool, shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of each, the weightiest first."""
    if not shared:
        yield "nothing_shared", "the two sides have no measurement in common: no cell asks the same of both"
        return
    yield from _repeats(sides, shared)
    yield from _twice(sides, shared)
    if not paired:
        text = "the sides were measured one after the other: what changed in between counts as their difference"
        yield "not_interleaved", f"{text}; `naslab compare --run` measures them in turns"
    for name, side, at in (("first", sides[0], 0), ("second", sides[1], 1)):
        yield from _drift(name, side, [pair[at] for pair in shared], paired)
    if paired:
        yield from _order(sides, shared)
    for name, side in (("first", sides[0]), ("second", sides[1])):
        if side.left_out:
            cells = f"{side.left_out} {'cell' if side.left_out == 1 else 'cells'}"
            yield "left_out", f"{cells} of the {name} side failed or ended early and are left out"


def _repeats(sides: tuple[Side, Side], shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    least = min(min(len(sides[at].values[pair[at]]) for pair in shared) for at in (0, 1))
    if least < LEAST_REPEATS:
        count = f"{least} {'repeat' if least == 1 else 'repeats'}"
        yield "few_repeats", f"{count} on a side: no verdict from fewer than {LEAST_REPEATS}; measure with --repeat 5"
    elif least < WARN_BELOW:
        yield "few_repeats", f"{least} repeats on a side: only large differences can be seen; --repeat 10 sees more"


def _twice(sides: tuple[Side, Side], shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    """Repeats with exactly the same numbers: one run counted twice, or a clock that does not tell."""
    seen: dict[tuple[float, ...], str] = {}
    for at, name in ((0, "first"), (1, "second")):
        keys = [pair[at] for pair in shared]
        for block in _blocks(sides[at], keys):
            told = tuple(sides[at].values[key].get(block, math.nan) for key in keys)
            if len(told) < 2 or any(map(math.isnan, told)):
                continue
            here = f"repeat {block[1] + 1} of the {name} side"
            if told in seen:
                yield "duplicate", f"{here} has exactly the numbers of {seen[told]}: is one run counted twice?"
            seen.setdefault(told, here)


def _blocks(side: Side, keys: Sequence[Key]) -> list[Block]:
    return sorted({block for key in keys for block in side.values[key]})


def _course(side: Side, keys: Sequence[Key]) -> tuple[list[Block], NDArray[np.float64]]:
    """Blocks in the order they were measured, and the mean log over the rates that all of them have."""
    rates = [side.values[key] for key in keys if key.measure in ("throughput", "iops")]
    blocks = [block for block in _blocks(side, keys) if all(block in by for by in rates)]
    blocks.sort(key=lambda block: side.start_ns.get(block, 0))
    logs = [float(np.mean([math.log(by[block]) for by in rates])) for block in blocks] if rates else []
    return (blocks, np.array(logs)) if rates else ([], np.array([]))


def _drift(name: str, side: Side, keys: Sequence[Key], paired: bool) -> Iterator[tuple[str, str]]:
    blocks, logs = _course(side, keys)
    if len(blocks) < LEAST_FOR_COURSE:
        return
    at = np.arange(len(logs)) - (len(logs) - 1) / 2
    slope = float(at @ logs / (at @ at))
    left = logs - logs.mean() - slope * at
    freedom = len(logs) - 2
    error = math.sqrt(max(float(left @ left), 1e-18) / freedom / float(at @ at))
    p = 2 * t_below(-abs(slope) / error, freedom)
    change = math.expm1(slope * (len(logs) - 1))
    if p <= DRIFT_P and abs(change) >= LEAST_DRIFT:
        word = "rose" if change > 0 else "fell"
        text = f"the {name} side {word} by {abs(change):.0%} from its first repeat to its last"
        yield "drift", text + ("; pairs take out what both share" if paired else "")


def _order(sides: tuple[Side, Side], shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    """Whether it matters which side was measured first in a block."""
    courses = [dict(zip(*_course(sides[at], [pair[at] for pair in shared]), strict=True)) for at in (0, 1)]
    blocks = sorted(courses[0].keys() & courses[1].keys())
    first = np.array([sides[0].start_ns.get(b, 0) < sides[1].start_ns.get(b, 0) for b in blocks], dtype=bool)
    logs = np.array([courses[1][b] - courses[0][b] for b in blocks])
    one, other = logs[first], logs[~first]
    if min(len(one), len(other)) < 3:
        return
    square = one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other)
    gap = float(one.mean() - other.mean())
    p = 2 * t_below(-abs(gap) / math.sqrt(max(float(square), 1e-18)), min(len(one), len(other)) - 1)
    if p <= DRIFT_P and abs(math.expm1(gap)) >= LEAST_DRIFT:
        yield "order", f"whoever is measured first in a block comes out {abs(math.expm1(gap)):.0%} apart: order matters"
