"""The parts of the run document that the attribution ladder makes: its verdict, and what the verdict rests on."""

from __future__ import annotations

from naslab.results.fields import field as _f

LIMIT_KINDS = (
    "link", "latency", "server_cache", "disk", "disk_iops", "burst_credit", "client_cpu", "client_nic", "server_cpu",
    "client_cache", "protocol", "source", "shared_machine", "unknown",
)  # fmt: skip

VERDICT = (
    _f(
        "limits", "limit[]",
        "by class of I/O (large reads, large writes, small reads, small writes), strongest first within a class",
    ),
)  # fmt: skip

LIMIT = (
    _f("kind", "string", "what limits", enum=LIMIT_KINDS),
    _f("applies_to", "io_class", "the class of I/O that it limits"),
    _f("confidence", "number", "probability, 0 to 1; below 0.7 its class is not decided"),
    _f("value", "number?", "the ceiling it sets, in `unit`", required=False, least=None),
    _f("unit", "string?", "bytes_per_s, iops, ns or bytes", required=False),
    _f("ci95", "array?", "95 % interval of the value within this run: low, high; it names a limit, and never a "
       "difference between targets", required=False),
    _f("measured", "number?", "if `value` is only the fitted model's: the measured value of this class, in `unit`; "
       "null: not measured; left out if `value` was measured", required=False, least=None),
    _f("evidence", "string", "the reasons, as text with numbers"),
)  # fmt: skip

IO_CLASS = (
    _f("op", "string", "read or write", required=False),
    _f("size", "string", "large: records of 1 MiB; small: of 4 KiB", required=False),
)

LADDER = (
    _f("steps", "ladder_step[]", "in the order measured; cells of the ladder have the workload `ladder`"),
    _f("conditions", "ladder_conditions", "the basis of the verdict besides the steps"),
    _f("model", "object", "the server's numbers by the fitted posterior: each a value with its 95 % interval, or "
       "`at_least` and `at_most`; `version` is the version of the model that wrote it", required=False),
    _f("open", "ladder_question[]", "where two explanations remain"),
    _f("advice", "string[]", "what to do about it, a sentence each, the most important first", required=False),
    _f("spent_ns", "integer", "time of its cells", "ns"),
    _f("budget_ns", "integer", "time it was allowed", "ns"),
    _f(
        "stopped", "string", "why it ended: certain: nothing is open; open: no further experiment of its own helps; "
        "budget: no time left; slow: writing a few small files takes too much of it; failed: the run failed; "
        "interrupted: the run was interrupted",
        enum=("certain", "open", "budget", "slow", "failed", "interrupted"),
    ),
)  # fmt: skip

LADDER_STEP = (
    _f("name", "string", "round_trip, client_cache, depth, small_depth, connections, record, duplex, writes, set, ..."),
    _f("title", "string", "the same as text"),
    _f("says", "string", "its result, as a sentence; empty without one", required=False),
    _f("cells", "integer[]", "ids of its cells"),
    _f("figures", "ladder_figure{}", "rates and times under names for people"),
    _f("points", "ladder_point[]", "the same in full, in the order measured"),
)

LADDER_FIGURE = (
    _f("value", "number", "mean of the cell's batches, in `unit`", least=None),
    _f("unit", "string", "bytes_per_s, iops, ns, bytes, share or cores"),
    _f("ci95", "array", "95 % interval within the run: low, high"),
)

