"""Sheets of the workbook that hold charts: surfaces and lines of sweeps, runs side by side, workloads, rate over time.

The charts are Excel's own and follow the numbers of their sheet. A chart takes at most 255 lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openpyxl.chart import BarChart, LineChart, Reference, ScatterChart, Series, SurfaceChart3D
from openpyxl.chart._3d import View3D
from openpyxl.chart.data_source import AxDataSource, StrRef
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.pagebreak import Break

from naslab.exchange.excel_cells import fit_to_width, styled, title_of
from naslab.exchange.excel_rows import Place
from naslab.exchange.series_table import RATE_COLUMN, TIME_COLUMN
from naslab.results.cell_names import op_words, test_name
from naslab.results.foreign import is_foreign
from naslab.units import size_text

if TYPE_CHECKING:
    from naslab.results.run import Run

MAX_LINES = 255
"""Lines (data series) of an Excel chart."""
MAX_LINE_POINTS = 32_000
"""Points of a line that every version of Excel draws."""
MOST_CHARTS = 24
"""Cells whose rate over time is drawn; the numbers of the others are in the series sheet."""
LEAST_INTERVALS = 5
_ROWS_OF_A_CHART = 24
_ABOUT_MB = "MB/s (10^6 bytes per second)"


def chart_sheets(book: Any, runs: Sequence[Run], places: Sequence[Place]) -> None:
    """Adds all of them. With several runs the sheets of a sweep carry the run's number in sheet `runs`."""
    swept = [(number, run, op) for number, run in enumerate(runs, 1) for op in run.sweep_ops()]
    for number, run, op in swept:
        several = len(runs) > 1
        _sweep_sheet(book, run, op, f"{op} {number}" if several else op, f", {name_of(run)}" if several else "")
    for op in dict.fromkeys(op for _, _, op in swept):
        having = [run for run in runs if _by_size(run, op)]
        if len(having) > 1:
            _runs_sheet(book, having, op)
    _workloads_sheet(book, runs)
    _over_time_sheet(book, places)


def _by_size(run: Run, op: str) -> bool:
    """Whether the operation belongs beside a sweep's: applications and loads over time have sizes of their own."""
    return any(cell["op"] == op and not cell.get("workload") for cell in run.cells)


def new_sheet(book: Any, title: str) -> Any:
    """A sheet that prints on one page's width, charts whole."""
    sheet = book.create_sheet(title_of(book, title))
    fit_to_width(sheet)
    sheet.column_dimensions["A"].width = 24
    return sheet


def name_of(run: Run) -> str:
    """What the run is called in charts: its label, or its id."""
    return str(run.document.get("label") or run.run_id)


def _sweep_sheet(book: Any, run: Run, op: str, title: str, whose: str) -> None:
    """As IOzone's reports: a row a file size, a column a record size, MB/s; 3D surfaces and 2D lines.

    whose: the run, at the end of the charts' titles.
    """
    files, records, matrix = run.grid(op)
    if len(files) == 0:
        return
    predicted = run.grid(op, "predicted")[2]
    sheet = new_sheet(book, title)
    repeats = len({cell["block"] for cell in run.cells if cell["op"] == op and not cell.get("workload")})
    note = ", italic: predicted" if (predicted > 0).any() else ""
    sheet.append([styled(sheet, f"{op}, {_ABOUT_MB}, median of {repeats}{note}: {name_of(run)}", bold=True)])
    heads = [styled(sheet, size_text(size), bold=True, right=True) for size in records.tolist()]
    sheet.append([styled(sheet, "file size \\ record", bold=True), *heads])
    for file_bytes, values, marks in zip(files.tolist(), matrix / 1e6, predicted, strict=True):
        numbers = [
            styled(sheet, _rounded(value), italic=bool(mark > 0)) for value, mark in zip(values, marks, strict=True)
        ]
        sheet.append([styled(sheet, size_text(file_bytes), bold=True), *numbers])
    _sweep_charts(sheet, op, whose, len(files), len(records))


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(float(value), 3)


def _sweep_charts(sheet: Any, op: str, whose: str, files: int, records: int) -> None:
    """A surface and a line chart for each 255 record sizes."""
    below = files + 5
    for first in range(2, 2 + records, MAX_LINES):
        last = min(first + MAX_LINES - 1, 1 + records)
        data = Reference(sheet, min_col=first, max_col=last, min_row=2, max_row=2 + files)
        names = Reference(sheet, min_col=1, min_row=3, max_row=2 + files)
        if files > 1 and last > first:
            surface = SurfaceChart3D()
            describe(surface, f"{op_words(op)}: MB/s{whose}", data, names)
            surface.view3D = View3D(rotX=20, rotY=35, rAngAx=False, perspective=30)
            surface.z_axis.title = "record size"
            surface.z_axis.delete = False
            sheet.add_chart(surface, f"A{below}")
            below += _ROWS_OF_A_CHART
            sheet.row_breaks.append(Break(id=below - 1))  # the next one is printed whole
        lines = line_chart(f"{op_words(op)}: MB/s by file size, one line per record size{whose}", data, names)
        sheet.add_chart(lines, f"A{below}")
        below += _ROWS_OF_A_CHART


