"""Whether the client itself stood still while a cell was measured: stopped, paused, asleep, its clock set.

The engine watches (`crates/engine/src/stall.rs`) and counts within the timed window; here is what that means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from naslab.analysis.findings import Finding
from naslab.units import duration_text, percent_text

STALL_SHARE = 0.01
"""Standing still for this share of the window moves the rate by as much."""
LONGEST_NS = 1_000_000_000
"""One stall of this length is the largest latency of its cell, however long the cell was."""
CLOCK_STEP_NS = 10_000_000


def stall_findings(cell: Mapping[str, Any]) -> Iterator[Finding]:
    """What makes the cell doubtful; nothing where the client ran all the time, or nobody watched."""
    seen = cell.get("client_stall")
    if not seen:
        return
    yield from _stood_still(cell, seen)
    if seen["asleep_ns"]:
        text = (
            f"this client slept for {duration_text(seen['asleep_ns'])} within the cell, while the server continued: "
            "repeat it"
        )
        yield Finding("client_stall", text, cell["id"], float(seen["asleep_ns"]), "ns", float(CLOCK_STEP_NS))
    if step := seen["clock_step_ns"]:
        way = "forward" if step > 0 else "back"
        text = (
            f"the wall clock was set {way} by {duration_text(abs(step))} within the cell; if the machine was paused or "
            "moved during the cell, its rate is wrong: repeat it"
        )
        yield Finding("clock_step", text, cell["id"], float(step), "ns", float(CLOCK_STEP_NS))


def _stood_still(cell: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[Finding]:
    window_ns, total_ns = cell.get("window_ns") or 0, seen["total_ns"]
    share = total_ns / window_ns if window_ns > 0 else 0.0
    if share < STALL_SHARE and seen["longest_ns"] < LONGEST_NS:
        return
    times = "once" if seen["count"] == 1 else f"{seen['count']} times"
    text = (
        f"this client stalled {times} for {duration_text(total_ns)} in all, {percent_text(share)} of the cell: it was "
        "stopped, paused or had no processor; rate and latency are not the server's"
    )
    yield Finding("client_stall", text, cell["id"], share, "fraction", STALL_SHARE)
