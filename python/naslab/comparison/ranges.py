"""Rates that a source tells for a range of file sizes only, and what the other side measured over that range.

A published mean over files of 64 MiB to 1 GiB has no counterpart among cells of one size each: their mean over the
range is it. Where a source tells no single sizes at all, the other cells of the operation have nothing beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from naslab.results.foreign import is_foreign

Document = Mapping[str, Any]
Cell = Mapping[str, Any]
_SAME = ("workload", "record_bytes", "queue_depth", "workers", "block", "durability", "access", "direct", "sync")


def over_ranges(documents: Sequence[Document], others: Sequence[Document]) -> list[Document]:
    """The documents with a cell for the mean over each range of file sizes that the other side tells."""
    ranged = [cell for other in others for cell in other["cells"] if cell.get("covers_file_bytes")]
    if not ranged or any(map(is_foreign, documents)):
        return list(documents)
    untold = {cell["op"] for cell in ranged}
    untold -= {cell["op"] for other in others for cell in other["cells"] if cell["file_bytes"] is not None}
    return [{**document, "cells": list(_cells(document["cells"], ranged, untold))} for document in documents]


def _cells(cells: Sequence[Cell], ranged: Sequence[Cell], untold: set[str]) -> Iterator[Cell]:
    yield from (cell for cell in cells if cell["op"] not in untold)
    for number, one in enumerate(ranged, 1):
        low, high = one["covers_file_bytes"]
        inside = [
            cell for cell in cells
            if cell["op"] == one["op"] and cell["status"] == "complete" and not cell["errors"]
            and low <= (cell["file_bytes"] or 0) <= high and one["record_bytes"] in (None, cell["record_bytes"])
        ]  # fmt: skip
        groups: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in inside:
            groups.setdefault(tuple(cell.get(name) for name in _SAME), []).append(cell)
        yield from (_mean(group, number, [low, high]) for group in groups.values())


def _mean(cells: Sequence[Cell], number: int, covers: list[int]) -> Cell:
    """One cell of their mean rate; without latencies, which have no mean of this kind."""
    none = dict.fromkeys(cells[0]["latency_ns"])
    rate = fmean(cell["throughput_bytes_per_s"] for cell in cells)
    return {
        **cells[0], "id": -number, "file_bytes": None, "covers_file_bytes": covers, "latency_ns": none,
        "throughput_bytes_per_s": rate,
    }  # fmt: skip
