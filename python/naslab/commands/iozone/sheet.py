"""-b FILE: the report as a spreadsheet.

.xls: BIFF8 through xlwt (the extra `xls`; checks.py asks for it), one sheet laid out as IOzone's own file: command
line, blank, legend, then each table with its label, the record sizes from column 1 and the file size in column 0.
.xlsx: through openpyxl, one sheet and one native 3D surface chart a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from naslab.commands.iozone.tables import Results, Table, unit_name
from naslab.commands.iozone.throughput import report_heads, report_rows
from naslab.text.outputs import IOZONE_SHEET, written

LEGEND = "The top row is records sizes, the left column is file sizes"
XLS_CELL_CHARACTERS = 32_767

Cells = list[Any]
"""One spreadsheet row; None is an empty cell."""


def write_sheet(results: Results, path: Path, command: str, force: bool = False) -> None:
    """Writes the spreadsheet in the form its name asks for, whole or not at all. force: over any file.

    Raises UsageError for a file there that is no such spreadsheet, StoreError when it cannot be written.
    """
    save = _save_xlsx if path.suffix.lower() == ".xlsx" else _save_xls
    with written(path, "-b", IOZONE_SHEET, force) as temporary:
        save(results, temporary, command)


def sheet_rows(results: Results, command: str) -> Iterator[Cells]:
    """The rows of IOzone's single sheet."""
    yield [command[: XLS_CELL_CHARACTERS - 1] + " "]
    if results.plan.counts:
        yield from _throughput_rows(results)
        return
    yield [" "]
    yield [LEGEND]
    cpu_begun = False
    for table in results.tables():
        if table.cpu and not cpu_begun:
            yield []
            cpu_begun = True
        yield [table.sheet_name]
        yield [None, *table.records]
        for file_kib, values in table.rows:
            yield [file_kib, *values]


def _throughput_rows(results: Results) -> Iterator[Cells]:
    for cpu in (False, True) if results.plan.args.cpu else (False,):
        for line in report_heads(results, cpu):
            yield [line]
        for name, values in report_rows(results, cpu):
            yield [f"{name:>15} ", None, *values]


def _save_xls(results: Results, path: Path, command: str) -> None:
    import xlwt

    book = xlwt.Workbook(encoding="utf-8")
    sheet = book.add_sheet("Sheet 1")
    for row, cells in enumerate(sheet_rows(results, command)):
        for column, content in enumerate(cells):
            if content is not None:
                sheet.write(row, column, content)
    book.save(str(path))


def _save_xlsx(results: Results, path: Path, command: str) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.worksheets[0])
    if results.plan.counts:
        _throughput_sheets(book, results, command)
    else:
        for table in results.tables():
            _surface_sheet(book, table, command, unit_name(results.plan.args))
    if not book.worksheets:
        book.create_sheet("empty").append([_plain(command)])
    book.save(path)


def _plain(text: str) -> str:
    """The text without control characters, which a workbook cannot hold."""
    return "".join(character if character >= " " else " " for character in text)


def _surface_sheet(book: Any, table: Table, command: str, unit: str) -> None:
    """A sheet with the table and its surface: record sizes along one axis, file sizes along the other."""
    name = f"{table.sheet_name.split(' CPU')[0].removesuffix(' Report')}{' CPU' if table.cpu else ''}"
    sheet = book.create_sheet(name)
    sheet.append([_plain(command)])
    sheet.append([LEGEND])
    sheet.append([table.sheet_name])
    sheet.append([None, *table.records])
    for file_kib, values in table.rows:
        sheet.append([file_kib, *values])
    if table.rows:
        sheet.add_chart(_surface(sheet, table, unit), f"A{len(table.rows) + 7}")


def _surface(sheet: Any, table: Table, unit: str) -> Any:
    from openpyxl.chart import Reference, SurfaceChart3D

    chart = SurfaceChart3D()
    chart.title = table.sheet_name
    chart.height, chart.width = 14, 24
    last_row, last_column = 4 + len(table.rows), 1 + len(table.records)
    chart.add_data(Reference(sheet, min_col=2, max_col=last_column, min_row=4, max_row=last_row), titles_from_data=True)
    chart.set_categories(Reference(sheet, min_col=1, min_row=5, max_row=last_row))
    chart.x_axis.title, chart.z_axis.title = "File size [KiB]", "Record size [KiB]"
    chart.y_axis.title = "CPU [%]" if table.cpu else unit
    for axis in (chart.x_axis, chart.y_axis, chart.z_axis):
        axis.delete = False
    return chart


def _throughput_sheets(book: Any, results: Results, command: str) -> None:
    """One sheet a report with a column chart: there is no surface over one axis."""
    from openpyxl.chart import BarChart, Reference

    counts = [count for count in results.plan.counts if any(key[0] == count for key in results.values)]
    for cpu in (False, True) if results.plan.args.cpu else (False,):
        sheet = book.create_sheet("CPU" if cpu else "Throughput")
        sheet.append([_plain(command)])
        for line in report_heads(results, cpu):
            sheet.append([line])
        sheet.append([None, *counts])
        rows = list(report_rows(results, cpu))
        for name, values in rows:
            sheet.append([name, *values])
        if counts:
            chart = BarChart()
            last = 5 + len(rows)
            data = Reference(sheet, min_col=2, max_col=1 + len(counts), min_row=5, max_row=last)
            chart.add_data(data, titles_from_data=True)
            chart.set_categories(Reference(sheet, min_col=1, min_row=6, max_row=last))
            chart.title = "CPU utilization" if cpu else "Throughput"
            chart.x_axis.delete = chart.y_axis.delete = False
            sheet.add_chart(chart, f"A{last + 3}")
