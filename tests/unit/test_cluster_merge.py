"""One cell of what many clients measured: counts, histograms, series, the common window, fairness."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from naslab import _engine
from naslab.execution.clients.merge import Part, bytes_within, jain, merge, stragglers
from naslab.results.document import cell_blobs, cell_document
from naslab.results.histogram import decode
from naslab.spec import CellSpec, RunSpec

SECOND = 1_000_000_000


def measured(seed: int, **more: Any) -> tuple[dict[str, Any], list[bytes]]:
    """A cell of the simulated server, as the engine gives it."""
    written = CellSpec("write", 8 << 20, 1 << 20, ["naslab.f"], create="if_missing", write_fraction=1.0)
    cell = CellSpec("random_read", 8 << 20, 4096, ["naslab.f"], id=1, pattern="random", **more)
    cell.duration_ns, cell.interval_ns = SECOND, SECOND // 10
    target = {"protocol": "sim", "options": {"seed": seed, "latency_ns": 300_000, "jitter": 0.3, "store_data": False}}
    run = _engine.open_run(RunSpec(target, [], run_id=f"r{seed}", folder=f"naslab-{seed}").to_json(), "{}", 8)
    found: list[tuple[dict[str, Any], list[bytes]]] = []

    def heard(kind: str, text: str, blobs: list[bytes]) -> None:
        if kind == "cell":
            found.append((json.loads(text), list(blobs)))

    run.stage(json.dumps([_plain(written), _plain(cell)]), heard)
    run.finish()
    return found[1]


def _plain(cell: CellSpec) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(cell)


def part(client: int, result: dict[str, Any], blobs: list[bytes], start_ns: int) -> Part:
    """Of a client whose clock is moved so that it starts at `start_ns`."""
    shift = start_ns - int(result["start_ns"])
    return Part(client, result, blobs, lambda there: there + shift, 1000)


@pytest.fixture(scope="module")
def cells() -> list[tuple[dict[str, Any], list[bytes]]]:
    return [measured(seed) for seed in (1, 2, 3)]


def test_one_client_is_itself(cells: list[tuple[dict[str, Any], list[bytes]]]) -> None:
    result, blobs = cells[0]
    merged, merged_blobs = merge([part(0, result, blobs, 5 * SECOND)], 5 * SECOND)
    for name in ("bytes", "ops", "errors", "window_ns", "duration_ns", "acknowledged_ns", "interval_ns", "status"):
        assert merged[name] == result[name], name
    for name, value in merged["kinds"]["read"]["latency_ns"].items():
        assert value == pytest.approx(result["kinds"]["read"]["latency_ns"][name], rel=0.002), name
    assert merged_blobs[merged["series"]] == blobs[result["series"]]
    assert merged["clients"]["fairness"] == 1.0 and merged["clients"]["start_skew_ns"] == 0


def test_counts_add_up_and_percentiles_are_of_all(cells: list[tuple[dict[str, Any], list[bytes]]]) -> None:
    parts = [part(at, *each, 5 * SECOND + at * 1_000_000) for at, each in enumerate(cells)]
    merged, blobs = merge(parts, 5 * SECOND)
    assert merged["bytes"] == sum(each[0]["bytes"] for each in cells)
    together = sorted(value for result, own in cells for value in _values(own[result["kinds"]["read"]["histogram"]]))
    summary = merged["kinds"]["read"]["latency_ns"]
    for quantile, name in ((0.5, "p50"), (0.99, "p99")):
        exact = together[int(np.ceil(quantile * len(together))) - 1]
        assert abs(summary[name] - exact) <= 0.002 * exact + 1, name
    assert summary["max"] == max(each[0]["kinds"]["read"]["latency_ns"]["max"] for each in cells)
    series = np.frombuffer(blobs[merged["series"]], "<i8").reshape(-1, 7)
    assert series[:, 1].sum() == merged["kinds"]["read"]["bytes"]
    latencies = np.frombuffer(blobs[merged["kinds"]["read"]["latency_series"]], "<u4").reshape(-1, 3)
    assert latencies[:, 2].sum() == merged["kinds"]["read"]["ops"]
    assert len(merged["workers"]) == 3 and [each["client"] for each in merged["workers"]] == [0, 1, 2]
    spec = CellSpec("random_read", 8 << 20, 4096, ["f"])
    document = cell_document(_plain(spec), merged, blobs)
    assert document["throughput_bytes_per_s"] == merged["clients"]["common_bytes_per_s"]
    assert set(cell_blobs(merged, blobs)) == {"latency:read", "latency_series:read", "series", "wire_series"}


def _values(blob: bytes) -> list[int]:
    histogram = decode(blob)
    return [int(each) for each in np.repeat(histogram.values_ns, histogram.counts)]


def test_the_common_window_is_where_all_were_under_load(cells: list[tuple[dict[str, Any], list[bytes]]]) -> None:
    """The second begins 0.3 s late: what each moved while the other stood is in neither's share."""
    parts = [part(at, *cells[at], 5 * SECOND + at * 300_000_000) for at in (0, 1)]
    clients = merge(parts, 5 * SECOND)[0]["clients"]
    assert clients["start_skew_ns"] == 300_000_000
    assert abs(clients["common_window_ns"] - 700_000_000) < 30_000_000
    whole = sum(cells[at][0]["bytes"] for at in (0, 1))
    assert 0.6 * whole < clients["common_bytes"] < 0.8 * whole
    assert clients["last_done_bytes_per_s"] < 0.8 * clients["common_bytes_per_s"]


