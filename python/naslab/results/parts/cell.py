"""The part of the run document about one cell."""

from functools import cache
from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import (
    Bytes,
    BytesPerS,
    Count,
    HostName,
    Interval,
    LoadName,
    Ns,
    Number,
    Part,
    PerS,
    Positive,
    Sentence,
    WallNs,
    Word,
    about,
)
from naslab.results.fields import fields_of
from naslab.results.parts.client import CellClient
from naslab.results.parts.clients import CellClients
from naslab.results.parts.tree import METADATA_OPS
from naslab.results.parts.warning import RunWarning
from naslab.spec import DATA_OPS

Regime = Literal[
    "client_cache", "server_cache", "link", "latency", "disk", "burst", "baseline", "above_link", "mixed", "unknown",
]  # fmt: skip


class Latency(Part):
    """Latency."""

    min: Annotated[Ns | None, about("smallest")]
    mean: Annotated[Ns | None, about("mean")]
    p50: Annotated[Ns | None, about("50 % were at most this")]
    p90: Annotated[Ns | None, about("90 % were at most this")]
    p99: Annotated[Ns | None, about("99 % were at most this")]
    p99_9: Annotated[Ns | None, about("99.9 % were at most this")]
    max: Annotated[Ns | None, about("largest")]


class KindDocument(Part):
    """Kind of operation."""

    ops: Annotated[Count, about("operations of this kind")]
    bytes: Annotated[Bytes, about("bytes they moved")]
    latency_ns: Annotated[Latency, about("service time, from submission")]
    response_ns: Annotated[Latency | None, about("response time from the due time; null: closed loop")]


class ErrorCount(Part):
    """Error count."""

    kind: Annotated[Word, about("class of error")]
    status: Annotated[int, about("raw status: errno, NTSTATUS or nfsstat")]
    count: Annotated[Count, about("operations")]


class WorkerKind(Part):
    """Operations of a worker."""

    ops: Annotated[Count, about("operations")]
    bytes: Annotated[Bytes, about("bytes moved")]
    latency_mean_ns: Annotated[Number | UnsetType | None, about("mean latency", "ns")] = UNSET
    latency_stddev_ns: Annotated[Number | UnsetType | None, about("its standard deviation", "ns")] = UNSET
    iops_stddev: Annotated[PerS | UnsetType | None, about("standard deviation of the rate by second")] = UNSET


class WorkerDocument(Part):
    """Worker."""

    worker: Annotated[Count, about("from 0")]
    bytes: Annotated[Bytes, about("bytes it moved")]
    ops: Annotated[Count, about("operations it completed")]
    start_ns: Annotated[Ns, about("its first operation, monotonic clock")]
    end_ns: Annotated[Ns, about("its last operation, monotonic clock")]
    duration_ns: Annotated[Ns, about("its own timed window less pauses")]
    kinds: Annotated[
        dict[str, WorkerKind] | UnsetType, about("by kind: ops, bytes, latency_mean_ns, latency_stddev_ns, iops_stddev")
    ] = UNSET


class ClientStall(Part):
    """Stall of the client."""

    longest_ns: Annotated[Ns, about("longest time for which nothing of naslab ran; 0: none of 0.1 s or more")]
    total_ns: Annotated[Ns, about("all such times within the timed window")]
    count: Annotated[Count, about("their number")]
    asleep_ns: Annotated[Ns, about("the machine was suspended; no part of the durations")]
    clock_step_ns: Annotated[
        int, about("largest step of the wall clock; below 0: back; 0: none of 10 ms or more", "ns")
    ]


class Verified(Part):
    """Checked data."""

    blocks: Annotated[Count, about("blocks checked")]
    bad: Annotated[Count, about("those with different contents")]
    first_bad: Annotated[str | UnsetType | None, about("the first of them")] = UNSET


class DirectProof(Part):
    """Proof of direct access."""

    o_direct: Annotated[bool | UnsetType | None, about("whether files were opened with it")] = UNSET
    cached_fraction: Annotated[
        Number | UnsetType | None, about("share of the file in the client's memory afterwards")
    ] = UNSET
    proven: Annotated[bool | UnsetType | None, about("whether the client's cache cannot have answered")] = UNSET


class AddressBytes(Part):
    """Bytes by address."""

    address: Annotated[HostName, about("address of the server")]
    sent_bytes: Annotated[Bytes, about("bytes sent to it on the wire")]
    received_bytes: Annotated[Bytes, about("bytes received from it on the wire")]


