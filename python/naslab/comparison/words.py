"""A comparison for people: one sentence, a table, and what to do where it is undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from naslab.analysis.ratios import Judged
from naslab.comparison.names import short
from naslab.results.cell_names import op_words
from naslab.results.measurements import Key
from naslab.units import count_text, duration_text, percent_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.comparison.judgement import Comparison, Row

_WORDS = {"better": "faster", "worse": "slower"}
MOST_REPEATS = 500
"""More are no advice."""
_BY_OP = (None, "sustained", "ladder", "both_ways")
"""Workloads whose cells are called by their operation."""


def sentence(comparison: Comparison) -> str:
    """The verdict over all rates, with its interval, its repeats, and what it could have seen."""
    one, other = map(short, comparison.names)
    judged = comparison.overall
    if judged is None:
        return f"{other} and {one} have no measurement in common: no verdict."
    least = (judged.ratio.n, judged.ratio.other_n)
    count = sum(
        row.key.measure in ("throughput", "iops", "capacity")
        and row.judged.ratio.n >= least[0] and row.judged.ratio.other_n >= least[1]
        for row in comparison.rows
    )  # fmt: skip
    basis = f"{interval(judged)}, {count} {'measurement' if count == 1 else 'measurements'}, {repeats(comparison)}"
    found, apart = judged.verdict, abs(judged.ratio.value - 1)
    if found is None:
        return f"No verdict: too few repeats. {other} / {one} = {basis}."
    if found in _WORDS:
        return f"{other} is {percent_text(apart, 1)} {_WORDS[found]} than {one}: {basis}."
    if found == "equivalent":
        return f"{other} and {one} are equivalent within {percent_text(judged.ratio.margin)}: {basis}."
    different = "they differ, but by how much is undecided" if judged.different else "no difference was detected"
    return f"Undecided; {different}: {other} / {one} = {basis}. {detectable(judged)}"


def repeats(comparison: Comparison) -> str:
    """How many of each, and whether in pairs."""
    one, other = comparison.repeats
    if comparison.paired:
        return f"{min(one, other)} pairs measured alternately"
    return f"{one} and {other} repeats" if one != other else f"{one} {'repeat' if one == 1 else 'repeats'} each"


def interval(judged: Judged) -> str:
    """`0.912 (95 % 0.890 to 0.934)`; without an interval where no spread is known."""
    ratio = judged.ratio
    if ratio.low <= 0 and math.isinf(ratio.high):
        return f"{ratio.value:.3f} (no interval)"
    high = "no end" if math.isinf(ratio.high) else f"{ratio.high:.3f}"
    return f"{ratio.value:.3f} (95 % {ratio.low:.3f} to {high})"


def detectable(judged: Judged) -> str:
    """What difference would have been seen, and how many repeats would see the margin."""
    ratio = judged.ratio
    if math.isinf(ratio.mde):
        return "More repeats are needed to detect any difference."
    text = f"A difference of {percent_text(ratio.mde, 1)} would have been detected in 80 of 100 cases"
    needed = math.ceil(min(ratio.n, ratio.other_n) * (ratio.mde / ratio.margin) ** 2)
    if needed > min(ratio.n, ratio.other_n) and needed <= MOST_REPEATS:
        text += f"; about {needed} repeats would detect {percent_text(ratio.margin)}"
    return text + "."


def what(row: Row) -> str:
    """The measurement's name."""
    return name(row.key)


def name(key: Key) -> str:
    """The measurement's name: `read 64 KiB of 1 GiB, depth 8`."""
    fields = key.fields()
    workload = fields.get("workload")
    parts = [str(workload) if workload not in _BY_OP else op_words(str(fields["op"]))]
    if fields.get("record_bytes"):
        parts.append(size_label(fields["record_bytes"]))
    if fields.get("file_bytes"):
        parts.append(f"of {size_label(fields['file_bytes'])}")
    text = " ".join(parts)
    for field, word in (("queue_depth", "depth"), ("workers", "workers")):
        if (fields.get(field) or 1) != 1:
            text += f", {word} {fields[field]}"
    if workload == "sustained":
        text += ", sustained"
    if fields.get("offered_per_s"):
        text += f", offered {count_text(fields['offered_per_s'])}/s"
    return text if key.measure in ("throughput", "iops", "capacity") else f"{text}, {key.measure}"


def verdict(row: Row) -> str:
    """The verdict in a word; `different` where only that much is certain."""
    if row.judged.verdict == "undecided" and row.judged.different:
        return "different"
    return row.judged.verdict or "too few"


def amount(row: Row, value: float) -> str:
    """One side's number with its unit."""
    if row.key.measure == "throughput":
        return rate_text(value)
    return f"{count_text(value)}/s" if row.key.measure in ("iops", "capacity") else duration_text(value)


def telling(rows: Sequence[Row], most: int) -> list[Row]:
    """The rows worth a line: verdicts first, then the largest ratios; at most so many."""
    rank = {"worse": 0, "better": 0, "undecided": 1, None: 1, "equivalent": 2}

    def weight(row: Row) -> tuple[int, float]:
        return rank[row.judged.verdict], -abs(math.log(row.judged.ratio.value))

    chosen = sorted(rows, key=weight)[:most]
    kept = {id(row) for row in chosen}
    return [row for row in rows if id(row) in kept]


def table(comparison: Comparison, rows: Sequence[Row]) -> Any:
    """The rows as a table for a terminal."""
    from rich.text import Text

    from naslab.text.screen import plain_table

    found = plain_table(("measurement", "baseline", "compared", "ratio", "95 %", "verdict"), right=("ratio",))
    style = {"better": "green", "worse": "red", "equivalent": "dim"}
    for row in rows:
        ratio = row.judged.ratio
        told = verdict(row)
        high = "…" if math.isinf(ratio.high) else f"{ratio.high:.2f}"
        found.add_row(
            what(row), amount(row, row.one), amount(row, row.other), f"{ratio.value:.3f}",
            "-" if ratio.low <= 0 and math.isinf(ratio.high) else f"{ratio.low:.2f}-{high}",
            Text(told, style=style.get(told, "")),
        )  # fmt: skip
    return found
