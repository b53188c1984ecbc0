"""The profile of a trace: what its operations are like, in one pass and bounded memory.

Definitions (docs/reference/trace.md has them too). A *request* is a read or write that moved bytes. It is
sequential *per handle* if it starts where the request before it on the same handle ended, *per stream* if it
starts where the stream's request before it ended in the same file, and *globally* if it starts where the request
before it in the whole trace ended in the same file: what a server sees that knows nothing of clients. The first
request of a handle, of a stream, of the trace has none before it and is left out of that share.

*Think time* is from the end of a stream's operation to the start of its next; it needs durations. *Concurrency* is
how many operations are under way, weighted by time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from naslab.trace.described import (
    LevelShare,
    PowerCount,
    SequentialShares,
    SizeCount,
    ThinkTime,
    TraceConcurrency,
    TraceFiles,
    TraceKind,
    TraceProfile,
    TraceRequests,
    TraceSeries,
    TraceStream,
    TraceStreams,
)
from naslab.trace.fileset import FileSet
from naslab.trace.format import Operation

_MAX_SIZES = 4096
"""Distinct request sizes that are counted one by one; later new ones only count in their power of two."""
_BINS = 120
_FIRST_BIN_NS = 1_000_000
_MAX_STREAMS = 32
"""Streams listed one by one, the busiest."""


@dataclass(slots=True)
class _KindTotals:
    operations: int = 0
    failed: int = 0
    bytes: int = 0
    timed: int = 0
    duration_ns: int = 0
    longest_ns: int = 0


@dataclass(slots=True)
class _Sequence:
    """Requests that had one before them, and those that went on where it ended."""

    candidates: int = 0
    sequential: int = 0

    def share(self) -> float | None:
        """Of sequential requests; None without candidates."""
        return self.sequential / self.candidates if self.candidates else None


@dataclass(slots=True)
class _Stream:
    operations: int = 0
    bytes: int = 0
    end_ns: int = 0
    thinks: int = 0
    think_ns: int = 0
    path: str | None = None
    next_offset: int = -1


@dataclass
class _Bins:
    """Rates over time in at most 2 * _BINS equal parts; they double in length when the trace outgrows them."""

    width_ns: int = _FIRST_BIN_NS
    rows: list[list[int]] = field(default_factory=list)

    def add(self, start_ns: int, column: int, amount: int) -> None:
        """Columns: operations, bytes read, bytes written, busy ns."""
        self._row(start_ns)[column] += amount

    def busy(self, start_ns: int, duration_ns: int) -> None:
        """An operation was under way so long, spread over the parts it touches."""
        self._row(start_ns + duration_ns)
        end_ns = start_ns + duration_ns
        while start_ns < end_ns:
            index = start_ns // self.width_ns
            upto = min(end_ns, (index + 1) * self.width_ns)
            self.rows[index][3] += upto - start_ns
            start_ns = upto

    def _row(self, at_ns: int) -> list[int]:
        while at_ns // self.width_ns >= 2 * _BINS:
            self._double(at_ns)
        index = at_ns // self.width_ns
        while len(self.rows) <= index:
            self.rows.append([0, 0, 0, 0])
        return self.rows[index]

    def _double(self, at_ns: int) -> None:
        self.width_ns *= 2
        pairs = [self.rows[i : i + 2] for i in range(0, len(self.rows), 2)]
        self.rows = [[sum(column) for column in zip(*pair, strict=True)] for pair in pairs]


class _Concurrency:
    """How long how many operations were under way, from starts in order and durations."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._since_ns = 0
        self.time_ns: Counter[int] = Counter()

    def begin(self, start_ns: int, duration_ns: int) -> None:
        """An operation."""
        self._until(start_ns)
        heapq.heappush(self._ends, start_ns + duration_ns)

    def finish(self) -> None:
        """No more will come."""
        self._until(None)

    def _until(self, now_ns: int | None) -> None:
        ends = self._ends
        while ends and (now_ns is None or ends[0] <= now_ns):
            self.time_ns[len(ends)] += ends[0] - self._since_ns
            self._since_ns = heapq.heappop(ends)
        if now_ns is not None:
            self.time_ns[len(ends)] += now_ns - self._since_ns
            self._since_ns = now_ns


