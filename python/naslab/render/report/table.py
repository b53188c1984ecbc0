"""Every cell of the runs as columns, for the page's table: whole documents take longer to unpack than all charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from naslab.render.report.axes import number
from naslab.results.cell_names import test_name

if TYPE_CHECKING:
    from naslab.results.run import Run

Cell = Mapping[str, Any]


def _field(name: str) -> Callable[[Cell], Any]:
    return lambda cell: cell.get(name)


def _latency(name: str) -> Callable[[Cell], Any]:
    return lambda cell: (cell.get("latency_ns") or {}).get(name)


def _rate(name: str, factor: float) -> Callable[[Cell], Any]:
    return lambda cell: None if cell.get(name) is None else number(cell[name] / factor)


_COLUMNS: dict[str, Callable[[Cell], Any]] = {
    "test": test_name,
    "file": _field("file_bytes"),
    "record": _field("record_bytes"),
    "repeat": lambda cell: (cell.get("block") or 0) + 1,
    "depth": _field("queue_depth"),
    "workers": _field("workers"),
    "rate": lambda cell: _rate("throughput_bytes_per_s", 1e6)(cell) or 0,
    "iops": _rate("iops", 1),
    **{name: _latency(name) for name in ("p50", "p99", "p99_9", "max")},
    "errors": _field("errors"),
    "durability": _field("durability"),
    "cache": _field("cache_state"),
    "regime": _field("regime"),
    "status": lambda cell: "predicted" if cell.get("predicted") else cell.get("status") or "complete",
    "why": _field("regime_evidence"),
}
"""What the table shows of a cell, by the names that app.js has for it."""


def columns(runs: Sequence[Run]) -> dict[str, Any]:
    """`runs`: id and name of each; `columns`: a list of values for each name, `run` being an index into `runs`."""
    cells = [(at, cell) for at, run in enumerate(runs) for cell in run.cells]
    found = {name: [value(cell) for _, cell in cells] for name, value in _COLUMNS.items()}
    return {
        "runs": [{"id": run.document.get("run_id"), "name": _name(run.document)} for run in runs],
        "columns": {"run": [at for at, _ in cells], **found},
    }


def _name(document: Mapping[str, Any]) -> Any:
    names = (document.get("label"), (document.get("target") or {}).get("url"), document.get("run_id"))
    return next((name for name in names if name is not None), "")
