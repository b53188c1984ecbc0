"""A replay as sentences and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.results.describe import typed
from naslab.results.parts.replay import ReplayDocument
from naslab.units import amount_text, duration_text, rate_text

HEADER = ("operation", "in trace", "issued", "p50", "p99", "per second")


def _cell(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(cell for cell in document["cells"] if cell["workload"] == "replay")


def rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Each kind of operation in the columns of HEADER. document: of a run with `replay`."""
    cell = _cell(document)
    for row in typed(document["replay"], ReplayDocument).operations:
        told = cell["kinds"].get(row.kind)
        latency = told["latency_ns"] if told and told["ops"] else None
        yield (
            row.kind, f"{row.trace:,}", f"{row.issued:,}",
            duration_text(latency["p50"]) if latency else "", duration_text(latency["p99"]) if latency else "",
            f"{row.issued * 1e9 / cell['duration_ns']:,.0f}" if cell["duration_ns"] else "",
        )  # fmt: skip


def sentences(document: Mapping[str, Any]) -> Iterator[str]:
    """What was done, how fast, and all that differs from the trace."""
    replay, cell = typed(document["replay"], ReplayDocument), _cell(document)
    count = sum(row.trace for row in replay.operations)
    issued = sum(row.issued for row in replay.operations)
    rate = f" ({rate_text(cell['throughput_bytes_per_s'])})" if cell["bytes"] and cell["duration_ns"] else ""
    yield (
        f"The {count:,} operations of the trace, {amount_text(cell['bytes'])}, took "
        f"{duration_text(cell['duration_ns'])}{rate}, in {_streams(replay)}."
    )
    if not replay.equal:
        yield f"Not all were issued: {issued:,}; the table lists them by kind."
    elif not (replay.skipped or replay.instead or replay.added):
        yield "As many operations of each kind were issued as the trace contains."
    else:
        yield "As many operations of each kind were issued as the trace contains, except these:"
    for note in replay.skipped:
        yield f"not carried out: {note.count:,} {note.kind}: {note.reason}."
    for note in replay.instead:
        other = f" as {note.as_kind}" if note.as_kind != note.kind else ""
        yield f"otherwise: {note.count:,} {note.kind}{other}: {note.reason}."
    for note in replay.added:
        yield f"in addition: {note.count:,} {note.kind}: {note.reason}."
    if replay.escaped_names:
        yield f"{replay.escaped_names:,} names contain characters that SMB forbids; they are written as %XX."
    if replay.told_apart:
        yield (f"{replay.told_apart:,} names differ from another only in case; their first letters are written as %XX.")
    if replay.missed_deadlines is not None:
        yield f"{replay.missed_deadlines:,} operations started later than --deadline after they were due."


def _streams(replay: ReplayDocument) -> str:
    if replay.streams < replay.trace_streams:
        return f"{replay.streams} streams, joined from the trace's {replay.trace_streams:,}"
    return "one stream" if replay.streams == 1 else f"{replay.streams} streams"
