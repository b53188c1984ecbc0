"""What is said of results: regimes from counted bytes, warnings, summaries."""

from __future__ import annotations

from typing import Any

import pytest

from naslab.analysis.validity import cell_findings, cell_regime, run_warnings
from naslab.render.terminal.summary import summarise


def cell(**more: Any) -> dict[str, Any]:
    latency = {"min": 1, "mean": 2, "p50": 200_000, "p90": 3, "p99": 400_000, "p99_9": 4, "max": 5}
    return {
        "id": 0, "op": "read", "workload": None, "file_bytes": 1 << 20, "record_bytes": 4096, "queue_depth": 1,
        "bytes": 1000, "duration_ns": 10**9, "kinds": {"read": {}}, "errors": 0, "errors_by_status": [],
        "first_error": None, "status": "complete", "regime": None, "direct": False, "sync": "none",
        "wire_bytes": None, "storage_read_bytes": None, "storage_write_bytes": None, "verified": None,
        "direct_proof": None, "data_measured": None, "throughput_bytes_per_s": 1e8, "iops": 24414.0,
        "ops": 10, "window_ns": 10**9, "workers": 1, "block": 0, "cpu_user_ns": 10**8, "cpu_system_ns": 10**8,
        "generation_cpu_ns": 0, "verify_cpu_ns": 0, "warmup_ops": 0, "start_ns": 10, "end_ns": 10 + 10**9,
        "latency_ns": latency, "acknowledged_bytes_per_s": 1e8, "durable_bytes_per_s": None, **more,
    }  # fmt: skip


def document(*cells: dict[str, Any], protocol: str = "local", filesystem: str | None = "ext4", **client: Any) -> Any:
    environment = {"target": {"filesystem": filesystem}, "client": {"cpus_usable": 2, "load_1min": 0.1, **client}}
    return {"command": "sweep", "target": {"protocol": protocol}, "environment": environment, "cells": list(cells)}


READ = {"storage_write_bytes": 0}
WRITE = {"kinds": {"write": {}}, "storage_read_bytes": 0, "storage_write_bytes": 1000}
REGIMES: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    ({**READ, "storage_read_bytes": 1000}, {}, "disk"),
    ({**READ, "storage_read_bytes": 980}, {}, "disk"),
    ({**READ, "storage_read_bytes": 979}, {}, "mixed"),
    ({**READ, "storage_read_bytes": 500}, {}, "mixed"),
    ({**READ, "storage_read_bytes": 499}, {}, "client_cache"),
    ({**READ, "storage_read_bytes": 0}, {}, "client_cache"),
    ({}, {}, None),
    ({"bytes": 0, **READ, "storage_read_bytes": 0}, {}, None),
    (WRITE, {}, None),
    ({**WRITE, "direct": True}, {}, "disk"),
    ({**WRITE, "sync": "all"}, {}, "disk"),
    ({**WRITE, "sync": "all", "storage_write_bytes": 0}, {}, "client_cache"),
    ({**READ, "storage_read_bytes": 0}, {"filesystem": "nfs4"}, None),
    ({**READ, "storage_read_bytes": 1000}, {"filesystem": "tmpfs"}, "client_cache"),
    ({**READ, "storage_read_bytes": 1000}, {"filesystem": None}, None),
    ({"wire_bytes": 1020}, {"filesystem": "nfs4"}, None),
    ({"wire_bytes": 100}, {"filesystem": "nfs4"}, "client_cache"),
    ({"wire_bytes": 700}, {"filesystem": "nfs4"}, "mixed"),
    ({"wire_bytes": 100}, {"protocol": "smb"}, "client_cache"),
    ({}, {"protocol": "sim", "filesystem": None}, None),
]


@pytest.mark.parametrize(("more", "where", "regime"), REGIMES)
def test_regimes(more: dict[str, Any], where: dict[str, Any], regime: str | None) -> None:
    found = cell(**more)
    assert cell_regime(found, document(found, **where)) == regime


CELL_WARNINGS: list[tuple[dict[str, Any], list[str], str]] = [
    ({}, [], ""),
    ({"direct_proof": {"proven": True, "cached_fraction": 0.0}}, [], ""),
    ({"direct_proof": {"proven": False, "cached_fraction": 0.5}}, ["not_direct"], "50 % of the file is cached"),
    ({"direct_proof": {"proven": False, "cached_fraction": None}}, ["not_direct"], "could not be proven; do not"),
    ({"verified": {"blocks": 9, "bad": 0, "first_bad": None}}, [], ""),
    ({"verified": {"blocks": 9, "bad": 2, "first_bad": "at 4096"}}, ["corrupt"], "2 records"),
    (
        {"errors": 3, "errors_by_status": [{"kind": "io", "status": 5, "count": 3}],
         "first_error": "an operation failed: io"},
        ["errors"], "3 operations failed: 3 x io (errno 5, Input/output error)",
    ),
    (
        {"errors": 1, "errors_by_status": [{"kind": "io", "status": 5, "count": 1}], "first_error": "cannot close"},
        ["errors", "error"], "1 operation failed",
    ),
    ({"data_measured": {"compress_ratio_zlib": 200.0}}, ["compressible"], "compress 200 times"),
    ({"data_measured": {"compress_ratio_zlib": 1.2, "dedupe_ratio": 4.0}}, ["dedupable"], "deduplicate 4 times"),
    ({"data_measured": {"compress_ratio_zlib": 1.0}}, [], ""),
]  # fmt: skip


