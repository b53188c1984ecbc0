"""Exports: whole files or none, golden contents, and text a spreadsheet does not take for a formula."""

from __future__ import annotations

import csv
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from fixtures_run import make_run
from naslab.errors import NaslabError, StoreError, UnknownRunError, UsageError
from naslab.exchange import excel, references
from naslab.exchange.export import FORMATS, export
from naslab.exchange.files import safe_text
from naslab.exchange.json_file import json_text, read_json
from naslab.results import Run
from naslab.results.histogram import decode

Golden = Callable[[str, str], None]
FORMULA = '=HYPERLINK("http://evil.example")'


def small() -> Run:
    made = make_run(ops=("write", "read"), file_sizes=(65536, 1 << 20, 256 << 20), record_sizes=(4096, 65536, 1 << 20))
    made.document["naslab_version"] = "[version]"
    return made


def readable(value: str, name: str) -> str:
    """Raw data in the golden file: what it says, for zlib's bytes differ between versions."""
    import base64

    data = base64.b64decode(value)
    return f"{decode(data).total} samples" if ":" in name else f"{len(data)} bytes"


# golden


def test_json_golden(golden: Golden, tmp_path: Path) -> None:
    found = json.loads(export(small(), tmp_path / "run.json").read_text())
    found["blobs"] = {
        cell: {name: readable(text, name) for name, text in named.items()} for cell, named in found["blobs"].items()
    }
    golden("export.json", json.dumps(found, indent=1) + "\n")


def test_csv_golden(golden: Golden, tmp_path: Path) -> None:
    golden("export.csv", export(small(), tmp_path / "run.csv").read_text())


def test_xlsx_golden(golden: Golden, tmp_path: Path) -> None:
    book = openpyxl.load_workbook(export(small(), tmp_path / "run.xlsx"))
    lines: list[str] = []
    for sheet in book:
        lines.append(f"[{sheet.title}] {sheet.dimensions} {len(sheet._charts)} charts")
        rows = list(sheet.iter_rows(values_only=True))
        lines += ["\t".join("" if v is None else str(v) for v in row) for row in rows[:12]]
    golden("export_xlsx.txt", "\n".join(lines) + "\n")


# what is written can be read


def test_json_is_the_whole_run(store: Any, tmp_path: Path) -> None:
    made = make_run(ops=("read", "mixed"), file_sizes=(1 << 20,), op_log=True, pace_per_s=100.0)
    path = export(made, tmp_path / "run.json")
    for again in (read_json(path), references.load(store, str(path))):
        assert again.document == made.document
        for cell in made.cells:
            assert again.blob_names(cell) == made.blob_names(cell)
            assert all(again.blob(cell, name) == made.blob(cell, name) for name in made.blob_names(cell))
    assert json.loads(json_text(made, blobs=False)) == made.document
    saved = references.load(store, str(path))
    store.save(saved.document, {c["id"]: {n: saved.blob(c, n) for n in saved.blob_names(c)} for c in saved.cells})
    assert store.load("last").document == made.document


