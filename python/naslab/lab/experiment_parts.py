"""Reading parts of an experiment's TOML: values with their checks, quantities, claims and charts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.analysis.claims import KINDS, Claim
from naslab.analysis.quantities import TAKES, WHERE, Quantity, is_known
from naslab.errors import UsageError
from naslab.results.numbers import is_number
from naslab.toml.tables import UNITS, Table, where_of

if TYPE_CHECKING:
    from naslab.lab.experiment import Condition, Limit, Test

_FILLED = re.compile(r"\{([a-z0-9_]+)\}")
_QUANTITY = ("condition", "test", "value", "take", *WHERE)


def filled(data: Any, values: Mapping[str, str], used: set[str], where: str) -> Any:
    """Data with each `{name}` of its texts replaced. used: gets the names met. Raises UsageError for unknown ones."""
    if isinstance(data, dict):
        return {key: filled(each, values, used, f"{where}.{key}") for key, each in data.items()}
    if isinstance(data, list):
        return [filled(each, values, used, where) for each in data]
    if not isinstance(data, str):
        return data

    def value(match: re.Match[str]) -> str:
        if match.group(1) not in values:
            raise UsageError(f"{where} = {data!r}: [values] has no {match.group(1)!r}; it has {', '.join(values)}")
        used.add(match.group(1))
        return values[match.group(1)]

    return _FILLED.sub(value, data)


def quantity_of(
    data: Any, where: str, conditions: Mapping[str, Condition], tests: Mapping[str, Test], under: Mapping[str, Any]
) -> tuple[Quantity, Mapping[str, Any]]:
    """A number of one condition, and its keys; those left out are as in `under`. Raises UsageError."""
    merged = {**under, **Table(data, where, _QUANTITY).data}
    table = Table(merged, where, _QUANTITY)
    test = table.word("test", tests, next(iter(tests)) if len(tests) == 1 else None)
    condition = table.word("condition", conditions)
    if test not in conditions[condition].tests:
        raise UsageError(f"{where}.test = {test!r}: condition {condition} has only {conditions[condition].tests}")
    value = table.text("value", "throughput")
    if not is_known(value):
        raise UsageError(
            f"{where}.value = {value!r}: use throughput, durable, iops, cpu, a percentile or a field's path"
        )
    take = table.word("take", TAKES, "mean")
    return Quantity(condition, test, value, where_of(table), take), merged


_CLAIM = ("id", "words", "place", "kind", "of", "to", "conditions", "limit", "expect", "range", "published",
          "not_testable", "stand_in")  # fmt: skip


def claim_of(
    data: Any, where: str, conditions: Mapping[str, Condition], tests: Mapping[str, Test], limits: Sequence[Limit],
    published: Mapping[str, float], margin: float,
) -> Claim:  # fmt: skip
    """One conclusion. Raises UsageError."""
    table = Table(data, where, _CLAIM)
    told = (table.name("id"), table.text("words"), table.text("place", ""))
    stand_in = table.text("stand_in", "")
    if "not_testable" in table.data:
        if given := sorted(set(table.data) & {"kind", "of", "to", "expect", "range", "limit", "conditions"}):
            raise UsageError(f"{where}.not_testable and .{given[0]}: a claim is tested or not; leave one out")
        return Claim(*told, not_testable=table.text("not_testable"), stand_in=stand_in)
    kind = table.word("kind", KINDS, "ratio")
    sides = _sides(table, kind, conditions, tests)
    limit = table.word("limit", {each.name for each in limits}) if kind == "limit" else ""
    if kind != "limit" and "limit" in table.data:
        raise UsageError(f"{where}.limit: only of kind limit; leave it out")
    ratio = _published_ratio(table, published)
    return Claim(*told, kind, sides, _region(table, margin), limit, ratio, stand_in=stand_in)


def _sides(
    table: Table, kind: str, conditions: Mapping[str, Condition], tests: Mapping[str, Test]
) -> tuple[Quantity, ...]:
    for key, kinds in (("to", ("ratio", "counts", "dips")), ("conditions", ("order",))):
        if (key in table.data) != (kind in kinds):
            word = "is missing" if kind in kinds else f"only of kind {' and '.join(kinds)}; leave it out"
            raise UsageError(f"{table.where}.{key}: {word}")
    of = Table(table.data.get("of"), f"{table.where}.of", _QUANTITY).data
    if kind == "order":
        names = table.texts("conditions", ())
        if len(names) < 2:
            raise UsageError(f"{table.where}.conditions: an order has two conditions or more")
        return tuple(quantity_of({"condition": name}, f"{table.where}.of", conditions, tests, of)[0] for name in names)
    first, keys = quantity_of(of, f"{table.where}.of", conditions, tests, {})
    if kind == "limit":
        return (first,)
    return first, quantity_of(table.data["to"], f"{table.where}.to", conditions, tests, keys)[0]


def _region(table: Table, margin: float) -> tuple[float, float]:
    """From `expect`, or from `range` = [low, high], where 0 and inf leave an end open."""
    if ("expect" in table.data) == ("range" in table.data):
        raise UsageError(f"{table.where}: give expect = more, less or same, or range = [low, high]")
    if "expect" in table.data:
        word = table.word("expect", ("more", "less", "same"))
        return {
            "more": (1 + margin, math.inf),
            "less": (0.0, 1 / (1 + margin)),
            "same": (1 / (1 + margin), 1 + margin),
        }[word]
    ends = table.data["range"]
    numbers = isinstance(ends, list) and len(ends) == 2 and all(type(end) in (int, float) for end in ends)
    if not numbers or not 0 <= ends[0] < ends[1] or ends == [0, math.inf]:
        raise UsageError(f"{table.where}.range = {ends!r}: write [low, high] of a ratio; 0 and inf leave an end open")
    return float(ends[0]), float(ends[1])


def _published_ratio(table: Table, published: Mapping[str, float]) -> float | None:
    """A number, or `a / b` of two published ids."""
    found = table.data.get("published")
    if found is None or (is_number(found) and found > 0):
        return None if found is None else float(found)
    names = [each.strip() for each in str(found).split(" / ")]
    if len(names) != 2 or any(name not in published for name in names):
        raise UsageError(f"{table.where}.published = {found!r}: write a number, or `a / b` of ids of [[published]]")
    return published[names[0]] / published[names[1]]


RATE_UNITS = ("MB/s", "KiB/s", "Gbit/s")
OVER_TIME = {"throughput": ("read_bytes", "write_bytes"), "read": ("read_bytes",), "write": ("write_bytes",)}
"""Values of charts over time, and the columns of a run's interval series that each is the sum of."""
CHARTS = ("line", "bars", "surface", "time")


