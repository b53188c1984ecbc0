"""What each stream of a job spent its time on: the source, the target, the client's own files, its CPU."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.results.histogram import from_values

SIDES = ("source", "target", "local", "cpu")
"""source: reads of the tree that is copied; target: requests; local: writes of this machine's files; cpu: all else."""
KINDS = ("read", "write", "flush", "open", "create", "close", "stat", "readdir", "mkdir", "remove")
INTERVAL_NS = 100_000_000
_SERIES_COLUMNS = 7


@dataclass
class Meter:
    """Of one stream. Times in ns on the monotonic clock, sizes in bytes."""

    begun_ns: int = 0
    ended_ns: int = 0
    cpu_ns: int = 0
    io_cpu_ns: int = 0
    waited_ns: int = 0
    spent_ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES[:-1], 0))
    source_bytes: int = 0
    local_bytes: int = 0
    files: int = 0
    moved_bytes: int = 0
    log: array[int] = field(default_factory=lambda: array("q"))

    def begin(self) -> None:
        """The stream's work begins, on its own thread."""
        self.begun_ns = self.ended_ns = time.perf_counter_ns()
        self._cpu = time.thread_time_ns()

    def end(self) -> None:
        """The stream's work ends."""
        self.ended_ns = time.perf_counter_ns()
        self.cpu_ns = time.thread_time_ns() - self._cpu

    def target(self, kind: str, call: Callable[..., Any], *args: Any) -> Any:
        """One request to the target, logged."""
        cpu, start = time.thread_time_ns(), time.perf_counter_ns()
        result = call(*args)
        end = time.perf_counter_ns()
        self.io_cpu_ns += time.thread_time_ns() - cpu
        moved = len(result) if kind == "read" else len(args[-1]) if kind == "write" else 0
        self.moved_bytes += moved
        self.spent_ns["target"] += end - start
        self.log.extend((end, KINDS.index(kind), moved, end - start))
        return result

    def side(self, side: str, call: Callable[..., Any], *args: Any) -> Any:
        """A call that is the source's or the client's own files'."""
        cpu, start = time.thread_time_ns(), time.perf_counter_ns()
        try:
            result = call(*args)
        finally:
            self.spent_ns[side] += time.perf_counter_ns() - start
            self.io_cpu_ns += time.thread_time_ns() - cpu
        if isinstance(result, bytes):
            self.source_bytes += len(result)
        return result

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time in the block is spent waiting for other streams."""
        start = time.perf_counter_ns()
        yield
        self.waited_ns += time.perf_counter_ns() - start

    @property
    def busy_ns(self) -> int:
        """From begin to end, but for waiting for other streams."""
        return max(0, self.ended_ns - self.begun_ns - self.waited_ns)

    def shares_ns(self) -> dict[str, int]:
        """`busy_ns` divided among SIDES; cpu is what no call accounts for: computing, and waiting for a processor."""
        other = self.busy_ns - sum(self.spent_ns.values())
        return {**self.spent_ns, "cpu": max(0, other)}

    def rows(self) -> NDArray[np.int64]:
        """(requests, 4): end, kind (index in KINDS), bytes, latency."""
        return np.frombuffer(self.log, np.int64).reshape(-1, 4).copy() if len(self.log) else np.empty((0, 4), np.int64)


def requests(meters: Sequence[Meter]) -> NDArray[np.int64]:
    """Requests of all streams."""
    return np.concatenate([np.empty((0, 4), np.int64), *(meter.rows() for meter in meters)])


def kinds_of(rows: NDArray[np.int64], blobs: list[bytes]) -> dict[str, Any]:
    """The engine's `kinds` of a cell: operations, bytes, latency; histograms are appended to `blobs`."""
    found: dict[str, Any] = {}
    for code, kind in enumerate(KINDS):
        of_kind = rows[rows[:, 1] == code]
        if not len(of_kind):
            continue
        histogram = from_values(of_kind[:, 3])
        exact = {"min": int(of_kind[:, 3].min()), "mean": float(of_kind[:, 3].mean()), "max": int(of_kind[:, 3].max())}
        blobs.append(histogram.encode())
        found[kind] = {
            "ops": len(of_kind), "bytes": int(of_kind[:, 2].sum()),
            "latency_ns": {**histogram.summary(), **exact}, "histogram": len(blobs) - 1,
            "response_ns": None, "response_histogram": None, "latency_series": None,
        }  # fmt: skip
    return found


def series_of(rows: NDArray[np.int64], start_ns: int, end_ns: int) -> bytes:
    """The series blob: int64 (intervals, 7) as the engine writes it; a request counts when it ended."""
    intervals = max(1, -(-(end_ns - start_ns) // INTERVAL_NS))
    out = np.zeros((intervals, _SERIES_COLUMNS), "<i8")
    at = np.clip((rows[:, 0] - start_ns) // INTERVAL_NS, 0, intervals - 1)
    for column, kind in ((0, "read"), (2, "write"), (4, "flush")):
        chosen = rows[:, 1] == KINDS.index(kind)
        np.add.at(out[:, column], at[chosen], 1)
        if kind != "flush":
            np.add.at(out[:, column + 1], at[chosen], rows[chosen, 2])
    np.maximum.at(out[:, 6], at, rows[:, 3])
    return out.tobytes()
