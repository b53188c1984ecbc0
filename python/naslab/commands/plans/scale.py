"""One load by ever more clients (`--scale 1,2,4,8`): rungs in random order, block after block."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from naslab.errors import UsageError
from naslab.spec import CellSpec

BLOCKS = 4
"""Without --repeat: the fewest that give an interval worth its name."""
MOST_CLIENTS = 4096


def parse_scale(text: str) -> tuple[int, ...]:
    """Numbers of clients, ascending. Raises UsageError."""
    wrong = UsageError(f"--scale {text!r}: write ascending numbers of clients with commas, e.g. 1,2,4,8")
    try:
        found = tuple(int(each) for each in text.split(","))
    except ValueError:
        raise wrong from None
    if len(found) < 2 or found[0] < 1 or found[-1] > MOST_CLIENTS or list(found) != sorted(set(found)):
        raise wrong
    return found


def scaled(cells: Sequence[CellSpec], scale: Sequence[int], repeat: int, seed: int) -> list[CellSpec]:
    """A plan of one load with that load by each number of clients, `repeat` times (1: BLOCKS times); files are
    written by all clients first. cells: as `plans.sustained.sustained_cells` makes them for one repeat."""
    fills = [each for each in cells if each.workload != "sustained"]
    (load,) = (each for each in cells if each.workload == "sustained")
    order, planned = random.Random(seed), list(fills)
    for block in range(repeat if repeat > 1 else BLOCKS):
        rungs = list(scale)
        order.shuffle(rungs)
        planned += [dataclasses.replace(load, clients=each, block=block) for each in rungs]
    return [dataclasses.replace(each, id=at) for at, each in enumerate(planned)]