def test_csv_holds_the_table(tmp_path: Path) -> None:
    made = small()
    with export(made, tmp_path / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = made.table()
    assert list(rows[0]) == list(table.dtype.names or ())
    assert [float(r["throughput_bytes_per_s"]) for r in rows] == table["throughput_bytes_per_s"].tolist()
    assert [int(r["start_wall_ns"]) for r in rows] == table["start_wall_ns"].tolist()
    assert {r["durable_bytes_per_s"] for r in rows if r["op"] == "read"} == {""}


def test_xlsx_cells_and_charts(tmp_path: Path) -> None:
    made = small()
    path = export(made, tmp_path / "run.xlsx")
    book = openpyxl.load_workbook(path)
    tidy = ["runs", "cells", "series", "environment", "limits", "warnings", "details"]
    assert book.sheetnames == [*tidy, "write", "read"]
    cells = list(book["cells"].iter_rows(values_only=True))
    assert len(cells) == len(made.cells) + 1
    at = cells[0].index("throughput_bytes_per_s")
    assert [row[at] for row in cells[1:]] == pytest.approx(made.table()["throughput_bytes_per_s"], rel=1e-14)
    _, _, matrix = made.grid("read")
    assert book["read"]["D5"].value == pytest.approx(matrix[2, 2] / 1e6, abs=1e-3)
    assert book["read"]["D3"].value is None  # a 1 MiB record does not fit in 64 KiB
    assert sum(map(len, map(made.series, made.cells))) == book["series"].max_row - 1
    with zipfile.ZipFile(path) as archive:
        charts = [archive.read(name).decode() for name in archive.namelist() if name.startswith("xl/charts/chart")]
    assert len(charts) == 4
    assert sum("surface3DChart" in chart for chart in charts) == 2
    lines = [chart for chart in charts if "lineChart" in chart]
    assert all('smooth val="0"' in chart and 'smooth val="1"' not in chart for chart in lines)


def test_long_series_go_on_in_another_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "MAX_ROWS", 11)
    made = make_run(ops=("read",), file_sizes=(256 << 20,), record_sizes=(4096,), blocks=1)
    book = openpyxl.load_workbook(export(made, tmp_path / "run.xlsx"))
    parts = {name: book[name] for name in book.sheetnames if name.startswith("series")}
    assert list(parts) == ["series", "series 2"]
    rows = [row for sheet in parts.values() for row in sheet.iter_rows(min_row=2, values_only=True)]
    assert max(sheet.max_row for sheet in parts.values()) == 11
    assert [row[2] for row in rows] == made.series(0)["t_s"].tolist()
    assert "over time" not in book.sheetnames, "no chart of a series that lies in several sheets"


def test_predicted_cells_are_marked(tmp_path: Path) -> None:
    made = make_run(ops=("read",), file_sizes=(65536, 1 << 20), record_sizes=(4096, 65536), blocks=1)
    made.cells[-1]["predicted"] = True
    sheet = openpyxl.load_workbook(export(made, tmp_path / "run.xlsx"))["read"]
    assert "italic: predicted" in sheet["A1"].value
    assert [sheet[at].font.i for at in ("B3", "C4")] == [False, True]


def test_a_run_without_cells_or_raw_data(tmp_path: Path, run: Run) -> None:
    bare = Run(run.document)
    run.document["cells"] = []
    for form in ("json", "csv", "xlsx"):
        export(bare, tmp_path / f"empty.{form}")
    assert read_json(tmp_path / "empty.json").cells == []


# safe text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        (FORMULA, "'" + FORMULA), ("+1", "'+1"), ("-1+2", "'-1+2"), ("@SUM(A1)", "'@SUM(A1)"), ("\t=1", "'\t=1"),
        ("a=b", "a=b"), ("", ""), ("\x00\x07=1", "'=1"), ("NAS é", "NAS é"),
    ],
)  # fmt: skip
def test_safe_text(text: str, safe: str) -> None:
    assert safe_text(text) == safe


