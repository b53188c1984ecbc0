"""Runs, cells, verdicts and comparisons in a notebook: small HTML without scripts, in the notebook's own colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from naslab.explain import tell
from naslab.results.cell_names import op_words
from naslab.units import count_text, duration_text, rate_text, size_label

if TYPE_CHECKING:
    from naslab.api.verdicts import Explanation, Limit, Verdict
    from naslab.comparison.judgement import Comparison
    from naslab.results.cell import Cell
    from naslab.results.run import Run

MAX_ROWS = 12
"""Of a table; how many more there are is said below it."""
_LINE = "1px solid rgba(127,127,127,.35)"
_TEXT = "text-align:left;padding:.15em 1em .15em 0"
_NUMBER = "text-align:right;padding:.15em 1em .15em 0;font-variant-numeric:tabular-nums"
_CELL_HEADER = ("op", "file", "record", "depth", "workers", "MB/s", "IOPS", "p50", "p99", "regime")
_LIMIT_HEADER = ("class", "limited by", "value", "95 %", "probability")
_ROW_HEADER = ("measurement", "baseline", "compared", "ratio", "95 %", "verdict")


def run_html(run: Run) -> str:
    """What was measured, what was concluded, and the first cells."""
    document, target = run.document, run.document["target"]
    about = (document["command"], str(document.get("started_at") or "")[:16].replace("T", " "), document["status"])
    head = f"{target.get('url') or 'unknown target'}"
    cells = [cell for cell in run.cells if not cell.get("workload")] or run.cells
    left_out = len(run.cells) - min(len(cells), MAX_ROWS)
    parts = [
        _head(head, f"run {run.run_id}: {', '.join(part for part in about if part)}"),
        _list(_conclusions(run)),
        table(_CELL_HEADER, map(_cell_texts, cells[:MAX_ROWS]), text=(0, 9)),
        _note(f"{left_out} more cells: run.cells, run.table(), run.to_pandas()") if left_out else "",
    ]
    return _box(parts)


def _conclusions(run: Run) -> list[str]:
    """The answer of a run that has one, else its summary."""
    from naslab.explain import brief, brief_words

    found = brief.stored(run.document)
    if found is None:
        return list(run.document.get("summary") or [])
    parts = brief_words.sections(found)
    return [*parts.bottlenecks, *filter(None, [parts.normal]), *parts.actions, parts.trust]


def cell_html(cell: Cell) -> str:
    """What was asked, and what came out."""
    more = [f"workload {cell.workload}"] if cell.workload else []
    more += [f"{rate_text(cell.durable_bytes_per_s)} including flush"] if cell.durable_bytes_per_s else []
    more += [f"{cell.errors} errors"] if cell.errors else []
    more += [str(each["message"]) for each in cell.get("warnings") or []]
    return _box([_head(f"cell {cell.id}", cell.status), table(_CELL_HEADER, [_cell_texts(cell)], (0, 9)), _list(more)])


def verdict_html(verdict: Verdict) -> str:
    """The sentences, and the limits by class."""
    about = f"run {verdict.run_id}"
    return _box([_head(f"What limits {verdict.target or 'the target'}", about), *_verdict(verdict)])


def explanation_html(found: Explanation) -> str:
    """The verdict, what to do, and how far to trust it."""
    verdict = found.verdict
    following = [f"{command} ({brings})" for command, brings in found.next]
    return _box([
        _head(f"What limits {verdict.target or 'the target'}", f"run {verdict.run_id}"),
        *_verdict(verdict), *_part("What to do", found.advice), *_part("How far to trust it", found.trust),
        *_part("Next", following),
    ])  # fmt: skip


def comparison_html(found: Comparison) -> str:
    """The sentence, what makes it doubtful, and the telling measurements."""
    from naslab.comparison import words

    rows = words.telling(found.rows, MAX_ROWS)
    shown = [
        (words.what(row), words.amount(row, row.one), words.amount(row, row.other), f"{row.judged.ratio.value:.3f}",
         _ratio_interval(row.judged.ratio.low, row.judged.ratio.high), words.verdict(row))
        for row in rows
    ]  # fmt: skip
    left_out = len(found.rows) - len(rows)
    return _box([
        _head(f"{found.names[1]} against {found.names[0]}", found.verdict),
        f"<p style='margin:.3em 0'>{escape(found.sentence)}</p>",
        _list([*found.says, *(doubt.message for doubt in found.doubts)]),
        table(_ROW_HEADER, shown, text=(0, 5)),
        _note(f"{left_out} more measurements: comparison.rows") if left_out else "",
    ])  # fmt: skip


def table(header: Sequence[str], rows: Iterable[Sequence[str]], text: Sequence[int]) -> str:
    """A table of texts; text: the columns that are no numbers. Nothing without rows."""
    body = "".join(_row("td", row, text) for row in rows)
    head = f"<thead style='border-bottom:{_LINE}'>{_row('th', header, text)}</thead>" if header else ""
    style = "border-collapse:collapse;margin:.5em 0;color:inherit;background:transparent"
    return f"<table style='{style}'>{head}<tbody>{body}</tbody></table>" if body else ""


def _row(tag: str, texts: Sequence[str], text: Sequence[int]) -> str:
    cells = (
        f"<{tag} style='{_TEXT if at in text else _NUMBER};background:transparent'>{escape(each)}</{tag}>"
        for at, each in enumerate(texts)
    )
    return f"<tr style='background:transparent'>{''.join(cells)}</tr>"


def _verdict(verdict: Verdict) -> Iterator[str]:
    yield _list(verdict.sentences)
    yield table(_LIMIT_HEADER, map(_limit_texts, verdict.limits), text=(0, 1))


def _limit_texts(limit: Limit) -> tuple[str, ...]:

    document = limit.document()
    sure = "" if limit.probability is None else f"{limit.probability:.2f}"
    return limit.io, limit.name, tell.value_text(limit.value, limit.unit), tell.interval_text(document), sure


def _cell_texts(cell: Any) -> tuple[str, ...]:
    """In the columns of _CELL_HEADER; empty where there is no value."""
    latency = cell.get("latency_ns") or {}
    rate, iops = cell.get("throughput_bytes_per_s"), cell.get("iops")
    mark = "~" if cell.get("predicted") else ""
    return (
        op_words(str(cell["op"])),
        *("" if cell.get(name) is None else size_label(cell[name]) for name in ("file_bytes", "record_bytes")),
        *("" if cell.get(name) is None else str(cell[name]) for name in ("queue_depth", "workers")),
        "" if rate is None else mark + rate_text(rate).removesuffix(" MB/s"), "" if iops is None else count_text(iops),
        *("" if latency.get(name) is None else duration_text(latency[name]) for name in ("p50", "p99")),
        str(cell.get("regime") or "").replace("_", " "),
    )  # fmt: skip


def _ratio_interval(low: float, high: float) -> str:
    if low <= 0 and math.isinf(high):
        return ""
    return f"{low:.2f} to {'…' if math.isinf(high) else f'{high:.2f}'}"


def _part(head: str, texts: Sequence[str]) -> list[str]:
    return [f"<div style='margin-top:.6em;font-weight:600'>{escape(head)}</div>", _list(texts)] if texts else []


def _list(texts: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(text[:1].upper() + text[1:])}</li>" for text in texts)
    return f"<ul style='margin:.3em 0;padding-left:1.2em'>{items}</ul>" if items else ""


def _head(title: str, about: str) -> str:
    small = f"<span style='opacity:.7;font-weight:400'> {escape(about)}</span>" if about else ""
    return f"<div style='font-weight:600;overflow-wrap:anywhere'>{escape(title)}{small}</div>"


def _note(text: str) -> str:
    return f"<div style='opacity:.7'>{escape(text)}</div>"


def _box(parts: Iterable[str]) -> str:
    """In the colours of what is around it: a notebook may be light or dark."""
    style = "color:inherit;background:transparent;border-left:3px solid rgba(127,127,127,.5);padding:.2em .8em"
    return f"<div style='{style};overflow-x:auto'>{''.join(parts)}</div>"
