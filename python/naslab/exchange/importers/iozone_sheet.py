"""IOzone's -b file: BIFF2 as IOzone writes it, BIFF 3 to 8 of files saved again or written by naslab, and .xlsx.

BIFF2 is read here: four kinds of records, each of a bounded length. BIFF 3 to 8 are a file system in a file, which the
library xlrd reads, .xlsx a zip of XML, which openpyxl does. Facts of BIFF2: IOzone's files; [MS-XLS] and OpenOffice's
description of the formats.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from naslab.exchange.importers import workbook
from naslab.exchange.importers.base import KIB, MAX_CELLS, Cell, Draft, Input, checked, number, short
from naslab.exchange.importers.iozone_words import REPORTS, THROUGHPUT_ROWS, Told, cell_of

MAX_SHEET_BYTES = 64 << 20
BIFF2_START = b"\x09\x00"
OLE2_START = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NUMBER, _LABEL, _END = 0x03, 0x04, 0x0A
Sheet = Mapping[int, Sequence[Any]]
"""Rows by number; None: an empty cell."""


def parse(source: Input) -> Draft:
    """The run in a spreadsheet of IOzone. Raises ForeignFileError where nothing of it can be read."""
    if len(source.data) > MAX_SHEET_BYTES:
        raise source.broken(f"is above {MAX_SHEET_BYTES} bytes; IOzone's spreadsheets are small")
    rows: Sheet
    if source.data.startswith(workbook.ZIP_START):
        form, rows = "iozone-xlsx", dict(enumerate(workbook.rows(source)))
    elif source.data.startswith(OLE2_START):
        form, rows = "iozone-biff8", _xlrd(source)
    else:
        form, rows = "iozone-biff2", _biff2(source)
    draft = Draft("iozone", form, [])
    first = rows.get(0, [None])
    if first and isinstance(first[0], str):
        draft.command_line = short(first[0])
    titles = [str(row[0]) for row in rows.values() if row and isinstance(row[0], str)]
    # Whole words: `-O` and `-N` change what the numbers are.
    words = (draft.command_line or "").split()
    unit = "ops/s" if "-O" in words else "us" if "-N" in words else "kB/s"
    if any(title.startswith("Throughput report") for title in titles):
        draft.cells = _throughput(rows, unit, _counts(words))
    else:
        draft.cells = _tables(rows, unit)
    return checked(draft, source)


def _biff2(source: Input) -> dict[int, list[Any]]:
    """Rows of a BIFF2 file: records of a type, a length and so many bytes."""
    data, at, rows = source.data, 0, dict[int, list[Any]]()
    cells = 0
    while at + 4 <= len(data) and cells < MAX_CELLS:
        kind, length = struct.unpack_from("<HH", data, at)
        body = data[at + 4 : at + 4 + length]
        at += 4 + length
        if kind == _END or len(body) < length:
            break
        value: Any = None
        if kind == _NUMBER and length == 15:
            value = struct.unpack_from("<d", body, 7)[0]
        elif kind == _LABEL and length >= 8:
            value = body[8 : 8 + body[7]].decode("cp1252", errors="replace")
        if value is not None:
            row, column = struct.unpack_from("<HH", body)
            _put(rows, row, column, value)
            cells += 1
    return dict(sorted(rows.items()))


def _put(rows: dict[int, list[Any]], row: int, column: int, value: Any) -> None:
    """Sets a cell; a column that no spreadsheet of this format has is left out."""
    if column < 256:
        line = rows.setdefault(row, [])
        line += [None] * (column + 1 - len(line))
        line[column] = value


def _xlrd(source: Input) -> dict[int, list[Any]]:
    """Rows of the first sheet of any other .xls."""
    try:
        import xlrd
    except ImportError:
        raise source.broken("is an .xls, which xlrd reads: pip install 'naslab[xls]', or save it as .xlsx") from None

    try:
        book = xlrd.open_workbook(file_contents=source.data, logfile=io.StringIO(), on_demand=True)
        sheet = book.sheet_by_index(0)
        count = min(sheet.nrows, MAX_CELLS)
        return {at: [value if value != "" else None for value in sheet.row_values(at)[:256]] for at in range(count)}
    except Exception as error:  # the library answers a damaged file with whatever its arithmetic runs into
        raise source.broken(f"is a damaged or encrypted .xls: {type(error).__name__}") from error


def _tables(rows: Sheet, unit: str) -> list[Cell]:
    """Cells of the tables: a label, record sizes from column 1, then rows with the file size in column 0."""
    cells: list[Cell] = []
    cpu: dict[tuple[str, int, int], float] = {}
    op, of_cpu, records = "", False, list[float | None]()
    for row in rows.values():
        first = row[0] if row else None
        if isinstance(first, str):
            name = first.strip().lower().removesuffix("(zero values should be ignored)").strip()
            of_cpu = "cpu utilization" in name
            name = name.removesuffix("report").strip().removesuffix("cpu utilization").strip()
            op, records = REPORTS.get(name, ""), []
        elif op and first is None and not records:
            records = [number(value) for value in row[1:]]
        elif op and records and (file_kib := number(first)):
            for record_kib, found in zip(records, row[1:], strict=False):
                value = number(found)
                if value and record_kib and len(cells) < MAX_CELLS:
                    place = op, round(file_kib) * KIB, round(record_kib) * KIB
                    if of_cpu:
                        cpu[place] = value / 100
                    else:
                        cells.append(cell_of(len(cells), *place, value, Told(unit, {})))
    for cell in cells:
        cell["cpu_fraction"] = cpu.get((cell["op"], cell["file_bytes"], cell["record_bytes"]))
    return cells


def _throughput(rows: Sheet, unit: str, counts: Sequence[int]) -> list[Cell]:
    """A cell a number: a row a pass, a column a number of processes. counts: these, as the command line has them; where
    it has not as many, nothing tells how many a column had, and columns stay apart as repeats. Files' sizes are not
    told."""
    cells: list[Cell] = []
    record: int | None = None
    for row in rows.values():
        first = row[0] if row else None
        if not isinstance(first, str):
            continue
        text = first.strip().lower()
        if text.startswith("record size ="):
            kib = number(text.removeprefix("record size =").replace("kbytes", ""))
            record = round(kib) * KIB if kib else None
        elif text.startswith("cpu utilization"):
            break
        elif op := THROUGHPUT_ROWS.get(text):
            values = [value for found in row[1:] if (value := number(found)) is not None]
            known = len(counts) == len(values)
            for at, value in enumerate(values):
                if value and len(cells) < MAX_CELLS:
                    flags = {"workers": counts[at] if known else None}
                    cell = cell_of(len(cells), op, None, record, value, Told(unit, flags))
                    cells.append({**cell, "block": 0 if known else at})
    return cells


def _counts(words: Sequence[str]) -> list[int]:
    """Numbers of processes that a command line asks for: every -t, or from -l to -u."""
    found: dict[str, list[int]] = {"-t": [], "-l": [], "-u": []}
    for name, value in pairwise(words):
        if name in found and value.isdigit() and 0 < int(value[:6]) <= 4096:
            found[name].append(int(value[:6]))
    if found["-l"] and found["-u"]:
        return list(range(found["-l"][0], found["-u"][0] + 1))
    return sorted(set(found["-t"]))
