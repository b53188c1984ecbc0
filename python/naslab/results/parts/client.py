"""Parts of the run document about the client: what it can do at most, and what makes numbers doubtful."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from naslab.results.describe import (
    Bytes,
    BytesPerS,
    Cipher,
    Count,
    HostName,
    Ns,
    Number,
    Part,
    PerS,
    Sentence,
    Version,
    WallNs,
    Word,
    about,
)


class CellClient(Part):
    """Client of a cell.

    Fractions are 0 to 1. Null: not known here; all of them for simulated targets, those from ticks for short cells.
    """

    cpu_limit_cores: Annotated[
        Number | None, about("processors it may use: the smallest of its affinity and control groups' quotas")
    ]
    throttled_fraction: Annotated[
        Number | None,
        about(
            "share of the time in which a control group throttled it, over as many processors as its workers "
            "keep busy; null: no quota"
        ),
    ]
    throttled_periods_fraction: Annotated[
        Number | None, about("share of that group's periods in which it was throttled")
    ]
    steal_fraction: Annotated[
        Number | None, about("share of all processors' time that the host of a virtual machine took")
    ]
    busiest_core_fraction: Annotated[
        Number | None, about("busy share of the busiest processor, whoever used it; interrupts count")
    ]
    others_cores: Annotated[
        Number | None, about("processors in use by all but this process and its children; no interrupts")
    ]
    runnable_wait_fraction: Annotated[
        Number | None, about("share of the workers' time in which they waited for a processor")
    ]
    busiest_worker_fraction: Annotated[
        Number | None,
        about(
            "share of a processor that the busiest worker's thread used until the last acknowledgement; making "
            "data while no request is outstanding is left out"
        ),
    ]


class NullRate(Part):
    """Rate without a server."""

    record_bytes: Annotated[Bytes, about("size of an operation")]
    workers: Annotated[Count, about("workers, each on a processor of its own")]
    ops_per_s: Annotated[PerS, about("operations of all workers")]
    bytes_per_s: Annotated[BytesPerS, about("what they would move; no byte is touched")]


class MemoryRates(Part):
    """Memory rates."""

    read_bytes_per_s: Annotated[BytesPerS, about("loads")]
    write_bytes_per_s: Annotated[BytesPerS, about("stores")]
    copy_bytes_per_s: Annotated[BytesPerS, about("copies; a byte that is copied counts once")]


class ClientMemory(Part):
    """Memory of the client."""

    buf_bytes: Annotated[Bytes, about("memory that was gone through, all threads together; larger than the caches")]
    one: Annotated[MemoryRates, about("one thread")]
    all: Annotated[MemoryRates, about("one thread per processor")]
    latency_ns: Annotated[
        Number, about("one load that waits for the one before, in random order over that memory", "ns")
    ]


class ClientZlib(Part):
    """Packing."""

    deflate_bytes_per_s: Annotated[BytesPerS, about("packing, in bytes of clear text")]
    inflate_bytes_per_s: Annotated[BytesPerS, about("unpacking, in bytes of clear text")]
    ratio: Annotated[Number, about("clear over packed size of the text it was measured with")]


class ClientCipher(Part):
    """Cipher."""

    cipher: Annotated[Cipher, about("as in a target's `encryption`")]
    message_bytes: Annotated[Bytes, about("size of a message")]
    encrypt_bytes_per_s: Annotated[BytesPerS, about("encrypting from one buffer to another")]
    decrypt_bytes_per_s: Annotated[BytesPerS, about("decrypting in place")]


class ClientLoopback(Part):
    """Loopback."""

    send_bytes_per_s: Annotated[BytesPerS, about("one connection, sending")]
    receive_bytes_per_s: Annotated[BytesPerS, about("one connection, receiving")]
    both_bytes_per_s: Annotated[BytesPerS, about("both at once, added up")]
    round_trip_ns: Annotated[Ns, about("a small message there and back, median")]


class ClientCeiling(Part, kw_only=True):
    """Client ceiling."""

    measured_wall_ns: Annotated[WallNs, about("when it was measured")]
    took_ns: Annotated[Ns, about("how long that took")]
    host: Annotated[HostName, about("the client's name")]
    boot: Annotated[str | None, about("id of the system's boot: the measurement is not used after a restart")]
    naslab_version: Annotated[Version, about("version of naslab that measured")]
    cpus: Annotated[Count, about("maximum number of threads busy at once: processors that naslab may use, rounded up")]
    cpu_limit_cores: Annotated[Number | UnsetType, about("processors that naslab may use, quotas included")] = UNSET
    null: Annotated[
        list[NullRate], about("the engine on a target that answers immediately: the cost of the engine itself")
    ]
    memory: Annotated[ClientMemory, about("bandwidth and latency of the client's memory")]
    zlib: Annotated[ClientZlib, about("packing at the default level, one processor")]
    aes: Annotated[list[ClientCipher], about("the engine's own ciphers of SMB, one processor")]
    loopback: Annotated[ClientLoopback, about("raw TCP to this machine itself, both ends on its processors")]
    foreign_cpu_fraction: Annotated[
        Number | None, about("share of all processors that other programs used meanwhile; 0 to 1")
    ]


class DoubtDocument(Part):
    """Doubt."""

    kind: Annotated[
        Word,
        about(
            "as in `warnings`: client_saturated, client_throttled, above_link, other_load, clock, unwritten, drift, ..."
        ),
    ]
    message: Annotated[Sentence, about("the warning's words")]
    cells: Annotated[list[Count], about("ids of the cells it is about; empty: the run")]
    value: Annotated[float | None, about("the value, in `unit`")]
    unit: Annotated[Word | None, about("of value and limit: processors, fraction, per_s, bytes_per_s, ns or ratio")]
    limit: Annotated[float | None, about("threshold of the warning")]
