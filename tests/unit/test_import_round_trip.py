"""What `naslab export` writes and `naslab import` reads again: what survives in each format, and what does not."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fixtures_run import make_run
from naslab.comparison.judgement import compare
from naslab.errors import ForeignFileError
from naslab.exchange.export import FORMATS, export
from naslab.exchange.importers.build import read_file
from naslab.exchange.redact import redact
from naslab.results import Run, schema
from naslab.results.columns import CELL_COLUMNS, cell_row
from naslab.results.store import Store

ONE = {"ops": ("write", "read", "mixed", "backward_read"), "file_sizes": (1 << 20,), "record_sizes": (65536,)}
NOT_READ = ("parquet", "prometheus", "openmetrics", "series.csv", "series.parquet")
"""Formats for other programs."""


@pytest.fixture
def run() -> Run:
    return make_run(**ONE, blocks=5)


def back(run: Run | list[Run], format: str, folder: Path) -> list[Run]:
    """The runs after they went out and came back."""
    found = read_file(export(run, folder / f"x.{format}", format, force=True))
    for each in found:
        jsonschema.validate(each.document, schema.json_schema(strict=True))
    return found


def test_every_format_is_named_here() -> None:
    assert set(FORMATS) == {*NOT_READ, "json", "fio", "csv", "xlsx"}


def test_json_is_the_run_itself(run: Run, tmp_path: Path) -> None:
    (again,) = back(run, "json", tmp_path)
    assert again.document == run.document
    for cell in run.cells:
        assert {n: again.blob(cell, n) for n in again.blob_names(cell)} == {
            n: run.blob(cell, n) for n in run.blob_names(cell)
        }
    stores = [Store(tmp_path / f"{name}.sqlite") for name in "ab"]
    for store, each in zip(stores, (run, again), strict=True):
        store.save(each.document, {c["id"]: {n: each.blob(c, n) for n in each.blob_names(c)} for c in each.cells})
    first, second = (export(store.load("last"), tmp_path / f"{at}.json") for at, store in enumerate(stores))
    assert first.read_bytes() == second.read_bytes()


def test_a_redacted_run_comes_back_as_redacted(run: Run, tmp_path: Path) -> None:
    (again,) = back(redact(run), "json", tmp_path)
    assert again.document == json.loads(json.dumps(redact(run).document))


def columns(run: Run, cell: Any) -> dict[str, Any]:
    """Of the table, but for what belongs to the run."""
    row = zip(CELL_COLUMNS, cell_row(run.document, cell), strict=True)
    return {column.name: value for column, value in row if not column.path.startswith("run.")}


@pytest.mark.parametrize("format", ["csv", "xlsx"])
def test_tables_keep_every_column(format: str, run: Run, tmp_path: Path) -> None:
    for cell in run.cells:
        cell["regime"], cell["regime_evidence"] = "link", "94 % of the link, told by its rate"
    other = make_run(**ONE, run_id="20261121-090000-abcd", label="=another", speed=0.5)
    found = back([run, other], format, tmp_path)
    assert [each.document["label"] for each in found] == [run.document["label"], "=another"]
    for mine, theirs in zip((run, other), found, strict=True):
        assert theirs.run_id != mine.run_id
        assert theirs.document["target"]["url"] == mine.document["target"]["url"]
        source = theirs.document["source"]
        assert source is not None
        assert (source["tool"], source["format"], source["title"]) == ("naslab", f"naslab-{format}", mine.run_id)
        assert {"series", "kinds", "workers_detail"} <= set(source["unknown"])
        assert not {"spread", "latency_ns.p99", "target", *(["regime"] if mine is run else [])} & set(source["unknown"])
        for one, again in zip(mine.cells, theirs.cells, strict=True):
            assert columns(theirs, again) == (close(columns(mine, one)) if format == "xlsx" else columns(mine, one))


def close(values: dict[str, Any]) -> dict[str, Any]:
    """As a workbook keeps them: 15 digits, times to the millisecond."""
    kept = {name: pytest.approx(v, rel=1e-14) if isinstance(v, float) else v for name, v in values.items()}
    return {**kept, "start_wall_ns": values["start_wall_ns"] // 10**6 * 10**6}


def test_a_table_edited_where_commas_are_decimal_points(run: Run, tmp_path: Path) -> None:
    path = export(run, tmp_path / "x.csv")
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerows([head, *([v.replace(".", ",") for v in row] for row in rows)])
    path.write_bytes(text.getvalue().encode("cp1252"))
    (again,) = read_file(path)
    assert [cell["throughput_bytes_per_s"] for cell in again.cells] == [
        cell["throughput_bytes_per_s"] for cell in run.cells
    ]


def test_fio_json_keeps_work_latency_and_names(run: Run, tmp_path: Path) -> None:
    other = make_run(**ONE, run_id="20261121-090000-abcd", blocks=1)
    first, second = back([run, other], "fio", tmp_path)
    assert len(second.cells) == len(other.cells)
    source = first.document["source"]
    assert source is not None and (source["tool"], source["title"]) == ("naslab", run.run_id)
    for mine, theirs in zip(run.cells, first.cells, strict=True):
        same = ("op", "file_bytes", "record_bytes", "queue_depth", "workers", "block", "durability", "cache_state",
                "bytes", "ops", "iops", "errors", "write_fraction", "direct", "wire_bytes", "workload")  # fmt: skip
        assert {name: theirs[name] for name in same} == {name: mine[name] for name in same}
        assert theirs["throughput_bytes_per_s"] == pytest.approx(mine["throughput_bytes_per_s"], abs=1)
        assert abs(theirs["duration_ns"] - mine["duration_ns"]) <= 500_000  # fio's milliseconds
        assert theirs["latency_ns"]["mean"] == mine["latency_ns"]["mean"]
        for kind in ("read", "write"):
            if kind in mine["kinds"]:
                assert first.blob(theirs, f"latency:{kind}") == run.blob(mine, f"latency:{kind}")
    assert {"series", "window_ns", "cpu_user_ns"} <= set(source["unknown"])


@pytest.mark.parametrize("format", ["json", "csv", "xlsx", "fio"])
def test_what_came_back_is_equivalent(format: str, run: Run, tmp_path: Path) -> None:
    (again,) = back(run, format, tmp_path)
    found = compare([run.document], [again.document], ("out", "back"))
    rates = [row for row in found.rows if row.key.measure in ("throughput", "iops")]
    assert len(rates) == 4 and all(row.judged.ratio.value == pytest.approx(1, abs=1e-5) for row in rates)


@pytest.mark.parametrize("format", ["prometheus", "openmetrics", "series.csv"])
def test_what_is_not_read_is_named(format: str, run: Run, tmp_path: Path) -> None:
    path = export(run, tmp_path / f"x.{format}", format)
    with pytest.raises(ForeignFileError, match=r"this looks like .*known formats"):
        read_file(path)
