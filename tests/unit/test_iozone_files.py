"""Spreadsheets, -Q and -+z files."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

from iozone_fakes import FakeExecute, FakeRun, fake_cell, rate_of
from naslab.cli.iozone import Session
from naslab.commands.iozone.checks import parse
from naslab.commands.iozone.oplog import histogram_text, write_files
from naslab.commands.iozone.plan import make_plan
from naslab.commands.iozone.sheet import write_sheet
from naslab.commands.iozone.tables import Results, value
from naslab.errors import NaslabError


def measured(line: str) -> Results:
    plan = make_plan(parse(line.split()))
    results = Results(plan)
    for spec in plan.cells:
        results.add(fake_cell(spec, rate_of(spec)))
    return results


def xls_rows(path: Path) -> list[list[object]]:
    xlrd = pytest.importorskip("xlrd")
    book = xlrd.open_workbook(str(path))
    assert book.biff_version == 80 and book.sheet_names() == ["Sheet 1"]
    return [sheet_row(book.sheet_by_index(0).row_values(row)) for row in range(book.sheet_by_index(0).nrows)]


def sheet_row(cells: list[object]) -> list[object]:
    while cells and cells[-1] == "":
        cells.pop()
    return cells


def test_xls_is_laid_out_as_iozones(tmp_path: Path) -> None:
    path = tmp_path / "o.xls"
    results = measured("-Ra -n 64 -g 128 -q 16 -i 0 -i 1 -+u")
    write_sheet(results, path, "iozone -Ra")
    rows = xls_rows(path)
    assert rows[:3] == [["iozone -Ra "], [" "], ["The top row is records sizes, the left column is file sizes"]]
    assert rows[3] == ["Writer Report"] and rows[4] == ["", 4, 8, 16]
    plan = results.plan
    writes = [value(fake_cell(spec, rate_of(spec)), plan.args) for spec in plan.cells if spec.op == "write"]
    assert rows[5] == [64, *writes[:3]] and rows[6] == [128, *writes[3:]]
    labels = [row[0] for row in rows if len(row) == 1][3:]
    assert labels[:4] == ["Writer Report", "Re-writer Report", "Reader Report", "Re-reader Report"]
    assert labels[4] == "Writer CPU utilization report (Zero values should be ignored)" and len(labels) == 8
    assert rows[19] == [], "a blank row before the CPU tables"
    assert not list(tmp_path.glob(".o.xls*")), "no temporary file is left"


def test_xls_of_throughput_mode(tmp_path: Path) -> None:
    path = tmp_path / "o.xls"
    write_sheet(measured("-l 1 -u 2 -i 0 -+u"), path, "iozone -l 1")
    rows = xls_rows(path)
    assert rows[1] == ["Throughput report Y-axis is type of test X-axis is number of processes"]
    assert rows[4][:2] == ["  Initial write ", ""] and len(rows[4]) == 4
    assert rows[6] == ["CPU utilization report Y-axis is type of test X-axis is number of processes"]


def test_xlsx_has_a_sheet_and_a_surface_a_test(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "o.xlsx"
    results = measured("-Ra -n 64 -g 256 -E")
    write_sheet(results, path, "iozone -Ra")
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == [
        "Writer", "Re-writer", "Reader", "Re-reader", "Random Read", "Random Write", "Backward Read",
        "Record Rewrite", "Stride Read", "Fwrite", "Re-fwrite", "Fread", "Re-fread", "Pwrite", "Re-pwrite",
        "Pread", "Re-pread",
    ]  # fmt: skip
    for sheet in book.worksheets:
        assert [type(chart).__name__ for chart in sheet._charts] == ["SurfaceChart3D"]
        assert len(sheet._charts[0].series) == 13 and sheet["A7"].value == 256
    table = next(results.tables())
    assert [cell.value for cell in book["Writer"][5]][:6] == [64, *table.rows[0][1]]


def test_xlsx_of_throughput_mode_and_cpu(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "o.xlsx"
    write_sheet(measured("-l 1 -u 2 -i 0 -+u"), path, "iozone -l 1")
    assert openpyxl.load_workbook(path).sheetnames == ["Throughput", "CPU"]
    write_sheet(measured("-s 64 -i 0 -+u"), path, "iozone")
    assert openpyxl.load_workbook(path).sheetnames == ["Writer", "Re-writer", "Writer CPU", "Re-writer CPU"]


def test_a_sheet_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "o.xls").mkdir()
    with pytest.raises(NaslabError, match="-b"):
        write_sheet(measured("-s 64 -i 0"), tmp_path / "o.xls", "iozone")


def log(*operations: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("=4q", *operation) for operation in operations)


def test_offset_files_of_single_mode(tmp_path: Path) -> None:
    plan = make_plan(parse(["-s", "64", "-r", "32", "-r", "64", "-i", "0", "-i", "2", "-Q"]))
    logs = {spec.id: log((0, 12_400, 32768, 0), (32768, 3_600, 32768, 0)) for spec in plan.cells}
    cells = [fake_cell(spec) for spec in plan.cells]
    write_files(FakeRun(cells, logs=logs), tmp_path, throughput=False, offsets=True, histograms=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rwol.dat", "wol.dat"]
    lines = (tmp_path / "wol.dat").read_text().splitlines()
    assert lines[0] == "Offset in kBytes   Latency in microseconds  Transfer size in bytes"
    assert lines[1:4] == ["         0         12      32768", "        32          4      32768", ""]
    assert lines[4].startswith("System time      0.000 User time ") and lines[4].endswith("  (seconds)")
    assert lines[5] == lines[1], "the header is written once a run"


def test_offset_files_and_histograms_of_children(tmp_path: Path) -> None:
    plan = make_plan(parse(["-t", "2", "-s", "64", "-r", "32", "-i", "0", "-Q", "-+z"]))
    logs = {spec.id: log((0, 12_400, 32768, 0), (0, 350_000, 32768, 1)) for spec in plan.cells}
    run = FakeRun([fake_cell(spec) for spec in plan.cells], logs=logs)
    write_files(run, tmp_path, throughput=True, offsets=True, histograms=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "Child_0_rwol.dat", "Child_0_wol.dat", "Child_1_rwol.dat", "Child_1_wol.dat",
        "Iozone_histogram_child_0.txt", "Iozone_histogram_child_1.txt",
    ]  # fmt: skip
    assert (tmp_path / "Child_1_wol.dat").read_text().splitlines()[1:] == ["         0        350      32768"]
    text = (tmp_path / "Iozone_histogram_child_1.txt").read_text()
    assert text.startswith("Child: 1 Op: write\n") and text.count("Op:") == 2
    assert "Band 2:   200us:0       400us:1       600us:0       800us:0         1ms:0       \n" in text


def test_histogram_bins_are_upper_ends() -> None:
    text = histogram_text("read", 0, [(0, 20_000, 4096, 0), (0, 20_001, 4096, 0), (0, 10**12, 4096, 0)])
    assert "Band 1:    20us:1        40us:1        60us:0" in text and "Band 9:   120+s:1       \n" in text


def test_files_are_written_by_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make_plan(parse(["-s", "64", "-i", "0", "-Q", "-b", "o.xls"]))

    class Logging(FakeExecute):
        def __call__(self, **hooks: object) -> FakeRun:
            run = super().__call__(**hooks)  # type: ignore[arg-type]
            return FakeRun(run.cells, logs={spec.id: log((0, 1000, 4096, 0)) for spec in plan.cells})

    assert Session(plan, io.StringIO()).carry_out(Logging(plan)) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.xls", "rwol.dat", "wol.dat"]
