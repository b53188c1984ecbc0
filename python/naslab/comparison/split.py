"""What the kernel's client costs: one server through a mount and through naslab's own client, cell by cell.

The two are measured in turns, so that blocks are pairs: the ratio has the interval of `analysis.ratios`. What both
share (the server, the link) is in both; what the ratio leaves is the difference of the two clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from naslab.analysis import ratios
from naslab.commands.plans.both_ways import SMALL_BYTES, WORKLOAD
from naslab.results.cell_names import op_words
from naslab.results.parts.split import ClientSplit, ClientSplitCell, ClientSplitSide
from naslab.units import duration_text, percent_text, rate_text, size_label

Cells = Sequence[Mapping[str, Any]]
Kind = tuple[str, int, int]
"""(op, record size, depth): one measurement."""
GIB = 1 << 30


def split(mount: Cells, own: Cells, busy: Sequence[Mapping[int, int]]) -> list[ClientSplitCell]:
    """The measurements that both have, as `client_split.cells` of the run document.

    mount, own: cells of the two runs. busy: of each of the two, by a cell's id, the time that all processors of this
    machine were busy from before its files were opened until it ended, in nanoseconds.
    """
    sides = [by_kind(cells, WORKLOAD) for cells in (mount, own)]
    shared = [
        kind
        for kind in sorted(sides[0], key=_order)
        if kind in sides[1] and sides[0][kind].keys() & sides[1][kind].keys()
    ]
    found = [_ratio(sides[0][kind], sides[1][kind]) for kind in shared]
    judged = ratios.judge(found, higher=True)
    return [
        ClientSplitCell(
            op=kind[0], record_bytes=kind[1], queue_depth=kind[2],
            mount=_side(list(sides[0][kind].values()), busy[0]), own=_side(list(sides[1][kind].values()), busy[1]),
            ratio=each.ratio.value, n=each.ratio.n, verdict=each.verdict, different=each.different,
            ci95=[each.ratio.low, each.ratio.high if math.isfinite(each.ratio.high) else None],
        )
        for kind, each in zip(shared, judged, strict=True)
    ]  # fmt: skip


def _order(kind: Kind) -> tuple[bool, bool, int]:
    """Large before small, writes before reads, as they are told."""
    return kind[1] == SMALL_BYTES, not kind[0].endswith("write"), kind[2]


def by_kind(cells: Cells, workload: str) -> dict[Kind, dict[int, Mapping[str, Any]]]:
    """Whole cells of a workload by measurement and block."""
    found: dict[Kind, dict[int, Mapping[str, Any]]] = {}
    for cell in cells:
        if cell["workload"] == workload and cell["status"] == "complete" and not cell["errors"] and cell["bytes"]:
            kind = (str(cell["op"]), int(cell["record_bytes"]), int(cell["queue_depth"]))
            found.setdefault(kind, {})[int(cell["block"])] = cell
    return found


def _ratio(mount: Mapping[int, Mapping[str, Any]], own: Mapping[int, Mapping[str, Any]]) -> ratios.Ratio:
    blocks = sorted(mount.keys() & own.keys())
    rates = [np.array([side[block]["throughput_bytes_per_s"] for block in blocks]) for side in (mount, own)]
    return ratios.paired(rates[0], rates[1], ratios.RATE_MARGIN)


def _side(cells: Cells, busy: Mapping[int, int]) -> ClientSplitSide:
    """One side of a measurement: medians over the blocks; processor time over the bytes of all."""
    moved = sum(cell["bytes"] + cell["warmup_bytes"] for cell in cells)
    own = sum(cell["cpu_user_ns"] + cell["cpu_system_ns"] for cell in cells)
    machine = [busy[cell["id"]] for cell in cells if cell["id"] in busy]
    latencies = [cell["latency_ns"]["mean"] for cell in cells if cell["latency_ns"]["mean"] is not None]
    return ClientSplitSide(
        bytes_per_s=float(median(cell["throughput_bytes_per_s"] for cell in cells)),
        latency_ns=int(median(latencies)) if latencies else None,
        process_cpu_ns_per_gib=int(own * GIB / moved),
        machine_cpu_ns_per_gib=int(sum(machine) * GIB / moved) if len(machine) == len(cells) else None,
    )


def sentences(cells: Sequence[ClientSplitCell]) -> list[str]:
    """What the kernel's client costs, in words: of large and small reads and writes at the deepest, and of one small
    operation at a time in microseconds."""
    told = []
    deepest = max((cell.queue_depth for cell in cells), default=1)
    for cell in cells:
        if cell.queue_depth == deepest:
            told.append(_cost(cell))
    for cell in cells:
        if cell.queue_depth == 1 and cell.record_bytes == SMALL_BYTES and cell.different:
            told += _latency(cell)
    return told


def name(cell: ClientSplitCell) -> str:
    """`large reads`, `small writes`."""
    size = "small" if cell.record_bytes == SMALL_BYTES else "large"
    return f"{size} {'writes' if cell.op.endswith('write') else 'reads'}"


def _cost(cell: ClientSplitCell) -> str:
    low, high = _ends(cell)
    mount, own = cell.mount, cell.own
    what = f"{name(cell)} ({size_label(cell.record_bytes)}, {_deep(cell.queue_depth)})"
    rates = f"{rate_text(mount.bytes_per_s)} through the mount, {rate_text(own.bytes_per_s)} by naslab's own client"
    if cell.verdict is None or high is None:
        return f"{what[0].upper()}{what[1:]}: {rates}; too few repeats to compare the clients."
    if cell.verdict == "equivalent":
        return f"The kernel's client has no measurable cost for {what}: both are equal within 5 %: {rates}."
    if not cell.different:
        most = f"the kernel's client may cost up to {percent_text(max(1 - low, 0), 1)}"
        return f"No difference between the clients was detected for {what}; {most}: {rates}."
    if cell.ratio < 1:
        interval = f"95 % {percent_text(max(1 - high, 0), 1)} to {percent_text(1 - low, 1)}"
        rest = "the rest is the server and the link"
        return f"The kernel's client costs {percent_text(1 - cell.ratio, 1)} of {what} ({interval}); {rest}: {rates}."
    more = f"{percent_text(cell.ratio - 1, 1)} (95 % {percent_text(low - 1, 1)} to {percent_text(high - 1, 1)})"
    return f"The kernel's client has no cost for {what}: it is {more} faster than naslab's own: {rates}."


def _ends(cell: ClientSplitCell) -> tuple[float, float | None]:
    low, high = cell.ci95
    return low or 0.0, high


def _deep(depth: int) -> str:
    return "one at a time" if depth == 1 else f"{depth} at a time"


def _latency(cell: ClientSplitCell) -> list[str]:
    """The kernel's share of a small operation's time, where it has one."""
    mount, own = cell.mount.latency_ns, cell.own.latency_ns
    if mount is None or own is None or own >= mount:
        return []
    part = f"{duration_text(mount - own)} of {duration_text(mount)}"
    return [f"One at a time, {part} of {name(cell)} is spent in the kernel's client."]


def table(found: ClientSplit) -> Any:
    """The measurements as a table for a terminal."""
    from naslab.text.screen import plain_table

    heads = ("measurement", "mount", "own client", "ratio", "95 %", "CPU/GiB", "own CPU/GiB")
    shown = plain_table(heads, right=heads[1:4])
    for cell in found.cells:
        low, high = _ends(cell)
        sides = (cell.mount, cell.own)
        used = [side.machine_cpu_ns_per_gib or side.process_cpu_ns_per_gib for side in sides]
        what = f"{op_words(cell.op)} {size_label(cell.record_bytes)}, depth {cell.queue_depth}"
        shown.add_row(
            what, *(rate_text(side.bytes_per_s) for side in sides), f"{cell.ratio:.3f}",
            f"{low:.2f}-{'…' if high is None else f'{high:.2f}'}", *map(duration_text, used),
        )  # fmt: skip
    return shown
