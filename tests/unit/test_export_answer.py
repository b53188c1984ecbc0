"""The workbook of a `run`: its first sheet answers, its sweep is whole; and the rows that are written as text."""

from __future__ import annotations

import copy
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

from fixtures_run import make_run
from naslab.exchange import excel, excel_answer, excel_cells
from naslab.exchange.export import export
from naslab.explain import tell
from naslab.explain.answer import answer
from naslab.explain.grounds import actions, sentences
from naslab.results import Run


@pytest.fixture(scope="module")
def book(climbed_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return openpyxl.load_workbook(export(climbed_run, tmp_path_factory.mktemp("book") / "run.xlsx"))


def column(sheet: Any, letter: str = "A") -> list[Any]:
    return [cell.value for cell in sheet[letter]]


def limits_of(sheet: Any) -> list[dict[str, Any]]:
    """The table of limits, by its header."""
    at = column(sheet).index("class") + 1
    rows = list(sheet.iter_rows(min_row=at + 1, values_only=True))
    return [dict(zip(excel_answer.HEADER, row, strict=False)) for row in rows[: rows.index((None,) * len(rows[0]))]]


def test_the_first_sheet_of_a_run_answers(climbed_run: Run, book: Any) -> None:
    sheet, found = book.worksheets[0], answer(climbed_run.document)
    assert sheet.title == "answer" and book.sheetnames[1] == "runs"
    told = " ".join(str(text) for text in column(sheet) if text)
    assert sentences(found) and actions(found)
    for sentence in sentences(found) + actions(found):
        assert sentence[1:] in told
    assert "How far to trust it" in told and "chosen to separate the limits" in told
    for row, limit in zip(limits_of(sheet), found.limits, strict=True):
        assert row["probability"] == limit["confidence"]
        unit, factor = {"bytes_per_s": ("MB/s", 1e6), "iops": ("operations/s", 1.0), "ns": ("µs", 1e3)}[limit["unit"]]
        numbers = [row["value"], row["95 % from"], row["95 % to"]]
        assert row["unit"] == unit and tell.kind_name(limit["kind"]) in row["limited by"]
        assert numbers == pytest.approx([each / factor for each in (limit["value"], *limit["ci95"])], rel=1e-3)


def test_its_chart_draws_the_numbers_below(climbed_run: Run, book: Any) -> None:
    sheet = book.worksheets[0]
    (chart,) = sheet._charts
    picture = excel_answer.picture_of(climbed_run.document, answer(climbed_run.document).limits)
    assert picture is not None and len(picture.rows) > 1
    for at, series in enumerate(chart.series, 1):
        area = series.val.numRef.f.split("!")[1].replace("$", "")
        assert [cell.value for (cell,) in sheet[area]] == [row[at] for row in picture.rows]
        named = series.cat.strRef.f.split("!")[1].replace("$", "")
        assert [cell.value for (cell,) in sheet[named]] == [row[0] for row in picture.rows]
    top, bottom = chart.anchor._from.row + 1, column(sheet).index("How far to trust it") + 1
    assert not any(column(sheet)[top - 1 : bottom - 1]), "nothing lies under the picture"


def test_the_sweep_of_a_run_keeps_all_its_grids(climbed_run: Run, book: Any) -> None:
    """The steps that look for a limit have depths of their own, and are no points of the surface."""
    swept = ("write", "rewrite", "read", "reread", "random_read", "random_write")
    assert set(swept) <= set(book.sheetnames) and set(climbed_run.sweep_ops()) == set(swept)
    for op in swept:
        own = [cell for cell in climbed_run.cells if cell["op"] == op and not cell["workload"]]
        files, _, matrix = climbed_run.grid(op)
        assert set(files.tolist()) == {cell["file_bytes"] for cell in own}
        assert int(np.isfinite(matrix).sum()) == len(own)
        shown = [value for row in book[op].iter_rows(min_row=3, min_col=2, values_only=True) for value in row]
        assert sorted(v for v in shown if v is not None) == pytest.approx(
            sorted(cell["throughput_bytes_per_s"] / 1e6 for cell in own), abs=1e-3
        )
        assert book[op]["A1"].value.split(",")[2].strip().startswith("median of 1")


def test_runs_that_answer_come_first_each_by_number(climbed_run: Run, tmp_path: Path) -> None:
    swept = make_run(ops=("read",), file_sizes=(65536, 1 << 20), blocks=1)
    names = openpyxl.load_workbook(export([swept, climbed_run], tmp_path / "x.xlsx")).sheetnames
    assert names[:2] == ["answer 2", "runs"], "the sweep looked for no limit"


def test_without_a_working_set_the_picture_is_of_what_there_is(climbed_run: Run) -> None:
    ladder = copy.deepcopy(climbed_run.document["ladder"])
    point = next(each for step in ladder["steps"] for each in step["points"] if each["op"] == "read")
    points = [
        {**point, "record_bytes": 4096, "depth": depth, "workers": 1, "rate": {**point["rate"], "value": depth * 1e6}}
        for depth in (1, 4)
    ]
    ladder["steps"] = [{**ladder["steps"][0], "name": "small_depth", "points": points}]
    found = excel_answer.picture_of({"ladder": ladder}, [])
    assert found is not None and found.rows == [("1", 1.0), ("4", 4.0)] and found.lines == ("4 KiB reads",)
    limit = {"kind": "link", "applies_to": {"op": "read", "size": "large"}, "value": 117e6, "unit": "bytes_per_s"}
    bars = excel_answer.picture_of({}, [limit])
    assert bars is not None and bars.bars and bars.rows == [("large reads", 117.0)]
    assert excel_answer.picture_of({}, [{**limit, "value": None}]) is None


# rows written as text


ODD: list[Any] = [
    "plain", "", None, "=1+1", " spaces ", "two\nlines", "<&>\"'é€", "\x00\x07bell", "x" * 40_000, "\ud800", "-5",
    "%d%%", 0, -1, 1 << 53, (1 << 53) + 1, 1 << 60, True, False, 0.0, -0.5, 1e-300, 1.5e308, 0.1 + 0.2,
    math.nan, math.inf, datetime(2026, 11, 20, 18, 40, 5, 109_000), datetime(1999, 12, 31),
]  # fmt: skip


def test_rows_are_what_openpyxl_would_write(tmp_path: Path) -> None:
    """openpyxl's own cells, for the same values, are the oracle."""
    book = openpyxl.Workbook(write_only=True)
    theirs = book.create_sheet("theirs")
    theirs.append(["name", "value"])
    for value in ODD:
        theirs.append(["x", excel_cells.value_of(theirs, value)])
    tables = excel.Tables(book)
    tables.add("ours", ("name", "value"), (["x", value] for value in ODD))
    excel.excel_rows.save(book, tmp_path / "x.xlsx", tables.pending)
    read = openpyxl.load_workbook(tmp_path / "x.xlsx")
    for mine, oracle, value in zip(read["ours"]["B"], read["theirs"]["B"], ["value", *ODD], strict=True):
        assert mine.value == (
            pytest.approx(oracle.value, rel=1e-15) if isinstance(oracle.value, float) else oracle.value
        )
        assert type(mine.value) is type(oracle.value), value
        assert mine.number_format == oracle.number_format and bool(mine.quotePrefix) == bool(oracle.quotePrefix), value
    assert read["ours"].auto_filter.ref == f"A1:B{len(ODD) + 1}"


def test_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    made = make_run(ops=("read",), file_sizes=(65536, 1 << 20), blocks=1)
    header, *rows = openpyxl.load_workbook(export(made, tmp_path / "x.xlsx"))["cells"].iter_rows(values_only=True)
    at = header.index("throughput_mib_per_s")
    assert [row[at] for row in rows] == [cell["throughput_mib_per_s"] for cell in made.cells]


def test_every_table_goes_on_in_another_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "MAX_ROWS", 6)
    made = make_run(ops=("read",), file_sizes=(65536, 1 << 20), record_sizes=(4096, 65536), blocks=3)
    read = openpyxl.load_workbook(export(made, tmp_path / "x.xlsx"))
    parts = [read[name] for name in read.sheetnames if name.split()[0] == "cells"]
    assert [sheet.title for sheet in parts] == ["cells", "cells 2", "cells 3"]
    ids = [row[0] for sheet in parts for row in sheet.iter_rows(min_row=2, min_col=6, max_col=6, values_only=True)]
    assert ids == [cell["id"] for cell in made.cells]
    assert [sheet.auto_filter.ref.rpartition(":")[2][2:] for sheet in parts] == ["6", "6", "3"]
