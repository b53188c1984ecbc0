"""A cell as the search for its regime sees it: what it moved, how many operations were outstanding, and their time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

Direction = Literal["read", "write", "mixed", "none"]
SAME_SIZE = 0.01
"""Mean bytes per operation may differ so much from the record size: a last record may be short."""
BUSY = 0.75
"""Share of the depth that was in flight on average (Little's law), below which the load itself held back."""
STEADY, FEW_BUSY = 8, 0.4
"""Of fewer operations than 8 times the depth, start and end count: all at once, half are in flight on average."""


PAUSES = 0.05
"""Pauses between operations below this share of the workers' time are no pace."""


@dataclass(frozen=True)
class View:
    """One cell. Rates in bytes per second, times in nanoseconds."""

    cell: Mapping[str, Any]

    @cached_property
    def id(self) -> int:
        """The cell's id."""
        return int(self.cell["id"])

    @cached_property
    def direction(self) -> Direction:
        """What its operations that move data do."""
        kinds = {kind for kind in ("read", "write") if (self.cell["kinds"].get(kind) or {}).get("ops")}
        if len(kinds) == 2:
            return "mixed"
        return "read" if "read" in kinds else "write" if "write" in kinds else "none"

    @cached_property
    def in_flight(self) -> int:
        """Operations in flight over all workers; a file of fewer records never fills the depth."""
        workers = int(self.cell["workers"])
        return max(min(int(self.cell["queue_depth"]), int(self.cell["ops"]) // workers), 1) * workers

    @cached_property
    def rate(self) -> float:
        """Acknowledged bytes per second."""
        return float(self.cell["throughput_bytes_per_s"])

    @cached_property
    def op_ns(self) -> float:
        """Time of an operation by Little's law: in flight / operations per second."""
        iops = float(self.cell["iops"])
        return self.in_flight * 1e9 / iops if iops > 0 else 0.0

    @cached_property
    def least_ns(self) -> float:
        """The fastest operation: one that met no other in a queue. 0 where it was not timed."""
        return float(self.cell["latency_ns"].get("min") or 0)

    @cached_property
    def record(self) -> int:
        """Bytes per operation."""
        return int(self.cell["record_bytes"])

    @cached_property
    def size(self) -> int:
        """Bytes of the files it worked on."""
        return int(self.cell["file_bytes"]) * int(self.cell["workers"])

    @property
    def same(self) -> tuple[str, int, int, int, bool, str]:
        """What another cell has in common that does the very same."""
        return str(self.cell["op"]), self.size, self.record, self.in_flight, self.durable, str(self.cell["pattern"])

    @cached_property
    def durable(self) -> bool:
        """Every write was on stable storage before it was acknowledged."""
        return bool(self.cell.get("sync", "none") != "none" or self.cell["durability"] == "each")

    @cached_property
    def scattered(self) -> bool:
        """Its records do not follow each other in the file."""
        return self.cell.get("pattern") not in ("sequential", "same_record")

    @cached_property
    def short(self) -> bool:
        """So few operations that the start and the end count."""
        return bool(self.cell["ops"] < STEADY * self.in_flight)

    @cached_property
    def flushed_rate(self) -> float | None:
        """Bytes per second until all was durable; None where no flush was timed apart."""
        found = self.cell.get("durable_bytes_per_s")
        return float(found) if found and self.cell.get("flush_ns") is not None else None

    @cached_property
    def paced(self) -> bool:
        """Operations waited for their time, not for the server: offered load, pauses between them."""
        if self.cell.get("offered_per_s") or self.cell.get("workload") == "idle":
            return True
        busy = FEW_BUSY if self.short else BUSY
        return 0 < self.outstanding < busy * self.in_flight

    @cached_property
    def outstanding(self) -> float:
        """Requests under way on average, by Little's law; 0 where no latency is known."""
        return float(self.cell["latency_ns"].get("mean") or 0) * float(self.cell["iops"]) / 1e9

    @cached_property
    def held_up(self) -> bool:
        """Fewer requests were under way than asked for, and nothing asked for pauses: the client did not keep up."""
        asked = self.cell.get("offered_per_s") or self.cell.get("workload") == "idle"
        pauses = float(self.cell.get("pause_ns") or 0) / max(int(self.cell["duration_ns"]), 1)
        return self.paced and not asked and pauses < PAUSES

    @cached_property
    def plain(self) -> bool:
        """One size of operation, as fast as they go: its time can be compared with that of others."""
        if self.direction in ("none", "mixed") or not self.cell["ops"] or self.op_ns <= 0 or self.paced:
            return False
        each = self.cell["bytes"] / self.cell["ops"]
        return abs(each - self.record) <= SAME_SIZE * self.record and not self.cell.get("predicted")
