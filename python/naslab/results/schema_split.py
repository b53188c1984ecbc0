"""The part of the run document that `naslab run MOUNT --direct` makes."""

from __future__ import annotations

from naslab.results.fields import field as _f

CLIENT_SPLIT = (
    _f("mount", "object", "what is mounted: type, source, options that change the speed"),
    _f("own", "object", "naslab's own client at the same server: url, run_id of its own run"),
    _f("not_carried", "string[]", "features of the mount that naslab's own client lacks, as text"),
    _f("ended", "string", "repeats, budget, interrupted, or what went wrong"),
    _f("cells", "client_split_cell[]", "what both measured, alternately"),
)

CLIENT_SPLIT_CELL = (
    _f("op", "string", "write, read, random_write, random_read"),
    _f("record_bytes", "integer", "size of each operation", "bytes"),
    _f("queue_depth", "integer", "queue depth"),
    _f("mount", "client_split_side", "through the kernel's mount, unbuffered"),
    _f("own", "client_split_side", "by naslab's own client"),
    _f("ratio", "number", "mount / own client, of the pairs of blocks"),
    _f("ci95", "array", "its 95 % interval; an end that is null: none", open_ends=True),
    _f("n", "integer", "pairs"),
    _f("verdict", "string?", "of the mount: better, worse, equivalent, undecided; null: too few pairs"),
    _f("different", "boolean", "by the adjusted test the clients differ"),
)

CLIENT_SPLIT_SIDE = (
    _f("bytes_per_s", "number", "median of the blocks", "bytes/s"),
    _f("latency_ns", "integer?", "median of the blocks' means", "ns"),
    _f("process_cpu_ns_per_gib", "integer", "processor time of naslab for each GiB", "ns"),
    _f(
        "machine_cpu_ns_per_gib", "integer?",
        "of the whole machine, which has the kernel's part too; null: not reported by this system", "ns",
    ),
)  # fmt: skip

TABLES = {
    "client_split": ("Client split", CLIENT_SPLIT),
    "client_split_cell": ("Measurement both ways", CLIENT_SPLIT_CELL),
    "client_split_side": ("One way", CLIENT_SPLIT_SIDE),
}
