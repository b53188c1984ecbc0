"""One cell of a run: a dict of the run document's fields, with the common ones as attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Cell(dict[str, Any]):
    """One set of parameters, measured once. Every field is in docs/reference/run-document.md: `cell["ops"]`.

    Sizes are bytes, rates bytes per second, latencies nanoseconds; None where a source does not give a value.
    """

    __slots__ = ()

    @property
    def id(self) -> int:
        """Number of the cell in its run."""
        return int(self["id"])

    @property
    def op(self) -> str:
        """The operation: `read`, `write`, `random_read` ..."""
        return str(self["op"])

    @property
    def workload(self) -> str | None:
        """What the cell was measured for, if not as a point of a sweep."""
        found = self.get("workload")
        return None if found is None else str(found)

    @property
    def file_bytes(self) -> int | None:
        """Size of each file."""
        return self._whole("file_bytes")

    @property
    def record_bytes(self) -> int | None:
        """Size of a request."""
        return self._whole("record_bytes")

    @property
    def queue_depth(self) -> int | None:
        """Outstanding requests of each worker."""
        return self._whole("queue_depth")

    @property
    def workers(self) -> int | None:
        """Workers, each with a connection of its own."""
        return self._whole("workers")

    @property
    def throughput_bytes_per_s(self) -> float | None:
        """Rate that the server acknowledged."""
        return self._number("throughput_bytes_per_s")

    @property
    def durable_bytes_per_s(self) -> float | None:
        """The same including flush, for writes."""
        return self._number("durable_bytes_per_s")

    @property
    def iops(self) -> float | None:
        """Operations per second."""
        return self._number("iops")

    @property
    def latency_ns(self) -> dict[str, int | None]:
        """`min`, `mean`, `p50`, `p90`, `p99`, `p99_9`, `max`; empty without one."""
        return dict(self.get("latency_ns") or {})

    @property
    def errors(self) -> int | None:
        """Operations that failed."""
        return self._whole("errors")

    @property
    def regime(self) -> str | None:
        """What set the rate: `link`, `disk`, `latency`, `client_cache` ..."""
        found = self.get("regime")
        return None if found is None else str(found)

    @property
    def status(self) -> str:
        """`complete`, `partial` or `failed`."""
        return str(self["status"])

    def _whole(self, name: str) -> int | None:
        found = self.get(name)
        return None if found is None else int(found)

    def _number(self, name: str) -> float | None:
        found = self.get(name)
        return None if found is None else float(found)


def loaded_ns(cell: Mapping[str, Any]) -> int:
    """The part of a cell's window in which operations were started.

    Of a cell that ended by time, those that were still outstanding are answered after that, and alone: on a server with
    rare slow operations that looked like a rate that fell, and like credit that was spent.
    """
    by_time = cell.get("limit_ns") if cell.get("stop_reason") == "duration" else None
    return int(min(by_time or cell["window_ns"], cell["window_ns"]))
