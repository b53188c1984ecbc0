"""A job's result: the engine's form of a cell, the document's `job` part, what limited it, and the sentences."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import UNSET

from naslab.client.limit import cpu_limit_cores
from naslab.commands.jobs.crew import Ended
from naslab.commands.jobs.meter import INTERVAL_NS, SIDES, Meter, kinds_of, requests, series_of, wire_series_of
from naslab.results.describe import Part
from naslab.results.parts.job import JobDocument, JobShares, JobStep, JobStream
from naslab.units import amount_text, count_text, duration_text, rate_text

MOST_SHARE = 0.5
"""A side that took at least this share of the streams' time is the limit."""
SHORT_NS = 200_000_000
"""What took less is too short to judge by, and said to be."""
BUSY_SHARE = 0.85
"""With so much of the client's processors used by the job itself, they are the limit, wherever the streams waited."""
_SUMS = (
    "files", "read_bytes", "write_bytes", "cpu_ns", "compute_cpu_ns", "request_cpu_ns", "processor_wait_ns",
    "source_bytes", "local_bytes",
)  # fmt: skip
"""Of a step, what adds up over clients."""
Limit = Literal["source", "target", "local", "client_cpu", "mixed"]
_LIMITS: dict[str, Limit] = {"source": "source", "target": "target", "local": "local", "cpu": "client_cpu"}
"""By the side on which the time went."""


class RawArchives(Part):
    """Archives that were made: how many, their bytes, and the bytes of what is in them."""

    files: int
    bytes: int
    raw: int


class ClientJob(Part):
    """What one of many clients says of a job. unreadable, changed: files of its source."""

    step: JobStep
    names_changed: int
    times_preserved: bool
    time_resolution_ns: int | None
    skipped: dict[str, int]
    unreadable: int
    changed: int
    archives: RawArchives | None


@dataclass
class Before:
    """The clocks when a job began, in ns."""

    start_ns: int
    wall_ns: int


def before() -> Before:
    """Reads the clocks."""
    return Before(time.perf_counter_ns(), time.time_ns())


def cell_event(
    cell_id: int, began: Before, ended: Sequence[Ended], error: BaseException | None = None
) -> tuple[Any, list[bytes]]:
    """The cell as the engine gives it (docs/notes/0001-seams.md), with its blobs. Bytes, operations: of the target.

    It starts when the first stream does, all being connected by then. error: what ended the job before its time.
    """
    meters = [one.meter for one in ended]
    worked = [meter for meter in meters if meter.begun_ns]
    start = min((meter.begun_ns for meter in worked), default=began.start_ns)
    window = max(1, max((meter.ended_ns for meter in worked), default=start) - start)
    rows, blobs = requests(meters), list[bytes]()
    kinds = kinds_of(rows, blobs)
    blobs.append(series_of(rows, start, start + window))
    wire = wire_series_of(meters, start, start + window)
    event = {
        "id": cell_id, "status": "complete", "stop_reason": "done", "start_ns": start, "end_ns": start + window,
        "start_wall_ns": began.wall_ns + start - began.start_ns, "window_ns": window, "pause_ns": 0,
        "duration_ns": window, "acknowledged_ns": window, "bytes": int(rows[:, 2].sum()), "ops": len(rows),
        "kinds": kinds, "interval_ns": INTERVAL_NS, "series": len(blobs) - 1,
        "cpu_user_ns": sum(meter.user_ns for meter in meters) + sum(one.waiter_ns[0] for one in ended),
        "cpu_system_ns": sum(meter.system_ns for meter in meters) + sum(one.waiter_ns[1] for one in ended),
        "wire": _wire(ended), "protocol_events": _events(ended),
        "workers": [_worker(number, meter) for number, meter in enumerate(meters)],
    }  # fmt: skip
    if wire is not None:
        event["wire_series"] = len(blobs)
        blobs.append(wire)
    return event | (_failure(error) if error is not None else {}), blobs


def _failure(error: BaseException) -> dict[str, Any]:
    """Fields of a cell that ended before its time. An interruption is no error; what was done counts."""
    if isinstance(error, KeyboardInterrupt):
        return {"status": "partial", "stop_reason": "interrupted"}
    kind, status = getattr(error, "kind", "job"), getattr(error, "status", 0)
    return {
        "status": "failed", "stop_reason": "error", "errors": 1, "first_error": str(error),
        "errors_by_status": [{"kind": kind, "status": status, "count": 1}],
    }  # fmt: skip


def _wire(ended: Sequence[Ended]) -> dict[str, int] | None:
    known = [one.wire for one in ended if one.wire is not None]
    return {"sent_bytes": sum(w[0] for w in known), "received_bytes": sum(w[1] for w in known)} if known else None