def chart_of(
    data: Any, where: str, conditions: Mapping[str, Condition], tests: Mapping[str, Test], limits: Sequence[Limit]
) -> dict[str, Any]:
    """The fields of a chart. Raises UsageError."""
    table = Table(data, where, ("id", "title", "kind", "of", "conditions", "groups", "limits", "unit", "published"))
    kind, unit = table.word("kind", CHARTS), table.word("unit", UNITS, "MB/s")
    of = dict(Table(table.data.get("of"), f"{where}.of", _QUANTITY).data)
    given = Table(table.data.get("groups", {}), f"{where}.groups", None).data
    if given and kind != "bars":
        raise UsageError(f"{where}.groups: only of bars; leave it out")
    groups = {label: Table(more, f"{where}.groups.{label}", _QUANTITY).data for label, more in given.items()}
    keys = [{**of, **more} for more in groups.values()] or [of]
    used = {str(each["test"]) for each in keys if "test" in each}
    names = table.texts("conditions", tuple(each.id for each in conditions.values() if used <= set(each.tests)))
    cells = _over_time(table, kind, of, unit)
    for name in names:
        for label, more in (groups or {"": {}}).items():
            told = f"{where}.groups.{label}" if label else f"{where}.of"
            quantity_of({**more, "condition": name}, told, conditions, tests, cells)
    lines = table.texts("limits", ())
    for each in lines:
        if each not in {limit.name for limit in limits}:
            raise UsageError(
                f"{where}.limits: {each!r}: no such limit; use {', '.join(limit.name for limit in limits)}"
            )
    return {
        "id": table.name("id"), "title": table.text("title"), "kind": kind, "of": of, "conditions": names,
        "groups": tuple(groups.items()), "limits": lines, "unit": unit, "published": table.texts("published", ()),
    }  # fmt: skip


def _over_time(table: Table, kind: str, of: Mapping[str, Any], unit: str) -> Mapping[str, Any]:
    """The keys of `of` that choose cells, after those of a chart over time were checked. Raises UsageError."""
    if kind != "time":
        if "published" in table.data:
            raise UsageError(
                f"{table.where}.published: only of time; leave it out, and give each [[published]] a chart"
            )
        return of
    if unit not in RATE_UNITS:
        raise UsageError(f"{table.where}.unit = {unit!r}: a rate over time is in {', '.join(RATE_UNITS)}")
    inner = Table(of, f"{table.where}.of", _QUANTITY)
    inner.word("value", OVER_TIME, "throughput")
    if "take" in of:
        raise UsageError(f"{inner.where}.take: a chart over time shows the median repeat as it is; leave it out")
    return {key: each for key, each in of.items() if key != "value"}
