"""Which part of the server differs between two targets, by the models that their ladders left.

Each run keeps the numbers of its fitted model with 95 % intervals (`ladder.model`). Numbers that both sides know are
set against each other; of what only one side knows, or only as a bound, nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAMES = {
    "link_read_bytes_per_s": "the network link, reads", "link_write_bytes_per_s": "the network link, writes",
    "connection_bytes_per_s": "one connection's window", "client_op_ns": "the client's CPU time of a small operation",
    "server_ops_per_s": "the server's CPU", "server_memory_bytes_per_s": "the server cache",
    "server_cache_bytes": "the size of the server cache", "disk_read_bytes_per_s": "the disks, reads",
    "disk_write_bytes_per_s": "the disks, writes", "disk_read_iops": "disk IOPS, reads",
    "disk_write_iops": "disk IOPS, writes", "write_back_bytes": "the size of the write-back",
}  # fmt: skip
"""Numbers of the model that are compared, in words."""
LISTED = 3
"""Parts that a sentence names at most."""
Number = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """One number on both sides: (low, value, high) of each. ratio: second over first, with the interval of both."""

    name: str
    unit: str
    one: tuple[float, float, float]
    other: tuple[float, float, float]

    @property
    def ratio(self) -> tuple[float, float, float]:
        """(low, value, high)."""
        (low, value, high), (other_low, other, other_high) = self.one, self.other
        return other_low / high, other / value, other_high / low

    def differs(self, margin: float) -> bool:
        """Whether the whole interval lies beyond a factor of 1 + margin."""
        low, _, high = self.ratio
        return low > 1 + margin or high < 1 / (1 + margin)


def compared(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Parts that all runs of both sides know, those that differ most first."""
    found = []
    for name in NAMES:
        sides = [_pooled([_number(run, name) for run in side]) for side in (one, other)]
        if sides[0] and sides[1]:
            unit = str((_number(one[0], name) or {}).get("unit") or "")
            found.append(Part(name, unit, sides[0], sides[1]))
    return sorted(found, key=lambda part: -abs(math.log(part.ratio[1])))


def _number(document: Mapping[str, Any], name: str) -> Number | None:
    """A number of the run's model that is known as a value; None else."""
    found = ((document.get("ladder") or {}).get("model") or {}).get(name)
    known = isinstance(found, Mapping) and found.get("ci95") and min(found["value"], found["ci95"][0]) > 0
    return found if known else None


def _pooled(numbers: Sequence[Number | None]) -> tuple[float, float, float] | None:
    """(low, mean, high) over runs, by the widest ends; None where a run does not know it."""
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        return None
    mean = math.exp(sum(math.log(float(number["value"])) for number in known) / len(known))
    return min(float(n["ci95"][0]) for n in known), mean, max(float(n["ci95"][1]) for n in known)


def sentence(parts: Sequence[Part], amount: Callable[[float, str], str]) -> str:
    """The parts that differ, those that do most first. parts: at least one. amount: a value with its unit, in words."""
    told = [
        f"{NAMES[part.name]} ({amount(part.one[1], part.unit)} and {amount(part.other[1], part.unit)}, "
        f"{part.ratio[1]:.2f} times, 95 % {part.ratio[0]:.2f} to {part.ratio[2]:.2f})"
        for part in parts[:LISTED]
    ]
    return f"The fitted models differ in: {'; '.join(told)}."


def document(part: Part, margin: float) -> dict[str, Any]:
    """As JSON values."""
    low, value, high = part.ratio
    return {
        "name": part.name, "unit": part.unit, "baseline": part.one[1], "compared": part.other[1], "ratio": value,
        "ci95": [low, high], "differs": part.differs(margin),
    }  # fmt: skip