class Outage(Part, kw_only=True):
    """Outage."""

    worker: Annotated[Count, about("whose session was lost, from 0")]
    start_ns: Annotated[Ns, about("the server's last answer before, monotonic clock")]
    end_ns: Annotated[Ns, about("the files were open again, monotonic clock")]
    attempts: Annotated[Count, about("attempts to connect")]
    kept_files: Annotated[Count | UnsetType, about("open files that the server had kept")] = UNSET
    reopened_files: Annotated[
        Count | UnsetType, about("open files that it had not kept, and that were opened again by name")
    ] = UNSET
    repeated_ops: Annotated[Count, about("operations that were outstanding, and were submitted again")]
    repeated_calls: Annotated[
        Count | UnsetType, about("calls about files and folders that had no answer, and were made again")
    ] = UNSET
    answers_replayed: Annotated[
        Count | UnsetType, about("of these, those that were answered in the session in which they were made first")
    ] = UNSET
    calls_done_before: Annotated[
        Count | UnsetType,
        about(
            "of the repeated calls, those that were answered 'exists' or 'not there' and count as done before the "
            "outage"
        ),
    ] = UNSET
    read_back_writes: Annotated[Count, about("acknowledged writes that were read back")]
    read_back_bytes: Annotated[Bytes, about("their size")]
    lost_writes: Annotated[Count, about("of these, those whose contents the server no longer had")]
    first_lost: Annotated[str | None, about("the newest of them; null: none")]