class Profile:
    """Takes operations in their order (`add`), as a `Trace` yields them; `document` is the result."""

    def __init__(self) -> None:
        self.files = FileSet()
        self._kinds: dict[str, _KindTotals] = {}
        self._errors: Counter[str] = Counter()
        self._sizes: dict[str, Counter[int]] = {"read": Counter(), "write": Counter()}
        self._powers: dict[str, Counter[int]] = {"read": Counter(), "write": Counter()}
        self._empty: Counter[str] = Counter()
        self._positions: dict[int, int] = {}
        self._by_handle = {"read": _Sequence(), "write": _Sequence()}
        self._by_stream, self._global = _Sequence(), _Sequence()
        self._last: tuple[str | None, int] | None = None
        self._streams: dict[int, _Stream] = {}
        self._think: Counter[int] = Counter()
        self._bins = _Bins()
        self._concurrency = _Concurrency()
        self._inferred = 0
        self._last_ns = 0
        self._timed = 0
        self._overlaps = 0

    def add(self, o: Operation) -> None:
        """The next operation."""
        self.files.add(o)
        if o.handle is not None and o.op == "close":
            self._positions.pop(o.handle, None)
        if "i" in o.flags:
            self._inferred += 1
            return
        totals = self._kinds.get(o.op)
        if totals is None:
            totals = self._kinds[o.op] = _KindTotals()
        totals.operations += 1
        if o.error is not None:
            totals.failed += 1
            self._errors[o.error] += 1
        stream = self._streams.get(o.stream)
        if stream is None:
            stream = self._streams[o.stream] = _Stream(end_ns=-1)
        stream.operations += 1
        self._time(o, totals, stream)
        self._bins.add(o.start_ns, 0, 1)
        if o.op in ("read", "write") and o.error is None:
            self._request(o, totals, stream)

    def _time(self, o: Operation, totals: _KindTotals, stream: _Stream) -> None:
        if stream.end_ns >= 0:
            pause_ns = o.start_ns - stream.end_ns
            if pause_ns >= 0:
                stream.thinks += 1
                stream.think_ns += pause_ns
                self._think[pause_ns.bit_length()] += 1
            else:
                self._overlaps += 1
        end_ns = o.start_ns
        if o.duration_ns is not None:
            end_ns += o.duration_ns
            self._timed += 1
            totals.timed += 1
            totals.duration_ns += o.duration_ns
            totals.longest_ns = max(totals.longest_ns, o.duration_ns)
            self._concurrency.begin(o.start_ns, o.duration_ns)
            self._bins.busy(o.start_ns, o.duration_ns)
        stream.end_ns = max(stream.end_ns, end_ns)
        self._last_ns = max(self._last_ns, end_ns)

    def _request(self, o: Operation, totals: _KindTotals, stream: _Stream) -> None:
        moved: int = o.len_bytes  # type: ignore[assignment]
        start: int = o.offset_bytes  # type: ignore[assignment]
        if not moved:
            self._empty[o.op] += 1
            return
        totals.bytes += moved
        stream.bytes += moved
        self._bins.add(o.start_ns, 1 if o.op == "read" else 2, moved)
        sizes = self._sizes[o.op]
        if moved in sizes or len(sizes) < _MAX_SIZES:
            sizes[moved] += 1
        self._powers[o.op][_power(moved)] += 1
        end = start + moved
        before = self._positions.get(o.handle)  # type: ignore[arg-type]
        if before is not None:
            _count(self._by_handle[o.op], before == start)
        self._positions[o.handle] = end  # type: ignore[index]
        if stream.next_offset >= 0:
            _count(self._by_stream, stream.next_offset == start and stream.path == o.path)
        stream.path, stream.next_offset = o.path, end
        if self._last is not None:
            _count(self._global, self._last == (o.path, start))
        self._last = (o.path, end)

    # The result

    def document(self) -> TraceProfile:
        """The profile of all operations so far."""
        self._concurrency.finish()
        reads, writes = (self._kinds.get(op, _KindTotals()) for op in ("read", "write"))
        requests = {op: sum(self._powers[op].values()) for op in ("read", "write")}
        moved, asked = reads.bytes + writes.bytes, sum(requests.values())
        return TraceProfile(
            duration_ns=self._last_ns, operations=sum(k.operations for k in self._kinds.values()),
            failed=sum(k.failed for k in self._kinds.values()), errors=dict(self._errors.most_common(20)),
            inferred_opens=self._inferred, kinds=self._kind_rows(),
            read_bytes=reads.bytes, written_bytes=writes.bytes,
            read_share_of_bytes=reads.bytes / moved if moved else None,
            read_share_of_requests=requests["read"] / asked if asked else None,
            requests={op: self._sizes_of(op) for op in ("read", "write")},
            sequential=SequentialShares(
                per_handle=_joined(self._by_handle.values()).share(),
                per_handle_read=self._by_handle["read"].share(), per_handle_write=self._by_handle["write"].share(),
                per_stream=self._by_stream.share(), at_server=self._global.share(),
            ),
            concurrency=self._concurrency_facts(), think=self._think_facts(), series=self._series(),
            streams=self._stream_rows(), files=self._file_facts(),
        )  # fmt: skip

    def _kind_rows(self) -> dict[str, TraceKind]:
        order = sorted(self._kinds.items(), key=lambda pair: -pair[1].operations)
        return {
            name: TraceKind(
                k.operations, k.failed, k.bytes,
                mean_ns=k.duration_ns // k.timed if k.timed else None, max_ns=k.longest_ns if k.timed else None,
            )
            for name, k in order
        }  # fmt: skip

    def _sizes_of(self, op: str) -> TraceRequests:
        powers, sizes = self._powers[op], self._sizes[op]
        count = sum(powers.values())
        total = self._kinds[op].bytes if op in self._kinds else 0
        return TraceRequests(
            count=count, at_end_of_file=self._empty[op], mean_bytes=total / count if count else None,
            common=[SizeCount(size, n) for size, n in sizes.most_common(8)], histogram=_histogram(powers),
        )  # fmt: skip

    def _concurrency_facts(self) -> TraceConcurrency | None:
        if not self._timed:
            return None
        time_ns = self._concurrency.time_ns
        whole = sum(time_ns.values())
        busy = whole - time_ns[0]
        area = sum(level * ns for level, ns in time_ns.items())
        levels = sorted(level for level, ns in time_ns.items() if ns)
        return TraceConcurrency(
            max=max(levels, default=0), mean=area / whole if whole else None,
            mean_while_busy=area / busy if busy else None,
            share_of_time=[LevelShare(n, time_ns[n] / whole) for n in levels[:64]],
        )  # fmt: skip

    def _think_facts(self) -> ThinkTime | None:
        count = sum(self._think.values())
        if not count or not self._timed:
            return None
        total = sum(stream.think_ns for stream in self._streams.values())
        quantiles = (_quantile(self._think, q) for q in (0.5, 0.9, 0.99))
        return ThinkTime(count, total, total // count, self._overlaps, *quantiles)

    def _series(self) -> TraceSeries:
        columns = zip(*self._bins.rows, strict=True) if self._bins.rows else ([], [], [], [])
        return TraceSeries(self._bins.width_ns, *(list(column) for column in columns))

    def _stream_rows(self) -> TraceStreams:
        busiest = heapq.nlargest(_MAX_STREAMS, self._streams.items(), key=lambda pair: pair[1].operations)
        rows = [
            TraceStream(number, s.operations, s.bytes, s.think_ns // s.thinks if s.thinks and self._timed else None)
            for number, s in busiest
        ]
        return TraceStreams(len(self._streams), rows)

    def _file_facts(self) -> TraceFiles:
        sizes: Counter[int] = Counter()
        folders = total = largest = 0
        for fact in self.files.needed():
            folders += fact.folder
            if not fact.folder:
                sizes[_power(fact.size_bytes)] += 1
                total += fact.size_bytes
                largest = max(largest, fact.size_bytes)
        return TraceFiles(
            needed_files=sizes.total(), needed_folders=folders, needed_bytes=total,
            largest_needed_bytes=largest, needed_sizes=_histogram(sizes),
            created_files=self.files.created_files, created_folders=self.files.created_folders,
            removed=self.files.removed, unreadable=self.files.unreadable, tree=self.files.shape(),
        )  # fmt: skip


def _power(size_bytes: int) -> int:
    """The least power of two that is no less; 0 for nothing and for one byte."""
    return max(size_bytes - 1, 0).bit_length()


def _histogram(powers: Counter[int]) -> list[PowerCount]:
    return [PowerCount(1 << power, powers[power]) for power in sorted(powers)]


def _count(sequence: _Sequence, sequential: bool) -> None:
    sequence.candidates += 1
    sequence.sequential += sequential


def _joined(parts: Iterable[_Sequence]) -> _Sequence:
    both = list(parts)
    return _Sequence(sum(part.candidates for part in both), sum(part.sequential for part in both))


def _quantile(powers: Counter[int], q: float) -> int:
    """The power of two that a share q of all values lies below."""
    rest = q * sum(powers.values())
    for bits in sorted(powers):
        rest -= powers[bits]
        if rest <= 0:
            return int(1 << bits)
    return 0
