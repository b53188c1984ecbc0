"""Text of the report: sizes, rates, latencies and names as people read them."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from typing import Any

from naslab.results.cell_names import op_words
from naslab.units import count_text, duration_text, rate_text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def time_label(duration_ns: float) -> str:
    """Latency with three significant digits: 1530 -> `1.53 µs`; from a minute on in minutes."""
    return duration_text(duration_ns)


def value_label(value: float | None, unit: str) -> str:
    """A throughput (`unit` is `bytes`) or an operation rate (`ops`) with its unit."""
    if unit == "bytes":
        return rate_text(value)
    if value is None:
        return "-"
    return f"{count_text(value)} ops/s"


def count_label(count: int, one: str, many: str | None = None) -> str:
    """`1 cell`, `2,000 cells`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def op_label(op: str) -> str:
    """`random_read` -> `Random read`; application names (with capitals) stay as they are."""
    text = op_words(op)
    return text if text != text.lower() else text[:1].upper() + text[1:]


_NUMBER_SPACE = re.compile(r"(?<=\d) (?=(?:%|[kMG]B/s|ops/s|[KMGT]iB|[kMGT]?B|[mµn]?s|min|h|[MG]bit/s)(?![\w/]))")


def tight(text: str) -> str:
    """A sentence whose numbers stay with their units: `118 MB/s` does not break at the line's end."""
    return _NUMBER_SPACE.sub("\N{NO-BREAK SPACE}", text)


def percent(fraction: float) -> str:
    """`93 %`."""
    return f"{fraction * 100:.0f} %"


def clean(text: object) -> str:
    """Text without control, direction-override and half characters."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


def esc(text: object) -> str:
    """Text for HTML bodies and quoted attributes."""
    return html.escape(clean(text), quote=True)


def plot_text(text: object) -> str:
    """Text for a Plotly label, which otherwise takes `<b>` and `<a href>` for markup."""
    return clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def plain(value: Any) -> str:
    """A fact of unknown shape in one line: yes, no, not stated, lists with commas."""
    if value is None or value == "":
        return "not stated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}" if math.isfinite(value) else "not stated"
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value) or "none"
    return clean(value)


def text_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of plain text as HTML, which scrolls sideways where the page is narrow."""
    head = "".join(f'<th scope="col">{esc(tight(text))}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{esc(tight(text))}</td>" for text in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><caption>{esc(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
