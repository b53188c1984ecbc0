"""What each stream of a job spent its time on: the source, the target, the client's own files, its CPU."""

from __future__ import annotations

import os
import resource
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.errors import NaslabError
from naslab.results.histogram import from_values

SIDES = ("source", "target", "local", "cpu")
"""source: reads of the tree that is copied; target: requests; local: writes of this machine's files; cpu: the client's
processors, computing or waited for."""
KINDS = (
    "read", "write", "flush", "open", "create", "close", "stat", "readdir", "mkdir", "remove", "set_times",
)  # fmt: skip
INTERVAL_NS = 100_000_000
WIRE_NS = 20_000_000
"""How long after a look at the bytes on the wire the next one may be."""
FRESH_NS = 50_000
"""How old an answer about processor time may be to be used again."""
_SERIES_COLUMNS = 7


class _Delays:
    """How long the calling thread was ready to run and had no processor, as Linux counts it; 0 elsewhere."""

    def __init__(self) -> None:
        try:
            self._file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def read_ns(self) -> int:
        """Since the thread began."""
        if self._file < 0:
            return 0
        fields = os.pread(self._file, 64, 0).split()
        return int(fields[1]) if len(fields) > 1 else 0

    def close(self) -> None:
        """Ends reading."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


@dataclass
class Meter:
    """Of one stream, which works in phases. Times in ns on the monotonic clock, sizes in bytes.

    cpu_ns: processor time of the stream's thread in its phases; request_cpu_ns, side_cpu_ns: of it in requests to the
    target and in calls of the other sides. delayed_ns: ready to run, but without a processor. waited_ns: for other
    streams. spent_ns: elapsed in the calls of each side, without delayed_ns. request_cpu_ns is part of the target's
    time where `remote` is False: a folder's requests are work of this machine's processors, a server's are not.
    """

    remote: bool = False
    begun_ns: int = 0
    ended_ns: int = 0
    active_ns: int = 0
    cpu_ns: int = 0
    user_ns: int = 0
    system_ns: int = 0
    request_cpu_ns: int = 0
    side_cpu_ns: int = 0
    delayed_ns: int = 0
    waited_ns: int = 0
    spent_ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIDES[:-1], 0))
    source_bytes: int = 0
    local_bytes: int = 0
    files: int = 0
    moved_bytes: int = 0
    log: array[int] = field(default_factory=lambda: array("q"))
    wire_log: array[int] = field(default_factory=lambda: array("q"))
    _wire: Callable[[], tuple[int, int] | None] | None = field(default=None, init=False, repr=False)
    _wire_due_ns: int = field(default=0, init=False, repr=False)

    def count_wire(self, ask: Callable[[], tuple[int, int] | None]) -> None:
        """From now on bytes on the wire are noted now and then. ask: bytes (sent, received) of the session so far."""
        self._wire = ask

    def _look_at_wire(self, now_ns: int) -> None:
        """Notes the bytes on the wire until now; no more where a session broke or has no such count."""
        if self._wire is None:
            return
        try:
            counted = self._wire()
        except NaslabError:
            counted = None
        if counted is None:
            self._wire = None
            return
        self.wire_log.extend((now_ns, *counted))
        self._wire_due_ns = now_ns + WIRE_NS

    def begin(self) -> None:
        """A phase begins, on the stream's own thread."""
        self._delays = _Delays()
        self._ask()
        self._delay = self._delay_then
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._used = used.ru_utime, used.ru_stime
        self._cpu = time.thread_time_ns()
        self._phase = time.perf_counter_ns()
        self._look_at_wire(self._phase)
        self.begun_ns = self.begun_ns or self._phase

    def end(self) -> None:
        """The phase ends."""
        self.ended_ns = time.perf_counter_ns()
        self._look_at_wire(self.ended_ns)
        self.active_ns += self.ended_ns - self._phase
        self.cpu_ns += time.thread_time_ns() - self._cpu
        used = resource.getrusage(resource.RUSAGE_SELF)
        self.user_ns += round((used.ru_utime - self._used[0]) * 1e9)
        self.system_ns += round((used.ru_stime - self._used[1]) * 1e9)
        self.delayed_ns += self._delays.read_ns() - self._delay
        self._delays.close()

    def target(self, kind: str, call: Callable[..., Any], *args: Any) -> Any:
        """One request to the target, logged."""
        result, end, elapsed = self._timed("target", call, *args)
        self._note(kind, end, elapsed, len(result) if kind == "read" else len(args[-1]) if kind == "write" else 0)
        return result

    def target_batch(self, kind: str, call: Callable[[], Any], sizes: Callable[[Any], list[int]]) -> Any:
        """Several requests in flight together; each is logged with the time of all: when one ended is not known."""
        result, end, elapsed = self._timed("target", call)
        for moved in sizes(result):
            self._note(kind, end, elapsed, moved)
        return result

    def _note(self, kind: str, end: int, elapsed: int, moved: int) -> None:
        self.moved_bytes += moved
        self.log.extend((end, KINDS.index(kind), moved, elapsed))
        if end >= self._wire_due_ns:
            self._look_at_wire(end)

    def _timed(self, side: str, call: Callable[..., Any], *args: Any) -> tuple[Any, int, int]:
        """Result, end and elapsed time of a call; its time without a processor is not the side's.

        Asking the system for processor time costs microseconds, so what it said up to FRESH_NS ago is used again,
        and a call that ended by then is taken to have had its processor. A server's requests are always asked about.
        """
        exact = self.remote and side == "target"
        start = time.perf_counter_ns()
        if exact or start - self._asked_at > FRESH_NS:
            self._ask()
            start = time.perf_counter_ns()
        cpu, delay = self._cpu_then, self._delay_then
        try:
            result = call(*args)
        finally:
            end = time.perf_counter_ns()
            used, delayed = end - start, 0
            if exact or end - self._asked_at > FRESH_NS:
                self._ask()
                delayed = min(used, self._delay_then - delay)
                used = min(used - delayed, self._cpu_then - cpu)
            spent = end - start - delayed
            if side != "target":
                self.side_cpu_ns += used
            else:
                self.request_cpu_ns += used
                spent -= used if self.remote else 0
            self.spent_ns[side] += spent
        return result, end, end - start

    def _ask(self) -> None:
        """Processor time of the thread, and time it had to wait for one, as of now."""
        self._cpu_then, self._delay_then = time.thread_time_ns(), self._delays.read_ns()
        self._asked_at = time.perf_counter_ns()

    def side(self, side: str, call: Callable[..., Any], *args: Any) -> Any:
        """A call that is the source's or the client's own files'."""
        result = self._timed(side, call, *args)[0]
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
        """In its phases, but for waiting for other streams."""
        return max(0, self.active_ns - self.waited_ns)

    @property
    def compute_cpu_ns(self) -> int:
        """Processor time between calls: compressing, summing up, this program itself."""
        return max(0, self.cpu_ns - self.request_cpu_ns - self.side_cpu_ns)

    def shares_ns(self) -> dict[str, int]:
        """`busy_ns` divided among SIDES; cpu: computing, waiting for a processor, and a server's requests' CPU time."""
        other = self.busy_ns - sum(self.spent_ns.values())
        return {**self.spent_ns, "cpu": max(0, other)}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

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


def wire_series_of(meters: Sequence[Meter], start_ns: int, end_ns: int) -> bytes | None:
    """The blob of bytes on the wire: int64 (intervals, 2), sent and received in each interval of `series_of`.

    Between two looks of a stream its bytes are spread evenly. None where no stream's session counts them.
    """
    looks = [np.frombuffer(meter.wire_log, np.int64).reshape(-1, 3) for meter in meters if len(meter.wire_log)]
    if not looks:
        return None
    intervals = max(1, -(-(end_ns - start_ns) // INTERVAL_NS))
    edges = np.arange(intervals + 1) * INTERVAL_NS
    out = np.zeros((intervals, 2), "<i8")
    for rows in looks:
        for column in (0, 1):
            moved = rows[:, 1 + column] - rows[0, 1 + column]
            out[:, column] += np.diff(np.rint(np.interp(edges, rows[:, 0] - start_ns, moved)).astype("<i8"))
    return out.tobytes()
