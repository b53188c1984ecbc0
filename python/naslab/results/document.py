"""The run document: what every reader of a result reads (docs/reference/run-document.md).

Built here from facts about the run (`new_document`) and from what the engine measured (`cell_document`);
described by the types of `naslab.results.parts`. Plain dicts, integers in bytes and
nanoseconds; nothing here imports NumPy unless histograms must be merged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from naslab import __version__
from naslab.results.columns import LATENCY_NAMES
from naslab.results.parts import SCHEMA

Document = dict[str, Any]
"""A run document in memory, as JSON has it: its fields and their types are those of `parts.run.RunDocument`."""


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
) -> Document:
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
        "target": {**known, **target},
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
) -> dict[str, Any]:
    """One cell of the document from its specification (`CellSpec` as a dict) and the engine's cell result.

    blobs: the bytes that came with the result. They are needed for the percentiles of a cell that both
    reads and writes, whose histograms are merged; without them those percentiles are None.
    Raises StoreError when such a histogram is damaged.
    """
    from naslab.results.parts.cell import CellDocument  # 14 ms of start-up, which only measuring needs

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
    return {name: cell[name] for name in CellDocument.__struct_fields__ if name in cell}


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


def typed_facts(facts: Mapping[str, str]) -> dict[str, Any]:
    """Facts of a target come as text; whole numbers become integers."""
    return {name: int(value) if value.isdigit() else value for name, value in facts.items()}


def negotiated(facts: Mapping[str, Any]) -> dict[str, str | None]:
    """Login, dialect and protection, where the protocol has them; in the target record null is for no protection."""
    told = ("auth", "dialect", "sec", "xprtsec", "tls_version", "tls_cipher_suite", "signing", "encryption")
    known = {name: str(facts[name]) for name in told if name in facts}
    return {name: None if value in ("none", "sys") else value for name, value in known.items()}


INTERRUPTION = ("interrupted", "the run was interrupted; the results so far are kept")
"""Kind and message of a warning."""


def warning(kind: str, message: str, cell: int | None = None) -> dict[str, Any]:
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
    cell["limit_ns"] = spec.get("duration_ns")
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
    if result.get("outages"):
        cell["outages"] = list(result["outages"])
    return cell


def _kind(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ops": found["ops"],
        "bytes": found["bytes"],
        "latency_ns": _within(found["latency_ns"]),
        "response_ns": _within(found["response_ns"]) if found.get("response_ns") else None,
    }


def _within(latency: Mapping[str, Any]) -> dict[str, int | None]:
    """Whole nanoseconds. Percentiles are upper ends of histogram buckets; none may pass the exact maximum."""
    high = latency.get("max")
    found = {name: None if latency.get(name) is None else round(latency[name]) for name in LATENCY_NAMES}
    return {
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
