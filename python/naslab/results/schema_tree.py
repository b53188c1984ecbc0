"""The part of the run document that `naslab tree` makes."""

from __future__ import annotations

from naslab.results.fields import field as _f

METADATA_OPS = (
    "create", "stat", "stat_dir", "open_close", "readdir", "rename", "rename_dir", "mkdir", "rmdir", "remove",
)  # fmt: skip

TREE = (
    _f("depth", "integer", "levels of folders below the top"),
    _f("fan_out", "integer", "folders in a folder"),
    _f("workers", "integer", "concurrent streams, each with a connection"),
    _f("shared", "boolean", "one tree for all workers; else one each"),
    _f("mean_bytes", "integer", "size of a file, or mean of the sizes", "bytes"),
    _f("lognormal", "boolean", "sizes are spread"),
    _f("folders", "integer", "in all trees"),
    _f("files", "integer", "in all trees"),
    _f(
        "neighbour",
        "integer",
        "each worker uses the files of the worker this many after it; 0: its own",
        required=False,
    ),
    _f("shuffled", "boolean", "reading phases run in random order", required=False),
    _f(
        "cold",
        "string",
        "what is renewed before cold passes",
        required=False,
        enum=("none", "new_connection", "command"),
    ),
    _f("cold_note", "string", "what was cold and what was not", required=False),
    _f("phases", "tree_phase[]", "by kind of operation, in order, cold passes after warm ones"),
)

TREE_PHASE = (
    _f("op", "string", f"read, {', '.join(METADATA_OPS)}"),
    _f("caches", "string", "before the pass", required=False, enum=("warm", "new_connection", "cold")),
    _f("count", "integer", "operations of one repeat; open_close: pairs; read: files"),
    _f("repeats", "integer", "number of repeats; the others are medians of these"),
    _f("blocks", "integer[]", "which repeats", required=False),
    _f("ops_per_s", "number", "of all workers together; create, read: with all calls on their files", "1/s"),
    _f("ops_per_s_each", "number[]", "of each repeat", "1/s", required=False),
    _f("ops_per_s_ci95", "array?", "95 % interval of the median: low, high; null below 6 repeats", required=False),
    _f("latency_ns_p50", "integer", "of the call; create, open_close, read: of the create, the open, a read", "ns"),
    _f("latency_ns_p99", "integer", "the same", "ns"),
    _f("of_warm", "number?", "rate over the warm pass's of the same repeat; not of warm passes", required=False),
    _f("of_warm_ci95", "array?", "95 % interval of it: low, high; null below 6 repeats", required=False),
)