def test_no_formula_from_user_text(tmp_path: Path) -> None:
    made = make_run(ops=("read",), file_sizes=(65536, 1 << 20), blocks=1, label=FORMULA)
    made.document["environment"] = {FORMULA: FORMULA, "list": ["=1", 2]}
    made.document["target"]["url"] = "@evil"
    made.document["argv"] = ["=cmd|' /C calc'!A0"]
    made.document["warnings"].append({"kind": "k", "message": "-2+3", "cell": None})
    for cell in made.cells:
        cell["workload"] = "+evil"
    book = openpyxl.load_workbook(export(made, tmp_path / "run.xlsx"))
    values = [cell for sheet in book for row in sheet.iter_rows() for cell in row if isinstance(cell.value, str)]
    risky = [cell for cell in values if cell.value.startswith(("=", "+", "-", "@"))]
    assert {cell.value for cell in risky} >= {FORMULA, "@evil", "-2+3", "+evil", "=1, 2"}
    assert all(cell.data_type == "s" for cell in values), "text, whatever it begins with"
    assert all(cell.quotePrefix for cell in risky), "and it stays text when it is edited"
    with export(made, tmp_path / "run.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["label"], row["target"], row["workload"]) == ("'" + FORMULA, "'@evil", "'+evil")


# whole or not at all


@pytest.mark.parametrize("form", ["json", "csv", "xlsx"])
def test_a_file_that_is_there_is_kept(form: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / f"thesis.{form}"
    path.write_text("precious")
    with pytest.raises(UsageError, match="--force"):
        export(run, path)
    assert path.read_text() == "precious"
    export(run, path, force=True)
    assert path.read_bytes()[:8] != b"precious"
    assert os.listdir(tmp_path) == [path.name]


def test_a_failure_leaves_nothing(tmp_path: Path, run: Run) -> None:
    run.cells[0]["iops"] = float("inf")
    (tmp_path / "old.json").write_text("old")
    for name in ("new.json", "old.json"):
        with pytest.raises(StoreError):
            export(run, tmp_path / name, force=True)
    assert os.listdir(tmp_path) == ["old.json"]
    assert (tmp_path / "old.json").read_text() == "old"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_exported_files_have_the_usual_rights(tmp_path: Path, run: Run) -> None:
    mask = os.umask(0o027)
    try:
        assert export(run, tmp_path / "run.csv").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(mask)


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [
        ("-", "csv", "-o -: the export needs a file"),
        ("run", None, "not a format"),
        ("run.pdf", None, "choose json"),
        ("run.json", "ods", "--format ods"),
    ],
)
def test_unknown_formats(name: str, form: str | None, message: str, run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        export(run, name if name == "-" else tmp_path / name, form)
    assert os.listdir(tmp_path) == []


def test_format_wins_over_the_ending(run: Run, tmp_path: Path) -> None:
    assert export(run, tmp_path / "run.txt", "CSV").read_text().startswith("run_id,")
    assert FORMATS == (
        "json", "csv", "xlsx", "parquet", "prometheus", "openmetrics", "fio", "series.csv", "series.parquet",
    )  # fmt: skip


def test_places_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        export(run, tmp_path / "folder.json", force=True)
    with pytest.raises(UsageError, match=r"there is no folder .*nowhere"):
        export(run, tmp_path / "nowhere" / "run.json")


def test_parquet_without_a_library_is_refused_by_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="pip install polars"):
        export(run, tmp_path / "run.parquet")
    assert os.listdir(tmp_path) == []


def test_parquet(run: Run, tmp_path: Path) -> None:
    import polars

    found = polars.read_parquet(export(run, tmp_path / "run.parquet"))
    assert found["bytes"].to_list() == [cell["bytes"] for cell in run.cells]
    assert found["op"].to_list() == [cell["op"] for cell in run.cells]


# files that are not runs

NOT_RUNS: dict[str, str] = {
    "empty": "",
    "text": "hello",
    "other json": '{"results": []}',
    "list": "[1, 2]",
    "number": "7",
    "newer": '{"schema": 2, "run_id": "x"}',
    "no cells": '{"schema": 1, "run_id": "x", "command": "run", "status": "complete", "target": {}, "warnings": []}',
    "cells without ids": '{"schema": 1, "run_id": "x", "command": "c", "status": "complete", "target": {}, '
    '"warnings": [], "cells": [{}]}',
    "deep": "[" * 100_000,
    "bad blobs": '{"schema": 1, "run_id": "x", "command": "c", "status": "complete", "target": {}, '
    '"warnings": [], "cells": [], "blobs": {"0": {"series": "%%%"}}}',
    "blobs of another type": '{"schema": 1, "run_id": "x", "command": "c", "status": "complete", "target": {}, '
    '"warnings": [], "cells": [], "blobs": {"0": [1]}}',
}


@pytest.mark.parametrize("name", NOT_RUNS)
def test_other_files_are_refused(name: str, tmp_path: Path, store: Any) -> None:
    path = tmp_path / "file.json"
    path.write_text(NOT_RUNS[name])
    with pytest.raises(NaslabError, match=r"file\.json"):
        references.load(store, str(path))


def test_an_absent_file_is_an_unknown_run(store: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownRunError, match="there is no file"):
        references.load(store, str(tmp_path / "absent.json"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StoreError):
        references.load(store, str(tmp_path / "binary.json"))
