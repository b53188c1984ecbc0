"""What the cells of a run without a ladder say about limits, by the same model.

No load was chosen to tell two parts apart, so what was not varied is taken to be as it usually is (`log_usual`), and no
limit has more than `UNVARIED`. What a run counted or tried by itself (bytes on the wire, a rest after a drop) is told
as it was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from naslab.explain import cells
from naslab.explain.cell_fit import PARTICLES, fit
from naslab.explain.conclusion import conclude
from naslab.explain.fitted import posterior_of
from naslab.explain.limits import CLASSES, Limit, Verdict
from naslab.explain.points import Figure
from naslab.explain.rows import rows_of
from naslab.explain.steps import LARGE_RECORD
from naslab.units import amount_text, duration_text, rate_text, size_label

Cell = Mapping[str, Any]

UNVARIED = 0.8
"""Highest probability of a limit: no experiment set it against another."""
RUNS = 3
"""Of the sampler: a verdict is worth more of them than the regimes of cells."""


def verdict(document: Mapping[str, Any]) -> Verdict:
    """Limits and open questions by the fitted model; empty where there are too few different loads for one."""
    seen = cells.merged(cells.evidence_of(document))
    found = Verdict()
    if seen.protocol == "null":
        found = conclude(seen)
    elif cells.loads(seen) >= cells.MIN_LOADS and (rows := rows_of(seen, usual=True)) is not None:
        found = conclude(seen, fitted=(rows, posterior_of(rows, RUNS, PARTICLES, fit)), most=UNVARIED)
    told = [*_cached(document), *_credit(document)]
    first = {(limit.op, limit.size) for limit in told}
    found.open = [question for question in found.open if (question.op, question.size) not in first]
    found.limits = [*told, *found.limits]
    return found


def _cached(document: Mapping[str, Any]) -> Iterator[Limit]:
    """Kinds of I/O of which most bytes never reached the server."""
    for op, size in CLASSES:
        mine = [cell for cell in document["cells"] if _is_of(cell, op, size)]
        cached = [cell for cell in mine if cell.get("regime") == "client_cache"]
        if not cached or 2 * len(cached) <= len(mine):
            continue
        name, unit = ("throughput_bytes_per_s", "bytes_per_s") if size == "large" else ("iops", "iops")
        values = sorted(float(cell[name]) for cell in cached)
        why = next((str(cell["regime_evidence"]) for cell in cached if cell.get("regime_evidence")), "")
        said = f"{len(cached)} of {len(mine)} cells were answered by the client's own cache"
        figure = Figure(values[len(values) // 2], values[0], values[-1], unit)
        yield Limit("client_cache", op, size, UNVARIED, figure, f"{said}; one of them: {why}" if why else said)


def _is_of(cell: Cell, op: str, size: str) -> bool:
    if not cell["bytes"] or cell.get("predicted") or cell.get("workload") in cells.PREPARING:
        return False
    kinds = [kind for kind in ("read", "write") if kind in cell["kinds"]]
    return kinds == [op] and (cell["record_bytes"] >= LARGE_RECORD) == (size == "large")


def _credit(document: Mapping[str, Any]) -> Iterator[Limit]:
    """Credit that a sustained load spent, where a rest brought it back."""
    burst = (document.get("sustained") or {}).get("burst") or {}
    bucket = burst.get("bucket")
    if not bucket or burst.get("cause") != "token_bucket":
        return
    base, high = bucket["baseline_bytes_per_s"], bucket["burst_bytes_per_s"]
    if high["value"] <= base["value"]:
        return
    said = (
        f"the rate fell from {rate_text(high['value'])} to {rate_text(base['value'])} after "
        f"{duration_text(bucket['dropped_ns'])}, and recovered after a rest"
    )
    yield Limit(
        "burst_credit", burst.get("op") or "write", "large", UNVARIED, Figure(base["value"], *base["ci95"]), said
    )


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
            f"the server cache holds between {size_label(low)} and {size_label(high)}: more memory helps working "
            "sets up to "
            "its size"
        )


def _of_bucket(document: Mapping[str, Any]) -> Iterator[str]:
    bucket = ((document.get("sustained") or {}).get("burst") or {}).get("bucket")
    if bucket and bucket["burst_bytes_per_s"]["value"] > bucket["baseline_bytes_per_s"]["value"]:
        yield (
            f"plan with {rate_text(bucket['baseline_bytes_per_s']['value'])}: "
            f"{rate_text(bucket['burst_bytes_per_s']['value'])} lasted {duration_text(bucket['dropped_ns'])}"
        )
