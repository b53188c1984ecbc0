"""The run document described as data: every field, its type, unit and meaning, and the JSON schema of it.

docs/reference/run.schema.json and docs/reference/run-document.md are made from here:

    python -m naslab.results.schema docs/reference
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from naslab.results.columns import CELL_COLUMNS, LATENCY_NAMES
from naslab.results.document import SCHEMA
from naslab.results.fields import Field, field_row, table_schema
from naslab.results.fields import field as _f
from naslab.results.schema_adaptive import ADAPTIVE, PREDICTED_CI90
from naslab.results.schema_answer import TABLES as ANSWER_TABLES
from naslab.results.schema_cached import CACHED, CACHED_STEP, WORKING_SET, WORKING_SET_STEP
from naslab.results.schema_client import TABLES as CLIENT_TABLES
from naslab.results.schema_clients import TABLES as CLIENTS_TABLES
from naslab.results.schema_durable import DURABLE, DURABLE_AGE, DURABLE_CUT, DURABLE_METADATA, DURABLE_MODE
from naslab.results.schema_lab import PLANTED
from naslab.results.schema_ladder import TABLES as LADDER_TABLES
from naslab.results.schema_parts import OPEN as OPEN_PARTS
from naslab.results.schema_parts import TABLES as PART_TABLES
from naslab.results.schema_parts import TARGET
from naslab.results.schema_security import TABLES as SECURITY_TABLES
from naslab.results.schema_source import SOURCE, may_be_untold
from naslab.results.schema_split import TABLES as SPLIT_TABLES
from naslab.results.schema_stated import COVERS_FILE_BYTES
from naslab.results.schema_stated import TABLES as STATED_TABLES
from naslab.results.schema_tree import METADATA_OPS, TREE, TREE_PHASE
from naslab.spec import DATA_OPS

REGIMES = (
    "client_cache", "server_cache", "link", "latency", "disk", "burst", "baseline", "above_link", "mixed", "unknown",
)  # fmt: skip


RUN = (
    _f("schema", "integer", f"version of this document; this naslab writes {SCHEMA}"),
    _f("naslab_version", "string", "version of naslab that measured"),
    _f("run_id", "string", "id in the store; ids sort by time"),
    _f("command", "string", "command that measured: run, sweep, apps, sustained, ..."),
    _f("label", "string?", "short name for lists and charts: the label `name`, else all labels in one line"),
    _f("labels", "string{}", "conditions of the test given by the user, key and value"),
    _f("note", "string?", "remark given by the user"),
    _f("summary", "string[]", "the result in sentences"),
    _f(
        "status", "string",
        "complete: all cells measured; partial: ended early; failed: invalid; running: not yet ended",
        enum=("complete", "partial", "failed", "running"),
    ),
    _f("warnings", "warning[]", "what a reader of the numbers must know, in order of detection"),
    _f("started_at", "string", "start, ISO 8601 in UTC, for people"),
    _f("finished_at", "string?", "end, ISO 8601 in UTC, for people"),
    _f("start_wall_ns", "integer", "start on the wall clock", "ns since 1970"),
    _f("end_wall_ns", "integer?", "end on the wall clock", "ns since 1970"),
    _f("seed", "integer", "seed of offsets, data and order", least=None),
    _f("argv", "string[]?", "the command line, without secrets"),
    _f("target", "target", "what was measured; more fields as the protocol has them"),
    _f("environment", "environment", "client and server at the start: CPU, RAM, kernel, NIC, MTU, server free space"),
    _f("cells", "cell[]", "results in the order they were measured"),
    _f("verdict", "verdict", "what limits the target; empty if no limit was detected or looked for"),
    _f("answer", "answer", "the answer in ten lines, as data and as text; of `naslab run`", required=False),
    _f("ladder", "ladder", "the steps that the verdict rests on; of `naslab run`", required=False),
    _f("adaptive", "adaptive", "what was measured, predicted and saved; of `naslab sweep --adaptive`", required=False),
    _f("sustained", "sustained", "naslab sustained: results from the series over time", required=False),
    _f("curve", "curve", "latency against offered load; of `naslab curve`", required=False),
    _f("profile", "profile", "rate by position; of `naslab profile`", required=False),
    _f("job", "job", "real work on real files; of `naslab job`", required=False),
    _f("replay", "replay", "operations issued, compared with those of the trace; of `naslab replay`", required=False),
    _f("tree", "tree", "metadata and small files; of `naslab tree`", required=False),
    _f("apps", "apps", "application workloads; of `naslab apps`", required=False),
    _f("durable", "durable", "which acknowledged writes survived a cut; of `naslab durable`", required=False),
    _f("rerun_of", "string", "id of the run whose cells these are; of `naslab compare rerun`", required=False),
    _f("interleaved", "interleaved", "measured alternately with other runs", required=False),
    _f("client_ceiling", "client_ceiling", "the client's own ceiling, if it was measured", required=False),
    _f("validity", "doubt[]", "what makes numbers doubtful: the figures behind warnings", required=False),
    _f("scaling", "scaling", "throughput by number of clients; of --scale", required=False),
    _f("monitor", "monitor", "what the server did during the run; of --monitor", required=False),
    _f("client_split", "client_split", "what a kernel's client costs; of `naslab run MOUNT --direct`", required=False),
    _f("security", "security", "what signing and encryption cost; of `naslab security`", required=False),
    _f("source", "source?", "origin of a run that naslab did not measure; null: measured by naslab", required=False),
    _f("stated", "stated", "what a source states besides its rates", required=False),
    _f(
        "blobs", "object", "exported files only: raw data in base64, {cell id: {name: text}}; names below",
        required=False,
    ),
)  # fmt: skip

WARNING = (
    _f("kind", "string", "one word for programs, e.g. client_cache, unfinished"),
    _f("message", "string", "one sentence for people"),
    _f("cell", "integer?", "id of the cell it is about; null: the run"),
)

_STATUS_MEANING = "complete: as planned; partial: ended early, numbers hold for what was done; failed: no result"

CELL = may_be_untold((
    _f("id", "integer", "unique in the run"),
    _f("op", "string", f"operation: {', '.join(DATA_OPS)}; metadata: {', '.join(METADATA_OPS)}"),
    _f("workload", "string?", "application workload, when the cell is one"),
    _f("file_bytes", "integer", "file size", "bytes", least=1),
    _f("record_bytes", "integer", "record size: bytes per operation", "bytes", least=1),
    _f("queue_depth", "integer", "queue depth per worker", least=1),
    _f("workers", "integer", "threads, each with its own session", least=1),
    _f("block", "integer", "which repeat: cells of one block were measured together, blocks in random order"),
    _f("durability", "string", "none; end: one flush at the end; each: every write", enum=("none", "end", "each")),
    _f("cache_state", "string", "state of the caches before the cell", enum=("warm", "cold", "unknown")),
    _f("bytes", "integer", "bytes moved in the timed window", "bytes"),
    _f("ops", "integer", "operations completed in the timed window"),
    _f("errors", "integer", "operations that failed"),
    _f("duration_ns", "integer", "timed window less pauses: what throughput divides by (last worker done)", "ns"),
    _f("acknowledged_bytes_per_s", "number", "bytes / acknowledged_ns", "bytes/s"),
    _f("durable_bytes_per_s", "number?", "bytes / (acknowledged_ns + flush_ns); null: not flushed", "bytes/s"),
    _f("throughput_bytes_per_s", "number", "bytes / duration_ns", "bytes/s"),
    _f("throughput_mib_per_s", "number", "the same in MiB/s (2^20)", "MiB/s"),
    _f("iops", "number", "ops / duration_ns", "1/s"),
    _f("cpu_fraction", "number", "client CPU: (cpu_user_ns + cpu_system_ns) / window_ns; 1 = one core"),
    _f("latency_ns", "latency", "over all kinds but flush; from the clock that latency_clock names"),
    _f(
        "latency_clock", "string", "service: from submission; response: from the due time (open loop)",
        enum=("service", "response"),
    ),
    _f("wire_bytes", "integer?", "bytes sent and received on the wire; null: not counted", "bytes"),
    _f("wire_sent_bytes", "integer?", "bytes sent on the wire", "bytes"),
    _f("wire_received_bytes", "integer?", "bytes received on the wire", "bytes"),
    _f(
        "wire_by_address", "address_bytes[]", "the same by address, where the server was used at several",
        required=False,
    ),
    _f("protocol_events", "integer{}", "protocol events besides operations: name and count (delay, grace, split)"),
    _f("regime", "string?", "what the cell measured; null: not explained", enum=REGIMES),
    _f("regime_evidence", "string?", "why, in a sentence with its numbers; null: not explained", required=False),
    _f("predicted", "boolean", "true: not measured but predicted by --adaptive"),
    PREDICTED_CI90,
    COVERS_FILE_BYTES,
    _f("status", "string", _STATUS_MEANING, enum=("complete", "partial", "failed")),
    _f("stop_reason", "string", "done, bytes, ops, duration, stonewall, interrupted or error"),
    _f("start_ns", "integer", "start of the timed window, monotonic clock", "ns"),
    _f("end_ns", "integer", "end of the cell, monotonic clock", "ns"),
    _f("start_wall_ns", "integer", "start on the wall clock", "ns since 1970"),
    _f("window_ns", "integer", "timed window, pauses included", "ns"),
    _f("pause_ns", "integer", "pauses within the window", "ns"),
    _f("acknowledged_ns", "integer", "until the last operation was acknowledged", "ns"),
    _f("flush_ns", "integer?", "flush after that; null: none requested", "ns"),
    _f("close_ns", "integer?", "close after that; null: not timed", "ns"),
    _f("warmup_bytes", "integer", "moved before the timed window", "bytes"),
    _f("warmup_ops", "integer", "operations before the timed window"),
    _f("pattern", "string", "order of offsets: sequential, permutation, random, backward, stride, same_record"),
    _f("access", "string", "positioned, cursor, stdio or mmap"),
    _f("write_fraction", "number", "share of operations that write, 0 to 1"),
    _f("direct", "boolean", "the client's cache was to be bypassed"),
    _f("sync", "string", "write-through requested for each operation: none, data, all, reads_too"),
    _f("errors_by_status", "error_count[]", "failed operations by raw status"),
    _f("first_error", "string?", "the first error as text"),
    _f("kinds", "kind{}", "by kind of operation: read, write, flush, or a metadata operation"),
    _f("workers_detail", "worker[]", "each worker's part"),
    _f("cpu_user_ns", "integer", "client CPU time in the process", "ns"),
    _f("cpu_system_ns", "integer", "client CPU time in the kernel for the process", "ns"),
    _f("generation_cpu_ns", "integer", "of that, making data", "ns"),
    _f("verify_cpu_ns", "integer", "of that, checking data", "ns"),
    _f("storage_read_bytes", "integer?", "read from the client's block devices; local targets", "bytes"),
    _f("storage_write_bytes", "integer?", "written to the client's block devices; local targets", "bytes"),
    _f("interval_ns", "integer", "interval of the series", "ns"),
    _f("missed_starts", "integer", "open loop: operations that could not start when due"),
    _f("offered_per_s", "number?", "open loop: operations offered; null: closed loop", "1/s"),
    _f("verified", "verified?", "--verify: blocks checked, blocks bad, the first bad one"),
    _f("direct_proof", "direct_proof?", "evidence that the client's cache did not answer"),
    _f("data_measured", "number?{}?", "written data: compress_ratio_zlib, compress_ratio_lz4, dedupe_ratio"),
    _f("client", "cell_client", "processor time the client was allowed, and what restricted it", required=False),
    _f("client_stall", "client_stall?", "how long this client itself stalled; null: not watched, or simulated"),
    _f("clients", "cell_clients", "of a cell that many clients measured together", required=False),
    _f("warnings", "warning[]", "about this cell"),
))  # fmt: skip

_LATENCY_ABOUT = {"min": "smallest", "mean": "mean", "max": "largest"}
LATENCY = tuple(
    _f(name, "integer?", _LATENCY_ABOUT.get(name, f"{name[1:].replace('_', '.')} % were at most this"), "ns")
    for name in LATENCY_NAMES
)

KIND = (
    _f("ops", "integer", "operations of this kind"),
    _f("bytes", "integer", "bytes they moved", "bytes"),
    _f("latency_ns", "latency", "service time, from submission"),
    _f("response_ns", "latency?", "response time from the due time; null: closed loop"),
)

WORKER = (
    _f("worker", "integer", "from 0"),
    _f("bytes", "integer", "bytes it moved", "bytes"),
    _f("ops", "integer", "operations it completed"),
    _f("start_ns", "integer", "its first operation, monotonic clock", "ns"),
    _f("end_ns", "integer", "its last operation, monotonic clock", "ns"),
    _f("duration_ns", "integer", "its own timed window less pauses", "ns"),
    _f(
        "kinds",
        "worker_kind{}",
        "by kind: ops, bytes, latency_mean_ns, latency_stddev_ns, iops_stddev",
        required=False,
    ),
)

CLIENT_STALL = (
    _f("longest_ns", "integer", "longest time for which nothing of naslab ran; 0: none of 0.1 s or more", "ns"),
    _f("total_ns", "integer", "all such times within the timed window", "ns"),
    _f("count", "integer", "their number"),
    _f("asleep_ns", "integer", "the machine was suspended; no part of the durations", "ns"),
    _f(
        "clock_step_ns",
        "integer",
        "largest step of the wall clock; below 0: back; 0: none of 10 ms or more",
        "ns",
        least=None,
    ),
)

ERROR_COUNT = (
    _f("kind", "string", "class of error"),
    _f("status", "integer", "raw status: errno, NTSTATUS or nfsstat", least=None),
    _f("count", "integer", "operations"),
)

CURVE = (
    _f("arrivals", "string", "gaps between due times", enum=("constant", "poisson")),
    _f("block_bytes", "integer", "bytes of one operation", "bytes"),
    _f("write_fraction", "number", "share of operations that write, 0 to 1"),
    _f("random", "boolean", "random offsets, or one after another"),
    _f("file_bytes", "integer", "size of each worker's file", "bytes"),
    _f("workers", "integer", "workers, each with a file of its own"),
    _f("queue_depth", "integer", "maximum queue depth per worker"),
    _f("step_ns", "integer", "how long each load is offered, over its parts", "ns"),
    _f("factor", "number", "each load of the curve is this many times the previous one"),
    _f(
        "stop_reason", "string", "why no further load was offered",
        enum=("saturated", "max_rate", "max_steps", "budget", "max_bytes", "failed", "interrupted"),
    ),
    _f("saturated", "boolean", "a load was offered that exceeds what the target can carry"),
    _f("probe_alone", "probe?", "closed loop of one worker at depth 1"),
    _f("probe_full", "probe?", "closed loop of all workers at queue_depth"),
    _f("steps", "curve_step[]", "the loads, ascending"),
    _f("capacity_per_s", "number?", "highest rate carried; a lower bound where not saturated", "1/s"),
    _f("capacity_ci95_per_s", "array?", "95 % interval of it, block bootstrap over intervals: low, high", "1/s"),
    _f("capacity_bytes_per_s", "number?", "the capacity in bytes", "bytes/s"),
    _f("depth_limited", "boolean", "the allowed queue depth limited the capacity, not the target"),
    _f("knee_per_s", "number?", "the load at which latency begins to climb; null: it does not", "1/s"),
    _f("knee_ci95_per_s", "array?", "95 % interval of it, bootstrap over the parts of the loads: low, high", "1/s"),
    _f("knee_method", "string", "how the knee is defined"),
    _f("low_load_p99_ns", "integer?", "p99 of the response time at low load", "ns"),
    _f("compared", "curve_comparison?", "comparison with the curve of another run (--compare)"),
)  # fmt: skip

CURVE_STEP = (
    _f("offered_per_s", "number", "operations that fell due", "1/s"),
    _f("achieved_per_s", "number", "operations that ended", "1/s"),
    _f("achieved_bytes_per_s", "number", "bytes moved", "bytes/s"),
    _f("saturated", "boolean", "the offered load exceeds what the target can carry"),
    _f("ops", "integer", "operations that ended"),
    _f("missed_starts", "integer", "operations that could not start when due"),
    _f("errors", "integer", "operations that failed"),
    _f("response_ns", "latency", "from the due time"),
    _f("service_ns", "latency", "from submission"),
    _f("cells", "integer[]", "ids of the cells that are its parts"),
)

PROFILE = (
    _f("file_bytes", "integer", "length of the file or device", "bytes"),
    _f("existing", "boolean", "it existed before and was only read"),
    _f("direct", "boolean", "read unbuffered"),
    _f("block_bytes", "integer", "bytes of one read", "bytes"),
    _f("queue_depth", "integer", "outstanding reads"),
    _f("zone_bytes", "integer", "length of a zone", "bytes"),
    _f("zones_planned", "integer", "zones it was divided into"),
    _f("zones", "zone[]", "those that were read, by position"),
    _f("mean_bytes_per_s", "number?", "harmonic mean of the zones: the rate of reading all of it", "bytes/s"),
    _f("slowest_bytes_per_s", "number?", "slowest zone", "bytes/s"),
    _f("fastest_bytes_per_s", "number?", "fastest zone", "bytes/s"),
    _f("head_bytes_per_s", "number?", "median of the first tenth of the zones read", "bytes/s"),
    _f("tail_bytes_per_s", "number?", "median of the last tenth", "bytes/s"),
    _f("burst_bytes_per_s", "number?", "repeated reads of one small zone", "bytes/s"),
    _f("access_ns", "latency?", "random reads of 4 KiB, one at a time"),
)

REPLAY = (
    _f("trace", "string", "the trace's file"),
    _f("source", "string", "what it was made from: strace, pcap, fio, dbench, naslab"),
    _f("command", "string?", "what was recorded"),
    _f("anonymised", "boolean", "its names were replaced"),
    _f("pace", "string", "fast: as the order of operations allows; recorded: when they were due"),
    _f("trace_streams", "integer", "streams of the trace"),
    _f("streams", "integer", "streams of the replay; fewer where some were joined"),
    _f("files", "integer", "files made before it"),
    _f("folders", "integer", "folders made before it"),
    _f("prepared_bytes", "integer", "written to them", "bytes"),
    _f("escaped_names", "integer", "names with characters that the protocol forbids, written as %XX"),
    _f("told_apart", "integer", "names that differ from another only in case, written with %XX", required=False),
    _f("missed_deadlines", "integer?", "operations that started later than --deadline after they were due"),
    _f("operations", "replay_kind[]", "by kind"),
    _f("equal", "boolean", "as many operations of each kind were issued as the trace requires"),
    _f("skipped", "replay_note[]", "operations of the trace that were not carried out"),
    _f("instead", "replay_note[]", "operations that were carried out as one of another kind"),
    _f("added", "replay_note[]", "operations that are not in the trace"),
)

REPLAY_KIND = (
    _f("kind", "string", "open, create, close, read, ..."),
    _f("trace", "integer", "in the trace"),
    _f("skipped", "integer", "of these not carried out"),
    _f("instead", "integer", "of these carried out as another kind"),
    _f("expected", "integer", "what follows: trace, less skipped and instead, and what others became or needed"),
    _f("issued", "integer", "carried out by the engine"),
)

REPLAY_NOTE = (
    _f("kind", "string", "kind of operation"),
    _f("as_kind", "string", "what it was carried out as", required=False),
    _f("reason", "string", "why"),
    _f("count", "integer", "how many"),
)

ZONE = (
    _f("offset_bytes", "integer", "where it begins", "bytes"),
    _f("bytes", "integer", "read of it", "bytes"),
    _f("bytes_per_s", "number", "rate", "bytes/s"),
    _f("cell", "integer", "id of its cell"),
)

APPS = (
    _f("scale", "number", "factor applied to all file sizes (--scale)"),
    _f("pace", "string", "fast: as fast as possible; recorded: at the media's rate", enum=("fast", "recorded")),
    _f("throughput", "string", "what the rates are"),
    _f("results", "app[]", "the applications that were run"),
    _f(
        "identical_repeats",
        "integer[][]",
        "groups of repeats whose rates agree within 0.001 MB/s in all applications",
    ),
    _f("streams_held", "streams_held[]", "streams that the target sustains; [] without --find-streams", required=False),
)

STREAMS_HELD = (
    _f("name", "string", "name of the application"),
    _f("streams", "integer", "largest number of streams that all kept up; 0: not even the smallest"),
    _f("failed_streams", "integer?", "smallest number of streams that did not; null: none failed"),
    _f("stream_bytes_per_s", "number", "what one stream asks for", "bytes/s"),
    _f("tried", "streams_tried[]", "numbers tried, in order"),
    _f("stopped", "string?", "why no more were tried; null: the two numbers are neighbours, or the maximum was held"),
)

STREAMS_TRIED = (
    _f("streams", "integer", "how many at once"),
    _f("held", "boolean", "no request missed its deadline, and the last ended at most 1 % (20 ms) after the film"),
    _f("missed_starts", "integer?", "requests that started later than the buffer allows; null: not measured"),
    _f(
        "late_ns",
        "integer?",
        "end of the last request after the film's; below 0: before; null: not measured",
        "ns",
        least=None,
    ),
    _f("cell", "integer?", "id of the cell; null: not measured"),
)

APP = (
    _f("name", "string", "name of the application; of the twelve it is NASPT's name of the result"),
    _f("set", "string", "set that it belongs to", enum=("naspt", "older", "modern")),
    _f("about", "string", "what it does"),
    _f("files_prepared", "integer", "files that are made before"),
    _f("prepared_bytes", "integer", "their size together", "bytes"),
    _f("files_made", "integer", "files that it makes itself"),
    _f("read_bytes", "integer", "read in one run", "bytes"),
    _f("written_bytes", "integer", "written in one run", "bytes"),
    _f("requests", "integer", "reads and writes in one run"),
    _f("write_fraction", "number", "share of the requests that write, 0 to 1"),
    _f("largest_request_bytes", "integer", "largest request", "bytes"),
    _f("streams", "integer", "streams, each with a queue depth of 1"),
    _f("think_ns", "integer?", "the application's own time at any pace; null: none", "ns", required=False),
    _f(
        "sequential", "number?",
        "share of the requests that continue the one issued just before, over all streams, as planned; null: streams "
        "are independent",
    ),
    _f("sequential_issued", "number?[]", "the same of each repeat, by when requests started; [] where not recorded"),
    _f("sequential_published", "number?", "the share that was published; null: none was"),
    _f("cells", "integer[]", "ids of the cells of its repeats"),
    _f("repeats", "integer[]", "numbers of the repeats, from 1"),
    _f("bytes_per_s", "number[]", "rate of each repeat", "bytes/s"),
    _f("median_bytes_per_s", "number?", "median of them", "bytes/s"),
    _f("interval_bytes_per_s", "number?[]?", "interval of the median: low, high; null: under six repeats", "bytes/s"),
    _f("interval_coverage", "number?", "probability that the interval covers the median, at least 0.95"),
    _f("operations_per_s", "number[]", "operations of all kinds of each repeat, opening and looking up too", "1/s"),
    _f("median_operations_per_s", "number?", "median of them", "1/s"),
    _f("paced", "boolean", "run at the media's rate"),
    _f("missed_starts", "integer?", "steps that started later than the buffer allows, over the repeats; null: unpaced"),
    _f("streams_kept_up", "integer?", "streams that were in time, in the worst repeat; null: unpaced"),
    _f(
        "needs_bytes_per_s", "number?", "rate that its streams need at the media's pace; null: it has none", "bytes/s",
        required=False,
    ),
)  # fmt: skip

PROBE = (
    _f("iops", "number", "operations per second", "1/s"),
    _f("p50_ns", "integer?", "median latency", "ns"),
)

CURVE_COMPARISON = (
    _f("run_id", "string", "the other run"),
    _f(
        "unit", "string", "unit of the bootstrap: batch, the parts of the loads within the two runs",
        enum=("batch",),
    ),
    _f("differs", "string[]", "names of settings in which the two differ"),
    _f("autocorrelation", "number", "lag-1, of p99 from part to part of this curve; it widens intervals", least=None),
    _f("other_autocorrelation", "number", "of the other curve", least=None),
    _f("capacity", "curve_ratio?", "capacities; null: not both were saturated"),
    _f("knee", "curve_ratio?", "knees; null: not both have one"),
    _f("p99", "curve_load_ratio[]", "p99 of the response time at equal loads that both carried; p_value by Holm"),
)  # fmt: skip

CURVE_RATIO = (
    _f("ratio", "number", "this over the other, medians over the parts"),
    _f("ci95", "array", "95 % interval of it, bootstrap over the parts: low, high"),
    _f("batches", "integer", "parts of this curve"),
    _f("other_batches", "integer", "parts of the other"),
    _f("margin", "number", "differences up to this share do not matter"),
    _f("p_value", "number", "of the verdict, two-sided; above 0.05 it is undecided"),
    _f("minimum_detectable", "number", "a true difference of this share would be detected in 80 of 100 cases"),
    _f(
        "verdict", "string?", "this compared with the other; null: fewer than 4 parts",
        enum=("better", "worse", "equivalent", "undecided"),
    ),
)  # fmt: skip

CURVE_LOAD_RATIO = (
    _f("load_per_s", "number", "the load", "1/s"),
    _f("p99_ns", "integer", "of this curve, median over the parts", "ns"),
    _f("other_p99_ns", "integer", "of the other", "ns"),
    *CURVE_RATIO,
)

JOB = (
    _f("source", "string", "the folder, or the corpus and its scale"),
    _f("source_ratio", "number", "size of the source over its size by deflate at level 6, of a sample"),
    _f("files", "integer", "files of the source that can be on the target"),
    _f("folders", "integer", "folders of it"),
    _f("bytes", "integer", "in these files", "bytes"),
    _f("streams", "integer", "processes with a session each; archives of zip; of each client"),
    _f("clients", "integer", "that did the jobs at once, each with such a source", required=False),
    _f("method", "string", "of the archives", enum=("deflate", "zstd")),
    _f("durability", "string", "none; end: each file is flushed before it is closed; each: every write"),
    _f("request_bytes", "integer", "largest request", "bytes"),
    _f("in_flight", "integer", "maximum queue depth of a stream", required=False),
    _f("skipped", "integer{}", "left out of the source: reason and count"),
    _f("names_changed", "integer", "names that are not possible on the target, written with %XX instead"),
    _f("changed", "integer", "files of the source that changed during the run", required=False),
    _f("times_preserved", "boolean", "whether copies have the times of the source"),
    _f("time_resolution_ns", "integer?", "resolution of the target's times; null: it keeps none", "ns", required=False),
    _f("archives", "archives?", "what the last zip made"),
    _f("steps", "job_step[]", "the jobs in the order they were done, those that only prepare included"),
)

ARCHIVES = (
    _f("files", "integer", "archives"),
    _f("bytes", "integer", "their size together", "bytes"),
    _f("ratio", "number", "size of their contents divided by that"),
)

JOB_STEP = (
    _f("job", "string", "its name"),
    _f("prepares", "boolean", "done only because a later job needs what it makes"),
    _f("status", "string", "as its cell's", enum=("complete", "partial", "failed"), required=False),
    _f("repeat", "integer", "which repeat, from 0"),
    _f("cell", "integer", "id of its cell"),
    _f("files", "integer", "files done"),
    _f("wall_ns", "integer", "from its start to the end of the last stream", "ns"),
    _f("read_bytes", "integer", "read from the target", "bytes"),
    _f("write_bytes", "integer", "written to the target", "bytes"),
    _f("read_bytes_per_s", "number", "read_bytes / wall_ns", "bytes/s"),
    _f("write_bytes_per_s", "number", "write_bytes / wall_ns", "bytes/s"),
    _f("files_per_s", "number", "files / wall_ns", "1/s"),
    _f("cpu_ns", "integer", "CPU time of the client's processes", "ns"),
    _f("cpu_fraction", "number", "cpu_ns / wall_ns; 1 = one processor"),
    _f("compute_cpu_ns", "integer", "CPU time of the streams between requests: compressing, hashing", "ns"),
    _f("request_cpu_ns", "integer", "CPU time of the streams in requests to the target", "ns", required=False),
    _f("processor_wait_ns", "integer", "streams were ready and had no processor", "ns", required=False),
    _f("shares", "job_shares", "of the streams' time: source, target, local, cpu; 0 to 1"),
    _f("source_bytes", "integer", "read from the source", "bytes"),
    _f("source_bytes_per_s", "number?", "rate of the source while it was read, all streams; null: not read", "bytes/s"),
    _f("local_bytes", "integer", "written to files of this machine", "bytes"),
    _f("streams", "job_stream[]", "each stream's part"),
    _f(
        "limit", "string", "what took most of the streams' time",
        enum=("source", "target", "local", "client_cpu", "mixed"),
    ),
    _f("evidence", "string", "why, with numbers"),
)  # fmt: skip

SUSTAINED = (
    _f("regimes", "regimes[]", "each load's series by kind of operation"),
    _f("burst", "burst?", "--find-burst: the burst and why it ended"),
    _f("cached", "cached?", "--cached: the rate of the network alone"),
    _f(
        "working_set",
        "working_set?",
        "--find-cache: the largest one that is read from the server cache",
        required=False,
    ),
    _f("cost", "cost?", "with a price: what the rates cost"),
    _f("cache", "cache_mode", "how files are reached", required=False),
)

CACHE_MODE = (
    _f("mode", "string", "cached, none, remote or mmap; write-through alone, or +write-through behind another"),
    _f("asked", "boolean", "by --cache; otherwise it follows from the target and the other options"),
    _f("notes", "string[]", "what the mode means on this target, in sentences"),
)

SERIES_REGIMES = (
    _f("cell", "integer", "id of the cell (of the last one, where several make one series)"),
    _f("kind", "string", "operations in the series", enum=("read", "write", "all")),
    _f("best_second_bytes_per_s", "number", "highest rate over any second", "bytes/s"),
    _f("mean_bytes_per_s", "number", "over the whole series", "bytes/s"),
    _f("burst_bytes_per_s", "number?", "plateau before the rate dropped; null: it did not", "bytes/s"),
    _f("baseline_bytes_per_s", "number?", "after the drop, or of the steady part", "bytes/s"),
    _f("dropped_ns", "integer?", "when it dropped, from the start", "ns"),
    _f("segments", "segment[]", "stretches of one mean rate, in order"),
    _f("changes", "change[]", "changes between them"),
    _f("steady", "steady", "whether the end is steady"),
    _f(
        "percentiles_ns", "number?{}",
        "latency by name, p50 to p99_9999999 (nine nines), in ns; null: too few operations to have one",
    ),
)  # fmt: skip

SEGMENT = (
    _f("start_ns", "integer", "from the start of the series", "ns"),
    _f("end_ns", "integer", "from the start of the series", "ns"),
    _f("mean_bytes_per_s", "number", "mean rate", "bytes/s"),
    _f("ci95_bytes_per_s", "array", "95 % interval of the mean: low, high", "bytes/s"),
)

CHANGE = (
    _f("at_ns", "integer", "from the start of the series", "ns"),
    _f("earliest_ns", "integer", "start of its 95 % interval", "ns", least=None),
    _f("latest_ns", "integer", "end of its 95 % interval", "ns"),
    _f("effect", "number", "rate after / rate before - 1", least=None),
    _f("effect_ci95", "array", "95 % interval of the effect: low, high"),
)

STEADY = (
    _f("word", "string", "kind of run", enum=("steady", "drifting", "warm-up", "slowdown", "too short")),
    _f("is_steady", "boolean", "the stretch after the last change has no slope beyond 5 %"),
    _f("reason", "string", "why, with numbers"),
    _f("window_ns", "integer[]", "that stretch: start, end", "ns"),
    _f("mean_bytes_per_s", "number", "over it", "bytes/s"),
    _f("warmup_ns", "integer", "cut at its head by MSER-5", "ns"),
    _f("needed_ns", "integer?", "how long it should be for a verdict; null: long enough", "ns"),
    _f("drift", "number?", "rise of the best line over it / mean; null: too short for one", least=None),
    _f("drift_ci90", "array?", "90 % interval of the drift: low, high"),
    _f("snia_steady", "boolean?", "SNIA's rule on five rounds: range at most 20 %, rise at most 10 %"),
    _f("snia_range_share", "number?", "its range / mean", least=None),
    _f("snia_excursion_share", "number?", "its rise / mean", least=None),
)

BURST = (
    _f("op", "string", "read or write"),
    _f(
        "cause", "string", "why the rate dropped",
        enum=("token_bucket", "write_back_cache", "slc_cache", "thermal_or_drift", "none", "undecided"),
    ),
    _f("findings", "finding[]", "the evidence"),
    _f("missing", "string[]", "experiments that would decide it, as text"),
    _f(
        "sharing", "string", "of a bucket that writes spend: whether reads spend it, too; unknown for all else",
        enum=("shared", "separate", "unknown"),
    ),
    _f("best_second_bytes_per_s", "number", "highest rate over any second of the first run", "bytes/s"),
    _f("mean_bytes_per_s", "number", "of the first run", "bytes/s"),
    _f("duration_ns", "integer", "length of the first run", "ns"),
    _f("bucket", "bucket?", "burst and floor as a token bucket's; null: the rate did not drop"),
)  # fmt: skip

FINDING = (
    _f("probe", "string", "the experiment"),
    _f("text", "string", "what came out"),
    _f("supports", "string[]", "causes that it supports"),
    _f("against", "string[]", "causes that it rules out"),
)

BUCKET = (
    _f("dropped_ns", "integer", "when the burst ended, from the start of the load", "ns"),
    _f("burst_bytes_per_s", "estimate", "rate of the burst", "bytes/s"),
    _f("baseline_bytes_per_s", "estimate", "rate after it, and of refilling", "bytes/s"),
    _f("size_bytes", "estimate", "moved above the baseline", "bytes"),
    _f("burst_bytes", "integer", "all that was moved until it ended", "bytes"),
    _f("precision", "number?", "larger relative half-width of baseline and size; null: not known yet"),
    _f("floor_cv", "number", "standard deviation of the rate after the drop, as a share of it", required=False),
    _f("refill_ns", "integer?", "size by baseline: time to fill it again", "ns"),
)

ESTIMATE = (
    _f("value", "number", "in the unit of the field", least=None),
    _f("ci95", "array", "95 % interval: low, high"),
)

COST = (
    _f("per_hour", "number", "of the server, in the currency given"),
    _f("per_month", "number", "of the server for 730 hours"),
    _f("sustained", "rate_cost", "at the rate it holds"),
    _f("burst", "rate_cost?", "at the burst's rate; null: no burst"),
)

RATE_COST = (
    _f("bytes_per_s", "number", "the rate", "bytes/s"),
    _f("per_mb_per_s_month", "number", "a month's cost per MB/s (10^6)"),
    _f("per_tib_moved", "number", "cost of the time that 2^40 bytes take"),
)

TABLES: dict[str, tuple[str, tuple[Field, ...]]] = {
    "run": ("Run", RUN),
    "target": ("Target", TARGET),
    "cell": ("Cell", CELL),
    "latency": ("Latency", LATENCY),
    "kind": ("Kind of operation", KIND),
    "worker": ("Worker", WORKER),
    "error_count": ("Error count", ERROR_COUNT),
    "client_stall": ("Stall of the client", CLIENT_STALL),
    "warning": ("Warning", WARNING),
    **LADDER_TABLES,
    **ANSWER_TABLES,
    "sustained": ("Sustained", SUSTAINED),
    "regimes": ("Regimes", SERIES_REGIMES),
    "segment": ("Segment", SEGMENT),
    "change": ("Change", CHANGE),
    "steady": ("Steadiness", STEADY),
    "burst": ("Burst", BURST),
    "finding": ("Finding", FINDING),
    "bucket": ("Bucket", BUCKET),
    "estimate": ("Estimate", ESTIMATE),
    "cache_mode": ("Cache mode", CACHE_MODE),
    "adaptive": ("Adaptive sweep", ADAPTIVE),
    "cached": ("Cached reads", CACHED),
    "cached_step": ("Step of cached reads", CACHED_STEP),
    "working_set": ("Working set", WORKING_SET),
    "working_set_step": ("Working set of one size", WORKING_SET_STEP),
    "cost": ("Cost", COST),
    "rate_cost": ("Cost at a rate", RATE_COST),
    "curve": ("Curve", CURVE),
    "curve_step": ("Curve step", CURVE_STEP),
    "probe": ("Closed loop", PROBE),
    "profile": ("Profile", PROFILE),
    "job": ("Job", JOB),
    "archives": ("Archives", ARCHIVES),
    "job_step": ("Step of a job", JOB_STEP),
    "replay": ("Replay", REPLAY),
    "replay_kind": ("Operations of one kind", REPLAY_KIND),
    "replay_note": ("What differs from the trace", REPLAY_NOTE),
    "tree": ("Tree", TREE),
    "tree_phase": ("Phase of a tree", TREE_PHASE),
    "durable": ("Durability", DURABLE),
    "durable_mode": ("Durability of a mode", DURABLE_MODE),
    "durable_age": ("Durability by age", DURABLE_AGE),
    "durable_metadata": ("Durability of metadata", DURABLE_METADATA),
    "durable_cut": ("Cut", DURABLE_CUT),
    "planted": ("Planted limit", PLANTED),
    "zone": ("Zone", ZONE),
    "apps": ("Applications", APPS),
    "app": ("Application", APP),
    "streams_held": ("Streams held", STREAMS_HELD),
    "streams_tried": ("Streams tried", STREAMS_TRIED),
    "curve_comparison": ("Comparison of curves", CURVE_COMPARISON),
    "curve_ratio": ("Ratio of two curves", CURVE_RATIO),
    "curve_load_ratio": ("Ratio at an equal load", CURVE_LOAD_RATIO),
    **CLIENTS_TABLES,
    **SPLIT_TABLES,
    **SECURITY_TABLES,
    **STATED_TABLES,
    "source": ("Source", SOURCE),
    **CLIENT_TABLES,
    **PART_TABLES,
}
OPEN_TABLES = ("target", *OPEN_PARTS)
"""Tables where more fields are expected even by the strict schema."""

RAW_DATA = (
    ("latency:KIND", "service time of one kind of operation", "HdrHistogram V2 compressed, ns"),
    ("response:KIND", "response time from the due time (open loop)", "HdrHistogram V2 compressed, ns"),
    (
        "series", "one row per interval of interval_ns",
        "int64 little-endian, rows of 7: read_ops, read_bytes, write_ops, write_bytes, flush_ops, errors, "
        "max_latency_ns",
    ),
    (
        "op_log", "one row per operation, in completion order",
        "int64 little-endian, rows of 4: offset_bytes, latency_ns, len_bytes, worker",
    ),
)  # fmt: skip


def json_schema(strict: bool = False) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a run document. strict: fields not described here are refused, for tests."""
    definitions = {
        name: table_schema(fields, TABLES, SCHEMA, strict and name not in OPEN_TABLES)
        for name, (_, fields) in TABLES.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:naslab:run-document:{SCHEMA}",
        "title": f"naslab run document, schema {SCHEMA}",
        **definitions.pop("run"),
        "$defs": definitions,
    }


