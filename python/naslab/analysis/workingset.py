"""The largest working set that is read from the server cache: the size from which repeated reads wait for the disks.

A working set is the head of one file, read from its start to its end again and again. One that fits in a cache is read
at the memory's rate; of one that does not, a cache that keeps what was used last has nothing left when its turn comes
again, and all of it is read from the disks. Between both lies the knee. The time per byte tells how much was missed:
a set counts as read from memory while at most MISSED of it came from the disks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from naslab.results.parts.cached import WorkingSet, WorkingSetStep
from naslab.units import amount_text, rate_text

Cell = Mapping[str, Any]
Step = WorkingSetStep
WORKLOAD = "working set"
MISSED = 0.1
"""Of a working set, how much may come from the disks."""
NOISE = 0.1
"""Passes that take so much longer than others from memory are noise, whatever share that would be."""
CONTRAST = 1.25
"""Memory must be so many times as fast as what is behind it, or nothing can be told."""
PRECISION = 1.05
"""The interval's ends, one over the other, when it is known well enough."""
SETTLING = 2
"""First passes over a set, in which the cache takes it in: they are not compared."""


def steps_of(cells: Sequence[Cell]) -> list[Step]:
    """What each working set came to, ascending: its size, and its fastest pass once the cache had taken it in.

    The fastest: a set that is not in memory has no fast pass, and one that is may have a slow one by chance.
    """
    passes: dict[int, list[float]] = {}
    for cell in cells:
        if cell["workload"] == WORKLOAD and cell["status"] == "complete":
            passes.setdefault(cell["bytes"], []).append(cell["throughput_bytes_per_s"])
    return [
        Step(size, max(rates[SETTLING:]), from_memory=False)
        for size, rates in sorted(passes.items())
        if len(rates) > SETTLING
    ]


def is_served(rate: float, memory: float, beyond: float) -> bool:
    """Whether a set that was read at this rate came from memory.

    memory, beyond: rates of a small set and of one that is certain not to fit; bytes per second.
    """
    if rate <= 0:
        return False
    least, most = 1 / memory, 1 / beyond
    return 1 / rate - least <= max(MISSED * (most - least), NOISE * least)


def bracket(steps: Sequence[Step]) -> tuple[int, int] | None:
    """(largest set from memory, smallest one that was not), bytes; None where the rates cannot be told apart.

    steps: ascending, of two sets or more; the smallest tells the memory's rate, with others that came from there.
    """
    if len(steps) < 2:
        return None
    memory, beyond = steps[0].bytes_per_s, steps[-1].bytes_per_s
    if beyond <= 0 or memory < CONTRAST * beyond:
        return None
    low = 0
    for at, step in enumerate(steps):
        if not is_served(step.bytes_per_s, memory, beyond):
            return steps[low].bytes, step.bytes
        memory, low = median(each.bytes_per_s for each in steps[: at + 1]), at
    return None


def next_bytes(steps: Sequence[Step], unit_bytes: int) -> int | None:
    """The size to be tried next, a multiple of a unit in the middle of the bracket; None when enough is known."""
    found = bracket(steps)
    if found is None or found[1] <= PRECISION * found[0]:
        return None
    size = round(math.sqrt(found[0] * found[1]) / unit_bytes) * unit_bytes
    return size if found[0] < size < found[1] else None


def finding(cells: Sequence[Cell], own_memory: bool) -> WorkingSet | None:
    """`working_set` of the run document; None when nothing was measured.

    own_memory: the target is a path that this machine's own page cache may answer.
    """
    steps = steps_of(cells)
    if not steps:
        return None
    found = bracket(steps)
    for step in steps:
        step.from_memory = found is not None and step.bytes <= found[0]
    served = [step.bytes_per_s for step in steps if step.from_memory]
    return WorkingSet(
        knee_bytes=round(math.sqrt(found[0] * found[1])) if found else None,
        interval_bytes=list(found) if found else None,
        memory_bytes_per_s=median(served) if served else steps[0].bytes_per_s,
        beyond_bytes_per_s=steps[-1].bytes_per_s,
        own_memory=own_memory,
        reason=None if found else _reason(steps),
        steps=steps,
    )


def _reason(steps: Sequence[Step]) -> str:
    """Why no knee was found, and what to do."""
    if len(steps) < 2:
        return "the run ended before two working sets were read; use a longer --budget"
    first, last = steps[0], steps[-1]
    rates = f"{rate_text(first.bytes_per_s)} at {amount_text(first.bytes)}, {rate_text(last.bytes_per_s)} at "
    return (
        f"the largest working set was read about as fast as the smallest ({rates}{amount_text(last.bytes)}): give "
        "a --size "
        "larger than the server cache, unless the disks are as fast as the network"
    )


def words(found: WorkingSet) -> str:
    """The finding in a sentence."""
    whose = "this machine's memory" if found.own_memory else "the server cache"
    if found.knee_bytes is None or found.interval_bytes is None:
        return f"Working set in {whose}: not detected, because {found.reason}."
    low, high = (each or 0 for each in found.interval_bytes)
    return (
        f"Working sets up to {amount_text(found.knee_bytes)} ({amount_text(low)} to {amount_text(high)}) are read "
        f"from {whose}, at {rate_text(found.memory_bytes_per_s)}; larger ones at "
        f"{rate_text(found.beyond_bytes_per_s)}."
    )
