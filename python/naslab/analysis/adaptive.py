"""An adaptive sweep's predicted cells, and what it saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from naslab.analysis.surface_model import LEAST_WIDTH, REAL_WIDTH, Model, Predicted, Surface, all_seen
from naslab.results.document import cell_document
from naslab.results.parts.adaptive import AdaptiveDocument
from naslab.spec import CellSpec
from naslab.units import amount_text, duration_text, percent_text

Cell = dict[str, Any]


WORKLOAD = "sample"
"""Of cells that read parts of a file: they are no points of the surface."""


def predicted_cells(grid: Sequence[CellSpec], measured: Sequence[Cell], first_id: int, real: bool) -> list[Cell]:
    """Cells of the grid that were not tried, as far as they can be told. first_id: of the first of them. real: of a
    server that is no simulated one.

    Such a cell has a rate and its interval, and nothing that only a measurement gives: no bytes, times or latency.
    """
    tried = {_spot(cell) for cell in measured if not cell["workload"]}
    model = Model(Surface(all_seen(measured, WORKLOAD)), REAL_WIDTH if real else LEAST_WIDTH)
    cells: list[Cell] = []
    for spec in grid:
        if (spec.op, spec.file_bytes, spec.record_bytes) in tried:
            continue
        found = model.predict(spec.op, spec.file_bytes, spec.record_bytes)
        if found is not None:
            cells.append(_cell(dataclasses.replace(spec, id=first_id + len(cells)), found))
    return cells


def _spot(cell: Mapping[str, Any]) -> tuple[str, int, int]:
    return cell["op"], cell["file_bytes"], cell["record_bytes"]


def _cell(spec: CellSpec, found: Predicted) -> Cell:
    per_s = 1e9 / found.record_ns
    rate = spec.record_bytes * per_s
    return {
        **cell_document(dataclasses.asdict(spec), {"stop_reason": "predicted"}),
        "predicted": True,
        "predicted_ci90_bytes_per_s": [spec.record_bytes * 1e9 / end for end in (found.high_ns, found.low_ns)],
        "throughput_bytes_per_s": rate,
        "throughput_mib_per_s": rate / (1 << 20),
        "acknowledged_bytes_per_s": rate,
        "iops": per_s,
    }


def finding(cells: Sequence[Cell], grid: Sequence[CellSpec], full_bytes: int) -> AdaptiveDocument:
    """`adaptive` of the run document. grid: one block of it; full_bytes: of the whole grid, repeats included."""
    measured = [cell for cell in cells if not cell["predicted"]]
    predicted = [cell for cell in cells if cell["predicted"]]
    own = {_spot(cell) for cell in measured if not cell["workload"]}
    planned = {(spec.op, spec.file_bytes, spec.record_bytes): spec.planned_bytes() for spec in grid}
    blocks = full_bytes / max(sum(planned.values()), 1)
    spent = sum(cell["duration_ns"] for cell in measured)
    times: dict[tuple[str, int, int], list[float]] = {}
    for cell in cells:
        if not cell["workload"] and cell["throughput_bytes_per_s"]:
            times.setdefault(_spot(cell), []).append(planned[_spot(cell)] * 1e9 / cell["throughput_bytes_per_s"])
    widths = sorted(_half_width(cell) for cell in predicted)
    return AdaptiveDocument(
        grid_cells=len(grid),
        measured_cells=len(own),
        predicted_cells=len(predicted),
        unknown_cells=len(grid) - len(own) - len(predicted),
        parts=sum(cell["workload"] == WORKLOAD for cell in measured),
        full_grid_bytes=full_bytes,
        moved_bytes=sum(cell["bytes"] + cell["warmup_bytes"] for cell in measured),
        full_grid_ns=round(blocks * sum(median(each) for each in times.values())),
        moved_ns=spent,
        median_ci90=median(widths) if widths else None,
        p90_ci90=widths[int(0.9 * (len(widths) - 1))] if widths else None,
    )


def _half_width(cell: Mapping[str, Any]) -> float:
    low, high = cell["predicted_ci90_bytes_per_s"]
    return float((high - low) / 2 / cell["throughput_bytes_per_s"])


def sentences(part: AdaptiveDocument) -> list[str]:
    """What was measured, predicted and saved."""
    full, moved = part.full_grid_bytes, part.moved_bytes
    said = [
        f"Adaptive: {part.measured_cells} of {part.grid_cells} cells were measured and "
        f"{part.predicted_cells} predicted, from {amount_text(moved)} instead of {amount_text(full)} "
        f"({percent_text(moved / full, 1)}), in {duration_text(part.moved_ns)} of reading and writing instead of "
        f"about {duration_text(part.full_grid_ns)}."
    ]
    if part.median_ci90 is not None and part.p90_ci90 is not None:
        said.append(
            f"90 % intervals of predicted cells: ±{percent_text(part.median_ci90, 1)} in the median, "
            f"±{percent_text(part.p90_ci90, 1)} or less for nine of ten."
        )
    return said
