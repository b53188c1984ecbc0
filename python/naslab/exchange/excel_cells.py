"""Cells, titles and the page set-up of a workbook's sheets."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from openpyxl.cell import Cell, WriteOnlyCell
from openpyxl.styles import Alignment, Font
from openpyxl.worksheet.properties import PageSetupProperties

from naslab.exchange.excel_rows import FORMULA, MAX_EXACT_INTEGER, MAX_TEXT
from naslab.exchange.files import without_control

_BAD_IN_TITLES = str.maketrans("[]:*?/\\", "       ")
DATE = "yyyy-mm-dd hh:mm:ss"
"""How a date is shown."""


def title_of(book: Any, text: str) -> str:
    """A name for a new sheet: at most 31 characters, none that Excel refuses, of no other sheet."""
    clean = without_control(text).translate(_BAD_IN_TITLES).strip().strip("'") or "sheet"
    taken = {sheet.title.lower() for sheet in book.worksheets} | {"history"}
    found, number = clean[:31], 2
    while found.lower() in taken:
        end = f" ({number})"
        found, number = clean[: 31 - len(end)] + end, number + 1
    return found


def fit_to_width(sheet: Any) -> None:
    """Printed on one page's width, lying."""
    sheet.page_setup.orientation = "landscape"
    sheet.page_setup.fitToHeight = 0
    sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)


def value_of(sheet: Any, value: Any) -> Any:
    """What the sheet holds: text as text, no NaN, integers Excel would round (above 2^53) as text, dates as dates."""
    if isinstance(value, str):
        clean = without_control(value)[:MAX_TEXT]
        return text_cell(sheet, clean) if clean.startswith(FORMULA) else clean
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        cell = WriteOnlyCell(sheet, value=value)
        cell.number_format = DATE
        return cell
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        return str(value)
    return value


def text_cell(sheet: Any, text: str) -> Any:
    """Text that looks like a formula: stored as text, and marked so that it stays text when it is edited."""
    cell = WriteOnlyCell(sheet, value="")
    cell.value, cell.data_type = text, "s"
    cell.quotePrefix = True
    return cell


def styled(sheet: Any, value: Any, bold: bool = False, italic: bool = False, right: bool = False) -> Any:
    """A cell in bold or italic, or set to the right."""
    shown = value_of(sheet, value)
    cell = shown if isinstance(shown, Cell) else WriteOnlyCell(sheet, value=shown)
    cell.font = Font(name="Calibri", size=11, bold=bold, italic=italic)
    if right:
        cell.alignment = Alignment(horizontal="right")
    return cell
