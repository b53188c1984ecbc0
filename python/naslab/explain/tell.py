"""A verdict as sentences: for summaries, `show`, `explain` and the report. Pure functions of stored parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from naslab.units import count_text, duration_text, rate_text, size_label

Limit = Mapping[str, Any]
Where = tuple[str, str]

WORKLOAD = "ladder"
"""Of the ladder's cells; `naslab.explain.steps` has the same."""
CLASSES: tuple[Where, ...] = (("read", "large"), ("write", "large"), ("read", "small"), ("write", "small"))
"""(operation, size) in the order told."""
LIMIT_TEXT = {
    "link": "the network link", "latency": "the round-trip time (RTT)", "server_cache": "the server cache",
    "disk": "the disks", "disk_iops": "the disk IOPS", "burst_credit": "spent burst credit",
    "client_cpu": "the client's CPU", "client_nic": "the client's network interface", "server_cpu": "the server's CPU",
    "client_cache": "the client's own cache", "protocol": "the protocol's window or slots",
    "source": "the source of the data", "shared_machine": "the processors that client and server share",
    "unknown": "an unknown bottleneck",
}  # fmt: skip
DECIDED = 0.7
"""Below this probability of the first limit its class is not decided."""
DISKS = frozenset(("disk", "disk_iops"))
BY_MODEL = " by the model"
"""Behind a number that was not measured."""
SEVERAL = 0.15
"""Two limits of one class that is not decided and whose probabilities are so near are both named."""


def class_name(limit: Limit) -> str:
    """`large reads`; what there is of it."""
    where = limit.get("applies_to") or {}
    op, size = str(where.get("op") or ""), str(where.get("size") or "")
    return f"{size} {op}s".strip() if op else size or "all"


def kind_name(kind: str) -> str:
    """A limit's kind in words."""
    return LIMIT_TEXT.get(kind, kind.replace("_", " "))


def value_text(value: float | None, unit: str | None) -> str:
    """A limit's value with its unit; empty without a value."""
    if value is None:
        return ""
    if unit == "bytes_per_s":
        return rate_text(value)
    if unit == "iops":
        return f"{count_text(value)} operations/s"
    if unit == "ns":
        return duration_text(value)
    return size_label(value) if unit == "bytes" else f"{value:,.4g} {unit or ''}".strip()


def figure_text(limit: Limit) -> str:
    """A limit's value; `118 MB/s by the model (93.5 MB/s measured)` where it was not measured."""
    value = value_text(limit.get("value"), limit.get("unit"))
    if "measured" not in limit or not value:
        return value
    seen = value_text(limit["measured"], limit.get("unit"))
    return f"{value}{BY_MODEL}" + (f" ({seen} measured)" if seen else "")


def interval_text(limit: Limit) -> str:
    """`121 MB/s to 127 MB/s`; empty without an interval."""
    found = limit.get("ci95")
    if not found:
        return ""
    low, high = (value_text(end, limit.get("unit")) for end in found)
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if unit and high.endswith(f" {unit}") else f"{low} to {high}"


def sure_text(confidence: float | None) -> str:
    """A probability in words: `probability 0.93`."""
    return "probability not stated" if confidence is None else f"probability {confidence:.2f}"


def by_class(limits: Iterable[Limit]) -> dict[Where, list[Limit]]:
    """Limits of each class in the order of CLASSES, strongest first; others after them."""
    found: dict[Where, list[Limit]] = {where: [] for where in CLASSES}
    for limit in limits:
        applies = limit.get("applies_to") or {}
        found.setdefault((str(applies.get("op") or ""), str(applies.get("size") or "")), []).append(limit)
    return {where: ranked for where, ranked in found.items() if ranked}


def leaders(ranked: Sequence[Limit]) -> list[Limit]:
    """The first limit of a class, and those that are not told apart from it."""
    first = float(ranked[0].get("confidence") or 0.0)
    close = [
        limit for limit in ranked[1:] if first < DECIDED and float(limit.get("confidence") or 0.0) > first - SEVERAL
    ]
    return [ranked[0], *close]


