"""Parts of the run document about the client: what it can do at most, and what makes numbers doubtful."""

from __future__ import annotations

from naslab.results.fields import field as _f

CLIENT_CEILING = (
    _f("measured_wall_ns", "integer", "when it was measured", "ns since 1970"),
    _f("took_ns", "integer", "how long that took", "ns"),
    _f("host", "string", "the client's name"),
    _f("boot", "string?", "id of the system's boot: the measurement is not used after a restart"),
    _f("naslab_version", "string", "version of naslab that measured"),
    _f("cpus", "integer", "maximum number of threads busy at once: processors that naslab may use, rounded up"),
    _f("cpu_limit_cores", "number", "processors that naslab may use, quotas included", required=False),
    _f("null", "null_rate[]", "the engine on a target that answers immediately: the cost of the engine itself"),
    _f("memory", "client_memory", "bandwidth and latency of the client's memory"),
    _f("zlib", "client_zlib", "packing at the default level, one processor"),
    _f("aes", "client_cipher[]", "the engine's own ciphers of SMB, one processor"),
    _f("loopback", "client_loopback", "raw TCP to this machine itself, both ends on its processors"),
    _f("foreign_cpu_fraction", "number?", "share of all processors that other programs used meanwhile; 0 to 1"),
)

CELL_CLIENT = (
    _f("cpu_limit_cores", "number?", "processors it may use: the smallest of its affinity and control groups' quotas"),
    _f(
        "throttled_fraction", "number?",
        "share of the time in which a control group throttled it, over as many processors as its workers keep busy; "
        "null: no quota",
    ),
    _f("throttled_periods_fraction", "number?", "share of that group's periods in which it was throttled"),
    _f("steal_fraction", "number?", "share of all processors' time that the host of a virtual machine took"),
    _f("busiest_core_fraction", "number?", "busy share of the busiest processor, whoever used it; interrupts count"),
    _f("others_cores", "number?", "processors in use by all but this process and its children; no interrupts"),
    _f("runnable_wait_fraction", "number?", "share of the workers' time in which they waited for a processor"),
    _f(
        "busiest_worker_fraction", "number?",
        "share of a processor that the busiest worker's thread used until the last acknowledgement; making data while "
        "no request is outstanding is left out",
    ),
)  # fmt: skip
"""Fractions are 0 to 1. Null: not known here; all of them for simulated targets, those from ticks for short cells."""

NULL_RATE = (
    _f("record_bytes", "integer", "size of an operation", "bytes"),
    _f("workers", "integer", "workers, each on a processor of its own"),
    _f("ops_per_s", "number", "operations of all workers", "1/s"),
    _f("bytes_per_s", "number", "what they would move; no byte is touched", "bytes/s"),
)

CLIENT_MEMORY = (
    _f("buf_bytes", "integer", "memory that was gone through, all threads together; larger than the caches", "bytes"),
    _f("one", "memory_rates", "one thread"),
    _f("all", "memory_rates", "one thread per processor"),
    _f("latency_ns", "number", "one load that waits for the one before, in random order over that memory", "ns"),
)

MEMORY_RATES = (
    _f("read_bytes_per_s", "number", "loads", "bytes/s"),
    _f("write_bytes_per_s", "number", "stores", "bytes/s"),
    _f("copy_bytes_per_s", "number", "copies; a byte that is copied counts once", "bytes/s"),
)

CLIENT_ZLIB = (
    _f("deflate_bytes_per_s", "number", "packing, in bytes of clear text", "bytes/s"),
    _f("inflate_bytes_per_s", "number", "unpacking, in bytes of clear text", "bytes/s"),
    _f("ratio", "number", "clear over packed size of the text it was measured with"),
)

CLIENT_CIPHER = (
    _f("cipher", "string", "as in a target's `encryption`"),
    _f("message_bytes", "integer", "size of a message", "bytes"),
    _f("encrypt_bytes_per_s", "number", "encrypting from one buffer to another", "bytes/s"),
    _f("decrypt_bytes_per_s", "number", "decrypting in place", "bytes/s"),
)

CLIENT_LOOPBACK = (
    _f("send_bytes_per_s", "number", "one connection, sending", "bytes/s"),
    _f("receive_bytes_per_s", "number", "one connection, receiving", "bytes/s"),
    _f("both_bytes_per_s", "number", "both at once, added up", "bytes/s"),
    _f("round_trip_ns", "integer", "a small message there and back, median", "ns"),
)

DOUBT = (
    _f(
        "kind",
        "string",
        "as in `warnings`: client_saturated, client_throttled, above_link, other_load, clock, unwritten, drift, ...",
    ),
    _f("message", "string", "the warning's words"),
    _f("cells", "integer[]", "ids of the cells it is about; empty: the run"),
    _f("value", "number?", "the value, in `unit`", least=None),
    _f("unit", "string?", "of value and limit: processors, fraction, per_s, bytes_per_s, ns or ratio"),
    _f("limit", "number?", "threshold of the warning", least=None),
)

TABLES = {
    "cell_client": ("Client of a cell", CELL_CLIENT),
    "client_ceiling": ("Client ceiling", CLIENT_CEILING),
    "null_rate": ("Rate without a server", NULL_RATE),
    "client_memory": ("Memory of the client", CLIENT_MEMORY),
    "memory_rates": ("Memory rates", MEMORY_RATES),
    "client_zlib": ("Packing", CLIENT_ZLIB),
    "client_cipher": ("Cipher", CLIENT_CIPHER),
    "client_loopback": ("Loopback", CLIENT_LOOPBACK),
    "doubt": ("Doubt", DOUBT),
}