LADDER_POINT = (
    _f("cell", "integer", "its id"),
    _f("op", "string", "what was done", enum=("read", "write", "mixed")),
    _f("random", "boolean", "offsets in random order"),
    _f("record_bytes", "integer", "bytes per operation", "bytes"),
    _f("depth", "integer", "queue depth per worker"),
    _f("workers", "integer", "each with a connection of its own"),
    _f("files", "integer", "files they share"),
    _f("set_bytes", "integer", "size of the file", "bytes"),
    _f("bypass", "boolean", "bypassing the client's cache"),
    _f("durability", "string", "none; end; each: every write", enum=("none", "end", "each")),
    _f("rate", "ladder_figure", "bytes per second"),
    _f("iops", "ladder_figure", "operations per second"),
    _f("reads", "number", "of a mix: the readers' share", "bytes/s"),
    _f("writes", "number", "of a mix: the writers' share", "bytes/s"),
    _f("durable", "number?", "including the flush; null: nothing was flushed", "bytes/s"),
    _f("p50_ns", "number", "latency: half of the operations were faster", "ns"),
    _f("mean_ns", "number", "mean latency", "ns"),
    _f("p99_ns", "number", "latency: 99 % were faster", "ns"),
    _f("cpu", "number", "processors of the client in use"),
    _f(
        "crossed",
        "number?",
        "bytes counted on the wire (or at the local disk) divided by bytes moved; null: not counted",
    ),
    _f("stalls", "ladder_stalls?", "times in which nothing moved; null: intervals too long to show them"),
    _f("start_ns", "integer", "monotonic clock", "ns"),
    _f("end_ns", "integer", "monotonic clock", "ns"),
    _f(
        "quick",
        "number",
        "share of operations much faster than the mean: cache hits among misses",
        required=False,
    ),
    _f("clients", "integer", "clients with this load, each with this depth and these workers", required=False),
    _f("cpu_limit", "number", "processors the client might use, quotas included; 0: not known", required=False),
    _f("throttled", "number", "share of the time in which its control group throttled it", required=False),
    _f("steal", "number", "share of all processors' time that a virtual machine's host took", required=False),
    _f("busiest_worker", "number", "share of a processor that the busiest worker used", required=False),
    _f("others", "number", "processors in use by others", required=False),
    _f("waiting", "number", "share of the workers' time in which they waited for a processor", required=False),
)

LADDER_STALLS = (
    _f("lost", "number", "share of the time"),
    _f("count", "integer", "how many"),
    _f("length_ns", "integer", "usual length of one", "ns"),
    _f("every_ns", "integer", "usual time from one to the next; 0: not known", "ns"),
)

LADDER_CONDITIONS = (
    _f("granted_depth", "integer?", "outstanding operations that the server grants; null: more than was tried"),
    _f("most_depth", "integer", "highest queue depth that was tried"),
    _f("client_cpus", "integer", "processors of the client"),
    _f("nic_bytes_per_s", "integer?", "rate of the client's network interface; null: not known", "bytes/s"),
    _f("simulated", "boolean", "a simulated server: the client's processor time means nothing"),
    _f("protocol", "string", "of the target"),
    _f("local_disk", "boolean", "a disk of this machine, no server"),
    _f("same_machine", "boolean", "the server runs on this machine, and uses its processors", required=False),
    _f("burst", "ladder_burst?", "credit that ended during the run; null: none"),
    _f("null_ns", "number{}?", "a call without data: p50, p99, mean; null: not timed", "ns", required=False),
    _f("ways", "string{}", "reads of the step `security`: cell id and plain, signed or encrypted", required=False),
    _f("memory_bytes", "integer?[]?", "largest working set served from the server cache, smallest that was not (null: "
       "none was seen); null: no working set was read", "bytes"),
)  # fmt: skip

LADDER_BURST = (
    _f("scope", "string", "part that has the credit", enum=("link", "disk")),
    _f("applies_to", "string[]", "read, write"),
    _f("burst_bytes_per_s", "number", "rate on credit", "bytes/s"),
    _f("burst_ci95", "array", "its 95 % interval"),
    _f("base_bytes_per_s", "number", "rate without", "bytes/s"),
    _f("base_ci95", "array", "its 95 % interval"),
    _f("size_bytes", "integer?", "credit at the start; null: not known", "bytes"),
    _f("shown_by", "string", "the observation"),
    _f("proved", "boolean", "it refilled during a rest"),
)

LADDER_QUESTION = (
    _f("applies_to", "io_class", "class of I/O"),
    _f("between", "string[]", "kinds of limit that are not separated"),
    _f("why", "string", "the observation"),
    _f("experiment", "string", "what would separate them, the cheapest first"),
    _f("command", "string", "the command that does it", required=False),
    _f("costs_ns", "integer", "its time", "ns", required=False),
)

TABLES = {
    "verdict": ("Verdict", VERDICT),
    "limit": ("Limit", LIMIT),
    "io_class": ("Class of I/O", IO_CLASS),
    "ladder": ("Ladder", LADDER),
    "ladder_step": ("Step of the ladder", LADDER_STEP),
    "ladder_figure": ("Figure of the ladder", LADDER_FIGURE),
    "ladder_point": ("Point of the ladder", LADDER_POINT),
    "ladder_stalls": ("Stalls", LADDER_STALLS),
    "ladder_conditions": ("Conditions of the ladder", LADDER_CONDITIONS),
    "ladder_burst": ("Credit", LADDER_BURST),
    "ladder_question": ("Open question", LADDER_QUESTION),
}
"""In the order of the reference."""
