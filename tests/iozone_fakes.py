"""Cells of a run document as `naslab.commands.iozone` receives them, made without an engine."""

from __future__ import annotations

from typing import Any

from naslab.commands.iozone.plan import Plan
from naslab.spec import CellSpec


def fake_cell(spec: CellSpec, rate_bytes_per_s: float = 1e9, **changes: Any) -> dict[str, Any]:
    """A completed cell at a known rate: every worker moved the whole file in the same time."""
    ops = spec.records()
    duration_ns = max(1, round(ops * spec.record_bytes * 1e9 / rate_bytes_per_s))
    workers = [
        {"worker": n, "bytes": ops * spec.record_bytes, "ops": ops, "start_ns": 0, "end_ns": duration_ns,
         "duration_ns": duration_ns}
        for n in range(spec.workers)
    ]  # fmt: skip
    return {
        "id": spec.id, "op": spec.op, "file_bytes": spec.file_bytes, "record_bytes": spec.record_bytes,
        "workers": spec.workers, "status": "complete", "stop_reason": "done", "errors": 0, "errors_by_status": [],
        "first_error": None, "bytes": ops * spec.record_bytes * spec.workers, "ops": ops * spec.workers,
        "duration_ns": duration_ns, "window_ns": duration_ns, "cpu_user_ns": duration_ns // 4,
        "cpu_system_ns": duration_ns // 4, "workers_detail": workers,
    } | changes  # fmt: skip


def rate_of(spec: CellSpec) -> float:
    """A rate in bytes/s that tells cells apart: grows with the record, differs by op."""
    return (100 + sum(map(ord, spec.op)) % 97) * 1e6 + spec.record_bytes * 10


class FakeRun:
    """What `execute` returns: a document and blobs."""

    def __init__(
        self, cells: list[dict[str, Any]], status: str = "complete", logs: dict[int, bytes] | None = None
    ) -> None:
        self.document = {"status": status, "cells": cells}
        self._logs = logs or {}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The cells."""
        return self.document["cells"]  # type: ignore[return-value]

    def blob_names(self, cell: Any) -> list[str]:
        """Whether the cell has an operation log."""
        return ["op_log"] if cell["id"] in self._logs else []

    def blob(self, cell: Any, name: str) -> bytes:
        """The operation log."""
        return self._logs[cell["id"]]

    def to_json(self) -> str:
        """A document's place."""
        return '{"schema": 1}'


class FakeExecute:
    """Calls the hooks as `execute` does. stop_after: cells before `error` is raised, if any."""

    def __init__(self, plan: Plan, stop_after: int | None = None, error: BaseException | None = None) -> None:
        self.plan = plan
        self.stop_after = stop_after
        self.error = error
        self.cells: list[dict[str, Any]] = []

    def __call__(self, *, on_cell: Any, before_cell: Any, progress: Any) -> FakeRun:
        """All cells, or those before the stop."""
        for spec in self.plan.cells:
            if len(self.cells) == self.stop_after:
                if self.error is not None:
                    before_cell(spec.id)
                    raise self.error
                return FakeRun(self.cells, "partial")
            before_cell(spec.id)
            self.cells.append(fake_cell(spec, rate_of(spec)))
            on_cell(self.cells[-1])
        return FakeRun(self.cells)