def line_chart(title: str, data: Any, names: Any, across: str = "file size") -> Any:
    """Lines with points, a line a column of `data`."""
    lines = LineChart()
    describe(lines, title, data, names, across)
    for series in lines.series:
        series.smooth = False
        series.marker.symbol = "circle"
        series.marker.size = 5
    return lines


def describe(chart: Any, title: str, data: Any, names: Any, across: str = "file size") -> None:
    """Gives a chart its numbers, names, axes and title; rates begin at 0."""
    chart.add_data(data, titles_from_data=True)
    for series in chart.series:
        series.cat = AxDataSource(strRef=StrRef(f=str(names)))  # set_categories would claim that they are numbers
    chart.title = title
    chart.x_axis.title, chart.y_axis.title = across, "MB/s"
    chart.x_axis.delete = chart.y_axis.delete = False
    chart.x_axis.tickLblPos = "low"
    chart.y_axis.scaling.min = 0  # else a difference of 5 % may look like one of half
    chart.display_blanks = "gap"
    chart.width, chart.height = 24, 11


def _runs_sheet(book: Any, runs: Sequence[Run], op: str) -> None:
    """Throughput against file size, a column a run, at the record size they share, else at each one's own."""
    grids = [run.grid(op) for run in runs]
    common = _shared_record([grid for grid in grids if len(grid[1])])
    columns: list[dict[int, float]] = []
    heads: list[str] = []
    for run, (files, records, matrix) in zip(runs, grids, strict=True):
        if len(records):
            record = common or int(records[-1])
            rates = matrix[:, records.tolist().index(record)] / 1e6
            columns.append(dict(zip(files.tolist(), rates.tolist(), strict=True)))
            heads.append(name_of(run) if common else f"{name_of(run)}, {size_text(record)} records")
        for low, high, rate in _means(run, op):
            sizes = {size for files, _, _ in grids for size in files.tolist() if low <= size <= high}
            columns.append(dict.fromkeys(sizes | {low, high}, rate / 1e6))
            heads.append(f"{name_of(run)}, mean of {size_text(low)} to {size_text(high)}")
    if len(columns) < 2:
        return
    records_of = f", {size_text(common)} records" if common else ""
    about = f"{op}, {_ABOUT_MB}{records_of}"
    rows = {size_text(size): [column.get(size) for column in columns] for size in sorted(set().union(*columns))}
    sheet = new_sheet(book, f"{op}, runs")
    _side_by_side(sheet, about, "file size", heads, rows)
    for first in range(2, 2 + len(columns), MAX_LINES):
        last = min(first + MAX_LINES - 1, 1 + len(columns))
        data = Reference(sheet, min_col=first, max_col=last, min_row=2, max_row=2 + len(rows))
        names = Reference(sheet, min_col=1, min_row=3, max_row=2 + len(rows))
        below = len(rows) + 5 + (first - 2) // MAX_LINES * _ROWS_OF_A_CHART
        lines = line_chart(f"{op_words(op)}: MB/s by file size{records_of}, one line per run", data, names)
        lines.display_blanks = "span"  # runs may have other file sizes between
        sheet.add_chart(lines, f"A{below}")


def _means(run: Run, op: str) -> list[tuple[int, int, float]]:
    """Smallest and largest file size and rate of what a source tells as a mean over file sizes."""
    cells = [cell for cell in run.cells if cell["op"] == op and cell.get("covers_file_bytes")]
    return [(*cell["covers_file_bytes"], cell["throughput_bytes_per_s"]) for cell in cells if not cell.get("workload")]


def _shared_record(grids: Sequence[tuple[Any, Any, Any]]) -> int | None:
    """The record size that most file sizes of all runs have, the largest of those; None: they share none."""
    import numpy as np

    shared = set.intersection(*(set(records.tolist()) for _, records, _ in grids)) if grids else set()

    def measured(record: int) -> tuple[int, int]:
        points = [np.isfinite(matrix[:, records.tolist().index(record)]).sum() for _, records, matrix in grids]
        return int(sum(points)), record

    return max(shared, key=measured) if shared else None


