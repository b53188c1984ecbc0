"""Sheets of an .xlsx: a zip of XML, whose parts are bounded before any of them is unpacked."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from html import unescape
from typing import Any

from naslab.exchange.importers.base import MAX_CELLS, Input

ZIP_START = b"PK\x03\x04"
MAX_PARTS = 10_000
MAX_SHEET_BYTES = 64 << 20
"""Of one sheet, unpacked: some 30,000 cells of naslab, with 50 columns."""
MAX_OTHER_BYTES = 64 << 20
"""Of all parts that are no sheet: texts and styles, which are held in memory."""
MAX_COLUMNS = 256
_NAME = re.compile(r"<(?:\w+:)?sheet\b[^>]{0,500}?\bname=\"([^\"]{1,200})\"")


def sheet_names(source: Input) -> list[str]:
    """Names of the sheets, in order; empty for what is no workbook of that kind."""
    if not source.data.startswith(ZIP_START):
        return []
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as parts, parts.open("xl/workbook.xml") as part:
            text = part.read(1 << 20).decode("utf-8", errors="replace")
    except Exception:  # a damaged zip is answered with whatever its arithmetic runs into
        return []
    return [unescape(name) for name in _NAME.findall(text)]


def rows(source: Input, sheet: str | None = None) -> Iterator[list[Any]]:
    """Rows of a sheet, the first where none is named, from the top; None: an empty cell.

    Raises ForeignFileError for a workbook that is damaged or unpacks to more than any result.
    """
    import openpyxl

    _check(source)
    try:
        book = openpyxl.load_workbook(io.BytesIO(source.data), read_only=True, data_only=True)
        chosen = book[sheet] if sheet else book.worksheets[0]
        chosen.reset_dimensions()  # what it claims of its size may be anything
        for row in chosen.iter_rows(max_row=MAX_CELLS, max_col=MAX_COLUMNS, values_only=True):
            yield [None if value == "" else value for value in row]
    except Exception as error:  # as above
        raise source.broken(f"is a damaged or encrypted .xlsx: {type(error).__name__}") from error


def _check(source: Input) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as parts:
            found = parts.infolist()
            sheets = [part for part in found if part.filename.startswith("xl/worksheets/")]
            others = sum(part.file_size for part in found if part not in sheets)
            large = [part for part in sheets if part.file_size > MAX_SHEET_BYTES]
            typed = any(b"<!DOCTYPE" in parts.open(part).read(4096) for part in found if part.filename.endswith(".xml"))
    except Exception as error:  # as above
        raise source.broken(f"is a damaged .xlsx: {type(error).__name__}") from error
    if len(found) > MAX_PARTS or others > MAX_OTHER_BYTES or large:
        raise source.broken(f"unpacks to more than {MAX_OTHER_BYTES + MAX_SHEET_BYTES} bytes, more than any result")
    if typed:
        raise source.broken("has a document type, which no spreadsheet program creates")
