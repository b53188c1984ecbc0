"""The interval series in a workbook: millions of rows, written as XML text at a tenth of openpyxl's time.

The workbook is made with the sheets' first rows only; `save` copies it and puts the rows in on the way.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from naslab.exchange.files import without_control
from naslab.exchange.series_table import rows

if TYPE_CHECKING:
    from naslab.results.run import Run

_END = b"</sheetData>"
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class Place:
    """Where the series of a cell is: rows `first` to `last` of a sheet."""

    run: Run
    cell: Mapping[str, Any]
    sheet: str
    first: int
    last: int


def places_of(runs: Sequence[Run], titles: Sequence[str], room: int) -> list[Place]:
    """Where each series lies, with `room` rows in a sheet below its header; those that lie in two are left out."""
    places, at = [], 0
    for run in runs:
        for cell in run.cells:
            length = len(run.series(cell))
            if length and at // room == (at + length - 1) // room:
                first = at % room + 2
                places.append(Place(run, cell, titles[at // room], first, first + length - 1))
            at += length
    return places


def save(book: Any, path: Path, titles: Sequence[str], runs: Sequence[Run], room: int) -> None:
    """Saves the workbook with the series in the sheets `titles`, `room` rows in each. Raises OSError, StoreError."""
    sheets = {f"xl/worksheets/sheet{at}.xml" for at, name in enumerate(book.sheetnames, 1) if name in titles}
    source = rows(runs)
    with tempfile.TemporaryFile() as first:
        book.save(first)
        with zipfile.ZipFile(first) as made, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as whole:
            for member in made.infolist():
                data = made.read(member)
                if member.filename not in sheets:
                    whole.writestr(member.filename, data)
                    continue
                head, end, tail = data.partition(_END)
                with whole.open(member.filename, "w") as file:
                    file.write(head)
                    _write(file, islice(source, room))
                    file.write(end + tail)


def _write(file: IO[bytes], some: Iterator[tuple[Any, ...]]) -> None:
    number = 2
    while part := list(islice(some, _ROWS_AT_ONCE)):
        file.write("".join(_xml(number + at, row) for at, row in enumerate(part)).encode())
        number += len(part)


def _xml(number: int, row: tuple[Any, ...]) -> str:
    run_id, *values = row
    text = f'<c t="inlineStr"><is><t>{escape(without_control(run_id))}</t></is></c>'
    return f'<row r="{number}">{text}{"".join("<c/>" if v is None else f"<c><v>{v!r}</v></c>" for v in values)}</row>'
