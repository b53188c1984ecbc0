"""What `naslab trace show --json` prints: a trace and its profile, field by field (docs/reference/trace.md)."""

from __future__ import annotations

from msgspec import Struct, field

from naslab.trace.format import End, Header


class TraceKind(Struct):
    """Operations of one kind. Times: None where the trace has no durations."""

    operations: int
    failed: int
    bytes: int
    mean_ns: int | None
    max_ns: int | None


class SizeCount(Struct):
    """Requests of one size."""

    bytes: int
    count: int


class PowerCount(Struct):
    """What is larger than half of this size, and no larger than it."""

    up_to_bytes: int
    count: int


class TraceRequests(Struct):
    """Reads or writes that moved bytes. common: the most frequent sizes."""

    count: int
    at_end_of_file: int
    mean_bytes: float | None
    common: list[SizeCount]
    histogram: list[PowerCount]


class SequentialShares(Struct):
    """Shares of requests that continue the one before them; None without any."""

    per_handle: float | None
    per_handle_read: float | None
    per_handle_write: float | None
    per_stream: float | None
    at_server: float | None = field(name="global")


class LevelShare(Struct):
    """How much of the time so many operations were outstanding."""

    operations: int
    share: float


class TraceConcurrency(Struct):
    """Outstanding operations over time."""

    max: int
    mean: float | None
    mean_while_busy: float | None
    share_of_time: list[LevelShare]


class ThinkTime(Struct):
    """From the end of a stream's operation to the start of its next. overlaps: the next began before that end."""

    count: int
    total_ns: int
    mean_ns: int
    overlaps: int
    p50_below_ns: int
    p90_below_ns: int
    p99_below_ns: int


class TraceSeries(Struct):
    """Amounts in equal intervals."""

    interval_ns: int
    operations: list[int]
    read_bytes: list[int]
    written_bytes: list[int]
    busy_ns: list[int]


class TraceStream(Struct):
    """One stream."""

    stream: int
    operations: int
    bytes: int
    think_mean_ns: int | None


class TraceStreams(Struct):
    """Number of streams, and the busiest of them."""

    count: int
    busiest: list[TraceStream]


class TraceTree(Struct):
    """The tree of all names that the trace used and that are there at its end."""

    files: int
    folders: int
    depth: int
    most_entries: int


class TraceFiles(Struct):
    """Files that must exist before a replay, and what the trace made. unreadable: reads of more than was written."""

    needed_files: int
    needed_folders: int
    needed_bytes: int
    largest_needed_bytes: int
    needed_sizes: list[PowerCount]
    created_files: int
    created_folders: int
    removed: int
    unreadable: int
    tree: TraceTree


class TraceProfile(Struct):
    """What the operations of a trace are like. requests: of `read` and `write`."""

    duration_ns: int
    operations: int
    failed: int
    errors: dict[str, int]
    inferred_opens: int
    kinds: dict[str, TraceKind]
    read_bytes: int
    written_bytes: int
    read_share_of_bytes: float | None
    read_share_of_requests: float | None
    requests: dict[str, TraceRequests]
    sequential: SequentialShares
    concurrency: TraceConcurrency | None
    think: ThinkTime | None
    series: TraceSeries
    streams: TraceStreams
    files: TraceFiles


class DescribedTrace(Struct):
    """A trace file. schema: of this document."""

    schema: int
    trace: str
    header: Header
    end: End
    profile: TraceProfile
