"""The part of a cell that many clients measured together, and what a server was seen to do meanwhile."""

from __future__ import annotations

from naslab.results.fields import field as _f

CELL_CLIENTS = (
    _f("count", "integer", "clients that measured the cell"),
    _f("begin_ns", "integer", "agreed common start, on the clock of the run's own process", "ns"),
    _f("start_skew_ns", "integer", "from the first client's start to the last one's, clocks corrected", "ns"),
    _f("clock_bound_ns", "integer", "how far off the corrected clocks can be, the worst of all clients", "ns"),
    _f("late_ns", "integer", "the last client's start after the agreed one; negative: before", "ns", least=None),
    _f("common_window_ns", "integer", "from the last start to the first client's last acknowledgement", "ns"),
    _f("common_bytes", "integer", "moved by all clients within the common window", "bytes"),
    _f(
        "common_bytes_per_s", "number",
        "throughput over the common window; where clients were together for less than half of the time, over all of it",
        "bytes/s",
    ),
    _f("first_done_bytes_per_s", "number", "from the first start until the first client was done", "bytes/s"),
    _f("last_done_bytes_per_s", "number", "all bytes, from the first start until the last client was done", "bytes/s"),
    _f("fairness", "number?", "Jain's index of the clients' rates: 1 all alike, 1/n one has all"),
    _f("each", "client_part[]", "every client's part"),
    _f("stragglers", "integer[]", "clients slower than 3/4 of the median client; from three clients and 50 ms on"),
)  # fmt: skip

CLIENT_PART = (
    _f("client", "integer", "number of the client"),
    _f("bytes", "integer", "moved within its own window", "bytes"),
    _f("ops", "integer", "operations that ended well"),
    _f("errors", "integer", "operations that failed"),
    _f("status", "string", "complete, partial or failed"),
    _f("start_offset_ns", "integer", "its start after the first client's", "ns"),
    _f("duration_ns", "integer", "its own duration", "ns"),
    _f(
        "bytes_per_s",
        "number",
        "its rate within the common window, where there was one for half of the time; else over its own",
        "bytes/s",
    ),
    _f("cpu_ns", "integer", "processor time of its process", "ns"),
    _f("conditions", "cell_client", "how much processor time it was allowed, and what restricted it", required=False),
    _f("latency_ns", "number?{}{}", "by kind of operation: min, mean, percentiles, max"),
    _f("wire_bytes", "integer?", "sent and received; null: not counted by this target", "bytes"),
)

MONITOR = (
    _f("url", "string", "the server's host"),
    _f("memory_bytes", "integer?", "its memory; null: no sample", "bytes"),
    _f("ended_early", "boolean", "the connection ended before the run did"),
    _f("samples", "monitor_sample[]", "about one per second"),
)

MONITOR_SAMPLE = (
    _f("at_ns", "integer", "time since the start of the run, when it arrived here", "ns"),
    _f("cpu_fraction", "number", "busy share of all processors since the previous sample"),
    _f("memory_used_bytes", "integer", "not available to programs", "bytes"),
    _f("cached_bytes", "integer", "page cache", "bytes"),
    _f("dirty_bytes", "integer", "written by programs and not yet on the disks", "bytes"),
    _f("disks", "disk_rates{}", "by name: read_bytes_per_s, write_bytes_per_s, busy_fraction"),
    _f("nets", "net_rates{}", "by interface: received_bytes_per_s, sent_bytes_per_s"),
)

SCALING = (
    _f("rungs", "scaling_rung[]", "one for each number of clients"),
    _f("one_client_bytes_per_s", "number", "of one client without interference, as fitted", "bytes/s"),
    _f("limit_bytes_per_s", "number?", "the maximum of all together, as fitted; null: not reached", "bytes/s"),
    _f("limit_ci95_bytes_per_s", "array?", "its 95 % interval", "bytes/s"),
    _f("at_least_bytes_per_s", "number", "of the best rung", "bytes/s"),
    _f("knee_clients", "number?", "number of clients above which more add nothing; null: not reached"),
    _f("knee_ci95_clients", "array?", "its 95 % interval"),
    _f(
        "limited_by", "string", "whose limit the largest number of clients shows", enum=("server", "clients", "unknown")
    ),
)

SCALING_RUNG = (
    _f("clients", "integer", "how many"),
    _f("n", "integer", "times measured"),
    _f("bytes_per_s", "number", "mean of all times, over the common windows", "bytes/s"),
    _f("ci95_bytes_per_s", "array?", "its 95 % interval; null: measured once", "bytes/s"),
    _f("bytes_per_s_each", "number", "the same for each client", "bytes/s"),
    _f("clients_busy", "boolean", "a host of clients was busy with its own work"),
)

TABLES = {
    "scaling": ("Scaling", SCALING),
    "scaling_rung": ("Rung", SCALING_RUNG),
    "monitor": ("Monitor", MONITOR),
    "monitor_sample": ("Sample of the server", MONITOR_SAMPLE),
    "cell_clients": ("Many clients", CELL_CLIENTS),
    "client_part": ("One client's part", CLIENT_PART),
}
