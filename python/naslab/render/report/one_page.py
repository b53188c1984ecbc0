"""One A4 page for reviewers: what was measured and how, the answer, one picture and one table, as SVG.

The picture is the report's own, drawn for print; all texts are those that the report and `show` have.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naslab import __version__
from naslab.analysis.sustained import percentile_rows, regime_name
from naslab.errors import UsageError
from naslab.explain import tell
from naslab.render.report import svg_chart, testbed, theme
from naslab.render.report.drawing import PLAIN, Drawing
from naslab.render.report.labels import op_label, value_label
from naslab.render.report.model import extremes, where
from naslab.render.report.page import started_text, title_of
from naslab.render.report.rasterise import check_tools, png
from naslab.render.report.rawdata import read_series
from naslab.render.report.svg_chart import FONT, text, text_width
from naslab.render.report.views import Chart, Shown, charts, shown
from naslab.render.terminal.tables import command_tables
from naslab.render.terminal.telling import told_once
from naslab.results.describe import typed
from naslab.results.parts.sustained import Sustained
from naslab.text.outputs import HTML, ONE_PAGE_PNG, ONE_PAGE_SVG, Kind, check_output, write_output, written

if TYPE_CHECKING:
    from naslab.results.run import Run

WIDTH, HEIGHT = 794, 1123
"""A4 portrait in CSS pixels, 96 an inch."""
MARGIN = 52
MAX_ROWS, MAX_SENTENCES, MAX_NOTES = 14, 6, 3
_CONDITIONS = ("Source", "Protocol", "Lab system", "Network", "Client", "Files", "Records", "Load", "Durability",
               "Caches", "Repeats", "Conditions")  # fmt: skip
_FIRST = ("ladder", "curve", "regimes", "apps", "job", "tree", "clients", "durable", "profile", "working-set",
          "throughput", "tests", "slices", "latency", "latency-tests")  # fmt: skip
"""Charts by how much of an answer they are."""
_INNER = WIDTH - 2 * MARGIN


@dataclass(frozen=True)
class Table:
    """The table of the page, of plain texts."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def svg(runs: Sequence[Run], drawing: Drawing = PLAIN) -> str:
    """The page of one run or of several side by side. drawing: reference lines. Raises UsageError without a run."""
    if not runs:
        raise UsageError("report: name at least one RUN")
    prepared = shown(list(runs))
    parts, y = _head(prepared)
    table = _table(prepared)
    below, foot = _below(prepared, table)
    chart = _chart(prepared, drawing)
    if chart is not None:
        lines = _wrapped(chart.entries[0]["caption"], 10.5)[:3]
        height = min(520.0, HEIGHT - MARGIN - foot - y - 34 - 14 * len(lines))
        parts.append(text(MARGIN, y + 14, chart.title, size=14, font_weight="bold", fill=theme.INK))
        parts.append(svg_chart.draw(chart.entries[0]["figure"], MARGIN, y + 24, _INNER, height - 10))
        y += 24 + height
        parts += [text(MARGIN, y + 14 * at + 6, line, size=10.5, fill=theme.MUTED) for at, line in enumerate(lines)]
        y += 14 * len(lines) + 16
    parts.append(f'<g transform="translate(0 {y:.1f})">{below}</g>')
    parts.append(_foot(prepared))
    title = html.escape(title_of(prepared))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="{html.escape(FONT)}" role="img">\n<title>{title}</title>\n'
        f"<!-- naslab one-page report {html.escape(__version__)} -->\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def page(runs: Sequence[Run], drawing: Drawing = PLAIN) -> str:
    """The same as an HTML page that prints on one sheet of A4. It has no script and loads nothing."""
    drawn = svg(runs, drawing)
    title = html.escape(title_of(shown(list(runs))))
    return _PAGE.format(title=title, version=html.escape(__version__), svg=drawn)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="naslab {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
