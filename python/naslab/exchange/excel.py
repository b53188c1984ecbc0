"""A run as an Excel workbook: tidy sheets, and for sweeps one sheet an operation with charts Excel draws itself.

Written row by row (openpyxl's write-only mode), so that a million intervals fit in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.chart import LineChart, Reference, SurfaceChart3D
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.properties import PageSetupProperties

from naslab.exchange.files import safe_text
from naslab.results.columns import CELL_COLUMNS, cell_row
from naslab.results.run import SERIES_COLUMNS
from naslab.units import size_text

if TYPE_CHECKING:
    from naslab.results.run import Run

MAX_ROWS = 1_048_576
"""Rows of an Excel sheet; a longer series goes on in another sheet."""
MAX_EXACT_INTEGER = 1 << 53
SERIES_HEADER = ("cell", "op", "file_bytes", "record_bytes", "block", "t_s", *SERIES_COLUMNS)


def write_workbook(run: Run, path: Path) -> None:
    """Sheets run, environment, cells, series, then one an operation of a sweep. Raises StoreError, OSError."""
    book = Workbook(write_only=True)
    created = datetime.fromtimestamp(run.document.get("start_wall_ns", 0) // 10**9, tz=UTC).replace(tzinfo=None)
    book.properties.creator = "naslab"
    book.properties.created = book.properties.modified = created
    _sheet(book, "run", ("field", "value"), _run_rows(run), (24, 60))
    _sheet(book, "environment", ("field", "value"), flat(run.document.get("environment", {})), (36, 60))
    header = [column.name for column in CELL_COLUMNS]
    _sheet(book, "cells", header, (cell_row(run.document, cell) for cell in run.cells), (14,) * len(header))
    _series_sheets(book, run)
    for op in run.sweep_ops():
        _sweep_sheet(book, run, op)
    book.save(path)


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of every leaf; a list is one leaf, its items joined by commas."""
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from flat(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, item)) if isinstance(item, list | tuple) else item


def _run_rows(run: Run) -> Iterator[tuple[str, Any]]:
    left_out = ("cells", "environment", "warnings", "verdict", "argv")
    yield from flat({name: value for name, value in run.document.items() if name not in left_out})
    yield "argv", " ".join(run.document.get("argv") or [])
    for found in run.document["warnings"]:
        yield f"warning: {found['kind']}", found["message"]
    for limit in (run.document.get("verdict") or {}).get("limits", []):
        yield f"limit: {limit.get('kind')}", limit.get("evidence")


def _value(value: Any) -> Any:
    """What the sheet holds: guarded text, no NaN, integers Excel would round (above 2^53) as text."""
    if isinstance(value, str):
        return safe_text(value)[:32_767]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        return str(value)
    return value


def _sheet(book: Any, title: str, header: Iterable[str], rows: Iterable[Iterable[Any]], widths: Iterable[int]) -> Any:
    sheet = book.create_sheet(title)
    for at, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(at)].width = width
    sheet.freeze_panes = "A2"
    sheet.append([_styled(sheet, name, bold=True) for name in header])
    for row in rows:
        sheet.append([_value(value) for value in row])
    return sheet


def _styled(sheet: Any, value: Any, bold: bool = False, italic: bool = False) -> Any:
    cell = WriteOnlyCell(sheet, value=value)
    cell.font = Font(bold=bold, italic=italic)
    return cell


def _series_sheets(book: Any, run: Run) -> None:
    rows = _series_rows(run)
    widths = (12,) * len(SERIES_HEADER)
    _sheet(book, "series", SERIES_HEADER, islice(rows, MAX_ROWS - 1), widths)
    number = 2
    while (first := next(rows, None)) is not None:
        part = chain([first], islice(rows, MAX_ROWS - 2))
        _sheet(book, f"series {number}", SERIES_HEADER, part, widths)
        number += 1


def _series_rows(run: Run) -> Iterator[tuple[Any, ...]]:
    for cell in run.cells:
        fixed = (cell["id"], cell["op"], cell["file_bytes"], cell["record_bytes"], cell["block"])
        for row in run.series(cell).tolist():
            yield (*fixed, *row)


def _sweep_sheet(book: Any, run: Run, op: str) -> None:
    """As IOzone's reports: a row a file size, a column a record size, MB/s; a 3D surface and 2D lines."""
    files, records, matrix = run.grid(op)
    if len(files) == 0:
        return
    predicted = run.grid(op, "predicted")[2]
    sheet = book.create_sheet(op[:31])
    sheet.page_setup.orientation = "landscape"  # printed on one page's width, charts whole
    sheet.page_setup.fitToHeight = 0
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
    sheet.column_dimensions["A"].width = 24
    repeats = len({cell["block"] for cell in run.cells if cell["op"] == op})
    note = ", italic: predicted" if (predicted > 0).any() else ""
    title = f"{op}, MB/s (10^6 bytes per second), median of {repeats}{note}"
    sheet.append([_styled(sheet, title, bold=True)])
    sheet.append(
        [_styled(sheet, text, bold=True) for text in ("file size \\ record", *map(size_text, records.tolist()))]
    )
    for file_bytes, values, marks in zip(files.tolist(), matrix / 1e6, predicted, strict=True):
        numbers = [
            _styled(sheet, None if math.isnan(value) else round(float(value), 3), italic=bool(mark > 0))
            for value, mark in zip(values, marks, strict=True)
        ]
        sheet.append([_styled(sheet, size_text(file_bytes), bold=True), *numbers])
    _charts(sheet, op, len(files), len(records))


def _charts(sheet: Any, op: str, files: int, records: int) -> None:
    data = Reference(sheet, min_col=2, max_col=1 + records, min_row=2, max_row=2 + files)
    names = Reference(sheet, min_col=1, min_row=3, max_row=2 + files)
    below = files + 5
    if files > 1 and records > 1:
        surface = SurfaceChart3D()
        _describe(surface, f"{op}: MB/s", data, names)
        surface.z_axis.title = "record size"
        surface.z_axis.delete = False
        sheet.add_chart(surface, f"A{below}")
        below += 22
    lines = LineChart()
    _describe(lines, f"{op}: MB/s by file size, one line a record size", data, names)
    for series in lines.series:
        series.smooth = False
        series.marker.symbol = "circle"
    sheet.add_chart(lines, f"A{below}")


def _describe(chart: Any, title: str, data: Any, names: Any) -> None:
    chart.add_data(data, titles_from_data=True)
    chart.set_categories(names)
    chart.title = title
    chart.x_axis.title, chart.y_axis.title = "file size", "MB/s"
    chart.x_axis.delete = chart.y_axis.delete = False
    chart.width, chart.height = 24, 11
