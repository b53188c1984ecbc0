"""Runs that naslab did not measure: imported from other tools' files, or published in articles.

Their cells hold what the source tells; everything else is None, and `source.unknown` names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from naslab.results.columns import LATENCY_NAMES
from naslab.results.document import Document, iso_utc, new_document

NO_REGIME = "the source reports nothing about caches, so no regime is assigned"
_WRITES = ("write", "rewrite", "random_write", "record_rewrite", "fwrite", "frewrite", "pwrite", "repwrite")
_PATTERNS = {
    "random_read": "random", "random_write": "random", "backward_read": "backward", "stride_read": "stride",
    "record_rewrite": "same_record", "mixed": None,
}  # fmt: skip


def is_foreign(document: Mapping[str, Any]) -> bool:
    """Whether naslab did not measure the run."""
    return bool(document.get("source"))


def who_measured(source: Mapping[str, Any]) -> str:
    """A warning for people; naslab measures raw TCP without the cells of a file system."""
    return "no file system was measured" if source["tool"].startswith("naslab ") else "naslab did not measure this"


def foreign_cell(number: int, op: str, throughput_bytes_per_s: float | None, **told: Any) -> dict[str, Any]:
    """One cell of a foreign run, with every field of a cell; those not in `told` are None where they may be.

    number: the cell's id. throughput_bytes_per_s: None or 0 for operations that move no data. told: any other
    fields of a cell by name; `latency_ns` may hold some of its names only. What follows from what is told is filled
    in: MiB/s, operations per second of a known record size, pattern and share of writes of a named operation.
    Raises ValueError for names that no cell has.
    """
    from naslab.results.parts.cell import CellDocument, unreported_fields  # 8 ms of `show`, which makes no cells

    rate = float(throughput_bytes_per_s or 0.0)
    cell: dict[str, Any] = {
        "id": number, "op": op, "workload": None, "block": 0, "cache_state": "unknown", "throughput_bytes_per_s": rate,
        "throughput_mib_per_s": rate / (1 << 20), "durable_bytes_per_s": None, "latency_clock": "service",
        "wire_bytes": None, "wire_sent_bytes": None, "wire_received_bytes": None, "protocol_events": {},
        "regime": "unknown", "regime_evidence": NO_REGIME, "predicted": False, "status": "complete",
        "stop_reason": "done", "start_wall_ns": 0, "flush_ns": None, "close_ns": None, "errors_by_status": [],
        "first_error": None, "kinds": {}, "workers_detail": [], "storage_read_bytes": None,
        "storage_write_bytes": None, "interval_ns": 10**9, "offered_per_s": None, "verified": None,
        "direct_proof": None, "data_measured": None, "client_stall": None, "warnings": [],
        **dict.fromkeys(unreported_fields()), **_of_name(op, told), **told,
    }  # fmt: skip
    cell["latency_ns"] = {**dict.fromkeys(LATENCY_NAMES), **(told.get("latency_ns") or {})}
    if cell["iops"] is None and rate and cell["record_bytes"]:
        cell["iops"] = rate / cell["record_bytes"]
    if odd := cell.keys() - set(CellDocument.__struct_fields__):
        raise ValueError(f"no cell has {', '.join(sorted(odd))}")
    return {name: cell[name] for name in CellDocument.__struct_fields__ if name in cell}


def _of_name(op: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """What an operation's name says; an application's streams are not told by it."""
    if told.get("workload"):
        return {}
    share = None if op == "mixed" else float(op in _WRITES)
    return {"pattern": _PATTERNS.get(op, "sequential"), "write_fraction": share}


def foreign_document(
    run_id: str,
    source: Mapping[str, Any],
    cells: Sequence[Mapping[str, Any]],
    *,
    target: str = "",
    protocol: str = "",
    label: str | None = None,
    labels: Mapping[str, str] | None = None,
    environment: Mapping[str, Any] | None = None,
    start_wall_ns: int = 0,
    end_wall_ns: int | None = None,
    warnings: Sequence[Mapping[str, Any]] = (),
    parts: Mapping[str, Any] | None = None,
) -> Document:
    """A whole run of a source. source: at least kind, tool and format; the rest of the part may be left out.

    target: what was measured, as people call it; empty: not told. start_wall_ns: ns since 1970; 0: not told.
    parts: further parts of the document, e.g. `apps`. `source.unknown` is filled in from the cells; names given in
    it stay. Raises ValueError where two cells have one id.
    """
    if len({cell["id"] for cell in cells}) != len(cells):
        raise ValueError("two cells have one id")
    known = {"url": target, "protocol": protocol}
    document = new_document(
        run_id, "import" if source["kind"] == "imported" else "published", known, environment=environment, label=label,
        labels=labels, start_wall_ns=start_wall_ns,
    )  # fmt: skip
    document["status"] = "complete"
    document["end_wall_ns"] = end_wall_ns
    document["finished_at"] = None if end_wall_ns is None else iso_utc(end_wall_ns)
    document["cells"] = [{**cell, "start_wall_ns": cell["start_wall_ns"] or start_wall_ns} for cell in cells]
    document["warnings"] = [dict(each) for each in warnings]
    document["source"] = source_part(source, cells, start_wall_ns, target)
    return {**document, **(parts or {})}


def source_part(
    source: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], start_wall_ns: int, target: str
) -> dict[str, Any]:
    """The `source` part with every field; `unknown` holds what no cell tells, and what the run does not."""
    from naslab.results.parts.cell import unreported_fields

    fields: tuple[Literal["tool_version", "file", "sha256", "title", "place", "url", "command_line", "date"], ...] = (
        "tool_version", "file", "sha256", "title", "place", "url", "command_line", "date",
    )  # fmt: skip
    unknown = list(source.get("unknown") or ())
    unknown += [name for name in unreported_fields() if all(cell.get(name) is None for cell in cells)]
    unknown += [f"latency_ns.{name}" for name in LATENCY_NAMES if all(c["latency_ns"][name] is None for c in cells)]
    unknown += ["series", "regime", "spread"]
    unknown += ["start_wall_ns"] if not start_wall_ns else []
    unknown += ["target"] if not target else []
    return {
        "kind": source["kind"], "tool": source["tool"], "format": source["format"],
        **{name: source.get(name) for name in fields}, "unknown": list(dict.fromkeys(unknown)),
    }  # fmt: skip
