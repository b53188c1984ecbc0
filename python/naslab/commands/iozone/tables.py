"""What was measured, as IOzone counts it: values per pass and row, and the report tables made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from naslab.commands.iozone.args import Args
from naslab.commands.iozone.plan import KIB, Plan, report_records

TEXT_NAMES: dict[str, str] = {
    "write": "Writer", "rewrite": "Re-writer", "read": "Reader", "reread": "Re-Reader",
    "random_read": "Random read", "random_write": "Random write", "backward_read": "Backward read",
    "record_rewrite": "Record rewrite", "stride_read": "Stride read", "fwrite": "Fwrite",
    "frewrite": "Re-Fwrite", "fread": "Fread", "freread": "Re-Fread", "pwrite": "Pwrite",
    "repwrite": "Re-Pwrite", "pread": "Pread", "repread": "Re-Pread",
}  # fmt: skip
"""Names in the text report (`"Writer report"`)."""

SHEET_NAMES: dict[str, str] = {
    **TEXT_NAMES, "reread": "Re-reader", "random_read": "Random Read", "random_write": "Random Write",
    "backward_read": "Backward Read", "record_rewrite": "Record Rewrite", "stride_read": "Stride Read",
    "frewrite": "Re-fwrite", "freread": "Re-fread", "repwrite": "Re-pwrite", "repread": "Re-pread",
}  # fmt: skip
"""Names in the spreadsheet (`Writer Report`)."""

CPU_SUFFIX = "CPU utilization report (Zero values should be ignored)"


@dataclass
class Table:
    """One report table. records: header, KiB. rows: (file KiB, values for the records that fit)."""

    op: str
    cpu: bool
    records: list[int]
    rows: list[tuple[int, list[float]]]

    @property
    def text_name(self) -> str:
        """Heading in the text report."""
        return f"{TEXT_NAMES[self.op]} {CPU_SUFFIX if self.cpu else 'report'}"

    @property
    def sheet_name(self) -> str:
        """Heading in the spreadsheet."""
        return f"{SHEET_NAMES[self.op]} {CPU_SUFFIX if self.cpu else 'Report'}"


@dataclass
class Results:
    """Values of the cells that ended well, in the unit asked for, and CPU in per cent of one processor.

    Keys: (row index, op) in single mode, (number of workers, op) in throughput mode.
    """

    plan: Plan
    values: dict[tuple[int, str], float] = field(default_factory=dict)
    cpu: dict[tuple[int, str], float] = field(default_factory=dict)

    def add(self, cell: Mapping[str, Any]) -> None:
        """Keeps a cell of the run document. Cells that did not complete are left out."""
        if not is_complete(cell):
            return
        key = self.plan.where[cell["id"]]
        self.values[key] = children_value(cell, self.plan.args) if self.plan.counts else value(cell, self.plan.args)
        self.cpu[key] = cpu_percent(cell)

    def tables(self) -> Iterator[Table]:
        """Single mode's tables in IOzone's order; with -+u the CPU tables follow."""
        for values, cpu in ((self.values, False), *(((self.cpu, True),) if self.plan.args.cpu else ())):
            for op in self.plan.ops:
                yield Table(op, cpu, report_records(self.plan.args), list(self._rows(op, values)))

    def _rows(self, op: str, values: Mapping[tuple[int, str], float]) -> Iterator[tuple[int, list[float]]]:
        """Files of which anything was measured; cells cut off, left out or failed are 0. Ends where the run did."""
        begun = {index for index, _ in self.values}
        last = max(begun, default=-1)
        by_file: dict[int, list[int]] = {}
        for index, row in enumerate(self.plan.rows[: last + 1]):
            by_file.setdefault(row.file_kib, []).append(index)
        for file_kib, indexes in by_file.items():
            if begun.intersection(indexes):
                yield file_kib, [values.get((index, op), 0) for index in indexes]


def unit_name(args: Args) -> str:
    """The unit of single mode's figures."""
    return "us/op" if args.usec else "ops/s" if args.iops else "KiB/s"


def is_complete(cell: Mapping[str, Any]) -> bool:
    """Whether the cell's value counts: it ran to its end without errors."""
    return bool(cell["status"] == "complete" and not cell["errors"] and cell["duration_ns"] > 0)


def value(cell: Mapping[str, Any], args: Args) -> int:
    """Single mode's figure: floor(bytes/s) >> 10 (KiB/s), or whole ops/s (-O), or whole microseconds/op (-N)."""
    duration_ns = cell["duration_ns"]
    if args.usec:
        return int(duration_ns // (1000 * max(cell["ops"], 1)))
    if args.iops:
        return int(cell["ops"] * 10**9 // duration_ns)
    return int(cell["bytes"] * 10**9 // duration_ns) >> 10


def rate(moved_bytes: int, ops: int, duration_ns: int, args: Args) -> float:
    """Throughput mode's figure: KiB/s, or ops/s with -O; 0 for a child that did nothing."""
    if duration_ns <= 0:
        return 0.0
    return (ops if args.iops else moved_bytes / KIB) * 1e9 / duration_ns


def worker_rate(worker: Mapping[str, Any], args: Args) -> float:
    """One child's rate over its own time."""
    return rate(worker["bytes"], worker["ops"], worker["duration_ns"], args)


def children_value(cell: Mapping[str, Any], args: Args) -> float:
    """Sum of the children's rates; that of the cell when it carries no details."""
    workers = cell["workers_detail"]
    if not workers:
        return rate(cell["bytes"], cell["ops"], cell["duration_ns"], args)
    return sum(worker_rate(worker, args) for worker in workers)


def cpu_percent(cell: Mapping[str, Any]) -> float:
    """CPU time in per cent of the timed window; above 100 when several processors worked."""
    window_ns = cell["window_ns"]
    return 100 * (cell["cpu_user_ns"] + cell["cpu_system_ns"]) / window_ns if window_ns > 0 else 0.0
