"""Results of `naslab tree`: rate and latency of each kind of metadata operation, over the repeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from naslab.plans.tree import MAIN_KIND, PHASES
from naslab.units import duration_text

HEADER = ("operation", "count", "per second", "p50", "p99")


def phases(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each phase that was measured, in order; of repeats the medians.

    count: operations of one repeat (open_close: pairs). ops_per_s: count over the cell's time, all workers together;
    for create with the writes and closes of its files. latency of a create, an open: of that call alone.
    """
    found = []
    for op in PHASES:
        of_op = [cell for cell in cells if cell["op"] == op and cell["status"] == "complete" and cell["duration_ns"]]
        told = [(cell, cell["kinds"].get(MAIN_KIND.get(op, op))) for cell in of_op]
        rows = [
            (kind["ops"], kind["ops"] * 1e9 / cell["duration_ns"], kind["latency_ns"]) for cell, kind in told if kind
        ]
        if rows:
            found.append({
                "op": op, "count": rows[0][0], "repeats": len(rows), "ops_per_s": median(rate for _, rate, _ in rows),
                "latency_ns_p50": round(median(one["p50"] for _, _, one in rows)),
                "latency_ns_p99": round(median(one["p99"] for _, _, one in rows)),
            })  # fmt: skip
    return found


def rows(tree: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Each phase in the columns of HEADER. tree: of the run document."""
    for row in tree["phases"]:
        yield (
            row["op"], f"{row['count']:,}", f"{row['ops_per_s']:,.0f}", duration_text(row["latency_ns_p50"]),
            duration_text(row["latency_ns_p99"]),
        )  # fmt: skip


def sentences(tree: Mapping[str, Any]) -> Iterator[str]:
    """What the tree was, the fastest and the slowest phase."""
    place = "one tree" if tree["shared"] else "a tree each"
    who = f"{tree['workers']} workers in {place}" if tree["workers"] > 1 else "one worker"
    yield f"{tree['folders']:,} folders and {tree['files']:,} files, by {who}."
    if tree["phases"]:
        slow = min(tree["phases"], key=lambda row: row["ops_per_s"])
        fast = max(tree["phases"], key=lambda row: row["ops_per_s"])
        yield f"Fastest: {fast['op']}, {fast['ops_per_s']:,.0f} a second."
        yield f"Slowest: {slow['op']}, {slow['ops_per_s']:,.0f} a second."
