"""The part of a cell that many clients measured together, and what a server was seen to do meanwhile."""

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from naslab.results.describe import Bytes, BytesPerS, Count, Interval, Ns, Number, Part, about
from naslab.results.parts.client import CellClient


class ClientPart(Part, kw_only=True):
    """One client's part."""

    client: Annotated[Count, about("number of the client")]
    bytes: Annotated[Bytes, about("moved within its own window")]
    ops: Annotated[Count, about("operations that ended well")]
    errors: Annotated[Count, about("operations that failed")]
    status: Annotated[str, about("complete, partial or failed")]
    start_offset_ns: Annotated[Ns, about("its start after the first client's")]
    duration_ns: Annotated[Ns, about("its own duration")]
    bytes_per_s: Annotated[
        BytesPerS,
        about("its rate within the common window, where there was one for half of the time; else over its own"),
    ]
    cpu_ns: Annotated[Ns, about("processor time of its process")]
    conditions: Annotated[
        CellClient | UnsetType, about("how much processor time it was allowed, and what restricted it")
    ] = UNSET
    latency_ns: Annotated[
        dict[str, dict[str, Number | None]], about("by kind of operation: min, mean, percentiles, max")
    ]
    wire_bytes: Annotated[Bytes | None, about("sent and received; null: not counted by this target")]


class CellClients(Part):
    """Many clients."""

    count: Annotated[Count, about("clients that measured the cell")]
    begin_ns: Annotated[Ns, about("agreed common start, on the clock of the run's own process")]
    start_skew_ns: Annotated[Ns, about("from the first client's start to the last one's, clocks corrected")]
    clock_bound_ns: Annotated[Ns, about("how far off the corrected clocks can be, the worst of all clients")]
    late_ns: Annotated[int, about("the last client's start after the agreed one; negative: before", "ns")]
    common_window_ns: Annotated[Ns, about("from the last start to the first client's last acknowledgement")]
    common_bytes: Annotated[Bytes, about("moved by all clients within the common window")]
    common_bytes_per_s: Annotated[
        BytesPerS,
        about(
            "throughput over the common window; where clients were together for less than half of the time, "
            "over all of it"
        ),
    ]
    first_done_bytes_per_s: Annotated[BytesPerS, about("from the first start until the first client was done")]
    last_done_bytes_per_s: Annotated[BytesPerS, about("all bytes, from the first start until the last client was done")]
    fairness: Annotated[Number | None, about("Jain's index of the clients' rates: 1 all alike, 1/n one has all")]
    each: Annotated[list[ClientPart], about("every client's part")]
    stragglers: Annotated[
        list[Count], about("clients slower than 3/4 of the median client; from three clients and 50 ms on")
    ]


class DiskRates(Part):
    """Rates of a disk."""

    read_bytes_per_s: Annotated[BytesPerS, about("read")]
    write_bytes_per_s: Annotated[BytesPerS, about("written")]
    busy_fraction: Annotated[Number, about("share of the time in which it had something to do")]


class NetRates(Part):
    """Rates of an interface."""

    received_bytes_per_s: Annotated[BytesPerS, about("received")]
    sent_bytes_per_s: Annotated[BytesPerS, about("sent")]


class MonitorSample(Part):
    """Sample of the server."""

    at_ns: Annotated[Ns, about("time since the start of the run, when it arrived here")]
    cpu_fraction: Annotated[Number, about("busy share of all processors since the previous sample")]
    memory_used_bytes: Annotated[Bytes, about("not available to programs")]
    cached_bytes: Annotated[Bytes, about("page cache")]
    dirty_bytes: Annotated[Bytes, about("written by programs and not yet on the disks")]
    disks: Annotated[dict[str, DiskRates], about("by name: read_bytes_per_s, write_bytes_per_s, busy_fraction")]
    nets: Annotated[dict[str, NetRates], about("by interface: received_bytes_per_s, sent_bytes_per_s")]


class MonitorDocument(Part):
    """Monitor."""

    url: Annotated[str, about("the server's host")]
    memory_bytes: Annotated[Bytes | None, about("its memory; null: no sample")]
    ended_early: Annotated[bool, about("the connection ended before the run did")]
    samples: Annotated[list[MonitorSample], about("about one per second")]


class ScalingRung(Part):
    """Rung."""

    clients: Annotated[Count, about("how many")]
    n: Annotated[Count, about("times measured")]
    bytes_per_s: Annotated[BytesPerS, about("mean of all times, over the common windows")]
    ci95_bytes_per_s: Annotated[Interval | None, about("its 95 % interval; null: measured once", "bytes/s")]
    bytes_per_s_each: Annotated[BytesPerS, about("the same for each client")]
    clients_busy: Annotated[bool, about("a host of clients was busy with its own work")]


class Scaling(Part):
    """Scaling."""

    one_client_bytes_per_s: Annotated[BytesPerS, about("of one client without interference, as fitted")]
    limit_bytes_per_s: Annotated[BytesPerS | None, about("the maximum of all together, as fitted; null: not reached")]
    limit_ci95_bytes_per_s: Annotated[Interval | None, about("its 95 % interval", "bytes/s")]
    at_least_bytes_per_s: Annotated[BytesPerS, about("of the best rung")]
    knee_clients: Annotated[Number | None, about("number of clients above which more add nothing; null: not reached")]
    knee_ci95_clients: Annotated[Interval | None, about("its 95 % interval")]
    limited_by: Annotated[
        Literal["server", "clients", "unknown"], about("whose limit the largest number of clients shows")
    ]
    rungs: Annotated[list[ScalingRung], about("one for each number of clients")]
