"""The table of cells that naslab exports: as .csv, and as the sheet `cells` of its .xlsx.

A cell keeps every column (`results/columns.py`); what has none is not told: time series, histograms, kinds, workers,
the client, and the run's own facts. The run therefore counts as imported, under a new id; its first one is its title.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from naslab.exchange.files import plain_text
from naslab.exchange.importers import workbook
from naslab.exchange.importers.base import MAX_CELLS, Cell, Draft, Input, checked, may_be, number, short, whole
from naslab.results.columns import CELL_COLUMNS
from naslab.results.foreign import foreign_cell

SHEET = "cells"
NEEDED = ("run_id", "cell", "op", "throughput_bytes_per_s")
MAX_RUNS = 1000
MAX_START_NS = 4 * 10**18
"""In the year 2096."""
_NAMED = {"start_utc": "start_wall_ns"}
"""Columns that the workbook calls otherwise."""
_BY_NAME = {column.name: column for column in CELL_COLUMNS}
_OF_RUN = ("run_id", "label", "command", "target", "protocol")
_HERE = ("cell", "op", "throughput_bytes_per_s", "throughput_mib_per_s", "start_wall_ns")
"""Columns that become something else than the field of their name."""
Row = Mapping[str, Any]


def parse(source: Input) -> list[Draft]:
    """The runs of the table, in order. Raises ForeignFileError where it holds none."""
    in_sheet = source.data.startswith(workbook.ZIP_START)
    form = "naslab-xlsx" if in_sheet else "naslab-csv"
    drafts: dict[str, Draft] = {}
    odd: list[int] = []
    for line, row in _rows(source, in_sheet):
        name = short(str(row.get("run_id") or ""))[:80]
        draft = drafts.get(name) or Draft("naslab", form, [], title=name or None, unknown=("kinds", "workers_detail"))
        cell = _cell(len(draft.cells), row)
        if cell is None:
            odd.append(line)
            continue
        if len(drafts) >= MAX_RUNS or sum(len(each.cells) for each in drafts.values()) >= MAX_CELLS:
            raise source.broken(f"holds more than {MAX_RUNS} runs or {MAX_CELLS} cells")
        drafts[name] = draft
        draft.label = draft.label or _text(row.get("label") or name)
        draft.target = draft.target or _text(row.get("target") or "") or ""
        draft.protocol = draft.protocol or short(str(row.get("protocol") or ""))[:40]
        draft.cells.append(cell)
    if odd:
        raise source.broken(f"is a table of naslab's cells, but line {odd[0]} is damaged: it has no operation or rate")
    for draft in drafts.values():
        draft.start_wall_ns = min(cell["start_wall_ns"] for cell in draft.cells)
    return [checked(draft, source) for draft in drafts.values()] or [checked(Draft("naslab", form, []), source)]


def heads(names: Iterable[Any]) -> bool:
    """Whether these are names of the table's columns."""
    return set(NEEDED) <= {str(name).strip() for name in names}


def _rows(source: Input, in_sheet: bool) -> Iterator[tuple[int, Row]]:
    """(line or row from 1, values by column)."""
    found: Iterator[Sequence[Any]]
    if in_sheet:
        found = workbook.rows(source, SHEET)
    else:
        # Excel in many countries parts by semicolons.
        heading = source.lines[0]
        found = csv.reader(source.lines, delimiter=";" if heading.count(";") > heading.count(",") else ",")
    try:
        names = [_NAMED.get(str(name).strip(), str(name).strip()) for name in next(found, [])]
        for line, values in enumerate(found, 2):
            if any(value not in (None, "") for value in values):
                yield line, dict(zip(names, values, strict=False))
    except csv.Error as error:
        raise source.broken(f"is not a complete table of naslab's cells: {error}") from error


def _cell(at: int, row: Row) -> Cell | None:
    """The row as a cell; None where it has no operation or rate."""
    op, rate = short(str(row.get("op") or ""))[:80], number(row.get("throughput_bytes_per_s"))
    if not op or rate is None:
        return None
    told: dict[str, Any] = {"latency_ns": {}, "regime": None, "regime_evidence": None}
    for name, text in row.items():
        column = _BY_NAME.get(name)
        if column is None or name in _OF_RUN or name in _HERE or text in (None, ""):
            continue
        value = _VALUES[column.kind](text)
        if value is not None and column.path.startswith("latency_ns."):
            told["latency_ns"][column.path.partition(".")[2]] = value
        elif value is not None and may_be(column.path, value):
            told[column.path] = value
    return foreign_cell(at, op, rate, start_wall_ns=_start_ns(row.get("start_wall_ns")), **told)


def _yes(text: Any) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(str(text).strip().lower())


def _text(text: Any) -> str | None:
    return short(plain_text(str(text))) or None


_VALUES: Mapping[str, Callable[[Any], Any]] = {"int": whole, "float": number, "bool": _yes, "str": _text}


def _start_ns(value: Any) -> int:
    """Nanoseconds since 1970, of such a number, or of a date of a sheet, which is UTC."""
    if isinstance(value, datetime):
        found = round(value.replace(tzinfo=UTC).timestamp() * 1000) * 10**6
    else:
        text = str(value or "").strip()
        found = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else whole(text) or 0
    return found if 0 < found < MAX_START_NS else 0
