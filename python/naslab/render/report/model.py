"""What the report draws, from the cells of a run: tests, grids, repeats, findings. No pictures here."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from naslab.comparison.names import short
from naslab.render.report.labels import count_label, op_label, percent, plain, value_label
from naslab.results.cell_names import STAGES, test_name
from naslab.spec import DATA_OPS
from naslab.units import count_text, size_label

if TYPE_CHECKING:
    from naslab.results.run import Run

Cell = dict[str, Any]
Spot = tuple[int, int]
"""(file_bytes, record_bytes)"""

PERCENTILES = (("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p99_9", "p99.9"), ("max", "max"))
PREPARING = ("fill", "idle", "drain", "evict", "diskspd -c", "prepare", "clean", "sample")
"""Workloads of cells that only prepare others."""
LADDER = "ladder"
"""Workload of the cells that a verdict rests on; they have charts of their own."""
_SPLITTERS = (
    "workers", "queue_depth", "offered_per_s", "write_fraction", "durability", "sync", "direct", "access",
    "pattern", "cache_state",
)  # fmt: skip


@dataclass
class Case:
    """One test of a run: cells that differ only in file size, record size and repeat.

    unit: `bytes` (values are bytes per second) or `ops` (operations per second).
    """

    label: str
    op: str
    unit: str
    cells: list[Cell]
    spots: dict[Spot, list[Cell]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cell in self.cells:
            for at in _spots(cell):
                self.spots.setdefault(at, []).append(cell)

    @property
    def files(self) -> list[int]:
        """File sizes with a value, ascending; those that are not told (0) only where there are no others."""
        return sorted({file for file, _ in self.spots if file}) or [0]

    @property
    def records(self) -> list[int]:
        """Record sizes with a value, ascending."""
        return sorted({record for _, record in self.spots})

    def values(self, at: Spot) -> list[float]:
        """Values of the repeats at one spot, in the order measured; empty where nothing was."""
        return [value(cell, self.unit) for cell in self.spots.get(at, [])]

    def medians(self) -> dict[Spot, float]:
        """Median over the repeats of every spot."""
        return {at: statistics.median(self.values(at)) for at in self.spots}

    def predicted(self, at: Spot) -> bool:
        """Whether the value at a spot was predicted, not measured."""
        return any(cell.get("predicted") for cell in self.spots.get(at, []))

    def cached(self, at: Spot) -> bool:
        """Whether a value at a spot came from the client's cache: no server answers so fast."""
        return any(cell.get("regime") == "client_cache" for cell in self.spots.get(at, []))

    def cached_words(self, mark: str = "open marks") -> str:
        """How many values are of the client's cache, in a sentence; nothing where none is. mark: how it shows."""
        return cached_text(sum(map(self.cached, self.spots)), len(self.spots), mark)

    def repeats(self) -> int:
        """Most repeats at any spot."""
        return max(len(cells) for cells in self.spots.values())


def cached_text(count: int, of: int, mark: str) -> str:
    """` 3 of 12 values from the client's cache (open marks).`; nothing where none is."""
    return f" {count} of {count_label(of, 'value')} from the client's cache ({mark})." if count else ""


def spot(cell: Cell) -> Spot:
    """(file_bytes, record_bytes) of a cell; metadata cells have zeros."""
    return int(cell.get("file_bytes") or 0), int(cell.get("record_bytes") or 0)


def _spots(cell: Cell) -> list[Spot]:
    """Where a cell is drawn: at its size, or at both ends of the sizes that a published rate is a mean over."""
    file, record = spot(cell)
    return [(end, record) for end in cell.get("covers_file_bytes") or (file,)]


def value(cell: Cell, unit: str) -> float:
    """Bytes or operations per second of a cell."""
    return float(cell.get("throughput_bytes_per_s" if unit == "bytes" else "iops") or 0.0)


def usable(cell: Cell) -> bool:
    """Whether a cell has a value to draw: it did not fail and something was done."""
    done = (cell.get("throughput_bytes_per_s") or 0) > 0 or (cell.get("iops") or 0) > 0
    return cell.get("status", "complete") != "failed" and done


def measured(cell: Cell) -> bool:
    """Whether a cell is a result: files written first, idle times and what empties a cache or a burst are not."""
    return cell.get("workload") not in (*PREPARING, LADDER)


def failed(run: Run) -> list[Cell]:
    """Cells without a value."""
    return [cell for cell in run.cells if not usable(cell)]


def cases(run: Run) -> list[Case]:
    """Tests of a run in IOzone's order, others as measured. A field that two cells of one operation and
    one size differ in (depth, workers, durability ...) makes them separate tests, named after it. Zones of a
    profile are no repeats of one test: they have a chart of their own."""
    groups: dict[tuple[str | None, str], list[Cell]] = {}
    profile: Any = run.document.get("profile")
    zones = {zone["cell"] for zone in profile["zones"]} if profile else set()
    shown = [cell for cell in run.cells if usable(cell) and measured(cell) and cell["id"] not in zones]
    for cell in shown or [cell for cell in run.cells if usable(cell) and cell.get("workload") != LADDER]:
        groups.setdefault((cell.get("workload"), cell["op"]), []).append(cell)
    order = {op: i for i, op in enumerate(DATA_OPS)}
    keys = sorted(groups, key=lambda key: len(order) if key[0] else order.get(key[1], len(order)))
    several = Counter(workload for workload, _ in keys)
    return [case for key in keys for case in _split(_name(*key, several[key[0]] > 1), groups[key])]


