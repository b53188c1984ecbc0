"""Latencies and wire bytes over time: what the engine recorded, how the map is made, what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from naslab.errors import StoreError
from naslab.execution.execute import execute
from naslab.render.report import latency_map
from naslab.results import Run
from naslab.results.run import MemoryBlobs
from naslab.results.store import Store
from naslab.spec import CellSpec, PaceSpec, RunSpec
from naslab.targets import parse_target

MB = 1_000_000
SERVER = {"link_bytes_per_s": 100 * MB, "latency_ns": 1_000_000, "client_cache_bytes": 0}


Measure = Callable[..., Run]


@pytest.fixture
def measured(tmp_path: Path) -> Measure:
    """Carries cells out on a simulated server of these fields."""

    def carry_out(cells: list[CellSpec], **server: Any) -> Run:
        fields = {name: json.dumps(value) for name, value in {**SERVER, **server}.items()}
        target = parse_target(f"sim:?{urlencode(fields)}")
        store = Store(tmp_path / "store.sqlite")
        return execute(RunSpec(target.engine_spec(), cells, folder=""), target=target, store=store)

    return carry_out


def load(cell_id: int = 0, **more: Any) -> CellSpec:
    made: dict[str, Any] = {
        "op": "write", "file_bytes": 64 << 20, "record_bytes": 1 << 20, "files": ["x"], "id": cell_id,
        "write_fraction": 1.0, "create": "if_missing", "duration_ns": 4 * 10**9, "interval_ns": 10**8,
    }  # fmt: skip
    return CellSpec(**{**made, **more})


def test_each_operation_is_in_its_interval_and_bucket(measured: Measure) -> None:
    run = measured([load()])
    (cell,) = run.cells
    edges, counts = run.latency_series(cell)
    assert counts.sum() == cell["ops"] and len(counts) == len(run.series(cell))
    assert (counts.sum(axis=1) == run.series(cell)["write_ops"]).all()
    # 1 MiB at 100 MB/s and 1 ms: 11.49 ms, all of them.
    assert edges[0] <= 11.486e6 < edges[-1] and len(edges) == 2
    assert run.latency_series(cell, "read")[1].size == 0
    sent = run.wire_series(cell)
    assert sent.shape == (len(run.series(cell)), 2)
    assert sent.sum() == pytest.approx(cell["wire_bytes"], rel=0.001) and cell["wire_bytes"] >= cell["bytes"]


def test_open_loop_counts_from_the_due_time(measured: Measure) -> None:
    # Twice what the link carries: the queue grows by a second each second.
    run = measured([load(pace=PaceSpec(200.0), queue_depth=4)])
    found = latency_map.latency_map(run, run.cells)
    assert found is not None
    most = found.quantile_ns(0.99)
    assert most[-1] > 1.5e9 and most[0] < 0.2e9
    assert run.cells[0]["latency_clock"] == "response"


def test_wire_bytes_that_are_missing_are_seen_by_interval(measured: Measure) -> None:
    cache = {"client_cache_bytes": 256 << 20, "client_cache_bytes_per_s": 1000 * MB}
    fill = load(duration_ns=None)
    run = measured([fill, load(1, op="read", write_fraction=0.0)], **cache)
    served = run.cells[1]
    assert served["bytes"] > 3000 * MB and run.wire_series(served).sum() < 0.1 * served["bytes"]


def test_parts_are_one_map_on_one_clock(measured: Measure) -> None:
    slow = load(1, record_bytes=4 << 20)
    run = measured([load(workload="first run"), slow, load(2, workload="first run")])
    (first, middle) = latency_map.loads(run)
    assert (
        first[0] == "1 MiB writes, from the start"
        and [cell["id"] for cell in first[1]] == [0, 2]
        and first[2] == "write"
    )
    assert middle[0] == "Write, 64 MiB file, 4 MiB records"
    found = latency_map.latency_map(run, first[1])
    assert found is not None
    assert found.counts.sum() == run.cells[0]["ops"] + run.cells[2]["ops"]
    per_step = found.counts.sum(axis=1)
    assert (per_step[41:79] == 0).all() and (per_step[:39] > 0).all() and (per_step[82:118] > 0).all()
    shown = latency_map.figure(found)
    assert [trace["type"] for trace in shown["data"]] == ["heatmap", "scatter", "scatter"]
    heat = shown["data"][0]
    assert len(heat["x"]) == len(heat["z"][0]) + 1 and len(heat["y"]) == len(heat["z"]) + 1
    assert "almost constant over time" in latency_map.words(found)


def test_long_series_are_merged_and_slow_steps_named(measured: Measure) -> None:
    bucket = {"scope": "disk", "applies_to": "both", "burst_bytes_per_s": 90 * MB, "base_bytes_per_s": 5 * MB,
              "size_bytes": 2000 * MB}  # fmt: skip
    run = measured([load(duration_ns=60 * 10**9, queue_depth=4)], buckets=[bucket])
    found = latency_map.latency_map(run, run.cells)
    assert found is not None
    assert len(found.counts) <= latency_map.MOST_COLUMNS and found.starts_s[1] == pytest.approx(0.3)
    words = latency_map.words(found)
    assert "slowest at" in words and "by step of 300 ms" in words
    most = found.quantile_ns(0.99)
    dropped = int(np.argmax(most > 5 * most[1])) * 0.3
    assert dropped == pytest.approx(2000 / 85, rel=0.05)


def test_too_short_or_damaged(measured: Measure) -> None:
    short = measured([load(duration_ns=2 * 10**8)])
    assert latency_map.latency_map(short, short.cells) is None
    run = measured([load()])
    broken = Run(run.document, MemoryBlobs({0: {"latency_series:write": b"1234567", "series": run.blob(0, "series")}}))
    with pytest.raises(StoreError, match="not whole rows"):
        broken.latency_series(0)
    assert latency_map.latency_map(broken, broken.cells) is None
