"""One number of a run document for a claim or a chart: which cells or which field, and what is taken of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naslab.analysis import surface
from naslab.analysis.knee import isotonic
from naslab.results.numbers import is_number
from naslab.units import percent_text

Cell = Mapping[str, Any]
FIELDS = {
    "throughput": "throughput_bytes_per_s",
    "durable": "durable_bytes_per_s",
    "iops": "iops",
    "cpu": "cpu_fraction",
}
PERCENTILES = ("p50", "p90", "p99", "p99_9")
TAKES = ("mean", "median", "geometric", "most", "least", "knee", "roughness")
CACHED_STEP = 1.25
"""A curve against file size has a knee where its high part is at least so many times its low part."""
ELSEWHERE = "elsewhere"
"""The place of results that were given: nothing is known of what they share with those measured here."""
_KEYS = {"op": "op", "workload": "workload", "file": "file_bytes", "record": "record_bytes", "depth": "queue_depth",
         "workers": "workers"}  # fmt: skip
WHERE = tuple(_KEYS)


@dataclass(frozen=True)
class Sample:
    """One repeat: a test carried out once under one condition. block: which repeat; what is paired has the same.

    place: on which side of a guest's boundary both the server and the client were; samples of two places are not
    compared.
    """

    condition: str
    test: str
    block: int
    place: str
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Quantity:
    """A number of one repeat.

    value: throughput, durable, iops, cpu, p50 ... p99_9, or the dotted path of a field of the document, in which the
    element of a list is named by its `name`, `job`, `op` or `kind`. where: by key the word, or the (low, high) that a
    size lies in, ends included. take: of several cells the mean, median, geometric mean, most or least; knee: the file
    size at which throughput has fallen half way from the cached to the uncached rate; roughness: of the surface.
    """

    condition: str
    test: str
    value: str = "throughput"
    where: Mapping[str, Any] = field(default_factory=dict)
    take: str = "mean"


def is_known(value: str) -> bool:
    """Whether this is a value that a Quantity can have."""
    return value in FIELDS or value in PERCENTILES or "." in value.strip(".")


def of_blocks(quantity: Quantity, samples: Sequence[Sample], least: float = 5e-324) -> dict[int, float]:
    """The number of each repeat, by block; repeats without it, or with less than `least`, are left out."""
    found = {}
    for sample in samples:
        if sample.condition == quantity.condition and sample.test == quantity.test:
            value = read(quantity, sample.document)
            if value is not None and math.isfinite(value) and value >= least:
                found[sample.block] = value
    return found


def read(quantity: Quantity, document: Mapping[str, Any]) -> float | None:
    """The number of one document; None where it has none."""
    if "." in quantity.value:
        return _at_path(document, quantity.value.split("."))
    cells = matching(quantity.where, document)
    if quantity.take == "knee":
        sizes, rates = _curve(cells, quantity.value)
        return cache_knee(sizes, rates)
    if quantity.take == "roughness":
        grid = surface_of(cells, quantity.value)
        return surface.roughness(grid[2]) if grid else None
    values = [value for cell in cells if (value := _of_cell(cell, quantity.value)) is not None]
    return _of_many(values, quantity.take) if values else None


def _of_many(values: Sequence[float], take: str) -> float | None:
    if take in ("most", "least"):
        return max(values) if take == "most" else min(values)
    if take == "geometric":
        return float(np.exp(np.mean(np.log(values)))) if min(values) > 0 else None
    return float(np.median(values) if take == "median" else np.mean(values))


def matching(where: Mapping[str, Any], document: Mapping[str, Any]) -> list[Cell]:
    """Cells of a document that completed and match."""
    return [cell for cell in document.get("cells", ()) if cell.get("status") == "complete" and _matches(cell, where)]


def _matches(cell: Cell, where: Mapping[str, Any]) -> bool:
    if "workload" not in where and cell.get("workload") in ("fill", "evict", "prepare", "clean", "idle", "drain"):
        return False
    for key, wanted in where.items():
        value = cell.get(_KEYS[key])
        if isinstance(wanted, tuple):
            if value is None or not wanted[0] <= value <= wanted[1]:
                return False
        elif value != wanted:
            return False
    return True


def _of_cell(cell: Cell, value: str) -> float | None:
    found = (cell.get("latency_ns") or {}).get(value) if value in PERCENTILES else cell.get(FIELDS[value])
    return None if found is None else float(found)


OTHER_LIMITS = {
    "client_cpu": "limited by the client's processor here",
    "local": "limited by the client's own files here",
    "source": "limited by the source of the files here",
    "mixed": "not limited by the target alone here",
}
"""What else than the target may limit a step of a job, in words."""


def bounds_of(quantity: Quantity, samples: Sequence[Sample]) -> dict[int, str]:
    """By block, what limited a job's rate where that was not the target: a target may do more than such a rate.

    Empty for other numbers: only of a job is it known.
    """
    path = quantity.value.split(".")
    if path[:2] != ["job", "steps"] or not path[-1].endswith("_per_s"):
        return {}
    found = {}
    for sample in samples:
        if (sample.condition, sample.test) == (quantity.condition, quantity.test):
            step = _element(sample.document, path[:-1])
            if isinstance(step, Mapping) and step.get("limit") in OTHER_LIMITS:
                found[sample.block] = _limited(step)
    return found


def _limited(step: Mapping[str, Any]) -> str:
    waited = percent_text(step["shares"]["target"])
    busy = f"the job kept {step['cpu_fraction']:.2g} processors busy, and " if step["limit"] == "client_cpu" else ""
    return f"{OTHER_LIMITS[step['limit']]}: {busy}its streams waited {waited} of their time for the target"


def _at_path(document: Any, path: Sequence[str]) -> float | None:
    found = _element(document, path)
    return float(found) if is_number(found) else None


def _element(found: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list):
            named = (each for each in found if isinstance(each, Mapping))
            found = next(
                (each for each in named if part in [each.get(key) for key in ("name", "job", "op", "kind")]), None
            )
        else:
            return None
    return found


def _curve(cells: Sequence[Cell], value: str) -> tuple[list[int], list[float]]:
    """File sizes, ascending, and the median of their cells."""
    by_size: dict[int, list[float]] = {}
    for cell in cells:
        if (found := _of_cell(cell, value)) is not None and found > 0:
            by_size.setdefault(int(cell["file_bytes"]), []).append(found)
    sizes = sorted(by_size)
    return sizes, [float(np.median(by_size[size])) for size in sizes]


def cache_knee(sizes: Sequence[int], rates: Sequence[float]) -> float | None:
    """File size, bytes, at which the rate has fallen half way (on a logarithmic axis) from its high to its low part.

    sizes: ascending. The curve from its peak on, made monotone by least squares on logarithms (pool adjacent
    violators); None where the high part is less than CACHED_STEP times the low one. Between two sizes the knee is
    interpolated: it is no finer than their step.
    """
    if len(sizes) < 3:
        return None
    start = int(np.argmax(rates))
    x, falling = np.log(sizes[start:]), -isotonic(-np.log(rates[start:]))
    if len(x) < 2 or falling[0] - falling[-1] < math.log(CACHED_STEP):
        return None
    level = (falling[0] + falling[-1]) / 2
    at = int(np.flatnonzero(falling <= level)[0])
    share = (falling[at - 1] - level) / (falling[at - 1] - falling[at])
    return float(np.exp(x[at - 1] + share * (x[at] - x[at - 1])))


def surface_of(cells: Sequence[Cell], value: str) -> tuple[list[int], list[int], NDArray[np.float64]] | None:
    """(file sizes, record sizes, (files, records) rates, NaN where there is none) of one repeat; None without cells."""
    found: dict[tuple[int, int], list[float]] = {}
    for cell in cells:
        if (rate := _of_cell(cell, value)) is not None and rate > 0:
            found.setdefault((int(cell["file_bytes"]), int(cell["record_bytes"])), []).append(rate)
    if not found:
        return None
    files, records = (sorted({at[axis] for at in found}) for axis in (0, 1))
    grid = np.full((len(files), len(records)), np.nan)
    for (file, record), rates in found.items():
        grid[files.index(file), records.index(record)] = float(np.median(rates))
    return files, records, grid


def surfaces_of(
    quantity: Quantity, samples: Sequence[Sample]
) -> tuple[list[int], list[int], NDArray[np.float64]] | None:
    """(file sizes, record sizes, (repeats, files, records)) of all repeats of a condition; None without any."""
    mine = [s for s in samples if s.condition == quantity.condition and s.test == quantity.test]
    grids = [grid for s in mine if (grid := surface_of(matching(quantity.where, s.document), quantity.value))]
    if not grids:
        return None
    files, records = (sorted({size for grid in grids for size in grid[axis]}) for axis in (0, 1))
    whole = np.full((len(grids), len(files), len(records)), np.nan)
    for at, (some_files, some_records, rates) in enumerate(grids):
        rows, columns = [files.index(f) for f in some_files], [records.index(r) for r in some_records]
        whole[at][np.ix_(rows, columns)] = rates
    return files, records, whole
