"""The run document: what every reader of a result reads (docs/reference/run-document.md).

Built here from facts about the run (`new_document`) and from what the engine measured (`cell_document`);
described for people and machines by `naslab.results.schema`. Plain dicts, integers in bytes and
nanoseconds; nothing here imports NumPy unless histograms must be merged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict

from naslab import __version__
from naslab.results.columns import LATENCY_NAMES

SCHEMA = 1
"""Version of the run document. Raised when a field changes its meaning or goes away."""


class Latency(TypedDict):
    """Nanoseconds; None when there was no sample, or no histogram to take a percentile from."""

    min: int | None
    mean: int | None
    p50: int | None
    p90: int | None
    p99: int | None
    p99_9: int | None
    max: int | None


class RunWarning(TypedDict):
    """kind: one word for programs, e.g. `client_cache`. message: one sentence. cell: its id, None for the run."""

    kind: str
    message: str
    cell: int | None


class KindDocument(TypedDict):
    """One kind of operation within a cell: `read`, `write` or `flush`. response_ns: from the due time (open loop)."""

    ops: int
    bytes: int
    latency_ns: Latency
    response_ns: Latency | None


class ClientDocument(TypedDict):
    """What kept the client from its processors during a cell. Fractions 0 to 1; None: not known here."""

    cpu_limit_cores: float | None
    throttled_fraction: float | None
    throttled_periods_fraction: float | None
    steal_fraction: float | None
    busiest_core_fraction: float | None
    others_cores: float | None
    runnable_wait_fraction: float | None
    busiest_worker_fraction: float | None


class ClientStall(TypedDict):
    """How long this client itself stood still within a cell's window, and what its clocks did. Units:
    naslab.results.schema.
    """

    longest_ns: int
    total_ns: int
    count: int
    asleep_ns: int
    clock_step_ns: int


class AddressBytes(TypedDict):
    """Bytes on the wire to and from one address of a server that was used at several."""

    address: str
    sent_bytes: int
    received_bytes: int


class CellDocument(TypedDict):
    """One cell: the fields promised to programs first, then the details. Units: naslab.results.schema.

    Cells that naslab did not measure (`source` of the run) have None in more fields: naslab.results.foreign.
    """

    id: int
    op: str
    workload: str | None
    file_bytes: int
    record_bytes: int
    queue_depth: int
    workers: int
    block: int
    durability: str
    cache_state: str
    bytes: int
    ops: int
    errors: int
    duration_ns: int
    acknowledged_bytes_per_s: float
    durable_bytes_per_s: float | None
    throughput_bytes_per_s: float
    throughput_mib_per_s: float
    iops: float
    cpu_fraction: float
    latency_ns: Latency
    latency_clock: str
    wire_bytes: int | None
    wire_sent_bytes: int | None
    wire_received_bytes: int | None
    wire_by_address: NotRequired[list[AddressBytes]]
    protocol_events: dict[str, int]
    regime: str | None
    regime_evidence: str | None
    predicted: bool
    predicted_ci90_bytes_per_s: NotRequired[list[float]]
    covers_file_bytes: NotRequired[list[int]]
    status: str
    stop_reason: str
    start_ns: int
    end_ns: int
    start_wall_ns: int
    window_ns: int
    pause_ns: int
    acknowledged_ns: int
    flush_ns: int | None
    close_ns: int | None
    warmup_bytes: int
    warmup_ops: int
    pattern: str
    access: str
    write_fraction: float
    direct: bool
    sync: str
    errors_by_status: list[dict[str, Any]]
    first_error: str | None
    kinds: dict[str, KindDocument]
    workers_detail: list[dict[str, Any]]
    cpu_user_ns: int
    cpu_system_ns: int
    generation_cpu_ns: int
    verify_cpu_ns: int
    storage_read_bytes: int | None
    storage_write_bytes: int | None
    interval_ns: int
    missed_starts: int
    offered_per_s: float | None
    verified: dict[str, Any] | None
    direct_proof: dict[str, Any] | None
    data_measured: dict[str, Any] | None
    client: NotRequired[ClientDocument]
    client_stall: ClientStall | None
    clients: NotRequired[dict[str, Any]]
    warnings: list[RunWarning]


class TargetDocument(TypedDict, total=False):
    """Without secrets. `url`, `protocol`, `dialect`, `signing`, `encryption` are always there."""

    url: str
    protocol: str
    dialect: str | None
    signing: str | None
    encryption: str | None
    sec: str | None
    auth: str
    addresses: list[str]
    address_use: str
    planted: list[dict[str, Any]]
    calibrated_at: str | None


class Limit(TypedDict, total=False):
    """One ranked limit of a verdict."""

    kind: str
    applies_to: dict[str, str]
    confidence: float
    value: float | None
    unit: str | None
    ci95: list[float] | None
    measured: float | None
    evidence: str


class Verdict(TypedDict, total=False):
    """What limits the target, strongest first."""

    limits: list[Limit]


class CurveStep(TypedDict):
    """One load of a curve, over all its parts (`cells`). response_ns counts from the due time."""

    offered_per_s: float
    achieved_per_s: float
    achieved_bytes_per_s: float
    saturated: bool
    ops: int
    missed_starts: int
    errors: int
    response_ns: Latency
    service_ns: Latency
    cells: list[int]


class CurveDocument(TypedDict):
    """`naslab curve`: latency against offered load. Units: naslab.results.schema."""

    arrivals: str
    block_bytes: int
    write_fraction: float
    random: bool
    file_bytes: int
    workers: int
    queue_depth: int
    step_ns: int
    factor: float
    stop_reason: str
    saturated: bool
    probe_alone: dict[str, Any] | None
    probe_full: dict[str, Any] | None
    steps: list[CurveStep]
    capacity_per_s: float | None
    capacity_ci95_per_s: list[float] | None
    capacity_bytes_per_s: float | None
    depth_limited: bool
    knee_per_s: float | None
    knee_ci95_per_s: list[float] | None
    knee_method: str
    low_load_p99_ns: int | None
    compared: dict[str, Any] | None


class ProfileDocument(TypedDict):
    """`naslab profile`: rate by position. Units: naslab.results.schema."""

    file_bytes: int
    existing: bool
    direct: bool
    block_bytes: int
    queue_depth: int
    zone_bytes: int
    zones_planned: int
    zones: list[dict[str, Any]]
    mean_bytes_per_s: float | None
    slowest_bytes_per_s: float | None
    fastest_bytes_per_s: float | None
    head_bytes_per_s: float | None
    tail_bytes_per_s: float | None
    burst_bytes_per_s: float | None
    access_ns: Latency | None


class ReplayDocument(TypedDict):
    """`naslab replay`: what was issued against what the trace has. Units: naslab.results.schema."""

    trace: str
    source: str
    command: str | None
    anonymised: bool
    pace: str
    trace_streams: int
    streams: int
    files: int
    folders: int
    prepared_bytes: int
    escaped_names: int
    told_apart: NotRequired[int]
    missed_deadlines: int | None
    operations: list[dict[str, Any]]
    equal: bool
    skipped: list[dict[str, Any]]
    instead: list[dict[str, Any]]
    added: list[dict[str, Any]]


class RunDocument(TypedDict):
    """A whole run. `environment` holds what was found about the client and the target, as found."""

    schema: int
    naslab_version: str
    run_id: str
    command: str
    label: str | None
    labels: dict[str, str]
    note: str | None
    summary: list[str]
    status: str
    warnings: list[RunWarning]
    started_at: str
    finished_at: str | None
    start_wall_ns: int
    end_wall_ns: int | None
    seed: int
    argv: list[str] | None
    target: TargetDocument
    environment: dict[str, Any]
    cells: list[CellDocument]
    verdict: Verdict
    answer: NotRequired[dict[str, Any]]
    ladder: NotRequired[dict[str, Any]]
    adaptive: NotRequired[dict[str, Any]]
    sustained: NotRequired[dict[str, Any]]
    curve: NotRequired[CurveDocument]
    profile: NotRequired[ProfileDocument]
    job: NotRequired[dict[str, Any]]
    replay: NotRequired[ReplayDocument]
    tree: NotRequired[dict[str, Any]]
    apps: NotRequired[dict[str, Any]]
    durable: NotRequired[dict[str, Any]]
    rerun_of: NotRequired[str]
    interleaved: NotRequired[dict[str, Any]]
    client_ceiling: NotRequired[dict[str, Any]]
    validity: NotRequired[list[dict[str, Any]]]
    scaling: NotRequired[dict[str, Any]]
    monitor: NotRequired[dict[str, Any]]
    client_split: NotRequired[dict[str, Any]]
    security: NotRequired[dict[str, Any]]
    source: NotRequired[dict[str, Any] | None]
    stated: NotRequired[dict[str, Any]]


def new_document(
    run_id: str,
    command: str,
    target: Mapping[str, Any],
    *,
    environment: Mapping[str, Any] | None = None,
    label: str | None = None,
    labels: Mapping[str, str] | None = None,
    note: str | None = None,
    seed: int = 0,
    argv: Sequence[str] | None = None,
    start_wall_ns: int | None = None,
) -> RunDocument:
    """A run document that has just begun: status `running`, no cells.

    target: at least `url` (without secrets) and `protocol`; other keys are kept. argv: the command line,
    without secrets. labels: conditions of the test, key and value; note: a remark. label: short name for lists
    and charts; None for the label `name`, or all labels in one line. start_wall_ns: nanoseconds since 1970;
    None for now.
    """
    start = time.time_ns() if start_wall_ns is None else start_wall_ns
    known: dict[str, Any] = {"url": "", "protocol": "", "dialect": None, "signing": None, "encryption": None}
    return {
        "schema": SCHEMA,
        "naslab_version": __version__,
        "run_id": run_id,
        "command": command,
        "label": _short_label(labels) if label is None else label,
        "labels": dict(labels or {}),
        "note": note or None,
        "summary": [],
        "status": "running",
        "warnings": [],
        "started_at": iso_utc(start),
        "finished_at": None,
        "start_wall_ns": start,
        "end_wall_ns": None,
        "seed": seed,
        "argv": None if argv is None else list(argv),
        "target": {**known, **target},  # type: ignore[typeddict-item]
        "environment": dict(environment or {}),
        "cells": [],
        "verdict": {"limits": []},
    }


def _short_label(labels: Mapping[str, str] | None) -> str | None:
    """The label `name`, else all labels in one line, else None."""
    if not labels:
        return None
    return labels.get("name") or ", ".join(f"{key}={value}" for key, value in labels.items())


def cell_document(
    spec_cell: Mapping[str, Any], engine_result: Mapping[str, Any], blobs: Sequence[bytes] | None = None
) -> CellDocument:
    """One cell of the document from its specification (`CellSpec` as a dict) and the engine's cell result.

    blobs: the bytes that came with the result. They are needed for the percentiles of a cell that both
    reads and writes, whose histograms are merged; without them those percentiles are None.
    Raises StoreError when such a histogram is damaged.
    """
    cell: dict[str, Any] = {
        **_from_spec(spec_cell),
        **_from_engine(engine_result),
        **_rates(spec_cell, engine_result),
        **_latency(engine_result, blobs),
        "regime": None,
        "regime_evidence": None,
        "predicted": False,
        "warnings": [],
        **{name: engine_result[name] for name in ("client", "clients") if engine_result.get(name)},
    }
    return {name: cell[name] for name in CellDocument.__annotations__ if name in cell}  # type: ignore[return-value]


def cell_blobs(engine_result: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, bytes]:
    """The blobs of a cell result by their stored names: `latency:read`, `latency_series:read`, `series` and so on."""
    named: dict[str, bytes] = {}
    for kind, found in engine_result.get("kinds", {}).items():
        for field, name in (
            ("histogram", "latency"), ("response_histogram", "response"), ("latency_series", "latency_series"),
        ):  # fmt: skip
            if found.get(field) is not None:
                named[f"{name}:{kind}"] = blobs[found[field]]
    for name in ("series", "wire_series", "op_log", "step_log"):
        if engine_result.get(name) is not None:
            named[name] = blobs[engine_result[name]]
    return named


INTERRUPTION = ("interrupted", "the run was interrupted; the results so far are kept")
"""Kind and message of a warning."""


def warning(kind: str, message: str, cell: int | None = None) -> RunWarning:
    """A typed warning, for `warnings` of a run or a cell."""
    return {"kind": kind, "message": message, "cell": cell}


def iso_utc(wall_ns: int) -> str:
    """ISO 8601 in UTC, to the second, of nanoseconds since 1970."""
    return datetime.fromtimestamp(wall_ns // 10**9, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_SPEC_DEFAULTS: dict[str, Any] = {
    "id": 0, "workload": None, "queue_depth": 1, "workers": 1, "block": 0, "durability": "end",
    "cache_state": "unknown", "pattern": "sequential", "access": "positioned", "write_fraction": 0.0,
    "direct": False, "sync": "none", "interval_ns": 1_000_000_000,
}  # fmt: skip

ENGINE_DEFAULTS: dict[str, Any] = {
    "status": "complete", "stop_reason": "done", "start_ns": 0, "end_ns": 0, "start_wall_ns": 0,
    "window_ns": 0, "pause_ns": 0, "duration_ns": 0, "acknowledged_ns": 0, "flush_ns": None,
    "close_ns": None, "warmup_bytes": 0, "warmup_ops": 0, "bytes": 0, "ops": 0, "errors": 0,
    "errors_by_status": [], "first_error": None, "cpu_user_ns": 0, "cpu_system_ns": 0,
    "generation_cpu_ns": 0, "verify_cpu_ns": 0, "storage_read_bytes": None, "storage_write_bytes": None,
    "missed_starts": 0, "verified": None, "direct_proof": None, "data_measured": None,
    "client_stall": None,
}  # fmt: skip


def _from_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    cell = {name: spec.get(name, default) for name, default in _SPEC_DEFAULTS.items()}
    cell |= {name: spec[name] for name in ("op", "file_bytes", "record_bytes")}
    pace = spec.get("pace") or {}
    cell["offered_per_s"] = None if pace.get("limit") else pace.get("rate_per_s")
    return cell


def _from_engine(result: Mapping[str, Any]) -> dict[str, Any]:
    cell = {name: result.get(name, default) for name, default in ENGINE_DEFAULTS.items()}
    if "id" in result:
        cell["id"] = result["id"]
    if result.get("interval_ns"):
        cell["interval_ns"] = result["interval_ns"]
    cell["protocol_events"] = dict(result.get("protocol_events", {}))
    cell["workers_detail"] = list(result.get("workers", []))
    cell["kinds"] = {kind: _kind(found) for kind, found in result.get("kinds", {}).items()}
    wire = result.get("wire") or {}
    sent, received = wire.get("sent_bytes"), wire.get("received_bytes")
    cell["wire_sent_bytes"], cell["wire_received_bytes"] = sent, received
    cell["wire_bytes"] = None if sent is None and received is None else (sent or 0) + (received or 0)
    if by_address := result.get("wire_by_address"):
        cell["wire_by_address"] = [{"address": address, **counted} for address, counted in by_address.items()]
    return cell


def _kind(found: Mapping[str, Any]) -> KindDocument:
    return {
        "ops": found["ops"],
        "bytes": found["bytes"],
        "latency_ns": _within(found["latency_ns"]),
        "response_ns": _within(found["response_ns"]) if found.get("response_ns") else None,
    }


def _within(latency: Mapping[str, Any]) -> Latency:
    """Whole nanoseconds. Percentiles are upper ends of histogram buckets; none may pass the exact maximum."""
    high = latency.get("max")
    found = {name: None if latency.get(name) is None else round(latency[name]) for name in LATENCY_NAMES}
    return {  # type: ignore[return-value]
        name: high if name.startswith("p") and value is not None and high is not None and value > high else value
        for name, value in found.items()
    }


def _per_s(amount: float, duration_ns: int) -> float:
    return amount * 1e9 / duration_ns if duration_ns > 0 else 0.0


def _rates(spec: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, float | None]:
    moved, duration, window = result.get("bytes", 0), result.get("duration_ns", 0), result.get("window_ns", 0)
    acknowledged, flush = result.get("acknowledged_ns", 0), result.get("flush_ns")
    throughput, iops = _per_s(moved, duration), _per_s(result.get("ops", 0), duration)
    clients = result.get("clients")
    if clients and moved:
        # Of many clients: while all of them were under load.
        throughput, iops = clients["common_bytes_per_s"], clients["common_bytes_per_s"] * result["ops"] / moved
    durable = None if flush is None else _per_s(moved, acknowledged + flush)
    if durable is None and spec.get("durability") == "each" and "write" in result.get("kinds", {}):
        durable = _per_s(moved, acknowledged)  # every write was durable when it was acknowledged
    cpu = result.get("cpu_user_ns", 0) + result.get("cpu_system_ns", 0)
    return {
        "acknowledged_bytes_per_s": _per_s(moved, acknowledged),
        "durable_bytes_per_s": durable,
        "throughput_bytes_per_s": throughput,
        "throughput_mib_per_s": throughput / (1 << 20),
        "iops": iops,
        "cpu_fraction": cpu / window if window > 0 else 0.0,
    }


def _latency(result: Mapping[str, Any], blobs: Sequence[bytes] | None) -> dict[str, Any]:
    """`latency_ns` over all kinds but `flush`; in open loop from the due time (`latency_clock` says which)."""
    kinds = {k: v for k, v in result.get("kinds", {}).items() if v.get("ops")}
    data = [v for k, v in kinds.items() if k != "flush"] or list(kinds.values())
    response = bool(data) and all(v.get("response_ns") for v in data)
    clock, field = ("response", "response_ns") if response else ("service", "latency_ns")
    if not data:
        return {"latency_ns": dict.fromkeys(LATENCY_NAMES), "latency_clock": clock}
    if len(data) == 1:
        return {"latency_ns": _within(data[0][field]), "latency_clock": clock}
    merged: dict[str, Any] = dict.fromkeys(LATENCY_NAMES)
    indexes = [v.get("response_histogram" if response else "histogram") for v in data]
    if blobs is not None and all(index is not None for index in indexes):
        from naslab.results.histogram import decode, merge

        merged = dict(merge(decode(blobs[index]) for index in indexes).summary())
    merged["min"] = min(v[field]["min"] for v in data)
    merged["max"] = max(v[field]["max"] for v in data)
    merged["mean"] = round(sum(v[field]["mean"] * v["ops"] for v in data) / sum(v["ops"] for v in data))
    return {"latency_ns": _within(merged), "latency_clock": clock}