def _events(ended: Sequence[Ended]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in ended:
        for name, count in one.events.items():
            if count > 0:
                total[name] = total.get(name, 0) + count
    return total


def _worker(number: int, meter: Meter) -> dict[str, int]:
    rows = meter.rows()
    return {
        "worker": number, "bytes": int(rows[:, 2].sum()), "ops": len(rows), "start_ns": meter.begun_ns,
        "end_ns": meter.ended_ns, "duration_ns": meter.busy_ns,
    }  # fmt: skip


def step_of(job: str, repeat: int, cell: Mapping[str, Any], meters: Sequence[Meter], prepares: bool = False) -> JobStep:
    """One job carried out once, for the document's `job` part. Times in ns, sizes in bytes."""
    wall = int(cell["duration_ns"])
    spent = {side: sum(meter.shares_ns()[side] for meter in meters) for side in SIDES}
    busy = max(1, sum(spent.values()))
    shares = {side: spent[side] / busy for side in SIDES}
    read, write = (int(cell["kinds"].get(kind, {}).get("bytes", 0)) for kind in ("read", "write"))
    files = sum(meter.files for meter in meters)
    source_bytes = sum(meter.source_bytes for meter in meters)
    cpu = int(cell["cpu_user_ns"] + cell["cpu_system_ns"])
    step = JobStep(
        job=job, prepares=prepares, repeat=repeat, cell=cell["id"], files=files, wall_ns=wall,
        read_bytes=read, write_bytes=write, read_bytes_per_s=read * 1e9 / wall, write_bytes_per_s=write * 1e9 / wall,
        files_per_s=files * 1e9 / wall, cpu_ns=cpu, cpu_fraction=cpu / wall,
        compute_cpu_ns=sum(meter.compute_cpu_ns for meter in meters),
        request_cpu_ns=sum(meter.request_cpu_ns for meter in meters),
        processor_wait_ns=sum(meter.delayed_ns for meter in meters),
        shares=JobShares(**shares), source_bytes=source_bytes,
        source_bytes_per_s=source_bytes * 1e9 * len(meters) / spent["source"] if spent["source"] else None,
        local_bytes=sum(meter.local_bytes for meter in meters),
        streams=[
            JobStream(m.files, m.busy_ns, source_bytes=m.source_bytes,
                      **{f"{side}_ns": value for side, value in m.shares_ns().items()})
            for m in meters
        ],
        limit=limit_of(shares, cpu / wall / cpu_limit_cores()), evidence="",
    )  # fmt: skip
    step.evidence = _evidence(step) + (", in too short a time to rely on" if wall < SHORT_NS else "")
    return step


def merged_step(steps: Sequence[JobStep], cell: Mapping[str, Any]) -> JobStep:
    """One job that several clients carried out at once; its time and rates are of the cell that holds all of them."""
    wall, first = int(cell["duration_ns"]), steps[0]
    streams = [stream for step in steps for stream in step.streams]
    spent = {side: sum(getattr(stream, f"{side}_ns") for stream in streams) for side in SIDES}
    shares = {side: value / max(1, sum(spent.values())) for side, value in spent.items()}
    total: dict[str, int] = {name: sum(getattr(step, name) for step in steps) for name in _SUMS}
    held_up = [step for step in steps if step.limit == "client_cpu"]
    step = JobStep(
        job=first.job, prepares=first.prepares, repeat=first.repeat, cell=cell["id"], wall_ns=wall,
        **total, status=UNSET,
        read_bytes_per_s=total["read_bytes"] * 1e9 / wall, write_bytes_per_s=total["write_bytes"] * 1e9 / wall,
        files_per_s=total["files"] * 1e9 / wall, cpu_fraction=total["cpu_ns"] / wall, shares=JobShares(**shares),
        source_bytes_per_s=sum(each.source_bytes_per_s or 0.0 for each in steps) or None, streams=streams,
        limit="client_cpu" if 2 * len(held_up) > len(steps) else limit_of(shares), evidence="",
    )  # fmt: skip
    step.evidence = _evidence(step) if step.limit != "client_cpu" else held_up[0].evidence
    return step


def limit_of(shares: Mapping[str, float], busy: float = 0.0) -> Limit:
    """The side on which most of the streams' time went; `mixed` where none took half of it.

    shares: by name of SIDES, 0 to 1. busy: share of all processors that the job used; from BUSY_SHARE on they are it.
    """
    side = max(shares, key=lambda name: shares[name])
    if busy >= BUSY_SHARE:
        return "client_cpu"
    return "mixed" if shares[side] < MOST_SHARE else _LIMITS[side]


def _evidence(step: JobStep) -> str:
    shares = {side: float(getattr(step.shares, side)) for side in SIDES}
    share = {side: f"{100 * value:.0f} %" for side, value in shares.items()}
    if step.limit == "source":
        rate = rate_text(step.source_bytes_per_s or 0.0)
        return f"the source delivered {rate} while it was read and was the limit {share['source']} of the time"
    if step.limit == "target":
        return f"the streams waited for the target {share['target']} of the time"
    if step.limit == "local":
        return f"writing this machine's own files took {share['local']} of the time"
    if step.limit == "client_cpu":
        busy = f"{step.cpu_fraction:.2g} of {cpu_limit_cores():g}"
        spent = ((step.compute_cpu_ns, "computing"), (step.request_cpu_ns or 0, "in requests"))
        used = ", ".join(f"{duration_text(cpu_ns)} {word}" for cpu_ns, word in spent)
        return (
            f"the client's CPU was the limit: the job kept {busy} processors busy ({used}), and streams "
            f"waited {duration_text(step.processor_wait_ns or 0)} for a processor"
        )
    parts = ", ".join(f"{side} {text}" for side, text in share.items() if shares[side] >= 0.005)
    return f"no side took half of the streams' time: {parts}"


def sentences(part: JobDocument) -> list[str]:
    """The result in words."""
    ratio = f", compressing {part.source_ratio:.2g} : 1 by deflate" if part.source_ratio else ""
    told = [
        f"Source: {part.source}, {part.files:,} files in {part.folders:,} folders, "
        f"{amount_text(part.bytes)}{ratio}; {part.streams} stream{'s' if part.streams > 1 else ''}"
        f"{_on_clients(part)}."
    ]
    steps = [step for step in part.steps if not step.prepares]
    for job in dict.fromkeys(step.job for step in steps):
        told.append(_job_sentence([step for step in steps if step.job == job]))
    if part.archives:
        found = part.archives
        size, ratio = amount_text(found.bytes), f"{found.ratio:.3g} : 1 ({part.method})"
        told.append(f"Archives: {found.files}, together {size}, {ratio}.")
    return told


def _on_clients(part: JobDocument) -> str:
    """That each of several clients has a source and streams of its own; empty for one."""
    count = part.clients or 1
    return f" on each of {count} clients" if count > 1 else ""


def _job_sentence(steps: Sequence[JobStep]) -> str:
    """One job, of several repeats the median one by its time, with the range of the times."""
    ranked = sorted(steps, key=lambda step: step.wall_ns)
    step = ranked[(len(ranked) - 1) // 2]
    rates = [f"{verb} {rate_text(rate)}" for verb, rate in _moved(step)]
    head = f"{step.job}: {step.files:,} files in {duration_text(step.wall_ns)}"
    if len(ranked) > 1:
        low, high = duration_text(ranked[0].wall_ns), duration_text(ranked[-1].wall_ns)
        head += f" (median of {len(ranked)}, {low} to {high})"
    figures = [*rates, f"{count_text(step.files_per_s)} files/s", f"CPU {100 * step.cpu_fraction:.0f} %"]
    return f"{head}, {', '.join(figures)}; {step.evidence}."


def _moved(step: JobStep) -> list[tuple[str, float]]:
    """What a step moved with the rate (bytes/s): `read`, `write`, or both."""
    kinds = (("read", step.read_bytes, step.read_bytes_per_s), ("write", step.write_bytes, step.write_bytes_per_s))
    return [(kind, rate) for kind, moved, rate in kinds if moved]


HEADER = ("job", "files", "time", "read MB/s", "write MB/s", "files/s", "CPU %", "limit")
"""Columns of `rows`."""


def rows(part: JobDocument) -> Iterator[tuple[str, ...]]:
    """A row for each job, as texts in the columns of HEADER; a side as limit has its percent of the streams' time."""
    for step in part.steps:
        name = step.job + (" (prepares)" if step.prepares else "")
        moved = dict(_moved(step))
        rates = (f"{moved[kind] / 1e6:,.4g}" if kind in moved else "-" for kind in ("read", "write"))
        share = getattr(step.shares, step.limit, None)
        limit = step.limit.replace("_", " ") + ("" if share is None else f" {100 * share:.0f} %")
        cpu = f"{100 * step.cpu_fraction:.0f}"
        time_text = duration_text(step.wall_ns)
        yield name, f"{step.files:,}", time_text, *rates, count_text(step.files_per_s), cpu, limit
