"""Why a comparison may be wrong although its numbers are right: few repeats, time, order, runs counted twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.distributions import t_below
from naslab.analysis.ratios import LEAST_REPEATS
from naslab.analysis.repeats import DRIFT_P, LEAST_DRIFT, LEAST_FOR_COURSE, course
from naslab.results.cell_names import op_words, stage_words
from naslab.results.foreign import is_foreign
from naslab.results.measurements import Block, Key, Side
from naslab.units import percent_text

WARN_BELOW = 5
_RATES = ("throughput", "iops", "capacity")


def doubts_of(sides: tuple[Side, Side], paired: bool, shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    """(kind, sentence) of each, the weightiest first."""
    if not shared:
        yield "nothing_shared", "the two sides have no measurement in common"
        return
    yield from _foreign(sides)
    if not any(_without_spread(side) for side in sides):
        yield from _repeats(sides, shared)
    yield from _not_shared(sides, shared)
    yield from _twice(sides, shared)
    if not paired:
        text = "the sides were measured one after the other: a change in between counts as a difference"
        yield "not_interleaved", f"{text}; `naslab compare --run` measures them alternately"
    for name, side, at in (("first", sides[0], 0), ("second", sides[1], 1)):
        yield from _drift(name, side, [pair[at] for pair in shared], paired)
    if paired:
        yield from _order(sides, shared)
    for name, side in (("first", sides[0]), ("second", sides[1])):
        if side.left_out:
            cells = f"{side.left_out} {'cell' if side.left_out == 1 else 'cells'}"
            yield "left_out", f"{cells} of the {name} side failed or ended early and are left out"


def _without_spread(side: Side) -> bool:
    """Whether sources tell too few repeats for a verdict; more cannot be measured."""
    foreign = any(is_foreign(document) for document in side.documents)
    return foreign and all(len(blocks) < LEAST_REPEATS for blocks in side.values.values())


def _foreign(sides: tuple[Side, Side]) -> Iterator[tuple[str, str]]:
    """Runs that naslab did not measure: what their sources leave open."""
    for name, side in (("first", sides[0]), ("second", sides[1])):
        sources = [document["source"] for document in side.documents if is_foreign(document)]
        if not sources:
            continue
        from_ = ", ".join(dict.fromkeys(f"{source['kind']} ({source['tool']})" for source in sources))
        untold = sorted(side.untold())
        text = f"the {name} side is {from_}, not measured by naslab"
        if _without_spread(side):
            text += "; it reports no spread, so there is a ratio but no verdict"
        if untold:
            text += f"; not reported: {', '.join(untold).replace('_', ' ')}"
        yield "foreign", text


def _repeats(sides: tuple[Side, Side], shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    each = [min(len(sides[at].values[pair[at]]) for at in (0, 1)) for pair in shared]
    least, few = min(each), sum(count < LEAST_REPEATS for count in each)
    if 0 < few < len(each):  # runs that plan as they go repeat some measurements only
        yield (
            "few_repeats",
            f"{few} of {len(each)} have fewer than {LEAST_REPEATS} repeats on a side: no verdict on them",
        )
    elif least < LEAST_REPEATS:
        count = f"{least} {'repeat' if least == 1 else 'repeats'}"
        yield "few_repeats", f"{count} on a side: no verdict from fewer than {LEAST_REPEATS}; measure with --repeat 5"
    elif least < WARN_BELOW:
        text = f"{least} repeats on a side: only large differences can be detected; --repeat 10 detects smaller ones"
        yield "few_repeats", text


def _twice(sides: tuple[Side, Side], shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    """Repeats with exactly the same numbers: one run counted twice, or a clock that does not tell."""
    alike: dict[tuple[float, ...], list[tuple[str, int]]] = {}
    for at, name in ((0, "first"), (1, "second")):
        keys = [pair[at] for pair in shared]
        for number, block in enumerate(_blocks(sides[at], keys), 1):
            told = tuple(sides[at].values[key].get(block, math.nan) for key in keys)
            if len(told) >= 2 and not any(map(math.isnan, told)):
                alike.setdefault(told, []).append((name, number))
    for same in alike.values():
        if len(same) > 1:
            parts = [_numbered([number for side, number in same if side == name], name) for name in ("first", "second")]
            which = " and ".join(filter(None, parts))
            yield "duplicate", f"{which} have exactly the same numbers: is one run counted twice?"


def _numbered(numbers: Sequence[int], side: str) -> str:
    """`repeats 1 to 5 of the first side`; empty without any."""
    if not numbers:
        return ""
    if len(numbers) == 1:
        return f"repeat {numbers[0]} of the {side} side"
    row = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    told = f"{numbers[0]} to {numbers[-1]}" if row else listed([str(number) for number in numbers])
    return f"repeats {told} of the {side} side"


def listed(names: Sequence[str], most: int = 6) -> str:
    """`a, b and c`; of many the first, and how many more there are."""
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most + 1 else list(names)
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _not_shared(sides: tuple[Side, Side], shared: Sequence[tuple[Key, Key]]) -> Iterator[tuple[str, str]]:
    """What only one side measured: by name where the other has nothing of that name, else how many."""
    names = [dict.fromkeys(_name(key) for key in side.values) for side in sides]
    told = []
    for at, word in ((0, "first"), (1, "second")):
        lacking = [name for name in names[at] if name not in names[1 - at]]
        both = {pair[at] for pair in shared}
        rest = sum(key not in both and _name(key) not in lacking for key in sides[at].values if key.measure in _RATES)
        parts = [listed(lacking)] if lacking else []
        parts += [f"{rest} {'measurement' if rest == 1 else 'measurements'}"] if rest else []
        told += [f"{' and '.join(parts)}, only on the {word} side"] if parts else []
    if told:
        yield "not_shared", f"not compared: {'; '.join(told)}"


def _name(key: Key) -> str:
    """The workload's or the operation's name."""
    fields = key.fields()
    return stage_words(fields.get("workload")) or op_words(str(fields["op"]))


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
    change, p = course(logs)
    if p <= DRIFT_P and abs(change) >= LEAST_DRIFT:
        word = "rose" if change > 0 else "fell"
        text = f"the {name} side {word} by {percent_text(abs(change))} from its first repeat to its last"
        yield "drift", text + ("; pairs cancel changes that both sides share" if paired else "")


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
        yield (
            "order",
            f"the side measured first in a block differs by {percent_text(abs(math.expm1(gap)))}: the order matters",
        )
