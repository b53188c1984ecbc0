"""Runs that naslab did not measure: the part `source`, what may be null, and that every reader copes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fixtures_run import make_run
from naslab.comparison.judgement import compare
from naslab.exchange.export import export
from naslab.render.report import write
from naslab.render.terminal.show import show_run
from naslab.results import Run, schema
from naslab.results.foreign import foreign_cell, foreign_document, is_foreign
from naslab.results.parts.cell import unreported_fields
from naslab.results.store import Store

SOURCE = {"kind": "published", "tool": "naspt", "format": "article", "title": "A review", "place": "page 3, table 1"}


def bare(**more: Any) -> Run:
    """A run that tells rates only: a sweep of two sizes, one rate without sizes, one application."""
    cells = [
        foreign_cell(0, "write", 50e6, file_bytes=1 << 30, record_bytes=1 << 16),
        foreign_cell(1, "write", 40e6, file_bytes=2 << 30, record_bytes=1 << 16),
        foreign_cell(2, "read", 60e6),
        foreign_cell(3, "read", 70e6, workload="HDVideo_1Play"),
    ]
    return Run(foreign_document("20130101-000000-aaaa", SOURCE, cells, **more))


def test_the_document_is_as_its_schema_says() -> None:
    document = bare(target="NAS-4220", label="a NAS").document
    jsonschema.validate(document, schema.json_schema(strict=True))
    assert is_foreign(document)
    unknown = document["source"]["unknown"]  # type: ignore[index]
    assert {"cpu_fraction", "latency_ns.p99", "spread", "regime", "start_wall_ns"} <= set(unknown)
    assert not {"file_bytes", "iops", "target"} & set(unknown)


def test_own_runs_have_none_of_it() -> None:
    document = make_run().document
    assert not is_foreign(document)
    assert all(cell[name] is not None for cell in document["cells"] for name in unreported_fields())


def test_what_follows_is_filled_in_and_nothing_else() -> None:
    cell = foreign_cell(0, "random_write", 65536e3, record_bytes=1 << 16)
    assert (cell["iops"], cell["throughput_mib_per_s"], cell["write_fraction"]) == (1000, 62.5, 1.0)
    assert all(cell[name] is None for name in ("file_bytes", "bytes", "duration_ns", "workers", "direct"))
    with pytest.raises(ValueError, match="recrod"):
        foreign_cell(0, "read", 1.0, recrod=1)


def test_every_reader_copes(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    store.save(bare().document)
    run = store.load("last")
    text = show_run(run, 120, False)
    assert "published: naspt, A review, page 3, table 1" in text
    assert "not reported" in text
    page = write([run, make_run()], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "50" in page
    for ending in ("json", "csv", "xlsx"):
        assert export(run, tmp_path / f"out.{ending}").stat().st_size
    assert run.table()["throughput_bytes_per_s"].tolist() == [50e6, 40e6, 60e6, 70e6]
    assert run.grid("write")[2].tolist() == [[50e6], [40e6]]
    assert [found.run_id for found in store.list_runs()] == [run.run_id]


def test_comparison_has_a_ratio_and_no_verdict() -> None:
    own = make_run(ops=("write",), file_sizes=(1 << 30,), record_sizes=(1 << 16,), blocks=5)
    found = compare([own.document], [bare().document], ("own", "published"))
    assert len(found.rows) == 1  # depth, workers and durability are not told: they match what was measured
    rate = own.grid("write")[2][0, 0]
    assert found.rows[0].judged.ratio.value == pytest.approx(50e6 / rate, rel=0.1)
    assert found.rows[0].judged.verdict is None
    assert any(doubt.kind == "foreign" and "no verdict" in doubt.message for doubt in found.doubts)
