"""Were reads served from the server cache? Decided by files that other data had pushed out of it, or not.

A step of naslab.commands.plans.cached is other data written, then files read for the first time and again at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from naslab.results.parts.cached import Cached, CachedStep
from naslab.units import amount_text, rate_text, size_label

Cell = Mapping[str, Any]
CONTRAST, SHORT_CONTRAST, SHORT_NS = 1.25, 1.6, 100_000_000
"""Reads right after the first that are so many times as fast as it came from a cache; more where one takes less
than 100 ms: without a cache, passes of 10 ms on a busy machine came to at most 1.23 in 12 runs."""


def steps_of(cells: Sequence[Cell]) -> list[CachedStep]:
    """What each step came to, in order; steps that were not measured whole are left out."""
    found: list[list[Cell]] = []
    evicted: list[int] = []
    for cell in sorted(cells, key=lambda cell: int(cell["id"])):
        if cell["status"] != "complete":
            continue
        if cell["workload"] == "evict":
            evicted.append((evicted[-1] if evicted else 0) + cell["bytes"])
            found.append([])
        elif found and cell["workload"] in ("cold", "again"):
            found[-1].append(cell)
    whole = max((len(of_step) for of_step in found), default=0)
    return [_step(of, size) for of, size in zip(found, evicted, strict=True) if of and len(of) == whole]


def _step(cells: Sequence[Cell], evicted_bytes: int) -> CachedStep:
    """The fastest first read, and of each file the median of its further reads, of which the slower counts.

    A cache that holds hardly one of the files may need a second pass to take it in; one slow or fast pass is noise.
    """
    cold = max(cell["throughput_bytes_per_s"] for cell in cells if cell["workload"] == "cold")
    further: list[list[float]] = []
    for cell in cells:
        if cell["workload"] == "cold":
            further.append([])
        else:
            further[-1].append(cell["throughput_bytes_per_s"])
    warm = min(median(of_file) for of_file in further)
    short = min(cell["duration_ns"] for cell in cells if cell["workload"] == "cold") < SHORT_NS
    contrast = warm / cold if cold > 0 else 0.0
    return CachedStep(evicted_bytes, cold, warm, contrast, SHORT_CONTRAST if short else CONTRAST)


def pushed_out(step: CachedStep, first_bytes_per_s: float) -> bool:
    """Whether the files of this step had left a cache that served them when they were read again.

    first_bytes_per_s: the first read of a file right after it was written. When that is as slow, first reads are
    slow for another reason, such as a look through the file at its first opening, and nothing is shown.
    """
    cold, least = step.cold_bytes_per_s, step.least_contrast
    return cold > 0 and step.contrast >= least and first_bytes_per_s >= least * cold


def cached_part(cells: Sequence[Cell], own_memory: bool, ended_by: str) -> Cached | None:
    """`cached` of the run document; None when not even the warm reads were measured.

    own_memory: the target is a path that this machine's own page cache may answer. ended_by: what kept the run
    from writing more: `--evict-size`, `--max-bytes`, `--budget`, `space` or `interrupted`.
    """
    by_name = {cell["workload"]: cell for cell in cells if cell["status"] == "complete"}
    if not {"first", "warm"} <= by_name.keys():
        return None
    first, warm = by_name["first"]["throughput_bytes_per_s"], by_name["warm"]["throughput_bytes_per_s"]
    steps = steps_of(cells)
    telling = next((step for step in steps if pushed_out(step, first)), None)
    cold = telling or (steps[-1] if steps else None)
    own_memory = own_memory or by_name["warm"]["regime"] == "client_cache"
    reason = None if telling and not own_memory else _reason(steps, first, warm, own_memory, ended_by)
    cold_rate = cold.cold_bytes_per_s if cold else first
    return Cached(
        file_bytes=by_name["warm"]["file_bytes"],
        first_bytes_per_s=first,
        cold_bytes_per_s=cold_rate,
        warm_bytes_per_s=warm,
        contrast=warm / cold_rate if cold_rate > 0 else 0.0,
        evicted_bytes=cold.evicted_bytes if cold else 0,
        steps=steps,
        separable=reason is None,
        reason=reason,
        network_only_bytes_per_s=warm if reason is None else None,
    )


_MORE = {
    "--evict-size": "give --evict-size of twice the server's memory, if that is more",
    "--max-bytes": "give a larger --max-bytes",
    "--budget": "give a longer --budget",
    "interrupted": "the run ended early, so let it run to its end",
    "space": "the target has no space for more: free some, or use a server with less memory",
}


def _reason(steps: Sequence[CachedStep], first: float, warm: float, own_memory: bool, ended_by: str) -> str:
    """Why the warm rate is not called the network's, and what to do."""
    if own_memory:
        return "warm reads came from this machine's own memory; use smb:// or nfs://"
    if not steps:
        return f"nothing was written to evict the file from the server cache; {_MORE[ended_by]}"
    last = steps[-1]
    if last.contrast >= last.least_contrast:
        return (
            f"the first read of a file is slow even right after it was written ({rate_text(first)}), so slow first "
            "reads do not show an evicted file"
        )
    if min(warm, first) >= SHORT_CONTRAST * last.cold_bytes_per_s:
        return (
            "files were slow again right after their first read: the cache holds less than one; give a smaller --size"
        )
    return (
        f"files were still read fast after {amount_text(last.evicted_bytes)} of other data: the server has "
        "more memory than that, or its disks are as fast as the network, or nothing was cached; "
        f"{_MORE[ended_by]}"
    )


def words(cached: Cached) -> str:
    """The finding in a sentence, with what was tried."""
    warm, size = rate_text(cached.warm_bytes_per_s), size_label(cached.file_bytes)
    tried = ", ".join(
        f"{rate_text(step.cold_bytes_per_s)} and {rate_text(step.warm_bytes_per_s)} again after "
        f"{amount_text(step.evicted_bytes)}"
        for step in cached.steps or ()
    )
    if not cached.separable:
        steps = f"; first reads: {tried}" if tried else ""
        return f"Network only: not separable, because {cached.reason} (warm {warm} of {size} files{steps})."
    return (
        f"Network only: {rate_text(cached.network_only_bytes_per_s)} from the server cache, shown by the contrast "
        f"of reads of {size} files before and after other data had evicted them (warm {warm}; first reads: {tried})."
    )
