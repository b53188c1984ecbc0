"""NASPT's NASPerf-APP.csv: after two lines of heading a line a test, its name and its throughput in MB/s.

Source: how NasTestScript (spikerwork, AutoIt) reads the file: lines 3 to 14, fields by comma, the second with a decimal
point. What stands in the heading and behind the second field is in no public file. Whether Intel's MB is 10^6 bytes is
not published either; it is read as 10^6, as the reviews do, and `source.unknown` says so.
"""

from __future__ import annotations

import csv

from naslab.exchange.importers.base import MB, Cell, Draft, Input, checked, number
from naslab.results.foreign import foreign_cell

TESTS = {
    "HDVideo_1Play": "read", "HDVideo_2Play": "read", "HDVideo_4Play": "read", "HDVideo_1Record": "write",
    "HDVideo_1Play_1Record": "mixed", "ContentCreation": "mixed", "OfficeProductivity": "mixed",
    "FileCopyToNAS": "write", "FileCopyFromNAS": "read", "DirectoryCopyToNAS": "write",
    "DirectoryCopyFromNAS": "read", "PhotoAlbum": "read",
}  # fmt: skip
"""The twelve tests, and what they do."""
_BY_NAME = {name.lower(): name for name in TESTS}
MAX_LINES = 10_000


def parse(source: Input) -> Draft:
    """The run in NASPT's file: a cell a test, a block for each time a test comes again.

    Raises ForeignFileError where no line is of a test.
    """
    draft = Draft("naspt", "naspt-csv", [], unknown=("whether MB is 10^6 bytes", "requests"))
    if "by naslab" in source.lines[0]:  # of `naslab apps --csv`
        draft.tool_version, draft.unknown = "naslab apps", ("requests",)
    seen: dict[str, int] = {}
    for row in rows(source.lines[:MAX_LINES]):
        name = _BY_NAME.get(row[0].strip().lower()) if len(row) > 1 else None
        value = number(row[1]) if name else None
        if name and value:
            seen[name] = seen.get(name, -1) + 1
            draft.cells.append(_cell(len(draft.cells), name, value, seen[name]))
    missing = [name for name in TESTS if name not in seen]
    if seen and missing:
        draft.warnings.append(("left_out", f"has no result of {', '.join(missing)}"))
    return checked(draft, source)


def rows(lines: list[str]) -> list[list[str]]:
    """Fields of the lines; a line that is no CSV counts as empty."""
    found = []
    for line in lines:
        try:
            # A semicolon parts fields where the comma is the decimal sign.
            found.append(next(csv.reader([line], delimiter=";" if ";" in line else ","), []))
        except csv.Error:
            found.append([])
    return [row for row in found if row]


def _cell(at: int, name: str, value: float, block: int) -> Cell:
    return foreign_cell(at, TESTS[name], value * MB, workload=name, block=block)
