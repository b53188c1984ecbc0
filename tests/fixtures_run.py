"""A fixed synthetic run for tests: a whole document with its raw data, made without measuring anything.

The server it pretends to be: 1 GbE (117.5 MB/s), 250 us per request, 128 MiB of cache, a disk of 60 MB/s
that needs 8 ms to seek. Same arguments, same bytes: only additions, products and divisions are used.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from naslab.results import Run, cell_blobs, cell_document, iso_utc, new_document, warning
from naslab.results.histogram import from_values
from naslab.results.run import MemoryBlobs
from naslab.spec import CellSpec, PaceSpec, RunSpec

LINK_BYTES_PER_S = 117_500_000
DISK_BYTES_PER_S = 60_000_000
CACHE_BYTES = 128 << 20
REQUEST_NS = 250_000
SEEK_NS = 8_000_000
START_WALL_NS = 1_795_200_000 * 10**9  # 2026-11-20T18:40:00Z
RUN_ID = "20261120-184000-x7k2"
OPS = ("write", "rewrite", "read", "reread", "random_read", "random_write", "mixed")
FILE_SIZES = (*((1 << 20) << step for step in range(0, 10, 2)), 512 << 20)
RECORD_SIZES = (4 << 10, 64 << 10, 1 << 20)
MAX_SAMPLES = 120

TARGET: dict[str, Any] = {
    "url": "smb://tester@nas.example/bench", "protocol": "smb", "dialect": "3.1.1", "signing": "aes-gmac",
    "encryption": None, "server": "Samba 4.20", "credits": 512, "free_bytes": 2_000_000_000_000,
}  # fmt: skip
ENVIRONMENT: dict[str, Any] = {
    "client": {
        "host": "client.example", "kernel": "Linux 6.8.0", "cpu": "Example CPU @ 3.0 GHz", "cpus": 4,
        "ram_bytes": 16 << 30, "nic": "eth0", "nic_bits_per_s": 1_000_000_000, "mtu": 1500,
    },
    "python": "3.12.1",
}  # fmt: skip


def make_run(**options: Any) -> Run:
    """The run of `make_parts` with the same options, held in memory."""
    document, blobs, _ = make_parts(**options)
    return Run(document, MemoryBlobs(blobs))  # type: ignore[arg-type]


def make_parts(  # noqa: PLR0913 - every one by name
    *,
    ops: Sequence[str] = OPS,
    file_sizes: Sequence[int] = FILE_SIZES,
    record_sizes: Sequence[int] = RECORD_SIZES,
    blocks: int = 2,
    seed: int = 1,
    run_id: str = RUN_ID,
    command: str = "sweep",
    status: str = "complete",
    label: str | None = "example NAS, one disk",
    speed: float = 1.0,
    interval_ns: int = 1_000_000_000,
    op_log: bool = False,
    pace_per_s: float | None = None,
    start_wall_ns: int = START_WALL_NS,
) -> tuple[dict[str, Any], dict[int, dict[str, bytes]], RunSpec]:
    """(document, {cell id: {blob name: bytes}}, spec) of a sweep: ops x file sizes x records <= file x blocks.

    speed: scales link and disk (0.9 = a server 10 % slower). interval_ns: of the series.
    """
    rng = random.Random(seed)
    spec = RunSpec({"url": TARGET["url"]}, [], run_id=run_id, command=command, seed=seed)
    document: dict[str, Any] = new_document(  # type: ignore[assignment]
        run_id, command, deepcopy(TARGET), environment=deepcopy(ENVIRONMENT), label=label, seed=seed,
        argv=["naslab", command, TARGET["url"]], start_wall_ns=start_wall_ns,
    )  # fmt: skip
    blobs: dict[int, dict[str, bytes]] = {}
    clock_ns = 5_000_000_000
    grid = [(b, f, r, o) for b in range(blocks) for f in file_sizes for r in record_sizes if r <= f for o in ops]
    for at in grid:
        cell = _spec_cell(len(spec.cells), at, interval_ns, pace_per_s)
        spec.cells.append(cell)
        result, raw = engine_result(cell, rng, clock_ns, speed=speed, op_log=op_log, start_wall_ns=start_wall_ns)
        clock_ns = result["end_ns"] + 50_000_000
        document["cells"].append(cell_document(dataclasses.asdict(cell), result, raw))
        blobs[cell.id] = cell_blobs(result, raw)
    document["status"] = status
    document["end_wall_ns"] = start_wall_ns + clock_ns
    document["finished_at"] = iso_utc(document["end_wall_ns"])
    document["warnings"].append(warning("no_free_space_check", "the server did not say how much space is free"))
    return document, blobs, spec


def _spec_cell(cell_id: int, at: tuple[int, int, int, str], interval_ns: int, pace_per_s: float | None) -> CellSpec:
    block, file_bytes, record_bytes, op = at
    write = 1.0 if "write" in op else 0.5 if op == "mixed" else 0.0
    return CellSpec(
        op, file_bytes, record_bytes, [f"f{file_bytes}"], id=cell_id, block=block, write_fraction=write,
        pattern="random" if op == "mixed" else "permutation" if op.startswith("random") else "sequential",
        durability="end" if write else "none", flush="all" if write else "none", interval_ns=interval_ns,
        cache_state="warm", pace=PaceSpec(pace_per_s) if pace_per_s else None,
    )  # fmt: skip


def engine_result(
    cell: CellSpec,
    rng: random.Random,
    start_ns: int = 0,
    *,
    speed: float = 1.0,
    op_log: bool = False,
    start_wall_ns: int = START_WALL_NS,
) -> tuple[dict[str, Any], list[bytes]]:
    """(cell result, blobs) as docs/notes/0001-seams.md describes what the engine gives."""
    ops = cell.records()
    per_op_ns = round(_op_ns(cell, speed) * (0.98 + 0.04 * rng.random()))
    duration = ops * per_op_ns
    flush = round(cell.file_bytes / (DISK_BYTES_PER_S * speed) * 1e9) // 2 if cell.flush != "none" else None
    raw: list[bytes] = []
    kinds = _kinds(cell, ops, per_op_ns, flush, raw)
    raw.append(_series(cell, ops, duration, per_op_ns))
    result: dict[str, Any] = {
        "id": cell.id, "op": cell.op, "status": "complete", "stop_reason": "done",
        "start_ns": start_ns, "end_ns": start_ns + duration + (flush or 0), "start_wall_ns": start_wall_ns + start_ns,
        "window_ns": duration, "pause_ns": 0, "duration_ns": duration, "acknowledged_ns": duration,
        "flush_ns": flush, "close_ns": None, "warmup_bytes": 0, "warmup_ops": 0,
        "bytes": ops * cell.record_bytes, "ops": ops, "errors": 0, "errors_by_status": [], "first_error": None,
        "kinds": kinds,
        "workers": [{
            "worker": 0, "bytes": ops * cell.record_bytes, "ops": ops,
            "start_ns": start_ns, "end_ns": start_ns + duration, "duration_ns": duration,
        }],
        "cpu_user_ns": duration // 20, "cpu_system_ns": duration // 10, "generation_cpu_ns": duration // 100,
        "verify_cpu_ns": 0, "storage_read_bytes": None, "storage_write_bytes": None,
        "wire": _wire(cell, ops), "interval_ns": cell.interval_ns, "series": len(raw) - 1, "op_log": None,
        "missed_starts": 0, "verified": None,
        "direct_proof": {"o_direct": False, "cached_fraction": None, "proven": True},
        "data_measured": {"compress_ratio_zlib": 1.0, "compress_ratio_lz4": 1.0, "dedupe_ratio": 1.0},
    }  # fmt: skip
    if op_log:
        raw.append(_op_log(cell, ops, per_op_ns))
        result["op_log"] = len(raw) - 1
    return result, raw


def _op_ns(cell: CellSpec, speed: float) -> float:
    """Time per operation: request, link, and the disk for the part of the file the cache does not hold."""
    outside = max(0.0, 1.0 - CACHE_BYTES / cell.file_bytes)
    link = cell.record_bytes / (LINK_BYTES_PER_S * speed) * 1e9
    disk = cell.record_bytes / (DISK_BYTES_PER_S * speed) * 1e9
    seek = SEEK_NS if cell.pattern != "sequential" else 0
    return REQUEST_NS + max(link, outside * (disk + seek))


def _kinds(cell: CellSpec, ops: int, per_op_ns: int, flush_ns: int | None, raw: list[bytes]) -> dict[str, Any]:
    writes = round(ops * cell.write_fraction)
    kinds: dict[str, Any] = {}
    for kind, count, scale in (("read", ops - writes, 1.0), ("write", writes, 1.1)):
        if count:
            kinds[kind] = _kind(count, count * cell.record_bytes, per_op_ns * scale, raw, cell.pace is not None)
    if flush_ns is not None:
        kinds["flush"] = _kind(1, 0, flush_ns, raw, False)
    return kinds


def _kind(ops: int, size_bytes: int, mean_ns: float, raw: list[bytes], response: bool) -> dict[str, Any]:
    n = min(ops, MAX_SAMPLES)
    ranks = [(i + 0.5) / n for i in range(n)]
    values = [max(1, round(mean_ns * (0.75 + 0.4 * u + 0.004 / (1.002 - u)))) for u in ranks]
    counts = [ops // n + (1 if i < ops % n else 0) for i in range(n)]
    kind: dict[str, Any] = {"ops": ops, "bytes": size_bytes, "response_ns": None, "response_histogram": None}
    kind["latency_ns"], kind["histogram"] = _latency(values, counts, raw)
    if response:
        late = [v + round(mean_ns * u * u * u * 4) for v, u in zip(values, ranks, strict=True)]
        kind["response_ns"], kind["response_histogram"] = _latency(late, counts, raw)
    return kind


def _latency(values: list[int], counts: list[int], raw: list[bytes]) -> tuple[dict[str, Any], int]:
    histogram = from_values(values, counts)
    raw.append(histogram.encode())
    total = sum(counts)
    mean = round(sum(v * c for v, c in zip(values, counts, strict=True)) / total)
    return {**histogram.summary(), "min": min(values), "mean": mean, "max": max(values)}, len(raw) - 1


def _series(cell: CellSpec, ops: int, duration_ns: int, per_op_ns: int) -> bytes:
    """Operations spread evenly over the intervals, so that they add up to the cell's."""
    n = max(1, -(-duration_ns // cell.interval_ns))
    edges = np.minimum(np.arange(n + 1, dtype=np.int64) * cell.interval_ns, duration_ns)
    done = np.diff(edges // per_op_ns)
    writes = np.diff(np.round(np.concatenate(([0], np.cumsum(done))) * cell.write_fraction).astype(np.int64))
    rows = np.zeros((n, 7), dtype="<i8")
    rows[:, 0], rows[:, 2] = done - writes, writes
    rows[:, 1], rows[:, 3] = rows[:, 0] * cell.record_bytes, rows[:, 2] * cell.record_bytes
    rows[:, 6] = per_op_ns * 3
    assert rows[:, 0].sum() + rows[:, 2].sum() == ops
    return rows.tobytes()


def _op_log(cell: CellSpec, ops: int, per_op_ns: int) -> bytes:
    rows = np.zeros((ops, 4), dtype="<i8")
    rows[:, 0] = np.arange(ops) * cell.record_bytes
    rows[:, 1] = per_op_ns
    rows[:, 2] = cell.record_bytes
    return rows.tobytes()


def _wire(cell: CellSpec, ops: int) -> dict[str, int]:
    moved = ops * cell.record_bytes
    written = round(moved * cell.write_fraction)
    return {"sent_bytes": written + ops * 120, "received_bytes": moved - written + ops * 84}