@page {{ size: A4 portrait; margin: 0 }}
body {{ margin: 0; background: #fff }}
svg {{ display: block; width: 100%; max-width: 210mm; height: auto; margin: 0 auto }}
@media print {{ svg {{ width: 210mm; height: 296mm }} }}
</style>
</head>
<body>
{svg}</body>
</html>
"""


def _wrapped(words: str, size: float, width: float = _INNER) -> list[str]:
    return textwrap.wrap(words.replace("\N{NO-BREAK SPACE}", " "), max(10, int(width / text_width("x", size))))


def _head(runs: Sequence[Shown]) -> tuple[list[str], float]:
    """Title, date, conditions and the answer; and where they end."""
    document: Mapping[str, Any] = runs[0].run.document
    y, parts = MARGIN + 6.0, []
    for line in _wrapped(title_of(list(runs)), 19)[:2]:
        parts.append(text(MARGIN, y, line, size=20, font_weight="bold", fill=theme.INK))
        y += 24
    facts = [started_text(document), str(document.get("run_id", ""))] if len(runs) == 1 else [_names(runs)]
    about = dict(testbed.rows(document))
    told = [f"{name}: {about[name]}" for name in _CONDITIONS if name in about]
    for line in _wrapped(" · ".join(part for part in [*facts, *told] if part), 10.5)[:5]:
        parts.append(text(MARGIN, y, line, size=10.5, fill=theme.MUTED))
        y += 14
    y += 12
    for sentence in _answer(runs)[:MAX_SENTENCES]:
        for line in _wrapped(sentence, 13):
            parts.append(text(MARGIN, y, line, size=13, fill=theme.INK))
            y += 17
        y += 3
    return parts, y + 6


def _names(runs: Sequence[Shown]) -> str:
    return "; ".join(f"{run.name}, {started_text(run.run.document)}" for run in runs)


def _answer(runs: Sequence[Shown]) -> list[str]:
    """What the run found, in its own sentences; of several runs the first of each."""
    found = []
    for run in runs:
        document: Mapping[str, Any] = run.run.document
        sentences = tell.sentences(document) if document.get("ladder") else []
        given = document.get("summary") or []
        sentences = sentences or ([given] if isinstance(given, str) else [str(one) for one in given])
        found += [f"{run.name}: {sentences[0]}"] if len(runs) > 1 and sentences else sentences
    return found


def _chart(runs: list[Shown], drawing: Drawing) -> Chart | None:
    """The chart that tells most of what print can show; None where there is none."""
    series = [one for run in runs for cell in run.run.cells if (one := read_series(run.run, run.index, cell))]
    found = {
        chart.id: chart for chart in charts(runs, series, drawing) if svg_chart.can_draw(chart.entries[0]["figure"])
    }
    return next((found[name] for name in _FIRST if name in found), None)


def _table(runs: list[Shown]) -> Table:
    """The one table: limits where they are known, else the command's own, else the tests."""
    if len(runs) > 1:
        return _side_by_side(runs)
    limits = (runs[0].run.document.get("verdict") or {}).get("limits") or []
    if limits:
        return Table("What limits it", tell.HEADER, list(tell.rows(limits)))
    return _of_command(runs[0].run) or _by_test(runs[0])


def _of_command(run: Run) -> Table | None:
    """The table that a command's own part of the document has; None for runs without such a part."""
    document: Any = run.document
    if (document.get("sustained") or {}).get("regimes"):
        regimes = typed(document["sustained"], Sustained).regimes[:4]
        rows = [(name, *texts) for name, texts in percentile_rows(regimes)]
        return Table("Latency", ("Percentile", *(regime_name(run, one) for one in regimes)), rows)
    found = next((table for table in command_tables(document) if table.title), None)
    if found is None:
        return None
    whole = [tuple(row) for row in found.rows]
    return Table(found.title, found.header, _spread(whole) if found.title == "Loads" else whole)


def _spread(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """At most MAX_ROWS of them, the first and the last among them."""
    if len(rows) <= MAX_ROWS:
        return rows
    return [rows[round(at * (len(rows) - 1) / (MAX_ROWS - 1))] for at in range(MAX_ROWS)]


def _by_test(run: Shown) -> Table:
    rows = []
    for case in run.cases:
        (top, high), (bottom, low) = extremes(case)
        more = (value_label(low, case.unit), where(case, bottom)) if len(case.spots) > 1 else ("", "")
        rows.append((case.label, value_label(high, case.unit), where(case, top), *more))
    return Table("Results by test", ("Test", "Highest", "at", "Lowest", "at"), rows)


def _side_by_side(runs: list[Shown]) -> Table:
    found = [{case.label: case for case in run.cases} for run in runs]
    labels = dict.fromkeys(label for cases in found for label in cases)

    def value(cases: Mapping[str, Any], label: str) -> str:
        return value_label(extremes(cases[label])[0][1], cases[label].unit) if label in cases else "not measured"

    rows = [(label, *(value(cases, label) for cases in found)) for label in labels]
    return Table("Highest of each test", ("Test", *(run.name for run in runs)), rows)


def _below(runs: Sequence[Shown], table: Table) -> tuple[str, float]:
    """The table and the doubts, from 0 on, and their height."""
    parts = [text(MARGIN, 14, table.caption, size=14, font_weight="bold", fill=theme.INK)]
    y = 34.0
    rows = [[op_label(row[0]) if row[0].islower() else row[0], *row[1:]] for row in table.rows[:MAX_ROWS]]
    told = [at for at in range(len(table.header)) if any(row[at] for row in rows)]
    lines = [[row[at] for at in told] for row in [list(table.header), *rows]]
    widths, size = _columns(lines)
    for at, row in enumerate(lines):
        x = float(MARGIN)
        for words, width in zip(row, widths, strict=True):
            look = {"font_weight": "bold"} if at == 0 else {}
            parts.append(text(x, y, _cut(words, width - 8, size), size=size, fill=theme.INK, **look))
            x += width
        colour = theme.MUTED if at == 0 else theme.GRID
        parts.append(f'<path d="M{MARGIN} {y + 6:.1f}H{WIDTH - MARGIN}" stroke="{colour}" stroke-width="0.7"/>')
        y += 18
    if len(table.rows) > MAX_ROWS:
        parts.append(text(MARGIN, y, f"{len(table.rows) - MAX_ROWS} further rows: see the full report", size=10))
        y += 16
    for line in _doubts(runs):
        parts.append(text(MARGIN, y + 4, line, size=10.5, fill="#7a4a00"))
        y += 14
    return "\n".join(parts), y


def _columns(rows: Sequence[Sequence[str]]) -> tuple[list[float], float]:
    """Widths of the columns and the size of the letters: smaller ones, then shares of the room, where needed."""
    sizes = (11.0, 10.0, 9.0)
    for size in sizes:
        widths = [max(text_width(row[at], size) for row in rows) + 14 for at in range(len(rows[0]))]
        if sum(widths) <= _INNER:
            return widths, size
    return [width * _INNER / sum(widths) for width in widths], sizes[-1]


def _cut(words: str, width: float, size: float) -> str:
    most = max(4, int(width / text_width("x", size)))
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _doubts(runs: Sequence[Shown]) -> list[str]:
    """The first warnings, in lines."""
    told = []
    for run in runs:
        told += [f"{run.name}: {text}" if len(runs) > 1 else text for _, text, _ in _warnings(run)]
    lines = [line for words in told[:MAX_NOTES] for line in _wrapped(f"Note: {words}", 10.5)[:2]]
    more = len(told) - MAX_NOTES
    return [*lines, *([f"{more} further notes: see the full report"] if more > 0 else [])]


def _warnings(run: Shown) -> Iterable[tuple[str, str, int]]:
    return told_once(run.run.document.get("warnings") or [], run.run.cells)


def _foot(runs: Sequence[Shown]) -> str:
    names = " ".join(str(run.run.document.get("run_id", "")) for run in runs)
    words = f"naslab {__version__}. Rates in MB/s (10^6 bytes). The full report: naslab report {names}"
    return text(MARGIN, HEIGHT - 28, _cut(words, _INNER, 9), size=9, fill=theme.MUTED)


def write(runs: Sequence[Run], path: Path, drawing: Drawing = PLAIN) -> Path:
    """Writes the page as the file's ending says: .svg, .png or .html. Raises UsageError, StoreError."""
    kind = check(path)
    if path.suffix.lower() == ".png":
        data = png(svg(runs, drawing), WIDTH, HEIGHT, f"-o {path}")
        with written(path, "-o", kind) as temporary:
            temporary.write_bytes(data)
        return path
    return write_output((page if kind is HTML else svg)(runs, drawing), path, "-o", kind)


def check(path: Path) -> Kind:
    """What is written there. Raises UsageError for another ending, what is in the way, and a PNG nobody here draws."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"-o {path}: one page needs a .svg, .png or .html file; name such a file")
    check_output(path, "-o", kind)
    if kind is ONE_PAGE_PNG:
        check_tools(f"-o {path}")
    return kind


KINDS = {".svg": ONE_PAGE_SVG, ".png": ONE_PAGE_PNG, ".html": HTML, ".htm": HTML}