def _side_by_side(
    sheet: Any, about: str, corner: str, heads: Sequence[str], rows: Mapping[str, Sequence[float | None]]
) -> None:
    """A title, a row of names, then a row of numbers each."""
    for at, head in enumerate(heads, 2):
        sheet.column_dimensions[get_column_letter(at)].width = min(40, max(12, len(head) + 2))
    sheet.append([styled(sheet, about, bold=True)])
    sheet.append([styled(sheet, corner, bold=True), *(styled(sheet, head, bold=True, right=True) for head in heads)])
    for name, values in rows.items():
        sheet.append([styled(sheet, name, bold=True), *map(_rounded, values)])


def _workloads_sheet(book: Any, runs: Sequence[Run]) -> None:
    """Application workloads: a row each, a column a run, the median over repeats; bars."""
    found = [(name_of(run), medians) for run in runs if run.document.get("apps") or is_foreign(run.document)
             if (medians := _by_workload(run))]  # fmt: skip
    if not found:
        return
    names = list(dict.fromkeys(name for _, medians in found for name in medians))
    sheet = new_sheet(book, "workloads")
    rows = {name: [medians.get(name) for _, medians in found] for name in names}
    _side_by_side(sheet, f"application workloads, {_ABOUT_MB}, median", "workload", [name for name, _ in found], rows)
    last = min(1 + len(found), 1 + MAX_LINES)
    bars = BarChart()
    data = Reference(sheet, min_col=2, max_col=last, min_row=2, max_row=2 + len(names))
    describe(bars, "Application workloads: MB/s", data, Reference(sheet, min_col=1, min_row=3, max_row=2 + len(names)),
              "workload")  # fmt: skip
    bars.type = "bar"
    bars.x_axis.scaling.orientation = "maxMin"  # the first workload on top, as in the table
    bars.y_axis.crosses = "max"  # the numbers below all the same
    bars.height = max(11, 0.5 * len(names) * len(found))
    sheet.add_chart(bars, f"A{len(names) + 5}")


def _by_workload(run: Run) -> dict[str, float]:
    """MB/s of each application, the median over its cells."""
    from statistics import median

    rates: dict[str, list[float]] = {}
    whole: Mapping[str, Any] = run.document
    apps = {found["name"] for found in (whole.get("apps") or {}).get("results") or []}  # the rest only prepares
    for cell in run.cells:
        rate = cell.get("throughput_bytes_per_s")
        if (
            (cell.get("workload") in apps or (cell.get("workload") and not apps))
            and cell["status"] != "failed"
            and rate is not None
        ):
            rates.setdefault(str(cell["workload"]), []).append(rate / 1e6)
    return {name: median(values) for name, values in rates.items()}


def _over_time_sheet(book: Any, places: Sequence[Place]) -> None:
    """Rate over time of the loads (not of sweeps) with most intervals, a chart each, drawn from the series sheets."""
    swept = {run.run_id: run.sweep_ops() for run in dict.fromkeys(place.run for place in places)}
    loads = [place for place in places if place.cell.get("workload") or place.cell["op"] not in swept[place.run.run_id]]
    long = [place for place in loads if LEAST_INTERVALS <= place.last - place.first < MAX_LINE_POINTS]
    if not long:
        return
    most = sorted(long, key=lambda place: place.first - place.last)[:MOST_CHARTS]
    sheet = new_sheet(book, "over time")
    about = f"{len(most)} of {len(loads)} cells, those with the most intervals; their numbers are in the series sheets"
    sheet.append([styled(sheet, f"Rate over time, MB/s (10^6 bytes per second): {about}", bold=True)])
    for at, place in enumerate(sorted(most, key=long.index)):
        sheet.add_chart(_over_time(book, place), f"A{3 + at * 16}")


def _over_time(book: Any, place: Place) -> Any:
    series_sheet = book[place.sheet]
    rows = {"min_row": place.first, "max_row": place.last}
    rates = Reference(series_sheet, min_col=RATE_COLUMN, **rows)
    line = Series(rates, Reference(series_sheet, min_col=TIME_COLUMN, **rows))
    line.marker.symbol = "none"
    line.smooth = False
    line.graphicalProperties.line.width = 15_000  # EMU, a bit more than a point
    chart = ScatterChart()
    chart.style = 13
    chart.scatterStyle = "lineMarker"
    chart.series.append(line)
    cell = place.cell
    sizes = [size_text(cell[name]) for name in ("file_bytes", "record_bytes") if cell.get(name)]
    chart.title = " ".join([test_name(cell), *sizes, f"(cell {cell['id']})"])
    chart.x_axis.title, chart.y_axis.title = "seconds", "MB/s"
    chart.y_axis.scaling.min = 0
    chart.y_axis.number_format = "#,##0.0,,"  # two commas: millions
    chart.x_axis.delete = chart.y_axis.delete = False
    chart.y_axis.scaling.min = 0
    chart.legend = None
    chart.width, chart.height = 24, 7.5
    return chart