def test_series_of_late_clients_are_laid_where_they_belong(cells: list[tuple[dict[str, Any], list[bytes]]]) -> None:
    merged, blobs = merge([part(0, *cells[0], 0), part(1, *cells[1], 250_000_000)], 0)
    rows = np.frombuffer(blobs[merged["series"]], "<i8").reshape(-1, 7)
    alone = np.frombuffer(cells[0][1][cells[0][0]["series"]], "<i8").reshape(-1, 7)
    assert (rows[:2, :6] == alone[:2, :6]).all(), "the second had not begun"
    late = np.frombuffer(cells[1][1][cells[1][0]["series"]], "<i8").reshape(-1, 7)
    assert abs(rows[2, 1] - alone[2, 1] - late[0, 1] / 2) <= 1, "half of its first interval lies in the third"


def test_bytes_between_two_times(cells: list[tuple[dict[str, Any], list[bytes]]]) -> None:
    one = part(0, *cells[0], 0)
    total = one.result["bytes"]
    halves = bytes_within(one, 0, SECOND // 2) + bytes_within(one, SECOND // 2, 2 * SECOND)
    assert abs(halves - total) < 1e-6 * total + 1
    assert bytes_within(one, -5, 10 * SECOND) == total
    assert bytes_within(one, 3 * SECOND, 4 * SECOND) == 0


def test_fairness_and_stragglers() -> None:
    assert jain([5.0, 5.0, 5.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([0.0, 0.0]) is None
    assert stragglers([100.0, 99.0, 101.0, 40.0], [0, 1, 2, 3]) == [3]
    assert stragglers([100.0, 40.0], [0, 1]) == [], "of two nobody can say who is slow"


def test_a_client_that_failed_makes_the_cell_fail(cells: list[tuple[dict[str, Any], list[bytes]]]) -> None:
    broken = {**cells[1][0], "status": "failed", "stop_reason": "error", "first_error": "gone", "errors": 2,
              "errors_by_status": [{"kind": "io", "status": 5, "count": 2}]}  # fmt: skip
    merged, _ = merge([part(0, *cells[0], 0), part(1, broken, cells[1][1], 0)], 0)
    assert (merged["status"], merged["stop_reason"], merged["first_error"]) == ("failed", "error", "gone")
    assert merged["errors_by_status"] == [{"kind": "io", "status": 5, "count": 2}]


def test_each_client_keeps_its_conditions_beside_its_number(cells: list[tuple[dict[str, Any], list[bytes]]]) -> None:
    limits = (2.0, 0.5)
    results = [{**cells[at][0], "client": {"cpu_limit_cores": limit}} for at, limit in enumerate(limits)]
    parts = [part(at, each, cells[at][1], SECOND) for at, each in enumerate(results)]
    merged, _ = merge(parts, SECOND)
    assert merged["client"]["cpu_limit_cores"] == sum(limits)
    assert [each["client"] for each in merged["clients"]["each"]] == [0, 1]
    assert [each["conditions"]["cpu_limit_cores"] for each in merged["clients"]["each"]] == list(limits)
