"""How many streams of films a target holds at their own rate: measured by trying more and more of them at once.

A number of streams is held where no request started later than the player's buffer allows and the last one ended with
the film: at most 1 % of its length late (20 ms for short ones). The buffer alone would let too many through, because
a film of a few seconds ends before a backlog has eaten it up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from naslab.commands.apps.generate import Plan
from naslab.commands.apps.model import Definition, Part, Value

MOST_STREAMS = 1024
SLACK = 0.01
LEAST_SLACK_NS = 20_000_000


def streams_of(definition: Definition) -> int:
    """Streams of all its parts."""
    return sum(part["streams"] for part in definition.parts)


def can_multiply(definition: Definition) -> bool:
    """Whether it has a length, and plays and records only: then more of the same can run at once."""
    return "duration" in definition.whole and all(part.does in ("play", "record") for part in definition.parts)


def step_of(definition: Definition) -> int:
    """By how many streams it grows: one where all are alike, else all that belong together."""
    return 1 if len(definition.parts) == 1 else streams_of(definition)


def multiplied(definition: Definition, streams: int) -> Definition:
    """The same with so many streams (a multiple of `step_of`), each as long and as fast as before.

    The streams are independent: which share of the requests is sequential was published for one number of them.
    """
    own = streams_of(definition)
    parts = tuple(
        _more(part, part["streams"] * streams // own, part["bytes"] * streams // own) for part in definition.parts
    )
    whole = {name: value for name, value in definition.whole.items() if name != "sequential"}
    return dataclasses.replace(definition, name=f"{definition.name}_x{streams}", whole=whole, parts=parts)


def _more(part: Part, streams: int, size_bytes: int) -> Part:
    def changed(value: Value, number: int) -> Value:
        return dataclasses.replace(value, is_=number, text=str(number))

    values = dict(part.values)
    values["streams"], values["bytes"] = changed(values["streams"], streams), changed(values["bytes"], size_bytes)
    return dataclasses.replace(part, values=values)


def late_ns(made: Plan, cell: Mapping[str, Any]) -> int:
    """How much later than the film its last request ended; negative before."""
    assert made.duration_ns is not None
    return int(cell["window_ns"]) - made.duration_ns


def is_held(made: Plan, cell: Mapping[str, Any]) -> bool:
    """Whether the target kept up with all streams of the cell."""
    assert made.duration_ns is not None
    sound = cell["status"] == "complete" and not cell["errors"] and not cell["missed_starts"]
    return sound and late_ns(made, cell) <= max(made.duration_ns * SLACK, LEAST_SLACK_NS)


@dataclass
class Search:
    """The largest number of streams that is held, by doubling and halving. attempt: whether so many are; None: no
    more can be tried."""

    first: int
    step: int
    most: int = MOST_STREAMS
    held: int = 0
    failed: int | None = None
    tried: list[int] = field(default_factory=list)

    def run(self, attempt: Callable[[int], bool | None]) -> None:
        """Tries until held and failed are neighbours, or `attempt` gives up."""
        while (streams := self._next()) is not None:
            good = attempt(streams)
            if good is None:
                return
            self.tried.append(streams)
            if good:
                self.held = streams
            else:
                self.failed = streams

    def _next(self) -> int | None:
        if self.failed is None:
            streams = min(2 * self.held or self.first, self.most // self.step * self.step)
            return streams if streams > self.held else None
        steps = (self.failed - self.held) // self.step
        return self.held + steps // 2 * self.step if steps > 1 else None
