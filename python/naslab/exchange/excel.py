"""Runs as an Excel workbook: tidy sheets joined by ids, and sheets like IOzone's with charts Excel draws itself.

Written row by row (openpyxl's write-only mode), so that a million intervals fit in memory. Excel's own limits are
kept: rows of a sheet, characters of a cell, names of sheets, lines of a chart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpyxl import Workbook
from openpyxl.cell import Cell, WriteOnlyCell
from openpyxl.styles import Alignment, Font
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.properties import PageSetupProperties

from naslab.errors import UsageError
from naslab.exchange import excel_series, series_table
from naslab.exchange.files import without_control
from naslab.results.columns import CELL_COLUMNS, cell_row

if TYPE_CHECKING:
    from naslab.results.run import Run

MAX_ROWS = 1_048_576
"""Rows of an Excel sheet; a longer table goes on in another sheet."""
MAX_TEXT = 32_767
"""Characters of an Excel cell."""
MAX_POINTS = 3_000_000
"""Intervals of the series in a workbook: about 200 MB, more than spreadsheets open with ease."""
MAX_EXACT_INTEGER = 1 << 53
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_BAD_IN_TITLES = str.maketrans("[]:*?/\\", "       ")
RUNS_HEADER = (
    "number", "run_id", "label", "command", "status", "target", "protocol", "dialect", "signing", "encryption",
    "start_utc", "took_s", "cells", "seed", "note", "source", "naslab_version", "argv",
)  # fmt: skip
LIMITS_HEADER = (
    "run_id", "kind", "op", "size", "applies_to", "confidence", "value", "unit", "ci95_low", "ci95_high", "evidence",
)  # fmt: skip
_TOLD_ELSEWHERE = ("cells", "environment", "warnings", "verdict", "argv", "blobs")
_DATE = "yyyy-mm-dd hh:mm:ss"


def write_workbook(runs: Sequence[Run], path: Path) -> None:
    """Sheets runs, cells, series, environment, limits, warnings, details; then those with charts.

    Raises UsageError naming Parquet for more points than a workbook should hold; StoreError, OSError.
    """
    from naslab.exchange.excel_charts import chart_sheets

    points = _points(runs)
    book = Workbook(write_only=True)
    book.properties.creator = "naslab"
    book.properties.created = book.properties.modified = _utc(runs[0].document.get("start_wall_ns")) or datetime(
        1980, 1, 1
    )
    table(book, "runs", RUNS_HEADER, (_run_row(at, run) for at, run in enumerate(runs, 1)), width=16)
    header = ["start_utc" if column.name == "start_wall_ns" else column.name for column in CELL_COLUMNS]
    table(book, "cells", header, (_cell_row(run, cell) for run in runs for cell in run.cells))
    series = _series_sheets(book, points)
    table(book, "environment", ("run_id", "field", "value"), _flat_rows(runs, "environment"), width=36)
    table(book, "limits", LIMITS_HEADER, chain.from_iterable(map(_limit_rows, runs)), width=16)
    table(book, "warnings", ("run_id", "cell", "kind", "message"), chain.from_iterable(map(_warnings, runs)), width=24)
    table(book, "details", ("run_id", "field", "value"), _flat_rows(runs, None), width=36)
    chart_sheets(book, runs, excel_series.places_of(runs, series, MAX_ROWS - 1))
    excel_series.save(book, path, series, runs, MAX_ROWS - 1)


def _points(runs: Sequence[Run]) -> int:
    """Intervals of all series. Raises UsageError for more than a workbook should hold."""
    points = sum(len(run.series(cell)) for run in runs for cell in run.cells)
    if points > MAX_POINTS:
        raise UsageError(
            f"{points:,} points of the series are more than a workbook should hold ({MAX_POINTS:,}); write the cells "
            "as .parquet and the series as .series.parquet, or name fewer runs"
        )
    return points


def title_of(book: Any, text: str) -> str:
    """A name for a new sheet: at most 31 characters, none that Excel refuses, of no other sheet."""
    clean = without_control(text).translate(_BAD_IN_TITLES).strip().strip("'") or "sheet"
    taken = {sheet.title.lower() for sheet in book.worksheets} | {"history"}
    found, number = clean[:31], 2
    while found.lower() in taken:
        end = f" ({number})"
        found, number = clean[: 31 - len(end)] + end, number + 1
    return found


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of every leaf; a list of objects by number, any other list as one leaf with commas."""
    for name, item in value.items():
        several = isinstance(item, list | tuple)
        inner = (
            {str(at): one for at, one in enumerate(item)}
            if several and any(isinstance(one, Mapping) for one in item)
            else item
        )
        if isinstance(inner, Mapping):
            yield from flat(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, item)) if several else item


def _flat_rows(runs: Sequence[Run], part: str | None) -> Iterator[tuple[Any, ...]]:
    """One part of the documents, or all that has no sheet of its own."""
    for run in runs:
        whole: Mapping[str, Any] = run.document
        told = whole.get(part) or {} if part else {k: v for k, v in whole.items() if k not in _TOLD_ELSEWHERE}
        yield from ((run.run_id, name, value) for name, value in flat(told))


