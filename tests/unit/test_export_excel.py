"""The workbook: several runs in one, its charts, Excel's limits, and that LibreOffice opens it whole."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from cli_tools import HANG_S
from fixtures_run import make_run
from naslab.errors import UsageError
from naslab.exchange import excel, excel_cells, excel_charts, series_table
from naslab.exchange.export import export
from naslab.results import Run
from naslab.results.foreign import foreign_cell, foreign_document

FILES, RECORDS = (65536, 1 << 20, 256 << 20), (4096, 65536, 1 << 20)


def named(number: int, **more: Any) -> Run:
    options = {"ops": ("write", "read"), "file_sizes": FILES, "record_sizes": RECORDS, "blocks": 1, **more}
    return make_run(run_id=f"20261120-18400{number}-x7k{number}", label=f"NAS {number}", **options)


def published() -> Run:
    """What an article tells: rates of two sizes, and of applications."""
    source = {"kind": "published", "tool": "naspt", "format": "article", "title": "A review"}
    cells = [
        foreign_cell(0, "write", 50e6, file_bytes=1 << 20, record_bytes=1 << 20),
        foreign_cell(1, "write", 40e6, file_bytes=256 << 20, record_bytes=1 << 20),
        foreign_cell(2, "read", 70e6, workload="HDVideo_1Play"),
        foreign_cell(3, "write", 30e6, workload="HDVideo_1Record"),
        foreign_cell(4, "read", 60e6),
    ]
    return Run(foreign_document("20130101-000000-aaaa", source, cells, label="published"))


def charts_of(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name).decode() for name in archive.namelist() if name.startswith("xl/charts/chart")]


def refs(chart: str, of: str) -> list[str]:
    """The ranges a chart draws: `val` the values of each line."""
    return re.findall(rf"<(?:c:)?{of}>.*?<(?:c:)?f>(.*?)</(?:c:)?f>", chart, re.S)


def rows_of(book: Any, sheet: str) -> list[dict[str, Any]]:
    header, *rows = book[sheet].iter_rows(values_only=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


# several runs


def test_several_runs_share_the_tidy_sheets(tmp_path: Path) -> None:
    runs = [named(0), named(1, speed=0.5)]
    book = openpyxl.load_workbook(export(runs, tmp_path / "x.xlsx"))
    listed = rows_of(book, "runs")
    assert [row["run_id"] for row in listed] == [run.run_id for run in runs]
    assert [row["number"] for row in listed] == [1, 2]
    assert listed[0]["start_utc"] == datetime(2026, 11, 20, 18, 40)
    cells = rows_of(book, "cells")
    assert [(row["run_id"], row["cell"]) for row in cells] == [(run.run_id, c["id"]) for run in runs for c in run.cells]
    assert all(isinstance(row["start_utc"], datetime) for row in cells)
    series = rows_of(book, "series")
    assert {(row["run_id"], row["cell"]) for row in series} == {(row["run_id"], row["cell"]) for row in cells}
    for name in ("environment", "warnings", "details"):
        assert {row["run_id"] for row in rows_of(book, name)} == {run.run_id for run in runs}
    assert {"write 1", "write 2", "read 1", "read 2"} <= set(book.sheetnames)


def test_runs_are_laid_side_by_side(tmp_path: Path) -> None:
    runs = [named(0), named(1, speed=0.5)]
    path = export(runs, tmp_path / "x.xlsx")
    sheet = openpyxl.load_workbook(path)["read, runs"]
    assert [sheet[at].value for at in ("A1", "B2", "C2")] == [
        "read, MB/s (10^6 bytes per second), 64k records", "NAS 0", "NAS 1",
    ]  # fmt: skip
    for column, run in zip("BC", runs, strict=True):
        files, records, matrix = run.grid("read")
        at = records.tolist().index(65536)
        assert [sheet[f"{column}{row}"].value for row in range(3, 3 + len(files))] == pytest.approx(
            (matrix[:, at] / 1e6).tolist(), abs=1e-3
        )
    (chart,) = [text for text in charts_of(path) if "read, runs" in text]
    assert len(refs(chart, "val")) == 2


def test_applications_and_loads_are_not_beside_sweeps(tmp_path: Path) -> None:
    """They have file sizes of their own, and their rates are of something else."""
    load = named(2, ops=("write",), file_sizes=(3 << 20,), record_sizes=(65536,), blocks=1)
    for cell in load.cells:
        cell["workload"] = "fill"
    mixed = named(3, ops=("write",), file_sizes=(5 << 20,), record_sizes=(65536,), blocks=2)
    mixed.cells[0]["workload"], mixed.cells[0]["file_bytes"] = "HDVideo_1Record", 7 << 20
    path = export([named(0), named(1, speed=0.5), load, mixed], tmp_path / "x.xlsx")
    sheet = openpyxl.load_workbook(path)["write, runs"]
    assert [sheet[f"{column}2"].value for column in "BCDE"] == ["NAS 0", "NAS 1", "NAS 3", None]
    sizes = [row[0].value for row in sheet.iter_rows(min_row=3) if row[0].value]
    assert "5m" in sizes and not {"3m", "7m"} & set(sizes)
    (chart,) = [text for text in charts_of(path) if "write, runs" in text]
    assert '<dispBlanksAs val="span" />' in chart, "a line goes on over sizes that only others have"


def test_rates_are_drawn_from_zero(tmp_path: Path) -> None:
    charts = charts_of(export([named(0), named(1, speed=0.5), published()], tmp_path / "x.xlsx"))
    flat = [text for text in charts if "surface3DChart" not in text]
    assert len(flat) > 5 and all(re.search(r"<valAx>.*?<min val=\"0\" ?/>", text, re.S) for text in flat)
    titles = re.findall(r"<a:t>(.*?)</a:t>", "".join(charts))
    assert "read: MB/s by file size, one line per record size, NAS 1" in titles


def test_runs_without_a_record_size_in_common_keep_their_own(tmp_path: Path) -> None:
    runs = [named(0, record_sizes=(4096,)), named(1, record_sizes=(65536,))]
    sheet = openpyxl.load_workbook(export(runs, tmp_path / "x.xlsx"))["write, runs"]
    assert [sheet["B2"].value, sheet["C2"].value] == ["NAS 0, 4k records", "NAS 1, 64k records"]


def test_means_of_an_article_are_level_lines(tmp_path: Path) -> None:
    source = {"kind": "published", "tool": "iozone", "format": "article"}
    cell = {**foreign_cell(0, "write", 20e6), "covers_file_bytes": [1 << 20, 512 << 20]}
    mean = Run(foreign_document("20070101-000000-aaaa", source, [cell], label="RAID 0"))
    sheet = openpyxl.load_workbook(export([named(0), mean], tmp_path / "x.xlsx"))["write, runs"]
    assert sheet["C2"].value == "RAID 0, mean of 1m to 512m"
    assert [(row[0].value, row[2].value) for row in sheet.iter_rows(min_row=3, max_row=6)] == [
        ("64k", None), ("1m", 20), ("256m", 20), ("512m", 20),
    ]  # fmt: skip


def test_workloads_are_the_applications(tmp_path: Path) -> None:
    made = named(0, ops=("read",), file_sizes=(1 << 20,), record_sizes=(4096,), blocks=4)
    for cell, name in zip(made.cells, ("prepare", "PhotoAlbum", "PhotoAlbum", "clean"), strict=True):
        cell["workload"] = name
    made.document["apps"] = {"results": [{"name": "PhotoAlbum"}]}
    made.cells[1]["throughput_bytes_per_s"], made.cells[2]["throughput_bytes_per_s"] = 10e6, 30e6
    rows = list(openpyxl.load_workbook(export(made, tmp_path / "x.xlsx"))["workloads"].iter_rows(values_only=True))
    assert rows[1:3] == [("workload", "NAS 0"), ("PhotoAlbum", 20)]
    assert all(row[0] is None for row in rows[3:])


def test_a_run_named_twice_and_json_of_several_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="named twice"):
        export([named(0), named(0)], tmp_path / "x.xlsx")
    with pytest.raises(UsageError, match=r"one run, and 2 are named.*\.xlsx"):
        export([named(0), named(1)], tmp_path / "x.json")
    assert os.listdir(tmp_path) == []


# what a source does not tell


def test_what_is_not_told_is_empty_and_not_zero(tmp_path: Path) -> None:
    book = openpyxl.load_workbook(export([named(0), published()], tmp_path / "x.xlsx"))
    row = next(row for row in rows_of(book, "cells") if row["run_id"].startswith("2013"))
    for name in ("iops", "latency_ns_p99", "cpu_fraction", "duration_ns", "bytes", "start_utc", "queue_depth"):
        if name != "iops":  # of a known record size it follows from the rate
            assert row[name] is None, name
    assert row["throughput_bytes_per_s"] == 50e6
    assert rows_of(book, "runs")[1]["start_utc"] is None
    assert rows_of(book, "runs")[1]["source"] == "naspt, A review"
    assert [cell.value for cell in book["write, runs"]["C"]][1:] == ["published", None, 50, 40]
    assert [cell.value for cell in book["workloads"]["B"]][1:] == ["published", 70, 30]


@pytest.mark.parametrize("form", ["csv", "parquet", "series.csv", "series.parquet", "prom", "om", "fio.json"])
def test_every_format_copes_with_what_is_not_told(form: str, tmp_path: Path) -> None:
    assert export(published(), tmp_path / f"x.{form}").stat().st_size
    if form == "csv":
        with (tmp_path / "x.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["duration_ns"] for row in rows} == {""}
        assert [row["file_bytes"] for row in rows][-1] == ""


# charts


def test_surface_charts_hold_every_record_size(tmp_path: Path) -> None:
    path = export(named(0), tmp_path / "x.xlsx")
    surfaces = [text for text in charts_of(path) if "surface3DChart" in text]
    assert len(surfaces) == 2
    for text, op in zip(surfaces, ("write", "read"), strict=True):
        assert refs(text, "val") == [f"'{op}'!${column}$3:${column}$5" for column in "BCD"]
        assert refs(text, "tx") == [f"'{op}'!{column}2" for column in "BCD"]
        assert set(refs(text, "cat")) == {f"'{op}'!$A$3:$A$5"}
        assert "<view3D>" in text and 'rotX val="20"' in text
        assert all(axis in text for axis in ("<catAx>", "<valAx>", "<serAx>"))


def test_more_than_255_records_get_several_charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel_charts, "MAX_LINES", 2)
    path = export(named(0, ops=("read",)), tmp_path / "x.xlsx")
    lines = [refs(text, "val") for text in charts_of(path) if "lineChart" in text]
    assert [len(found) for found in lines] == [2, 1]
    assert len({one for found in lines for one in found}) == 3


def test_rate_over_time_is_drawn_from_the_series(tmp_path: Path) -> None:
    made = make_run(ops=("read", "mixed"), file_sizes=(1 << 30,), record_sizes=(65536,), blocks=1)
    path = export(made, tmp_path / "x.xlsx")
    book = openpyxl.load_workbook(path)
    charts = [text for text in charts_of(path) if "scatterChart" in text]
    assert len(charts) == len(made.cells) == 2
    for text, cell in zip(charts, made.cells, strict=True):
        (values,), (times,) = refs(text, "yVal"), refs(text, "xVal")
        found = [row[0].value for row in book["series"][values.split("!")[1].replace("$", "")]]
        rates = series_table.rates_of(cell, made.series(cell))
        assert found == pytest.approx(rates) and len(found) > 5
        assert [row[0].value for row in book["series"][times.split("!")[1].replace("$", "")]] == (
            made.series(cell)["t_s"].tolist()
        )


def test_the_last_rate_is_by_the_time_it_lasted() -> None:
    made = make_run(ops=("read",), file_sizes=(1 << 30,), record_sizes=(65536,), blocks=1)
    cell, series = made.cells[0], made.series(0)
    cell["window_ns"] = round((series["t_s"][-1] + 0.75) * 1e9)
    moved = int(series["read_bytes"][-1])
    assert series_table.rates_of(cell, series)[-1] == pytest.approx(moved / 0.75)
    cell["window_ns"] = round((series["t_s"][-1] + 0.25) * 1e9)
    assert series_table.rates_of(cell, series)[-1] is None


# Excel's limits


def test_titles_are_short_unique_and_allowed() -> None:
    book = openpyxl.Workbook()
    found = []
    for text in (
        "random_read_of_a_very_long_name_1",
        "random_read_of_a_very_long_name_2",
        "a/b:c",
        "A B C",
        "'",
        "History",
    ):
        title = excel_cells.title_of(book, text)
        book.create_sheet(title)
        found.append(title)
    assert max(map(len, found)) <= 31
    assert len({title.lower() for title in found}) == len(found)
    assert found[1] == "random_read_of_a_very_long_ (2)"
    assert found[2:] == ["a b c", "A B C (2)", "sheet (2)", "History (2)"]


def test_long_text_and_big_numbers(tmp_path: Path) -> None:
    made = named(0, ops=("read",))
    made.document["note"] = "x" * 40_000 + "\x0b\ud800"
    made.document["seed"] = 1 << 63
    (row,) = rows_of(openpyxl.load_workbook(export(made, tmp_path / "x.xlsx")), "runs")
    assert row["note"] == "x" * 32_767
    assert row["seed"] == str(1 << 63), "Excel would round it"


def test_too_many_points_name_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "MAX_POINTS", 3)
    with pytest.raises(UsageError, match=r"\.parquet and the series as \.series\.parquet"):
        export(named(0), tmp_path / "x.xlsx")
    assert os.listdir(tmp_path) == []


def test_the_series_as_tables(tmp_path: Path) -> None:
    import polars

    made = named(0)
    with export(made, tmp_path / "x.series.csv").open(newline="") as file:
        text = list(csv.DictReader(file))
    frame = polars.read_parquet(export(made, tmp_path / "x.series.parquet"))
    assert frame.columns == list(series_table.HEADER) == list(text[0])
    assert frame.rows() == list(series_table.rows([made]))
    assert [int(row["max_latency_ns"]) for row in text] == frame["max_latency_ns"].to_list()


# LibreOffice


@pytest.mark.lab
@pytest.mark.timeout(240)
def test_libreoffice_shows_every_sheet_and_series(tmp_path: Path) -> None:
    office = shutil.which("soffice")
    if office is None:
        message = "LibreOffice (soffice) is not installed"
        pytest.fail(message) if os.environ.get("NASLAB_LAB_REQUIRED") == "1" else pytest.skip(message)
    runs = [named(0), named(1, speed=0.5), published()]
    path = export(runs, tmp_path / "x.xlsx")

    def convert(form: str) -> None:
        profile = f"-env:UserInstallation=file://{tmp_path}/profile"
        command = [office, profile, "--headless", "--convert-to", form, "--outdir", str(tmp_path / "out"), str(path)]
        subprocess.run(command, check=True, capture_output=True, timeout=HANG_S)

    convert("csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1")
    convert("xlsx:Calc MS Excel 2007 XML")
    with (tmp_path / "out" / "x-cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["bytes"] for row in rows] == [
        "" if c["bytes"] is None else str(c["bytes"]) for run in runs for c in run.cells
    ]
    assert (tmp_path / "out" / "x-read 1.csv").read_text().startswith('"read, MB/s')
    written, read = openpyxl.load_workbook(path), openpyxl.load_workbook(tmp_path / "out" / "x.xlsx")
    assert read.sheetnames == written.sheetnames
    for name in written.sheetnames:
        mine, theirs = ([list(row) for row in book[name].iter_rows(values_only=True)] for book in (written, read))
        assert sum(v is not None for row in mine for v in row) == sum(v is not None for row in theirs for v in row), (
            name
        )
    drawn = [
        sorted(len(refs(text, "val")) or len(refs(text, "yVal")) for text in charts_of(p))
        for p in (path, tmp_path / "out" / "x.xlsx")
    ]
    assert len(drawn[0]) == 12
    assert drawn[0] == drawn[1], "all series of all charts are there"