def _name(workload: str | None, op: str, several: bool) -> str:
    """A workload's name, with the operation where it has several."""
    if workload is None:
        return op_label(op)
    if workload in STAGES:
        return test_name({"op": op, "workload": workload})
    return f"{op_label(workload)}: {op_label(op).lower()}" if several else op_label(workload)


def _split(name: str, cells: list[Cell]) -> Iterator[Case]:
    fields = [key for key in _SPLITTERS if _differs_at_one_spot(cells, key)]
    parts: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        parts.setdefault(tuple(cell.get(key) for key in fields), []).append(cell)
    for chosen, members in parts.items():
        words = [_field_text(key, chosen_value) for key, chosen_value in zip(fields, chosen, strict=True)]
        unit = "bytes" if any((c.get("throughput_bytes_per_s") or 0) > 0 for c in members) else "ops"
        yield Case(", ".join([name, *words]), members[0]["op"], unit, members)


def _differs_at_one_spot(cells: list[Cell], key: str) -> bool:
    seen: dict[Spot, Any] = {}
    return any(seen.setdefault(spot(cell), cell.get(key)) != cell.get(key) for cell in cells)


def _field_text(key: str, chosen: Any) -> str:
    if chosen is None:
        return f"{key.replace('_', ' ')} not known" if key != "offered_per_s" else "closed loop"
    if key in ("direct", "pattern", "cache_state", "access"):
        return (
            ("direct" if chosen else "buffered")
            if key == "direct"
            else f"{key.split('_', maxsplit=1)[0]} {plain(chosen)}"
        )
    formats = {
        "workers": f"{chosen} workers",
        "queue_depth": f"depth {chosen}",
        "offered_per_s": f"{count_text(float(chosen))} ops/s offered" if key == "offered_per_s" else "",
        "write_fraction": f"{percent(float(chosen))} writes" if key == "write_fraction" else "",
    }
    return formats.get(key, f"{key} {plain(chosen)}")


def place(at: Spot) -> str:
    """`64 MiB file, 1 MiB records`."""
    file, record = at
    parts = [f"{size_label(file)} file"] if file else []
    parts += [f"{size_label(record)} records"] if record else []
    return ", ".join(parts) or "no file data"


def where(case: Case, at: Spot) -> str:
    """`place`; of data whose sizes are not told, as a source of other tools' results may leave them, that."""
    return "sizes unknown" if at == (0, 0) and case.unit == "bytes" else place(at)


def extremes(case: Case) -> tuple[tuple[Spot, float], tuple[Spot, float]]:
    """(highest, lowest) median of a test, with where."""
    ranked = sorted(case.medians().items(), key=lambda item: item[1])
    return ranked[-1], ranked[0]


def finding(case: Case) -> str:
    """The finding of a test in one sentence: highest, lowest, where, over how many repeats."""
    (high_at, high), (low_at, low) = extremes(case)
    repeats = case.repeats()
    basis = f" (medians of up to {repeats} repeats)" if repeats > 1 else ""
    if high_at != low_at and len(case.cells) == 1:  # one rate, told for a range of sizes
        sizes = " to ".join(size_label(size) for size in case.files)
        return f"{case.label}: {value_label(high, case.unit)} over files of {sizes}."
    if high_at == low_at:
        return f"{case.label}: {value_label(high, case.unit)} with {where(case, high_at)}{basis}."
    ends = (high_at, low_at)
    high_place, low_place = (where(case, at) + (", predicted" if case.predicted(at) else "") for at in ends)
    return (
        f"{case.label}: highest {value_label(high, case.unit)} with {high_place}; "
        f"lowest {value_label(low, case.unit)} with {low_place}{basis}."
    )


def percentile_ns(case: Case, at: Spot, name: str) -> float | None:
    """Median over the repeats of one latency percentile, in nanoseconds; None when none was recorded."""
    found = [cell["latency_ns"][name] for cell in case.spots[at] if (cell.get("latency_ns") or {}).get(name)]
    return statistics.median(found) if found else None


def cell_label(cell: Cell, case: Case) -> str:
    """Name of one cell within its test."""
    label = place(spot(cell))
    return f"{label}, repeat {int(cell.get('block') or 0) + 1}" if case.repeats() > 1 else label


def run_label(run: Run, runs: list[Run]) -> str:
    """Name of a run, distinct among `runs`: its label, or its target's URL, cut short; with the id when shared."""
    names = [_own_name(other) for other in runs]
    name = _own_name(run)
    return f"{name} ({run.document.get('run_id', '')})" if names.count(name) > 1 else name


def _own_name(run: Run) -> str:
    if run.document.get("label"):
        return str(run.document["label"])
    labels = run.document.get("labels")
    for key in ("name", "device", "system"):
        if isinstance(labels, dict) and labels.get(key):
            return str(labels[key])
    target = run.document.get("target") or {}
    return short(str(target.get("url") or target.get("protocol") or run.document.get("run_id") or "run"))
