"""The order in which requests of several streams are issued, with a given share that continue the one before.

A request is sequential when it goes on in the same file where the request issued just before it ended, over all
streams: what a server sees that knows nothing of its clients.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from naslab.commands.apps.actions import Action

DATA = ("read", "write")


def continues(before: Action | None, now: Action) -> bool:
    """Whether a request goes on where another ended."""
    return before is not None and before.path == now.path and before.offset_bytes + before.len_bytes == now.offset_bytes


def requests_of(stream: Sequence[Action]) -> list[Action]:
    """Reads and writes among the actions."""
    return [action for action in stream if action.kind in DATA]


def sequential_share(issued: Sequence[Action]) -> float:
    """Share of the requests that continue the one before; the first, which has none, is left out. 0 to 1."""
    if len(issued) < 2:
        return 1.0
    return sum(continues(a, b) for a, b in pairwise(issued)) / (len(issued) - 1)


def with_jumps(stream: list[Action], share: float) -> list[Action]:
    """One stream's actions, its film read in parts of which each pair is swapped, so that `share` stays sequential.

    Each byte is still read once. The stream has one file.
    """
    at = [number for number, action in enumerate(stream) if action.kind in DATA]
    found = [stream[number] for number in at]
    jumps = round((1 - share) * (len(found) - 1))
    if jumps < 1:
        return stream
    edges = [len(found) * part // (jumps + 1) for part in range(jumps + 2)]
    parts = [found[low:high] for low, high in pairwise(edges)]
    for left in range(0, len(parts) - 1, 2):
        parts[left], parts[left + 1] = parts[left + 1], parts[left]
    out = list(stream)
    for number, action in zip(at, [action for part in parts for action in part], strict=True):
        out[number] = action
    return out


def interleave(streams: Sequence[Sequence[Action]], share: float, rng: random.Random) -> list[int]:
    """Which stream issues each request, in order, so that `share` of them are sequential.

    Each stream's requests are cut into runs, and runs of different streams follow one another: of the streams that
    may go on, the one with most runs left, among equals the one that waited longest.
    """
    found = [requests_of(stream) for stream in streams]
    total = sum(map(len, found))
    cut = _cut_points(found, total - round(share * (total - 1)), rng)
    runs = [_lengths(len(requests), points) for requests, points in zip(found, cut, strict=True)]
    waited = [0] * len(runs)
    at = [0] * len(runs)
    order: list[int] = []
    last = -1
    for turn in range(1, sum(map(len, runs)) + 1):
        left = [len(one) - done for one, done in zip(runs, at, strict=True)]
        able = [number for number, count in enumerate(left) if count and number != last] or [last]
        last = max(able, key=lambda number: (left[number], -waited[number]))
        order += [last] * runs[last][at[last]]
        at[last] += 1
        waited[last] = turn
    return order


def _cut_points(found: Sequence[list[Action]], wanted: int, rng: random.Random) -> list[set[int]]:
    """Positions in each stream where a run begins, `wanted` over all: where it breaks off by itself, and more."""
    own = [{n for n in range(1, len(requests)) if not continues(requests[n - 1], requests[n])} for requests in found]
    counts = [len(points) + bool(requests) for points, requests in zip(own, found, strict=True)]
    most = [len(requests) for requests in found]
    # Streams with the fewest runs get more first, so that there is always another one to turn to.
    while sum(counts) < wanted:
        able = [number for number in range(len(found)) if counts[number] < most[number]]
        if not able:
            break
        low = min(counts[number] for number in able)
        lowest = [number for number in able if counts[number] == low]
        others = [counts[number] for number in able if counts[number] > low]
        room = min([*(most[number] for number in lowest), *others]) - low
        step = max(1, min(room, (wanted - sum(counts)) // len(lowest)))
        for number in lowest[: wanted - sum(counts)]:
            counts[number] += step
    for requests, points, count in zip(found, own, counts, strict=True):
        free = [n for n in range(1, len(requests)) if n not in points]
        points.update(rng.sample(free, max(count - len(points) - 1, 0)))
    return own


def _lengths(count: int, points: set[int]) -> list[int]:
    edges = [0, *sorted(points), count]
    return [high - low for low, high in pairwise(edges)] if count else []
