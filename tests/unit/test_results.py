"""The run document, its schema and `Run`."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest

import naslab
from fixtures_run import RUN_ID, engine_result, make_parts, make_run
from naslab.errors import StoreError, UsageError
from naslab.results import Run, cell_blobs, cell_document, document, new_document, run, schema, schema_experiment
from naslab.results.columns import CELL_COLUMNS
from naslab.results.histogram import decode, merge
from naslab.results.parts.cell import CellDocument
from naslab.results.parts.run import RunDocument
from naslab.results.run import MemoryBlobs
from naslab.results.schema_maker import json_schema, title
from naslab.results.store import Store
from naslab.spec import CellSpec

ROOT = Path(__file__).parent.parent.parent
SECOND = 10**9


def result(**more: Any) -> dict[str, Any]:
    """An engine result of 1000 reads of 1000 bytes in 2 s."""
    latency = {"min": 1, "mean": 2, "p50": 2, "p90": 3, "p99": 3, "p99_9": 4, "max": 4}
    kinds = {"read": {"ops": 1000, "bytes": 10**6, "latency_ns": latency, "histogram": 0, "response_ns": None}}
    base = {
        "id": 7, "bytes": 10**6, "ops": 1000, "errors": 0, "duration_ns": 2 * SECOND, "window_ns": 4 * SECOND,
        "acknowledged_ns": SECOND, "flush_ns": None, "cpu_user_ns": SECOND, "cpu_system_ns": SECOND, "kinds": kinds,
    }  # fmt: skip
    return {**base, **more}


SPEC = {"op": "read", "file_bytes": 10**6, "record_bytes": 1000}


# the document


def test_rates_are_what_the_schema_says() -> None:
    cell = cell_document(SPEC, result(flush_ns=3 * SECOND))
    assert cell["id"] == 7
    assert cell["throughput_bytes_per_s"] == 500_000
    assert cell["throughput_mib_per_s"] == 500_000 / 2**20
    assert cell["acknowledged_bytes_per_s"] == 1_000_000
    assert cell["durable_bytes_per_s"] == 250_000
    assert cell["iops"] == 500
    assert cell["cpu_fraction"] == 0.5
    assert cell["latency_ns"]["p99"] == 3


def test_durable_only_when_it_was_made_so() -> None:
    assert cell_document(SPEC, result())["durable_bytes_per_s"] is None
    each = {**SPEC, "durability": "each"}
    assert cell_document(each, result())["durable_bytes_per_s"] is None  # nothing was written
    write = result(kinds={"write": result()["kinds"]["read"]})
    assert cell_document(each, write)["durable_bytes_per_s"] == 1_000_000


def test_a_cell_that_did_nothing() -> None:
    cell = cell_document(SPEC, {"id": 1, "status": "failed", "stop_reason": "error", "first_error": "gone"})
    assert (cell["throughput_bytes_per_s"], cell["iops"], cell["cpu_fraction"]) == (0, 0, 0)
    assert set(cell["latency_ns"].values()) == {None}
    assert cell["wire_bytes"] is None


def test_wire_bytes_are_both_ways() -> None:
    cell = cell_document(SPEC, result(wire={"sent_bytes": 5, "received_bytes": 7}))
    assert (cell["wire_bytes"], cell["wire_sent_bytes"], cell["wire_received_bytes"]) == (12, 5, 7)


def test_percentiles_never_pass_the_maximum() -> None:
    kinds = {
        "read": {**result()["kinds"]["read"], "latency_ns": {**dict.fromkeys(document.LATENCY_NAMES, 9), "max": 8}}
    }
    cell = cell_document(SPEC, result(kinds=kinds))
    assert cell["latency_ns"]["p99_9"] == cell["kinds"]["read"]["latency_ns"]["p50"] == 8


def mixed(pace: float | None = None) -> tuple[dict[str, Any], dict[int, dict[str, bytes]], Any]:
    return make_parts(ops=("mixed",), file_sizes=(8 << 20,), record_sizes=(4096,), blocks=1, pace_per_s=pace)


@pytest.mark.parametrize("pace", [None, 50.0])
def test_latency_of_a_mix_is_of_all_its_operations(pace: float | None) -> None:
    made, blobs, _ = mixed(pace)
    cell, name = made["cells"][0], "response" if pace else "latency"
    both = merge(decode(blobs[0][f"{name}:{kind}"]) for kind in ("read", "write"))
    assert cell["latency_clock"] == ("response" if pace else "service")
    assert cell["offered_per_s"] == pace
    assert cell["latency_ns"]["p50"] == both.quantiles([0.5])[0]
    field = "response_ns" if pace else "latency_ns"
    assert cell["latency_ns"]["max"] == max(cell["kinds"][k][field]["max"] for k in ("read", "write"))
    in_memory = Run(made, MemoryBlobs(blobs))  # type: ignore[arg-type]
    assert in_memory.quantiles(0, [0.5, 0.99])[0] == cell["latency_ns"]["p50"]


def test_latency_of_a_mix_without_histograms_has_no_percentiles() -> None:
    import random

    spec = CellSpec("mixed", 8 << 20, 4096, ["f"], write_fraction=0.5, pattern="random")
    found, _ = engine_result(spec, random.Random(1))
    latency = cell_document(dataclasses.asdict(spec), found)["latency_ns"]
    assert latency["p50"] is None
    assert latency["min"] is not None
    assert latency["mean"] is not None


def test_blobs_get_their_names() -> None:
    found = result(series=1, op_log=None)
    found["kinds"]["read"] |= {"response_histogram": 2}
    assert cell_blobs(found, [b"a", b"b", b"c"]) == {"latency:read": b"a", "series": b"b", "response:read": b"c"}


# the schema


def validator() -> Any:
    return jsonschema.Draft202012Validator(schema.json_schema(strict=True))


@pytest.mark.parametrize("options", [{}, {"ops": ("mixed",), "pace_per_s": 50.0}, {"blocks": 1, "op_log": True}])
def test_documents_are_valid(options: dict[str, Any]) -> None:
    validator().validate(make_parts(file_sizes=(1 << 20, 4 << 20), **options)[0])


def test_a_run_that_has_just_begun_is_valid() -> None:
    validator().validate(new_document(RUN_ID, "run", {"url": "/x", "protocol": "local"}, argv=["naslab"]))
    cell = cell_document(SPEC, {"id": 1, "status": "failed"})
    validator().validate({**new_document(RUN_ID, "run", {"url": "", "protocol": "null"}), "cells": [cell]})


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"status": "odd"}, {"cells": [{}]}, {"run_id": 5}, {"surprise": 1}, {"warnings": ["text"]}],
)
def test_wrong_documents_are_not(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator().validate({**new_document(RUN_ID, "run", {"url": "", "protocol": "null"}), **change})


@pytest.mark.parametrize("options", [{}, {"ops": ("mixed",), "pace_per_s": 50.0}])
def test_documents_are_of_their_types(options: dict[str, Any]) -> None:
    made = make_parts(file_sizes=(1 << 20,), **options)[0]
    whole = msgspec.to_builtins(msgspec.convert(made, RunDocument))
    facts = {"target", "environment"}  # that more than their types describe
    assert whole["cells"] and {k: v for k, v in whole.items() if k not in facts} == {
        k: v for k, v in made.items() if k not in facts
    }
    with pytest.raises(msgspec.ValidationError, match=">= 1"):
        msgspec.convert({**made, "cells": [{**made["cells"][0], "workers": 0}]}, RunDocument)


def test_every_part_is_described_and_used() -> None:
    """No part without a heading, none that no document can hold, and each under its own name."""
    for tables in (schema.TABLES, schema_experiment.TABLES):
        assert len(set(tables.values())) == len(tables) and all(map(title, tables.values()))
        used = re.findall(r'"#/\$defs/(\w+)"', json.dumps(json_schema(tables, 1, False)))
        assert set(used) == set(tables) - {next(iter(tables))}


FIXED_NAMES = """op file_bytes record_bytes queue_depth workers block durability cache_state bytes ops errors
    duration_ns acknowledged_bytes_per_s durable_bytes_per_s throughput_bytes_per_s iops cpu_fraction latency_ns
    wire_bytes regime predicted"""
"""Of a cell: promised to programs that read `--json`."""


def test_the_fixed_names_are_there() -> None:
    assert set(FIXED_NAMES.split()) <= set(CellDocument.__struct_fields__)
    assert {"schema", "naslab_version", "run_id", "command", "status", "warnings", "target", "cells", "verdict"} <= set(
        RunDocument.__struct_fields__
    )


@pytest.mark.parametrize("name", schema.files())
def test_the_reference_is_fresh(name: str, tmp_path: Path) -> None:
    assert schema.main([str(tmp_path)]) == 0
    made = (tmp_path / name).read_text()
    assert (ROOT / "docs" / "reference" / name).read_text() == made, (
        "stale: run python -m naslab.results.schema docs/reference"
    )


def test_schema_command_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema.main([]) == 2
    assert "usage" in capsys.readouterr().err


# Run


def test_series_adds_up_to_the_cell() -> None:
    made = make_run(ops=("read", "mixed"), file_sizes=(256 << 20,), blocks=1)
    for cell in made.cells:
        rows = made.series(cell)
        assert rows.dtype.names == ("t_s", *run.SERIES_COLUMNS)
        assert rows["read_ops"].sum() + rows["write_ops"].sum() == cell["ops"]
        assert rows["read_bytes"].sum() + rows["write_bytes"].sum() == cell["bytes"]
        np.testing.assert_allclose(rows["t_s"], np.arange(len(rows)) * cell["interval_ns"] / 1e9)
        assert (made.series(cell["id"]) == rows).all()


def test_histogram_and_quantiles_match_the_document() -> None:
    made = make_run(ops=("read",), file_sizes=(4 << 20,), blocks=1)
    for cell in made.cells:
        values_ns, counts = made.histogram(cell)
        assert counts.sum() == cell["ops"]
        assert (np.diff(values_ns) > 0).all()
        p50, p99 = made.quantiles(cell, [0.5, 0.99], "latency:read")
        latency = cell["latency_ns"]
        assert (min(p50, latency["max"]), min(p99, latency["max"])) == (latency["p50"], latency["p99"])


def test_op_log() -> None:
    made = make_run(ops=("read",), file_sizes=(1 << 20,), record_sizes=(65536,), blocks=1, op_log=True)
    log = made.op_log(0)
    assert log.dtype.names == run.OP_LOG_COLUMNS
    assert log["offset_bytes"].tolist() == list(range(0, 1 << 20, 65536))
    assert len(make_run(ops=("read",), file_sizes=(1 << 20,)).op_log(0)) == 0


def test_missing_and_damaged_raw_data_is_told() -> None:
    made, _, _ = mixed()
    bare = Run(made, MemoryBlobs({0: {"series": b"x" * 55, "latency:read": b"junk"}}))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="it has latency:read, series"):
        bare.histogram(0, "latency:write")
    with pytest.raises(StoreError, match="whole rows"):
        bare.series(0)
    with pytest.raises(StoreError):
        bare.histogram(0)
    with pytest.raises(UsageError, match="no cell 99"):
        bare.series(99)
    with pytest.raises(UsageError, match="no latency histogram"):
        Run(made).histogram(0)  # type: ignore[arg-type]


def test_grid_is_the_median_of_repeats() -> None:
    made = make_run(ops=("read", "write"), file_sizes=(65536, 1 << 20), blocks=3)
    files, records, matrix = made.grid("read")
    assert (files.tolist(), records.tolist(), matrix.shape) == ([65536, 1 << 20], [4096, 65536, 1 << 20], (2, 3))
    assert np.isnan(matrix[0, 2])
    repeats = [
        c["throughput_bytes_per_s"]
        for c in made.cells
        if (c["op"], c["file_bytes"], c["record_bytes"]) == ("read", 1 << 20, 4096)
    ]
    assert matrix[1, 0] == np.median(repeats)
    assert made.grid("read", "latency_ns.p99")[2][1, 0] > 0
    assert made.grid("read", where={"block": 1})[2][1, 0] == repeats[1]
    assert made.grid("read", where=lambda cell: cell["block"] == 2)[2][1, 0] == repeats[2]
    made.cells[0]["status"] = "failed"
    assert made.ops() == made.sweep_ops() == ["read", "write"]
    with pytest.raises(UsageError, match="it has read, write"):
        made.grid("reread")


def test_grid_leaves_failed_cells_out() -> None:
    made = make_run(ops=("read",), file_sizes=(1 << 20,), record_sizes=(4096,), blocks=2)
    made.cells[0]["status"] = "failed"
    assert made.grid("read")[2][0, 0] == made.cells[1]["throughput_bytes_per_s"]
    made.cells[1]["status"] = "failed"
    assert made.grid("read")[2].shape == (0, 0)


def test_table_has_a_row_a_cell() -> None:
    made = make_run(ops=("read", "write"), file_sizes=(1 << 20,), blocks=1)
    table = made.table()
    assert table.dtype.names == tuple(column.name for column in CELL_COLUMNS)
    assert table["op"].tolist() == [c["op"] for c in made.cells]
    assert table["bytes"].dtype == np.int64
    assert np.isnan(table["durable_bytes_per_s"][table["op"] == "read"]).all()
    assert len(Run(new_document(RUN_ID, "run", {"url": "", "protocol": "null"})).table()) == 0


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    made = make_run(ops=("read", "write"), file_sizes=(1 << 20,), blocks=1)
    frame = made.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["throughput_bytes_per_s"].tolist() == made.table()["throughput_bytes_per_s"].tolist()


def test_polars() -> None:
    pytest.importorskip("polars", reason="polars is not installed")
    made = make_run(ops=("read", "write"), file_sizes=(1 << 20,), blocks=1)
    assert made.to_polars()["bytes"].to_list() == made.table()["bytes"].tolist()


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_an_absent_library_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"pip install {name}"):
        getattr(make_run(ops=("read",), file_sizes=(1 << 20,)), f"to_{name}")()


def test_every_column_is_a_documented_field() -> None:
    cells = set(CellDocument.__struct_fields__)
    for column in CELL_COLUMNS:
        first = column.path.split(".")[0]
        assert first == "run" or first in cells, column
    assert len({column.name for column in CELL_COLUMNS}) == len(CELL_COLUMNS)


def test_json_has_no_nan(run: Run) -> None:
    assert json.loads(run.to_json()) == run.document
    run.cells[0]["iops"] = float("nan")
    with pytest.raises(StoreError, match="JSON"):
        run.to_json()


def test_nothing_slow_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, naslab.results.store, naslab.results, naslab.render.terminal.show, naslab.exchange.export\n"
        "print(sorted({'numpy', 'rich', 'openpyxl', 'pandas', 'platformdirs', 'jsonschema'} & sys.modules.keys()))"
    )
    folder = str(Path(naslab.__file__).parent.parent)
    ended = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_no_command_holds_scipy() -> None:
    """Seen: 60 MiB and a second at each start, and clients of 144 MiB of memory that thrashed instead of measuring."""
    code = "import sys, naslab.explain.any_run, naslab.explain.menu; print('scipy' in sys.modules)"
    folder = str(Path(naslab.__file__).parent.parent)
    ended = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"


@pytest.mark.parametrize("words", [["runs"], ["--version"], ["export", "last", "-o", "out.csv"], ["clean", "."]])
def test_short_commands_do_without_numpy(words: list[str], tmp_path: Path) -> None:
    """It takes longer to load than all the rest of `naslab runs`."""
    with Store(tmp_path / "runs.sqlite") as store:
        store.save(make_run(ops=("read",), file_sizes=(1 << 20,)).document)
    code = f"import sys; from naslab.cli import main; main({words}); sys.exit('numpy' in sys.modules)"
    environment = {**os.environ, "NASLAB_STORE": str(tmp_path / "runs.sqlite")}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, check=True)
