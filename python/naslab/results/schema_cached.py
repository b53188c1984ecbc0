"""The parts of the run document that `naslab sustained --cached` and `--find-cache` make."""

from __future__ import annotations

from naslab.results.fields import field as _f

CACHED = (
    _f("file_bytes", "integer", "size of the file", "bytes"),
    _f("first_bytes_per_s", "number", "first read of a file right after it was written", "bytes/s", required=False),
    _f(
        "cold_bytes_per_s", "number", "first read after other data was written, of the decisive or last step", "bytes/s"
    ),
    _f("warm_bytes_per_s", "number", "repeated reads of one file", "bytes/s"),
    _f("evicted_bytes", "integer", "other data written before the cold reads", "bytes", required=False),
    _f("steps", "cached_step[]", "increasing amounts of other data, until a file was evicted", required=False),
    _f("contrast", "number", "warm / cold"),
    _f("separable", "boolean", "the contrast shows the server's cache"),
    _f("reason", "string?", "why it does not; null: it does"),
    _f("network_only_bytes_per_s", "number?", "the warm rate when it does", "bytes/s"),
)

CACHED_STEP = (
    _f("evicted_bytes", "integer", "other data written by then", "bytes"),
    _f("cold_bytes_per_s", "number", "fastest first read of two files written before it", "bytes/s"),
    _f("warm_bytes_per_s", "number", "of the slower file, the median of its reads right after", "bytes/s"),
    _f("contrast", "number", "warm / cold"),
    _f("least_contrast", "number", "lowest contrast that shows a cache; higher for reads too short to time well"),
)

WORKING_SET = (
    _f(
        "knee_bytes",
        "integer?",
        "largest working set read from the server cache, the middle of its interval; null: not detected",
        "bytes",
    ),
    _f(
        "interval_bytes",
        "integer?[]?",
        "largest working set that was, smallest that was not; null: not detected",
        "bytes",
    ),
    _f("memory_bytes_per_s", "number", "median of the working sets read from the server cache", "bytes/s"),
    _f("beyond_bytes_per_s", "number", "of the largest working set", "bytes/s"),
    _f("own_memory", "boolean", "true: this machine's page cache may have answered"),
    _f("reason", "string?", "why no knee was detected; null: there is one"),
    _f("steps", "working_set_step[]", "every working set, ascending"),
)

WORKING_SET_STEP = (
    _f("bytes", "integer", "size of the working set", "bytes"),
    _f("bytes_per_s", "number", "its fastest pass, after the first passes filled the cache", "bytes/s"),
    _f("from_memory", "boolean", "at most a tenth of it came from the disks"),
)