def reference_page() -> str:
    """docs/reference/run-document.md."""
    lines = [
        "# The run document",
        "",
        "<!-- Made by `python -m naslab.results.schema docs/reference`; edit naslab/results/schema.py instead. -->",
        "",
        f"What `--json` prints and `naslab export RUN -o FILE.json` writes; schema {SCHEMA}, as JSON schema in",
        "[run.schema.json](run.schema.json). Sizes are bytes, times nanoseconds, rates bytes per second. Readers",
        "must allow fields they do not know; a field that changes its meaning raises `schema`.",
    ]
    for name, (title, fields) in TABLES.items():
        lines += ["", f"## {title}", "", "| field | type | unit | meaning |", "|---|---|---|---|"]
        lines += [field_row(field, TABLES) for field in fields]
        if name == "run":
            lines += ["", 'Commands that give several runs print `{"schema": 1, "runs": [document, ...]}`.']
    lines += ["", "## Raw data", ""]
    lines += ["Kept beside the document by cell and name, and under `blobs` in exported files.", ""]
    lines += ["| name | what | format |", "|---|---|---|"]
    lines += [f"| `{name}` | {what} | {form} |" for name, what, form in RAW_DATA]
    return "\n".join(lines + _tables_section()) + "\n"


_TABLES_INTRO = """
## Tables for your own charts

```python
import naslab

run = naslab.load("last")             # an id, a prefix, "last" or an exported file
table = run.table()                   # NumPy structured array, one row per cell; also run.to_pandas(), run.to_polars()
files, records, matrix = run.grid("read", "latency_ns.p99")  # median over repeats, NaN where nothing was measured
cell = next(cell for cell in run.cells if cell["op"] == "read")
series = run.series(cell)             # structured array, one row per interval: t_s and the columns above
values_ns, counts = run.histogram(cell, "latency:read")
p50, p99 = run.quantiles(cell, [0.5, 0.99])          # ns
```

The columns of the cells table, which .csv, .xlsx and .parquet hold too:

| column | type | unit | field |
|---|---|---|---|"""


def _tables_section() -> list[str]:
    units = {f"{prefix}{f.name}": f.unit for prefix, table in (("", CELL), ("latency_ns.", LATENCY)) for f in table}
    rows = [
        f"| `{c.name}` | {c.kind}{' or missing' if c.nullable else ''} | {units.get(c.path) or ''} | `{c.path}` |"
        for c in CELL_COLUMNS
    ]
    return [*_TABLES_INTRO.split("\n"), *rows]


def files() -> dict[str, str]:
    """The generated files by name."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {"run.schema.json": schema, "run-document.md": reference_page()}


def main(arguments: list[str]) -> int:
    """Writes the generated files to the folder named. Exit code 2 without one."""
    if len(arguments) != 1:
        print("usage: python -m naslab.results.schema DIR", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