@pytest.mark.parametrize(("more", "kinds", "words"), CELL_WARNINGS)
def test_cell_warnings(more: dict[str, Any], kinds: list[str], words: str) -> None:
    found = cell(id=7, **more)
    warnings = [each.warning() for each in cell_findings(found, document(found))]
    assert [w["kind"] for w in warnings] == kinds and all(w["cell"] == 7 for w in warnings)
    assert not kinds or words in warnings[0]["message"]


def test_statuses_of_other_protocols_stay_raw() -> None:
    found = cell(errors=1, errors_by_status=[{"kind": "io", "status": 0xC000007F, "count": 1}])
    assert "(status 0xc000007f)" in cell_findings(found, document(found, protocol="smb"))[0].warning()["message"]


def test_run_warnings() -> None:
    cached, disk, unknown = cell(regime="client_cache"), cell(regime="disk"), cell()

    def kinds(*cells: dict[str, Any], **client: Any) -> list[tuple[str, bool]]:
        return [(kind, "every explained cell" in text) for kind, text, _ in run_warnings(document(*cells, **client))]

    assert kinds(unknown, disk) == []
    assert kinds(cached, unknown) == [("client_cache", True)]
    assert kinds(cached, disk) == [("client_cache", False)]
    assert kinds(disk, load_1min=2.5) == [("client_busy", False)]
    assert kinds(disk, load_1min=1.9) == []


def test_summary() -> None:
    cells = [
        cell(op="write", workload="probe", throughput_bytes_per_s=9e9, kinds={"write": {}}),
        cell(op="write", kinds={"write": {}}, durable_bytes_per_s=5e7),
        cell(op="random_read", file_bytes=1 << 20, throughput_bytes_per_s=3e8, record_bytes=65536, regime="disk"),
        cell(op="random_read", file_bytes=16 << 20, throughput_bytes_per_s=1e8),
        cell(op="random_read", file_bytes=16 << 20, throughput_bytes_per_s=2e8, record_bytes=65536),
        cell(op="read", bytes=0, status="failed"),
    ]
    assert summarise(document(*cells)) == [
        "Write: up to 100 MB/s (1 MiB file, 4 KiB records).",
        "Random read: up to 300 MB/s (1 MiB file, 64 KiB records); 150 MB/s at 16 MiB (median over records).",
        "Random read of 4 KiB at queue depth 1: 24,414 IOPS, median 200 µs, p99 400 µs.",
        "Write of 1 MiB: acknowledged at 100 MB/s, 50 MB/s including the flush.",
        "Of 5 cells, 1 waiting for the disks.",
        "1 cell did not complete, marked in the table.",
    ]
    assert summarise(document()) == ["Nothing was measured."]


def test_summary_of_a_survey_puts_the_large_file_first() -> None:
    large = {"workload": "sustained", "file_bytes": 1 << 30, "record_bytes": 1 << 20}
    cells = [
        cell(op="write", workload="probe", kinds={"write": {}}),
        cell(op="write", throughput_bytes_per_s=1e8, kinds={"write": {}}),
        cell(op="reread", throughput_bytes_per_s=9e8, file_bytes=4 << 20),
        cell(op="read", throughput_bytes_per_s=7e8),
        cell(op="write", throughput_bytes_per_s=1e8, durable_bytes_per_s=5e7, kinds={"write": {}}, **large),
        cell(op="read", throughput_bytes_per_s=1.1e8, cache_state="cold", **large),
        cell(op="random_read", **{**large, "record_bytes": 4096}),
    ]
    assert summarise(document(*cells))[:4] == [
        "1 GiB file in 1 MiB records: written at 100 MB/s, 50 MB/s including the flush.",
        "1 GiB file in 1 MiB records: read at 110 MB/s, caches dropped first.",
        "Random read of 4 KiB at queue depth 1: 24,414 IOPS, median 200 µs, p99 400 µs.",
        "Files of 1 MiB to 4 MiB: writes 100 MB/s to 100 MB/s, reads 700 MB/s to 900 MB/s.",
    ]


def test_summary_without_results() -> None:
    assert summarise(document()) == ["Nothing was measured."]
    assert summarise(document(cell(bytes=0))) == ["Nothing was measured."]
