"""Repeats within one run: did the rates drift from first to last, were two repeats the very same numbers?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis.distributions import t_below
from naslab.analysis.findings import Finding
from naslab.units import percent_text

LEAST_DRIFT, DRIFT_P = 0.03, 0.01
"""A course over the repeats counts from so much between first and last, and only when it is hardly chance."""
LEAST_FOR_COURSE = 6
COMMANDS = ("sweep", "run", "rerun", "tree", "job", "apps", "compare", "import", "published")
"""Whose blocks are repeats; those of others are places in a file, or parts of a load."""

Cell = Mapping[str, Any]
Rates = dict[int, dict[tuple[Any, ...], float]]


def course(logs: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """(change from first to last as a share, p) of a straight line through logarithms of rates.

    p: two-sided, of Student's t for the slope. logs: at least 3, in the order they were measured.
    """
    values = np.asarray(logs, dtype=np.float64)
    at = np.arange(len(values)) - (len(values) - 1) / 2
    slope = float(at @ values / (at @ at))
    left = values - values.mean() - slope * at
    freedom = len(values) - 2
    error = math.sqrt(max(float(left @ left), 1e-18) / freedom / float(at @ at))
    return math.expm1(slope * (len(values) - 1)), 2 * t_below(-abs(slope) / error, freedom)


def repeat_findings(cells: Sequence[Cell]) -> Iterator[Finding]:
    """Drift over the blocks of a run, and blocks that are exactly alike. Virtual time repeats itself: not for it."""
    rates = _by_block(cells)
    yield from _drift(rates)
    yield from _twice(rates)


def _by_block(cells: Sequence[Cell]) -> Rates:
    """Rates of each block by what was measured; only what every block has, of whole cells."""
    found: Rates = {}
    order: dict[int, tuple[int, int]] = {}
    for cell in cells:
        if cell["status"] == "complete" and cell["throughput_bytes_per_s"] > 0 and not cell.get("predicted"):
            key = tuple(cell.get(n) for n in ("op", "workload", "file_bytes", "record_bytes", "queue_depth", "workers"))
            found.setdefault(cell["block"], {}).setdefault(key, cell["throughput_bytes_per_s"])
            at = (cell["start_ns"] or 0, cell["id"])  # runs from elsewhere tell no times, only an order
            order[cell["block"]] = min(order.get(cell["block"], at), at)
    shared = set.intersection(*(set(rates) for rates in found.values())) if found else set()
    blocks = sorted(found, key=lambda block: order[block])
    return {block: {key: found[block][key] for key in sorted(shared, key=str)} for block in blocks}


def _drift(rates: Rates) -> Iterator[Finding]:
    if len(rates) < LEAST_FOR_COURSE or not all(rates.values()):
        return
    change, p = course([float(np.mean([math.log(rate) for rate in of.values()])) for of in rates.values()])
    if p <= DRIFT_P and abs(change) >= LEAST_DRIFT:
        word = "rose" if change > 0 else "fell"
        text = f"rates {word} by {percent_text(abs(change))} from the first repeat to the last"
        yield Finding(
            "drift", f"{text}: the target or this client changed meanwhile", None, change, "fraction", LEAST_DRIFT
        )


def _twice(rates: Rates) -> Iterator[Finding]:
    seen: dict[tuple[float, ...], int] = {}
    for block, of_block in rates.items():
        told = tuple(of_block.values())
        if len(told) < 2:
            continue
        if told in seen:
            text = f"repeats {seen[told] + 1} and {block + 1} have exactly the same numbers: is one counted twice?"
            yield Finding("duplicate", text, None)
        seen.setdefault(told, block)
