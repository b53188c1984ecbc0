"""What kept many clients from their processors, from what each of them says of itself.

The worst share of all stands for the cell: one client that is held back is enough to slow it. Processors add up over
hosts. Clients on one host share its processors and, begun alike, a control group: they count once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FRACTIONS = (
    "throttled_fraction", "throttled_periods_fraction", "steal_fraction", "busiest_core_fraction",
    "runnable_wait_fraction", "busiest_worker_fraction",
)  # fmt: skip
Result = Mapping[str, Any]


def merge_conditions(results: Sequence[Result], hosts: Sequence[str]) -> dict[str, float | None] | None:
    """Part `client` of the merged cell; None where no client has one. results: the engines'; hosts: of each."""
    if not any(each.get("client") for each in results):
        return None
    by_host: dict[str, list[Result]] = defaultdict(list)
    for host, each in zip(hosts, results, strict=True):
        by_host[host].append(each)
    limits = [max(_known(those, "cpu_limit_cores"), default=None) for those in by_host.values()]
    return {
        "cpu_limit_cores": _sum(limits),
        **{name: max(_known(results, name), default=None) for name in _FRACTIONS},
        "others_cores": _sum([_others(those) for those in by_host.values()]),
    }


def _known(results: Iterable[Result], name: str) -> list[float]:
    found = [(each.get("client") or {}).get(name) for each in results]
    return [each for each in found if each is not None]


def _sum(found: Sequence[float | None]) -> float | None:
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


def _others(those: Sequence[Result]) -> float | None:
    """Processors of a host that none of its clients used: to each of them the other ones are others, too."""
    used = [(each["cpu_user_ns"] + each["cpu_system_ns"]) / max(each["window_ns"], 1) for each in those]
    found = [(each.get("client") or {}).get("others_cores") for each in those]
    left = [others - (sum(used) - own) for others, own in zip(found, used, strict=True) if others is not None]
    return max(0.0, *left) if left else None
