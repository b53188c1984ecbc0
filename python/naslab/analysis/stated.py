"""What a source states besides its rates, checked: limits that no rate can pass, differences and means it computed.

A run of another origin may carry the part `stated` (naslab.results.parts.stated); naslab's own runs have none. Limits
are those of links, which nothing but a cache passes, and of disks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from naslab.analysis.findings import Finding
from naslab.analysis.linkrate import ABOVE_LINK
from naslab.results.cell_names import op_words
from naslab.results.describe import part_of
from naslab.results.parts.stated import Stated, StatedNumber, StatedPart
from naslab.units import rate_text

_MEANS = {
    "link": "a cache answered, or the data took another path",
    "disk": "caches accepted the data, or the stated limit is wrong",
}


def limit_findings(cell: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Finding]:
    """`above_limit`: a rate above a limit that the source itself states."""
    rate = cell.get("throughput_bytes_per_s") or 0.0
    stated = part_of(document, "stated", Stated)
    for limit in stated.limits if stated else ():
        if limit.op not in (None, cell["op"]) or rate <= limit.bytes_per_s * ABOVE_LINK:
            continue
        what = " ".join(op_words(str(cell[name])) for name in ("op", "workload") if cell.get(name))
        most = f"{limit.what}, {rate_text(limit.bytes_per_s)}"
        text = f"{what} at {rate_text(rate)}, above {most}: {_MEANS[limit.kind]}"
        yield Finding("above_limit", text, cell["id"], rate, "bytes_per_s", limit.bytes_per_s)


def derived_findings(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Numbers that the source computed: `arithmetic` where they do not follow; of means `mixed_mean`, `duplicate`."""
    stated = part_of(document, "stated", Stated)
    derived = stated.derived if stated else []
    yield from (found for each in derived for found in _arithmetic(each))
    means = [each for each in derived if each.how == "mean"]
    yield from _mixed(means)
    yield from _counted_twice(means)


def _arithmetic(each: StatedNumber) -> Iterator[Finding]:
    values = [one.bytes_per_s for one in each.of]
    right = fmean(values) if each.how == "mean" else values[0] - sum(values[1:])
    printed, step = each.bytes_per_s, each.printed_to_bytes_per_s
    if abs(printed - right) > step * len(values):
        text = f"{each.what}: printed {rate_text(printed)}, but the {each.how} of its own numbers is "
        yield Finding("arithmetic", text + rate_text(right), None, printed, "bytes_per_s", right)


def _mixed(means: Sequence[StatedNumber]) -> Iterator[Finding]:
    """Means over different conditions: of no condition that anybody had."""
    for each in means:
        kinds = list(dict.fromkeys(_labels(one) for one in each.of))
        if len(kinds) < 2:
            continue
        values = [one.bytes_per_s for one in each.of]
        more = f" ({len(means)} such means)" if len(means) > 1 else ""
        text = (
            f"{each.what}: a mean over {len(kinds)} different conditions ({'; '.join(kinds)}), from "
            f"{rate_text(min(values))} to {rate_text(max(values))}: no single condition has this rate{more}"
        )
        yield Finding("mixed_mean", text, None, float(len(kinds)), "count", 1.0)
        return  # the others are means over the same conditions; how many is said


def _labels(one: StatedPart) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted((one.labels or {}).items())) or "no condition"


def _counted_twice(means: Sequence[StatedNumber]) -> Iterator[Finding]:
    """Members that are the same number for number in every mean."""
    rates: dict[str, list[float]] = {}
    for each in means:
        for one in each.of:
            rates.setdefault(one.what, []).append(one.bytes_per_s)
    seen: dict[tuple[float, ...], str] = {}
    for what, values in rates.items():
        first = seen.setdefault(tuple(values), what)
        if first != what and len(values) > 1:
            text = f"{first} and {what} have exactly the same numbers: the means count one run twice"
            yield Finding("duplicate", text, None)