class CellDocument(Part, kw_only=True):
    """Cell."""

    id: Annotated[Count, about("unique in the run")]
    op: Annotated[Word, about(f"operation: {', '.join(DATA_OPS)}; metadata: {', '.join(METADATA_OPS)}")]
    workload: Annotated[LoadName | None, about("application workload, when the cell is one")]
    file_bytes: Annotated[Positive | None, about("file size", "bytes", unreported=True)]
    record_bytes: Annotated[Positive | None, about("record size: bytes per operation", "bytes", unreported=True)]
    queue_depth: Annotated[Positive | None, about("queue depth per worker", unreported=True)]
    workers: Annotated[Positive | None, about("threads, each with its own session", unreported=True)]
    block: Annotated[Count, about("which repeat: cells of one block were measured together, blocks in random order")]
    durability: Annotated[
        Literal["none", "end", "each"] | None,
        about("none; end: one flush at the end; each: every write", unreported=True),
    ]
    cache_state: Annotated[Literal["warm", "cold", "unknown"], about("state of the caches before the cell")]
    bytes: Annotated[Bytes | None, about("bytes moved in the timed window", unreported=True)]
    ops: Annotated[Count | None, about("operations completed in the timed window", unreported=True)]
    errors: Annotated[Count | None, about("operations that failed", unreported=True)]
    duration_ns: Annotated[
        Ns | None, about("timed window less pauses: what throughput divides by (last worker done)", unreported=True)
    ]
    acknowledged_bytes_per_s: Annotated[BytesPerS | None, about("bytes / acknowledged_ns", unreported=True)]
    durable_bytes_per_s: Annotated[BytesPerS | None, about("bytes / (acknowledged_ns + flush_ns); null: not flushed")]
    throughput_bytes_per_s: Annotated[BytesPerS, about("bytes / duration_ns")]
    throughput_mib_per_s: Annotated[Number, about("the same in MiB/s (2^20)", "MiB/s")]
    iops: Annotated[PerS | None, about("ops / duration_ns", unreported=True)]
    cpu_fraction: Annotated[
        Number | None, about("client CPU: (cpu_user_ns + cpu_system_ns) / window_ns; 1 = one core", unreported=True)
    ]
    latency_ns: Annotated[Latency, about("over all kinds but flush; from the clock that latency_clock names")]
    latency_clock: Annotated[
        Literal["service", "response"], about("service: from submission; response: from the due time (open loop)")
    ]
    wire_bytes: Annotated[Bytes | None, about("bytes sent and received on the wire; null: not counted")]
    wire_sent_bytes: Annotated[Bytes | None, about("bytes sent on the wire")]
    wire_received_bytes: Annotated[Bytes | None, about("bytes received on the wire")]
    wire_by_address: Annotated[
        list[AddressBytes] | UnsetType, about("the same by address, where the server was used at several")
    ] = UNSET
    outages: Annotated[
        list[Outage] | UnsetType, about("times without the server that were waited out (--ride-out)")
    ] = UNSET
    protocol_events: Annotated[
        dict[str, Count], about("protocol events besides operations: name and count (delay, grace, split)")
    ]
    regime: Annotated[
        Regime | None,
        about("what the cell measured; null: not explained"),
    ]
    regime_evidence: Annotated[
        Sentence | UnsetType | None, about("why, in a sentence with its numbers; null: not explained")
    ] = UNSET
    predicted: Annotated[bool, about("true: not measured but predicted by --adaptive")]
    predicted_ci90_bytes_per_s: Annotated[
        Interval | UnsetType, about("of a predicted cell: ends of the 90 % interval of its rate", "bytes/s")
    ] = UNSET
    covers_file_bytes: Annotated[
        list[Bytes] | UnsetType,
        about("smallest and largest file size that the rate is a mean over, or holds over; file_bytes is null then"),
    ] = UNSET
    status: Annotated[
        Literal["complete", "partial", "failed"],
        about("complete: as planned; partial: ended early, numbers hold for what was done; failed: no result"),
    ]
    stop_reason: Annotated[Word, about("done, bytes, ops, duration, stonewall, interrupted or error")]
    start_ns: Annotated[Ns | None, about("start of the timed window, monotonic clock", unreported=True)]
    end_ns: Annotated[Ns | None, about("end of the cell, monotonic clock", unreported=True)]
    start_wall_ns: Annotated[WallNs, about("start on the wall clock")]
    window_ns: Annotated[Ns | None, about("timed window, pauses included", unreported=True)]
    limit_ns: Annotated[
        Ns | UnsetType | None,
        about("operations were started until so long after the window began; null: until all were done"),
    ] = UNSET
    pause_ns: Annotated[Ns | None, about("pauses within the window", unreported=True)]
    acknowledged_ns: Annotated[Ns | None, about("until the last operation was acknowledged", unreported=True)]
    flush_ns: Annotated[Ns | None, about("flush after that; null: none requested")]
    close_ns: Annotated[Ns | None, about("close after that; null: not timed")]
    warmup_bytes: Annotated[Bytes | None, about("moved before the timed window", unreported=True)]
    warmup_ops: Annotated[Count | None, about("operations before the timed window", unreported=True)]
    pattern: Annotated[
        Word | None,
        about("order of offsets: sequential, permutation, random, backward, stride, same_record", unreported=True),
    ]
    access: Annotated[Word | None, about("positioned, cursor, stdio or mmap", unreported=True)]
    write_fraction: Annotated[Number | None, about("share of operations that write, 0 to 1", unreported=True)]
    direct: Annotated[bool | None, about("the client's cache was to be bypassed", unreported=True)]
    sync: Annotated[
        Word | None, about("write-through requested for each operation: none, data, all, reads_too", unreported=True)
    ]
    errors_by_status: Annotated[list[ErrorCount], about("failed operations by raw status")]
    first_error: Annotated[str | None, about("the first error as text")]
    kinds: Annotated[
        dict[str, KindDocument], about("by kind of operation: read, write, flush, or a metadata operation")
    ]
    workers_detail: Annotated[list[WorkerDocument], about("each worker's part")]
    cpu_user_ns: Annotated[Ns | None, about("client CPU time in the process", unreported=True)]
    cpu_system_ns: Annotated[Ns | None, about("client CPU time in the kernel for the process", unreported=True)]
    generation_cpu_ns: Annotated[Ns | None, about("of that, making data", unreported=True)]
    verify_cpu_ns: Annotated[Ns | None, about("of that, checking data", unreported=True)]
    storage_read_bytes: Annotated[Bytes | None, about("read from the client's block devices; local targets")]
    storage_write_bytes: Annotated[Bytes | None, about("written to the client's block devices; local targets")]
    interval_ns: Annotated[Ns, about("interval of the series")]
    missed_starts: Annotated[
        Count | None, about("open loop: operations that could not start when due", unreported=True)
    ]
    offered_per_s: Annotated[PerS | None, about("open loop: operations offered; null: closed loop")]
    verified: Annotated[Verified | None, about("--verify: blocks checked, blocks bad, the first bad one")]
    direct_proof: Annotated[DirectProof | None, about("evidence that the client's cache did not answer")]
    data_measured: Annotated[
        dict[str, Number | None] | None, about("written data: compress_ratio_zlib, compress_ratio_lz4, dedupe_ratio")
    ]
    client: Annotated[
        CellClient | UnsetType, about("processor time the client was allowed, and what restricted it")
    ] = UNSET
    client_stall: Annotated[
        ClientStall | None, about("how long this client itself stalled; null: not watched, or simulated")
    ]
    clients: Annotated[CellClients | UnsetType, about("of a cell that many clients measured together")] = UNSET
    warnings: Annotated[list[RunWarning], about("about this cell")]


@cache
def unreported_fields() -> tuple[str, ...]:
    """Fields of a cell that are null where a run has a `source` that does not report them."""
    return tuple(each.name for each in fields_of(CellDocument) if each.extra.get("unreported"))
