"""Runs as an Excel workbook: tidy sheets joined by ids, and sheets like IOzone's with charts Excel draws itself.

openpyxl makes the charts and the first rows, `excel_rows` the rows of the tidy sheets. Excel's own limits are kept:
rows of a sheet, characters of a cell, names of sheets, lines of a chart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.utils import get_column_letter

from naslab.errors import UsageError
from naslab.exchange import excel_rows, series_table
from naslab.exchange.excel_answer import answer_sheet, has_answer
from naslab.exchange.excel_cells import DATE, fit_to_width, styled, text_cell, title_of
from naslab.exchange.excel_charts import chart_sheets
from naslab.results.columns import CELL_COLUMNS, cell_row

if TYPE_CHECKING:
    from naslab.results.run import Run

MAX_ROWS = 1_048_576
"""Rows of an Excel sheet; a longer table goes on in another sheet."""
MAX_POINTS = 3_000_000
"""Intervals of the series in a workbook: about 200 MB, more than spreadsheets open with ease."""
RUNS_HEADER = (
    "number", "run_id", "label", "command", "status", "target", "protocol", "dialect", "signing", "encryption",
    "start_utc", "took_s", "cells", "seed", "note", "source", "naslab_version", "argv",
)  # fmt: skip
LIMITS_HEADER = (
    "run_id", "kind", "op", "size", "applies_to", "confidence", "value", "unit", "ci95_low", "ci95_high", "evidence",
)  # fmt: skip
_TOLD_ELSEWHERE = ("cells", "environment", "warnings", "verdict", "argv", "blobs")
_FIRST_WIDTH = 22


def write_workbook(runs: Sequence[Run], path: Path) -> None:
    """An `answer` of each run that looked for a limit; the tidy sheets runs, cells, series, environment, limits,
    warnings, details; then those with charts.

    Raises UsageError naming Parquet for more points than a workbook should hold; StoreError, OSError.
    """
    stretches = excel_rows.stretches_of(runs)
    points = _checked(sum(each.intervals for each in stretches))
    book = Workbook(write_only=True)
    book.properties.creator = "naslab"
    book.properties.created = book.properties.modified = _utc(runs[0].document.get("start_wall_ns")) or datetime(
        1980, 1, 1
    )
    tables = Tables(book)
    answering = [(number, run) for number, run in enumerate(runs, 1) if has_answer(run)]
    for number, run in answering:
        answer_sheet(book, run, "answer" if len(runs) == 1 else f"answer {number}")
    tables.add("runs", RUNS_HEADER, (_run_row(at, run) for at, run in enumerate(runs, 1)), width=16)
    header = ["start_utc" if column.name == "start_wall_ns" else column.name for column in CELL_COLUMNS]
    tables.add("cells", header, (_cell_row(run, cell) for run in runs for cell in run.cells))
    series = excel_rows.series_rows(stretches, MAX_ROWS - 1)
    titles = tables.add_xml("series", series_table.HEADER, points, lambda part: islice(series, len(part)))
    tables.add("environment", ("run_id", "field", "value"), _flat_rows(runs, "environment"), width=36)
    tables.add("limits", LIMITS_HEADER, chain.from_iterable(map(_limit_rows, runs)), width=16)
    tables.add("warnings", ("run_id", "cell", "kind", "message"), chain.from_iterable(map(_warnings, runs)), width=24)
    tables.add("details", ("run_id", "field", "value"), _flat_rows(runs, None), width=36)
    chart_sheets(book, runs, excel_rows.places_of(stretches, titles, MAX_ROWS - 1))
    excel_rows.save(book, path, tables.pending)


def _checked(points: int) -> int:
    """The number of intervals. Raises UsageError for more than a workbook should hold."""
    if points > MAX_POINTS:
        raise UsageError(
            f"{points:,} points of the series are too many for a workbook ({MAX_POINTS:,}); write the cells "
            "as .parquet and the series as .series.parquet, or name fewer runs"
        )
    return points


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


@dataclass
class Tables:
    """The tidy sheets of a workbook: their first rows are in it, and the others are written when it is saved."""

    book: Any
    pending: dict[str, Iterator[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sheet = self.book.create_sheet("styles")
        date = WriteOnlyCell(sheet, value=datetime(2000, 1, 1))
        date.number_format = DATE
        self.rows = excel_rows.Rows(date.style_id, text_cell(sheet, "=").style_id)
        self.book.remove(sheet)

    def add(self, title: str, header: Sequence[str], rows: Iterable[Iterable[Any]], width: int = 14) -> None:
        """A table of these rows; width: of its columns, in characters."""
        whole = list(rows)
        self.add_xml(title, header, len(whole), lambda part: self.rows.of(islice(whole, part.start, part.stop)), width)

    def add_xml(
        self, title: str, header: Sequence[str], count: int, xml: Callable[[range], Iterator[str]], width: int = 14
    ) -> list[str]:
        """A table of `count` rows, which goes on in `title 2` where a sheet is full.

        xml: makes the rows of a part of it. Returns the titles of the sheets.
        """
        titles: list[str] = []
        for first in range(0, max(count, 1), MAX_ROWS - 1):
            part = range(first, min(first + MAX_ROWS - 1, count))
            titles.append(_sheet_of(self.book, f"{title} {len(titles) + 1}" if titles else title, header, part, width))
            self.pending[titles[-1]] = xml(part)
        return titles


def _sheet_of(book: Any, title: str, header: Sequence[str], part: range, width: int) -> str:
    """A sheet with a bold, fixed first row and filters over so many rows. Returns its title."""
    sheet = book.create_sheet(title_of(book, title))
    fit_to_width(sheet)
    sheet.column_dimensions["A"].width = _FIRST_WIDTH
    for at in range(2, len(header) + 1):
        sheet.column_dimensions[get_column_letter(at)].width = max(width, len(header[at - 1]) + 2)
    sheet.freeze_panes = "A2"
    sheet.append([styled(sheet, name, bold=True) for name in header])
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(header))}{len(part) + 1}"
    return str(sheet.title)
