"""The rows of a workbook's tidy sheets, written as XML text: openpyxl needs six times as long for cells and series.

The workbook is made with the sheets' first rows only; `save` copies it and puts the rows in on the way.
"""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from openpyxl.utils.datetime import to_excel

from naslab.exchange.files import without_control
from naslab.exchange.series_table import rates_of

if TYPE_CHECKING:
    from naslab.results.run import Run

MAX_TEXT = 32_767
"""Characters of an Excel cell."""
MAX_EXACT_INTEGER = 1 << 53
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a text begins with that a spreadsheet would take for a formula when the text is edited."""
_END = b"</sheetData>"
_ROWS_AT_ONCE = 4_000
_MAX_KEPT_TEXTS = 10_000
_COMPRESSION = 3
"""zlib's level: level 1 saves a sixth of the time and makes the file a seventh larger."""


@dataclass
class Rows:
    """Makes the XML of rows. date, text: the styles of dates and of text that looks like a formula."""

    date: int
    text: int
    _texts: dict[str, str] = field(default_factory=dict)

    def of(self, rows: Iterable[Iterable[Any]]) -> Iterator[str]:
        """A row each, from the second of a sheet on."""
        for number, row in enumerate(rows, 2):
            yield f'<row r="{number}">{"".join([self.cell(value) for value in row])}</row>'

    def cell(self, value: Any) -> str:
        """Text as text, nothing for NaN, integers that Excel would round (above 2^53) as text, dates as dates."""
        if value is None or value == "":
            return "<c/>"
        if isinstance(value, str):
            return self._texts.get(value) or self._text(value)
        if isinstance(value, bool):
            return f'<c t="b"><v>{int(value)}</v></c>'
        if isinstance(value, datetime):
            return f'<c s="{self.date}"><v>{to_excel(value)}</v></c>'
        if isinstance(value, float):
            return f"<c><v>{repr(float(value)).removesuffix('.0')}</v></c>" if math.isfinite(value) else "<c/>"
        return self._text(str(value)) if abs(value) > MAX_EXACT_INTEGER else f"<c><v>{int(value)}</v></c>"

    def _text(self, value: str) -> str:
        clean = without_control(value)[:MAX_TEXT]
        if not clean:
            return "<c/>"
        style = f' s="{self.text}"' if clean.startswith(FORMULA) else ""
        space = ' xml:space="preserve"' if clean != clean.strip() or "\n" in clean else ""
        made = f'<c{style} t="inlineStr"><is><t{space}>{escape(clean)}</t></is></c>'
        if len(self._texts) < _MAX_KEPT_TEXTS:
            self._texts[value] = made
        return made


@dataclass(frozen=True)
class Place:
    """Where the series of a cell is: rows `first` to `last` of a sheet."""

    run: Run
    cell: Mapping[str, Any]
    sheet: str
    first: int
    last: int


@dataclass(frozen=True)
class Stretch:
    """The series of a cell, and how many intervals it has."""

    run: Run
    cell: Mapping[str, Any]
    intervals: int


def stretches_of(runs: Sequence[Run]) -> list[Stretch]:
    """The series of all cells that have one. Raises StoreError for damaged data."""
    every = [Stretch(run, cell, len(run.series(cell))) for run in runs for cell in run.cells]
    return [each for each in every if each.intervals]


def places_of(stretches: Sequence[Stretch], titles: Sequence[str], room: int) -> list[Place]:
    """Where each series lies, with `room` rows in a sheet below its header; those that lie in two are left out."""
    places, at = [], 0
    for each in stretches:
        if at // room == (at + each.intervals - 1) // room:
            first = at % room + 2
            places.append(Place(each.run, each.cell, titles[at // room], first, first + each.intervals - 1))
        at += each.intervals
    return places


def series_rows(stretches: Sequence[Stretch], room: int) -> Iterator[str]:
    """The XML of all intervals, `room` rows to a sheet: the columns of `series_table.HEADER`."""
    number = 0
    for each in stretches:
        series = each.run.series(each.cell)
        run_id = escape(without_control(each.run.run_id)).replace("%", "%%")
        start = f'<c t="inlineStr"><is><t>{run_id}</t></is></c><c><v>{each.cell["id"]}</v></c>'
        shape = f'<row r="%d">{start}{"<c><v>%r</v></c>" * (1 + len(series.dtype.names or ()))}</row>'
        rates = rates_of(each.cell, series)
        columns = [series[name].tolist() for name in series.dtype.names or ()]
        for at, (start_s, rate, *counts) in enumerate(zip(columns[0], rates, *columns[1:], strict=True), number):
            row = shape % (at % room + 2, start_s, rate, *counts)
            yield row if rate is not None else row.replace("<c><v>None</v></c>", "<c/>")
        number += len(series)


def save(book: Any, path: Path, pending: Mapping[str, Iterator[str]]) -> None:
    """Saves the workbook, with the rows of each sheet in `pending` below its header. Raises OSError, StoreError."""
    members = {f"xl/worksheets/sheet{at}.xml": name for at, name in enumerate(book.sheetnames, 1)}
    with tempfile.TemporaryFile() as first:
        book.save(first)
        with (
            zipfile.ZipFile(first) as made,
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as whole,
        ):
            for member in made.infolist():
                rows = pending.get(members.get(member.filename, ""))
                data = made.read(member)
                if rows is None:
                    whole.writestr(member.filename, data)
                    continue
                head, end, tail = data.partition(_END)
                with whole.open(member.filename, "w") as file:
                    file.write(head)
                    _write(file, rows)
                    file.write(end + tail)


def _write(file: IO[bytes], rows: Iterator[str]) -> None:
    while part := "".join(islice(rows, _ROWS_AT_ONCE)):
        file.write(part.encode())
