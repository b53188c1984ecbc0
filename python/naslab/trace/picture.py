"""The profile of a trace as one HTML file: drawings in SVG, nothing loaded, readable in light and dark.

Every drawing has its finding as text above it, so that nothing is told by the picture alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from naslab.trace.described import DescribedTrace, TraceConcurrency, TraceFiles, TraceProfile, TraceRequests
from naslab.trace.text import profile_text
from naslab.units import amount_text, count_text, duration_text, percent_text, size_label

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 150, 4, 24
_ROW = 22
_SERIES = (
    ("read_bytes", "Read over time", "a", "MB/s", 1e3), ("written_bytes", "Written over time", "b", "MB/s", 1e3),
    ("operations", "Operations over time", "a", "per second", 1e9),
    ("busy_ns", "Outstanding operations over time", "b", "at once", 1.0),
)  # fmt: skip
"""Series, title, colour, unit of the rate, and what makes it from value per ns of the interval."""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>
<meta name="generator" content="naslab"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2330; --soft: #5b6675; --line: #d5dae2; --a: #2563b8; --b: #b4560b; }}
@media (prefers-color-scheme: dark) {{
:root {{ --ink: #e7ebf2; --soft: #a3aebd; --line: #3a4453; --a: #79b0f5; --b: #f0a35c; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 760px; margin: 2rem auto;
padding: 0 1rem; }}
h1 {{ font-size: 1.4rem; overflow-wrap: anywhere; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 0; }}
p {{ margin: .2rem 0 .6rem; color: var(--soft); }} pre {{ overflow-x: auto; font-size: .8rem; line-height: 1.25; }}
svg {{ width: 100%; height: auto; display: block; }} text {{ font: 12px system-ui, sans-serif; fill: var(--soft); }}
.a {{ fill: var(--a); }} .b {{ fill: var(--b); }} .line {{ stroke: var(--line); }}
</style></head><body>
{body}
</body></html>
"""


def picture(document: DescribedTrace) -> str:
    """HTML text for the document of `naslab trace show --json`."""
    profile = document.profile
    name = escape(document.trace)
    parts = [f"<h1>What {name} does</h1>", f"<p>{escape(_summary(profile))}</p>"]
    parts += _over_time(profile) + _sizes(profile.requests) + _kinds(profile) + _levels(profile.concurrency)
    parts += _file_sizes(profile.files)
    parts += ["<h2>Complete profile</h2>", f"<pre>{escape(profile_text(document))}</pre>"]
    return _PAGE.format(title=f"Trace {name}", body="\n".join(parts))


def _summary(profile: TraceProfile) -> str:
    words = [
        f"{profile.operations:,} operations of {profile.streams.count:,} streams in "
        f"{duration_text(profile.duration_ns)}",
        f"{amount_text(profile.read_bytes)} read and {amount_text(profile.written_bytes)} written",
    ]
    shares = profile.sequential
    if shares.at_server is not None and shares.per_handle is not None:
        own, all_ = (percent_text(share, 1) for share in (shares.per_handle, shares.at_server))
        words.append(f"{own} of requests are sequential within their file, {all_} as the server receives them")
    return "; ".join(words) + "."


def _chart(title: str, finding: str, drawing: str, height: int) -> list[str]:
    label = escape(f"{title}: {finding}", quote=True)
    return [
        f"<h2>{escape(title)}</h2>", f"<p>{escape(finding)}</p>",
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{drawing}</svg>',
    ]  # fmt: skip


def _over_time(profile: TraceProfile) -> list[str]:
    series = profile.series
    interval_ns = series.interval_ns
    lines: list[str] = []
    for key, title, style, unit, factor in _SERIES:
        values = getattr(series, key)
        if len(values) > 1 and any(values):
            rate = max(values) * factor / interval_ns
            most = f"{count_text(rate)} {unit}"
            finding = f"At most {most} in {duration_text(interval_ns)}."
            drawing = _columns(values, style, most, duration_text(interval_ns * len(values)))
            lines += _chart(title, finding, drawing, _HEIGHT + _BOTTOM)
    return lines


def _columns(values: Sequence[int], style: str, most_text: str, end_text: str) -> str:
    """One column a value, the highest as high as the drawing."""
    most, step = max(values), (_WIDTH - _LEFT) / len(values)
    bars = "".join(
        f'<rect class="{style}" x="{_LEFT + i * step:.2f}" width="{step:.2f}" '
        f'y="{14 + (_HEIGHT - 14) * (1 - v / most):.2f}" height="{(_HEIGHT - 14) * v / most:.2f}"/>'
        for i, v in enumerate(values)
        if v
    )
    return (
        f'{bars}<line class="line" x1="{_LEFT}" x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
        f'<text x="{_LEFT}" y="11">{escape(most_text)}</text><text x="{_LEFT}" y="{_HEIGHT + 16}">0 s</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 16}" text-anchor="end">{escape(end_text)}</text>'
    )


def _rows(rows: Sequence[tuple[str, float, str, str]]) -> tuple[str, int]:
    """Horizontal bars: label, value, its text, style; the drawing and its height."""
    most = max(value for _, value, _, _ in rows)
    left, right = 120, 110
    parts = []
    for i, (label, value, text, style) in enumerate(rows):
        y, length = i * _ROW, (_WIDTH - left - right) * value / most
        parts.append(
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="{style}" x="{left}" y="{y + 3}" width="{max(length, 1):.2f}" height="{_ROW - 6}"/>'
            f'<text x="{left + max(length, 1) + 8:.2f}" y="{y + 15}">{escape(text)}</text>'
        )
    return "".join(parts), len(rows) * _ROW


def _sizes(requests: dict[str, TraceRequests]) -> list[str]:
    lines: list[str] = []
    for op, style in (("read", "a"), ("write", "b")):
        facts = requests[op]
        if facts.count:
            rows = [
                (f"up to {size_label(row.up_to_bytes)}", row.count, f"{row.count:,}", style) for row in facts.histogram
            ]
            first = facts.common[0]
            finding = f"{facts.count:,} requests; most often {first.bytes:,} bytes ({first.count:,} times)."
            lines += _chart(f"Sizes of {op}s", finding, *_rows(rows))
    return lines


def _kinds(profile: TraceProfile) -> list[str]:
    if not profile.kinds:
        return []
    rows = [(name, k.operations, f"{k.operations:,}", "a") for name, k in profile.kinds.items()]
    finding = f"Most often {rows[0][0]}; {profile.failed:,} of {profile.operations:,} operations failed."
    return _chart("Kinds of operations", finding, *_rows(rows))


def _levels(concurrency: TraceConcurrency | None) -> list[str]:
    if concurrency is None or not concurrency.share_of_time:
        return []
    rows = [
        (f"{row.operations} outstanding", row.share, f"{percent_text(row.share, 1)}", "b")
        for row in concurrency.share_of_time[:24]
    ]
    finding = (
        f"On average {concurrency.mean:.2f} operations are outstanding, at most {concurrency.max}; "
        "the bars are shares of the time."
    )
    return _chart("Concurrency", finding, *_rows(rows))


def _file_sizes(files: TraceFiles) -> list[str]:
    if not files.needed_sizes:
        return []
    rows = [(f"up to {size_label(row.up_to_bytes)}", row.count, f"{row.count:,}", "a") for row in files.needed_sizes]
    finding = f"{files.needed_files:,} files, {amount_text(files.needed_bytes)}, must exist at the start."
    return _chart("Sizes of the files it needs", finding, *_rows(rows))