def _run_row(number: int, run: Run) -> tuple[Any, ...]:
    document, target = run.document, run.document["target"]
    start, end = document.get("start_wall_ns"), document.get("end_wall_ns")
    source = document.get("source") or {}
    origin = ", ".join(str(source[name]) for name in ("tool", "title", "place", "file") if source.get(name))
    return (
        number, run.run_id, document.get("label"), document["command"], document["status"], target.get("url"),
        target.get("protocol"), target.get("dialect"), target.get("signing"), target.get("encryption"), _utc(start),
        (end - start) / 1e9 if start and end else None, len(run.cells), document.get("seed"), document.get("note"),
        origin or None, document.get("naslab_version"), " ".join(document.get("argv") or []) or None,
    )  # fmt: skip


def _cell_row(run: Run, cell: Mapping[str, Any]) -> list[Any]:
    row = cell_row(run.document, cell)
    row[_START_AT] = _utc(row[_START_AT])  # nanoseconds since 1970 are more digits than Excel keeps
    return row


_START_AT = [column.name for column in CELL_COLUMNS].index("start_wall_ns")


def _limit_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for limit in (run.document.get("verdict") or {}).get("limits") or []:
        applies = dict(limit.get("applies_to") or {})
        op, size = applies.pop("op", None), applies.pop("size", None)
        low, high = limit.get("ci95") or (None, None)
        rest = ", ".join(f"{name} {value}" for name, value in applies.items()) or None
        yield (
            run.run_id, limit.get("kind"), op, size, rest, limit.get("confidence"), limit.get("value"),
            limit.get("unit"), low, high, limit.get("evidence"),
        )  # fmt: skip


def _warnings(run: Run) -> Iterator[tuple[Any, ...]]:
    for found in chain(run.document["warnings"], *(cell.get("warnings") or [] for cell in run.cells)):
        yield run.run_id, found.get("cell"), found["kind"], found["message"]


def _utc(wall_ns: int | None) -> datetime | None:
    """To the millisecond, as Excel keeps times; None where it is not told."""
    if not wall_ns:
        return None
    return datetime.fromtimestamp(wall_ns // 10**6 / 1e3, tz=UTC).replace(tzinfo=None)


def table(
    book: Any, title: str, header: Sequence[str], rows: Iterable[Iterable[Any]], width: int = 14, first: int = 22
) -> list[str]:
    """A tidy table with a bold, fixed first row and filters; it goes on in `title 2` where a sheet is full.

    width, first: of columns in characters, and of the first. Returns the titles of the sheets.
    """
    source = iter(rows)
    titles: list[str] = []
    while True:
        title_now = title_of(book, title if not titles else f"{title} {len(titles) + 1}")
        sheet = book.create_sheet(title_now)
        fit_to_width(sheet)
        titles.append(title_now)
        sheet.column_dimensions["A"].width = first
        for at in range(2, len(header) + 1):
            sheet.column_dimensions[get_column_letter(at)].width = max(width, len(header[at - 1]) + 2)
        sheet.freeze_panes = "A2"
        sheet.append([styled(sheet, name, bold=True) for name in header])
        count = 1
        for row in islice(source, MAX_ROWS - 1):
            sheet.append([value_of(sheet, value) for value in row])
            count += 1
        sheet.auto_filter.ref = f"A1:{get_column_letter(len(header))}{count}"
        following = next(source, None)
        if following is None:
            return titles
        source = chain([following], source)


def fit_to_width(sheet: Any) -> None:
    """Printed on one page's width, lying."""
    sheet.page_setup.orientation = "landscape"
    sheet.page_setup.fitToHeight = 0
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)


def value_of(sheet: Any, value: Any) -> Any:
    """What the sheet holds: text as text, no NaN, integers Excel would round (above 2^53) as text, dates as dates."""
    if isinstance(value, str):
        clean = without_control(value)[:MAX_TEXT]
        return _text(sheet, clean) if clean.startswith(_FORMULA) else clean
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        cell = WriteOnlyCell(sheet, value=value)
        cell.number_format = _DATE
        return cell
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        return str(value)
    return value


def _text(sheet: Any, text: str) -> Any:
    """Text that looks like a formula: stored as text, and marked so that it stays text when it is edited."""
    cell = WriteOnlyCell(sheet, value="")
    cell.value, cell.data_type = text, "s"
    cell.quotePrefix = True
    return cell


def styled(sheet: Any, value: Any, bold: bool = False, italic: bool = False, right: bool = False) -> Any:
    """A cell in bold or italic, or set to the right."""
    shown = value_of(sheet, value)
    cell = shown if isinstance(shown, Cell) else WriteOnlyCell(sheet, value=shown)
    cell.font = Font(name="Calibri", size=11, bold=bold, italic=italic)
    if right:
        cell.alignment = Alignment(horizontal="right")
    return cell


def _series_sheets(book: Any, points: int) -> list[str]:
    """Empty sheets for so many intervals; at least one. Returns their titles."""
    titles: list[str] = []
    for at in range(max(1, -(-points // (MAX_ROWS - 1)))):
        rows = min(points - at * (MAX_ROWS - 1), MAX_ROWS - 1)
        titles += table(book, f"series {at + 1}" if at else "series", series_table.HEADER, ())
        book[titles[-1]].auto_filter.ref = f"A1:{get_column_letter(len(series_table.HEADER))}{rows + 1}"
    return titles
