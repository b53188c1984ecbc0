"""The profile of a trace as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from naslab.text.printable import printable
from naslab.trace.described import DescribedTrace, TraceFiles, TraceKind, TraceProfile, TraceRequests, TraceSeries
from naslab.trace.format import Header
from naslab.units import amount_text, duration_text, percent_text, size_label

_BAR = 30
_LEVELS = " ▁▂▃▄▅▆▇█"


def profile_text(document: DescribedTrace) -> str:
    """The document of `naslab trace show --json` in brief. Ends with a newline."""
    header, profile = document.header, document.profile
    lines = [f"{document.trace}: {_plain(header.source)} trace, {_when(header)}"]
    if header.command:
        lines.append(f"  command      {_plain(header.command)}")
    length = duration_text(profile.duration_ns)
    streams = profile.streams.count
    lines += [
        f"  operations   {profile.operations:,} of {streams:,} streams in {length}, {profile.failed:,} failed",
        f"  moved        {amount_text(profile.read_bytes)} read, {amount_text(profile.written_bytes)} written"
        + _share(profile.read_share_of_bytes, "of all bytes are read"),
        "",
    ]
    lines += _kinds(profile.kinds) + _requests(profile.requests) + _patterns(profile)
    lines += _over_time(profile.series) + _files(profile.files)
    lines += _remarks(document)
    return "\n".join(lines).rstrip() + "\n"


def _when(header: Header) -> str:
    hidden = ", names hidden" if header.anonymised else ""
    return f"{_plain(header.started_at)}{hidden}" if header.started_at else f"start unknown{hidden}"


def _plain(text: str) -> str:
    """One line, without characters that a terminal would obey."""
    return printable(text, one_line=True)


def _share(value: float | None, what: str) -> str:
    return "" if value is None else f", {percent_text(value, 1)} {what}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as needed, the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join([row[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(row[1:], widths[1:], strict=True))])
        for row in [head, *rows]
    ]


def _time(value: int | None) -> str:
    return "-" if value is None else duration_text(value)


def _kinds(kinds: dict[str, TraceKind]) -> list[str]:
    rows = [
        [name, f"{k.operations:,}", f"{k.failed:,}", amount_text(k.bytes) if k.bytes else "-",
         _time(k.mean_ns), _time(k.max_ns)]
        for name, k in kinds.items()
    ]  # fmt: skip
    return [*_table(("operation", "count", "failed", "bytes", "mean", "max"), rows), ""]


def _requests(requests: dict[str, TraceRequests]) -> list[str]:
    lines: list[str] = []
    for op, facts in requests.items():
        if not facts.count:
            continue
        mean = size_label(round(facts.mean_bytes or 0))
        lines.append(f"  {op} sizes: mean {mean}; {facts.at_end_of_file:,} more moved nothing (end of file)")
        most = max(row.count for row in facts.histogram)
        for row in facts.histogram:
            bar = "#" * max(1, round(row.count / most * _BAR))
            lines.append(f"    <= {size_label(row.up_to_bytes):>8}  {row.count:>12,}  {bar}")
        common = ", ".join(f"{row.bytes:,} B ({row.count:,})" for row in facts.common[:4])
        lines += [f"    most common: {common}", ""]
    return lines


def _patterns(profile: TraceProfile) -> list[str]:
    shares = profile.sequential
    named = (
        (shares.per_handle, "per handle"), (shares.per_stream, "per stream"), (shares.at_server, "as a server sees it"),
    )  # fmt: skip
    rows = [f"{percent_text(share, 1)} {label}" for share, label in named if share is not None]
    lines = [f"  sequential   {'; '.join(rows)}"] if rows else []
    concurrency, think = profile.concurrency, profile.think
    if concurrency and concurrency.mean is not None:
        busy = f", {concurrency.mean_while_busy:.2f} while busy" if concurrency.mean_while_busy else ""
        lines.append(f"outstanding    mean {concurrency.mean:.2f}{busy}, at most {concurrency.max}")
    if think:
        lines.append(
            f"  think time   mean {duration_text(think.mean_ns)}; half below {duration_text(think.p50_below_ns)}"
            f", 99 % below {duration_text(think.p99_below_ns)}; {duration_text(think.total_ns)} in all"
        )
    return [*lines, ""] if lines else []


def _over_time(series: TraceSeries) -> list[str]:
    """Sparklines of bytes and of operations under way."""
    rows = [("read", series.read_bytes), ("written", series.written_bytes), ("busy", series.busy_ns)]
    shown = [(name, values) for name, values in rows if any(values)]
    if not shown or len(shown[0][1]) < 2:
        return []
    lines = []
    for name, values in shown:
        step = -(-len(values) // 60)
        merged = [sum(values[i : i + step]) for i in range(0, len(values), step)]
        most = max(merged)
        lines.append(f"  {name:<11}  " + "".join(_LEVELS[-(-value * 8 // most)] for value in merged))
    interval = duration_text(series.interval_ns * -(-len(shown[0][1]) // 60))
    return [f"  over time (each column {interval}, each row up to its own peak)", *lines, ""]


def _files(files: TraceFiles) -> list[str]:
    tree = files.tree
    return [
        f"  needed first {files.needed_files:,} files ({amount_text(files.needed_bytes)}, the largest "
        f"{amount_text(files.largest_needed_bytes)}) in {files.needed_folders:,} folders",
        f"  made         {files.created_files:,} files, {files.created_folders:,} folders; {files.removed:,} removed",
        f"  tree at end  {tree.files:,} files in {tree.folders:,} folders, {tree.depth} deep, at most "
        f"{tree.most_entries:,} entries in one",
        "",
    ]


def _remarks(document: DescribedTrace) -> list[str]:
    lines = []
    if document.end.skipped:
        lines.append("  not in the trace:")
        lines += [f"    {count:>12,}  {_plain(reason)}" for reason, count in document.end.skipped.items()]
    if document.profile.files.unreadable:
        lines.append(f"  {document.profile.files.unreadable:,} reads go beyond what the trace wrote: it lacks writes")
    lines += [f"  note: {_plain(note)}" for note in document.end.notes]
    return lines
