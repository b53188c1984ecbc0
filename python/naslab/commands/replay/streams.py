"""Streams of a trace as streams of a script: one each, or joined where there are too many."""

from __future__ import annotations

import heapq

from naslab.errors import UsageError
from naslab.trace.format import Operation


class StreamTimes:
    """First start and last end of each stream, in nanoseconds. Memory grows with the streams.

    longest_gap_ns: between the starts of two operations that follow each other, or before the first.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._before_ns = 0
        self.longest_gap_ns = 0

    def add(self, operation: Operation) -> None:
        """The next operation of the trace."""
        stream = operation.stream
        self.longest_gap_ns = max(self.longest_gap_ns, operation.start_ns - self._before_ns)
        self._before_ns = operation.start_ns
        if stream not in self._first:
            self._first[stream] = operation.start_ns
        self._last[stream] = max(self._last.get(stream, 0), operation.start_ns + (operation.duration_ns or 0))

    def spans(self) -> list[tuple[int, int, int]]:
        """(first start, last end, stream), by start."""
        return sorted((first, self._last[stream], stream) for stream, first in self._first.items())

    def most_at_once(self) -> int:
        """How many streams overlap at most; one that begins when another ends does not."""
        ends: list[int] = []
        most = 0
        for first, last, _ in self.spans():
            while ends and ends[0] <= first:
                heapq.heappop(ends)
            heapq.heappush(ends, last)
            most = max(most, len(ends))
        return most


def join(times: StreamTimes, most: int) -> dict[int, int]:
    """Number of the script's stream for each stream of the trace.

    Up to `most` streams keep one each. More are joined where one ended before the next began, each with the one
    that ended first. Raises UsageError when more than `most` overlap.
    """
    spans = times.spans()
    if len(spans) <= most:
        return {stream: number for number, (_, _, stream) in enumerate(spans)}
    free: list[tuple[int, int]] = []
    found: dict[int, int] = {}
    for first, last, stream in spans:
        if free and free[0][0] <= first:
            number = heapq.heappop(free)[1]
        elif len(free) < most:
            number = len(free)
        else:
            raise UsageError(f"--max-streams {most}: more of the trace's {len(spans)} streams ran at once; give more")
        found[stream] = number
        heapq.heappush(free, (last, number))
    return found
