"""Results of `naslab tree`: rate and latency of each kind of metadata operation, over the repeats, warm and cold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import median
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from naslab.analysis.intervals import median_interval
from naslab.results.parts.tree import Caches, TreeDocument, TreePhase
from naslab.units import count_text, duration_text

LOOKS = ("stat", "stat_dir", "open_close", "read", "readdir")
"""Phases that change nothing: those that are done cold, too."""
PHASES = ("mkdir", "create", *LOOKS, "rename", "rename_dir", "remove", "rmdir")
WARM_UP = "prepare"
"""Workload of the cell that fills the server's caches again after cold passes, so that what follows is warm."""
COUNTED = {"open_close": "open", "read": "open", "stat_dir": "stat", "rename_dir": "rename"}
"""Kind whose calls are counted as the operations of a phase, where it is not the kind of the same name."""
TIMED = {"open_close": "open", "stat_dir": "stat", "rename_dir": "rename"}
"""Kind whose latency stands for a phase, where it is not the kind of the same name."""
Cold = Literal["none", "new_connection", "command"]
CACHE_STATES: dict[Cold, Literal["warm", "cold", "unknown"]] = {
    "none": "warm", "new_connection": "unknown", "command": "cold",
}  # fmt: skip
"""What is known of all caches on the way: a new connection empties none of the server's."""
CACHES: dict[str, Caches] = {"warm": "warm", "unknown": "new_connection", "cold": "cold"}
"""What a pass is called, by the state of the caches that its cells tell."""
assert set(CACHES) == set(CACHE_STATES.values())
Cell = Mapping[str, Any]


def phases(cells: Sequence[Cell]) -> list[TreePhase]:
    """A row for each phase that was measured, in order, cold passes after the warm one; of repeats the medians.

    count: operations of one repeat (open_close: pairs; read: files). ops_per_s: count over the cell's time, all workers
    together; for create and read with all calls on their files. Latency of a create, an open, a read: of that call
    alone. of_warm: rate over that of the warm pass of the same repeat. Intervals: 95 % of the median from order
    statistics (`median_interval`), null with fewer than six repeats.
    """
    found: list[TreePhase] = []
    cells = [cell for cell in cells if cell["workload"] != WARM_UP]
    for op, (state, caches) in product(PHASES, CACHES.items()):
        of_op = [cell for cell in cells if cell["op"] == op and cell["cache_state"] == state]
        told = {cell["block"]: one for cell in of_op if (one := _measured(cell))}
        if told:
            warm = next((row for row in found if row.op == op), None)
            found.append(_row(op, caches, told, warm))
    return found


def _measured(cell: Cell) -> tuple[int, float, Mapping[str, int]] | None:
    """Operations of a cell, how many of them a second, and latency; None where it did not end as planned."""
    op, kinds = cell["op"], cell["kinds"]
    counted = kinds.get(COUNTED.get(op, op))
    timed = kinds.get(TIMED.get(op, op))
    if cell["status"] != "complete" or not cell["duration_ns"] or not counted or not timed:
        return None
    return counted["ops"], counted["ops"] * 1e9 / cell["duration_ns"], timed["latency_ns"]


def _row(
    op: str, caches: Caches, told: Mapping[int, tuple[int, float, Mapping[str, int]]], warm: TreePhase | None
) -> TreePhase:
    """told: of each repeat. warm: the row of the warm passes; None for that itself."""
    rates = {block: rate for block, (_, rate, _) in told.items()}
    row = TreePhase(
        op=op, caches=caches, count=next(iter(told.values()))[0], repeats=len(told), blocks=list(told),
        ops_per_s=median(rates.values()), ops_per_s_each=list(rates.values()),
        ops_per_s_ci95=median_interval(list(rates.values()))[0],
        latency_ns_p50=round(median(one["p50"] for _, _, one in told.values())),
        latency_ns_p99=round(median(one["p99"] for _, _, one in told.values())),
    )  # fmt: skip
    if warm is not None:
        before = dict(zip(warm.blocks or (), warm.ops_per_s_each or (), strict=True))
        shares = [rate / before[block] for block, rate in rates.items() if before.get(block)]
        row.of_warm, row.of_warm_ci95 = median(shares) if shares else None, median_interval(shares)[0]
    return row


def header(tree: TreeDocument) -> tuple[str, ...]:
    """Columns of `rows`: with cold passes the caches and the share of the warm rate, with intervals where there are."""
    certain = any(row.ops_per_s_ci95 for row in tree.phases)
    interval = ("95 %",) if certain else ()
    caches, share = (("caches",), ("of warm", *interval)) if _twice(tree) else ((), ())
    return ("operation", *caches, "count", "per second", *interval, "p50", "p99", *share)


def _twice(tree: TreeDocument) -> bool:
    return any(caches_of(row) != "warm" for row in tree.phases)


def rows(tree: TreeDocument) -> Iterator[tuple[str, ...]]:
    """Each phase in the columns of `header`. tree: of the run document."""
    columns = header(tree)
    certain, twice = "95 %" in columns, "caches" in columns
    for row in tree.phases:
        rate, share = _interval(row.ops_per_s_ci95, count_text), row.of_warm if row.of_warm is not UNSET else None
        yield (
            row.op, *([caches_of(row).replace("_", " ")] if twice else []), f"{row.count:,}",
            count_text(row.ops_per_s), *([rate] if certain else []), duration_text(row.latency_ns_p50),
            duration_text(row.latency_ns_p99), *(["-" if share is None else percent_text(share)] if twice else []),
            *([_interval(row.of_warm_ci95, percent_text)] if twice and certain else []),
        )  # fmt: skip


def caches_of(row: TreePhase) -> Caches:
    """What the pass is called; version 0.1 had warm ones only."""
    return row.caches or "warm"


def percent_text(share: float) -> str:
    """`12 %`; 1.0 is 100 %."""
    return f"{100 * share:,.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _interval(ends: Sequence[float] | UnsetType | None, text: Any) -> str:
    if not ends:
        return "-"
    low, high = (text(end) for end in ends)
    return f"{low.removesuffix(' %')}-{high.removesuffix(' %')}"


def sentences(tree: TreeDocument) -> Iterator[str]:
    """What the tree was, the fastest and the slowest phase, and what cold caches cost."""
    place = "one tree" if tree.shared else "a tree each"
    who = f"{tree.workers} workers in {place}" if tree.workers > 1 else "one worker"
    yield f"{tree.folders:,} folders and {tree.files:,} files, by {who}."
    warm = [row for row in tree.phases if caches_of(row) == "warm"]
    if warm:
        slow, fast = (choose(warm, key=lambda row: row.ops_per_s) for choose in (min, max))
        yield f"Fastest: {fast.op}, {count_text(fast.ops_per_s)} a second."
        yield f"Slowest: {slow.op}, {count_text(slow.ops_per_s)} a second."
    shares = [row for row in tree.phases if row.of_warm]
    if shares:
        how = "with cold caches" if tree.cold == "command" else "with a new connection"
        yield f"Of the warm rate, {how}: {', '.join(map(_share, shares))}."
        if tree.cold == "command":  # else the note is a warning of the run
            yield str(tree.cold_note)


def _share(row: TreePhase) -> str:
    ends = row.of_warm_ci95
    certain = f" (95 % interval {_interval(ends, percent_text)} %)" if ends else ""
    return f"{row.op} {percent_text(row.of_warm or 0.0)}{certain}"