def sentences(document: Mapping[str, Any]) -> list[str]:
    """The verdict of a run, one sentence for each limit, with the classes that meet it. Empty without limits.

    document: with `verdict`, and `ladder` where there is one. Classes that the same limits hold back share a sentence.
    """
    groups: dict[tuple[str, ...], list[list[Limit]]] = {}
    for ranked in by_class((document.get("verdict") or {}).get("limits") or []).values():
        first = leaders(ranked)
        groups.setdefault(tuple(str(limit["kind"]) for limit in first), []).append(first)
    told = [_sentence(kinds, classes) for kinds, classes in groups.items()]
    return [*told, *reach(document)] if told else []


def reach(document: Mapping[str, Any]) -> list[str]:
    """How far the verdict on reads reaches, where no set outgrew the server cache and no disk was seen."""
    conditions = (document.get("ladder") or {}).get("conditions") or {}
    memory = conditions.get("memory_bytes")
    if not memory or memory[1] is not None or conditions["local_disk"] or conditions["protocol"] == "null":
        return []
    ranked = by_class((document.get("verdict") or {}).get("limits") or [])
    reads = [str(limit["kind"]) for (op, _), found in ranked.items() if op == "read" for limit in leaders(found)]
    if not reads or DISKS.intersection(reads):
        return []
    return [f"No working set above {size_label(memory[0])} was read: data outside the server cache may be slower."]


def _sentence(kinds: Sequence[str], classes: Sequence[Sequence[Limit]]) -> str:
    """classes: the limits that are named of each class, all of these kinds."""
    firsts = [found[0] for found in classes]
    who = joined(list(dict.fromkeys(class_name(limit) for limit in firsts)))
    values = [figure_text(limit) for limit in firsts]
    at = joined(values) if all(values) else ""  # else nobody could say whose they are
    verb = "come from" if kinds == ("client_cache",) else "are limited by"
    what = " or ".join(f"{kind_name(kind)} ({_probabilities(classes, at)})" for at, kind in enumerate(kinds))
    return f"{who[:1].upper()}{who[1:]} {verb} {what}{f', at {at}' if at else ''}."


def _probabilities(classes: Sequence[Sequence[Limit]], at: int) -> str:
    """`probability 0.93`; where classes share a sentence and differ, of each: `probability 0.81 and 0.93`."""
    known = [limits[at].get("confidence") for limits in classes]
    shown = [f"{each:.2f}" for each in known if each is not None]
    if len(shown) < len(known):
        return sure_text(None)
    return f"probability {joined(shown if len(set(shown)) > 1 else shown[:1])}"


def joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def rank_text(ranked: Sequence[Limit], at: int) -> str:
    """What stands before a limit's name: nothing before the first, `or ` where it is not told apart from that."""
    if at == 0:
        return ""
    return "or " if ranked[at] in leaders(ranked) else "next: "


def _beside(interval: str, value: str) -> str:
    """An interval without its unit, where the value beside it has the same one and so have both ends."""
    unit = value.partition(" ")[2]
    numbers = interval.removesuffix(f" {unit}")
    return numbers if unit and " " not in numbers.replace(" to ", "") else interval


HEADER = ("class", "limited by", "value", "95 % within the run", "probability")


def rows(limits: Iterable[Limit]) -> list[tuple[str, str, str, str, str]]:
    """Limits as texts in the columns of HEADER, by class; the class is told once."""
    found = []
    for ranked in by_class(limits).values():
        for at, limit in enumerate(ranked):
            name = "" if at else class_name(limit)
            value = value_text(limit.get("value"), limit.get("unit"))
            told = rank_text(ranked, at) + kind_name(str(limit["kind"])) + (BY_MODEL if "measured" in limit else "")
            share = limit.get("confidence")
            interval = _beside(interval_text(limit), value)
            found.append((name, told, value, interval, "" if share is None else f"{share:.2f}"))
    return found
