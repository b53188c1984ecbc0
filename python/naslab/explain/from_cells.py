"""What the cells of any run say about limits: much weaker than the ladder, which varies one thing at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from naslab.explain.tell import CLASSES, Where
from naslab.units import amount_text, duration_text, rate_text, size_label

Cell = Mapping[str, Any]

LARGE_BYTES, SMALL_BYTES = 256 << 10, 16 << 10
"""Records from and up to which a cell is one of large and of small I/O."""
MOST = 0.45
"""Highest confidence of a limit read from cells: nothing was varied to test it."""
LEAST_SHARE = 0.3
_KINDS = {
    "client_cache": "client_cache", "server_cache": "server_cache", "link": "link", "latency": "latency",
    "disk": "disk", "burst": "burst_credit", "baseline": "burst_credit", "above_link": "client_cache",
}  # fmt: skip
_PREPARING = ("probe", "fill", "idle", "drain", "evict", "prepare", "clean")


def limits(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Limits from the regimes of cells and from a sustained load's burst, as in a verdict; confidence at most MOST."""
    found = [limit for where in CLASSES for limit in _of_class(document, where)]
    return [*_credit(document), *found]


def _of_class(document: Mapping[str, Any], where: Where) -> Iterator[dict[str, Any]]:
    """Regimes of the class's cells, the most frequent first."""
    op, size = where
    cells = [cell for cell in document["cells"] if _is_of(cell, op, size)]
    told = [(cell, kind) for cell in cells if (kind := _kind(cell, size))]
    for kind, count in Counter(kind for _, kind in told).most_common():
        if count < LEAST_SHARE * len(cells):
            continue
        name, unit = ("throughput_bytes_per_s", "bytes_per_s") if size == "large" else ("iops", "iops")
        values = [float(cell[name]) for cell, its in told if its == kind]
        yield {
            "kind": kind, "applies_to": {"op": op, "size": size}, "confidence": round(MOST * count / len(cells), 2),
            "value": median(values), "unit": unit, "ci95": [min(values), max(values)] if len(values) > 1 else None,
            "evidence": _evidence([cell for cell, its in told if its == kind], count, len(cells)),
        }  # fmt: skip


def _is_of(cell: Cell, op: str, size: str) -> bool:
    if not cell["bytes"] or cell.get("predicted") or cell.get("workload") in _PREPARING:
        return False
    kinds = [kind for kind in ("read", "write") if kind in cell["kinds"]]
    record = cell["record_bytes"]
    return kinds == [op] and (record >= LARGE_BYTES if size == "large" else record <= SMALL_BYTES)


def _kind(cell: Cell, size: str) -> str | None:
    kind = _KINDS.get(str(cell.get("regime")))
    return "disk_iops" if kind == "disk" and size == "small" else kind


def _evidence(cells: Sequence[Cell], count: int, of: int) -> str:
    """How many cells, and the reason that one of them has."""
    regime = str(cells[0]["regime"]).replace("_", " ")
    why = next((str(cell["regime_evidence"]) for cell in cells if cell.get("regime_evidence")), "")
    head = f"{count} of {of} {'cells were' if of > 1 else 'cell was'} of the regime `{regime}`"
    return f"{head}; for one of them: {why}" if why else head


def _credit(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A sustained load whose rate dropped."""
    burst = (document.get("sustained") or {}).get("burst") or {}
    bucket = burst.get("bucket")
    if not bucket:
        return
    base, high = bucket["baseline_bytes_per_s"], bucket["burst_bytes_per_s"]
    known = burst.get("cause") == "token_bucket"
    kind = "burst_credit" if known else "disk" if burst.get("cause") == "write_back_cache" else "unknown"
    cause = str(burst.get("cause")).replace("_", " ")
    yield {
        "kind": kind, "applies_to": {"op": burst.get("op") or "write", "size": "large"},
        "confidence": 0.8 if known else MOST, "value": base["value"], "unit": "bytes_per_s", "ci95": list(base["ci95"]),
        "evidence": (
            f"the rate fell from {rate_text(high['value'])} to {rate_text(base['value'])} after "
            f"{duration_text(bucket['dropped_ns'])}, cause: {cause}"
        ),
    }  # fmt: skip


def advice(document: Mapping[str, Any]) -> list[str]:
    """Sentences from the run's own parts."""
    return [*_of_cache(document["cells"]), *_of_sets(document), *_of_bucket(document)]


def _of_cache(cells: Iterable[Cell]) -> Iterator[str]:
    cached = [cell for cell in cells if cell.get("regime") == "client_cache" and cell.get("wire_bytes") is not None]
    if cached:
        wire, moved = sum(cell["wire_bytes"] for cell in cached), sum(cell["bytes"] for cell in cached)
        cells_are = f"{len(cached)} {'cells' if len(cached) > 1 else 'cell'}"
        yield f"{cells_are} measured the client's cache: {amount_text(wire)} of {amount_text(moved)} crossed the wire"


def _of_sets(document: Mapping[str, Any]) -> Iterator[str]:
    sets = (document.get("sustained") or {}).get("working_set") or {}
    if sets.get("interval_bytes"):
        low, high = sets["interval_bytes"]
        yield (
            f"the server's memory ends between {size_label(low)} and {size_label(high)}: more memory helps sets up to "
            "its size, and no larger ones"
        )


def _of_bucket(document: Mapping[str, Any]) -> Iterator[str]:
    bucket = ((document.get("sustained") or {}).get("burst") or {}).get("bucket")
    if bucket:
        yield (
            f"plan with {rate_text(bucket['baseline_bytes_per_s']['value'])}: "
            f"{rate_text(bucket['burst_bytes_per_s']['value'])} lasted {duration_text(bucket['dropped_ns'])}"
        )
